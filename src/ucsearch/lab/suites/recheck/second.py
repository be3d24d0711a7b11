"""The gate's figures a second time, by other means, from the rows alone: what decides is not left to one program.

Nothing of `promotion`, `figures`, `selection` or `statistics` is used. Student's quantile comes from the incomplete
beta function by a continued fraction, the bootstrap from whole matrices; only the stream of draws is the same, because
it is part of the definition. Sums differ in the last digits, so figures are compared to nine.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = ["gate_again", "lower_bound", "t_quantile", "value_bounds_again"]

Row = Mapping[str, Any]
_RESAMPLES, _LEVEL, _SHARE = 9999, 0.975, 0.95
_OPPONENTS = ("cem", "mppi", "risk-random")
_OPS: dict[str, Callable[[float, float], bool]] = {
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
}


def gate_again(rows: Iterable[Row], protocol: Mapping[str, Any], selection: Mapping[str, Any]) -> list[dict[str, Any]]:
    """All conditions of the promotion gate with their figures."""
    tests = [row for row in rows if row["split"] == "test"]
    families = sorted(protocol["families"])
    passed = {f: _rate([r for r in tests if r["family"] == f], "passed") for f in families}
    active = {f: _rate([r for r in tests if r["family"] == f], "risk_active") for f in families}
    broken = [(row["policies"].get(protocol["policy"]) or {}).get("violations") for row in tests]
    known = [float(one) for one in broken if one is not None]
    violations = math.fsum(known) if known and len(known) == len(broken) else None
    out = [
        _row("selected_risk", selection.get("risk"), ">", 0.0),
        _row("selection_eligible", 1 if selection.get("eligible") is True else 0, "==", 1),
        _row("certificate", _average(list(passed.values())), ">=", _SHARE),
        _row("risk_active", _average(list(active.values())), ">=", _SHARE),
        *(_row("risk_active_family", active[f], ">=", _SHARE, family=f) for f in families),
        _row("violations", violations, "==", 0),
    ]
    for family in families:
        own = _series(tests, family, protocol["policy"], protocol["metric"])
        for other in _OPPONENTS:
            theirs = _series(tests, family, other, protocol["metric"])
            deltas = [_delta(own[s], theirs[s], protocol["form"]) for s in sorted(own) if s in theirs]
            key = _key(protocol, family, other)
            out.append(_row("lower_bound", lower_bound(deltas, key), ">", 0.0, family=family, comparator=other))
    return out


def value_bounds_again(
    rows: Iterable[Row], protocol: Mapping[str, Any], places: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], float | None]:
    """The value gate's lower bounds by series for (family, opponent)."""
    tests = [row for row in rows if row["split"] == "test"]
    out = {}
    for family, opponent in places:
        own, other, best, least = (
            _series(tests, family, policy, protocol["metric"])
            for policy in ("value", opponent, "hindsight", "fallback")
        )
        if protocol["form"] == "cost":
            deltas = [_delta(own[s], other[s], "cost") for s in sorted(own) if s in other]
        else:
            room = {s: best[s] - least[s] for s in own}
            deltas = [(own[s] - other[s]) / room[s] if room[s] > 0.0 else math.nan for s in sorted(own) if s in other]
        low = lower_bound(deltas, _key(protocol, "value", family, opponent))
        out[family, opponent] = low if low is not None and math.isfinite(low) else None
    return out


