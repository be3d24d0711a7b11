"""`ucsearch tune`: choose how to plan on a history of one's own, with evidence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ucsearch.cli.planner import SettingsArgument, print_problems, progress_bar, reported
from ucsearch.cli.terminal import NEEDS_A_PERSON

__all__ = ["tune"]


def tune(
    settings: SettingsArgument,
    data: Annotated[Path, typer.Option("--data", "-d", help="Sales history, .csv or .parquet.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The settings with the choice; evidence comes beside it.")
    ] = Path("tuned.toml"),
    states: Annotated[
        Path | None, typer.Option("--states", "-s", help="States file, for lead times and costs by series.")
    ] = None,
    earlier: Annotated[
        int | None, typer.Option("--earlier", min=1, help="Periods before the counted ones to tune on.")
    ] = None,
    tries: Annotated[
        int,
        typer.Option(
            "--tries",
            min=2,
            max=12,
            help="Settings of the policy that are tried; rules get more.",
        ),
    ] = 12,
    service_level: Annotated[
        float | None,
        typer.Option("--service-level", help="Share of periods without a shortage to reach, instead of task.shortage."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT and its evidence if they are there.")] = False,
) -> None:
    """Choose mode, risk, depth, order sizes and recalibration on the earlier part of your history, by realised cost.

    Rules are tuned there on wide grids; then everybody is compared once on the later part. Writes the settings
    with the choice to OUT, and what it rests on to OUT's name with .evidence.json and .evidence.txt.

    Exit codes: 0 done; 1 done, but some series could not be used or too many decisions fell back; 2 unusable settings
    or files, or OUT is there already; 130 stopped, the same command goes on.
    """
    from ucsearch.cli.memory import keep_freed_memory
    from ucsearch.errors import InputError
    from ucsearch.planner.backtest.tune import run_tune
    from ucsearch.planner.files.table import refuse_overwriting
    from ucsearch.planner.settings import load_settings
    from ucsearch.records.files import whole_file

    with reported():
        written = {"--out": out, **{f"--out's evidence, {x}": out.with_suffix(x) for x in _EVIDENCE}}
        refuse_overwriting(written, {"SETTINGS": settings, "--data": data, "--states": states})
        there = [str(path) for path in written.values() if path.exists()]
        if there and not force:
            raise InputError("--out", ", ".join(there), "a new file", hint="--force would replace it.")
        if not out.parent.is_dir():
            raise InputError("--out", str(out), "a file in a folder that exists")
        keep_freed_memory()
        with progress_bar("tuning") as progress:
            result = run_tune(
                load_settings(settings), data, states=states, progress=progress, earlier=earlier, tries=tries,
                service_level=service_level, keep=out.parent,
            )  # fmt: skip
        print_problems(result.report.problems, 0, None)
        table = result.table()
        for path, content in zip(
            written.values(), (result.text.encode(), result.evidence(), f"{table}\n".encode()), strict=True
        ):
            with whole_file(path) as file:
                file.write(content)
        typer.echo(table)
        typer.echo(f"\nsettings in {out}, evidence in {', '.join(str(x) for x in list(written.values())[1:])}")
    if result.report.falls_back_too_often or any(p.refuses for p in result.report.problems):
        raise typer.Exit(NEEDS_A_PERSON)


_EVIDENCE = (".evidence.json", ".evidence.txt")
