"""The dialect: what is inside is the same compiled, what is outside is named with its line and the spelling."""

from __future__ import annotations

import builtins
import inspect
import math
import warnings
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pytest

import tests.kit.rules as kit
import ucsearch as uc
from tests.kit.rules import State, assert_same, cases, defined, outside, rule_of, state, task_of
from ucsearch.check import TaskWarning
from ucsearch.errors import UncompilableWarning
from ucsearch.rules.dialect import findings
from ucsearch.tasks import registry

# -------------------------------------------------------------------------------------------- what stands where

OUTSIDE = {
    "s.x**2": ("**", "x * x"),
    "s.x ** 0.5": ("**", "math.sqrt"),
    "round(s.x)": ("round()", "math.floor(x + 0.5)"),
    "round(s.x, 2)": ("round()", "/ scale"),
    "int(s.x) * 1.0": ("int()", "math.floor"),
    "sum(s.q)": ("sum()", "for loop"),
    "any(x > 0.0 for x in s.q)": ("any()", "for loop"),
    "tuple(x for x in s.q)[0]": ("tuple()", "put tuples together"),
    "[x for x in s.q][0]": ("a list comprehension", "for loop"),
    "max(x for x in s.q)": ("a generator expression", "for loop"),
    "{0.0: 1.0}[a]": ("a dict", "tuple"),
    "len({a, y})": ("a set", "tuple"),
    "np.exp(a)": ("the module numpy", "math"),
    "float(np.clip(a, 0.0, 1.0))": ("the module numpy", "math"),
    "math.hypot(a, y)": ("math.hypot()", "math.sqrt(x * x + y * y)"),
    "math.gamma(a)": ("math.gamma()", "tabulate"),
    "math.fmod(a, 2.0)": ("math.fmod()", "%"),
    "math.pow(a, 2.0)": ("math.pow()", "x * x"),
    "s._replace(x=a).x": ("._replace", "State(...)"),
    "s.total": ("State.total is no field", "function"),
    "(lambda x: x + x)(a)": ("a call of something that has no name", "names"),
    "max(0, a)": ("max of a whole number and a float", "0.0"),
    "-max(0, s.x)": ("max of a whole number and a float", "0.0"),
    "0 if a > 1.0 else a": ("a whole number on one path and a float on another", "0.0"),
    "(a > 0.0) + 1.0": ("+ of a truth value", "1.0 if x else 0.0"),
    "float((a > 0.5) + (y > 1.5))": ("+ of a truth value", "1.0 if x else 0.0"),
    "float(a > 0.0)": ("float of a truth value", "1.0 if x else 0.0"),
    "1.0 if p.n and a > 0.0 else 2.0": ("a whole number on one path and a truth value", "1.0 if x else 0.0"),
    "-(a > 0.0)": ("a sign before a truth value", "1.0 if x else 0.0"),
    "a > 0.0": ("returns a truth value", "1.0 if x else 0.0"),
    "1.0 if ~(a > 0.0) else 0.0": ("~", "not"),
    "1.0 if a in (1.0, 2.0) else 0.0": ("in", "x == a or x == b"),
    "1.0 if a is None else 0.0": ("is", "=="),
    "1.0 if s.q == (1.0, 2.0, 3.0) else 0.0": ("a comparison of a tuple of 3", "one by one"),
    "1.0 if s.q else 0.0": ("a tuple of 3 as a condition", "compare"),
    "s.q[a]": ("a float as an index", "math.floor"),
    "s.q[3]": ("index 3 of a tuple of 3", "within"),
    "s.q[math.floor(a):][0]": ("a slice with a variable edge", "[1:]"),
    "(a, 1)[math.floor(y)]": ("a variable index", "constant"),
    "1 << math.floor(a)": ("<<", "multiply"),
    "math.floor(a) & 1": ("&", "and"),
    "math.floor(s.x) * math.floor(y)": ("beyond 64 bits", "math.floor(n * x)"),
    "1.0 if math.floor(a) + 2 < y else 0.0": ("beyond 2**53", "float(n)"),
    "1.0 if a < 9007199254740993 else 0.0": ("beyond 2**53", "float"),
    "f'{a}' and 1.0": ("a text", "numbers"),
    "1.0 if str(a) == '1.5' else 0.0": ("str()", "math"),
    "a if (b := y) > 0.0 else b": (":=", "line of its own"),
    "print(a)": ("print()", "outside"),
    "State(*(a, s.q)).x": ("* before an argument", "name"),
    "State(a).x": ("1 of 2 arguments", "defaults"),
    "abs(True)": ("abs of a truth value", "1.0 if x else 0.0"),
    "math.sqrt(2)": ("math.sqrt of a whole number", "0.0"),
    "min(a)": ("min of", "numbers"),
    "max(a, y, key=abs)": ("max with a keyword", "place"),
    "1j * a": ("a complex", "number"),
    "unheard_of(a)": ("unheard_of has no value", "define"),
    "if a > 0.0:\n    b = 1.0\nreturn b": ("b may have no value yet", "before"),
    "for x in s.q:\n    last = x\nreturn last": ("last may have no value yet", "before"),
    "for i in range(p.n):\n    a += 1.0\nreturn a - i": ("i may have no value yet", "before"),
    "if a > 0.0:\n    n = 2\nelse:\n    n = 0.5\nreturn n * a": ("n is", "0.0"),
    "n = 0\nfor x in s.q:\n    n = n + x\nreturn n": ("n is", "0.0"),
    "n = 1\nfor i in range(70):\n    n = n * 3\nreturn n": ("64 bits", "float"),
    "n = 0\nfor x in s.q:\n    n += math.floor(x)\nreturn n": ("64 bits", "floats"),
    "try:\n    return 1.0 / a\nexcept ZeroDivisionError:\n    return 0.0": ("try", "test the condition"),
    "raise ValueError(a)": ("raise", "feasible"),
    "assert a > 0.0\nreturn a": ("assert", "feasible"),
    "def f(x):\n    return x\nreturn f(a)": ("a function within a function", "module"),
    "f = lambda x: x\nreturn f(a)": ("a lambda within a function", "module"),
    "for i, x in enumerate(s.q):\n    a += i * x\nreturn a": ("enumerate()", "range"),
    "FLOATS[0] = a\nreturn a": ("a change in place", "tuple"),
    "global RATE\nRATE = a\nreturn a": ("global", "parameters"),
    "import os\nreturn a": ("import", "module"),
    "match a:\n    case 1.0:\n        return 0.0\nreturn a": ("match", "elif"),
    "with s:\n    return a": ("with", "outside"),
    "if a > 0.0:\n    return a": ("a path to its end without a value", "every path"),
    "a + 1.0\nreturn a": ("a line without effect", "leave"),
    "while True:\n    a = a + 1.0": ("it never ends", "value"),
    "b, c = s.q\nreturn b": ("2 names for a tuple of 3", "items"),
    "b = max\nreturn b(a, y)": ("b becomes max", "own name"),
}


