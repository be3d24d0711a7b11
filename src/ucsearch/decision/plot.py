"""A picture of one decision: where feasible paths go, which were retained and chosen, and the forecast beneath."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.plain.run import make_window
from ucsearch.errors import InputError
from ucsearch.formatting import figure

if TYPE_CHECKING:
    from ucsearch.decision.decision import Decision
    from ucsearch.engine.plain.window import Window
    from ucsearch.engine.plan import Plan
    from ucsearch.trace import Trace

__all__ = ["plot_decision"]

Floats = NDArray[np.float64]

BANDS = ((0.05, 0.95), (0.25, 0.75))  # quantiles of the fan
CHOSEN, RETAINED, CONE, FAN = "C3", "0.35", "C0", "C2"
MAX_NODES = 20_000  # spent on each extreme path before it is left out


def plot_decision(decision: Decision, ax: Any = None, *, field: str | None = None) -> Any:
    """Draw `decision` and return the figure; needs matplotlib.

    `ax`: None for a new figure, a pair of axes (paths, forecast), or one axes for the paths alone. `field` is the state
    field to draw, such as "on_hand" or "pipeline[0]", by default the first; in members mode it is the members' mean.
    """
    certificate = decision.certificate
    if certificate is None:
        raise InputError("decision", "a decision whose trace was refused", "one that was searched")
    plan = certificate.plan
    names = plan.layout.names
    if field is None:
        field = names[0]
    if field not in names:
        raise InputError("field", repr(field), f"one of {', '.join(names)}")
    upper, lower, figure = _axes(ax)
    window = make_window(plan.task, plan.settings, plan.layout, plan.inputs, plan.window)
    tracks = _Tracks(window, plan, names.index(field))
    retained = [
        (r.index == certificate.action_index, r.label, tracks.follow(r.path)) for r in certificate.rivals if r.path
    ]
    _draw_paths(upper, decision, retained, tracks.extremes(), field)
    if lower is not None:
        _draw_fan(lower, plan.trace, plan)
        upper.tick_params(labelbottom=False)
        upper.set_xlabel("")
    return figure


def _axes(ax: Any) -> tuple[Any, Any, Any]:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise InputError("matplotlib", "nothing", "an installed package", hint="pip install matplotlib") from error

    if ax is None:
        figure, (upper, lower) = plt.subplots(
            2, 1, sharex=True, figsize=(8.0, 6.0), height_ratios=(2, 1), layout="constrained"
        )
        return upper, lower, figure
    if isinstance(ax, Sequence | np.ndarray):
        if len(ax) != 2:
            raise InputError("ax", f"{len(ax)} axes", "two: for the paths and for the forecast")
        return ax[0], ax[1], ax[0].figure
    return ax, None, ax.figure


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
        found = []
        for first in self.window.available:
            if not self.window.allowed(self.root, first, 0):
                continue
            start = self.after(self.root, first, 0)
            for order in (1, -1):
                self.nodes = 0
                path = self._complete(start, 1, order)
                if path is not None:
                    found.append(self.follow((first, *path)))
        return found

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


# -------------------------------------------------------------------- drawing


def _draw_paths(
    ax: Any, decision: Decision, retained: list[tuple[bool, str, list[float]]], extremes: list[list[float]], field: str
) -> None:
    cone = np.array([track for _, _, track in retained] + extremes)
    if cone.size:
        steps = np.arange(cone.shape[1])
        label = f"feasible, from {len(cone)} paths"
        ax.fill_between(steps, cone.min(axis=0), cone.max(axis=0), color=CONE, alpha=0.15, linewidth=0, label=label)
    others = "retained, one per first action"
    for chosen, _, track in sorted(retained, key=lambda item: item[0]):
        if chosen:
            continue
        ax.plot(track, color=RETAINED, linewidth=0.8, alpha=0.8, label=others)
        others = "_nolegend_"
    for chosen, name, track in retained:
        if chosen:
            text = name if decision.released else f"{name}, not released"
            style = "-" if decision.released else "--"
            ax.plot(track, color=CHOSEN, linewidth=2.5, linestyle=style, marker="o", markersize=4, label=text)
    what = f"{field}, mean of members" if _is_members(decision) else field
    ax.set_ylabel(what)
    ax.set_xlabel("step")
    ax.set_title(_title(decision), loc="left", fontsize="medium")
    if ax.get_legend_handles_labels()[0]:
        ax.legend(loc="best", fontsize="small", frameon=False)
    _tidy(ax)


def _title(decision: Decision) -> str:
    c = decision.certificate
    name = "" if c is None else f"{c.plan.task.name}: "
    reason = "" if decision.released else f" ({decision.cause.value})"
    what = "nothing" if decision.action is None else figure(decision.action)
    return f"{name}{decision.outcome.value}{reason}, action {what}"


def _draw_fan(ax: Any, trace: Trace, plan: Plan) -> None:
    """Quantile bands of the members; the outcome of step h is known at the end of it, at h + 1."""
    if trace.is_scores:
        scores = trace.q[0]  # (H, m)
        steps = np.arange(1, scores.shape[0] + 1)
        ax.fill_between(steps, scores.min(axis=1), scores.max(axis=1), color=FAN, alpha=0.25, label="all actions")
        ax.set_ylabel("action score")
    else:
        members = trace.members[0, :, :, 0]  # (J, H)
        steps = np.arange(1, members.shape[1] + 1)
        for (low, high), alpha in zip(BANDS, (0.2, 0.35), strict=True):
            lo, hi = (_quantile(members, trace.weights[0], level) for level in (low, high))
            ax.fill_between(
                steps, lo, hi, color=FAN, alpha=alpha, linewidth=0, label=f"{low * 100:.0f}-{high * 100:.0f} %"
            )
        ax.plot(steps, trace.mean[0, :, 0], color=FAN, linewidth=1.5, label="mean")
        outcome = plan.task.outcome
        ax.set_ylabel("forecast" if outcome is None else f"forecast {outcome._fields[0]}")
    if trace.horizon > plan.settings.depth:
        ax.axvline(plan.settings.depth, color="0.5", linewidth=0.8, linestyle=":")
    ax.set_xlabel("step")
    ax.legend(loc="best", fontsize="small", frameon=False, ncols=3)
    _tidy(ax)


def _quantile(members: Floats, weights: Floats, level: float) -> Floats:
    """(H,) weighted quantile: the smallest member with at least `level` of the weight at or below it."""
    order = np.argsort(members, axis=0, kind="stable")
    below = np.cumsum(weights[order], axis=0)
    pick = np.minimum((below < level - 1e-12).sum(axis=0), members.shape[0] - 1)
    return np.asarray(members[order[pick, np.arange(members.shape[1])], np.arange(members.shape[1])])


def _is_members(decision: Decision) -> bool:
    return decision.certificate is not None and decision.certificate.plan.policy.mode == "members"


def _tidy(ax: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.grid(alpha=0.25, linewidth=0.6)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
