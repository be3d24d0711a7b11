"""Text for people: names, numbers and safe HTML."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from ucsearch.records.canonical import canonical

__all__ = [
    "CLASSES",
    "bytes_text",
    "column_texts",
    "count_text",
    "embedded",
    "esc",
    "is_number",
    "joined",
    "key_figures",
    "metric",
    "number",
    "policy",
    "sentence",
    "short",
    "signed",
]

NONE = "–"  # what is not known or not defined
MINUS = "\N{MINUS SIGN}"

CLASSES = {
    "certified": ("Certified", "Every row of the promotion gate holds on a test split that was opened once."),
    "boundary": ("Boundary", "Reported as found; it supports no claim of superiority."),
    "no-go": ("No-go", "The audit on validation stopped this route; its test split stayed closed."),
}
"""Claim classes: how each is written and what it means."""

_POLICIES = {
    "uc": "UC-Search",
    "beam": "Beam (λ = 0)",
    "cem": "CEM",
    "cql": "CQL",
    "delay-greedy": "Delay-aware greedy",
    "dp": "Exact DP",
    "dqn": "DQN",
    "exact": "Exact DP",
    "fqi": "FQI",
    "mcts": "UC-MCTS",
    "mppi": "MPPI",
    "ppo": "PPO",
    "ss": "(s,S)",
    "uc-beam": "UC-Beam",
    "uc-mcts": "UC-MCTS",
    "uc-pareto": "UC-Pareto beam",
}
_METRICS = {
    "bounds": "bounds above zero",
    "certificate": "certificate rate",
    "checks": "checks that hold",
    "cvar20": "CVaR20",
    "eps_a": "ε_a",
    "eps_r": "ε_r",
    "eps_u": "ε_u",
    "lower_bound": "lower bound of the mean delta",
    "passed": "certificate rate",
    "positive": "positive windows",
    "positive_candidate": "any positive candidate",
    "risk": "selected λ",
    "risk_active": "risk-active rate",
    "risk_active_family": "risk-active rate of the family",
    "risk_active_weakest": "risk-active rate, weakest family",
    "selected_risk": "λ selected on validation",
    "selection_eligible": "selected candidate was eligible on validation",
}
_PARTS = {"bounds": "bounds_positive", "checks": "checks_passed"}  # whole: part
_RATES = ("certificate", "risk_active", "risk_active_weakest", "share")
_KEY_ORDER = ("risk", *_RATES, "violations", "bounds", "smallest_lower_bound", "positive", "series", "windows")
_WHOLES = {part: whole for whole, part in _PARTS.items()}
# Tags, comments and entities cannot begin without these; the line separators end a line in old JavaScript.
_UNSAFE = re.compile("[<>&\u2028\u2029]")
# Characters that HTML forbids, or that reorder what stands beside them.
_INVISIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe\uffff\ud800-\udfff]")


def esc(value: object) -> str:
    """Text that is harmless as content and as a quoted attribute."""
    return html.escape(_INVISIBLE.sub("\N{REPLACEMENT CHARACTER}", str(value)), quote=True)


def embedded(value: Any) -> str:
    """Canonical JSON for a script element: equal when parsed, but without any character that could end it."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found.group()):04x}", canonical(value).decode())


def short(text: object, limit: int) -> str:
    """At most `limit` characters; the middle is left out, because ids differ at their ends."""
    whole = str(text)
    if len(whole) <= limit:
        return whole
    head = (limit - 1) // 2
    return f"{whole[: limit - 1 - head]}…{whole[len(whole) - head :]}"


def policy(name: str) -> str:
    """How a policy is called in figures and tables."""
    return _POLICIES.get(name) or name[:1].upper() + name[1:].replace("_", " ")


def metric(name: str) -> str:
    """A metric's name in running text."""
    return _METRICS.get(name) or name.replace("_", " ")


def sentence(name: str) -> str:
    """A key such as `risk_active_family` as the beginning of a sentence."""
    words = metric(name)
    return words[:1].upper() + words[1:]


def key_figures(key: Mapping[str, Any]) -> dict[str, str]:
    """A verdict's key figures: counts and their totals as one figure each."""
    out = {}
    # The file's order is the alphabet's.
    for name in sorted(key, key=lambda n: (_KEY_ORDER.index(n) if n in _KEY_ORDER else len(_KEY_ORDER), n)):
        part, whole = _PARTS.get(name, name), _WHOLES.get(name)
        if whole is not None and whole in key:
            continue
        text = number(key[name], 4 if name in _RATES and is_number(key[name]) else None)
        out[sentence(name)] = f"{number(key[part])} of {text}" if part != name and part in key else text
    return out


def joined(parts: Iterable[str]) -> str:
    """a, b and c."""
    items = list(parts)
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + f" and {items[-1]}" if items else ""


# -------------------------------------------------------------------- numbers


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
            text = text.rstrip("0") if "." in text else text  # 0.95, not 0.9500
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


def count_text(count: int, one: str, many: str | None = None) -> str:
    """1 window, 12 windows."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def bytes_text(size: Any) -> str:
    """A file's size."""
    if not is_number(size):
        return NONE
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:,.1f} {unit}"
    return f"{size:,.0f} bytes"
