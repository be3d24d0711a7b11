"""Endpoints about plans and the log; health, readiness, metrics, OpenAPI."""

from __future__ import annotations

import ipaddress
import time
from typing import Any

from fastapi import APIRouter
from fastapi.openapi.utils import get_openapi
from starlette.requests import Request
from starlette.responses import Response

from ucsearch.service import bodies, reads
from ucsearch.service.front import principal_of
from ucsearch.service.problems import Refusal
from ucsearch.service.routes import as_json, service_of
from ucsearch.service.schemas import PROBLEM, problems

__all__ = ["describe", "health", "state_router"]

state_router = APIRouter(tags=["plans and log"])
health = APIRouter(tags=["health"])


@state_router.get("/plans", summary="All plans", responses=problems(401, 403, 429, 503))
async def list_plans(request: Request) -> Response:
    principal_of(request, "viewer")
    service = service_of(request)
    found = await service.read(reads.plans, service.plans, service.clock())
    return as_json({"items": reads.plain(found)})


@state_router.get("/log", summary="How far the log has come", responses=problems(401, 403, 429, 503))
async def log(request: Request) -> Response:
    principal_of(request, "viewer")
    service = service_of(request)
    return as_json(reads.plain(await service.read(reads.log_view, *service.checkpoint_state())))


def _open_here(request: Request) -> None:
    """No token is asked for on loopback; anywhere else a viewer's."""
    try:
        local = request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        local = False
    if not local or not service_of(request).config.server.on_loopback:
        principal_of(request, "viewer")


@health.get("/healthz", summary="The loop is alive", responses=problems(401, 403))
async def healthz(request: Request) -> Response:
    _open_here(request)
    return as_json({"status": "ok"})


@health.get("/readyz", summary="Decisions can be made", responses=problems(401, 403, 503))
async def readyz(request: Request) -> Response:
    _open_here(request)
    if why := service_of(request).not_ready():
        raise Refusal("not_ready", ", ".join(why), retry_after=2)
    return as_json({"status": "ready"})


@health.get("/metrics", summary="Prometheus", responses=problems(401, 403))
async def metrics(request: Request) -> Response:
    _open_here(request)
    service = service_of(request)
    service.measure()
    return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


@health.get("/openapi.json", summary="This description", responses=problems(401, 403, 429))
async def openapi(request: Request) -> Response:
    principal_of(request, "viewer")
    return as_json(describe(request.app))


def describe(app: Any) -> dict[str, Any]:
    """The OpenAPI description, with bodies, problems and limits."""
    made: dict[str, Any] = get_openapi(title=app.title, version=app.version, routes=app.routes)
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    schemas["Problem"] = PROBLEM
    for kind in bodies.ALL:
        schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(schema.pop("$defs", {}))
        schemas[kind.__name__] = schema
    made["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    made["security"] = [{"token": []}]
    made["info"]["x-limits"] = app.state.service.config.limits.model_dump()
    return made


def age(since: float) -> float | None:
    return None if not since else time.monotonic() - since
