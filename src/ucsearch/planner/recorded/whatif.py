"""`ucsearch explain SERIES --set NAME=VALUE`: a recorded decision, made again with other numbers, beside the original.

State, forecast, policy and gate are those of the record; order sizes that were fitted to the series are fitted again.
Nothing is written to the log.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ucsearch.decision.decision import Decision
from ucsearch.decision.view import label_of, score_of
from ucsearch.errors import InputError, RecordError, UCSearchError
from ucsearch.formatting import amount_figure, figure
from ucsearch.planner.decide.rows import judged_steps, plan_orders, purchases_of, sentence_in
from ucsearch.planner.decide.states import state_columns
from ucsearch.planner.files.columns import like
from ucsearch.planner.recorded.explain import plain
from ucsearch.planner.recorded.limits import asked_of, blocked_words, is_blocked
from ucsearch.planner.recorded.problem import Asked, asked_again, find_decision, refused_words
from ucsearch.planner.settings import Settings
from ucsearch.records.overrides import built_in_task
from ucsearch.report.table import table_lines
from ucsearch.scale.segments.reader import SegmentReader
from ucsearch.task import Task
from ucsearch.tasks.base import DECIDE_ANEW, Inputs, config_of
from ucsearch.tasks.checks import NO_LIMIT
from ucsearch.tasks.registry import named_config

__all__ = ["WhatIf", "parse_changes", "what_if"]


_SHAPES = ("orders", "order_sizes", "changes", "doses", "powers")  # they give the recorded actions their meaning
_SHOWN = 8  # steps of a plan
_PROBES: tuple[Any, ...] = (0.0, 0.25, 0.5, 1.0, 2.0, 7.0, 0, 1, 2, 3, None)  # to see which params a setting moves


class Set(NamedTuple):
    """One change, with both values as people read them."""

    name: str
    before: str
    after: str


@dataclasses.dataclass(frozen=True, eq=False)
class WhatIf:
    """A decision and what it would have been."""

    series: str
    changes: tuple[Set, ...]
    recorded: Decision
    other: Decision
    notes: tuple[str, ...]
    units: str
    money: str
    is_comparable: bool = True  # both expected scores stand for the same periods

    @property
    def changed(self) -> bool:
        """Whether something else would leave."""
        return (self.recorded.outcome, _ordered(self.recorded)) != (self.other.outcome, _ordered(self.other))

    def rows(self) -> list[tuple[str, str, str]]:
        """(figure, recorded, what if)."""
        both = (self.recorded, self.other)
        money = f" [{self.money}]" if self.money else ""
        figures = {
            "outcome": [d.outcome.value for d in both],
            "reason": [d.reason.value for d in both],
            "action": [label_of(d) for d in both],
            f"order [{self.units}]": [amount_figure(x) if x else "" for x in map(_units_of, both)],
            f"expected score{money}": [_number(score_of(d)) for d in both],
            f"may lose at most{money}": [_number(d.regret_bound) for d in both],
            "plan": [_steps(plan_orders(d)[: judged_steps(d)]) for d in both],
        }
        return [(name, *found) for name, (a, b) in figures.items() if (found := (a, b)) != ("", "")]

    def text(self) -> str:
        changes = ", ".join(f"{c.name} = {c.after} (was {c.before})" for c in self.changes)
        rows = [("", "recorded", "what if"), *self.rows()]
        table = [f"  {line}".rstrip() for line in table_lines(rows, "<")]
        lines = [f"{self.series}: what if {changes}?", "", *table, "", self.sentence(), *self.notes]
        return "\n".join(map(plain, [*lines, "Nothing was written to the log."]))

    def _change_words(self, old: float, new: float) -> str:
        """By how much the expected score moves; in money as a cost, or as what is earned."""
        amount = figure(abs(new - old), 4)
        if not self.money:
            return f"The expected score is {amount} {'better' if new > old else 'worse'}."
        if max(old, new) <= 0.0:
            return f"The expected cost is {amount} {self.money} {'lower' if new > old else 'higher'}."
        return f"It is expected to earn {amount} {self.money} {'more' if new > old else 'less'}."

    def sentence(self) -> str:
        """What changes, in words."""
        a, b = self.recorded, self.other
        if not self.changed:
            text = f"With these numbers the same would be sent: {label_of(a) or 'nothing'}."
        else:
            old, new = (label_of(d) or "nothing" for d in (a, b))
            if a.outcome is not b.outcome:
                old, new = f"{old} ({a.outcome.value})", f"{new} ({b.outcome.value})"
            text = f"With these numbers {new} would be sent instead of {old}."
        was, would = score_of(a), score_of(b)
        if was is not None and would is not None and was != would and self.is_comparable:
            text += f" {self._change_words(was, would)}"
        if not b.released:
            text += f" {sentence_in(b, self.money)}"
        if is_blocked(b) and (words := blocked_words(asked_of(b))):
            text += f" What binds: {words}."
        return text


def parse_changes(texts: Sequence[str]) -> dict[str, str]:
    """`name=value` as typed, each name once."""
    found: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        name, value = name.strip(), value.strip()
        if not sign or not name or not value:
            raise InputError("--set", repr(text), "NAME=VALUE, such as capacity=500")
        if name in found:
            raise InputError("--set", f"{name} twice", "each name once")
        found[name] = value
    if not found:
        raise InputError("--set", "nothing", "at least one NAME=VALUE, such as capacity=500")
    return found


def what_if(
    log: str | Path, series: str, changes: Mapping[str, str], *, settings: Settings | None = None,
    task: Task | None = None,
) -> WhatIf:  # fmt: skip
    """Decide the newest decision of a series again with `changes`, by the names of settings and states files. `task`
    is needed where the recorded one is not of this package; its own parameters are then named as they are."""
    with SegmentReader(log) as reader:
        row = find_decision(reader, series)
        record = row.record
        if record.get("kind") == "refusal":
            raise RecordError(f"entry {row.seq} is a refusal: {refused_words(record)}")
        rules = task or built_in_task(record.get("task", {}))
        if rules is None:
            raise RecordError("the recorded task is not one of this package; name it with --task")
        asked = asked_again(reader, row, rules)
    config = None if task is not None else _config(record["task"]["object"], asked)
    rounding = None if settings is None else settings.actions.round_to
    anew = _changed(asked, config, changes, rounding)
    notes = anew.notes
    before = asked.decide()
    if before.outcome.value != record["outcome"]["outcome"]:
        notes.insert(0, f"Note: decided again without changes it is {before.outcome.value}, not as recorded.")
    return WhatIf(
        record["series"] or row.id[:12], tuple(anew.changes), before, anew.asked.decide(), tuple(notes),
        settings.units if settings is not None else "units",
        settings.currency if settings is not None and settings.currency else "", anew.is_comparable,
    )  # fmt: skip


# -------------------------------------------------------------------- changes


def _config(address: str, asked: Asked) -> Any:
    """The built-in task's record of parameters, with the recorded numbers as far as they have the same name."""
    try:
        config = named_config(address.partition(":")[2])
    except AttributeError:
        return None
    numbers = state_columns(config).numbers
    known = {}
    for name, kind in numbers.items():
        value = getattr(asked.params, _field_of(config, name), None)
        if isinstance(value, float):
            known[name] = None if value >= NO_LIMIT else int(value) if kind is int else value
    for name, value in known.items():
        try:
            config = dataclasses.replace(config, **{name: value})
        except InputError:  # none is not a value of every parameter
            continue
    return config


