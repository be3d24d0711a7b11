"""A service as a process, and a client that sends it as many requests as it is told, over a few connections at once.

Connections are kept and requests sent one right behind another; a request that ends its connection is the last of it.
`fuzz(folder, requests, seed)` does it all and returns what was counted, and what was wrong.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import re
import resource
import selectors
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from urllib.parse import urlencode

from tests.kit.fuzz_answers import Answer, Declared, wrong_with
from tests.kit.fuzz_requests import FORECAST_MARK, Drawer, Known, Sent
from tests.kit.fuzz_wire import Wire
from ucsearch.service.tokens import ROLES, TokenBook, write_tokens

__all__ = ["Fuzzed", "Process", "fuzz", "log_words"]

ROOT = Path(__file__).resolve().parents[2]
WIRES = 24
BURSTS = (1, 2, 4, 8, 16, 24)
BURST_BYTES = 150_000
LOOK_S, SILENCES = 5.0, 24  # between looks at who waits; so many in a row without a byte are too many
END_AFTER = 2  # looks, after which the service is told that nothing more comes: longer than it waits for a body
GONE = 0.003  # of bursts: nobody waits for their answers
MOST_WRONG = 20

CONFIG = """
[store]
log = "log/decisions.db"
checkpoint = "checkpoint/decisions.json"
least_free_bytes = 0
[limits]
per_token = 1e9
per_agent = 1e9

body_s = 3.0
queue_s = 1.0
"""
PLAN = '[[plan]]\nname = "{0}"\nsettings = "{0}.toml"\n'
STOCK = """
units = "pieces"
[task]
name = "lead_time_inventory"
lead_time = {lead}
order_sizes = [0.0, 5.0, 10.0, 15.0]
holding = 1.0
shortage = 9.0
[policy]
name = "{policy}"
depth = {depth}
[run]
engine = "{engine}"
"""
OTHER = '[task]\nname = "{}"\n{}[policy]\nname = "exact"\ndepth = 2\n[run]\nengine = "python"\n'
SETTINGS = {
    "orders": STOCK.format(lead=1, policy="exact", depth=2, engine="python"),
    "watched": STOCK.format(lead=1, policy="exact", depth=2, engine="python"),
    "truck": STOCK.format(lead=1, policy="exact", depth='2\nmode = "closed"', engine="python")
    + '[forecast]\ncoupling = "independent"\n[shared]\ntruck = { column = "litres", limit = 40 }\n',
    "beam": STOCK.format(lead=2, policy="certified_beam", depth=3, engine="compiled"),
    "store": OTHER.format("storage", "capacity = 1.0\npower = 2.0\nlevel_step = 0.5\ncharge_efficiency = 1.0\n"),
    "turns": OTHER.format("direction", ""),
}


class Process:
    """A service with several plans, one of them monitored, and a token of every role."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.words = folder, folder / "text.log"
        folder.mkdir(parents=True, exist_ok=True)
        plans = [PLAN.format(name) + ("[plan.monitor]\n" if name == "watched" else "") for name in SETTINGS]
        (folder / "service.toml").write_text(CONFIG + "".join(plans))
        for name, text in SETTINGS.items():
            (folder / f"{name}.toml").write_text(text)
        write_tokens(folder / "tokens.toml")
        book = TokenBook(folder / "tokens.toml")
        self.tokens = {role: book.add(f"the {role}", role) for role in ROLES}
        path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        start = "from tests.kit.unsynced import *; do_not_sync(); from ucsearch.cli.main import main; main()"
        command, own = [sys.executable, "-c", start, "service"], {**os.environ, "PYTHONPATH": path}
        # A service that compiles keeps the memory of the compiler.
        subprocess.run([*command, "check", str(folder)], capture_output=True, check=False, cwd=ROOT, env=own)
        self._file: IO[bytes] = self.words.open("wb")
        self.process = subprocess.Popen(
            [*command, "run", str(folder), "--bind", "127.0.0.1:0", "--admin-bind", "127.0.0.1:0"],
            stdout=subprocess.PIPE, stderr=self._file, text=True, cwd=ROOT, env=own,
        )  # fmt: skip
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("ready:"), self.words.read_text()[-2_000:]
        self.port = int(line.rpartition(":")[2])
        events = [json.loads(text) for text in self.words.read_text().splitlines()]
        self.admin = next(event["address"] for event in events if event["event"] == "health and metrics")

    def is_ready(self) -> bool:
        """As an orchestrator is told."""
        with urllib.request.urlopen(f"{self.admin}/readyz", timeout=60) as answer:
            return answer.status == 200

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, str], bytes]:
        """One request of a well-behaved client."""
        wire = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            wire.request(method, path, body or None, {"Host": "127.0.0.1", **headers})
            found = wire.getresponse()
            return found.status, {k.lower(): v for k, v in found.getheaders()}, found.read()
        finally:
            wire.close()

    def log_in(self, role: str) -> tuple[str, str]:
        """The cookie of a session, and what its forms must prove."""
        form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "http://127.0.0.1"}
        data = urlencode({"token": self.tokens[role], "next": "/console"}).encode()
        _, headers, _ = self.ask("POST", "/console/login", data, **form)
        cookie = headers["set-cookie"].partition(";")[0].partition("=")[2]
        _, _, page = self.ask("GET", "/console", Cookie=f"ucs_session={cookie}")
        found = re.search(rb'name="csrf" value="([^"]+)"', page)
        assert found is not None
        return cookie, found[1].decode()

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def is_stopped(self) -> bool:
        """By a signal: somebody wants the machine for himself."""
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt"

    def memory_mb(self) -> float:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", text)
        return int(found[1]) / 1024.0 if found else 0.0

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        self._file.close()
        return code


