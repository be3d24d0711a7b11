"""A backtest with a limit in force: our policy and planners' rules share trucks, tuned on other items."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ucsearch.errors import InputError
from ucsearch.planner.backtest.job import run_backtest
from ucsearch.planner.backtest.replay import Replay, read_histories
from ucsearch.planner.backtest.result import GREEDY
from ucsearch.planner.backtest.rules import earlier_part
from ucsearch.planner.backtest.tune import run_tune
from ucsearch.planner.new.inventory import INVENTORY, write_scaffold
from ucsearch.planner.settings import load_settings

RULES = {
    "(s,S) by item, filled by loss", "(s,S), filled by loss", "newsvendor by the pack", "base-stock, fair share",
    "base-stock, in proportion",
}  # fmt: skip
TRUCKS = '[shared]\ntruck = { column = "litres", per = "truck", limit = { A = 150.0, B = 150.0 } }\n'


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    write_scaffold("inventory", tmp_path)
    rows = list(csv.reader((tmp_path / "states.csv").open()))
    lead = rows[0].index("lead_time")
    with (tmp_path / "states.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*rows[0], "litres", "truck", "store"])
        for i, row in enumerate(rows[1:]):
            row[lead] = "1"
            row[3:6] = ["", "", ""]
            writer.writerow([*row, 1.5 if i % 3 else 4.0, "AB"[i % 2], f"store {i % 4}"])
    text = INVENTORY.replace("depth = 8 ", "depth = 3 ").replace("lots = 8", "lots = 3\npoints = 3")
    text = text.replace("paths = 100", "paths = 8").replace('name = "auto"', 'name = "seasonal_naive"')
    text = text.replace('ignore = ["pattern"]', 'ignore = ["pattern", "litres", "truck", "store"]')
    text = text.replace("periods = 28", "periods = 6").replace("warmup = 7", "warmup = 2\nseason = 7")
    (tmp_path / "ucsearch.toml").write_text(text.replace('pages = "pages"', ""))
    return tmp_path


def limited(shop: Path, table: str = TRUCKS) -> Any:
    with (shop / "ucsearch.toml").open("a") as file:
        file.write(table)
    return load_settings(shop / "ucsearch.toml")


def test_everybody_keeps_the_limit_every_day(shop: Path) -> None:
    settings = limited(shop)
    histories, _ = read_histories(settings, shop / "sales.csv", shop / "states.csv")
    for truck in "AB":
        replay = Replay([h for h in histories if h.place.truck == truck], settings)
        assert set(replay.rules) == RULES
        litres = np.array([h.place.litres for h in replay.group])
        walks = {name: replay.walk_rule(name)[1] for name in RULES}
        walks |= {"policy": replay.walk(replay.policy()), "greedy": replay.walk(replay.policy("greedy"))}
        for name, done in walks.items():
            loads = (done.actions * litres[:, None]).sum(axis=0)
            assert loads.max() <= 150.0 * (1.0 + 1e-9), name
            assert not done.violations.any(), name
        full = (walks["policy"].actions * litres[:, None]).sum(axis=0)
        assert full.max() > 100.0  # the limit is felt


def test_the_table_names_every_practitioner_and_trucks_are_the_unit(shop: Path) -> None:
    settings = limited(shop)
    result = run_backtest(settings, shop / "sales.csv", states=shop / "states.csv", earlier=6)
    assert set(result.tracks) == {"policy", GREEDY, *RULES, *(f"{rule}, tuned" for rule in RULES)}
    assert GREEDY not in result.rules  # no rule of planners: the headline never speaks of it
    assert result.total(GREEDY) != result.total("policy")
    assert result.unit == "truck"
    assert result.against("base-stock, fair share").count == 2
    assert "no interval: 2 trucks, at least 3 are needed" in result.text()
    assert "the best way to share a limit is not known" in result.text()
    assert result.earlier == 6


def test_intervals_by_store(shop: Path) -> None:
    text = (shop / "ucsearch.toml").read_text()
    (shop / "ucsearch.toml").write_text(text.replace("[backtest]", '[backtest]\ncluster = "store"'))
    result = run_backtest(limited(shop), shop / "sales.csv", states=shop / "states.csv", earlier=6)
    assert result.against("base-stock, fair share").count == 4
    assert "95 % interval over 4 stores" in result.text()


def test_each_truck_is_tuned_on_the_others(shop: Path) -> None:
    """The setting of truck A is the best one of the items of truck B, walked one by one."""
    settings = limited(shop)
    result = run_backtest(settings, shop / "sales.csv", states=shop / "states.csv", earlier=6)

    histories, _ = read_histories(settings, shop / "sales.csv", shop / "states.csv")
    before, past = earlier_part(settings, histories, 6)
    other = Replay([h for h in past if h.place.truck == "B"], before)
    name = "base-stock, fair share"
    knobs = list(other.rules[name].settings())
    costs = [float(other.counted_cost(other.walk_rule(name, [k] * len(other.group))[1]).sum()) for k in knobs]
    place = next(i for i, h in enumerate(histories) if h.place.truck == "A")
    chosen = result.knobs[name].of(place)
    assert chosen in knobs
    assert costs[knobs.index(chosen)] == pytest.approx(min(costs), rel=1e-12)


def test_limits_by_date_are_those_of_each_replayed_day(shop: Path) -> None:
    days = [f"2024-0{m}-{d:02d}" for m in (3, 4, 5) for d in range(1, 32)]
    lines = [
        f"{day},{k},{90 if day.endswith('19') else 150}" for day in days for k in "AB" if day[5:] not in ("04-31",)
    ]
    (shop / "room.csv").write_text("date,truck,limit\n" + "\n".join(lines) + "\n")
    settings = limited(shop, '[shared]\ntruck = { column = "litres", per = "truck", dates = "room.csv" }\n')
    histories, _ = read_histories(settings, shop / "sales.csv", shop / "states.csv")
    replay = Replay([h for h in histories if h.place.truck == "A"], settings)
    assert replay.trucks is not None
    assert replay.trucks.limits[:, 0].tolist() == [150.0] * 7 + [90.0]  # the sample ends on 19 May
    (shop / "room.csv").write_text("date,truck,limit\n2024-05-19,A,90\n2024-05-19,B,90\n")
    with pytest.raises(Exception, match="no limit of truck on 2024-05-12"):
        Replay([h for h in histories if h.place.truck == "A"], settings)


def test_what_planners_rules_cannot_fill_is_refused(shop: Path) -> None:
    settings = limited(shop, '[shared]\nlines = { use = "lines", limit = 3 }\n')
    with pytest.raises(InputError, match="one limit of today on units"):
        run_backtest(settings, shop / "sales.csv", states=shop / "states.csv")


@pytest.mark.slow
def test_tune_walks_with_the_limit_in_force(shop: Path) -> None:
    result = run_tune(limited(shop), shop / "sales.csv", states=shop / "states.csv", earlier=6, tries=3)
    assert set(result.report.rules) == RULES | {f"{rule}, tuned" for rule in RULES}
    assert result.drawn == 8
    assert "[shared]" in result.text
