"""The problem a user writes: what is allowed (F), what happens (T), what it is worth.

One definition serves the planner (forecast outcomes) and the simulator (realised ones).
All functions are plain Python over a NamedTuple state:

    feasible(s, a, p) -> bool        step(s, a, y, p) -> state      reward(s, a, y, p) -> float
    fallback(s, p) -> action         terminal(s, p) -> float        invariant(s, p) -> bool
    prepare(outcomes, p) -> table    bound(s, h, table, p) -> float   allowed_end(s, p) -> bool

`feasible(s, a, h, p)`, `step(s, a, y, h, p)` and `reward(s, a, y, h, p)` get the step index too, if they ask for it by
one more argument: 0 is the decision at hand, 1 the next one.

`allowed_end` is a hard rule about the state after the last planned step (and after a continuation's last): a path that
ends elsewhere is dropped, like one that runs into a dead end.

`prepare` runs once per window on the outcomes of the searched steps ((d,) or (d, fields)); `bound` is an
optimistic value to go: never below the best undiscounted reward still to be had from `s` at step `h`.
A `prepare` with a third argument gets a `View` and then `bound` speaks of reward minus risk times uncertainty.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError, TaskError
from ucsearch.formatting import action_figure, offered_words
from ucsearch.layout import Layout, as_finite, is_named_tuple_type, is_packable, pack, packed, unpack, with_one_zero
from ucsearch.rules.identity import Identity, identity_of, text_of

if TYPE_CHECKING:  # a bare `Task` is one of any state and any parameters
    from typing_extensions import TypeVar

    State = TypeVar("State", default=Any)
    Params = TypeVar("Params", default=Any)
else:
    from typing import TypeVar

    State, Params = TypeVar("State"), TypeVar("Params")

__all__ = [
    "ARITY",
    "SITE",
    "TIMED",
    "Condition",
    "Continuation",
    "Fill",
    "Params",
    "State",
    "Task",
    "View",
    "arity",
    "check_function",
]

# What the functions of a task take, by place.
TIMED = ("feasible", "step", "reward")  # these may take the step index before the parameters
ARITY = {
    "feasible": (3, "(s, a, p) or (s, a, h, p)"),
    "step": (4, "(s, a, y, p) or (s, a, y, h, p)"),
    "reward": (4, "(s, a, y, p) or (s, a, y, h, p)"),
    "fallback": (2, "(s, p)"),
    "terminal": (2, "(s, p)"),
    "invariant": (2, "(s, p)"),
    "allowed_end": (2, "(s, p)"),
    "bound": (4, "(s, h, table, p)"),
}


class View(NamedTuple):
    """What a three-argument `prepare` may look at besides the mean outcomes."""

    members: NDArray[np.float64]  # (J, d) or (J, d, fields), canonical order
    weights: NDArray[np.float64]  # (J,), sum 1
    risk: float  # lambda
    spread: int  # number of the spread (`ucsearch.spreads`), one of the task's `bound_spreads`


class Fill(NamedTuple):
    """`prepare` into an array that a kernel keeps from window to window, where `prepare` makes a new one for each.

    `fill(table, outcomes, p, view)` gets an array of `room(steps, members)` zeros. It leaves there what
    `prepare(outcomes, p, view)` returns, to the bit; behind that it may keep what it needs while it works. `room` is a
    sum of a constant and of multiples of `steps`, of `members` and of their product. Searches by kernel in mode "mean"
    use it; everything else asks `prepare`.
    """

    room: Callable[[int, int], int]  # (steps, members) -> numbers of the array
    fill: Callable[[NDArray[np.float64], NDArray[np.float64], Any, View], None]  # (table, outcomes, p, view)
    unchecked: bool = False  # compiled without checks of indices and divisions, as numba does by default: faster, and
    # an index outside an array is not noticed

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Numbers of the array: in all, and for each step, each member and each member of each step."""
        none, step, member = self.room(0, 0), self.room(1, 0), self.room(0, 1)
        return none, step - none, member - none, self.room(1, 1) - step - member + none

    def difference(self, prepare: Callable[..., Any], outcomes: Any, p: Any, view: View) -> str | None:
        """How its table differs from that of `prepare`, in words; None if it does not."""
        expected = prepare(outcomes, p, view).ravel()
        table = np.zeros(self.room(len(outcomes), len(view.members)))
        if expected.size > table.size:
            return f"prepare_into.room is {table.size}, and the table of prepare has {expected.size} numbers"
        try:
            self.fill(table, outcomes, p, view)
        except Exception as error:
            return f"prepare_into.fill raised {type(error).__name__}: {error}"
        differing = np.flatnonzero(table[: expected.size].view(np.int64) != expected.view(np.int64))
        if not differing.size:
            return None
        at = int(differing[0])
        return f"prepare_into.fill leaves {float(table[at])!r} at place {at}, where prepare has {float(expected[at])!r}"


