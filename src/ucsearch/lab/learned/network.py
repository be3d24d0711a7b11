"""Trained networks without their training library: weights in an .npz, a forward pass in NumPy, and the mask.

`load_policy(name)` loads one that comes with the package; its SHA-256 is checked against the evidence beside it.

>>> policy = load_policy("lost-sales-ppo-zipkin-poisson-p4-L2")
>>> policy(np.array([[5.0, 5.0]]), np.ones((1, 14), bool)).shape
(1,)
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.lab.learned.base import Bools, Evidence, Floats, Ints, masked_argmax
from ucsearch.lab.learned.store import read_arrays, write_arrays

__all__ = ["NetworkPolicy", "load_policy", "policy_names"]

_FOLDER = resources.files("ucsearch.lab.learned") / "policies"
_ACTIVATIONS = ("tanh", "relu")


@dataclass(frozen=True, eq=False)
class NetworkPolicy:
    """A deterministic policy: observations in, the feasible action with the highest output out."""

    weights: tuple[Floats, ...]  # W1 (k, h1), b1 (h1,), W2, b2, ..., the last (h, m) and (m,)
    activation: str  # after every layer but the last: "tanh" or "relu"
    centre: Floats  # (k,) subtracted from observations
    scale: Floats  # (k,) then divided by; infinite where an entry is not looked at
    evidence: Evidence  # how it was trained

    def __post_init__(self) -> None:
        if self.activation not in _ACTIVATIONS:
            raise InputError("activation", repr(self.activation), " or ".join(map(repr, _ACTIVATIONS)))
        size = self.centre.size
        if len(self.weights) < 2 or len(self.weights) % 2:
            raise InputError("weights", f"{len(self.weights)} arrays", "pairs of matrix and bias")
        for i, (w, b) in enumerate(zip(self.weights[::2], self.weights[1::2], strict=True)):
            if w.ndim != 2 or w.shape[0] != size or b.shape != (w.shape[1],):
                raise InputError("weights", f"shapes {w.shape} and {b.shape}", f"({size}, n) and (n,)", index=2 * i)
            if not (np.isfinite(w).all() and np.isfinite(b).all()):
                raise InputError("weights", "a number that is not finite", "finite numbers", index=2 * i)
            size = w.shape[1]

    @property
    def actions(self) -> int:
        return int(self.weights[-1].size)

    def values(self, observations: NDArray[Any]) -> Floats:
        """(N, m): logits or values. A row's numbers do not depend on the other rows, as a BLAS's would."""
        seen = np.asarray(observations, dtype=np.float64)
        if seen.ndim != 2 or seen.shape[1] != self.centre.size:
            raise InputError("observations", f"shape {seen.shape}", f"(N, {self.centre.size})")
        x = (seen - self.centre) / self.scale
        layers = len(self.weights) // 2
        for i in range(layers):
            w, b = self.weights[2 * i], self.weights[2 * i + 1]
            out = np.repeat(b[None], len(x), axis=0)
            for k in range(w.shape[0]):
                out += x[:, k, None] * w[k]
            if i < layers - 1:
                out = np.tanh(out) if self.activation == "tanh" else np.maximum(out, 0.0)
            x = out
        return x

    def act(self, observations: NDArray[Any], mask: Bools) -> Ints:
        """(N,) chosen action indices, feasible by construction."""
        return masked_argmax(self.values(observations), np.asarray(mask, np.bool_))

    __call__ = act

    def save(self, path: str | os.PathLike[str]) -> str:
        """Write the .npz (weights in single precision) and the evidence; returns the SHA-256."""
        arrays = {f"w{i}": w.astype(np.float32) for i, w in enumerate(self.weights)}
        return write_arrays(
            path, self.evidence, centre=self.centre, scale=self.scale, activation=np.array(self.activation), **arrays
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> NetworkPolicy:
        """What `save` wrote; refused when the bytes are not those that the evidence names."""
        evidence, arrays = read_arrays(path)
        try:
            count = len(arrays) - 3
            weights = tuple(arrays[f"w{i}"].astype(np.float64) for i in range(count))
            return cls(weights, str(arrays["activation"]), arrays["centre"], arrays["scale"], evidence)
        except KeyError as error:
            raise InputError(
                "policy file", f"{path} without {error}", "a network saved by ucsearch.lab.learned"
            ) from None


def policy_names() -> tuple[str, ...]:
    """Policies that come with the package."""
    return tuple(sorted(p.name.removesuffix(".npz") for p in _FOLDER.iterdir() if p.name.endswith(".npz")))


def load_policy(name: str) -> NetworkPolicy:
    """A policy that comes with the package; refused when its bytes are not those its evidence names."""
    if name not in policy_names():
        raise InputError("name", repr(name), f"one of {', '.join(policy_names())}")
    with resources.as_file(_FOLDER) as folder:
        return NetworkPolicy.load(folder / f"{name}.npz")
