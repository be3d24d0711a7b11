"""Everything a task's functions can reach, as one digest, and whether any of it has changed since.

Reached are: code, defaults, captured values and module constants, helpers through modules, partials, bound methods,
callable objects and caches, classes with their attributes and methods, containers and arrays. What Python itself and
numpy provide counts by name. What has no content that is the same in every process (an open file, a generator, a lock,
an object of compiled code) cannot be hashed: `refused` then names the part and the way to it.

The digest is the same in every process and with or without source text, for one minor version of Python (`PYTHON`).
"""

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
    asked_again,
    cached_names,
    class_extras,
    dtype_words,
    has_state,
    is_compiled,
    is_enum_machinery,
    member_extras,
    of_named_tuple,
    wrapped_parts,
)
from ucsearch.layout import is_named_tuple_type
from ucsearch.provided import FIXED, PURE, Unhashable, fixed_home, fixed_module, no_clock, pure, resolves
from ucsearch.reached import MISSING, Reach, own_items
from ucsearch.sources import Unsourced, definition_text

__all__ = ["Reach", "Unhashable", "reach_of", "text_digests"]

# Attributes that lead to what no walk follows: a function's module, frames, and words that leave no mark in its form.
_UNSEEN = frozenset({
    "__globals__", "__builtins__", "f_globals", "f_locals", "f_builtins", "f_back", "gi_frame", "cr_frame", "ag_frame",
    "tb_frame", "__annotations__", "__doc__", "__code__", "co_firstlineno", "co_filename", "__subclasses__",
    "__module__", "__wrapped__", "__array_interface__", "__array_struct__", "ctypes", "cache_info",
})  # fmt: skip
_MOST = 20_000  # objects; more is a library, not a rule
_DEEPEST = 100  # objects inside one another
_BY_REPR = (
    range, complex, decimal.Decimal, fractions.Fraction, datetime.date, datetime.time, datetime.timedelta,
    datetime.timezone, types.GenericAlias,
)  # fmt: skip
_CONTENT = (int, float, str, bytes, bytearray, tuple, list, dict, set, frozenset)
# Builtins whose answer depends on what no walk can see.
_BLIND = {"eval", "exec", "compile", "globals", "__import__", "open", "input", "breakpoint", "id", "hash"}
_EXPECTED = {("hash", "__hash__"), ("id", "__repr__")}  # what data classes are made of
# Attributes of a class that say where it was written, or that Python keeps for itself.
_IDLE = frozenset({
    "__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__orig_bases__",
    "__parameters__", "__slots__", "__firstlineno__", "__static_attributes__", "__abstractmethods__", "_abc_impl",
    "__dataclass_fields__", "__dataclass_params__", "__match_args__", "__annotate__", "__annotate_func__",
    "__annotations_cache__", "__type_params__",
})  # fmt: skip
_PROVIDED = dict(vars(builtins))


# Walks from functions of modules, which live as long as their modules do; tasks that differ in their parameters only
# share them. What a task made for itself is let go with it.
_shared: dict[tuple[int, ...], Reach] = {}
_MOST_SHARED = 256


def reach_of(roles: dict[str, Any]) -> Reach:
    """Walk from every role's function or class; what was walked already and is unchanged is not walked again."""
    key = tuple(map(id, roles.values()))
    known = _shared.get(key)
    if known is not None and known.unchanged():
        return known
    walk = _Walk()
    for role, value in roles.items():
        walk.open.clear()
        try:
            walk.found.digests[role] = walk.describe(value, role)
        except Unhashable as error:
            walk.found.refused = walk.found.refused or str(error)
        except RecursionError:
            walk.found.refused = walk.found.refused or f"{role}: objects inside one another without end"
    walk.found.refused = walk.found.refused or walk.notes.refusal()
    walk.found.digests = _named(walk.found.digests, walk.notes)
    found = walk.found.settle()
    if all(_lives_on(value) for value in roles.values()):
        if len(_shared) >= _MOST_SHARED:
            _shared.clear()
        found.alive = tuple(roles.values())
        others = [x for x in roles.values() if not isinstance(x, types.FunctionType)]
        found.parts.extend((x, "__class__", type(x)) for x in others)
        _shared[key] = found
    return found


