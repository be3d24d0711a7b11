"""Small, fast probabilistic forecasters, recalibration and a calibration report."""

from ucsearch.forecast.auto import Auto
from ucsearch.forecast.base import (
    Forecaster,
    PathForecast,
    forecast_one,
    forecast_stream,
    walk_forward_cutoffs,
)
from ucsearch.forecast.bootstrap import MarkovBootstrap
from ucsearch.forecast.calibration import Calibration, CalibrationReport, calibration_report, crps_ensemble
from ucsearch.forecast.cleaning import clip_outliers
from ucsearch.forecast.naive import SeasonalNaive
from ucsearch.forecast.recalibrate import (
    Archive,
    Correction,
    Recalibration,
    correction_at,
    corrections,
    recalibrate_members,
    recalibrate_trace,
)
from ucsearch.forecast.ridge import RidgeEnsemble, RidgePaths, UnbiasedRidge, default_lags
from ucsearch.forecast.smoothing import Smoothing
from ucsearch.forecast.streams import draw_key, series_stream

__all__ = [
    "Archive",
    "Auto",
    "Calibration",
    "CalibrationReport",
    "Correction",
    "Forecaster",
    "MarkovBootstrap",
    "PathForecast",
    "Recalibration",
    "RidgeEnsemble",
    "RidgePaths",
    "SeasonalNaive",
    "Smoothing",
    "UnbiasedRidge",
    "calibration_report",
    "clip_outliers",
    "correction_at",
    "corrections",
    "crps_ensemble",
    "default_lags",
    "draw_key",
    "forecast_one",
    "forecast_stream",
    "recalibrate_members",
    "recalibrate_trace",
    "series_stream",
    "walk_forward_cutoffs",
]
