"""`ucsearch whatif | override`: a recorded decision with other numbers, and a person's order in its place."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ucsearch.cli.planner import reported
from ucsearch.cli.terminal import NEEDS_A_PERSON
from ucsearch.formatting import figure

if TYPE_CHECKING:
    from ucsearch.task import Task

__all__ = ["override", "put_in_place", "whatif"]


LogArgument = Annotated[Path, typer.Argument(metavar="LOG", help="The audit log, such as decisions.db.")]
SeriesArgument = Annotated[str, typer.Argument(metavar="SERIES", help="A series, such as SKU-017, or a record's id.")]
TaskOption = Annotated[
    str | None,
    typer.Option("--task", metavar="PACKAGE:OBJECT", help="The task whose rules must allow it, if not built in."),
]


def whatif(
    log: LogArgument,
    series: SeriesArgument,
    changes: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter or state field, such as capacity=500; repeat."),
    ] = None,
    settings: Annotated[
        Path | None, typer.Option("--settings", help="The settings file, for units and currency.")
    ] = None,
    task: TaskOption = None,
) -> None:
    """Decide the newest decision of a series again with other numbers, side by side with the original.

    Names are those of the settings and the states file. Forecast, policy and gate are the record's; order
    sizes that were fitted to the series are fitted again.
    Nothing is written to the log.

    Exit codes: 0 shown, 2 no usable log, series or value.
    """
    from ucsearch.planner.recorded.whatif import parse_changes, what_if
    from ucsearch.planner.settings import load_settings

    with reported():
        given = parse_changes(changes or [])
        found = None if settings is None else load_settings(settings)
        told = what_if(log, series, given, settings=found, task=None if task is None else load_task(task))
    typer.echo(told.text())


def override(
    log: LogArgument,
    series: SeriesArgument,
    who: Annotated[str, typer.Option("--who", help="Who decided so.")],
    why: Annotated[str, typer.Option("--why", help="For which reason.")],
    quantity: Annotated[
        str | None, typer.Argument(metavar="QUANTITY", help="Units to order instead; other tasks: the action.")
    ] = None,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Take earlier overrides back.")] = False,
    task: TaskOption = None,
    force: Annotated[
        bool, typer.Option("--force", help="Record it although it breaks the rules; it is marked as forced.")
    ] = False,
    settings: Annotated[
        Path | None,
        typer.Option("--settings", help="The settings file: [columns] decimal says how numbers are written."),
    ] = None,
) -> None:
    """Record that a person orders QUANTITY instead of what was decided, also where nothing could be decided.

    The task's own rules are asked in the recorded state; a quantity that breaks them, or is off the unit of the sizes
    offered, needs --force. The decision itself stays as it is; the last override counts.

    Exit codes: 0 recorded, 1 the rules do not allow it, 2 no usable log, series or quantity.
    """
    put_in_place(
        log, series, who=who, why=why, quantity=quantity, withdraw=withdraw, task=task, force=force, settings=settings
    )


def put_in_place(
    log: Path, decision: str, *, who: str, why: str, withdraw: bool, task: str | None,
    action: str | None = None, quantity: str | None = None, force: bool = False, settings: Path | None = None,
) -> None:  # fmt: skip
    """What `override` and `log override` do."""
    from ucsearch.errors import InputError
    from ucsearch.planner.recorded.explain import plain
    from ucsearch.planner.recorded.override import override_decision
    from ucsearch.planner.settings import load_settings
    from ucsearch.records.overrides import NotAllowed

    with reported():
        for name, text in (("--who", who), ("--why", why)):
            if not text.strip():
                raise InputError(name, repr(text), "a name" if name == "--who" else "a reason")
        if withdraw is (action is not None or quantity is not None):
            raise InputError("action", action or quantity, "an action, or --withdraw")
        decimal = "auto" if settings is None else load_settings(settings).columns.decimal
        try:
            done = override_decision(
                log, decision, who=who, why=why, clock=lambda: datetime.now(UTC), action=action, quantity=quantity,
                task=None if task is None else load_task(task), force=force,
                decimal=None if decimal == "auto" else decimal,
            )  # fmt: skip
        except NotAllowed as error:
            typer.echo(f"Refused: {plain(str(error))}. Nothing was recorded; --force records it as forced.", err=True)
            raise typer.Exit(NEEDS_A_PERSON) from error
    made = done.record
    off = ", which is off the grid" if made["off_grid"] else ""
    if done.beyond is not None:
        side = "more than the largest" if made["action"] > done.beyond else "less than the smallest"
        off += f" and {side} that was offered, {figure(done.beyond)}"
    off += ", forced against the rules" if made.get("forced") else ""
    what = "withdrew what replaced" if withdraw else "replaced"
    by = "" if withdraw else f" by {made['label'] or made['action']}{off}"
    if done.order is not None and done.order != made["action"]:
        by += f"; that orders {figure(done.order)}"
    series = done.row.record.get("series") or ""
    of = f"{plain(series)} (decision {done.row.id[:12]})" if series else done.row.id[:12]
    typer.echo(f"entry {done.seq}, id {done.id}: {plain(who)} {what} {of}{plain(by)}")


def load_task(spec: str) -> Task:
    """The task object that "package:object" names, looked for in the current folder too."""
    from ucsearch.errors import InputError
    from ucsearch.task import Task
    from ucsearch.verify.trust import NoTask, find_object

    if ":" not in spec:
        raise InputError("--task", repr(spec), "package:object, such as mytasks.battery:battery")
    try:
        found = find_object(spec)
    except NoTask as error:
        raise InputError("--task", repr(spec), f"an object that can be imported ({error})") from error
    if not isinstance(found, Task):
        raise InputError("--task", f"a {type(found).__name__}", "a uc.Task")
    return found
