"""The robustness suite: each stress does what its card says, the monitor gets what was recorded, the mini run holds."""

from __future__ import annotations

import json

import numpy as np
import pytest

from studies.stress_figure import stress_figure
from tests.kit.suites import shared_run
from ucsearch.errors import InputError
from ucsearch.lab.suites.kinds.stressors.world import CLEAN, Stress, StressedWorld, recorded, shifted, watched
from ucsearch.lab.suites.kinds.walkforward.settings import WalkForwardSettings
from ucsearch.lab.suites.recheck.verify import verify_evidence
from ucsearch.replay.panel import Stretch

ONSET, DECISIONS, START = 6, 14, 80
TASK = {"name": "lead_time_inventory", "lead_time": 1, "holding": 1.0, "shortage": 9.0}


def window() -> Stretch:
    rng = np.random.default_rng(7)
    y = 5.0 + np.sin(np.arange(120) / 3.0) + 0.3 * rng.standard_normal(120)
    return Stretch("f", "a", 0, START, DECISIONS, 7, y, 1.0)


def members(stress: Stress | None) -> np.ndarray:
    settings = WalkForwardSettings(families=("sample-daily",), task=TASK, multiples=(0.0, 1.0), paths=50, floor=0.0)
    made = StressedWorld(settings, stress, ONSET).panel([shifted(window(), stress, ONSET)], 3, 1)
    return np.asarray(made.members[0])


@pytest.mark.parametrize(
    "stress",
    [Stress("noise", 1.0), Stress("bias", -1.0), Stress("spread", 0.5), Stress("missing", 0.5),
     Stress("outliers", 0.3), Stress("delay", 2.0), Stress("shift", 1.0)],
    ids=lambda s: s.name,
)  # fmt: skip
def test_a_stress_begins_at_its_onset_and_leaves_what_was_before(stress: Stress) -> None:
    clean, hit = members(None), members(stress)
    np.testing.assert_array_equal(hit[:ONSET], clean[:ONSET])
    assert not np.array_equal(hit[ONSET:], clean[ONSET:])
    spread = clean[ONSET:].std(axis=1)
    if stress.kind == "bias":
        np.testing.assert_allclose(hit[ONSET:].mean(axis=1), clean[ONSET:].mean(axis=1) - spread)
    if stress.kind == "spread":
        np.testing.assert_allclose(hit[ONSET:].std(axis=1), 0.5 * spread)
        np.testing.assert_allclose(hit[ONSET:].mean(axis=1), clean[ONSET:].mean(axis=1))


def test_late_values_are_a_forecast_from_earlier_on() -> None:
    late = members(Stress("delay", 2.0))
    # Nothing that happened in the last two periods may show: change them and forecast again.
    settings = WalkForwardSettings(families=("sample-daily",), task=TASK, multiples=(0.0, 1.0), paths=50, floor=0.0)
    one = window()
    y = one.y.copy()
    y[START + DECISIONS - 3 : START + DECISIONS - 1] += 50.0  # known to the last decision, but not yet if they are late
    changed = Stretch(one.family, one.series, 0, START, DECISIONS, 7, y, 1.0)
    again = StressedWorld(settings, Stress("delay", 2.0), ONSET).panel([changed], 3, 1).members[0]
    np.testing.assert_array_equal(again[-1], late[-1])


def test_records_miss_or_exaggerate_the_declared_share() -> None:
    y = np.ones(5000)
    gone, wrong = (recorded(y, 1000, Stress(kind, 0.2), [3]) for kind in ("missing", "outliers"))
    assert not np.isnan(gone[:1000]).any()
    assert abs(np.isnan(gone[1000:]).mean() - 0.2) < 0.03
    assert set(np.unique(wrong)) == {1.0, 5.0}
    assert abs((wrong[1000:] == 5.0).mean() - 0.2) < 0.03


def test_the_monitor_sees_a_bias_after_the_onset_and_blocks_from_then_on() -> None:
    settings = WalkForwardSettings(families=("sample-daily",), task=TASK, multiples=(0.0, 1.0), paths=60)
    one = Stretch("f", "a", 0, 80, 60, 7, np.tile(window().y[:100], 2), 1.0)
    panel = StressedWorld(settings, None, 20).panel([one], 3, 1)
    outcomes = np.array(panel.members[:, :, 30, 0])  # always an ordinary one
    outcomes[:, 20:] = panel.members[:, 20:, :, 0].max(axis=2) + 1.0
    found = watched(panel, outcomes, 20, 0)
    assert found.delay[0] is not None
    assert not found.blocked[0, : 20 + found.delay[0]].any()
    assert found.blocked[0, 20 + found.delay[0]]
    late = watched(panel, outcomes, 20, 3)
    assert late.delay[0] == found.delay[0] + 3


@pytest.mark.parametrize("stress", [("missing", 1.0), ("delay", 1.5), ("shift", -1.0), ("spread", float("nan"))])
def test_sizes_that_mean_nothing_are_refused(stress: tuple[str, float]) -> None:
    with pytest.raises(InputError, match="size"):
        Stress(*stress).check()  # type: ignore[arg-type]


def test_the_mini_suite_runs_verifies_and_draws_its_figure(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = shared_run("stressors-mini", tmp_path_factory)
    report = verify_evidence(run.folder)
    assert (report.problems, report.malformed) == ((), "")
    rows = [json.loads(line) for line in (run.folder / "rows.jsonl").read_text().splitlines()]
    stresses = {CLEAN, "noise 1", "bias -3", "spread 0.1", "missing 0.5", "outliers 0.1", "delay 3", "shift +1"}
    assert all(set(row["policies"]) == stresses for row in rows)
    # Demand that doubles costs more where shortage is dear, whoever plans.
    assert sum(r["policies"]["shift +1"]["cost"] for r in rows) > sum(r["policies"][CLEAN]["cost"] for r in rows)
    # The verifier gets decisions of every stress, drawn by the rows; the windows' certificates are those without one.
    assert all(row["certificate"]["passed"] == row["decisions"] for row in rows)
    sample = [json.loads(line) for line in (run.folder / "sample.jsonl").read_text().splitlines()]
    steps = [int(one["record"]["series"].rsplit("/", 1)[1]) for one in sample]
    assert len(sample) == 12
    assert {step % 8 for step in steps if step >= 8} > {0}
    assert any("12 of 12 sampled decisions" in note for note in report.notes)
    drawn = stress_figure(run.statement["predicate"]["tables"][0])
    assert drawn.count("<title>") == 2 * 8
    assert "shift +1" in drawn
