"""A task's functions behind the few questions that kernels ask, most of them over rows of states (`st[i, r]`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ucsearch.engine.arrays import Fault
from ucsearch.engine.kernels.common import forecast
from ucsearch.engine.kernels.common.shapes import LANES, Shape
from ucsearch.layout import Layout, base_of
from ucsearch.policies import MODES
from ucsearch.rules.compile import Compiler
from ucsearch.task import Task

__all__ = ["Rules", "build"]

CONTINUATION, REWARD, STATE = Fault.CONTINUATION, Fault.REWARD, Fault.STATE
TERMINAL, NONE = Fault.TERMINAL, Fault.NONE
Function = Callable[..., Any]


class Rules(NamedTuple):
    """What a task says. Below: over rows of states, then over states as the task's functions see them. Where a rule
    takes the step index, a state `s` is a pair of the task's own and that index."""

    params: Function  # (params, w) -> p
    tables: Function  # (win, panel, forecast) -> the bound's tables, in a tuple
    allowed: Function  # (st, i, rows, a, p) -> bool, of every row
    ended: Function  # (st, i, rows, p) -> whether the last step may lead here
    final: Function  # (st, i, r, p) -> terminal value, 0 without one
    toward: Function  # (st, i, r, at, tables, p) -> what the bound says at step `at`
    moved: Function  # (st, i, r, a, w, h, j, panel, to, c, p) -> whether to[c, r] is a state, one step further
    paid: Function  # (st, i, r, a, w, h, j, panel, p) -> reward under outcomes of member j
    valued: Function  # (st, i, a, win, h, panel, c, cand, lane) -> fault
    follow: Function  # (k, st, i, rows, ret, n, win, panel, total) -> largest sum of absolute rewards, fault or -1

    load: Function  # (st, i, r) -> s
    store: Function  # (st, i, r, s) -> whether st[i, r] is a state now: all of it finite
    feasible: Function  # (s, a, p) -> bool
    step: Function  # (s, a, y, p) -> s
    reward: Function  # (s, a, y, p) -> float
    terminal: Function  # (s, p) -> float, 0 without one
    end: Function  # (s, p) -> bool, True without such a rule
    use: Function  # (j, s, a, p) -> what an action uses of the task's j-th use, by name
    outcome: Function  # (mean, w, h) -> y
    member: Function  # (members, w, j, h) -> y


