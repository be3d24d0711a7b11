"""Exit codes of all commands, and a progress bar on stderr.

`ucsearch verify` has the verifier's own codes (ucsearch.verify shares no code with us)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = [
    "NEEDS_A_PERSON",
    "STOPPED",
    "STRICT",
    "UNUSABLE",
    "rich_bar",
    "told_or_shown",
]


NEEDS_A_PERSON = 1  # it ran, and the answer is no or not all: altered, not allowed, left out, on hold, failed
UNUSABLE = 2  # nothing was done: settings, files or names that cannot be used
STRICT = 3  # `--strict` refused what would have been left out
STOPPED = 130  # by the user; a shell's 128 + SIGINT


_SHORT_S = 5.0  # who waits less than this needs no telling


@contextmanager
def rich_bar(first: str = "preparing") -> Iterator[Callable[[str, int, int], None] | None]:
    """Called with what is done, how much of it and of how much; nothing where stderr is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns: tuple[Any, ...] = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        row = bar.add_task(first, total=None)
        yield lambda what, done, total: bar.update(row, description=what, completed=done, total=total)


@contextmanager
def told_or_shown() -> Iterator[Callable[[str, int, int], None]]:
    """A bar, or, where stderr is no terminal, a line for every tenth of what is done, once it takes its time."""
    told: set[tuple[str, int]] = set()
    began = time.monotonic()

    def tell(what: str, done: int, total: int) -> None:
        tenth = (what, 10 * done // max(1, total))
        if tenth not in told and time.monotonic() - began > _SHORT_S:
            told.add(tenth)
            print(f"{what}: {done} of {total}", file=sys.stderr, flush=True)

    with rich_bar() as bar:
        yield tell if bar is None else bar
