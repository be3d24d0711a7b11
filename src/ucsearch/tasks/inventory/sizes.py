"""Order sizes and a lattice that fit each item, so that closed-loop planning sees few states and the right orders.

States merge only if quantities are sums of one unit without rounding: the unit is a pack or a piece, or a half or a
quarter of one, or a power of two. About five units make a period's demand; finer ones cost time and change nothing
(a trial on 982 retail items).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.tasks.checks import whole
from ucsearch.tasks.inventory import rules
from ucsearch.tasks.inventory.lead_times import draws
from ucsearch.trace import Trace

if TYPE_CHECKING:
    from typing import Any

    from ucsearch.tasks.inventory.record import LeadTimeInventory


__all__ = [
    "Lattice", "Lots", "at_breaks", "critical", "demand_over", "distinct", "divided", "fitted_sizes", "in_packs",
    "lots", "mean_demand", "moments", "most_transitions", "offered_sizes", "offered_tables", "on_lattice",
    "pair_lots", "scaled_columns",
]  # fmt: skip

Floats = NDArray[np.float64]
UNITS_PER_PERIOD = 5.0
FINEST = 4  # parts of a pack
BATCHES = 2.0  # economic batches that the largest order covers
SLACK_PERIODS = 2  # periods beyond the lead time that it covers at least
_FAR = 3.0  # times the largest size that fits: a price break beyond is for others
STEADY = 2.0  # spreads of demand over an order's time; sizes further apart hold stock by rounding, not for safety
FEWEST = 8  # sizes are judged as if they were so many at least: fewer cannot lie around a need and still cover the rest
LEVELS = (512, 512, 128)  # of stock up to the largest order, by lead time: states grow with a power of it
# Where sizes go first: so many periods more or less than an economic order lasts, and so many half spreads.
_AROUND = ((0, 0), (0, 1), (0, -1), (0, 4), (0, -4), (1, 0), (-1, 0), (2, 0), (0, 2), (0, -2), (3, 0), (0, 8))
# Where an order lasts one period, no order is there already, and what is left over must be used up in between.
_AROUND_ONE = (
    (0, 0), (0, 1), (0, -1), (0, 4), (0, -4), (1, 0), (-0.5, 0), (-0.25, 0), (2, 0), (0, 2), (0, -2), (0, 8)
)  # fmt: skip


class Lots(NamedTuple):
    """Per window: the lattice's spacing, and ascending order sizes on it, NaN where there are fewer."""

    unit: Floats  # (W,) units of the item
    sizes: Floats  # (W, count + 1) units, the first 0


def lots(
    mean: Floats, lead: int, p: Any, count: int, step: float = 0.0, unit: float | None = None,
    spread: Floats | None = None, span: int | None = None, apart: float = 1.0, most: float = np.inf,
    peak: float | Floats = 0.0,
) -> Lots:  # fmt: skip
    """Nothing, and up to `count` sizes as far as two economic batches or what the lead time and two periods need.

    `mean` (W, H) is the forecast's mean demand, `p` the rules' parameters (numbers, or (W,) arrays), `step` what
    quantities are rounded to (1 for pieces; 0: not at all). `unit` fixes the spacing. With `spread` (W,), the standard
    deviation of demand over lead time + 1 periods, items whose demand is steadier than even sizes are apart get sizes
    around what they need, and a lattice as fine. With a calendar an order covers up to `span` periods and order days
    are `apart` so many; of what cannot be sold within `most` periods nothing more is ordered, but at a `peak` (W,).
    """
    windows = len(mean)
    usual = np.maximum(mean, 0.0).mean(axis=1)
    usual = np.where(usual > 0.0, usual, 1.0)  # nothing is expected: any lattice will do
    pack, least, largest, room = (
        np.broadcast_to(np.asarray(x, np.float64), (windows,))
        for x in (p.case_pack, p.minimum_order, p.largest_order, p.capacity)
    )
    quantum = np.where(pack > 0.0, pack, step)
    spacing = _unit(usual / UNITS_PER_PERIOD, quantum, step) if unit is None else np.full(windows, float(unit))
    batch = np.sqrt(2.0 * divided(p.fixed_cost, p.holding, windows) * usual)
    covered = lead + SLACK_PERIODS if span is None else span + 1
    top = np.maximum(np.minimum(np.maximum(BATCHES * batch, covered * usual), most * usual), peak)
    top = np.maximum(np.minimum(np.minimum(top, largest), room), least)
    # The coarser of the two is a whole multiple of the finer one.
    each = np.maximum(quantum, spacing)[:, None]
    wanted = top[:, None] * (np.arange(count + 1) / count)
    sizes = np.ceil(wanted / each - 1e-9) * each
    sizes[:, 1:] = np.maximum(sizes[:, 1:], np.ceil(least[:, None] / each - 1e-9) * each)
    if spread is None or unit is not None:
        return Lots(spacing, _distinct(sizes))
    levels = LEVELS[min(lead, len(LEVELS) - 1)]
    target = np.minimum(np.maximum(0.5 * spread, top / levels), usual / UNITS_PER_PERIOD)
    fine = _unit(target, quantum, step)
    each = np.maximum(quantum, fine)
    periods = np.maximum(max(1.0, round(apart)), np.round(batch / usual))  # that an economic order lasts
    cycle = spread * np.sqrt((lead + periods) / (lead + 1.0))
    between = top / max(count, FEWEST)
    steady = (between > STEADY * cycle) & (each < between)
    around = _around(mean, usual, lead, periods, np.maximum(each, 0.5 * cycle), each, top, count)
    around[:, 1:] = np.maximum(around[:, 1:], (np.ceil(least / each - 1e-9) * each)[:, None])
    return Lots(np.where(steady, fine, spacing), _distinct(np.where(steady[:, None], around, sizes)))


