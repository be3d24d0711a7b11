"""What a decision's plan goes on with."""

from __future__ import annotations

from collections.abc import Sequence

from ucsearch.dispatch.decision import Decision
from ucsearch.layout import own_row
from ucsearch.pipeline.cases import ORDERING_TASK
from ucsearch.tasks import inventory_rules as rules

__all__ = ["NOT_PLANNED", "judged_steps", "next_orders", "plan_orders"]

NOT_PLANNED = "not planned yet"


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


def judged_steps(decision: Decision) -> int:
    """How many actions of the plan its horizon can judge; later ones are not planned yet."""
    c = decision.certificate
    return 0 if c is None else c.plan.task.judged(c.plan.settings.reach)


def next_orders(orders: Sequence[float], judged: int) -> str:
    """What the plan goes on with after its first action: quantities as far as the horizon judges them."""
    words = [f"{x:.12g}" for x in orders[1:judged]]
    return " ".join([*words, f"({NOT_PLANNED})"] if len(orders) > max(judged, 1) else words)
