"""Dependencies that endpoints share: the service, query names, and the body of a request with its idempotency key.

Bodies are counted and timed while they come, bounded in cost before they are parsed, and parsed off the event loop.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Depends, Header, Query
from prometheus_client import Gauge
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from ucsearch.planner.decide.states import state_columns
from ucsearch.planner.settings import Columns, Settings
from ucsearch.records.canonical import canonical
from ucsearch.records.entries import Request as RecordedRequest
from ucsearch.service.auth import check_still_valid
from ucsearch.service.config import Limits
from ucsearch.service.errors import ApiProblem, excerpt
from ucsearch.service.schemas import DecideBody, ForecastBody, plain
from ucsearch.service.service import Service, request_of
from ucsearch.service.tokens import Principal

__all__ = [
    "PEOPLE_BYTES",
    "HeldBodies",
    "IdempotencyKey",
    "Keyed",
    "Limit",
    "ServiceDep",
    "Text",
    "as_json",
    "check_query",
    "keyed_body",
    "read_body",
    "read_bytes",
    "receive_body",
    "rows_of",
    "service_of",
]

_PLACES = 20
_MOST_PLACES = 1_000  # errors that are shown one by one; more are only counted
# Marks of a body that are counted before it is parsed, so that nothing within 2 MB holds the interpreter for long. A
# list takes as long as some values. Forecasts have many of both, everything else has few. Objects are bounded by the
# items that a request may have. The client cuts its requests by the same numbers (`client/exchanges.py`).
LIST, VALUES, MEMBERS = 4, 450_000, 20_000
_FEW_VALUES = 140_000
_OBJECTS_OF_ITEM, _OBJECTS = 4, 64
# Of a refused body, which the server still takes in: who is cut off while sending does not hear why.
_THROWN_AWAY = 16 << 20
PEOPLE_BYTES = 64 << 10  # of a request that a person's action makes
T = TypeVar("T", bound=BaseModel)
Text = Annotated[str | None, Query(max_length=1_000)]
Limit = Annotated[int, Query(ge=1, le=500)]
IdempotencyKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key", min_length=1, max_length=128, pattern="^[!-~]{1,128}$",
        description="names the request: the same key gives the same answer, whatever happened in between",
    ),
]  # fmt: skip


def service_of(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _service(request: Request) -> Service:
    return service_of(request)


ServiceDep = Annotated[Service, Depends(_service)]


def check_query(request: Request, *known: str) -> None:
    """Refuse a name that is misspelt, or there twice: the answer would be to another question."""
    names = [name for name, _ in request.query_params.multi_items()]
    for name in names:
        if name not in known:
            raise ApiProblem("invalid", "a parameter that is not known", where=(f"query.{excerpt(name)}",))
        if names.count(name) > 1:
            raise ApiProblem("invalid", "a parameter that is repeated", where=(f"query.{name}",))


def as_json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Canonical bytes, so that equal content is equal text."""
    body = content if isinstance(content, bytes) else canonical(plain(content))
    return Response(body, status, headers, "application/json")


class HeldBodies:
    """Bytes of large bodies from their first one to their answer, so that memory is bounded; a token has at most half
    of them. People's small ones always get through."""

    def __init__(self, limits: Limits, gauge: Gauge) -> None:
        self._most, self._gauge = limits.held_bytes, gauge
        self._held: Counter[str] = Counter()

    @contextmanager
    def hold(self, count: int, principal: Principal) -> Iterator[None]:
        if count <= PEOPLE_BYTES:
            yield
            return
        if self._held.total() + count > self._most or self._held[principal.token] + count > self._most // 2:
            raise ApiProblem("queue_full", "too many large bodies are not answered yet")
        self._held[principal.token] += count
        self._gauge.set(self._held.total())
        try:
            yield
        finally:
            self._held[principal.token] -= count
            self._held += Counter()  # without those that hold nothing
            self._gauge.set(self._held.total())


@asynccontextmanager
async def receive_body(request: Request, most: int, principal: Principal) -> AsyncIterator[bytes]:
    """The body of a request as bytes, held until its answer."""
    limits: Limits = request.app.state.service.config.limits
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise ApiProblem("not_json_type", "expected Content-Type: application/json")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise ApiProblem("not_json_type", "compressed bodies are not read")
    if request.headers.get("transfer-encoding", "chunked").lower() != "chunked":
        raise ApiProblem("not_json_type", "of transfer encodings only chunked is read")
    bodies: HeldBodies = request.app.state.bodies
    with bodies.hold(_declared_length(request, most), principal):
        raw = await read_bytes(request, most, limits.body_s)
        check_still_valid(request)
        yield raw


