"""Where classes and values keep content that is easily overlooked: enums, tuples, wrappers, dtypes, names, clocks."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import functools
import hashlib
import operator
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from ucsearch.codeform import attributes, nested
from ucsearch.provided import CLOCKS, Unhashable, article, resolves

__all__ = [
    "Notes", "array_words", "asked_again", "cached_names", "class_extras", "has_state", "is_compiled",
    "is_enum_machinery", "member_extras", "of_named_tuple", "wrapped_parts",
]  # fmt: skip

NAMES = frozenset({"__name__", "__qualname__"})
_OF_A_MEMBER = frozenset({"_value_", "_name_", "__objclass__", "_sort_order_"})
_COMPILED = (types.WrapperDescriptorType, types.MethodDescriptorType, types.BuiltinFunctionType)


def is_enum_machinery(name: str, held: Any, kind: type) -> bool:
    """Whether an attribute of an enum is one of its members, or was put there by Python."""
    if isinstance(held, kind):
        return True
    if not name.startswith("_"):
        return False
    if isinstance(held, types.FunctionType):
        return held.__globals__.get("__name__") == "enum"
    if isinstance(held, staticmethod | classmethod | property):
        return False
    return isinstance(held, _COMPILED) or name.endswith("_")


def member_extras(kind: type[enum.Enum]) -> list[tuple[dict[str, Any], str, Any]]:
    """What members of an enum hold beside their names and values: their attributes, a name, what it holds."""
    return [
        (vars(one), name, held)
        for one in kind.__members__.values()
        for name, held in sorted(vars(one).items())
        if name not in _OF_A_MEMBER
    ]


def class_extras(kind: type, named_tuple: bool) -> Iterator[tuple[str, Any]]:
    """What a class says of itself where Python would have said something else."""
    space = vars(kind)
    if named_tuple:
        fields: Any = kind
        made = fields.__new__.__defaults__ or ()
        if made != tuple(fields._field_defaults.values()):
            yield "__new__.__defaults__", made
    if "__match_args__" in space:
        usual: tuple[str, ...] = ()
        if named_tuple:
            usual = kind._fields  # type: ignore[attr-defined]
        elif dataclasses.is_dataclass(kind):
            usual = tuple(f.name for f in dataclasses.fields(kind) if f.init and not f.kw_only)
        if space["__match_args__"] != usual:
            yield "__match_args__", space["__match_args__"]


def cached_names(kind: type, held: dict[str, Any]) -> list[str]:
    """Attributes of an object that a `functools.cached_property` of its class may have left there."""
    return [n for n in held if isinstance(_of_class(kind, n), functools.cached_property)]


def asked_again(kind: type, name: str, value: Any) -> Any:
    """What a cached property says now; the error where it fails."""
    try:
        return _of_class(kind, name).func(value)
    except Exception as error:
        return error


def _of_class(kind: type, name: str) -> Any:
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), None)


def dtype_words(dtype: Any) -> tuple[str, ...]:
    """Names and places of the fields of a structured dtype: its short form is only a number of bytes."""
    return () if dtype.names is None else (repr(dtype),)


def array_words(value: Any, path: str) -> Iterator[str]:
    """A ufunc of numpy's own by its name; a dtype, a number or an array without objects by its content."""
    if isinstance(value, np.ufunc):
        if not resolves(value, "numpy", value.__name__):
            raise Unhashable(f"{path}: the ufunc {value.__name__} is not numpy's own")
        yield f"numpy.{value.__name__}"
        return
    if isinstance(value, np.dtype):
        yield from (value.str, *dtype_words(value))
        return
    if type(value) is not np.ndarray and isinstance(value, np.ndarray):
        raise Unhashable(f"{path}: {article(type(value).__name__)} is more than an array")
    yield from (value.dtype.str, *dtype_words(value.dtype), str(np.shape(value)))
    yield hashlib.sha256(value.tobytes()).hexdigest()


def wrapped_parts(value: Any) -> tuple[tuple[str, Any], ...] | None:
    """The parts of an object that stands for a function."""
    python = getattr(value, "py_func", None)  # a numba dispatcher
    if isinstance(python, types.FunctionType):
        return (("py_func", python),)
    if isinstance(value, functools.partial | functools.partialmethod):
        return (("func", value.func), ("args", value.args), ("keywords", value.keywords))
    if isinstance(value, types.MethodType):
        return (("__func__", value.__func__), ("__self__", value.__self__))
    if isinstance(value, staticmethod | classmethod):
        return (("__func__", value.__func__),)
    if isinstance(value, property):
        return (("fget", value.fget), ("fset", value.fset), ("fdel", value.fdel))
    if isinstance(value, functools.cached_property):
        return (("func", value.func),)
    if isinstance(value, functools._lru_cache_wrapper):
        return (("__wrapped__", value.__wrapped__),)
    if isinstance(value, operator.itemgetter | operator.attrgetter | operator.methodcaller):
        return (("arguments", value.__reduce__()[1]),)
    return None


def of_named_tuple(name: str, held: Any) -> bool:
    """Whether `collections.namedtuple` put this attribute there."""
    function = getattr(held, "__func__", held)
    if isinstance(function, types.FunctionType):
        home = str(function.__globals__.get("__name__", ""))
        return home == "collections" or home.startswith("namedtuple_")
    return name == "_field_defaults" or type(held).__name__ == "_tuplegetter"


def is_compiled(kind: type) -> bool:
    """Whether the class was not made by a class statement: then it has slots of its own in C."""
    own = types.WrapperDescriptorType | types.MethodDescriptorType
    return any(isinstance(v, own) and v.__objclass__ is kind for v in vars(kind).values())


def has_state(value: Any, kind: type) -> bool:
    return bool(getattr(value, "__dict__", None)) or bool(vars(kind).get("__slots__", ()))


class Notes:
    """What a walk met that matters only together: names that are read and names that there are, clocks and who asks."""

    def __init__(self) -> None:
        self._reads_names = False
        self._names: list[str] = []
        self._clock = ""
        self._asks = ""

    def function(self, function: types.FunctionType, path: str) -> None:
        code = function.__code__
        self._names.append(function.__qualname__)
        read = attributes(code)
        self._reads_names = self._reads_names or bool(read & NAMES)
        texts = {c for one in (code, *nested(code)) for c in one.co_consts if isinstance(c, str)}
        self._ask((read | texts) & CLOCKS, path)

    def kind(self, kind: type, path: str) -> None:
        self._names.append(kind.__qualname__)
        if issubclass(kind, datetime.date | np.datetime64):
            self._clock = self._clock or path

    def caller(self, value: Any, path: str) -> None:
        """Of `operator.methodcaller` and `attrgetter`."""
        if isinstance(value, operator.methodcaller | operator.attrgetter):
            texts = {part for arg in value.__reduce__()[1] if isinstance(arg, str) for part in arg.split(".")}
            self._ask(texts & CLOCKS, path)

    def _ask(self, words: set[str] | frozenset[str], path: str) -> None:
        if words:
            self._asks = self._asks or f"{path}: asks for {min(words)!r}"

    def refusal(self) -> str:
        """Why the answers may follow from a clock; "" where they do not."""
        return f"{self._asks}, which may be the clock of {self._clock}" if self._clock and self._asks else ""

    def names(self) -> str:
        """Of everything that was walked, where some code reads names; else names do not count."""
        return "\x1f".join(self._names) if self._reads_names else ""
