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
    assert LAYOUT.quick_row(state) is None


def test_the_row_as_an_array_cannot_be_written_to() -> None:
    row = LAYOUT.quick_row(Depot(1.0, (2.0, -3.0), 4.0))
    assert row is not None
    assert (row.shape, row.dtype, row.tolist()) == ((1, 4), float, [[1.0, 2.0, -3.0, 4.0]])
    assert not row.flags.writeable
