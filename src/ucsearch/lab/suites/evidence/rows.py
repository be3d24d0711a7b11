"""Rows of evidence, one for each window: their form, their order, and how series are shared out among splits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ucsearch.errors import RecordError
from ucsearch.records.canonical import canonical

__all__ = ["COUNTS", "UC", "EvidenceError", "Row", "Window", "check_rows", "row_bytes", "sort_rows", "split_problems",
           "windows_of"]  # fmt: skip

Row = Mapping[str, Any]
Splits = Mapping[str, Mapping[str, Sequence[str]]]

UC = "uc"
"""The policy that a row's certificate is about, and usually the one that is judged."""

COUNTS = (
    "passed", "risk_active", "search_pass", "paper_pass", "oracle_retained", "released", "search_active",
    "uncertainty_active", "optimal", "unique", "robust",
)  # fmt: skip
"""Members of a certificate that count decisions."""

_TIME = ("fit", "validation", "test")  # a series may be cut by time, in this order


class EvidenceError(RecordError):
    """Evidence that is malformed: not what the protocol writes."""


class Window(NamedTuple):
    """One window as one candidate, or the final run, saw it."""

    family: str
    series: str
    window: int
    decisions: int | None
    policies: Mapping[str, Mapping[str, float | None]]
    certificate: Mapping[str, Any]


def windows_of(rows: Iterable[Row], split: str, candidate: str | None = None) -> list[Window]:
    """The windows of a split, in order. A candidate that is absent from a row has no figures there."""
    windows = []
    for row in sort_rows(r for r in rows if r["split"] == split):
        figures = row if candidate is None else (row.get("candidates") or {}).get(candidate, {})
        windows.append(
            Window(
                row["family"],
                row["series"],
                row["window"],
                row.get("decisions"),
                figures.get("policies") or {},
                figures.get("certificate") or {},
            )
        )
    return windows


def sort_rows(rows: Iterable[Row]) -> list[Row]:
    """By split, family, series, window."""
    return sorted(rows, key=_place)


def _place(row: Row) -> tuple[str, str, str, int]:
    return row["split"], row["family"], row["series"], row["window"]


def row_bytes(rows: Iterable[Row]) -> bytes:
    """Sorted rows as JSON lines in canonical form."""
    return b"".join(canonical(row) + b"\n" for row in sort_rows(rows))


# -------------------------------------------------------------------- form


def check_rows(rows: Sequence[Row]) -> None:
    """Refuse rows that are not of the described form, naming the first bad place."""
    seen: dict[tuple[str, str, str], list[int]] = {}
    for i, row in enumerate(rows):
        _check_row(row, f"rows[{i}]")
        seen.setdefault(_place(row)[:3], []).append(row["window"])
    for (split, family, series), windows in seen.items():
        name = f"{split} {family} {series}"
        if len(set(windows)) != len(windows):
            twice = next(w for w in windows if windows.count(w) > 1)
            raise EvidenceError(f"rows: window {twice} of {name} occurs {windows.count(twice)} times, expected once")
        if sorted(windows) != list(range(len(windows))):
            raise EvidenceError(f"rows: saw windows {sorted(windows)} of {name}, expected 0 to {len(windows) - 1}")


def _check_row(row: Any, where: str) -> None:
    if not isinstance(row, Mapping):
        raise EvidenceError(f"{where}: saw {_shown(row)}, expected an object")
    for name in ("split", "family", "series"):
        if not isinstance(row.get(name), str) or not row[name]:
            raise EvidenceError(f"{where}.{name}: saw {_shown(row.get(name))}, expected text")
    if not _is_count(row.get("window")):
        raise EvidenceError(f"{where}.window: saw {_shown(row.get('window'))}, expected a count")
    for name in ("start", "decisions"):
        if row.get(name) is not None and not _is_count(row[name]):
            raise EvidenceError(f"{where}.{name}: saw {_shown(row[name])}, expected a count or null")
    for name in ("candidates", "audit"):
        if row.get(name) is not None and row["split"] != "validation":
            raise EvidenceError(f"{where}.{name}: saw it in split {row['split']!r}, expected it in validation only")
    if row.get("policies") is None and row.get("candidates") is None:
        raise EvidenceError(f"{where}.policies: missing")
    _check_figures(row, row.get("decisions"), where)
    for name, candidate in _members(row.get("candidates"), f"{where}.candidates"):
        for member, _ in _members(candidate, f"{where}.candidates.{name}"):
            if member not in ("policies", "certificate"):
                raise EvidenceError(f"{where}.candidates.{name}.{member}: an unknown member")
        _check_figures(candidate, row.get("decisions"), f"{where}.candidates.{name}")
    for name, value in _members(row.get("audit"), f"{where}.audit"):
        _check_number(value, f"{where}.audit.{name}")
    for name, value in row.items():
        if name not in ("policies", "certificate", "candidates", "audit") and not isinstance(value, str):
            _check_number(value, f"{where}.{name}")


