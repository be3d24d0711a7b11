"""The audit log: receipts, reading, refusals, repeats, overrides, export."""

import base64
import errno
import hashlib
import os
import pickle
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.kit import logged
from tests.kit.entries import altered, decision, fill, with_blob
from tests.kit.unsynced import SYNCED
from ucsearch.errors import InputError, RecordError
from ucsearch.records import (
    AuditLog,
    AuditReader,
    ChainReport,
    Checkpoint,
    Request,
    RequestTaken,
    Sealed,
    blob_id,
    blob_ref,
    decode_array,
    encode_array,
    loads,
    record_id,
    seal,
)
from ucsearch.records import sqlite as store
from ucsearch.records.canonical import canonical, seal_bytes
from ucsearch.records.entries import GENESIS, entry_digest, next_head

NOON = "2024-05-01T12:00:00+00:00"


def verified(path: Path, checkpoint: Checkpoint | None = None) -> ChainReport:
    with AuditReader(path) as reader:
        return reader.verify(checkpoint)


# Receipts and reading


def test_a_series_is_found_without_looking_through_its_plan(tmp_path: Path) -> None:
    """By the index of its plan an override of a series without a refusal took as long as the plan is."""
    asked: list[str] = []
    with AuditLog(tmp_path / "log.db") as log:
        log.append_batch([{**decision(n), "series": f"S{n}", "plan": "orders"} for n in range(20)])
    with AuditReader(tmp_path / "log.db") as reader, closing(sqlite3.connect(tmp_path / "log.db")) as beside:
        reader.store._connection.set_trace_callback(asked.append)
        found = reader.newest("S3", "orders")
        assert found is not None
        assert found.seq == 4
        assert [r.seq for r in reader.list(series="S5", plan="orders", outcome="RELEASED", reason="none")] in ([], [6])
        assert [r.seq for r in reader.list(kind=("decision", "refusal"), limit=2, newest_first=True)] == [20, 19]
        texts = [text for text in asked if text.startswith("SELECT") and "series = " in text]
        plans = [row[3] for text in texts for row in beside.execute(f"EXPLAIN QUERY PLAN {text}")]
    assert len(plans) >= 2
    assert all("entries_series" in plan for plan in plans)


@pytest.mark.parametrize(
    ("wanted", "index"),
    [
        ({"plan": "orders", "outcome": "HOLD"}, "entries_outcome"),
        ({"plan": "orders", "reason": "invalid_trace"}, "entries_reason"),
        ({"plan": "orders", "outcome": "FALLBACK", "reason": "paused"}, "entries_reason"),
        ({"plan": "orders", "outcome": "RELEASED", "reason": "none", "series": "S1"}, "entries_series"),
        ({"plan": "orders"}, "entries_plan"),
    ],
)
def test_what_few_have_is_found_by_their_index(tmp_path: Path, wanted: dict[str, str], index: str) -> None:
    """Of a million decisions those on hold were looked for one by one."""
    asked: list[str] = []
    with AuditLog(tmp_path / "log.db") as log:
        log.append_batch([{**decision(n), "series": f"S{n}", "plan": "orders"} for n in range(20)])
    with AuditReader(tmp_path / "log.db") as reader, closing(sqlite3.connect(tmp_path / "log.db")) as beside:
        reader.store._connection.set_trace_callback(asked.append)
        reader.list(**wanted, kind=("decision", "refusal"), newest_first=True)  # type: ignore[arg-type]
        (text,) = [text for text in asked if "'orders'" in text]
        plans = [row[3] for row in beside.execute(f"EXPLAIN QUERY PLAN {text}")]
    assert index in plans[0]


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


def test_a_name_with_a_nul_is_refused(tmp_path: Path) -> None:
    """SQLite compares what stands before it: such a series would be found and overridden under another's name."""
    with logged.new_log(tmp_path) as log:
        logged.decide(log, series="A")
        first = log.count()
        for series in ("A\0", "A\0B", "\0"):
            with pytest.raises(RecordError, match=r"record\.series: saw a NUL character"):
                logged.decide(log, series=series)
        logged.decide(log, series="A\\u0000")  # six characters, none of them a NUL
        assert log.count() == first + 1
        assert [row.seq for row in log.list(series="A", limit=2, newest_first=True)] == [first]


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


