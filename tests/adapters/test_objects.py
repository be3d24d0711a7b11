"""GluonTS and Darts objects, Chronos tensors, plain arrays."""

import re
from datetime import datetime

import numpy as np
import pytest

from tests.adapters.recorded import QuantileForecast, SampleForecast, Tensor, TimeSeries
from ucsearch import InputError, Trace
from ucsearch.adapters import from_chronos, from_darts, from_gluonts, from_wide

START = datetime(2024, 1, 1)
PATHS = np.array([[[1.0, 2.5, 3.0], [2.0, 1.5, 0.0]], [[5.0, 5.0, 7.0], [4.0, 6.0, 5.0]]])  # (W, J, H)
LEVELS = [0.1, 0.5, 0.9]
TABLE = np.array([[[1.0, 2.0, 4.0], [2.0, 2.5, 3.0]], [[0.0, 1.0, 1.0], [3.0, 5.0, 9.0]]])  # (W, H, Q)


# ---------------------------------------------------------------- GluonTS


def test_gluonts_samples() -> None:
    forecasts = [SampleForecast(PATHS[i], START, name) for i, name in enumerate("ab")]
    made = from_gluonts(forecasts, model="deepar")
    assert made.ids == ("a", "b")
    assert made.ds == ("2024-01-01T00:00:00",) * 2
    assert made.panel.coupling == "joint"
    assert np.array_equal(made.panel.members, Trace.from_members(PATHS).members)
    assert from_gluonts(forecasts[1]).panel.windows == 1
    assert from_gluonts(iter(forecasts), model="deepar").panel.hash == made.panel.hash


def test_gluonts_quantiles() -> None:
    keys = ["0.9", "mean", "0.1", "0.5"]
    forecasts = [
        QuantileForecast([table[:, 2], table[:, 1] + 7.0, table[:, 0], table[:, 1]], START, keys, name)
        for table, name in zip(TABLE, "ab", strict=True)
    ]
    made = from_gluonts(forecasts, coupling="comonotone", points=7)
    assert np.array_equal(made.panel.members, Trace.from_quantiles(LEVELS, TABLE, points=7).members)
    with pytest.raises(InputError, match=r"gluonts.coupling: saw none"):
        from_gluonts(forecasts)
    forecasts[1].forecast_array[3, 1] = 20.0
    with pytest.raises(InputError, match=re.escape("gluonts.0.9[series 'b', step 1]: saw 9.0 at level 0.9")):
        from_gluonts(forecasts, coupling="comonotone")


def test_gluonts_rolling_windows_share_an_id() -> None:
    later = datetime(2024, 1, 8)
    made = from_gluonts([SampleForecast(PATHS[0], START, "a"), SampleForecast(PATHS[1], later, "a")])
    assert np.array_equal(made["a", "2024-01-08"].members, Trace.from_members(PATHS[1]).members)
    with pytest.raises(InputError, match="'a' at 2024-01-01T00:00:00 again"):
        from_gluonts([SampleForecast(PATHS[0], START, "a"), SampleForecast(PATHS[1], START, "a")])


def test_gluonts_faults() -> None:
    with pytest.raises(InputError, match=re.escape("gluonts.item_id[0]: saw none")):
        from_gluonts(SampleForecast(PATHS[0], START, None))
    assert from_gluonts(SampleForecast(PATHS[0], START, None), ids=["x"]).ids == ("x",)
    bad = PATHS[0].copy()
    bad[1, 2] = np.nan
    with pytest.raises(InputError, match=re.escape("gluonts.samples[series 'a', sample 1, step 2]: saw nan")):
        from_gluonts(SampleForecast(bad, START, "a"))
    many = SampleForecast(np.stack([PATHS[0], PATHS[1]], axis=2), START, "a")
    with pytest.raises(InputError, match="component=0 to 1"):
        from_gluonts(many)
    assert np.array_equal(from_gluonts(many, component=1).panel.members, Trace.from_members(PATHS[1:]).members)
    mixed = [SampleForecast(PATHS[0], START, "a"), QuantileForecast(TABLE[0].T, START, ["0.1", "0.5", "0.9"], "b")]
    with pytest.raises(InputError, match="same kind and levels"):
        from_gluonts(mixed, coupling="comonotone")
    short = [SampleForecast(PATHS[0], START, "a"), SampleForecast(PATHS[1][:, :2], START, "b")]
    with pytest.raises(InputError, match=re.escape("gluonts.steps[series 'b', sample 1, step 1 (the last)]: saw 2")):
        from_gluonts(short)
    assert [t.horizon for t in from_gluonts(short, ragged=True)] == [3, 2]
    for nothing in ([], 3):
        with pytest.raises(InputError, match="gluonts"):
            from_gluonts(nothing)


