"""What series reached of their targets together, with an interval over series."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

__all__ = ["Achieved", "achieved"]

Floats = NDArray[np.float64]
_DRAWS = 2_000


@dataclasses.dataclass(frozen=True)
class Achieved:
    """What the series of one target reached together, with its 95 % interval over series."""

    target: float
    share: float
    low: float
    high: float
    series: int

    def text(self) -> str:
        return (
            f"target {self.target:g}: achieved {self.share:.4f} [{self.low:.4f}, {self.high:.4f}] over {self.series} "
            "series"
        )


def achieved(targets: Floats, got: Floats, asked: Floats, seed: int = 1) -> list[Achieved]:
    """By target, from what each series was asked for and got."""
    found = []
    for target in sorted(set(targets.tolist())):
        own = targets == target
        draws = np.random.default_rng(seed).integers(0, int(own.sum()), (_DRAWS, int(own.sum())))
        totals = asked[own][draws].sum(axis=1)
        shares = got[own][draws].sum(axis=1) / np.where(totals > 0.0, totals, 1.0)
        low, high = np.quantile(shares, [0.025, 0.975])
        total = float(asked[own].sum())
        found.append(Achieved(target, float(got[own].sum()) / (total or 1.0), float(low), float(high), int(own.sum())))
    return found
