"""Uncertain lead times and price breaks from files to orders, and what is said before closed loop that does not fit."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.planner.kit import read_csv, write_csv
from ucsearch.cli import app
from ucsearch.planner.backtest.replay import Replay, read_histories
from ucsearch.planner.history import with_season
from ucsearch.planner.settings import SettingsError, load_settings, parse_settings
from ucsearch.service.config import PlanTable
from ucsearch.service.writer.plans import load_plan

FIRST = date(2024, 5, 20)
TOML = """
units = "pieces"
currency = "EUR"
period = "day"
[task]
name = "lead_time_inventory"
lead_time = { 1 = 0.5, 2 = 0.5 }
holding = 0.1
shortage = 5.0
unit_cost = 1.0
price_breaks = { 8 = 0.9 }
order_sizes = [0.0, 4.0, 8.0]
[policy]
name = "exact"
mode = "closed"
depth = 4
[forecaster]
name = "seasonal_naive"
paths = 5
[backtest]
periods = 5
warmup = 2
season = 1
[run]
engine = "python"
"""


def day(t: int) -> str:
    return (FIRST + timedelta(days=t)).isoformat()


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ucsearch.toml").write_text(TOML)
    members = [2.0, 3.0, 4.0, 3.0]
    rows = [[name, day(h), *(x * scale for x in members)] for name, scale in (("A", 1), ("B", 0)) for h in range(4)]
    write_csv(tmp_path / "forecasts.csv", ["series", "date", *(f"member_{i + 1}" for i in range(4))], rows)
    write_csv(tmp_path / "states.csv", ["series", "on_hand", "open_orders_1"], [["A", 2, 1], ["B", 5, ""]])
    return tmp_path


def run(*words: str, code: int = 0):
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output
    return result


def test_orders_arrive_between_two_days_and_the_records_verify(job):
    run("decide", "--now", day(0))
    row = next(r for r in read_csv(job / "decisions.csv") if r["series"] == "A")
    assert float(row["order"]) > 0.0
    assert row["arrival"] == f"{day(1)} to {day(2)}"
    assert "2 valid" in run("verify", "decisions.db").output
    told = run("explain", "A").output
    assert "1 ordered one period ago (arrives in 0 to 1 periods)" in told
    assert "An order arrives in the next period (50 %), in 2 periods (50 %)" in told
    run("orders")
    assert read_csv(job / "orders.csv")[0]["arrival"] == f"{day(1)} to {day(2)}"


def test_replays_draw_lead_times_with_the_seed_the_same_for_all(job):
    rng = np.random.default_rng(5)
    rows = [[name, day(t - 40), int(rng.integers(0, 6))] for name in ("A", "B") for t in range(40)]
    write_csv(job / "sales.csv", ["series", "date", "demand"], rows)
    settings = with_season(load_settings(job / "ucsearch.toml"), None)

    def draws(seed: int):
        own = parse_settings(TOML.replace("warmup = 2", f"warmup = 2\nseed = {seed}").encode(), "ucsearch.toml")
        histories, _ = read_histories(with_season(own, None), job / "sales.csv", None)
        return Replay(histories, with_season(own, None)).panel.realised[..., 1]

    assert settings.fields == ()
    first = draws(1)
    assert (first == draws(1)).all()
    assert (first != draws(2)).any()
    assert (first[0] != first[1]).any()
    assert "(R,S)" in run("backtest").output


def test_a_table_of_lead_times_goes_with_one_supplier():
    toml = TOML.replace("lead_time = { 1 = 0.5, 2 = 0.5 }\n", "").replace("[policy]", "SUPPLIERS\n[policy]")
    one = '[[supplier]]\nname = "Lyon"\nlead_time = { 1 = 0.5, 2 = 0.5 }\n'
    toml = toml.replace("unit_cost = 1.0\nprice_breaks = { 8 = 0.9 }\norder_sizes = [0.0, 4.0, 8.0]\n", "")
    found = parse_settings(toml.replace("SUPPLIERS", one).encode(), "job.toml")
    assert found.task.lead_shares == ((1, 0.5), (2, 0.5))
    two = one + '[[supplier]]\nname = "Genoa"\nlead_time = 3\n'
    with pytest.raises(SettingsError, match="with two suppliers lead times are certain"):
        parse_settings(toml.replace("SUPPLIERS", two).encode(), "job.toml")


def test_what_does_not_fit_is_told_before_it_begins_with_what_would(job):
    small = TOML.replace("order_sizes = [0.0, 4.0, 8.0]\n", "") + "[actions]\nlots = 6\n[proof]\nnode_budget = 700\n"
    (job / "ucsearch.toml").write_text(small)
    told = CliRunner().invoke(app, ["decide", "--now", day(0)]).output
    assert ": closed loop does not fit: " in told
    assert "[proof] node_budget = 700 allows no more. Series like it fall back." in told
    assert "[actions] lots = 4 " in told
    assert "[policy] depth = 2 " in told
    assert told.index("does not fit") < told.index("FALLBACK")
    (job / "ucsearch.toml").write_text(small.replace("700", "1000000"))
    assert "does not fit" not in run("decide", "--now", day(0)).output


@pytest.mark.parametrize("command", ["backtest", "tune"])
def test_replays_tell_so_too(job, command):
    rng = np.random.default_rng(5)
    rows = [[name, day(t - 40), int(rng.integers(1, 6))] for name in ("A", "B") for t in range(40)]
    write_csv(job / "sales.csv", ["series", "date", "demand"], rows)
    small = TOML.replace("order_sizes = [0.0, 4.0, 8.0]\n", "") + "[actions]\nlots = 6\n[proof]\nnode_budget = 300\n"
    (job / "ucsearch.toml").write_text(small.replace("season = 1", "season = 1\ntries = 2"))
    told = CliRunner().invoke(app, [command]).output
    assert ": closed loop does not fit: " in told
    assert "[proof] node_budget = 300 allows no more. Series like it fall back." in told
    assert told.count("[policy] depth = 2 would fit") <= told.count("does not fit")
    assert told.index("does not fit") < told.index("over 5 periods" if command == "backtest" else "tried on")


def test_a_service_tells_so_before_it_starts(tmp_path):
    small = TOML.replace("order_sizes = [0.0, 4.0, 8.0]\n", "") + "[actions]\nlots = 6\n[proof]\nnode_budget = 300\n"
    (tmp_path / "ucsearch.toml").write_text(small.replace('engine = "python"', 'engine = "compiled"'))
    states = load_plan(PlanTable(name="orders", settings="ucsearch.toml"), tmp_path).warm().states
    assert states[0].startswith("a sample series: closed loop does not fit: ")


def test_an_order_says_at_which_price_it_is(job):
    (job / "ucsearch.toml").write_text(TOML.replace("{ 8 = 0.9 }", "{ 4 = 0.9, 99 = 0.1 }"))
    run("decide", "--now", day(0))
    row = next(r for r in read_csv(job / "decisions.csv") if r["series"] == "A")
    assert "the price from 4 on holds: 0.9 a unit" in row["note"]
    assert "draw" not in run("explain", "A").output
