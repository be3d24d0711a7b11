"""The judged policy against each comparator, family by family, with the bounds that decide."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ucsearch.lab.suites.report.charts import Delta
from ucsearch.lab.suites.report.source import REFERENCES, Evidence
from ucsearch.lab.suites.report.summary import figure_of, series_means
from ucsearch.replay.statistics import bootstrap_key, bounds, scale_free_delta
from ucsearch.report.text import count_text, signed

__all__ = ["Comparison", "SeriesDelta", "comparisons"]


@dataclass(frozen=True)
class SeriesDelta:
    """One series: both figures and the scale-free difference."""

    family: str
    series: str
    own: float
    other: float
    delta: float


@dataclass(frozen=True)
class Comparison:
    """One comparator."""

    comparator: str
    gated: bool  # whether the promotion gate asks about it
    deltas: tuple[Delta, ...]  # by family
    series: tuple[SeriesDelta, ...]
    note: str


def comparisons(evidence: Evidence) -> list[Comparison]:
    """All comparators with at least one series in common; empty without a judged policy."""
    judged, form = evidence.judged, evidence.form
    if judged is None:
        return []
    asked = {
        (str(r.get("family")), str(r.get("comparator"))): r.get("pass") is True
        for r in evidence.get("gate") or []
        if r.get("comparator") is not None
    }
    stored = {(str(d.get("family")), str(d.get("comparator"))): d for d in evidence.get("deltas") or []}
    # As in the gate: a window without a figure is not left out, it leaves its series and family without a bound.
    own = series_means(evidence.shown, judged, figure_of(evidence.metric), strict=True)
    out = []
    for who in evidence.policies:
        if who == judged or who in REFERENCES:
            continue
        other = series_means(evidence.shown, who, figure_of(evidence.metric), strict=True)
        found = _series(own, other, form)
        if not any(math.isfinite(s.delta) for s in found):
            continue
        deltas = []
        for family in sorted({s.family for s in found}):
            each = tuple(s.delta for s in found if s.family == family)
            made = stored.get((family, who)) or _bounds(evidence, family, who, each)
            mean = made.get("mean")
            deltas.append(
                Delta(
                    family,
                    math.nan if mean is None else mean,
                    student=made.get("student"),
                    bootstrap=made.get("bootstrap"),
                    percentile=made.get("percentile"),
                    upper=made.get("upper"),
                    passed=asked.get((family, who)),
                    each=each,
                )
            )
        gated = any(comparator == who for _, comparator in asked)
        out.append(Comparison(who, gated, tuple(deltas), tuple(found), _note(evidence, who)))
    return out


def _bounds(evidence: Evidence, family: str, who: str, each: tuple[float, ...]) -> dict[str, float | None]:
    """For suites without a protocol, whose manifests hold no deltas."""
    made = bounds(each, bootstrap_key(evidence.seed, evidence.suite, family, who))._asdict()
    return {name: float(value) if math.isfinite(value) else None for name, value in made.items()}


def _series(own: dict[str, dict[str, float]], other: dict[str, dict[str, float]], form: str) -> list[SeriesDelta]:
    out = []
    for family, of in own.items():
        for series, value in of.items():
            theirs = other[family][series]
            out.append(SeriesDelta(family, series, value, theirs, scale_free_delta(value, theirs, form)))
    return out


def _note(evidence: Evidence, who: str) -> str:
    """The secondary audit in a sentence."""
    row = next((r for r in evidence.get("secondary") or [] if r.get("comparator") == who), None)
    if row is None or row.get("mean") is None or row.get("families", 0) < 2:
        return ""
    head = f"Equal mean of {count_text(row['families'], 'family', 'families')} {signed(row['mean'])}"
    if row.get("low") is None or row.get("high") is None:
        return f"{head}; one data set, so there is no interval over data sets."
    clusters = count_text(row["clusters"], "data set")
    return f"{head}; 95 % interval over {clusters} {signed(row['low'])} to {signed(row['high'])}."
