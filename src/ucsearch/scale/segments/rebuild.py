"""From a row back to the decision and its record: the row's inputs are decided again, and must give its columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from ucsearch.decision.api import decide_panel, refuse
from ucsearch.decision.decision import Decision
from ucsearch.errors import RecordError, UCSearchError
from ucsearch.layout import Layout
from ucsearch.options import Proof, Run
from ucsearch.records.entries import Request
from ucsearch.records.overrides import built_in_task
from ucsearch.records.record import decision_record
from ucsearch.scale.segments.changes import change_of
from ucsearch.scale.segments.encode import Hashed, panel_batch, refusal_batch
from ucsearch.scale.segments.rows import COLUMNS, Batch, digests_of, normal, step_digests, trace_hashes
from ucsearch.scale.segments.shared import Shared
from ucsearch.task import Task
from ucsearch.trace import Trace
from ucsearch.trace.law import Declared
from ucsearch.trace.members import uniform, weighted_mean

__all__ = ["ANY", "NotAtHand", "Rebuilt", "check_digests", "rebuilt", "record_of"]

Engine = Literal["auto", "python", "compiled"]


class Rebuilt(NamedTuple):
    """A row decided again."""

    place: int  # of the row within the batch
    decision: Decision
    where: str
    differs: str  # name of the first column that came out different; "" when none did
    source: str = ""  # that column's text


def check_digests(batch: Batch, stored: Sequence[bytes], shared: bytes) -> tuple[int, str] | None:
    """The first row whose digest, or whose trace, does not follow from its columns, and what is wrong."""
    for i, (seen, made) in enumerate(zip(stored, digests_of(batch, shared), strict=True)):
        if seen != made:
            return i, "its columns do not give its digest"
    return _check_traces(batch)


def _check_traces(batch: Batch) -> tuple[int, str] | None:
    shape = batch.numbers["shape"]
    if shape.shape[1] != 4:
        if shape.shape[1] == 0 and not batch.members.shape[1]:
            return None  # refusals
        return 0, "a shape of the members that is none"
    order = np.lexsort(shape.T)
    cuts = np.flatnonzero((np.diff(shape[order], axis=0) != 0).any(axis=1)) + 1
    for rows in np.split(order, cuts):
        found = _check_same(batch, np.sort(rows))
        if found is not None:
            return found
    return None


def _check_same(batch: Batch, rows: Any) -> tuple[int, str] | None:
    """Rows of one shape."""
    size, horizon, kept, fields = (int(x) for x in batch.numbers["shape"][int(rows[0])])
    first = int(rows[0])
    if not (0 <= kept <= horizon and size >= 1 and fields >= 1 and horizon * size * fields < 2**31):
        return first, "a shape of the members that is none"
    members = batch.members[rows]
    if members.shape[1] != kept * size * fields:
        return first, f"{members.shape[1]} values of members, expected {kept * size * fields}"
    own = step_digests(members.reshape(len(rows), kept, size, fields))
    rests = [batch.binaries["rest"][i] for i in rows.tolist()]
    for i, rest in zip(rows.tolist(), rests, strict=True):
        if len(rest) != 32 * (horizon - kept):
            return i, f"{len(rest)} bytes of step digests, expected {32 * (horizon - kept)}"
    left = np.frombuffer(b"".join(rests), np.uint8).reshape(len(rows), horizon - kept, 32)
    metas = [batch.texts["meta"][i] for i in rows.tolist()]
    hashes = trace_hashes(np.concatenate([own, left], axis=1), batch.numbers["weights"][rows], metas)
    for i, made in zip(rows.tolist(), hashes, strict=True):
        if made != batch.binaries["trace"][i]:
            return i, "its members do not give the hash of its trace"
    return None


def record_of(one: Rebuilt, series: str, request: Request | None = None) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Today's record and its blobs."""
    change = change_of(one.source, series)
    if change is None:
        return decision_record(one.decision, series=series, where=one.where, request=request)
    record, blobs = decision_record(
        one.decision, series=series, where=one.where, recalibration=change.part, request=request
    )
    return record, {**blobs, **change.blobs}


def rebuilt(
    batch: Batch, shared: Shared, rows: Sequence[int] | None = None, *, engine: Engine = "auto",
    tasks: dict[str, Task] | None = None,
) -> Iterator[Rebuilt]:  # fmt: skip
    """Decide rows of equal shapes again. `tasks` by the name of their object; built-in ones are found."""
    wanted = range(len(batch)) if rows is None else rows
    groups: dict[tuple[str, str], list[int]] = {}
    for i in wanted:
        if batch.texts["meta"][i] == "":
            yield _refused(batch, shared, i, tasks)
            continue
        meta = json.loads(batch.texts["meta"][i])
        law = {k: v for k, v in meta.get("law", {}).items() if k != "unit"}
        key = canonical_key({**{k: v for k, v in meta.items() if k not in ("cutoff", "issued")}, "law": law})
        groups.setdefault((batch.texts["task"][i], key), []).append(i)
    for (text, _), places in groups.items():
        yield from _decided(batch, shared, text, places, engine, tasks)


