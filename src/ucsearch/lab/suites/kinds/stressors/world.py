"""What can go wrong with a forecast, a record or the world, from one decision on; and what a monitor sees of it.

Every stress leaves everything before its onset alone, so that each series is its own comparison.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.forecast.base import Forecaster, PathForecast, refuse_known
from ucsearch.lab.suites.kinds.walkforward.settings import WalkForwardSettings
from ucsearch.lab.suites.kinds.walkforward.world import World
from ucsearch.monitor import Monitor, rank_of
from ucsearch.replay.panel import Panel, Stretch

__all__ = ["CLEAN", "KINDS", "MonitorView", "Stress", "StressedWorld", "recorded", "shifted", "watched"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
StressKind = Literal["noise", "bias", "spread", "missing", "outliers", "delay", "shift"]
KINDS: tuple[StressKind, ...] = ("noise", "bias", "spread", "missing", "outliers", "delay", "shift")
CLEAN = "uc"
WRONG_BY = 5.0  # a wrong record is so many times the true value
_TAGS = {"noise": 1, "missing": 2, "outliers": 3}  # of the random streams, so that stresses share none


class Stress(NamedTuple):
    """One thing that goes wrong, and how much of it.

    noise: every forecast is off by so many of its own spreads, drawn anew each time, the same for all its members.
    bias: the same, constant (below 0: forecasts too low). spread: deviations from the mean are multiplied by it.
    missing: this share of values is not recorded, and the last one recorded stands in.
    outliers: this share of records is five times the true value. delay: values come so many periods late.
    shift: the series itself becomes (1 + size) times what it was.
    """

    kind: StressKind
    size: float

    @property
    def name(self) -> str:
        return f"{self.kind} {self.size:+g}" if self.kind in ("bias", "shift") else f"{self.kind} {self.size:g}"

    @property
    def late(self) -> int:
        """Periods by which outcomes come late."""
        return int(self.size) if self.kind == "delay" else 0

    def check(self) -> None:
        """Refuse sizes that mean nothing."""
        if self.kind in ("missing", "outliers"):
            good = 0.0 < self.size < 1.0
        elif self.kind == "delay":
            good = self.size >= 1.0 and float(self.size).is_integer()
        elif self.kind == "shift":
            good = -1.0 < self.size < np.inf and self.size != 0.0
        else:
            good = np.isfinite(self.size) and (self.kind == "bias" or self.size > 0.0)
        if not good:
            raise InputError(f"stresses.{self.kind}", self.size, "a size that its definition allows")


class StressedWorld(World):
    """A suite's world whose forecasts suffer from decision `onset` on; None: nothing is wrong."""

    def __init__(self, settings: WalkForwardSettings, stress: Stress | None, onset: int) -> None:
        super().__init__(settings)
        self.stress, self.onset = stress, onset

    @property
    def forecaster(self) -> Forecaster:
        made = super().forecaster
        floor = -np.inf if self.s.floor is None else self.s.floor
        return made if self.stress is None else _Stressed(made, self.stress, self.onset, floor)


def shifted(stretch: Stretch, stress: Stress | None, onset: int) -> Stretch:
    """The window as the world is under a stress: only a level shift touches it."""
    if stress is None or stress.kind != "shift":
        return stretch
    y = stretch.y.copy()
    y[stretch.start + onset :] *= 1.0 + stress.size
    return dataclasses.replace(stretch, y=y)


def recorded(values: Floats, first: int, stress: Stress | None, seed: Sequence[int]) -> Floats:
    """What the records say of the true values; NaN where nothing was recorded. Before `first` they are right."""
    if stress is None or stress.kind not in ("missing", "outliers"):
        return values
    rng = np.random.default_rng([*seed, _TAGS[stress.kind]])
    hit = rng.random(len(values) - first) < stress.size
    out = values.copy()
    out[first:] = np.where(hit, np.nan if stress.kind == "missing" else WRONG_BY * out[first:], out[first:])
    return out


