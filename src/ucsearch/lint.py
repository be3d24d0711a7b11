"""Read a task's functions for what is not compiled, or does not compute the same in both engines (SPEC section 9)."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ucsearch.signatures import parsed
from ucsearch.sources import Unsourced, captured, plain_function

__all__ = ["LAST_DIGITS", "Finding", "lint_function", "lint_task"]


@dataclass(frozen=True)
class Finding:
    """One place in a user's function. `compiles` is False when numba refuses it, or we do."""

    function: str
    file: str
    line: int
    what: str
    instead: str
    compiles: bool

    def __str__(self) -> str:
        return f"{self.function} ({self.file}:{self.line}): {self.what}; {self.instead}"


_NODES: dict[type[ast.AST], tuple[str, str]] = {
    ast.GeneratorExp: ("a generator expression", "write a for loop"),
    ast.DictComp: ("a dict comprehension", "use tuples and a for loop"),
    ast.SetComp: ("a set comprehension", "use tuples and a for loop"),
    ast.With: ("a with statement", "keep input and output outside the task"),
    ast.Global: ("a global statement", "pass the value through params"),
    ast.Yield: ("yield", "return a value"),
    ast.Try: ("try", "test the condition before the operation"),
}
_METHODS = {"_replace": "write State(...) with every field", "_asdict": "read the fields by name"}
_DIFFER = {
    "sum": ("sum() (compensated on Python 3.12 and later)", "add up in a for loop"),
    "hypot": ("hypot", "write math.sqrt(x * x + y * y)"),
    "gamma": ("gamma", "tabulate it in params"),
    "lgamma": ("lgamma", "tabulate it in params"),
    "power": ("np.power", "write x ** y"),
}
# Functions of NumPy, and methods of arrays, that a kernel sums up in another order or rounds otherwise.
LAST_DIGITS = frozenset({
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "arcsin", "arccos", "arctan",
    "arctan2", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "cbrt", "hypot", "power", "float_power",
    "logaddexp", "mod", "remainder", "sum", "mean", "std", "var", "linspace",
})  # fmt: skip


def lint_function(function: Callable[..., Any], role: str = "") -> list[Finding]:
    """Findings in `function` and in the helpers it calls, in source order."""
    found: list[Finding] = []
    _walk(function, role, found, set())
    return sorted(found, key=lambda f: (f.file, f.line))


def lint_task(functions: dict[str, Callable[..., Any]]) -> list[Finding]:
    """Findings in what the engines compile; a fallback or invariant only ever runs as plain Python."""
    compiled = {role: f for role, f in functions.items() if role not in ("fallback", "invariant")}
    return [finding for role, f in compiled.items() for finding in lint_function(f, role)]


def _walk(function: Callable[..., Any], role: str, found: list[Finding], seen: set[int]) -> None:
    try:
        plain = plain_function(function)
        source, start = inspect.getsourcelines(plain)
        tree = parsed(textwrap.dedent("".join(source)))
    except (Unsourced, OSError, TypeError, SyntaxError):
        return
    if id(plain) in seen:
        return
    seen.add(id(plain))
    file = plain.__code__.co_filename
    name = role or plain.__name__
    definition = next((n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)), None)
    for node in ast.walk(definition or tree):
        for what, instead, compiles in _judge(node):
            line = start + getattr(node, "lineno", 1) - 1
            found.append(Finding(name, file, line, what, instead, compiles))
    try:
        helpers = captured(plain)
    except Unsourced:
        return
    for helper, value in helpers.items():
        if inspect.isfunction(getattr(value, "py_func", value)):
            _walk(value, f"{name} -> {helper}", found, seen)


def _judge(node: ast.AST) -> Iterator[tuple[str, str, bool]]:
    if type(node) in _NODES:
        what, instead = _NODES[type(node)]
        yield what, instead, False
    if isinstance(node, ast.Attribute) and node.attr in _METHODS:
        yield f".{node.attr}", _METHODS[node.attr], False
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        for edge in (node.slice.lower, node.slice.upper):
            if edge is not None and not _constant(edge):
                yield "a tuple slice with a variable edge", "use constant edges such as [1:]", False
                break
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and _constant(node.right):
        yield "** with a constant exponent", "multiply it out: x * x", True
    if isinstance(node, ast.Call):
        called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        of_math = isinstance(node.func, ast.Name) or ast.unparse(node.func).startswith("math.")
        if called in _DIFFER and (of_math or called not in LAST_DIGITS or called == "power"):
            what, instead = _DIFFER[called]
            yield what, instead, True
        elif called in LAST_DIGITS and not of_math:
            yield f"{called} of NumPy (other last digits)", "use math, or add up in a for loop", True
        if called == "round" and len(node.args) > 1:
            yield "round(x, n)", "write math.floor(x * scale + 0.5) / scale", False


def _constant(node: ast.AST) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _constant(node.operand)
    return isinstance(node, ast.Constant)
