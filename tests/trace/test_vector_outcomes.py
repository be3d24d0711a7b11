"""Outcomes of several fields: every constructor, the adapters and `compare` keep who belongs to whom."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.adapters import from_wide, join_trace_sets
from ucsearch.errors import InputError
from ucsearch.forecast.base import forecast_paths, pair_paths
from ucsearch.forecast.ridge import RidgePaths
from ucsearch.forecast.streams import series_stream
from ucsearch.trace import join_traces

RNG = np.random.default_rng(8)
MEAN, STD = RNG.normal(30.0, 5.0, (4, 2)), RNG.uniform(1.0, 3.0, (4, 2))


class Hour(NamedTuple):
    price: float
    load: float


class Store(NamedTuple):
    level: float


def feasible(s: Any, a: float, p: Any) -> bool:
    return bool(0.0 <= s.level + a <= 4.0)


def step(s: Any, a: float, y: Hour, p: Any) -> Store:
    return Store(s.level + a)


def reward(s: Any, a: float, y: Hour, p: Any) -> float:
    return float(-y.price * max(0.0, y.load + a))


def fallback(s: Any, p: Any) -> float:
    return 0.0


METERED = uc.Task(
    name="metered", state=Store, actions=(-1.0, 0.0, 1.0), outcome=Hour, feasible=feasible, step=step, reward=reward,
    fallback=fallback,
)  # fmt: skip


@pytest.mark.parametrize("panel", [False, True])
def test_means_are_as_two_traces_joined(panel: bool) -> None:
    mean, std = (np.stack([x, x + 1.0]) if panel else x for x in (MEAN, STD))
    made = uc.Trace.from_mean(mean, std, fields=2)
    joined = join_traces(*(uc.Trace.from_mean(mean[..., f], std[..., f]) for f in range(2)))
    assert made.members.tobytes() == joined.members.tobytes()
    assert made.members.shape == (1 + panel, 9, 4, 2)
    assert made.coupling == joined.coupling == "comonotone"
    assert uc.Trace.from_mean(MEAN[:, 0], STD[:, 0]).hash == uc.Trace.from_mean(MEAN[:, :1], STD[:, :1], fields=1).hash


def test_draws_are_independent_across_fields_and_the_same_as_ever_without() -> None:
    many = uc.Trace.from_mean(np.zeros((3, 2)), np.ones((3, 2)), fields=2, points=4000, method="sampled", rng=fresh())
    assert many.coupling == "independent"
    assert abs(np.corrcoef(many.members[0, :, 0, 0], many.members[0, :, 0, 1])[0, 1]) < 0.05
    alone = uc.Trace.from_mean(np.zeros(6), np.ones(6), points=4000, method="sampled", rng=fresh())
    assert sorted(alone.members[0, :, 1, 0].tolist()) == sorted(many.members[0, :, 0, 1].tolist())


def fresh() -> np.random.Generator:
    return np.random.default_rng(1)


@pytest.mark.parametrize("panel", [False, True])
def test_quantiles_are_as_two_traces_joined(panel: bool) -> None:
    table = np.sort(RNG.normal(0.0, 1.0, (3, 5, 2)), axis=1)  # (H, Q, F)
    table = np.stack([table, table + 1.0]) if panel else table
    levels = [0.1, 0.3, 0.5, 0.7, 0.9]
    made = uc.Trace.from_quantiles(levels, table, fields=2)
    joined = join_traces(*(uc.Trace.from_quantiles(levels, table[..., f]) for f in range(2)))
    assert made.members.tobytes() == joined.members.tobytes()
    table[..., 1, 3, 1] = 9.0
    with pytest.raises(InputError, match=r"at least 9\.0") as caught:
        uc.Trace.from_quantiles(levels, table, fields=2)
    assert f"[{'0, ' if panel else ''}1, 4, 1]" in str(caught.value)
    mended = uc.Trace.from_quantiles(levels, table, fields=2, crossing="sort")
    assert any("crossed" in note for note in mended.notes)


def test_distributions_of_vectors() -> None:
    values, shares = np.array([[1.0, 9.0], [2.0, 8.0], [3.0, 7.0]]), [0.2, 0.5, 0.3]
    exact = uc.Trace.from_distribution(pmf=(values, shares), horizon=2, fields=2)
    assert exact.members[0, :, 1].tolist() == values.tolist()
    assert exact.weights[0].tolist() == pytest.approx(shares)
    drawn = uc.Trace.from_distribution(pmf=(values, shares), horizon=2, fields=2, points=500, method="sampled",
                                       rng=fresh())  # fmt: skip
    assert (drawn.members.sum(axis=3) == 10.0).all()  # vectors stay whole
    assert np.mean(drawn.members[0, :, 0, 0] == 2.0) == pytest.approx(0.5, abs=0.06)
    by_call = uc.Trace.from_distribution(lambda p, h, f: p + 10.0 * h + 100.0 * f, horizon=3, fields=2, points=4)
    assert by_call.members[0, 0, 2].tolist() == pytest.approx([20.125, 120.125])


@pytest.mark.parametrize("make", [
    lambda: uc.Trace.from_mean(MEAN, STD, fields=3), lambda: uc.Trace.from_mean(MEAN[:, 0], STD[:, 0], fields=2),
    lambda: uc.Trace.from_quantiles([0.5], np.ones((2, 1, 3)), fields=2),
    lambda: uc.Trace.from_quantiles([0.5], np.ones((2, 1)), fields=2),
    lambda: uc.Trace.from_distribution(pmf=([1.0, 2.0], [0.5, 0.5]), horizon=2, fields=2),
    lambda: uc.Trace.from_distribution(pmf=([[1.0], [2.0]], [0.5, 0.5]), horizon=2),
])  # fmt: skip
def test_other_shapes_are_refused(make: Any) -> None:
    with pytest.raises(InputError, match="shape"):
        make()


def test_adapters_join_window_by_window() -> None:
    price = {"A": RNG.normal(30.0, 5.0, (6, 3)), "B": RNG.normal(40.0, 5.0, (6, 3))}
    load = {name: 100.0 - 2.0 * x for name, x in reversed(price.items())}
    both = join_trace_sets(from_wide(price, model="p"), from_wide(load, model="l"))
    assert both.ids == ("A", "B")
    for name in price:
        trace = both[name]
        assert trace.members.shape == (1, 6, 3, 2)
        assert trace.members[..., 1] == pytest.approx(100.0 - 2.0 * trace.members[..., 0])
    ragged = join_trace_sets(*(from_wide({"A": x["A"], "B": x["B"][:, :2]}, ragged=True) for x in (price, load)))
    assert ragged["B"].members[..., 1] == pytest.approx(100.0 - 2.0 * ragged["B"].members[..., 0])
    with pytest.raises(InputError, match="windows of the first"):
        join_trace_sets(from_wide(price), from_wide({"A": load["A"]}))
    found = uc.decide(METERED, Store(1.0), both["A"], uc.Exact(depth=3), gate=uc.Gate(), run=uc.Run(engine="python"))
    assert found.outcome in (uc.Outcome.RELEASED, uc.Outcome.FALLBACK)


def test_fields_are_forecast_together() -> None:
    rng = np.random.default_rng(8)
    price = 30.0 + 8.0 * np.sin(np.arange(60) / 3.0) + rng.normal(0.0, 2.0, 60)
    y, marks = np.column_stack([price, 100.0 - 2.0 * price]), np.arange(56, 59)
    paths = forecast_paths(RidgePaths(paths=30), y, marks, 3, 1, series_stream(1, "A"))
    assert paths.shape == (3, 30, 3, 2)
    for one in paths:  # opposite in the past, and so ahead
        ahead, load = one.mean(axis=1).T
        assert np.argsort(ahead).tolist() == np.argsort(-load).tolist()


def test_paths_are_put_together_as_the_past_has_it() -> None:
    moves = RNG.normal(0.0, 1.0, (300, 1))
    past = np.cumsum(np.hstack([moves, moves, RNG.normal(0.0, 1.0, (300, 1))]), axis=0)
    paths = RNG.normal(0.0, 1.0, (200, 4, 3))
    paired = pair_paths(paths, past)
    for f in range(3):  # the same paths, in another order
        assert sorted(map(tuple, paired[:, :, f].tolist())) == sorted(map(tuple, paths[:, :, f].tolist()))
    means = paired.mean(axis=1)
    assert np.corrcoef(means[:, 0], means[:, 1])[0, 1] > 0.97
    assert abs(np.corrcoef(means[:, 0], means[:, 2])[0, 1]) < 0.3
    assert pair_paths(paths, past[:5]) is paths
