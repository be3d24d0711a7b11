"""Whole logs that were forged by somebody who computes every id, digest and head anew."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.kit.entries import altered
from tests.kit.logged import NOON, decide, new_log, tank
from ucsearch.records import AuditLog, AuditReader, Checkpoint, seal
from ucsearch.records.canonical import canonical
from ucsearch.records.entries import ERASURE_SCHEMA, GENESIS, NOTHING, Row, entry_digest, next_head
from ucsearch.records.export import jsonl_line
from ucsearch.verify import Verdict, verify_file

Record = dict[str, Any]
Line = tuple[Record, dict[str, bytes]]
DECISIONS = 4


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Four decisions under two requests, two overrides of the first; and a checkpoint beside it."""
    with new_log(tmp_path) as new:
        for i in range(DECISIONS):
            decide(new, 4.0 * i, series=f"S{i}", request=f"request {i}")
        new.override(1, task=tank, action=8.0, who="A. Operator", why="a promotion")
        new.override(1, task=tank, action=4.0, who="B. Operator", why="a storm")
        new.checkpoint().write(tmp_path / "checkpoint")
        new.settle()
    return tmp_path / "log.db"


def lines_of(log: Path) -> list[Line]:
    with AuditReader(log) as reader:
        return [(row.record, reader.blobs_of(row)) for row in reader]


def write_lines(path: Path, lines: Sequence[Line]) -> Path:
    """Exported lines of these records, in a chain of their own."""
    head, out = GENESIS, []
    for seq, (record, blobs) in enumerate(lines, 1):
        sealed = seal({name: value for name, value in record.items() if name != "id"})
        body = canonical(sealed)
        row = Row(seq, sealed["id"], entry_digest(body), next_head(head, seq, entry_digest(body), NOON), NOON, body)
        out.append(jsonl_line(row, head, blobs))
        head = row.head
    path.write_bytes(b"\n".join(out) + b"\n")
    return path


def verdicts(path: Path, **options: Any) -> list[Verdict]:
    return list(verify_file(path, tank, **options))


def first_bad(path: Path, **options: Any) -> Verdict:
    return next(v for v in verdicts(path, **options) if v.code)


def test_the_lines_as_they_are_are_valid(log: Path, tmp_path: Path) -> None:
    path = write_lines(tmp_path / "lines", lines_of(log))
    assert {v.status for v in verdicts(path, checkpoint=tmp_path / "checkpoint")} == {"valid"}


def test_a_request_is_answered_once(log: Path, tmp_path: Path) -> None:
    lines = lines_of(log)
    record = copy.deepcopy(lines[1][0]) | {"request": lines[0][0]["request"]}
    for again in (lines[0], (record, lines[1][1])):
        found = verdicts(write_lines(tmp_path / "lines", [*lines, again]))
        assert [v.status for v in found] == ["valid"] * len(lines) + ["invalid"]
        assert (found[-1].where, found[-1].message) == (
            "request", "request: answered twice: by entry 1, and by this one, entry 7",
        )  # fmt: skip


def test_a_record_that_stands_in_no_chain_answers_no_request(log: Path, tmp_path: Path) -> None:
    lines = lines_of(log)
    path = write_lines(tmp_path / "lines", lines)
    path.write_bytes(canonical(lines[0][0]) + b"\n" + path.read_bytes())
    assert [v.status for v in verdicts(path)] == ["malformed"] + ["valid"] * len(lines)  # it came without its arrays


def swapped(lines: list[Line]) -> list[Line]:
    return [*lines[:DECISIONS], lines[-1], lines[-2]]


@pytest.mark.parametrize(
    ("forge", "entry"),
    [
        (swapped, 5),
        (lambda lines: [*lines[:DECISIONS], lines[-1]], 5),
        (lambda lines: [lines[1], lines[0], *lines[2:DECISIONS]], 1),
        (lambda lines: [*lines[:2], *lines[3:]], 3),
        (lambda lines: [*lines[:3], lines[2], *lines[3:]], 4),
    ],
    ids=["overrides swapped", "an override dropped", "decisions swapped", "a decision dropped", "a decision twice"],
)
def test_entries_that_were_moved_do_not_pass_the_checkpoint(
    log: Path, tmp_path: Path, forge: Callable[[list[Line]], list[Line]], entry: int
) -> None:
    found = first_bad(write_lines(tmp_path / "lines", forge(lines_of(log))), checkpoint=tmp_path / "checkpoint")
    assert (found.status, found.name) == ("invalid", f"entry {entry}")
    assert "the log was edited and its chain recomputed" in found.message