# ---------------------------------------------------------------- Darts


def test_darts_samples() -> None:
    one = TimeSeries(PATHS[0].T[:, None, :], ["sales"], START)
    two = TimeSeries(PATHS[1].T[:, None, :], ["sales"], START)
    made = from_darts([one, two], ids=["a", "b"])
    assert made.ids == ("a", "b")
    assert made.ds == ("2024-01-01T00:00:00",) * 2
    assert np.array_equal(made.panel.members, Trace.from_members(PATHS).members)
    assert from_darts(one).ids == ("sales",)
    assert from_darts([one, two]).ids == ("0", "1")


def test_darts_quantile_components() -> None:
    names = ["sales_q0.10", "sales_q0.50", "sales_q0.90", "stock_q0.10", "stock_q0.50", "stock_q0.90"]
    series = TimeSeries(np.concatenate([TABLE[0], TABLE[1]], axis=1), names, START)
    made = from_darts(series, component="stock", coupling="comonotone", points=7)
    assert made.ids == ("stock",)
    assert np.array_equal(made.panel.members, Trace.from_quantiles(LEVELS, TABLE[1:], points=7).members)
    with pytest.raises(InputError, match=r"components \['sales', 'stock'\]"):
        from_darts(series, coupling="comonotone")
    with pytest.raises(InputError, match=r"darts.coupling: saw none"):
        from_darts(series, component="stock")
    with pytest.raises(InputError, match=r"'price', expected one of \['sales', 'stock'\]"):
        from_darts(series, component="price", coupling="comonotone")


def test_darts_faults() -> None:
    certain = TimeSeries(PATHS[0].T[:, :1], ["sales"], START)
    with pytest.raises(InputError, match="num_samples=100"):
        from_darts(certain, coupling="comonotone")
    bad = PATHS[0].T[:, None, :].copy()
    bad[2, 0, 1] = np.inf
    with pytest.raises(InputError, match=re.escape("darts.sales[series 'sales', sample 1, step 2]: saw inf")):
        from_darts(TimeSeries(bad, ["sales"], START))
    for nothing in ([], [3]):
        with pytest.raises(InputError, match="darts"):
            from_darts(nothing)


# ---------------------------------------------------------------- Chronos arrays


def test_chronos_samples() -> None:
    made = from_chronos(Tensor(PATHS.astype(np.float32)), ids=["a", "b"], ds="2024-01-01", model="t5")
    assert np.array_equal(made.panel.members, Trace.from_members(PATHS).members)
    assert made.panel.coupling == "joint"
    assert made.ds == ("2024-01-01",) * 2
    assert from_chronos(PATHS).ids == ("0", "1")


def test_chronos_quantile_layouts_agree() -> None:
    """Bolt: (series, levels, horizon). Chronos-2: one (variates, levels, horizon) each. predict_quantiles: a pair."""
    bolt = np.swapaxes(TABLE, 1, 2)
    two = [Tensor(part[None]) for part in bolt]
    pair = (Tensor(TABLE), Tensor(TABLE[:, :, 1]))
    listed = ([Tensor(part[None]) for part in TABLE], [Tensor(part[None, :, 1]) for part in TABLE])
    want = Trace.from_quantiles(LEVELS, TABLE, points=7).members
    for forecast in (bolt, two, pair, listed):
        made = from_chronos(forecast, levels=LEVELS, coupling="comonotone", points=7)
        assert np.array_equal(made.panel.members, want)
    several = [Tensor(np.stack([part + 50.0, part])) for part in bolt]
    made = from_chronos(several, levels=LEVELS, coupling="comonotone", points=7, variate=1)
    assert np.array_equal(made.panel.members, want)
    with pytest.raises(InputError, match="2 variates"):
        from_chronos(several, levels=LEVELS, coupling="comonotone")


def test_chronos_quantiles_do_not_pass_for_samples() -> None:
    rising = np.swapaxes(TABLE, 1, 2)
    with pytest.raises(InputError, match=r"as quantiles do.*levels=\[0.1, ..., 0.9\].*kind='samples'"):
        from_chronos(rising)
    assert from_chronos(rising, kind="samples").panel.coupling == "joint"
    assert from_chronos(np.zeros((2, 5, 3))).panel.size == 5  # constant, which samples of nothing are
    with pytest.raises(InputError, match=r"chronos.levels: saw none, expected 3 quantile levels"):
        from_chronos((TABLE, TABLE[..., 1]))