@pytest.mark.parametrize("body", OUTSIDE)
def test_what_is_outside_is_named_with_line_and_spelling(body: str) -> None:
    what, instead = OUTSIDE[body]
    rule = rule_of(body)
    (finding,) = outside(rule)
    assert what in finding.what, str(finding)
    assert instead in finding.instead, str(finding)
    assert (finding.role, finding.file) == ("reward", rule.__code__.co_filename)
    assert 1 <= finding.line <= 1 + len(body.split("\n"))


INSIDE = [
    "a + 2 * s.x - y / 3 + 1",
    "s.x // y if y != 0.0 else s.x % 0.3",
    "s.x % y if abs(y) > 1e-9 else 0.0",
    "s.x // 2 + y % 7",
    "(p.n + 3) % 2 + (p.n * 5) // 2 - p.places[0]",
    "math.floor(s.x) + 1",
    "math.ceil(y / 0.7) * 0.7",
    "float(math.floor(s.x / 0.1))",
    "min(s.x, y, a) - max(s.q) + min(p.limits)",
    "max(p.n, 1, p.places[1]) * s.x",
    "abs(p.n - 5) + abs(s.x)",
    "1.0 if 0.0 < s.x < y <= 8.0 else -1.0",
    "s.x or y",
    "s.x and y",
    "1.0 if not s.x else 0.0",
    "1.0 if (a > 0.0) == (y > 0.0) else 0.0",
    "1.0 if bool(s.x) == bool(y) else 0.0",
    "1.0 if p.n < s.x else p.n / 4",
    "1.0 if p.n != 0 and s.x > 0.0 else 2.0",
    "s.q[-1] + s.q[p.n - 2] - s.q[p.places[0]]",
    "s.q[p.n - 4]",
    "s.q[-p.n] * s.q[len(s.q) - 1]",
    "(s.q[1:] + (a,))[1] + (s.q[:-1] + s.q[::2])[FIVE - 4]",
    "State(a, s.q[1:] + (y,)).q[2] + State(q=s.q, x=y).x",
    "s[0] + s[1][0]",
    "FLOATS[p.n] + GRID[1, p.n - 1] + GRID[0][1] + WHOLES[p.n - 1] * a",
    "FLOATS[-p.n] + GRID.shape[0] * y + FLOATS.shape[0]",
    "FLOATS[math.floor(s.x)] + len(FLOATS) * len(GRID)",
    "WHOLES[2] // 3 + WHOLES[0] % WHOLES[1]",
    "PAIRS[1][0] * RATE + math.pi + math.e - math.tau",
    "math.sqrt(abs(s.x)) + math.exp(-abs(y)) + math.log(abs(s.x) + 1.0)",
    "math.sqrt(s.x) if s.x > 0.0 else math.log(s.x)",
    "max(0.0, math.log(s.x))",
    "max(0.0, math.sqrt(y))",
    "min(1e6, math.exp(s.x))",
    "min(10.0, 1.0 / s.x)",
    "math.sin(s.x) + math.cos(y) + math.tan(a) + math.tanh(y) + math.atan(s.x) + math.atan2(s.x, y)",
    "math.log2(abs(s.x) + 1.0) + math.log10(abs(y) + 1.0) + math.expm1(-abs(s.x)) + math.log1p(abs(y))",
    "math.copysign(s.x, -y)",
    "-s.x * 0.0 + 0 * -y",
    "total = 0.0\nfor x in s.q:\n    total += x * a\nreturn total",
    "total = 0.0\nfor i in range(len(s.q) - 1, -1, -1):\n    total = total * 0.5 + s.q[i]\nreturn total",
    "total = 0.0\nfor i in range(1, 9, p.n):\n    total += i * y\nreturn total",
    "n = 0\nfor x in s.q:\n    if x > a:\n        n += 1\nreturn n * 2.0 + n",
    "n = 0\nwhile n < p.n:\n    n = n + 1\n    if n == 2:\n        continue\n    if n > 5:\n        break\nreturn n",
    "b = s.q[0]\nfor x in s.q[1:]:\n    if x > a:\n        b = x\n        break\nelse:\n    b = y\nreturn b",
    "low, high = 0, 4\nwhile high - low > 1:\n    middle = (low + high) // 2\n"
    "    if s.x < FLOATS[middle]:\n        high = middle\n    else:\n        low = middle\nreturn low + 0.5",
    "for b, c in PAIRS:\n    a += b * c\nreturn a",
    "b: float = a\nb -= y\npass\nreturn b",
    "b = c = s.x\nb, c = c, y\nreturn b - c",
    "t = (a, p.n, s.q)\nreturn t[0] + t[1] + t[2][1]",
    '"""What it is worth."""\nreturn a',
    "if a > 0.0:\n    b = 1.0\nelif a < 0.0:\n    b = 2.0\nelse:\n    return 3.0\nreturn b * y",
    "while True:\n    a = a + 1.0\n    if a > 5.0:\n        return a",
    "x = 1\nx = x * 0.5\nreturn x + a",
    "if a > 0.0:\n    t = (a, y)\nelse:\n    t = (y, a)\nreturn t[0] - t[1]",
]


