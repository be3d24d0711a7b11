"""Logs by the place they are in: a file, or a database; and copies from one to the other."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from itertools import islice
from typing import NamedTuple

from ucsearch.errors import RecordError
from ucsearch.records.log import AuditLog
from ucsearch.records.postgres import PostgresStore, is_postgres
from ucsearch.records.reader import AuditReader

__all__ = ["CopiedLog", "copy_log", "open_log", "open_reader"]

_CHUNK = 500


def open_log(
    place: str | os.PathLike[str], *, clock: Callable[[], str | datetime] | None = None, timeout_s: float = 5.0,
    max_pages: int | None = None, alone: bool = False, single: bool = False,
) -> AuditLog:  # fmt: skip
    """A log to write to, made where there is none. `alone`: no second service may write to a database. `single`: of a
    log of several files this one alone."""
    if is_postgres(place):
        store = PostgresStore(str(place), timeout_s=timeout_s, read_only=False, alone=alone)
        return AuditLog.of(store, clock=clock)
    return AuditLog(place, clock=clock, timeout_s=timeout_s, max_pages=max_pages, single=single)


def open_reader(place: str | os.PathLike[str], *, timeout_s: float = 5.0, single: bool = False) -> AuditReader:
    if is_postgres(place):
        return AuditReader.of(PostgresStore(str(place), timeout_s=timeout_s))
    return AuditReader(place, timeout_s=timeout_s, single=single)


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
            begun = new.count()
            if begun and (begun > report.count or new.get(begun).head != old.get(begun).head):
                raise RecordError(f"{new.path}: holds another log; nothing was copied")
            rows = old.rows(begun + 1, report.count)
            while part := list(islice(rows, _CHUNK)):
                new.take_over(part, {k: v for row in part for k, v in old.blobs_of(row).items()})
            made = new.verify(old.checkpoint())
            if not made.ok or (made.count, made.head) != (report.count, report.head):
                raise RecordError(f"{new.path}: the copy is not right: {made}")
    return CopiedLog(report.count, report.head, report.count - begun)
