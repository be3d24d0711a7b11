"""The decision service under load: `make bench-service`, or `python -m bench.service_bench --seconds 60`.

A service is a process of its own; the client is this one, with plain sockets. Everything is measured beside a null
endpoint (`/healthz` of the admin port) in the same run, over SQLite and, where it is installed, PostgreSQL. Processor
time is of service and client together, because both share the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import re
import resource
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.open_loop_client import OpenLoop

ROOT = Path(__file__).resolve().parents[1]
MEMBERS, STEPS, CLIENTS = 50, 14, 64
BATCH = 300  # decisions of a large request: 1.4 MB
LOOKS = (
    "/v1/decisions", "/v1/decisions?plan=orders", "/v1/decisions?outcome=HOLD", "/v1/decisions?kind=refusal",
    "/v1/series/S1", "/v1/plans", "/v1/plans", "/v1/monitors", "/v1/log", "/v1/log/checkpoint",
)  # fmt: skip
PLAN = """
units = "pieces"
[task]
name = "lead_time_inventory"
lead_time = 2
order_sizes = [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]
holding = 1.0
shortage = 9.0
[policy]
name = "certified_beam"
depth = 4
width = 16
"""
CONFIG = """
[store]
log = {log}
checkpoint = "checkpoint/decisions.json"
[limits]
per_agent = 100000.0
[[plan]]
name = "orders"
settings = "orders.toml"
"""


@dataclass
class Wires:
    """Connections that are kept open and used again."""

    port: int
    free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = field(default_factory=list)

    async def send(self, raw: bytes) -> tuple[int, bytes]:
        reader, writer = self.free.pop() if self.free else await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(raw)
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head, re.I)
            content = await reader.readexactly(int(length[1])) if length else b""
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
            return 0, b""
        if b"connection: close" in head.lower():
            writer.close()
        else:
            self.free.append((reader, writer))
        return int(head.split(b" ", 2)[1]), content


class Service:
    """A service in a folder of its own."""

    def __init__(self, log: str) -> None:
        from ucsearch.service.tokens import TokenBook, write_tokens

        self.folder = Path(tempfile.mkdtemp(prefix="ucs-bench-"))
        (self.folder / "service.toml").write_text(CONFIG.format(log=json.dumps(log)))
        (self.folder / "orders.toml").write_text(PLAN)
        write_tokens(self.folder / "tokens.toml")
        book = TokenBook(self.folder / "tokens.toml")
        self.token, self.operator = book.add("bench", "agent"), book.add("somebody", "operator")
        command = [sys.executable, "-c", "from ucsearch.cli.main import main; main()", "service"]
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.admin_port = int(free.getsockname()[1])
        # As the documents have it, `check` compiles. A service that compiles keeps the memory of the compiler.
        subprocess.run([*command, "check", str(self.folder)], capture_output=True, check=False, cwd=ROOT)
        started = time.perf_counter()
        binds = ["--bind", "127.0.0.1:0", "--admin-bind", f"127.0.0.1:{self.admin_port}"]
        self.process = subprocess.Popen(
            [*command, "run", str(self.folder), *binds],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT,
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("ready:"):
            raise RuntimeError(f"the service did not start ({line!r})")
        self.ready_s, self.ready_cpu_s = time.perf_counter() - started, self.cpu_s()
        self.port = int(line.rpartition(":")[2])
        self.ready_mb = self.memory_mb()

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def log_mb(self) -> float:
        """Of the files of a log of SQLite."""
        return sum(path.stat().st_size for path in (self.folder / "log").glob("*")) / (1 << 20)

    def memory_mb(self) -> float:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024.0  # type: ignore[index]

    def refusals(self) -> float:
        """Requests that the service says it has refused."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        return sum(float(x) for x in re.findall(r"^ucsearch_refusals_total\{.*\} (\S+)$", text, re.M))

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)