def at_breaks(found: Lots, breaks: Sequence[tuple[float, float]], p: Any) -> Lots:
    """With the sizes from which an order costs less a unit, each in the place of the size nearest to it; not those that
    limits forbid, nor those beyond `_FAR` times the largest size."""
    unit, sizes = found.unit, found.sizes.copy()
    windows = len(sizes)
    pack, largest, room = (
        np.broadcast_to(np.asarray(x, np.float64), (windows,)) for x in (p.case_pack, p.largest_order, p.capacity)
    )
    each = np.maximum(pack, unit)
    most = np.minimum(np.minimum(largest, room), _FAR * np.nanmax(sizes, axis=1))
    replaced = np.zeros(sizes.shape, bool)
    replaced[:, 0] = True
    for size, _ in breaks:
        at = np.ceil(size / each - 1e-9) * each
        gap = np.where(replaced | np.isnan(sizes), np.inf, np.abs(sizes - at[:, None]))
        nearest = gap.argmin(axis=1)
        rows = np.flatnonzero((at <= most) & (gap.min(axis=1) < np.inf))
        sizes[rows, nearest[rows]] = at[rows]
        replaced[rows, nearest[rows]] = True
    return Lots(unit, _distinct(sizes))


def pair_lots(
    mean: Floats, p: Any, count: int, fast_count: int, step: float, apart: float, most: float, peak: Floats
) -> tuple[Lots, Floats]:
    """Sizes for a regular and an expedited supplier, and their lattice: nothing and up to `count` sizes of the one, (W,
    fast_count + 1) of the other, in even steps up to two economic batches or twice what sells between two order days.

    Even steps keep states few: orders of both suppliers that arrive together add up to multiples of one size. Other
    arguments as of `lots`; `step` is 1 at least, because pairs are whole.
    """
    windows = len(mean)
    usual = np.maximum(mean, 0.0).mean(axis=1)
    usual = np.where(usual > 0.0, usual, 1.0)
    slow, fast = (np.broadcast_to(np.asarray(x, np.float64), (windows,)) for x in (p.case_pack, p.fast_case_pack))
    common = np.where((slow > 0.0) & (fast > 0.0), np.gcd(slow.astype(np.int64), fast.astype(np.int64)), slow + fast)
    unit = _unit(usual / UNITS_PER_PERIOD, np.where(common > 0.0, common, step), step)
    by_supplier = []
    for pack, least, fixed, size in (
        (slow, p.minimum_order, p.fixed_cost, count),
        (fast, p.fast_minimum_order, p.fast_fixed_cost, fast_count),
    ):
        batch = np.sqrt(2.0 * divided(fixed, p.holding, windows) * usual)
        top = np.maximum(np.minimum(np.maximum(BATCHES * batch, 2.0 * apart * usual), most * usual), peak)
        top = np.maximum(np.minimum(top, np.minimum(p.largest_order, p.capacity)), least)
        each = np.maximum(np.maximum(pack, step), unit)
        even = np.ceil(top / size / each - 1e-9) * each
        sizes = even[:, None] * np.arange(size + 1.0)
        fewest = np.ceil(np.broadcast_to(least, (windows,)) / each - 1e-9) * each
        sizes[:, 1:] = np.maximum(sizes[:, 1:], fewest[:, None])
        by_supplier.append(_distinct(sizes))
    return Lots(unit, by_supplier[0]), by_supplier[1]


