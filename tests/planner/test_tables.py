"""Reading and writing CSV and Parquet."""

from __future__ import annotations

import gzip
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ucsearch.errors import DataError, InputError
from ucsearch.planner.files import table as tables
from ucsearch.planner.files import table as written
from ucsearch.planner.files import text as texts
from ucsearch.planner.files.table import (
    Block,
    Table,
    check_writable,
    open_table,
    refuse_overwriting,
    whole_series,
    write_table,
)


def only(table: Table, *columns: str, start: int = 0) -> Block:
    (block,) = table.blocks(columns, start)
    return block


def csv_file(folder: Path, text: str) -> Table:
    (folder / "t.csv").write_text(text, encoding="utf-8")
    return open_table(folder / "t.csv")


def parquet_file(folder: Path, **columns: Any) -> Table:
    pq.write_table(pa.table(columns), folder / "t.parquet", row_group_size=2)
    return open_table(folder / "t.parquet")


def test_lines_are_counted_as_an_editor_counts_them(tmp_path: Path) -> None:
    block = only(csv_file(tmp_path, 'a,b\n1,x\n\n2,"two\nlines"\n3,z\n'), "a", "b")
    assert block.places.tolist() == [2, 5, 6]
    assert block.texts("b") == ["x", "two\nlines", "z"]
    assert block.numbers("a")[0].tolist() == [1.0, 2.0, 3.0]


def test_delimiters_marks_and_blanks_of_spreadsheets(tmp_path: Path) -> None:
    for text in ("\ufeffa;b\n 1 ; x \n", "a\tb\n1\tx\n"):
        block = only(csv_file(tmp_path, text), "a", "b")
        assert block.texts("b") == ["x"]
        assert block.numbers("a")[0].tolist() == [1.0]


def test_numbers_that_are_missing_or_none(tmp_path: Path) -> None:
    values, bad = only(csv_file(tmp_path, "a,b\n1.5,\nNA,\n,x\nabc,\n-2e3,\n"), "a").numbers("a")
    assert np.array_equal(values, [1.5, math.nan, math.nan, math.nan, -2000.0], equal_nan=True)
    assert bad == {3: "abc"}


def test_rows_of_another_width_are_marked(tmp_path: Path) -> None:
    block = only(csv_file(tmp_path, "a,b\n1\n1,2,3\n1,2\n"), "a", "b")
    assert block.ragged == {2: 1, 3: 3}
    assert block.texts("b") == ["", "2", "2"]


def test_parquet_types(tmp_path: Path) -> None:
    table = parquet_file(
        tmp_path, s=["x", None, "z"], i=pa.array([1, None, 3], pa.int32()), t=["1", "2", "q"], n=pa.nulls(3),
        d=pa.array([0, 1, 2], pa.date32()),
    )  # fmt: skip
    assert table.unit == "row"
    block = only(table, "s", "i", "t", "n", "d")
    whole = block.part(0, 2).then(block.part(2, 3))
    assert whole.places.tolist() == [1, 2, 3]
    assert whole.texts("s") == ["x", "", "z"]
    assert whole.texts("d") == ["1970-01-01", "1970-01-02", "1970-01-03"]
    assert np.array_equal(whole.numbers("i")[0], [1.0, math.nan, 3.0], equal_nan=True)
    assert whole.numbers("t")[1] == {2: "q"}
    assert np.isnan(whole.numbers("n")[0]).all()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_start_in_the_middle(tmp_path: Path, ending: str) -> None:
    write_table(tmp_path / f"t.{ending}", {"a": int}, lambda: ([i] for i in range(7)))
    table = open_table(tmp_path / f"t.{ending}")
    for start in range(8):
        got = [x for block in table.blocks(["a"], start) for x in block.numbers("a")[0].tolist()]
        assert got == list(range(start, 7))
        firsts = [block.first for block in table.blocks(["a"], start)]
        assert firsts[:1] == ([start] if start < 7 else [])


