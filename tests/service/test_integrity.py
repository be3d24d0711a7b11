"""A log that is not what was recorded: found at the start, meanwhile, and when it is read; then nothing is decided."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.service.kit import CONFIG, Client, make_folder, open_service, running
from ucsearch.errors import RecordError
from ucsearch.service import storage
from ucsearch.service.run import check

LOG = "log/decisions.db"


def alter(path: Path, statement: str, *values: Any) -> None:
    """Change what only its owner can: triggers are taken away and put back as they were."""
    connection = sqlite3.connect(path)
    triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute(statement, values)
    for _, sql in triggers:
        connection.execute(sql)
    connection.commit()
    connection.close()


def one_byte(path: Path, seq: int) -> None:
    """Another word in a label of an entry."""
    alter(path, "UPDATE entries SET body = replace(body, 'order 5', 'order 6') WHERE seq = ?", seq)


def until(holds: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


async def stopped(client: Client) -> None:
    """Nothing is decided, and everybody is told."""
    found = await client.decide("new")
    assert (found.status_code, found.json()["code"]) == (503, "log_altered")
    paused = await client.post("/v1/plans/orders/pause", {"why": "nothing is written"}, role="operator")
    assert (paused.status_code, paused.json()["code"]) == (503, "log_altered")
    ready = await client.admin.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (503, "log altered")
    assert "ucsearch_log_altered 1.0" in await client.metrics()


@pytest.mark.parametrize("changed", ["body", "id", "head"])
def test_run_and_check_agree_about_an_altered_log(tmp_path: Path, changed: str) -> None:
    async def fill() -> None:
        async with running(tmp_path) as client:
            await client.decide("A", "B", "C")

    asyncio.run(fill())
    assert [f.level for f in check(tmp_path)] == [0] * 4
    open_and_stop(tmp_path)
    if changed == "body":
        one_byte(tmp_path / LOG, 2)
    else:
        alter(tmp_path / LOG, f"UPDATE entries SET {changed} = ? WHERE seq = 2", "0" * 64)
    findings = [f.text for f in check(tmp_path) if f.level == 2]
    with pytest.raises(RecordError, match="entry 2: ") as refused:
        open_and_stop(tmp_path)
    assert any("entry 2: " in text for text in findings), findings
    assert "not what was recorded" in str(refused.value)


def open_and_stop(folder: Path) -> None:
    service = open_service(folder)
    service.start()
    service.stop()


def test_older_entries_are_checked_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is older than the newest is checked beside the work; then releases stop."""
    monkeypatch.setattr(storage, "NEWEST", 3)

    async def fill() -> dict[str, str]:
        async with running(tmp_path) as client:
            for _ in range(5):
                await client.decide("A", "B")
            return client.tokens

    tokens = asyncio.run(fill())
    one_byte(tmp_path / LOG, 4)

    async def go() -> None:
        async with running(tmp_path, tokens=tokens) as client:
            await asyncio.to_thread(until, lambda: client.service.integrity.fault)
            assert client.service.integrity.fault == "entry 4: its content does not match its digest"
            await stopped(client)
            assert (await client.get("/v1/decisions?limit=1")).status_code == 200  # what is right can be looked at

    asyncio.run(go())
    (wrong,) = [f.text for f in check(tmp_path) if f.level == 2]
    assert wrong.startswith("log: entry 4: its content does not match")


def test_an_entry_is_checked_again_whenever_it_is_read(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as client:
            made = (await client.decide("A", "B")).json()["items"]
            path = f"/v1/decisions/{made[0]['id']}"
            assert (await client.get(path)).status_code == 200
            one_byte(tmp_path / LOG, 1)
            found = await client.get(path)
            assert (found.status_code, found.json()["code"]) == (503, "log_altered")
            assert "etag" not in found.headers
            await stopped(client)

    asyncio.run(go())


def test_a_repeated_request_is_not_answered_from_an_altered_entry(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as client:
            assert (await client.decide("A", key="once")).status_code == 200
            one_byte(tmp_path / LOG, 1)
            again = await client.decide("A", key="once")
            assert (again.status_code, again.json()["code"]) == (503, "log_altered")
            await stopped(client)

    asyncio.run(go())


def test_an_altered_array_is_found_when_it_is_read(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as client:
            id = (await client.decide("A")).json()["items"][0]["id"]
            alter(tmp_path / LOG, "UPDATE blobs SET data = CAST(data || X'00' AS BLOB)")
            found = await client.get(f"/v1/decisions/{id}/explain")
            assert (found.status_code, found.json()["code"]) == (503, "log_altered")
            await stopped(client)

    asyncio.run(go())


def test_the_newest_are_checked_before_ready_and_the_count_is_a_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "NEWEST", 4)
    monkeypatch.setattr(storage, "_PART", 2)
    monkeypatch.setattr(storage, "_SHARE", 1.0)

    async def fill() -> dict[str, str]:
        async with running(tmp_path, CONFIG) as client:
            for _ in range(5):
                await client.decide("A", "B")
            return client.tokens

    tokens = asyncio.run(fill())

    async def go() -> None:
        async with running(tmp_path, tokens=tokens) as client:

            def checked() -> bool:
                return "ucsearch_log_checked_entries 10.0" in client.service.metrics.text().decode()

            await asyncio.to_thread(until, checked)
            assert "ucsearch_log_altered 0.0" in await client.metrics()

    asyncio.run(go())
    make_folder(tmp_path / "empty")
    open_and_stop(tmp_path / "empty")
