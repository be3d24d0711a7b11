"""Numbers in a user's rule that a machine would take otherwise than Python does, without a word: there it raises.

Python's whole numbers have as many digits as they need, a machine's have 64 bits: `int(x) * int(y)` wraps around, and
`math.floor(1e30)` is any number. Python raises where it divides by zero or leaves a function's domain, a machine goes
on with infinity, which `min` or a comparison then hides. A window in which a guarded operation raises is searched by
the plain engine, which says what Python says. What is guarded goes by types, after they are inferred: rules that add,
subtract, multiply and compare floats have no guards at all.
"""

# mypy: disable-error-code="no-untyped-call, attr-defined, no-untyped-def, misc"
# numba's insides have no types.

from __future__ import annotations

import math
import operator
from typing import Any

import numba.core.ir
import numba.core.types
import numpy as np
from llvmlite import ir as llvm
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.errors import UnsupportedError
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering
from numba.core.untyped_passes import ReconstructSSA

from ucsearch.engine.compiled.assigned import AssignedFirst
from ucsearch.engine.compiled.known import refuse_function, refuse_kind, refuse_method, refuse_on_arrays

__all__ = ["GUARDED_ONLY", "GuardedLowering", "guarded"]

types: Any = numba.core.types
_I64 = llvm.IntType(64)
_F64 = llvm.DoubleType()
_LEAST = -(2**63)
_EXACT = 2**53  # up to here whole numbers and floats are compared, and divided, alike
_GROW = {operator.add: "sadd_with_overflow", operator.sub: "ssub_with_overflow", operator.mul: "smul_with_overflow"}
_DIVIDE = (operator.truediv, operator.floordiv, operator.mod)
_COMPARE = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
_SHIFT = (operator.lshift, operator.rshift)
_SAME_OBJECT = (operator.is_, operator.is_not)
_FINDING = ("index", "count", "remove")  # methods of lists and tuples
_BITS = 64
_MATH = frozenset(f for f in vars(math).values() if callable(f))
# What a kernel computes otherwise than Python in numbers that are no exception: such rules stay with Python.
_OTHERWISE = {
    math.ldexp: "math.ldexp, whose exponent has 32 bits in a kernel; write x * 2.0 ** n",
    np.floor_divide: "np.floor_divide, which is 10 for 1 / 0.1 in a kernel and 9 in NumPy; write x // y",
    np.left_shift: "np.left_shift, which loses bits in a kernel; multiply floats",
    np.right_shift: "np.right_shift, which takes 64 bits as none in a kernel; divide floats",
    np.median: "np.median, which takes what is no number otherwise in a kernel; sort a tuple's values",
    hash: "hash(), which is another one in a kernel; compare numbers",
}
_PLAIN = {
    getattr(operator, f"i{name}"): getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lshift", "rshift")
}


