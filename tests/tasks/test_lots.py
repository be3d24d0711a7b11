"""Order sizes and lattices that fit an item: on whole packs, exact in binary, as far as two batches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ucsearch.tasks import LeadTimeInventory
from ucsearch.tasks.lots import lots
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
