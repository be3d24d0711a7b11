"""`ucsearch log`: look into an audit log, verify it, copy it out, keep it safe; override a decision."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ucsearch.cli.log_words import (
    CHAIN_FIELDS,
    Known,
    confirmed,
    files_of,
    known_checkpoint,
    named_task,
    opened,
    plain,
    print_table,
    reported,
    segments_of,
    summary,
    writing,
)
from ucsearch.cli.terminal import NEEDS_A_PERSON, UNUSABLE

__all__ = ["log_app"]

log_app = typer.Typer(
    name="log",
    no_args_is_help=True,
    help="Look into an audit log, verify it, copy it out, override a decision. Entries are never changed.",
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
KeyOption = Annotated[
    str | None,
    typer.Option("--key", help="The checkpoint must be signed by it: name+hash+base64, or a file with that."),
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
    with opened(log) as reader:
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
        standing = reader.effective(rows)
    if as_json:
        from ucsearch.records.canonical import canonical

        for row in rows:
            typer.echo(canonical(summary(row, standing.get(row.seq))).decode("utf-8"))
    else:
        print_table(rows, standing, total)


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

    with opened(log) as reader:
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
    log: LogOption = DEFAULT_LOG,
    checkpoint: CheckpointOption = None,
    key: KeyOption = None,
    derive: Annotated[
        int, typer.Option("--derive", min=-1, help="Decide so many rows of each part of a segment again; -1: all.")
    ] = 0,
    repacked: Annotated[
        bool, typer.Option("--repacked", help="Parts may be other files, as long as their rows are those sealed.")
    ] = False,
    task: Annotated[
        str | None, typer.Option("--task", metavar="PACKAGE:OBJECT", help="The rows' task for --derive, if your own.")
    ] = None,
) -> None:
    """Check every entry, array and link of the chain, and every row of segments; name the first that is bad.

    Without a checkpoint a missing tail, a recomputed chain and a replaced log cannot be seen.

    Exit codes: 0 right, 1 altered (or the checkpoint was not signed by the key), 2 no usable log, checkpoint or key.
    """
    with opened(log) as reader:
        known = None if checkpoint is None else known_checkpoint(checkpoint, key)
        problem, told = confirmed(reader, known)
        if not problem:
            problem, more = segments_of(reader, derive, repacked, task)
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
    log: LogOption = DEFAULT_LOG,
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
    with writing({"OUT": out}, {"--log": log}), opened(log) as reader:
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
    log: LogOption = DEFAULT_LOG,
    key: Annotated[
        Path | None, typer.Option("--key", help="Sign it with this private key of `log keygen`: a C2SP signed note.")
    ] = None,
    origin: Annotated[str | None, typer.Option("--origin", help="Whose log; the key's name when not given.")] = None,
) -> None:
    """Verify the log and write its count and head to OUT; an older checkpoint there must be confirmed first.

    With --key it is a signed note with the root of the tree over all heads, for witnesses and for those who only have
    the public key.

    Exit codes: 0 written, 1 the log was altered (OUT is left as it was), 2 no usable log, key or OUT.
    """
    from ucsearch.records.files import whole_file
    from ucsearch.records.notes import Signer, checkpoint_text

    with writing({"OUT": out}, {"--log": log, "--key": key}), opened(log) as reader:
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
def prove(
    series: Annotated[str, typer.Argument(metavar="SERIES", help="A series whose decision is in a segment.")],
    log: LogOption = DEFAULT_LOG,
    note: Annotated[
        Path | None, typer.Option("--note", help="For this note of `log checkpoint --key`; else for the log as it is.")
    ] = None,
) -> None:
    """Print a proof that a series' decision is in the log: its row, and the way from it up to a signed note.

    Exit codes: 0 printed, 2 no usable log, note or series.
    """
    from ucsearch.scale.segments.reader import SegmentReader, proof_of
    from ucsearch.verify.segments import proof_bytes

    with reported(), SegmentReader(log) as reader:
        size = None if note is None else known_checkpoint(note, None).checkpoint.count
        typer.echo(proof_bytes(proof_of(reader, series, size)).decode("utf-8"))


@log_app.command("verify-proof")
def verify_proof(
    proof: Annotated[Path, typer.Argument(metavar="PROOF", help="What `log prove` printed.")],
    note: Annotated[Path, typer.Option("--note", help="A note of `log checkpoint --key`.")],
    key: KeyOption = None,
) -> None:
    """Check a proof with a note alone: neither the log nor its parts are needed.

    Exit codes: 0 the row is in the log that the note vouches for, 1 it is not, 2 no usable proof, note or key,
    3 without --key: it is under the note, but nobody vouches for the note.
    """
    from ucsearch.verify.chain import read_checkpoint
    from ucsearch.verify.figures import Invalid
    from ucsearch.verify.read import Malformed
    from ucsearch.verify.segments import LARGEST
    from ucsearch.verify.segments import verify_proof as checked
    from ucsearch.verify.untrusted import open_regular

    try:
        with open_regular(proof) as file:
            data = file.read(LARGEST + 1)
        pins = read_checkpoint(note, key)
        told = checked(data.strip(), pins)
    except (Malformed, OSError) as error:
        typer.echo(f"Error: {plain(error)}", err=True)
        raise typer.Exit(UNUSABLE) from error
    except Invalid as error:
        typer.echo(f"NOT PROVED: {plain(error)}", err=True)
        raise typer.Exit(NEEDS_A_PERSON) from error
    typer.echo(f"proved: {plain(told)}")
    if pins.doubt:
        typer.echo(f"The note is taken as it is: {pins.doubt} (--key).", err=True)
        raise typer.Exit(NEEDS_A_PERSON)


@log_app.command()
def keygen(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The private key; the public one goes to OUT.pub.")],
    name: Annotated[str, typer.Option("--name", help="Name of the key and the log, such as example.com/decisions.")],
) -> None:
    """Make a key to sign checkpoints with. Keep OUT where the log's writer cannot reach it, and hand out OUT.pub.

    Exit codes: 0 written, 2 there is a file already, or cryptography is not installed.
    """
    from ucsearch.records.notes import make_key

    with writing({"OUT": out, "OUT.pub": out.with_name(f"{out.name}.pub")}, {}):
        public = make_key(out, name)
    typer.echo(f"private key in {out}, public key in {out}.pub:\n{public}")


@log_app.command()
def backup(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="The log's file.")],
    to: Annotated[Path, typer.Argument(metavar="TO", help="The copy; there must be no such file yet.")],
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", "-c", help="Also write a checkpoint of the copy there.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Take the place of an older copy.")] = False,
) -> None:
    """Copy a log, complete, while others write to it; `cp` would leave out what is still in LOG-wal.

    The copy is checked entry by entry and against the log before it gets its name.

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
        typer.echo(f"{plain(log)} is closed: the log goes on in {plain(name)}, which is not in this copy.", err=True)


