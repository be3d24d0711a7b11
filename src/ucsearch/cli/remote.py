"""`ucsearch remote decide | override | outcomes`: the decision service from files and the command line."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ucsearch.cli.options import ChangesOption, SettingsOption, checked_files, input_file, named_file, settings_of
from ucsearch.cli.terminal import NEEDS_A_PERSON, SHOWN, STOPPED, progress_bar, reported

if TYPE_CHECKING:
    from ucsearch.client import Answer, Client, Outcome

__all__ = ["remote_app"]

remote_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Use a running decision service: decide, override, report."
)

LOCAL = "http://127.0.0.1:8411"
_LATER = (408, 429, 502, 503, 504)  # may be answered otherwise a little later
_REFUSED = "invalid_trace"  # of `uc.Reason`: the forecast could not be used


@remote_app.callback()
def _service(
    context: typer.Context,
    url: Annotated[
        str, typer.Option("--url", envvar="UCSEARCH_URL", help="Address of the service, or UCSEARCH_URL.")
    ] = LOCAL,
    # The token is never an option of its own: others can read a command line.
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="File with the token; without it UCSEARCH_TOKEN is used.")
    ] = None,
) -> None:
    context.obj = (url, token_file)


@remote_app.command()
def decide(
    context: typer.Context,
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="Name of the plan.")],
    settings: SettingsOption = None,
    changes: ChangesOption = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Idempotency key; the same command with the same key is done once.")
    ] = None,
) -> None:
    """Send forecasts and states to be decided by a plan.

    Reads files.forecasts and files.states, writes files.decisions. Every decision is on the service's disk before it is
    shown. Many series are sent as several requests. Cut off, the same command with the same --key goes on.

    Exit codes: 0 all decided; 1 done, but some series are on HOLD, have no forecast, or one that was refused; 2
    refused, unreachable or unusable files; 130 stopped.
    """
    from ucsearch.client import ServiceProblem, ServiceUnreachable, exchanges, items_of
    from ucsearch.client.frames import series_of
    from ucsearch.planner.files.table import refuse_overwriting

    with reported():
        job = settings_of(settings, changes, plans=False)
        checked_files(job, ["forecasts", "states"], ["decisions"])  # before anything is recorded
        forecasts, states, out = input_file(job, "forecasts"), input_file(job, "states"), named_file(job, "decisions")
        refuse_overwriting({"files.decisions": out}, {"--token-file": context.obj[1]})
    with _connected(context) as client, progress_bar("deciding") as progress:
        said = exchanges.files_of(client.schema(plan))
        given, places = _frame(forecasts, said), _frame(states, said)
        items = items_of(given, places, **said)
        left_out = sorted(set(series_of(places, said["columns"])) - {item.series for item in items})
        key = client.new_key() if key is None else key
        typer.echo(f"key {key}", err=True)
        answers: list[Answer] = []
        try:
            for exchange in exchanges.decisions_of(plan, items, key):
                answered = client.send(exchange)
                answers.extend(answered)
                if progress is not None:
                    progress(len(answers), len(items))
        except (ServiceProblem, ServiceUnreachable, KeyboardInterrupt) as error:
            again = f"continue with the same command and --key {key}"
            if answers or not isinstance(error, ServiceProblem) or error.status in _LATER:
                typer.echo(f"{len(answers)} of {len(items)} series were answered; {again}", err=True)
            if isinstance(error, KeyboardInterrupt):
                raise typer.Exit(STOPPED) from error
            raise
        needs_a_person = _told(answers, left_out)
        _write(out, answers)
        typer.echo(f"decisions in {out}")
    if needs_a_person:
        raise typer.Exit(NEEDS_A_PERSON)


def _told(answers: Sequence[Answer], left_out: Sequence[str]) -> bool:
    """What came out, in words; whether a person is needed."""
    counts = Counter(a.outcome for a in answers)
    parts = ", ".join(f"{counts[o]} {o}" for o in ("RELEASED", "FALLBACK", "HOLD") if counts[o])
    typer.echo(f"{len(answers)} series: {parts}")
    for reason, count in sorted(Counter(a.reason for a in answers if a.reason != "none").items()):
        typer.echo(f"  {count} {reason}")
    lines = [f"{a.outcome} {a.series}: {a.sentence}" for a in answers if a.outcome == "HOLD" or a.reason == _REFUSED]
    lines += [f"NOT DECIDED {series}: it has a state and no forecast" for series in left_out]
    for line in lines[:SHOWN]:
        typer.echo(f"  {line}")
    if len(lines) > SHOWN:
        typer.echo(f"  and {len(lines) - SHOWN} more")
    return bool(lines)


@remote_app.command(context_settings={"ignore_unknown_options": True})  # an action may be -5
def override(
    context: typer.Context,
    series: Annotated[str, typer.Argument(metavar="SERIES", help="The series whose newest decision is replaced.")],
    action: Annotated[
        str | None, typer.Argument(metavar="ACTION", help="A number, or an action's label; not with --withdraw.")
    ] = None,
    why: Annotated[str, typer.Option("--why", help="The reason, kept with it.")] = "",
    plan: Annotated[
        str | None, typer.Option("--plan", help="The plan, where several decide a series of that name.")
    ] = None,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Withdraw earlier overrides.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Record it although the rules refuse it; it is marked as forced.")
    ] = False,
) -> None:
    """Override the newest decision of a series.

    Who did it is the token's name.

    Exit codes: 0 recorded, 2 refused (the rules, or somebody was faster), unreachable or wrong usage.
    """
    from ucsearch.errors import InputError

    with _connected(context) as client:
        if (action is None) != withdraw:
            raise InputError("ACTION", repr(action), "an action, or --withdraw without one")
        seen = client.series(series, plan)
        taken = None if action is None else _action(action, seen["newest"].get("action"))
        client.override(seen["newest"]["id"], taken, why, expects=seen.get("expects"), force=force)
        standing = client.series(series, plan)
        if standing["effective"] is None:
            typer.echo(f"{series}: nothing is in force now; a person has to decide")
        else:
            typer.echo(f"{series}: {standing.get('effective_label') or _cell(standing['effective'])} is now in force")


@remote_app.command()
def outcomes(
    context: typer.Context,
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="decision, step, value (observed_at, taken), .csv or .parquet.")
    ],
    observed_at: Annotated[
        str | None, typer.Option("--observed-at", metavar="TIME", help="ISO 8601, where the file has no such column.")
    ] = None,
) -> None:
    """Report outcomes.

    The first report of a decision's step counts for the monitor; later ones are kept beside it.

    Exit codes: 0 reported, 2 refused, unreachable or unusable file.
    """
    from ucsearch.client.frames import frame_rows

    with _connected(context) as client:
        rows = frame_rows(_frame(path), "outcomes")
        items = [_outcome(f"{path}, row {i + 1}", row, observed_at) for i, row in enumerate(rows)]
        if not items:
            typer.echo(f"{path} has no rows: nothing to report")
            return
        receipts = client.outcomes(items)
        known = sum(not r.new for r in receipts)
        typer.echo(f"{len(items)} outcomes reported" + (" (all known already)" if known == len(receipts) else ""))


def _outcome(where: str, row: Mapping[str, Any], observed_at: str | None) -> Outcome:
    from ucsearch.client import Outcome
    from ucsearch.errors import InputError

    seen = row.get("observed_at") or observed_at
    if "decision" not in row or "value" not in row or not seen:
        raise InputError(where, ", ".join(row), "decision, value and observed_at")
    step, taken = row.get("step"), cast(Any, row.get("taken"))
    if isinstance(taken, str):
        taken = _several(taken) or taken
    for name, cell in (("value", row["value"]), ("step", step), ("taken", taken)):
        if isinstance(cell, str):  # cells that are numbers were read as such
            raise InputError(f"{where}, column {name}", repr(cell)[:80], "a number")
    if row["value"] is None:
        raise InputError(f"{where}, column value", "nothing", "a number; what is not known yet is left out")
    if step is not None and (step != int(step) or step < 1):
        raise InputError(f"{where}, column step", f"{step:g}", "a whole number from 1 on")
    return Outcome(str(row["decision"]), row["value"], str(seen), 1 if step is None else int(step), taken)


def _action(text: str, decided: Any) -> float | str | list[float]:
    """An action as a person types it: a number, several (24+6) where what was decided is no single one, or a label."""
    try:
        number = float(text)
    except ValueError:
        return text if isinstance(decided, int | float) else _several(text) or text
    return number if math.isfinite(number) else text  # "nan" and "inf" are no action; a label perhaps


def _several(text: str) -> list[float]:
    """The numbers of "24+6" or "24 6"; none where the text is something else."""
    try:
        numbers = [float(part) for part in re.split(r"[+\s]+", text.strip())]
    except ValueError:
        return []
    return numbers if len(numbers) > 1 and all(map(math.isfinite, numbers)) else []


def _cell(action: Any) -> Any:
    """An action in a table, as `decide` writes it: several numbers are a text."""
    from ucsearch.formatting import figure

    return " ".join(map(figure, action)) if isinstance(action, list | tuple) else action


@contextmanager
def _connected(context: typer.Context) -> Iterator[Client]:
    import os

    from ucsearch.client import Client
    from ucsearch.errors import InputError

    url, token_file = cast(tuple[str, Path | None], context.obj)
    with reported():
        token = os.environ.get("UCSEARCH_TOKEN", "")
        if token_file is not None:
            try:
                token = token_file.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise InputError("--token-file", str(token_file), "a readable file with a token") from error
        if not token:
            raise InputError("--token-file", "nothing", "a file with the token, or UCSEARCH_TOKEN")
        with Client(url, token, transport=_transport) as client:
            yield client


_transport: Any = None  # httpx's, replaced by tests


def _frame(path: Path, said: Mapping[str, Any] | None = None) -> Any:
    """A file as a frame: through the same reader as all files here, with what a plan's schema says of them."""
    from ucsearch.planner.files.table import open_table

    decimal = ((said or {}).get("columns") or {}).get("decimal")
    return open_table(path, decimal if decimal in (".", ",") else "auto")


def _write(path: Path, answers: Sequence[Answer]) -> None:
    from ucsearch.planner.files.table import write_table

    columns: dict[str, type] = {
        "series": str, "outcome": str, "action": float, "label": str, "order": float, "reason": str,
        "regret_bound": float, "valid_until": str, "monitor": str, "decision": str, "sentence": str,
    }  # fmt: skip
    if any(isinstance(a.action, tuple) for a in answers):
        columns["action"] = str

    def rows() -> Iterator[Sequence[Any]]:
        for a in answers:
            yield (
                a.series, a.outcome, _cell(a.action), a.label, a.order, a.reason, a.regret_bound, a.valid_until,
                a.monitor, a.id, a.sentence,
            )  # fmt: skip

    write_table(path, columns, rows, for_people=True)
