"""The lost-sales suite: the planner with exact weights and with members, its evaluation on the chain, its evidence."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kit.suites import changed, shared_run
from ucsearch.engine.api import search_panel
from ucsearch.errors import DataError, InputError
from ucsearch.lab.suites.evidence.manifest import read_evidence
from ucsearch.lab.suites.evidence.rows import row_bytes
from ucsearch.lab.suites.evidence.tables import check_row, fill
from ucsearch.lab.suites.gates.claims import supports
from ucsearch.lab.suites.job import SuiteJob
from ucsearch.lab.suites.kinds.lost_sales import run as lost_sales
from ucsearch.lab.suites.kinds.lost_sales.chain import (
    Tabulated,
    chain_space,
    exact_orders,
    most_orders,
    pairs_of,
    smallest_best,
    stationary,
)
from ucsearch.lab.suites.kinds.lost_sales.members import Planner, demand_paths, plan_often_visited
from ucsearch.lab.suites.recheck.rerun import rerun
from ucsearch.lab.suites.recheck.verify import verify_evidence
from ucsearch.lab.suites.run import SuiteRun, follow_protocol
from ucsearch.lab.suites.suite import Suite, load_suite, parse_suite
from ucsearch.replay.classics.demand import Demand, geometric, poisson
from ucsearch.replay.classics.instances import load_instance
from ucsearch.replay.classics.lost_sales import LostSales, average_cost, solve
from ucsearch.replay.classics.policies import CappedBaseStock
from ucsearch.trace import Trace

MINI = "lost-sales-mini"
IDENTITY = {"settings": {"name": MINI}, "suite_sha256": "0" * 64, "card_sha256": "0" * 64}
SMALL = LostSales(Demand.from_pmf([0.2, 0.3, 0.35, 0.15]), 2, 1.0, 4.0)
PAIRS = [(4, 1), (4, 2), (5, 2)]
PERIODS = 4


# -------------------------------------------------------------------- exact demand weights


def plain_cost(model: LostSales, state: tuple[int, ...], order: int, pair: tuple[int, int], periods: int) -> float:
    """Expected cost by listing every demand of every period; the continuation orders within one period's fractile."""
    following = 0.0
    for demand, weight in enumerate(model.demand.pmf):
        left = state[0] - demand
        cost = model.holding_cost * max(left, 0) + model.penalty_cost * max(-left, 0)
        if periods > 1:
            arrived = (*state[1:], order)
            after = (max(left, 0) + arrived[0], *arrived[1:])
            then = max(0, min(pair[0] - sum(after), pair[1], model.morton_levels[-1]))
            cost += plain_cost(model, after, then, pair, periods - 1)
        following += float(weight) * cost
    return following


@pytest.mark.parametrize("pairs", [PAIRS, [(5, 1)]], ids=["several", "tight cap"])
def test_exact_weights_equal_a_plain_enumeration_of_demand(pairs: list[tuple[int, int]]) -> None:
    policy, costs = exact_orders(SMALL, pairs, PERIODS)
    most = most_orders(SMALL, policy.space.states)
    for n, state in enumerate(policy.space.states):
        x = tuple(int(v) for v in state)
        wanted = [min(plain_cost(SMALL, x, z, pair, PERIODS) for pair in pairs) for z in range(int(most[n]) + 1)]
        assert costs[n, : len(wanted)] == pytest.approx(wanted, abs=1e-11)
        assert np.isinf(costs[n, len(wanted) :]).all()
        assert wanted[policy.table[n]] == pytest.approx(min(wanted), abs=1e-11)


