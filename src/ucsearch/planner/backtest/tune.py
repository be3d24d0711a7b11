"""The job behind `ucsearch tune`: choose how to plan on the earlier part of a history, then report once on the later.

Candidates are the task's own (`OnSeries.candidates`, `refinements`): other modes, risks, depths, sizes, values of what
is left, recalibration. Each is replayed over the same earlier periods, fallbacks included, and judged by what it really
cost or earned; what is left counts for all as the settings as given value it. Rules are tuned there on wide grids. The
counted periods are looked at once, when everything is chosen.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError, InputError
from ucsearch.planner.backtest.job import check_earlier, effort_of_report, name_states, rules_of, run_backtest
from ucsearch.planner.backtest.replay import PROVED, History, Replay, read_histories
from ucsearch.planner.backtest.result import GIVEN, POLICY, BacktestResult
from ucsearch.planner.backtest.resume import Arrays, Kept, Parts, Progress, file_hash
from ucsearch.planner.backtest.rules import earlier_part
from ucsearch.planner.backtest.targets import tune_targets
from ucsearch.planner.files.penalties import write_penalties
from ucsearch.planner.files.sales import Data, read_sales
from ucsearch.planner.history import horizon_of, needed_periods, with_season
from ucsearch.planner.settings import Settings, parse_settings
from ucsearch.planner.settings.edit import edited
from ucsearch.replay.statistics import bootstrap_key, bounds
from ucsearch.replay.tune import TRIES
from ucsearch.report.table import table_lines
from ucsearch.tasks.base import Changes

__all__ = ["Trial", "TuneResult", "cheapest", "reason_of", "run_tune"]

Floats = NDArray[np.float64]
FORMAT = "ucsearch.tune/1"
_DRAWN = 40  # series that all candidates are tried on
_FINALISTS = 2  # candidates that are tried on more of them,
_FINAL = 100  # so many
AS_GIVEN = "as given"


@dataclass(frozen=True, eq=False)
class Trial:
    """A candidate and what it cost on the earlier part."""

    label: str
    changes: Changes
    settings: Settings
    cost: Floats  # (S,) less revenue, by series that all were tried on
    released: float  # share of decisions
    final: Floats | None = None  # likewise of more series, for the best few


@dataclass(frozen=True, eq=False)
class TuneResult:
    text: str  # the settings with the choice made
    chosen: int
    trials: tuple[Trial, ...]  # in the order tried; the first is as given
    skipped: dict[str, str]  # candidates that could not be tried, and why
    series: tuple[str, ...]  # tuned on
    drawn: int  # of them, evenly spread, that all candidates were tried on
    earlier: int
    report: BacktestResult  # of the later part
    inputs: dict[str, str]  # hashes
    earns: bool = False  # shown as profit, not as cost
    told: tuple[str, ...] = ()  # about targets

    def table(self, width: int | None = None) -> str:
        """What was tried, what it cost, and the report on the later part; with `width` folded to fit."""
        as_given, sign = self.trials[0].cost, -1.0 if self.earns else 1.0
        word = "profit" if self.earns else "cost"
        some = f"{self.drawn} of {len(self.series)} series, {self.earlier} periods before the counted ones"
        lines = [f"tried on {some}; {word}, and better than as given by:"]
        rows = []
        for i, t in enumerate(self.trials):
            saved = bounds((as_given - t.cost).tolist(), bootstrap_key(1, "tune"))
            size = abs(float(as_given.mean())) or math.nan
            saved_text = "" if i == 0 else f"{100.0 * saved.mean / size:+.1f} %"
            if i > 0 and math.isfinite(saved.lower):
                saved_text += f" [{100.0 * saved.lower / size:+.1f}, {100.0 * saved.upper / size:+.1f}]"
            mark = "<- chosen" if i == self.chosen else ""
            rows.append(
                [t.label, f"{sign * t.cost.sum():,.2f}", saved_text, f"{100 * t.released:.1f} % released", mark]
            )
        lines += [f"  {line}" for line in table_lines(rows, "<>>><")]
        lines += [f"  {label}: not tried, {why}" for label, why in self.skipped.items()]
        for t in self.trials:
            if t.final is not None:
                lines.append(f"  on {len(t.final)} series: {t.label} {sign * t.final.sum():,.2f}")
        later = ["", "on the later periods, replayed once:", self.report.text(width)]
        return "\n".join([*self.told, *lines, *later, "", self.verdict()])

    def verdict(self) -> str:
        """Whether to take what was chosen: what it did on the later periods beside the settings as given."""
        if self.chosen == 0:
            return "Keep your settings: nothing that was tried did better on the earlier periods."
        against, label = self.report.against(GIVEN), self.trials[self.chosen].label
        text = against.text() if self.report.in_shares else f"{against.money_text()} {self.report.money}"
        change = f"{label}: {text or 'equal'} beside your settings on the later periods{self._service()}"
        if against.ends.is_known and against.ends.side > 0:
            return f"Better than your settings. {change}."
        if against.money.mean < 0.0:
            return f"Keep your settings: what was chosen did worse on the later periods. {change}."
        return f"Not shown to be better: the interval holds 0 or is open. {change}."

    def _service(self) -> str:
        """Shares such as the fill rate before and after, where the task has them."""
        old, new = self.report.figures(GIVEN), self.report.figures(POLICY)
        changes = [
            f"{name} {100.0 * old[key]:.1f} -> {100.0 * new[key]:.1f} %"
            for key, name, unit in self.report.columns() if unit == "%"
        ]  # fmt: skip
        return f"; {', '.join(changes)}" if changes else ""

    def evidence(self) -> bytes:
        """JSON of everything; equal inputs give equal bytes."""
        as_given = self.trials[0].cost
        trials = []
        for t in self.trials:
            saved = bounds((as_given - t.cost).tolist(), bootstrap_key(1, "tune"))
            trials.append({
                "label": t.label, "changes": {k: dict(v) for k, v in t.changes.items()},
                "cost": float(t.cost.sum()), "by_series": t.cost.tolist(), "released": t.released,
                "by_series_final": None if t.final is None else t.final.tolist(),
                "saved_per_series": {
                    k: v if math.isfinite(v) else None
                    for k, v in (("mean", saved.mean), ("lower", saved.lower), ("upper", saved.upper))
                },
            })  # fmt: skip
        content = {
            "format": FORMAT, "version": version("ucsearch"), "inputs": self.inputs, "series": list(self.series),
            "drawn": self.drawn,
            "tuned_on_periods": self.earlier, "trials": trials, "skipped": self.skipped, "chosen": self.chosen,
            "settings_sha256": hashlib.sha256(self.text.encode()).hexdigest(), "later": self.report.evidence(),
        }  # fmt: skip
        return (json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n").encode()


def run_tune(
    given: Settings, data: Data, *, states: str | Path | None = None, progress: Progress | None = None,
    earlier: int | None = None, tries: int = TRIES, keep: Path | None = None,
    tell: Callable[[str], None] | None = None,
) -> TuneResult:  # fmt: skip
    """Tune the settings on the `earlier` periods before the counted ones (as many, if not given).

    Arguments as of `run_backtest`; `tries` settings are tried, those given among them, and `tell` is called for each of
    them. Raises InputError, DataError where settings or files cannot be used.
    """
    text = given.text
    before = given.backtest.periods if earlier is None else earlier
    check_earlier(before)
    if not 2 <= tries <= TRIES:
        raise InputError("tries", tries, f"from 2 to {TRIES}")
    if before < 1:
        raise InputError("earlier", before, "at least 1 period to tune on")
    data = read_sales(data, given)
    inputs = {"settings": given.digest, "data": file_hash(data.file), "states": file_hash(states)}
    if given.forecast.season is None and given.backtest.season is None:
        # Every candidate knows the same one, and so does the file that is written.
        text = edited(text, {"backtest": {"season": with_season(given, data).season}})
        given = parse_settings(text.encode(), given.file)
    follows = {**inputs, "earlier": before, "tries": tries}
    parts = Parts(Kept(keep, "tune", follows), progress)
    notes: list[str] = []
    if getattr(given.task, "target", None) is not None:
        histories, _ = read_histories(given, data, states, tuned=False)
        long = [h for h in histories if len(h.y) >= needed_periods(given) + before]
        if not long:
            raise InputError("files.sales", "no series", f"{before} periods more to find penalties on")
        if tell is not None:
            name_states(given, long, tell)
            tell = None  # nothing else is tried
        penalties, notes = tune_targets(parts, given, long, before)
        path = given.path("targets")
        if path is None:
            raise InputError("files.targets", "nothing", "a file to write penalties to")
        write_penalties(path, penalties)
    job = _Tuning(text, given, data, states, before, parts, tell)
    job.expect(tries, before)
    first = [(AS_GIVEN, {}), *job.given.task.candidates(job.given)][: math.ceil(tries / 2)]
    drawn = job.drawn(_DRAWN)
    trials = job.run("first", first, drawn)
    best = trials[cheapest(trials)]
    trials += job.run("second", _around(best)[: tries - len(first)], drawn)
    chosen = cheapest(trials)
    if len(drawn) < len(job.histories):
        order = sorted(range(len(trials)), key=lambda i: (math.fsum(trials[i].cost.tolist()), i))[:_FINALISTS]
        again = job.finals([trials[i] for i in order], drawn, job.drawn(_FINAL))
        for i, trial in zip(order, again, strict=True):
            trials[i] = replace(trials[i], final=trial.cost)
        chosen = order[cheapest(again)]
    chosen_text = edited(text, trials[chosen].changes)
    final = parse_settings(chosen_text.encode(), given.file)
    report = run_backtest(
        final, data, states=states, progress=job.rest, earlier=before, keep=keep,
        given=None if chosen == 0 else job.given,
    )  # fmt: skip
    job.parts.finish()
    return TuneResult(
        chosen_text, chosen, tuple(trials), job.skipped, job.names, len(drawn), before, report, inputs,
        earns=given.task.form != "cost", told=tuple(notes),
    )  # fmt: skip


def _around(best: Trial) -> list[tuple[str, Changes]]:
    """What is tried around the best of the first candidates: its changes and others besides."""
    more: list[tuple[str, Changes]] = []
    for label, changes in best.settings.task.refinements(best.settings, best.changes):
        merged: dict[str, dict[str, Any]] = {table: dict(values) for table, values in best.changes.items()}
        for table, values in changes.items():
            merged[table] = {**merged.get(table, {}), **values}
        more.append((label if best.label == AS_GIVEN else f"{best.label}, {label}", merged))
    return more


def cheapest(trials: Sequence[Trial]) -> int:
    """Ties go to the earlier one, so to the settings as given. What cannot be added up is never chosen over what can
    (the least of some numbers and a NaN is the NaN, for NumPy)."""
    totals = [math.fsum(t.cost.tolist()) if np.isfinite(t.cost).all() else math.inf for t in trials]
    return totals.index(min(totals))


def reason_of(error: Exception) -> str:
    """Why a candidate cannot be tried, in one line: what was wrong with the first series, where no one is named."""
    return str(error).splitlines()[0]


class _Tuning:
    """The earlier part of a history, and candidates that are replayed over it."""

    def __init__(
        self, text: str, given: Settings, data: Data, states: str | Path | None, earlier: int, parts: Parts,
        tell: Callable[[str], None] | None,
    ) -> None:  # fmt: skip
        self.text, self.given, self.data, self.states = text, given, data, states
        self.earlier, self.parts, self.tell = earlier, parts, tell
        self._named = set[str]()  # candidates whose states were named
        self.skipped: dict[str, str] = {}
        histories, _ = read_histories(given, data, states)
        needed = needed_periods(given) + earlier
        self.histories = [history for history in histories if len(history.y) >= needed]
        if not self.histories:
            longest = max(len(history.y) for history in histories)
            raise InputError(
                "files.sales", f"at most {longest} periods",
                f"{needed}: forecasting, {earlier} to tune on, then the report",
                hint="A smaller backtest.earlier or backtest.periods needs less.",
            )  # fmt: skip
        self.names = tuple(history.series for history in self.histories)
        self._tried = 0  # effort of the tries, of all that is expected

    def drawn(self, most: int) -> list[History]:
        """Evenly spread over the series, in their order; whole trucks where they share some."""
        count = len(self.histories)
        trucks = list(dict.fromkeys(history.place.truck for history in self.histories))
        if trucks != [""]:
            truck_count = max(1, round(most / (count / len(trucks))))
            ends = np.linspace(0, len(trucks) - 1, min(len(trucks), truck_count))
            some = {trucks[i] for i in {round(x) for x in ends}}
            return [history for history in self.histories if history.place.truck in some]
        return [self.histories[i] for i in sorted({round(x) for x in np.linspace(0, count - 1, min(count, most))})]

    def expect(self, tries: int, before: int) -> None:
        """What the tries take, and the report after them."""
        count, drawn = len(self.histories), {history.series for history in self.drawn(_DRAWN)}
        fresh = sum(history.series not in drawn for history in self.drawn(_FINAL))
        walks = len(drawn) * tries + (_FINALISTS * fresh if count > _DRAWN else 0)
        self.parts.expect(walks * PROVED * (self.earlier + self.given.backtest.warmup))
        self._tried = self.parts.total
        rules = rules_of(self.given, self.histories)
        self.parts.expect(effort_of_report(rules, self.given, count, count, before, beside=True))

    def rest(self, done: int, total: int) -> None:
        """Progress of the report, as what is left."""
        whole = self.parts.total
        if self.parts.progress is not None:
            self.parts.progress(int(self._tried + (whole - self._tried) * done / max(1, total)), whole)

    def finals(self, few: Sequence[Trial], drawn: Sequence[History], more: Sequence[History]) -> list[Trial]:
        """The same candidates over more series; what they cost on those `drawn` before is known."""
        drawn_at = {history.series: i for i, history in enumerate(drawn)}
        fresh = [history for history in more if history.series not in drawn_at]
        again = self.run("more", [(trial.label, trial.changes) for trial in few], fresh)
        place = {history.series: i for i, history in enumerate(fresh)}
        return [
            replace(new, cost=np.array([
                old.cost[drawn_at[h.series]] if h.series in drawn_at else new.cost[place[h.series]] for h in more
            ]))
            for old, new in zip(few, again, strict=True)
        ]  # fmt: skip

    def _name_states(self, label: str, settings: Settings, histories: Sequence[History]) -> None:
        """What closed loop takes for a candidate, once, where that is long or does not fit."""
        if self.tell is not None and label not in self._named:
            self._named.add(label)
            tell, prefix = self.tell, "" if label == AS_GIVEN else f"{label}: "
            name_states(settings, histories, lambda line: tell(prefix + line))

    def run(self, stage: str, candidates: Sequence[tuple[str, Changes]], histories: Sequence[History]) -> list[Trial]:
        """Every candidate over the earlier part of some series."""
        usable: list[tuple[str, Changes, Settings, dict[str, History]]] = []
        for label, changes in candidates:
            try:
                settings = parse_settings(edited(self.text, changes).encode(), self.given.file)
                own = {history.series: history for history in read_histories(settings, self.data, self.states)[0]}
            except (InputError, DataError) as error:
                self.skipped[label] = reason_of(error)
                continue
            if not all(n in own and len(own[n].y) >= needed_periods(settings) + self.earlier for n in self.names):
                self.skipped[label] = "some histories are too short for it"
                continue
            usable.append((label, changes, settings, own))
            self._name_states(label, settings, [own[name] for name in self.names])

        def work(part: list[History]) -> Arrays:
            members: dict[tuple[Any, ...], Floats] = {}
            making: defaultdict[tuple[Any, ...], Lock] = defaultdict(Lock)  # forecasts that several candidates share

            def replayed(settings: Settings, own: Sequence[History], judge: Replay | None) -> Replay:
                before, past = earlier_part(settings, own, self.earlier)
                key = (horizon_of(before, past[0].case.kind.config), before.recalibration)
                with making[key]:
                    replay = Replay(past, before, self.parts.tick, members.get(key), judge)
                    members[key] = replay.members
                return replay

            judge = None
            if self.given.task.left_counts == "daily":
                judge = replayed(self.given, part, None)
                judge.prepare()

            def tried(settings: Settings, own: dict[str, History]) -> tuple[Floats, Floats]:
                replay = replayed(settings, [own[history.series] for history in part], judge)
                done = replay.walk(replay.policy())
                return replay.counted_cost(done), done.certificate["released"].mean(axis=1)

            jobs = [partial(tried, settings, own) for _, _, settings, own in usable]
            made = self.parts.side_by_side(jobs, self.given.run.threads)
            costs = {f"cost {i}": cost for i, (cost, _) in enumerate(made)}
            return costs | {f"released {i}": released for i, (_, released) in enumerate(made)}

        length = self.earlier + self.given.backtest.warmup
        made = self.parts.by_part(stage, histories, work, length * len(usable) * PROVED) if usable else {}
        return [
            Trial(label, changes, settings, made[f"cost {i}"], float(made[f"released {i}"].mean()))
            for i, (label, changes, settings, _) in enumerate(usable)
        ]
