"""What the commands of `ucsearch log` share: entries as text, checkpoints that are read, errors as one line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

if TYPE_CHECKING:
    from ucsearch.records import AuditReader, Checkpoint, Effective, Row
    from ucsearch.task import Task

from ucsearch.cli.options import load_task
from ucsearch.cli.terminal import NEEDS_A_PERSON, one_line, print_table, reported

__all__ = [
    "CHAIN_FIELDS",
    "VERIFIERS_VALUES",
    "Known",
    "confirmed",
    "file_of",
    "files_of_databases",
    "filters_of",
    "known_checkpoint",
    "named_task",
    "names_a_file",
    "opened",
    "print_entries",
    "summary",
    "verify_rows",
    "with_all_files",
    "writing",
]

CHAIN_FIELDS = ("seq", "id", "written_at", "digest", "head")


def filters_of(words: Sequence[str]) -> dict[str, Any]:
    """What a list is narrowed to: each word is an outcome, a reason, a kind, or else a series."""
    from ucsearch.decision.decision import Outcome
    from ucsearch.decision.gate import Reason
    from ucsearch.errors import InputError
    from ucsearch.records.entries import KINDS

    filters: dict[str, Any] = {}
    for word in words:
        known = {"outcome": tuple(Outcome), "reason": tuple(Reason), "kind": KINDS}
        what = next((name for name, values in known.items() if word in values), "series")
        if what in filters:
            raise InputError("WORD", f"{filters[what]!r} and {word!r}", f"one {what}")
        filters[what] = word
    return filters


def summary(row: Row, standing: Effective | None = None) -> dict[str, Any]:
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
    told = {name: shown.get(name) for name in ("kind", "series", "outcome", "reason", "action")}
    if standing is None:
        return chain | told
    by = None if standing.override is None else standing.override.seq
    return chain | told | {"effective_action": standing.action, "overridden_by": by}


def print_entries(rows: tuple[Row, ...], standing: dict[int, Effective], total: int) -> None:
    from ucsearch.formatting import moment

    names = ("entry", "id", "kind", "series", "outcome", "reason", "action", "written")
    cells = []
    for row in rows:
        line = summary(row, standing.get(row.seq))
        told = [line[name] for name in ("kind", "series", "outcome", "reason")]
        found = (*told, action_text(line), moment(line["written_at"] or ""))
        cells.append((row.seq, row.id[:12], *found))
    print_table(names, cells, f"{len(rows)} of {total} entries", right=("entry",))


def action_text(line: dict[str, Any]) -> str:
    """The action that counts, and by which entry where that is not the decision itself."""
    if line.get("overridden_by") is None:
        withdrawn = line["kind"] == "override" and line["action"] is None
        return "withdrawn" if withdrawn else "" if line["action"] is None else str(line["action"])
    return f"{line['effective_action']} (entry {line['overridden_by']})"


class Known(NamedTuple):
    """A checkpoint that was read."""

    checkpoint: Checkpoint
    root: bytes | None = None  # of the tree over the heads, in signed notes
    doubt: str = ""


def known_checkpoint(path: Path, key: str | None, *, either: bool = False) -> Known:
    """With a key it must be signed by it; `either` lets one without signatures pass, to be replaced by a signed one."""
    from ucsearch.errors import RecordError
    from ucsearch.records import Checkpoint
    from ucsearch.verify.chain import read_checkpoint
    from ucsearch.verify.read import Malformed, open_regular
    from ucsearch.verify.verdict import Invalid

    try:
        with open_regular(path) as file:
            sealed = file.read(1) == b"{"
    except OSError as error:
        raise RecordError(f"{path}: cannot be read ({error.strerror})") from error
    if sealed and (key is None or either):
        return Known(Checkpoint.read(path))
    try:
        pins = read_checkpoint(path, key)
    except Malformed as error:
        raise RecordError(str(error)) from error
    except Invalid as error:
        typer.echo(f"Not signed by the key: {one_line(error)}", err=True)
        raise typer.Exit(NEEDS_A_PERSON) from error
    return Known(Checkpoint(pins.size, pins.heads[pins.size]), pins.root, pins.doubt)


def confirmed(reader: AuditReader, known: Known | None) -> tuple[str, str]:
    """What is wrong with the log, and what was found if nothing is."""
    report = reader.verify(None if known is None else known.checkpoint)
    if not report.ok:
        return one_line(f"ALTERED ({report.fault}): {report}"), ""
    if known is not None and known.root is not None and reader.root(known.checkpoint.count) != known.root:
        return "ALTERED (rechained): the tree over the heads is not the one that the checkpoint saw", ""
    return "", str(report)


def named_task(spec: str | None) -> dict[str, Task]:
    """The task of `--task`, for every name that records have for one of the user's own."""
    from ucsearch.scale.segments.rebuild import ANY

    return {} if spec is None else {ANY: load_task(spec)}


