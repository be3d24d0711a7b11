"""The mechanism suite: Proposition 2 and the certificate tuple against brute force, the predictors, the protocol."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kit.suites import shared_run
from ucsearch import policies
from ucsearch.certificate.api import certify_panel
from ucsearch.engine.api import search_panel
from ucsearch.errors import InputError
from ucsearch.lab.data.records import Series
from ucsearch.lab.suites.job import SuiteJob, TestSplitClosed
from ucsearch.lab.suites.kinds import series
from ucsearch.lab.suites.kinds.mechanism import run as mechanism
from ucsearch.lab.suites.kinds.mechanism.bound import Retained, beta_needed, excess, quantile, slacks
from ucsearch.lab.suites.kinds.mechanism.measure import Diagnosis, coverage, is_complete
from ucsearch.lab.suites.kinds.mechanism.paths import RolledPlans
from ucsearch.lab.suites.kinds.mechanism.rows import beam_figures, declare_source, weigh
from ucsearch.lab.suites.kinds.mechanism.rules import RULES, OrderCase, balanced, count, fit_rules, predict
from ucsearch.lab.suites.kinds.series import Family, Stretch, load_family
from ucsearch.lab.suites.recheck.verify import verify_evidence
from ucsearch.lab.suites.run import SuiteRun, evaluate
from ucsearch.lab.suites.suite import load_suite, parse_suite
from ucsearch.policies import CertifiedBeam, Exact, Proof, UCBeam
from ucsearch.records.canonical import loads
from ucsearch.replay.panel import Panel
from ucsearch.replay.walk import Seen
from ucsearch.tasks import DelayedExposure
from ucsearch.tasks.base import bind

MINI = "mechanism-mini"
SMALL = load_suite(MINI)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> SuiteRun:
    return shared_run(SMALL, tmp_path_factory)


def rows_of(run: SuiteRun, split: str) -> list[dict[str, Any]]:
    lines = (run.folder / "rows.jsonl").read_bytes().splitlines()
    return [row for row in map(loads, lines) if row["split"] == split]


def table_of(run: SuiteRun, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(t for t in run.statement["predicate"]["tables"] if t["name"] == name)
    return found


def cells(run: SuiteRun, name: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    table = table_of(run, name)
    size, names = len(table["group"]), [c["name"] for c in table["columns"]]
    return {tuple(line[:size]): dict(zip(names, line[size:], strict=True)) for line in table["rows"]}


# -------------------------------------------------------------------- Proposition 2 against brute force


def random_paths(rng: np.random.Generator, count: int) -> list[Retained]:
    uncertainty = rng.exponential(1.0, count) * (rng.random(count) < 0.8)
    forecast = rng.normal(0.0, 2.0, count)
    realised = forecast + rng.normal(0.0, 1.0, count) * (0.2 + uncertainty)
    return [Retained(*map(float, p)) for p in zip(forecast, uncertainty, realised, strict=True)]


def test_proposition_2_holds_for_every_comparator_of_every_small_case() -> None:
    rng = np.random.default_rng(0)
    for _ in range(400):
        every = random_paths(rng, 12)
        kept = every[: int(rng.integers(1, 5))]
        risk = float(rng.uniform(0.05, 2.0))
        beta = min(risk, beta_needed(kept))
        chosen = int(np.argmax([p.forecast - risk * p.uncertainty for p in kept]))
        eps_c = excess(kept, beta)
        assert all(abs(p.forecast - p.realised) <= beta * p.uncertainty + eps_c + 1e-12 for p in kept)
        for q in every:
            found = slacks(kept, chosen, q.realised, q.uncertainty, risk=risk, beta=beta, eps_c=eps_c)
            # The statement as the paper writes it, the best proxy found by trying all.
            best = min(
                max(0.0, q.realised - p.realised) + (risk + beta) * max(0.0, p.uncertainty - q.uncertainty)
                for p in kept
            )
            right = q.realised - (risk + beta) * q.uncertainty - best - 2.0 * eps_c
            assert kept[chosen].realised >= right - 1e-9
            assert found.bound == pytest.approx(q.realised - right)
            assert found.regret == pytest.approx(q.realised - kept[chosen].realised)

    # Two paths of equal score that miss by beta in opposite directions reach the bound: a smaller one would be false.
    worst = [Retained(0.0, 1.0, -1.0), Retained(0.0, 1.0, 1.0)]
    assert slacks(worst, 0, 1.0, 1.0, risk=1.0, beta=1.0, eps_c=0.0).left == 0.0


def test_proposition_2_needs_its_premises() -> None:
    # A beta above lambda: the penalty does not cover what the forecast may miss.
    kept = [Retained(1.0, 1.0, 0.0), Retained(0.5, 0.0, 0.5)]
    assert slacks(kept, 0, 0.5, 0.0, risk=0.01, beta=1.0, eps_c=excess(kept, 1.0)).left < 0.0
    assert slacks(kept, 0, 0.5, 0.0, risk=0.01, beta=0.01, eps_c=excess(kept, 0.01)).left >= 0.0
    # An eps_c below what was measured.
    bad = [Retained(5.0, 0.0, 0.0), Retained(1.0, 0.0, 1.0)]
    assert slacks(bad, 0, 1.0, 0.0, risk=1.0, beta=0.0, eps_c=0.0).left < 0.0
    assert slacks(bad, 0, 1.0, 0.0, risk=1.0, beta=0.0, eps_c=excess(bad, 0.0)).left >= 0.0


def test_the_smallest_beta_is_the_smallest() -> None:
    rng = np.random.default_rng(1)
    for _ in range(100):
        paths = [p for p in random_paths(rng, 4) if p.uncertainty > 0.0]
        if paths:
            beta = beta_needed(paths)
            assert excess(paths, beta * (1.0 + 1e-12)) <= 1e-12
            assert excess(paths, beta * 0.999) > 0.0
    assert beta_needed([Retained(1.0, 0.0, 2.0)]) == math.inf
    assert beta_needed([Retained(1.0, 0.0, 1.0)]) == 0.0


def test_the_quantile_is_one_of_the_values_and_covers_its_share() -> None:
    values = [float(x) for x in range(1, 21)]
    assert quantile(values, 0.95) == 19.0
    assert quantile([3.0, 1.0], 0.95) == 3.0
    assert quantile([], 0.95) is None


# -------------------------------------------------------------------- plans, replayed apart from the engines

EXPOSURE = DelayedExposure(delay=1, changes=(-1.0, 0.0, 1.0), capacity=3.0, cost=0.05, closing_cost=0.1)
# The task of the mini suite, so that its kernels are compiled once.
BINDING = bind(load_suite(MINI).settings.sources["exposure"].task, None)
START = DelayedExposure().state()


def panel_on(stretches: tuple[Stretch, ...], members: Any, future: Any) -> Panel:
    task, rows = EXPOSURE.task(), start_rows(len(stretches))
    none = tuple(np.zeros(0) for _ in stretches)
    return Panel(task, EXPOSURE, rows[1], rows[0], stretches, members, future[:, :, 0], future, none, "made")


def small_panel(seed: int = 3, windows: int = 4, beyond: int = 3) -> Panel:
    """Two decisions in each window; `beyond` values follow the last one decided."""
    rng = np.random.default_rng(seed)
    members = rng.normal(0.1, 0.4, (windows, 2, 8, 3)) + rng.normal(0.0, 0.3, (windows, 2, 1, 3))
    future = rng.normal(0.0, 0.5, (windows, 2, 3))
    stretches = tuple(
        Stretch("family", f"s{n}", 0, 10, 2, 1, np.zeros(12 + beyond), 1.0) for n in range(windows)
    )  # fmt: skip
    return panel_on(stretches, members, future)


def every_plan(windows: int, actions: int, depth: int) -> tuple[Any, Any]:
    plans = np.array(list(itertools.product(range(actions), repeat=depth)))
    return np.tile(plans, (windows, 1)), np.repeat(np.arange(windows), len(plans))


def test_replayed_plans_earn_what_the_engine_says_and_brute_force_finds_the_same_best() -> None:
    panel, risk = small_panel(), 0.3
    task, trace = EXPOSURE.task(), panel.trace(0)
    states = [EXPOSURE.state(x) for x in (-3.0, 0.0, 1.0, 3.0)]
    layout = task.layout(states[0])
    rows = np.array([layout.flatten(s, "state") for s in states])
    plans, at = every_plan(4, 3, 3)
    both = RolledPlans(task, layout, rows[at], plans, None, None)
    members = trace.members[:, :, :, 0]
    weights = np.broadcast_to(trace.weights, members.shape[:2])
    reward, uncertainty = both.foreseen(members[at], trace.mean[at, :, 0], weights[at])
    earned = both.realised(panel.future[at, 0])
    score = np.where(np.isnan(reward), -np.inf, reward - risk * uncertainty).reshape(4, 27)
    exact = search_panel(
        task, states, trace, Exact(depth=3, risk=risk, spread="std", every_action=True), engine="python"
    )
    best = search_panel(task, states, panel.hindsight(0), Exact(depth=3, spread="std"), engine="python")
    # Positions at a limit leave some plans forbidden, and those are worth nothing.
    assert np.isnan(reward).any()
    assert any(exact[n].states[-1].position + sum(exact[n].states[-1].pending) != 0.0 for n in range(4))  # it costs
    assert np.array_equal(np.isnan(reward), np.isnan(earned))
    assert score.max(axis=1) == pytest.approx(exact.score)
    assert np.nanmax(earned.reshape(4, 27), axis=1) == pytest.approx(best.reward)
    values = score.reshape(4, 3, 9).max(axis=2)
    known = np.isfinite(values)
    assert values[known] == pytest.approx(exact.outputs.table[:, :, 3][known])
    beam = certify_panel(task, states, trace, CertifiedBeam(depth=3, width=3, top_k=3, risk=risk, spread="std"),
                         proof=Proof(kind="oracle"), run=policies.Run(engine="python"))  # fmt: skip
    for n in range(4):
        for a in np.flatnonzero(~np.isnan(beam.evidence.lower[n])).tolist():
            i = np.flatnonzero((at == n) & (plans == beam.paths[n, a]).all(axis=1))[0]
            assert reward[i] == pytest.approx(beam.evidence.lower_reward[n, a])
            assert uncertainty[i] == pytest.approx(beam.evidence.lower_uncertainty[n, a])


def start_rows(count: int) -> tuple[Any, Any]:
    layout = BINDING.task.layout(START)
    return np.array([layout.flatten(START, "state")] * count), layout


def diagnosed(panel: Panel, **changes: Any) -> tuple[Diagnosis, Any]:
    settings = load_suite(MINI).settings.model_copy(update={"risk": 0.3, **changes})
    diagnosis = Diagnosis(panel, BINDING, settings, threads=1)
    rows, layout = start_rows(len(panel))
    for t in range(2):
        table = np.broadcast_to(panel.task.action_array, (len(panel), 3))
        diagnosis(Seen(t, rows, layout, panel.trace(t), table, table == table, None, None, lambda n: np.zeros(0)))
    return diagnosis, settings


def test_margins_of_a_decision_are_those_of_brute_force() -> None:
    panel = small_panel(seed=9, windows=24)
    diagnosis, settings = diagnosed(panel)
    rows, layout = start_rows(24)
    plans, at = every_plan(24, 5, 3)
    trace = panel.trace(1)
    members = trace.members[:, :, :, 0]
    reward, uncertainty = RolledPlans(BINDING.task, layout, rows[at], plans, None, None).foreseen(
        members[at], trace.mean[at, :, 0], np.broadcast_to(trace.weights, members.shape[:2])[at]
    )
    exact = np.nan_to_num(reward - 0.3 * uncertainty, nan=-np.inf).reshape(24, 5, 25).max(axis=2)
    lost, outranked = 0, 0
    for n in range(24):
        for name in settings.beams:
            beam = diagnosis.found[n][1]["beams"][name]
            plan = search_panel(BINDING.task, [START], trace.window(n), settings.policy(name), engine="python")
            chosen = int(plan.outputs.out_i[0, 1])
            rival = max(exact[n, a] for a in range(5) if a != chosen)
            assert beam["suffix_margin"] == pytest.approx(exact[n, chosen] - rival)
            # What is submitted now executes a step later: first steps are equal, and all is in the suffix.
            assert beam["local_loss"] == pytest.approx(0.0, abs=1e-12)
            assert beam["suffix_advantage"] == pytest.approx(exact[n, chosen] - rival)
            assert beam["exact_regret"] == pytest.approx(exact[n].max() - exact[n, chosen], abs=1e-12)
            assert beam["preserved"] == (exact[n, chosen] >= exact[n].max() - 1e-9)
            assert beam["expansions"] <= settings.most_expansions == 3 * (1 + 3 * 2)
            lost += not beam["preserved"]
            outranked += beam["oracle_retained"] and not beam["preserved"]
        assert diagnosis.found[n][1]["exact"]["first_equal"] is True
    # A cap of three out of five loses the best action, or keeps it with a suffix so poor that another one wins.
    assert lost > outranked > 0


def test_selected_paths_come_with_what_really_happened() -> None:
    panel = small_panel(seed=8)
    diagnosis, settings = diagnosed(panel)
    for n in range(4):
        for name in settings.beams:
            beam = diagnosis.found[n][0]["beams"][name]
            forecast, uncertainty, _ = beam["paths"][beam["selected"]]
            scores = [p[0] - 0.3 * p[1] for p in beam["paths"]]
            assert forecast - 0.3 * uncertainty == max(scores)
            hindsight = diagnosis.found[n][0]["hindsight"]["realised"]
            assert all(p[2] <= hindsight + 1e-12 for p in beam["paths"])
        # The exact plan is the best of all under the forecast.
        exact = diagnosis.found[n][0]["exact"]
        assert exact["forecast"] - 0.3 * exact["uncertainty"] >= max(scores) - 1e-12


def test_decisions_whose_future_is_not_known_are_not_measured() -> None:
    # Decisions at 10 and 11 with plans of 3 steps: with values up to 13 the second one's last step is missing.
    assert [is_complete(small_panel(beyond=2), 0, t, 3) for t in (0, 1)] == [True, True]
    panel = small_panel(beyond=1)
    assert [is_complete(panel, 0, t, 3) for t in (0, 1)] == [True, False]
    diagnosis, settings = diagnosed(panel)
    declared = declare_source(diagnosis.found, settings)
    figures = beam_figures(diagnosis.found[0], "uc", settings, declared["uc"])
    assert figures["measured"] == 1
    assert figures["met_rule"] == 0
    assert coverage(panel, 0, 3, (0.8,))["points"] == 3


def test_coverage_counts_outcomes_inside_the_central_interval() -> None:
    members = np.arange(1.0, 10.0)[None, None, :, None] * np.ones((1, 2, 1, 3))
    future = np.array([[[2.0, 1.9, 8.0], [8.1, 5.0, 0.0]]])
    panel = panel_on((Stretch("f", "s", 0, 10, 2, 1, np.zeros(20), 1.0),), members, future)
    # Nine members 1 to 9: by Weibull's positions the central 60 % interval is [2, 8].
    assert coverage(panel, 0, 3, (0.6, 0.8)) == {"points": 6, "inside": [3, 5]}


# -------------------------------------------------------------------- predictors


def case(
    preserved: bool, margin: float, *, retained: bool = True, eps_a: float = 0.0, passed: bool = False
) -> OrderCase:
    return OrderCase(preserved, retained, False, margin, eps_a, passed)


def test_corollary_5_is_read_as_written() -> None:
    assert predict("corollary", {}, case(True, 2.1, eps_a=1.0))
    assert not predict("corollary", {}, case(True, 2.0, eps_a=1.0))
    assert not predict("corollary", {}, case(True, 9.0, retained=False))
    assert not predict("corollary", {}, case(True, math.inf))  # no retained rival, no retained margin
    assert predict("corollary", {}, OrderCase(True, True, True, math.inf, 0.0, True))


def test_constants_are_fitted_by_balanced_accuracy() -> None:
    # Nine preserved orders and one that is not: "always" is right in 0.9 and worth nothing.
    cases = [case(True, margin) for margin in (0.1, 0.2, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6)] + [case(False, 0.3)]
    rule = fit_rules(cases)["margin"]
    assert 0.3 < rule["threshold"] < 1.0
    assert balanced(count("margin", rule, cases)) == pytest.approx((7 / 9 + 1) / 2)
    assert balanced(count("majority", fit_rules(cases)["majority"], cases)) == 0.5
    slack = [case(True, 1.0, eps_a=0.1), case(False, 1.2, eps_a=0.5), case(True, 0.8, eps_a=0.0)]
    assert balanced(count("tuple", fit_rules(slack)["tuple"], slack)) == 1.0
    assert fit_rules(slack)["tuple"]["weight"] > 0.0


def test_a_beam_that_keeps_one_action_is_judged_by_what_validation_says_of_such_beams() -> None:
    cases = [case(False, math.inf)] * 3 + [case(True, 1.0)] * 3
    assert fit_rules(cases)["margin"] == {"alone": False, "threshold": None}


def test_balanced_accuracy_by_hand() -> None:
    cases = [case(True, 2.0), case(True, 0.5), case(True, 2.0), case(True, 3.0), case(False, 2.0), case(False, 0.1)]
    counts = count("margin", {"alone": True, "threshold": 1.0}, cases)
    assert counts == (3, 1, 4, 6)
    assert balanced(counts) == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert balanced(count("margin", {"alone": True, "threshold": 1.0}, cases[:4])) is None


def test_weights_make_a_ratio_of_sums_the_balanced_accuracy(run: SuiteRun) -> None:
    for split in ("validation", "test"):
        rows = rows_of(run, split)
        beams = [name for name in rows[0]["policies"] if name != "exact"]
        own = [(row["decisions"], row["policies"][name]) for row in rows for name in beams]
        cases, preserved = sum(n for n, _ in own), sum(f["preserved"] for _, f in own)
        assert 0 < preserved < cases
        line = cells(run, "predictor")[(split,)]
        for rule in RULES:
            kept, lost = (sum(f[f"{rule}_{which}"] for _, f in own) for which in ("kept", "lost"))
            assert line[f"Balanced, {rule}"] == pytest.approx(0.5 * (kept / preserved + lost / (cases - preserved)))
            assert line[f"Accuracy, {rule}"] == pytest.approx((kept + lost) / cases)
        assert line["Base rate"] == pytest.approx(preserved / cases)


def test_a_single_class_has_no_balanced_accuracy() -> None:
    figures = {"preserved": 3} | {f"{rule}_{part}": 0 for rule in RULES for part in ("kept", "lost")}
    rows = [{"source": "a", "decisions": 3, "policies": {"uc": figures}}]
    assert weigh(rows, ["uc"]) is False
    assert figures["weight_pool"] is None


# -------------------------------------------------------------------- the suite


def test_the_mini_suite_shows_what_it_must_and_its_evidence_verifies(run: SuiteRun) -> None:
    predicate = run.statement["predicate"]
    assert [c["name"] for c in predicate["checks"] if not c["pass"]] == []
    assert len(predicate["checks"]) == 1 + 4 * 6 + 2
    assert predicate["looks"] == 1
    assert run.verdict["class"] == "boundary"
    report = verify_evidence(run.folder)
    assert (report.code, report.problems) == (0, ())


def test_the_two_regimes_are_there(run: SuiteRun) -> None:
    found = cells(run, "mechanism")
    for source in ("inventory", "exposure"):
        blind, guided = found[source, "certified"], found[source, "certified-bound"]
        assert guided["Oracle retained"] > blind["Oracle retained"]
        assert guided["Suffix margin"] > blind["Suffix margin"]
        assert guided["Proxy slack"] < blind["Proxy slack"]
    # Without protection a narrow beam ends with one first action: then "retained" and "preserved" are the same thing.
    for (_, beam), line in found.items():
        if line["One action left"] == 1:
            assert line["Oracle retained"] == line["Order preserved"]
            assert line["Retained margin"] is None
        assert line["Exact regret"] <= line["Proxy slack"] + 1e-12
        assert line["Suffix margin"] == pytest.approx(line["Suffix advantage"] - line["Local loss"])
        assert beam in load_suite(MINI).settings.beams


def test_regret_to_hindsight_is_never_negative_and_below_its_bound(run: SuiteRun) -> None:
    for row in [*rows_of(run, "validation"), *rows_of(run, "test")]:
        for name, figures in row["policies"].items():
            assert figures["regret"] >= -1e-12
            if name != "exact":
                assert figures["bound"] >= figures["regret"] - 1e-9
                assert figures["bound_least"] >= -1e-9
                assert figures["regret"] - figures["plan_regret"] == pytest.approx(row["policies"]["exact"]["regret"])


def test_a_fault_in_the_bound_is_caught_by_its_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ucsearch.lab.suites.kinds.mechanism import rows as mechanism_rows

    def short(*args: Any, **more: Any) -> Any:
        found = slacks(*args, **more)
        return found._replace(bound=found.bound - 2.0 * found.eps_c - 1.0)

    monkeypatch.setattr(mechanism_rows, "slacks", short)
    text = SMALL.text.replace("per_family = 4", "per_family = 2").replace("decisions = 3", "decisions = 2")
    run = evaluate(parse_suite(text), tmp_path, threads=1)
    failed = [c["name"] for c in run.statement["predicate"]["checks"] if not c["pass"]]
    assert any(name.startswith("bounds of Proposition 2 broken") for name in failed)


@pytest.mark.slow  # killed runs of the synthetic suite go on by default
def test_a_run_that_was_killed_goes_on_and_a_fresh_one_gives_equal_bytes(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = shared_run(SMALL, tmp_path_factory)
    measured = mechanism._Source.measure
    calls: list[tuple[str, str]] = []

    def killed(self: Any, split: str) -> Any:
        calls.append((self.name, split))
        if len(calls) == 4:
            raise KeyboardInterrupt
        return measured(self, split)

    monkeypatch.setattr(mechanism._Source, "measure", killed)
    with pytest.raises(KeyboardInterrupt):
        evaluate(SMALL, tmp_path, threads=1)
    again = evaluate(SMALL, tmp_path, threads=2)
    # Validation comes first, and only the part that was killed is measured again.
    assert [split for _, split in calls] == ["validation", "validation", "test", "test", "test"]
    assert calls[3] == calls[4]
    for name in ("rows.jsonl", "selection.json", "sample.jsonl", "manifest.json"):
        assert (again.folder / name).read_bytes() == (run.folder / name).read_bytes(), name


def test_the_test_split_stays_closed_until_constants_are_declared(tmp_path: Path) -> None:
    job = SuiteJob(tmp_path, {"card_sha256": "0" * 64}, threads=1)
    source = mechanism._Source("exposure", mechanism.Mechanism(load_suite(MINI), job))
    with pytest.raises(TestSplitClosed):
        source.measure("test")


def test_what_is_declared_does_not_depend_on_test_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    suite = load_suite(MINI)

    def declared(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
        job = SuiteJob(folder, {"card_sha256": "0" * 64}, threads=1)
        source = mechanism._Source("exposure", mechanism.Mechanism(suite, job))
        found = source.measure("validation")
        return declare_source(found["windows"], suite.settings), found

    def changed(name: str, data_dir: Path | None) -> Family:
        family = load_family(name, data_dir)
        # The last 2 windows of 3 decisions and 3 steps ahead are the test part.
        series = tuple(
            Series(s.id, np.concatenate([s.y[:-9], 3.0 * s.y[-9:] + 7.0]), s.frequency, s.seasonal_period, s.horizon,
                   s.n_train, s.category) for s in family.series
        )  # fmt: skip
        return Family(family.name, family.dataset, series, family.files)

    before, first = declared(tmp_path / "a")
    monkeypatch.setattr(series, "load_family", changed)
    after, second = declared(tmp_path / "b")
    assert before == after
    assert first["windows"] == second["windows"]


def test_the_declared_constants_are_in_the_selection_and_cap_beta_at_lambda(run: SuiteRun) -> None:
    record = loads((run.folder / "selection.json").read_bytes())
    declared = record["candidates"][0]["settings"]["declared"]
    assert declared == run.statement["predicate"]["extra"]["declared"]
    assert record["risk"] == 0.25
    for source in declared.values():
        for beam in source.values():
            assert 0.0 <= beam["beta"] <= 0.25
            assert beam["eps_c"] >= 0.0


def test_settings_that_make_no_sense_are_refused() -> None:
    text = load_suite(MINI).text
    for old, new, word in (
        ("width = 3", "width = 2", "width"),
        ("beams.uc]", "beams.other]", "uc"),
        ('families = ["sample-other"]', 'families = ["sample-daily"]', "family"),
        ("paths = 4", "paths = 4\nwidht = 2", "widht"),
        ("risk = 0.25", "risk = 0.0", "risk"),
    ):
        assert old in text
        with pytest.raises(InputError, match=word):
            parse_suite(text.replace(old, new))


def test_the_full_suite_reads_and_has_the_same_form() -> None:
    full, mini = load_suite("mechanism").settings, load_suite(MINI).settings
    assert set(mini.beams) < set(full.beams)
    assert set(full.sources) == set(mini.sources)
    assert full.most_expansions == 30
    assert isinstance(full.policy("uc"), UCBeam)
    assert full.policy("certified-bound").order == "bound"
