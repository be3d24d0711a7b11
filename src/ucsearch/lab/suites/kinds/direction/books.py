"""Samples of a limit order book: what is seen, which way the price went, and what a unit held earned.

A sample is taken every so many events. The label follows FI-2010: the mean mid-price of the next samples against the
mid-price now, up or down if it moved by more than a threshold, fixed on the fitting part so that a third stays.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError, InputError
from ucsearch.lab.data.records import FI2010, OrderBook, ResolvedFile
from ucsearch.lab.suites.job import SuiteJob

__all__ = ["CLASSES", "FEATURES", "Book", "Cut", "book_of", "features_of", "from_fi2010", "load_book", "made_book"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
CLASSES = ("down", "still", "up")
FEATURES = ("spread", "ask size", "bid size", "imbalance", "change", "micro-price")
CENT = 100.0  # LOBSTER's unit of price is 1/10000 dollar


class Cut(NamedTuple):
    """How samples are cut by time: blocks of the same length at the end, fitting before them."""

    every: int  # events between samples
    window: int  # samples that a classifier sees
    ahead: int  # samples that a label looks ahead
    block: int  # samples of a block
    validation: int  # blocks
    test: int  # blocks


@dataclass(frozen=True, eq=False)
class Book:
    """Samples of one instrument, cut by time into fitting, validation blocks and test blocks."""

    name: str
    seen: Floats  # (T, F) features of every sample
    mid: Floats  # (T,)
    cut: Cut
    files: tuple[ResolvedFile, ...] = ()
    told: Ints | None = None  # (T,) labels that the file itself has; None: they follow from the prices

    def __post_init__(self) -> None:
        least = self.cut.window + 50 + (self.cut.validation + self.cut.test) * self.cut.block + 3 * self.cut.ahead
        if len(self.mid) < least:
            raise DataError(f"{self.name}: saw {len(self.mid)} samples, expected at least {least}")

    @property
    def test_start(self) -> int:
        return len(self.mid) - self.cut.ahead - self.cut.test * self.cut.block

    @property
    def validation_start(self) -> int:
        """Labels of validation look ahead no further than where test begins."""
        return self.test_start - self.cut.ahead - self.cut.validation * self.cut.block

    @property
    def fit_stop(self) -> int:
        """Samples before this one have labels that end before validation begins."""
        return self.validation_start - self.cut.ahead

    def starts(self, split: str) -> list[int]:
        """The first sample of each block."""
        first = self.validation_start if split == "validation" else self.test_start
        return [first + n * self.cut.block for n in range(getattr(self.cut, split))]

    def block_name(self, start: int) -> str:
        return f"{self.name} samples {start}-{start + self.cut.block - 1}"

    def opened(self) -> dict[str, list[int]]:
        """The test blocks, from the first sample to before the last."""
        return {self.block_name(a): [a, a + self.cut.block] for a in self.starts("test")}

    def windows(self, at: Ints) -> Floats:
        """(n, window, F) what is known at the samples `at`, the latest last, in units of the fitting part."""
        fit = self.seen[: self.fit_stop]
        scaled = (self.seen - fit.mean(axis=0)) / np.maximum(fit.std(axis=0), 1e-9)
        back = np.arange(self.cut.window) - self.cut.window + 1
        return np.asarray(np.clip(scaled[at[:, None] + back], -8.0, 8.0))

    def moves(self, at: Ints) -> Floats:
        """(n,) mean mid-price of the next samples less the mid-price now."""
        ahead = at[:, None] + 1 + np.arange(self.cut.ahead)
        return np.asarray(self.mid[ahead].mean(axis=1) - self.mid[at])

    @property
    def threshold(self) -> float:
        """A third of the fitting part's moves are no larger."""
        return float(np.quantile(np.abs(self.moves(self.fitting())), 1.0 / 3.0))

    def fitting(self) -> Ints:
        return np.arange(self.cut.window - 1, self.fit_stop, dtype=np.int64)

    def labels(self, at: Ints) -> Ints:
        """(n,) 0 down, 1 still, 2 up."""
        if self.told is not None:
            return np.asarray(self.told[at], np.int64)
        moved, limit = self.moves(at), self.threshold
        return np.where(moved > limit, 2, np.where(moved < -limit, 0, 1)).astype(np.int64)

    def last_moves(self, at: Ints) -> Ints:
        """(n,) the class of the move just before: the mid-price now against the mean of the samples before."""
        behind = np.maximum(at[:, None] - 1 - np.arange(self.cut.ahead), 0)
        moved, limit = self.mid[at] - self.mid[behind].mean(axis=1), self.threshold
        return np.where(moved > limit, 2, np.where(moved < -limit, 0, 1)).astype(np.int64)

    def steps(self, at: Ints, count: int) -> Floats:
        """(n, count) what a unit held long earned in each of the next steps, in usual steps of the fitting part."""
        usual = float(np.diff(self.mid[: self.fit_stop]).std())
        if not 0.0 < usual < np.inf:
            raise DataError(f"{self.name}: the price of its fitting part never changes")
        ahead = at[:, None] + np.arange(count + 1)
        return np.asarray(np.diff(self.mid[np.minimum(ahead, len(self.mid) - 1)], axis=1) / usual)

    def block(self, start: int, split: str, job: SuiteJob) -> Ints:
        """The samples of a block; those of the test only when it is open."""
        if split == "test":
            job.require_open()
        return np.arange(start, start + self.cut.block, dtype=np.int64)


