"""A sentence a planner understands: what leaves, why, and what would have to change."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ucsearch.certificate.certificate import Certificate, Closed, Rival
from ucsearch.decision.gate import BUILT_IN, Reason
from ucsearch.engine.plan import explain_progress, more_effort
from ucsearch.formatting import ONLY_ONE, figure
from ucsearch.policies import MODES
from ucsearch.task import SITE, Condition

__all__ = [
    "STRONGEST",
    "at_most",
    "best_words",
    "explain_condition",
    "explain_fallback",
    "explain_keeping",
    "explain_mode",
    "explain_release",
    "scores",
    "sole_words",
]

_MILLION, _UNREADABLE = 1e6, 1e15
SHOWN_TIES = 4  # names of tied actions in a sentence
STRONG_RATIO = 1.5  # above it the variance of a sum is far from what independent steps give
_CONDITIONS = {condition.name: condition.words for condition in BUILT_IN}


def explain_condition(
    name: str, left: str, operator: str, right: str, passed: bool, site: Iterable[Condition] = ()
) -> str:
    """A row of the gate as a sentence with its verdict; with figures where it compares some, not where it asks yes
    or no. `site`: conditions of the task, which have their own words."""
    words = {**_CONDITIONS, **{SITE + condition.name: condition.words for condition in site}}
    figures = name if operator == "==" else f"{name}: {left} {operator} {right}"
    return f"{'yes' if passed else 'NO '}  {words.get(name, name)} ({figures})"


def explain_mode(mode: int) -> str:
    """What the plan was made for, by the code of its mode; the mode's name where there are no words for it."""
    names = {code: name for name, code in MODES.items()}
    return _MODES.get(names.get(mode, ""), f"planned in mode {names.get(mode, mode)}")


_MODES = {
    "mean": "planned on the mean outcome",
    "members": "planned over all members",
    "scores": "planned on action scores",
    "closed": "planned in closed loop: later actions react to outcomes",
}


def explain_keeping(share: float, weights: Sequence[float], mode: int) -> str:
    """In how many members the plan, followed as it stands, keeps every rule; "" when that is unknown."""
    if not share <= 1.0:
        return ""
    count = len(weights)
    if mode == MODES["closed"]:
        return "keeps every rule for every outcome of the distribution"
    if share == 1.0:
        return f"keeps every rule in all of {count} members"
    if max(weights) - min(weights) <= 1e-9 * max(weights):
        return f"keeps every rule in {round(share * count)} of {count} members"
    return f"keeps every rule in members of {100.0 * share:.3g} % weight"


def scores(score: float, money: str = "", risk: float = 0.0) -> str:
    """What a plan scores; where rewards are `money`, what it costs or earns."""
    if not money:
        return f"scores {figure(score)}"
    verb = "cost" if score < 0.0 else "earn"
    if risk != 0.0:
        return f"{verb}s {_shown(score)} {money}, its risk counted,"
    return f"is expected to {verb} {_shown(score)} {money}"


def at_most(upper: float, money: str = "") -> str:
    """What a plan cannot score."""
    if not money:
        return f"cannot score more than {figure(upper)}"
    return f"cannot {'cost less' if upper < 0.0 else 'earn more'} than {_shown(upper)} {money}"


def _shown(value: float) -> str:
    """Without its sign; millions as people write them, not as powers of ten."""
    return f"{abs(value):,.0f}" if _MILLION <= abs(value) < _UNREADABLE else figure(abs(value))


def _amount(value: float, money: str) -> str:
    return f"{figure(value)} {money}".rstrip()


def _worth(value: float, tau: float, money: str) -> str:
    """An amount; what is inside the tolerance is rounding."""
    return "nothing" if abs(value) <= tau else _amount(value, money)


def explain_release(c: Certificate, label: str, pass_kind: str, money: str = "") -> str:
    """Why the searched action leaves; scores in `money` where rewards are some."""
    mine = next(r for r in c.rivals if r.index == c.action_index)
    settings = c.plan.settings
    text = f"{label} is released: it {scores(mine.score, money, settings.risk)} over {settings.reach} steps"
    if c.sole_action:
        return f"{text}, and {sole_words(c.plan.offered)}."
    rival, tied = _strongest(c), _tied(c) if pass_kind == "tied" else ()
    if tied:
        text += f"; it is tied with {_named(tied)} to within rounding (gap {_amount(c.gap, money)})"
    elif rival is not None:
        text += f"; {rival.label}, {STRONGEST}, {at_most(rival.upper, money)}"
    lost = _amount(c.regret_bound, money) if pass_kind == "near" else "rounding" if tied else ""
    text += f". It is {best_words(c.plan.offered, c.plan.policy.mode, lost)}"
    if c.closed is not None:
        text += _under(c.closed)
        if c.closed.flexibility == c.closed.flexibility:
            worth = _worth(c.closed.flexibility, c.tau, money)
            text += f". Re-planning is worth {worth} against the best fixed plan on this grid"
    if c.risk_active:
        text += ". Uncertainty decided it: every reward-only choice is worse at this risk setting"
    empty = sum(a != a for a in c.plan.actions)  # places of the grid that hold no action
    if (blocked := c.plan.blocked - empty) > 0:
        text += f". {blocked} of {len(c.plan.actions) - empty} actions are not allowed now"
    return text + "."


