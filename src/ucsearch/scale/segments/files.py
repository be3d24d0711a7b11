"""A segment on disk, beside the log: `LOG.d/RUN/` with shared.json, part-NNNNNN.parquet and manifest.json.

Every file is written under another name, synced and renamed; equal rows give equal bytes. A run is closed by one entry
of kind `segment` in the log's chain, which names root, parts and shared.json.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from ucsearch.errors import RecordError
from ucsearch.records.canonical import canonical, loads
from ucsearch.records.entries import Request
from ucsearch.records.files import whole_file
from ucsearch.scale.segments.merkle import SeriesTree
from ucsearch.scale.segments.rows import COLUMNS, DIGEST, MEMBERS, Batch, arrow_schema, batch_of, digests_of, table_of
from ucsearch.scale.segments.shared import SCHEMA, Shared, worker

__all__ = [
    "DIGEST",
    "LEAVES",
    "MANIFEST",
    "SHARED",
    "Part",
    "Place",
    "Sealed",
    "encode_part",
    "find_row",
    "folder_of",
    "manifest_of",
    "part_name",
    "read_part",
    "rows_of_part",
    "run_name",
    "seal_folder",
    "segment_record",
    "write_part",
    "write_shared",
]

SHARED, MANIFEST, LEAVES = "shared.json", "manifest.json", "leaves.bin"
PART = re.compile(r"part-[0-9a-f]{6,64}\.parquet")
_SHARED_KEY, _WORKER_KEY, _ROWS_KEY = b"ucsearch.shared", b"ucsearch.worker", b"ucsearch.rows"
_ROW_GROUP = 1 << 20
_DIGEST_BYTES = 32
_FREE_BYTES, _MOST_BLOWN_UP = 64 << 20, 200  # a part is a third to a tenth of what it holds


class Part(NamedTuple):
    """A file of rows, as the chain names it."""

    name: str
    sha256: str
    rows: int


@dataclass(frozen=True)
class Sealed:
    """What the chain's entry says of a run."""

    run: str
    count: int
    root: str
    shared: str  # SHA-256 of shared.json
    parts: tuple[Part, ...]

    def content(self) -> dict[str, Any]:
        return {
            "run": self.run,
            "count": self.count,
            "root": self.root,
            "shared": self.shared,
            "parts": [[p.name, p.sha256, p.rows] for p in self.parts],
        }

    @classmethod
    def read(cls, content: Mapping[str, Any], where: str) -> Sealed:
        try:
            parts = tuple(Part(str(n), str(s), int(r)) for n, s, r in content["parts"])
            made = cls(str(content["run"]), int(content["count"]), str(content["root"]), str(content["shared"]), parts)
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(f"{where}: not what a segment says of itself ({error!r})") from error
        if not re.fullmatch("[0-9a-f]{64}", made.run) or not all(PART.fullmatch(p.name) for p in parts):
            raise RecordError(f"{where}: names that no segment has")
        return made


def folder_of(log: Path, run: str) -> Path:
    """Where a run's files are."""
    return log.with_name(log.name + ".d") / run


def run_name(shared: Shared, inputs: Sequence[str]) -> str:
    """SHA-256 of shared.json (which has the time), and the digests of the input files."""
    return hashlib.sha256(b"ucsearch.run/1\0" + shared.sha + "\0".join(inputs).encode("utf-8")).hexdigest()


def part_name(number: int) -> str:
    return f"part-{number:06d}.parquet"


def write_shared(folder: Path, shared: Shared) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / SHARED
    if path.exists() and path.read_bytes() == shared.body:
        return
    with whole_file(path) as file:
        file.write(shared.body)


def encode_part(batches: Sequence[Batch], shared: Shared, order: Sequence[str] | None = None) -> Any:
    """One Arrow table of all rows, in the order of `order` (series) where it is given."""
    import pyarrow as pa

    tables = [table_of(batch, digests_of(batch, shared.sha)) for batch in batches]
    table = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
    if order is not None and len(tables) > 1:
        place = {name: i for i, name in enumerate(order)}
        seen = [place[name] for name in table.column("series").to_pylist()]
        back = sorted(range(len(seen)), key=seen.__getitem__)
        table = table.take(pa.array(back))
    return table.combine_chunks()


