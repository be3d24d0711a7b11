"""What a rule may use of NumPy, and of Python's own kinds, in a kernel: what is known to be the same there.

Numba has its own versions of NumPy's functions. Most are the same to the bit; some sum in another order, some say
nothing where NumPy raises, and `argsort` puts equal values in another order. Only those that were compared are compiled
(`tests/engine/test_known.py` compares them); a rule that uses another one stays with Python, and is told which.
"""

# mypy: disable-error-code="attr-defined"
# numba's insides have no types.

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numba.core.types
import numpy as np
from numba.core.errors import UnsupportedError

__all__ = ["METHODS", "SAME", "refuse_function", "refuse_kind", "refuse_method", "refuse_on_arrays"]

types: Any = numba.core.types
# Functions of NumPy, and methods of arrays, that a kernel sums up in another order or rounds otherwise.
LAST_DIGITS = frozenset({
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan",
    "arctan2", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "cbrt", "hypot", "power", "float_power",
    "logaddexp", "mod", "remainder", "sum", "mean", "std", "var", "linspace",
})  # fmt: skip
# To the bit, on numbers and arrays, of any size, with NaN, infinities and zeros of both signs.
SAME = frozenset({
    "abs", "absolute", "fabs", "floor", "ceil", "trunc", "rint", "round", "around", "sqrt", "square", "negative",
    "positive", "sign", "isfinite", "isnan", "isinf", "signbit", "deg2rad", "rad2deg", "radians", "degrees",
    "reciprocal", "logical_not", "add", "subtract", "multiply", "divide", "true_divide", "minimum", "maximum", "fmin",
    "fmax", "fmod", "copysign", "nextafter", "greater", "greater_equal", "less", "less_equal", "equal", "not_equal",
    "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor",
    "prod", "min", "max", "amin", "amax", "argmin", "argmax", "sort", "cumsum", "cumprod", "diff", "any", "all",
    "count_nonzero", "nonzero", "flatnonzero", "where", "flip", "roll", "repeat", "take", "clip", "interp",
    "searchsorted", "digitize", "concatenate", "append", "stack", "hstack", "vstack", "column_stack", "outer", "dot",
    "zeros", "ones", "full", "empty", "array", "asarray", "ascontiguousarray", "arange", "copy", "zeros_like",
    "ones_like", "full_like", "empty_like", "array_equal", "ravel", "reshape", "transpose",
})  # fmt: skip
METHODS = SAME | LAST_DIGITS | {"astype", "fill", "flatten", "item"}  # of arrays
_OF_NUMPY = {getattr(np, name) for name in SAME | LAST_DIGITS if hasattr(np, name)}
_KINDS = (types.Set, types.DictType, types.LiteralStrKeyDict, types.NumpyFlatType, types.NumpyNdIterType)
_PYTHONS = ("builtins", "_operator", "operator", "math")  # looked at by `guarded`
# Of arrays; `//` is np.floor_divide, which is 10 for 1 / 0.1 in a kernel.
_ON_ARRAYS = (
    operator.floordiv,
    operator.ifloordiv,
    operator.lshift,
    operator.rshift,
    operator.ilshift,
    operator.irshift,
)
_POWERS = (operator.pow, operator.ipow)


def refuse_function(function: Any) -> None:
    """Raise for a function that is neither Python's, nor numba's, nor known."""
    home = str(getattr(function, "__module__", None))
    if home in _PYTHONS or home.partition(".")[0] == "numba" or not callable(function):
        return
    try:
        known = function in _OF_NUMPY
    except TypeError:
        known = False
    if not known:
        raise _unknown(f"{home}.{getattr(function, '__name__', function)}")


def refuse_method(this: Any, key: Any) -> None:
    """Raise for a method of an array that is not known."""
    name = str(key[1] if isinstance(key, tuple) else key).rpartition(".")[2]
    if isinstance(this, types.Array) and name not in METHODS:
        raise _unknown(f"an array's {name}")


def refuse_kind(kind: Any) -> None:
    """Raise for what has another order, or no checks, in a kernel."""
    if isinstance(kind, _KINDS):
        name = type(kind).__name__
        raise UnsupportedError(f"{name}, whose items come in another order, or unchecked, in a kernel; use a tuple")


def refuse_on_arrays(expression: Any, typeof: Callable[[Any], Any]) -> bool:
    """Raise for an operator on arrays that NumPy takes otherwise, in an expression (operator, sides) in which sides may
    be expressions themselves; whether all of it is whole numbers."""
    if not isinstance(expression, tuple):
        kind = typeof(expression)
        return not isinstance(getattr(kind, "dtype", kind), types.Float)
    op, sides = expression
    found = [refuse_on_arrays(side, typeof) for side in sides]  # every side is looked at
    whole = all(found)
    if isinstance(op, np.ufunc):
        refuse_function(op)
    elif op in _ON_ARRAYS:
        raise _unknown(f"{op.__name__} of arrays")
    elif op in _POWERS and whole:
        raise _unknown("** of whole numbers in arrays")
    return whole and op is not operator.truediv


def _unknown(what: str) -> UnsupportedError:
    return UnsupportedError(f"{what}, which is not known to be the same in a kernel; write it with + - * / and math")