def test_exact_weights_equal_the_engine_on_all_paths_as_weighted_members() -> None:
    values = range(SMALL.demand.pmf.size)
    paths = np.array(list(itertools.product(values, repeat=PERIODS)), float)
    weights = SMALL.demand.pmf[paths.astype(int)].prod(axis=1)
    # (4, 1), (4, 2), (5, 1), (5, 2): the grid of a task is a product, so (5, 1) comes along.
    top, mean = SMALL.morton_levels[0], math.ceil(SMALL.demand.mean)
    planner = Planner.with_continuation(
        SMALL, paths[None], SMALL.morton_levels[-1], (4 - top, 5 - top), (1 - mean, 2 - mean), "python", 1
    )
    policy, costs = exact_orders(SMALL, [*PAIRS, (5, 1)], PERIODS)
    states = policy.space.states
    count = len(states)
    found = search_panel(
        planner.config.task(), planner.states(states),
        Trace.from_members(np.repeat(paths[None], count, axis=0), np.repeat([weights], count, axis=0), normalise=True),
        planner.policy, params=planner.params, actions=planner.actions(states), engine="python",
    )  # fmt: skip
    assert found.action.tolist() == policy.table.tolist()
    assert -found.score == pytest.approx(costs.min(axis=1), abs=1e-9)


def test_a_longer_horizon_brings_exact_weights_to_the_optimum() -> None:
    best = solve(SMALL).cost
    gaps = []
    for periods in (1, 3, 14):
        policy, _ = exact_orders(SMALL, pairs_of(SMALL, (-2, -1, 0), (0, 1)), periods)
        gaps.append(average_cost(SMALL, policy).lower / best.upper - 1.0)
    assert gaps[0] > 0.05  # an order that never arrives is not placed
    assert gaps[2] < 0.005
    assert min(gaps) > -1e-8


def test_ties_go_to_the_smaller_order() -> None:
    costs = np.array([[2.0, 1.0, 1.0 - 1e-15, np.inf], [3.0, 3.0, 2.0, 2.5]])
    assert smallest_best(costs).tolist() == [1, 2]
    with pytest.raises(InputError, match="finite"):
        smallest_best(np.array([[np.inf, np.inf]]))


def test_continuations_outside_the_states_are_refused() -> None:
    top = SMALL.morton_levels[0]
    for pairs, periods in (([(top + 1, 1)], 4), ([(3, -1)], 4), ([], 4), ([(3, 1)], 0)):
        with pytest.raises(InputError, match="continuations"):
            exact_orders(SMALL, pairs, periods)


# -------------------------------------------------------------------- evaluation on the chain


def test_the_cost_of_a_table_is_that_of_value_iteration_of_the_chain_and_of_a_simulation() -> None:
    best = solve(SMALL)
    policy = Tabulated(chain_space(SMALL), best.table)
    cost = average_cost(SMALL, policy)
    assert cost.lower - 1e-9 <= best.cost.value <= cost.upper + 1e-9
    shares = stationary(SMALL, policy)
    stage = SMALL.stage_cost(int(policy.space.levels[0]))
    assert float(shares @ stage[policy.space.states[:, 0]]) == pytest.approx(cost.value, abs=1e-9)
    mean, error = simulated(SMALL, policy, np.random.default_rng(3))
    assert abs(mean - cost.value) < 4.0 * error
    assert error < 0.01


def simulated(model: LostSales, policy: Tabulated, rng: np.random.Generator) -> tuple[float, float]:
    """Mean cost per period over independent runs started empty, after a start that is thrown away, and its error."""
    runs, warm, periods = 2000, 30, 200
    state = np.zeros((runs, model.lead_time), np.int64)
    paid = np.zeros(runs)
    for t in range(warm + periods):
        order = policy.orders(state)
        demand = rng.choice(model.demand.pmf.size, size=runs, p=model.demand.pmf)
        left = state[:, 0] - demand
        if t >= warm:
            paid += model.holding_cost * np.maximum(left, 0) + model.penalty_cost * np.maximum(-left, 0)
        state = np.column_stack([state[:, 1:], order])
        state[:, 0] += np.maximum(left, 0)
    each = paid / periods
    return float(each.mean()), float(each.std(ddof=1) / math.sqrt(runs))


def test_a_table_that_leaves_its_states_is_refused() -> None:
    space = chain_space(SMALL)
    with pytest.raises(InputError, match="orders"):
        stationary(SMALL, Tabulated(space, np.full(len(space.states), 3)))


