"""How a ready task meets a series: outcomes from values, starting states, an action grid, the figures of an episode.

Every record of parameters has these as methods (`OnSeries`, which each overrides where it knows better). `Binding` adds
what belongs to a use of the task and not to the task: a grid that follows the forecast.
"""

from __future__ import annotations

import dataclasses
import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError, UCSearchError
from ucsearch.formatting import figure
from ucsearch.layout import Layout
from ucsearch.policies import Policy
from ucsearch.task import Task
from ucsearch.tasks.checks import NO_LIMIT, limit, number, planned_actions, whole
from ucsearch.trace import Trace

__all__ = [
    "ALLOWANCE", "DECIDE_ANEW", "SERVICE", "Binding", "Changes", "Fit", "Foreseen", "Inputs", "Limit", "OnSeries",
    "Purchase", "Refit", "Sent", "StablePlan", "Words", "as_outcomes", "bind", "config_of", "fields_of",
    "planning_modes", "power_unit", "quantities",
]  # fmt: skip

Floats = NDArray[np.float64]
Scaling = Literal["values", "relative", "changes"]
Changes = Mapping[str, Mapping[str, Any]]
"""Values to set in a settings file, by table and key; None takes a key out."""


class Fit(NamedTuple):
    """How any series becomes outcomes of a size that the task's own actions can deal with."""

    outcome: Scaling  # values: as they are; relative: the mean becomes `unit`; changes: their deviation becomes `unit`
    unit: float
    floor: float  # no forecast goes below
    start: dict[str, Any]  # arguments of state()


class Limit(NamedTuple):
    """A number of params or state that only forbids."""

    field: str
    name: str  # as in settings and states files
    loosens: int  # 1: larger allows more; -1: smaller does
    in_state: bool = False
    least: float = 0.0  # of those that loosen downwards: no smaller value means anything
    whole: bool = False  # it counts something


ALLOWANCE = Limit("allowance", "change_budget", 1, in_state=True)


class Foreseen(NamedTuple):
    """The best plan from the best of several starting states, had the outcomes been known."""

    start: int  # which of them
    actions: Floats  # (T,) as the task takes them
    states: list[Any]  # (T + 1,)
    cost: float  # currency, less revenue and the value of what is left


class Purchase(NamedTuple):
    """What an action orders from one supplier."""

    supplier: str  # its name; "" where there is only one
    units: float
    periods: int  # until it arrives, at the earliest
    latest: int | None = None  # periods until it has arrived for certain, where the lead time is uncertain


class Sent(NamedTuple):
    """What leaves for one series, as far as a note about it needs."""

    action: Any
    state: Any
    params: Any
    offered: Sequence[Any]  # actions of this window
    expected: float  # outcomes of the planned periods, added up; NaN: there is no forecast of them
    planned: int  # periods
    released: bool
    members: Floats | None = None  # (J, H) of a closed-loop forecast


def as_outcomes(values: Floats, scaling: Scaling, unit: float, known: int | None = None) -> Floats:
    """A series as outcomes of a size that a task can deal with, as `Fit` says; its scale is measured on its first
    `known` values, of every column by itself where it has several. Changes are one fewer than values."""
    if scaling == "values":
        return values
    if scaling == "relative":
        scale = np.abs(values[:known]).mean(axis=0)
    else:
        values = np.diff(values, axis=0)
        scale = values[: None if known is None else known - 1].std(axis=0)
    if not np.all((scale > 0.0) & (scale < np.inf)):
        raise InputError("series", f"a scale of {np.min(scale):g}", "values that differ, and not all of them 0")
    made: Floats = values * (unit / scale)
    return made


def fields_of(cls: type[Any]) -> list[dataclasses.Field[Any]]:
    """Fields of a record of parameters: those of the class itself before those that it inherits."""
    annotations = inspect.get_annotations(cls)
    return sorted(dataclasses.fields(cls), key=lambda field: field.name not in annotations)


