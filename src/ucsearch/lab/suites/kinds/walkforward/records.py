"""Decisions of a walk that are exported for the verifier, and the credits a no-go audit looks at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.decision.decision import DecisionPanel
from ucsearch.engine.arrays import Col
from ucsearch.lab.suites.evidence.drawn import Drawn
from ucsearch.lab.suites.evidence.samples import entry
from ucsearch.lab.suites.kinds.series import Stretch

__all__ = ["Samples", "credits_of", "of_windows"]

Floats = NDArray[np.float64]


class Samples:
    """The drawn decisions of a walk through `stretches`, each window once, as entries of an exported log."""

    def __init__(self, stretches: Sequence[Stretch], where: str, drawn: Sequence[Drawn]) -> None:
        self.where, self.drawn = where, drawn
        self.places = {(s.family, s.series, s.window): n for n, s in enumerate(stretches)}
        self.found: dict[Drawn, dict[str, Any]] = {}

    def keep(self, t: int, decided: DecisionPanel) -> None:
        for one in self.drawn:
            place = self.places.get((one.family, one.series, one.window))
            if one.step == t and place is not None:
                self.found[one] = entry(one.name, decided[place], self.where)

    def entries(self) -> list[dict[str, Any]]:
        """In the order in which they were drawn."""
        return [self.found[one] for one in self.drawn if one in self.found]


def of_windows(stretches: Sequence[Stretch], drawn: Sequence[Drawn]) -> list[Stretch]:
    """The windows that decisions were drawn from."""
    wanted = {(one.family, one.series, one.window) for one in drawn}
    return [s for s in stretches if (s.family, s.series, s.window) in wanted]


def credits_of(decided: DecisionPanel) -> dict[str, Floats]:
    """(N,) best delayed credit and best risk reduction of any first action over the reward-only one, both counted only
    where the action also gains in score; 0 where there is none."""
    certified = decided.certified
    evidence, plan = certified.evidence, certified.plan
    table = plan.outputs.table
    risk = plan.settings.risk
    rows = np.arange(len(plan))
    first = np.nan_to_num(np.where(evidence.actions, evidence.reward_lower, -np.inf), nan=-np.inf).argmax(axis=1)
    steps = table[:, :, Col.STEP_REWARD] - risk * table[:, :, Col.STEP_UNCERTAINTY]

    def over(values: Floats) -> Floats:
        return np.asarray(values - values[rows, first][:, None])

    gain = over(evidence.lower)
    credit = gain - over(steps)
    relief = -risk * over(evidence.lower_uncertainty)
    tau = certified.claims.tau[:, None]
    usable = evidence.actions & (gain > tau)
    best = {}
    for name, values in (("delayed_credit", credit), ("risk_reduction", relief)):
        good = np.where(usable & (values > tau), values, 0.0)
        best[name] = np.nan_to_num(good).max(axis=1)
    return best