def write_part(path: Path, table: Any, shared: Shared) -> str:
    """Write the rows; durable when this returns their file's SHA-256."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = _rows_mark(table.column(DIGEST).to_pylist())
    marks = {_SHARED_KEY: shared.sha.hex().encode(), _WORKER_KEY: canonical(worker()), _ROWS_KEY: rows.encode()}
    made = table.replace_schema_metadata(marks)
    split = [n for n, k in COLUMNS.items() if k.startswith("f8")] + list(MEMBERS)
    plain = [*(f"{n}.list.element" if n in MEMBERS or COLUMNS[n].endswith("[]") else n for n in split)]
    dictionary = ["task", "outcome", "reason", "cause", "meta", "source", "detail"]
    buffer = pa.BufferOutputStream()
    pq.write_table(
        made, buffer, compression="zstd", compression_level=1, use_dictionary=dictionary,
        use_byte_stream_split=plain, row_group_size=_ROW_GROUP, write_statistics=["series"], store_schema=True,
    )  # fmt: skip
    data = buffer.getvalue()
    with whole_file(path) as file:
        file.write(data)
    return hashlib.sha256(data).hexdigest()


class ReadPart(NamedTuple):
    """A part's rows and what it says of itself."""

    table: Any
    shared: str
    worker: dict[str, str]
    sha256: str
    schema: Any  # of all its columns
    rows: str  # what its writer said of them, see `_rows_mark`


def _rows_mark(digests: Sequence[bytes]) -> str:
    """How many rows there are, and a SHA-256 of all their digests: rows that went missing before a seal are missed."""
    return f"{len(digests)} {hashlib.sha256(b''.join(digests)).hexdigest()}"


def read_part(path: Path, columns: Sequence[str] | None = None) -> ReadPart:
    """All rows, or some columns of them; a file that is no part is a `RecordError` that names it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    _regular(path)
    try:
        with pa.memory_map(str(path)) as source:
            data = source.read_buffer()
            file = pq.ParquetFile(pa.BufferReader(data))
            marks = file.schema_arrow.metadata or {}
            held = file.schema_arrow
            for field in arrow_schema():
                if field.name not in held.names:
                    raise RecordError(f"{path.name}, column {field.name}: missing")
                if held.names.count(field.name) > 1:
                    raise RecordError(f"{path.name}, column {field.name}: there twice, expected it once")
                if (seen := held.field(field.name).type) != field.type:
                    raise RecordError(f"{path.name}, column {field.name}: saw {seen}, expected {field.type}")
            _fits(path.name, file.metadata, len(data))
            sha = hashlib.sha256(memoryview(data)).hexdigest()
            table = file.read(columns=None if columns is None else list(columns))
    except (OSError, pa.ArrowException) as error:
        raise RecordError(f"{path.name}: cannot be read as a part ({' '.join(str(error).split())[:200]})") from error
    try:
        said = loads(marks.get(_WORKER_KEY, b"{}"))
    except RecordError:
        said = {}
    shared, rows = (marks.get(key, b"").decode("ascii", "replace") for key in (_SHARED_KEY, _ROWS_KEY))
    return ReadPart(table, shared, said if isinstance(said, dict) else {}, sha, held, rows)


def _regular(path: Path) -> None:
    if path.exists() and not path.is_file():  # a pipe or a device, which may never answer or never end
        raise RecordError(f"{path.name}: cannot be read as a part (not a regular file)")


def _fits(name: str, said: Any, size: int) -> None:
    """Refuse what would be blown up in memory: every row has a digest of its own, which nothing can compress."""
    if said.num_rows * _DIGEST_BYTES > size:
        raise RecordError(f"{name}: saw {said.num_rows} rows in {size} bytes, fewer than their digests take")
    whole = sum(said.row_group(i).total_byte_size for i in range(said.num_row_groups))
    if whole > max(_FREE_BYTES, _MOST_BLOWN_UP * size):
        raise RecordError(f"{name}: saw {whole} bytes packed into {size}, more than any part's")
    if size > 2 * whole + _FREE_BYTES:  # a hole of a terabyte takes no room on a disk, but an hour to hash
        raise RecordError(f"{name}: saw {size} bytes for {whole} of rows, more than any part has")


def rows_of_part(path: Path) -> tuple[ReadPart, list[tuple[Any, Batch]]]:
    """The part's rows by shape; what is wrong with a column is said with the part's name."""
    found = read_part(path)
    return found, _batches(path.name, found)


def _batches(name: str, found: ReadPart) -> list[tuple[Any, Batch]]:
    try:
        return batch_of(found.table)
    except RecordError as error:
        raise RecordError(f"{name}, {error}") from error


def part_names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if PART.fullmatch(p.name))


def seal_folder(folder: Path, run: str, expected: Sequence[str] | None = None, before: Sealed | None = None) -> Sealed:
    """Check that all parts are there and belong together, and write the manifest. Nothing is written if not, or if they
    are others than those that the log says were sealed `before`."""
    shared = Shared.read(folder / SHARED)
    names = part_names(folder)
    if expected is not None:
        if missing := [n for n in expected if n not in set(names)]:
            raise RecordError(f"{missing[0]}: missing; {len(missing)} of {len(expected)} parts are not there")
        if extra := [n for n in names if n not in set(expected)]:
            raise RecordError(f"{extra[0]}: not one of this run's parts")
    if not names:
        raise RecordError(f"{folder}: no parts")
    parts, tree = _collect(folder, names, shared)
    sealed = Sealed(run, tree.count, tree.root.hex(), shared.sha.hex(), tuple(parts))
    if before is not None and sealed != before:
        changed = [part.name for part in parts if part not in before.parts] or [SHARED]
        raise RecordError(f"{changed[0]}: not as it was sealed; the log has another entry of this run")
    with whole_file(folder / LEAVES) as file:  # so that a proof need not read all parts
        for leaves in tree.leaves:
            file.write(b"".join(leaves))
    with whole_file(folder / MANIFEST) as file:
        file.write(manifest_of(sealed, tree))
    return sealed


def manifest_of(sealed: Sealed, tree: SeriesTree) -> bytes:
    """What was sealed, and the buckets of its tree."""
    tiles = {"tops": [t.hex() for t in tree.tops], "sizes": [len(leaves) for leaves in tree.leaves]}
    return canonical({"schema": SCHEMA, **sealed.content(), **tiles})


def _collect(folder: Path, names: Sequence[str], shared: Shared) -> tuple[list[Part], SeriesTree]:
    parts: list[Part] = []
    series: list[str] = []
    digests: list[bytes] = []
    owner: dict[str, str] = {}
    for name in names:
        found = read_part(folder / name)
        check_part(name, found, shared)
        _check_columns(name, found)
        own = found.table.column("series").to_pylist()
        for one in own:
            if owner.setdefault(one, name) != name:
                raise RecordError(f"{name}, column series: {one!r} is in {owner[one]} too, expected it once")
        if len(set(own)) != len(own):
            twice = next(x for i, x in enumerate(own) if x in own[:i])
            raise RecordError(f"{name}, column series: {twice!r} twice, expected it once")
        made = found.table.column(DIGEST).to_pylist()
        if found.rows != _rows_mark(made):
            written = found.rows.partition(" ")[0][:20] or "unknown number"
            raise RecordError(f"{name}: {len(made)} rows are not the {written} that were written there; run it again")
        for places, batch in _batches(name, found):
            for at, digest in zip(places.tolist(), digests_of(batch, shared.sha), strict=True):
                if digest != made[at]:
                    raise RecordError(f"{name}, series {own[at]!r}: its columns do not give its digest; run it again")
        series += own
        digests += made
        parts.append(Part(name, found.sha256, len(own)))
    return parts, SeriesTree(series, digests)


def _check_columns(name: str, found: ReadPart) -> None:
    """Whether a part that is about to be sealed has the columns that its worker wrote, and no others."""
    for seen, wanted in zip_longest(found.schema, arrow_schema()):
        if wanted is None or seen is None or seen.name != wanted.name:
            told = "no column" if wanted is None else f"column {wanted.name}"
            raise RecordError(f"{name}, column {seen.name if seen is not None else wanted.name}: expected {told} there")
        if seen.nullable and not wanted.nullable:
            raise RecordError(f"{name}, column {seen.name}: may have empty cells, expected a value in every row")


def check_part(name: str, found: ReadPart, shared: Shared) -> None:
    """Whether a part was made by this run's settings on a worker like the one that planned it."""
    said = found.worker
    for key, wanted in shared.worker.items():
        if said.get(key) != wanted:
            raise RecordError(f"{name}, worker: {key} is {said.get(key)!r}, expected {wanted!r} as where the run began")
    if found.shared != shared.sha.hex():
        raise RecordError(f"{name}, settings: digest {found.shared[:12]!r}, expected {shared.sha.hex()[:12]!r}")


