"""What is shared: values and uses of every series' first actions, and the limits (docs/how-to/shared-budgets.md).

Shapes: N series, m first actions. NaN in `upper` marks what is not in a series' action set; NaN in `lower` alone what
cannot be chosen because no path of it is known, but counts in the bound. A resource may have a limit
per group (per truck, per warehouse); a series outside all groups does not use it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucsearch.certificate.claims import LEAST
from ucsearch.errors import InputError

__all__ = ["Missing", "Problem", "Resource", "Shared", "group_label"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


Amount = float | Sequence[float]  # one number for every step, or one for each


@dataclass(frozen=True, kw_only=True)
class Shared:
    """One limit over many series' actions: of the first step, or of `steps` steps one by one."""

    name: str  # what is shared, such as "truck volume"
    limit: Amount | Mapping[str, Amount]  # units of the resource; a list has one for each step; with `per` by group
    use: str | Callable[..., float]  # name of one of the task's `uses`, or a function (s, a, p) -> units
    times: float | Mapping[str, float] = 1.0  # use is multiplied by this, by series, such as litres of one unit
    per: Mapping[str, str] | None = None  # group of each series (its truck, its warehouse); None: one limit for all
    steps: int | None = None  # planning steps at which it holds, from the first on; by default 1, or as `limit` lists

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InputError("shared.name", repr(self.name), "a non-empty text")
        if isinstance(self.limit, Mapping) != (self.per is not None):
            raise InputError(f"limit of {self.name}", repr(self.limit), "one number, or with `per` one for each group")
        if isinstance(self.limit, Mapping) and not self.limit:
            raise InputError(f"limit of {self.name}", repr(self.limit), "at least one group")
        if self.steps is not None and (isinstance(self.steps, bool) or not isinstance(self.steps, int)):
            raise InputError(f"steps of {self.name}", repr(self.steps), "a whole number of at least 1")
        if self.steps is not None and not self.steps >= 1:
            raise InputError(f"steps of {self.name}", self.steps, "a whole number of at least 1")
        for limit in self.limit.values() if isinstance(self.limit, Mapping) else (self.limit,):
            self._check(limit)
        if self.horizon > 1 and not isinstance(self.use, str):
            raise InputError(
                f"use of {self.name}", repr(self.use), "the name of one of the task's uses, for limits at later steps"
            )

    def _check(self, limit: Amount) -> None:
        listed = not isinstance(limit, str | bytes) and isinstance(limit, Sequence)
        numbers = list(limit) if isinstance(limit, Sequence) and listed else [limit]
        if listed and len(numbers) != self.horizon:
            raise InputError(f"limit of {self.name}", f"{len(numbers)} numbers", f"{self.horizon}, one for each step")
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int | float) or not 0.0 <= number < math.inf:
                raise InputError(f"limit of {self.name}", repr(number), "a finite number of at least 0")

    @property
    def horizon(self) -> int:
        """Steps at which it holds."""
        if self.steps is not None:
            return self.steps
        limits = self.limit.values() if isinstance(self.limit, Mapping) else (self.limit,)
        listed = [len(x) for x in limits if isinstance(x, Sequence) and not isinstance(x, str)]
        return max(1, *listed) if listed else 1

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the groups in order; one without a name where the limit is for all."""
        return tuple(sorted(self.limit)) if isinstance(self.limit, Mapping) else ("",)

    def group(self, series: str) -> str | None:
        """Whose limit a series uses; None when it uses none."""
        return "" if self.per is None else self.per.get(series)

    def at(self, group: str, step: int = 0) -> float:
        """The limit of a `group` at a `step` (from 0); inf where none holds."""
        if step >= self.horizon:
            return math.inf
        limit = self.limit[group] if isinstance(self.limit, Mapping) else self.limit
        return float(limit[step]) if isinstance(limit, Sequence) else float(limit)

    def factor(self, series: str) -> float:
        """What the use of a series is multiplied by; NaN where it has none."""
        return float(self.times.get(series, math.nan) if isinstance(self.times, Mapping) else self.times)


def group_label(name: str, group: str) -> str:
    """ "volume", or "volume of truck 3"."""
    return f"{name} of {group}" if group else name


@dataclass(frozen=True, eq=False)
class Resource:
    """One shared resource. What series that cannot be moved use is in `taken`."""

    name: str
    use: Floats  # (N, m) of the first action, units of the resource, at least 0
    limits: Floats  # (G,) units
    group: Ints  # (N,) which limit applies, -1: none
    groups: tuple[str, ...] = ("",)  # (G,) their names
    taken: tuple[tuple[float, ...], ...] = ((),)  # (G,) uses that come off the limit first

    def label(self, g: int) -> str:
        """ "volume", or "volume of truck 3"."""
        return group_label(self.name, self.groups[g])

    def left(self) -> Floats:
        """(G,) what may still be used."""
        return np.array(
            [math.fsum((c, *(-x for x in t))) for c, t in zip(self.limits.tolist(), self.taken, strict=True)]
        )

    def fits(self, uses: Floats) -> Bools:
        """(G,) whether the chosen `uses` (N,) and what is taken stay within the limit, by correctly rounded sums."""
        kept = []
        for g, limit in enumerate(self.limits.tolist()):
            of_group = uses if self.limits.size == 1 and (self.group == 0).all() else uses[self.group == g]
            kept.append(math.fsum((*of_group.tolist(), *self.taken[g])) <= limit)
        return np.array(kept)


class Missing(NamedTuple):
    """A limit that no choice of actions can keep."""

    resource: str
    limit: float
    least: float  # the least that must be used

    def __str__(self) -> str:
        lack = self.least - self.limit
        return f"{self.resource}: at least {self.least:g} is needed, the limit is {self.limit:g}; {lack:g} is missing"


@dataclass(frozen=True, eq=False)
class Problem:
    """Verified bounds `lower <= Q <= upper` of every series' first actions, and what they share."""

    series: tuple[str, ...]  # (N,) unique
    lower: Floats  # (N, m) NaN: cannot be chosen
    upper: Floats  # (N, m) NaN: not in the action set
    resources: tuple[Resource, ...]
    sizes: Floats  # (N,) what was added up for the values of each series, in absolute terms
    eps: Floats  # (N,) share of it that may be rounding

    @staticmethod
    def of(
        series: Sequence[str], lower: ArrayLike, upper: ArrayLike, resources: Sequence[Resource],
        sizes: ArrayLike = 0.0, eps: ArrayLike = LEAST,
    ) -> Problem:  # fmt: skip
        """Checked: shapes, finite values, nothing used below zero, every series with an action. `sizes` and `eps` are
        those of the tolerance, 0 and the least one where nothing is known but the values themselves."""
        names = tuple(str(s) for s in series)
        low, high = np.array(lower, np.float64), np.array(upper, np.float64)
        if low.ndim != 2 or low.shape != high.shape or low.shape[0] != len(names):
            raise InputError("lower", f"shapes {low.shape} and {high.shape}", f"({len(names)}, m) twice")
        earlier: set[str] = set()
        for i, name in enumerate(names):
            if name in earlier:
                raise InputError("series", repr(name), "every series once", index=i)
            earlier.add(name)
        usable, known = ~np.isnan(low), ~np.isnan(high)
        for i in np.flatnonzero(~usable.any(axis=1))[:1].tolist():
            raise InputError("lower", "no action", f"at least one action of {names[i]!r}", index=i)
        bad = (usable & ~(np.isfinite(low) & (low <= high))) | (known & ~np.isfinite(high))
        for i, a in np.argwhere(bad)[:1].tolist():
            raise InputError(
                "lower", f"{low[i, a]!r} and upper {high[i, a]!r}", "finite, lower at most upper", index=(i, a)
            )
        if not resources:
            raise InputError("resources", "nothing", "at least one shared resource")
        for r in resources:
            _check_resource(r, known, names)
        added, share = (np.full(len(names), x, np.float64) for x in (sizes, eps))
        return Problem(names, low, high, tuple(resources), added, share)

    def tau(self, size: Floats) -> Floats:
        """(N,) how far apart two values must be, of which `size` was added up besides what is in the values."""
        return self.eps * np.maximum(size, self.sizes)

    @cached_property
    def floor(self) -> Floats:
        """(N, m) `lower`, -inf where nothing can be chosen."""
        return np.where(np.isnan(self.lower), -np.inf, self.lower)

    @cached_property
    def ceiling(self) -> Floats:
        """(N, m) `upper`, -inf outside the action set."""
        return np.where(np.isnan(self.upper), -np.inf, self.upper)

    def missing(self) -> tuple[Missing, ...]:
        """Limits that cannot be kept, whatever is chosen."""
        out = []
        for r in self.resources:
            least = np.where(self.floor > -np.inf, r.use, np.inf).min(axis=1)
            for g in np.flatnonzero(~r.fits(np.where(r.group >= 0, least, 0.0))).tolist():
                need = math.fsum((*least[r.group == g].tolist(), *r.taken[g]))
                out.append(Missing(r.label(g), float(r.limits[g]), need))
        return tuple(out)

    def picked(self, table: Floats, choice: Ints) -> Floats:
        """(N,) the chosen entry of each row."""
        return table[np.arange(choice.size), choice]

    def fits(self, choice: Ints) -> bool:
        """Whether the choice keeps every limit."""
        return all(bool(r.fits(self.picked(r.use, choice)).all()) for r in self.resources)

    @cached_property
    def uses(self) -> Floats:
        """(K, N, m) of all resources."""
        return np.stack([r.use for r in self.resources])

    def rows(self, prices: Sequence[Floats]) -> Floats:
        """(K, N) the price each series pays per unit of each resource, from one (G,) array a resource."""
        pairs = zip(self.resources, prices, strict=True)
        return np.stack([np.where(r.group >= 0, price[np.maximum(r.group, 0)], 0.0) for r, price in pairs])

    def charge(self, prices: Sequence[Floats]) -> Floats:
        """(N, m) what each action's use costs at `prices`."""
        total = np.zeros(self.lower.shape)
        for r, own in zip(self.resources, self.rows(prices), strict=True):
            total += own[:, None] * r.use
        return total


def _check_resource(r: Resource, known: Bools, names: tuple[str, ...]) -> None:
    if r.use.shape != known.shape:
        raise InputError(f"use of {r.name}", f"shape {r.use.shape}", f"shape {known.shape}, one per action")
    bad = known & ~((r.use >= 0.0) & np.isfinite(r.use))
    for i, a in np.argwhere(bad)[:1].tolist():
        raise InputError(
            f"use of {r.name}", r.use[i, a], f"a finite number of at least 0 for {names[i]!r}", index=(i, a)
        )
    count = r.limits.size
    if r.limits.ndim != 1 or not count or len(r.groups) != count or len(r.taken) != count:
        raise InputError(f"limits of {r.name}", f"{count} limits, {len(r.groups)} groups", "one limit per group")
    for g in np.flatnonzero(~np.isfinite(r.limits))[:1].tolist():
        raise InputError(f"limit of {r.label(g)}", r.limits[g], "a finite number")
    if r.group.shape != (len(names),) or not ((r.group >= -1) & (r.group < count)).all():
        raise InputError(
            f"group of {r.name}", f"shape {r.group.shape}", f"({len(names)},) numbers from -1 to {count - 1}"
        )
