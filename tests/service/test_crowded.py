"""A service that has no room, over sockets: a counted 503, and people still get through."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.service.kit import CONFIG, body, make_folder, open_service
from ucsearch.service.observability import AdminServer
from ucsearch.service.run import embedded, listen
from ucsearch.service.tokens import TokenBook

LIMITS = '[server]\nbind = "127.0.0.1:0"\n[limits]\nqueue_items = 2\nbatch_items = 1\nbody_s = 0.5\n'
DATA = json.dumps(body("A")).encode()


class Crowded:
    """A service whose writer is held, with two requests that wait."""

    def __init__(self, folder: Path) -> None:
        self.tokens = make_folder(folder, LIMITS + CONFIG)
        self.service = open_service(folder)
        self.go_on = threading.Event()
        self.waiting: list[socket.socket] = []

    def head(self, key: str = "k", length: int = len(DATA), role: str = "agent", **more: str) -> bytes:
        lines = [
            "POST /v1/plans/orders/decisions HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json",
            f"Authorization: Bearer {self.tokens.get(role, role)}", f"Content-Length: {length}",
            *([f"Idempotency-Key: {key}"] if key else []), *(f"{k}: {v}" for k, v in more.items()),
        ]  # fmt: skip
        return "\r\n".join(lines).encode() + b"\r\n\r\n"

    def connect(self, *parts: bytes) -> socket.socket:
        wire = socket.create_connection(("127.0.0.1", self.port), timeout=20.0)
        wire.sendall(b"".join(parts))
        return wire

    def fill(self, address: str) -> None:
        self.port = int(address.rpartition(":")[2])
        taken = threading.Event()
        self.service.writer.call(lambda _: (taken.set(), self.go_on.wait(20.0)))
        assert taken.wait(20.0)
        self.waiting = [self.connect(self.head(f"w{i}"), DATA.replace(b'"A"', b'"%d"' % i)) for i in range(2)]
        end = time.monotonic() + 20.0
        while self.service.writer.queue.waiting < 2:
            assert time.monotonic() < end
            time.sleep(0.005)


@pytest.fixture
def crowded(tmp_path: Path) -> Iterator[Crowded]:
    made = Crowded(tmp_path)
    with embedded(made.service) as address:
        made.fill(address)
        try:
            yield made
        finally:
            made.go_on.set()
            for wire in made.waiting:
                wire.close()


def answer(wire: socket.socket) -> tuple[int, dict[str, str], Any]:
    head = b""
    while not head.endswith(b"\r\n\r\n"):  # not a byte of the next answer
        part = wire.recv(1)
        assert part, "closed without an answer"
        head += part
    first, *lines = head.decode().strip().split("\r\n")
    if first.split()[1] == "100":
        return answer(wire)
    rest = b""
    headers = {k.lower(): v for k, v in (line.split(": ", 1) for line in lines)}
    while len(rest) < int(headers["content-length"]):
        rest += wire.recv(int(headers["content-length"]) - len(rest))
    return int(first.split()[1]), headers, json.loads(rest)


@pytest.mark.parametrize(
    ("head", "code"),
    [
        ({"role": "ucs_nobody"}, "unauthorized"),
        ({"role": "viewer"}, "forbidden"),
        ({"key": ""}, "no_idempotency_key"),
        ({"Connection": "close"}, "queue_full"),
        ({"Expect": "100-continue"}, "queue_full"),
    ],
)
def test_who_would_be_answered_otherwise_still_is(crowded: Crowded, head: dict[str, str], code: str) -> None:
    with crowded.connect(crowded.head(**head), DATA) as wire:  # type: ignore[arg-type]
        assert answer(wire)[2]["code"] == code


def test_a_repeat_of_what_waits_gets_its_answer(crowded: Crowded) -> None:
    again = DATA.replace(b'"A"', b'"1"')
    with crowded.connect(crowded.head("w1"), again) as wire:
        time.sleep(0.1)
        crowded.go_on.set()
        status, _, content = answer(wire)
        assert status == 200
        assert content == answer(crowded.waiting[1])[2]


def test_a_person_gets_through(crowded: Crowded) -> None:
    content = b'{"why": "too much of it"}'
    text = crowded.head("p", len(content), "operator").replace(b"/decisions", b"/pause")
    with crowded.connect(text, content) as wire:
        time.sleep(0.05)
        crowded.go_on.set()
        assert answer(wire)[0] == 201


def test_every_refusal_is_counted_and_the_connection_goes_on(crowded: Crowded) -> None:
    with crowded.connect() as wire:
        for n in range(30):
            wire.sendall(crowded.head(f"r{n}", **{"X-Request-Id": f"mine-{n}"}) + DATA)
            status, headers, content = answer(wire)
            assert (status, content["code"], content["request"]) == (503, "queue_full", f"mine-{n}")
            assert int(headers["retry-after"]) >= 1
            assert headers["content-type"] == "application/problem+json"
    metrics = crowded.service.metrics.text().decode()
    assert 'ucsearch_http_requests_total{code="503",route="/v1/plans/{plan}/decisions"} 30.0' in metrics
    assert 'ucsearch_refusals_total{code="queue_full"} 30.0' in metrics


def test_idle_connections_do_not_make_it_unhealthy(crowded: Crowded) -> None:
    """Health has a port of its own, and whoever connects there too and says nothing keeps nobody away."""
    listening = listen("127.0.0.1:0")
    admin = AdminServer(crowded.service, listening)
    port = listening.getsockname()[1]
    idle = [crowded.connect() for _ in range(400)]
    idle += [socket.create_connection(("127.0.0.1", port), timeout=20.0) for _ in range(50)]
    try:
        for path in (b"/healthz", b"/metrics"):
            with socket.create_connection(("127.0.0.1", port), timeout=20.0) as wire:
                wire.sendall(b"GET %s HTTP/1.1\r\nHost: any\r\n\r\n" % path)
                assert wire.recv(64).startswith(b"HTTP/1.1 200")
    finally:
        for wire in idle:
            wire.close()
        admin.stop()


def test_large_bodies_are_bounded_and_people_get_through(tmp_path: Path) -> None:
    """A token has at most half of the bytes that may be held, and all together no more than all of them."""
    made = Crowded(tmp_path)
    (tmp_path / "service.toml").write_text(LIMITS.replace("queue_items = 2", "held_bytes = 2097152") + CONFIG)
    other = TokenBook(tmp_path / "tokens.toml").add("another agent", "agent")
    made.service = open_service(tmp_path)
    made.tokens["other"], large = other, 600_000
    with embedded(made.service) as address:
        made.port = int(address.rpartition(":")[2])
        slow = [made.connect(made.head("s0", large), b"{")]
        assert refused(made, "s1", large, "agent") == (503, "queue_full")  # more than half of them
        slow += [made.connect(made.head("s2", large, "other"), b"{")]
        assert refused(made, "s3", large, "other") == (503, "queue_full")
        content = b'{"why": "too much of it"}'
        with made.connect(made.head("p", len(content), "operator").replace(b"/decisions", b"/pause"), content) as wire:
            assert answer(wire)[0] == 201
        with made.connect(made.head("small"), DATA) as wire:
            assert answer(wire)[0] == 200
        assert [answer(wire)[0] for wire in slow] == [408, 408]
        padded = DATA + b" " * (large - len(DATA))
        with made.connect(made.head("after", large), padded) as wire:
            assert answer(wire)[0] == 200
    assert "ucsearch_held_bytes 0.0" in made.service.metrics.text().decode()


def refused(made: Crowded, key: str, length: int, role: str) -> tuple[int, str]:
    """The refusal that comes once those before are being read."""
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline:
        with made.connect(made.head(key, length, role), b"{") as wire:
            status, _, content = answer(wire)
        if status == 503:
            return status, str(content["code"])
    raise AssertionError("never refused")
