"""Files as people have them: commas, dates, names, gaps; and outputs that must not be inputs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from tests.planner.kit import (
    FORECAST_HEAD,
    TOML,
    decide,
    forecast_rows,
    make_settings,
    read_csv,
    write_csv,
    write_job,
)  # fmt: skip
from ucsearch.errors import InputError
from ucsearch.planner.decide.job import run_decide
from ucsearch.planner.decide.states import StateFile
from ucsearch.planner.files.calendar import count_periods, later
from ucsearch.planner.files.numbers import number_words, offset_of, parse_dates, parse_numbers, sniff_decimal
from ucsearch.planner.files.sales import read_sales
from ucsearch.planner.files.series_file import SeriesFile
from ucsearch.planner.files.table import open_table
from ucsearch.planner.forecast import run_forecast
from ucsearch.planner.recorded.schedule import write_schedule
from ucsearch.planner.settings import Settings, parse_settings
from ucsearch.records import AuditReader

HEAD = ["series", "date", "demand"]


def text_file(folder: Path, text: str, name: str = "f.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def settings_with(period: str = "any", extra: str = "") -> Settings:
    return parse_settings(f"period = '{period}'\n{TOML}{extra}".encode())


def sales(folder: Path, text: str, settings: Settings | None = None) -> dict[str, list[float]]:
    found = make_settings() if settings is None else settings
    file = SeriesFile.history(open_table(text_file(folder, text), found.columns.decimal), found)
    return {v.series: [] if v.table is None else v.table[:, 0].tolist() for v in file.values()}


# -------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("delimiter", "data", "expected"),
    [
        (";", b"a;b\n1;2,5\n", ","),
        (";", b"a;b\n1;2.5\n", "."),
        (",", b"a,b\n1,2\n", "."),
        (",", b'a,b\n1,"2,5"\n', ","),
        (",", b'a,b\n1,"1,234"\n', None),
        (",", b'a,b\n1,"1,234.5"\n', "."),
        (",", b'a,b\n1,"1,234,567"\n', "."),
        (",", b'a,b\n"1,234","0,5"\n', ","),
        (";", b'a;b\n"x, 3";4\n', "."),
        (";", b"a;b\n20.05.2024;1.234\n21.05.2024;950\n", None),  # 1234, or a little more than 1
        (";", b"a;b\n1;1.234\n2;0.500\n", "."),
        (";", b"a;b\n1;1.234.567\n", ","),
        (";", b"a;b\n1;1 234,5\n", ","),
        (";", "a;b\n1;1\u2019234,5\n".encode(), ","),
        ("\t", b"a\tb\n1\t1.234\n", "."),
    ],
)
def test_how_a_file_writes_decimals(delimiter: str, data: bytes, expected: str | None) -> None:
    lines = data.decode().splitlines(keepends=True)[1:]
    assert sniff_decimal([lines], delimiter) == expected
    assert sniff_decimal([[line] for line in lines], delimiter) == expected  # however it comes


@pytest.mark.parametrize(
    ("text", "decimal", "value"),
    [
        ("2,5", ",", 2.5),
        ("1.234,5", ",", 1234.5),
        ("1.234", ",", 1234.0),
        ("1 234,5", ",", 1234.5),
        ("1\u00a0234,5", ",", 1234.5),
        ("-0,25", ",", -0.25),
        ("7", ",", 7.0),
        ("1,5e3", ",", 1500.0),
        ("12.5", ",", None),
        ("1,2,3", ",", None),
        ("1,234.5", ".", 1234.5),
        ("12,5", ".", None),
        ("1,234", None, None),
        ("1.5", None, 1.5),
        ("1.234", None, None),
        ("1'234.5", ".", 1234.5),
        ("1 2", ".", None),  # two numbers, not twelve
        ("12 34", ",", None),
        ("\u22125", ".", -5.0),
    ],
)
def test_a_number(text: str, decimal: Any, value: float | None) -> None:
    values, bad = parse_numbers([text, "3"], decimal)
    assert values[1] == 3.0
    if value is None:
        assert bad == {0: text}
    else:
        assert values[0] == value
        assert not bad


def test_a_german_sheet(tmp_path: Path) -> None:
    text = "\ufeffseries;date;demand\nA;20.05.2024;1.000,5\nA;21.05.2024;2,25\n"
    assert sales(tmp_path, text, settings_with("day")) == {"A": [1000.5, 2.25]}


def test_commas_that_could_be_either_are_refused_until_declared(tmp_path: Path) -> None:
    text = 'series,date,demand\nA,2024-05-20,"1,234"\n'
    assert sales(tmp_path, text) == {"A": []}
    assert sales(tmp_path, text, settings_with("any", "[columns]\ndecimal = ','\n")) == {"A": [1.234]}
    assert sales(tmp_path, text, settings_with("any", "[columns]\ndecimal = '.'\n")) == {"A": [1234.0]}


# -------------------------------------------------------------------- dates


@pytest.mark.parametrize(
    ("text", "order", "expected"),
    [
        ("2024-05-20", "auto", "2024-05-20T00:00:00"),
        ("20.05.2024", "auto", "2024-05-20T00:00:00"),
        ("20.5.2024 13:15", "auto", "2024-05-20T13:15:00"),
        ("2024-05-20 13:15:00.000000", "auto", "2024-05-20T13:15:00"),
        ("05/06/2024", "auto", None),
        ("05/06/2024", "dmy", "2024-06-05T00:00:00"),
        ("05/06/2024", "mdy", "2024-05-06T00:00:00"),
        ("31.02.2024", "auto", None),
        ("2024-05", "auto", "2024-05-01T00:00:00"),
        ("20240520", "auto", "2024-05-20T00:00:00"),
        ("today", "auto", None),
        ("soon", "auto", None),
        ("", "auto", None),
        ("2024-05-20T02:00:00+02:00", "auto", "2024-05-20T00:00:00"),
        ("2024-05-20T02:00:00Z", "auto", "2024-05-20T02:00:00"),
        ("2024/5/20", "auto", "2024-05-20T00:00:00"),
        ("2024-W07", "auto", "2024-02-12T00:00:00"),
        ("2020W53", "auto", "2020-12-28T00:00:00"),
        ("2024-W54", "auto", None),
        ("2021-W53", "auto", None),
        ("29-Feb-2024", "auto", "2024-02-29T00:00:00"),
        ("29 February 2023", "auto", None),
        ("Feb 29, 2024 7:05 PM", "auto", "2024-02-29T19:05:00"),
        ("Sept 2024", "auto", "2024-09-01T00:00:00"),
        ("Mayor 2024", "auto", None),
        ("05/2024", "auto", "2024-05-01T00:00:00"),
        ("13/2024", "auto", None),
        ("02/25/2024 12:00:00 AM", "mdy", "2024-02-25T00:00:00"),
        ("02/25/2024 13:00 PM", "mdy", None),
        ("45432", "auto", None),
        ("25.02.24", "auto", None),
        ("202405", "auto", None),
    ],
)
def test_a_date(text: str, order: Any, expected: str | None) -> None:
    found = parse_dates([text, "2024-01-01"], order, wall_clock=False)
    assert (None if np.isnat(found[0]) else str(found[0])) == expected
    assert str(found[1]) == "2024-01-01T00:00:00"


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (
            "45432;3",
            r"line 2, column date, .*saw '45432', expected .*a spreadsheet counts days so: 45432 is 2024-05-20",
        ),
        ("202405;3", r"saw '202405', expected .*a month as 2024-05, a week as 2024-W05"),
        ("25.02.24;3", r"saw '25.02.24', expected .*the year with four digits"),
        (
            "2024-02-25;1.234",
            r"column demand, .*saw '1.234', expected a number that can be read in one way; columns.dec",
        ),
        ("2024-02-25;n/a", r"saw 'n/a', expected a number, or no row \(columns.gaps = 'zero' counts"),
        ("2024-02-25;3\nA;2024-02-26;4\nA;2024-02-25;3", r"line 4, .*saw 2024-02-25 twice, expected one row for each"),
        ("2024-02-26;3\nA;2024-02-25;4", r"line 3, .*saw 2024-02-25 after 2024-02-26, expected .*\(sort by date\)"),
    ],
)
def test_what_cannot_be_read_is_told_with_what_to_do(tmp_path: Path, cells: str, said: str) -> None:
    (tmp_path / "s.csv").write_text(f"series;date;demand\nA;{cells}\n")
    (problem,) = read_sales(tmp_path / "s.csv", settings_with("day")).problems
    assert re.search(said, str(problem))


def test_wide_files_name_the_line_too(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("date,A\n2024-02-25,1\n2024-02-26,x\n2024-02-27,1\n")
    (problem,) = read_sales(tmp_path / "s.csv", settings_with("day")).problems
    assert "line 3, column A, series A: saw 'x', expected a number" in str(problem)
    (tmp_path / "s.csv").write_text("date,A\n2024-02-25,1\nsoon,2\n")
    with pytest.raises(InputError, match=r"line 3, column date: saw 'soon', expected a date"):
        read_sales(tmp_path / "s.csv", settings_with("day"))


def test_cells_without_a_number_are_gaps(tmp_path: Path) -> None:
    text = "series,date,demand\nA,2024-05-20,1\nA,2024-05-21,-\nA,2024-05-22,#N/A\nA,2024-05-23,2\n"
    assert sales(tmp_path, text, settings_with("day")) == {"A": []}
    assert sales(tmp_path, text, settings_with("day", "[columns]\ngaps = 'zero'\n")) == {"A": [1.0, 0.0, 0.0, 2.0]}
    text = text.replace("#N/A", "lots")
    assert sales(tmp_path, text, settings_with("day", "[columns]\ngaps = 'zero'\n")) == {"A": []}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Sales of May\nof one shop\n", "It has one column: take away what stands above"),
        ("A,2024-05-20,1\nA,2024-05-21,2\n", "Line 1 holds data: put a line with column names above it"),
    ],
)
def test_a_file_without_a_header_says_so(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "s.csv").write_text(text)
    with pytest.raises(InputError, match=said):
        read_sales(tmp_path / "s.csv", settings_with("day"))


def test_offsets_from_utc_across_the_clock_change(tmp_path: Path) -> None:
    hours = ["2024-03-31T01:00:00+01:00", "2024-03-31T03:00:00+02:00", "2024-03-31T04:00:00+02:00"]
    days = ["2024-03-30T00:00:00+01:00", "2024-03-31T00:00:00+01:00", "2024-04-01T00:00:00+02:00"]
    for period, times in (("hour", hours), ("day", days)):
        text = "series,date,demand\n" + "".join(f"A,{t},{i}\n" for i, t in enumerate(times))
        assert sales(tmp_path, text, settings_with(period)) == {"A": [0.0, 1.0, 2.0]}


@pytest.mark.parametrize("clock", ["00:00:00", "00:00"])
def test_days_with_an_offset_stay_local_without_a_period_in_the_settings(tmp_path: Path, clock: str) -> None:
    """An export across the clock change: midnight there, which no one period lies between in UTC."""
    days = [np.datetime64("2024-03-25") + np.timedelta64(i, "D") for i in range(14)]
    text = "".join(f"A,{day}T{clock}+0{1 + (i > 6)}:00,{i}\n" for i, day in enumerate(days))
    (tmp_path / "s.csv").write_text("series,date,demand\n" + text)
    found = read_sales(tmp_path / "s.csv", settings_with("any"))
    assert (found.period, found.uneven, found.offset) == ("day", "", "")
    assert [str(found.histories[0].first), str(found.histories[0].last)] == [f"{day}T00:00:00" for day in days[::13]]


@pytest.mark.parametrize(
    ("seen", "unit"),
    [
        ("€0.50", "€"),
        ("0,50 €", "€"),
        ("$3", "$"),
        ("12%", "%"),
        ("7 pcs", "pcs"),
        ("CHF 1'200.50", "CHF"),
        ("-3 kg", "kg"),
    ],
)
def test_a_number_with_a_unit_is_told_what_is_too_much(seen: str, unit: str) -> None:
    assert number_words(seen, ".") == f"a number without {unit!r}: format the column as a number before saving"


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("2024-03-31T03:00:00+02:00", "+02:00"), ("2024-03-31 03:00-0330", "-03:30"), ("2024-03-31T03:00Z", "+00:00"),
        ("31.03.2024 03:00+02", "+02:00"), ("2024-03-31T03:00", ""), ("2024-03-31", ""), ("31-03-2024", ""), ("", ""),
    ],
)  # fmt: skip
def test_the_offset_a_time_is_written_with(text: str, offset: str) -> None:
    assert offset_of(text) == offset


@pytest.mark.parametrize("wide", [False, True])
def test_hours_with_an_offset_come_out_with_it(tmp_path: Path, wide: bool) -> None:
    """Local time of the newest row, and the same instants as went in."""
    hours = [np.datetime64("2024-03-30T12:00") + np.timedelta64(i, "h") for i in range(24)]  # UTC
    local = [f"{t + np.timedelta64(1 + (i > 12), 'h')}:00+0{1 + (i > 12)}:00" for i, t in enumerate(hours)]
    head, rows = (["date", "A"], [[t, 5.0] for t in local]) if wide else (HEAD, [["A", t, 5.0] for t in local])
    settings = parse_settings(("period = 'hour'\n" + TOML).encode())
    run_forecast(settings, write_csv(tmp_path / "s.csv", head, rows), tmp_path / "f.csv")
    made = read_csv(tmp_path / "f.csv")
    assert (made[0]["cutoff"], made[0]["date"]) == ("2024-03-31T13:00:00+02:00", "2024-03-31T14:00:00+02:00")
    states = write_csv(tmp_path / "states.csv", ["series", "on_hand"], [["A", 3.0]])
    run_decide(settings, tmp_path / "f.csv", states, tmp_path / "d.csv", tmp_path / "d.db")
    assert read_csv(tmp_path / "d.csv")[0]["date"] == "2024-03-31T14:00:00+02:00"
    write_schedule(tmp_path / "d.db", tmp_path / "plan.csv", settings=settings)
    assert read_csv(tmp_path / "plan.csv")[0]["start"] == "2024-03-31T14:00:00+02:00"


def test_a_quarter_of_an_hour(tmp_path: Path) -> None:
    text = "series,date,demand\nA,2024-01-01 23:45,1\nA,2024-01-02 00:00,2\n"
    assert sales(tmp_path, text, settings_with("15min")) == {"A": [1.0, 2.0]}
    assert sales(tmp_path, text.replace("00:00", "00:15"), settings_with("15min")) == {"A": []}


def test_gaps_are_refused_or_periods_without_demand(tmp_path: Path) -> None:
    text = "series,date,demand\nA,2024-01-01,1\nA,2024-01-03,3\nB,2024-01-01,5\nB,2024-01-04,6\n"
    assert sales(tmp_path, text, settings_with("day")) == {"A": [], "B": []}
    zero = settings_with("day", "[columns]\ngaps = 'zero'\n")
    assert sales(tmp_path, text, zero) == {"A": [1.0, 0.0, 3.0, 0.0], "B": [5.0, 0.0, 0.0, 6.0]}
    with pytest.raises(InputError, match=r"columns\.gaps"):
        sales(tmp_path, text, settings_with("any", "[columns]\ngaps = 'zero'\n"))
    odd = "series,date,demand\nA,2024-01-01,1\nA,2024-01-03T12:00,3\n"
    assert sales(tmp_path, odd, zero) == {"A": []}


@pytest.mark.parametrize(
    ("period", "start", "count", "expected"),
    [
        ("15min", "2024-01-01T23:45", 1, "2024-01-02T00:00:00"),
        ("month", "2024-01-31", 1, "2024-02-29T00:00:00"),
        ("month", "2024-02-29", 1, "2024-03-31T00:00:00"),
        ("month", "2024-01-15", 13, "2025-02-15T00:00:00"),
        ("weekday", "2024-01-05", 1, "2024-01-08T00:00:00"),
        ("week", "2024-01-05", 2, "2024-01-19T00:00:00"),
    ],
)
def test_so_many_periods_later(period: str, start: str, count: int, expected: str) -> None:
    begin = np.datetime64(start, "s")
    assert str(later(begin, count, period)) == expected
    assert count_periods(np.array([begin, later(begin, count, period)]), period)[1] == count


# -------------------------------------------------------------------- columns


def layout_of(folder: Path, head: str, extra: str = "") -> Any:
    settings = make_settings(extra)
    return SeriesFile.open(open_table(text_file(folder, f"{head}\nA,2024-01-01,{'1,' * 9}1\n")), settings).layout


@pytest.mark.parametrize(
    ("columns", "levels"),
    [
        ("q10,q50,q90", (0.1, 0.5, 0.9)),
        ("q5,q50,q95", (0.05, 0.5, 0.95)),
        ("q0.1,q0.9", (0.1, 0.9)),
        ("0.1,0.5,0.9", (0.1, 0.5, 0.9)),
        ("P10,P90", (0.1, 0.9)),
        ("quantile_0.1,quantile_0.9", (0.1, 0.9)),
        ("M-lo-80,M-hi-80", (0.1, 0.9)),
        ("M,M-lo-80,M-hi-80", (0.1, 0.5, 0.9)),
        ("M-lo-90.0,M-median,M-hi-90.0", (0.05, 0.5, 0.95)),
        ("M-q-10,M-q-90", (0.1, 0.9)),
        ("M-ql0.1,M_ql0.9", (0.1, 0.9)),
    ],
)
def test_quantile_columns(tmp_path: Path, columns: str, levels: tuple[float, ...]) -> None:
    head = f"unique_id,ds,{columns}"
    assert layout_of(tmp_path, head).levels == pytest.approx(levels, abs=0)


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ("q1,q5,q9", "could be 0.01 or 0.1"),
        ("q10,q0.1", "level 0.1 again"),
        ("q50", "at least two quantile levels"),
        ("A-lo-80,A-hi-80,B-lo-80,B-hi-80", "models A, B"),
        ("member_1,isued", "'issued', which it nearly is"),
        ("member_1,q10,q90", "members and quantiles"),
    ],
)
def test_columns_in_doubt_are_refused(tmp_path: Path, columns: str, match: str) -> None:
    with pytest.raises(InputError, match=match):
        layout_of(tmp_path, f"unique_id,ds,{columns}")


def test_the_model_is_chosen_by_name(tmp_path: Path) -> None:
    head = "unique_id,ds,A-lo-80,A-hi-80,B-lo-80,B-hi-80"
    assert layout_of(tmp_path, head, "[forecast]\nmodel = 'B'\n").values == ("B-lo-80", "B-hi-80")


@pytest.mark.parametrize("columns", ["sample_1,sample_2", "path1,path2", "member1,member2"])
def test_sample_columns(tmp_path: Path, columns: str) -> None:
    assert layout_of(tmp_path, f"unique_id,ds,{columns}").values == tuple(columns.split(","))


def test_nixtla_sales_and_simulated_paths(tmp_path: Path) -> None:
    assert sales(tmp_path, "unique_id,ds,y\nA,2024-01-01,4\n") == {"A": [4.0]}
    assert layout_of(tmp_path, "unique_id,ds,sample_id,NHITS").values == ("NHITS",)
    with pytest.raises(InputError, match="It has 'Serie'"):
        sales(tmp_path, "Serie,date,demand\nA,2024-01-01,4\n")


# -------------------------------------------------------------------- days that do not fit


def dated_job(
    folder: Path, first: dict[str, str], states: dict[str, str], more: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Forecasts that begin on these days; `more`: further columns, the same in every row."""
    rows = []
    for name, day in first.items():
        begin = np.datetime64(day)
        rows += [[name, str(begin + h), 5.0, 6.0 + h, *more.values()] for h in range(3)]
    write_csv(folder / "forecasts.csv", ["series", "date", "member_1", "member_2", *more], rows)
    write_csv(folder / "states.csv", ["series", "on_hand", "date"], [[n, 3.0, d] for n, d in states.items()])


