"""One stream of ranks and its evidence, and how that went in few numbers (Shiryaev-Roberts e-detector with mixed bets).

`growth <- (growth + 1) * gain` for every bet; evidence is their weighted sum. While the forecast is honest, growth
minus the number of outcomes is a martingale (with a tolerance a supermartingale), so the chance of a trip at N / alpha
within N outcomes is at most alpha. Ranks that depend on each other over time break that: an alarm is no proof.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from ucsearch.monitor.bets import TOO_HIGH, TOO_LOW, Bet

__all__ = ["MOST", "POINTS", "Past", "Stream"]

MOST = 1e300  # evidence of a bet
NONE = 6.0  # evidence that is as good as none
CLEAR = 10.0  # times as much as that against it


@dataclass
class Stream:
    """`lags` interleaved processes (targets that overlap, such as sums of several steps, do not share one)."""

    bets: tuple[Bet, ...]  # laws that the outcomes may follow instead; their weights add up to 1
    lags: int = 1  # steps that a target sums up
    count: int = 0  # outcomes seen since the last re-arming
    growth: list[list[float]] = field(default_factory=list)  # (lags, bets)
    # About the number of outcomes it would take, on average, to see as much by chance.
    evidence: float = field(init=False)

    def __post_init__(self) -> None:
        if not self.growth:
            self.growth = [[0.0] * len(self.bets) for _ in range(self.lags)]
        self.evidence = self._weighed()

    def add(self, gained: Sequence[float]) -> float:
        """Take what each bet `gained` from one outcome (1: nothing); returns the evidence after it."""
        lagged = self.growth[self.count % self.lags]
        for g, gain in enumerate(gained):
            # Evidence beyond all limits stays there instead of overflowing.
            lagged[g] = min((lagged[g] + 1.0) * gain, MOST)
        self.count += 1
        self.evidence = self._weighed()
        return self.evidence

    def _weighed(self) -> float:
        return (
            math.fsum(math.fsum(b.weight * r for b, r in zip(self.bets, lagged, strict=True)) for lagged in self.growth)
            / self.lags
        )

    @property
    def about(self) -> str:
        """What is wrong: that the forecasts are too low or too high, where the bets on it have evidence and those on
        the other direction have none; else what the bets with most of the evidence say. Outcomes far on one side win
        bets on a wider spread too, so bias comes first."""
        if not self.count:
            return ""
        total: dict[str, float] = {}
        weight: dict[str, float] = {}
        for b, *grown in zip(self.bets, *self.growth, strict=True):
            total[b.about] = total.get(b.about, 0.0) + b.weight * math.fsum(grown) / self.lags
            weight[b.about] = weight.get(b.about, 0.0) + b.weight
        for word, other in ((TOO_LOW, TOO_HIGH), (TOO_HIGH, TOO_LOW)):
            if word in total:
                against = total[other] / weight[other]
                if against <= NONE and total[word] / weight[word] >= CLEAR * max(1.0, against):
                    return word
        return max(total, key=lambda word: total[word])


POINTS = 120  # points; a multiple of two, because they are joined in pairs


class Past:
    """Evidence after each outcome. Once there are `POINTS` points every two become one, which keeps the larger."""

    __slots__ = ("_free", "points", "width")

    def __init__(self) -> None:
        self.points = array("f")  # most evidence of `width` outcomes each; a picture needs no more digits
        self.width = 1
        self._free = 0  # outcomes that the last point still takes

    def add(self, evidence: float) -> None:
        value = min(evidence, 3e38)
        if self._free:
            self._free -= 1
            if value > self.points[-1]:
                self.points[-1] = value
            return
        if len(self.points) == POINTS:
            old = self.points
            self.points = array("f", map(max, old[::2], old[1::2]))
            self.width *= 2
        self.points.append(value)
        self._free = self.width - 1

    def curve(self) -> tuple[tuple[float, float], ...]:
        """(number of the outcome, evidence), oldest first; a point is the most of its outcomes."""
        points, width, free = array("f", self.points), self.width, self._free
        numbers = [float((i + 1) * width) for i in range(len(points))]
        if numbers:
            numbers[-1] -= free
        return tuple(zip(numbers, points, strict=True))
