"""Forecasts as the libraries wrote them (values rounded), and objects with the attributes that the adapters read."""

from __future__ import annotations

from copy import deepcopy
from datetime import datetime
from typing import Any

import numpy as np

from ucsearch.formatting import make_frame

BACKENDS = ("pandas", "polars", "pyarrow")


def months(*numbers: int, year: int = 2024) -> list[datetime]:
    return [datetime(year, n, 1) for n in numbers]


# StatsForecast(models=[SeasonalNaive(12), AutoETS(12)], freq="MS").forecast(df=df, h=3, level=[80, 90])
FORECAST: dict[str, list[Any]] = {
    "unique_id": ["a", "a", "a", "b", "b", "b"],
    "ds": months(1, 2, 3, 1, 2, 3),
    "SeasonalNaive": [9.346, 10.87, 12.784, 8.722, 11.63, 12.581],
    "SeasonalNaive-lo-80": [7.698, 9.222, 11.136, 6.922, 9.83, 10.781],
    "SeasonalNaive-lo-90": [7.23, 8.755, 10.668, 6.412, 9.32, 10.271],
    "SeasonalNaive-hi-80": [10.995, 12.519, 14.432, 10.523, 13.431, 14.381],
    "SeasonalNaive-hi-90": [11.462, 12.986, 14.9, 11.033, 13.941, 14.892],
    "AutoETS": [10.316, 11.685, 12.632, 10.285, 11.03, 13.127],
    "AutoETS-lo-90": [8.8, 10.119, 11.018, 8.597, 9.342, 11.439],
    "AutoETS-lo-80": [9.135, 10.465, 11.374, 8.97, 9.715, 11.812],
    "AutoETS-hi-80": [11.498, 12.906, 13.89, 11.599, 12.344, 14.442],
    "AutoETS-hi-90": [11.833, 13.251, 14.247, 11.972, 12.717, 14.814],
}

# .cross_validation(df=df, h=2, n_windows=2, step_size=2, level=[90])
CROSS_VALIDATION: dict[str, list[Any]] = {
    "unique_id": ["a", "a", "a", "a", "b", "b", "b", "b"],
    "ds": months(9, 10, 11, 12, 9, 10, 11, 12, year=2023),
    "cutoff": months(8, 8, 10, 10, 8, 8, 10, 10, year=2023),
    "y": [18.264, 18.686, 21.458, 22.96, 17.567, 18.265, 20.25, 22.031],
    "AutoETS": [17.741, 19.276, 19.743, 21.298, 18.434, 18.309, 19.529, 20.67],
    "AutoETS-lo-90": [16.212, 17.747, 18.248, 19.802, 16.689, 16.564, 17.842, 18.982],
    "AutoETS-hi-90": [19.269, 20.805, 21.239, 22.795, 20.18, 20.055, 21.217, 22.357],
}

# .simulate(h=2, n_paths=3, df=df, seed=1)
SIMULATE: dict[str, list[Any]] = {
    "unique_id": ["a"] * 6 + ["b"] * 6,
    "ds": months(1, 2, 1, 2, 1, 2, 1, 2, 1, 2, 1, 2),
    "sample_id": [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2],
    "SeasonalNaive": [9.912, 9.706, 9.513, 10.658, 10.413, 10.18, 8.313, 11.328, 9.788, 11.961, 8.931, 10.215],
    "AutoETS": [10.722, 10.956, 10.436, 11.564, 11.081, 11.388, 9.986, 10.808, 11.063, 11.273, 10.437, 9.996],
}

# ChronosPipeline.predict_df(df, prediction_length=2, quantile_levels=[0.1, 0.5, 0.9]); series in order of appearance
CHRONOS: dict[str, list[Any]] = {
    "item_id": ["b", "b", "a", "a"],
    "timestamp": [datetime(2020, 1, 25), datetime(2020, 1, 26), datetime(2020, 1, 25), datetime(2020, 1, 26)],
    "target_name": ["target"] * 4,
    "predictions": [-24.715, -60.304, 5.127, 16.405],
    "0.1": [-69.201, -98.859, -83.049, -36.911],
    "0.5": [-44.486, -69.201, 25.633, 41.012],
    "0.9": [32.623, -15.817, 79.974, 49.214],
}

# TimeSeriesPredictor.predict, with its index as columns
AUTOGLUON: dict[str, list[Any]] = {
    "item_id": ["a", "a", "b", "b"],
    "timestamp": [datetime(2020, 2, 18), datetime(2020, 2, 19), datetime(2020, 2, 18), datetime(2020, 2, 19)],
    "mean": [11.514, 11.346, 11.689, 9.713],
    "0.1": [9.715, 9.547, 9.822, 7.845],
    "0.5": [11.514, 11.346, 11.689, 9.713],
    "0.9": [13.313, 13.145, 13.556, 11.58],
}


def frame(columns: dict[str, list[Any]], backend: str = "pandas", **changed: list[Any]) -> Any:
    """A native frame with some columns changed; `None` instead of a list drops the column."""
    merged = {**deepcopy(columns), **changed}
    return make_frame({name: values for name, values in merged.items() if values is not None}, backend)


def but(values: list[Any], **at: Any) -> list[Any]:
    """The list with entries changed: but(x, _2=nan)."""
    out = list(values)
    for key, value in at.items():
        out[int(key[1:])] = value
    return out


class Period:
    """A pandas Period as far as the adapters look."""

    def __init__(self, start: datetime) -> None:
        self.start_time = start


class SampleForecast:
    """gluonts.model.forecast.SampleForecast"""

    def __init__(self, samples: Any, start: datetime, item_id: str | None) -> None:
        self.samples = np.asarray(samples, dtype=np.float32)
        self.start_date = Period(start)
        self.item_id = item_id


class QuantileForecast:
    """gluonts.model.forecast.QuantileForecast; `forecast_array` is (keys, horizon)."""

    def __init__(self, forecast_arrays: Any, start: datetime, forecast_keys: list[str], item_id: str | None) -> None:
        self.forecast_array = np.asarray(forecast_arrays, dtype=np.float64)
        self.forecast_keys = forecast_keys
        self.start_date = Period(start)
        self.item_id = item_id


class TimeSeries:
    """darts.TimeSeries; values are (time, components, samples)."""

    def __init__(self, values: Any, components: list[str], start: datetime) -> None:
        array = np.asarray(values, dtype=np.float64)
        self._values = array if array.ndim == 3 else array[:, :, None]
        self.components = components
        self._start = start

    def all_values(self) -> Any:
        return self._values

    def start_time(self) -> datetime:
        return self._start


class Tensor:
    """A torch tensor as far as the adapters look; NumPy cannot read it directly (bfloat16, or on a device)."""

    def __init__(self, values: Any) -> None:
        self._values = np.asarray(values)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("can't convert this tensor to numpy")

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self

    def double(self) -> Tensor:
        return self

    def numpy(self) -> Any:
        return self._values.astype(np.float64)
