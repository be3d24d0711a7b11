"""The walk over everything a task's functions can reach: each object as a text that only equal ones share."""

from __future__ import annotations

import builtins
import collections
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import re
import sys
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from ucsearch.codeform import attributes, code_form, loads
from ucsearch.hidden import (
    Notes,
    array_words,
    asked_again,
    cached_names,
    class_extras,
    has_state,
    is_compiled,
    is_enum_machinery,
    member_extras,
    of_named_tuple,
    wrapped_parts,
)
from ucsearch.layout import is_named_tuple_type
from ucsearch.provided import (
    BLIND,
    EXPECTED,
    FIXED,
    IDLE,
    PURE,
    UNSEEN,
    Unhashable,
    article,
    fixed_home,
    fixed_module,
    no_clock,
    pure,
    resolves,
)
from ucsearch.reached import MISSING, Reach, own_items
from ucsearch.sources import Unsourced, definition_text

__all__ = ["Walk"]

_MOST = 20_000  # objects; more is a library, not a rule
_DEEPEST = 100  # objects inside one another
_BY_REPR = (
    range, complex, decimal.Decimal, fractions.Fraction, datetime.date, datetime.time, datetime.timedelta,
    datetime.timezone, types.GenericAlias,
)  # fmt: skip
_CONTENT = (int, float, str, bytes, bytearray, tuple, list, dict, set, frozenset)
_PROVIDED = dict(vars(builtins))


