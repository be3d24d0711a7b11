"""A decision as one canonical record with its blobs, and the log that writes it before the action is handed over.

The layout is described field by field in docs/certificate.md, well enough to write another verifier from.
"""

from __future__ import annotations

import dataclasses
import math
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import numpy as np

from ucsearch.dispatch.decision import Decision, DecisionPanel
from ucsearch.errors import RecordError
from ucsearch.policies import Policy
from ucsearch.records.audit import AuditLog as ChainedLog
from ucsearch.records.audit import Entry
from ucsearch.records.blobs import blob_id, encode_array
from ucsearch.records.canonical import encode_number, seal
from ucsearch.task import Task
from ucsearch.trace import Trace

__all__ = ["SCHEMA", "AuditLog", "decision_record"]

SCHEMA = "ucsearch.decision/2"
_BATCH = 1_000

Blobs = dict[str, bytes]


def decision_record(
    decision: Decision, *, series: str = "", where: str = "", recalibration: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], Blobs]:
    """The sealed record of `decision` and the blobs it refers to. `where` names the task object, "package:object";
    `recalibration` is how its members came about (its own blobs are the caller's to add)."""
    c = decision.certificate
    if c is None:
        return _refusal(decision, series), {}
    plan = c.plan
    blobs: Blobs = {}
    task, layout, settings = plan.task, plan.layout, plan.settings
    w = plan.window
    claim = {k: _value(v) for k, v in vars(c).items() if k not in ("plan", "rivals", "action", "node_budget")}
    record = {
        "schema": SCHEMA,
        "kind": "decision",
        "series": series,
        "task": {
            "name": task.name,
            "version": task.version,
            "source_hash": task.source_hash,
            "object": where or _where(task),
            "actions": [_value(a) for a in plan.actions],
            "labels": [task.label(i, a) for i, a in enumerate(plan.actions)],
        },
        "inputs": {
            "state": [_value(x) for x in plan.inputs.states[w].tolist()],
            "state_lengths": list(layout.lengths),
            "params": [_value(x) for x in plan.inputs.params[w if plan.inputs.params.shape[0] > 1 else 0].tolist()],
            "params_lengths": [] if task.params_layout is None else list(task.params_layout.lengths),
            "trace": _trace(plan.trace, blobs),
        },
        "settings": {
            "policy": type(plan.policy).__name__,
            **{k: _value(v) for k, v in settings._asdict().items()},
            **_route_settings(plan.policy),
            "kind": c.kind,
            "eps_m": _value(c.eps_m),
            "proof_budget": c.node_budget,
        },
        "claim": claim,
        "rivals": [{k: _value(v) for k, v in vars(r).items()} for r in c.rivals],
        "gate": {
            "settings": {k: _value(v) for k, v in vars(decision.gate).items()},
            "rows": [
                {
                    "name": r.name,
                    "left": _value(r.left),
                    "operator": r.operator,
                    "right": _value(r.right),
                    "pass": r.passed,
                }
                for r in decision.rows
            ],
            "now": decision.now,
            "elapsed_s": _value(decision.context.elapsed_s),
            "calibration": {k: _value(v) for k, v in vars(decision.context.calibration).items()},
        },
        "outcome": _outcome(decision),
        "versions": _versions(),
    }
    if recalibration is not None:
        record["recalibration"] = {k: _value(v) for k, v in recalibration.items()}
    return seal(record), blobs


def _where(task: Task) -> str:
    """ "module:name" of the task where its functions live, so that a verifier can find it; "" when it has no name."""
    module = getattr(task.feasible, "__module__", "") or ""
    for name, value in vars(sys.modules.get(module, sys)).items():
        if value is task and module != "__main__":
            return f"{module}:{name}"
    return ""


