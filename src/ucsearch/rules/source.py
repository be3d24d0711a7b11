"""A function as it is loaded: its syntax tree, read from its file and proved to be that code, and what it captures."""

from __future__ import annotations

import ast
import dis
import linecache
import textwrap
import threading
import types
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

__all__ = [
    "Definition",
    "Unreadable",
    "captured",
    "definition",
    "definition_text",
    "function_of",
    "global_names",
    "parsed",
]

Definition = ast.FunctionDef | ast.Lambda
_MOST_KEPT = 256  # files


class Unreadable(Exception):
    """The text of this function cannot be read; the message says why."""


def function_of(value: Any) -> types.FunctionType:
    """The Python function behind `value` (a numba dispatcher keeps it as `py_func`)."""
    function = getattr(value, "py_func", value)
    if not isinstance(function, types.FunctionType):
        raise Unreadable(f"{value!r} is not a plain Python function")
    return function


@lru_cache(maxsize=2048)
def global_names(code: types.CodeType) -> frozenset[str]:
    """The names that a function's code, or a function inside it, reads as globals or builtins."""
    names = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    inner = (const for const in code.co_consts if isinstance(const, types.CodeType))
    return frozenset(names.union(*map(global_names, inner)))


def captured(function: types.FunctionType) -> dict[str, Any]:
    """Globals and closure values that a function reads, builtins left out."""
    space = function.__globals__
    values = {name: space[name] for name in sorted(global_names(function.__code__)) if name in space}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            values[name] = cell.cell_contents
        except ValueError:
            raise Unreadable(f"{function.__name__} captures {name!r} before it has a value") from None
    return values


_PARSING = threading.Lock()


def parsed(text: str) -> ast.Module:
    """Python's own parser, one text at a time: in 3.11 it counts its depth for all threads together, and two of them at
    once may end in a SystemError."""
    with _PARSING:
        try:
            return ast.parse(text)
        except SystemError:  # somebody else's thread parsed meanwhile
            return ast.parse(text)


class _File:
    """A file as it was when its lines were read."""

    def __init__(self, name: str, lines: list[str]) -> None:
        self.lines = lines
        text = "".join(lines)
        self.tree = parsed(text)
        compiled = compile(text, name, "exec", dont_inherit=True)
        self.codes: dict[tuple[str, int], list[types.CodeType]] = {}
        for code in _nested(compiled):
            self.codes.setdefault((code.co_name, code.co_firstlineno), []).append(code)
        self.nodes: dict[tuple[str, int], list[Definition]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Lambda):
                self.nodes.setdefault(("<lambda>", node.lineno), []).append(node)
            elif isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                self.nodes.setdefault((node.name, first), []).append(node)


_files: dict[str, _File] = {}
_found: dict[types.CodeType, tuple[list[str], Definition]] = {}


def definition(function: types.FunctionType) -> Definition:
    """The `def` statement or lambda of a function. Raises `Unreadable` where its file is not at hand, or has changed
    since the function was loaded. Callers leave the tree as it is."""
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    kept = _found.get(code)
    if kept is not None and kept[0] is lines:
        return kept[1]
    node = _definition(function.__name__, code, lines)
    if len(_found) >= 16 * _MOST_KEPT:
        _found.clear()
    _found[code] = lines, node
    return node


def definition_text(function: types.FunctionType) -> str:
    """The definition as it is written, without its decorators and from the left margin."""
    node = definition(function)
    text = ast.get_source_segment("".join(_found[function.__code__][0]), node) or ""
    return textwrap.dedent(" " * node.col_offset + text)


def _definition(name: str, code: types.CodeType, lines: list[str]) -> Definition:
    if not lines:
        raise Unreadable(f"{name} has no readable source")
    file = _files.get(code.co_filename)
    if file is None or file.lines is not lines:
        if len(_files) >= _MOST_KEPT:
            _files.clear()
        try:
            file = _files[code.co_filename] = _File(code.co_filename, lines)
        except (SyntaxError, ValueError) as error:
            raise Unreadable(f"{name} has no readable source ({error})") from None
    place = (code.co_name, code.co_firstlineno)
    if all(_shape(code) != _shape(other) for other in file.codes.get(place, ())):
        raise Unreadable(f"{name}'s source no longer matches the loaded code")
    nodes = [node for node in file.nodes.get(place, ()) if _holds(node, code)]
    if not nodes:
        raise Unreadable(f"{name} is neither a def statement nor a lambda")
    return nodes[-1]  # the innermost of lambdas within lambdas


def _holds(node: Definition, code: types.CodeType) -> bool:
    """Whether the code's instructions stand within this node: several lambdas may stand on one line."""
    if isinstance(node, ast.FunctionDef):
        return True
    body = node.body
    first, last = (body.lineno, body.col_offset), (body.end_lineno or 0, body.end_col_offset or 0)
    places = [p for p in code.co_positions() if None not in p and p[2] != p[3]]
    return all(first <= (p[0], p[2]) and (p[1], p[3]) <= last for p in places)


def _nested(code: types.CodeType) -> Iterator[types.CodeType]:
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield const
            yield from _nested(const)


def _shape(code: types.CodeType) -> Any:
    consts = tuple(_shape(c) if isinstance(c, types.CodeType) else (type(c).__name__, repr(c)) for c in code.co_consts)
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, consts
