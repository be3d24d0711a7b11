"""Small, fast probabilistic forecasters, conformal wrappers and a calibration report."""

from ucsearch.forecast.base import (
    Forecaster,
    PathForecast,
    forecast_one,
    forecast_stream,
    walk_forward_cutoffs,
)
from ucsearch.forecast.calibration import Calibration, CalibrationReport, calibration_report, crps_ensemble
from ucsearch.forecast.conformal import (
    AdaptiveIntervals,
    Intervals,
    SplitConformal,
    adaptive_conformal,
    conformal_quantile,
)
from ucsearch.forecast.naive import SeasonalNaive
from ucsearch.forecast.ridge import RidgeEnsemble, RidgePaths, default_lags
from ucsearch.forecast.streams import draw_key, series_stream

__all__ = [
    "AdaptiveIntervals",
    "Calibration",
    "CalibrationReport",
    "Forecaster",
    "Intervals",
    "PathForecast",
    "RidgeEnsemble",
    "RidgePaths",
    "SeasonalNaive",
    "SplitConformal",
    "adaptive_conformal",
    "calibration_report",
    "conformal_quantile",
    "crps_ensemble",
    "default_lags",
    "draw_key",
    "forecast_one",
    "forecast_stream",
    "series_stream",
    "walk_forward_cutoffs",
]
