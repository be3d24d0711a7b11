"""A segment on disk, beside the log: `LOG.d/RUN/` with shared.json and its parts, `part-*.parquet`.

Every file is written under another name, synced and renamed; equal rows give equal bytes. A run is closed by one entry
of kind `segment` in the log's chain. It names shared.json and every part by SHA-256, and the root of the tree
(`records.merkle`) over the digests of the part's rows, so that one row can be proved without the others.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ucsearch.errors import RecordError
from ucsearch.records.canonical import canonical, loads
from ucsearch.records.entries import Request
from ucsearch.records.files import whole_file
from ucsearch.records.merkle import root_of
from ucsearch.scale.segments.rows import DIGEST, NUMBERS, Batch, arrow_schema, batches_of, digests_of, table_of
from ucsearch.scale.segments.shared import SCHEMA, Shared, worker

__all__ = [
    "DIGEST",
    "SHARED",
    "RowPlace",
    "Sealed",
    "SealedPart",
    "check_worker",
    "checked_part",
    "each_part",
    "encode_part",
    "find_row",
    "folder_of",
    "part_name",
    "part_names",
    "read_part",
    "rows_root",
    "run_name",
    "seal_folder",
    "segment_record",
    "write_part",
    "write_shared",
]

SHARED = "shared.json"
PART = re.compile(r"part-[0-9a-f]{6,64}\.parquet")
_SHARED_KEY, _WORKER_KEY, _ROOT_KEY = b"ucsearch.shared", b"ucsearch.worker", b"ucsearch.root"
_ROW_GROUP = 1 << 20
_DIGEST_BYTES = 32
_FREE_BYTES, _MOST_BLOWN_UP = 64 << 20, 200  # a part is a third to a tenth of what it holds


class SealedPart(NamedTuple):
    """A file of rows, as the chain names it."""

    name: str
    sha256: str
    rows: int
    root: str  # of the tree over its rows' digests


@dataclass(frozen=True)
class Sealed:
    """What the chain's entry says of a run."""

    run: str
    count: int  # rows
    shared: str  # SHA-256 of shared.json
    parts: tuple[SealedPart, ...]

    def content(self) -> dict[str, Any]:
        return {"run": self.run, "count": self.count, "shared": self.shared, "parts": [p._asdict() for p in self.parts]}

    @classmethod
    def read(cls, content: Mapping[str, Any], where: str) -> Sealed:
        try:
            parts = tuple(SealedPart(**part) for part in content["parts"])
            sealed = cls(str(content["run"]), int(content["count"]), str(content["shared"]), parts)
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(f"{where}: not what a segment says of itself ({error!r})") from error
        if not re.fullmatch("[0-9a-f]{64}", sealed.run) or not all(PART.fullmatch(p.name) for p in parts):
            raise RecordError(f"{where}: names that no segment has")
        return sealed


def folder_of(log: Path, run: str) -> Path:
    """Where a run's files are."""
    return log.with_name(log.name + ".d") / run


def run_name(shared: Shared, inputs: Sequence[str]) -> str:
    """SHA-256 of shared.json (which has the time), and the digests of the input files."""
    return hashlib.sha256(b"ucsearch.run/1\0" + shared.sha + "\0".join(inputs).encode("utf-8")).hexdigest()


def part_name(number: int) -> str:
    return f"part-{number:06d}.parquet"


def part_names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if PART.fullmatch(p.name))


def write_shared(folder: Path, shared: Shared) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / SHARED
    if path.exists() and path.read_bytes() == shared.body:
        return
    with whole_file(path) as file:
        file.write(shared.body)


# -------------------------------------------------------------------- writing


def encode_part(batches: Sequence[Batch], shared: Shared, order: Sequence[str] | None = None) -> Any:
    """One Arrow table of all rows, in the order of `order` (series) where it is given."""
    import pyarrow as pa

    tables = [table_of(batch, digests_of(batch, shared.hex)) for batch in batches]
    table = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
    if order is not None and len(tables) > 1:
        place = {name: i for i, name in enumerate(table.column("series").to_pylist())}
        table = table.take(pa.array([place[name] for name in order if name in place]))
    return table.combine_chunks()


def rows_root(table: Any) -> str:
    """The root of the tree over the rows' digests."""
    return root_of(table.column(DIGEST).to_pylist()).hex()