def problems(folder: Path, max_age: int = 2, **options: Any) -> dict[str, str]:
    decide(folder, settings_with("day", f"[forecast]\nmax_age = {max_age}\n"), **options)
    return {row["series"]: row["problem"] for row in read_csv(folder / "out.csv") if row["problem"]}


def test_forecasts_of_other_days_are_refused_by_name(tmp_path: Path) -> None:
    may = {"A": "2024-05-20", "B": "2024-05-20", "C": "2024-05-13"}
    dated_job(tmp_path, may, {"A": "2024-05-20", "B": "2024-05-19", "C": "2024-05-13"})
    found = problems(tmp_path)
    assert list(found) == ["C"]
    assert "series C: saw 2024-05-13 as its first date, expected 2024-05-20 as in most series" in found["C"]


def test_states_of_other_days_are_refused_by_name(tmp_path: Path) -> None:
    may = dict.fromkeys("ABC", "2024-05-20")
    dated_job(tmp_path, may, {"A": "2024-05-20", "B": "2024-05-18", "C": "2024-05-21"})
    found = problems(tmp_path)
    assert set(found) == {"B", "C"}
    assert "states.csv, line 3, column date, series B: saw 2024-05-18, expected 2024-05-20" in found["B"]


def test_a_forecast_of_the_past_is_refused(tmp_path: Path) -> None:
    dated_job(tmp_path, {"A": "2024-05-20"}, {"A": "2024-05-20"})
    assert not problems(tmp_path, now=datetime(2024, 5, 22, 13, tzinfo=UTC))
    late = problems(tmp_path, now=datetime(2024, 5, 22, 14, tzinfo=UTC), fresh=True)
    assert "expected one at most 2 periods before 2024-05-22T14:00:00 (--now, [forecast] max_age)" in late["A"]
    assert not problems(tmp_path, now=datetime(2024, 6, 1, tzinfo=UTC), max_age=20, fresh=True)
    strict = problems(tmp_path, now=datetime(2024, 5, 21, 14, tzinfo=UTC), max_age=1, fresh=True)
    assert "at most 1 period before" in strict["A"]
    early = problems(tmp_path, now=datetime(2024, 5, 1, tzinfo=UTC), fresh=True)
    assert "expected one at most 2 periods and a week after 2024-05-01" in early["A"]


