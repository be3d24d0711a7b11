"""`ucsearch forecast`: histories in every shape, forecasts that decide can read, an archive that recalibration can."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.planner.kit import TOML, decide, read_csv, write_csv
from ucsearch.cli.main import app
from ucsearch.errors import DataError, InputError
from ucsearch.forecast import Auto, MarkovBootstrap, clip_outliers, crps_ensemble, series_stream
from ucsearch.planner.files.archive import read_archive
from ucsearch.planner.files.calendar import infer_period, one_period
from ucsearch.planner.files.sales import Sales, read_sales
from ucsearch.planner.forecast import plan_forecast, run_forecast
from ucsearch.planner.settings import Settings, forecaster_classes, parse_settings

BEGIN = np.datetime64("2024-01-01")
LENGTH = 120


def settings_with(extra: str = "", period: str = "day", model: str = "seasonal_naive") -> Settings:
    text = TOML.replace('name = "seasonal_naive"\n', f'name = "{model}"\nfloor = 0.0\n')
    return parse_settings(f"period = '{period}'\n{text}{extra}".encode(), "")


def demand(seed: int, rate: float = 6.0, length: int = LENGTH) -> list[float]:
    rng = np.random.default_rng(seed)
    return [float(rng.poisson(rate * (2.0 if t % 7 == 5 else 1.0))) for t in range(length)]


def long_rows(names: str = "AB", length: int = LENGTH) -> list[list[Any]]:
    return [[n, str(BEGIN + t), y] for i, n in enumerate(names) for t, y in enumerate(demand(i, length=length))]


def write_long(folder: Path, rows: list[list[Any]], head: tuple[str, ...] = ("series", "date", "demand")) -> Path:
    return write_csv(folder / "sales.csv", head, rows)


def same(a: Sales, b: Sales) -> bool:
    pairs = zip(a.histories, b.histories, strict=True)
    return all(x.series == y.series and np.array_equal(x.y, y.y) and x.last == y.last for x, y in pairs)


# -------------------------------------------------------------------- shapes of histories


def test_every_shape_reads_the_same(tmp_path: Path) -> None:
    s = settings_with()
    rows = long_rows()
    expected = read_sales(write_long(tmp_path, rows), s)
    assert [h.y.size for h in expected.histories] == [LENGTH, LENGTH]
    assert str(expected.histories[0].last) == "2024-04-29T00:00:00"
    assert same(read_sales(write_long(tmp_path, rows, ("unique_id", "ds", "y")), s), expected)
    assert same(read_sales(write_long(tmp_path, sorted(rows, key=lambda r: r[1])), s), expected)
    days = [str(BEGIN + t) for t in range(LENGTH)]
    by_row = [[n, *demand(i)] for i, n in enumerate("AB")]
    assert same(read_sales(write_csv(tmp_path / "w.csv", ["series", *days], by_row), s), expected)
    by_column = [[d, demand(0)[t], demand(1)[t]] for t, d in enumerate(days)]
    assert same(read_sales(write_csv(tmp_path / "w.csv", ["date", "A", "B"], by_column), s), expected)
    assert same(read_sales(write_csv(tmp_path / "w.csv", ["ds", "A", "B"], by_column), s), expected)


def test_a_wide_file_begins_with_the_first_value_and_has_no_gaps(tmp_path: Path) -> None:
    days = [str(BEGIN + t) for t in range(6)]
    rows = [
        ["A", "", "", 3, 4, 5, 6],
        ["B", 1, "", 3, 4, 5, 6],
        ["C", "", "", "", "", "", ""],
        ["D", 1, "x", 3, 4, 5, 6],
    ]
    path = write_csv(tmp_path / "w.csv", ["id", *days], rows)
    found = read_sales(path, settings_with())
    assert [(h.series, h.y.tolist()) for h in found.histories] == [("A", [3.0, 4.0, 5.0, 6.0])]
    told = {p.series: str(p) for p in found.problems}
    assert "line 3, column 2024-01-02, series B: saw nothing" in told["B"]
    assert "saw no values" in told["C"]
    assert "line 5, column 2024-01-02, series D: saw 'x'" in told["D"]
    zero = read_sales(path, settings_with("[columns]\ngaps = 'zero'\n"))
    assert zero.histories[1].y.tolist() == [1.0, 0.0, 3.0, 4.0, 5.0, 6.0]
    broken = write_csv(tmp_path / "w.csv", ["id", *days[:3], *days[4:]], [["A", *range(5)]])
    with pytest.raises(InputError, match="2024-01-05 after 2024-01-03"):
        read_sales(broken, settings_with())
    steps = write_csv(tmp_path / "w.csv", ["id", "d_1", "d_2", "d_3", "d_4"], [["A", 1, 2, 3, 4]])
    assert read_sales(steps, settings_with()).histories[0].last is None


@pytest.mark.parametrize(
    ("step", "period"),
    [("15m", "15min"), ("30m", "30min"), ("1h", "hour"), ("1D", "day"), ("7D", "week"), ("3h", "any")],
)
def test_the_period_is_read_off_the_dates(step: str, period: str) -> None:
    time = np.datetime64("2024-01-01", "s") + np.arange(40) * np.timedelta64(int(step[:-1]), step[-1])  # type: ignore[call-overload]
    assert infer_period(time) == period


def test_how_long_a_period_is_in_words() -> None:
    assert [one_period(p) for p in ("15min", "hour", "any")] == ["15 minutes", "one hour", "one period"]


def test_files_that_are_no_history(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a long file"):
        read_sales(write_csv(tmp_path / "x.csv", ["a", "b"], [[1, 2]]), settings_with())


# -------------------------------------------------------------------- forecasts


def test_from_sales_to_verified_decisions(tmp_path: Path) -> None:
    write_long(tmp_path, long_rows())
    settings = settings_with("[forecast]\nseason = 7\nrecalibrate = 'rolling'\n")
    report = run_forecast(
        settings, tmp_path / "sales.csv", tmp_path / "forecasts.csv", archive=tmp_path / "archive.csv"
    )
    assert (report.series, report.horizon, report.season) == (2, 3, 7)
    rows = read_csv(tmp_path / "forecasts.csv")
    assert [(r["series"], r["date"], r["cutoff"]) for r in rows][:2] == [
        ("A", "2024-04-30", "2024-04-29"),
        ("A", "2024-05-01", "2024-04-29"),
    ]
    write_csv(tmp_path / "states.csv", ["series", "on_hand", "open_orders_1"], [["A", 6, 5], ["B", 6, 5]])
    done = decide(tmp_path, settings, archive=tmp_path / "archive.csv")
    assert done.outcomes == {"RELEASED": 2}
    past = next(iter(read_archive(tmp_path / "archive.csv", settings)))
    members = np.array([[float(r[f"member_{j + 1}"]) for j in range(5)] for r in rows[:3]])
    assert np.allclose(past.archive.mean[-1], members.mean(axis=1))
    assert np.array_equal(past.archive.y[-LENGTH + 11 :], np.array(demand(0))[11:])


def test_equal_bytes_whatever_else_is_in_the_file(tmp_path: Path) -> None:
    def made(rows: list[list[Any]], threads: int) -> list[bytes]:
        path = write_long(tmp_path, rows)
        settings = settings_with(f"threads = {threads}\n")  # the last table of the file is [run]
        run_forecast(settings, path, tmp_path / "f.csv", archive=tmp_path / "a.csv", seed=7)
        keep = (b"series", b"A")
        return [x for n in ("f.csv", "a.csv") for x in (tmp_path / n).read_bytes().splitlines() if x.startswith(keep)]

    alone = made([r for r in long_rows() if r[0] == "A"], 1)
    assert made(long_rows("ABC"), 4) == alone
    assert len(alone) > 50


def test_series_that_cannot_be_forecast_are_named(tmp_path: Path) -> None:
    rows = long_rows("AB") + long_rows("C")[:-7] + [["D", str(BEGIN + LENGTH - 2 + t), 1.0] for t in range(2)]
    rows += [["E", str(BEGIN + t), -1.0] for t in range(LENGTH)]
    report = run_forecast(settings_with(), write_long(tmp_path, rows), tmp_path / "f.csv", season=7)
    told = {p.series: p.text for p in report.problems}
    assert "saw 2024-04-22 as its last date, expected 2024-04-29" in told["C"]
    assert "saw 2 periods, expected at least 11" in told["D"]
    assert "saw -1" in told["E"]
    assert {r["series"] for r in read_csv(tmp_path / "f.csv")} == {"A", "B"}
    with pytest.raises(DataError, match="no series can be forecast"):
        run_forecast(settings_with(), write_long(tmp_path, long_rows("A", 5)), tmp_path / "f.csv", season=7)


def test_demand_below_zero_is_named_with_its_date(tmp_path: Path) -> None:
    rows = long_rows()
    day = next(row[1] for i, row in enumerate(rows) if row[0] == "B" and i % 7 == 3)
    for row in rows:
        row[2] = -2.5 if row[:2] == ["B", day] else row[2]
    settings = settings_with()
    problem = str(plan_forecast(settings, write_long(tmp_path, rows)).problems[0])
    assert f"series B: saw -2.5 ({day}), expected demand of at least 0" in problem
    counted = [[name, i % LENGTH + 1, y] for i, (name, _, y) in enumerate(rows)]
    step = next(row[1] for row in counted if row[2] < 0.0)
    steps = write_long(tmp_path, counted, ("series", "step", "demand"))
    assert f"saw -2.5 (period {step})" in str(plan_forecast(settings, steps).problems[0])


def test_the_history_is_never_overwritten(tmp_path: Path) -> None:
    path = write_long(tmp_path, long_rows())
    for out, archive in ((path, None), (tmp_path / "f.csv", path), (tmp_path / "f.csv", tmp_path / "f.csv")):
        with pytest.raises(InputError, match="which it would replace"):
            run_forecast(settings_with(), path, out, archive=archive)


def test_the_command_needs_no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = write_long(tmp_path, long_rows())
    base = ["forecast", "--set", f"files.sales={path}"]
    model = ["--set", "forecaster.name=seasonal_naive", "--set", "forecaster.paths=6"]
    done = CliRunner().invoke(app, [*base, "--set", "forecast.steps=4", *model])
    assert done.exit_code == 0, done.output
    assert "2 series, 4 periods ahead, season 7: 2 by seasonal-naive" in done.output
    assert "member_6" in read_csv(tmp_path / "forecasts.csv")[0]
    none = CliRunner().invoke(app, base)
    assert (none.exit_code, "how many periods to forecast" in none.output) == (2, True)
    wrong = CliRunner().invoke(app, [*base, "--set", "forecast.steps=4", "--set", "forecaster.name=best"]).output
    assert all(repr(name) in wrong for name in forecaster_classes())


@pytest.mark.parametrize("command", ["forecast", "calibrate"])
def test_without_settings_values_may_have_any_sign(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Temperatures, say: settings may give a floor, which demand has; and no floor is made up where none was kept."""
    rows = [[name, day, y - 9.0 if name == "A" else y] for name, day, y in long_rows()]
    monkeypatch.chdir(tmp_path)
    write_long(tmp_path, rows).rename(tmp_path / "sales.csv")
    given = ("forecast.steps=4", "forecaster.name=seasonal_naive", "backtest.origins=5")
    done = CliRunner().invoke(app, [command, *(word for text in given for word in ("--set", text))])
    assert done.exit_code == 0, done.output
    if command == "forecast":
        assert min(float(row["member_1"]) for row in read_csv(tmp_path / "forecasts.csv")) < 0.0


