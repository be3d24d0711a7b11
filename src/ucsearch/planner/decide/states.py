"""The states file, and what each series brings to its decision: task, state, parameters, action grid.

Columns are the arguments of the task's `state()` (`on_hand`, `last`; sequences numbered: `open_orders_1`, ...) and any
single-valued parameter of the task, which then replaces the settings' value for that series (`lead_time`, `shortage`).
"""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import UnionType
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError, InputError
from ucsearch.planner.files.calendar import has_local_dates
from ucsearch.planner.files.columns import like, near, usual_names
from ucsearch.planner.files.numbers import number_words, parse_dates
from ucsearch.planner.files.penalties import Penalty, read_penalties
from ucsearch.planner.files.table import Block, Problem, Table
from ucsearch.planner.files.totals import is_total
from ucsearch.planner.settings import Columns, Settings
from ucsearch.policies import Policy
from ucsearch.task import Task
from ucsearch.tasks.base import OnSeries, fields_of

__all__ = [
    "Case",
    "Kind",
    "Kinds",
    "StateColumns",
    "StateFile",
    "state_columns",
]

Floats = NDArray[np.float64]
_TABLES = 64  # of states whose columns are remembered


@dataclass(frozen=True, eq=False)
class Kind:
    """Series that share one task: they differ in numbers only."""

    number: int
    config: Any
    task: Task
    where: str  # "package:object", for the record
    policy: Policy  # the settings', or what takes its place where states are too many

    @property
    def delay(self) -> int:
        """Periods from an action to its effect."""
        return int(self.config.effect_delay)


class Case(NamedTuple):
    """One series, ready but for its forecast."""

    kind: Kind
    state: Any
    params: Any
    config: Any


class StateColumns(NamedTuple):
    """How columns become arguments of `state()` and parameters."""

    single: tuple[str, ...]
    several: tuple[str, ...]  # prefixes of numbered columns
    required: tuple[str, ...]
    whole: frozenset[str]  # of single and several: those that count things
    numbers: dict[str, type]  # parameters that are int or float
    words: tuple[str, ...]  # parameters that are one of a few texts


def state_columns(config: Any) -> StateColumns:
    """What a states file for this task may hold, from the task's own signature and fields."""
    try:
        return _known_columns(config)
    except TypeError:  # a record of parameters of somebody's own that cannot be hashed
        return _known_columns.__wrapped__(config)


@lru_cache(maxsize=256)
def _known_columns(config: Any) -> StateColumns:
    single: list[str] = []
    several: list[str] = []
    required: list[str] = []
    whole: set[str] = set()
    for name, item in inspect.signature(config.state).parameters.items():
        note = str(item.annotation)
        (several if "Sequence" in note or "tuple" in note else single).append(name)
        if "int" in note and "float" not in note:
            whole.add(name)
        if item.default is inspect.Parameter.empty:
            required.append(name)
    numbers: dict[str, type] = {}
    words = []
    hints = get_type_hints(type(config))
    hidden = config.unused() if isinstance(config, OnSeries) else ()
    several = [name for name in several if name not in hidden]
    single = [name for name in single if name not in hidden]
    for part in fields_of(type(config)):
        if part.name in hidden:
            continue
        hint = hints[part.name]
        union = get_origin(hint) in (Union, UnionType)
        kinds = set(get_args(hint)) - {type(None)} if union else {hint}
        if get_origin(hint) is Literal:
            words.append(part.name)
        elif kinds <= {int, float} and part.name not in single:  # what is left of a budget is a state
            numbers[part.name] = float if float in kinds else int
    return StateColumns(tuple(single), tuple(several), tuple(required), frozenset(whole), numbers, tuple(words))


class _Read(NamedTuple):
    """What the columns of a states file are."""

    names: Columns
    known: dict[str, str]  # file column -> our name
    strange: list[str]  # that nobody knows
    problems: list[Problem]


def _whole(value: float) -> float:
    """An int where it is one; what is not whole stays as it is, for the task to refuse."""
    return int(value) if value == int(value) else value


