"""The map of gains: two cells from drawn demand to pictures."""

from __future__ import annotations

import math
from xml.etree import ElementTree

from studies.heat_map import heat_map, small_map
from studies.where_search_helps import GAINS, SMALL, gains


def test_two_cells_have_a_gain_for_every_part_and_are_drawn() -> None:
    found = gains(SMALL)
    assert {name for _, name in found} == set(GAINS)
    assert len({cell for cell, _ in found}) == 2
    assert all(math.isfinite(value) and abs(value) <= 1.0 for value in found.values())
    assert found == gains(SMALL)
    for draw in (heat_map, small_map):
        assert len(ElementTree.fromstring(draw(found)).findall(".//{http://www.w3.org/2000/svg}rect")) > 2


def test_the_map_shows_every_gain_in_its_place() -> None:
    found = {
        ("order L1 K04 P0 k09 right", "search"): 0.12, ("order L1 K04 P0 k09 right", "members"): -0.03,
        ("capacity up06 k39 blind", "search"): 0.0,
    }  # fmt: skip
    drawn = heat_map(found)
    assert drawn.count("<rect") == 1 + 3
    assert "lead 1, fixed cost 4 d, pack 0 d, shortage 9:1, forecast right: +0.120" in drawn
    assert "capacity, stays up 6, shortage 39:1, forecast blind: +0.000" in drawn
    assert "members over the mean" in drawn
    assert "closed loop over common plans" not in drawn  # nobody has a figure for it
