"""Traces: every constructor, the hash, read-only arrays, files, and a message for everything refused."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ucsearch as uc
from tests.kit.templates import TEMPLATES, Clock
from ucsearch.errors import InputError
from ucsearch.trace.members import interpolate, levels, normal_points, normal_quantile, weighted_mean
from ucsearch.trace.trace import _unpacks_to, content_hash

NAN, INF = float("nan"), float("inf")
CLOCK = TEMPLATES["clock"].task


def members(seed: int = 0, shape: tuple[int, ...] = (5, 4)) -> np.ndarray:
    return np.random.default_rng(seed).normal(10, 3, shape)


# -------------------------------------------------------------------- from_members


@pytest.mark.parametrize("size", [1, 2, 50])
@pytest.mark.parametrize("steps", [1, 14])
def test_the_mean_of_a_window_is_the_same_alone_and_among_many(size: int, steps: int) -> None:
    """A few windows are added up in other calls than many: in the same order, and with the same signs of nothing."""
    rng = np.random.default_rng(size + steps)
    many = rng.normal(0.0, 1e3, (40_000 // (size * steps), size, steps, 1))
    many[0], many[1, :, 0], many[1, 0, 0] = -0.0, 1e-320, -0.0
    weights = rng.dirichlet(np.ones(size), len(many))
    for weight in (np.full((1, size), 1.0 / size), weights):
        together = weighted_mean(many, weight)
        for w in (0, 1, 2, len(many) - 1):
            alone = weighted_mean(many[w : w + 1], weight if len(weight) == 1 else weight[w : w + 1])
            assert alone.tobytes() == together[w : w + 1].tobytes()


def test_members_keep_their_values_in_canonical_order() -> None:
    array = members()
    trace = uc.Trace.from_members(array)
    assert trace.members.shape == (1, 5, 4, 1)
    assert sorted(map(tuple, trace.members[0, :, :, 0].tolist())) == sorted(map(tuple, array.tolist()))
    assert trace.members[0, :, 0, 0].tolist() == sorted(array[:, 0].tolist())
    np.testing.assert_allclose(trace.mean[0, :, 0], array.mean(axis=0), rtol=1e-14)
    np.testing.assert_array_equal(trace.weights, np.full((1, 5), 0.2))
    assert (trace.windows, trace.horizon, trace.size) == (1, 4, 5)
    assert not trace.panel
    assert not trace.is_scores
    assert trace.coupling == "joint"


def test_negative_members_sort_by_value_too() -> None:
    trace = uc.Trace.from_members([[1.0], [-2.0], [0.0], [-1.0], [-0.0]])
    assert trace.members[0, :, 0, 0].tolist() == [-2.0, -1.0, 0.0, 0.0, 1.0]
    assert not np.signbit(trace.members[0, 2:, 0, 0]).any()  # -0.0 and 0.0 are one number, so one hash


def test_weights_are_normalised_and_follow_their_members() -> None:
    trace = uc.Trace.from_members([[3.0, 1.0], [1.0, 5.0], [2.0, 0.0]], weights=[1.0, 2.0, 5.0], normalise=True)
    assert trace.members[0, :, 0, 0].tolist() == [1.0, 2.0, 3.0]
    np.testing.assert_allclose(trace.weights[0], [2 / 8, 5 / 8, 1 / 8], rtol=1e-15)
    np.testing.assert_allclose(
        trace.mean[0, :, 0], np.average([[3.0, 1.0], [1.0, 5.0], [2.0, 0.0]], axis=0, weights=[1, 2, 5]), rtol=1e-14
    )


def test_equal_members_have_that_mean_exactly() -> None:
    trace = uc.Trace.from_members(np.full((7, 3), 0.1), weights=np.arange(1.0, 8.0), normalise=True)
    assert (trace.mean == 0.1).all()


def test_fields_and_panels_are_told_apart_by_fields() -> None:
    cube = members(shape=(3, 4, 2))
    one = uc.Trace.from_members(cube, fields=2)
    assert (one.windows, one.size, one.horizon, one.members.shape[3], one.panel) == (1, 3, 4, 2, False)
    many = uc.Trace.from_members(cube)
    assert (many.windows, many.size, many.horizon, many.members.shape[3], many.panel) == (3, 4, 2, 1, True)
    both = uc.Trace.from_members(members(shape=(6, 3, 4, 2)), fields=2)
    assert (both.windows, both.size, both.horizon, both.members.shape[3], both.panel) == (6, 3, 4, 2, True)


def test_heteroscedastic_members_keep_mean_and_total_variance() -> None:
    """Law of total variance: Var of the mixture is the spread of the members plus the mean of their variances."""
    centre, sigma = members(1, (4, 3)), np.abs(members(2, (4, 3)))
    for points in (2, 3, 7):
        trace = uc.Trace.from_members(centre, sigma=sigma, points=points)
        assert trace.size == 4 * points
        drawn = trace.members[0, :, :, 0]
        np.testing.assert_allclose(drawn.mean(axis=0), centre.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(drawn.var(axis=0), centre.var(axis=0) + (sigma**2).mean(axis=0), rtol=1e-12)
    assert any("quantile points" in note for note in trace.notes)


def test_heteroscedastic_weights_are_shared_out() -> None:
    trace = uc.Trace.from_members([[0.0], [10.0]], weights=[1.0, 3.0], sigma=[[1.0], [1.0]], points=2, normalise=True)
    assert trace.size == 4
    low = trace.members[0, :, 0, 0] < 5
    assert float(trace.weights[0][low].sum()) == pytest.approx(0.25)


# -------------------------------------------------------------------- from_mean, from_distribution, from_quantiles


def test_mean_and_deviation_by_grid() -> None:
    trace = uc.Trace.from_mean([10.0, 20.0], [1.0, 4.0], points=5)
    z = [NormalDist().inv_cdf((i + 0.5) / 5) for i in range(5)]
    np.testing.assert_allclose(trace.members[0, :, 0, 0], [10 + x for x in z], rtol=1e-14)
    np.testing.assert_allclose(trace.members[0, :, 1, 0], [20 + 4 * x for x in z], rtol=1e-14)
    assert trace.coupling == "comonotone"
    np.testing.assert_allclose(trace.mean[0, :, 0], [10, 20], rtol=1e-14)


def test_mean_without_deviation_is_certain() -> None:
    trace = uc.Trace.from_mean([1.0, 2.0], [0.0, 0.0])
    assert (trace.members[0, :, :, 0] == np.array([1.0, 2.0])).all()


@pytest.mark.parametrize("method", ["sobol", "sampled"])
def test_drawn_members_are_repeatable_and_independent_across_steps(method: Any) -> None:
    one, two, other = (
        uc.Trace.from_mean(np.zeros(2), np.ones(2), points=512, method=method, rng=np.random.default_rng(seed))
        for seed in (7, 7, 8)
    )
    assert one.hash == two.hash
    assert one.hash != other.hash
    assert one.coupling == "independent"
    drawn = one.members[0, :, :, 0]
    assert np.abs(np.corrcoef(drawn.T)[0, 1]) < 0.15
    np.testing.assert_allclose(drawn.std(axis=0), 1.0, atol=0.1)


def test_panels_of_means() -> None:
    mean, std = members(1, (3, 4)), np.abs(members(2, (3, 4)))
    panel = uc.Trace.from_mean(mean, std, points=4)
    assert (panel.windows, panel.size, panel.horizon, panel.panel) == (3, 4, 4, True)
    for w in range(3):
        assert panel.window(w).hash == uc.Trace.from_mean(mean[w], std[w], points=4).hash


def test_any_quantile_function() -> None:
    trace = uc.Trace.from_distribution(lambda p, h: 10.0 * h + p, horizon=3, points=4)
    np.testing.assert_allclose(trace.members[0, :, 2, 0], [20.125, 20.375, 20.625, 20.875])
    assert trace.coupling == "comonotone"


def test_a_pmf_has_exact_weights() -> None:
    trace = uc.Trace.from_distribution(pmf=([3.0, 0.0, 1.0, 9.0], [0.25, 0.5, 0.25, 0.0]), horizon=2)
    assert trace.members[0, :, :, 0].tolist() == [[0.0, 0.0], [1.0, 1.0], [3.0, 3.0]]
    assert trace.weights[0].tolist() == [0.5, 0.25, 0.25]
    assert trace.mean[0, :, 0].tolist() == [1.0, 1.0]


def test_a_sampled_pmf_has_the_right_frequencies() -> None:
    trace = uc.Trace.from_distribution(
        pmf=([0.0, 1.0], [0.25, 0.75]), horizon=1, points=4000, method="sampled", rng=np.random.default_rng(1)
    )
    assert set(trace.members[0, :, 0, 0].tolist()) == {0.0, 1.0}
    assert float(trace.members.mean()) == pytest.approx(0.75, abs=0.03)


def test_quantiles_interpolate_and_stay_at_the_outer_values() -> None:
    trace = uc.Trace.from_quantiles([0.25, 0.5, 0.75], [[1.0, 2.0, 4.0], [0.0, 0.0, 8.0]], points=8)
    expected = [1.0, 1.0, 1.25, 1.75, 2.5, 3.5, 4.0, 4.0]
    np.testing.assert_allclose(trace.members[0, :, 0, 0], expected, rtol=1e-14)
    np.testing.assert_allclose(trace.members[0, :, 1, 0], [0, 0, 0, 0, 2, 6, 8, 8], atol=1e-14)


def test_one_quantile_is_a_point_forecast() -> None:
    trace = uc.Trace.from_quantiles([0.5], [[3.0], [4.0]], points=3)
    assert trace.members[0, :, :, 0].tolist() == [[3.0, 4.0]] * 3


def test_panels_of_quantiles() -> None:
    table = np.sort(members(3, (2, 4, 3)), axis=-1)
    panel = uc.Trace.from_quantiles([0.1, 0.5, 0.9], table)
    for w in range(2):
        assert panel.window(w).hash == uc.Trace.from_quantiles([0.1, 0.5, 0.9], table[w]).hash


def test_crossed_quantiles_are_sorted_on_request_and_noted() -> None:
    table = [[1.0, 2.0, 3.0], [3.0, 2.0, 2.5]]
    trace = uc.Trace.from_quantiles([0.1, 0.5, 0.9], table, crossing="sort")
    assert "1 steps had crossed quantiles, sorted" in trace.notes
    straight = uc.Trace.from_quantiles([0.1, 0.5, 0.9], np.sort(table, axis=1))
    np.testing.assert_array_equal(trace.members, straight.members)
    assert trace.hash != straight.hash  # the repair is part of the record


# -------------------------------------------------------------------- from_scores


def test_scores() -> None:
    q, u = members(1, (4, 3)), np.abs(members(2, (4, 3)))
    trace = uc.Trace.from_scores(q, u, np.arange(4.0))
    assert trace.is_scores
    assert (trace.windows, trace.horizon, trace.size, trace.q.shape) == (1, 4, 0, (1, 4, 3))
    assert trace.mean[0, :, 0].tolist() == [0.0, 1.0, 2.0, 3.0]
    assert np.isnan(uc.Trace.from_scores(q, u).mean).all()
    assert uc.Trace.from_scores(q, u, np.ones((4, 2))).mean.shape == (1, 4, 2)


def test_panels_of_scores() -> None:
    q, u, y = members(1, (5, 4, 3)), np.abs(members(2, (5, 4, 3))), members(3, (5, 4))
    panel = uc.Trace.from_scores(q, u, y)
    assert (panel.windows, panel.panel) == (5, True)
    for w in range(5):
        assert panel.window(w).hash == uc.Trace.from_scores(q[w], u[w], y[w]).hash


# -------------------------------------------------------------------- hash


@given(seed=st.integers(0, 10_000), weighted=st.booleans())
def test_the_order_of_members_does_not_matter(seed: int, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    array = np.round(rng.normal(0, 1, (6, 3)), 1)  # rounded, so that some are equal
    weights = rng.choice([0.5, 1.0, 2.0], 6) if weighted else None
    order = rng.permutation(6)
    one = uc.Trace.from_members(array, weights, normalise=True)
    two = uc.Trace.from_members(array[order], None if weights is None else weights[order], normalise=True)
    assert one.hash == two.hash
    assert one.mean.tobytes() == two.mean.tobytes()
    assert one.weights.tobytes() == two.weights.tobytes()


def test_the_hash_sees_every_value_and_weight() -> None:
    array, weights = members(), np.arange(1.0, 6.0)
    base = uc.Trace.from_members(array, weights, normalise=True)
    seen = {base.hash}
    for index in np.ndindex(array.shape):
        changed = array.copy()
        changed[index] = np.nextafter(changed[index], np.inf)
        seen.add(uc.Trace.from_members(changed, weights, normalise=True).hash)
    for j in range(5):
        other = weights.copy()
        other[j] += 0.5
        seen.add(uc.Trace.from_members(array, other, normalise=True).hash)
    assert len(seen) == 1 + array.size + 5


def test_the_hash_sees_which_weight_is_whose() -> None:
    array = members()
    one = uc.Trace.from_members(array, [1.0, 2.0, 3.0, 4.0, 5.0], normalise=True)
    assert one.hash != uc.Trace.from_members(array, [2.0, 1.0, 3.0, 4.0, 5.0], normalise=True).hash


def test_the_hash_sees_every_score() -> None:
    q, u, y = np.zeros((2, 3)), np.zeros((2, 3)), np.zeros(2)
    seen = {uc.Trace.from_scores(q, u, y).hash, uc.Trace.from_scores(q, u).hash}
    for which in range(3):
        arrays = [q.copy(), u.copy(), y.copy()]
        for index in np.ndindex(arrays[which].shape):
            changed = [a.copy() for a in arrays]
            changed[which][index] = 1.0
            seen.add(uc.Trace.from_scores(*changed).hash)
    assert len(seen) == 2 + 6 + 6 + 2


def test_the_hash_sees_every_meta_field_and_the_shape() -> None:
    array = members(shape=(4, 4))
    seen = {
        uc.Trace.from_members(array, **extra).hash  # type: ignore[arg-type]
        for extra in (
            {}, {"model": "a"}, {"model": "b"}, {"cutoff": "2024-01-01"}, {"issued": "2024-01-01"},
            {"cutoff": "2024-01-02"}, {"coupling": "independent"}, {"coupling": "comonotone"}, {"notes": ["x"]},
        )
    }  # fmt: skip
    seen.add(uc.Trace.from_members(array.reshape(4, 2, 2), fields=2).hash)
    assert len(seen) == 10


def test_the_hash_is_pinned() -> None:
    """Stored records carry it, so it may change only together with its version prefix."""
    trace = uc.Trace.from_members([[1.0, 2.0], [3.0, 4.0]], model="m", cutoff="2024-01-01")
    assert trace.hash == uc.Trace.from_members([[3, 4], [1, 2]], model="m", cutoff="2024-01-01").hash
    assert re.fullmatch(r"[0-9a-f]{64}", trace.hash)
    assert trace.hash == PINNED


PINNED = "497f13ae9698e250d0dec5061d11bf6499f7402e7c8ac677f1852ea583fc738d"


# -------------------------------------------------------------------- read-only


TRACES: dict[str, Callable[[], uc.Trace]] = {
    "members": lambda: uc.Trace.from_members(members()),
    "weighted": lambda: uc.Trace.from_members(members(), np.arange(1.0, 6.0), normalise=True),
    "mean": lambda: uc.Trace.from_mean([1.0], [1.0]),
    "distribution": lambda: uc.Trace.from_distribution(lambda p, h: p, horizon=2),
    "pmf": lambda: uc.Trace.from_distribution(pmf=([0.0, 1.0], [0.5, 0.5]), horizon=2),
    "quantiles": lambda: uc.Trace.from_quantiles([0.1, 0.9], [[0.0, 1.0]]),
    "scores": lambda: uc.Trace.from_scores(np.zeros((2, 3)), np.zeros((2, 3)), np.zeros(2)),
    "panel": lambda: uc.Trace.from_members(members(shape=(2, 3, 4))),
    "window": lambda: uc.Trace.from_members(members(shape=(2, 3, 4))).window(1),
    "stacked": lambda: (
        uc.search_panel(
            CLOCK, [Clock(0.0)] * 2, [uc.Trace.from_members(members())] * 2, uc.UCBeam(depth=1), engine="python"
        ).trace
    ),
}


@pytest.mark.parametrize("name", TRACES)
def test_arrays_are_read_only(name: str) -> None:
    trace = TRACES[name]()
    for field in ("members", "weights", "mean", "q", "u"):
        array = getattr(trace, field)
        if array.size:
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        trace.model = "other"  # type: ignore[misc]


def test_changing_the_input_afterwards_changes_nothing() -> None:
    array, weights = members(), np.arange(1.0, 6.0)
    q, u, y = np.zeros((4, 3)), np.zeros((4, 3)), np.zeros(4)
    one, two = uc.Trace.from_members(array, weights, normalise=True), uc.Trace.from_scores(q, u, y)
    before = [a.copy() for a in (one.members, one.weights, one.mean, two.q, two.u, two.mean)]
    for a in (array, weights, q, u, y):
        a += 1.0
    for was, now in zip(before, (one.members, one.weights, one.mean, two.q, two.u, two.mean), strict=True):
        np.testing.assert_array_equal(was, now)


# -------------------------------------------------------------------- windows


@pytest.mark.parametrize("per_window", [False, True])
def test_windows_of_a_panel_are_the_single_traces(per_window: bool) -> None:
    array = members(shape=(3, 5, 4))
    weights = np.abs(members(5, (3, 5))) if per_window else np.arange(1.0, 6.0)
    cutoff = ["2024-01-01", "2024-01-02", "2024-01-03"] if per_window else "2024-01-01"
    panel = uc.Trace.from_members(array, weights, cutoff=cutoff, model="m", normalise=True)
    for w in range(3):
        one = uc.Trace.from_members(
            array[w],
            weights[w] if per_window else weights,
            cutoff=cutoff[w] if per_window else cutoff,
            model="m",
            normalise=True,
        )
        assert panel.window(w).hash == one.hash
        assert not panel.window(w).panel


@pytest.mark.parametrize("w", [-1, 3])
def test_windows_outside_the_panel(w: int) -> None:
    with pytest.raises(InputError, match=rf"window: saw {w}, expected a window from 0 to 2"):
        uc.Trace.from_members(members(shape=(3, 2, 2))).window(w)


def test_stacked_traces_keep_their_identity() -> None:
    traces = [uc.Trace.from_members(members(i), cutoff=f"2024-01-0{i + 1}", model="m") for i in range(3)]
    panel = uc.search_panel(CLOCK, [Clock(0.0)] * 3, traces, uc.UCBeam(depth=1), engine="python")
    assert [panel[i].trace.hash for i in range(3)] == [t.hash for t in traces]


def test_stacked_traces_of_different_models_are_refused() -> None:
    """A panel has one model name; taking the first would put it on the others' records."""
    traces = [uc.Trace.from_members(members(), model=name) for name in ("a", "b")]
    with pytest.raises(InputError, match=r"traces\[1\]: saw 'b', expected model 'a' as in the first trace"):
        uc.search_panel(CLOCK, [Clock(0.0)] * 2, traces, uc.UCBeam(depth=1), engine="python")