def test_a_series_is_never_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_CSV_ROWS", 3)
    rows = "".join(f"{name},{i}\n" for name, count in (("a", 1), ("b", 7), ("c", 2), ("d", 1)) for i in range(count))
    blocks = list(whole_series(csv_file(tmp_path, "s,x\n" + rows), ["s", "x"], "s"))
    assert [names for _, names in blocks] == [["a"], ["b"] * 7, ["c"] * 2, ["d"]]
    assert [block.first for block, _ in blocks] == [0, 1, 8, 10]
    assert blocks[1][0].numbers("x")[0].tolist() == list(range(7))


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"t\.csv: cannot be read \(No such file"):
        open_table(tmp_path / "t.csv")
    with pytest.raises(DataError, match=r"no header"):
        csv_file(tmp_path, "")
    with pytest.raises(DataError, match=r"the column 'a' occurs twice"):
        csv_file(tmp_path, "a,b,a\n")
    (tmp_path / "t.parquet").write_text("no")
    with pytest.raises(DataError, match=r"not a readable Parquet file"):
        open_table(tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"the ending '\.ods', expected a file called \.csv, \.xlsx or \.parquet"):
        open_table(tmp_path / "t.ods")
    with pytest.raises(InputError, match=r"Save the sheet as .xlsx or CSV"):
        open_table(tmp_path / "t.ods")
    (tmp_path / "t.csv").write_bytes(b"a,b\n\x81\xfe,1\n")
    with pytest.raises(DataError, match=r"not a text in UTF-8|cannot be read"):
        list(open_table(tmp_path / "t.csv").blocks(["a"]))


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_a_text_of_windows_is_read_and_a_damaged_one_is_not(tmp_path: Path, name: str) -> None:
    def write(content: bytes) -> Path:
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return tmp_path / name

    text = "Artikel;Menge\r\n" + "A;1\r\n" * 90_000 + "Käse – 5 €;2,5\r\n"  # beyond what is read in one piece
    block = list(open_table(write(text.encode("cp1252"))).blocks(["Artikel", "Menge"]))[-1]
    assert block.texts("Artikel")[-1] == "Käse – 5 €"
    assert block.numbers("Menge")[0][-1] == 2.5
    damaged = "a,b\nä,1\n".encode() + b"x\xe4,2\n"  # one letter is UTF-8, the other is not
    with pytest.raises(DataError, match="line 3: not a text in UTF-8"):
        list(open_table(write(damaged)).blocks(["a"]))


def test_a_packed_text_is_read_as_it_is_and_never_written(tmp_path: Path) -> None:
    plain = "a;b\r\nx;1,5\r\ny;2\r\n".encode("utf-8-sig")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(plain))
    table = open_table(tmp_path / "t.csv.gz")
    (block,) = table.blocks(["a", "b"])
    assert (block.texts("a"), block.numbers("b")[0].tolist(), block.places.tolist()) == (["x", "y"], [1.5, 2.0], [2, 3])
    packed = gzip.compress(plain)
    damaged = packed[:-8] + b"abcd" + packed[-4:]
    for wrong, said in (
        (packed[:-9], "saw packed data that is cut off or damaged"),
        (gzip.compress(b"a,b\n1,2\n" * 9)[:20], "saw packed data that is cut off or damaged"),
        (damaged, "saw packed data that is cut off or damaged"),
        (plain, "saw data that gzip did not pack; call it .csv"),
        (b"PK\x03\x04" + plain, "saw a zip archive or a spreadsheet"),
        (packed + b"more", "saw something else after the packed data"),
        (gzip.compress(packed), "saw data packed by gzip inside what gzip packed, expected a text; unpack it first"),
        (b"", "saw no header, expected column names in line 1"),
        (gzip.compress(b""), "saw no header, expected column names in line 1"),
    ):
        (tmp_path / "t.csv.gz").write_bytes(wrong)
        with pytest.raises(DataError, match=rf"t\.csv\.gz: {re.escape(said)}"):
            list(open_table(tmp_path / "t.csv.gz").blocks(["a"]))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n\x81,2\n"))
    with pytest.raises(DataError, match=r"line 2: not a text in UTF-8"):
        list(open_table(tmp_path / "t.csv.gz").blocks(["a"]))
    with pytest.raises(InputError, match=r"'\.gz', expected a file called \.csv"):
        write_table(tmp_path / "out.csv.gz", {"a": str}, lambda: iter([["x"]]))


