"""Requests and the reading of their answers, without any input or output: both clients send these."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

from ucsearch.client.transport import ServiceUnreachable
from ucsearch.client.types import Answer, Item, Outcome, Page, Receipt, sent_action
from ucsearch.errors import InputError

__all__ = ["ITEMS", "Action", "Exchange", "batches"]

T = TypeVar("T")
# What the items of one request may hold: the service's limits, less what stands around them. Lists, values and members
# of objects are counted by their marks; a list takes as long to read as 4 values.
ITEMS = 500
BYTES = (2 << 20) - len('{"items":[]}')
LIST, VALUES, MEMBERS = 4, 450_000 - 4, 20_000 - 1
_KEY = 128
Action = float | Sequence[float] | str | None  # several numbers where the task's actions have them
_OUTCOMES = ("RELEASED", "FALLBACK", "HOLD")


@dataclass(frozen=True)
class Exchange(Generic[T]):
    """One request, and what its answer means."""

    method: str
    path: str
    read: Callable[[int, bytes], T]
    body: bytes | None = None
    key: str = ""  # idempotency; "" for requests that write nothing
    headers: Mapping[str, str] = field(default_factory=dict)
    about: tuple[str, ...] = ()  # series of the items, for words about them

    def request(self) -> dict[str, Any]:
        """What httpx's `request` takes."""
        return {"method": self.method, "url": self.path, "content": self.body, "headers": dict(self.headers)}


