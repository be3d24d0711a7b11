"""Pages for people: look, override, pause, re-arm. Rendered here, without scripts, for any browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = ["mount"]


def mount(app: FastAPI) -> None:
    """Add the console's pages to the service's application."""
    from ucsearch.service.console import acts, pages, views
    from ucsearch.service.console.sessions import Guard, Sessions

    app.state.sessions = Sessions(app.state.service.tokens)
    app.state.guard = Guard(app.state.service.config.limits.logins)
    app.state.problem_page = pages.stray_page
    app.include_router(views.router, include_in_schema=False)
    app.include_router(acts.router, include_in_schema=False)