def _tied(c: Certificate) -> Sequence[Rival]:
    """Rivals that are neither clearly behind the released action nor clearly ahead of it, the strongest first."""
    mine = next(r for r in c.rivals if r.index == c.action_index)
    level = [r for r in c.rivals if r is not mine and abs(mine.score - r.upper) <= c.tau]
    return sorted(level, key=lambda r: (-r.upper, r.index))


def _named(rivals: Sequence[Rival]) -> str:
    """Their labels; of many the first ones."""
    labels = [r.label for r in rivals]
    if len(labels) > SHOWN_TIES:
        labels = [*labels[: SHOWN_TIES - 1], f"{len(labels) - SHOWN_TIES + 1} more"]
    return labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}"


def best_words(offered: str, mode: str, lost: str = "") -> str:
    """What is proved, and of which set: the actions `offered` (`Task.offered`), and what they were compared with in
    this mode. `lost`: what may be given up, where that is not nothing."""
    what = f"proved to be at most {lost} worse than the best" if lost else "proved best"
    return f"{what} {offered}, against {_AGAINST.get(mode, 'every plan')} under this forecast"


def sole_words(offered: str) -> str:
    """What is said of an action without a feasible rival."""
    if offered == ONLY_ONE:
        return "it is the only one offered, and it keeps the rules to the end"
    return f"it is the only one {offered} that keeps the rules to the end"


STRONGEST = "the strongest alternative"  # the rival that could score most
_AGAINST = {
    "mean": "every fixed plan",
    "members": "every fixed plan",
    "closed": "every policy on this grid",
}


def _under(closed: Closed) -> str:
    """What the value assumes, and where the members given say otherwise."""
    words = {"independent": "independent steps", "tree": "the declared tree", "markov": "a chain of bins"}
    text = f" (value under {words.get(closed.law['kind'], closed.law['kind'])}"
    ratio = closed.worst_ratio
    if not math.isnan(ratio):
        text += f"; variance ratio {ratio:.2f}"
    if ratio > STRONG_RATIO:
        text += ": steps hang together, so the value is optimistic"
    return text + ")"


def explain_fallback(reason: Reason, c: Certificate | None, detail: str, fallback: str | None, money: str = "") -> str:
    """Why it does not, what leaves instead, and what would change that."""
    why = _WHY.get(reason, "A condition of the gate does not hold ({detail}).").format(
        detail=detail or "unknown", **_figures(c, money)
    )
    hint = _NEXT.get(reason, "")
    if c is not None and _out_of_budget(reason, c, detail):
        why, hint = _progress(c, money), more_effort(c.plan.settings.node_budget, c.plan.settings.depth)
    if reason is Reason.DEAD_END and c is not None and c.plan.policy.mode == "members":
        # Members drift apart; a policy may still have an action in every state where one action for all has none.
        why = "No fixed plan keeps the rules for every member."
        hint = " Policies that react to what happens may: uc.Exact(mode='closed') under a declared law." + hint
    if reason is Reason.CALIBRATION and detail.startswith("overdue"):
        # Nothing is known against the forecaster, and that is the trouble.
        why = f"Too many outcomes are missing to tell whether the forecasts still hold ({detail})."
        hint = " Report what came of earlier decisions."
    elif reason is Reason.CALIBRATION and detail.startswith("drift"):
        why = "The monitor finds that outcomes do not fit the forecasts, or it cannot be read."
    after = (
        f" The fallback {fallback} is used instead; it is feasible but not certified."
        if fallback is not None
        else " The fallback is not feasible either, so nothing is sent: a person has to decide."
    )
    if reason is Reason.INVALID_TRACE:
        after, hint = " Nothing is sent: a person has to decide.", " Repair the forecast and decide again."
    return why + after + hint


_WHY = {
    Reason.DEAD_END: "No action keeps the rules to the end of the horizon.",
    Reason.NO_INFORMATION_STRUCTURE: (
        "The forecast's members do not say what is learned when, so policies cannot be valued under it."
    ),
    Reason.SEARCH_EXHAUSTED: "The search lost every path although some action may keep the rules to the end.",
    Reason.NOT_PROVED: "{label} {scores}, but some alternative could not be bounded, so nothing is proved.",
    Reason.NOT_OPTIMAL: "{label} {scores}, but {rival} may {reach}, {regret} {better}.",
    Reason.NOT_ROBUST: "{label} leads {rival} by {gap} only, within twice the claimed model error {eps_m}.",
    Reason.TIED: (
        "{label} and {rival} differ by {gap} only, which may be rounding, and the gate does not release such ties."
    ),
    Reason.MARGIN_NOT_POSITIVE: "{label} has no positive release margin ({margin}).",
    Reason.NOT_RISK_ACTIVE: (
        "{label} is proved best {offered}, but a reward-only planner would choose no worse: "
        "uncertainty changed nothing."
    ),
    Reason.MEMBERS_INFEASIBLE: "The plan that begins with {label} breaks a rule in too many members ({detail}).",
    Reason.REGRET_ABOVE_LIMIT: (
        "{label} may be worse than the best {offered} by up to {regret}, more than the limit allows."
    ),
    Reason.INVALID_TRACE: "The forecast was refused: {detail}.",
    Reason.STALE_TRACE: "The forecast is too old, or its issue time is unknown or in the future ({detail}).",
    Reason.SITE: "{label} does not meet a condition of the site ({detail}).",
    Reason.PAUSED: "A person has paused releases of this plan.",
    Reason.CALIBRATION: "The forecaster's calibration is outside its limits, or was not measured ({detail}).",
    Reason.NODE_BUDGET: "Search and proof used more nodes than the budget allows ({detail}).",
    Reason.TIME_BUDGET: "Search and proof took longer than the budget allows ({detail}).",
    Reason.TASK_ERROR: "The task's own rules failed: {detail}.",
    Reason.FALLBACK_INFEASIBLE: "The searched action was not released ({detail}).",
    Reason.NONE: "",
}

