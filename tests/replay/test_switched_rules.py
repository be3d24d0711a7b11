"""Rules of thumb for order days, shelf life and two suppliers, against figures worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.replay.test_practice import panel_of
from ucsearch.replay.roster import general_ordering_rules
from ucsearch.replay.walk import walk
from ucsearch.tasks import LeadTimeInventory

SIZES = tuple(float(x) for x in range(31))
MONDAY = "2024-05-20"
STEADY = np.full((1, 14), 2.0)
SPREAD = np.array([[1.0] * 14, [3.0] * 14])


def ordered(config: LeadTimeInventory, states: list[Any], members: Any, name: str, **knobs: Any) -> list[Any]:
    panel = panel_of(config, states, members, np.zeros((len(states), 1, 2)) if config.drawn else None)
    rule = {e.name: e for e in general_ordering_rules(panel, free=False, round_to=0.0)}[name].make(**knobs)
    return [config.task().action_of(a) for a in walk(panel, rule, engine="python").actions[:, 0].tolist()]


def calendar(first_day: str, **more: Any) -> LeadTimeInventory:
    return LeadTimeInventory(
        lead_time=1, order_sizes=SIZES, order_days=["monday"], delivery_days=["tuesday"], calendar_period="day",
        first_day=first_day, **more,
    )  # fmt: skip


def test_up_to_a_level_that_lasts_until_the_order_after_this_one_arrives() -> None:
    """Monday's order arrives on Tuesday, the next one eight days from now: at two a day 16 are needed."""
    shop = calendar(MONDAY)
    assert ordered(shop, [shop.state(3.0), shop.state(20.0)], STEADY, "(R,S)") == [13.0, 0.0]
    assert ordered(shop, [shop.state(3.0)], SPREAD, "(R,S)", ratio=0.4) == [5.0]  # 8 of the lower member
    assert ordered(shop, [shop.state(3.0)], SPREAD, "(R,S)", ratio=0.6) == [21.0]
    tuesday = calendar("2024-05-21")
    assert ordered(tuesday, [tuesday.state(0.0)], STEADY, "(R,S)") == [0.0]


def test_a_batch_at_or_below_the_level_on_order_days() -> None:
    """sqrt(2 * 4 * 2 / 1) = 4 above the level of 16."""
    shop = calendar(MONDAY, fixed_cost=4.0)
    states = [shop.state(x) for x in (15.0, 16.0, 17.0)]
    assert ordered(shop, states, STEADY, "(R,s,S)") == [5.0, 4.0, 0.0]
    assert ordered(shop, states, STEADY, "(R,s,S)", eoq=2.0) == [9.0, 8.0, 0.0]
    tuesday = calendar("2024-05-21", fixed_cost=4.0)
    assert ordered(tuesday, [tuesday.state(0.0)], STEADY, "(R,s,S)") == [0.0]


def test_what_will_be_discarded_is_ordered_again() -> None:
    """Two periods until tomorrow's order arrives. Of 5 units in their last period 2 are sold and 3 discarded; of 5 that
    keep one period longer none is."""
    shop = LeadTimeInventory(lead_time=1, order_sizes=SIZES, shelf_life=2)
    aged = LeadTimeInventory(lead_time=1, order_sizes=SIZES, shelf_life=3)
    level = 4.0
    assert ordered(shop, [shop.state(1.0, ages=[1.0])], STEADY, "EWA base-stock") == [level - 1.0]
    old, fresh = shop.state(3.0, ages=[3.0]), aged.state(3.0, ages=[0.0, 3.0])
    assert ordered(shop, [old], STEADY, "(R,S)") == [level - 3.0]
    assert ordered(shop, [old], STEADY, "EWA base-stock") == [level - 3.0 + 1.0]
    assert ordered(aged, [fresh], STEADY, "EWA base-stock") == [level - 3.0]


UNSURE = LeadTimeInventory(lead_times={2: 0.7, 3: 0.3}, order_sizes=SIZES)  # 2.3 periods on average, variance 0.21


def test_a_safety_stock_for_a_lead_time_that_varies() -> None:
    """3.3 periods are covered. At two a day 6.6, and at a normal quantile of 1.96 another 1.96 * sqrt(4 * 0.21) = 1.8;
    with a variance of 1 a day 1.96 * sqrt(3.3 + 0.84) = 4.0."""
    empty, full = UNSURE.state(0.0), UNSURE.state(1.0, [2.0])
    assert ordered(UNSURE, [empty], STEADY, "safety stock", ratio=0.5) == [7.0]
    assert ordered(UNSURE, [empty, full], STEADY, "safety stock", ratio=0.975) == [8.0, 5.0]
    assert ordered(UNSURE, [empty], SPREAD, "safety stock", ratio=0.975) == [11.0]
    certain = LeadTimeInventory(lead_time=2, order_sizes=SIZES, shelf_life=3)
    panel = panel_of(certain, [certain.state(0.0)], STEADY)
    assert "safety stock" not in {e.name for e in general_ordering_rules(panel, free=False, round_to=0.0)}


