"""Text for people: numbers, lists and harmless HTML."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

__all__ = [
    "MINUS",
    "NONE",
    "bytes_text",
    "clean",
    "column_texts",
    "count_text",
    "esc",
    "is_number",
    "joined",
    "number",
    "short",
    "signed",
]

NONE = "–"  # what is not known or not defined
MINUS = "\N{MINUS SIGN}"
# Characters that HTML forbids, or that reorder what stands beside them.
_INVISIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe\uffff\ud800-\udfff]")


def clean(value: object) -> str:
    """Text without characters that HTML forbids or that reorder what stands beside them; not yet escaped."""
    return _INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", str(value))


def esc(value: object) -> str:
    """Text that is harmless as content and as a quoted attribute."""
    return html.escape(clean(value), quote=True)


def short(text: object, limit: int) -> str:
    """At most `limit` characters; the middle is left out, because ids differ at their ends."""
    whole = str(text)
    if len(whole) <= limit:
        return whole
    head = (limit - 1) // 2
    return f"{whole[: limit - 1 - head]}…{whole[len(whole) - head :]}"


def joined(parts: Iterable[str]) -> str:
    """a, b and c."""
    items = list(parts)
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + f" and {items[-1]}" if items else ""


def is_number(value: object) -> TypeGuard[float]:
    """A finite number; a bool is none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def number(value: Any, places: int | None = None) -> str:
    """A number with thousands marked; four significant digits unless `places` says how many decimals."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return NONE
    if not isinstance(value, (int, float)):
        return str(value)
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "∞" if value > 0 else f"{MINUS}∞"
    if places is None:
        if float(value).is_integer() and abs(value) < 1e15:
            places = 0
        elif abs(value) >= 1e15 or abs(value) < 1e-5:
            return _scientific(value)
        else:
            text = f"{value:,.{max(0, 3 - math.floor(math.log10(abs(value))))}f}"
            text = text.rstrip("0").rstrip(".") if "." in text else text  # 0.95, not 0.9500; 104, not 104.
            return text.replace("-", MINUS)
    text = f"{value:,.{places}f}"
    if text.startswith("-"):
        # A rounded zero has no sign.
        text = (MINUS if text.strip("-0.,") else "") + text[1:]
    return text


def _scientific(value: float) -> str:
    mantissa, exponent = f"{value:.3g}".partition("e")[::2] if "e" in f"{value:.3g}" else (f"{value:.3g}", "0")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{mantissa}×10{raised}".replace("-", MINUS)


def signed(value: Any, places: int = 3) -> str:
    """A difference: its sign always shown, zero without one."""
    text = number(value, places if is_number(value) else None)
    return f"+{text}" if is_number(value) and value > 0 and text.strip("0.,") else text


def column_texts(values: Sequence[Any], how: str = "") -> list[str]:
    """A table's column with one number of decimals for all, so that digits stand below each other."""
    finite = [float(v) for v in values if is_number(v)]
    if not finite or all(v.is_integer() for v in finite):
        return [number(v) for v in values]
    largest = max(map(abs, finite))
    if how.startswith("rate") or (largest <= 1.0 and min(finite) >= 0.0):
        places = 4
    else:
        places = min(6, max(0, 3 - math.floor(math.log10(largest))))
    if 0.0 < largest < 1e-4 or largest >= 1e15:
        return [number(v) for v in values]
    return [number(v, places) if is_number(v) else number(v) for v in values]


def bytes_text(size: Any) -> str:
    """A file's size."""
    if not is_number(size):
        return NONE
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:,.1f} {unit}"
    return f"{size:,.0f} bytes"


def count_text(count: int, one: str, many: str | None = None) -> str:
    """1 window, 12 windows."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
