"""The replay of a history: honest bookkeeping, no look-ahead, rivals that know their trade."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.planning.kit import TOML, make_settings, read_csv, write_csv
from ucsearch.errors import DataError, InputError
from ucsearch.pipeline.backtest import POLICIES, BacktestResult, Track, run_backtest
from ucsearch.pipeline.pictures import draw_backtest
from ucsearch.settings import parse_settings

LENGTH = 20
DEMAND = {
    "A": [7.0, 9.0, 4.0, 6.0, 8.0, 5.0, 7.0, 6.0, 9.0, 3.0, 7.0, 8.0, 5.0, 6.0, 7.0, 4.0, 8.0, 6.0, 5.0, 7.0],
    "B": [0.0, 12.0, 0.0, 0.0, 9.0, 0.0, 15.0, 0.0, 0.0, 0.0, 11.0, 0.0, 8.0, 0.0, 0.0, 14.0, 0.0, 0.0, 10.0, 0.0],
}


def write_sales(folder: Path, demand: dict[str, list[float]] = DEMAND) -> Path:
    rows = [[name, t + 1, y] for name, ys in demand.items() for t, y in enumerate(ys)]
    return write_csv(folder / "sales.csv", ["series", "step", "demand"], rows)


@pytest.fixture
def result(tmp_path: Path) -> BacktestResult:
    return run_backtest(make_settings(), write_sales(tmp_path))


def test_every_policy_is_charged_by_the_same_book(result: BacktestResult) -> None:
    assert result.series == ("A", "B")
    assert tuple(result.tracks) == POLICIES
    for track in result.tracks.values():
        assert track.cost.shape == (2, 6)
        assert np.array_equal(track.demand, [DEMAND["A"][-6:], DEMAND["B"][-6:]])
        assert np.array_equal(track.revenue, np.zeros((2, 6)))
        # Costs are settings: 1 a piece held, 9 a piece short, 0.5 a piece ordered; nothing else.
        assert np.allclose(track.cost, track.stock + 9.0 * (track.demand - track.served) + 0.5 * track.order)


def test_stock_follows_from_orders_and_sales(result: BacktestResult) -> None:
    for track in result.tracks.values():
        # An order of one period is there in the next, lead time 1.
        came = track.order[:, :-1]
        assert np.allclose(track.stock[:, 1:], track.stock[:, :-1] + came - track.served[:, 1:])
        available = track.stock[:, :-1] + came
        assert np.allclose(track.served[:, 1:], np.minimum(available, track.demand[:, 1:]))


def test_orders_come_from_the_allowed_sizes(result: BacktestResult) -> None:
    for track in result.tracks.values():
        assert set(track.order.ravel().tolist()) <= {0.0, 5.0, 10.0, 15.0}


def test_figures_are_what_they_say() -> None:
    track = Track(
        cost=np.array([[1.0, 2.0], [3.0, 4.0]]), revenue=np.zeros((2, 2)), demand=np.array([[4.0, 4.0], [0.0, 2.0]]),
        served=np.array([[4.0, 1.0], [0.0, 2.0]]), stock=np.array([[6.0, 0.0], [2.0, 4.0]]),
        order=np.array([[0.0, 5.0], [5.0, 10.0]]),
    )  # fmt: skip
    assert track.figures() == {
        "cost": 10.0, "revenue": 0.0, "fill_rate": 0.7, "service_level": 0.75, "average_stock": 6.0, "orders": 3.0,
        "ordered": 20.0,
    }  # fmt: skip
    assert track.of(1).figures()["cost"] == 7.0
    empty = replace(track, demand=np.zeros((2, 2)), served=np.zeros((2, 2)))
    assert math.isnan(empty.figures()["fill_rate"])


def test_no_policy_but_hindsight_sees_the_future(tmp_path: Path, result: BacktestResult) -> None:
    changed = {name: [*ys[:-2], 50.0, 50.0] for name, ys in DEMAND.items()}
    other = run_backtest(make_settings(), write_sales(tmp_path, changed))
    for name in POLICIES[:-1]:
        # The order of the period before last is placed before its demand is seen.
        assert np.array_equal(result.tracks[name].order[:, :-1], other.tracks[name].order[:, :-1])
    assert not np.array_equal(result.tracks["hindsight"].order, other.tracks["hindsight"].order)


def test_hindsight_beats_them_all_here(result: BacktestResult) -> None:
    cost = {name: track.figures()["cost"] for name, track in result.tracks.items()}
    assert cost["hindsight"] == min(cost.values())


def test_known_demand_is_met_exactly(tmp_path: Path) -> None:
    """With constant demand every forecast is right, and the best plan holds nothing and lacks nothing."""
    result = run_backtest(make_settings(), write_sales(tmp_path, {"A": [5.0] * LENGTH}))
    for name in ("policy", "base-stock", "hindsight"):
        track = result.tracks[name]
        assert track.served.tolist() == [[5.0] * 6]
        assert track.order.tolist() == [[5.0] * 6]
        assert track.stock.tolist() == [[0.0] * 6]
    assert result.released == 1.0


def test_the_table_speaks_the_users_language(result: BacktestResult) -> None:
    text = result.text()
    assert text.startswith("2 series over 6 periods of one period; ")
    lines = text.splitlines()
    assert lines[2].split("  ")[0] == ""
    for word in ("cost [EUR]", "vs base-stock", "fill rate", "service level", "stock [pieces]", "orders"):
        assert word in lines[2]
    assert [line.split("  ")[0] for line in lines[3:]] == list(POLICIES)
    total = result.tracks["policy"].cost.sum()
    assert f"{total:,.2f}" in lines[3]


def test_a_price_adds_profit(tmp_path: Path) -> None:
    settings = make_settings(text=TOML.replace("unit_cost = 0.5", "unit_cost = 0.5\nprice = 2.0"))
    result = run_backtest(settings, write_sales(tmp_path))
    track = result.tracks["base-stock"]
    assert np.allclose(track.revenue, 2.0 * track.served)
    assert "profit [EUR]" in result.text()


def test_salvage_is_credited_at_the_end(tmp_path: Path) -> None:
    plain = run_backtest(make_settings(), write_sales(tmp_path))
    settings = make_settings(text=TOML.replace("unit_cost = 0.5", "unit_cost = 0.5\nsalvage = 0.25"))
    track = run_backtest(settings, write_sales(tmp_path)).tracks["base-stock"]
    before = plain.tracks["base-stock"]
    assert np.array_equal(track.order, before.order)  # base-stock does not look at salvage
    credit = (before.cost - track.cost)[:, -1]
    assert np.allclose(credit, 0.25 * (before.stock[:, -1] + before.order[:, -1]))
    assert np.array_equal(track.cost[:, :-1], before.cost[:, :-1])


def test_rows_by_series_and_policy(tmp_path: Path, result: BacktestResult) -> None:
    assert result.write(tmp_path / "r.csv") == 10
    rows = read_csv(tmp_path / "r.csv")
    mine = [row for row in rows if row["policy"] == "policy"]
    assert math.isclose(sum(float(row["cost"]) for row in mine), result.tracks["policy"].figures()["cost"])


def test_the_picture_is_the_same_every_time(tmp_path: Path, result: BacktestResult) -> None:
    for name in ("a.svg", "b.svg"):
        draw_backtest(result, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.svg").read_text().count("<g ") > 50
    with pytest.raises(DataError, match="cannot be drawn"):
        draw_backtest(result, tmp_path / "nowhere" / "a.svg")


def test_a_grid_that_fits_each_series(tmp_path: Path) -> None:
    plain = TOML.replace("order_sizes = [0.0, 5.0, 10.0, 15.0]\n", "")
    settings = parse_settings((plain + "[actions]\nmultiples = [-1.0, 0.0, 1.0, 2.0]\nround_to = 1.0\n").encode())
    result = run_backtest(settings, write_sales(tmp_path))
    for track in result.tracks.values():
        assert np.array_equal(track.order, np.round(track.order))
    costs = {name: track.figures()["cost"] for name, track in result.tracks.items()}
    assert costs["hindsight"] == min(costs.values())


def test_lead_times_by_series(tmp_path: Path) -> None:
    states = write_csv(tmp_path / "s.csv", ["series", "on_hand", "lead_time"], [["A", 0, 0], ["B", 0, 2]])
    result = run_backtest(make_settings(), write_sales(tmp_path), states=states)
    a, b = result.tracks["base-stock"].of(0), result.tracks["base-stock"].of(1)
    assert np.allclose(a.stock[:, 1:], a.stock[:, :-1] + a.order[:, 1:] - a.served[:, 1:])
    assert np.allclose(b.stock[:, 2:], b.stock[:, 1:-1] + b.order[:, :-2] - b.served[:, 2:])


def test_bad_histories_are_named_and_left_out(tmp_path: Path) -> None:
    demand = {
        **DEMAND, "short": [1.0] * 8, "negative": [5.0] * 19 + [-1.0], "stateless": DEMAND["A"],
    }  # fmt: skip
    path = write_sales(tmp_path, demand)
    path.write_text(path.read_text() + "text,1,many\n")
    states = write_csv(
        tmp_path / "s.csv", ["series", "on_hand"], [[name, 0] for name in (*demand, "text") if name != "stateless"]
    )
    result = run_backtest(make_settings(), path, states=states)
    assert result.series == ("A", "B")
    found = {p.series: p.text for p in result.problems}
    assert "saw 8 periods, expected at least" in found["short"]
    assert "saw -1, expected demand of at least 0" in found["negative"]
    assert "saw 'many'" in found["text"]
    assert "not usable in" in found["stateless"]


def test_nothing_to_replay(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="saw 3 periods"):
        run_backtest(make_settings(), write_sales(tmp_path, {"A": [1.0] * 3}))
    with pytest.raises(InputError, match="a column 'demand'"):
        run_backtest(make_settings(), write_csv(tmp_path / "x.csv", ["series", "step"], [["A", 1]]))
    settings = make_settings(text=TOML.replace("unit_cost = 0.5", "stability_cost = 0.5"))
    with pytest.raises(InputError, match="a plan to keep"):
        run_backtest(settings, write_sales(tmp_path))
