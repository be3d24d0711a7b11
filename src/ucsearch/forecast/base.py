"""What a forecaster returns, where it may be asked to forecast, and how many series are streamed through it.

Shapes: O cutoffs, J members, H steps ahead. Step h of a forecast made at cutoff c is about `y[c + 1 + h]`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.forecast.streams import draw_key, series_stream

__all__ = [
    "Forecaster",
    "PathForecast",
    "SeriesLike",
    "check_history",
    "check_paths",
    "first_origin",
    "forecast_one",
    "forecast_paths",
    "forecast_stream",
    "known_ahead",
    "known_for",
    "pair_paths",
    "refuse_known",
    "room_for",
    "walk_forward_cutoffs",
]


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Coupling = Literal["joint", "marginal"]


@dataclass(frozen=True, slots=True, eq=False)
class PathForecast:
    """Forecasts of one series at several cutoffs; arrays are read-only, in the unit of the series.

    `mean` is the mean over members. `std` is their standard deviation (ddof 0); where members carry a
    spread of their own (`member_std`), its mean square is added to the variance.
    """

    members: Floats  # (O, J, H)
    mean: Floats  # (O, H)
    std: Floats  # (O, H)
    cutoff: Ints  # (O,) index of the last observation used
    model: str  # who made it, for the record
    coupling: Coupling  # "joint": a member is a path; "marginal": its steps are unrelated
    weights: Floats | None = None  # (J,) sums to 1; None means equal
    member_std: Floats | None = None  # (O, J, H) aleatoric spread around each member

    def __post_init__(self) -> None:
        shape = self.members.shape
        if len(shape) != 3 or 0 in shape:
            raise InputError("forecast.members", f"shape {shape}", "shape (O, J, H), none of them 0")
        cutoffs, count, steps = shape
        for name, array, expected in (
            ("mean", self.mean, (cutoffs, steps)),
            ("std", self.std, (cutoffs, steps)),
            ("cutoff", self.cutoff, (cutoffs,)),
            ("weights", self.weights, (count,)),
            ("member_std", self.member_std, shape),
        ):
            if array is None:
                continue
            if array.shape != expected:
                raise InputError(f"forecast.{name}", f"shape {array.shape}", f"shape {expected}")
            array.flags.writeable = False
        if self.weights is not None and not abs(float(self.weights.sum()) - 1.0) <= 1e-9:
            seen = f"a sum of {float(self.weights.sum()):.12g}"
            raise InputError("forecast.weights", seen, "weights that sum to 1", hint="Divide them by their sum.")
        self.members.flags.writeable = False
        if not np.isfinite(self.members).all():
            index = tuple(int(i) for i in np.argwhere(~np.isfinite(self.members))[0])
            raise InputError("forecast.members", self.members[index], "a finite number", index=index)

    @property
    def epistemic(self) -> Floats:
        """Variance between members (O, H)."""
        if self.weights is None:
            return np.asarray(self.members.var(axis=1))
        centred = self.members - self.mean[:, None, :]
        return np.asarray(np.einsum("j,ojh->oh", self.weights, centred * centred))

    @property
    def aleatoric(self) -> Floats:
        """Mean of the members' own variances (O, H); zero where members carry none."""
        if self.member_std is None:
            return np.zeros_like(self.mean)
        square = self.member_std * self.member_std
        if self.weights is None:
            return np.asarray(square.mean(axis=1))
        return np.asarray(np.einsum("j,ojh->oh", self.weights, square))

    def expand(self, points: int = 3) -> PathForecast:
        """Members with a spread of their own become `points` members each, with the same mean and variance.

        The points are the middle quantiles of a normal distribution, the same one at all steps of a path.
        """
        if self.member_std is None:
            return self
        if not points >= 2:
            raise InputError("points", points, "at least 2")
        bell = NormalDist()
        z = np.array([bell.inv_cdf((k + 0.5) / points) for k in range(points)])
        z /= np.sqrt(np.mean(z * z))
        spread = self.members[:, :, None, :] + z[None, None, :, None] * self.member_std[:, :, None, :]
        cutoffs, count, steps = self.members.shape
        return PathForecast(
            members=spread.reshape(cutoffs, count * points, steps),
            mean=self.mean,
            std=self.std,
            cutoff=self.cutoff,
            model=self.model,
            coupling=self.coupling,
            weights=None if self.weights is None else np.repeat(self.weights, points) / points,
        )

    def actuals(self, y: Floats) -> Floats:
        """What happened (O, H); refused when the series ends before the last step."""
        last = int(self.cutoff[-1]) + self.members.shape[2]
        if last >= len(y):
            raise InputError("y", f"{len(y)} observations", f"at least {last + 1}")
        at = self.cutoff[:, None] + 1 + np.arange(self.members.shape[2])
        return np.asarray(y, dtype=np.float64).take(at)


