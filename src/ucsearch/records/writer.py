"""Records of a whole panel, fast: the canonical bytes are written directly, once, without a record in between.

`decision_record` says what a record is. Here only its parts that differ from window to window are written anew; the
rest is taken from its record of the first window, and one record of each outcome is compared with it byte for byte in
every panel. If they ever differ, the slow way is taken: a log never depends on this module being right.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ucsearch.certificate.record import Certificate, Rival
from ucsearch.dispatch.decision import Decision, DecisionPanel
from ucsearch.errors import RecordError
from ucsearch.layout import own_row
from ucsearch.records.blobs import blob_id, encode_array
from ucsearch.records.canonical import canonical, digest_bytes, seal_bytes
from ucsearch.records.decisions import as_value, measured, outcome_part, unsealed_record
from ucsearch.records.requests import Request, Under
from ucsearch.trace import Trace

__all__ = ["Body", "Recalibrated", "decision_body", "panel_bodies"]

_ARRAYS = ("members", "weights", "mean", "q", "u")
_FLOATS_KEPT = 4096
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
) -> list[Body]:
    """The record of every window (or of those named), equal in every byte to `decision_record`'s. `series`,
    `requests` and `recalibrated` have one item for each."""
    chosen = range(len(panel)) if windows is None else windows
    asked = [None] * len(chosen) if requests is None else requests
    extra = [None] * len(chosen) if recalibrated is None else recalibrated
    for field, given in (("series", series), ("requests", asked), ("recalibrated", extra)):
        if len(given) != len(chosen):
            raise RecordError(f"{field}: saw {len(given)} items, expected {len(chosen)}, one per decision")
    panel.fallbacks.prepare(chosen)
    if len(chosen) == 1:  # what all windows have in common is not worth writing once
        return [decision_body(panel[chosen[0]], series[0], where, asked[0], extra[0], under)]
    shared: dict[str, tuple[str, bytes]] = {}  # blobs that all windows have in common, such as equal weights
    make: _Writer | None = None
    compared: set[str] = set()
    out: list[Body] = []
    for w, name, request, change in zip(chosen, series, asked, extra, strict=True):
        decision = panel[w]
        if make is None:
            make = _Writer(decision, name, where, shared, under)
        body = make(decision, name, request, change)
        if decision.outcome.value not in compared:
            compared.add(decision.outcome.value)
            if body[:3] != decision_body(decision, name, where, request, change, under)[:3]:
                items = zip(chosen, series, asked, extra, strict=True)
                slow = (decision_body(panel[i], n, where, r, c, under) for i, n, r, c in items)
                return [made._replace(told=None) for made in slow]  # whole records of a panel would be too much
        out.append(body)
    return out


class _Writer:
    """Writes records of one panel: everything that is the same in all windows is text already."""

    def __init__(
        self, decision: Decision, series: str, where: str, shared: dict[str, tuple[str, bytes]],
        under: Under | None = None,
    ) -> None:  # fmt: skip
        record, _ = unsealed_record(decision, series, where)
        self.shared, self.slowly, self.last_look = shared, (where, under), decision.last_look
        task, gate, inputs = record["task"], record["gate"], record["inputs"]
        self.claim = [(k, _key(k)) for k in sorted(record["claim"])]
        self.rival = [(k, _key(k)) for k in sorted(Rival.__dataclass_fields__)]
        # What stands before the calibration, between it and the rows, and after them.
        self.gate = _around(gate, ("calibration", "rows"))
        self.plan = "" if under is None else f'"plan":{_json(under.plan)},'
        self.until = "" if under is None else f'"valid_until":{_json(under.valid_until)},'
        self.settings = _json(record["settings"])
        self.lengths = (_json(inputs["params_lengths"]), _json(inputs["state_lengths"]))
        self.task = _around(task, ("actions", "labels"))
        # As far as all windows have it in common; `__call__` adds the rest.
        self.told = {"kind": record["kind"], **({} if under is None else under.content())}
        self.told_gate = {k: v for k, v in gate.items() if k not in ("calibration", "rows")}
        self.told_inputs = {k: inputs[k] for k in ("params_lengths", "state_lengths")}
        self.told_task = task
        self.ends = {k: _json(record[k]) for k in ("kind", "schema", "versions")}
        self.outcome = [(k, _key(k)) for k in sorted(record["outcome"])]
        self.hash_head = b"ucsearch.trace.v1\0"
        self.meta: dict[tuple[Any, ...], tuple[str, bytes, dict[str, Any]]] = {}
        # By the bytes of a row of actions, and of parameters: most windows have the same.
        self.tasks: dict[bytes, tuple[str, dict[str, Any]]] = {}
        self.params: dict[bytes, tuple[str, list[Any]]] = {}

    def __call__(
        self, decision: Decision, series: str, request: Request | None, extra: Recalibrated | None = None
    ) -> Body:
        c = decision.certificate
        if c is None:
            raise RecordError("a decision whose trace was refused has no inputs to record; log the refusal itself")
        if decision.last_look != self.last_look:  # a member that others do not have
            where, under = self.slowly
            return decision_body(decision, series, where, request, extra, under)
        trace, refs, blobs, meta = self._trace(c.plan.trace)
        plan, w = c.plan, c.plan.window
        task, told_task = self._task(c)
        params, told_params = self._params(plan.inputs.params, w)
        state = plan.inputs.states[w].tolist()
        calibration = measured(decision)
        changed = "" if extra is None else f'"recalibration":{_text(extra.part)},'
        if extra is not None:
            refs = tuple(dict.fromkeys([*refs, *extra.blobs]))
            blobs = {**blobs, **extra.blobs}
        asked = "" if request is None else f'"request":{_json(request.content())},'
        c.member_feasible  # noqa: B018 - computed on demand; from here on one of the claims
        claims = vars(c) if c.closed is None else {**vars(c), **vars(c.closed)}
        head = f'"claim":{_object(claims, self.claim)},"gate":{self._gate(decision, calibration)},'
        tail = (
            f'"inputs":{{"params":{params},"params_lengths":{self.lengths[0]},'
            f'"state":{_list(state)},"state_lengths":{self.lengths[1]},"trace":{trace}}},'
            f'"kind":{self.ends["kind"]},"outcome":{_object(vars(decision), self.outcome)},'
            f'{self.plan}{changed}{asked}"rivals":[{",".join([_object(vars(r), self.rival) for r in c.rivals])}],'
            f'"schema":{self.ends["schema"]},'
            f'"series":{encode_basestring(series)},"settings":{self.settings},"task":{task},'
            f'{self.until}"versions":{self.ends["versions"]}}}'
        )
        name = digest_bytes(f"{{{head}{tail}".encode(), "record-id/1")
        told = {
            **self.told, "id": name, "series": series, "outcome": outcome_part(decision), "task": told_task,
            "gate": {**self.told_gate, "calibration": calibration},
            "inputs": {
                **self.told_inputs, "params": told_params, "state": [as_value(x) for x in state],
                "trace": {"meta": meta},
            },
        }  # fmt: skip
        return Body(name, f'{{{head}"id":"{name}",{tail}'.encode(), refs, blobs, decision, request, told)

    def _gate(self, decision: Decision, calibration: dict[str, Any]) -> str:
        rows = [
            f'{{"left":{_text(r.left)},"name":{encode_basestring(r.name)},"operator":{encode_basestring(r.operator)},'
            f'"pass":{"true" if r.passed else "false"},"right":{_text(r.right)}}}'
            for r in decision.rows
        ]
        before, between, after = self.gate
        return f"{before}{_text(calibration)}{between}[{','.join(rows)}]{after}"

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
        return _kept(self.tasks, key, (f"{before}{_list(actions)}{between}[{labels}]{after}", told))

    def _params(self, params: Any, w: int) -> tuple[str, list[Any]]:
        row = own_row(params, w)
        key = row.tobytes()
        if (known := self.params.get(key)) is not None:
            return known
        values = row.tolist()
        return _kept(self.params, key, (_list(values), [as_value(x) for x in values]))

    def _trace(self, trace: Trace) -> tuple[str, tuple[str, ...], dict[str, bytes], dict[str, Any]]:
        """The trace's text; each array is turned into bytes once, for its blob and for the trace's hash."""
        key = (trace.coupling, trace.cutoff, trace.issued, trace.model, trace.notes, trace.declared)
        if key not in self.meta:
            meta = trace.meta()
            plain = json.dumps(meta, sort_keys=True, separators=(",", ":")).encode()
            if len(self.meta) > 4096:
                self.meta.clear()
            self.meta[key] = (_json(meta), plain, meta)
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
        key = f"{array.shape}" + (array.tobytes().hex() if name == "weights" else "")
        if common and key in self.shared:
            return self.shared[key]
        blob = encode_array(array, finite=False)
        found = (blob_id(blob), blob)
        if common and len(self.shared) < 64:
            self.shared[key] = found
        return found


# -------------------------------------------------------------------- canonical text


def _ref(name: str) -> str:
    return f'{{"$blob":"{name}"}}'


def _json(value: Any) -> str:
    return canonical(value).decode("utf-8")


def _around(value: dict[str, Any], without: tuple[str, ...]) -> list[str]:
    """An object's text, cut where the values of these members stand. JSON's text holds no zero byte."""
    parts = [_key(k) + ("\0" if k in without else _json(value[k])) for k in sorted(value)]
    return f"{{{','.join(parts)}}}".split("\0")


def _kept(known: dict[bytes, T], key: bytes, made: T) -> T:
    if len(known) < 4096:
        known[key] = made
    return made


@lru_cache(maxsize=1024)
def _key(name: str) -> str:
    return encode_basestring(name) + ":"


def _float(x: float) -> str:
    """As `as_value` and `canonical` together write a float: null for NaN, text for the unbounded."""
    text = repr(x)
    if text[-2:] == ".0":
        return text[:-2] if x else "0"
    if "e" not in text and text[-1] not in "nf":
        return text
    if x != x:
        return "null"
    if math.isinf(x):
        return '"inf"' if x > 0 else '"-inf"'
    return _json(x)


class _Floats(dict[float, str]):
    """Texts of floats: a record says the same few numbers many times, and writing one takes longer than finding it.
    Numbers that are equal have equal texts, -0.0 and 0.0 too; NaN is equal to nothing."""

    def __missing__(self, x: float) -> str:
        text = _float(x)
        if x == x:
            if len(self) >= _FLOATS_KEPT:
                self.clear()
            self[x] = text
        return text


def _list(values: Sequence[float]) -> str:
    # Only a whole number ends in ".0"; -0.0, exponents, nan and inf take the long way.
    joined = f",{','.join(map(repr, values))},".replace(".0,", ",")
    if "e" in joined or "n" in joined or ",-0," in joined:
        return f"[{','.join(map(_float, values))}]"
    return f"[{joined[1:-1]}]"


def _object(values: dict[str, Any], keys: list[tuple[str, str]]) -> str:
    return f"{{{','.join([p + _TEXTS[type(v := values[k])](v) for k, p in keys])}}}"


def _text(value: Any) -> str:
    return _TEXTS[type(value)](value)


def _int(value: int) -> str:
    return str(value) if -(2**53) <= value <= 2**53 else f'"{value}"'


def _dict(value: dict[str, Any]) -> str:
    return f"{{{','.join([_key(k) + _text(value[k]) for k in sorted(value)])}}}"


def _sequence(value: Sequence[Any]) -> str:
    return f"[{','.join([_TEXTS[type(v)](v) for v in value])}]"


def _rare(value: Any) -> str:
    """Words of an enumeration, numbers of NumPy, other sequences; anything else is refused."""
    if isinstance(value, str):
        return encode_basestring(str(getattr(value, "value", value)))
    if isinstance(value, float | np.floating):
        return _float(float(value))
    if isinstance(value, int | np.integer):
        return _int(int(value))
    if isinstance(value, Sequence):
        return _sequence(value)
    raise RecordError(f"cannot record a {type(value).__name__}")


class _Texts(dict[type, Callable[[Any], str]]):
    def __missing__(self, kind: type) -> Callable[[Any], str]:
        return _rare


# By exact type: this is the inner loop of every record.
_TEXTS = _Texts(
    {
        float: _Floats().__getitem__, int: _int, str: encode_basestring,
        bool: {True: "true", False: "false"}.__getitem__,
        type(None): lambda _: "null", dict: _dict, tuple: _sequence, list: _sequence,
    }
)  # fmt: skip
