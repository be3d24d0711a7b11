"""Several files of a log are one log: every question has the answer that one file would give."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.kit.entries import altered, decision, with_blob
from ucsearch.errors import RecordError
from ucsearch.records import AuditLog, AuditReader, Request, RequestTaken
from ucsearch.records.entries import LogClosed
from ucsearch.records.log_chain import files_of, newest_file
from ucsearch.records.rotation import rotate
from ucsearch.verify.chain import follow
from ucsearch.verify.read import LogSources

AT = datetime(2026, 3, 9, tzinfo=UTC)
FILES = 3
EACH = 4  # entries of a file, besides those of the rotation


def turn(path: Path) -> Path:
    return rotate(path, carry=lambda reader: [], at=AT, by="a test", why="a test").new


def entry(n: int) -> tuple[dict[str, Any], dict[str, bytes]]:
    record, blobs = with_blob(n)
    return {**record, "request": Request.named(f"run {n // 2}").at(n % 2).content(), "plan": "p"}, blobs


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The first file of a log of three; numbers go on from file to file."""
    path = tmp_path / "log.db"
    with AuditLog(path) as log:
        for n in range(FILES * EACH):
            if n and n % EACH == 0:
                turn(path)
            log.append(*entry(n))
    return path


def test_numbers_heads_and_names_go_on(place: Path) -> None:
    files = [place, place.with_name("log.0002.db"), place.with_name("log.0003.db")]
    for path in files:  # whichever is named
        assert files_of(path) == files
        assert newest_file(path) == files[-1]
        with AuditReader(path) as log:
            assert (log.files, log.path, log.first()) == (files, files[-1], 1)
            rows = list(log)
            assert [row.seq for row in rows] == list(range(1, FILES * EACH + 2 * (FILES - 1) + 1))
            assert log.count() == len(rows)
            assert [log.file_of(row).name for row in rows] == (
                ["log.db"] * (EACH + 1) + ["log.0002.db"] * (EACH + 2) + ["log.0003.db"] * (EACH + 1)
            )
            assert log.verify(log.checkpoint()).ok
            opened = [row for row in rows if row.record.get("event") == "opened"]
            assert [(r.record["count"], r.record["head"]) for r in opened] == [(5, rows[4].head), (11, rows[10].head)]
    with AuditReader(files[1], single=True) as log:
        assert (log.first(), log.count(), log.files) == (6, 11, [files[1]])
        assert log.verify().ok
        assert log.head_after(5) == rows[4].head
        assert log.head_after(4) == ""


def answers(log: AuditReader) -> list[Any]:
    """What a log says, without what is said about files."""
    ids = [row.id for row in log.list(kind="decision", limit=100)]
    keys = [Request.named(f"run {n}").key for n in (0, 2, 5, 9)]
    ask: list[Callable[[], Any]] = [
        lambda: [(log.get(i).id, log.get(i[:12]).id) for i in ids],
        lambda: [log.find_request(Request.named(f"run {n}").key)[0].record["series"] for n in range(6)],
        lambda: [r.id for r in log.find_request(Request.named("run 3").key, 1)],
        lambda: {k: [r.id for r in v] for k, v in log.find_requests(keys).items()},
        lambda: [r.id for r in log.list(kind="decision", limit=5, offset=2)],
        lambda: [r.id for r in log.list(kind="decision", limit=7, newest_first=True)],
        lambda: [r.id for r in log.list(outcome="HOLD", newest_first=True)],
        lambda: [r.id for r in log.list(series="SKU-003")],
        lambda: [r.id for r in log.list(plan="p", kind=("decision", "refusal"), limit=3, offset=9)],
        lambda: [(row.id if row else None) for row in (log.newest(f"SKU-{n:03d}") for n in range(8))],
        lambda: log.has_all(ids) and not log.has_all([*ids, "0" * 64]),
        lambda: [sorted(log.blobs_of(log.get(i))) for i in ids],
        lambda: [e.action for e in log.effective([log.get(i) for i in ids]).values()],
    ]  # fmt: skip
    return [one() for one in ask]


def test_what_is_asked_has_the_answer_of_one_file(place: Path, tmp_path: Path) -> None:
    with AuditLog(tmp_path / "one.db") as one, AuditReader(place) as log:
        for n in range(FILES * EACH):
            one.append(*entry(n))
        assert answers(log) == answers(one)
        before = log.get(log.list(series="SKU-003")[1].id).seq
        found = log.list(kind="decision", before=before, newest_first=True, limit=3)
        assert [row.seq for row in found] == sorted((row.seq for row in found), reverse=True)
        assert found[0].seq < before


