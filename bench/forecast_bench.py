"""Speed and memory of the streamed ridge forecaster: `python -m bench.forecast_bench --series 1000`."""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Iterator

import numpy as np

from ucsearch.forecast import Forecaster, RidgeEnsemble, RidgePaths, SeasonalNaive, forecast_stream
from ucsearch.lab.data import Series

__all__ = ["make_series", "run"]

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--series", type=int, default=1000)
    parser.add_argument("--origins", type=int, default=24)
    parser.add_argument("--paths", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", default="ridge-paths")
    args = parser.parse_args()
    result = run(args.series, args.origins, paths=args.paths, threads=args.threads, model=args.model)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
