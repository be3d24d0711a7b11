"""`ucsearch log copy` and `rotate`: logs from one store to another, and from one file to the next."""

from __future__ import annotations

from typing import Annotated

import typer

from ucsearch.cli.log import UNUSABLE, log_app

__all__ = ["copy_entries"]

Place = Annotated[str, typer.Argument(help="A log's file, or postgresql://...")]


@log_app.command("copy")
def copy_entries(source: Place, target: Place) -> None:
    """Copy a log to another place, between files and databases; numbers, times and heads stay.

    A copy that was cut off goes on where it ended. Exit codes: 0 copied and compared, 2 something is not right.
    """
    from ucsearch.errors import UCSearchError
    from ucsearch.records.place import copy_log

    try:
        made = copy_log(source, target)
    except UCSearchError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(UNUSABLE) from error
    typer.echo(f"{made.entries} entries, {made.added} of them new, head {made.head}")
