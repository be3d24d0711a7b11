"""What a walk through a task's functions found: digests, and what to look at to see whether they still hold."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

__all__ = ["MISSING", "Reach", "own_items"]

MISSING = object()  # where nothing was found
_OFTEN = 50  # after so many questions a function of their own is worth its millisecond
_LONGEST = 1_000  # questions; more of them is no rule of a single search
_PARTS = ("__code__", "__defaults__")


class Reach:
    """The digest of what was walked, and what to look at to see whether it still holds."""

    def __init__(self) -> None:
        self.digests: dict[str, str] = {}  # by role
        self.refused = ""  # why the digests cannot be used; "" when they can
        self.names: list[tuple[Any, str, Any]] = []  # mapping, key, the object found there
        self.parts: list[tuple[Any, str, Any]] = []  # object, attribute, the object found there
        self.cells: list[tuple[Any, Any]] = []  # closure cell, what it held
        self.contents: list[tuple[Any, Any]] = []  # container, a shallow copy
        self.arrays: list[tuple[Any, tuple[Any, ...]]] = []  # with bytes, type and shape
        self.sizes: list[tuple[Any, int]] = []  # attributes of classes and functions: how many there were
        self.functions: list[tuple[Any, Any, Any]] = []  # function, its code and defaults
        self.known: list[tuple[dict[str, Any], str, Any]] = []  # of `names`: plain dictionaries that have the name
        self.absent: list[tuple[dict[str, Any], str]] = []  # of `names`: plain dictionaries that have it not
        self.empty: list[Any] = []  # of `sizes` and `contents`: plain dictionaries without anything
        self.alive: tuple[Any, ...] = ()  # what the walk began at: ids stay valid
        self.asked = 0  # how often, up to `_OFTEN`
        self.straight: Callable[[], bool] | None = None  # the same question without loops

    def unchanged(self) -> bool:
        """Whether the same objects, with the same content, are reached now. Microseconds; no user code runs. Every
        search asks for this: what is asked most often is asked in the shortest way."""
        if self.straight is not None:
            return self.straight()
        if self.asked <= _OFTEN:
            self.asked += 1
            if self.asked > _OFTEN:
                self.straight = self._without_loops()
        try:
            return self._names_hold() and not any(self.empty) and _values_hold(*self._values())
        except KeyError:
            return False

    def same_as(self, later: Reach) -> bool:
        """Whether a later walk from the same functions found the same."""
        return later is self or (later.digests, later.refused) == (self.digests, self.refused)

    def _names_hold(self) -> bool:
        """Of dictionaries, functions, attributes; a `KeyError` is a no."""
        for mapping, key, value in self.known:
            if mapping[key] is not value:
                return False
        for function, code, defaults in self.functions:
            if function.__code__ is not code or function.__defaults__ is not defaults:
                return False
        for mapping, key in self.absent:
            if key in mapping:
                return False
        for mapping, key, value in self.names:
            if mapping.get(key, MISSING) is not value:
                return False
        for holder, name, value in self.parts:
            if getattr(holder, name, MISSING) is not value:
                return False
        return all(len(holder) == size for holder, size in self.sizes)

    def _values(self) -> tuple[list[Any], list[Any], list[Any]]:
        return self.cells, self.contents, self.arrays

    def _without_loops(self) -> Callable[[], bool] | None:
        """All of it as one function made for these names: half the time, for what is asked often."""
        held: dict[Any, tuple[str, Any]] = {}  # by id

        def name(value: Any) -> str:
            return held.setdefault(id(value), (f"x{len(held)}", value))[0]

        tests = [f"{name(mapping)}[{key!r}] is {name(value)}" for mapping, key, value in self.known]
        for function, *parts in self.functions:
            tests += [f"{name(function)}.{n} is {name(value)}" for n, value in zip(_PARTS, parts, strict=True)]
        tests += [f"{key!r} not in {name(mapping)}" for mapping, key in self.absent]
        gone = name(MISSING)
        tests += [f"{name(mapping)}.get({key!r}, {gone}) is {name(value)}" for mapping, key, value in self.names]
        tests += [f"getattr({name(holder)}, {key!r}, {gone}) is {name(value)}" for holder, key, value in self.parts]
        tests += [f"len({name(holder)}) == {size}" for holder, size in self.sizes]
        tests += [f"not {name(mapping)}" for mapping in self.empty]
        if any(values := self._values()):
            held["values"] = ("values", values)
            tests.append(f"{name(_values_hold)}(*values)")
        if len(tests) > _LONGEST:
            return None
        space: dict[str, Any] = {}
        body = f"try:\n        return {' and '.join(tests) or 'True'}\n    except KeyError:\n        return False"
        exec(f"def straight({', '.join(name for name, _ in held.values())}):\n    {body}", space)
        made: Any = space["straight"]
        made.__defaults__ = tuple(value for _, value in held.values())
        found: Callable[[], bool] = made
        return found

    def settle(self) -> Reach:
        """Look at nothing twice."""
        names = list({(id(m), key): (m, key, v) for m, key, v in self.names}.values())
        self.known = [one for one in names if type(one[0]) is dict and one[2] is not MISSING]
        self.absent = [(m, key) for m, key, v in names if type(m) is dict and v is MISSING]
        self.names = [one for one in names if type(one[0]) is not dict]
        self.parts = list({(id(o), name): (o, name, v) for o, name, v in self.parts}.values())
        self.cells = list({id(c): (c, v) for c, v in self.cells}.values())
        contents = list({id(c): (c, v) for c, v in self.contents}.values())
        self.contents = [(c, v) for c, v in contents if v or type(c) is not dict]
        self.functions = list({id(one[0]): one for one in self.functions}.values())
        sizes = list({id(h): (h, n) for h, n in self.sizes}.values())
        self.empty = [h for h, n in (*sizes, *contents) if not n and type(h) is dict]
        self.sizes = [one for one in sizes if one[1] or type(one[0]) is not dict]
        self.arrays = list({id(a): (a, v) for a, v in self.arrays}.values())
        return self


def _values_hold(cells: list[Any], contents: list[Any], arrays: list[Any]) -> bool:
    for cell, value in cells:
        try:
            if cell.cell_contents is not value:
                return False
        except ValueError:
            return False
    if contents and not all(map(_same_content, contents)):
        return False
    return not arrays or all((a.tobytes(), a.dtype, a.shape) == kept for a, kept in arrays)


def _same_content(pair: tuple[Any, Any]) -> bool:
    now, kept = pair
    if isinstance(now, dict):
        return dict.__len__(now) == len(kept) and all(dict.get(now, k, MISSING) is v for k, v in kept.items())
    if isinstance(now, set):
        return bool(set.__eq__(now, kept))
    items = own_items(now)
    return len(items) == len(kept) and all(a is b for a, b in zip(items, kept, strict=True))


def own_items(value: Any) -> list[Any]:
    """What a sequence or a set holds, whatever a subclass makes of iteration."""
    kinds: tuple[Any, ...] = (list, tuple, set, frozenset, collections.deque)
    return list(next(kind for kind in kinds if isinstance(value, kind)).__iter__(value))