class Load:
    """Requests of 50 x 14 members, made beforehand as far as possible."""

    def __init__(self, service: Service, seed: int = 1) -> None:
        self.service = service
        rng = np.random.default_rng(seed)
        self.items = [
            {
                "series": f"S{i}", "state": {"on_hand": float(rng.integers(0, 40)), "open_orders": [10.0, 5.0]},
                "forecast": {"members": np.round(rng.gamma(4.0, 3.0, (MEMBERS, STEPS)), 3).tolist()},
            }
            for i in range(500)
        ]  # fmt: skip
        self.texts = [json.dumps(i) for i in self.items]
        self.key, self.count = (
            secrets.token_hex(8),
            itertools.count(),
        )  # of requests, without asking for chance each time
        self.null = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"

    def request(self, first: int, count: int = 1) -> bytes:
        data = ('{"items":[' + ",".join(self.texts[(first + k) % 500] for k in range(count)) + "]}").encode()
        return self._post("decisions", self.service.token, data)

    def control(self, action: str) -> bytes:
        """A person who pauses or resumes the plan."""
        return self._post(action, self.service.operator, b'{"why":"for the measurement"}')

    def _post(self, path: str, token: str, data: bytes) -> bytes:
        head = (
            f"POST /v1/plans/orders/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}"
            f"\r\nContent-Type: application/json\r\nIdempotency-Key: {self.key}-{next(self.count)}"
            f"\r\nContent-Length: {len(data)}\r\n\r\n"
        )
        return head.encode() + data


def busy_s(service: Service) -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    return service.cpu_s() + own.ru_utime + own.ru_stime


async def closed_loop(
    load: Load, seconds: float, clients: int, count: int = 1, *, null: bool = False
) -> dict[str, float]:
    """So many clients, each asking again as soon as it is answered; `null` asks the null endpoint."""
    port = load.service.admin_port if null else load.service.port
    wires, end, done, codes = Wires(port), time.perf_counter() + seconds, 0, Counter[int]()
    turn = 0

    async def one() -> None:
        nonlocal done, turn
        while time.perf_counter() < end:
            turn += 1
            status, _ = await wires.send(load.null if null else load.request(turn * count, count))
            codes[status] += 1
            done += count if status == 200 else 0

    before, own, started = busy_s(load.service), load.service.cpu_s(), time.perf_counter()
    await asyncio.gather(*(one() for _ in range(clients)))
    wall = time.perf_counter() - started
    return {
        "per_s": done / wall, "cpu_ms": 1e3 * (busy_s(load.service) - before) / max(1, done),
        "service_cpu_ms": 1e3 * (load.service.cpu_s() - own) / max(1, done),
        "refused": sum(n for code, n in codes.items() if code != 200),
    }  # fmt: skip


def open_loop(load: Load, seconds: float, rate: float, null: bool = False) -> dict[str, Any]:
    """Requests at their times, whether the ones before are answered or not; latency counts from the time meant."""
    before = load.service.cpu_s()
    port = load.service.admin_port if null else load.service.port
    found = OpenLoop(port, lambda n: load.null if null else load.request(n)).run(seconds, rate)
    return {**found, "service_cpu_s": load.service.cpu_s() - before}


def overload(load: Load, seconds: float, rate: float) -> dict[str, Any]:
    """An open loop beyond what can be worked off, while a person pauses the plan and resumes it again and again."""
    over, pauses = threading.Event(), list[tuple[int, float]]()

    async def press() -> None:
        wires = Wires(load.service.port)
        while not over.wait(0.5):
            for action in ("pause", "resume"):
                began = time.perf_counter()
                status, _ = await wires.send(load.control(action))
                pauses.append((status, 1e3 * (time.perf_counter() - began)))

    before = load.service.refusals()
    person = threading.Thread(target=lambda: asyncio.run(press()))
    person.start()
    found = open_loop(load, seconds, rate)
    over.set()
    person.join()
    return {
        **found, "counted": load.service.refusals() - before,
        "pauses": len(pauses), "pauses_through": sum(status == 201 for status, _ in pauses),
        "pause_ms": max(ms for _, ms in pauses),
    }  # fmt: skip


def syncs(folder: Path, count: int = 200, every_s: float = 0.005) -> dict[str, float]:
    """What the disk takes for a sync of two pages, at the pace of 200 a second: no answer that is on disk can be
    earlier."""
    took = []
    with (folder / "sync-probe").open("wb", buffering=0) as file:
        for _ in range(count):
            file.write(bytes(8192))
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - began)
            time.sleep(max(0.0, every_s - took[-1]))
    p50, p99 = 1e3 * np.quantile(took, [0.5, 0.99])
    return {"p50_ms": p50, "p99_ms": p99}


def refusal_ms(m: dict[str, Any]) -> float:
    """Processor time of a refusal, on connections and at the door together: what the service took under overload beyond
    what its decisions take with 64 clients."""
    over, each = m["overload_5x"], 1e-3 * m["clients_64"]["service_cpu_ms"]
    refused = sum(n for code, n in over["codes"].items() if code != 200)
    return 1e3 * (over["service_cpu_s"] - each * over["codes"].get(200, 0)) / max(1, refused)


