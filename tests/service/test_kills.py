"""Killed under load, again and again: what was answered is in the log, and the same key gives the same bytes."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import signal
from pathlib import Path

import pytest

from tests.service.forks import Forks, Running
from tests.service.kit import CONFIG, PLAN, body, make_folder
from ucsearch.records.log import AuditReader

AT_ONCE = 4


async def ask(port: int, token: str, key: str, series: str) -> bytes | None:
    """The answer's bytes; None when the service died before it. Plain sockets: a client of a library, made anew for
    every round, took longer than the service's start."""
    content = json.dumps(body(series)).encode()
    head = (
        f"POST /v1/plans/orders/decisions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Idempotency-Key: {key}\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    )
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return None
    try:
        writer.write(head.encode() + content)
        told = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", told, re.I)
        assert length is not None, told
        answer = await reader.readexactly(int(length[1]))
    except (asyncio.IncompleteReadError, OSError):
        return None
    finally:
        writer.close()
    assert told.startswith(b"HTTP/1.1 200 "), answer
    return answer


async def round_of(
    running: Running, token: str, keys: dict[str, str], kill: tuple[int, float] | None
) -> dict[str, bytes]:
    """Send all keys at once; kill the service after so many answers, and a moment."""
    found: dict[str, bytes] = {}
    come = asyncio.Event()

    async def one(key: str) -> None:
        content = await ask(running.port, token, key, keys[key])
        if content is not None:
            found[key] = content
        if kill is not None and len(found) >= kill[0]:
            come.set()

    if kill is not None and kill[0] == 0:
        come.set()
    async with asyncio.timeout(60.0):
        tasks = [asyncio.create_task(one(key)) for key in keys]
        if kill is not None:
            await come.wait()
            await asyncio.sleep(kill[1])
            os.kill(running.pid, signal.SIGKILL)
        await asyncio.gather(*tasks)
    return found


def kill_often(folder: Path, times: int, seed: int = 20) -> None:
    plan = PLAN.replace("[0.0, 5.0, 10.0, 15.0]", "[0.0, 10.0]").replace("depth = 2", "depth = 1")
    tokens = make_folder(folder, CONFIG.replace("checkpoint_every = 10", "checkpoint_every = 25"), plan)
    chance = random.Random(seed)
    answered: dict[str, bytes] = {}
    last: dict[str, str] = {}
    forks = Forks(folder)
    try:
        running = forks.start()
        for n in range(times):
            keys = {f"{n}-{i}": f"S{chance.randrange(20)}" for i in range(AT_ONCE)}
            # Half of them ask again what was asked before the last kill, some of it answered, some not.
            keys |= dict(list(last.items())[: AT_ONCE // 2])
            found = asyncio.run(
                round_of(running, tokens["agent"], keys, (chance.randrange(AT_ONCE), chance.uniform(0.0, 0.01)))
            )
            for key, content in found.items():
                assert answered.setdefault(key, content) == content, f"{key} was answered otherwise before"
            last = keys
            running = forks.start()
        again = asyncio.run(round_of(running, tokens["agent"], dict.fromkeys(last, "") | last, None))
        assert set(again) == set(last)
        os.kill(running.pid, signal.SIGTERM)
    finally:
        forks.close()
    with AuditReader(folder / "log/decisions.db") as log:
        assert log.verify().ok
        for key, content in answered.items():
            ids = [i["id"] for i in json.loads(content)["items"]]
            assert log.has_all(ids), key
        assert log.count() <= times * AT_ONCE
    assert times < len(answered) < times * AT_ONCE  # the kills came in between, not before or after everything


def test_a_hundred_kills(tmp_path: Path) -> None:
    kill_often(tmp_path, 100)


@pytest.mark.slow
def test_a_thousand_kills(tmp_path: Path) -> None:
    kill_often(tmp_path, 1_000)
