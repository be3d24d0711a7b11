"""A task that nobody has seen before: its rules and one record are enough for every command."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from ucsearch.cli.main import app
from ucsearch.verify.__main__ import main as verify

BOILER = '''
"""A boiler that is heated ahead of demand."""
from dataclasses import dataclass
from typing import NamedTuple

import ucsearch as uc
from ucsearch.tasks.base import OnSeries


class Tank(NamedTuple):
    warm: float


class Costs(NamedTuple):
    size: float
    fuel: float
    cold: float


def feasible(s, a, p):
    return s.warm + a <= p.size


def step(s, a, y, p):
    return Tank(max(s.warm + a - y, 0.0))


def reward(s, a, y, p):
    return -(p.fuel * a + p.cold * max(y - s.warm - a, 0.0))


def terminal(s, p):
    return 0.5 * p.fuel * s.warm


def fallback(s, p):
    return 0.0


@dataclass(frozen=True)
class Boiler(OnSeries):
    form = "cost"
    size: float = 12.0
    fuel: float = 1.0
    cold: float = 6.0

    def params(self) -> Costs:
        return Costs(self.size, self.fuel, self.cold)

    def task(self) -> uc.Task:
        return uc.Task(
            name="boiler", state=Tank, actions=(0.0, 2.0, 4.0, 6.0, 8.0), params=self.params(), feasible=feasible,
            step=step, reward=reward, fallback=fallback, terminal=terminal,
        )

    def address(self, *, own_grid: bool = False) -> str:
        return "boiler.py:TASK"

    def state(self, warm: float = 0.0) -> Tank:
        return Tank(float(warm))


BOILER = Boiler()
TASK = BOILER.task()
'''
TOML = """
period = "day"
units = "kWh"
currency = "EUR"
[task]
name = "own"
object = "boiler.py:BOILER"
[policy]
name = "exact"
mode = "members"
depth = 3
[forecaster]
name = "seasonal_naive"
paths = 4
[backtest]
periods = 14
warmup = 3
[run]
engine = "python"
[files]
pages = "pages"
results = "results.csv"
"""


def write_demand(path: Path, days: int) -> None:
    rng, first = np.random.default_rng(1), np.datetime64("2024-01-01")
    y = {name: np.round(3.0 + 2.0 * (np.arange(80) % 7 == 5) + rng.normal(0.0, 0.6, 80), 2) for name in "AB"}
    rows = [f"{name},{first + t},{y[name][t]}" for name in "AB" for t in range(days)]
    path.write_text("\n".join(["series,date,demand", *rows]) + "\n")


@pytest.fixture
def boiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "boiler.py").write_text(BOILER)
    (tmp_path / "ucsearch.toml").write_text(TOML)
    (tmp_path / "states.csv").write_text("series,warm\nA,2\nB,3\n")
    write_demand(tmp_path / "sales.csv", 70)
    return tmp_path


def said(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.output


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_task_of_ones_own_has_every_command(boiler: Path) -> None:
    assert "2 series, 3 periods ahead, season 7" in said("forecast")
    assert "inside the 90 % interval" in said("calibrate")
    assert "2 series: 2 RELEASED" in said("decide", "--now", "2024-03-12")
    action = rows_of(boiler / "decisions.csv")[0]["action"]
    assert "Alternatives, by the most they can score" in said("explain", "A")
    assert "what if warm = 9 (was 2)?" in said("explain", "A", "--set", "warm=9")
    assert "6 rows of 2 series" in said("explain", "--plan")
    assert f"A: {8 - float(action):g} is in force" in said(
        "override", "A", f"{8 - float(action):g}", "--who", "me", "--why", "cold"
    )
    assert "1 overridden" in said("orders")
    assert {r["series"]: float(r["action"]) for r in rows_of(boiler / "orders.csv")}["A"] == 8.0 - float(action)
    write_demand(boiler / "sales.csv", 75)
    assert "2 series" in said("monitor")
    assert verify(["decisions.db", "--task", "boiler.py:TASK"]) == 0


def test_a_task_of_ones_own_is_replayed_and_tuned(boiler: Path) -> None:
    text = said("backtest")
    assert "cost [EUR]" in text
    rivals = {"planning on the mean", "planning on a quantile", "planning on a quantile, tuned", "nothing", "hindsight"}
    rows = rows_of(boiler / "results.csv")
    assert {r["policy"] for r in rows} == {"policy", *rivals}
    total = {n: sum(float(r["cost"]) for r in rows if r["policy"] == n) for n in {r["policy"] for r in rows}}
    assert total["hindsight"] == min(total.values())
    assert total["policy"] < total["nothing"]
    assert "<svg" in (boiler / "pages" / "backtest.html").read_text()
    tuned = said("tune", "--set", "backtest.tries=4")
    evidence = json.loads((boiler / "tuned.evidence.json").read_text())
    assert [t["label"] for t in evidence["trials"]][:2] == ["as given", "mean, risk 0"]
    assert ("Keep your settings" in tuned) == (evidence["chosen"] == 0 or "did worse on the later" in tuned)
