"""Which series a suite uses, and which part of each is for which purpose.

Series are chosen by a rule that looks at nothing but length and a hash of the id. Some ids are set aside for design:
definitions (costs, grids, horizons) may be tried on them, and they appear in no split. Every other series is cut by
time: what comes first is for fitting, then the validation windows, then the test windows, with nothing shared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError, InputError
from ucsearch.lab.data.records import ResolvedFile, Series
from ucsearch.lab.suites.job import SuiteJob
from ucsearch.replay.panel import Stretch

__all__ = ["SALT", "Family", "Pool", "Stretch", "by_hash", "choose", "is_design", "load_family", "season_of"]

Floats = NDArray[np.float64]
SALT = "ucsearch"  # of the id hash that orders series; the same in all suites, so that suites share series
_DESIGN_SHARE = 8  # one id in so many is for design only
_BLOCK = 1008  # hours: six weeks of a price series are one series


@dataclass(frozen=True, eq=False)
class Family:
    """A group of series with the files they came from."""

    name: str
    dataset: str
    series: tuple[Series, ...]
    files: tuple[ResolvedFile, ...]


def is_design(name: str) -> bool:
    """Whether an id is set aside for fixing definitions."""
    return hashlib.sha256(name.encode()).digest()[0] % _DESIGN_SHARE == 0


def choose(series: Sequence[Series], count: int, least: int, purpose: str, salt: str) -> tuple[Series, ...]:
    """The `count` series of at least `least` values that come first by a hash of their id, of those for a purpose."""
    for_design = purpose == "design"
    long = [s for s in series if len(s.y) >= least and is_design(s.id) == for_design]
    if len(long) < count:
        raise DataError(f"{len(long)} series of at least {least} values, expected {count}")
    named = {s.id: s for s in long}
    return tuple(named[one] for one in by_hash(list(named), salt)[:count])


def by_hash(ids: Sequence[str], salt: str = SALT) -> list[str]:
    """Ids in the order of their hash."""
    return sorted(ids, key=lambda series_id: hashlib.sha256(f"{salt}/{series_id}".encode()).digest())


def load_family(name: str, data_dir: Path | None) -> Family:
    """All series of a family: `m4-weekly`, `m5-TX_1`, `ett-ETTh1`, `ett-ETTh-loads` (both files),
    `ltsf-exchange_rate`, `gefcom-price` (cut into blocks of six weeks; `gefcom-price-624`: from hour 624 on), or
    `sample-daily` (embedded)."""
    dataset, _, part = name.partition("-")
    if dataset == "m4":
        from ucsearch.lab.data.m4 import load_m4

        loaded = load_m4(part, data_dir=data_dir)
        return Family(name, dataset, loaded.series, loaded.report.files)
    if dataset == "sample":
        from ucsearch.lab.data.embedded import sample_demand

        season = {"daily": 7, "other": 7}.get(part)
        if season is None:
            raise InputError("family", repr(name), "sample-daily or sample-other")
        generated = sample_demand(48, 260, seed=2024 if part == "daily" else 2025).series
        renamed = tuple(_renamed(s, f"{part}-{s.id}") for s in generated)
        return Family(name, dataset, renamed, ())
    if dataset == "m5":
        from ucsearch.lab.data.m5 import load_m5

        loaded = load_m5(stores=(part,), data_dir=data_dir)
        return Family(name, dataset, tuple(map(item_series, loaded.series)), loaded.report.files)
    if dataset == "gefcom":
        from ucsearch.lab.data.gefcom import load_gefcom_price

        table = load_gefcom_price(data_dir=data_dir)
        price = np.asarray(table.values[:, table.columns.index("zonal_price")], np.float64)
        return Family(name, dataset, price_blocks(name, price), tuple(table.report.files))
    if dataset in ("ett", "ltsf"):
        from ucsearch.lab.data.ett import load_ett
        from ucsearch.lab.data.ltsf import load_ltsf

        file = part.removesuffix(LOADS)
        if file in ("ETTh", "ETTm"):
            both = [load_family(f"ett-{file}{n}{part.removeprefix(file)}", data_dir) for n in (1, 2)]
            return Family(name, dataset, both[0].series + both[1].series, both[0].files + both[1].files)
        table = load_ett(file, data_dir=data_dir) if dataset == "ett" else load_ltsf(file, data_dir=data_dir)
        values = np.asarray(table.values, np.float64)
        return Family(name, dataset, column_series(name, table.columns, values), tuple(table.report.files))
    if dataset == "trained":
        # The series of a family whose forecasts a trained network made: trained-<network>-<family>.
        inner = load_family(part.partition("-")[2], data_dir)
        return Family(name, inner.dataset, inner.series, inner.files)
    raise InputError("family", repr(name), "m4-…, m5-…, ett-…, ltsf-…, gefcom-price or sample-…",
                     hint=f"Series of your own come from a file: --family {name}=PATH")  # fmt: skip


LOADS = "-loads"
"""Ending of a family that leaves the temperature out."""


def column_series(name: str, columns: Sequence[str], values: Floats) -> tuple[Series, ...]:
    """Every finite column of a table as a series."""
    part, season = name.partition("-")[2], season_of(name)
    file, series = part.removesuffix(LOADS), []
    for i, column in enumerate(columns):
        y = np.asarray(values[:, i], np.float64)
        if np.isfinite(y).all() and not (part.endswith(LOADS) and column == "OT"):
            series.append(Series(f"{file}/{column}", y, "", season, 1, len(y)))
    return tuple(series)


def item_series(one: Series) -> Series:
    """An item of a store; what it shares with others is its department, the first two parts of its id."""
    department = "_".join(one.id.split("_")[:2])
    return Series(one.id, one.y, one.frequency, one.seasonal_period, one.horizon, one.n_train, department)


def price_blocks(name: str, price: Floats) -> tuple[Series, ...]:
    """Six weeks of hours each, nothing shared, from the hour on that the family's name ends in; the cluster is the
    quarter year."""
    part = name.partition("-")[2]
    first = part.removeprefix("price").removeprefix("-") or "0"
    if not (part.startswith("price") and first.isascii() and first.isdigit()):
        raise InputError("family", repr(name), "gefcom-price, or gefcom-price-<first hour>")
    starts = range(int(first), len(price) - _BLOCK + 1, _BLOCK)
    return tuple(
        Series(f"hours {k}-{k + _BLOCK - 1}", price[k : k + _BLOCK], "hourly", 24, 1, _BLOCK, f"quarter {k // 2191}")
        for k in starts
    )


def season_of(name: str) -> int:
    """The season of a family's series."""
    from ucsearch.lab.data.m4 import M4_FREQUENCIES

    dataset, _, part = name.partition("-")
    if dataset == "m4" and part in M4_FREQUENCIES:
        return M4_FREQUENCIES[part].seasonal_period
    file = part.removesuffix(LOADS)
    if dataset == "ltsf" and file.startswith(("electricity", "traffic")):
        return 24
    known = {"ETTh": 24, "ETTh1": 24, "ETTh2": 24, "ETTm": 96, "ETTm1": 96, "ETTm2": 96}
    return known.get(file, {"sample": 7, "m5": 7, "gefcom": 24}.get(dataset, 1))


