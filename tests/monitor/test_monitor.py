"""The monitor's arithmetic against a second road, its latches, and that honest forecasts leave it alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from ucsearch.errors import InputError
from ucsearch.monitor import Monitor, Settings, Stream, rank_of, tolerance_of
from ucsearch.monitor.bets import BETS, chosen_bets, gains
from ucsearch.monitor.journal import WatchedPlan

TOO_NARROW = 1.2836  # an interval meant for 90 % then covers 80 %


def test_weights_add_up_to_one_whatever_is_watched() -> None:
    for watch in ("both", "spread", "bias"):
        assert math.fsum(b.weight for b in chosen_bets(watch)) == pytest.approx(1.0, abs=1e-15)  # type: ignore[arg-type]
    assert {b.about for b in chosen_bets("spread")} == {"spread too narrow"}
    assert {b.about for b in chosen_bets("bias")} == {"forecasts too low", "forecasts too high"}


def test_tolerance_is_that_of_the_contract() -> None:
    assert tolerance_of(0.0) == 0.0
    assert tolerance_of(0.017) == pytest.approx(0.05, abs=0.001)
    assert tolerance_of(0.035) == pytest.approx(0.1, abs=0.001)
    with pytest.raises(InputError, match="max_undercoverage"):
        tolerance_of(math.nan)


@given(
    members=st.lists(st.integers(-5, 5), min_size=1, max_size=30),
    outcome=st.integers(-6, 6),
    tolerance=st.floats(0.0, 0.5),
)
def test_gains_are_ratios_of_normal_probabilities(members: list[int], outcome: int, tolerance: float) -> None:
    low, high = rank_of(members, outcome)
    size = len(members)
    assert low == pytest.approx(sum(x < outcome for x in members) / (size + 1))
    assert high == pytest.approx((sum(x <= outcome for x in members) + 1) / (size + 1))
    a, b = norm.ppf([low, high]) / (1.0 + tolerance)
    for bet, gain in zip(BETS, gains(low, high, tolerance, BETS), strict=True):
        other = norm.cdf([a, b], bet.shift, bet.scale)
        wanted = 0.5 + 0.5 * (other[1] - other[0]) / (norm.cdf(b) - norm.cdf(a))
        assert gain == pytest.approx(wanted, rel=1e-8)


@given(size=st.integers(1, 60))
def test_an_honest_forecast_gains_nothing_on_average(size: int) -> None:
    """Every rank of one more draw among distinct members is equally likely."""
    ranks = [(k / (size + 1), (k + 1) / (size + 1)) for k in range(size + 1)]
    mean = np.mean([gains(low, high, 0.0, BETS) for low, high in ranks], axis=0)
    assert mean == pytest.approx(np.ones(len(BETS)), rel=1e-12)


def test_weights_of_members_count() -> None:
    assert rank_of([1.0, 2.0], 1.5, [0.25, 0.75]) == pytest.approx((0.25 / 1.5, 0.75 / 1.5))
    with pytest.raises(InputError, match="outcome"):
        rank_of([1.0], math.nan)


def ranks(rng: np.random.Generator, size: int, scale: float = 1.0, shift: float = 0.0) -> tuple[float, float]:
    return rank_of(rng.normal(size=size).tolist(), float(shift + scale * rng.normal()))


def test_a_spread_too_narrow_trips_and_says_so() -> None:
    rng = np.random.default_rng(3)
    monitor = Monitor(Settings(max_undercoverage=0.0))
    for _ in range(400):
        monitor.period([("A", *ranks(rng, 100, 1.6))])
    assert monitor.trips[0].event == "tripped"
    assert monitor.trips[0].about == "spread too narrow"
    assert monitor.blocked("A")
    assert monitor.drift("A") >= monitor.settings.limit


def test_a_shift_trips_and_names_its_side() -> None:
    rng = np.random.default_rng(5)
    monitor = Monitor(Settings(watch="bias"))
    for _ in range(300):
        monitor.period([("A", *ranks(rng, 100, shift=0.8))])
    assert monitor.trips[0].about == "forecasts too low"
    blind = Monitor(Settings(watch="spread", max_undercoverage=0.1))
    rng = np.random.default_rng(5)
    for _ in range(100):
        blind.period([("A", *ranks(rng, 100, shift=0.3))])
    assert blind.trips == []


def test_a_trip_is_latched_and_a_series_earns_its_way_back() -> None:
    rng = np.random.default_rng(7)
    monitor = Monitor(Settings(max_undercoverage=0.0, probation=20))
    while not monitor.status("A").tripped:
        monitor.late("A", *ranks(rng, 100, 2.5))
    latched = monitor.drift("A")
    monitor.late("A", 0.4, 0.41)
    assert monitor.drift("A") == latched
    for _ in range(30):
        monitor.late("A", *ranks(rng, 100))
    assert [t.event for t in monitor.trips] == ["tripped", "rearmed"]
    assert not monitor.blocked("A")


def test_the_pool_waits_for_a_person() -> None:
    rng = np.random.default_rng(9)
    monitor = Monitor(Settings(max_undercoverage=0.0, probation=5))
    names = [f"S{i}" for i in range(10)]
    for _ in range(200):
        monitor.period([(n, *ranks(rng, 60, 1.8)) for n in names])
    assert monitor.status().tripped
    assert monitor.blocked("a series never seen")
    for _ in range(200):
        monitor.period([(n, *ranks(rng, 60)) for n in names])
    assert monitor.status().tripped
    assert monitor.rearm(why="a new model").why == "a new model"
    assert not monitor.status().tripped
    with pytest.raises(InputError, match="has tripped"):
        monitor.rearm(why="again")


def test_the_pool_takes_the_mean_gain_of_a_period() -> None:
    monitor = Monitor(Settings(max_undercoverage=0.0))
    monitor.period([("A", 0.0, 0.01), ("B", 0.5, 0.51)])
    bets = chosen_bets("both")
    mean = np.mean([gains(0.0, 0.01, 0.0, bets), gains(0.5, 0.51, 0.0, bets)], axis=0)
    assert monitor.status().evidence == pytest.approx(float(np.dot([b.weight for b in bets], mean)))
    with pytest.raises(InputError, match="once a period"):
        monitor.period([("A", 0.1, 0.2), ("A", 0.1, 0.2)])


def test_targets_that_overlap_do_not_share_a_process() -> None:
    bets = chosen_bets("both")
    one, two = Stream(bets), Stream(bets, lags=2)
    for low in (0.1, 0.2, 0.3, 0.4):
        gained = gains(low, low + 0.01, 0.0, bets)
        one.add(gained)
        two.add(gained)
    odd, even = Stream(bets), Stream(bets)
    for low, stream in ((0.1, odd), (0.2, even), (0.3, odd), (0.4, even)):
        stream.add(gains(low, low + 0.01, 0.0, bets))
    assert two.evidence == pytest.approx((odd.evidence + even.evidence) / 2.0)
    assert one.evidence != two.evidence


def test_evidence_never_overflows() -> None:
    stream = Stream(chosen_bets("both"))
    for _ in range(5_000):
        stream.add(gains(0.0, 0.001, 0.0, stream.bets))
    assert math.isfinite(stream.evidence)


@pytest.mark.parametrize(
    "bad",
    [
        {"alpha": 0.0},
        {"within": 0},
        {"lags": True},
        {"lags": 1_001},
        {"within": 2**53},
        {"alpha": 1e-320},
        {"calm": 1e9},
        {"watch": "all"},
        {"max_undercoverage": -1.0},
    ],
)
def test_settings_are_checked(bad: dict[str, object]) -> None:
    with pytest.raises(InputError):
        Settings(**bad)  # type: ignore[arg-type]


def test_a_picture_of_the_evidence_holds_few_points_and_keeps_the_peaks() -> None:
    from ucsearch.monitor.streams import POINTS, Past

    past, peak = Past(), 1_000.0
    assert past.curve() == ()
    for i in range(10 * POINTS + 7):
        past.add(peak if i == 333 else 1.0)
        numbers = [x for x, _ in past.curve()]
        assert len(numbers) <= POINTS
        assert numbers[-1] == i + 1  # the last point is the last outcome
        assert numbers == sorted(set(numbers))
    assert max(v for _, v in past.curve()) == peak
    past.add(1e300)
    assert past.curve()[-1][1] < float("inf")


def test_a_picture_shows_what_the_monitor_saw() -> None:
    monitor = Monitor()
    seen = []
    for _ in range(30):
        monitor.period([("A", 0.97, 0.99), ("B", 0.4, 0.42)])
        seen.append(monitor.status("A").evidence)
    assert [v for _, v in monitor.curve("A")] == pytest.approx(seen, rel=1e-6)
    assert len(monitor.curve()) == 30
    assert monitor.curve("nobody") == ()
    # Other settings: a new monitor, the picture goes on.
    other = Monitor(Settings(max_undercoverage=0.05))
    other.remember(monitor)
    other.period([("A", 0.4, 0.42)])
    assert len(other.curve("A")) == 31


def test_who_looks_on_is_not_disturbed_by_outcomes_that_come_meanwhile() -> None:
    """The service's pages look at the monitor while another thread feeds it."""
    watched = WatchedPlan(Monitor(), "any")

    class Meanwhile(tuple[float, float]):
        def __iter__(self) -> Iterator[float]:
            watched.ranks.append((0.4, 0.5))
            return super().__iter__()

    watched.ranks.extend([Meanwhile((0.4, 0.5)), (0.96, 0.98)])
    assert watched.coverage == 0.5
    assert sum(watched.histogram()) == 3


