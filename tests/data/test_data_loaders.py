"""Readers and loaders on small files made here, good ones and hostile ones."""

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ucsearch.errors import DataError, InputError
from ucsearch.lab.data.ett import ETT_COLUMNS
from ucsearch.lab.data.files import parse_times, read_csv_numbers, read_csv_records, read_parquet
from ucsearch.lab.data.ltsf import LTSF_SETS, load_ltsf
from ucsearch.lab.data.m4 import load_m4
from ucsearch.lab.data.records import Series, SeriesSet, Table, read_only

WEEKLY, HORIZON = 359, 13


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


# ---- CSV ----


def numbers(tmp_path: Path, text: str) -> tuple[tuple[str, ...], list[str], np.ndarray]:
    return read_csv_numbers(write(tmp_path / "t.csv", text), time_column="date")


def test_csv_of_numbers(tmp_path: Path) -> None:
    columns, stamps, values = numbers(tmp_path, "date,a,b\n2020-01-01 00:00:00,1,2.5\n2020-01-01 01:00:00,3,-4e2\n")
    assert columns == ("a", "b")
    assert stamps == ["2020-01-01 00:00:00", "2020-01-01 01:00:00"]
    assert values.tolist() == [[1.0, 2.5], [3.0, -400.0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("date,a,b\n2020,1,x\n", "row 2, column 'b': saw 'x', expected a number"),
        ("date,a,b\n2020,1,2\n2021,,2\n", "row 3, column 'a': saw an empty cell, expected a number"),
        ("date,a,b\n2020,1,nan\n", "row 2, column 'b': saw nan, expected a finite number"),
        ("date,a,b\n2020,inf,2\n", "row 2, column 'a': saw inf, expected a finite number"),
        ("date,a,b\n2020,1,2\n2021,1\n", "row 3: saw 2 cells, expected 3; is the file cut off?"),
        ("time,a,b\n2020,1,2\n", "row 1: saw first column 'time', expected 'date'"),
        ("date,a,b\n", "no rows of data"),
        ("", "the file is empty"),
    ],
)
def test_hostile_csv(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        numbers(tmp_path, text)
    assert str(caught.value) == f"{tmp_path / 't.csv'}: {message}"


def test_missing_column_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "ETTh1.csv", "date,HUFL,HULL,MUFL,MULL,LUFL,OT\n2016-07-01 00:00:00,1,2,3,4,5,6\n")
    with pytest.raises(DataError, match="row 1: column 'LULL' is missing"):
        read_csv_numbers(path, time_column="date", columns=ETT_COLUMNS)
    path = write(tmp_path / "ETTh2.csv", "date,HULL,HUFL,MUFL,MULL,LUFL,LULL,OT\n")
    with pytest.raises(DataError, match="row 1: another order"):
        read_csv_numbers(path, time_column="date", columns=ETT_COLUMNS)


def test_truncated_gzip(tmp_path: Path) -> None:
    rows = "".join(f"2020,{i},{i * i}\n" for i in range(2000))
    path = tmp_path / "t.csv.gz"
    whole = gzip.compress(("date,a,b\n" + rows).encode())
    path.write_bytes(whole)
    assert read_csv_numbers(path, time_column="date")[2].shape == (2000, 2)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="the gzip stream is truncated or damaged"):
        read_csv_numbers(path, time_column="date")


def test_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_csv_numbers(tmp_path / "none.csv")


def test_undecodable_header_is_kept_readable(tmp_path: Path) -> None:
    path = tmp_path / "w.csv"
    path.write_bytes(b"date,SWDR (W/m\xb2)\r\n2020-01-01 00:00:00,1\r\n")
    assert read_csv_numbers(path, time_column="date")[0] == ("SWDR (W/m\ufffd)",)


def test_records_by_column_name(tmp_path: Path) -> None:
    path = write(tmp_path / "i.csv", "M4id,category,SP\nY1,Macro,Yearly\n")
    assert read_csv_records(path, ("category", "M4id")) == [("Macro", "Y1")]
    with pytest.raises(DataError, match="column 'Horizon' is missing; saw M4id, category, SP"):
        read_csv_records(path, ("Horizon",))


def test_times_in_both_forms() -> None:
    path = Path("t.csv")
    dashes = parse_times(path, ["2016-07-01 02:00:00"])
    slashes = parse_times(path, ["2016/7/1 2:00"])
    assert dashes[0] == slashes[0] == np.datetime64("2016-07-01T02:00:00")
    with pytest.raises(DataError, match="row 3: saw time '2016/13/1 2:00', expected a form like '2016/7/1 2:00'"):
        parse_times(path, ["2016/7/1 2:00", "2016/13/1 2:00"])


