"""Robustness: the same decisions under forecasts, records or a world that went wrong, each series its own comparison.

A stress begins at the onset; figures are of the decisions from there on. Certificates speak about the forecast they
were given, so what is asked is: what does it cost, do decisions still pass and leave, and does the monitor see it?

Decisions that are drawn for the verifier go through the stresses in turn: the one at step t is taken under stress
number t, counted round and round from nothing wrong (`StressorsSettings.each`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from time import process_time
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ucsearch.forecast.streams import series_stream
from ucsearch.lab.comparators import key_from
from ucsearch.lab.suites.evidence.sample import Drawn
from ucsearch.lab.suites.evidence.tables import cell_check, column, table
from ucsearch.lab.suites.job import SuiteJob
from ucsearch.lab.suites.kinds.kind import Opened, Rows, Selection, SuiteKind
from ucsearch.lab.suites.kinds.series import Pool
from ucsearch.lab.suites.kinds.settings import SettingsTable, TaskTable
from ucsearch.lab.suites.kinds.stressors.world import (
    CLEAN,
    KINDS,
    Stress,
    StressedWorld,
    StressKind,
    recorded,
    shifted,
    watched,
)
from ucsearch.lab.suites.kinds.walkforward.rows import Samples, certificates_of, of_windows
from ucsearch.lab.suites.kinds.walkforward.settings import Items, WalkForwardSettings
from ucsearch.lab.suites.kinds.walkforward.world import DAYS
from ucsearch.lab.suites.protocol.comparison import Protocol
from ucsearch.lab.suites.protocol.expected_rows import RowPlan
from ucsearch.lab.suites.suite import Suite
from ucsearch.policies import Exact, Proof, Run
from ucsearch.replay.choosers import Certified
from ucsearch.replay.panel import Panel, Stretch
from ucsearch.replay.walk import Choice, Seen, Walk, walk

__all__ = ["Stressors", "StressorsSettings"]


class StressedSource(SettingsTable):
    """A task on some families, with the policy that a suite before this one had chosen for it."""

    families: tuple[str, ...] = Field(min_length=1)
    task: TaskTable
    items: Items | None = None
    multiples: tuple[float, ...] | None = None
    arrivals: int = Field(1, ge=1)
    mode: Literal["mean", "members", "closed"] = "mean"
    risk: float = Field(0.0, ge=0.0)
    depth: int = Field(3, ge=1)
    nodes: int = Field(2_000_000, ge=1)
    per_family: int = Field(8, ge=1)
    skip: int = Field(0, ge=0, description="series that come first by hash and are left to other suites")
    scaling: Literal["level", "none"] = "level"
    busy: float | None = Field(None, gt=0.0)


class StressorsSettings(SettingsTable):
    """Tasks, stresses and when they begin."""

    sources: dict[str, StressedSource] = Field(min_length=1)
    stresses: dict[StressKind, tuple[float, ...]] = Field(min_length=1)
    decisions: int = Field(120, ge=2, description="of each series")
    onset: int = Field(40, ge=1, description="decision from which on something is wrong")
    fit: int = Field(60, ge=10)
    paths: int = Field(60, ge=2)
    sampled: int = Field(12, ge=1, description="decisions drawn for the verifier")
    engine: Literal["python", "compiled"] = "compiled"

    @model_validator(mode="after")
    def _sound(self) -> StressorsSettings:
        if not self.onset < self.decisions:
            raise ValueError("an onset before the last decision")
        for stress in self.each():
            if stress is not None:
                stress.check()
        return self

    def each(self) -> Iterator[Stress | None]:
        """Nothing wrong, then every stress."""
        yield None
        for kind in KINDS:
            for size in self.stresses.get(kind, ()):
                yield Stress(kind, size)

    def world(self, source: StressedSource, stress: Stress | None) -> StressedWorld:
        settings = WalkForwardSettings(
            families=source.families, task=source.task, items=source.items, multiples=source.multiples,
            arrivals=source.arrivals, paths=self.paths, floor=0.0, engine=self.engine,
        )  # fmt: skip
        return StressedWorld(settings, stress, self.onset)

    def plan(self) -> RowPlan:
        """The rows that evidence must hold."""
        families = {family: source.per_family for source in self.sources.values() for family in source.families}
        names = {"uc"}
        for kind, sizes in self.stresses.items():
            names |= {f"{kind} {size:+g}" if kind in ("bias", "shift") else f"{kind} {size:g}" for size in sizes}
        return RowPlan(
            series={"test": families}, windows={"test": 1}, decisions={"test": self.decisions},
            policies={"test": frozenset(names)}, sampled=self.sampled,
        )  # fmt: skip


class Stressors(SuiteKind):
    """The policies that suites before this one had chosen, on other series, under every stress."""

    describes = True
    s: StressorsSettings

    def __init__(self, suite: Suite, job: SuiteJob) -> None:
        super().__init__(suite, job)
        self.pools: dict[str, Pool] = {}
        for name, source in self.s.sources.items():
            ahead = _horizon(self.s, source)
            pool = self.pools[name] = Pool({}, {"test": 1}, self.s.decisions, ahead, self.s.fit, source.scaling)
            for family in source.families:
                loaded = self.family(family)
                pool.take(family, loaded.series, source.per_family, skip=source.skip, busy=source.busy, latest=DAYS)
                self.datasets[family] = loaded.dataset

    def protocol(self) -> Protocol:
        return self.compared("cost", "cost", "utility", {"test": 1})

    def choice(self, rows: Rows) -> dict[str, Any]:
        return {"id": "as chosen before", "risk": max(source.risk for source in self.s.sources.values())}

    def opened(self) -> Opened:
        return {family: spans for pool in self.pools.values() for family, spans in pool.opened().items()}

    def test(self, selection: Selection) -> Rows:
        s, rows = self.s, []
        jobs = [(name, family) for name, source in s.sources.items() for family in source.families]
        for name, family in self.each("families", jobs):
            every = self.pools[name].stretches("test", self.job)
            stretches = [stretch for stretch in every if stretch.family == family]
            begun = process_time()
            make = partial(_family, self.suite, s.sources[name], stretches, self.job.threads)
            shard = self.job.shard(f"{name}-{family}", make)
            self.job.timing(name, process_time() - begun, len(stretches) * s.decisions * len(list(s.each())))
            for i, stretch in enumerate(stretches):
                rows.append({
                    "split": "test", "family": family, "series": stretch.series, "window": 0, "start": stretch.start,
                    "decisions": s.decisions, "source": name, "certificate": shard["certificates"][i],
                    "policies": {stress: figures[i] for stress, figures in shard["stresses"].items()},
                })  # fmt: skip
        return rows

    def tables(self, rows: Rows) -> list[dict[str, Any]]:
        return _tables(self.s)

    def checks(self, rows: Rows) -> list[dict[str, Any]]:
        return _checks(self.s)

    def sample(self, drawn: Sequence[Drawn]) -> list[dict[str, Any]]:
        return _sample(self.suite, self.pools, self.job, drawn)


def _horizon(s: StressorsSettings, source: StressedSource) -> int:
    return max(source.depth, s.world(source, None).binding.delay + source.arrivals) + 1


def _family(suite: Suite, source: StressedSource, stretches: list[Stretch], threads: int | None) -> dict[str, Any]:
    """Figures of every series under every stress, and the certificates of its decisions while nothing is wrong."""
    s: StressorsSettings = suite.settings
    key = _key(suite)
    out: dict[str, list[dict[str, Any]]] = {}
    certificates: list[dict[str, Any]] = []
    for stress in s.each():
        world, panel = _stressed(s, source, stress, stretches, key)
        policy = _policy(s, source, world, panel, threads)
        free = walk(panel, policy, engine=s.engine)
        out[CLEAN if stress is None else stress.name] = _figures(s, policy, free, panel, stress, key)
        if stress is None:
            certificates = certificates_of(free)
    return {"stresses": out, "certificates": certificates}


def _key(suite: Suite) -> int:
    return key_from(np.random.default_rng([suite.seed, 0]))


def _stressed(
    s: StressorsSettings, source: StressedSource, stress: Stress | None, stretches: Sequence[Stretch], key: int
) -> tuple[StressedWorld, Panel]:
    world = s.world(source, stress)
    return world, world.panel([shifted(stretch, stress, s.onset) for stretch in stretches], _horizon(s, source), key)


def _policy(
    s: StressorsSettings, source: StressedSource, world: StressedWorld, panel: Panel, threads: int | None, **more: Any
) -> Certified:
    policy = Exact(depth=source.depth, risk=source.risk, node_budget=source.nodes, **_mode(source))
    kind: Literal["bound", "auto"] = "bound" if source.mode == "mean" else "auto"
    return Certified(
        panel.task, policy, proof=Proof(kind=kind, node_budget=source.nodes), law=world.law({"mode": source.mode}),
        how=Run(engine=s.engine, threads=threads), **more,
    )  # fmt: skip


def _sample(suite: Suite, pools: Mapping[str, Pool], job: SuiteJob, drawn: Sequence[Drawn]) -> list[dict[str, Any]]:
    """The drawn decisions, in the order drawn: their windows are walked again, each under its step's stress."""
    s: StressorsSettings = suite.settings
    stresses = list(s.each())
    by_draw: dict[Drawn, dict[str, Any]] = {}
    for name, source in s.sources.items():
        every = pools[name].stretches("test", job)
        for number, stress in enumerate(stresses):
            wanted = [d for d in drawn if d.family in source.families and d.step % len(stresses) == number]
            stretches = of_windows(every, wanted)
            if not stretches:
                continue
            world, panel = _stressed(s, source, stress, stretches, _key(suite))
            samples = Samples(stretches, world.where, wanted)
            walk(panel, _policy(s, source, world, panel, job.threads, keep=samples.keep), engine=s.engine)
            by_draw |= samples.found
    return [by_draw[draw] for draw in drawn]


