"""An allocation as one record in the log beside the decisions it is about, and decisions read back from a log."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from ucsearch.allocation.api import Allocation, Terms, rebuilt_allocation
from ucsearch.allocation.branch import Split, Tree
from ucsearch.allocation.cases import Case, law_kind
from ucsearch.allocation.problem import Shared, group_label
from ucsearch.certificate.claims import share
from ucsearch.decision.decision import Outcome
from ucsearch.decision.gate import Reason
from ucsearch.errors import RecordError
from ucsearch.policies import MODES
from ucsearch.records.canonical import (
    blob_id,
    blob_ref,
    blob_shape,
    decode_number,
    encode_array,
    encode_number,
    seal,
    seal_bytes,
)
from ucsearch.records.entries import Request, Row, Sealed, blob_refs
from ucsearch.records.log import AuditLog, AuditReader
from ucsearch.records.overrides import built_in_task, recorded_action, recorded_inputs
from ucsearch.records.record import as_value
from ucsearch.task import Task

__all__ = [
    "SCHEMA",
    "DecisionEntry",
    "TaskOf",
    "allocation_record",
    "recorded_allocation",
    "recorded_case",
    "write_allocation",
]

SCHEMA = "ucsearch.allocation/1"
_ARRAYS = ("members", "weights", "mean", "q", "u", "node")  # of a recorded trace


class DecisionEntry(Protocol):
    """The entry of a decision: a row of the log, or the receipt of one just written."""

    @property
    def seq(self) -> int: ...
    @property
    def id(self) -> str: ...
    @property
    def digest(self) -> str: ...


TaskOf = Callable[[Mapping[str, Any]], Task | None]
"""The task of a decision's record; None: one of this package."""


def recorded_allocation(reader: AuditReader, row: Row, task_of: TaskOf, group: str | None = None) -> Allocation:
    """An allocation as its record has it, put together again from the decisions it names; with `group` of the series
    that use the limit with that label alone. Its figures are derived from choices and prices; how choices were split
    for a smaller bound is left out. Of limits at later steps, the first step alone is told."""
    record = row.record
    members = list(enumerate(record["members"]))
    shared = record["shared"]
    if group is not None:
        place = next((s for s in shared for g in s["limits"] if group_label(s["name"], g) == group), shared[0])
        label = next(g for g in place["limits"] if group_label(place["name"], g) == group)
        members = [(i, m) for i, m in members if place["groups"][i] == label]
    cases = []
    for _, member in members:
        decision = reader.get(member["decision"])
        cases.append(recorded_case(decision, reader, task_of(decision.record)))
    limits = [_recorded_shared(s, [(i, m["series"]) for i, m in members]) for s in shared]
    prices = tuple(np.array([_number(x) for x in p], np.float64) for p in record["prices"])
    chosen = {m["series"]: recorded_action(m["action"]) for _, m in members}
    terms, claim = record["terms"], record["claim"]
    return rebuilt_allocation(
        cases, limits, chosen, prices, Terms(
            None if terms["gap_limit"] is None else _number(terms["gap_limit"]), _number(terms["gap_share"]),
            terms["serve"],
        ), passed=claim["passed"], served=claim["served"], reason=Reason(claim["reason"]), record_id=row.id,
    )  # fmt: skip


def _recorded_shared(shared: Mapping[str, Any], series: Sequence[tuple[int, str]]) -> Shared:
    """A limit of the first step, as a record has it."""
    limits = {g: _number(x) for g, x in shared["limits"].items()}
    whole = list(limits) == [""]
    groups = {name: shared["groups"][i] for i, name in series if shared["groups"][i] is not None}
    return Shared(
        name=shared["name"], limit=limits[""] if whole else limits, use=shared["use"],
        times={name: _number(shared["times"][i]) for i, name in series}, per=None if whole else groups,
    )  # fmt: skip


def recorded_case(row: Row, log: AuditReader, task: Task | None = None) -> Case:
    """A logged decision as a case; its task is a built-in one unless given."""
    record = row.record
    task = task or built_in_task(record["task"])
    if task is None:
        raise RecordError(f"entry {row.seq}: its task {record['task'].get('object')!r} is not built in; name it")
    inputs = recorded_inputs(record, task)
    lower, upper = (np.full(len(inputs.actions), np.nan) for _ in range(2))
    for rival in record["rivals"]:
        low, high = _number(rival["score"]), _number(rival["upper"])
        lower[rival["index"]], upper[rival["index"]] = low, high if math.isnan(low) else max(high, low)
    sizes = [_number(rival[name]) for rival in record["rivals"] for name in ("size", "upper_size") if name in rival]
    outcome, s = record["outcome"], record["settings"]
    if s["mode"] == MODES["closed"]:
        averaged = record["claim"]["law"]["points"]
    else:
        averaged = blob_shape(log.blob(record["inputs"]["trace"]["weights"]["$blob"]))[-1]
    return Case(
        series=record["series"],
        task=task,
        state=inputs.state,
        params=inputs.params,
        actions=tuple(math.nan if a is None else a for a in inputs.actions),
        lower=lower,
        upper=upper,
        proved=bool(record["claim"]["proved"]),
        basis=(
            s["mode"],
            s["spread"] if s["risk"] else None,
            float(s["risk"]),
            law_kind(s["mode"], record["inputs"]["trace"]["meta"]["coupling"]),
        ),
        outcome=Outcome(outcome["outcome"]),
        action=recorded_action(outcome["action"]),
        fallback=recorded_action(outcome["fallback_action"]) if outcome["fallback_feasible"] else None,
        record=row.id,
        size=max((x for x in sizes if not math.isnan(x)), default=0.0),
        eps=share(s["reach"], averaged),
    )


