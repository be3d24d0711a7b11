"""The gate: what is asked before a searched action leaves. No condition at all refuses.

`ucsearch.decision.conditions` has the conditions themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import LARGEST, InputError

__all__ = [
    "FAILURES",
    "FINAL_CHECK",
    "IN_TIME",
    "TIE_ALLOWED",
    "Calibration",
    "Context",
    "Gate",
    "Reason",
]

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

FINAL_CHECK = "final_check"  # what would leave is confirmed by the plain rules
IN_TIME = "search_in_time"  # the time budget did not end the search
TIE_ALLOWED = "tie_allowed"  # what would leave is exact, or its tie may leave
FAILURES = (IN_TIME, FINAL_CHECK)  # rows that a decision has only where they fail: nobody can derive them again


_SHARES = ("min_member_feasible",)  # limits from 0 to 1
_CHOICES = ("allow_ties",)  # yes, no, or what is usual
_SILENT = ("near", "pausable", "allow_ties")  # switches that ask for nothing by themselves


class Reason(StrEnum):
    """Why a searched action was not released; NONE when it was."""

    NONE = "none"
    DEAD_END = "dead_end"
    SEARCH_EXHAUSTED = "search_exhausted"
    NOT_PROVED = "not_proved"
    NOT_OPTIMAL = "not_optimal"
    NOT_ROBUST = "not_robust"
    TIED = "tied"  # another action is as good to within rounding, and the gate does not allow that
    MARGIN_NOT_POSITIVE = "margin_not_positive"
    NOT_RISK_ACTIVE = "not_risk_active"
    MEMBERS_INFEASIBLE = "members_infeasible"
    REGRET_ABOVE_LIMIT = "regret_above_limit"
    INVALID_TRACE = "invalid_trace"
    STALE_TRACE = "stale_trace"
    CALIBRATION = "calibration"
    PAUSED = "paused"  # a person stopped releases
    SITE = "site"  # a condition that the site added to the task
    NODE_BUDGET = "node_budget"
    TIME_BUDGET = "time_budget"
    TASK_ERROR = "task_error"
    NO_INFORMATION_STRUCTURE = "no_information_structure"
    FALLBACK_INFEASIBLE = "fallback_infeasible"
    BUDGET_INFEASIBLE = "budget_infeasible"  # of an allocation: a shared limit cannot be kept
    ALLOCATION_GAP = "allocation_gap"  # of an allocation: not proved good enough


@dataclass(frozen=True)
class Calibration:
    """What monitoring says of the forecaster: measured figures, never assumed ones."""

    eps_c: float = math.nan  # 95 % quantile of (|Rhat - R| - beta * U)+, in reward units
    undercoverage: float = math.nan  # nominal minus measured interval coverage
    drift: float = math.nan  # evidence of the calibration monitor; NaN when it cannot be read
    overdue: float = math.nan  # outcomes that should have been reported and were not


@dataclass(frozen=True, kw_only=True)
class Gate:
    """All set conditions must hold. The defaults ask for a certificate and nothing else."""

    certificate: bool = True  # no alternative can score more under the trace (with `eps_m`: by a margin)
    risk_active: bool = False  # and uncertainty changed the choice: every reward-only optimum is strictly worse
    regret_limit: float | None = None  # the regret bound is at most this, in units of reward
    near: bool = False  # on the planning-value route a regret within `regret_limit` stands in for the certificate
    allow_ties: bool | None = None  # ties to within rounding may leave; None: unless terms cancel; False: only `exact`
    positive_margin: bool = False  # the release margin is positive
    min_member_feasible: float | None = None  # the plan keeps every rule in members of at least this weight
    max_trace_age_s: float | None = None  # the trace has an issue time, not in the future, and is not older than this
    max_eps_c: float | None = None  # the measured calibration error is at most this
    max_undercoverage: float | None = None  # measured intervals miss at most this much more than they say
    max_drift: float | None = None  # a monitor's evidence that forecasts drift is at most this
    max_overdue: float | None = None  # maximum number of overdue outcome reports
    pausable: bool = False  # no person has paused releases (`decide_panel(paused=...)`)
    node_budget: int | None = None  # expansions, simulations and proof nodes together stay within it
    time_budget_s: float | None = None  # search and proof took no longer, by the clock of `uc.Run(clock=...)`

    def __post_init__(self) -> None:
        switches = [f.name for f in fields(self) if f.type == "bool"]
        limits = [f.name for f in fields(self) if f.type != "bool" and f.name not in _CHOICES]
        for name in switches:
            if not isinstance(getattr(self, name), bool | np.bool_):  # "no" would be a yes
                raise InputError(f"gate.{name}", repr(getattr(self, name)), "True or False")
        for name in _CHOICES:
            if not isinstance(getattr(self, name), bool | np.bool_ | None):
                raise InputError(f"gate.{name}", repr(getattr(self, name)), "True, False or None")
        for name in limits:
            if not isinstance(getattr(self, name), Real | None) or isinstance(getattr(self, name), bool):
                raise InputError(f"gate.{name}", repr(getattr(self, name)), "a number, or None")
        for name in limits:
            value = getattr(self, name)
            if name not in _SHARES and value is not None and not 0.0 <= value <= LARGEST:
                raise InputError(f"gate.{name}", value, "a finite number of at least 0, or None")
            if name in _SHARES and value is not None and not 0.0 <= value <= 1.0:
                raise InputError(f"gate.{name}", value, "a share from 0 to 1, or None")
        if self.near and self.regret_limit is None:
            raise InputError("gate.regret_limit", None, "a limit, because gate.near is set")

    def measured(self) -> tuple[tuple[str, float], ...]:
        """Figures of `Calibration` that have a limit, and it."""
        limits = {
            "eps_c": self.max_eps_c, "undercoverage": self.max_undercoverage, "drift": self.max_drift,
            "overdue": self.max_overdue,
        }  # fmt: skip
        return tuple((name, limit) for name, limit in limits.items() if limit is not None)

    @property
    def is_empty(self) -> bool:
        asked = {name: value for name, value in vars(self).items() if name not in _SILENT}
        return all(value is None or (isinstance(value, bool | np.bool_) and not value) for value in asked.values())


class Context(NamedTuple):
    """What the caller knows and the search does not."""

    age_s: Sequence[float]  # (W or 1,) seconds since the trace was issued; NaN unknown
    elapsed_s: float  # NaN when no clock was given
    calibration: Calibration
    each: tuple[Calibration, ...] = ()  # (W,) instead of `calibration`, where windows differ
    paused: bool = False

    def at(self, w: int) -> Context:
        """As one window sees it."""
        return self._replace(calibration=self.each[w], each=()) if self.each else self

    def figures(self, name: str) -> list[float] | float:
        return [getattr(c, name) for c in self.each] if self.each else float(getattr(self.calibration, name))