def _figures(
    s: StressorsSettings, policy: Certified, free: Walk, panel: Panel, stress: Stress | None, key: int
) -> list[dict[str, Any]]:
    outcomes = np.stack([_records(stretch, s.onset, stress, key) for stretch in panel.stretches])
    seen = watched(panel, outcomes, s.onset, 0 if stress is None else stress.late)
    # Where nothing is blocked the guarded walk is the same walk.
    guarded = walk(panel, _Guarded(policy, seen.blocked), engine=s.engine) if seen.blocked.any() else free
    figures = []
    for n in range(len(panel)):
        cost = _cost(free, n, s.onset)
        passed, released = (int(free.certificate[f][n, s.onset :].sum()) for f in ("passed", "released"))
        figures.append({
            "cost": cost, "utility": -cost, "violations": int(free.violations[n]), "passed": passed,
            "released": released, "judged": s.decisions - s.onset, "guarded_cost": _cost(guarded, n, s.onset),
            "open": int((~seen.blocked[n, s.onset :]).sum()), "tripped": int(seen.delay[n] is not None),
            "early": int(seen.early[n]), "delay": seen.delay[n], "within": int(seen.within[n]),
            "known": int(seen.known[n]), "pool_tripped": int(seen.pool_delay is not None),
            "pool_delay": seen.pool_delay,
        })  # fmt: skip
    return figures


