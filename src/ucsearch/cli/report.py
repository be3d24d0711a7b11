"""`ucsearch report`: evidence as pages for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ucsearch.cli.terminal import UNUSABLE
from ucsearch.errors import UCSearchError

__all__ = ["report"]


def report(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="One suite's evidence folder, or a folder that holds several.")
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Write there instead: a file or folder for one suite, a folder for several."),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open the result in the browser.")] = False,
) -> None:
    """Write one self-contained HTML file per suite, and for several an index that starts with their status.

    Every figure is derived from the rows again before anything is written; evidence that does not agree with its own
    rows gets no report.

    Exit codes: 0 written, 2 no evidence, or some that is malformed or false.
    """
    from ucsearch.lab.suites.report import write_reports

    try:
        written = write_reports(directory, out)
    except UCSearchError as error:
        # One line: evidence may come from anybody, and text can steer a terminal.
        text = "".join(c if c.isprintable() else " " for c in str(error))
        typer.echo(f"Error: {text}", err=True)
        raise typer.Exit(UNUSABLE) from error
    for path in written:
        typer.echo(f"wrote {path}")
    if show:
        typer.launch(written[0].resolve().as_uri())
