"""Which settings of a rule are tried: some that are far apart, then as many around the best of them.

Everybody gets the same number of tries. A rule with a fixed cost in it is tried around the economic order cycle.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["TRIES", "first_tries", "second_tries"]

TRIES = 12
Knobs = dict[str, Any]
_RATIOS = (0.5, 0.7, 0.85, 0.95, 0.99)
_AWAY = (-0.4, 0.4, -0.9, 0.9, -1.5, 1.5)  # of the logarithm of the odds of a fractile
_LEAST, _MOST = 0.02, 0.998


def first_tries(knobs: Mapping[str, Sequence[Any]], cycle: float, tries: int = TRIES) -> list[Knobs]:
    """The first half: the default (nothing given) first. `cycle`: periods of demand in an economic order."""
    found: list[Knobs] = [{}]
    share = _fractile(knobs)
    if "periods" in knobs:
        near = (14, 28, 56) if _counts(knobs) else (cycle, 0.5 * cycle, 2.0 * cycle)
        found += [{"periods": x} for x in near]
        found += [{"ratio": r, "periods": near[0]} for r in (0.8, 0.97)]
    elif share is not None:
        found += [{share: r} for r in _RATIOS]
    return found[: math.ceil(tries / 2)]


def second_tries(
    knobs: Mapping[str, Sequence[Any]], best: Knobs, tried: Sequence[Knobs], cycle: float, critical: float,
    tries: int = TRIES,
) -> list[Knobs]:  # fmt: skip
    """The second half, around the `best` of those `tried`. `critical`: the fractile that a rule takes by itself."""
    share = _fractile(knobs)
    if share is None:
        return []
    centre = best.get(share)
    if centre is None:
        centre = critical if share == "ratio" else knobs[share][0]
    around = [_moved(centre, away) for away in _AWAY]
    if "periods" not in knobs:
        found: list[Knobs] = [{share: r} for r in around]
    else:
        periods = best.get("periods", 28 if _counts(knobs) else cycle)
        other = [0.7 * periods, 1.4 * periods] if periods > 0.0 else [0.5, 1.0]
        own = {share: best[share]} if share in best else {}
        found = [{share: r, "periods": periods} for r in around[:4]]
        found += [{**own, "periods": max(1, round(x)) if _counts(knobs) else x} for x in other]
    fresh = [x for x in found if x not in tried]
    return fresh[: max(0, tries - len(tried))]


def _fractile(knobs: Mapping[str, Sequence[Any]]) -> str | None:
    return next((name for name in ("ratio", "quantile") if name in knobs), None)


def _counts(knobs: Mapping[str, Sequence[Any]]) -> bool:
    """Whether periods are whole ones to look back on."""
    return all(x is None or isinstance(x, int) for x in knobs["periods"])


def _moved(share: float, away: float) -> float:
    share = min(max(share, _LEAST), _MOST)
    odds = share / (1.0 - share) * math.exp(away)
    return round(min(max(odds / (1.0 + odds), _LEAST), _MOST), 4)
