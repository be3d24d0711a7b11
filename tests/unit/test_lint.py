"""Reading a task's functions: which lines do not compile, which compute something else in the two engines."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from ucsearch.lint import Finding, lint_function, lint_task


class S(NamedTuple):
    x: float
    q: tuple[float, ...]


def found(function: Callable[..., Any]) -> list[tuple[int, str, bool]]:
    """(line inside the function, what, compiles)."""
    start = inspect.getsourcelines(getattr(function, "py_func", function))[1]
    return [(f.line - start, f.what, f.compiles) for f in lint_function(function)]


def clean(s, a, y, p):
    """Loops, conditions, min, max, abs, math, tuples: all of this is fine."""
    total = 0.0
    for x in s.q:
        total += x
    for i in range(len(s.q)):
        total += s.q[i] * 2.0
    if 0.0 <= total + a <= 8.0 and abs(a) < 3.0:
        total = max(min(total, y), -1.0) + math.sqrt(abs(a)) + math.exp(-abs(y)) + math.floor(a)
    while total > 10.0:
        total -= 1.0
    z = y**a if a > 0.0 else round(y)
    return S(total + z, s.q[1:] + (a,))


def test_clean_functions_have_no_findings() -> None:
    assert found(clean) == []


def power(s, a):
    x = a
    return x**2


def negative_power(s, a):
    return a**-1.5


def variable_power(s, a):
    return s.x**a


def test_only_constant_exponents_differ() -> None:
    assert found(power) == [(2, "** with a constant exponent", True)]
    assert found(negative_power) == [(1, "** with a constant exponent", True)]
    assert found(variable_power) == []


def nested_then_flat(s, a):
    if a > 0:
        if s.x > 0:
            a = max(a, min(s.x, a**2))
        else:
            a = math.hypot(a, 2.0)
    return a + sum(s.q)


def test_findings_come_in_source_order() -> None:
    assert [line for line, _, _ in found(nested_then_flat)] == [3, 5, 6]


def array_sum(s, a, table):
    return table.sum()


def builtin_sum(s, a):
    return sum(s.q)


def numpy_exponential(s, a):
    return np.exp(a) + math.exp(a)


def test_numpy_sums_and_rounds_otherwise() -> None:
    """Nine numbers and more are summed in pairs, and exp is a vector's."""
    assert found(array_sum) == [(1, "sum of NumPy (other last digits)", True)]
    assert found(numpy_exponential) == [(1, "exp of NumPy (other last digits)", True)]
    assert [what for _, what, _ in found(builtin_sum)] == ["sum() (compensated on Python 3.12 and later)"]


def round_to_integer(s, a):
    return round(a)


def round_to_cents(s, a):
    return round(a, 2)


def test_rounding_to_digits_differs() -> None:
    assert found(round_to_integer) == []
    assert found(round_to_cents) == [(1, "round(x, n)", False)]


def any_of(s, a):
    return any(x > a for x in s.q)


def replaced(s, a):
    return s._replace(x=a)


def as_dict(s, a):
    return s._asdict()["x"]


def run_time_slice(s, a):
    k = int(a)
    return s.q[k:]


def named_except(s, a):
    try:
        return 1.0 / a
    except ZeroDivisionError:
        return 0.0


def constant_slices(s, a):
    return s.q[1:] + s.q[:-1]


def test_what_numba_refuses_is_named() -> None:
    assert found(any_of) == [(1, "a generator expression", False)]
    assert found(replaced) == [(1, "._replace", False)]
    assert found(as_dict) == [(1, "._asdict", False)]
    assert found(run_time_slice)[-1] == (2, "a tuple slice with a variable edge", False)
    assert found(named_except) == [(1, "try", False)]
    assert found(bare_except) == [(1, "try", False)]  # numba would, but a kernel's own errors are not Python's
    assert found(constant_slices) == []


def star_tuple(s, a):
    return S(s.x, (*s.q[1:], a))


def star_call(s, a):
    return S(*(a, s.q))


def dict_lookup(s, a):
    return {0.0: 1.0, 1.0: 2.0}[a]


def set_size(s, a):
    return len({a, s.x})


def bare_except(s, a):
    try:
        return 1.0 / a
    except Exception:
        return 0.0


def inner_lambda(s, a):
    double = lambda x: x + x  # noqa: E731
    return double(a)


@pytest.mark.parametrize("function", [star_tuple, star_call, dict_lookup, set_size, inner_lambda])
def test_what_numba_compiles_is_not_called_uncompilable(function: Callable[..., Any]) -> None:
    numba = pytest.importorskip("numba")
    numba.njit(function)(S(1.0, (2.0, 3.0)), 1.0)  # it does compile
    assert [f for f in lint_function(function) if not f.compiles] == []


def helper(x):
    return x**3


def calls_helper(s, a):
    return helper(a) + helper(s.x)


def test_helpers_are_read_once_and_named() -> None:
    (finding,) = lint_function(calls_helper, "reward")
    assert finding.function == "reward -> helper"
    assert finding.line == inspect.getsourcelines(helper)[1] + 1


def recursive(s, a):
    return recursive(s, a - 1.0) if a > 0.0 else a**2


def test_recursion_ends() -> None:
    assert [what for _, what, _ in found(recursive)] == ["** with a constant exponent"]


def test_functions_without_source_have_no_findings() -> None:
    space: dict[str, Any] = {}
    exec("def f(s, a):\n    return a ** 2\n", space)
    assert lint_function(space["f"]) == []
    assert lint_function(len) == []
    assert lint_function(math.sqrt) == []


def test_compiled_functions_are_read_through() -> None:
    numba = pytest.importorskip("numba")
    assert found(numba.njit(power))[0][1] == "** with a constant exponent"


def test_a_task_s_fallback_and_invariant_are_left_out() -> None:
    functions = {"feasible": clean, "fallback": any_of, "invariant": power, "reward": power}
    assert [f.function for f in lint_task(functions)] == ["reward"]


def test_a_finding_reads_as_a_sentence() -> None:
    finding = Finding("reward", "rules.py", 7, "hypot", "write math.sqrt(x * x + y * y)", True)
    assert str(finding) == "reward (rules.py:7): hypot; write math.sqrt(x * x + y * y)"
