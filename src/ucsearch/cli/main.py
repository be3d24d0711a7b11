"""The `ucsearch` command: one app, its sub-apps mounted, every error of ours one line on stderr.

`--help` must feel instant, so nothing but typer is imported before a command runs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Annotated

import typer
from typer.main import get_command, get_command_name
from typer.models import CommandInfo

from ucsearch.cli.allocate import allocate
from ucsearch.cli.data import data_app
from ucsearch.cli.evaluate import evaluate, suites
from ucsearch.cli.evidence import claims, evidence_app
from ucsearch.cli.forecast import calibrate, forecast
from ucsearch.cli.hand import override, whatif
from ucsearch.cli.job import job_app
from ucsearch.cli.log import log_app
from ucsearch.cli.log_copies import copy_entries, erase_entries, rotate_file  # noqa: F401 - adds commands to `log`
from ucsearch.cli.log_words import one_line
from ucsearch.cli.monitor import monitor
from ucsearch.cli.once import each_once
from ucsearch.cli.planner import backtest, decide, explain, new, schema, tasks
from ucsearch.cli.remote import remote_app
from ucsearch.cli.report import report
from ucsearch.cli.schedule import schedule
from ucsearch.cli.service import service_app
from ucsearch.cli.terminal import NEEDS_A_PERSON, UNUSABLE
from ucsearch.cli.tune import tune
from ucsearch.errors import UCSearchError

__all__ = ["app", "main"]


# Help without rich: rendering it costs as much time again as everything else together.
app = typer.Typer(
    name="ucsearch",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="From forecasts with uncertainty to decisions under hard rules.",
    epilog="Exit codes: 0 done, 1 done and a person is needed, 2 wrong use or input, 3 internal error.",
)
cache_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Compiled kernels kept on disk.")
app.add_typer(cache_app, name="cache")
app.add_typer(log_app, name="log", short_help="Look into an audit log; override a decision.")
app.add_typer(data_app, name="data")
app.add_typer(job_app, name="job")
app.add_typer(evidence_app, name="evidence")
app.add_typer(remote_app, name="remote")
app.add_typer(service_app, name="service")
for _command in (
    new,
    forecast,
    calibrate,
    decide,
    allocate,
    backtest,
    tune,
    explain,
    monitor,
    schedule,
    whatif,
    tasks,
    schema,
    suites,
    evaluate,
    claims,
    report,
):
    app.command()(_command)
app.command(context_settings={"ignore_unknown_options": True})(override)  # a quantity may be -5


def main(argv: Sequence[str] | None = None) -> None:
    """Console entry."""
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        each_once(get_command(only(words[0] if words else "")))(args=words, prog_name="ucsearch")
    except UCSearchError as error:
        # One line, whatever an error quotes: a log reader or a terminal sees one event.
        typer.echo(f"Error: {one_line(error)}", err=True)
        sys.exit(UNUSABLE)


def only(name: str) -> typer.Typer:
    """The app with that command or group alone, since typer makes all that there are before it runs one, which takes
    longer than most of them; the whole app where it has none of that name."""
    commands = [one for one in app.registered_commands if one.callback and name == _name(one)]
    groups = [one for one in app.registered_groups if name == one.name]
    if not commands and not groups:
        return app
    chosen = copy(app)
    chosen.registered_commands, chosen.registered_groups = commands, groups
    return chosen


def _name(one: CommandInfo) -> str:
    return one.name or get_command_name(getattr(one.callback, "__name__", ""))


def _print_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def _root(
    show: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command(short_help="A released decision, a fallback, and the verifier's verdict.")
def demo(
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Keep the log there, and a picture if matplotlib is installed."),
    ] = None,
) -> None:
    """Plan orders on embedded data: a released decision, a fallback, and the verifier's verdict on both.

    Exit codes: 0 both decisions were verified, 1 something went wrong.
    """
    from ucsearch.cli.demo import run_demo

    raise typer.Exit(run_demo(out))


@app.command(
    short_help="Re-derive every claim of recorded decisions.",
    add_help_option=False,  # the verifier has its own
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
def verify(context: typer.Context) -> None:
    """Re-derive every claim of recorded decisions, trusting none of the code that made them.

    The same as `python -m ucsearch.verify`, whose own help is shown by --help.

    Exit codes: 0 valid, 1 invalid, 2 malformed, 3 weaker than claimed, 64 wrong usage, 70 internal error.
    """
    from ucsearch.verify.__main__ import main as verifier

    raise typer.Exit(verifier(context.args))


@app.command()
def version() -> None:
    """Show the version of ucsearch and of Python."""
    import platform
    from importlib.metadata import version as installed

    typer.echo(f"ucsearch {installed('ucsearch')}, Python {platform.python_version()}")


@cache_app.command("dir")
def cache_folder() -> None:
    """Show where compiled kernels are kept.

    Set UCSEARCH_CACHE_DIR to choose another place. Exit codes: 0 shown, 1 there is no writable place.
    """
    from ucsearch.cachedir import cache_dir

    folder = cache_dir()
    if folder is None:
        typer.echo("Error: no writable folder; kernels are compiled in memory, once per process", err=True)
        raise typer.Exit(NEEDS_A_PERSON)
    typer.echo(str(folder))


@cache_app.command()
def warm(
    settings: Annotated[Path, typer.Argument(metavar="SETTINGS", help="The settings file, such as inventory.toml.")],
    states: Annotated[
        Path | None, typer.Option("--states", "-s", help="States, for every kind of series in them.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FOLDER", help="Into this folder, to be shipped to workers.")
    ] = None,
) -> None:
    """Compile the kernels of a settings file ahead of its first run.

    Workers use a shipped folder by UCSEARCH_CACHE_DIR; copy it with its times (cp -p, rsync -a).

    Exit codes: 0 compiled, or they were there; 1 unusable settings, states or folder.
    """
    from ucsearch.planner.settings import load_settings
    from ucsearch.scale.job import warm_kernels

    for name in warm_kernels(load_settings(settings), states, to):
        typer.echo(f"ready: {name}")


@cache_app.command()
def clear() -> None:
    """Delete all compiled kernels; they are compiled again when needed.

    Exit codes: 0 done.
    """
    from ucsearch.engine.compiled.cache import clear_cache

    count = clear_cache()
    typer.echo(f"{count} kernel{'' if count == 1 else 's'} deleted")
