"""A task's functions as functions that a kernel calls.

    compiled = Compiler(task, layout, jit)
    feasible = compiled.rule("feasible")

`jit` says what functions become (`user` for rules and helpers, `inline` for what guards them); both take a function and
return one. Where `jit.compiles` is false, `rule` returns the user's own function: a debugger steps into it.

What holds of the functions that `rule` returns:

- They take and return what the task's functions do, by position, with the same number of arguments (`task.timed` says
  which of them take the step). States, parameters and outcomes are the task's own NamedTuple classes; parameters in
  `task.params_layout.whole` are whole numbers, as `Layout.build` makes them.
- A function is made once, and helpers that several rules call are made once for all of them. Captured values, of
  modules and of closures, are constants of the compiled code.
- In place of `math` stands `checked_math`; compile rules with `error_model="python"` and `boundscheck=True`. Then a
  rule that would raise in Python raises in the kernel, and so does one whose answer the machine cannot tell. Hand that
  window to the plain engine.
- A rule outside the dialect raises `dialect.Refused` before it is compiled: no kernel is built of it.
- `prepare` is not bound by the dialect. `rule("prepare")` is its copy for numba, for kernels that make tables.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any, Protocol

from ucsearch.layout import Layout
from ucsearch.rules.checked_math import checked_math
from ucsearch.rules.dialect import refuse
from ucsearch.rules.source import captured, function_of
from ucsearch.task import Task

__all__ = ["Compiler", "Jit"]

Function = Callable[..., Any]


class Jit(Protocol):
    """How functions are compiled."""

    @property
    def compiles(self) -> bool:
        """Whether functions become machine code; else rules stay the user's own functions."""

    @property
    def unchecked(self) -> Jit:
        """The same without the checks of `user`."""

    def user(self, function: Function) -> Function:
        """A rule or a helper of one: divisions by zero and indices past the end raise."""

    def inline(self, function: Function) -> Function:
        """A few lines that belong to their caller."""


class Compiler:
    """Compiles the functions of one task."""

    def __init__(self, task: Task, layout: Layout, jit: Jit) -> None:
        self.task, self.layout, self.jit = task, layout, jit
        self._made: dict[int, Function] = {}
        self._math: dict[Function, Function] | None = None  # in place of Python's

    def rule(self, role: str) -> Function:
        """The function of a role of `Task.functions`, or `use:NAME` for one of `Task.uses`."""
        function = self.task.uses[role[4:]] if role.startswith("use:") else self.task.functions()[role]
        plain = function_of(function)
        if not self.jit.compiles:
            return plain
        if role != "prepare":
            refuse(self.task, self.layout, (role,))
        return self._compiled(plain)

    def fill(self) -> Function | None:
        """What fills a table in place of `prepare`, if the task has it."""
        given = self.task.prepare_into
        if given is None or not self.jit.compiles:
            return None if given is None else given.fill
        if not given.unchecked:
            return self._compiled(function_of(given.fill))
        unchecked = Compiler(self.task, self.layout, self.jit.unchecked)
        unchecked._math = {}
        return unchecked._compiled(function_of(given.fill))

    def _compiled(self, function: types.FunctionType) -> Function:
        made = self._made.get(id(function))
        if made is None:
            made = self._made[id(function)] = self.jit.user(self._copy(function))
        return made

    def _copy(self, function: types.FunctionType) -> types.FunctionType:
        """The function with compiled helpers and checked `math` in place of its own."""
        if self._math is None:
            self._math = checked_math(self.jit.inline)
        space = dict(function.__globals__)
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        for name, value in captured(function).items():
            value = getattr(value, "py_func", value)
            if isinstance(value, types.FunctionType):
                ready: Any = self._compiled(value)
            elif isinstance(value, types.BuiltinFunctionType) and value in self._math:
                ready = self._math[value]
            elif value is math and self._math:
                ready = _module(self._math)
            else:
                continue
            if name in cells:
                cells[name] = types.CellType(ready)
            else:
                space[name] = ready
        closure = tuple(cells[name] for name in function.__code__.co_freevars) or None
        return types.FunctionType(function.__code__, space, function.__name__, None, closure)


def _module(checked: dict[Function, Function]) -> types.ModuleType:
    """A module with checked functions: numba looks attributes up in any module."""
    module = types.ModuleType("checked_math")
    vars(module).update(vars(math))
    vars(module).update({f.__name__: own for f, own in checked.items()})
    return module
