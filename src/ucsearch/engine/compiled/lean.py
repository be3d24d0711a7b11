"""Which functions of a kernel need no reference counting: those that hold arrays of others and make none.

Numba counts a reference whenever an array is named, and counting is atomic: in small functions it costs more than the
work itself. A function that takes arrays and gives numbers only borrows them from its caller, so it is lowered without.
What is known to be so is told by types after they are inferred; a function of which it is not known is left as it is.
"""

# mypy: disable-error-code="no-untyped-call, attr-defined"
# numba's insides have no types.

from __future__ import annotations

import math
from typing import Any

import numba.core.ir
import numba.core.types
import numpy as np

__all__ = ["borrowing", "borrows"]

ir: Any = numba.core.ir  # typed in part only
types: Any = numba.core.types
_PLAIN = (abs, bool, float, int, len, max, min, range, round, slice)
_MAKE_NOTHING = {*_PLAIN, np.isfinite, np.isinf, np.isnan, *(f for f in vars(math).values() if callable(f))}
_VIEWS = ("getitem", "static_getitem", "build_tuple", "cast", "phi")  # hand on what they were given


def borrowing(context: Any) -> Any:
    """This target context, for functions that count no references."""
    lean = context.subtarget(enable_nrt=False)
    vars(lean).pop("nrt", None)  # kept from before it was asked for less
    lean.cached_internal_func = {}  # what numba compiles for it within must not serve functions that count
    return lean


def borrows(state: Any) -> bool:
    """Whether a typed function makes nothing that is counted, and returns nothing of the kind but what it was handed by
    a function that made it: that is passed on as it is."""
    held = _Held(state.targetctx, state.typemap, state.func_ir.blocks)
    if state.func_ir.is_generator or not held.all_known():
        return False
    return all(held.is_lent(s) for block in state.func_ir.blocks.values() for s in block.body)


class _Held:
    def __init__(self, context: Any, typemap: dict[str, Any], blocks: dict[int, Any]) -> None:
        self.models, self.typemap, self.blocks = context.data_model_manager, typemap, blocks

    def type_counts(self, kind: Any) -> bool:
        return bool(self.models[kind].contains_nrt_meminfo())

    def counts(self, variable: Any) -> bool:
        return self.type_counts(self.typemap[variable.name])

    def all_known(self) -> bool:
        """Arrays and tuples of them are the only things here that are counted, but for words of errors."""
        return all(self._is_known(kind) for kind in self.typemap.values() if self.type_counts(kind))

    def _is_known(self, kind: Any) -> bool:
        if isinstance(kind, types.BaseTuple):
            return all(self._is_known(x) for x in kind if self.type_counts(x))
        return isinstance(kind, types.Array | types.StringLiteral)

    def is_lent(self, statement: Any) -> bool:
        if isinstance(statement, ir.Return):
            return not self.counts(statement.value) or self._is_passed_on(statement.value.name)
        if isinstance(statement, ir.SetItem | ir.StaticSetItem):
            return not self.counts(statement.value)  # an array put into an array may be copied first
        if not isinstance(statement, ir.Assign):
            return True
        value, made = statement.value, self.counts(statement.target)
        if not isinstance(value, ir.Expr):
            return True  # an argument, another name, a constant
        if value.op == "call":
            return self._makes_nothing(self.typemap[value.func.name], made) or (
                made and self._is_made(statement) and self._is_passed_on(statement.target.name)
            )
        if made:
            of_tuple = value.op == "getattr" and isinstance(self.typemap[value.value.name], types.BaseTuple)
            return of_tuple or value.op in _VIEWS
        if value.op in ("binop", "inplace_binop", "unary"):
            return not any(map(self.counts, value.list_vars()))
        return value.op not in ("getiter", "iternext") or not any(map(self.counts, value.list_vars()))

    def _makes_nothing(self, function: Any, made: bool) -> bool:
        if isinstance(function, types.NamedTupleClass | types.NumberClass | types.ExceptionClass):
            return True
        if isinstance(function, types.Dispatcher):
            return not made  # what it makes within, it counts itself
        if not isinstance(function, types.Function):
            return False
        of_ours = getattr(function.typing_key, "uc_makes_nothing", False)  # see split.py
        return not made and (of_ours or function.typing_key in _MAKE_NOTHING)

    def _is_made(self, statement: Any) -> bool:
        """By a function of ours or the user's, which has counted it for whoever called."""
        value = statement.value
        of_call = isinstance(value, ir.Expr) and value.op == "call"
        return of_call and isinstance(self.typemap[value.func.name], types.Dispatcher)

    def _is_passed_on(self, name: str) -> bool:
        """Whether a value that was made here goes one way: straight on to the caller."""
        made = [(b, s) for b in self.blocks.values() for s in b.find_insts(ir.Assign) if s.target.name == name]
        if len(made) != 1:
            return False
        block, statement = made[0]
        while not self._is_made(statement):  # names that it was given on its way
            value = statement.value
            source = value if isinstance(value, ir.Var) else value.value if _is_cast(value) else None
            found = [] if source is None else [s for s in block.find_insts(ir.Assign) if s.target.name == source.name]
            if len(found) != 1:
                return False
            statement = found[0]
        return self._ends_well(statement.target.name, block)

    def _ends_well(self, name: str, block: Any) -> bool:
        uses = [
            (b, s) for b in self.blocks.values() for s in b.body if not isinstance(s, ir.Del) and name in _read_by(s)
        ]
        if len(uses) != 1 or uses[0][0] is not block:
            return False
        statement = uses[0][1]
        if isinstance(statement, ir.Return):
            return True
        if not isinstance(statement, ir.Assign):
            return False
        value = statement.value
        return (isinstance(value, ir.Var) or _is_cast(value)) and self._ends_well(statement.target.name, block)


def _is_cast(value: Any) -> bool:
    return isinstance(value, ir.Expr) and value.op == "cast"


def _read_by(statement: Any) -> list[str]:
    """Names that a statement reads, as often as it does."""
    if not isinstance(statement, ir.Assign):
        return [v.name for v in statement.list_vars()]
    value = statement.value
    if isinstance(value, ir.Var):
        return [value.name]
    return [v.name for v in value.list_vars()] if isinstance(value, ir.Expr) else []
