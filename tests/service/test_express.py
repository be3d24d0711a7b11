"""Requests that come whole are answered without a task of their own: as others are, in every byte."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.service.kit import CONFIG, body, make_folder, open_service
from ucsearch.service import server as server_module
from ucsearch.service.embedded import embedded
from ucsearch.service.express import Express

LIMITS = '[server]\nbind = "127.0.0.1:0"\n[limits]\nitems = 3\n'
GOOD = json.dumps(body("A", "B")).encode()


class Over:
    """A service over sockets, and how many requests it took without a task."""

    def __init__(self, folder: Path) -> None:
        self.tokens = make_folder(folder, LIMITS + CONFIG)
        self.service = open_service(folder)
        self.taken = 0

    def head(self, key: str, data: bytes, role: str = "agent", **more: str) -> bytes:
        lines = [
            "POST /v1/plans/orders/decisions HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json",
            f"Authorization: Bearer {self.tokens[role]}", f"Idempotency-Key: {key}", "X-Request-Id: mine",
            *([] if "Transfer-Encoding" in more else [f"Content-Length: {len(data)}"]),
            *(f"{k}: {v}" for k, v in more.items()),
        ]  # fmt: skip
        return "\r\n".join(lines).encode() + b"\r\n\r\n"

    def counted(self, wanted: int) -> bool:
        """Whether so many were taken; one is counted after its answer may have left."""
        deadline = time.monotonic() + 5.0
        while self.taken < wanted and time.monotonic() < deadline:
            time.sleep(0.001)
        return self.taken == wanted

    def connect(self) -> socket.socket:
        wire = socket.create_connection(("127.0.0.1", self.port), timeout=20.0)
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return wire

    def send(self, *parts: bytes) -> tuple[int, list[bytes], bytes]:
        with self.connect() as wire:
            for part in parts:
                wire.sendall(part)
                time.sleep(0.05 if part is not parts[-1] else 0.0)
            return answer(wire)


def answer(wire: socket.socket) -> tuple[int, list[bytes], bytes]:
    """Status, headers without the date, and body."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        part = wire.recv(1)
        assert part, "closed without an answer"
        head += part
    first, *lines = head.strip().lower().split(b"\r\n")
    length, rest = int(re.search(rb"content-length: (\d+)", head, re.I)[1]), b""  # type: ignore[index]
    while len(rest) < length:
        rest += wire.recv(length - len(rest))
    return int(first.split()[1]), sorted(line for line in lines if not line.startswith(b"date:")), rest


@pytest.fixture(scope="module")
def over(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Over]:
    made = Over(tmp_path_factory.mktemp("express"))

    class Counted(Express):
        def begin(self, *given: object) -> bool:
            taken = super().begin(*given)  # type: ignore[arg-type]
            made.taken += taken
            return taken

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server_module, "Express", Counted)
        with embedded(made.service) as address:
            made.port = int(address.rpartition(":")[2])
            yield made


@pytest.mark.parametrize(
    ("name", "raw", "status"),
    [
        ("good", GOOD, 200),
        ("spaced", b" \n" + GOOD + b"\n", 200),
        ("empty", b"", 400),
        ("not-json", b"{", 400),
        ("twice", GOOD.replace(b'{"items"', b'{"items": [], "items"'), 400),
        ("not-utf8", GOOD.replace(b'"A"', b'"\xff"'), 400),
        ("infinite", GOOD.replace(b"4.0", b"1e999"), 422),
        ("same-series", json.dumps(body("A", "A")).encode(), 422),
        ("unknown-column", GOOD.replace(b"on_hand", b"in_hand"), 422),
        ("too-many", json.dumps(body("A", "B", "C", "D")).encode(), 413),
    ],
)
def test_whole_or_in_pieces_the_answer_is_the_same(over: Over, name: str, raw: bytes, status: int) -> None:
    before, head = over.taken, over.head(name, raw)
    whole = over.send(head + raw)
    assert over.counted(before + 1)
    in_pieces = over.send(head, raw) if raw else over.send(head[:-2], head[-2:])
    assert whole == in_pieces
    assert whole[0] == status
    if raw:
        assert over.counted(before + 1)


@pytest.mark.parametrize(
    ("role", "more", "status"),
    [
        ("viewer", {}, 403),
        ("agent", {"Host": "elsewhere"}, 403),
        ("agent", {"Idempotency-Key": "other"}, 400),
        ("agent", {"Content-Encoding": "gzip"}, 415),
        ("agent", {"Expect": "200-ok"}, 200),
        ("agent", {"Connection": "close"}, 200),
    ],
)
def test_what_is_not_plain_goes_the_other_way(over: Over, role: str, more: dict[str, str], status: int) -> None:
    before = over.taken
    assert over.send(over.head("plain", GOOD, role, **more) + GOOD)[0] == status
    assert over.counted(before)