def _mode(source: StressedSource) -> dict[str, Any]:
    return {"spread": "std"} if source.mode == "mean" else {"mode": source.mode}


def _cost(done: Walk, n: int, onset: int) -> float:
    return -math.fsum(done.rewards[n, onset:])


def _records(stretch: Stretch, onset: int, stress: Stress | None, key: int) -> NDArray[np.float64]:
    """(T,) outcomes of a window as they were written down, by the same draws that its forecasts were made from."""
    seed = [int(series_stream(key, f"{stretch.family}/{stretch.series}/{stretch.window}"))]
    return recorded(stretch.y, stretch.start + onset, stress, seed)[stretch.start : stretch.start + stretch.decisions]


class _Guarded:
    """The same policy, but while a monitor has tripped the task's fallback decides."""

    def __init__(self, policy: Certified, blocked: NDArray[np.bool_]) -> None:
        self.own, self.blocked = policy, blocked

    def __call__(self, seen: Seen) -> Choice:
        choice = self.own(seen)
        return dataclasses.replace(choice, action=np.where(self.blocked[:, seen.t], np.nan, choice.action))


def _tables(s: StressorsSettings) -> list[dict[str, Any]]:
    order = [CLEAN if stress is None else stress.name for stress in s.each()]
    columns = [
        column("Cost", "cost"), column("Proved", "passed", "ratio", "judged"),
        column("Released", "released", "ratio", "judged"), column("Within 90 %", "within", "ratio", "known"),
        column("Series tripped", "tripped"), column("Delay", "delay"),
        column("Families tripped", "pool_tripped"), column("Family's delay", "pool_delay"),
        column("Left open", "open", "ratio", "judged"), column("Cost, guarded", "guarded_cost"),
        column("Violations", "violations", "sum"),
    ]  # fmt: skip
    return [
        table("stresses", "From the onset on, by task and stress", ["source", "policy"], columns, order),
        table("families", "By family", ["family", "policy"], columns, order),
    ]


def _checks(s: StressorsSettings) -> list[dict[str, Any]]:
    """What must hold whatever goes wrong: rules are kept, and the proof is about the forecast as it was given."""
    names = [CLEAN if stress is None else stress.name for stress in s.each()]
    checks = []
    for source in s.sources:
        for name in names:
            checks.append(cell_check(f"violations, {source}, {name}", "stresses", [source, name], "Violations"))
            checks.append(cell_check(f"proved, {source}, {name}", "stresses", [source, name], "Proved", ">=", 0.95))
        checks.append(
            cell_check(f"series tripped without a stress, {source}", "stresses", [source, CLEAN], "Series tripped",
                       "<=", 0.05)
        )  # fmt: skip
    return checks
