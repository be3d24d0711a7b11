"""Walk-forward suites: choose on validation, look at the test once, compare at matched compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.lab.suites.evidence.drawn import Drawn
from ucsearch.lab.suites.gates.power import power_record
from ucsearch.lab.suites.gates.value import choose_by_cost, value_record
from ucsearch.lab.suites.job import Findings, Job
from ucsearch.lab.suites.kinds.walkforward.described import add_calibration, add_leads
from ucsearch.lab.suites.kinds.walkforward.figures import Figures, certificates_of, figures_of, spread
from ucsearch.lab.suites.kinds.walkforward.ground import Ground
from ucsearch.lab.suites.kinds.walkforward.records import Samples, credits_of, of_windows
from ucsearch.lab.suites.kinds.walkforward.rivals import Rivals
from ucsearch.lab.suites.kinds.walkforward.settings import WalkForwardSettings
from ucsearch.lab.suites.kinds.walkforward.tables import checks_of, tables_of
from ucsearch.lab.suites.kinds.walkforward.value import always_fallback, timed_walks, tuned_practitioners, tuned_walks
from ucsearch.lab.suites.protocol.audit import audit_rows, is_stopped
from ucsearch.lab.suites.protocol.comparison import Protocol
from ucsearch.lab.suites.protocol.selection import select
from ucsearch.lab.suites.recheck.rerun import Again
from ucsearch.lab.suites.suite import Suite
from ucsearch.replay.panel import Panel
from ucsearch.replay.walk import Walk, walk

__all__ = ["WalkForwardSettings", "run"]

Floats = NDArray[np.float64]
_CHOSEN_BY = ("cost", "reward", "utility", "violations", "expansions", "oracle_nodes")  # what a choice looks at


def run(suite: Suite, job: Job) -> Findings:
    return _Run(suite, job).go()


def again(
    suite: Suite, job: Job, selection: Mapping[str, Any], series: Sequence[tuple[str, str]], opened: bool
) -> Again:
    """The rows of some series once more, under what was selected then; `opened`: with their test windows."""
    rerun = _Run(suite, job)
    for family, all_of_it in rerun.pool.families.items():
        rerun.pool.families[family] = tuple(x for x in all_of_it if (family, x.id) in set(series))
    settings = {c["id"]: dict(c["settings"]) for c in selection["candidates"]}
    rows, candidates = rerun.validation(settings)
    value = selection.get("value")
    if value is not None:
        rerun.add_opponents(rows, value["practitioners"], _named(candidates, value["candidate"]))
    left_out: tuple[str, ...] = ()
    if opened:
        left_out = rerun.needs_all
        job.open_test(rerun.pool.opened())
        tested = rerun.test(settings[selection["candidate"]], left_out)["rows"]
        if value is not None:
            rerun.value_test(tested, value["practitioners"], _named(candidates, value["candidate"]))
        if rerun.s.leads:
            add_leads(tested)
        rows.extend(tested)
    return Again(rows, rerun.files, left_out)


def _named(candidates: Sequence[dict[str, Any]], name: str | None) -> dict[str, Any]:
    """The candidate of that id. If nobody could be chosen, the first one is shown; the gate says that it was not."""
    return next((c for c in candidates if c["id"] == name), candidates[0])


class _Run(Ground):
    """One run of the protocol."""

    # ---------------------------------------------------------------- the protocol

    @property
    def protocol(self) -> Protocol:
        return Protocol(
            suite=self.suite.name, seed=self.suite.seed, form=self.binding.form,
            metric="cost" if self.binding.form == "cost" else "utility", utility="utility", families=self.datasets,
            windows={"validation": self.s.splits.validation, "test": self.s.splits.test}, gate=self.s.gate,
        )  # fmt: skip

    def go(self) -> Findings:
        rows, candidates = self.validation()
        protocol = self.protocol
        tuned = self.tuned(rows, protocol, candidates)
        card, text = self.job.identity["card_sha256"], self.suite.sha256
        record = select(rows, protocol, candidates, card_sha256=card, suite_sha256=text)
        if tuned is not None and self.s.value_gate is not None:
            record["value"] = value_record(rows, protocol, candidates, self.s.value_gate.margin, tuned)
            self.job.check_power(record["value"]["power"], record["value"]["power_by_family"])
        if self.s.power:
            record["power"] = power_record(rows, protocol, record)
            self.job.check_power(record["power"]["all"], record["power"]["families"], "paper's gate")
        self.job.select(record)
        chosen = None
        opened = not is_stopped(audit_rows(rows)) and record["candidate"] is not None
        if opened:
            chosen = next(c for c in candidates if c["id"] == record["candidate"])
            self.job.open_test(self.pool.opened())
            tested = self.test(chosen)
            if "value" in record:
                value = record["value"]
                self.value_test(tested["rows"], value["practitioners"], _named(candidates, value["candidate"]))
            if self.s.leads:
                add_leads(tested["rows"])
            rows.extend(tested["rows"])
            for name, (seconds, decisions) in tested["timing"].items():
                self.job.timing(name, seconds, decisions)
        led = protocol if self.s.leads else None
        ids = {family: sorted(x.id for x in series) for family, series in self.pool.families.items()}
        return Findings(
            rows=rows,
            tables=tables_of(rows, self.binding.form, self.s.levels, led) if opened else [],
            checks=checks_of(rows) if opened else [],
            extra={"series_scale": "each series is divided by the scale of its fitting part before anything else"}
            | ({"replaced_families": sorted(self.job.families)} if self.job.families else {}),
            data=self.files,
            splits=dict.fromkeys(("validation", "test") if opened else ("validation",), ids),
            sample=None if chosen is None else partial(self.sample, chosen),
            sampled=self.s.sampled,
        )

    # ---------------------------------------------------------------- for the value gate

    def tuned(
        self, rows: list[dict[str, Any]], protocol: Protocol, candidates: list[dict[str, Any]]
    ) -> dict[str, dict[str, Any]] | None:
        """Practitioners' tuned settings; validation rows get the figures of everybody the value gate compares with."""
        if self.s.value_gate is None:
            return None
        panel, threads = self.panel("validation"), self.job.threads
        tuned: dict[str, dict[str, Any]] = self.job.shard(
            "practitioners", lambda: tuned_practitioners(panel, self.s, threads)
        )
        self.add_opponents(rows, tuned, _named(candidates, choose_by_cost(rows, protocol, candidates)))
        return tuned

    def add_opponents(
        self, rows: list[dict[str, Any]], tuned: Mapping[str, Mapping[str, Any]], judged: dict[str, Any]
    ) -> None:
        """Validation rows get practitioners, samplers at equal time, fallback and hindsight, and their cluster."""
        opponents = self.job.shard(
            f"value-validation-{judged['id']}", lambda: self._opponents("validation", tuned, judged)
        )
        for i, row in enumerate(rows):
            held = {p: f[i] for p, f in opponents.items() if f[i] is not None}
            row["policies"] = {p: {k: f[k] for k in _CHOSEN_BY if k in f} for p, f in held.items()}
            row["cluster"] = self.cluster(row["family"], row["series"])

    def _opponents(
        self, split: str, tuned: Mapping[str, Mapping[str, Any]], judged: dict[str, Any]
    ) -> dict[str, list[dict[str, Any] | None]]:
        if self.s.value_gate is None:
            raise InputError("value_gate", "nothing", "settings of the value gate")
        panel, (few, places) = self.panel(split), self.sampled(split)
        depth = int(judged["depth"])
        best = self.hindsight(panel, depth)
        samples = self.s.value_gate.time_samples
        rivals = Rivals(few, self.binding, self.s, judged, samples, self.suite.seed, self.job.threads)
        walks = {}
        for name, (several, seconds) in tuned_walks(panel, self.s, tuned, self.job.threads).items():
            walks[name] = several
            self.job.timing(f"{name} on {split}", seconds, panel.decisions * len(panel) * len(several))
        walks["fallback"] = [always_fallback(panel, self.s.engine)]
        figures: dict[str, list[Any]] = {name: list(self.mean(several, best)) for name, several in walks.items()}
        told = best if few is panel else self.hindsight(few, depth)
        for name, (several, seconds) in timed_walks(rivals, judged, samples).items():
            figures[name] = spread(self.mean(several, told), places, len(panel))
            self.job.timing(f"{name} on {split}", seconds, few.decisions * len(few) * len(several))
        return figures | {"hindsight": list(figures_of(best, best, self.s.utility, self.binding.form))}

    def value_test(
        self, rows: list[dict[str, Any]], tuned: Mapping[str, Mapping[str, Any]], judged: dict[str, Any]
    ) -> None:
        """Adds the judged policy and its opponents to the test rows."""
        panel = self.panel("test")
        opponents = self.job.shard("value-test", lambda: self._opponents("test", tuned, judged))
        opponents.pop("hindsight")  # of the suite's own policy; it is in the rows already
        begun = process_time()
        if judged["id"] in self.own:
            walked = self.own[judged["id"]]
        else:
            walked = walk(panel, self.certified(judged), engine=self.s.engine)
            self.job.timing("value", process_time() - begun, panel.decisions * len(panel))
        best = self.hindsight(panel, int(judged["depth"]))
        opponents["value"] = figures_of(walked, best, self.s.utility, self.binding.form)
        for figures, certificate in zip(opponents["value"], certificates_of(walked), strict=True):
            figures |= {name: certificate[name] for name in ("passed", "uncertainty_active")}
        for i, row in enumerate(rows):
            row["policies"] |= {name: figures[i] for name, figures in opponents.items() if figures[i] is not None}
            row["cluster"] = self.cluster(row["family"], row["series"])

    @property
    def needs_all(self) -> tuple[str, ...]:
        """Policies that are made from all series, not from their own alone."""
        c = self.s.comparators
        return (*(("risk-greedy-matched",) if c.exposure_matched else ()), *c.learned)

    def validation(
        self, settled: Mapping[str, dict[str, Any]] | None = None
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Rows, and candidates with their budgets. `settled`: budgets and options as an earlier run found them."""
        candidates = list(self.s.candidates.each()) if settled is None else list(settled.values())
        rows: list[dict[str, Any]] = []
        for n, candidate in enumerate(candidates):
            self.job.progress("candidates on validation", n, len(candidates))
            validated = self.job.shard(f"validation-{candidate['id']}", partial(self._candidate, dict(candidate)))
            candidate.update(validated["settings"])
            if not rows:
                rows = [self.head("validation", i) | {"candidates": {}} for i in range(len(validated["windows"]))]
            for row, window in zip(rows, validated["windows"], strict=True):
                row["candidates"][candidate["id"]] = {k: window[k] for k in ("policies", "certificate")}
                if self.s.audit:
                    seen = row.setdefault("audit", {"delayed_credit": 0.0, "risk_reduction": 0.0})
                    for name in seen:
                        seen[name] = max(seen[name], window["audit"][name])
        self.job.progress("candidates on validation", len(candidates), len(candidates))
        return rows, candidates

    def _candidate(self, candidate: dict[str, Any]) -> dict[str, Any]:
        """One candidate and its comparators, at its risk and budget, on validation."""
        panel = self.panel("validation")
        credit: list[dict[str, Floats]] = []
        keep = (lambda t, decided: credit.append(credits_of(decided)) if t == 0 else None) if self.s.audit else None
        walked = walk(panel, self.certified(candidate, keep=keep), engine=self.s.engine)
        best = self.hindsight(panel, candidate["depth"])
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
        rivals = Rivals(panel, self.binding, self.s, candidate, samples, self.suite.seed, self.job.threads)
        options, others = {}, {}
        for name in ("cem", "mppi", "risk-random"):
            if not self.s.comparators.validation:
                options[name] = rivals.options(name)[0]
                continue
            each = rivals.options(name) if settled is None else [settled[name]]
            tried = {option: self.mean(rivals.walks(name, option), best) for option in each}
            # A comparator is taken at its best: the option with the highest utility on validation.
            options[name] = max(tried, key=lambda o: (sum(f["utility"] for f in tried[o]), o))
            others[name] = tried[options[name]]
        windows = []
        certificate = certificates_of(walked)
        mine = figures_of(walked, best, self.s.utility, self.binding.form)
        for i in range(len(panel)):
            policies = {"uc": mine[i], **{name: figures[i] for name, figures in others.items()}}
            kept = {name: {k: f[k] for k in _CHOSEN_BY if k in f} for name, f in policies.items()}
            windows.append({"policies": kept, "certificate": certificate[i]})
            if credit:
                windows[-1]["audit"] = {name: max(float(each[name][i]) for each in credit) for name in credit[0]}
        return {"settings": {"samples": samples, "samples_wide": more, "options": options}, "windows": windows}

    def test(self, chosen: dict[str, Any], without: Sequence[str] = ()) -> dict[str, Any]:
        panel = self.panel("test")
        timing: dict[str, tuple[float, int]] = {}
        begun = process_time()
        walked = self.own[chosen["id"]] = walk(panel, self.certified(chosen), engine=self.s.engine)
        each = panel.decisions * len(panel)
        timing["uc"] = (process_time() - begun, each)
        best = self.hindsight(panel, chosen["depth"])
        by_policy: dict[str, list[Any]] = {"uc": list(figures_of(walked, best, self.s.utility, self.binding.form))}
        by_policy["hindsight"] = list(figures_of(best, best, self.s.utility, self.binding.form))
        rivals = self._rivals(panel, chosen)
        every = rivals.test_jobs(chosen, lambda: self.panel("validation"))
        few, places = self.sampled("test")
        told = best if few is panel else self.hindsight(few, chosen["depth"])
        sampling = every if few is panel else self._rivals(few, chosen).test_jobs(chosen, lambda: few)
        jobs = {name: make for name, make in every.items() if name not in without}
        for n, (name, make) in enumerate(jobs.items()):
            self.job.progress("policies on test", n, len(jobs))
            begun = process_time()
            if rivals.is_sampler(name):
                some = self.job.shard(f"test-{name}", partial(self._figures, sampling[name], told))
                by_policy[name] = spread(some, places, len(panel))
            else:
                by_policy[name] = self.job.shard(f"test-{name}", partial(self._figures, make, best))
            count = len(few) if rivals.is_sampler(name) else len(panel)
            timing[name] = (process_time() - begun, panel.decisions * count * rivals.seeds(name))
        self.job.progress("policies on test", len(jobs), len(jobs))
        certificate = certificates_of(walked)
        if self.s.levels:
            add_calibration(by_policy["uc"], panel, chosen["depth"], self.s.levels)
        rows = []
        for i in range(len(panel)):
            policies = {name: figures[i] for name, figures in by_policy.items() if figures[i] is not None}
            rows.append(self.head("test", i) | {"policies": policies, "certificate": certificate[i]})
        return {"rows": rows, "timing": timing}

    def sample(self, chosen: dict[str, Any], drawn: Sequence[Drawn]) -> list[dict[str, Any]]:
        """The drawn decisions: their windows are walked again, and nothing depends on which others were beside them."""
        stretches = of_windows(self.pool.stretches("test", self.job), drawn)
        samples = Samples(stretches, self.world.where, drawn)
        walk(self.panel_of(stretches), self.certified(chosen, keep=samples.keep), engine=self.s.engine)
        return samples.entries()

    def _rivals(self, panel: Panel, chosen: dict[str, Any]) -> Rivals:
        return Rivals(
            panel, self.binding, self.s, chosen, chosen["samples"], self.suite.seed, self.job.threads, self.learned
        )

    def _figures(self, make: Callable[[], list[Walk]], best: Walk) -> Figures:
        return self.mean(make(), best)
