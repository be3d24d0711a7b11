"""An allocation as people see it: sentences, a table of HTML, and a picture of value against the size of a limit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ucsearch.allocation.result import evaluate
from ucsearch.errors import InputError
from ucsearch.formatting import figure
from ucsearch.report.charts import bounds_by_size
from ucsearch.report.picture import Picture

if TYPE_CHECKING:
    from ucsearch.allocation.api import Allocation, Share

__all__ = [
    "TODAY",
    "explain_allocation",
    "explain_share",
    "html_allocation",
    "plot_value",
]


# What is proved of an allocation of one step.
_FULL = 0.9  # share of a limit from which it is called full
TODAY = "This is proved for today's limit; limits on later days are not counted."


def explain_allocation(allocation: Allocation, most: int = 10, money: str = "") -> str:
    lines = [_headline(allocation, money)]
    result = allocation.result
    if result is None:
        return lines[0]
    for price in result.table() if result.feasible else ():
        worth = f"one more unit is worth about {amount(price.shadow_price, money)}" if price.binds else "not binding"
        lines.append(f"  {price.resource}: {figure(price.used)} of {figure(price.limit)} used, {worth}")
    lines.extend(_later(allocation, money))
    if allocation.served and allocation.later is None:
        lines.append(f"  {TODAY}")
    if allocation.served:
        hurt = sorted(
            (s for s in allocation.shares if s.binding and s.action != s.alone), key=lambda s: (-s.price, s.series)
        )
        full = {p.resource for p in result.table() if p.used >= _FULL * p.limit}
        lines.extend(f"  {explain_share(s, money, full=s.binding in full)}" for s in hurt[:most])
        if len(hurt) > most:
            lines.append(f"  and {len(hurt) - most} more series got less than they would have taken alone")
    if any(c.basis[2] for c in allocation.cases):
        lines.append("  Risk is charged series by series: nothing is credited for risks that cancel between them.")
    return "\n".join(lines)


def amount(value: float, money: str, digits: int = 4) -> str:
    return f"{figure(value, digits)} {money}".rstrip()


def html_allocation(allocation: Allocation) -> str:
    """The headline, the limits, and the series that lost most; every text escaped."""
    from ucsearch.report.small import SHOWN, figure_text, small_table
    from ucsearch.report.text import esc

    result, text = allocation.result, f"<p>{esc(_headline(allocation))}</p>"
    if result is not None and result.feasible:
        limits = [
            [p.resource, figure(p.used), figure(p.limit), figure(p.shadow_price, 4) if p.binds else "not binding"]
            for p in result.table()
        ]
        text += small_table(("limit", "used", "of", "one more unit is worth"), limits)
    ranked = sorted(allocation.shares, key=lambda s: (-(s.loss if s.loss == s.loss else 0.0), s.series))
    rows = [
        [s.series, s.outcome.value, s.label, s.alone_label, figure_text(s.loss), s.binding or s.reason.value]
        for s in ranked[:SHOWN]
    ]
    heads = ("series", "outcome", "gets", "alone", "loses", "because")
    return f"<div>{text}{small_table(heads, rows, len(ranked))}</div>"


def _later(allocation: Allocation, money: str) -> list[str]:
    """Every later step's limit, its price and its use over the simulated paths."""
    if allocation.later is None or not allocation.later.kept:
        return []
    lines = []
    for row in allocation.later.table():
        worth = (
            f"one more unit is worth about {amount(row.shadow_price, money)}"
            if row.shadow_price > 0.0
            else "not binding"
        )
        lines.append(
            f"  {row.resource}, {row.step} {'step' if row.step == 1 else 'steps'} later: {figure(row.mean)} of "
            f"{figure(row.limit)} used on average, {figure(row.most)} at most, {worth}"
        )
    return lines


def explain_share(share: Share, money: str = "", *, full: bool = True) -> str:
    """SKU-17 got order 40 instead of order 96: the truck volume is full; one more unit is worth about 2.1. Not `full`:
    something is left of the limit, and the next larger action does not fit."""
    if not share.binding or share.action == share.alone:  # at prices of later steps it may want what it would not alone
        return f"{share.series} got {share.label}, as it would have alone."
    return (
        f"{share.series} got {share.label} instead of {share.alone_label}: {share.binding} is "
        f"{'full' if full else 'too small for more'}; "
        f"one more unit of it is worth about {amount(share.price, money)}."
    )


