"""Tuning a rule: wide grids, widened at their edges, for all items together or for each, whichever pays off later."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ucsearch.replay.tune import ROUNDS, Grid, choose, pooled_best


def costs_of(settings: list[dict[str, Any]], best: list[dict[str, float]]) -> np.ndarray:
    """(tries, items, 2) how far each setting lies from an item's own best, the same in both halves."""
    each = [[sum(abs(np.log(s[k] / item[k])) for k in item) for item in best] for s in settings]
    return np.repeat(np.array(each)[:, :, None], 2, axis=2)


def tune(grid: Grid, best: list[dict[str, float]]) -> tuple[list[dict[str, Any]], np.ndarray, Grid]:
    tried = grid.settings()
    for _ in range(ROUNDS):
        wider = grid.widened(pooled_best(tried, costs_of(tried, best)))
        if wider == grid:
            break
        tried, grid = tried + [s for s in wider.settings() if s not in tried], wider
    return tried, costs_of(tried, best), grid


def test_the_best_of_the_grid_is_found() -> None:
    grid = Grid({"eoq": (1.0, 0.4, 1.5, 2.2), "batch": (1.0, 0.5, 2.0)})
    tried, costs, wider = tune(grid, [{"eoq": 1.5, "batch": 1.0}])
    assert wider == grid, "nothing lies at an edge"
    assert choose(tried, costs).settings == ({"eoq": 1.5, "batch": 1.0},)
    assert choose(tried, costs).tries == 12


@pytest.mark.parametrize(("best", "more"), [(4.0, True), (0.1, True), (1.0, False)])
def test_a_grid_is_widened_where_the_best_lies_at_its_edge(best: float, more: bool) -> None:
    grid = Grid({"eoq": (1.0, 0.4, 0.65, 1.5, 2.2)})
    tried, costs, wider = tune(grid, [{"eoq": best}])
    assert (wider != grid) is more
    found = choose(tried, costs).settings[0]["eoq"]
    assert abs(np.log(found / best)) < 0.3


def test_fractiles_are_widened_by_their_odds_and_stay_fractiles() -> None:
    grid = Grid({"ratio": (None, 0.5, 0.9)})
    assert grid.widened({"ratio": None}) == grid
    up = grid.widened({"ratio": 0.9}).values["ratio"]
    assert up[3:] == (0.9474, 0.973)
    for _ in range(20):
        grid = grid.widened({"ratio": max(v for v in grid.values["ratio"] if v is not None)})
    assert max(v for v in grid.values["ratio"] if v is not None) == 0.999
    packs = Grid({"packs": (1, 2, 6)}).widened({"packs": 6})
    assert packs.values["packs"] == (1, 2, 6, 12, 24)
    assert Grid({"packs": (1, 2, 6)}).widened({"packs": 1}).values["packs"] == (1, 2, 6), "there is no half pack"


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_nothing_lies_beyond_a_whole_share(end: float) -> None:
    grid = Grid({"share": (0.8, 0.0, 1.0)})
    assert grid.widened({"share": end}) == grid


def test_items_that_differ_for_good_get_settings_of_their_own() -> None:
    settings = Grid({"eoq": (1.0, 0.4, 2.2)}).settings()
    chosen = choose(settings, costs_of(settings, [{"eoq": 0.4}, {"eoq": 2.2}, {"eoq": 1.0}]))
    assert not chosen.is_pooled
    assert [chosen.of(i)["eoq"] for i in range(3)] == [0.4, 2.2, 1.0]
    assert chosen.text() == "by item: 1 EOQ (0.4 to 2.2)"


def test_items_that_differ_by_chance_get_one_setting() -> None:
    """What is best for an item in one half is not in the other: settings by item would be fitted to noise."""
    rng = np.random.default_rng(4)
    settings = Grid({"eoq": (1.0, 0.4, 0.65, 1.5, 2.2)}).settings()
    costs = rng.normal(10.0, 3.0, (5, 40, 2))
    costs[3] -= 2.5
    chosen = choose(settings, costs)
    assert chosen.settings == ({"eoq": 1.5},)
    by_hand = sum(costs[int(np.argmin(costs[:, :, h].sum(axis=1))), :, 1 - h].sum() for h in (0, 1))
    assert chosen.cost == pytest.approx(by_hand, rel=1e-12)


def test_what_cannot_be_added_up_is_never_chosen() -> None:
    settings = Grid({"eoq": (1.0, 2.0)}).settings()
    costs = np.array([[[np.nan, 1.0]], [[5.0, 5.0]]])
    assert choose(settings, costs).settings == ({"eoq": 2.0},)
