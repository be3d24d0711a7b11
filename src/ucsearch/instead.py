"""What this package computes in place of functions that its tasks name: the same, in room that is there already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Fill", "fill_instead", "fill_of"]


class Fill(NamedTuple):
    """How a table is made in room that is there already."""

    prepare: Callable[..., Any]  # that gives the same table; held, so that its id stays its own
    room: Callable[[int, int], int]  # (steps, members) -> numbers that it takes
    fill: Callable[..., None]  # (table, outcomes, p, view); the table holds zeros, or another window's table


_FILLS: dict[int, Fill] = {}  # by id of `prepare`


def fill_instead(prepare: Callable[..., Any], room: Callable[[int, int], int], fill: Callable[..., None]) -> None:
    """Kernels call `fill` wherever a task of this package names `prepare`."""
    _FILLS[id(prepare)] = Fill(prepare, room, fill)


def fill_of(prepare: Callable[..., Any] | None) -> Fill | None:
    return _FILLS.get(id(prepare))
