"""Read a user's functions as text that stands alone: their source, their helpers, their captured constants.

The text feeds the generated modules of kernels. Formatting, comments, docstrings and annotations do not count; a
changed constant in a closure or module does.
"""

from __future__ import annotations

import ast
import dis
import inspect
import math
import textwrap
import types
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from ucsearch.layout import is_named_tuple_type
from ucsearch.rules.source import parsed

__all__ = ["Bundle", "Unsourced", "captured", "plain_function"]

_MAX_ARRAY = 4096  # a larger captured array belongs in params or in the outcomes
_BUILTINS = vars(__import__("builtins"))
_PREFIX = "usr_"  # nothing of ours is called so: a user's name can never hide one of ours
_FIXED_MODULES = ("math", "cmath", "numpy")  # whose attributes are the same in every process


class Unsourced(Exception):
    """This function cannot be written out as text that stands alone; the message says why."""


def plain_function(function: Callable[..., Any]) -> types.FunctionType:
    """The Python function behind `function` (a numba dispatcher keeps it as `py_func`)."""
    function = getattr(function, "py_func", function)
    if not isinstance(function, types.FunctionType):
        raise Unsourced(f"{function!r} is not a plain Python function")
    return function


def captured(function: types.FunctionType) -> dict[str, Any]:
    """Globals and closure values that `function` reads, builtins left out."""
    found: dict[str, Any] = {}
    for name in sorted(_global_names(function.__code__)):
        if name in function.__globals__:
            found[name] = function.__globals__[name]
        elif name not in _BUILTINS:
            raise Unsourced(f"{function.__name__} uses the undefined name {name!r}")
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            raise Unsourced(f"{function.__name__} captures {name!r} before it has a value") from None
    return found


class Bundle:
    """Definitions in dependency order; equal objects are written once, clashing names are renamed."""

    def __init__(self, wrap: str = "") -> None:
        self.wrap = wrap  # a decorator's name put on every function
        self.lines: list[str] = []
        self._by_id: dict[int, str] = {}
        self._taken: set[str] = set()
        self._keep: list[Any] = []  # ids stay valid while the objects live

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    @property
    def functions(self) -> list[types.FunctionType]:
        """Every function written."""
        return [value for value in self._keep if isinstance(value, types.FunctionType)]

    def add(self, value: Any, name: str) -> str:
        """Write `value` (once) and return the name it has in the text."""
        value = getattr(value, "py_func", value)
        if id(value) in self._by_id:
            return self._by_id[id(value)]
        if isinstance(value, types.FunctionType):
            return self._add_function(value, name)
        unique = self._claim(value, name)
        if isinstance(value, types.ModuleType):
            if value.__name__ not in _FIXED_MODULES:
                raise Unsourced(f"reads the module {value.__name__!r}; import the values themselves")
            self.lines.append(f"import {value.__name__} as {unique}")
        elif is_named_tuple_type(value):
            self.lines.append(f"{unique} = collections.namedtuple({value.__name__!r}, {tuple(value._fields)!r})")
        elif isinstance(value, types.BuiltinFunctionType | np.ufunc):
            self.lines.append(f"from {_home(value)} import {value.__name__} as {unique}")
        else:
            self.lines.append(f"{unique} = {self._literal(value, name)}")
        return unique

    def _claim(self, value: Any, name: str) -> str:
        unique, i = _PREFIX + name, 1
        while unique in self._taken:
            i += 1
            unique = f"{_PREFIX}{name}_{i}"
        self._taken.add(unique)
        self._by_id[id(value)] = unique
        self._keep.append(value)
        return unique

    def _literal(self, value: Any, name: str) -> str:
        if value is None or isinstance(value, bool | str):
            return repr(value)
        if isinstance(value, int | np.integer):
            return repr(int(value))
        if isinstance(value, float | np.floating):
            number = float(value)
            return repr(number) if math.isfinite(number) else f"float({str(number)!r})"
        if is_named_tuple_type(type(value)):
            kind = self.add(type(value), type(value).__name__)
            return f"{kind}({', '.join(self._literal(x, name) for x in value)})"
        if isinstance(value, tuple):
            return "(" + "".join(self._literal(x, name) + ", " for x in value) + ")"
        if isinstance(value, np.ndarray) and value.size <= _MAX_ARRAY and value.dtype.kind in "fiub":
            if value.dtype.kind == "f" and not np.isfinite(value).all():
                raise Unsourced(f"the captured array {name!r} holds NaN or infinity")
            return f"numpy.array({value.tolist()!r}, dtype={value.dtype.str!r}).reshape({value.shape!r})"
        kind = type(value).__name__
        raise Unsourced(f"the captured {name!r} is a {kind}; use a number, tuple, small array or function")

    def _add_function(self, function: types.FunctionType, name: str) -> str:
        text = _definition(function)
        unique = self._claim(function, name)
        renames = {function.__name__: unique} if function.__name__ in _global_names(function.__code__) else {}
        for used, value in captured(function).items():
            if value is function:
                continue
            renames[used] = self.add(value, used)
        local = set(_local_names(function.__code__))
        clash = [a for a, b in renames.items() if a != b and a in local]
        if clash:
            raise Unsourced(f"{function.__name__} uses {clash[0]!r} both as a local and as a captured name")
        if self.wrap:
            self.lines.append(f"@{self.wrap}")
        self.lines.append(_renamed(text, unique, tuple((a, b) for a, b in renames.items() if a != b)))
        return unique


def _definition(function: types.FunctionType) -> str:
    """The function's own text, for one that stands alone."""
    text = _bare(function)
    code = function.__code__
    takes_more = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    if takes_more or code.co_kwonlyargcount or _read(text).args.defaults:
        raise Unsourced(f"{function.__name__} has default or variable arguments")
    return text


