"""Few series: choices are split until the bound is close, against every allocation, and forged trees are found."""

from __future__ import annotations

import itertools
import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.allocation.kit import newest_decisions, random_problem, record_of
from ucsearch.allocation.branch import Split
from ucsearch.allocation.problem import Problem
from ucsearch.allocation.record import write_allocation
from ucsearch.allocation.result import evaluate
from ucsearch.decision import Filing
from ucsearch.records.canonical import seal
from ucsearch.tasks import LeadTimeInventory
from ucsearch.tasks.registry import address
from ucsearch.verify import verify_file


def best_of_all(problem: Problem) -> float:
    best = -math.inf
    for choice in itertools.product(range(problem.lower.shape[1]), repeat=len(problem.series)):
        picked = np.array(choice)
        if problem.fits(picked) and not np.isnan(problem.picked(problem.lower, picked)).any():
            best = max(best, math.fsum(problem.picked(problem.lower, picked).tolist()))
    return best


@pytest.mark.parametrize("seed", range(12))
def test_few_series_are_proved_best(seed: int) -> None:
    problem = random_problem(seed, 1 + seed % 6, 4, 1 + seed % 3, groups=1 + seed % 2)
    found = evaluate(problem)
    if not found.feasible:
        assert best_of_all(problem) == -math.inf
        return
    best = best_of_all(problem)
    assert found.lower == pytest.approx(best, rel=1e-12)
    assert found.upper >= best - 1e-9 * abs(best)
    assert found.gap <= max(found.rounding, 1e-4 * found.cost_of_budget)


@pytest.mark.parametrize("count", [12, 40])
def test_a_dozen_orders_pass_the_usual_gap(count: int) -> None:
    shares = []
    for seed in range(6):
        found = evaluate(random_problem(seed, count, 6, 1 + seed % 3))
        shares.append(found.gap / found.cost_of_budget)
        assert found.upper <= found.root
    assert max(shares) <= 0.01


def test_bounds_above_values_are_kept() -> None:
    """What is not known of single series no splitting can close."""
    found = evaluate(random_problem(3, 5, 4, 1, slack=5.0))
    assert found.gap > found.rounding
    assert found.upper >= best_of_all(found.problem)


def test_worth_of_more_still_holds() -> None:
    problem = random_problem(5, 8, 4, 1)
    found = evaluate(problem)
    interval = found.worth_of_more("r0", 5.0)
    wider = random_problem(5, 8, 4, 1)
    wider.resources[0].limits[0] += 5.0
    true = best_of_all(wider) - best_of_all(problem)
    assert interval.low - 1e-9 <= true <= interval.high + 1e-9


CONFIG = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 6.0, 12.0, 18.0), shortage=9.0, fixed_cost=4.0)
NAMES = [f"SKU-{i}" for i in range(8)]


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, uc.Allocation]:
    rng = np.random.default_rng(4)
    trace = uc.Trace.from_members(rng.poisson(rng.uniform(4.0, 14.0, 8)[:, None, None], (8, 6, 2)).astype(float))
    states = [CONFIG.state(float(rng.integers(0, 8)), [float(rng.integers(0, 6))]) for _ in NAMES]
    path = tmp_path_factory.mktemp("branch") / "decisions.db"
    with uc.AuditLog(path) as log:
        panel = uc.decide_panel(
            CONFIG.task(), states, trace, uc.Exact(depth=2, mode="members", every_action=True),
            proof=uc.Proof(kind="oracle"), run=uc.Run(engine="python"),
            log=Filing(log, series=NAMES, where=address(CONFIG)),
        )  # fmt: skip
        shared = uc.Shared(name="truck", limit=45.0, use="units", times={n: 1.0 + 0.1 * i for i, n in enumerate(NAMES)})
        found = uc.allocate(panel, shared, series=NAMES)
        write_allocation(found, log, newest_decisions(log))
    return path, found


def verdicts(path: Path) -> list[str]:
    return [v.status for v in verify_file(path)]


def test_a_split_proof_is_recorded_and_verified(logged: tuple[Path, uc.Allocation]) -> None:
    path, found = logged
    assert found.passed
    assert found.result is not None
    assert isinstance(found.result.tree, Split)
    assert found.result.root - found.result.lower > 0.01 * (found.result.without - found.result.root)
    assert verdicts(path)[:9] == ["valid"] * 9


def _leaf(node: dict[str, Any], name: str) -> dict[str, Any]:
    stack = [node]
    while stack:
        here = stack.pop()
        if name in here:
            return here
        stack += [here["inside"], here["outside"]] if "inside" in here else []
    raise AssertionError(name)


FORGERIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "no tree": lambda t: t.update({"prices": [[0.0]]}),
    "half a tree": lambda t: t.update(inside=t["outside"]),
    "a part called empty": lambda t: t.update(outside={"over": [0, ""]}),
    "all actions": lambda t: t.update(actions=[0, 1, 2, 3]),
    "no actions": lambda t: t.update(actions=[]),
    "half an action": lambda t: t.update(actions=[0.5]),
    "another member": lambda t: t.update(member=99),
    "a member by name": lambda t: t.update(member="SKU-0"),
    "other prices": lambda t: _leaf(t, "prices")["prices"][0].__setitem__(0, 1e6),
    "a price below zero": lambda t: _leaf(t, "prices")["prices"][0].__setitem__(0, -1.0),
    "prices of another shape": lambda t: _leaf(t, "prices").update(prices=[[0.0, 0.0]]),
    "prices in words": lambda t: _leaf(t, "prices").update(prices="none"),
    "a list": lambda t: t.update(inside=[]),
    "an unknown member": lambda t: t.update(more=1),
    "no such limit": lambda t: t.update(inside={"over": [7, ""]}),
    "the limit after the last": lambda t: t.update(inside={"over": [1, ""]}),
    "a limit before the first": lambda t: t.update(inside={"over": [-1, ""]}),
    "a truth for a limit": lambda t: t.update(inside={"over": [False, ""]}),
    "a group that is a list": lambda t: t.update(inside={"over": [0, []]}),
    "a group that is nothing": lambda t: t.update(inside={"over": [0, None]}),
    "a member that is a truth": lambda t: t.update(member=False),
    "an action that is a truth": lambda t: t.update(actions=[True]),
    "no such group": lambda t: t.update(inside={"over": [0, "A"]}),
}


@pytest.fixture(scope="module")
def judged(logged: tuple[Path, uc.Allocation], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The verdict on each forgery, all in one log; a genuine allocation after them shows that none taints another."""
    path = shutil.copy(logged[0], tmp_path_factory.mktemp("forged"))
    with uc.AuditLog(path) as log:
        rows = newest_decisions(log)
        before = log.count()
        for name, forge in FORGERIES.items():
            record = json.loads(json.dumps(record_of(logged[1], [rows[n] for n in NAMES])))
            del record["id"]
            if name == "no tree":
                del record["tree"]
            else:
                forge(record["tree"])
            log.append(seal(record))
        write_allocation(logged[1], log, rows)
    *found, last = verdicts(path)[before:]
    assert last == "valid"
    return dict(zip(FORGERIES, found, strict=True))


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_tree_is_found(judged: dict[str, str], name: str) -> None:
    assert judged[name] in ("invalid", "malformed")
