"""`ucsearch forecast | calibrate`: from a sales history to forecasts, and how far such forecasts can be trusted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ucsearch.cli.planner import print_problems, progress_bar, read_time, reported
from ucsearch.cli.terminal import NEEDS_A_PERSON

if TYPE_CHECKING:
    from ucsearch.planner.settings import Settings

__all__ = ["calibrate", "forecast"]

MODELS = "auto, seasonal_naive, smoothing, ridge_paths, ridge_ensemble, unbiased_ridge, bootstrap"
PLAIN = 'period = "{period}"\n[task]\nname = "lead_time_inventory"\n[policy]\nname = "exact"\ndepth = 1\n'

SettingsOption = Annotated[
    Path | None, typer.Argument(metavar="[SETTINGS]", help="The settings file; without one, use the options.")
]
DataOption = Annotated[Path, typer.Option("--data", "-d", help="Sales history, long or wide, .csv or .parquet.")]
HorizonOption = Annotated[int | None, typer.Option("--horizon", min=1, help="Periods to forecast.")]
SeasonOption = Annotated[int | None, typer.Option("--season", min=1, help="Periods of a season; weekdays: 7.")]
ModelOption = Annotated[str | None, typer.Option("--model", help=f"One of {MODELS}.")]
PathsOption = Annotated[int | None, typer.Option("--paths", min=1, help="Members per series.")]
SeedOption = Annotated[int | None, typer.Option("--seed", min=0, help="Of the sample paths.")]
KeepOption = Annotated[bool, typer.Option("--keep-outliers", help="Learn from values that are far out, too.")]


def forecast(
    data: DataOption,
    out: Annotated[Path, typer.Option("--out", "-o", help="Forecasts with members, .csv or .parquet.")],
    settings: SettingsOption = None,
    archive: Annotated[
        Path | None, typer.Option("--archive", help="Write past forecasts and outcomes there, for recalibration.")
    ] = None,
    horizon: HorizonOption = None,
    season: SeasonOption = None,
    model: ModelOption = None,
    paths: PathsOption = None,
    seed: SeedOption = None,
    issued: Annotated[
        str, typer.Option("--issued", metavar="TIME", help="Written beside each forecast, ISO 8601.")
    ] = "",
    keep_outliers: KeepOption = False,
) -> None:
    """Forecast every series of a sales history, with members, for `ucsearch decide`.

    Exit codes: 0 done; 1 done, but some series could not be forecast; 2 unusable settings or files.
    """
    from ucsearch.planner.files.table import refuse_overwriting
    from ucsearch.planner.forecast import run_forecast

    with reported(), progress_bar("forecasting") as progress:
        refuse_overwriting({"--out": out, "--archive": archive}, {"SETTINGS": settings, "--data": data})
        read_time(issued or None, "--issued")
        found = settings_for(settings, model, paths, horizon, keep_outliers)
        report = run_forecast(
            found, data, out, archive=archive, horizon=horizon, season=season, seed=seed, issued=issued,
            any_sign=settings is None, progress=progress,
        )  # fmt: skip
    print_problems(report.problems, 0, None)
    counts = ", ".join(f"{count} by {name}" for name, count in report.models.items())
    typer.echo(f"{report.series} series, {report.horizon} periods ahead, season {report.season}: {counts}")
    if report.clipped:
        typer.echo(f"{report.clipped} values far out of what came before were cut back (--keep-outliers keeps them)")
    typer.echo(f"forecasts in {report.out}" + (f", archive in {report.archive}" if report.archive else ""))
    if any(p.refuses for p in report.problems):
        raise typer.Exit(NEEDS_A_PERSON)


def calibrate(
    data: DataOption,
    settings: SettingsOption = None,
    page: Annotated[Path, typer.Option("--page", "--html", help="Where to write the page to look at.")] = Path(
        "calibration.html"
    ),
    no_page: Annotated[bool, typer.Option("--no-page", help="Write none.")] = False,
    horizon: HorizonOption = None,
    season: SeasonOption = None,
    model: ModelOption = None,
    paths: PathsOption = None,
    origins: Annotated[int | None, typer.Option("--origins", min=1, help="Past forecasts per series.")] = None,
    seed: SeedOption = None,
    keep_outliers: KeepOption = False,
) -> None:
    """Show how far forecasts of your own history could have been trusted, as they are and recalibrated by phase.

    Exit codes: 0 done; 1 done, but some series could not be used; 2 unusable settings or files.
    """
    from ucsearch.planner.calibrate import run_calibrate
    from ucsearch.planner.calibration_page import write_page
    from ucsearch.planner.files.table import refuse_overwriting

    with reported():
        refuse_overwriting({"--page": None if no_page else page}, {"SETTINGS": settings, "--data": data})
        found = settings_for(settings, model, paths, horizon, keep_outliers)
        with progress_bar("walking forward") as progress:
            result = run_calibrate(
                found, data, horizon=horizon, season=season, origins=origins, seed=seed, any_sign=settings is None,
                progress=progress,
            )  # fmt: skip
        print_problems(result.problems, 0, None)
        typer.echo(result.text())
        if not no_page:
            write_page(result, page)
            typer.echo(f"page in {page}")
    if any(p.refuses for p in result.problems):
        raise typer.Exit(NEEDS_A_PERSON)


def settings_for(
    path: Path | None, model: str | None, paths: int | None, horizon: int | None, keep_outliers: bool = False
) -> Settings:
    """The settings file's, or plain ones; with the forecaster that was asked for."""
    import dataclasses

    from ucsearch.errors import InputError
    from ucsearch.planner.forecast import with_forecaster
    from ucsearch.planner.settings import load_settings, parse_settings

    if path is None and horizon is None:
        raise InputError("--horizon", "nothing", "how many periods to forecast, or a settings file")
    found = parse_settings(PLAIN.format(period="any").encode(), "") if path is None else load_settings(path)
    name = model or ("auto" if path is None else None)
    if name is not None:
        found = with_forecaster(found, name, "--model")
    chosen = found.forecaster
    if paths is not None:
        chosen = dataclasses.replace(chosen, **{"models" if hasattr(chosen, "models") else "paths": paths})
    if keep_outliers:
        found = dataclasses.replace(found, forecast=found.forecast.model_copy(update={"keep_outliers": True}))
    return dataclasses.replace(found, forecaster=chosen)