def test_the_time_of_issue_is_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_long(tmp_path, long_rows()).rename(tmp_path / "sales.csv")
    done = CliRunner().invoke(app, ["forecast", "--set", "forecast.steps=4", "--now", "today"])
    assert (done.exit_code, (tmp_path / "forecasts.csv").exists()) == (2, False)
    assert "--now: saw 'today', expected an ISO 8601 time" in done.output


# -------------------------------------------------------------------- forecasters


def test_the_bootstrap_keeps_shares_and_phases() -> None:
    rng = np.random.default_rng(3)
    t = np.arange(364)
    y = np.where(rng.random(364) < np.where(t % 7 == 6, 0.8, 0.2), rng.poisson(4.0, 364) + 1.0, 0.0)
    model = MarkovBootstrap(paths=400)
    made = model.forecast(y, np.array([363]), horizon=14, season=7, stream=series_stream(1, "x"))
    some = (made.members[0] > 0).mean(axis=0)
    sunday = [(364 + h) % 7 == 6 for h in range(14)]
    assert some[sunday].mean() == pytest.approx(0.75, abs=0.12)
    assert some[~np.array(sunday)].mean() == pytest.approx(0.2, abs=0.07)
    assert made.members[made.members > 0].mean() == pytest.approx(y[y > 0].mean(), rel=0.1)
    assert (made.members == np.floor(made.members)).all()
    never = model.forecast(np.zeros(50), np.array([49]), horizon=3, season=7, stream=series_stream(1, "x"))
    assert not never.members.any()
    part = model.forecast(y, np.array([200, 363]), horizon=14, season=7, stream=series_stream(1, "x"))
    assert np.array_equal(part.members[1], made.members[0])
    for options in ({"paths": 0}, {"window": 3}, {"phase_weight": 0.0}, {"floor": np.inf}):
        with pytest.raises(InputError):
            MarkovBootstrap(**options)  # type: ignore[arg-type]


