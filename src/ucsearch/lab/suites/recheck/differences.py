"""False claims: where two JSON values differ, named leaf by leaf."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Discrepancy", "differences"]

_ABSENT = object()


@dataclass(frozen=True)
class Discrepancy:
    """One false claim: which member, what it says, what was derived."""

    where: str
    claimed: str
    derived: str

    def __str__(self) -> str:
        return f"{self.where}: the evidence says {self.claimed}, derived {self.derived}"


def differences(claimed: Any, derived: Any, where: str) -> Iterator[Discrepancy]:
    """Every leaf in which two JSON values differ; numbers may differ by rounding, since platforms do."""
    if isinstance(claimed, Mapping) and isinstance(derived, Mapping):
        for name in sorted({*claimed, *derived}):
            yield from differences(claimed.get(name, _ABSENT), derived.get(name, _ABSENT), f"{where}.{name}")
    elif _is_list(claimed) and _is_list(derived):
        if len(claimed) != len(derived):
            yield Discrepancy(where, f"{len(claimed)} entries", str(len(derived)))
        for i, (a, b) in enumerate(zip(claimed, derived, strict=False)):
            yield from differences(a, b, f"{where}[{i}]")
    elif not _is_equal(claimed, derived):
        yield Discrepancy(where, _shown(claimed), _shown(derived))


def _is_equal(a: Any, b: Any) -> bool:
    if _is_number(a) and _is_number(b):
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
    return type(a) is type(b) and bool(a == b)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
