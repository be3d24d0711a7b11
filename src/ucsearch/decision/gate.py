"""The gate: what is asked before a searched action leaves. No condition at all refuses.

Each condition has its words, its figure, its limit and its reason in one place. A site adds its own to a task
(`uc.Condition`). The verifier has a table of its own, in the same order; it asks a site's condition by the task that it
is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import lru_cache
from numbers import Real
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import Status
from ucsearch.errors import LARGEST, InputError
from ucsearch.rules.answers import as_number, guarded
from ucsearch.task import SITE, Condition

if TYPE_CHECKING:
    from ucsearch.certificate.certificate import CertifiedPanel

__all__ = [
    "BUILT_IN",
    "FAILURES",
    "FINAL_CHECK",
    "IN_TIME",
    "TIE_ALLOWED",
    "BuiltIn",
    "Calibration",
    "CheckedCondition",
    "Context",
    "Gate",
    "Reason",
    "evaluate",
    "unconfirmed",
]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

FINAL_CHECK = "final_check"  # what would leave is confirmed by the plain rules
IN_TIME = "search_in_time"  # the time budget did not end the search
TIE_ALLOWED = "tie_allowed"  # what would leave is exact, or its tie may leave
FAILURES = (IN_TIME, FINAL_CHECK)  # rows that a decision has only where they fail: nobody can derive them again
_SHARES = ("min_member_feasible",)  # limits from 0 to 1
_CHOICES = ("allow_ties",)  # yes, no, or what is usual
_SILENT = ("near", "pausable", "allow_ties")  # switches that ask for nothing by themselves


class Reason(StrEnum):
    """Why a searched action was not released; NONE when it was."""

    NONE = "none"
    DEAD_END = "dead_end"
    SEARCH_EXHAUSTED = "search_exhausted"
    NOT_PROVED = "not_proved"
    NOT_OPTIMAL = "not_optimal"
    NOT_ROBUST = "not_robust"
    TIED = "tied"  # another action is as good to within rounding, and the gate does not allow that
    MARGIN_NOT_POSITIVE = "margin_not_positive"
    NOT_RISK_ACTIVE = "not_risk_active"
    MEMBERS_INFEASIBLE = "members_infeasible"
    REGRET_ABOVE_LIMIT = "regret_above_limit"
    INVALID_TRACE = "invalid_trace"
    STALE_TRACE = "stale_trace"
    CALIBRATION = "calibration"
    PAUSED = "paused"  # a person stopped releases
    SITE = "site"  # a condition that the site added to the task
    NODE_BUDGET = "node_budget"
    TIME_BUDGET = "time_budget"
    TASK_ERROR = "task_error"
    NO_INFORMATION_STRUCTURE = "no_information_structure"
    FALLBACK_INFEASIBLE = "fallback_infeasible"
    BUDGET_INFEASIBLE = "budget_infeasible"  # of an allocation: a shared limit cannot be kept
    ALLOCATION_GAP = "allocation_gap"  # of an allocation: not proved good enough


@dataclass(frozen=True)
class Calibration:
    """Measured errors of the forecaster, for conditions of the gate."""

    eps_c: float = math.nan  # 95 % quantile of (|Rhat - R| - beta * U)+, in reward units
    undercoverage: float = math.nan  # nominal minus measured interval coverage
    drift: float = math.nan  # evidence of the calibration monitor; NaN when it cannot be read
    overdue: float = math.nan  # outcomes that should have been reported and were not


@dataclass(frozen=True, kw_only=True)
class Gate:
    """Conditions for release; all that are set must hold. The default is the certificate alone."""

    certificate: bool = True  # no alternative can score more under the trace (with `eps_m`: by a margin)
    risk_active: bool = False  # and uncertainty changed the choice: every reward-only optimum is strictly worse
    regret_limit: float | None = None  # the regret bound is at most this, in units of reward
    near: bool = False  # on the planning-value route a regret within `regret_limit` stands in for the certificate
    allow_ties: bool | None = None  # ties to within rounding may leave; None: unless terms cancel; False: only `exact`
    positive_margin: bool = False  # the release margin is positive
    min_member_feasible: float | None = None  # the plan keeps every rule in members of at least this weight
    max_trace_age_s: float | None = None  # the trace has an issue time, not in the future, and is not older than this
    max_eps_c: float | None = None  # the measured calibration error is at most this
    max_undercoverage: float | None = None  # measured intervals miss at most this much more than they say
    max_drift: float | None = None  # a monitor's evidence that forecasts drift is at most this
    max_overdue: float | None = None  # maximum number of overdue outcome reports
    pausable: bool = False  # no person has paused releases (`decide_panel(paused=...)`)
    node_budget: int | None = None  # expansions, simulations and proof nodes together stay within it
    time_budget_s: float | None = None  # search and proof took no longer, by the clock of `uc.Run(clock=...)`

    def __post_init__(self) -> None:
        switches = [f.name for f in fields(self) if f.type == "bool"]
        limits = [f.name for f in fields(self) if f.type != "bool" and f.name not in _CHOICES]
        for name in switches:
            if not isinstance(getattr(self, name), bool | np.bool_):  # "no" would be a yes
                raise InputError(f"gate.{name}", repr(getattr(self, name)), "True or False")
        for name in _CHOICES:
            if not isinstance(getattr(self, name), bool | np.bool_ | None):
                raise InputError(f"gate.{name}", repr(getattr(self, name)), "True, False or None")
        for name in limits:
            if not isinstance(getattr(self, name), Real | None) or isinstance(getattr(self, name), bool):
                raise InputError(f"gate.{name}", repr(getattr(self, name)), "a number, or None")
        for name in limits:
            value = getattr(self, name)
            if name not in _SHARES and value is not None and not 0.0 <= value <= LARGEST:
                raise InputError(f"gate.{name}", value, "a finite number of at least 0, or None")
            if name in _SHARES and value is not None and not 0.0 <= value <= 1.0:
                raise InputError(f"gate.{name}", value, "a share from 0 to 1, or None")
        if self.near and self.regret_limit is None:
            raise InputError("gate.regret_limit", None, "a limit, because gate.near is set")

    def measured(self) -> tuple[tuple[str, float], ...]:
        """Figures of `Calibration` that have a limit, and it."""
        limits = {
            "eps_c": self.max_eps_c, "undercoverage": self.max_undercoverage, "drift": self.max_drift,
            "overdue": self.max_overdue,
        }  # fmt: skip
        return tuple((name, limit) for name, limit in limits.items() if limit is not None)

    @property
    def is_empty(self) -> bool:
        values = [value for name, value in vars(self).items() if name not in _SILENT]
        return all(value is None or (isinstance(value, bool | np.bool_) and not value) for value in values)


class Context(NamedTuple):
    """What the caller knows and the search does not."""

    age_s: Sequence[float]  # (W or 1,) seconds since the trace was issued; NaN unknown
    elapsed_s: float  # NaN when no clock was given
    calibration: Calibration
    each: tuple[Calibration, ...] = ()  # (W,) instead of `calibration`, where windows differ
    paused: bool = False

    def at(self, w: int) -> Context:
        """As one window sees it."""
        return self._replace(calibration=self.each[w], each=()) if self.each else self

    def figures(self, name: str) -> list[float] | float:
        return [getattr(c, name) for c in self.each] if self.each else float(getattr(self.calibration, name))


# -------------------------------------------------------------------- the conditions

_TESTS = {"<=": np.less_equal, ">=": np.greater_equal, ">": np.greater, "==": np.equal}
# Plain numbers: with an enum NumPy takes several times as long.
_TASK_ERROR, _OUT_OF_TIME, _NO_STRUCTURE = map(int, (Status.TASK_ERROR, Status.OUT_OF_TIME, Status.NO_STRUCTURE))
_NOT_PROVED, _DEAD_END = int(Status.NOT_PROVED), int(Status.DEAD_END)


class CheckedCondition(NamedTuple):
    """One row of the gate for all windows: `left operator right`."""

    name: str
    left: Floats  # (W,) truth values as 0 and 1
    operator: str
    right: float
    passed: Bools  # (W,)
    reasons: tuple[Reason, ...]  # (1,) for all, or one per window


class GateInput(NamedTuple):
    """What a condition may look at."""

    gate: Gate
    panel: CertifiedPanel
    context: Context

    @property
    def status(self) -> NDArray[np.int64]:
        return self.panel.plan.status


class GateTerms(NamedTuple):
    """What says whether a condition is asked for, and its limit: the same for every panel."""

    gate: Gate
    closed: bool  # policies were valued, not fixed plans


@dataclass(frozen=True)
class BuiltIn:
    """A condition of the gate; not asked where `limit` is None."""

    name: str
    words: str  # what is so when it holds
    reason: Reason
    figure: Callable[[GateInput], object]  # (W,), or one for all
    operator: str = "=="
    limit: Callable[[GateTerms], float | None] = lambda x: 1.0
    reasons: Callable[[GateInput], tuple[Reason, ...]] | None = None  # one per window, instead of `reason`

    def check(self, x: GateInput, limit: float) -> CheckedCondition:
        """Compare its figure with the limit, in every window."""
        left = np.asarray(self.figure(x), dtype=np.float64)
        if left.shape != (count := (len(x.panel),)):
            left = np.full(count, left)
        passed = _holds(left, self.operator, limit)
        reasons = (self.reason,) if self.reasons is None or passed.all() else self.reasons(x)
        return CheckedCondition(self.name, left, self.operator, limit, passed, reasons)


@lru_cache(maxsize=256)
def _conditions_of(terms: GateTerms) -> tuple[tuple[BuiltIn, float], ...]:
    """The conditions that a gate asks for, with their limits."""
    limits = [(condition, condition.limit(terms)) for condition in BUILT_IN]
    return tuple((condition, float(limit)) for condition, limit in limits if limit is not None)


def _if(holds: object) -> float | None:
    return 1.0 if holds else None


def _unproved(x: GateInput) -> tuple[Reason, ...]:
    evidence, claims = x.panel.evidence, x.panel.claims
    unknown = (evidence.actions & np.isnan(evidence.upper)).any(axis=1)
    failed = np.where(unknown, 0, np.where(claims.optimal, 2, 1))
    kinds = (Reason.NOT_PROVED, Reason.NOT_OPTIMAL, Reason.NOT_ROBUST)
    return tuple(kinds[int(i)] for i in failed)


def _passed(x: GateInput) -> Bools:
    """The certificate, or where the planning-value route decided and `near` is set, a regret that is within its limit
    even if rounding has hidden tau of it."""
    route, limit, claims = x.panel.route, x.gate.regret_limit, x.panel.claims
    if not x.gate.near or route is None or limit is None:
        return claims.passed
    passed: Bools = claims.passed | (route.routed & (claims.regret_bound + claims.tau <= limit))
    return passed


def _tie_allowed(x: GateInput) -> Bools:
    """Exact; or, unless the gate demands that, no tie; or a tie of sums that kept their digits."""
    claims = x.panel.claims
    tied = claims.optimal & ~claims.unique
    allowed: Bools = claims.unique if x.gate.allow_ties is False else ~(tied & claims.cancellation)
    return allowed


def _lead(x: GateInput) -> Floats:
    """The planning-value margin less its tolerance where the route decided, else the lead over every rival less the
    tolerance of that pair (unbounded for a sole action)."""
    lead, route = x.panel.claims.lead, x.panel.route
    return lead if route is None else np.where(route.routed, route.margin - route.tau, lead)


def _active(x: GateInput) -> Bools:
    claims = x.panel.claims
    return claims.uncertainty_active if x.panel.plan.policy.mode == "members" else claims.risk_active


def _measured(name: str, words: str) -> BuiltIn:
    return BuiltIn(
        name, words, Reason.CALIBRATION, lambda x: x.context.figures(name), "<=",
        lambda x: dict(x.gate.measured()).get(name),
    )  # fmt: skip


# In the order in which the first failure names the reason.
BUILT_IN = (
    BuiltIn(
        "task", "the task's rules ran without a fault", Reason.TASK_ERROR, lambda x: x.status == _TASK_ERROR,
        limit=lambda x: 0.0,
    ),
    BuiltIn(
        IN_TIME, "the search ended before its time was over", Reason.TIME_BUDGET,
        lambda x: x.status != _OUT_OF_TIME,
    ),
    BuiltIn(
        "conditions", "the gate asks for something", Reason.NOT_PROVED, lambda x: 0, ">=",
        lambda x: _if(x.gate.is_empty),
    ),
    BuiltIn(
        "trace_issued_before_now", "the forecast was made before now", Reason.STALE_TRACE, lambda x: x.context.age_s,
        ">=", lambda x: None if x.gate.max_trace_age_s is None else 0.0,
    ),
    BuiltIn(
        "trace_age_s", "the forecast is fresh enough", Reason.STALE_TRACE, lambda x: x.context.age_s, "<=",
        lambda x: x.gate.max_trace_age_s,
    ),
    _measured("eps_c", "the forecaster's calibration error is within its limit"),
    _measured("undercoverage", "the forecaster's intervals cover enough"),
    _measured("drift", "the calibration monitor's evidence is within its limit"),
    _measured("overdue", "few enough outcomes are missing"),
    BuiltIn(
        "released_by_operator", "releases are not paused", Reason.PAUSED, lambda x: not x.context.paused,
        limit=lambda x: _if(x.gate.pausable),
    ),
    BuiltIn(
        "law", "the forecast says what is learned when", Reason.NO_INFORMATION_STRUCTURE,
        lambda x: x.status != _NO_STRUCTURE, limit=lambda x: _if(x.closed),
    ),
    BuiltIn(
        "transitions_within_budget", "every state that can be reached was valued within node_budget",
        Reason.NODE_BUDGET, lambda x: x.status != _NOT_PROVED, limit=lambda x: _if(x.closed),
    ),
    BuiltIn(
        "completion", "at least one plan is feasible over the whole horizon", Reason.DEAD_END,
        lambda x: x.status != _DEAD_END,
    ),
    BuiltIn("path", "the search found a plan", Reason.SEARCH_EXHAUSTED, lambda x: x.panel.released >= 0),
    BuiltIn(
        "certificate_pass", "the first action is proved best among those offered, under the forecast",
        Reason.NOT_PROVED, _passed, limit=lambda x: _if(x.gate.certificate), reasons=_unproved,
    ),
    BuiltIn(
        TIE_ALLOWED, "no other action is as good to within rounding, or such ties may be released", Reason.TIED,
        _tie_allowed, limit=lambda x: None if x.gate.allow_ties else 1.0,
    ),
    BuiltIn(
        "release_margin_above_tau", "its lead over the alternatives is positive", Reason.MARGIN_NOT_POSITIVE, _lead,
        ">", lambda x: 0.0 if x.gate.positive_margin else None,
    ),
    BuiltIn(
        "risk_active", "uncertainty changed the choice", Reason.NOT_RISK_ACTIVE, _active,
        limit=lambda x: _if(x.gate.risk_active),
    ),
    BuiltIn(
        "regret_bound", "what it may lose against the best plan on this grid is within the limit",
        Reason.REGRET_ABOVE_LIMIT, lambda x: x.panel.claims.regret_bound, "<=", lambda x: x.gate.regret_limit,
    ),
    BuiltIn(
        "member_feasible", "the plan keeps every rule in enough members", Reason.MEMBERS_INFEASIBLE,
        lambda x: x.panel.member_feasible, ">=", lambda x: x.gate.min_member_feasible,
    ),
    BuiltIn(
        "nodes", "the effort stayed within the budget", Reason.NODE_BUDGET,
        lambda x: x.panel.plan.expansions + x.panel.oracle_nodes, "<=", lambda x: x.gate.node_budget,
    ),
    BuiltIn(
        "elapsed_s", "the time stayed within the budget", Reason.TIME_BUDGET, lambda x: x.context.elapsed_s, "<=",
        lambda x: x.gate.time_budget_s,
    ),
    # Asked by `unconfirmed`, after all others: the final check confirms what would leave.
    BuiltIn(FINAL_CHECK, "the plain rules confirm the plan", Reason.TASK_ERROR, lambda x: 1, limit=lambda x: None),
)  # fmt: skip


def evaluate(gate: Gate, panel: CertifiedPanel, context: Context) -> list[CheckedCondition]:
    """Every condition that is asked for, the task's own ones last."""
    x, closed = GateInput(gate, panel, context), panel.plan.policy.mode == "closed"
    rows = [condition.check(x, limit) for condition, limit in _conditions_of(GateTerms(gate, closed))]
    # A search that was not ended says nothing of it: without a clock nobody asked. Nor does an action that is not tied,
    # unless the gate demands it.
    silent = (IN_TIME,) if gate.allow_ties is False else (IN_TIME, TIE_ALLOWED)
    rows = [row for row in rows if row.name not in silent or not row.passed.all()]
    return rows + [_site_row(condition, panel) for condition in panel.plan.task.conditions]


