"""`ucsearch log`: look into an audit log, export it, keep checkpoints and copies of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ucsearch.cli.log_words import (
    CHAIN_FIELDS,
    Known,
    confirmed,
    file_of,
    filters_of,
    known_checkpoint,
    named_task,
    opened,
    print_entries,
    summary,
    writing,
)
from ucsearch.cli.options import log_of, settings_of
from ucsearch.cli.terminal import NEEDS_A_PERSON, UNUSABLE, one_line, printable, reported
from ucsearch.errors import InputError

if TYPE_CHECKING:
    from ucsearch.records import AuditReader

__all__ = ["log_app"]

log_app = typer.Typer(
    name="log",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Look into an audit log; keep and check copies of it.",
    epilog="Exit codes: 0 done and the log is right; 1 the log was altered; 2 no usable log or entry.",
)

LEAST_WHY = 3  # characters of a reason
LogOption = Annotated[
    str | None,
    typer.Option("--log", "-l", help="The log's file, or postgresql://...; else as this folder's settings say."),
]
WhyOption = Annotated[str, typer.Option("--why", help="The reason; it is recorded.")]
WhoOption = Annotated[str, typer.Option("--who", help="Your name; it is recorded.")]


@log_app.command("list")
def list_entries(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="WORD", help="A series, an outcome, a reason or a kind.")
    ] = None,
    log: LogOption = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="How many entries to show.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines instead of a table.")] = False,
) -> None:
    """List entries, newest first.

    Words say of what: `ucsearch log list SKU-017 HOLD` lists what was held of that series.

    Exit codes: 0 listed, 2 no usable log.
    """
    with opened(_log(log)) as reader:
        rows = reader.list(limit=limit, newest_first=True, **filters_of(words or []))
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
) -> None:
    """Show one entry.

    Its record, its place in the chain, and what overrode it.

    Exit codes: 0 shown, 2 no usable log or entry.
    """
    import json

    with opened(_log(log)) as reader:
        row = reader.get(id)
        overrides = [summary(other) | {"record": other.record} for other in reader.overrides(row.seq)]
        entry = {name: value for name, value in summary(row).items() if name in CHAIN_FIELDS}
        standing = reader.effective([row]).get(row.seq)
        counts = {} if standing is None else {"effective_action": standing.action}
        # ASCII only: a record may hold text that was meant to steer a terminal.
        typer.echo(json.dumps({**entry, **counts, "record": row.record, "overridden_by": overrides}, indent=2))


@log_app.command()
def export(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="JSON lines, or .parquet; replaced as a whole.")],
    log: LogOption = None,
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
        count = (reader.export_parquet if out.suffix == ".parquet" else reader.export_jsonl)(out)
    typer.echo(f"{count} entries written to {out}")


@log_app.command()
def checkpoint(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="File to write; keep it away from the log.")],
    log: LogOption = None,
    key: Annotated[
        Path | None, typer.Option("--key", help="Sign it with this private key: a C2SP signed note.")
    ] = None,
    new_key: Annotated[
        str | None, typer.Option("--new-key", metavar="NAME", help="Make the key first, such as example.com/decisions.")
    ] = None,
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
            text = checkpoint_text(signer.name, taken.count, reader.root(taken.count), taken.head)
            with whole_file(out, private=True) as file:
                file.write(signer.sign(text).encode("utf-8"))
    by = "" if signer is None else f", signed by {signer.name}"
    typer.echo(f"{taken.count} entries, head {taken.head}{by}, written to {out}")


Place = Annotated[str, typer.Argument(help="A log's file, or postgresql://...")]


@log_app.command("copy")
def copy_log(
    source: Place,
    target: Place,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", help="What is copied must agree with it: `log checkpoint` wrote it.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option("--key", help="The checkpoint must be signed by it: name+hash+base64, or a file with that."),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an older copy.")] = False,
) -> None:
    """Copy a log with checks: backup, restore or move.

    Others may write to SOURCE meanwhile; `cp` would leave out what is still in its -wal. A copy in a file is checked
    entry by entry, and against SOURCE, before it gets its name; there must be no such file yet. To and from PostgreSQL
    numbers, times and heads stay, and a copy that was cut off goes on where it ended.

    Exit codes: 0 copied; 1 the checkpoint was not signed by the key; 2 no usable log, checkpoint or TARGET.
    """
    from ucsearch.records.backup import copy_log as copied

    old, new = file_of(source), file_of(target)
    if old is not None and new is not None:
        _copy_file(old, new, checkpoint, key, replace)
        return
    with writing({}, {"--checkpoint": checkpoint}), reported():
        if replace:
            raise InputError("--replace", "a database", "two files")
        if checkpoint is not None:
            with opened(source, single=True) as reader:
                _check(reader, known_checkpoint(checkpoint, key))
        made = copied(source, target)
    typer.echo(f"{made.entries} entries, {made.added} of them new, head {made.head}")


def _copy_file(source: Path, target: Path, checkpoint: Path | None, key: str | None, replace: bool) -> None:
    from ucsearch.records.backup import backup
    from ucsearch.records.log_chain import following

    with writing({}, {"SOURCE": source, "--checkpoint": checkpoint}, logs={"TARGET": target}):
        known = None if checkpoint is None else known_checkpoint(checkpoint, key)
        if known is not None:
            with opened(source, single=True) as reader:
                _check(reader, known)
        done = backup(source, target, replace=replace, checkpoint=None if known is None else known.checkpoint)
        with opened(target, single=True) as reader:
            name = following(reader.store)
    typer.echo(f"{done.count} entries, head {done.head}, in {done.path}, sha256 {done.sha256}")
    if name:
        where = f"the log continues in {printable(name)}, which is not in this copy"
        typer.echo(f"{printable(source)} is closed: {where}.", err=True)


def _check(reader: AuditReader, known: Known) -> None:
    """Nothing is copied from a log that does not agree with its checkpoint."""
    problem, _ = confirmed(reader, known)
    if problem:
        typer.echo(f"{problem}; nothing was copied", err=True)
        raise typer.Exit(UNUSABLE)
    if known.doubt:
        typer.echo(f"The checkpoint is taken as it is: {known.doubt} (--key).", err=True)


@log_app.command("rotate")
def rotate_file(
    why: WhyOption,
    who: WhoOption = "ucsearch log rotate",
    log: LogOption = None,
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
    from ucsearch.records.log import AuditReader

    place = file_of(_log(log))
    with reported():
        if place is None:
            raise InputError("--log", "a database", "a log in a file")
        _check_words(who, why)
        with AuditReader(place) as reader:
            report = reader.verify()
        if not report.ok:
            raise RecordError(f"{one_line(report)}; not rotated")
        made = rotate_log(place, at=datetime.now(UTC), by=who.strip(), why=why.strip())
    typer.echo(f"{made.old}: closed after {made.entries} entries, head {made.head}")
    typer.echo(f"{made.new}: the log continues here")


@log_app.command("erase")
def erase_entries(
    why: WhyOption,
    series: Annotated[str, typer.Option("--series", help="All that was decided and reported of this series.")] = "",
    plan: Annotated[str, typer.Option("--plan", help="With --series: of this plan of a service only.")] = "",
    person: Annotated[str, typer.Option("--person", help="This name, and the reasons that its owner gave.")] = "",
    before: Annotated[str, typer.Option("--before", help="Everything written before this time.")] = "",
    who: WhoOption = "ucsearch log erase",
    log: LogOption = None,
) -> None:
    """Erase the content of entries permanently.

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
        done = erasure.erase(_log(log), left, at=datetime.now(UTC), by=who.strip(), why=why.strip())
    typer.echo(f"{done.entries} entries erased, {done.blobs} arrays deleted")


def _check_words(who: str, why: str) -> None:
    for name, text, least in (("--who", who, 1), ("--why", why, LEAST_WHY)):
        if len(text.strip()) < least or not text.isprintable():
            expected = f"printable text of at least {least} character{'s' if least > 1 else ''}"
            raise InputError(name, repr(text), expected)


def _log(place: str | None) -> str:
    """The file or the database named by --log, else the file named by this folder's settings."""
    with reported():
        return str(log_of(settings_of(None, None, plans=False))) if place is None else place