@log_app.command()
def restore(
    copy: Annotated[Path, typer.Argument(metavar="COPY", help="A file written by `log backup`.")],
    log: Annotated[Path, typer.Argument(metavar="LOG", help="The log's place, where there must be nothing.")],
    checkpoint: CheckpointOption = None,
    key: KeyOption = None,
) -> None:
    """Put a copy in a log's place after checking it; entries after the copy was made are not in it.

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


@log_app.command()
def override(
    decision: Annotated[
        str, typer.Argument(metavar="ID|SERIES", help="A decision's id (8 digits or more), or a series: its newest.")
    ],
    who: Annotated[str, typer.Option("--who", help="Who decided so.")],
    why: Annotated[str, typer.Option("--why", help="For which reason.")],
    action: Annotated[str | None, typer.Option("--action", help="The action taken instead, by value or label.")] = None,
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Take earlier overrides back.")] = False,
    task: Annotated[
        str | None,
        typer.Option("--task", metavar="PACKAGE:OBJECT", help="The task whose rules must allow it, if not built in."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Record it although it breaks the rules; it is marked as forced.")
    ] = False,
    settings: Annotated[
        Path | None,
        typer.Option("--settings", help="The settings file: [columns] decimal says how numbers are written."),
    ] = None,
    log: LogOption = DEFAULT_LOG,
) -> None:
    """Record that a person replaced a decision's action; the decision itself stays as it is.

    The replacement is checked by the task's own rules in the state that was recorded. A quantity off the grid may be
    taken if the rules allow it. The last override counts.

    Exit codes: 0 recorded, 1 the replacement is not allowed, 2 no usable log, entry or task.
    """
    from ucsearch.cli.hand import put_in_place

    put_in_place(
        log, decision, who=who, why=why, action=action, withdraw=withdraw, task=task, force=force, settings=settings
    )
