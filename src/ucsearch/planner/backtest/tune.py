"""The job behind `ucsearch tune`: choose how to plan on the earlier part of a history, then report once on the later.

Candidates differ in mode, risk, depth, order grid and recalibration. Each is replayed over the same earlier periods and
judged by what it really cost. The classics are tuned there on wide grids. The counted periods are looked at once,
when everything is chosen.
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError, InputError
from ucsearch.planner.backtest.contest import Contest, Progress, earlier_part, with_service_level
from ucsearch.planner.backtest.job import check_earlier, effort_of_report, run_backtest
from ucsearch.planner.backtest.replay import POLICY, History, Replay, read_histories
from ucsearch.planner.backtest.result import BacktestResult
from ucsearch.planner.backtest.result_any import AnyResult
from ucsearch.planner.backtest.resume import Arrays, Kept, file_hash
from ucsearch.planner.files.sales import Data, read_sales
from ucsearch.planner.history import horizon_of, needed_periods, with_season
from ucsearch.planner.settings import Settings, parse_settings
from ucsearch.planner.settings.edit import Changes, edited
from ucsearch.replay.statistics import bootstrap_key, bounds
from ucsearch.replay.tune import TRIES
from ucsearch.tasks.inventory.offered import needs_cycles

__all__ = ["Trial", "TuneResult", "cheapest", "reason_of", "run_tune"]

Floats = NDArray[np.float64]
FORMAT = "ucsearch.tune/1"
_LOTS = 8  # order sizes of a closed-loop candidate
_CLOSED_NODES = 5_000_000
_CLOSED_STEPS = 6  # past the lead time that it looks at least
_FIXED_STEPS = 4  # past the lead time that a fixed plan looks at most, so that it can be proved
_FIXED_NODES = 20_000
_DRAWN = 40  # series that all candidates are tried on
_FINALISTS = 2  # candidates that are tried on more of them,
_FINAL = 100  # so many


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
    report: BacktestResult | AnyResult  # of the later part
    inputs: dict[str, str]  # hashes
    earns: bool = False  # shown as profit, not as cost

    def table(self) -> str:
        """What was tried, what it cost, and the report on the later part."""
        given, sign = self.trials[0].cost, -1.0 if self.earns else 1.0
        word = "profit" if self.earns else "cost"
        some = f"{self.drawn} of {len(self.series)} series, {self.earlier} periods before the counted ones"
        lines = [f"tried on {some}; {word}, and better than as given by:"]
        width = max(len(t.label) for t in self.trials)
        for i, t in enumerate(self.trials):
            saved = bounds((given - t.cost).tolist(), bootstrap_key(1, "tune"))
            size = abs(float(given.mean())) or math.nan
            told = "" if i == 0 else f"{100.0 * saved.mean / size:+.1f} %"
            if i > 0 and math.isfinite(saved.lower):
                told += f" [{100.0 * saved.lower / size:+.1f}, {100.0 * saved.upper / size:+.1f}]"
            mark = "  <- chosen" if i == self.chosen else ""
            lines.append(
                f"  {t.label:<{width}}  {sign * t.cost.sum():>14,.2f}  {told:>26}  "
                f"{100 * t.released:5.1f} % released{mark}"
            )
        lines += [f"  {label}: not tried, {why}" for label, why in self.skipped.items()]
        for t in self.trials:
            if t.final is not None:
                lines.append(f"  on {len(t.final)} series: {t.label} {sign * t.final.sum():,.2f}")
        if self.chosen == 0:
            lines.append("nothing that was tried did better than the settings as given")
        return "\n".join([*lines, "", "on the later periods, looked at once:", self.report.text()])

    def evidence(self) -> bytes:
        """JSON of everything; equal inputs give equal bytes."""
        given = self.trials[0].cost
        trials = []
        for t in self.trials:
            saved = bounds((given - t.cost).tolist(), bootstrap_key(1, "tune"))
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
    earlier: int | None = None, tries: int = TRIES, service_level: float | None = None, keep: Path | None = None,
) -> TuneResult:  # fmt: skip
    """Tune the settings on the `earlier` periods before the counted ones (as many, if not given)."""
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
    if not given.task.places_orders:
        from ucsearch.planner.backtest.tune_any import tune_any

        if service_level is not None:
            raise InputError("backtest.service_level", service_level, "nothing: only orders have one")
        return tune_any(
            text, given, data, states=states, progress=progress, earlier=before, tries=tries, keep=keep, inputs=inputs
        )
    follows = {**inputs, "earlier": before, "tries": tries, "service_level": service_level}
    job = _Tuning(text, given, data, states, before, Contest(Kept(keep, "tune", follows), progress))
    if service_level is not None:
        _, times, _ = with_service_level(job.contest, given, job.found, job.found, before, service_level)
        job.shortage(times)
        text = job.text
    job.expect(tries, before)
    first = _first(job.given, tomllib.loads(text))[: math.ceil(tries / 2)]
    drawn = job.drawn(_DRAWN)
    trials = job.run("first", first, drawn)
    best = trials[cheapest(trials)]
    later = _second(best.settings, best)[: tries - len(first)]
    trials += job.run("second", later, drawn)
    chosen = cheapest(trials)
    if len(drawn) < len(job.found):
        order = sorted(range(len(trials)), key=lambda i: (math.fsum(trials[i].cost.tolist()), i))[:_FINALISTS]
        again = job.finals([trials[i] for i in order], drawn, job.drawn(_FINAL))
        for i, trial in zip(order, again, strict=True):
            trials[i] = replace(trials[i], final=trial.cost)
        chosen = order[cheapest(again)]
    made = edited(text, trials[chosen].changes)
    final = parse_settings(made.encode(), given.file)
    report = run_backtest(
        final, data, states=states, progress=job.rest, earlier=before, keep=keep,
        given=None if chosen == 0 else job.given,
    )  # fmt: skip
    job.contest.kept.done()
    return TuneResult(made, chosen, tuple(trials), job.skipped, job.names, len(drawn), before, report, inputs)


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
        self, text: str, given: Settings, data: Data, states: str | Path | None, earlier: int, contest: Contest
    ) -> None:
        self.text, self.given, self.data, self.states = text, given, data, states
        self.earlier, self.contest = earlier, contest
        self.skipped: dict[str, str] = {}
        found, _ = read_histories(given, data, states)
        needed = needed_periods(given) + earlier
        self.found = [one for one in found if one.y.size >= needed]
        if not self.found:
            longest = max(one.y.size for one in found)
            raise InputError(
                "--data", f"at most {longest} periods", f"{needed}: forecasting, {earlier} to tune on, then the report",
                hint="A smaller backtest.earlier or backtest.periods needs less.",
            )  # fmt: skip
        self.names = tuple(one.series for one in self.found)
        self._tried = 0  # effort of the tries, of all that is expected

    def drawn(self, most: int) -> list[History]:
        """Evenly spread over the series, in their order."""
        count = len(self.found)
        return [self.found[i] for i in sorted({round(x) for x in np.linspace(0, count - 1, min(count, most))})]

    def shortage(self, times: float) -> None:
        """Settings with the shortage cost that a service level asks for."""
        own = self.given.task
        if any(
            (one.case.params.holding, one.case.params.shortage) != (own.holding, own.shortage) for one in self.found
        ):
            raise InputError(
                "backtest.service_level", "holding or shortage costs by series", "one of each, in the settings",
                hint="Leave those columns out of the states file.",
            )  # fmt: skip
        cost = float(f"{times * own.holding:.6g}")
        self.text = edited(self.text, {"task": {"shortage": cost}})
        self.given = parse_settings(self.text.encode(), self.given.file)
        self.found = [one for one in read_histories(self.given, self.data, self.states)[0] if one.series in self.names]

    def expect(self, tries: int, before: int) -> None:
        """What the tries take, and the report after them."""
        count, known = len(self.found), {one.series for one in self.drawn(_DRAWN)}
        fresh = sum(one.series not in known for one in self.drawn(_FINAL))
        walks = len(known) * tries + (_FINALISTS * fresh if count > _DRAWN else 0)
        self.contest.expect(walks * POLICY * (self.earlier + self.given.backtest.warmup))
        self._tried = self.contest.total
        self.contest.expect(effort_of_report(self.given, count, count, before, beside=True))

    def rest(self, done: int, total: int) -> None:
        """Progress of the report, as what is left."""
        whole = self.contest.total
        if self.contest.progress is not None:
            self.contest.progress(int(self._tried + (whole - self._tried) * done / max(1, total)), whole)

    def finals(self, few: Sequence[Trial], drawn: Sequence[History], more: Sequence[History]) -> list[Trial]:
        """The same candidates over more series; what they cost on those `drawn` before is known."""
        known = {one.series: i for i, one in enumerate(drawn)}
        fresh = [one for one in more if one.series not in known]
        made = self.run("more", [(trial.label, trial.changes) for trial in few], fresh)
        place = {one.series: i for i, one in enumerate(fresh)}
        return [
            replace(new, cost=np.array([
                old.cost[known[one.series]] if one.series in known else new.cost[place[one.series]] for one in more
            ]))
            for old, new in zip(few, made, strict=True)
        ]  # fmt: skip

    def run(self, stage: str, candidates: Sequence[tuple[str, Changes]], found: Sequence[History]) -> list[Trial]:
        """Every candidate over the earlier part of some series."""
        usable: list[tuple[str, Changes, Settings, dict[str, History]]] = []
        for label, changes in candidates:
            try:
                settings = parse_settings(edited(self.text, changes).encode(), self.given.file)
                own = {one.series: one for one in read_histories(settings, self.data, self.states)[0]}
            except (InputError, DataError) as error:
                self.skipped[label] = reason_of(error)
                continue
            if not all(n in own and own[n].y.size >= needed_periods(settings) + self.earlier for n in self.names):
                self.skipped[label] = "some histories are too short for it"
                continue
            usable.append((label, changes, settings, own))

        def work(part: list[History]) -> Arrays:
            members: dict[tuple[Any, ...], Floats] = {}
            making: defaultdict[tuple[Any, ...], Lock] = defaultdict(Lock)  # forecasts that several candidates share

            def tried(settings: Settings, own: dict[str, History]) -> tuple[Floats, Floats]:
                before, past = earlier_part(settings, [own[one.series] for one in part], self.earlier)
                key = (horizon_of(before, past[0].case.kind.config), before.recalibration)
                with making[key]:
                    replay: Replay = self.contest.replay(past, before, members.get(key))
                    members[key] = replay.members
                done = replay.walk(panel := replay.panel(), replay.policy(panel))
                return replay.counted_cost(done), done.certificate["released"].mean(axis=1)

            jobs = [partial(tried, settings, own) for _, _, settings, own in usable]
            made = self.contest.side_by_side(jobs, self.given.run.threads)
            costs = {f"cost {i}": cost for i, (cost, _) in enumerate(made)}
            return costs | {f"released {i}": released for i, (_, released) in enumerate(made)}

        length = self.earlier + self.given.backtest.warmup
        made = self.contest.by_part(stage, found, work, length * len(usable) * POLICY) if usable else {}
        return [
            Trial(label, changes, settings, made[f"cost {i}"], float(made[f"released {i}"].mean()))
            for i, (label, changes, settings, _) in enumerate(usable)
        ]


# -------------------------------------------------------------------- candidates


def _first(given: Settings, content: dict[str, Any]) -> list[tuple[str, Changes]]:
    """The settings as given, then other ways to plan."""
    own = content["policy"]
    lead = int(getattr(given.task, "lead_time", 0))
    deep = max(given.policy.depth, lead + _CLOSED_STEPS)
    nodes = max(given.proof.node_budget, _CLOSED_NODES)
    scaled = given.actions.multiples is not None or given.actions.lots > 0
    lots = {"lots": given.actions.lots or _LOTS, "multiples": None, "periods": None, "batch": None} if scaled else {}
    no_more = dict.fromkeys(own)
    exact = {**no_more, "name": "exact", "depth": deep}

    def planned(mode: str, **more: Any) -> Changes:
        """A fixed plan that can be proved best."""
        policy = {**no_more, "name": "exact", "mode": mode, "depth": min(given.policy.depth, lead + _FIXED_STEPS)}
        return {"policy": {**policy, **more}, "proof": {"node_budget": _FIXED_NODES}}

    closed: Changes = {"policy": {**exact, "mode": "closed"}, "actions": lots, "proof": {"node_budget": nodes}}
    found: list[tuple[str, Changes]] = [
        ("as given", {}),
        ("closed loop", closed),
        ("members, risk 0", planned("members", risk=0.0)),
        # Fixed plans over members take long to prove with a risk; closed loop has one for nothing.
        ("closed loop, risk 0.2", {**closed, "policy": {**closed["policy"], "risk": 0.2}}),
        ("mean, risk 0.5", planned("mean", risk=0.5)),
        ("mean, risk 1", planned("mean", risk=1.0)),
    ]
    return [found[0], *(x for x in found[1:] if not _says(given, own, x[1]))]


def _says(given: Settings, own: dict[str, Any], changes: Changes) -> bool:
    """Whether the settings say so already, and a try would be spent on nothing."""
    policy = changes["policy"]
    same = given.policy.mode == policy["mode"] and given.policy.risk == policy.get("risk", 0.0)
    return (
        same and given.policy.depth == policy["depth"] and given.policy.spread is None and own["name"] == policy["name"]
    )


def _second(base: Settings, best: Trial) -> list[tuple[str, Changes]]:
    """Around the best of the first: depth, grid, recalibration, risk."""

    def also(label: str, table: str, **values: Any) -> tuple[str, Changes]:
        mine = {k: dict(v) for k, v in best.changes.items()}
        mine[table] = {**mine.get(table, {}), **values}
        return (label if best.label == "as given" else f"{best.label}, {label}"), mine

    lead, depth = int(getattr(base.task, "lead_time", 0)), base.policy.depth
    found = [also("recalibrated", "forecast", recalibrate="rolling")] if base.season > 1 else []
    if depth > lead + 2:
        found.append(also(f"depth {max(lead + 1, depth - 3)}", "policy", depth=max(lead + 1, depth - 3)))
    found.append(also(f"depth {depth + 2}", "policy", depth=depth + 2))
    if (lots := base.actions.lots) > 0:
        # With open orders of several periods states grow with a power of the sizes; beyond that there are no states.
        followed = needs_cycles(base.task, base.policy)
        other = max(3, lots - 3) if lead > 1 and not followed else lots + 4
        found.append(also(f"lots = {other}" if followed else f"{other} order sizes", "actions", lots=other))
    elif base.actions.multiples is not None and not base.actions.batch:
        found.append(also("larger orders", "actions", periods=[2, 4, 7], batch=True))
    if base.season > 1:
        found.append(also("recalibrated by bias", "forecast", recalibrate="rolling", scale=False))
    if base.season > 1:
        found.append(also("error paths", "forecast", recalibrate="paths"))
    if base.policy.mode == "members":
        return found
    risk = 0.1 if base.policy.risk == 0.0 else round(0.5 * base.policy.risk, 4)
    found.append(also(f"risk {risk:g}", "policy", risk=risk))
    return found
