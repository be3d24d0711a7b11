"""What endpoints share: the service, checks of the query, canonical answers, the request that a key names."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from fastapi import Depends, Query
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from ucsearch.records.canonical import canonical
from ucsearch.records.requests import Request as Named
from ucsearch.service.bodies import PEOPLE_BYTES, parse, read_body, received
from ucsearch.service.core import Service, request_of
from ucsearch.service.problems import Refusal, shown
from ucsearch.service.tokens import Principal

__all__ = ["Limit", "ServiceDep", "Text", "as_json", "check_query", "named_body", "service_of"]

T = TypeVar("T", bound=BaseModel)
Text = Annotated[str | None, Query(max_length=1_000)]
Limit = Annotated[int, Query(ge=1, le=500)]


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
            raise Refusal("invalid", "a parameter that is not known", where=(f"query.{shown(name)}",))
        if given.count(name) > 1:
            raise Refusal("invalid", "a parameter that is there twice", where=(f"query.{name}",))


def as_json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Canonical bytes, so that equal content is equal text."""
    body = content if isinstance(content, bytes) else canonical(content)
    return Response(body, status, headers, "application/json")


async def named_body(
    request: Request, principal: Principal, route: str, kind: type[T], most: int = PEOPLE_BYTES
) -> tuple[Named, T]:
    """The request that the idempotency key names, and its body."""
    async with received(request, most) as raw:
        named = request_of(principal, route, request.headers.get("idempotency-key"), raw)
        return named, await parse(raw, lambda: read_body(kind, raw))