def test_every_release_is_an_entry(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log.db") as log:
        first = log.append(decision(0))
        entries = log.append_batch([decision(1), decision(0), decision(1)])
        assert [entry.seq for entry in entries] == [2, 3, 4]
        assert not any(entry.repeated for entry in entries)
        assert entries[1].id == first.id
        assert entries[1].head != first.head
        assert log.count() == 4
        assert log.get(first.id).seq == 3  # the newest
        assert log.get(1).seq == 1
        assert log.verify(log.checkpoint()).ok


def asked(n: int, item: int = 0, **more: Any) -> dict[str, Any]:
    return decision(n, request=Request.named("a", by="somebody").at(item).content(), **more)


def test_a_repeat_is_what_comes_under_the_same_request(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log.db") as log:
        first = log.append(asked(0))
        entries = log.append_batch([asked(1, 1), asked(0), asked(1, 1), decision(5)])
        assert [entry.seq for entry in entries] == [2, 1, 2, 3]
        assert [entry.repeated for entry in entries] == [False, True, True, False]
        assert entries[1].head == first.head
        assert [row.seq for row in log.find_request(Request.named("a").key)] == [1, 2]
        assert [row.seq for row in log.find_request(Request.named("a").key, 1)] == [2]
        assert log.find_request(Request.named("b").key) == ()
        assert log.count() == 3
        assert log.verify().ok


def test_a_request_has_one_answer(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log.db") as log:
        log.append(asked(0))
        with pytest.raises(RequestTaken, match=r"entry 1, id .*another content") as caught:
            log.append_batch([decision(7), asked(1)])
        assert caught.value.entry.seq == 1
        assert pickle.loads(pickle.dumps(caught.value)).entry == caught.value.entry
        with pytest.raises(RequestTaken):
            log.append_batch([asked(2, 2), asked(3, 2)])
        assert log.count() == 1
        # A writer that forgot to say so is stopped by the file itself.
        body = seal_bytes(asked(1))
        with pytest.raises(RecordError, match="append-only"):
            log.append_sealed([Sealed(*body, ())])
        assert log.count() == 1


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ("x", "expected an object"),
        ({"key": "ab" * 32}, "request.item"),
        ({"key": "ab" * 32, "item": -1}, "request.item"),
        ({"key": "ab" * 32, "item": True}, "request.item"),
        ({"key": "AB" * 32, "item": 0}, "request.key"),
        ({"key": "ab" * 32, "item": 0, "body": "x"}, "request.body"),
        ({"key": "ab" * 32, "item": 0, "by": 7}, "request.by"),
        ({"key": "ab" * 32, "item": 0, "more": 7}, "request.more"),
    ],
)
def test_requests_of_another_form_are_refused(tmp_path: Path, request_: Any, message: str) -> None:
    with AuditLog(tmp_path / "log.db") as log:
        with pytest.raises(RecordError, match=message):
            log.append(decision(0, request=request_))
        assert log.count() == 0


def test_a_repeated_record_is_acknowledged_only_after_a_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync
    with AuditLog(tmp_path / "log.db") as log:
        log.append(asked(0))
        wal = os.stat(tmp_path / "log.db-wal").st_ino
        monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.fstat(fd).st_ino), real(fd))[1])
        log.append(asked(0))
        assert synced == [wal]

        def failing(fd: int) -> None:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(os, "fsync", failing)
        with pytest.raises(RecordError, match="cannot be synced"):
            log.append(asked(0))


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
        "REPLACE INTO entries (seq, id, digest, head, body) SELECT 4, id, '', '', body FROM entries WHERE seq = 1",
        "INSERT INTO entries (seq, id, digest, head, body) VALUES (5, 'x', '', '', '{}')",
        "INSERT INTO entries (seq, id, digest, head, body) VALUES (-1, 'x', '', '', '{}')",
        "INSERT OR REPLACE INTO blobs SELECT id, x'00' FROM blobs LIMIT 1",
    ],
)
def test_the_file_itself_refuses_changes(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "log.db"
    with AuditLog(path) as log:
        for n in range(3):
            record, blobs = with_blob(n)
            log.append(record | {"request": Request.named("a").at(n).content()}, blobs)
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA recursive_triggers = OFF")  # the setting under which REPLACE deletes unseen
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        raw.execute(statement)
    raw.close()
    assert verified(path).ok


def test_tables_are_strict_and_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "PRAGMAS", SYNCED)
    with AuditLog(tmp_path / "log.db") as log:
        ask = log.store._connection.execute
        assert ask("PRAGMA journal_mode").fetchone() == ("wal",)
        assert ask("PRAGMA synchronous").fetchone() == (2,)  # FULL
        strict = dict(ask("SELECT name, strict FROM pragma_table_list WHERE name IN ('entries', 'blobs')"))
        assert strict == {"entries": 1, "blobs": 1}


