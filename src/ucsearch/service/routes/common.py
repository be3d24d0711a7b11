"""Dependencies that endpoints share: the service, a plan that the token is for, the body and its idempotency key."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Depends, Header, Query
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from ucsearch.records.canonical import canonical
from ucsearch.records.entries import Request as RecordedRequest
from ucsearch.service.auth.tokens import Principal
from ucsearch.service.errors import Problem, excerpt
from ucsearch.service.routes.bodies import PEOPLE_BYTES, parse, read_body, received
from ucsearch.service.schemas import plain
from ucsearch.service.service import Service, request_of

__all__ = [
    "IdempotencyKey",
    "Keyed",
    "Limit",
    "ServiceDep",
    "Text",
    "as_json",
    "check_query",
    "keyed_body",
    "service_of",
]

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
    given = [name for name, _ in request.query_params.multi_items()]
    for name in given:
        if name not in known:
            raise Problem("invalid", "a parameter that is not known", where=(f"query.{excerpt(name)}",))
        if given.count(name) > 1:
            raise Problem("invalid", "a parameter that is there twice", where=(f"query.{name}",))


def as_json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Canonical bytes, so that equal content is equal text."""
    body = content if isinstance(content, bytes) else canonical(plain(content))
    return Response(body, status, headers, "application/json")


@dataclass(frozen=True)
class Keyed(Generic[T]):
    """A body, and the request that its idempotency key names."""

    request: RecordedRequest
    body: T
    size: int  # bytes


def keyed_body(
    kind: type[T], principal: Callable[[Request], Awaitable[Principal]], *, many: bool = False
) -> Callable[..., AsyncIterator[Keyed[T]]]:
    """A dependency: the body of a request that writes. `many` is for those with items, which may be large: where they
    would be refused they are not parsed."""

    async def read(
        request: Request, service: ServiceDep, key: IdempotencyKey, by: Principal = Depends(principal)
    ) -> AsyncIterator[Keyed[T]]:
        limits = service.config.limits
        async with received(request, limits.body_bytes if many else PEOPLE_BYTES, by) as raw:
            named = request_of(by, request.url.path, key, raw)
            if many:
                service.admit(named)
            body = await parse(len(raw), lambda: read_body(kind, raw, limits.items))
            yield Keyed(named, body, len(raw))

    return read
