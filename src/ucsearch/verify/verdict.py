"""What was found about an entry: claims that are equal, close enough, or false; verdicts in words that a terminal shows
as they are; exit codes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NEEDS_A_PERSON, UNUSABLE, INTERNAL = 1, 2, 3
CODES = {
    "valid": 0, "invalid": NEEDS_A_PERSON, "weaker": NEEDS_A_PERSON, "malformed": UNUSABLE, "no task": UNUSABLE,
    "error": INTERNAL,
}  # fmt: skip
WORST_FIRST = ("invalid", "malformed", "error", "no task", "weaker", "valid")
LONGEST = 2_000  # characters of a message that are shown


class Malformed(Exception):
    """Not a record, blob, file or log of the described form."""


@dataclass(frozen=True)
class Verdict:
    """What was found about one entry. `where` is the path of the first false claim, or of the first one in doubt."""

    status: str  # a key of CODES
    name: str  # id of the record, or the place of what has none
    where: str = ""  # such as "claim.gap"; "" where nothing is wrong
    message: str = ""  # why, in words; "" for most valid entries

    @property
    def code(self) -> int:
        """0 valid; 1 invalid, or weaker than claimed; 2 malformed, or its task was not named; 3 internal error."""
        return CODES[self.status]

    def __str__(self) -> str:
        return printable(f"{self.status}: {self.name}" + (f": {self.message}" if self.message else ""))


def printable(text: str) -> str:
    """The text with control characters, marks that turn its direction, and lone surrogates written as escapes."""
    cut = text if len(text) <= LONGEST else f"{text[:LONGEST]} ... ({len(text)} characters)"
    return (
        cut
        if cut.isprintable()
        else "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)
    )


def describe(error: BaseException) -> str:
    """Type and message; an exception from foreign code may fail even at that."""
    try:
        return f"{type(error).__name__}: {error}"[:LONGEST]
    except BaseException:
        return type(error).__name__


# -------------------------------------------------------------------- claims and figures

FEWER_DIGITS = 64 * 2.0**-1074  # near the smallest number of all a sum is rounded to whole multiples of it
Record = Mapping[str, Any]


class Invalid(Exception):
    """A claim that is false: where it stands, what the record says, what was derived instead; or why, in words."""

    def __init__(self, where: str, claimed: object = None, derived: object = None, *, words: str = "") -> None:
        super().__init__(f"{where}: {words or f'the record says {claimed!r}, derived {derived!r}'}")
        self.where = where


class Elsewhere(Invalid):
    """A figure that is false here, by so little that the functions of another platform may have given it."""


def num(value: Any) -> float:
    """A recorded figure as a float; null is NaN."""
    return math.nan if value is None else float(value)


def action_of(value: Any) -> Any:
    """A recorded action: a number, or a tuple of them; NaN for null."""
    return tuple(float(x) for x in value) if isinstance(value, list) else num(value)


def shown(x: Any) -> Any:
    """A derived value as a record holds it."""
    if isinstance(x, tuple):
        return [shown(part) for part in x]
    if not isinstance(x, float) or math.isfinite(x):
        return x
    return None if x != x else str(x)


def slack(*values: float) -> float:
    """What figures from user functions may differ by, because platforms do."""
    return 1e-9 * (1.0 + max([abs(x) for x in values if math.isfinite(x)], default=0.0))


def is_close(a: float, b: float) -> bool:
    return a == b or abs(a - b) <= slack(a, b)


def share(steps: int, averaged: int) -> float:
    """eps of the tolerance: `steps` are added up, `averaged` members or points are averaged."""
    return max(1e-12, 2.0**-52 * steps * (max(averaged, 1) + 2))


def tolerance(eps: float, size_x: float, size_y: float) -> float:
    """By how much two scores must differ to count as different: a share of what was added up for them."""
    return eps * max([s for s in (size_x, size_y) if s > 0.0], default=0.0)


def near(where: str, claimed: Any, derived: float, size: float, eps: float) -> None:
    """A recorded figure may differ by the tolerance of what was added up for it. No claim is derived from it. Beyond
    that it is false, unless another platform may have rounded its functions otherwise."""
    claimed_number = num(claimed)
    if claimed_number == derived or (claimed_number != claimed_number and derived != derived):
        return
    apart, whole = abs(claimed_number - derived), max(abs(claimed_number), abs(derived), size)
    if not (whole < math.inf and apart <= eps * size + FEWER_DIGITS):
        raise (Elsewhere if apart <= 1e-9 * whole < math.inf else Invalid)(where, claimed, shown(derived))


def require(where: str, holds: bool, claimed: Any, derived: Any) -> None:
    if not holds:
        raise Invalid(where, claimed, shown(derived))


def require_that(where: str, holds: bool, words: str) -> None:
    """As `require`, where there are no two figures to show; the words say what is wrong."""
    if not holds:
        raise Invalid(where, words=words)


def expect(where: str, claimed: Any, derived: Any) -> None:
    same = shown(claimed) if isinstance(claimed, tuple) else claimed
    require(where, same == shown(derived), claimed, derived)
