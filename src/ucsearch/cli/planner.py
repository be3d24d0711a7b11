"""`ucsearch new | forecast | calibrate | backtest | tune | decide`: from a planner's files to decisions.

Every command reads one settings file; its [files] say what is read and written.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ucsearch.cli.options import (
    ChangesOption,
    SettingsOption,
    checked_files,
    input_file,
    log_of,
    named_file,
    page_path,
    settings_of,
)
from ucsearch.cli.terminal import NEEDS_A_PERSON, UNUSABLE, print_fallbacks, print_problems, progress_bar, reported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ucsearch.planner.files.table import Problem
    from ucsearch.planner.settings import Settings

__all__ = ["backtest", "calibrate", "decide", "forecast", "new", "tune"]

NowOption = Annotated[
    str | None, typer.Option("--now", metavar="TIME", help="Time of the decision, ISO 8601; default: now.")
]


def new(
    kind: Annotated[
        str,
        typer.Argument(metavar="KIND", help="inventory, truck, bakery, spares, storage, capacity or intervention."),
    ],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder to write to.")] = Path("."),
    switches: Annotated[
        str, typer.Option("--with", help="Rules of an inventory: calendar, shelf_life, fill_rate.")
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
) -> None:
    """Write commented settings and small sample files.

    Exit codes: 0 written, 2 unknown kind, or a file is there already.
    """
    from ucsearch.planner.new.inventory import next_commands, write_scaffold

    with reported():
        rules = [name.strip() for name in switches.split(",") if name.strip()]
        paths = write_scaffold(kind, folder, force=force, switches=rules)
    for path in paths:
        typer.echo(f"wrote {path}")
    typer.echo("\nNext" + ("" if folder == Path(".") else f", in {folder}") + ":")
    for command in next_commands(kind, rules):
        typer.echo(f"  {command}")


def forecast(
    settings: SettingsOption = None,
    changes: ChangesOption = None,
    now: Annotated[str | None, typer.Option("--now", metavar="TIME", help="Time of issue to write, ISO 8601.")] = None,
) -> None:
    """Forecast every series of a sales history.

    Reads files.sales, writes files.forecasts and, if it is named, files.archive. Without a settings file, --set
    forecast.steps=N says how many periods to forecast.

    Exit codes: 0 done; 1 done, but some series could not be forecast; 2 unusable settings or files.
    """
    from ucsearch.cli.terminal import read_time
    from ucsearch.planner.forecast import run_forecast

    with reported(), progress_bar("forecasting") as progress:
        read_time(now)
        job = settings_of(settings, changes, plans=False)
        checked_files(job, ["sales"], ["forecasts", "archive", "problems"])
        report = run_forecast(
            job, input_file(job, "sales"), named_file(job, "forecasts"), archive=job.path("archive"),
            issued=now or "", any_sign=job.task is None, progress=progress,
        )  # fmt: skip
    print_problems(report.problems, path=job.path("problems"))
    counts = ", ".join(f"{count} by {name}" for name, count in report.models.items())
    typer.echo(f"{report.series} series, {report.horizon} periods ahead, season {report.season}: {counts}")
    if report.clipped:
        kept = "--set forecast.keep_outliers=true keeps them"
        typer.echo(f"{report.clipped} outliers were limited ({kept})")
    if report.unknown:
        periods = "period" if report.unknown == 1 else "periods"
        typer.echo(f"{report.unknown} {periods} without a known demand: out of stock, or gaps")
    typer.echo(f"forecasts in {report.out}" + (f", archive in {report.archive}" if report.archive else ""))
    _leave(report.problems)


def calibrate(settings: SettingsOption = None, changes: ChangesOption = None) -> None:
    """Compare forecasts of your own history with outcomes.

    Reads files.sales. Without a settings file, --set forecast.steps=N says how many periods to forecast.

    Exit codes: 0 done; 1 done, but some series could not be used; 2 unusable settings or files.
    """
    from ucsearch.planner.calibrate import run_calibrate
    from ucsearch.planner.calibration_page import write_page

    with reported():
        job = settings_of(settings, changes, plans=False)
        page = page_path(job, "calibration.html")
        checked_files(job, ["sales"], ["problems"], others=_pages(page))
        with progress_bar("walking forward") as progress:
            result = run_calibrate(
                job, input_file(job, "sales"), origins=job.backtest.origins, any_sign=job.task is None,
                progress=progress,
            )  # fmt: skip
        print_problems(result.problems, path=job.path("problems"))
        typer.echo(result.text())
        if page is not None:
            write_page(result, page)
            typer.echo(f"page in {page}")
    _leave(result.problems)


def backtest(settings: SettingsOption = None, changes: ChangesOption = None) -> None:
    """Replay your history: your policy against tuned rules.

    Reads files.sales and files.states (for lead times and costs by series), writes files.results if it is named. Rules
    are tuned on the periods before the counted ones. Started again after it was stopped, it goes on where it stopped.

    Exit codes: 0 done; 1 done, but some series could not be used or too many decisions fell back; 2 unusable settings
    or files; 130 stopped.
    """
    from ucsearch.planner.backtest import run_backtest, write_page
    from ucsearch.report.table import terminal_width

    with reported():
        job = settings_of(settings, changes)
        page, out = page_path(job, "backtest.html"), job.path("results")
        checked_files(job, ["sales", "states"], ["results", "problems"], others=_pages(page))
        with progress_bar("replaying") as progress:
            result = run_backtest(
                job, input_file(job, "sales"), states=_if_there(job, "states"), progress=progress,
                keep=Path(".") if out is None else out.parent, tell=lambda line: typer.echo(line, err=True),
            )  # fmt: skip
        print_problems(result.problems, path=job.path("problems"))
        typer.echo(result.text(terminal_width()))
        if out is not None:
            typer.echo(f"{result.write(out)} rows written to {out}")
        if page is not None:
            write_page(result, page)
            typer.echo(f"page in {page}")
    if result.falls_back_too_often:
        print_fallbacks(1.0 - result.released, result.reasons, job)
    _leave(result.problems, result.falls_back_too_often)


_CUT = 5  # series that got less for a shared limit, shown
_EVIDENCE = (".evidence.json", ".evidence.txt")


def tune(settings: SettingsOption = None, changes: ChangesOption = None) -> None:
    """Choose settings on your own history, with evidence.

    Mode, risk, depth, order sizes and recalibration are chosen on the earlier part by realised cost. Rules are tuned
    there on wide grids; then everybody is compared once on the later part. Writes the settings with the choice to
    files.tuned, and what it rests on beside it, with .evidence.json and .evidence.txt.

    Exit codes: 0 done; 1 done, but some series could not be used or too many decisions fell back; 2 unusable settings
    or files; 130 stopped, the same command goes on.
    """
    from ucsearch.planner.backtest import run_tune
    from ucsearch.planner.files.table import check_place
    from ucsearch.records.files import whole_file
    from ucsearch.report.table import terminal_width

    with reported():
        job = settings_of(settings, changes)
        out = named_file(job, "tuned")
        evidence = [out.with_suffix(ending) for ending in _EVIDENCE]
        others = [("files.tuned", out), *((f"the evidence, {path.name}", path) for path in evidence)]
        checked_files(job, ["sales", "states"], ["problems"], others=others)
        check_place(out)
        with progress_bar("tuning") as progress:
            result = run_tune(
                job, input_file(job, "sales"), states=_if_there(job, "states"), progress=progress,
                keep=out.parent, tell=lambda line: typer.echo(line, err=True),
            )  # fmt: skip
        print_problems(result.report.problems, path=job.path("problems"))
        contents = (result.text.encode(), result.evidence(), f"{result.table()}\n".encode())
        for path, content in zip((out, *evidence), contents, strict=True):
            with whole_file(path) as file:
                file.write(content)
        typer.echo(result.table(terminal_width()))
        typer.echo(f"\nsettings in {out}, evidence in {', '.join(map(str, evidence))}")
    _leave(result.report.problems, result.report.falls_back_too_often)


def decide(
    settings: SettingsOption = None,
    changes: ChangesOption = None,
    now: NowOption = None,
    strict: Annotated[bool, typer.Option("--strict", help="Decide nothing if a file has any problem.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Discard a run that was stopped.")] = False,
) -> None:
    """Decide every series: one row and one record each.

    Reads files.forecasts and files.states, writes files.decisions and adds to files.log. Limits of [shared], such as a
    truck, are kept among all series in the same run. With files.archive, past
    forecasts and outcomes are kept there for [forecast] recalibrate. Forecasts that begin more than two periods
    before --now (or the clock) are refused; [forecast] max_age says otherwise. Started again after it was cut off, it
    goes on where it stopped.

    Exit codes: 0 all decided; 1 done, but some are on HOLD or could not be used, too many fell back, or a shared limit
    could not be kept with proof; 2 unusable
    settings or files, or --strict found something; 130 stopped.
    """
    from datetime import UTC, datetime

    from ucsearch.cli.terminal import read_time
    from ucsearch.planner.decide.job import StrictError, run_decide

    with reported(), progress_bar("deciding") as progress:
        job = settings_of(settings, changes)
        log, archive, problems = log_of(job), job.path("archive"), job.path("problems")
        page = page_path(job, "decisions.html")
        sales = None if archive is None else _if_there(job, "sales")
        reads = ["forecasts", "states", *(["sales"] if sales is not None else [])]
        checked_files(job, reads, ["decisions", "archive", "problems"], log=log, others=_pages(page))
        moment = read_time(now)
        if moment is None and job.gate.max_trace_age_s is not None:
            moment = datetime.now(UTC)
        try:
            report = run_decide(
                job, input_file(job, "forecasts"), input_file(job, "states"), named_file(job, "decisions"), log,
                archive=archive, keep=archive, sales=sales, html=page, strict=strict, fresh=fresh, now=moment,
                clock=lambda: datetime.now(UTC), progress=progress,
                tell=lambda line: typer.echo(line, err=True),
            )  # fmt: skip
        except StrictError as error:
            print_problems(error.problems, path=problems)
            typer.echo("Error: --strict, so nothing was decided", err=True)
            raise typer.Exit(UNUSABLE) from error
    print_problems(report.problems, report.more_problems, problems)
    if report.resumed:
        typer.echo(f"{report.resumed} series were decided before the run was stopped")
    total = sum(report.outcomes.values())
    parts = ", ".join(f"{count} {outcome}" for outcome, count in report.outcomes.items())
    typer.echo(f"{total} series: {parts}")
    for reason, count in report.reasons.items():
        if reason != "none":
            typer.echo(f"  {count} {reason}")
    if report.allocation is not None:
        typer.echo(report.allocation.explain(_CUT, job.currency))
    if report.fallback_words:
        typer.echo(report.fallback_words)
    for note in report.advice:
        typer.echo(f"Note: {note}", err=True)
    if page is not None:
        typer.echo(f"page in {page}")
    typer.echo(f"decisions in {report.out}, records in {report.log}")
    if report.falls_back_too_often:
        reasons = {r: n for r, n in report.reasons.items() if r != "invalid_input"}
        print_fallbacks(report.fallback_share, reasons, job)
    if report.needs_a_person or report.falls_back_too_often:
        raise typer.Exit(NEEDS_A_PERSON)


def _if_there(settings: Settings, key: str) -> Path | None:
    """The file of a key of [files] if there is one, or if the settings name it."""
    path = settings.path(key)
    named = key in settings.files.model_fields_set
    return path if path is not None and (named or path.exists()) else None


def _pages(path: Path | None) -> list[tuple[str, Path]]:
    return [] if path is None else [("the page", path)]


def _leave(problems: Sequence[Problem], also: Any = False) -> None:
    """Exit code 1 where a series could not be used."""
    if also or any(p.refuses for p in problems):
        raise typer.Exit(NEEDS_A_PERSON)
