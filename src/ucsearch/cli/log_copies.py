"""`ucsearch log copy` and `rotate`: logs from one store to another, and from one file to the next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ucsearch.cli.log import log_app
from ucsearch.cli.log_words import one_line
from ucsearch.cli.terminal import UNUSABLE

LEAST_WHY = 3  # characters of a reason

__all__ = ["copy_entries", "rotate_file"]

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

    from ucsearch.errors import InputError, UCSearchError
    from ucsearch.planner.monitor.rotate import rotate_log
    from ucsearch.records.reader import AuditReader

    try:
        for name, text, least in (("--who", who, 1), ("--why", why, LEAST_WHY)):
            if len(text.strip()) < least or not text.isprintable():
                raise InputError(
                    name, repr(text), f"printable text of at least {least} character{'s' if least > 1 else ''}"
                )
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