def test_the_clock_stands_in_for_now(tmp_path: Path) -> None:
    dated_job(tmp_path, {"A": "2024-05-20"}, {"A": "2024-05-20"})
    assert not problems(tmp_path)  # without a clock nobody knows
    later = problems(tmp_path, clock=lambda: datetime(2026, 11, 18, tzinfo=UTC), fresh=True)
    assert "at most 2 periods before 2026-11-18" in later["A"]
    with AuditReader(tmp_path / "log.db") as reader:
        records = [row.record for row in reader]
    assert not any(record.get("gate", {}).get("now") for record in records)  # it is looked at, not recorded


@pytest.mark.parametrize(
    ("column", "text", "told"),
    [("cutoff", "yesterday", "saw 'yesterday', expected a date such as"),
     ("issued", "yesterday", "saw 'yesterday', expected a date such as"),
     ("cutoff", "9999-01-01", "saw '9999-01-01', expected a time before the end of its first period, 2024-05-20"),
     ("issued", "9999-01-01", "saw '9999-01-01', expected a time that is not after 2024-05-20"),
     ("cutoff", "2024-05-19T25:00", "expected a date such as"),
     ("cutoff", "2024-05-19", ""), ("issued", "2024-05-20T06:00:00+02:00", ""), ("issued", "", "")],
)  # fmt: skip
def test_times_of_a_forecast_are_parsed(tmp_path: Path, column: str, text: str, told: str) -> None:
    dated_job(tmp_path, {"A": "2024-05-20"}, {"A": "2024-05-20"}, {column: text})
    found = problems(tmp_path, now=datetime(2024, 5, 20, tzinfo=UTC))
    assert told in found["A"] if told else not found


