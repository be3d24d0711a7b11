"""What is sent and what comes back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ucsearch.errors import InputError

__all__ = ["Answer", "Forecast", "Item", "Outcome", "Page", "Receipt"]

Number = float | int
Members = Sequence[Sequence[Number]]


def number(value: Any) -> float:
    """A number of a record: null is NaN, "inf" is unbounded, big whole numbers are text."""
    return math.nan if value is None else float(value)


def _sent(value: Any, where: str) -> Any:
    """A number as JSON can hold it; NaN is null."""
    if value is None:
        return None
    try:
        found = math.nan if isinstance(value, bool | str | bytes) else float(value)
        right = not isinstance(value, bool | str | bytes)
    except (TypeError, ValueError, OverflowError):
        found, right = math.nan, False
    if not right:
        raise InputError(where, repr(value)[:80], "a number")
    if math.isinf(found):
        raise InputError(where, found, "a finite number")
    return None if math.isnan(found) else found


def _time(value: str | datetime | None) -> str | None:
    return value.isoformat() if isinstance(value, datetime) else value


@dataclass(frozen=True)
class Forecast:
    """Members (J lists of H values), or mean and std (H each), or quantiles by level ("0.1": H values)."""

    members: Members | None = None
    mean: Sequence[Number] | None = None
    std: Sequence[Number] | None = None
    quantiles: Mapping[str, Sequence[Number]] | None = None
    issued: str | datetime | None = None  # when it was made
    cutoff: str | datetime | None = None  # last time it has seen; the monitor needs it
    model: str | None = None

    def content(self) -> dict[str, Any]:
        where = "forecast"
        kinds = [self.members is not None, self.mean is not None or self.std is not None, self.quantiles is not None]
        if sum(kinds) != 1 or (self.mean is None) != (self.std is None):
            raise InputError(where, f"{sum(kinds)} kinds", "one of members; mean and std; quantiles")
        out: dict[str, Any] = {}
        if self.members is not None:
            out["members"] = [[_sent(x, where) for x in path] for path in self.members]
        if self.mean is not None and self.std is not None:
            out["mean"] = [_sent(x, where) for x in self.mean]
            out["std"] = [_sent(x, where) for x in self.std]
        if self.quantiles is not None:
            out["quantiles"] = {str(q): [_sent(x, where) for x in v] for q, v in self.quantiles.items()}
        said = {"issued": _time(self.issued), "cutoff": _time(self.cutoff), "model": self.model}
        return {**out, **{k: v for k, v in said.items() if v is not None}}


@dataclass(frozen=True)
class Item:
    """One series to decide: its state, by the names of the plan's task, and its forecast."""

    series: str
    state: Mapping[str, Any]
    forecast: Forecast

    def content(self) -> dict[str, Any]:
        state = {name: _state(value, f"state.{name}") for name, value in self.state.items()}
        return {"series": self.series, "state": state, "forecast": self.forecast.content()}


def _state(value: Any, where: str) -> Any:
    if value is None or isinstance(value, str):
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()  # numpy's
    if isinstance(value, Sequence):
        return [_sent(x, where) for x in value]
    return _sent(value, where)


@dataclass(frozen=True)
class Outcome:
    """What came, `step` periods after the forecast's cutoff."""

    decision: str  # id
    value: Number | Sequence[Number]
    observed_at: str | datetime
    step: int = 1
    taken: Number | None = None  # what was really done, where it is known

    def content(self) -> dict[str, Any]:
        value = self.value
        sent = [_sent(x, "value") for x in value] if isinstance(value, Sequence) else _sent(value, "value")
        taken = {} if self.taken is None else {"taken": _sent(self.taken, "taken")}
        observed = _time(self.observed_at)
        return {"decision": self.decision, "step": self.step, "value": sent, "observed_at": observed, **taken}


@dataclass(frozen=True)
class Answer:
    """One decision, recorded. FALLBACK and HOLD are outcomes, not errors."""

    id: str
    seq: int
    series: str
    outcome: str  # RELEASED, FALLBACK or HOLD
    action: float  # NaN: nothing leaves
    label: str
    reason: str
    sentence: str
    valid_until: str
    order: float  # units, where they differ from the action; else NaN
    regret_bound: float
    monitor: str  # "armed", "tripped", "unknown" or "off"
    content: Mapping[str, Any] = field(repr=False)  # everything that was answered

    @classmethod
    def read(cls, c: Mapping[str, Any]) -> Answer:
        return cls(
            str(c["id"]), int(c["seq"]), str(c["series"]), str(c["outcome"]), number(c.get("action")),
            str(c.get("label", "")), str(c.get("reason", "")), str(c.get("sentence", "")),
            str(c.get("valid_until", "")), number(c.get("order")), number(c.get("regret_bound")),
            str((c.get("monitor") or {}).get("state", "")), c,
        )  # fmt: skip


@dataclass(frozen=True)
class Receipt:
    """Something else that was recorded: an override, a pause, a re-arming, outcomes."""

    new: bool  # False: all of it was there already
    content: Mapping[str, Any]


@dataclass(frozen=True)
class Page:
    """Decisions, newest first."""

    items: tuple[Mapping[str, Any], ...]
    next: str  # path of the next page; "" on the last