def _outcome(decision: Decision) -> dict[str, Any]:
    return {
        "outcome": decision.outcome.value,
        "action": _value(decision.action),
        "reason": decision.reason.value,
        "cause": decision.cause.value,
        "sentence": decision.sentence,
        "pass_kind": decision.pass_kind,
        "release_margin": _value(decision.release_margin),
        "regret_bound": _value(decision.regret_bound),
        "rejected_action": _value(decision.rejected_action),
        "fallback_action": _value(decision.fallback_action),
        "fallback_feasible": decision.fallback_feasible,
        "fallback_cost": _value(decision.fallback_cost),
    }


def _refusal(decision: Decision, series: str) -> dict[str, Any]:
    """A trace that was refused leaves no inputs to re-derive from: the refusal itself is kept."""
    return seal(
        {
            "schema": "ucsearch.refusal/1",
            "kind": "refusal",
            "series": series,
            "gate": {"settings": {k: _value(v) for k, v in vars(decision.gate).items()}, "now": decision.now},
            "outcome": _outcome(decision),
            "versions": _versions(),
        }
    )


@lru_cache(maxsize=1)
def _version() -> str:
    return version("ucsearch")


def _versions() -> dict[str, str]:
    return {"ucsearch": _version(), "python": platform.python_version(), "numpy": np.__version__}


def _route_settings(policy: Policy) -> dict[str, Any]:
    names = ("protect", "near_equal", "band", "utility_budget")
    return {name: _value(getattr(policy, name)) for name in names if hasattr(policy, name)}


def _trace(trace: Trace, blobs: Blobs) -> dict[str, Any]:
    out: dict[str, Any] = {"hash": trace.hash, "meta": trace.meta()}
    for name in ("members", "weights", "mean", "q", "u"):
        array = getattr(trace, name)
        blob = encode_array(array, finite=False)
        sha = blob_id(blob)
        blobs[sha] = blob
        out[name] = {"$blob": sha}
    return out


def _value(value: Any) -> Any:
    """JSON-able: NaN is null, unbounded numbers and big integers are strings, -0.0 is 0."""
    if isinstance(value, bool | str) or value is None:
        return value
    if isinstance(value, float | np.floating):
        number = float(value)
        return None if math.isnan(number) else encode_number(number + 0.0)
    if isinstance(value, int | np.integer):
        return encode_number(int(value))
    if isinstance(value, Mapping):
        return {str(k): _value(v) for k, v in value.items()}
    if isinstance(value, Sequence):
        return [_value(v) for v in value]
    if dataclasses.is_dataclass(value):
        return {k: _value(v) for k, v in vars(value).items()}
    raise RecordError(f"cannot record a {type(value).__name__}")


class AuditLog(ChainedLog):
    """The append-only log of decisions. `write` returns after the commit, so what it returned is on disk."""

    def write(
        self, decisions: Decision | DecisionPanel, *, series: Sequence[str] | str = "", where: str = ""
    ) -> list[Entry]:
        """Append one decision, or a panel's in transactions of a thousand."""
        if isinstance(decisions, Decision):
            return [self.append(*decision_record(decisions, series=str(series), where=where))]
        names = [series] * len(decisions) if isinstance(series, str) else list(series)
        if len(names) != len(decisions):
            raise RecordError(f"series: saw {len(names)} names, expected {len(decisions)}, one per decision")
        entries: list[Entry] = []
        for lo in range(0, len(decisions), _BATCH):
            records: list[dict[str, Any]] = []
            blobs: Blobs = {}
            for w in range(lo, min(lo + _BATCH, len(decisions))):
                record, own = decision_record(decisions[w], series=names[w], where=where)
                records.append(record)
                blobs.update(own)
            entries.extend(self.append_batch(records, blobs))
        return entries


def records_of(panel: DecisionPanel, where: str = "") -> Iterator[tuple[dict[str, Any], Blobs]]:
    """Records of a panel one by one, for callers that keep their own log."""
    for w in range(len(panel)):
        yield decision_record(panel[w], where=where)
