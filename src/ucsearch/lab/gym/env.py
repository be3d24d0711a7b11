"""`TaskEnv`: a task, realised series and (optionally) their forecasts as a Gymnasium environment.

An episode walks along one series: the agent sees the state and the forecast made at that time, picks one of the task's
actions, and the realised outcome moves the state. Only feasible actions are ever taken: `action_masks()` (for masked
PPO) and `info["action_mask"]` (for the rest) say which. What an agent picks outside the mask is refused
(`invalid="raise"`) or, by default, replaced by the nearest feasible action, and `info["replaced"]` says so. A state
without a feasible action ends the episode (`terminated`, `info["dead_end"]`); after `length` steps it is truncated, and
the last reward then contains the task's `terminal` value, or what a dead end costs where `allowed_end` says no.

`start` is a state, a list of states of which each episode draws one, or a function of a `numpy.random.Generator`. Every
window draws from a generator of its own, in the order series, time, start: window i of a vector environment that was
reset with seed n is the single environment reset with seed n + i, as Gymnasium has it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch.engine.simulate import Simulator
from ucsearch.errors import InputError
from ucsearch.layout import as_finite
from ucsearch.rules.answers import as_allowed
from ucsearch.task import Task

__all__ = ["Episodes", "TaskEnv", "TaskVectorEnv"]

Floats = NDArray[np.float64]


class Episodes(TypedDict, total=False):
    """What both environments take by name."""

    features: Sequence[ArrayLike] | None  # of each series (T, K): what is known at each of its times
    length: int  # steps of an episode, 50 unless given
    params: Any  # of the task; its own unless given
    dead_end_reward: float  # added where a state has no feasible action; 0 unless given
    invalid: Literal["nearest", "raise"]  # what is done about an action outside the mask; "nearest" unless given
    engine: str  # "compiled" unless given


class _World:
    """What both environments share: series, features, scaling and the simulator."""

    def __init__(
        self, task: Task, start: Any, series: Sequence[ArrayLike], *, features: Sequence[ArrayLike] | None = None,
        length: int = 50, params: Any = None, dead_end_reward: float = 0.0, invalid: str = "nearest",
        engine: str = "compiled",
    ) -> None:  # fmt: skip
        if invalid not in ("nearest", "raise"):
            raise InputError("invalid", repr(invalid), "'nearest' or 'raise'")
        self.invalid = invalid
        self.draw: Callable[[np.random.Generator], Any] | None = start if callable(start) else None
        several = (
            [start(np.random.default_rng(0))] if callable(start) else start if isinstance(start, list) else [start]
        )
        if not several:
            raise InputError("start", "an empty list", "at least one state")
        self.layout = task.layout(several[0])
        self.starts = np.array([self.layout.flatten(s, "start") for s in several])
        self.series = [self._outcomes(task, y, i) for i, y in enumerate(series)]
        if not self.series:
            raise InputError("series", "none", "at least one series of outcomes")
        self.features = self._features(features)
        if isinstance(length, bool) or not isinstance(length, int) or length < 1:
            raise InputError("length", repr(length), "a whole number of at least 1")
        self.length = length
        for i, y in enumerate(self.series):
            if len(y) < length:
                raise InputError("series", f"{len(y)} outcomes", f"at least {length}, one episode", index=i)
        self.task = task
        row = task.params_row if params is None else np.array([task.params_layout.flatten(params, "params")])  # type: ignore[union-attr]
        self.simulator = Simulator(task, self.layout, params=row, engine=engine)
        self.dead_end_reward = float(dead_end_reward)
        self.width = self.layout.size + self.features[0].shape[1]
        self.observation = gymnasium.spaces.Box(-np.inf, np.inf, (self.width,), np.float32)
        self.actions = gymnasium.spaces.Discrete(task.action_array.size)
        self._some_feasible(self.starts)

    def about(self) -> dict[str, Any]:
        """What an episode is made of, for the evidence of a policy trained here."""
        total = hashlib.sha256()
        for array in (*self.series, *self.features, self.starts, self.simulator.params):
            total.update(np.ascontiguousarray(array).tobytes())
        return {
            "task": self.task.name,
            "actions": self.task.action_array.tolist(),
            "start": "drawn"
            if self.draw is not None
            else np.squeeze(self.starts, axis=0).tolist()
            if len(self.starts) == 1
            else self.starts.tolist(),
            "series": len(self.series),
            "length": self.length,
            "features": int(self.features[0].shape[1]),
            "digest": total.hexdigest(),
        }

    def begin(self, random: np.random.Generator, options: dict[str, Any] | None = None) -> tuple[int, int, Floats]:
        """Series, time and flat state of a new episode: drawn, or as the options say."""
        if not isinstance(options, Mapping | None):
            raise InputError("options", repr(options), "a dict with 'series', 'at' or 'state', or None")
        asked = dict(options or {})
        which = asked.pop("series", None)
        which = (
            int(random.integers(len(self.series)))
            if which is None
            else _index("options.series", which, len(self.series) - 1)
        )
        last = len(self.series[which]) - self.length
        at = asked.pop("at", None)
        at = int(random.integers(last + 1)) if at is None else _index("options.at", at, last)
        state = asked.pop("state", None)
        if asked:
            raise InputError("options", repr(sorted(asked)), "nothing but 'series', 'at' and 'state'")
        if state is None and self.draw is None:
            return which, at, self.starts[int(random.integers(len(self.starts))) if len(self.starts) > 1 else 0]
        if state is None and self.draw is not None:
            state = self.draw(random)
        if not isinstance(state, tuple):
            raise InputError("options.state", repr(state), f"a {self.task.state.__name__}, the task's state")
        row = np.array(self.layout.flatten(state, "start"))
        self._some_feasible(row[None])
        return which, at, row

    def end(self, row: Floats) -> tuple[float, bool]:
        """What the task says a state is worth after the last step, and whether an episode may end there: where it may
        not, that is a dead end."""
        task, layout = self.task, self.task.params_layout
        if task.terminal is None and task.allowed_end is None:
            return 0.0, True
        p = None if layout is None else layout.build(self.simulator.params[0].tolist())
        state = self.layout.build(row.tolist())
        if task.allowed_end is not None and not as_allowed(task.allowed_end(state, p)):
            return self.dead_end_reward, False
        return (0.0 if task.terminal is None else float(task.terminal(state, p))), True

    def _some_feasible(self, rows: Floats) -> None:
        none = np.flatnonzero(~self.simulator.mask(rows).any(axis=1))
        if none.size:
            state = self.layout.build(rows[none[0]].tolist())
            raise InputError(
                "start",
                repr(state),
                "a state with at least one feasible action",
                index=int(none[0]) if len(rows) > 1 else None,
            )

    def feasible(
        self, index: NDArray[np.int64], mask: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Action indices (N,) inside the mask (N, m), and which of them had to be replaced."""
        inside = mask[np.arange(index.size), index]
        if inside.all():
            return index, ~inside
        if self.invalid == "raise":
            w = int(np.argmax(~inside))
            allowed = np.flatnonzero(mask[w]).tolist()
            raise InputError(
                "action", int(index[w]), f"a feasible action, one of {allowed}", index=w if index.size > 1 else None,
                hint="Use info['action_mask'].",
            )  # fmt: skip
        actions = self.task.action_array
        wanted = actions[index]
        distance = np.where(mask, np.abs(actions[None] - wanted[:, None]), np.inf)
        return np.where(inside, index, np.argmin(distance, axis=1)), ~inside

    @staticmethod
    def _outcomes(task: Task, y: ArrayLike, i: int) -> Floats:
        array = as_finite(y, f"series[{i}]")
        array = array[:, None] if array.ndim == 1 else array
        if array.ndim != 2 or array.shape[1] != task.fields:
            raise InputError("series", f"shape {array.shape}", f"shape (T,) or (T, {task.fields})", index=i)
        return array

    def _features(self, features: Sequence[ArrayLike] | None) -> list[Floats]:
        """What the forecaster knew at each time, (T, k) per series; never later outcomes."""
        if features is None:
            return [np.zeros((len(y), 0)) for y in self.series]
        found = [as_finite(f, f"features[{i}]").reshape(len(np.asarray(f)), -1) for i, f in enumerate(features)]
        if len(found) != len(self.series):
            raise InputError("features", f"{len(found)} arrays", f"{len(self.series)}, one per series")
        for i, (f, y) in enumerate(zip(found, self.series, strict=True)):
            if len(f) != len(y) or f.shape[1] != found[0].shape[1]:
                raise InputError("features", f"shape {f.shape}", f"({len(y)}, {found[0].shape[1]})", index=i)
        return found