# Kinds other than decisions


def test_overrides_come_by_their_own_door(tmp_path: Path) -> None:
    raw = {"schema": "s", "kind": "override", "overrides": "0" * 64, "who": "a", "why": "b", "action": 1, "entry": 1}
    raw["off_grid"] = False
    with AuditLog(tmp_path / "log.db") as log:
        log.append(decision(0))
        with pytest.raises(RecordError, match=r"recorded by `override` alone"):
            log.append(raw)
        with pytest.raises(RecordError, match=r"recorded by `override` alone"):
            log.append_sealed([Sealed(*seal_bytes(raw), ())])
        assert log.count() == 1


def test_what_came_of_a_decision_is_about_one_in_the_log(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log.db") as log:
        entry = log.append(decision(0))
        report = {"schema": "ucsearch.outcome/1", "kind": "outcome", "decision": entry.id, "step": 1, "value": 3}
        log.append(report | {"entry": 1})
        for wrong in ({"decision": "0" * 64, "entry": 1}, {"entry": 2}, {"entry": 7}):
            with pytest.raises(RecordError, match=r"outcome\.decision: no decision"):
                log.append(report | wrong)
        with pytest.raises(RecordError, match="without the number of the entry"):
            log.append(report)
        with pytest.raises(RecordError, match=r"outcome\.decision: saw None"):
            log.append(report | {"decision": None})
        for kind in ("control", "monitor", "segment"):
            log.append({"schema": f"ucsearch.{kind}/1", "kind": kind, "plan": "p"})
        assert log.count() == 5
        assert log.verify(log.checkpoint()).ok


# Export


def test_exported_lines_can_be_checked_by_themselves(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with AuditLog(path, clock=lambda: NOON) as log:
        log.append_batch(
            [with_blob(n)[0] for n in range(3)], {k: v for n in range(3) for k, v in with_blob(n)[1].items()}
        )
        log.append(decision(3, note="Ünïcode \u2028"))
        log.append(decision(4))
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


def test_exported_parquet_says_what_counts(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    with logged.new_log(tmp_path) as log:
        first, second = logged.decide(log), logged.decide(log)
        entry = log.override(2, task=logged.tank, action=4.0, who="M. Curie", why="strike")
        log.export_parquet(tmp_path / "out.parquet", last=2)  # the override comes after the last one
    table = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    counts = [(line["effective_action"], line["overridden_by"]) for line in table]
    assert counts == [(first.action, None), (4.0, entry.seq)]
    assert second.action != 4.0


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
    sealed = [Sealed(*seal_bytes(record), tuple(own), own) for record, own in made]
    with AuditLog(tmp_path / "a.db") as plain, AuditLog(tmp_path / "b.db") as fast:
        entries = plain.append_batch([record for record, _ in made], blobs)
        assert fast.append_sealed(sealed) == entries
        assert fast.append_sealed([]) == ()
        assert fast.verify().ok
        ids = [entry.id for entry in entries]
        assert fast.has_all(ids)
        assert fast.has_all([])
        assert not fast.has_all([*ids, "0" * 64])
    other = Sealed(*seal_bytes(with_blob(7)[0]), ("0" * 64,))
    with AuditLog(tmp_path / "b.db") as fast, pytest.raises(RecordError, match="neither given nor stored"):
        fast.append_sealed([other])
    assert len(list(AuditReader(tmp_path / "b.db"))) == 5