def _named(digests: dict[str, str], notes: Notes) -> dict[str, str]:
    """Names count only where some rule reads them."""
    if not (names := notes.names()):
        return digests
    return {role: f"{own}#{hashlib.sha256(names.encode()).hexdigest()}" for role, own in digests.items()}


def _lives_on(value: Any) -> bool:
    module = sys.modules.get(str(getattr(value, "__module__", "")))
    return value is None or getattr(module, str(getattr(value, "__qualname__", "")), None) is value


def text_digests(roles: dict[str, Any]) -> dict[str, str]:
    """The same over source texts instead of code, so that it holds in every version of Python; empty where some
    function has no readable text of its own (a lambda, a .pyc without its .py)."""
    walk = _Walk(by_text=True)
    try:
        return _named({role: walk.describe(value, role) for role, value in roles.items()}, walk.notes)
    except (Unhashable, RecursionError):
        return {}


class _Walk:
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
        if name != "__repr__" and (unseen := sorted(attributes(code) & _UNSEEN)):
            raise Unhashable(f"{path}: reads {unseen[0]}, which may lead anywhere")
        self.notes.function(function, path)
        self.found.functions.append((function, code, function.__defaults__, function.__kwdefaults__))
        if self.by_text:
            try:
                yield definition_text(function)
            except Unsourced as error:
                raise Unhashable(f"{path}: {error}") from None
        else:
            yield repr(code_form(code, lambda const: self.describe(const, f"{path}: a constant")))
        yield self.describe(function.__defaults__, f"{path}: a default")
        yield self.describe(function.__kwdefaults__, f"{path}: a keyword default")
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

    def _global(
        self, function: types.FunctionType, read: str, chain: tuple[str, ...], path: str
    ) -> Iterator[str]:  # fmt: skip
        space = function.__globals__
        held = space.get(read, MISSING)
        self.found.names.append((space, read, held))
        if held is MISSING:
            if read in _BLIND and (read, function.__name__) not in _EXPECTED:
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
            if home == "builtins" and name in _BLIND:
                raise Unhashable(f"{path}: calls {name}(), which answers by more than a record holds")
            yield pure(f"{home}.{name}", path)
        elif isinstance(owner, _CONTENT) or not fixed_home(type(owner), type(owner).__module__):
            yield from (name, self.describe(owner, f"{path}.__self__"))
        elif resolves(value, str(getattr(value, "__module__", "") or ""), name):
            yield name
        else:
            raise Unhashable(f"{path}: {name} of {_article(type(owner).__name__)}, whose content is hidden")

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
            if name in _IDLE or isinstance(held, types.GetSetDescriptorType | types.MemberDescriptorType):
                continue
            if tuple_like and of_named_tuple(name, held):
                if name == "__new__":
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
            raise Unhashable(f"{path}: {_article(kind.__name__)} has no content that is the same in every process")
        for base in kind.__mro__[:-1]:
            if fixed_home(base, base.__module__) and base not in _BASES:
                raise Unhashable(f"{path}: {_article(kind.__name__)} keeps content that cannot be seen")
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
        if isinstance(value, np.ufunc):
            if not resolves(value, "numpy", value.__name__):
                raise Unhashable(f"{path}: the ufunc {value.__name__} is not numpy's own")
            yield f"numpy.{value.__name__}"
            return
        if isinstance(value, np.dtype):
            yield from (value.str, *dtype_words(value))
            return
        if value.dtype.hasobject:
            yield self.describe(value.tolist(), path)
            return
        if type(value) is not np.ndarray and isinstance(value, np.ndarray):
            raise Unhashable(f"{path}: {_article(type(value).__name__)} is more than an array")
        yield from (value.dtype.str, *dtype_words(value.dtype), str(np.shape(value)))
        yield hashlib.sha256(value.tobytes()).hexdigest()
        if isinstance(value, np.ndarray):
            self.found.arrays.append((value, value.tobytes()))


_HOLDERS: tuple[type, ...] = (
    types.SimpleNamespace, types.MappingProxyType, collections.deque, collections.defaultdict, BaseException,
)  # fmt: skip
_BASES = frozenset({
    object, *_CONTENT, *_HOLDERS, collections.OrderedDict, collections.Counter, Exception, ValueError,
    *(getattr(sys.modules[m], n) for m, n in (("abc", "ABC"), ("typing", "Generic"), ("typing", "Protocol"))),
})  # fmt: skip


def _article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
