"""`ucsearch log copy`, `rotate` and `erase`: logs from one store to another, from one file to the next, and without
what is to be forgotten."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ucsearch.cli.log import log_app
from ucsearch.cli.log_words import one_line
from ucsearch.cli.terminal import UNUSABLE

LEAST_WHY = 3  # characters of a reason

__all__ = ["copy_entries", "erase_entries", "rotate_file"]

Place = Annotated[str, typer.Argument(help="A log's file, or postgresql://...")]


@log_app.command("copy")
def copy_entries(source: Place, target: Place) -> None:
    """Copy a log to another place, between files and databases; numbers, times and heads stay.

    A copy that was cut off goes on where it ended. Exit codes: 0 copied and compared, 2 something is not right.
    """
    from ucsearch.errors import UCSearchError
    from ucsearch.records.address import copy_log

    try:
        made = copy_log(source, target)
    except UCSearchError as error:
        typer.echo(f"Error: {one_line(error)}", err=True)
        raise typer.Exit(UNUSABLE) from error
    typer.echo(f"{made.entries} entries, {made.added} of them new, head {made.head}")


@log_app.command("rotate")
def rotate_file(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="Any file of the log; its newest one is closed.")],
    why: Annotated[str, typer.Option("--why", help="For which reason; it is recorded.")],
    who: Annotated[str, typer.Option("--who", help="Who does it.")] = "ucsearch log rotate",
) -> None:
    """Close a log's file and begin the next one beside it, while others write: they are sent on.

    The new file pins number, head and root of the old one, and begins with the monitors and pauses as they stand. The
    old file is verified first; it does not change any more and may be kept elsewhere.

    Exit codes: 0 rotated, 2 something is not right, and nothing was changed.
    """
    from datetime import UTC, datetime

    from ucsearch.errors import UCSearchError
    from ucsearch.planner.monitor.rotate import rotate_log
    from ucsearch.records.reader import AuditReader

    try:
        _check_words(who, why)
        with AuditReader(log) as reader:
            report = reader.verify()
        if not report.ok:
            typer.echo(f"Error: {one_line(report)}; not rotated", err=True)
            raise typer.Exit(UNUSABLE)
        made = rotate_log(log, at=datetime.now(UTC), by=who.strip(), why=why.strip())
    except UCSearchError as error:
        typer.echo(f"Error: {one_line(error)}", err=True)
        raise typer.Exit(UNUSABLE) from error
    typer.echo(f"{made.old}: closed after {made.entries} entries, head {made.head}")
    typer.echo(f"{made.new}: the log goes on here")


@log_app.command("erase")
def erase_entries(
    log: Place,
    why: Annotated[str, typer.Option("--why", help="For which reason; it is recorded.")],
    series: Annotated[str, typer.Option("--series", help="All that was decided and reported of this series.")] = "",
    plan: Annotated[str, typer.Option("--plan", help="With --series: of this plan of a service only.")] = "",
    person: Annotated[str, typer.Option("--person", help="This name, and the reasons that its owner gave.")] = "",
    before: Annotated[str, typer.Option("--before", help="Whatever was written before this time.")] = "",
    who: Annotated[str, typer.Option("--who", help="Who does it.")] = "ucsearch log erase",
) -> None:
    """Take the content of entries away for good, in all files of a log; digests stay, so that the chain verifies.

    Exactly one of --series, --person and --before. An entry says what was done. Copies of the log are not changed.

    Exit codes: 0 erased, 2 something is not right.
    """
    from datetime import UTC, datetime

    from ucsearch.errors import InputError, UCSearchError
    from ucsearch.records import erasure
    from ucsearch.records.entries import time_text

    try:
        _check_words(who, why)
        if sum(map(bool, (series, person, before))) != 1 or (plan and not series):
            given = [f"--{n}" for n, v in (("series", series), ("person", person), ("before", before)) if v]
            raise InputError("options", " ".join(given) or "none", "one of --series, --person and --before")
        if before:
            left = erasure.older_than(datetime.fromisoformat(time_text(before, "--before")))
        else:
            left = erasure.series(series, plan or None) if series else erasure.person(person)
        done = erasure.erase(log, left, at=datetime.now(UTC), by=who.strip(), why=why.strip())
    except UCSearchError as error:
        typer.echo(f"Error: {one_line(error)}", err=True)
        raise typer.Exit(UNUSABLE) from error
    typer.echo(f"{done.entries} entries erased, {done.blobs} arrays deleted")


def _check_words(who: str, why: str) -> None:
    from ucsearch.errors import InputError

    for name, text, least in (("--who", who, 1), ("--why", why, LEAST_WHY)):
        if len(text.strip()) < least or not text.isprintable():
            expected = f"printable text of at least {least} character{'s' if least > 1 else ''}"
            raise InputError(name, repr(text), expected)
