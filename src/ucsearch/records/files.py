"""Files that are either whole or absent: written beside their place, synced, then renamed into it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ucsearch.errors import RecordError

__all__ = ["sync_folder", "whole_file"]


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A binary file to write; on a clean exit it is durable under `path`, otherwise `path` is as before."""
    target = Path(path)
    # The name only has to be free; it never reaches the content.
    part = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
    try:
        file = part.open("xb")
    except OSError as error:
        raise RecordError(f"{target}: cannot be written ({error.strerror})") from error
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
        sync_folder(target.parent)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise RecordError(f"{target}: cannot be written ({error.strerror})") from error
        raise


def sync_folder(folder: Path) -> None:
    """Make a new or renamed entry of the folder durable (only POSIX systems can and need to)."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
