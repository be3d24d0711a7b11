"""What the loaders return: frozen records over read-only arrays, with a report of what was found.

Shapes: T rows in time order, C columns, L book levels, N samples.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError

__all__ = [
    "FI2010",
    "Finding",
    "LoadReport",
    "OrderBook",
    "ResolvedFile",
    "Series",
    "SeriesSet",
    "Status",
    "Table",
    "read_only",
]

Floats = NDArray[np.float64]
Status = Literal["verified", "recorded", "unverified"]
Kind = TypeVar("Kind", bound=np.generic)


def read_only(array: NDArray[Kind]) -> NDArray[Kind]:
    """A contiguous array that refuses writes; copies when the caller could still write to it."""
    out = np.ascontiguousarray(array)
    if out.flags.writeable:
        if out is array or out.base is not None:
            out = out.copy()
        out.flags.writeable = False
    return out


@dataclass(frozen=True, slots=True)
class ResolvedFile:
    """One file on disk and how far it can be trusted.

    `verified`: equals the hash in the registry. `recorded`: equals the hash written down when it was first
    downloaded. `unverified`: nothing to compare with.
    """

    name: str  # in the registry, such as "ett/ETTh1"
    path: Path  # where it is
    sha256: str  # of the bytes on disk, hex
    bytes: int  # its size
    status: Status  # "verified": a published hash; "recorded": as downloaded; "unverified": nobody can say
    found_in: str  # "data-dir", "UCSEARCH_DATA" or "cache"
    layout: str  # which of the supported file formats
    whole: bool  # False: a subset of the published file
    note: str = ""  # what else is known about this copy


@dataclass(frozen=True, slots=True)
class Finding:
    """Something a reader should know about the data, and what was done about it."""

    what: str  # such as "missing values"
    count: int  # how often
    detail: str  # where, and what was done about it


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Which files were read and what was found in them."""

    files: tuple[ResolvedFile, ...] = ()  # in the order read
    findings: tuple[Finding, ...] = ()  # what a reader should know
    subset: bool = False  # True: fewer series, rows or columns than published

    def rows(self) -> list[tuple[str, int, str]]:
        """(what, count, detail) per finding, for tables."""
        return [(f.what, f.count, f.detail) for f in self.findings]

    def count(self, what: str) -> int:
        """Total count of the findings called `what`; 0 when there is none."""
        return sum(f.count for f in self.findings if f.what == what)


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """One univariate series; `y[n_train:]` is its official hold-out, empty when there is none."""

    id: str  # its name at the source
    y: Floats  # (T,) read-only, in the unit of the source
    frequency: str  # "yearly", "hourly", "15min", ...
    seasonal_period: int  # in steps; 1 when none
    horizon: int  # steps to forecast
    n_train: int  # y[:n_train] may be used for fitting
    category: str = ""  # of the source, such as "Finance"; "" where it has none

    def __post_init__(self) -> None:
        y = np.asarray(self.y, dtype=np.float64)
        if y.ndim != 1 or y.size == 0:
            raise InputError("series.y", f"shape {y.shape}", "shape (T,) with T >= 1", hint=f"Series {self.id!r}.")
        good = np.isfinite(y)
        if not good.all():
            at = int(np.argmin(good))
            raise InputError("series.y", y[at], "a finite number", index=at, hint=f"Series {self.id!r}.")
        if not 1 <= self.n_train <= y.size:
            raise InputError("series.n_train", self.n_train, f"1..{y.size}", hint=f"Series {self.id!r}.")
        if not self.seasonal_period >= 1:
            raise InputError("series.seasonal_period", self.seasonal_period, "at least 1")
        if not self.horizon >= 1:
            raise InputError("series.horizon", self.horizon, "at least 1")
        object.__setattr__(self, "y", read_only(y))

    @property
    def train(self) -> Floats:
        return self.y[: self.n_train]

    @property
    def test(self) -> Floats:
        return self.y[self.n_train :]