def test_numbers_for_people_are_short_and_others_whole(tmp_path: Path) -> None:
    cells = [-1.2349999999999999, 0.1 + 0.2, 1e-17, 123456789012.5, 3.0, 1.0 / 3.0]
    columns = dict.fromkeys("abcdef", float)
    for for_people, told in (
        (True, "-1.235,0.3,1e-17,123456789012,3,0.333333333333"),
        (False, "-1.2349999999999999,0.30000000000000004,1e-17,123456789012.5,3,0.3333333333333333"),
    ):
        write_table(tmp_path / "t.csv", columns, lambda: iter([cells]), for_people=for_people)
        assert (tmp_path / "t.csv").read_text() == f"a,b,c,d,e,f\n{told}\n"


def test_what_is_no_text_is_named_for_what_it_is(tmp_path: Path) -> None:
    for content, said in (
        (gzip.compress(b"a,b\n1,2\n"), "saw data packed by gzip, expected a text; call it .csv.gz"),
        (b"PK\x03\x04rest", "saw a zip archive or a spreadsheet, expected a text; save the sheet as CSV"),
        (b"PAR1rest", "saw a Parquet file, expected a text; call it .parquet"),
        ("a,b\n1,2\n".encode("utf-16-le"), "line 1: saw a NUL character, expected a text in UTF-8"),
        (b"a,b\n1,2\nx\0,3\n", "line 3: saw a NUL character"),
        (b"<!DOCTYPE html><html><table>", "saw a web page or XML, expected a table; open it in your spreadsheet"),
    ):
        (tmp_path / "t.csv").write_bytes(content)
        with pytest.raises(DataError, match=re.escape(said)):
            open_table(tmp_path / "t.csv")
    with pytest.raises(InputError, match=r"'\.gz', expected .* A packed table is called \.csv\.gz"):
        open_table(tmp_path / "sales.gz")


def test_a_packed_file_cannot_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_UNPACKED", 1 << 20)
    row = b"x,1\n"
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n" + row * 1_000_000))
    with pytest.raises(DataError, match=r"saw more than 1 MB unpacked, over 200 times its size.*gunzip"):
        open_table(tmp_path / "t.csv.gz")
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n" + row * 1000))
    assert len(only(open_table(tmp_path / "t.csv.gz"), "a")) == 1000
    monkeypatch.setattr(tables, "_LONGEST", 1 << 12)
    with pytest.raises(DataError, match="saw a first line of more than"):
        csv_file(tmp_path, "a" * 10_000)


@pytest.mark.parametrize(
    "text",
    [
        "a;b;;;\nx;1;;;\n;;;;\n",
        "a;b\nx;1;\n",
        "sep=;\na;b\nx;1\n",
        "a|b\nx|1\n",
        "a,b\r\nx,1\n,\r\n",
        "\ufeffa\tb\nx\t1\n",
    ],
)
def test_separators_as_sheets_write_them(tmp_path: Path, text: str) -> None:
    for encoding in ("utf-8", "utf-16"):
        (tmp_path / "t.csv").write_bytes(text.removeprefix("\ufeff" * (encoding == "utf-16")).encode(encoding))
        table = open_table(tmp_path / "t.csv")
        block = only(table, "a", "b")
        assert (table.columns, block.texts("a"), block.numbers("b")[0].tolist()) == (("a", "b"), ["x"], [1.0])
        assert not block.ragged
    assert only(csv_file(tmp_path, "a;b\nx;1;2\n"), "a").ragged == {2: 3}