def test_without_dates_the_last_observation_says_how_old_a_forecast_is(tmp_path: Path) -> None:
    write_job(tmp_path)
    rows = [[*row, "2024-05-19"] for row in forecast_rows()]
    write_csv(tmp_path / "forecasts.csv", [*FORECAST_HEAD, "cutoff"], rows)
    settings = make_settings(text=f"period = 'day'\n{TOML}")
    assert not decide(tmp_path, settings, now=datetime(2024, 5, 21, tzinfo=UTC)).problems
    late = decide(tmp_path, settings, now=datetime(2024, 5, 23, tzinfo=UTC), fresh=True)
    assert late.outcomes == {"REFUSED": 5}
    assert "column cutoff, series A: saw '2024-05-19', expected one at most 2 periods before" in str(late.problems[0])


# -------------------------------------------------------------------- outputs that are inputs


@pytest.mark.parametrize("how", ["same", "spelling", "symlink", "hard link"])
@pytest.mark.parametrize("which", ["forecasts.csv", "states.csv"])
def test_an_input_is_never_overwritten(tmp_path: Path, which: str, how: str) -> None:
    write_job(tmp_path)
    before = (tmp_path / which).read_bytes()
    out = which
    if how == "spelling":
        (tmp_path / "sub").mkdir()
        out = f"sub/../{which}"
    elif how != "same":
        out = "out.csv"
        (os.symlink if how == "symlink" else os.link)(tmp_path / which, tmp_path / out)
    with pytest.raises(InputError, match="which it would replace"):
        decide(tmp_path, out=out)
    assert (tmp_path / which).read_bytes() == before
    assert not (tmp_path / "log.db").exists()


