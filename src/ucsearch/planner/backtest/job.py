"""The job behind `ucsearch backtest`: replay the last periods of a history, period by period, for several policies.

At every period each policy sees the state it has brought about itself and a forecast made from earlier periods only.
Then the period's real outcome comes, by the task's own rules. Rules are shown as they are and tuned; they are tuned on
the periods before the counted ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.planner.backtest.replay import PROVED, History, Replay, read_histories
from ucsearch.planner.backtest.result import GIVEN, GREEDY, HINDSIGHT, POLICY, TUNED, BacktestResult, Track
from ucsearch.planner.backtest.resume import Arrays, Kept, Parts, Progress, file_hash
from ucsearch.planner.backtest.rules import rule_effort, tune_rules
from ucsearch.planner.decide.room import Room
from ucsearch.planner.files.sales import Data, read_sales
from ucsearch.planner.history import needed_periods, prepare, with_season
from ucsearch.planner.settings import Settings
from ucsearch.replay.roster import Entry
from ucsearch.replay.tune import Chosen, Grid
from ucsearch.replay.walk import Walk
from ucsearch.trace import Trace

__all__ = ["check_earlier", "effort_of_report", "name_states", "rules_of", "run_backtest"]

Floats = NDArray[np.float64]
RuleSettings = Mapping[str, list[dict[str, Any]]]  # of tuned rules, by series
_LOOKED_AT = 40  # series of a kind, evenly spread, of which the one with the most states is searched
_WIDENED = 1.3  # times as many settings of a rule are tried as its grid has, about


def run_backtest(
    settings: Settings, data: Data, *, states: str | Path | None = None, progress: Progress | None = None,
    earlier: int | None = None, keep: Path | None = None,
    given: Settings | None = None, tell: Callable[[str], None] | None = None,
) -> BacktestResult:  # fmt: skip
    """Replay the last `backtest.periods` of a history for the policy, every rule and hindsight.

    Args:
        settings: how to forecast and to plan.
        data: the history, a file or what was read from one.
        states: a file of parameters by series; where the task has no opening of its own, of states too.
        progress: called with what is done and what there is to do.
        earlier: periods before the counted ones that rules are tuned on: as many as those by default; 0: not tuned.
        keep: a folder in which finished parts are kept until the run is done.
        given: settings to show beside, which also say what is left is worth.
        tell: called before the replay with what closed loop takes, where that is long or does not fit.

    Returns: the result, with `text()`, `evidence()` and `write(path)`.

    Raises: InputError, DataError where settings or files cannot be used.
    """
    before = settings.backtest.periods if earlier is None else earlier
    check_earlier(before)
    data = read_sales(data, settings)
    settings = with_season(settings, data)
    given = None if given is None else with_season(given, data)
    histories, problems = read_histories(settings, data, states)
    follows = {
        "settings": repr(settings), "given": repr(given), "data": file_hash(data.file), "states": file_hash(states),
        "earlier": before,
    }  # fmt: skip
    parts = Parts(Kept(keep, "backtest", follows), progress)
    long = [h for h in histories if len(h.y) >= needed_periods(settings) + before] if before else []
    notes: list[str] = []
    if before and len(long) < len(histories):
        text = f"{len(histories) - len(long)} of {len(histories)} series have no {before} periods more to tune on"
        notes.append(f"{text}; rules were tuned on the others" if long else f"{text}: no rule is tuned")
    if (unknown := sum(h.unknown for h in histories)) > 0:
        notes.append(f"{unknown} periods without a known demand: in the replay they count as forecast a period before")
    if tell is not None:
        name_states(settings, histories, tell)
    rules = rules_of(settings, histories)
    window = settings.backtest.periods + settings.backtest.warmup
    parts.expect(effort_of_report(rules, settings, len(histories), len(long), before, beside=given is not None))
    others = {} if given is None else {h.series: h for h in read_histories(given, data, states)[0]}
    judge = None
    if given is not None and settings.task.left_counts == "daily":
        judge = given, [others[history.series] for history in long]
    knobs, spent = tune_rules(parts, settings, long, before, judge) if long else ({}, {})
    places = {history.series: i for i, history in enumerate(long)}

    def work(part: list[History]) -> Arrays:
        beside = None if given is None else Replay([others[h.series] for h in part], given, parts.tick)
        replay = Replay(part, settings, parts.tick, judge=beside)
        return _final(parts, replay, _by_series(knobs, part, places), beside)

    effort = window * _effort_of_walks(rules, bool(long), (given is not None) + bool(settings.shared))
    arrays = parts.by_part("later", histories, work, effort)
    parts.finish()
    reasons = {k.removeprefix("reason "): int(v.sum()) for k, v in arrays.items() if k.startswith("reason ")}
    policies = list(dict.fromkeys(k.rpartition("/")[0] for k in arrays if "/" in k))
    why = ""
    if not arrays["hindsight known"].all():
        policies.remove(HINDSIGHT)
        away = int((arrays["hindsight known"] == 0.0).sum())
        texts = sorted(k.removeprefix("unknown ") for k in arrays if k.startswith("unknown "))
        why = f"no exact programme for {away} of {len(histories)} series: {'; '.join(texts)}"
    tracks = {name: _track(arrays, name) for name in policies}
    released = float(arrays["released"].sum()) / (len(histories) * window)
    return BacktestResult(
        tuple(history.series for history in histories), tracks, released, tuple(problems), settings,
        dict(sorted(reasons.items())), knobs, spent, before if knobs else 0, why, tuple(notes),
        tuple(float(h.case.config.target) for h in histories) if _has_targets(histories) else (),
        tuple(history.place.cluster for history in histories),
    )  # fmt: skip


def name_states(settings: Settings, histories: Sequence[History], tell: Callable[[str], None]) -> None:
    """Say how many states closed loop has and what would fit, where a replay takes long or its decisions fall back."""
    window = settings.backtest.periods + settings.backtest.warmup
    room = Room(settings, tell, len(histories) * window, "decisions")
    kinds: dict[int, list[History]] = {}
    for history in histories:
        kinds.setdefault(history.case.kind.number, []).append(history)
    for group in kinds.values():
        kind = group[0].case.kind
        if kind.policy.mode != "closed":
            continue
        some = [group[i] for i in sorted({round(x) for x in np.linspace(0, len(group) - 1, _LOOKED_AT)})]
        how = prepare(settings, config=kind.config)
        members = [
            how.forecasts(h.series, h.y, np.array([len(h.y) - window - 1]), settings.recalibration, h.known)[0]
            for h in some
        ]
        paths = min(map(len, members))
        trace = Trace.from_members(np.stack([members_of[:paths] for members_of in members]))
        room.look([h.series for h in some], [h.case for h in some], trace, settings.run.simulator)


def _has_targets(histories: Sequence[History]) -> bool:
    return all(getattr(h.case.config, "target", None) is not None for h in histories)


def _track(found: Arrays, name: str) -> Track:
    parts = {key.removeprefix(f"{name}/"): values for key, values in found.items() if key.rpartition("/")[0] == name}
    return Track(parts.pop("reward"), parts)


def rules_of(settings: Settings, histories: Sequence[History]) -> dict[str, Entry]:
    """The rules of a table, of whose knobs a progress bar wants to know."""
    first = histories[:1]
    short = settings.backtest.model_copy(update={"periods": 1, "warmup": 0})
    return Replay(first, replace(settings, backtest=short)).rules


def effort_of_report(
    rules: Mapping[str, Entry], settings: Settings, series: int, tuned_on: int, earlier: int, *, beside: bool
) -> int:
    """What a backtest takes, for a progress bar: rules tuned on some of the series, then everybody's walk on all."""
    test = settings.backtest
    tried = sum(rule_effort(n) * round(_WIDENED * len(Grid(e.knobs).settings())) for n, e in rules.items())
    walks = _effort_of_walks(rules, tuned_on > 0, beside + bool(settings.shared))
    return series * (test.periods + test.warmup) * walks + tuned_on * (earlier + test.warmup) * tried