def segment_record(sealed: Sealed, by: str = "ucsearch decide", request: Request | None = None) -> dict[str, Any]:
    """The entry that closes a run."""
    asked = {} if request is None else {"request": request.content()}
    versions = {name: worker()[name] for name in ("ucsearch", "python", "numpy")}
    return {"schema": SCHEMA, "kind": "segment", "by": by, "versions": versions, **sealed.content(), **asked}


class Place(NamedTuple):
    """A row that was looked for."""

    part: str
    batch: Batch  # rows of its shape
    row: int  # within them
    digest: bytes


def find_row(folder: Path, series: str = "", digest: str = "") -> Place | None:
    """The row of a series, or the one whose digest begins so; None when there is none."""
    for name in part_names(folder):
        if series and not _may_hold(folder / name, series):
            continue
        found = read_part(folder / name, ["series", DIGEST])
        names = found.table.column("series").to_pylist()
        digests = found.table.column(DIGEST).to_pylist()
        hits = [i for i, n in enumerate(names) if n == series] if series else [
            i for i, d in enumerate(digests) if d.hex().startswith(digest)
        ]  # fmt: skip
        if hits:
            for places, batch in rows_of_part(folder / name)[1]:
                at = [k for k, place in enumerate(places.tolist()) if place == hits[0]]
                if at:
                    return Place(name, batch, at[0], digests[hits[0]])
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
