"""The whole lost-sales table: every published optimum, and what must hold between the columns."""

from __future__ import annotations

from itertools import pairwise

import pytest

from studies.lost_sales_table import Row, lost_sales_table
from ucsearch.replay.classics import LostSales, poisson, solve, zipkin_instances

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def table() -> tuple[Row, ...]:
    return lost_sales_table(zipkin_instances())


def test_all_published_optima_to_a_hundredth(table: tuple[Row, ...]) -> None:
    known = [row for row in table if row.instance.published is not None]
    assert len(known) == 20
    for row in known:
        assert row.optimum.upper - row.optimum.lower <= 1e-9
        assert round(row.optimum.value, 2) == row.instance.published, row.instance.name


def test_no_classic_beats_the_optimum_and_families_are_nested(table: tuple[Row, ...]) -> None:
    assert len(table) == 32
    for row in table:
        cost = {entry.policy: entry.cost for entry in row.classics}
        assert all(c.upper >= row.optimum.lower for c in cost.values()), row.instance.name
        # Base-stock is a capped base-stock policy and an (s, S) policy.
        assert cost["capped base-stock"].lower <= cost["base-stock"].upper
        assert cost["(s, S)"].lower <= cost["base-stock"].upper
        assert cost["myopic-2"].value <= cost["myopic-1"].value


def test_costs_rise_with_lead_time_and_constant_order_does_not_see_it(table: tuple[Row, ...]) -> None:
    for shorter, longer in pairwise(table):
        if longer.instance.lead_time == 1:
            continue
        assert longer.optimum.lower > shorter.optimum.upper
        constants = [
            entry.cost for row in (shorter, longer) for entry in row.classics if entry.policy == "constant order"
        ]
        assert constants[0] == constants[1]


@pytest.mark.parametrize("penalty", [4.0, 39.0])
def test_morton_levels_lose_nothing_far_beyond_them(penalty: float) -> None:
    # On-hand stock beyond p μ / h is never worth holding: a unit would cost more to keep than to lose.
    wide = int(penalty * 5.0) + 10
    model = LostSales(poisson(5.0), 1, 1.0, penalty)
    assert solve(model, levels=(wide, wide)).cost.value == pytest.approx(solve(model).cost.value, abs=2e-9)
    model = LostSales(poisson(5.0), 3, 1.0, penalty)
    levels = tuple(s + 6 for s in model.morton_levels)
    assert solve(model, levels=levels).cost.value == pytest.approx(solve(model).cost.value, abs=2e-9)
