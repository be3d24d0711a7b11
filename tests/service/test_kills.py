"""Killed under load, again and again: what was answered is in the log, and the same key gives the same bytes."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from pathlib import Path

import httpx
import pytest

from tests.service.forks import Forks, Running
from tests.service.kit import CONFIG, body, make_folder
from ucsearch.records.audit import AuditReader

AT_ONCE = 6


async def ask(http: httpx.AsyncClient, port: int, token: str, key: str, series: str) -> bytes | None:
    """The answer's bytes; None when the service died before it."""
    headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": key, "Host": "127.0.0.1"}
    try:
        answer = await http.post(
            f"http://127.0.0.1:{port}/v1/plans/orders/decisions", json=body(series), headers=headers
        )
    except httpx.HTTPError:
        return None
    assert answer.status_code == 200, answer.text
    return answer.content


async def round_of(running: Running, token: str, keys: dict[str, str], kill_after: float | None) -> dict[str, bytes]:
    """Send all keys at once; kill the service meanwhile."""
    found: dict[str, bytes] = {}

    async def one(key: str) -> None:
        content = await ask(http, running.port, token, key, keys[key])
        if content is not None:
            found[key] = content

    async with httpx.AsyncClient(timeout=30.0) as http:
        tasks = [asyncio.create_task(one(key)) for key in keys]
        if kill_after is not None:
            await asyncio.sleep(kill_after)
            os.kill(running.pid, signal.SIGKILL)
        await asyncio.gather(*tasks)
    return found


def kill_often(folder: Path, times: int) -> None:
    tokens = make_folder(folder, CONFIG.replace("checkpoint_every = 10", "checkpoint_every = 25"))
    chance = random.Random(20)
    answered: dict[str, bytes] = {}
    last: dict[str, str] = {}
    forks = Forks(folder)
    try:
        running = forks.start()
        for n in range(times):
            keys = {f"{n}-{i}": f"S{chance.randrange(20)}" for i in range(AT_ONCE)}
            # Half of them ask again what was asked before the last kill, some of it answered, some not.
            keys |= dict(list(last.items())[: AT_ONCE // 2])
            found = asyncio.run(round_of(running, tokens["agent"], keys, chance.uniform(0.0, 0.05)))
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
            ids = [i["id"] for i in httpx.Response(200, content=content).json()["items"]]
            assert log.has_all(ids), key
        assert log.count() <= times * AT_ONCE
    assert len(answered) > times  # the kills came in between, not before everything


def test_a_hundred_kills(tmp_path: Path) -> None:
    kill_often(tmp_path, 100)


@pytest.mark.slow
def test_a_thousand_kills(tmp_path: Path) -> None:
    kill_often(tmp_path, 1_000)
