"""Periods of a calendar: how many lie between two times, which time comes so many later, and what follows what."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "PERIODS",
    "count_periods",
    "day_text",
    "has_local_dates",
    "infer_period",
    "is_regular",
    "is_short",
    "later",
    "on_grid",
    "one_period",
    "period_start",
]

PERIODS = ("15min", "30min", "hour", "day", "weekday", "week", "month")
_SHORT = ("15min", "30min", "hour")

_STEPS = {
    "15min": np.timedelta64(15, "m"),
    "30min": np.timedelta64(30, "m"),
    "hour": np.timedelta64(1, "h"),
    "day": np.timedelta64(1, "D"),
    "week": np.timedelta64(7, "D"),
}


def is_short(period: str) -> bool:
    """Whether a day holds several periods, so that times count and not only dates."""
    return period in _SHORT


def has_local_dates(period: str) -> bool:
    """Whether periods are days or longer, so that the local date of a time with an offset counts and not the instant;
    of no period nobody knows."""
    return period != "any" and not is_short(period)


def count_periods(time: Any, period: str) -> NDArray[np.int64]:
    """(n,) how many periods lie between the first of `time` and each of them."""
    if period == "month":
        months = time.astype("datetime64[M]")
        return np.asarray((months - months[0]).astype(np.int64))
    if period == "weekday":
        days = time.astype("datetime64[D]")
        return np.asarray(np.busday_count(days[0], days), dtype=np.int64)
    return np.asarray((time - time[0]) // _STEPS[period], dtype=np.int64)


def later(time: Any, count: int, period: str) -> Any:
    """The time `count` periods after `time`; "any" counts days."""
    if period == "month":
        month = time.astype("datetime64[M]")
        rest = time.astype("datetime64[D]") - month.astype("datetime64[D]")
        target = month + np.timedelta64(count, "M")
        longest = (target + np.timedelta64(1, "M")).astype("datetime64[D]") - np.timedelta64(1, "D")
        ends = time.astype("datetime64[D]") + np.timedelta64(1, "D") == (month + np.timedelta64(1, "M"))
        day = longest if ends else min(target.astype("datetime64[D]") + rest, longest)
        return day.astype("datetime64[s]")
    if period == "weekday":
        return np.busday_offset(time.astype("datetime64[D]"), count, roll="backward").astype("datetime64[s]")
    return time + count * _STEPS.get(period, _STEPS["day"])


def on_grid(time: Any, period: str) -> NDArray[np.bool_]:
    """(n - 1,) whether a date follows the one before it by whole periods."""
    if period in _STEPS:
        return np.asarray(np.diff(time) % _STEPS[period] == np.timedelta64(0, "s"))
    if period == "weekday":
        return np.asarray(np.is_busday(time[1:].astype("datetime64[D]")))
    return np.asarray(np.diff(time.astype("datetime64[M]")) > np.timedelta64(0, "M"))


def is_regular(time: Any, period: str) -> NDArray[np.bool_]:
    """(n - 1,) whether a date follows the one before it by one period."""
    gaps = np.diff(time)
    if period in _STEPS:
        return np.asarray(gaps == _STEPS[period])
    if period == "month":
        return np.asarray(np.diff(time.astype("datetime64[M]")) == np.timedelta64(1, "M"))
    if period == "weekday":
        days = time.astype("datetime64[D]")
        return np.asarray((np.busday_count(days[:-1], days[1:]) == 1) & np.is_busday(days[1:]))
    return np.ones(gaps.size, bool)


def period_start(time: Any, period: str) -> Any:
    """(n,) datetime64[s]: the first moment of the period that each time lies in; a week begins on its Monday."""
    if period == "month":
        return time.astype("datetime64[M]").astype("datetime64[s]")
    if period == "week":
        days = time.astype("datetime64[D]")
        return (days - (days.astype(np.int64) - 4) % 7).astype("datetime64[s]")  # 1970-01-05 was a Monday
    if period in ("day", "weekday"):
        return time.astype("datetime64[D]").astype("datetime64[s]")
    step = _STEPS[period].astype("timedelta64[s]").astype(np.int64)
    start = (time.astype(np.int64) // step * step).astype("datetime64[s]")
    return np.where(np.isnat(time), time, start)


def infer_period(time: Any) -> str:
    """The period by which all of these dates follow each other; "any" if there is none."""
    if len(time) < 3:
        return "any"
    return next((p for p in PERIODS if bool(is_regular(time, p).all())), "any")


def one_period(period: str) -> str:
    """How long a period is, in words: "one day", "30 minutes"."""
    if period.endswith("min"):
        return f"{period.removesuffix('min')} minutes"
    return "one period" if period == "any" else f"one {period}"


def day_text(moment: Any, period: str = "", offset: str = "") -> str:
    """A time as files have it: midnight is a date but where periods are shorter than a day, so that a column has one
    form; no time is nothing. With an `offset` such as "+02:00", what is given in UTC is told in that time."""
    if moment is None or str(moment) == "NaT":
        return ""
    if offset and is_short(period):
        hours, minutes = int(offset[1:3]), int(offset[4:])
        shift = np.timedelta64(int(f"{offset[0]}1") * (60 * hours + minutes), "m")
        return f"{moment + shift}{offset}"
    return str(moment) if is_short(period) else str(moment).removesuffix("T00:00:00")
