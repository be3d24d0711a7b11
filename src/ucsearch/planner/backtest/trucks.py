"""Trucks in a backtest: which items share one, what a unit takes, and how much each carries on every replayed day."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ucsearch.errors import InputError
from ucsearch.planner.decide.shared import Portions, read_limits
from ucsearch.planner.decide.states import StateFile
from ucsearch.planner.files.calendar import later
from ucsearch.planner.files.columns import usual_names
from ucsearch.planner.files.table import Problem, open_table
from ucsearch.planner.settings import Settings, SharedLimit
from ucsearch.replay.truck import Trucks

if TYPE_CHECKING:
    from ucsearch.planner.backtest.replay import History

__all__ = ["ALONE", "Loads", "Place", "limit_of", "trucks_of"]


class Place(NamedTuple):
    """Where an item stands in a comparison."""

    truck: str = ""  # "" where items share none
    litres: float = 1.0  # that one unit takes
    cluster: str = ""  # what hangs together, such as its store; "" for the item alone


ALONE = Place()


def limit_of(settings: Settings) -> tuple[str, SharedLimit] | None:
    """The limit that a backtest keeps; None where series share none."""
    if not settings.shared:
        return None
    task, uses = settings.task, list(settings.task.task().uses)
    (name, limit), *more = settings.shared.items()
    if more or (limit.use or uses[0]) != "units" or limit.looks_ahead or getattr(task, "orders", "") != "quantity":
        raise InputError(
            "shared", f"{', '.join(settings.shared)}", "one limit of today on units, with orders = 'quantity'",
            hint="Planners' rules fill one truck a day; `ucsearch decide` keeps other limits too.",
        )  # fmt: skip
    return name, limit


class Loads:
    """What the states say of every item: its truck, its litres, and what it hangs together with."""

    def __init__(self, settings: Settings, states: StateFile | None) -> None:
        self.limit, cluster = limit_of(settings), settings.backtest.cluster
        self.problems: list[Problem] = []
        self._portions: Portions | None = None
        self._clusters: dict[str, str] = {}
        if states is None and (cluster or self.limit is not None):
            raise InputError("files.states", "nothing", "a file with the columns of [shared] and [backtest] cluster")
        if states is None:
            return
        if self.limit is not None:
            self._portions = Portions(settings, states)
            self.problems = self._portions.problems
        if cluster:
            name = usual_names(states.table, settings.columns).series
            if cluster not in states.table.columns:
                raise InputError(
                    str(states.table.path), f"the columns {', '.join(states.table.columns)}", f"one called {cluster!r}"
                )
            for block in states.table.blocks([name, cluster]):
                self._clusters.update(zip(block.texts(name), block.texts(cluster), strict=True))

    def place(self, series: str) -> Place:
        cluster = self._clusters.get(series, "")
        if self.limit is None or self._portions is None:
            return Place(cluster=cluster)
        name, limit = self.limit
        truck = self._portions.value(limit.per, series) if limit.per else name
        litres = self._portions.value(limit.column, series) if limit.column else 1.0
        return Place(truck, litres, cluster or truck)


def trucks_of(group: Sequence[History], settings: Settings, length: int) -> Trucks | None:
    """The trucks of some items over the last `length` periods of their histories; whole trucks, each once."""
    shared = limit_of(settings)
    if shared is None:
        return None
    name, limit = shared
    names = sorted({history.place.truck for history in group})
    number = {truck: g for g, truck in enumerate(names)}
    by_day = [_amounts(name, limit, day, settings) for day in _days(group[0], length, settings)] if limit.dates else []
    given = by_day if by_day else [limit.limit]
    limits = np.array([[_of(amounts, truck) for truck in names] for amounts in given], np.float64)
    return Trucks(
        np.array([number[history.place.truck] for history in group], np.int64),
        np.array([history.place.litres for history in group]), limits if by_day else limits[0],
    )  # fmt: skip


def _of(amounts: Any, truck: str) -> float:
    return float(amounts[truck] if isinstance(amounts, dict) else amounts)


def _days(history: History, length: int, settings: Settings) -> list[Any]:
    if history.first is None or settings.period == "any":
        raise InputError("shared.dates", "a history without dates", "dates, whose limits the file says")
    begin = len(history.y) - length
    return [later(history.first, begin + t, settings.period) for t in range(length)]


def _amounts(name: str, one: SharedLimit, day: Any, settings: Settings) -> Any:
    from ucsearch.planner.decide.shared import limit_file

    return read_limits(open_table(limit_file(settings, one), settings.columns.decimal), name, one, day, settings)
