"""Write the text of a kernel for the GPU: the user's functions, then a prelude that fits them, then the templates."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable
from functools import lru_cache
from importlib import resources
from typing import Any

from ucsearch.engine.compiled.spelled import GROUPS, ROOM, spell_out
from ucsearch.engine.registry import ALGORITHMS
from ucsearch.instead import Fill
from ucsearch.layout import Layout
from ucsearch.policies import MODES
from ucsearch.rules.dialect import refuse
from ucsearch.sources import Bundle, plain_function
from ucsearch.spreads import kernel_text as kernel_spreads
from ucsearch.task import TIMED, Task

__all__ = ["kernel_body", "template_text"]

_TASKS = "ucsearch.tasks."  # modules whose functions are ours
_ROLES = ("feasible", "step", "reward", "terminal", "allowed_end", "prepare", "bound")


@lru_cache(maxsize=8)
def _part(name: str) -> str:
    return (resources.files("ucsearch.engine.compiled") / "templates" / name).read_text()


def _core() -> str:
    return "\n\n".join(map(_part, ("asked.py", "core.py", "ending.py")))


def kernel_body(task: Task, layout: Layout, mode: int, algorithm: str, use_bound: bool, *, fills: bool = True) -> str:
    """The module below what says what the decorators mean. Functions of the library are marked as such where
    a task has no others: what a user wrote could hand them anything. Raises `Unsourced` when a function cannot be
    written out. `fills`: tables may be written into room that the
    kernel has."""
    bundle = Bundle(wrap="uc_user")
    used = _used(task, layout, use_bound)
    names = {role: bundle.add(plain_function(f), f"user_{role}") for role, f in used.items()}
    kinds = {
        "state": bundle.add(layout.kind, "UserState"),
        "params": "" if task.params is None else bundle.add(type(task.params), "UserParams"),
        "outcome": "" if task.outcome is None else bundle.add(task.outcome, "UserOutcome"),
    }
    ours = all(map(_is_ours, bundle.functions))
    one_number = mode == MODES["mean"] and task.outcome is None
    if ours and fills and task.fill is not None and "prepare" in names and one_number:
        names["fill"] = bundle.add(task.fill.fill, "user_fill")
    rules = bundle.text.replace("@uc_user\n", "@uc_own\n") if ours else bundle.text
    return rules + _prelude(task, layout, mode, names, kinds, use_bound) + _body(algorithm, mode)


def _is_ours(function: types.FunctionType) -> bool:
    """Whether it is what a module of the library's tasks has under its name, not a copy or an addition."""
    module = sys.modules.get(function.__module__) if function.__module__.startswith(_TASKS) else None
    return module is not None and vars(module).get(function.__qualname__) is function


def _used(task: Task, layout: Layout, use_bound: bool) -> dict[str, Callable[..., Any]]:
    roles = _ROLES if use_bound else _ROLES[:-2]
    found = {role: getattr(task, role) for role in roles if getattr(task, role) is not None}
    if "bound" in found:
        found["bound"] = task.bound
    for i, item in enumerate(task.followed):
        found[f"continuation_{i}"] = item.policy
    refuse(task, layout, tuple(role for role in found if role != "prepare"))
    return found


def _body(algorithm: str, mode: int) -> str:
    return template_text(algorithm, mode == MODES["members"])


def template_text(algorithm: str, members: bool) -> str:
    """Templates without the blocks marked for the other kind of mode (they would only cost compile time)."""
    other = "additive" if members else "members"
    text = kernel_spreads() + "\n\n" + spell_out(_core() + "\n\n" + ALGORITHMS[algorithm].text())
    return re.sub(rf"^ *# <{other}>\n.*?^ *# </{other}>\n", "", text, flags=re.DOTALL | re.MULTILINE)


def _prelude(
    task: Task, layout: Layout, mode: int, names: dict[str, str], kinds: dict[str, str], use_bound: bool
) -> str:
    members, scores = mode == MODES["members"], mode == MODES["scores"]
    bounded = use_bound and task.bound is not None and not scores
    grid = [(i, theta) for i, c in enumerate(task.followed) for theta in (c.grid or ((),))]
    timed = bool(task.timed)
    lines = [
        f"MEMBERS = {members}",
        f"SCORES = {scores}",
        f"N = {layout.size + timed}",
        f"HAS_TERMINAL = {task.terminal is not None}",
        f"BOUNDED = {int(bounded or scores)}",
        f"HAS_END = {task.allowed_end is not None}",
        f"CONTINUATIONS = {len(grid) if members else 0}",
        f"LATER = {int(bounded and task.by_rest)}",
        f"SCALAR = {task.outcome is None}",
        *_room(task.fill if bounded and "fill" in names else None),
        *_rules(task, names),
        "",
        *_load(kinds["state"], layout, timed),
        *_store(layout, timed),
        *_coerce(kinds["state"], layout, timed),
        *_params(task, kinds["params"]),
        *_outcomes(task, kinds["outcome"], scores),
        *_hooks(task, names, bounded, members),
        *_continuation(names, grid if members else [], task),
    ]
    return "\n".join(lines) + "\n\n"


