"""Tampering with the audit log: each way found, the first bad entry named; and checkpoints."""

import errno
import json
import os
import random
import shutil
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kit.entries import altered, decision, fill, with_blob
from ucsearch.errors import RecordError
from ucsearch.records import (
    AuditLog,
    AuditReader,
    ChainReport,
    Checkpoint,
    blob_id,
    encode_array,
    loads,
    record_id,
    seal,
)
from ucsearch.records.canonical import canonical
from ucsearch.records.entries import GENESIS, entry_digest, next_head

INSERT = "INSERT INTO entries (seq, id, digest, head, body) VALUES"


def rechain(path: Path, first: int = 1) -> None:
    """Recompute ids, digests and heads from an entry on, as someone who knows the format would."""
    with closing(sqlite3.connect(path)) as raw, raw:
        rows = raw.execute("SELECT seq, body, written_at FROM entries ORDER BY seq").fetchall()
        heads = dict(raw.execute("SELECT seq, head FROM entries"))
    head = heads.get(first - 1, GENESIS)
    changes: list[tuple[str, tuple[Any, ...]]] = []
    for seq, text, written_at in rows:
        if seq < first:
            continue
        record = seal(loads(text))
        body = canonical(record)
        head = next_head(head, seq, entry_digest(body), written_at)
        changes.append(
            (
                "UPDATE entries SET id = ?, digest = ?, head = ?, body = ? WHERE seq = ?",
                (record["id"], entry_digest(body), head, body.decode(), seq),
            )
        )
    altered(path, *changes)


def verified(path: Path, checkpoint: Checkpoint | None = None) -> ChainReport:
    with AuditReader(path) as reader:
        return reader.verify(checkpoint)


def edit(path: Path, k: int) -> None:
    altered(path, f"UPDATE entries SET body = replace(body, 'SKU', 'XYZ') WHERE seq = {k}")


def edit_with_digest(path: Path, k: int) -> None:
    with AuditReader(path) as reader:
        record = [row.record for row in reader][k - 1]
    body = canonical(seal(record | {"action": -1.0}))
    altered(
        path,
        (
            "UPDATE entries SET body = ?, digest = ?, id = ? WHERE seq = ?",
            (body.decode(), entry_digest(body), loads(body)["id"], k),
        ),
    )


def delete(path: Path, k: int) -> None:
    altered(path, f"DELETE FROM entries WHERE seq = {k}")


def delete_and_renumber(path: Path, k: int) -> None:
    altered(path, f"DELETE FROM entries WHERE seq = {k}", f"UPDATE entries SET seq = seq - 1 WHERE seq > {k}")


def swap(path: Path, k: int) -> None:
    altered(
        path,
        f"UPDATE entries SET seq = -1 WHERE seq = {k}",
        f"UPDATE entries SET seq = {k} WHERE seq = {k + 2}",
        f"UPDATE entries SET seq = {k + 2} WHERE seq = -1",
    )


def swap_contents(path: Path, k: int) -> None:
    """The records change places, numbers and heads stay."""
    with closing(sqlite3.connect(path)) as raw, raw:
        rows = raw.execute(f"SELECT seq, id, digest, body FROM entries WHERE seq IN ({k}, {k + 2})").fetchall()
    (low, *first), (high, *second) = rows
    put = "UPDATE entries SET id = ?, digest = ?, body = ? WHERE seq = ?"
    altered(path, f"UPDATE entries SET id = 'x' WHERE seq = {k}", (put, (*first, high)), (put, (*second, low)))


def truncate(path: Path, k: int) -> None:
    altered(path, f"DELETE FROM entries WHERE seq >= {k}")


def replace_log(path: Path, k: int) -> None:
    path.unlink()
    fill(path, 20, start=500)


def edit_and_rechain(path: Path, k: int) -> None:
    edit(path, k)
    rechain(path, k)


def delete_and_rechain(path: Path, k: int) -> None:
    delete_and_renumber(path, k)
    rechain(path, k)


