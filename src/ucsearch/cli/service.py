"""`ucsearch service`: set up, check and run the decision service."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from ucsearch.cli.service_demo import demo

__all__ = ["service_app"]

service_app = typer.Typer(no_args_is_help=True, help="The decision service (extra: ucsearch[service]).")
token_app = typer.Typer(no_args_is_help=True, help="Tokens: who may use the service.")
service_app.add_typer(token_app, name="token")
service_app.command()(demo)

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the service.")]
StoreOption = Annotated[
    str | None,
    typer.Option("--store", help="Where the log is: a file, or postgresql://...; else as service.toml says."),
]


@service_app.command()
def init(folder: Folder) -> None:
    """Make the files of a new service: service.toml, a plan, an empty log and one admin token, shown once.

    Exit codes: 0 made, 1 the folder is not empty.
    """
    from ucsearch.service.start import init as make

    token = make(folder)
    typer.echo(f"{folder}: a new service; start it with: ucsearch service run {folder}")
    typer.echo(f"admin token, shown only now: {token}")


@service_app.command()
def check(folder: Folder, store: StoreOption = None) -> None:
    """Check configuration, compile kernels, verify log and checkpoint.

    Exit codes: 0 right, 1 there are warnings, 2 the service would not start.
    """
    from ucsearch.service.start import check as look

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
) -> None:
    """Run the service until it is told to stop; events are JSON lines on stderr.

    Exit codes: 0 stopped, 1 it could not start.
    """
    from ucsearch.service.metrics import set_up_logging
    from ucsearch.service.start import run as serve
    from ucsearch.service.warm import making

    set_up_logging()
    serve(folder, store=store, bind=bind, ready=lambda address: typer.echo(f"ready: {address}"))
    if making():
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
    """Replay a plan's monitor over a backtest of its forecaster: would it have stopped releases, and what would fit?

    Exit codes: 0 it may be armed as it is, 1 it would have tripped or cannot be judged.
    """
    from ucsearch.service.arming import arm as replay
    from ucsearch.service.config import load_config
    from ucsearch.service.plans import load_plan

    config, place = load_config(folder)
    table = next((p for p in config.plan if p.name == plan), None)
    if table is None:
        typer.echo(f"Error: no plan {plan!r}; there are {', '.join(p.name for p in config.plan)}", err=True)
        raise typer.Exit(1)
    found = replay(load_plan(table, place), sales)
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
    """Copy the log, with every decision that was answered, to a file; beside it its checkpoint and its SHA-256.

    Of a log that was rotated, earlier files that are still there are copied beside it under their names.
    The service may run meanwhile. Exit codes: 0 copied and verified, 1 something is not right.
    """
    from ucsearch.service.backups import backup_log

    for line in backup_log(folder, to, store=store):
        typer.echo(line)


@token_app.command("add")
def add_token(
    folder: Folder,
    name: Annotated[str, typer.Argument(help="Whose it is; overrides are signed with it.")],
    role: Annotated[str, typer.Option(help="viewer, operator, admin or agent.")] = "viewer",
    expires: Annotated[str, typer.Option(help="Time with offset, such as 2027-01-01T00:00:00+00:00.")] = "",
) -> None:
    """Make a token; its text is shown once and kept nowhere.

    Exit codes: 0 made, 1 the name is taken or something is wrong.
    """
    typer.echo(_book(folder).add(name, role, expires))


@token_app.command("list")
def list_tokens(folder: Folder) -> None:
    """Names, roles and ends; never the tokens.

    Exit codes: 0 listed, 1 there is no usable file.
    """
    for token in _book(folder).list():
        typer.echo(f"{token.name}\t{token.role}\t{token.expires or 'no end'}")


@token_app.command("revoke")
def revoke_token(folder: Folder, name: Annotated[str, typer.Argument(help="Whose.")]) -> None:
    """Remove a token; a running service forgets it within seconds.

    Exit codes: 0 removed, 1 there is none of that name.
    """
    _book(folder).revoke(name)
    typer.echo(f"{name}: revoked")


def _book(folder: Path):  # type: ignore[no-untyped-def]  # its class is imported only when needed
    from ucsearch.service.tokens import FILE, TokenBook

    return TokenBook(folder / FILE)
