"""What a backtest found: cost or profit by part, service, and what the policy gains on every rule, with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.planner.files.calendar import one_period
from ucsearch.planner.files.table import Problem, Style, write_table
from ucsearch.planner.settings import Settings
from ucsearch.replay.statistics import LEAST, RESAMPLES, Bounds, Interval, bootstrap_key, bounds, scale_free_delta
from ucsearch.replay.tune import Chosen
from ucsearch.report.table import table_lines

__all__ = [
    "GIVEN",
    "GREEDY",
    "HINDSIGHT",
    "POLICY",
    "TUNED",
    "Achieved",
    "Against",
    "BacktestResult",
    "Track",
    "achieved",
]

Floats = NDArray[np.float64]
POLICY, HINDSIGHT = "policy", "hindsight"
TUNED = ", tuned"
GIVEN = "settings as given"  # beside a tuned policy: what it was before
GREEDY = "policy, filled greedily"  # the same values, but a truck is filled by value per litre, without a price
_DRAWS = 20_000_000  # numbers drawn for one interval at most
_FEW = 5  # series below which seasons are the unit of an interval, where every period has its own account


@dataclass(frozen=True, eq=False)
class Track:
    """What one policy did: (S, T) series by counted period."""

    reward: Floats  # currency; costs are below 0. The value of what is left is part of it
    parts: dict[str, Floats]  # the task's own, by name

    @property
    def net(self) -> Floats:
        """(S,) what each series cost, less what it earned."""
        return np.asarray(-self.reward.sum(axis=1))

    def of(self, i: int) -> Track:
        """One series of it."""
        return Track(self.reward[i : i + 1], {name: values[i : i + 1] for name, values in self.parts.items()})

    def figures(self, task: Any) -> dict[str, float]:
        """The totals a planner looks at, by a name for files: cost or profit, parts of the cost, what is earned
        besides, shares such as the fill rate, means and sums."""
        words, parts = task.words(), self.parts
        earned = parts[words.income] if words.income in parts else np.zeros(1)
        figures = {"cost" if task.form == "cost" else "profit": float(self._total(task, earned).sum())}
        figures |= {f"{part}_cost": float(parts[part].sum()) for part in words.money if part in parts}
        if words.income in parts:
            figures[words.income] = float(earned.sum())
        for name, (part, whole, _) in words.shares.items():
            if part in parts:
                size = parts[whole].sum() if whole else parts[part].size
                figures[name.replace(" ", "_")] = float(parts[part].sum() / size) if size > 0.0 else math.nan
        # Of all series together, averaged over periods.
        means = {_key(name): float(parts[p].sum(axis=0).mean()) for p, (name, _) in words.means.items() if p in parts}
        return (
            figures | means | {_key(name): float(parts[p].sum()) for p, (name, _) in words.sums.items() if p in parts}
        )

    def _total(self, task: Any, earned: Floats) -> Floats:
        return earned - self.reward if task.form == "cost" else self.reward


def _key(name: str) -> str:
    return name.replace(" ", "_")


@dataclass(frozen=True)
class Against:
    """How much better the policy did than somebody else, paired by series or season; below 0 it did worse."""

    name: str
    count: int  # series, or seasons
    share: float  # of the other's total
    low: float  # 95 % interval of the share; infinite with too few series
    high: float
    money: Bounds  # per series or season, currency
    delta: Bounds | None  # scale-free, every series counting alike; None where somebody earned

    @property
    def ends(self) -> Interval:
        """The money with its interval: whether that has both ends, and on which side of 0 it lies."""
        return Interval(self.money.mean, self.money.lower, self.money.upper)

    def text(self) -> str:
        """In per cent of the other's total."""
        if not math.isfinite(self.share):
            return ""
        if not self.ends.is_known:
            return f"{100.0 * self.share:+.1f} %"
        return f"{100.0 * self.share:+.1f} % [{100.0 * self.low:+.1f}, {100.0 * self.high:+.1f}]"

    def money_text(self) -> str:
        """In currency per series or season."""
        if not self.ends.is_known:
            return f"{self.money.mean:+,.2f}"
        return f"{self.money.mean:+,.2f} [{self.money.lower:+,.2f}, {self.money.upper:+,.2f}]"


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
    targets: tuple[float, ...] = ()  # fill rate or service level of each series; none where costs are given
    clusters: tuple[str, ...] = ()  # what each series hangs together with: its truck or store; "" for itself alone

    @property
    def falls_back_too_often(self) -> bool:
        return 1.0 - self.released > self.settings.run.max_fallback_share

    @property
    def rules(self) -> tuple[str, ...]:
        return tuple(n for n in self.tracks if n not in (POLICY, HINDSIGHT, GIVEN, GREEDY))

    @property
    def money(self) -> str:
        return self.settings.currency or "currency"

    @property
    def word(self) -> str:
        return "cost" if self.settings.task.form == "cost" else "profit"

    @property
    def unit(self) -> str:
        """What an interval is over: series, or what they hang together in, such as trucks or stores; of few series
        seasons, where what is left counts in every period."""
        if any(self.clusters):
            return self.settings.backtest.cluster or "truck"
        daily = self.settings.task.left_counts == "daily"
        return "season" if daily and len(self.series) < _FEW else "series"

    @property
    def units(self) -> str:
        return "series" if self.unit == "series" else f"{self.unit}s"

    @property
    def in_shares(self) -> bool:
        """Whether differences are shown in per cent of the other's cost, not in currency."""
        return self.word == "cost" and self.unit != "season"

    def figures(self, name: str) -> dict[str, float]:
        """A policy's totals, by name."""
        return self.tracks[name].figures(self.settings.task)

    def total(self, name: str) -> float:
        """What the policy cost or earned, all in all."""
        paid = math.fsum(self.tracks[name].reward.ravel().tolist())
        return -paid if self.word == "cost" else paid

    def _by_unit(self, name: str) -> Floats:
        """(N,) reward of each series, cluster or season."""
        reward = self.tracks[name].reward
        if any(self.clusters):
            names = sorted(set(self.clusters))
            of, paid = np.array(self.clusters), reward.sum(axis=1)
            return np.array([paid[of == one].sum() for one in names])
        if self.unit == "series":
            return np.asarray(reward.sum(axis=1))
        season = max(1, self.settings.season)
        count = reward.shape[1] // season
        return np.asarray(reward[:, : count * season].reshape(len(reward), count, season).sum(axis=2).ravel())

    def against(self, name: str) -> Against:
        """The policy beside another one."""
        paid, other = self._by_unit(POLICY), self._by_unit(name)
        count, seed = len(paid), self.settings.backtest.seed
        draws = next((r for r in (RESAMPLES, 999) if r * count <= _DRAWS), 199)
        money = bounds((paid - other).tolist(), bootstrap_key(seed, "backtest"), resamples=draws)
        size = abs(float(other.mean())) if count else 0.0
        delta = None
        if (paid <= 0.0).all() and (other <= 0.0).all():
            values = [scale_free_delta(-a, -b, "cost") for a, b in zip(paid.tolist(), other.tolist(), strict=True)]
            delta = bounds(values, bootstrap_key(seed, "backtest delta"), resamples=draws)
        scaled = [x / size if size > 0.0 else math.nan for x in (money.mean, money.lower, money.upper)]
        return Against(name, count, scaled[0], scaled[1], scaled[2], money, delta)

    def hardest(self) -> str | None:
        """The strongest rule: the one that did best on the periods before, where rules were tuned. Where none was,
        the one that did best in the counted periods."""
        judged = [n for n in self.rules if n in self.spent]
        if judged:
            return min(judged, key=lambda n: (self.spent[n], n))
        return min(self.rules, key=lambda n: (float(self.tracks[n].net.sum()), n), default=None)

    def headline(self) -> str:
        """The policy against the strongest rule, in money and per cent, never without the interval. With targets it
        also says what both pay, because penalties that reach a target are on nobody's bill."""
        best = self.hardest()
        if best is None:
            return ""
        if not self.targets:
            return self._comparison(best)
        return (
            f"{self._comparison(best)}. This counts missed demand at the penalties that reach the target. Without "
            f"them the policy pays {self._paid(POLICY)}, {best} {self._paid(best)}"
        )

    def _paid(self, name: str) -> str:
        """What a policy costs without what missed demand is charged, and what it serves for that."""
        figures, service = (
            self.figures(name),
            "fill rate" if self.settings.task.service_level is None else "service level",
        )
        paid = figures["cost"] - figures.get("shortage_cost", 0.0)
        return f"{paid:,.0f} {self.money} at a {service} of {100.0 * figures[_key(service)]:.1f} %"

    def _comparison(self, best: str) -> str:
        against, cost = self.against(best), self.word == "cost" and not self.earns
        chosen = "chosen on the periods before" if best in self.spent else "chosen on these periods"
        rival = f"the strongest rule, {best} ({chosen})"
        units = self.units
        amount = f"{abs(against.money.mean * against.count):,.0f} {self.money}"
        change = f"{100.0 * abs(against.share):.1f} %" if math.isfinite(against.share) else ""
        text = against.text() if self.in_shares else f"{against.money_text()} {self.money} per {self.unit}"
        if not against.ends.is_known:
            why = f", at least {LEAST} are needed" if against.count < LEAST else " are too few, they differ too much"
            few = f"no interval: {against.count} {units}{why}"
            return f"policy against {rival}: {text or 'equal'} ({few})"
        interval = f"{self._interval(against)}, 95 % interval over {against.count} {units}"
        if against.ends.side > 0 and cost:
            return f"the policy saves {amount}, {change} of what {rival} costs: {interval}"
        if against.ends.side > 0:
            more = f", {change}," if change else ""
            return f"the policy earns {amount}{more} more than {rival}: {interval}"
        if against.ends.side < 0 and cost:
            return f"a simple rule is cheaper: the policy costs {amount} or {change} more than {rival}; {interval}"
        if against.ends.side < 0:
            return f"a simple rule earns more: the policy earns {amount} less than {rival}; {interval}"
        if self.in_shares and self.earns:
            sentence = f"the policy earns {100.0 * against.share:+.1f} % more than {rival}"
        elif self.in_shares:
            sentence = f"the policy saves {100.0 * against.share:+.1f} % of what {rival} costs"
        else:
            sentence = f"the policy is better by {against.money.mean:+,.2f} {self.money} per {self.unit} than {rival}"
        return f"no clear difference from a simple rule: {sentence}; {interval}"

    def _interval(self, against: Against) -> str:
        if self.in_shares:
            more = "more profit" if self.earns else "saved"
            return f"[{100.0 * against.low:+.1f}, {100.0 * against.high:+.1f}] % {more}"
        return f"[{against.money.lower:+,.2f}, {against.money.upper:+,.2f}] {self.money} per {self.unit}"

    # ---------------------------------------------------------------- tables

    def columns(self) -> list[tuple[str, str, str]]:
        """Key, name and unit of the figures that a table shows, in its order: parts of the cost, shares, means, sums.
        What nothing came of, such as a cost that is 0 in the settings, is left out."""
        words = self.settings.task.words(self.settings.units, self.settings.currency)
        columns = [(f"{part}_cost", name, "") for part, name in words.money.items()]
        columns += [(_key(name), name, "%") for name in words.shares]
        columns += [(_key(name), name, unit) for name, unit in (*words.means.values(), *words.sums.values())]
        every = [track.figures(self.settings.task) for track in self.tracks.values()]
        return [c for c in columns if any(f.get(c[0], 0.0) for f in every)]

    def text(self, width: int | None = None) -> str:
        """Tables in the user's units and currency; with `width` they are folded to fit."""
        s, columns = self.settings, self.columns()
        count, periods = self.tracks[POLICY].reward.shape
        ahead, of = ("policy earns more", "profit") if self.earns else ("policy saves", "cost")
        if not self.in_shares:
            ahead = f"policy better by, per {self.unit}"
        costs = sum(key.endswith("_cost") for key, _, _ in columns)
        names = [f"{name} [{unit}]" if unit and unit != "%" else name for _, name, unit in columns]
        head = ["", f"{self.word} [{self.money}]", *names[:costs], ahead, *names[costs:]]
        if self.earns:
            head.insert(2, f"profit [{self.money}]")
        rows = [head]
        for name in self.tracks:
            figures = self.figures(name)
            against = None if name == POLICY else self.against(name)
            saved = "" if against is None else against.text() if self.in_shares else against.money_text()
            cells = [_cell(figures.get(key, math.nan), key, unit) for key, _, unit in columns]
            row = [name, f"{figures[self.word]:,.2f}", *cells[:costs], saved, *cells[costs:]]
            if self.earns:
                row.insert(2, f"{-float(self.tracks[name].net.sum()):,.2f}")
            rows.append(row)
        why = ", ".join(f"{name} {count:,} times" for name, count in self.reasons.items())
        released = f"{100.0 * self.released:.1f} % of the policy's decisions were released, the others fell back"
        if self.released == 1.0 and not why:
            released = "all decisions of the policy were released"
        title = f"{count} series over {periods} periods of {one_period(s.period)}; {released}"
        title += f" ({why})" if why else ""
        lines = [title, self.headline(), "", *table_lines(rows, width=width), ""]
        if self.in_shares:
            lines.append(f"{ahead}: share of the other's {of}, with its 95 % interval over {self.units}; - is a loss")
        else:
            lines.append(f"policy better by: with its 95 % interval over {self.units}; - is a loss")
        if self.knobs:
            lines.append(f"tuned on the {self.earlier} periods before:")
            lines += [f"  {name}: {chosen.text()}, of {chosen.tries} settings" for name, chosen in self.knobs.items()]
        if self.no_hindsight:
            lines.append(f"no hindsight: {self.no_hindsight}")
        return "\n".join([*lines, *(one.text() for one in self.achieved()), *self.notes])

    def achieved(self) -> list[Achieved]:
        """What the policy reached of its targets; nothing where costs are given."""
        if not self.targets:
            return []
        parts = self.tracks[POLICY].parts
        by_period = self.settings.task.service_level is not None
        asked = np.ones_like(parts["demand"]) if by_period else parts["demand"]
        got = parts["in_full"] if by_period else parts["served"]
        return achieved(np.array(self.targets), got.sum(axis=1), asked.sum(axis=1))

    @property
    def earns(self) -> bool:
        """Whether costs stand beside what was sold for."""
        income = self.settings.task.words().income
        return any(track.parts[income].any() for track in self.tracks.values() if income in track.parts)

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
                    f"money_per_{self.unit}": told(a.money), "scale_free": told(a.delta),
                }  # fmt: skip
        return {
            "series": list(self.series), "periods": self.tracks[POLICY].reward.shape[1], "released": self.released,
            "headline": self.headline(), "hardest": self.hardest(), "policy_saves": rivals,
            "figures": {n: {k: plain(v) for k, v in self.figures(n).items()} for n in self.tracks},
            "tuned": {n: chosen.plain() for n, chosen in self.knobs.items()}, "cost_before": self.spent,
            "tuned_on_periods": self.earlier,
            "no_hindsight": self.no_hindsight, "notes": list(self.notes),
        }  # fmt: skip

    def write(self, path: str | Path) -> int:
        """One row per series and policy."""
        names = list(self.figures(POLICY))

        def rows() -> Iterator[Sequence[Any]]:
            for i, series in enumerate(self.series):
                for policy, track in self.tracks.items():
                    figures = track.of(i).figures(self.settings.task)
                    yield [series, policy, *(figures.get(n) for n in names)]

        columns = {"series": str, "policy": str, **dict.fromkeys(names, float)}
        s = self.settings
        style = Style.like([s.path("states"), s.path("sales")], s.columns.decimal)
        return write_table(path, columns, rows, for_people=True, style=style)