class Kinds:
    """Tasks by what shapes them, each made once."""

    def __init__(self, settings: Settings, *, tuned: bool = True) -> None:
        """With a fill rate or a service level as target, its penalty by series is read unless it is to be `tuned`
        still."""
        self.settings, self.tuned = settings, tuned
        self._kinds: dict[tuple[Any, ...], Kind] = {}
        self._configs: dict[tuple[tuple[str, Any], ...], Any] = {}
        self._params: dict[int, Any] = {}  # by id of a config, which `_configs` keeps alive
        self._shared = {c for s in settings.shared.values() for c in (s.column, s.per)} | {settings.backtest.cluster}
        self._read: dict[tuple[str, tuple[str, ...]], _Read] = {}

    def __len__(self) -> int:
        return len(self._configs)

    @cached_property
    def arguments(self) -> StateColumns:
        """What a states file may hold."""
        return state_columns(self.settings.task)

    @cached_property
    def penalties(self) -> dict[str, Penalty]:
        """By series, as `tune` found them."""
        path = self.settings.path("targets")
        return read_penalties(path, self.settings) if path is not None and path.exists() else {}

    def renewed(self) -> Kinds:
        """Without the tasks that were made; penalties stay as they were read."""
        made = Kinds(self.settings, tuned=self.tuned)
        made.penalties = self.penalties
        return made

    def with_penalty(self, series: str, changes: dict[str, Any]) -> dict[str, Any]:
        """The changes with the penalty that reaches the series' target, where it has one."""
        config = self.config(changes)
        target = getattr(config, "target", None)
        if target is None or not self.tuned:
            return changes
        found = self.penalties.get(series)
        if found is None or (found.name, found.target) != (config.penalty, target):
            seen = "no penalty" if found is None else f"one for {found.target:g}"
            raise InputError(config.penalty, seen, f"what reaches {target:g}: `ucsearch tune` finds it")
        return {**changes, config.penalty: found.value}

    def config(self, changes: dict[str, Any]) -> Any:
        """The settings' task with some parameters changed."""
        key = tuple(sorted(changes.items()))
        if key not in self._configs:
            base = self.settings.task
            own = dataclasses.replace(base, **changes) if changes else base
            self._configs[key] = own.for_planning(self.settings.policy, self.settings.actions)
        return self._configs[key]

    def params(self, config: Any) -> Any:
        """Of a config that came from `config`, made once."""
        if id(config) not in self._params:
            self._params[id(config)] = config.params()
        return self._params[id(config)]

    def kind(self, config: Any, changes: dict[str, Any]) -> Kind:
        """The group a series belongs to. Whole numbers and words shape a task; of other numbers only whether they are
        zero may (a terminal value or a plan to keep is then absent)."""
        key = tuple((k, v > 0.0 if isinstance(v, float) else v) for k, v in sorted(changes.items()))
        key = (*key, *config.shape())
        if key not in self._kinds:
            sizes = self.settings.actions
            where = config.address(own_grid=sizes.multiples is not None or sizes.lots > 0)
            policy = config.policy_for(self.settings.policy, sizes)
            self._kinds[key] = Kind(len(self._kinds), config, config.task(), where, policy)
        return self._kinds[key]

    def read(self, table: Table) -> _Read:
        """What the columns of a states file are; of tables with the same ones found once."""
        key = (str(table.path), table.columns)
        if key not in self._read:
            if len(self._read) >= _TABLES:
                self._read.clear()
            self._read[key] = self._columns_of(table)
        return self._read[key]

    def _columns_of(self, table: Table) -> _Read:
        settings, file = self.settings, str(table.path)
        names, a = usual_names(table, settings.columns), self.arguments
        problems = []
        known = {names.series: "series", names.date: "date", **names.rename}
        strange = []
        ours_all = [*a.single, *a.numbers, *a.words, *(f"{n}_1" for n in a.several)]
        for column in table.columns:
            name = known.get(column, column)
            prefix, _, number = name.rpartition("_")
            ours = name in ("series", "date") or name in a.single or name in a.numbers or name in a.words
            if ours or (prefix in a.several and number.isdecimal()):
                known[column] = name
            elif column not in names.ignore and column not in self._shared:
                close = f"{name}_1, {name}_2, ..." if name in a.several else near(name, ours_all)
                if close is not None or column in names.rename:
                    raise InputError(
                        f"{file}: column {column!r}", repr(name), close or f"one of {', '.join(ours_all)}",
                        hint=f"If it means something else, say columns.ignore = [{column!r}].",
                    )  # fmt: skip
                text = "an unknown column, left out (columns.ignore would silence this)"
                strange.append(column)
                problems.append(Problem(file, "", column, "", text, refuses=False))
        found = {c: known[c] for c in table.columns if c in known}
        if len(set(found.values())) != len(found):
            raise InputError(f"{table.path}", "two columns of one meaning", "each of our names once")
        for name in ("series", *a.required):
            wanted = names.series if name == "series" else name
            if name not in found.values():
                others = [c for c in strange if c not in found]
                hint = f"Say what yours is called, under [columns]: {_renamed(others[0], name)}." if others else ""
                raise InputError(
                    f"{table.path}", f"columns {', '.join(table.columns)}", f"a column {wanted!r}",
                    hint=hint,
                )  # fmt: skip
        return _Read(names, found, strange, problems)