def insert_and_rechain(path: Path, k: int) -> None:
    with closing(sqlite3.connect(path)) as raw, raw:
        (last,) = raw.execute("SELECT max(seq) FROM entries").fetchone()
    body = canonical(seal(decision(900))).decode()
    altered(
        path,
        *(f"UPDATE entries SET seq = {n + 1} WHERE seq = {n}" for n in range(last, k - 1, -1)),
        (f"{INSERT} (?, 'x', '', '', ?)", (k, body)),
    )
    rechain(path, k)


SEEN_ALONE = [edit, edit_with_digest, delete, delete_and_renumber, swap, swap_contents]
NEED_A_CHECKPOINT = [truncate, replace_log, edit_and_rechain, delete_and_rechain, insert_and_rechain]
FAULT = {
    edit: "edited",
    edit_with_digest: "unchained",
    delete: "missing",
    delete_and_renumber: "unchained",
    swap: "unchained",
    swap_contents: "unchained",
    truncate: "truncated",
}


@pytest.mark.parametrize("k", [1, 2, 7, 10])
@pytest.mark.parametrize("tamper", [*SEEN_ALONE, *NEED_A_CHECKPOINT])
def test_tampering_is_found_and_the_first_bad_entry_named(
    tmp_path: Path, tamper: Callable[[Path, int], None], k: int
) -> None:
    path = tmp_path / "log.db"
    fill(path, 12)
    with AuditLog(path) as log:
        log.checkpoint().write(tmp_path / "checkpoint.json")
        log.append(*with_blob(12))  # a log goes on after its checkpoint
    checkpoint = Checkpoint.read(tmp_path / "checkpoint.json")
    assert checkpoint.count == 12
    assert verified(path, checkpoint).ok

    tamper(path, k)
    report = verified(path, checkpoint)
    first_bad = 1 if tamper is replace_log else k
    assert not report.ok
    assert report.fault == FAULT.get(tamper, "rechained")
    assert (report.first_bad, report.bad) == (first_bad, (first_bad, first_bad))
    assert f"entry {first_bad}:" in str(report)
    assert report.count == first_bad - 1
    # Alone the chain shows what breaks it, and cannot show the rest.
    assert verified(path).ok == (tamper in NEED_A_CHECKPOINT)