def _headline(allocation: Allocation, money: str = "") -> str:
    result = allocation.result
    if allocation.missing:
        why = "; ".join(map(str, allocation.missing))
        return f"BUDGET INFEASIBLE: {why}. {_unvalued(allocation) or 'Raise the limit, or relax single series.'}"
    if result is None:
        return f"NOTHING TO SHARE: none of {len(allocation)} series was released by its own gate."
    if not result.feasible:
        return (
            "ALLOCATION GAP: no choice of actions that keeps all limits was found. Raise a limit or use fewer limits."
        )
    if allocation.later is not None and not allocation.later.kept:
        broken = ~np.isfinite(allocation.later.gaps)
        # The first step at which a path has no choice is where it ended.
        step = 1 + int((allocation.later.choices[broken][:, :, 0] >= 0).sum(axis=1).min())
        return (
            f"ALLOCATION GAP: on {int(broken.sum())} of {broken.size} simulated paths no choice was found that keeps "
            f"the limits of every later step, first {step} {'step' if step == 1 else 'steps'} later. Raise that limit."
        )
    by = f"{amount(allocation.gap, money)} " if allocation.gap > result.rounding else ""
    of = ""
    if allocation.cost_of_limits > 0.0 and by:
        of = f" ({allocation.gap / allocation.cost_of_limits:.3%} of what the limits cost)"
    count, over, nothing = len(allocation.free), "", "no allocation"
    lower = result.lower
    if allocation.later is not None:
        lower = allocation.upper - allocation.gap
        over = f" on average over all steps (97.5 % sure, {allocation.later.gaps.size} paths)"
        nothing = "no joint policy"
    if money and lower < 0.0:
        cost = "cost, risk counted," if any(c.basis[2] for c in allocation.cases) else "are expected to cost"
        value = f"{count} series {cost} {amount(-lower, money, 6)} together{over}; {nothing} costs {by}less{of}"
    else:
        value = f"{count} series are worth {amount(lower, money, 6)} together{over}; {nothing} is worth {by}more{of}"
    if allocation.passed:
        return f"ALLOCATED: {value}."
    if allocation.served:
        return f"ALLOCATED, not within the asked gap: {value}."
    hint = "every series takes its fallback; serve='best' lets the allocation leave"
    return f"ALLOCATION GAP: {value}, which is above the limit: {hint}. {_unvalued(allocation)}".rstrip()


def _unvalued(allocation: Allocation) -> str:
    """A hint where searches kept no path of most first actions, so that there is little to choose from."""
    result = allocation.result
    if result is None:
        return ""
    known = int((~np.isnan(result.problem.upper)).sum())
    valued = int((~np.isnan(result.problem.lower)).sum())
    if valued >= known:
        return ""
    return (
        f"Only {valued} of {known} first actions have a value: search with Exact(every_action=True), with "
        "mode='closed' or with a CertifiedBeam(protect=True)."
    )


_SHARES = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)  # of the limit, at which it is solved again


def plot_value(allocation: Allocation, shared: str | None = None) -> Picture:
    """Value of the allocation at smaller and larger limits, as a proved band."""
    result = allocation.result
    if result is None or not result.feasible:
        raise InputError("allocation", "no allocation", "one that keeps the limits")
    known = [r.label(g) for r in result.problem.resources for g in range(r.limits.size)]
    name = known[0] if shared is None else shared
    if name not in known:
        raise InputError("shared", repr(shared), f"one of {', '.join(map(repr, known[:10]))}")
    rows: list[tuple[float, float, float]] = []
    marks: list[float] = []
    for k, r in enumerate(result.problem.resources):
        for g in np.flatnonzero([r.label(g) == name for g in range(r.limits.size)]).tolist():
            for share in _SHARES:
                limits = r.limits.copy()
                limits[g] *= share
                changed = [*result.problem.resources]
                changed[k] = replace(r, limits=limits)
                solved = evaluate(replace(result.problem, resources=tuple(changed)))
                if solved.feasible:
                    rows.append((float(limits[g]), solved.lower, solved.upper))
            marks.append(float(r.limits[g]))
    title = "What more of a shared limit is worth"
    caption = f"{name}; upright line: the limit. Without any limit {result.without:,.6g}."
    return Picture(title, (bounds_by_size("value", title, sorted(rows), marks, axis=caption),))
