"""One decision as one row of columns, and its digest.

A row's digest is the leaf hash (`records.merkle`) of canonical JSON: an object with every column, where numbers are
the base64 of their little-endian bytes, and the SHA-256 of shared.json as `shared`. `verify/segments.py` reads the same
form by its own code.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import RecordError
from ucsearch.records.merkle import leaf_hash

__all__ = ["COLUMNS", "DIGEST", "Batch", "arrow_schema", "batches_of", "digests_of", "normal", "row_texts", "table_of"]

Floats = NDArray[np.float64]

COLUMNS: dict[str, str] = {
    "series": "text",
    "task": "text",  # canonical JSON: name, version, rules, object, lengths of state and params
    "outcome": "text",
    "reason": "text",
    "cause": "text",
    "meta": "text",  # of the trace, canonical JSON; "" for a refusal
    "detail": "text",  # why the trace was refused, or what the final check found; else ""
    "source": "text",  # keep = "reference": where the members are; or how they were recalibrated; else ""
    "action": "f8",  # NaN on HOLD
    "fallback": "f8[]",  # the fallback action and its cost
    "shape": "i8[]",  # members, steps of the forecast, steps kept, fields
    "state": "f8[]",  # (n,)
    "params": "f8[]",  # (p,)
    "actions": "f8[]",  # (m,) NaN where unavailable
    "members": "f8[]",  # (kept, J, F) steps first
    "weights": "f8[]",  # (J,); none when all are equal
    "claims": "f8[]",  # see encode.CLAIMS
    "bits": "i8",  # see encode.BITS
    "rivals": "f8[]",  # (m, 5) reward, uncertainty, upper, reward-only lower and upper
    "first": "f8[]",  # (m, 2) reward and uncertainty of the first step
    "paths": "i2[]",  # (m, d) action indices, -1 where there is none
    "counters": "i8[]",  # index of the proposed action; expansions, action scores, simulations, nodes of the proofs
}
DIGEST = "digest"
TEXTS = tuple(name for name, kind in COLUMNS.items() if kind == "text")
NUMBERS = {name: kind for name, kind in COLUMNS.items() if kind != "text"}
_NAN = np.uint64(0x7FF8000000000000).view(np.float64)


class Batch(NamedTuple):
    """Rows of equal shapes: texts as lists, numbers as arrays (W,) or (W, n)."""

    texts: dict[str, list[str]]
    numbers: dict[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(self.texts["series"])


def normal(values: Any) -> Floats:
    """As float64 with one zero and one NaN."""
    out: Floats = np.asarray(values, dtype=np.float64) + 0.0
    out[np.isnan(out)] = _NAN
    return out


def row_texts(batch: Batch) -> Iterator[dict[str, str]]:
    """Every row as texts: what its digest is made of, and what a proof shows."""
    columns: list[list[str]] = [batch.texts[name] for name in TEXTS]
    for name, kind in NUMBERS.items():
        values = np.ascontiguousarray(batch.numbers[name].reshape(len(batch), -1), dtype="<" + kind.removesuffix("[]"))
        columns.append([b64encode(row).decode("ascii") for row in values])
    names = (*TEXTS, *NUMBERS)
    for row in zip(*columns, strict=True):
        yield dict(zip(names, row, strict=True))


def digests_of(batch: Batch, shared: str) -> list[bytes]:
    """(W,) digests; `shared` is the SHA-256 of shared.json in hex."""
    # Of an object of texts this is its canonical JSON, in a tenth of the time.
    encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
    return [leaf_hash(encode({**row, "shared": shared}).encode("utf-8")) for row in row_texts(batch)]


# -------------------------------------------------------------------- Arrow


def arrow_schema() -> Any:
    """The columns of a part: `COLUMNS` and the digest."""
    import pyarrow as pa

    kinds = {"text": pa.string(), "f8": pa.float64(), "i8": pa.int64(), "i2": pa.int16()}

    def kind(text: str) -> Any:
        return pa.list_(kinds[text[:-2]]) if text.endswith("[]") else kinds[text]

    fields = [pa.field(name, kind(text), nullable=False) for name, text in COLUMNS.items()]
    return pa.schema([*fields, pa.field(DIGEST, pa.binary(32), nullable=False)])


def table_of(batch: Batch, digests: Sequence[bytes]) -> Any:
    """The batch as an Arrow table of `arrow_schema`."""
    import pyarrow as pa

    arrays: list[Any] = []
    for field in arrow_schema():
        if field.name in NUMBERS and NUMBERS[field.name].endswith("[]"):
            values = batch.numbers[field.name]
            offsets = np.arange(len(batch) + 1, dtype=np.int32) * np.int32(values.shape[1])
            flat = pa.array(np.ascontiguousarray(values).reshape(-1), field.type.value_type)
            arrays.append(pa.ListArray.from_arrays(pa.array(offsets), flat, type=field.type))
        elif field.name == DIGEST:
            arrays.append(pa.array(list(digests), field.type))
        else:
            arrays.append(pa.array({**batch.texts, **batch.numbers}[field.name], field.type))
    return pa.Table.from_arrays(arrays, schema=arrow_schema())


def batches_of(table: Any) -> list[tuple[NDArray[np.int64], Batch]]:
    """Rows of a part, those of equal shapes together, with their places."""
    count = table.num_rows
    if not count:
        return []
    for name in table.column_names:
        if table.column(name).null_count:
            raise RecordError(f"column {name}: saw an empty cell, expected a value in every row")
    texts = {name: table.column(name).to_pylist() for name in TEXTS}
    lists = {name: _offsets(table, name) for name, kind in NUMBERS.items() if kind.endswith("[]")}
    plain = {name: table.column(name).to_numpy() for name, kind in NUMBERS.items() if not kind.endswith("[]")}
    lengths = np.stack([np.diff(offsets) for offsets, _ in lists.values()], axis=1)
    _, shape = np.unique(lengths, axis=0, return_inverse=True)
    shape = shape.reshape(-1)
    batches = []
    for number in range(int(shape.max()) + 1):
        rows = np.flatnonzero(shape == number)
        numbers = {name: values[rows] for name, values in plain.items()}
        for name, (offsets, flat) in lists.items():
            width = int(np.diff(offsets[rows[0] : rows[0] + 2])[0])
            numbers[name] = flat[offsets[rows][:, None] + np.arange(width)]
        batches.append((rows, Batch({name: [column[i] for i in rows] for name, column in texts.items()}, numbers)))
    return batches


def _offsets(table: Any, name: str) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Where each row's list begins, and all lists after one another."""
    import pyarrow as pa

    array = table.column(name).combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0)
    if array.values.null_count:
        raise RecordError(f"column {name}: saw an empty place in a list, expected numbers")
    return array.offsets.to_numpy().astype(np.int64), array.values.to_numpy(zero_copy_only=False)