@dataclass(frozen=True, slots=True, eq=False)
class SeriesSet:
    """Series of one source, in the order of the source, with unique ids."""

    name: str  # of the source
    series: tuple[Series, ...]  # in its order
    report: LoadReport = LoadReport()  # files read, and what was found in them

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for at, one in enumerate(self.series):
            if one.id in seen:
                raise InputError("series", f"id {one.id!r} a second time", "unique ids", index=at)
            seen.add(one.id)

    def __len__(self) -> int:
        return len(self.series)

    def __iter__(self) -> Iterator[Series]:
        return iter(self.series)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(one.id for one in self.series)

    def get(self, series_id: str) -> Series:
        """The series of this id."""
        for one in self.series:
            if one.id == series_id:
                return one
        raise InputError("id", repr(series_id), f"one of the {len(self.series)} ids of {self.name}")


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Several columns over one time axis."""

    name: str  # of the source
    columns: tuple[str, ...]  # C names
    time: NDArray[np.datetime64]  # (T,) seconds, read-only
    values: Floats  # (T, C) read-only
    frequency: str  # "hourly", "15min", ...
    seasonal_period: int  # steps; 1 when none
    report: LoadReport = LoadReport()  # files read, and what was found in them

    def column(self, name: str) -> Floats:
        """The column of this `name`, (T,)."""
        if name not in self.columns:
            raise InputError("column", repr(name), f"one of {', '.join(self.columns)}")
        return self.values[:, self.columns.index(name)]

    def to_series(self, horizon: int, n_train: int | None = None) -> SeriesSet:
        """One series per column, of which the first `n_train` rows may be used for fitting (all of them when None);
        refused where a column has missing values."""
        count = self.values.shape[0] if n_train is None else n_train
        series = tuple(
            Series(
                id=f"{self.name}:{column}",
                y=self.values[:, at],
                frequency=self.frequency,
                seasonal_period=self.seasonal_period,
                horizon=horizon,
                n_train=count,
            )
            for at, column in enumerate(self.columns)
        )
        return SeriesSet(self.name, series, self.report)


@dataclass(frozen=True, slots=True, eq=False)
class OrderBook:
    """Book states after each event. Prices are integers in 1/10000 dollar, sizes in shares.

    An empty level has size 0 and the format's dummy price (+-9999999999).
    """

    name: str  # of the source
    ask_price: NDArray[np.int64]  # (T, L)
    ask_size: NDArray[np.int64]  # (T, L)
    bid_price: NDArray[np.int64]  # (T, L)
    bid_size: NDArray[np.int64]  # (T, L)
    seconds: Floats | None = None  # (T,) after midnight; None without a message file
    event_type: NDArray[np.int64] | None = None  # (T,) 1..7
    report: LoadReport = LoadReport()  # files read, and what was found in them

    @property
    def levels(self) -> int:
        return int(self.ask_price.shape[1])

    def mid_dollars(self) -> Floats:
        """Mid price (T,) in dollars; NaN where a side of the book is empty."""
        both = (self.ask_size[:, 0] > 0) & (self.bid_size[:, 0] > 0)
        mid = (self.ask_price[:, 0] + self.bid_price[:, 0]) / 20000.0
        return np.where(both, mid, np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class FI2010:
    """One FI-2010 file: normalised features and mid-price movement labels, in event time."""

    name: str  # in the registry
    features: Floats  # (N, 144); the first 40 are 10 levels of ask price, ask size, bid price, bid size
    labels: NDArray[np.int8]  # (N, 5) 1 up, 2 stationary, 3 down
    horizons: tuple[int, ...]  # events ahead, per label column
    report: LoadReport = LoadReport()  # files read, and what was found in them

    def book(self) -> Floats:
        """(N, 10, 4): level by ask price, ask size, bid price, bid size."""
        return self.features[:, :40].reshape(-1, 10, 4)

    def label(self, horizon: int) -> NDArray[np.int8]:
        """Labels (N,) for one horizon in events."""
        if horizon not in self.horizons:
            raise InputError("horizon", horizon, f"one of {self.horizons}")
        return self.labels[:, self.horizons.index(horizon)]
