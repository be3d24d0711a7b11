"""Logs of format 1: read, verified, not written to, and turned into format 2 as they are."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ucsearch.cli.log import log_app
from ucsearch.errors import RecordError
from ucsearch.records import AuditLog, AuditReader, blob_id, blob_ref, encode_array, upgrade
from ucsearch.records.canonical import canonical, seal
from ucsearch.records.chain import GENESIS, entry_digest, next_head
from ucsearch.records.store import APPLICATION_ID, SCHEMA, SCHEMA_1, create_tables
from ucsearch.verify import verify_file

BLOB = encode_array([1.0, 2.0])
# Upgrades copies of a log, each in a process that dies by its own hand at the start of the next statement.
DYING = """
import os, shutil, signal, sys
from ucsearch.records import AuditReader, upgrade

old, new = sys.argv[1:]
dial = upgrade.dial
with AuditReader(old) as reader:
    before = list(reader)
for steps in range(1, 200):
    for end in ("", "-wal", "-shm"):
        if os.path.exists(new + end):
            os.unlink(new + end)
    shutil.copy(old, new)
    if (child := os.fork()) == 0:
        def mortal(*arguments):
            connection, seen = dial(*arguments), iter(range(1, steps))
            connection.set_trace_callback(lambda sql: next(seen, 0) or os.kill(os.getpid(), signal.SIGKILL))
            return connection
        upgrade.dial = mortal
        upgrade.upgrade(new)
        os._exit(0)
    died = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    with AuditReader(new) as reader:
        left, same, right = reader.format, list(reader) == before, reader.verify().ok
    again = upgrade.upgrade(new).after
    print(steps, left, same, right, again)
    if not died:
        break
"""


def old_log(path: Path, count: int = 7) -> str:
    """A log as the first version wrote it; returns its head."""
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute("PRAGMA synchronous = OFF")
        for sql in SCHEMA_1.values():
            raw.execute(sql)
        raw.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        raw.execute("PRAGMA user_version = 1")
        raw.execute("INSERT INTO blobs (id, data) VALUES (?, ?)", (blob_id(BLOB), BLOB))
        head, first = GENESIS, ""
        for n in range(1, count + 1):
            record: dict[str, Any] = {
                "schema": "s",
                "kind": "decision",
                "n": n,
                "series": f"S{n}",
                "trace": blob_ref(BLOB),
            }
            if n == count > 1:
                record = {
                    "schema": "ucsearch.override/1",
                    "kind": "override",
                    "overrides": first,
                    "who": "a",
                    "why": "b",
                }
                record |= {"action": 1, "feasible": True}
            sealed = seal(record)
            first = first or sealed["id"]
            body, time = canonical(sealed), "2024-05-01T06:00:00+00:00" if n % 2 else None
            head = next_head(head, n, entry_digest(body), time)
            row = (n, sealed["id"], entry_digest(body), head, time, body.decode())
            raw.execute("INSERT INTO entries (seq, id, digest, head, written_at, body) VALUES (?, ?, ?, ?, ?, ?)", row)
    return head


def rows(path: Path) -> list[Any]:
    with AuditReader(path) as reader:
        return list(reader)


def test_an_old_log_is_read_and_not_written_to(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    head = old_log(path)
    with AuditReader(path) as reader:
        assert (reader.format, reader.count()) == (1, 7)
        assert reader.verify(reader.checkpoint()).head == head
        assert [row.seq for row in reader.overrides(1)] == [7]
        assert reader.effective([reader.get(1)])[1].action == 1
        assert reader.find_request("ab" * 32) == ()
    with pytest.raises(RecordError, match=r"format 1, .*ucsearch log upgrade"):
        AuditLog(path)
    assert "chain" not in {v.where for v in verify_file(path)}


def test_an_upgrade_keeps_every_byte(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    head = old_log(path)
    before = rows(path)
    with AuditReader(path) as reader:
        reader.checkpoint().write(tmp_path / "c.json")
        checkpoint = reader.checkpoint()
    result = CliRunner().invoke(log_app, ["upgrade", str(path)])
    assert result.exit_code == 0, result.output
    assert f"format 1 is now 2; 7 entries, head {head}" in result.output
    assert rows(path) == before
    with AuditLog(path) as log:
        assert log.format == 2
        assert log.verify(checkpoint).ok
        assert log.append({"schema": "s", "kind": "decision", "n": 1}).seq == 8
        assert log.append({"schema": "s", "kind": "decision", "n": 1}).seq == 9
        assert log.verify(checkpoint).ok
    with closing(sqlite3.connect(path)) as raw:
        found = dict(raw.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite%'"))
    assert found == SCHEMA
    assert "is of format 2; 9 entries" in CliRunner().invoke(log_app, ["upgrade", str(path)]).output


def test_an_empty_old_log(tmp_path: Path) -> None:
    old_log(tmp_path / "log.db", 0)
    assert upgrade.upgrade(tmp_path / "log.db").after == 2
    with AuditLog(tmp_path / "log.db") as log:
        assert log.count() == 0


def test_a_log_that_is_not_right_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    old_log(path)
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("DROP TRIGGER entries_update")
        raw.execute("UPDATE entries SET body = replace(body, 'S3', 'X3')")
        raw.execute(SCHEMA_1["entries_update"])
    result = CliRunner().invoke(log_app, ["upgrade", str(path)])
    assert result.exit_code == 2
    assert "entry 3" in result.output
    with AuditReader(path) as reader:
        assert reader.format == 1
    assert "no such log" in CliRunner().invoke(log_app, ["upgrade", str(tmp_path / "no.db")]).output


def test_an_upgrade_cut_off_leaves_the_old_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.db"
    old_log(path)
    before = rows(path)

    def half(connection: sqlite3.Connection) -> None:
        create_tables(connection)
        raise KeyboardInterrupt

    monkeypatch.setattr(upgrade, "create_tables", half)
    with pytest.raises(KeyboardInterrupt):
        upgrade.upgrade(path)
    assert rows(path) == before
    with AuditReader(path) as reader:
        assert reader.format == 1
        assert reader.verify().ok


def test_an_upgrade_waits_for_nobody_longer_than_asked(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    old_log(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(RecordError, match="another writer held the log"):
            upgrade.upgrade(path, timeout_s=0.05)
        other.execute("ROLLBACK")
    assert upgrade.upgrade(path).count == 7


def test_an_upgrade_that_is_killed_leaves_one_log_or_the_other(tmp_path: Path) -> None:
    old_log(tmp_path / "old.db")
    command = [sys.executable, "-c", DYING, str(tmp_path / "old.db"), str(tmp_path / "new.db")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True, env=os.environ)
    told = [line.split() for line in done.stdout.splitlines()]
    assert len(told) > 20
    assert {line[1] for line in told} == {"1", "2"}
    assert {tuple(line[2:]) for line in told} == {("True", "True", "2")}
    assert told[-1][1] == "2"