def build(task: Task, layout: Layout, mode: int, use_bound: bool, jit: Any) -> tuple[Rules, Shape]:
    """Raises `rules.dialect.Refused` where the task's rules do not compile and `jit` would compile them."""
    compiler = Compiler(task, layout, jit)
    rule = _of_tuples(compiler.rule, task, jit) if task.width else compiler.rule
    shape = _shape(task, layout, mode, use_bound)
    load, store = codec(layout, shape.timed, jit)
    outcome, member = _outcomes(task, shape, jit)
    feasible, step, reward = _rules_of_a_step(task, rule, shape.timed, jit)
    terminal, end = _rules_of_the_end(task, rule, shape.timed, jit)
    MEMBERS, SCALAR, LATER = shape.members, shape.scalar, shape.later

    if task.params_layout is None:

        @jit.inner
        def params(params, w):
            return None
    else:
        params = jit.inner(record(task.params_layout, "params[w, {}]", "params, w"))

    @jit.inline
    def allowed(st, i, rows, a, p):
        for r in range(rows):
            if not feasible(load(st, i, r), a, p):
                return False
        return True

    @jit.inline
    def ended(st, i, rows, p):
        for r in range(rows):
            if not end(load(st, i, r), p):
                return False
        return True

    @jit.inline
    def final(st, i, r, p):
        return terminal(load(st, i, r), p)

    @jit.inline
    def moved(st, i, r, a, w, h, j, panel, to, c, p):
        y = member(panel.members, w, j, h) if MEMBERS else outcome(panel.mean, w, h)
        return store(to, c, r, step(load(st, i, r), a, y, p))

    @jit.inline
    def paid(st, i, r, a, w, h, j, panel, p):
        return float(reward(load(st, i, r), a, member(panel.members, w, j, h), p))

    @jit.inline
    def valued(st, i, a, win, h, panel, c, cand, lane):
        """Candidate c: its reward under the mean, its state, and every member's reward in edge[lane]. A fault, or 0."""
        s = load(st, i, 0)
        y = outcome(panel.mean, win.w, h)
        cand.q[c] = float(reward(s, a, y, win.p))
        if SCALAR:
            for j in range(panel.members.shape[1]):
                cand.edge[lane, j] = float(reward(s, a, cand.edge[LANES, j], win.p))
        else:
            for j in range(panel.members.shape[1]):
                cand.edge[lane, j] = float(reward(s, a, member(panel.members, win.w, j, h), win.p))
        if not math.isfinite(cand.q[c]):
            return REWARD
        if not store(cand.st, c, 0, step(s, a, y, win.p)):
            for j in range(panel.members.shape[1]):
                if not math.isfinite(cand.edge[lane, j]):
                    return REWARD
            return STATE
        return NONE

    follow = _follow(task, rule, shape, (load, feasible, step, reward, terminal, end, member), layout, jit)

    if shape.bounded and not shape.scores:
        bound = rule("bound")
        untimed = _untimed(bound, jit) if shape.timed else bound

        @jit.inline
        def toward(st, i, r, at, tables, p):
            return float(untimed(load(st, i, r), at - LATER, tables[0][r] if MEMBERS else tables[0], p))

        fill = compiler.fill() if any(shape.room) else None
        if jit.on_device and fill is None:
            tables = _given(jit)
        else:
            tables = forecast.build(task, rule("prepare"), fill, shape, jit)
    else:

        @jit.inline
        def toward(st, i, r, at, tables, p):
            return 0.0

        @jit.inner
        def tables(win, panel, forecast):
            return (0.0,)

    functions = Rules(
        params, tables, allowed, ended, final, toward, moved, paid, valued, follow, load, store, feasible, step, reward,
        terminal, end, _uses(task, rule, shape.timed, jit), outcome, member,
    )  # fmt: skip
    return functions, shape


def _of_tuples(rule: Callable[[str], Function], task: Task, jit: Any) -> Callable[[str], Function]:
    """Rules of tuples, asked by the numbers that stand for them: a kernel's actions are numbers."""
    if task.packs:
        lines = []
        for k in range(task.width - 1):
            base = base_of(task.width) ** (task.width - 1 - k)
            lines += [f"    x{k} = 1.0 * math.floor(a / {base!r})", f"    a = a - x{k} * {base!r}"]
        numbers = "".join([*(f"x{k}, " for k in range(task.width - 1)), "a,"])
    else:
        lines, numbers = [], ", ".join(f"grid[int(a), {k}]" for k in range(task.width)) + ","
    rest = {"feasible": "p", "step": "y, p", "reward": "y, p"}

    def rule_of_number(role: str) -> Function:
        if role not in rest and not role.startswith("use:"):
            return rule(role)
        more = rest.get(role, "p")
        more = more.replace("p", "h, p") if role in task.timed else more
        space: dict[str, Any] = {"rule": rule(role), "math": math}
        if not task.packs:
            space["grid"] = np.array(task.actions)
        text = "\n".join([f"def ask(s, a, {more}):", *lines, f"    return rule(s, ({numbers}), {more})"]) + "\n"
        exec(compile(text, f"<{role} of tuples>", "exec"), space)
        of_number: Function = jit.inline(space["ask"])
        return of_number

    return rule_of_number


def _shape(task: Task, layout: Layout, mode: int, use_bound: bool) -> Shape:
    members, scores = mode == MODES["members"], mode == MODES["scores"]
    bounded = use_bound and task.bound is not None and not scores
    room = (0, 0, 0, 0)
    if bounded and task.prepare_into is not None and mode == MODES["mean"]:
        room = task.prepare_into.sizes
    return Shape(
        n=layout.size + bool(task.timed),
        action=1,
        outcome=task.fields,
        scalar=task.outcome is None,
        timed=bool(task.timed),
        members=members,
        scores=scores,
        bounded=bounded or scores,
        later=int(bounded and task.by_rest),
        has_terminal=task.terminal is not None,
        has_end=task.allowed_end is not None,
        continuations=len(_candidates(task)) if members else 0,
        uses=len(task.uses),
        room=room,
    )


