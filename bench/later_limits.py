"""Limits at later steps: 10,000 items with a truck on each of 7 days; 100 batteries behind one transformer for a day.

Beside the proved bound stands sharing step by step without prices: every step's limit is shared by the values of a
future without limits, as a knapsack of its own.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

import ucsearch as uc
from bench.table import Row
from ucsearch.allocation.cases import cases_of
from ucsearch.allocation.later.paths import simulate
from ucsearch.allocation.later.steps import plan_steps, reach_steps
from ucsearch.allocation.problem import Problem, Resource
from ucsearch.allocation.result import proved
from ucsearch.allocation.solve import choose_at
from ucsearch.tasks import Storage

__all__ = ["batteries", "items", "rows", "run"]


class Stock(NamedTuple):
    units: float


class Costs(NamedTuple):
    pack: float  # units
    holding: float  # currency per unit and day
    shortage: float
    fixed: float  # currency per order
    most: float  # units that fit on the shelf


def feasible(s: Any, a: float, p: Any) -> bool:
    return bool(s.units + a * p.pack <= p.most)


def step(s: Any, a: float, y: float, p: Any) -> Stock:
    return Stock(max(s.units + a * p.pack - y, 0.0))


def reward(s: Any, a: float, y: float, p: Any) -> float:
    left = s.units + a * p.pack - y
    return float(-p.holding * max(left, 0.0) + p.shortage * min(left, 0.0) - (p.fixed if a > 0.0 else 0.0))


def fallback(s: Any, p: Any) -> float:
    return 0.0


def ordered(s: Any, a: float, p: Any) -> float:
    return a * p.pack


ITEMS = uc.Task(
    "items", Stock, (0.0, 1.0, 2.0, 3.0, 4.0, 5.0), feasible, step, reward, fallback,
    params=Costs(2.0, 1.0, 9.0, 4.0, 20.0), uses={"units": ordered},
)  # fmt: skip


def items(count: int = 10_000, steps: int = 7, share: float = 0.85) -> dict[str, Any]:
    """Items that arrive the same day; every day's truck carries `share` of what they would order on average."""
    rng = np.random.default_rng(7)
    rate = rng.uniform(1.0, 6.0, count)
    trace = uc.Trace.from_members(rng.poisson(rate[:, None, None], (count, 40, steps)).astype(float)).on_lattice(1.0, 5)
    states = np.floor(rng.uniform(0.0, 8.0, count))[:, None]
    params = np.column_stack([
        rng.choice([1.0, 2.0, 3.0], count), rng.uniform(0.5, 1.5, count), rng.uniform(5.0, 20.0, count),
        rng.uniform(0.0, 6.0, count), np.full(count, 20.0),
    ])  # fmt: skip
    names = [f"i{n}" for n in range(count)]
    volume = dict(zip(names, rng.uniform(0.2, 3.0, count).tolist(), strict=True))
    policy = uc.Exact(depth=steps, mode="closed", node_budget=10_000_000)
    panel = uc.decide_panel(ITEMS, states, trace, policy, params=params, run=uc.Run(engine="compiled"))
    wanted = sum(volume[n] * x for n, x in zip(names, panel.action * params[:, 0], strict=True))
    shared = uc.Shared(name="truck", limit=float(share * wanted), use="units", times=volume, steps=steps)
    return measured(panel, shared, names, "independent")


def batteries(count: int = 100, hours: int = 24, share: float = 0.3) -> dict[str, Any]:
    """All see one price; the transformer carries `share` of what they would draw together."""
    rng = np.random.default_rng(11)
    store = Storage(power=1.0, capacity=4.0, level_step=0.5)
    hour = np.arange(hours)
    # Cheapest at six in the morning, dearest at nine and in the evening.
    day = 60.0 - 45.0 * np.exp(-(((hour - 6.0) / 3.0) ** 2)) + 60.0 * np.exp(-(((hour - 9.0) / 1.0) ** 2))
    day += 50.0 * np.exp(-(((hour - 19.0) / 2.0) ** 2))
    prices = day[None] + rng.normal(0.0, 6.0, (5, hours))
    members = np.repeat(prices[None], count, axis=0)
    trace = uc.Trace.from_members(members, coupling="independent")
    states = [store.state(float(x)) for x in rng.choice([0.0, 0.5, 1.0, 1.5, 2.0], count)]
    base = store.params()
    params = [base._replace(wear=float(w), end_value=float(e))
              for w, e in zip(rng.uniform(0.0, 4.0, count), rng.uniform(20.0, 40.0, count), strict=True)]  # fmt: skip
    policy = uc.Exact(depth=hours, mode="closed", node_budget=10_000_000)
    panel = uc.decide_panel(store.task(), states, trace, policy, params=params, run=uc.Run(engine="compiled"))
    shared = uc.Shared(name="transformer", limit=share * count * 1.0, use="charging", steps=hours)
    return measured(panel, shared, [f"b{n}" for n in range(count)], "common")


