"""Rules of thumb outside inventory: when to charge and sell, how many to staff, when to step in."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.replay.classics.adaptive import fractile
from ucsearch.replay.walk import Choice, Seen
from ucsearch.tasks.capacity import CapacityPlan, total_of
from ucsearch.tasks.intervention import Intervention

__all__ = ["CalendarStaffing", "Nothing", "PriceRule", "QuantileStaffing", "Threshold", "critical_share"]

Floats = NDArray[np.float64]


class PriceRule:
    """Storage: charge at full power while the price is in the cheap part of the forecast, sell in the dear part. The
    parts end at the quantiles `low` and `high` of the mean path; an outcome's first field is the price."""

    def __init__(self, low: float = 0.25, high: float = 0.75) -> None:
        if not 0.0 <= low < high <= 1.0:
            raise InputError("low, high", f"{low:g}, {high:g}", "two shares, the first below the second")
        self.low, self.high = low, high

    def __call__(self, seen: Seen) -> Choice:
        price = seen.trace.mean[:, :, 0]  # (N, H)
        low, high = np.quantile(price, [self.low, self.high], axis=1)
        wish = np.where(price[:, 0] <= low, np.inf, np.where(price[:, 0] >= high, -np.inf, 0.0))
        return _nearest(seen, np.where(low < high, wish, 0.0))


class Nothing:
    """Idle, no change, watch: the allowed action nearest to 0."""

    def __call__(self, seen: Seen) -> Choice:
        return _nearest(seen, np.zeros(len(seen.rows)))


class Threshold:
    """Intervention: the largest dose allowed when one dose is expected to avert `factor` times what it costs."""

    def __init__(self, config: Intervention, factor: float = 1.0) -> None:
        if not factor > 0.0:
            raise InputError("factor", factor, "a number above 0")
        self.config, self.factor = config, factor

    def __call__(self, seen: Seen) -> Choice:
        effect = np.array(self.config.params().effect)
        steps = min(len(effect), seen.trace.horizon)
        averted = np.maximum(seen.trace.mean[:, :steps, 0], 0.0) @ effect[:steps]
        price = self.config.cost + self.config.fixed_cost
        return _nearest(seen, np.where(averted > self.factor * price, np.inf, 0.0))


def critical_share(config: CapacityPlan) -> float:
    """The newsvendor's fractile: what a unit of demand short costs, by that and what one too many does."""
    over = config.idle + (config.running / config.unit_output if config.unit_output > 0.0 else 0.0)
    both = config.shortage + over
    return min(max(config.shortage / both, 0.01), 0.999) if both > 0.0 else 0.5


class QuantileStaffing:
    """Capacity: as many units as serve the fractile `share` of the members' demand when a start takes effect."""

    def __init__(self, config: CapacityPlan, share: float = 0.9) -> None:
        self.config, self.share = config, _share(share)

    def __call__(self, seen: Seen) -> Choice:
        at = min(self.config.startup_delay, seen.trace.horizon - 1)
        weights = np.broadcast_to(seen.trace.weights, seen.trace.members.shape[:2])
        demand = [fractile(m[:, at, 0], w, self.share) for m, w in zip(seen.trace.members, weights, strict=True)]
        return _staffed(self.config, seen, np.array(demand))


class CalendarStaffing:
    """Capacity without a forecast: units for the fractile `share` of past demand at the same phase of the season, of
    `season` steps."""

    def __init__(self, config: CapacityPlan, season: int, share: float = 0.9) -> None:
        if season < 1:
            raise InputError("season", season, "at least 1 step")
        self.config, self.season, self.share = config, season, _share(share)

    def __call__(self, seen: Seen) -> Choice:
        demand = np.empty(len(seen.rows))
        for n in range(len(demand)):
            past = seen.past(n)
            # The step in which a start takes effect lies so many steps after the last known one.
            ahead = self.config.startup_delay + 1
            phase = past[::-1][(self.season - ahead) % self.season :: self.season]
            some = phase if phase.size else past
            demand[n] = fractile(some, np.full(some.size, 1.0 / some.size), self.share) if some.size else 0.0
        return _staffed(self.config, seen, demand)


def _share(value: float) -> float:
    if not 0.0 < value < 1.0:
        raise InputError("share", value, "a number between 0 and 1")
    return value


def _staffed(config: CapacityPlan, seen: Seen, demand: Floats) -> Choice:
    units = np.ceil(np.maximum(demand, 0.0) / config.unit_output - 1e-9)
    staff = np.array([s.online + total_of(s.starting) for s in map(seen.layout.build, seen.rows.tolist())])
    return _nearest(seen, units - staff)


def _nearest(seen: Seen, wanted: Floats) -> Choice:
    """The allowed action nearest to the one wanted, the smaller on ties."""
    finite = np.where(np.isfinite(seen.table), seen.table, 0.0)
    aim = np.clip(wanted, finite.min(axis=1), finite.max(axis=1))
    away = np.where(seen.mask, np.abs(np.where(seen.mask, seen.table, 0.0) - aim[:, None]), np.inf)
    index = np.where(seen.mask.any(axis=1), away.argmin(axis=1), -1)
    return Choice.at(seen, index.astype(np.int64))
