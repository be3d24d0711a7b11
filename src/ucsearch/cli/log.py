"""`ucsearch log`: look into an audit log, verify it, copy it out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ucsearch.records import AuditReader, Row

__all__ = ["log_app"]

INVALID = 1
UNUSABLE = 2

log_app = typer.Typer(
    name="log",
    no_args_is_help=True,
    help="Look into an audit log, verify it, copy it out. Nothing here changes the log.",
    epilog="Exit codes: 0 done and the log is right; 1 the log was altered; 2 no usable log or entry.",
)


class Format(StrEnum):
    jsonl = "jsonl"
    parquet = "parquet"


LogOption = Annotated[
    Path, typer.Option("--log", "-l", envvar="UCSEARCH_LOG", help="The log's file.", show_default=True)
]
CheckpointOption = Annotated[
    Path | None, typer.Option("--checkpoint", "-c", help="A file written by `log checkpoint`.")
]
DEFAULT_LOG = Path("decisions.db")


@log_app.command("list")
def list_entries(
    log: LogOption = DEFAULT_LOG,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="At most so many.")] = 20,
    offset: Annotated[int, typer.Option(min=0, help="Skip so many first.")] = 0,
    outcome: Annotated[str | None, typer.Option(help="RELEASED, FALLBACK or HOLD.")] = None,
    reason: Annotated[str | None, typer.Option(help="A reason code, such as not_risk_active.")] = None,
    series: Annotated[str | None, typer.Option(help="One series, such as SKU-017.")] = None,
    kind: Annotated[str | None, typer.Option(help="decision or override.")] = None,
    newest: Annotated[bool, typer.Option("--newest", help="Newest first.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines instead of a table.")] = False,
) -> None:
    """List entries, oldest first.

    Exit codes: 0 listed, 2 no usable log.
    """
    with _opened(log) as reader:
        rows = reader.list(
            limit=limit,
            offset=offset,
            outcome=outcome,
            reason=reason,
            series=series,
            kind=kind,
            newest_first=newest,
        )
        total = reader.count()
    if as_json:
        from ucsearch.records.canonical import canonical

        for row in rows:
            typer.echo(canonical(_summary(row)).decode("utf-8"))
    else:
        _print_table(rows, total)


@log_app.command()
def show(
    id: Annotated[str, typer.Argument(metavar="ID", help="An entry's id, or its first 8 digits or more.")],
    log: LogOption = DEFAULT_LOG,
    raw: Annotated[bool, typer.Option("--raw", help="Only the record, in its canonical bytes.")] = False,
) -> None:
    """Show one entry: its record, its place in the chain, and what overrode it.

    Exit codes: 0 shown, 2 no usable log or entry.
    """
    import json

    with _opened(log) as reader:
        row = reader.get(id)
        if raw:
            typer.echo(row.body.decode("utf-8"))
            return
        overrides = [_summary(other) | {"record": other.record} for other in reader.overrides(row.id)]
        entry = {name: value for name, value in _summary(row).items() if name in _CHAIN_FIELDS}
        # ASCII only: a record may hold text that was meant to steer a terminal.
        typer.echo(json.dumps({**entry, "record": row.record, "overridden_by": overrides}, indent=2))


@log_app.command()
def verify(log: LogOption = DEFAULT_LOG, checkpoint: CheckpointOption = None) -> None:
    """Check every entry, array and link of the chain; name the first bad entry.

    Without a checkpoint a missing tail, a recomputed chain and a replaced log cannot be seen.

    Exit codes: 0 right, 1 altered, 2 no usable log or checkpoint.
    """
    with _opened(log) as reader:
        report = reader.verify(None if checkpoint is None else _read_checkpoint(checkpoint))
    if not report.ok:
        typer.echo(f"ALTERED ({report.fault}): {report}", err=True)
        raise typer.Exit(INVALID)
    typer.echo(f"valid: {report}")
    if checkpoint is None:
        typer.echo("No checkpoint given: a missing tail or a recomputed chain would not show.", err=True)


@log_app.command()
def export(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write; replaced as a whole.")],
    log: LogOption = DEFAULT_LOG,
    format: Annotated[Format, typer.Option("--format", "-f", help="JSON lines, or Parquet.")] = Format.jsonl,
    blobs: Annotated[bool, typer.Option(help="Include the arrays that records refer to.")] = True,
) -> None:
    """Copy all entries to a file for other tools.

    Exit codes: 0 written, 2 no usable log, or OUT cannot be written.
    """
    with _opened(log) as reader:
        write = reader.export_parquet if format is Format.parquet else reader.export_jsonl
        count = write(out, inline_blobs=blobs)
    typer.echo(f"{count} entries written to {out}")


@log_app.command()
def checkpoint(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Where to keep it: not beside the log.")],
    log: LogOption = DEFAULT_LOG,
) -> None:
    """Verify the log and write its count and head to OUT; an older checkpoint there must be confirmed first.

    Exit codes: 0 written, 1 the log was altered (OUT is left as it was), 2 no usable log or OUT.
    """
    with _opened(log) as reader:
        before = _read_checkpoint(out) if out.exists() else None
        # Taken first, so that what is written has been verified even while others append.
        taken = reader.checkpoint()
        for known in filter(None, (before, taken)):
            report = reader.verify(known)
            if not report.ok:
                typer.echo(f"ALTERED ({report.fault}): {report}; {out} was not written", err=True)
                raise typer.Exit(INVALID)
        taken.write(out)
    typer.echo(f"{taken.count} entries, head {taken.head}, written to {out}")


_CHAIN_FIELDS = ("seq", "id", "written_at", "digest", "head")


def _summary(row: Row) -> dict[str, Any]:
    record = row.record
    chain = {
        "seq": row.seq,
        "id": row.id,
        "written_at": row.written_at,
        "digest": row.digest,
        "head": row.head,
    }
    # A decision's outcome is an object of its own; an override names its action at the top.
    outcome = record.get("outcome")
    shown = {**record, **outcome} if isinstance(outcome, dict) else record
    return chain | {name: shown.get(name) for name in ("kind", "series", "outcome", "reason", "action")}


def _print_table(rows: tuple[Row, ...], total: int) -> None:
    import sys

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # A pipe has no width of its own; cut text there would be lost.
    console = Console(width=None if sys.stdout.isatty() else 200)
    table = Table(caption=f"{len(rows)} of {total} entries")
    for name in ("entry", "id", "kind", "series", "outcome", "reason", "written"):
        table.add_column(name, justify="right" if name == "entry" else "left", no_wrap=name == "id")
    for row in rows:
        line = _summary(row)
        cells = (line["kind"], line["series"], line["outcome"], line["reason"], line["written_at"])
        table.add_row(str(row.seq), row.id[:12], *(Text(_plain(cell)) for cell in cells))
    console.print(table)


def _plain(value: Any) -> str:
    text = "" if value is None else str(value)
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _read_checkpoint(path: Path) -> Any:
    from ucsearch.records import Checkpoint

    return Checkpoint.read(path)


@contextmanager
def _opened(path: Path) -> Iterator[AuditReader]:
    from ucsearch.errors import UCSearchError
    from ucsearch.records import AuditReader

    try:
        with AuditReader(path) as reader:
            yield reader
    except UCSearchError as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(UNUSABLE) from error
