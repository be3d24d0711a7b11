"""What an order is, in units, what falling back from it is expected to cost, and what a planner is told of it."""

from __future__ import annotations

import math

import numpy as np

from ucsearch.dispatch.decision import Decision, Outcome
from ucsearch.layout import own_row
from ucsearch.pipeline.cases import Case
from ucsearch.pipeline.grids import ORDERING_TASK
from ucsearch.task import Task
from ucsearch.tasks import inventory_rules as rules

__all__ = ["OUTLASTS", "expected_loss", "order_size", "ordered_by", "outlasts", "row_note"]

OUTLASTS = "a larger depth might order less or more"  # how the note of an order ends whose later use was not counted


def order_size(decision: Decision) -> float | None:
    """Units that a decision's action orders; None when it orders nothing known."""
    c = decision.certificate
    if c is None or decision.action is None or c.plan.task.name != ORDERING_TASK:
        return None
    plan, w = c.plan, c.plan.window
    layout = plan.task.params_layout
    if layout is None:
        return None
    state = plan.layout.build(plan.inputs.states[w].tolist())
    params = layout.build(own_row(plan.inputs.params, w).tolist())
    return float(rules.ordered(state, decision.action, params))


def expected_loss(decision: Decision) -> float | None:
    """What falling back is expected to cost: score of the plan that was put forward minus that of the best plan known
    that begins with the fallback; where none is known, of their first steps. None when nothing fell back."""
    c = decision.certificate
    if c is None or decision.outcome is not Outcome.FALLBACK:
        return None
    scores = {r.action: r.score for r in c.rivals if r.retained and math.isfinite(r.score)}
    if decision.rejected_action in scores and decision.fallback_action in scores:
        return float(scores[decision.rejected_action] - scores[decision.fallback_action])
    return None if math.isnan(decision.fallback_cost) else float(decision.fallback_cost)


def ordered_by(case: Case, action: float | None) -> float | None:
    """Units that an action orders in a series' own state; None when it orders nothing known."""
    if action is None or case.kind.task.name != ORDERING_TASK:
        return None
    return float(rules.ordered(case.state, action, case.params))


def outlasts(task: Task, planned: int) -> str:
    """What is said of an order that lasts longer than the periods planned."""
    text = f"lasts past the {planned} periods planned"
    if task.terminal is rules.terminal_cycle:
        return f"{text}; what is left then counts by the order that it puts off"
    return f"{text}: {OUTLASTS}"


def row_note(decision: Decision, order: float | None, units: str) -> str:
    """What a planner should know besides: units that a level or a rounded size orders (`order`), and a release at the
    edge of what was looked at: the largest size offered, or an order that outlasts the periods planned."""
    c = decision.certificate
    if c is None or order is None or decision.action is None:
        return ""
    notes = [f"orders {order:g} {units}"] if order != decision.action else []
    offered = [a for a in c.plan.actions if a == a]
    edge = len(offered) > 1 and decision.action == max(offered) and order > 0.0
    if edge and decision.outcome is Outcome.RELEASED:
        notes.append("the largest size offered: larger ones were not tried")
    if order > 0.0 and decision.outcome is Outcome.RELEASED and not c.plan.trace.is_scores:
        plan, w = c.plan, c.plan.window
        planned = min(plan.settings.reach, plan.trace.horizon)
        expected = float(np.maximum(plan.trace.mean[0, :planned, 0], 0.0).sum())
        held = rules.position_of(plan.layout.build(plan.inputs.states[w].tolist()))
        if held + order > expected:
            notes.append(outlasts(plan.task, planned))
    return "; ".join(notes)