# -------------------------------------------------------------------- members


@pytest.mark.parametrize("demand", [poisson(5.0), geometric(5.0)], ids=lambda d: d.name)
def test_paths_are_even_in_the_demand_an_order_is_placed_against(demand: Demand) -> None:
    paths = demand_paths(demand, 2, 6, 256, np.random.default_rng(5))
    whole = demand.over(3)
    for value in range(0, 60, 3):
        share = float((paths[:, :3].sum(axis=1) <= value).mean())
        assert abs(share - float(whole.cdf[value])) <= 1.0 / 256 + 1e-9


@pytest.mark.parametrize("demand", [poisson(5.0), geometric(5.0)], ids=lambda d: d.name)
def test_paths_are_independent_draws_from_the_demand(demand: Demand) -> None:
    paths = demand_paths(demand, 2, 5, 1 << 13, np.random.default_rng(6))
    assert paths.shape == (1 << 13, 5)
    for h in range(5):
        share = np.bincount(paths[:, h].astype(int), minlength=demand.pmf.size) / len(paths)
        assert np.abs(share[: demand.pmf.size] - demand.pmf).max() < 0.005
    apart = np.corrcoef(paths.T) - np.eye(5)
    assert np.abs(apart).max() < 0.03
    again = demand_paths(demand, 2, 5, 1 << 13, np.random.default_rng(6))
    assert (paths == again).all()
    assert (paths != demand_paths(demand, 2, 5, 1 << 13, np.random.default_rng(7))).any()


def small_planner(engine: Any) -> Planner:
    paths = np.stack([demand_paths(SMALL.demand, 2, 6, 16, np.random.default_rng([9, n])) for n in range(3)])
    return Planner.with_continuation(SMALL, paths, SMALL.morton_levels[-1], (-2, -1), (0, 1), engine, 1)


@pytest.mark.slow
def test_both_engines_plan_the_same_orders() -> None:
    space = chain_space(SMALL)
    rows = np.arange(len(space.states))
    plain = small_planner("python").orders(space, rows)
    assert (plain == small_planner("compiled").orders(space, rows)).all()
    assert (plain <= most_orders(SMALL, space.states)).all()


def test_an_order_does_not_depend_on_the_states_planned_beside_it() -> None:
    space, planner = chain_space(SMALL), small_planner("python")
    rows = np.arange(len(space.states))
    together = planner.orders(space, rows)
    assert (together <= most_orders(SMALL, space.states)).all()
    assert [int(planner.orders(space, rows[n : n + 1])[0]) for n in rows] == together.tolist()


def test_an_open_loop_plan_is_the_best_of_all_pairs_of_orders() -> None:
    # Low demand in one member must not forbid the second order in all: the limits bind the first order alone.
    model = LostSales(poisson(3.0), 1, 1.0, 6.0)
    paths = demand_paths(model.demand, 1, 3, 32, np.random.default_rng(1))
    largest, space = model.morton_levels[-1], chain_space(model)
    found = Planner.open_loop(model, paths[None], largest, 2, 16, "python", 1).orders(
        space, np.arange(len(space.states))
    )
    most = most_orders(model, space.states)
    for n, (stock_now,) in enumerate(space.states):
        costs = {}
        for plan in itertools.product(range(largest + 1), repeat=2):
            stock, cost = np.full(len(paths), stock_now, float), 0.0
            for h in range(3):
                left = stock - paths[:, h]
                cost += float((np.maximum(left, 0) + 6.0 * np.maximum(-left, 0)).mean())
                stock = np.maximum(left, 0) + (plan[h] if h < 2 else 0)
            costs[plan] = cost
        least = min(costs.values())
        assert found[n] in {min(plan[0], most[n]) for plan, cost in costs.items() if cost <= least + 1e-9}


