"""One window's certificate as a frozen record."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.certificate.claims import Claims, Evidence
from ucsearch.certificate.replay import Path, Replay, kept_weights
from ucsearch.certificate.route import Route
from ucsearch.engine.arrays import Col
from ucsearch.engine.plain.closed import fixed_plan_value
from ucsearch.engine.plan import PanelPlan, Plan
from ucsearch.layout import own_row

__all__ = [
    "Certificate",
    "CertifiedPanel",
    "Rival",
    "certificate_of",
]

# What a certificate calls the claims, whose own names are also keys of rows of evidence and of segments.
_CALLED = {"passed": "certificate_pass", "sole": "sole_action"}
_CLAIMS = tuple(_CALLED.get(name, name) for name in Claims._fields)
_BESIDE = ("panel", "plan", "rivals", "closed")  # fields of a certificate that are no claims


@dataclass(frozen=True)
class Rival:
    """A first action of A: what is known of it from below and from above."""

    index: int
    action: float
    label: str
    retained: bool
    score: float  # LB: best retained score; NaN when none
    reward: float
    uncertainty: float
    upper: float  # UB: exact value or admissible bound; NaN when unknown
    path: tuple[int, ...]  # action indices of the retained path; () when none
    release_margin: float  # planning-value margin against the reward-only action; NaN when it does not apply
    reward_only_score: float  # best score known at risk 0; NaN unknown
    reward_only_upper: float  # and what bounds it
    certain_score: float  # the same for the certainty-equivalent planner (mean outcome, risk 0)
    certain_upper: float
    step_score: float  # q - risk * u of the first step alone
    size: float  # what was added up on the retained path, in absolute terms; NaN when none
    upper_size: float  # the same behind `upper`; its absolute value when it has no path; NaN unknown
    reward_only_size: float  # size of the path behind `reward_only_score`; NaN unknown
    certain_size: float
    upper_path: tuple[int, ...]  # whose score `upper` is; () for a bound, or when the retained path reaches it


@dataclass(frozen=True)
class Closed:
    """What a proof against every policy rests on (kind closed_exact)."""

    law: dict[str, Any]  # kind, unit (None without a lattice), points, hash, variance_ratio by number of steps
    states: int  # distinct ones that were valued
    transitions: int  # of state, action and outcome
    open_value: float  # the best fixed plan's value under the same law; NaN when it was not computed
    flexibility: float  # what re-planning is worth: best policy minus best fixed plan; NaN when not computed

    @property
    def worst_ratio(self) -> float:
        """The largest variance ratio; NaN when the law was not made of joint members."""
        ratios = [x for x in self.law["variance_ratio"].values() if not math.isnan(x)]
        return max(ratios, default=math.nan)


@dataclass(frozen=True)
class Certificate:
    """What is proved about the first action put forward, among those offered. NaN: does not apply."""

    kind: str  # "oracle", "bound" or "closed_exact"
    action: float | None  # the proposed one; None when no path was found
    action_index: int  # its number among the actions; -1 without a path
    selected_index: int  # argmax of the retained scores; differs from action_index only on the planning-value route
    certificate_pass: bool  # `optimal`, or `robust` where a model error was claimed
    optimal: bool  # no rival can score more
    unique: bool  # every rival scores less
    robust: bool  # every rival scores less by more than twice eps_m
    sole_action: bool  # nothing else is allowed
    gap: float  # score less the most a rival can reach [reward]; below 0: not proved
    regret_bound: float  # what may be lost at most [reward]; infinite without a path
    exact_regret: float  # what is lost [reward], where all values are exact
    oracle_retained: bool  # the search kept an action that is exactly best
    margin: float  # score less the best other one that was kept [reward]
    eps_a: float  # largest error of kept scores against exact values [reward]
    eps_m: float  # model error that was claimed [reward]
    proxy_slack: float  # best exact value less the score [reward]
    paper_pass: bool  # the paper's condition; reported, never used
    search_pass: bool  # the same for what the search itself kept and chose
    risk_gap: float  # what reward-only choices lose at this risk [reward]
    risk_active: bool  # every reward-only choice is worse at this risk
    search_active: bool  # the search chose another action than reward alone
    uncertainty_active: bool  # risk_active, with the certain figures alone
    cancellation: bool  # terms of the score, or of one tied with it, cancel to less than 1e-6 of their size
    tau: float  # how much of `gap` may be rounding; true regret is at most regret_bound + tau
    proved: bool  # every rival is bounded
    baseline_index: int  # a0, a reward-only optimum; -1 unknown
    release_margin: float  # of the planning-value route; NaN when it did not decide
    rivals: tuple[Rival, ...]  # A, ascending
    counters: dict[str, int]  # nodes and scores spent, by what for
    node_budget: int  # nodes each proof might spend
    plan: Plan  # the search it is about
    panel: CertifiedPanel = field(repr=False, compare=False)  # whose window it is
    closed: Closed | None = None  # only of kind closed_exact

    def __repr__(self) -> str:
        if self.action is None:
            return f"Certificate({self.plan.task.name}: no path, nothing is certified)"
        claims = [name for name in ("optimal", "unique", "robust", "risk_active") if getattr(self, name)]
        words = ", ".join(["passed" if self.certificate_pass else "not passed", *claims])
        label = self.plan.task.label(self.action_index, self.action)
        return (
            f"Certificate({label!r}: {words}, gap {self.gap:.6g}, regret at most {self.regret_bound:.6g}, {self.kind})"
        )

    @property
    def pass_kind(self) -> str:
        """What a release would rest on: `exact` (every rival is clearly behind), `tied` (none is clearly ahead), or
        `near` (a regret within a limit)."""
        return "near" if not self.certificate_pass else "exact" if self.unique else "tied"

    @property
    def member_feasible(self) -> float:
        """Weight of members for which the proposed path keeps every rule; NaN without a path or members."""
        return self.panel.weight_kept(self.plan.window)

    def claims(self) -> dict[str, Any]:
        """Everything that is claimed beside the rivals, as plain values; unbounded numbers as they are."""
        claims = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _BESIDE}
        claims["member_feasible"] = self.member_feasible
        return claims if self.closed is None else {**claims, **vars(self.closed)}

    def to_dict(self) -> dict[str, Any]:
        """Claims and rivals as plain values; unbounded numbers as they are (records encode them)."""
        rivals = [{**vars(r), "path": list(r.path), "upper_path": list(r.upper_path)} for r in self.rivals]
        return {**self.claims(), "rivals": rivals}


def certificate_of(panel: CertifiedPanel, w: int) -> Certificate:
    """WindowRow w of a certified panel."""
    plan, row = panel.plan[w], panel.row(w)
    e, index, actions = row.evidence, row.released, plan.actions
    claims: dict[str, Any] = dict(zip(_CLAIMS, row.claims, strict=True))
    del claims["lead"]
    risk, label, route = plan.settings.risk, plan.task.label, panel.route
    margins = None if route is None else route.margins[w].tolist()
    lower, upper, reward_only, allowed = e.lower, e.upper, e.reward_lower, e.actions
    rivals = []
    for i, action in enumerate(actions):
        if not allowed[i]:
            continue
        score, step, upper_path = lower[i], row.table[i], row.upper_paths[i]
        has_path = not math.isnan(score)
        rivals.append(
            Rival(
                index=i,
                action=action,
                label=label(i, action),
                retained=has_path,
                score=score,
                reward=e.lower_reward[i],
                uncertainty=e.lower_uncertainty[i],
                upper=upper[i],
                path=tuple(row.paths[i]) if has_path else (),
                release_margin=math.nan if margins is None else margins[i],
                reward_only_score=reward_only[i],
                reward_only_upper=e.reward_upper[i],
                certain_score=e.certain_lower[i],
                certain_upper=e.certain_upper[i],
                step_score=step[Col.STEP_REWARD] - risk * step[Col.STEP_UNCERTAINTY],
                size=e.lower_size[i] if has_path else math.nan,
                upper_size=math.nan if math.isnan(upper[i]) else e.upper_size[i],
                reward_only_size=e.reward_size[i],
                certain_size=e.certain_size[i],
                upper_path=() if -1 in upper_path else tuple(upper_path),
            )
        )
    scored = [i for i, x in enumerate(reward_only) if allowed[i] and not math.isnan(x)]
    baseline = max(scored, key=lambda i: (reward_only[i], -i), default=-1)
    if route is not None:
        baseline = int(route.baseline[w])
    retained = [r for r in rivals if r.retained]
    selected = max(retained, key=lambda r: (r.score, -r.uncertainty, -r.index)).index if retained else -1
    return Certificate(
        kind=panel.kind,
        action=None if index < 0 else actions[index],
        action_index=index,
        selected_index=selected,
        **claims,
        eps_m=panel.eps_m,
        proved=all(not math.isnan(r.upper) for r in rivals),
        baseline_index=baseline,
        release_margin=math.nan if route is None else float(route.margin[w]),
        rivals=tuple(rivals),
        counters={
            "expansions": plan.expansions,
            "action_scores": plan.action_scores,
            "simulations": plan.simulations,
            "oracle_nodes": row.oracle_nodes,
        },
        node_budget=panel.node_budget,
        plan=plan,
        panel=panel,
        closed=_closed(plan) if plan.is_closed else None,
    )


def _closed(plan: Plan) -> Closed:
    trace, law = plan.trace, None
    ratios: dict[str, float] = {}
    fixed = fixed_plan_value(*plan.start()) if getattr(plan.policy, "fixed_plan", False) and plan.found else math.nan
    if trace.has_law:
        law = trace.law()
        ratios = {str(n): ratio for n, ratio in trace.variance_ratios().items()}
    return Closed(
        law={
            "kind": trace.coupling,
            "unit": None if law is None else law.unit,
            "points": 0 if law is None else law.most_points,
            "hash": "" if law is None else law.hash(),
            "variance_ratio": ratios,
        },
        states=plan.reached,
        transitions=plan.expansions,
        open_value=fixed,
        flexibility=plan.score - fixed,
    )


Floats = NDArray[np.float64]


class WindowRow(NamedTuple):
    """One window of a panel; the arrays' elements as Python's own numbers and lists."""

    evidence: Any  # as `Evidence`, without its first axis
    claims: Any
    table: list[list[float]]
    paths: list[list[int]]
    upper_paths: list[list[int]]
    released: int
    oracle_nodes: int


@dataclass(frozen=True, eq=False)
class CertifiedPanel:
    """A searched panel with what is proved about it. `released` is what would leave, gate permitting."""

    plan: PanelPlan  # the searched panel
    kind: str  # "oracle", "bound" or "closed_exact"
    eps_m: float  # model error that was claimed [reward]
    node_budget: int  # nodes each proof might spend
    evidence: Evidence  # scores, bounds and nodes that the claims follow from
    claims: Claims  # what is proved, by window
    route: Route | None  # only for a constrained beam
    released: NDArray[np.int64]  # (W,) first-action index, -1 when there is none
    paths: NDArray[np.int32]  # (W, m, d) the retained path of each first action, -1 where none
    upper_paths: NDArray[np.int32]  # (W, m, d) the path whose score is the exact value, -1 where there is only a bound
    oracle_nodes: NDArray[np.int64]  # (W,) nodes spent on oracle, bound and reward-only searches
    activity_nodes: NDArray[np.int64]  # (W,) those of them that only show whether risk changed the action

    def __len__(self) -> int:
        return len(self.plan)

    def __repr__(self) -> str:
        count = int(self.claims.passed.sum())
        return f"CertifiedPanel({self.plan.task.name}: {len(self)} windows, {count} passed, {self.kind})"

    def __getitem__(self, w: int) -> Certificate:
        return certificate_of(self, range(len(self))[w])

    def row(self, w: int) -> WindowRow:
        """Window w in plain numbers."""
        arrays = (self.plan.outputs.table, self.paths, self.upper_paths, self.released, self.oracle_nodes)
        evidence, claims, rest = ([x[w].tolist() for x in part] for part in (self.evidence, self.claims, arrays))
        return WindowRow(Evidence(*evidence), Claims(*claims), *rest)

    @property
    def member_feasible(self) -> Floats:
        """(W,) weight of members for which the proposed path keeps every rule; NaN without a path or members."""
        return np.array([self.weight_kept(w) for w in range(len(self))]) if self.counted is None else self.counted

    def weight_kept(self, w: int) -> float:
        """The same of window w; the plain rules are asked once."""
        if self.counted is not None:
            return float(self.counted[w])
        if w not in self._weights_kept:
            self._weights_kept[w] = self._weight_kept(w) if self._has_path[w] else math.nan
        return self._weights_kept[w]

    def _weight_kept(self, w: int) -> float:
        plan, start = self.plan, self.plan.start(w)
        actions = [start.actions[i] for i in self.paths[w, self.released[w]].tolist()]
        members = [plan.task.outcomes_of(rows) for rows in own_row(plan.inputs.members, w).tolist()]
        path = Path(start.state, actions, (), start.params)
        return Replay(plan.task, plan.layout).weight(path, members, own_row(plan.inputs.weights, w).tolist())

    @cached_property
    def _weights_kept(self) -> dict[int, float]:
        """By window, what `weight_kept` returned."""
        return {}

    @cached_property
    def counted(self) -> Floats | None:
        """`member_feasible` where it need not be asked of the rules in plain Python; None where it has to be."""
        plan, has_path = self.plan, self._has_path
        # Paths of members mode are feasible for all members, policies of closed mode at all points.
        if plan.policy.mode in ("members", "closed"):
            return np.where(has_path, 1.0, np.nan)
        paths = self.paths[np.arange(len(self)), np.maximum(self.released, 0)]
        return kept_weights(plan.task, plan.layout, plan.inputs.repeated(), np.where(has_path[:, None], paths, -1))

    @cached_property
    def _has_path(self) -> NDArray[np.bool_]:
        """(W,) where a path is put forward."""
        rows, at = np.arange(len(self)), np.maximum(self.released, 0)
        lower = self.evidence.lower[rows, at]
        has_path: NDArray[np.bool_] = (self.released >= 0) & self.evidence.actions[rows, at] & (lower == lower)
        return has_path
