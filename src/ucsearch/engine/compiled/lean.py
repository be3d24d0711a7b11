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
    """Whether a typed function makes nothing that is counted and returns nothing of the kind."""
    held = _Held(state.targetctx, state.typemap)
    if state.func_ir.is_generator or held.type_counts(state.return_type) or not held.all_known():
        return False
    statements = (s for block in state.func_ir.blocks.values() for s in block.body)
    return all(held.is_lent(s) for s in statements if isinstance(s, ir.Assign))


class _Held:
    def __init__(self, context: Any, typemap: dict[str, Any]) -> None:
        self.models, self.typemap = context.data_model_manager, typemap

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
        value, made = statement.value, self.counts(statement.target)
        if not isinstance(value, ir.Expr):
            return True  # an argument, another name, a constant
        if value.op == "call":
            return self._makes_nothing(self.typemap[value.func.name], made)
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
        lends = getattr(function.typing_key, "uc_lends", None)  # of ours, see split.py
        return bool(lends) or (not made and (lends is not None or function.typing_key in _MAKE_NOTHING))
