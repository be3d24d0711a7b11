"""The dialect of rules: what compiles, for the CPU and the GPU alike. docs/reference/rules.md tells it to users.

    for finding in findings(task, layout):
        print(finding)  # reward (rules.py:12): x ** y; write x * x

A rule is read as text and followed with kinds in place of values: floats, whole numbers, truth values, tuples,
NamedTuples, arrays. What is not on the lists below is outside, and the rule runs in plain Python. What is inside
computes the same to the bit in Python and in a kernel, or raises in the kernel:

- A whole number has a known largest size. A count grows by its step, at most `_TURNS` times in one call of a rule;
  nothing that may pass 2**63 is inside, so 64 bits hold it. Where it meets a float it becomes one, as in Python.
- What is a whole number on one path and a float on another (`0 if x < 0.0 else x`, `max(0, x)`) is outside: Python
  keeps the whole number, machine code has one kind for both.
- Every name has a value on every path to where it is read.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ucsearch.errors import UncompilableWarning, warn_user
from ucsearch.layout import COUNT, WHOLE, Layout, is_named_tuple_type
from ucsearch.rules.source import Unreadable, definition, function_of
from ucsearch.task import Task

__all__ = ["Finding", "Refused", "captured", "explain", "findings", "refuse", "roles_asked", "tell"]

_TURNS = 2**31  # statements that one call of a rule may run: minutes of plain Python
_LARGEST = 2**63 - 1  # up to here a sum or a product of whole numbers fits 64 bits
_FLOORED = 2**53  # what `floor` and `ceil` give at most; else they raise in a kernel
_AXIS = 2**31  # items along one axis of an array
_LITTLE = 2**16
_ROUNDS = 40  # readings of a loop; kinds settle in two or three, unless something grows with itself

# ---------------------------------------------------------------------------------------------------------- findings


@dataclass(frozen=True)
class Finding:
    """What keeps a rule outside the dialect: where, why, and the spelling that compiles."""

    role: str
    file: str
    line: int
    what: str
    instead: str

    def __str__(self) -> str:
        return f"{self.role} ({self.file}:{self.line}): {self.what}; {self.instead}"


class Refused(Exception):
    """These rules run in plain Python; the message says which line keeps them there, and what to write instead."""

    def __init__(self, findings: tuple[Finding, ...]) -> None:
        super().__init__("; ".join(map(str, findings)))
        self.findings = findings


class _Outside(Exception):
    def __init__(self, node: ast.AST | None, what: str, instead: str) -> None:
        super().__init__(what)
        self.node, self.what, self.instead = node, what, instead


# ------------------------------------------------------------------------------------------------------------- kinds


@dataclass(frozen=True)
class ValueKind:
    """What is known of a value: `name` in words."""

    name: str


FLOAT, BOOL, NONE = ValueKind("a float"), ValueKind("a truth value"), ValueKind("None")
TABLE = ValueKind("the table of `prepare`")  # an array of floats of one or two dimensions


@dataclass(frozen=True)
class WholeKind(ValueKind):
    """A whole number of at most `base` in size, and `rate` more for every statement that has been run."""

    base: int = 0
    rate: int = 0

    @property
    def most(self) -> int:
        return self.base + self.rate * _TURNS


@dataclass(frozen=True)
class TupleKind(ValueKind):
    """A tuple, or with `made_by` a NamedTuple."""

    items: tuple[ValueKind, ...] = ()
    made_by: type | None = None


@dataclass(frozen=True)
class ArrayKind(ValueKind):
    item: ValueKind = FLOAT
    dimensions: int = 1


@dataclass(frozen=True)
class Thing(ValueKind):
    """A function, a class or the module `math`."""

    value: Any = None


@dataclass(frozen=True)
class Mixed(ValueKind):
    """Another kind on one path than on another: for nobody to read."""


def whole(base: int, rate: int = 0) -> WholeKind:
    return WholeKind("a whole number", base, rate)


def row(items: tuple[ValueKind, ...], made_by: type | None = None) -> TupleKind:
    return TupleKind(f"a tuple of {len(items)}" if made_by is None else f"a {made_by.__name__}", items, made_by)


def _join(a: ValueKind, b: ValueKind) -> ValueKind:
    if a == b or isinstance(a, Mixed):
        return a
    if isinstance(b, Mixed):
        return b
    if isinstance(a, WholeKind) and isinstance(b, WholeKind):
        return whole(max(a.base, b.base), max(a.rate, b.rate))
    if isinstance(a, TupleKind) and isinstance(b, TupleKind) and (len(a.items), a.made_by) == (len(b.items), b.made_by):
        items = tuple(map(_join, a.items, b.items))
        if not any(isinstance(item, Mixed) for item in items):
            return row(items, a.made_by)
    return Mixed(f"{a.name} on one path and {b.name} on another")


def _widened(before: ValueKind, after: ValueKind, sizes: list[int]) -> ValueKind:
    """The kind at the head of a loop: the little that a turn adds is the rate; more leads to the next of `sizes`, those
    of the other whole numbers there (the middle of two is no larger than both)."""
    if isinstance(before, WholeKind) and isinstance(after, WholeKind):
        rate, more = max(before.rate, after.rate), after.base - before.base
        next_size = min((size for size in sizes if size >= after.base), default=0)
        if more > _LITTLE and next_size:
            return whole(next_size, rate)
        return whole(before.base, max(rate, more))
    if isinstance(before, TupleKind) and isinstance(after, TupleKind) and len(before.items) == len(after.items):
        pairs = zip(before.items, after.items, strict=True)
        return row(tuple(_widened(a, b, sizes) for a, b in pairs), before.made_by)
    return _join(before, after)


# ------------------------------------------------------------------------------------------------------------- lists

_BUILTINS: dict[str, Any] = {n: getattr(builtins, n) for n in ("min", "max", "abs", "float", "bool", "len", "range")}
_ON_BOTH = ("sqrt", "floor", "ceil")
_ON_CPU = (
    "exp", "log", "sin", "cos", "tan", "tanh", "atan", "atan2", "log2", "log10", "expm1", "log1p", "copysign",
)  # fmt: skip
_OF_TWO = ("atan2", "copysign")
_MATH: dict[str, Any] = {name: getattr(math, name) for name in (*_ON_BOTH, *_ON_CPU)}
_CONSTANTS = ("pi", "e", "tau", "inf", "nan")
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
}  # fmt: skip
_COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_OTHER_OPERATORS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Pow: ("**", "multiply it out (x * x), or use math.sqrt or math.exp(y * math.log(x))"),
    ast.LShift: ("<<", "multiply by a power of 2"),
    ast.RShift: (">>", "write // 2, // 4, ..."),
    ast.BitAnd: ("&", "write `and`"),
    ast.BitOr: ("|", "write `or`"),
    ast.BitXor: ("^", "write != between truth values"),
    ast.MatMult: ("@", "add up in a for loop"),
}
_OTHER_CALLS = {
    "int": "write math.floor(x), or annotate the parameter as int",
    "round": "write math.floor(x + 0.5), or math.floor(x * scale + 0.5) / scale",
    "sum": "add up in a for loop",
    "any": "write a for loop with a truth value",
    "all": "write a for loop with a truth value",
    "enumerate": "write for i in range(len(x))",
    "zip": "write for i in range(len(x))",
    "reversed": "write for i in range(len(x) - 1, -1, -1)",
    "sorted": "compare the numbers one by one",
    "tuple": "write the tuple out, or put tuples together: s.x[1:] + (y,)",
    "list": "use a tuple",
    "dict": "use a tuple",
    "set": "use a tuple",
    "pow": "multiply it out (x * x), or use math.sqrt or math.exp(y * math.log(x))",
    "divmod": "write // and %",
    "print": "keep input and output outside the rules",
    "isinstance": "a field has one kind; compare numbers",
    "fmod": "write x % y, which has the sign of y",
    "hypot": "write math.sqrt(x * x + y * y)",
    "fabs": "write abs(x)",
    "trunc": "write math.floor(x), or -math.floor(-x) below 0",
    "isnan": "write x != x",
    "isfinite": "write abs(x) < math.inf",
    "isinf": "write abs(x) == math.inf",
    "asin": "write math.atan2(x, math.sqrt(1.0 - x * x))",
    "acos": "write math.atan2(math.sqrt(1.0 - x * x), x)",
    "sinh": "write (math.exp(x) - math.exp(-x)) / 2.0",
    "cosh": "write (math.exp(x) + math.exp(-x)) / 2.0",
    "gamma": "tabulate it in the parameters",
    "lgamma": "tabulate it in the parameters",
    "erf": "tabulate it in the parameters",
    "erfc": "tabulate it in the parameters",
    "fsum": "add up in a for loop",
}
_OTHER_NODES: dict[type[ast.AST], tuple[str, str]] = {
    ast.Try: ("try", "test the condition before the operation"),
    ast.With: ("with", "keep input and output outside the rules"),
    ast.Raise: ("raise", "say no in `feasible`, or check in `invariant`"),
    ast.Assert: ("assert", "say no in `feasible`, or check in `invariant`"),
    ast.Delete: ("del", "leave the name as it is"),
    ast.Global: ("global", "pass the value through the parameters"),
    ast.Nonlocal: ("nonlocal", "pass the value through the parameters"),
    ast.Import: ("import", "import at the top of the module"),
    ast.ImportFrom: ("import", "import at the top of the module"),
    ast.Match: ("match", "write if and elif"),
    ast.FunctionDef: ("a function within a function", "write it at the level of the module"),
    ast.ClassDef: ("a class within a function", "write it at the level of the module"),
    ast.Lambda: ("a lambda within a function", "write a def at the level of the module"),
    ast.ListComp: ("a list comprehension", "write a for loop"),
    ast.SetComp: ("a set comprehension", "write a for loop"),
    ast.DictComp: ("a dict comprehension", "write a for loop"),
    ast.GeneratorExp: ("a generator expression", "write a for loop"),
    ast.NamedExpr: (":=", "give the name its value on a line of its own"),
    ast.List: ("a list", "use a tuple"),
    ast.Dict: ("a dict", "use a tuple, or if and elif"),
    ast.Set: ("a set", "use a tuple"),
    ast.JoinedStr: ("a text", "rules are about numbers"),
    ast.Yield: ("yield", "return a value"),
    ast.YieldFrom: ("yield", "return a value"),
    ast.Starred: ("* before an argument", "name every one"),
}
_FOR_FLOAT = "write it as a float: 0.0, 1.0, or float(n)"
_NOT_A_FLOAT = "write math.floor(x), or annotate the parameter as int"
_NOT_A_TRUTH = "write 1.0 if x else 0.0"

# What numba does with a tuple itself, whatever its class says.
_OF_TUPLES = frozenset({
    "__new__", "__init__", "__getattribute__", "__getattr__", "__getitem__", "__len__", "__iter__", "__contains__",
    "__bool__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__add__", "__radd__", "__mul__",
    "__rmul__",
})  # fmt: skip

# ------------------------------------------------------------------------------------------------------------ asking


def refuse(task: Task, layout: Layout, roles: tuple[str, ...] | None = None, device: bool = False) -> None:
    """Raise `Refused` where a rule is outside the dialect."""
    outside = findings(task, layout, roles, device)
    if outside:
        raise Refused(outside)


def findings(
    task: Task, layout: Layout, roles: tuple[str, ...] | None = None, device: bool = False
) -> tuple[Finding, ...]:
    """What keeps the task's rules outside the dialect, at most one line a rule; nothing where all are inside.

    `roles`: of these rules, by default of all that kernels ask (no `fallback`, `invariant` or `prepare`); `use:NAME` is
    one of `Task.uses`. `device`: of the GPU's dialect, which has no `exp`, `log`, ... and no // and % of floats."""
    findings_of: dict[Any, tuple[Finding, ...]] = task.cache.setdefault("findings", {})
    key = (layout, roles, device)
    if key not in findings_of:
        rules = {role: rule for role, rule in _asked(task, layout).items() if roles is None or role in roles}
        judged = (_judged(role, *rule, task, layout, device) for role, rule in rules.items())
        findings_of[key] = tuple(finding for finding in judged if finding is not None)
    return findings_of[key]