@pytest.mark.compiled
@pytest.mark.parametrize("body", INSIDE)
def test_what_is_inside_is_the_same_compiled(body: str) -> None:
    rule = rule_of(body)
    assert outside(rule) == ()
    assert assert_same(rule, cases()) > 0


# --------------------------------------------------- refused, or the same: rules that kernels took otherwise

ADVERSARIES = [
    # whole numbers beyond 64 bits, and where they meet floats
    "float(int(s.x) * int(y))", "float(int(s.x) + int(y))", "float(round(s.x) % 7)", "float(-int(s.x))",
    "float(math.floor(s.x) * math.floor(y))", "float(math.floor(s.x) + math.floor(y))",
    "float(math.floor(s.x) - math.floor(y))", "float(-math.floor(s.x))", "float(math.floor(s.x) // math.floor(y))",
    "float(math.floor(s.x) % math.floor(y))", "1.0 if math.floor(s.x) + 1 > y else 2.0",
    "(math.floor(s.x) + 1) / (math.floor(y) + 3)", "float(math.floor(s.x) ** 3)",
    "float(abs(math.floor(s.x)) >> math.floor(y))", "float(10 ** -math.floor(min(abs(s.x), 3.0)))",
    "float(max(s.x, math.floor(y) + 1))", "n = 1\nfor _ in range(70):\n    n *= 3\nreturn n - s.x",
    "n = 1\nfor i in range(70):\n    n += n\nreturn n - s.x",
    "n = 1\nfor i in range(99):\n    n += i * i\nreturn n - s.x",
    "n = p.n\nm = 1\nfor i in range(200):\n    m = n\n    n = n + m\nreturn n - s.x",
    "n = math.floor(s.x) + 1\nif y == 3.0:\n    n = 0.5\nreturn float(n - math.floor(s.x))",
    "1.0 if 9007199254740992.0 + a - a < 9007199254740993 else -y", "float(1152921504606846976 * p.n % 11)",
    "float(WHOLES[0] * WHOLES[1] * WHOLES[2])", "p.n * p.n * p.n * a", "p.n * p.n * a",
    # what raises in Python
    "min(5.0, s.x**y) if abs(s.x) < 1e9 else 0.0", "1.0 if s.x % y > 0.5 else 0.0", "1.0 if s.x // y > 0.5 else 0.0",
    "max(0.0, math.log(s.x))", "max(0.0, math.sqrt(s.x))", "min(1e6, math.exp(s.x))",
    "max(0.0, math.sin(s.x * 1e200 * 1e200)) + max(0.0, math.log(abs(s.x) * -1e200 * 1e200))",
    "1e-3 * min(abs(s.x), 8.0) ** math.floor(min(abs(y), 40.0))", "max(1.0, s.q[math.floor(s.x)])",
    "1.0 / (1.0 + math.exp(-s.x))", "max(3.0, FLOATS[math.floor(y)])", "max(3.0, GRID[1, math.floor(y)])",
    # numbers that are others in a kernel
    "round(s.x, 2)", "math.ldexp(s.x, math.floor(y))", "float(np.floor_divide(s.x, 0.1))", "float(hash(s.x) % 7)",
    "float(np.float32(s.x) * 0.1)", "float(np.uint8(200) + np.uint8(100))", "float(np.power(3, 41))",
    "float(np.median(np.array([s.x, 1.0])))", "float(sum([s.x, y, a]))", "-max(0, s.x)", "-(0 if s.x < 0.0 else s.x)",
    "math.atan2(max(0, s.x) * -1, -1.0)", "1.0 if s.x is s.x else 2.0", "1.0 if s.q == (y, s.x, 2.0) else 0.0",
    "1.0 if s.x in s.q else 0.0", "float(s.q.count(s.x))", "float(s.q.index(2.0))", "float((s.x > 0.0) + (y > 0.0))",
    "float(FLOATS.sum())", "float(len(str(s.x)))", "1.0 if type(s.x) is float else 2.0", "s.x // 0.1", "1 / 0.1 // s.x",
    "s.x % -0.3", "-s.x % 0.3", "-0.0 * s.x", "min(0.0, -0.0 * a)", "max(-0.0 * a, 0.0)", "min(s.x * math.nan, y)",
    "max(y, s.x * math.nan)", "max(math.inf * s.x, y)", "1.0 if s.x * math.nan != s.x else 2.0",
    # names without a value
    "if a < 1.0 or s.x > 1.0:\n    worth = 1.0 - 2.0 * a\nreturn worth",
    "for i in range(p.n - 3):\n    last = i * 0.5\nreturn last + a",
    "for i in range(p.n - 3):\n    a += 1.0\nreturn a - i",
    "for z in (a, 2.0 * a):\n    if z > s.x:\n        best = z\n        break\nreturn best",
    "if s.x > 0.0:\n    pair = (s.x, a)\nreturn pair[0] - pair[1]",
    "if s.x > 1.0:\n    n = 2\nelif s.x < 0.0:\n    n = 0.5\nreturn n * a",
    "if s.x > 0.0:\n    worth = s.x\nif s.x > 0.0:\n    return worth - a\nreturn a",
    "i = 7\nfor i in range(p.n - 3):\n    a += 1.0\nreturn a - i",
    "for i in range(p.n):\n    i = i * 2\n    a += i\nreturn a",
    # control
    "try:\n    found = 1.0 / (a - 2.0)\nexcept Exception:\n    found = 2.0\nreturn found - y",
    "n = 0\nwhile n < 3 and s.x > n:\n    n += 1\nelse:\n    n = n + 10\nreturn n - a",
    "total = 0.0\nfor i in range(10):\n    if i == 3:\n        continue\n    if i > p.n + 3:\n        break\n"
    "    total += i / 3\nreturn total + a",
    # NumPy and containers, in which a kernel has other numbers, another order or no exception
    "float(np.left_shift(math.floor(s.x), 70))", "float(np.right_shift(math.floor(s.x), 70))",
    "float(np.power(math.floor(s.x), 41))", "float(np.argsort(np.array([s.x, 1.0]))[0])",
    "float(np.array([s.x, 1.0]).argsort()[0])", "float(np.array([s.x, 1.0]).flat[1])",
    "float(np.linalg.norm(np.array([s.x, 1.0])))", "float(np.quantile(np.array([s.x, 1.0]), 0.3))",
    "float(np.histogram(np.array([s.x, 1.0]), 3)[0][0])", "float((np.arange(3) ** 2)[1] * s.x)",
    "float((np.array([s.x]) // 0.1)[0])", "float(len({s.x, 1.0}))", "{1.0: s.x}.get(a, y)",
    "~(s.x > 1.0) + 0.5", "1.0 if [s.x] == [1.0] else 2.0", "[s.x, 1.0].index(1.0) + 0.5", "sorted([s.x, 1.0])[0]",
    "1.0 if s.x * 1e308 * 10 - s.x * 1e308 * 10 in (1.0, s.x) else 2.0",
    "1.0 if (s.x, s.x * 1e308 * 10 - s.x * 1e308 * 10) < (s.x, 1.0) else 2.0",
    "1.0 if (math.floor(s.x) + 4503599627370496 * 2, s.x) == (9007199254740992.0, s.x) else 2.0",
    "1.0 if s.x in (1, 2, 3) else 2.0", "1.0 if (s.x, 1) == (2.0, 1) else 2.0", "1.0 if s.x is not None else 2.0",
    "1.0 if (s.x > 1.0) is True else 2.0",
    "if s.x > 0.0:\n    table = np.zeros(2)\ntable[1] = a\nreturn float(table[1])",
    *(f"float(np.{name}(s.x))" for name in (
        "abs", "fabs", "floor", "ceil", "trunc", "rint", "round", "sqrt", "square", "negative", "sign", "isfinite",
        "isnan", "isinf", "signbit", "deg2rad", "rad2deg", "reciprocal", "logical_not",
    )),
    *(f"float(np.{name}(s.x, y))" for name in (
        "add", "subtract", "multiply", "divide", "minimum", "maximum", "fmin", "fmax", "fmod", "copysign", "nextafter",
        "greater", "less_equal", "equal", "not_equal", "logical_and", "logical_xor",
    )),
    *(f"float(np.{name}(np.array([s.x, y, a]))[0])" for name in ("sort", "cumsum", "cumprod", "diff", "flip", "copy")),
    *(f"float(np.{name}(np.array([s.x, y, a])))" for name in ("prod", "min", "max", "argmin", "argmax", "any", "all")),
    "float(np.where(s.x > y, s.x, y))", "float(np.clip(s.x, -1.0, 2.0))", "float(np.dot(np.array([s.x, y]), GRID[0]))",
    "float(np.interp(s.x, np.array([0.0, 1.0]), np.array([y, a])))", "float(np.array([s.x, y])[np.array([1, 0])][0])",
]  # fmt: skip


