"""The job behind `ucsearch backtest`: replay the last periods of a history, period by period, for several policies.

At every period each policy sees the stock it has brought about itself and a forecast made from earlier periods only.
Then the period's real demand comes, by the task's own rules. Rules are shown as they are and tuned; they are tuned on
the periods before the counted ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.planner.backtest.contest import Contest, Progress, rule_effort, with_service_level
from ucsearch.planner.backtest.replay import CLASSICS, History, Replay, read_histories
from ucsearch.planner.backtest.replay import POLICY as OWN
from ucsearch.planner.backtest.result import GIVEN, HINDSIGHT, POLICY, TUNED, BacktestResult, Track
from ucsearch.planner.backtest.resume import Arrays, Kept, file_hash
from ucsearch.planner.files.sales import Data, read_sales
from ucsearch.planner.history import needed_periods, with_season
from ucsearch.planner.settings import Settings
from ucsearch.replay.panel import Panel
from ucsearch.replay.tune import Chosen
from ucsearch.replay.walk import Chooser

__all__ = ["run_backtest"]

Floats = NDArray[np.float64]
ItemSettings = Mapping[str, list[dict[str, Any]]]  # of tuned rules, by item
_FIELDS = tuple(f.name for f in dataclasses.fields(Track))
_WITHOUT_KNOBS = ("planning on the mean", "greedy")
# About how many settings of a rule are tried, for a progress bar.
_TRIED = {"base-stock": 8, "(s,S)": 40, "(s,S) by formula": 25, "(s,nQ)": 40, "newsvendor": 8, "rolling quantile": 32,
          "planning on a quantile": 7}  # fmt: skip


def run_backtest(
    settings: Settings, data: Data, *, states: str | Path | None = None, progress: Progress | None = None,
    earlier: int | None = None, service_level: float | None = None, keep: Path | None = None,
    given: Settings | None = None,
) -> BacktestResult:  # fmt: skip
    """Replay the history in `data`. Of `states` only parameters are used (lead times, costs), not today's stock.

    Rules are tuned on wide grids on the `earlier` periods before the counted ones (as many as those, if not given; 0:
    not tuned). With a `service_level` the shortage cost is the one that reaches it there. Finished
    parts are kept in the folder `keep` until the run is done. `given`: settings to show beside.
    """
    before = settings.backtest.periods if earlier is None else earlier
    check_earlier(before)
    data = read_sales(data, settings)
    settings = with_season(settings, data)
    given = None if given is None else with_season(given, data)
    found, problems = read_histories(settings, data, states)
    follows = {
        "settings": repr(settings), "given": repr(given), "data": file_hash(data.file), "states": file_hash(states),
        "earlier": before, "service_level": service_level,
    }  # fmt: skip
    contest = Contest(Kept(keep, "backtest", follows), progress)
    long = [one for one in found if one.y.size >= needed_periods(settings) + before] if before else []
    notes: list[str] = []
    if before and len(long) < len(found):
        text = f"{len(found) - len(long)} of {len(found)} series have no {before} periods more to tune on"
        notes.append(f"{text}; rules were tuned on the others" if long else f"{text}: no rule is tuned")
    window = settings.backtest.periods + settings.backtest.warmup
    contest.expect(effort_of_report(settings, len(found), len(long), before, beside=given is not None))
    if service_level is not None:
        found, _, note = with_service_level(contest, settings, found, long, before, service_level)
        by_name = {one.series: one for one in found}
        long = [by_name[one.series] for one in long]
        notes.append(note)
    knobs, spent = contest.tune_rules(settings, long, before) if long else ({}, {})
    places = {one.series: i for i, one in enumerate(long)}
    others = {} if given is None else {one.series: one for one in read_histories(given, data, states)[0]}

    def work(part: list[History]) -> Arrays:
        beside = None
        if given is not None:
            beside = contest.replay([others[one.series] for one in part], given)
        return _final(contest, contest.replay(part, settings), _by_item(knobs, part, places), beside)

    parts = contest.by_part("later", found, work, window * _effort_of_walks(bool(long), given is not None))
    contest.kept.done()
    reasons = {k.removeprefix("reason "): int(v.sum()) for k, v in parts.items() if k.startswith("reason ")}
    policies = list(dict.fromkeys(k.rpartition("/")[0] for k in parts if "/" in k))
    why = ""
    if not parts["hindsight known"].all():
        policies.remove(HINDSIGHT)
        away = int((parts["hindsight known"] == 0.0).sum())
        texts = sorted(k.removeprefix("unknown ") for k in parts if k.startswith("unknown "))
        why = f"no exact programme for {away} of {len(found)} series: {'; '.join(texts)}"
    tracks = {name: Track(*(parts[f"{name}/{f}"] for f in _FIELDS)) for name in policies}
    released = float(parts["released"].sum()) / (len(found) * window)
    return BacktestResult(
        tuple(one.series for one in found), tracks, released, tuple(problems), settings,
        dict(sorted(reasons.items())), knobs, spent, before if knobs else 0, why, tuple(notes),
    )  # fmt: skip


def effort_of_report(settings: Settings, series: int, tuned_on: int, earlier: int, *, beside: bool) -> int:
    """What a backtest takes, for a progress bar: rules tuned on some of the series, then everybody's walk on all."""
    test = settings.backtest
    rules = sum(rule_effort(name) * _TRIED.get(name, 1) for name in CLASSICS)
    walks = _effort_of_walks(tuned_on > 0, beside)
    return series * (test.periods + test.warmup) * walks + tuned_on * (earlier + test.warmup) * rules