class OnSeries(ABC):
    """What a record of parameters says about its task beyond the rules."""

    form: ClassVar[Literal["cost", "reward"]] = "reward"  # how results are compared
    drawn: ClassVar[tuple[str, ...]] = ()  # fields of an outcome that are drawn: no file holds them
    places_orders: ClassVar[bool] = False  # actions are orders: files have the columns order, arrival and stock
    left_counts: ClassVar[Literal["daily", "at the end"]] = "daily"
    """How a replay counts what a state holds: by how much its value changes in every period, all by the parameters that
    go with the last forecast; or once, by the series' own parameters."""

    @abstractmethod
    def task(self) -> Task:
        """The task under these parameters."""

    @abstractmethod
    def state(self, *arguments: Any, **named: Any) -> Any:
        """A state of it, checked."""

    @property
    def effect_delay(self) -> int:
        """Steps from an action to its effect."""
        return int(getattr(self, "delay", 0))

    def outcomes(self, values: Floats, before: Floats) -> Floats:
        """Outcomes (..., H) of values (..., H) that follow the values `before` (...)."""
        return values

    def starts(self, trace: Trace) -> list[Any]:
        """A starting state for every window of its first trace."""
        return [self.state(**self.fit().start)] * len(trace.mean)

    def figures(self, states: Floats, actions: Floats, outcomes: Floats) -> dict[str, Floats]:
        """Further metrics (N,) of episodes from states (N, T, n), actions (N, T) and outcomes (N, T)."""
        return {}

    def parts(self, s: Any, a: float, y: Any, p: Any) -> dict[str, float]:
        """What one step cost and moved, by part; `words` names those that are shown."""
        return {}

    # ---------------------------------------------------------------- for people

    def words(self, units: str = "", currency: str = "") -> Words:
        """What outcomes (in `units`), actions, state fields and parts are called."""
        return Words("outcome", units, "action", "")

    def situation(self, s: Any, p: Any, units: str, currency: str) -> str:
        """A state in words: the fields that have names, or all of them."""
        words, phrases = self.words(units, currency), []
        if not words.fields:
            layout = Layout.of(s, "state")
            values = zip(layout.names, layout.flatten(s, "state"), strict=True)
            return "State: " + ", ".join(f"{name} {figure(value)}" for name, value in values)
        for key, (name, unit) in words.fields.items():
            value = getattr(s, key, None)
            if isinstance(value, tuple):
                if any(value):
                    phrases.append(f"{name} {', '.join(figure(x) for x in value)}")
            elif value is not None and value < NO_LIMIT and (value != 0.0 or not phrases):
                phrases.append(f"{name} {words.valued(value, unit)}")
        return f"Now: {'; '.join(phrases)}"

    def notes(self, sent: Sent, units: str) -> list[str]:
        """What a person should know besides of an action that leaves."""
        return []

    def advice(self, policy: Policy) -> dict[str, str]:
        """What a person could change where decisions have a note: a sentence with {count} in it, by a part of that
        note."""
        return {}

    def limits(self) -> tuple[Limit, ...]:
        """The limits that may be in the way of an action, in the order in which they are named."""
        return ()

    # ---------------------------------------------------------------- actions and the units that they stand for

    def is_quantity(self, p: Any) -> bool:
        """Whether every action is the quantity that it stands for, under params of one or of several series."""
        return True

    def quantity(self, s: Any, a: Any, p: Any) -> float:
        """Units that an action stands for, such as what an order-up-to level orders."""
        units: float = a
        return units

    def purchases(self, s: Any, a: Any, p: Any) -> tuple[Purchase, ...]:
        """What an action orders, by supplier; nothing where actions are no orders."""
        return ()

    def action_for(self, s: Any, quantity: float, p: Any) -> Any:
        """The action that stands for so many units. InputError where there is none."""
        return quantity

    # ---------------------------------------------------------------- planning

    @classmethod
    def defaults(cls, content: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """What follows for a planning job from the `content` of a settings file: values by table and key, for keys
        that the file leaves out."""
        return {}

    def unused(self) -> frozenset[str]:
        """Fields and arguments of `state` that mean nothing as other fields are: no column of a states file is one."""
        return frozenset()

    def for_planning(self, policy: Policy, sizes: Any) -> Any:
        """The record as it is planned with; `sizes` are [actions] of the settings."""
        return self

    def policy_for(self, policy: Policy, sizes: Any) -> Policy:
        """The policy of the settings, or what takes its place for this record."""
        return policy

    def steps_needed(self, policy: Policy, sizes: Any) -> int:
        """Steps of a forecast without which a decision cannot be judged."""
        return policy.depth

    def steps_wanted(self, policy: Policy, sizes: Any) -> int:
        """Steps that a forecast of ours has."""
        return self.steps_needed(policy, sizes)

    def offered(self, trace: Trace, params: Any, sizes: Any) -> tuple[Any, Floats | None]:
        """Params, and actions (W, m) of every window, that fit the forecast; None: the task's own actions."""
        return params, None

    def most_transitions(
        self, states: Sequence[Any], trace: Trace, params: Any, actions: Floats | None, policy: Policy, sizes: Any
    ) -> Floats | None:
        """(W,) roughly how many transitions (state, action, outcome) closed loop could have at most, by window; None
        where nobody knows, or where they always fit."""
        return None

    def planned_trace(self, trace: Trace, params: Any, policy: Policy, sizes: Any) -> Trace:
        """The forecast as it is planned on."""
        return trace

    def refit(self, trace: Trace, params: Any, round_to: float | None) -> Refit:
        """How a decision under this record, recorded with that forecast and params, is asked again with other
        parameters; `round_to` is what quantities are rounded to, if that is known."""
        from ucsearch.tasks.base import Refit

        return Refit(self)

    # ---------------------------------------------------------------- replays

    def with_drawn(self, values: Floats, rng: np.random.Generator) -> Floats:
        """What happened (T,), as (T, F) with the fields that are drawn."""
        return values

    def covering(self, periods: int) -> Any:
        """The record where what it knows of dates reaches so many periods; itself where it knows none."""
        return self

    def dated(self, first: str) -> Any:
        """The record as of another first day (an ISO date); itself where days make no difference."""
        return self

    def opening(self, past: Floats) -> Any | None:
        """The state that a replay begins in, from the outcomes `past` before it; None: where the states file says, or
        `fit`."""
        return None

    def relaxed(self) -> Any | None:
        """The record without the grid that its actions and states lie on, for rules that know none."""
        return None

    def idle_knobs(self, params: Sequence[Any]) -> frozenset[str]:
        """Knobs of rules that make no difference under the `params` of any series."""
        return frozenset()

    def hindsight(self, p: Any, outcomes: Floats, starts: Sequence[Any], *, free: bool) -> Foreseen | str | None:
        """The best plan through known `outcomes` (T,) from any of `starts`; a text says why there is none. `free`: any
        action that the rules allow. None: a search through the task's own actions finds it."""
        return None

    def candidates(self, settings: Any) -> list[tuple[str, Changes]]:
        """Ways to plan that are tried when the `settings` are tuned: a label, and what it changes."""
        modes = (("members", 0.0), ("mean", 0.0), ("members", 0.25), ("mean", 0.5), ("members", 0.5))
        return planning_modes(settings, modes)

    def refinements(self, settings: Any, changed: Changes) -> list[tuple[str, Changes]]:
        """What is tried around the best of the candidates, whose `settings` differ by `changed` from those given."""
        depth = settings.policy.depth
        shorter, longer = max(1, depth // 2), depth + max(2, depth // 3)
        plans: list[tuple[str, Changes]] = []
        if settings.season > 1:
            plans.append(("recalibrated", {"forecast": {"recalibrate": "rolling"}}))
        plans += [(f"depth {d}", {"policy": {"depth": d}}) for d in (shorter, longer)]
        if settings.season > 1:
            plans.append(("recalibrated by bias", {"forecast": {"recalibrate": "rolling", "scale": False}}))
            plans.append(("error paths", {"forecast": {"recalibrate": "paths"}}))
        return plans

    def fit(self) -> Fit:
        """How any series becomes outcomes of this task, and where episodes start."""
        return Fit("values", 1.0, -np.inf, {})

    def shape(self) -> tuple[Any, ...]:
        """What makes another task of other numbers, besides whole numbers, words and whether a number is 0."""
        return ()

    def address(self, *, own_grid: bool = False) -> str:
        """Under which name a verifier finds the task."""
        from ucsearch.tasks.registry import address

        return address(self, own_grid=own_grid)


def planning_modes(settings: Any, modes: Sequence[tuple[str, float]]) -> list[tuple[str, Changes]]:
    """Candidates that differ from the settings in mode and risk."""
    in_force = (settings.policy.mode, settings.policy.risk)
    return [
        (f"{mode}, risk {risk:g}", {"policy": {"mode": mode, "risk": risk, "spread": None}})
        for mode, risk in modes
        if (mode, risk) != in_force
    ]


class _Bare(OnSeries):
    """Behind a task that was made without a record of parameters."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def task(self) -> Task:
        return self._task

    def state(self, *arguments: Any, **named: Any) -> Any:
        return self._task.state(*arguments, **named)


def config_of(task: Task) -> OnSeries:
    """The record of parameters behind a task; of a bare task one that has the defaults."""
    return task.config if isinstance(task.config, OnSeries) else _Bare(task)


def quantities(task: Task, s: Any, actions: Sequence[Any], outcomes: Sequence[Any], p: Any) -> tuple[Any, ...]:
    """Units that each action of a plan stands for, along a course of outcomes; of several suppliers a tuple."""
    config = config_of(task)
    if config.is_quantity(p):
        return tuple(actions)
    values = []
    for h, (action, y) in enumerate(zip(actions, outcomes, strict=False)):
        bought = config.purchases(s, action, p)
        values.append(tuple(x.units for x in bought) if len(bought) > 1 else config.quantity(s, action, p))
        s = task.step_at(s, action, y, h, p)
    return tuple(values)


@dataclass(frozen=True, kw_only=True)
class StablePlan(OnSeries):
    """Settings that keep a new plan close to the previous one; the base of the small tasks."""

    stability_cost: float = 0.0  # currency per unit by which an action departs from the previous plan
    change_budget: float | None = None  # units by which all actions together may depart from it
    plan_steps: int = 12  # how many of its actions are kept

    @property
    def is_planned(self) -> bool:
        """Whether the previous plan has any effect."""
        return self.stability_cost > 0.0 or self.change_budget is not None

    def check_plan_settings(self) -> None:
        number("stability_cost", self.stability_cost)
        limit("change_budget", self.change_budget)
        whole("plan_steps", self.plan_steps, 1, 1000)

    def plan_fields(
        self, planned: Sequence[float] | None, allowance: float | None
    ) -> tuple[tuple[float, ...], float, float]:
        """The fields `planned`, `planned_left` and `allowance` of a starting state; constant where there is no use."""
        if not self.is_planned:
            if planned is not None:
                raise InputError("planned", "a plan", "none without stability_cost or change_budget")
            return (0.0,), 0.0, NO_LIMIT
        actions, count = planned_actions(planned, self.plan_steps)
        return actions, count, limit("allowance", self.change_budget if allowance is None else allowance)


@dataclass(frozen=True)
class Binding:
    """One task on many series. N windows, J members, H steps, m actions."""

    config: Any  # a record of parameters, an `OnSeries`
    multiples: tuple[float, ...] | None = None  # grid around the forecast, in units of its spread; None: the task's own
    arrivals: int = 1  # how many of a plan's orders the grid is made for

    @property
    def task(self) -> Task:
        made: Task = self.config.task()
        return made

    @property
    def where(self) -> str:
        return str(self.config.address(own_grid=self.multiples is not None))

    @property
    def form(self) -> str:
        return str(self.config.form)

    @property
    def delay(self) -> int:
        return int(self.config.effect_delay)

    def outcomes(self, values: Floats, before: Floats) -> Floats:
        made: Floats = self.config.outcomes(values, before)
        return made

    def start(self, trace: Trace) -> list[Any]:
        return list(self.config.starts(trace))

    def grid(self, trace: Trace) -> tuple[Floats | None, Floats | None]:
        """Actions (N, m) and parameters (N, p) of every window, or None where they are the task's own."""
        if self.multiples is None:
            return None, None
        actions, params = self.config.scaled(trace, self.multiples, self.arrivals)
        layout = self.task.params_layout
        if layout is None:
            raise InputError("task", "no params", "params")
        return actions, layout.rows(params, "params")

    def figures(self, states: Floats, actions: Floats, outcomes: Floats) -> dict[str, Floats]:
        made: dict[str, Floats] = self.config.figures(states, actions, outcomes)
        return made


def bind(task: dict[str, Any], multiples: Sequence[float] | None, arrivals: int = 1) -> Binding:
    """The binding of a table such as `{"name": "lead_time_inventory", "lead_time": 1}`."""
    from ucsearch.tasks import TASKS

    settings = dict(task)
    name = settings.pop("name", None)
    if name not in TASKS:
        raise InputError("task.name", repr(name), f"one of {', '.join(TASKS)}")
    kind = TASKS[name].kind
    if not hasattr(kind, "scaled"):
        if multiples is not None:
            raise InputError("multiples", "a grid", f"nothing: {name} has fixed actions")
        return Binding(kind(**settings))
    if multiples is None:
        raise InputError("multiples", "nothing", "the order grid, in units of the forecast's spread")
    sizes = tuple(float(i) for i in range(len(multiples) * arrivals))
    return Binding(kind(order_sizes=sizes, **settings), tuple(map(float, multiples)), arrivals)


Names = dict[str, tuple[str, str]]  # key -> name, unit
SERVICE = {
    "fill rate": ("served", "demand", "share of demand that is served in its own period"),
    "service level": ("in_full", "", "share of periods in which all demand is served"),
}
"""Shares of a task whose parts are `demand`, `served` and `in_full`."""


@dataclass(frozen=True)
class Words:
    """Names and units; a unit of "" is left out. Parts are those of a step, as the task's `parts` gives them."""

    outcome: str  # what is forecast
    outcome_unit: str
    action: str  # what is decided
    action_unit: str
    fields: Names = field(default_factory=dict)  # state field -> name, unit; others are not shown
    sums: Names = field(default_factory=dict)  # part -> name, unit; added up over series and periods
    means: Names = field(default_factory=dict)  # part -> name, unit; of all series together, averaged over periods
    money: dict[str, str] = field(default_factory=dict)  # part -> name; what the cost of a step is made of
    shares: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    """name -> part, the part that it is a share of ("": of the periods), explanation"""
    income: str = ""  # the part that is earned besides; costs are shown without it, and profit beside them

    def valued(self, number: float, unit: str) -> str:
        return f"{figure(number)} {unit}".rstrip()


def power_unit(energy: str) -> str:
    """MW for MWh; where the unit does not say, energy per period."""
    return energy[:-1] if len(energy) > 1 and energy.endswith("h") else f"{energy} per period"


DECIDE_ANEW = "Change it in the settings and decide again, with other files.decisions and files.log."


class Inputs(NamedTuple):
    """What a decision is made from, besides its task and state."""

    params: Any
    actions: Floats  # (m,) NaN where unavailable; of tuples (m, width)
    trace: Trace
    policy: Policy


class Refit:
    """How a recorded decision is asked again, for tasks whose actions are given and not fitted to the series."""

    fits = False  # whether actions are fitted to the series, so that their number may change

    def __init__(self, config: OnSeries) -> None:
        self.config = config  # the recorded one

    def record(self, other: Any, policy: Policy) -> Any:
        """The other record as it is planned with."""
        return other

    def state(self, state: Any, other: Any, what: str, steps: int) -> tuple[Any, list[str]]:
        """The recorded state where other parameters move what is under way, and notes of that. `what`: the changed
        parameters; `steps`: how many periods are planned."""
        lengths = dict(lengths_of(other).items() - lengths_of(self.config).items())
        return other_lengths(state, lengths, what) if lengths else (state, [])

    def inputs(self, other: Any, recorded: Inputs, what: frozenset[str]) -> tuple[Inputs, list[str]]:
        """Recorded inputs, whose parameters are the `other`'s already, as they are asked again; and notes of that."""
        return recorded, []

    def is_comparable(self, other: Any) -> bool:
        """Whether both expected scores stand for the same periods."""
        return True


def lengths_of(config: Any) -> dict[str, int]:
    """How long the state's tuples are: what is under way, by the periods until it is there."""
    try:
        state = config.state(**config.fit().start)
    except (UCSearchError, TypeError, AttributeError):  # a task that does not say where it begins
        return {}
    return {name: len(value) for name, value in state._asdict().items() if isinstance(value, tuple)}


def other_lengths(state: Any, lengths: Mapping[str, int], what: str) -> tuple[Any, list[str]]:
    """What is under way keeps its time; where there is no place for it any more, the question is refused."""
    changed = {}
    for name, length in lengths.items():
        items = getattr(state, name)
        if any(items[length:]):
            late = ", ".join(figure(x) for x in items[length:] if x)
            hint = f"{late} under way ({name}) would take longer than what is begun now. {DECIDE_ANEW}"
            raise InputError("--set", what, "a time not shorter than that of what is under way", hint=hint)
        changed[name] = (items + (0.0,) * length)[:length]
    return state._replace(**changed), ["What is under way already keeps its time."]
