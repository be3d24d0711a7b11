"""A recorded decision under other parameters: what has to change besides the parameters themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError, UCSearchError
from ucsearch.formatting import figure
from ucsearch.policies import Policy
from ucsearch.trace import Trace

if TYPE_CHECKING:
    from ucsearch.tasks.base import OnSeries

__all__ = ["DECIDE_ANEW", "Inputs", "Refit"]

Floats = NDArray[np.float64]
DECIDE_ANEW = "Change it in the settings and decide again, with other files.decisions and files.log."


class Inputs(NamedTuple):
    """What a decision is made from, besides its task and state."""

    params: Any
    actions: Floats  # (m,) NaN where unavailable; of tuples (m, width)
    trace: Trace
    policy: Policy


class Refit:
    """How a recorded decision is asked again, for tasks whose actions are given and not fitted to the series."""

    fits = False  # whether actions are fitted to the series, so that their number may change

    def __init__(self, config: OnSeries) -> None:
        self.config = config  # the recorded one

    def record(self, other: Any, policy: Policy) -> Any:
        """The other record as it is planned with."""
        return other

    def state(self, state: Any, other: Any, what: str, steps: int) -> tuple[Any, list[str]]:
        """The recorded state where other parameters move what is under way, and notes of that. `what`: the changed
        parameters; `steps`: how many periods are planned."""
        lengths = dict(lengths_of(other).items() - lengths_of(self.config).items())
        return other_lengths(state, lengths, what) if lengths else (state, [])

    def inputs(self, other: Any, recorded: Inputs, what: frozenset[str]) -> tuple[Inputs, list[str]]:
        """Recorded inputs, whose parameters are the `other`'s already, as they are asked again; and notes of that."""
        return recorded, []

    def is_comparable(self, other: Any) -> bool:
        """Whether both expected scores stand for the same periods."""
        return True


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
