"""Everything a task's functions can reach, as one digest, and whether any of it has changed since.

Reached are: code, defaults, captured values and module constants, helpers through modules, partials, bound methods,
callable objects and caches, classes with their attributes and methods, containers and arrays. What Python itself and
numpy provide counts by name. What has no content that is the same in every process (an open file, a generator, a lock,
an object of compiled code) cannot be hashed: `refused` then names the part and the way to it.

The digest is the same in every process and with or without source text, for one minor version of Python (`PYTHON`).
"""

from __future__ import annotations

import hashlib
import sys
import types
from typing import Any

from ucsearch.hidden import Notes
from ucsearch.provided import Unhashable
from ucsearch.reach.walk import Walk
from ucsearch.reached import Reach

__all__ = ["Reach", "Unhashable", "reach_of", "text_digests"]

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
    walk = Walk()
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
    walk = Walk(by_text=True)
    try:
        return _named({role: walk.describe(value, role) for role, value in roles.items()}, walk.notes)
    except (Unhashable, RecursionError):
        return {}