@pytest.mark.compiled
def test_every_rule_that_kernels_took_otherwise_is_refused_or_the_same() -> None:
    refused = []
    for body in ADVERSARIES:
        rule = rule_of(body)
        if outside(rule):
            refused.append(body)
        else:
            assert_same(rule, cases(), body)
    assert len(ADVERSARIES) - 30 > len(refused) > 30


class Level(NamedTuple):
    x: float


class Clamped(Level):
    __slots__ = ()

    def __new__(cls, x: float) -> Clamped:
        return super().__new__(cls, max(x, 0.0))


class Doubled(Level):
    __slots__ = ()

    @property
    def x(self) -> float:  # type: ignore[override]
        return 2.0 * self[0]


class Checked(Level):
    def __init__(self, x: float) -> None:
        if x < 0.0:
            raise ValueError("below nothing")


class Equal(NamedTuple):
    x: float

    def __eq__(self, other: object) -> bool:
        return True


class Indexed(NamedTuple):
    x: float

    def __getitem__(self, at: Any) -> Any:
        return 7.0


class Meta(type):
    def __call__(cls, *given: Any) -> Any:
        return super().__call__(*[2.0 * x for x in given])


class Made(Level, metaclass=Meta):
    pass


class Price(NamedTuple):
    per: float


class Dear(Price):
    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        return 9.0 if name == "per" else super().__getattribute__(name)


