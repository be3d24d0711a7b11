"""Every beam diagnosed at the same states: those that the exact planner visits.

The walk follows the exact plan. At each of its states every beam searches, is certified by the oracle, and its retained
paths are replayed under what really happened.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.certificate.certificate import CertifiedPanel
from ucsearch.certificate.claims import path_size, shares
from ucsearch.decision.api import decide_panel
from ucsearch.decision.decision import DecisionPanel
from ucsearch.decision.gate import Gate
from ucsearch.engine.api import search_panel
from ucsearch.engine.arrays import Col, OutI
from ucsearch.engine.plan import PanelPlan
from ucsearch.lab.suites.kinds.mechanism.paths import RolledPlans
from ucsearch.lab.suites.kinds.mechanism.settings import MechanismSettings
from ucsearch.policies import Exact, Proof, Run
from ucsearch.replay.panel import Panel
from ucsearch.replay.walk import Choice, Seen
from ucsearch.tasks.base import Binding
from ucsearch.trace import Trace

__all__ = ["Diagnosis", "coverage", "is_complete"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_FLAGS = (
    "passed", "risk_active", "search_pass", "paper_pass", "oracle_retained", "search_active", "uncertainty_active",
    "optimal", "unique", "robust", "sole",
)  # fmt: skip
_FIGURES = ("margin", "gap", "eps_a", "proxy_slack", "exact_regret", "regret_bound")


class Diagnosis:
    """The chooser of the walk. `found[n][t]` holds, as JSON values, what was measured at decision t of window n."""

    def __init__(
        self, panel: Panel, binding: Binding, settings: MechanismSettings, *, threads: int | None,
        keep: Callable[[int, DecisionPanel], None] | None = None,
    ) -> None:  # fmt: skip
        self.panel, self.binding, self.s = panel, binding, settings
        self.threads, self.keep = threads, keep
        self.found: list[list[dict[str, Any]]] = [[] for _ in range(len(panel))]

    def __call__(self, seen: Seen) -> Choice:
        s, task = self.s, self.binding.task
        t, trace, actions, params = seen.t, seen.trace, seen.actions, seen.params
        common: dict[str, Any] = dict(params=params, actions=actions)
        how: dict[str, Any] = dict(threads=self.threads, engine="compiled")
        exact = search_panel(
            task, seen.state, trace, Exact(depth=s.depth, risk=s.risk, spread="std", every_action=True), **how, **common
        ).raise_for_errors()
        best = search_panel(
            task, seen.state, self.panel.hindsight(t), Exact(depth=s.depth, risk=0.0, spread="std"), **how, **common
        ).raise_for_errors()
        certified: dict[str, CertifiedPanel] = {}
        for name in s.beams:
            decided = decide_panel(
                task,
                seen.state,
                trace,
                s.policy(name),
                gate=Gate(certificate=True),
                proof=Proof(kind="oracle"),
                run=Run(**how),
                **common,
            )
            decided.certified.plan.raise_for_errors()
            certified[name] = decided.certified
            if name == "uc" and self.keep is not None:
                self.keep(t, decided)
        reached = self._paths(t, seen.rows, trace, actions, params, exact, best, certified)
        for n in range(len(self.panel)):
            one: dict[str, Any] = {"complete": is_complete(self.panel, n, t, s.depth), **reached[n]}
            one["exact"] |= _regime(exact, n)
            for name, panel in certified.items():
                one["beams"][name] |= _tuple(panel, n)
            self.found[n].append(one)
        return Choice.at(seen, exact.outputs.out_i[:, OutI.FIRST], np.array(exact.expansions, np.int64))

    def _paths(
        self, t: int, states: Floats, trace: Trace, actions: Floats | None, params: Floats | None, exact: PanelPlan,
        best: PanelPlan, certified: dict[str, CertifiedPanel],
    ) -> list[dict[str, Any]]:  # fmt: skip
        """Per window: the exact and the hindsight path, and every beam's retained paths, with what they earned."""
        count = len(self.panel)
        owners: list[tuple[int, str, int]] = []  # window, whose, first action
        rows: list[Ints] = []
        for n in range(count):
            for name, plan in (("exact", exact), ("hindsight", best)):
                owners.append((n, name, int(plan.outputs.out_i[n, OutI.FIRST])))
                rows.append(np.asarray(plan.outputs.path[n], np.int64))
            for name, panel in certified.items():
                for a in np.flatnonzero(~np.isnan(panel.evidence.lower[n])).tolist():
                    owners.append((n, name, a))
                    rows.append(np.asarray(panel.paths[n, a], np.int64))
        at = np.array([n for n, _, _ in owners], np.int64)

        def own(values: Floats | None) -> Floats | None:
            return values if values is None or len(values) == 1 else values[at]

        plans = RolledPlans(self.binding.task, exact.layout, states[at], np.stack(rows), own(actions), own(params))
        earned = plans.realised(self.panel.future[at, t])
        members = trace.members[:, :, :, 0]
        weights = np.broadcast_to(trace.weights, members.shape[:2])
        forecast, uncertainty = plans.foreseen(members[at], trace.mean[at, :, 0], weights[at])
        out: list[dict[str, Any]] = [
            {"exact": {}, "hindsight": {}, "beams": {name: {"paths": []} for name in certified}} for _ in range(count)
        ]
        for i, (n, name, a) in enumerate(owners):
            figures = [_number(forecast[i]), _number(uncertainty[i]), _number(earned[i])]
            if name in certified:
                # The engine's own figures count; the replay under the forecast is for paths it does not report.
                e = certified[name].evidence
                figures[:2] = [_number(e.lower_reward[n, a]), _number(e.lower_uncertainty[n, a])]
                held = out[n]["beams"][name]
                if a == int(e.selected[n]):
                    held["selected"] = len(held["paths"])
                held["paths"].append(figures)
            else:
                out[n][name] = dict(zip(("forecast", "uncertainty", "realised"), figures, strict=True))
        return out