def _declared_length(request: Request, most: int) -> int:
    """Bytes that a body has, or may have where its head does not say it."""
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        raise ApiProblem("too_large", f"{length} bytes, at most {most}", closes=int(length) > _THROWN_AWAY)
    return int(length) if length.isdecimal() else most


async def read_bytes(request: Request, most: int, seconds: float) -> bytes:
    """The bytes of a body, at most so many and within so many seconds."""
    _declared_length(request, most)
    parts: list[bytes] = []
    total = 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                total += len(part)
                if total > most:
                    raise ApiProblem("too_large", f"more than {most} bytes", closes=True)
                parts.append(part)
    except TimeoutError:
        raise ApiProblem("too_slow", f"the body did not arrive within {seconds:g} s", closes=True) from None
    except ClientDisconnect:
        raise ApiProblem("bad_request", "the client went away") from None
    return b"".join(parts)


def check_cost(raw: bytes, kind: type[BaseModel], items: int) -> None:
    """Refuse a body that would take long to parse, by counting its marks; `items` are those that it may have."""
    most = VALUES if kind is DecideBody else _FEW_VALUES
    for count, limit, name in (
        (raw.count(b"{"), _OBJECTS_OF_ITEM * items + _OBJECTS, "objects"),
        (raw.count(b":"), MEMBERS, "members of objects"),
        (LIST * raw.count(b"[") + raw.count(b","), most, f"values, of which a list counts as {LIST}"),
    ):
        if count > limit:
            raise ApiProblem("too_large", f"{count} {name}, at most {limit}")


