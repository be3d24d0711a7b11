"""`ucsearch log`: look into an audit log, verify it, export it, keep it safe."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ucsearch.cli.log_words import (
    CHAIN_FIELDS,
    Known,
    confirmed,
    file_of,
    files_of,
    known_checkpoint,
    named_task,
    opened,
    print_entries,
    segments_of,
    summary,
    writing,
)
from ucsearch.cli.options import log_of, some_settings
from ucsearch.cli.terminal import NEEDS_A_PERSON, UNUSABLE, one_line, printable, reported
from ucsearch.errors import InputError

__all__ = ["log_app"]

log_app = typer.Typer(
    name="log",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Look into an audit log; keep and check copies of it.",
    epilog="Exit codes: 0 done and the log is right; 1 the log was altered; 2 no usable log or entry.",
)


class Format(StrEnum):
    jsonl = "jsonl"
    parquet = "parquet"


LEAST_WHY = 3  # characters of a reason
LogOption = Annotated[
    str | None,
    typer.Option("--log", "-l", help="The log's file, or postgresql://...; else as this folder's settings say."),
]
CheckpointOption = Annotated[
    Path | None, typer.Option("--checkpoint", "-c", help="A file written by `log checkpoint`.")
]
KeyOption = Annotated[
    str | None,
    typer.Option("--key", help="The checkpoint must be signed by it: name+hash+base64, or a file with that."),
]


@log_app.command("list")
def list_entries(
    log: LogOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="At most so many.")] = 20,
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
    with opened(_log(log)) as reader:
        rows = reader.list(
            limit=limit,
            outcome=outcome,
            reason=reason,
            series=series,
            kind=kind,
            newest_first=newest,
        )
        total = reader.count()
        standing = reader.effective(rows)
    if as_json:
        from ucsearch.records.canonical import canonical

        for row in rows:
            typer.echo(canonical(summary(row, standing.get(row.seq))).decode("utf-8"))
    else:
        print_entries(rows, standing, total)


@log_app.command()
def show(
    id: Annotated[str, typer.Argument(metavar="ID", help="An entry's id, or its first 8 digits or more.")],
    log: LogOption = None,
    raw: Annotated[bool, typer.Option("--raw", help="Only the record, in its canonical bytes.")] = False,
) -> None:
    """Show one entry.

    Its record, its place in the chain, and what overrode it.

    Exit codes: 0 shown, 2 no usable log or entry.
    """
    import json

    with opened(_log(log)) as reader:
        row = reader.get(id)
        if raw:
            typer.echo(row.body.decode("utf-8"))
            return
        overrides = [summary(other) | {"record": other.record} for other in reader.overrides(row.seq)]
        entry = {name: value for name, value in summary(row).items() if name in CHAIN_FIELDS}
        standing = reader.effective([row]).get(row.seq)
        counts = {} if standing is None else {"effective_action": standing.action}
        # ASCII only: a record may hold text that was meant to steer a terminal.
        typer.echo(json.dumps({**entry, **counts, "record": row.record, "overridden_by": overrides}, indent=2))


@log_app.command()
def verify(
    log: LogOption = None,
    checkpoint: CheckpointOption = None,
    key: KeyOption = None,
    derive: Annotated[
        int, typer.Option("--derive", min=-1, help="Decide so many rows of each part of a segment again; -1: all.")
    ] = 0,
    task: Annotated[
        str | None, typer.Option("--task", metavar="PACKAGE:OBJECT", help="The rows' task for --derive, if your own.")
    ] = None,
) -> None:
    """Check the chain and every row of segments.

    The first entry, array, link or row that is bad is named. Without a checkpoint a missing tail, a recomputed chain
    and a replaced log cannot be seen.

    Exit codes: 0 right, 1 altered (or the checkpoint was not signed by the key), 2 no usable log, checkpoint or key.
    """
    with opened(_log(log)) as reader:
        known = None if checkpoint is None else known_checkpoint(checkpoint, key)
        problem, told = confirmed(reader, known)
        if not problem:
            problem, more = segments_of(reader, derive, task)
            told += files_of(reader) + more
    if problem:
        typer.echo(problem, err=True)
        raise typer.Exit(NEEDS_A_PERSON)
    typer.echo(f"valid: {told}")
    if known is None:
        typer.echo("No checkpoint given: a missing tail or a recomputed chain would not show.", err=True)
    elif known.doubt:
        typer.echo(f"The checkpoint is taken as it is: {known.doubt} (--key).", err=True)


@log_app.command()
def export(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The file to write; replaced as a whole.")],
    log: LogOption = None,
    format: Annotated[Format, typer.Option("--format", "-f", help="JSON lines, or Parquet.")] = Format.jsonl,
    blobs: Annotated[bool, typer.Option(help="Include the arrays that records refer to.")] = True,
    first: Annotated[int, typer.Option("--from", min=1, help="The first entry.")] = 1,
    last: Annotated[int | None, typer.Option("--to", min=1, help="The last entry; all when not given.")] = None,
    segments: Annotated[
        bool, typer.Option("--segments", help="Instead: decisions of segments as records, for `ucsearch verify`.")
    ] = False,
    series: Annotated[
        list[str] | None, typer.Option("--series", help="With --segments: only this series; repeat.")
    ] = None,
    task: Annotated[
        str | None, typer.Option("--task", metavar="PACKAGE:OBJECT", help="With --segments: the task, if your own.")
    ] = None,
) -> None:
    """Copy entries to a file for other tools.

    Exit codes: 0 written, 2 no usable log, or OUT cannot be written.
    """
    place = _log(log)
    with writing({"OUT": out}, {"--log": file_of(place)}), opened(place) as reader:
        if segments:
            from ucsearch.scale.segments.reader import export_records

            done = export_records(reader, out, series or (), tasks=named_task(task))
            typer.echo(f"{done} decisions written to {out}")
            return
        write = reader.export_parquet if format is Format.parquet else reader.export_jsonl
        count = write(out, inline_blobs=blobs, first=first, last=last)
    typer.echo(f"{count} entries written to {out}")


@log_app.command()
def checkpoint(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Where to keep it: not beside the log.")],
    log: LogOption = None,
    key: Annotated[
        Path | None, typer.Option("--key", help="Sign it with this private key: a C2SP signed note.")
    ] = None,
    new_key: Annotated[
        str | None, typer.Option("--new-key", metavar="NAME", help="Make the key first, such as example.com/decisions.")
    ] = None,
    origin: Annotated[str | None, typer.Option("--origin", help="Whose log; the key's name when not given.")] = None,
) -> None:
    """Verify the log and write its count and head.

    An older checkpoint in OUT must be confirmed first. With --key it is a signed note with the root of the tree over
    all heads, for witnesses and for those who only have the public key. --new-key makes an Ed25519 key: the private
    half in --key's file, which the log's writer must not reach, the public half in the same name with .pub.

    Exit codes: 0 written, 1 the log was altered (OUT is left as it was), 2 no usable log, key or OUT.
    """
    from ucsearch.records.files import whole_file
    from ucsearch.records.notes import Signer, checkpoint_text, make_key

    place = _log(log)
    if new_key is not None:
        if key is None:
            raise typer.BadParameter("--new-key needs --key, the file for the private key")
        made = {"OUT": out, "--key": key, "its public half": key.with_name(f"{key.name}.pub")}
        with writing(made, {"--log": file_of(place)}):
            public = make_key(key, new_key)
        typer.echo(f"private key in {key}, public key in {key}.pub:\n{public}")
    with writing({"OUT": out}, {"--log": file_of(place), "--key": key}), opened(place) as reader:
        signer = None if key is None else Signer(key)
        before = (
            known_checkpoint(out, None if signer is None else signer.verifier, either=True) if out.exists() else None
        )
        # Taken first, so that what is written has been verified even while others append.
        taken = reader.checkpoint()
        for known in filter(None, (before, Known(taken))):
            problem, _ = confirmed(reader, known)
            if problem:
                typer.echo(f"{problem}; {out} was not written", err=True)
                raise typer.Exit(NEEDS_A_PERSON)
        if signer is None:
            taken.write(out)
        else:
            text = checkpoint_text(origin or signer.name, taken.count, reader.root(taken.count), taken.head)
            with whole_file(out, private=True) as file:
                file.write(signer.sign(text).encode("utf-8"))
    by = "" if signer is None else f", signed by {signer.name}"
    typer.echo(f"{taken.count} entries, head {taken.head}{by}, written to {out}")


@log_app.command()
def backup(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="The log's file.")],
    to: Annotated[Path, typer.Argument(metavar="TO", help="The copy; there must be no such file yet.")],
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", "-c", help="Also write a checkpoint of the copy there.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Take the place of an older copy.")] = False,
) -> None:
    """Copy a log, complete, while others write to it.

    `cp` would leave out what is still in LOG-wal. The copy is checked entry by entry and against the log before it
    gets its name.

    Exit codes: 0 copied, 2 no usable log or TO.
    """
    from ucsearch.records import AuditReader
    from ucsearch.records.backup import backup as copied
    from ucsearch.records.log_chain import following

    with writing({"--checkpoint": checkpoint}, {"LOG": log}, logs={"TO": to}):
        done = copied(log, to, replace=replace)
        with AuditReader(to, single=True) as reader:
            name = following(reader.store)
            if checkpoint is not None:
                reader.checkpoint().write(checkpoint)
    typer.echo(f"{done.count} entries, head {done.head}, in {done.path}, sha256 {done.sha256}")
    if name:
        where = f"the log goes on in {printable(name)}, which is not in this copy"
        typer.echo(f"{printable(log)} is closed: {where}.", err=True)


@log_app.command()
def restore(
    copy: Annotated[Path, typer.Argument(metavar="COPY", help="A file written by `log backup`.")],
    log: Annotated[Path, typer.Argument(metavar="LOG", help="The log's place, where there must be nothing.")],
    checkpoint: CheckpointOption = None,
    key: KeyOption = None,
) -> None:
    """Put a checked copy in a log's place.

    Entries after the copy was made are not in it.

    Exit codes: 0 restored; 1 the checkpoint was not signed by the key; 2 the copy is not right, does not confirm the
    checkpoint, or LOG cannot be written.
    """
    from ucsearch.records.backup import restore as restored

    with (
        writing({}, {"COPY": copy, "--checkpoint": checkpoint}, logs={"LOG": log}),
        opened(copy, single=True) as reader,
    ):
        known = None if checkpoint is None else known_checkpoint(checkpoint, key)
        problem, _ = confirmed(reader, known)
        if problem:
            typer.echo(f"{problem}; nothing was restored", err=True)
            raise typer.Exit(UNUSABLE)
        done = restored(copy, log, checkpoint=None if known is None else known.checkpoint)
    typer.echo(f"{done.count} entries, head {done.head}, in {done.path}, sha256 {done.sha256}")


Place = Annotated[str, typer.Argument(help="A log's file, or postgresql://...")]


@log_app.command("copy")
def copy_entries(source: Place, target: Place) -> None:
    """Copy a log between files and databases.

    Numbers, times and heads stay. A copy that was cut off goes on where it ended.

    Exit codes: 0 copied and compared, 2 something is not right.
    """
    from ucsearch.records.address import copy_log

    with reported():
        made = copy_log(source, target)
    typer.echo(f"{made.entries} entries, {made.added} of them new, head {made.head}")


@log_app.command("rotate")
def rotate_file(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="Any file of the log; its newest one is closed.")],
    why: Annotated[str, typer.Option("--why", help="For which reason; it is recorded.")],
    who: Annotated[str, typer.Option("--who", help="Who does it.")] = "ucsearch log rotate",
) -> None:
    """Close a log's file and begin the next one.

    Others may write meanwhile: they are sent on. The new file lies beside the old one, pins its number, head and root,
    and begins with the monitors and pauses as they stand. The old file is verified first; it does not change any more
    and may be kept elsewhere.

    Exit codes: 0 rotated, 2 something is not right, and nothing was changed.
    """
    from datetime import UTC, datetime

    from ucsearch.errors import RecordError
    from ucsearch.planner.monitor.rotate import rotate_log
    from ucsearch.records.reader import AuditReader

    with reported():
        _check_words(who, why)
        with AuditReader(log) as reader:
            report = reader.verify()
        if not report.ok:
            raise RecordError(f"{one_line(report)}; not rotated")
        made = rotate_log(log, at=datetime.now(UTC), by=who.strip(), why=why.strip())
    typer.echo(f"{made.old}: closed after {made.entries} entries, head {made.head}")
    typer.echo(f"{made.new}: the log goes on here")


@log_app.command("erase")
def erase_entries(
    log: Place,
    why: Annotated[str, typer.Option("--why", help="For which reason; it is recorded.")],
    series: Annotated[str, typer.Option("--series", help="All that was decided and reported of this series.")] = "",
    plan: Annotated[str, typer.Option("--plan", help="With --series: of this plan of a service only.")] = "",
    person: Annotated[str, typer.Option("--person", help="This name, and the reasons that its owner gave.")] = "",
    before: Annotated[str, typer.Option("--before", help="Whatever was written before this time.")] = "",
    who: Annotated[str, typer.Option("--who", help="Who does it.")] = "ucsearch log erase",
) -> None:
    """Take the content of entries away for good.

    In all files of a log; digests stay, so that the chain verifies. Exactly one of --series, --person and --before. An
    entry says what was done. Copies of the log are not changed.

    Exit codes: 0 erased, 2 something is not right.
    """
    from datetime import UTC, datetime

    from ucsearch.records import erasure
    from ucsearch.records.entries import time_text

    with reported():
        _check_words(who, why)
        if sum(map(bool, (series, person, before))) != 1 or (plan and not series):
            given = [f"--{n}" for n, v in (("series", series), ("person", person), ("before", before)) if v]
            raise InputError("options", " ".join(given) or "none", "one of --series, --person and --before")
        if before:
            left = erasure.older_than(datetime.fromisoformat(time_text(before, "--before")))
        else:
            left = erasure.series(series, plan or None) if series else erasure.person(person)
        done = erasure.erase(log, left, at=datetime.now(UTC), by=who.strip(), why=why.strip())
    typer.echo(f"{done.entries} entries erased, {done.blobs} arrays deleted")


def _check_words(who: str, why: str) -> None:
    for name, text, least in (("--who", who, 1), ("--why", why, LEAST_WHY)):
        if len(text.strip()) < least or not text.isprintable():
            expected = f"printable text of at least {least} character{'s' if least > 1 else ''}"
            raise InputError(name, repr(text), expected)


def _log(place: str | None) -> str:
    """The file or the database named by --log, else the file named by this folder's settings."""
    with reported():
        return str(log_of(None, some_settings(None))) if place is None else place
