"""The kinds of suites, a package or a module each: where its settings and run function are, loaded when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ucsearch.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic import BaseModel

    from ucsearch.lab.suites.job import Findings, Job
    from ucsearch.lab.suites.recheck.rerun import Again
    from ucsearch.lab.suites.suite import Suite

__all__ = ["KINDS", "again_of", "runner_of", "settings_of"]

# kind: (module with its `run`, name of its settings class)
KINDS = {
    "synthetic": ("synthetic", "SyntheticSettings"),
    "direction": ("direction.run", "DirectionSettings"),
    "scaling": ("scaling.run", "ScalingSettings"),
    "lost_sales": ("lost_sales.run", "LostSalesSettings"),
    "walkforward": ("walkforward.run", "WalkForwardSettings"),
    "mechanism": ("mechanism.run", "MechanismSettings"),
    "truck": ("truck", "TruckSettings"),
    "staffing": ("staffing", "StaffingSettings"),
    "lob": ("lob.run", "LobSettings"),
    "stressors": ("stressors.run", "StressorsSettings"),
    "known_optimum": ("known_optimum.run", "KnownOptimumSettings"),
}


def _module(kind: str) -> Any:
    if kind not in KINDS:
        raise InputError("kind", repr(kind), f"one of {', '.join(KINDS)}")
    return import_module(f"ucsearch.lab.suites.kinds.{KINDS[kind][0]}")


def settings_of(kind: str) -> type[BaseModel]:
    """The model of a kind's own table."""
    model: type[BaseModel] = getattr(_module(kind), KINDS[kind][1])
    return model


def runner_of(kind: str) -> Callable[[Suite, Job], Findings]:
    run: Callable[[Suite, Job], Findings] = _module(kind).run
    return run


def again_of(kind: str) -> Callable[..., Again] | None:
    """A kind's `again(suite, job, selection, series, opened)`, to run some series once more; None if it has none."""
    return getattr(_module(kind), "again", None)
