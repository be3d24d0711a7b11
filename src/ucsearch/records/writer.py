"""Records of a whole panel, fast: the canonical bytes are written directly, once, without a record in between.

`decision_record` says what a record is. Here only its parts that differ from window to window are written anew; the
rest is taken from its record of the first window, and one record of each outcome is compared with it byte for byte, and
now and then another one. If they ever differ, the slow way is taken: a log never depends on this module being right.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, NamedTuple, TypeVar

from ucsearch.certificate.certificate import Certificate, Rival
from ucsearch.decision.decision import Decision, DecisionPanel
from ucsearch.errors import RecordError
from ucsearch.layout import own_row
from ucsearch.records.arrays import blob_id, encode_array
from ucsearch.records.canonical import digest_bytes, seal_bytes
from ucsearch.records.entries import Request, Under
from ucsearch.records.json_text import around, json_text, key_text, list_text, object_text, value_text
from ucsearch.records.record import as_value, check_rules, measured, outcome_part, unsealed_record
from ucsearch.trace import Trace

__all__ = ["Body", "Recalibrated", "Writers", "decision_body", "panel_bodies"]

_ARRAYS = ("members", "weights", "mean", "q", "u")
_KEPT = 1024  # texts of actions and of parameters, by writer
_BLOBS = 64  # that windows have in common, by writer
_WRITERS = 64  # of one plan: one for each task and shape
_COMPARE_EACH = 1_000  # records of a writer, of which one more is compared
T = TypeVar("T")


class Body(NamedTuple):
    """One sealed record as bytes, and the blobs it refers to."""

    id: str
    body: bytes
    refs: tuple[str, ...]
    blobs: dict[str, bytes]
    decision: Decision
    request: Request | None = None
    told: Mapping[str, Any] | None = None  # members of the record, for whoever answers from it; None: read `body`


class Recalibrated(NamedTuple):
    """How a window's members came about: the record's member, and its blobs."""

    part: dict[str, Any]
    blobs: dict[str, bytes]


def decision_body(
    decision: Decision,
    series: str,
    where: str = "",
    request: Request | None = None,
    extra: Recalibrated | None = None,
    under: Under | None = None,
) -> Body:
    """The record of one decision, or of one whose inputs were refused."""
    part = None if extra is None else extra.part
    record, blobs = unsealed_record(decision, series, where, part, request, under)
    name, body = seal_bytes(record)
    more = {} if extra is None else extra.blobs
    trace = {} if decision.certificate is None else record["inputs"]["trace"]
    refs = tuple(dict.fromkeys([*(trace[n]["$blob"] for n in (*_ARRAYS, "node") if n in trace), *more]))
    return Body(name, body, refs, {**blobs, **more}, decision, request, {**record, "id": name})


def panel_bodies(
    panel: DecisionPanel,
    series: Sequence[str],
    where: str = "",
    *,
    windows: Sequence[int] | None = None,
    requests: Sequence[Request | None] | None = None,
    recalibrated: Sequence[Recalibrated] | None = None,
    under: Under | None = None,
    writers: Writers | None = None,
) -> list[Body]:
    """The record of every window (or of those named), equal in every byte to `decision_record`'s. `series`,
    `requests` and `recalibrated` have one item for each; `writers` are kept from panel to panel."""
    chosen = range(len(panel)) if windows is None else windows
    asked = [None] * len(chosen) if requests is None else requests
    extra = [None] * len(chosen) if recalibrated is None else recalibrated
    for field, given in (("series", series), ("requests", asked), ("recalibrated", extra)):
        if len(given) != len(chosen):
            raise RecordError(f"{field}: saw {len(given)} items, expected {len(chosen)}, one per decision")
    check_rules(panel.certified.plan.task, panel.rules)
    panel.fallbacks.prepare(chosen)
    if len(chosen) == 1 and writers is None:  # what all windows have in common is not worth writing once
        return [decision_body(panel[chosen[0]], series[0], where, asked[0], extra[0], under)]
    known = Writers() if writers is None else writers
    make: _Writer | None = None
    out: list[Body] = []
    for w, name, request, change in zip(chosen, series, asked, extra, strict=True):
        decision = panel[w]
        if make is None:
            make = known.of(decision, name, where)
        body = make(decision, name, request, change, under) if make.is_right else None
        if body is None or not make.agrees(body, name, change, under):
            items = zip(chosen, series, asked, extra, strict=True)
            slow = (decision_body(panel[i], n, where, r, c, under) for i, n, r, c in items)
            return [made._replace(told=None) for made in slow]  # whole records of a panel would be too much
        out.append(body)
    return out


class Writers:
    """Writers of panels that have everything in common but windows and time. For one thread at a time."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], _Writer] = {}

    def of(self, decision: Decision, series: str, where: str) -> _Writer:
        """The writer of a panel that this decision is the first of."""
        c = decision.certificate
        if c is None:
            raise RecordError("a decision whose trace was refused has no inputs to record; log the refusal itself")
        plan, params = c.plan, c.plan.task.params_layout
        # Objects by identity (a writer keeps them, so that no other gets theirs), numbers by their text: 1 is not 1.0.
        said = (
            plan.settings, plan.layout.lengths, None if params is None else params.lengths, c.kind, c.eps_m,
            c.node_budget, c.closed is None, plan.trace.node is None, decision.final_check,
        )  # fmt: skip
        # Digests of the rules are an object of their own once any of these has changed, as is their hash in the record.
        of = (plan.task, plan.policy, decision.gate, decision.rules)
        key = (*map(id, of), where, repr(said))
        if (found := self._known.get(key)) is None:
            if len(self._known) >= _WRITERS:
                self._known.clear()
            found = self._known[key] = _Writer(decision, series, where, of)
        return found