# -------------------------------------------------------------------- times


def test_times_may_be_texts_datetimes_dates_or_numbers() -> None:
    cases = [
        ("2024-01-01", "2024-01-01"), (datetime(2024, 1, 2, 3), "2024-01-02T03:00:00"), (17, "17"),
        (np.datetime64("2024-01-01"), "2024-01-01"), (date(2024, 1, 2), "2024-01-02"), (np.int64(5), "5"),
    ]  # fmt: skip
    for given_time, text in cases:
        assert uc.Trace.from_members(members(), cutoff=given_time).cutoff == (text,)


def test_an_empty_time_is_refused() -> None:
    with pytest.raises(InputError, match=r"trace.issued\[0\]: saw an empty text, expected a time"):
        uc.Trace.from_members(members(), issued="")


def test_times_must_be_one_or_one_per_window() -> None:
    with pytest.raises(InputError, match=r"trace.cutoff: saw 2 times"):
        uc.Trace.from_members(members(shape=(3, 2, 2)), cutoff=["2024-01-01", "2024-01-02"])


# -------------------------------------------------------------------- files


@pytest.mark.parametrize("name", sorted(set(TRACES) - {"stacked"}))
def test_saving_and_loading(name: str, tmp_path: Path) -> None:
    trace = TRACES[name]()
    path = tmp_path / "trace.npz"
    trace.save(path)
    again = uc.Trace.load(path)
    assert again.hash == trace.hash
    assert again.panel == trace.panel
    assert again.meta() == trace.meta()
    assert not again.members.flags.writeable
    assert [p.name for p in tmp_path.iterdir()] == ["trace.npz"]


