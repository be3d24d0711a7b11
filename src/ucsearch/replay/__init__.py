"""What policies would have done on past values: one walk, one roster of opponents, metrics and intervals.

`walk`, `roster` and `tune` are called as their modules are, and stay there:

>>> from ucsearch.replay.roster import roster
>>> from ucsearch.replay.tune import tune
>>> from ucsearch.replay.walk import walk
>>> found = walk(panel, Searched(panel.task, uc.Exact(depth=3)))  # doctest: +SKIP
>>> rivals = roster(panel, Budget(depth=3))  # doctest: +SKIP
>>> best = tune(rivals["(s,S)"], validation)  # doctest: +SKIP

Names are loaded when first used: whoever wants the statistics alone needs no search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ucsearch.lazy import lazy_names

if TYPE_CHECKING:
    from ucsearch.replay.choosers import Certified as Certified
    from ucsearch.replay.choosers import Deterministic as Deterministic
    from ucsearch.replay.choosers import Learned as Learned
    from ucsearch.replay.choosers import Searched as Searched
    from ucsearch.replay.choosers import point_forecast as point_forecast
    from ucsearch.replay.ordering import Ordering as Ordering
    from ucsearch.replay.ordering import critical_ratio_of as critical_ratio_of
    from ucsearch.replay.panel import Panel as Panel
    from ucsearch.replay.panel import Stretch as Stretch
    from ucsearch.replay.panel import make_panel as make_panel
    from ucsearch.replay.practice import CalendarStaffing as CalendarStaffing
    from ucsearch.replay.practice import Nothing as Nothing
    from ucsearch.replay.practice import PriceRule as PriceRule
    from ucsearch.replay.practice import QuantileStaffing as QuantileStaffing
    from ucsearch.replay.practice import Threshold as Threshold
    from ucsearch.replay.roster import Budget as Budget
    from ucsearch.replay.roster import Entry as Entry
    from ucsearch.replay.roster import practitioners as practitioners
    from ucsearch.replay.roster import searches as searches
    from ucsearch.replay.statistics import Interval as Interval
    from ucsearch.replay.statistics import by_series as by_series
    from ucsearch.replay.statistics import paired as paired
    from ucsearch.replay.tune import Trial as Trial
    from ucsearch.replay.tune import Tuned as Tuned
    from ucsearch.replay.walk import Choice as Choice
    from ucsearch.replay.walk import Chooser as Chooser
    from ucsearch.replay.walk import Seen as Seen
    from ucsearch.replay.walk import Walk as Walk
    from ucsearch.replay.walk import parts_of as parts_of

_HOME = {
    "Budget": "roster",
    "CalendarStaffing": "practice",
    "Certified": "choosers",
    "Choice": "walk",
    "Chooser": "walk",
    "Deterministic": "choosers",
    "Entry": "roster",
    "Interval": "statistics",
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
    "by_series": "statistics",
    "critical_ratio_of": "ordering",
    "make_panel": "panel",
    "paired": "statistics",
    "parts_of": "walk",
    "point_forecast": "choosers",
    "practitioners": "roster",
    "searches": "roster",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = lazy_names(__name__, _HOME)
