"""Which series a suite uses, and which part of each is for which purpose.

Series are chosen by a rule that looks at nothing but length and a hash of the id. Some ids are set aside for design:
definitions (costs, grids, horizons) may be tried on them, and they appear in no split. Every other series is cut by
time: what comes first is for fitting, then the validation windows, then the test windows, with nothing shared.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ucsearch.backtest.panel import Stretch
from ucsearch.data.records import ResolvedFile, Series
from ucsearch.errors import DataError, InputError
from ucsearch.evaluation.job import Job

__all__ = ["Family", "Pool", "Stretch", "choose", "is_design", "load_family", "load_replaced"]

Floats = NDArray[np.float64]
_DESIGN_SHARE = 8  # one id in so many is for design only


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
    wanted = purpose == "design"
    long = [s for s in series if len(s.y) >= least and is_design(s.id) == wanted]
    if len(long) < count:
        raise DataError(f"{len(long)} series of at least {least} values, expected {count}")
    return tuple(sorted(long, key=lambda s: hashlib.sha256(f"{salt}/{s.id}".encode()).digest())[:count])


def load_family(name: str, data_dir: Path | None) -> Family:
    """All series of a family: `m4-weekly`, `ett-ETTh1`, `ltsf-exchange_rate`, or `sample-daily` (embedded)."""
    dataset, _, part = name.partition("-")
    if dataset == "m4":
        from ucsearch.data.m4 import load_m4

        found = load_m4(part, data_dir=data_dir)
        return Family(name, dataset, found.series, found.report.files)
    if dataset == "sample":
        from ucsearch.data.embedded import sample_demand

        season = {"daily": 7, "other": 7}.get(part)
        if season is None:
            raise InputError("family", repr(name), "sample-daily or sample-other")
        made = sample_demand(48, 260, seed=2024 if part == "daily" else 2025).series
        renamed = tuple(_renamed(s, f"{part}-{s.id}") for s in made)
        return Family(name, dataset, renamed, ())
    if dataset in ("ett", "ltsf"):
        from ucsearch.data.ett import load_ett
        from ucsearch.data.ltsf import load_ltsf

        table = load_ett(part, data_dir=data_dir) if dataset == "ett" else load_ltsf(part, data_dir=data_dir)
        season = {"ETTh1": 24, "ETTh2": 24, "ETTm1": 96, "ETTm2": 96}.get(part, 1)
        columns = []
        for i, column in enumerate(table.columns):
            y = np.asarray(table.values[:, i], np.float64)
            if np.isfinite(y).all():
                columns.append(Series(f"{part}/{column}", y, "", season, 1, len(y)))
        return Family(name, dataset, tuple(columns), tuple(table.report.files))
    raise InputError("family", repr(name), "m4-…, ett-…, ltsf-… or sample-…")


def load_replaced(name: str, path: Path) -> Family:
    """A family from other files of the same form: a folder laid out as the data folder is, or a CSV file with columns
    `series` and `value`, rows in time order, and optionally `cluster` (store, market).

    Its data set has a name of its own, by the content: the same ids in other files are other series.
    """
    dataset = name.partition("-")[0]
    if path.is_dir():
        found = load_family(name, path)
        whole = hashlib.sha256("".join(sorted(f.sha256 for f in found.files)).encode()).hexdigest()
        return Family(name, f"{dataset}@{whole[:12]}", found.series, found.files)
    if not path.is_file():
        raise InputError("--family", f"{name}={path}", "a folder or a CSV file that exists")
    body = path.read_bytes()
    try:
        header, *lines = csv.reader(io.StringIO(body.decode("utf-8-sig")))
    except (ValueError, csv.Error) as error:
        raise DataError(f"{path}: not a CSV file with a header ({error})") from error
    for column in ("series", "value"):
        if column not in header:
            raise DataError(f"{path}: row 1: column {column!r} is missing; saw {', '.join(header)}")
    values: dict[str, list[float]] = {}
    clusters: dict[str, str] = {}
    for n, line in enumerate(lines, start=2):
        if len(line) != len(header):
            raise DataError(f"{path}: row {n}: saw {len(line)} cells, expected {len(header)}")
        cells = dict(zip(header, line, strict=True))
        try:
            value = float(cells["value"])
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and cells["series"]):
            raise DataError(
                f"{path}: row {n}: saw {cells['series']!r}, {cells['value']!r}, expected an id and a number"
            )
        values.setdefault(cells["series"], []).append(value)
        if clusters.setdefault(cells["series"], cells.get("cluster", "")) != cells.get("cluster", ""):
            raise DataError(f"{path}: row {n}: series {cells['series']!r} is in two clusters")
    season = _season(name)
    series = tuple(Series(one, np.array(y), "", season, 1, len(y), clusters[one]) for one, y in sorted(values.items()))
    digest = hashlib.sha256(body).hexdigest()
    file = ResolvedFile(f"{name}/{path.name}", path, digest, len(body), "unverified", "--family", "long table", True)
    return Family(name, f"{dataset}@{digest[:12]}", series, (file,))


def _season(name: str) -> int:
    """The season that the built-in family of that name has."""
    from ucsearch.data.m4 import M4_FREQUENCIES

    dataset, _, part = name.partition("-")
    if dataset == "m4" and part in M4_FREQUENCIES:
        return M4_FREQUENCIES[part].seasonal_period
    return {"ett-ETTh1": 24, "ett-ETTh2": 24, "ett-ETTm1": 96, "ett-ETTm2": 96}.get(
        name, 7 if dataset == "sample" else 1
    )


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

    @property
    def least(self) -> int:
        """Values a series needs."""
        return self.fit + sum(self.windows.values()) * self.decisions + self.ahead

    def stretches(self, split: str, job: Job) -> list[Stretch]:
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
        if self.scaling == "level":
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
