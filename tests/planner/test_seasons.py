"""One season for what is forecast, judged, replayed and tuned; histories in any form; what to do with short ones."""

from __future__ import annotations

import tomllib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.planner.kit import TOML, write_csv
from ucsearch.errors import DataError
from ucsearch.planner.backtest.job import run_backtest
from ucsearch.planner.backtest.replay import Replay, read_histories
from ucsearch.planner.backtest.resume import Kept, Parts
from ucsearch.planner.backtest.tune import _Tuning, run_tune
from ucsearch.planner.calibrate import run_calibrate
from ucsearch.planner.files.sales import read_sales
from ucsearch.planner.files.table import open_table
from ucsearch.planner.forecast import plan_forecast
from ucsearch.planner.history import with_season
from ucsearch.planner.new.inventory import KINDS, write_scaffold
from ucsearch.planner.settings import Settings, load_settings, parse_settings

BEGIN = np.datetime64("2024-01-01")


def text_with(period: str = "day", season: str = "") -> str:
    text = TOML.replace("season = 1\n", f"season = {season}\n" if season else "")
    return f"period = '{period}'\n{text}"


def settings_with(period: str = "day", season: str = "") -> Settings:
    return parse_settings(text_with(period, season).encode())


def days(folder: Path, length: int, names: tuple[str, ...] = ("A",), wide: bool = False) -> Path:
    y = [float(3 + 9 * (t % 7 == 5)) for t in range(length)]
    if wide:
        return write_csv(
            folder / "wide.csv", ["date", *names], [[str(BEGIN + t), *[v] * len(names)] for t, v in enumerate(y)]
        )
    rows = [[n, str(BEGIN + t), v] for n in names for t, v in enumerate(y)]
    return write_csv(folder / "sales.csv", ["series", "date", "demand"], rows)


@pytest.mark.parametrize(("length", "season"), [(21, 7), (20, 1)])
def test_a_season_that_is_left_out_is_the_same_wherever_it_is_asked_for(
    tmp_path: Path, length: int, season: int
) -> None:  # fmt: skip
    data, settings = days(tmp_path, length), settings_with()
    assert plan_forecast(settings, data).season == season
    assert with_season(settings, data).season == season
    assert with_season(settings_with(season="1"), data).season == 1  # said is said
    assert plan_forecast(settings_with(season="1"), data).season == 1


def test_steps_without_dates_are_of_the_settings_period(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "steps.csv", ["series", "step", "demand"], [["A", t + 1, 3.0] for t in range(21)])
    assert plan_forecast(settings_with(), data).season == 7
    assert with_season(settings_with(), data).season == 7
    assert with_season(settings_with("any"), data).season == 1


def test_a_replay_forecasts_with_the_season_of_the_period(tmp_path: Path) -> None:
    settings = with_season(settings_with(), days(tmp_path, 60))
    found, _ = read_histories(settings, tmp_path / "sales.csv", None)
    members = Replay(found, settings).members[0]  # (O, J, H)
    saturday = int(np.argmax(found[0].y[-members.shape[0] :]))
    assert members[saturday, :, 0].min() == 12.0  # without a season a Saturday is like the day before


def test_a_replay_reads_what_a_forecast_reads(tmp_path: Path) -> None:
    wide, _ = read_histories(settings_with(), days(tmp_path, 40, ("A", "B"), wide=True), None)
    long, _ = read_histories(settings_with(), days(tmp_path, 40, ("A", "B")), None)
    assert [h.series for h in wide] == ["A", "B"]
    assert all(np.array_equal(a.y, b.y) for a, b in zip(wide, long, strict=True))


def test_a_short_history_says_what_would_do(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"saw 10 periods, expected at least .*; periods = \d+ would do\)"):
        read_histories(settings_with(), days(tmp_path, 10), None)
    with pytest.raises(DataError, match=r"saw 10 periods, expected at least .* \(forecast.season = 1, none, needs "):
        plan_forecast(settings_with(), days(tmp_path, 10), season=30)
    with pytest.raises(
        DataError, match=r"saw 60 periods, enough for \d+ past forecasts, .* \(backtest.origins asks for fewer"
    ):
        run_calibrate(settings_with(), days(tmp_path, 60), season=28)


def test_tuned_settings_name_the_season_they_were_tuned_with(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    path.write_text("period = 'day'\n" + TOML.replace("season = 1\n", ""))
    made = tomllib.loads(run_tune(load_settings(path), days(tmp_path, 60), tries=2).text)
    assert made["backtest"]["season"] == 7


def test_written_settings_leave_the_season_to_the_period(tmp_path: Path) -> None:
    for kind in KINDS:
        (path, *_) = write_scaffold(kind, tmp_path / kind)
        own = 1 if kind == "spares" else None  # machines fail on any day of the week
        assert load_settings(path).backtest.season == own


class Enough(Exception):
    pass


@pytest.mark.parametrize("job", ["job", "tune"])
def test_a_sales_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str) -> None:
    opened = []

    def counted(*args: Any) -> Any:
        opened.append(args)
        return open_table(*args)

    def stop(*_: Any) -> None:
        raise Enough

    monkeypatch.setattr("ucsearch.planner.files.sales.open_table", counted)
    monkeypatch.setattr(f"ucsearch.planner.backtest.{job}.Parts.expect", stop)
    data = days(tmp_path, 120)
    (tmp_path / "job.toml").write_text(text_with())
    run = (
        partial(run_backtest, settings_with())
        if job == "job"
        else partial(run_tune, load_settings(tmp_path / "job.toml"))
    )
    with pytest.raises(Enough):
        run(data)
    assert len(opened) == 1


def test_a_way_to_plan_that_needs_a_longer_history_is_named_and_the_others_are_tried(tmp_path: Path) -> None:
    data = read_sales(days(tmp_path, 60), settings_with())
    tuning = _Tuning(
        text_with(), with_season(settings_with(), data), data, None, 10, Parts(Kept(None, "", {}), None), None
    )
    changes = {"forecast": {"recalibrate": "paths"}, "backtest": {"season": 7}}
    assert tuning.run("second", [("error paths", changes)], tuning.histories) == []
    assert "saw 60 periods, expected at least" in tuning.skipped["error paths"]
    assert "would do" not in tuning.skipped["error paths"]  # no smaller number of periods would