async def measure(load: Load, seconds: float, memory: int) -> dict[str, Any]:
    out: dict[str, Any] = {"ready_s": load.service.ready_s, "ready_cpu_s": load.service.ready_cpu_s}
    await closed_loop(load, 1.0, 8)  # caches
    out["alone"] = await closed_loop(load, min(seconds, 5.0), 1)
    out["null_64"] = await closed_loop(load, min(seconds, 5.0), CLIENTS, null=True)
    out["clients_64"] = await closed_loop(load, seconds, CLIENTS)
    out["batches_of_300"] = await closed_loop(load, min(seconds, 10.0), 1, BATCH)
    out["sync"] = syncs(load.service.folder)
    out["null_200"] = open_loop(load, seconds, 200.0, null=True)
    out["open_200"] = open_loop(load, seconds, 200.0)
    full = out["clients_64"]["per_s"]
    out["load_0.8"] = open_loop(load, min(seconds, 5.0), 0.8 * full)
    out["full_load"] = open_loop(load, min(seconds, 5.0), full)
    out["overload_5x"] = overload(load, min(seconds, 5.0), 5.0 * full)
    await fill(load, memory)
    out["ready_mb"], out["memory_mb"] = load.service.ready_mb, load.service.memory_mb()
    out["memory_after"] = memory
    return out


async def fill(load: Load, decisions: int, *, looks: tuple[int, ...] = ()) -> None:
    """So many decisions in requests of 300; at each of `looks` the memory is told."""
    kept, wires, started, waiting = 0, Wires(load.service.port), time.perf_counter(), list(looks)
    while kept < decisions:
        status, _ = await wires.send(load.request(kept, BATCH))
        kept += BATCH if status == 200 else 0
        if waiting and kept >= waiting[0]:
            figures = f"{load.service.memory_mb():6.1f} MB, log {load.service.log_mb():7.1f} MB"
            took = f"{time.perf_counter() - started:.0f} s, {load.service.cpu_s():.0f} s of its processor time"
            print(f"  {waiting.pop(0):9,} decisions: {figures}, {took}", flush=True)


async def look(load: Load) -> None:
    """What it takes to look at a long log."""
    wires, who = Wires(load.service.port), f"Host: 127.0.0.1\r\nAuthorization: Bearer {load.service.token}"
    for path in LOOKS:
        before, began = load.service.cpu_s(), time.perf_counter()
        status, content = await wires.send(f"GET {path} HTTP/1.1\r\n{who}\r\n\r\n".encode())
        took, cpu = time.perf_counter() - began, load.service.cpu_s() - before
        print(f"  {1e3 * took:8.0f} ms, {1e3 * cpu:6.0f} of processor time: {status}, {len(content)} bytes, {path}")


def memory_only(decisions: int) -> None:
    """Memory after 10,000, 100,000, 200,000, ... decisions, over SQLite; then what it takes to look at them."""
    looks = (1_000, 10_000, *range(100_000, decisions + 1, 100_000))
    service = Service("log/decisions.db")
    try:
        print(f"  ready: {service.memory_mb():.1f} MB", flush=True)
        load = Load(service)
        asyncio.run(fill(load, decisions, looks=(*(n for n in looks if n < decisions), decisions)))
        asyncio.run(look(load))
        print(f"  {service.memory_mb():.1f} MB at the end", flush=True)
    finally:
        service.stop()


def run(seconds: float = 5.0, memory: int = 5_000) -> dict[str, Any]:
    """Both stores, one after the other."""
    out: dict[str, Any] = {}
    for name, log in _stores():
        service = Service(log)
        try:
            out[name] = asyncio.run(measure(Load(service), seconds, memory))
        finally:
            service.stop()
    return out


def _stores() -> Any:
    yield "sqlite", "log/decisions.db"
    sys.path.insert(0, str(ROOT))
    from tests.kit.postgres import Server, find_binaries

    if find_binaries() is None:
        print("PostgreSQL is not installed: left out")
        return
    server = Server()
    try:
        yield "postgresql", server.fresh()
    finally:
        server.remove()


