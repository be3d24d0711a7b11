"""Random shared-budget problems, their optimum by HiGHS, and allocations of what a log holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ucsearch.allocation.api import Allocation
from ucsearch.allocation.problem import Problem, Resource
from ucsearch.allocation.record import allocation_record
from ucsearch.records.entries import Row


def newest_decisions(rows: Iterable[Row]) -> dict[str, Row]:
    """The newest decision of every series that has a name, in the order of their entries."""
    found: dict[str, Row] = {}
    for row in rows:
        record = row.record
        if record.get("kind") == "decision" and record.get("series"):
            found.pop(record["series"], None)
            found[record["series"]] = row
    return found


def record_of(allocation: Allocation, rows: Sequence[Row]) -> dict[str, Any]:
    """The record of an allocation of these decisions."""
    ahead = any(s.horizon > 1 for s in allocation.shared)
    traces = [row.record["inputs"]["trace"] for row in rows] if ahead else None
    return allocation_record(allocation, rows, None, traces)


def random_problem(seed: int, count: int, actions: int, resources: int, groups: int = 1, slack: float = 0.0) -> Problem:
    """Newsvendor-like values with a fixed cost, uses that hang together loosely; `slack` widens upper above lower."""
    rng = np.random.default_rng(seed)
    wanted, price = rng.gamma(2.0, 5.0, count), rng.uniform(1.0, 20.0, count)
    quantity = np.arange(actions)[None] * (rng.choice([1, 2, 4, 6], count) * rng.uniform(0.5, 2.0, count))[:, None]
    short, left = np.maximum(wanted[:, None] - quantity, 0.0), np.maximum(quantity - wanted[:, None], 0.0)
    value = -price[:, None] * (
        9.0 * short + left + np.where(quantity > 0.0, rng.uniform(0.0, 5.0, count)[:, None], 0.0)
    )
    names = ("",) if groups == 1 else tuple(f"g{g}" for g in range(groups))
    shared = []
    for k in range(resources):
        use = quantity * rng.uniform(0.1, 3.0, count)[:, None]
        group = rng.integers(0, groups, count)
        best = use[np.arange(count), value.argmax(axis=1)]
        limit = np.array([best[group == g].sum() * rng.uniform(0.2, 0.9) for g in range(groups)])
        shared.append(Resource(f"r{k}", use, limit, group, names, ((),) * groups))
    upper = value + slack * rng.uniform(0.0, 1.0, value.shape) * price[:, None]
    return Problem.of([f"s{i}" for i in range(count)], value, upper, shared)


def optimum(problem: Problem) -> float:
    """The best total of `lower` under the limits, by mixed-integer programming."""
    import highspy

    n, m = problem.lower.shape
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("mip_rel_gap", 1e-9)
    solver.setOptionValue("threads", 1)
    inf = highspy.kHighsInf
    for i in range(n):
        for a in range(m):
            there = not np.isnan(problem.lower[i, a])
            solver.addVar(0.0, 1.0 if there else 0.0)
            solver.changeColCost(i * m + a, float(problem.lower[i, a]) if there else 0.0)
    solver.changeColsIntegrality(n * m, np.arange(n * m), np.full(n * m, highspy.HighsVarType.kInteger))
    for i in range(n):
        solver.addRow(1.0, 1.0, m, np.arange(i * m, (i + 1) * m), np.ones(m))
    for r in problem.resources:
        for g in range(r.limits.size):
            rows = np.flatnonzero(r.group == g)
            index = (rows[:, None] * m + np.arange(m)).ravel()
            solver.addRow(-inf, float(r.left()[g]), index.size, index, r.use[rows].ravel())
    solver.changeObjectiveSense(highspy.ObjSense.kMaximize)
    solver.run()
    return float(solver.getInfo().objective_function_value)
