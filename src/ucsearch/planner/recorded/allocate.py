"""The job behind `ucsearch allocate`: the newest decision of every series in a log, shared limits from the settings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ucsearch.allocation.api import PATHS, Allocation, Serve, Terms, allocate_cases
from ucsearch.allocation.cases import Case, source_of
from ucsearch.allocation.later.paths import Draws
from ucsearch.allocation.record import newest_decisions, recorded_case, write_allocation
from ucsearch.allocation.shared import Shared
from ucsearch.decision.decision import Outcome
from ucsearch.engine.api import search
from ucsearch.errors import DataError, InputError
from ucsearch.planner.files.table import open_table, write_table
from ucsearch.planner.recorded.problem import asked_again
from ucsearch.planner.settings import Settings, SharedLimit
from ucsearch.records.entries import Row
from ucsearch.records.log import AuditLog

__all__ = ["run_allocate", "write_next", "write_prices", "write_shares"]


def run_allocate(
    settings: Settings,
    log: str | Path,
    states: str | Path | None = None,
    *,
    gap_limit: float | None = None,
    gap_share: float = 0.01,
    serve: Serve = "fallback",
    paths: int = PATHS,
    draws: Draws = "independent",
    clock: Any = None,
) -> Allocation:
    """Share the settings' limits among the newest decisions in the log; the allocation is in the log on return.

    `states` holds the columns that `times` and `per` name.
    """
    if not settings.shared:
        raise InputError(
            f"{settings.file}: shared", "nothing", "at least one [[shared]] table with name, limit and use"
        )
    terms = Terms(gap_limit, gap_share, serve, paths, draws)
    columns = _columns(settings, states)
    if not Path(log).exists():  # opening would make an empty one
        raise DataError(f"{log}: no such log; run `ucsearch decide` first")
    with AuditLog(log, clock=clock) as book:
        rows = newest_decisions(book)
        if not rows:
            raise DataError(f"{log}: saw no decision of a named series; run `ucsearch decide` first")
        cases = [recorded_case(row, book) for row in rows.values()]
        shared = [_shared(s, columns, list(rows), settings.file) for s in settings.shared]
        if any(s.horizon > 1 for s in shared):
            cases = [_searched(case, book, row) for case, row in zip(cases, rows.values(), strict=True)]
        found = allocate_cases(cases, shared, terms)
        return write_allocation(found, book, rows)


def _searched(case: Case, book: AuditLog, row: Row) -> Case:
    """With what its decision searched, which limits at later steps are valued on."""
    if case.outcome is not Outcome.RELEASED:
        return case
    asked = asked_again(book, row, case.task)
    plan = search(asked.task, asked.state, asked.trace, asked.policy, params=asked.params, actions=asked.actions)
    return replace(case, source=source_of(plan))


def _columns(settings: Settings, states: str | Path | None) -> dict[str, dict[str, Any]]:
    """Column -> series -> value, of the columns that the limits name."""
    texts = {s.per for s in settings.shared if s.per}
    numbers = {s.times for s in settings.shared if isinstance(s.times, str)}
    wanted = texts | numbers
    if not wanted:
        return {}
    if states is None:
        raise InputError("files.states", "nothing", f"the file with the columns {', '.join(sorted(wanted))}")
    table = open_table(states)
    name = settings.columns.series
    for column in (name, *sorted(wanted)):
        if column not in table.columns:
            raise InputError(f"{states}", f"the columns {', '.join(table.columns)}", f"one called {column!r}")
    found: dict[str, dict[str, Any]] = {column: {} for column in wanted}
    for block in table.blocks([name, *sorted(wanted)]):
        series = block.texts(name)
        for column in wanted:
            values: Any = block.numbers(column)[0] if column in numbers else block.texts(column)
            for row, (key, value) in enumerate(zip(series, values, strict=True)):
                if column in numbers and not 0.0 <= value < math.inf:
                    place = f"{states}: {table.unit} {int(block.places[row])}, column {column!r}"
                    raise InputError(place, value, "a finite number of at least 0")
                if key in found[column]:
                    place = f"{states}: {table.unit} {int(block.places[row])}, column {name!r}"
                    raise InputError(place, repr(key), "every series once")
                found[column][key] = float(value) if column in numbers else value
    return found


def _shared(s: SharedLimit, columns: dict[str, dict[str, Any]], series: Sequence[str], file: str) -> Shared:
    times: Any = columns[s.times] if isinstance(s.times, str) else s.times
    per = columns[s.per] if s.per else None
    for values, name in ((times if isinstance(s.times, str) else None, s.times), (per, s.per)):
        lacking = [] if values is None else [x for x in series if x not in values]
        if lacking:
            raise InputError(
                f"{file}: shared {s.name!r}", f"no {name} of {lacking[0]!r}", "one for every decided series"
            )
    limit: Any = s.limit
    return Shared(name=s.name, limit=limit, use=s.use, times=times, per=per, steps=s.steps)


SHARES: dict[str, type] = {
    "series": str, "outcome": str, "action": float, "alone": float, "reason": str, "binding": str, "price": float,
    "loss": float,
}  # fmt: skip


def write_shares(allocation: Allocation, path: str | Path) -> int:
    """One row per series: what it gets, what it would have done alone, what binds, what it uses."""
    used = {f"use of {s.name}": float for s in allocation.shared}

    def rows() -> Iterator[Sequence[Any]]:
        for s in allocation.shares:
            action, alone = (math.nan if x is None else x for x in (s.action, s.alone))
            yield s.series, s.outcome.value, action, alone, s.reason.value, s.binding, s.price, s.loss, *s.uses

    return write_table(path, {**SHARES, **used}, rows, for_people=True)


def write_prices(allocation: Allocation, path: str | Path) -> int:
    """One row per limit and step; of later steps what is used on average over the simulated paths."""
    columns: dict[str, type] = {"resource": str, "step": int, "limit": float, "used": float, "shadow_price": float}
    result, later = allocation.result, allocation.later

    def rows() -> Iterator[Sequence[Any]]:
        for p in () if result is None else result.table():
            yield p.resource, 0, p.limit, p.used, p.shadow_price
        for x in () if later is None else later.table():
            yield x.resource, x.step, x.limit, x.mean, x.shadow_price

    return write_table(path, columns, rows, for_people=True)


def write_next(allocation: Allocation, path: str | Path, most: int = 1_000) -> int:
    """Who would get more of each limit first, with the gain per unit."""
    columns: dict[str, type] = {"resource": str, "series": str, "per_unit": float, "units": float}
    result = allocation.result

    def rows() -> Iterator[Sequence[Any]]:
        if result is None or not result.feasible:
            return
        for p in result.table():
            for series, slope, units in result.next_in_line(p.resource, most):
                yield p.resource, series, slope, units

    return write_table(path, columns, rows, for_people=True)