def roles_asked(task: Task, members: bool, use_bound: bool) -> tuple[str, ...]:
    """The rules that a kernel of a search asks."""
    bound = ("bound",) if use_bound else ()
    followed = tuple(f"continuation_{i}" for i in range(len(task.followed))) if members else ()
    return ("feasible", "step", "reward", "terminal", "allowed_end", *bound, *followed)


def tell(task: Task, layout: Layout, roles: tuple[str, ...] | None = None) -> bool:
    """Whether these rules are outside the dialect; a warning says so, once a task."""
    outside = findings(task, layout, roles)
    if outside and not task.cache.get("findings logged"):
        task.cache["findings logged"] = True
        warn_user(explain(task, outside), UncompilableWarning)
    return bool(outside)


def explain(task: Task, outside: tuple[Finding, ...]) -> str:
    """What is outside, in words."""
    lines = list(dict.fromkeys(map(str, outside)))
    return f"task {task.name!r} runs in plain Python (same results, slower). Cause: {'; '.join(lines)}"


def _asked(task: Task, layout: Layout) -> dict[str, tuple[Callable[..., Any], tuple[ValueKind, ...]]]:
    """Every rule that kernels ask, with the kinds of its arguments."""
    state = _of_layout(layout)
    p = NONE if task.params_layout is None else _of_layout(task.params_layout)
    y = FLOAT if task.outcome is None else row((FLOAT,) * len(task.outcome._fields), task.outcome)
    h, a = whole(COUNT), row((FLOAT,) * task.width) if task.width else FLOAT
    arguments_of: dict[str, tuple[ValueKind, ...]] = {
        "feasible": (state, a), "step": (state, a, y), "reward": (state, a, y), "terminal": (state,),
        "allowed_end": (state,), "bound": (state, h, TABLE),
    }  # fmt: skip
    rules = {}
    for role, arguments in arguments_of.items():
        function = getattr(task, role)
        if function is not None:
            rules[role] = (function, (*arguments, *((h,) if role in task.timed else ()), p))
    for i, item in enumerate(task.followed):
        theta = (row((FLOAT,) * len(item.grid[0])),) if item.grid else ()
        rules[f"continuation_{i}"] = (item.policy, (state, h, p, *theta))
    for name, use in task.uses.items():
        rules[f"use:{name}"] = (use, (state, a, p))
    return rules


