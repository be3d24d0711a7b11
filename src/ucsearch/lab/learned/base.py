"""What learned policies share: transitions from feasible random play, masked choices, tables of values.

A learned policy sees the observation of `ucsearch.lab.gym` (state, then forecast features) and picks among feasible
actions only: an infeasible action never wins, whatever its value.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.lab.learned.store import Evidence, read_arrays, write_arrays

__all__ = ["Evidence", "Progress", "QTable", "Transitions", "collect", "masked_argmax"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Progress = Callable[[int, int], None]  # done, total


class Transitions(NamedTuple):
    """N steps of play. `done` marks steps after which nothing follows (a dead end)."""

    observations: NDArray[np.float32]  # (N, k)
    actions: Ints  # (N,)
    rewards: Floats  # (N,)
    following: NDArray[np.float32]  # (N, k)
    masks: Bools  # (N, m) what is feasible in `following`
    done: Bools  # (N,)

    def digest(self) -> str:
        """SHA-256 of all of it, for the evidence."""
        total = hashlib.sha256()
        for array in self:
            total.update(np.ascontiguousarray(array).tobytes())
        return total.hexdigest()


def collect(env: Any, steps: int, rng: np.random.Generator, progress: Progress | None = None) -> Transitions:
    """Play `steps` rounds of a `TaskVectorEnv` with uniformly random feasible actions."""
    if steps < 1:
        raise InputError("steps", steps, "a whole number of at least 1")
    observation, info = env.reset(seed=int(rng.integers(1 << 31)))
    rows: list[list[Any]] = [[] for _ in Transitions._fields]
    over = np.zeros(env.num_envs, np.bool_)
    for i in range(steps):
        mask = info["action_mask"] | over[:, None]
        actions = np.argmax(np.where(mask, rng.random(mask.shape), -1.0), axis=1)
        following, rewards, terminated, truncated, info = env.step(actions)
        keep = ~over  # the step after an episode's end only restarts it
        taken = (observation, actions, rewards, following, info["action_mask"], terminated)
        for column, values in zip(rows, taken, strict=True):
            column.append(np.asarray(values)[keep])
        observation, over = following, terminated | truncated
        if progress is not None:
            progress(i + 1, steps)
    columns = [np.concatenate(column) for column in rows]
    return Transitions(*columns)


def masked_argmax(values: Floats, mask: Bools) -> Ints:
    """(N,) the best feasible action; NaN and infeasible never win. Every row needs a feasible action."""
    if not mask.any(axis=1).all():
        row = int(np.argmin(mask.any(axis=1)))
        raise InputError("mask", "no feasible action", "at least one", index=row)
    usable = mask & ~np.isnan(values)
    filled = np.where(usable, values, -np.inf)
    best = np.argmax(filled, axis=1)
    fallback = np.argmax(mask, axis=1)  # all feasible values are NaN: the smallest feasible action
    chosen: Ints = np.where(usable.any(axis=1), best, fallback).astype(np.int64)
    return chosen


@dataclass(frozen=True, eq=False)
class QTable:
    """Values of discretised observations. Unseen cells use the mean over seen ones."""

    edges: tuple[Floats, ...]  # one array of cut points per observation entry
    cells: dict[bytes, int]  # discretised observation -> row
    values: Floats  # (rows, m)
    evidence: Evidence  # how it was trained

    def rows(self, observations: NDArray[Any]) -> Ints:
        """(N,) row of each observation, -1 when its cell was never seen."""
        keys = discretise(observations, self.edges)
        return np.array([self.cells.get(key.tobytes(), -1) for key in keys], np.int64)

    def act(self, observations: NDArray[Any], mask: Bools) -> Ints:
        """(N,) chosen action indices, feasible by construction."""
        index = self.rows(observations)
        seen = self.values[np.maximum(index, 0)]
        average = self.values.mean(axis=0)
        return masked_argmax(np.where(index[:, None] >= 0, seen, average[None]), mask)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table as .npz, and its evidence beside it."""
        keys = np.frombuffer(b"".join(self.cells), np.int16).reshape(len(self.cells), -1)
        arrays = {f"edge_{i}": e for i, e in enumerate(self.edges)}
        write_arrays(path, self.evidence, values=self.values, keys=keys, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> QTable:
        """What `save` wrote; refused when the bytes are not those that the evidence names."""
        evidence, arrays = read_arrays(path)
        edges = tuple(arrays[f"edge_{i}"] for i in range(arrays["keys"].shape[1]))
        cells = {key.tobytes(): i for i, key in enumerate(np.ascontiguousarray(arrays["keys"]))}
        return cls(edges, cells, arrays["values"], evidence)


def discretise(observations: NDArray[Any], edges: tuple[Floats, ...]) -> NDArray[np.int16]:
    """(N, k) bin numbers."""
    table = np.empty(observations.shape, np.int16)
    for i, cuts in enumerate(edges):
        table[:, i] = np.searchsorted(cuts, observations[:, i], side="right")
    return table
