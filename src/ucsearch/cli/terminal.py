"""What commands share: exit codes, errors as lines, problems of files, progress, tables, times.

Exit codes: 0 done, 1 done and a person is needed, 2 wrong use or input, 3 internal error, 130 stopped by the user.
`ucsearch verify` has the verifier's own codes (ucsearch.verify shares no code with us)."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ucsearch.errors import InputError, UCSearchError

if TYPE_CHECKING:
    from datetime import datetime

    from ucsearch.planner.files.table import Problem
    from ucsearch.planner.settings import Settings

__all__ = [
    "INTERNAL",
    "NEEDS_A_PERSON",
    "SHOWN",
    "STOPPED",
    "UNUSABLE",
    "one_line",
    "print_fallbacks",
    "print_problems",
    "print_table",
    "printable",
    "progress_bar",
    "read_time",
    "reported",
    "rich_bar",
    "told_or_shown",
    "write_problems",
]


NEEDS_A_PERSON = 1  # it ran, and the answer is no or not all: altered, not allowed, left out, on hold, failed
UNUSABLE = 2  # nothing was done: settings, files or names that cannot be used
INTERNAL = 3  # an error of ours
STOPPED = 130  # by the user; a shell's 128 + SIGINT
SHOWN = 20  # problems printed
_SENTENCES = 140  # characters of a line, for tables of sentences
_MANY = 1_000  # steps of work from which on progress is printed in a pipe
_SHORT_S = 5.0  # seconds before progress is printed in a pipe


# -------------------------------------------------------------------- errors and problems


@contextmanager
def reported() -> Iterator[None]:
    """Our errors as lines on stderr and exit code 2; a stop by the user as 130."""
    try:
        yield
    except UCSearchError as error:
        for line in str(error).splitlines() or [""]:
            typer.echo(f"Error: {printable(line)}", err=True)
        raise typer.Exit(UNUSABLE) from error
    except KeyboardInterrupt as error:
        typer.echo("Stopped. The same command continues where it stopped.", err=True)
        raise typer.Exit(STOPPED) from error


def printable(value: object) -> str:
    """Text without characters that could steer a terminal; None is empty."""
    text = "" if value is None else str(value)
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def one_line(error: object) -> str:
    """What an error says in one line, whatever it quotes of a file."""
    return printable(" ".join(str(error).split()))


def print_problems(problems: Sequence[Problem], more: int = 0, path: Path | None = None) -> None:
    """The first problems on stderr, what is wrong with many series alike in one line; all of them go to `path`."""
    told = _grouped(problems)
    for problem, series in told[:SHOWN]:
        many = f", and {len(series) - 1:,} more series" if len(series) > 1 else ""
        one = replace(problem, series=f"{series[0]}{many}")
        typer.echo(f"{'Refused' if problem.refuses else 'Note'}: {one}", err=True)
    hidden = more + sum(len(series) for _, series in told[SHOWN:])
    if hidden > 0:
        where = f"; all are in {path}" if path else "; [files] problems names a file for all of them"
        typer.echo(f"and {hidden} more{where}", err=True)
    if path is not None:
        write_problems(problems, path)


def _grouped(problems: Sequence[Problem]) -> list[tuple[Problem, list[str]]]:
    """Problems that have no place of their own and read alike, with their series; others alone."""
    groups: dict[object, tuple[Problem, list[str]]] = {}
    for i, problem in enumerate(problems):
        key = i if problem.place else (problem.file, problem.column, problem.text, problem.refuses)
        groups.setdefault(key, (problem, []))[1].append(problem.series)
    return list(groups.values())


def write_problems(problems: Sequence[Problem], path: Path) -> None:
    from ucsearch.planner.files.table import write_table

    names = ("file", "place", "column", "series", "text")
    rows = [[getattr(p, name) for name in names] for p in problems]
    write_table(path, dict.fromkeys(names, str), lambda: iter(rows))


def print_fallbacks(share: float, reasons: Mapping[str, int], settings: Settings) -> None:
    """Too many fallbacks: why, and what to change."""
    from ucsearch.planner.decide.rows import fallback_advice

    limit = settings.run.max_fallback_share
    typer.echo(f"{100.0 * share:.1f} % fell back, more than {100.0 * limit:g} % ([run] max_fallback_share):", err=True)
    for line in fallback_advice(reasons, settings):
        typer.echo(f"  {line}", err=True)


# -------------------------------------------------------------------- tables, times


def print_table(
    names: Sequence[str], rows: Sequence[Sequence[object]], caption: str = "", right: Sequence[str] = (), *,
    rules: bool = False,
) -> None:  # fmt: skip
    """A table on stdout; the columns in `right` are aligned to the right. `rules` separate rows of sentences, which are
    folded also where stdout is no terminal."""
    from ucsearch.report.table import table_lines, terminal_width

    cells = [[printable(cell) for cell in row] for row in rows]
    sides = "".join(">" if name in right else "<" for name in names)
    width = terminal_width() or (_SENTENCES if rules else None)
    for line in table_lines([list(names), *cells], sides, width=width, rules=rules):
        typer.echo(line)
    if caption:
        typer.echo(caption)


def read_time(text: str | None, option: str = "--now") -> datetime | None:
    """A time of ISO 8601, UTC where it names no offset; None where nothing is said."""
    if text is None:
        return None
    from datetime import UTC, datetime

    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(option, repr(text), "an ISO 8601 time such as 2024-05-01T06:00:00+00:00") from error
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


# -------------------------------------------------------------------- progress


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar on stderr; in a pipe, a line for every tenth of the work."""
    if not sys.stderr.isatty():
        yield _lines(what)
        return
    with rich_bar(what) as update:
        yield None if update is None else lambda done, total: update(what, done, total)


def _lines(what: str) -> Callable[[int, int], None]:
    told = 0

    def tell(done: int, total: int) -> None:
        nonlocal told
        tenth = 10 * done // max(1, total)
        if total >= _MANY and tenth > told:
            told = tenth
            typer.echo(f"{what}: {done} of {total}", err=True)

    return tell


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
    """A bar, or, where stderr is no terminal, a line for every tenth of the work once it takes its time."""
    told: set[tuple[str, int]] = set()
    began = time.monotonic()

    def tell(what: str, done: int, total: int) -> None:
        tenth = (what, 10 * done // max(1, total))
        if tenth not in told and time.monotonic() - began > _SHORT_S:
            told.add(tenth)
            print(f"{what}: {done} of {total}", file=sys.stderr, flush=True)

    with rich_bar() as bar:
        yield tell if bar is None else bar