def _of_layout(layout: Layout) -> TupleKind:
    items = []
    for i, length in enumerate(layout.lengths):
        item = whole(COUNT) if i in layout.whole else FLOAT
        items.append(row((item,) * length) if length else item)
    return row(tuple(items), layout.kind)


def _judged(
    role: str, function: Callable[..., Any], arguments: tuple[ValueKind, ...], task: Task, layout: Layout, device: bool
) -> Finding | None:
    reader = _Reader(device)
    try:
        for kind in (layout.kind, task.outcome, None if task.params is None else type(task.params)):
            if kind is not None:
                _check_class(kind)
        _check_answer(role, reader.call(function, arguments), layout)
    except _Outside as outside:
        where, line = reader.place(outside.node)
        name = role + "".join(f" -> {called.__name__}" for called in where[1:])
        code = where[-1].__code__ if where else getattr(function, "__code__", None)
        file = code.co_filename if code is not None else "?"
        return Finding(name, file, line or (code.co_firstlineno if code else 0), outside.what, outside.instead)
    return None


def _check_answer(role: str, answer: ValueKind, layout: Layout) -> None:
    if role == "step":
        lengths = [length or 1 for length in layout.lengths]
        fields = answer.items if isinstance(answer, TupleKind) else ()
        sizes = [len(x.items) if isinstance(x, TupleKind) else 1 for x in fields]
        cells = [cell for x in fields for cell in (x.items if isinstance(x, TupleKind) else (x,))]
        tuples = [isinstance(x, TupleKind) for x in fields] == [length > 0 for length in layout.lengths]
        if sizes != lengths or not tuples or not all(_is_number(cell) for cell in cells):
            parts = f"{layout.kind.__name__}({', '.join(x.name for x in fields)})" if fields else answer.name
            raise _Outside(None, f"returns {parts}", f"return a {layout.kind.__name__} with floats in every field")
    elif role in ("feasible", "allowed_end"):
        if not _is_number(answer) and answer != BOOL:
            raise _Outside(None, f"returns {answer.name}", "return True or False")
    elif not _is_number(answer):
        instead = _NOT_A_TRUTH if answer == BOOL else "return a float on every path"
        raise _Outside(None, f"returns {answer.name}", instead)


def _is_number(kind: ValueKind) -> bool:
    return kind == FLOAT or isinstance(kind, WholeKind)


# ---------------------------------------------------------------------------------------------------------- captured