def test_the_choice_is_made_on_the_past_alone() -> None:
    rng = np.random.default_rng(5)
    lumpy = np.where(rng.random(300) < 0.15, rng.poisson(3.0, 300) + 1.0, 0.0)
    auto = Auto(paths=30)
    chosen = auto.choose(lumpy, 250, horizon=7, season=7, stream=series_stream(1, "x"))
    assert chosen.name == "markov-bootstrap"
    other = lumpy.copy()
    other[251:] = 50.0
    assert auto.choose(other, 250, horizon=7, season=7, stream=series_stream(1, "x")) == chosen
    wave = 50.0 + 20.0 * np.sin(np.arange(300) * 2 * np.pi / 7) + np.cumsum(rng.normal(0, 0.3, 300))
    marks = np.arange(250, 290, dtype=np.int64)
    scores = {}
    for model in (*auto.candidates(), auto):
        made = model.forecast(wave, marks, horizon=7, season=7, stream=series_stream(1, "x"))
        scores[model.name] = float(crps_ensemble(made.members[:, :, 0], made.actuals(wave)[:, 0]).mean())
    assert scores["auto"] <= 1.05 * min(scores.values())
    short = auto.choose(lumpy, 11, horizon=7, season=7, stream=series_stream(1, "x"))
    assert short.min_history(7) <= 12


def test_what_is_far_out_is_cut_back_by_what_came_before() -> None:
    rng = np.random.default_rng(7)
    y = rng.poisson(5.0, 200).astype(float)
    assert clip_outliers(y)[1].size == 0
    y[150] = 500.0
    cut, where = clip_outliers(y)
    assert where.tolist() == [150]
    assert y[:150].max() < cut[150] < 100.0
    assert np.array_equal(np.delete(cut, 150), np.delete(y, 150))
    assert np.array_equal(clip_outliers(y[:160])[0], cut[:160])
    level = np.concatenate([y[:100], 100.0 + y[100:150]])  # a new level stays: it is cut for a while only
    assert not np.isin(np.arange(140, 150), clip_outliers(level)[1]).any()
