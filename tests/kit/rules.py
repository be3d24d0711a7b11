"""Rules written as text for a test, asked in Python and compiled."""

from __future__ import annotations

import itertools
import linecache
import math
import struct
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

import ucsearch as uc
from ucsearch.rules.compile import Compiler
from ucsearch.rules.dialect import Finding, findings

ODD = (
    0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 7.0, 0.1, 5e-324, 1e300, -1e300, 4e9, 2.0**53 + 2, 2.0**62, -(2.0**63), 800.0,
)  # fmt: skip
_numbers = itertools.count()


class State(NamedTuple):
    x: float
    q: tuple[float, ...]


class Params(NamedTuple):
    k: float
    n: int
    places: tuple[int, ...]
    limits: tuple[float, ...]


PARAMS = Params(0.75, 3, (2, 0, 1), (0.5, 1.5, -2.0))
FLOATS = np.array([0.5, -1.0, 2.0, 1e-3])
GRID = np.array([[1.0, 2.0, 3.0], [-1.0, 0.25, 8.0]])
WHOLES = np.array([3, -1, 4, 1])
PAIRS = ((1.0, 2.0), (0.5, -3.0))
SPACE: dict[str, Any] = {
    "math": math, "np": np, "State": State, "FLOATS": FLOATS, "GRID": GRID, "WHOLES": WHOLES, "PAIRS": PAIRS,
    "FIVE": 5, "RATE": 0.3,
}  # fmt: skip


class Numba:
    """As kernels compile rules."""

    compiles = True

    def user(self, function: Any) -> Any:
        from numba import njit

        return njit(function, error_model="python", boundscheck=True)

    def inline(self, function: Any) -> Any:
        from numba import njit

        return njit(function, error_model="python")


def defined(text: str, name: str, **more: Any) -> Callable[..., Any]:
    """The function `name` of a text, as if it stood in a file."""
    file = f"<rule {next(_numbers)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space = SPACE | more
    exec(compile(text, file, "exec"), space)
    found: Callable[..., Any] = space[name]
    return found


def rule_of(body: str, **more: Any) -> Callable[..., Any]:
    """A reward: an expression, or lines."""
    lines = body.strip("\n").split("\n")
    if len(lines) == 1 and not lines[0].lstrip().startswith(("return", "raise")):
        lines = [f"return {lines[0]}"]
    return defined("def reward(s, a, y, p):\n" + "".join(f"    {line}\n" for line in lines), "reward", **more)


def task_of(reward: Callable[..., Any], kind: Any = State, params: Any = PARAMS, **more: Any) -> uc.Task:
    def step(s: Any, a: float, y: float, p: Any) -> Any:
        return s

    def feasible(s: Any, a: float, p: Any) -> bool:
        return True

    return uc.Task("rule", kind, (-1.0, 0.0, 2.0), feasible, more.pop("step", step), reward, lambda s, p: 0.0,
                   params=params, **more)  # fmt: skip


def state(x: float, q: tuple[float, ...] = (1.0, -0.5, 2.0)) -> State:
    return State(x, q)


def outside(reward: Callable[..., Any], device: bool = False) -> tuple[Finding, ...]:
    task = task_of(reward)
    return findings(task, task.layout(state(0.0)), ("reward",), device)


def compiled(reward: Callable[..., Any]) -> Callable[..., Any]:
    task = task_of(reward)
    return Compiler(task, task.layout(state(0.0)), Numba()).rule("reward")


def bits(value: Any) -> Any:
    number = float(value)
    return "nan" if math.isnan(number) else struct.pack("d", number)


def answer(rule: Callable[..., Any], *given: Any) -> Any:
    """The bits of what a rule says, or that it raises."""
    try:
        with np.errstate(all="ignore"):
            value = rule(*given)
    except Exception:
        return "raises"
    return bits(value) if isinstance(value, bool | int | float | np.number | np.bool_) else "no number"


def assert_same(rule: Callable[..., Any], cases: Iterable[tuple[Any, float, float]], told: str = "") -> int:
    """Hold a rule against its machine code, which may raise where Python does not (that window is searched in Python);
    how many answers were compared."""
    fast, count = compiled(rule), 0
    for s, a, y in cases:
        own, made = answer(rule, s, a, y, PARAMS), answer(fast, s, a, y, PARAMS)
        assert made in (own, "raises"), (told, s, a, y, own, made)
        count += made != "raises"
    return count


def cases() -> list[tuple[State, float, float]]:
    pairs = list(itertools.product(ODD, ODD[::2]))
    return [(state(x, (z, x, 2.0)), a, z) for (x, z), a in zip(pairs, itertools.cycle((-1.0, 0.0, 2.0)), strict=False)]
