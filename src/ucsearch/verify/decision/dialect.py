"""Which rules the verifier runs as machine code: those of so simple a form that it gives Python's answers.

Arithmetic, comparisons, branches, loops and tuples; a few built-in functions, those of `math`, the task's own named
tuples, and helpers of the same kind. Every local name is assigned on every way to where it is read. All else stays with
Python.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import inspect
import math
import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any

Function = Callable[..., Any]
BUILT_IN: frozenset[Any] = frozenset({min, max, abs, float, bool, len, range})
MATH: frozenset[Any] = frozenset({
    math.sqrt, math.floor, math.ceil, math.exp, math.log, math.sin, math.cos, math.tan, math.tanh, math.atan,
    math.atan2, math.log2, math.log10, math.expm1, math.log1p, math.copysign,
})  # fmt: skip
_NODES = (
    ast.arguments, ast.arg, ast.Return, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.While, ast.If, ast.Expr,
    ast.Pass, ast.Break, ast.Continue, ast.BoolOp, ast.And, ast.Or, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div,
    ast.FloorDiv, ast.Mod, ast.UnaryOp, ast.Not, ast.USub, ast.UAdd, ast.IfExp, ast.Compare, ast.Eq, ast.NotEq, ast.Lt,
    ast.LtE, ast.Gt, ast.GtE, ast.Call, ast.Constant, ast.Attribute, ast.Subscript, ast.Slice, ast.Name, ast.Tuple,
    ast.Load, ast.Store,
)  # fmt: skip
MISSING = object()
_LARGEST = 2.0**31  # of a whole number that `floor` gives: products of two of them do not overflow


class NotCompiled(Exception):
    """This rule is left to Python."""


def read(function: Any, digest: Any) -> Iterator[tuple[str, Any]]:
    """What the function's names mean, by name; all that its answers depend on is taken into the digest. Raises
    `NotCompiled`."""
    if not isinstance(function, types.FunctionType):
        raise NotCompiled(f"{function!r} is no plain function")
    code = function.__code__
    if function.__defaults__ or function.__kwdefaults__:
        raise NotCompiled(f"{code.co_name} has default arguments")
    names = _check(_definition(function))
    digest.update(repr((code.co_code, code.co_varnames, code.co_names, code.co_freevars, code.co_argcount)).encode())
    digest.update(repr([_plain(c, code) for c in code.co_consts]).encode())
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    for name in sorted(names):
        try:
            value = cells[name].cell_contents if name in cells else function.__globals__.get(name, MISSING)
        except ValueError:
            raise NotCompiled(f"{code.co_name} reads {name}, which has no value") from None
        if value is MISSING:
            value = getattr(builtins, name, MISSING)
        digest.update(f"\0{name}=".encode())
        digest.update(_said(value).encode())
        yield name, value


def _plain(value: Any, code: types.CodeType) -> Any:
    if isinstance(value, types.CodeType):
        raise NotCompiled(f"{code.co_name} holds a function")
    return value.hex() if isinstance(value, float) else value


def _said(value: Any) -> str:
    """A captured value as text that differs whenever the value does."""
    if isinstance(value, float):
        return value.hex()
    if value is None or isinstance(value, bool | int | str):
        return repr(value)
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return f"({','.join(map(_said, value))})"
    if value is math or isinstance(value, types.FunctionType):
        return getattr(value, "__name__", "")
    if isinstance(value, types.BuiltinFunctionType | type) and (value in BUILT_IN or value in MATH):
        return value.__name__
    if isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
        return f"{value.__name__}{value._fields}"
    if type(value).__module__ == "numpy" and type(value).__name__ == "ndarray" and value.dtype.kind == "f":
        return f"{value.dtype.str}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    raise NotCompiled(f"{value!r} is not a value that is compiled")


# -------------------------------------------------------------------- form


def _definition(function: types.FunctionType) -> ast.FunctionDef:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError, TypeError, IndentationError) as error:
        raise NotCompiled(f"{function.__name__} has no readable source ({error})") from None
    if len(tree.body) != 1 or not isinstance(tree.body[0], ast.FunctionDef) or tree.body[0].decorator_list:
        raise NotCompiled(f"{function.__name__} is no plain def statement")
    return tree.body[0]


def _check(node: ast.FunctionDef) -> set[str]:
    """The names that are not the function's own."""
    arguments = node.args
    if arguments.vararg or arguments.kwarg or arguments.kwonlyargs:
        raise NotCompiled(f"{node.name} takes other arguments than by place")
    # Annotations of local names mean nothing when the function runs.
    notes = {id(x) for n in ast.walk(node) if isinstance(n, ast.AnnAssign) for x in ast.walk(n.annotation)}
    parts = [x for statement in node.body for x in ast.walk(statement) if id(x) not in notes]
    for part in parts:
        if not isinstance(part, _NODES):
            raise NotCompiled(f"{node.name} holds {type(part).__name__}")
        if isinstance(part, ast.Call) and (part.keywords or any(isinstance(x, ast.Starred) for x in part.args)):
            raise NotCompiled(f"{node.name} calls with other arguments than by place")
        if isinstance(part, ast.For | ast.While) and part.orelse:
            raise NotCompiled(f"{node.name} has a loop with else")
        if isinstance(part, ast.Attribute | ast.Subscript) and isinstance(part.ctx, ast.Store):
            raise NotCompiled(f"{node.name} changes a part of a value")
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    parameters = {a.arg for a in [*arguments.posonlyargs, *arguments.args]}
    _assigned(node.body, parameters, names, node.name)
    return {n.id for n in parts if isinstance(n, ast.Name)} - names - parameters


