"""The promotion gate: a pure function of test rows, the protocol and the selection. All conditions, or nothing.

The unit is the series (its windows averaged first), deltas are scale-free, and a family's lower bound is the smaller
of the one-sided 97.5 % Student-t and bootstrap-t bounds. Every bound must be positive, so no correction for their
number is needed (intersection-union): one false condition alone keeps the gate shut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ucsearch.lab.suites.evidence.rows import Row, Window, windows_of
from ucsearch.lab.suites.protocol.comparison import COMPARATORS, SHARE, Protocol, finite, gate_row
from ucsearch.lab.suites.protocol.rates import family_deltas, family_rates, overall_rate, violations
from ucsearch.replay.statistics import bootstrap_key, bounds, cluster_interval, mean

__all__ = ["KINDS", "clusters_of", "delta_rows", "gate_rows", "is_promoted", "secondary_rows"]

KINDS = (
    "selected_risk", "selection_eligible", "certificate", "risk_active", "risk_active_family", "violations",
    "lower_bound",
)  # fmt: skip
"""Conditions of the gate; a gate that lacks one of them does not pass."""


def delta_rows(rows: Sequence[Row], protocol: Protocol) -> list[dict[str, Any]]:
    """For every family and comparator the mean delta of the test series with its bounds; null is no finite bound.

    `lower` decides, `percentile` stands beside it for comparison. `better` counts series with a positive delta.
    """
    windows = windows_of(rows, "test")
    others = _others(windows, protocol)
    rows_of_deltas = []
    for family in sorted(protocol.families):
        for comparator in [*COMPARATORS, *sorted(others - set(COMPARATORS))]:
            if comparator not in others and not protocol.gate:
                continue
            deltas = family_deltas(windows, family, comparator, protocol, few=True)
            b = bounds(deltas, bootstrap_key(protocol.seed, protocol.suite, family, comparator))
            figures = {
                "mean": b.mean, "student": b.student, "bootstrap": b.bootstrap, "lower": b.lower, "upper": b.upper,
                "percentile": b.percentile,
            }  # fmt: skip
            rows_of_deltas.append(
                {
                    "family": family,
                    "comparator": comparator,
                    "series": b.n,
                    "better": sum(d > 0.0 for d in deltas),
                    **{name: finite(value) for name, value in figures.items()},
                }
            )
    return rows_of_deltas


def secondary_rows(rows: Sequence[Row], protocol: Protocol) -> list[dict[str, Any]]:
    """The secondary audit: equal-family mean delta by comparator, with a data-set-cluster bootstrap interval."""
    windows = windows_of(rows, "test")
    audits = []
    for comparator in sorted(_others(windows, protocol)):
        means = {f: mean(family_deltas(windows, f, comparator, protocol, few=True)) for f in protocol.families}
        key = bootstrap_key(protocol.seed, protocol.suite, "*", comparator)
        figures = zip(("mean", "low", "high"), cluster_interval(means, clusters_of(protocol), key), strict=True)
        audits.append(
            {
                "comparator": comparator,
                "families": len(means),
                "clusters": len(set(clusters_of(protocol).values())),
                **{name: finite(value) for name, value in figures},
            }
        )
    return audits


def clusters_of(protocol: Protocol) -> dict[str, str]:
    """The data set of each family. LTSF is a packaging of four that have nothing to do with each other."""
    clusters = {}
    for family, dataset in protocol.families.items():
        part = family.partition("-")[2].partition("_")[0]
        clusters[family] = f"{dataset}-{part}" if dataset == "ltsf" and part else dataset
    return clusters


def _others(windows: Sequence[Window], protocol: Protocol) -> set[str]:
    return {policy for w in windows for policy in w.policies} - {protocol.policy}


def gate_rows(
    rows: Sequence[Row],
    protocol: Protocol,
    selection: Mapping[str, Any] | None,
    deltas: Sequence[Mapping[str, Any]] | None = None,
) -> list[dict[str, Any]]:
    """Every condition with its figures. `deltas`: what `delta_rows` gave, if it was computed already."""
    windows = windows_of(rows, "test")
    active = family_rates(windows, protocol.families, "risk_active")
    chosen = selection or {}
    lower = {(d["family"], d["comparator"]): d["lower"] for d in deltas or delta_rows(rows, protocol)}
    families = sorted(protocol.families)
    return [
        gate_row("selected_risk", chosen.get("risk"), ">", 0.0),
        gate_row("selection_eligible", 1 if chosen.get("eligible") is True else 0, "==", 1),
        gate_row("certificate", overall_rate(windows, protocol.families, "passed"), ">=", SHARE),
        gate_row("risk_active", overall_rate(windows, protocol.families, "risk_active"), ">=", SHARE),
        *(gate_row("risk_active_family", active[f], ">=", SHARE, family=f) for f in families),
        gate_row("violations", violations(windows, protocol.policy), "==", 0),
        *(
            gate_row("lower_bound", lower.get((family, other)), ">", 0.0, family=family, comparator=other)
            for family in families
            for other in COMPARATORS
        ),
    ]


def is_promoted(gate: Sequence[Mapping[str, Any]], looks: int) -> bool:
    """Whether every kind of condition is there, all hold, and the test split was opened once."""
    return set(KINDS) <= {row["name"] for row in gate} and all(row["pass"] is True for row in gate) and looks == 1