def test_planning_stops_when_the_rest_is_rarely_visited() -> None:
    space, planner = chain_space(SMALL), small_planner("python")
    rest = Tabulated(space, np.minimum(CappedBaseStock(5, 2).orders(space.states), most_orders(SMALL, space.states)))
    loose, tight = plan_often_visited(planner, rest, 0.05), plan_often_visited(planner, rest, 1e-9)
    everywhere = planner.orders(space, np.arange(len(space.states)))
    assert 0 < loose.states < tight.states <= len(space.states)
    for planned, most in ((loose, 0.05), (tight, 1e-9)):
        assert planned.unplanned <= most
        other = planned.policy.table != everywhere
        assert (planned.policy.table[other] == rest.table[other]).all()
        assert stationary(SMALL, planned.policy)[other].sum() <= planned.unplanned + 1e-12
    full = average_cost(SMALL, Tabulated(space, everywhere)).value
    assert average_cost(SMALL, tight.policy).value == pytest.approx(full, abs=1e-7)


# -------------------------------------------------------------------- the suite


def job_in(folder: Path, data_dir: Path | None = None) -> SuiteJob:
    return SuiteJob(folder, IDENTITY, data_dir=data_dir, threads=1, ledger=folder / "looks.jsonl")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> SuiteRun:
    return shared_run(MINI, tmp_path_factory)


@pytest.fixture(scope="module")
def rows(done: SuiteRun) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (done.folder / "rows.jsonl").read_text("utf-8").splitlines()]


# Less to plan, where a stored policy beside the plans is the point.
QUICK = (("members = 64", "members = 8"), ("sets = 2", "sets = 1"), ("exact_periods = 8", "exact_periods = 4"))


def one_instance(more: str = "", changes: Sequence[tuple[str, str]] = ()) -> Suite:
    text = changed(MINI, *changes).text
    for old, new in ((', "zipkin-geometric-p4-L1"]', "]"), ('"constant order"]', '"constant order", "ppo"]')):
        assert old in text
        text = text.replace(old, new)
    return parse_suite(text + more)


def test_the_mini_suite_reaches_its_targets_and_its_evidence_holds(done: SuiteRun) -> None:
    predicate = done.statement["predicate"]
    checks = {row["name"]: row for row in predicate["checks"]}
    assert {"gap_mean", "gap_max", "gap_mean_exact_weights", "gap_max_exact_weights"} <= set(checks)
    assert all(row["pass"] for row in checks.values()), [row for row in checks.values() if not row["pass"]]
    assert predicate["extra"]["left_out"] == ["ppo: the suite names no stored policy"]
    assert predicate["looks"] == 1
    report = verify_evidence(done.folder)
    assert report.ok, report
    gap = checks["gap_max"]["left"]
    assert supports("within_of_optimal", done.statement, percent=101.0 * gap, over="max")
    assert not supports("within_of_optimal", done.statement, percent=99.0 * gap, over="max")


def test_costs_are_those_of_the_literature(rows: list[dict[str, Any]]) -> None:
    assert [(r["family"], r["series"]) for r in rows] == [("geometric-p4", "L1"), ("poisson-p4", "L1")]
    for row, name in zip(rows, ("zipkin-geometric-p4-L1", "zipkin-poisson-p4-L1"), strict=True):
        policies = row["policies"]
        assert round(policies["optimum"]["cost"], 2) == load_instance(name).published
        assert set(policies) == set(lost_sales.ORDER) - {"ppo"}
        for figures in policies.values():
            assert figures["cost"] >= policies["optimum"]["cost"] - 1e-8
            assert figures["gap_percent"] == pytest.approx(100.0 * (figures["cost"] / figures["optimal"] - 1.0))
            assert figures["cost_upper"] - figures["cost_lower"] <= 1e-8