def canonical_key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


ANY = "*"  # among tasks: the one for every name that is not found otherwise


class NotAtHand(RecordError):
    """A row's task is not known here; nothing is said about the row."""


def _task(text: str, tasks: dict[str, Task] | None) -> tuple[Task, dict[str, Any]]:
    told, known = json.loads(text), tasks or {}
    task = known.get(told["object"]) or built_in_task(told) or known.get(ANY)
    if task is None or not task.is_recorded_as(told):
        raise NotAtHand(f"the task {told.get('object')!r} is not at hand, or is not the one that was recorded")
    return task, told


def _refused(batch: Batch, shared: Shared, i: int, tasks: dict[str, Task] | None) -> Rebuilt:
    task, told = _task(batch.texts["task"][i], tasks)
    state, params = None, None
    if batch.numbers["state"].shape[1]:
        state = Layout(task.state, tuple(told["state_lengths"])).build(batch.numbers["state"][i].tolist())
        if task.params_layout is not None:
            params = task.params_layout.build(batch.numbers["params"][i].tolist())
    actions = batch.numbers["actions"][i]
    made = refuse(task, state, shared.gate, batch.texts["detail"][i], params=params, actions=actions, now=shared.moment)
    again = refusal_batch(made, batch.texts["series"][i], told["object"], batch.texts["detail"][i])
    return Rebuilt(i, made, told["object"], _difference(batch, i, again, 0))


def _decided(
    batch: Batch, shared: Shared, text: str, places: list[int], engine: Engine, tasks: dict[str, Task] | None
) -> Iterator[Rebuilt]:
    task, told = _task(text, tasks)
    rows = np.array(places)
    size, horizon, kept, fields = (int(x) for x in batch.numbers["shape"][places[0]])
    if kept == 0:
        raise RecordError(
            "the members are kept elsewhere (keep = 'reference'): it cannot be decided again from the log"
        )
    metas = [json.loads(batch.texts["meta"][i]) for i in places]
    members = np.ascontiguousarray(batch.members[rows].reshape(len(places), kept, size, fields).transpose(0, 2, 1, 3))
    weights = batch.numbers["weights"][rows]
    weights = weights if weights.shape[1] else uniform(size)
    none = np.zeros((len(places), kept, 0))
    mean = weighted_mean(members, weights)
    for array in (members, weights, mean, none):
        array.flags.writeable = False
    try:
        trace = Trace.trusted(
            members, weights, mean, none, none, True, metas[0]["coupling"], metas[0]["model"],
            tuple(x for m in metas for x in m["cutoff"]), tuple(x for m in metas for x in m["issued"]),
            tuple(metas[0]["notes"]), _declared([m.get("law", {}) for m in metas]),
        )  # fmt: skip
        panel = decide_panel(
            task, batch.numbers["state"][rows], trace, shared.policy, gate=shared.gate, now=shared.moment,
            calibration=shared.calibration,
            proof=Proof(kind=shared.kind, eps_m=shared.eps_m, node_budget=shared.node_budget),  # type: ignore[arg-type]
            params=None if task.params_layout is None else batch.numbers["params"][rows],
            actions=batch.numbers["actions"][rows], run=Run(threads=1, engine=engine),
        )  # fmt: skip
    except UCSearchError as error:
        raise RecordError(f"series {batch.texts['series'][places[0]]!r}: cannot be decided again ({error})") from error
    left = np.frombuffer(b"".join(batch.binaries["rest"][i] for i in places), np.uint8)
    steps = np.concatenate(
        [step_digests(members.transpose(0, 2, 1, 3)), left.reshape(len(places), horizon - kept, 32)], axis=1
    )
    hashed = Hashed(
        horizon, steps, [batch.binaries["trace"][i] for i in places], [batch.texts["meta"][i] for i in places]
    )
    again = panel_batch(panel, [batch.texts["series"][i] for i in places], told["object"], hashed, shared.keep)
    for k, i in enumerate(places):
        yield Rebuilt(i, panel[k], told["object"], _difference(batch, i, again, k), batch.texts["source"][i])


def _declared(laws: list[dict[str, Any]]) -> Declared:
    """What is declared about all windows; their lattices may have a unit each."""
    found = [Declared.read(law) for law in laws]
    units = tuple(one.unit for one in found if isinstance(one.unit, float))
    if len(units) != len(found):
        raise RecordError("a lattice of one series with several units")
    return found[0] if len(set(units)) == 1 else found[0]._replace(unit=units)


def _difference(batch: Batch, i: int, again: Batch, k: int) -> str:
    """The first column in which a row differs from what its inputs give."""
    for name, kind in COLUMNS.items():
        if name == "source":
            continue
        if kind == "text":
            same = batch.texts[name][i] == again.texts[name][k]
        elif kind == "binary":
            same = batch.binaries[name][i] == again.binaries[name][k]
        else:
            ours, theirs = np.atleast_1d(batch.numbers[name][i]), np.atleast_1d(again.numbers[name][k])
            same = ours.shape == theirs.shape and normal(ours).tobytes() == normal(theirs).tobytes()
        if not same:
            return name
    return ""
