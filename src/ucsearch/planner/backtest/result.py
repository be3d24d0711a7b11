"""What a backtest found: costs by part, service, and what the policy saves against every rule, with intervals."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.planner.files.calendar import one_period
from ucsearch.planner.files.table import Problem, write_table
from ucsearch.planner.settings import Settings
from ucsearch.replay.statistics import LEAST, RESAMPLES, Bounds, Interval, bootstrap_key, bounds, scale_free_delta
from ucsearch.replay.tune import Chosen

__all__ = ["GIVEN", "HINDSIGHT", "POLICY", "TUNED", "Against", "BacktestResult", "Track"]

Floats = NDArray[np.float64]
POLICY, HINDSIGHT = "policy", "hindsight"
TUNED = ", tuned"
GIVEN = "settings as given"  # beside a tuned policy: what it was before
_DRAWS = 20_000_000  # numbers drawn for one interval at most


@dataclass(frozen=True, eq=False)
class Track:
    """What one policy did: (S, T) series by counted period, in units and currency."""

    cost: Floats  # holding, shortage and ordering, salvage of the last period deducted
    revenue: Floats
    demand: Floats
    served: Floats  # from stock, in the period it was asked for
    stock: Floats  # at the end of the period, not below 0
    order: Floats
    holding: Floats  # parts of the cost, salvage not deducted
    shortage: Floats
    ordering: Floats  # units and orders

    @property
    def net(self) -> Floats:
        """(S,) what each series cost, less what it earned."""
        return np.asarray((self.cost - self.revenue).sum(axis=1))

    def figures(self) -> dict[str, float]:
        """The totals a planner looks at."""
        asked = self.demand.sum()
        return {
            "cost": float(self.cost.sum()),
            "holding_cost": float(self.holding.sum()),
            "shortage_cost": float(self.shortage.sum()),
            "ordering_cost": float(self.ordering.sum()),
            "revenue": float(self.revenue.sum()),
            "fill_rate": float(self.served.sum() / asked) if asked > 0.0 else math.nan,
            "service_level": float((self.served >= self.demand).mean()),
            "average_stock": float(self.stock.sum(axis=0).mean()),
            "orders": float((self.order > 0.0).sum()),
            "ordered": float(self.order.sum()),
        }

    def of(self, i: int) -> Track:
        """One series of it."""
        return Track(*(getattr(self, f.name)[i : i + 1] for f in dataclasses.fields(self)))


@dataclass(frozen=True)
class Against:
    """How much less the policy cost than somebody else, paired by series; below 0 it cost more."""

    name: str
    series: int
    share: float  # of the other's total
    low: float  # 95 % interval of the share; infinite with too few series
    high: float
    money: Bounds  # per series, currency
    delta: Bounds | None  # scale-free, every series counting alike; None where revenue makes costs negative

    @property
    def ends(self) -> Interval:
        """The share with its interval: whether that has both ends, and on which side of 0 it lies."""
        return Interval(self.share, self.low, self.high)

    def text(self) -> str:
        if not math.isfinite(self.share):
            return ""
        if not self.ends.is_known:
            return f"{100.0 * self.share:+.1f} %"
        return f"{100.0 * self.share:+.1f} % [{100.0 * self.low:+.1f}, {100.0 * self.high:+.1f}]"


@dataclass(frozen=True, eq=False)
class BacktestResult:
    series: tuple[str, ...]
    tracks: dict[str, Track]  # by policy
    released: float  # share of the policy's decisions that were released, not a fallback
    problems: tuple[Problem, ...]
    settings: Settings
    reasons: dict[str, int]  # of the policy's decisions that were not released
    knobs: dict[str, Chosen] = field(default_factory=dict)  # what tuning chose, by rule
    spent: dict[str, float] = field(default_factory=dict)  # what rules cost on the periods before, tuned or not
    earlier: int = 0  # periods that rules were tuned on
    no_hindsight: str = ""  # why there is none
    notes: tuple[str, ...] = ()

    @property
    def falls_back_too_often(self) -> bool:
        return 1.0 - self.released > self.settings.run.max_fallback_share

    @property
    def classics(self) -> tuple[str, ...]:
        return tuple(n for n in self.tracks if n not in (POLICY, HINDSIGHT, GIVEN))

    def against(self, name: str) -> Against:
        own, other = self.tracks[POLICY].net, self.tracks[name].net
        count = len(own)
        draws = next((r for r in (RESAMPLES, 999) if r * count <= _DRAWS), 199)
        seed = self.settings.backtest.seed
        money = bounds((other - own).tolist(), bootstrap_key(seed, "backtest"), resamples=draws)
        size = abs(float(other.mean()))
        delta = None
        if (own >= 0.0).all() and (other >= 0.0).all():
            values = [scale_free_delta(a, b, "cost") for a, b in zip(own.tolist(), other.tolist(), strict=True)]
            delta = bounds(values, bootstrap_key(seed, "backtest delta"), resamples=draws)
        scaled = [x / size if size > 0.0 else math.nan for x in (money.mean, money.lower, money.upper)]
        return Against(name, count, scaled[0], scaled[1], scaled[2], money, delta)

    def hardest(self) -> str | None:
        """The strongest rule: the one that cost least on the periods before, where rules were tuned. Where none was,
        the one that cost least in the counted periods."""
        known = [n for n in self.classics if n in self.spent]
        if known:
            return min(known, key=lambda n: (self.spent[n], n))
        return min(self.classics, key=lambda n: (float(self.tracks[n].net.sum()), n), default=None)

    def headline(self) -> str:
        """The policy against the strongest rule, in money and per cent, never without the interval."""
        best = self.hardest()
        if best is None:
            return ""
        found, money = self.against(best), self.settings.currency or "currency"
        chosen = "chosen on the periods before" if best in self.spent else "chosen on these periods"
        rival = f"the strongest rule, {best} ({chosen})"
        saved = f"{abs(found.money.mean * found.series):,.0f} {money}"
        change = f"{100.0 * abs(found.share):.1f} %" if math.isfinite(found.share) else ""
        if not found.ends.is_known:
            why = f", at least {LEAST} are needed" if found.series < LEAST else " are too few, they differ too much"
            few = f"no interval: {found.series} series{why}"
            return f"policy against {rival}: {found.text() or 'equal'} ({few})"
        ends = f"[{100.0 * found.low:+.1f}, {100.0 * found.high:+.1f}] % saved"
        interval = f"{ends}, 95 % interval over {found.series} series"
        if found.ends.side > 0:
            return f"the policy saves {saved}, {change} of what {rival} costs: {interval}"
        if found.ends.side < 0:
            return f"a simple rule is cheaper: the policy costs {saved} or {change} more than {rival}; {interval}"
        level = "a simple rule does as well, as far as these series can tell"
        return f"{level}: {rival}; {100.0 * found.share:+.1f} % {interval}"

    def text(self) -> str:
        """Tables in the user's units and currency."""
        s = self.settings
        count, periods = next(iter(self.tracks.values())).cost.shape
        money = s.currency or "currency"
        with_revenue = any(t.revenue.any() for t in self.tracks.values())
        head = ["", f"cost [{money}]", "holding", "shortage", "ordering", "policy saves", "fill rate", "service level",
                f"stock [{s.units}]", "orders"]  # fmt: skip
        if with_revenue:
            head.insert(2, f"profit [{money}]")
        rows = [head]
        for name, track in self.tracks.items():
            f = track.figures()
            row = [
                name, f"{f['cost']:,.2f}", f"{f['holding_cost']:,.2f}", f"{f['shortage_cost']:,.2f}",
                f"{f['ordering_cost']:,.2f}", "" if name == POLICY else self.against(name).text(),
                f"{100.0 * f['fill_rate']:.1f} %", f"{100.0 * f['service_level']:.1f} %", f"{f['average_stock']:,.1f}",
                f"{f['orders']:,.0f}",
            ]  # fmt: skip
            if with_revenue:
                row.insert(2, f"{f['revenue'] - f['cost']:,.2f}")
            rows.append(row)
        title = f"{count} series over {periods} periods of {one_period(s.period)}; "
        title += f"{100.0 * self.released:.1f} % of the policy's "
        why = ", ".join(f"{name} {count:,} times" for name, count in self.reasons.items())
        title += "decisions were released, the rest fell back" + (f" ({why})" if why else "")
        lines = [title, self.headline(), "", *_aligned(rows), ""]
        lines.append("policy saves: share of the other's cost, with its 95 % interval over series; - is a loss")
        if self.knobs:
            lines.append(f"tuned on the {self.earlier} periods before:")
            lines += [f"  {name}: {one.text()}, of {one.tries} settings" for name, one in self.knobs.items()]
        if self.no_hindsight:
            lines.append(f"no hindsight: {self.no_hindsight}")
        return "\n".join([*lines, *self.notes])

    def evidence(self) -> dict[str, Any]:
        """Everything of the tables, and intervals in full, as plain values."""

        def plain(x: float) -> float | None:
            return float(x) if math.isfinite(x) else None

        def told(x: Bounds | None) -> dict[str, float | None] | None:
            return None if x is None else {"mean": plain(x.mean), "lower": plain(x.lower), "upper": plain(x.upper)}

        rivals = {}
        for name in self.tracks:
            if name != POLICY:
                a = self.against(name)
                rivals[name] = {
                    "share": plain(a.share), "lower": plain(a.low), "upper": plain(a.high),
                    "money_per_series": told(a.money), "scale_free": told(a.delta),
                }  # fmt: skip
        return {
            "series": list(self.series), "periods": self.tracks[POLICY].cost.shape[1], "released": self.released,
            "headline": self.headline(), "hardest": self.hardest(), "policy_saves": rivals,
            "figures": {n: {k: plain(v) for k, v in t.figures().items()} for n, t in self.tracks.items()},
            "tuned": {n: one.plain() for n, one in self.knobs.items()}, "cost_before": self.spent,
            "tuned_on_periods": self.earlier,
            "no_hindsight": self.no_hindsight, "notes": list(self.notes),
        }  # fmt: skip

    def write(self, path: str | Path) -> int:
        """One row per series and policy."""
        names = list(next(iter(self.tracks.values())).figures())

        def rows() -> Iterator[Sequence[Any]]:
            for i, series in enumerate(self.series):
                for policy, track in self.tracks.items():
                    figures = track.of(i).figures()
                    yield [series, policy, *(figures[n] for n in names)]

        columns = {"series": str, "policy": str, **dict.fromkeys(names, float)}
        return write_table(path, columns, rows, for_people=True)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(f"{x:{'<' if i == 0 else '>'}{widths[i]}}" for i, x in enumerate(row)) for row in rows]