def test_another_run_gives_the_same_bytes(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    again = follow_protocol(one_instance(), job_in(tmp_path))
    assert row_bytes(again.rows) == row_bytes([r for r in rows if r["family"] == "poisson-p4"])


def test_a_share_is_run_again_instance_by_instance(done: SuiteRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what was drawn is planned, and a figure that was written by hand is named."""
    row_of, planned = lost_sales._row, dict[str, Any]()

    def once(suite: Suite, job: SuiteJob, instance: Any, saved: Any) -> Any:
        if instance.name not in planned:  # the second look compares with other figures, not with other plans
            planned[instance.name] = row_of(suite, job, instance, saved)
        return planned[instance.name]

    monkeypatch.setattr(lost_sales, "_row", once)
    evidence, told = read_evidence(done.folder), list[str]()
    problems, notes = rerun(evidence, 0.01, progress=lambda what, n, total: told.append(f"{what} {n}/{total}"))
    assert problems == []
    assert notes[0] == f"1 of {len(evidence.rows)} series were run again from the data"
    assert [text[-4:] for text in told] == [" 0/1", " 1/1"]
    edited = json.loads(json.dumps(evidence.rows))
    for row in edited:
        row["policies"]["uc"]["cost"] *= 0.999
    found, _ = rerun(replace(evidence, rows=edited), 0.01)
    assert {"policies uc" in problem.where for problem in found} == {True}


def test_a_repeated_instance_is_refused(tmp_path: Path) -> None:
    suite = parse_suite(load_suite(MINI).text.replace("zipkin-geometric-p4-L1", "zipkin-poisson-p4-L1"))
    with pytest.raises(InputError, match="each instance once"):
        follow_protocol(suite, job_in(tmp_path))
    assert not (tmp_path / "looks.jsonl").exists()


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(InputError, match="horizon"):
        one_instance("horizon = 3\n")


# -------------------------------------------------------------------- the stored policy


def stored(folder: Path, orders: Any) -> str:
    """Write a table of orders as the suite reads it; its section of the suite file."""
    np.savez(folder / "ppo.npz", **{"zipkin-poisson-p4-L1": orders})
    digest = hashlib.sha256((folder / "ppo.npz").read_bytes()).hexdigest()
    return f'\n[lost_sales.ppo]\npath = "ppo.npz"\nsha256 = "{digest}"\n'


def test_a_stored_policy_is_evaluated_on_the_chain(tmp_path: Path) -> None:
    model = load_instance("zipkin-poisson-p4-L1").model()
    table = solve(model).table
    suite = one_instance(stored(tmp_path, table.astype(np.uint8)), QUICK)
    findings = follow_protocol(suite, job_in(tmp_path / "out", tmp_path))
    (row,) = findings.rows
    assert row["policies"]["ppo"]["gap"] == pytest.approx(0.0, abs=1e-8)
    assert [file.sha256 for file in findings.kind.files] == [suite.settings.ppo.sha256]
    tables = [fill(spec, findings.rows) for spec in findings.tables]
    checks = {spec["name"]: check_row(spec, tables)["pass"] for spec in findings.checks}
    assert checks["ppo behind uc on average"] is False  # this one is the optimum
    assert findings.kind.extra()["left_out"] == []


def test_a_stored_policy_must_have_its_hash_and_its_states(tmp_path: Path) -> None:
    section = stored(tmp_path, np.zeros(5, np.int64))
    with pytest.raises(DataError, match="expected 14 orders"):
        follow_protocol(one_instance(section), job_in(tmp_path / "short", tmp_path))
    assert not (tmp_path / "short" / "looks.jsonl").exists()
    large = one_instance(stored(tmp_path, np.full(14, 7)))
    with pytest.raises(DataError, match=r"orders 7 in state \(7,\) of zipkin-poisson-p4-L1, expected 0 to 6"):
        follow_protocol(large, job_in(tmp_path / "large", tmp_path))
    (tmp_path / "ppo.npz").write_bytes(b"something else")
    with pytest.raises(DataError, match="SHA-256"):
        follow_protocol(one_instance(section), job_in(tmp_path / "other", tmp_path))
    (tmp_path / "ppo.npz").unlink()
    absent = follow_protocol(one_instance(section, QUICK), job_in(tmp_path / "absent", tmp_path))
    assert absent.kind.extra()["left_out"] == ["ppo: ppo.npz is neither in the package nor in the data folder"]
    assert "ppo" not in absent.rows[0]["policies"]
    assert not any("ppo" in check["name"] for check in absent.checks)