# ---- states, parameters and outcomes as rows of numbers


def _built(layout: Layout, cell: str) -> str:
    """`Kind(x[0], (x[1], x[2]))` for a layout, with `cell` naming the places of a row."""
    fields, at = [], 0
    for field, length in enumerate(layout.lengths):
        number = f"int({cell})" if field in layout.whole else f"float({cell})"
        if length:
            fields.append("(" + "".join(number.format(at + y) + ", " for y in range(length)) + ")")
        else:
            fields.append(number.format(at))
        at += max(length, 1)
    return f"Kind({', '.join(fields)})"


def _written_out(text: str, kind: type[Any]) -> dict[str, Any]:
    """Functions written out for the fields of a record, as `namedtuple` writes its own."""
    space: dict[str, Any] = {"Kind": kind, "math": math, "__name__": __name__}
    exec(compile(text, f"<rows of {kind.__name__}>", "exec"), space)
    return space


def record(layout: Layout, cell: str, arguments: str) -> Function:
    """A function that makes a record of numbers in an array."""
    made: Function = _written_out(f"def make({arguments}):\n    return {_built(layout, cell)}\n", layout.kind)["make"]
    return made


def codec(layout: Layout, timed: bool, jit: Any) -> tuple[Function, Function]:
    """`load(st, i, r)` makes a state of a row, `store(st, i, r, s)` a row of a state: whether all of it is finite.
    Lengths of tuples are known when compiling, so looking at them costs nothing."""
    names = []
    for x, length in enumerate(layout.lengths):
        names += [f"new[{x}][{y}]" for y in range(length)] or [f"new[{x}]"]
    lengths = [(x, length) for x, length in enumerate(layout.lengths) if length]
    sizes = [f"len(new) != {len(layout.lengths)}", *(f"len(new[{x}]) != {length}" for x, length in lengths)]
    built = _built(layout, "st[i, r, {}]")
    lines = [
        "def load(st, i, r):",
        f"    return {built}, int(st[i, r, {layout.size}])" if timed else f"    return {built}",
        "def store(st, i, r, s):",
        *([f"    st[i, r, {layout.size}] = s[1]", "    new = s[0]"] if timed else ["    new = s"]),
        *(line for size in sizes for line in (f"    if {size}:", "        return False")),
        *(f"    st[i, r, {at}] = float({name}) + 0.0" for at, name in enumerate(names)),  # -0.0 becomes 0.0
        "    return " + " and ".join(f"math.isfinite(st[i, r, {at}])" for at in range(layout.size)),
    ]
    space = _written_out("\n".join(lines) + "\n", layout.kind)
    return jit.lean(space["load"]), jit.lean(space["store"])


def _outcomes(task: Task, shape: Shape, jit: Any) -> tuple[Function, Function]:
    SCORES = shape.scores
    if task.outcome is None:

        @jit.lean
        def outcome(mean, w, h):
            return float(mean[w, h, 0])

        @jit.lean
        def member(members, w, j, h):
            return float(members[w, j, h, 0])

        return outcome, member
    layout = Layout(task.outcome, (0,) * len(task.outcome._fields))
    # A trace of scores without outcomes carries one NaN field; every field of the outcome is then NaN.
    cell = "mean[w, h, min({}, mean.shape[2] - 1)]" if SCORES else "mean[w, h, {}]"
    return jit.lean(record(layout, cell, "mean, w, h")), jit.lean(
        record(layout, "members[w, j, h, {}]", "members, w, j, h")
    )


# ---- the task's functions


def _yes_or_no(jit: Any) -> Function:
    @jit.inline
    def yes(answer):
        """A truth value costs nothing here; NaN or 17 raises, and the plain engine then says where."""
        if answer == 1:
            return True
        if answer == 0:
            return False
        raise ValueError("neither True nor False")

    made: Function = yes
    return made