def read_body(kind: type[T], raw: bytes, items: int) -> T:
    """The body as `kind`. Duplicate keys, bad UTF-8 and what is no JSON are found first; values are then checked on the
    raw bytes, because a float that was parsed does not show that it was 1e999."""
    check_cost(raw, kind, items)
    try:
        json.loads(raw.decode("utf-8"), object_pairs_hook=_check_keys, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ApiProblem("not_json", excerpt(error)) from error
    try:
        body = kind.model_validate_json(raw, strict=True)
    except ValidationError as error:
        if (count := error.error_count()) > _MOST_PLACES:
            raise ApiProblem("invalid", f"{count} places") from error
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        if errors[0]["type"] == "too_long" and errors[0]["loc"] == ("items",):
            raise ApiProblem("too_large", f"more than {items} items") from error
        where = tuple(f"{excerpt(_place(e['loc']))}: {excerpt(e['msg'])}" for e in errors[:_PLACES])
        raise ApiProblem("invalid", f"{len(errors)} place{'' if len(errors) == 1 else 's'}", where=where) from error
    if len(getattr(body, "items", ())) > items:
        raise ApiProblem("too_large", f"more than {items} items")
    return body


def _check_keys(pairs: list[tuple[str, Any]]) -> None:
    """Only the keys are looked at: values are read by the model."""
    keys = [key for key, _ in pairs]
    if len(set(keys)) != len(keys):
        raise ValueError(f"the key {next(key for key, count in Counter(keys).items() if count > 1)!r} occurs twice")


def _refuse_constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def _place(loc: Sequence[int | str]) -> str:
    out = ""
    for part in loc:
        out += f"[{part}]" if isinstance(part, int) else (f".{part}" if out else str(part))
    return out or "body"


@dataclass(frozen=True)
class Keyed(Generic[T]):
    """A body, whose it is, and the request that its idempotency key names."""

    principal: Principal
    request: RecordedRequest
    body: T
    size: int  # bytes


def keyed_body(
    kind: type[T], principal: Callable[[Request], Awaitable[Principal]], *, many: bool = False
) -> Callable[..., AsyncIterator[Keyed[T]]]:
    """A dependency: the body of a request that writes. `many` is for those with items, which may be large: where they
    would be refused they are not parsed."""

    async def read(
        request: Request, key: IdempotencyKey, by: Principal = Depends(principal)
    ) -> AsyncIterator[Keyed[T]]:
        service = service_of(request)
        limits = service.config.limits
        async with receive_body(request, limits.body_bytes if many else PEOPLE_BYTES, by) as raw:
            named = request_of(by, request.url.path, key, raw)
            if many:
                service.admit(named)
            body = await service.parse(len(raw), lambda: read_body(kind, raw, limits.items))
            yield Keyed(by, named, body, len(raw))

    return read


def rows_of(body: DecideBody, limits: Limits, settings: Settings) -> list[dict[str, Any]]:
    """The items as `decide_cases` takes them, after the limits were looked at."""
    names = settings.columns
    series_and_words = {"series", *state_columns(settings.task).words}
    texts = {
        names.date,
        *names.ignore,
        *series_and_words,
        *(mine for mine, ours in names.rename.items() if ours in series_and_words),
    }
    rows = []
    series_names: set[str] = set()
    for i, item in enumerate(body.items):
        check_series_name(item.series, limits, f"items[{i}].series")
        if item.series in series_names:
            raise ApiProblem("invalid", "a series twice", where=(f"items[{i}].series: the series occurs twice",))
        series_names.add(item.series)
        where = f"items[{i}].state"
        state = {name: _state_value(name, value, where, names.series, texts) for name, value in item.state.items()}
        rows.append({"series": item.series, **state, "forecast": _forecast(item.forecast, i, limits, names)})
    return rows


def _state_value(name: str, value: Any, where: str, series_column: str, texts: set[str]) -> Any:
    """A member of a state: a number, a list of numbers, nothing, or a text where the task has a word there."""
    if name in ("series", "forecast", series_column):
        raise ApiProblem("invalid", "a reserved name", where=(f"{where}.{name}: not a state",))
    if not name.isprintable() or len(name) > 200 or (isinstance(value, str) and not value.isprintable()):
        raise ApiProblem("invalid", "an odd name", where=(f"{where}: names and words are printable",))
    numbers = value if isinstance(value, list) else [] if isinstance(value, str) else [value]
    if not all(x is None or _is_number(x) for x in numbers):
        raise ApiProblem("invalid", "no number", where=(f"{where}.{excerpt(name)}: a finite number is expected",))
    if isinstance(value, str) and name not in texts:
        # A file has only texts; here a text that looks like a number is somebody's mistake.
        raise ApiProblem("invalid", "a text", where=(f"{where}.{excerpt(name)}: a number is expected",))
    if isinstance(value, list):
        return [None if x is None else float(x) for x in value]
    return value if value is None or isinstance(value, str) else float(value)


def _is_number(value: Any) -> bool:
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(float(value))
    except OverflowError:  # a whole number beyond every float
        return False


def check_series_name(name: str, limits: Limits, where: str) -> None:
    if len(name) > limits.series_length:
        raise ApiProblem("invalid", "a long name", where=(f"{where}: at most {limits.series_length} characters",))
    if name in (".", ".."):  # clients and browsers take them out of an address: nobody could look at it
        raise ApiProblem("invalid", "an odd name", where=(f"{where}: a name that an address can hold",))
    if not name.isprintable() or name != name.strip():
        raise ApiProblem("invalid", "an odd name", where=(f"{where}: no control characters, no spaces around it",))


def _forecast(forecast: ForecastBody, i: int, limits: Limits, names: Columns) -> dict[str, Any]:
    lists: Mapping[str, Any] = {  # under the names that the plan's settings have for them
        "members": forecast.members, names.mean: forecast.mean, names.std: forecast.std,
        **{f"{names.quantiles}{level}": values for level, values in (forecast.quantiles or {}).items()},
    }  # fmt: skip
    out = {name: values for name, values in lists.items() if values is not None}
    paths = forecast.members if forecast.members is not None else list(out.values())
    longest = max(map(len, paths), default=0)
    if len(paths) > limits.members or longest > limits.steps or len(paths) * longest > limits.numbers:
        raise ApiProblem(
            "too_large",
            f"{len(paths)} x {longest} numbers, at most {limits.members} members, {limits.steps} steps and "
            f"{limits.numbers} together",
            where=(f"items[{i}].forecast",),
        )
    if forecast.members is not None:
        out["members"] = forecast.members
    for name in ("issued", "cutoff", "model"):
        if (value := getattr(forecast, name)) is not None:
            if not value.isprintable():
                raise ApiProblem("invalid", "an odd text", where=(f"items[{i}].forecast.{name}: printable text",))
            out[name] = value
    return out
