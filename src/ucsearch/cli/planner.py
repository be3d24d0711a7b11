"""`ucsearch new | decide | backtest | explain | tasks | schema`: from a planner's files to decisions.

Exit codes: 0 done; 1 done, but some series need a person (refused for their rows, or on hold); 2 the command, the
settings or a file cannot be used; 3 `--strict` and something is wrong with the files; 130 stopped, start it again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ucsearch.cli.terminal import NEEDS_A_PERSON, STOPPED, STRICT, UNUSABLE, rich_bar
from ucsearch.errors import UCSearchError

if TYPE_CHECKING:
    from datetime import datetime

    from ucsearch.planner.files.table import Problem
    from ucsearch.planner.settings import Settings

__all__ = [
    "backtest",
    "decide",
    "explain",
    "new",
    "print_fallbacks",
    "print_problems",
    "progress_bar",
    "read_time",
    "reported",
    "schema",
    "tasks",
]

SHOWN = 20  # problems printed
_MANY = 1_000  # steps of work from which on progress is told in a pipe

SettingsArgument = Annotated[
    Path, typer.Argument(metavar="SETTINGS", help="The settings file, such as inventory.toml.")
]


def new(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="What to plan: inventory, storage, capacity, intervention.")
    ],
    folder: Annotated[Path, typer.Option("--folder", help="Where to write.")] = Path("."),
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
) -> None:
    """Write a commented settings file and small sample files, and say what to type next.

    Exit codes: 0 written, 2 unknown kind, or a file is there already.
    """
    from ucsearch.planner.new.inventory import next_commands, write_scaffold

    with reported():
        paths = write_scaffold(kind, folder, force=force)
    for path in paths:
        typer.echo(f"wrote {path}")
    typer.echo("\nNext" + ("" if folder == Path(".") else f", in {folder}") + ":")
    for command in next_commands(kind):
        typer.echo(f"  {command}")


def decide(
    settings: SettingsArgument,
    forecasts: Annotated[Path, typer.Option("--forecasts", "-f", help="Forecasts, .csv or .parquet.")],
    states: Annotated[Path, typer.Option("--states", "-s", help="Stock and open orders, .csv or .parquet.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Decisions, .csv or .parquet; replaced as a whole.")],
    log: Annotated[Path, typer.Option("--log", "-l", envvar="UCSEARCH_LOG", help="The audit log.")] = Path(
        "decisions.db"
    ),
    archive: Annotated[
        Path | None,
        typer.Option("--archive", help="Past forecasts and outcomes, for [forecast] recalibrate; see `forecast`."),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option("--keep", help="Write the archive there with today's forecasts; may be --archive itself."),
    ] = None,
    sales: Annotated[Path | None, typer.Option("--sales", help="Sales history, for outcomes in --keep.")] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="A page of all decisions with reasons, to look at in a browser.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Decide nothing if anything is wrong with the files.")
    ] = False,
    problems: Annotated[
        Path | None, typer.Option("--problems", help="Write everything wrong with the files there, .csv or .parquet.")
    ] = None,
    now: Annotated[
        str | None,
        typer.Option("--now", metavar="TIME", help="The time decisions are made for, ISO 8601; else the clock's."),
    ] = None,
    max_age: Annotated[
        int, typer.Option("--max-age", min=0, metavar="PERIODS", help="How many periods ago forecasts may begin.")
    ] = 2,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget a run that was cut off.")] = False,
) -> None:
    """Decide every series: one row each in OUT, one record each in the log.

    Started again after it was cut off, it goes on where it stopped.

    Exit codes: 0 all decided; 1 done, but some are on HOLD or could not be used, or too many fell back; 2 unusable
    settings or files; 3 --strict found something; 130 stopped.
    """
    from datetime import UTC, datetime

    from ucsearch.planner.decide.job import StrictError, run_decide
    from ucsearch.planner.files.table import check_writable, refuse_overwriting
    from ucsearch.planner.settings import load_settings

    with reported(), progress_bar("deciding") as progress:
        inputs = {"SETTINGS": settings, "--forecasts": forecasts, "--states": states, "--archive": archive}
        outputs = {"--out": out, "--problems": problems, "--html": html}
        refuse_overwriting(outputs, {**inputs, "--sales": sales, "--keep": keep}, logs={"--log": log})
        refuse_overwriting({"--keep": keep}, {**inputs, "--archive": None, "--sales": sales, "--log": log})
        for path in filter(None, (out, problems)):
            check_writable(path)
        found = load_settings(settings)
        moment = read_time(now)
        if moment is None and found.gate.max_trace_age_s is not None:
            moment = datetime.now(UTC)
        try:
            report = run_decide(
                found, forecasts, states, out, log, archive=archive, keep=keep, sales=sales,
                html=html, strict=strict, fresh=fresh, now=moment,
                clock=lambda: datetime.now(UTC), max_age=max_age, progress=progress,
            )  # fmt: skip
        except StrictError as error:
            print_problems(error.problems, 0, problems)
            typer.echo("Error: --strict, so nothing was decided", err=True)
            raise typer.Exit(STRICT) from error
    print_problems(report.problems, report.more_problems, problems)
    if report.resumed:
        typer.echo(f"{report.resumed} series were decided before the run was cut off")
    total = sum(report.outcomes.values())
    parts = ", ".join(f"{count} {outcome}" for outcome, count in report.outcomes.items())
    typer.echo(f"{total} series: {parts}")
    for reason, count in report.reasons.items():
        if reason != "none":
            typer.echo(f"  {count} {reason}")
    if report.fallback_words:
        typer.echo(report.fallback_words)
    if report.horizon_words:
        typer.echo(f"Note: {report.horizon_words}", err=True)
    if report.coarse_words:
        typer.echo(f"Note: {report.coarse_words}", err=True)
    if html is not None:
        typer.echo(f"page in {html}")
    typer.echo(f"decisions in {report.out}, records in {report.log}")
    if report.falls_back_too_often:
        told = {r: n for r, n in report.reasons.items() if r != "invalid_input"}
        print_fallbacks(report.fallback_share, told, found)
    if report.needs_a_person or report.falls_back_too_often:
        raise typer.Exit(NEEDS_A_PERSON)


def backtest(
    settings: SettingsArgument,
    data: Annotated[Path, typer.Option("--data", "-d", help="Sales history, .csv or .parquet.")],
    states: Annotated[
        Path | None, typer.Option("--states", "-s", help="States file, for lead times and costs by series.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Results by series, .csv or .parquet.")] = None,
    plot: Annotated[Path, typer.Option("--plot", help="Where to draw it.")] = Path("backtest.svg"),
    no_plot: Annotated[bool, typer.Option("--no-plot", help="Draw nothing.")] = False,
    html: Annotated[
        Path | None, typer.Option("--html", help="A page of all policies and series, to look at in a browser.")
    ] = None,
    earlier: Annotated[
        int | None,
        typer.Option("--earlier", min=0, help="Periods before the counted ones that rules are tuned on; 0: none."),
    ] = None,
    service_level: Annotated[
        float | None,
        typer.Option("--service-level", help="Share of periods without a shortage to reach, instead of task.shortage."),
    ] = None,
) -> None:
    """Replay the last periods of a history: your policy against rules, as they are and tuned, and against hindsight.

    Rules are tuned on the periods before the counted ones. Started again after it was stopped, it goes on where it
    stopped.

    Exit codes: 0 done; 1 done, but some series could not be used or too many decisions fell back; 2 unusable settings
    or files; 130 stopped.
    """
    from ucsearch.cli.memory import keep_freed_memory
    from ucsearch.planner.backtest.job import run_backtest
    from ucsearch.planner.files.table import check_writable, refuse_overwriting
    from ucsearch.planner.settings import load_settings

    with reported():
        drawn = None if no_plot else plot
        inputs = {"SETTINGS": settings, "--data": data, "--states": states}
        refuse_overwriting({"--out": out, "--plot": drawn, "--html": html}, inputs)
        if out is not None:
            check_writable(out)
        found = load_settings(settings)
        if not found.task.places_orders:
            from ucsearch.cli.backtest_any import backtest_any
            from ucsearch.errors import InputError

            if service_level is not None:  # better said than an option that does nothing
                raise InputError("--service-level", service_level, "nothing for this task: only orders have one")
            backtest_any(found, data, states, out, earlier, html, drawn)
            return
        keep_freed_memory()
        with progress_bar("replaying") as progress:
            result = run_backtest(
                found, data, states=states, progress=progress, earlier=earlier, service_level=service_level,
                keep=Path(".") if out is None else out.parent,
            )  # fmt: skip
        print_problems(result.problems, 0, None)
        typer.echo(result.text())
        if out is not None:
            typer.echo(f"{result.write(out)} rows written to {out}")
        if html is not None:
            from ucsearch.planner.backtest.page import write_backtest_page

            write_backtest_page(result, html)
            typer.echo(f"page in {html}")
        if not no_plot:
            from ucsearch.planner.pictures import draw_backtest, has_matplotlib

            if has_matplotlib():
                draw_backtest(result, plot)
                typer.echo(f"picture in {plot}")
            else:
                typer.echo("no picture: matplotlib is not installed (pip install 'ucsearch[plot]')", err=True)
    if result.falls_back_too_often:
        print_fallbacks(1.0 - result.released, result.reasons, found)
    if result.falls_back_too_often or any(p.refuses for p in result.problems):
        raise typer.Exit(NEEDS_A_PERSON)


def explain(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="The audit log, such as decisions.db.")],
    series: Annotated[str, typer.Argument(metavar="SERIES", help="A series, such as SKU-017, or a record's id.")],
    settings: Annotated[
        Path | None, typer.Option("--settings", help="The settings file, for units and currency.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Where to draw it; SERIES.svg when not given.")] = None,
    no_plot: Annotated[bool, typer.Option("--no-plot", help="Draw nothing.")] = False,
) -> None:
    """Say in words why the newest decision of a series came out as it did, and draw it.

    Exit codes: 0 shown, 2 no usable log, or no such series.
    """
    from ucsearch.planner.files.table import refuse_overwriting
    from ucsearch.planner.recorded.explain import explain_series
    from ucsearch.planner.settings import load_settings

    with reported():
        refuse_overwriting({"--plot": None if no_plot else plot}, {"LOG": log, "--settings": settings})
        found = None if settings is None else load_settings(settings)
        told = explain_series(log, series, found)
        typer.echo(told.text)
        if not no_plot and told.members.shape[1] > 0:  # a refusal left nothing to draw
            from ucsearch.planner.pictures import draw_decision, has_matplotlib

            if has_matplotlib():
                path = plot if plot is not None else Path(f"{_file_name(told.series or series)}.svg")
                refuse_overwriting({"--plot": path}, {"LOG": log, "--settings": settings})
                draw_decision(told, path)
                typer.echo(f"picture in {path}")
            else:
                typer.echo("no picture: matplotlib is not installed (pip install 'ucsearch[plot]')", err=True)


def tasks(
    name: Annotated[str | None, typer.Argument(metavar="TASK", help="One task: its parameters.")] = None,
) -> None:
    """List the built-in tasks, or one task's parameters and states columns.

    Exit codes: 0 shown, 2 no such task.
    """
    from ucsearch.planner.catalogue import describe_task, list_tasks

    with reported():
        typer.echo(list_tasks() if name is None else describe_task(name))


def schema() -> None:
    """Print the JSON Schema of the settings file.

    Exit codes: 0 printed.
    """
    import json

    from ucsearch.planner.settings import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))


# -------------------------------------------------------------------- shared


@contextmanager
def reported() -> Iterator[None]:
    """Our errors as lines on stderr and exit code 2; a stop by the user as 130."""
    try:
        yield
    except UCSearchError as error:
        for line in str(error).splitlines() or [""]:
            typer.echo(f"Error: {line}", err=True)
        raise typer.Exit(UNUSABLE) from error
    except KeyboardInterrupt as error:
        typer.echo("Stopped. The same command goes on where it stopped.", err=True)
        raise typer.Exit(STOPPED) from error


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar on stderr; in a pipe, a line for every tenth of the work."""
    if not sys.stderr.isatty():
        yield _lines(what)
        return
    with rich_bar(what) as told:
        yield None if told is None else lambda done, total: told(what, done, total)


