"""Fallbacks that look: feasible in random states, equal to base-stock, shown with their cost, and never too many."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.planner.kit import STATE_HEAD, TOML, decide, make_settings, read_csv, write_csv, write_job
from ucsearch import Exact, search
from ucsearch.cli.main import app
from ucsearch.planner.backtest.job import run_backtest
from ucsearch.planner.decide.rows import fallback_advice
from ucsearch.planner.decide.sizes import panel_inputs
from ucsearch.planner.decide.states import Case, Kind
from ucsearch.planner.settings import parse_settings
from ucsearch.replay.classics.adaptive import forecast_level
from ucsearch.tasks import CapacityPlan, DelayedExposure, LeadTimeInventory
from ucsearch.tasks.inventory import rules
from ucsearch.trace import Trace
from ucsearch.verify import verify_file


def check_fallback(config: Any, state: Any, params: Any, nearest: Any) -> None:
    """Feasible whenever anything is, one of the actions, and no feasible action is nearer to what is wanted."""
    task = config.task()
    allowed = [a for a in params.grid if task.feasible(state, a, params)]
    chosen = task.fallback(state, params)
    if allowed:
        assert chosen in allowed
        assert nearest(chosen) == pytest.approx(min(map(nearest, allowed)))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_inventory_orders_up_to_the_level_of_the_forecast(data: st.DataObject) -> None:
    draw = data.draw
    lead = draw(st.integers(0, 3))
    config = LeadTimeInventory(
        lead_time=lead, order_sizes=tuple(float(x) for x in range(0, 40, draw(st.integers(1, 7)))),
        orders=draw(st.sampled_from(["quantity", "level"])), unmet=draw(st.sampled_from(["lost", "backordered"])),
        capacity=draw(st.sampled_from([None, 30.0])), ramp=draw(st.sampled_from([None, 6.0])),
        largest_order=draw(st.sampled_from([None, 17.0])), minimum_order=draw(st.sampled_from([0.0, 4.0])),
        case_pack=draw(st.sampled_from([0.0, 6.0])), holding=1.0, shortage=draw(st.sampled_from([3.0, 19.0])),
        fallback_rule="level",
    )  # fmt: skip
    members = np.array(
        draw(st.lists(st.lists(st.floats(0, 20), min_size=lead + 1, max_size=lead + 1), min_size=3, max_size=9))
    )
    trace = Trace.from_members(members[None])
    params = config.params()
    level = float(config.forecast_columns(trace, params)["fallback_order"][0])
    assert level == pytest.approx(forecast_level(members, params.shortage / (params.shortage + 1.0)))
    params = params._replace(fallback_order=level)
    stock = float(draw(st.integers(0, 25)))
    orders = draw(st.lists(st.integers(0, 9).map(float), max_size=lead))
    state = config.state(stock, orders, last=float(draw(st.integers(0, 20))))
    wanted = max(level - rules.position_of(state), 0.0)
    check_fallback(config, state, params, lambda a: abs(rules.ordered(state, a, params) - wanted))
    unknown = config.params()  # no forecast: the previous order, as ever
    last = dataclasses.replace(config, fallback_rule="last")
    assert config.task().fallback(state, unknown) == last.task().fallback(state, last.params())


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_capacity_keeps_what_is_needed(data: st.DataObject) -> None:
    draw = data.draw
    delay = draw(st.integers(0, 3))
    config = CapacityPlan(
        startup_delay=delay, minimum_up_time=draw(st.integers(1, 3)), largest=12, smallest=draw(st.integers(0, 2)),
        ramp=draw(st.sampled_from([None, 1.0])), unit_output=2.0, fallback_rule="need",
    )  # fmt: skip
    members = np.array(draw(st.lists(st.lists(st.floats(0, 30), min_size=4, max_size=4), min_size=3, max_size=9)))
    params = config.params()
    need = float(config.forecast_columns(Trace.from_members(members[None]), params)["need"][0])
    enough = (members[:, delay] <= 2.0 * need + 1e-6).mean()
    assert enough >= 10.0 / 11.0 - 1e-9 or need == 12.0
    params = params._replace(need=need)
    state = config.state(draw(st.integers(0, 12)))
    check_fallback(config, state, params, lambda a: abs(need - state.online - a))


@settings(max_examples=40, deadline=None)
@given(st.floats(-3, 3), st.floats(-1, 1), st.sampled_from([None, 0.5, 1.0]))
def test_exposure_goes_flat(position: float, pending: float, ramp: float | None) -> None:
    config = DelayedExposure(
        delay=2, capacity=5.0, ramp=ramp, changes=(-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0), fallback_rule="flat"
    )
    state = config.state(position, [pending])
    check_fallback(config, state, config.params(), lambda a: abs(position + pending + a))


def test_other_rules_are_refused() -> None:
    for kind in (LeadTimeInventory, CapacityPlan, DelayedExposure):
        with pytest.raises(ValueError, match="fallback_rule"):
            kind(fallback_rule="hope")  # type: ignore[arg-type]


def test_the_level_uses_weights_and_short_forecasts() -> None:
    config = LeadTimeInventory(lead_time=2, shortage=1.0, holding=1.0, fallback_rule="level")
    trace = Trace.from_members([[[1.0, 2.0], [10.0, 20.0]]], [[0.4, 0.6]])
    found = config.forecast_columns(trace, config.params())["fallback_order"]
    assert found.tolist() == [10.0 + 20.0 + 20.0]  # the last known period goes on
    given_level = config.params()._replace(fallback_order=7.0)
    assert config.forecast_columns(trace, given_level)["fallback_order"].tolist() == [7.0]


# -------------------------------------------------------------------- jobs

NEVER = "[proof]\nnode_budget = 1\n"


def test_a_run_that_only_falls_back_costs_what_base_stock_costs(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = [[n, t + 1, float(rng.poisson(6.0))] for n in "ABC" for t in range(60)]
    write_csv(tmp_path / "sales.csv", ["series", "step", "demand"], rows)
    text = TOML.replace('name = "exact"\n', 'name = "uc_beam"\nwidth = 2\ntop_k = 2\n')
    result = run_backtest(parse_settings((text + NEVER).encode()), tmp_path / "sales.csv")
    assert result.released < 0.2
    assert result.falls_back_too_often
    assert sum(result.reasons.values()) > 0
    cost = {name: result.figures(name)["cost"] for name in result.tracks}
    assert cost["policy"] <= 1.02 * cost["base-stock"]


def test_falling_back_is_shown_with_its_cost_and_advice(tmp_path: Path) -> None:
    write_job(tmp_path)
    (tmp_path / "job.toml").write_text(TOML + NEVER)
    done = CliRunner().invoke(app, ["decide", "-c", str(tmp_path / "job.toml")])
    assert done.exit_code == 1, done.output
    assert "falling back is expected to cost" in done.output
    assert "fell back, more than 20 % ([run] max_fallback_share)" in done.output
    assert "node_budget, now 1" in done.output
    rows = read_csv(tmp_path / "decisions.csv")
    fell = [row for row in rows if row["outcome"] == "FALLBACK"]
    assert fell
    assert [v.status for v in verify_file(tmp_path / "decisions.db")] == ["valid"] * 5
    assert not decide(tmp_path, out="good.csv").falls_back_too_often


def test_every_reason_has_advice() -> None:
    from ucsearch.decision.decision import Reason

    lines = fallback_advice({r.value: 1 for r in Reason}, make_settings())
    assert len(lines) == len(Reason) - 1
    assert sum("see docs" in line for line in lines) <= 3  # what is new may lack its own words for a while


def test_packs_are_named_by_what_they_order(tmp_path: Path) -> None:
    write_job(tmp_path)
    write_csv(tmp_path / "states.csv", [*STATE_HEAD, "case_pack"], [[n, 3.0, 5.0, 200.0] for n in "ABCDE"])
    text = TOML.replace("order_sizes = [0.0, 5.0, 10.0, 15.0]\n", "") + "[actions]\nmultiples = [-1.0, 0.0, 1.0]\n"
    for options, name in ((TOML, "fixed.csv"), (text, "scaled.csv")):
        decide(tmp_path, parse_settings(options.encode()), out=name)
        for row in read_csv(tmp_path / name):
            assert row["action"] == row["order"]
            assert row["order"] in ("0", "200")
            assert f"order {row['order']} " in row["sentence"]
    assert [v.status for v in verify_file(tmp_path / "log.db")] == ["valid"] * 10


def test_orders_in_packs_are_what_the_rules_order() -> None:
    config = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 3.0, 7.0, 13.0, 14.0), case_pack=6.0, minimum_order=8.0)
    state = config.state(2.0)
    case = Case(Kind(0, config, config.task(), "", Exact(depth=1)), state, config.params(), config)
    _, params, actions = panel_inputs([case], Trace.from_members([[[5.0, 5.0]]]), make_settings())
    assert actions is not None
    expected = [rules.ordered(state, a, config.params()) for a in config.order_sizes]
    assert params.grid[0].tolist() == expected
    assert actions[0, ~np.isnan(actions[0])].tolist() == sorted(set(expected))


def test_sizes_cover_periods_and_the_economic_batch(tmp_path: Path) -> None:
    text = TOML.replace("order_sizes = [0.0, 5.0, 10.0, 15.0]\n", "fixed_cost = 40.0\n")
    sizes = "[actions]\nmultiples = [0.0]\nperiods = [2, 4]\nbatch = true\n"
    found = parse_settings((text + sizes).encode())
    assert len(found.task.order_sizes) == 5
    config = found.task
    case = Case(Kind(0, config, config.task(), "", Exact(depth=1)), config.state(2.0), config.params(), config)
    _, params, actions = panel_inputs([case], Trace.from_members([[[5.0, 6.0, 7.0], [5.0, 6.0, 7.0]]]), found)
    assert actions is not None
    batch = np.sqrt(2.0 * 40.0 * 6.0 / 1.0)
    assert np.allclose(params.grid[0], sorted([0.0, 6.0, 6.0 + 7.0, 6.0 + 7.0 + 2 * 6.0, batch]))
    level = parse_settings((text.replace("lead_time = 1", 'lead_time = 1\norders = "level"') + sizes).encode())
    case = Case(
        Kind(0, level.task, level.task.task(), "", Exact(depth=1)),
        level.task.state(2.0),
        level.task.params(),
        level.task,
    )
    _, params, _ = panel_inputs([case], Trace.from_members([[[5.0, 6.0, 7.0], [5.0, 6.0, 7.0]]]), level)
    assert params.grid[0].max() == pytest.approx(5.0 + 6.0 + 7.0 + 2 * 6.0)
    for wrong in ("periods = [4, 2]\nmultiples = [0.0]\n", "periods = [2]\n", "periods = [0]\nmultiples = [0.0]\n"):
        with pytest.raises(ValueError, match=r"actions\.periods"):
            parse_settings((text + "[actions]\n" + wrong).encode())


def test_the_edge_of_what_was_offered_is_told(tmp_path: Path) -> None:
    write_job(tmp_path)
    write_csv(tmp_path / "states.csv", STATE_HEAD, [[n, 0.0, 0.0] for n in "ABCDE"])
    decide(tmp_path, parse_settings(TOML.replace("[0.0, 5.0, 10.0, 15.0]", "[0.0, 2.0]").encode()))
    rows = read_csv(tmp_path / "out.csv")
    assert {row["note"] for row in rows if row["action"] == "2"} == {
        "the largest size offered: larger ones were not tried"
    }
    text = TOML.replace("lead_time = 1\n", 'lead_time = 1\norders = "level"\n').replace("15.0]", "15.0, 40.0, 80.0]")
    decide(tmp_path, parse_settings(text.encode()), out="levels.csv")
    rows = [row for row in read_csv(tmp_path / "levels.csv") if row["order"] != row["action"]]
    assert all(row["note"] == f"orders {float(row['order']):g} pieces" for row in rows)
    write_csv(tmp_path / "states.csv", STATE_HEAD, [[n, 3.0, 5.0] for n in "ABCDE"])
    decide(tmp_path, parse_settings(text.encode()), out="more.csv")
    rows = [row for row in read_csv(tmp_path / "more.csv") if row["order"] not in ("0", row["action"])]
    assert rows
    assert all(row["note"].startswith(f"orders {float(row['order']):g} pieces") for row in rows)


def test_an_order_that_outlasts_the_plan_is_told(tmp_path: Path) -> None:
    write_job(tmp_path)
    write_csv(tmp_path / "states.csv", STATE_HEAD, [[n, 0.0, 0.0] for n in "ABCDE"])
    text = TOML.replace("unit_cost = 0.5", "fixed_cost = 40.0").replace("holding = 1.0", "holding = 0.01")
    text = text.replace("[0.0, 5.0, 10.0, 15.0]", "[0.0, 90.0, 100.0]")
    report = decide(tmp_path, parse_settings(text.encode()))
    rows = read_csv(tmp_path / "out.csv")
    lasting = [row for row in rows if row["action"] == "90"]
    assert lasting
    assert all("lasts past the 3 periods planned" in row["note"] for row in lasting)
    assert report.advice[0].startswith(f"{len(lasting)} orders last past the 3 periods planned; a larger [policy]")


def test_a_segment_s_rows_tell_it_too_whichever_row_comes_first(tmp_path: Path) -> None:
    write_job(tmp_path)
    states = [["A", 500.0, 0.0], *([n, 0.0, 0.0] for n in "BCDE")]  # nothing to order for the first
    write_csv(tmp_path / "states.csv", STATE_HEAD, states)
    text = TOML.replace("unit_cost = 0.5", "fixed_cost = 40.0").replace("holding = 1.0", "holding = 0.01")
    text = text.replace("[0.0, 5.0, 10.0, 15.0]", "[0.0, 90.0, 100.0]").replace("chunk = 2", "chunk = 5")
    decide(tmp_path, parse_settings(text.encode()))
    decide(tmp_path, parse_settings(f"{text}segment_from = 1\n".encode()), out="quick.csv", log_name="quick.db")
    slow, quick = (read_csv(tmp_path / name) for name in ("out.csv", "quick.csv"))
    assert [row["note"] for row in quick] == [row["note"] for row in slow]
    assert slow[0]["note"] == "" != slow[1]["note"]


def test_stock_at_the_end_is_worth_what_it_saves() -> None:
    """Without a value of what is left, nobody would buy for the periods just past the plan."""
    from_file = parse_settings(TOML.encode()).task
    assert from_file.params().salvage == 0.5
    assert from_file.task().terminal is not None
    assert (
        parse_settings(TOML.replace("unit_cost = 0.5", "unit_cost = 0.5\nsalvage = 0.25").encode())
        .task.params()
        .salvage
        == 0.25
    )
    assert (
        parse_settings(TOML.replace("unit_cost = 0.5", "unit_cost = 0.5\nsalvage = 0").encode()).task.params().salvage
        == 0.0
    )
    # Units of 4 and no holding: with the value, buying early costs nothing, and shortage decides alone.
    free = TOML.replace("unit_cost = 0.5", "unit_cost = 8.5").replace("holding = 1.0", "holding = 0.0")
    config, old = (
        parse_settings(free.encode()).task,
        parse_settings((free.replace("shortage", "salvage = 0.0\nshortage")).encode()).task,
    )
    trace = Trace.from_members([[4.0, 4.0, 4.0], [4.0, 4.0, 8.0]])
    found = [
        search(c.task(), c.state(4.0, [4.0]), trace, Exact(depth=3, mode="members"), engine="python").path
        for c in (config, old)
    ]
    assert sum(found[0]) > sum(found[1])