def _key(protocol: Mapping[str, Any], *names: str) -> int:
    text = json.dumps([protocol["seed"], protocol["suite"], *names], ensure_ascii=False, separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")


def _row(
    name: str, left: float | None, op: str, right: float, *, family: str | None = None, comparator: str | None = None
) -> dict[str, Any]:
    known = left is not None and math.isfinite(left)
    return {
        "name": name, "family": family, "comparator": comparator, "left": left if known else None, "op": op,
        "right": right, "pass": bool(known and left is not None and _OPS[op](left, right)),
    }  # fmt: skip


def _rate(rows: Sequence[Row], count: str) -> float | None:
    """Mean over windows of the share of decisions. Integers over a common denominator: 19 of 20 is 0.95."""
    pairs = [((row.get("certificate") or {}).get(count), row.get("decisions")) for row in rows]
    if not pairs or any(a is None or not b for a, b in pairs):
        return None
    total = math.lcm(*(int(b) for _, b in pairs if b))
    return sum(int(a) * (total // int(b)) for a, b in pairs if a is not None and b) / (total * len(pairs))


def _average(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None


def _series(rows: Sequence[Row], family: str, policy: str, metric: str) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    # A sampler may have run on fewer series; of anybody else a missing figure is missing.
    few = policy.removesuffix("-time") in _OPPONENTS
    run = {row["series"] for row in rows if row["family"] == family and (not few or policy in row["policies"])}
    for row in rows:
        if row["family"] == family and row["series"] in run:
            value = (row["policies"].get(policy) or {}).get(metric)
            found.setdefault(row["series"], []).append(math.nan if value is None else float(value))
    return {name: math.fsum(values) / len(values) for name, values in found.items()}


def _delta(own: float, other: float, form: str) -> float:
    size = own + other if form == "cost" else abs(own) + abs(other)
    if not math.isfinite(size) or (form == "cost" and min(own, other) < 0.0):
        return math.nan
    return ((other - own) if form == "cost" else (own - other)) / size if size > 0.0 else 0.0


# -------------------------------------------------------------------- bounds


def lower_bound(deltas: Sequence[float], key: int) -> float | None:
    """The smaller of the one-sided 97.5 % Student-t and bootstrap-t bounds of the mean; None where there is none."""
    x = np.array(deltas, np.float64)
    n = len(x)
    if n < 3 or not np.isfinite(x).all():
        return None
    if float(np.ptp(x)) <= 1e-12 * (1.0 + abs(float(x.min()))):
        return float(x.min())
    centre, error = float(x.mean()), float(x.std(ddof=1)) / math.sqrt(n)
    student = centre - t_quantile(_LEVEL, n - 1) * error
    raw = np.random.Philox(key=key).random_raw(n * _RESAMPLES)
    picked = x[((raw >> np.uint64(11)).astype(np.float64) / 2.0**53 * n).astype(np.intp)].reshape(n, _RESAMPLES)
    means = picked.mean(axis=0)
    errors = picked.std(axis=0, ddof=1) / math.sqrt(n)
    flat = errors <= 1e-12 * (1.0 + np.abs(means))
    # One value drawn n times has no spread; it counts as infinitely far out on its side, on the bad side if on none.
    away = np.where(means < centre, -math.inf, math.inf)
    ratios = np.where(flat, away, (means - centre) / np.where(flat, 1.0, errors))
    rank = round(_LEVEL * (_RESAMPLES + 1))
    return min(student, centre - float(np.partition(ratios, rank - 1)[rank - 1]) * error)


@lru_cache(maxsize=256)  # a gate asks for the same few sizes again and again
def t_quantile(level: float, df: int) -> float:
    """The t with P(T <= t) = level, for level above one half, by bisection on the incomplete beta function."""
    low, high = 0.0, 1.0
    while _t_tail(high, df) > 1.0 - level:
        high *= 2.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        low, high = (middle, high) if _t_tail(middle, df) > 1.0 - level else (low, middle)
    return 0.5 * (low + high)


def _t_tail(t: float, df: int) -> float:
    """P(T > t) for t >= 0."""
    return 0.5 * _beta(df / (df + t * t), 0.5 * df, 0.5)


def _beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by Lentz's continued fraction."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _beta(1.0 - x, b, a)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)) / a
    tiny = 1e-300
    c, d = 1.0, 1.0 / max(1.0 - (a + b) * x / (a + 1.0), tiny)
    total = d
    for m in range(1, 400):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 / _away(1.0 + step * d, tiny)
            c = _away(1.0 + step / c, tiny)
            total *= c * d
        if abs(c * d - 1.0) < 1e-16:
            break
    return front * total


def _away(value: float, least: float) -> float:
    return value if abs(value) > least else least
