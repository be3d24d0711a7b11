"""A name in a user's rule that may not have a value yet: Python raises where it is read, numba goes on with a zero.

Each such name gets a companion that is 0 until the name is given something, and whatever reads the name divides by the
companion first: a division that is guarded raises, and the window is searched by the plain engine. Names that always
have a value where they are read, nearly all, get none.
"""

# mypy: disable-error-code="no-untyped-call, attr-defined"
# numba's insides have no types.

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import numba.core.ir
from numba.core.analysis import compute_cfg_from_blocks
from numba.core.compiler_machinery import FunctionPass, register_pass

__all__ = ["AssignedFirst"]

ir: Any = numba.core.ir  # typed in part only
_COMPANION = "uc_has_value."


@register_pass(mutates_CFG=False, analysis_only=False)
class AssignedFirst(FunctionPass):
    """Before numba tells one value of a name from the next, and after it has taken out what nobody reads."""

    _name = "ucsearch_assigned_first"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        blocks = state.func_ir.blocks
        before = _assigned_before(blocks)
        doubtful = {name for at, block in blocks.items() for name in _unassigned(block, before[at])}
        for at, block in blocks.items():
            block.body = list(_accompanied(block, doubtful, set(before[at]), at == min(blocks)))
        return bool(doubtful)


def _assigned_before(blocks: dict[int, Any]) -> dict[int, set[str]]:
    """Names that have a value wherever a block is entered from."""
    made = {at: {s.target.name for s in block.find_insts(ir.Assign)} for at, block in blocks.items()}
    names = set[str]().union(*made.values())
    graph = compute_cfg_from_blocks(blocks)
    before = {at: set[str]() if at == graph.entry_point() else set(names) for at in blocks}
    todo = list(blocks)
    while todo:
        at = todo.pop()
        for after, _ in graph.successors(at):
            left = before[after] & (before[at] | made[at])
            if left != before[after]:
                before[after] = left
                todo.append(after)
    return before


def _unassigned(block: Any, known: set[str]) -> Iterator[str]:
    known = set(known)
    for statement in block.body:
        yield from (name for name in _read(statement) if name not in known)
        if isinstance(statement, ir.Assign):
            known.add(statement.target.name)


def _read(statement: Any) -> Iterator[str]:
    """Names of the rule's own that a statement reads; those with a $ are numba's, and have a value."""
    if isinstance(statement, ir.Del):
        return
    whole = statement.value if isinstance(statement, ir.Assign) else statement
    found = [whole] if isinstance(whole, ir.Var) else whole.list_vars() if hasattr(whole, "list_vars") else []
    yield from dict.fromkeys(v.name for v in found if not v.name.startswith("$"))


def _accompanied(block: Any, doubtful: set[str], known: set[str], is_first: bool) -> Iterator[Any]:
    """The statements of a block, with those that the companions need."""
    scope = block.scope

    def named(name: str, loc: Any) -> Any:
        return scope.get_or_define(name, loc)

    def give(name: str, value: int, loc: Any) -> Any:
        return ir.Assign(ir.Const(value, loc), named(name, loc), loc)

    yield from (give(_COMPANION + name, 0, block.loc) for name in sorted(doubtful) if is_first)
    for statement in block.body:
        loc = statement.loc
        for name in _read(statement):
            if name in doubtful and name not in known:
                yield give(f"$uc_one.{name}", 1, loc)
                sides = named(f"$uc_one.{name}", loc), named(_COMPANION + name, loc)
                yield ir.Assign(ir.Expr.binop(operator.floordiv, *sides, loc), named(f"$uc_asked.{name}", loc), loc)
        yield statement
        if isinstance(statement, ir.Assign):
            known.add(statement.target.name)
            if statement.target.name in doubtful:
                yield give(_COMPANION + statement.target.name, 1, loc)
