"""What Python and numpy provide, and whether its answers follow from its arguments alone."""

from __future__ import annotations

import datetime
import decimal
import sys
import types
from typing import Any

__all__ = [
    "BLIND", "CLOCKS", "EXPECTED", "FIXED", "IDLE", "PURE", "UNSEEN", "Unhashable", "article", "fixed_home",
    "fixed_module", "no_clock", "pure", "resolves",
]  # fmt: skip

FIXED = frozenset(sys.stdlib_module_names) | {"numpy", "builtins"}
# Of these the answers follow from the arguments alone. Others read a clock, a file, the environment or another module.
PURE = frozenset({
    "builtins", "math", "cmath", "operator", "_operator", "functools", "_functools", "itertools", "collections",
    "_collections", "_collections_abc", "statistics", "_statistics", "fractions", "decimal", "_decimal", "_pydecimal",
    "numbers", "enum", "typing", "types", "dataclasses", "datetime", "_datetime", "_pydatetime", "calendar", "bisect",
    "_bisect", "heapq", "_heapq", "string", "_string", "re", "_sre", "copy", "copyreg", "abc", "_abc", "contextlib",
    "array", "struct", "_struct", "binascii", "zlib", "hashlib", "_hashlib", "json", "_json", "graphlib", "textwrap",
    "unicodedata", "warnings", "_warnings", "reprlib", "__future__", "numpy",
})  # fmt: skip
CLOCKS = frozenset({"now", "utcnow", "today"})  # of the classes of datetime, and texts for numpy.datetime64
_HARMLESS = frozenset({"time.sleep", "_thread.get_ident"})  # the second is what a data class asks for its repr
# Attributes that lead to what no walk follows: a function's module, frames, and words that leave no mark in its form.
UNSEEN = frozenset({
    "__globals__", "__builtins__", "f_globals", "f_locals", "f_builtins", "f_back", "gi_frame", "cr_frame", "ag_frame",
    "tb_frame", "__annotations__", "__doc__", "__code__", "co_firstlineno", "co_filename", "__subclasses__",
    "__module__", "__wrapped__", "__array_interface__", "__array_struct__", "ctypes", "cache_info", "__kwdefaults__",
})  # fmt: skip
# Builtins whose answer depends on what no walk can see.
BLIND = {"eval", "exec", "compile", "globals", "__import__", "open", "input", "breakpoint", "id", "hash"}
EXPECTED = {("hash", "__hash__"), ("id", "__repr__")}  # what data classes are made of
# Attributes of a class that say where it was written, or that Python keeps for itself.
IDLE = frozenset({
    "__module__", "__qualname__", "__doc__", "__dict__", "__weakref__", "__annotations__", "__orig_bases__",
    "__parameters__", "__slots__", "__firstlineno__", "__static_attributes__", "__abstractmethods__", "_abc_impl",
    "__dataclass_fields__", "__dataclass_params__", "__match_args__", "__annotate__", "__annotate_func__",
    "__annotations_cache__", "__type_params__",
})  # fmt: skip
# Of numpy: what reads files, and settings of the process.
_NUMPY_FILES = frozenset({
    "load", "loadtxt", "genfromtxt", "fromfile", "memmap", "fromregex", "DataSource", "open_memmap", "load_library",
    "geterr", "geterrcall", "get_printoptions", "getbufsize",
})  # fmt: skip
# Decimals are rounded by a setting of the thread; with Python's own nothing depends on it.
_ROUNDING = (28, "ROUND_HALF_EVEN", -999999, 999999, 1, 0)
_TRAPS = {"InvalidOperation", "DivisionByZero", "Overflow"}


class Unhashable(Exception):
    """Something reachable has no content that is the same in every process; the message names it and the way there."""


def fixed_home(value: Any, module: Any) -> str:
    """`module.name` of what Python or numpy provides under that very name; "" for everything else."""
    if not isinstance(module, str) or module.partition(".")[0] not in FIXED:
        return ""
    name = str(getattr(value, "__qualname__", ""))
    return f"{module}.{name}" if resolves(value, module, name) else ""


def resolves(value: Any, module: str, name: str) -> bool:
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is value


def pure(where: str, path: str) -> str:
    """`module.name`, unless it is known to answer by more than its arguments."""
    root, _, rest = where.partition(".")
    if root not in PURE and where not in _HARMLESS:
        raise Unhashable(f"{path}: {where} may read what no record holds (a clock, a file, the environment)")
    if root == "numpy" and (rest.startswith("random") or rest.rpartition(".")[2] in _NUMPY_FILES):
        raise Unhashable(f"{path}: {where} may read what no record holds")
    if root in ("decimal", "_decimal", "_pydecimal") and (rest == "getcontext" or not _rounds_as_usual()):
        raise Unhashable(f"{path}: {where} answers by the precision that is set for its thread")
    return where


def _rounds_as_usual() -> bool:
    c = decimal.getcontext()
    own = (c.prec, c.rounding, c.Emin, c.Emax, c.capitals, c.clamp)
    return own == _ROUNDING and {signal.__name__ for signal, on in c.traps.items() if on} == _TRAPS


def no_clock(value: Any, chain: tuple[str, ...], path: str) -> None:
    if isinstance(value, type) and issubclass(value, datetime.date) and CLOCKS & set(chain[:1]):
        raise Unhashable(f"{path}.{chain[0]} reads a clock")


def fixed_module(module: types.ModuleType, path: str) -> str:
    if module.__name__.partition(".")[0] not in FIXED:
        raise Unhashable(f"{path}: uses the module {module.__name__!r} as a value; read what is needed off it by name")
    pure(f"{module.__name__}.", path)
    return f"module {module.__name__}"


def article(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
