"""A suite is data: a TOML file with a few common keys and one table for its kind. Unknown keys are refused.

Every suite has a small version, `<name>-mini`, on generated data: its own file under the rules of `mini.toml`.
"""

from __future__ import annotations

import difflib
import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import tomlkit
from pydantic import ConfigDict, Field, ValidationError, field_validator

from ucsearch.errors import InputError
from ucsearch.lab.suites.kinds import KINDS, settings_of
from ucsearch.lab.suites.kinds.settings import SettingsTable, refusal

__all__ = ["Suite", "load_suite", "parse_suite", "suite_names"]

_HOME = resources.files("ucsearch.lab.suites")
_FOLDER = _HOME / "suites"
MINI = "-mini"


class _Head(SettingsTable):
    model_config = ConfigDict(strict=True)

    name: str = Field(description="its name, which its evidence folder has too")
    kind: str = Field(description="which protocol runs it")
    title: str = Field(min_length=1, description="one line for people")
    endpoint: str = Field(min_length=1, description="what a claim about it would be called")
    card: str = Field(min_length=1, description="its benchmark card, a file that ends in .md and lies beside it")
    seed: int = Field(ge=0, lt=2**53, description="the seed of everything random in it")

    @field_validator("name")
    @classmethod
    def _plain(cls, name: str) -> str:
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", name):
            raise ValueError("small letters, digits and hyphens, such as bakery-2")
        return name


@dataclass(frozen=True)
class Suite:
    """One suite, checked. `settings` is the model of its kind."""

    name: str  # of the folder that its evidence goes to
    kind: str  # such as "walkforward": what runs it
    title: str  # for people
    endpoint: str  # what a claim would be about
    card: str  # file of the benchmark card
    seed: int  # of everything that is drawn
    settings: Any  # the table of its kind
    text: str  # the file as it was read
    folder: Path = Path()  # that it was read from; a card of one's own lies there

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    def as_json(self) -> dict[str, Any]:
        """Everything that decides a run, defaults written out."""
        head = {name: getattr(self, name) for name in _Head.model_fields}
        return {**head, self.kind: self.settings.model_dump(mode="json")}


def suite_names(mini: bool = True) -> list[str]:
    """The suites that come with the package; `mini`: their small versions too."""
    names = sorted(p.name.removesuffix(".toml") for p in _FOLDER.iterdir() if p.name.endswith(".toml"))
    return sorted([*names, *(f"{name}{MINI}" for name in names)]) if mini else names


def load_suite(name: str | Path) -> Suite:
    """A suite by name, or from a TOML file of your own."""
    path = Path(name)
    if path.suffix == ".toml":
        if not path.is_file():
            raise InputError("suite", str(name), "a file that exists")
        return parse_suite(path.read_text("utf-8"), str(name), path.parent)
    if str(name) not in suite_names():
        near = difflib.get_close_matches(str(name), suite_names(), n=1)
        hint = f"Did you mean {near[0]}?" if near else "A suite of your own is given as a path that ends in .toml."
        known = f"one of {', '.join(suite_names(mini=False))}, or with {MINI} its small version"
        raise InputError("suite", repr(str(name)), known, hint=hint)
    full = str(name).removesuffix(MINI)
    text = (_FOLDER / f"{full}.toml").read_text("utf-8")
    return parse_suite(text if full == name else _small(full, text), f"{name}.toml")


def _small(name: str, text: str) -> str:
    """The file of a suite's small version."""
    content, rules = tomllib.loads(text), tomllib.loads((_HOME / "mini.toml").read_text("utf-8"))
    kind = content["kind"]
    for rule in (rules["kind"].get(kind, {}), rules["suite"].get(name, {})):
        _lay_over(content[kind], {key: value for key, value in rule.items() if key != "without"})
        for path in rule.get("without", ()):
            *tables, last = path.split(".")
            place = content[kind]
            for table in tables:
                place = place.get(table, {})
            place.pop(last, None)
    content |= {
        "name": f"{name}{MINI}",
        "title": f"{content['title']} (small, on generated data)",
        "endpoint": "generated data (protocol check)",
    }
    return tomlkit.dumps(content)


def _lay_over(own: dict[str, Any], other: Mapping[str, Any]) -> None:
    """Put values in place of a suite's own; tables count where it has them."""
    for name, value in other.items():
        if not isinstance(value, Mapping):
            own[name] = value
        elif isinstance(own.get(name), dict):
            _lay_over(own[name], value)


def parse_suite(text: str, where: str = "suite", folder: Path = Path()) -> Suite:
    """Check the text of a suite. `where` is what messages call it, `folder` where a card of its own lies."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(where, str(error), "a TOML file") from error
    kind = content.get("kind")
    if kind not in KINDS:
        raise InputError(f"{where}: kind", repr(kind), f"one of {', '.join(KINDS)}")
    common = {k: v for k, v in content.items() if k != kind}
    try:
        head = _Head.model_validate(common)
    except ValidationError as error:
        raise refusal(error, _Head, where) from error
    try:
        settings = settings_of(kind).model_validate(content.get(kind, {}))
    except ValidationError as error:
        raise refusal(error, settings_of(kind), where, (kind,)) from error
    return Suite(**head.model_dump(), settings=settings, text=text, folder=folder)