@dataclass(frozen=True)
class Continuation:
    """A feedback policy that members follow past the searched prefix.

    `policy(s, h, p) -> action`, or `policy(s, h, p, theta) -> action` with `grid`, a sequence of equally long
    tuples of floats: each is one candidate policy and the best over the same members counts.
    """

    policy: Callable[..., float]  # (s, h, p) or (s, h, p, theta) -> action
    grid: tuple[tuple[float, ...], ...] = ()  # candidates for theta

    def __post_init__(self) -> None:
        if not callable(self.policy):
            raise InputError("continuation.policy", repr(self.policy), "a function (s, h, p) -> action")
        rows = tuple(tuple(float(x) + 0.0 for x in (row if isinstance(row, Sequence) else (row,))) for row in self.grid)
        for i, row in enumerate(rows):
            if not row or len(row) != len(rows[0]) or not all(np.isfinite(row)):
                raise InputError("continuation.grid", row, "equally long tuples of finite floats", index=i)
        object.__setattr__(self, "grid", rows)
        expected = 4 if rows else 3
        if arity(self.policy) != expected:
            raise InputError(
                "continuation.policy",
                f"{arity(self.policy)} arguments",
                f"{expected} arguments: (s, h, p{', theta' if rows else ''})",
            )


SITE = "site:"  # before the names of their rows
_OPERATORS = ("<=", ">=", ">", "==")
_CONDITION = "condition "  # how the roles of conditions begin


@dataclass(frozen=True)
class Condition:
    """A condition of your own for releases, beside the gate: `figure(s, a, p)` against a limit.

    Asked of the proposed action. A figure that raises, or is no finite number, fails. The rules' hash covers it, and
    the verifier asks it again.
    """

    name: str  # of its row in records, in letters, digits and underscores
    figure: Callable[..., float]  # (s, a, p)
    operator: str  # "<=", ">=", ">" or "=="
    limit: float  # in units of the figure
    words: str  # what is so when it holds, such as "the order fits the truck"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise InputError("condition.name", repr(self.name), "letters, digits and underscores")
        check_function("condition.figure", self.figure, 3, "(s, a, p)")
        if self.operator not in _OPERATORS:
            raise InputError("condition.operator", repr(self.operator), f"one of {', '.join(_OPERATORS)}")
        object.__setattr__(self, "limit", float(as_finite(self.limit, "condition.limit").reshape(())))
        if not isinstance(self.words, str) or not self.words.strip():
            raise InputError("condition.words", repr(self.words), "what is so when it holds")


class _LabelsOfValues(tuple[str, ...]):
    """Labels made from the actions: `dataclasses.replace` with other actions makes them again."""

    __slots__ = ()


