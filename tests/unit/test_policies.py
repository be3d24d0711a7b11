"""Policies: defaults, what each refuses by itself, and what it refuses together with a task and a trace."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.templates import TEMPLATES
from ucsearch.errors import BudgetError, InputError
from ucsearch.policies import MODES, Keep, Policy, resolve
from ucsearch.spreads import NUMBERS as SPREADS

NAN, INF = float("nan"), float("inf")
CLOCK, STOCK, TANK, POSITION, FOLLOWED = (
    TEMPLATES[name].task for name in ("clock", "stock", "tank", "position", "followed")
)
MEMBERS = uc.Trace.from_members(np.arange(12.0).reshape(2, 6))
PAIRS = uc.Trace.from_members(np.arange(24.0).reshape(2, 6, 2), fields=2)
SCORES = uc.Trace.from_scores(np.zeros((6, 3)), np.zeros((6, 3)), np.zeros(6))


@pytest.mark.parametrize("kind", [uc.UCBeam, uc.ParetoBeam, uc.CertifiedBeam, uc.Exact, uc.MCTS])
def test_policies_are_frozen_and_keyword_only(kind: Any) -> None:
    policy = kind(depth=3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.depth = 4
    with pytest.raises(TypeError):
        kind(3)
    assert policy == kind(depth=3)
    assert policy != kind(depth=4)


def test_defaults_are_resolved() -> None:
    s = resolve(uc.UCBeam(depth=3), CLOCK, MEMBERS, 3)
    assert (s.algorithm, s.depth, s.reach, s.width, s.top_k, s.keep) == ("beam", 3, 3, 8, 3, Keep.SCORE)
    assert (s.risk, s.prune_risk, s.info_bonus, s.discount, s.use_bound) == (0.0, 0.0, 0.0, 1.0, False)
    assert (s.mode, s.spread) == (MODES["mean"], SPREADS["std"])


def test_prune_risk_is_risk_unless_given() -> None:
    assert resolve(uc.UCBeam(depth=1, risk=0.25), CLOCK, MEMBERS, 3).prune_risk == 0.25
    assert resolve(uc.UCBeam(depth=1, risk=0.25, prune_risk=0.0), CLOCK, MEMBERS, 3).prune_risk == 0.0


def test_the_spread_depends_on_the_mode() -> None:
    assert resolve(uc.Exact(depth=1), CLOCK, MEMBERS, 3).spread == SPREADS["std"]
    assert resolve(uc.Exact(depth=1, mode="members"), CLOCK, MEMBERS, 3).spread == SPREADS["downside"]
    assert resolve(uc.Exact(depth=1, spread="variance"), CLOCK, MEMBERS, 3).spread == SPREADS["variance"]


def test_top_k_never_exceeds_the_actions() -> None:
    assert resolve(uc.UCBeam(depth=1, top_k=99), CLOCK, MEMBERS, 3).top_k == 3
    assert resolve(uc.MCTS(depth=1), CLOCK, MEMBERS, 3).top_k == 3


def test_each_beam_keeps_in_its_own_way() -> None:
    kinds = {uc.UCBeam: Keep.SCORE, uc.ParetoBeam: Keep.PARETO, uc.CertifiedBeam: Keep.CERTIFIED}
    for kind, keep in kinds.items():
        assert resolve(kind(depth=1), CLOCK, MEMBERS, 3).keep == keep


def test_order_auto_takes_the_bound_where_there_is_one() -> None:
    cases: list[tuple[uc.Task, uc.Trace, dict[str, Any], bool]] = [
        (STOCK, MEMBERS, {}, True),
        (STOCK, MEMBERS, {"order": "bound"}, True),
        (STOCK, MEMBERS, {"order": "score"}, False),
        (STOCK, MEMBERS, {"discount": 0.9}, False),  # bounds speak of undiscounted rewards
        (STOCK, MEMBERS, {"mode": "members"}, True),
        (CLOCK, MEMBERS, {}, False),
        (POSITION, SCORES, {"mode": "scores"}, True),  # the scores bound themselves
        (POSITION, SCORES, {"mode": "scores", "order": "score"}, False),
    ]
    for task, trace, given, expected in cases:
        assert resolve(uc.UCBeam(depth=2, **given), task, trace, len(task.actions)).use_bound is expected


def test_continuations_reach_to_the_end_of_the_trace() -> None:
    assert resolve(uc.UCBeam(depth=2, mode="members"), FOLLOWED, MEMBERS, 4).reach == 6
    assert resolve(uc.UCBeam(depth=2), FOLLOWED, MEMBERS, 4).reach == 2


def test_scores_without_outcomes_fit_any_task() -> None:
    blind = uc.Trace.from_scores(np.zeros((2, 4)), np.zeros((2, 4)))
    assert resolve(uc.UCBeam(depth=1, mode="scores"), TANK, blind, 4).mode == MODES["scores"]


REFUSED: dict[str, tuple[type[Exception], Callable[[], object], str]] = {
    "depth 0": (BudgetError, lambda: uc.UCBeam(depth=0), "depth: saw 0, expected a whole number from 1 to 10000"),
    "depth far too deep": (
        BudgetError,
        lambda: uc.UCBeam(depth=10**9),
        "depth: saw 1000000000, expected a whole number from 1 to 10000",
    ),
    "depth of a float": (BudgetError, lambda: uc.Exact(depth=2.0), "depth: saw 2.0"),  # type: ignore[arg-type]
    "depth of a truth value": (BudgetError, lambda: uc.Exact(depth=True), "depth: saw True"),
    "width 0": (BudgetError, lambda: uc.UCBeam(depth=1, width=0), "width: saw 0, expected a whole number from 1 to"),
    "a beam too large to hold": (
        BudgetError,
        lambda: uc.UCBeam(depth=10_000, width=10**6),
        "width x depth: saw 10000000000, expected at most 134217728",
    ),
    "top_k 0": (BudgetError, lambda: uc.UCBeam(depth=1, top_k=0), "top_k: saw 0, expected a whole number from 1 to"),
    "top_k of a float": (BudgetError, lambda: uc.MCTS(depth=1, top_k=1.5), "top_k: saw 1.5"),  # type: ignore[arg-type]
    "negative risk": (InputError, lambda: uc.UCBeam(depth=1, risk=-0.1), "risk: saw -0.1, expected a finite number of"),
    "NaN risk": (
        InputError,
        lambda: uc.UCBeam(depth=1, risk=NAN),
        "risk: saw nan, expected a finite number of at least 0",
    ),
    "infinite risk": (InputError, lambda: uc.UCBeam(depth=1, risk=INF), "risk: saw inf"),
    "risk of a text": (InputError, lambda: uc.UCBeam(depth=1, risk="high"), "risk: saw 'high'"),  # type: ignore[arg-type]
    "NaN prune_risk": (InputError, lambda: uc.UCBeam(depth=1, prune_risk=NAN), "prune_risk: saw nan"),
    "NaN info_bonus": (InputError, lambda: uc.UCBeam(depth=1, info_bonus=NAN), "info_bonus: saw nan"),
    "discount 0": (
        InputError,
        lambda: uc.UCBeam(depth=1, discount=0.0),
        "discount: saw 0.0, expected a number in (0, 1]",
    ),
    "discount above 1": (InputError, lambda: uc.UCBeam(depth=1, discount=1.1), "discount: saw 1.1"),
    "NaN discount": (InputError, lambda: uc.UCBeam(depth=1, discount=NAN), "discount: saw nan"),
    "discount of a text": (InputError, lambda: uc.UCBeam(depth=1, discount="x"), "discount: saw 'x'"),  # type: ignore[arg-type]
    "mode": (
        InputError,
        lambda: uc.UCBeam(depth=1, mode="median"),  # type: ignore[arg-type]
        "mode: saw 'median', expected one of 'mean', 'scores', 'members'",
    ),
    "spread": (
        InputError,
        lambda: uc.UCBeam(depth=1, spread="range"),  # type: ignore[arg-type]
        "spread: saw 'range', expected one of 'variance', 'std', 'downside'",
    ),
    "order": (
        InputError,
        lambda: uc.UCBeam(depth=1, order="random"),  # type: ignore[arg-type]
        "order: saw 'random', expected one of 'auto', 'score', 'bound'",
    ),
    "downside risk above 1": (
        InputError,
        lambda: uc.UCBeam(depth=1, mode="members", risk=1.5),
        "risk: saw 1.5, expected at most 1 with spread='downside' in members mode",
    ),
    "node budget 0": (BudgetError, lambda: uc.Exact(depth=1, node_budget=0), "node_budget: saw 0"),
    "no simulations": (BudgetError, lambda: uc.MCTS(depth=1, simulations=0), "simulations: saw 0"),
    "NaN c_uct": (InputError, lambda: uc.MCTS(depth=1, c_uct=NAN), "c_uct: saw nan"),
    "no policy": (
        InputError,
        lambda: resolve("beam", CLOCK, MEMBERS, 3),  # type: ignore[arg-type]
        "policy: saw 'beam', expected a policy such as uc.UCBeam(",
    ),
    "a policy without an algorithm": (
        InputError,
        lambda: resolve(Policy(depth=1), CLOCK, MEMBERS, 3),
        "policy: saw Policy(",
    ),
    "deeper than the trace": (
        InputError,
        lambda: resolve(uc.UCBeam(depth=7), CLOCK, MEMBERS, 3),
        "policy.depth: saw 7, expected at most 6, the trace's horizon. Forecast further ahead or search less deep.",
    ),
    "members asked of scores": (
        InputError,
        lambda: resolve(uc.UCBeam(depth=1), POSITION, SCORES, 3),
        "policy.mode: saw 'mean', expected mode='scores' for a trace of action scores",
    ),
    "scores asked of members": (
        InputError,
        lambda: resolve(uc.UCBeam(depth=1, mode="scores"), CLOCK, MEMBERS, 3),
        "policy.mode: saw 'scores', expected mode='mean', 'members' or 'closed' for a trace of members",
    ),
    "scores of other actions": (
        InputError,
        lambda: resolve(uc.UCBeam(depth=1, mode="scores"), STOCK, SCORES, 4),
        "trace.q: saw 3 actions, expected 4, one score per action of the task",
    ),
    "one field where two are declared": (
        InputError,
        lambda: resolve(uc.UCBeam(depth=1), TANK, MEMBERS, 4),
        "trace.members: saw 1 fields per outcome, expected 2 as the task's outcome has",
    ),
    "two fields where one is declared": (
        InputError,
        lambda: resolve(uc.UCBeam(depth=1), CLOCK, PAIRS, 3),
        "trace.members: saw 2 fields per outcome, expected 1",
    ),
    "a certified beam without room": (
        BudgetError,
        lambda: resolve(uc.CertifiedBeam(depth=1, width=2), CLOCK, MEMBERS, 3),
        "policy.width: saw 2, expected at least 3, one place for every first action that top_k generates",
    ),
    "bound without one": (
        InputError,
        lambda: resolve(uc.UCBeam(depth=1, order="bound"), CLOCK, MEMBERS, 3),
        "policy.order: saw 'bound', expected a task with a bound. Use order='auto' or 'score'.",
    ),
    "bound with a discount": (
        InputError,
        lambda: resolve(uc.UCBeam(depth=1, order="bound", discount=0.9), STOCK, MEMBERS, 4),
        "policy.discount: saw 0.9, expected 1.0 with order='bound'",
    ),
    "bound with a terminal value in scores mode": (
        InputError,
        lambda: resolve(
            uc.UCBeam(depth=1, order="bound", mode="scores"),
            TANK,
            uc.Trace.from_scores(np.zeros((2, 4)), np.zeros((2, 4))),
            4,
        ),
        "policy.order: saw 'bound', expected a task without terminal in scores mode",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_message(name: str) -> None:
    kind, build, message = REFUSED[name]
    with pytest.raises(kind) as caught:
        build()
    assert str(caught.value).startswith(message)


def test_a_certified_beam_has_room_when_top_k_is_small() -> None:
    assert resolve(uc.CertifiedBeam(depth=1, width=2, top_k=2), CLOCK, MEMBERS, 3).width == 2


def test_std_lifts_the_limit_on_risk() -> None:
    assert uc.UCBeam(depth=1, mode="members", risk=1.5, spread="std").risk == 1.5


def test_the_default_exploration_constant() -> None:
    assert uc.MCTS(depth=1).c_uct == math.sqrt(2.0)
