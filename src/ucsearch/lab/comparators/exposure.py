"""Exposure-matched risk-greedy: the risk at which a policy is exposed as much as another one is."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ucsearch.engine.plan import PanelPlan
from ucsearch.errors import InputError

__all__ = ["ExposureMatch", "match_exposure", "mean_exposure"]


@dataclass(frozen=True)
class ExposureMatch:
    """The risk chosen, what it gives, and everything that was tried."""

    risk: float  # the one that comes nearest
    exposure: float  # mean absolute exposure at `risk`
    target: float  # mean absolute exposure that was asked for
    tried: tuple[tuple[float, float], ...]  # (risk, exposure) in the order of evaluation

    @property
    def error(self) -> float:
        return abs(self.exposure - self.target)


def mean_exposure(plan: PanelPlan) -> float:
    """Mean absolute first action over the windows that have one."""
    sizes = np.abs(plan.action[~np.isnan(plan.action)])
    if sizes.size == 0:
        raise InputError("plan", "no window with an action", "at least one")
    return float(sizes.mean())


def match_exposure(
    exposure_at: Callable[[float], float],
    target: float,
    *,
    highest: float = 16.0,
    grid: int = 9,
    bisections: int = 24,
    tolerance: float = 1e-3,
) -> ExposureMatch:
    """Tune the risk on validation data until the mean absolute exposure is `target`.

    `exposure_at(risk)` runs the policy on the validation windows and returns its mean absolute exposure. Exposure is a
    step function of risk and need not fall everywhere, so risks 0 and `grid` - 1 more up to `highest`, each twice the
    one before, are tried first; then the first pair with the target between them is halved up to `bisections` times.
    The best of all risks tried is returned, the smaller one on ties. Stops early within `tolerance` of the target.
    """
    if not (isinstance(target, int | float) and 0.0 <= target < math.inf):
        raise InputError("target", repr(target), "a finite exposure of at least 0")
    if not 0.0 < highest < math.inf:
        raise InputError("highest", repr(highest), "a finite risk above 0")
    if grid < 2 or bisections < 0 or not tolerance >= 0.0:
        raise InputError("grid, bisections, tolerance", (grid, bisections, tolerance), "at least 2, 0 and 0")
    tried: list[tuple[float, float]] = []

    def evaluate(risk: float) -> float:
        exposure = float(exposure_at(risk))
        if not 0.0 <= exposure < math.inf:
            raise InputError("exposure_at", f"{exposure} at risk {risk:g}", "a finite number of at least 0")
        tried.append((risk, exposure))
        return exposure

    bracket: tuple[tuple[float, float], tuple[float, float]] | None = None
    for risk in (0.0, *(highest / 2.0 ** (grid - 2 - i) for i in range(grid - 1))):
        exposure = evaluate(risk)
        if abs(exposure - target) <= tolerance:
            bisections = 0
            break
        if len(tried) > 1 and (tried[-2][1] - target) * (exposure - target) < 0.0:
            bracket = (tried[-2], tried[-1])
            break
    for _ in range(bisections):
        if bracket is None:
            break
        low, high = bracket
        exposure = evaluate(0.5 * (low[0] + high[0]))
        if abs(exposure - target) <= tolerance:
            break
        bracket = (low, tried[-1]) if (low[1] - target) * (exposure - target) < 0.0 else (tried[-1], high)
    risk, exposure = min(tried, key=lambda pair: (abs(pair[1] - target), pair[0]))
    return ExposureMatch(risk, exposure, float(target), tuple(tried))
