"""`ucsearch explain | orders | override | monitor | tasks`: decisions, reasons, what stands, what came."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ucsearch.cli.options import (
    ChangesOption,
    SettingsOption,
    TaskOption,
    checked_files,
    log_of,
    own_task,
    page_path,
    settings_of,
)
from ucsearch.cli.terminal import NEEDS_A_PERSON, SHOWN, UNUSABLE, printable, reported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ucsearch.planner.files.numbers import Decimal
    from ucsearch.planner.recorded.shared import Load
    from ucsearch.planner.settings import Settings

__all__ = ["explain", "monitor", "orders", "override", "tasks"]


def explain(
    series: Annotated[list[str] | None, typer.Argument(metavar="SERIES", help="A series, or a record's id.")] = None,
    settings: SettingsOption = None,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="What if: a parameter or state field; repeat."),
    ] = None,
    plan: Annotated[bool, typer.Option("--plan", help="Write whole plans to files.plan instead.")] = False,
    task: TaskOption = None,
) -> None:
    """Explain the newest decision of a series.

    With --set NAME=VALUE (capacity=500, on_hand=10) it is decided again with other numbers, side by side with the
    original; nothing is written to the log. A key with a point, such as files.log=other.db, changes a setting instead.
    With --plan the newest plans of these series, or of all, become a table with a row for each period.

    Exit codes: 0 shown; 2 no usable log, series or value.
    """
    from ucsearch.errors import InputError

    with reported():
        keys = [text for text in changes or [] if "." in text.partition("=")[0]]
        numbers = [text for text in changes or [] if text not in keys]
        job = settings_of(settings, keys, plans=False)
        log = log_of(job)
        if plan:
            if numbers:
                raise InputError("--set", repr(numbers[0]), "nothing beside --plan: plans are shown as recorded")
            _write_plans(log, job, series or [])
            return
        if series is None or len(series) != 1:
            raise InputError("SERIES", ", ".join(series or []) or "nothing", "one series, or --plan for several")
        if numbers:
            from ucsearch.planner.recorded.whatif import parse_changes, what_if

            own = own_task(task, job)
            typer.echo(what_if(log, series[0], parse_changes(numbers), settings=job, task=own).text())
            return
        _explain(log, series[0], job)


def _explain(log: Path, series: str, settings: Settings) -> None:
    from ucsearch.planner.recorded.explain import explain_series
    from ucsearch.planner.recorded.explain_page import write_explain_page

    told = explain_series(log, series, settings)
    typer.echo(told.text)
    path = page_path(settings, f"{_file_name(told.series or series)}.html")
    if path is not None:
        write_explain_page(told, path)
        typer.echo(f"page in {path}")


def _write_plans(log: Path, settings: Settings, series: Sequence[str]) -> None:
    from ucsearch.planner.recorded.schedule import write_schedule

    out = settings.path("plan") or Path("plan.csv")
    rows, count = write_schedule(log, out, settings=settings, series=series)
    typer.echo(f"{rows} rows of {count} series in {out}")


def orders(settings: SettingsOption = None, changes: ChangesOption = None) -> None:
    """Write the orders as they stand, overrides included.

    Reads files.decisions and the log, writes files.orders (.csv or .xlsx), numbers as your files have them; with
    [orders] by a file for each supplier, truck or whatever that column of files.states names.

    Exit codes: 0 written; 1 written, but some series wait for a person, or people ordered more than a shared limit
    holds; 2 unusable settings or files.
    """
    from ucsearch.planner.recorded.orders import run_orders

    with reported():
        job = settings_of(settings, changes)
        log = log_of(job)
        states, decisions, out = job.path("states"), job.path("decisions"), job.path("orders")
        if decisions is None or out is None:
            from ucsearch.errors import InputError

            raise InputError("files.orders", "nothing", "files for decisions and orders")
        there = states if states is not None and (states.exists() or job.orders.by) else None
        done = run_orders(job, decisions, log, out, there)
    for path, rows in done.files:
        typer.echo(f"{rows} orders in {path}")
    if done.idle:
        typer.echo(f"{done.idle} series need{'s' if done.idle == 1 else ''} no order")
    if done.overridden:
        typer.echo(f"{done.overridden} overridden by a person")
    for name in done.waiting[:SHOWN]:
        typer.echo(f"Nothing is sent for {printable(name)} until a person decides (ucsearch override)", err=True)
    if len(done.waiting) > SHOWN:
        typer.echo(f"and for {len(done.waiting) - SHOWN} more", err=True)
    _warn_of(done.overfilled)
    if done.waiting or done.overfilled:
        raise typer.Exit(NEEDS_A_PERSON)


def _warn_of(overfilled: Sequence[Load]) -> None:
    for load in overfilled:
        typer.echo(f"{printable(load.words)}: cut another order, or find more room", err=True)


def override(
    series: Annotated[str, typer.Argument(metavar="SERIES", help="A series, or a record's id.")],
    who: Annotated[str, typer.Option("--who", help="Who ordered it.")],
    why: Annotated[str, typer.Option("--why", help="The reason.")],
    quantity: Annotated[
        str | None, typer.Argument(metavar="QUANTITY", help="Units to order instead; other tasks: the action.")
    ] = None,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Withdraw earlier overrides.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Record it although the rules refuse it, as forced.")] = False,
    settings: SettingsOption = None,
    changes: ChangesOption = None,
    task: TaskOption = None,
) -> None:
    """Record that a person orders another quantity.

    Also where nothing could be decided. The task's own rules are asked in the recorded state; a quantity that breaks
    them, or is off the unit of the sizes offered, needs --force. The record of the decision stays as it is; the last
    override counts: it replaces the row in files.decisions and on its page, and `orders` writes it.

    Exit codes: 0 recorded; 2 the rules do not allow it, or no usable log, series or quantity.
    """
    from ucsearch.errors import InputError
    from ucsearch.planner.recorded.decisions_file import update_decisions
    from ucsearch.planner.recorded.override import override_decision
    from ucsearch.planner.recorded.shared import overfilled_limits
    from ucsearch.records.overrides import NotAllowed

    with reported():
        for name, text in (("--who", who), ("--why", why)):
            if not text.strip():
                raise InputError(name, repr(text), "a name" if name == "--who" else "a reason")
        if withdraw is (quantity is not None):
            raise InputError("QUANTITY", quantity or "nothing", "a quantity, or --withdraw")
        job, updated = settings_of(settings, changes, plans=False), False
        try:
            done = override_decision(
                log_of(job), series, who=who, why=why, clock=lambda: datetime.now(UTC), quantity=quantity,
                task=own_task(task, job), force=force,
                decimal=_decimal(job),
            )  # fmt: skip
        except NotAllowed as error:
            typer.echo(f"Refused: {printable(error)}. Nothing was recorded; --force records it as forced.", err=True)
            raise typer.Exit(UNUSABLE) from error
        if (decisions := job.path("decisions")) is not None:
            page = page_path(job, "decisions.html")
            shown = page if page is not None and page.exists() else None
            updated = update_decisions(job, decisions, log_of(job), done.row, shown)
        loads = overfilled_limits(log_of(job), job)
    typer.echo(printable(done.text(who)))
    if updated:
        typer.echo(f"its row in {decisions} says so")
    _warn_of(loads)


def monitor(
    settings: SettingsOption = None,
    changes: ChangesOption = None,
    plan: Annotated[
        str | None, typer.Option("--plan", help="Only this plan's decisions, where a service wrote several.")
    ] = None,
    steps: Annotated[int | None, typer.Option("--steps", min=1, help="Watch the sum of this many steps.")] = None,
) -> None:
    """Compare recorded forecasts with outcomes.

    Says which series should no longer be released, since when, and why. Reads files.outcomes (else files.sales, where
    there is such a file) and outcomes that the log holds; writes files.watched if it is named. The outcomes file has
    series, date and value (or unique_id, ds, y), where forecasts name their cutoff; or series, step and value, where
    the n-th outcome belongs to the n-th decision; or decision, step and value.

    Exit codes: 0 nothing is tripped now; 1 a series or all together are tripped; 2 unusable log or files.
    """
    import dataclasses

    from ucsearch.monitor import Settings as Watch
    from ucsearch.planner.files.table import Style
    from ucsearch.planner.monitor.job import run_watch, settings_in
    from ucsearch.planner.monitor.words import watch_text, write_watch, write_watch_page

    with reported():
        job = settings_of(settings, changes, plans=False)
        log = log_of(job)
        outcomes, out = _outcomes(job), job.path("watched")
        page = page_path(job, "monitor.html")
        others = [] if page is None else [("the page", page)]
        reads = ["outcomes"] if job.path("outcomes") is not None else ["sales"]
        checked_files(job, reads, ["watched"], log=log, others=others)
        # What is not said is as the service watches that plan, where the log is a service's.
        known = settings_in(log, plan) or Watch()
        watched = known if steps is None else dataclasses.replace(known, lags=steps)
        report = run_watch(log, outcomes, settings=watched, period=job.period, plan=plan)
        typer.echo(watch_text(report))
        if out is not None:
            typer.echo(f"{write_watch(report, out, Style.like([outcomes], job.columns.decimal))} rows written to {out}")
        if page is not None:
            write_watch_page(report, page)
            typer.echo(f"page in {page}")
    if report.tripped:
        raise typer.Exit(NEEDS_A_PERSON)


def _outcomes(settings: Settings) -> Path | None:
    """files.outcomes, else files.sales where there is such a file."""
    if (outcomes := settings.path("outcomes")) is not None:
        return outcomes
    sales = settings.path("sales")
    return sales if sales is not None and sales.exists() else None


def tasks(
    name: Annotated[str | None, typer.Argument(metavar="TASK", help="One task: its parameters.")] = None,
    schema: Annotated[bool, typer.Option("--schema", help="The JSON Schema of the settings file.")] = False,
) -> None:
    """List the built-in tasks, or a task's parameters.

    Exit codes: 0 shown, 2 no such task.
    """
    from ucsearch.planner.catalogue import describe_task, list_tasks

    with reported():
        if schema:
            import json

            from ucsearch.planner.settings import json_schema

            typer.echo(json.dumps(json_schema(), indent=2))
            return
        typer.echo(list_tasks() if name is None else describe_task(name))


def _decimal(settings: Settings) -> Decimal | None:
    """How numbers are typed: as the settings say, or with the commas of the user's files; None where neither tells."""
    from ucsearch.planner.files.table import Style

    said = settings.columns.decimal
    if said != "auto":
        return said
    commas = Style.like([settings.path("states"), settings.path("decisions")]).decimal == ","
    return "," if commas else None


def _file_name(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in text).lstrip(".") or "decision"
