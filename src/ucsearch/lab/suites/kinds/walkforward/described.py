"""What a walk-forward suite may describe beside its gates: calibration of forecasts, utility over the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ucsearch.replay.panel import Panel

__all__ = ["add_calibration", "add_leads", "calibration"]


def calibration(panel: Panel, n: int, depth: int, levels: Sequence[float]) -> dict[str, Any]:
    """Outcomes of a window within central intervals, counted over 1 to `depth` steps ahead; of those below the median
    (half, if forecasts are centred); and the mean CRPS, in units of the outcomes."""
    members, actual = panel.members[n, :, :, :depth], panel.future[n, :, :depth]
    made: dict[str, Any] = {"outcomes": int(actual.size)}
    for level in levels:
        # Weibull's quantiles: with the outcome as one more draw, honest members cover at the nominal level.
        low, high = np.quantile(members, [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=1, method="weibull")
        made[f"inside_{level:g}"] = int(((low <= actual) & (actual <= high)).sum())
    made["below"] = int((actual < np.median(members, axis=1)).sum())
    ordered = np.sort(members, axis=1)  # (T, J, depth)
    count = ordered.shape[1]
    weights = (2.0 * np.arange(1, count + 1) - count - 1.0)[None, :, None]
    spread = (weights * ordered).sum(axis=1) / count**2  # half the mean distance of two members
    made["crps"] = float((np.abs(members - actual[:, None]).mean(axis=1) - spread).mean())
    return made


def add_calibration(figures: Sequence[dict[str, Any]], panel: Panel, depth: int, levels: Sequence[float]) -> None:
    """The judged policy's figures get those of the forecasts it saw; everybody saw the same."""
    for n, one in enumerate(figures):
        one |= calibration(panel, n, depth, levels)


def add_leads(rows: Sequence[dict[str, Any]]) -> None:
    """Every policy of a test row gets `lead`: the chosen policy's utility less its own."""
    for row in rows:
        own = row["policies"]["uc"]["utility"]
        for name, figures in row["policies"].items():
            if name != "uc":
                figures["lead"] = own - figures["utility"]
