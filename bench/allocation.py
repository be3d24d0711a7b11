"""Shared limits: seconds and proved gap beside greedy filling, and the interval beside HiGHS on small instances.

Items are newsvendors with a fixed cost, packs and volumes drawn at random. Greedy filling takes the whole wish of one
item after the other, by gain or by gain per volume, while it fits.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from bench.table import Row
from tests.allocation.kit import optimum, random_problem
from ucsearch.allocation.problem import Problem
from ucsearch.allocation.result import Result, evaluate

__all__ = ["rows", "run"]

SIZES = ((100_000, 1), (100_000, 3), (10_000, 1), (10_000, 3))
SMALL_CASES = 200
FEW, FEW_CASES = (3, 6, 12, 50, 200), 20


def run(small_cases: int = SMALL_CASES) -> dict[str, Any]:
    evaluate(random_problem(1, 50, 9, 3))  # kernels compiled or loaded
    rows = {}
    for count, budgets in SIZES:
        problem = random_problem(count + budgets, count, 9, budgets)
        started = time.perf_counter()
        found = evaluate(problem)
        seconds = time.perf_counter() - started
        rows[f"{count:,} items, {budgets} budgets"] = {
            "seconds": seconds,
            "gap_share": found.gap / found.cost_of_budget,
            "greedy_by_gain": _loss(problem, found, by_volume=False),
            "greedy_by_gain_per_volume": _loss(problem, found, by_volume=True),
            "kept": problem.fits(found.choice),
        }
    return {"rows": rows, "small": small(small_cases), "few": few()}


def few() -> dict[int, tuple[int, int]]:
    """By number of series: cases of 20 that pass 1 % of what the limits cost, and how many at a single price."""
    passing = {}
    for count in FEW:
        found = [evaluate(random_problem(1_000 * count + seed, count, 6, 1 + seed % 3)) for seed in range(FEW_CASES)]
        single = sum(x.root - x.lower <= 0.01 * (x.without - x.root) for x in found)
        passing[count] = (sum(x.passes() for x in found), single)
    return passing


def small(cases: int) -> dict[str, Any]:
    """Instances that a MILP solver can finish: is its optimum always inside the interval?"""
    inside, worst = 0, 0.0
    for seed in range(cases):
        count = (20, 50, 100, 200)[seed % 4]
        problem = random_problem(seed, count, 6, 1 + seed % 3)
        found, best = evaluate(problem), optimum(problem)
        tiny = 1e-6 * abs(best)  # the solver's own tolerance
        inside += found.lower <= best + tiny and best <= found.upper + tiny
        worst = max(worst, (best - found.lower) / max(found.cost_of_budget, 1e-12))
    return {"cases": cases, "inside": inside, "worst_loss_share": worst}


def _loss(problem: Problem, found: Result, *, by_volume: bool) -> float:
    """What greedy filling loses against the proved bound, as a share of what the limits cost."""
    first = np.argmin(np.where(np.isnan(problem.lower), np.inf, problem.uses.sum(axis=0)), axis=1)
    want = problem.floor.argmax(axis=1)
    gain = problem.picked(problem.lower, want) - problem.picked(problem.lower, first)
    extra = problem.picked(problem.uses[0], want) - problem.picked(problem.uses[0], first)
    rank = gain / np.where(extra > 0.0, extra, 1.0) if by_volume else gain
    slack = np.array([r.left()[0] - problem.picked(r.use, first).sum() for r in problem.resources])
    choice = first.copy()
    for i in np.argsort(-rank, kind="stable").tolist():
        more = problem.uses[:, i, want[i]] - problem.uses[:, i, first[i]]
        if (more <= slack).all():
            slack -= more
            choice[i] = want[i]
    value = float(problem.picked(problem.lower, choice).sum())
    return (found.upper - value) / found.cost_of_budget


def rows() -> list[Row]:
    """Sizes, then the comparison with HiGHS, then few series."""
    found, out = run(), list[Row]()
    for name, row in found["rows"].items():
        by_volume = row["greedy_by_gain_per_volume"]
        lost = f"greedy by gain loses {row['greedy_by_gain']:.0%}, by gain per volume {by_volume:.0%}"
        out.append(Row("shared limits", name, row["seconds"], "s", None, lost))
        out.append(Row("shared limits", f"{name}: proved gap", 100.0 * row["gap_share"], "% of what the limits cost"))
    solved = found["small"]
    share = solved["inside"] / solved["cases"]
    out.append(Row("shared limits", "HiGHS's optimum inside the interval", share, "share of cases", (">=", 1.0),
                   f"largest loss {solved['worst_loss_share']:.2%} of what the limits cost"))  # fmt: skip
    for count, (split, single) in found["few"].items():
        told = f"{single} at a single price"
        out.append(Row("shared limits", f"{count} series: cases that pass 1 %", split, f"of {FEW_CASES}", None, told))
    return out
