"""The short way from a state to its row takes what is as it should be, and leaves everything else to the long one."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest

from ucsearch.layout import Layout


class Depot(NamedTuple):
    stock: Any
    due: Any
    last: Any


LAYOUT = Layout(Depot, (0, 2, 0))


def test_a_row_of_floats_is_taken() -> None:
    assert LAYOUT.quick(Depot(1.0, (2.0, -3.0), 4.0)) == [1.0, 2.0, -3.0, 4.0]
    many = tuple(map(float, range(3000)))
    assert Layout(Depot, (3000,)).quick((many,)) == list(many)


@pytest.mark.parametrize(
    "state",
    [
        Depot(1, (2.0, 3.0), 4.0),
        Depot(True, (2.0, 3.0), 4.0),
        Depot(1.0, (2.0,), 4.0),
        Depot(1.0, (2.0, 3.0, 4.0), 4.0),
        Depot(1.0, [2.0, 3.0], 4.0),
        Depot(1.0, 2.0, 4.0),
        Depot((1.0,), (2.0, 3.0), 4.0),
        Depot(1.0, (2.0, math.nan), 4.0),
        Depot(-math.inf, (2.0, 3.0), 4.0),
        Depot(1e308, (1e308, 1e308), 0.0),
        (1.0, (2.0, 3.0)),
        (1.0, (2.0, 3.0), 4.0, 5.0),
    ],
)
def test_anything_else_is_not(state: Any) -> None:
    assert LAYOUT.quick(state) is None
