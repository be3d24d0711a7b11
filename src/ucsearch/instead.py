"""What this package computes in place of functions that its tasks name, whose text is in records

It is the same, with less rounding, or in room that is there already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = ["Asked", "Fill", "ask_instead", "asked_for", "fill_instead", "fill_of"]


class Asked(NamedTuple):
    """A bound of ours: itself, so that its id stays its own, and what is asked in its place."""

    bound: Callable[..., Any]
    finer: Callable[..., Any]
    drawn_in: float


_ASKED: dict[int, Asked] = {}  # by id of the bound


def ask_instead(bound: Callable[..., Any], finer: Callable[..., Any], drawn_in: float = 0.0) -> None:
    """Searches and proofs ask `finer` wherever a task names `bound`, a function of this package whose code is in the
    source hash of decisions on record. It must be the same bound, computed with less rounding. It may be below what
    ties with a known path by `drawn_in` of 1 and its value, for which certificates make up: then ties are pruned."""
    _ASKED[id(bound)] = Asked(bound, finer, drawn_in)


class Fill(NamedTuple):
    """How a table is made in room that is there already."""

    prepare: Callable[..., Any]  # that gives the same table; held, so that its id stays its own
    room: Callable[[int, int], int]  # (steps, members) -> numbers that it takes
    fill: Callable[..., None]  # (table, outcomes, p, view); the table holds zeros, or another window's table


_FILLS: dict[int, Fill] = {}  # by id of `prepare`


def fill_instead(prepare: Callable[..., Any], room: Callable[[int, int], int], fill: Callable[..., None]) -> None:
    """Kernels call `fill` wherever a task of this package names `prepare`."""
    _FILLS[id(prepare)] = Fill(prepare, room, fill)


def asked_for(bound: Callable[..., Any] | None) -> Asked | None:
    return _ASKED.get(id(bound))


def fill_of(prepare: Callable[..., Any] | None) -> Fill | None:
    return _FILLS.get(id(prepare))