class Walk:
    def __init__(self, by_text: bool = False) -> None:
        self.found = Reach()
        self.notes = Notes()
        self.by_text = by_text
        self.done: dict[int, str] = {}  # finished objects by id
        self.open: dict[int, int] = {}  # those being walked, by depth: a way back to one is a cycle
        self.alive: list[Any] = []  # ids stay valid
        self.count = 0

    def describe(self, value: Any, path: str) -> str:
        """A text that two values share only if they are equal in all that is reachable."""
        kind = type(value)
        if value is None or value is Ellipsis or value is NotImplemented or kind in (bool, int, str, bytes):
            return f"{kind.__name__}:{value!r}"
        if kind is float:
            return f"float:{value.hex()}"
        if id(value) in self.done:
            return self.done[id(value)]
        if id(value) in self.open:
            return f"again:{len(self.open) - self.open[id(value)]}"
        self.count += 1
        if self.count > _MOST or len(self.open) > _DEEPEST:
            raise Unhashable(f"{path}: reaches too much to be one rule")
        self.alive.append(value)
        self.open[id(value)] = len(self.open)
        words = "\x1f".join(self._words(value, kind, path))
        del self.open[id(value)]
        made = f"{kind.__name__}#{hashlib.sha256(words.encode(errors='surrogatepass')).hexdigest()}"
        self.done[id(value)] = made
        return made

    def _words(self, value: Any, kind: type, path: str) -> Iterator[str]:
        if isinstance(value, types.FunctionType):
            yield from self._function(value, path)
        elif isinstance(value, type):
            yield from self._class(value, path)
        elif isinstance(value, types.ModuleType):
            yield fixed_module(value, path)
        elif isinstance(value, enum.Enum):
            yield from (value.name, self.describe(value.value, path), self.describe(kind, path))
        elif isinstance(value, np.ndarray | np.generic | np.dtype | np.ufunc):
            yield from self._numpy(value, path)
        elif kind in _BY_REPR or isinstance(value, types.UnionType):
            if kind is decimal.Decimal:
                pure("decimal.Decimal", path)
            yield repr(value)
        elif kind is slice:
            yield self.describe((value.start, value.stop, value.step), path)
        elif kind is re.Pattern:
            yield self.describe((value.pattern, value.flags), path)
        elif (parts := wrapped_parts(value)) is not None:
            self.notes.caller(value, path)
            if isinstance(value, functools._lru_cache_wrapper):
                value.cache_clear()  # what it kept may be of rules that were in force before
            for name, part in parts:
                yield f"{name}={self.describe(part, f'{path}.{name}')}"
        elif isinstance(
            value, types.BuiltinFunctionType | types.MethodDescriptorType | types.WrapperDescriptorType
            | types.MethodWrapperType | types.GetSetDescriptorType | types.MemberDescriptorType
            | types.ClassMethodDescriptorType,
        ):  # fmt: skip
            yield from self._builtin(value, path)
        else:
            yield from self._object(value, kind, path)

    # ------------------------------------------------------------ functions

    def _function(self, function: types.FunctionType, path: str) -> Iterator[str]:
        name = function.__name__
        if not path.endswith(name):
            path = f"{path} -> {name}"
        if (where := fixed_home(function, function.__globals__.get("__name__"))) and not function.__closure__:
            yield pure(where, path)
            return
        code = function.__code__
        if name != "__repr__" and (unseen := sorted(attributes(code) & UNSEEN)):
            raise Unhashable(f"{path}: reads {unseen[0]}, which may lead anywhere")
        self.notes.function(function, path)
        self.found.functions.append((function, code, function.__defaults__))
        named = function.__kwdefaults__ if code.co_kwonlyargcount else None  # else nobody reads them
        if code.co_kwonlyargcount:
            self.found.parts.append((function, "__kwdefaults__", named))
        if self.by_text:
            try:
                yield definition_text(function)
            except Unsourced as error:
                raise Unhashable(f"{path}: {error}") from None
        else:
            yield repr(code_form(code, lambda const: self.describe(const, f"{path}: a constant")))
        yield self.describe(function.__defaults__, f"{path}: a default")
        yield self.describe(named, f"{path}: a keyword default")
        cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
        for cell_name, cell in sorted(cells.items()):
            try:
                held = cell.cell_contents
            except ValueError:
                raise Unhashable(f"{path}: captures {cell_name!r} before it has a value") from None
            self.found.cells.append((cell, held))
            if not isinstance(held, types.ModuleType):
                yield f"{cell_name}={self.describe(held, f'{path} -> {cell_name}')}"
        for read, chain in sorted(set(loads(code))):
            if read.startswith("import "):
                if read.split()[1].partition(".")[0] not in FIXED & PURE:
                    raise Unhashable(f"{path}: {read} inside the function; import it at the top of its module")
                continue
            if read in cells:
                if isinstance(cells[read].cell_contents, types.ModuleType):
                    yield from self._through(cells[read].cell_contents, read, chain, path)
                continue
            yield from self._global(function, read, chain, path)
        self.found.sizes.append((vars(function), len(vars(function))))
        for key, held in sorted(vars(function).items()):
            self.found.names.append((vars(function), key, held))
            if key != "__wrapped__":
                yield f".{key}={self.describe(held, f'{path}.{key}')}"

    def _global(self, function: types.FunctionType, read: str, chain: tuple[str, ...], path: str) -> Iterator[str]:
        space = function.__globals__
        held = space.get(read, MISSING)
        self.found.names.append((space, read, held))
        if held is MISSING:
            if read in BLIND and (read, function.__name__) not in EXPECTED:
                raise Unhashable(f"{path}: calls {read}(), which answers by more than a record holds")
            provided: dict[str, Any] = getattr(function, "__builtins__", {})  # mypy knows it or not by its cache
            own = provided.get(read, MISSING)
            self.found.names.append((provided, read, own))
            if isinstance(own, types.FunctionType) or (read in _PROVIDED and own is not _PROVIDED[read]):
                yield f"instead of builtin {read}: {self.describe(own, f'{path} -> {read}')}"
            yield f"builtin {read}"
        elif isinstance(held, types.ModuleType):
            yield from self._through(held, read, chain, path)
        else:
            no_clock(held, chain, f"{path} -> {read}")
            yield f"{read}={self.describe(held, f'{path} -> {read}')}"

    def _through(self, module: types.ModuleType, read: str, chain: tuple[str, ...], path: str) -> Iterator[str]:
        """What is read off a module; the rest of the module does not count."""
        value: Any = module
        for n, name in enumerate(chain):
            if not isinstance(value, types.ModuleType):
                no_clock(value, chain[n:], f"{path} -> {read}")
                break
            held = vars(value).get(name, MISSING)
            if held is MISSING:
                held = getattr(value, name, MISSING)  # a module's own __getattr__
            self.found.names.append((vars(value), name, vars(value).get(name, MISSING)))
            value, read = held, f"{read}.{name}"
        if value is MISSING:
            yield f"{read} is undefined"
        elif isinstance(value, types.ModuleType):
            yield f"{read}={fixed_module(value, path)}"
        else:
            yield f"{read}={self.describe(value, f'{path} -> {read}')}"

    def _builtin(self, value: Any, path: str) -> Iterator[str]:
        owner = getattr(value, "__self__", None)
        name = str(getattr(value, "__qualname__", value.__name__))
        if owner is None or isinstance(owner, types.ModuleType | type):
            kind = owner if isinstance(owner, type) else getattr(value, "__objclass__", None)
            home = str(getattr(kind or value, "__module__", None) or "builtins")
            if home.partition(".")[0] not in FIXED:
                raise Unhashable(f"{path}: {name} is compiled code of {home}")
            if isinstance(owner, type):
                no_clock(owner, (value.__name__,), path)
            if home == "builtins" and name in BLIND:
                raise Unhashable(f"{path}: calls {name}(), which answers by more than a record holds")
            yield pure(f"{home}.{name}", path)
        elif isinstance(owner, _CONTENT) or not fixed_home(type(owner), type(owner).__module__):
            yield from (name, self.describe(owner, f"{path}.__self__"))
        elif resolves(value, str(getattr(value, "__module__", "") or ""), name):
            yield name
        else:
            raise Unhashable(f"{path}: {name} of {article(type(owner).__name__)}, whose content is hidden")

    # ------------------------------------------------------------ classes and objects

    def _class(self, kind: type, path: str) -> Iterator[str]:
        self.notes.kind(kind, path)
        if where := fixed_home(kind, kind.__module__):
            yield pure(where, path)
            return
        if is_compiled(kind):
            raise Unhashable(f"{path}: {kind.__name__} is compiled code")
        meta = type(kind)
        if not fixed_home(meta, meta.__module__):
            yield self.describe(meta, f"{path}: its metaclass")
        for base in kind.__bases__:
            yield self.describe(base, f"{path}: its base {base.__name__}")
        space = vars(kind)
        tuple_like = is_named_tuple_type(kind) and "_fields" in space
        if issubclass(kind, enum.Enum):
            yield self.describe([(m.name, m.value) for m in kind], path)
            for at, name, held in member_extras(kind):
                self.found.names.append((at, name, held))
                yield f"{name}={self.describe(held, f'{path}: {name} of a member')}"
        for name, held in class_extras(kind, tuple_like):
            yield f"{name}={self.describe(held, f'{path}.{name}')}"
        for name in sorted(space):
            held = space[name]
            if name in IDLE or isinstance(held, types.GetSetDescriptorType | types.MemberDescriptorType):
                continue
            if tuple_like and of_named_tuple(name, held):
                if name == "__new__":
                    made = getattr(held, "__func__", held)  # its defaults can be replaced later, and so can it
                    self.found.functions.append((made, made.__code__, made.__defaults__))
                    self.found.names.append((space, name, held))
                    yield f"defaults={self.describe(kind._field_defaults, path)}"  # type: ignore[attr-defined]
                continue
            if issubclass(kind, enum.Enum) and is_enum_machinery(name, held, kind):
                continue
            self.found.names.append((space, name, held))
            yield f"{name}={self.describe(held, f'{path}.{name}')}"
        self.found.sizes.append((space, len(space)))

    def _object(self, value: Any, kind: type, path: str) -> Iterator[str]:
        """Containers by their items, other objects by their class and attributes."""
        if (where := fixed_home(kind, kind.__module__)) and not isinstance(value, _CONTENT + _HOLDERS):
            if kind.__bases__ == (object,) and not is_compiled(kind) and not has_state(value, kind):
                yield where  # a marker such as dataclasses.MISSING
                return
            raise Unhashable(f"{path}: {article(kind.__name__)} has no content that is the same in every process")
        for base in kind.__mro__[:-1]:
            if fixed_home(base, base.__module__) and base not in _BASES:
                raise Unhashable(f"{path}: {article(kind.__name__)} keeps content that cannot be seen")
        if kind not in _CONTENT:
            yield self.describe(kind, f"{path}: its class {kind.__name__}")
        yield from self._items(value, path)
        held = dict(getattr(value, "__dict__", {}))
        for base in kind.__mro__:
            slots = vars(base).get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name not in ("__dict__", "__weakref__"):
                    found = getattr(value, name, MISSING)
                    self.found.parts.append((value, name, found))
                    held[name] = None if found is MISSING else found
        if hasattr(value, "__dict__"):
            self.found.contents.append((value.__dict__, dict(value.__dict__)))
        for name in cached_names(kind, held):  # an answer that was kept, unless somebody has put another there
            own = self.describe(held[name], f"{path}.{name}")
            if own == self.describe(asked_again(kind, name, value), f"{path}.{name}"):
                del held[name]
        for name in sorted(held):
            yield f".{name}={self.describe(held[name], f'{path}.{name}')}"

    def _items(self, value: Any, path: str) -> Iterator[str]:
        if isinstance(value, types.MappingProxyType):
            value = dict(value)
        if isinstance(value, dict):
            self.found.contents.append((value, dict(dict.items(value))))  # whatever a subclass makes of items()
            for key, item in dict.items(value):
                at = f"{path}[{key!r}]" if isinstance(key, str | int | float) else f"{path}[...]"
                yield f"{self.describe(key, at)}:{self.describe(item, at)}"
            if isinstance(value, collections.defaultdict):
                yield self.describe(value.default_factory, f"{path}.default_factory")
        elif isinstance(value, set | frozenset):
            items = own_items(value)
            if isinstance(value, set):
                self.found.contents.append((value, set(items)))
            yield from sorted(self.describe(item, f"{path}: an item") for item in items)
        elif isinstance(value, list | tuple | collections.deque):
            items = own_items(value)
            if not isinstance(value, tuple):
                self.found.contents.append((value, items))
            if isinstance(value, collections.deque) and value.maxlen is not None:
                yield f"maxlen={value.maxlen}"
            for i, item in enumerate(items):
                yield self.describe(item, f"{path}[{i}]")
        elif isinstance(value, BaseException):
            self.found.parts.append((value, "args", value.args))
            yield self.describe(value.args, f"{path}.args")
        elif isinstance(value, bytearray):
            raise Unhashable(f"{path}: a bytearray may change at any time; use bytes")
        elif isinstance(value, float):
            yield self.describe(float.__add__(value, 0.0), path)
        elif isinstance(value, int):
            yield self.describe(int.__add__(value, 0), path)
        elif isinstance(value, str):
            yield self.describe(str.__str__(value), path)
        elif isinstance(value, bytes):
            yield self.describe(bytes.__getitem__(value, slice(None)), path)

    def _numpy(self, value: Any, path: str) -> Iterator[str]:
        if isinstance(value, np.ndarray | np.generic) and value.dtype.hasobject:
            yield self.describe(value.tolist(), path)
            return
        yield from array_words(value, path)
        if isinstance(value, np.ndarray):
            self.found.arrays.append((value, (value.tobytes(), value.dtype, value.shape)))


_HOLDERS: tuple[type, ...] = (
    types.SimpleNamespace, types.MappingProxyType, collections.deque, collections.defaultdict, BaseException,
)  # fmt: skip
_BASES = frozenset({
    object, *_CONTENT, *_HOLDERS, collections.OrderedDict, collections.Counter, Exception, ValueError,
    *(getattr(sys.modules[m], n) for m, n in (("abc", "ABC"), ("typing", "Generic"), ("typing", "Protocol"))),
})  # fmt: skip
