"""Small views for notebooks: tables without a style of their own, every text escaped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ucsearch.report.charts import LEVELS, quantiles
from ucsearch.report.text import esc

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SHOWN", "figure_text", "score_rows", "small_table", "trace_rows"]

SHOWN = 20  # rows, in the order given
_STEPS = 8  # columns of a panel's row
_SHOWN_LEVELS = (0, 2, 4)  # of LEVELS: 5 %, the middle, 95 %


def small_table(heads: Sequence[str], rows: Sequence[Sequence[str]], total: int | None = None) -> str:
    """The first rows, and how many more there are (of `total` where not all were made); "" where there are none."""
    if not rows:
        return ""
    top = "".join(f"<th>{esc(h)}</th>" for h in heads)
    shown = "".join("<tr>" + "".join(f"<td>{esc(x)}</td>" for x in row) + "</tr>" for row in rows[:SHOWN])
    left = (len(rows) if total is None else total) - min(len(rows), SHOWN)
    more = f'<tr><td colspan="{len(heads)}">and {left:,} more</td></tr>' if left > 0 else ""
    return f"<table><thead><tr>{top}</tr></thead><tbody>{shown}{more}</tbody></table>"


def figure_text(value: float) -> str:
    return f"{value:.6g}" if math.isfinite(value) else "-"


def trace_rows(members: NDArray[Any], weights: NDArray[Any], mean: NDArray[Any]) -> tuple[list[str], list[list[str]]]:
    """Heads and first rows of a forecast (W, J, H, F): one window by step, with quantiles; several by window, means."""
    windows, _, horizon, count = members.shape
    if windows == 1:
        heads = ["step", *(["field"] if count > 1 else []), "mean", *(f"{LEVELS[i]:.0%}" for i in _SHOWN_LEVELS)]
        rows = []
        for h in range(min(horizon, SHOWN)):
            for f in range(count):
                low_to_high = quantiles(members[0, :, h, f].tolist(), weights[0].tolist())
                name = [str(f + 1)] if count > 1 else []
                values = [float(mean[0, h, f]), *(low_to_high[i] for i in _SHOWN_LEVELS)]
                rows.append([str(h + 1), *name, *map(figure_text, values)])
        return heads, rows
    steps = min(horizon, _STEPS)
    heads = ["window", *(f"mean, step {h + 1}" for h in range(steps)), *([f"to {horizon}"] if horizon > steps else [])]
    rows = [[str(w), *(_means(mean[w, h]) for h in range(steps))] for w in range(min(windows, SHOWN))]
    return heads, [[*row, "..."] if horizon > steps else row for row in rows]


def score_rows(q: NDArray[Any], u: NDArray[Any]) -> tuple[list[str], list[list[str]]]:
    """Heads and first rows of action scores (W, H, m) with their uncertainties, by window and step."""
    windows, horizon, actions = q.shape
    several = ["window"] if windows > 1 else []
    shown = range(min(actions, _STEPS))
    heads = [*several, "step", *(f"action {a + 1}" for a in shown)]
    rows = []
    for w in range(min(windows, SHOWN)):
        for h in range(horizon):
            cells = [f"{figure_text(float(q[w, h, a]))} ± {figure_text(float(u[w, h, a]))}" for a in shown]
            rows.append([*([str(w)] if several else []), str(h + 1), *cells])
    return heads, rows


def _means(fields: NDArray[Any]) -> str:
    return ", ".join(figure_text(float(x)) for x in fields)
