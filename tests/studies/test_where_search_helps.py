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