def _around(
    mean: Floats, usual: Floats, lead: int, periods: Floats, half: Floats, each: Floats, top: Floats, count: int
) -> Floats:
    """(W, count + 1) nothing, and sizes around an order that lasts until the next one is due: a little more or less, or
    some periods longer or shorter."""
    windows = len(mean)
    ahead = np.maximum(mean[:, lead:], 0.0)
    needs = np.concatenate([np.zeros((windows, 1)), np.cumsum(ahead, axis=1)], axis=1)  # of the first k periods
    out = np.zeros((windows, count + 1))
    for i in range(count):
        of_one, of_more = _AROUND_ONE[i % len(_AROUND_ONE)], _AROUND[i % len(_AROUND)]
        more, steps = np.where((periods == 1.0)[:, None], of_one, of_more).T
        last = np.maximum(periods + more, 0.0)
        within = np.floor(np.minimum(last, ahead.shape[1]))  # past the horizon its mean goes on
        needed = needs[np.arange(windows), within.astype(np.int64)] + (last - within) * usual + steps * half
        out[:, i + 1] = np.clip(np.round(needed / each), 0.0, np.floor(top / each + 1e-9)) * each
    return out


def _unit(target: Floats, quantum: Floats, step: float) -> Floats:
    """The spacing nearest to `target` from below that packs and pieces are whole multiples of, or multiples of them."""
    power = 2.0 ** np.floor(np.log2(target))
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = np.where(quantum > 0.0, quantum / target, 0.0)
        finest = np.where(step > 0.0, np.minimum(FINEST, quantum / max(step, 1e-300)), FINEST)
        divided = 2.0 ** np.clip(
            np.ceil(np.log2(np.maximum(parts, 1.0)) - 1e-9), 0, np.log2(np.maximum(finest, 1.0)) // 1
        )
        times = 2.0 ** np.floor(np.log2(np.maximum(target / np.where(quantum > 0.0, quantum, 1.0), 1.0)))
    return np.where(quantum > 0.0, np.where(parts >= 1.0, quantum / divided, quantum * times), power)


def divided(fixed: Any, holding: Any, windows: int) -> Floats:
    """(W,) fixed cost over holding cost; 0 where holding costs nothing."""
    k, h = (np.broadcast_to(np.asarray(x, np.float64), (windows,)) for x in (fixed, holding))
    return np.divide(k, h, out=np.zeros(windows), where=h > 0.0)


def _distinct(sizes: Floats) -> Floats:
    """Ascending, each once, NaN at the end."""
    ordered = np.sort(sizes, axis=1)
    again = np.concatenate([np.zeros((len(ordered), 1), bool), ordered[:, 1:] <= ordered[:, :-1]], axis=1)
    return np.sort(np.where(again, np.nan, ordered), axis=1) + 0.0


class Lattice(NamedTuple):
    """An inventory whose states repeat, with the law of its demand."""

    unit: float  # units of the item between neighbouring points
    trace: Trace
    inventory: LeadTimeInventory


def on_lattice(config: LeadTimeInventory, trace: Trace, unit: float | None, points: int, orders: int) -> Lattice:
    """`LeadTimeInventory.lattice`."""
    if config.spoilage > 0.0:
        raise InputError("spoilage", config.spoilage, "0 on a lattice: what is left of a share lies between its points")
    whole("orders", orders, 2, 1000)
    if trace.is_scores:
        raise InputError("trace", "a trace of action scores", "a trace of members")
    mean = np.maximum(trace.mean[:, :, 0], 0.0).mean(axis=0)[None]  # one item, or items alike
    fitted = lots(mean, config.lead_time, config.params(), orders - 1, unit=unit)
    sizes = tuple(x for x in fitted.sizes[0].tolist() if x == x)
    merged = config.unmet == "lost" and not config.is_planned
    changed = dataclasses.replace(config, orders="quantity", order_sizes=sizes, merge_arrivals=merged)
    return Lattice(float(fitted.unit[0]), trace.on_lattice(float(fitted.unit[0]), points), changed)