def test_a_repeated_request_finds_its_entry_in_an_older_file(place: Path) -> None:
    with AuditLog(place) as log:
        count = log.count()
        for n in range(FILES * EACH):
            (found,) = [row for row in log if row.record.get("request", {}) == entry(n)[0]["request"]]
            again = log.append(*entry(n))
            assert (again.repeated, again.seq, again.head) == (True, found.seq, found.head)
        other = {**decision(99), "request": entry(0)[0]["request"]}
        with pytest.raises(RequestTaken):
            log.append(other)
        assert log.count() == count


def test_outcomes_and_overrides_are_of_decisions_in_older_files(place: Path) -> None:
    with AuditLog(place) as log:
        first = log.get(1)
        log.append(
            {"schema": "ucsearch.outcome/1", "kind": "outcome", "decision": first.id, "entry": 1, "step": 1, "value": 3}
        )
        assert [row.record["entry"] for row in log.reports(first.id)] == [1]
        with pytest.raises(RecordError, match="no decision"):
            log.append({"schema": "ucsearch.outcome/1", "kind": "outcome", "decision": first.id, "entry": 2, "step": 1})
        assert log.verify().ok


def test_who_has_the_log_open_is_taken_along(place: Path) -> None:
    with (
        AuditLog(place) as log,
        AuditReader(place) as reader,
        AuditLog(place.with_name("log.0003.db"), single=True) as alone,
    ):
        new = turn(place)
        with pytest.raises(LogClosed, match=r"log\.0004\.db"):
            alone.append(decision(50))
        entry = log.append(decision(51))
        assert (log.path, reader.path) == (new, new)
        assert reader.get(entry.seq).id == entry.id
        assert reader.count() == entry.seq


def test_older_files_may_be_moved_away(place: Path, tmp_path: Path) -> None:
    with AuditReader(place) as log:
        whole, head, root = log.checkpoint(), log.head_after(5), log.root()
    archive = tmp_path / "archive"
    archive.mkdir()
    for name in ("log.db", "log.0002.db"):
        for end in ("", "-wal", "-shm"):
            if place.with_name(name + end).exists():
                shutil.move(place.with_name(name + end), archive / (name + end))
    with AuditLog(place.with_name("log.0003.db")) as log:
        assert (log.first(), log.count()) == (12, 16)
        assert log.verify(whole).ok  # of what is there, all that the checkpoint knows
        assert log.root() == root
        assert log.append(decision(60)).seq == 17
        with pytest.raises(RecordError, match="no entry 3"):
            log.get(3)
        assert log.list(series="SKU-000") == ()
    with AuditReader(archive / "log.db") as log:  # an archive is read as far as it goes
        assert (log.count(), log.head_after(5)) == (11, head)
        assert log.verify().ok
    with pytest.raises(RecordError, match=r"continues in log\.0003\.db, which is not there"):
        AuditLog(archive / "log.db")


def test_a_file_that_does_not_follow_is_found(place: Path) -> None:
    altered(place, "UPDATE entries SET body = replace(body, 'RELEASED', 'FALLBACK') WHERE seq = 1")
    with AuditReader(place) as log:
        assert (log.verify().fault, log.verify().first_bad) == ("edited", 1)
    second = place.with_name("log.0002.db")
    with AuditReader(second, single=True) as log:
        assert log.verify().ok
    other = place.with_name("other.db")
    with AuditLog(other) as log:
        for n in range(4):
            log.append(decision(n, text="another log"))
    turn(other)
    shutil.copy(other, place)
    with AuditReader(second) as log:
        assert (log.verify().fault, log.verify().first_bad) == ("unchained", 6)


def test_the_verifier_follows_from_file_to_file(place: Path) -> None:
    sources = LogSources(files_of(place))
    links = list(follow((entry for path in sources.paths for entry in sources.entries(path)), None, 0))
    assert [link.entry.seq for link in links] == list(range(1, 17))
    assert [link.first for link in links] == [True] + [False] * 15
    with AuditReader(place) as log:
        assert links[-1].tree is not None
        assert links[-1].tree.root() == log.root()
    sources.close()
