"""Recalibration by phase: against a second, naive implementation, its corners, and what it does to coverage."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ucsearch.errors import InputError
from ucsearch.forecast.recalibrate import (
    LEAST_PATHS,
    Archive,
    Recalibration,
    correction_at,
    corrections,
    recalibrate_members,
    recalibrate_trace,
)
from ucsearch.trace import Trace


def naive(archive: Archive, how: Recalibration, t: int, h: int) -> tuple[float, float]:
    """b and c at origin t, step h, word for word as they are defined."""
    y, m, a = archive.y, archive.mean, archive.spread

    def window(t: int) -> list[int]:
        return [s for s in range(t - how.cycles * how.season, t) if s >= 0 and s + h <= t and known(s)]

    def phase(t: int) -> list[int]:
        back = [t - i * how.season for i in range(1, how.cycles + 1)]
        return [s for s in back if s >= 0 and s + h <= t and known(s)]

    def known(s: int) -> bool:
        return not (math.isnan(y[s + h]) or math.isnan(m[s, h - 1]))

    def e(s: int) -> float:
        return float(y[s + h] - m[s, h - 1])

    def bias(t: int) -> float:
        b0 = sum(e(s) for s in window(t)) / (len(window(t)) + 20)
        return (sum(e(s) for s in phase(t)) + 4 * b0) / (len(phase(t)) + 4)

    def has_spread(s: int) -> bool:
        return bool(a[s, h - 1] > 1e-9 * max(abs(m[s, h - 1]), abs(y[s + h])) and a[s, h - 1] > 0)

    def r(s: int) -> float:
        return abs(e(s) - bias(s)) / float(a[s, h - 1])

    pool, own = [s for s in window(t) if has_spread(s)], [s for s in phase(t) if has_spread(s)]
    c0 = (sum(r(s) for s in pool) + 200) / (len(pool) + 200)
    c = min(max((sum(r(s) for s in own) + 8 * c0) / (len(own) + 8), 0.2), 5.0)
    zeros = sum(y[s + h] == 0 for s in window(t))
    if not how.scale or (window(t) and zeros >= 0.3 * len(window(t))):
        c = 1.0
    return bias(t), c


@st.composite
def archives(draw: st.DrawFn) -> tuple[Archive, Recalibration]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    length, steps = draw(st.integers(1, 40)), draw(st.integers(1, 9))
    unit = 10.0 ** draw(st.integers(-9, 12))
    y = rng.poisson(draw(st.sampled_from([0.4, 2.0, 30.0])), length) * unit
    mean = rng.normal(3.0, 2.0, (length, steps)) * unit
    spread = np.abs(rng.normal(1.0, 1.0, (length, steps))) * unit
    y[rng.random(length) < 0.1] = np.nan
    mean[rng.random((length, steps)) < 0.1] = np.nan
    spread[rng.random((length, steps)) < 0.1] = draw(st.sampled_from([0.0, 1e-12 * unit, np.nan]))
    how = Recalibration(season=draw(st.integers(2, 7)), cycles=draw(st.integers(1, 5)), scale=draw(st.booleans()))
    return Archive(y, mean, spread), how


@settings(max_examples=60, deadline=None)
@given(archives())
def test_equals_the_definition(case: tuple[Archive, Recalibration]) -> None:
    archive, how = case
    found = corrections(archive, how)
    unit = np.nanmax(np.abs(archive.mean), initial=0.0)
    for t in range(len(archive.y)):
        for h in range(1, archive.mean.shape[1] + 1):
            b, c = naive(archive, how, t, h)
            assert found.b[t, h - 1] == pytest.approx(b, rel=1e-9, abs=1e-9 * unit)
            assert found.c[t, h - 1] == pytest.approx(c, rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(archives(), st.integers(0, 39))
def test_the_future_has_no_influence(case: tuple[Archive, Recalibration], cut: int) -> None:
    archive, how = case
    t = min(cut, len(archive.y) - 1)
    part = Archive(archive.y[: t + 1], archive.mean[: t + 1], archive.spread[: t + 1])
    whole, cut_off = corrections(archive, how), corrections(part, how)
    assert np.array_equal(whole.b[: t + 1], cut_off.b)
    assert np.array_equal(whole.c[: t + 1], cut_off.c)
    steps = archive.mean.shape[1]
    last = correction_at(part, how, steps)
    assert np.allclose(last.b, cut_off.b[-1], rtol=1e-12, atol=0)
    assert np.array_equal(last.c, cut_off.c[-1])


def test_few_data_leave_members_as_they_are() -> None:
    none = np.full((1, 3), np.nan)
    fix = correction_at(Archive(np.array([5.0]), none, none), Recalibration(season=7), 3)
    assert fix.b.tolist() == [0.0] * 3
    assert fix.c.tolist() == [1.0] * 3
    members = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0]])
    assert np.array_equal(recalibrate_members(members, members.mean(axis=0), fix, -np.inf), members)


def test_no_season_nothing_is_done() -> None:
    y = np.arange(50.0)
    archive = Archive(y, np.zeros((50, 2)), np.ones((50, 2)))
    for how in (Recalibration(season=1), Recalibration(season=7, method="off")):
        fix = correction_at(archive, how, 2)
        assert fix.b.tolist() == [0.0, 0.0]
        assert fix.c.tolist() == [1.0, 1.0]


def test_a_forecast_beyond_the_archive_stays_as_it_is_there() -> None:
    archive = Archive(np.full(60, 9.0), np.zeros((60, 2)), np.ones((60, 2)))
    fix = correction_at(archive, Recalibration(season=7), 4)
    assert (fix.b[:2] > 1.0).all()
    assert fix.b[2:].tolist() == [0.0, 0.0]
    assert fix.c[2:].tolist() == [1.0, 1.0]


def test_intermittent_demand_is_only_shifted() -> None:
    rng = np.random.default_rng(1)
    y = rng.poisson(5.0, 200).astype(float)
    mean, spread = np.full((200, 1), 2.0), np.full((200, 1), 0.5)
    how = Recalibration(season=7)
    assert correction_at(Archive(y, mean, spread), how, 1).c[0] > 1.5
    y[::3] = 0.0
    fix = correction_at(Archive(y, mean, spread), how, 1)
    assert fix.c[0] == 1.0
    assert fix.b[0] > 0.5


def test_a_changed_model_voids_the_window() -> None:
    archive = Archive(np.full(40, 9.0), np.zeros((40, 1)), np.ones((40, 1)), ("old",) * 20 + ("new",) * 20)
    old_and_new = correction_at(archive, Recalibration(season=7), 1)
    new = correction_at(archive.of_model("new"), Recalibration(season=7), 1)
    assert old_and_new.sums.n_w[0] == 39
    assert new.sums.n_w[0] == 19
    assert correction_at(archive.of_model("other"), Recalibration(season=7), 1).sums.n_w[0] == 0
    back = Archive(archive.y, archive.mean, archive.spread, ("new",) * 10 + ("old",) * 20 + ("new",) * 10)
    assert correction_at(back.of_model("new"), Recalibration(season=7), 1).sums.n_w[0] == 9


def test_order_coupling_and_floor() -> None:
    rng = np.random.default_rng(2)
    trace = Trace.from_members(rng.normal(3.0, 2.0, (2, 12, 4)), coupling="joint", model="m", cutoff="2024-01-01")
    archive = Archive(np.full(90, 9.0), np.full((90, 4), 10.0), np.ones((90, 4)))
    how = Recalibration(season=7, floor=0.0)
    fix = correction_at(archive, how, 4)
    made = recalibrate_trace(trace, [fix, fix], how)
    assert made.members.min() >= 0.0
    assert made.cutoff == trace.cutoff
    assert "recalibrated by phase, rolling, season 7, 28 cycles" in made.notes
    free = recalibrate_trace(trace, [fix, fix], Recalibration(season=7))
    for h in range(4):
        assert np.array_equal(np.argsort(free.members[0, :, h, 0]), np.argsort(trace.members[0, :, h, 0]))
    assert made.hash != trace.hash
    with pytest.raises(InputError, match="one per window"):
        recalibrate_trace(trace, [fix], how)


def test_error_paths_of_the_phase() -> None:
    rng = np.random.default_rng(3)
    y, mean = rng.normal(10.0, 1.0, 200), rng.normal(10.0, 1.0, (200, 3))
    y[150] = np.nan  # known to be unknown
    how = Recalibration(season=7, cycles=20, method="paths")
    fix = correction_at(Archive(y, mean, np.ones((200, 3))), how, 3)
    assert fix.paths is not None
    expected = [
        y[s + 1 : s + 4] - mean[s] for i in range(1, 21) if not np.isnan(y[(s := 199 - 7 * i) + 1 : s + 4]).any()
    ]
    assert np.array_equal(fix.paths, np.array(expected))
    trace = Trace.from_members(rng.normal(10.0, 1.0, (5, 3)))
    made = recalibrate_trace(trace, [fix], how)
    assert made.members.shape == (1, len(expected), 3, 1)
    wanted = trace.mean[0, :, 0] + np.array(expected)
    assert np.allclose(np.sort(made.members[0, :, 0, 0]), np.sort(wanted[:, 0]))
    few = fix._replace(paths=fix.paths[: LEAST_PATHS - 1])
    with pytest.raises(InputError, match="error paths"):
        recalibrate_trace(trace, [few], how)
    longer = correction_at(Archive(y, mean, np.ones((200, 3))), how, 8)  # no forecast reaches so far
    assert longer.paths is not None
    assert len(longer.paths) == 0


def coverage_by_phase(members: np.ndarray, y: np.ndarray, phase: np.ndarray, season: int) -> np.ndarray:
    low, high = np.quantile(members, [0.05, 0.95], axis=1)
    inside = (low <= y) & (y <= high)
    return np.array([inside[phase == p].mean() for p in range(season)])


def test_coverage_by_phase_improves_on_ett(data_dir: Path) -> None:
    """Loads of a transformer, one step ahead with pooled residuals: too narrow at some hours, too wide at others."""
    from ucsearch.lab.data import load_ett

    worst_before, worst_after = [], []
    table = load_ett("ETTh1", data_dir=data_dir)
    for column in ("HUFL", "MUFL", "LUFL"):
        y = np.asarray(table.column(column)[:4000], dtype=float)
        mean = np.full((y.size, 1), np.nan)
        mean[24:-1, 0] = y[24:-1]
        errors = np.diff(y)
        pool = np.quantile(errors[:1000], (np.arange(40) + 0.5) / 40)
        spread = np.full_like(mean, np.abs(pool - pool.mean()).mean())
        mean[24:-1, 0] += pool.mean()
        fix = corrections(Archive(y, mean, spread), Recalibration(season=24))
        origins = np.arange(1000, y.size - 1)
        raw = mean[origins] + (pool - pool.mean())
        m, b, c = mean[origins], fix.b[origins], fix.c[origins]
        after = m + b + c * (raw - m)
        phase = (origins + 1) % 24
        before_by, after_by = (coverage_by_phase(x, y[origins + 1], phase, 24) for x in (raw, after))
        worst_before.append(np.abs(before_by - 0.9).max())
        worst_after.append(np.abs(after_by - 0.9).max())
    assert np.mean(worst_after) < 0.6 * np.mean(worst_before), (worst_before, worst_after)