# ---- LTSF ----


ROWS, COLUMNS = 48, 5


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the published electricity file were small; no hash is known for its CSV form."""
    monkeypatch.setitem(LTSF_SETS, "electricity", replace(LTSF_SETS["electricity"], rows=ROWS, columns=COLUMNS))


def electricity(tmp_path: Path, *, edit: Callable[[list[str]], None] = lambda rows: None) -> Path:
    """A complete electricity.csv in shape, all cells 7."""
    start = np.datetime64("2016-07-01T02:00:00")
    stamps = (start + np.arange(ROWS) * np.timedelta64(3600, "s")).astype(str)
    rows = [f"{s.replace('T', ' ')},{','.join(['7'] * COLUMNS)}" for s in stamps.tolist()]
    edit(rows)
    header = "date," + ",".join(map(str, range(COLUMNS)))
    write(tmp_path / "ltsf/electricity.csv", header + "\n" + "\n".join(rows) + "\n")
    return tmp_path


def test_published_shapes() -> None:
    shapes = {name: (facts.rows, facts.columns) for name, facts in LTSF_SETS.items()}
    assert shapes["weather"] == (52696, 21)
    assert shapes["exchange_rate"] == (7588, 8)
    assert shapes["electricity"] == (26304, 321)
    assert shapes["traffic"] == (17544, 862)


@pytest.mark.usefixtures("small")
def test_whole_electricity(tmp_path: Path) -> None:
    table = load_ltsf("electricity", data_dir=electricity(tmp_path))
    assert table.values.shape == (ROWS, COLUMNS)
    assert not table.report.subset
    assert table.report.rows() == []
    assert table.report.files[0].status == "unverified"


@pytest.mark.usefixtures("small")
def test_electricity_with_rows_missing(tmp_path: Path) -> None:
    folder = electricity(tmp_path, edit=lambda rows: rows.__delitem__(slice(40, None)))
    with pytest.raises(DataError, match=r"saw 40 of 48 rows, 5 of 5 columns, expected all as published"):
        load_ltsf("electricity", data_dir=folder)


@pytest.mark.usefixtures("small")
def test_time_going_backwards(tmp_path: Path) -> None:
    def swap(rows: list[str]) -> None:
        rows[10], rows[11] = rows[11], rows[10]

    with pytest.raises(DataError, match=r"row 13: saw time 2016-07-01T12:00:00 after 2016-07-01T13:00:00"):
        load_ltsf("electricity", data_dir=electricity(tmp_path, edit=swap))


@pytest.mark.usefixtures("small")
def test_repeated_time_with_other_values_keeps_the_first(tmp_path: Path) -> None:
    def repeat(rows: list[str]) -> None:
        rows[11] = rows[10].split(",")[0] + "," + ",".join(["8"] * COLUMNS)

    table = load_ltsf("electricity", data_dir=electricity(tmp_path, edit=repeat))
    assert table.values.shape == (ROWS - 1, COLUMNS)
    assert table.values.max() == 7.0
    assert table.report.count("repeated time stamp") == 1
    assert table.report.count("gap") == 1
    assert "the first values are kept" in table.report.rows()[0][2]


@pytest.mark.usefixtures("small")
def test_missing_readings_are_filled_from_before_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LTSF_SETS, "electricity", replace(LTSF_SETS["electricity"], sentinel=-9999.0))

    def mark(rows: list[str]) -> None:
        for at, cell in ((9, "6"), (10, "-9999.00"), (11, "-9999"), (12, "5")):
            rows[at] = ",".join([rows[at].split(",")[0], "7", cell, "7", "7", "7"])

    folder = electricity(tmp_path, edit=mark)
    table = load_ltsf("electricity", data_dir=folder)
    assert table.values[9:13, 1].tolist() == [6.0, 6.0, 6.0, 5.0]
    assert table.report.rows() == [("missing", 2, "column '1': 2 cells of -9999 replaced by the last reading before")]
    marked = load_ltsf("electricity", data_dir=folder, missing="nan")
    assert np.isnan(marked.values[10:12, 1]).all()
    assert np.isnan(marked.values).sum() == 2


@pytest.mark.usefixtures("small")
def test_a_missing_first_reading_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LTSF_SETS, "electricity", replace(LTSF_SETS["electricity"], sentinel=7.0))
    with pytest.raises(DataError, match=r"column '0' starts with 7\.0: no reading before it"):
        load_ltsf("electricity", data_dir=electricity(tmp_path))


def test_matrix_file_swaps_the_last_two_columns(tmp_path: Path) -> None:
    rows = "\n".join(",".join(str(10 * c + t % 3) for c in range(8)) for t in range(7588))
    path = tmp_path / "ltsf/exchange_rate.txt.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(rows.encode()))
    table = load_ltsf("exchange_rate", data_dir=tmp_path)
    assert table.columns == ("0", "1", "2", "3", "4", "5", "6", "OT")
    assert table.values[0].tolist() == [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 70.0, 60.0]
    assert str(table.time[1] - table.time[0]) == "86400 seconds"


def test_unknown_set_and_policy(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="saw 'wether', expected one of weather"):
        load_ltsf("wether", data_dir=tmp_path)
    with pytest.raises(DataError, match="saw 'zero', expected previous or nan"):
        load_ltsf("weather", data_dir=tmp_path, missing="zero")  # type: ignore[arg-type]


# ---- M4, original CSV layout ----


def m4_weekly(tmp_path: Path, *, edit: Callable[[list[str]], None] = lambda rows: None, part: str = "train") -> Path:
    """Weekly train and test files as published: quoted cells, short rows filled with empty ones."""
    longest = 90
    train = []
    for number in range(1, WEEKLY + 1):
        length = 80 + number % 10
        cells = [f'"{number + t / 4}"' for t in range(length)] + [""] * (longest - length)
        train.append(f'"W{number}",' + ",".join(cells))
    test = [f'"W{number}",' + ",".join(f'"{100 + t}"' for t in range(HORIZON)) for number in range(1, WEEKLY + 1)]
    edit(train if part == "train" else test)
    for folder, rows, width in (("Train", train, longest), ("Test", test, HORIZON)):
        header = ",".join(f'"V{i}"' for i in range(1, width + 2))
        write(tmp_path / f"m4/{folder}/Weekly-{folder.lower()}.csv", header + "\n" + "\n".join(rows) + "\n")
    return tmp_path


def test_m4_original_layout(tmp_path: Path) -> None:
    folder = m4_weekly(tmp_path)
    write(
        folder / "m4/M4-info.csv",
        "M4id,category,Frequency,Horizon,SP,StartingDate\nW3,Finance,1,13,Weekly,x\n",
    )
    loaded = load_m4("weekly", data_dir=folder)
    assert (loaded.name, len(loaded)) == ("m4/weekly", WEEKLY)
    one = loaded.get("W3")
    assert (one.n_train, one.y.size, one.horizon, one.seasonal_period) == (83, 96, HORIZON, 1)
    assert (one.frequency, one.category) == ("weekly", "Finance")
    assert one.train[:2].tolist() == [3.0, 3.25]
    assert one.test.tolist() == [100.0 + t for t in range(HORIZON)]
    assert not loaded.report.subset
    assert [f.status for f in loaded.report.files] == ["unverified"] * 3


def test_m4_without_info_says_so(tmp_path: Path) -> None:
    loaded = load_m4("weekly", data_dir=m4_weekly(tmp_path), ids=["W7", "W2"])
    assert loaded.ids == ("W2", "W7")
    assert loaded.report.count("no category") == WEEKLY


def change(row: int, old: str, new: str) -> Callable[[list[str]], None]:
    def edit(rows: list[str]) -> None:
        assert old in rows[row]
        rows[row] = rows[row].replace(old, new, 1)

    return edit


@pytest.mark.parametrize(
    ("part", "edit", "message"),
    [
        ("train", lambda rows: rows.pop(), "saw 358 series, expected 359 as published"),
        (
            "train",
            change(4, '"5.25"', '"many"'),
            "row 6, series W5, column 'V3': saw 'many', expected a number",
        ),
        (
            "train",
            change(4, '"5.25"', ""),
            "row 6, series W5, column 'V3': saw an empty cell, expected a number",
        ),
        (
            "train",
            change(4, '"5.25"', '"NaN"'),
            "row 6, series W5, column 'V3': saw 'NaN', expected a number",
        ),
        ("train", change(4, '"W5"', '"M5"'), "row 6, column 'V1': saw 'M5', expected an id such as W1"),
        ("train", change(4, '"W5"', '"W4"'), "row 6: series W4 appears a second time"),
        ("test", change(4, '"W5"', '"W999"'), "series W5 is in only one of the train and test parts"),
        ("test", change(4, ',"112"', ""), "series W5: saw 12 values, expected 13"),
    ],
)
def test_hostile_m4(tmp_path: Path, part: str, edit: Callable[[list[str]], None], message: str) -> None:
    with pytest.raises(DataError) as caught:
        load_m4("weekly", data_dir=m4_weekly(tmp_path, edit=edit, part=part))
    assert message in str(caught.value)


def test_m4_other_header(tmp_path: Path) -> None:
    folder = m4_weekly(tmp_path)
    write(folder / "m4/Train/Weekly-train.csv", "id,1,2\nW1,3,4\n")
    with pytest.raises(DataError, match="row 1: saw id, 1, 2, expected V1, V2, V3"):
        load_m4("weekly", data_dir=folder)


def test_m4_unknown_names(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="saw 'Weekly', expected one of yearly"):
        load_m4("Weekly", data_dir=tmp_path)
    with pytest.raises(DataError, match="id 'W1000' is not among the 359 stored series"):
        load_m4("weekly", data_dir=m4_weekly(tmp_path), ids=["W1000"])


# ---- Parquet ----


def parquet(tmp_path: Path, **columns: object) -> Path:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    path = tmp_path / "part.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def part(path: Path) -> dict[str, np.ndarray]:
    from ucsearch.lab.data.m4 import _read_parquet_part

    return _read_parquet_part(path)


def test_parquet_part(tmp_path: Path) -> None:
    path = parquet(tmp_path, unique_id=["A", "A", "B"], t=[1, 2, 1], y=[1.0, 2.0, 3.0])
    assert {name: y.tolist() for name, y in part(path).items()} == {"A": [1.0, 2.0], "B": [3.0]}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"unique_id": ["A"], "t": [1]}, "column 'y' is missing; saw unique_id, t"),
        ({"unique_id": ["A"], "t": [1], "y": [float("nan")]}, "series A, column 'y': saw nan"),
        ({"unique_id": ["A"], "t": [1], "y": [None]}, "column 'y': saw type null"),
        ({"unique_id": ["A", "A"], "t": [1, 2], "y": [1.0, None]}, "column 'y': saw 1 missing values"),
        ({"unique_id": ["A"], "t": [1], "y": ["1.5"]}, "column 'y': saw type string, expected floating"),
        ({"unique_id": ["A", "A"], "t": [1, 3], "y": [1.0, 2.0]}, "series A, column 't': saw 3, expected 2"),
        ({"unique_id": [1], "t": [1], "y": [1.0]}, "column 'unique_id': saw type int64, expected text"),
        (
            {"unique_id": ["A", "B", "A"], "t": [1, 1, 1], "y": [1.0, 2.0, 3.0]},
            "row 2: series A appears again; its rows must be together",
        ),
    ],
)
def test_hostile_parquet(tmp_path: Path, columns: dict[str, object], message: str) -> None:
    path = parquet(tmp_path, **columns)
    with pytest.raises(DataError) as caught:
        part(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_truncated_parquet(tmp_path: Path) -> None:
    path = parquet(tmp_path, unique_id=["A"] * 500, t=list(range(1, 501)), y=[0.5] * 500)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match="not a readable Parquet file, perhaps truncated"):
        read_parquet(path, ("unique_id", "t", "y"))


# ---- records ----


def series(**changes: object) -> Series:
    settings: dict[str, object] = {
        "id": "a",
        "y": np.arange(5.0),
        "frequency": "daily",
        "seasonal_period": 7,
        "horizon": 2,
        "n_train": 3,
    }
    settings.update(changes)
    return Series(**settings)  # type: ignore[arg-type]


def test_series_is_read_only_and_apart_from_its_source() -> None:
    source = np.arange(5.0)
    one = series(y=source)
    source[0] = 99.0
    assert one.y[0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        one.y[0] = 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": np.array([1.0, np.nan])}, r"series.y\[1\]: saw nan, expected a finite number"),
        ({"y": np.zeros((2, 2))}, r"series.y: saw shape \(2, 2\)"),
        ({"n_train": 6}, "series.n_train: saw 6, expected 1..5"),
        ({"n_train": 0}, "series.n_train: saw 0"),
        ({"seasonal_period": 0}, "series.seasonal_period: saw 0"),
        ({"horizon": 0}, "series.horizon: saw 0"),
    ],
)
def test_series_refuses(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        series(**changes)


def test_set_refuses_double_ids() -> None:
    with pytest.raises(InputError, match=r"series\[1\]: saw id 'a' a second time"):
        SeriesSet("s", (series(), series()))


def test_table_columns_become_series() -> None:
    time = np.arange(4).astype("datetime64[s]")
    table = Table("t", ("a", "b"), read_only(time), read_only(np.arange(8.0).reshape(4, 2)), "hourly", 24)
    made = table.to_series(2, n_train=3)
    assert made.ids == ("t:a", "t:b")
    assert made.series[1].train.tolist() == [1.0, 3.0, 5.0]
    assert table.column("b").tolist() == [1.0, 3.0, 5.0, 7.0]
    with pytest.raises(InputError, match="column: saw 'c', expected one of a, b"):
        table.column("c")
