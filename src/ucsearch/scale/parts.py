"""Jobs of parts in a folder, for any scheduler: plan once, run every part anywhere and as often as you like, seal once.

A part is a range of rows of one forecasts file, taken from its footer. It owns the series that begin in its range. Its
file is written under another name and renamed, and depends on nothing but the job, so a part that runs twice, or twice
at once, gives the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ucsearch.errors import DataError, InputError, RecordError
from ucsearch.planner.decide.inputs import Work
from ucsearch.planner.decide.states import StateFile
from ucsearch.planner.files.columns import forecast_layout, usual_names
from ucsearch.planner.files.series_file import SeriesFile
from ucsearch.planner.files.table import Block, Table, open_table, refuse_overwriting
from ucsearch.records.canonical import canonical, loads
from ucsearch.records.entries import Request
from ucsearch.records.files import whole_file
from ucsearch.records.log import AuditLog
from ucsearch.scale.batch import ArrowColumns, rows_of
from ucsearch.scale.forecasting import Forecasting, forecast_part, plan_forecasting
from ucsearch.scale.inputs import check_columns, check_numbers, check_states, footer_of, input_files
from ucsearch.scale.job import Job
from ucsearch.scale.segments.audit import sealed_before
from ucsearch.scale.segments.files import (
    SHARED,
    Sealed,
    check_worker,
    folder_of,
    part_name,
    part_names,
    read_part,
    rows_root,
    run_name,
    seal_folder,
    segment_record,
    write_part,
    write_shared,
)
from ucsearch.scale.segments.rows import arrow_schema
from ucsearch.scale.segments.shared import Shared

__all__ = [
    "Folder",
    "PartItem",
    "begin_parts",
    "plan_job",
    "run_part",
    "seal_job",
    "seal_parts",
    "write_named",
]


_OUT_ROWS = 50_000  # of a row group in the table of all decisions

JOB = "job.json"
SCHEMA = "ucsearch.job/1"


class PartItem(NamedTuple):
    """The work of one part: rows of a file, from the first to before the last."""

    file: str
    first: int
    last: int


@dataclass(frozen=True)
class Folder:
    """A planned job."""

    path: Path
    job: Job
    items: tuple[PartItem, ...]
    states: tuple[str, ...]
    footers: dict[str, str]  # SHA-256 of the footers of all input files
    log: Path
    begin: str  # first date of the forecasts, where they have dates
    forecasting: Forecasting | None = None  # files of sales: how each part forecasts them

    @property
    def run(self) -> str:
        shared = self.job.checked("that reads the job")
        inputs = [self.footers[n] for n in sorted(self.footers)]
        if self.forecasting is not None:
            inputs.append(hashlib.sha256(canonical(self.forecasting._asdict())).hexdigest())
        return run_name(shared, inputs)

    @property
    def segment(self) -> Path:
        return folder_of(self.log, self.run)

    @classmethod
    def read(cls, path: str | Path) -> Folder:
        place = Path(path)
        try:
            content = _parsed(place / JOB)
            if content["schema"] != SCHEMA:
                raise RecordError(f"{place / JOB}: saw {content['schema']!r}, expected {SCHEMA}")
            job = Job((place / "settings.toml").read_bytes(), content["digest"], content["now"], content["shared"])
            items = tuple(PartItem(str(f), int(a), int(b)) for f, a, b in content["items"])
            folder = cls(
                place, job, items, tuple(content["states"]), dict(content["footers"]), Path(content["log"]),
                str(content["begin"]), Forecasting(**content["forecasting"]) if "forecasting" in content else None,
            )  # fmt: skip
            _check_whole(folder, content.get("rows"))
        except OSError as error:
            problem = f"{error.filename}: {error.strerror}"
            raise InputError(str(place), problem, "a folder that `ucsearch job plan` wrote") from error
        except (KeyError, TypeError, ValueError) as error:
            raise RecordError(f"{place / JOB}: not a job ({error!r})") from error
        digest = hashlib.sha256(job.toml).hexdigest()
        if digest != job.digest:
            raise InputError("settings digest", digest[:12], f"{job.digest[:12]}, as the job was planned")
        return folder


def _check_whole(planned: Folder, rows: int | None) -> None:
    """That no row is left out or asked for twice: a job that was edited would be sealed as if it were whole."""
    files: dict[str, list[PartItem]] = {}
    for item in planned.items:
        files.setdefault(item.file, []).append(item)
    if {*files, *planned.states} != set(planned.footers) and rows is not None:
        raise ValueError("files without a footer or without rows")
    for name, parts in files.items():
        at = 0
        for item in sorted(parts, key=lambda item: item.first):
            if item.first != at or not item.last > at:
                raise ValueError(f"rows {item.first} to {item.last} of {name}, expected some from {at} on")
            at = item.last
    if rows is not None and sum(item.last - item.first for item in planned.items) != rows:
        raise ValueError(f"parts of fewer or more rows than the {rows} that were planned")
    if planned.begin:
        np.datetime64(planned.begin, "s")
    if "\0" in str(planned.log):
        raise ValueError("a log whose name no file has")


def _check_rows(planned: Folder) -> None:
    """That parts reach to the end of every file which is still as it was planned: a job that was cut short, with its
    number of rows, looks whole by itself."""
    import pyarrow.parquet as pq

    for name in {item.file for item in planned.items}:
        path = Path(name)
        if not path.is_file() or footer_of(path) != planned.footers[name]:
            continue  # another file has its place: parts were run on what was there
        rows, last = pq.read_metadata(path).num_rows, max(item.last for item in planned.items if item.file == name)
        if rows != last:
            raise RecordError(f"{planned.path / JOB}: not a job ({rows} rows in {name}, parts of {last})")


def _parsed(path: Path) -> Any:
    data = path.read_bytes()
    try:
        return loads(data)
    except RecordError as error:
        raise RecordError(f"{path}: not a job ({error})") from error


def plan_job(
    settings: str | Path, forecasts: str, states: str, folder: str | Path, *, parts: int, now: datetime | None = None,
    log: str | Path | None = None, forecaster: str | None = None, horizon: int | None = None, season: int | None = None,
    seed: int | None = None,
) -> Folder:  # fmt: skip
    """Cut the forecasts into parts, from footers alone. `forecasts` and `states` are patterns of Parquet files. With a
    `forecaster` the first are sales, and every part forecasts its own before it decides."""
    if type(parts) is not int or not 1 <= parts <= 999_999:
        raise InputError("parts", repr(parts), "a whole number from 1 to 999999")
    job, place = Job.read(settings, now), Path(folder)
    value_files = input_files("--forecasts" if forecaster is None else "--sales", forecasts)
    state_files = input_files("--states", states)
    footers = {str(p): footer_of(p) for p in (*value_files, *state_files)}
    own_settings = job.settings()
    book = Path(log) if log is not None else place / "decisions.db"
    items = _cut(value_files, parts)
    first = _Range(open_table(value_files[0]), *items[0][1:], own_settings.columns)
    how = None
    if forecaster is not None:
        how = plan_forecasting(own_settings, forecaster, value_files, first, horizon=horizon, season=season, seed=seed)
    begin = _begin(first, job) if how is None else ""
    for path in (*value_files[1:], *state_files[1:]):
        same = value_files[0] if path in value_files else state_files[0]
        check_columns(path, same)
    check_states(state_files[0], own_settings)
    if how is None:
        check_numbers(
            value_files[0], forecast_layout(first, usual_names(first, own_settings.columns), own_settings)[0].values
        )
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(str(place), error.strerror, "a folder for the job") from error
    content = {
        "schema": SCHEMA, "digest": job.digest, "now": job.now, "shared": job.shared,
        "items": [list(item) for item in items], "states": [str(p) for p in state_files], "footers": footers,
        "log": str(book.absolute()), "begin": begin, "rows": sum(item.last - item.first for item in items),
        **({} if how is None else {"forecasting": how._asdict()}),
    }  # fmt: skip
    body = canonical(content)
    old = place / JOB
    if old.exists() and old.read_bytes() != body:
        raise InputError(str(place), "another job", "an empty folder, or the same job")
    for name, data in (("settings.toml", job.toml), (JOB, body)):
        with whole_file(place / name) as file:
            file.write(data)
    planned = Folder.read(place)
    write_shared(planned.segment, job.checked("that plans"))
    return planned


def _cut(files: Sequence[Path], parts: int) -> list[PartItem]:
    import pyarrow.parquet as pq

    sizes = [pq.read_metadata(path).num_rows for path in files]
    total = sum(sizes)
    if not total:
        raise DataError(f"{files[0]}: saw no rows")
    each = -(-total // parts)
    out = []
    for path, size in zip(files, sizes, strict=True):
        for lo in range(0, size, each):
            out.append(PartItem(str(path), lo, min(lo + each, size)))
    return out


def _begin(table: Table, job: Job) -> str:
    """The first date of most series of the first part, which all others must begin with."""
    forecasts = SeriesFile.open(table, job.settings())
    if not forecasts.layout.dated or not forecasts.spans:
        return ""
    dates = [span[0] for span in forecasts.spans.values()]
    return str(max(set(dates), key=lambda d: (dates.count(d), d)))


class _Range:
    """The series of a table that begin between two of its rows; rows keep their numbers."""

    def __init__(self, table: Table, first: int, last: int, columns: Any) -> None:
        self.table, self.path, self.columns, self.unit = table, table.path, table.columns, table.unit
        series = usual_names(table, columns).series
        if series not in table.columns:
            raise InputError(f"{table.path}: column {series}", "missing", "the name of the series in every row")
        self.first, self.last = self._begins(series, first), self._begins(series, last)

    def _begins(self, series: str, row: int) -> int:
        """The first row from here on with which a series begins, or the number of rows."""
        if row == 0:
            return 0
        before: str | None = None
        at = row - 1
        for block in self.table.blocks([series], row - 1):
            for name in block.texts(series):
                if before is not None and name != before:
                    return at
                before, at = name, at + 1
        return at

    def blocks(self, columns: Sequence[str], start: int = 0) -> Iterator[Block]:
        for block in self.table.blocks(columns, max(start, self.first)):
            if block.first >= self.last:
                return
            yield block.part(0, min(len(block), self.last - block.first))


def run_part(folder: str | Path | Folder, number: int, *, worker: str = "", again: bool = False) -> Path:
    """Decide one part and write its file; a part that is done is left alone unless `again`."""
    planned = folder if isinstance(folder, Folder) else Folder.read(folder)
    if type(number) is not int or not 0 <= number < len(planned.items):
        raise InputError("part", repr(number), f"a whole number from 0 to {len(planned.items) - 1}")
    name = part_name(number)
    shared = planned.job.checked(worker or f"of {name}")
    target = planned.segment / name
    if target.exists() and not again and _is_good(target, shared):
        return target
    item = planned.items[number]
    for path in (item.file, *planned.states):
        if footer_of(Path(path)) != planned.footers[path]:
            raise DataError(f"{name}: {path} was written again after the job was planned")
    try:
        table = _decide(planned, item, shared)
    except (InputError, DataError) as error:
        raise DataError(f"{name}: {error}") from error
    write_shared(planned.segment, shared)
    write_part(target, table, shared)
    return target


def _is_good(path: Path, shared: Shared) -> bool:
    try:
        check_worker(read_part(path, ["series"]), shared)
    except RecordError:
        return False
    return True


def _decide(planned: Folder, item: PartItem, shared: Shared) -> Any:
    settings = planned.job.settings()
    table = _Range(open_table(item.file), item.first, item.last, settings.columns)
    if table.first >= table.last:
        return arrow_schema().empty_table()
    if planned.forecasting is None:
        forecasts = SeriesFile.open(table, settings)
    else:
        forecasts = forecast_part(table, settings, planned.forecasting, planned.job.now)
    if settings.log.keep == "reference":
        forecasts.__dict__["_sha"] = planned.footers[item.file]  # nobody reads a whole file for a part of it
    states = _states(planned, forecasts)
    begin = np.datetime64(planned.begin, "s") if planned.begin else None
    work = Work(settings, forecasts, states, planned.job.age, None, usual=begin)
    return rows_of(work, settings, planned.job, shared)


def _states(planned: Folder, forecasts: SeriesFile) -> StateFile:
    """States of these series alone; row groups that cannot hold one are not read."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    settings = planned.job.settings()
    series_asked = pa.array([s for s in forecasts.order if s], pa.string())
    if not len(series_asked):
        raise DataError("no row of this part names a series")
    low, high = pc.min(series_asked).as_py(), pc.max(series_asked).as_py()
    groups = []
    for path in planned.states:
        file = pq.ParquetFile(path)
        column = usual_names(open_table(path), settings.columns).series
        if column not in file.schema_arrow.names:
            raise InputError(f"{path}: column {column}", "missing", "the name of the series")
        at = file.schema_arrow.names.index(column)
        for g in range(file.num_row_groups):
            stats = file.metadata.row_group(g).column(at).statistics
            has_range = stats is not None and stats.has_min_max and isinstance(stats.min, str)
            # Blanks around a name do not count, but a name that begins with one lies elsewhere in the order.
            if has_range and not stats.min[:1].isspace() and (stats.max < low or stats.min.strip() > high):
                continue
            try:
                group = file.read_row_group(g)
            except (OSError, ValueError) as error:
                raise DataError(f"{path}: cannot be read ({' '.join(str(error).split())})") from error
            names = pc.utf8_trim_whitespace(group.column(column).cast(pa.string()))
            groups.append(group.filter(pc.is_in(names, value_set=series_asked)))
    rows = pa.concat_tables(groups) if groups else None
    if rows is None or not rows.num_rows:
        raise DataError(f"{', '.join(Path(p).name for p in planned.states)}: no state of any series of this part")
    cells = {n: rows.column(n).combine_chunks() for n in rows.column_names}
    plain = {n: c.chunk(0) if isinstance(c, pa.ChunkedArray) else c for n, c in cells.items()}
    return StateFile(ArrowColumns(Path(planned.states[0]).name, plain), settings)