def moments(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation over members: (W, J) -> (W,), (W,)."""
    mean = (values * weights).sum(axis=1)
    return mean, np.sqrt((weights * (values - mean[:, None]) ** 2).sum(axis=1))


def mean_demand(trace: Trace) -> Floats:
    """(W, H); negative members are counted as 0 by the rules, so they must not cancel demand."""
    mean, members = trace.mean[:, :, 0], trace.members[..., 0]
    if (members < 0.0).any():
        mean = (trace.weights[:, :, None] * np.maximum(members, 0.0)).sum(axis=1)
    return np.asarray(mean)


def demand_over(trace: Trace, periods: int) -> Floats:
    """(W, J) demand of each member over so many periods; beyond the horizon its last period goes on."""
    steps = min(trace.horizon, periods)
    demand = np.maximum(trace.members[:, :, :steps, 0], 0.0)
    total: Floats = demand.sum(axis=2) + (periods - steps) * demand[:, :, -1]
    return total


def critical(under: Floats, over: Floats) -> Floats:
    """The critical ratio, kept off 0 and 1; a half where nothing costs anything."""
    both = under + over
    ratio = np.divide(under, both, out=np.full(np.shape(both), 0.5), where=both > 0.0)
    return np.asarray(np.minimum(np.maximum(ratio, 0.01), 0.999))


def distinct(grid: Floats) -> tuple[Floats, Floats]:
    """Actions and grid (W, m) of ascending values: of equal ones all but the first are unavailable; NaN at the end
    stands for no further size, where the grid, which must be finite, has the largest again."""
    filled = np.where(np.isnan(grid), np.nanmax(grid, axis=1)[:, None], grid)
    fresh = np.concatenate([np.ones((len(grid), 1), bool), filled[:, 1:] > filled[:, :-1]], axis=1)
    return np.where(fresh, filled, np.nan), filled


def scaled_columns(trace: Trace, steps: Sequence[float], lead: int, arrivals: int, by_level: bool) -> dict[str, Floats]:
    """The columns of params that fit each series, the grid (W, m) among them: forecast plus `steps` of its spread,
    around one period's demand at each of the `arrivals`, or (`by_level`) around the demand of `lead` + 1 periods."""
    demand = np.maximum(trace.members[:, :, : lead + arrivals, 0], 0.0)  # (W, J, L + arrivals)
    total = moments(demand[:, :, : lead + 1].sum(axis=2), trace.weights)
    arrival = moments(demand[:, :, lead], trace.weights)
    parts = []
    for k in range(arrivals):
        covered = demand[:, :, k : k + lead + 1].sum(axis=2)
        centre, spread = moments(covered if by_level else demand[:, :, lead + k], trace.weights)
        parts.append(centre[:, None] + spread[:, None] * np.array(steps))
    grid = np.sort(np.concatenate(parts, axis=1), axis=1)
    if not by_level:
        grid = np.maximum(grid, 0.0)
    return {
        "level_mean": total[0],
        "level_spread": total[1],
        "cap_mean": arrival[0],
        "cap_spread": arrival[1],
        "grid": grid,
    }


def offered_sizes(config: LeadTimeInventory, trace: Trace, params: Any, sizes: Any) -> tuple[Any, Floats | None]:
    """Params and actions (W, m) of the order sizes that [actions] ask for; None: the sizes of the task as they are."""
    if sizes.lots:
        count = len(config.order_sizes) - 1  # `lots`, or more where they cost little
        _, actions, grid = fitted_sizes(config, trace, params, count, sizes.round_to)
        return params._replace(grid=grid), actions
    if sizes.multiples is None:
        if config.has_two_suppliers or not _packed(params):
            return params, None
        grid = np.array(
            np.broadcast_to(np.asarray(params.grid, np.float64), (len(trace.mean), len(config.order_sizes)))
        )
        actions, grid = in_packs(grid, params)
        return params._replace(grid=grid), actions
    covers = _covering(config, trace, params, sizes)  # (W, c)
    columns = config.scaled_columns(trace, (sizes.multiples[0] - 1.0, *sizes.multiples))
    grid = columns["grid"]
    grid[:, 0] = np.minimum(grid[:, 0], 0.0)  # to order nothing is always possible
    if covers.shape[1]:
        grid = np.sort(np.concatenate([grid, covers], axis=1), axis=1)
    step = sizes.round_to
    if step > 0.0:  # whole multiples; what is one already, but for rounding, stays
        grid = rounded_up(grid, step)
    actions, grid = in_packs(grid, params)
    return params._replace(**columns | {"grid": grid}), actions


def fitted_sizes(config: Any, trace: Trace, params: Any, count: int, step: float) -> tuple[Floats, Floats, Floats]:
    """Lattice unit (W,), actions and grid (W, count + 1) of sizes that fit each series. With two suppliers actions are
    (W, m, 2), every size of the regular one with every size of the expedited one, and the grid is the regular one's."""
    if not config.has_two_suppliers:
        fitted = config.lots(trace, params, count, step, fitted=True)
        return (fitted.unit, *distinct(fitted.sizes))
    lots, fast = config.lots_of_pairs(trace, params, step)
    slow, grid = distinct(lots.sizes)
    fast, _ = distinct(fast)
    shape = (len(slow), slow.shape[1], fast.shape[1])
    pairs = np.stack([np.broadcast_to(slow[:, :, None], shape), np.broadcast_to(fast[:, None, :], shape)], axis=-1)
    pairs = np.where(np.isnan(pairs).any(axis=-1, keepdims=True), np.nan, pairs)
    return lots.unit, pairs.reshape(len(slow), -1, 2), grid


def _covering(config: LeadTimeInventory, trace: Trace, p: Any, sizes: Any) -> Floats:
    """(W, c) orders, or levels, that cover some periods of mean demand from an order's arrival on, and the economic
    batch: sizes for fixed costs, which one period's spread does not reach. Past the horizon its mean goes on."""
    mean = np.maximum(trace.mean[:, :, 0], 0.0)
    lead, horizon = config.lead_time, mean.shape[1]
    usual = mean.mean(axis=1)
    covers = []
    for count in sizes.periods:
        within = mean[:, lead : lead + count]
        covers.append(within.sum(axis=1) + (count - within.shape[1]) * usual)
    if sizes.batch:
        ratio = np.divide(p.fixed_cost, p.holding, out=np.zeros(len(mean)), where=np.asarray(p.holding) > 0.0)
        covers.append(np.sqrt(2.0 * ratio * usual))
    out = np.stack(covers, axis=1) if covers else np.zeros((len(mean), 0))
    if config.orders == "level":  # on top of what is needed until an order arrives
        out = out + (mean[:, :lead].sum(axis=1) + max(0, lead - horizon) * usual)[:, None]
    return out


def rounded_up(quantities: Floats, unit: Any) -> Floats:
    """The least multiples of `unit` that are not below; a rounding error above a multiple does not count."""
    return np.asarray(np.ceil(quantities / unit - 1e-9) * unit + 0.0)


def _packed(p: Any) -> bool:
    if type(p.by_level) is type(p.minimum_order) is type(p.case_pack) is float:  # the same for all series
        return p.by_level == 0.0 and p.minimum_order + p.case_pack != 0.0
    return bool((np.asarray(p.by_level) == 0.0).all() and np.any(np.asarray(p.minimum_order) + p.case_pack))


def in_packs(grid: Floats, p: Any) -> tuple[Floats, Floats]:
    """Actions and grid (W, m) of orders as they are placed, at least the minimum and in whole packs, so that an action
    says what it orders; of equal ones all but the first are unavailable. Levels stay: what they order depends on the
    stock."""
    if not _packed(p):
        return distinct(grid)
    least, pack = (np.reshape(np.asarray(x, dtype=np.float64), (-1, 1)) for x in (p.minimum_order, p.case_pack))
    out = np.where(grid > 0.0, np.maximum(grid, least), 0.0)
    size = np.where(pack > 0.0, pack, 1.0)
    return distinct(np.where((pack > 0.0) & (out > 0.0), rounded_up(out, size), out))


def offered_tables(config: LeadTimeInventory, windows: int, actions: Floats | None) -> list[Floats]:
    """(m, 1) sizes, or (m, 2) pairs of sizes, of every window."""
    same_for_all = config.pairs if config.has_two_suppliers else config.order_sizes
    found = [np.asarray(same_for_all if actions is None else actions[w], np.float64) for w in range(windows)]
    tables = [table.reshape(len(table), -1) for table in found]
    return [table[~np.isnan(table).any(axis=1)] for table in tables]


def most_transitions(
    config: LeadTimeInventory, state: Any, table: Floats, unit: float, room: float, depth: int, points: int
) -> float:
    """Every open order is any of the sizes offered, stock any multiple of `unit` up to all that can have arrived, an
    age of stock any part of one order."""
    largest = float(table.sum(axis=1).max())
    sizes = math.prod(len(np.unique(column)) for column in table.T)
    ages = 1.0 + largest / unit
    drawn = len(draws(config.lead_shares)[0]) if config.lead_times else 1
    places = max(0, config.places - config.is_merged)
    share = sum(config.calendar.open) / len(config.calendar.open)
    total = 0.0
    for h in range(depth):
        orders = min(math.ceil(h * share), places)
        levels = 1.0 + min(max(rules.position_of(state), 0.0) + h * largest * share, room) / unit
        if config.unmet == "backordered":
            levels += h * points
        if config.ages:
            levels = min(levels, ages) ** min(config.ages, h + 1)
        if config.ramp is not None:
            levels *= len(table)
        open_days = share if config.has_calendar else 1.0
        total += sizes**orders * levels * (1.0 + (len(table) - 1) * open_days) * points * drawn
    return total