def _given(jit: Any) -> Function:
    """Tables that the CPU has made, in the place of scores, which a task with a bound does not read."""

    @jit.inner
    def tables(win, panel, forecast):
        return (panel.q[win.w],)

    made: Function = tables
    return made


def _untimed(function: Function, jit: Any) -> Function:
    """A function of a state, asked with a pair of the state and the step index."""

    @jit.inline
    def of_state(s, h, table, p):
        return function(s[0], h, table, p)

    made: Function = of_state
    return made


def _rules_of_a_step(
    task: Task, rule: Callable[[str], Function], timed: bool, jit: Any
) -> tuple[Function, Function, Function]:
    yes = _yes_or_no(jit)
    may, go, earn = rule("feasible"), rule("step"), rule("reward")
    if not timed:

        @jit.inline
        def feasible(s, a, p):
            return yes(may(s, a, p))

        return feasible, go, earn
    MAY, GO, EARN = (name in task.timed for name in ("feasible", "step", "reward"))
    if MAY:

        @jit.inline
        def feasible(s, a, p):
            return yes(may(s[0], a, s[1], p))
    else:

        @jit.inline
        def feasible(s, a, p):
            return yes(may(s[0], a, p))

    if GO:

        @jit.inline
        def step(s, a, y, p):
            return go(s[0], a, y, s[1], p), s[1] + 1
    else:

        @jit.inline
        def step(s, a, y, p):
            return go(s[0], a, y, p), s[1] + 1

    if EARN:

        @jit.inline
        def reward(s, a, y, p):
            return earn(s[0], a, y, s[1], p)
    else:

        @jit.inline
        def reward(s, a, y, p):
            return earn(s[0], a, y, p)

    return feasible, step, reward


def _rules_of_the_end(task: Task, rule: Callable[[str], Function], timed: bool, jit: Any) -> tuple[Function, Function]:
    yes = _yes_or_no(jit)
    if task.terminal is None:

        @jit.inline
        def terminal(s, p):
            return 0.0
    else:
        value = rule("terminal")

        @jit.inline
        def terminal(s, p):
            return float(value(s[0] if timed else s, p))

    if task.allowed_end is None:

        @jit.inline
        def end(s, p):
            return True
    else:
        may = rule("allowed_end")

        @jit.inline
        def end(s, p):
            return yes(may(s[0] if timed else s, p))

    return terminal, end


def _uses(task: Task, rule: Callable[[str], Function], timed: bool, jit: Any) -> Function:
    if not task.uses:
        return _no_number(jit)
    uses = tuple(rule(f"use:{name}") for name in sorted(task.uses))
    return _one_of(uses, ("s[0]" if timed else "s", "a", "p"), "j, s, a, p", "j", range(len(uses)), jit)


def _no_number(jit: Any) -> Function:
    @jit.inline
    def none(k, s, a, p):
        return np.nan

    made: Function = none
    return made


def _one_of(
    functions: tuple[Function, ...], handed: tuple[str, ...], arguments: str, by: str, numbers: Any, jit: Any
) -> Function:
    """Calls the function of a number: functions are of different types, so they cannot be picked from a tuple."""
    lines = [f"def one_of({arguments}):"]
    for number, at in enumerate(numbers):
        lines += [f"    if {by} == {number}:", f"        return float(f{at}({', '.join(handed)}))"]
    space: dict[str, Any] = {f"f{at}": function for at, function in enumerate(functions)}
    exec(compile("\n".join([*lines, "    return float('nan')"]) + "\n", "<one of several>", "exec"), space)
    made: Function = jit.inner(space["one_of"])
    return made


def _candidates(task: Task) -> list[tuple[int, tuple[float, ...]]]:
    """Every continuation under every setting of its grid: its number, and the setting."""
    return [(i, theta) for i, item in enumerate(task.followed) for theta in (item.grid or ((),))]


