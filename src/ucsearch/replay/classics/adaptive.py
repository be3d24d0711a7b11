"""Base-stock levels that follow a forecast or recent history instead of a known demand distribution.

Both levels cover the demand of L + 1 periods, this one and the L until the next order can arrive;
`order_up_to` turns a level into an order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch.errors import InputError
from ucsearch.tasks.checks import finite_array, integer, probability

__all__ = ["Distribution", "forecast_level", "fractile", "order_up_to", "recent_sums", "rolling_quantile_level"]

Floats = NDArray[np.float64]


def forecast_level(members: ArrayLike, ratio: float, weights: ArrayLike | None = None) -> float:
    """Forecast-driven base-stock level: a fractile of the demand forecast until the next order can arrive.

    .. math:: S_t = \\min\\{s : \\textstyle\\sum_j w_j 1[\\sum_{i=0}^{L} y_{j,i} \\le s] \\ge p/(p+h)\\}

    Parameters
    ----------
    members :
        Sample paths of demand for this and the next L periods, shape (J, L + 1). Joint paths matter: the sum
        of marginal fractiles is not the fractile of the sum.
    ratio :
        Critical ratio. [p/(p+h)]
    weights :
        Member weights, equal if left out.

    Raises
    ------
    InputError
        For a wrong shape, a non-finite or negative demand, or weights that do not sum to 1.

    Example
    -------
    >>> forecast_level([[3.0, 4.0], [5.0, 6.0], [1.0, 1.0], [9.0, 9.0]], 0.75)
    11.0
    """
    ratio = probability(ratio, "ratio")
    paths = finite_array(members, "members")
    if paths.ndim != 2 or paths.size == 0:
        raise InputError("members", f"shape {paths.shape}", "(J, L + 1), neither being 0")
    _refuse_negative(paths, "members")
    if weights is None:
        mass = np.full(paths.shape[0], 1.0 / paths.shape[0])
    else:
        mass = finite_array(weights, "weights")
        if mass.shape != (paths.shape[0],):
            raise InputError("weights", f"shape {mass.shape}", f"({paths.shape[0]},)")
        _refuse_negative(mass, "weights")
        if not abs(float(mass.sum()) - 1.0) <= 1e-9:
            raise InputError("weights", f"a sum of {float(mass.sum())!r}", "weights that sum to 1")
    return fractile(paths.sum(axis=1), mass, ratio)


def rolling_quantile_level(history: ArrayLike, lead_time: int, ratio: float, *, window: int) -> float:
    """Rolling-quantile base-stock level: a fractile of recent sums of L + 1 consecutive demands.

    .. math:: S_t = \\min\\{s : \\#\\{i : y_i + \\dots + y_{i+L} \\le s\\} \\ge n \\, p/(p+h)\\}

    over the n sums that end within the last `window` observations and begin within them too.

    Parameters
    ----------
    history :
        Demand up to now, oldest first.
    lead_time :
        [L], at least 0.
    window :
        Observations looked at, at least L + 1; fewer are used if the history is shorter.

    Example
    -------
    >>> rolling_quantile_level([9.0, 1.0, 2.0, 3.0, 4.0], 1, 0.5, window=4)
    5.0
    """
    return recent_sums(history, lead_time, window=window).fractile(probability(ratio, "ratio"))


def recent_sums(history: ArrayLike, lead_time: int, *, window: int) -> Distribution:
    """Sums of L + 1 consecutive demands within the last `window` observations, all equally likely."""
    span = integer(lead_time, "lead_time", at_least=0) + 1
    window = integer(window, "window", at_least=span)
    demand = finite_array(history, "history")
    if demand.ndim != 1 or demand.size < span:
        raise InputError("history", f"shape {demand.shape}", f"at least {span} observations in a row")
    _refuse_negative(demand, "history")
    sums = np.lib.stride_tricks.sliding_window_view(demand[-window:], span).sum(axis=1)
    return Distribution(sums, np.full(sums.size, 1.0 / sums.size))


def order_up_to(level: float, state: ArrayLike) -> float:
    """Order that raises stock on hand and on order to `level`, never negative.

    .. math:: z = (S_t - \\text{position})^+

    Example
    -------
    >>> order_up_to(11.0, [2.0, 5.0]), order_up_to(5.0, [2.0, 5.0])
    (4.0, 0.0)
    """
    target = finite_array(level, "level")
    if target.ndim != 0:
        raise InputError("level", f"shape {target.shape}", "one number")
    stock = finite_array(state, "state")
    _refuse_negative(stock, "state")
    return max(float(target) - float(stock.sum()), 0.0)


class Distribution:
    """Values with weights, for one fractile or many."""

    def __init__(self, values: Floats, mass: Floats) -> None:
        order = np.argsort(values, kind="stable")
        self._sorted, self._reached = values[order], np.cumsum(mass[order])

    def fractile(self, ratio: float) -> float:
        """The smallest value that weights of at least `ratio` do not exceed."""
        # Rounding may leave the last sum just short of a ratio close to 1.
        index = min(int(np.searchsorted(self._reached, ratio - 1e-12, side="left")), self._sorted.size - 1)
        return float(self._sorted[index])


def fractile(values: Floats, mass: Floats, ratio: float) -> float:
    """The smallest value that weights of at least `ratio` do not exceed."""
    return Distribution(values, mass).fractile(ratio)


def _refuse_negative(values: Floats, field: str) -> None:
    bad = np.argwhere(~(values >= 0.0))
    if len(bad):  # its size is 0 for a lone number
        index = tuple(int(i) for i in bad[0])
        raise InputError(field, values[index], "a number of at least 0", index=index or None)
