"""A recorded decision as a problem to decide again: task, state, forecast, policy and gate, from the record alone."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.decision.api import decide
from ucsearch.decision.decision import Decision
from ucsearch.decision.gate import Calibration, Gate
from ucsearch.errors import RecordError, UCSearchError
from ucsearch.policies import (
    MCTS,
    MODES,
    CertifiedBeam,
    ConstrainedBeam,
    Exact,
    ParetoBeam,
    Policy,
    Proof,
    UCBeam,
    resolve,
)
from ucsearch.records.canonical import decode_array, decode_number
from ucsearch.records.entries import Row
from ucsearch.records.log import AuditReader
from ucsearch.records.overrides import recorded_inputs
from ucsearch.spreads import SPREADS
from ucsearch.task import Task
from ucsearch.trace import Trace
from ucsearch.trace.trace import Declared

__all__ = ["Asked", "asked_again", "find_decision", "offered_array", "refused_words"]

Floats = NDArray[np.float64]
_LOOKED_AT, _NAMED = 1000, 5  # decisions whose names are compared with one that is not there, and how many are told
_POLICIES: dict[str, type[Policy]] = {
    kind.__name__: kind for kind in (UCBeam, ParetoBeam, CertifiedBeam, ConstrainedBeam, Exact, MCTS)
}


@dataclasses.dataclass(frozen=True, eq=False)
class Asked:
    """Everything a decision depends on."""

    task: Task
    state: Any
    params: Any
    actions: Floats  # (m,) NaN where unavailable; of tuples (m, width)
    trace: Trace
    policy: Policy
    gate: Gate  # without its limit of time: nobody waits here
    calibration: Calibration
    now: datetime | None
    eps_m: float
    proof_budget: int

    @property
    def offered(self) -> list[Any]:
        """The actions, NaN where unavailable."""
        rows = self.actions.tolist()
        return [tuple(a) if a[0] == a[0] else math.nan for a in rows] if self.actions.ndim > 1 else rows

    def decide(self) -> Decision:
        """The decision, written nowhere."""
        return decide(
            self.task, self.state, self.trace, self.policy, gate=self.gate, now=self.now, params=self.params,
            calibration=self.calibration, actions=self.actions,
            proof=Proof(eps_m=self.eps_m, node_budget=self.proof_budget),
        )  # fmt: skip

    def changed(self, **changes: Any) -> Asked:
        return dataclasses.replace(self, **changes)


def offered_array(actions: Sequence[Any]) -> Floats:
    """Actions, NaN where unavailable, as `decide` takes them: (m,), or (m, width) of tuples."""
    width = max((len(a) for a in actions if isinstance(a, tuple)), default=0)
    return np.array([(a,) * width if width and not isinstance(a, tuple) else a for a in actions], dtype=np.float64)


def find_decision(reader: AuditReader, text: str) -> Row:
    """The newest decision or refusal of a series; or the one whose id begins so (8 digits or more)."""
    row = reader.newest(text)
    if row is not None:
        return row
    try:
        row = reader.get(text)
    except RecordError:
        known = sorted({str(r.record.get("series", "")) for r in reader.list(kind="decision", limit=_LOOKED_AT)} - {""})
        close = [n for n in known if text.lower() in n.lower()] or get_close_matches(text, known)
        words = ", ".join(map(repr, (close or known)[:_NAMED]))
        hint = f"; did you mean {words}?" if close else f"; the first there: {words}" if known else ""
        raise RecordError(f"{reader.path}: no decision of a series {text!r}{hint}") from None
    if row.record.get("kind") not in ("decision", "refusal"):
        raise RecordError(f"{reader.path}: {text!r} is an {row.record.get('kind')}, expected a decision")
    return row


def refused_words(record: Mapping[str, Any]) -> str:
    """Why nothing can be planned for a series that was refused, and where to go on."""
    what = "forecast" if "inputs" in record else "row of the states"
    return (
        f"its {what} could not be used, so nothing can be planned; "
        "the column `problem` of its row in the decisions says why, correct it and decide again"
    )


def asked_again(reader: AuditReader, row: Row, task: Task) -> Asked:
    """What was asked when `row` was decided; a refusal has no forecast, so it cannot be asked again."""
    record = row.record
    if record.get("kind") != "decision":
        raise RecordError(f"entry {row.seq} is a refusal: {refused_words(record)}")
    inputs = recorded_inputs(record, task)
    blobs = {name: decode_array(data) for name, data in reader.blobs_of(row).items()}
    try:
        trace = _trace(record["inputs"]["trace"], blobs)
        actions = offered_array([math.nan if a is None else a for a in inputs.actions])
        gate = record["gate"]
        limits = {k: _number(v) for k, v in gate["settings"].items()} | {"time_budget_s": None}
        settings = record["settings"]
        return Asked(
            task=task, state=inputs.state, params=inputs.params, actions=actions, trace=trace,
            policy=_policy(settings, task, trace, len(actions)), gate=Gate(**limits),
            calibration=Calibration(
                **{k: math.nan if v is None else float(decode_number(v)) for k, v in gate["calibration"].items()}
            ),
            now=datetime.fromisoformat(gate["now"]) if gate["now"] else None,
            eps_m=float(decode_number(settings["eps_m"])), proof_budget=int(settings["proof_budget"]),
        )  # fmt: skip
    except UCSearchError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise RecordError(
            f"entry {row.seq} is not a decision that this version can decide again ({error!r})"
        ) from error


def _trace(recorded: Mapping[str, Any], blobs: Mapping[str, Floats]) -> Trace:
    meta = recorded["meta"]
    node = blobs[recorded["node"]["$blob"]].astype(np.int64) if "node" in recorded else None
    arrays: dict[str, Any] = {n: blobs[recorded[n]["$blob"]] for n in ("members", "weights", "mean", "q", "u")}
    trace = Trace(
        **arrays, panel=False, coupling=meta["coupling"], model=meta["model"], cutoff=tuple(meta["cutoff"]),
        issued=tuple(meta["issued"]), notes=tuple(meta["notes"]), declared=Declared.read(meta.get("law", {})),
        node=node,
    )  # fmt: skip
    if trace.hash != recorded["hash"]:
        raise RecordError("the recorded forecast is not the one its hash names")
    return trace


def _policy(settings: Mapping[str, Any], task: Task, trace: Trace, actions: int) -> Policy:
    """The policy that resolves to what was recorded."""
    kind = _POLICIES.get(str(settings["policy"]))
    if kind is None:
        raise RecordError(f"the policy {settings['policy']!r} is not one of this package")
    modes = {number: name for name, number in MODES.items()}
    spreads = {entry.number: name for name, entry in SPREADS.items()}
    given = {k: _number(v) for k, v in settings.items()}
    given |= {"mode": modes[settings["mode"]], "spread": spreads[settings["spread"]]}
    known = {f.name for f in dataclasses.fields(kind)} - {"order"}
    given = {k: v for k, v in given.items() if k in known}
    for order in ("auto", "score"):
        made: Any = kind(**given, order=order)
        found = resolve(made, task, trace, actions)
        if found.use_bound == settings["use_bound"]:
            return made  # type: ignore[no-any-return]
    raise RecordError("the recorded policy used a bound that the task no longer has")


def _number(value: Any) -> Any:
    return decode_number(value) if value in ("inf", "-inf") else value
