"""Backup and restore: complete while others write, checked before they count, nothing overwritten."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ucsearch.cli.log import log_app
from ucsearch.errors import RecordError
from ucsearch.records import AuditLog, AuditReader, backup
from ucsearch.records.chain import ChainReport

RECORD: dict[str, Any] = {"schema": "s", "kind": "decision"}
WRITER = """
import sys
from ucsearch.records import AuditLog
with AuditLog(sys.argv[1], timeout_s=60) as log:
    for n in range(1_000_000):
        batch = [{"schema": "s", "kind": "decision", "n": n, "i": i} for i in range(20)]
        print(log.append_batch(batch)[-1].seq, flush=True)
"""


def fill(path: Path, count: int, start: int = 0) -> None:
    with AuditLog(path) as log:
        log.append_batch([RECORD | {"n": n} for n in range(start, start + count)])


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(log_app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result.output


def test_cp_loses_what_a_backup_keeps(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with AuditLog(path) as log:
        entries = log.append_batch([RECORD | {"n": n} for n in range(50)])
        shutil.copy(path, tmp_path / "cp.db")  # without log.db-wal
        done = backup.backup(path, tmp_path / "copy.db")
    with closing(sqlite3.connect(tmp_path / "cp.db")) as raw:
        tables = raw.execute("SELECT count(*) FROM sqlite_master WHERE name = 'entries'").fetchone()
        found = raw.execute("SELECT count(*) FROM entries").fetchone() if tables == (1,) else (0,)
    assert found < (50,)
    assert (done.count, done.head) == (50, entries[-1].head)
    assert sorted(p.name for p in tmp_path.glob("*copy*")) == ["copy.db"]
    assert done.sha256 == hashlib.sha256((tmp_path / "copy.db").read_bytes()).hexdigest()
    if os.name == "posix":
        assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    with AuditReader(tmp_path / "copy.db") as reader:
        assert reader.verify(reader.checkpoint()).count == 50


def test_under_load(tmp_path: Path) -> None:
    """Another process appends all the time; every receipt from before a backup is in it."""
    path = tmp_path / "log.db"
    with subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        seen = [int(writer.stdout.readline())]

        def listen() -> None:
            for line in writer.stdout or ():
                seen.append(int(line))

        listener = threading.Thread(target=listen)
        listener.start()
        try:
            copies = []
            for n in range(5):
                acknowledged = seen[-1]
                done = backup.backup(path, tmp_path / f"copy-{n}.db", timeout_s=60)
                assert done.count >= acknowledged
                assert done.count % 20 == 0  # whole transactions
                copies.append(done)
        finally:
            writer.kill()
            listener.join()
    assert copies[-1].count > copies[0].count
    with AuditReader(path) as log:
        assert log.count() >= seen[-1]
        for done in copies:
            assert log.get(done.count).head == done.head
            with AuditReader(done.path) as reader:
                assert log.verify(reader.checkpoint()).ok


def test_from_backup_to_log_again(tmp_path: Path) -> None:
    path, copy, pins = tmp_path / "log.db", tmp_path / "copy.db", tmp_path / "c.json"
    fill(path, 7)
    assert "7 entries" in run("copy", path, copy)
    run("checkpoint", pins, "--log", copy)
    fill(path, 3, start=7)
    assert "there is a file already" in run("copy", path, copy, code=2)
    assert "there is a file already" in run("copy", copy, path, code=2)
    rescued = tmp_path / "rescued.db"
    assert "7 entries" in run("copy", copy, rescued, "--checkpoint", pins)
    with AuditLog(rescued) as log:
        assert log.append(RECORD).seq == 8
    assert "10 entries" in run("copy", path, copy, "--replace")
    # The copy is older than the checkpoint: something acknowledged is missing in it.
    run("checkpoint", tmp_path / "later.json", "--log", path)
    run("copy", rescued, tmp_path / "old.db")
    text = run("copy", tmp_path / "old.db", tmp_path / "no.db", "--checkpoint", tmp_path / "later.json", code=2)
    assert "nothing was copied" in text
    assert not (tmp_path / "no.db").exists()
    assert not list(tmp_path.glob(".*"))


def test_a_damaged_copy_is_not_restored(tmp_path: Path) -> None:
    path, copy = tmp_path / "log.db", tmp_path / "copy.db"
    fill(path, 5)
    backup.backup(path, copy)
    with closing(sqlite3.connect(copy)) as raw, raw:
        (sql,) = raw.execute("SELECT sql FROM sqlite_master WHERE name = 'entries_update'").fetchone()
        raw.execute("DROP TRIGGER entries_update")
        raw.execute("UPDATE entries SET body = replace(body, '3', '4') WHERE seq = 4")
        raw.execute(sql)
    with pytest.raises(RecordError, match="entry 4"):
        backup.backup(copy, tmp_path / "new.db")
    assert "entry 4" in run("copy", copy, tmp_path / "new.db", code=2)
    with pytest.raises(RecordError, match="not right: entry 4"):
        backup.backup(copy, tmp_path / "second.db")
    assert not (tmp_path / "new.db").exists()
    assert not (tmp_path / "second.db").exists()
    assert not list(tmp_path.glob(".*"))


def test_what_lies_in_the_way_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    fill(path, 2)
    stale = tmp_path / "new.db-wal"
    stale.write_bytes(b"of another log")
    with pytest.raises(RecordError, match="belongs to another log"):
        backup.backup(path, tmp_path / "new.db")
    assert stale.read_bytes() == b"of another log"
    with pytest.raises(RecordError, match="onto itself"):
        backup.backup(path, path, replace=True)
    with pytest.raises(RecordError, match="does not exist"):
        backup.backup(path, tmp_path / "no" / "copy.db")
    (tmp_path / "link.db").symlink_to(path)
    with pytest.raises(RecordError, match="symbolic link"):
        backup.backup(path, tmp_path / "link.db", replace=True)
    with pytest.raises(RecordError, match="no such log"):
        backup.backup(tmp_path / "none.db", tmp_path / "copy.db")
    (tmp_path / "text.db").write_text("x" * 5000)
    with pytest.raises(RecordError, match="not an audit log"):
        backup.backup(tmp_path / "text.db", tmp_path / "copy.db")


def test_a_copy_that_differs_gets_no_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.db"
    fill(path, 3)
    monkeypatch.setattr(AuditReader, "head_after", lambda self, count: "0" * 64)
    with pytest.raises(RecordError, match="not the log's"):
        backup.backup(path, tmp_path / "copy.db")
    monkeypatch.setattr(AuditReader, "head_after", lambda self, count: self.get(count).head)
    bad = ChainReport(0, "", "corrupt", None, None, "broken")
    monkeypatch.setattr(AuditReader, "verify", lambda self, checkpoint=None: bad)
    with pytest.raises(RecordError, match="broken"):
        backup.backup(path, tmp_path / "copy.db")
    assert [p.name for p in tmp_path.iterdir() if "copy" in p.name] == []
