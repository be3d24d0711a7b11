"""The replay of a history: honest bookkeeping, no look-ahead, rivals that know their trade."""

from __future__ import annotations

import dataclasses
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.planner.kit import TOML, make_settings, read_csv, write_csv
from ucsearch.errors import DataError, InputError
from ucsearch.planner.backtest import job, resume
from ucsearch.planner.backtest.job import run_backtest
from ucsearch.planner.backtest.replay import Replay
from ucsearch.planner.backtest.result import BacktestResult, Track
from ucsearch.planner.backtest.resume import Kept
from ucsearch.planner.settings import parse_settings

LENGTH = 20
RULES = (
    "base-stock", "(s,S)", "(s,S) by formula", "(s,nQ)", "newsvendor", "rolling quantile", "planning on the mean",
    "planning on a quantile", "greedy",
)  # fmt: skip
DEMAND = {
    "A": [7.0, 9.0, 4.0, 6.0, 8.0, 5.0, 7.0, 6.0, 9.0, 3.0, 7.0, 8.0, 5.0, 6.0, 7.0, 4.0, 8.0, 6.0, 5.0, 7.0],
    "B": [0.0, 12.0, 0.0, 0.0, 9.0, 0.0, 15.0, 0.0, 0.0, 0.0, 11.0, 0.0, 8.0, 0.0, 0.0, 14.0, 0.0, 0.0, 10.0, 0.0],
}


def write_sales(folder: Path, demand: dict[str, list[float]] = DEMAND) -> Path:
    rows = [[name, t + 1, y] for name, ys in demand.items() for t, y in enumerate(ys)]
    return write_csv(folder / "sales.csv", ["series", "step", "demand"], rows)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> BacktestResult:
    return run_backtest(make_settings(), write_sales(tmp_path_factory.mktemp("sales")))


def test_every_policy_is_charged_by_the_same_book(result: BacktestResult) -> None:
    assert result.series == ("A", "B")
    # Without a fixed cost the formula has nothing to tune.
    tuned = {f"{n}, tuned" for n in RULES if n not in ("planning on the mean", "greedy", "(s,S) by formula")}
    assert set(result.tracks) == {"policy", *RULES, *tuned, "hindsight"}
    for track in result.tracks.values():
        assert track.reward.shape == (2, 6)
        assert np.array_equal(track.parts["demand"], [DEMAND["A"][-6:], DEMAND["B"][-6:]])
        assert np.array_equal(track.parts["revenue"], np.zeros((2, 6)))
        # Costs are settings: 1 a piece held, 9 a piece short, 0.5 a piece ordered; nothing else.
        assert np.allclose(track.parts["holding"], track.parts["stock"])
        assert np.allclose(track.parts["shortage"], 9.0 * (track.parts["demand"] - track.parts["served"]))
        assert np.allclose(track.parts["ordering"], 0.5 * track.parts["order"])
        left = np.zeros((2, 6))  # what is in stock or on order is worth what it cost, less what was there before
        left[:, -1] = 0.5 * (track.parts["stock"][:, -1] + track.parts["order"][:, -1])
        left[:, 0] -= 0.5 * (track.parts["stock"][:, 0] + track.parts["served"][:, 0])
        assert np.allclose(
            -track.reward, track.parts["holding"] + track.parts["shortage"] + track.parts["ordering"] - left
        )


def test_stock_follows_from_orders_and_sales(result: BacktestResult) -> None:
    for track in result.tracks.values():
        # An order of one period is there in the next, lead time 1.
        came = track.parts["order"][:, :-1]
        assert np.allclose(
            track.parts["stock"][:, 1:], track.parts["stock"][:, :-1] + came - track.parts["served"][:, 1:]
        )
        available = track.parts["stock"][:, :-1] + came
        assert np.allclose(track.parts["served"][:, 1:], np.minimum(available, track.parts["demand"][:, 1:]))


def test_orders_come_from_the_allowed_sizes(result: BacktestResult) -> None:
    for track in result.tracks.values():
        assert set(track.parts["order"].ravel().tolist()) <= {0.0, 5.0, 10.0, 15.0}