def tampered(source: Path, target: Path, **changes: Any) -> Path:
    with np.load(source, allow_pickle=False) as file:
        content = {name: file[name] for name in file.files}
    for name, change in changes.items():
        content[name] = change(content[name].copy())
    np.savez_compressed(target, **content)
    return target


def change_meta(**values: Any) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        meta = json.loads(str(array))
        for name, value in values.items():
            if value is None:
                del meta[name]
            else:
                meta[name] = value
        return np.array(json.dumps(meta))

    return change


def add_one(array: np.ndarray) -> np.ndarray:
    array.flat[0] += 1.0
    return array


@pytest.mark.parametrize(
    "changes",
    [
        {"members": add_one}, {"weights": add_one}, {"mean": add_one},
        {"meta": change_meta(model="other")}, {"meta": change_meta(cutoff=["1999-01-01"])},
        {"meta": change_meta(notes=["x"])}, {"meta": change_meta(coupling="independent")},
        {"meta": change_meta(hash="0" * 64)}, {"meta": change_meta(panel=False)}, {"meta": change_meta(panel=None)},
        {"meta": change_meta(hash=None)},
    ],
)  # fmt: skip
def test_a_tampered_file_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "trace.npz"
    uc.Trace.from_members(members(shape=(3, 4, 2)), model="m", cutoff="2024-01-01").save(path)
    with pytest.raises(InputError, match="trace file"):
        uc.Trace.load(tampered(path, tmp_path / "other.npz", **changes))


