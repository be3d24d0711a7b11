"""The value gate: is the tool worth using where a practitioner has something simpler? Beside the paper's gate.

The judged policy is the candidate of the lowest realised cost on validation, of any mode and any λ. It must be proved
in at least 0.95 of decisions (exact proofs only), break no rule, and in every family not be behind any of the declared
practitioners, each tuned on the same validation windows: a lower bound above 0 (superiority) or above minus a margin of
at most 1 % (non-inferiority). Samplers at equal time must be beaten. The lower bound is the smallest of Student-t,
bootstrap-t and, where a family has at least three clusters, the bound by clusters.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ucsearch.errors import InputError
from ucsearch.lab.suites.evidence.rows import Row, Window, sort_rows, windows_of
from ucsearch.lab.suites.gates.power import LEAST_POWER, Power, power
from ucsearch.lab.suites.protocol.comparison import SHARE, TIE, Protocol, finite, gate_row, holds
from ucsearch.lab.suites.protocol.rates import by_series, overall_rate, run_on, violations
from ucsearch.replay.statistics import LEAST, LEVEL, bootstrap_key, bounds, mean, scale_free_delta
from ucsearch.student import student_quantile

__all__ = [
    "FALLBACK",
    "HINDSIGHT",
    "MOST_MARGIN",
    "POLICY",
    "TIMED",
    "ValueQuestion",
    "choose_by_cost",
    "cluster_lower",
    "floors_of",
    "is_worth_using",
    "value_conclusion",
    "value_deltas",
    "value_power",
    "value_record",
]

POLICY = "value"
"""Under this name the judged policy stands in rows."""
TIMED = ("cem-time", "mppi-time", "risk-random-time")
"""The samplers, given as much time as the judged policy."""
HINDSIGHT, FALLBACK = "hindsight", "fallback"
MOST_MARGIN = 0.01
KINDS = ("value_selected", "value_certificate", "value_violations", "practitioner", "sampler")
"""Conditions of the gate; one that lacks some of them does not pass."""

Value = Mapping[str, Any]


@dataclass(frozen=True)
class ValueQuestion:
    """Is every practitioner beaten, or equalled to within the margin, in every family?"""

    practitioners: Mapping[str, Mapping[str, Any]]  # by name, as they were tuned
    margin: float

    def record(
        self, rows: Sequence[Row], protocol: Protocol, candidates: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """What is written down before the test is opened."""
        return value_record(rows, protocol, candidates, self.margin, self.practitioners)


def choose_by_cost(rows: Sequence[Row], protocol: Protocol, candidates: Sequence[Mapping[str, Any]]) -> str | None:
    """The candidate of the largest utility on validation, equal mean over families, among those that broke no rule and
    are proved in 0.95 of decisions; ties go to the first id. None if there is none."""
    best: tuple[float, str] | None = None
    for candidate in sorted(candidates, key=lambda c: str(c["id"])):
        windows = windows_of(rows, "validation", candidate["id"])
        proved = overall_rate(windows, protocol.families, "passed")
        if violations(windows, protocol.policy) != 0.0 or not proved >= SHARE:
            continue
        by_family = [mean(list(by_series(windows, f, protocol.policy, protocol.utility).values()))
                     for f in protocol.families]  # fmt: skip
        utility = mean(by_family) if all(map(math.isfinite, by_family)) else math.nan
        if math.isfinite(utility) and (best is None or utility > best[0] + TIE):
            best = (utility, str(candidate["id"]))
    return None if best is None else best[1]


# -------------------------------------------------------------------- deltas


def value_deltas(
    windows: Sequence[Window], family: str, opponent: str, protocol: Protocol, policy: str = POLICY
) -> dict[str, float]:
    """By series, its windows averaged first: how much better the policy is. Positive is better.

    Costs: the scale-free delta. Rewards: the difference divided by what could be had at all, hindsight minus fallback;
    a sum of sizes would explode where rewards are near 0. NaN where that is not above 0 or a figure is missing.
    A series that the opponent was not run on takes no part.
    """
    compared = run_on(windows, family, opponent)
    by_policy = by_series(windows, family, policy, protocol.metric)
    own_figures = {series: value for series, value in by_policy.items() if series in compared}
    their_figures = by_series(windows, family, opponent, protocol.metric)
    if protocol.form == "cost":
        return {s: scale_free_delta(own_figures[s], their_figures[s], "cost") for s in sorted(own_figures)}
    best = by_series(windows, family, HINDSIGHT, protocol.metric)
    least = by_series(windows, family, FALLBACK, protocol.metric)
    out = {}
    for s in sorted(own_figures):
        room = best[s] - least[s]
        out[s] = (own_figures[s] - their_figures[s]) / room if room > 0.0 else math.nan
    return out


def floors_of(value: Value) -> dict[str, float]:
    """What the lower bound against each opponent must exceed. Practitioners first, then samplers at equal time."""
    margin = value["margin"]
    if not (isinstance(margin, (int, float)) and 0.0 <= margin <= MOST_MARGIN):
        raise InputError("value_gate.margin", margin, f"from 0 to {MOST_MARGIN}")
    if not value["practitioners"]:
        raise InputError("practitioners", "none", "at least one; a gate without an opponent proves nothing")
    floors = {}
    for name, practitioner in value["practitioners"].items():
        if practitioner["endpoint"] not in ("superiority", "non-inferiority"):
            raise InputError(
                "practitioners", repr(practitioner["endpoint"]), "superiority or non-inferiority", index=name
            )
        floors[name] = 0.0 if practitioner["endpoint"] == "superiority" else -float(margin)
    return floors | dict.fromkeys(TIMED, 0.0)


# -------------------------------------------------------------------- power and gate


def value_power(rows: Sequence[Row], protocol: Protocol, value: Value, series: Mapping[str, int]) -> Power:
    """From the validation rows: the chosen candidate against practitioners and timed samplers there."""
    windows = []
    for w, row in zip(windows_of(rows, "validation", value["candidate"]), _validation(rows), strict=True):
        # The judged policy stands among the candidates, its opponents in the row itself.
        judged = w.policies.get(protocol.policy, {})
        windows.append(w._replace(policies={**(row.get("policies") or {}), POLICY: judged}))
    floors = floors_of(value)
    deltas = {
        family: {name: list(value_deltas(windows, family, name, protocol).values()) for name in floors}
        for family in protocol.families
    }
    return power(deltas, floors, series, seed=protocol.seed, name=protocol.suite)


def _validation(rows: Sequence[Row]) -> list[Row]:
    return sort_rows(row for row in rows if row["split"] == "validation")


def value_record(
    rows: Sequence[Row],
    protocol: Protocol,
    candidates: Sequence[Mapping[str, Any]],
    margin: float,
    practitioners: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """What goes into the selection record: the choice by cost, the opponents as they were tuned, and the power."""
    record: dict[str, Any] = {
        "candidate": choose_by_cost(rows, protocol, candidates),
        "margin": margin,
        "practitioners": {name: dict(one) for name, one in practitioners.items()},
    }
    validation = _validation(rows)
    sizes = {f: len({row["series"] for row in validation if row["family"] == f}) for f in protocol.families}
    # Without a policy to judge nothing can pass; without series neither.
    possible = record["candidate"] is not None and all(sizes.values())
    estimated = (
        value_power(rows, protocol, record, sizes) if possible else Power(0.0, dict.fromkeys(protocol.families, 0.0))
    )
    return record | {
        "series": sizes, "power": estimated.all, "power_by_family": estimated.families,
        "underpowered": not estimated.all >= LEAST_POWER,
    }  # fmt: skip


def value_conclusion(rows: Sequence[Row], protocol: Protocol, value: Value) -> dict[str, Any]:
    """Conditions, deltas with both intervals, and what is only reported."""
    windows = windows_of(rows, "test")
    clusters = {(row["family"], row["series"]): row.get("cluster") for row in rows if row["split"] == "test"}
    floors = floors_of(value)
    deltas = [
        _delta_row(windows, family, name, protocol, clusters, floors[name])
        for family in sorted(protocol.families)
        for name in floors
    ]
    return {
        "candidate": value["candidate"],
        "power": value["power"],
        "underpowered": value["underpowered"],
        "uncertainty_active": finite(overall_rate(windows, protocol.families, "uncertainty_active", POLICY)),
        "deltas": deltas,
        "gate": [
            gate_row("value_selected", 0 if value["candidate"] is None else 1, "==", 1),
            gate_row("value_certificate", overall_rate(windows, protocol.families, "passed", POLICY), ">=", SHARE),
            gate_row("value_violations", violations(windows, POLICY), "==", 0),
            *(
                gate_row(
                    "sampler" if d["opponent"] in TIMED else "practitioner", d["lower"], ">", d["floor"],
                    family=d["family"], comparator=d["opponent"],
                )
                for d in deltas
            ),
        ],
    }  # fmt: skip


def _delta_row(
    windows: Sequence[Window],
    family: str,
    opponent: str,
    protocol: Protocol,
    clusters: Mapping[tuple[str, str], str | None],
    floor: float,
) -> dict[str, Any]:
    deltas = value_deltas(windows, family, opponent, protocol)
    values = list(deltas.values())
    b = bounds(values, bootstrap_key(protocol.seed, protocol.suite, "value", family, opponent))
    # A series without a declared cluster stands alone.
    names = [str(clusters.get((family, s)) or f"series {s}") for s in deltas]
    declared = any(clusters.get((family, s)) for s in deltas)
    by_cluster = cluster_lower(values, names) if declared else None
    return {
        "family": family,
        "opponent": opponent,
        "series": b.n,
        "better": sum(d > 0.0 for d in values),
        "mean": finite(b.mean),
        "by_series": finite(b.lower),
        "clusters": len(set(names)) if declared else None,
        "by_cluster": by_cluster,
        "lower": finite(b.lower if by_cluster is None else min(b.lower, by_cluster)),
        "upper": finite(b.upper),
        "floor": floor,
    }


def cluster_lower(values: Sequence[float], clusters: Sequence[str], *, level: float = LEVEL) -> float | None:
    """One-sided Student-t bound with the cluster-robust error of the mean and as many degrees of freedom as clusters
    less one; None where there are fewer than three clusters or a value is not finite.

    With every value a cluster of its own it is the ordinary Student-t bound.
    """
    names = sorted(set(clusters))
    if len(values) != len(clusters) or len(names) < LEAST or not all(map(math.isfinite, values)):
        return None
    centre = mean(list(values))
    totals = dict.fromkeys(names, 0.0)
    for value, name in zip(values, clusters, strict=True):
        totals[name] += value - centre
    groups = len(names)
    error = math.sqrt(math.fsum(t * t for t in totals.values()) * groups / (groups - 1)) / len(values)
    return centre - student_quantile(level, groups - 1) * error


def is_worth_using(conclusion: Mapping[str, Any] | None, looks: int) -> bool:
    """Whether every kind of condition is there, all hold by their own figures, and the test split was opened once."""
    if conclusion is None:
        return False
    gate = conclusion["gate"]
    whole = set(KINDS) <= {row["name"] for row in gate}
    return (
        whole
        and looks == 1
        and all(row["pass"] is True and holds(row["left"], row["op"], row["right"]) for row in gate)
    )
