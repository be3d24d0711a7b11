"""Choose a policy's knobs by realised reward on validation, with the same effort for everybody."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ucsearch.backtest.panel import Panel
from ucsearch.backtest.roster import Entry
from ucsearch.backtest.walk import Walk, walk
from ucsearch.errors import InputError

__all__ = ["Trial", "Tuned", "spread_out", "tune"]


@dataclass(frozen=True)
class Trial:
    """One setting and what it earned."""

    knobs: dict[str, Any]  # the setting, by name
    reward: float  # mean of an episode over seeds and episodes; costs are below 0


@dataclass(frozen=True)
class Tuned:
    """The best of the settings tried."""

    entry: Entry  # whose
    knobs: dict[str, Any]  # the best setting, by name
    trials: tuple[Trial, ...]  # in the order tried, the default first

    def choosers(self) -> list[Callable[[], Any]]:
        """One maker per seed, with the best setting."""
        return self.entry.choosers(**self.knobs)


def tune(
    entry: Entry, panel: Panel, grid: Mapping[str, Sequence[Any]] | None = None, *, tries: int | None = None,
    engine: Any = "compiled",
) -> Tuned:  # fmt: skip
    """Walk every setting of the entry's declared knobs (or of `grid`) through the panel and keep the best; ties go to
    the earlier one, so to the default. With `tries` everybody gets so many: the default and others evenly spread."""
    if grid is not None and not set(grid) <= set(entry.knobs):
        unknown = ", ".join(sorted(set(grid) - set(entry.knobs)))
        raise InputError("grid", unknown, f"knobs of {entry.name}: {', '.join(entry.knobs) or 'none'}")
    chosen = entry if grid is None else Entry(entry.name, entry.family, entry.make, entry.note,
                                              {k: tuple(v) for k, v in grid.items()}, entry.seeds)  # fmt: skip
    settings = spread_out(chosen, tries)
    trials = tuple(Trial(knobs, _reward(entry, knobs, panel, engine)) for knobs in settings)
    best = max(range(len(trials)), key=lambda i: (trials[i].reward, -i))
    return Tuned(entry, trials[best].knobs, trials)


def spread_out(entry: Entry, tries: int | None) -> list[dict[str, Any]]:
    """The settings that are tried: all, or the default and others evenly spread."""
    settings = list(entry.settings())
    if tries is None:
        return settings
    if tries < 1:
        raise InputError("tries", tries, "at least 1")
    if tries < len(settings):
        return [settings[i] for i in sorted({round(x) for x in np.linspace(0, len(settings) - 1, tries)})]
    return settings


def _reward(entry: Entry, knobs: dict[str, Any], panel: Panel, engine: Any) -> float:
    walks: list[Walk] = [walk(panel, make(), engine=engine) for make in entry.choosers(**knobs)]
    return float(np.mean([w.totals.mean() for w in walks]))
