"""Speed and memory of streamed forecasts."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator

import numpy as np

from bench.table import Row
from ucsearch.forecast import Forecaster, RidgeEnsemble, RidgePaths, SeasonalNaive, forecast_stream
from ucsearch.lab.data import Series

__all__ = ["make_series", "rows", "run"]

LENGTH, SEASON = 180, 12


def make_series(count: int, *, seed: int = 0) -> Iterator[Series]:
    """Monthly-like series, one at a time: a season, a slow random walk and noise."""
    t = np.arange(LENGTH)
    season = 10.0 * np.sin(2.0 * np.pi * t / SEASON)
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        y = 100.0 + season + np.cumsum(rng.normal(size=LENGTH)) + 5.0 * rng.normal(size=LENGTH)
        yield Series(
            id=f"B{number:06d}",
            y=y,
            frequency="monthly",
            seasonal_period=SEASON,
            horizon=12,
            n_train=LENGTH - 12,
        )


def run(
    series: int = 1000,
    origins: int = 24,
    *,
    horizon: int = 12,
    paths: int = 100,
    threads: int = 2,
    model: str = "ridge-paths",
) -> dict[str, float]:
    """Forecast `series` x `origins`; seconds, per-series cost and peak memory of the process so far."""
    models: dict[str, Forecaster] = {
        "ridge-paths": RidgePaths(paths=paths),
        "ridge-ensemble": RidgeEnsemble(models=paths),
        "seasonal-naive": SeasonalNaive(paths=paths),
    }
    forecaster = models[model]
    settings = {"horizon": horizon, "origins": origins, "threads": threads}
    # Compilation (or loading of the compiled code) is paid once per process and timed apart.
    start = time.perf_counter()
    for _ in forecast_stream(forecaster, make_series(2), rng=np.random.default_rng(0), **settings):
        pass
    warm_s = time.perf_counter() - start
    checksum = 0.0
    start = time.perf_counter()
    for _, forecast in forecast_stream(forecaster, make_series(series), rng=np.random.default_rng(1), **settings):
        checksum += float(forecast.mean[-1, -1])
    wall_s = time.perf_counter() - start
    unit = 1024 if sys.platform != "darwin" else 1
    return {
        "series": series,
        "origins": origins,
        "paths": paths,
        "horizon": horizon,
        "threads": threads,
        "warm_s": round(warm_s, 3),
        "wall_s": round(wall_s, 3),
        "ms_per_series": round(1e3 * wall_s / series, 4),
        "us_per_trace": round(1e6 * wall_s / (series * origins), 2),
        "wall_s_10000_series": round(1e4 * wall_s / series, 1),
        "peak_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20, 1),
        "checksum": checksum,
    }


def rows() -> list[Row]:
    """Each built-in way on a thousand series."""
    out = []
    for model in ("ridge-paths", "ridge-ensemble", "seasonal-naive"):
        found = run(model=model)
        peak = f"{found['ms_per_series']:.2f} ms a series, peak of the process {found['peak_mb']:.0f} MB"
        out.append(Row("forecasts", f"{model}, 1,000 series", found["us_per_trace"], "us a forecast", note=peak))
    return out