def _follow(
    task: Task, rule: Callable[[str], Function], k: Shape, functions: tuple[Function, ...], layout: Layout, jit: Any
) -> Function:
    HAS_END, HAS_TERMINAL = k.has_end, k.has_terminal
    if k.continuations == 0:

        @jit.inner
        def nobody(k, st, i, rows, ret, n, win, panel, total):
            return 0.0, CONTINUATION

        none: Function = nobody
        return none
    load, feasible, step, reward, terminal, end, member = functions
    policy = _policies(task, rule, k.timed, jit)
    coerced = _coerced(layout, k.timed, jit)

    @jit.inner
    def follow(k, st, i, rows, ret, n, win, panel, total):
        """Member returns into total[0] when each follows candidate k from (st, i), and the largest sum of absolute
        rewards that a member met on the way. Second result: a fault, or -1 where the rules forbid it."""
        p, disc = win.p, panel.disc
        most = 0.0
        for r in range(rows):
            s = load(st, i, r)
            value = ret[n, r]
            added = 0.0
            for h in range(win.d, win.reach):
                a = policy(k, s, h, p)
                if not math.isfinite(a):
                    return most, CONTINUATION
                if not feasible(s, a, p):
                    return most, -1
                y = member(panel.members, win.w, r, h)
                earned = float(reward(s, a, y, p))
                if not math.isfinite(earned):
                    return most, REWARD
                value = value + disc[h] * earned
                added += abs(disc[h] * earned)
                new, fine = coerced(step(s, a, y, p))
                if not fine:
                    return most, STATE
                s = new
            if HAS_END and not end(s, p):
                return most, -1
            if HAS_TERMINAL:
                last = terminal(s, p)
                if not math.isfinite(last):
                    return most, TERMINAL
                value = value + disc[win.reach] * last
                added += abs(disc[win.reach] * last)
            total[0, r] = value
            most = max(most, added)
        return most, 0

    made: Function = follow
    return made


def _coerced(layout: Layout, timed: bool, jit: Any) -> Function:
    """What `step` returned as a state of floats, and whether all of it is finite."""
    names = []
    for x, length in enumerate(layout.lengths):
        names += [f"new[{x}][{y}]" for y in range(length)] or [f"new[{x}]"]
    lengths = [(x, length) for x, length in enumerate(layout.lengths) if length]
    built = _built(layout, "x{}")
    lines = [
        "def coerced(s):",
        "    new = s[0]" if timed else "    new = s",
        *(f"    x{at} = float({name}) + 0.0" for at, name in enumerate(names)),
        f"    whole = len(new) == {len(layout.lengths)}",
        *(f"    whole = whole and len(new[{x}]) == {length}" for x, length in lengths),
        "    fine = whole and " + " and ".join(f"math.isfinite(x{at})" for at in range(layout.size)),
        f"    return ({built}, s[1]), fine" if timed else f"    return {built}, fine",
    ]
    made: Function = jit.inner(_written_out("\n".join(lines) + "\n", layout.kind)["coerced"])
    return made


def _policies(task: Task, rule: Callable[[str], Function], timed: bool, jit: Any) -> Function:
    """`policy(k, s, h, p)`: the action of candidate k."""
    candidates = _candidates(task)
    width = max(1, *(len(theta) for _, theta in candidates))
    which = np.array([i for i, _ in candidates])
    thetas = np.array([[*theta, *(0.0,) * (width - len(theta))] for _, theta in candidates])
    used = sorted({i for i, _ in candidates})
    space: dict[str, Any] = {"which": which, "thetas": thetas}
    lines = ["def policy(k, s, h, p):"]
    for i in used:
        theta = next(t for own, t in candidates if own == i)
        space[f"f{i}"] = rule(f"continuation_{i}")
        given = "".join(f"float(thetas[k, {x}]), " for x in range(len(theta)))
        call = f"f{i}({'s[0]' if timed else 's'}, h, p{f', ({given})' if theta else ''})"
        lines += [f"    if which[k] == {i}:", f"        return float({call})"]
    exec(compile("\n".join([*lines, "    return float('nan')"]) + "\n", "<continuations>", "exec"), space)
    made: Function = jit.inner(space["policy"])
    return made
