"""`ucsearch monitor`: whether the forecasts behind recorded decisions are still honest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ucsearch.cli.planner import reported
from ucsearch.cli.terminal import NEEDS_A_PERSON

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
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help="Watch the sum of so many steps, not the next one.")
    ] = None,
    undercoverage: Annotated[
        float | None,
        typer.Option("--undercoverage", help="By how much a 90 % interval may cover less than it says; else 0.035."),
    ] = None,
    watch: Annotated[
        Literal["both", "spread", "bias"] | None, typer.Option("--watch", help="Which misfits count; else both.")
    ] = None,
    within: Annotated[
        int | None, typer.Option("--within", min=1, help="Outcomes within which a false alarm may happen (5000) ...")
    ] = None,
    alpha: Annotated[float | None, typer.Option("--alpha", help="... with at most this chance (0.01).")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="One row per series, .csv or .parquet.")] = None,
    json_out: Annotated[Path | None, typer.Option("--json", help="Everything but the curves, as JSON.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="A page of all streams, to look at in a browser.")] = None,
) -> None:
    """Hold recorded forecasts against what came: which series should no longer be released, since when, and why.

    The outcomes file has series, date and value (or unique_id, ds, y), where forecasts name their cutoff; or series,
    step and value, where the n-th outcome belongs to the n-th decision; or decision, step and value.

    Exit codes: 0 nothing is tripped now, 1 a series or all together are tripped, 2 unusable log or files.
    """
    import dataclasses
    import json

    from ucsearch.monitor import Settings
    from ucsearch.planner.files.table import refuse_overwriting
    from ucsearch.planner.monitor.job import run_watch, settings_in
    from ucsearch.planner.monitor.words import as_json, watch_text, write_watch, write_watch_page
    from ucsearch.records.files import whole_file

    with reported():
        refuse_overwriting({"--out": out, "--json": json_out, "--html": html}, {"LOG": log, "--outcomes": outcomes})
        # What is not said is as the service watches that plan, where the log is a service's.
        known = settings_in(log, plan) or Settings()
        named = dict(max_undercoverage=undercoverage, watch=watch, within=within, alpha=alpha, lags=steps)
        told: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
        if within is not None or alpha is not None:
            wide, rare = told.get("within", known.within), told.get("alpha", known.alpha)
            told["calm"] = min(known.calm, 0.002 * wide / rare) if 0.0 < rare < 1.0 else known.calm
        settings = dataclasses.replace(known, **told)
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
