"""Evaluation: suites, splits, selection, promotion gate, claims, evidence. Names are loaded when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ucsearch.lazy import lazy_names

if TYPE_CHECKING:
    from ucsearch.lab.suites.evidence.manifest import Evidence as Evidence
    from ucsearch.lab.suites.evidence.manifest import read_evidence as read_evidence
    from ucsearch.lab.suites.evidence.manifest import write_evidence as write_evidence
    from ucsearch.lab.suites.evidence.rows import EvidenceError as EvidenceError
    from ucsearch.lab.suites.gates.claims import ClaimError as ClaimError
    from ucsearch.lab.suites.gates.claims import claim as claim
    from ucsearch.lab.suites.gates.claims import classify as classify
    from ucsearch.lab.suites.gates.claims import status_rows as status_rows
    from ucsearch.lab.suites.gates.claims import supports as supports
    from ucsearch.lab.suites.gates.derive import conclude as conclude
    from ucsearch.lab.suites.gates.promotion import gate_rows as gate_rows
    from ucsearch.lab.suites.protocol.comparison import Protocol as Protocol
    from ucsearch.lab.suites.protocol.selection import select as select
    from ucsearch.lab.suites.recheck.verify import verify_evidence as verify_evidence
    from ucsearch.lab.suites.run import evaluate as evaluate
    from ucsearch.lab.suites.suite import Suite as Suite
    from ucsearch.lab.suites.suite import load_suite as load_suite
    from ucsearch.lab.suites.suite import suite_names as suite_names

_HOME = {
    "ClaimError": "gates.claims",
    "Evidence": "evidence.manifest",
    "EvidenceError": "evidence.rows",
    "Protocol": "protocol.comparison",
    "Suite": "suite",
    "claim": "gates.claims",
    "classify": "gates.claims",
    "conclude": "gates.derive",
    "evaluate": "run",
    "gate_rows": "gates.promotion",
    "load_suite": "suite",
    "read_evidence": "evidence.manifest",
    "select": "protocol.selection",
    "status_rows": "gates.claims",
    "suite_names": "suite",
    "supports": "gates.claims",
    "verify_evidence": "recheck.verify",
    "write_evidence": "evidence.manifest",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazy_names(__name__, _HOME)