def _bare(function: types.FunctionType, decorated: bool = False) -> str:
    """The function's text without what does not count, proved to be the code that is loaded (the file may have changed
    since)."""
    try:
        source = _source(function)
    except (OSError, TypeError, SyntaxError) as error:
        raise Unsourced(f"{function.__name__} has no readable source ({error})") from None
    code, space = function.__code__, function.__globals__
    names = sorted(_global_names(code) - set(_BUILTINS))
    modules = tuple(name for name in names if isinstance(space.get(name), types.ModuleType))
    return _proved(source, function.__name__, code, modules, decorated)


# By code: the lines of its file when it was read, and its own among them. A file that is read again has other lines.
_BLOCKS: dict[types.CodeType, tuple[list[str], str]] = {}


def _source(function: types.FunctionType) -> str:
    """`inspect.getsource`, without looking for a function's end in lines that were looked through before."""
    found: types.FunctionType = inspect.unwrap(function)
    lines, first = inspect.findsource(found)
    kept = _BLOCKS.get(found.__code__)
    if kept is not None and kept[0] is lines:
        return kept[1]
    if len(_BLOCKS) >= 1024:
        _BLOCKS.clear()
    source = textwrap.dedent("".join(inspect.getblock(lines[first:])))
    _BLOCKS[found.__code__] = lines, source
    return source


# Proving and writing out one function takes milliseconds, and every task made of the same ones asks again.
@lru_cache(maxsize=1024)
def _proved(source: str, name: str, code: types.CodeType, modules: tuple[str, ...], decorated: bool) -> str:
    try:
        tree = parsed(source)
    except SyntaxError as error:
        raise Unsourced(f"{name} has no readable source ({error})") from None
    node = tree.body[0] if len(tree.body) == 1 else None
    if not isinstance(node, ast.FunctionDef):
        raise Unsourced(f"{name} is not a def statement")
    if node.decorator_list and not decorated and not _only_jit(node):
        raise Unsourced(f"{name} is decorated")
    node.decorator_list = []
    if not _is_loaded_code(node, code, modules):
        raise Unsourced(f"{name}'s source no longer matches the loaded code")
    node.returns = None
    for arg in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]:
        arg.annotation = None
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(ast.fix_missing_locations(node))


def _read(text: str) -> ast.FunctionDef:
    node = parsed(text).body[0]
    if not isinstance(node, ast.FunctionDef):
        raise Unsourced("not a def statement")
    return node


@lru_cache(maxsize=1024)
def _renamed(text: str, name: str, renames: tuple[tuple[str, str], ...]) -> str:
    """The definition under another name, with other names for what it captures."""
    node = _Rename(dict(renames)).visit(_read(text))
    node.name = name
    return ast.unparse(ast.fix_missing_locations(node))


def _only_jit(node: ast.FunctionDef) -> bool:
    names = [ast.unparse(d).split("(")[0].split(".")[-1] for d in node.decorator_list]
    return all(n in ("njit", "jit", "register_jitable") for n in names)


def _is_loaded_code(node: ast.FunctionDef, code: types.CodeType, modules: tuple[str, ...]) -> bool:
    """Compare bytecode. CPython compiles `name.attribute(...)` differently when `name` was imported in the same
    file, so three readings are tried: nothing imported, modules imported, every captured name imported."""
    names = tuple(sorted(_global_names(code) - set(_BUILTINS)))
    readings: tuple[tuple[str, ...], ...] = ((), modules, names)
    return any(_shape(_recompile(node, code.co_freevars, imports)) == _shape(code) for imports in readings)


def _recompile(node: ast.FunctionDef, freevars: tuple[str, ...], imports: tuple[str, ...]) -> types.CodeType:
    imported: list[ast.stmt] = [ast.Import([ast.alias(name)]) for name in imports if name != node.name]
    if not freevars:
        return _find(compile(ast.fix_missing_locations(ast.Module([*imported, node], [])), "<source>", "exec"), node)
    body: list[ast.stmt] = [
        ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None), lineno=1) for name in freevars
    ]
    empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    outer = ast.FunctionDef("outer", empty, [*body, node], [], lineno=1)
    if "type_params" in ast.FunctionDef._fields:  # Python >= 3.12
        outer.type_params = []  # type: ignore[attr-defined,unused-ignore]
    return _find(compile(ast.fix_missing_locations(ast.Module([*imported, outer], [])), "<source>", "exec"), node)


def _find(code: types.CodeType, node: ast.FunctionDef) -> types.CodeType:
    for const in _nested(code):
        if const.co_name == node.name:
            return const
    raise Unsourced(f"{node.name} cannot be recompiled")


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield const
            yield from _nested(const)


def _shape(code: types.CodeType) -> Any:
    consts = tuple(_shape(c) if isinstance(c, types.CodeType) else (type(c).__name__, repr(c)) for c in code.co_consts)
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, consts


@lru_cache(maxsize=2048)
def _global_names(code: types.CodeType) -> frozenset[str]:
    names = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for inner in _nested(code):
        names |= {i.argval for i in dis.get_instructions(inner) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return frozenset(names)


def _local_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_varnames
    yield from code.co_cellvars
    for inner in _nested(code):
        yield from inner.co_varnames


def _home(value: Any) -> str:
    module = getattr(value, "__module__", None)
    if isinstance(value, np.ufunc):
        return "numpy"
    if not isinstance(module, str):
        raise Unsourced(f"{value!r} has no importable home")
    return module


class _Rename(ast.NodeTransformer):
    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self.names.get(node.id, node.id)
        return node
