"""What is done beside the commits: checkpoints of the log as entries come, and copies of it on their schedule."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.kit.logged import decide
from tests.service.kit import CONFIG, START, Clock, make_folder, running
from ucsearch.planner.monitor.rotate import rotate_log
from ucsearch.records.chain import Checkpoint
from ucsearch.records.entries import Entry
from ucsearch.records.log import AuditLog
from ucsearch.service import upkeep as module
from ucsearch.service.backups import copies_in, delete_older, name_at, taken_at
from ucsearch.service.config import load_config
from ucsearch.service.notify import Notifier
from ucsearch.service.observability import Metrics
from ucsearch.service.upkeep import Upkeep


def until(holds: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


class Told(Notifier):
    """What would be sent."""

    def __init__(self) -> None:
        super().__init__((), Metrics(), lambda: START)
        self.events: list[str] = []

    def tell(self, event: str, *_: Any, **__: Any) -> None:
        self.events.append(event)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Upkeep]]:
    made: list[Upkeep] = []

    def begin(store: str = "", backup: str = "", clock: Callable[[], datetime] | None = None) -> Upkeep:
        text = CONFIG.replace("checkpoint_every = 10", store or "checkpoint_every = 1000000")
        make_folder(tmp_path / "s", text + backup)
        config, folder = load_config(tmp_path / "s")
        made.append(Upkeep(config, folder, clock or Clock(), Told()))
        made[-1].start()
        return made[-1]

    yield begin
    for upkeep in made:
        upkeep.stop()
    assert not any(t.name == "ucsearch-upkeep" for t in threading.enumerate())


def fill(log: AuditLog, upkeep: Upkeep, count: int) -> Entry:
    for _ in range(count):
        decide(log, 5.0 + log.count() / 100.0)
        row = log.get(log.count())
        entry = Entry(row.seq, row.id, row.digest, row.head)
        upkeep.after(entry)
    return entry


def kept(upkeep: Upkeep) -> Checkpoint:
    return Checkpoint.read(upkeep._checkpoint)


def test_checkpoints_follow_the_entries(tmp_path: Path, make: Callable[..., Upkeep]) -> None:
    upkeep = make("checkpoint_every = 3")
    with AuditLog(tmp_path / "log.db") as log:
        fill(log, upkeep, 1)
        assert kept(upkeep).count == 1  # the first of a process at once
        fill(log, upkeep, 2)
        assert kept(upkeep).count == 1
        last = fill(log, upkeep, 1)
        until(lambda: kept(upkeep) == Checkpoint(last.seq, last.head))


def test_a_checkpoint_that_cannot_be_written_is_tried_again(
    tmp_path: Path, make: Callable[..., Upkeep], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_S", 0.05)
    upkeep = make("checkpoint_every = 2")
    place = upkeep._checkpoint
    place.parent.write_text("a file in its way")
    with AuditLog(tmp_path / "log.db") as log:
        fill(log, upkeep, 3)
        assert upkeep.written_at == 0.0
        assert upkeep.checkpoint_state() == (None, None)
        place.parent.unlink()
        last = fill(log, upkeep, 1)
        until(lambda: place.exists() and kept(upkeep) == Checkpoint(last.seq, last.head))


def test_a_log_that_failed_while_nobody_asks_is_opened_again(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path, CONFIG) as client:
            assert (await client.decide("A")).status_code == 200
            await asyncio.sleep(0.2)  # the deciding thread waits by now
            client.service.writer._give_up()
            assert client.service.not_ready() == ["log not writable"]
            until(lambda: not client.service.not_ready(), 5.0)

    asyncio.run(run())


def test_what_was_recorded_last_gets_a_checkpoint_although_nobody_comes(
    tmp_path: Path, make: Callable[..., Upkeep], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_OLD_S", 0.05)
    monkeypatch.setattr(module, "_LOOK_S", 0.05)
    upkeep = make()
    with AuditLog(tmp_path / "log.db") as log:
        last = fill(log, upkeep, 7)
        until(lambda: kept(upkeep).count == last.seq)
    until(lambda: upkeep.checkpoint_age_s() == 0.0)  # however long nothing happens


def test_entries_wait_for_a_checkpoint_from_the_first_on(tmp_path: Path, make: Callable[..., Upkeep]) -> None:
    upkeep = make()
    upkeep._checkpoint.parent.write_bytes(b"")  # a folder that cannot be
    assert upkeep.checkpoint_age_s() == 0.0
    with AuditLog(tmp_path / "log.db") as log:
        fill(log, upkeep, 1)
        until(lambda: upkeep.checkpoint_age_s() > 0.0)
        upkeep._checkpoint = tmp_path / "checkpoint.json"
        fill(log, upkeep, 1)
        assert upkeep.checkpoint_age_s() == 0.0


BACKUP = '[backup]\nfolder = "copies"\nevery_h = 24\nkeep = 2\n'


def test_copies_are_taken_on_their_schedule_and_old_ones_deleted(
    tmp_path: Path, make: Callable[..., Upkeep], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_S", 0.02)
    clock = Clock()
    upkeep = make("", BACKUP, clock)
    (tmp_path / "s" / "log").mkdir()
    with AuditLog(tmp_path / "s" / "log" / "decisions.db") as log:
        decide(log, 5.0)
    folder = tmp_path / "s" / "copies"
    for day in (0, 1, 2):
        clock.now = START + timedelta(days=day, seconds=day)
        until(lambda day=day: len(copies_in(folder)) >= min(day + 1, 2) and upkeep._child is None, 60.0)
        until(lambda: 0.0 <= upkeep.backup_age_s() < 60.0)
    until(lambda: [taken_at(path).day for path in copies_in(folder)] == [3, 4])
    until(lambda: len(list(folder.iterdir())) == 6)  # each with its checkpoint and its SHA-256
    clock.now += timedelta(hours=12)
    assert 43_000.0 < upkeep.backup_age_s() < 43_400.0


def test_a_copy_that_fails_is_told_once_and_tried_again_later(
    tmp_path: Path, make: Callable[..., Upkeep], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_LOOK_S", 0.02)
    tried: list[list[str]] = []
    real = subprocess.Popen

    def failing(command: list[str], **more: Any) -> Any:
        tried.append(command)
        return real([sys.executable, "-c", "print('no room'); raise SystemExit(1)"], **more)

    monkeypatch.setattr(module.subprocess, "Popen", failing)
    clock = Clock()
    upkeep = make("", BACKUP, clock)
    told: Told = upkeep._notifier  # type: ignore[assignment]
    until(lambda: told.events == ["backup_failed"])
    assert upkeep.backup_age_s() == math.inf
    time.sleep(0.2)
    assert len(tried) == 1
    clock.now += timedelta(hours=2)
    until(lambda: len(tried) == 2)


def test_only_whole_copies_count(tmp_path: Path) -> None:
    for day in (1, 2, 3):
        (tmp_path / name_at(datetime(2026, 3, day, 2, 30, tzinfo=UTC))).write_bytes(b"")
    for name in ("20260301T023000Z.db.checkpoint", "20260302T023000Z.db.checkpoint", "20260302T023000Z.db.sha256"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "by hand.db").write_bytes(b"")
    assert [path.name for path in copies_in(tmp_path)] == ["20260301T023000Z.db", "20260302T023000Z.db"]
    delete_older(tmp_path, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "20260302T023000Z.db", "20260302T023000Z.db.checkpoint", "20260302T023000Z.db.sha256", "20260303T023000Z.db",
        "by hand.db",
    ]  # fmt: skip
    assert copies_in(tmp_path / "nowhere") == []


def test_figures_of_a_log_that_was_rotated_and_of_one_that_was_there_before(tmp_path: Path) -> None:
    def figure(text: str, name: str) -> float:
        return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(f"ucsearch_{name} "))

    tokens: dict[str, str] = {}

    async def once(rotated: bool) -> tuple[float, float, float]:
        async with running(tmp_path, tokens=tokens or None) as client:
            tokens.update(client.tokens)
            entries = figure(await client.metrics(), "log_entries")
            before = figure(await client.metrics(), "log_bytes")
            if rotated:
                rotate_log(tmp_path / "log/decisions.db", at=datetime(2026, 3, 9, tzinfo=UTC), by="a", why="a test")
            await client.decide(*(f"S{i}" for i in range(40)))
            return entries, before, figure(await client.metrics(), "log_bytes")

    assert asyncio.run(once(False))[0] == 0
    entries, before, after = asyncio.run(once(True))
    assert entries == 40
    newest = tmp_path / "log/decisions.0002.db"
    assert after >= before + newest.stat().st_size


def test_a_full_file_is_followed_by_the_next_one(make: Callable[..., Upkeep], tmp_path: Path) -> None:
    upkeep = make(backup="[rotation]\nentries = 5\n")
    (tmp_path / "s/log").mkdir(exist_ok=True)
    with AuditLog(tmp_path / "s/log/decisions.db", clock=lambda: START) as log:
        fill(log, upkeep, 4)
        upkeep.look()
        assert [path.name for path in log.files] == ["decisions.db"]
        fill(log, upkeep, 1)
        upkeep.look()
        assert [path.name for path in log.files] == ["decisions.db", "decisions.0002.db"]
        fill(log, upkeep, 4)  # with the first entry of the file that makes five
        upkeep.look()
        assert len(log.files) == 3
        (row, *_) = log.list(kind="rotation", newest_first=True, limit=1)
        assert (row.record["by"], row.record["why"]) == ("service", "rotation.entries = 5")
        assert log.verify().ok


def test_what_is_kept_too_long_is_erased_once_a_day(make: Callable[..., Upkeep], tmp_path: Path) -> None:
    clock = Clock()
    upkeep = make(backup="[retention]\ndays = 30.0\n", clock=clock)
    (tmp_path / "s/log").mkdir(exist_ok=True)
    with AuditLog(tmp_path / "s/log/decisions.db", clock=lambda: clock.now) as log:
        fill(log, upkeep, 3)
        clock.now += timedelta(days=29)
        fill(log, upkeep, 2)
        upkeep._next_erasure = None
        upkeep.look()
        assert log.list(kind="erasure") == ()
        clock.now += timedelta(hours=23)
        upkeep.look()  # not yet a day
        clock.now += timedelta(hours=3)
        upkeep.look()
        (row,) = log.list(kind="erasure")
        assert [one["entry"] for one in row.record["entries"]] == [1, 2, 3]
        assert (row.record["by"], row.record["why"]) == ("service", "retention.days = 30")
        assert log.verify().ok
