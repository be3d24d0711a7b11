"""The audit log's file: several writers; locked, full, failing, read-only and foreign files."""

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ucsearch.errors import InputError, RecordError
from ucsearch.records import (
    AuditLog,
    AuditReader,
    ChainReport,
    Checkpoint,
    blob_id,
    blob_ref,
    encode_array,
)
from ucsearch.records import sqlite as store


def decision(n: int, **more: Any) -> dict[str, Any]:
    outcome = ("RELEASED", "FALLBACK", "HOLD")[n % 3]
    reason = ("certified", "not_risk_active", "fallback_infeasible")[n % 3]
    return {
        "schema": "ucsearch.decision/1",
        "kind": "decision",
        "series": f"SKU-{n // 2:03d}",
        "outcome": outcome,
        "reason": reason,
        "action": float(n),
        "claim": {"gap": n / 7, "margin": "inf"},
        **more,
    }


def with_blob(n: int) -> tuple[dict[str, Any], dict[str, bytes]]:
    blob = encode_array(np.full((2, 3), n / 3))
    return decision(n, trace=blob_ref(blob)), {blob_id(blob): blob}


def fill(path: Path, count: int, start: int = 0) -> None:
    with AuditLog(path) as log:
        for n in range(start, start + count):
            log.append(*with_blob(n))


def verified(path: Path, checkpoint: Checkpoint | None = None) -> ChainReport:
    with AuditReader(path) as reader:
        return reader.verify(checkpoint)


# Several writers


WRITER = """
import sys
from ucsearch.records import AuditLog
path, name = sys.argv[1:]
record = lambda k: {"schema": "s", "kind": "decision", "series": name, "k": k}
sys.stdin.readline()
with AuditLog(path, timeout_s=60) as log:
    for k in range(40):
        print(log.append(record(k)).id)
    for k in range(40, 400, 60):
        for entry in log.append_batch([record(n) for n in range(k, k + 60)]):
            print(entry.id)
"""