@dataclass(frozen=True, eq=False)
class Task(Generic[State, Params]):
    """A decision problem: state, actions, constraints, dynamics, reward, fallback. Raises `InputError` where a part is
    missing or takes other arguments than it should; `check_task` runs the rules."""

    name: str  # goes into records
    state: type[Any]  # NamedTuple of floats or fixed-length tuples of floats
    actions: Sequence[Any]  # (m,) strictly ascending numbers, or tuples of one length in lexicographic order
    feasible: Callable[..., Any]  # (s, a, p) or (s, a, h, p) -> bool: the hard rules
    step: Callable[..., Any]  # (s, a, y, p) -> state after outcome y
    reward: Callable[..., Any]  # (s, a, y, p) or (s, a, y, h, p) -> float: what it is worth
    fallback: Callable[..., Any]  # (s, p) -> the cautious action
    params: Any = None  # NamedTuple of floats or tuples of floats; None when the rules need none
    outcome: type[Any] | None = None  # NamedTuple of floats; None when an outcome is one float
    labels: Sequence[str] = ()  # (m,) names of positions; left out, or made by `label_of`, they follow the values
    version: str = "1"  # goes into records beside the name
    prepare: Callable[..., Any] | None = None  # (outcomes, p) -> table for `bound`, once a window
    bound: Callable[..., Any] | None = None  # (s, h, table, p) -> optimistic value to go
    terminal: Callable[..., Any] | None = None  # (s, p) -> value of what is left at the end
    invariant: Callable[..., Any] | None = None  # (s, p) -> bool that every state must meet (`check_task`)
    continuations: Sequence[Continuation | Callable[..., float]] = ()  # policies that members follow past the depth
    bound_spreads: Sequence[str] = ("variance", "std", "downside")  # that a `prepare` with a view knows
    by_step: bool = False  # `prepare` gives the same table whatever order the members of each single step are in
    by_rest: bool = False  # the steps from h on tell `bound` all: h of a forecast is h - 1 of it without its first step
    label_of: Callable[[float], str] | None = None  # a value's name, such as "order {:g}".format, on any window's grid
    uses: Mapping[str, Callable[..., float]] = field(default_factory=dict)  # (s, a, p) -> units of something shared
    conditions: Sequence[Condition] = ()  # of the site: what an action must meet besides the gate before it leaves
    allowed_end: Callable[..., Any] | None = None  # (s, p) -> bool, of the state after the last planned step
    called: str = "actions"  # what the actions are, in the plural, for sentences: sizes, levels, doses
    pack: str = ""  # the field of `params` that holds the units of a whole pack; "" where there are no packs
    unjudged: int = 0  # last steps of a plan whose effects lie past its horizon: shown as not planned yet
    counted: bool = False  # actions count pieces: where those offered and the state are whole, others are too
    limits: tuple[float, float] = (-math.inf, math.inf)  # beyond which no action can be, whoever asks: full power
    config: Any = None  # the record of parameters that it was made from, which knows its words and units
    prepare_into: Fill | None = None  # `prepare` without a new array for every window; no part of the task's identity
    action_array: NDArray[np.float64] = field(init=False, repr=False)  # (m,) read-only; of tuples what stands for them
    width: int = field(init=False, repr=False)  # numbers of an action that is a tuple; 0: it is one number
    packs: bool = field(init=False, repr=False)  # tuples of whole numbers, packed; other tuples stand at their places
    named: bool = field(init=False, repr=False)  # whether labels name positions, not values

    if TYPE_CHECKING:  # what rules look like; the fields themselves are called with one argument more or less

        def __init__(
            self,
            name: str,
            state: type[State],
            actions: Sequence[Any] | NDArray[Any],
            feasible: Callable[[State, Any, Params], Any] | Callable[[State, Any, int, Params], Any],
            step: Callable[[State, Any, Any, Params], State] | Callable[[State, Any, Any, int, Params], State],
            reward: Callable[[State, Any, Any, Params], Any] | Callable[[State, Any, Any, int, Params], Any],
            fallback: Callable[[State, Params], Any],
            params: Params = ...,
            outcome: type[Any] | None = None,
            labels: Sequence[str] = (),
            version: str = "1",
            prepare: Callable[[Any, Params], Any] | Callable[[Any, Params, View], Any] | None = None,
            bound: Callable[[State, int, Any, Params], Any] | None = None,
            terminal: Callable[[State, Params], Any] | None = None,
            invariant: Callable[[State, Params], Any] | None = None,
            continuations: Sequence[Continuation | Callable[[State, int, Params], Any]] = (),
            bound_spreads: Sequence[str] = ...,
            by_step: bool = False,
            by_rest: bool = False,
            label_of: Callable[[Any], str] | None = None,
            uses: Mapping[str, Callable[[State, Any, Params], float]] = ...,
            conditions: Sequence[Condition] = (),
            allowed_end: Callable[[State, Params], Any] | None = None,
            called: str = "actions",
            pack: str = "",
            unjudged: int = 0,
            counted: bool = False,
            limits: tuple[float, float] = ...,
            config: Any = ...,
            prepare_into: Fill | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InputError("task.name", repr(self.name), "a non-empty text")
        if not is_named_tuple_type(self.state):
            raise InputError("task.state", repr(self.state), "a NamedTuple class")
        if self.outcome is not None and not is_named_tuple_type(self.outcome):
            raise InputError("task.outcome", repr(self.outcome), "a NamedTuple class or None")
        values, width = _grid(self.actions)
        packs = bool(width) and is_packable(np.array(values))
        numbers = packed(np.array(values)) if packs else np.arange(len(values)) * 1.0 if width else np.array(values)
        numbers.flags.writeable = False
        object.__setattr__(self, "limits", _limits(self.limits, np.sort(np.array(values), axis=None)))
        object.__setattr__(self, "action_array", numbers)
        object.__setattr__(self, "actions", values)
        object.__setattr__(self, "width", width)
        object.__setattr__(self, "packs", packs)
        if self.label_of is not None and not callable(self.label_of):
            raise InputError("task.label_of", repr(self.label_of), "a function of an action's value, or None")
        object.__setattr__(self, "labels", self._labels())
        object.__setattr__(self, "named", not isinstance(self.labels, _LabelsOfValues))
        for name, (count, signature) in ARITY.items():
            function = getattr(self, name)
            one_more = name in TIMED and callable(function) and arity(function) == count + 1
            check_function(name, function, count + one_more, signature)
        if self.prepare is not None and arity(self.prepare) not in (2, 3):
            seen = f"{arity(self.prepare)} arguments"
            raise InputError("task.prepare", seen, "(outcomes, p) or (outcomes, p, view)")
        if (self.prepare is None) != (self.bound is None):
            have, missing = ("bound", "prepare") if self.prepare is None else ("prepare", "bound")
            raise InputError(f"task.{missing}", "nothing", f"a function, because task.{have} is given")
        if self.prepare_into is not None:
            _check_fill(self.prepare_into, self.prepare, self.outcome)
        if width and len(self.continuations):
            raise InputError(
                "task.continuations", f"{len(self.continuations)} policies", "none where actions are tuples"
            )
        wrapped = tuple(c if isinstance(c, Continuation) else Continuation(c) for c in self.continuations)
        object.__setattr__(self, "continuations", wrapped)
        if not isinstance(self.uses, Mapping):
            raise InputError("task.uses", type(self.uses).__name__, "a mapping of names to functions (s, a, p)")
        for name, function in self.uses.items():
            check_function(f"uses[{name!r}]", function, 3, "(s, a, p)")
        object.__setattr__(self, "uses", dict(self.uses))
        object.__setattr__(self, "conditions", tuple(self.conditions))
        for i, condition in enumerate(self.conditions):
            if not isinstance(condition, Condition):
                raise InputError("task.conditions", type(condition).__name__, "a uc.Condition", index=i)
        names = [condition.name for condition in self.conditions]
        if len(set(names)) != len(names):
            raise InputError("task.conditions", names, "a name of its own for each")
        if not isinstance(self.called, str) or not self.called.strip():
            raise InputError("task.called", repr(self.called), "what the actions are, in the plural, such as 'sizes'")
        if self.params is not None:
            layout = Layout.of_params(self.params, "task.params")
            params = layout.build(layout.flatten(self.params, "task.params")) if layout.whole else self.params
            object.__setattr__(self, "params", with_one_zero(params))
        fields = getattr(self.params, "_fields", ())
        if self.pack and self.pack not in fields:
            listed = ", ".join(fields) or "there are none"
            raise InputError("task.pack", repr(self.pack), f"a field of task.params ({listed})")
        _ = self.identity

    @cached_property
    def timed(self) -> frozenset[str]:
        """Which of `feasible`, `step`, `reward` take the step index h: 0 is the decision at hand."""
        return frozenset(name for name in TIMED if arity(getattr(self, name)) > ARITY[name][0])

    @cached_property
    def feasible_at(self) -> Callable[..., Any]:
        """`feasible` as (s, a, h, p), whether or not it looks at h."""
        feasible = self.feasible
        return feasible if "feasible" in self.timed else lambda s, a, h, p: feasible(s, a, p)

    @cached_property
    def step_at(self) -> Callable[..., Any]:
        """`step` as (s, a, y, h, p), with 0.0 for -0.0 in the state that it returns."""
        bare = self.bare_step_at
        return lambda s, a, y, h, p: with_one_zero(bare(s, a, y, h, p))

    @cached_property
    def bare_step_at(self) -> Callable[..., Any]:
        """`step` as (s, a, y, h, p), for callers that check what it returns and take 0.0 for -0.0 themselves."""
        step = self.step
        return step if "step" in self.timed else lambda s, a, y, h, p: step(s, a, y, p)

    @cached_property
    def reward_at(self) -> Callable[..., Any]:
        """`reward` as (s, a, y, h, p)."""
        reward = self.reward
        return reward if "reward" in self.timed else lambda s, a, y, h, p: reward(s, a, y, p)

    @cached_property
    def risk_aware_bound(self) -> bool:
        """Whether `bound` speaks of the risk-adjusted score rather than of reward."""
        return self.prepare is not None and arity(self.prepare) == 3

    @cached_property
    def params_layout(self) -> Layout | None:
        return None if self.params is None else Layout.of_params(self.params, "task.params")

    @cached_property
    def params_row(self) -> NDArray[np.float64]:
        """(1, P) flat parameters; P is 0 when the task has none."""
        layout = self.params_layout
        row = [] if layout is None else layout.flatten(self.params, "task.params")
        return np.array([row], dtype=np.float64).reshape(1, len(row))

    def __repr__(self) -> str:
        parts = [f"{len(self.actions)} actions", f"state {self.state.__name__}({', '.join(self.state._fields)})"]
        if self.outcome is not None:
            parts.append(f"outcome {self.outcome.__name__}({', '.join(self.outcome._fields)})")
        return f"Task({self.name!r}, version {self.version!r}: {', '.join(parts)})"

    def action_of(self, number: float) -> Any:
        """What a number in arrays stands for: itself, or with tuples the one that it packs, or the one at that place on
        the grid; NaN for NaN."""
        if not self.width or number != number:
            return number
        return unpack(number, self.width) if self.packs else self.actions[int(number)]

    def number_of(self, action: Any) -> float:
        """The number that stands for an action in arrays; NaN where it is none of the task's."""
        if not self.width:
            return float(action)
        if self.packs:
            return pack(action) if len(action) == self.width and is_packable(np.array(action)) else math.nan
        return float(self.actions.index(action)) if action in self.actions else math.nan

    def label(self, index: int, action: Any) -> str:
        """The label of an action: of its position where the user named those, else of its value in this window,
        `action`."""
        return self.labels[index] if self.named else self._name(action)

    def _labels(self) -> tuple[str, ...]:
        """The labels of positions that the user gave, or those made from the values."""
        if len(self.labels) == 0 or self.label_of is not None or isinstance(self.labels, _LabelsOfValues):
            return _LabelsOfValues(map(self._name, self.actions))
        labels = tuple(map(str, self.labels))
        if len(labels) != len(self.actions):
            seen = f"{len(labels)} labels ({', '.join(map(repr, labels[:4]))}{', ...' * (len(labels) > 4)})"
            hint = "Give labels for these actions; labels=() names them by value."
            raise InputError("task.labels", seen, f"{len(self.actions)}, one per action", hint=hint)
        return labels

    def _name(self, action: Any) -> str:
        return action_figure(action) if self.label_of is None else str(self.label_of(action))

    def offered(self, actions: Sequence[Any], pack: float = 0.0) -> str:
        """The set that a decision is best of, as it stands in a sentence after "best": "among 9 sizes offered (0 to 240
        in steps of 30)", "of all whole packs of 6 up to 240". `actions` are those of one window, NaN where there is
        none; `pack` is the window's (`pack_in`)."""
        if self.width:
            actions = [self.number_of(a) for a in actions if a == a]
            return offered_words(actions, self.called)
        return offered_words(actions, self.called, pack, ranged=self.called != "actions" and not self.named)

    def judged(self, steps: int) -> int:
        """How many first actions of a plan over `steps` steps its horizon can judge; at least the one that is sent."""
        return max(1, steps - self.unjudged)

    def pack_in(self, row: Sequence[float]) -> float:
        """Units of a whole pack, from `row`, the parameters as one flat row; 0 where there are no packs."""
        layout = self.params_layout
        return 0.0 if layout is None or not self.pack else float(getattr(layout.build(list(row)), self.pack))

    def layout(self, state: Any) -> Layout:
        """The flat layout of this task's states, read off one of them and checked."""
        if not isinstance(state, self.state):
            raise InputError("state", f"{type(state).__name__}", f"a {self.state.__name__}")
        return Layout.of(state, "state")

    @property
    def fields(self) -> int:
        """Floats per outcome."""
        return 1 if self.outcome is None else len(self.outcome._fields)

    def outcomes_of(self, rows: Sequence[Sequence[float]]) -> list[Any]:
        """(n, F) numbers as outcomes that the rules take."""
        if self.outcome is None:
            return [row[0] for row in rows]
        width = len(self.outcome._fields)
        return [self.outcome(*(row if len(row) == width else [*row] * width)) for row in rows]

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Every user function by role, in a fixed order."""
        roles = ("feasible", "step", "reward", "fallback", "terminal", "prepare", "bound", "invariant", "allowed_end")
        functions = {role: getattr(self, role) for role in roles if getattr(self, role) is not None}
        for i, item in enumerate(self.followed):
            functions[f"continuation_{i}"] = item.policy
        return functions

    @property
    def followed(self) -> tuple[Continuation, ...]:
        """`continuations`, each as a record: as the task was made."""
        return cast(tuple[Continuation, ...], self.continuations)

    @cached_property
    def identity(self) -> Identity:
        """Which rules these are, as they were when the task was made."""
        kinds = {"state": self.state, "outcome": self.outcome, "params": self.params and type(self.params)}
        uses = {f"use {name}": self.uses[name] for name in sorted(self.uses)}
        site = {f"{_CONDITION}{condition.name}": condition.figure for condition in self.conditions}
        classes = {f"the {name} class": kind for name, kind in kinds.items()}
        return identity_of({**self.functions(), **uses, **site, **classes})

    @cached_property
    def source_hash(self) -> str:
        """SHA-256 over what the functions read, the layout of state and parameters, name and version: which rules a
        record is about. `TaskError` names what cannot be read; such a task can be searched but not recorded."""
        if self.identity.refused:
            raise TaskError(f"cannot be recorded: {self.identity.refused}", task=self.name)
        layout = self.params_layout
        lengths, whole = ((), ()) if layout is None else (layout.lengths, tuple(sorted(layout.whole)))
        grids = tuple(c.grid for c in self.followed)
        conditions = tuple((c.name, c.operator, c.limit) for c in self.conditions)
        return self.identity.digest(text_of((self.name, self.version, grids, conditions, lengths, whole)))

    def check_unchanged(self) -> None:
        """`TaskError` where a function, a helper or a constant is another one than when the task was made."""
        if changed := self.identity.changed():
            raise TaskError(f"{changed} has changed since the task was made; make the task again", task=self.name)

    def is_recorded_as(self, recorded: Mapping[str, Any]) -> bool:
        """Whether a record with this member `task` was written under these rules."""
        return not self.identity.refused and recorded["rules"] == self.source_hash

    @cached_property
    def cache(self) -> dict[str, Any]:
        """What modules keep of this task while the process lives: kernels, settings, findings. It is neither copied nor
        pickled."""
        return {}

    def __getstate__(self) -> dict[str, Any]:
        """Without what is kept for speed: kernels belong to this process."""
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}


def _grid(grid: Any) -> tuple[tuple[Any, ...], int]:
    """The actions, -0.0 as 0.0, and how many numbers each has as a tuple (0: it is one number)."""
    tuples = isinstance(grid, Sequence) and bool(grid) and all(isinstance(a, tuple) for a in grid)
    if tuples and len({len(a) for a in grid}) > 1:
        raise InputError("task.actions", f"lengths {sorted({len(a) for a in grid})}", "tuples of one length")
    actions = as_finite(grid, "task.actions") + 0.0
    if actions.size == 0 or actions.ndim != 1 + tuples:
        expected = "at least one action: numbers in one dimension, or tuples of one length"
        raise InputError("task.actions", f"shape {actions.shape}", expected)
    values = tuple(map(tuple, actions.tolist())) if tuples else tuple(actions.tolist())
    for i in range(1, len(values)):
        if not values[i] > values[i - 1]:
            order = "strictly ascending" if not tuples else "strictly ascending, the first numbers first"
            raise InputError("task.actions", values[i], f"more than {values[i - 1]} ({order})", index=i)
    return values, actions.shape[1] if tuples else 0


def _limits(limits: Any, actions: NDArray[np.float64]) -> tuple[float, float]:
    try:
        low, high = (float(x) for x in limits)
    except (TypeError, ValueError, OverflowError):
        raise InputError("task.limits", repr(limits), "two numbers: the lowest and the highest action") from None
    if not low <= actions[0] or not actions[-1] <= high:
        raise InputError(
            "task.limits", limits, f"two numbers with the actions from {actions[0]} to {actions[-1]} between"
        )
    return low + 0.0, high + 0.0


def _check_fill(given: Any, prepare: Callable[..., Any] | None, outcome: type[Any] | None) -> None:
    if not isinstance(given, Fill):
        raise InputError("task.prepare_into", repr(given), "a uc.Fill")
    if prepare is None or arity(prepare) != 3 or outcome is not None:
        expected = "a task with prepare(outcomes, p, view) and outcomes of one number"
        raise InputError("task.prepare_into", "a Fill", expected)
    check_function("prepare_into.room", given.room, 2, "(steps, members)")
    check_function("prepare_into.fill", given.fill, 4, "(table, outcomes, p, view)")
    constant, by_step, by_member, by_both = given.sizes
    for steps, members in ((1, 1), (7, 5), (28, 100)):
        numbers = given.room(steps, members)
        if numbers != constant + by_step * steps + by_member * members + by_both * steps * members or numbers < 1:
            expected = "a + b * steps + c * members + d * steps * members, at least 1"
            raise InputError("task.prepare_into.room", f"{numbers!r} for {steps} steps, {members} members", expected)


def arity(function: Callable[..., Any]) -> int:
    """How many arguments it takes by their place: a rule is never handed others."""
    return len(_placed(function))


def _placed(function: Callable[..., Any]) -> list[inspect.Parameter]:
    by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [argument for argument in inspect.signature(function).parameters.values() if argument.kind in by_place]


def check_function(name: str, function: Any, count: int, signature: str) -> None:
    if function is None and name in ("terminal", "invariant", "bound", "allowed_end"):
        return
    if not callable(function):
        raise InputError(f"task.{name}", repr(function), f"a function {signature}")
    arguments = inspect.signature(function).parameters.values()
    if any(argument.kind is argument.VAR_POSITIONAL for argument in arguments):
        raise InputError(f"task.{name}", "any number of arguments", f"{count} arguments {signature}")
    if arity(function) != count:
        raise InputError(f"task.{name}", f"{arity(function)} arguments", f"{count} arguments {signature}")
    required = [argument for argument in _placed(function) if argument.default is argument.empty]
    if name in TIMED and len(required) < count and count > ARITY[name][0]:
        # `lambda s, a, y, p, k=k: ...` would be handed the step for p and the parameters for k.
        seen = f"{len(required)} arguments and {count - len(required)} with a default"
        hint = "what a rule is to keep goes into a closure or functools.partial(rule, name=value)"
        raise InputError(f"task.{name}", seen, f"arguments without a default: {signature}", hint=hint)