def test_chronos_faults() -> None:
    bolt = np.swapaxes(TABLE, 1, 2)
    with pytest.raises(InputError, match="3 quantiles per step, expected 2"):
        from_chronos(bolt, levels=[0.1, 0.9], coupling="comonotone")
    with pytest.raises(InputError, match="strictly ascending levels"):
        from_chronos(bolt, levels=[0.5, 0.1, 0.9], coupling="comonotone")
    bad = bolt.copy()
    bad[1, 2, 0] = -1.0
    with pytest.raises(InputError, match=re.escape("chronos.values[series 'b', step 0, level 0.9]: saw -1.0 at level")):
        from_chronos(bad, levels=LEVELS, ids=["a", "b"], coupling="comonotone")
    made = from_chronos(bad, levels=LEVELS, ids=["a", "b"], coupling="comonotone", crossing="sort")
    assert [(r.id, r.steps) for r in made.report] == [("b", (0,))]
    with pytest.raises(InputError, match="shape"):
        from_chronos(np.zeros(3))
    with pytest.raises(InputError, match="3 ids, expected 2"):
        from_chronos(PATHS, ids=["a", "b", "c"])


# ---------------------------------------------------------------- plain arrays


def test_wide_paths() -> None:
    want = Trace.from_members(PATHS).members
    for values in (PATHS, PATHS.tolist(), list(PATHS), Tensor(PATHS)):
        assert np.array_equal(from_wide(values).panel.members, want)
    made = from_wide({"a": PATHS[0], "b": PATHS[1]}, cutoff={"a": "2023-12-30", "b": "2023-12-31"})
    assert made.ids == ("a", "b")
    assert made["b"].cutoff == ("2023-12-31",)
    assert from_wide(PATHS[0]).panel.windows == 1


def test_wide_quantiles() -> None:
    want = Trace.from_quantiles(LEVELS, TABLE, points=7).members
    made = from_wide(TABLE, levels=LEVELS, coupling="comonotone", points=7)
    assert np.array_equal(made.panel.members, want)
    with pytest.raises(InputError, match=r"wide.coupling: saw none"):
        from_wide(TABLE, levels=LEVELS)
    with pytest.raises(InputError, match=re.escape("wide.values[0]: saw shape (2, 3), expected shape (H, 2)")):
        from_wide(TABLE, levels=[0.1, 0.9], coupling="comonotone")


def test_wide_mean_and_deviation() -> None:
    mean, std = np.array([[5.0, 6.0], [7.0, 8.0]]), np.array([[1.0, 2.0], [0.5, 0.0]])
    made = from_wide(mean, std=std, coupling="comonotone", points=3)
    assert np.array_equal(made.panel.members, Trace.from_mean(mean, std, points=3).members)
    by_id = from_wide({"a": mean[0], "b": mean[1]}, std={"b": std[1], "a": std[0]}, coupling="comonotone", points=3)
    assert np.array_equal(by_id.panel.members, made.panel.members)
    with pytest.raises(InputError, match=re.escape("wide.values[series '1', step 0, std]: saw -0.5")):
        from_wide(mean, std=std * [[1, 1], [-1, 1]], coupling="comonotone")
    with pytest.raises(InputError, match=r"wide.coupling: saw none"):
        from_wide(mean, std=std)
    with pytest.raises(InputError, match="the means' shape"):
        from_wide(mean, std=std[0], coupling="comonotone")
    with pytest.raises(InputError, match="the same ids as the means"):
        from_wide({"a": mean[0]}, std={"b": std[1]}, coupling="comonotone")


def test_wide_faults() -> None:
    bad = PATHS.copy()
    bad[1, 0, 2] = np.nan
    with pytest.raises(InputError, match=re.escape("wide.values[series 'y', member 0, step 2]: saw nan")):
        from_wide(bad, ids=["x", "y"])
    with pytest.raises(InputError, match=re.escape("wide.ids[1]: saw 'x' again")):
        from_wide(PATHS, ids=["x", "x"])
    with pytest.raises(InputError, match=r"wide.steps"):
        from_wide([PATHS[0], PATHS[1][:, :2]])
    assert [t.horizon for t in from_wide([PATHS[0], PATHS[1][:, :2]], ragged=True)] == [3, 2]
    for values in ([1.0, 2.0], "x", np.zeros((0, 3))):
        with pytest.raises(InputError, match=r"wide.values"):
            from_wide(values)
