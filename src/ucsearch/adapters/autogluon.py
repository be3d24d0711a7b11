"""AutoGluon TimeSeries: a `TimeSeriesDataFrame` of `predict`, or the same frame with its index as columns."""

from __future__ import annotations

from typing import Any, Unpack

from ucsearch.adapters.base import Options, Settings, TraceSet
from ucsearch.adapters.quantile_frame import from_quantile_frame

__all__ = ["from_autogluon"]


def from_autogluon(
    frame: Any,
    *,
    model: str = "",
    id_col: str = "item_id",
    time_col: str = "timestamp",
    **options: Unpack[Options],
) -> TraceSet:
    """One trace per item out of the columns `mean`, `0.1`, ..., `0.9`; `model` is only a name for the record."""
    settings = Settings.of(options, "autogluon")
    return from_quantile_frame(
        frame, "autogluon", id_col=id_col, time_col=time_col, point_col="mean", model=model, settings=settings
    )