def test_two_processes_create_and_fill_one_log(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("a", "b")
    ]
    for writer in writers:  # both are waiting by now, or will find the line there
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    outputs = [writer.communicate(timeout=120)[0].split() for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    assert [len(output) for output in outputs] == [400, 400]
    with AuditReader(path) as reader:
        assert reader.verify().ok
        rows = list(reader)
    assert {row.id for row in rows} == {id for output in outputs for id in output}
    for name in ("a", "b"):
        mine = [row.record["k"] for row in rows if row.record["series"] == name]
        assert mine == list(range(400)), "a writer's entries are out of order"
        batches = [row.seq for row in rows if row.record["series"] == name and row.record["k"] >= 40]
        for start in range(0, 360, 60):
            assert batches[start + 59] - batches[start] == 59, "another writer got into a batch"


def test_two_creators_in_the_same_instant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.db"
    real, calls = store._enter_wal, []

    def overtaken(connection: sqlite3.Connection, timeout_s: float) -> None:
        calls.append(timeout_s)
        if len(calls) == 1:  # this one has seen an empty file; now another creates the log and writes to it
            fill(path, 2)
        real(connection, timeout_s)

    monkeypatch.setattr(store, "_enter_wal", overtaken)
    with AuditLog(path) as log:
        assert len(calls) == 2
        assert log.append(decision(7)).seq == 3
        assert log.verify().ok


def test_a_creator_waits_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.db"
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waits: list[float] = []

    def release(seconds: float) -> None:
        waits.append(seconds)
        other.execute("ROLLBACK")

    monkeypatch.setattr(store, "time", SimpleNamespace(monotonic=lambda: 0.0, sleep=release))
    with AuditLog(path, timeout_s=0.01) as log:
        assert len(waits) == 1
        assert log.append(decision(0)).seq == 1
    other.close()


def test_a_new_log_is_durable_under_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(store, "sync_folder", synced.append)
    for _ in range(2):
        AuditLog(tmp_path / "log.db").close()
    assert synced == [tmp_path]


def test_threads_share_one_log(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log.db") as log:
        threads = [
            threading.Thread(target=lambda t=t: [log.append(decision(100 * t + n)) for n in range(25)])
            for t in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert log.count() == 100
        assert log.verify().ok


def test_a_log_is_not_carried_into_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with AuditLog(tmp_path / "log.db") as log:
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", lambda: 1)
            with pytest.raises(RecordError, match="opened in another process"):
                log.append(decision(0))
        assert log.append(decision(0)).seq == 1


# A locked, full, read-only, foreign file


def test_a_locked_log_records_nothing_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    fill(path, 2)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with AuditLog(path, timeout_s=0.01) as log:
        with pytest.raises(
            RecordError, match=r"another writer held the log for more than 0\.01 s; nothing was recorded"
        ):
            log.append(decision(5))
        assert log.count() == 2  # reading goes on
        other.execute("ROLLBACK")
        assert log.append(decision(5)).seq == 3
    other.close()
    assert verified(path).ok


def test_a_full_disk_loses_nothing_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    acknowledged = []
    with AuditLog(path, max_pages=30) as log:
        n = 0
        with pytest.raises(RecordError, match="is full; nothing was recorded"):  # noqa: PT012
            while n < 10_000:
                acknowledged.append(log.append(*with_blob(n)).id)
                n += 1
        checkpoint = log.checkpoint()
        assert checkpoint.count == len(acknowledged) > 20
        # A batch that does not fit leaves no part of itself, and the log stays usable for reading.
        with pytest.raises(RecordError, match="is full"):
            log.append_batch([decision(n, text="x" * 5000) for n in range(20_000, 20_050)])
        assert [row.id for row in log] == acknowledged
        assert log.verify(checkpoint).ok
    with AuditLog(path) as log:
        assert log.append(*with_blob(n)).seq == len(acknowledged) + 1
        assert log.verify(checkpoint).ok


def test_a_failed_commit_gives_no_receipt(tmp_path: Path) -> None:
    """Cut the transaction off at every stage: no receipt, no trace, and the next one works."""
    path = tmp_path / "log.db"
    with AuditLog(path) as log:
        log.append(decision(0))
        real = log.store._connection

        class Failing:
            in_transaction = property(lambda self: real.in_transaction)

            def __init__(self, word: str) -> None:
                self.word = word

            def execute(self, sql: str, *rest: Any) -> Any:
                if sql.startswith(self.word):
                    raise sqlite3.OperationalError("disk I/O error")
                return real.execute(sql, *rest)

            def executemany(self, sql: str, *rest: Any) -> Any:
                result = real.executemany(sql, *rest)
                if sql.startswith(self.word):
                    raise sqlite3.OperationalError("disk I/O error")
                return result

        for word in ("BEGIN", "SELECT", "INSERT INTO blobs", "INSERT INTO entries", "COMMIT"):
            log.store._connection = Failing(word)  # type: ignore[assignment]
            with pytest.raises(RecordError, match="disk I/O error; nothing counts as recorded"):
                log.append(*with_blob(1))
            log.store._connection = real
            assert log.count() == 1
            assert not real.in_transaction
        assert log.append(*with_blob(1)).seq == 2
        assert log.verify().ok


def test_an_interrupt_gives_no_receipt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with AuditLog(tmp_path / "log.db") as log:

        def interrupted(*_: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("ucsearch.records.log._insert_blobs", interrupted)
            with pytest.raises(KeyboardInterrupt):
                log.append(decision(0))
        assert log.count() == 0
        assert log.append(decision(0)).seq == 1


@pytest.fixture
def ordinary_user() -> Iterator[Path]:
    """A folder, and for root the loss of root's rights: nothing is read-only to root."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    root = os.geteuid() == 0
    try:
        fill(folder / "log.db", 2)
        if root:
            for entry in (folder, folder / "log.db"):
                os.chown(entry, 65534, 65534)
            try:
                os.seteuid(65534)
            except OSError:
                pytest.skip("root cannot give up its rights here")
        yield folder
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o755)
        shutil.rmtree(folder)


@pytest.mark.skipif(os.name != "posix", reason="file modes are a POSIX matter")
def test_a_read_only_file_can_be_read_and_not_recorded_in(ordinary_user: Path) -> None:
    path = ordinary_user / "log.db"
    log = AuditLog(path)
    path.chmod(0o444)
    with pytest.raises(RecordError, match="the log is read-only; nothing can be recorded"):
        AuditLog(path)
    log.close()
    ordinary_user.chmod(0o555)  # a read-only medium: SQLite cannot put its index beside the log either
    with AuditReader(path) as reader:
        assert reader.verify().ok
        assert reader.count() == 2
    path.chmod(0o644)
    with pytest.raises(RecordError, match="read-only"):
        AuditLog(path)


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    fill(path, 1)
    with AuditReader(path) as reader:
        assert not hasattr(reader, "append")
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader.store._connection.execute("INSERT INTO blobs VALUES ('a', x'00')")


def test_what_is_no_log_is_refused_and_left_alone(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.db"
    with closing(sqlite3.connect(foreign)) as raw, raw:
        raw.execute("CREATE TABLE entries (x)")
    text = tmp_path / "text.db"
    text.write_text("not a database, but long enough to be looked at as if it were one " * 20)
    later = tmp_path / "later.db"
    fill(later, 1)
    with closing(sqlite3.connect(later)) as raw, raw:
        raw.execute("PRAGMA user_version = 3")
    for path, message in (
        (foreign, "not an audit log"),
        (text, "not an audit log"),
        (later, "not an audit log"),
    ):
        before = path.read_bytes()
        for kind in (AuditLog, AuditReader):
            with pytest.raises(RecordError, match=message):
                kind(path)
        assert path.read_bytes() == before
    for path, message in (
        (tmp_path, "saw a folder"),
        (tmp_path / "no" / "log.db", "does not exist"),
        (Path(":memory:"), "needs a file"),
    ):
        with pytest.raises(RecordError, match=message):
            AuditLog(path)
    with pytest.raises(RecordError, match="no such log"):
        AuditReader(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()
    for timeout_s in (-1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="timeout_s"):
            AuditLog(tmp_path / "none.db", timeout_s=timeout_s)
    with pytest.raises(InputError, match="max_pages"):
        AuditLog(tmp_path / "none.db", max_pages=0)


def test_a_closed_log_records_nothing(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "log.db")
    log.close()
    with pytest.raises(RecordError, match="closed"):
        log.append(decision(0))


def test_a_path_with_special_characters(tmp_path: Path) -> None:
    path = tmp_path / "a b?c#d%20é.db"
    fill(path, 1)
    assert path.exists()
    assert verified(path).ok