@pytest.mark.parametrize("name", ["members", "weights", "mean"])
@pytest.mark.parametrize("kind", ["i8", "f4", "longdouble", "bool", "c16"])
def test_numbers_of_another_kind_are_refused(name: str, kind: str, tmp_path: Path) -> None:
    """The hash takes them for doubles and is the same; what is planned with them would not be."""
    path = tmp_path / "trace.npz"
    uc.Trace.from_members(np.ones((1, 2))).save(path)
    other = tampered(path, tmp_path / "other.npz", **{name: lambda array: array.astype(kind)})
    with pytest.raises(InputError, match="numbers of kind"):
        uc.Trace.load(other)
    swapped = tampered(path, tmp_path / "swapped.npz", **{name: lambda array: array.astype(">f8")})
    assert uc.Trace.load(swapped).members.dtype == np.float64  # as another machine writes it


def test_a_file_that_unpacks_to_far_more_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace.npz"
    uc.Trace.from_members(np.zeros((1, 60_000))).save(path)
    assert uc.Trace.load(path).horizon == 60_000
    monkeypatch.setattr("ucsearch.trace.trace._MOST_BYTES", 900_000)
    with pytest.raises(InputError, match="bytes unpack to"):
        uc.Trace.load(path)


def test_how_much_a_file_may_unpack_to() -> None:
    for size, packed in ((2**30, 1), (100 * 2**24, 2**24)):
        _unpacks_to(size, packed)
        with pytest.raises(ValueError, match="unpack to"):
            _unpacks_to(size + 1, packed)