def _field_of(config: Any, name: str) -> str:
    """The field of params that holds a setting as it is, whatever it is called there (minimum_up_time: minimum_up)."""
    fields = config.params()._fields
    if name in fields:
        return name
    try:
        seen = {probe: dataclasses.replace(config, **{name: probe}).params() for probe in (2, 3)}
    except (UCSearchError, TypeError):
        return name
    return next((f for f in fields if all(getattr(p, f) == float(probe) for probe, p in seen.items())), name)


class _Anew(NamedTuple):
    """What is asked instead."""

    asked: Asked
    changes: list[Set]
    notes: list[str]
    is_comparable: bool = True  # both expected scores stand for the same periods


def _changed(asked: Asked, config: Any, changes: Mapping[str, str], rounding: float | None) -> _Anew:
    params = asked.params
    told: list[Set] = []
    notes: list[str] = []
    fields = {} if params is None else params._asdict()
    parameters: dict[str, Any] = {}
    columns = None if config is None else state_columns(config)
    names = state_names(asked.state)
    ours = [*names, *(fields if columns is None else (*columns.numbers, *columns.words))]
    state = asked.state
    for name, text in changes.items():
        known = columns is not None and (name in columns.numbers or name in columns.words)
        if known or (columns is None and isinstance(fields.get(name), float)):
            parameters[name] = _value(name, text, columns)
        elif name in names:
            before, after = state_value(state, names[name]), _real(name, text)
            owed = names[name][0] == "on_hand" and getattr(params, "backorders", 0.0) != 0.0
            if config_of(asked.task).places_orders and after < 0.0 and not owed:
                raise InputError("--set", f"{name}={text}", "at least 0")
            state = with_value(state, names[name], after)
            told.append(Set(name, figure(before), figure(state_value(state, names[name]))))
        else:
            close = like(name, ours)
            hint = f"Did you mean {' or '.join(close)}?" if close else ""
            raise InputError("--set", name, f"one of {', '.join(ours)}", hint=hint)
    if not parameters:
        return _Anew(asked.changed(state=state), told, notes)
    if config is None:
        told += [Set(k, figure(fields[k]), figure(v)) for k, v in parameters.items()]
        return _Anew(asked.changed(state=state, params=params._replace(**parameters)), told, notes)
    shape = next((k for k in parameters if k in _SHAPES), None)
    if shape is not None:
        raise InputError(
            "--set", shape, "another parameter", hint=f"It gives the recorded actions their meaning. {DECIDE_ANEW}"
        )
    refit = config.refit(asked.trace, params, rounding)
    other = refit.record(dataclasses.replace(config, **parameters), asked.policy)
    told += [Set(k, _said(getattr(config, k)), _said(getattr(other, k))) for k in parameters]
    task = other.task()
    if task.state is not asked.task.state:
        raise InputError(
            "--set", ", ".join(parameters), "parameters that leave the state's fields as they are",
            hint="A previous plan to keep cannot be added to, or taken from, a recorded decision.",
        )  # fmt: skip
    steps = asked.trace.horizon if task.continuations else asked.policy.depth
    state, more = refit.state(state, other, ", ".join(parameters), steps)
    notes += more
    moved = {name: _moved(config, other, name) for name in parameters}
    regridded = _regridded(asked, config, other)
    for name, found in moved.items():
        if not found and not regridded and task.functions() == asked.task.functions():
            hint = (
                f"What is left of it is the state's: --set allowance={figure(parameters[name])}."
                if name == "change_budget"
                else DECIDE_ANEW
            )
            raise InputError("--set", name, "a parameter that a recorded decision depends on", hint=hint)
    changed = params._replace(**{field: value for found in moved.values() for field, value in found.items()})
    if (more_fields := other.params())._fields != changed._fields:  # what the other way of planning knows besides
        changed = more_fields._replace(**changed._asdict())
    changed = changed._replace(**_from_forecast(config, other, asked, params, changed))
    if regridded:
        changed = changed._replace(grid=other.params().grid)
        told = [one._replace(before="as recorded") if one.before == "none" else one for one in told]
        notes.append("What may be chosen is another list now; the rest is as recorded.")
        anew = asked.changed(task=task, state=state, params=changed, actions=np.array(task.actions))
        return _Anew(anew, told, notes)
    if not refit.fits and len(asked.actions) != len(task.actions):
        expected = "parameters that leave the actions as they are"
        raise InputError("--set", ", ".join(parameters), expected, hint=DECIDE_ANEW)
    recorded = Inputs(changed, asked.actions, asked.trace, asked.policy)
    inputs, more = refit.inputs(other, recorded, frozenset(parameters))
    notes += more
    comparable = refit.is_comparable(other)
    return _Anew(
        asked.changed(task=_labelled(task, asked.task), state=state, **inputs._asdict()), told, notes, comparable
    )


