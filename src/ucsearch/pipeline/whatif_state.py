"""Recorded states under other numbers: by the names of a states file, and with other delays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ucsearch.errors import InputError, UCSearchError
from ucsearch.figures import figure

__all__ = ["DECIDE_ANEW", "lengths_of", "other_lead_time", "other_lengths", "state_names", "state_value", "with_value"]

DECIDE_ANEW = "Change it in the settings and decide again, with another --out and --log."
_OPEN = "open_orders"  # what people call the pipeline


def other_lead_time(state: Any, old: int, new: int) -> tuple[Any, list[str]]:
    """Open orders keep the day they arrive; one that would arrive after a new order has no place and is refused."""
    open_orders = list(state.pipeline[:old])
    length = max(1, new)
    if new == 0:
        late, kept = [x for x in open_orders[1:] if x], (0.0,)
        first = open_orders[0] if open_orders else 0.0
        state = state._replace(on_hand=state.on_hand + first)
    else:
        late = [x for x in open_orders[new:] if x]
        kept = tuple((open_orders + [0.0] * length)[:length])
        first = 0.0
    if late:
        raise InputError(
            "--set", f"lead_time={new}", f"a lead time of at least {_longest(open_orders)}",
            hint=f"Open orders of {', '.join(figure(x) for x in late)} arrive later than a new order would.",
        )  # fmt: skip
    notes = ["Open orders keep their day of arrival."]
    if first:
        notes.append(f"The {figure(first)} that arrive in this period count as stock.")
    return state._replace(pipeline=kept), notes


def lengths_of(config: Any) -> dict[str, int]:
    """How long the state's tuples are: what is under way, by the periods until it is there."""
    try:
        state = config.state(**config.fit().start)
    except (UCSearchError, TypeError, AttributeError):  # a task that does not say where it begins
        return {}
    return {name: len(value) for name, value in state._asdict().items() if isinstance(value, tuple)}


def other_lengths(state: Any, lengths: Mapping[str, int], what: str) -> tuple[Any, list[str]]:
    """What is under way keeps its time; where there is no place for it any more, the question is refused."""
    changed = {}
    for name, length in lengths.items():
        items = getattr(state, name)
        if any(items[length:]):
            late = ", ".join(figure(x) for x in items[length:] if x)
            hint = f"{late} under way ({name}) would take longer than what is begun now. {DECIDE_ANEW}"
            raise InputError("--set", what, "a time not shorter than that of what is under way", hint=hint)
        changed[name] = (items + (0.0,) * length)[:length]
    return state._replace(**changed), ["What is under way already keeps its time."]


def _longest(open_orders: Sequence[float]) -> int:
    return max(i + 1 for i, x in enumerate(open_orders) if x)


def state_names(state: Any) -> dict[str, tuple[str, int]]:
    """Names as in a states file -> (field, place), place -1 for single numbers."""
    names: dict[str, tuple[str, int]] = {}
    for field, value in state._asdict().items():
        if isinstance(value, tuple):
            called = _OPEN if field == "pipeline" else field
            names.update({f"{called}_{i + 1}": (field, i) for i in range(len(value))})
        else:
            names[field] = (field, -1)
    return names


def state_value(state: Any, place: tuple[str, int]) -> float:
    value = getattr(state, place[0])
    return float(value if place[1] < 0 else value[place[1]])


def with_value(state: Any, place: tuple[str, int], number: float) -> Any:
    field, i = place
    if i < 0:
        return state._replace(**{field: number})
    items = list(getattr(state, field))
    items[i] = number
    return state._replace(**{field: tuple(items)})
