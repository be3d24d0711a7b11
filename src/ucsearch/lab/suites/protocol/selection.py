"""Choice on validation: a pure function of validation rows, written down before the test split is opened.

Eligible: no violations, certificate rate at least 0.95, risk-active rate at least 0.95 in the weakest family. Among
eligible candidates the largest weakest-family slack decides, then the largest minimum over families and gate
comparators of the mean delta, then utility, then the candidate's id. A suite that asks for no promotion has no
certificates to go by: there the largest utility among violation-free candidates decides, then the smaller risk.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ucsearch.errors import InputError
from ucsearch.lab.suites.evidence.rows import Row, row_bytes, windows_of
from ucsearch.lab.suites.protocol.comparison import COMPARATORS, SHARE, TIE, Protocol, finite
from ucsearch.lab.suites.protocol.rates import (
    equal_mean,
    family_deltas,
    family_rates,
    family_utility,
    overall_rate,
    violations,
    weakest,
)
from ucsearch.replay.statistics import mean

__all__ = ["SCHEMA", "declare", "select"]

SCHEMA = "ucsearch.selection/1"
Candidate = Mapping[str, Any]
_CRITERIA = (
    ("slack", "weakest-family risk-active slack"), ("margin", "smallest family margin"), ("utility", "utility"),
)  # fmt: skip


def select(
    rows: Sequence[Row], protocol: Protocol, candidates: Sequence[Candidate], *, card_sha256: str, suite_sha256: str
) -> dict[str, Any]:
    """The selection record. `candidates` are objects with `id`, `risk` (λ) and whatever else defines them.

    Only rows of split `validation` are looked at. If nobody is eligible, the violation-free candidate of the largest
    utility is run all the same, but cannot be certified; if nobody is violation-free, `candidate` is null.
    """
    validation = [row for row in rows if row["split"] == "validation"]
    if not validation:
        raise InputError("rows", "no validation row", "validation rows to choose by")
    judged = [_judge(validation, protocol, candidate) for candidate in _checked(candidates)]
    eligible = [c for c in judged if c["eligible"]]
    clean = [c for c in judged if c["figures"]["violations"] == 0]
    if eligible:
        criteria = _CRITERIA if protocol.gate else _CRITERIA[-1:]
        tied = eligible
        for criterion, _ in criteria:
            tied = _best(tied, criterion)
        chosen = min(tied, key=lambda c: (0.0 if protocol.gate else c["risk"], str(c["id"])))
        reason = _why(chosen, eligible, criteria, len(judged))
    elif clean:
        chosen = min(_best(clean, "utility"), key=lambda c: str(c["id"]))
        reason = (
            f"none of {len(judged)} candidates is eligible; {chosen['id']} has the largest utility among those without "
            "violations and is run, but cannot be certified"
        )
    else:
        chosen, reason = None, f"all {len(judged)} candidates break rules or do not say; nothing can be run"
    return _record(protocol, card_sha256, suite_sha256, validation, judged, chosen, "selected", reason)


def declare(protocol: Protocol, candidate: Candidate, *, card_sha256: str, suite_sha256: str) -> dict[str, Any]:
    """The record of a suite that fixes its policy beforehand and has nothing to choose. It cannot be certified."""
    (only,) = _checked([candidate])
    declared = {"id": only["id"], "risk": only["risk"], "settings": dict(only), "figures": {}, "eligible": False}
    declared["reasons"] = ["declared by the suite, not chosen on validation"]
    reason = f"the suite declares {only['id']}; there was nothing to choose"
    return _record(protocol, card_sha256, suite_sha256, [], [declared], declared, "declared", reason)


def _checked(candidates: Sequence[Candidate]) -> list[Candidate]:
    seen: set[str] = set()
    for i, candidate in enumerate(candidates):
        name, risk = candidate.get("id"), candidate.get("risk")
        if not isinstance(name, str) or not name or name in seen:
            raise InputError("candidates", repr(name), "an id of its own", index=(i, "id"))
        if isinstance(risk, bool) or not isinstance(risk, (int, float)) or not 0.0 <= risk < math.inf:
            raise InputError("candidates", repr(risk), "a finite number from 0 up", index=(i, "risk"))
        seen.add(name)
    if not candidates:
        raise InputError("candidates", "none", "at least one")
    return sorted(candidates, key=lambda c: str(c["id"]))


def _judge(rows: Sequence[Row], protocol: Protocol, candidate: Candidate) -> dict[str, Any]:
    windows = windows_of(rows, "validation", candidate["id"])
    passed = family_rates(windows, protocol.families, "passed")
    active = family_rates(windows, protocol.families, "risk_active")
    deltas = {
        family: {other: mean(family_deltas(windows, family, other, protocol)) for other in COMPARATORS}
        for family in protocol.families
    }
    all_deltas = [d for by_comparator in deltas.values() for d in by_comparator.values()]
    figures = {
        "violations": violations(windows, protocol.policy),
        "certificate": overall_rate(windows, protocol.families, "passed"),
        "risk_active": overall_rate(windows, protocol.families, "risk_active"),
        "risk_active_weakest": weakest(active),
        "slack": weakest(active) - SHARE,
        "margin": min(all_deltas) if all(map(math.isfinite, all_deltas)) else math.nan,
        "utility": equal_mean(family_utility(windows, protocol)),
    }
    reasons = []
    if figures["violations"] != 0:
        reasons.append(f"violations {_shown(figures['violations'])}, expected 0")
    if protocol.gate and not figures["certificate"] >= SHARE:
        reasons.append(f"certificate rate {_shown(figures['certificate'])}, expected at least {SHARE}")
    if protocol.gate and not weakest(active) >= SHARE:
        reasons.append(f"weakest-family risk-active rate {_shown(weakest(active))}, expected at least {SHARE}")
    return {
        "id": candidate["id"],
        "risk": candidate["risk"],
        "settings": dict(candidate),
        "figures": {
            **{name: finite(value) for name, value in figures.items()},
            "families": {
                family: {
                    "certificate": finite(passed[family]),
                    "risk_active": finite(active[family]),
                    "deltas": {other: finite(value) for other, value in deltas[family].items()},
                }
                for family in protocol.families
            },
        },
        "eligible": not reasons,
        "reasons": reasons,
    }


def _best(candidates: Sequence[dict[str, Any]], criterion: str) -> list[dict[str, Any]]:
    """Those that tie with the largest figure; a figure that is missing loses to any number."""
    figures = [_or_least(c["figures"][criterion]) for c in candidates]
    top = max(figures)
    return [c for c, figure in zip(candidates, figures, strict=True) if figure == top or top - figure < TIE]


def _why(
    chosen: dict[str, Any], eligible: Sequence[dict[str, Any]], criteria: Sequence[tuple[str, str]], count: int
) -> str:
    """The first criterion that left the chosen one alone."""
    text = f"{len(eligible)} of {count} candidates are eligible"
    tied = list(eligible)
    for criterion, name in criteria:
        tied = _best(tied, criterion)
        if len(tied) == 1:
            return f"{text}; {chosen['id']} has the largest {name} ({_shown(chosen['figures'][criterion])})"
    return f"{text}; {chosen['id']} comes first among {len(tied)} equals"


def _record(
    protocol: Protocol,
    card_sha256: str,
    suite_sha256: str,
    rows: Sequence[Row],
    candidates: Sequence[dict[str, Any]],
    chosen: dict[str, Any] | None,
    how: str,
    reason: str,
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "how": how,
        "suite": protocol.suite,
        "suite_sha256": suite_sha256,
        "card_sha256": card_sha256,
        "protocol": protocol.as_json(),
        "rows_sha256": hashlib.sha256(row_bytes(rows)).hexdigest(),
        "candidates": list(candidates),
        "candidate": None if chosen is None else chosen["id"],
        "risk": None if chosen is None else chosen["risk"],
        "eligible": chosen is not None and chosen["eligible"],
        "reason": reason,
    }


def _or_least(value: float | None) -> float:
    return -math.inf if value is None else value


def _shown(value: float | None) -> str:
    return "unknown" if value is None or not math.isfinite(value) else f"{value:.6g}"