def _renamed(s: Series, name: str) -> Series:
    return Series(name, s.y, s.frequency, s.seasonal_period, s.horizon, s.n_train, s.category)


@dataclass(frozen=True, eq=False)
class Pool:
    """Series of several families with their windows. Test windows are handed out only through an open job."""

    families: dict[str, tuple[Series, ...]]
    windows: dict[str, int]  # per split
    decisions: int  # per window
    ahead: int  # periods a decision looks ahead
    fit: int  # least periods before the first window
    scaling: str  # "level" or "steps"
    latest: int | None = None  # only so many of the latest values are used
    purpose: str = "evaluation"  # or "design": the ids that are set aside

    @property
    def least(self) -> int:
        """Values a series needs."""
        return self.fit + sum(self.windows.values()) * self.decisions + self.ahead

    def busy(self, series: Sequence[Series], least: float | None, latest: int) -> tuple[Series, ...]:
        """Those whose fitting part ends in `latest` values of at least this mean; what comes later is not looked at."""
        if least is None:
            return tuple(series)
        after = sum(self.windows.values()) * self.decisions + self.ahead
        return tuple(
            s for s in series
            if len(s.y) >= after + latest and s.y[len(s.y) - after - latest : len(s.y) - after].mean() >= least
        )  # fmt: skip

    def take(
        self, name: str, series: Sequence[Series], count: int, *, skip: int = 0, busy: float | None = None, latest: int
    ) -> None:
        """The family's `count` series that come first by the hash of their id, after the `skip` first ones; the error
        says why there are too few."""
        active = self.busy(series, busy, latest)
        try:
            self.families[name] = choose(active, skip + count, self.least, self.purpose, SALT)[skip:]
        except DataError as error:
            idle, design = len(series) - len(active), sum(is_design(one.id) for one in active)
            why = f"ask for fewer or give more: of {len(series)}, {design} are set aside for design by their id's hash"
            if busy is not None:
                why += f", {idle} are too short or have a mean below {busy:g} before the first window"
            raise DataError(f"{name}: {error} ({why})") from None

    def stretches(self, split: str, job: SuiteJob) -> list[Stretch]:
        """All windows of a split. The last window of test ends with the series; validation ends before test begins."""
        if split == "test":
            job.require_open()
        if split not in self.windows:
            raise InputError("split", repr(split), f"one of {', '.join(self.windows)}")
        out = []
        for family, series in self.families.items():
            for one in series:
                out.extend(self._cut(family, one, split))
        return out

    def opened(self) -> dict[str, dict[str, list[int]]]:
        """By family and series the periods that opening the test split hands out, counted in the whole series."""
        each = self.windows.get("test", 0) * self.decisions + self.ahead
        return {
            family: {one.id: [len(one.y) - each, len(one.y)] for one in series}
            for family, series in self.families.items()
        }

    def _cut(self, family: str, one: Series, split: str) -> list[Stretch]:
        count, each = self.windows[split], self.decisions
        y = one.y if self.latest is None else one.y[-self.latest :]
        if len(y) < self.least:
            raise DataError(f"series {one.id}: saw {len(y)} values, expected at least {self.least}")
        test = self.windows.get("test", 0) * each + self.ahead
        end = len(y) if split == "test" else len(y) - test
        # Look-ahead beyond a window is for the hindsight comparator alone; validation must not see test values.
        first = end - (self.ahead if split == "test" else 0) - count * each
        fitting = y[: len(y) - test - self.windows.get("validation", 0) * each]
        if self.scaling == "none":
            scale = 1.0
        elif self.scaling == "level":
            scale = float(np.abs(fitting).mean())
        else:
            scale = float(np.diff(fitting).std())
        if not 0.0 < scale < np.inf:
            raise DataError(f"series {one.id}: its fitting part has no scale (all values are equal or zero)")
        found = []
        for w in range(count):
            start = first + w * each
            stop = min(start + each + self.ahead, end)
            found.append(Stretch(family, one.id, w, start, each, one.seasonal_period, y[:stop] / scale, scale))
        return found
