"""Copies of a log that are complete, taken while others write, and put back in place; to and from databases too.

`cp` copies the database without what its write-ahead log still holds; here SQLite's own backup copies one consistent
state. The copy is one file (no write-ahead log beside it), checked entry by entry and against the source before it gets
its name, so a copy that is there is a good one.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ucsearch.errors import RecordError
from ucsearch.records.chain import ChainReport, Checkpoint
from ucsearch.records.files import new_file, sync_folder
from ucsearch.records.log import AuditLog, AuditReader, open_log, open_reader
from ucsearch.records.log_chain import opening
from ucsearch.records.rotation import next_name
from ucsearch.records.sqlite import check_links, connect, dial, explain

__all__ = ["Copied", "CopiedLog", "backup", "backup_database", "copy_log"]

_CHUNK = 500  # entries of one transaction
_BESIDE = ("-wal", "-shm", "-journal")


@dataclass(frozen=True)
class Copied:
    """A copy that was made and checked."""

    path: Path
    count: int
    head: str
    sha256: str  # of the file


def backup(
    log: str | os.PathLike[str], to: str | os.PathLike[str], *, timeout_s: float = 5.0, replace: bool = False,
    checkpoint: Checkpoint | None = None,
) -> Copied:  # fmt: skip
    """Copy a log, with every decision that was acknowledged before the call, to a new file: away from its place, or
    back to it. It must agree with `checkpoint`, if one is given."""
    source, target = Path(log), Path(to)
    _check_target(source, target, replace)
    with AuditReader(source, timeout_s=timeout_s, single=True) as reader:
        if checkpoint is not None:
            _right(reader.verify(checkpoint), f"{source}: not copied")
        before = reader.checkpoint()
        first = opening(reader.store)
        if first is not None and first["previous"] == target.name:
            raise RecordError(
                f"{target}: the copy is of the file after that one; restore it as {next_name(target).name}, and "
                f"name that in store.log where {target.name} is not there"
            )
        part = _copied(source, target, timeout_s)
        try:
            with _still(part, timeout_s) as copy:
                report = copy.verify(before)
                _right(report, f"{source}: the copy is not right")
            # What the copy has beyond that was appended while it was made, to the same chain.
            if reader.head_after(report.count) != report.head:
                raise RecordError(f"{source}: the copy's last entry is not the log's")
            return _placed(part, target, report, replace)
        except BaseException:
            _remove(part)
            raise


def backup_database(address: str, to: str | os.PathLike[str]) -> Copied:
    """Copy a log out of a database to a new file; it gets its name when it is complete."""
    target = Path(to)
    _check_target(None, target, replace=False)
    part = _part(target)
    try:
        copy_log(address, part)
        with AuditLog(part, single=True) as log:
            log.settle()
        with _still(part, 5.0) as copy:
            report = copy.verify()
            _right(report, f"{target}: the copy is not right")
        return _placed(part, target, report, replace=False)
    except BaseException:
        _remove(part)
        raise


def _check_target(source: Path | None, target: Path, replace: bool) -> None:
    for path in filter(None, (source, target)):
        check_links(path)
    if source is not None and target.exists() and source.exists() and target.samefile(source):
        raise RecordError(f"{target}: a log is not copied onto itself")
    if target.exists() and not replace:
        raise RecordError(f"{target}: there is a file already; move it away first")
    for end in _BESIDE:
        if (beside := target.with_name(target.name + end)).exists():
            # SQLite would play it into the copy.
            raise RecordError(f"{beside}: belongs to another log in this place; move it away first")
    if not target.absolute().parent.is_dir():
        raise RecordError(f"{target}: the folder {target.parent} does not exist")


def _copied(source: Path, target: Path, timeout_s: float) -> Path:
    """One consistent state of the source, in a private file beside the target."""
    part = _part(target)
    try:
        os.close(new_file(part, 0o600, like=target if target.exists() else target.absolute().parent))
        with (
            closing(connect(source, timeout_s=timeout_s, read_only=True, max_pages=None)) as old,
            closing(dial(part, "mode=rw", timeout_s)) as new,
        ):
            old.backup(new, pages=-1)  # all pages in one step, under one read lock: writers go on meanwhile
            new.execute("PRAGMA journal_mode = DELETE").fetchall()  # one file, nothing beside it
    except BaseException as error:
        _remove(part)
        if isinstance(error, sqlite3.Error):
            full = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
            raise explain(target if full else source, error, timeout_s) from error
        if isinstance(error, OSError):
            raise RecordError(f"{target}: cannot be written ({error.strerror})") from error
        raise
    return part


def _part(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")


def _remove(part: Path) -> None:
    for end in ("", *_BESIDE):
        part.with_name(part.name + end).unlink(missing_ok=True)


def _still(part: Path, timeout_s: float) -> AuditReader:
    return AuditReader(part, timeout_s=timeout_s, single=True)


def _right(report: ChainReport, text: str) -> None:
    if not report.ok:
        raise RecordError(f"{text}: {report}")


def _placed(part: Path, target: Path, report: ChainReport, replace: bool) -> Copied:
    try:
        with part.open("rb") as file:
            sha = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        if replace:
            os.replace(part, target)
        else:
            os.link(part, target)  # unlike a rename it never takes the place of a file
            part.unlink()
        sync_folder(target.absolute().parent)
    except FileExistsError:
        raise RecordError(f"{target}: there is a file already; move it away first") from None
    except OSError as error:
        raise RecordError(f"{target}: cannot be written ({error.strerror})") from error
    return Copied(target, report.count, report.head, sha)


# -------------------------------------------------------------------- between files and databases


class CopiedLog(NamedTuple):
    """What was copied."""

    entries: int
    head: str
    added: int


def copy_log(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> CopiedLog:
    """Copy a log to an empty one, or on from where a copy ended: numbers, times and heads stay. Both are compared at
    the end. Of a log of several files the one that is named is copied."""
    with open_reader(source, single=True) as old:
        report = old.verify()
        if not report.ok:
            raise RecordError(f"{old.path}: {report}; not copied")
        with open_log(target, single=True) as new:
            copied_before = new.count()
            if copied_before and (
                copied_before > report.count or new.get(copied_before).head != old.get(copied_before).head
            ):
                raise RecordError(f"{new.path}: holds another log; nothing was copied")
            rows = old.rows(copied_before + 1, report.count)
            while part := list(islice(rows, _CHUNK)):
                new.take_over(part, {k: v for row in part for k, v in old.blobs_of(row).items()})
            copy_report = new.verify(old.checkpoint())
            if not copy_report.ok or (copy_report.count, copy_report.head) != (report.count, report.head):
                raise RecordError(f"{new.path}: the copy is not right: {copy_report}")
    return CopiedLog(report.count, report.head, report.count - copied_before)
