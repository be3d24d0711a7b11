"""What a search knows when its budget ends, in words that plans and decisions share."""

from __future__ import annotations

__all__ = ["explain_progress", "more_effort"]


def explain_progress(nodes: int, budget: int, closed: bool, best: str, most: str) -> str:
    """How much was spent, the `best` plan so far ("" without one), and what bounds every plan (`most`, "" unknown)."""
    unit = "transitions" if closed else "nodes"
    plan = f"The best plan so far {best}" if best else "No complete plan was found so far"
    bound = f"the best possible plan {most}" if most else "nothing bounds what other plans may reach"
    return f"The search stopped at its budget: {nodes:,} of {budget:,} {unit} are used. {plan}; {bound}."


def more_effort(budget: int, depth: int) -> str:
    """What to change so that the search ends with a proof."""
    return (
        f" To get a proof, raise node_budget (now {budget:,}), plan fewer steps (depth, now {depth}) "
        "or offer fewer actions."
    )
