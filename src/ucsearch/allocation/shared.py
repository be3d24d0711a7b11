"""What is shared: a limit over many series' actions, now and at steps to come."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ucsearch.errors import InputError

__all__ = ["Shared"]

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
        for one in numbers:
            if isinstance(one, bool) or not isinstance(one, int | float) or not 0.0 <= one < math.inf:
                raise InputError(f"limit of {self.name}", repr(one), "a finite number of at least 0")

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
        own = self.limit[group] if isinstance(self.limit, Mapping) else self.limit
        return float(own[step]) if isinstance(own, Sequence) else float(own)

    def factor(self, series: str) -> float:
        """What the use of a series is multiplied by; NaN where it has none."""
        return float(self.times.get(series, math.nan) if isinstance(self.times, Mapping) else self.times)
