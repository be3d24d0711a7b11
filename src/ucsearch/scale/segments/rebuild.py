"""From a row back to the decision and its record: the row's inputs are decided again, and must give its columns."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from ucsearch.decision.api import decide_panel, refuse
from ucsearch.decision.decision import Decision
from ucsearch.errors import RecordError, UCSearchError
from ucsearch.layout import Layout
from ucsearch.policies import Proof, Run
from ucsearch.records.canonical import blob_id, canonical, loads
from ucsearch.records.entries import Request
from ucsearch.records.overrides import built_in_task
from ucsearch.records.record import Recalibrated, decision_record
from ucsearch.scale.segments.encode import panel_batch, refusal_batch
from ucsearch.scale.segments.rows import COLUMNS, Batch
from ucsearch.scale.segments.shared import Shared
from ucsearch.task import Task
from ucsearch.trace import Trace
from ucsearch.trace.members import uniform, weighted_mean
from ucsearch.trace.trace import Declared

__all__ = ["ANY", "NotAtHand", "Rebuilt", "rebuilt", "recalibration_text", "record_of"]

Engine = Literal["auto", "python", "compiled"]
ANY = "*"  # among tasks: the one for every name that is not found otherwise


class NotAtHand(RecordError):
    """A row's task is not known here; nothing is said about the row."""


class Rebuilt(NamedTuple):
    """A row decided again."""

    place: int  # of the row within the batch
    decision: Decision
    where: str
    differs: str  # name of the first column that came out different; "" when none did
    source: str = ""  # that column's text


def rebuilt(
    batch: Batch, shared: Shared, rows: Sequence[int] | None = None, *, engine: Engine = "auto",
    tasks: dict[str, Task] | None = None,
) -> Iterator[Rebuilt]:  # fmt: skip
    """Decide rows of equal shapes again. `tasks` by the name of their object; built-in ones are found."""
    groups: dict[tuple[str, str], list[int]] = {}
    for i in range(len(batch)) if rows is None else rows:
        if batch.texts["meta"][i] == "":
            yield _refused(batch, shared, i, tasks)
            continue
        meta = json.loads(batch.texts["meta"][i])
        meta["law"] = {k: v for k, v in meta.get("law", {}).items() if k != "unit"}
        same_in_group = {k: v for k, v in meta.items() if k not in ("cutoff", "issued")}
        groups.setdefault((batch.texts["task"][i], json.dumps(same_in_group, sort_keys=True)), []).append(i)
    for (text, _), places in groups.items():
        yield from _decided(batch, shared, text, places, engine, tasks)


def _task(text: str, tasks: dict[str, Task] | None) -> tuple[Task, dict[str, Any]]:
    recorded, given_tasks = json.loads(text), tasks or {}
    task = given_tasks.get(recorded["object"]) or built_in_task(recorded) or given_tasks.get(ANY)
    if task is None or not task.is_recorded_as(recorded):
        raise NotAtHand(f"the task {recorded.get('object')!r} is not at hand, or is not the one that was recorded")
    return task, recorded


def _refused(batch: Batch, shared: Shared, i: int, tasks: dict[str, Task] | None) -> Rebuilt:
    task, recorded = _task(batch.texts["task"][i], tasks)
    state, params, detail = None, None, batch.texts["detail"][i]
    if batch.numbers["state"].shape[1]:
        state = Layout(task.state, tuple(recorded["state_lengths"])).build(batch.numbers["state"][i].tolist())
        if task.params_layout is not None:
            params = task.params_layout.build(batch.numbers["params"][i].tolist())
    actions = batch.numbers["actions"][i]
    decision = refuse(task, state, shared.gate, detail, params=params, actions=actions, now=shared.moment)
    again = refusal_batch(decision, batch.texts["series"][i], recorded["object"], detail)
    return Rebuilt(i, decision, recorded["object"], _difference(batch, i, again, 0))


