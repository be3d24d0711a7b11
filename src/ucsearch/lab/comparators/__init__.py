"""Honest opponents: policies that stand where a search policy stands, with the same task, trace, counters and S.

>>> plan = uc.search(task, state, trace, CEM(depth=6, samples=96, risk=0.25, seed=key_from(rng)))  # doctest: +SKIP
"""

from __future__ import annotations

from typing import Any

from ucsearch.engine.registry import register
from ucsearch.errors import BudgetError
from ucsearch.lab.comparators.exposure import ExposureMatch, match_exposure, mean_exposure
from ucsearch.lab.comparators.plain.myopic import myopic
from ucsearch.lab.comparators.plain.sampling import sampling
from ucsearch.lab.comparators.policies import (
    CEM,
    MPPI,
    Comparator,
    DelayAwareGreedy,
    Greedy,
    Random,
    RandomShooting,
    RiskGreedy,
    RiskRandom,
)
from ucsearch.lab.comparators.streams import key_from
from ucsearch.lab.comparators.warm import WarmStart
from ucsearch.policies import Exact, UCBeam

__all__ = [
    "CEM",
    "MPPI",
    "Comparator",
    "DelayAwareGreedy",
    "ExposureMatch",
    "Greedy",
    "Random",
    "RandomShooting",
    "RiskGreedy",
    "RiskRandom",
    "WarmStart",
    "beam",
    "exact_dp",
    "key_from",
    "match_exposure",
    "matched_samples",
    "mean_exposure",
]

register("myopic", myopic, module="ucsearch.lab.comparators.kernels.myopic")
register("sampling", sampling, module="ucsearch.lab.comparators.kernels.sampling")


def beam(*, depth: int, width: int = 8, top_k: int | None = None, **settings: Any) -> UCBeam:
    """Beam search that ignores uncertainty: UC-Beam at risk 0, ordered by score. `width` plans are kept at each step,
    `top_k` actions tried from each (all when None); further `settings` as of `UCBeam`."""
    return UCBeam(depth=depth, width=width, top_k=top_k, risk=0.0, prune_risk=0.0, order="score", **settings)


def exact_dp(*, depth: int, risk: float = 0.0, **settings: Any) -> Exact:
    """Exact risk-aware dynamic programming (additive modes; in members mode it enumerates or branches); further
    `settings` as of `Exact`."""
    return Exact(depth=depth, risk=risk, **settings)


def matched_samples(expansions: int, depth: int) -> int:
    """How many plans of `depth` steps a budget of `expansions` pays for."""
    for name, value in (("expansions", expansions), ("depth", depth)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BudgetError(name, repr(value), "a whole number of at least 1")
    if expansions < depth:
        raise BudgetError("expansions", expansions, f"at least {depth}, the steps of one plan")
    return expansions // depth
