"""Decisions as canonical records with their blobs: the one place that says what a record holds.

The layout is described field by field in docs/reference/record.md, well enough to write another verifier from.
"""

from __future__ import annotations

import dataclasses
import math
import platform
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.metadata import version
from typing import Any, NamedTuple

import numpy as np

from ucsearch.decision.decision import Decision, DecisionPanel
from ucsearch.decision.gate import Gate
from ucsearch.errors import RecordError
from ucsearch.layout import own_row
from ucsearch.policies import Policy
from ucsearch.records.canonical import MAX_INT, blob_id, encode_array, encode_number, seal, seal_bytes
from ucsearch.records.entries import Request, Sealed, Under
from ucsearch.task import Task
from ucsearch.trace import Trace

__all__ = [
    "SCHEMA",
    "Recalibrated",
    "as_value",
    "decision_body",
    "decision_record",
    "panel_bodies",
]

SCHEMA = "ucsearch.decision/1"
REFUSAL_SCHEMA = "ucsearch.refusal/1"

Blobs = dict[str, bytes]


class Recalibrated(NamedTuple):
    """How a window's members came about: the record's member, and its blobs."""

    part: dict[str, Any]
    blobs: Blobs


def decision_body(
    decision: Decision,
    series: str,
    where: str = "",
    request: Request | None = None,
    recalibrated: Recalibrated | None = None,
    under: Under | None = None,
) -> Sealed:
    """The record of one decision, or of one whose inputs were refused."""
    part, more = (None, {}) if recalibrated is None else recalibrated
    content, blobs = unsealed_record(decision, series, where, part, request, under)
    name, body = seal_bytes(content)
    return Sealed(name, body, (*blobs, *more), {**blobs, **more}, request, decision)


def panel_bodies(
    panel: DecisionPanel,
    series: Sequence[str],
    where: str = "",
    *,
    windows: Sequence[int] | None = None,
    requests: Sequence[Request | None] | None = None,
    recalibrated: Sequence[Recalibrated] | None = None,
    under: Under | None = None,
) -> list[Sealed]:
    """The record of every window, or of those named. `series`, `requests` and `recalibrated` have one item for each."""
    chosen = range(len(panel)) if windows is None else windows
    own_requests = [None] * len(chosen) if requests is None else requests
    changes = [None] * len(chosen) if recalibrated is None else recalibrated
    for field, items_given in (("series", series), ("requests", own_requests), ("recalibrated", changes)):
        if len(items_given) != len(chosen):
            raise RecordError(f"{field}: saw {len(items_given)} items, expected {len(chosen)}, one per decision")
    panel.fallbacks.prepare(chosen)
    items = zip(chosen, series, own_requests, changes, strict=True)
    return [decision_body(panel[w], name, where, request, change, under) for w, name, request, change in items]


def decision_record(
    decision: Decision,
    *,
    series: str = "",
    where: str = "",
    recalibration: Mapping[str, Any] | None = None,
    request: Request | None = None,
    under: Under | None = None,
) -> tuple[dict[str, Any], Blobs]:
    """The sealed record of `decision` and the blobs it refers to. `where` names the task object, "package:object";
    `recalibration` is how its members came about (its own blobs are the caller's to add)."""
    record, blobs = unsealed_record(decision, series, where, recalibration, request, under)
    return seal(record), blobs