RAN: list[str] = []


class Planted:
    """What runs when somebody unpickles it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (f"import {__name__} as here; here.RAN.append('ran')",)


@pytest.mark.parametrize("name", ["members", "weights", "mean", "q", "u", "node", "meta"])
def test_no_file_of_a_trace_is_unpickled(name: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.npz"
    uc.Trace.from_members(np.ones((1, 2))).save(path)
    other = tampered(path, tmp_path / "other.npz", **{name: lambda array: np.array([Planted()], dtype=object)})
    with pytest.raises(InputError, match="trace file"):
        uc.Trace.load(other)
    assert RAN == []


def test_a_file_from_before_there_were_nodes_is_read(tmp_path: Path) -> None:
    path, older = tmp_path / "trace.npz", tmp_path / "older.npz"
    made = uc.Trace.from_members(members())
    made.save(path)
    with np.load(path, allow_pickle=False) as file:
        np.savez_compressed(older, **{name: file[name] for name in file.files if name != "node"})
    assert uc.Trace.load(older).hash == made.hash


def test_a_hash_does_not_depend_on_the_order_of_words() -> None:
    assert (
        content_hash({"a": 1, "b": 2}, []) == content_hash({"b": 2, "a": 1}, []) != content_hash({"a": 2, "b": 1}, [])
    )


def test_something_else_is_not_a_trace_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.npz"
    path.write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"expected a file written by Trace\.save"):
        uc.Trace.load(path)
    np.savez(path, members=np.zeros(3))
    with pytest.raises(InputError, match=r"expected a file written by Trace\.save"):
        uc.Trace.load(path)
    with pytest.raises(FileNotFoundError):
        uc.Trace.load(tmp_path / "absent.npz")


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "trace.npz"
    first = uc.Trace.from_members(members())
    first.save(path)

    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(OSError, match="disk full"):
        uc.Trace.from_members(members(1)).save(path)
    assert uc.Trace.load(path).hash == first.hash
    assert [p.name for p in tmp_path.iterdir()] == ["trace.npz"]


# -------------------------------------------------------------------- refusals

GRID = [[1.0, 2.0], [3.0, 4.0]]
REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "NaN member": (
        lambda: uc.Trace.from_members([[1.0, 2.0], [3.0, NAN]]),
        "trace.members[1, 1]: saw nan, expected a finite number",
    ),
    "infinite member of a panel": (
        lambda: uc.Trace.from_members([[[1.0, 2.0], [INF, 4.0]]]),
        "trace.members[0, 1, 0]: saw inf, expected a finite number",
    ),
    "text": (lambda: uc.Trace.from_members([["a"]]), "trace.members: saw list"),
    "ragged": (lambda: uc.Trace.from_members([[1.0], [1.0, 2.0]]), "trace.members: saw list"),
    "one dimension": (
        lambda: uc.Trace.from_members([1.0, 2.0]),
        "trace.members: saw shape (2,), expected shape (J, H), (W, J, H) or, with fields, one more",
    ),
    "no members": (lambda: uc.Trace.from_members(np.zeros((0, 3))), "trace.members: saw shape (0, 3)"),
    "no steps": (lambda: uc.Trace.from_members(np.zeros((3, 0))), "trace.members: saw shape (3, 0)"),
    "wrong fields": (
        lambda: uc.Trace.from_members(np.zeros((2, 3, 4)), fields=2),
        "trace.members: saw shape (2, 3, 4), expected shape (J, H, 2) or (W, J, H, 2)",
    ),
    "negative weight": (
        lambda: uc.Trace.from_members(GRID, weights=[1.0, -1.0]),
        "trace.weights[1]: saw -1.0, expected a positive weight",
    ),
    "zero weight of a window": (
        lambda: uc.Trace.from_members([GRID, GRID], weights=[[1.0, 1.0], [0.0, 1.0]]),
        "trace.weights[1, 0]: saw 0.0, expected a positive weight",
    ),
    "NaN weight": (
        lambda: uc.Trace.from_members(GRID, weights=[1.0, NAN]),
        "trace.weights[1]: saw nan, expected a finite number",
    ),
    "too many weights": (
        lambda: uc.Trace.from_members(GRID, weights=[1.0, 1.0, 1.0]),
        "trace.weights: saw shape (3,), expected shape (2,) or (1, 2)",
    ),
    "weights whose sum overflows": (
        lambda: uc.Trace.from_members(GRID, weights=[1e308, 1e308], normalise=True),
        "trace.weights",
    ),
    "weights that do not sum to one": (
        lambda: uc.Trace.from_members(GRID, weights=[1.0, 3.0]),
        "trace.weights: saw a sum of 4, expected weights that sum to 1. normalise=True divides them by their sum.",
    ),
    "weights that nearly sum to one": (
        lambda: uc.Trace.from_members(GRID, weights=[0.333, 0.666]),
        "trace.weights: saw a sum of 0.999, expected weights that sum to 1",
    ),
    "weights whose sum is 1 in six digits": (
        lambda: uc.Trace.from_members(GRID, weights=[0.5, 0.50000001]),
        "trace.weights: saw a sum of 1.00000001, expected weights that sum to 1",
    ),
    "negative sigma": (
        lambda: uc.Trace.from_members(GRID, sigma=[[1.0, 1.0], [1.0, -1.0]]),
        "trace.sigma[1, 1]: saw -1.0, expected at least 0",
    ),
    "NaN sigma": (
        lambda: uc.Trace.from_members(GRID, sigma=[[1.0, 1.0], [1.0, NAN]]),
        "trace.sigma[1, 1]: saw nan, expected a finite number",
    ),
    "sigma of another shape": (lambda: uc.Trace.from_members(GRID, sigma=[[1.0, 1.0]]), "trace.sigma: saw shape"),
    "sigma that overflows": (lambda: uc.Trace.from_members([[1e308]], sigma=[[1e308]]), "trace."),
    "no points": (
        lambda: uc.Trace.from_members(GRID, sigma=GRID, points=0),
        "trace.points: saw 0, expected a whole number from 1 to 1024",
    ),
    "coupling": (
        lambda: uc.Trace.from_members(GRID, coupling="loose"),  # type: ignore[arg-type]
        "trace.coupling: saw 'loose', expected one of ('joint', 'comonotone', 'independent', 'tree', 'markov')",
    ),
    "NaN mean": (
        lambda: uc.Trace.from_mean([1.0, NAN], [1.0, 1.0]),
        "trace.mean[1]: saw nan, expected a finite number",
    ),
    "negative deviation": (
        lambda: uc.Trace.from_mean([1.0, 1.0], [1.0, -0.5]),
        "trace.std[1]: saw -0.5, expected at least 0",
    ),
    "NaN deviation": (lambda: uc.Trace.from_mean([1.0], [NAN]), "trace.std[0]: saw nan, expected a finite number"),
    "deviation of another shape": (
        lambda: uc.Trace.from_mean([1.0, 1.0], [1.0]),
        "trace.std: saw shape (1,), expected the mean's shape (2,)",
    ),
    "mean in three dimensions": (
        lambda: uc.Trace.from_mean(np.zeros((1, 1, 1)), np.zeros((1, 1, 1))),
        "trace.mean: saw shape (1, 1, 1), expected shape (H,) or (W, H)",
    ),
    "empty mean": (
        lambda: uc.Trace.from_mean([], []),
        "trace: saw shape (1, 9, 0), expected at least one window, member and step",
    ),
    "mean that overflows": (lambda: uc.Trace.from_mean([1e308], [1e308]), "trace."),
    "unknown method": (
        lambda: uc.Trace.from_mean([1.0], [1.0], method="magic"),  # type: ignore[arg-type]
        "trace.method: saw 'magic', expected 'grid', 'sobol' or 'sampled'",
    ),
    "sampling without a generator": (
        lambda: uc.Trace.from_mean([1.0], [1.0], method="sampled"),
        "trace.rng: saw None, expected a numpy Generator for method='sampled'",
    ),
    "points of a grid": (
        lambda: uc.Trace.from_mean([1.0], [1.0], points=0),
        "trace.points: saw 0, expected a whole number from 1 to 1048576",
    ),
    "both quantile and pmf": (
        lambda: uc.Trace.from_distribution(lambda p, h: p, pmf=([1.0], [1.0]), horizon=1),
        "trace.quantile, trace.pmf: saw both or neither, expected exactly one of them",
    ),
    "neither quantile nor pmf": (
        lambda: uc.Trace.from_distribution(horizon=1),
        "trace.quantile, trace.pmf: saw both or neither",
    ),
    "horizon": (
        lambda: uc.Trace.from_distribution(lambda p, h: p, horizon=0),
        "trace.horizon: saw 0, expected a whole number of at least 1",
    ),
    "non-finite quantile function": (
        lambda: uc.Trace.from_distribution(lambda p, h: INF if h else p, horizon=2, points=2),
        "trace.quantile[0, 1]: saw inf, expected a finite number",
    ),
    "negative probability": (
        lambda: uc.Trace.from_distribution(pmf=([1.0, 2.0], [1.5, -0.5]), horizon=1),
        "trace.pmf.probabilities[1]: saw -0.5, expected at least 0",
    ),
    "probabilities that do not sum to 1": (
        lambda: uc.Trace.from_distribution(pmf=([1.0, 2.0], [0.5, 0.25]), horizon=1),
        "trace.pmf.probabilities: saw a sum of 0.75, expected a sum of 1",
    ),
    "pmf of two lengths": (
        lambda: uc.Trace.from_distribution(pmf=([1.0, 2.0], [1.0]), horizon=1),
        "trace.pmf: saw shapes (2,) and (1,), expected two equally long lists",
    ),
    "levels out of order": (
        lambda: uc.Trace.from_quantiles([0.5, 0.1], [[1.0, 2.0]]),
        "trace.levels: saw [0.5, 0.1], expected strictly ascending levels inside (0, 1)",
    ),
    "level 1": (lambda: uc.Trace.from_quantiles([0.5, 1.0], [[1.0, 2.0]]), "trace.levels: saw [0.5, 1.0]"),
    "quantiles of another width": (
        lambda: uc.Trace.from_quantiles([0.1, 0.9], [[1.0, 2.0, 3.0]]),
        "trace.quantiles: saw shape (1, 3), expected shape (H, 2) or (W, H, 2)",
    ),
    "no quantiles": (lambda: uc.Trace.from_quantiles([0.5], np.zeros((0, 1))), "trace: saw shape (1, 9, 0)"),
    "crossed quantiles": (
        lambda: uc.Trace.from_quantiles([0.1, 0.5, 0.9], [[1.0, 2.0, 3.0], [1.0, 4.0, 3.5]]),
        "trace.quantiles[1, 2]: saw 3.5 at level 0.9, expected at least 4.0, the value at level 0.5. "
        "Crossed quantiles can be repaired with crossing='sort'.",
    ),
    "crossed quantiles of a panel": (
        lambda: uc.Trace.from_quantiles([0.1, 0.9], [[[1.0, 2.0]], [[2.0, 1.0]]]),
        "trace.quantiles[1, 0, 1]: saw 1.0 at level 0.9",
    ),
    "NaN quantile": (
        lambda: uc.Trace.from_quantiles([0.1, 0.9], [[1.0, NAN]]),
        "trace.quantiles[0, 1]: saw nan, expected a finite number",
    ),
    "NaN score": (
        lambda: uc.Trace.from_scores([[1.0, NAN]], [[0.0, 0.0]]),
        "trace.q[0, 1]: saw nan, expected a finite number",
    ),
    "negative uncertainty": (
        lambda: uc.Trace.from_scores([[1.0, 1.0]], [[0.0, -1.0]]),
        "trace.u[0, 1]: saw -1.0, expected at least 0",
    ),
    "uncertainty of another shape": (
        lambda: uc.Trace.from_scores([[1.0, 1.0]], [[0.0]]),
        "trace.u: saw shape (1, 1), expected the scores' shape (1, 2)",
    ),
    "scores in one dimension": (
        lambda: uc.Trace.from_scores([1.0, 1.0], [0.0, 0.0]),
        "trace.q: saw shape (2,), expected shape (H, m) or (W, H, m)",
    ),
    "outcomes of another length": (
        lambda: uc.Trace.from_scores([[1.0, 1.0]], [[0.0, 0.0]], [1.0, 2.0]),
        "trace.outcomes: saw shape (2,), expected 1 windows x 1 steps",
    ),
    "NaN outcome": (
        lambda: uc.Trace.from_scores([[1.0], [1.0]], [[0.0], [0.0]], [1.0, NAN]),
        "trace.outcomes[1]: saw nan, expected a finite number",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_refused_with_a_message(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value).startswith(message)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_a_mean_beyond_the_floats_is_refused() -> None:
    with pytest.raises(InputError):
        uc.Trace.from_members([[1.7e308], [-1.7e308]])


def test_the_error_carries_its_parts() -> None:
    with pytest.raises(InputError) as caught:
        uc.Trace.from_members([[1.0, NAN]])
    assert (caught.value.field, caught.value.index, caught.value.expected) == (
        "trace.members",
        (0, 1),
        "a finite number",
    )
    assert isinstance(caught.value, ValueError)


def test_a_horizon_that_is_too_short_is_refused() -> None:
    trace = uc.Trace.from_members(members(shape=(3, 4)))
    with pytest.raises(InputError, match=r"policy.depth: saw 5, expected at most 4, the trace's horizon"):
        uc.search(CLOCK, Clock(0.0), trace, uc.UCBeam(depth=5))


# -------------------------------------------------------------------- marginals


def test_normal_points_have_mean_zero_and_variance_one() -> None:
    for points in (2, 3, 8, 101):
        z = normal_points(points)
        assert float(z.mean()) == pytest.approx(0.0, abs=1e-12)
        assert float((z * z).mean()) == pytest.approx(1.0)
    assert normal_points(1).tolist() == [0.0]


def test_normal_quantiles_are_the_inverse_of_the_distribution() -> None:
    level = np.linspace(0.001, 0.999, 97).reshape(1, 97)
    np.testing.assert_allclose([NormalDist().cdf(x) for x in normal_quantile(level)[0]], level[0], rtol=1e-9)


def test_levels_stay_inside_the_unit_interval() -> None:
    for method in ("grid", "sobol", "sampled"):
        level = levels(64, 3, method, np.random.default_rng(0))
        assert level.shape == (64, 3)
        assert ((level > 0) & (level < 1)).all()


def test_interpolation_is_numpy_s() -> None:
    p, table = np.array([0.1, 0.4, 0.8]), np.sort(members(9, (2, 3, 3)), axis=-1)
    level = np.random.default_rng(3).random((20, 3))
    values = interpolate(p, table, level)
    for w in range(2):
        for h in range(3):
            np.testing.assert_allclose(values[w, :, h], np.interp(level[:, h], p, table[w, h]), rtol=1e-12)


def test_the_repr_says_what_it_is() -> None:
    assert repr(uc.Trace.from_members(members(), model="arima")) == "Trace(5 members x 4 steps, joint, arima)"
    assert repr(uc.Trace.from_scores(np.zeros((2, 3)), np.zeros((2, 3)))).startswith("Trace(3 action scores x 2 steps")
    assert repr(uc.Trace.from_members(members(shape=(2, 3, 4)))).startswith("Trace(2 windows x 3 members x 4 steps")


def test_a_distribution_has_nine_points_unless_told() -> None:
    assert uc.Trace.from_distribution(lambda level, step: level, horizon=2).members.shape[:2] == (1, 9)


def test_variance_ratios_reach_to_the_horizon_with_each_windows_weights() -> None:
    members = np.random.default_rng(3).gamma(2.0, 1.0, (2, 4, 3))
    weights = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.4, 0.1, 0.1]])
    panel = uc.Trace.from_members(members, weights=weights, coupling="independent", normalise=True)
    for w in range(2):
        alone = uc.Trace.from_members(members[w], weights=weights[w], coupling="independent", normalise=True)
        assert list(panel.variance_ratios(w)) == [2, 3]
        assert panel.variance_ratios(w) == alone.variance_ratios()
    assert panel.variance_ratios(0) != panel.variance_ratios(1)


def test_the_hash_knows_the_tree() -> None:
    members = [[1.0, 2.0, 4.0], [1.0, 2.0, 5.0]]
    late = uc.Trace.from_members(members, coupling="tree", node=[[0, 1, 2], [0, 1, 3]])
    early = uc.Trace.from_members(members, coupling="tree", node=[[0, 1, 2], [0, 4, 3]])
    assert late.hash != early.hash


def test_a_time_that_is_none_is_refused() -> None:
    with pytest.raises(uc.InputError, match="one per window"):
        uc.Trace.from_members([[1.0, 2.0]], issued=object())


def test_scores_are_kept_as_given_and_zero_has_no_sign() -> None:
    spread = np.array([[0.0, 0.5, 2.0], [-0.0, 1.0, 0.25]])
    trace = uc.Trace.from_scores(-0.0 * spread, spread, [-0.0, 3.0])
    np.testing.assert_array_equal(trace.u, spread[None])
    for array in (trace.u, trace.q, trace.mean):
        assert not np.signbit(array).any()


def test_a_trace_made_by_hand_is_one_that_a_constructor_makes() -> None:
    """Whoever calls `Trace(...)` or changes a field gets what the constructors would have refused, refused."""
    trace = uc.Trace.from_members(members(shape=(2, 3, 4)))
    dataclasses.replace(trace, notes=("a", "b", "c"))
    for changes, field in (
        (dict(coupling="markov"), r"trace\.bins"),
        (dict(coupling="tree"), r"trace\.node"),
        (dict(declared=None), r"trace\.declared"),
        (dict(cutoff=("a", "b", "c")), r"trace\.cutoff"),
        (dict(issued=("a", "b", "c")), r"trace\.issued"),
    ):
        with pytest.raises(InputError, match=field):
            dataclasses.replace(trace, **changes)


def test_scores_have_no_lattice() -> None:
    trace = uc.Trace.from_scores(np.zeros((2, 3)), np.zeros((2, 3)))
    with pytest.raises(InputError, match="a trace of action scores"):
        trace.on_lattice(1.0)


def test_weights_are_taken_as_they_are_or_normalised_on_request() -> None:
    given = uc.Trace.from_members(GRID, weights=[0.25, 0.75])
    asked = uc.Trace.from_members(GRID, weights=[1.0, 3.0], normalise=True)
    assert given.hash == asked.hash
    rounded = uc.Trace.from_members(np.eye(3), weights=[0.1 + 0.2, 0.3, 0.4])  # 1 within rounding
    assert rounded.weights.sum() == 1.0
    with pytest.raises(InputError, match=r"weights\[1\].*sum of 2"):
        uc.Trace.from_members(np.ones((2, 2, 3)), weights=[[0.5, 0.5], [1.0, 1.0]])


# ---------------------------------------------------------------- a pmf of its own for each step

STEPS = [([2.0, 0.0, 5.0], [0.25, 0.5, 0.25]), (range(4), [0.1, 0.2, 0.3, 0.4]), ([7.0], [1.0])]


def marginal(trace: uc.Trace, h: int) -> dict[float, float]:
    found: dict[float, float] = {}
    for y, w in zip(trace.members[0, :, h, 0].tolist(), trace.weights[0].tolist(), strict=True):
        found[y] = found.get(y, 0.0) + w
    return found


def test_every_step_keeps_the_pmf_of_its_own() -> None:
    trace = uc.Trace.from_distribution(pmf=STEPS)
    assert (trace.horizon, trace.coupling) == (3, "comonotone")
    law = trace.declare("independent").law()
    for h, (values, probabilities) in enumerate(STEPS):
        own = dict(zip(map(float, values), probabilities, strict=True))
        assert marginal(trace, h) == pytest.approx(own, abs=1e-15)
        assert dict(zip([y for (y,) in law.points[h]], law.weights[h], strict=True)) == pytest.approx(own, abs=1e-15)
    ordered = trace.members[0][np.argsort(trace.members[0][:, 1, 0], kind="stable")]
    assert (np.diff(ordered, axis=0) >= 0).all()  # one quantile at every step


def test_levels_that_rounding_puts_apart_are_one() -> None:
    third = [1 / 3] * 3
    six = [1 / 6] * 6
    trace = uc.Trace.from_distribution(pmf=[(range(3), third), (range(6), six), (range(3), [0.1 + 0.2, 0.4, 0.3])])
    assert trace.size == 8  # sixths, and 0.3 and 0.7


def test_vectors_and_draws_have_pmfs_by_step_too() -> None:
    pairs = [([[1.0, 9.0], [2.0, 8.0]], [0.5, 0.5]), ([[3.0, 7.0]], [1.0])]
    trace = uc.Trace.from_distribution(pmf=pairs, fields=2)
    assert sorted(trace.members[0, :, 0].tolist()) == [[1.0, 9.0], [2.0, 8.0]]
    assert (trace.members[0, :, 1] == [3.0, 7.0]).all()
    drawn = uc.Trace.from_distribution(pmf=STEPS, points=4000, method="sampled", rng=np.random.default_rng(1))
    assert (drawn.members[0, :, 2, 0] == 7.0).all()
    assert np.mean(drawn.members[0, :, 1, 0] == 3.0) == pytest.approx(0.4, abs=0.03)
    assert np.mean(drawn.members[0, :, 0, 0] == 0.0) == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (dict(pmf=STEPS, horizon=2), "trace.pmf: saw 3 steps, expected 2, one for each step"),
        (dict(pmf=STEPS[0]), "trace.horizon: saw None"),
        (dict(pmf=[]), "trace.pmf: saw no steps"),
        (dict(pmf=[STEPS[0], ([1.0], [0.5])]), "trace.pmf.probabilities: saw a sum of 0.5"),
        (dict(pmf=[*STEPS[:2], [1.0, 2.0, 3.0]]), "trace.pmf[2]: saw [1.0, 2.0, 3.0], expected a pair"),
        (dict(pmf=0.5), "trace.pmf: saw float"),
    ],
)  # fmt: skip
def test_pmfs_by_step_that_are_none_are_refused(given: Any, why: str) -> None:
    with pytest.raises(InputError, match=re.escape(why)):
        uc.Trace.from_distribution(**given)
