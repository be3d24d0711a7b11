"""How the series of a walk-forward suite become episodes: task, forecasts, order sizes, and the law of closed mode."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.forecast import RidgePaths, UnbiasedRidge
from ucsearch.forecast.base import Forecaster
from ucsearch.forecast.recalibrate import Recalibrating, Recalibration
from ucsearch.lab.suites.kinds.walkforward.settings import Items, WalkForwardSettings
from ucsearch.lab.suites.kinds.walkforward.stored import StoredTraces
from ucsearch.replay.panel import Grid, Panel, Stretch, make_panel
from ucsearch.replay.walk import Seen
from ucsearch.tasks import LeadTimeInventory, Storage
from ucsearch.tasks.base import Binding, bind
from ucsearch.tasks.checks import NO_LIMIT
from ucsearch.trace import Trace

__all__ = ["DAYS", "World", "without_lattice"]

Floats = NDArray[np.float64]
DAYS = 60  # latest values before a series' first window whose mean is its usual demand
POINTS = 9  # of a step in closed mode, where items do not say it
LEAST_USUAL = 0.1  # units a day: an item that hardly sells still has a size


class World:
    """Panels of a suite, and what closed mode plans on."""

    def __init__(self, settings: WalkForwardSettings) -> None:
        self.s = settings
        if settings.items is None:
            self.binding: Binding = bind(settings.task, settings.multiples, settings.arrivals)
        else:
            self.binding = Binding(_item_config(settings.task, settings.items))

    @property
    def where(self) -> str:
        """Under which name a verifier finds the task."""
        return self.binding.where if self.s.items is None else str(self.binding.config.address(own_grid=True))

    @property
    def forecaster(self) -> Forecaster:
        floor = -math.inf if self.s.floor is None else self.s.floor
        if self.s.traces is not None:
            return StoredTraces(self.s.traces, floor)
        if self.s.forecaster == "unbiased":
            return UnbiasedRidge(paths=self.s.paths, floor=floor)
        ridge = RidgePaths(paths=self.s.paths, floor=floor)
        if self.s.recalibrate == "off":
            return ridge
        return Recalibrating(ridge, Recalibration(floor=floor), label="recalibrated", by_series=True)

    def panel(self, stretches: Sequence[Stretch], horizon: int, key: int) -> Panel:
        panel = make_panel(stretches, self.binding, self.forecaster, horizon=horizon, key=key)
        if self.s.items is not None:
            return _with_items(panel, self.s.items)
        if self.binding.multiples is None and hasattr(self.binding.config, "forecast_columns"):
            return dataclasses.replace(panel, grid=_forecast_grid(panel))
        return panel

    def law(self, candidate: Mapping[str, Any]) -> Callable[[Seen], Trace] | None:
        """What makes a law out of a forecast, for a candidate in closed mode."""
        if candidate.get("mode", "mean") != "closed":
            return None
        items, config, layout = self.s.items, self.binding.config, self.binding.task.params_layout
        if items is None:
            unit = self.s.lattice
            if unit is None:
                return lambda seen: seen.trace.declare("independent")
            return lambda seen: seen.trace.on_lattice(unit, POINTS)

        def law(seen: Seen) -> Trace:
            if layout is None or seen.params is None:
                raise InputError("task", "no params", "params")
            lots = config.lots(seen.trace, layout.columns(seen.params), items.lots, 1.0)
            return seen.trace.on_lattice(lots.unit, items.points)

        return law


def _forecast_grid(panel: Panel) -> Grid:
    """The task's own actions, and parameters that each forecast fills in."""
    config, layout = panel.config, panel.task.params_layout

    def grid(trace: Trace) -> tuple[Floats | None, Floats | None]:
        base = config.params()
        columns = config.forecast_columns(trace, base)
        if not columns or layout is None:
            return None, None
        return None, layout.rows(base._replace(**columns), "params")

    return grid


def without_lattice(panel: Panel) -> Panel:
    """The same episodes of a store whose level is any number: what a linear programme plans for, and is walked in."""
    config: Storage = dataclasses.replace(panel.config, level_step=None, power=None)
    task, begin = config.task(), config.state(**config.fit().start)
    layout = task.layout(begin)
    starts = np.repeat([layout.flatten(begin, "state")], len(panel), axis=0)
    plain = dataclasses.replace(panel, task=task, config=config, layout=layout, starts=starts, grid=None)
    return dataclasses.replace(plain, grid=_forecast_grid(plain))


# -------------------------------------------------------------------- items in lots


def _item_config(task: Mapping[str, Any], items: Items) -> LeadTimeInventory:
    settings: dict[str, Any] = dict(task)
    if settings.pop("name", None) != "lead_time_inventory":
        raise InputError("task.name", repr(task.get("name")), "lead_time_inventory for items")
    sizes = tuple(float(i) for i in range(items.lots + 1))
    # Ones stand in: whether there is a cost or a value makes another task, its size does not.
    if items.fixed_days > 0.0:
        settings["fixed_cost"] = 1.0
    if items.end_days > 0.0:
        settings["salvage"] = 1.0
    return LeadTimeInventory(order_sizes=sizes, merge_arrivals=True, **settings)


def _with_items(panel: Panel, items: Items) -> Panel:
    """Every episode with its own pack, fixed cost and room. Money is in days of the item's mean demand."""
    config, layout, count = panel.config, panel.task.params_layout, len(panel)
    if layout is None:
        raise InputError("task", "no params", "params")
    usual = np.array([max(float(h[-DAYS:].mean()), LEAST_USUAL) for h in panel.history])
    base = config.params()
    columns = {name: np.repeat([value], count, axis=0) for name, value in base._asdict().items()}
    columns["holding"], columns["shortage"] = base.holding / usual, base.shortage / usual
    if items.fixed_days > 0.0:
        columns["fixed_cost"] = np.full(count, items.fixed_days * base.holding)
    if items.end_days > 0.0:
        columns["salvage"] = items.end_days * columns["holding"]
    if items.pack_days > 0.0:
        columns["case_pack"] = np.maximum(1.0, np.round(items.pack_days * usual))
    if items.capacity_days is not None:
        columns["capacity"] = np.minimum(np.ceil(items.capacity_days * usual), NO_LIMIT)
    params = base._replace(**columns)

    def grid(trace: Trace) -> tuple[Floats | None, Floats | None]:
        sizes = config.lots(trace, params, items.lots, 1.0).sizes
        filled = np.where(np.isnan(sizes), np.nanmax(sizes, axis=1)[:, None], sizes)
        own = params._replace(grid=filled, **config.forecast_columns(trace, params))
        return sizes, layout.rows(own, "params")

    none = [0.0] * config.lead_time
    begin = [config.state(float(np.ceil(items.start_days * u)), none) for u in usual]
    starts = np.array([panel.layout.flatten(s, "state") for s in begin])
    return dataclasses.replace(panel, starts=starts, grid=grid)
