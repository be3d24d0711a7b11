"""How exact methods and the beam grow with capacity, actions and depth, on delayed exposure.

Nodes are counted and are evidence; seconds go to the timing file. Enumeration is always counted, and walked only below
a cap; so is the plain dynamic programme. The library's exact search runs everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from ucsearch.engine.api import search_panel
from ucsearch.engine.arrays import Status
from ucsearch.engine.plan import PanelPlan
from ucsearch.lab.suites.evidence.tables import cell_check, column, table
from ucsearch.lab.suites.job import SuiteJob
from ucsearch.lab.suites.kinds.kind import Rows, SuiteKind
from ucsearch.lab.suites.kinds.scaling.plain import ExposureProblem, PlanGraph, enumerate_plans, programme, unfold
from ucsearch.lab.suites.kinds.settings import SettingsTable
from ucsearch.lab.suites.protocol.expected_rows import RowPlan
from ucsearch.lab.suites.suite import Suite
from ucsearch.policies import Exact, Policy, UCBeam
from ucsearch.tasks.exposure import DelayedExposure

__all__ = ["Scaling", "ScalingSettings"]

Floats = NDArray[np.float64]
T = TypeVar("T")
SPLIT = "design"
EXACT = ("enumeration", "dp", "exact", "bnb")
BEAMS = ("beam", "uc")


class ScalingSettings(SettingsTable):
    """Cells (capacity, actions, depth) and what is run in them."""

    cells: tuple[tuple[int, int, int], ...] = Field(min_length=1, description="(capacity, actions, depth)")
    instances: int = Field(5, ge=1, description="drawn forecasts per cell")
    delay: int = Field(2, ge=1)
    cost: float = Field(0.1, ge=0.0)
    risk: float = Field(0.25, ge=0.0)
    members: int = Field(8, ge=2)
    width: int = Field(16, ge=1)
    top_k: int = Field(5, ge=1)
    walk_cap: int = Field(200_000, ge=1, description="beginnings of plans up to which enumeration is walked")
    edge_cap: int = Field(200_000, ge=1, description="edges up to which the plain dynamic programme is solved")
    compiled: bool = Field(True, description="compile the searches; else the engine decides")
    node_budget: int = Field(20_000_000, ge=1, description="of the library's exact search")

    @field_validator("cells")
    @classmethod
    def _odd(cls, cells: tuple[tuple[int, int, int], ...]) -> tuple[tuple[int, int, int], ...]:
        for capacity, actions, depth in cells:
            if capacity < 1 or depth < 1 or actions < 3 or actions % 2 == 0:
                raise ValueError("a cell is (capacity from 1, odd number of actions from 3, depth from 1)")
        return cells

    def plan(self) -> RowPlan:
        """The rows that evidence must hold."""
        ids = tuple(f"instance-{n}" for n in range(self.instances))
        return RowPlan(
            series={SPLIT: {_name(cell): ids for cell in self.cells}}, windows={SPLIT: 1}, decisions={SPLIT: 1},
            policies={SPLIT: frozenset(("beam", "bnb", "dp", "enumeration", "exact", "uc"))}, exactly=False,
        )  # fmt: skip


class Scaling(SuiteKind):
    """Nothing is held out: the instances are drawn, and no claim is made beyond them."""

    describes = True
    s: ScalingSettings

    def describe(self) -> Rows:
        rows: Rows = []
        for cell in self.each("cells", self.s.cells):
            found = self.job.shard(f"cell-{_name(cell)}", partial(_cell, self.suite, self.job, cell))
            rows += found["rows"]
            for name, (seconds, count) in found["seconds"].items():
                self.job.timing(f"{_name(cell)} {name}", seconds, count)
        return rows

    def tables(self, rows: Rows) -> list[dict[str, Any]]:
        return _tables()

    def checks(self, rows: Rows) -> list[dict[str, Any]]:
        return _checks()


def _name(cell: tuple[int, int, int]) -> str:
    capacity, actions, depth = cell
    return f"c{capacity:02d}-m{actions:02d}-d{depth:02d}"


def _series(n: int) -> str:
    return f"instance-{n}"


def _config(s: ScalingSettings, cell: tuple[int, int, int]) -> DelayedExposure:
    """All cells share the widest grid and are cut by ramp, so that one compiled kernel serves them all."""
    widest = max(actions for _, actions, _ in s.cells) // 2
    grid = tuple(float(a) for a in range(-widest, widest + 1))
    return DelayedExposure(delay=s.delay, changes=grid, capacity=cell[0], ramp=cell[1] // 2, cost=s.cost)


def _forecast(suite: Suite, cell: tuple[int, int, int], n: int) -> Floats:
    """(J, d): a drawn mean for every step, and members around it with a spread of their own for every step."""
    s: ScalingSettings = suite.settings
    rng = np.random.default_rng([suite.seed, *cell, n])
    mean, spread = 0.5 * rng.standard_normal(cell[2]), rng.uniform(0.3, 1.0, cell[2])
    return np.asarray(mean + spread * rng.standard_normal((s.members, cell[2])))


def _timed(make: Callable[[], T]) -> tuple[T, float]:
    begun = perf_counter()
    made = make()
    return made, perf_counter() - begun


# -------------------------------------------------------------------- one cell


def _cell(suite: Suite, job: SuiteJob, cell: tuple[int, int, int]) -> dict[str, Any]:
    s: ScalingSettings = suite.settings
    config = _config(s, cell)
    task, start = config.task(), config.state()
    grid = np.array(task.actions)
    allowed = np.where(np.abs(grid) <= cell[1] // 2, grid, np.nan)
    available = tuple(float(a) for a in grid if abs(a) <= cell[1] // 2)
    traces = np.stack([_forecast(suite, cell, n) for n in range(s.instances)])
    problems = [ExposureProblem(task, start, available, members, s.risk) for members in traces]
    # Transitions do not depend on outcomes, so all instances of a cell have the same graph.
    graph, counting = _timed(lambda: unfold(problems[0]))
    seconds: dict[str, tuple[float, int]] = {"counting": (counting, 1)}
    plans: dict[str, PanelPlan] = {}
    for name, policy in _policies(s, cell).items():
        search = partial(
            search_panel, task, [start] * s.instances, traces, policy, actions=allowed[None], threads=1,
            engine="compiled" if s.compiled else "auto",
        )  # fmt: skip
        search()  # compiles, where it is worth it, so that what is timed is the search
        plans[name], spent = _timed(search)
        seconds[name] = spent, s.instances
    rows = []
    for n, problem in enumerate(problems):
        found = _plain(s, problem, graph, seconds)
        best = float(plans["bnb"].score[n])
        for name in ("exact", "bnb"):
            plan = plans[name]
            proved = float(plan.status[n] == Status.PROVED)
            found[name] = {"nodes": int(plan.expansions[n]), "proved": proved, "value": float(plan.score[n])}
        for name in EXACT:
            value = found[name]["value"]
            found[name]["off"] = None if value is None else abs(value - best) / (1.0 + abs(best))
        for name in BEAMS:
            found[name] = _beam(s, cell, plans[name], n, best)
        rows.append({"split": SPLIT, "family": _name(cell), "series": _series(n), "window": 0, "start": 0,
                     "decisions": 1, "policies": found, "certificate": None})  # fmt: skip
    return {"rows": rows, "seconds": seconds}


def _policies(s: ScalingSettings, cell: tuple[int, int, int]) -> dict[str, Policy]:
    depth = cell[2]
    beam = UCBeam(depth=depth, risk=s.risk, spread="std", width=s.width, top_k=s.top_k, order="score")
    exact = Exact(depth=depth, risk=s.risk, spread="std", node_budget=s.node_budget, order="score")
    return {
        "beam": beam,
        "uc": UCBeam(depth=depth, risk=s.risk, spread="std", width=s.width, top_k=s.top_k, order="bound"),
        "exact": exact,
        "bnb": Exact(depth=depth, risk=s.risk, spread="std", node_budget=s.node_budget, order="bound"),
    }


def _plain(
    s: ScalingSettings, problem: ExposureProblem, graph: PlanGraph, seconds: dict[str, tuple[float, int]]
) -> dict[str, dict[str, Any]]:
    """Counts of the plain methods, and their values where they are small enough to run."""
    found: dict[str, dict[str, Any]] = {
        "enumeration": {"nodes": graph.prefixes, "plans": graph.plans, "value": None, "miscounted": None},
        "dp": {"nodes": graph.states, "edges": graph.edges, "value": None},
    }
    if graph.prefixes <= s.walk_cap:
        (value, visited), spent = _timed(lambda: enumerate_plans(problem))
        found["enumeration"] |= {"value": value, "miscounted": visited - graph.prefixes}
        _add(seconds, "enumeration (plain)", spent)
    if graph.edges <= s.edge_cap:
        value, spent = _timed(lambda: programme(problem))
        found["dp"]["value"] = value
        _add(seconds, "dp (plain)", spent)
    return found


def _add(seconds: dict[str, tuple[float, int]], name: str, spent: float) -> None:
    before, count = seconds.get(name, (0.0, 0))
    seconds[name] = before + spent, count + 1


def _beam(s: ScalingSettings, cell: tuple[int, int, int], plan: PanelPlan, n: int, best: float) -> dict[str, Any]:
    """Counters against Proposition 1, and how far the score is from the exact one."""
    _, actions, depth = cell
    kept = 1 + s.width * (depth - 1)
    nodes, scored = int(plan.expansions[n]), int(plan.action_scores[n])
    return {
        "nodes": nodes,
        "action_scores": scored,
        "beyond_nodes": nodes - min(s.top_k, actions) * kept,
        "beyond_scores": scored - actions * kept,
        "value": float(plan.score[n]),
        "shortfall": (best - float(plan.score[n])) / (1.0 + abs(best)),
    }


# -------------------------------------------------------------------- what is shown


def _tables() -> list[dict[str, Any]]:
    order = [*EXACT, *BEAMS]
    nodes = [column("Nodes", "nodes"), column("Most", "nodes", "max"), column("Value", "value"),
             column("Shortfall", "shortfall"), column("Worst shortfall", "shortfall", "max")]  # fmt: skip
    agreement = [column("Off", "off", "max"), column("Proved", "proved", "min"),
                 column("Miscounted", "miscounted", "max")]  # fmt: skip
    limits = [column("Expansions beyond", "beyond_nodes", "max"), column("Scores beyond", "beyond_scores", "max"),
              column("Least shortfall", "shortfall", "min")]  # fmt: skip
    return [
        table("scaling", "Nodes per decision by (capacity, actions, depth)", ["family", "policy"], nodes, order,
              split=SPLIT),
        table("size", "Size of the problem", ["family"],
              [column("Plans", "plans", "max"), column("Edges", "edges", "max")], order,
              only=["enumeration", "dp"], split=SPLIT),
        table("agreement", "Largest relative difference of exact values", ["policy"], agreement, order, only=EXACT,
              split=SPLIT),
        table("limits", "Beam against Proposition 1", ["policy"], limits, order, only=BEAMS, split=SPLIT),
    ]  # fmt: skip


def _checks() -> list[dict[str, Any]]:
    """Exact methods agree where they ran, the beam keeps to Proposition 1 and never beats an exact value."""
    checks = [cell_check(f"{name}: relative difference from the exact value", "agreement", [name], "Off", "<=", 1e-9)
              for name in EXACT]  # fmt: skip
    checks += [cell_check(f"{name}: proved in every instance", "agreement", [name], "Proved", "==", 1)
               for name in ("exact", "bnb")]  # fmt: skip
    checks.append(cell_check("enumeration: beginnings walked less counted", "agreement", ["enumeration"], "Miscounted"))
    for name in BEAMS:
        checks.append(
            cell_check(f"{name}: expansions beyond k(1+B(d-1))", "limits", [name], "Expansions beyond", "<=", 0)
        )
        checks.append(cell_check(f"{name}: scores beyond m(1+B(d-1))", "limits", [name], "Scores beyond", "<=", 0))
        checks.append(cell_check(f"{name}: shortfall", "limits", [name], "Least shortfall", ">=", -1e-9))
    return checks