# What one series does to all, and what a trip is about


def ranked(rng: Any, level: float, spread: float, size: int = 60) -> tuple[float, float]:
    """Where an outcome fell among the members of an honest forecast around 0, when it comes from elsewhere."""
    return rank_of(rng.normal(size=size).tolist(), float(level + spread * rng.normal()))


def test_one_bad_series_in_ten_leaves_the_pool_calm() -> None:
    """It trips on its own, and from then on it is not in the pool: nine calm ones go on being released."""
    rng = np.random.default_rng(4)
    monitor = Monitor()
    for _ in range(400):
        calm = [(f"S{i}", *ranked(rng, 0.0, 1.0)) for i in range(9)]
        monitor.period([("bad", *ranked(rng, 3.0, 1.0)), *calm])
    assert monitor.status("bad").tripped
    assert not monitor.status().tripped
    assert monitor.status().evidence < 1_000.0
    assert not any(monitor.status(f"S{i}").tripped for i in range(9))
    assert not monitor.blocked("S1")
    assert monitor.blocked("bad")


def test_a_series_that_is_armed_again_is_in_the_pool_again() -> None:
    monitor = Monitor(Settings(within=4, probation=3, calm=1.0))
    while not monitor.has_tripped("A"):
        monitor.period([("A", 0.98, 1.0), ("B", 0.4, 0.5)])
    assert not monitor.has_tripped("B")
    before = monitor.status().outcomes
    monitor.period([("A", 0.98, 1.0)])  # nobody is left in it
    assert monitor.status().outcomes == before
    monitor.rearm("A", why="looked at it")
    monitor.period([("A", 0.4, 0.5)])
    assert monitor.status().outcomes == before + 1


@pytest.mark.parametrize(
    ("level", "spread", "about"),
    [
        (4.0, 1.0, "forecasts too low"), (-4.0, 1.0, "forecasts too high"), (1.0, 1.0, "forecasts too low"),
        (0.0, 2.5, "spread too narrow"), (0.0, 1.5, "spread too narrow"),
    ],
)  # fmt: skip
def test_bias_is_called_bias_and_a_narrow_spread_a_narrow_spread(level: float, spread: float, about: str) -> None:
    """Outcomes far on one side win bets on a wider spread too: forecasts times 0.6 were called too narrow."""
    right = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        monitor = Monitor()
        while not monitor.status("A").tripped:
            monitor.period([("A", *ranked(rng, level, spread))])
        right += monitor.status("A").about == about
    assert right >= (20 if level else 18)


def test_bias_of_all_series_is_what_the_pool_says() -> None:
    rng = np.random.default_rng(8)
    monitor = Monitor()
    while not monitor.status().tripped:
        monitor.period([(f"S{i}", *ranked(rng, 2.5, 1.0)) for i in range(10)])
    assert monitor.status().about == "forecasts too low"
