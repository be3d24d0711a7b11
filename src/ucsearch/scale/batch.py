"""`decide_batch`: an Arrow table of series in, an Arrow table of rows out. No state, no clock, no files.

Columns of the input: the series' name; `members`, J lists of H values (or `mean` and `std`, or `q0.1`, `q0.5`, ..., H
values each); the columns of a states file, where a list such as `open_orders` may stand for its numbered columns; and,
optionally, `cutoff`, `issued` and `model`. The output has the columns of a segment's part, in the order of the input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.planner.decide.inputs import Work
from ucsearch.planner.decide.job import decided
from ucsearch.planner.decide.segments import batches_of
from ucsearch.planner.decide.states import StateFile, state_columns
from ucsearch.planner.files.columns import Layout, forecast_layout
from ucsearch.planner.files.series_file import SeriesFile, Values
from ucsearch.planner.files.table import Block, Problem
from ucsearch.planner.settings import Settings
from ucsearch.scale.job import Job
from ucsearch.scale.segments.files import encode_part
from ucsearch.scale.segments.rows import arrow_schema

__all__ = ["BatchForecasts", "decide_batch", "rows_of"]

Floats = NDArray[np.float64]
_LARGEST = 1e15  # as in forecast files
_MOST_LISTED = 4_096  # values of a state's list


def decide_batch(table: Any, job: Job, *, worker: str = "this worker") -> Any:
    """Decide every series of the table under the settings of the job; `worker` is what a message calls this process
    where its packages or platform are not those that the job began with. A series that cannot be used is a row that
    says why; a table that cannot is an `InputError` that names the column."""
    import pyarrow as pa

    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    if not isinstance(table, pa.Table):
        raise InputError("table", type(table).__name__, "an Arrow table, or a record batch")
    if not isinstance(job, Job):
        raise InputError("job", type(job).__name__, "a job, as Job.read makes it of a settings file")
    twice = next((n for i, n in enumerate(table.column_names) if n in table.column_names[:i]), None)
    if twice is not None:
        raise InputError(f"column {twice}", "two of them", "each column once")
    shared = job.checked(worker)
    settings = job.settings()
    if table.num_rows == 0:
        return arrow_schema().empty_table()
    forecasts, states = _opened(table, settings)
    work = Work(settings, forecasts, states, job.age, None)
    return rows_of(work, settings, job, shared)


def rows_of(work: Work, settings: Settings, job: Job, shared: Any) -> Any:
    """All decisions of the work as one table, in the order of its series."""
    import pyarrow as pa

    tables = [
        encode_part(batches_of(work, chunk, shared), shared, chunk.series)
        for chunk in decided(work, settings, range(len(work.chunks)), job.moment, shared.keep)
    ]
    return pa.concat_tables(tables).combine_chunks() if tables else arrow_schema().empty_table()


def _opened(table: Any, settings: Settings) -> tuple[SeriesFile, StateFile]:
    import pyarrow as pa

    names = settings.columns
    for name in (names.series, *_required(settings)):
        if name not in table.column_names:
            raise InputError(f"column {name}", f"columns {', '.join(table.column_names)}", f"a column {name!r}")
    kind = table.schema.field(names.series).type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise InputError(f"column {names.series}", str(kind), "texts")
    series = [(x or "").strip() for x in table.column(names.series).to_pylist()]  # as states and files are read
    if len(set(series)) != len(series):
        twice = next(x for i, x in enumerate(series) if x in series[:i])
        raise InputError(f"column {names.series}", f"{twice!r} twice", "each series once")
    forecast = _forecast_columns(table, settings)
    origins = [n for n in (names.cutoff, names.issued, names.model) if n in table.column_names]
    others = [n for n in table.column_names if n not in forecast and n not in origins]
    states = StateFile(ArrowColumns("the batch", _states(table, others, settings)), settings)
    return _forecasts(table, series, forecast, origins, settings), states


def _required(settings: Settings) -> list[str]:
    back = {name_here: name_there for name_there, name_here in settings.columns.rename.items()}
    return [back.get(name, name) for name in state_columns(settings.task).required]


def _forecast_columns(table: Any, settings: Settings) -> list[str]:
    """Names of the columns that hold the forecast, after their types were found right."""
    import pyarrow as pa

    prefix = settings.columns.members.rstrip("_")
    if "members" in table.column_names:
        columns = ["members"]
    elif f"{prefix}s" in table.column_names:
        columns = [f"{prefix}s"]
    else:
        lists = [f.name for f in table.schema if _is_list(f.type)]
        of_states = state_columns(settings.task).several
        columns = [n for n in lists if n not in of_states]
        if not columns:
            raise InputError("column members", f"columns {', '.join(table.column_names)}", "a column 'members'")
    for name in columns:
        kind = table.schema.field(name).type
        inner = kind.value_type if _is_list(kind) else None
        if inner is not None and len(columns) == 1 and _is_list(inner):
            inner = inner.value_type
            nested = True
        else:
            nested = False
        if inner is None or not (pa.types.is_floating(inner) or pa.types.is_integer(inner)):
            expected = "lists of numbers" if len(columns) > 1 else "lists (members) of lists (steps) of numbers"
            raise InputError(f"column {name}", str(kind), expected)
        if len(columns) == 1 and not nested:
            raise InputError(f"column {name}", str(kind), "lists (members) of lists (steps) of numbers")
    return columns


def _is_list(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


class ArrowColumns:
    """Arrow columns as a table of the pipeline."""

    unit = "row"

    def __init__(self, name: str, cells: dict[str, Any]) -> None:
        self.path, self.cells = Path(name), cells
        self.columns = tuple(cells)

    def blocks(self, columns: Sequence[str], start: int = 0) -> Iterator[Block]:
        count = len(next(iter(self.cells.values())))
        cells = {n: self.cells[n].slice(start) for n in columns}
        yield Block(start, np.arange(start + 1, count + 1, dtype=np.int64), cells)


def _states(table: Any, names: Sequence[str], settings: Settings) -> dict[str, Any]:
    """Columns of the state, lists under numbered names."""
    import pyarrow as pa
    import pyarrow.compute as pc

    out: dict[str, Any] = {}
    for name in names:
        column = table.column(name).combine_chunks()
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0)
        if not _is_list(column.type):
            kind = column.type
            text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_temporal(kind)
            number = pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)
            if not (text or number or pa.types.is_null(kind)):
                raise InputError(f"column {name}", str(kind), "numbers or texts")
            out[name] = column.cast(pa.string()) if pa.types.is_large_string(kind) else column
            continue
        if not (pa.types.is_floating(column.type.value_type) or pa.types.is_integer(column.type.value_type)):
            raise InputError(f"column {name}", str(column.type), "lists of numbers")
        longest = pc.max(pc.list_value_length(column)).as_py() or 0
        if longest > _MOST_LISTED:
            raise InputError(f"column {name}", f"{longest} values", f"at most {_MOST_LISTED}")
        rows = [x or [] for x in column.to_pylist()]
        for k in range(longest):
            out[f"{name}_{k + 1}"] = pa.array([r[k] if k < len(r) else None for r in rows], pa.float64())
    return out


@dataclass(frozen=True)
class BatchForecasts(SeriesFile):
    """Forecasts that are in memory already."""

    tables: tuple[Floats | str, ...] = ()  # (H, K) by series, or what is wrong with it
    said: tuple[tuple[str, str, str], ...] = ()  # cutoff, issued, model

    def values(self, start: int = 0) -> Iterator[Values]:
        for i in range(start, len(self.order)):
            table, origin = self.tables[i], self.said[i]
            if isinstance(table, str):
                problem = Problem("", "", self.layout.values[0] if self.layout.values else "", self.order[i], table)
                yield Values(self.order[i], None, origin[0], origin[1], problem, origin[2])
            else:
                yield Values(self.order[i], table, origin[0], origin[1], None, origin[2])

    def source(self, series: str) -> str:
        return ""


def _forecasts(
    table: Any, series: list[str], names: Sequence[str], said: Sequence[str], settings: Settings
) -> SeriesFile:
    columns = settings.columns
    if len(names) == 1 and settings.fields:
        expected = f"a column for each field and member, such as {settings.fields[0]}_{columns.members}1"
        raise InputError(f"column {names[0]}", "one value for each step", expected)
    if len(names) == 1:
        tables = _members(table.column(names[0]))
        layout = Layout("members", columns.step, False, (names[0],), (), tuple(said))
    else:
        fake: Any = ArrowColumns("the batch", {n: [] for n in (columns.series, columns.step, *names)})
        layout = forecast_layout(fake, columns, settings, settings.fields)[0]
        tables = _by_step([table.column(n) for n in layout.values], layout)
    words = [[x or "" for x in table.column(n).to_pylist()] if n in said else [""] * len(series)
             for n in (columns.cutoff, columns.issued, columns.model)]  # fmt: skip
    texts = tuple((str(a), str(b), str(c)) for a, b, c in zip(*words, strict=True))
    base: Any = ArrowColumns("the batch", {n: [] for n in table.column_names})
    return BatchForecasts(
        base, layout, columns, tuple(series), tuple(range(len(series))), {}, (), {}, settings.period, False,
        tuple(tables), texts,
    )  # fmt: skip


def _members(column: Any) -> Iterator[Floats | str]:
    """(H, J) by series."""
    for chunk in column.chunks:
        for i in range(len(chunk)):
            cell = chunk[i]
            if not cell.is_valid or not len(cell.values):
                yield "saw nothing, expected members"
                continue
            inner = cell.values
            flat = inner.flatten()
            lengths = set(inner.value_lengths().to_pylist())
            if len(lengths) != 1 or inner.null_count or None in lengths or 0 in lengths:
                yield "saw members of unequal lengths, expected the same number of steps in each"
                continue
            yield _usable(np.array(flat.to_numpy(zero_copy_only=False), dtype=np.float64).reshape(len(inner), -1).T)


def _by_step(columns: Sequence[Any], layout: Layout) -> Iterator[Floats | str]:
    """(H, K) by series, of columns that hold a list of steps each."""
    for cells in zip(*(c.to_pylist() for c in columns), strict=True):
        if any(not x for x in cells) or len({len(x) for x in cells}) != 1:
            yield "saw lists of unequal lengths, or none, expected one value for each step"
            continue
        values = _usable(np.array([[np.nan if v is None else v for v in x] for x in cells], dtype=np.float64).T)
        if not isinstance(values, str) and layout.kind == "mean" and (values[:, 1::2] < 0.0).any():
            values = "saw a negative standard deviation, expected at least 0"
        yield values


def _usable(values: Floats) -> Floats | str:
    bad = ~(np.abs(values) <= _LARGEST)
    if bad.any():
        step, k = (int(x) for x in np.argwhere(bad)[0])
        return f"saw {values[step, k]} at step {step + 1}, expected a number within {_LARGEST:g} of 0"
    return np.ascontiguousarray(values)