def _effort_of_walks(rules: Mapping[str, Entry], tuned: bool, beside: int) -> int:
    """Of a period of one series: the policy, `beside` it other settings or ways to fill a truck, rules as they are and
    perhaps tuned."""
    return PROVED * (1 + beside) + sum(rule_effort(n) * (1 + (tuned and bool(e.knobs))) for n, e in rules.items())


def check_earlier(earlier: int) -> None:
    if not (isinstance(earlier, int) and earlier >= 0):
        raise InputError("earlier", earlier, "a whole number of periods, 0 or more")


def _by_series(knobs: Mapping[str, Chosen], part: Sequence[History], places: Mapping[str, int]) -> RuleSettings:
    """The settings of tuned rules for some series; a series that was too short to be tuned on takes those of the
    middle one."""
    middle = len(places) // 2
    return {name: [chosen.of(places.get(h.series, middle)) for h in part] for name, chosen in knobs.items()}


def _final(parts: Parts, replay: Replay, knobs: RuleSettings, beside: Replay | None) -> Arrays:
    """Everybody through the counted periods, and the best that could have been done from where they began."""
    out: Arrays = {}
    replay.prepare()
    if beside is not None:
        beside.prepare()

    def told(name: str, where: Replay, done: Walk) -> tuple[Floats | None, Arrays]:
        arrays = {f"{name}/{k}": v for k, v in where.track(done).items()}
        if name == POLICY:
            arrays = {"released": done.certificate["released"].sum(axis=1), **arrays}
        return (done.states[:, replay.skip] if where.panel.layout == replay.panel.layout else None), arrays

    def planned(name: str, where: Replay, fill: Literal["price", "greedy"] = "price") -> tuple[Floats | None, Arrays]:
        return told(name, where, where.walk(where.policy(fill)))

    def ruled(name: str, settings: list[dict[str, Any]] | None) -> tuple[Floats | None, Arrays]:
        return told(name if settings is None else name + TUNED, *replay.walk_rule(name, settings))

    jobs = [partial(planned, POLICY, replay)]
    if replay.trucks is not None:
        jobs.append(partial(planned, GREEDY, replay, "greedy"))
    if beside is not None:
        jobs.append(partial(planned, GIVEN, beside))
    for name in replay.rules:
        jobs.append(partial(ruled, name, None))
        if name in knobs:
            jobs.append(partial(ruled, name, knobs[name]))
    begins = []
    for begin, arrays in parts.side_by_side(jobs, replay.settings.run.threads):
        if begin is not None:
            begins.append(begin)
        out.update(arrays)
    out.update({f"reason {k}": np.array([float(v)]) for k, v in replay.reasons.items()})
    out.update(replay.hindsight(np.stack(begins, axis=1)))
    return out