def test_requests_one_after_another_in_one_piece_are_answered_in_order(over: Over) -> None:
    health = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    others = [json.dumps(body(name)).encode() for name in ("C", "D")]
    parts = [over.head("p0", others[0]) + others[0], health, over.head("p1", others[1]) + others[1], health]
    with over.connect() as wire:
        wire.sendall(b"".join(parts))
        found = [answer(wire) for _ in parts]
    assert [status for status, _, _ in found] == [200] * 4
    assert [json.loads(found[i][2])["items"][0]["series"] for i in (0, 2)] == ["C", "D"]


def test_who_waits_too_long_is_told_and_finds_it_when_he_asks_again(
    over: Over, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, held = threading.Event(), threading.Event()
    raw = json.dumps(body("E")).encode()
    over.service.writer.call(lambda _: (held.set(), go_on.wait(20.0)))
    assert held.wait(20.0)
    known = over.service.config
    short = known.model_copy(update={"limits": known.limits.model_copy(update={"request_s": 0.1})})
    monkeypatch.setattr(over.service, "config", short)
    with over.connect() as wire:
        wire.sendall(over.head("late", raw) + raw)
        status, _, content = answer(wire)
        assert (status, json.loads(content)["code"]) == (503, "not_ready")
        monkeypatch.setattr(over.service, "config", known)
        go_on.set()
        wire.sendall(over.head("late", raw) + raw)  # on the same connection
        status, _, content = answer(wire)
        assert status == 200
    with over.service._open_reader() as reader:
        assert len(reader.list(series="E")) == 1


def test_equal_requests_at_once_are_one_row(over: Over) -> None:
    raw = json.dumps(body("F")).encode()
    wires = [over.connect() for _ in range(8)]
    for wire in wires:
        wire.sendall(over.head("same", raw) + raw)
    found = [answer(wire) for wire in wires]
    for wire in wires:
        wire.close()
    assert {status for status, _, _ in found} == {200}
    assert len({content for _, _, content in found}) == 1
    with over.service._open_reader() as reader:
        assert len(reader.list(series="F")) == 1


def test_one_key_with_other_bodies_at_once_is_decided_once(over: Over) -> None:
    raws = [json.dumps(body("G", on_hand=float(n))).encode() for n in range(6)]
    wires = [over.connect() for _ in raws]
    for wire, raw in zip(wires, raws, strict=True):
        wire.sendall(over.head("odd", raw) + raw)
    found = [answer(wire) for wire in wires]
    for wire in wires:
        wire.close()
    assert sorted(status for status, _, _ in found) == [200] + [422] * 5
    with over.service._open_reader() as reader:
        assert len(reader.list(series="G")) == 1


@pytest.mark.parametrize("pieces", [1, 2])
def test_who_sends_no_more_still_gets_his_answer(over: Over, pieces: int) -> None:
    raw = json.dumps(body(f"H{pieces}")).encode()
    head = over.head(f"half{pieces}", raw)
    with over.connect() as wire:
        if pieces == 2:
            wire.sendall(head)
            time.sleep(0.05)
        wire.sendall(raw if pieces == 2 else head + raw)
        wire.shutdown(socket.SHUT_WR)
        assert answer(wire)[0] == 200
        assert wire.recv(1) == b""


def test_who_asks_twice_and_sends_no_more_gets_both_answers(over: Over) -> None:
    raw = json.dumps(body("I")).encode()
    with over.connect() as wire:
        wire.sendall(over.head("both", raw) + raw + over.head("both", raw) + raw)
        wire.shutdown(socket.SHUT_WR)
        first, second = answer(wire), answer(wire)
        assert (first[0], second[0], first[2]) == (200, 200, second[2])
        assert wire.recv(1) == b""


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("http://127.0.0.1", "127.0.0.1", 200),
        ("http://127.0.0.1:8411", "elsewhere", 200),  # the target counts, not the header
        ("http://elsewhere", "127.0.0.1", 403),
        ("http://127.0.0.1@elsewhere", "127.0.0.1", 403),
    ],
)
def test_a_target_that_names_a_host_is_asked_for_it(over: Over, target: str, host: str, status: int) -> None:
    head = over.head("target", GOOD).replace(b"POST /", f"POST {target}/".encode())
    assert over.send(head.replace(b"Host: 127.0.0.1", f"Host: {host}".encode()) + GOOD)[0] == status


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
def test_the_body_of_who_asks_for_another_protocol_is_no_request(over: Over, protocol: str) -> None:
    """The parser reads no body then: what came after the headers was answered as the next request, whoever wrote it."""
    hidden = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with over.connect() as wire:
        wire.sendall(over.head(f"upgrade-{protocol}", hidden, Upgrade=protocol, Connection="Upgrade"))
        status, headers, content = answer(wire)
        assert (status, json.loads(content)["code"]) == (400, "bad_request")
        assert b"connection: close" in headers
        with suppress(OSError):
            wire.sendall(hidden)
        assert wire.recv(1) == b""


