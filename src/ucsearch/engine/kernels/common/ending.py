"""How a search ends: whether any path exists, which of two is better, and what is written down (plain/outcome.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ucsearch.engine.arrays import TABLE, First, OutF, OutI, Status
from ucsearch.engine.kernels.common.rules import Rules
from ucsearch.engine.kernels.common.shapes import Shape

DEAD_END, SEARCH_EXHAUSTED, TASK_ERROR = int(Status.DEAD_END), int(Status.SEARCH_EXHAUSTED), int(Status.TASK_ERROR)
RETAINED = First.RETAINED
STATUS, FIRST, EXPANSIONS, ACTION_SCORES = (
    int(OutI.STATUS),
    int(OutI.FIRST),
    int(OutI.EXPANSIONS),
    int(OutI.ACTION_SCORES),
)
SIMULATIONS, CONTINUATION, FAULT = int(OutI.SIMULATIONS), int(OutI.CONTINUATION), int(OutI.FAULT)
FAULT_STEP, FAULT_ACTION = int(OutI.FAULT_STEP), int(OutI.FAULT_ACTION)
SCORE, REWARD, UNCERTAINTY, UPPER = int(OutF.SCORE), int(OutF.REWARD), int(OutF.UNCERTAINTY), int(OutF.UPPER)


Function = Callable[..., Any]


class Ending(NamedTuple):
    lost: Function  # (st, win, panel, walk, cursor) -> status, step and action of a fault
    smaller: Function  # (path, x, y, d) -> whether path x comes before path y
    improves: Function  # whether a path beats what is held for its first action
    blank: Function  # (w, res)
    report: Function  # writes one window's results
    copy_paths: Function  # (w, fpath, res)


def build(rules: Rules, k: Shape, jit: Any) -> Ending:
    N, HAS_END, CONTINUES = k.n, k.has_end, k.continuations > 0
    allowed, ended, moved = rules.allowed, rules.ended, rules.moved

    @jit.inner
    def completable(st, win, panel, walk, cursor):
        """Whether some path of full depth exists from st[0]: 1 yes, 0 no, -1 unknown (cap reached), below: a fault."""
        for r in range(win.rows):
            for f in range(N):
                walk[0, r, f] = st[0, r, f]
        budget = win.cap
        level = 0
        cursor[0] = 0
        while level >= 0:
            if level == win.d:
                if CONTINUES or not HAS_END or ended(walk, level, win.rows, win.p):
                    return 1
                level -= 1
                continue
            x = cursor[level]
            if x >= panel.actions.shape[1]:
                level -= 1
                continue
            cursor[level] += 1
            a = panel.actions[win.arow, x]
            if a != a:
                continue
            if budget <= 0:
                return -1
            if not allowed(walk, level, win.rows, a, win.p):
                continue
            budget -= 1
            for r in range(win.rows):
                if not moved(walk, level, r, a, win.w, level, r, panel, walk, level + 1, win.p):
                    return -2 - (level * panel.actions.shape[1] + x)
            level += 1
            cursor[level] = 0
        return 0

    @jit.lean_call
    def smaller(path, x, y, d):
        for t in range(d):
            if path[x, t] != path[y, t]:
                return path[x, t] < path[y, t]
        return False

    @jit.lean_call
    def improves(score, uncertainty, path, t, held, held_uncertainty, paths, w, first, d):
        """Path t beats what the table holds for its first action (NaN: nothing yet)."""
        if not held == held or score > held:
            return True
        if score < held or uncertainty > held_uncertainty:
            return False
        if uncertainty < held_uncertainty:
            return True
        if paths.shape[0] == 0:
            return False
        for y in range(d):
            if path[t, y] != paths[w, first, y]:
                return path[t, y] < paths[w, first, y]
        return False

    @jit.lean_call
    def blank(w, res):
        for x in range(res.flags.shape[1]):
            res.flags[w, x] = 0
            for f in range(TABLE):
                res.table[w, x, f] = np.nan

    @jit.inner
    def lost(st, win, panel, walk, cursor):
        """No path was found: status (dead end, exhausted or a fault) and, for a fault, its step and action."""
        for r in range(win.rows):
            for f in range(N):
                st[0, r, f] = panel.states[win.w, f]
        completes = completable(st, win, panel, walk, cursor)
        if completes < -1:
            m = panel.actions.shape[1]
            return TASK_ERROR, (-2 - completes) // m, (-2 - completes) % m
        return DEAD_END if completes == 0 else SEARCH_EXHAUSTED, 0, 0

    @jit.lean_call
    def report(
        w,
        status,
        first,
        expansions,
        scored,
        simulations,
        cont,
        fault,
        step,
        action,
        score,
        reward,
        uncertainty,
        upper,
        path,
        row,
        res,
    ):
        """Write one window's results; a fault or a missing path leaves nothing but its status."""
        if status == TASK_ERROR:
            expansions = 0
            scored = 0
            simulations = 0
            first = -1
        res.out_i[w, STATUS] = status
        res.out_i[w, FIRST] = first
        res.out_i[w, EXPANSIONS] = expansions
        res.out_i[w, ACTION_SCORES] = scored
        res.out_i[w, SIMULATIONS] = simulations
        res.out_i[w, CONTINUATION] = cont if first >= 0 else -1
        res.out_i[w, FAULT] = fault
        res.out_i[w, FAULT_STEP] = step
        res.out_i[w, FAULT_ACTION] = action
        res.out_f[w, SCORE] = score if first >= 0 else np.nan
        res.out_f[w, REWARD] = reward if first >= 0 else np.nan
        res.out_f[w, UNCERTAINTY] = uncertainty if first >= 0 else np.nan
        res.out_f[w, UPPER] = upper if first >= 0 else np.nan
        for t in range(res.path.shape[1]):
            res.path[w, t] = path[row, t] if first >= 0 else -1

    @jit.lean_call
    def copy_paths(w, fpath, res):
        """The best path of every retained first action, where they are kept."""
        if res.paths.shape[0] > 0:
            for x in range(res.flags.shape[1]):
                if res.flags[w, x] & RETAINED != 0:
                    for t in range(res.paths.shape[2]):
                        res.paths[w, x, t] = fpath[0, x, t]

    return Ending(lost, smaller, improves, blank, report, copy_paths)
