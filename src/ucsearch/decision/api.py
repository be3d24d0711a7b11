"""`decide` and `decide_panel`: certify, pass the gate or fall back. Clock and limits are passed in."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch.certificate.api import certify_panel
from ucsearch.certificate.certificate import CertifiedPanel
from ucsearch.certificate.replay import final_check
from ucsearch.decision.decision import Decision, DecisionPanel, Fallbacks, Outcome, Refused, checked_fallback
from ucsearch.decision.gate import Calibration, CheckedCondition, Context, Gate, Reason, evaluate, unconfirmed
from ucsearch.decision.words import explain_fallback
from ucsearch.errors import InputError
from ucsearch.layout import own_row
from ucsearch.policies import PROOF, RUN, Policy, Proof, Run, check_options
from ucsearch.task import Params, State, Task
from ucsearch.trace import Trace

__all__ = [
    "Filing",
    "Log",
    "Stopwatch",
    "decide",
    "decide_panel",
    "refuse",
]


_log = logging.getLogger("ucsearch")
_NONE = Reason.NONE
# Also what another thread has changed meanwhile: there must be one set of rules in force.
_KEEPS_STATE = "what the rules read has changed while they were asked (a cache of answers: use functools.lru_cache)"
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
        request = {} if self.request is None else {"request": self.request}
        entries = self.log.write(decisions, series=self.series, where=self.where, **request)
        return tuple(str(entry.id) for entry in entries) if isinstance(entries, Sequence) else ()


class Stopwatch:
    """Seconds since it was made, against a budget. Once over, the time stays over, whatever the clock says later."""

    def __init__(self, clock: Callable[[], float], budget_s: float | None) -> None:
        self.clock, self.budget_s = clock, budget_s
        self._started = clock()
        self._over: float | None = None  # the reading at which it was

    def elapsed(self) -> float:
        """At least what ended a search."""
        seconds = float(self.clock() - self._started)
        return seconds if self._over is None or seconds > self._over else self._over

    def is_over(self) -> bool:
        """A reading that is no number counts as over."""
        if self._over is None and self.budget_s is not None:
            seconds = float(self.clock() - self._started)
            if not seconds <= self.budget_s:
                self._over = seconds
        return self._over is not None


def decide(
    task: Task[State, Params],
    state: State,
    trace: Trace | ArrayLike,
    policy: Policy,
    *,
    gate: Gate | None = None,
    proof: Proof = PROOF,
    run: Run = RUN,
    now: datetime | None = None,
    calibration: Calibration | None = None,
    params: Params | None = None,
    actions: ArrayLike | None = None,
    log: Log | Filing | None = None,
) -> Decision:
    """Decide once: search, prove, and release the first action if every condition of the gate holds.

    Run `check_task` on the task once before you trust this with it. With a `log` the decision is on disk before it is
    returned; every call is an entry of its own unless it repeats the request of its `Filing`.

    Args:
        task: the rules.
        state: where the series stands, an instance of the task's `state`.
        trace: the frozen forecast, or an array (members, steps).
        policy: how to search.
        gate: conditions that must all hold before an action is released.
        proof: what the proof may cost and assume.
        run: engine, threads, clock and progress.
        now: the moment of the decision, with a time zone; it is never read off a clock.
        calibration: how honest the forecasts have been.
        params: in place of the task's own `params`, such as one series' costs.
        actions: in place of the task's own: the grid of this series, ascending, in units of the task.
        log: where the decision is filed.

    Returns:
        A `Decision`. Its outcome is RELEASED, FALLBACK where the proof or a condition is missing or a rule fails, or
        HOLD where the forecast is refused or the fallback is not feasible; the reason says why.

    Raises:
        InputError: a wrong state, policy, gate or other argument, which is the caller's mistake.
        TaskError: the rules changed since the task was made, or a `log` is given and they cannot be recorded.
    """
    call = _checked_call(task, policy, gate, proof, run, now, calibration, log)
    task.layout(state)
    if not isinstance(trace, Trace):
        try:
            trace = Trace.from_members(trace)
        except InputError as error:
            refused = refuse(task, state, call.gate, str(error), params=params, actions=actions, now=now)
            return _file(refused, call.filing)
    if trace.windows != 1:
        raise InputError("trace", f"{trace.windows} windows", "one window", hint="Use decide_panel.")
    call = call._replace(run=dataclasses.replace(run, threads=1))
    panel = _decide_windows(call, [state], trace, False, params, actions)
    return _file(panel[0], call.filing)


def decide_panel(
    task: Task,
    states: Any,
    traces: Any,
    policy: Policy,
    *,
    gate: Gate | None = None,
    proof: Proof = PROOF,
    run: Run = RUN,
    now: datetime | None = None,
    calibration: Calibration | Sequence[Calibration] | None = None,
    paused: bool = False,
    params: Any = None,
    actions: ArrayLike | None = None,
    log: Log | Filing | None = None,
) -> DecisionPanel:
    """Decide for many windows at once, such as one for each series.

    `now` is compared with the traces' issue times, the clock of `run` with the time budget, which also ends a running
    search; docs/concepts/gate.md says what it cannot end. With a `log` all decisions are on disk before any is
    returned.

    Args:
        task: the rules.
        states: an array (W, numbers of a state), a sequence of states, or a state of arrays.
        traces: a `Trace` with W windows, or one that all share.
        policy: how to search.
        gate: conditions that must all hold before an action is released.
        proof: what the proof may cost and assume.
        run: engine, threads, clock and progress.
        now: the moment of the decisions, with a time zone.
        calibration: how honest the forecasts have been: one record for all, or one for each window.
        paused: a person has stopped releases, and only fallbacks leave.
        params: in place of the task's own `params`: one for all, or arrays with one value for each window.
        actions: in place of the task's own: one grid for all, or one for each window.
        log: where the decisions are filed.

    Returns:
        A `DecisionPanel` of W decisions: arrays, and `panel[w]` for a single one.

    Raises:
        InputError: a wrong argument.
        TaskError: the rules changed since the task was made, or a `log` is given and they cannot be recorded.
    """
    call = _checked_call(task, policy, gate, proof, run, now, calibration, log)
    panel = _decide_windows(call, states, traces, paused, params, actions)
    return panel if call.filing is None else dataclasses.replace(panel, records=call.filing.write(panel))


class _Call(NamedTuple):
    """Arguments that a single decision and a panel have in common, checked."""

    task: Task
    policy: Policy
    gate: Gate
    proof: Proof
    run: Run
    now: datetime | None
    moment: str
    calibration: Calibration | tuple[Calibration, ...]  # of all windows, or of each; () where nothing was measured
    filing: Filing | None


def _checked_call(
    task: Task, policy: Policy, gate: Gate | None, proof: Proof, run: Run, now: datetime | None,
    calibration: Calibration | Sequence[Calibration] | None, log: Log | Filing | None,
) -> _Call:  # fmt: skip
    if not isinstance(task, Task):
        raise InputError("task", type(task).__name__, "a uc.Task")
    gate = Gate() if gate is None else gate
    if not isinstance(gate, Gate):
        raise InputError("gate", type(gate).__name__, "a uc.Gate")
    check_options(proof, run)
    if gate.time_budget_s is not None and run.clock is None:
        raise InputError("clock", "nothing", "a clock such as time.perf_counter, because gate.time_budget_s is set")
    filing = log if log is None or isinstance(log, Filing) else Filing(log)
    if filing is not None:
        if not callable(getattr(filing.log, "write", None)):
            raise InputError("log", type(filing.log).__name__, "a uc.AuditLog, or a Filing of one")
        _ = task.source_hash  # rules that cannot be recorded are refused before any work: `TaskError` names the part
    _recommend_check(task)
    return _Call(task, policy, gate, proof, run, now, _moment(now), _checked_calibration(calibration), filing)


def _checked_calibration(
    calibration: Calibration | Sequence[Calibration] | None,
) -> Calibration | tuple[Calibration, ...]:
    if calibration is None or isinstance(calibration, Calibration):
        return () if calibration is None else calibration
    if not isinstance(calibration, Sequence) or not all(isinstance(record, Calibration) for record in calibration):
        raise InputError("calibration", repr(calibration), "a uc.Calibration, or a list of them: one for each window")
    return tuple(calibration)


def _decide_windows(
    call: _Call, states: Any, traces: Any, paused: bool, params: Any, actions: ArrayLike | None
) -> DecisionPanel:  # fmt: skip
    """Search and proof, the gate, the final check, and fallbacks for what is not released."""
    task, gate, clock = call.task, call.gate, call.run.clock
    stopwatch = None if clock is None else Stopwatch(clock, gate.time_budget_s)
    certified = certify_panel(
        task, states, traces, call.policy, proof=call.proof, run=call.run, params=params, actions=actions,
        stop=stopwatch.is_over if stopwatch is not None and stopwatch.budget_s is not None else None,
    )  # fmt: skip
    elapsed, count = math.nan if stopwatch is None else stopwatch.elapsed(), len(certified)
    shared = call.calibration if isinstance(call.calibration, Calibration) else Calibration()
    each = call.calibration if isinstance(call.calibration, tuple) else ()
    if each and len(each) != count:
        raise InputError("calibration", f"{len(each)} records", f"one, or {count}: one per window")
    context = Context(_ages(certified.plan.trace, call.now), elapsed, shared, each, paused)
    conditions = tuple(evaluate(gate, certified, context))
    causes = _causes(conditions, count)
    passed = np.array([cause is _NONE for cause in causes])
    doubts = final_check(certified, passed, unseen=bool(task.identity.refused))
    if passed.any() and task.identity.changed():
        doubts = {**dict.fromkeys(np.flatnonzero(passed).tolist(), _KEEPS_STATE), **doubts}
    if doubts:
        conditions = (*conditions, unconfirmed(doubts, count))
        causes = _causes(conditions, count)
    released = np.array([cause is _NONE for cause in causes])
    fallbacks = Fallbacks(certified)
    fallback, feasible = fallbacks.ask(~released)
    return DecisionPanel(
        certified=certified,
        gate=gate,
        conditions=conditions,
        context=context,
        outcome=_OUTCOMES[np.where(released, 2, feasible)],
        action=np.where(released, _released_actions(certified), np.where(feasible, fallback, np.nan)),
        cause=causes,
        fallbacks=fallbacks,
        now=call.moment,
        doubts=doubts,
    )


def _recommend_check(task: Task) -> None:
    """Once for every task: rules that look at a clock, or that the engines read differently, are found by a check
    rather than by the final check."""
    if not task.cache.get("checked") and not task.cache.get("check advised"):
        task.cache["check advised"] = True
        if str(getattr(task.feasible, "__module__", "")).startswith("ucsearch."):
            return  # built in, and checked by our own tests
        _log.info("task %r was not checked in this process: run uc.check_task(task, state, outcomes) once", task.name)


def _file(decision: Decision, filing: Filing | None) -> Decision:
    """The decision, on disk if there is a log, and then with the id of its record."""
    if filing is None:
        return decision
    ids = filing.write(decision)
    return dataclasses.replace(decision, record_id=ids[0] if ids else "")


def _causes(conditions: tuple[CheckedCondition, ...], count: int) -> tuple[Reason, ...]:
    """The first failed condition names the reason; nothing failed means release."""
    causes = [_NONE] * count
    for condition in reversed(conditions):
        if not condition.passed.all():
            for w in np.flatnonzero(~condition.passed).tolist():
                causes[w] = own_row(condition.reasons, w)
    return tuple(causes)


def _released_actions(certified: CertifiedPanel) -> NDArray[np.float64]:
    grid, index = certified.plan.inputs.actions, np.maximum(certified.released, 0)
    return np.broadcast_to(grid, (index.size, grid.shape[1]))[np.arange(index.size), index]


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
    offered = [task.action_of(a) for a in grid.tolist()]
    action, feasible = (math.nan, False) if state is None else checked_fallback(task, state, p, offered)
    fallback = None if action != action else action
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
        refused=Refused(task, state, p, tuple(offered)),
    )
