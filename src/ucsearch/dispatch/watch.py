"""The caller's clock against the time budget. Nothing here reads a clock that was not passed in."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Watch"]


class Watch:
    """Seconds since it was made. Once over, the time stays over, whatever the clock says later."""

    def __init__(self, clock: Callable[[], float], budget_s: float | None) -> None:
        self.clock, self.budget_s = clock, budget_s
        self._started = clock()
        self._over: float | None = None  # the reading at which it was

    def elapsed(self) -> float:
        """At least what ended a search."""
        found = float(self.clock() - self._started)
        return found if self._over is None or found > self._over else self._over

    def is_over(self) -> bool:
        """A reading that is no number counts as over."""
        if self._over is None and self.budget_s is not None:
            found = float(self.clock() - self._started)
            if not found <= self.budget_s:
                self._over = found
        return self._over is not None
