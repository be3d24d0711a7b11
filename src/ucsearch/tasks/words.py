"""What the built-in tasks' outcomes, actions and state fields are called and counted in, for people."""

from __future__ import annotations

from dataclasses import dataclass, field

from ucsearch.formatting import figure

__all__ = ["Words", "task_words"]


@dataclass(frozen=True)
class Words:
    """Names and units; a unit of "" is left out."""

    outcome: str  # what is forecast
    outcome_unit: str
    action: str  # what is decided
    action_unit: str
    fields: dict[str, tuple[str, str]] = field(default_factory=dict)  # state field -> name, unit; others are not told
    sums: dict[str, tuple[str, str]] = field(default_factory=dict)  # part of a step (`parts`) -> name, unit; added up
    means: dict[str, tuple[str, str]] = field(default_factory=dict)  # the same, averaged over periods

    def valued(self, number: float, unit: str) -> str:
        return f"{figure(number)} {unit}".rstrip()


def power_unit(energy: str) -> str:
    """MW for MWh; where the unit does not say, energy per period."""
    return energy[:-1] if len(energy) > 1 and energy.endswith("h") else f"{energy} per period"


def task_words(name: str, units: str, currency: str) -> Words | None:
    """The words of a task, by its name in settings; None where its quantities are all in `units`."""
    if name == "storage":
        price = f"{currency}/{units}" if currency else f"per {units}"
        power = power_unit(units)
        return Words(
            "price", price, "power", power,
            {
                "level": ("charge", units), "last": ("power before", power),
                "discharge_left": ("left to discharge", units), "due": ("periods until the target", ""),
            },
            {"bought": ("bought", units), "sold": ("sold", units)}, {"level": ("mean charge", units)},
        )  # fmt: skip
    if name == "capacity_plan":
        return Words(
            "demand", units, "change", "",
            {"online": ("units in service", ""), "starting": ("starting", ""), "young": ("must stay", "")},
            {"unserved": ("not served", units), "started": ("started", "")}, {"online": ("mean units", "")},
        )  # fmt: skip
    if name == "intervention":
        return Words(
            "harm", currency, "dose", "",
            {"budget": ("doses left", ""), "wait": ("periods to wait", ""), "given": ("given before", "")},
            {"harm": ("harm", currency), "averted": ("averted", currency), "doses": ("doses", "")},
        )  # fmt: skip
    return None