class _Writer:
    """Writes records of one kind: everything that is the same in all of them is text already."""

    def __init__(self, decision: Decision, series: str, where: str, of: tuple[Any, ...]) -> None:
        record, _ = unsealed_record(decision, series, where)
        self.where, self.final_check = where, decision.final_check
        self.of = of  # what it is found by stays alive with it
        self.is_right = True  # as far as it was compared
        self.count, self.compared = 0, set[str]()  # records, and outcomes of which one was compared
        self.shared: dict[tuple[Any, ...], tuple[str, bytes]] = {}  # blobs, such as equal weights
        task, gate, inputs = record["task"], record["gate"], record["inputs"]
        self.claim = [(k, key_text(k)) for k in sorted(record["claim"])]
        self.rival = [(k, key_text(k)) for k in sorted(Rival.__dataclass_fields__)]
        # What stands before, between and after the members that differ, in the order of their names.
        self.gate = around(gate, ("calibration", "elapsed_s", "now", "rows"))
        self.settings = json_text(record["settings"])
        self.lengths = (json_text(inputs["params_lengths"]), json_text(inputs["state_lengths"]))
        self.task = around(task, ("actions", "labels"))
        # As far as all windows have it in common; `__call__` adds the rest.
        self.told_gate = {k: v for k, v in gate.items() if k not in ("calibration", "elapsed_s", "now", "rows")}
        self.told_inputs = {k: inputs[k] for k in ("params_lengths", "state_lengths")}
        self.told_task = task
        self.kind = record["kind"]
        self.ends = {k: json_text(record[k]) for k in ("kind", "schema", "versions")}
        self.outcome = [(k, key_text(k)) for k in sorted(record["outcome"])]
        self.hash_head = b"ucsearch.trace.v1\0"
        self.meta: dict[tuple[Any, ...], tuple[str, bytes, dict[str, Any]]] = {}
        # By the bytes of a row of actions, and of parameters: most windows have the same.
        self.tasks: dict[bytes, tuple[str, dict[str, Any]]] = {}
        self.params: dict[bytes, tuple[str, list[Any]]] = {}

    def agrees(self, body: Body, series: str, extra: Recalibrated | None, under: Under | None) -> bool:
        """Whether a record is what it should be, where it is one of those that are compared."""
        outcome, self.count = body.decision.outcome.value, self.count + 1
        if outcome in self.compared and self.count % _COMPARE_EACH:
            return True
        self.compared.add(outcome)
        slow = decision_body(body.decision, series, self.where, body.request, extra, under)
        self.is_right = body[:3] == slow[:3]
        return self.is_right

    def __call__(
        self, decision: Decision, series: str, request: Request | None, extra: Recalibrated | None, under: Under | None
    ) -> Body:
        c = decision.certificate
        if c is None:
            raise RecordError("a decision whose trace was refused has no inputs to record; log the refusal itself")
        if decision.final_check != self.final_check:  # a member that others do not have
            return decision_body(decision, series, self.where, request, extra, under)
        trace, refs, blobs, meta = self._trace(c.plan.trace)
        plan, w = c.plan, c.plan.window
        task, told_task = self._task(c)
        params, told_params = self._params(plan.inputs.params, w)
        state = plan.inputs.states[w].tolist()
        calibration = measured(decision)
        changed = "" if extra is None else f'"recalibration":{value_text(extra.part)},'
        if extra is not None:
            refs = tuple(dict.fromkeys([*refs, *extra.blobs]))
            blobs = {**blobs, **extra.blobs}
        plan_text = "" if under is None else f'"plan":{encode_basestring(under.plan)},'
        until = "" if under is None else f'"valid_until":{encode_basestring(under.valid_until)},'
        asked = "" if request is None else f'"request":{value_text(request.content())},'
        head = f'"claim":{object_text(c.claims(), self.claim)},"gate":{self._gate(decision, calibration)},'
        tail = (
            f'"inputs":{{"params":{params},"params_lengths":{self.lengths[0]},'
            f'"state":{list_text(state)},"state_lengths":{self.lengths[1]},"trace":{trace}}},'
            f'"kind":{self.ends["kind"]},"outcome":{object_text(vars(decision), self.outcome)},'
            f'{plan_text}{changed}{asked}"rivals":[{",".join([object_text(vars(r), self.rival) for r in c.rivals])}],'
            f'"schema":{self.ends["schema"]},'
            f'"series":{encode_basestring(series)},"settings":{self.settings},"task":{task},'
            f'{until}"versions":{self.ends["versions"]}}}'
        )
        name = digest_bytes(f"{{{head}{tail}".encode(), "record-id/1")
        told = {
            **({} if under is None else under.content()), "kind": self.kind, "id": name, "series": series,
            "outcome": outcome_part(decision), "task": told_task,
            "gate": {
                **self.told_gate, "calibration": calibration, "elapsed_s": as_value(decision.context.elapsed_s),
                "now": decision.now,
            },
            "inputs": {
                **self.told_inputs, "params": told_params, "state": [as_value(x) for x in state],
                "trace": {"meta": meta},
            },
        }  # fmt: skip
        return Body(name, f'{{{head}"id":"{name}",{tail}'.encode(), refs, blobs, decision, request, told)

    def _gate(self, decision: Decision, calibration: dict[str, Any]) -> str:
        rows = [
            f'{{"left":{value_text(r.left)},"name":{encode_basestring(r.name)},"operator":{encode_basestring(r.operator)},'
            f'"pass":{"true" if r.passed else "false"},"right":{value_text(r.right)}}}'
            for r in decision.rows
        ]
        measured_text, elapsed = value_text(calibration), value_text(decision.context.elapsed_s)
        a, b, c, d, e = self.gate
        return f"{a}{measured_text}{b}{elapsed}{c}{value_text(decision.now)}{d}[{','.join(rows)}]{e}"

    def _task(self, c: Certificate) -> tuple[str, dict[str, Any]]:
        plan = c.plan
        row = own_row(plan.inputs.actions, plan.window)
        key = row.tobytes()
        if (known := self.tasks.get(key)) is not None:
            return known
        actions = row.tolist()
        names = [plan.task.label(i, a) for i, a in enumerate(actions)]
        labels = ",".join(map(encode_basestring, names))
        before, between, after = self.task
        told = {**self.told_task, "actions": [as_value(a) for a in actions], "labels": names}
        return _kept(self.tasks, key, (f"{before}{list_text(actions)}{between}[{labels}]{after}", told))

    def _params(self, params: Any, w: int) -> tuple[str, list[Any]]:
        row = own_row(params, w)
        key = row.tobytes()
        if (known := self.params.get(key)) is not None:
            return known
        values = row.tolist()
        return _kept(self.params, key, (list_text(values), [as_value(x) for x in values]))

    def _trace(self, trace: Trace) -> tuple[str, tuple[str, ...], dict[str, bytes], dict[str, Any]]:
        """The trace's text; each array is turned into bytes once, for its blob and for the trace's hash."""
        key = (trace.coupling, trace.cutoff, trace.issued, trace.model, trace.notes, trace.declared)
        if key not in self.meta:
            meta = trace.meta()
            plain = json.dumps(meta, sort_keys=True, separators=(",", ":")).encode()
            if len(self.meta) > _KEPT:
                self.meta.clear()
            self.meta[key] = (json_text(meta), plain, meta)
        meta_text, plain, meta = self.meta[key]
        digest = hashlib.sha256(self.hash_head + plain)
        names: dict[str, str] = {}
        blobs: dict[str, bytes] = {}
        for name in _ARRAYS:
            array = getattr(trace, name)
            sha, blob = self._blob(name, array)
            names[name] = sha
            blobs[sha] = blob
            digest.update(f"\0{','.join(map(str, array.shape))}\0".encode())
            digest.update(memoryview(blob)[16 + 8 * array.ndim :])
        text = (
            f'{{"hash":"{digest.hexdigest()}","mean":{_ref(names["mean"])},"members":{_ref(names["members"])},'
            f'"meta":{meta_text},"q":{_ref(names["q"])},"u":{_ref(names["u"])},"weights":{_ref(names["weights"])}}}'
        )
        return text, tuple(dict.fromkeys(names[n] for n in _ARRAYS)), blobs, meta

    def _blob(self, name: str, array: Any) -> tuple[str, bytes]:
        common = array.size == 0 or name == "weights"
        key = (array.shape, array.tobytes() if name == "weights" else b"")
        if common and key in self.shared:
            return self.shared[key]
        blob = encode_array(array, finite=False)
        found = (blob_id(blob), blob)
        if common and len(self.shared) < _BLOBS:
            self.shared[key] = found
        return found


def _ref(name: str) -> str:
    return f'{{"$blob":"{name}"}}'


def _kept(known: dict[bytes, T], key: bytes, made: T) -> T:
    if len(known) < _KEPT:
        known[key] = made
    return made
