"""What rules may use of NumPy in a kernel is the same there, to the bit; the rest is not compiled."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numba import njit, types
from numba.core.errors import UnsupportedError
from numpy.typing import NDArray

from ucsearch.engine.compiled.guarded import GUARDED_ONLY
from ucsearch.engine.compiled.known import SAME

pytestmark = pytest.mark.compiled
Floats = NDArray[np.float64]

ODD = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 5e-324, 1e300, -1e300, math.inf, -math.inf, math.nan, 0.1, 7.0]
NUMBERS = [float(x) for x in (*ODD, *np.random.default_rng(1).normal(0.0, 4.0, 60))]
OF_ONE = [
    "abs", "absolute", "fabs", "floor", "ceil", "trunc", "rint", "round", "around", "sqrt", "square", "negative",
    "positive", "sign", "isfinite", "isnan", "isinf", "signbit", "deg2rad", "rad2deg", "radians", "degrees",
    "reciprocal", "logical_not",
]  # fmt: skip
OF_TWO = [
    "add", "subtract", "multiply", "divide", "true_divide", "minimum", "maximum", "fmin", "fmax", "fmod", "copysign",
    "nextafter", "greater", "greater_equal", "less", "less_equal", "equal", "not_equal", "logical_and", "logical_or",
    "logical_xor",
]  # fmt: skip
OF_WHOLE = ["bitwise_and", "bitwise_or", "bitwise_xor"]
OF_ARRAY = [
    "prod", "min", "max", "amin", "amax", "argmin", "argmax", "sort", "cumsum", "cumprod", "diff", "any", "all",
    "count_nonzero", "flatnonzero", "flip", "copy", "ravel", "transpose", "asarray", "ascontiguousarray",
    "zeros_like", "ones_like",
]  # fmt: skip
OF_ARRAYS = {
    "nonzero": "np.nonzero(x)[0]", "where": "np.where(x > y, x, y)", "roll": "np.roll(x, 2)",
    "repeat": "np.repeat(x, 2)", "take": "np.take(x, np.array([0, -1]))", "clip": "np.clip(x, -1.0, 2.0)",
    "interp": "np.interp(x, np.sort(y), x)", "searchsorted": "np.searchsorted(np.sort(x), y)",
    "digitize": "np.digitize(x, np.sort(y))", "concatenate": "np.concatenate((x, y))", "append": "np.append(x, y)",
    "stack": "np.stack((x, y))", "hstack": "np.hstack((x, y))", "vstack": "np.vstack((x, y))",
    "column_stack": "np.column_stack((x, y))", "outer": "np.outer(x, y)", "dot": "np.dot(x, y)",
    "zeros": "np.zeros(3) + x[0]", "ones": "np.ones(3) * x[0]", "full": "np.full(3, x[0])",
    "full_like": "np.full_like(x, y[0])", "array": "np.array([x[0], y[0], 1])", "arange": "np.arange(4) * x[0]",
    "array_equal": "np.array_equal(x, y)", "reshape": "np.reshape(x, (1, -1))", "of operators": "x * 2 - y / 3 + 1",
    "of signs": "np.where((x > 0) & ~(y <= 1), -x, y % 2.0)", "of a method": "x.copy().max() - y.min()",
    "of a mask": "x[x > 0]",
}  # fmt: skip
NO_VALUES = ("empty", "empty_like")  # they hold whatever was there


def made_of(text: str, names: str) -> Callable[..., Any]:
    space: dict[str, Any] = {"np": np, "math": math}
    exec(f"def rule({names}):\n    return {text}", space)
    found: Callable[..., Any] = space["rule"]
    return found


def compiled(rule: Callable[..., Any]) -> Callable[..., Any]:
    made: Callable[..., Any] = njit(error_model="numpy", boundscheck=True, **GUARDED_ONLY["user"])(rule)
    return made


def bits(value: Any) -> list[Any]:
    array = np.asarray(value)
    numbers = array.astype(np.float64).ravel()
    return [array.shape, *np.where(np.isnan(numbers), np.nan, numbers).view(np.int64).tolist()]


def agree(text: str, names: str, given: list[Any]) -> None:
    rule = made_of(text, names)
    kernel = compiled(rule)
    for values in given:
        with np.errstate(all="ignore"):
            own = rule(*values)
        assert bits(kernel(*values)) == bits(own), (text, values)


@pytest.mark.parametrize("name", OF_ONE)
def test_functions_of_a_number(name: str) -> None:
    agree(f"np.{name}(x)", "x", [(x,) for x in NUMBERS])


@pytest.mark.parametrize("name", OF_TWO)
def test_functions_of_two_numbers(name: str) -> None:
    pairs = [(x, y) for x in NUMBERS[::3] for y in NUMBERS[::2]]
    agree(f"np.{name}(x, y)", "x, y", pairs)


@pytest.mark.parametrize("name", OF_WHOLE)
def test_functions_of_whole_numbers(name: str) -> None:
    agree(f"np.{name}(int(x), int(y))", "x, y", [(float(x), float(y)) for x in range(-9, 9) for y in range(-9, 9)])


def arrays(least: int) -> list[Floats]:
    rng = np.random.default_rng(2)
    return [rng.choice(NUMBERS, size) for size in (0, 1, 2, 3, 8, 17, 130) if size >= least]


@pytest.mark.parametrize("name", OF_ARRAY)
def test_functions_of_an_array(name: str) -> None:
    agree(f"np.{name}(x)", "x", [(x,) for x in arrays(least=1)])


@pytest.mark.parametrize("name", OF_ARRAYS)
def test_functions_of_arrays(name: str) -> None:
    finite = [np.nan_to_num(x, posinf=9.0, neginf=-9.0) for x in arrays(least=1)]
    agree(OF_ARRAYS[name], "x, y", [(x, x[::-1].copy()) for x in finite])


def test_all_that_is_allowed_is_compared() -> None:
    compared = {*OF_ONE, *OF_TWO, *OF_WHOLE, *OF_ARRAY, *OF_ARRAYS, *NO_VALUES}
    assert {name for name in SAME if name not in compared} == set()


REFUSED = {
    "np.argsort(np.array([x, 1.0]))[0]": "argsort",
    "np.array([x, 1.0]).argsort()[0]": "argsort",
    "np.array([x, 1.0]).flat[1]": "NumpyFlatType",
    "np.linalg.norm(np.array([x, 1.0]))": "norm",
    "np.quantile(np.array([x, 1.0]), 0.3)": "quantile",
    "np.histogram(np.array([x, 1.0]), 3)[0][0]": "histogram",
    "np.random.random() * x": "random",
    "(np.arange(3) ** -1)[1] * x": "whole numbers in arrays",
    "(np.array([x]) // 0.1)[0]": "floordiv of arrays",
    "len({x, 1.0})": "Set",
    "{1.0: x}[1.0]": "DictType",
    "1.0 if type(x) is float else 2.0": "another object in a kernel",
    "1.0 if x is 2.0 * x else 2.0": "'is' of something else",
    "~(x > 1.0) + 0.5": "~ of a truth value",
    "1.0 if [x] == [1.0] else 2.0": "a list that is compared",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_known_stays_with_python(text: str) -> None:
    """Other numbers, another order of equal values, memory past an array's end, no exception: nothing told."""
    with pytest.raises(UnsupportedError, match=REFUSED[text]):
        njit(boundscheck=True, **GUARDED_ONLY["user"])(made_of(text, "x")).compile((types.float64,))