def test_figures_are_what_they_say() -> None:
    task = make_settings().task
    parts = {
        "demand": np.array([[4.0, 4.0], [0.0, 2.0]]), "served": np.array([[4.0, 1.0], [0.0, 2.0]]),
        "in_full": np.array([[1.0, 0.0], [1.0, 1.0]]), "stock": np.array([[6.0, 0.0], [2.0, 4.0]]),
        "order": np.array([[0.0, 5.0], [5.0, 10.0]]), "orders": np.array([[0.0, 1.0], [1.0, 1.0]]),
        "holding": np.ones((2, 2)), "shortage": np.full((2, 2), 1.5), "ordering": np.zeros((2, 2)),
        "revenue": np.array([[2.0, 0.0], [0.0, 0.0]]),
    }  # fmt: skip
    track = Track(np.array([[1.0, -2.0], [-3.0, -4.0]]), parts)
    assert track.figures(task) == {
        "cost": 10.0, "holding_cost": 4.0, "shortage_cost": 6.0, "ordering_cost": 0.0, "revenue": 2.0,
        "fill_rate": 0.7, "service_level": 0.75, "average_stock": 6.0, "orders": 3.0,
        "ordered": 20.0,
    }  # fmt: skip
    assert track.of(1).figures(task)["cost"] == 7.0
    empty = replace(track, parts={**parts, "demand": np.zeros((2, 2)), "served": np.zeros((2, 2))})
    assert math.isnan(empty.figures(task)["fill_rate"])


def test_no_policy_but_hindsight_sees_the_future(tmp_path: Path, result: BacktestResult) -> None:
    changed = {name: [*ys[:-2], 50.0, 50.0] for name, ys in DEMAND.items()}
    other = run_backtest(make_settings(), write_sales(tmp_path, changed), earlier=0)
    for name in set(other.tracks) - {"hindsight"}:
        # The order of the period before last is placed before its demand is seen.
        assert np.array_equal(result.tracks[name].parts["order"][:, :-1], other.tracks[name].parts["order"][:, :-1])
    assert not np.array_equal(result.tracks["hindsight"].parts["order"], other.tracks["hindsight"].parts["order"])


def test_hindsight_beats_them_all_here(result: BacktestResult) -> None:
    cost = {name: result.figures(name)["cost"] for name in result.tracks}
    assert cost["hindsight"] == min(cost.values())


def test_known_demand_is_met_exactly(tmp_path: Path) -> None:
    """With constant demand every forecast is right, and the best plan holds nothing and lacks nothing."""
    result = run_backtest(make_settings(), write_sales(tmp_path, {"A": [5.0] * LENGTH}), earlier=0)
    for name in ("policy", "base-stock", "hindsight"):
        track = result.tracks[name]
        assert track.parts["served"].tolist() == [[5.0] * 6]
        # Hindsight knows that the last order would come too late.
        assert track.parts["order"].tolist() == [[5.0] * 5 + [0.0 if name == "hindsight" else 5.0]]
        assert track.parts["stock"].tolist() == [[0.0] * 6]
    assert result.released == 1.0


def test_the_table_speaks_the_users_language(result: BacktestResult) -> None:
    text = result.text()
    assert text.startswith("2 series over 6 periods of one period; ")
    lines = text.splitlines()[1:]
    assert lines[2].split("  ")[0] == ""
    for word in (
        "cost [EUR]",
        "holding",
        "shortage",
        "ordering",
        "policy saves",
        "fill rate",
        "service level",
        "average stock [pieces]",
        "orders",
    ):
        assert word in lines[2]
    count = len(result.tracks)
    assert [line.split("  ")[0] for line in lines[3 : 3 + count]] == list(result.tracks)
    total = result.tracks["policy"].net.sum()
    assert f"{total:,.2f}" in lines[3]


def test_a_price_adds_profit(tmp_path: Path) -> None:
    settings = make_settings(text=TOML.replace("unit_cost = 0.5", "unit_cost = 0.5\nprice = 2.0"))
    result = run_backtest(settings, write_sales(tmp_path), earlier=0)
    track = result.tracks["base-stock"]
    assert np.allclose(track.parts["revenue"], 2.0 * track.parts["served"])
    assert "profit [EUR]" in result.text()
    assert "policy earns more: share of the other's profit" in result.text()
    assert "saves" not in result.text()


