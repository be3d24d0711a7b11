"""A small demand sample for demonstrations and tests, generated here: no files, no random library.

Numbers come from SplitMix64 and are rounded to whole units, so every platform gets the same sample.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ucsearch.errors import InputError
from ucsearch.lab.data.records import Series, SeriesSet

__all__ = ["Draws", "SampleState", "sample_demand", "sample_states"]

MASK = (1 << 64) - 1
WEEK = (1.0, 0.92, 0.95, 1.02, 1.18, 1.35, 0.58)
PATTERNS = ("steady", "trend", "seasonal", "intermittent")


@dataclass(frozen=True, slots=True)
class SampleState:
    """Stock of one series at the end of its training part, in units."""

    id: str  # of the series
    on_hand: float  # units
    on_order: tuple[float, ...]  # arrivals after 1, 2, ... steps; one per step of lead time
    lead_time: int  # steps


def sample_demand(count: int = 12, length: int = 154, *, horizon: int = 14, seed: int = 2024) -> SeriesSet:
    """Daily demand of `count` series in whole units, weekly pattern; kinds of demand take turns, `category` says which.
    The last `horizon` of `length` days are the hold-out.

    >>> first = sample_demand().series[0]
    >>> first.id, first.frequency, first.y[:5].tolist()
    ('SKU-001', 'daily', [53.0, 53.0, 64.0, 65.0, 62.0])
    """
    if not count >= 1:
        raise InputError("count", count, "at least 1")
    if not length > horizon >= 1:
        raise InputError("horizon", horizon, f"1..{length - 1} (length {length})")
    series = []
    for number in range(count):
        pattern = PATTERNS[number % len(PATTERNS)]
        draws = Draws(seed, number)
        level = 20.0 + 60.0 * draws.uniform()
        y = np.array([_demand(pattern, level, t, length, draws) for t in range(length)])
        series.append(
            Series(
                id=f"SKU-{number + 1:03d}",
                y=y,
                frequency="daily",
                seasonal_period=7,
                horizon=horizon,
                n_train=length - horizon,
                category=pattern,
            )
        )
    return SeriesSet("sample-demand", tuple(series))


def sample_states(demand: SeriesSet, *, seed: int = 2024) -> tuple[SampleState, ...]:
    """A plausible stock position for each series of `demand`: lead times of 0 to 3 days and about a week of cover."""
    states = []
    for number, one in enumerate(demand.series):
        draws = Draws(seed ^ 0x5EED, number)
        mean = float(one.train[-28:].mean())
        lead_time = int(4 * draws.uniform())
        on_order = tuple(float(round(mean * (0.5 + draws.uniform()))) for _ in range(lead_time))
        states.append(SampleState(one.id, float(round(mean * (1.0 + 4.0 * draws.uniform()))), on_order, lead_time))
    return tuple(states)


class Draws:
    """SplitMix64 (Steele, Lea and Flood 2014), one stream per series."""

    def __init__(self, seed: int, stream: int) -> None:
        self.state = (seed * 0x9E3779B97F4A7C15 + (stream + 1) * 0xD1B54A32D192ED03) & MASK

    def uniform(self) -> float:
        """In (0, 1): never an end point, so that its logarithm is finite."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        return (((z ^ (z >> 31)) >> 11) + 0.5) / (1 << 53)

    def normal(self) -> float:
        return math.sqrt(-2.0 * math.log(self.uniform())) * math.cos(2.0 * math.pi * self.uniform())


def _demand(pattern: str, level: float, t: int, length: int, draws: Draws) -> float:
    if pattern == "intermittent":
        happens, size = draws.uniform(), draws.uniform()
        return float(1 + int(-0.4 * level * math.log(size))) if happens < 0.35 else 0.0
    mean = level * WEEK[t % 7] if pattern != "steady" else level
    if pattern == "trend":
        mean *= 0.8 + 0.5 * t / length
    if pattern == "seasonal":
        mean *= 1.0 + 0.25 * math.sin(2.0 * math.pi * t / 91.0)
    return float(max(0, round(mean + 0.15 * level * draws.normal())))
