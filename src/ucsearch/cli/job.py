"""`ucsearch job plan | run | seal`: a large run in parts, for any scheduler."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ucsearch.cli.options import SettingsOption
from ucsearch.cli.terminal import read_time, reported

__all__ = ["job_app"]

job_app = typer.Typer(
    name="job",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="A large run in parts: plan, run anywhere, seal.",
    epilog="Exit codes: 0 done, 2 unusable settings, files or parts; nothing is sealed then.",
)
FolderArgument = Annotated[Path, typer.Argument(metavar="DIR", help="The job's folder, which all workers can reach.")]


@job_app.command()
def plan(
    folder: FolderArgument,
    states: Annotated[str, typer.Option("--states", "-s", help="Pattern of Parquet files.")],
    forecasts: Annotated[
        str | None, typer.Option("--forecasts", "-f", help="Pattern of Parquet files, 'f-*.parquet'.")
    ] = None,
    sales: Annotated[
        str | None, typer.Option("--sales", help="Instead: every part forecasts its series first.")
    ] = None,
    parts: Annotated[int, typer.Option("--parts", min=1, max=999_999, help="Approximate number of parts.")] = 16,
    log: Annotated[Path | None, typer.Option("--log", "-l", help="The log; DIR/decisions.db when not given.")] = None,
    now: Annotated[str | None, typer.Option("--now", metavar="TIME", help="Time of the decision, ISO 8601.")] = None,
    settings: SettingsOption = None,
) -> None:
    """Cut the forecasts into parts.

    Only the footers of their files are read.

    Exit codes: 0 planned, 2 unusable settings or files, or DIR holds another job.
    """
    from ucsearch.errors import InputError
    from ucsearch.planner.files.table import refuse_overwriting
    from ucsearch.planner.settings import find_settings, forecaster_classes, load_settings
    from ucsearch.scale.parts import plan_job

    with reported():
        path = find_settings() if settings is None else settings
        refuse_overwriting({}, {"the settings": path}, logs={"--log": log})
        if (forecasts is None) == (sales is None):
            raise InputError("--forecasts", "both" if sales else "nothing", "either --forecasts or --sales")
        model = type(load_settings(path).forecaster)
        name = next((name for name, cls in forecaster_classes().items() if cls is model), None)
        made = plan_job(
            path, forecasts or sales or "", states, folder, parts=parts, now=read_time(now), log=log,
            forecaster=None if sales is None else name,
        )  # fmt: skip
    last = len(made.items) - 1
    typer.echo(f"{last + 1} parts planned; next, for I from 0 to {last}: ucsearch job run {folder} --part I")


@job_app.command()
def run(
    folder: FolderArgument,
    part: Annotated[
        int | None, typer.Option("--part", min=0, help="Number of the part; default: all that are not done.")
    ] = None,
    workers: Annotated[int, typer.Option("--workers", min=1, max=1024, help="Number of processes.")] = 1,
) -> None:
    """Decide a part, or all that are not done.

    A part may run twice, also at once.

    Exit codes: 0 written, or it was there; 2 unusable job, files or worker.
    """
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from ucsearch.scale.backends import run_parts
    from ucsearch.scale.parts import run_part

    with reported():
        if part is not None:
            typer.echo(str(run_part(folder, part)))
            return
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            done = run_parts(folder, pool)
    typer.echo(f"{len(done)} parts are there")


@job_app.command()
def seal(
    folder: FolderArgument,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also a small table of all decisions, .parquet.")
    ] = None,
) -> None:
    """Check all parts and seal the run.

    All must be there, none twice, all from like workers; the segment's entry is written.

    Exit codes: 0 sealed, 2 a part is missing or does not belong; its name is told and nothing is sealed.
    """
    from ucsearch.scale.parts import seal_job

    with reported():
        sealed = seal_job(folder, clock=lambda: datetime.now(UTC), out=out)
    typer.echo(f"{sealed.count} rows in {len(sealed.parts)} parts, run {sealed.run}")