def _room(fill: Fill | None) -> list[str]:
    """The numbers of `ROOM`."""
    if fill is None:
        counts = (0, 0, 0, 0)
    else:
        none, step, each = fill.room(0, 0), fill.room(1, 0), fill.room(0, 1)
        counts = (none, step - none, each - none, fill.room(1, 1) - step - each + none)
    return [f"{name} = {count}" for name, count in zip(ROOM, counts, strict=True)]


def _function(signature: str, *body: str, wrap: str = "uc_inner") -> list[str]:
    return [f"@{wrap}", f"def {signature}:", *(f"    {line}" for line in body), ""]


def _build(kind: str, layout: Layout, cell: str) -> str:
    """`State(x[0], (x[1], x[2]))` for a layout, with `cell` naming the flat positions."""
    items, at = [], 0
    for field, length in enumerate(layout.lengths):
        own = f"int({cell})" if field in layout.whole else cell
        if length == 0:
            items.append(own.format(at))
            at += 1
        else:
            items.append("(" + "".join(own.format(at + i) + ", " for i in range(length)) + ")")
            at += length
    return f"{kind}({', '.join(items)})"


def _shape_checks(layout: Layout) -> list[str]:
    """Tuple lengths are known when compiling, so these cost nothing at run time."""
    checks = [f"if len(new) != {len(layout.lengths)}:", "    return {}"]
    for i, length in enumerate(layout.lengths):
        if length:
            checks += [f"if len(new[{i}]) != {length}:", "    return {}"]
    return checks


def _cells(layout: Layout) -> list[str]:
    cells = []
    for i, length in enumerate(layout.lengths):
        cells += [f"new[{i}]"] if length == 0 else [f"new[{i}][{x}]" for x in range(length)]
    return cells


def _rules(task: Task, names: dict[str, str]) -> list[str]:
    """`uc_feasible(s, a, p)` and so on. Where a rule takes the step index, a state travels as (state, h)."""
    if not task.timed:
        own = [f"uc_{role} = {names[role]}" for role in TIMED if role != "feasible"]
        return [*_yes_or_no("uc_feasible(s, a, p)", f"{names['feasible']}(s, a, p)"), *own]
    at = {role: "s[1], " if role in task.timed else "" for role in TIMED}
    return [
        *_yes_or_no("uc_feasible(s, a, p)", f"{names['feasible']}(s[0], a, {at['feasible']}p)"),
        *_function("uc_step(s, a, y, p)", f"return {names['step']}(s[0], a, y, {at['step']}p), s[1] + 1"),
        *_function("uc_reward(s, a, y, p)", f"return {names['reward']}(s[0], a, y, {at['reward']}p)"),
    ]


def _yes_or_no(signature: str, call: str) -> list[str]:
    """A bool costs nothing here; NaN or 17 raises, and the plain engine then says where."""
    body = (f"answer = {call}", "if answer == 1:", "    return True", "if answer == 0:", "    return False")
    return _function(signature, *body, "raise ValueError('neither True nor False')", wrap="uc_inline")


def _load(kind: str, layout: Layout, timed: bool) -> list[str]:
    built = _build(kind, layout, "st[i, r, {}]")
    at = f", int(st[i, r, {layout.size}])" if timed else ""
    return _function("uc_load(st, i, r)", f"return {built}{at}", wrap="uc_lean")


def _store(layout: Layout, timed: bool) -> list[str]:
    body = ["new = full[0]", f"st[i, r, {layout.size}] = full[1]"] if timed else []
    body += [line.format("False") for line in _shape_checks(layout)]
    for at, cell in enumerate(_cells(layout)):
        body.append(f"st[i, r, {at}] = float({cell}) + 0.0")  # -0.0 becomes 0.0
    test = " and ".join(f"np.isfinite(st[i, r, {at}])" for at in range(layout.size))
    return _function(f"uc_store(st, i, r, {'full' if timed else 'new'})", *body, f"return {test}", wrap="uc_lean")


def _coerce(kind: str, layout: Layout, timed: bool) -> list[str]:
    cells = [f"float({c}) + 0.0" for c in _cells(layout)]
    built = _build(kind, layout, "x{}")
    body = [*(["new = full[0]"] if timed else []), *(f"x{at} = {cell}" for at, cell in enumerate(cells))]
    test = " and ".join(f"np.isfinite(x{at})" for at in range(layout.size))
    whole = f"({built}, full[1])" if timed else built
    return _function(f"uc_coerce({'full' if timed else 'new'})", *body, f"return {whole}, {test}")


def _params(task: Task, kind: str) -> list[str]:
    if task.params_layout is None:
        return _function("uc_params(params, w)", "return None")
    return _function("uc_params(params, w)", f"return {_build(kind, task.params_layout, 'params[w, {}]')}")


