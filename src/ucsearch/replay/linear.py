"""Storage as a linear programme: what a planner with a solver does, on the mean or on a quantile of the forecast.

Needs HiGHS (`pip install highspy`), which is imported where it is used.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.layout import own_row
from ucsearch.replay.choosers import point_forecast
from ucsearch.replay.walk import Choice, Seen
from ucsearch.tasks.checks import NO_LIMIT
from ucsearch.tasks.storage.record import Storage

__all__ = ["LinearStorage", "has_solver", "storage_programme"]

Floats = NDArray[np.float64]


def has_solver() -> bool:
    return find_spec("highspy") is not None


class LinearStorage:
    """Any power between the smallest and the largest, planned as if one number per step were certain; the first one is
    taken. An earlier plan is left out: the rules then correct what is not allowed. `whole`: a mixed-integer programme,
    which never buys and sells in one step."""

    free = True

    def __init__(self, config: Storage, quantile: float | None = None, *, whole: bool = False) -> None:
        if not has_solver():
            raise InputError("highspy", "not installed", "HiGHS: pip install highspy")
        self.config, self.quantile, self.whole = config, quantile, whole

    def __call__(self, seen: Seen) -> Choice:
        price = point_forecast(seen.trace, self.quantile).mean[:, :, 0]
        layout = self.config.task().params_layout
        if layout is None:
            raise InputError("task", "no params", "params")
        rows = layout.rows(self.config.params(), "params") if seen.params is None else seen.params
        action = np.empty(len(price))
        for n in range(len(price)):
            params = layout.build(own_row(rows, n).tolist())
            state = seen.layout.build(seen.rows[n].tolist())
            plan, _ = storage_programme(price[n], state, params, whole=self.whole)
            action[n] = plan[0]
        return Choice(action, np.zeros(len(price), np.int64))


def storage_programme(price: Floats, s: Any, p: Any, *, whole: bool = False) -> tuple[Floats, float]:
    """Powers (d,) of the best plan at these prices, and what it earns, energy left at the end included. `whole`: buying
    and selling exclude each other, by one integer per step."""
    import highspy

    depth, hours = len(price), float(getattr(p, "hours", 1.0))
    buy, sell = max(p.grid[-1], 0.0), max(-p.grid[0], 0.0)
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    # Columns: power bought, power sold, level after the step; each (d,).
    cost = np.concatenate([
        -hours * (price + p.fee), hours * (price - p.fee - p.wear / p.discharging), np.zeros(depth),
    ])  # fmt: skip
    cost[-1] += p.end_value
    upper = np.concatenate([np.full(depth, buy), np.full(depth, sell), np.full(depth, p.capacity)])
    lower = np.zeros(3 * depth)
    due = int(getattr(s, "due", 0.0))
    if 0 < due <= depth:
        lower[2 * depth + due - 1] = p.target
    empty: list[Any] = []
    solver.addCols(3 * depth, cost, lower, upper, 0, empty, empty, empty)
    solver.changeObjectiveSense(highspy.ObjSense.kMaximize)
    starts: list[int] = []
    index: list[int] = []
    value: list[float] = []
    for t in range(depth):
        starts.append(len(index))
        index += [t, depth + t, 2 * depth + t]
        value += [-hours * p.charging, hours / p.discharging, 1.0]
        if t > 0:
            index.append(2 * depth + t - 1)
            value.append(-p.keep)
    right = np.zeros(depth)
    right[0] = p.keep * s.level
    solver.addRows(depth, right, right, len(index), np.array(starts), np.array(index), np.array(value))
    if s.discharge_left < NO_LIMIT:
        columns = np.arange(depth, 2 * depth)
        solver.addRow(-highspy.kHighsInf, s.discharge_left, depth, columns, np.full(depth, hours / p.discharging))
    if p.ramp < NO_LIMIT:
        _add_ramp(solver, depth, s.last, p.ramp)
    if whole:
        _add_choice(solver, depth, buy, sell)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return np.full(depth, np.nan), float(np.nan)
    x = np.array(solver.getSolution().col_value)
    power = np.clip(x[:depth] - x[depth : 2 * depth], -sell, buy)
    # The solver's own tolerance must not make a full or an empty store overflow, nor a ramp too steep.
    if p.ramp < NO_LIMIT:
        power[0] = min(max(power[0], s.last - p.ramp), s.last + p.ramp)
    room = (p.capacity - p.keep * s.level) / (p.charging * hours)
    power[0] = min(max(power[0], -p.keep * s.level * p.discharging / hours), room)
    return power, float(solver.getInfo().objective_function_value)


def _add_ramp(solver: Any, depth: int, last: float, ramp: float) -> None:
    """Power may differ from that of the step before by at most `ramp`."""
    solver.addRow(last - ramp, last + ramp, 2, np.array([0, depth]), np.array([1.0, -1.0]))
    for t in range(1, depth):
        columns = np.array([t, depth + t, t - 1, depth + t - 1])
        solver.addRow(-ramp, ramp, 4, columns, np.array([1.0, -1.0, -1.0, 1.0]))


def _add_choice(solver: Any, depth: int, buy: float, sell: float) -> None:
    """One integer per step: 1 where power may be bought, 0 where it may be sold."""
    import highspy

    first = 3 * depth
    empty: list[Any] = []
    solver.addCols(depth, np.zeros(depth), np.zeros(depth), np.ones(depth), 0, empty, empty, empty)
    for t in range(depth):
        solver.changeColIntegrality(first + t, highspy.HighsVarType.kInteger)
        solver.addRow(-highspy.kHighsInf, 0.0, 2, np.array([t, first + t]), np.array([1.0, -buy]))
        solver.addRow(-highspy.kHighsInf, sell, 2, np.array([depth + t, first + t]), np.array([1.0, sell]))