@pytest.mark.parametrize("protocol", ["h2c", "websocket"])
def test_what_comes_behind_a_wish_for_another_protocol_is_the_next_request(over: Over, protocol: str) -> None:
    """The wish is not granted, so both are requests like others; the second one was never answered."""
    wish = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: {protocol}\r\nConnection: Upgrade\r\n\r\n".encode()
    second = over.head(f"behind-{protocol}", GOOD) + GOOD
    with over.connect() as wire:
        wire.sendall(wish + wish + second)
        assert [answer(wire)[0] for _ in range(3)] == [200, 200, 200]
        wire.sendall(second)
        assert answer(wire)[0] == 200


def test_what_is_at_work_when_the_rest_makes_no_sense_leaves_no_trace(
    over: Over, caplog: pytest.LogCaptureFixture
) -> None:
    """The connection has had its last word when the task comes to write."""
    head = over.head("odd", GOOD, **{"Transfer-Encoding": "identity"})
    assert over.send(head + GOOD)[0] == 400
    time.sleep(0.2)
    assert [r for r in caplog.records if r.name == "asyncio"] == []


BROKEN = {
    "no request": (b"\x16\x03\x01\x02\x00", 400),
    "a long header": (b"GET /healthz HTTP/1.1\r\nX-A: " + b"a" * 70_000 + b"\r\n\r\n", 413),
    "a body in odd pieces": (b"POST /v1/outcomes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_cannot_be_read_does_not_take_the_answer_of_what_came_before(over: Over, name: str) -> None:
    """Its 400 was written at once, and who waited for a decision took it for his answer; his own was lost."""
    tail, status = BROKEN[name]
    held, go_on = threading.Event(), threading.Event()
    over.service.writer.call(lambda _: (held.set(), go_on.wait(20.0)))
    assert held.wait(20.0)
    raws = [json.dumps(body(f"{name} {n}")).encode() for n in range(2)]
    with over.connect() as wire:
        wire.sendall(b"".join(over.head(f"{len(tail)}-{n}", raw) + raw for n, raw in enumerate(raws)) + tail)
        time.sleep(0.2)
        go_on.set()
        found = [answer(wire) for _ in range(3)]
        assert [s for s, _, _ in found] == [200, 200, status]
        assert [json.loads(b)["items"][0]["series"] for _, _, b in found[:2]] == [f"{name} 0", f"{name} 1"]
        assert b"connection: close" in found[2][1]
        assert wire.recv(1) == b""


@pytest.mark.parametrize("sent", [60, -1], ids=["half its headers", "half its body"])
def test_half_a_request_behind_whole_ones_leaves_them_their_answers(over: Over, sent: int) -> None:
    """What was written and not yet sent was lost when the other side had sent its last."""
    health = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    half = (over.head("half", GOOD) + GOOD)[:sent]
    with over.connect() as wire:
        wire.sendall(over.head(f"whole{sent}", GOOD) + GOOD + over.head("bad", b"{") + b"{" + health + health + half)
        wire.shutdown(socket.SHUT_WR)
        assert [answer(wire)[0] for _ in range(4)] == [200, 400, 200, 200]
        assert wire.recv(1) == b""


def test_the_rest_of_a_body_that_was_refused_is_no_header(over: Over) -> None:
    """It was counted as headers of the next request, and 413 was the answer to a request that nobody had sent."""
    large = b" " * 200_000
    with over.connect() as wire:
        wire.sendall(over.head("large", large, "viewer"))
        assert answer(wire)[0] == 403
        wire.sendall(large)
        wire.sendall(over.head("after-large", GOOD) + GOOD)
        assert answer(wire)[0] == 200


def test_who_is_still_sending_what_cannot_be_read_is_told_so(over: Over) -> None:
    """Cut off at once he would get a reset, and lose this answer and the ones before."""
    with over.connect() as wire:
        wire.sendall(over.head("before", GOOD) + GOOD + b"NO\x00 " + b"a" * (2 << 20))
        assert [answer(wire)[0] for _ in range(2)] == [200, 400]