@pytest.mark.parametrize(
    "text",
    [
        "1.0 if x * 1e308 * 10 - x * 1e308 * 10 in (1.0, x) else 2.0",
        "1.0 if (x, x * 1e308 * 10 - x * 1e308 * 10) < (x, 1.0) else 2.0",
        "1.0 if (int(x) + 9007199254740992 // 2 * 2, x) == (9007199254740992.0, x) else 2.0",
    ],
)
def test_what_is_compared_inside_tuples_is_handed_over_where_it_may_differ(text: str) -> None:
    """NaN is in a tuple that holds it, and whole numbers of many digits are no floats."""
    with pytest.raises(ArithmeticError):
        compiled(made_of(text, "x"))(5.0)


@pytest.mark.parametrize(
    "text",
    [
        "1.0 if x in (1, 2, 3) else 2.0", "1.0 if (x, 1) == (2.0, 1) else 2.0", "1.0 if x is not None else 2.0",
        "1.0 if (x > 1.0) is True else 2.0", "[x, 1.0].index(1.0) + 0.5", "sorted([x, 1.0])[0]",
    ],
)  # fmt: skip
def test_ordinary_comparisons_are_compiled(text: str) -> None:
    rule = made_of(text, "x")
    kernel = compiled(rule)
    assert [kernel(float(x)) for x in range(-2, 5)] == [rule(float(x)) for x in range(-2, 5)]


def test_python_s_own_functions_are_not_asked_about() -> None:
    assert builtins.max.__module__ == "builtins"
    assert compiled(made_of("max(x, min(1.0, abs(x)))", "x"))(0.5) == 0.5
