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


def sent(value: Any, where: str) -> Any:
    """A number as JSON can hold it; NaN is null."""
    if value is None:
        return None
    try:
        number = math.nan if isinstance(value, bool | str | bytes) else float(value)
        is_number = not isinstance(value, bool | str | bytes)
    except (TypeError, ValueError, OverflowError):
        number, is_number = math.nan, False
    if not is_number:
        raise InputError(where, repr(value)[:80], "a number")
    if math.isinf(number):
        raise InputError(where, number, "a finite number")
    return None if math.isnan(number) else number


def sent_action(value: Any, where: str) -> Any:
    """As `sent`, also of an action that has several numbers."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes) or len(value) < 2:
        return sent(value, where)
    numbers = [sent(x, where) for x in value]
    if None in numbers:
        raise InputError(where, "nothing (NaN)", "finite numbers")
    return numbers


def _action(value: Any) -> float | tuple[float, ...]:
    return tuple(map(number, value)) if isinstance(value, list) else number(value)


def _values(values: Any, where: str) -> list[Any]:
    """A list of H numbers; members that are one flat list are a likely mistake."""
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise InputError(where, repr(values)[:80], "a list of numbers, one for each step")
    return [sent(x, where) for x in values]


def _time(value: str | datetime | None) -> str | None:
    return value.isoformat() if isinstance(value, datetime) else value


@dataclass(frozen=True)
class Forecast:
    """Members (J lists of H values), or mean and std (H each), or quantiles by level ("0.1": H values)."""

    members: Members | None = None  # J paths of H values, equally likely, in units of the outcome
    mean: Sequence[Number] | None = None  # (H,) units of the outcome; needs std
    std: Sequence[Number] | None = None  # (H,) standard deviations, as mean
    quantiles: Mapping[str, Sequence[Number]] | None = None  # level in (0, 1) as text: (H,) values
    issued: str | datetime | None = None  # when it was made
    cutoff: str | datetime | None = None  # last time it has seen; the monitor needs it
    model: str | None = None  # who made it, for the record

    def content(self) -> dict[str, Any]:
        """As JSON has it."""
        where = "forecast"
        kinds = [self.members is not None, self.mean is not None or self.std is not None, self.quantiles is not None]
        if sum(kinds) != 1 or (self.mean is None) != (self.std is None):
            raise InputError(where, f"{sum(kinds)} kinds", "one of members; mean and std; quantiles")
        out: dict[str, Any] = {}
        if self.members is not None:
            out["members"] = [_values(path, where) for path in self.members]
        if self.mean is not None and self.std is not None:
            out["mean"], out["std"] = _values(self.mean, where), _values(self.std, where)
        if self.quantiles is not None:
            out["quantiles"] = {str(q): _values(v, where) for q, v in self.quantiles.items()}
        texts = {"issued": _time(self.issued), "cutoff": _time(self.cutoff), "model": self.model}
        return {**out, **{k: v for k, v in texts.items() if v is not None}}


@dataclass(frozen=True)
class Item:
    """One series to decide: its state, by the names of the plan's task, and its forecast."""

    series: str  # its name: decisions, overrides and outcomes are found by it
    state: Mapping[str, Any]  # such as {"on_hand": 3.0, "open_orders": [4.0]}: the arguments of the task's `state`
    forecast: Forecast  # of the periods after its cutoff

    def content(self) -> dict[str, Any]:
        """As JSON has it."""
        if not isinstance(self.forecast, Forecast):
            raise InputError("forecast", type(self.forecast).__name__, "a ucsearch.client.Forecast")
        state = {name: _state(value, f"state.{name}") for name, value in self.state.items()}
        return {"series": self.series, "state": state, "forecast": self.forecast.content()}


def _state(value: Any, where: str) -> Any:
    if value is None or isinstance(value, str):
        return value
    if hasattr(value, "tolist"):
        value = value.tolist()  # numpy's
    if isinstance(value, Sequence):
        return [sent(x, where) for x in value]
    return sent(value, where)


@dataclass(frozen=True)
class Outcome:
    """What came, `step` periods after the forecast's cutoff."""

    decision: str  # id
    value: Number | Sequence[Number]  # in units of the outcome; a list where an outcome has several fields
    observed_at: str | datetime  # when it was known, with a time zone
    step: int = 1  # 1: the first period after the cutoff
    taken: Number | Sequence[Number] | None = None  # what was really done, where it is known

    def content(self) -> dict[str, Any]:
        """As JSON has it."""
        value = self.value
        said = [sent(x, "value") for x in value] if isinstance(value, Sequence) else sent(value, "value")
        if said is None or (isinstance(said, list) and None in said):
            raise InputError("value", "nothing (NaN)", "a finite number; an outcome that is not known yet is left out")
        action = None if self.taken is None else sent_action(self.taken, "taken")
        more = {} if action is None else {"taken": action}
        observed = _time(self.observed_at)
        return {"decision": self.decision, "step": self.step, "value": said, "observed_at": observed, **more}


@dataclass(frozen=True)
class Answer:
    """One decision, recorded. FALLBACK and HOLD are outcomes, not errors."""

    id: str  # of the record
    seq: int  # its place in the log, from 1
    series: str  # as in the item
    outcome: str  # RELEASED, FALLBACK or HOLD
    action: float | tuple[float, ...]  # NaN: nothing leaves; a tuple where the task's actions have several numbers
    label: str  # what the task calls the action, such as "order 12"; "" for none
    reason: str  # why the searched action did not leave, a word of `uc.Reason`; "none" when it did
    sentence: str  # the decision in one sentence, for people
    valid_until: str  # ISO time after which it must not be acted on; "" when there is no end
    order: float  # units, where they differ from the action; else NaN
    regret_bound: float  # units of the reward: the action is at most so much worse than the best; NaN: no proof
    monitor: str  # "armed", "tripped", "unknown" or "off"
    content: Mapping[str, Any] = field(repr=False)  # everything that was answered

    @classmethod
    def read(cls, c: Mapping[str, Any]) -> Answer:
        """From `c`, one answer of the service as JSON has it."""
        return cls(
            str(c["id"]), int(c["seq"]), str(c["series"]), str(c["outcome"]), _action(c.get("action")),
            str(c.get("label", "")), str(c.get("reason", "")), str(c.get("sentence", "")),
            str(c.get("valid_until", "")), number(c.get("order")), number(c.get("regret_bound")),
            str((c.get("monitor") or {}).get("state", "")), c,
        )  # fmt: skip


@dataclass(frozen=True)
class Receipt:
    """Something else that was recorded: an override, a pause, a re-arming, outcomes."""

    new: bool  # False: all of it was there already
    content: Mapping[str, Any]  # everything that was answered


@dataclass(frozen=True)
class Page:
    """Decisions, newest first."""

    items: tuple[Mapping[str, Any], ...]  # one summary for each decision
    next: str  # path of the next page; "" on the last