class _Guards(Lower):
    """Every operation on plain numbers, with what it takes for Python's answer looked at first or last."""

    def lower_assign(self, ty: Any, inst: Any) -> Any:
        refuse_kind(ty)
        if isinstance(inst.value, numba.core.ir.Var):
            self._becomes(inst.value, ty)
        return super().lower_assign(ty, inst)

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        if expr.op == "arrayexpr":
            refuse_on_arrays(expr.expr, self._kind)
        if expr.op in ("binop", "inplace_binop"):
            op, given = _PLAIN.get(expr.fn, expr.fn), [expr.lhs, expr.rhs]
            kinds = [self.typeof(v.name) for v in given]
            if any(isinstance(kind, types.Array) for kind in kinds):
                refuse_on_arrays((op, given), self._kind)
            _refuse_operator(op, kinds)
            self._before(op, given)
            if op in _COMPARE or op is operator.contains:
                self._no_nan_within(given)
            if op is not operator.pow:
                return super().lower_expr(resty, expr)
            result = self._raised(expr) if self._by_whole(expr) else super().lower_expr(resty, expr)
            self._after(given, resty, result)
            return result
        if expr.op == "unary" and expr.fn is operator.neg:
            self._no_least(expr.value)
        if (
            expr.op == "unary"
            and expr.fn is operator.invert
            and isinstance(self.typeof(expr.value.name), types.Boolean)
        ):
            raise UnsupportedError("~ of a truth value, which is -1 or -2 in Python; write not")
        if expr.op == "cast":
            self._becomes(expr.value, resty)
        if expr.op != "call":
            return super().lower_expr(resty, expr)
        function = self.typeof(expr.func.name)
        name = function.typing_key if isinstance(function, types.Function) else None
        given = [v for v in expr.args if isinstance(self.typeof(v.name), types.Number)]
        _refuse(name, [self.typeof(v.name) for v in expr.args])
        if name is not None:
            refuse_function(name)
        elif isinstance(function, types.BoundFunction):
            refuse_method(function.this, function.typing_key)
            if str(function.typing_key).strip("')").endswith(_FINDING):
                self._no_nan_within(expr.args)
        self._before_call(name, isinstance(function, types.NumberClass), given, resty)
        result = super().lower_expr(resty, expr)
        if name in _MATH or name is pow:
            self._after(given, resty, result)
        if name is np.sign and isinstance(resty, types.Float):
            return self.builder.fadd(result, _F64(0.0))  # of -0.0 it is 0.0 in NumPy
        return result

    def _kind(self, v: Any) -> Any:
        return self.typeof(v.name) if isinstance(v, numba.core.ir.Var) else types.unknown

    def _no_nan_within(self, given: list[Any]) -> None:
        """Python takes what is compared inside tuples and lists for equal where it is the same object, which NaN is to
        itself. And whole numbers there meet floats one by one."""
        kinds = [self.typeof(v.name) for v in given]
        if any(isinstance(kind, types.BaseTuple | types.List) for kind in kinds):
            for v, kind in zip(given, kinds, strict=True):
                self._no_nan(self.loadvar(v.name), kind)

    def _no_nan(self, value: Any, kind: Any) -> None:
        if isinstance(kind, types.BaseTuple):
            for i, part in enumerate(kind):
                self._no_nan(self.builder.extract_value(value, i), part)
        elif isinstance(kind, types.Float):
            made = self._float(value, kind)
            self._unless(self.builder.fcmp_ordered("ord", made, made))
        elif isinstance(kind, types.Integer):
            self._exact_value(self.context.cast(self.builder, value, kind, types.int64))
        elif isinstance(kind, types.List):
            raise UnsupportedError("a list that is compared, which a kernel does item by item; use a tuple")

    def _by_whole(self, expr: Any) -> bool:
        """Whether a float is raised to a whole number: Python takes that as a float, numba multiplies so many times and
        rounds each time."""
        base, by = (self.typeof(v.name) for v in (expr.lhs, expr.rhs))
        return isinstance(base, types.Float) and isinstance(by, types.Integer)

    def _raised(self, expr: Any) -> Any:
        power = self.context.get_function(math.pow, types.float64(types.float64, types.float64))
        return power(self.builder, [self._as_float(v) for v in (expr.lhs, expr.rhs)])

    # ---- what is looked at

    def _before(self, op: Any, given: list[Any]) -> None:
        kinds = [self.typeof(v.name) for v in given]
        if not all(isinstance(kind, types.Number | types.Boolean | types.IntEnumMember) for kind in kinds):
            return
        whole = [not isinstance(kind, types.Float) for kind in kinds]
        if op in _DIVIDE:
            self._divisor(given[1], whole[1])
            if op is operator.truediv and all(whole):
                self._exact(given)
            elif all(whole):
                self._no_least(given[0])
        elif all(whole):
            self._wholes(op, given)
        elif op in _COMPARE and any(whole):
            self._exact([v for v, is_whole in zip(given, whole, strict=True) if is_whole])

    def _wholes(self, op: Any, given: list[Any]) -> None:
        if op in _GROW:
            both = getattr(self.builder, _GROW[op])(*map(self._as_int, given))
            self._unless(self.builder.not_(self.builder.extract_value(both, 1)))
        elif op in _SHIFT:
            self._unless(self.builder.icmp_unsigned("<", self._as_int(given[1]), _I64(_BITS)))
        elif op is operator.pow:
            # As floats, to see its size: far enough from the edge for the last digits not to matter.
            by = self._as_int(given[1])
            self._unless(self.builder.icmp_signed(">=", by, _I64(0)))
            power = self.context.get_function(math.pow, types.float64(types.float64, types.float64))
            made = power(self.builder, [self._as_float(v) for v in given])
            self._unless(self._inside(made, 2.0**62))

    def _before_call(self, name: Any, is_number: bool, given: list[Any], resty: Any) -> None:
        floats = [v for v in given if isinstance(self.typeof(v.name), types.Float)]
        wholes = [v for v in given if isinstance(self.typeof(v.name), types.Integer)]
        if name is sum and isinstance(resty, types.Integer):
            raise UnsupportedError("sum() of whole numbers, which a kernel does not look at; add floats")
        if isinstance(resty, types.Integer) and (is_number or name in _MATH or name in (int, round)):
            for v in floats:
                self._unless(self._inside(self._as_float(v), 2.0**63))
        elif name is abs:
            for v in wholes:
                self._no_least(v)
        elif name in (min, max) and floats:
            self._exact(wholes)
        elif name is divmod:
            self._before(operator.floordiv, given)
        elif name is pow:
            self._before(operator.pow, given)

    def _becomes(self, v: Any, ty: Any) -> None:
        """A name that holds a whole number here and a float elsewhere is a float in a kernel."""
        if isinstance(ty, types.Float):
            self._exact([v])

    def _after(self, given: list[Any], resty: Any, result: Any) -> None:
        """A function that leaves its domain, or the numbers, raises in Python. Infinity of infinity is an answer, and
        NaN of NaN."""
        if not isinstance(resty, types.Float):
            return
        made = self._float(result, resty)
        usual, is_number = self._inside(made, math.inf), self.builder.fcmp_ordered("ord", made, made)
        for v in given:
            if isinstance(self.typeof(v.name), types.Float):
                value = self._as_float(v)
                endless = self.builder.and_(is_number, self.builder.not_(self._inside(value, math.inf)))
                unknown = self.builder.fcmp_unordered("uno", value, value)
                usual = self.builder.or_(usual, self.builder.or_(endless, unknown))
        self._unless(usual)

    # ---- tests

    def _divisor(self, v: Any, whole: bool) -> None:
        zero = self.builder.icmp_signed("!=", self._as_int(v), _I64(0)) if whole else None
        self._unless(self.builder.fcmp_unordered("!=", self._as_float(v), _F64(0.0)) if zero is None else zero)

    def _no_least(self, v: Any) -> None:
        """It has no counterpart above zero."""
        if isinstance(self.typeof(v.name), types.Integer):
            self._unless(self.builder.icmp_signed("!=", self._as_int(v), _I64(_LEAST)))

    def _exact(self, given: list[Any]) -> None:
        for v in given:
            if isinstance(self.typeof(v.name), types.Integer):
                self._exact_value(self._as_int(v))

    def _exact_value(self, value: Any) -> None:
        moved = self.builder.add(value, _I64(_EXACT))
        self._unless(self.builder.icmp_unsigned("<=", moved, _I64(2 * _EXACT)))

    def _inside(self, value: Any, limit: float) -> Any:
        """Whether a float is smaller than that, and a number."""
        size = self.builder.call(self.builder.module.declare_intrinsic("llvm.fabs", [_F64]), [value])
        return self.builder.fcmp_ordered("<", size, _F64(limit))

    def _unless(self, good: Any) -> None:
        """Raise where it is not so."""
        with self.builder.if_then(self.builder.not_(good), likely=False):
            told = ("a number that Python takes otherwise than a machine",)
            name = self.func_ir.func_id.func_name
            self.call_conv.return_user_exc(self.builder, ArithmeticError, told, loc=self.loc, func_name=name)

    # ---- values

    def _as_int(self, v: Any) -> Any:
        kind = self.typeof(v.name)
        return self.context.cast(self.builder, self.loadvar(v.name), kind, types.int64)

    def _as_float(self, v: Any) -> Any:
        return self._float(self.loadvar(v.name), self.typeof(v.name))

    def _float(self, value: Any, kind: Any) -> Any:
        return self.context.cast(self.builder, value, kind, types.float64)


