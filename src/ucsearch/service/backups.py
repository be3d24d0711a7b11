"""`service backup`: copies of all that was answered, each verified, with what shows later that it is whole."""

from __future__ import annotations

from pathlib import Path

from ucsearch.errors import RecordError
from ucsearch.records.backup import Copied, backup, backup_database
from ucsearch.records.chain import Checkpoint
from ucsearch.records.files import whole_file
from ucsearch.records.rotation import earlier_files, newest_file
from ucsearch.service.config import load_config

__all__ = ["backup_log"]


def backup_log(folder: str | Path, to: str | Path, *, store: str | None = None) -> list[str]:
    """A copy of the log in one file, its checkpoint in another and its SHA-256 in a third; of a log that was rotated,
    the same for every earlier file that is still there. What was done, in lines."""
    config, place = load_config(folder, store=store)
    target = Path(to)
    if config.store.is_postgres:
        return _told(backup_database(config.store.log, target), "")
    newest = newest_file(place / config.store.log)
    # What is answered while this works may be in a file after these; what was answered before is not.
    older = [(path, target.with_name(f"{target.stem}.{path.name}")) for path in earlier_files(newest)]
    for _, copy in older:
        if copy.exists():
            raise RecordError(f"{copy}: there is a file already; move it away first")
    out = []
    for path, copy in [(newest, target), *older]:
        out += _told(backup(path, copy), path.name if older else "")
    return out


def _told(made: Copied, name: str) -> list[str]:
    beside = made.path.with_name(made.path.name + ".checkpoint")
    Checkpoint(made.count, made.head).write(beside)
    sums = made.path.with_name(made.path.name + ".sha256")
    with whole_file(sums) as sum_file:
        sum_file.write(f"{made.sha256}  {made.path.name}\n".encode())
    restored = f"; to be restored as {name}" if name else ""
    return [
        f"{made.path}: {made.count} entries, head {made.head}{restored}",
        f"{beside}: its checkpoint",
        f"{sums}: {made.sha256}",
    ]
