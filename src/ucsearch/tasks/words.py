"""What a task's outcomes, actions and state fields are called and counted in, for people."""

from __future__ import annotations

from dataclasses import dataclass, field

from ucsearch.formatting import figure

__all__ = ["SERVICE", "Words", "power_unit"]

Names = dict[str, tuple[str, str]]  # key -> name, unit
SERVICE = {
    "fill rate": ("served", "demand", "share of demand that is served in its own period"),
    "service level": ("in_full", "", "share of periods in which all demand is served"),
}
"""Shares of a task whose parts are `demand`, `served` and `in_full`."""


@dataclass(frozen=True)
class Words:
    """Names and units; a unit of "" is left out. Parts are those of a step, as the task's `parts` gives them."""

    outcome: str  # what is forecast
    outcome_unit: str
    action: str  # what is decided
    action_unit: str
    fields: Names = field(default_factory=dict)  # state field -> name, unit; others are not shown
    sums: Names = field(default_factory=dict)  # part -> name, unit; added up over series and periods
    means: Names = field(default_factory=dict)  # part -> name, unit; of all series together, averaged over periods
    money: dict[str, str] = field(default_factory=dict)  # part -> name; what the cost of a step is made of
    shares: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    """name -> part, the part that it is a share of ("": of the periods), explanation"""
    income: str = ""  # the part that is earned besides; costs are shown without it, and profit beside them

    def valued(self, number: float, unit: str) -> str:
        return f"{figure(number)} {unit}".rstrip()


def power_unit(energy: str) -> str:
    """MW for MWh; where the unit does not say, energy per period."""
    return energy[:-1] if len(energy) > 1 and energy.endswith("h") else f"{energy} per period"