@dataclass
class Fuzzed:
    """What came of it."""

    seed: int
    sent: int = 0
    answered: int = 0
    codes: Counter[int] = field(default_factory=Counter)
    repeats: int = 0  # requests that were recorded once more, and answered with the same bytes
    reuses: int = 0  # keys that were used with another body, and refused
    gone: int = 0  # requests whose answer nobody waited for
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0
    service_cpu_s: float = 0.0
    client_cpu_s: float = 0.0
    memory_mb: tuple[float, float] = (0.0, 0.0)  # before and after

    def __str__(self) -> str:
        codes = ", ".join(f"{code}: {n:,}" for code, n in sorted(self.codes.items()))
        return (
            f"seed {self.seed}: {self.sent:,} requests in {self.seconds:.0f} s ({self.service_cpu_s:.0f} + "
            f"{self.client_cpu_s:.0f} s of processor time, service and client), {self.answered:,} answers ({codes}), "
            f"{self.repeats:,} repeated with the same bytes, {self.reuses:,} keys used twice, {self.gone:,} not waited "
            f"for; memory {self.memory_mb[0]:.0f} MB before, {self.memory_mb[1]:.0f} MB after; {len(self.wrong)} wrong"
        )


class Client:
    """Sends and judges."""

    def __init__(self, process: Process, drawer: Drawer, declared: Declared, out: Fuzzed) -> None:
        self.process, self.drawer, self.declared, self.out = process, drawer, declared, out
        self.known = drawer.known
        mark = str(FORECAST_MARK).encode()
        self.secrets = (*(token.encode() for token in process.tokens.values()),)
        self.problem_secrets = (*self.secrets, mark)
        self.selector = selectors.DefaultSelector()
        self.rng = random.Random(out.seed)
        self.twins: deque[Sent] = deque(maxlen=64)
        self.late: Sent | None = None  # the first of the next burst

    def run(self, requests: int) -> None:
        wires = [self._opened() for _ in range(min(WIRES, requests))]
        for wire in wires:
            self._next_burst(wire, requests)
        looked = time.monotonic()
        while self.selector.get_map() and len(self.out.wrong) < MOST_WRONG:
            for key, mask in self.selector.select(timeout=1.0):
                wire: Wire = key.data
                if mask & selectors.EVENT_WRITE:
                    wire.send()
                wire.receive()
                self._judge_all(wire)
                if wire.is_over:
                    self._ended(wire)
                    self._leave(wire)
                    if self.out.sent < requests:
                        self._next_burst(self._opened(), requests)
                    continue
                if not wire.awaited and not wire.out:
                    self._next_burst(wire, requests)
                if wire.socket.fileno() >= 0:
                    self._watch(wire)
            if time.monotonic() - looked > LOOK_S:
                looked = time.monotonic()
                self._look_for_silence()
        for key in list(self.selector.get_map().values()):
            self._leave(key.data)

    def _opened(self) -> Wire:
        wire = Wire(self.process.port)
        self.selector.register(wire.socket, selectors.EVENT_READ, wire)
        return wire

    def _leave(self, wire: Wire) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self.selector.unregister(wire.socket)
        wire.socket.close()

    def _watch(self, wire: Wire) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if wire.out else 0)
        self.selector.modify(wire.socket, events, wire)

    def _next_burst(self, wire: Wire, requests: int) -> None:
        if self.out.sent >= requests:
            self._leave(wire)
            return
        burst, size, most = [], 0, min(self.rng.choice(BURSTS), requests - self.out.sent)
        while len(burst) < most and size < BURST_BYTES and not (burst and burst[-1].ends):
            sent = self.late or (self.twins.popleft() if self.twins else self.drawer.draw(self.out.sent))
            self.late = None
            if burst and sent.ends:  # what ends a connection takes those before it along: it is sent alone
                self.late = sent
                break
            self.out.sent += 1
            if sent.what and sent.repeats is None and self.rng.random() < 0.01:
                self.twins.append(
                    Sent(sent.number, sent.raw, sent.method, sent.target, sent.role, sent.what, sent.is_odd, sent.ends,
                         sent.about, sent)
                )  # fmt: skip
            burst.append(sent)
            size += len(sent.raw)
        wire.put(burst, half_closes=self.rng.random() < 0.95)
        if self.rng.random() < GONE:
            self.out.gone += len(burst)
            self._leave(wire)
            if self.out.sent < requests:
                self._next_burst(self._opened(), requests)
            return
        self._watch(wire)

    def _judge_all(self, wire: Wire) -> None:
        for sent, answer in wire.answers():
            self.out.answered += 1
            self.out.codes[answer.status] += 1
            hidden = self.problem_secrets if answer.status >= 400 else self.secrets
            problem = wrong_with(sent, answer, self.declared, hidden) or self._repeat_wrong(sent, answer)
            if problem:
                self._blame(problem, sent, answer)
            elif sent.what:
                self.known.learn(sent, answer)

    def _repeat_wrong(self, sent: Sent, answer: Answer) -> str:
        if sent.repeats is None or sent.repeats.answer is None or answer.status == 503:
            return ""
        if sent.reuses:
            self.out.reuses += 1
            right = answer.status == 422 and json.loads(answer.body)["code"] == "key_reused"
            return "" if right else "a key that was used with another body"
        self.out.repeats += 1
        same = (answer.status, answer.body) == (sent.repeats.answer.status, sent.repeats.answer.body)
        return "" if same else f"other bytes than the first time: {sent.repeats.answer.body[:300]!r}"

    def _ended(self, wire: Wire) -> None:
        """The service closed a connection: after it said so, or after what ends one."""
        left = [sent for sent in wire.awaited if not sent.ends]
        if not wire.said_close and (left or (not wire.ends and wire.awaited)):
            last = f" before {wire.awaited[-1].raw[:300]!r}" if wire.ends else ""
            self._blame(f"closed without a word{last}", left[0] if left else wire.awaited[0], None)
        elif wire.came and not (wire.ends and wire.is_reset):
            self._blame("half an answer", wire.awaited[0] if wire.awaited else Sent(-1, b"", b"", b"", None), None)

    def _look_for_silence(self) -> None:
        """Looks are counted, not seconds: while this process is stopped there are none, and while the service is they
        do not count."""
        if self.process.is_stopped():
            return
        for key in list(self.selector.get_map().values()):
            wire: Wire = key.data
            wire.silences += 1
            if wire.ends and not wire.is_closed and wire.silences > END_AFTER:
                # Half a head, of which the service waits for the rest: how long is for the proxy to say.
                wire.close()
            if wire.silences > SILENCES:
                self._blame(f"no answer in {SILENCES * LOOK_S:.0f} s", wire.awaited[0], None)
                self._leave(wire)

    def _blame(self, problem: str, sent: Sent, answer: Answer | None) -> None:
        said = "" if answer is None else f"\n  answer {answer.status} {answer.headers} {answer.body[:600]!r}"
        self.out.wrong.append(f"request {sent.number} of seed {self.out.seed}: {problem}\n  {sent.raw[:1_500]!r}{said}")


