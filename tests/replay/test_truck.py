"""Trucks: wishes and fills against enumeration and by hand, limits in a walk, opponents as entries."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.policies import Exact, Run
from ucsearch.replay.panel import Panel, Stretch
from ucsearch.replay.truck import (
    Items,
    Trucks,
    TruckValues,
    by_days_of_cover,
    by_expected_loss,
    by_gain,
    in_proportion,
    newsvendor,
    order_up_to,
    reorder_point,
    truck_rules,
)
from ucsearch.replay.walk import Seen, walk
from ucsearch.tasks import LeadTimeInventory
from ucsearch.trace import Trace

Floats = NDArray[np.float64]
FILLS = (in_proportion, by_days_of_cover, by_expected_loss, by_gain)


def some_items(seed: int, count: int = 3, paths: int = 6, pack: float | None = None) -> Items:
    rng = np.random.default_rng(seed)
    totals = np.sort(rng.integers(0, 12, (count, paths)).astype(float), axis=1)
    packs = rng.choice([1.0, 2.0, 3.0], count) if pack is None else np.full(count, pack)
    return Items(
        position=rng.integers(0, 5, count).astype(float), totals=totals,
        reached=np.broadcast_to(np.arange(1, paths + 1) / paths, totals.shape), mean=totals.mean(axis=1) / 2.0,
        under=rng.uniform(2.0, 20.0, count), holding=rng.uniform(0.5, 2.0, count),
        fixed_cost=rng.uniform(0.0, 9.0, count),
        pack=packs, room=np.floor(30.0 / packs) * packs, litres=rng.choice([1.0, 2.0, 5.0], count),
    )  # fmt: skip


def expected_cost(items: Items, order: Floats) -> float:
    """By enumeration of the sample paths."""
    total = 0.0
    for i in range(len(order)):
        stock = items.position[i] + order[i]
        for demand in items.totals[i].tolist():
            short, left = max(demand - stock, 0.0), max(stock - demand, 0.0)
            total += (items.under[i] * short + items.holding[i] * left) / items.totals.shape[1]
    return total


def test_wishes_by_hand() -> None:
    items = Items(
        position=np.array([4.0, 9.0]), totals=np.array([[2.0, 4.0, 6.0, 8.0], [2.0, 4.0, 6.0, 8.0]]),
        reached=np.array([[0.25, 0.5, 0.75, 1.0]] * 2), mean=np.array([2.5, 2.5]), under=np.array([9.0, 9.0]),
        holding=np.array([1.0, 1.0]), fixed_cost=np.array([5.0, 5.0]), pack=np.array([3.0, 3.0]),
        room=np.array([30.0, 30.0]), litres=np.array([1.0, 1.0]),
    )  # fmt: skip
    assert items.fractile(0.5).tolist() == [4.0, 4.0]
    assert items.ratio(1.0).tolist() == [0.9, 0.9]
    assert order_up_to(items, 0.75).tolist() == [3.0, 0.0]  # 2 short of 6: one pack of 3
    assert items.economic_quantity.tolist() == [5.0, 5.0]
    assert reorder_point(items, 0.5, 1.0).tolist() == [6.0, 0.0]  # up to 4 + 5 = 9 from 4: two packs
    assert items.shortage_cost(items.position).tolist() == [9.0 * (2.0 + 4.0) / 4.0, 0.0]


@pytest.mark.parametrize("seed", range(40))
def test_a_newsvendor_stops_where_a_pack_more_costs_money(seed: int) -> None:
    items = some_items(seed, count=1)
    best = min((expected_cost(items, np.array([k * items.pack[0]])), k) for k in range(20))[0]
    assert math.isclose(expected_cost(items, by_gain(items, newsvendor_wish(items), 1e9)), best, rel_tol=1e-12)


def newsvendor_wish(items: Items) -> Floats:
    return items.in_packs(np.full(len(items.position), 25.0))


@pytest.mark.parametrize("seed", range(40))
def test_pack_by_pack_is_best_where_packs_take_the_same_volume(seed: int) -> None:
    """With equal volumes the greedy order is the optimum of a separable concave problem."""
    items = some_items(seed, pack=1.0)
    items = Items(**{**vars(items), "litres": np.ones(3)})
    limit = 6.0
    wish = newsvendor(items, 4.0)
    chosen = by_gain(items, wish, limit)
    assert (chosen <= wish).all()
    tables = [np.arange(w + 1.0).tolist() for w in wish.tolist()]
    best = min(expected_cost(items, np.array(each)) for each in itertools.product(*tables) if sum(each) <= limit)
    assert math.isclose(expected_cost(items, chosen), best, rel_tol=1e-12)


@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize("seed", range(15))
def test_fills_keep_the_limit_the_wishes_and_the_packs(fill: object, seed: int) -> None:
    items = some_items(seed, count=8)
    wish = order_up_to(items, 0.97) + items.pack
    needed = float((wish * items.litres).sum())
    for share in (0.0, 0.31, 0.77, 0.999):
        order = fill(items, wish, share * needed)  # type: ignore[operator]
        assert float((order * items.litres).sum()) <= share * needed * (1.0 + 1e-9) + 1e-12
        assert (order >= 0.0).all()
        assert (order <= wish + 1e-9).all()
        packs = order / items.pack
        assert np.allclose(packs, np.round(packs))


def test_fair_share_lifts_everybody_to_the_same_cover() -> None:
    items = some_items(3, count=6, pack=0.001)
    wish = items.in_packs(np.full(6, 20.0))
    order = by_days_of_cover(items, wish, 40.0)
    cover = (items.position + order) / items.mean
    filled = order > 0.0
    assert filled.sum() >= 2
    assert np.ptp(cover[filled]) < 0.01
    assert (cover[~filled] >= cover[filled].max() - 0.01).all()


def test_filling_by_loss_serves_the_dearest_shortage_first() -> None:
    items = some_items(5, count=2, pack=1.0)
    dear = Items(**{**vars(items), "under": np.array([100.0, 0.1]), "litres": np.ones(2), "position": np.zeros(2),
                    "totals": np.full((2, 6), 5.0)})  # fmt: skip
    assert by_expected_loss(dear, np.array([5.0, 5.0]), 7.0).tolist() == [5.0, 2.0]
    assert in_proportion(dear, np.array([5.0, 5.0]), 7.0).tolist() == [3.0, 3.0]


# -------------------------------------------------------------------- in a walk


def truck_panel(count: int = 6, days: int = 5) -> Panel:
    rng = np.random.default_rng(11)
    config = LeadTimeInventory(
        lead_time=1, order_sizes=(0.0, 2.0, 4.0, 6.0, 8.0), shortage=9.0, fixed_cost=2.0, merge_arrivals=True
    )
    task = config.task()
    layout = task.layout(config.state(3.0))
    starts = np.array([layout.flatten(config.state(float(rng.integers(0, 5)), [2.0]), "state") for _ in range(count)])
    members = rng.poisson(3.0, (count, days, 12, 5)).astype(float)
    realised = rng.poisson(3.0, (count, days)).astype(float)
    stretches = tuple(Stretch("test", f"item {n}", 0, 0, days, 1, realised[n], 1.0) for n in range(count))
    return Panel(
        task, config, layout, starts, stretches, members, realised, np.zeros((count, days, 5)),
        tuple(np.full(20, 3.0) for _ in range(count)), "poisson",
    )  # fmt: skip


def trucks_of(count: int, days: int | None = None) -> Trucks:
    limits = np.array([14.0, 30.0])
    limits = limits if days is None else np.linspace(0.5, 1.5, days)[:, None] * limits
    return Trucks(np.arange(count) % 2, np.array([1.0, 2.0, 3.0] * 4)[:count], limits)


def law(seen: Seen) -> Trace:
    return seen.trace.on_lattice(1.0, 5)


def used_by_day(panel: Panel, trucks: Trucks, actions: Floats) -> Floats:
    return np.array([trucks.used(actions[:, t]) for t in range(panel.decisions)])


@pytest.mark.parametrize("days", [None, 5])
def test_every_opponent_keeps_the_limits_and_the_rules(days: int | None) -> None:
    panel = truck_panel()
    trucks = trucks_of(6, days)
    for entry in truck_rules(panel, trucks):
        for setting in list(entry.settings())[:3]:
            done = walk(panel, entry.make(**setting), engine="python")
            assert done.violations.sum() == 0, entry.name
            assert done.fallbacks.sum() == 0, entry.name
            used = used_by_day(panel, trucks, done.actions)
            assert (used <= np.array([trucks.limit(t) for t in range(5)]) * (1.0 + 1e-9)).all(), entry.name
            assert done.actions.sum() > 0.0, entry.name


@pytest.mark.parametrize("fill", ["price", "greedy"])
def test_proved_values_keep_the_limits(fill: str) -> None:
    panel, trucks = truck_panel(), trucks_of(6)
    chooser = TruckValues(
        panel, trucks, Exact(depth=3, mode="closed"), law, fill=fill, how=Run(engine="python", threads=1)  # type: ignore[arg-type]
    )  # fmt: skip
    done = walk(panel, chooser, engine="python")
    assert done.violations.sum() == 0
    assert (used_by_day(panel, trucks, done.actions) <= trucks.limits * (1.0 + 1e-9)).all()
    assert bool(chooser.gaps) == (fill == "price")
    if fill == "price":
        assert max(chooser.gaps) <= 0.01


def test_bad_trucks_are_refused() -> None:
    with pytest.raises(InputError, match="litres"):
        Trucks(np.array([0]), np.array([np.nan]), np.array([1.0]))
    with pytest.raises(InputError, match="limits"):
        Trucks(np.array([0]), np.array([1.0]), np.array([-1.0]))
    with pytest.raises(InputError, match="group"):
        Trucks(np.array([1]), np.array([1.0]), np.array([1.0]))
    with pytest.raises(InputError, match="one for each"):
        Trucks(np.array([0, 0]), np.array([1.0]), np.array([1.0]))