class TaskEnv(gymnasium.Env[NDArray[np.float32], np.int64]):
    """One window at a time. Observations are the flat state followed by the forecast features of the time. What
    `episodes` are like is said by the names of `Episodes`."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own convention)

    def __init__(self, task: Task, start: Any, series: Sequence[ArrayLike], **episodes: Unpack[Episodes]) -> None:
        self._world = _World(task, start, series, **episodes)
        self.observation_space = self._world.observation
        self.action_space = self._world.actions
        self.render_mode = None
        self._mask = np.zeros(task.action_array.size, np.bool_)
        self._row = self._world.starts[0]
        self._which, self._at, self._end = 0, 0, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """A random stretch of a random series; `options={"series": i, "at": t, "state": s}` picks what it names."""
        super().reset(seed=seed)
        world = self._world
        self._which, self._at, row = world.begin(self.np_random, options)
        self._end = self._at + world.length
        self._row = row.copy()
        self._mask = world.simulator.mask(self._row[None])[0]
        return self._observe(), self._info()

    def step(self, action: Any) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        """Take the action of this index: observation, reward, terminated (a dead end), truncated, info."""
        world = self._world
        if self._at >= self._end or not self._mask.any():
            raise InputError("step", "an episode that is over", "a call of reset first")
        index, replaced = _whole(action, (), self._mask.size).reshape(1), False
        if not self._mask[index[0]]:
            index, _ = world.feasible(index, self._mask[None])
            replaced = True
        outcome = world.series[self._which][self._at]
        at = self._at - (self._end - world.length)  # steps since the episode began
        done = world.simulator.advance(self._row[None], index, outcome[None], at)
        self._row, self._mask = done.states[0], done.mask[0]
        self._at += 1
        dead = not self._mask.any()
        truncated = self._at >= self._end
        reward = float(done.rewards[0]) + (world.dead_end_reward if dead and not truncated else 0.0)
        if truncated:
            value, fine = world.end(self._row)
            reward, dead = reward + value, dead or not fine
        return self._observe(), reward, bool(dead and not truncated), bool(truncated), self._info(dead, replaced)

    def action_masks(self) -> NDArray[np.bool_]:
        """(m,) what may be taken now (the name masked PPO looks for)."""
        return self._mask.copy()

    def about(self) -> dict[str, Any]:
        """What episodes are made of: task, actions, start, and a digest of series, features and parameters."""
        return self._world.about()

    def _observe(self) -> NDArray[np.float32]:
        at = min(self._at, len(self._world.series[self._which]) - 1)
        return np.concatenate([self._row, self._world.features[self._which][at]]).astype(np.float32)

    def _info(self, dead: bool = False, replaced: bool = False) -> dict[str, Any]:
        return {
            "action_mask": self._mask.copy(),
            "dead_end": dead,
            "replaced": replaced,
            "series": self._which,
            "at": self._at,
        }


class TaskVectorEnv(gymnasium.vector.VectorEnv[NDArray[np.float32], NDArray[np.int64], NDArray[Any]]):
    """N windows at once in one compiled call per step. Finished ones restart on the next step (Gymnasium's rule) or,
    with `autoreset="same_step"`, at once: `info["final_obs"]` then holds what they ended with, `_final_obs` says which.
    What `episodes` are like is said by the names of `Episodes`.
    """

    def __init__(
        self,
        task: Task,
        start: Any,
        series: Sequence[ArrayLike],
        *,
        num_envs: int = 256,
        autoreset: Literal["next_step", "same_step"] = "next_step",
        **episodes: Unpack[Episodes],
    ) -> None:
        self._world = _World(task, start, series, **episodes)
        if autoreset not in ("next_step", "same_step"):
            raise InputError("autoreset", repr(autoreset), "'next_step' or 'same_step'")
        if isinstance(num_envs, bool) or not isinstance(num_envs, int) or num_envs < 1:
            raise InputError("num_envs", repr(num_envs), "a whole number of at least 1")
        self.num_envs = num_envs
        mode = gymnasium.vector.AutoresetMode
        self._at_once = autoreset == "same_step"
        self.metadata = {"autoreset_mode": mode.SAME_STEP if self._at_once else mode.NEXT_STEP}
        self.single_observation_space = self._world.observation
        self.single_action_space = self._world.actions
        batch = gymnasium.vector.utils.batch_space
        self.observation_space = batch(self.single_observation_space, num_envs)
        self.action_space = batch(self._world.actions, num_envs)
        self.render_mode = None
        self._lengths = np.array([len(y) for y in self._world.series])
        self._outcomes = np.concatenate(self._world.series)
        self._known = np.concatenate(self._world.features)
        self._offsets = np.concatenate([[0], np.cumsum(self._lengths)[:-1]])
        self._rows = np.tile(self._world.starts[0], (num_envs, 1))
        self._random = [np.random.default_rng(i) for i in range(num_envs)]  # replaced by the first reset
        self._mask = np.zeros((num_envs, task.action_array.size), np.bool_)
        self._at = np.zeros(num_envs, np.int64)  # position in the concatenated series
        self._end = np.zeros(num_envs, np.int64)
        self._last = np.zeros(num_envs, np.int64)  # the last position of the window's own series
        self._over = np.zeros(num_envs, np.bool_)
        self._seeded = False

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """New stretches for all. `seed`: n for n, n + 1 and so on, or one for each window (None leaves its generator);
        options as of one environment hold for every window."""
        if isinstance(seed, int) or seed is None:
            super().reset(seed=seed)
        if seed is None and not self._seeded:
            seed = int(self.np_random.integers(2**31))
        if seed is not None:
            each = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else list(seed)
            if len(each) != self.num_envs:
                raise InputError("seed", f"{len(each)} seeds", f"one, or {self.num_envs}, one per window")
            for i, one in enumerate(each):
                if one is not None:
                    self._random[i], _ = gymnasium.utils.seeding.np_random(one)
            self._seeded = True
        self._restart(np.ones(self.num_envs, np.bool_), options)
        none = np.zeros(self.num_envs, np.bool_)
        return self._observe(), self._info(none, none)

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], Floats, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Take one action index for each window, (N,); what comes back has N rows too."""
        index, over = _whole(actions, (self.num_envs,), self._mask.shape[1]), self._over.copy()
        index, replaced = self._world.feasible(index, self._mask | over[:, None])
        outcomes = self._outcomes[np.minimum(self._at, len(self._outcomes) - 1)]
        at = self._at - (self._end - self._world.length)  # steps since the episode began
        done = self._world.simulator.advance(self._rows, np.where(over, -1, index), outcomes, at)
        self._rows, self._mask = done.states, done.mask
        self._at = self._at + ~over
        truncated = ~over & (self._at >= self._end)
        dead = ~over & ~self._mask.any(axis=1)
        terminated = dead & ~truncated
        rewards = done.rewards + self._world.dead_end_reward * terminated
        for w in np.flatnonzero(truncated).tolist():
            value, fine = self._world.end(self._rows[w])
            rewards[w] += value
            dead[w] |= not fine
        self._over = truncated | terminated
        final: dict[str, Any] = {}
        if self._at_once and self._over.any():
            final = {"final_obs": self._observe(), "_final_obs": self._over.copy()}
            over = self._over
        if over.any():
            self._restart(over.copy())
        # In the same-step mode no window is ever over when an action is asked for, so nothing is masked by `over`.
        info = self._info(dead, replaced if self._at_once else replaced & ~over)
        return self._observe(), rewards, terminated, truncated, info | final

    def action_masks(self) -> NDArray[np.bool_]:
        """(N, m) what may be taken now."""
        return self._mask.copy()

    def about(self) -> dict[str, Any]:
        """What episodes are made of: task, actions, start, and a digest of series, features and parameters."""
        return self._world.about()

    def _restart(self, which: NDArray[np.bool_], options: dict[str, Any] | None = None) -> None:
        for w in np.flatnonzero(which).tolist():
            series, at, self._rows[w] = self._world.begin(self._random[w], options)
            self._at[w] = self._offsets[series] + at
            self._last[w] = self._offsets[series] + self._lengths[series] - 1
        self._end[which] = self._at[which] + self._world.length
        self._mask[which] = self._world.simulator.mask(self._rows[which])
        self._over[which] = False

    def _observe(self) -> NDArray[np.float32]:
        at = np.minimum(self._at, self._last)
        return np.concatenate([self._rows, self._known[at]], axis=1).astype(np.float32)

    def _info(self, dead: NDArray[np.bool_], replaced: NDArray[np.bool_]) -> dict[str, Any]:
        return {"action_mask": self._mask.copy(), "dead_end": dead, "replaced": replaced}


def _whole(actions: Any, shape: tuple[int, ...], size: int) -> NDArray[np.int64]:
    """Indices of actions that there are; nothing is rounded or repeated."""
    found = np.asarray(actions)
    if found.dtype.kind not in "iu" or found.shape != shape or not ((found >= 0) & (found < size)).all():
        expected = f"{shape[0]} whole numbers" if shape else "a whole number"
        raise InputError("action", repr(actions), f"{expected} from 0 to {size - 1}")
    return found.astype(np.int64)


def _index(field: str, value: Any, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not 0 <= value <= most:
        raise InputError(field, repr(value), f"a whole number from 0 to {most}")
    return int(value)
