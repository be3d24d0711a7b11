"""The kinds of suites, a module or a package each: where a kind and its settings are, loaded when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ucsearch.errors import InputError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ucsearch.lab.suites.kinds.kind import SuiteKind

__all__ = ["KINDS", "kind_of", "settings_of"]

# kind: (module, class of the kind, class of its settings)
KINDS = {
    "synthetic": ("direction.synthetic", "Synthetic", "SyntheticSettings"),
    "direction": ("direction.ett", "EttDirection", "DirectionSettings"),
    "scaling": ("scaling.run", "Scaling", "ScalingSettings"),
    "lost_sales": ("lost_sales.run", "ZipkinLostSales", "LostSalesSettings"),
    "walkforward": ("walkforward.run", "WalkForward", "WalkForwardSettings"),
    "mechanism": ("mechanism.run", "Mechanism", "MechanismSettings"),
    "truck": ("truck", "Shop", "TruckSettings"),
    "staffing": ("staffing", "Yard", "StaffingSettings"),
    "lob": ("direction.order_book", "OrderBook", "LobSettings"),
    "stressors": ("stressors.run", "Stressors", "StressorsSettings"),
    "known_optimum": ("known_optimum.run", "KnownOptimum", "KnownOptimumSettings"),
}


def _named(kind: str, place: int) -> Any:
    if kind not in KINDS:
        raise InputError("kind", repr(kind), f"one of {', '.join(KINDS)}")
    return getattr(import_module(f"ucsearch.lab.suites.kinds.{KINDS[kind][0]}"), KINDS[kind][place])


def kind_of(kind: str) -> type[SuiteKind]:
    """What supplies the rows of a suite."""
    found: type[SuiteKind] = _named(kind, 1)
    return found


def settings_of(kind: str) -> type[BaseModel]:
    """The model of a kind's own table."""
    found: type[BaseModel] = _named(kind, 2)
    return found
