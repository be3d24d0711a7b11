"""`ucsearch service arm`: the monitor replayed over history before it may stop releases; what tolerance would fit."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ucsearch.errors import InputError
from ucsearch.forecast.base import first_origin
from ucsearch.monitor import Monitor, rank_of
from ucsearch.monitor import Settings as Watching
from ucsearch.monitor.bets import LEAST_MEMBERS
from ucsearch.planner.forecast import plan_forecast
from ucsearch.planner.history import horizon_of
from ucsearch.planner.settings import Settings

__all__ = ["Armed", "History", "arm", "replayed"]

LEAST = 500  # outcomes below which a replay says nothing
_ORIGINS = 2_000  # forecasts of a series that are looked back on
_TRIED = (0.0, 0.01, 0.017, 0.025, 0.035, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3)  # undercoverage to tolerate

History = Sequence[Sequence[tuple[str, float, float]]]  # ranks (series, low, high) by period


class Armed(NamedTuple):
    """What the replay found."""

    outcomes: int
    periods: int
    tripped: bool  # the pool
    after: int  # periods until then, 0 where it did not trip
    series: int  # that tripped on their own
    evidence: float  # of the pool at the end
    about: str
    fits: float | None  # the least undercoverage to tolerate at which the pool does not trip; None: none that was tried


def arm(settings: Settings, watching: Watching, sales: str | Path) -> Armed:
    """Replay the monitor of a plan with these settings over a backtest of its forecaster on past sales."""
    ranks = ranks_of(settings, sales, watching.lags)
    count = sum(len(period) for period in ranks)
    if count < LEAST:
        raise InputError("sales", f"{count} outcomes that could be ranked", f"at least {LEAST}")
    return replayed(ranks, watching)


def replayed(ranks: History, settings: Watching) -> Armed:
    monitor, after = _run(ranks, settings)
    status = monitor.status()
    fits = None
    for tried in _TRIED:
        if not _run(ranks, dataclasses.replace(settings, max_undercoverage=tried))[1]:
            fits = tried
            break
    alone = {trip.series for trip in monitor.trips if trip.event == "tripped" and trip.series}
    return Armed(
        sum(len(p) for p in ranks), len(ranks), after > 0, after, len(alone), status.evidence, status.about, fits
    )


def _run(ranks: History, settings: Watching) -> tuple[Monitor, int]:
    """The monitor at the end, and the number of the period at which the pool tripped."""
    monitor, after = Monitor(settings), 0
    for n, period in enumerate(ranks, 1):
        for trip in monitor.period(period):
            if not trip.series and not after:
                after = n
    return monitor, after


def ranks_of(settings: Settings, sales: str | Path, lags: int = 1) -> History:
    """Where outcomes fell among the forecaster's paths, period by period, as far back as the history goes."""
    job = plan_forecast(settings, sales, horizon=max(horizon_of(settings), lags))
    ranks: dict[int, list[tuple[str, float, float]]] = {}
    for history in job.histories:
        last = history.y.size - 1 - lags
        first = max(last - _ORIGINS + 1, first_origin(settings.forecaster, history.y, job.season))
        if last < first:
            continue
        cutoffs = np.arange(first, last + 1, dtype=np.int64)
        members = job.how.forecasts(history.series, history.y, cutoffs, known=history.known)[:, :, :lags]
        if members.shape[1] < LEAST_MEMBERS:
            # Nothing of it would be ranked: a monitor that sees nothing never trips.
            count = f"{members.shape[1]} paths of the forecaster"
            raise InputError("members", count, f"at least {LEAST_MEMBERS}, as the monitor needs (forecaster.paths)")
        for n, cutoff in enumerate(cutoffs.tolist()):
            # Exact sums, as of outcomes that are reported: a path that came as it was is a tie.
            if np.isnan(history.y[cutoff + 1 : cutoff + 1 + lags]).any():
                continue  # nobody knows what was asked for
            total = math.fsum(history.y[cutoff + 1 : cutoff + 1 + lags].tolist())
            low, high = rank_of([math.fsum(path) for path in members[n].tolist()], total, None)
            # Counted back from the end, where all series meet.
            ranks.setdefault(cutoff - history.y.size, []).append((history.series, low, high))
    return [ranks[key] for key in sorted(ranks)]
