"""One stream of ranks and its evidence (Shiryaev-Roberts e-detector with mixed bets).

`growth <- (growth + 1) * gain` for every bet; evidence is their weighted sum. While the forecast is honest, growth
minus the number of outcomes is a martingale (with a tolerance a supermartingale), so the chance of a trip at N / alpha
within N outcomes is at most alpha. Ranks that depend on each other over time break that: an alarm is no proof.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from ucsearch.monitor.bets import Bet

__all__ = ["MOST", "Stream"]

MOST = 1e300  # evidence of a bet


@dataclass
class Stream:
    """`lags` interleaved processes (targets that overlap, such as sums of several steps, do not share one)."""

    bets: tuple[Bet, ...]  # laws that the outcomes may follow instead; their weights add up to 1
    lags: int = 1  # steps that a target sums up
    count: int = 0  # outcomes seen since the last re-arming
    growth: list[list[float]] = field(default_factory=list)  # (lags, bets)

    def __post_init__(self) -> None:
        if not self.growth:
            self.growth = [[0.0] * len(self.bets) for _ in range(self.lags)]

    def add(self, gained: Sequence[float]) -> float:
        """Take what each bet `gained` from one outcome (1: nothing); returns the evidence after it."""
        own = self.growth[self.count % self.lags]
        for g, gain in enumerate(gained):
            # Evidence beyond all limits stays there instead of overflowing.
            own[g] = min((own[g] + 1.0) * gain, MOST)
        self.count += 1
        return self.evidence

    @property
    def evidence(self) -> float:
        """About the number of outcomes it would take, on average, to see as much by chance."""
        return (
            math.fsum(math.fsum(b.weight * r for b, r in zip(self.bets, own, strict=True)) for own in self.growth)
            / self.lags
        )

    @property
    def about(self) -> str:
        """What the bets that carry most of the evidence say."""
        total: dict[str, float] = {}
        for own in self.growth:
            for b, r in zip(self.bets, own, strict=True):
                total[b.about] = total.get(b.about, 0.0) + b.weight * r
        return max(total, key=lambda word: total[word]) if self.count else ""

    def reset(self) -> None:
        """No evidence, as if no outcome had come."""
        self.count, self.growth = 0, [[0.0] * len(self.bets) for _ in range(self.lags)]
