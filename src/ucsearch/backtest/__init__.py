"""What policies would have done on past values: one walk, one roster of opponents, metrics and intervals.

`walk`, `roster` and `tune` are called as their modules are, and stay there:

>>> from ucsearch.backtest.roster import roster
>>> from ucsearch.backtest.tune import tune
>>> from ucsearch.backtest.walk import walk
>>> found = walk(panel, Searched(panel.task, uc.Exact(depth=3)))  # doctest: +SKIP
>>> rivals = roster(panel, Budget(depth=3))  # doctest: +SKIP
>>> best = tune(rivals["(s,S)"], validation)  # doctest: +SKIP

Names are loaded when first used: whoever wants the statistics alone needs no search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ucsearch.lazy import lazy_names

if TYPE_CHECKING:
    from ucsearch.backtest.choosers import Certified as Certified
    from ucsearch.backtest.choosers import Deterministic as Deterministic
    from ucsearch.backtest.choosers import How as How
    from ucsearch.backtest.choosers import Learned as Learned
    from ucsearch.backtest.choosers import Searched as Searched
    from ucsearch.backtest.choosers import point_forecast as point_forecast
    from ucsearch.backtest.intervals import Interval as Interval
    from ucsearch.backtest.intervals import by_series as by_series
    from ucsearch.backtest.intervals import paired as paired
    from ucsearch.backtest.ordering import Ordering as Ordering
    from ucsearch.backtest.ordering import critical_ratio_of as critical_ratio_of
    from ucsearch.backtest.panel import Panel as Panel
    from ucsearch.backtest.panel import Stretch as Stretch
    from ucsearch.backtest.panel import make_panel as make_panel
    from ucsearch.backtest.practice import CalendarStaffing as CalendarStaffing
    from ucsearch.backtest.practice import Nothing as Nothing
    from ucsearch.backtest.practice import PriceRule as PriceRule
    from ucsearch.backtest.practice import QuantileStaffing as QuantileStaffing
    from ucsearch.backtest.practice import Threshold as Threshold
    from ucsearch.backtest.roster import Budget as Budget
    from ucsearch.backtest.roster import Entry as Entry
    from ucsearch.backtest.roster import practitioners as practitioners
    from ucsearch.backtest.roster import searches as searches
    from ucsearch.backtest.tune import Trial as Trial
    from ucsearch.backtest.tune import Tuned as Tuned
    from ucsearch.backtest.walk import Choice as Choice
    from ucsearch.backtest.walk import Chooser as Chooser
    from ucsearch.backtest.walk import Seen as Seen
    from ucsearch.backtest.walk import Walk as Walk
    from ucsearch.backtest.walk import parts_of as parts_of

_HOME = {
    "How": "choosers",
    "Budget": "roster",
    "CalendarStaffing": "practice",
    "Certified": "choosers",
    "Choice": "walk",
    "Chooser": "walk",
    "Deterministic": "choosers",
    "Entry": "roster",
    "Interval": "intervals",
    "Learned": "choosers",
    "Nothing": "practice",
    "Ordering": "ordering",
    "Panel": "panel",
    "PriceRule": "practice",
    "QuantileStaffing": "practice",
    "Searched": "choosers",
    "Seen": "walk",
    "Stretch": "panel",
    "Threshold": "practice",
    "Trial": "tune",
    "Tuned": "tune",
    "Walk": "walk",
    "by_series": "intervals",
    "critical_ratio_of": "ordering",
    "make_panel": "panel",
    "paired": "intervals",
    "parts_of": "walk",
    "point_forecast": "choosers",
    "practitioners": "roster",
    "searches": "roster",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazy_names(__name__, _HOME)
