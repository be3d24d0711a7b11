"""Copies of the log for other tools: JSON lines and Parquet, each complete or absent.

A JSON line is the canonical form of
`{"blobs": {id: base64}, "digest": ..., "head": ..., "previous": ..., "record": {...}, "seq": n, "written_at": text or
null}`. The record is byte for byte what the log holds, hence its digest can be checked, and so can each blob: its id is
the SHA-256 of the decoded bytes. `previous` is the head before the entry, so that every line's own head can be derived,
also where lines before it are missing. Without inlining, `blobs` is empty.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from ucsearch.errors import RecordError
from ucsearch.records.canonical import canonical, decode_number
from ucsearch.records.entries import Effective, Row
from ucsearch.records.files import whole_file

__all__ = ["jsonl_line", "write_jsonl", "write_parquet"]

Inline = Callable[[Row], Mapping[str, bytes]]
Counting = Callable[[Sequence[Row]], Mapping[int, Effective]]
_GROUP = 10_000  # entries per Parquet row group


def jsonl_line(row: Row, previous: str, blobs: Mapping[str, bytes]) -> bytes:
    """One exported entry, without the line feed."""
    texts = {name: b64encode(data).decode("ascii") for name, data in blobs.items()}
    # Put together around the stored bytes: parsing them to write them again could only lose something.
    return b'{"blobs":%b,"digest":"%b","head":"%b","previous":"%b","record":%b,"seq":%d,"written_at":%b}' % (
        canonical(texts),
        row.digest.encode(),
        row.head.encode(),
        previous.encode(),
        row.body,
        row.seq,
        canonical(row.written_at),
    )


def write_jsonl(path: str | os.PathLike[str], rows: Iterable[Row], previous: str, inline: Inline | None) -> int:
    """`previous` is the head before the first of the rows, which follow each other."""
    count = 0
    with whole_file(path, private=True) as file:
        for row in rows:
            file.write(jsonl_line(row, previous, {} if inline is None else inline(row)) + b"\n")
            count, previous = count + 1, row.head
    return count


def write_parquet(
    path: str | os.PathLike[str], rows: Iterable[Row], previous: str, inline: Inline | None, counting: Counting
) -> int:
    """As `write_jsonl`; `counting` tells what counts of decisions and refusals, overrides after the last row too."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise RecordError("Parquet needs pyarrow; install it with: pip install pyarrow") from error

    text = pa.string()
    schema = pa.schema(
        [
            ("seq", pa.int64()),
            *((name, text) for name in _TEXTS),
            ("effective_action", pa.float64()),  # of a decision: what counts, an override's where there is one
            ("overridden_by", pa.int64()),  # the number of that override
            ("record", text),
            ("blobs", pa.list_(pa.struct([("id", text), ("data", pa.binary())]))),
        ]
    )
    count = 0
    source = _with_previous(rows, previous)
    with whole_file(path, private=True) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        while group := list(islice(source, _GROUP)):
            counts = counting([row for row, _ in group])
            table = [_parquet_row(row, before, inline, counts.get(row.seq)) for row, before in group]
            writer.write_table(pa.Table.from_pylist(table, schema=schema))
            count += len(group)
    return count


def _with_previous(rows: Iterable[Row], previous: str) -> Iterator[tuple[Row, str]]:
    for row in rows:
        yield row, previous
        previous = row.head


# Columns that need no parsing in the other tool; the last five come from the record.
_TEXTS = ("id", "digest", "head", "previous", "written_at", "kind", "schema", "outcome", "reason", "series")


def _parquet_row(row: Row, previous: str, inline: Inline | None, counts: Effective | None) -> dict[str, Any]:
    record = row.record
    outcome = record.get("outcome")
    shown = {**record, **outcome} if isinstance(outcome, dict) else record
    members = {name: _text_or_none(shown.get(name)) for name in _TEXTS[5:]}
    blobs = {} if inline is None else inline(row)
    return {
        "seq": row.seq,
        "id": row.id,
        "digest": row.digest,
        "head": row.head,
        "previous": previous,
        "written_at": row.written_at,
        **members,
        "effective_action": None if counts is None else _number_or_none(counts.action),
        "overridden_by": None if counts is None or counts.override is None else counts.override.seq,
        "record": row.body.decode("utf-8"),
        "blobs": [{"id": name, "data": data} for name, data in blobs.items()],
    }


def _number_or_none(value: Any) -> float | None:
    try:
        return None if value is None or isinstance(value, bool) else float(decode_number(value))
    except (TypeError, ValueError):  # a record of another program
        return None


def _text_or_none(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else canonical(value).decode("utf-8")
