"""What was acknowledged is on disk: writers killed at random points, and the sync calls themselves.

A kill alone proves nothing about the disk (the kernel keeps what a dead process wrote), so the order of
writes, syncs and receipts is observed too: with strace on the real thing, and with apsw's file layer on the
same statements.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kit.unsynced import SYNCED
from ucsearch.records import AuditReader
from ucsearch.records.sqlite import PAGE_SIZE, SCHEMA

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs fork and SIGKILL")

# One process forks the writers, so that each costs milliseconds and not an interpreter's start.
NURSERY = """
import json, os, random, signal, sys
from ucsearch.records import AuditLog, AuditReader, blob_id, blob_ref
from ucsearch.records import sqlite as store

# The kernel keeps what a dead process wrote, synced or not: kills come between statements, not in waits for the disk.
store.PRAGMAS = (*store.PRAGMAS, "PRAGMA synchronous = OFF")

path, kills, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
text = "{'descr': '<f8', 'fortran_order': False, 'shape': (256,), }".ljust(117) + "\\n"
blob = b"\\x93NUMPY\\x01\\x00v\\x00" + text.encode() + bytes(2048)

def write(run, pipe, rng, steps):
    log = AuditLog(path, timeout_s=60)
    if steps:  # die by one's own hand, at the start of a certain statement
        seen = iter(range(1, steps))
        log.store._connection.set_trace_callback(lambda sql: next(seen, 0) or os.kill(os.getpid(), signal.SIGKILL))
    for batch in range(10_000):
        size = rng.choice((1, 1, 3, 40))
        records = [
            {"schema": "s", "kind": "decision", "trace": blob_ref(blob), "place": [run, batch, size, n]}
            for n in range(size)
        ]
        entries = log.append_batch(records, {blob_id(blob): blob})
        os.write(pipe, "".join(entry.id + "\\n" for entry in entries).encode())

acknowledged, deaths = [], 0
for run in range(kills):
    rng = random.Random(seed * 1000 + run)
    steps = rng.randrange(1, 120) if run % 4 == 0 else 0
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(out)
        write(run, into, rng, steps)
        os._exit(3)
    os.close(into)
    received = b""
    if not steps:
        quota = rng.randrange(0, 60) * 65
        while len(received) < quota and (chunk := os.read(out, 65536)):
            received += chunk
        for _ in range(rng.randrange(60_000)):  # somewhere inside the next transactions
            pass
        os.kill(child, signal.SIGKILL)
    while chunk := os.read(out, 65536):
        received += chunk
    os.close(out)
    status = os.waitpid(child, 0)[1]
    deaths += os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    ids = received.decode().splitlines()
    acknowledged += ids
    if run % 10 == 9 or steps:
        with AuditReader(path) as reader:
            missing = [id for id in ids if reader.get(id).id != id]
            report = reader.verify()
        if missing or not report.ok:
            sys.exit(f"after run {run}: {missing} {report}")
print(json.dumps({"deaths": deaths, "acknowledged": acknowledged}))
"""


@pytest.mark.parametrize("kills", [60, pytest.param(240, marks=pytest.mark.slow)])
def test_no_acknowledged_decision_is_lost_when_writers_are_killed(tmp_path: Path, kills: int) -> None:
    path = tmp_path / "log.db"
    done = subprocess.run(
        [sys.executable, "-c", NURSERY, str(path), str(kills), "7"], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["deaths"] == kills
    acknowledged = result["acknowledged"]
    assert len(acknowledged) == len(set(acknowledged)) > 8 * kills
    with AuditReader(path) as reader:
        assert reader.verify(reader.checkpoint()).ok
        rows = list(reader)
    assert set(acknowledged) <= {row.id for row in rows}
    # Of every batch all or nothing is there, in its order and with nothing in between.
    batches: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
    for row in rows:
        run, batch, size, n = row.record["place"]
        batches.setdefault((run, batch, size), []).append((row.seq, n))
    for (_, _, size), found in batches.items():
        first = found[0][0]
        assert found == [(first + n, n) for n in range(size)]


TRACED = """
import os, sys
from ucsearch.records import AuditLog, sqlite as store
if sys.argv[2] == "careless":
    store.PRAGMAS = (*store.PRAGMAS, "PRAGMA synchronous = NORMAL")
record = lambda n: {"schema": "s", "kind": "decision", "n": n}
log = AuditLog(sys.argv[1])
for n in range(6):
    log.append(record(n))
    os.write(1, b"RECEIPT\\n")
