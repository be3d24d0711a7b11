"""One truck for many items: every day the orders of a group share a volume. Who gets how much?

Each item's own values come from closed mode with its proof; what differs is only how the volume is shared. The judged
policy allocates by shadow price with a proved gap. Its opponents fill greedily, by gain or by gain per volume, or cut
all wishes in proportion. A series is a truck: its cost is that of its items together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from time import process_time
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from ucsearch.allocation.api import Shared, Terms, allocate_cases, cases_of
from ucsearch.decision.api import decide_panel
from ucsearch.lab.comparators import key_from
from ucsearch.lab.suites.job import Findings, Job
from ucsearch.lab.suites.kinds.declaring import declaration, family_of
from ucsearch.lab.suites.kinds.walkforward.settings import Items, WalkForwardSettings
from ucsearch.lab.suites.kinds.walkforward.world import DAYS, World
from ucsearch.lab.suites.sources import Pool
from ucsearch.lab.suites.suite import Suite
from ucsearch.lab.suites.tables import cell_check
from ucsearch.options import Proof, Run
from ucsearch.policies import Exact
from ucsearch.replay.panel import Panel
from ucsearch.replay.walk import Choice, Seen, walk

__all__ = ["TruckSettings", "run"]

Floats = NDArray[np.float64]
RULES = ("uc", "greedy-gain", "greedy-volume", "proportional-cut")
PROVED = 0.01  # of what the limit costs; a gap up to this counts as proved
LITRES = (1.0, 2.0, 3.0, 5.0)  # volume of a unit, by a hash of the item's id


class TruckSettings(BaseModel):
    """Stores, items, and how much room their truck has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    families: tuple[str, ...] = Field(min_length=1)
    task: dict[str, Any]
    items: Items
    trucks: int = Field(6, ge=3, description="of each family")
    per_truck: int = Field(12, ge=2, description="items")
    room: float = Field(1.2, gt=0.0, description="volume a day, by the mean demand of a day")
    decisions: int = Field(28, ge=1)
    fit: int = Field(200, ge=60)
    busy: float = Field(0.5, gt=0.0)
    paths: int = Field(40, ge=2)
    depth: int = Field(7, ge=1)
    nodes: int = Field(2_000_000, ge=1)
    skip: int = Field(0, ge=0, description="items that come first by hash and are left out")
    engine: Literal["python", "compiled"] = "compiled"

    @property
    def count(self) -> int:
        return self.trucks * self.per_truck

    def world(self) -> World:
        settings = WalkForwardSettings(
            families=self.families, task=self.task, items=self.items, paths=self.paths, floor=0.0, engine=self.engine
        )
        return World(settings)


def run(suite: Suite, job: Job) -> Findings:
    s: TruckSettings = suite.settings
    world, horizon = s.world(), max(s.depth, s.world().binding.delay + 1) + 1
    pool = Pool({}, {"test": 1}, s.decisions, horizon, s.fit, "none")
    datasets: dict[str, str] = {}
    files: list[Any] = []
    for name in s.families:
        family = family_of(name, job)
        pool.take(name, family.series, s.count, skip=s.skip, busy=s.busy, latest=DAYS)
        datasets[name] = family.dataset
        files.extend(family.files)
    fixed = {"id": "allocated", "risk": 0.0, "depth": s.depth, "room": s.room}
    job.select(
        declaration(suite, job, datasets, fixed, form="cost", metric="cost", utility="utility", windows={"test": 1})
    )
    job.open_test(pool.opened())
    panel = world.panel(pool.stretches("test", job), horizon, key_from(np.random.default_rng([suite.seed, 0])))
    found = {}
    for n, rule in enumerate(RULES):
        job.progress("rules", n, len(RULES))
        begun = process_time()
        found[rule] = job.shard(rule, partial(_figures, s, world, panel, rule))
        job.timing(rule, process_time() - begun, len(panel) * s.decisions)
    job.progress("rules", len(RULES), len(RULES))
    rows = []
    for number, group in enumerate(_groups(s, panel)):
        one = panel.stretches[group[0]]
        rows.append({
            "split": "test", "family": one.family, "series": _truck(s, number), "window": 0, "start": one.start,
            "decisions": s.decisions, "items": " ".join(panel.stretches[i].series for i in group),
            "policies": {rule: figures[number] for rule, figures in found.items()}, "certificate": None,
        })  # fmt: skip
    trucks = [_truck(s, n) for n in range(s.trucks)]
    return Findings(
        rows=rows, tables=_tables(), checks=_checks(), data=files, splits={"test": dict.fromkeys(s.families, trucks)},
        extra={"replaced_families": sorted(job.families)} if job.families else {},
    )  # fmt: skip


def _truck(s: TruckSettings, number: int) -> str:
    return f"truck {number % s.trucks:02d}"


def _groups(s: TruckSettings, panel: Panel) -> list[list[int]]:
    """Places of every truck's items: neighbours in the order of the hash."""
    return [list(range(n, n + s.per_truck)) for n in range(0, len(panel), s.per_truck)]


def litres(item: str) -> float:
    """Volume of a unit. M5 says nothing about it, so it is drawn by the id."""
    return LITRES[hashlib.sha256(f"litres/{item}".encode()).digest()[0] % len(LITRES)]