@dataclass(frozen=True)
class _Stressed:
    model: Forecaster
    stress: Stress
    onset: int
    floor: float

    @property
    def name(self) -> str:
        return f"{self.model.name}, {self.stress.name}"

    def min_history(self, season: int) -> int:
        return self.model.min_history(season)

    def forecast(
        self, y: Floats, cutoffs: Ints, *, horizon: int, season: int, stream: np.uint64, known: Floats | None = None
    ) -> PathForecast:
        refuse_known(self.name, known)
        kind, size = self.stress.kind, self.stress.size
        first = int(cutoffs[0]) + 1 + self.onset
        seed = [int(stream)]
        seen = recorded(y, first, self.stress, seed)
        late = self.stress.late
        made = self.model.forecast(_held(seen), cutoffs, horizon=horizon, season=season, stream=stream)
        members = np.array(made.members)
        if late:
            # What is known at decision t ends `late` periods earlier, so the same steps are further ahead.
            old = self.model.forecast(
                y, cutoffs[self.onset :] - late, horizon=horizon + late, season=season, stream=stream
            )
            members[self.onset :] = old.members[:, :, late:]
        after = members[self.onset :]
        mean, spread = after.mean(axis=1, keepdims=True), after.std(axis=1, keepdims=True)
        if kind == "noise":
            drawn = np.random.default_rng([*seed, _TAGS[kind]]).standard_normal(len(after))
            members[self.onset :] = after + size * drawn[:, None, None] * spread
        elif kind == "bias":
            members[self.onset :] = after + size * spread
        elif kind == "spread":
            members[self.onset :] = mean + size * (after - mean)
        members = np.maximum(members, self.floor)
        return PathForecast(
            members, members.mean(axis=1), members.std(axis=1), np.asarray(cutoffs, np.int64), self.name, "joint"
        )


def _held(values: Floats) -> Floats:
    """The last record stands in for those that are missing."""
    known = ~np.isnan(values)
    return np.asarray(values[np.maximum.accumulate(np.where(known, np.arange(len(values)), 0))])


# -------------------------------------------------------------------- the monitor


class MonitorView(NamedTuple):
    """What a monitor made of one family's series, side by side."""

    delay: list[int | None]  # (N,) periods from the onset to the trip of each series; None: it did not trip
    early: list[bool]  # (N,) it had tripped before the onset
    pool_delay: int | None
    blocked: Bools  # (N, T) own stream or the family's was tripped when the decision was taken
    within: Ints  # (N,) outcomes after the onset in the range that should hold 90 %
    known: Ints  # (N,) outcomes after the onset that were recorded


def watched(panel: Panel, outcomes: Floats, onset: int, late: int) -> MonitorView:
    """`outcomes` (N, T): as recorded; NaN: not at all. An outcome counts `late` periods after it could have."""
    count, steps = outcomes.shape
    monitor = Monitor()
    names = [f"{n:05d}" for n in range(count)]
    delay: list[int | None] = [None] * count
    early = [False] * count
    pool: int | None = None
    blocked = np.zeros((count, steps), np.bool_)
    within, known = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for t in range(steps):
        blocked[:, t] = [monitor.blocked(name) for name in names]
        at = t - (late if t - late >= onset else 0)
        if late and onset <= t < onset + late:
            continue  # nothing arrives until the first late outcome does
        ranks = []
        for n in range(count):
            if not np.isfinite(outcomes[n, at]):
                continue
            low, high = rank_of(panel.members[n, at, :, 0].tolist(), float(outcomes[n, at]))
            ranks.append((names[n], low, high))
            if at >= onset:
                known[n] += 1
                within[n] += 0.05 <= 0.5 * (low + high) <= 0.95
        for trip in monitor.period(ranks):
            if trip.event != "tripped":
                continue
            if trip.series == "":
                pool = None if t < onset else t - onset + 1
            elif t < onset:
                early[int(trip.series)] = True
            elif delay[int(trip.series)] is None:
                delay[int(trip.series)] = t - onset + 1
    return MonitorView(delay, early, pool, blocked, within, known)