def test_a_tail_that_is_missing_is_told_in_words(log: Path, tmp_path: Path) -> None:
    altered(log, "DELETE FROM entries WHERE seq > 4")
    found = first_bad(log, checkpoint=tmp_path / "checkpoint")
    assert str(found) == "invalid: entry 5: missing; the log ends at entry 4, and the checkpoint saw 6 entries"


def erasure(row: Row, left: bytes) -> Record:
    """An erasure of one entry."""
    digest = None if left == NOTHING else entry_digest(left)
    entries = [{"entry": row.seq, "digest": row.digest, "left": digest}]
    return {"schema": ERASURE_SCHEMA, "kind": "erasure", "at": NOON, "by": "K. Lund", "why": "?", "entries": entries}


@pytest.mark.parametrize("what", ["another action", "another decision", "nothing"])
def test_an_erasure_after_the_checkpoint_does_not_change_what_it_saw(log: Path, tmp_path: Path, what: str) -> None:
    with AuditLog(log, clock=lambda: NOON) as writer:
        row, other = writer.get(6 if what == "another action" else 2), writer.get(3).record
        if what == "another action":
            left = canonical(row.record | {"who": "erased", "why": "erased", "action": 8, "label": "more"})
        else:
            same = {name: row.record[name] for name in ("id", "series", "request")}
            left = NOTHING if what == "nothing" else canonical(other | same)
        writer.append(erasure(row, left))
        writer.settle()
        writer.checkpoint().write(tmp_path / "later")
    altered(log, ("UPDATE entries SET body = ? WHERE seq = ?", (left.decode(), row.seq)))
    found = verdicts(log, checkpoint=tmp_path / "checkpoint")
    assert [n for n, v in enumerate(found, 1) if v.status != "valid"] == [row.seq, 7]
    assert (found[row.seq - 1].status, found[row.seq - 1].where) == ("weaker", "checkpoint")
    words = "the checkpoint is older than entry 7, which says what was taken away of it"
    assert found[row.seq - 1].message == words
    assert {v.status for v in verdicts(log, checkpoint=tmp_path / "later")} == {"valid"}  # whoever took it saw that


def test_an_erasure_that_stands_in_no_chain_takes_nothing_away(log: Path, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    with AuditReader(log) as reader:
        row = reader.get(2)
        reader.export_jsonl(path)
    lines = path.read_bytes().splitlines()
    lines[1] = canonical({**json.loads(lines[1]), "record": {}})
    path.write_bytes(b"\n".join([*lines, canonical(seal(erasure(row, NOTHING)))]) + b"\n")
    found = first_bad(path)
    assert (found.status, found.where) == ("invalid", "entry 2.digest")
    assert found.message == "its content does not match its digest"


@pytest.mark.parametrize("left", [b"{}", b'{"a":1}'])
def test_what_is_left_is_what_the_erasure_says(log: Path, left: bytes) -> None:
    with AuditLog(log, clock=lambda: NOON) as writer:
        row = writer.get(2)
        writer.append(erasure(row, canonical(row.record | {"request": {}}) if left == NOTHING else NOTHING))
        writer.settle()
    altered(log, ("UPDATE entries SET body = ? WHERE seq = 2", (left.decode(),)))
    found = first_bad(log)
    assert (found.status, found.where) == ("invalid", "entry 2.digest")
    assert found.message == "its content is neither the recorded one nor what entry 7 says is left of it"


def test_lines_that_do_not_follow_from_the_checkpoint(log: Path, tmp_path: Path) -> None:
    """Some lines of an export that begin where the checkpoint ends, after another entry than the one it saw."""
    lines = lines_of(log)
    with AuditReader(log) as reader:
        Checkpoint(4, reader.head_after(4)).write(tmp_path / "four")
    path = write_lines(tmp_path / "lines", [*lines[1:4], lines[0], *lines[4:]])
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[4:]))
    found = first_bad(path, checkpoint=tmp_path / "four")
    assert (found.status, found.where) == ("invalid", "entry 5.previous")
    assert "the log was edited and its chain recomputed" in found.message
