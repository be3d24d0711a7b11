"""For how many members a path keeps every rule (certificate/replay.py has the specification)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ucsearch.engine.kernels.common.rules import Rules
from ucsearch.engine.kernels.common.shapes import Shape

__all__ = ["build"]


def build(rules: Rules, k: Shape, jit: Any) -> Callable[..., None]:
    N = k.n
    params_of, load, store = rules.params, rules.load, rules.store
    feasible, step, member = rules.feasible, rules.step, rules.member

    @jit.entry
    def panel_of(states, params, actions, members, weights, paths, out):
        """`states` (W, 1, n) and `paths` (W, d), -1 where there is none, into `out` (W,): weight of the members."""
        d = paths.shape[1]
        st = np.empty((1, 1, N))
        for w in range(states.shape[0]):
            out[w] = np.nan
            if paths[w, 0] < 0:
                continue
            p = params_of(params, w if params.shape[0] > 1 else 0)
            arow = w if actions.shape[0] > 1 else 0
            wrow = w if weights.shape[0] > 1 else 0
            total = 0.0
            every = True
            for j in range(members.shape[1]):
                for f in range(N):
                    st[0, 0, f] = states[w, 0, f]
                feasible_throughout = True
                for h in range(d):
                    s = load(st, 0, 0)
                    a = actions[arow, paths[w, h]]
                    if not feasible(s, a, p):
                        feasible_throughout = False
                        break
                    if h + 1 < d and not store(st, 0, 0, step(s, a, member(members, w, j, h), p)):
                        feasible_throughout = False
                        break
                if feasible_throughout:
                    total += weights[wrow, j]
                else:
                    every = False
            out[w] = 1.0 if every else total

    entry: Callable[..., None] = panel_of
    return entry
