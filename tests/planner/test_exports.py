"""Sales files as programs export them: what can be meant in one way is read, everything else is refused in words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.planner.kit import TOML
from ucsearch.errors import DataError, InputError
from ucsearch.planner.files.sales import Sales, read_sales
from ucsearch.planner.files.table import Style, open_table
from ucsearch.planner.forecast import run_forecast
from ucsearch.planner.settings import parse_settings

DAYS = [f"2024-05-{d:02}" for d in range(13, 17)]  # Monday to Thursday
A, B = [3.0, 4.0, 5.0, 6.0], [1.0, 0.0, 2.0, 7.0]
WANTED = {"A": A, "B": B}


def read(folder: Path, data: str | bytes, extra: str = "", name: str = "sales.csv", period: str = "day") -> Sales:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
    return read_sales(path, parse_settings(f"period = '{period}'\n{TOML}{extra}".encode()))


def demand(sales: Sales) -> Mapping[str, list[float]]:
    return {h.series: h.y.tolist() for h in sales.histories}


def rows(line: str, head: str, days: list[str] = DAYS) -> str:
    """A long file: `line` with the series, the day in some forms, and the demand."""
    text = head
    for name, values in WANTED.items():
        for day, y in zip(days, values, strict=True):
            year, month, d = day.split("-")
            text += line.format(series=name, day=day, y=int(y), de=f"{d}.{month}.{year}", us=f"{month}/{d}/{year}",
                                uk=f"{d}/{month}/{year}")  # fmt: skip
    return text


PLAIN = rows("{series},{day},{y}\n", "series,date,demand\n")
READ = {
    "a title, a date of creation and an empty line above": f"Sales report,,\nCreated 2024-05-20,,\n,,\n{PLAIN}",
    "comments above, one with a comma": f"# exported by ERP 4.2\n# user: anna, role: clerk\n{PLAIN}",
    "a title with a comma above semicolons": rows("{series};{de};{y}\n", "Sales, all shops\nArtikel;Datum;Menge\n"),
    "sep= of a spreadsheet": "sep=;\n" + rows("{series};{day};{y}\n", "series;date;demand\n"),
    "pipes and drawn lines": "|----|----|----|\n"
    + rows("|{series}|{de}|{y}|\n", "|Material|Buch.dat.|Menge|\n|----|----|----|\n")
    + "|----|----|----|\n",
    "the header again on every page": PLAIN.replace("B,2024-05-13", "series,date,demand\nB,2024-05-13"),
    "an index without a name": rows("7,{series},{day},{y}\n", ",series,date,demand\n"),
    "empty columns and rows": rows("{series},{day},{y},,\n", "series,date,demand,,\n") + ",,,,\n,,,,\n",
    "names with units, in capitals": rows("{series};{us};{y}\n", "ITEM NO.;Posting Date;Quantity (pcs)\n"),
    "names of another language": rows("{series};{de};{y}\n", "Artículo;Fecha;Cantidad\n"),
    "month first": rows("{series},{us},{y}\n", "sku,date,qty\n"),
    "day first": rows("{series},{uk},{y}\n", "sku,day of sale,qty\n"),
    "a row of totals": PLAIN + "Grand Total,,28\n",
    "empty rows of the future": PLAIN + "A,2024-05-17,\nB,2024-05-17,\n",
    "wide, by any name": "Tag;A;B\n" + "".join(f"{d};{a:g};{b:g}\n" for d, a, b in zip(DAYS, A, B, strict=True)),
    "wide, with a total": "date,A,B,Total\n"
    + "".join(f"{d},{a:g},{b:g},{a + b:g}\n" for d, a, b in zip(DAYS, A, B, strict=True)),
    "a row per series, with a total": f"item,{','.join(DAYS)}\nA,3,4,5,6\nB,1,0,2,7\nTotal,4,4,7,13\n",
    "a cell of two lines": rows('{series},{day},{y},"one\ntwo"\n', "series,date,demand,note\n"),
    "carriage returns alone": PLAIN.replace("\n", "\r"),
}


@pytest.mark.parametrize("name", READ)
def test_what_can_be_meant_in_one_way_is_read(tmp_path: Path, name: str) -> None:
    sales = read(tmp_path, READ[name])
    assert demand(sales) == WANTED, [str(p) for p in sales.problems]
    assert sales.histories[0].last == np.datetime64("2024-05-16", "s")
    assert not [str(p) for p in sales.problems if p.refuses]


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_the_encodings_of_spreadsheets(tmp_path: Path, encoding: str) -> None:
    text = rows("{series};{de};{y}\n", "Artikel;Datum;Menge\n").replace("A;", "Äpfel;")
    assert demand(read(tmp_path, text.encode(encoding))) == {"Äpfel": A, "B": B}


def test_what_is_below_zero_in_ledgers(tmp_path: Path) -> None:
    text = "Material;Datum;Menge\nA;13.05.2024;1.250,50\nA;14.05.2024;12,00-\nA;15.05.2024;(3,5)\n"
    assert demand(read(tmp_path, text)) == {"A": [1250.5, -12.0, -3.5]}


@pytest.mark.parametrize(
    ("days", "period"),
    [
        (["KW 5/2024", "KW 6/2024", "KW 7/2024", "KW 8/2024"], "week"),
        (["2024/W05", "2024/W06", "2024/W07", "2024/W08"], "week"),
        (["1. März 2024", "1. April 2024", "1. Mai 2024", "1. Juni 2024"], "month"),
        (["mai 2024", "juin 2024", "juil. 2024", "août 2024"], "month"),
        (["Dez 2023", "Jan 2024", "Feb 2024", "Mrz 2024"], "month"),
    ],
)
def test_weeks_and_months_as_people_say_them(tmp_path: Path, days: list[str], period: str) -> None:
    long = "item;wann;qty\n" + "".join(f"A;{d};{y:g}\n" for d, y in zip(days, A, strict=True))
    wide = f"item;{';'.join(days)}\nA;3;4;5;6\n"
    for text in (long, wide):
        sales = read(tmp_path, text, period="any")
        assert (demand(sales), sales.period) == ({"A": A}, period)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("series,date,demand\nA,05/06/2024,3\nA,06/06/2024,4\n", "columns.dates = 'dmy' or 'mdy' says what comes"),
        ("series,date,demand\nA,13/06/2024,3\nA,06/14/2024,4\n", "columns.dates = 'dmy' or 'mdy'"),  # both ways
        ("series\tdate\tdemand\nA\t2024-05-13\t1,234\n", "a number that can be read in one way"),
        ("series;date;demand\nA;13.05.24;3\n", "the year with four digits"),
        ("series,date,demand\nA,45292,3\n", "45292 is 2024-01-01; give the column a date format"),
        ("series,date,demand\nA,2024-05-13,12 pcs\n", "line 2, column demand, series A: saw '12 pcs', expected"),
        ("series,date,demand\nA,2024-05-13,3\nA,2024-05-14,\nA,2024-05-15,4\n", "line 3, column demand, series A: saw"),
        ("Tag,A,B\n2024-05-13,3,1\n2024-05-14,,2\n2024-05-15,4,1\n", "line 3, column A, series A: saw nothing"),
        ("series,date,demand\nA,2024-05-13,3\nA,2024-05-13,4\n", "twice, expected one row for each date (columns"),
        ("Total,date,demand\nA,2024-05-13,3\n", 'series = "Total"'),
        ("date,item,Total\n2024-05-13,A,3\n", "a column 'demand'"),
    ],
)  # fmt: skip
def test_what_can_be_meant_in_two_ways_is_refused(tmp_path: Path, text: str, said: str) -> None:
    try:
        told = "\n".join(map(str, read(tmp_path, text).problems))
    except (InputError, DataError) as error:
        told = str(error)
    assert said in told


def test_one_date_of_each_series_is_enough_to_be_told(tmp_path: Path) -> None:
    problems = read(tmp_path, rows("{series};{day}x;{y}\n", "series;date;demand\n")).problems
    assert [(p.series, p.place) for p in problems] == [("A", "line 2"), ("B", "line 6")]


def test_a_product_called_total_is_one(tmp_path: Path) -> None:
    assert demand(read(tmp_path, PLAIN.replace("B,", "Total,"))) == {"A": A, "Total": B}
    wide = "date,A,Total\n" + "".join(f"{d},{a:g},{b:g}\n" for d, a, b in zip(DAYS, A, B, strict=True))
    assert demand(read(tmp_path, wide)) == {"A": A, "Total": B}


def test_receipts_are_added_up_by_period(tmp_path: Path) -> None:
    text = "sku,when,qty,shop\nB,2024-05-13 09:00,1,x\nA,2024-05-13 10:33,2,x\nA,2024-05-14 11:00,4,y\n"
    text += "A,2024-05-13 18:01,1,y\nB,2024-05-20 08:00,5,x\nA,2024-05-27 08:00,5,x\n"
    extra = '[columns]\nadd_up = true\ngaps = "zero"\nignore = ["shop"]\n'
    assert demand(read(tmp_path, text, extra))["A"][:3] == [3.0, 4.0, 0.0]
    assert demand(read(tmp_path, text, extra, period="week")) == {"B": [1.0, 5.0, 0.0], "A": [7.0, 0.0, 5.0]}
    assert demand(read(tmp_path, text, extra, period="month")) == {"B": [6.0], "A": [12.0]}
    with pytest.raises(InputError, match=r"add_up.*without a period"):
        read(tmp_path, text, '[columns]\nadd_up = true\nignore = ["shop"]\n', period="any")
    (problem,) = read(tmp_path, text.replace("10:33,2", "10:33,two"), extra).problems
    assert "line 3, column qty, series A: saw 'two', expected a number" in str(problem)


def test_dates_of_no_one_period_are_counted_and_said(tmp_path: Path) -> None:
    days = [str(d) for d in np.arange(np.datetime64("2024-01-01"), np.datetime64("2024-04-01")) if np.is_busday(d)]
    days = [d for i, d in enumerate(days) if i % 17]
    lines = [f"A,{d},{i % 5}" for i, d in enumerate(days)]
    (tmp_path / "sales.csv").write_text("\n".join(["series,date,demand", *lines]) + "\n")
    settings = parse_settings(b"[forecast]\nsteps = 3\n", plans=False)
    report = run_forecast(settings, tmp_path / "sales.csv", tmp_path / "f.csv")
    (note,) = report.problems
    assert "no one period between all dates" in str(note)
    assert (tmp_path / "f.csv").read_text().startswith("series,step,model,member_1")


def test_a_workbook_with_a_cover_sheet_a_title_and_a_total(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "Info"
    book.active["A1"] = "Sales of May"
    sheet = book.create_sheet("Data")
    sheet["A1"] = "All shops"
    sheet.merge_cells("A1:C1")
    sheet.append([])
    sheet.append(["Artikel", "Datum", "Menge"])
    for name, values in WANTED.items():
        for day, y in zip(DAYS, values, strict=True):
            sheet.append([name, np.datetime64(day).item(), y])
    sheet.append(["Summe", None, "=SUM(C4:C11)"])
    book.save(tmp_path / "sales.xlsx")
    sales = read_sales(tmp_path / "sales.xlsx", parse_settings(f"period = 'day'\n{TOML}".encode()))
    assert demand(sales) == WANTED
    assert [str(p).partition(", ")[2] for p in sales.problems] == [
        "row 12, series Summe: a row of totals without a date, left out"
    ]


def test_of_a_workbook_with_two_tables_the_message_names_the_sheet_that_is_read(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "Customers"
    book.active.append(["customer", "town"])
    book.active.append(["Lind", "Umeå"])
    book.create_sheet("Sales").append(["series", "date", "demand"])
    book.save(tmp_path / "sales.xlsx")
    with pytest.raises(InputError, match=r"Sheet 'Customers' is read, the first with a table; move .* it: 'Sales'\."):
        read_sales(tmp_path / "sales.xlsx", parse_settings(TOML.encode()))


@pytest.mark.parametrize(
    ("text", "style"),
    [
        ("series;on_hand\nA;3\n", Style(";", ",")),  # spreadsheets take semicolons where commas are decimals
        ("series;on_hand\nA;3.5\n", Style(";", ".")),
        ("series,on_hand\nA,3\n", Style()),
        ("series\ton_hand\nA\t3,5\n", Style("\t", ",")),
    ],
)
def test_what_is_written_looks_like_what_is_read(tmp_path: Path, text: str, style: Style) -> None:
    (tmp_path / "states.csv").write_text(text)
    assert Style.of(tmp_path / "states.csv") == style
    assert Style.like([tmp_path / "none.csv", None, tmp_path / "states.csv"]) == style
    assert open_table(tmp_path / "states.csv").columns == ("series", "on_hand")


def test_forecasts_are_written_as_the_sales_are(tmp_path: Path) -> None:
    days = np.arange(np.datetime64("2024-01-01"), np.datetime64("2024-02-20"))
    lines = [f"A;{d};{i % 7},5" for i, d in enumerate(days)]
    (tmp_path / "sales.csv").write_text("\n".join(["series;date;demand", *lines]) + "\n")
    settings = parse_settings(b"period = 'day'\n[forecast]\nsteps = 3\n", plans=False)
    run_forecast(settings, tmp_path / "sales.csv", tmp_path / "f.csv")
    head, first, *_ = (tmp_path / "f.csv").read_text().splitlines()
    assert head.startswith("series;date;model;cutoff;member_1")
    assert "," in first.split(";")[4]
