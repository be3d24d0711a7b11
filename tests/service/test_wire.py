"""The server itself, over sockets: slow and endless requests, clients that go away, signals, what strace sees."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from tests.service.forks import Forks, Running
from tests.service.kit import CONFIG, body, make_folder, open_service
from ucsearch.records.log import AuditReader
from ucsearch.service.observability import set_up_logging
from ucsearch.service.run import embedded, listen

LIMITED = (
    CONFIG
    + """
[limits]

body_s = 1.0

"""
)


class Server:
    def __init__(self, folder: Path, forks: Forks | None = None) -> None:
        self.folder = folder
        # Tables after [[plan]] would belong to it.
        config = LIMITED.replace(CONFIG, "") + CONFIG
        self.tokens = make_folder(folder, config)
        self.forks = forks or Forks(folder)
        self.running: Running = self.forks.start(folder)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.running.port), timeout=10.0)

    def head(self, key: str, length: int | str, **more: str) -> bytes:
        lines = [
            "POST /v1/plans/orders/decisions HTTP/1.1", "Host: 127.0.0.1",
            f"Authorization: Bearer {self.tokens['agent']}",
            "Content-Type: application/json", f"Idempotency-Key: {key}",
            f"Content-Length: {length}" if isinstance(length, int) else f"Transfer-Encoding: {length}",
            *(f"{k}: {v}" for k, v in more.items()),
        ]  # fmt: skip
        return "\r\n".join(lines).encode() + b"\r\n\r\n"

    def send(self, key: str, raw: bytes | None = None) -> tuple[int, bytes]:
        data = json.dumps(body("A")).encode() if raw is None else raw
        with self.connect() as wire:
            wire.sendall(self.head(key, len(data), Connection="close") + data)
            return answer(wire)


def answer(wire: socket.socket) -> tuple[int, bytes]:
    parts = []
    try:
        while part := wire.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    data = b"".join(parts)
    head, _, rest = data.partition(b"\r\n\r\n")
    return (int(head.split()[1]) if head else 0), rest


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("wire"))
    yield made
    os.kill(made.running.pid, signal.SIGKILL)
    made.forks.close()


def is_traced(pid: int, watcher: subprocess.Popen[bytes]) -> bool:
    """Once strace has the process; False when it may not look at processes here."""
    while watcher.poll() is None:
        if "TracerPid:\t0\n" not in Path(f"/proc/{pid}/status").read_text():
            return True
        time.sleep(0.01)
    watcher.communicate()
    return False


def resident_mb(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024.0  # type: ignore[index]


def test_what_stands_behind_a_body_in_pieces_is_no_header(server: Server) -> None:
    data = json.dumps(body("A")).encode()
    pieces = b"%x\r\n%s\r\n0\r\nIdempotency-Key: behind\r\n\r\n" % (len(data), data)
    head = server.head("behind", "chunked", Connection="close")
    with server.connect() as wire:
        wire.sendall(head.replace(b"Idempotency-Key: behind\r\n", b"") + pieces)
        status, content = answer(wire)
    assert (status, json.loads(content)["code"]) == (400, "no_idempotency_key")
    with server.connect() as wire:
        wire.sendall(head + pieces)
        assert answer(wire)[0] == 200
    with server.connect() as wire:
        wire.sendall(server.head("squeezed", "gzip, chunked", Connection="close") + pieces)
        assert answer(wire)[0] in (400, 415, 501)


def test_a_body_that_does_not_come_is_408(server: Server) -> None:
    with server.connect() as wire:
        wire.sendall(server.head("slow", 1000) + b'{"items":')
        status, content = answer(wire)
    assert (status, json.loads(content)["code"]) == (408, "too_slow")


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_without_end_is_413_and_not_kept(server: Server, announced: bool) -> None:
    with server.connect() as wire:
        wire.sendall(server.head("large", 300 << 20 if announced else "chunked"))
        chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
        with suppress(OSError):  # the connection is closed behind the answer
            for _ in range(100 << 4):
                wire.sendall(chunk)
        status, content = answer(wire)
    assert status == 0 or (status, json.loads(content)["code"]) == (413, "too_large")
    assert resident_mb(server.running.pid) < 400.0
    assert server.send("after-large")[0] == 200


def test_who_sends_all_of_a_body_that_is_too_large_hears_why(server: Server) -> None:
    """A connection that is closed before the body has come takes the answer along."""
    data = b" " * (4 << 20)
    with server.connect() as wire:
        wire.sendall(server.head("too-large", len(data)))
        time.sleep(0.3)  # it is refused by now
        wire.sendall(data)
        refusal = HTTPResponse(wire)
        refusal.begin()
        assert (refusal.status, json.loads(refusal.read())["code"]) == (413, "too_large")
        small = json.dumps(body("A")).encode()
        wire.sendall(server.head("behind-it", len(small), Connection="close") + small)
        assert answer(wire)[0] == 200


def test_who_never_ends_after_a_refusal_is_cut_off(server: Server) -> None:
    with server.connect() as wire:
        wire.sendall(server.head("endless", "chunked"))
        chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
        until, is_cut_off = time.monotonic() + 8.0, False
        while not is_cut_off and time.monotonic() < until:
            try:
                wire.sendall(chunk)
                time.sleep(0.005)
            except OSError:  # whichever way the system tells it
                is_cut_off = True
    assert is_cut_off
    assert server.send("after-endless")[0] == 200


@pytest.mark.parametrize(
    ("lines", "statuses"),
    [
        (["Host: evil.example", "Host: 127.0.0.1"], {400, 403}),
        (["Host: 127.0.0.1", "Host: evil.example"], {400, 403}),
        (["Host: evil.example"], {403}),
        (["Host: 127.0.0.1", "X-A: " + "a" * 400_000], {0, 400}),
        (["Host: 127.0.0.1", *(f"X-{i}: {'b' * 40}" for i in range(10_000))], {0, 400}),
        (["Host: 127.0.0.1", "Content-Length: 3"], {400}),
        (["Host: 127.0.0.1", "Transfer-Encoding: chunked"], {400}),
        (["Host: 127.0.0.1", "X A: a"], {400}),
    ],
    ids=["two hosts", "ours first", "another", "a long header", "many headers", "two lengths", "both", "a space"],
)  # fmt: skip
def test_odd_heads_are_refused(server: Server, lines: list[str], statuses: set[int], request: Any) -> None:
    data, name = json.dumps(body("A")).encode(), re.sub(r"\W", "-", request.node.name)
    head = server.head(name, len(data), Connection="close").replace(b"Host: 127.0.0.1", "\r\n".join(lines).encode())
    with server.connect() as wire:
        with suppress(OSError):  # closed before all of it was sent
            wire.sendall(head + data)
        assert answer(wire)[0] in statuses
    with AuditReader(server.folder / "log/decisions.db") as log:
        seen = log.count()
    assert server.send(name)[0] == 200
    with AuditReader(server.folder / "log/decisions.db") as log:
        assert log.count() == seen + 1, "the key was not used by the request that was refused"


@pytest.mark.parametrize("target", ["console/plans", "v1/plans", "*", "http://127.0.0.1/v1/plans"])
def test_a_target_that_is_no_path_leads_nowhere(server: Server, target: str) -> None:
    head = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    with server.connect() as wire:
        wire.sendall(head.encode())
        status, content = answer(wire)
    assert (status, json.loads(content)["code"]) == (404, "not_found")


def test_a_client_that_goes_away_finds_its_decision_when_it_asks_again(server: Server) -> None:
    data = json.dumps(body("GONE")).encode()
    with server.connect() as wire:
        wire.sendall(server.head("gone", len(data)) + data)
    deadline = time.monotonic() + 10.0
    with AuditReader(server.folder / "log/decisions.db") as log:
        while not log.list(series="GONE") and time.monotonic() < deadline:
            time.sleep(0.02)
        (row,) = log.list(series="GONE")
        status, content = server.send("gone", data)
        assert (status, json.loads(content)["items"][0]["id"]) == (200, row.id)
        assert len(log.list(series="GONE")) == 1


def test_every_commit_is_synced(server: Server) -> None:
    """Kills alone prove nothing: what the system has in memory survives them."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    out = server.folder / "trace"
    watcher = subprocess.Popen(
        ["strace", "-f", "-q", "-e", "trace=fdatasync,fsync", "-o", str(out), "-p", str(server.running.pid)],
        stderr=subprocess.PIPE,
    )  # fmt: skip
    if not is_traced(server.running.pid, watcher):
        pytest.skip("strace may not look at processes here")
    before = out.read_text().count("sync(")
    for n in range(5):  # one after the other: each is a commit of its own
        assert server.send(f"synced-{n}")[0] == 200
    watcher.terminate()
    watcher.communicate(timeout=10)
    assert out.read_text().count("sync(") - before >= 5


