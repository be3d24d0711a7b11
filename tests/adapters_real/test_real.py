"""The adapters on what the libraries themselves return; run by `make test-torch` in an environment that has them.

Models are local, with random weights, and tiny; nothing is downloaded.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
pytest.importorskip("statsforecast", reason="needs requirements/torch.in; run `make test-torch`")

import pandas as pd
from statsforecast import StatsForecast
from statsforecast.models import AutoETS, SeasonalNaive

from ucsearch import InputError, Trace
from ucsearch.adapters import to_traces
from ucsearch.adapters.front import recognise

LEVELS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
STARTS = ("2024-01-01T00:00:00", "2024-01-01T00:00:00")


def history(id_col: str = "unique_id", time_col: str = "ds", target: str = "y", freq: str = "MS") -> Any:
    """Two series of 48 steps, b before a: libraries keep or sort the order, the adapters keep what they see."""
    rng = np.random.default_rng(0)
    times = pd.date_range("2020-01-01", periods=48, freq=freq)
    parts = [
        pd.DataFrame({id_col: name, time_col: times, target: 20 + rng.normal(size=48) + np.arange(48) % 12})
        for name in ("b", "a")
    ]
    return pd.concat(parts, ignore_index=True)


# ---------------------------------------------------------------- statsforecast


@pytest.fixture(scope="module")
def stats() -> Any:
    return StatsForecast(models=[SeasonalNaive(12), AutoETS(12)], freq="MS")


@pytest.mark.parametrize("model", ["SeasonalNaive", "AutoETS"])
def test_statsforecast_levels(stats: Any, model: str) -> None:
    frame = stats.forecast(df=history(), h=3, level=[50, 80, 95])
    made = to_traces(frame, model=model, coupling="comonotone", points=19)
    assert made.ids == tuple(dict.fromkeys(frame["unique_id"]))
    assert made.ds == STARTS
    for name in made.ids:
        rows = frame[frame["unique_id"] == name]
        names = [f"{model}-lo-95", f"{model}-lo-80", f"{model}-lo-50", model] + [
            f"{model}-hi-{x}" for x in (50, 80, 95)
        ]
        plain = Trace.from_quantiles([0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975], rows[names].to_numpy(), points=19)
        assert np.array_equal(made[name].members, plain.members)
    with pytest.raises(InputError, match="comonotone"):
        to_traces(frame, model=model)


def test_statsforecast_in_polars_gives_the_same_trace(stats: Any) -> None:
    polars = pytest.importorskip("polars")
    frame = stats.forecast(df=history(), h=3, level=[90])
    native = StatsForecast(models=[SeasonalNaive(12), AutoETS(12)], freq="1mo").forecast(
        df=polars.from_pandas(history()), h=3, level=[90]
    )
    assert isinstance(native, polars.DataFrame)
    one, other = (to_traces(f, model="SeasonalNaive", coupling="comonotone") for f in (frame, native))
    assert one.ids == other.ids
    assert one.panel.hash == other.panel.hash


def test_statsforecast_cross_validation(stats: Any) -> None:
    frame = stats.cross_validation(df=history(), h=3, n_windows=2, step_size=3, level=[90])
    made = to_traces(frame, model="AutoETS", coupling="comonotone")
    assert len(made) == 4
    assert made.cutoff == ("2023-06-01T00:00:00", "2023-09-01T00:00:00") * 2
    rows = frame[(frame["unique_id"] == "a") & (frame["cutoff"] == "2023-09-01")]
    middle = made["a", "2023-09-01"].members[0, 4, :, 0]
    assert middle.tolist() == rows["AutoETS"].tolist()


def test_statsforecast_simulate(stats: Any) -> None:
    if not hasattr(stats, "simulate"):
        pytest.skip("this statsforecast has no simulate")
    frame = stats.simulate(h=3, df=history(), n_paths=20, seed=1)
    made = to_traces(frame, model="AutoETS", cutoff="2023-12-01")
    assert made.panel.coupling == "joint"
    paths = frame.loc[frame["unique_id"] == "a", "AutoETS"].to_numpy().reshape(20, 3)
    assert np.array_equal(made["a"].members, Trace.from_members(paths).members)


# ---------------------------------------------------------------- Chronos


@pytest.fixture(scope="module")
def chronos_t5(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Written to disk and read back by the library's own loader."""
    chronos = pytest.importorskip("chronos")
    torch = pytest.importorskip("torch")
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    config = T5Config(
        vocab_size=64, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, pad_token_id=0, eos_token_id=1,
        decoder_start_token_id=0,
    )  # fmt: skip
    config.chronos_config = {
        "tokenizer_class": "MeanScaleUniformBins", "tokenizer_kwargs": {"low_limit": -15.0, "high_limit": 15.0},
        "n_tokens": 64, "n_special_tokens": 2, "pad_token_id": 0, "eos_token_id": 1, "use_eos_token": True,
        "model_type": "seq2seq", "context_length": 32, "prediction_length": 4, "num_samples": 20, "temperature": 1.0,
        "top_k": 50, "top_p": 1.0,
    }  # fmt: skip
    folder: Path = tmp_path_factory.mktemp("chronos")
    T5ForConditionalGeneration(config).save_pretrained(folder)
    return chronos.ChronosPipeline.from_pretrained(folder)


