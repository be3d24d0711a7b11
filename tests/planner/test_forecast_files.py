"""The forecasts file: its layouts, and every way in which its rows can be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.planner.kit import FORECAST_HEAD, TOML, forecast_rows, make_settings, write_csv
from ucsearch.errors import DataError, InputError
from ucsearch.planner.files import table as tables
from ucsearch.planner.files.series_file import SeriesFile, Values, make_trace
from ucsearch.planner.files.table import open_table, write_table
from ucsearch.planner.settings import parse_settings
from ucsearch.trace import Trace


def opened(folder: Path, head: list[str], rows: list[list[Any]], extra: str = "") -> SeriesFile:
    return SeriesFile.open(open_table(write_csv(folder / "f.csv", head, rows)), make_settings(extra))


def good(file: SeriesFile) -> dict[str, Values]:
    return {v.series: v for v in file.values() if v.table is not None}


def reasons(file: SeriesFile) -> dict[str, str]:
    """Series -> why it is refused, by either pass."""
    return {v.series: str(v.problem).partition("f.csv, ")[2] for v in file.values() if v.problem is not None}


def trace_of(file: SeriesFile, series: str, extra: str = "") -> Trace:
    values = good(file)[series]
    assert values.table is not None
    how = make_settings(extra).forecast
    return make_trace(values.table[None], file.layout.kind, file.layout.levels, how, None, None)


def test_members_in_columns(tmp_path: Path) -> None:
    file = opened(tmp_path, FORECAST_HEAD, forecast_rows())
    assert file.order == ("A", "B", "C", "D", "E")
    assert not file.problems
    rows = np.array([row[2:] for row in forecast_rows() if row[0] == "B"])
    trace = trace_of(file, "B")
    assert np.array_equal(trace.members[0, :, :, 0], rows.T)
    assert trace.coupling == "joint"
    assert trace_of(file, "B", "[forecast]\ncoupling = 'independent'\nsteps = 2\n").members.shape == (1, 4, 2, 1)


def test_columns_are_taken_by_number_not_by_place(tmp_path: Path) -> None:
    head = ["member_10", "series", "member_2", "step"]
    file = opened(tmp_path, head, [[10.0, "A", 2.0, h + 1] for h in range(3)])
    table = good(file)["A"].table
    assert table is not None
    assert table.tolist() == [[2.0, 10.0]] * 3


def test_sample_paths_in_rows_of_any_order(tmp_path: Path) -> None:
    cells = [["A", h + 1, j, 10.0 * j + h] for j in (3, 1, 2) for h in (1, 0, 2)]
    file = opened(tmp_path, ["series", "step", "sample", "value"], cells)
    table = good(file)["A"].table
    assert table is not None
    assert table.tolist() == [[10.0, 20.0, 30.0], [11.0, 21.0, 31.0], [12.0, 22.0, 32.0]]


def test_mean_and_deviation(tmp_path: Path) -> None:
    file = opened(tmp_path, ["series", "step", "mean", "std"], [["A", h + 1, 5.0, 1.0] for h in range(3)])
    trace = trace_of(file, "A", "[forecast]\npoints = 5\n")
    expected = Trace.from_mean([[5.0] * 3], [[1.0] * 3], points=5)
    assert trace.hash == expected.hash
    assert trace_of(file, "A", "[forecast]\nmethod = 'sobol'\n").coupling == "independent"


def test_quantiles(tmp_path: Path) -> None:
    head = ["series", "step", "q0.9", "q0.1", "q0.5"]
    file = opened(tmp_path, head, [["A", h + 1, 9.0, 1.0, 5.0] for h in range(3)])
    assert file.layout.levels == (0.1, 0.5, 0.9)
    expected = Trace.from_quantiles([0.1, 0.5, 0.9], [[[1.0, 5.0, 9.0]] * 3])
    assert trace_of(file, "A").hash == expected.hash


def test_dates_cutoff_and_issue_time(tmp_path: Path) -> None:
    head = ["series", "date", "member_1", "cutoff", "issued"]
    rows = [["A", f"2024-01-0{d}", 1.0, "2023-12-31", "2024-01-01T04:00:00+00:00"] for d in (1, 2, 3)]
    values = good(opened(tmp_path, head, rows))["A"]
    assert (values.cutoff, values.issued) == ("2023-12-31", "2024-01-01T04:00:00+00:00")


def test_parquet_reads_the_same(tmp_path: Path) -> None:
    columns: dict[str, type] = {"series": str, "step": int, **dict.fromkeys(FORECAST_HEAD[2:], float)}
    write_table(tmp_path / "f.parquet", columns, lambda: iter(forecast_rows()))
    parquet = SeriesFile.open(open_table(tmp_path / "f.parquet"), make_settings())
    csv = opened(tmp_path, FORECAST_HEAD, forecast_rows())
    for a, b in zip(parquet.values(), csv.values(), strict=True):
        assert a.series == b.series
        assert np.array_equal(a.table, b.table)  # type: ignore[arg-type]


def test_reading_may_begin_at_any_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "_CSV_ROWS", 4)
    file = opened(tmp_path, FORECAST_HEAD, forecast_rows())
    for start in range(6):
        assert [v.series for v in file.values(start)] == ["A", "B", "C", "D", "E"][start:]


# -------------------------------------------------------------------- what can be wrong


def broken(folder: Path, row: int, column: int, value: Any) -> dict[str, str]:
    """Reasons after one cell was changed; rows 3 to 5 are series B."""
    rows = forecast_rows()
    rows[row][column] = value
    file = opened(folder, FORECAST_HEAD, rows)
    found = reasons(file)
    assert set(found) | set(good(file)) == set(file.order)
    return found


@pytest.mark.parametrize(
    ("row", "column", "value", "reason"),
    [
        (4, 3, "abc", "line 6, column member_2, series B: saw 'abc', expected a number"),
        (4, 3, "", "line 6, column member_2, series B: saw nothing, expected a number"),
        (5, 5, "inf", "line 7, column member_4, series B: saw 'inf', expected a number within 1e+15 of 0"),
        (5, 5, "1e300", "line 7, column member_4, series B: saw '1e300', expected a number within 1e+15 of 0"),
        (4, 1, 1, "line 6, column step, series B: saw step 1 twice, expected 2"),
        (4, 1, 3, "line 6, column step, series B: saw step 3, expected step 2"),
        (3, 1, 0, "line 5, column step, series B: saw step 0, expected step 1"),
        (5, 1, 1.5, "line 7, column step, series B: saw step 1.5 after 2, expected ascending steps"),
        (4, 1, "two", "line 6, column step, series B: saw 'two', expected a whole number"),
        (4, 1, "", "line 6, column step, series B: saw nothing, expected step 2"),
    ],
)
def test_one_bad_cell_refuses_one_series(tmp_path: Path, row: int, column: int, value: Any, reason: str) -> None:
    assert broken(tmp_path, row, column, value) == {"B": reason}


def test_rows_that_lie_apart(tmp_path: Path) -> None:
    rows = forecast_rows()
    rows.append(rows.pop(4))
    file = opened(tmp_path, FORECAST_HEAD, rows)
    assert reasons(file) == {"B": "line 6, column step, series B: saw step 3, expected step 2"}
    assert len(file.problems) == 1
    assert set(good(file)) == {"A", "C", "D", "E"}
    assert [v.series for v in file.values(2)] == ["C", "D", "E"]


def test_a_series_given_twice(tmp_path: Path) -> None:
    file = opened(tmp_path, FORECAST_HEAD, forecast_rows() + forecast_rows(["B"]))
    assert reasons(file) == {"B": "line 17, column step, series B: saw step 1 twice, expected 4"}


def test_rows_sorted_by_date(tmp_path: Path) -> None:
    together, apart = forecast_rows(), sorted(forecast_rows(), key=lambda row: row[1])
    (tmp_path / "a").mkdir()
    expected = good(opened(tmp_path / "a", FORECAST_HEAD, together))
    file = opened(tmp_path, FORECAST_HEAD, apart)
    found = good(file)
    assert list(found) == list(expected)
    assert not file.problems
    for name, values in found.items():
        assert np.array_equal(values.table, expected[name].table)  # type: ignore[arg-type]
    assert [v.series for v in file.values(3)] == ["D", "E"]
    apart[7][3] = "abc"  # B's second step is in line 9
    assert reasons(opened(tmp_path, FORECAST_HEAD, apart)) == {
        apart[7][0]: f"line 9, column member_2, series {apart[7][0]}: saw 'abc', expected a number"
    }


def test_a_row_of_another_width(tmp_path: Path) -> None:
    rows = forecast_rows()
    rows[4] = rows[4][:-1]
    found = reasons(opened(tmp_path, FORECAST_HEAD, rows))
    assert found == {"B": "line 6, series B: saw 5 cells, expected 6 as in the header"}


def test_a_row_without_a_series(tmp_path: Path) -> None:
    rows = forecast_rows()
    rows[14][0] = ""
    found = reasons(opened(tmp_path, FORECAST_HEAD, rows))
    assert found[""] == "line 16, column series, series (no name): saw nothing, expected a series"


def dated(folder: Path, days: list[str], extra: str = "") -> dict[str, str]:
    rows = [["A", d, 1.0] for d in days] + [["B", f"2024-01-0{d}", 1.0] for d in (1, 2, 3)]
    return reasons(opened(folder, ["series", "date", "member_1"], rows, extra))


@pytest.mark.parametrize(
    ("days", "reason"),
    [
        (["2024-01-02", "2024-01-01", "2024-01-03"], "line 3, column date, series A: saw 2024-01-01 after 2024-01-02"),
        (["2024-01-01", "2024-01-02", "2024-01-02"], "line 4, column date, series A: saw 2024-01-02 twice"),
        (
            ["2024-01-01", "soon", "2024-01-03"],
            "line 3, column date, series A: saw 'soon', expected a date such as 2024-05-20",
        ),
        (["2024-01-01", "", "2024-01-03"], "line 3, column date, series A: saw '', expected a date such as 2024-05-20"),
    ],
)
def test_dates_that_do_not_ascend(tmp_path: Path, days: list[str], reason: str) -> None:
    found = dated(tmp_path, days)
    assert list(found) == ["A"]
    assert found["A"].startswith(reason)


@pytest.mark.parametrize(
    ("period", "good_days", "bad_days"),
    [
        ("day", ["2024-02-28", "2024-02-29", "2024-03-01"], ["2024-02-28", "2024-03-01"]),
        ("week", ["2024-01-01", "2024-01-08"], ["2024-01-01", "2024-01-09"]),
        ("month", ["2024-01-31", "2024-02-29", "2024-03-31"], ["2024-01-31", "2024-03-31"]),
        ("hour", ["2024-01-01T23:00", "2024-01-02T00:00"], ["2024-01-01T23:00", "2024-01-02T01:00"]),
        ("weekday", ["2024-01-05", "2024-01-08"], ["2024-01-04", "2024-01-08"]),
    ],
)
def test_a_missing_period_is_seen(tmp_path: Path, period: str, good_days: list[str], bad_days: list[str]) -> None:
    settings = parse_settings(f"period = '{period}'\n{TOML}".encode())

    def found(days: list[str]) -> dict[str, str]:
        rows = [["A", d, 1.0] for d in days]
        table = open_table(write_csv(tmp_path / "f.csv", ["series", "date", "member_1"], rows))
        return reasons(SeriesFile.open(table, settings))

    assert found(good_days) == {}
    assert f"expected one {period} between them" in found(bad_days)["A"]


@pytest.mark.parametrize(
    ("cells", "reason"),
    [
        ([[1, 1], [1, 2], [2, 1]], "samples of different steps"),
        ([[1, 1], [1, 1], [2, 1], [2, 1]], "the same sample and step twice"),
        ([[1, 1], [1, 3], [2, 1], [2, 3]], "saw step 3, expected step 2"),
        ([["", 1], ["", 2]], "samples of different steps"),
    ],
)
def test_samples_that_do_not_fit(tmp_path: Path, cells: list[list[Any]], reason: str) -> None:
    rows = [["A", h, j, 1.0] for j, h in cells]
    found = reasons(opened(tmp_path, ["series", "step", "sample", "value"], rows))
    assert reason in found["A"]


def test_a_negative_deviation(tmp_path: Path) -> None:
    rows = [["A", h + 1, 5.0, 1.0 - h] for h in range(3)]
    found = reasons(opened(tmp_path, ["series", "step", "mean", "std"], rows))
    assert found == {"A": "line 4, column std, series A: saw -1, expected at least 0"}


def test_unknown_columns_are_reported_and_can_be_silenced(tmp_path: Path) -> None:
    head, rows = [*FORECAST_HEAD, "membr_5"], [[*row, 1.0] for row in forecast_rows()]
    file = opened(tmp_path, head, rows)
    (problem,) = file.problems
    assert (problem.column, problem.refuses) == ("membr_5", False)
    assert len(good(file)) == 5
    assert not opened(tmp_path, head, rows, "[columns]\nignore = ['membr_5']\n").problems


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (["Posten", "step", "member_1"], "a column 'series' \\(columns.series\\)"),
        (["series", "member_1"], "a column 'step' or 'date'"),
        (["series", "step", "x"], "one kind of forecast: member_1, member_2, ...; sample and value; mean and std"),
        (["series", "step", "member_1", "mean", "std"], "saw members and mean, expected one kind of forecast"),
    ],
)
def test_a_file_that_is_no_forecast(tmp_path: Path, head: list[str], expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        opened(tmp_path, head, [["A", 1, 1.0, 1.0, 1.0][: len(head)]])


def test_other_names(tmp_path: Path) -> None:
    names = "[columns]\nseries = 'sku'\nstep = 'h'\nmembers = 'path'\n"
    assert set(good(opened(tmp_path, ["sku", "h", "path1"], [["A", 1, 1.0]], names))) == {"A"}


def test_an_empty_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="saw no rows"):
        opened(tmp_path, FORECAST_HEAD, [])


def test_a_file_that_changes_while_it_is_read(tmp_path: Path) -> None:
    file = opened(tmp_path, FORECAST_HEAD, forecast_rows())
    write_csv(tmp_path / "f.csv", FORECAST_HEAD, forecast_rows(["A", "X", "C"]))
    with pytest.raises(DataError, match="changed while it was read"):
        list(file.values())