ROWS = [["x", 1.0, 3], ["y, z", math.nan, None], ['"q"', math.inf, -1], ["", 0.1 + 0.2, 0]]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_equal_rows_are_equal_bytes_and_come_back(tmp_path: Path, ending: str) -> None:
    columns = {"s": str, "f": float, "i": int}
    for name in ("a", "b"):
        assert write_table(tmp_path / f"{name}.{ending}", columns, lambda: iter(ROWS)) == 4
    assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()
    block = only(open_table(tmp_path / f"a.{ending}"), "s", "f", "i")
    assert block.texts("s") == ["x", "y, z", '"q"', ""]
    assert np.array_equal(block.numbers("f")[0], [1.0, math.nan, math.inf, 0.1 + 0.2], equal_nan=True)
    assert np.array_equal(block.numbers("i")[0], [3.0, math.nan, -1.0, 0.0], equal_nan=True)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_failed_write_leaves_the_old_file(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"a.{ending}"
    write_table(path, {"s": str}, lambda: iter([["old"]]))
    before = path.read_bytes()

    def failing() -> Iterator[list[str]]:
        yield ["new"]
        raise RuntimeError

    with pytest.raises(RuntimeError):
        write_table(path, {"s": str}, failing)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_no_rows_are_still_a_table(tmp_path: Path, ending: str) -> None:
    assert write_table(tmp_path / f"a.{ending}", {"s": str, "f": float}, lambda: iter(())) == 0
    assert open_table(tmp_path / f"a.{ending}").columns == ("s", "f")


def test_row_groups_are_of_one_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "_PACKED", 2)
    monkeypatch.setattr(written, "_ROW_GROUP", 4)
    for count, sizes in ((3, [3]), (4, [4]), (8, [4, 4]), (11, [4, 4, 3])):
        path = tmp_path / "t.parquet"
        assert write_table(path, {"n": int}, lambda count=count: ((i,) for i in range(count))) == count  # type: ignore[misc]
        read = pq.ParquetFile(path)
        assert [read.metadata.row_group(k).num_rows for k in range(read.num_row_groups)] == sizes
        assert read.read().column("n").to_pylist() == list(range(count))


def test_part_of_a_block_may_be_empty(tmp_path: Path) -> None:
    block = only(parquet_file(tmp_path, x=[1.0, 2.0, 3.0]), "x")
    assert block.part(2, 2).numbers("x")[0].size == 0
    assert block.part(1, 3).numbers("x")[0].tolist() == [2.0, 3.0]


def test_rows_of_a_series_that_lie_apart_are_put_together_up_to_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = csv_file(tmp_path, "s,x\nb,1\na,2\nb,3\na,4\n")
    regrouped = tables._Regrouped(table, "s")
    monkeypatch.setattr(tables, "_REGROUPED", 8)
    found = [x for block in regrouped.blocks(["s", "x"]) for x in block.texts("x")]
    assert found == ["1", "3", "2", "4"]
    monkeypatch.setattr(tables, "_REGROUPED", 7)
    with pytest.raises(InputError, match="too large to sort"):
        list(regrouped.blocks(["s", "x"]))


def test_no_file_is_replaced_under_any_of_its_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, hard, soft, new = (tmp_path / name for name in ("in.csv", "hard.csv", "soft.csv", "new.csv"))
    read.write_text("x\n1\n")
    hard.hardlink_to(read)
    soft.symlink_to(read)
    refuse_overwriting({"OUT": new, "OTHER": None}, {"IN": read, "MORE": None})
    for name in (read, hard, soft, tmp_path / "." / "in.csv", tmp_path / "x" / ".." / "in.csv"):
        with pytest.raises(InputError, match="would replace"):
            refuse_overwriting({"OUT": name}, {"IN": read})
    with pytest.raises(InputError, match="another file than OUT"):
        refuse_overwriting({"OUT": new, "OTHER": new}, {})

    def refuses(self: Path, strict: bool = False) -> Path:
        raise OSError("a loop of links")

    monkeypatch.setattr(Path, "resolve", refuses)
    refuse_overwriting({"OUT": new}, {"IN": read})
    with pytest.raises(InputError, match="another file than OUT"):
        refuse_overwriting({"OUT": new, "OTHER": new}, {})


