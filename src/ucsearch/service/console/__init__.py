"""Pages for people: look, override, pause, re-arm. Rendered here, without scripts, for any browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response

    from ucsearch.service.errors import Problem

__all__ = ["mount", "problem_page"]


def mount(app: FastAPI) -> None:
    """Add the console's pages to the service's application."""
    from ucsearch.service.auth import FailedLogins
    from ucsearch.service.console import forms, views
    from ucsearch.service.console.sessions import Sessions

    app.state.sessions = Sessions(app.state.service.tokens)
    app.state.failed_logins = FailedLogins(app.state.service.config.limits.logins)
    app.include_router(views.router, include_in_schema=False)
    app.include_router(forms.router, include_in_schema=False)


def problem_page(request: Request, problem: Problem) -> Response:
    """What a person sees where no page was there to tell: an address that leads nowhere, a method, a bug."""
    from ucsearch.service.console.render import stray_page

    return stray_page(request, problem)
