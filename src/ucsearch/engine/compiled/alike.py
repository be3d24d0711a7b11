"""What compiled code would take for something else than Python does, without a word: such rules stay with Python.

A kernel knows a NamedTuple by its fields alone, a number or a table by its values, not by what their classes make of
them. Numbers of fewer than 64 bits widen in it where NumPy keeps them narrow: 0 - 1 is 255 in eight bits and -1 in a
kernel. NumPy's truth values are added up to a truth value, a kernel's to 2. A kernel raises to hand a window over to
Python (`guarded`), which a `try` in a rule would swallow. The final check replays what is released; a rival that was
valued wrongly it would not see.
"""

from __future__ import annotations

import builtins
import dis
import math
import types
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Any

import numpy as np

from ucsearch.engine.compiled.kinds import adds_truths
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
_EXACT = 2**53  # up to here whole numbers and floats compare alike
_TEXTS = frozenset({"str", "repr", "format", "ascii"})  # a kernel writes 1.5 otherwise
_FORMATS = ("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC")  # of f-strings
_ATTRIBUTE = ("LOAD_ATTR", "LOAD_METHOD")
_OF_TYPES = frozenset({"astype", "view", "array", "asarray", "zeros", "ones", "empty", "full", "arange", "dtype"})
_PLAIN = (float, int, tuple, list, np.ndarray)
# What Python, math and NumPy had when we were loaded. A kernel has these, whatever somebody puts in their place.
_PROVIDED = {module: dict(vars(module)) for module in (builtins, math, np)}


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
        held = captured(value)
        _check_code(value, held)
        for held_name, item in held.items():
            _check(item, held_name, seen)
    elif isinstance(value, np.generic):
        _check_width(value.dtype, name)
    elif isinstance(value, _PLAIN):
        _check_value(value, name, seen)
    elif isinstance(value, type) and is_named_tuple_type(value):
        _check_kind(value)
    elif isinstance(value, type) and issubclass(value, np.generic):
        _check_width(np.dtype(value), name)


def _check_value(value: Any, name: str, seen: set[int]) -> None:
    kind = type(value)
    if is_named_tuple_type(kind):
        _check_kind(kind)
    elif kind not in (*_PLAIN, bool) and not _is_plain_enum(kind):
        raise Unalike(f"{name} is a {kind.__name__}, whose own operators a kernel does not ask; use plain numbers")
    if isinstance(value, np.ndarray):
        _check_width(value.dtype, name)
    elif isinstance(value, int) and abs(value) > _EXACT:
        raise Unalike(f"{name} holds {value}, and whole numbers beyond 2**53 are others in a kernel; use a float")
    elif isinstance(value, tuple | list):
        for item in value:
            _check(item, name, seen)


def _is_plain_enum(kind: type) -> bool:
    """An `IntEnum` without operators of its own."""
    own = {name for base in kind.__mro__ if base.__module__ not in ("enum", "builtins") for name in vars(base)}
    return issubclass(kind, Enum) and not own & (set(vars(int)) - set(vars(object)) - {"__new__", "__format__"})


def _check_width(dtype: np.dtype[Any], name: str) -> None:
    if dtype.kind in _NUMBERS and dtype.str[1:] not in _ALIKE:
        raise Unalike(f"{name} holds {dtype}, which is as narrow in Python only; use float64 or int64")


def _check_code(function: types.FunctionType, held: dict[str, Any]) -> None:
    """What stands in a function itself: kinds of numbers by whatever name, whole numbers that grow, texts."""
    name = function.__name__
    codes = list(_codes(function.__code__))
    names = {found for code in codes for found in code.co_names}
    for code in codes[1:]:
        # numba pastes it in, whether the line that defines it was reached or not.
        if not code.co_name.endswith(("comp>", "expr>")):
            raise Unalike(f"{name} defines a function inside, {code.co_name}; write it at the level of the module")
    for code in codes:
        before = None
        for step in dis.get_instructions(code):
            module: Any = None if before is None or step.opname not in _ATTRIBUTE else held.get(before.argval)
            of_numpy = _is_numpy(module)
            if isinstance(module, types.ModuleType):
                _check_provided(module, vars(module), str(step.argval), name)
            elif step.opname == "LOAD_GLOBAL" and step.argval not in held:
                _check_provided(builtins, getattr(function, "__builtins__", {}), str(step.argval), name)
            if step.opname in _ATTRIBUTE and (of_numpy or step.argval in _NARROW):
                _check_attribute(str(step.argval), name)
            elif step.opname == "LOAD_GLOBAL" and step.argval in _TEXTS and step.argval not in held:
                raise Unalike(f"{name} uses {step.argval}, and a kernel writes numbers otherwise; compare numbers")
            elif step.opname in _FORMATS:
                raise Unalike(f"{name} writes a text, and a kernel writes numbers otherwise; compare numbers")
            elif step.opname == "PUSH_EXC_INFO":
                raise Unalike(f"{name} uses try, and a kernel raises elsewhere than Python; test the condition before")
            elif step.argrepr in ("<<", "<<="):
                raise Unalike(f"{name} uses <<, which loses bits in a kernel; multiply floats")
            before = step
        for const in code.co_consts:
            if isinstance(const, int) and abs(const) > _EXACT:
                _check_value(const, name, set())
            elif isinstance(const, str) and names & _OF_TYPES:
                _check_width(_named(const), f"{name} names {const!r}, which")
    if any(_of_numpy(item) for item in held.values()) and adds_truths(function, held):
        raise Unalike(f"{name} adds up truth values, and NumPy's are or-ed in Python; use 1.0 and 0.0")


def _check_provided(module: types.ModuleType, space: dict[str, Any], read: str, name: str) -> None:
    provided = _PROVIDED.get(module, {})
    own, before = space.get(read), provided.get(read)
    replaced = read in provided and own is not before
    if replaced or (module is not np and read in provided and isinstance(own, types.FunctionType)):
        raise Unalike(f"{name} uses {read}, which was replaced in {module.__name__}; a kernel has the one of Python")


def _named(text: str) -> np.dtype[Any]:
    """The kind that a text names, or that of all numbers."""
    try:
        return np.dtype(text)
    except Exception:  # NumPy reads it as a program of its own: what a text is not, it says in many ways
        return np.dtype(float)


def _check_attribute(attribute: str, name: str) -> None:
    kind = getattr(np, attribute, None)
    if isinstance(kind, type) and issubclass(kind, np.generic):
        dtype = np.dtype(kind)
        if dtype.kind in _NUMBERS and dtype.str[1:] not in _ALIKE:
            raise Unalike(f"{name} uses {attribute}, which is as narrow in Python only; use float64 or int64")


def _is_numpy(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and value.__name__ == "numpy"


def _of_numpy(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic | np.ufunc) or _is_numpy(value)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from _codes(const)


def _check_kind(kind: Any) -> None:
    maker: type = type(kind)
    if maker is not type:
        raise Unalike(f"{kind.__name__} is made by {maker.__name__}, which a kernel does not ask")
    asked = _OF_TUPLES.union(kind._fields)
    for base in kind.__mro__[: kind.__mro__.index(tuple)]:
        for name, held in vars(base).items():
            if name in asked and not of_named_tuple(name, held):
                raise Unalike(f"{kind.__name__} has a {name} of its own, which a kernel does not ask; use a function")
