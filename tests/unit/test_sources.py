"""Functions as text that stands alone: the text computes what the function computes, and digests see what matters."""

from __future__ import annotations

import collections
import importlib.util
import linecache
import math
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy
import numpy as np
import pytest

import ucsearch as uc
from ucsearch.engine import api as api  # registers the algorithms
from ucsearch.engine.simulate import Simulator
from ucsearch.rules.source import parsed
from ucsearch.sources import Bundle, Unsourced, captured, plain_function

RATE = 2.5
TABLE = np.array([[1.0, 2.0], [3.0, 4.0]])
SIZES = (1.0, (2.0, 3))
BIG = float("inf")
N = 9.0  # our own kernels have an N too
MEMBERS = 5.0
njit = 3.0


class Point(NamedTuple):
    x: float
    y: float


ORIGIN = Point(1.0, 2.0)


def standalone(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as its own text makes it."""
    bundle = Bundle()
    name = bundle.add(function, "function")
    space: dict[str, Any] = {"collections": collections, "numpy": numpy}
    exec(compile(bundle.text, "<standalone>", "exec"), space)
    made: Callable[..., Any] = space[name]
    return made


# -------------------------------------------------------------------- the text computes the same


def constants(a: float) -> float:
    """Annotations and docstrings do not matter."""
    return RATE * a + SIZES[1][1] + min(BIG, 1e9)


def arrays(a):
    return TABLE[1, 0] * a


def helper(a):
    return math.sqrt(a) * RATE


def with_helper(a):
    return helper(a) + helper(a + 1.0)


def named_tuple(a):
    return Point(a, ORIGIN.y).x + ORIGIN.x


def named_like_ours(a):
    return N * a + MEMBERS + njit


def library(a):
    return np.sqrt(a) + numpy.floor(a) + math.exp(a)


def mixed(a):
    return math.sqrt(a) + TABLE.max()


def recursive(n):
    return 1.0 if n <= 1.0 else n * recursive(n - 1.0)


def comprehension(a):
    return max([x * RATE for x in (a, 1.0)])


@pytest.mark.parametrize(
    "function",
    [constants, arrays, helper, with_helper, named_tuple, named_like_ours, library, mixed, recursive, comprehension],
)
def test_the_text_computes_what_the_function_computes(function: Callable[..., Any]) -> None:
    for a in (0.0, 1.0, 3.5):
        assert standalone(function)(a) == function(a)


def test_closures_keep_their_values() -> None:
    def make(rate: float, shift: tuple[float, ...]) -> Callable[[float], float]:
        def inner(a):
            return rate * a + shift[1]

        return inner

    function = make(3.0, (0.0, 7.0))
    assert standalone(function)(2.0) == 13.0


def test_two_helpers_of_one_name_are_kept_apart() -> None:
    def make(k: float) -> Callable[[float], float]:
        def price(a):
            return k * a

        return price

    one, two = make(1.0), make(10.0)

    def both(a):
        return one(a) + two(a)

    assert standalone(both)(2.0) == 22.0


def test_jitted_functions_are_read_through() -> None:
    numba = pytest.importorskip("numba")
    assert standalone(numba.njit(helper))(4.0) == helper(4.0)
    assert plain_function(numba.njit(helper)) is helper


def test_captured_leaves_builtins_out() -> None:
    assert captured(constants) == {"BIG": BIG, "RATE": RATE, "SIZES": SIZES}


# -------------------------------------------------------------------- kernels and user names


class One(NamedTuple):
    x: float


def one_feasible(s, a, p):
    return True


def one_step(s, a, y, p):
    return One(s.x + a)


def one_reward(s, a, y, p):
    return N * a + MEMBERS + njit


def one_fallback(s, p):
    return 0.0


def test_a_user_s_constants_cannot_be_mistaken_for_the_kernel_s() -> None:
    task = uc.Task(
        name="one", state=One, actions=[0.0, 1.0], feasible=one_feasible, step=one_step, reward=one_reward,
        fallback=one_fallback,
    )  # fmt: skip
    simulator = Simulator(task, task.layout(One(0.0)), engine="compiled")
    assert simulator.engine == "compiled"
    step = simulator.advance(np.array([[0.0]]), np.array([1]), np.array([[0.0]]))
    assert step.rewards.tolist() == [one_reward(One(0.0), 1.0, 0.0, None)]


# -------------------------------------------------------------------- what cannot be written out


def sourceless(text: str) -> Callable[..., Any]:
    space: dict[str, Any] = {"np": np}
    exec(text, space)
    made: Callable[..., Any] = space["f"]
    return made


@pytest.fixture(autouse=True)
def _forget_modules() -> Iterator[None]:
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        if name.startswith("sources_test_"):
            del sys.modules[name]


def load(folder: Path, name: str, text: str) -> Callable[..., Any]:
    """Function `f` of a module written to disk."""
    path = folder / f"sources_test_{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    made: Callable[..., Any] = module.f
    return made


def test_a_source_file_that_changed_since_is_noticed(tmp_path: Path) -> None:
    function = load(tmp_path, "stale", "def f(a):\n    return a + 1.0\n")
    (tmp_path / "sources_test_stale.py").write_text("def f(a):\n    return a + 2.0000\n")
    linecache.clearcache()
    with pytest.raises(Unsourced, match="f's source no longer matches the loaded code"):
        Bundle().add(function, "f")
    assert function(1.0) == 2.0


def defaulted(a, b=1.0):
    return a + b


def starred(*a):
    return a[0]


def undefined(a):
    return a + nowhere_to_be_found  # type: ignore[name-defined]  # noqa: F821


class Opaque:
    rate = 2.0


OPAQUE = Opaque()
LIST = [1.0, 2.0]
HUGE = np.zeros(5000)
HOLES = np.array([1.0, float("nan")])


def opaque(a):
    return OPAQUE.rate * a


def listed(a):
    return LIST[0] * a


def huge(a):
    return HUGE[0] * a


def holes(a):
    return HOLES[0] * a


def foreign(a):
    return uc.__name__ == a


def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


@decorate
def decorated(a):
    return a


nameless = lambda a: a  # noqa: E731

UNSOURCED: dict[str, tuple[Callable[..., Any], str]] = {
    "default argument": (defaulted, "defaulted has default or variable arguments"),
    "variable arguments": (starred, "starred has default or variable arguments"),
    "undefined name": (undefined, "undefined uses the undefined name 'nowhere_to_be_found'"),
    "object": (opaque, "the captured 'OPAQUE' is a Opaque; use a number, tuple, small array or function"),
    "list": (listed, "the captured 'LIST' is a list"),
    "large array": (huge, "the captured 'HUGE' is a ndarray"),
    "array with holes": (holes, "the captured array 'HOLES' holds NaN or infinity"),
    "module": (foreign, "reads the module 'ucsearch'; import the values themselves"),
    "decorator": (decorated, "decorated is decorated"),
    "lambda": (nameless, "<lambda> is not a def statement"),
    "no source": (sourceless("def f(a):\n    return a\n"), "f has no readable source"),
    "builtin": (len, "<built-in function len> is not a plain Python function"),
}


@pytest.mark.parametrize("name", UNSOURCED)
def test_what_cannot_be_written_out_says_why(name: str) -> None:
    function, message = UNSOURCED[name]
    with pytest.raises(Unsourced) as caught:
        Bundle().add(plain_function(function), "f")
    assert str(caught.value).startswith(message)


# -------------------------------------------------------------------- digests are kept, and made again when they must


def module_of(text: str) -> dict[str, Any]:
    """A module's names, its source known to `inspect`."""
    name = f"<kept {len(linecache.cache)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space: dict[str, Any] = {"__name__": "kept"}
    exec(compile(text, name, "exec"), space)
    return space


KEPT = """
RATE = 2.0
TABLE = np.array([1.0, 2.0])
def inner(a):
    return RATE * a
def outer(a):
    return inner(a) + min(a, 1.0)
def reads(a):
    return TABLE[0] * a
"""


def _constant(space: dict[str, Any]) -> None:
    space["RATE"] = 3.0


def _helper(space: dict[str, Any]) -> None:
    space["inner"] = space["reads"]


def _code(space: dict[str, Any]) -> None:
    space["inner"].__code__ = module_of("def inner(a):\n    return a\n")["inner"].__code__


def _builtin(space: dict[str, Any]) -> None:
    space["min"] = space["inner"]


def test_threads_that_read_functions_at_once_do_not_trip_the_parser() -> None:
    text = "\n".join(
        f"def f{i}(a, b):\n    return (a + {i}) * (b - {i}) if a > {i} else [x for x in (a, b)]" for i in range(200)
    )
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            trees = list(pool.map(parsed, [text] * 24))
    finally:
        sys.setswitchinterval(before)
    assert [len(tree.body) for tree in trees] == [200] * 24