def test_the_log_is_no_input_either(tmp_path: Path) -> None:
    write_job(tmp_path)
    os.symlink(tmp_path / "states.csv", tmp_path / "log.db")
    with pytest.raises(InputError, match="the log"):
        decide(tmp_path)


# -------------------------------------------------------------------- other people's column names


LONG = "{series},{date},{demand}\nA,2024-01-01,3\nA,2024-01-02,4\nB,2024-01-01,5\nB,2024-01-02,6\n"


@pytest.mark.parametrize("names", [("item", "date", "sold"), ("SKU", "timestamp", "Quantity"), ("sku", "ds", "sales")])
def test_usual_names_of_sales_files_are_known(tmp_path: Path, names: tuple[str, str, str]) -> None:
    text = LONG.format(**dict(zip(("series", "date", "demand"), names, strict=True)))
    assert sales(tmp_path, text, settings_with("day")) == {"A": [3.0, 4.0], "B": [5.0, 6.0]}


def test_two_columns_that_could_be_the_series_are_not_chosen_between(tmp_path: Path) -> None:
    text = "item,sku,date,demand\nA,X,2024-01-01,3\n"
    with pytest.raises(InputError, match=r"'item' and 'sku'; say which by columns.series"):
        sales(tmp_path, text, settings_with("day"))