def test_the_bad_entry_is_named_by_its_id_too(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    fill(path, 4)
    edit(path, 3)
    assert verified(path).bad_id == record_id(with_blob(2)[0])


@pytest.mark.parametrize("max_marks", [0, 3])
def test_a_checkpoint_with_few_marks_still_finds_a_recomputed_chain(tmp_path: Path, max_marks: int) -> None:
    path = tmp_path / "log.db"
    fill(path, 12)
    with AuditReader(path) as reader:
        checkpoint = reader.checkpoint(max_marks=max_marks)
    assert len(checkpoint.marks) <= max_marks
    edit_and_rechain(path, 7)
    report = verified(path, checkpoint)
    assert report.fault == "rechained"
    assert report.bad == {0: (1, 12), 3: (5, 8)}[max_marks]
    assert "one of entries" in str(report)
    assert report.bad_id is None


def test_truncation_to_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    fill(path, 3)
    with AuditReader(path) as reader:
        checkpoint = reader.checkpoint()
    altered(path, "DELETE FROM entries")
    report = verified(path, checkpoint)
    assert (report.fault, report.first_bad, report.count, report.head) == ("truncated", 1, 0, GENESIS)


def test_alterations_beside_the_entries(tmp_path: Path) -> None:
    original = tmp_path / "original.db"
    fill(original, 5)
    name = blob_id(encode_array(np.full((2, 3), 2 / 3)))  # entry 3's
    other = encode_array(np.ones((2, 3)))
    cases: list[tuple[str, str, int | None]] = [
        (f"DELETE FROM blobs WHERE id = '{name}'", "blob", 3),
        (f"UPDATE blobs SET data = x'{other.hex()}' WHERE id = '{name}'", "blob", 3),
        (f"UPDATE entries SET id = '{'f' * 64}' WHERE seq = 2", "edited", 2),
        ("UPDATE entries SET head = digest WHERE seq = 4", "unchained", 4),
        ("UPDATE entries SET seq = -5 WHERE seq = 5", "unchained", 1),
        (
            f"{INSERT} (6, 'x', 'y', 'z', CAST(x'22ff22' AS TEXT))",
            "edited",
            6,
        ),
        ("CREATE TABLE more (x)", "schema", None),
        ("CREATE TRIGGER quiet AFTER INSERT ON entries BEGIN SELECT 1; END", "schema", None),
    ]
    for index, (statement, fault, first_bad) in enumerate(cases):
        path = tmp_path / f"{index}.db"
        shutil.copy(original, path)
        altered(path, statement)
        report = verified(path)
        assert (report.fault, report.first_bad) == (fault, first_bad), statement
    path = tmp_path / "trigger.db"
    shutil.copy(original, path)
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("DROP TRIGGER entries_delete")
    assert "entries_delete of its schema is missing" in str(verified(path))
    with pytest.raises(RecordError, match="nothing will be recorded in it"):
        AuditLog(path)


def test_entries_that_were_never_valid_are_found_although_well_chained(tmp_path: Path) -> None:
    record = seal(decision(2))
    bodies = {
        "not canonical": json.dumps(record),
        "no such kind": canonical(seal(decision(2, kind="x"))).decode(),
        "wrong id": canonical(record | {"id": "0" * 64}).decode(),
        "no object": "[]",
        "no JSON": "{",
        "override of nothing": canonical(
            seal(
                {
                    "schema": "s",
                    "kind": "override",
                    "overrides": "f" * 64,
                    "who": "a",
                    "why": "b",
                    "action": 1,
                    "feasible": True,
                }
            )
        ).decode(),
        "infeasible override": canonical(
            seal(
                {
                    "schema": "s",
                    "kind": "override",
                    "overrides": record_id(decision(0)),
                    "who": "a",
                    "why": "b",
                    "action": 1,
                    "feasible": False,
                }
            )
        ).decode(),
    }
    for index, (name, body) in enumerate(bodies.items()):
        path = tmp_path / f"{index}.db"
        with AuditLog(path) as log:
            last = log.append_batch([decision(0), decision(1)])[-1]
        try:
            id = loads(body)["id"]
        except (RecordError, TypeError):
            id = "0" * 64
        digest = entry_digest(body.encode())
        row = (3, id, digest, next_head(last.head, 3, digest, None), body)
        if name in ("no JSON",):  # even the raw file refuses it: its filter columns cannot be computed
            with pytest.raises(sqlite3.OperationalError, match="malformed JSON"):
                altered(path, (f"{INSERT} (?, ?, ?, ?, ?)", row))
            continue
        altered(path, (f"{INSERT} (?, ?, ?, ?, ?)", row))
        report = verified(path)
        assert report.first_bad == 3, name
        assert report.fault == ("edited" if name == "wrong id" else "malformed"), name


def test_an_override_must_come_after_its_decision(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with AuditLog(path) as log:
        log.append_batch([decision(0), decision(1), decision(2)])
    early = {"schema": "s", "kind": "override", "who": "a", "why": "b", "action": 1, "off_grid": False}
    body = canonical(seal(early | {"overrides": record_id(decision(2)), "entry": 3})).decode()
    altered(path, ("UPDATE entries SET body = ? WHERE seq = 2", (body,)))
    rechain(path)
    report = verified(path)
    assert (report.fault, report.first_bad) == ("malformed", 2)
    assert "in the log before it" in str(report)


def test_a_log_is_not_continued_on_an_altered_blob(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    record, blobs = with_blob(0)
    fill(path, 1)
    altered(path, "UPDATE blobs SET data = x'00'")
    with AuditLog(path) as log:
        with pytest.raises(RecordError, match="was altered"):
            log.append(decision(1, trace=record["trace"]), blobs)
        with pytest.raises(RecordError, match="was altered"):
            log.blob(next(iter(blobs)))
        assert log.count() == 1


def test_any_flipped_byte_is_found_or_changes_nothing(tmp_path: Path) -> None:
    original = tmp_path / "original.db"
    fill(original, 6)
    with AuditReader(original) as reader:
        checkpoint = reader.checkpoint()
        rows = list(reader)
        blobs = [reader.blobs_of(row) for row in rows]
    data = original.read_bytes()
    rng = random.Random(5)
    places = {rng.randrange(len(data)) for _ in range(80)}
    for part in [*(row.body for row in rows), *(blob for mine in blobs for blob in mine.values())]:
        places |= {data.index(part) + rng.randrange(len(part)) for _ in range(5)}
    found = 0
    for place in sorted(places):
        changed = bytearray(data)
        changed[place] ^= 1 << rng.randrange(8)
        path = tmp_path / "changed.db"
        path.write_bytes(changed)
        try:
            with AuditReader(path) as reader:
                report = reader.verify(checkpoint)
                if report.ok:
                    assert [(list(reader)), [reader.blobs_of(row) for row in rows]] == [rows, blobs]
                found += not report.ok
        except RecordError:
            found += 1
    assert found >= 50  # five in each record and each blob, unless two fell on one place


# Checkpoints


def test_a_checkpoint_file_is_read_as_written(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    fill(path, 5)
    with AuditReader(path) as reader:
        checkpoint = reader.checkpoint()
    checkpoint.write(tmp_path / "c.json")
    checkpoint.write(tmp_path / "c.json")  # replaces
    assert Checkpoint.read(tmp_path / "c.json") == checkpoint
    assert [count for count, _ in checkpoint.marks] == [1, 2, 3, 4]
    assert not list(tmp_path.glob(".*"))  # no half-written file is left
    assert (tmp_path / "c.json").read_bytes() == canonical(loads((tmp_path / "c.json").read_bytes())) + b"\n"


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    fill(path, 3)
    with AuditReader(path) as reader:
        reader.checkpoint().write(tmp_path / "c.json")
    content = loads((tmp_path / "c.json").read_bytes())
    zeros = "0" * 64
    for change in (
        {"count": 2},
        {"count": -1},
        {"count": True},
        {"count": "3"},
        {"head": zeros},
        {"head": zeros[1:]},
        {"marks": []},
        {"marks": [[2, zeros], [1, zeros]]},
        {"marks": [[3, zeros]]},
        {"marks": [1, 2]},
        {"marks": None},
        {"schema": "ucsearch.checkpoint/2"},
        {"digest": zeros},
        {"more": 1},
    ):
        (tmp_path / "d.json").write_bytes(canonical({**content, **change}))
        with pytest.raises(RecordError, match="checkpoint"):
            Checkpoint.read(tmp_path / "d.json")
    (tmp_path / "d.json").write_bytes((tmp_path / "c.json").read_bytes()[:-5])
    with pytest.raises(RecordError, match="malformed JSON"):
        Checkpoint.read(tmp_path / "d.json")
    with pytest.raises(RecordError, match="cannot be read"):
        Checkpoint.read(tmp_path / "none.json")
    with pytest.raises(RecordError, match="empty log"):
        Checkpoint(0, zeros)


def test_a_checkpoint_is_synced_before_it_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    fsync, replace = os.fsync, os.replace

    def spy_fsync(fd: int) -> None:
        events.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        fsync(fd)

    def spy_replace(source: Path, target: Path) -> None:
        events.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", spy_fsync)
    monkeypatch.setattr(os, "replace", spy_replace)
    Checkpoint(0, GENESIS).write(tmp_path / "c.json")
    assert events == ["file", "rename", "folder"]

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RecordError, match="No space left"):
        Checkpoint(1, "0" * 64).write(tmp_path / "c.json")
    assert Checkpoint.read(tmp_path / "c.json") == Checkpoint(0, GENESIS)
    assert [entry.name for entry in tmp_path.iterdir()] == ["c.json"]
    with pytest.raises(RecordError, match="cannot be written"):
        Checkpoint(0, GENESIS).write(tmp_path / "no" / "c.json")