class Harmless(NamedTuple):
    """Words, methods and names that tuples have too."""

    half: float
    rest: float = 0.0

    def total(self) -> float:
        return self.half + self.rest

    def __repr__(self) -> str:
        return "harmless"


def worth(s: Any, a: float, y: float, p: Any) -> float:
    return -abs(s[0] + a - y)


def by_price(s: Any, a: float, y: float, p: Any) -> float:
    return -abs(s.x + a - y) * p.per


CLASSES = {
    "Clamped has a __new__": (Clamped(1.0), worth, None),
    "Doubled has a x": (Doubled(1.0), worth, None),
    "Checked has a __init__": (Checked(9.0), worth, None),
    "Equal has a __eq__": (Equal(1.0), worth, None),
    "Indexed has a __getitem__": (Indexed(1.0), worth, None),
    "Made is made by Meta": (Made(1.0), worth, None),
    "Dear has a __getattribute__": (Level(1.0), by_price, Dear(1.0)),
}


@pytest.mark.parametrize("why", CLASSES)
def test_a_class_that_makes_something_else_of_its_fields_is_outside(why: str) -> None:
    start, reward, params = CLASSES[why]
    task = task_of(reward, type(start), params)
    found = findings(task, task.layout(start), ("reward",))
    assert [why in finding.what for finding in found] == [True]