def _cell(value: float, key: str, unit: str) -> str:
    if math.isnan(value):
        return ""
    if key.endswith("_cost"):
        return f"{value:,.2f}"
    if unit == "%":
        return f"{100.0 * value:.1f} %"
    return f"{value:,.0f}" if key == "orders" else f"{value:,.1f}"


_RESAMPLED = 2_000  # times that an achieved share is drawn again for its interval


@dataclass(frozen=True)
class Achieved:
    """What the series of one target reached together, with its 95 % interval over series."""

    target: float
    share: float
    low: float
    high: float
    series: int

    def text(self) -> str:
        return (
            f"target {self.target:g}: achieved {self.share:.4f} [{self.low:.4f}, {self.high:.4f}] over {self.series} "
            "series"
        )


def achieved(targets: Floats, got: Floats, asked: Floats, seed: int = 1) -> list[Achieved]:
    """By target, from what each series was asked for and got."""
    shares_reached = []
    for target in sorted(set(targets.tolist())):
        members = targets == target
        draws = np.random.default_rng(seed).integers(0, int(members.sum()), (_RESAMPLED, int(members.sum())))
        totals = asked[members][draws].sum(axis=1)
        shares = got[members][draws].sum(axis=1) / np.where(totals > 0.0, totals, 1.0)
        low, high = np.quantile(shares, [0.025, 0.975])
        total = float(asked[members].sum())
        shares_reached.append(
            Achieved(target, float(got[members].sum()) / (total or 1.0), float(low), float(high), int(members.sum()))
        )
    return shares_reached
