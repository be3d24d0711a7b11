"""What a decision's plan goes on with."""

from __future__ import annotations

from ucsearch.dispatch.decision import Decision
from ucsearch.layout import own_row
from ucsearch.pipeline.cases import ORDERING_TASK
from ucsearch.tasks import inventory_rules as rules

__all__ = ["plan_orders"]


def plan_orders(decision: Decision) -> tuple[float, ...]:
    """Actions of the best plan known that begins with what leaves (or was put forward), the first included; of an
    inventory the units they order, levels along the mean forecast."""
    c = decision.certificate
    if c is None:
        return ()
    wanted = c.action if decision.action is None else decision.action
    path = next((r.path for r in c.rivals if r.action == wanted), ())
    plan, w = c.plan, c.plan.window
    actions = tuple(float(plan.actions[i]) for i in path)
    layout = plan.task.params_layout
    if plan.task.name != ORDERING_TASK or layout is None or not actions:
        return actions
    params = layout.build(own_row(plan.inputs.params, w).tolist())
    if params.by_level == 0.0 and params.minimum_order == 0.0 and params.case_pack == 0.0:
        return actions
    state = plan.layout.build(plan.inputs.states[w].tolist())
    sizes = []
    for h, action in enumerate(actions):
        sizes.append(float(rules.ordered(state, action, params)))
        if params.by_level != 0.0:
            state = plan.task.step_at(state, action, float(plan.trace.mean[0, h, 0]), h, params)
    return tuple(sizes)