@pytest.mark.parametrize(
    "cells",
    [
        ["1.5", "", "3"], pa.array([1.5, None, 3.0]), pa.array([1.5, None, 3.0], pa.float32()),
        pa.array(["1.5", "", "3"]), pa.array([1.5, math.nan, 3.0]), pa.array([1.5, math.nan, 3.0], pa.float32()),
    ],
    ids=["texts", "double with a gap", "float with a gap", "strings", "double", "float"],
)  # fmt: skip
def test_numbers_are_put_where_they_belong(cells: Any) -> None:
    out = np.zeros((3, 2))
    Block(0, np.arange(3), {"x": cells}).put("x", out[:, 1])
    assert out[:, 0].tolist() == [0.0] * 3
    np.testing.assert_array_equal(out[:, 1], [1.5, np.nan, 3.0])


def test_floats_are_put_without_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Block, "numbers", None)
    out = np.zeros(2)
    for cells in (pa.array([1.5, 3.0]), pa.array([1.5, 3.0], pa.float32())):
        Block(0, np.arange(2), {"x": cells}).put("x", out)
        assert out.tolist() == [1.5, 3.0]


def test_rows_are_packed_before_a_group_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(written, "_PACKED", 2)
    monkeypatch.setattr(written, "_ROW_GROUP", 4)
    made: list[int] = []

    def watched(arrays: Any, schema: Any, real: Any = pa.Table.from_arrays) -> Any:
        made.append(len(arrays[0]))
        return real(arrays, schema=schema)

    monkeypatch.setattr(pa, "Table", type("Table", (), {"from_arrays": staticmethod(watched)}))
    path = tmp_path / "x.parquet"
    assert write_table(path, {"x": float}, lambda: ([float(k)] for k in range(9))) == 9
    monkeypatch.undo()
    file = pq.ParquetFile(path)
    assert made == [2, 2, 2, 2, 1]
    assert [file.metadata.row_group(k).num_rows for k in range(file.num_row_groups)] == [4, 4, 1]
    assert file.read().column("x").to_pylist() == [float(k) for k in range(9)]


@pytest.mark.parametrize("start", [0, 399, 400, 1234, 2999])
def test_rows_of_many_groups_come_once_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: int
) -> None:
    """Whatever is read together: a reader is given no more groups than fill a batch, because it keeps some of each."""
    pq.write_table(pa.table({"x": np.arange(3000.0)}), tmp_path / "x.parquet", row_group_size=400)
    monkeypatch.setattr(tables, "_CELLS", 1000)
    asked: list[int] = []
    whole = pq.ParquetFile.iter_batches

    def iter_batches(self: Any, size: int, row_groups: list[int], columns: list[str]) -> Any:
        asked.append(len(row_groups))
        return whole(self, size, row_groups=row_groups, columns=columns)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", iter_batches)
    blocks = list(tables.open_table(tmp_path / "x.parquet").blocks(["x"], start))
    assert np.concatenate([b.numbers("x")[0] for b in blocks]).tolist() == list(range(start, 3000))
    assert [b.first for b in blocks] == [int(b.numbers("x")[0][0]) for b in blocks]
    assert max(asked) <= 3


def test_a_column_that_is_not_there_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1.0], "b": [2.0]}), path)
    with pytest.raises(DataError, match="column x: missing; saw columns a, b"):
        list(open_table(path).blocks(["a", "x", "y"]))


def test_what_could_not_be_written_is_refused_first(monkeypatch: pytest.MonkeyPatch) -> None:
    check_writable("orders.csv")
    check_writable("orders.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    check_writable("orders.csv")
    with pytest.raises(DataError, match="Parquet needs pyarrow"):
        check_writable("orders.parquet")