def seal_job(folder: str | Path, *, clock: Any = None, out: str | Path | None = None) -> Sealed:
    """All parts there, none twice, all by the same settings and kind of worker: write the manifest and the segment's
    entry. `out` gets a small table of what was decided."""
    planned = Folder.read(folder)
    inputs = (planned.path / JOB, planned.path / "settings.toml", *map(Path, (*planned.footers, *planned.states)))
    refuse_overwriting({"--out": out}, {str(x): x for x in inputs}, logs={"the log": planned.log})
    _check_rows(planned)
    names = [part_name(n) for n in range(len(planned.items))]
    if not (planned.segment / SHARED).exists():
        raise RecordError(f"{names[0]}: missing; no part has run")
    sealed = seal_folder(planned.segment, planned.run, names, sealed_before(planned.log, planned.run))
    with AuditLog(planned.log, clock=clock) as book:
        request = Request(sealed.run, body=planned.job.digest, by="ucsearch job")
        book.append(segment_record(sealed, "ucsearch job", request))
    if out is not None:
        write_decisions(planned.segment, names, Path(out))
    return sealed


def write_decisions(segment: Path, names: Sequence[str], out: Path) -> None:
    """series, outcome, action, reason and digest of all rows; the same bytes however they were parted."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    shown = ["series", "outcome", "action", "reason", "digest"]
    schema = pa.schema([arrow_schema().field(n) for n in shown])
    tables, count = [schema.empty_table()], 0
    with whole_file(out) as file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for name in (*names, None):
            if name is not None:
                table = read_part(segment / name, shown).table
                tables.append(table.replace_schema_metadata(None).cast(schema))
                count += len(table)
            while count >= _OUT_ROWS or (name is None and count):
                rows = pa.concat_tables(tables)
                writer.write_table(rows.slice(0, _OUT_ROWS).combine_chunks())
                tables = [rows.slice(_OUT_ROWS)]
                count = len(tables[0])


def begin_parts(job: Job, log: str | Path, inputs: Sequence[str] = ()) -> Path:
    """The folder of a new run, with its settings. `inputs` says what it works on, such as a table's version."""
    shared = job.checked("that begins")
    folder = folder_of(Path(log), run_name(shared, list(inputs)))
    write_shared(folder, shared)
    return folder


def write_named(table: Any, job: Job, folder: str | Path) -> tuple[str, int]:
    """Write rows under a name made of their digests; returns it and their number."""
    name = f"part-{rows_root(table)}.parquet"
    place = Path(folder) / name
    if not place.exists():
        write_part(place, table, job.checked("that writes a part"))
    return name, table.num_rows


def seal_parts(job: Job, folder: str | Path, log: str | Path, parts: Sequence[str], *, clock: Any = None) -> Sealed:
    """Close the run: these parts, no series twice. A part that nobody named is what a task left that was given up after
    it had written, and is removed."""
    place, names = Path(folder), sorted(set(parts))
    before = sealed_before(Path(log), place.name)
    if before is not None and (lost := {part.name for part in before.parts} - set(names)):
        raise RecordError(f"{min(lost)}: was sealed as a part of this run, and is not named now")
    for name in set(part_names(place)) - set(names):
        (place / name).unlink()
    sealed = seal_folder(place, place.name, names, before)
    with AuditLog(log, clock=clock) as book:
        book.append(segment_record(sealed, "ucsearch.scale", Request(sealed.run, body=job.digest, by="ucsearch.scale")))
    return sealed