class SeriesLike(Protocol):
    """What a forecaster needs of a series; `ucsearch.lab.data.Series` has it."""

    @property
    def id(self) -> str: ...
    @property
    def y(self) -> Floats: ...
    @property
    def seasonal_period(self) -> int: ...


class Forecaster(Protocol):
    """A frozen set of settings that turns a history into paths."""

    @property
    def name(self) -> str: ...

    def min_history(self, season: int) -> int:
        """Observations needed up to and including a cutoff."""
        ...

    def forecast(
        self, y: Floats, cutoffs: Ints, *, horizon: int, season: int, stream: np.uint64, known: Floats | None = None
    ) -> PathForecast:
        """Forecasts at `cutoffs` (rising); values of `y` after a cutoff have no influence on its forecast. NaN in `y`
        is a period that is not known. `known` (n, K): columns that are known ahead, as far as the last horizon; a
        forecaster that cannot use them refuses them."""
        ...


def walk_forward_cutoffs(length: int, *, horizon: int, origins: int, step: int = 1) -> Ints:
    """The last `origins` cutoffs, `step` apart, whose whole horizon lies inside a series of `length`.

    >>> walk_forward_cutoffs(20, horizon=3, origins=4, step=2)
    array([10, 12, 14, 16])
    """
    for name, value in (("horizon", horizon), ("origins", origins), ("step", step)):
        if not value >= 1:
            raise InputError(name, value, "at least 1")
    last = length - 1 - horizon
    first = last - (origins - 1) * step
    if first < 0:
        needed = horizon + 1 + (origins - 1) * step
        raise InputError("length", length, f"at least {needed} for {origins} cutoffs with horizon {horizon}")
    return np.arange(first, last + 1, step, dtype=np.int64)


def first_origin(model: Forecaster, y: Floats, season: int) -> int:
    """The first index of `y` at which the model knows as many values as it needs; the length of `y` where it never
    does."""
    there = np.flatnonzero(~np.isnan(y))
    needed = model.min_history(season)
    return int(there[needed - 1]) if there.size >= needed else len(y)


def room_for(cutoffs: int, paths: int, horizon: int) -> tuple[Floats, Floats, Floats]:
    """Members (O, J, H), mean and standard deviation (O, H), to be filled."""
    return np.empty((cutoffs, paths, horizon)), np.empty((cutoffs, horizon)), np.empty((cutoffs, horizon))


def check_paths(paths: int, floor: float) -> None:
    """What every forecaster of sample paths is told."""
    if not paths >= 1:
        raise InputError("paths", paths, "at least 1")
    if not floor < math.inf:
        raise InputError("floor", floor, "a number below infinity")


def check_history(y: Any, cutoffs: Any, *, horizon: int, needed: int) -> tuple[Floats, Ints]:
    """The part of `y` that may be seen, and checked cutoffs. NaN is a period that is not known, the first one is; of
    the others at least `needed` must be known at the first cutoff."""
    if not horizon >= 1:
        raise InputError("horizon", horizon, "at least 1")
    marks = np.asarray(cutoffs)
    if marks.ndim != 1 or marks.size == 0 or not np.issubdtype(marks.dtype, np.integer):
        raise InputError("cutoffs", f"shape {marks.shape} of {marks.dtype}", "a list of at least one index")
    marks = marks.astype(np.int64)
    if (np.diff(marks) <= 0).any():
        raise InputError("cutoffs", marks.tolist(), "strictly rising indices")
    values = np.asarray(y, dtype=np.float64)
    if values.ndim != 1:
        raise InputError("y", f"shape {values.shape}", "shape (T,)")
    if marks[-1] >= values.size:
        raise InputError("cutoffs", int(marks[-1]), f"below {values.size}, the length of y", index=marks.size - 1)
    if not marks[0] + 1 >= needed:
        raise InputError(
            "cutoffs", int(marks[0]), f"at least {needed - 1}", index=0,
            hint=f"The model needs {needed} observations up to each cutoff.",
        )  # fmt: skip
    # What lies after the last cutoff is cut off here, so that no code below can look at it. A copy, because
    # Numba would compile everything twice, for arrays that can be written to and for those that cannot.
    seen = values[: marks[-1] + 1].copy()
    bad = np.isinf(seen)
    bad[0] |= np.isnan(seen[0])
    if bad.any():
        at = int(np.argmax(bad))
        raise InputError("y", seen[at], "a finite number", index=at)
    if not (there := int(np.count_nonzero(~np.isnan(seen[: marks[0] + 1])))) >= needed:
        raise InputError("y", f"{there} values up to the first cutoff", f"at least {needed}; the others are not known")
    return seen, marks