def _decided(
    batch: Batch, shared: Shared, text: str, places: list[int], engine: Engine, tasks: dict[str, Task] | None
) -> Iterator[Rebuilt]:
    """Rows of one task, whose forecasts differ in their numbers and times alone."""
    task, recorded = _task(text, tasks)
    names = [batch.texts["series"][i] for i in places]
    rows = np.array(places)
    try:
        panel = decide_panel(
            task, batch.numbers["state"][rows], _trace(batch, rows), shared.policy, gate=shared.gate, now=shared.moment,
            calibration=shared.calibration,
            proof=Proof(kind=shared.kind, eps_m=shared.eps_m, node_budget=shared.node_budget),  # type: ignore[arg-type]
            params=None if task.params_layout is None else batch.numbers["params"][rows],
            actions=batch.numbers["actions"][rows], run=Run(threads=1, engine=engine),
        )  # fmt: skip
    except UCSearchError as error:
        raise RecordError(f"series {names[0]!r}: cannot be decided again ({error})") from error
    again = panel_batch(panel, names, recorded["object"], int(batch.numbers["shape"][places[0], 1]), shared.keep)
    for k, i in enumerate(places):
        yield Rebuilt(i, panel[k], recorded["object"], _difference(batch, i, again, k), batch.texts["source"][i])


def _trace(batch: Batch, rows: Any) -> Trace:
    """The forecasts of these rows, as far as they were kept."""
    if batch.numbers["shape"].shape[1] != 4:
        raise RecordError(f"series {batch.texts['series'][rows[0]]!r}: a shape of the members that is none")
    size, _, steps, fields = (int(x) for x in batch.numbers["shape"][rows[0]])
    values = batch.numbers["members"][rows]
    if steps == 0:
        raise RecordError(
            "the members are kept elsewhere (keep = 'reference'): it cannot be decided again from the log"
        )
    if min(size, steps, fields) < 1 or values.shape[1] != steps * size * fields:
        raise RecordError(f"series {batch.texts['series'][rows[0]]!r}: a shape of the members that is none")
    metas = [json.loads(batch.texts["meta"][i]) for i in rows]
    members = np.ascontiguousarray(values.reshape(len(rows), steps, size, fields).transpose(0, 2, 1, 3))
    weights = batch.numbers["weights"][rows]
    weights = weights if weights.shape[1] else uniform(size)
    none = np.zeros((len(rows), steps, 0))
    mean = weighted_mean(members, weights)
    for array in (members, weights, mean, none):
        array.flags.writeable = False
    return Trace.trusted(
        members, weights, mean, none, none, True, metas[0]["coupling"], metas[0]["model"],
        tuple(x for m in metas for x in m["cutoff"]), tuple(x for m in metas for x in m["issued"]),
        tuple(metas[0]["notes"]), _declared([m.get("law", {}) for m in metas]),
    )  # fmt: skip


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
        else:
            recorded, derived = np.atleast_1d(batch.numbers[name][i]), np.atleast_1d(again.numbers[name][k])
            same = recorded.shape == derived.shape and recorded.tobytes() == derived.tobytes()
        if not same:
            return name
    return ""


# -------------------------------------------------------------------- records


def record_of(row: Rebuilt, series: str, request: Request | None = None) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The decision's record and its blobs."""
    change = _recalibration(row.source, series)
    part, more = (None, {}) if change is None else change
    record, blobs = decision_record(
        row.decision, series=series, where=row.where, request=request, recalibration=part
    )  # fmt: skip
    return record, {**blobs, **more}


def recalibration_text(change: Recalibrated) -> str:
    """The column `source` of a row whose members were recalibrated: the record's own words and blobs."""
    blobs = {name: base64.b64encode(blob).decode("ascii") for name, blob in change.blobs.items()}
    return canonical({"blobs": blobs, "recalibration": change.part}).decode("utf-8")


def _recalibration(source: str, series: str) -> Recalibrated | None:
    """What the column says; None where members are as they were read."""
    if not source.startswith("{"):
        return None
    try:
        content: Any = loads(source.encode("utf-8"))
        blobs = {str(k): base64.b64decode(v, validate=True) for k, v in content["blobs"].items()}
        part = dict(content["recalibration"])
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error, RecordError) as error:
        raise RecordError(f"series {series!r}: column source is no recalibration ({error})") from error
    if wrong := [name for name, blob in blobs.items() if blob_id(blob) != name]:
        raise RecordError(f"series {series!r}: column source has a blob that is not {wrong[0][:12]}")
    return Recalibrated(part, blobs)
