"""Long lead times in closed loop: states are too many, so orders are followed by order cycles, and still proved."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from tests.planner.kit import read_csv, write_csv
from ucsearch.planner import decide_cases, run_decide
from ucsearch.planner.decide.states import Kinds
from ucsearch.planner.new.inventory import INVENTORY
from ucsearch.planner.settings import Settings, parse_settings
from ucsearch.trace import Trace
from ucsearch.verify import verify_log

STEPS = 10


def closed(extra: str = "", **changes: str) -> Settings:
    text = INVENTORY.replace("lots = 8", "lots = 3")
    for old, new in changes.items():
        text = text.replace(old, new)
    return parse_settings((text + '[run]\nengine = "python"\n' + extra).encode())


def test_every_lead_time_is_planned_and_proved(tmp_path: Path) -> None:
    """Lead times 1 and 5 in one file: one is planned in closed loop, the other over members, and both verify."""
    rng = np.random.default_rng(3)
    head = ["series", "step", *(f"member_{j + 1}" for j in range(6))]
    rows = [[n, h + 1, *rng.poisson(2.0, 6)] for n in ("near", "far") for h in range(STEPS)]
    forecasts = write_csv(tmp_path / "f.csv", head, rows)
    states = write_csv(tmp_path / "s.csv", ["series", "on_hand", "lead_time"], [["near", 6, 1], ["far", 6, 5]])
    settings = closed()
    report = run_decide(settings, forecasts, states, tmp_path / "o.csv", tmp_path / "log.db")
    assert report.outcomes == {"RELEASED": 2}
    found = {row["series"]: row for row in read_csv(tmp_path / "o.csv")}
    assert "over 8 steps" in found["near"]["sentence"]
    assert f"over {STEPS} steps" in found["far"]["sentence"]
    assert float(found["far"]["order"]) > 0.0
    assert {v.status for v in verify_log(tmp_path / "log.db")} == {"valid"}


def test_only_closed_loop_on_lots_changes_its_way_to_plan() -> None:
    kinds = Kinds(closed())
    for lead in (0, 2):
        kind = kinds.kind(kinds.config({"lead_time": lead}), {"lead_time": lead})
        assert kind.policy == kinds.settings.policy
        assert not kind.task.continuations
    far = kinds.kind(kinds.config({"lead_time": 3}), {"lead_time": 3})
    assert (far.policy.mode, far.policy.depth) == ("members", 1)
    assert len(far.task.continuations) == 1
    assert len(far.task.actions) == 4 * 3 + 1  # sizes that stand for no states may be many
    members = Kinds(closed(**{'mode = "closed"': 'mode = "members"'}))
    kind = members.kind(members.config({"lead_time": 7}), {"lead_time": 7})
    assert kind.policy == members.settings.policy


def test_forecasts_of_ours_reach_past_a_long_lead_time() -> None:
    settings = closed()
    assert settings.task.steps_wanted(settings.policy, settings.actions) == settings.policy.depth
    longer = dataclasses.replace(settings.task, lead_time=7)
    assert longer.steps_wanted(settings.policy, settings.actions) == 21


@pytest.mark.parametrize("fixed", [0.0, 20.0])
def test_later_orders_follow_a_level_and_a_batch(fixed: float) -> None:
    settings = closed(**{"fixed_cost = 4.00": f"fixed_cost = {fixed}", "lead_time = 2 ": "lead_time = 4 "})
    config = Kinds(settings).config({})
    p = config.params()._replace(levels=(4.0, *(10.0,) * 13), level_spread=2.0, cap_mean=1.0)
    (item,) = config.task().continuations
    order = item.policy  # type: ignore[union-attr]
    batch = (2.0 * fixed * 1.0 / p.holding) ** 0.5
    assert order(config.state(11.0), 1, p, (0.0, 1.0)) == 0.0
    assert order(config.state(5.0), 0, p, (0.0, 1.0)) == 0.0  # every step has a level of its own
    assert order(config.state(10.0), 40, p, (0.0, 1.0)) == pytest.approx(batch)
    assert order(config.state(10.0), 1, p, (0.0, 1.0)) == pytest.approx(batch)
    assert order(config.state(9.0), 1, p, (0.5, 1.5)) == pytest.approx(2.0 + 1.5 * batch)
    assert order(config.state(3.0), 1, p._replace(capacity=8.0), (0.0, 1.0)) == 5.0
    assert order(config.state(0.0), 1, p, (0.0, -1.0)) == 0.0


def test_levels_follow_a_week_that_is_far_from_even() -> None:
    """One level for all days would be too low before a weekend, and the order of today would make up for that."""
    settings = closed(**{"lead_time = 2 ": "lead_time = 3 ", "fixed_cost = 4.00": "fixed_cost = 0.0"})
    config = Kinds(settings).config({})
    week = [1.0, 1.0, 1.0, 1.0, 20.0, 20.0, 1.0] * 3
    trace = Trace.from_members([[x + 0.5 * j for x in week[:17]] for j in range(3)])
    levels = config.forecast_columns(trace, config.params())["levels"][0]
    assert levels.shape == (14,)
    assert levels[0] < 10.0
    assert levels[2] > 40.0
    assert levels[7:9].tolist() == pytest.approx(levels[:2].tolist())


def test_nothing_is_ordered_where_an_order_costs_more_than_all_sales() -> None:
    settings = closed(**{"fixed_cost = 4.00": "fixed_cost = 1e6", "lead_time = 2 ": "lead_time = 4 "})
    row = {"series": "A", "on_hand": 3, "forecast": {"members": [[2, 3, 1, 4, 2, 2, 3, 1], [1, 2, 2, 2, 4, 1, 1, 2]]}}
    (made,) = decide_cases(settings, [row], log=None)
    assert (made["outcome"], made["action"]) == ("RELEASED", 0.0)
