"""A picture of one decision: where feasible paths go, which were retained and chosen, and the forecast beneath."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ucsearch.engine.plain.run import make_window
from ucsearch.errors import InputError
from ucsearch.formatting import figure
from ucsearch.report.charts import fan, paths, quantiles
from ucsearch.report.picture import Picture

if TYPE_CHECKING:
    from ucsearch.decision.decision import Decision
    from ucsearch.engine.plain.window import Window
    from ucsearch.engine.plan import Plan
    from ucsearch.trace import Trace

__all__ = ["Courses", "courses_of", "plot_decision"]

MAX_NODES = 20_000  # spent on each extreme path before it is left out


class Courses(NamedTuple):
    """One state field by step, the start included."""

    field: str  # what is drawn; in members mode the members' mean
    reach: list[tuple[float, float]]  # least and largest of all paths found by step
    retained: list[list[float]]  # one for each first action, but the chosen one
    chosen: tuple[str, list[float]] | None  # with its name


def plot_decision(decision: Decision, field: str | None = None) -> Picture:
    """Draw `decision`: its paths and the forecast. `field` is the state field to draw, such as "on_hand" or
    "pipeline[0]", by default the first. Raises InputError where the trace was refused, or there is no such field."""
    courses = courses_of(decision, field)
    assert decision.certificate is not None
    caption = "Band: what feasible plans reach. Thin lines: the best plan of every other first action."
    title = f"{_title(decision)}: {courses.field}"
    upper = paths("paths", title, courses.reach, courses.retained, courses.chosen, caption)
    return Picture(_title(decision), (upper, *_forecast(decision.certificate.plan)))


def courses_of(decision: Decision, field: str | None = None) -> Courses:
    """What is drawn of the paths."""
    certificate = decision.certificate
    if certificate is None:
        raise InputError("decision", "a decision whose trace was refused", "one that was searched")
    plan = certificate.plan
    names = plan.layout.names
    if field is None:
        field = names[0]
    if field not in names:
        raise InputError("field", repr(field), f"one of {', '.join(names)}")
    window = make_window(plan.task, plan.settings, plan.layout, plan.inputs, plan.window)
    tracks = _Tracks(window, plan, names.index(field))
    followed = [
        (r.index == certificate.action_index, r.label, tracks.follow(r.path)) for r in certificate.rivals if r.path
    ]
    cone = np.array([track for _, _, track in followed] + tracks.extremes())
    reach = list(zip(cone.min(axis=0).tolist(), cone.max(axis=0).tolist(), strict=True)) if cone.size else []
    chosen = next(((label, track) for best, label, track in followed if best), None)
    if chosen is not None and not decision.released:
        chosen = f"{chosen[0]}, not released", chosen[1]
    name = f"{field}, mean of members" if plan.policy.mode == "members" else field
    return Courses(name, reach, [track for best, _, track in followed if not best], chosen)


def _title(decision: Decision) -> str:
    certificate = decision.certificate
    name = "" if certificate is None else f"{certificate.plan.task.name}: "
    reason = "" if decision.released else f" ({decision.cause.value})"
    what = "nothing" if decision.action is None else figure(decision.action)
    return f"{name}{decision.outcome.value}{reason}, action {what}"


def _forecast(plan: Plan) -> tuple[str, ...]:
    """The fan of the members, or of the actions' scores."""
    trace: Trace = plan.trace
    if trace.is_scores:
        rows = [quantiles(step.tolist(), [1.0] * len(step)) for step in trace.q[0]]
        return (fan("forecast", "Scores of the actions", rows),)
    weights = trace.weights[0].tolist()
    rows = [quantiles(step.tolist(), weights) for step in trace.members[0, :, :, 0].T]
    outcome = plan.task.outcome
    return (fan("forecast", "Forecast" if outcome is None else f"Forecast: {outcome._fields[0]}", rows),)


# -------------------------------------------------------------------- where paths go


class _Tracks:
    """One state field along paths of action indices, replayed by the task's own rules."""

    def __init__(self, window: Window, plan: Plan, column: int) -> None:
        self.window = window
        self.plan = plan
        self.column = column
        self.root = window.root(plan.layout.build(plan.inputs.states[plan.window].tolist())).states

    def value(self, states: tuple[Any, ...]) -> float:
        values = [self.plan.layout.flatten(s, "state")[self.column] for s in states]
        if len(values) == 1:
            return values[0]
        return float(np.average(values, weights=self.window.weights))

    def after(self, states: tuple[Any, ...], action: int, step: int) -> tuple[Any, ...]:
        window = self.window
        if window.is_members:
            outcomes = [y[step] for y in window.members]
            return tuple(window.move(s, action, y, step) for s, y in zip(states, outcomes, strict=True))
        return (window.move(states[0], action, window.mean[step], step),)

    def follow(self, path: Sequence[int]) -> list[float]:
        """(d + 1,) the field's values, the start included."""
        states, out = self.root, [self.value(self.root)]
        for step, action in enumerate(path):
            states = self.after(states, action, step)
            out.append(self.value(states))
        return out

    def extremes(self) -> list[list[float]]:
        """The field along the smallest and the largest feasible actions, after every feasible first action.

        Only paths that keep the rules to the end count, so a dead end is backed out of.
        """
        tracks = []
        for first in self.window.available:
            if not self.window.allowed(self.root, first, 0):
                continue
            start = self.after(self.root, first, 0)
            for order in (1, -1):
                self.nodes = 0
                path = self._complete(start, 1, order)
                if path is not None:
                    tracks.append(self.follow((first, *path)))
        return tracks

    def _complete(self, states: tuple[Any, ...], step: int, order: int) -> tuple[int, ...] | None:
        if step == self.window.depth:
            return () if self.window.ended(states, step - 1, 0) else None
        for action in self.window.available[::order]:
            self.nodes += 1
            if self.nodes > MAX_NODES:
                return None
            if self.window.allowed(states, action, step):
                rest = self._complete(self.after(states, action, step), step + 1, order)
                if rest is not None:
                    return (action, *rest)
        return None