def _site_row(condition: Condition, panel: CertifiedPanel) -> CheckedCondition:
    """A condition of the site, asked of the proposed action in every window; without one it fails."""
    left = np.full(len(panel), np.nan)
    for w, index in enumerate(panel.released.tolist()):
        if index >= 0:
            start = panel.plan.start(w)
            left[w] = _site_figure(condition, start.state, start.actions[index], start.params)
    name, operator, limit = SITE + condition.name, condition.operator, condition.limit
    return CheckedCondition(name, left, operator, limit, _holds(left, operator, limit), (Reason.SITE,))


def _site_figure(condition: Condition, state: object, action: float, params: object) -> float:
    try:
        return as_number(guarded(condition.figure, state, action, params))
    except Exception:  # whatever user code raises here means the same: nothing speaks for the action
        return math.nan


def unconfirmed(windows: Iterable[int], count: int) -> CheckedCondition:
    """The last row: failed in the windows whose release the final check did not confirm."""
    left = np.ones(count)
    left[list(windows)] = 0.0
    return CheckedCondition(FINAL_CHECK, left, "==", 1.0, left == 1.0, (Reason.TASK_ERROR,))


def _holds(left: Floats, operator: str, right: float) -> Bools:
    """NaN on the left fails every operator."""
    holds: Bools = _TESTS[operator](left, right)
    return holds
