"""What the caller asks of a recorded gate: to be at least as strict as one of his own, from a TOML file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ucsearch.verify.read import Malformed, open_regular
from ucsearch.verify.schema import KINDS, LIMITS
from ucsearch.verify.verdict import Invalid, Record

DEFAULTS = {"certificate": True}  # as a gate has it when a settings file says nothing; all else is not asked for
LOOSENING = ("near", "allow_ties")  # let something pass that else would not
LONGEST = 1 << 20  # bytes of a settings file
MOST_DOTS = 10_000  # in all of it: a key of many takes tomllib time by more than the square of their number


def read_gate(path: Path) -> dict[str, Any]:
    """The [gate] table of a settings file, or a file of its members alone."""
    try:
        with open_regular(path) as file:
            data = file.read(LONGEST + 1)
        if len(data) > LONGEST or data.count(b".") > MOST_DOTS:
            raise ValueError("too long for settings")
        content = tomllib.loads(data.decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # tomllib's error is a ValueError
        raise Malformed(f"{path}: not a TOML file ({error})") from None
    gate = content.get("gate", content)
    if not isinstance(gate, dict):
        raise Malformed(f"{path}: gate: saw {gate!r}, expected a table")
    for name, value in gate.items():
        kind = LIMITS.get(name, LIMITS.get(f"{name}?"))
        if kind is None:
            names = ", ".join(n.rstrip("?") for n in LIMITS)
            raise Malformed(f"{path}: gate.{name}: unknown; expected some of {names}")
        if not KINDS[kind](value):
            raise Malformed(f"{path}: gate.{name}: saw {value!r}, expected {kind}")
    return {**DEFAULTS, **gate}


def demand(r: Record, wanted: Mapping[str, Any]) -> None:
    """Every condition that is wanted was asked for, within the wanted limit; nothing was let through beside it."""
    recorded = r["gate"]["settings"]
    for name in dict.fromkeys([*wanted, *LOOSENING]):
        want, limit = wanted.get(name), recorded.get(name)
        if name == "allow_ties":
            strict = limit is want or limit is False or want is True
        elif name in LOOSENING:
            strict = bool(want) or not limit
        elif want is None or want is False:
            strict = True
        elif want is True:
            strict = limit is True
        else:
            strict = limit is not None and (limit >= want if name.startswith("min_") else limit <= want)
        if not strict:
            raise Invalid(f"gate.settings.{name}", limit, f"a weaker gate than the demanded {want}")
