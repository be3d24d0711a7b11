"""What a backtest of storage, capacity or an intervention found: earnings or costs, by part, with paired intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.planner.backtest.result import GIVEN, HINDSIGHT, POLICY, TUNED
from ucsearch.planner.files.calendar import one_period
from ucsearch.planner.files.table import Problem, write_table
from ucsearch.planner.settings import Settings
from ucsearch.replay.statistics import Interval, paired
from ucsearch.replay.tune import Chosen

__all__ = ["AnyResult", "Outcomes"]

Floats = NDArray[np.float64]
_FEW = 5  # series below which seasons, not series, are the unit of an interval


class Outcomes(NamedTuple):
    """What one policy did: (S, T) series by period."""

    reward: Floats
    parts: dict[str, Floats]  # the task's own, by name


@dataclass(frozen=True, eq=False)
class AnyResult:
    series: tuple[str, ...]
    tracks: dict[str, Outcomes]  # by policy
    released: float  # share of the policy's decisions that were released, not a fallback
    reasons: dict[str, int]  # of those that were not
    knobs: dict[str, Chosen]  # of the tuned rules
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    settings: Settings
    spent: dict[str, float] = field(default_factory=dict)  # what rules cost on the periods before
    earlier: int = 0  # periods that rules were tuned on

    @property
    def falls_back_too_often(self) -> bool:
        return 1.0 - self.released > self.settings.run.max_fallback_share

    @property
    def sign(self) -> float:
        """Costs are shown as costs."""
        return -1.0 if self.settings.task.form == "cost" else 1.0

    @property
    def money(self) -> str:
        return self.settings.currency or "currency"

    @property
    def word(self) -> str:
        return "cost" if self.sign < 0.0 else "profit"

    @property
    def unit(self) -> str:
        """What an interval is over."""
        return "series" if len(self.series) >= _FEW else "season"

    def total(self, name: str) -> float:
        """What the policy cost or earned, as it is shown."""
        return self.sign * math.fsum(self.tracks[name].reward.ravel().tolist())

    def difference(self, name: str) -> Interval | None:
        """How much more than `name` the policy earned, per series or, of few series, per season, with an interval."""
        own, other = self.tracks[POLICY].reward, self.tracks[name].reward
        if self.unit == "series":
            a, b, units = own.sum(axis=1), other.sum(axis=1), list(self.series)
        else:
            season = max(1, self.settings.season)
            count = own.shape[1] // season
            a, b = (x[:, : count * season].reshape(len(x), count, season).sum(axis=2).ravel() for x in (own, other))
            units = [str(i) for i in range(len(a))]
        if len(units) < 3:
            return None
        return paired(a, b, units, seed=self.settings.backtest.seed, name=name)

    def hardest(self) -> str | None:
        """The rule that did best on the periods before, tuned or not: whoever would be used instead. Where nothing was
        tuned, the one that did best in the counted periods."""
        rules = [n for n in self.tracks if n not in (POLICY, HINDSIGHT, GIVEN)]
        known = [n for n in rules if n in self.spent]
        if known:
            return min(known, key=lambda n: (self.spent[n], n))
        return max(rules, key=lambda n: self.sign * self.total(n), default=None)

    def headline(self) -> str:
        """The policy against the best rule, never without the interval."""
        best = self.hardest()
        found = None if best is None else self.difference(best)
        if best is None:
            return ""
        ahead = self.sign * (self.total(POLICY) - self.total(best)) + 0.0  # no difference has no sign
        size = abs(self.total(best))
        share = f" ({100.0 * ahead / size:+.1f} %)" if size > 0.0 else ""
        if found is None or not found.is_known:
            return f"policy against the best rule, {best}: {ahead:+,.2f} {self.money}{share}; too short for an interval"
        told = f"{found.mean:+,.2f} {self.money} per {self.unit} [{found.low:+,.2f}, {found.high:+,.2f}]{share}"
        if found.side > 0:
            return f"the policy is better than the best rule, {best}: {told}"
        if found.side < 0:
            return f"the best rule, {best}, is better than the policy: {told}"
        return f"a simple rule does as well, as far as these periods can tell: {best}; {told}"

    def figures(self, name: str) -> list[tuple[str, str, float | None]]:
        """Name, unit and value of what the task's words tell about a policy."""
        s, parts = self.settings, self.tracks[name].parts
        words = s.task.words(s.units, s.currency)
        out: list[tuple[str, str, float | None]] = []
        for mean, several in ((False, words.sums), (True, words.means)):
            for key, (label, unit) in several.items():
                values = parts.get(key)
                value = None if values is None else float(values.mean() if mean else values.sum())
                out.append((label, unit, value))
        return out

    def text(self) -> str:
        """A table in the user's units and currency."""
        s = self.settings
        names = [f"{n} [{u}]" if u else n for n, u, _ in self.figures(POLICY)]
        rows = [["", f"{self.word} [{self.money}]", f"policy better by, per {self.unit}", *names]]
        for name in self.tracks:
            found = None if name == POLICY else self.difference(name)
            ahead = "" if found is None else f"{found.mean:+,.2f}"
            if found is not None and found.is_known:
                ahead += f" ({found.low:+,.2f} to {found.high:+,.2f})"
            figures = ["" if x is None else f"{x:,.1f}" for _, _, x in self.figures(name)]
            rows.append([name, f"{self.total(name):,.2f}", ahead, *figures])
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(f"{x:{'<' if i == 0 else '>'}{widths[i]}}" for i, x in enumerate(row)) for row in rows]
        count, periods = self.tracks[POLICY].reward.shape
        title = f"{count} series over {periods} periods of {one_period(s.period)}; "
        title += f"{100.0 * self.released:.1f} % of the policy's "
        head = [title + "decisions were released, the rest fell back", self.headline()]
        return "\n".join([*head, "", *lines, "", *self.tuned(), *self.notes])

    def tuned(self) -> list[str]:
        """What tuning chose, a line for each rule."""
        return [
            f"{n}{TUNED}: {one.text()} (of {one.tries} tried on the {self.earlier} periods before)"
            for n, one in self.knobs.items()
        ]

    def evidence(self) -> dict[str, Any]:
        """Everything of the table, as plain values."""

        def plain(x: float | None) -> float | None:
            return float(x) if x is not None and math.isfinite(x) else None

        rivals: dict[str, Any] = {}
        for name in self.tracks:
            found = None if name == POLICY else self.difference(name)
            if found is not None:
                rivals[name] = {"mean": plain(found.mean), "lower": plain(found.low), "upper": plain(found.high)}
        return {
            "series": list(self.series), "periods": self.tracks[POLICY].reward.shape[1], "released": self.released,
            "headline": self.headline(), "hardest": self.hardest(), "unit_of_intervals": self.unit,
            "policy_better_by": rivals, self.word: {n: plain(self.total(n)) for n in self.tracks},
            "by_series": {n: (self.sign * t.reward.sum(axis=1)).tolist() for n, t in self.tracks.items()},
            "figures": {n: {label: plain(x) for label, _, x in self.figures(n)} for n in self.tracks},
            "tuned": {n: one.plain() for n, one in self.knobs.items()}, "cost_before": self.spent,
            "tuned_on_periods": self.earlier, "notes": list(self.notes),
        }  # fmt: skip

    def write(self, path: str | Path) -> int:
        """One row per series and policy."""
        names = list(self.tracks[POLICY].parts)

        def rows() -> Iterator[Sequence[Any]]:
            for i, series in enumerate(self.series):
                for policy, track in self.tracks.items():
                    figures = [float(track.parts[n][i].sum()) if n in track.parts else None for n in names]
                    yield [series, policy, float(track.reward[i].sum()), *figures]

        columns = {"series": str, "policy": str, "reward": float, **dict.fromkeys(names, float)}
        return write_table(path, columns, rows, for_people=True)