def unsealed_record(
    decision: Decision, series: str, where: str, recalibration: Mapping[str, Any] | None = None,
    request: Request | None = None, under: Under | None = None,
) -> tuple[dict[str, Any], Blobs]:  # fmt: skip
    """As `decision_record`, without its id, for whoever seals it into bytes."""
    c = decision.certificate
    filing: dict[str, Any] = {} if request is None else {"request": request.content()}
    filing |= {} if under is None else under.content()
    if c is None:
        return _refusal(decision, series, where, filing), {}
    plan = c.plan
    blobs: Blobs = {}
    task, layout, settings = plan.task, plan.layout, plan.settings
    w = plan.window
    claim = {k: as_value(v) for k, v in c.claims().items() if k not in ("action", "node_budget")}
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "kind": "decision",
        "series": series,
        "task": _task(task, plan.actions, where),
        "inputs": {
            "state": [as_value(x) for x in plan.inputs.states[w].tolist()],
            "state_lengths": list(layout.lengths),
            "params": [as_value(x) for x in own_row(plan.inputs.params, w).tolist()],
            "params_lengths": [] if task.params_layout is None else list(task.params_layout.lengths),
            "trace": _trace(plan.trace, blobs),
        },
        "settings": {
            "policy": type(plan.policy).__name__,
            **{k: as_value(v) for k, v in settings._asdict().items()},
            **_route_settings(plan.policy),
            "kind": c.kind,
            "eps_m": as_value(c.eps_m),
            "proof_budget": c.node_budget,
        },
        "claim": claim,
        "rivals": [{k: as_value(v) for k, v in vars(r).items()} for r in c.rivals],
        "gate": {
            "settings": _limits(decision.gate),
            "rows": [
                {
                    "name": r.name,
                    "left": as_value(r.left),
                    "operator": r.operator,
                    "right": as_value(r.right),
                    "pass": r.passed,
                }
                for r in decision.rows
            ],
            "now": decision.now,
            "elapsed_s": as_value(decision.context.elapsed_s),
            "calibration": measured(decision),
            **({"final_check": decision.final_check} if decision.final_check else {}),
        },
        "outcome": outcome_part(decision),
        "versions": _versions(),
        **filing,
    }
    if recalibration is not None:
        record["recalibration"] = {k: as_value(v) for k, v in recalibration.items()}
    return record, blobs


# Members that records have only where a service watches the forecaster.
_WATCHED = {"max_drift": "drift", "max_overdue": "overdue"}


# Members that every record has; others only where they are set, so that a new one changes no record without it.
_ALWAYS = (
    "certificate", "risk_active", "regret_limit", "near", "allow_ties", "positive_margin", "min_member_feasible",
    "max_trace_age_s", "max_eps_c", "max_undercoverage", "node_budget", "time_budget_s",
)  # fmt: skip


def _limits(gate: Gate) -> dict[str, Any]:
    return {k: as_value(v) for k, v in vars(gate).items() if k in _ALWAYS or not (v is None or v is False)}


def measured(decision: Decision) -> dict[str, Any]:
    """What the monitors said, as far as the record tells of it."""
    absent = {figure for limit, figure in _WATCHED.items() if getattr(decision.gate, limit) is None}
    return {k: as_value(v) for k, v in vars(decision.context.calibration).items() if k not in absent}


def _where(task: Task) -> str:
    """ "module:name" of the task where its functions live, so that a verifier can find it; "" when it has no name."""
    module = getattr(task.feasible, "__module__", "") or ""
    for name, value in vars(sys.modules.get(module, sys)).items():
        if value is task and module != "__main__":
            return f"{module}:{name}"
    return ""


def outcome_part(decision: Decision) -> dict[str, Any]:
    return {
        "outcome": decision.outcome.value,
        "action": as_value(decision.action),
        "reason": decision.reason.value,
        "cause": decision.cause.value,
        "sentence": decision.sentence,
        "pass_kind": decision.pass_kind,
        "release_margin": as_value(decision.release_margin),
        "regret_bound": as_value(decision.regret_bound),
        "rejected_action": as_value(decision.rejected_action),
        "fallback_action": as_value(decision.fallback_action),
        "fallback_feasible": decision.fallback_feasible,
        "fallback_cost": as_value(decision.fallback_cost),
    }


