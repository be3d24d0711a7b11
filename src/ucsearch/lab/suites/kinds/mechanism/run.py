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
from ucsearch.lab.suites.evidence.drawn import Drawn
from ucsearch.lab.suites.job import Findings, Job
from ucsearch.lab.suites.kinds.declaring import declaration
from ucsearch.lab.suites.kinds.mechanism.measure import Diagnosis, coverage
from ucsearch.lab.suites.kinds.mechanism.rows import beam_figures, certificate_of, declare_source, exact_figures, weigh
from ucsearch.lab.suites.kinds.mechanism.settings import MechanismSettings
from ucsearch.lab.suites.kinds.mechanism.tables import checks_of, tables_of
from ucsearch.lab.suites.kinds.series import Pool, Stretch, choose, load_family
from ucsearch.lab.suites.kinds.walkforward.records import Samples, of_windows
from ucsearch.lab.suites.suite import Suite
from ucsearch.replay.panel import Panel, make_panel
from ucsearch.replay.walk import walk
from ucsearch.tasks.base import Binding, bind

__all__ = ["MechanismSettings", "run"]

SALT = "ucsearch/mechanism"  # its own: other suites' test windows are mostly of other series
Rows = list[dict[str, Any]]


def run(suite: Suite, job: Job) -> Findings:
    s: MechanismSettings = suite.settings
    sources = [_Source(name, suite, job) for name in s.sources]
    found = _measure(sources, "validation", job)
    declared = {name: declare_source(part["windows"], s) for name, part in found.items()}
    job.select(_selection(suite, job, sources, declared))
    job.open_test({family: spans for one in sources for family, spans in one.pool.opened().items()})
    tested = _measure(sources, "test", job)
    rows = _rows(found, "validation", s, declared)
    weigh(rows, s.beams)
    test_rows = _rows(tested, "test", s, declared)
    both = weigh(test_rows, s.beams)
    ids = {family: ids for one in sources for family, ids in one.ids().items()}
    return Findings(
        rows=[*rows, *test_rows],
        tables=tables_of(s),
        checks=checks_of(s, both),
        extra={"declared": declared},
        data=[file for one in sources for file in one.files],
        splits={"validation": ids, "test": ids},
        sample=partial(_sample, sources),
        sampled=s.sampled * len(sources),
    )


def _sample(sources: list[_Source], drawn: Sequence[Drawn]) -> list[dict[str, Any]]:
    found = {name: entry for one in sources for name, entry in one.sample(drawn).items()}
    return [found[one.name] for one in drawn]


class _Source:
    """The series of one source and what is measured on them."""

    def __init__(self, name: str, suite: Suite, job: Job) -> None:
        self.name, self.job = name, job
        self.s: MechanismSettings = suite.settings
        settings = self.settings = self.s.sources[name]
        self.binding: Binding = bind(settings.task, settings.multiples, settings.arrivals)
        self.horizon = max(self.s.depth, self.binding.delay + settings.arrivals)
        self.key = key_from(np.random.default_rng([suite.seed, 0]))
        self.datasets: dict[str, str] = {}
        self.files: list[Any] = []
        self.pool = Pool(
            {}, {"validation": self.s.validation, "test": self.s.test}, self.s.decisions, self.horizon, settings.fit,
            settings.scaling, settings.latest,
        )  # fmt: skip
        for part in settings.families:
            family = load_family(part, job.data_dir)
            chosen = choose(family.series, settings.per_family, self.pool.least, "evaluation", SALT)
            self.pool.families[part] = chosen
            self.datasets[part] = family.dataset
            self.files.extend(family.files)

    def ids(self) -> dict[str, list[str]]:
        return {family: sorted(x.id for x in series) for family, series in self.pool.families.items()}

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


def _measure(sources: list[_Source], split: str, job: Job) -> dict[str, dict[str, Any]]:
    out: dict[str, dict[str, Any]] = {}
    for n, one in enumerate(sources):
        job.progress(f"sources on {split}", n, len(sources))
        found = out[one.name] = job.shard(f"{split}-{one.name}", partial(one.measure, split))
        job.timing(one.name, found["seconds"], sum(head["decisions"] for head in found["heads"]))
    job.progress(f"sources on {split}", len(sources), len(sources))
    return out


def _selection(suite: Suite, job: Job, sources: list[_Source], declared: dict[str, Any]) -> dict[str, Any]:
    """The record of what validation chose. The promotion gate's own selection judges certificates, and this suite asks
    for no promotion; so the constants are declared."""
    s: MechanismSettings = suite.settings
    candidate = {
        "id": f"uc-r{s.risk:g}-d{s.depth}-b{s.width}-k{s.top_k}",
        "risk": s.risk,
        "beams": {name: beam.model_dump(mode="json") for name, beam in s.beams.items()},
        "declared": declared,
    }
    families = {family: dataset for one in sources for family, dataset in one.datasets.items()}
    return declaration(
        suite, job, families, candidate, form="cost", metric="regret", utility="regret",
        windows={"validation": s.validation, "test": s.test},
    )  # fmt: skip


def _rows(found: dict[str, dict[str, Any]], split: str, s: MechanismSettings, declared: dict[str, Any]) -> Rows:
    rows = []
    for name, part in found.items():
        for i, (head, window) in enumerate(zip(part["heads"], part["windows"], strict=True)):
            policies = {beam: beam_figures(window, beam, s, declared[name][beam]) for beam in s.beams}
            policies["exact"] = exact_figures(window, part["coverage"][i], s.levels)
            policies["exact"]["violations"] = part["violations"][i]
            rows.append({**head, "policies": policies, "certificate": certificate_of(window)})
    return rows