def test_waste_is_expected_at_the_mean_lead_time() -> None:
    """The next order arrives in four periods at the latest. Of 5 units in their last period 3 are discarded."""
    shop = LeadTimeInventory(lead_times={2: 0.7, 3: 0.3}, order_sizes=SIZES, shelf_life=3)
    level = 2.0 * 4
    assert ordered(shop, [shop.state(5.0, ages=[5.0, 0.0])], STEADY, "EWA base-stock") == [level - 5.0 + 3.0]
    # What was ordered two periods ago arrives now: 12 units, of which two a day are sold in the three days they keep.
    assert ordered(shop, [shop.state(0.0, [0.0, 12.0])], STEADY, "EWA base-stock") == [level - 12.0 + 6.0]


TWO = LeadTimeInventory(lead_time=3, order_sizes=SIZES[:10], expedited_lead_time=1, expedited_sizes=SIZES[:10])


def test_expedite_up_to_one_level_then_order_up_to_another() -> None:
    """An expedited order lasts two periods, a regular one four. 1 is there, 2 arrive now, 3 in two periods: 4 - 3 are
    expedited, and 8 - 6 less that one are ordered."""
    state = TWO.state(1.0, [2.0, 0.0, 3.0])
    assert ordered(TWO, [state], STEADY, "dual-index") == [(1.0, 1.0)]
    assert ordered(TWO, [state], SPREAD, "dual-index", ratio=0.4, fast=0.6) == [(0.0, 3.0)]
    late = TWO.state(1.0, [2.0, 4.0, 0.0])  # four arrive as early as an expedited order
    assert ordered(TWO, [late], STEADY, "dual-index") == [(1.0, 0.0)]


def test_a_constant_order_and_what_is_missing() -> None:
    state = TWO.state(1.0, [2.0, 0.0, 3.0])
    assert ordered(TWO, [state], STEADY, "tailored base-surge", share=0.5) == [(1.0, 1.0)]
    assert ordered(TWO, [state], STEADY, "tailored base-surge", share=1.0) == [(2.0, 1.0)]
    assert ordered(TWO, [state], SPREAD, "tailored base-surge", share=1.0, ratio=0.6) == [(2.0, 3.0)]


def test_both_orders_wait_for_an_order_day() -> None:
    """Regular and expedited orders of Monday arrive on Thursday and Tuesday; next Monday's expedited one in eight days:
    two a day of which 1 is there, 15 are missing and 9 can be had."""
    week = {"order_days": ["monday"], "delivery_days": ["tuesday", "thursday"], "calendar_period": "day"}
    options = dict(lead_time=3, order_sizes=SIZES[:10], expedited_lead_time=1, expedited_sizes=SIZES[:10], **week)
    shop = LeadTimeInventory(first_day=MONDAY, **options)
    assert ordered(shop, [shop.state(1.0)], STEADY, "dual-index") == [
        (4.0, 9.0)
    ]  # 20 until Thursday week, less 1 and 15
    tuesday = LeadTimeInventory(first_day="2024-05-21", **options)
    for name in ("dual-index", "tailored base-surge"):
        assert ordered(tuesday, [tuesday.state(1.0)], STEADY, name) == [(0.0, 0.0)]


@pytest.mark.parametrize("packs", [(0.0, 4.0), (3.0, 0.0)])
def test_packs_make_it_the_nearest_pair_of_what_is_placed(packs: tuple[float, float]) -> None:
    shop = LeadTimeInventory(
        lead_time=3, order_sizes=SIZES[:10], case_pack=packs[0], expedited_lead_time=1, expedited_sizes=SIZES[:10],
        expedited_case_pack=packs[1],
    )  # fmt: skip
    (action,) = ordered(shop, [shop.state(1.0, [2.0, 0.0, 3.0])], STEADY, "dual-index")
    placed = [one.units for one in shop.purchases(shop.state(1.0), action, shop.params())]
    assert placed == ([1.0, 0.0] if packs[1] else [0.0, 1.0])  # 1 is nearer to 0 than to a pack
