"""Walk-forward suites: many series, cut by time; candidates judged on validation, the chosen one on the test, compared
at matched compute."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.lab.comparators import key_from
from ucsearch.lab.suites.evidence.sample import Drawn
from ucsearch.lab.suites.gates.value import ValueQuestion, choose_by_cost
from ucsearch.lab.suites.job import SuiteJob
from ucsearch.lab.suites.kinds.kind import Opened, Rows, Selection, SuiteKind
from ucsearch.lab.suites.kinds.series import Pool, by_hash
from ucsearch.lab.suites.kinds.walkforward.rivals import (
    Rivals,
    always_fallback,
    learned_walk,
    timed_walks,
    tuned_practitioners,
    tuned_walks,
)
from ucsearch.lab.suites.kinds.walkforward.rows import (
    Figures,
    Samples,
    add_calibration,
    add_leads,
    certificates_of,
    credits_of,
    figures_of,
    mean_figures,
    of_windows,
    spread,
)
from ucsearch.lab.suites.kinds.walkforward.settings import WalkForwardSettings
from ucsearch.lab.suites.kinds.walkforward.tables import checks_of, tables_of
from ucsearch.lab.suites.kinds.walkforward.world import DAYS, World
from ucsearch.lab.suites.protocol.comparison import COMPARATORS, Protocol, is_sampler
from ucsearch.lab.suites.suite import Suite
from ucsearch.policies import Exact, Proof
from ucsearch.replay.choosers import Certified, Searched
from ucsearch.replay.panel import Panel, Stretch
from ucsearch.replay.walk import Walk, walk
from ucsearch.tasks.base import Binding

__all__ = ["WalkForward", "WalkForwardSettings"]

Floats = NDArray[np.float64]
Candidate = dict[str, Any]
_CHOSEN_BY = ("cost", "reward", "utility", "violations", "expansions", "oracle_nodes")  # what a choice looks at


class WalkForward(SuiteKind):
    """Series of several families. A panel and its hindsight are made once."""

    s: WalkForwardSettings

    def __init__(self, suite: Suite, job: SuiteJob, purpose: str = "evaluation") -> None:
        super().__init__(suite, job)
        self.purpose = purpose  # or "design": the ids that are set aside
        self.world = World(self.s)
        self.binding: Binding = self.world.binding
        self.key = key_from(np.random.default_rng([suite.seed, 0]))
        depth = max(self.s.candidates.depths)
        self.horizon = max(depth, self.binding.delay + self.s.arrivals) + 1
        self.pool = self._pool()
        self._panels: dict[str, Panel] = {}
        self._few: dict[str, tuple[Panel, list[int]]] = {}
        self._hindsights: dict[tuple[int, int], Walk] = {}  # by panel and depth
        self._walked: dict[str, Walk] = {}  # candidates on test
        self._candidates: list[Candidate] = []
        self._tuned: dict[str, dict[str, Any]] | None = None
        self._chosen = ""
        self._is_whole = True

    # ---------------------------------------------------------------- data

    def _pool(self) -> Pool:
        s = self.s.splits
        pool = Pool(
            {}, {"validation": s.validation, "test": s.test}, s.decisions, self.horizon, s.fit, s.scaling, s.latest,
            self.purpose,
        )  # fmt: skip
        for name in self.s.families:
            family = self.family(name)
            fresh = [one for one in family.series if one.id not in self.s.seen]
            count = s.counts.get(name, s.per_family)
            if count is None:
                pool.families[name] = pool.busy(fresh, s.busy, DAYS)
            else:
                pool.take(name, fresh, count, skip=s.skip, busy=s.busy, latest=DAYS)
            self.datasets[name] = family.dataset
        return pool

    def panel(self, split: str) -> Panel:
        """All windows of a split."""
        if split not in self._panels:
            self._panels[split] = self._panel_of(self.pool.stretches(split, self.job))
        return self._panels[split]

    def _panel_of(self, stretches: Sequence[Stretch]) -> Panel:
        return self.world.panel(stretches, self.horizon, self.key)

    def _sampled(self, split: str) -> tuple[Panel, list[int]]:
        """The windows that samplers run on, and their places in the whole panel."""
        panel, count = self.panel(split), self.s.comparators.series
        if count is None:
            return panel, list(range(len(panel)))
        if split not in self._few:
            first = {f: set(by_hash([x.id for x in series])[:count]) for f, series in self.pool.families.items()}
            places = [i for i, one in enumerate(panel.stretches) if one.series in first[one.family]]
            self._few[split] = self._panel_of([panel.stretches[i] for i in places]), places
        return self._few[split]

    def _head(self, split: str, i: int) -> dict[str, Any]:
        one = self.panel(split).stretches[i]
        return {
            "split": split, "family": one.family, "series": one.series, "window": one.window, "start": one.start,
            "decisions": one.decisions,
        }  # fmt: skip

    def _cluster(self, family: str, series: str) -> str:
        """What series share beyond their family: the market or store the data say, else the file they come from."""
        one = next(s for s in self.pool.families[family] if s.id == series)
        return one.category or family

    def only(self, series: Collection[tuple[str, str]]) -> bool:
        for family, every in self.pool.families.items():
            self.pool.families[family] = tuple(x for x in every if (family, x.id) in series)
        self._is_whole = False
        return True

    def left_out(self) -> Sequence[str]:
        c = self.s.comparators
        return (*(("risk-greedy-matched",) if c.exposure_matched else ()), *c.learned)

    # ---------------------------------------------------------------- what is compared

    def protocol(self) -> Protocol:
        form = self.binding.form
        return self.compared(
            form, "cost" if form == "cost" else "utility", "utility",
            {"validation": self.s.splits.validation, "test": self.s.splits.test}, gate=self.s.gate,
        )  # fmt: skip

    def candidates(self) -> Sequence[Candidate]:
        return self._candidates

    def question(self) -> ValueQuestion | None:
        if self._tuned is None or self.s.value_gate is None:
            return None
        return ValueQuestion(self._tuned, self.s.value_gate.margin)

    def opened(self) -> Opened:
        return self.pool.opened()

    # ---------------------------------------------------------------- validation

    def validation(self, settled: Selection | None = None) -> Rows:
        fixed = None if settled is None else {c["id"]: dict(c["settings"]) for c in settled["candidates"]}
        candidates = self._candidates = list(self.s.candidates.each()) if fixed is None else list(fixed.values())
        rows: Rows = []
        for candidate in self.each("candidates on validation", candidates):
            validated = self.job.shard(f"validation-{candidate['id']}", partial(self._validated, dict(candidate)))
            candidate.update(validated["settings"])
            if not rows:
                rows = [self._head("validation", i) | {"candidates": {}} for i in range(len(validated["windows"]))]
            for row, window in zip(rows, validated["windows"], strict=True):
                row["candidates"][candidate["id"]] = {k: window[k] for k in ("policies", "certificate")}
                if self.s.audit:
                    seen = row.setdefault("audit", {"delayed_credit": 0.0, "risk_reduction": 0.0})
                    for name in seen:
                        seen[name] = max(seen[name], window["audit"][name])
        if self.s.value_gate is not None:
            value = {} if settled is None else settled.get("value") or {}
            self._add_practitioners(rows, value)
        return rows

    def _validated(self, candidate: Candidate) -> dict[str, Any]:
        """One candidate and its comparators, at its risk and budget, on validation."""
        panel = self.panel("validation")
        credit: list[dict[str, Floats]] = []
        keep = (lambda t, decided: credit.append(credits_of(decided)) if t == 0 else None) if self.s.audit else None
        walked = walk(panel, self._certified(candidate, keep=keep), engine=self.s.engine)
        best = self._hindsight(panel, candidate["depth"])
        decisions = panel.decisions * len(panel)
        spent = (walked.expansions.sum() + walked.oracle_nodes.sum()) / decisions
        wide = spent + walked.activity_nodes.sum() / decisions
        if candidate.get("mode", "mean") == "closed":
            # A transition of closed mode is of one outcome; a step of a sampler's plan is of all members.
            spent, wide = spent / self.s.paths, wide / self.s.paths
        depth = candidate["depth"]
        samples, more = max(2, int(spent // depth)), max(2, int(wide // depth))
        settled = candidate.get("options")
        if settled is not None:
            samples, more = candidate["samples"], candidate["samples_wide"]
        rivals = self._rivals(panel, candidate, samples)
        options, others = {}, {}
        for name in COMPARATORS:
            if not self.s.comparators.validation:
                options[name] = rivals.options(name)[0]
                continue
            each = rivals.options(name) if settled is None else [settled[name]]
            tried = {option: self._mean(rivals.walks(name, option), best) for option in each}
            # A comparator is taken at its best: the option with the highest utility on validation.
            options[name] = max(tried, key=lambda o: (sum(f["utility"] for f in tried[o]), o))
            others[name] = tried[options[name]]
        windows = []
        certificate, mine = certificates_of(walked), self._figures(walked, best)
        for i in range(len(panel)):
            policies = {"uc": mine[i], **{name: figures[i] for name, figures in others.items()}}
            kept = {name: {k: f[k] for k in _CHOSEN_BY if k in f} for name, f in policies.items()}
            windows.append({"policies": kept, "certificate": certificate[i]})
            if credit:
                windows[-1]["audit"] = {name: max(float(each[name][i]) for each in credit) for name in credit[0]}
        return {"settings": {"samples": samples, "samples_wide": more, "options": options}, "windows": windows}

    def _add_practitioners(self, rows: Rows, settled: Mapping[str, Any]) -> None:
        """Validation rows get the tuned practitioners, samplers at equal time, fallback and hindsight, and their
        cluster."""
        if settled:
            self._tuned, judged = dict(settled["practitioners"]), self._named(settled["candidate"])
        else:
            panel = self.panel("validation")
            self._tuned = self.job.shard("practitioners", lambda: tuned_practitioners(panel, self.s, self.job.threads))
            judged = self._named(choose_by_cost(rows, self.protocol(), self._candidates))
        found = self.job.shard(f"value-validation-{judged['id']}", lambda: self._opponents("validation", judged))
        for i, row in enumerate(rows):
            held = {p: f[i] for p, f in found.items() if f[i] is not None}
            row["policies"] = {p: {k: f[k] for k in _CHOSEN_BY if k in f} for p, f in held.items()}
            row["cluster"] = self._cluster(row["family"], row["series"])

    def _opponents(self, split: str, judged: Candidate) -> dict[str, list[dict[str, Any] | None]]:
        if self.s.value_gate is None or self._tuned is None:
            raise TypeError("practitioners come with settings of the value gate")
        panel, (few, places) = self.panel(split), self._sampled(split)
        depth = int(judged["depth"])
        best = self._hindsight(panel, depth)
        samples = self.s.value_gate.time_samples
        walks = {}
        for name, (several, seconds) in tuned_walks(panel, self.s, self._tuned, self.job.threads).items():
            walks[name] = several
            self.job.timing(f"{name} on {split}", seconds, panel.decisions * len(panel) * len(several))
        walks["fallback"] = [always_fallback(panel, self.s.engine)]
        figures: dict[str, list[Any]] = {name: list(self._mean(several, best)) for name, several in walks.items()}
        told = best if few is panel else self._hindsight(few, depth)
        for name, (several, seconds) in timed_walks(self._rivals(few, judged, samples), judged, samples).items():
            figures[name] = spread(self._mean(several, told), places, len(panel))
            self.job.timing(f"{name} on {split}", seconds, few.decisions * len(few) * len(several))
        return figures | {"hindsight": list(self._figures(best, best))}

    # ---------------------------------------------------------------- test

    def test(self, selection: Selection) -> Rows:
        self._chosen = selection["candidate"]
        rows = self._tested(self._named(self._chosen))
        if "value" in selection:
            self._add_value(rows, self._named(selection["value"]["candidate"]))
        if self.s.leads:
            add_leads(rows)
        return rows

    def _tested(self, chosen: Candidate) -> Rows:
        panel = self.panel("test")
        begun = process_time()
        walked = self._walked[chosen["id"]] = walk(panel, self._certified(chosen), engine=self.s.engine)
        self.job.timing("uc", process_time() - begun, panel.decisions * len(panel))
        best = self._hindsight(panel, chosen["depth"])
        by_policy: dict[str, list[Any]] = {"uc": list(self._figures(walked, best))}
        by_policy["hindsight"] = list(self._figures(best, best))
        few, places = self._sampled("test")
        told = best if few is panel else self._hindsight(few, chosen["depth"])
        rivals = self._rivals(panel, chosen)
        every = rivals.test_jobs(chosen, lambda: self.panel("validation"))
        sampling = every if few is panel else self._rivals(few, chosen).test_jobs(chosen, lambda: few)
        jobs = {name: make for name, make in every.items() if self._is_whole or name not in self.left_out()}
        for name, make in self.each("policies on test", jobs.items()):
            begun = process_time()
            if is_sampler(name):
                some = self.job.shard(f"test-{name}", partial(self._averaged, sampling[name], told))
                by_policy[name] = spread(some, places, len(panel))
            else:
                by_policy[name] = self.job.shard(f"test-{name}", partial(self._averaged, make, best))
            count = len(few) if is_sampler(name) else len(panel)
            self.job.timing(name, process_time() - begun, panel.decisions * count * rivals.seeds(name))
        certificate = certificates_of(walked)
        if self.s.levels:
            add_calibration(by_policy["uc"], panel, chosen["depth"], self.s.levels)
        rows = []
        for i in range(len(panel)):
            policies = {name: figures[i] for name, figures in by_policy.items() if figures[i] is not None}
            rows.append(self._head("test", i) | {"policies": policies, "certificate": certificate[i]})
        return rows

    def _add_value(self, rows: Rows, judged: Candidate) -> None:
        """Adds the policy that the value gate judges and its opponents to the test rows."""
        panel = self.panel("test")
        opponents = self.job.shard("value-test", lambda: self._opponents("test", judged))
        opponents.pop("hindsight")  # of the suite's own policy; it is in the rows already
        begun = process_time()
        if judged["id"] in self._walked:
            walked = self._walked[judged["id"]]
        else:
            walked = walk(panel, self._certified(judged), engine=self.s.engine)
            self.job.timing("value", process_time() - begun, panel.decisions * len(panel))
        opponents["value"] = self._figures(walked, self._hindsight(panel, int(judged["depth"])))
        for figures, certificate in zip(opponents["value"], certificates_of(walked), strict=True):
            figures |= {name: certificate[name] for name in ("passed", "uncertainty_active")}
        for i, row in enumerate(rows):
            row["policies"] |= {name: figures[i] for name, figures in opponents.items() if figures[i] is not None}
            row["cluster"] = self._cluster(row["family"], row["series"])

    # ---------------------------------------------------------------- policies

    def _named(self, name: str | None) -> Candidate:
        """The candidate of that id; if nobody could be chosen, the first one is shown, and the gate says so."""
        return next((c for c in self._candidates if c["id"] == name), self._candidates[0])

    def _certified(self, candidate: Candidate, **more: Any) -> Certified:
        """A candidate as the product would run it."""
        c = self.s.candidates
        proof = Proof(kind=c.kind(candidate))
        if c.nodes is not None:
            proof = dataclasses.replace(proof, node_budget=c.nodes)
        return Certified(
            self.binding.task, c.policy(candidate), proof=proof, how=self.s.how(self.job.threads),
            law=self.world.law(candidate), **more,
        )  # fmt: skip

    def _rivals(self, panel: Panel, chosen: Candidate, samples: int | None = None) -> Rivals:
        count = chosen["samples"] if samples is None else samples
        return Rivals(panel, self.binding, self.s, chosen, count, self.suite.seed, self.job.threads, self._learned)

    def _learned(self, name: str) -> Walk:
        return learned_walk(
            name, self.panel("test"), self.panel("validation"), self.binding, self.world.forecaster, self.horizon,
            self.key,
        )  # fmt: skip

    def _hindsight(self, panel: Panel, depth: int) -> Walk:
        """The same receding horizon, told what will happen."""
        key = (id(panel), depth)  # panels are kept as long as this run
        if key not in self._hindsights:
            how, exact = self.s.how(self.job.threads), Exact(depth=depth, risk=0.0)
            self._hindsights[key] = walk(
                panel, Searched(self.binding.task, exact, how, foresees=True), engine=self.s.engine
            )
        return self._hindsights[key]

    def _figures(self, walked: Walk, best: Walk) -> Figures:
        return figures_of(walked, best, self.s.utility, self.binding.form)

    def _mean(self, walks: Sequence[Walk], best: Walk) -> Figures:
        return mean_figures(walks, best, self.s.utility, self.binding.form)

    def _averaged(self, make: Callable[[], list[Walk]], best: Walk) -> Figures:
        return self._mean(make(), best)

    # ---------------------------------------------------------------- what is shown

    def tables(self, rows: Rows) -> list[dict[str, Any]]:
        return tables_of(rows, self.binding.form, self.s.levels, self.protocol() if self.s.leads else None)

    def checks(self, rows: Rows) -> list[dict[str, Any]]:
        return checks_of(rows)

    def extra(self) -> dict[str, Any]:
        return {"series_scale": "each series is divided by the scale of its fitting part before anything else"}

    def sample(self, drawn: Sequence[Drawn]) -> list[dict[str, Any]]:
        """Their windows are walked again, and nothing depends on which others were beside them."""
        chosen = self._named(self._chosen)
        stretches = of_windows(self.pool.stretches("test", self.job), drawn)
        samples = Samples(stretches, self.world.where, drawn)
        walk(self._panel_of(stretches), self._certified(chosen, keep=samples.keep), engine=self.s.engine)
        return samples.entries()
