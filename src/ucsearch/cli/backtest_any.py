"""`ucsearch backtest` for tasks other than inventory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from ucsearch.planner.settings import Settings

from ucsearch.cli.terminal import NEEDS_A_PERSON

__all__ = ["backtest_any"]


def backtest_any(
    settings: Settings, data: Path, states: Path | None, out: Path | None, earlier: int | None, html: Path | None,
    plot: Path | None,
) -> None:  # fmt: skip
    """Replay, print and write; the exit code as of `ucsearch backtest`."""
    from ucsearch.cli.planner import print_fallbacks, print_problems, progress_bar
    from ucsearch.planner.backtest.job_any import run_backtest_any

    with progress_bar("replaying") as progress:
        keep = Path(".") if out is None else out.parent
        result = run_backtest_any(settings, data, states=states, earlier=earlier, progress=progress, keep=keep)
    print_problems(result.problems, 0, None)
    typer.echo(result.text())
    if out is not None:
        typer.echo(f"{result.write(out)} rows written to {out}")
    if html is not None:
        from ucsearch.planner.backtest.page_any import write_any_page

        write_any_page(result, html)
        typer.echo(f"page in {html}")
    if plot is not None:
        from ucsearch.planner.pictures import draw_any, has_matplotlib

        if has_matplotlib():
            draw_any(result, plot)
            typer.echo(f"picture in {plot}")
        else:
            typer.echo("no picture: matplotlib is not installed (pip install 'ucsearch[plot]')", err=True)
    if result.falls_back_too_often:
        print_fallbacks(1.0 - result.released, result.reasons, settings)
    if result.falls_back_too_often or any(p.refuses for p in result.problems):
        raise typer.Exit(NEEDS_A_PERSON)
