"""One token cannot stop the service: what a body costs is bounded before it is parsed, and large ones are parsed beside
the event loop."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.service.kit import make_folder, open_service
from ucsearch.service.bodies import read_body
from ucsearch.service.config import Limits
from ucsearch.service.errors import ApiProblem
from ucsearch.service.schemas import DecideBody, OutcomesBody

ROOT = Path(__file__).resolve().parents[2]
MOST = Limits().body_bytes
TIMES = 2.3  # what Python's own parser takes for 2 MB of numbers, which is 15 to 24 ms: at most 50 ms
BUSY = 6.0  # the same beside other work, where caches are shared: what grows faster than the body is far above it


def decide(unit: bytes, count: int, inner: bytes = b"") -> bytes:
    """Members of equal parts, as many as fit."""
    head, tail = b'{"items":[{"series":"A","state":{},"forecast":{"members":[' + inner, b"]" * len(inner) + b"]}}]}"
    count = min(count, (MOST - len(head) - len(tail)) // (len(unit) + 1))
    return head + b",".join([unit] * count) + tail


def many(forecast: bytes, state: bytes = b"") -> bytes:
    """As many items as are taken."""
    item = b'{"series":"S%d","state":{%s},"forecast":{%s}}'
    return b'{"items":[' + b",".join(item % (i, state, forecast) for i in range(500)) + b"]}"


NINE = b",".join([b"1.25"] * 9)


def outcomes(unit: bytes, count: int) -> bytes:
    head = b'{"items":[{"decision":"a","step":1,"observed_at":"x","value":['
    return head + b",".join([unit] * min(count, (MOST - 99) // (len(unit) + 1))) + b"]}]}"


NUMBERS = decide(b"1.25", 10**6, b"[")
BODIES: dict[str, tuple[type[DecideBody | OutcomesBody], bytes]] = {
    "tiny lists": (DecideBody, decide(b"[]", 10**6)),
    "as many tiny lists as are taken": (DecideBody, decide(b"[]", 89_900)),
    "lists of one": (DecideBody, decide(b"[0.1234567890123456789]", 89_900)),
    "lists of some": (DecideBody, decide(b"[1.5,2.5,3.5,4.5,5.5,6.5,7.5]", 40_800)),
    "many lists of some": (DecideBody, decide(b"[1.5,2.5,3.5,4.5,5.5,6.5,7.5]", 59_000)),
    "numbers": (DecideBody, NUMBERS),
    "short numbers": (DecideBody, decide(b"1.1", 449_900, b"[")),
    "quantiles": (DecideBody, many(b'"quantiles":{%s}' % b",".join(b'"%d":[%s]' % (k, NINE) for k in range(32)))),
    "names": (DecideBody, many(b'"model":"m"', b",".join(b'"k%d":[%s]' % (k, NINE) for k in range(33)))),
    "long numbers": (DecideBody, decide(b"9" * 4_000, 10**6, b"[")),
    "objects": (DecideBody, b'{"items":[' + b",".join([b"{}"] * 600_000) + b"]}"),
    "keys": (DecideBody, b'{"items":[{' + b",".join(b'"%d":1' % i for i in range(190_000)) + b"}]}"),
    "lists in lists": (DecideBody, b'{"items":' + b"[" * 10**6 + b"]" * 10**6 + b"}"),
    "tiny lists as outcomes": (OutcomesBody, outcomes(b"[]", 10**6)),
    "numbers as outcomes": (OutcomesBody, outcomes(b"1", 10**6)),
}


def times(run: Callable[[], object]) -> float:
    """Processor time of this thread against that of a good body, the least of some, in turns."""
    both: tuple[list[float], list[float]] = [], []
    for _ in range(6):
        for found, what in zip(both, (run, lambda: json.loads(NUMBERS)), strict=True):
            started = time.thread_time()
            what()
            found.append(time.thread_time() - started)
    return min(both[0]) / min(both[1])


def of_all() -> dict[str, float]:
    """As a service that has started: else the collector goes through all that was imported."""
    gc.collect()
    gc.freeze()
    return {name: times(partial(parsed, *body)) for name, body in BODIES.items()}


def parsed(kind: type[DecideBody | OutcomesBody], raw: bytes) -> None:
    with suppress(ApiProblem):
        read_body(kind, raw, Limits().items)


@pytest.fixture(scope="module")
def measured() -> dict[str, float]:
    """In a process of its own, where nothing lies about that other tests have left."""
    command = [
        sys.executable,
        "-c",
        "import json; from tests.service import test_costs as t; print(json.dumps(t.of_all()))",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", BODIES)
def test_no_body_costs_many_good_ones(name: str, measured: dict[str, float]) -> None:
    assert len(BODIES[name][1]) <= MOST
    assert measured[name] <= BUSY


@pytest.mark.slow  # on a quiet machine
@pytest.mark.parametrize("name", BODIES)
def test_no_body_costs_more_than_a_few_good_ones(name: str, measured: dict[str, float]) -> None:
    assert measured[name] <= TIMES


def test_large_bodies_are_parsed_beside_the_event_loop_by_one_thread(tmp_path: Path) -> None:
    async def go() -> None:
        loop = threading.current_thread()
        assert await service.parse(100, threading.current_thread) is loop
        parsers = await asyncio.gather(*(service.parse(MOST, threading.current_thread) for _ in range(4)))
        assert len(set(parsers)) == 1
        assert parsers[0] is not loop

    make_folder(tmp_path)
    service = open_service(tmp_path)
    asyncio.run(go())
