"""`ucsearch compare`: every search policy and comparator on the same windows, at matched compute.

Nothing but typer is imported before the command runs.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ucsearch.cli.codes import STOPPED, UNUSABLE
from ucsearch.cli.progress import rich_bar
from ucsearch.errors import InputError, UCSearchError

__all__ = ["compare"]


class Mode(StrEnum):
    """How a plan is scored."""

    mean = "mean"
    members = "members"


class Outcome(StrEnum):
    """How a series becomes outcomes."""

    values = "values"
    relative = "relative"
    changes = "changes"


class EngineChoice(StrEnum):
    """Which engine searches."""

    compiled = "compiled"
    python = "python"


def compare(
    task: Annotated[str, typer.Argument(metavar="TASK", help="A task of `ucsearch tasks`, or package:object.")],
    data: Annotated[
        str | None,
        typer.Option(
            "--data",
            "-d",
            help="A history, .csv or .parquet, or a data set such as m4-weekly. Without it: the embedded sample.",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="Folder with the data sets (default: UCSEARCH_DATA).")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for scoreboard.csv, windows.csv, timing.csv and .svg.")
    ] = None,
    instance: Annotated[str | None, typer.Option("--instance", help="A named instance of the task.")] = None,
    start: Annotated[
        str | None, typer.Option("--start", help="The starting state as JSON; needed for a task of your own.")
    ] = None,
    outcome: Annotated[
        Outcome | None,
        typer.Option("--outcome", help="Series as they are, relative to their mean, or their changes."),
    ] = None,
    unit: Annotated[
        float | None, typer.Option("--unit", help="What the mean, or the deviation of changes, is scaled to.")
    ] = None,
    settings: Annotated[
        Path | None, typer.Option("--settings", help="A settings file, for the names of the columns.")
    ] = None,
    season: Annotated[int | None, typer.Option("--season", min=1, help="Periods of a season, for --data FILE.")] = None,
    series: Annotated[int, typer.Option("--series", min=3, help="At most so many series.")] = 12,
    windows: Annotated[int, typer.Option("--windows", min=1, help="Windows of each series.")] = 2,
    steps: Annotated[int, typer.Option("--steps", min=2, help="Decisions of a window.")] = 14,
    depth: Annotated[int, typer.Option("--depth", min=1, help="Steps planned ahead.")] = 6,
    width: Annotated[int, typer.Option("--width", min=1, help="Paths a beam keeps.")] = 8,
    top_k: Annotated[int, typer.Option("--top-k", min=1, help="Candidates a beam expands at each.")] = 3,
    risk: Annotated[float, typer.Option("--risk", min=0.0, help="Penalty on the spread of a plan's reward.")] = 0.25,
    mode: Annotated[Mode, typer.Option("--mode", help="Score plans at the mean, or over all members.")] = Mode.mean,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Seeds a stochastic policy is averaged over.")] = 10,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of forecasts, samplers and intervals.")] = 1,
    reference: Annotated[str, typer.Option("--reference", help="The policy the others are compared with.")] = "uc-beam",
    learned: Annotated[
        bool, typer.Option("--learned", help="Train fitted Q iteration and a Q-network first; needs ucsearch[gym].")
    ] = False,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Threads of a search; changes times only.")] = 1,
    engine: Annotated[EngineChoice, typer.Option("--engine", help="Changes times only.")] = EngineChoice.compiled,
) -> None:
    """Run every search policy, comparator and classic through the same windows, and print the scoreboard.

    At each decision a policy sees forecasts made from earlier values and the state it has brought about itself; then
    the real outcome comes. Everything but the times repeats exactly.

    Exit codes: 0 done, 2 unusable task, data or options, 130 stopped.
    """
    import time

    from ucsearch.pipeline.written import refuse_overwriting
    from ucsearch.scoreboard.board import FILES
    from ucsearch.scoreboard.job import Plan, run_compare
    from ucsearch.scoreboard.words import board_text

    plan = Plan(
        task=task, data=data, data_dir=data_dir, instance=instance, start=start,
        outcome=None if outcome is None else outcome.value, unit=unit, settings=settings, season=season, series=series,
        windows=windows, steps=steps, depth=depth, width=width, top_k=top_k, risk=risk, mode=mode.value, seeds=seeds,
        seed=seed, reference=reference, learned=learned, threads=threads, engine=engine.value,
    )  # fmt: skip
    try:
        if out is not None and out.exists() and not out.is_dir():
            raise InputError("--out", str(out), "a folder")
        if out is not None:
            given = None if data is None else Path(data)
            refuse_overwriting({f"--out, {x}": out / x for x in FILES}, {"--settings": settings, "--data": given})
        with rich_bar() as progress:
            board = run_compare(plan, clock=time.perf_counter, progress=progress)
        typer.echo(board_text(board))
        if out is not None:
            for path in board.write(out):
                typer.echo(f"wrote {path}")
    except UCSearchError as error:
        for line in str(error).splitlines() or [""]:
            typer.echo(f"Error: {line}", err=True)
        raise typer.Exit(UNUSABLE) from error
    except KeyboardInterrupt as error:
        typer.echo("Stopped.", err=True)
        raise typer.Exit(STOPPED) from error
