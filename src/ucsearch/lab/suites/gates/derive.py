"""Everything in a predicate that follows from rows, selection and looks: written by the runner, repeated by recheck."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict, Unpack

from ucsearch.lab.suites.evidence.rows import Row, sort_rows
from ucsearch.lab.suites.evidence.tables import check_row, fill
from ucsearch.lab.suites.gates.claims import classify
from ucsearch.lab.suites.gates.primary import GATE
from ucsearch.lab.suites.gates.primary import value_conclusion as primary_conclusion
from ucsearch.lab.suites.gates.promotion import delta_rows, gate_rows, secondary_rows
from ucsearch.lab.suites.gates.value import value_conclusion
from ucsearch.lab.suites.protocol.audit import audit_rows, is_stopped
from ucsearch.lab.suites.protocol.comparison import Protocol
from ucsearch.records.canonical import canonical

__all__ = ["DERIVED", "FACTS", "Given", "conclude", "derive"]

FACTS = (
    "suite", "kind", "title", "endpoint", "settings", "card", "data", "splits", "seeds", "versions", "protocol",
    "extra",
)  # fmt: skip
"""Members of a predicate that a run states."""

DERIVED = (
    "selection",
    "looks",
    "earlier",
    "tables",
    "deltas",
    "secondary",
    "gate",
    "value",
    "audit",
    "checks",
    "verdict",
)
"""Members that follow from the files beside the manifest; tables and checks bring their specification along."""


class Given(TypedDict):
    """What derived members follow from, besides facts and rows."""

    tables: Sequence[Mapping[str, Any]]  # specifications; figures they hold already are computed again
    checks: Sequence[Mapping[str, Any]]  # likewise
    selection: Mapping[str, Any] | None
    looks: int  # from the ledger: openings of this suite's test split
    earlier: NotRequired[Sequence[Mapping[str, Any]]]  # from the ledger: periods that others opened before


def derive(facts: Mapping[str, Any], rows: Sequence[Row], **given: Unpack[Given]) -> dict[str, Any]:
    """The derived members."""
    rows, selection = sort_rows(rows), given["selection"]
    filled = [fill(spec, rows) for spec in given["tables"]]
    audit = audit_rows(rows)
    deltas: list[dict[str, Any]] = []
    secondary: list[dict[str, Any]] = []
    gate: list[dict[str, Any]] = []
    value: dict[str, Any] | None = None
    # A route that nobody could run has an empty test split and fails every condition; one that was stopped has no gate.
    if facts["protocol"] is not None and not is_stopped(audit):
        protocol = Protocol.from_json(facts["protocol"])
        deltas, secondary = delta_rows(rows, protocol), secondary_rows(rows, protocol)
        gate = gate_rows(rows, protocol, selection, deltas) if protocol.gate else []
        if selection is not None and "value" in selection:
            own = primary_conclusion if selection["value"].get("gate") == GATE else value_conclusion
            value = own(rows, protocol, selection["value"])
    derived = {
        "selection": None if selection is None else _chosen(selection),
        "looks": given["looks"],
        "earlier": [dict(one) for one in given.get("earlier", ())],
        "tables": filled,
        "deltas": deltas,
        "secondary": secondary,
        "gate": gate,
        "value": value,
        "audit": audit,
        "checks": [check_row(spec, filled) for spec in given["checks"]],
    }
    return {**derived, "verdict": classify({**facts, **derived}, rows)}


def conclude(facts: Mapping[str, Any], rows: Sequence[Row], **given: Unpack[Given]) -> dict[str, Any]:
    """A whole predicate: the facts and what follows from them."""
    own = {name: facts[name] for name in FACTS}
    return {**own, **derive(own, rows, **given)}


def _chosen(selection: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "candidate": selection["candidate"],
        "risk": selection["risk"],
        "sha256": hashlib.sha256(canonical(selection)).hexdigest(),
        **({"power": selection["power"]["all"]} if "power" in selection else {}),
    }
