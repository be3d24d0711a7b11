"""What compiled code would take for something else than Python does, without a word: such rules stay with Python.

A kernel knows a NamedTuple by its fields alone, not by what its class makes of them, and numbers of fewer than 64 bits
widen in it where NumPy keeps them narrow: 0 - 1 is 255 in eight bits and -1 in a kernel. The last look replays what is
released; a rival that was valued wrongly it would not see.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ucsearch.hidden import of_named_tuple
from ucsearch.layout import is_named_tuple_type
from ucsearch.sources import Unsourced, captured, plain_function

__all__ = ["Unalike", "refuse_unalike"]

# What numba does with a tuple itself, whatever its class says.
_OF_TUPLES = frozenset({
    "__new__", "__init__", "__getattribute__", "__getitem__", "__len__", "__iter__", "__contains__", "__bool__",
    "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__add__", "__radd__", "__mul__", "__rmul__",
    "count", "index",
})  # fmt: skip
_NARROW = frozenset({
    "float16", "float32", "float128", "longdouble", "int8", "int16", "int32", "intc", "uint8", "uint16", "uint32",
    "uint64",
})  # fmt: skip
_NUMBERS = "fiu"  # kinds of NumPy's numbers; truth values are the same in both
_ALIKE = ("f8", "i8")


class Unalike(Unsourced):
    """A kernel of these rules would compute something else; the message says why."""


def refuse_unalike(functions: Iterable[Callable[..., Any]], kinds: Iterable[type | None]) -> None:
    """Raise `Unalike` where a kernel of these functions, on states and parameters of these classes, would not do what
    Python does."""
    for kind in kinds:
        if kind is not None:
            _check_kind(kind)
    seen: set[int] = set()
    for function in functions:
        _check(plain_function(function), "a rule", seen)


def _check(value: Any, name: str, seen: set[int]) -> None:
    value = getattr(value, "py_func", value)
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, types.FunctionType):
        for narrow in sorted(_names(value.__code__) & _NARROW):
            raise Unalike(f"{value.__name__} uses {narrow}, which is as narrow in Python only; use float64 or int64")
        for held_name, held in captured(value).items():
            _check(held, held_name, seen)
    elif isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind in _NUMBERS and value.dtype.str[1:] not in _ALIKE:
            raise Unalike(f"{name} holds {value.dtype}, which is as narrow in Python only; use float64 or int64")
    elif isinstance(value, tuple | list):
        if is_named_tuple_type(type(value)):
            _check_kind(type(value))
        for item in value:
            _check(item, name, seen)
    elif isinstance(value, type) and is_named_tuple_type(value):
        _check_kind(value)


def _names(code: types.CodeType) -> set[str]:
    inner = (const for const in code.co_consts if isinstance(const, types.CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _check_kind(kind: Any) -> None:
    maker: type = type(kind)
    if maker is not type:
        raise Unalike(f"{kind.__name__} is made by {maker.__name__}, which a kernel does not ask")
    asked = _OF_TUPLES.union(kind._fields)
    for base in kind.__mro__[: kind.__mro__.index(tuple)]:
        for name, held in vars(base).items():
            if name in asked and not of_named_tuple(name, held):
                raise Unalike(f"{kind.__name__} has a {name} of its own, which a kernel does not ask; use a function")