def test_salvage_is_credited_at_the_end_less_what_was_there_before(tmp_path: Path) -> None:
    nothing = make_settings(text=TOML.replace("unit_cost = 0.5", "unit_cost = 0.5\nsalvage = 0.0"))
    plain = run_backtest(nothing, write_sales(tmp_path), earlier=0)
    settings = make_settings(text=TOML.replace("unit_cost = 0.5", "unit_cost = 0.5\nsalvage = 0.25"))
    track = run_backtest(settings, write_sales(tmp_path), earlier=0).tracks["base-stock"]
    before = plain.tracks["base-stock"]
    assert np.array_equal(track.parts["order"], before.parts["order"])  # base-stock does not look at salvage
    credit = (track.reward - before.reward)[:, -1]
    assert np.allclose(credit, 0.25 * (before.parts["stock"][:, -1] + before.parts["order"][:, -1]))
    held = before.parts["stock"][:, 0] + before.parts["served"][:, 0]  # before the first counted order
    assert (held > 0.0).all()
    assert np.allclose((track.reward - before.reward)[:, 0], -0.25 * held)
    assert np.array_equal(-track.reward[:, 1:-1], -before.reward[:, 1:-1])


def test_rows_by_series_and_policy(tmp_path: Path, result: BacktestResult) -> None:
    assert result.write(tmp_path / "r.csv") == 2 * len(result.tracks)
    rows = read_csv(tmp_path / "r.csv")
    mine = [row for row in rows if row["policy"] == "policy"]
    assert math.isclose(sum(float(row["cost"]) for row in mine), result.figures("policy")["cost"])


def test_a_grid_that_fits_each_series(tmp_path: Path) -> None:
    plain = TOML.replace("order_sizes = [0.0, 5.0, 10.0, 15.0]\n", "")
    settings = parse_settings((plain + "[actions]\nmultiples = [-1.0, 0.0, 1.0, 2.0]\nround_to = 1.0\n").encode())
    result = run_backtest(settings, write_sales(tmp_path), earlier=0)
    for track in result.tracks.values():
        assert np.array_equal(track.parts["order"], np.round(track.parts["order"]))
    costs = {name: result.figures(name)["cost"] for name in result.tracks}
    assert costs["hindsight"] == min(costs.values())


def test_lead_times_by_series(tmp_path: Path) -> None:
    states = write_csv(tmp_path / "s.csv", ["series", "on_hand", "lead_time"], [["A", 0, 0], ["B", 0, 2]])
    result = run_backtest(make_settings(), write_sales(tmp_path), states=states, earlier=0)
    a, b = result.tracks["base-stock"].of(0), result.tracks["base-stock"].of(1)
    assert np.allclose(
        a.parts["stock"][:, 1:], a.parts["stock"][:, :-1] + a.parts["order"][:, 1:] - a.parts["served"][:, 1:]
    )
    assert np.allclose(
        b.parts["stock"][:, 2:], b.parts["stock"][:, 1:-1] + b.parts["order"][:, :-2] - b.parts["served"][:, 2:]
    )


def test_bad_histories_are_named_and_left_out(tmp_path: Path) -> None:
    demand = {
        **DEMAND, "short": [1.0] * 8, "negative": [5.0] * 19 + [-1.0], "stateless": DEMAND["A"],
    }  # fmt: skip
    path = write_sales(tmp_path, demand)
    path.write_text(path.read_text() + "text,1,many\n")
    states = write_csv(
        tmp_path / "s.csv", ["series", "on_hand"], [[name, 0] for name in (*demand, "text") if name != "stateless"]
    )
    result = run_backtest(make_settings(), path, states=states, earlier=0)
    assert result.series == ("A", "B")
    found = {p.series: p.text for p in result.problems}
    assert "saw 8 periods, expected at least" in found["short"]
    assert "saw -1 (period 20), expected demand of at least 0: write returns as 0" in found["negative"]
    assert "saw 'many'" in found["text"]
    assert "not usable in" in found["stateless"]


def test_nothing_to_replay(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="saw 3 periods"):
        run_backtest(make_settings(), write_sales(tmp_path, {"A": [1.0] * 3}), earlier=0)
    with pytest.raises(InputError, match="a column 'demand'"):
        run_backtest(make_settings(), write_csv(tmp_path / "x.csv", ["series", "step"], [["A", 1]]), earlier=0)
    settings = make_settings(text=TOML.replace("unit_cost = 0.5", "stability_cost = 0.5"))
    with pytest.raises(InputError, match="a plan to keep"):
        run_backtest(settings, write_sales(tmp_path), earlier=0)


# -------------------------------------------------------------------- an honest comparison