def measured(panel: uc.DecisionPanel, shared: uc.Shared, names: list[str], draws: Any) -> dict[str, Any]:
    if not (panel.outcome == "RELEASED").all():
        raise SystemExit("a series was not released")
    uc.allocate(panel, shared, series=names, serve="best", draws=draws)  # kernels compiled or loaded
    started = time.perf_counter()
    found = uc.allocate(panel, shared, series=names, serve="best", draws=draws)
    seconds = time.perf_counter() - started
    if found.later is None or found.result is None:
        raise SystemExit("limits of later steps were not planned")
    worst = max(float((use / limits.limits[None, :, 1:]).max()) for use, limits in
                zip(found.later.uses, found.later.limits, strict=True))  # fmt: skip
    first = sum(s.uses[0] for s in found.shares) / shared.at("")
    cost = found.cost_of_limits
    return {
        "seconds": seconds,
        "transitions": int(sum(c.source.counts[2] for c in found.cases if c.source is not None)),
        "gap_of_cost": found.gap / cost,
        "gap_of_total": found.gap / abs(found.upper),
        "step_by_step": (found.upper - unpriced(panel, shared, names, draws)) / cost,
        "violations": int(worst > 1.0) + int(first > 1.0) + (not found.later.kept),
        "paths": found.later.gaps.size,
    }


def unpriced(panel: uc.DecisionPanel, shared: uc.Shared, names: list[str], draws: Any) -> float:
    """Mean value of sharing every step by values that know of no later limit."""
    cases = cases_of(panel, names)
    blank = np.zeros((len(cases), panel.certified.plan.inputs.actions.shape[1]))
    resource = Resource(shared.name, blank, np.array([shared.at("")]), np.zeros(len(cases), np.int64))
    planned = plan_steps(cases, *reach_steps(cases, [shared], [resource]), [resource])
    zero = tuple(np.zeros_like(p) for p in planned.prices)
    step = planned.priced.step(planned.free.values, np.zeros(len(cases), np.int64))
    own = Resource(shared.name, step.used[0], resource.limits, resource.group)
    problem = Problem.of(names, step.q, step.q, [own])
    picked = choose_at(problem, [z[:, 0] for z in zero])
    if picked is None:
        raise SystemExit("the first step could not be shared")
    first = proved(problem, picked, tuple(z[:, 0] for z in zero))
    later = simulate(
        planned.priced, planned.limits, zero, planned.free, planned.free, names, picked, 24, draws
    )  # fmt: skip
    return later.free - first.gap - later.mean


def run() -> dict[str, Any]:
    return {"10,000 items, a truck on each of 7 days": items(), "100 batteries, one transformer, 24 hours": batteries()}


def rows() -> list[Row]:
    """Seconds and gap of both."""
    out = []
    for name, row in run().items():
        told = f"{row['transitions']:,} transitions; step by step without prices loses {row['step_by_step']:.0%}"
        out.append(Row("limits of later steps", name, row["seconds"], "s", None, told))
        gap = f"{row['gap_of_total']:.4%} of the total, 97.5 % sure over {row['paths']} paths"
        out.append(Row("limits of later steps", f"{name}: gap at most", 100.0 * row["gap_of_cost"],
                       "% of what the limits cost", None, gap))  # fmt: skip
        out.append(Row("limits of later steps", f"{name}: limits broken", row["violations"], "", ("<=", 0)))
    return out
