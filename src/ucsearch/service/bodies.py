"""Read the bodies of requests: counted, timed, bounded in cost before they are parsed, parsed off the event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from ucsearch.pipeline.cases import state_columns
from ucsearch.service.auth import still_stands
from ucsearch.service.config import Limits
from ucsearch.service.problems import Refusal, shown
from ucsearch.service.schemas import MOST_ITEMS, DecideBody, ForecastBody
from ucsearch.settings import Columns, Settings

__all__ = ["counted", "parse", "read_body", "received", "rows_of"]

_PLACES = 20
_MOST_PLACES = 1_000  # errors that are shown one by one; more are only counted
# Marks of a body that are counted before it is parsed: what lies within these bounds takes no longer than 50 ms at a
# time. Forecasts have many numbers, everything else has few.
_MARKS = ((b"{", "objects"), (b"[", "lists"), (b":", "members of objects"), (b",", "values"))
_MOST_OF_FORECASTS, _MOST = (25_000, 60_000, 60_000, 500_000), (25_000, 20_000, 60_000, 100_000)
_SMALL = 32 << 10  # bytes that are parsed where they are: another thread would take longer to begin
PEOPLE_BYTES = 64 << 10  # of a request that a person's action makes
T = TypeVar("T", bound=BaseModel)
R = TypeVar("R")


@asynccontextmanager
async def received(request: Request, most: int) -> AsyncIterator[bytes]:
    """The body of a request as bytes. At most `limits.bodies` large ones are held at a time, so that memory is bounded;
    people's small ones always get through."""
    limits: Limits = request.app.state.service.config.limits
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Refusal("not_json_type", "expected Content-Type: application/json")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refusal("not_json_type", "compressed bodies are not read")
    if request.headers.get("transfer-encoding", "chunked").lower() != "chunked":
        raise Refusal("not_json_type", "of transfer encodings only chunked is read")
    state = request.app.state
    large = most > PEOPLE_BYTES
    if large and state.bodies >= limits.bodies:
        raise Refusal("queue_full", f"{state.bodies} bodies are being read, at most {limits.bodies}")
    state.bodies += large
    try:
        raw = await counted(request, most, limits.body_s)
        still_stands(request)
        yield raw
    finally:
        state.bodies -= large


async def counted(request: Request, most: int, seconds: float) -> bytes:
    """The bytes of a body, at most so many and within so many seconds."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        raise Refusal("too_large", f"{length} bytes, at most {most}")
    parts: list[bytes] = []
    total = 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                total += len(part)
                if total > most:
                    raise Refusal("too_large", f"more than {most} bytes")
                parts.append(part)
    except TimeoutError:
        raise Refusal("too_slow", f"the body did not arrive within {seconds:g} s") from None
    except ClientDisconnect:
        raise Refusal("bad_request", "the client went away") from None
    return b"".join(parts)


async def parse(raw: bytes, read: Callable[[], R]) -> R:
    """Run a function that parses and checks a body; large ones off the event loop, so that others are answered."""
    return read() if len(raw) <= _SMALL else await asyncio.to_thread(read)


def check_cost(raw: bytes, kind: type[BaseModel]) -> None:
    """Refuse a body that would take long to parse, by counting its marks."""
    for (mark, name), most in zip(_MARKS, _MOST_OF_FORECASTS if kind is DecideBody else _MOST, strict=True):
        if raw.count(mark) > most:
            raise Refusal("too_large", f"more than {most} {name}")


def read_body(kind: type[T], raw: bytes) -> T:
    """The body as `kind`. Duplicate keys, bad UTF-8 and what is no JSON are found first; values are then checked on the
    raw bytes, because a float that was parsed does not show that it was 1e999."""
    check_cost(raw, kind)
    try:
        json.loads(raw.decode("utf-8"), object_pairs_hook=_once, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Refusal("not_json", shown(error)) from error
    try:
        return kind.model_validate_json(raw, strict=True)
    except ValidationError as error:
        if (count := error.error_count()) > _MOST_PLACES:
            raise Refusal("invalid", f"{count} places") from error
        found = error.errors(include_url=False, include_context=False, include_input=False)
        if found[0]["type"] == "too_long" and found[0]["loc"] == ("items",):
            raise Refusal("too_large", f"more than {MOST_ITEMS} items") from error
        where = tuple(f"{shown(_place(e['loc']))}: {shown(e['msg'])}" for e in found[:_PLACES])
        raise Refusal("invalid", f"{len(found)} place{'' if len(found) == 1 else 's'}", where=where) from error


def _once(pairs: list[tuple[str, Any]]) -> None:
    """Only the keys are looked at: values are read by the model."""
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)!r} occurs twice")


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


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
        out["members"] = given.members
    for name in ("issued", "cutoff", "model"):
        if (value := getattr(given, name)) is not None:
            if not value.isprintable():
                raise Refusal("invalid", "an odd text", where=(f"items[{i}].forecast.{name}: printable text",))
            out[name] = value
    return out