def made_up(costs: dict[str, list[float]]) -> BacktestResult:
    """A result with given costs by series."""

    def track(values: list[float]) -> Track:
        return Track(-np.array(values)[:, None], {})

    count = len(costs["policy"])
    names = tuple(f"s{i}" for i in range(count))
    return BacktestResult(names, {n: track(v) for n, v in costs.items()}, 1.0, (), make_settings(), {})


def test_a_headline_without_a_clear_difference_says_earns_where_things_are_sold() -> None:
    settings, noise = make_settings(), [0.3 * ((7 * i) % 5 - 2) for i in range(30)]
    earned = {"policy": [10.0 + x for x in noise], "base-stock": [10.0 + noise[-i] for i in range(30)]}
    income = settings.task.words().income
    tracks = {n: Track(np.array(v)[:, None], {income: np.array(v)[:, None]}) for n, v in earned.items()}
    result = BacktestResult(tuple(f"s{i}" for i in range(30)), tracks, 1.0, (), settings, {})
    assert result.headline().startswith("no clear difference from a simple rule: the policy earns +0.0 % more than the")
    assert "costs" not in result.headline()


def test_the_headline_is_about_the_best_rule_with_its_interval() -> None:
    noise = [0.3 * ((7 * i) % 5 - 2) for i in range(30)]
    own = [10.0 + x for x in noise]
    weak, other = [20.0 + i % 3 for i in range(30)], [noise[-i] for i in range(30)]
    ahead = made_up({"policy": own, "base-stock": weak, "(s,S), tuned": [12.0 + x for x in other]})
    assert ahead.hardest() == "(s,S), tuned"
    assert ahead.headline().startswith("the policy saves 60 EUR, 16.7 % of what the strongest rule, (s,S), tuned (")
    level = made_up({"policy": own, "base-stock": weak, "(s,S), tuned": [10.0 + x for x in other]})
    assert level.headline().startswith("no clear difference from a simple rule: the policy saves")
    behind = made_up({"policy": own, "base-stock": weak, "(s,S), tuned": [8.0 + x for x in other]})
    assert behind.headline().startswith(
        "a simple rule is cheaper: the policy costs 60 EUR or 25.0 % more than the strongest"
    )
    assert "95 % interval over 30 series" in ahead.headline()
    few = made_up({"policy": [10.0, 11.0], "base-stock": [20.0, 20.0]})
    assert "no interval: 2 series, at least 3 are needed" in few.headline()
    far = made_up({"policy": [10.0, 10.0, 16000.0], "base-stock": [10.0, 10.0, 900.0]})
    assert "(no interval: 3 series are too few, they differ too much)" in far.headline()
    assert "inf" not in far.against("base-stock").text()


def test_every_rule_has_an_interval_and_evidence_is_plain(result: BacktestResult) -> None:
    three = made_up({"policy": [1.0, 2.0, 3.0], "base-stock": [2.0, 3.0, 5.0]})
    found = three.against("base-stock")
    assert found.share == pytest.approx(0.4)
    assert found.low < found.share < found.high
    assert found.delta is not None
    assert set(result.evidence()["policy_saves"]) == set(result.tracks) - {"policy"}
    json.dumps(result.evidence(), allow_nan=False)


def test_rules_are_tuned_on_earlier_periods_only(tmp_path: Path, result: BacktestResult) -> None:
    assert result.earlier == 6
    assert min(one.tries for one in result.knobs.values()) >= 7
    assert result.knobs["(s,S)"].tries >= 8
    assert "tuned on the 6 periods before:" in result.text()
    assert set(result.spent) == {*RULES, *(f"{name}, tuned" for name in result.knobs)}
    changed = {name: [*ys[:-6], *(9.0 * y for y in ys[-6:])] for name, ys in DEMAND.items()}
    other = run_backtest(make_settings(), write_sales(tmp_path, changed))
    assert other.knobs == result.knobs  # the counted periods have no say
    early = {name: [*ys[:-12], *(5.0 + (t % 2) for t in range(6)), *ys[-6:]] for name, ys in DEMAND.items()}
    assert run_backtest(make_settings(), write_sales(tmp_path, early)).knobs != result.knobs


