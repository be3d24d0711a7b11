"""Evaluation: suites, splits, selection, promotion gate, claims, evidence. Names are loaded when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ucsearch.lazy import lazy_names

if TYPE_CHECKING:
    from ucsearch.lab.suites.claims import ClaimError as ClaimError
    from ucsearch.lab.suites.claims import claim as claim
    from ucsearch.lab.suites.claims import classify as classify
    from ucsearch.lab.suites.claims import status_rows as status_rows
    from ucsearch.lab.suites.claims import supports as supports
    from ucsearch.lab.suites.derive import conclude as conclude
    from ucsearch.lab.suites.manifest import Evidence as Evidence
    from ucsearch.lab.suites.manifest import read_evidence as read_evidence
    from ucsearch.lab.suites.manifest import write_evidence as write_evidence
    from ucsearch.lab.suites.promotion import gate_rows as gate_rows
    from ucsearch.lab.suites.protocol import Protocol as Protocol
    from ucsearch.lab.suites.recheck import verify_evidence as verify_evidence
    from ucsearch.lab.suites.rows import EvidenceError as EvidenceError
    from ucsearch.lab.suites.run import evaluate as evaluate
    from ucsearch.lab.suites.selection import select as select
    from ucsearch.lab.suites.suite import Suite as Suite
    from ucsearch.lab.suites.suite import load_suite as load_suite
    from ucsearch.lab.suites.suite import suite_names as suite_names

_HOME = {
    "ClaimError": "claims",
    "Evidence": "manifest",
    "EvidenceError": "rows",
    "Protocol": "protocol",
    "Suite": "suite",
    "claim": "claims",
    "classify": "claims",
    "conclude": "derive",
    "evaluate": "run",
    "gate_rows": "promotion",
    "load_suite": "suite",
    "read_evidence": "manifest",
    "select": "selection",
    "status_rows": "claims",
    "suite_names": "suite",
    "supports": "claims",
    "verify_evidence": "recheck",
    "write_evidence": "manifest",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazy_names(__name__, _HOME)