def _regridded(asked: Asked, config: Any, other: Any) -> bool:
    """Whether a setting changes what may be chosen, where that follows from the settings alone (a store's power)."""
    before, after = tuple(config.task().actions), tuple(other.task().actions)
    own = not config_of(asked.task).places_orders and tuple(asked.actions.tolist()) == before
    return own and before != after and hasattr(asked.params, "grid")


def _labelled(task: Task, recorded: Task) -> Task:
    """The recorded task where its rules are the same: then it is compiled already."""
    return recorded if task.functions() == recorded.functions() else task


def _moved(config: Any, other: Any, name: str) -> dict[str, Any]:
    """Which fields of params a setting stands for, with their new values."""
    new, seen = other.params(), []
    for probe in (*_PROBES, getattr(other, name), "lost", "backordered"):
        try:
            seen.append(dataclasses.replace(config, **{name: probe}).params())
        except (UCSearchError, TypeError):
            continue
    fields = [f for f in config.params()._fields if f != "grid" and len({getattr(p, f) for p in seen}) > 1]
    return {f: getattr(new, f) for f in fields}


def _from_forecast(config: Any, other: Any, asked: Asked, old: Any, new: Any) -> dict[str, Any]:
    """Columns that were derived from the forecast, derived again; one that was given stays."""
    looks = getattr(config, "forecast_columns", None)
    if looks is None:
        return {}
    empty = {"fallback_order": -1.0} if hasattr(old, "fallback_order") else {}
    try:
        derived = {k: v[0].tolist() for k, v in looks(asked.trace, old._replace(**empty)).items()}
        again = {k: v[0].tolist() for k, v in other.forecast_columns(asked.trace, new._replace(**empty)).items()}
    except (UCSearchError, TypeError, ValueError, IndexError):
        return {}
    # What was not derived before, because it was not needed, cannot have been given either.
    same = {k for k in derived if np.allclose(derived[k], getattr(old, k), rtol=1e-9, atol=0.0)}
    kept = {k: v for k, v in again.items() if k in same or k not in derived}
    return {k: tuple(v) if isinstance(v, list) else v for k, v in kept.items()}


