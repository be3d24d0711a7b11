"""Every public parameter and field has a meaning: beside the field, in the docstring, or among the shared words."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import ucsearch as uc
from ucsearch.settings import field_notes

ROOT = Path(__file__).resolve().parents[2]
# Called by the engine, the log's own writers and subclasses, not by users; their modules say what they take.
INNER = {"append_batch", "append_sealed", "append_bodies", "append_last", "take_over", "trusted", "layout", "work",
         "extra_i", "extra_f", "is_recorded_as"}  # fmt: skip


def words() -> dict[str, str]:
    spec = importlib.util.spec_from_file_location("reference_words", ROOT / "scripts" / "reference_words.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return dict(module.WORDS)


WORDS = words()


def explained(name: str, *texts: str | None) -> bool:
    return name in WORDS or any(re.search(rf"\b{re.escape(name)}\b", text or "") for text in texts)


def unexplained_parameters(call: Any, *more: str | None) -> list[str]:
    given = [p for p in inspect.signature(call).parameters if p not in ("self", "cls") and not p.startswith("_")]
    return [p for p in given if not explained(p, call.__doc__, *more)]


def methods(cls: type[Any]) -> Iterator[tuple[str, FunctionType]]:
    for name, found in vars(cls).items():
        call = found.__func__ if isinstance(found, (classmethod, staticmethod)) else found
        if not name.startswith("_") and name not in INNER and isinstance(call, FunctionType):
            yield name, call


def gaps(cls_or_call: Any) -> list[str]:
    if inspect.isfunction(cls_or_call):
        return unexplained_parameters(cls_or_call)
    found = []
    doc = "\n".join(base.__doc__ or "" for base in cls_or_call.__mro__[:-1])
    if dataclasses.is_dataclass(cls_or_call):
        notes = field_notes(cls_or_call)
        fields = [f.name for f in dataclasses.fields(cls_or_call) if not f.name.startswith("_") and f.init]
        found += [f for f in fields if f not in notes and not re.search(rf"`{f}", doc)]
    for name, call in methods(cls_or_call):
        if not call.__doc__:
            found.append(f"{name}() has no docstring")
        found += [f"{name}({p})" for p in unexplained_parameters(call, doc)]
    return found


@pytest.mark.parametrize("name", sorted(uc.__all__))
def test_every_field_and_parameter_has_a_meaning(name: str) -> None:
    found = getattr(uc, name)
    if inspect.isfunction(found) or inspect.isclass(found):
        assert gaps(found) == []


def test_a_gap_is_noticed() -> None:
    @dataclasses.dataclass
    class Bare:
        """A record."""

        unexplained: int

        def turn(self, angle: float) -> None:
            """Turn it."""

    assert gaps(Bare) == ["unexplained", "turn(angle)"]
    assert gaps(lambda unexplained: None) == ["unexplained"]
