"""What requests may say: strict models, read from the raw bytes, so that what is recorded is what was sent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from struct import error as PackError
from struct import pack
from typing import Annotated, Any, TypeVar, cast

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ucsearch.errors import RecordError
from ucsearch.pipeline.cases import state_columns
from ucsearch.records.canonical import loads
from ucsearch.service.config import Limits
from ucsearch.service.problems import Refusal, shown
from ucsearch.settings import Columns, Settings

__all__ = [
    "ALL", "DecideBody", "OutcomeItem", "OutcomesBody", "OverrideBody", "PauseBody", "RearmBody", "ResumeBody",
    "read_body", "rows_of",
]  # fmt: skip

_PLACES = 20
# A body of millions of wrong values must not become as many errors: they took 20 s and 4 GB to make.
_MOST_PLACES = 1_000  # that are told one by one
_MOST_ITEMS = 10_000  # of which limits.items may be set to
_MOST_MEMBERS = 250_000  # of all objects of a body together
Number = Annotated[float, Field(allow_inf_nan=False)]
Numbers = Annotated[list[Number | None], Field(fail_fast=True)]
Why = Annotated[str, Field(min_length=3, max_length=500)]
Time = Annotated[str, Field(max_length=64)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class ForecastBody(_Body):
    """Members (J lists of H values), or mean and std, or quantiles by level; H values each."""

    members: Annotated[list[Numbers], Field(fail_fast=True)] | None = None
    mean: Numbers | None = None
    std: Numbers | None = None
    quantiles: dict[str, Numbers] | None = None
    issued: Time | None = None
    cutoff: Time | None = None
    model: Annotated[str, Field(max_length=200)] | None = None


class DecideItem(_Body):
    series: Annotated[str, Field(min_length=1)]
    state: dict[str, Number | str | Numbers | None]
    forecast: ForecastBody


class DecideBody(_Body):
    """Series to be decided together: all are recorded in one commit, or none."""

    items: Annotated[list[DecideItem], Field(min_length=1, max_length=_MOST_ITEMS)]


class OverrideBody(_Body):
    """A person's action in place of the decided one; null withdraws."""

    action: Number | Annotated[str, Field(max_length=200)] | None
    why: Why
    expects: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class OutcomeItem(_Body):
    """What came of a decision, `step` periods later."""

    decision: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    step: Annotated[int, Field(ge=1, le=100_000)] = 1
    value: Number | Annotated[list[Number], Field(min_length=1, max_length=64)]
    observed_at: Time
    taken: Number | None = None


class OutcomesBody(_Body):
    items: Annotated[list[OutcomeItem], Field(min_length=1, max_length=_MOST_ITEMS)]


class PauseBody(_Body):
    why: Why
    until: Time | None = None


class ResumeBody(_Body):
    why: Why


class RearmBody(_Body):
    """Start a tripped stream anew; without a series the pool of the plan."""

    series: Annotated[str, Field(min_length=1, max_length=1_000)] | None = None
    why: Why
    accept: bool = False


ALL: tuple[type[_Body], ...] = (DecideBody, OverrideBody, OutcomesBody, PauseBody, ResumeBody, RearmBody)
T = TypeVar("T", bound=BaseModel)


def read_body(kind: type[T], raw: bytes) -> T:
    """The body as `kind`. Duplicate keys, bad UTF-8 and what is no JSON are found first; values are then judged on the
    raw bytes, because a float that was parsed does not show that it was 1e999."""
    if raw.count(b":") > _MOST_MEMBERS:
        raise Refusal("too_large", f"more than {_MOST_MEMBERS} members of objects")
    if kind is DecideBody and (quick := _plain_body(raw)) is not None:
        return cast(T, quick)
    try:
        loads(raw)
    except RecordError as error:
        raise Refusal("not_json", shown(error)) from error
    try:
        return kind.model_validate_json(raw, strict=True)
    except ValidationError as error:
        if (count := error.error_count()) > _MOST_PLACES:
            raise Refusal("invalid", f"{count} places") from error
        found = error.errors(include_url=False, include_context=False, include_input=False)
        if found[0]["type"] == "too_long" and found[0]["loc"] == ("items",):
            raise Refusal("too_large", f"more than {_MOST_ITEMS} items") from error
        where = tuple(f"{shown(_place(e['loc']))}: {shown(e['msg'])}" for e in found[:_PLACES])
        raise Refusal("invalid", f"{len(found)} place{'' if len(found) == 1 else 's'}", where=where) from error


