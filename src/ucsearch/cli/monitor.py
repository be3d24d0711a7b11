"""`ucsearch monitor`: whether the forecasts behind recorded decisions are still honest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ucsearch.cli.codes import NEEDS_A_PERSON
from ucsearch.cli.planner import reported

__all__ = ["monitor"]


def monitor(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="The audit log, such as decisions.db.")],
    outcomes: Annotated[
        Path | None,
        typer.Option("--outcomes", help="What came, .csv or .parquet; not needed where the log holds outcomes."),
    ] = None,
    plan: Annotated[
        str | None, typer.Option("--plan", help="Only decisions of this plan, where a service wrote several.")
    ] = None,
    period: Annotated[
        str, typer.Option("--period", help="Step of dates, such as day; read off the file where it is not given.")
    ] = "any",
    steps: Annotated[int, typer.Option("--steps", min=1, help="Watch the sum of so many steps, not the next one.")] = 1,
    undercoverage: Annotated[
        float, typer.Option("--undercoverage", help="By how much a 90 % interval may cover less than it says.")
    ] = 0.035,
    watch: Annotated[Literal["both", "spread", "bias"], typer.Option("--watch", help="Which misfits count.")] = "both",
    within: Annotated[
        int, typer.Option("--within", min=1, help="Outcomes within which a false alarm may happen ...")
    ] = 5_000,
    alpha: Annotated[float, typer.Option("--alpha", help="... with at most this chance.")] = 0.01,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="One row per series, .csv or .parquet.")] = None,
    json_out: Annotated[Path | None, typer.Option("--json", help="Everything but the curves, as JSON.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="A page of all streams, to look at in a browser.")] = None,
) -> None:
    """Hold recorded forecasts against what came: which series should no longer be released, since when, and why.

    The outcomes file has series, date and value (or unique_id, ds, y), where forecasts name their cutoff; or series,
    step and value, where the n-th outcome belongs to the n-th decision; or decision, step and value.

    Exit codes: 0 nothing is tripped now, 1 a series or all together are tripped, 2 unusable log or files.
    """
    import json

    from ucsearch.monitor import Settings
    from ucsearch.pipeline.watch import run_watch
    from ucsearch.pipeline.watch_page import write_watch_page
    from ucsearch.pipeline.watch_words import as_json, watch_text, write_watch
    from ucsearch.pipeline.written import refuse_overwriting
    from ucsearch.records.files import whole_file

    with reported():
        refuse_overwriting({"--out": out, "--json": json_out, "--html": html}, {"LOG": log, "--outcomes": outcomes})
        settings = Settings(
            max_undercoverage=undercoverage, watch=watch, within=within, alpha=alpha, lags=steps,
            calm=min(1_000.0, 0.002 * within / alpha) if 0.0 < alpha < 1.0 else 1_000.0,
        )  # fmt: skip
        report = run_watch(log, outcomes, settings=settings, period=period, plan=plan)
        typer.echo(watch_text(report))
        if out is not None:
            typer.echo(f"{write_watch(report, out)} rows written to {out}")
        if json_out is not None:
            with whole_file(json_out) as file:
                file.write(json.dumps(as_json(report), indent=2, ensure_ascii=False).encode() + b"\n")
        if html is not None:
            write_watch_page(report, html)
            typer.echo(f"page in {html}")
    if report.tripped:
        raise typer.Exit(NEEDS_A_PERSON)
