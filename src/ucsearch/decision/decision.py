"""A decision: what leaves, under which outcome, and why. Panels hold arrays and make a `Decision` on demand.

The tasks' own fallbacks are plain Python of the user's: asked where one is needed, once, and checked.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.certificate.certificate import Certificate, CertifiedPanel
from ucsearch.decision.gate import FAILURES, IN_TIME, TIE_ALLOWED, CheckedCondition, Context, Gate, Reason
from ucsearch.decision.view import brief, brief_panel, frame_of, html_of, html_panel
from ucsearch.decision.words import explain_condition, explain_fallback, explain_keeping, explain_mode, explain_release
from ucsearch.engine.arrays import Col
from ucsearch.errors import InputError
from ucsearch.formatting import action_figure, figure
from ucsearch.layout import own_rows
from ucsearch.rules.answers import as_allowed, as_number, guarded
from ucsearch.rules.dialect import explain as rules_words
from ucsearch.rules.dialect import findings
from ucsearch.task import Task

if TYPE_CHECKING:
    from ucsearch.report.picture import Picture

__all__ = ["Decision", "DecisionPanel", "Fallbacks", "GateRow", "Outcome", "Refused", "checked_fallback"]

SHOWN_STEPS = 4  # of a policy, in words
_REWARD, _UNCERTAINTY = int(Col.STEP_REWARD), int(Col.STEP_UNCERTAINTY)


class Outcome(StrEnum):
    """What a decision can be: RELEASED, FALLBACK or HOLD."""

    RELEASED = "RELEASED"  # the searched action leaves, certified
    FALLBACK = "FALLBACK"  # the conservative fallback leaves, never called certified
    HOLD = "HOLD"  # nothing leaves


@dataclass(frozen=True)
class GateRow:
    """One condition with its figures."""

    name: str
    left: float
    operator: str
    right: float
    passed: bool


class Refused(NamedTuple):
    """What is known of a decision whose trace was refused, so that a person can still decide."""

    task: Task
    state: Any  # None when it was refused too
    params: Any
    actions: tuple[float, ...]  # (m,) NaN where unavailable; empty when they depend on the trace


@dataclass(frozen=True, repr=False)
class Decision:
    """`action` is the released action, the fallback, or None on HOLD; `outcome` says which."""

    outcome: Outcome  # RELEASED, FALLBACK or HOLD
    action: float | None  # in units of the task; None on HOLD
    reason: Reason  # NONE when released
    cause: Reason  # why the searched action was not released; differs from reason on HOLD
    sentence: str  # the same in words
    certificate: Certificate | None  # None when the trace was refused
    gate: Gate  # what was asked
    rows: tuple[GateRow, ...]  # every condition with what was seen and whether it holds
    context: Context  # what the caller knows: age of the trace, time spent, calibration, a pause
    pass_kind: str  # "exact", "tied", "near", or "" when not released
    release_margin: float  # planning-value margin, else gap; inf for a sole action
    regret_bound: float  # what may be lost at most [reward]
    rejected_action: float | None  # the searched action that did not leave
    fallback_action: float | None  # the task's own cautious action; None where it was not asked or is none
    fallback_feasible: bool  # whether the rules allow it
    fallback_cost: float  # one-step score of the rejected candidate's first step minus the fallback's; NaN unknown
    now: str  # the clock reading that was passed in; "" when none was
    final_check: str = ""  # why the plain rules did not confirm what was searched; "" where they did, or were not asked
    record_id: str = ""  # of its record in the log it was written to; "" when there was none
    refused: Refused | None = None  # instead of a certificate

    @property
    def released(self) -> bool:
        return self.outcome is Outcome.RELEASED

    def __repr__(self) -> str:
        return brief(self)

    def _repr_html_(self) -> str:
        return html_of(self)

    def frame(self, backend: str = "auto") -> Any:
        """One row, with the columns of a panel's frame."""
        return frame_of([self], backend)

    def explain(self) -> str:
        """Several lines: the sentence, the gate's rows, and how the alternatives stand."""
        lines = [f"{self.outcome.value}: {self.sentence}"]
        site = () if self.certificate is None else self.certificate.plan.task.conditions
        for row in self.rows:
            lines.append(
                f"  {explain_condition(row.name, figure(row.left), row.operator, figure(row.right), row.passed, site)}"
            )
        if self.certificate is not None:
            plan = self.certificate.plan
            weights, mode = plan.trace.weights[0].tolist(), plan.settings.mode
            keeping = explain_keeping(self.certificate.member_feasible, weights, mode)
            lines.append(f"  It was {explain_mode(mode)}" + (f"; it {keeping}." if keeping else "."))
            outside = findings(plan.task, plan.layout)
            if outside:
                lines.append(f"  {rules_words(plan.task, outside)}.")
            for r in self.certificate.rivals:
                score = "pruned" if math.isnan(r.score) else f"scores {figure(r.score)}"
                upper = "not bounded" if math.isnan(r.upper) else f"at most {figure(r.upper)}"
                chosen = " <- proposed" if r.index == self.certificate.action_index else ""
                lines.append(f"  {r.label}: {score}, {upper}{chosen}")
            for branch in self.certificate.plan.branches:
                steps = ", ".join(action_figure(a) for a in branch.actions[1:SHOWN_STEPS])
                if steps:
                    lines.append(f"  after {branch.name} outcomes the policy continues with {steps}")
        return "\n".join(lines)

    def plot(self, field: str | None = None) -> Picture:
        """The retained paths, the chosen one and the forecast beneath: notebooks show it, `save(path)` writes a page.
        `field` is the state field to draw, by default the first. Raises InputError where the trace was refused."""
        from ucsearch.decision.plot import plot_decision

        return plot_decision(self, field)


