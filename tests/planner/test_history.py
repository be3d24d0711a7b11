"""What is replayed is what runs: every command forecasts a history in the same way, from values up to the cutoff."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.planner.kit import TOML, read_csv, write_csv
from tests.planner.test_other_tasks import TOML as STORAGE
from ucsearch.errors import DataError
from ucsearch.planner.backtest.replay import Replay, read_histories
from ucsearch.planner.backtest.rules import earlier_part
from ucsearch.planner.calibrate import run_calibrate
from ucsearch.planner.forecast import plan_forecast, run_forecast
from ucsearch.planner.history import Preparation, needed_periods, prepare, with_season
from ucsearch.planner.settings import Settings, parse_settings

LENGTH, OUTLIER, GAP = 120, 70, 90
FORECASTERS = ("auto", "seasonal_naive", "ridge_paths", "smoothing")


def demand(length: int = LENGTH, outlier: float = 900.0, seed: int = 3) -> list[float]:
    rng = np.random.default_rng(seed)
    y = (20.0 + 9.0 * (np.arange(length) % 7 == 5) + np.round(rng.normal(0.0, 2.0, length), 2)).tolist()
    y[OUTLIER] = outlier
    return [float(x) for x in y]


def write_history(path: Path, y: list[float], column: str = "demand") -> Path:
    """With an outlier, and a day that is missing."""
    begin = np.datetime64("2024-01-01")
    rows = [["A", str(begin + t), v] for t, v in enumerate(y) if t != GAP]
    return write_csv(path, ["series", "date", column], rows)


def settings_for(kind: str, forecaster: str = "auto", more: str = "") -> Settings:
    """Two seasons are given, of which the forecast's counts; five steps where a decision needs fewer."""
    text = f"period = 'day'\n{TOML}" if kind == "inventory" else STORAGE.replace('period = "15min"', 'period = "day"')
    text = text.replace('demand = "price"', 'demand = "demand"').replace("season = 1\n", "").replace("season = 4\n", "")
    text = text.replace('name = "seasonal_naive"\npaths = 5', f'name = "{forecaster}"\npaths = 60')
    text = text.replace('name = "seasonal_naive"\npaths = 4', f'name = "{forecaster}"\npaths = 60')
    text = text.replace("[backtest]\n", "[backtest]\nseason = 3\n")
    columns = "" if "[columns]" in text else "[columns]\n"
    text = text.replace("[columns]\n", '[columns]\ngaps = "zero"\n') + (columns and '[columns]\ngaps = "zero"\n')
    if kind != "inventory":
        text = text.replace("warmup = 0", "warmup = 3")
    return parse_settings((text + f"[forecast]\nseason = 7\nsteps = 5\n{more}").encode())


def written(settings: Settings, folder: Path, y: list[float]) -> np.ndarray:
    """(J, H) members that `forecast` writes after the last value."""
    run_forecast(settings, write_history(folder / "cut.csv", y), folder / "forecast.csv")
    rows = read_csv(folder / "forecast.csv")
    return np.array([[float(v) for k, v in row.items() if k.startswith("member_")] for row in rows]).T


def replayed(settings: Settings, data: Path) -> np.ndarray:
    """(O, J, H) members that the replay plans on."""
    settings = with_season(settings, data)
    return np.asarray(Replay(read_histories(settings, data, None)[0], settings).members[0])


@pytest.mark.parametrize("forecaster", FORECASTERS)
@pytest.mark.parametrize("kind", ["inventory", "storage"])
def test_a_backtest_plans_on_the_forecast_that_is_written(kind: str, forecaster: str, tmp_path: Path) -> None:
    settings, y = settings_for(kind, forecaster), demand()
    members = replayed(settings, write_history(tmp_path / "all.csv", y))
    assert written(settings, tmp_path, y[:-1]).tobytes() == members[-1].tobytes()
    kept = settings_for(kind, forecaster, "keep_outliers = true\n")
    assert replayed(kept, tmp_path / "all.csv")[-1].tobytes() == written(kept, tmp_path, y[:-1]).tobytes()
    assert (members[-1] != replayed(kept, tmp_path / "all.csv")[-1]).any()


