"""Uncertain lead times: the law and what is drawn for it, orders by age, words, replays with draws."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.records.record import decision_record
from ucsearch.tasks import LeadTimeInventory
from ucsearch.tasks.inventory import uncertain_rules
from ucsearch.tasks.inventory.lead_times import arrivals, draws, lead_time_shares
from ucsearch.verify import verify_record

TABLE = {2: 0.7, 3: 0.3}


def inventory(**more):
    more = {"lead_time": TABLE, "order_sizes": (0.0, 1.0, 2.0, 3.0), "holding": 1.0, "shortage": 9.0} | more
    return LeadTimeInventory(**more)


def demand_trace(steps=5):
    return uc.Trace.from_members(np.array([[0.0] * steps, [2.0] * steps, [3.0] * steps])).declare("independent")


def test_hazards_that_fall_are_refused_with_the_nearest_table_that_is_possible():
    with pytest.raises(uc.InputError, match=r"orders cross at 2.*\{1 = 0.4, 2 = 0.24, 3 = 0.36\}"):
        inventory(lead_time={1: 0.5, 2: 0.1, 3: 0.4})
    inventory(lead_time={1: 0.4, 2: 0.24, 3: 0.36})


@pytest.mark.parametrize("seed", range(40))
def test_every_table_that_is_proposed_is_possible(seed):
    rng = np.random.default_rng(seed)
    leads = rng.choice(8, int(rng.integers(2, 6)), replace=False)
    shares = dict(zip(map(int, leads), rng.dirichlet(np.ones(len(leads))).tolist(), strict=True))
    try:
        lead_time_shares("lead_time", shares)
    except uc.InputError as error:
        told = str(error).partition("nearest such table is {")[2].partition("}")[0]
        table = {int(a): float(b) for a, b in (part.split(" = ") for part in told.split(", "))}
        lead_time_shares("lead_time", table)


def test_draws_give_the_law_of_the_lead_time():
    shares = ((1, 0.2), (2, 0.3), (3, 0.5))
    values, chances = draws(shares)
    assert values == (1.0, 2.0, 3.0)
    law, left = {}, 1.0
    for lead in (1, 2, 3):
        hazard = math.fsum(p for x, p in zip(values, chances, strict=True) if x <= lead)
        law[lead], left = left * hazard, left * (1.0 - hazard)
    assert law == pytest.approx(dict(shares))
    assert dict(arrivals(shares, (1.0,), 0)) == pytest.approx(dict(shares))


def test_nothing_arrives_off_delivery_days_and_the_resulting_lead_times_are_told():
    config = inventory(delivery_days=("mon", "thu"), calendar_period="day", first_day="2024-05-20")
    found = dict(arrivals(config.lead_shares, config.calendar.due, config.clock))
    assert found == pytest.approx({3: 1.0})  # Monday's order: Wednesday has no delivery, on Thursday it is 3 days old
    later = dict(arrivals(config.lead_shares, config.calendar.due, 1))
    assert later == pytest.approx({2: 0.7, 6: 0.3})  # Tuesday's
    config = inventory(delivery_days=("mon", "thu"), calendar_period="day", first_day="2024-05-21")
    text = config.situation(config.state(1.0, [2.0]), config.params(), "pieces", "")
    assert "2 ordered one period ago (arrives in 2 periods)" in text
    assert text.endswith("An order arrives in 2 periods (70 %), in 6 periods (30 %)")


def test_orders_never_cross():
    config, rng = inventory(lead_time={0: 0.2, 1: 0.3, 2: 0.5}), np.random.default_rng(3)
    p, s = config.params(), config.state(0.0)
    ages, chances = draws(config.lead_shares)
    for _ in range(200):
        draw = float(rng.choice(ages, p=chances))
        orders = uncertain_rules.by_age(s, 1.0)
        waiting = uncertain_rules.waiting_of(orders, draw, s, p)
        came = [age for age, units in enumerate(orders) if units and age >= draw]
        assert all(age < min(came, default=9) for age, units in enumerate(orders) if units and age not in came)
        assert sum(waiting) + uncertain_rules.arriving_of(orders, draw, s, p) == sum(orders)
        s = config.task().step(s, 1.0, uncertain_rules.Outcome(0.0, draw), p)


def test_a_table_with_one_lead_time_is_a_certain_one():
    config = LeadTimeInventory(lead_time={3: 1.0}, merge_arrivals=False)
    assert (config.lead_time, config.lead_times, config.is_general) == (3, (), False)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"lead_time": {2: 0.7, 3: 0.2}}, "add up to 0.9"),
        ({"lead_time": {2: 0.7, 13: 0.3}}, "from 0 to 12"),
        ({"lead_time": {2: 0.7, "two": 0.3}}, "from 0 to 12"),
        ({"lead_time": {2: 1.7, 3: -0.7}}, "from 0 to 1"),
        ({"expedited_lead_time": 1}, "leave out lead_times or the second supplier"),
        ({"stability_cost": 1.0}, "stability_cost"),
        ({"price_breaks": {10: 2.0}}, "less than 0, the unit cost of smaller orders"),
        ({"unit_cost": 3.0, "price_breaks": {10: 2.0, 20: 2.5}}, "less than 2"),
        ({"unit_cost": 3.0, "price_breaks": {0: 2.0}}, "above 0"),
        ({"unit_cost": 3.0, "price_breaks": {10: 2.0}, "salvage": 2.5}, "the lowest of price_breaks, 2"),
        ({"discount": "incremental"}, "price_breaks"),
    ],
)
def test_what_does_not_go_together_names_the_switch(more, message):
    with pytest.raises(uc.InputError, match=message):
        inventory(**more)


def test_fixed_plans_are_refused():
    with pytest.raises(uc.InputError, match=r"'closed', because task\.lead_time is uncertain"):
        inventory().check_plan(uc.Exact(depth=5, mode="members"), None)


def decided(engine="python"):
    config = inventory()
    return config, uc.decide(
        config.task(), config.state(2.0, [1.0, 0.0, 2.0]), config.with_draws(demand_trace()),
        uc.Exact(depth=5, mode="closed"), run=uc.Run(engine=engine), proof=uc.Proof(node_budget=10**6),
    )  # fmt: skip


def test_a_law_with_draws_is_every_point_with_every_value():
    law = demand_trace(2).with_draws([2.0, 3.0], [0.7, 0.3]).law()
    assert law.points[1] == [(0.0, 2.0), (0.0, 3.0), (2.0, 2.0), (2.0, 3.0), (3.0, 2.0), (3.0, 3.0)]
    assert law.weights[1] == pytest.approx([0.7 / 3, 0.3 / 3] * 3)
    lattice = demand_trace(2).on_lattice(1.0, 3)
    assert [w for _, w in zip(lattice.law().points[0], lattice.law().weights[0], strict=True)] == pytest.approx(
        [1 / 3] * 3
    )


@pytest.mark.parametrize("what", [[2.0, 2.0], [3.0, 2.0], [2.0, math.nan]])
def test_draws_that_are_no_law_are_refused(what):
    with pytest.raises(uc.InputError, match="ascending values"):
        demand_trace().with_draws(what, [0.7, 0.3])
    with pytest.raises(uc.InputError, match="in sum 1"):
        demand_trace().with_draws([2.0, 3.0], [0.7, 0.2])


def test_draws_go_through_files_and_hashes(tmp_path):
    trace = demand_trace().with_draws([2.0, 3.0], [0.7, 0.3])
    trace.save(tmp_path / "t.npz")
    again = uc.Trace.load(tmp_path / "t.npz")
    assert again.declared == trace.declared
    assert again.hash == trace.hash
    assert trace.hash != demand_trace().with_draws([2.0, 3.0], [0.6, 0.4]).hash


def test_a_record_verifies_and_forged_draws_do_not():
    config, decision = decided()
    record, blobs = decision_record(decision)
    assert verify_record(record, blobs, config.task()).status == "valid"
    for forged in ([["0x1p+1", "0x1p-1"]], [["0x1p+1", "0x1p-1"], ["0x1p+1", "0x1p-1"]], [["two", "one"]], "no"):
        other = json.loads(json.dumps(record))
        other["inputs"]["trace"]["meta"]["law"]["draws"] = forged
        assert verify_record(other, blobs, config.task()).status != "valid"


def test_an_order_arrives_between_two_days():
    config = inventory()
    (one,) = config.purchases(config.state(0.0), 2.0, config.params())
    assert (one.units, one.periods, one.latest) == (2.0, 2, 3)


def test_draws_of_a_replay_follow_from_the_seed():
    config = inventory()
    first, again, other = (config.with_drawn(np.arange(50.0), np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first.shape == (50, 2)
    assert (first == again).all()
    assert (first != other).any()
    assert set(first[:, 1]) == {2.0, 3.0}