def bolt() -> Any:
    chronos = pytest.importorskip("chronos")
    torch = pytest.importorskip("torch")
    from chronos.chronos_bolt import ChronosBoltModelForForecasting
    from transformers import T5Config

    torch.manual_seed(0)
    config = T5Config(
        vocab_size=2, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_decoder_layers=1, num_heads=2, pad_token_id=0,
        decoder_start_token_id=0, initializer_factor=0.05,
    )  # fmt: skip
    config.chronos_config = {
        "context_length": 32, "prediction_length": 4, "input_patch_size": 8, "input_patch_stride": 8,
        "quantiles": LEVELS, "use_reg_token": True,
    }  # fmt: skip
    return chronos.ChronosBoltPipeline(ChronosBoltModelForForecasting(config).eval())


def chronos_2() -> Any:
    chronos = pytest.importorskip("chronos")
    if not hasattr(chronos, "Chronos2Pipeline"):
        pytest.skip("this chronos-forecasting has no Chronos-2")
    torch = pytest.importorskip("torch")
    from chronos.chronos2.config import Chronos2CoreConfig

    torch.manual_seed(0)
    config = Chronos2CoreConfig(d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2)
    config.chronos_config = {
        "context_length": 32, "output_patch_size": 4, "input_patch_size": 4, "input_patch_stride": 4,
        "quantiles": LEVELS, "use_reg_token": True, "use_arcsinh": True, "max_output_patches": 2,
        "time_encoding_scale": 32,
    }  # fmt: skip
    config.reg_token_id = 1
    return chronos.Chronos2Pipeline(chronos.Chronos2Model(config).eval())


def contexts() -> Any:
    import torch

    frame = history()
    return [torch.tensor(frame.loc[frame["unique_id"] == name, "y"].to_numpy()) for name in ("b", "a")]


def test_chronos_samples(chronos_t5: Any) -> None:
    samples = chronos_t5.predict(contexts(), prediction_length=4)
    made = to_traces(samples, ids=["b", "a"], ds="2024-01-01", model="t5")
    assert recognise(samples) == "chronos"
    assert np.array_equal(made.panel.members, Trace.from_members(samples.double().numpy()).members)


def test_chronos_frame(chronos_t5: Any) -> None:
    data = history("item_id", "timestamp", "target")
    frame = chronos_t5.predict_df(data, prediction_length=2, quantile_levels=[0.1, 0.5, 0.9])
    made = to_traces(frame, coupling="comonotone", points=7)
    assert recognise(frame) == "chronos"
    assert made.ids == ("b", "a")
    assert made.ds == STARTS
    rows = frame.loc[frame["item_id"] == "a", ["0.1", "0.5", "0.9"]].to_numpy()
    assert np.array_equal(made["a"].members, Trace.from_quantiles([0.1, 0.5, 0.9], rows, points=7).members)


