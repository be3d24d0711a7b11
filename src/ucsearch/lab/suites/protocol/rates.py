"""From windows to families: rates, utilities and deltas against comparators, nulls and gaps kept visible as NaN."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction

from ucsearch.lab.suites.evidence.rows import Window
from ucsearch.lab.suites.protocol.comparison import Protocol, is_sampler
from ucsearch.replay.statistics import mean, scale_free_delta

__all__ = ["by_series", "equal_mean", "family_deltas", "family_rates", "family_utility", "overall_rate", "run_on",
           "violations", "weakest"]  # fmt: skip


def family_rates(windows: Sequence[Window], families: Iterable[str], count: str) -> dict[str, float]:
    """Share of decisions by family: decision -> window -> family. NaN where a window has none or says nothing."""
    shares = _shares(windows, families, count)
    return {family: math.nan if share is None else float(share) for family, share in shares.items()}


def overall_rate(windows: Sequence[Window], families: Iterable[str], count: str, policy: str | None = None) -> float:
    """Equal mean of the families' shares; NaN where one is. With `policy` the count stands among its metrics."""
    shares = list(_shares(windows, families, count, policy).values())
    rates = [share for share in shares if share is not None]
    return float(sum(rates) / len(rates)) if rates and len(rates) == len(shares) else math.nan


def _shares(
    windows: Sequence[Window], families: Iterable[str], count: str, policy: str | None = None
) -> dict[str, Fraction | None]:
    """As fractions: 19 of 20 is 0.95, in however many windows."""
    rates: dict[str, list[Fraction | None]] = {family: [] for family in families}
    for w in windows:
        counted = (w.certificate if policy is None else w.policies.get(policy, {})).get(count)
        if w.family in rates:
            silent = counted is None or not w.decisions
            rates[w.family].append(None if silent else Fraction(int(counted or 0), int(w.decisions or 0)))
    return {family: _mean_share(found) for family, found in rates.items()}


def _mean_share(shares: Sequence[Fraction | None]) -> Fraction | None:
    known_shares = [share for share in shares if share is not None]
    return (
        sum(known_shares, Fraction(0)) / len(known_shares)
        if known_shares and len(known_shares) == len(shares)
        else None
    )


def equal_mean(by_family: Mapping[str, float]) -> float:
    """Every family counts the same, however many windows it has."""
    return mean(list(by_family.values())) if _all_finite(by_family.values()) else math.nan


def weakest(by_family: Mapping[str, float]) -> float:
    return min(by_family.values()) if by_family and _all_finite(by_family.values()) else math.nan


def violations(windows: Sequence[Window], policy: str) -> float:
    """Actions of a policy that broke a rule; NaN where a window does not say, or there is none."""
    return math.fsum(_metric(w, policy, "violations") for w in windows) if windows else math.nan


def family_utility(windows: Sequence[Window], protocol: Protocol) -> dict[str, float]:
    """Utility of the judged policy: windows -> series -> family."""
    by_family = {f: by_series(windows, f, protocol.policy, protocol.utility) for f in protocol.families}
    return {family: mean(list(series.values())) for family, series in by_family.items()}


def family_deltas(
    windows: Sequence[Window], family: str, comparator: str, protocol: Protocol, *, few: bool = False
) -> list[float]:
    """One scale-free delta for each series of a family, its windows averaged first; positive is better.

    `few`: a sampler may have run on fewer series, and the others take no part; where it must run, `declared` says.
    """
    own_figures = by_series(windows, family, protocol.policy, protocol.metric)
    their_figures = by_series(windows, family, comparator, protocol.metric)
    compared = run_on(windows, family, comparator) if few else set(own_figures)
    return [
        scale_free_delta(own_figures[series], their_figures[series], protocol.form)
        for series in sorted(own_figures)
        if series in compared
    ]


def run_on(windows: Sequence[Window], family: str, policy: str) -> set[str]:
    """The series of a family that a policy is compared on: of a sampler those in which some window has it, of anybody
    else all, so that a missing figure is seen."""
    few = is_sampler(policy)
    return {w.series for w in windows if w.family == family and (not few or policy in w.policies)}


def by_series(windows: Sequence[Window], family: str, policy: str, metric: str) -> dict[str, float]:
    """A policy's metric in each series of a family, its windows averaged; NaN where a window does not say."""
    values_of: dict[str, list[float]] = {}
    for w in windows:
        if w.family == family:
            values_of.setdefault(w.series, []).append(_metric(w, policy, metric))
    return {series: mean(values) for series, values in values_of.items()}


def _metric(window: Window, policy: str, metric: str) -> float:
    value = window.policies.get(policy, {}).get(metric)
    return math.nan if value is None else float(value)


def _all_finite(values: Iterable[float]) -> bool:
    return all(map(math.isfinite, values))