def _check_figures(side: Row, decisions: int | None, where: str) -> None:
    for name, metrics in _members(side.get("policies"), f"{where}.policies"):
        for metric, value in _members(metrics, f"{where}.policies.{name}"):
            _check_number(value, f"{where}.policies.{name}.{metric}")
    certificate = side.get("certificate") or {}
    for name, value in _members(certificate, f"{where}.certificate"):
        _check_number(value, f"{where}.certificate.{name}")
        if value is None or name not in (*COUNTS, "decisions"):
            continue
        if not _is_count(value) or decisions is None or value > decisions:
            raise EvidenceError(
                f"{where}.certificate.{name}: saw {_shown(value)}, expected a count of at most the row's decisions"
            )
        # A smaller total would raise every rate.
        if name == "decisions" and value != decisions:
            raise EvidenceError(f"{where}.certificate.decisions: saw {value}, expected the row's {decisions}")
    active, passed = certificate.get("risk_active"), certificate.get("passed")
    if active is not None and (passed is None or active > passed):
        raise EvidenceError(f"{where}.certificate.risk_active: saw {active}, expected at most passed ({passed})")


def _members(value: Any, where: str) -> Iterable[tuple[str, Any]]:
    if value is None:
        return ()
    if not isinstance(value, Mapping) or not all(isinstance(name, str) and name for name in value):
        raise EvidenceError(f"{where}: saw {_shown(value)}, expected an object")
    return value.items()


def _check_number(value: Any, where: str) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise EvidenceError(f"{where}: saw {_shown(value)}, expected a finite number or null")


def _is_count(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return value >= 0 and float(value).is_integer()


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


# -------------------------------------------------------------------- splits


def split_problems(rows: Sequence[Row], splits: Splits) -> list[str]:
    """What is wrong between rows and declared splits; empty when a split's rows are just its series' windows.

    A series may serve several of fit, validation and test only if it is cut by time: all its decided periods of an
    earlier purpose come before those of a later one. A design series is in no other split.
    """
    problems: list[str] = []
    homes: dict[tuple[str, str], set[str]] = {}
    for split, families in splits.items():
        for family, series in families.items():
            if len(set(series)) != len(series):
                problems.append(f"splits.{split}.{family}: a series is listed twice")
            for series_id in series:
                homes.setdefault((family, series_id), set()).add(split)
    rows_of: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for row in rows:
        split, key = row["split"], (row["family"], row["series"])
        if split not in homes.get(key, ()):
            problems.append(f"splits.{split}.{key[0]}: {key[1]} has rows there, but is not listed")
        rows_of.setdefault(key, {}).setdefault(split, []).append(row)
    filled = {row["split"] for row in rows}
    for (family, series_id), purposes in sorted(homes.items()):
        if "design" in purposes and len(purposes) > 1:
            others = ", ".join(sorted(purposes - {"design"}))
            problems.append(
                f"splits.design.{family}: {series_id} is also in {others}; a design series serves nothing else"
            )
        for split in sorted(purposes & filled):
            if split not in rows_of.get((family, series_id), {}):
                problems.append(f"splits.{split}.{family}: {series_id} is listed, but has no rows")
    for (family, series_id), parts in sorted(rows_of.items()):
        problems.extend(f"rows of {family} {series_id}: {text}" for text in _out_of_time(parts))
    return problems


def _out_of_time(parts: Mapping[str, Sequence[Row]]) -> Iterable[str]:
    """Purposes of one series that are not apart in time."""
    known = [split for split in _TIME if split in parts]
    if len(parts) > 1 and len(known) < len(parts):
        yield f"saw splits {', '.join(sorted(parts))}, expected one, or fit, validation and test cut by time"
    for before, after in pairwise(known):
        ends = [_end(row) for row in parts[before]]
        begins = [math.nan if row.get("start") is None else float(row["start"]) for row in parts[after]]
        # Every comparison must hold: a window without a place in time cannot be told apart.
        if not all(end <= begin for end in ends for begin in begins):
            yield f"its {before} periods do not all come before its {after} periods"


def _end(row: Row) -> float:
    start, count = row.get("start"), row.get("decisions")
    return math.nan if start is None or count is None else float(start + count)
