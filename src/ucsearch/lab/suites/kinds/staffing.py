"""Units that start late and must stay up, for many loads: is planning over all members cheaper than the rules?

The primary question is asked on one forecast: everybody plans on the same members, those that cost the judged policy
least on validation, as they are or recalibrated by hour of the day. Rules are tuned on design series; validation, the
hours before the test on the same series, tells which rules are strongest and how far series differ. The unit is the
series, families are the data sets.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from time import process_time
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ucsearch.errors import InputError
from ucsearch.lab.comparators import key_from
from ucsearch.lab.data.records import Series
from ucsearch.lab.suites.evidence.rows import Row
from ucsearch.lab.suites.gates.primary import Endpoint, PrimaryQuestion
from ucsearch.lab.suites.job import SuiteJob
from ucsearch.lab.suites.kinds.kind import Opened, Rows, Selection, SuiteKind
from ucsearch.lab.suites.kinds.rules import cost_tables, question_problems, tune_rules
from ucsearch.lab.suites.kinds.series import SALT, Stretch, by_hash, is_design
from ucsearch.lab.suites.kinds.settings import SettingsTable, TaskTable
from ucsearch.lab.suites.kinds.walkforward.settings import WalkForwardSettings
from ucsearch.lab.suites.kinds.walkforward.world import World
from ucsearch.lab.suites.protocol.comparison import Protocol
from ucsearch.lab.suites.protocol.expected_rows import RowPlan, both_splits
from ucsearch.lab.suites.recheck.differences import Discrepancy
from ucsearch.lab.suites.suite import Suite
from ucsearch.policies import Exact, Proof, Run
from ucsearch.replay.choosers import Certified
from ucsearch.replay.panel import Panel
from ucsearch.replay.practice import Nothing
from ucsearch.replay.roster import Budget, Entry, practitioners
from ucsearch.replay.walk import Walk, walk

__all__ = ["StaffingSettings", "Yard"]

Floats = NDArray[np.float64]
UC = "uc"
Members = Literal["off", "rolling"]
RULES = ("planning on the mean", "planning on a quantile", "newsvendor staffing", "quantile staffing",
         "calendar staffing")  # fmt: skip


class StaffingSettings(SettingsTable):
    """Series, the task, and how everybody forecasts."""

    families: dict[str, int] = Field(description="by data family how many series, first by a hash of their id")
    logs: tuple[str, ...] = Field((), description="families whose values are logarithms of the load")
    opened: tuple[str, ...] = Field((), description="ids that looks or scripts have opened; they are left out")
    task: TaskTable
    recalibrate: tuple[Members, ...] = Field(("off", "rolling"), min_length=1, description="validation chooses one")
    latest: int = Field(1000, ge=100, description="values of a series that are used, the latest")
    hours: int = Field(96, ge=1, description="of validation, and of test")
    paths: int = Field(30, ge=2)
    depth: int = Field(6, ge=1)
    nodes: int = Field(2_000_000, ge=1)
    idle: float = Field(0.3, gt=0.0, description="largest share of hours without load before the first window")
    tuning: int = Field(12, ge=1, description="design series of each family that rules are tuned on, at most")
    endpoint: Endpoint = "superior"
    delta: float = Field(0.01, gt=0.0, description="scale-free delta that the suite is sized for")
    engine: Literal["python", "compiled"] = "compiled"

    def world(self, members: Members) -> World:
        return World(WalkForwardSettings(
            families=tuple(self.families), task=self.task, paths=self.paths, floor=0.0, recalibrate=members,
            engine=self.engine,
        ))  # fmt: skip

    def plan(self) -> RowPlan:
        """The rows that evidence must hold."""
        return both_splits(self.families, self.hours, (UC, "nothing", *RULES))

    @property
    def candidate(self) -> dict[str, Any]:
        """The policy that is judged, declared; validation adds how members are recalibrated."""
        return {"id": UC, "risk": 0.0, "depth": self.depth}

    @property
    def replaceable(self) -> tuple[str, ...]:
        """Families that may come from other files."""
        return tuple(self.families)

    def problems(self, rows: Sequence[Row], selection: Selection) -> Iterator[Discrepancy]:
        """What is wrong about the question of a selection record."""
        return question_problems(self.candidate, frozenset(RULES), self.endpoint, self.delta, selection)


class Yard(SuiteKind):
    """The series of all families, cut into the hours of each split."""

    s: StaffingSettings

    def __init__(self, suite: Suite, job: SuiteJob) -> None:
        super().__init__(suite, job)
        self.horizon = self.s.depth + 2
        self.series: dict[str, list[Series]] = {}
        self.design: dict[str, list[Series]] = {}
        self.lengths: dict[str, int] = {}  # of whole series
        for name, count in self.s.families.items():
            family = self.family(name)
            self.datasets[name] = family.dataset
            loads = [self._load(name, one) for one in family.series]
            used = [one for one in loads if self._is_used(one)]
            self.series[name] = self._first([x for x in used if not is_design(x.id)], name, count)
            self.design[name] = self._first([x for x in used if is_design(x.id)], name, None)[: self.s.tuning]
        self.members: Members = self.s.recalibrate[0]
        self.settings: dict[str, Any] = {}

    # ---------------------------------------------------------------- the protocol's parts

    def protocol(self) -> Protocol:
        return self.compared("cost", "cost", "utility", {"validation": 1, "test": 1})

    def validation(self, settled: Selection | None = None) -> Rows:
        tried: dict[Members, tuple[dict[str, Any], Rows]] = {}
        for members in self.s.recalibrate:
            self.members = members
            self.settings = self.job.shard(f"rules, {members}", self._tuned)
            tried[members] = self.settings, self.job.shard(f"validation, {members}", partial(self.rows, "validation"))
        self.members = min(
            self.s.recalibrate, key=lambda members: sum(row["policies"][UC]["cost"] for row in tried[members][1])
        )
        self.settings, rows = tried[self.members]
        return rows

    def choice(self, rows: Rows) -> dict[str, Any]:
        return self.s.candidate | {"recalibrate": self.members}

    def question(self) -> PrimaryQuestion:
        return PrimaryQuestion(self.settings, self.s.endpoint, self.s.delta)

    def test(self, selection: Selection) -> Rows:
        rows: Rows = self.job.shard("test", lambda: self.rows("test"))
        return rows

    def tables(self, rows: Rows) -> list[dict[str, Any]]:
        return cost_tables([UC, "nothing", *self.settings], "a series, mean over series", "a series by data set")

    # ---------------------------------------------------------------- data

    def _load(self, family: str, series: Series) -> Series:
        y = series.y[-self.s.latest :]
        self.lengths[series.id] = len(series.y)
        return dataclasses.replace(series, y=np.exp(y) if family in self.s.logs else y, n_train=len(y))

    def _is_used(self, series: Series) -> bool:
        """Has a load on most hours before the first window; what comes later is not looked at."""
        before = series.y[: len(series.y) - 2 * self.s.hours - self.horizon]
        return (
            series.id not in self.s.opened and len(series.y) == self.s.latest and (before <= 0.0).mean() < self.s.idle
        )

    def _first(self, series: Sequence[Series], family: str, count: int | None) -> list[Series]:
        by_id = {one.id: one for one in series}
        ids = by_hash(list(by_id), SALT)[:count]
        if not ids or len(ids) < (count or 0):
            raise InputError("staffing.families", f"{len(ids)} unopened series in {family}", f"at least {count or 1}")
        return [by_id[one] for one in ids]

    def opened(self) -> Opened:
        """By family and series the periods of the test."""
        first = self.s.latest - self.s.hours - self.horizon
        return {
            name: {one.id: [(n := self.lengths[one.id]) - self.s.latest + first, n] for one in series}
            for name, series in self.series.items()
        }

    def panel(self, series: dict[str, list[Series]], split: str) -> Panel:
        """Every series with forecasts for the hours of a split; validation sees nothing of the test."""
        if split == "test":
            self.job.require_open()
        stretches = []
        for family, several in series.items():
            for one in several:
                last = len(one.y) - self.s.hours - self.horizon
                end = len(one.y) if split == "test" else last
                start = end - (self.horizon if split == "test" else 0) - self.s.hours
                scale = float(one.y[: last - self.s.hours].mean())
                stretches.append(Stretch(family, one.id, 0, start, self.s.hours, 24, one.y[:end] / scale, scale))
        key = key_from(
            np.random.default_rng([self.suite.seed, int.from_bytes(hashlib.sha256(b"staffing").digest()[:4])])
        )
        return self.s.world(self.members).panel(stretches, self.horizon, key)

    # ---------------------------------------------------------------- policies

    def _rules(self, panel: Panel) -> list[Entry]:
        """What planners would do, on the panel's members."""
        return practitioners(panel, Budget(depth=self.s.depth, risk=0.0), how=self._how)

    @property
    def _how(self) -> Run:
        return Run(threads=1, engine=self.s.engine)

    def _tuned(self) -> dict[str, Any]:
        panel = self.panel(self.design, "validation")
        told = partial(self.job.progress, f"rules, {self.members}")
        return tune_rules(self._rules(panel), panel, self.s.engine, told)

    def rows(self, split: str) -> Rows:
        """One row for every series."""
        panel, s, members = self.panel(self.series, split), self.s, self.members
        begun = process_time()
        law = s.world(members).law({"mode": "closed"})
        proved: list[Floats] = []
        judged = Certified(
            panel.task, Exact(depth=s.depth, mode="closed", node_budget=s.nodes), law=law,
            proof=Proof(node_budget=s.nodes), how=self._how,
            keep=lambda t, decided: proved.append(np.asarray(decided.outcome == "RELEASED", np.float64)),
        )  # fmt: skip
        walks = {UC: walk(panel, judged, engine=s.engine)}
        self.job.timing(f"{split} {UC}, {members}", process_time() - begun, len(panel) * s.hours)
        walks["nothing"] = walk(panel, Nothing(), engine=s.engine)
        for entry in self.each(f"{split}, {members}", self._rules(panel)):
            walks[entry.name] = walk(panel, entry.make(**self.settings[entry.name]["settings"]), engine=s.engine)
        released = np.sum(proved, axis=0)
        return [
            {
                "split": split, "family": one.family, "series": one.series, "window": 0, "start": one.start,
                "decisions": s.hours, "cluster": one.series, "certificate": None,
                "policies": {
                    name: _figures(done, i)
                    | ({"asked": float(s.hours), "proved": float(released[i])} if name == UC else {})
                    for name, done in walks.items()
                },
            }
            for i, one in enumerate(panel.stretches)
        ]  # fmt: skip


def _figures(done: Walk, i: int) -> dict[str, float]:
    cost = float(-done.totals[i])
    return {"cost": cost, "utility": -cost, "violations": float(done.violations[i])}
