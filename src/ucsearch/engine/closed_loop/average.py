"""`average_cost`: what a step costs in the long run under the best policy, with a lower and an upper bound.

The law repeats after its own number of steps P. One pass of value iteration over them maps relative values v of the
states of phase 0 to Tv. Whatever v is, the best long-run reward of a step lies between the smallest and the largest
(Tv - v) / P over the states that can be met again and again (Odoni 1969), so the bounds hold at every moment and not
only in the limit. Between passes v moves half of the way to Tv, which keeps periodic problems from turning in circles.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.inputs import action_grid, params_rows
from ucsearch.engine.simulate import Simulator
from ucsearch.errors import BudgetError, InputError
from ucsearch.formatting import figure, make_frame
from ucsearch.layout import Layout
from ucsearch.policies import RUN, Run
from ucsearch.task import Params, State, Task
from ucsearch.trace import Trace

__all__ = ["AverageCost", "average_cost"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
SPAN = 1e-6  # of the bounds, relative, at which passes end
_BUDGET = 20_000_000
_WORTH_COMPILING = 500_000  # transitions, two seconds of plain Python


class Phase(NamedTuple):
    """What can be done at one step of the law. Edges are states with an action, in the order of states and actions."""

    first: Ints  # (S,) first edge of each state
    state: Ints  # (E,)
    action: Ints  # (E,) index
    reward: Floats  # (E, K)
    to: Ints  # (E, K) state of the next phase


@dataclass(frozen=True, eq=False)
class AverageCost:
    """The long-run average cost of a step under the best policy; a cost is a reward with its sign changed."""

    low: float  # no policy costs less
    high: float  # the best policy costs no more
    converged: bool  # the two agree to a millionth
    passes: int  # of value iteration
    states: int  # that can be reached, over all phases
    task: Task = field(repr=False)
    layout: Layout = field(repr=False)
    rows: tuple[Floats, ...] = field(repr=False)  # by phase (S, n), the states
    best: tuple[Ints, ...] = field(repr=False)  # by phase (S,), index of the best action
    met: tuple[Bools, ...] = field(repr=False)  # by phase (S,), whether the policy meets the state again and again

    @property
    def status(self) -> str:
        """ "converged", or "not_converged" where the passes ended first: the bounds hold all the same."""
        return "converged" if self.converged else "not_converged"

    @property
    def cost(self) -> float:
        """The middle of the bounds."""
        return 0.5 * (self.low + self.high)

    def action(self, state: Any, phase: int = 0) -> Any:
        """The best action in `state` at `phase` (0 to P - 1) of the law."""
        row = np.array(self.layout.flatten(state, "state"))
        at = np.flatnonzero((self.rows[phase] == row).all(axis=1))
        if not at.size:
            raise InputError("state", repr(state), f"a state that can be reached at phase {phase}")
        return self.task.actions[self.best[phase][at[0]]]

    def table(self, backend: str = "auto") -> Any:
        """One row for each state, as a data frame: phase, fields, the best action, and whether the policy meets it
        again and again."""
        rows = [
            (p, *row, self.task.actions[x], bool(again))
            for p, parts in enumerate(zip(self.rows, self.best, self.met, strict=True))
            for row, x, again in zip(parts[0].tolist(), parts[1].tolist(), parts[2].tolist(), strict=True)
        ]
        names = ("phase", *self.layout.names, "action", "recurrent")
        return make_frame({name: [row[k] for row in rows] for k, name in enumerate(names)}, backend)


def average_cost(
    task: Task[State, Params],
    law: Trace,
    state: State,
    *,
    within: Mapping[str, tuple[float, float]] | None = None,
    params: Params | None = None,
    risk: float = 0.0,
    tail: float = 0.2,
    passes: int = 10_000,
    node_budget: int = _BUDGET,
    run: Run = RUN,
) -> AverageCost:
    """The average cost of a step in the long run, under the best policy and a law that repeats for ever.

    Args:
        task: the rules. `terminal` is not used; where rules take the step index it is the phase, 0 to P - 1.
        law: independent steps; its horizon is the period P. A law that is the same at every step has horizon 1.
        state: where to start.
        within: ranges of state fields that the policy may not leave, where the rules themselves do not bound them. If
            the best policy reaches an end of a range the answer would depend on it, and is refused.
        params: parameters of the rules in place of the task's own.
        risk: 0 for expectation; up to 1 for the nested tail measure.
        tail: share of the worst outcomes for `risk`.
        passes: of value iteration, at most.
        node_budget: transitions (state, action, outcome) that may be evaluated.
        run: how the work is done.

    Returns:
        `AverageCost` with `low` and `high`; both hold whether or not they have `converged`.

    Raises:
        InputError: the states that can be reached are not finite, have a dead end, or the best policy reaches an end of
            `within`; the field is named.
        TaskError: a rule failed.
    """
    if not isinstance(law, Trace) or law.windows != 1 or law.coupling != "independent":
        raise InputError("law", repr(law), "a uc.Trace of one window with independent steps")
    if not 0.0 <= risk <= 1.0 or not 0.0 < tail <= 1.0:
        raise InputError("risk", (risk, tail), "a risk from 0 to 1 and a tail above 0 and up to 1")
    layout, steps = task.layout(state), law.law()
    outcomes = [Outcomes(np.array(y), np.array(w)) for y, w in zip(steps.points, steps.weights, strict=True)]
    rows_of_params, grid = params_rows(task, params, 1), action_grid(task, None, 1)

    def simulator(engine: str) -> Simulator:
        return Simulator(task, layout, params=rows_of_params, actions=grid, engine=engine)

    ranges = _ranges(layout, within or {})
    reached = _Reached(simulator, run.engine, layout, outcomes, ranges, node_budget)
    reached.grow(np.array([layout.flatten(state, "state")]))
    rows, phases = reached.pruned()
    found = _iterated(phases, outcomes, risk, tail, passes)
    best = tuple(phase.action[edges] for phase, edges in zip(phases, found.edges, strict=True))
    met = _recurrent(phases, found.edges)
    _check_ranges(layout, ranges, rows, met)
    return AverageCost(
        low=-found.high, high=-found.low, converged=found.converged, passes=found.passes, states=sum(map(len, rows)),
        task=task, layout=layout, rows=rows, best=best, met=met,
    )  # fmt: skip


class Outcomes(NamedTuple):
    """Of one phase."""

    values: Floats  # (K, F)
    weights: Floats  # (K,)


class Iterated(NamedTuple):
    """What value iteration came to."""

    low: float  # reward of a step
    high: float
    converged: bool
    passes: int
    edges: list[Ints]  # by phase (S,), the best edge of each state


def _ranges(layout: Layout, within: Mapping[str, tuple[float, float]]) -> dict[int, tuple[float, float]]:
    """By column of a flat state."""
    names, found = layout.names, {}
    for name, (low, high) in within.items():
        columns = [k for k, own in enumerate(names) if own == name or own.startswith(f"{name}[")]
        if not columns:
            raise InputError("within", repr(name), f"fields of the state: {', '.join(names)}")
        if not low < high:
            raise InputError(f"within.{name}", (low, high), "a range from low to high")
        found.update(dict.fromkeys(columns, (float(low), float(high))))
    return found


def _check_ranges(
    layout: Layout, ranges: dict[int, tuple[float, float]], rows: tuple[Floats, ...], met: tuple[Bools, ...]
) -> None:
    for k, (low, high) in ranges.items():
        values = np.concatenate([own[again, k] for own, again in zip(rows, met, strict=True)])
        for end in (low, high):
            if (values == end).any():
                name = layout.names[k]
                raise InputError(f"within.{name}", f"a best policy that reaches {figure(end)}", "a wider range")


class _Reached:
    """Everything that can be reached from a state, phase by phase, until nothing is new."""

    def __init__(
        self, simulator: Callable[[str], Simulator], engine: str, layout: Layout, outcomes: list[Outcomes],
        ranges: dict[int, tuple[float, float]], budget: int,
    ) -> None:  # fmt: skip
        self.compiled = simulator if engine == "auto" else None  # from some size on compiling pays
        self.simulator = simulator("python" if engine in ("auto", "python") else "compiled")
        self.layout, self.outcomes, self.ranges = layout, outcomes, ranges
        self.budget, self.spent = budget, 0
        self.places: list[dict[bytes, int]] = [{} for _ in outcomes]
        self.rows: list[list[Floats]] = [[] for _ in outcomes]
        self.edges: list[list[tuple[Ints, Ints, Floats, Ints]]] = [[] for _ in outcomes]  # state, action, reward, to

    def grow(self, root: Floats) -> None:
        self._numbers(0, root)
        waves = [(0, np.zeros(1, np.int64), root)]
        while waves:
            p, numbers, rows = waves.pop(0)
            after = (p + 1) % len(self.outcomes)
            following, which, edges = self._steps(p, rows)
            at, fresh = self._numbers(after, following)
            self.edges[p].append((numbers[edges[0]], edges[1], edges[2], at[which]))
            if fresh.any():
                waves.append((after, at[fresh], following[fresh]))

    def _numbers(self, p: int, rows: Floats) -> tuple[Ints, Bools]:
        """Numbers of these states in phase p, and which of them are new."""
        places, before = self.places[p], len(self.places[p])
        numbers = np.array([places.setdefault(row.tobytes(), len(places)) for row in rows], np.int64)
        self.rows[p].append(rows[numbers >= before])
        return numbers, numbers >= before

    def _steps(self, p: int, rows: Floats) -> tuple[Floats, Ints, tuple[Ints, Ints, Floats]]:
        """The states that follow, which of them every transition (E, K) leads to, and the edges: place among `rows`,
        action, rewards (E, K)."""
        values, weights = self.outcomes[p]
        mask = self.simulator.mask(rows, p)
        for i in np.flatnonzero(~mask.any(axis=1))[:1]:
            raise InputError(
                "state", self._words(rows[i]) + f" at phase {p}, where no action is allowed",
                "an allowed action in every state that is reached",
            )  # fmt: skip
        at, action = np.nonzero(mask)
        self.spent += at.size * len(weights)
        if self.spent > self.budget:
            raise self._endless()
        if self.compiled is not None and self.spent > _WORTH_COMPILING:
            self.simulator, self.compiled = self.compiled("compiled"), None
        step = self.simulator.advance(
            np.repeat(rows[at], len(weights), axis=0), np.repeat(action, len(weights)), np.tile(values, (at.size, 1)), p
        )
        inside = np.ones(len(step.states), bool)
        for k, (low, high) in self.ranges.items():
            inside &= (step.states[:, k] >= low) & (step.states[:, k] <= high)
        kept = inside.reshape(at.size, -1).all(axis=1)  # an action that may lead outside is left out
        states = step.states[np.repeat(kept, len(weights))] + 0.0
        following, which = np.unique(states, axis=0, return_inverse=True)
        reward = step.rewards.reshape(at.size, -1)[kept]
        return following, which.reshape(-1, len(weights)), (at[kept], action[kept], reward)

    def _words(self, row: Floats) -> str:
        return ", ".join(f"{name} {figure(x)}" for name, x in zip(self.layout.names, row.tolist(), strict=True))

    def _endless(self) -> BudgetError:
        """Names the field whose values have grown most since half of the states were known."""
        rows = max((np.concatenate(own) for own in self.rows if own), key=len)
        early, late = rows[: len(rows) // 2 + 1], rows
        more = (late.max(axis=0) - early.max(axis=0)) + (early.min(axis=0) - late.min(axis=0))
        k = int(np.argmax(more))
        name = self.layout.names[k]
        return BudgetError(
            f"state.{name}", f"values from {figure(late[:, k].min())} to {figure(late[:, k].max())} and no end to them",
            f"finitely many states within {self.budget} transitions",
            hint=f"Bound it in the rules, or by within={{{name.partition('[')[0]!r}: (low, high)}}.",
        )  # fmt: skip

    def pruned(self) -> tuple[tuple[Floats, ...], list[Phase]]:
        """States and edges without states in which no action is left, and without what leads there or is not reached
        then."""
        rows = [np.concatenate(own) for own in self.rows]
        edges = [tuple(np.concatenate(parts) for parts in zip(*own, strict=True)) for own in self.edges]
        alive = [np.ones(len(own), bool) for own in rows]
        count, before = -1, -2
        while count != before:
            before, count = count, 0
            for p, (state, _, _, to) in enumerate(edges):
                good = alive[(p + 1) % len(edges)][to].all(axis=1)
                alive[p] &= np.bincount(state[good], minlength=len(rows[p])) > 0
                count += int(alive[p].sum())
        if not alive[0][0]:
            raise InputError("within", self._words(rows[0][0]), "a start from which some policy stays in these ranges")
        good = [alive[(p + 1) % len(edges)][e[3]].all(axis=1) & alive[p][e[0]] for p, e in enumerate(edges)]
        reached = _reachable([(e[0][g], e[3][g]) for e, g in zip(edges, good, strict=True)], [len(x) for x in rows])
        number = [np.cumsum(own) - 1 for own in reached]
        phases = []
        for p, (state, action, reward, to) in enumerate(edges):
            keep = good[p] & reached[p][state]
            order = np.argsort(state[keep], kind="stable")
            own = number[p][state[keep]][order]
            first = np.searchsorted(own, np.arange(int(reached[p].sum())))
            after = number[(p + 1) % len(edges)]
            phases.append(Phase(first, own, action[keep][order], reward[keep][order], after[to[keep][order]]))
        return tuple(x[own] for x, own in zip(rows, reached, strict=True)), phases


def _reachable(edges: list[tuple[Ints, Ints]], sizes: list[int]) -> list[Bools]:
    """By phase, states that can be reached from the first state of phase 0."""
    found = [np.zeros(size, bool) for size in sizes]
    found[0][0] = True
    count, before = 1, 0
    while count != before:
        for p, (state, to) in enumerate(edges):
            found[(p + 1) % len(edges)][to[found[p][state]]] = True
        before, count = count, sum(int(own.sum()) for own in found)
    return found


def _recurrent(phases: list[Phase], chosen: list[Ints] | None = None) -> tuple[Bools, ...]:
    """By phase, states that can be met again and again from the first state of phase 0: by any policy, or by the one
    that takes edge `chosen` (S,) of each."""
    own = [np.arange(len(phase.state)) for phase in phases] if chosen is None else chosen
    edges = [(phase.state[e], phase.to[e]) for phase, e in zip(phases, own, strict=True)]
    alive = _reachable(edges, [len(phase.first) for phase in phases])
    count, before = -1, -2
    while count != before:  # what nothing leads to is met once at most
        before = count
        for p, (state, to) in enumerate(edges):
            entered = np.zeros(len(alive[(p + 1) % len(edges)]), bool)
            entered[to[alive[p][state]]] = True
            alive[(p + 1) % len(edges)] &= entered
        count = sum(int(x.sum()) for x in alive)
    return tuple(alive)


def _iterated(phases: list[Phase], outcomes: list[Outcomes], risk: float, tail: float, passes: int) -> Iterated:
    again, period = _recurrent(phases)[0], len(phases)
    value = np.zeros(len(phases[0].first))
    edges: list[Ints] = []
    low, high, done, converged = -math.inf, math.inf, 0, False
    while done < passes and not converged:
        edges, after = [], value
        for phase, (_, weights) in zip(reversed(phases), reversed(outcomes), strict=True):
            worth = _worth(phase.reward + after[phase.to], weights, risk, tail)
            after = np.maximum.reduceat(worth, phase.first)
            best = np.flatnonzero(worth == after[phase.state])
            edges.insert(0, best[np.searchsorted(phase.state[best], np.arange(len(phase.first)))])
        change = (after - value)[again] / period
        low, high, done = max(low, float(change.min())), min(high, float(change.max())), done + 1
        converged = high - low <= SPAN * max(abs(low), abs(high))
        value = 0.5 * (value + after)
        value = value - value[0]
    return Iterated(low, high, converged, done, edges)


def _worth(scores: Floats, weights: Floats, risk: float, tail: float) -> Floats:
    """(E,) of the outcomes (E, K) of every edge: the mean, or with risk the mean and the mean of the worst share."""
    total = np.zeros(len(scores))
    for k, weight in enumerate(weights.tolist()):
        total += weight * scores[:, k]
    if risk == 0.0:
        return total
    order = np.argsort(scores, axis=1, kind="stable")
    own = weights[order]
    taken = np.clip(tail - (np.cumsum(own, axis=1) - own), 0.0, own)
    worst = (taken * np.take_along_axis(scores, order, axis=1)).sum(axis=1) / tail
    valued: Floats = (1.0 - risk) * total + risk * worst
    return valued
