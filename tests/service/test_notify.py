"""Webhooks: what is told, how it is signed, and what happens where nobody takes it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.service.console_kit import RAMPED, items
from tests.service.kit import CONFIG, PLAN, START, Client, Clock, make_folder, open_service, running
from tests.service.test_integrity import LOG, one_byte
from tests.service.test_monitor import PLAN_DAY, WATCHED, until_tripped
from ucsearch.errors import InputError
from ucsearch.service.notify import Notifier, WebhookTarget, targets
from ucsearch.service.observability import Metrics

SECRET = "a secret of more than sixteen characters"


class Receiver:
    """Somebody who takes messages, or refuses the first ones."""

    def __init__(self, refuse: int = 0) -> None:
        self.taken: list[tuple[dict[str, str], bytes]] = []
        self.refused, left = 0, [refuse]
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if left[0]:
                    left[0] -= 1
                    outer.refused += 1
                    self.send_response(500)
                else:
                    outer.taken.append(({k.lower(): v for k, v in self.headers.items()}, body))
                    self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/hook"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def messages(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.taken]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.close()


def until(holds: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def hooked(folder: Path, url: str, events: str, config: str = CONFIG, plan: str = RAMPED) -> dict[str, str]:
    hook = f'[[webhook]]\nurl = "{url}"\nsecret_file = "hook.secret"\nevents = [{events}]\n'
    tokens = make_folder(folder, hook + config, plan)
    (folder / "hook.secret").write_text(SECRET + "\n")
    (folder / "hook.secret").chmod(0o600)
    return tokens


def signed(headers: dict[str, str], body: bytes) -> bool:
    """As whoever gets it checks it."""
    text = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    found = base64.b64encode(hmac.new(SECRET.encode(), text, hashlib.sha256).digest()).decode()
    return headers["webhook-signature"] == f"v1,{found}"


def go(folder: Path, tokens: dict[str, str], test: Callable[[Client, Clock], Any]) -> None:
    clock = Clock()

    async def run() -> None:
        async with running(folder, tokens=tokens, clock=clock) as client:
            await test(client, clock)

    asyncio.run(run())


def test_decisions_on_hold_are_told_and_many_are_one_message(tmp_path: Path, receiver: Receiver) -> None:
    async def test(client: Client, _: Clock) -> None:
        held = [f"S{i}" for i in range(30)]
        for _ in range(2):
            await client.post("/v1/plans/orders/decisions", items(0, *held, order=97.0))
        await client.decide("fine")
        await asyncio.to_thread(until, lambda: receiver.taken)

    go(tmp_path, hooked(tmp_path, receiver.url, '"hold"'), test)
    (message,) = receiver.messages()
    assert message["type"] == "ucsearch.hold"
    assert message["timestamp"].startswith("2026-03-02T06:00:00")
    assert message["data"]["plan"] == "orders"
    assert message["data"]["count"] == 30
    assert message["data"]["series"] == [f"S{i}" for i in range(20)]
    headers, body = receiver.taken[0]
    assert signed(headers, body)
    assert not signed(headers, body + b" ")
    assert headers["webhook-timestamp"] == str(int(START.timestamp()))
    assert headers["content-type"] == "application/json"


def test_trips_pauses_and_an_altered_log_are_told(tmp_path: Path, receiver: Receiver) -> None:
    async def test(client: Client, clock: Clock) -> None:
        await until_tripped(client, clock, "A", "B")
        await client.post("/v1/plans/orders/pause", {"why": "stocktaking"}, role="operator")
        made = (await client.get("/v1/decisions?limit=1")).json()["items"][0]
        one_byte(tmp_path / LOG, made["seq"])
        assert (await client.get(f"/v1/decisions/{made['id']}")).status_code == 503
        await asyncio.to_thread(until, lambda: any(m["type"] == "ucsearch.log_altered" for m in receiver.messages()))

    events = '"tripped", "paused", "log_altered"'
    go(tmp_path, hooked(tmp_path, receiver.url, events, WATCHED, PLAN_DAY + PLAN), test)
    told = receiver.messages()
    assert all(signed(*taken) for taken in receiver.taken)
    tripped = [m["data"] for m in told if m["type"] == "ucsearch.tripped"]
    assert {(d["all_together"], tuple(d["series"])) for d in tripped} >= {(True, ())}
    assert next(d for d in tripped if d["all_together"])["about"] == "forecasts too low"
    (paused,) = [m["data"] for m in told if m["type"] == "ucsearch.paused"]
    assert (paused["by"], paused["why"]) == ("the operator", "stocktaking")
    (altered,) = [m["data"] for m in told if m["type"] == "ucsearch.log_altered"]
    assert "does not match its digest" in altered["message"]


def notifier(url: str, waits: tuple[float, ...] = (0.0, 0.01, 0.01)) -> tuple[Notifier, Metrics]:
    metrics = Metrics()
    made = Notifier([WebhookTarget(url, SECRET.encode(), frozenset({"hold"}))], metrics, lambda: START, waits_s=waits)
    return made, metrics


def sent(metrics: Metrics, result: str) -> float:
    return metrics.registry.get_sample_value("ucsearch_notifications_total", {"result": result}) or 0.0


def test_what_is_not_taken_is_sent_again_with_the_same_id_and_then_given_up() -> None:
    receiver = Receiver(refuse=2)
    told, metrics = notifier(receiver.url)
    told.tell("hold", "orders", ["A"])
    until(lambda: sent(metrics, "sent") == 1.0)
    assert (receiver.refused, len(receiver.taken)) == (2, 1)
    receiver.close()
    other, figures = notifier("http://127.0.0.1:9/nobody", (0.0, 0.01))
    other.tell("hold", "orders", ["A"])
    until(lambda: sent(figures, "given up") == 1.0)
    other.tell("paused", "orders")  # nobody asked for it
    told.stop()
    other.stop()


def test_a_redirection_is_not_followed(receiver: Receiver) -> None:
    class Away(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(302)
            self.send_header("Location", receiver.url)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Away)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    told, metrics = notifier(f"http://127.0.0.1:{server.server_address[1]}/", (0.0,))
    told.tell("hold", "orders", ["A"])
    until(lambda: sent(metrics, "given up") == 1.0)
    assert receiver.taken == []
    told.stop()
    server.shutdown()
    server.server_close()


def test_a_message_a_minute_for_each_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = Receiver()
    told, metrics = notifier(receiver.url)
    for plan in ("orders", "orders", "other"):
        told.tell("hold", plan, ["A"])
    until(lambda: len(receiver.taken) == 2)
    assert sent(metrics, "left out") == 1.0
    real = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: real() + timedelta(minutes=2).total_seconds())
    told.tell("hold", "orders", ["A"])
    until(lambda: len(receiver.taken) == 3)
    told.stop()
    receiver.close()


@pytest.mark.parametrize(
    ("text", "mode", "word"),
    [("short", 0o600, "16 or more"), (SECRET, 0o644, "chmod 600"), ("whsec_!!!!!!!!!!!!!!!!!", 0o600, "base64")],
)
def test_a_secret_that_is_none_stops_the_start(tmp_path: Path, text: str, mode: int, word: str) -> None:
    hooked(tmp_path, "https://example.com/hook", '"hold"')
    (tmp_path / "hook.secret").write_text(text)
    (tmp_path / "hook.secret").chmod(mode)
    with pytest.raises(InputError, match=word):
        open_service(tmp_path)


def test_a_secret_in_base64_is_its_bytes(tmp_path: Path) -> None:
    hooked(tmp_path, "https://example.com/hook", '"hold"')
    (tmp_path / "hook.secret").write_text("whsec_" + base64.b64encode(b"0123456789abcdef").decode())
    config = open_service(tmp_path).config
    assert [t.secret for t in targets(config.webhook, tmp_path)] == [b"0123456789abcdef"]


def test_who_takes_long_keeps_no_other_waiting() -> None:
    """One address hangs for as long as it likes; messages to another one are sent all the same."""
    hangs, urls = threading.Event(), list[str]()

    def send(request: urllib.request.Request, _: float) -> None:
        if "slow" in request.full_url:
            hangs.wait(20.0)
        urls.append(request.full_url)

    to = [WebhookTarget(f"http://127.0.0.1/{name}", b"s", frozenset({"tripped"})) for name in ("slow", "quick")]
    notifier = Notifier(to, Metrics(), Clock(), send=send)
    try:
        notifier.tell("tripped", "orders")
        notifier.tell("tripped", "other")
        until(lambda: len(urls) == 2, 5.0)
        assert urls == ["http://127.0.0.1/quick"] * 2
    finally:
        hangs.set()
        notifier.stop()
    assert len(urls) == 4
