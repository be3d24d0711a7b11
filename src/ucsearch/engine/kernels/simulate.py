"""One step of many windows with realised outcomes, and the mask of what is allowed next (engine/simulate.py)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ucsearch.engine.arrays import Fault
from ucsearch.engine.kernels.common.rules import Rules
from ucsearch.engine.kernels.common.shapes import Shape

__all__ = ["build"]

REWARD, STATE = Fault.REWARD, Fault.STATE


def build(rules: Rules, k: Shape, jit: Any) -> Callable[..., None]:
    N = k.n
    params_of, load, store = rules.params, rules.load, rules.store
    feasible, step, reward, outcome = rules.feasible, rules.step, rules.reward, rules.outcome

    @jit.entry
    def panel_of(states, params, actions, chosen, outcomes, following, rewards, faults, mask, move):
        """`move`: take the chosen actions (index -1: stay) and write states, rewards, faults. Then write the mask of
        `following` (or of `states` without a move)."""
        for w in range(states.shape[0]):
            p = params_of(params, w if params.shape[0] > 1 else 0)
            arow = w if actions.shape[0] > 1 else 0
            if move:
                faults[w] = 0
                rewards[w] = 0.0
                for f in range(N):
                    following[w, 0, f] = states[w, 0, f]
                x = chosen[w]
                if x >= 0:
                    s = load(states, w, 0)
                    a = actions[arow, x]
                    y = outcome(outcomes, w, 0)
                    value = float(reward(s, a, y, p))
                    rewards[w] = value
                    if not math.isfinite(value):
                        faults[w] = REWARD
                    elif not store(following, w, 0, step(s, a, y, p)):
                        faults[w] = STATE
            for x in range(actions.shape[1]):
                a = actions[arow, x]
                if move:
                    mask[w, x] = a == a and feasible(load(following, w, 0), a, p)
                else:
                    mask[w, x] = a == a and feasible(load(states, w, 0), a, p)

    entry: Callable[..., None] = panel_of
    return entry