def test_a_class_with_methods_that_kernels_need_not_ask_is_inside() -> None:
    task = task_of(worth, Harmless, None)
    assert findings(task, task.layout(Harmless(1.0, 2.0)), ("reward",)) == ()


class Dozens(float):
    def __mul__(self, other: float) -> float:
        return 12.0 * other


class Saturated(tuple[float, ...]):
    def __getitem__(self, at: Any) -> Any:
        return super().__getitem__(min(at, 1))


class Half(IntEnum):
    HALF = 1


def free(x: float) -> float:
    return x


CAPTURED = {
    "a Dozens": Dozens(1.0),
    "a Saturated": Saturated((1.0, 2.0)),
    "a Half": Half.HALF,
    "a float32": np.float32(0.1),
    "a int8": np.int8(100),
    "a list": [1.0],
    "a dict": {1.0: 2.0},
    "an array of uint8": np.array([0, 1], np.uint8),
    "an array of float64 in 3": np.zeros((2, 2, 2)),
    "a MaskedArray": np.ma.array([1.0], mask=[True]),  # type: ignore[no-untyped-call]
    "beyond 2**53": 2**60,
    "a text": "x",
    "the module numpy": np,
    "a complex": 1j,
    "a partial": __import__("functools").partial(free, 1.0),
    "a method": Harmless(1.0).total,
}


@pytest.mark.parametrize("why", CAPTURED)
def test_what_kernels_would_take_for_something_else_is_not_captured(why: str) -> None:
    (finding,) = outside(rule_of("return HELD * a" if why != "a partial" else "return HELD()", HELD=CAPTURED[why]))
    assert why in finding.what or finding.what == why, str(finding)


@pytest.mark.compiled
@pytest.mark.parametrize("value", [0.5, 3, True, np.float64(0.25), np.int64(4)], ids=repr)
def test_plain_numbers_are_captured(value: Any) -> None:
    assert assert_same(rule_of("return s.x * 2.0 if HELD else a" if value is True else "return s.x * HELD", HELD=value),
                       cases()) > 0  # fmt: skip


HELPERS = """
def twice(x):
    return x + x

def pick(t, n):
    return t[n - 1] if n > 0 else -t[0]

def deeper(x, n):
    total = 0
    for i in range(n):
        total += i
    return twice(x) * total + pick((x, 1.0, 2.0), n)

def with_default(x, by=2.0):
    return x * by

def starred(*given):
    return given[0]

def again(x):
    return again(x - 1.0) if x > 0.0 else x

def cubed(x):
    y = x
    return y**3
"""


def helped(body: str) -> Callable[..., Any]:
    return defined(HELPERS + f"\ndef reward(s, a, y, p):\n    return {body}\n", "reward")


@pytest.mark.compiled
@pytest.mark.parametrize(
    "body", ["twice(a) + twice(p.n)", "deeper(s.x, p.n)", "pick(n=p.n, t=s.q)", "with_default(a, 3.0)"]
)
def test_helpers_are_of_the_dialect(body: str) -> None:
    rule = helped(body)
    assert outside(rule) == ()
    assert assert_same(rule, cases()) > 0


def test_what_is_outside_in_a_helper_is_named_there() -> None:
    said = {body: outside(helped(body))[0] for body in ("with_default(a)", "starred(a)", "again(a)", "cubed(a)")}
    assert "defaults do not compile" in said["with_default(a)"].instead
    assert "an argument with *" in said["starred(a)"].what
    assert "again calls itself" in said["again(a)"].what
    assert (said["cubed(a)"].role, said["cubed(a)"].line) == ("reward -> cubed", 25)


@pytest.mark.compiled
def test_lambdas_are_read_like_functions() -> None:
    first, second = (lambda s, a, y, p: a * 2.0), (lambda s, a, y, p: a**2)
    assert outside(first) == ()
    assert assert_same(first, cases()) > 0
    assert outside(second)[0].what == "**"


def test_a_rule_without_source_is_outside() -> None:
    space: dict[str, Any] = {}
    exec("def reward(s, a, y, p):\n    return a\n", space)
    assert "no readable source" in outside(space["reward"])[0].what


def test_a_file_that_has_changed_since_is_no_source() -> None:
    import linecache

    rule = rule_of("a + 1.0")
    file = rule.__code__.co_filename
    linecache.cache[file] = (1, None, ["def reward(s, a, y, p):\n", "    return a + 2.0\n"], file)
    assert "no longer matches" in outside(rule)[0].what