def _json(status: int, body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ServiceUnreachable(f"an answer with status {status} that is no JSON ({error})"[:200]) from error


def _object(status: int, body: bytes) -> Mapping[str, Any]:
    content = _json(status, body)
    if not isinstance(content, dict):
        raise ServiceUnreachable(f"an answer with status {status} that is not an object")
    return content


def _answers(series: Sequence[str], status: int, body: bytes) -> tuple[Answer, ...]:
    """Answers for the series `asked`, one each and in their order: what stands between may have kept somebody else's,
    and whoever acts on it would order for the wrong one."""
    try:
        answers = tuple(Answer.read(c) for c in _object(status, body)["items"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ServiceUnreachable(f"an answer of another service ({error!r})") from error
    if [a.series for a in answers] != list(series):
        raise ServiceUnreachable("an answer of another service (of other series than those asked for)")
    unfit = next((a for a in answers if a.outcome not in _OUTCOMES or not _fits(a)), None)
    if unfit is not None:
        raise ServiceUnreachable(f"an answer of another service ({unfit.outcome} with action {unfit.action})")
    return answers


def _fits(answer: Answer) -> bool:
    """Nothing leaves on HOLD, and finite numbers otherwise."""
    numbers = answer.action if isinstance(answer.action, tuple) else (answer.action,)
    if answer.outcome == "HOLD":
        return len(numbers) == 1 and math.isnan(numbers[0])
    return bool(numbers) and all(map(math.isfinite, numbers))


def _receipt(status: int, body: bytes) -> Receipt:
    return Receipt(status == 201, _object(status, body))


def _page(status: int, body: bytes) -> Page:
    content = _object(status, body)
    return Page(tuple(content.get("items", ())), str(content.get("next") or ""))


def _post(
    path: str, content: Any, key: str, read: Callable[[int, bytes], T], about: tuple[str, ...] = ()
) -> Exchange[T]:
    if not 0 < len(key) <= _KEY or not key.isascii() or not key.isprintable() or " " in key:
        raise InputError("key", repr(key), f"1 to {_KEY} visible ASCII characters")
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    return Exchange("POST", path, read, _bytes(content), key, headers, about)


def _bytes(content: Any) -> bytes:
    try:
        return json.dumps(content, allow_nan=False, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:  # half a character, of a command line or a file that is not UTF-8
        raise InputError("body", ascii(error.object)[:80], "text that UTF-8 can hold") from error
    except (TypeError, ValueError) as error:
        raise InputError("body", str(error)[:80], "texts, finite numbers, and lists of them") from error


def _get(path: str, read: Callable[[int, bytes], T], **query: Any) -> Exchange[T]:
    parameters = {name: value for name, value in query.items() if value not in (None, "")}
    return Exchange("GET", f"{path}?{urlencode(parameters)}" if parameters else path, read)


def _part(text: str) -> str:
    """A name as one part of a path."""
    if not isinstance(text, str) or not text:
        raise InputError("name", repr(text)[:80], "a name")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError as error:
        raise InputError("name", ascii(text)[:80], "text that UTF-8 can hold") from error


def batches(items: Sequence[Item]) -> Iterator[list[dict[str, Any]]]:
    """Items in requests that the service takes, in order."""
    batch: list[dict[str, Any]] = []
    room_left = room = [ITEMS, BYTES, VALUES, MEMBERS]
    for item in items:
        try:
            content = item.content()
        except InputError as error:
            raise InputError(error.field, error.seen, error.expected, hint=f"Series {item.series!r}.") from error
        raw = _bytes(content) + b","
        needs = (1, len(raw), LIST * raw.count(b"[") + raw.count(b","), raw.count(b":"))
        if batch and any(need > have for need, have in zip(needs, room_left, strict=True)):
            yield batch
            batch, room_left = [], room
        batch.append(content)
        room_left = [have - need for need, have in zip(needs, room_left, strict=True)]
    if batch:
        yield batch


def decisions_of(plan: str, items: Sequence[Item], key: str) -> list[Exchange[tuple[Answer, ...]]]:
    """All requests of a job, made before the first one is sent: a mistake in the last item must not be found when the
    others are recorded."""
    ids: set[str] = set()
    for item in items:
        if item.series in ids:  # the service would see it only where both are in one request
            raise InputError("items", f"{item.series!r} twice", "every series once")
        ids.add(item.series)
    return [decide(plan, batch, _numbered(key, i)) for i, batch in enumerate(batches(items))]


def reports_of(items: Sequence[Outcome], key: str) -> list[Exchange[Receipt]]:
    """As `decisions_of`, for outcomes."""
    return [outcomes(items[lo : lo + ITEMS], _numbered(key, lo // ITEMS)) for lo in range(0, len(items), ITEMS)]


def _numbered(key: str, part: int) -> str:
    return key if part == 0 else f"{key}.{part}"


def decide(plan: str, items: Sequence[Mapping[str, Any]], key: str) -> Exchange[tuple[Answer, ...]]:
    if not items:
        raise InputError("items", "none", "at least one")
    names = tuple(str(item["series"]) for item in items)
    return _post(f"/v1/plans/{_part(plan)}/decisions", {"items": list(items)}, key, partial(_answers, names), names)


def override(decision: str, action: Action, why: str, expects: str | None, force: bool, key: str) -> Exchange[Receipt]:
    number = action if action is None or isinstance(action, str) else sent_action(action, "action")
    if number is None and action is not None:  # null would withdraw what stands
        raise InputError("action", "nothing (NaN)", "a number, a label, or None to withdraw")
    content = {"action": number, "why": why, "expects": expects or decision}
    if force:
        content["force"] = True
    return _post(f"/v1/decisions/{_part(decision)}/override", content, key, _receipt)


def outcomes(items: Sequence[Outcome], key: str) -> Exchange[Receipt]:
    if not items:
        raise InputError("items", "none", "at least one")
    return _post("/v1/outcomes", {"items": [item.content() for item in items]}, key, _receipt)


def pause(plan: str, why: str, until: str | None, key: str) -> Exchange[Receipt]:
    content = {"why": why} if until is None else {"why": why, "until": until}
    return _post(f"/v1/plans/{_part(plan)}/pause", content, key, _receipt)


def resume(plan: str, why: str, key: str) -> Exchange[Receipt]:
    return _post(f"/v1/plans/{_part(plan)}/resume", {"why": why}, key, _receipt)


def rearm(plan: str, why: str, streams: Sequence[str] | None, accept: bool, key: str) -> Exchange[Receipt]:
    content: dict[str, Any] = {"why": why} if streams is None else {"why": why, "streams": list(streams)}
    if accept:
        content["accept"] = True
    return _post(f"/v1/monitors/{_part(plan)}/rearm", content, key, _receipt)


def decisions(**query: Any) -> Exchange[Page]:
    return _get("/v1/decisions", _page, **query)


def next_page(path: str) -> Exchange[Page]:
    """As the page before it says; only a path of this service is followed."""
    if not path.startswith("/v1/decisions?"):
        raise ServiceUnreachable(f"a next page elsewhere: {path[:80]}")
    return Exchange("GET", path, _page)


def decision(id: str) -> Exchange[bytes]:
    return _get(f"/v1/decisions/{_part(id)}", lambda _, body: body)


def explain(id: str) -> Exchange[Mapping[str, Any]]:
    return _get(f"/v1/decisions/{_part(id)}/explain", _object)


def verify(id: str) -> Exchange[Mapping[str, Any]]:
    # Writes nothing, so it needs no key.
    path = f"/v1/decisions/{_part(id)}/verify"
    return Exchange("POST", path, _object, b"{}", "", {"Content-Type": "application/json"})


def series(name: str, plan: str | None) -> Exchange[Mapping[str, Any]]:
    return _get(f"/v1/series/{_part(name)}", _object, plan=plan)


def monitors(plan: str | None, series: str | None) -> Exchange[Any]:
    path = "/v1/monitors" + "".join(f"/{_part(x)}" for x in (plan, series) if x is not None)
    return _get(path, _json)


def plans() -> Exchange[Any]:
    return _get("/v1/plans", _json)


def schema(plan: str) -> Exchange[Mapping[str, Any]]:
    return _get(f"/v1/plans/{_part(plan)}/schema", _object)


def files_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What a plan's schema says of files, for `items_of`; a service of before says nothing of them."""
    period, columns = schema.get("period"), schema.get("columns")
    if not isinstance(period, str | None) or not isinstance(columns, dict | None):
        raise ServiceUnreachable("an answer of another service (a schema without period and columns)")
    return {"period": period, "columns": columns}


def checkpoint() -> Exchange[Mapping[str, Any]]:
    return _get("/v1/log/checkpoint", _object)
