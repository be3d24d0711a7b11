"""Copies of the log: `service backup` takes one, `[backup]` takes them on a schedule, `service drill` restores one and
verifies it."""

from __future__ import annotations

import hashlib
import re
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from ucsearch.errors import RecordError
from ucsearch.records.backup import Copied, backup, backup_database
from ucsearch.records.chain import Checkpoint
from ucsearch.records.files import whole_file
from ucsearch.records.log import AuditReader
from ucsearch.records.log_chain import files_of
from ucsearch.service.config import Config, load_config
from ucsearch.service.storage import is_there, open_reader

__all__ = ["backup_log", "copies_in", "delete_older", "drill", "name_at", "taken_at"]

_TIME = "%Y%m%dT%H%M%SZ"
_NAMED = re.compile(r"(\d{8}T\d{6}Z)\.db")


def name_at(now: datetime) -> str:
    """The name of a copy that is taken at this time."""
    return f"{now.astimezone(UTC):{_TIME}}.db"


def taken_at(copy: Path) -> datetime:
    """When a copy was taken, by its name."""
    return datetime.strptime(copy.stem, _TIME).replace(tzinfo=UTC)


def copies_in(folder: Path) -> list[Path]:
    """Whole copies of a folder, the oldest first; one without its checkpoint is not finished."""
    if not folder.is_dir():
        return []
    names = sorted(path.name for path in folder.iterdir() if _NAMED.fullmatch(path.name))
    return [folder / name for name in names if (folder / f"{name}.checkpoint").exists()]


def delete_older(folder: Path, keep: int) -> None:
    """Delete all copies but the newest, with what lies beside them."""
    for copy in copies_in(folder)[:-keep]:
        for path in sorted(folder.glob(f"{copy.stem}.*"), key=lambda path: path.suffix != ".checkpoint"):
            path.unlink()  # the checkpoint first: without it a copy is none


def backup_log(folder: str | Path, to: str | Path, *, store: str | None = None) -> list[str]:
    """A copy of the log in one file, its checkpoint in another and its SHA-256 in a third; of a log that was rotated,
    the same for every earlier file that is still there. What was done, in lines."""
    config, place = load_config(folder, store=store)
    target = Path(to)
    if config.store.is_postgres:
        return _describe(backup_database(config.store.log, target), "")
    # What is answered while this works may be in a file after these; what was answered before is not.
    *before, newest = files_of(place / config.store.log)
    older = [(path, target.with_name(f"{target.stem}.{path.name}")) for path in reversed(before)]
    for _, copy in older:
        if copy.exists():
            raise RecordError(f"{copy}: there is a file already; move it away first")
    out = []
    for path, copy in [*older, (newest, target)]:
        out += _describe(backup(path, copy), path.name if older else "")
    return out


def _describe(copied: Copied, name: str) -> list[str]:
    beside = copied.path.with_name(copied.path.name + ".checkpoint")
    sums = copied.path.with_name(copied.path.name + ".sha256")
    with whole_file(sums) as sum_file:
        sum_file.write(f"{copied.sha256}  {copied.path.name}\n".encode())
    Checkpoint(copied.count, copied.head).write(beside)
    restored = f"; to be restored as {name}" if name else ""
    return [
        f"{copied.path}: {copied.count} entries, head {copied.head}{restored}",
        f"{beside}: its checkpoint",
        f"{sums}: {copied.sha256}",
    ]


def drill(folder: str | Path, copy: str | Path | None = None, *, store: str | None = None) -> Iterator[str]:
    """Restore the newest copy, or this one, into a folder of its own that is thrown away, and check it as a service
    would; what was found, in lines. Raises where the copy would not do."""
    started = time.monotonic()
    config, place = load_config(folder, store=store)
    source = Path(copy) if copy is not None else _newest_copy(config, place)
    beside, sums = (source.with_name(source.name + end) for end in (".checkpoint", ".sha256"))
    with source.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != sums.read_text(encoding="utf-8").split()[0]:
        raise RecordError(f"{source}: its SHA-256 is not the one of {sums.name}")
    yield f"{source}: its SHA-256 is right"
    mark = Checkpoint.read(beside)
    with tempfile.TemporaryDirectory(prefix="ucsearch-drill-") as name:
        restored = Path(name) / "decisions.db"
        copied = backup(source, restored, checkpoint=mark)
        yield f"restored and verified: {copied.count} entries, head {copied.head}"
        yield _compare_with_log(config, place, mark)
        with AuditReader(restored) as reader:
            yield _verify_sample(reader)
    yield f"done in {time.monotonic() - started:.0f} s"


def _newest_copy(config: Config, place: Path) -> Path:
    copies = copies_in(place / config.backup.folder) if config.backup.folder else []
    if not copies:
        raise RecordError("no copy to restore; name one, or set backup.folder in service.toml")
    return copies[-1]


def _compare_with_log(config: Config, place: Path, mark: Checkpoint) -> str:
    """Whether the log as it is now goes on from the copy."""
    if not is_there(config.store, place):
        return "there is no log here to compare it with"
    with open_reader(config.store, place) as reader:
        count = reader.count()
        if count >= mark.count and reader.head_after(mark.count) != mark.head:
            raise RecordError(f"the log's entry {mark.count} is not the copy's last one")
    return (
        f"the log here goes on from it with {count - mark.count} entries"
        if count >= mark.count
        else (f"the log here has {mark.count - count} entries less: it is another file, or has lost its end")
    )


_SAMPLE = 20


def _verify_sample(reader: AuditReader) -> str:
    """The newest decisions derived again, with tasks of this package."""
    from ucsearch.verify import NoTask, verify_record

    rows = reader.list(kind="decision", newest_first=True, limit=_SAMPLE)
    valid = skipped = 0
    for row in rows:
        try:
            verdict = verify_record(row.body, reader.blobs_of(row), None)
        except NoTask:
            skipped += 1
            continue
        if verdict.status != "valid":
            raise RecordError(f"entry {row.seq} of the copy: {verdict.status}, {verdict.message}")
        valid += 1
    more = f"; {skipped} have tasks of their own" if skipped else ""
    return f"of its newest decisions {valid} were derived again and are valid{more}"