def _refuse_operator(op: Any, kinds: list[Any]) -> None:
    """Two numbers that are equal are one in a kernel; in Python they are two objects, and a type is another object."""
    none, truths = types.NoneType | types.Omitted, types.Boolean
    if op not in _SAME_OBJECT or any(isinstance(kind, none) for kind in kinds):
        return
    if not all(isinstance(types.unliteral(kind), truths) for kind in kinds):
        raise UnsupportedError("'is' of something else than None, True and False; write ==")


def _refuse(name: Any, given: list[Any]) -> None:
    told = _OTHERWISE.get(name)
    if name is type:
        told = "type(x), which is another object in a kernel; compare numbers"
    if name is round and len(given) > 1:
        told = "round(x, n), which is 2.68 for 2.675 in a kernel and 2.67 in Python; write math.floor(x * scale + 0.5)"
    if name is np.power and any(isinstance(kind, types.Integer) for kind in given):
        told = "np.power of whole numbers, which wrap around in a kernel; write x ** y"
    if told is not None:
        raise UnsupportedError(told)


@register_pass(mutates_CFG=True, analysis_only=False)
class GuardedLowering(NativeLowering):
    _name = "ucsearch_guarded_lowering"

    @property
    def lowering_class(self) -> Any:
        return _Guards


def guarded(passes: Any) -> Any:
    """The passes of a function, not yet finalised, with guards."""
    before = passes.passes
    passes.passes = [(GuardedLowering if of is NativeLowering else of, why) for of, why in before]
    told = [of for of, _ in before]
    if passes.passes == before or ReconstructSSA not in told:
        raise UnsupportedError("this numba lowers functions in another way")
    passes.passes.insert(told.index(ReconstructSSA), (AssignedFirst, "every name has a value where it is read"))
    return passes


class _Only(CompilerBase):
    """As numba compiles, with guards."""

    def define_pipelines(self) -> list[Any]:
        passes = guarded(DefaultPassBuilder.define_nopython_pipeline(self.state))
        passes.finalize()
        return [passes]


# Ways to compile a kernel, where no faster ones will do.
GUARDED_ONLY: dict[str, Any] = {
    "inner": {}, "user": {"pipeline_class": _Only}, "entry": {}, "drive": lambda *given: None,
}  # fmt: skip
