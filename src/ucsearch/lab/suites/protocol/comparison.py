"""What a suite fixes before anything is run: how policies are compared, on which families, and from which seed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ucsearch.errors import InputError
from ucsearch.replay.statistics import LEVEL

__all__ = ["COMPARATORS", "LEVEL", "SHARE", "TIE", "Protocol", "finite", "gate_row", "holds", "is_sampler"]

SHARE = 0.95
"""What certificate, risk-active and audit shares must reach. Not a setting: the gate is the same for every suite."""

COMPARATORS = ("cem", "mppi", "risk-random")
"""Whom the gate wants beaten in every family."""

SAMPLERS = (*COMPARATORS, "rand-shoot")
"""Policies that draw plans; every figure of theirs is a mean over seeds."""

TIE = 1e-12
"""Rates and slacks that differ by less are equal."""


@dataclass(frozen=True)
class Protocol:
    """The comparison a suite declares. It is part of the selection record, hence frozen before test is opened."""

    suite: str  # its name
    seed: int  # of the bootstraps
    form: str  # "cost": smaller is better and never negative; "reward": larger is better
    metric: str  # of a policy, compared by scale-free deltas
    utility: str  # of a policy, larger is better; the last word in selection
    families: Mapping[str, str]  # family: the data set it comes from, the cluster of the secondary audit
    windows: Mapping[str, int] = field(default_factory=dict)  # of each series, by split, where declared
    gate: bool = True  # whether promotion is asked for; otherwise the suite is a diagnostic
    policy: str = "uc"  # the one that is judged

    def __post_init__(self) -> None:
        for name in ("suite", "metric", "utility", "policy"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise InputError(f"protocol.{name}", repr(getattr(self, name)), "text")
        if type(self.seed) is not int or not 0 <= self.seed < 2**53:
            raise InputError("protocol.seed", repr(self.seed), "an integer from 0 to 2**53 - 1")
        if self.form not in ("cost", "reward"):
            raise InputError("protocol.form", repr(self.form), "cost or reward")
        if type(self.gate) is not bool:
            raise InputError("protocol.gate", repr(self.gate), "true or false")
        if not isinstance(self.families, Mapping) or not self.families:
            raise InputError("protocol.families", repr(self.families), "at least one family with its data set")
        for name, dataset in self.families.items():
            if not isinstance(dataset, str) or not dataset or not isinstance(name, str) or not name:
                raise InputError("protocol.families", repr(dataset), "the name of a data set", index=name)
        if not isinstance(self.windows, Mapping):
            raise InputError("protocol.windows", repr(self.windows), "counts by split")
        for split, count in self.windows.items():
            if type(count) is not int or count < 1:
                raise InputError("protocol.windows", repr(count), "a count of at least 1", index=split)

    def as_json(self) -> dict[str, Any]:
        """As the selection record holds it."""
        return asdict(self) | {"families": dict(self.families), "windows": dict(self.windows)}

    @classmethod
    def from_json(cls, content: Any) -> Protocol:
        """The protocol that `as_json` wrote; nothing may be missing or unknown."""
        names = {f.name for f in fields(cls)}
        if not isinstance(content, Mapping) or set(content) != names:
            seen = sorted(content) if isinstance(content, Mapping) else repr(content)
            raise InputError("protocol", seen, f"the members {', '.join(sorted(names))}")
        return cls(**content)


def is_sampler(policy: str) -> bool:
    """Whether a policy draws plans, at whatever budget."""
    return policy.removesuffix("-wide").removesuffix("-time") in SAMPLERS


def finite(value: float | None) -> float | None:
    """The value as evidence holds it; None for what is no finite number."""
    return None if value is None or not math.isfinite(value) else value


def holds(left: Any, op: str, right: Any) -> bool:
    """Whether `left op right`. What is no finite number never holds."""
    for value in (left, right):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            return False
    if op == ">=":
        return bool(left >= right)
    if op == ">":
        return bool(left > right)
    if op == "<=":
        return bool(left <= right)
    if op == "<":
        return bool(left < right)
    if op == "==":
        return bool(left == right)
    raise InputError("op", repr(op), "one of >=, >, <=, <, ==")


def gate_row(
    name: str, left: float | None, op: str, right: float, *, family: str | None = None, comparator: str | None = None
) -> dict[str, Any]:
    """A condition with its figures; a left side that is not finite is null and fails."""
    figure = finite(left)
    return {
        "name": name,
        "family": family,
        "comparator": comparator,
        "left": figure,
        "op": op,
        "right": right,
        "pass": holds(figure, op, right),
    }
