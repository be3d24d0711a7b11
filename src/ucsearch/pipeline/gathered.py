"""The forecasts of a job, read chunk by chunk and ahead of who decides on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ucsearch.pipeline.cases import Case
from ucsearch.pipeline.forecasts import Values, make_trace
from ucsearch.pipeline.tables import Problem
from ucsearch.pipeline.work import Work
from ucsearch.settings import Settings
from ucsearch.trace import Trace

__all__ = ["Gathered", "Group", "ahead", "gathered"]

T = TypeVar("T")


class Group(NamedTuple):
    """Series of one kind and shape, to be decided in one call."""

    values: list[Values]
    cases: list[Case]
    trace: Trace  # one panel of all of them


class Gathered(NamedTuple):
    """What was read for one chunk."""

    number: int  # of the chunk
    groups: list[Group]
    refused: dict[str, Problem]  # by series
    fresh: list[Problem]  # those not found before


def ahead(items: Iterator[T]) -> Iterator[T]:
    """The same items, the next one being made in another thread while the last one is used (compiled searches, files
    and hashes do not hold the interpreter's lock)."""
    end = object()
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(next, items, end)
        while (item := future.result()) is not end:
            future = pool.submit(next, items, end)
            yield item  # type: ignore[misc]


def gathered(plan: Work, settings: Settings, todo: Sequence[int]) -> Iterator[Gathered]:
    """The forecasts of these chunks, checked and grouped."""
    stream: Iterator[Values] = iter(())
    at = -1
    held = len(plan.forecasts.order)
    for number in todo:
        lo, hi = plan.chunks[number]
        if at != lo:
            stream = plan.forecasts.values(lo)
        ready: dict[tuple[Any, ...], list[tuple[Values, Case]]] = {}
        refused: dict[str, Problem] = {}
        fresh: list[Problem] = []
        for series in plan.series[lo : min(hi, held)]:
            values = next(stream)
            problem = plan.check(values)
            if problem is None and values.table is not None:
                case = plan.states.cases[series]
                key = (
                    case.kind.number, values.table.shape, bool(values.cutoff), bool(values.issued), values.model,
                    plan.paths(series),
                )  # fmt: skip
                ready.setdefault(key, []).append((values, case))
            elif problem is not None:
                refused[series] = problem
                if series not in plan.by_series:
                    fresh.append(problem)
        at = hi
        yield Gathered(number, [_grouped(plan, settings, group) for group in ready.values()], refused, fresh)


def _grouped(plan: Work, settings: Settings, group: list[tuple[Values, Case]]) -> Group:
    values, cases = [v for v, _ in group], [c for _, c in group]
    tables = [v.table for v in values if v.table is not None]
    trace = make_trace(
        tables[0][None] if len(tables) == 1 else np.stack([t.T for t in tables]).transpose(0, 2, 1),
        plan.forecasts.layout.kind, plan.forecasts.layout.levels, settings.forecast,
        [v.cutoff for v in values] if values[0].cutoff else None,
        [v.issued for v in values] if values[0].issued else None, values[0].model, cases[0].kind.task.fields,
    )  # fmt: skip
    return Group(values, cases, trace)
