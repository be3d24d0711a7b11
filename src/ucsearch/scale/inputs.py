"""Input files of a job: which they are, and whether they can be used, by their footers alone."""

from __future__ import annotations

import glob
import hashlib
from collections.abc import Sequence
from pathlib import Path

from ucsearch.errors import DataError, InputError
from ucsearch.planner.decide.states import state_columns
from ucsearch.planner.files.columns import usual_names
from ucsearch.planner.files.table import is_parquet, open_table
from ucsearch.planner.settings import Settings

__all__ = ["check_columns", "check_numbers", "check_states", "footer_of", "input_files"]


def input_files(option: str, pattern: str) -> list[Path]:
    files = sorted(Path(p).absolute() for p in glob.glob(pattern, recursive=True))
    if not files:
        raise InputError(option, repr(pattern), "a pattern of files that are there")
    for path in files:
        if not is_parquet(path):
            raise InputError(option, str(path), "Parquet files: rows of others cannot be cut without reading them")
    return files


def footer_of(path: Path) -> str:
    """SHA-256 of size and footer: enough to see that a file was written again."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - 8))
            tail = file.read(8)
            length = int.from_bytes(tail[:4], "little")
            if tail[4:] != b"PAR1" or length + 8 > size:
                raise DataError(f"{path}: not a Parquet file")
            file.seek(size - 8 - length)
            return hashlib.sha256(size.to_bytes(8, "big") + file.read(length)).hexdigest()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from error


def check_columns(path: Path, first: Path) -> None:
    """Parts must be alike: the same columns, of the same types."""
    import pyarrow.parquet as pq

    schema, expected = pq.read_schema(path), pq.read_schema(first)
    for name in expected.names:
        if name not in schema.names:
            raise InputError(f"{path}: column {name}", "missing", f"as in {first.name}")
        if schema.field(name).type != expected.field(name).type:
            raise InputError(f"{path}: column {name}", str(schema.field(name).type), f"{expected.field(name).type}")


def check_numbers(path: Path, columns: Sequence[str]) -> None:
    """Texts that look like numbers are for small runs, where somebody reads what is said of each cell."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pq.read_schema(path)
    for name in columns:
        kind = schema.field(name).type
        if not (pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
            raise InputError(f"{path}: column {name}", str(kind), "numbers")


def check_states(path: Path, settings: Settings) -> None:
    """The columns that every state needs, by the footer of the first file."""
    import pyarrow.parquet as pq

    have, expected = pq.read_schema(path).names, state_columns(settings.task)
    series = usual_names(open_table(path), settings.columns).series
    back = {name_here: name_there for name_there, name_here in settings.columns.rename.items()}
    if series not in have:
        raise InputError(f"{path}: column {series}", "missing", "the name of the series")
    single = [back.get(name, name) for name in expected.required if name not in expected.several]
    for name in single:
        if name not in have:
            raise InputError(f"{path}: column {name}", "missing", "a number in every row")
    check_numbers(path, single)
