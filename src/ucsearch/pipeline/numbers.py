"""Numbers and dates as people write them: decimal commas, thousands marks, 20.05.2024, offsets from UTC.

Nothing is guessed. Where a text can be read in two ways (1,234 or 05/06/2024) it is no number or date until the
settings say how it is meant.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["DateOrder", "Decimal", "offset_of", "parse_dates", "parse_numbers", "sniff_decimal"]

Floats = NDArray[np.float64]
Decimal = Literal[".", ","]
DateOrder = Literal["auto", "dmy", "mdy"]

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none"})
_BLANKS = str.maketrans("", "", "\u00a0\u202f\u2009 ")  # thousands marks of some countries
_POINT = re.compile(r"[+-]?(\d{1,3}(,\d{3})+|\d+)?(\.\d*)?([eE][+-]?\d+)?")
_COMMA = re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+)?(,\d*)?([eE][+-]?\d+)?")
_THOUSANDS = re.compile(rb"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
_DOTTED = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(?:[T ]+(.+))?")
_SLASHED = re.compile(r"(\d{1,2})[/-](\d{1,2})[/-](\d{4})(?:[T ]+(.+))?")
_PLAIN = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d)?)?")
_NEVER = np.datetime64("NaT", "s")


def sniff_decimal(data: bytes, delimiter: str) -> Decimal | None:
    """How a file writes decimals; None where its commas may be either decimals or thousands marks."""
    if delimiter != ",":
        cell = rb'(?:^|["\t;\n])\s*([+-]?\d[\d.]*,\d+)'
    elif b'"' in data:
        cell = rb'"\s*([+-]?\d[\d.]*(?:,\d+)+(?:\.\d+)?)\s*"'
    else:
        return "."
    found = re.findall(cell, data, flags=re.MULTILINE)
    if not found:
        return "."
    if delimiter == "," and all(_THOUSANDS.fullmatch(x) for x in found):
        return "." if any(b"." in x or x.count(b",") > 1 for x in found) else None
    return ","


def parse_numbers(texts: list[str], decimal: Decimal | None) -> tuple[Floats, dict[int, str]]:
    """(n,) values, NaN where there is none, and by index the texts that are no numbers (NaN too)."""
    if decimal == ".":
        try:
            return np.array(texts, dtype=np.str_).astype(np.float64) if texts else np.zeros(0), {}
        except ValueError:
            pass
    values: Floats = np.full(len(texts), np.nan)
    bad: dict[int, str] = {}
    for i, text in enumerate(texts):
        if text.lower() in MISSING:
            continue
        try:
            values[i] = _number(text, decimal)
        except ValueError:
            bad[i] = text
    return values, bad


def _number(text: str, decimal: Decimal | None) -> float:
    plain = text.translate(_BLANKS)
    if decimal == ",":
        if _COMMA.fullmatch(plain):
            return float(plain.replace(".", "").replace(",", "."))
        if "." in plain:  # neither a thousands mark nor this file's decimal
            raise ValueError(text)
    elif "," in plain:
        if decimal is None or not _POINT.fullmatch(plain):
            raise ValueError(text)
        plain = plain.replace(",", "")
    return float(plain)


def parse_dates(texts: list[str], order: DateOrder, *, wall_clock: bool) -> Any:
    """(n,) datetime64[s], NaT where a text is no date. Times with an offset from UTC become UTC, or with `wall_clock`
    (days and longer) stay the local date that they name."""
    if all(_PLAIN.fullmatch(x) for x in texts):  # numpy alone would also take "now", or 20240520 for a year
        try:
            return np.array(texts, dtype="datetime64[s]")
        except (ValueError, TypeError):
            pass
    return np.array([_date(text, order, wall_clock) for text in texts], dtype="datetime64[s]")


_OFFSET = re.compile(r".*\d[T ].*?(?:(Z)|([+-]\d\d):?(\d\d)?)", re.IGNORECASE)


def offset_of(text: str) -> str:
    """The offset from UTC that a time is written with, such as "+02:00"; "" where it is written with none."""
    found = _OFFSET.fullmatch(text)
    if found is None:
        return ""
    return "+00:00" if found[1] else f"{found[2]}:{found[3] or '00'}"


def _date(text: str, order: DateOrder, wall_clock: bool) -> Any:
    found = _DOTTED.fullmatch(text)
    day_first = order != "mdy"
    if found is None and order != "auto":
        found = _SLASHED.fullmatch(text)
    if found is not None:
        first, second, year, clock = found.groups()
        day, month = (first, second) if day_first else (second, first)
        text = f"{year}-{int(month):02d}-{int(day):02d}" + (f"T{clock}" if clock else "")
    if not re.match(r"\d{4}-\d{2}-\d{2}|\d{8}$", text):
        return _month(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return _NEVER
    if moment.tzinfo is not None:
        moment = moment.replace(tzinfo=None) if wall_clock else moment.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(moment, "s")


def _month(text: str) -> Any:
    """2024-05 and what else numpy takes for a date without doubt."""
    if not re.fullmatch(r"\d{4}(-\d{2})?", text):
        return _NEVER
    try:
        return np.datetime64(text, "s")
    except ValueError:
        return _NEVER
