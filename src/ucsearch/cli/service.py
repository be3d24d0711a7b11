"""`ucsearch service`: set up, check and run the decision service."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ucsearch.cli.service_demo import demo
from ucsearch.cli.terminal import UNUSABLE

if TYPE_CHECKING:
    from ucsearch.service.tokens import Scope

__all__ = ["service_app"]

service_app = typer.Typer(no_args_is_help=True, help="The decision service (extra: ucsearch[service]).")
service_app.command()(demo)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the service.")]
StoreOption = Annotated[
    str | None,
    typer.Option("--store", help="Where the log is: a file, or postgresql://...; else as service.toml says."),
]


@service_app.command()
def init(folder: Folder) -> None:
    """Create the files of a new service.

    service.toml, a plan, an empty log, and one admin token, which is shown once.

    Exit codes: 0 made, 2 the folder is not empty.
    """
    from ucsearch.service.run import init as make

    token = make(folder)
    typer.echo(f"{folder}: a new service; start it with: ucsearch service run {folder}")
    typer.echo(f"admin token, shown only now: {token}")


@service_app.command()
def check(folder: Folder, store: StoreOption = None) -> None:
    """Check configuration, compile kernels, verify log and checkpoint.

    Exit codes: 0 right, 1 there are warnings, 2 the service would not start.
    """
    from ucsearch.service.run import check as look

    worst = 0
    for finding in look(folder, store=store):
        worst = max(worst, finding.level)
        typer.echo(f"{('ok', 'warning', 'error')[finding.level]}: {finding.text}")
    raise typer.Exit(worst)


@service_app.command()
def run(
    folder: Folder,
    store: StoreOption = None,
    bind: Annotated[str | None, typer.Option(help="Address and port instead of server.bind; port 0: any.")] = None,
    admin_bind: Annotated[
        str | None, typer.Option("--admin-bind", help="The same instead of server.admin_bind: health and metrics.")
    ] = None,
) -> None:
    """Run the service until it is told to stop.

    Events are JSON lines on stderr.

    Exit codes: 0 stopped, 2 it could not start.
    """
    from ucsearch.service.observability import set_up_logging
    from ucsearch.service.run import run as serve
    from ucsearch.service.writer.plans import is_compiling

    set_up_logging()
    serve(folder, store=store, bind=bind, admin_bind=admin_bind, ready=lambda address: typer.echo(f"ready: {address}"))
    if is_compiling():
        # Everything is closed. Python's own way out would take the compiler's memory away under its feet: an abort.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


@service_app.command()
def arm(
    folder: Folder,
    plan: Annotated[str, typer.Argument(help="A plan with a table [plan.monitor].")],
    sales: Annotated[Path, typer.Option("--sales", help="Past sales, as for `ucsearch forecast`.")],
) -> None:
    """Replay a plan's monitor over past forecasts.

    Over a backtest of its forecaster: would it have stopped releases, and what would fit?

    Exit codes: 0 it may be armed as it is, 1 it would have tripped or cannot be judged, 2 no such
    plan or no usable file.
    """
    from ucsearch.monitor.arming import arm as replay
    from ucsearch.service.config import load_config
    from ucsearch.service.writer.plans import load_plan

    config, place = load_config(folder)
    table = next((p for p in config.plan if p.name == plan), None)
    if table is None:
        typer.echo(f"Error: no plan {plan!r}; there are {', '.join(p.name for p in config.plan)}", err=True)
        raise typer.Exit(UNUSABLE)
    made = load_plan(table, place)
    if made.watching is None:
        typer.echo(f"Error: plan {plan!r} has no monitor; add a table [plan.monitor] to it", err=True)
        raise typer.Exit(UNUSABLE)
    found = replay(made.settings, made.watching, sales)
    typer.echo(f"{found.outcomes} outcomes in {found.periods} periods; {found.series} series tripped on their own")
    if not found.tripped:
        typer.echo(f"the pool did not trip (evidence {found.evidence:.4g} at the end): the monitor may be armed")
        return
    fits = "none that was tried" if found.fits is None else f"max_undercoverage = {found.fits:g}"
    typer.echo(f"Error: the pool tripped after {found.after} periods ({found.about}); would not trip: {fits}", err=True)
    raise typer.Exit(1)


@service_app.command()
def backup(
    folder: Folder,
    to: Annotated[Path, typer.Argument(metavar="FILE", help="A new file for the copy.")],
    store: StoreOption = None,
) -> None:
    """Copy the log while the service runs.

    With every decision that was answered; beside the copy lie its checkpoint and its SHA-256.

    Of a log that was rotated, earlier files that are still there are copied beside it under their names.
    The service may run meanwhile. Exit codes: 0 copied and verified, 2 something is not right.
    """
    from ucsearch.service.backups import backup_log

    for line in backup_log(folder, to, store=store):
        typer.echo(line)


@service_app.command()
def drill(
    folder: Folder,
    copy: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A copy; else the newest of backup.folder.")
    ] = None,
    store: StoreOption = None,
) -> None:
    """Test whether a copy of the log can be restored.

    Into a folder that is thrown away, and verified there: what one does every quarter.

    Exit codes: 0 the copy would do, 2 it would not.
    """
    from ucsearch.service.backups import drill as restore

    for line in restore(folder, copy, store=store):
        typer.echo(line)


@service_app.command()
def token(
    folder: Folder,
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Whose it is; overrides are signed with it.")
    ] = None,
    role: Annotated[str, typer.Option("--role", help="viewer, operator, admin or agent.")] = "viewer",
    expires: Annotated[str, typer.Option("--expires", help="Time with offset: 2027-01-01T00:00:00+00:00.")] = "",
    plans: Annotated[list[str] | None, typer.Option("--plan", help="Only this plan; repeat.")] = None,
    series: Annotated[list[str] | None, typer.Option("--series", help="Only series that begin so; repeat.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="A new file for it, with mode 0600.")] = None,
    revoke: Annotated[bool, typer.Option("--revoke", help="Remove the token of that name instead.")] = False,
) -> None:
    """Create, list or revoke access tokens.

    Without a name all tokens are listed, with role, end and what they are for. A new token's text is shown once, or
    written to a file that only you may read, and kept nowhere else. A running service forgets a revoked one in seconds.

    Exit codes: 0 done, 2 the name is taken, there is none of that name, or something is wrong.
    """
    from ucsearch.errors import InputError

    if name is None:
        if revoke:
            raise InputError("NAME", "nothing", "the name of a token, with --revoke")
        for one in _book(folder).list():
            typer.echo(f"{one.name}\t{one.role}\t{one.expires or 'no end'}\t{_words(one.scope)}")
        return
    if revoke:
        _book(folder).revoke(name)
        typer.echo(f"{name}: revoked")
        return
    if out is not None and out.exists():
        raise InputError("--out", str(out), "a new file")
    text = _book(folder).add(name, role, expires, plans or (), series or ())
    if out is None:
        typer.echo(text)
        return
    try:
        with os.fdopen(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{text}\n")
    except OSError as error:  # it is shown nowhere again
        _book(folder).revoke(name)
        raise InputError("--out", f"{out} ({error.strerror})", "a file that can be written") from error
    typer.echo(f"{name}: token in {out}")


def _words(scope: Scope) -> str:
    """What a token is for."""
    plans = [f"plan {name}" for name in scope.plans]
    return ", ".join(plans + [f"series {name}..." for name in scope.series]) or "everything"


def _book(folder: Path):  # type: ignore[no-untyped-def]  # its class is imported only when needed
    from ucsearch.service.tokens import FILE, TokenBook

    return TokenBook(folder / FILE)
