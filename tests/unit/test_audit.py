"""The audit log: receipts, reading, refusals, repeats, overrides, export."""

import base64
import errno
import hashlib
import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ucsearch.errors import InputError, RecordError
from ucsearch.records import (
    AuditLog,
    AuditReader,
    ChainReport,
    Checkpoint,
    Sealed,
    blob_id,
    blob_ref,
    decode_array,
    encode_array,
    loads,
    record_id,
    seal,
)
from ucsearch.records.canonical import canonical, seal_bytes
from ucsearch.records.chain import GENESIS, entry_digest, next_head
from ucsearch.records.store import SCHEMA

NOON = "2024-05-01T12:00:00+00:00"


def decision(n: int, **more: Any) -> dict[str, Any]:
    outcome = ("RELEASED", "FALLBACK", "HOLD")[n % 3]
    reason = ("certified", "not_risk_active", "fallback_infeasible")[n % 3]
    return {
        "schema": "ucsearch.decision/2",
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


def altered(path: Path, *statements: str | tuple[str, tuple[Any, ...]]) -> None:
    """Do to the file what the triggers forbid, and leave no trace of having removed them."""
    with closing(sqlite3.connect(path)) as raw, raw:
        triggers = {name: sql for name, sql in SCHEMA.items() if sql.startswith("CREATE TRIGGER")}
        for name in triggers:
            raw.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            raw.execute(*((statement,) if isinstance(statement, str) else statement))
        for sql in triggers.values():
            raw.execute(sql)


def verified(path: Path, checkpoint: Checkpoint | None = None) -> ChainReport:
    with AuditReader(path) as reader:
        return reader.verify(checkpoint)


# Receipts and reading


def test_a_receipt_is_what_the_documentation_says(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log.db") as log:
        first = log.append(decision(0))
        second = log.append(*with_blob(1))
    body = canonical(seal(decision(0)))
    assert (first.seq, first.id, first.repeated) == (1, record_id(decision(0)), False)
    assert first.digest == entry_digest(body)
    assert first.head == next_head(GENESIS, 1, first.digest, None)
    assert second.head == next_head(first.head, 2, second.digest, None)
    report = verified(tmp_path / "log.db")
    assert report.ok
    assert (report.count, report.head) == (2, second.head)


def test_the_two_hashes_are_what_the_documentation_says() -> None:
    def sha(data: bytes) -> str:
        return hashlib.sha256(data).hexdigest()

    entry = sha(b"ucsearch/audit-entry/1\0{}")
    chained = bytes.fromhex(GENESIS) + (7).to_bytes(8, "big") + bytes.fromhex(entry)
    assert sha(b"ucsearch/audit-genesis/1\0") == GENESIS
    assert entry_digest(b"{}") == entry
    assert next_head(GENESIS, 7, entry, None) == sha(b"ucsearch/audit-head/1\0" + chained)
    assert next_head(GENESIS, 7, entry, NOON) == sha(b"ucsearch/audit-head/1\0" + chained + NOON.encode())


def test_records_come_back_as_they_went_in(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log.db") as log:
        entries = [log.append(*with_blob(n)) for n in range(5)]
        assert [row.record for row in log] == [seal(with_blob(n)[0]) for n in range(5)]
        assert log.count() == 5
        row = log.get(entries[3].id)
        assert (row.seq, row.digest, row.head) == (4, entries[3].digest, entries[3].head)
        assert log.get(entries[3].id[:10]) == row
        ((name, blob),) = log.blobs_of(row).items()
        assert name == row.record["trace"]["$blob"]
        assert decode_array(blob).tolist() == [[1.0] * 3] * 2


def test_equal_records_give_equal_files_whatever_wrote_them(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "a.db") as log:
        one = [log.append(decision(n)) for n in range(6)]
    with AuditLog(tmp_path / "b.db") as log:
        batch = log.append_batch([dict(reversed(decision(n).items())) for n in range(6)])
    assert tuple(one) == batch


def test_filters_and_pages(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log.db") as log:
        log.append_batch([decision(n) for n in range(30)])
        assert [row.seq for row in log.list(outcome="HOLD", limit=3, offset=2)] == [9, 12, 15]
        assert [row.seq for row in log.list(series="SKU-004")] == [9, 10]
        assert [row.seq for row in log.list(reason="certified", series="SKU-003")] == [7]
        assert [row.seq for row in log.list(limit=2, newest_first=True)] == [30, 29]
        assert log.list(outcome="released") == ()
        assert len(log.list(kind="decision", limit=100)) == 30
        with pytest.raises(InputError, match="limit: saw -1"):
            log.list(limit=-1)


def test_a_walk_sees_the_log_as_it_was_when_it_began(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log.db") as log:
        log.append_batch([decision(n) for n in range(1100)])  # more than one chunk
        walk = iter(log)
        log.append(decision(2000))
        assert [row.seq for row in walk] == list(range(1, 1101))


def test_unknown_and_ambiguous_ids(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log.db") as log:
        entry = log.append(decision(0))
        for text in ("0" * 64, entry.id[:7], "%" * 10, "", entry.id + "0"):
            with pytest.raises(RecordError, match="no entry"):
                log.get(text)
        with pytest.raises(RecordError, match="no blob"):
            log.blob("0" * 64)
    altered(tmp_path / "log.db", f"UPDATE entries SET id = '{'a' * 64}'")
    altered(
        tmp_path / "log.db",
        f"INSERT INTO entries (seq, id, digest, head, body) VALUES (2, '{'a' * 63}b', '', '', '{{}}')",
    )
    with AuditReader(tmp_path / "log.db") as reader, pytest.raises(RecordError, match="more than one id"):
        reader.get("a" * 20)


def test_blobs_are_stored_once(tmp_path: Path) -> None:
    blob = encode_array([1.0, 2.0])
    with AuditLog(tmp_path / "log.db") as log:
        log.append(decision(0, trace=blob_ref(blob)), {blob_id(blob): blob})
        log.append(decision(1, trace=blob_ref(blob), again=[blob_ref(blob)]), {blob_id(blob): blob})
        log.append(decision(2, trace=blob_ref(blob)))  # stored already: need not be given
        assert log.verify().ok
    with closing(sqlite3.connect(tmp_path / "log.db")) as raw, raw:
        assert raw.execute("SELECT count(*) FROM blobs").fetchone() == (1,)


def test_the_clock_is_recorded_beside_the_record_and_chained(tmp_path: Path) -> None:
    times = iter(["2024-05-01T06:00:00+02:00", datetime(2024, 5, 2, tzinfo=UTC)])
    path = tmp_path / "log.db"
    with AuditLog(path, clock=lambda: next(times)) as log:
        log.append(decision(0))
        log.append(decision(1))
        assert [row.written_at for row in log] == ["2024-05-01T06:00:00+02:00", "2024-05-02T00:00:00+00:00"]
        assert log.verify().ok
    altered(path, "UPDATE entries SET written_at = '2024-05-01T06:00:01+02:00' WHERE seq = 1")
    report = verified(path)
    assert (report.fault, report.first_bad) == ("unchained", 1)


@pytest.mark.parametrize("now", ["yesterday", "2024-05-01T06:00:00", datetime(2024, 5, 1), 17.0])
def test_a_time_that_names_no_instant_is_refused(tmp_path: Path, now: Any) -> None:
    with AuditLog(tmp_path / "log.db", clock=lambda: now) as log:
        with pytest.raises(InputError, match="clock: saw"):
            log.append(decision(0))
        assert log.count() == 0


# What is refused before anything is written


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (decision(0, schema=""), r"record\.schema"),
        ({"kind": "decision"}, r"record\.schema"),
        (decision(0, kind="note"), r"record\.kind: saw 'note'"),
        (decision(0, id="0" * 64), r"record\.id: saw '000"),
        (decision(0, id=None), r"record\.id: saw None"),
        (decision(0, gap=float("nan")), r"record\.gap: saw nan"),
        (decision(0, big=2**60), r"record\.big"),
        ([], "expected a mapping"),
        (decision(0, trace={"$blob": "0" * 64}), "neither given nor stored"),
        (decision(0, trace={"$blob": "xyz"}), r"\$blob"),
        (decision(0, trace={"$blob": "0" * 64, "more": 1}), r"\$blob"),
        (decision(0, trace={"$blob": 7}), r"\$blob"),
        (decision(0, trace={"$blob": {"$blob": "0" * 64}}), r"\$blob"),
    ],
)
def test_bad_records_are_refused_and_take_their_batch_with_them(tmp_path: Path, record: Any, message: str) -> None:
    with AuditLog(tmp_path / "log.db") as log:
        with pytest.raises(RecordError, match=message):
            log.append(record)
        with pytest.raises(RecordError, match=message):
            log.append_batch([decision(1), decision(2), record])
        assert log.count() == 0
        assert log.append(decision(3)).seq == 1


def test_a_batch_error_names_the_record(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log.db") as log, pytest.raises(RecordError, match=r"\(record 2 of the batch\)"):
        log.append_batch([decision(0), decision(1), decision(2, kind="x")])


def test_text_that_looks_like_a_reference_is_text(tmp_path: Path) -> None:
    tricky = {'x"$blob': "0" * 64, "note": '{"$blob":"' + "0" * 64 + '"}', "key\\": "$blob", "$blobs": 1}
    with AuditLog(tmp_path / "log.db") as log:
        log.append(decision(0, **tricky))
        assert next(iter(log)).record["note"] == tricky["note"]
        assert log.verify().ok


def test_bad_blobs_are_refused(tmp_path: Path) -> None:
    blob = encode_array([1.0])
    name = blob_id(blob)
    torn = blob[:-1]
    record = decision(0, trace=blob_ref(blob))
    with AuditLog(tmp_path / "log.db") as log:
        for blobs, message in (
            ({name: encode_array([2.0])}, "its content has the id"),
            ({name: blob, "0" * 64: blob}, "no record of the batch refers to it"),
        ):
            with pytest.raises(RecordError, match=message):
                log.append(record, blobs)
        with pytest.raises(RecordError, match="blob: saw"):
            log.append(decision(0, trace=blob_ref(torn)), {blob_id(torn): torn})
        assert log.count() == 0
        assert log.append(record, {name: blob}).seq == 1


def test_an_empty_batch_writes_nothing(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log.db") as log:
        assert log.append_batch([]) == ()
        assert log.checkpoint() == Checkpoint(0, GENESIS)


# The same record again


def test_a_repeated_record_is_acknowledged_and_not_written_twice(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log.db") as log:
        first = log.append(decision(0))
        entries = log.append_batch([decision(1), decision(0), decision(1)])
        assert [entry.seq for entry in entries] == [2, 1, 2]
        assert [entry.repeated for entry in entries] == [False, True, True]
        assert entries[1].head == first.head
        assert log.count() == 2
        assert log.verify().ok


def test_a_repeated_record_is_acknowledged_only_after_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync
    with AuditLog(tmp_path / "log.db") as log:
        log.append(decision(0))
        wal = os.stat(tmp_path / "log.db-wal").st_ino
        monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_ino), real(fd))[1])
        log.append(decision(0))
        assert synced == [wal]

        def failing(fd: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(os, "fsync", failing)
        with pytest.raises(RecordError, match="cannot be synced"):
            log.append(decision(0))


# Append-only


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET body = '{}' WHERE seq = 2",
        "DELETE FROM entries WHERE seq = 3",
        "DELETE FROM entries",
        "UPDATE blobs SET data = x'00'",
        "DELETE FROM blobs",
        "INSERT OR REPLACE INTO entries (seq, id, digest, head, body) VALUES (2, 'x', '', '', '{}')",
        "REPLACE INTO entries (seq, id, digest, head, body) SELECT 4, min(id), '', '', '1' FROM entries",
        "INSERT INTO entries (seq, id, digest, head, body) VALUES (5, 'x', '', '', '{}')",
        "INSERT INTO entries (seq, id, digest, head, body) VALUES (-1, 'x', '', '', '{}')",
        "INSERT OR REPLACE INTO blobs SELECT id, x'00' FROM blobs LIMIT 1",
    ],
)
def test_the_file_itself_refuses_changes(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "log.db"
    fill(path, 3)
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA recursive_triggers = OFF")  # the setting under which REPLACE deletes unseen
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        raw.execute(statement)
    raw.close()
    assert verified(path).ok


def test_tables_are_strict_and_durable(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log.db") as log:
        ask = log._connection.execute
        assert ask("PRAGMA journal_mode").fetchone() == ("wal",)
        assert ask("PRAGMA synchronous").fetchone() == (2,)  # FULL
        strict = dict(ask("SELECT name, strict FROM pragma_table_list WHERE name IN ('entries', 'blobs')"))
        assert strict == {"entries": 1, "blobs": 1}


# Overrides


def test_an_override_is_a_record_and_the_decision_stays(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log.db") as log:
        original = log.append(decision(4))
        before = log.get(original.id)
        entry = log.override(original.id, who="M. Curie", why="supplier strike", action=3.0, feasible=True, at=NOON)
        again = log.override(original.id[:12], who="M. Curie", why="strike over", action="keep", feasible=True, at=NOON)
        assert log.get(original.id) == before
        assert [row.id for row in log.overrides(original.id)] == [entry.id, again.id]
        assert log.get(entry.id).record == {
            "schema": "ucsearch.override/1",
            "kind": "override",
            "id": entry.id,
            "overrides": original.id,
            "digest": original.digest,
            "who": "M. Curie",
            "why": "supplier strike",
            "action": 3,
            "feasible": True,
            "at": NOON,
            "series": "SKU-002",
        }
        assert log.get(again.id).record["overrides"] == original.id
        assert [row.seq for row in log.list(kind="override", series="SKU-002")] == [2, 3]
        assert log.verify(log.checkpoint()).ok


def test_an_override_takes_the_time_from_the_clock(tmp_path: Path) -> None:
    moments = (datetime(2024, 5, 1, tzinfo=UTC) + timedelta(hours=h) for h in range(9))
    with AuditLog(tmp_path / "log.db", clock=lambda: next(moments)) as log:
        id = log.append(decision(0)).id
        entry = log.override(id, who="a", why="b", action=1, feasible=True)
        assert log.get(entry.id).record["at"] == "2024-05-01T01:00:00+00:00"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"feasible": False}, r"override\.feasible: saw False"),
        ({"feasible": 1}, r"override\.feasible: saw 1"),
        ({"feasible": None}, r"override\.feasible"),
        ({"who": ""}, r"override\.who"),
        ({"who": "  "}, r"override\.who"),
        ({"why": ""}, r"override\.why"),
        ({"why": None}, r"override\.why"),
        ({"action": float("nan")}, "expected a number"),
        ({"action": float("inf")}, r"override\.action: saw inf"),
        ({"action": None}, "expected a number"),
        ({"action": ""}, r"override\.action"),
        ({"at": "noon"}, r"override\.at"),
        ({"at": None}, r"override\.at"),
    ],
)
def test_an_override_that_is_incomplete_or_infeasible_is_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with AuditLog(tmp_path / "log.db") as log:
        id = log.append(decision(0)).id
        good: dict[str, Any] = {"who": "a", "why": "b", "action": 1.0, "feasible": True, "at": NOON}
        with pytest.raises((RecordError, InputError), match=message):
            log.override(id, **(good | change))
        assert log.count() == 1


def test_only_decisions_in_the_log_can_be_overridden(tmp_path: Path) -> None:
    good: dict[str, Any] = {"who": "a", "why": "b", "action": 1.0, "feasible": True, "at": NOON}
    with AuditLog(tmp_path / "log.db") as log:
        with pytest.raises(RecordError, match="no entry"):
            log.override("0" * 64, **good)
        entry = log.override(log.append(decision(0)).id, **good)
        with pytest.raises(RecordError, match="is an override, expected a decision"):
            log.override(entry.id, **good)
        # By the front door of `append` the rules are the same.
        raw = {"schema": "s", "kind": "override", "overrides": "0" * 64, "who": "a", "why": "b", "action": 1}
        with pytest.raises(RecordError, match="no decision"):
            log.append(raw | {"feasible": True})
        with pytest.raises(RecordError, match=r"override\.feasible"):
            log.append(raw | {"overrides": record_id(decision(0)), "feasible": False})
        assert log.count() == 2


# Export


def test_exported_lines_can_be_checked_by_themselves(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with AuditLog(path, clock=lambda: NOON) as log:
        log.append_batch(
            [with_blob(n)[0] for n in range(3)], {k: v for n in range(3) for k, v in with_blob(n)[1].items()}
        )
        id = log.append(decision(3, note="Ünïcode \u2028")).id
        log.override(id, who="a", why="b", action=1, feasible=True)
        assert log.export_jsonl(tmp_path / "out.jsonl") == 5
        assert log.export_jsonl(tmp_path / "bare.jsonl", inline_blobs=False) == 5
        rows = list(log)
    lines = (tmp_path / "out.jsonl").read_bytes().split(b"\n")
    assert lines.pop() == b""
    head = GENESIS
    for line, row in zip(lines, rows, strict=True):
        entry = loads(line)
        assert canonical(entry) == line
        assert canonical(entry["record"]) == row.body
        assert entry["digest"] == entry_digest(canonical(entry["record"]))
        head = next_head(head, entry["seq"], entry["digest"], entry["written_at"])
        assert entry["head"] == head
        for name, text in entry["blobs"].items():
            assert blob_id(base64.b64decode(text)) == name
        assert len(entry["blobs"]) == (1 if row.seq <= 3 else 0)
    bare = [loads(line) for line in (tmp_path / "bare.jsonl").read_bytes().splitlines() if line]
    assert [entry["record"] for entry in bare] == [row.record for row in rows]
    assert all(entry["blobs"] == {} for entry in bare)


def test_exported_parquet_holds_the_same(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "log.db"
    fill(path, 4)
    with AuditLog(path) as log:
        log.append({"schema": "s", "kind": "decision", "reason": ["a", 1]})
        assert log.export_parquet(tmp_path / "out.parquet") == 5
        rows = list(log)
        blobs = [log.blobs_of(row) for row in rows]
        assert log.export_parquet(tmp_path / "again.parquet") == 5
    table = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    for line, row, mine in zip(table, rows, blobs, strict=True):
        assert (line["seq"], line["id"], line["digest"], line["head"]) == (
            row.seq,
            row.id,
            row.digest,
            row.head,
        )
        assert line["record"].encode() == row.body
        assert {blob["id"]: blob["data"] for blob in line["blobs"]} == mine
    assert [line["outcome"] for line in table] == ["RELEASED", "FALLBACK", "HOLD", "RELEASED", None]
    assert table[4]["reason"] == '["a",1]'
    assert (tmp_path / "out.parquet").read_bytes() == (tmp_path / "again.parquet").read_bytes()


def test_an_export_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    fill(path, 3)
    (tmp_path / "out.jsonl").write_text("old")
    altered(path, "DELETE FROM blobs")
    with AuditReader(path) as reader, pytest.raises(RecordError, match="no blob"):
        reader.export_jsonl(tmp_path / "out.jsonl")
    assert (tmp_path / "out.jsonl").read_text() == "old"
    assert not list(tmp_path.glob(".*"))  # no half-written file is left


def test_an_empty_log_exports_and_verifies(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log.db") as log:
        assert log.export_jsonl(tmp_path / "out.jsonl") == 0
        assert (tmp_path / "out.jsonl").read_bytes() == b""
        assert log.verify(log.checkpoint()).ok


def test_sealed_records_are_appended_like_others(tmp_path: Path) -> None:
    made = [with_blob(n) for n in range(5)]
    blobs = {name: data for _, own in made for name, data in own.items()}
    sealed = [Sealed(*seal_bytes(record), tuple(own)) for record, own in made]
    with AuditLog(tmp_path / "a.db") as plain, AuditLog(tmp_path / "b.db") as fast:
        entries = plain.append_batch([record for record, _ in made], blobs)
        assert fast.append_sealed(sealed, blobs) == entries
        assert all(entry.repeated for entry in fast.append_sealed(sealed[:2], blobs))
        assert fast.append_sealed([], {}) == ()
        assert fast.verify().ok
        ids = [entry.id for entry in entries]
        assert fast.has_all(ids)
        assert fast.has_all([])
        assert not fast.has_all([*ids, "0" * 64])
    other = Sealed(*seal_bytes(with_blob(7)[0]), ("0" * 64,))
    with AuditLog(tmp_path / "b.db") as fast, pytest.raises(RecordError, match="neither given nor stored"):
        fast.append_sealed([other], {})
    assert len(list(AuditReader(tmp_path / "b.db"))) == 5
