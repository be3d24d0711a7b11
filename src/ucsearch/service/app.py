"""The application: endpoints under /v1, answers of the closed list, OpenAPI, health, metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.util import find_spec

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ucsearch.service.auth import Rates
from ucsearch.service.core import Service
from ucsearch.service.middleware import RequestMiddleware, problem_response
from ucsearch.service.problems import Refusal, shown
from ucsearch.service.routes import control, decisions, state

__all__ = ["make_app"]

_BY_STATUS = {404: "not_found", 405: "method_not_allowed", 400: "bad_request", 413: "too_large"}


def make_app(service: Service, *, console: bool = True) -> FastAPI:
    """The ASGI application of a service. It starts the service when the server starts, and stops it with it."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        if not service.started:
            service.start()
        try:
            yield
        finally:
            service.stop()

    app = FastAPI(
        title="ucsearch decision service", version="1", lifespan=lifespan, openapi_url=None, docs_url=None,
        redoc_url=None, redirect_slashes=False, generate_unique_id_function=lambda route: route.name,
    )  # fmt: skip
    app.state.service, app.state.rates, app.state.bodies = service, Rates(), 0
    for router in (decisions.router, state.router, control.router):
        app.include_router(router, prefix="/v1")
    app.include_router(state.health)
    if console:
        _mount_console(app)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_middleware(RequestMiddleware, service=service, refuse=_answer)
    return app


def _mount_console(app: FastAPI) -> None:
    name = "ucsearch.service.console"
    if find_spec(name) is not None:
        import_module(name).mount(app)


def _id(request: Request) -> str:
    return str(getattr(request.state, "request_id", ""))


def _answer(request: Request, refusal: Refusal) -> Response:
    """JSON for programs, a page for people."""
    page = getattr(request.app.state, "problem_page", None)
    if page is not None and f"{request.url.path}/".startswith("/console/"):
        made: Response = page(request, refusal)
        return made
    return problem_response(refusal, _id(request))


async def _refused(request: Request, error: Exception) -> Response:
    if not isinstance(error, Refusal):
        raise error
    return _answer(request, error)


async def _invalid(request: Request, error: Exception) -> Response:
    """Parameters of path and query; bodies are checked by `bodies.read_body`."""
    found = error.errors() if isinstance(error, RequestValidationError) else ()
    where = tuple(f"{'.'.join(shown(x) for x in e['loc'])}: {shown(e['msg'])}" for e in found)
    return problem_response(Refusal("invalid", "a parameter is not what is expected", where=where), _id(request))


async def _http(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    made = _answer(request, Refusal(_BY_STATUS.get(status, "bad_request")))
    if isinstance(error, HTTPException) and error.headers:
        made.headers.update({k: v for k, v in error.headers.items() if k.lower() == "allow"})
    return made