@pytest.mark.parametrize("call", ["fdatasync:error=EIO", "pwrite64:error=ENOSPC", "pwrite64:error=EROFS"])
def test_a_disk_that_fails_is_503_and_the_service_recovers(server: Server, call: str) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    name = call.partition(":")[0]
    watcher = subprocess.Popen(
        ["strace", "-f", "-q", "-e", f"trace={name}", "-e", f"inject={call}", "-o", str(server.folder / "injected"),
         "-p", str(server.running.pid)],
        stderr=subprocess.PIPE,
    )  # fmt: skip
    if not is_traced(server.running.pid, watcher):
        pytest.skip("strace may not look at processes here")
    status, content = server.send(f"failing-{call}")
    watcher.terminate()
    watcher.communicate(timeout=10)
    assert (status, json.loads(content)["code"]) == (503, "audit_unavailable")
    deadline = time.monotonic() + 20.0
    while (found := server.send(f"failing-{call}"))[0] == 503 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert found[0] == 200, found
    with AuditReader(server.folder / "log/decisions.db") as log:
        assert log.verify().ok


def test_sigterm_drains_and_leaves_a_checkpoint(server: Server, tmp_path: Path) -> None:
    made = Server(tmp_path, server.forks)
    assert made.send("one")[0] == 200
    os.kill(made.running.pid, signal.SIGHUP)
    assert made.send("two")[0] == 200
    os.kill(made.running.pid, signal.SIGTERM)
    deadline = time.monotonic() + 15.0
    while Path(f"/proc/{made.running.pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{made.running.pid}").exists()
    assert json.loads((tmp_path / "checkpoint/decisions.json").read_text())["count"] == 2


def test_an_answer_is_sent_at_once_although_its_parts_are_small() -> None:
    """Else the body of an answer waits for the client's word that the head has come: 40 ms for every request."""
    listening = listen("127.0.0.1:0")
    with listening, socket.create_connection(listening.getsockname()), listening.accept()[0] as accepted:
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_stranger_writes_no_errors_into_the_text_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request whose body is malformed is refused by uvicorn while its answer is under way."""
    loggers = [logging.getLogger(name) for name in ("ucsearch", "uvicorn", "uvicorn.access")]
    for logger in loggers:
        for name in ("handlers", "propagate", "level"):
            monkeypatch.setattr(logger, name, getattr(logger, name))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    set_up_logging(logging.WARNING)
    make_folder(tmp_path, '[server]\nbind = "127.0.0.1:0"\n' + CONFIG)
    head = b"POST /nowhere HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    with embedded(open_service(tmp_path)) as url:
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=10.0) as wire:
                wire.sendall(head + b"zz\r\n")
                assert answer(wire)[0] == 400
    lines = [json.loads(line) for line in sys.stderr.getvalue().splitlines()]
    assert [line for line in lines if line["level"] == "error"] == []
    assert any("Invalid HTTP request" in line["event"] for line in lines)