def captured(function: types.FunctionType, name: str) -> Any:
    """What a name that is no local means in a function. Raises `KeyError` where it means nothing."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    if name in cells:
        try:
            return cells[name].cell_contents
        except ValueError:
            raise KeyError(name) from None
    if name in function.__globals__:
        return function.__globals__[name]
    return _provided(function)[name]


def _provided(function: types.FunctionType) -> dict[str, Any]:
    provided: Any = function.__builtins__  # type: ignore[attr-defined,unused-ignore]
    return provided if isinstance(provided, dict) else vars(provided)


def _check_class(kind: type) -> None:
    """A NamedTuple is known to a kernel by its fields, not by what its class makes of them."""
    instead = "use a plain NamedTuple, and functions in place of methods"
    if type(kind) is not type:
        raise _Outside(None, f"{kind.__name__} is made by {type(kind).__name__}, which a kernel does not ask", instead)
    names = _OF_TUPLES.union(kind._fields)  # type: ignore[attr-defined]
    for base in kind.__mro__[: kind.__mro__.index(tuple)]:
        for name, attribute in vars(base).items():
            if name in names and not _of_named_tuple(attribute):
                what = f"{kind.__name__} has a {name} of its own, which a kernel does not ask"
                raise _Outside(None, what, instead)


def _of_named_tuple(attribute: Any) -> bool:
    """Whether `collections.namedtuple` put this attribute there."""
    function = getattr(attribute, "__func__", attribute)
    if isinstance(function, types.FunctionType):
        home = str(function.__globals__.get("__name__", ""))
        return home == "collections" or home.startswith("namedtuple_")
    return type(attribute).__name__ == "_tuplegetter"


# ----------------------------------------------------------------------------------------------------------- reading

_Names = dict[str, ValueKind]  # names that have a value, with its kind


@dataclass
class _Loop:
    left: list[_Names]  # by break
    next: list[_Names]  # by continue


class _Reader:
    """Follows a rule and its helpers with kinds in place of values."""

    def __init__(self, device: bool) -> None:
        self.device = device
        self.known: dict[tuple[types.FunctionType, tuple[ValueKind, ...]], ValueKind] = {}
        self.calls: list[types.FunctionType] = []

    def place(self, node: ast.AST | None) -> tuple[list[types.FunctionType], int]:
        """The functions that were being read, and the line."""
        return self.calls, getattr(node, "lineno", 0)

    def call(self, function: Any, arguments: tuple[ValueKind, ...], at: ast.AST | None = None) -> ValueKind:
        """The kind of what a function returns."""
        try:
            plain = function_of(function)
        except Unreadable:
            kind = type(function).__name__
            what = f"{getattr(function, '__name__', kind)} is a {kind}"
            raise _Outside(at, what, "write a def at the level of the module") from None
        known_kind = self.known.get((plain, arguments))
        if known_kind is not None:
            return known_kind
        if plain in self.calls:
            raise _Outside(at, f"{plain.__name__} calls itself", "write a loop")
        self.calls.append(plain)  # left there by what is outside: it says where
        try:
            node = definition(plain)
        except Unreadable as error:
            raise _Outside(None, str(error), "write it in a file or a cell, as a def") from None
        parameters = node.args
        if parameters.vararg or parameters.kwarg or parameters.kwonlyargs:
            raise _Outside(node, "an argument with *", "name every one")
        names = [a.arg for a in (*parameters.posonlyargs, *parameters.args)]
        if len(names) != len(arguments):
            what = f"{plain.__name__} takes {len(names)} arguments, {len(arguments)} are given"
            raise _Outside(node, what, "give every argument; defaults do not compile")
        result = _Function(self, plain, node, dict(zip(names, arguments, strict=True))).result()
        self.calls.pop()
        self.known[plain, arguments] = result
        return result


class _Function:
    """One function, read with arguments of given kinds."""

    def __init__(self, reader: _Reader, function: types.FunctionType, node: Any, names: _Names) -> None:
        self.reader, self.function, self.node, self.names = reader, function, node, names
        self.returned: ValueKind | None = None
        self.loops: list[_Loop] = []
        body = node.body if isinstance(node, ast.FunctionDef) else []
        stored = (n.id for part in body for n in ast.walk(part) if isinstance(n, ast.Name) and _is_store(n))
        self.local = {*names, *stored}

    def result(self) -> ValueKind:
        if isinstance(self.node, ast.Lambda):
            return self.value(self.node.body)
        if isinstance(self.node, ast.FunctionDef) and self.run(self.node.body, first=True):
            raise _Outside(self.node, "there is a path to its end without a value", "return a value on every path")
        if self.returned is None:
            raise _Outside(self.node, "it never ends", "return a value")
        return self.returned

    # ---- statements. `self.names` is what holds after them; they return whether there is a way on.

    def run(self, body: list[ast.stmt], first: bool = False) -> bool:
        for i, statement in enumerate(body):
            if i == 0 and first and _is_text(statement):
                continue
            if not self.statement(statement):
                return False  # what follows is never reached
        return True

    def statement(self, node: ast.stmt) -> bool:
        match node:
            case ast.Assign():
                kind = self.value(node.value)
                for target in node.targets:
                    self.give(target, kind, node)
            case ast.AnnAssign():
                if node.value is not None:
                    self.give(node.target, self.value(node.value), node)
            case ast.AugAssign():
                if not isinstance(node.target, ast.Name):
                    raise _Outside(node, "a change in place", "build a new tuple")
                kind = self.operation(node, node.op, self.read(node.target), self.value(node.value))
                self.give(node.target, kind, node)
            case ast.Return():
                self.leave(node)
                return False
            case ast.If():
                return self.branch(node)
            case ast.For() | ast.While():
                return self.loop(node)
            case ast.Break() | ast.Continue():
                loop = self.loops[-1]
                (loop.left if isinstance(node, ast.Break) else loop.next).append(dict(self.names))
                return False
            case ast.Pass():
                pass
            case ast.Expr():
                raise _Outside(node, "a line without effect", "leave it out")
            case _:
                raise self.unknown(node)
        return True

    def leave(self, node: ast.Return) -> None:
        if node.value is None:
            raise _Outside(node, "return without a value", "return a value on every path")
        kind = self.value(node.value)
        joined = kind if self.returned is None else _join(self.returned, kind)
        if isinstance(joined, Mixed):
            raise _Outside(node, f"returns {joined.name}", _spelling(joined))
        self.returned = joined

    def branch(self, node: ast.If) -> bool:
        self.test(node.test)
        before = dict(self.names)
        one = self.names if self.run(node.body) else None
        self.names = before
        other = self.names if self.run(node.orelse) else None
        ways = [way for way in (one, other) if way is not None]
        if ways:
            self.names = _merged(ways)
        return bool(ways)

    def loop(self, node: ast.For | ast.While) -> bool:
        item = self.items_of(node) if isinstance(node, ast.For) else None
        head, ended = dict(self.names), False
        for _ in range(_ROUNDS):
            self.names, loop = dict(head), _Loop([], [])
            endless = False
            if isinstance(node, ast.While):
                endless = isinstance(node.test, ast.Constant) and bool(node.test.value)
                self.test(node.test)
            elif item is not None:
                self.give(node.target, item, node)
            self.loops.append(loop)
            ways = [*loop.next, self.names] if self.run(node.body) else loop.next
            self.loops.pop()
            again = head if not ways else {name: kind for name, kind in _merged([head, *ways]).items() if name in head}
            sizes = [kind.base for kind in head.values() if isinstance(kind, WholeKind)]
            wider = {name: _widened(head[name], kind, sizes) for name, kind in again.items()}
            if wider == head:
                break
            head = wider
        else:
            raise _Outside(node, "a whole number that may grow beyond 64 bits", "use floats")
        self.names = dict(head)
        if isinstance(node, ast.While) and not endless:
            self.test(node.test)
        if not endless:
            ended = self.run(node.orelse)
        ways = [*loop.left, self.names] if ended else loop.left
        if ways:
            self.names = _merged(ways)
        return bool(ways)

    def items_of(self, node: ast.For) -> ValueKind:
        """The kind of what a loop goes over."""
        over = node.iter
        called = over.func if isinstance(over, ast.Call) else None
        if isinstance(over, ast.Call) and isinstance(called, ast.Name) and self.is_range(called):
            return self.counted(over)
        kind = self.value(over)
        if not isinstance(kind, TupleKind) or kind.made_by is not None:
            raise _Outside(over, f"a loop over {kind.name}", "loop over range(...) or a tuple")
        if not kind.items:
            raise _Outside(over, "a loop over an empty tuple", "leave it out")
        return self.same(over, kind)

    def is_range(self, name: ast.Name) -> bool:
        return name.id not in self.local and self.outer(name) == Thing("range", range)

    def counted(self, node: ast.Call) -> ValueKind:
        if node.keywords or not 1 <= len(node.args) <= 3:
            raise _Outside(node, "range(...) with other arguments", "write range(stop) or range(start, stop, step)")
        edges = [self.index(argument) for argument in node.args]
        start, stop = (whole(0), edges[0]) if len(edges) == 1 else edges[:2]
        by = edges[2].base if len(edges) == 3 else 1
        if max(start.most, stop.most) <= _TURNS or (len(edges) == 3 and edges[2].rate):
            return whole(max(start.most, stop.most))
        return whole(start.base, start.rate + by)  # no item is farther from the start than there are turns

    def give(self, target: ast.expr, kind: ValueKind, node: ast.AST) -> None:
        if isinstance(target, ast.Name):
            if isinstance(kind, Thing):
                raise _Outside(node, f"{target.id} becomes {kind.name}", "call it by its own name")
            self.names[target.id] = kind
        elif isinstance(target, ast.Tuple):
            if not isinstance(kind, TupleKind):
                raise _Outside(node, f"{kind.name} is taken apart", "take a tuple apart, or write x[0], x[1], ...")
            if len(kind.items) != len(target.elts):
                what = f"{len(target.elts)} names for {kind.name}"
                raise _Outside(node, what, "give as many names as there are items")
            for part, item in zip(target.elts, kind.items, strict=True):
                self.give(part, item, node)
        elif isinstance(target, ast.Attribute | ast.Subscript):
            raise _Outside(node, "a change in place", "build a new tuple")
        else:
            raise self.unknown(target)

    # ---- expressions

    def value(self, node: ast.expr) -> ValueKind:
        match node:
            case ast.Constant():
                return self.constant(node)
            case ast.Name():
                return self.read(node)
            case ast.BinOp():
                return self.operation(node, node.op, self.value(node.left), self.value(node.right))
            case ast.UnaryOp():
                return self.unary(node)
            case ast.BoolOp():
                return self.either(node, [self.truth(part) for part in node.values])
            case ast.Compare():
                return self.comparison(node)
            case ast.IfExp():
                self.test(node.test)
                return self.either(node, [self.value(node.body), self.value(node.orelse)])
            case ast.Tuple():
                return row(tuple(self.plain(part) for part in node.elts))
            case ast.Attribute():
                return self.attribute(node)
            case ast.Subscript():
                return self.item(node)
            case ast.Call():
                return self.called(node)
        raise self.unknown(node)

    def plain(self, node: ast.expr) -> ValueKind:
        """A value that may stand in a tuple."""
        kind = self.value(node)
        if isinstance(kind, Thing) or kind == NONE:
            raise _Outside(node, f"{kind.name} in a tuple", "put numbers in tuples")
        return kind

    def constant(self, node: ast.Constant) -> ValueKind:
        if isinstance(node.value, str | bytes):
            raise _Outside(node, "a text", "rules are about numbers")
        return self.of_value(node.value, repr(node.value), node)

    def read(self, node: ast.Name) -> ValueKind:
        if node.id not in self.local:
            return self.outer(node)
        kind = self.names.get(node.id)
        if kind is None:
            raise _Outside(node, f"{node.id} may have no value yet", "give it one before the if or the loop")
        if isinstance(kind, Mixed):
            raise _Outside(node, f"{node.id} is {kind.name}", _spelling(kind))
        return kind

    def outer(self, node: ast.Name) -> ValueKind:
        try:
            value = captured(self.function, node.id)
        except KeyError:
            raise _Outside(node, f"{node.id} has no value", "define it before the task is made") from None
        if isinstance(node.id, str) and _provided(self.function).get(node.id) is value and not isinstance(value, bool):
            if _BUILTINS.get(node.id) is value:
                return Thing(node.id, value)
            if node.id in _BUILTINS:
                raise _Outside(node, f"{node.id} was replaced in builtins", "leave Python's own functions as they are")
            raise _Outside(node, f"{node.id}()", _OTHER_CALLS.get(node.id, "write it with + - * / and math"))
        return self.of_value(value, node.id, node)

    def of_value(self, value: Any, name: str, node: ast.AST) -> ValueKind:
        """The kind of a constant or of something captured."""
        kind = type(value)
        if kind is float or kind is np.float64:
            return FLOAT
        if kind is bool:
            return BOOL
        if kind is int or kind is np.int64:
            if abs(int(value)) > WHOLE:
                raise _Outside(node, f"{name} is {value}, beyond 2**53", "write it as a float")
            return whole(abs(int(value)))
        if value is None:
            return NONE
        if kind is tuple:
            return row(tuple(self.of_value(x, f"{name}[{i}]", node) for i, x in enumerate(value)))
        if is_named_tuple_type(kind):
            _check_class(kind)
            return row(tuple(self.of_value(x, name, node) for x in value), kind)
        if kind is np.ndarray:
            return self.of_array(value, name, node)
        if value is math:
            return Thing("math", value)
        if isinstance(value, type) and is_named_tuple_type(value):
            _check_class(value)
            return Thing(value.__name__, value)
        if isinstance(getattr(value, "py_func", value), types.FunctionType):
            return Thing(name, value)
        if isinstance(value, types.BuiltinFunctionType):
            return self.of_math(value, name, node)
        raise self.stranger(value, name, node)

    def of_array(self, value: Any, name: str, node: ast.AST) -> ValueKind:
        if value.dtype not in (np.float64, np.int64) or value.ndim not in (1, 2) or not value.flags.c_contiguous:
            what = f"{name} is an array of {value.dtype} in {value.ndim} dimensions"
            raise _Outside(node, what, "use np.ascontiguousarray(x, dtype=np.float64) of one or two dimensions")
        if value.dtype == np.float64:
            return ArrayKind("an array", FLOAT, value.ndim)
        most = int(np.abs(value.astype(np.float64)).max(initial=0.0))
        if most >= WHOLE:
            raise _Outside(node, f"{name} holds {most}, beyond 2**53", "use float64")
        return ArrayKind("an array", whole(most), value.ndim)

    def of_math(self, value: Any, name: str, node: ast.AST) -> ValueKind:
        listed = next((listed for listed, function in _MATH.items() if function is value), None)
        if listed is None:
            instead = _OTHER_CALLS.get(getattr(value, "__name__", ""), "write it with + - * / and math")
            raise _Outside(node, f"{name}()", instead)
        if self.reader.device and listed not in _ON_BOTH:
            raise _Outside(node, f"math.{listed}, which is for the CPU only", "tabulate it in the outcomes")
        return Thing(f"math.{listed}", value)

    def stranger(self, value: Any, name: str, node: ast.AST) -> _Outside:
        kind = type(value).__name__
        if isinstance(value, types.ModuleType):
            what = f"the module {value.__name__}"
            return _Outside(node, what, "use math, and captured arrays by their indices")
        if isinstance(value, np.generic | int | float):
            return _Outside(node, f"{name} is a {kind}", "capture a plain number: float(x)")
        if isinstance(value, str | bytes):
            return _Outside(node, "a text", "rules are about numbers")
        if callable(value):
            return _Outside(node, f"{name} is a {kind}", "write a def at the level of the module")
        return _Outside(node, f"{name} is a {kind}", "capture a number, a tuple, or an array of float64 or int64")

    def operation(self, node: Any, op: ast.operator, a: ValueKind, b: ValueKind) -> ValueKind:
        sign = _OPERATORS.get(type(op))
        if sign is None:
            what, instead = _OTHER_OPERATORS[type(op)]
            raise _Outside(node, what, instead)
        if isinstance(a, TupleKind) and isinstance(b, TupleKind) and sign == "+":
            if a.made_by is not None or b.made_by is not None:
                raise _Outside(node, "a NamedTuple that is put together with a tuple", "write every field")
            return row(a.items + b.items)
        for part in (a, b):
            if not _is_number(part):
                raise _Outside(node, f"{sign} of {part.name}", _NOT_A_TRUTH if part == BOOL else "use numbers")
        if not isinstance(a, WholeKind) or not isinstance(b, WholeKind):
            if self.reader.device and sign in ("//", "%"):
                raise _Outside(node, f"{sign} of floats on a GPU", "write x - y * math.floor(x / y)")
            return FLOAT
        if sign == "/":
            if max(a.most, b.most) > WHOLE:
                raise _Outside(node, "/ of whole numbers beyond 2**53", _FOR_FLOAT)
            return FLOAT
        if sign in ("+", "-"):
            result = whole(a.base + b.base, a.rate + b.rate)
        elif sign == "*":
            result = whole(a.most * b.most)
        elif sign == "//":
            by = node.right if isinstance(node, ast.BinOp) else node.value
            least = by.value if isinstance(by, ast.Constant) and isinstance(by.value, int) and by.value else 1
            result = whole(-(-a.base // least), -(-a.rate // least))
        else:
            result = b
        if result.most > _LARGEST:
            what = f"{sign} of whole numbers that may go beyond 64 bits"
            raise _Outside(node, what, "use floats, and floor the result: math.floor(n * x)")
        return result

    def unary(self, node: ast.UnaryOp) -> ValueKind:
        if isinstance(node.op, ast.Not):
            self.test(node.operand)
            return BOOL
        if isinstance(node.op, ast.Invert):
            raise _Outside(node, "~", "write `not`")
        kind = self.value(node.operand)
        if not _is_number(kind):
            raise _Outside(node, f"a sign before {kind.name}", _NOT_A_TRUTH if kind == BOOL else "use numbers")
        return kind

    def comparison(self, node: ast.Compare) -> ValueKind:
        sides = [self.value(part) for part in (node.left, *node.comparators)]
        for op, a, b in zip(node.ops, sides, sides[1:], strict=False):
            if isinstance(op, ast.Is | ast.IsNot):
                raise _Outside(node, "is", "write == or !=")
            if isinstance(op, ast.In | ast.NotIn):
                raise _Outside(node, "in", "write x == a or x == b")
            if not isinstance(op, _COMPARISONS):
                raise self.unknown(node)
            if a == b == BOOL and isinstance(op, ast.Eq | ast.NotEq):
                continue
            for kind in (a, b):
                if not _is_number(kind):
                    instead = _NOT_A_TRUTH if kind == BOOL else "compare numbers, one by one"
                    raise _Outside(node, f"a comparison of {kind.name}", instead)
            for kind, other in ((a, b), (b, a)):
                if isinstance(kind, WholeKind) and other == FLOAT and kind.most > WHOLE:
                    what = "a whole number that may be beyond 2**53 is compared with a float"
                    raise _Outside(node, what, "write float(n)")
        return BOOL

    def either(self, node: ast.AST, ways: list[ValueKind]) -> ValueKind:
        joined = ways[0]
        for way in ways[1:]:
            joined = _join(joined, way)
            if isinstance(joined, Mixed):
                raise _Outside(node, joined.name, _spelling(joined))
        if isinstance(joined, Thing):
            raise _Outside(node, "a choice between functions", "write if and else")
        return joined

    def test(self, node: ast.expr) -> None:
        self.truth(node)

    def truth(self, node: ast.expr) -> ValueKind:
        kind = self.value(node)
        if kind != BOOL and not _is_number(kind):
            raise _Outside(node, f"{kind.name} as a condition", "compare numbers")
        return kind

    def attribute(self, node: ast.Attribute) -> ValueKind:
        of = self.value(node.value)
        if of == Thing("math", math):
            value = getattr(math, node.attr, None)
            if node.attr in _CONSTANTS:
                return self.of_value(value, f"math.{node.attr}", node)
            if node.attr in _MATH and _MATH[node.attr] is not value:
                what = f"{node.attr} was replaced in math"
                raise _Outside(node, what, "leave Python's own functions as they are")
            return self.of_math(value, f"math.{node.attr}", node)
        if isinstance(of, TupleKind) and of.made_by is not None:
            fields: tuple[str, ...] = of.made_by._fields  # type: ignore[attr-defined]
            if node.attr in fields:
                return of.items[fields.index(node.attr)]
            if node.attr == "_replace":
                raise _Outside(node, "._replace", f"write {of.made_by.__name__}(...) with every field")
            what = f"{of.made_by.__name__}.{node.attr} is no field"
            raise _Outside(node, what, "write a function that takes the fields it needs")
        if node.attr == "shape":
            if isinstance(of, ArrayKind):
                return row((whole(_AXIS),) * of.dimensions)
            if of == TABLE:
                return row((whole(_AXIS),) * 2)
        if of == NONE:
            raise _Outside(node, f".{node.attr} of None", "give the task its params")
        raise _Outside(node, f".{node.attr} of {of.name}", "use fields of NamedTuples, functions of math, and x.shape")

    def item(self, node: ast.Subscript) -> ValueKind:
        if isinstance(node.value, ast.Subscript) and self.value(node.value.value) == TABLE:
            self.index(node.value.slice)
            self.index(node.slice)
            return FLOAT
        of = self.value(node.value)
        if isinstance(of, TupleKind):
            return self.of_row(node, of)
        if isinstance(of, ArrayKind) or of == TABLE:
            parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            for part in parts:
                if isinstance(part, ast.Slice):
                    raise _Outside(node, "a part of an array", "loop over range(...)")
                self.index(part)
            if not isinstance(of, ArrayKind):
                return FLOAT
            left = of.dimensions - len(parts)
            if left < 0:
                raise _Outside(node, "too many indices", "one for each dimension")
            return of.item if left == 0 else ArrayKind(of.name, of.item, left)
        raise _Outside(node, f"an index of {of.name}", "use indices of tuples and arrays")

    def of_row(self, node: ast.Subscript, of: TupleKind) -> ValueKind:
        if isinstance(node.slice, ast.Slice):
            if of.made_by is not None:
                raise _Outside(node, "a part of a NamedTuple", "name the fields")
            edges = []
            for edge in (node.slice.lower, node.slice.upper, node.slice.step):
                number = None if edge is None else self.fixed(edge)
                if edge is not None and number is None:
                    raise _Outside(node, "a slice with a variable edge", "use constant edges such as [1:]")
                edges.append(number)
            if edges[2] == 0:
                raise _Outside(node, "a slice in steps of 0", "use constant edges such as [1:]")
            return row(of.items[slice(*edges)])
        at = self.fixed(node.slice)
        if at is None:
            self.index(node.slice)
            if not of.items or of.made_by is not None:
                raise _Outside(node, f"a variable index of {of.name}", "use constant indices, or names of fields")
            return self.same(node, of)
        if not -len(of.items) <= at < len(of.items):
            raise _Outside(node, f"index {at} of {of.name}", "use an index within the tuple")
        return of.items[at]

    def same(self, node: ast.AST, of: TupleKind) -> ValueKind:
        """The kind that all items of a tuple have."""
        joined = of.items[0]
        for item in of.items[1:]:
            joined = _join(joined, item)
        if isinstance(joined, Mixed):
            raise _Outside(node, f"a variable index of a tuple that holds {joined.name}", "use constant indices")
        return joined

    def fixed(self, node: ast.expr) -> int | None:
        """A constant index: a number, or the name of one at the level of the module."""
        sign = 1
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            node, sign = node.operand, -1
        if isinstance(node, ast.Constant):
            value = node.value
        elif isinstance(node, ast.Name) and sign == 1 and node.id not in self.local:
            try:
                value = captured(self.function, node.id)
            except KeyError:
                return None
        else:
            return None
        return sign * value if type(value) is int else None

    def index(self, node: ast.expr) -> WholeKind:
        kind = self.value(node)
        if not isinstance(kind, WholeKind):
            raise _Outside(node, f"{kind.name} as an index or a count", _NOT_A_FLOAT)
        return kind

    # ---- calls

    def called(self, node: ast.Call) -> ValueKind:
        if not isinstance(node.func, ast.Name | ast.Attribute):
            raise _Outside(node, "a call of something that has no name", "call functions by their names")
        target = self.value(node.func)
        if not isinstance(target, Thing):
            raise _Outside(node, f"a call of {target.name}", "call functions by their names")
        for part in node.args:
            if isinstance(part, ast.Starred):
                raise _Outside(node, "* before an argument", "name every one")
        if any(word.arg is None for word in node.keywords):
            raise _Outside(node, "** before an argument", "name every one")
        value = target.value
        if isinstance(value, type) and is_named_tuple_type(value):
            fields = self.placed(node, value._fields)  # type: ignore[attr-defined]
            return row(tuple(self.plain(part) for part in fields), value)
        if isinstance(getattr(value, "py_func", value), types.FunctionType):
            code = function_of(value).__code__
            if code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS) or code.co_kwonlyargcount:
                raise _Outside(node, f"an argument with * of {target.name}", "name every one")
            names = code.co_varnames[: code.co_argcount]
            arguments = tuple(self.value(part) for part in self.placed(node, names))
            return self.reader.call(value, arguments, node)
        if node.keywords:
            raise _Outside(node, f"{target.name} with a keyword", "give the arguments by their place")
        if value is range:
            raise _Outside(node, "range(...) outside a for", "write for i in range(n)")
        kinds = [self.value(part) for part in node.args]
        if target.name.startswith("math."):
            return self.of_function(node, target.name, kinds)
        return self.of_builtin(node, target.name, kinds)

    def placed(self, node: ast.Call, names: tuple[str, ...]) -> list[ast.expr]:
        """The arguments in the order of the names that they are for."""
        arguments: dict[str, ast.expr] = dict(zip(names, node.args, strict=False))
        arguments |= {word.arg: word.value for word in node.keywords if word.arg is not None}
        if set(arguments) != set(names) or len(node.args) + len(node.keywords) != len(names):
            what = f"a call with {len(node.args) + len(node.keywords)} of {len(names)} arguments"
            raise _Outside(node, what, "give every argument once; defaults do not compile")
        return [arguments[name] for name in names]

    def of_function(self, node: ast.Call, name: str, kinds: list[ValueKind]) -> ValueKind:
        function = name.removeprefix("math.")
        if len(kinds) != (2 if function in _OF_TWO else 1):
            raise _Outside(node, f"{name} of {len(kinds)} arguments", "give as many as it takes")
        for kind in kinds:
            if kind != FLOAT:
                raise _Outside(node, f"{name} of {kind.name}", _FOR_FLOAT)
        return whole(_FLOORED) if function in ("floor", "ceil") else FLOAT

    def of_builtin(self, node: ast.Call, name: str, kinds: list[ValueKind]) -> ValueKind:
        one = kinds[0] if len(kinds) == 1 else None
        if name in ("min", "max"):
            if one is not None:
                kinds = list(one.items) if isinstance(one, TupleKind) and one.made_by is None else []
            if not kinds or not all(_is_number(kind) for kind in kinds):
                instead = _NOT_A_TRUTH if BOOL in kinds else "write it for numbers, or for a tuple of them"
                raise _Outside(node, f"{name} of {', '.join(kind.name for kind in kinds) or 'something'}", instead)
            joined = kinds[0]
            for kind in kinds[1:]:
                joined = _join(joined, kind)
                if isinstance(joined, Mixed):
                    raise _Outside(node, f"{name} of a whole number and a float", _FOR_FLOAT)
            return joined
        if one is None:
            raise _Outside(node, f"{name} of {len(kinds)} arguments", "give one")
        if name == "len":
            if isinstance(one, ArrayKind) or one == TABLE:
                return whole(_AXIS)
            if not isinstance(one, TupleKind):
                raise _Outside(node, f"len of {one.name}", "use len of a tuple or an array")
            return whole(len(one.items))
        if name == "bool" and (one == BOOL or _is_number(one)):
            return BOOL
        if name == "float" and _is_number(one):
            return FLOAT
        if name == "abs" and _is_number(one):
            return one
        raise _Outside(node, f"{name} of {one.name}", _NOT_A_TRUTH if one == BOOL else "use numbers")

    def unknown(self, node: ast.AST) -> _Outside:
        what, instead = _OTHER_NODES.get(type(node), (type(node).__name__.lower(), "see docs/reference/rules.md"))
        return _Outside(node, what, instead)


def _spelling(mixed: Mixed) -> str:
    names = {FLOAT.name, whole(0).name}
    mixed_kinds = {part for part in names if part in mixed.name}
    if mixed_kinds == names:
        return _FOR_FLOAT
    return _NOT_A_TRUTH if BOOL.name in mixed.name else "use one kind on every path"


def _merged(ways: list[_Names]) -> _Names:
    """What holds after several ways: names that have a value on all of them."""
    merged = dict(ways[0])
    for way in ways[1:]:
        merged = {name: _join(kind, way[name]) for name, kind in merged.items() if name in way}
    return merged


def _is_store(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store | ast.Del)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
