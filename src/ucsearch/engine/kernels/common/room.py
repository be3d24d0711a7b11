"""What the entries of searches begin with: room for the candidates of a node and for a bound's table, and a window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ucsearch.engine.arrays import FSet, ISet
from ucsearch.engine.kernels.common.rules import Rules
from ucsearch.engine.kernels.common.shapes import LANES, Candidates, Forecast, SearchedWindow, Shape

__all__ = ["Setup", "build"]

DEPTH, REACH, SPREAD, CAP = int(ISet.DEPTH), int(ISet.REACH), int(ISet.SPREAD), int(ISet.CAP)
RISK, PRUNE_RISK, INFO_BONUS, TAIL = int(FSet.RISK), int(FSet.PRUNE_RISK), int(FSet.INFO_BONUS), int(FSet.TAIL)
Function = Callable[..., Any]


class Setup(NamedTuple):
    rows: Function  # (panel) -> states of a node
    candidates: Function  # (heap, iset, panel) -> Candidates
    forecast: Function  # (heap, iset, panel, use_bound) -> Forecast
    window: Function  # (w, iset, fset, params, panel, use_bound) -> SearchedWindow


def build(rules: Rules, k: Shape, jit: Any) -> Setup:
    MEMBERS, N, LATER = k.members, k.n, k.later
    IN_ALL, A_STEP, A_MEMBER, BOTH = k.room
    params_of = rules.params
    floats, zeros, ints = jit.floats, jit.zeros, jit.ints

    @jit.inline
    def rows_of(panel):
        return panel.members.shape[1] if MEMBERS else 1

    @jit.inline
    def candidates(heap, iset, panel):
        m, J, rows = panel.actions.shape[1], panel.members.shape[1], rows_of(panel)
        return Candidates(
            ints(heap, m), floats(heap, m), floats(heap, m), floats(heap, m), floats(heap, m),
            floats(heap, (m, rows, N)), floats(heap, (m, rows if MEMBERS else 1)), floats(heap, (1, rows)),
            floats(heap, (1 if MEMBERS else LANES + 1, max(J, 1))), floats(heap, iset[DEPTH] + 1),
            floats(heap, (1, rows)),
        )  # fmt: skip

    @jit.inline
    def forecast(heap, iset, panel, use_bound):
        steps = max(iset[REACH] - LATER, 1)
        tabled = panel.members.shape[1] if use_bound and not MEMBERS else 1
        wide = (steps + 3) // 4 * 4
        table = IN_ALL + A_STEP * steps + (A_MEMBER + BOTH * steps) * tabled
        return Forecast(floats(heap, steps), floats(heap, (tabled, steps)), zeros(heap, tabled * wide + table))

    @jit.inline
    def window(w, iset, fset, params, panel, use_bound):
        return SearchedWindow(
            w, w if panel.actions.shape[0] > 1 else 0, w if panel.weights.shape[0] > 1 else 0, iset[DEPTH], iset[REACH],
            rows_of(panel), iset[CAP], use_bound, fset[RISK], fset[PRUNE_RISK], fset[INFO_BONUS],
            (iset[SPREAD], fset[TAIL]), params_of(params, w if params.shape[0] > 1 else 0),
        )  # fmt: skip

    return Setup(rows_of, candidates, forecast, window)
