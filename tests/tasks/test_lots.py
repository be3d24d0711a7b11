"""Order sizes and lattices that fit an item: on whole packs, exact in binary, as far as two batches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ucsearch.tasks import LeadTimeInventory
from ucsearch.tasks.inventory.sizes import lots
from ucsearch.trace import Trace


@given(
    usual=st.floats(1e-6, 1e9),
    pack=st.sampled_from([0.0, 1.0, 6.0, 12.0, 0.75, 144.0]),
    step=st.sampled_from([0.0, 1.0]),
    ratio=st.floats(0.0, 1e4),
    lead=st.integers(0, 4),
    least=st.sampled_from([0.0, 5.0]),
)
def test_sizes_are_multiples_and_reach_far_enough(
    usual: float, pack: float, step: float, ratio: float, lead: int, least: float
) -> None:
    if pack % 1.0 and step:
        return  # packs of a part of a piece
    p = LeadTimeInventory(fixed_cost=ratio, holding=1.0, case_pack=pack, minimum_order=least).params()
    found = lots(np.full((1, 3), usual), lead, p, 8, step)
    unit, sizes = float(found.unit[0]), found.sizes[0]
    sizes = sizes[~np.isnan(sizes)]
    quantum = pack or step
    assert sizes[0] == 0.0
    assert (np.diff(sizes) > 0.0).all()
    for size in sizes[1:].tolist():
        assert size / unit == pytest.approx(round(size / unit), rel=1e-12)
        assert not quantum or size / quantum == pytest.approx(round(size / quantum), rel=1e-12)
        assert size >= least * (1.0 - 1e-9)
    wanted = max(2.0 * np.sqrt(2.0 * ratio * usual), (lead + 2) * usual)
    assert sizes[-1] >= wanted * (1.0 - 1e-9)
    assert not step or unit >= step


def test_limits_of_the_rules_end_the_sizes() -> None:
    p = LeadTimeInventory(capacity=20.0, largest_order=14.0).params()
    found = lots(np.full((1, 4), 10.0), 2, p, 8, 1.0)
    assert np.nanmax(found.sizes) == 14.0


def test_an_item_nobody_expects_anything_of_has_a_lattice_too() -> None:
    found = lots(np.zeros((1, 4)), 1, LeadTimeInventory().params(), 8, 0.0)
    assert np.isfinite(found.unit).all()
    assert found.sizes[0, 0] == 0.0


def test_negative_members_do_not_cancel_demand() -> None:
    config = LeadTimeInventory(order_sizes=(0.0, 1.0, 2.0))
    trace = Trace.from_members(np.array([[[-8.0] * 4, [8.0] * 4]]))
    assert config.lots(trace, config.params(), 2).unit.tolist() == [0.5]  # a mean demand of 4, not of 0


@given(
    usual=st.floats(1e-3, 1e6),
    noise=st.sampled_from([0.0, 1e-4, 0.01, 0.3]),
    pack=st.sampled_from([0.0, 1.0, 6.0, 144.0]),
    step=st.sampled_from([0.0, 1.0]),
    ratio=st.sampled_from([0.0, 3.0, 1e4]),
    lead=st.integers(0, 4),
    least=st.sampled_from([0.0, 5.0]),
    count=st.integers(1, 20),
)
def test_sizes_for_steady_demand_are_multiples_within_the_limits(
    usual: float, noise: float, pack: float, step: float, ratio: float, lead: int, least: float, count: int
) -> None:
    p = LeadTimeInventory(fixed_cost=ratio, holding=1.0, case_pack=pack, minimum_order=least).params()
    spread = np.array([noise * usual])
    found = lots(np.full((1, 9), usual), lead, p, count, step, spread=spread)
    even = lots(np.full((1, 9), usual), lead, p, count, step)
    unit, sizes = float(found.unit[0]), found.sizes[0]
    sizes = sizes[~np.isnan(sizes)]
    quantum = pack or step
    assert unit <= even.unit[0]
    assert sizes[0] == 0.0
    assert sizes.size <= count + 1
    assert sizes[-1] <= np.nanmax(even.sizes)
    for size in sizes[1:].tolist():
        assert size / unit == pytest.approx(round(size / unit), rel=1e-12)
        assert not quantum or size / quantum == pytest.approx(round(size / quantum), rel=1e-12)
        assert size >= least * (1.0 - 1e-9)
    assert not step or unit >= step


def test_demand_that_is_known_to_a_percent_gets_sizes_that_fit_it() -> None:
    mean, p = np.array([[100.0, 90.0, 110.0, 100.0]] * 2), LeadTimeInventory().params()
    found = lots(mean, 1, p, 8, 1.0, spread=np.array([1.5, 60.0]))
    assert found.unit.tolist() == [1.0, 16.0]
    # 90 is what arrival's day needs; with 50 and 75 what is left over is used up within two days, not in steps of 4.
    assert found.sizes[0].tolist() == [0.0, 50.0, 75.0, 86.0, 89.0, 90.0, 91.0, 94.0, 200.0]
    assert found.sizes[1].tolist() == lots(mean[1:], 1, p, 8, 1.0).sizes[0].tolist()  # others stay
    packs = lots(mean, 1, LeadTimeInventory(case_pack=144.0).params(), 8, 1.0, spread=np.array([1.5, 1.5]))
    assert packs.sizes[0, :3].tolist() == [0.0, 144.0, 288.0]  # nothing is finer than a pack


def test_a_planner_of_steady_demand_orders_what_is_needed() -> None:
    rng = np.random.default_rng(3)
    trace = Trace.from_members(np.round(100.0 + rng.standard_normal((1, 30, 8))))
    config = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 1.0))
    assert np.isin([99.0, 100.0, 101.0], config.lots(trace, config.params(), 8, 1.0, fitted=True).sizes[0]).all()
    assert not np.isin([99.0, 100.0, 101.0], config.lots(trace, config.params(), 8, 1.0).sizes[0]).any()


def test_what_is_left_over_of_steady_demand_is_used_up_soon() -> None:
    """Three quarters of a day too much: it took thirty days in steps of two spreads, at the price of holding it."""
    rng = np.random.default_rng(4)
    trace = Trace.from_members(np.round(1000.0 + 5.0 * rng.standard_normal((1, 30, 6))))
    config = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 1.0), holding=0.1, shortage=2.0)
    sizes = config.lots(trace, config.params(), 8, 1.0, fitted=True).sizes[0]
    stock, days = 1750.0, 0
    while stock - 1000.0 > 50.0:
        wanted = 1000.0 - (stock - 1000.0)  # what arrives tomorrow must do for that day
        stock += float(sizes[sizes >= wanted - 1.0].min()) - 1000.0
        days += 1
    assert days <= 3


def test_four_sizes_stay_even_where_eight_would() -> None:
    """Four around a need leave nothing for the rest: 80 pieces, a planner's best order, was none of them."""
    mean, p = np.full((1, 4), 90.0), LeadTimeInventory().params()
    spread = np.array([20.0])
    assert lots(mean, 1, p, 4, 1.0, spread=spread).sizes.tolist() == lots(mean, 1, p, 4, 1.0).sizes.tolist()
    assert lots(mean, 1, p, 4, 1.0, spread=spread / 20.0).sizes.tolist() != lots(mean, 1, p, 4, 1.0).sizes.tolist()


