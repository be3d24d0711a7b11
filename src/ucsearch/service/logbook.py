"""The log as a whole: how far it has come, the files it has, and whether every entry of all of them is right."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from ucsearch.records.reader import AuditReader
from ucsearch.records.rotation import check_files
from ucsearch.service import reads
from ucsearch.service.core import Service

__all__ = ["LogVerified", "log_view", "verify_all"]


@dataclass(frozen=True)
class LogVerified:
    """What was found; `where` is the file it was found in."""

    ok: bool
    count: int  # entries, of all files
    files: int
    where: str = ""
    message: str = ""


async def log_view(service: Service) -> reads.LogView:
    """As the service knows it, with the files that are still there, from the oldest to the newest."""
    found = await service.read(reads.log_view, *service.checkpoint_state())
    return dataclasses.replace(found, files=await service.read(_files, service))


def _files(newest: AuditReader, service: Service) -> tuple[reads.FileView, ...]:
    with ExitStack() as stack:
        older = [stack.enter_context(reader) for reader in service.earlier_files()]
        return tuple(_file(reader, service) for reader in (*reversed(older), newest))


def _file(reader: AuditReader, service: Service) -> reads.FileView:
    end = reader.checkpoint(max_marks=0)
    if service.config.store.is_postgres:
        return reads.FileView("PostgreSQL", end.count, end.head, None)
    path = Path(reader.path)
    return reads.FileView(path.name, end.count, end.head, path.stat().st_size)


def verify_all(newest: AuditReader, service: Service) -> LogVerified:
    """Every entry of every file, and that each file follows the one before."""
    with ExitStack() as stack:
        older = [stack.enter_context(reader) for reader in service.earlier_files()]
        count = 0
        for reader in (*reversed(older), newest):
            report = reader.verify()
            if not report.ok:
                return LogVerified(False, count, 1 + len(older), _file(reader, service).name, report.message)
            count += report.count
    wrong = check_files(service.folder / service.config.store.log) if older else ""
    return LogVerified(not wrong, count, 1 + len(older), "between two files" if wrong else "", wrong)
