"""The direction suite: what each part may see, the forecasts, the mechanism, the exported decisions."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kit.suites import begun, shared_run
from ucsearch.errors import DataError, InputError
from ucsearch.forecast.base import PathForecast
from ucsearch.lab.suites.evidence.manifest import json_lines
from ucsearch.lab.suites.evidence.rows import check_rows, row_bytes, split_problems
from ucsearch.lab.suites.evidence.sample import chained, draw
from ucsearch.lab.suites.evidence.tables import check_row, fill
from ucsearch.lab.suites.job import SuiteJob, TestSplitClosed
from ucsearch.lab.suites.kinds.direction import ett as direction
from ucsearch.lab.suites.kinds.direction.actions import answers, walk
from ucsearch.lab.suites.kinds.direction.certificates import certificate, certified_walk
from ucsearch.lab.suites.kinds.direction.ett import DirectionSettings
from ucsearch.lab.suites.kinds.direction.sources import (
    DirectionSource,
    Model,
    SeriesPart,
    SeriesSplit,
    calibration,
    forecaster,
    returns_of,
)
from ucsearch.lab.suites.recheck.verify import verify_evidence
from ucsearch.lab.suites.run import Findings, follow_protocol
from ucsearch.lab.suites.suite import load_suite, parse_suite
from ucsearch.policies import UCBeam
from ucsearch.records.canonical import canonical, loads
from ucsearch.tasks.direction import Direction
from ucsearch.verify import verify_file

MINI = "ett-direction-mini"
SMALL = load_suite(MINI)
IDENTITY = {"settings": {"name": MINI}, "suite_sha256": "0" * 64, "card_sha256": "0" * 64}
SPLIT = SeriesSplit(validation=20, test=10, ahead=3)
MODEL = Model(10.0, 5.0, 0.998, True)


def job_in(folder: Path, is_open: bool = False) -> SuiteJob:
    job = SuiteJob(folder, IDENTITY, threads=1, ledger=folder / "looks.jsonl")
    if is_open:
        job.select({"candidate": "any"})
        job.open_test({"any": {"any": [0, 1]}})
    return job


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("direction")


@pytest.fixture(scope="module")
def found(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Findings:
    return follow_protocol(SMALL, begun(job_in(folder), SMALL, tmp_path_factory))


def judged(findings: Findings) -> dict[str, dict[str, Any]]:
    tables = [fill(spec, findings.rows) for spec in findings.tables]
    return {spec["name"]: check_row(spec, tables) for spec in findings.checks}


def on_test(findings: Findings) -> list[dict[str, Any]]:
    return [row["policies"] for row in findings.rows if row["split"] == "test"]


def source(values: Any) -> DirectionSource:
    return DirectionSource("made", 1, SPLIT, (), np.asarray(values, np.float64))


def levels(seed: int = 0, length: int = 120) -> Any:
    return np.cumsum(np.random.default_rng(seed).standard_normal(length))


# -------------------------------------------------------------------- parts


def test_the_test_part_is_closed_until_a_selection_exists(tmp_path: Path) -> None:
    with pytest.raises(TestSplitClosed):
        source(levels()).part("test", job_in(tmp_path / "closed"))
    assert len(source(levels()).part("test", job_in(tmp_path / "open", True)).cutoffs) == 10


def test_parts_follow_each_other_and_share_no_outcome(tmp_path: Path) -> None:
    job, one = job_in(tmp_path, True), source(levels())
    validation, test = one.part("validation", job), one.part("test", job)
    # 120 values, 3 steps ahead: the last test decision sees up to value 116, the first up to 107.
    assert test.cutoffs.tolist() == list(range(107, 117))
    # The last validation decision looks at value 107, the last one that the first test decision has seen.
    assert validation.cutoffs.tolist() == list(range(85, 105))
    assert len(validation.y) == 108
    assert validation.start + len(validation.cutoffs) <= test.start


def test_validation_and_the_unit_ignore_what_comes_later(tmp_path: Path) -> None:
    values = levels()
    job = job_in(tmp_path, True)
    other = values.copy()
    other[108:] += 50.0
    assert np.array_equal(source(values).part("validation", job).y, source(other).part("validation", job).y)
    other[86:] *= 3.0  # everything after the fitting part
    assert np.array_equal(source(values).part("test", job).y[:86], source(other).part("test", job).y[:86])
    other[80] += 9.0
    assert not np.array_equal(source(values).part("test", job).y[:80], source(other).part("test", job).y[:80])


def test_outcomes_are_changes_in_units_of_a_usual_step(tmp_path: Path) -> None:
    values = levels()
    part = source(values).part("test", job_in(tmp_path, True))
    usual = np.diff(values[:86]).std()
    assert part.outcomes == pytest.approx(np.diff(values)[107:117] / usual, abs=1e-12)


def test_a_series_that_never_changes_is_refused(tmp_path: Path) -> None:
    flat = np.concatenate([np.full(100, 5.0), levels(length=20)])
    with pytest.raises(DataError, match="never changes"):
        source(flat).part("validation", job_in(tmp_path))


def test_a_purpose_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="purpose"):
        source(levels()).part("fit", job_in(tmp_path))


# -------------------------------------------------------------------- forecasts


class Sure:
    """Members at known distances around the truth."""

    name = "sure"

    def __init__(self, spread: float) -> None:
        self.spread = spread

    def min_history(self, season: int) -> int:
        return 1

    def forecast(self, y: Any, cutoffs: Any, *, horizon: int, season: int, stream: Any) -> PathForecast:
        truth = y[cutoffs[:, None] + 1 + np.arange(horizon)]
        members = truth[:, None, :] + self.spread * np.linspace(-1.0, 1.0, 9)[None, :, None] + 0.5
        return PathForecast(members, members.mean(axis=1), members.std(axis=1), cutoffs, "sure", "joint")


def test_returns_are_the_steps_of_the_forecast_levels(tmp_path: Path) -> None:
    part = source(levels()).part("validation", job_in(tmp_path))
    made = returns_of(part, Sure(0.0), 3, 5)
    truth = part.y[part.cutoffs[:, None] + 1 + np.arange(3)] + 0.5
    assert made[:, 4].cumsum(axis=1) + part.y[part.cutoffs][:, None] == pytest.approx(truth, abs=1e-12)


def test_a_forecast_does_not_depend_on_what_comes_after_it(tmp_path: Path) -> None:
    part = source(levels()).part("validation", job_in(tmp_path))
    later = SeriesPart(
        part.name, part.season, np.concatenate([part.y[: part.cutoffs[-1] + 1], [99.0] * 3]), part.cutoffs
    )
    made = returns_of(part, forecaster(MODEL, 8), 3, 5)
    assert np.array_equal(returns_of(later, forecaster(MODEL, 8), 3, 5), made)
    earlier = SeriesPart(part.name, part.season, part.y, part.cutoffs[:5])
    assert np.array_equal(returns_of(earlier, forecaster(MODEL, 8), 3, 5), made[:5])


def test_calibration_measures_what_it_says(tmp_path: Path) -> None:
    part = source(levels()).part("validation", job_in(tmp_path))
    wide = calibration(part, Sure(4.0), 3, 1, (0.8, 0.95))
    narrow = calibration(part, Sure(0.1), 3, 1, (0.8, 0.95))
    assert (wide["coverage_80"], narrow["coverage_80"], narrow["coverage_95"]) == (1.0, 0.0, 0.0)
    assert wide["mae"] == pytest.approx(0.5) == wide["rmse"]
    assert narrow["crps"] < wide["crps"]
    assert wide["spread_error_correlation"] == pytest.approx(0.0, abs=1.0)


# -------------------------------------------------------------------- the suite


def test_everything_it_must_show_is_shown(found: Findings) -> None:
    checks = judged(found)
    assert len(checks) == 20
    assert {name for name, row in checks.items() if not row["pass"]} == set()


def test_the_rows_are_of_the_protocols_form(found: Findings) -> None:
    check_rows(found.rows)
    assert split_problems(found.rows, found.splits) == []
    assert sorted({row["split"] for row in found.rows}) == ["test", "validation"]
    assert {row["certificate"]["decisions"] for row in found.rows if row["split"] == "test"} == {
        SMALL.settings.decisions
    }


def test_the_checks_can_fail(found: Findings) -> None:
    rows = [row | {"policies": {k: dict(v) for k, v in row["policies"].items()}} for row in found.rows]
    first = next(row for row in rows if row["split"] == "test")["policies"]
    first["cem"]["expansions"] -= 1
    first["greedy"]["violations"] = 1
    first["uc"]["changed_by_pruning"] = 0.5
    failed = {name for name, row in judged(found._replace(rows=rows)).items() if not row["pass"]}
    assert failed == {
        "expansions of cem per series, least",
        "violations of greedy",
        "share changed by pruning alone without pruning",
    }


def test_the_forecaster_with_the_least_crps_is_written_down_before_the_look(folder: Path, found: Findings) -> None:
    record = json.loads((folder / "selection.json").read_text())
    rows = [row["candidates"] for row in found.rows if row["split"] == "validation"]
    crps = {name: np.mean([row[name]["policies"]["forecast"]["crps"] for row in rows]) for name in rows[0]}
    assert record["candidate"] == min(crps, key=lambda name: crps[name])
    assert record["risk"] == 0.25
    (look,) = (folder / "looks.jsonl").read_text().splitlines()
    assert json.loads(look)["look"] == 1


def test_the_matched_risk_comes_closest_to_the_target(folder: Path, found: Findings) -> None:
    match = json.loads((folder / "selection.json").read_text())["candidates"][0]["settings"]["exposure_match"]
    seen = [row["policies"] for row in found.rows if row["split"] == "validation"]
    assert match["target"] == pytest.approx(np.mean([p["uc"]["exposure"] for p in seen]))
    assert match["exposure"] == pytest.approx(np.mean([p["risk-greedy-matched"]["exposure"] for p in seen]))
    nearest = min(abs(exposure - match["target"]) for _, exposure in match["tried"])
    assert abs(match["exposure"] - match["target"]) == nearest


def test_each_penalty_acts_only_where_it_can(found: Findings) -> None:
    for p in on_test(found):
        assert p["uc"]["changed_by_pruning"] == 0.0
        assert p["uc"]["changed_by_both"] == p["uc"]["changed_by_path"]
        # One candidate is left at top-k 1, so the path's score has nothing to choose from.
        assert p["uc-k1"]["changed_by_path"] == 0.0
        assert p["uc-k1"]["changed_by_both"] == p["uc-k1"]["changed_by_pruning"]
    assert sum(p["uc"]["changed_by_path"] for p in on_test(found)) > 0.0
    assert sum(p["uc-k1"]["changed_by_pruning"] for p in on_test(found)) > 0.0


def test_nobody_beats_hindsight_and_everybody_pays_regret(found: Findings) -> None:
    for p in on_test(found):
        best = p["oracle"]["reward"]
        for name in (*direction.ROWS, *direction.BESIDE):
            assert p[name]["reward"] <= best + 1e-9
            assert p[name]["reward"] + p[name]["regret"] == pytest.approx(best, abs=1e-9)


def test_sampled_decisions_stand_up_to_the_verifier(found: Findings, tmp_path: Path) -> None:
    path = tmp_path / "sample.jsonl"
    drawn = draw(found.rows, found.kind.s.plan().sampled)
    sample = chained(found.kind.sample(drawn))
    path.write_bytes(b"".join(canonical(line) + b"\n" for line in sample))
    verdicts = list(verify_file(path))
    assert [v.status for v in verdicts] == ["valid"] * 4
    assert [line["record"]["series"] for line in sample] == [one.name for one in drawn]
    for line in sample:
        for text in line["blobs"].values():
            assert base64.b64decode(text)
    line = loads(canonical(sample[1]))
    line["record"]["outcome"]["action"] = -line["record"]["outcome"]["action"] or 1
    path.write_bytes(b"".join(canonical(x) + b"\n" for x in [sample[0], line, *sample[2:]]))
    assert "valid" not in [v.status for v in verify_file(path)][1:]


def test_certificates_are_about_the_decisions_of_the_walk() -> None:
    rng = np.random.default_rng(3)
    config, members = Direction(cost=0.4), rng.standard_normal((25, 6, 3))
    policy = UCBeam(depth=3, width=3, top_k=3, risk=0.25, spread="variance", order="score")
    (one,) = walk(config, [answers(config, members, policy)], rng.standard_normal(25))
    panel = certified_walk(config, members, one.action, policy, model="drawn")
    assert panel.certified.plan.action.tolist() == one.action.tolist()
    held = panel.certified.plan.inputs.states[:, 0]
    assert held.tolist() == [0.0, *one.action[:-1].tolist()]
    assert len(set(one.action)) == 3
    tuple_ = certificate(panel)
    assert tuple_["decisions"] == 25
    assert tuple_["passed"] == sum(panel[n].certificate.certificate_pass for n in range(25))  # type: ignore[union-attr]
    assert 0 < tuple_["risk_active"] < tuple_["passed"]
    assert tuple_["released"] == tuple_["passed"]


@pytest.mark.slow
def test_a_second_run_gives_the_same_bytes(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    again = shared_run(MINI, tmp_path_factory).folder
    found = follow_protocol(load_suite(MINI), job_in(tmp_path))
    assert (again / "rows.jsonl").read_bytes() == row_bytes(found.rows)
    sample = chained(found.kind.sample(draw(found.rows, found.kind.s.plan().sampled)))
    assert (again / "sample.jsonl").read_bytes() == json_lines(sample)


@pytest.mark.slow  # the committed folder is verified by default
def test_its_evidence_stands_up_to_the_recheck(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = shared_run(MINI, tmp_path_factory)
    report = verify_evidence(run.folder)
    assert (report.code, report.problems, report.malformed) == (0, (), "")
    assert run.verdict["class"] == "boundary"
    assert run.verdict["key"]["checks_passed"] == run.verdict["key"]["checks"] > 0


def test_the_full_suite_asks_for_the_papers_counts() -> None:
    s: DirectionSettings = load_suite("ett-direction").settings
    assert s.files == ("ETTh1", "ETTh2", "ETTm1", "ETTm2")
    assert (s.decisions, s.risk, s.policy_seeds) == (511, 0.25, 10)
    assert s.expect_beam == s.decisions * s.top_k * (1 + s.width * (s.depth - 1)) == 10731
    assert s.expect_sampling == s.decisions * s.samples * s.depth == 36792


def test_unknown_settings_are_refused() -> None:
    text = load_suite(MINI).text.replace("paths = 10", "paths = 10\npath = 1")
    with pytest.raises(InputError, match="path"):
        parse_suite(text)