def fuzz(process: Process, requests: int, seed: int, corpus: Sequence[bytes]) -> Fuzzed:
    """Send so many requests to a service, and look at every answer."""
    out = Fuzzed(seed)
    status, _, content = process.ask("GET", "/v1/openapi.json", Authorization=f"Bearer {process.tokens['viewer']}")
    assert status == 200
    declared = Declared(json.loads(content))
    known = Known(process.tokens, {role: process.log_in(role) for role in ("viewer", "operator", "admin")})
    _, _, page = process.ask("GET", "/console/login")
    style = re.search(rb'href="(/console/style[^"]+)"', page)
    drawer = Drawer(seed, known, declared.routes, corpus, style[1].decode() if style else "/")
    before, own, started = process.cpu_s(), resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
    memory = process.memory_mb()
    Client(process, drawer, declared, out).run(requests)
    now = resource.getrusage(resource.RUSAGE_SELF)
    out.seconds, out.service_cpu_s = time.monotonic() - started, process.cpu_s() - before
    out.client_cpu_s = now.ru_utime + now.ru_stime - own.ru_utime - own.ru_stime
    out.memory_mb = (memory, process.memory_mb())
    return out


def log_words(process: Process) -> list[str]:
    """Lines of a service's text log that should not be there: bugs, secrets, forecasts."""
    hidden = [*process.tokens.values(), str(FORECAST_MARK)]
    with process.words.open(encoding="utf-8", errors="replace") as file:
        return [
            line[:2_000] for line in file
            if "Traceback" in line or '"level": "error"' in line or any(word in line for word in hidden)
        ]  # fmt: skip