def known_ahead(known: Any, cutoffs: Ints, horizon: int) -> Floats:
    """(n, K) checked columns of what is known ahead, as far as the horizon of the last cutoff; K is 0 without any."""
    rows = int(cutoffs[-1]) + 1 + horizon
    if known is None:
        return np.zeros((rows, 0))
    values = np.asarray(known, dtype=np.float64)
    if values.ndim != 2 or len(values) < rows:
        raise InputError("known", f"shape {values.shape}", f"shape (n, K), n at least {rows}")
    values = np.ascontiguousarray(values[:rows])
    if not np.isfinite(values).all():
        index = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise InputError("known", values[index], "a finite number", index=index)
    return values


def known_for(model: Forecaster, known: Floats | None) -> Floats | None:
    """What is known ahead, for one of several models that share a series: nothing for one that cannot use it."""
    return known if getattr(model, "takes_known", False) else None


def refuse_known(name: str, known: Any) -> None:
    """Say that a forecaster cannot use what is known ahead."""
    if known is not None:
        raise InputError(
            "known", "columns that are known ahead", f"none: {name} cannot use them",
            hint="unbiased_ridge, ridge_paths, ridge_ensemble and auto can.",
        )  # fmt: skip


def forecast_one(model: Forecaster, series: SeriesLike, cutoffs: Ints, *, horizon: int, key: int) -> PathForecast:
    """Forecast one series with the stream that belongs to its id."""
    return model.forecast(
        series.y,
        cutoffs,
        horizon=horizon,
        season=series.seasonal_period,
        stream=series_stream(key, series.id),
    )


def forecast_stream(
    model: Forecaster,
    series: Iterable[SeriesLike],
    *,
    horizon: int,
    origins: int,
    rng: np.random.Generator,
    step: int = 1,
    threads: int = 1,
) -> Iterator[tuple[SeriesLike, PathForecast]]:
    """Forecast many series at their last `origins` cutoffs, in order, holding only a few results at a time.

    Equal inputs and generator state give equal bytes whatever `threads` is. The key is taken from `rng`
    when the first result is asked for.
    """
    if not threads >= 1:
        raise InputError("threads", threads, "at least 1")
    key = draw_key(rng)

    def work(one: SeriesLike) -> tuple[SeriesLike, PathForecast]:
        cutoffs = walk_forward_cutoffs(len(one.y), horizon=horizon, origins=origins, step=step)
        return one, forecast_one(model, one, cutoffs, horizon=horizon, key=key)

    if threads == 1:
        yield from map(work, series)
        return
    ahead: deque[Future[tuple[SeriesLike, PathForecast]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for one in series:
            ahead.append(pool.submit(work, one))
            if len(ahead) >= 4 * threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def forecast_paths(
    model: Forecaster, y: Floats, marks: NDArray[np.int64], horizon: int, season: int, stream: Any
) -> Floats:
    """(T, J, H) paths after each of T cutoffs of a series (n,); of F quantities (n, F), (T, J, H, F), put together as
    they were in the past."""
    by_field = [
        np.asarray(model.forecast(field, marks, horizon=horizon, season=season, stream=stream).expand().members)
        for field in (np.ascontiguousarray(y.T) if y.ndim == 2 else (y,))
    ]
    if y.ndim == 1:
        return by_field[0]
    return np.stack([pair_paths(x, y[: at + 1]) for x, at in zip(np.stack(by_field, axis=-1), marks, strict=True)])


def pair_paths(paths: Floats, history: Floats) -> Floats:
    """(J, H, F) paths of F quantities, as they belong together after a history (n, F), oldest first.

    A history too short for two stretches leaves them as they come.
    """
    if paths.ndim != 3 or history.ndim != 2 or paths.shape[2] != history.shape[1]:
        raise InputError("paths", f"shapes {paths.shape} and {history.shape}", "(J, H, F) and (n, F)")
    count, horizon, fields = paths.shape
    begins = history.shape[0] - horizon
    if begins < 2:
        return paths
    there = ~np.isnan(history).any(axis=1)
    if there.all():
        usable = np.arange(begins)
    else:  # stretches of which every value is known
        upto = np.concatenate([[0], np.cumsum(there)])
        usable = np.flatnonzero(upto[horizon + 1 :] - upto[:begins] == horizon + 1)
    if usable.size < 2:
        return paths
    at = usable[np.linspace(0, usable.size - 1, count).astype(np.int64)]
    ahead = history[at[:, None] + 1 + np.arange(horizon)].mean(axis=1)  # (J, F)
    moved = ahead - history[at]
    out = np.empty_like(paths)
    for f in range(fields):
        past, own = np.argsort(moved[:, f], kind="stable"), np.argsort(paths[:, :, f].mean(axis=1), kind="stable")
        out[past, :, f] = paths[own, :, f]
    return out
