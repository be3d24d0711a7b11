"""The `ucsearch` command: one app, its sub-apps mounted, every error of ours one line on stderr.

`--help` must feel instant, so nothing but typer is imported before a command runs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_command_name
from typer.models import CommandInfo

from ucsearch.cli.data import data
from ucsearch.cli.evidence import evidence_app
from ucsearch.cli.job import job_app
from ucsearch.cli.log import log_app
from ucsearch.cli.options import ChangesOption, SettingsOption, log_of, settings_of
from ucsearch.cli.planner import backtest, calibrate, decide, forecast, new, tune
from ucsearch.cli.recorded import explain, monitor, orders, override, tasks
from ucsearch.cli.remote import remote_app
from ucsearch.cli.service import service_app
from ucsearch.cli.terminal import INTERNAL, NEEDS_A_PERSON, UNUSABLE, one_line
from ucsearch.errors import UCSearchError

__all__ = ["GROUPS", "app", "main"]


GROUPS = {
    "Plan": ("new", "forecast", "calibrate", "backtest", "tune", "decide"),
    "Look": ("explain", "orders", "override", "monitor", "tasks", "demo"),
    "Audit": ("verify", "log"),
    "Serve": ("service", "remote", "job", "cache"),
    "Research": ("evidence", "data"),
}


class Grouped(TyperGroup):
    """Help with the commands under the headings of `GROUPS`."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.commands))
        for heading, names in GROUPS.items():
            shown = [(n, self.commands[n]) for n in names if n in self.commands]
            if shown:
                with formatter.section(heading):
                    limit = formatter.width - 6 - width
                    formatter.write_dl([(n, c.get_short_help_str(limit)) for n, c in shown])


# Help without rich: rendering it costs as much time again as everything else together.
app = typer.Typer(
    name="ucsearch",
    cls=Grouped,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="From forecasts with uncertainty to decisions under hard rules.",
    epilog="Exit codes: 0 done, 1 done and a person is needed, 2 wrong use or input, 3 internal error.",
)
app.add_typer(log_app, name="log")
app.add_typer(job_app, name="job")
app.add_typer(evidence_app, name="evidence")
app.add_typer(remote_app, name="remote")
app.add_typer(service_app, name="service")
for _command in (new, forecast, calibrate, backtest, tune, decide, explain, orders, monitor, tasks, data):
    app.command()(_command)
app.command(context_settings={"ignore_unknown_options": True})(override)  # a quantity may be -5


def main(argv: Sequence[str] | None = None) -> None:
    """Console entry."""
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        get_command(only(words[0] if words else ""))(args=words, prog_name="ucsearch")
    except UCSearchError as error:
        # One line, whatever an error quotes: a log reader or a terminal sees one event.
        typer.echo(f"Error: {one_line(error)}", err=True)
        sys.exit(UNUSABLE)
    except Exception as error:
        import traceback

        traceback.print_exc()
        typer.echo(f"Internal error: {one_line(repr(error))}. This is a fault of ucsearch; please report it.", err=True)
        sys.exit(INTERNAL)


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
        import platform
        from importlib.metadata import version as installed

        typer.echo(f"ucsearch {installed('ucsearch')}, Python {platform.python_version()}")
        raise typer.Exit


@app.callback()
def _root(
    show: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    folder: Annotated[Path | None, typer.Argument(metavar="FOLDER", help="Keep the log there.")] = None,
) -> None:
    """Plan orders on embedded data and verify them.

    A released decision, a fallback, and the verifier's verdict on both.

    Exit codes: 0 both decisions were verified, 1 something went wrong.
    """
    from ucsearch.cli.demo import run_demo

    raise typer.Exit(run_demo(folder))


_OF_SEGMENTS = """
options for segments:
  --rows N              decide only N rows of each part again; -1: all
"""


@app.command(
    short_help="Derive every claim of recorded decisions again.",
    add_help_option=False,  # the verifier has its own
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
def verify(
    context: typer.Context,
    rows: Annotated[
        int, typer.Option("--rows", min=-1, help="Rows of each part of a segment to decide again; -1: all.")
    ] = -1,
) -> None:
    """Re-derive every claim of recorded decisions, trusting none of the code that made them.

    The same as `python -m ucsearch.verify`, whose own help is shown by --help; then the rows of segments. Where
    no file is named it reads the log that this folder's settings name. Of a log in PostgreSQL name the address.

    Exit codes: 0 valid; 1 a claim is false or could not be verified; 2 malformed or wrong usage; 3 internal error.
    """
    from ucsearch.cli.log_words import files_of_databases, names_a_file, verify_rows, with_all_files
    from ucsearch.verify.__main__ import main as verifier

    arguments = context.args
    if not names_a_file(arguments) and not {"-h", "--help"} & {*arguments}:
        arguments = [*arguments, str(log_of(settings_of(None, None, plans=False)))]
    with files_of_databases(with_all_files(arguments)) as words:
        try:
            code = verifier(words, rows_follow=rows == -1)
        except SystemExit:  # help, or wrong usage
            if {"-h", "--help"} & {*words}:
                typer.echo(_OF_SEGMENTS)
            raise
        of_rows = verify_rows(words, rows) if code in (0, NEEDS_A_PERSON) else 0
    raise typer.Exit(code or of_rows)


@app.command()
def cache(
    settings: SettingsOption = None,
    changes: ChangesOption = None,
) -> None:
    """Compile the kernels of a settings file ahead.

    For its task, and for every kind of series in files.states where there is such a file. UCSEARCH_CACHE_DIR names the
    folder; workers use a copy of it by the same variable. Copy it with its times (cp -p, rsync -a). It may be deleted:
    what is missing is compiled again.

    Exit codes: 0 compiled, or they were there; 2 unusable settings, states or folder.
    """
    from ucsearch.cli.terminal import reported
    from ucsearch.engine.cache import cache_dir
    from ucsearch.scale.job import warm_kernels

    with reported():
        job = settings_of(settings, changes)
        states = job.path("states")
        for name in warm_kernels(job, states if states is not None and states.exists() else None):
            typer.echo(f"ready: {name}")
    typer.echo(f"kernels in {cache_dir() or 'no folder: none can be written'}")