def _task(task: Task, actions: Sequence[float], where: str) -> dict[str, Any]:
    return {
        "name": task.name,
        "version": task.version,
        "rules": task.source_hash,
        "object": where or _where(task),
        "actions": [as_value(a) for a in actions],
        "labels": [task.label(i, a) for i, a in enumerate(actions)],
    }


def _refusal(decision: Decision, series: str, where: str, filing: dict[str, Any]) -> dict[str, Any]:
    """A trace that was refused leaves nothing to derive a plan from; what the rules need is kept, so that the fallback
    can be checked and a person can still decide."""
    refused = decision.refused
    if refused is None:
        raise RecordError("a decision without a certificate says nothing of what was refused; make it with `refuse`")
    record: dict[str, Any] = {
        "schema": REFUSAL_SCHEMA,
        "kind": "refusal",
        "series": series,
        "task": _task(refused.task, refused.actions, where),
        "gate": {"settings": _limits(decision.gate), "now": decision.now},
        "outcome": outcome_part(decision),
        "versions": _versions(),
        **filing,
    }
    if refused.state is not None:
        state, params = refused.task.layout(refused.state), refused.task.params_layout
        record["inputs"] = {
            "state": [as_value(x) for x in state.flatten(refused.state, "state")],
            "state_lengths": list(state.lengths),
            "params": [] if params is None else [as_value(x) for x in params.flatten(refused.params, "params")],
            "params_lengths": [] if params is None else list(params.lengths),
        }
    return record


@lru_cache(maxsize=1)
def _version() -> str:
    return version("ucsearch")


def _versions() -> dict[str, str]:
    return {
        "ucsearch": _version(), "python": platform.python_version(), "numpy": np.__version__, "platform": _platform(),
    }  # fmt: skip


@lru_cache(maxsize=1)
def _platform() -> str:
    """System and processor: by these functions such as `exp` may differ in their last digits."""
    return f"{platform.system()} {platform.machine()}"


def _route_settings(policy: Policy) -> dict[str, Any]:
    names = ("protect", "near_equal", "band", "utility_budget")
    return {name: as_value(getattr(policy, name)) for name in names if hasattr(policy, name)}


def _trace(trace: Trace, blobs: Blobs) -> dict[str, Any]:
    out: dict[str, Any] = {"hash": trace.hash, "meta": trace.meta()}
    for name in ("members", "weights", "mean", "q", "u"):
        array = getattr(trace, name)
        blob = encode_array(array, finite=False)
        sha = blob_id(blob)
        blobs[sha] = blob
        out[name] = {"$blob": sha}
    if trace.node is not None:
        blob = encode_array(trace.node.astype(np.float64), finite=False)
        out["node"] = {"$blob": blob_id(blob)}
        blobs[blob_id(blob)] = blob
    return out


# By exact type: asking for every kind in turn took longer than everything else about a record.
_AS_THEY_ARE = frozenset({bool, str, type(None)})


def as_value(value: Any) -> Any:
    """JSON-able: NaN is null, unbounded numbers and big integers are strings, -0.0 is 0."""
    kind = type(value)
    if kind is float:  # as a rule
        return value + 0.0 if math.isfinite(value) else None if value != value else encode_number(value)
    if kind in _AS_THEY_ARE or (kind is int and -MAX_INT <= value <= MAX_INT):
        return value
    if kind is tuple or kind is list:
        return [as_value(v) for v in value]
    if isinstance(value, bool | str):
        return value
    if isinstance(value, float | np.floating):
        number = float(value)
        return None if math.isnan(number) else encode_number(number + 0.0)
    if isinstance(value, int | np.integer):
        return encode_number(int(value))
    if isinstance(value, Mapping):
        return {str(k): as_value(v) for k, v in value.items()}
    if isinstance(value, Sequence):
        return [as_value(v) for v in value]
    if dataclasses.is_dataclass(value):
        return {k: as_value(v) for k, v in vars(value).items()}
    raise RecordError(f"cannot record a {type(value).__name__}")
