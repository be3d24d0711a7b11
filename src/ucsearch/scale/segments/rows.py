"""One decision as one row of columns, and the bytes that its digest is made of.

Row bytes are the columns of `COLUMNS` in that order, little-endian: a text or binary is a u32 length and its bytes, a
list a u32 count and its values, -0.0 is 0.0, and there is one NaN. `members` is no part of them: `trace` stands for it,
as the hash over the digests of all steps, so that steps nobody reads can be left out. The digest of a row is the
SHA-256 of `ucsearch.row/2`, a zero byte, the SHA-256 of shared.json, and the row bytes. `verify/segments.py` has the
same rules in its own words.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import RecordError
from ucsearch.layout import own_row

__all__ = [
    "COLUMNS",
    "MEMBERS",
    "Batch",
    "Traces",
    "arrow_schema",
    "batch_of",
    "digests_of",
    "normal",
    "step_digests",
    "table_of",
    "trace_hashes",
]

Floats = NDArray[np.float64]
Bytes = NDArray[np.uint8]

# Texts come first and numbers after them, so that all numbers of a row are one run of bytes.
COLUMNS: dict[str, str] = {
    "series": "text",
    "task": "text",  # canonical JSON: name, version, hashes, object, lengths of state and params
    "outcome": "text",
    "reason": "text",
    "cause": "text",
    "meta": "text",  # of the trace, canonical JSON; "" for a refusal
    "detail": "text",  # why the trace was refused, or what the final check found; else ""
    "source": "text",  # keep = "reference": where the members are; how they were recalibrated (changes.py); else ""
    "trace": "binary",  # 32 bytes; none for a refusal
    "rest": "binary",  # 32 bytes for each step that is not kept
    "action": "f8",  # NaN on HOLD
    "fallback": "f8[]",  # the fallback action and its cost
    "shape": "i8[]",  # members, steps of the forecast, steps kept, fields
    "state": "f8[]",  # (n,)
    "params": "f8[]",  # (p,)
    "actions": "f8[]",  # (m,) NaN where unavailable
    "weights": "f8[]",  # (J,); none when all are equal
    "claims": "f8[]",  # see encode.CLAIMS
    "bits": "i8",  # see encode.BITS
    "rivals": "f8[]",  # (m, 5) reward, uncertainty, upper, reward-only lower and upper
    "first": "f8[]",  # (m, 2) reward and uncertainty of the first step
    "paths": "i2[]",  # (m, d) action indices, -1 where there is none
    "counters": "i8[]",  # index of the action put forward; expansions, action scores, simulations, nodes of the proofs
}
MEMBERS = ("members_f4", "members_f8")  # (kept, J, F) steps first; f4 where that loses nothing
DIGEST = "digest"
_TEXTS = tuple(n for n, k in COLUMNS.items() if k == "text")
_BINARIES = tuple(n for n, k in COLUMNS.items() if k == "binary")
_NUMBERS = {n: k for n, k in COLUMNS.items() if k not in ("text", "binary")}
_DTYPES = {"f8": "<f8", "i8": "<i8", "i2": "<i2"}
_NAN = np.uint64(0x7FF8000000000000).view(np.float64)
_BLOCK = 1 << 20  # bytes laid out for hashing at a time
_ROW_HEAD = b"ucsearch.row/2\0"
_STEP_HEAD = b"ucsearch.step/2\0"
_TRACE_HEAD = b"ucsearch.trace/2\0"


class Batch(NamedTuple):
    """Rows of equal shapes: texts as lists, numbers as arrays (W,) or (W, n)."""

    texts: dict[str, list[str]]
    binaries: dict[str, list[bytes]]
    numbers: dict[str, NDArray[Any]]
    members: Floats  # (W, kept * J * F)

    def __len__(self) -> int:
        return len(self.texts["series"])


def normal(values: Any) -> Floats:
    """As float64 with one zero and one NaN."""
    out: Floats = np.asarray(values, dtype=np.float64) + 0.0
    out[np.isnan(out)] = _NAN
    return out


# -------------------------------------------------------------------- hashes of the trace


class Traces(NamedTuple):
    """Hashes of W traces."""

    steps: Bytes  # (W, H, 32)
    hashes: list[bytes]  # (W,)


def step_digests(steps: Floats) -> Bytes:
    """(W, H, 32) of members (W, H, J, F) in canonical order."""
    count, horizon, size, fields = steps.shape
    head = _STEP_HEAD + struct.pack("<II", size, fields)
    width = len(head) + 8 * size * fields
    block = max(1, _BLOCK // max(1, horizon * width))
    buffer = np.empty((block * horizon, width), np.uint8)
    buffer[:, : len(head)] = np.frombuffer(head, np.uint8)
    data, sha, found = memoryview(buffer.reshape(-1).data), hashlib.sha256, []
    for lo in range(0, count, block):
        part = np.ascontiguousarray(steps[lo : lo + block], dtype="<f8").reshape(-1, size * fields)
        buffer[: len(part), len(head) :] = part.view(np.uint8)
        found += [sha(data[i : i + width]).digest() for i in range(0, len(part) * width, width)]
    return np.frombuffer(b"".join(found), np.uint8).reshape(count, horizon, 32)


def trace_hashes(steps: Bytes, weights: Floats, metas: Sequence[str]) -> list[bytes]:
    """(W,) from all step digests (W, H, 32); `weights` (W or 1, J) or (1, 0) when they are equal."""
    count, horizon = steps.shape[:2]
    size = struct.pack("<I", horizon)
    out = []
    for w in range(count):
        meta = metas[w].encode("utf-8")
        own = own_row(weights, w)
        head = struct.pack("<I", len(meta)) + meta + struct.pack("<I", own.size) + own.astype("<f8").tobytes() + size
        out.append(hashlib.sha256(_TRACE_HEAD + head + steps[w].tobytes()).digest())
    return out


# -------------------------------------------------------------------- digests of rows


def digests_of(batch: Batch, shared: bytes) -> list[bytes]:
    """(W,) digests; `shared` is the SHA-256 of shared.json."""
    base = hashlib.sha256(_ROW_HEAD + shared)
    known: dict[str, bytes] = {}

    def told(text: str) -> bytes:
        found = known.get(text)
        if found is None:
            data = text.encode("utf-8")
            found = struct.pack("<I", len(data)) + data
            if len(known) < 10_000:
                known[text] = found
        return found

    texts = [batch.texts[n] for n in _TEXTS]
    binaries = [batch.binaries[n] for n in _BINARIES]
    numbers = _number_bytes(batch)
    width = numbers.shape[1]
    data = memoryview(numbers.reshape(-1).data)
    out = []
    pack = struct.Struct("<I").pack
    for w, (names, blobs) in enumerate(zip(zip(*texts, strict=True), zip(*binaries, strict=True), strict=True)):
        parts = [told(x) for x in names]
        for blob in blobs:
            parts += (pack(len(blob)), blob)
        own = base.copy()
        own.update(b"".join(parts))
        own.update(data[w * width : (w + 1) * width])
        out.append(own.digest())
    return out


def _number_bytes(batch: Batch) -> Bytes:
    """(W, k) the number columns of every row as bytes."""
    count = len(batch)
    parts: list[Bytes] = []
    for name, kind in _NUMBERS.items():
        values = batch.numbers[name]
        if kind.endswith("[]"):
            length = np.frombuffer(struct.pack("<I", values.shape[1]), np.uint8)
            parts.append(np.broadcast_to(length, (count, 4)))
        dtype = _DTYPES[kind.removesuffix("[]")]
        flat = np.ascontiguousarray(values.reshape(count, -1), dtype=dtype)
        parts.append(flat.view(np.uint8).reshape(count, -1))
    return np.ascontiguousarray(np.concatenate(parts, axis=1))


# -------------------------------------------------------------------- Arrow


def arrow_schema() -> Any:
    import pyarrow as pa

    kinds = {"text": pa.string(), "binary": pa.binary(), "f8": pa.float64(), "i8": pa.int64(), "i2": pa.int16()}

    def kind(text: str) -> Any:
        return pa.list_(kinds[text[:-2]]) if text.endswith("[]") else kinds[text]

    fields = [pa.field(n, kind(k), nullable=False) for n, k in COLUMNS.items()]
    fields += [
        pa.field(MEMBERS[0], pa.list_(pa.float32()), nullable=False),
        pa.field(MEMBERS[1], pa.list_(pa.float64()), nullable=False),
        pa.field(DIGEST, pa.binary(32), nullable=False),
    ]
    return pa.schema(fields)


def table_of(batch: Batch, digests: Sequence[bytes]) -> Any:
    """The batch as an Arrow table of `arrow_schema`."""
    import pyarrow as pa

    schema, count = arrow_schema(), len(batch)
    arrays: dict[str, Any] = {n: pa.array(batch.texts[n], pa.string()) for n in _TEXTS}
    arrays |= {n: pa.array(batch.binaries[n], pa.binary()) for n in _BINARIES}
    for name, kind in _NUMBERS.items():
        values = batch.numbers[name]
        arrays[name] = _lists(values, schema.field(name).type) if kind.endswith("[]") else pa.array(values)
    with np.errstate(over="ignore"):
        small = batch.members.astype(np.float32)
    lossless = (small.astype(np.float64) == batch.members).all(axis=1)
    arrays[MEMBERS[0]] = _some(small, lossless, schema.field(MEMBERS[0]).type)
    arrays[MEMBERS[1]] = _some(batch.members, ~lossless, schema.field(MEMBERS[1]).type)
    arrays[DIGEST] = pa.array(list(digests), pa.binary(32))
    if len(digests) != count:
        raise RecordError(f"saw {len(digests)} digests, expected {count}")
    return pa.Table.from_arrays([arrays[n] for n in schema.names], schema=schema)


def _lists(values: NDArray[Any], kind: Any) -> Any:
    return _some(values, np.ones(len(values), bool), kind)


def _some(values: NDArray[Any], there: NDArray[np.bool_], kind: Any) -> Any:
    """Rows of `values` as lists where `there`, empty lists elsewhere."""
    import pyarrow as pa

    width = values.shape[1]
    offsets = np.zeros(len(values) + 1, np.int32)
    offsets[1:] = np.cumsum(there * width)
    flat = np.ascontiguousarray(values if there.all() else values[there]).reshape(-1)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat, kind.value_type), type=kind)


def batch_of(table: Any) -> list[tuple[NDArray[np.int64], Batch]]:
    """Rows of a part, those of equal shapes together, with their places; a column that is missing or of another type
    is a `RecordError`."""
    schema = arrow_schema()
    for field in schema:
        if field.name not in table.schema.names:
            raise RecordError(f"column {field.name}: missing")
        seen = table.schema.field(field.name).type
        if seen != field.type:
            raise RecordError(f"column {field.name}: saw {seen}, expected {field.type}")
        if table.column(field.name).null_count:
            raise RecordError(f"column {field.name}: saw an empty cell, expected a value in every row")
    count = table.num_rows
    if not count:
        return []
    lists = {n: _offsets(table, n) for n, k in _NUMBERS.items() if k.endswith("[]")}
    lists |= {n: _offsets(table, n) for n in MEMBERS}
    lengths = np.stack([np.diff(offsets) for offsets, _ in lists.values()], axis=1)
    texts = {n: table.column(n).to_pylist() for n in _TEXTS}
    binaries = {n: table.column(n).to_pylist() for n in _BINARIES}
    plain = {n: table.column(n).to_numpy() for n, k in _NUMBERS.items() if not k.endswith("[]")}
    if (lengths == lengths[0]).all():
        groups = [np.arange(count)]
    else:
        _, inverse = np.unique(lengths, axis=0, return_inverse=True)
        inverse = inverse.reshape(-1)
        order = np.argsort(inverse, kind="stable")
        cuts = np.flatnonzero(np.diff(inverse[order])) + 1
        groups = np.split(order, cuts)
    out = []
    for rows in groups:
        numbers: dict[str, NDArray[Any]] = {}
        for name, values in plain.items():
            numbers[name] = normal(values[rows]) if COLUMNS[name] == "f8" else values[rows]
        picked = {}
        for k, (name, (offsets, flat)) in enumerate(lists.items()):
            width = int(lengths[rows[0], k])
            whole = rows.size == count
            picked[name] = (
                flat[int(offsets[0]) : int(offsets[-1])].reshape(count, width)
                if whole
                else flat[offsets[rows][:, None] + np.arange(width)]
            )
        for name, kind in _NUMBERS.items():
            if kind.endswith("[]"):
                numbers[name] = normal(picked[name]) if kind == "f8[]" else picked[name]
        both = [normal(picked[n]) for n in MEMBERS]
        if both[0].shape[1] and both[1].shape[1]:
            raise RecordError(f"series {texts['series'][int(rows[0])]!r}: members twice")
        members = both[0] if both[0].shape[1] else both[1]
        own = {n: [x[i] for i in rows.tolist()] for n, x in texts.items()}
        held = {n: [x[i] for i in rows.tolist()] for n, x in binaries.items()}
        out.append((rows, Batch(own, held, numbers, members)))
    return out


def _offsets(table: Any, name: str) -> tuple[NDArray[np.int64], NDArray[Any]]:
    import pyarrow as pa

    column = table.column(name)
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], column.type)
    if array.values.null_count:
        raise RecordError(f"column {name}: saw an empty place in a list, expected numbers")
    return array.offsets.to_numpy().astype(np.int64), array.values.to_numpy(zero_copy_only=False)


def row_values(batch: Batch, i: int) -> Mapping[str, Any]:
    """Row i as plain values, bytes as hex; NaN stays."""
    out: dict[str, Any] = {n: batch.texts[n][i] for n in _TEXTS}
    out |= {n: batch.binaries[n][i].hex() for n in _BINARIES}
    for name in _NUMBERS:
        value = batch.numbers[name][i]
        out[name] = value.tolist()
    return out
