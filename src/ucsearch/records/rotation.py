"""`ucsearch log rotate`: close a log's newest file and begin the next one (`log_chain.py` reads them as one)."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from ucsearch.errors import RecordError
from ucsearch.records.files import check_owner, new_file, sync_folder
from ucsearch.records.log import AuditLog, AuditReader
from ucsearch.records.log_chain import newest_file, opening
from ucsearch.records.merkle import MerkleTree
from ucsearch.records.sqlite import SqliteStore, check_links, dial, explain, format_of

__all__ = ["ROTATION_SCHEMA", "Rotated", "next_name", "rotate"]

ROTATION_SCHEMA = "ucsearch.rotation/1"
_NUMBERED = re.compile(r"(.+)\.([0-9]{4})")

Carry = Callable[[AuditReader], Sequence[Mapping[str, Any]]]


class Rotated(NamedTuple):
    """What was done."""

    old: Path
    new: Path
    entries: int  # up to the old file's last one, included
    head: str
    carried: int  # entries of the new file


def rotate(
    path: str | os.PathLike[str], *, carry: Carry, at: datetime, by: str, why: str, timeout_s: float = 5.0
) -> Rotated:
    """Close a log's newest file and begin the next one, while others may write: whoever comes after is sent on.

    `carry` says what the new file begins with, so that it can be followed without the files before it. The new file is
    complete before the old one is closed; a crash in between leaves the log as it was.
    """
    old = newest_file(Path(path), timeout_s)
    check_owner(old)
    new = next_name(old)
    header = {"schema": ROTATION_SCHEMA, "kind": "rotation", "at": at.isoformat(), "by": by, "why": why}
    results: list[Rotated] = []
    with AuditReader(old, timeout_s=timeout_s, single=True) as reader:
        start = opening(reader.store)
        tree = MerkleTree() if start is None else MerkleTree.resumed(start["count"], start["tree"])
        count_before = reader.count()
        for _, head_before in reader.store.heads(count_before):  # most of them now, while others may write
            tree.add(bytes.fromhex(head_before))

    def build(count: int, head: str) -> None:
        if not _is_left_over(new):
            raise RecordError(f"{new}: there is a file already that holds entries of its own; move it away first")
        _remove(new)
        with AuditReader(old, timeout_s=timeout_s, single=True) as reader:
            for row in reader.rows(count_before + 1):
                tree.add(bytes.fromhex(row.head))
            tree.add(bytes.fromhex(head))
            pins = {"previous": old.name, "count": count, "head": head, "tree": tree.peaks}
            records = [{**header, "event": "opened", **pins}, *carry(reader)]
        # As the old one: who writes to that must be able to write to this.
        os.close(new_file(new, 0o600, like=old))
        new.chmod(stat.S_IMODE(old.stat().st_mode) & 0o666)
        # Synced by the commit.
        with AuditLog(new, timeout_s=timeout_s, single=True) as log:
            log.append_batch(records)
        sync_folder(new.absolute().parent)
        results.append(Rotated(old, new, count, head, len(records)))

    with AuditLog(old, timeout_s=timeout_s, single=True) as log:
        log.append_last({**header, "event": "closed", "next": new.name}, build)
    return results[0]


def next_name(path: Path) -> Path:
    """What the file after this one is called."""
    match = _NUMBERED.fullmatch(path.stem)
    stem, number = (match[1], int(match[2])) if match else (path.stem, 1)
    return path.with_name(f"{stem}.{number + 1:04d}{path.suffix}")


def _is_left_over(path: Path) -> bool:
    """Whether there is nothing, or what a rotation made before it was cut off: nobody was sent there, and all it holds
    was carried over. After an older copy of a log was restored, the file may be the one with the newer decisions."""
    check_links(path)
    if not path.exists():
        return True
    with closing(dial(path, "mode=rw", 5.0)) as connection:  # it may have to be recovered first
        try:
            if format_of(connection) == "empty":
                return True
        except sqlite3.Error as error:
            raise RecordError(f"{explain(path, error, 5.0)}; move it away first, if it is none of this log") from error
    with closing(SqliteStore(path)) as store:
        for place, row in enumerate(store.rows(-(2**63), 2**63 - 1, 2**31)):
            record = row.record
            opened = place == 0 and (record.get("kind"), record.get("event")) == ("rotation", "opened")
            carried = record.get("event") == "carried" if record.get("kind") == "monitor" else "carried" in record
            if not (opened or carried):
                return False
    return True


def _remove(path: Path) -> None:
    """Delete a log's file and what SQLite keeps beside it."""
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        with suppress(FileNotFoundError):
            path.with_name(name).unlink()