def test_bolt_quantiles_cross_and_are_repaired_on_request() -> None:
    """Random weights give crossed quantiles, as trained ones sometimes do."""
    pipeline = bolt()
    quantiles = pipeline.predict(contexts(), prediction_length=3)
    options: dict[str, Any] = {"levels": LEVELS, "coupling": "comonotone", "ids": ["b", "a"]}
    with pytest.raises(InputError, match=r"chronos.values\[series 'b', step 0, level"):
        to_traces(quantiles, **options)
    made = to_traces(quantiles, crossing="sort", **options)
    assert [repair.id for repair in made.report] == ["b", "a"]
    table = np.sort(np.swapaxes(quantiles.double().numpy(), 1, 2), axis=2)
    assert np.array_equal(made.panel.members, Trace.from_quantiles(LEVELS, table).members)
    pair = pipeline.predict_quantiles(contexts(), prediction_length=3, quantile_levels=LEVELS)
    assert np.array_equal(to_traces(pair, crossing="sort", **options).panel.members, made.panel.members)


def test_chronos_2_arrays_and_targets() -> None:
    pipeline = chronos_2()
    options: dict[str, Any] = {"coupling": "comonotone", "crossing": "sort"}
    quantiles = pipeline.predict(contexts(), prediction_length=3)
    made = to_traces(quantiles, levels=LEVELS, **options)
    table = np.sort(np.swapaxes(np.concatenate([q.double().numpy() for q in quantiles]), 1, 2), axis=2)
    assert np.array_equal(made.panel.members, Trace.from_quantiles(LEVELS, table).members)
    pair = pipeline.predict_quantiles(contexts(), prediction_length=3, quantile_levels=LEVELS)
    assert np.allclose(to_traces(pair, levels=LEVELS, **options).panel.members, made.panel.members, atol=1e-6)
    data = history("item_id", "timestamp", "sales").assign(returns=lambda d: d["sales"] / 10)
    frame = pipeline.predict_df(data, prediction_length=2, quantile_levels=[0.1, 0.5, 0.9], target=["sales", "returns"])
    with pytest.raises(InputError, match=r"2 targets \['sales', 'returns'\]"):
        to_traces(frame, **options)
    returns = to_traces(frame, target="returns", **options)
    assert returns.ids == ("b", "a")
    assert returns.panel.mean.max() < to_traces(frame, target="sales", **options).panel.mean.min()


# ---------------------------------------------------------------- GluonTS, Darts, sktime, AutoGluon


def test_gluonts_forecasts() -> None:
    pytest.importorskip("gluonts")
    from gluonts.model.forecast import QuantileForecast, SampleForecast

    rng = np.random.default_rng(1)
    start = pd.Period("2024-01", freq="M")
    samples = rng.normal(size=(2, 10, 3))
    forecasts = (SampleForecast(samples[i], start_date=start, item_id=name) for i, name in enumerate("ba"))
    made = to_traces(forecasts, model="deepar")
    assert made.ids == ("b", "a")
    assert made.ds == STARTS
    assert np.array_equal(made.panel.members, Trace.from_members(samples).members)
    table = np.sort(rng.normal(size=(3, 3)), axis=0)
    quantile = QuantileForecast(
        forecast_arrays=np.vstack([table, table[1]]), start_date=start, forecast_keys=["0.1", "p50", "0.9", "mean"],
        item_id="a",
    )  # fmt: skip
    assert recognise(quantile) == "gluonts"
    made = to_traces(quantile, coupling="comonotone")
    assert np.array_equal(made.panel.members[0], Trace.from_quantiles([0.1, 0.5, 0.9], table.T).members[0])


def test_gluonts_predictor() -> None:
    pytest.importorskip("gluonts")
    from gluonts.dataset.pandas import PandasDataset
    from gluonts.model.seasonal_naive import SeasonalNaivePredictor

    data = PandasDataset.from_long_dataframe(history(), target="y", item_id="unique_id", timestamp="ds", freq="M")
    made = to_traces(SeasonalNaivePredictor(prediction_length=3, season_length=12).predict(data))
    assert sorted(made.ids) == ["a", "b"]
    assert made.panel.size == 1
    frame = history()
    last_year = frame.loc[frame["unique_id"] == "a", "y"].to_numpy()[36:39]
    assert made["a"].members[0, 0, :, 0] == pytest.approx(last_year, rel=1e-6)


