"""`ucsearch remote decide | override | outcomes`: the decision service from files and the command line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ucsearch.cli.codes import NEEDS_A_PERSON
from ucsearch.cli.planner import reported

if TYPE_CHECKING:
    from ucsearch.client import Answer, Client

__all__ = ["remote_app"]

remote_app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Use a running decision service: decide, override, report."
)

UrlOption = Annotated[
    str, typer.Option("--url", envvar="UCSEARCH_URL", help="Address of the service, or UCSEARCH_URL.")
]
TokenOption = Annotated[
    Path | None,
    typer.Option("--token-file", help="File with the token; without it UCSEARCH_TOKEN is used."),
]  # never an option of its own: others can read a command line
KeyOption = Annotated[
    str | None, typer.Option("--key", help="Idempotency key; the same command with the same key is done once.")
]
LOCAL = "http://127.0.0.1:8411"


@remote_app.command()
def decide(
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="Name of the plan.")],
    forecasts: Annotated[Path, typer.Option("--forecasts", "-f", help="Forecasts, .csv or .parquet.")],
    states: Annotated[Path, typer.Option("--states", "-s", help="State of every series, .csv or .parquet.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="One row per series, .csv or .parquet.")] = None,
    url: UrlOption = LOCAL,
    token_file: TokenOption = None,
    key: KeyOption = None,
) -> None:
    """Send forecasts and states of files; every decision is on the service's disk before it is shown.

    Exit codes: 0 all decided, 1 some series are on HOLD, 2 refused, unreachable or unusable files.
    """
    from ucsearch.client import items_of
    from ucsearch.pipeline.written import refuse_overwriting

    with _connected(url, token_file) as client:
        refuse_overwriting({"--out": out}, {"--forecasts": forecasts, "--states": states, "--token-file": token_file})
        items = items_of(_frame(forecasts), _frame(states))
        key = client.new_key() if key is None else key
        typer.echo(f"key {key}", err=True)
        answers = client.decide(plan, items, key=key)
        counts = {o: sum(a.outcome == o for a in answers) for o in ("RELEASED", "FALLBACK", "HOLD")}
        typer.echo(f"{len(answers)} series: " + ", ".join(f"{n} {o}" for o, n in counts.items() if n))
        for answer in answers:
            if answer.outcome == "HOLD":
                typer.echo(f"  HOLD {answer.series}: {answer.sentence}")
        if out is not None:
            _write(out, answers)
            typer.echo(f"decisions in {out}")
    if counts["HOLD"]:
        raise typer.Exit(NEEDS_A_PERSON)


@remote_app.command(context_settings={"ignore_unknown_options": True})  # an action may be -5
def override(
    series: Annotated[str, typer.Argument(metavar="SERIES", help="The series whose newest decision is replaced.")],
    action: Annotated[
        str | None, typer.Argument(metavar="[ACTION]", help="A number, or an action's label; not with --withdraw.")
    ] = None,
    why: Annotated[str, typer.Option("--why", help="The reason, kept with it.")] = "",
    plan: Annotated[
        str | None, typer.Option("--plan", help="The plan, where several decide a series of that name.")
    ] = None,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Take earlier overrides back.")] = False,
    url: UrlOption = LOCAL,
    token_file: TokenOption = None,
    key: KeyOption = None,
) -> None:
    """Replace what the newest decision of a series sends. Who did it is the token's name.

    Exit codes: 0 recorded, 2 refused (the rules, or somebody was faster), unreachable or wrong usage.
    """
    from ucsearch.errors import InputError

    with _connected(url, token_file) as client:
        if (action is None) != withdraw:
            raise InputError("ACTION", repr(action), "an action, or --withdraw without one")
        seen = client.series(series, plan)
        taken: float | str | None = None if action is None else _action(action)
        client.override(seen["newest"]["id"], taken, why, expects=seen.get("expects"), key=key)
        found = client.series(series, plan)
        label = found.get("effective_label") or ""
        counts = "nothing" if found["effective"] is None else f"{found['effective']} {label}".strip()
        typer.echo(f"{series}: what counts now is {counts}")


@remote_app.command()
def outcomes(
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="decision, step, value (observed_at, taken), .csv or .parquet.")
    ],
    observed_at: Annotated[
        str | None, typer.Option("--observed-at", metavar="TIME", help="ISO 8601, where the file has no such column.")
    ] = None,
    url: UrlOption = LOCAL,
    token_file: TokenOption = None,
    key: KeyOption = None,
) -> None:
    """Report what came. The first report of a decision's step counts for the monitor; later ones are kept beside it.

    Exit codes: 0 reported, 2 refused, unreachable or unusable file.
    """
    from ucsearch.client import Outcome
    from ucsearch.client.frames import frame_rows
    from ucsearch.errors import InputError

    with _connected(url, token_file) as client:
        items = []
        for i, row in enumerate(frame_rows(_frame(path), "outcomes")):
            seen = row.get("observed_at") or observed_at
            if "decision" not in row or "value" not in row or not seen:
                raise InputError(f"{path}, row {i + 1}", ", ".join(row), "decision, value and observed_at")
            taken = row.get("taken")
            items.append(
                Outcome(str(row["decision"]), float(row["value"]), str(seen), int(row.get("step") or 1),
                        None if taken is None else float(taken))
            )  # fmt: skip
        receipts = client.outcomes(items, key=key)
        known = sum(not r.new for r in receipts)
        typer.echo(f"{len(items)} outcomes reported" + (" (all known already)" if known == len(receipts) else ""))


def _action(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


@contextmanager
def _connected(url: str, token_file: Path | None) -> Iterator[Client]:
    import os

    from ucsearch.client import Client
    from ucsearch.errors import InputError

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


def _frame(path: Path) -> Any:
    """A file as a frame: through the same reader as all files here."""
    from ucsearch.pipeline.tables import open_table

    return open_table(path)


def _write(path: Path, answers: Sequence[Answer]) -> None:
    from ucsearch.pipeline.written import write_table

    columns: dict[str, type] = {
        "series": str, "outcome": str, "action": float, "label": str, "order": float, "reason": str,
        "regret_bound": float, "valid_until": str, "monitor": str, "decision": str, "sentence": str,
    }  # fmt: skip

    def rows() -> Iterator[Sequence[Any]]:
        for a in answers:
            yield (
                a.series, a.outcome, a.action, a.label, a.order, a.reason, a.regret_bound, a.valid_until, a.monitor,
                a.id, a.sentence,
            )  # fmt: skip

    write_table(path, columns, rows, for_people=True)
