"""`decide` and `decide_panel`: certify, pass the gate or fall back. Clock and limits are passed in."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch.certificate.api import Words, certify_panel
from ucsearch.certificate.panel import CertifiedPanel
from ucsearch.dispatch.conditions import evaluate, unconfirmed
from ucsearch.dispatch.decision import Decision, DecisionPanel, Outcome, Refused
from ucsearch.dispatch.fallbacks import Fallbacks, checked_fallback
from ucsearch.dispatch.gate import Calibration, Context, Gate, Reason
from ucsearch.dispatch.last_look import last_look
from ucsearch.dispatch.watch import Watch
from ucsearch.dispatch.words import explain_fallback
from ucsearch.effort import Proof, Run, no_more, one_record
from ucsearch.errors import InputError
from ucsearch.policies import Policy
from ucsearch.task import CHECKED, Task
from ucsearch.trace import Trace

__all__ = ["Filing", "Log", "decide", "decide_panel", "refuse"]

_log = logging.getLogger("ucsearch")
_ADVISED = "_kept_advised"
_PROOF, _RUN = Proof(), Run()
_NONE = Reason.NONE
_OUTCOMES = np.array([Outcome.HOLD.value, Outcome.FALLBACK.value, Outcome.RELEASED.value])


class Log(Protocol):
    """Where decisions are written before they are handed over, such as `uc.AuditLog`."""

    def write(self, decisions: Any, *, series: Any = "", where: str = "", request: Any = None) -> Any:
        """Return only when the decisions are on disk: a sequence with an entry for each, which has an `id`, or None.
        `request` is given only where the caller passed one."""


@dataclass(frozen=True)
class Filing:
    """Where decisions are filed: the log, and under what."""

    log: Log  # an AuditLog, or anything that writes like one
    series: Sequence[str] | str = ""  # names for the record, one for each decision
    where: str = ""  # module:NAME of the task object, for the verifier
    request: Any = None  # a text or a `records.Request`: the same request is recorded once

    def write(self, decisions: Any) -> tuple[str, ...]:
        """On disk when it returns; the ids of the records, of a log that says what it wrote."""
        asked = {} if self.request is None else {"request": self.request}
        entries = self.log.write(decisions, series=self.series, where=self.where, **asked)
        return tuple(str(e.id) for e in entries) if isinstance(entries, Sequence) else ()


# Also what another thread has changed meanwhile: there must be one set of rules in force.
_KEEPS_STATE = "what the rules read has changed while they were asked (a cache of answers: use functools.lru_cache)"


class FilingWords(Words, total=False):
    """Fields of `proof`, `run` and `Filing` as keywords."""

    series: Sequence[str] | str
    where: str
    request: Any


def decide(
    task: Task,
    state: Any,
    trace: Trace | ArrayLike,
    policy: Policy,
    *,
    gate: Gate | None = None,
    proof: Proof | None = None,
    run: Run | None = None,
    now: datetime | None = None,
    calibration: Calibration | None = None,
    params: Any = None,
    actions: ArrayLike | None = None,
    log: Log | Filing | None = None,
    **words: Unpack[FilingWords],
) -> Decision:
    """One decision. Run `check_task` on the task once before you trust this with it.

    A refused trace is a HOLD and a broken task a fallback, with its reason, not an exception; a wrong state,
    policy or gate is the caller's mistake and raises. With a `log` the decision is on disk before it is returned; every
    call is an entry of its own unless it repeats the request of its `uc.Filing`. The fields of `proof`, `run` and
    `Filing` are taken as keywords too."""
    gate = Gate() if gate is None else gate
    task.layout(state)
    filing = _filing(log, words)
    asked, how = one_record("proof", proof, _PROOF, words), one_record("run", run, _RUN, words)
    no_more(words)
    _recordable(task, filing)
    if not isinstance(trace, Trace):
        try:
            trace = Trace.from_members(trace)
        except InputError as error:
            refused = refuse(task, state, gate, str(error), params=params, actions=actions, now=now)
            return _written(refused, filing)
    if trace.windows != 1:
        raise InputError("trace", f"{trace.windows} windows", "one window", hint="Use decide_panel.")
    panel = decide_panel(
        task, [state], trace, policy, gate=gate, proof=asked, run=dataclasses.replace(how, threads=1), now=now,
        calibration=calibration, params=params, actions=actions,
    )  # fmt: skip
    return _written(panel[0], filing)


def decide_panel(
    task: Task,
    states: Any,
    traces: Any,
    policy: Policy,
    *,
    gate: Gate | None = None,
    proof: Proof | None = None,
    run: Run | None = None,
    now: datetime | None = None,
    calibration: Calibration | Sequence[Calibration] | None = None,
    paused: bool = False,
    params: Any = None,
    actions: ArrayLike | None = None,
    log: Log | Filing | None = None,
    **words: Unpack[FilingWords],
) -> DecisionPanel:
    """W decisions. `now` is compared with the traces' issue times, the clock of `run` with the time budget, which also
    ends a running search; docs/dispatch.md says what it cannot end. With a `log` all of them are on disk before any is
    returned."""
    gate = Gate() if gate is None else gate
    if not isinstance(gate, Gate):
        raise InputError("gate", type(gate).__name__, "a uc.Gate")
    filing = _filing(log, words)
    asked, how = one_record("proof", proof, _PROOF, words), one_record("run", run, _RUN, words)
    no_more(words)
    _recordable(task, filing)
    _recommend_check(task)
    clock = how.clock
    moment = _moment(now)
    if gate.time_budget_s is not None and clock is None:
        raise InputError("clock", "nothing", "a clock such as time.perf_counter, because gate.time_budget_s is set")
    rules = task.reach() if isinstance(task, Task) else None
    watch = None if clock is None else Watch(clock, gate.time_budget_s)
    certified = certify_panel(
        task, states, traces, policy, proof=asked, run=how, params=params, actions=actions,
        stop=watch.is_over if watch is not None and watch.budget_s is not None else None,
    )  # fmt: skip
    elapsed = math.nan if watch is None else watch.elapsed()
    each = () if calibration is None or isinstance(calibration, Calibration) else tuple(calibration)
    if each and len(each) != len(certified):
        raise InputError("calibration", f"{len(each)} records", f"one, or {len(certified)}: one per window")
    shared = calibration if isinstance(calibration, Calibration) else Calibration()
    context = Context(_ages(certified.plan.trace, now), elapsed, shared, each, paused)
    conditions = tuple(evaluate(gate, certified, context))
    cause = _causes(conditions, len(certified))
    passed = np.array([c is _NONE for c in cause])
    # Rules whose reach changes while they are asked release nothing, so what it was at the start says it all.
    doubts = last_look(certified, passed, unseen=None if rules is None else bool(rules.refused))
    if rules is not None and passed.any() and not rules.same_as(task.reach()):
        doubts = {**dict.fromkeys(np.flatnonzero(passed).tolist(), _KEEPS_STATE), **doubts}
    if doubts:
        conditions = (*conditions, unconfirmed(doubts, len(certified)))
        cause = _causes(conditions, len(certified))
    released = np.array([c is _NONE for c in cause])
    fallbacks = Fallbacks(certified)
    fallback, feasible = fallbacks.ask(~released)
    chosen = np.where(released, _released_actions(certified), np.where(feasible, fallback, np.nan))
    outcome = _OUTCOMES[np.where(released, 2, feasible)]
    panel = DecisionPanel(
        certified=certified,
        gate=gate,
        conditions=conditions,
        context=context,
        outcome=outcome,
        action=chosen,
        cause=cause,
        fallbacks=fallbacks,
        now=moment,
        doubts=doubts,
        rules=None if rules is None else task.reach().digests,  # as the last look and the fallback were asked
    )
    return panel if filing is None else dataclasses.replace(panel, records=filing.write(panel))


def _filing(log: Log | Filing | None, words: Any) -> Filing | None:
    given = {name: words.pop(name) for name in ("series", "where", "request") if name in words} if words else {}
    if isinstance(log, Filing):
        if given:
            raise InputError(next(iter(given)), "a keyword", "nothing beside a uc.Filing, which has it")
        return log
    return None if log is None else Filing(log, **given)


def _recordable(task: Task, filing: Filing | None) -> None:
    """With a log, a task whose rules cannot be hashed is refused before any work: `TaskError` names the part."""
    if filing is not None and isinstance(task, Task):
        _ = task.source_hash


def _recommend_check(task: Any) -> None:
    """Once for every task: rules that look at a clock, or that the engines read differently, are found by a check
    rather than by the last look."""
    if isinstance(task, Task) and not task.__dict__.get(CHECKED) and not task.__dict__.get(_ADVISED):
        task.__dict__[_ADVISED] = True
        if str(getattr(task.feasible, "__module__", "")).startswith("ucsearch."):
            return  # built in, and checked by our own tests
        _log.info("task %r was not checked in this process: run uc.check_task(task, state, outcomes) once", task.name)


def _written(decision: Decision, filing: Filing | None) -> Decision:
    """The decision, on disk if there is a log, and then with the id of its record."""
    if filing is None:
        return decision
    ids = filing.write(decision)
    return dataclasses.replace(decision, record_id=ids[0] if ids else "")


def _causes(conditions: tuple[Any, ...], count: int) -> tuple[Reason, ...]:
    """The first failed condition names the reason; nothing failed means release."""
    cause = [_NONE] * count
    for c in reversed(conditions):
        if not c.passed.all():
            for w in np.flatnonzero(~c.passed):
                cause[w] = c.reasons[0] if len(c.reasons) == 1 else c.reasons[w]
    return tuple(cause)


def _released_actions(certified: CertifiedPanel) -> NDArray[np.float64]:
    grid = certified.plan.inputs.actions
    index = np.maximum(certified.released, 0)
    rows = np.zeros(index.size, np.int64) if grid.shape[0] == 1 else np.arange(index.size)
    return grid[rows, index]


def _ages(trace: Trace, now: datetime | None) -> tuple[float, ...]:
    """Seconds since issue, one per recorded issue time; NaN when unknown, which fails every age limit."""
    if now is None or not trace.issued:
        return (math.nan,)
    ages = []
    for text in trace.issued:
        try:
            ages.append((_utc(now) - _utc(datetime.fromisoformat(text))).total_seconds())
        except (ValueError, OverflowError):  # a time at the edge of the calendar has no UTC
            ages.append(math.nan)
    return tuple(ages)


def _moment(now: datetime | None) -> str:
    """ISO text in UTC; "" where nobody said what time it is."""
    try:
        if now is not None and not isinstance(now, datetime):
            raise TypeError
        return "" if now is None else _utc(now).isoformat()
    except (TypeError, OverflowError):
        raise InputError("now", repr(now), "a datetime that exists in UTC") from None


def _utc(moment: datetime) -> datetime:
    """A time without a zone is read as UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def refuse(
    task: Task,
    state: Any,
    gate: Gate,
    detail: str,
    *,
    params: Any = None,
    actions: ArrayLike | None = None,
    now: datetime | None = None,
) -> Decision:
    """The decision about a trace that was refused: nothing was searched and nothing leaves, the outcome is HOLD. The
    fallback is recorded beside it; without a `state`, or with no `actions` because they depend on the trace, none."""
    moment = _moment(now)
    p = task.params if params is None else params
    grid = task.action_array if actions is None else np.asarray(actions, dtype=np.float64).reshape(-1)
    if grid.size not in (0, len(task.actions)):
        raise InputError("actions", f"{grid.size} actions", f"{len(task.actions)}, or none when they are not known")
    action, feasible = (math.nan, False) if state is None else checked_fallback(task, state, p, grid.tolist())
    fallback = None if math.isnan(action) else action
    return Decision(
        outcome=Outcome.HOLD,
        action=None,
        reason=Reason.INVALID_TRACE,
        cause=Reason.INVALID_TRACE,
        sentence=explain_fallback(Reason.INVALID_TRACE, None, detail, None),
        certificate=None,
        gate=gate,
        rows=(),
        context=Context((math.nan,), math.nan, Calibration()),
        pass_kind="",
        release_margin=math.nan,
        regret_bound=math.inf,
        rejected_action=None,
        fallback_action=fallback,
        fallback_feasible=feasible,
        fallback_cost=math.nan,
        now=moment,
        refused=Refused(task, state, p, tuple(grid.tolist())),
        rules=task.reach().digests,
    )