def _effort_of_walks(tuned: bool, beside: bool) -> int:
    """Of a period of one series: the policy, perhaps settings beside it, rules as they are and perhaps tuned."""
    rules = sum(rule_effort(name) * (1 + (tuned and name not in _WITHOUT_KNOBS)) for name in CLASSICS)
    return OWN * (1 + beside) + rules


def check_earlier(earlier: int) -> None:
    if not (isinstance(earlier, int) and earlier >= 0):
        raise InputError("earlier", earlier, "a whole number of periods, 0 or more")


def _by_item(knobs: Mapping[str, Chosen], part: Sequence[History], places: Mapping[str, int]) -> ItemSettings:
    """The settings of tuned rules for some series; a series that was too short to be tuned on takes those of the
    middle item."""
    middle = len(places) // 2
    return {name: [one.of(places.get(history.series, middle)) for history in part] for name, one in knobs.items()}


def _final(contest: Contest, replay: Replay, knobs: ItemSettings, beside: Replay | None) -> Arrays:
    """Everybody through the counted periods, and the best that could have been done from where they began."""
    out: Arrays = {}

    def walked(name: str, replay: Replay, panel: Panel, chooser: Chooser) -> tuple[Floats, Arrays]:
        done = replay.walk(panel, chooser)
        made = {f"{name}/{k}": v for k, v in replay.track(panel, done).items()}
        if name == POLICY:
            made = {"released": done.certificate["released"].sum(axis=1), **made}
        return done.states[:, replay.skip], made

    panel = replay.panel()
    entries = replay.classics(panel)
    jobs = [partial(walked, POLICY, replay, panel, replay.policy(panel))]
    if beside is not None:
        there = beside.panel()
        jobs.append(partial(walked, GIVEN, beside, there, beside.policy(there)))
    for name in CLASSICS:
        jobs.append(partial(walked, name, replay, panel, entries[name].make()))
        if name in knobs:
            jobs.append(partial(walked, name + TUNED, replay, panel, entries[name].chooser(knobs[name])))
    begins = []
    for begin, made in contest.side_by_side(jobs, replay.settings.run.threads):
        begins.append(begin)
        out.update(made)
    out.update({f"reason {k}": np.array([float(v)]) for k, v in replay.reasons.items()})
    out.update(replay.hindsight(panel, np.stack(begins, axis=1)))
    return out
