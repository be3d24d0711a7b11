"""What a walk-forward run stands on: its series, panels, candidates as the product runs them, and hindsight."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ucsearch.lab.comparators import key_from
from ucsearch.lab.suites.job import Job
from ucsearch.lab.suites.kinds.declaring import family_of
from ucsearch.lab.suites.kinds.series import Pool, by_hash
from ucsearch.lab.suites.kinds.walkforward.figures import Figures, figures_of
from ucsearch.lab.suites.kinds.walkforward.settings import WalkForwardSettings
from ucsearch.lab.suites.kinds.walkforward.world import DAYS, World
from ucsearch.lab.suites.suite import Suite
from ucsearch.options import Proof
from ucsearch.policies import Exact
from ucsearch.replay.choosers import Certified, Searched
from ucsearch.replay.panel import Panel, Stretch
from ucsearch.replay.walk import Walk, walk
from ucsearch.tasks.base import Binding

__all__ = ["Ground"]


class Ground:
    """What the stations of one run share. A panel and its hindsight are made once."""

    def __init__(self, suite: Suite, job: Job, purpose: str = "evaluation") -> None:
        self.suite, self.job, self.purpose = suite, job, purpose
        self.s: WalkForwardSettings = suite.settings
        self.world = World(self.s)
        self.binding: Binding = self.world.binding
        self.key = key_from(np.random.default_rng([suite.seed, 0]))
        depth = max(self.s.candidates.depths)
        self.horizon = max(depth, self.binding.delay + self.s.arrivals) + 1
        self.datasets: dict[str, str] = {}
        self.files: list[Any] = []
        self.pool = self._pool()
        self.panels: dict[str, Panel] = {}
        self.some: dict[str, tuple[Panel, list[int]]] = {}
        self.told: dict[tuple[int, int], Walk] = {}  # hindsight, by panel and depth
        self.own: dict[str, Walk] = {}  # candidates on test

    # ---------------------------------------------------------------- data

    def _pool(self) -> Pool:
        s = self.s.splits
        pool = Pool(
            {}, {"validation": s.validation, "test": s.test}, s.decisions, self.horizon, s.fit, s.scaling, s.latest,
            self.purpose,
        )  # fmt: skip
        for name in self.s.families:
            family = family_of(name, self.job)
            fresh = [one for one in family.series if one.id not in self.s.seen]
            count = s.counts.get(name, s.per_family)
            if count is None:
                pool.families[name] = pool.busy(fresh, s.busy, DAYS)
            else:
                pool.take(name, fresh, count, skip=s.skip, busy=s.busy, latest=DAYS)
            self.datasets[name] = family.dataset
            self.files.extend(family.files)
        return pool

    def panel(self, split: str) -> Panel:
        if split not in self.panels:
            self.panels[split] = self.panel_of(self.pool.stretches(split, self.job))
        return self.panels[split]

    def panel_of(self, stretches: Sequence[Stretch]) -> Panel:
        return self.world.panel(stretches, self.horizon, self.key)

    def sampled(self, split: str) -> tuple[Panel, list[int]]:
        """The windows that samplers run on, and their places in the whole panel."""
        panel, count = self.panel(split), self.s.comparators.series
        if count is None:
            return panel, list(range(len(panel)))
        if split not in self.some:
            first = {f: set(by_hash([x.id for x in series])[:count]) for f, series in self.pool.families.items()}
            places = [i for i, one in enumerate(panel.stretches) if one.series in first[one.family]]
            self.some[split] = self.panel_of([panel.stretches[i] for i in places]), places
        return self.some[split]

    def certified(self, candidate: dict[str, Any], **more: Any) -> Certified:
        """A candidate as the product would run it."""
        c = self.s.candidates
        proof = Proof(kind=c.kind(candidate))
        if c.nodes is not None:
            proof = dataclasses.replace(proof, node_budget=c.nodes)
        return Certified(
            self.binding.task, c.policy(candidate), proof=proof, how=self.s.how(self.job.threads),
            law=self.world.law(candidate), **more,
        )  # fmt: skip

    def learned(self, name: str) -> Walk:
        from ucsearch.lab.suites.kinds.walkforward.learned import learned_walk

        return learned_walk(
            name,
            self.panel("test"),
            self.panel("validation"),
            self.binding,
            self.world.forecaster,
            self.horizon,
            self.key,
        )

    def head(self, split: str, i: int) -> dict[str, Any]:
        one = self.panel(split).stretches[i]
        return {
            "split": split, "family": one.family, "series": one.series, "window": one.window, "start": one.start,
            "decisions": one.decisions,
        }  # fmt: skip

    def cluster(self, family: str, series: str) -> str:
        """What series share beyond their family: the market or store the data say, else the file they come from."""
        one = next(s for s in self.pool.families[family] if s.id == series)
        return one.category or family

    def hindsight(self, panel: Panel, depth: int) -> Walk:
        """The same receding horizon, told what will happen."""
        key = (id(panel), depth)  # panels are kept as long as this run
        if key not in self.told:
            self.told[key] = self._foreseeing(panel, depth)
        return self.told[key]

    def _foreseeing(self, panel: Panel, depth: int) -> Walk:
        how = self.s.how(self.job.threads)
        return walk(
            panel, Searched(self.binding.task, Exact(depth=depth, risk=0.0), how, foresees=True), engine=self.s.engine
        )

    def mean(self, walks: list[Walk], best: Walk) -> Figures:
        """Figures of several seeds, averaged window by window."""
        found = [figures_of(w, best, self.s.utility, self.binding.form) for w in walks]
        return [
            {name: math.fsum(f[i][name] for f in found) / len(found) for name in found[0][i]}
            for i in range(len(found[0]))
        ]