class StateFile:
    """A states file, read as a whole."""

    def __init__(
        self, table: Table, settings: Settings, kinds: Kinds | None = None, first: Mapping[str, Any] | None = None
    ) -> None:
        """`first` is the date of the first period that is planned, by series; where it is not known, that of the file
        counts."""
        self.table, self.settings = table, settings
        self.kinds = Kinds(settings) if kinds is None else kinds
        self.cases: dict[str, Case] = {}
        self.places: dict[str, str] = {}  # every series named, in file order
        self.refused: dict[str, Problem] = {}
        self.problems: list[Problem] = []
        self.dates: dict[str, Any] = {}  # what day a state is of, where the file says so
        self.names, self._columns, strange, found = self.kinds.read(table)
        self.problems.extend(found)
        self._arguments = self.kinds.arguments
        self._first = {} if first is None else first
        self._dated = bool(getattr(settings.task, "has_calendar", False))
        for block in table.blocks([c for c in table.columns if c in self._columns or c in strange]):
            self._refuse_numbers(block, strange)
            self._add(block)
        if not self.places:
            raise DataError(f"{table.path}: saw no rows, expected states")

    def _refuse_numbers(self, block: Block, strange: Sequence[str]) -> None:
        """A limit under a name we do not know must not go unnoticed, and limits are numbers."""
        for column in strange:
            numbers, _ = block.numbers(column)
            there = np.flatnonzero(np.isfinite(numbers))
            if there.size:
                a = self._arguments
                place = f"{self.table.unit} {block.places[int(there[0])]}"
                ours = [*a.single, *(f"{n}_1" for n in a.several), *a.numbers]
                meant = (like(column, ours) or ["our name"])[0]
                raise InputError(
                    f"{self.table.path}: {place}, column {column!r}", f"{numbers[there[0]]:g}",
                    f"a column we know: {', '.join(ours)}",
                    hint="Numbers under another name could be limits. "
                    f"Say under [columns]: {_renamed(column, meant)}, or ignore = [{json.dumps(column)}].",
                )  # fmt: skip

    def _add(self, block: Block) -> None:
        by_name = {ours: column for column, ours in self._columns.items()}
        series = block.texts(by_name.pop("series"))
        dated = by_name.pop("date", None)
        wall_clock = has_local_dates(self.settings.period)
        days = None
        if dated is not None:
            days = parse_dates(block.texts(dated), self.names.dates, wall_clock=wall_clock)
        values: dict[str, list[Any]] = {}
        bad: dict[int, tuple[str, str]] = {}
        for ours, column in by_name.items():
            if ours in self._arguments.words:
                values[ours] = block.texts(column)
                continue
            numbers, unreadable = block.numbers(column)
            for i in np.flatnonzero(np.isinf(numbers)).tolist():
                unreadable[i] = str(numbers[i])
            for i, seen in unreadable.items():
                bad.setdefault(i, (column, seen))
            values[ours] = numbers.tolist()
        for i, name in enumerate(series):
            place = f"{self.table.unit} {block.places[i]}"
            if not name:
                self._refuse(name, place, self.names.series, "saw nothing, expected a series")
            elif name in self.places:
                text = f"the series twice, expected it once ({self.places[name]} has it too)"
                self._refuse(name, place, self.names.series, text)
                self.cases.pop(name, None)
            elif block.places[i] in block.ragged:
                cells = block.ragged[int(block.places[i])]
                self._refuse(name, place, "", f"saw {cells} cells, expected {len(self.table.columns)} as in the header")
            elif i in bad:
                self._refuse(
                    name, place, bad[i][0], f"saw {bad[i][1]!r}, expected {number_words(bad[i][1], block.decimal)}"
                )
            elif days is not None and np.isnat(days[i]):
                seen = block.part(i, i + 1).texts(dated or "")[0]
                self._refuse(name, place, dated or "", f"saw {seen!r}, expected a date such as 2024-05-20")
            else:
                if days is not None:
                    self.dates[name] = days[i]
                self._case(name, place, {ours: column[i] for ours, column in values.items()})
            self.places.setdefault(name, place)

    def leave_out_totals(self, forecast: Container[str]) -> None:
        """Take away the rows that programs add up and call a total: of no series that has a `forecast`."""
        for name in [x for x in self.places if is_total(x) and x not in forecast]:
            self.problems = [p for p in self.problems if p.series != name]
            text = "a row of totals, left out"
            self.problems.append(Problem(str(self.table.path), self.places[name], "", name, text, refuses=False))
            for kept in (self.places, self.cases, self.dates, self.refused):
                kept.pop(name, None)

    def _refuse(self, series: str, place: str, column: str, text: str) -> None:
        problem = Problem(str(self.table.path), place, column, series, text)
        self.problems.append(problem)
        self.refused.setdefault(series, problem)

    def _column(self, field: str) -> str:
        """The file's column that gave a field such as `on_hand` or `open_orders[0]`."""
        name, _, index = field.partition("[")
        if name in self._arguments.several and index.rstrip("]").isdecimal():
            name = f"{name}_{int(index.rstrip(']')) + 1}"
        return next((column for column, ours in self._columns.items() if ours == name), name)

    def _case(self, series: str, place: str, row: dict[str, Any]) -> None:
        a = self._arguments
        given: dict[str, Any] = {}
        several: dict[str, dict[int, float]] = {name: {} for name in a.several}
        changes: dict[str, Any] = {}
        for name, value in row.items():
            if value == "" or value != value:  # an empty cell
                continue
            prefix, _, number = name.rpartition("_")
            if name in a.single:
                given[name] = _whole(value) if name in a.whole else value
            elif prefix in a.several:
                several[prefix][int(number)] = _whole(value) if prefix in a.whole else value
            else:
                changes[name] = _whole(value) if a.numbers.get(name) is int else value
        for name in a.required:
            if name not in given:
                self._refuse(series, place, name, "saw nothing, expected a number")
                return
        for prefix, items in several.items():
            sizes = [items.get(i, 0) for i in range(1, max(items, default=0) + 1)]
            while sizes and sizes[-1] == 0 and prefix != "planned":  # not there, or nothing on order
                sizes.pop()
            if sizes:
                given[prefix] = sizes
        if self._dated and "clock" not in given:
            day = self._first.get(series, self.dates.get(series))
            if day is not None and not np.isnat(day):
                changes["first_day"] = str(np.datetime64(day, "D"))
        try:
            changes = self.kinds.with_penalty(series, changes)
            config = self.kinds.config(changes)
            state = config.state(**given)
        except InputError as error:
            self._refuse(series, place, self._column(error.field), f"saw {error.seen}, expected {error.expected}")
            return
        self.cases[series] = Case(self.kinds.kind(config, changes), state, self.kinds.params(config), config)


def _renamed(column: str, ours: str) -> str:
    """As it stands in a settings file."""
    if ours == "series":
        return f"series = {json.dumps(column)}"
    return f"rename = {{ {json.dumps(column)} = {json.dumps(ours)} }}"