@pytest.mark.parametrize(("module", "name"), [(math, "floor"), (builtins, "max")])
def test_what_was_replaced_in_python_itself_is_outside(module: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = rule_of("float(math.floor(s.x + a)) - max(a, y)")
    assert outside(rule) == ()
    own = getattr(module, name)

    def other(*given: Any, **words: Any) -> Any:
        return own(*given, **words)

    monkeypatch.setattr(module, name, other)
    found = outside(rule)
    monkeypatch.undo()
    assert f"{name} was replaced" in found[0].what


WRAPS, DIVIDES = (
    rule_of("1.0 if a == 0.0 else float(int(s.x) * int(s.x))"),
    rule_of("1.0 if a == 0.0 else min(10.0, 1.0 / s.x)"),
)
ONE = uc.Trace.from_members([[1.0]])


@pytest.mark.filterwarnings("ignore::ucsearch.errors.UncompilableWarning")
def test_a_rival_whose_value_wraps_around_is_not_passed_over() -> None:
    """16e18 has more than 63 bits."""
    made = uc.decide(task_of(WRAPS), state(4e9), ONE, uc.Exact(depth=1), run=uc.Run(engine="compiled"))
    assert made.outcome is uc.Outcome.RELEASED
    assert made.action != 0.0


@pytest.mark.compiled
def test_a_rival_that_python_cannot_value_stops_the_window() -> None:
    """Dividing by zero is no 10."""
    made = uc.decide(task_of(DIVIDES), state(0.0), ONE, uc.Exact(depth=1), run=uc.Run(engine="compiled"))
    assert made.outcome is uc.Outcome.FALLBACK
    assert made.reason is uc.Reason.TASK_ERROR


# ------------------------------------------------------------------------------------------------- roles and kinds


def in_a_branch(s: Any, a: float) -> float:
    if a < 1.0 or s.x > 1.0:
        worth = 1.0 - 2.0 * a
    return worth


def by_a_search(s: Any, a: float) -> float:
    for y in (a, 2.0 * a, 3.0 * a):
        if y > s.x:
            best = y
            break
    return best


class Named(NamedTuple):
    kind: float
    x: float


def test_a_rival_without_a_value_is_not_beaten() -> None:
    """Python raises where a machine would go on with a zero."""
    task = uc.Task(
        name="names", state=Named, actions=[0.0, 1.0], feasible=lambda s, a, p: True, step=lambda s, a, y, p: s,
        reward=lambda s, a, y, p: in_a_branch(s, a) if s.kind == 0.0 else by_a_search(s, a), fallback=lambda s, p: 0.0,
    )  # fmt: skip
    states = np.array([(k, x) for k in (0.0, 1.0) for x in (-2.0, 0.0, 0.5, 1.0, 3.0)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncompilableWarning)
        panels = [
            uc.decide_panel(task, states, np.ones((len(states), 1, 1)), uc.Exact(depth=1), run=uc.Run(engine=engine))
            for engine in ("compiled", "python")
        ]
    fast, plain = ([(d.outcome, d.action, d.reason) for d in panel] for panel in panels)
    assert fast == plain
    assert (uc.Outcome.FALLBACK, 0.0, uc.Reason.TASK_ERROR) in fast
    assert any(outcome is uc.Outcome.RELEASED for outcome, _, _ in fast)


def test_every_rule_that_kernels_ask_is_read_and_no_other() -> None:
    def odd(s: Any, p: Any) -> float:
        return s.x**2  # type: ignore[no-any-return]

    def step(s: Any, a: float, y: float, p: Any) -> Any:
        return State(True, s.q)

    task = task_of(worth, step=step, terminal=odd, invariant=odd, allowed_end=odd)
    assert [f.role for f in findings(task, task.layout(state(1.0)))] == ["step", "terminal", "allowed_end"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("State(a > 0.0, s.q)", "a truth value"),
        ("State(a, s.q[1:])", "a tuple of 2"),
        ("State(s.q, s.q)", "a tuple of 3"),
        ("a", "returns a float"),
    ],
)
def test_a_step_returns_the_state(body: str, why: str) -> None:
    step = defined(f"def step(s, a, y, p):\n    return {body}\n", "step")
    task = task_of(worth, step=step)
    (finding,) = findings(task, task.layout(state(1.0)), ("step",))
    assert why in finding.what
    assert "State with floats" in finding.instead


def test_the_step_and_the_index_of_bound_are_whole_numbers() -> None:
    bound = defined("def bound(s, h, table, p):\n    return table[h] * p.limits[h % 3] + table.shape[0]\n", "bound")
    reward = defined("def reward(s, a, y, h, p):\n    return p.limits[min(h, len(p.limits) - 1)] * a\n", "reward")
    task = task_of(reward, bound=bound, prepare=lambda outcomes, p: outcomes)
    assert findings(task, task.layout(state(1.0)), ("bound", "reward")) == ()


# ------------------------------------------------------------------------------------------------------- the GPU

CPU_ONLY = ["math.exp(a)", "math.log(abs(a) + 1.0)", "math.sin(a)", "math.atan2(a, y)", "s.x // 2.0", "s.x % 2.0"]


@pytest.mark.parametrize("body", CPU_ONLY)
def test_some_lines_are_for_the_cpu_only(body: str) -> None:
    rule = rule_of(body)
    assert outside(rule) == ()
    assert "GPU" in outside(rule, device=True)[0].what or "CPU only" in outside(rule, device=True)[0].what


@pytest.mark.parametrize("body", ["math.sqrt(abs(a))", "math.floor(a) // 2 + p.n % 2", "max(a, y) * 2 - abs(s.x)"])
def test_the_rest_is_for_the_gpu_too(body: str) -> None:
    assert outside(rule_of(body), device=True) == ()


# ---------------------------------------------------------------------------------------------------- being told

TRACE = uc.Trace.from_members([[1.0, 2.0], [3.0, 0.5]])
BEAM = uc.UCBeam(depth=2, width=3, top_k=3)


def squared(s: Any, a: float, y: float, p: Any) -> float:
    return -((s.x + a - y) ** 2)  # type: ignore[no-any-return]


@pytest.mark.parametrize("engine", ["auto", "compiled"])
def test_it_is_told_once_also_with_auto(engine: Any) -> None:
    task = task_of(squared)
    line = inspect.getsourcelines(squared)[1] + 1
    with pytest.warns(
        UncompilableWarning, match=rf"reward \(.*test_dialect.py:{line}\): \*\*; multiply it out"
    ) as told:
        uc.decide(task, state(1.0), TRACE, BEAM, run=uc.Run(engine=engine))
    assert len([w for w in told if issubclass(w.category, UncompilableWarning)]) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = uc.decide(task, state(1.0), TRACE, BEAM, run=uc.Run(engine=engine))
    assert "runs in plain Python (same results, slower). Cause: reward" in made.explain()


def test_the_plain_engine_is_not_told_about_kernels() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        uc.decide(task_of(squared), state(1.0), TRACE, BEAM, run=uc.Run(engine="python"))


def test_check_task_tells() -> None:
    with pytest.warns(TaskWarning, match=r"runs in plain Python .* multiply it out"):
        uc.check_task(task_of(squared), state(1.0), outcomes=[1.0])


def test_a_changed_rule_is_read_with_its_new_task(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = rule_of("return FIVE * a")
    task = task_of(rule)
    layout = task.layout(state(1.0))
    assert findings(task, layout) == ()
    monkeypatch.setitem(rule.__globals__, "FIVE", "five")
    assert "a text" in findings(task_of(rule), layout)[0].what


# --------------------------------------------------------------------------------------- what the library ships


def shipped() -> list[tuple[str, uc.Task, Any]]:
    found = []
    for name, entry in registry.TASKS.items():
        for key, config in entry.kind.instances().items():
            needed = [p for p in inspect.signature(config.state).parameters.values() if p.default is p.empty]
            found.append((f"{name} {key}", config.task(), config.state(*[2 for _ in needed])))
    return found


@pytest.mark.parametrize("name", [name for name, _, _ in shipped()])
def test_the_library_s_tasks_are_inside_for_cpu_and_gpu(name: str) -> None:
    task, start = next((task, start) for own, task, start in shipped() if own == name)
    assert findings(task, task.layout(start)) == ()
    assert findings(task, task.layout(start), device=True) == ()


# ------------------------------------------------------------------------------------- parameters that are whole


def counted(s: Any, a: float, y: float, p: Any) -> float:
    total = 0.0
    for i in range(p.n):
        total += p.limits[p.places[i]] * a
    return total


@pytest.mark.compiled
def test_parameters_annotated_as_int_count_and_index_in_both_engines() -> None:
    task = task_of(counted)
    assert assert_same(counted, cases()) == len(cases())
    fast, plain = (uc.search(task, state(1.0), TRACE, BEAM, engine=engine) for engine in ("compiled", "python"))
    assert fast.engine == "compiled"
    assert fast.outputs.table.tobytes() == plain.outputs.table.tobytes()
    other = uc.search(task, state(1.0), TRACE, BEAM, params=kit.PARAMS._replace(n=1), engine="compiled")
    assert other.score != fast.score


@pytest.mark.parametrize("n", [2.5, 2**31, math.nan])
def test_they_hold_whole_numbers(n: Any) -> None:
    with pytest.raises(uc.InputError, match=r"params\.n"):
        task_of(counted, params=kit.PARAMS._replace(n=n))
    with pytest.raises(uc.InputError, match=r"params\.n"):
        uc.search(task_of(counted), state(1.0), TRACE, BEAM, params=kit.PARAMS._replace(n=n), engine="python")
