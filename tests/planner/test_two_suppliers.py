"""Two suppliers from files to orders: [[supplier]] tables, pairs of quantities, a row for each supplier."""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.planner.kit import read_csv, write_csv
from ucsearch.cli import app
from ucsearch.errors import InputError
from ucsearch.planner.backtest.replay import Replay, read_histories
from ucsearch.planner.history import with_season
from ucsearch.planner.settings import parse_settings

FIRST = date(2024, 5, 20)
TOML = """
units = "pieces"
currency = "EUR"
period = "day"
[task]
name = "lead_time_inventory"
holding = 0.1
shortage = 5.0
[[supplier]]
name = "Lyon"
lead_time = 1
unit_cost = 1.3
order_sizes = [0.0, 4.0]
[[supplier]]
name = "Genoa"
lead_time = 2
unit_cost = 1.0
fixed_cost = 0.5
order_sizes = [0.0, 3.0, 6.0]
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


def run(*arguments: object, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.stderr, result.exception)
    return result


def test_orders_go_to_both_suppliers(job: Path) -> None:
    assert "2 RELEASED" in run("decide", "--now", day(0)).stdout
    rows = {row["series"]: row for row in read_csv(job / "decisions.csv")}
    a = rows["A"]
    assert [a[name] for name in ("action", "order", "arrival", "expedited", "expedited_arrival", "stock")] == [
        "6 4", "6", day(2), "4", day(1), "2",
    ]  # fmt: skip
    assert a["sentence"].startswith("order 6 from Genoa and 4 from Lyon is released")
    assert "among 6 pairs of sizes offered" in a["sentence"]
    assert a["next_orders"] == "(not planned yet)"
    assert (rows["B"]["action"], rows["B"]["order"], rows["B"]["expedited"], rows["B"]["arrival"]) == (
        "0 0",
        "0",
        "0",
        "",
    )
    run("orders")
    ordered = [(r["series"], r["supplier"], r["order [pieces]"], r["arrival"]) for r in read_csv(job / "orders.csv")]
    assert ordered == [("A", "Genoa", "6", day(2)), ("A", "Lyon", "4", day(1))]
    costs = [row["expected_cost [EUR]"] for row in read_csv(job / "orders.csv")]
    assert [bool(cost) for cost in costs] == [True, False]  # once a series, so that the column adds up
    assert "2 valid" in run("verify").stdout


def test_a_file_for_each_supplier_needs_no_column(job: Path) -> None:
    run("decide", "--now", day(0))
    run("orders", "--set", "orders.by=supplier")
    assert [row["order [pieces]"] for row in read_csv(job / "orders-Genoa.csv")] == ["6"]
    assert [row["order [pieces]"] for row in read_csv(job / "orders-Lyon.csv")] == ["4"]


def test_it_is_explained(job: Path) -> None:
    run("decide", "--now", day(0))
    told = run("explain", "A").stdout
    assert "An order from Genoa arrives in 2 periods, one from Lyon in the next period." in told
    assert "In stock: 2 pieces; on order: 1 at once." in told
    assert "The plan, 4 steps: 6+4 pieces; the last 3 not planned yet" in told
    told = run("explain", "A", "--set", "expedited_unit_cost=9", "--set", "on_hand=9").stdout
    assert " would be sent instead of order 6 from Genoa and 4 from Lyon." in told
    run("explain", "--plan")
    assert read_csv(job / "plan.csv")[0]["action"] == "6 4"


@pytest.mark.parametrize(
    ("typed", "cells", "said"),
    [
        ("6+0", ("6 0", "6", day(2), "0", ""), "A: order 6 from Genoa"),
        ("order 3 from Genoa and 4 from Lyon", ("3 4", "3", day(2), "4", day(1)), "A: order 3 from Genoa and 4 from"),
        ("0 8", ("0 8", "0", "", "8", day(1)), "A: (0, 8) is in force"),
        ("5", ("5 0", "5", day(2), "0", ""), "A: (5, 0) is in force"),
    ],
)
def test_a_person_orders_otherwise(job: Path, typed: str, cells: tuple[str, ...], said: str) -> None:
    run("decide", "--now", day(0))
    before = read_csv(job / "decisions.csv")[0]
    assert said in run("override", "A", typed, "--who", "M. Curie", "--why", "promotion").stdout
    row = read_csv(job / "decisions.csv")[0]
    assert tuple(row[n] for n in ("action", "order", "arrival", "expedited", "expedited_arrival")) == cells
    run("orders")
    ordered = {r["supplier"]: r["order [pieces]"] for r in read_csv(job / "orders.csv")}
    assert ordered == {k: v for k, v in (("Genoa", cells[1]), ("Lyon", cells[3])) if v != "0"}
    assert "M. Curie" in run("explain", "A").stdout
    run("override", "A", "--withdraw", "--who", "M. Curie", "--why", "as planned")
    assert read_csv(job / "decisions.csv")[0] == before
    assert "4 valid" in run("verify").stdout


def test_sizes_that_fit_each_series(job: Path) -> None:
    text = TOML.replace("order_sizes = [0.0, 4.0]\n", "case_pack = 2.0\n").replace(
        "order_sizes = [0.0, 3.0, 6.0]\n", ""
    )
    settings = parse_settings((text + "[actions]\nlots = 4\nround_to = 1.0\n").encode())
    rng = np.random.default_rng(1)
    import ucsearch as uc

    trace = uc.Trace.from_members(np.stack([rng.poisson(m, (20, 6)) for m in (3.0, 40.0)]).astype(float))
    config = settings.task.for_planning(settings.policy, settings.actions)
    params, actions = config.offered(trace, config.params(), settings.actions)
    law = config.planned_trace(trace, params, settings.policy, settings.actions)
    for w, mean in enumerate((3.0, 40.0)):
        slow, fast = (np.unique(actions[w, :, k]) for k in (0, 1))
        assert params.grid[w].tolist() == slow.tolist()
        for sizes in (slow, fast):
            assert sizes[0] == 0.0
            assert len(set(np.diff(sizes).tolist())) == 1  # even steps, so that open orders take few values
            assert 1.5 * mean <= sizes[-1] <= 4.0 * mean
        assert (fast % 2.0 == 0.0).all()
        unit = law.window(w).declared.unit
        assert (np.concatenate([slow, fast]) % unit == 0.0).all()
        pairs = {tuple(a) for a in actions[w].tolist()}
        assert pairs == {(a, b) for a in slow.tolist() for b in fast.tolist()}


def test_the_rules_of_thumb_order_from_both(job: Path) -> None:
    rng = np.random.default_rng(2)
    rows = [["A", day(t), float(x)] for t, x in enumerate(rng.poisson(3.0, 40))]
    sales = write_csv(job / "sales.csv", ["series", "date", "demand"], rows)
    text = TOML.replace("[0.0, 3.0, 6.0]", "[0.0, 1.0, 2.0, 3.0]").replace("[0.0, 4.0]", "[0.0, 1.0, 2.0, 4.0]")
    settings = with_season(parse_settings(text.encode(), str(job / "ucsearch.toml")), sales)
    found, problems = read_histories(settings, sales, None)
    assert problems == []
    replay = Replay(found, settings)
    assert set(replay.rules) == {"dual-index", "tailored base-surge", "greedy"}
    for name, knobs in (("dual-index", {"ratio": 0.5, "fast": 0.97}), ("tailored base-surge", {"share": 0.6})):
        _, done = replay.walk_rule(name, [knobs])
        parts = replay.track(done)
        assert 0.0 < parts["expedited"].sum() < parts["order"].sum()
    track = replay.track(replay.walk(replay.policy()))
    paid = track["holding"] + track["shortage"] + track["ordering"] - track["revenue"]
    assert -paid[:, 1:-1].sum() == pytest.approx(track["reward"][:, 1:-1].sum())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "lead_time = 2\n",
            "lead_time = 1\n",
            "supplier.lead_time: saw 1 twice, expected a regular supplier and a faster",
        ),
        ('name = "Genoa"\n', "", "supplier.name: saw one name, expected one for each supplier"),
        ('name = "Genoa"', 'name = "Lyon"', "suppliers: saw .*, expected two names that differ"),
        ("holding = 0.1", "holding = 0.1\nunit_cost = 1.0", "task.unit_cost: saw a value, expected it under .* alone"),
        ("holding = 0.1", "holding = 0.1\nexpedited_unit_cost = 1.0", "task.expedited_unit_cost: saw a value"),
        ("unit_cost = 1.3", "unit_cots = 1.3", "supplier.0.unit_cots: unknown key, expected 'unit_cost'"),
        ("[0.0, 4.0]", "[0.0, 4.5]", r"expedited_sizes\[1\]: saw 4.5, expected a whole number with two suppliers"),
        ("[policy]", "[[supplier]]\nlead_time = 3\n[policy]", "supplier: saw 3 tables, expected one or two"),
    ],
)
def test_tables_that_do_not_fit(old: str, new: str, message: str) -> None:
    assert old in TOML
    with pytest.raises(InputError, match=message):
        parse_settings(TOML.replace(old, new, 1).encode(), "x.toml")


def test_one_table_is_the_only_supplier() -> None:
    head, _, rest = TOML.partition("[[supplier]]")
    _, _, rest = rest.partition("[[supplier]]")
    settings = parse_settings((head + "[[supplier]]" + rest).encode(), "x.toml")
    assert (settings.task.lead_time, settings.task.unit_cost, settings.task.order_sizes) == (2, 1.0, (0.0, 3.0, 6.0))
    assert not settings.task.has_two_suppliers