# -------------------------------------------------------------------- values


def _value(name: str, text: str, columns: Any) -> Any:
    if columns is not None and name in columns.words:
        return text
    if text.lower() in ("none", "no"):
        return None
    number = _real(name, text)
    if columns is not None and columns.numbers.get(name) is int:
        if number != int(number):
            raise InputError("--set", f"{name}={text}", "a whole number")
        return int(number)
    return number


def _real(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError("--set", f"{name}={text}", "a finite number")
    return number


def _said(value: Any) -> str:
    return "none" if value is None else figure(value) if isinstance(value, int | float) else str(value)


def _steps(plan: Sequence[Any]) -> str:
    shown = ", ".join(amount_figure(x) for x in plan[:_SHOWN])
    return f"{shown}, ..." if len(plan) > _SHOWN else shown


def _units_of(decision: Decision) -> tuple[float, ...]:
    """Units ordered, by supplier."""
    return tuple(one.units for one in purchases_of(decision))


def _ordered(decision: Decision) -> Any:
    return _units_of(decision) or decision.action


def _number(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) else figure(value)


def state_names(state: Any) -> dict[str, tuple[str, int]]:
    """Names as in a states file -> (field, place), place -1 for single numbers."""
    names: dict[str, tuple[str, int]] = {}
    for field, value in state._asdict().items():
        if isinstance(value, tuple):
            called = "open_orders" if field == "pipeline" else field
            names.update({f"{called}_{i + 1}": (field, i) for i in range(len(value))})
        else:
            names[field] = (field, -1)
    return names


def state_value(state: Any, place: tuple[str, int]) -> float:
    value = getattr(state, place[0])
    return float(value if place[1] < 0 else value[place[1]])


def with_value(state: Any, place: tuple[str, int], number: float) -> Any:
    field, i = place
    if i < 0:
        return state._replace(**{field: number})
    items = list(getattr(state, field))
    items[i] = number
    return state._replace(**{field: tuple(items)})
