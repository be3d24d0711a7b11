"""Everything that the reference shows has a meaning: beside the field, in the docstring, or among the shared words."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import pytest

from ucsearch.planner.settings import field_notes

ROOT = Path(__file__).resolve().parents[2]
# Called by the engine, the log's own writers and subclasses, not by users; their modules say what they take.
INNER = {"append_batch", "append_sealed", "append_bodies", "append_last", "take_over", "trusted", "layout", "work",
         "extra_i", "extra_f", "is_recorded_as"}  # fmt: skip


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


meaning = script("reference_words").meaning
SITE = script("site")
SHOWN = ("ucsearch", *SITE.MODULES.values())


def public() -> dict[str, Any]:
    return {f"{module}.{name}": found for module in SHOWN for name, found in SITE._listed(module)}


def explained(name: str, module: str, *texts: str | None) -> bool:
    # In backquotes, under a heading of its own, or in a list of arguments.
    told = rf"`{re.escape(name)}\b|^ *(\w+, )*{re.escape(name)}(, \w+)* :$|^ +{re.escape(name)}: "
    return bool(meaning(name, module)) or any(re.search(told, text or "", re.MULTILINE) for text in texts)


def unexplained_parameters(call: Any, module: str, *more: str | None) -> list[str]:
    given = [p for p in inspect.signature(call).parameters if p not in ("self", "cls") and not p.startswith("_")]
    return [p for p in given if not explained(p, module, call.__doc__, *more)]


def methods(cls: type[Any]) -> Iterator[tuple[str, FunctionType]]:
    for name, found in vars(cls).items():
        call = found.__func__ if isinstance(found, (classmethod, staticmethod)) else found
        if not name.startswith("_") and name not in INNER and isinstance(call, FunctionType):
            yield name, call


def fields_of(cls: type[Any]) -> list[str]:
    if dataclasses.is_dataclass(cls):
        return [f.name for f in dataclasses.fields(cls) if not f.name.startswith("_") and f.init]
    if issubclass(cls, tuple | dict):  # a NamedTuple or a TypedDict
        return list(cls.__annotations__)
    return []


def gaps(cls_or_call: Any) -> list[str]:
    module = cls_or_call.__module__
    if inspect.isfunction(cls_or_call):
        return unexplained_parameters(cls_or_call, module)
    doc = "\n".join(base.__doc__ or "" for base in cls_or_call.__mro__[:-1])
    notes, fields = field_notes(cls_or_call), fields_of(cls_or_call)
    found = [f for f in fields if f not in notes and not meaning(f, module) and not re.search(rf"`{f}", doc)]
    protocol = getattr(cls_or_call, "_is_protocol", False)
    if not fields and not protocol and isinstance(vars(cls_or_call).get("__init__"), FunctionType):
        found += unexplained_parameters(cls_or_call.__init__, module, doc)
    for name, call in methods(cls_or_call):
        if not call.__doc__:
            found.append(f"{name}() has no docstring")
        found += [f"{name}({p})" for p in unexplained_parameters(call, module, doc)]
    return found


PUBLIC = public()


@pytest.mark.parametrize("name", PUBLIC)
def test_every_field_and_parameter_has_a_meaning(name: str) -> None:
    found = PUBLIC[name]
    if inspect.isfunction(found) or inspect.isclass(found):
        assert gaps(found) == []


def test_the_reference_shows_every_public_package() -> None:
    import ucsearch

    assert {name.split(".")[1] for name in SHOWN[1:]} == set(ucsearch.PACKAGES)


def test_a_gap_is_noticed() -> None:
    @dataclasses.dataclass
    class Bare:
        """A record."""

        unexplained: int

        def turn(self, angle: float) -> None:
            """Turn it."""

    class Plain:
        """Made by hand."""

        def __init__(self, unexplained: int) -> None:
            self.unexplained = unexplained

    class Row(NamedTuple):
        """A row."""

        unexplained: int

    assert gaps(Bare) == ["unexplained", "turn(angle)"]
    assert gaps(Plain) == gaps(Row) == ["unexplained"]
    assert gaps(lambda unexplained: None) == ["unexplained"]