def checked_fallback(task: Task, state: Any, params: Any, available: Sequence[Any]) -> tuple[Any, bool]:
    """The fallback and whether it may be sent; a fallback that raises or is no action may not."""
    try:
        answer = guarded(task.fallback, state, params)
        action = tuple(map(as_number, answer)) if task.width else as_number(answer)  # finite: `in` compares by value
        if action not in available:
            return math.nan, False
        return action, as_allowed(guarded(task.feasible_at, state, action, 0, params))
    except Exception:  # whatever user code raises here means the same: there is no fallback to rely on
        return math.nan, False


class Fallbacks:
    """Fallbacks of a panel. A window that is released asks for its own only when somebody looks."""

    def __init__(self, certified: CertifiedPanel) -> None:
        count = len(certified)
        self._certified = certified
        self._asked = np.zeros(count, bool)
        self._action, self._feasible = np.full(count, np.nan), np.zeros(count, bool)
        self._costs: dict[int, float] = {}  # as far as somebody announced that he will look

    def ask(self, windows: NDArray[np.bool_] | None = None) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """Actions and whether they may be sent, (W,), certain where `windows` says so; None: everywhere."""
        rest = np.flatnonzero(~self._asked if windows is None else windows & ~self._asked)
        if rest.size:
            self._fill(rest)
        return self._action, self._feasible

    def _fill(self, rest: NDArray[np.int64]) -> None:
        plan = self._certified.plan
        for w in rest.tolist():
            action, self._feasible[w] = checked_fallback(plan.task, *plan.start(w))
            self._action[w] = action if action != action else plan.task.number_of(action)
        self._asked[rest] = True

    def prepare(self, windows: Sequence[int]) -> None:
        """Ask for all of these at once, for whoever looks at one after another."""
        chosen = np.asarray(windows, np.int64)
        rest = chosen[~self._asked[chosen]]
        if rest.size:
            self._fill(rest)
        self._costs.update(zip(chosen.tolist(), self._cost(chosen).tolist(), strict=True))

    def at(self, w: int) -> tuple[Any, bool, float]:
        """Action (NaN: none), whether it may be sent, and its cost, of one window."""
        if not self._asked[w]:
            self._fill(np.array([w]))
        cost = self._costs.get(w)
        if cost is None:
            cost = float(self._cost(np.array([w]))[0])
        return self._certified.plan.task.action_of(float(self._action[w])), bool(self._feasible[w]), cost

    def cost(self, windows: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
        """Of those windows, or all: first step of the candidate against the one-step fallback, in risk-adjusted reward;
        NaN unknown."""
        self.ask(windows)
        return self._cost(np.arange(self._asked.size) if windows is None else np.flatnonzero(windows))

    def _cost(self, windows: NDArray[np.int64]) -> NDArray[np.float64]:
        plan = self._certified.plan
        table, rows = plan.outputs.table[windows], np.arange(windows.size)
        step = table[:, :, _REWARD] - plan.settings.risk * table[:, :, _UNCERTAINTY]
        grid = own_rows(plan.inputs.actions, windows)
        match = grid == self._action[windows, None]
        place = match.argmax(axis=1)  # the first one, where there is one
        of_fallback = np.where(match[rows, place], step[rows, place], np.nan)
        first = self._certified.released[windows]
        candidate = np.where(first >= 0, step[rows, np.maximum(first, 0)], np.nan)
        cost: NDArray[np.float64] = candidate - of_fallback
        return cost


@dataclass(frozen=True, eq=False, repr=False)
class DecisionPanel:
    """W decisions as arrays; `panel[w]` is one `Decision`."""

    certified: CertifiedPanel  # the panel with its proofs
    gate: Gate  # what was asked
    conditions: tuple[CheckedCondition, ...]  # every condition for all windows
    context: Context  # what the caller knows: age of the trace, time spent, calibration, a pause
    outcome: NDArray[np.str_]  # (W,)
    action: NDArray[np.float64]  # (W,) NaN on HOLD; of tuples their places in `task.actions`
    cause: tuple[Reason, ...]  # (W,)
    fallbacks: Fallbacks  # asked where needed
    now: str  # the clock reading that was passed in; "" when none was
    doubts: Mapping[int, str] = field(default_factory=dict)  # windows the final check did not confirm, and why
    records: tuple[str, ...] = ()  # (W,) ids of the records in the log; () when there was none

    def __len__(self) -> int:
        return len(self.certified)

    @property
    def fallback(self) -> NDArray[np.float64]:
        """(W,) NaN when it raised or is no action."""
        return self.fallbacks.ask()[0]

    @property
    def fallback_feasible(self) -> NDArray[np.bool_]:
        """(W,) whether it may be sent."""
        return self.fallbacks.ask()[1]

    @cached_property
    def fallback_cost(self) -> NDArray[np.float64]:
        """(W,) one-step score of the candidate's first step minus the fallback's; NaN unknown."""
        return self.fallbacks.cost()

    def __repr__(self) -> str:
        return brief_panel(self)

    def _repr_html_(self) -> str:
        return html_panel(self)

    def frame(self, backend: str = "auto") -> Any:
        """One row for each decision, in polars, pandas or pyarrow, whichever is installed."""
        return frame_of((self[w] for w in range(len(self))), backend)

    def __getitem__(self, w: int) -> Decision:
        if isinstance(w, slice):
            raise InputError("window", repr(w), "one number: [panel[w] for w in range(...)] gives several")
        w = range(len(self))[w]
        certificate = self.certified[w]
        outcome = Outcome(str(self.outcome[w]))
        silent = FAILURES if self.gate.allow_ties is False else (*FAILURES, TIE_ALLOWED)
        shown = [c for c in self.conditions if c.name not in silent or not c.passed[w]]
        rows = tuple(GateRow(c.name, float(c.left[w]), c.operator, c.right, bool(c.passed[w])) for c in shown)
        margin = certificate.release_margin
        if math.isnan(margin):
            margin = math.inf if certificate.sole_action else certificate.gap
        plan = certificate.plan
        released = outcome is Outcome.RELEASED
        pass_kind = certificate.pass_kind if released else ""
        fallback, may_leave, cost = self.fallbacks.at(w)
        fallback = None if fallback != fallback else fallback
        cause = self.cause[w]
        if released:
            label = plan.task.label(certificate.action_index, plan.task.action_of(float(self.action[w])))
            sentence = explain_release(certificate, label, pass_kind)
        else:
            substitute = None if outcome is Outcome.HOLD else self._label(plan, fallback)
            sentence = explain_fallback(cause, certificate, self._detail(w, rows), substitute)
        return Decision(
            outcome=outcome,
            action=None if outcome is Outcome.HOLD else plan.task.action_of(float(self.action[w])),
            reason=Reason.FALLBACK_INFEASIBLE if outcome is Outcome.HOLD else cause,
            cause=cause,
            sentence=sentence,
            certificate=certificate,
            gate=self.gate,
            rows=rows,
            context=self.context.at(w),
            pass_kind=pass_kind,
            release_margin=margin,
            regret_bound=certificate.regret_bound,
            rejected_action=None if released else certificate.action,
            fallback_action=fallback,
            fallback_feasible=may_leave,
            fallback_cost=cost,
            now=self.now,
            final_check=self.doubts.get(w, ""),
            record_id=self.records[w] if self.records else "",
        )

    @staticmethod
    def _label(plan: Any, action: Any) -> str:
        if action is None or action not in plan.actions:
            return "?"
        return str(plan.task.label(plan.actions.index(action), action))

    def _detail(self, w: int, rows: tuple[GateRow, ...]) -> str:
        if w in self.doubts:
            return self.doubts[w]
        error = self.certified.plan[w].error
        if error is not None:
            return str(error)
        ended = any(r.name == IN_TIME for r in rows)
        failed = next((r for r in rows if not r.passed and (not ended or r.name == "elapsed_s")), None)
        return "" if failed is None else f"{failed.name} {figure(failed.left)}, limit {figure(failed.right)}"

    def aggregates(self) -> dict[str, Any]:
        """Rates and costs over the panel, and counts by reason."""
        released = self.outcome == Outcome.RELEASED.value
        bound = self.certified.claims.regret_bound
        among = bound[released]
        cost = self.fallbacks.cost(self.outcome == Outcome.FALLBACK.value)
        cost = cost[np.isfinite(cost)]
        return {
            "decisions": len(self),
            "release_rate": float(released.mean()),
            "abstention_rate": float((~released).mean()),
            "hold_rate": float((self.outcome == Outcome.HOLD.value).mean()),
            "mean_regret_bound": float(among.mean()) if among.size else math.nan,
            "worst_regret_bound": float(among.max()) if among.size else math.nan,
            "mean_fallback_cost": float(cost.mean()) if cost.size else math.nan,
            "total_fallback_cost": float(cost.sum()) if cost.size else 0.0,
            "reasons": dict(sorted(Counter(r.value for r in self.cause).items())),
        }
