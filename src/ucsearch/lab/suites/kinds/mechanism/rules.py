"""Predictors of ordering preservation: will the beam's first action be the exact planner's?

`corollary`: Corollary 5 as it stands. `certificate`: this library's certificate, which counts rivals that were not
retained. `tuple`: the corollary's tuple (oracle retained, retained margin, eps_a) with its constants fitted. `margin`:
the retained margin alone, which a search knows without an oracle. Constants are fitted on validation by balanced
accuracy. The first two are proofs: they may miss a preserved order, and never call one preserved that is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

__all__ = ["PROOFS", "RULES", "Counts", "OrderCase", "balanced", "count", "fit_rules", "predict"]

PROOFS = ("corollary", "certificate")
RULES = (*PROOFS, "tuple", "margin", "majority")
_CUTS = 32  # thresholds tried, evenly spread over the values seen
_WEIGHTS = (0.0, 1.0, 2.0)  # of eps_a


class OrderCase(NamedTuple):
    """One decision of one beam. `preserved` is what is to be predicted."""

    preserved: bool
    oracle_retained: bool
    sole: bool  # only one first action exists
    margin: float  # retained margin; infinite where no rival is retained
    eps_a: float
    passed: bool  # the library's certificate


class Counts(NamedTuple):
    """Right answers and cases by class."""

    kept: int  # preserved, and said so
    lost: int  # not preserved, and said so
    preserved: int
    cases: int

    @property
    def hits(self) -> int:
        return self.kept + self.lost


Rule = Mapping[str, Any]


def predict(name: str, rule: Rule, case: OrderCase) -> bool:
    """Whether the rule calls the ordering preserved. A threshold that is null is below every margin."""
    if name == "corollary":
        # Without a retained rival there is no retained margin, and the corollary is silent.
        known = case.sole or math.isfinite(case.margin)
        return case.oracle_retained and known and case.margin > 2.0 * case.eps_a
    if name == "certificate":
        return case.passed
    if name == "tuple":
        return case.oracle_retained and _above(case.margin - rule["weight"] * case.eps_a, rule["threshold"])
    if name == "margin":
        return _above(case.margin, rule["threshold"]) if math.isfinite(case.margin) else bool(rule["alone"])
    return bool(rule["answer"])


def _above(value: float, threshold: float | None) -> bool:
    return threshold is None or value > threshold


def count(name: str, rule: Rule, cases: Sequence[OrderCase]) -> Counts:
    said = [(predict(name, rule, case), case.preserved) for case in cases]
    kept, lost = sum(a and b for a, b in said), sum(not a and not b for a, b in said)
    return Counts(kept, lost, sum(b for _, b in said), len(said))


def balanced(counts: Counts) -> float | None:
    """Mean of the two classes' shares of right answers; None where a class is empty."""
    if not 0 < counts.preserved < counts.cases:
        return None
    return 0.5 * (counts.kept / counts.preserved + counts.lost / (counts.cases - counts.preserved))


def fit_rules(cases: Sequence[OrderCase]) -> dict[str, dict[str, Any]]:
    """The constants of every rule. Nothing is fitted without cases: then each says what the untrained rule would."""
    return {
        **{name: {} for name in PROOFS},
        "tuple": _best("tuple", cases, lambda: _tuples(cases)),
        "margin": _best("margin", cases, lambda: _margins(cases)),
        "majority": {"answer": 2 * sum(case.preserved for case in cases) >= len(cases)},
    }


def _best(name: str, cases: Sequence[OrderCase], options: Callable[[], Iterator[dict[str, Any]]]) -> dict[str, Any]:
    """The first of the options with the largest balanced accuracy, then accuracy."""

    def worth(rule: dict[str, Any]) -> tuple[float, int]:
        counts = count(name, rule, cases)
        return balanced(counts) or 0.0, counts.hits

    return max(options(), key=worth)


def _tuples(cases: Sequence[OrderCase]) -> Iterator[dict[str, Any]]:
    for weight in _WEIGHTS:
        for cut in _cuts([c.margin - weight * c.eps_a for c in cases if c.oracle_retained]):
            yield {"weight": weight, "threshold": cut}


def _margins(cases: Sequence[OrderCase]) -> Iterator[dict[str, Any]]:
    for alone in (True, False):
        for cut in _cuts([c.margin for c in cases]):
            yield {"alone": alone, "threshold": cut}


def _cuts(values: Sequence[float]) -> list[float | None]:
    """No threshold, 0, and places between the values that were seen."""
    seen = sorted({v for v in values if math.isfinite(v)})
    between = [0.5 * (a + b) for a, b in pairwise(seen)]
    if len(between) > _CUTS:
        between = [between[round(i * (len(between) - 1) / (_CUTS - 1))] for i in range(_CUTS)]
    return [None, 0.0, *between]