def _outcomes(task: Task, kind: str, scores: bool) -> list[str]:
    if task.outcome is None:
        mean, member = "mean[w, h, 0]", "members[w, j, h, 0]"
    else:
        # A trace of scores without outcomes carries one NaN field; every field of the outcome is then NaN.
        one = range(len(task.outcome._fields))
        at = [f"min({f}, mean.shape[2] - 1)" if scores else str(f) for f in one]
        mean = f"{kind}({', '.join(f'mean[w, h, {f}]' for f in at)})"
        member = f"{kind}({', '.join(f'members[w, j, h, {f}]' for f in one)})"
    return [
        *_function("uc_outcome(mean, w, h)", f"return {mean}"),
        *_function("uc_member(members, w, j, h)", f"return {member}", wrap="uc_lean"),
    ]


def _hooks(task: Task, names: dict[str, str], bounded: bool, members: bool) -> list[str]:
    lines = []
    if task.terminal is not None:
        lines += _on_state("uc_terminal", "p", names["terminal"], task)
    else:
        lines += _function("uc_terminal(s, p)", "return 0.0")
    if task.allowed_end is not None:
        lines += _yes_or_no("uc_end(s, p)", f"{names['allowed_end']}({'s[0]' if task.timed else 's'}, p)")
    else:
        lines += _function("uc_end(s, p)", "return True")
    arguments = GROUPS["UC_TABLED"]
    if not bounded:
        lines += _function(f"uc_tables({arguments})", "return 0.0")
        lines += _function("uc_table(tables, r)", "return tables", wrap="uc_pasted")
        return [*lines, *_function("uc_bound(s, h, table, p)", "return 0.0")]
    lines += _on_state("uc_bound", "h, table, p", names["bound"], task)
    since = "since = min(LATER, reach - 1)"  # a single step is not asked about
    call, one_call = f"{names['prepare']}({{}}, p)", ""
    if task.risk_aware_bound:
        lines.append("View = collections.namedtuple('View', ('members', 'weights', 'risk', 'spread'))")
        call = f"{names['prepare']}({{}}, p, View({{}}, {{}}, {{}}, spread[0]))"
    if members:
        pick = ", 0" if task.outcome is None else ""
        own = f"np.ascontiguousarray(members[w, {{}}, since:reach{pick}])"
        block = f"np.ascontiguousarray(members[w, {{0}}:{{0}} + 1, since:reach{pick}])"
        one_call = call.format(own.format("j"), block.format("j"), "np.ones(1)", "0.0")
        zero_call = call.format(own.format("0"), block.format("0"), "np.ones(1)", "0.0")
        body = [
            since,
            f"sample = {zero_call}",
            "tables = np.empty((members.shape[1] if use_bound else 1,) + sample.shape)",
            "tables[0] = sample",
            "for j in range(1, tables.shape[0]):",
            f"    tables[j] = {one_call}",
            "return tables",
        ]
    else:
        scalar = task.outcome is None
        sees = scalar and task.risk_aware_bound
        if scalar:
            lines.append(_part("by_step.py"))
        parts = ["own_mean", "own_members"]
        if not scalar:
            parts = [f"np.ascontiguousarray({own}since:reach])" for own in ("mean[w, ", "members[w, :, ")]
        body = [
            since,
            *(["uc_mean_of(mean, w, since, own_mean)"] if scalar else []),
            *(["uc_members_of(members, w, since, own_members)"] if sees else []),
            *(["uc_by_step(own_members, weights, wrow, own_room)"] if sees and task.by_step else []),
            f"return {call.format(*parts, 'weights[wrow]', 'risk')}",
        ]
        if "fill" in names:
            # A function that only borrows: nothing is counted while the table is made.
            table = "uc_own_table(own_room, own_members)"
            body[-1] = body[-1].replace(f"return {names['prepare']}(", f"{names['fill']}({table}, ")
            lines += _function(f"uc_fill({arguments})", *body)
            body = [f"uc_fill({arguments})", f"return {table}"]
    lines += _function(f"uc_tables({arguments})", *body)
    own = "return tables[r]" if members else "return tables"
    return [*lines, *_function("uc_table(tables, r)", own, wrap="uc_pasted")]


def _on_state(name: str, more: str, user: str, task: Task) -> list[str]:
    if not task.timed:
        return [f"{name} = {user}"]
    return _function(f"{name}(s, {more})", f"return {user}(s[0], {more})")


def _continuation(names: dict[str, str], grid: list[tuple[int, tuple[float, ...]]], task: Task) -> list[str]:
    if not grid:
        return _function("uc_continuation(k, s, h, p)", "return 0.0")
    state = "s[0]" if task.timed else "s"
    width = max(1, max(len(theta) for _, theta in grid))
    padded = [list(theta) + [0.0] * (width - len(theta)) for _, theta in grid]
    body = []
    for i in sorted({which for which, _ in grid}):
        theta = next(t for which, t in grid if which == i)
        arguments = ", ".join(f"UC_THETA[k, {x}]" for x in range(len(theta)))
        call = f"{names[f'continuation_{i}']}({state}, h, p{f', ({arguments},)' if theta else ''})"
        body += [f"if UC_WHICH[k] == {i}:", f"    return float({call})"]
    return [
        f"UC_WHICH = np.array({[i for i, _ in grid]!r}, dtype=np.int64)",
        f"UC_THETA = np.array({padded!r}, dtype=np.float64)",
        *_function("uc_continuation(k, s, h, p)", *body, "return np.nan"),
    ]
