"""Pictures of a backtest and of a recorded decision, with matplotlib and without its global state."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError
from ucsearch.planner.backtest.result import HINDSIGHT, POLICY, BacktestResult
from ucsearch.planner.backtest.result_any import AnyResult
from ucsearch.planner.recorded.explain import Told

__all__ = ["draw_any", "draw_backtest", "draw_decision", "has_matplotlib"]

Floats = NDArray[np.float64]
_COLOURS = {"policy": "C3", "base-stock": "C0", "(s,S)": "C2", "hindsight": "0.5"}
_HARDEST = "C1"  # the best rule, whichever it is
_BANDS = ((0.05, 0.95, 0.2), (0.25, 0.75, 0.35))


def has_matplotlib() -> bool:
    return find_spec("matplotlib") is not None


def draw_backtest(result: BacktestResult, path: str | Path) -> None:
    """Cumulative cost, stock and orders by period, all series together."""
    s = result.settings
    word = "period" if s.period == "any" else s.period
    figure, axes = _figure(3, (8.0, 8.5))
    drawn = {**_COLOURS, **({} if (best := result.hardest()) is None else {best: _HARDEST})}
    for name, track in result.tracks.items():
        if name not in drawn:  # so many lines would hide each other
            continue
        periods = np.arange(1, track.cost.shape[1] + 1)
        colour, width = drawn[name], 2.0 if name == "policy" else 1.2
        style = "--" if name == "hindsight" else "-"
        for ax, values in zip(axes, (track.cost.sum(axis=0).cumsum(), track.stock.sum(axis=0)), strict=False):
            ax.plot(periods, values, color=colour, linewidth=width, linestyle=style, label=name)
        axes[2].step(
            periods, track.order.sum(axis=0), where="mid", color=colour, linewidth=width, linestyle=style, label=name
        )
    axes[0].set_ylabel(f"cumulative cost [{s.currency or 'currency'}]")
    axes[1].set_ylabel(f"stock [{s.units}]")
    axes[2].set_ylabel(f"ordered [{s.units}]")
    axes[2].set_xlabel(word)
    axes[0].legend(loc="upper left", fontsize="small", frameon=False)
    axes[0].set_title(f"{len(result.series)} series", loc="left", fontsize="medium")
    _save(figure, path)


def draw_any(result: AnyResult, path: str | Path) -> None:
    """Cumulative profit or cost by period, all series together, and how far the policy is ahead of each other line."""
    s = result.settings
    figure, axes = _figure(2, (8.0, 6.5))
    drawn = {POLICY: "C3", "nothing": "0.75", HINDSIGHT: "0.5"}
    if (best := result.hardest()) is not None:
        drawn[best] = _HARDEST
    own = result.tracks[POLICY].reward.sum(axis=0).cumsum()
    for name, track in result.tracks.items():
        if name not in drawn:  # so many lines would hide each other
            continue
        total = track.reward.sum(axis=0).cumsum()
        periods = np.arange(1, total.size + 1)
        width, style = 2.0 if name == POLICY else 1.2, "--" if name == HINDSIGHT else "-"
        axes[0].plot(periods, result.sign * total, color=drawn[name], linewidth=width, linestyle=style, label=name)
        if name != POLICY:
            axes[1].plot(periods, own - total, color=drawn[name], linewidth=width, linestyle=style, label=name)
    axes[1].axhline(0.0, color="0.3", linewidth=0.8)
    axes[0].set_ylabel(f"cumulative {result.word} [{result.money}]")
    axes[1].set_ylabel(f"policy ahead of it by [{result.money}]")
    axes[1].set_xlabel("period" if s.period == "any" else s.period)
    axes[0].legend(loc="best", fontsize="small", frameon=False)
    axes[0].set_title(f"{len(result.series)} series", loc="left", fontsize="medium")
    _save(figure, path)


def draw_decision(told: Told, path: str | Path) -> None:
    """What the plan does to the stock over the forecast's members, what it orders, and the forecast."""
    figure, axes = _figure(3, (8.0, 7.5))
    steps = np.arange(len(told.orders) + 1.0)
    if told.tracks is not None:
        _fan(axes[0], steps, told.tracks, told.weights, "C0")
        axes[0].set_ylabel(f"{told.field} [{told.units}]")
    axes[0].set_title(told.title, loc="left", fontsize="medium")
    if told.orders:
        axes[1].bar(
            steps[:-1] + 0.5, told.orders, width=0.6, color="C3" if told.released else "none", edgecolor="C3",
            label="plan" if told.released else "plan, not released",
        )  # fmt: skip
        axes[1].legend(loc="best", fontsize="small", frameon=False)
    axes[1].set_ylabel(_labelled(told.action, told.action_unit))
    if told.members.shape[0]:
        horizon = np.arange(1.0, told.members.shape[1] + 1)
        _fan(axes[2], horizon, told.members[:, :, 0], told.weights, "C2")
    axes[2].set_ylabel(_labelled("forecast", told.outcome_unit))
    axes[2].set_xlabel("step")
    _save(figure, path)


def _labelled(name: str, unit: str) -> str:
    return f"{name} [{unit}]" if unit else name


def _fan(ax: Any, steps: Floats, tracks: Floats, weights: Floats, colour: str) -> None:
    """Mean and weighted quantile bands over members: tracks are (J, n)."""
    order = np.argsort(tracks, axis=0, kind="stable")
    below = np.cumsum(weights[order], axis=0)
    columns = np.arange(tracks.shape[1])
    for low, high, alpha in _BANDS:
        ends = []
        for level in (low, high):
            pick = np.minimum((below < level - 1e-12).sum(axis=0), tracks.shape[0] - 1)
            ends.append(tracks[order[pick, columns], columns])
        label = f"{100 * low:.0f}-{100 * high:.0f} %"
        ax.fill_between(steps, ends[0], ends[1], color=colour, alpha=alpha, linewidth=0, label=label)
    ax.plot(steps, weights @ tracks, color=colour, linewidth=1.8, label="mean")
    ax.legend(loc="best", fontsize="small", frameon=False, ncols=3)


def _figure(rows: int, size: tuple[float, float]) -> tuple[Any, Any]:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(rows, 1, sharex=True)
    for ax in axes:
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.grid(alpha=0.25, linewidth=0.6)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    return figure, axes


def _save(figure: Any, path: str | Path) -> None:
    from matplotlib import rc_context

    # Without date and with a fixed salt, equal pictures are equal files.
    with rc_context({"svg.hashsalt": "ucsearch"}):
        try:
            figure.savefig(path, metadata={"Date": None} if Path(path).suffix.lower() == ".svg" else None)
        except (OSError, ValueError) as error:
            raise DataError(f"{path}: cannot be drawn ({error})") from error
