"""Whether the steps of a frame follow each other. A service is sent values in order and without their dates: a day that
is missing would move every later one, and nobody behind the client could see it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from numbers import Real
from typing import TYPE_CHECKING, Any

from ucsearch.errors import InputError

if TYPE_CHECKING:
    from ucsearch.pipeline.columns import Layout

__all__ = ["check_dates", "check_first", "in_order", "missing"]

Row = dict[str, Any]


def missing(value: Any) -> bool:
    """None, NaN, and what other libraries have for it: NaT and NA are not equal to themselves, or cannot say."""
    if isinstance(value, list | tuple | str):
        return False
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):
        return True


def in_order(series: str, rows: Sequence[Row], layout: Layout, period: str | None) -> tuple[list[Row], Any]:
    """The rows of a series (of one of its sample paths) by step or date, and these; every step is there once.
    `period` is the plan's; None where nobody knows it: then dates must at least be evenly apart."""
    import numpy as np

    where, hint = f"forecasts.{layout.time}", f"Series {series!r}."
    given = [row[layout.time] for row in rows]
    if any(missing(x) for x in given):
        raise InputError(where, "nothing", "every step of a series once", hint=hint)
    dates = layout.dated and not all(isinstance(x, Real) for x in given)
    times = _dates(given, layout, where, hint) if dates else _numbers(given, where, hint)
    order = np.argsort(times, kind="stable")
    times = times[order]
    if (twice := np.flatnonzero(times[1:] == times[:-1])).size:
        raise InputError(where, f"{_word(times[twice[0]])} twice", "every step of a series once", hint=hint)
    if dates:
        _follow(times, period, where, hint)
    else:
        first = times[0] if layout.dated else 1.0  # whole numbers under `ds` may begin anywhere
        wrong = np.flatnonzero(times != first + np.arange(times.size))
        if wrong.size:
            seen, wanted = times[wrong[0]], first + wrong[0]
            raise InputError(where, f"step {seen:g}", f"step {wanted:g}: every one from {first:g} on", hint=hint)
    return [rows[i] for i in order], times


def check_first(first: Mapping[str, Any], layout: Layout) -> None:
    """One first date for all series: a forecast that was left over from another day is older than the others."""
    if not layout.dated or len(set(first.values())) < 2:
        return
    usual = max(Counter(first.values()).items(), key=lambda item: (item[1], item[0]))[0]
    series, seen = next((s, t) for s, t in first.items() if t != usual)
    raise InputError(
        f"forecasts.{layout.time}", f"{_word(seen)} as its first", f"{_word(usual)} as in most series",
        hint=f"Series {series!r}; forecasts of another day go into a request of their own.",
    )  # fmt: skip


def check_dates(series: str, stock: Any, begin: Any, layout: Layout, period: str | None) -> None:
    """The date of a state, where it has one: the day on which its forecast begins, or one period before."""
    import numpy as np

    from ucsearch.pipeline.periods import later

    if not layout.dated or not isinstance(begin, np.datetime64):
        return
    where, hint = "states.date", f"Series {series!r}."
    found = _dates([stock], layout, where, hint)[0]
    if found == begin or (period not in (None, "any") and later(found, 1, str(period)) == begin):
        return
    before = "" if period in (None, "any") else f", or one {period} before"
    raise InputError(where, _word(found), f"{_word(begin)}, where its forecast begins{before}", hint=hint)


def _dates(given: Sequence[Any], layout: Layout, where: str, hint: str) -> Any:
    import numpy as np

    from ucsearch.pipeline.numbers import date_words, parse_dates

    texts = [_text(x) for x in given]
    found = parse_dates(texts, layout.order, wall_clock=layout.wall_clock)
    if (odd := np.flatnonzero(np.isnat(found))).size:
        text = texts[odd[0]]
        raise InputError(where, repr(text)[:80], date_words(text, layout.order), hint=hint)
    return found


def _text(value: Any) -> str:
    if hasattr(value, "to_timestamp"):  # a pandas Period
        value = value.to_timestamp()
    return value.isoformat() if isinstance(value, date) else str(value)


def _numbers(given: Sequence[Any], where: str, hint: str) -> Any:
    import numpy as np

    try:
        return np.array([float(x) for x in given])
    except (TypeError, ValueError):
        odd = next(x for x in given if not isinstance(x, Real))
        raise InputError(where, repr(odd)[:80], "a whole number", hint=hint) from None


def _follow(times: Any, period: str | None, where: str, hint: str) -> None:
    import numpy as np

    from ucsearch.pipeline.periods import infer_period, is_regular

    if period is not None:
        wrong, wanted = np.flatnonzero(~is_regular(times, period)), f"one {period} between them"
    else:
        gaps = np.diff(times)
        even = infer_period(times) != "any" or len(set(gaps.tolist())) < 2
        wrong = np.flatnonzero(gaps != gaps.min()) if not even else np.empty(0, dtype=np.int64)
        wanted = "dates that are evenly apart"
    if wrong.size:
        at = int(wrong[0]) + 1
        raise InputError(where, f"{_word(times[at])} after {_word(times[at - 1])}", wanted, hint=hint)


def _word(time: Any) -> str:
    return f"{time:g}" if isinstance(time, float) else str(time).removesuffix("T00:00:00")
