"""Tasks and layouts: what is accepted, what is refused with which message, and what the source hash sees."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ucsearch as uc
from ucsearch.errors import InputError
from ucsearch.layout import Layout

NAN, INF = float("nan"), float("inf")


class Box(NamedTuple):
    level: float
    queue: tuple[float, ...]


class Params(NamedTuple):
    size: float
    costs: tuple[float, float]


class Bare(NamedTuple):
    x: float


def feasible(s, a, p):
    return True


def step(s, a, y, p):
    return Bare(s.x + a)


def reward(s, a, y, p):
    return a * y


def fallback(s, p):
    return 0.0


def terminal(s, p):
    return 0.0


def prepare(outcomes, p):
    return np.zeros(outcomes.shape[0] + 1)


def prepare_with_view(outcomes, p, view):
    return np.zeros(outcomes.shape[0] + 1)


def bound(s, h, table, p):
    return table[h]


def follow(s, h, p):
    return 0.0


def follow_grid(s, h, p, theta):
    return theta[0]


def make(**changes: Any) -> uc.Task:
    basic: dict[str, Any] = {
        "name": "bare", "state": Bare, "actions": [0.0, 1.0], "feasible": feasible, "step": step, "reward": reward,
        "fallback": fallback,
    }  # fmt: skip
    return uc.Task(**{**basic, **changes})


# -------------------------------------------------------------------- construction


def test_a_task_is_a_frozen_record_with_plain_floats() -> None:
    task = make(actions=np.array([-1, 0, 2]))
    assert task.actions == (-1.0, 0.0, 2.0)
    assert all(type(a) is float for a in task.actions)
    assert task.labels == ("-1", "0", "2")
    assert not task.action_array.flags.writeable
    with pytest.raises(dataclasses.FrozenInstanceError):
        task.name = "other"  # type: ignore[misc]


def test_minus_zero_is_zero() -> None:
    assert not np.signbit(make(actions=[-0.0, 1.0]).action_array).any()


def test_labels_name_positions() -> None:
    task = make(labels=["wait", "go"])
    assert task.labels == ("wait", "go")
    assert task.label(1, 7.0) == "go"
    assert make().label(1, 7.0) == "7"


def test_labels_may_follow_the_values_of_any_grid() -> None:
    task = make(label_of="order {:g}".format)
    assert task.labels == tuple(f"order {a:g}" for a in task.actions)
    assert task.label(1, 37.25) == "order 37.25"
    assert not task.named
    again = dataclasses.replace(task, actions=[0.0, 4.0])
    assert again.labels == ("order 0", "order 4")
    with pytest.raises(uc.InputError, match=r"task\.label_of: saw 'order', expected a function"):
        make(label_of="order")


def test_params_become_one_row() -> None:
    task = make(params=Params(3, (1.0, 2.0)))
    assert task.params_row.tolist() == [[3.0, 1.0, 2.0]]
    assert make().params_row.shape == (1, 0)


def test_fields_of_an_outcome() -> None:
    assert make().fields == 1
    assert make(outcome=Params).fields == 2


def test_a_view_makes_the_bound_risk_aware() -> None:
    assert not make(prepare=prepare, bound=bound).risk_aware_bound
    assert make(prepare=prepare_with_view, bound=bound).risk_aware_bound
    assert not make().risk_aware_bound


def test_continuations_may_be_plain_functions_or_grids() -> None:
    task = make(continuations=[follow, uc.Continuation(follow_grid, grid=((1.0,), (2.0,)))])
    assert all(isinstance(c, uc.Continuation) for c in task.continuations)
    assert task.continuations[1].grid == ((1.0,), (2.0,))  # type: ignore[union-attr]
    assert uc.Continuation(follow_grid, grid=(1, 2)).grid == ((1.0,), (2.0,))  # type: ignore[arg-type]


def test_functions_come_by_role() -> None:
    task = make(terminal=terminal, prepare=prepare, bound=bound, continuations=[follow])
    roles = ["feasible", "step", "reward", "fallback", "terminal", "prepare", "bound", "continuation_0"]
    assert list(task.functions()) == roles


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "no name": (lambda: make(name="  "), "task.name: saw '  ', expected a non-empty text"),
    "name of a number": (lambda: make(name=3), "task.name: saw 3, expected a non-empty text"),
    "state is a plain tuple": (
        lambda: make(state=tuple),
        "task.state: saw <class 'tuple'>, expected a NamedTuple class",
    ),
    "state is a value": (lambda: make(state=Bare(0.0)), "task.state: saw Bare(x=0.0), expected a NamedTuple class"),
    "outcome is a plain class": (
        lambda: make(outcome=float),
        "task.outcome: saw <class 'float'>, expected a NamedTuple class or None",
    ),
    "no actions": (lambda: make(actions=[]), "task.actions: saw shape (0,), expected at least one action"),
    "actions in two dimensions": (lambda: make(actions=[[0.0, 1.0]]), "task.actions: saw shape (1, 2)"),
    "NaN action": (lambda: make(actions=[0.0, NAN]), "task.actions[1]: saw nan, expected a finite number"),
    "infinite action": (lambda: make(actions=[0.0, INF]), "task.actions[1]: saw inf, expected a finite number"),
    "text action": (lambda: make(actions=["a"]), "task.actions: saw list"),
    "descending actions": (
        lambda: make(actions=[0.0, 2.0, 1.0]),
        "task.actions[2]: saw 1.0, expected more than 2.0 (strictly ascending)",
    ),
    "repeated action": (lambda: make(actions=[0.0, 0.0]), "task.actions[1]: saw 0.0, expected more than 0.0"),
    "too few labels": (lambda: make(labels=["a"]), "task.labels: saw 1 labels ('a'), expected 2, one per action"),
    "feasible with two arguments": (
        lambda: make(feasible=fallback),
        "task.feasible: saw 2 arguments, expected 3 arguments (s, a, p)",
    ),
    "step with three arguments": (
        lambda: make(step=feasible),
        "task.step: saw 3 arguments, expected 4 arguments (s, a, y, p)",
    ),
    "reward with three arguments": (lambda: make(reward=feasible), "task.reward: saw 3 arguments"),
    "fallback is a number": (lambda: make(fallback=0.0), "task.fallback: saw 0.0, expected a function (s, p)"),
    "feasible is missing": (lambda: make(feasible=None), "task.feasible: saw None, expected a function (s, a, p)"),
    "terminal with three arguments": (lambda: make(terminal=feasible), "task.terminal: saw 3 arguments"),
    "invariant with three arguments": (lambda: make(invariant=feasible), "task.invariant: saw 3 arguments"),
    "bound with two arguments": (lambda: make(prepare=prepare, bound=terminal), "task.bound: saw 2 arguments"),
    "prepare with four arguments": (
        lambda: make(prepare=step, bound=bound),
        "task.prepare: saw 4 arguments, expected (outcomes, p) or (outcomes, p, view)",
    ),
    "bound without prepare": (
        lambda: make(bound=bound),
        "task.prepare: saw nothing, expected a function, because task.bound is given",
    ),
    "prepare without bound": (
        lambda: make(prepare=prepare),
        "task.bound: saw nothing, expected a function, because task.prepare is given",
    ),
    "params of a dict": (lambda: make(params={"a": 1.0}), "task.params: saw dict"),
    "params with NaN": (
        lambda: make(params=Params(NAN, (1.0, 2.0))),
        "task.params.size: saw nan, expected a finite number",
    ),
    "params with text": (lambda: make(params=Params("x", (1.0, 2.0))), "task.params.size: saw 'x', expected a float"),  # type: ignore[arg-type]
    "params with an infinite part": (
        lambda: make(params=Params(1.0, (1.0, INF))),
        "task.params.costs[1]: saw inf, expected a finite number",
    ),
    "continuation with two arguments": (
        lambda: make(continuations=[fallback]),
        "continuation.policy: saw 2 arguments, expected 3 arguments: (s, h, p)",
    ),
    "grid without theta": (
        lambda: uc.Continuation(follow, grid=((1.0,),)),
        "continuation.policy: saw 3 arguments, expected 4 arguments: (s, h, p, theta)",
    ),
    "ragged grid": (
        lambda: uc.Continuation(follow_grid, grid=((1.0,), (1.0, 2.0))),
        "continuation.grid[1]: saw (1.0, 2.0), expected equally long tuples of finite floats",
    ),
    "NaN in the grid": (lambda: uc.Continuation(follow_grid, grid=((NAN,),)), "continuation.grid[0]: saw (nan,)"),
    "continuation is a number": (
        lambda: uc.Continuation(3.0),  # type: ignore[arg-type]
        "continuation.policy: saw 3.0, expected a function (s, h, p) -> action",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_message(name: str) -> None:
    build, message = REFUSED[name]
    with pytest.raises(InputError) as caught:
        build()
    assert str(caught.value).startswith(message)


# -------------------------------------------------------------------- states and layouts


def test_the_layout_is_read_off_a_state() -> None:
    task = make(state=Box)
    layout = task.layout(Box(1.0, (2.0, 3.0)))
    assert layout.lengths == (0, 2)
    assert layout.size == 3
    assert layout.names == ("level", "queue[0]", "queue[1]")
    assert layout.flatten(Box(1, (2, 3)), "state") == [1.0, 2.0, 3.0]
    assert layout.build([1.0, 2.0, 3.0]) == Box(1.0, (2.0, 3.0))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=6))
def test_rows_and_states_are_the_same_thing(numbers: list[float]) -> None:
    state = Box(numbers[0], tuple(numbers[1:]))
    layout = Layout.of(state, "state")
    assert layout.build(layout.flatten(state, "state")) == state
    assert len(layout.names) == layout.size == len(numbers)


class Nothing(NamedTuple):
    pass


BAD_STATES: dict[str, tuple[Any, str]] = {
    "another type": (Bare(0.0), "state: saw Bare, expected a Box"),
    "a plain tuple": ((0.0, (1.0,)), "state: saw tuple, expected a Box"),
    "NaN": (Box(NAN, (1.0,)), "state.level: saw nan, expected a finite number"),
    "infinity inside a tuple": (Box(0.0, (1.0, INF)), "state.queue[1]: saw inf, expected a finite number"),
    "text": (Box("a", (1.0,)), "state.level: saw 'a', expected a float"),  # type: ignore[arg-type]
    "a list": (Box(0.0, [1.0]), "state.queue: saw [1.0], expected a float"),  # type: ignore[arg-type]
    "an empty tuple": (Box(0.0, ()), "state.queue: saw an empty tuple, expected a tuple with at least one float"),
    "None": (Box(None, (1.0,)), "state.level: saw None, expected a float"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", BAD_STATES)
def test_bad_states_are_refused(name: str) -> None:
    state, message = BAD_STATES[name]
    with pytest.raises(InputError) as caught:
        make(state=Box).layout(state)
    assert str(caught.value).startswith(message)


def test_a_state_without_fields_is_refused() -> None:
    with pytest.raises(InputError, match="a NamedTuple without fields"):
        make(state=Nothing).layout(Nothing())


def test_rows_of_many_states() -> None:
    layout = Layout.of(Box(0.0, (0.0, 0.0)), "states")
    expected = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert layout.rows(np.array(expected), "states").tolist() == expected
    assert layout.rows([Box(1, (2, 3)), Box(4, (5, 6))], "states").tolist() == expected
    columns = Box(np.array([1.0, 4.0]), (np.array([2.0, 5.0]), np.array([3.0, 6.0])))  # type: ignore[arg-type]
    assert layout.rows(columns, "states").tolist() == expected
    block = Box(np.array([1.0, 4.0]), np.array([[2.0, 3.0], [5.0, 6.0]]))  # type: ignore[arg-type]
    assert layout.rows(block, "states").tolist() == expected
    shared = Box(7.0, (np.array([2.0, 5.0]), 3.0))  # type: ignore[arg-type]
    assert layout.rows(shared, "states").tolist() == [[7.0, 2.0, 3.0], [7.0, 5.0, 3.0]]


BAD_ROWS: dict[str, tuple[Any, str]] = {
    "columns": (np.zeros((2, 4)), "states: saw shape (2, 4), expected shape (W, 3) in the order"),
    "NaN": (np.array([[0.0, 0.0, NAN]]), "states[0, 2]: saw nan, expected a finite number"),
    "NaN in a list": ([Box(0.0, (0.0, 0.0)), Box(0.0, (NAN, 0.0))], "states[1].queue[0]: saw nan, expected a finite"),
    "another length": ([Box(0.0, (0.0, 0.0, 0.0))], "states[0].queue: saw (0.0, 0.0, 0.0), expected a tuple of 2"),
    "none": ([], "states: saw no windows, expected at least one window"),
    "arrays of two lengths": (
        Box(np.zeros(3), (np.zeros(2), np.zeros(3))),  # type: ignore[arg-type]
        "states.queue[0]: saw shape (2,), expected shape (3,)",
    ),
    "too few columns": (
        Box(np.zeros(2), np.zeros((2, 1))),  # type: ignore[arg-type]
        "states.queue: saw 1 columns, expected 2 columns",
    ),
    "a number": (3.0, "states: saw float, expected an array (W, 3) or a Box of arrays"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows_are_refused(name: str) -> None:
    values, message = BAD_ROWS[name]
    with pytest.raises(InputError) as caught:
        Layout.of(Box(0.0, (0.0, 0.0)), "states").rows(values, "states")
    assert str(caught.value).startswith(message)


# -------------------------------------------------------------------- source hash

RATE = 2.0


def helper(x):
    return x * RATE


def with_helper(s, a, y, p):
    return helper(a)


def of_closure(rate: float, note: str = "") -> uc.Task:
    def priced(s, a, y, p):
        return rate * a

    return make(reward=priced)


def test_equal_tasks_have_equal_hashes() -> None:
    assert make().source_hash == make().source_hash
    assert of_closure(1.5).source_hash == of_closure(1.5).source_hash


def test_the_source_hash_sees_functions_constants_and_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [
        make(), make(name="other"), make(version="2"), make(reward=with_helper), make(terminal=terminal),
        of_closure(1.5), of_closure(2.5), make(state=Box), make(outcome=Params), make(continuations=[follow]),
        make(continuations=[uc.Continuation(follow_grid, grid=((1.0,),))]),
        make(continuations=[uc.Continuation(follow_grid, grid=((2.0,),))]),
    ]  # fmt: skip
    hashes = [task.source_hash for task in seen]
    monkeypatch.setitem(globals(), "RATE", 3.0)
    hashes.append(make(reward=with_helper).source_hash)
    assert len(set(hashes)) == len(hashes)


def test_labels_made_from_the_actions_follow_other_actions():
    first = make()
    other = dataclasses.replace(first, actions=(0.0, 2.5, 7.0))
    assert other.labels == ("0", "2.5", "7")
    assert not other.named
    named_by_value = make(label_of="order {:g}".format)
    assert dataclasses.replace(named_by_value, actions=(0.0, 3.0)).labels == ("order 0", "order 3")
    assert dataclasses.replace(named_by_value, label_of=None).labels == first.labels
    assert pickle.loads(pickle.dumps(other)).labels == other.labels


def test_labels_that_a_user_gave_are_kept_and_must_fit():
    named = make(actions=(0.0, 1.0), labels=("idle", "run"))
    assert dataclasses.replace(named, actions=(0.0, 2.0)).labels == ("idle", "run")
    with pytest.raises(InputError, match=r"task.labels.*2 labels \('idle', 'run'\).*3, one per action"):
        dataclasses.replace(named, actions=(0.0, 1.0, 2.0))
    assert dataclasses.replace(named, actions=(0.0, 1.0, 2.0), labels=()).labels == ("0", "1", "2")
    again = pickle.loads(pickle.dumps(named))
    assert dataclasses.replace(again, actions=(0.0, 2.0)).labels == ("idle", "run")
