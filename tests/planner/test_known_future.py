"""Demand that was not sold, gaps that are not known, and what is known ahead: from files to forecasts."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.planner.kit import write_csv
from ucsearch.errors import InputError
from ucsearch.planner.calibrate import run_calibrate
from ucsearch.planner.files.sales import History, read_sales
from ucsearch.planner.forecast import run_forecast
from ucsearch.planner.settings import parse_settings

FIRST = date(2024, 1, 1)
DAYS = 140
WEEK = np.array([12.0, 8.0, 10.0, 12.0, 18.0, 24.0, 6.0])


def settings_of(tmp_path: Path, columns: str = "", more: str = "", model: str = "auto") -> Any:
    text = (
        f"period = 'day'\n[columns]\n{columns}\n[forecast]\nsteps = 7\n"
        f"[forecaster]\nname = '{model}'\npaths = 60\nfloor = 0.0\n{more}"
    )
    return parse_settings(text.encode(), str(tmp_path / "ucsearch.toml"), plans=False)


def day(t: int) -> str:
    return (FIRST + timedelta(days=t)).isoformat()


def demand(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).poisson(WEEK[np.arange(DAYS) % 7]).astype(float)


def one(data: Path, settings: Any) -> History:
    found = read_sales(data, settings)
    assert [p for p in found.problems if p.refuses] == []
    return found.histories[0]


def test_days_that_end_without_stock_are_not_known(tmp_path: Path) -> None:
    y, stock = demand(), np.full(DAYS, 5.0)
    stock[[0, 9, 70, 71]] = 0.0
    rows = [["A", day(t), y[t], stock[t]] for t in range(DAYS)]
    rows[30][3] = ""  # nobody counted: the sale stands
    data = write_csv(tmp_path / "sales.csv", ["series", "date", "demand", "closing_stock"], rows)
    settings = settings_of(tmp_path, "closing_stock = 'closing_stock'")
    history = one(data, settings)
    assert str(history.first)[:10] == day(1)  # it begins with what is known
    assert np.flatnonzero(np.isnan(history.y)).tolist() == [8, 69, 70]
    assert history.unknown == 3
    report = run_forecast(settings, data, tmp_path / "forecasts.csv")
    assert report.unknown == 3
    result = run_calibrate(settings, data, origins=90)
    assert result.unknown == 2 * 7  # of two days, from one to seven steps ahead
    assert f"{result.unknown} outcomes are not known" in result.text()


def test_a_flag_says_so_too(tmp_path: Path) -> None:
    y = demand()
    rows = [["A", day(t), y[t], int(t in (40, 80))] for t in range(DAYS)]
    data = write_csv(tmp_path / "sales.csv", ["series", "date", "demand", "empty"], rows)
    history = one(data, settings_of(tmp_path, "out_of_stock = 'empty'"))
    assert np.flatnonzero(np.isnan(history.y)).tolist() == [40, 80]


@pytest.mark.parametrize("shape", ["long", "by row", "by column"])
def test_gaps_may_be_unknown(shape: str, tmp_path: Path) -> None:
    y = demand()
    gone = {50, 51, 100}
    if shape == "long":
        rows: list[list[Any]] = [["A", day(t), y[t]] for t in range(DAYS) if t not in gone - {100}]
        rows[98][2] = "NA"
        head = ["series", "date", "demand"]
    elif shape == "by row":
        head = ["series", *(day(t) for t in range(DAYS))]
        rows = [["A", *("" if t in gone else y[t] for t in range(DAYS))]]
    else:
        head = ["date", "A", "B"]
        rows = [[day(t), "" if t in gone else y[t], y[t]] for t in range(DAYS)]
    data = write_csv(tmp_path / "sales.csv", head, rows)
    history = one(data, settings_of(tmp_path, "gaps = 'unknown'"))
    assert set(np.flatnonzero(np.isnan(history.y)).tolist()) == gone
    assert history.y[~np.isnan(history.y)].tolist() == [x for t, x in enumerate(y.tolist()) if t not in gone]
    zero = one(data, settings_of(tmp_path, "gaps = 'zero'"))
    assert set(np.flatnonzero((zero.y == 0.0) & (y != 0.0)).tolist()) == gone
    problems = read_sales(data, settings_of(tmp_path)).problems
    assert "'unknown' as demand that is not known" in str(problems[0])


def promoted_files(tmp_path: Path, ahead: int = 7, by: str = "series") -> tuple[Path, np.ndarray, np.ndarray]:
    """Sales with a promotion every ninth day that adds 15, and its future."""
    on = (np.arange(DAYS + 30) % 9 == 7).astype(float)
    y = demand() + 15.0 * on[:DAYS]
    data = write_csv(
        tmp_path / "sales.csv", ["series", "date", "demand", "promotion"],
        [[name, day(t), y[t], on[t]] for name in ("A", "B") for t in range(DAYS)],
    )  # fmt: skip
    rows: list[list[Any]] = [[day(t), on[t]] for t in range(DAYS, DAYS + ahead)]
    head = ["date", "promotion"]
    if by == "series":
        head, rows = ["series", *head], [["A", *row] for row in rows]
    write_csv(tmp_path / "future.csv", head, rows)
    return data, y, on


KNOWN = "known = ['promotion']"
FUTURE = "[files]\nfuture = 'future.csv'\n"


def test_the_forecast_knows_the_promotion(tmp_path: Path) -> None:
    data, _, on = promoted_files(tmp_path, by="all")
    told = settings_of(tmp_path, KNOWN, FUTURE)
    blind = settings_of(tmp_path, "ignore = ['promotion']")
    means = []
    for settings in (told, blind):
        run_forecast(settings, data, tmp_path / "f.csv")
        lines = (tmp_path / "f.csv").read_text().splitlines()[1:]
        rows = [line.split(",") for line in lines if line.startswith("A,")]
        means.append(np.array([[float(x) for x in row[4:]] for row in rows]).mean(axis=1))
    extra = means[0] - means[1]
    ahead = on[DAYS : DAYS + 7] == 1.0
    assert extra[ahead].min() > 8.0
    assert extra[~ahead].mean() < 1.0


def test_a_series_without_future_values_is_refused_by_name(tmp_path: Path) -> None:
    data, _, _ = promoted_files(tmp_path)
    report = run_forecast(settings_of(tmp_path, KNOWN, FUTURE), data, tmp_path / "f.csv")
    assert report.series == 1
    assert "series B: saw promotion of 0 periods ahead, expected 7 (files.future)" in str(report.problems[-1])
    promoted_files(tmp_path, ahead=5)
    with pytest.raises(Exception, match="series A: saw promotion of 5 periods ahead, expected 7"):
        run_forecast(settings_of(tmp_path, KNOWN, FUTURE), data, tmp_path / "f.csv")


def test_past_values_may_stand_in_the_future_file(tmp_path: Path) -> None:
    """A file of temperatures for all shops: the sales have no such column."""
    warm = np.random.default_rng(5).normal(20.0, 5.0, DAYS + 7)
    y = 20.0 + warm[:DAYS]
    rows = [["A", day(t), y[t]] for t in range(3, DAYS)]
    data = write_csv(tmp_path / "sales.csv", ["series", "date", "demand"], rows)
    write_csv(tmp_path / "future.csv", ["date", "temperature"], [[day(t), warm[t]] for t in range(DAYS + 7)])
    settings = settings_of(tmp_path, "known = ['temperature']", FUTURE, "ridge_paths")
    history = one(data, settings)
    assert history.known is not None
    np.testing.assert_allclose(history.known[:, 0], warm[3:])
    write_csv(tmp_path / "future.csv", ["date", "temperature"], [[day(t), warm[t]] for t in range(DAYS + 7) if t != 9])
    problems = read_sales(data, settings).problems
    assert "series A: saw no temperature of 2024-01-10, expected it here or among the sales" in str(problems[-1])


@pytest.mark.parametrize(
    ("columns", "more", "model", "message"),
    [
        (KNOWN, "", "auto", "files.future: missing, expected a file with future values of columns.known"),
        (KNOWN, FUTURE, "smoothing", "forecaster.name: saw 'smoothing' with columns.known"),
        ("gaps = 'never'", "", "auto", "columns.gaps: saw 'never', expected one of 'refuse', 'zero' or 'unknown'"),
    ],
)
def test_settings_that_do_not_fit(columns: str, more: str, model: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        settings_of(tmp_path, columns, more, model)


def test_files_that_do_not_fit(tmp_path: Path) -> None:
    data, _, _ = promoted_files(tmp_path)
    settings = settings_of(tmp_path, KNOWN, FUTURE)
    future = tmp_path / "future.csv"
    for rows, message in (
        ([[day(DAYS), "soon"]], "column promotion: saw 'soon', expected a number"),
        ([[day(DAYS), ""]], "column promotion: saw 'nothing', expected a number"),
        ([[day(DAYS), 1], [day(DAYS), 0]], f"saw {day(DAYS)} twice, expected one row for each period"),
    ):
        write_csv(future, ["date", "promotion"], rows)
        with pytest.raises(InputError, match=message):
            read_sales(data, settings)
    write_csv(future, ["date", "price"], [[day(DAYS), 1]])
    with pytest.raises(InputError, match="expected a column 'promotion'"):
        read_sales(data, settings)
    with pytest.raises(InputError, match="a column 'empty'"):
        read_sales(data, settings_of(tmp_path, "out_of_stock = 'empty'\nignore = ['promotion']"))