def test_the_strongest_rule_is_chosen_before_the_counted_periods() -> None:
    made = made_up({"policy": [10.0] * 30, "base-stock": [9.0 + 0.1 * (i % 3) for i in range(30)], "(s,S), tuned":
                    [11.0 + 0.1 * (i % 3) for i in range(30)]})  # fmt: skip
    assert made.hardest() == "base-stock"
    before = dataclasses.replace(made, spent={"base-stock": 7.0, "(s,S), tuned": 6.0})
    assert before.hardest() == "(s,S), tuned"
    assert "(chosen on the periods before)" in before.headline()


@pytest.mark.parametrize(
    ("task", "rule"), [("fixed_cost = 40.0", "(s,S)"), ("case_pack = 2.0", "(s,nQ)")], ids=["fixed cost", "packs"]
)
def test_rules_with_order_quantities_are_really_tuned(tmp_path: Path, task: str, rule: str) -> None:
    """With a fixed cost the share of the EOQ is tried, with packs their number in a batch."""
    settings = make_settings(text=TOML.replace("unit_cost = 0.5", task))
    result = run_backtest(settings, write_sales(tmp_path))
    knob = {"(s,S)": "eoq", "(s,nQ)": "packs"}[rule]
    chosen = result.knobs[rule]
    assert chosen.tries >= 40
    assert all(knob in setting for setting in chosen.settings)
    tuned, plain = result.spent[f"{rule}, tuned"], result.spent[rule]
    assert math.isfinite(tuned)
    assert math.isfinite(plain)
    assert {s[knob] for s in chosen.settings} != {1} or {s["ratio"] for s in chosen.settings} != {None}


def test_histories_too_short_to_tune_on_are_told(tmp_path: Path) -> None:
    result = run_backtest(make_settings(), write_sales(tmp_path), earlier=100)
    assert not any(name.endswith(", tuned") for name in result.tracks)
    assert "2 of 2 series have no 100 periods more to tune on: no rule is tuned" in result.text()


def test_hindsight_is_a_floor_for_everybody(result: BacktestResult) -> None:
    best = result.tracks["hindsight"].net
    for name, track in result.tracks.items():
        assert (track.net >= best - 1e-9).all(), name


def test_hindsight_that_is_not_exact_is_not_shown(tmp_path: Path) -> None:
    settings = make_settings(text=TOML.replace("unit_cost = 0.5", "spoilage = 0.5"))
    result = run_backtest(settings, write_sales(tmp_path), earlier=0)
    assert "hindsight" not in result.tracks
    assert "no hindsight: no exact programme for 2 of 2 series: spoilage" in result.text()


def test_a_stopped_run_goes_on_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, sales = make_settings(), write_sales(tmp_path)
    monkeypatch.setattr(resume, "_AT_ONCE", 1)
    walked: list[str] = []

    final = job._final

    def counted(parts: Any, replay: Replay, *args: Any) -> Any:
        walked.append(replay.group[0].series)
        if len(walked) == 2:
            raise KeyboardInterrupt
        return final(parts, replay, *args)

    monkeypatch.setattr(job, "_final", counted)
    with pytest.raises(KeyboardInterrupt):
        run_backtest(settings, sales, earlier=0, keep=tmp_path)
    assert list(tmp_path.glob(".ucsearch-backtest-*/*.npz"))
    told: list[tuple[int, int]] = []
    again = run_backtest(settings, sales, earlier=0, keep=tmp_path, progress=lambda *x: told.append(x))
    assert walked == ["A", "B", "B"]
    assert told[-1][0] == told[-1][1]
    assert not list(tmp_path.glob(".ucsearch-backtest-*"))  # nothing is left behind
    whole = run_backtest(settings, sales, earlier=0)
    for name, track in whole.tracks.items():
        assert np.array_equal(-track.reward, -again.tracks[name].reward)


def test_a_kept_part_that_is_broken_is_made_again(tmp_path: Path) -> None:
    kept = Kept(tmp_path, "job", {"a": 1})
    kept.part("x", lambda: {"v": np.ones(2)})
    assert kept.folder is not None
    assert Kept(tmp_path, "job", {"a": 1}).part("x", dict)["v"].tolist() == [1.0, 1.0]
    assert Kept(tmp_path, "job", {"a": 2}).part("x", lambda: {"v": np.zeros(1)})["v"].tolist() == [0.0]
    (kept.folder / "x.npz").write_bytes(b"PK\x03\x04 torn")
    assert kept.part("x", lambda: {"v": np.full(1, 3.0)})["v"].tolist() == [3.0]
