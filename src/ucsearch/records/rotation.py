"""A log that goes on in another file. The old file's last entry names the next one; the next one's first entry pins
number, head and root of the old one. Nothing is renamed, so that who has the old file open learns it at his next write.

    log/decisions.db          ... entry 4711: closed, next decisions.0002.db
    log/decisions.0002.db     entry 1: opened, after 4711 entries of decisions.db, head, root; then what is carried over
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from ucsearch.errors import RecordError
from ucsearch.records.audit import AuditLog
from ucsearch.records.files import check_owner, new_file, present, sync_folder
from ucsearch.records.notes import Tree
from ucsearch.records.reader import AuditReader
from ucsearch.records.store import check_links, dial, explain, format_of

__all__ = [
    "ROTATION_SCHEMA",
    "Rotated",
    "check_files",
    "earlier_files",
    "files_of",
    "newest_file",
    "next_name",
    "opening",
    "rotate",
]

ROTATION_SCHEMA = "ucsearch.rotation/1"
_NUMBERED = re.compile(r"(.+)\.([0-9]{4})")
_MOST = 10_000  # files that are followed

Carry = Callable[[AuditReader], Sequence[Mapping[str, Any]]]


class Rotated(NamedTuple):
    """What was done."""

    old: Path
    new: Path
    entries: int  # of the old file, its last one included
    head: str
    carried: int  # entries of the new file


def rotate(
    path: str | os.PathLike[str], *, carry: Carry, at: datetime, by: str, why: str, timeout_s: float = 5.0
) -> Rotated:
    """Close a log's newest file and begin the next one, while others may write: whoever comes after is sent on.

    `carry` says what the new file begins with, from the old one. The new file is complete before the old one is closed;
    a crash in between leaves the log as it was.
    """
    old = newest_file(path)
    check_owner(old)
    new = next_name(old)
    said = {"schema": ROTATION_SCHEMA, "kind": "rotation", "at": at.isoformat(), "by": by, "why": why}
    made: list[Rotated] = []

    def build(count: int, head: str) -> None:
        with AuditReader(old, timeout_s=timeout_s) as reader:
            if not _is_left_over(new, reader):
                raise RecordError(f"{new}: there is a file already that holds entries of its own; move it away first")
            _remove(new)
            tree = _tree(reader)
            tree.add(bytes.fromhex(head))
            pins = {"previous": old.name, "count": count, "head": head, "root": tree.root().hex()}
            first = {**said, "event": "opened", **pins}
            records = [first, *carry(reader)]
        # As the old one: who writes to that must be able to write to this.
        os.close(new_file(new, 0o600, like=old))
        new.chmod(stat.S_IMODE(old.stat().st_mode) & 0o666)
        # Synced by the commit; with the same clock, so that times do not jump.
        with AuditLog(new, timeout_s=timeout_s) as log:
            log.append_batch(records)
        sync_folder(new.absolute().parent)
        made.append(Rotated(old, new, count, head, len(records)))

    with AuditLog(old, timeout_s=timeout_s) as log:
        log.append_last({**said, "event": "closed", "next": new.name}, build)
    return made[0]


def next_name(path: Path) -> Path:
    found = _NUMBERED.fullmatch(path.stem)
    stem, number = (found[1], int(found[2])) if found else (path.stem, 1)
    return path.with_name(f"{stem}.{number + 1:04d}{path.suffix}")


def _is_left_over(path: Path, old: AuditReader) -> bool:
    """Whether there is nothing, or what a rotation made before it was cut off: nobody was sent there, and all it holds
    was carried over. After an older copy of `old` was restored, the file may be the one with the newer decisions."""
    check_links(path)
    if not path.exists():
        return True
    with closing(dial(path, "mode=rw", 5.0)) as connection:  # it may have to be recovered first
        try:
            if format_of(connection) == "empty":
                return True
        except sqlite3.Error as error:
            raise RecordError(f"{explain(path, error, 5.0)}; move it away first, if it is none of this log") from error
    with AuditReader(path) as found:
        for row in found:
            record = row.record
            kind, event = record.get("kind"), record.get("event")
            if kind == "control":
                if not old.has_all([row.id]):
                    return False
            elif (row.seq, kind, event) != (1, "rotation", "opened") and (kind, event) != ("monitor", "carried"):
                return False
    return True


def _remove(path: Path) -> None:
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        with suppress(FileNotFoundError):
            path.with_name(name).unlink()


def _tree(reader: AuditReader) -> Tree:
    tree = Tree()
    for row in reader:
        tree.add(bytes.fromhex(row.head))
    return tree


def newest_file(path: str | os.PathLike[str]) -> Path:
    """Where a log is written to now."""
    at = Path(path)
    for _ in range(_MOST):
        if not present(at):
            return at
        with AuditReader(at) as reader:
            following = reader.closed_by()
        if not following:
            return at
        if (beside := at.with_name(following)) == at or not present(beside):
            raise RecordError(f"{at}: the log goes on in {following}, which is not there")
        at = beside
    raise RecordError(f"{path}: more than {_MOST} files follow each other")


def opening(reader: AuditReader) -> dict[str, Any] | None:
    """What a file says about the one before it; None for the first of a log."""
    if not reader.count():
        return None
    record = reader.get(1).record
    return record if record.get("kind") == "rotation" and record.get("event") == "opened" else None


def earlier_files(path: str | os.PathLike[str]) -> list[Path]:
    """Files before this one that are still beside it, the last one first."""
    out: list[Path] = []
    at = Path(path)
    while len(out) < _MOST:
        with AuditReader(at) as reader:
            pinned = opening(reader)
        if pinned is None:
            return out
        at = at.with_name(str(pinned["previous"]))
        if not present(at) or at in out:
            return out
        out.append(at)
    return out


def files_of(path: str | os.PathLike[str]) -> list[Path]:
    """All files of a log that are there, from the oldest to the newest."""
    last = newest_file(path)
    return [*reversed(earlier_files(last)), last]


def check_files(path: str | os.PathLike[str]) -> str:
    """What is wrong between the files of a log; empty if nothing is. Entries within each are `verify`'s."""
    files = files_of(path)
    for old, new in pairwise(files):
        with AuditReader(old) as before, AuditReader(new) as after:
            pinned = opening(after)
            tree = _tree(before)
            seen = (before.count(), before.checkpoint(max_marks=0).head, tree.root().hex())
            wanted = None if pinned is None else (pinned["count"], pinned["head"], pinned["root"])
            if seen != wanted:
                return f"{new.name} does not follow {old.name}: it pins {wanted}, there are {seen}"
    return ""
