"""Numbers as people read them, wherever one is told in words or tables."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Labelled", "figure"]

_MILLION, _UNREADABLE = 999_999.5, 1e12  # what six digits round to a million is one


def figure(value: float, digits: int = 6) -> str:
    """So many digits; of millions all whole ones, because a quantity of 2.88e+06 cannot be ordered. No commas: it may
    stand in a list, in a file, or be typed again."""
    if _MILLION <= abs(value) < _UNREADABLE:
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


@dataclass(frozen=True)
class Labelled:
    """The name of a value: a word and the number. Travels between processes, as a function made on the way does not."""

    word: str

    def __call__(self, value: float) -> str:
        return f"{self.word} {figure(value)}"
