"""Limits that all series of a run share: what one unit of each takes, today's amounts, and who gets how much.

Every series is decided by itself first, and its record says so. Then the limits of `[shared]` are kept among what was
decided: one more entry of the log, in the same run, names the decisions, the limits, the prices and what each series
gets. Series that fall back or are on hold keep their action; what it takes comes off the limits first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ucsearch.allocation.api import Allocation, Share, Terms, allocate_cases
from ucsearch.allocation.cases import Case, cases_of, source_of
from ucsearch.allocation.problem import Shared
from ucsearch.allocation.record import DecisionEntry, recorded_case, write_allocation
from ucsearch.allocation.show import TODAY
from ucsearch.decision.decision import DecisionPanel, Outcome
from ucsearch.engine.api import search
from ucsearch.errors import DataError, InputError
from ucsearch.formatting import figure
from ucsearch.planner.decide.rows import PLACE, Rows, action_cell
from ucsearch.planner.decide.states import StateFile
from ucsearch.planner.files.columns import usual_names
from ucsearch.planner.files.numbers import date_words, parse_dates
from ucsearch.planner.files.table import Problem, Table, open_table
from ucsearch.planner.settings import Settings, SharedLimit
from ucsearch.planner.settings.own import recorded_task
from ucsearch.records.entries import Request, Row
from ucsearch.records.log import AuditLog
from ucsearch.tasks.base import config_of

__all__ = ["Portions", "Sharing", "limit_file", "limit_files", "read_limits"]


def limit_file(settings: Settings, one: SharedLimit) -> Path:
    """The file of limits by date that a limit names."""
    return Path(settings.file).parent / one.dates


def limit_files(settings: Settings) -> list[Path]:
    """The files of limits by date that [shared] names."""
    return [limit_file(settings, one) for one in settings.shared.values() if one.dates]


def read_limits(table: Table, name: str, one: SharedLimit, day: Any, settings: Settings) -> Any:
    """The limit of a day in a file of limits by date: a number, or with `per` one for each group."""
    date_column = usual_names(table, settings.columns).date
    wanted = [date_column, "limit", *([one.per] if one.per else [])]
    for column in wanted:
        if column not in table.columns:
            raise InputError(str(table.path), f"the columns {', '.join(table.columns)}", f"one called {column!r}")
    found: dict[str, float] = {}
    for block in table.blocks(wanted):
        days = parse_dates(block.texts(date_column), settings.columns.dates, wall_clock=True)
        amounts, _ = block.numbers("limit")
        groups = block.texts(one.per) if one.per else [""] * len(days)
        for i, (own, amount, group) in enumerate(zip(days, amounts.tolist(), groups, strict=True)):
            place = f"{table.path}: {table.unit} {int(block.places[i])}"
            if np.isnat(own):
                seen = block.texts(date_column)[i]
                raise InputError(f"{place}, column {date_column!r}", repr(seen), date_words(settings.columns.dates))
            if not 0.0 <= amount < math.inf:
                raise InputError(f"{place}, column 'limit'", amount, "a finite number of at least 0")
            if own.astype("datetime64[D]") == day.astype("datetime64[D]"):
                if group in found:
                    raise InputError(place, f"{day.astype('datetime64[D]')} {group}".rstrip(), "every date once")
                found[group] = amount
    if not found:
        raise DataError(f"{table.path}: no limit of {name} on {day.astype('datetime64[D]')}")
    return found if one.per else found[""]


class Portions:
    """What the states say of each series: how much of a limit one unit takes, and whose limit it uses. `days` gives the
    date of each series, for limits by date; without it those are not read."""

    def __init__(self, settings: Settings, states: StateFile, days: Callable[[str], Any] | None = None) -> None:
        self.settings, self.problems = settings, list[Problem]()
        self._columns = self._read(states)
        self.limits: dict[str, Any] = {}
        for name, one in settings.shared.items():
            if one.dates and days is None:
                continue
            self.limits[name] = one.limit if days is None else self._limit(name, one, states, days)
            if one.per:
                self._check_groups(name, one, states)

    def value(self, column: str, series: str) -> Any:
        """What a column of the states says of a series."""
        return self._columns[column][series]

    def _read(self, states: StateFile) -> dict[str, dict[str, Any]]:
        """Column -> series -> value, of the columns that the limits name."""
        limits, table = self.settings.shared.values(), states.table
        numbers, texts = {s.column for s in limits} - {""}, {s.per for s in limits} - {""}
        wanted = sorted(numbers | texts)
        for column in wanted:
            if column not in table.columns:
                raise InputError(f"{table.path}", f"the columns {', '.join(table.columns)}", f"one called {column!r}")
        found: dict[str, dict[str, Any]] = {column: {} for column in wanted}
        name = usual_names(table, self.settings.columns).series
        for block in table.blocks([name, *wanted]) if wanted else ():
            for column in wanted:
                values: Any = block.numbers(column)[0] if column in numbers else block.texts(column)
                cells = block.texts(column)
                for i, (series, value) in enumerate(zip(block.texts(name), values, strict=True)):
                    if column in numbers and not 0.0 <= value < math.inf:
                        place = f"{table.unit} {int(block.places[i])}"
                        text = f"saw {cells[i] or 'nothing'}, expected a finite number of at least 0"
                        self.problems.append(Problem(str(table.path), place, column, series, text))
                    found[column][series] = float(value) if column in numbers else value
        return found

    def _check_groups(self, name: str, one: SharedLimit, states: StateFile) -> None:
        known = sorted(self.limits[name])
        for series, group in self._columns[one.per].items():
            if group not in known:
                text = f"saw {group or 'nothing'}, expected a group with a limit of {name}: {', '.join(known[:10])}"
                place = states.places.get(series, "")
                self.problems.append(Problem(str(states.table.path), place, one.per, series, text))

    def _limit(self, name: str, one: SharedLimit, states: StateFile, days: Callable[[str], Any]) -> Any:
        if not one.dates:
            return one.limit
        first: tuple[str, Any] | None = None
        for series in states.places:
            day = days(series)
            if day is None or np.isnat(day):
                continue
            if first is not None and day.astype("datetime64[D]") != first[1].astype("datetime64[D]"):
                one_day, other = first[1].astype("datetime64[D]"), day.astype("datetime64[D]")
                seen = f"{first[0]} is decided for {one_day}, {series} for {other}"
                raise InputError(f"shared.{name}.dates", seen, "one date for all series, whose limit it is")
            first = first or (series, day)
        if first is None:
            raise InputError(
                f"shared.{name}.dates", "neither forecasts nor states with a column date", "the date that is decided"
            )
        table = open_table(limit_file(self.settings, one), self.settings.columns.decimal)
        return read_limits(table, name, one, first[1], self.settings)

    def shared(self, series: Iterable[str]) -> list[Shared]:
        """The limits of these series."""
        names, uses = list(series), list(self.settings.task.task().uses)
        out = []
        for name, one in self.settings.shared.items():
            times: Any = {s: self._columns[one.column][s] for s in names} if one.column else 1.0
            per = {s: self._columns[one.per][s] for s in names} if one.per else None
            out.append(Shared(name=name, limit=self.limits[name], use=one.use or uses[0], times=times, per=per,
                              steps=one.steps))  # fmt: skip
        return out


class Sharing:
    """The decisions of a run that share limits, and who gets how much in the end."""

    def __init__(self, portions: Portions) -> None:
        self.portions, self.settings = portions, portions.settings
        self.cases: dict[str, Case] = {}
        self.entries: dict[str, DecisionEntry] = {}
        self.allocation: Allocation | None = None
        self.ahead = any(one.looks_ahead for one in self.settings.shared.values())

    def add(self, panel: DecisionPanel, series: Sequence[str], entries: Mapping[str, DecisionEntry]) -> None:
        """Decisions that were just logged."""
        for case in cases_of(panel, series):
            entry = entries[case.series]
            source = case.source if self.ahead else None  # what was searched is not held for limits of today
            self.cases[case.series] = replace(case, record=entry.id, source=source)
            self.entries[case.series] = entry

    def recall(self, book: AuditLog, ids: Iterable[str]) -> None:
        """Decisions that the log has from before the run was cut off."""
        for id in ids:
            row = book.get(id)
            record = row.record
            if record["kind"] == "decision":
                task = recorded_task(record["task"], self.settings)
                case = recorded_case(row, book, task)
                self.cases[case.series] = _searched(case, book, row) if self.ahead else case
                self.entries[case.series] = row

    def share(self, book: AuditLog, order: Sequence[str], request: Request) -> None:
        """Who gets how much; it is in the log on return. Nothing is shared where no series was decided."""
        series = [name for name in order if name in self.cases]
        if not series:
            return
        terms = Terms(gap_share=self.settings.shared_gap, serve=self.settings.shared_serve)
        found = allocate_cases([self.cases[name] for name in series], self.portions.shared(series), terms)
        self.allocation = write_allocation(found, book, self.entries, request)

    def row(self, make: Rows, row: list[Any], share: Share) -> list[Any]:
        """The row of a series with what it gets in the end."""
        case, files = self.cases[share.series], make.files
        alone = _sent(case, share.alone)
        row = list(row)
        row[PLACE["alone"]] = alone
        row[PLACE["limit"]] = share.binding
        own = row[PLACE["outcome"]], row[PLACE["action"]]
        if (share.outcome.value, action_cell(share.action)) == own:
            return row
        money, settings = files.settings.currency or "units of reward", files.settings
        value = math.nan if share.action is None else float(case.lower[case.actions.index(share.action)])
        price = f"; one more unit of it is worth about {figure(share.price, 4)} {money}" if share.price else ""
        if share.pass_kind:
            why = f"{share.label} instead of {share.alone_label}: {share.binding or 'a shared limit'} is full{price}."
        else:
            why = f"{share.label}: the shared limits were not allotted ({share.reason.value.replace('_', ' ')})."
        bought = () if share.action is None else config_of(case.task).purchases(case.state, share.action, case.params)
        given = {
            "action": action_cell(share.action), "purchases": bought,
            "reason": share.reason.value, "expected_cost": None if math.isnan(value) else -value, "alone": alone,
            "limit": share.binding, "sentence": f"{why} {TODAY}" if share.pass_kind else why,
            "note": f"{figure(alone)} {settings.units} without the limit" if alone is not None else "",
        }  # fmt: skip
        return make.told(share.series, share.outcome.value, row[PLACE["certificate"]], given)


def _searched(case: Case, book: AuditLog, row: Row) -> Case:
    """With what its decision searched, which limits at later steps are valued on."""
    from ucsearch.planner.recorded.problem import asked_again

    if case.outcome is not Outcome.RELEASED:
        return case
    asked = asked_again(book, row, case.task)
    plan = search(asked.task, asked.state, asked.trace, asked.policy, params=asked.params, actions=asked.actions)
    return replace(case, source=source_of(plan))


def _sent(case: Case, action: Any) -> Any:
    """Units that an action orders; of other tasks the action."""
    if action is None or not config_of(case.task).places_orders:
        return action_cell(action)
    return float(config_of(case.task).quantity(case.state, action, case.params))