@pytest.mark.parametrize("kind", ["inventory", "storage"])
def test_tuning_plans_on_the_forecast_that_is_written(kind: str, tmp_path: Path) -> None:
    settings, y = settings_for(kind), demand()
    data = write_history(tmp_path / "all.csv", y)
    counted = settings.backtest.periods
    before, past = earlier_part(settings, read_histories(settings, data, None)[0], 6)
    members = Replay(past, before).members[0]
    assert members[-1].tobytes() == written(settings, tmp_path, y[: -counted - 1]).tobytes()


def test_calibrate_and_arming_judge_the_forecast_that_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ucsearch.monitor.arming import ranks_of

    settings, y = settings_for("inventory"), demand()
    data = write_history(tmp_path / "all.csv", y)
    seen: list[tuple[Any, np.ndarray]] = []
    forecasts = Preparation.forecasts

    def noted(self: Preparation, series: str, values: Any, cutoffs: Any, how: Any = None, known: Any = None) -> Any:
        made = forecasts(self, series, values, cutoffs, how, known)
        if how is None or not how.active:
            seen.append((int(cutoffs[-1]), made[-1]))
        return made

    monkeypatch.setattr(Preparation, "forecasts", noted)
    run_calibrate(settings, data, origins=14)
    cutoff, members = seen[0]
    assert members.tobytes() == written(settings, tmp_path, y[: cutoff + 1]).tobytes()
    seen.clear()
    assert sum(map(len, ranks_of(settings, data, lags=2))) > 50
    cutoff, members = seen[0]
    assert members.tobytes() == written(settings, tmp_path, y[: cutoff + 1]).tobytes()


@pytest.mark.parametrize("method", ["rolling", "off"])
@pytest.mark.parametrize("kind", ["inventory", "storage"])
def test_the_future_changes_no_earlier_forecast(kind: str, method: str, tmp_path: Path) -> None:
    settings = settings_for(kind, more=f'recalibrate = "{method}"\n')
    y = demand()
    changed = [*y[:-3], 5_000.0, 0.0, 77.0]
    a = replayed(settings, write_history(tmp_path / "a.csv", y))
    b = replayed(settings, write_history(tmp_path / "b.csv", changed))
    assert a[:-2].tobytes() == b[:-2].tobytes()
    assert (a[-1] != b[-1]).any()


def test_a_recalibrated_replay_is_what_decide_makes_of_forecast_and_archive(tmp_path: Path) -> None:
    """The archive holds what happened, outliers included; the forecaster learns from them cut back."""
    from ucsearch.forecast.recalibrate import correction_at, recalibrate_members

    settings = settings_for("inventory", more='recalibrate = "rolling"\n')
    y = np.array(demand())
    members = replayed(settings, write_history(tmp_path / "all.csv", y.tolist()))
    y[GAP] = 0.0
    newest = prepare(settings).newest("A", y[:-1], with_past=True)
    assert newest.past is not None
    fix = correction_at(newest.past, settings.recalibration, 5)
    own = recalibrate_members(newest.members, newest.members.mean(axis=0), fix, settings.recalibration.floor)
    assert own.tobytes() == members[-1].tobytes()


def test_every_task_needs_the_same_history_and_refuses_the_same_series(tmp_path: Path) -> None:
    begin = np.datetime64("2024-01-01")
    rows = [["A", str(begin + t), v] for t, v in enumerate(demand())]
    rows += [["early", str(begin + t), v] for t, v in enumerate(demand()[:-2])]
    data = write_csv(tmp_path / "two.csv", ["series", "date", "demand"], rows)
    told = []
    for kind in ("inventory", "storage"):
        found = settings_for(kind, "seasonal_naive")
        columns = found.columns.model_copy(update={"gaps": "refuse"})
        test = found.backtest.model_copy(update={"periods": 20, "warmup": 4})
        settings = replace(found, columns=columns, backtest=test)
        assert needed_periods(settings) == 24 + settings.forecaster.min_history(7)
        told.append([(p.series, p.text) for p in read_histories(settings, data, None)[1]])
        longer = replace(settings, backtest=test.model_copy(update={"periods": 400}))
        with pytest.raises(DataError, match=f"saw {LENGTH} periods, expected at least {needed_periods(longer)} "):
            read_histories(longer, data, None)
    assert told[0] == told[1]
    assert [series for series, _ in told[0]] == ["early"]
    assert plan_forecast(settings, data).problems[0].text == told[0][0][1]