def test_names_nobody_told_us_are_asked_for_as_they_stand_in_a_settings_file(tmp_path: Path) -> None:
    path = text_file(tmp_path, LONG.format(series="Posten", date="date", demand="Kisten"))
    with pytest.raises(InputError, match=r'under .columns.: series = "Posten", demand = "Kisten"'):
        read_sales(path, settings_with("day"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Posten;Tag;Kisten\n00123;20.05.2024;3,5\nKäse;20.05.2024;1\nKäse;21.05.2024;2\n",
         'under [columns]: series = "Posten", demand = "Kisten".'),
        ("series,date,load\nA,2024-01-01,3\nA,2024-01-02,4\n", 'under [columns]: demand = "load".'),
        ("code,jour,prix,colis\n17,13/02/2024,2.5,3\n17,14/02/2024,2.6,4\n",
         'under [columns]: series = "code"; demand is one of "prix", "colis".'),
        ("Posten;Filiale;demand\nA;x;3\nA;y;4\n", "No column holds dates; a history has a row for each date."),
        ("series,on_hand,lead_time\nA,3,1\nB,4,2\n", "Each series has one row: this looks like a file of states"),
        ("series,date,on_hand,lead_time\nA,2024-05-20,3,1\nB,2024-05-20,4,2\n", "looks like a file of states"),
        ("item,week,sold\nA,202401,3\nA,202402,1\n", "'week' holds 202401, which is no date: write a month as 2024-05"),
        ("item,year,month,sold\nA,2024,1,3\nA,2024,2,3\n", "Put 'year' and 'month' together in one column of dates"),
        ("series,date,model,member_1,member_2\nA,2024-01-01,x,3,4\nA,2024-01-02,x,3,4\n",
         "This looks like a file of forecasts; files.sales is what was sold."),
        ("step,load\n1,3\n2,4\n", 'under [columns]: demand = "load".'),
    ],
)  # fmt: skip
def test_what_a_column_holds_says_what_it_may_be_called(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        read_sales(text_file(tmp_path, text), settings_with("day"))


def test_a_second_row_of_a_day_and_a_change_of_the_clock_say_what_to_do(tmp_path: Path) -> None:
    twice = text_file(tmp_path, "series,date,demand\nA,2024-01-01,3\nA,2024-01-01,4\n")
    assert "one row for each date (columns.add_up = true adds them up)" in str(
        read_sales(twice, settings_with("day")).problems[0]
    )
    hours = "series,date,demand\n" + "".join(f"A,{t},3\n" for t in ("2024-03-31T00:00", "2024-03-31T01:00", "{}"))
    for then, word in (("2024-03-31T03:00", "summer"), ("2024-03-31T01:00", "winter")):
        problem = str(read_sales(text_file(tmp_path, hours.format(then)), settings_with("hour")).problems[0])
        assert f"{word} time there: write the offset" in problem
        assert "gaps" not in problem
    gap = str(read_sales(text_file(tmp_path, hours.format("2024-03-31T04:00")), settings_with("hour")).problems[0])
    assert "columns.gaps = 'zero'" in gap
    assert "offset" not in gap


def test_a_file_with_our_names_is_read_whatever_the_users_are_called(tmp_path: Path) -> None:
    found = settings_with("day", "[columns]\nseries = 'Artikel'\ndemand = 'Menge'\n")
    assert sales(tmp_path, LONG.format(series="series", date="date", demand="demand"), found)["A"] == [3.0, 4.0]


def test_a_states_file_with_other_names_says_what_to_write(tmp_path: Path) -> None:
    table = open_table(text_file(tmp_path, "sku,Lager\nA,3\n"), "auto")
    with pytest.raises(InputError, match=r'rename = { "Lager" = "on_hand" }'):
        StateFile(table, make_settings())
    table = open_table(text_file(tmp_path, "sku,on_hand,due today\nA,3,4\n"), "auto")
    with pytest.raises(InputError, match=r'open_orders_1.* rename = { "due today" = "our name" }'):
        StateFile(table, make_settings())
    table = open_table(text_file(tmp_path, "sku,on_hand,pack\nA,3,6\n"), "auto")
    with pytest.raises(InputError, match=r'rename = { "pack" = "case_pack" }'):
        StateFile(table, make_settings())


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("series,date,quantile,value", "Quantiles go side by side: a column such as q0.1 for each value of 'quantile'"),
        ("series,date,lower,mean,upper", "Say which quantiles 'lower' and 'upper' are: q0.1 and q0.9 for 80 %"),
        ("unique_id,ds,AutoETS", "'AutoETS' is one number a period; a decision needs to know how sure it is"),
    ],
)
def test_forecasts_in_another_form_say_what_to_do(tmp_path: Path, head: str, said: str) -> None:
    row = ",".join(["A", "2024-05-20", "0.5", "3", "4"][: head.count(",") + 1])
    with pytest.raises(InputError, match=re.escape(said)):
        SeriesFile.open(open_table(text_file(tmp_path, f"{head}\n{row}\n")), settings_with("day"))


def test_quantiles_in_percent(tmp_path: Path) -> None:
    table = open_table(text_file(tmp_path, "series,date,10%,50 %,97.5%\nA,2024-05-20,1,2,3\n"))
    layout = SeriesFile.open(table, settings_with("day")).layout
    assert (layout.kind, layout.levels) == ("quantiles", (0.1, 0.5, 0.975))