def features_of(ask: Floats, ask_size: Floats, bid: Floats, bid_size: Floats) -> tuple[Floats, Floats]:
    """(T, F) features and (T,) mid-price of best quotes, in cents."""
    mid = (ask + bid) / (2.0 * CENT)
    total = np.maximum(ask_size + bid_size, 1.0)
    micro = (ask * bid_size + bid * ask_size) / (total * CENT) - mid
    change = np.concatenate([[0.0], np.diff(mid)])
    seen = [(ask - bid) / CENT, np.log1p(ask_size), np.log1p(bid_size), (bid_size - ask_size) / total, change, micro]
    return np.stack(seen, axis=1), mid


def book_of(data: OrderBook, cut: Cut, files: tuple[ResolvedFile, ...] = ()) -> Book:
    """Best quotes of a LOBSTER file, every `cut.every` events."""
    rows = slice(cut.every - 1, None, cut.every)
    quotes = [
        np.asarray(x[rows, 0], np.float64) for x in (data.ask_price, data.ask_size, data.bid_price, data.bid_size)
    ]
    if (quotes[0] <= quotes[2]).any():
        raise DataError(f"{data.name}: a crossed book has no mid-price")
    seen, mid = features_of(*quotes)
    return Book(data.name, seen, mid, cut, files)


def from_fi2010(data: FI2010, cut: Cut, horizon: int = 50) -> Book:
    """A file of FI-2010: the forty numbers of its ten levels, and its own labels (1 up, 2 still, 3 down).

    Its rows are every tenth event already, and normalised: the mid-price is in the file's unit.
    """
    book = data.book()[:, 0]  # (T, 4) ask price, ask size, bid price, bid size
    told = 3 - np.asarray(data.label(horizon), np.int64)
    return Book(data.name, np.asarray(data.features[:, :40]), (book[:, 0] + book[:, 2]) / 2.0, cut, told=told)


def made_book(name: str, seed: int, cut: Cut, samples: int) -> Book:
    """A generated book whose imbalance leans the way the price will go."""
    rng = np.random.default_rng([seed, int(name.rpartition("-")[2])])
    lean = np.zeros(samples)
    for t in range(1, samples):
        lean[t] = 0.8 * lean[t - 1] + rng.standard_normal()
    mid = 50_000.0 + 100.0 * np.cumsum(0.6 * np.concatenate([[0.0], lean[:-1]]) + rng.standard_normal(samples))
    half = 50.0 * rng.integers(1, 4, samples)
    sizes = [100.0 * np.exp(0.3 * rng.standard_normal(samples) + sign * 0.4 * lean) for sign in (-1.0, 1.0)]
    seen, price = features_of(mid + half, sizes[0], mid - half, sizes[1])
    return Book(name, seen, price, cut)


def load_book(name: str, cut: Cut, seed: int, samples: int, data_dir: Path | None) -> Book:
    """`lobster-AAPL`, `fi2010-7` (train part of that fold) or `made-0`."""
    kind, _, part = name.partition("-")
    if kind == "lobster":
        from ucsearch.lab.data.lob import load_lobster

        data = load_lobster(part, data_dir=data_dir)
        return dataclasses.replace(book_of(data, cut, tuple(data.report.files)), name=name)
    if kind == "fi2010" and part.isdigit():
        from ucsearch.lab.data.lob import load_fi2010

        found = load_fi2010("zscore", int(part), "train", data_dir=data_dir)
        return dataclasses.replace(from_fi2010(found, cut), name=name, files=tuple(found.report.files))
    if kind == "made" and part.isdigit():
        return made_book(name, seed, cut, samples)
    raise InputError("books", repr(name), "lobster-AAPL, lobster-AMZN, fi2010-<fold> or made-<number>")
