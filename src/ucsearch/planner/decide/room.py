"""Whether closed loop fits: before a job begins, the series that may have the most states is searched.

Where its states are too many for the effort that the settings give, it is searched with more, to say how many there
are; what coarser grids and fewer periods would take follows from there in proportion to the values that each part of a
state can have.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.api import search_panel
from ucsearch.engine.arrays import Status
from ucsearch.errors import UCSearchError
from ucsearch.planner.decide.sizes import panel_inputs
from ucsearch.planner.decide.states import Case, Kinds
from ucsearch.planner.settings import Settings
from ucsearch.planner.settings.edit import edited
from ucsearch.planner.settings.reading import parse_settings
from ucsearch.policies import Exact, Policy
from ucsearch.trace import Trace

__all__ = ["Room", "Tried", "alternatives", "room_words", "tried"]

Floats = NDArray[np.float64]
MORE = 8  # times the effort of the settings, to count the states of what does not fit
_LONG_S = 60.0  # a job that takes longer says so before it begins


class Tried(NamedTuple):
    """One series searched in closed loop, or by a fixed plan."""

    fits: bool  # within the effort
    states: int
    transitions: int
    seconds: float

    @property
    def words(self) -> str:
        about = "" if self.fits else "more than "
        return f"{about}{self.states:,} states, {self.transitions:,} transitions, {self.seconds:.2g} s a series"


class Room:
    """Tells once for each kind of series, by `tell`, what closed loop would take for `total` decisions, or series."""

    def __init__(self, settings: Settings, tell: Callable[[str], None], total: int, of: str = "series") -> None:
        self.settings, self.tell, self.total, self.of = settings, tell, total, of
        self._told: set[int] = set()

    def look(self, names: Sequence[str], cases: Sequence[Case], trace: Trace, engine: Any) -> None:
        """Before series of one kind are decided."""
        kind = cases[0].kind
        if kind.number in self._told or kind.policy.mode != "closed":
            return
        self._told.add(kind.number)
        most = most_of(cases, trace, self.settings)
        w = int(most.argmax())
        if not most[w] > effort_of(kind.policy):
            return
        for line in room_words(names[w], cases[w], trace.window(w), self.settings, engine, self.total, self.of):
            self.tell(line)


def effort_of(policy: Policy) -> int:
    """Transitions that closed loop may take for one decision."""
    return policy.node_budget if isinstance(policy, Exact) else 0


def most_of(cases: Sequence[Case], trace: Trace, settings: Settings) -> Floats:
    """(W,) roughly what limits the transitions of each series; 0 where nobody knows."""
    _, params, actions = panel_inputs(cases, trace, settings)
    kind, states = cases[0].kind, [case.state for case in cases]
    found = kind.config.most_transitions(states, trace, params, actions, kind.policy, settings.actions)
    return np.zeros(len(cases)) if found is None else np.asarray(found)


def tried(case: Case, trace: Trace, settings: Settings, engine: Any, times: int = 1) -> Tried:
    """One series searched as `settings` say, with so many `times` their effort."""
    config, policy = case.kind.config, case.kind.policy
    budget = times * effort_of(policy)
    states, params, actions = panel_inputs([case], trace, settings)
    law = config.planned_trace(trace, params, policy, settings.actions)
    more: dict[str, Any] = {"node_budget": budget}
    own = dataclasses.replace(policy, **more)
    begin = time.perf_counter()
    plan = search_panel(case.kind.task, states, law, own, params=params, actions=actions, engine=engine)
    seconds = time.perf_counter() - begin
    found = plan[0]
    return Tried(found.status != Status.NOT_PROVED, int(found.reached), int(found.expansions), seconds)


def room_words(
    series: str, case: Case, trace: Trace, settings: Settings, engine: Any, total: int, of: str = "series"
) -> Iterator[str]:
    """What closed loop takes for a series, if that is much for a `total` of series, or decisions, like it; where it
    does not fit, what is likely to."""
    own = tried(case, trace, settings, engine)
    if own.fits:
        if total > 1:
            own = tried(case, trace, settings, engine)  # without what compiling took
        if own.seconds * total > _LONG_S:
            yield f"{series}: {own.words}; {total:,} {of} like it take about {own.seconds * total / 60.0:.2g} minutes"
        return
    whole = tried(case, trace, settings, engine, MORE)
    budget = effort_of(case.kind.policy)
    yield (
        f"{series}: closed loop does not fit: {whole.words}; [proof] node_budget = {budget:,} allows no more. "
        "Series like it fall back."
    )
    most = float(most_of([case], trace, settings)[0])
    if whole.fits:
        yield f"  [proof] node_budget = {_rounded(whole.transitions)} would fit"
    for label, changes in alternatives(settings):
        other = _case(case, settings, changes)
        if other is None:
            continue
        if other[0].kind.policy.mode != "closed":
            yield f"  {label} plans one course for all outcomes, without states"
        elif most > 0.0:
            share = float(most_of([other[0]], trace, other[1])[0]) / most
            count, seconds = whole.transitions * share, whole.seconds * share
            least = "" if whole.fits else "at least "
            fits = "would fit" if whole.fits and count <= budget else "is smaller, but may not fit"
            yield f"  {label} {fits}: {least}about {_rounded(round(count)):,} transitions, {seconds:.2g} s a series"


def alternatives(settings: Settings) -> Iterator[tuple[str, dict[str, dict[str, Any]]]]:
    """Coarser ways to plan, as settings and as changes of them, the finest first."""
    sizes, policy = settings.actions, settings.policy
    for lots in sorted({max(3, round(sizes.lots * share)) for share in (0.6, 0.4)}, reverse=True):
        if lots < sizes.lots:
            yield f"[actions] lots = {lots}", {"actions": {"lots": lots}}
    if sizes.points > 5:
        yield "[actions] points = 5", {"actions": {"points": 5}}
    yield f"[policy] depth = {policy.depth - 2}", {"policy": {"depth": policy.depth - 2}}
    yield "[policy] mode = 'members'", {"policy": {"mode": "members"}}


def _case(case: Case, settings: Settings, changes: dict[str, dict[str, Any]]) -> tuple[Case, Settings] | None:
    """The same series under changed settings; None where they do not go together."""
    try:
        other = parse_settings(edited(settings.text, changes).encode(), settings.file)
        kinds = Kinds(other)
        base, own = settings.task.for_planning(settings.policy, settings.actions), case.config
        fields = [f.name for f in dataclasses.fields(own) if f.name not in ("order_sizes", "expedited_sizes")]
        differs = {name: getattr(own, name) for name in fields if getattr(own, name) != getattr(base, name)}
        differs = {name: value for name, value in differs.items() if name not in ("order_cycles", "calendar_length")}
        config = kinds.config(differs)
        return Case(kinds.kind(config, differs), case.state, config.params(), config), other
    except UCSearchError:
        return None


def _rounded(count: int) -> int:
    """Two digits, upwards."""
    step = int(10 ** max(0, len(str(count)) - 2))
    return -(-count // step) * step
