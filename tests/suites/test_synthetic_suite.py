"""The sign-flip suite: its generator, its walk, what it must show, and its resumption."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kit.suites import begun, shared_run
from ucsearch.errors import InputError
from ucsearch.lab.suites.evidence.rows import check_rows, row_bytes, split_problems
from ucsearch.lab.suites.evidence.tables import check_row, fill
from ucsearch.lab.suites.job import SuiteJob, TestSplitClosed
from ucsearch.lab.suites.kinds.direction import synthetic
from ucsearch.lab.suites.kinds.direction.actions import ActionTable, answers, figures, hindsight, walk
from ucsearch.lab.suites.kinds.direction.synthetic import SyntheticSettings, make_world
from ucsearch.lab.suites.recheck.verify import verify_evidence
from ucsearch.lab.suites.run import Findings, follow_protocol
from ucsearch.lab.suites.suite import load_suite, parse_suite
from ucsearch.policies import UCBeam
from ucsearch.task import Task
from ucsearch.tasks.direction import Direction

MINI = "synthetic-mini"
IDENTITY = {"settings": {"name": MINI}, "suite_sha256": "0" * 64, "card_sha256": "0" * 64}


def job_in(folder: Path) -> SuiteJob:
    return SuiteJob(folder, IDENTITY, threads=1, ledger=folder / "looks.jsonl")


def run_in(folder: Path) -> Findings:
    return follow_protocol(load_suite(MINI), job_in(folder))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("synthetic")


@pytest.fixture(scope="module")
def found(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Findings:
    return follow_protocol(load_suite(MINI), begun(job_in(folder), MINI, tmp_path_factory))


def judged(findings: Findings) -> dict[str, dict[str, Any]]:
    tables = [fill(spec, findings.rows) for spec in findings.tables]
    return {spec["name"]: check_row(spec, tables) for spec in findings.checks}


# -------------------------------------------------------------------- the generator


def test_the_forecast_is_blind_to_flips_in_its_mean_and_not_in_its_spread() -> None:
    s = SyntheticSettings(decisions=4000, noise=0.2)
    world = make_world(s, np.random.default_rng(7))
    mean, spread = world.members.mean(axis=1), world.members.std(axis=1)
    now = mean[:, 0] / s.memory  # the signal when the forecast was made
    assert np.allclose(mean[:, 2], s.memory**3 * now, atol=1e-12)
    # One step ahead, worked out for each regime: the chance of a flip is a mixture of the regimes one step on.
    for turbulent in (False, True):
        stays = 1.0 - s.out_of_turbulence if turbulent else s.into_turbulence
        flip = stays * s.turbulent_flip + (1.0 - stays) * s.calm_flip
        here = world.turbulent == turbulent
        wanted = 4 * flip * (1 - flip) * mean[here, 0] ** 2 + (1 - s.memory**2) * s.signal**2 + s.noise**2
        assert np.allclose(spread[here, 0] ** 2, wanted, rtol=1e-12)


def test_signs_flip_as_often_as_the_regime_says() -> None:
    s = SyntheticSettings(decisions=60_000, noise=0.0, memory=0.999999, out_of_turbulence=0.01, into_turbulence=0.01)
    world = make_world(s, np.random.default_rng(11))
    flipped = np.sign(world.outcomes) != np.sign(world.members.mean(axis=1)[:, 0])
    assert flipped[~world.turbulent].mean() == pytest.approx(0.05 + 0.01 * 0.45, abs=0.01)
    assert flipped[world.turbulent].mean() == pytest.approx(0.5 - 0.01 * 0.45, abs=0.015)


def test_turbulence_takes_its_share_and_lasts() -> None:
    world = make_world(SyntheticSettings(decisions=80_000), np.random.default_rng(5))
    assert world.turbulent.mean() == pytest.approx(0.04 / 0.14, abs=0.02)
    after = world.turbulent[1:][world.turbulent[:-1]]
    assert after.mean() == pytest.approx(0.9, abs=0.01)


def test_what_is_earned_is_the_signal_of_the_step_after_the_decision() -> None:
    s = SyntheticSettings(decisions=30, noise=0.0, calm_flip=0.0, turbulent_flip=0.0)
    world = make_world(s, np.random.default_rng(9))
    signal = world.members.mean(axis=1)[:, 0] / s.memory
    assert np.allclose(world.outcomes[:-1], signal[1:], atol=1e-12)


def test_worlds_are_a_function_of_their_seed() -> None:
    s = SyntheticSettings(decisions=20)
    one, same, other = (make_world(s, np.random.default_rng(seed)) for seed in (3, 3, 4))
    assert np.array_equal(one.members, same.members)
    assert np.array_equal(one.outcomes, same.outcomes)
    assert not np.array_equal(one.outcomes, other.outcomes)


# -------------------------------------------------------------------- the walk and the oracle


@pytest.mark.parametrize("charge", ["exposure", "change"])
def test_a_walk_is_what_a_plain_loop_gives(charge: Any) -> None:
    rng = np.random.default_rng(2)
    config = Direction(cost=0.3, charge=charge)
    members, outcomes = rng.standard_normal((15, 4, 2)), rng.standard_normal(15)
    policy = UCBeam(depth=2, width=3, risk=0.4, spread="variance", order="score")
    table = answers(config, members, policy)
    (one,) = walk(config, [table], outcomes)
    held, spent = 0.0, 0
    for t, y in enumerate(outcomes):
        place = int(held) + 1 if charge == "change" else 0
        a = float(table.action[t, place]) - 1.0
        spent += int(table.expansions[t, place])
        charged = abs(a - held) if charge == "change" else abs(a)
        assert one.action[t] == a
        assert one.reward[t] == pytest.approx(a * y - 0.3 * charged, abs=1e-12)
        held = a
    assert one.expansions == spent
    assert set(one.action) == {-1.0, 0.0, 1.0}


def only_long(s: Any, a: float, p: Any) -> bool:
    return a >= 0.0


class OnlyLong(Direction):
    """Short is in the grid and not allowed."""

    def task(self) -> Task:
        return dataclasses.replace(super().task(), feasible=only_long)


def test_an_action_that_is_not_allowed_is_counted() -> None:
    index = np.array([[0, 0, 0], [1, 1, 1], [0, 0, 0]])
    table = ActionTable(index, np.zeros_like(index), np.zeros_like(index))
    assert [walk(config, [table], np.zeros(3))[0].violations for config in (Direction(), OnlyLong())] == [0, 2]


@pytest.mark.parametrize("cost", [0.0, 0.2, 5.0])
def test_the_best_walk_in_hindsight_is_the_best_of_all(cost: float) -> None:
    config, outcomes = Direction(cost=cost, charge="change"), np.random.default_rng(1).standard_normal(40)
    value = {-1.0: -np.inf, 0.0: 0.0, 1.0: -np.inf}
    for y in outcomes:
        value = {a: max(value[b] + a * y - cost * abs(a - b) for b in value) for a in value}
    best = hindsight(config, outcomes)
    assert best.reward.sum() == pytest.approx(max(value.values()), abs=1e-9)
    assert figures(best, best, 5)["regret"] == 0.0


def test_without_cost_on_change_the_best_walk_is_the_best_of_every_step() -> None:
    config, outcomes = Direction(cost=0.4, charge="exposure"), np.random.default_rng(1).standard_normal(40)
    best = synthetic._best(config, outcomes)
    assert best.reward == pytest.approx([max(a * y - 0.4 * abs(a) for a in (-1, 0, 1)) for y in outcomes], abs=1e-12)
    assert best.reward == pytest.approx(hindsight(config, outcomes).reward, abs=1e-12)
    assert best.reward == pytest.approx(best.action * outcomes - 0.4 * np.abs(best.action), abs=1e-12)


# -------------------------------------------------------------------- the suite


def test_everything_it_must_show_is_shown(found: Findings) -> None:
    checks = judged(found)
    assert len(checks) == 23
    assert {name for name, row in checks.items() if not row["pass"]} == set()


def test_the_rows_are_of_the_protocols_form(found: Findings) -> None:
    check_rows(found.rows)
    assert split_problems(found.rows, found.splits) == []
    names = [row["series"] for row in found.rows if row["split"] == "test"]
    assert names == ["test-0", "test-1"]


def test_the_checks_can_fail(found: Findings) -> None:
    rows = [row | {"policies": {k: dict(v) for k, v in row["policies"].items()}} for row in found.rows]
    tested = next(row for row in rows if row["split"] == "test")
    tested["policies"]["beam"]["differs_from_greedy"] = 1
    tested["policies"]["uc"]["expansions"] += 1
    tested["policies"]["greedy"]["reward_plus_regret_less_best"] = 1e-6
    tested["policies"]["cem"]["violations"] = 1
    failed = {name for name, row in judged(found._replace(rows=rows)).items() if not row["pass"]}
    assert failed == {
        "decisions where beam and greedy differ",
        "expansions of uc per series, most",
        "reward plus regret less the hindsight reward, most",
        "violations of cem",
    }


def test_the_penalty_changes_decisions_and_the_search_does_not(found: Findings) -> None:
    tests = [row["policies"] for row in found.rows if row["split"] == "test"]
    assert sum(p["uc"]["differs_from_greedy"] for p in tests) > 0
    for p in tests:
        assert p["uc"]["reward"] == p["risk-greedy"]["reward"]
        assert p["uc"]["exposure"] < p["beam"]["exposure"]


def test_lambda_is_the_one_with_the_largest_validation_reward(folder: Path, found: Findings) -> None:
    rows = [row["candidates"] for row in found.rows if row["split"] == "validation"]
    mean = {name: np.mean([row[name]["policies"]["uc"]["reward"] for row in rows]) for name in rows[0]}
    chosen = max(mean, key=lambda name: mean[name])
    assert f'"candidate":"{chosen}"' in (folder / "selection.json").read_text()
    assert len((folder / "looks.jsonl").read_text().splitlines()) == 1


def test_test_series_are_refused_before_the_test_split_is_open(tmp_path: Path) -> None:
    with pytest.raises(TestSplitClosed):
        synthetic._test_row(load_suite(MINI), job_in(tmp_path), 0, 1.0)


def test_a_killed_run_goes_on_and_ends_the_same(
    found: Findings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = row_bytes(found.rows)
    original, calls = synthetic._test_row, []

    def killed(*args: Any) -> Any:
        calls.append(args)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(*args)

    monkeypatch.setattr(synthetic, "_test_row", killed)
    with pytest.raises(KeyboardInterrupt):
        run_in(tmp_path / "cut")
    resumed = run_in(tmp_path / "cut")
    assert len(calls) == 3  # the first test series was not computed again
    assert row_bytes(resumed.rows) == whole
    assert len((tmp_path / "cut" / "looks.jsonl").read_text().splitlines()) == 1


def test_its_evidence_stands_up_to_the_recheck(tmp_path_factory: pytest.TempPathFactory) -> None:
    run = shared_run(MINI, tmp_path_factory)
    report = verify_evidence(run.folder)
    assert (report.code, report.problems, report.malformed) == (0, (), "")
    assert run.verdict["class"] == "boundary"
    assert run.verdict["key"]["checks_passed"] == run.verdict["key"]["checks"] > 0


def test_the_full_suite_asks_for_the_papers_counts() -> None:
    s: SyntheticSettings = load_suite("synthetic").settings
    assert (s.seeds, s.decisions, s.policy_seeds) == (5, 128, 10)
    children = s.top_k * (1 + s.width * (s.depth - 1))
    assert s.expect_beam == s.decisions * children == 2688
    assert s.expect_sampling == s.decisions * s.samples * s.depth == 12288


def test_unknown_settings_are_refused() -> None:
    text = load_suite(MINI).text.replace("samples = 32", "samples = 32\nsample = 1")
    with pytest.raises(InputError, match="sample"):
        parse_suite(text)