def write_part(path: Path, table: Any, shared: Shared) -> None:
    """Write the rows; durable when this returns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    marks = {_SHARED_KEY: shared.hex, _WORKER_KEY: canonical(worker()), _ROOT_KEY: rows_root(table)}
    floats = [f"{n}.list.element" if k.endswith("[]") else n for n, k in NUMBERS.items() if k.startswith("f8")]
    buffer = pa.BufferOutputStream()
    pq.write_table(
        table.replace_schema_metadata(marks), buffer, compression="zstd", compression_level=1,
        use_dictionary=["task", "outcome", "reason", "cause", "meta", "source", "detail"],
        use_byte_stream_split=floats, row_group_size=_ROW_GROUP, write_statistics=["series"], store_schema=True,
    )  # fmt: skip
    with whole_file(path) as file:
        file.write(buffer.getvalue())


# -------------------------------------------------------------------- reading


class ReadPart(NamedTuple):
    """A part's rows and what it says of itself."""

    name: str
    table: Any
    marks: dict[bytes, bytes]
    sha256: str

    @property
    def part(self) -> SealedPart:
        """What the chain says of this file."""
        return SealedPart(self.name, self.sha256, self.table.num_rows, rows_root(self.table))

    def batches(self) -> list[tuple[Any, Batch]]:
        """The rows by shape, with their places."""
        try:
            return batches_of(self.table)
        except RecordError as error:
            raise RecordError(f"{self.name}, {error}") from error

    def row(self, place: int, text: str) -> RecordError:
        """What is wrong with a row, in words that name it."""
        series = self.table.column("series")[place].as_py()
        return RecordError(f"{self.name}, row {place + 1}, series {series!r}: {text}")


def read_part(path: Path, columns: Sequence[str] | None = None) -> ReadPart:
    """All rows, or some columns of them; a file that is no part is a `RecordError` that names it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    _regular(path)
    try:
        with pa.memory_map(str(path)) as source:
            data = source.read_buffer()
            file = pq.ParquetFile(pa.BufferReader(data))
            columns_held = file.schema_arrow
            for field in arrow_schema():
                if (count := columns_held.names.count(field.name)) != 1:
                    raise RecordError(f"{path.name}, column {field.name}: {'missing' if not count else 'there twice'}")
                if (kind := columns_held.field(field.name).type) != field.type:
                    raise RecordError(f"{path.name}, column {field.name}: saw {kind}, expected {field.type}")
            _fits(path.name, file.metadata, len(data))
            sha = hashlib.sha256(memoryview(data)).hexdigest()
            table = file.read(columns=None if columns is None else list(columns))
    except (OSError, pa.ArrowException) as error:
        raise RecordError(f"{path.name}: cannot be read as a part ({' '.join(str(error).split())[:200]})") from error
    return ReadPart(path.name, table, columns_held.metadata or {}, sha)


def checked_part(path: Path, shared: Shared) -> ReadPart:
    """A part of this run, made by its settings on a worker like the one that planned it, each row of which gives its
    digest and its root; `RecordError` names the file, and the row, that is wrong."""
    part = read_part(path)
    check_worker(part, shared)
    for places, batch in part.batches():
        stored = part.table.column(DIGEST).take(places).to_pylist()
        for place, digest, expected in zip(places.tolist(), stored, digests_of(batch, shared.hex), strict=True):
            if digest != expected:
                raise part.row(place, "its columns do not give its digest")
    return part


def check_worker(part: ReadPart, shared: Shared) -> None:
    """Whether a part was made by this run's settings on a worker like the one that planned it."""
    try:
        claims = loads(part.marks.get(_WORKER_KEY, b"{}"))
    except RecordError:
        claims = {}
    claims = claims if isinstance(claims, dict) else {}
    for key, expected in shared.worker.items():
        if (claimed := claims.get(key)) != expected:
            raise RecordError(
                f"{part.name}, worker: {key} is {claimed!r}, expected {expected!r} as where the run began"
            )
    settings = part.marks.get(_SHARED_KEY, b"").decode("ascii", "replace")
    if settings != shared.hex:
        raise RecordError(f"{part.name}, settings: digest {settings[:12]!r}, expected {shared.hex[:12]!r}")


def _regular(path: Path) -> None:
    if path.exists() and not path.is_file():  # a pipe or a device, which may never answer or never end
        raise RecordError(f"{path.name}: cannot be read as a part (not a regular file)")


