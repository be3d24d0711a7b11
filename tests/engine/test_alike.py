"""Rules that a kernel would take for something else than Python does are searched in Python, and it is said why."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy import uint8 as small

import ucsearch as uc
from ucsearch.engine.compiled.codegen import kernel_namespace, kernel_text
from ucsearch.errors import UncompilableWarning
from ucsearch.policies import MODES


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


class Harmless(NamedTuple):
    """Words, methods and names that tuples have too."""

    count: float
    index: float = 0.0

    def total(self) -> float:
        return self.count + self.index

    def __repr__(self) -> str:
        return "harmless"


class Price(NamedTuple):
    per: float


class Dear(Price):
    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        return 9.0 if name == "per" else super().__getattribute__(name)


TABLE = np.array([0, 1, 2], np.uint8)
SINGLE = np.float32(0.1)
EIGHT_BITS = (np.int8(100),)
WIDE = np.array([0, 1, 2])
TRACE = uc.Trace.from_members([[1.0, 2.0], [3.0, 0.5]])
BEAM = uc.UCBeam(depth=2, width=3, top_k=3)


def feasible(s: Any, a: float, p: Any) -> bool:
    return True


def reward(s: Any, a: float, y: float, p: Any) -> float:
    return -abs(s[0] + a - y)


def by_table(s: Any, a: float, y: float, p: Any) -> float:
    return float(TABLE[int(a)] - 1) - y


def helper(x: float) -> float:
    return x * SINGLE  # type: ignore[no-any-return]


def by_helper(s: Any, a: float, y: float, p: Any) -> float:
    return -helper(abs(s.x + a - y))


def by_eight_bits(s: Any, a: float, y: float, p: Any) -> float:
    return float(EIGHT_BITS[0] * 2) * a - y


def by_cast(s: Any, a: float, y: float, p: Any) -> float:
    return float(np.float32(a) * 0.1) - y


def by_wide(s: Any, a: float, y: float, p: Any) -> float:
    return float(WIDE[int(a)] - 1) - y


def by_price(s: Any, a: float, y: float, p: Any) -> float:
    return -abs(s.x + a - y) * p.per


class Dozens(float):
    def __mul__(self, other: float) -> float:
        return 12.0 * other


class Saturated(tuple[float, ...]):
    def __getitem__(self, at: Any) -> Any:
        return super().__getitem__(min(at, 1))


class Step(IntEnum):
    HALF = 1
    WHOLE = 2


DOZENS, SATURATED, LATER, WHOLE = Dozens(1.0), Saturated((1.0, 2.0, 3.0)), 2**60, Step.WHOLE
HIDDEN = np.ma.array([1.0, 2.0, 3.0], mask=[False, False, True])  # type: ignore[no-untyped-call]
LIMITS = np.array([0.5, 1.5])


def by_dozens(s: Any, a: float, y: float, p: Any) -> float:
    return DOZENS * a - y


def by_saturated(s: Any, a: float, y: float, p: Any) -> float:
    return SATURATED[int(a)] - y  # type: ignore[no-any-return]


def by_hidden(s: Any, a: float, y: float, p: Any) -> float:
    return -1.0 if HIDDEN[int(a)] is np.ma.masked else HIDDEN[int(a)] - y


def by_alias(s: Any, a: float, y: float, p: Any) -> float:
    return float(small(200) + small(100.0 * a)) - y


def by_other_name(s: Any, a: float, y: float, p: Any) -> float:
    return float(np.byte(100) + np.byte(20.0 * a)) - y


def by_spelled_type(s: Any, a: float, y: float, p: Any) -> float:
    return float(np.zeros(1, "uint8")[0] - 1) * a - y


def by_count_of_truths(s: Any, a: float, y: float, p: Any) -> float:
    return float((a > LIMITS[0]) + (a > LIMITS[1])) - y


def by_named_truths(s: Any, a: float, y: float, p: Any) -> float:
    low = a > LIMITS[0]
    high = a > LIMITS[1]
    return float(low + high) - y


def by_large_number(s: Any, a: float, y: float, p: Any) -> float:
    return float(LATER * int(a + 7.0) % 11) - y


def by_large_constant(s: Any, a: float, y: float, p: Any) -> float:
    return 1.0 if 9007199254740992.0 + a - a < 9007199254740993 else -y


def by_shift(s: Any, a: float, y: float, p: Any) -> float:
    return float(1 << int(62.0 + a)) - y


def by_try(s: Any, a: float, y: float, p: Any) -> float:
    try:
        found = 1.0 / (a - 1.0)
    except Exception:
        found = 2.0
    return found - y


def by_text(s: Any, a: float, y: float, p: Any) -> float:
    return 1.0 if str(a + 0.5) == "1.5" else -y


def by_inner(s: Any, a: float, y: float, p: Any) -> float:
    def worth(x: float) -> float:
        return 2.0 * x

    return worth(s[0]) - a


def by_harmless(s: Any, a: float, y: float, p: Any) -> float:
    """Fields that have names of narrow kinds, powers of floats, counts without NumPy, an enum."""
    late = (a > 1.0) + (a > 2.0)
    return -abs(s.half + a - y) * 2**s.single - late * WHOLE * 10.0 ** -int(a) - int(a) ** 2


class Aliased(NamedTuple):
    half: float
    single: float = 0.5


def task_of(kind: Any = Level, worth: Callable[..., Any] = reward, params: Any = None) -> uc.Task:
    def step(s: Any, a: float, y: float, p: Any) -> Any:
        return kind(s[0] + a - y)

    return uc.Task(
        name="odd", state=kind, actions=[0.0, 1.0, 2.0], feasible=feasible, step=step, reward=worth,
        fallback=lambda s, p: 0.0, params=params,
    )  # fmt: skip


ODD = {
    "a state that is made otherwise": (task_of(Clamped), Clamped(1.0), "Clamped has a __new__"),
    "a field that is a property": (task_of(Doubled), Doubled(1.0), "Doubled has a x"),
    "a state that may refuse": (task_of(Checked), Checked(9.0), "Checked has a __init__"),
    "a comparison": (task_of(Equal), Equal(1.0), "Equal has a __eq__"),
    "an index": (task_of(Indexed), Indexed(1.0), "Indexed has a __getitem__"),
    "a metaclass": (task_of(Made), Made(1.0), "Made is made by Meta"),
    "parameters": (task_of(worth=by_price, params=Dear(1.0)), Level(1.0), "Dear has a __getattribute__"),
    "a narrow table": (task_of(worth=by_table), Level(1.0), "TABLE holds uint8"),
    "a narrow number in a helper": (task_of(worth=by_helper), Level(1.0), "SINGLE holds float32"),
    "a narrow number in a tuple": (task_of(worth=by_eight_bits), Level(1.0), "EIGHT_BITS holds int8"),
    "a narrow number made there": (task_of(worth=by_cast), Level(1.0), "by_cast uses float32"),
    "a number with operators": (task_of(worth=by_dozens), Level(1.0), "DOZENS is a Dozens"),
    "a table with operators": (task_of(worth=by_saturated), Level(1.0), "SATURATED is a Saturated"),
    "an array with a mask": (task_of(worth=by_hidden), Level(1.0), "HIDDEN is a MaskedArray"),
    "a narrow number by an alias": (task_of(worth=by_alias), Level(1.0), "small holds uint8"),
    "a narrow number by another name": (task_of(worth=by_other_name), Level(1.0), "by_other_name uses byte"),
    "a narrow number by a text": (task_of(worth=by_spelled_type), Level(1.0), "by_spelled_type names 'uint8'"),
    "truth values of NumPy": (task_of(worth=by_count_of_truths), Level(1.0), "adds up truth values"),
    "truth values of NumPy by name": (task_of(worth=by_named_truths), Level(1.0), "adds up truth values"),
    "a whole number of many digits": (task_of(worth=by_large_number), Level(1.0), "LATER holds 11529"),
    "a constant of many digits": (task_of(worth=by_large_constant), Level(1.0), "by_large_constant holds 90071"),
    "bits": (task_of(worth=by_shift), Level(1.0), "by_shift uses <<"),
    "a try": (task_of(worth=by_try), Level(1.0), "by_try uses try"),
    "a text": (task_of(worth=by_text), Level(1.0), "by_text uses str"),
    "a function inside": (task_of(worth=by_inner), Level(1.0), "by_inner defines a function inside, worth"),
}


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("name", ODD)
def test_what_a_kernel_would_take_for_something_else_stays_with_python(name: str) -> None:
    task, state, why = ODD[name]
    with pytest.warns(UncompilableWarning, match=why):
        fast = uc.search(task, state, TRACE, BEAM, engine="compiled")
    plain = uc.search(task, state, TRACE, BEAM, engine="python")
    assert fast.engine == "python"
    assert (fast.path, fast.score) == (plain.path, plain.score)


@pytest.mark.parametrize(
    ("task", "state"),
    [
        (task_of(Harmless), Harmless(1.0, 0.0)),
        (task_of(worth=by_wide), Level(1.0)),
        (task_of(Aliased, by_harmless), Aliased(1.0, 0.5)),
    ],
    ids=str,
)
def test_all_else_is_compiled(task: uc.Task, state: Any) -> None:
    arguments = (task, task.layout(state), MODES["mean"], "beam", False)
    assert "def uc_panel" in kernel_text(*arguments)
    assert "uc_panel" in kernel_namespace(*arguments)


def by_floor(s: Any, a: float, y: float, p: Any) -> float:
    return float(math.floor(s[0] + a)) - max(a, y)


@pytest.mark.parametrize(("module", "name"), [(math, "floor"), (builtins, "max")])
def test_what_was_replaced_in_python_itself_stays_with_python(
    module: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel, loaded before, went on with Python's own."""
    task = task_of(worth=by_floor)
    kernel_text(task, task.layout(Level(1.0)), MODES["mean"], "beam", False)
    own = getattr(module, name)
    before = uc.search(task, Level(1.0), TRACE, BEAM, engine="python").score
    monkeypatch.setattr(module, name, lambda *given, **words: own(*given, **words) + (2 if given[0] == 2.0 else 0))
    with pytest.warns(UncompilableWarning, match=f"by_floor uses {name}, which was replaced in {module.__name__}"):
        fast = uc.search(task, Level(1.0), TRACE, BEAM, engine="compiled")
    plain = uc.search(task, Level(1.0), TRACE, BEAM, engine="python")
    monkeypatch.undo()
    assert fast.score == plain.score != before