log.append_batch([record(n) for n in range(6, 100)])
os.write(1, b"RECEIPT\\n")
log.close()  # moves the WAL into the database
"""

CALL = re.compile(r"^(?:\d+ +)?(\w+)\((.*)\) += (-?\d+)")


def traced_events(folder: Path, how: str) -> list[str]:
    """What a writer did, in order: `write X`, `sync X` for the files of the log, `sync folder`, `receipt`."""
    folder.mkdir()
    calls = "openat,close,pwrite64,write,fsync,fdatasync"
    command = ["strace", "-f", "-qq", "-s", "40", "-e", f"trace={calls}", "-o", str(folder / "trace.txt")]
    done = subprocess.run(
        [*command, sys.executable, "-c", TRACED, str(folder / "log.db"), how],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("RECEIPT") == 7
    names: dict[str, str] = {}
    events = []
    for line in (folder / "trace.txt").read_text(errors="replace").splitlines():
        if not (call := CALL.match(line)):
            continue
        kind, arguments, result = call.groups()
        first = arguments.split(",")[0]
        if kind == "openat" and int(result) >= 0:
            names[result] = arguments.split('"')[1]
        elif kind == "write" and first == "1":
            events.append("receipt")
        elif kind != "close" and (name := names.get(first, "")).startswith(str(folder)):
            suffix = "folder" if name == str(folder) else name.removeprefix(str(folder / "log.db")) or "database"
            events.append(f"{'sync' if 'sync' in kind else 'write'} {suffix}")
        elif kind == "close":
            names.pop(first, None)
    return events


def unsynced_receipts(events: list[str]) -> int:
    """How many receipts were given while something written to the WAL was not yet synced, or nothing was."""
    bad, state = 0, "nothing"
    for event in events:
        if event == "write -wal":
            state = "written"
        elif event == "sync -wal" and state == "written":
            state = "synced"
        elif event == "receipt":
            bad += state != "synced"
            state = "nothing"
    return bad


def can_trace() -> bool:
    if shutil.which("strace") is None:
        return False
    probe = subprocess.run(["strace", "-qq", "-o", os.devnull, "true"], capture_output=True)
    return probe.returncode == 0


def test_receipts_follow_the_sync_of_the_wal(tmp_path: Path) -> None:
    if not can_trace():
        pytest.skip("strace is not installed or may not trace here")
    events = traced_events(tmp_path / "careful", "careful")
    assert events.count("receipt") == 7
    assert unsynced_receipts(events) == 0
    # The new file's name is durable before the first receipt.
    assert "sync folder" in events[: events.index("receipt")]
    # The WAL goes into the database only when it is synced itself, and then the database is synced.
    pending = ""
    for event in events:
        if event == "write database":
            assert pending != "write -wal"
        if event.endswith(" -wal"):
            pending = event
    moved = [event for event in events if event.endswith(" database")]
    assert moved[-2:] == ["write database", "sync database"]
    # And the test can tell: the setting that most people use gives receipts before the sync.
    assert unsynced_receipts(traced_events(tmp_path / "careless", "careless")) >= 5


@pytest.mark.parametrize(("extra", "synced"), [((), True), (("PRAGMA synchronous = NORMAL",), False)])
def test_the_settings_sync_the_wal_at_every_commit(tmp_path: Path, extra: tuple[str, ...], synced: bool) -> None:
    apsw: Any = pytest.importorskip("apsw", reason="apsw shows the sync calls where strace cannot")
    events: list[str] = []

    class File(apsw.VFSFile):  # type: ignore[misc]
        def __init__(self, inherit: str, name: Any, flags: Any) -> None:
            super().__init__(inherit, name, flags)
            text = name if isinstance(name, str) else name.filename()
            self.label = "-wal" if text.endswith("-wal") else "other"

        def xWrite(self, data: bytes, offset: int) -> None:
            events.append(f"write {self.label}")
            super().xWrite(data, offset)

        def xSync(self, flags: int) -> None:
            events.append(f"sync {self.label}")
            super().xSync(flags)

    class Files(apsw.VFS):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__("spy", "")

        def xOpen(self, name: Any, flags: Any) -> Any:
            return File("", name, flags)

    files = Files()
    connection = apsw.Connection(str(tmp_path / "log.db"), vfs="spy")
    try:
        for statement in (PAGE_SIZE, "PRAGMA journal_mode = WAL", *SYNCED, *extra, *SCHEMA.values()):
            list(connection.execute(statement))
        for n in range(1, 9):
            connection.execute("BEGIN IMMEDIATE")
            insert = "INSERT INTO entries (seq, id, digest, head, body) VALUES (?, ?, 'd', 'h', '{}')"
            connection.execute(insert, (n, f"id {n}"))
            connection.execute("COMMIT")
            events.append("receipt")
    finally:
        connection.close()
        files.unregister()
    start = events.index("receipt")  # the first commit also follows the schema's own
    assert (unsynced_receipts(events[start + 1 :]) == 0) == synced
