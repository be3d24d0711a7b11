"""What a recursion over policies is asked for, whoever does it."""

from __future__ import annotations

from typing import Any, NamedTuple

Key = tuple[int, Any]  # class of information and state; the class of every state past the end is -1
Moves = list[tuple[float, Key]]  # reward and what follows, for every point


class Value(NamedTuple):
    """Of a state, or of an action in it."""

    score: float
    mean: float  # expected return of the same policy
    gross: float  # what was added up, in absolute terms


class TooMany(Exception):
    """More transitions than the record's own budget allows."""