def test_darts_samples_and_quantiles() -> None:
    darts = pytest.importorskip("darts")
    times = pd.date_range("2024-01-01", periods=3, freq="MS")
    values = np.random.default_rng(2).normal(size=(3, 1, 50))
    series = darts.TimeSeries.from_times_and_values(times, values, columns=["sales"])
    made = to_traces(series)
    assert made.ids == ("sales",)
    assert made.ds == STARTS[:1]
    assert np.array_equal(made.panel.members[0], Trace.from_members(values[:, 0, :].T).members[0])
    quantiles = series.quantile([0.1, 0.5, 0.9])
    cut = to_traces(quantiles, coupling="comonotone", points=5)
    assert cut.ids == ("sales",)
    want = np.quantile(values[:, 0, :], [0.1, 0.5, 0.9], axis=1).T
    assert np.allclose(cut.panel.members[0], Trace.from_quantiles([0.1, 0.5, 0.9], want, points=5).members[0])


def test_darts_model() -> None:
    pytest.importorskip("darts")
    from darts import TimeSeries
    from darts.models import ExponentialSmoothing

    frame = history()
    series = TimeSeries.from_dataframe(frame[frame["unique_id"] == "a"], "ds", "y")
    forecast = ExponentialSmoothing(seasonal_periods=12).fit(series).predict(3, num_samples=25)
    made = to_traces(forecast, ids=["a"])
    assert (made.panel.size, made.panel.horizon, made.ds) == (25, 3, STARTS[:1])


def test_sktime_forecaster() -> None:
    pytest.importorskip("sktime")
    from sktime.forecasting.naive import NaiveForecaster

    panel = history(freq="D").set_index(["unique_id", "ds"])
    single = panel.loc["a", "y"].asfreq("D")
    fitted = NaiveForecaster(sp=12).fit(single, fh=[1, 2, 3])
    quantiles = fitted.predict_quantiles(alpha=[0.1, 0.9])
    intervals = fitted.predict_interval(coverage=[0.8])
    one, other = (to_traces(f, coupling="comonotone", id="a") for f in (quantiles, intervals))
    assert one.ds == ("2020-02-18T00:00:00",)
    assert np.allclose(one.panel.members, other.panel.members)
    plain = Trace.from_quantiles([0.1, 0.9], quantiles.to_numpy())
    assert np.array_equal(one.panel.members, plain.members)
    many = NaiveForecaster(sp=12).fit(panel, fh=[1, 2, 3]).predict_quantiles(alpha=[0.1, 0.9])
    made = to_traces(many, coupling="comonotone")
    assert sorted(made.ids) == ["a", "b"]
    assert np.allclose(made["a"].members, one.panel.members)
    periods = NaiveForecaster(sp=12).fit(single.to_period("D"), fh=[1, 2, 3]).predict_quantiles(alpha=[0.1, 0.9])
    assert to_traces(periods, coupling="comonotone").ds == ("2020-02-18",)


def test_autogluon_predictor(tmp_path: Path) -> None:
    pytest.importorskip("autogluon.timeseries")
    from autogluon.timeseries import TimeSeriesDataFrame, TimeSeriesPredictor

    data = TimeSeriesDataFrame.from_data_frame(history("item_id", "timestamp", "target"))
    predictor = TimeSeriesPredictor(prediction_length=3, verbosity=0, path=str(tmp_path / "autogluon"))
    forecast = predictor.fit(data, hyperparameters={"SeasonalNaive": {}}).predict(data)
    made = to_traces(forecast, coupling="comonotone", model="SeasonalNaive")
    assert recognise(forecast) == "autogluon"
    assert sorted(made.ids) == ["a", "b"]
    assert made.ds == STARTS
    rows = forecast.loc["a"][[str(level) for level in LEVELS]].to_numpy()
    assert np.array_equal(made["a"].members, Trace.from_quantiles(LEVELS, rows).members)


# ---------------------------------------------------------------- the page


def test_snippets_of_the_page(chronos_t5: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every snippet of docs/how-to/adapters.md, in order, as far as the library is installed."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "adapters.md").read_text()
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"pipeline": chronos_t5}
    ran = []
    for block in (part.split("```")[0] for part in page.split("```python\n")[1:]):
        if "from autogluon" in block and importlib.util.find_spec("autogluon") is None:
            continue
        names.pop("traces", None)
        exec(compile(block, "docs/how-to/adapters.md", "exec"), names)
        if "traces" in names:
            ran.append(len(names["traces"]))
    assert len(ran) >= 7
    assert set(ran) <= {2, 4}
