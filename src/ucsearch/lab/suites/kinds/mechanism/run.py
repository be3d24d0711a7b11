"""Mechanism suites: what a bounded beam retains, and whether its certificate tuple tells when the order is preserved.

Chosen on validation and declared before the test split is opened: beta and eps_c of Proposition 2, and the constants of
the predictors, for every source and beam. The beams themselves are the suite's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from ucsearch.forecast import RidgePaths
from ucsearch.lab.comparators import key_from
from ucsearch.lab.suites.evidence.sample import Drawn
from ucsearch.lab.suites.job import SuiteJob
from ucsearch.lab.suites.kinds.kind import Opened, Rows, Selection, SuiteKind
from ucsearch.lab.suites.kinds.mechanism.measure import Diagnosis, coverage
from ucsearch.lab.suites.kinds.mechanism.rows import beam_figures, certificate_of, declare_source, exact_figures, weigh
from ucsearch.lab.suites.kinds.mechanism.settings import MechanismSettings
from ucsearch.lab.suites.kinds.mechanism.tables import checks_of, tables_of
from ucsearch.lab.suites.kinds.series import Pool, Stretch, choose
from ucsearch.lab.suites.kinds.walkforward.rows import Samples, of_windows
from ucsearch.lab.suites.protocol.comparison import Protocol
from ucsearch.lab.suites.suite import Suite
from ucsearch.replay.panel import Panel, make_panel
from ucsearch.replay.walk import walk
from ucsearch.tasks.base import Binding, bind

__all__ = ["Mechanism", "MechanismSettings"]

SALT = "ucsearch/mechanism"  # its own: other suites' test windows are mostly of other series


class Mechanism(SuiteKind):
    """Declares on validation the constants that predict on the test which orders a beam preserves."""

    describes = True
    s: MechanismSettings

    def __init__(self, suite: Suite, job: SuiteJob) -> None:
        super().__init__(suite, job)
        self.sources = [_Source(name, self) for name in self.s.sources]
        self.declared: dict[str, Any] = {}
        self.both: Any = None

    def protocol(self) -> Protocol:
        return self.compared("cost", "regret", "regret", {"validation": self.s.validation, "test": self.s.test})

    def validation(self, settled: Selection | None = None) -> Rows:
        found = self._measure("validation")
        self.declared = {name: declare_source(part["windows"], self.s) for name, part in found.items()}
        rows = self._rows(found)
        weigh(rows, self.s.beams)
        return rows

    def choice(self, rows: Rows) -> dict[str, Any]:
        s = self.s
        return {
            "id": f"uc-r{s.risk:g}-d{s.depth}-b{s.width}-k{s.top_k}",
            "risk": s.risk,
            "beams": {name: beam.model_dump(mode="json") for name, beam in s.beams.items()},
            "declared": self.declared,
        }

    def opened(self) -> Opened:
        return {family: spans for one in self.sources for family, spans in one.pool.opened().items()}

    def test(self, selection: Selection) -> Rows:
        rows = self._rows(self._measure("test"))
        self.both = weigh(rows, self.s.beams)
        return rows

    def _measure(self, split: str) -> dict[str, dict[str, Any]]:
        out: dict[str, dict[str, Any]] = {}
        for source in self.each(f"sources on {split}", self.sources):
            measured = out[source.name] = self.job.shard(f"{split}-{source.name}", partial(source.measure, split))
            self.job.timing(source.name, measured["seconds"], sum(head["decisions"] for head in measured["heads"]))
        return out

    def _rows(self, found: dict[str, dict[str, Any]]) -> Rows:
        rows = []
        for name, part in found.items():
            for i, (head, window) in enumerate(zip(part["heads"], part["windows"], strict=True)):
                policies = {b: beam_figures(window, b, self.s, self.declared[name][b]) for b in self.s.beams}
                policies["exact"] = exact_figures(window, part["coverage"][i], self.s.levels)
                policies["exact"]["violations"] = part["violations"][i]
                rows.append({**head, "policies": policies, "certificate": certificate_of(window)})
        return rows

    def tables(self, rows: Rows) -> list[dict[str, Any]]:
        return tables_of(self.s)

    def checks(self, rows: Rows) -> list[dict[str, Any]]:
        return checks_of(self.s, self.both)

    def extra(self) -> dict[str, Any]:
        return {"declared": self.declared}

    def sample(self, drawn: Sequence[Drawn]) -> list[dict[str, Any]]:
        found = {name: entry for one in self.sources for name, entry in one.sample(drawn).items()}
        return [found[one.name] for one in drawn]


class _Source:
    """The series of one source and what is measured on them."""

    def __init__(self, name: str, kind: Mechanism) -> None:
        self.name, self.job = name, kind.job
        self.s: MechanismSettings = kind.s
        settings = self.settings = self.s.sources[name]
        self.binding: Binding = bind(settings.task, settings.multiples, settings.arrivals)
        self.horizon = max(self.s.depth, self.binding.delay + settings.arrivals)
        self.key = key_from(np.random.default_rng([kind.suite.seed, 0]))
        self.pool = Pool(
            {}, {"validation": self.s.validation, "test": self.s.test}, self.s.decisions, self.horizon, settings.fit,
            settings.scaling, settings.latest,
        )  # fmt: skip
        for part in settings.families:
            family = kind.family(part)
            self.pool.families[part] = choose(family.series, settings.per_family, self.pool.least, "evaluation", SALT)
            kind.datasets[part] = family.dataset

    def _panel(self, stretches: list[Stretch]) -> Panel:
        floor = -math.inf if self.settings.floor is None else self.settings.floor
        forecaster = RidgePaths(paths=self.s.paths, floor=floor)
        return make_panel(stretches, self.binding, forecaster, horizon=self.horizon, key=self.key)

    def sample(self, drawn: Sequence[Drawn]) -> dict[str, dict[str, Any]]:
        """The drawn decisions of this source by name; their windows are walked again."""
        stretches = of_windows(self.pool.stretches("test", self.job), drawn)
        if not stretches:
            return {}
        panel = self._panel(stretches)
        samples = Samples(stretches, self.binding.where, drawn)
        walk(panel, Diagnosis(panel, self.binding, self.s, threads=self.job.threads, keep=samples.keep))
        return {one.name: entry for one, entry in samples.found.items()}

    def measure(self, split: str) -> dict[str, Any]:
        panel = self._panel(self.pool.stretches(split, self.job))
        diagnosis = Diagnosis(panel, self.binding, self.s, threads=self.job.threads)
        begun = perf_counter()
        walked = walk(panel, diagnosis)
        heads = [
            {"split": split, "source": self.name, "family": x.family, "series": x.series, "window": x.window,
             "start": x.start, "decisions": x.decisions}
            for x in panel.stretches
        ]  # fmt: skip
        return {
            "heads": heads,
            "windows": diagnosis.found,
            "violations": walked.violations.tolist(),
            "coverage": [coverage(panel, n, self.s.depth, self.s.levels) for n in range(len(panel))],
            "seconds": perf_counter() - begun,
        }
