"""Classifiers of direction: frequencies, the last move, ridge, and small trained networks without their library.

Networks were trained by `scripts/train_lob.py` (`make backbones`); here are their weights, with a hash, and a
forward pass in NumPy. All answer with probabilities of down, still and up.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.lab.learned.store import read_arrays
from ucsearch.lab.suites.kinds.direction.books import CLASSES, Book

__all__ = ["ARCHITECTURES", "FOLDER", "Network", "last_move", "load_networks", "majority", "ridge"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FOLDER = "networks"
ARCHITECTURES = ("mlp", "cnn")
_LEAST = 0.02  # probability that a ridge score leaves to any class
_SLOPE = 0.01  # of a leaky rectifier below 0


def majority(book: Book, at: Ints) -> tuple[Floats, Ints]:
    """The classes' frequencies on the fitting part, whatever is seen."""
    counts = np.bincount(book.labels(book.fitting()), minlength=len(CLASSES)) + 1.0
    found = np.tile(counts / counts.sum(), (len(at), 1))
    return found, found.argmax(axis=1)


def last_move(book: Book, at: Ints) -> tuple[Floats, Ints]:
    """The last move goes on; probabilities are how often each class followed that move on the fitting part."""
    fit = book.fitting()
    table = np.ones((len(CLASSES), len(CLASSES)))
    np.add.at(table, (book.last_moves(fit), book.labels(fit)), 1.0)
    last = book.last_moves(at)
    return (table / table.sum(axis=1, keepdims=True))[last], last


def ridge(book: Book, at: Ints, penalty: float) -> tuple[Floats, Ints]:
    """Least squares on the classes' indicators with a penalty; scores are cut off and normalised."""
    fit = book.fitting()
    x, target = _flat(book, fit), np.eye(len(CLASSES))[book.labels(fit)]
    gram = x.T @ x + penalty * np.eye(x.shape[1])
    scores = _flat(book, at) @ np.linalg.solve(gram, x.T @ target)
    kept = np.maximum(scores, _LEAST)
    return kept / kept.sum(axis=1, keepdims=True), scores.argmax(axis=1)


def _flat(book: Book, at: Ints) -> Floats:
    windows = book.windows(at).reshape(len(at), -1)
    return np.concatenate([windows, np.ones((len(at), 1))], axis=1)


@dataclass(frozen=True, eq=False)
class Network:
    """A trained classifier. `mlp`: two dense layers on the flattened window. `cnn`: a convolution over time, two beside
    each other on top of it (one and three samples wide), their mean and last value, and a dense layer."""

    architecture: str
    seed: int
    arrays: dict[str, Floats]

    @property
    def name(self) -> str:
        return f"{self.architecture}-{self.seed}"

    def logits(self, windows: Floats) -> Floats:
        """(n, 3) of windows (n, W, F)."""
        a = self.arrays
        if self.architecture == "mlp":
            hidden = _leaky(windows.reshape(len(windows), -1) @ a["w1"] + a["b1"])
            return np.asarray(_leaky(hidden @ a["w2"] + a["b2"]) @ a["w3"] + a["b3"])
        first = _leaky(_convolved(windows, a["k1"], a["b1"]))
        both = [_leaky(_convolved(first, a[k], a[b])) for k, b in (("k2", "b2"), ("k3", "b3"))]
        top = np.concatenate(both, axis=2)
        return np.asarray(np.concatenate([top.mean(axis=1), top[:, -1]], axis=1) @ a["w"] + a["b"])

    def __call__(self, book: Book, at: Ints) -> tuple[Floats, Ints]:
        found = self.logits(book.windows(at))
        odds = np.exp(found - found.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True), found.argmax(axis=1)


def _leaky(x: Floats) -> Floats:
    return np.where(x > 0.0, x, _SLOPE * x)


def _convolved(x: Floats, kernel: Floats, bias: Floats) -> Floats:
    """(n, W, out) of (n, W, in) by kernel (width, in, out), zeros beyond both ends."""
    width = len(kernel)
    padded = np.pad(x, ((0, 0), (width // 2, width // 2), (0, 0)))
    return np.asarray(bias + sum(padded[:, i : i + x.shape[1]] @ kernel[i] for i in range(width)))


def load_networks(book: str, seeds: int) -> list[Network]:
    """The stored networks of a book; bytes that their evidence does not name are refused."""
    place = resources.files("ucsearch.lab.suites") / FOLDER / f"{book}.npz"
    if not place.is_file():
        raise InputError("networks", repr(book), "a book with stored networks; `make backbones` trains them")
    _, arrays = read_arrays(str(place))
    found = []
    for architecture in ARCHITECTURES:
        for seed in range(seeds):
            head = f"{architecture}-{seed}/"
            own = {k.removeprefix(head): np.asarray(v, np.float64) for k, v in arrays.items() if k.startswith(head)}
            if not own:
                raise InputError("networks", f"no {head[:-1]} for {book}", f"networks of {seeds} seeds")
            found.append(Network(architecture, seed, own))
    return found


def probe_of(book: str) -> tuple[Floats, dict[str, Any]]:
    """Windows and the logits that the training library gave for them, by network, for checking the forward pass."""
    _, arrays = read_arrays(str(resources.files("ucsearch.lab.suites") / FOLDER / f"{book}.npz"))
    told = {k.removeprefix("probe/"): v for k, v in arrays.items() if k.startswith("probe/")}
    return np.asarray(told.pop("windows"), np.float64), told
