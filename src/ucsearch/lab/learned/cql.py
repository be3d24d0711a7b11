"""A conservative Q-network in NumPy, trained offline (after Kumar et al. 2020): two hidden layers, Adam, a target
network, and a penalty that pushes down the values of actions the data does not show.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.lab.learned.base import Bools, Evidence, Floats, Ints, Progress, Transitions, masked_argmax
from ucsearch.lab.learned.store import read_arrays, versions_of, write_arrays

__all__ = ["ConservativeQ", "train_cql"]

Weights = tuple[Floats, ...]  # W1, b1, W2, b2, W3, b3


@dataclass(frozen=True, eq=False)
class ConservativeQ:
    """Weights, what is needed to go on training, and how inputs were scaled."""

    weights: Weights  # of three layers, matrix and offset in turn
    target: Weights  # as they were at the last `sync`
    moments: tuple[Weights, Weights]  # Adam's first and second moments
    centre: Floats  # (k,) observation mean
    scale: Floats  # (k,) observation deviation; infinite where an entry is constant
    reward_scale: float  # standard deviation of rewards in the data, by which they were divided
    evidence: Evidence  # how it was trained

    def values(self, observations: NDArray[np.floating]) -> Floats:
        """(N, m) in scaled reward units."""
        return _forward(self.weights, (observations - self.centre) / self.scale)[-1]

    def act(self, observations: NDArray[np.floating], mask: Bools) -> Ints:
        """(N,) chosen action indices, feasible by construction."""
        return masked_argmax(self.values(observations), mask)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything as .npz, and its evidence beside it."""
        groups = {"w": self.weights, "t": self.target, "m": self.moments[0], "v": self.moments[1]}
        arrays = {f"{name}{i}": x for name, group in groups.items() for i, x in enumerate(group)}
        write_arrays(
            path, self.evidence, centre=self.centre, scale=self.scale, reward_scale=np.array(self.reward_scale),
            **arrays,
        )  # fmt: skip

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ConservativeQ:
        """What `save` wrote; refused when the bytes are not those that the evidence names."""
        evidence, arrays = read_arrays(path)
        weights, target, first, second = (tuple(arrays[f"{name}{i}"] for i in range(6)) for name in "wtmv")
        scale = float(arrays["reward_scale"])
        return cls(weights, target, (first, second), arrays["centre"], arrays["scale"], scale, evidence)


def train_cql(
    data: Transitions,
    *,
    actions: int,
    steps: int = 4_000,
    hidden: int = 32,  # with this batch, products small enough that no BLAS spreads them over threads
    batch: int = 128,
    rate: float = 1e-3,
    discount: float = 0.95,
    penalty: float = 0.5,
    sync: int = 200,
    seed: int = 0,
    start: ConservativeQ | None = None,
    progress: Progress | None = None,
) -> ConservativeQ:
    """Train for `steps` minibatches. `start` resumes; step i draws its batch from (seed, i), so a resumed run ends
    where an uninterrupted one does, bit for bit."""
    if not 0.0 <= discount < 1.0 or not penalty >= 0.0 or steps < 1:
        raise InputError("discount, penalty, steps", (discount, penalty, steps), "in [0, 1), >= 0 and >= 1")
    model = start or _fresh(data, actions, hidden, seed)
    inputs = (data.observations - model.centre) / model.scale
    following = (data.following - model.centre) / model.scale
    rewards = data.rewards / model.reward_scale
    weights, target = list(model.weights), model.target
    first, second = (list(group) for group in model.moments)
    begin, loss = model.evidence.steps, math.nan
    for step in range(begin, begin + steps):
        rng = np.random.default_rng([seed, step])
        pick = rng.integers(len(rewards), size=min(batch, len(rewards)))
        after = _forward(target, following[pick])[-1]
        future = np.max(np.where(data.masks[pick], after, -np.inf), axis=1)
        aim = rewards[pick] + discount * np.where(data.done[pick] | ~np.isfinite(future), 0.0, future)
        loss, gradient = _gradient(tuple(weights), inputs[pick], data.actions[pick], aim, penalty)
        for i, g in enumerate(gradient):
            first[i] = 0.9 * first[i] + 0.1 * g
            second[i] = 0.999 * second[i] + 0.001 * g * g
            corrected = first[i] / (1.0 - 0.9 ** (step + 1))
            weights[i] = weights[i] - rate * corrected / (np.sqrt(second[i] / (1.0 - 0.999 ** (step + 1))) + 1e-8)
        if (step + 1) % sync == 0:
            target = tuple(weights)
        if progress is not None:
            progress(step + 1 - begin, steps)
    settings = dict(hidden=hidden, batch=batch, rate=rate, discount=discount, penalty=penalty, sync=sync)
    evidence = Evidence(
        "conservative Q-network", settings, seed, data.digest(), begin + steps, loss, versions=versions_of()
    )
    return replace(
        model, weights=tuple(weights), target=target, moments=(tuple(first), tuple(second)), evidence=evidence
    )


def _fresh(data: Transitions, actions: int, hidden: int, seed: int) -> ConservativeQ:
    rng = np.random.default_rng(seed)
    size = data.observations.shape[1]
    shapes = ((size, hidden), (hidden,), (hidden, hidden), (hidden,), (hidden, actions), (actions,))
    weights = tuple(
        rng.normal(0.0, math.sqrt(2.0 / shape[0]), shape) if len(shape) == 2 else np.zeros(shape) for shape in shapes
    )
    zeros = tuple(np.zeros(shape) for shape in shapes)
    observed = data.observations.astype(np.float64)
    scale = observed.std(axis=0)
    evidence = Evidence("conservative Q-network", {}, seed, data.digest(), 0, math.nan)
    spread = float(data.rewards.std()) or 1.0
    centre = observed.mean(axis=0)
    # A constant entry ("no limit" is 1e18) says nothing; rounding of its mean must not look like a signal.
    width = np.where(scale > 1e-9 * (1.0 + np.abs(centre)), scale, np.inf)
    return ConservativeQ(weights, weights, (zeros, zeros), centre, width, spread, evidence)


def _forward(weights: Weights, inputs: NDArray[np.floating]) -> tuple[Floats, Floats, Floats]:
    w1, b1, w2, b2, w3, b3 = weights
    one = np.maximum(inputs @ w1 + b1, 0.0)
    two = np.maximum(one @ w2 + b2, 0.0)
    return one, two, two @ w3 + b3


def _gradient(weights: Weights, inputs: Floats, actions: Ints, aim: Floats, penalty: float) -> tuple[float, Weights]:
    """Squared TD error plus penalty * (logsumexp Q - Q of the taken action), and its gradient by hand."""
    one, two, q = _forward(weights, inputs)
    count, rows = len(aim), np.arange(len(aim))
    error = q[rows, actions] - aim
    top = q.max(axis=1, keepdims=True)
    share = np.exp(q - top)
    total = share.sum(axis=1, keepdims=True)
    conservative = (top[:, 0] + np.log(total[:, 0])) - q[rows, actions]
    out = penalty * share / total
    out[rows, actions] += 2.0 * error - penalty
    out /= count
    _, _, w2, _, w3, _ = weights
    back_two = (out @ w3.T) * (two > 0)
    back_one = (back_two @ w2.T) * (one > 0)
    gradient = (
        inputs.T @ back_one, back_one.sum(axis=0), one.T @ back_two, back_two.sum(axis=0), two.T @ out, out.sum(axis=0)
    )  # fmt: skip
    return float((error * error + penalty * conservative).mean()), gradient