def _lines(what: str) -> Callable[[int, int], None]:
    told = 0

    def tell(done: int, total: int) -> None:
        nonlocal told
        tenth = 10 * done // max(1, total)
        if total >= _MANY and tenth > told:
            told = tenth
            typer.echo(f"{what}: {done} of {total}", err=True)

    return tell


def print_fallbacks(share: float, reasons: Mapping[str, int], settings: Settings) -> None:
    """Too many fallbacks: why, and what to change."""
    from ucsearch.planner.decide.rows import fallback_advice

    limit = settings.run.max_fallback_share
    typer.echo(f"{100.0 * share:.1f} % fell back, more than {100.0 * limit:g} % ([run] max_fallback_share):", err=True)
    for line in fallback_advice(reasons, settings):
        typer.echo(f"  {line}", err=True)


def print_problems(problems: Sequence[Problem], more: int, path: Path | None) -> None:
    for problem in problems[:SHOWN]:
        typer.echo(f"{'Refused' if problem.refuses else 'Note'}: {problem}", err=True)
    hidden = len(problems) + more - min(len(problems), SHOWN)
    if hidden > 0:
        typer.echo(f"and {hidden} more" + ("" if path else "; --problems FILE lists them"), err=True)
    if path is not None:
        from ucsearch.planner.files.table import write_table

        names = ("file", "place", "column", "series", "text")
        rows = [[getattr(p, name) for name in names] for p in problems]
        write_table(path, dict.fromkeys(names, str), lambda: iter(rows))


def read_time(text: str | None, option: str = "--now") -> datetime | None:
    """A time of ISO 8601, UTC where it names no offset; None where nothing is said."""
    if text is None:
        return None
    from datetime import UTC, datetime

    from ucsearch.errors import InputError

    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(option, repr(text), "an ISO 8601 time such as 2024-05-01T06:00:00+00:00") from error
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _file_name(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in text).lstrip(".") or "decision"