def _plain_body(raw: bytes) -> DecideBody | None:
    """The body of a request to decide, where one pass is enough to see that nothing is wrong; None: look closer.

    A key that is there twice would be lost without a word, and parsing in Python to find out takes longer than
    everything else. Every member has one colon, so where there are as many colons as members that arrived, and texts
    without escapes to hide them in, none was lost."""
    if b"\\" in raw:
        return None
    try:
        body = DecideBody.model_validate_json(raw, strict=True)
    except ValidationError:
        return None
    members, texts = 1, list[str]()
    for item in body.items:
        forecast = item.forecast
        members += 3 + len(item.state) + len(forecast.model_fields_set)
        texts += [item.series, *item.state]
        texts += [value for value in item.state.values() if isinstance(value, str)]
        texts += [text for text in (forecast.issued, forecast.cutoff, forecast.model) if text is not None]
        if forecast.quantiles is not None:
            members += len(forecast.quantiles)
            texts += forecast.quantiles
    return body if raw.count(b":") == members + sum(text.count(":") for text in texts) else None


def _place(loc: Sequence[int | str]) -> str:
    out = ""
    for part in loc:
        out += f"[{part}]" if isinstance(part, int) else (f".{part}" if out else str(part))
    return out or "body"


def rows_of(body: DecideBody, limits: Limits, settings: Settings) -> list[dict[str, Any]]:
    """The items as `decide_cases` takes them, after the limits were looked at."""
    names = settings.columns
    series_column = names.series
    known = {"series", *state_columns(settings.task).words}
    texts = {names.date, *names.ignore, *known, *(mine for mine, ours in names.rename.items() if ours in known)}
    if len(body.items) > limits.items:
        raise Refusal("too_large", f"{len(body.items)} items, at most {limits.items}")
    rows = []
    seen: set[str] = set()
    for i, item in enumerate(body.items):
        check_series(item.series, limits, f"items[{i}].series")
        if item.series in seen:
            raise Refusal("invalid", "a series twice", where=(f"items[{i}].series: the series is there already",))
        seen.add(item.series)
        for name, value in item.state.items():
            if name in ("series", "forecast", series_column):
                raise Refusal("invalid", "a reserved name", where=(f"items[{i}].state.{name}: not a state",))
            if not name.isprintable() or len(name) > 200 or (isinstance(value, str) and not value.isprintable()):
                raise Refusal("invalid", "an odd name", where=(f"items[{i}].state: names and words are printable",))
            if isinstance(value, str) and name not in texts:
                # A file has only texts; here a text that looks like a number is somebody's mistake.
                raise Refusal("invalid", "a text", where=(f"items[{i}].state.{shown(name)}: a number is expected",))
        rows.append({"series": item.series, **item.state, "forecast": _forecast(item.forecast, i, limits, names)})
    return rows


def check_series(name: str, limits: Limits, where: str) -> None:
    if len(name) > limits.series_length:
        raise Refusal("invalid", "a long name", where=(f"{where}: at most {limits.series_length} characters",))
    if name in (".", ".."):  # clients and browsers take them out of an address: nobody could look at it
        raise Refusal("invalid", "an odd name", where=(f"{where}: a name that an address can hold",))
    if not name.isprintable() or name != name.strip():
        raise Refusal("invalid", "an odd name", where=(f"{where}: no control characters, no spaces around it",))


def _forecast(given: ForecastBody, i: int, limits: Limits, names: Columns) -> dict[str, Any]:
    lists: Mapping[str, Any] = {  # under the names that the plan's settings have for them
        "members": given.members, names.mean: given.mean, names.std: given.std,
        **{f"{names.quantiles}{level}": values for level, values in (given.quantiles or {}).items()},
    }  # fmt: skip
    out = {name: values for name, values in lists.items() if values is not None}
    paths = given.members if given.members is not None else list(out.values())
    longest = max(map(len, paths), default=0)
    if len(paths) > limits.members or longest > limits.steps or len(paths) * longest > limits.numbers:
        raise Refusal(
            "too_large",
            f"{len(paths)} x {longest} numbers, at most {limits.members} members, {limits.steps} steps and "
            f"{limits.numbers} together",
            where=(f"items[{i}].forecast",),
        )
    if given.members is not None:
        out["members"] = _packed(given.members)
    for name in ("issued", "cutoff", "model"):
        if (value := getattr(given, name)) is not None:
            if not value.isprintable():
                raise Refusal("invalid", "an odd text", where=(f"items[{i}].forecast.{name}: printable text",))
            out[name] = value
    return out


def _packed(members: list[list[float | None]]) -> Any:
    """Members as an array, where each has as many values and none is missing. While requests wait, hundreds of numbers
    of each would be looked up in memory again by the deciding thread, and freed there."""
    steps, count = len(members[0]) if members else 0, len(members)
    if not steps or set(map(len, members)) != {steps}:
        return members
    try:  # in half the time that NumPy takes to look through lists
        return np.frombuffer(pack(f"{count * steps}d", *chain.from_iterable(members))).reshape(count, steps)
    except PackError:  # a value is missing
        return members


def number_text(value: float) -> float | str | None:
    """As records write numbers."""
    if math.isnan(value):
        return None
    return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")
