"""The gate's conditions as small objects: each with its words, its figure, its limit and its reason in one place.

A site adds its own to a task (`uc.Condition`). The verifier has a table of its own, in the same order; it asks a site's
condition by the task that it is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.certificate.certificate import CertifiedPanel
from ucsearch.decision.gate import FINAL_CHECK, IN_TIME, TIE_ALLOWED, Context, Gate, Reason
from ucsearch.engine.status import Status
from ucsearch.rules.answers import as_number, guarded
from ucsearch.task import SITE, Condition

__all__ = ["BUILT_IN", "BuiltIn", "Checked", "evaluate", "unconfirmed"]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
_TESTS = {"<=": np.less_equal, ">=": np.greater_equal, ">": np.greater, "==": np.equal}
# Plain numbers: with an enum NumPy takes several times as long.
_TASK_ERROR, _OUT_OF_TIME, _NO_STRUCTURE = map(int, (Status.TASK_ERROR, Status.OUT_OF_TIME, Status.NO_STRUCTURE))
_NOT_PROVED, _DEAD_END = int(Status.NOT_PROVED), int(Status.DEAD_END)


class Checked(NamedTuple):
    """One row of the gate for all windows: `left operator right`."""

    name: str
    left: Floats  # (W,) truth values as 0 and 1
    operator: str
    right: float
    passed: Bools  # (W,)
    reasons: tuple[Reason, ...]  # (1,) for all, or one per window


class Asked(NamedTuple):
    """What a condition may look at."""

    gate: Gate
    panel: CertifiedPanel
    context: Context

    @property
    def status(self) -> NDArray[np.int64]:
        return self.panel.plan.status


class Terms(NamedTuple):
    """What says whether a condition is asked for, and its limit: the same for every panel."""

    gate: Gate
    closed: bool  # policies were valued, not fixed plans


@dataclass(frozen=True)
class BuiltIn:
    """A condition of the gate; not asked where `limit` is None."""

    name: str
    words: str  # what is so when it holds
    reason: Reason
    figure: Callable[[Asked], object]  # (W,), or one for all
    operator: str = "=="
    limit: Callable[[Terms], float | None] = lambda x: 1.0
    reasons: Callable[[Asked], tuple[Reason, ...]] | None = None  # one per window, instead of `reason`

    def check(self, asked: Asked, right: float) -> Checked:
        left = np.asarray(self.figure(asked), dtype=np.float64)
        if left.shape != (count := (len(asked.panel),)):
            left = np.full(count, left)
        passed = _holds(left, self.operator, right)
        why = (self.reason,) if self.reasons is None or passed.all() else self.reasons(asked)
        return Checked(self.name, left, self.operator, right, passed, why)


@lru_cache(maxsize=256)
def _asked_by(terms: Terms) -> tuple[tuple[BuiltIn, float], ...]:
    """The conditions that a gate asks for, with their limits."""
    found = [(one, one.limit(terms)) for one in BUILT_IN]
    return tuple((one, float(right)) for one, right in found if right is not None)


def _if(asked: object) -> float | None:
    return 1.0 if asked else None


def _unproved(x: Asked) -> tuple[Reason, ...]:
    evidence, claims = x.panel.evidence, x.panel.claims
    unknown = (evidence.actions & np.isnan(evidence.upper)).any(axis=1)
    failed = np.where(unknown, 0, np.where(claims.optimal, 2, 1))
    kinds = (Reason.NOT_PROVED, Reason.NOT_OPTIMAL, Reason.NOT_ROBUST)
    return tuple(kinds[int(i)] for i in failed)


def _passed(x: Asked) -> Bools:
    """The certificate, or where the planning-value route decided and `near` is set, a regret that is within its limit
    even if rounding has hidden tau of it."""
    route, limit, claims = x.panel.route, x.gate.regret_limit, x.panel.claims
    if not x.gate.near or route is None or limit is None:
        return claims.passed
    passed: Bools = claims.passed | (route.routed & (claims.regret_bound + claims.tau <= limit))
    return passed


def _tie_allowed(x: Asked) -> Bools:
    """Exact; or, unless the gate demands that, no tie; or a tie of sums that kept their digits."""
    claims = x.panel.claims
    tied = claims.optimal & ~claims.unique
    allowed: Bools = claims.unique if x.gate.allow_ties is False else ~(tied & claims.cancellation)
    return allowed


def _lead(x: Asked) -> Floats:
    """The planning-value margin less its tolerance where the route decided, else the lead over every rival less the
    tolerance of that pair (unbounded for a sole action)."""
    lead, route = x.panel.claims.lead, x.panel.route
    return lead if route is None else np.where(route.routed, route.margin - route.tau, lead)


def _active(x: Asked) -> Bools:
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
        TIE_ALLOWED, "no other action is as good to within rounding, or such ties may leave", Reason.TIED,
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


def evaluate(gate: Gate, panel: CertifiedPanel, context: Context) -> list[Checked]:
    """Every condition that is asked for, the task's own ones last."""
    asked, closed = Asked(gate, panel, context), panel.plan.policy.mode == "closed"
    rows = [one.check(asked, right) for one, right in _asked_by(Terms(gate, closed))]
    # A search that was not ended says nothing of it: without a clock nobody asked. Nor does an action that is not tied,
    # unless the gate demands it.
    silent = (IN_TIME,) if gate.allow_ties is False else (IN_TIME, TIE_ALLOWED)
    rows = [row for row in rows if row.name not in silent or not row.passed.all()]
    return rows + [_of_site(one, panel) for one in panel.plan.task.conditions]


def _of_site(one: Condition, panel: CertifiedPanel) -> Checked:
    """A condition of the site, asked of the action put forward in every window; without one it fails."""
    left = np.full(len(panel), np.nan)
    for w, index in enumerate(panel.released.tolist()):
        if index >= 0:
            start = panel.plan.start(w)
            left[w] = _asked_of(one, start.state, start.actions[index], start.params)
    return Checked(
        SITE + one.name, left, one.operator, one.limit, _holds(left, one.operator, one.limit), (Reason.SITE,)
    )


def _asked_of(one: Condition, state: object, action: float, params: object) -> float:
    try:
        return as_number(guarded(one.figure, state, action, params))
    except Exception:  # whatever user code raises here means the same: nothing speaks for the action
        return math.nan


def unconfirmed(windows: Iterable[int], count: int) -> Checked:
    """The last row: failed in the windows whose release the final check did not confirm."""
    left = np.ones(count)
    left[list(windows)] = 0.0
    return Checked(FINAL_CHECK, left, "==", 1.0, left == 1.0, (Reason.TASK_ERROR,))


def _holds(left: Floats, operator: str, right: float) -> Bools:
    """NaN on the left fails every operator."""
    held: Bools = _TESTS[operator](left, right)
    return held
