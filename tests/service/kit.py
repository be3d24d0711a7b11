"""A small service: two plans decided by the plain engine in milliseconds, one token for every role."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from ucsearch.service.app import make_app
from ucsearch.service.config import load_config
from ucsearch.service.observability import make_admin_app
from ucsearch.service.service import Service
from ucsearch.service.tokens import ROLES, TokenBook, write_tokens

PLAN = """
units = "pieces"
[task]
name = "lead_time_inventory"
lead_time = 1
order_sizes = [0.0, 5.0, 10.0, 15.0]
holding = 1.0
shortage = 9.0
[policy]
name = "exact"
depth = 2
[run]
engine = "python"
"""
CONFIG = """
[store]
log = "log/decisions.db"
checkpoint = "checkpoint/decisions.json"
checkpoint_every = 10
least_free_bytes = 0
[[plan]]
name = "orders"
settings = "orders.toml"
"""
BASE = "http://127.0.0.1:8411"
START = datetime(2026, 3, 2, 6, tzinfo=UTC)


class Clock:
    """A clock that goes on a millisecond at every look, or as far as a test says."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=1)
        return self.now


def make_folder(folder: Path, config: str = CONFIG, plan: str = PLAN) -> dict[str, str]:
    """The files of a service; returns a token of every role."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "service.toml").write_text(config)
    (folder / "orders.toml").write_text(plan)
    write_tokens(folder / "tokens.toml")
    book = TokenBook(folder / "tokens.toml")
    return {role: book.add(f"the {role}", role) for role in ROLES}


def open_service(folder: Path, clock: Callable[[], datetime] | None = None) -> Service:
    config, place = load_config(folder)
    return Service.open(config, place, clock or Clock())


class Client:
    """Requests of one role after another to an application in this process."""

    def __init__(
        self, service: Service, tokens: dict[str, str], http: httpx.AsyncClient, admin: httpx.AsyncClient
    ) -> None:
        self.service, self.tokens, self.http, self.admin = service, tokens, http, admin
        self._keys, self._own = 0, secrets.token_hex(4)

    async def get(self, path: str, role: str = "viewer", **options: Any) -> httpx.Response:
        return await self.http.get(path, headers=self.headers(role), **options)

    async def post(
        self, path: str, content: Any, role: str = "agent", key: str | None = None, **headers: str
    ) -> httpx.Response:
        self._keys += 1
        made = {"Idempotency-Key": key or f"{self._own}-{self._keys}", "Content-Type": "application/json", **headers}
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        return await self.http.post(path, content=body, headers={**self.headers(role), **made})

    async def metrics(self) -> str:
        """What Prometheus reads."""
        return (await self.admin.get("/metrics")).text

    def headers(self, role: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[role]}"} if role else {}

    async def decide(self, *series: str, key: str | None = None, **changes: Any) -> httpx.Response:
        return await self.post("/v1/plans/orders/decisions", body(*series, **changes), key=key)


@asynccontextmanager
async def running(folder: Path, config: str = CONFIG, plan: str = PLAN, clock: Any = None, tokens: Any = None):
    """A started service and a client for it."""
    known = make_folder(folder, config, plan) if tokens is None else tokens
    service = open_service(folder, clock)
    app = make_app(service)
    service.start()
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    health = httpx.ASGITransport(app=make_admin_app(service))
    try:
        async with (
            httpx.AsyncClient(transport=transport, base_url=BASE) as http,
            httpx.AsyncClient(transport=health, base_url="http://127.0.0.1:8412") as admin,
        ):
            yield Client(service, known, http, admin)
    finally:
        service.stop()


def item(series: str, on_hand: float = 3.0, level: float = 4.0, members: int = 4, **forecast: Any) -> dict[str, Any]:
    paths = [[level + h + 1.5 * j for h in range(3)] for j in range(members)]
    return {
        "series": series, "state": {"on_hand": on_hand, "open_orders": [5.0]},
        "forecast": {"members": paths, **forecast},
    }  # fmt: skip


def body(*series: str, **changes: Any) -> dict[str, Any]:
    return {"items": [item(name, **changes) for name in series or ("A",)]}
