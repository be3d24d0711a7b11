"""Choose a policy's knobs by realised reward on validation, with the same effort for everybody."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.replay.panel import Panel
from ucsearch.replay.roster import Entry
from ucsearch.replay.walk import Walk, walk

__all__ = [
    "ROUNDS",
    "TRIES",
    "Chosen",
    "Grid",
    "Trial",
    "Tuned",
    "choose",
    "spread_out",
    "tune",
]


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


TRIES = 12  # settings of the policy that `tune` tries; a rule gets its whole grid, which is more
ROUNDS = 3  # times that a grid may be widened
Floats = NDArray[np.float64]
Setting = dict[str, Any]
Values = tuple[Any, ...]
_FRACTILES = frozenset({"ratio", "quantile", "share", "low", "high"})
_LEAST_FRACTILE, _MOST_FRACTILE = 0.02, 0.999
_LEAST_FACTOR, _MOST_FACTOR = 1.0 / 16.0, 16.0
_MOST_COUNT = 512


@dataclass(frozen=True)
class Grid:
    """Values of every knob, the default first; None stands for what the rule computes by itself."""

    values: Mapping[str, Values]

    def settings(self) -> list[Setting]:
        """Every combination, the defaults first."""
        return [dict(zip(self.values, each, strict=True)) for each in product(*self.values.values())]

    def widened(self, best: Setting) -> Grid:
        """With further values of every knob whose best value is its least or largest; the same where none is."""
        more = {name: _beyond(name, values, best[name]) for name, values in self.values.items()}
        return Grid({name: (*values, *more[name]) for name, values in self.values.items()})


def _beyond(name: str, values: Values, best: Any) -> Values:
    numbers = sorted(v for v in values if v is not None)
    if best is None or len(numbers) < 2:
        return ()
    ends = [up for up, end in ((False, numbers[0]), (True, numbers[-1])) if best == end]
    return tuple(value for up in ends for value in _next(name, best, up) if value not in values)


def _next(name: str, end: float, up: bool) -> Iterator[float]:
    """Two values beyond the end, within what the knob can be; none beyond a whole share."""
    if name in _FRACTILES and not 0.0 < end < 1.0:
        return
    for k in (1, 2):
        if isinstance(end, int):
            value: float = end * 2**k if up else max(1, end // 2**k)
            yield min(value, _MOST_COUNT)
        elif name in _FRACTILES:
            odds = end / (1.0 - end) * (2.0**k if up else 0.5**k)
            yield round(min(max(odds / (1.0 + odds), _LEAST_FRACTILE), _MOST_FRACTILE), 4)
        else:
            yield min(max(end * (1.6**k if up else 1.6**-k), _LEAST_FACTOR), _MOST_FACTOR)


@dataclass(frozen=True)
class Chosen:
    """The best setting of a rule: one for all items, or one for each."""

    settings: tuple[Setting, ...]  # one, or one for each item in the order of the costs
    tries: int
    cost: float  # across the halves: of settings that were chosen on the other half

    @property
    def is_pooled(self) -> bool:
        return len(self.settings) == 1

    def of(self, item: int) -> Setting:
        return self.settings[0 if self.is_pooled else item]

    def text(self) -> str:
        """The setting in words; of settings by item the middle and the ends."""
        if self.is_pooled:
            said = ", ".join(_said(name, value) for name, value in self.settings[0].items() if value is not None)
            return said or "by its formula"
        names = dict.fromkeys(name for setting in self.settings for name in setting)
        parts = []
        for name in names:
            values = sorted(s[name] for s in self.settings if s[name] is not None)
            if values:
                middle = values[(len(values) - 1) // 2]
                parts.append(f"{_said(name, middle)} ({values[0]:.4g} to {values[-1]:.4g})")
        return f"by item: {', '.join(parts) or 'by its formula'}"

    def plain(self) -> dict[str, Any]:
        """For evidence."""
        return {"pooled": self.is_pooled, "settings": [dict(s) for s in self.settings], "tries": self.tries}


def _said(name: str, value: float) -> str:
    words = {"eoq": "{} EOQ", "packs": "{} packs", "periods": "{} periods", "shortage": "shortage x {}",
             "batch": "batch x {}"}  # fmt: skip
    return words.get(name, name + " {}").format(f"{value:.4g}")


def choose(settings: Sequence[Setting], costs: Floats) -> Chosen:
    """The best of the settings by their `costs` (tries, items, 2 halves); ties go to the earlier one."""
    pooled = each = 0.0
    for half in (0, 1):
        judged, paid = costs[:, :, half], costs[:, :, 1 - half]
        pooled += math.fsum(paid[_best(judged.sum(axis=1))].tolist())
        each += math.fsum(paid[_best(judged), np.arange(costs.shape[1])].tolist())
    whole = costs.sum(axis=2)
    if each < pooled:
        return Chosen(tuple(settings[k] for k in _best(whole).tolist()), len(settings), each)
    return Chosen((settings[int(_best(whole.sum(axis=1)))],), len(settings), pooled)


def _best(costs: Floats) -> NDArray[np.int64]:
    """The cheapest try, along the first axis; what cannot be added up is never the cheapest."""
    return np.asarray(np.argmin(np.where(np.isfinite(costs), costs, np.inf), axis=0), np.int64)


def pooled_best(settings: Sequence[Setting], costs: Floats) -> Setting:
    """The cheapest setting for all items together."""
    return settings[int(_best(costs.sum(axis=(1, 2))))]
