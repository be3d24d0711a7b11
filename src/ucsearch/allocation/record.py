"""An allocation as one record in the log beside the decisions it is about, and decisions read back from a log."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ucsearch.allocation.api import Allocation, Case
from ucsearch.dispatch.decision import Outcome
from ucsearch.errors import RecordError
from ucsearch.records.audit import AuditLog
from ucsearch.records.canonical import decode_number, encode_number, seal
from ucsearch.records.chain import Row
from ucsearch.records.inputs import built_in_task, recorded_inputs
from ucsearch.records.reader import AuditReader
from ucsearch.task import Task

__all__ = ["SCHEMA", "allocation_record", "allocation_words", "newest_decisions", "recorded_case", "write_allocation"]

SCHEMA = "ucsearch.allocation/1"


def newest_decisions(rows: Iterable[Row]) -> dict[str, Row]:
    """The newest decision of every series that has a name, in the order of their entries."""
    found: dict[str, Row] = {}
    for row in rows:
        record = row.record
        if record.get("kind") == "decision" and record.get("series"):
            found.pop(record["series"], None)
            found[record["series"]] = row
    return found


def allocation_words(reader: AuditReader, row: Row) -> str:
    """What the newest allocation after a decision made of it; "" when there is none."""
    for other in reader.list(kind="allocation", newest_first=True, limit=1):
        record = other.record
        mine = [m for m in record["members"] if m["entry"] == row.seq]
        if other.seq < row.seq or not mine:
            return ""
        shared = " and ".join(s["name"] for s in record["shared"])
        alone, given = row.record["outcome"]["action"], mine[0]["action"]
        if not record["claim"]["served"]:
            return f"Sharing {shared} failed ({record['claim']['reason']}): {mine[0]['outcome']} {given} left instead."
        if given == alone:
            return f"Sharing {shared} left it as it is (entry {other.seq})."
        return f"Sharing {shared} made it {given} instead of {alone} (entry {other.seq})."
    return ""


def recorded_case(row: Row, task: Task | None = None) -> Case:
    """A logged decision as a case; its task is a built-in one unless given."""
    record = row.record
    own = task or built_in_task(record["task"])
    if own is None:
        raise RecordError(f"entry {row.seq}: its task {record['task'].get('object')!r} is not built in; name it")
    inputs = recorded_inputs(record, own)
    lower, upper = (np.full(len(inputs.actions), np.nan) for _ in range(2))
    for rival in record["rivals"]:
        low, high = _number(rival["score"]), _number(rival["upper"])
        lower[rival["index"]], upper[rival["index"]] = low, high if math.isnan(low) else max(high, low)
    outcome, s = record["outcome"], record["settings"]
    return Case(
        series=record["series"],
        task=own,
        state=inputs.state,
        params=inputs.params,
        actions=tuple(math.nan if a is None else a for a in inputs.actions),
        lower=lower,
        upper=upper,
        proved=bool(record["claim"]["proved"]),
        basis=(s["mode"], s["spread"] if s["risk"] else None, float(s["risk"])),
        outcome=Outcome(outcome["outcome"]),
        action=None if outcome["action"] is None else float(decode_number(outcome["action"])),
        fallback=float(decode_number(outcome["fallback_action"])) if outcome["fallback_feasible"] else None,
        record=row.id,
    )


def write_allocation(allocation: Allocation, log: AuditLog, rows: Mapping[str, Row]) -> Allocation:
    """Append the allocation's record; `rows` are the entries of its decisions, by series. It is on disk on return."""
    entry = log.append(allocation_record(allocation, [rows[c.series] for c in allocation.cases]))
    return replace(allocation, record_id=entry.id)


def allocation_record(allocation: Allocation, rows: Sequence[Row]) -> dict[str, Any]:
    """The sealed record. Uses must be named ones of the task, so that they can be computed again from it."""
    result, shares = allocation.result, allocation.shares
    for shared in allocation.shared:
        if not isinstance(shared.use, str):
            raise RecordError(f"use of {shared.name!r}: a record needs the name of one of the task's uses")
    members = []
    for case, row, share in zip(allocation.cases, rows, shares, strict=True):
        if case.record != row.id:
            raise RecordError(f"series {case.series!r}: the decision {case.record!r} is not entry {row.seq} of the log")
        members.append(
            {
                "series": case.series,
                "decision": row.id,
                "entry": row.seq,
                "digest": row.digest,
                "outcome": share.outcome.value,
                "action": _value(share.action),
            }
        )
    return seal(
        {
            "schema": SCHEMA,
            "kind": "allocation",
            "members": members,
            "shared": [_shared(s, allocation.cases) for s in allocation.shared],
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
    )


def _shared(shared: Any, cases: Sequence[Case]) -> dict[str, Any]:
    limits = shared.limit if isinstance(shared.limit, Mapping) else {"": shared.limit}
    return {
        "name": shared.name,
        "use": shared.use,
        "limits": {group: _value(float(limits[group])) for group in sorted(limits)},
        "groups": ["" if shared.per is None else shared.per.get(c.series) for c in cases],
        "times": [
            _value(float(shared.times.get(c.series, math.nan) if isinstance(shared.times, Mapping) else shared.times))
            for c in cases
        ],
    }


def _number(value: Any) -> float:
    return math.nan if value is None else float(decode_number(value))


def _value(value: float | None) -> Any:
    return None if value is None or math.isnan(value) else encode_number(value + 0.0)