def _figures(s: TruckSettings, world: World, panel: Panel, rule: str) -> list[dict[str, Any]]:
    chooser = _Joint(s, world, panel, rule)
    done = walk(panel, chooser, engine=s.engine)
    out = []
    for number, group in enumerate(_groups(s, panel)):
        cost = float(-done.totals[group].sum())
        figures: dict[str, Any] = {
            "cost": cost, "utility": -cost, "violations": int(done.violations[group].sum()) + chooser.over[number],
            "short": int(chooser.short[number]),
        }  # fmt: skip
        if rule == "uc":
            shares = np.array(chooser.gaps[number])
            figures |= {"gap_mean": float(shares.mean()), "gap_most": float(shares.max()),
                        "proved": int((shares <= PROVED).sum()), "days": len(shares)}  # fmt: skip
        out.append(figures)
    return out


class _Joint:
    """Closed mode for every item, then one volume for every truck."""

    def __init__(self, s: TruckSettings, world: World, panel: Panel, rule: str) -> None:
        self.s, self.panel, self.rule = s, panel, rule
        self.law = world.law({"mode": "closed"})
        self.groups = _groups(s, panel)
        self.volume = np.array([litres(one.series) for one in panel.stretches])
        usual = np.array([max(float(h[-DAYS:].mean()), 0.1) for h in panel.history])
        self.limits = [s.room * float((self.volume * usual)[g].sum()) for g in self.groups]
        self.gaps: list[list[float]] = [[] for _ in self.groups]
        self.over, self.short = [0] * len(self.groups), [0] * len(self.groups)

    def __call__(self, seen: Seen) -> Choice:
        trace = seen.trace if self.law is None else self.law(seen)
        decided = decide_panel(
            self.panel.task, seen.state, trace, Exact(depth=self.s.depth, mode="closed", node_budget=self.s.nodes),
            params=seen.params, actions=seen.actions, run=Run(threads=1, engine=self.s.engine),
            proof=Proof(node_budget=self.s.nodes),
        )  # fmt: skip
        names = [one.series for one in self.panel.stretches]
        cases = cases_of(decided, names)
        action = np.array(decided.action, np.float64)
        for number, group in enumerate(self.groups):
            limit, volume = self.limits[number], self.volume[group]
            wished = float((action[group] * volume).sum())
            if wished <= limit:
                self.gaps[number].append(0.0)
                continue
            self.short[number] += 1
            if self.rule == "uc":
                action[group] = self._allocated([cases[i] for i in group], limit, number)
            else:
                table = seen.table[group]
                value = np.where(np.isnan(table), -np.inf, np.array([cases[i].lower for i in group]))
                action[group] = _cut(self.rule, action[group], table, value, volume, limit)
            self.over[number] += float((action[group] * volume).sum()) > limit * (1.0 + 1e-9)
        return Choice(action, np.array(decided.certified.plan.expansions, np.int64))

    def _allocated(self, cases: Sequence[Any], limit: float, number: int) -> Floats:
        times = {case.series: litres(case.series) for case in cases}
        found = allocate_cases(cases, Shared(name="truck", limit=limit, use="units", times=times), Terms(serve="best"))
        if found.result is not None:
            cost = found.result.cost_of_budget
            self.gaps[number].append(found.result.gap / cost if cost > 0.0 else 0.0)
        return np.array([np.nan if share.action is None else share.action for share in found.shares])


def _cut(rule: str, wish: Floats, table: Floats, value: Floats, volume: Floats, limit: float) -> Floats:
    """What practice does when the wishes do not fit."""
    if rule == "proportional-cut":
        wanted = wish * (limit / float((wish * volume).sum()))
        below = np.where((table <= wanted[:, None] * (1.0 + 1e-12)) & np.isfinite(value), table, -np.inf)
        return np.asarray(np.maximum(below.max(axis=1), 0.0))
    none = np.nanargmin(np.where(np.isnan(table), np.inf, np.abs(table)), axis=1)
    rows = np.arange(len(wish))
    gain = value[rows, np.argmax(table == wish[:, None], axis=1)] - value[rows, none]
    rank = gain / np.maximum(wish * volume, 1e-12) if rule == "greedy-volume" else gain
    out, left = np.zeros(len(wish)), limit
    for i in np.argsort(-rank, kind="stable").tolist():
        if wish[i] * volume[i] <= left:
            out[i], left = wish[i], left - float(wish[i] * volume[i])
    return out


def _tables() -> list[dict[str, Any]]:
    def column(name: str, source: str, how: str, over: str | None = None) -> dict[str, str]:
        return {"name": name, "from": source, "how": how} | ({} if over is None else {"over": over})

    base = {"split": "test", "order": list(RULES)}
    return [
        {**base, "name": "policies", "title": "Cost of a truck's items, mean over trucks", "group": ["policy"],
         "columns": [column("Cost", "cost", "mean"), column("Violations", "violations", "sum"),
                     column("Days short", "short", "sum")]},
        {**base, "name": "families", "title": "Cost by store", "group": ["family", "policy"],
         "columns": [column("Cost", "cost", "mean"), column("Days short", "short", "sum")]},
        {**base, "name": "proofs", "title": "Proved gap of the allocation, by what the limit costs",
         "group": ["policy"], "where": {"policy": ["uc"]},
         "columns": [column("Gap, mean", "gap_mean", "mean"), column("Gap, most", "gap_most", "max"),
                     column("Proved", "proved", "ratio", "days")]},
    ]  # fmt: skip


def _checks() -> list[dict[str, Any]]:
    kept = [cell_check(f"violations of {rule}", "policies", [rule], "Violations") for rule in RULES]
    return [*kept, cell_check("days proved to 1 %", "proofs", ["uc"], "Proved", ">=", 0.95)]
