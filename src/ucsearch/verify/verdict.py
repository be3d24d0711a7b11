"""What was found about one entry, in words that a terminal shows as they are; the exit codes."""

from __future__ import annotations

from dataclasses import dataclass

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