def _assigned(body: list[ast.stmt], known: set[str], local: set[str], rule: str) -> set[str] | None:
    """The names that have a value after these statements; None where nothing comes after them."""
    now = set(known)
    for s in body:
        if isinstance(s, ast.If):
            _read(s.test, now, local, rule)
            ways = [_assigned(s.body, now, local, rule), _assigned(s.orelse, now, local, rule)]
            after = [way for way in ways if way is not None]
            if not after:
                return None
            now = set.intersection(*after)
        elif isinstance(s, ast.While):
            _read(s.test, now, local, rule)
            _assigned(s.body, now, local, rule)
        elif isinstance(s, ast.For):
            _read(s.iter, now, local, rule)
            _assigned(s.body, now | _stored(s.target), local, rule)
        elif isinstance(s, ast.Return | ast.Break | ast.Continue):
            _read(s, now, local, rule)
            return None
        elif isinstance(s, ast.AugAssign):
            _read(s.value, now, local, rule)
            if isinstance(s.target, ast.Name) and s.target.id not in now:
                raise NotCompiled(f"{rule} reads {s.target.id} before it has a value")
        elif isinstance(s, ast.AnnAssign):
            if s.value is not None:
                _read(s.value, now, local, rule)
                now |= _stored(s.target)
        elif isinstance(s, ast.Assign):
            _read(s.value, now, local, rule)
            for target in s.targets:
                now |= _stored(target)
        else:
            _read(s, now, local, rule)
    return now


def _stored(target: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}


def _read(node: ast.AST, known: set[str], local: set[str], rule: str) -> None:
    for n in ast.walk(node):
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in local and n.id not in known:
            raise NotCompiled(f"{rule} reads {n.id} before it has a value")


# -------------------------------------------------------------------- math that raises where Python's does


def checked(function: Function, jit: Callable[[Function], Function]) -> Function:
    """A function of `math` that raises where Python's may: machine code would go on with what is no number."""
    if function in (math.floor, math.ceil):

        def whole(x: Any) -> Any:
            if not abs(x) < _LARGEST:
                raise ArithmeticError
            return function(x)

        return jit(whole)
    if function in (math.atan2, math.copysign):

        def of_two(x: Any, y: Any) -> Any:
            if not (math.isfinite(x) and math.isfinite(y)):
                raise ArithmeticError
            return function(x, y)

        return jit(of_two)

    def of_one(x: Any) -> Any:
        found = function(x)
        if not math.isfinite(found):
            raise ArithmeticError
        return found

    return jit(of_one)