def test_what_does_not_keep_is_offered_in_sizes_for_a_peak():
    """Lumpy demand, 10 a period on average but up to 50: five means are less than what two days can ask for."""
    shop = LeadTimeInventory(lead_time=0, shelf_life=2, order_sizes=range(9), order_days=["monday", "thursday"],
                             calendar_period="day", first_day="2024-05-20")  # fmt: skip
    trace = Trace.from_members(np.random.default_rng(1).choice([0.0, 50.0], (200, 10), p=[0.8, 0.2]))
    assert shop.lots(trace, shop.params(), 8, 1.0).sizes.max() >= 100.0
    steady = Trace.from_members(np.random.default_rng(1).poisson(10.0, (200, 10)).astype(float))
    assert shop.lots(steady, shop.params(), 8, 1.0).sizes.max() <= 32.0


def test_two_suppliers_of_what_does_not_keep_are_offered_sizes_for_a_peak():
    shop = LeadTimeInventory(lead_time=1, shelf_life=1, expedited_lead_time=0, order_sizes=range(5),
                             expedited_sizes=range(3))  # fmt: skip
    trace = Trace.from_members(np.random.default_rng(1).choice([0.0, 50.0], (200, 10), p=[0.8, 0.2]))
    regular, expedited = shop.lots_of_pairs(trace, shop.params(), 1.0)
    assert regular.sizes.max() >= 50.0
    assert expedited.max() >= 50.0
