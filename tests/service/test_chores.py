"""What is done beside the commits: SQLite's pages, checkpoints, lines of the text log, answers in one piece."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.kit.logged import decide
from tests.service.kit import CONFIG, running
from ucsearch.pipeline.rotating import rotate_log
from ucsearch.records.audit import AuditLog
from ucsearch.records.chain import Checkpoint
from ucsearch.records.entries import Entry
from ucsearch.service import chores as module
from ucsearch.service.chores import Chores


def until(holds: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


def fill(log: AuditLog, chores: Chores, count: int) -> Entry:
    for _ in range(count):
        decide(log, 5.0 + log.count() / 100.0)
        row = log.get(log.count())
        entry = Entry(row.seq, row.id, row.digest, row.head)
        chores.after(log, entry)
    return entry


def test_pages_are_moved_beside_the_commits_and_the_log_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_ENTRIES", 5)
    moved = list[tuple[str, int]]()
    real = AuditLog.move_pages

    def seen(self: AuditLog) -> int:
        moved.append((threading.current_thread().name, real(self)))
        return moved[-1][1]

    monkeypatch.setattr(AuditLog, "move_pages", seen)
    chores = Chores(tmp_path / "checkpoint.json", 1_000_000, pages=40)
    with AuditLog(tmp_path / "log.db") as log:
        log.set_autocheckpoint(0)
        for _ in range(40):
            fill(log, chores, 5)
            until(lambda: chores._crowded is None)
        until(lambda: len(moved) > 20)
        names = {name for name, _ in moved}
        assert names == {"ucsearch-chores", threading.current_thread().name}
        # Without anybody who moves them they would be several hundred by now.
        assert max(pages for _, pages in moved) < 120
        assert log.verify().ok
    chores.stop()
    assert not any(t.name == "ucsearch-chores" for t in threading.enumerate())


def test_pages_that_cannot_be_moved_stop_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ENTRIES", 1)
    chores = Chores(tmp_path / "checkpoint.json", 3, pages=1)
    with AuditLog(tmp_path / "log.db") as log:
        fill(log, chores, 2)
        until(lambda: chores._crowded is None)
        chores._crowded = tmp_path / "gone" / "log.db"  # a folder that is not there
        last = fill(log, chores, 5)
        until(lambda: Checkpoint.read(tmp_path / "checkpoint.json").count >= last.seq - 3)
    chores.stop()


def test_a_checkpoint_that_cannot_be_written_is_tried_again(tmp_path: Path) -> None:
    place = tmp_path / "there" / "checkpoint.json"
    place.parent.write_text("a file in its way")
    chores = Chores(place, 2, pages=0)
    with AuditLog(tmp_path / "log.db") as log:
        fill(log, chores, 3)
        assert chores.written_at == 0.0
        place.parent.unlink()
        last = fill(log, chores, 1)
        assert Checkpoint.read(place) == Checkpoint(last.seq, last.head)
    chores.stop()


def test_a_log_that_failed_while_nobody_asks_is_opened_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path, CONFIG) as client:
            assert (await client.decide("A")).status_code == 200
            await asyncio.sleep(0.2)  # the deciding thread waits by now
            client.service.writer._lost()
            assert client.service.not_ready() == ["log not writable"]
            until(lambda: not client.service.not_ready(), 5.0)

    asyncio.run(run())


def test_what_was_recorded_last_gets_a_checkpoint_although_nobody_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_OLD_S", 0.05)
    chores = Chores(tmp_path / "checkpoint.json", 1_000_000, pages=0)
    with AuditLog(tmp_path / "log.db") as log:
        last = fill(log, chores, 7)
        until(lambda: Checkpoint.read(tmp_path / "checkpoint.json").count == last.seq)
    until(lambda: chores.age_s() == 0.0)  # however long nothing happens
    chores.stop()


def test_entries_wait_for_a_checkpoint_from_the_first_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    chores = Chores(tmp_path / "file" / "checkpoint.json", 1_000, pages=0)  # a folder that cannot be
    assert chores.age_s() == 0.0
    with AuditLog(tmp_path / "log.db") as log:
        fill(log, chores, 1)
        until(lambda: chores.age_s() > 0.0)
        chores._path = tmp_path / "checkpoint.json"
        fill(log, chores, 1)
        assert chores.age_s() == 0.0
    chores.stop()


def test_figures_of_a_log_that_was_rotated_and_of_one_that_was_there_before(tmp_path: Path) -> None:
    def figure(text: str, name: str) -> float:
        return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(f"ucsearch_{name} "))

    tokens: dict[str, str] = {}

    async def once(rotated: bool) -> tuple[float, float, float]:
        async with running(tmp_path, tokens=tokens or None) as client:
            tokens.update(client.tokens)
            entries = figure((await client.get("/metrics")).text, "log_entries")
            before = figure((await client.get("/metrics")).text, "log_bytes")
            if rotated:
                rotate_log(tmp_path / "log/decisions.db", at=datetime(2026, 3, 9, tzinfo=UTC), by="a", why="a test")
            await client.decide(*(f"S{i}" for i in range(40)))
            return entries, before, figure((await client.get("/metrics")).text, "log_bytes")

    assert asyncio.run(once(False))[0] == 0
    entries, before, after = asyncio.run(once(True))
    assert entries == 40
    newest = tmp_path / "log/decisions.0002.db"
    assert after >= before + newest.stat().st_size