def _tuple(panel: CertifiedPanel, n: int) -> dict[str, Any]:
    """The certificate tuple of a decision, and Theorem 3's terms for the selected action against its best rival."""
    e, c = panel.evidence, panel.claims
    out: dict[str, Any] = {name: bool(getattr(c, name)[n]) for name in _FLAGS}
    out |= {name: _number(getattr(c, name)[n]) for name in _FIGURES}
    out["solved"] = bool(e.exact[n]) and int(e.selected[n]) >= 0
    out["preserved"] = out["solved"] and bool(c.exact_regret[n] <= c.tau[n])
    out["first_actions"] = int((~np.isnan(e.lower[n])).sum())
    out["expansions"] = int(panel.plan.expansions[n])
    out["oracle_nodes"] = int(panel.oracle_nodes[n])
    out |= dict.fromkeys(("suffix_margin", "suffix_advantage", "local_loss"))
    rivals = np.flatnonzero(e.actions[n] & (np.arange(e.actions.shape[1]) != e.selected[n]))
    if out["solved"] and rivals.size:
        value = e.upper[n]
        local = (
            panel.plan.outputs.table[n, :, Col.STEP_REWARD]
            - panel.plan.settings.risk * panel.plan.outputs.table[n, :, Col.STEP_UNCERTAINTY]
        )
        chosen, rival = int(e.selected[n]), int(rivals[np.argmax(value[rivals])])
        out["suffix_margin"] = _number(value[chosen] - value[rival])
        out["local_loss"] = _number(local[rival] - local[chosen])
        out["suffix_advantage"] = _number((value - local)[chosen] - (value - local)[rival])
    return out


def _regime(exact: PanelPlan, n: int) -> dict[str, Any]:
    """Theorem 3: whether all suffixes are worth the same (i), and whether the best first step is not the best action
    (ii); and whether first steps tell anything at all."""
    table, risk = exact.outputs.table[n], exact.settings.risk
    known = np.flatnonzero(np.isfinite(table[:, Col.UPPER]) & np.isfinite(table[:, Col.STEP_REWARD]))
    value, local = table[known, Col.UPPER], table[known, Col.STEP_REWARD] - risk * table[known, Col.STEP_UNCERTAINTY]
    size = path_size(table[known, Col.GROSS], table[known, Col.UNCERTAINTY], exact.settings, risk).max()
    tau = float(np.resize(shares(exact.settings, exact.inputs), len(exact))[n] * size)
    suffix = value - local
    greedy = local >= local.max() - tau
    return {
        "first_equal": bool(greedy.all()),
        "collapsed": bool(suffix.max() - suffix.min() <= tau),
        "separated": bool(value[greedy].max() < value.max() - tau),
        "nodes": int(exact.expansions[n]),
    }


def is_complete(panel: Panel, n: int, t: int, depth: int) -> bool:
    """Whether everything a plan of this depth meets has been observed within the window's split."""
    one = panel.stretches[n]
    return one.start + t + depth <= len(one.y)


def coverage(panel: Panel, n: int, depth: int, levels: tuple[float, ...]) -> dict[str, Any]:
    """Outcomes of a window's complete decisions inside central intervals, counted over 1 to `depth` steps ahead."""
    known = [t for t in range(panel.decisions) if is_complete(panel, n, t, depth)]
    members, actual = panel.members[n, known, :, :depth], panel.future[n, known, :depth]
    inside = []
    for level in levels:
        # Weibull's quantiles: with the outcome as one more draw, honest members cover at the nominal level.
        low, high = np.quantile(members, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=1, method="weibull")
        inside.append(int(((low <= actual) & (actual <= high)).sum()))
    return {"points": int(actual.size), "inside": inside}


def _number(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None
