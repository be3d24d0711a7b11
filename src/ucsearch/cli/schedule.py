"""`ucsearch schedule`: whole plans as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ucsearch.cli.planner import reported

__all__ = ["schedule"]


def schedule(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="The audit log, such as decisions.db.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The schedule, .csv or .parquet.")],
    settings: Annotated[
        Path | None, typer.Option("--settings", help="The settings file, for units and the period.")
    ] = None,
    series: Annotated[list[str] | None, typer.Option("--series", help="Only these; may be given again.")] = None,
) -> None:
    """Write the newest plan of every series, a row for each period with its time; only the first row is decided.

    Exit codes: 0 written, 2 no usable log or settings, or no such series.
    """
    from ucsearch.planner.files.table import refuse_overwriting
    from ucsearch.planner.recorded.schedule import write_schedule
    from ucsearch.planner.settings import load_settings

    with reported():
        refuse_overwriting({"--out": out}, {"LOG": log, "--settings": settings})
        found = None if settings is None else load_settings(settings)
        rows, count = write_schedule(log, out, settings=found, series=series or ())
    typer.echo(f"{rows} rows of {count} series in {out}")