_NEXT = {
    Reason.DEAD_END: " Check the starting state against the limits, or plan fewer steps.",
    Reason.NO_INFORMATION_STRUCTURE: (
        " Declare it: trace.on_lattice(unit), trace.declare('independent'), a tree or a markov chain; or plan in"
        " members mode."
    ),
    Reason.SEARCH_EXHAUSTED: " Widen the beam or raise top_k.",
    Reason.NOT_PROVED: " Raise node_budget, search less deep, or give the task a bound.",
    Reason.NOT_OPTIMAL: " Widen the beam, order it by a bound, or use CertifiedBeam(protect=True).",
    Reason.NOT_ROBUST: " A smaller claimed model error or a clearer forecast would release it.",
    Reason.TIED: (
        " Leave costs that all plans share, and amounts that are paid and come back, out of `reward`, so that digits"
        " are left to tell them apart; or allow ties (allow_ties)."
    ),
    Reason.REGRET_ABOVE_LIMIT: " A higher regret limit or a wider search would release it.",
    Reason.MEMBERS_INFEASIBLE: ' Plan over all members (mode="members"), or keep more distance from the limits.',
    Reason.STALE_TRACE: " Run the forecaster again.",
    Reason.CALIBRATION: " Recalibrate the forecaster before relying on its plans.",
    Reason.NODE_BUDGET: " Raise the budget or search less.",
    Reason.TIME_BUDGET: " Raise the budget or search less.",
}


_UNFINISHED = (Reason.SEARCH_EXHAUSTED, Reason.NOT_PROVED, Reason.NOT_OPTIMAL)


def _out_of_budget(reason: Reason, c: Certificate, detail: str) -> bool:
    """Whether the search itself, not the gate, ended at its budget. Records hold all that is asked here."""
    if c.closed is not None:
        return reason is Reason.NODE_BUDGET and detail.startswith("transitions_within_budget")
    s = c.plan.settings
    return reason in _UNFINISHED and s.algorithm == "exact" and c.counters["expansions"] >= s.node_budget


def _progress(c: Certificate, money: str) -> str:
    settings = c.plan.settings
    mine = next((r for r in c.rivals if r.index == c.action_index), None)
    best = "" if mine is None else f'starts with "{mine.label}" and {scores(mine.score, money, settings.risk)}'
    uppers = [r.upper for r in c.rivals]
    most = at_most(max(uppers), money) if uppers and not any(map(math.isnan, uppers)) else ""
    return explain_progress(c.counters["expansions"], settings.node_budget, c.closed is not None, best, most)


def _figures(c: Certificate | None, money: str) -> dict[str, str]:
    nan = math.nan
    offered = "among the actions offered" if c is None else c.plan.offered
    label, rival, score, upper, regret, gap, eps_m, margin, risk = "?", "another", nan, nan, nan, nan, 0.0, nan, 0.0
    if c is not None and c.action_index >= 0:
        mine, other = next((r for r in c.rivals if r.index == c.action_index), None), _strongest(c)
        label, score = (mine.label, mine.score) if mine else (label, score)
        rival, upper = (other.label, other.upper) if other else (rival, upper)
        regret, gap, eps_m, risk = c.regret_bound, c.gap, c.eps_m, c.plan.settings.risk
        margin = c.release_margin if not math.isnan(c.release_margin) else c.gap
    reach = f"reach {figure(upper)}"
    if money:
        reach = f"{'cost only' if upper < 0.0 else 'earn'} {figure(abs(upper))} {money}"
    return dict(
        label=label, offered=offered, scores=scores(score, money, risk), rival=rival, reach=reach,
        better="better" if money else "more", regret=_amount(regret, money), gap=_amount(abs(gap), money),
        eps_m=_amount(eps_m, money), margin=_amount(margin, money),
    )  # fmt: skip


def _strongest(c: Certificate) -> Rival | None:
    others = [r for r in c.rivals if r.index != c.action_index]
    return max(others, key=lambda r: math.inf if math.isnan(r.upper) else r.upper, default=None)