def write_allocation(
    allocation: Allocation, log: AuditLog, rows: Mapping[str, DecisionEntry], request: Request | None = None
) -> Allocation:
    """Append the allocation's record; `rows` are the entries of its decisions, by series. It is on disk on return."""
    entries = [rows[c.series] for c in allocation.cases]
    blobs = {}
    if allocation.later is not None and allocation.served:
        data = _choices(allocation)
        blobs[blob_id(data)] = data
    traces = None
    if any(s.horizon > 1 for s in allocation.shared):
        traces = [log.get(row.seq).record["inputs"]["trace"] for row in entries]
    name, body = seal_bytes(_content(allocation, entries, request, traces))
    (entry,) = log.append_sealed([Sealed(name, body, blob_refs(body), blobs, request)])
    named = replace(allocation, record_id=entry.id)
    named.__dict__["shares"] = allocation.shares  # the same, already made
    return named


def allocation_record(
    allocation: Allocation, rows: Sequence[DecisionEntry], request: Request | None = None,
    traces: Sequence[Mapping[str, Any]] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The sealed record. Uses must be named ones of the task, so that they can be computed again from it. `traces` are
    those of the decisions' records, where limits hold at later steps."""
    return seal(_content(allocation, rows, request, traces))


def _content(
    allocation: Allocation,
    rows: Sequence[DecisionEntry],
    request: Request | None,
    traces: Sequence[Mapping[str, Any]] | None,
) -> dict[str, Any]:
    result, shares = allocation.result, allocation.shares
    ahead = any(s.horizon > 1 for s in allocation.shared)
    for shared in allocation.shared:
        if not isinstance(shared.use, str):
            raise RecordError(f"use of {shared.name!r}: a record needs the name of one of the task's uses")
    members = []
    for i, (case, row, share_of) in enumerate(zip(allocation.cases, rows, shares, strict=True)):
        if case.record != row.id:
            raise RecordError(f"series {case.series!r}: the decision {case.record!r} is not entry {row.seq} of the log")
        member = {
            "series": case.series, "decision": row.id, "entry": row.seq, "digest": row.digest,
            "outcome": share_of.outcome.value, "action": as_value(share_of.action),
        }  # fmt: skip
        if traces is not None:  # what its law is made of, so that an exported entry can be verified by itself
            trace = traces[i]
            member["trace"] = [trace[name] for name in _ARRAYS if name in trace]
        members.append(member)
    return {
        "schema": SCHEMA,
        "kind": "allocation",
        **({} if request is None else {"request": request.content()}),
        "members": members,
        "shared": [_shared(s, allocation.cases, ahead) for s in allocation.shared],
        **({"later": _later(allocation)} if ahead else {}),
        **_tree_of(allocation),
        "prices": [] if result is None else [[_value(x) for x in p.tolist()] for p in result.prices],
        "terms": {
            "gap_limit": _value(allocation.gap_limit),
            "gap_share": _value(allocation.gap_share),
            "serve": allocation.serve,
        },
        "claim": {
            "lower": _value(-math.inf if result is None else result.lower),
            "upper": _value(-math.inf if result is None else result.upper),
            "passed": allocation.passed,
            "served": allocation.served,
            "reason": allocation.reason.value,
            "adjusted": 0 if result is None or not result.feasible else result.adjusted,
        },
    }


def _shared(shared: Shared, cases: Sequence[Case], ahead: bool) -> dict[str, Any]:
    steps = range(1, shared.horizon)
    later = {"later": {g: [_value(shared.at(g, h)) for h in steps] for g in shared.groups}} if ahead else {}
    return {
        "name": shared.name,
        "use": shared.use,
        "limits": {group: _value(shared.at(group)) for group in shared.groups},
        "groups": [shared.group(c.series) for c in cases],
        "times": [_value(shared.factor(c.series)) for c in cases],
        **later,
    }


def _later(allocation: Allocation) -> dict[str, Any] | None:
    later = allocation.later
    if later is None or not allocation.served:
        return None
    return {
        "prices": [[[_value(x) for x in row[1:]] for row in p.tolist()] for p in later.prices],
        "draws": later.draws,
        "choices": blob_ref(_choices(allocation)),
        "rent": _value(later.rent),
        "free": _value(later.free),
        "mean": _value(later.mean),
        "bound": _value(later.bound),
    }


def _tree_of(allocation: Allocation) -> dict[str, Any]:
    """How choices were split for a smaller bound, with series by their number among all members."""
    if allocation.result is None or allocation.result.tree is None or not allocation.served:
        return {}
    return {"tree": _node(allocation.result.tree, allocation)}


def _node(tree: Tree, allocation: Allocation) -> dict[str, Any]:
    if isinstance(tree, Split):
        return {
            "member": int(allocation.free[tree.series]), "actions": list(tree.actions),
            "inside": _node(tree.inside, allocation), "outside": _node(tree.outside, allocation),
        }  # fmt: skip
    if tree.over is not None:
        k, g = tree.over
        return {"over": [k, allocation.shared[k].groups[g]]}
    return {"prices": [[_value(x) for x in p.tolist()] for p in tree.prices]}


def _choices(allocation: Allocation) -> bytes:
    later = allocation.later
    return b"" if later is None else encode_array(later.choices)


def _number(value: Any) -> float:
    return math.nan if value is None else float(decode_number(value))


def _value(value: Any) -> Any:
    """A number, or an action that is a tuple of them."""
    if isinstance(value, tuple):
        return [encode_number(x + 0.0) for x in value]
    return None if value is None or math.isnan(value) else encode_number(value + 0.0)