def page_rows(found: dict[str, dict[str, Any]]) -> list[str]:
    """Every figure that is asked for, beside the null endpoint in the same run."""

    def loop(m: dict[str, Any], name: str) -> str:
        return f"{m[name]['per_s']:,.0f} a second, {m[name]['cpu_ms']:.2f} ms"

    def waits(m: dict[str, Any], name: str) -> str:
        return f"{m[name]['p50_ms']:.1f}, {m[name]['p99_ms']:.1f} ms"

    def times(m: dict[str, Any]) -> str:
        return f"{m['overload_5x']['p99_ms']:.0f} ms, {m['overload_5x']['p99_ms'] / m['full_load']['p99_ms']:.1f} times"

    def refused(m: dict[str, Any]) -> str:
        over = m["overload_5x"]
        codes = ", ".join(f"{code}: {count:,}" for code, count in over["codes"].items())
        return f"{codes}; {over['counted']:,.0f} refusals in /metrics"

    def pauses(m: dict[str, Any]) -> str:
        over = m["overload_5x"]
        return f"{over['pauses_through']} of {over['pauses']}, at most {over['pause_ms']:.0f} ms"

    def share(m: dict[str, Any]) -> str:
        return f"{m['clients_64']['per_s'] / found['sqlite']['clients_64']['per_s']:.2f}"

    first = found["sqlite"]
    rows = (
        ("64 clients, one decision a request", lambda m: loop(m, "clients_64"), loop(first, "null_64"),
         "500 a second, 2 ms"),
        ("one client, one decision a request", lambda m: loop(m, "alone"), "", ""),
        ("requests of 300 decisions", lambda m: loop(m, "batches_of_300"), "", ""),
        ("200 a second, open loop: p50, p99", lambda m: waits(m, "open_200"), waits(first, "null_200"),
         "p99 below 50 ms"),
        ("as many as it can take: p50, p99", lambda m: waits(m, "full_load"), "", ""),
        ("five times as many: p99 of what is answered", times, "", "at most twice that at full load"),
        ("answers under five times the load", refused, "", "200, 429, 503, and all of them counted"),
        ("pauses that get through meanwhile", pauses, "", "all"),
        ("a sync of two pages: p50, p99", lambda m: waits(m, "sync"), "", ""),
        ("ready, with compiled kernels", lambda m: f"{m['ready_s']:.1f} s", "", "5 s"),
        ("memory when ready, and after all of this", lambda m: f"{m['ready_mb']:.0f}, {m['memory_mb']:.0f} MB", "",
         "300 MB, flat to a million decisions (ONLY=memory MEMORY=1000000)"),
        ("decisions a second beside SQLite", share, "", "0.7"),
    )  # fmt: skip
    names = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
    lines = [f"| | {' | '.join(names[s] for s in found)} | null endpoint | asked |", "|---" * (len(found) + 3) + "|"]
    return lines + [
        f"| {what} | {' | '.join(show(m) for m in found.values())} | {null} | {asked} |"
        for what, show, null, asked in rows
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each part; the contract's figures need 60")
    parser.add_argument("--memory", type=int, default=5_000, help="decisions after which memory is looked at")
    parser.add_argument("--only", choices=["memory"], help="this part alone, over SQLite")
    parser.add_argument("--json", type=Path, help="keep the figures there")
    given = parser.parse_args()
    if given.only == "memory":
        memory_only(given.memory)
        return
    found = run(given.seconds, given.memory)
    for store, m in found.items():
        ready = f"ready after {m['ready_s']:.1f} s, {m['ready_cpu_s']:.1f} s of processor time"
        print(f"\n{store}: {ready}; load of the machine {os.getloadavg()[0]:.1f}")
        for name in ("null_64", "alone", "clients_64", "batches_of_300"):
            row = m[name]
            figures = f"{row['per_s']:8.0f} decisions/s  {row['cpu_ms']:6.2f} ms CPU each"
            print(f"  {name:15} {figures}  {row['refused']:.0f} refused")
        for name in ("null_200", "open_200", "load_0.8", "full_load", "overload_5x"):
            row = m[name]
            figures = "  ".join(f"{p} {row[f'{p}_ms']:7.1f}" for p in ("p50", "p95", "p99"))
            own = f"(from sending {row['sent_p99_ms']:.1f}, client late by {row['late_p99_ms']:.1f})"
            print(f"  {name:15} {figures} ms {own}  {row['codes']}")
        for what, name in (("", "p99_ms"), (", from sending", "sent_p99_ms")):
            full, less = (m["overload_5x"][name] / m[at][name] for at in ("full_load", "load_0.8"))
            print(f"  p99 under 5x overload is {full:.1f} times that at full load, {less:.1f} that at 0.8{what}")
        print(f"  a sync of two pages alone: p50 {m['sync']['p50_ms']:.1f}, p99 {m['sync']['p99_ms']:.1f} ms")
        print(f"  a refusal under 5x overload takes {refusal_ms(m):.2f} ms of the service's processor time")
        print(f"  memory          {m['memory_mb']:.0f} MB after {m['memory_after']} more decisions")
    print("", *page_rows(found), sep="\n")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1, default=float))


if __name__ == "__main__":
    main()