VERIFIERS_VALUES = ("--task", "--budget", "--checkpoint", "--key", "--origin", "--gate")  # options with a value


def names_a_file(words: Sequence[str]) -> bool:
    """Whether these arguments of the verifier name a file, and not only options."""
    before = ["", *words]
    return any(
        not word.startswith("-") and option not in VERIFIERS_VALUES for option, word in zip(before, words, strict=False)
    )


def with_all_files(words: Sequence[str]) -> list[str]:
    """These arguments of the verifier, where they name one file of a log that was rotated, with all its files."""
    from ucsearch.errors import UCSearchError
    from ucsearch.records import AuditReader

    at = list(_logs_in(words))
    if len(at) != 1:
        return list(words)
    try:
        with AuditReader(words[at[0]]) as reader:
            files = list(map(str, reader.files))
    except UCSearchError:  # the verifier says what is wrong
        return list(words)
    return [*words[: at[0]], *files, *words[at[0] + 1 :]]


@contextmanager
def files_of_databases(words: Sequence[str]) -> Iterator[list[str]]:
    """These arguments of the verifier, which reads files alone: logs in PostgreSQL are its JSON lines for a while."""
    from tempfile import TemporaryDirectory

    from ucsearch.records.entries import AlteredEntry
    from ucsearch.records.log import open_reader
    from ucsearch.records.postgres import is_postgres

    with ExitStack() as stack:
        out = []
        for word in words:
            if is_postgres(word):
                path = Path(stack.enter_context(TemporaryDirectory(prefix="ucsearch-"))) / "postgresql.jsonl"
                with reported():
                    try:
                        with open_reader(word) as reader:
                            reader.export_jsonl(path)
                    except AlteredEntry as error:
                        typer.echo(one_line(f"ALTERED: {error}"), err=True)
                        raise typer.Exit(NEEDS_A_PERSON) from error
            out.append(str(path) if is_postgres(word) else word)
        yield out


def _logs_in(words: Sequence[str]) -> Iterator[int]:
    """The places of arguments that are logs."""
    from ucsearch.records.files import log_at

    for i, word in enumerate(words):
        if not word.startswith("-") and not (i and words[i - 1] in VERIFIERS_VALUES) and log_at(Path(word)):
            yield i


def verify_rows(words: Sequence[str], derive: int) -> int:
    """The rows of segments in the logs that these arguments of the verifier name; 1 where one is not right."""
    from ucsearch.records import AuditReader
    from ucsearch.scale.segments.audit import verify_segments

    values = {word: words[i + 1] for i, word in enumerate(words[:-1]) if word in VERIFIERS_VALUES}
    task = values.get("--task") or next((w.partition("=")[2] for w in words if w.startswith("--task=")), None)
    for i in _logs_in(words):
        with reported(), AuditReader(words[i], single=True) as reader:
            if not reader.list(kind="segment", limit=1):
                continue
            count = rows = derived = 0
            for verdict in verify_segments(reader, sample=derive, tasks=named_task(task)):
                if not verdict.ok:
                    typer.echo(f"ALTERED (segment): entry {verdict.seq}: {one_line(verdict.fault)}", err=True)
                    return NEEDS_A_PERSON
                count, rows, derived = count + 1, rows + verdict.rows, derived + verdict.derived
        again = f", {derived} decided again" if derived else ""
        typer.echo(f"{rows} rows in {count} segment{'' if count == 1 else 's'} valid{again}")
    return 0


def file_of(place: str) -> Path | None:
    """The file of a log; None where it is in a database."""
    from ucsearch.records.postgres import is_postgres

    return None if is_postgres(place) else Path(place)


@contextmanager
def opened(place: Path | str, *, single: bool = False) -> Iterator[AuditReader]:
    """A log in a file or a database."""
    from ucsearch.records.log import open_reader

    with reported(), open_reader(place, single=single) as reader:
        yield reader


@contextmanager
def writing(
    outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None], logs: Mapping[str, Path | None] | None = None
) -> Iterator[None]:
    """`reported`, after a look that no output is a file that is read, or a log."""
    from ucsearch.planner.files.table import refuse_overwriting

    with reported():
        refuse_overwriting(outputs, inputs, logs=logs)
        yield
