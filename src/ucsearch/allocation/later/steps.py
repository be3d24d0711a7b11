"""Decisions under limits of several steps: what their searches reached is valued again with prices inside.

Closed mode at risk 0 only: there the value of every later state is known, and a limit that always holds can be priced.
A series that does not take part now is not planned for later either: what it will use then has to be kept free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.allocation.cases import Case, SearchSource
from ucsearch.allocation.later.paths import Draws, Later, Limits, priced_horizon, simulate
from ucsearch.allocation.later.priced import Priced, Valued
from ucsearch.allocation.problem import Problem, Resource, Shared
from ucsearch.allocation.result import Result
from ucsearch.engine.api import thread_count
from ucsearch.engine.arrays import Inputs
from ucsearch.engine.closed_loop.reachable import Graph, joined, reachable
from ucsearch.errors import InputError
from ucsearch.policies import MODES

__all__ = ["MOST_TRANSITIONS", "Planned", "check_steps", "plan_steps", "reach_steps"]

Floats = NDArray[np.float64]
MOST_TRANSITIONS = 500_000_000  # of all series together: 2 GB, and half as much again for what belongs to them


class Planned(NamedTuple):
    """Prices of all steps, and the first step as a problem of its own."""

    priced: Priced
    limits: tuple[Limits, ...]
    prices: tuple[Floats, ...]  # per resource (G, H)
    valued: Valued
    free: Valued
    problem: Problem

    def follow(self, result: Result, paths: int, draws: Draws) -> Later:
        """The released first actions, and the same rule at every later step of simulated paths."""
        return simulate(
            self.priced, self.limits, self.prices, self.valued, self.free, self.problem.series, result.choice, paths,
            draws,
        )  # fmt: skip


def check_steps(cases: Sequence[Case], shared: Sequence[Shared]) -> None:
    """Refuse what cannot be priced at later steps, before any work."""
    steps, first = max(s.horizon for s in shared), None
    total = 0
    for case in cases:
        source = case.source
        if source is None or source.settings.mode != MODES["closed"] or source.settings.risk > 0.0:
            raise InputError(
                "decisions", f"mode, spread and risk {case.basis}", "mode 'closed' without risk", index=case.series,
                hint="Limits at later steps need the values of later states.",
            )  # fmt: skip
        horizon = (source.settings.depth, source.settings.discount)
        first = horizon if first is None else first
        if horizon != first:
            raise InputError(
                "decisions", f"depth and discount {horizon}", f"{first} as the first has", index=case.series
            )
        if steps > horizon[0]:
            raise InputError("steps", steps, f"at most {horizon[0]}, the depth of the decisions")
        total += int(source.counts[2])
    if total > MOST_TRANSITIONS:
        raise InputError(
            "decisions", f"{total} transitions together", f"at most {MOST_TRANSITIONS}",
            hint="Plan fewer series at a time, or on a coarser lattice.",
        )  # fmt: skip


def reach_steps(
    cases: Sequence[Case], shared: Sequence[Shared], resources: Sequence[Resource]
) -> tuple[Priced, tuple[Limits, ...]]:
    """Everything the series can reach, and the limits. `resources` are those of the first step."""
    sources = [case.source for case in cases if case.source is not None]
    graph = joined([
        _graph(list(group), shared)
        for _, group in groupby(
            zip(cases, sources, strict=True), key=lambda x: (id(x[0].task), id(x[1].inputs), x[1].compiled)
        )
    ])  # fmt: skip
    width = max(len(case.actions) for case in cases)
    priced = Priced(graph, graph.euse, sources[0].settings.discount, width, thread_count(None))
    limits = tuple(_limits(s, r, graph.depth) for s, r in zip(shared, resources, strict=True))
    return priced, limits


def plan_steps(
    cases: Sequence[Case], priced: Priced, limits: tuple[Limits, ...], resources: Sequence[Resource]
) -> Planned:
    """Prices of all steps, and the first step at the prices of the later ones."""
    free, prices, valued = priced_horizon(priced, limits)
    first = priced.step(valued.values, np.zeros(len(cases), np.int64))
    # Actions of equal effect stand for one another in a decision; only the one that it valued can be chosen.
    known = np.zeros(first.q.shape, bool)
    for i, case in enumerate(cases):
        known[i, : case.lower.size] = ~np.isnan(case.lower)
    lower = np.where(known, first.q, np.nan)
    now = [replace(r, use=first.used[k]) for k, r in enumerate(resources)]
    sizes, eps = [case.size for case in cases], [case.eps for case in cases]
    problem = Problem.of([case.series for case in cases], lower, first.q, now, sizes, eps)
    return Planned(priced, limits, prices, valued, free, problem)


def _graph(group: list[tuple[Case, SearchSource]], shared: Sequence[Shared]) -> Graph:
    """Series that were searched together, with the uses of what is shared, in its units."""
    task, (layout, settings, inputs, _, _, compiled) = group[0][0].task, group[0][1]
    rows = np.array([source.window for _, source in group])
    counts = np.stack([source.counts for _, source in group])
    graph = reachable(
        task, layout, settings, _rows(inputs, rows), counts, compiled=compiled, threads=thread_count(None)
    )
    names, edges = sorted(task.uses), np.diff(graph.first[:, 1])
    use = np.empty((len(shared), graph.emean.size))
    for k, s in enumerate(shared):
        times = np.array([s.factor(case.series) for case, _ in group])
        use[k] = graph.euse[names.index(str(s.use))] * np.repeat(times, edges)
    return replace(graph, euse=use)


def _rows(inputs: Inputs, rows: NDArray[np.int64]) -> Inputs:
    if rows.size == inputs.states.shape[0] and (rows == np.arange(rows.size)).all():
        return inputs
    count = inputs.states.shape[0]
    return Inputs(*(array[rows] if array.shape[0] == count else array for array in inputs))


def _limits(shared: Shared, resource: Resource, depth: int) -> Limits:
    """What may still be used at the first step, and the limits of later ones."""
    table = np.array([[shared.at(g, h) for h in range(depth)] for g in resource.groups])
    table[:, 0] = np.maximum(resource.left(), 0.0)
    return Limits(shared.name, table, resource.group, resource.groups)
