"""The values that figures and tables show, computed from rows: series first, then families, then an equal mean."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ucsearch.lab.suites.evidence.rows import windows_of
from ucsearch.lab.suites.protocol.rates import equal_mean, family_rates
from ucsearch.lab.suites.report.charts import Group, Point, Rate
from ucsearch.lab.suites.report.source import REFERENCES, Evidence
from ucsearch.lab.suites.report.words import policy
from ucsearch.report.text import is_number

__all__ = [
    "compute",
    "coverages",
    "family_mean",
    "figure_of",
    "margins",
    "points",
    "risk_rates",
    "series_means",
    "worst_windows",
]

Row = Mapping[str, Any]
Value = Callable[[Row, str], float | None]  # of a row and a policy

_COVERAGE = re.compile(r"coverage_\d+(\.\d+)?$")

RATES = {"risk-active": "risk_active", "certificate": "passed", "without oracle": "search_pass"}
"""Rates of decisions, by the name shown; the first is the gate's."""


def figure_of(name: str) -> Value:
    """A metric of a policy in a row."""

    def value(row: Row, who: str) -> float | None:
        found = row["policies"].get(who, {}).get(name)
        return float(found) if is_number(found) else None

    return value


def compute(row: Row, who: str) -> float | None:
    """Expansions and oracle nodes per decision; without a number of decisions, per window."""
    metrics = row["policies"].get(who, {})
    if not is_number(metrics.get("expansions")):
        return None
    nodes = metrics.get("oracle_nodes")
    total = float(metrics["expansions"]) + (float(nodes) if is_number(nodes) else 0.0)
    decisions = row.get("decisions")
    return total / decisions if is_number(decisions) and decisions > 0 else total


def series_means(rows: Iterable[Row], who: str, value: Value, *, strict: bool = False) -> dict[str, dict[str, float]]:
    """{family: {series: mean over its windows}}. Windows without a figure are passed over; if strict, they are NaN."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        one = value(row, who)
        if one is not None or strict:
            found[str(row["family"])][str(row["series"])].append(math.nan if one is None else one)
    return {f: {s: _mean(v) for s, v in sorted(of.items())} for f, of in sorted(found.items())}


def family_mean(rows: Iterable[Row], who: str, value: Value) -> float | None:
    """Windows, then series, then families, each an equal mean."""
    means = [_mean(list(of.values())) for of in series_means(rows, who, value).values()]
    return _mean(means) if means else None


def points(evidence: Evidence, across: Value) -> list[Point]:
    """Every policy that has both figures: `across` against cost or reward. Foresight would only stretch the axes."""
    out = []
    for who in evidence.policies:
        if who in REFERENCES:
            continue
        x = family_mean(evidence.shown, who, across)
        y = family_mean(evidence.shown, who, figure_of(evidence.metric))
        if x is not None and y is not None:
            out.append(Point(policy(who), x, y, main=who == evidence.judged))
    return out


def coverages(evidence: Evidence) -> dict[str, list[tuple[float, float]]]:
    """Nominal and observed coverage of every forecaster whose rows tell it, as `coverage_80` and the like."""
    names = {(who, m) for r in evidence.shown for who, of in r["policies"].items() for m in of if _COVERAGE.match(m)}
    out: dict[str, list[tuple[float, float]]] = {}
    for who, name in sorted(names):
        seen = family_mean(evidence.shown, who, figure_of(name))
        if seen is not None:
            out.setdefault(policy(who), []).append((float(name.partition("_")[2]) / 100.0, seen))
    return out


# -------------------------------------------------------------------- certificates


def _rate(row: Row, field: str) -> float | None:
    proofs = row.get("certificate") or {}
    count, total = proofs.get(field), proofs.get("decisions")
    return float(count) / float(total) if is_number(count) and is_number(total) and total > 0 else None


def risk_rates(evidence: Evidence) -> list[Rate]:
    """Rates by family and their equal mean; empty where no row has a certificate."""
    windows = windows_of(evidence.shown, str(evidence.split))
    by_name = {name: family_rates(windows, evidence.families, field) for name, field in RATES.items()}
    found = [Rate(f, {name: _known(rates[f]) for name, rates in by_name.items()}) for f in evidence.families]
    if len(found) > 1:
        found.append(Rate("Equal mean", {name: _known(equal_mean(rates)) for name, rates in by_name.items()}))
    return found if any(v is not None for r in found for v in r.values.values()) else []


def margins(evidence: Evidence, field: str) -> list[Group]:
    """A certificate figure of every window, by family."""
    out = []
    for family in evidence.families:
        rows = [r for r in evidence.shown if str(r["family"]) == family]
        known = [v for r in rows if is_number(v := (r.get("certificate") or {}).get(field))]
        if known:
            out.append(Group(family, tuple(map(float, known))))
    return out


def worst_windows(evidence: Evidence, most: int) -> list[dict[str, Any]]:
    """Windows that hurt a rate of the gate: violations first, then unproved, then decisions where risk was idle."""
    out: list[dict[str, Any]] = []
    for row in evidence.shown:
        proofs = row.get("certificate") or {}
        broken = row["policies"].get(evidence.judged, {}).get("violations") or 0
        passed, active = _rate(row, "passed"), _rate(row, "risk_active")
        short_by = [1.0 - v for v in (passed, active) if v is not None]
        if broken or any(v > 0.0 for v in short_by):
            out.append(
                {
                    "family": str(row["family"]), "series": str(row["series"]), "window": row.get("window"),
                    "decisions": proofs.get("decisions"), "violations": broken,
                    "passed": passed, "risk_active": active,
                }
            )  # fmt: skip
    out.sort(key=lambda w: (-w["violations"], _or_one(w["passed"]), _or_one(w["risk_active"]), *_place(w)))
    return out[:most]


def _place(window: Mapping[str, Any]) -> tuple[str, str, str]:
    return (window["family"], window["series"], f"{window['window']!s:>9}")


def _or_one(value: float | None) -> float:
    return 1.0 if value is None else value


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None