def _fits(name: str, footer: Any, size: int) -> None:
    """Refuse what would be blown up in memory: every row has a digest of its own, which nothing can compress."""
    if footer.num_rows * _DIGEST_BYTES > size:
        raise RecordError(f"{name}: saw {footer.num_rows} rows in {size} bytes, fewer than their digests take")
    whole = sum(footer.row_group(i).total_byte_size for i in range(footer.num_row_groups))
    if whole > max(_FREE_BYTES, _MOST_BLOWN_UP * size):
        raise RecordError(f"{name}: saw {whole} bytes packed into {size}, more than any part's")
    if size > 2 * whole + _FREE_BYTES:  # a hole of a terabyte takes no room on a disk, but an hour to hash
        raise RecordError(f"{name}: saw {size} bytes for {whole} of rows, more than any part has")


# -------------------------------------------------------------------- sealing


def seal_folder(folder: Path, run: str, expected: Sequence[str] | None = None, before: Sealed | None = None) -> Sealed:
    """Check that all parts are there, as they were written, and belong together; returns what the log is to say of
    them. Parts that are others than those that were sealed `before` are refused."""
    shared = Shared.read(folder / SHARED)
    names = part_names(folder)
    if expected is not None:
        if missing := [n for n in expected if n not in set(names)]:
            raise RecordError(f"{missing[0]}: missing; {len(missing)} of {len(expected)} parts are not there")
        if extra := [n for n in names if n not in set(expected)]:
            raise RecordError(f"{extra[0]}: not one of this run's parts")
    if not names:
        raise RecordError(f"{folder}: no parts")
    parts = []
    for read in each_part(folder, names, shared):
        part = read.part
        if read.marks.get(_ROOT_KEY, b"").decode("ascii", "replace") != part.root:
            raise RecordError(f"{part.name}: its rows are not those that were written there; run it again")
        parts.append(part)
    sealed = Sealed(run, sum(part.rows for part in parts), shared.hex, tuple(parts))
    if before is not None and sealed != before:
        changed = [part.name for part in parts if part not in before.parts] or [SHARED]
        raise RecordError(f"{changed[0]}: not as it was sealed; the log has another entry of this run")
    return sealed


def each_part(folder: Path, names: Sequence[str], shared: Shared) -> Iterator[ReadPart]:
    """These parts, checked; a series that comes twice is refused."""
    owner: dict[str, str] = {}
    for name in names:
        part = checked_part(folder / name, shared)
        for place, series in enumerate(part.table.column("series").to_pylist()):
            if series in owner:
                raise part.row(place, f"the series is in {owner[series]} too")
            owner[series] = name
        yield part


def segment_record(sealed: Sealed, by: str = "ucsearch decide", request: Request | None = None) -> dict[str, Any]:
    """The entry that closes a run."""
    filing = {} if request is None else {"request": request.content()}
    versions = {name: worker()[name] for name in ("ucsearch", "python", "numpy")}
    return {"schema": SCHEMA, "kind": "segment", "by": by, "versions": versions, **sealed.content(), **filing}


# -------------------------------------------------------------------- one row


class RowPlace(NamedTuple):
    """A row that was looked for."""

    part: str
    batch: Batch  # rows of its shape
    row: int  # within them
    digest: bytes


def find_row(folder: Path, series: str = "", digest: str = "") -> RowPlace | None:
    """The row of a series, or the one whose digest begins so; None when there is none."""
    for name in part_names(folder):
        if series and not _may_hold(folder / name, series):
            continue
        table = read_part(folder / name, ["series", DIGEST]).table
        digests = table.column(DIGEST).to_pylist()
        names = table.column("series").to_pylist() if series else [d.hex()[: len(digest)] for d in digests]
        if (series or digest) not in names:
            continue
        at = names.index(series or digest)
        for places, batch in read_part(folder / name).batches():
            if at in places:
                return RowPlace(name, batch, places.tolist().index(at), digests[at])
    return None


def _may_hold(path: Path, series: str) -> bool:
    """By the statistics of the file's footer."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    _regular(path)
    try:
        footer = pq.read_metadata(path)
        for g in range(footer.num_row_groups):
            stats = footer.row_group(g).column(0).statistics
            if stats is None or not stats.has_min_max or stats.min <= series <= stats.max:
                return True
        return False
    except (OSError, pa.ArrowException):
        return True  # whoever reads it says what is wrong
