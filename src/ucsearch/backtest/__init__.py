"""What policies would have done on past values: one walk, one roster of opponents, metrics and intervals.

>>> found = walk(panel, Searched(panel.task, uc.Exact(depth=3)))  # doctest: +SKIP
>>> rivals = roster(panel, Budget(depth=3))  # doctest: +SKIP
>>> best = tune(rivals["(s,S)"], validation)  # doctest: +SKIP
"""

from __future__ import annotations

from ucsearch.backtest.choosers import Certified, Deterministic, How, Learned, Searched, point_forecast
from ucsearch.backtest.intervals import Interval, by_series, paired
from ucsearch.backtest.ordering import Ordering, critical_ratio_of
from ucsearch.backtest.panel import Panel, Stretch, make_panel
from ucsearch.backtest.practice import CalendarStaffing, PriceRule, QuantileStaffing
from ucsearch.backtest.roster import Budget, Entry, practitioners, roster, searches
from ucsearch.backtest.tune import Trial, Tuned, tune
from ucsearch.backtest.walk import Choice, Chooser, Seen, Walk, parts_of, walk

__all__ = [
    "Budget",
    "CalendarStaffing",
    "Certified",
    "Choice",
    "Chooser",
    "Deterministic",
    "Entry",
    "How",
    "Interval",
    "Learned",
    "Ordering",
    "Panel",
    "PriceRule",
    "QuantileStaffing",
    "Searched",
    "Seen",
    "Stretch",
    "Trial",
    "Tuned",
    "Walk",
    "by_series",
    "critical_ratio_of",
    "make_panel",
    "paired",
    "parts_of",
    "point_forecast",
    "practitioners",
    "roster",
    "searches",
    "tune",
    "walk",
]
