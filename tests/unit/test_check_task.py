"""`check_task` on tasks broken one way at a time: the message names the cause."""

from __future__ import annotations

import inspect
import itertools
import math
import random
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.templates import TEMPLATES, Cell, Charge, Clock, Position, Step, Stock, Tank, Weather
from ucsearch.check import TaskWarning
from ucsearch.errors import InputError, TaskError


class Bin(NamedTuple):
    level: float
    queue: tuple[float, float]


class BinParams(NamedTuple):
    size: Any


def bin_feasible(s, a, p):
    return 0.0 <= s.level + a <= p.size


def bin_step(s, a, y, p):
    return Bin(s.level + a, (s.queue[1], a))


def bin_reward(s, a, y, p):
    return a * y


def bin_fallback(s, p):
    return 0.0


def bin_invariant(s, p):
    return 0.0 <= s.level <= p.size


def broken(**faults: Any) -> uc.Task:
    """A sound task with one part replaced."""
    sound: dict[str, Any] = {
        "name": "bin", "state": Bin, "actions": [-1.0, 0.0, 1.0], "params": BinParams(3.0), "feasible": bin_feasible,
        "step": bin_step, "reward": bin_reward, "fallback": bin_fallback, "invariant": bin_invariant,
    }  # fmt: skip
    return uc.Task(**{**sound, **faults})


START = Bin(1.0, (0.0, 0.0))
OUTCOMES = [2.0, -1.0]


def check(task: uc.Task, **kwargs: Any) -> None:
    """Warnings are failures here: a test about an error should not pass through one."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        uc.check_task(task, START, OUTCOMES, **kwargs)


def test_the_sound_task_passes() -> None:
    check(broken())


@pytest.mark.parametrize(
    ("name", "state", "outcomes"),
    [
        ("battery", Charge(2.0, 0.0), [10.0, -5.0]), ("tank", Tank(1.0), [Weather(1.0, 2.0), (0.5, 1.0)]),
        ("clock", Clock(0.0), [1.0]), ("free", Step(0.0), [1.0, -1.0]), ("position", Position(0.0, 0.0), [0.5]),
    ],
)  # fmt: skip
def test_sound_templates_pass(name: str, state: Any, outcomes: list[Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        uc.check_task(TEMPLATES[name].task, state, outcomes)


def test_both_engines_are_compared_on_request() -> None:
    """The battery's kernel is one that the conformance tests need anyway."""
    uc.check_task(TEMPLATES["battery"].task, Charge(2.0, 0.0), [10.0, -5.0], compiled=True)


def test_engines_that_disagree_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    from ucsearch.engine import api

    real = api.search

    def tampered(*args: Any, engine: Any = "auto", **kwargs: Any) -> Any:
        plan = real(*args, engine="python", **kwargs)
        if engine == "compiled":
            object.__setattr__(plan, "engine", "compiled")
            plan.outputs.table[0, 0, 0] += 1e-12
        return plan

    monkeypatch.setattr(api, "search", tampered)
    with pytest.raises(TaskError, match="the compiled engine computes something else than the Python engine"):
        uc.check_task(TEMPLATES["battery"].task, Charge(2.0, 0.0), [10.0, -5.0], compiled=True)


# -------------------------------------------------------------------- errors


def too_generous(s, a, p):
    return True


def poor_reward(s, a, y, p):
    return math.inf if s.level > 2.0 else 0.0


def nan_reward(s, a, y, p):
    return math.nan if a == 1.0 else 0.0


def text_reward(s, a, y, p):
    return "much"


def none_reward(s, a, y, p):
    return None


def raising_reward(s, a, y, p):
    return 1.0 / (s.level + a - 2.0)


def long_queue(s, a, y, p):
    return Bin(s.level + a, s.queue + (a,))


def flat_queue(s, a, y, p):
    return Bin(s.level + a, a)


def nested_level(s, a, y, p):
    return Bin((s.level, a), s.queue)


def short_state(s, a, y, p):
    return (s.level + a,)


def bare_number(s, a, y, p):
    return s.level + a


def infinite_state(s, a, y, p):
    return Bin(s.level + a, (math.inf, 0.0))


_tick = itertools.count()
_mood = itertools.cycle([True, False])


def counting_step(s, a, y, p):
    return Bin(s.level + a, (float(next(_tick)), a))


def random_reward(s, a, y, p):
    return random.random()


def moody_feasible(s, a, p):
    return next(_mood)


def greedy_step(s, a, y, p):
    p.size[...] = p.size + 1.0
    return Bin(s.level + a, (s.queue[1], a))


def number_feasible(s, a, p):
    return 1.0


def raising_feasible(s, a, p):
    return s.missing


def unknown_fallback(s, p):
    return 0.5


def raising_fallback(s, p):
    return s.missing


def infinite_terminal(s, p):
    return math.inf


def raising_terminal(s, p):
    return s.missing


def raising_invariant(s, p):
    return s.missing


def never(s, p):
    return False


def lost(s, h, p):
    return math.nan


def raising_policy(s, h, p):
    return s.missing


ERRORS: dict[str, tuple[dict[str, Any], str]] = {
    "a feasible action into a forbidden state": (
        {"feasible": too_generous},
        "task 'bin': a feasible action leads into Bin(level=-1.0, queue=(-1.0, -1.0)), which the invariant forbids: "
        "feasible allows too much, or step goes wrong (step 1, action -1.0)",
    ),
    "a start that the invariant forbids": (
        {"invariant": never},
        "task 'bin': the starting state Bin(level=1.0, queue=(0.0, 0.0)) violates the invariant",
    ),
    "an infinite reward": (
        {"reward": poor_reward},
        "task 'bin': reward is inf for outcome 2.0, expected a finite number (step 2, action -1.0)",
    ),
    "a NaN reward": (
        {"reward": nan_reward},
        "task 'bin': reward is nan for outcome 2.0, expected a finite number (step 0, action 1.0)",
    ),
    "a reward of text": (
        {"reward": text_reward},
        "task 'bin': reward is 'much' for outcome 2.0, expected a finite number",
    ),
    "no reward": ({"reward": none_reward}, "task 'bin': reward is None for outcome 2.0, expected a finite number"),
    "a reward that raises": (
        {"reward": raising_reward},
        "task 'bin': reward raised ZeroDivisionError: float division by zero (step 0, action 1.0)",
    ),
    "a queue that grows": (
        {"step": long_queue},
        "task 'bin': step returned a tuple of 3 in field 'queue', expected a tuple of 2 (step 0, action -1.0)",
    ),
    "a queue that became a number": (
        {"step": flat_queue},
        "task 'bin': step returned -1.0 in field 'queue', expected a tuple of 2 (step 0, action -1.0)",
    ),
    "a number that became a tuple": (
        {"step": nested_level},
        "task 'bin': step returned a tuple of 2 in field 'level', expected a float (step 0, action -1.0)",
    ),
    "a state with a field missing": (
        {"step": short_state},
        "task 'bin': step returned (0.0,), expected a Bin with 2 fields (step 0, action -1.0)",
    ),
    "a state that is a number": (
        {"step": bare_number},
        "task 'bin': step returned 0.0, expected a Bin with 2 fields (step 0, action -1.0)",
    ),
    "an infinite state": (
        {"step": infinite_state},
        "task 'bin': step returned Bin(level=0.0, queue=(inf, 0.0)) for outcome 2.0, expected finite numbers",
    ),
    "a step that counts its calls": (
        {"step": counting_step},
        "task 'bin': step is not deterministic: two calls with equal arguments gave",
    ),
    "a random reward": (
        {"reward": random_reward},
        "task 'bin': reward is not deterministic: two calls with equal arguments gave",
    ),
    "a moody feasible": ({"feasible": moody_feasible}, "task 'bin': feasible is not deterministic: two calls"),
    "a feasible that gives a number": (
        {"feasible": number_feasible},
        "task 'bin': feasible returned 1.0, expected True or False (step 0, action -1.0)",
    ),
    "a feasible that raises": (
        {"feasible": raising_feasible},
        "task 'bin': feasible raised AttributeError: 'Bin' object has no attribute 'missing' (step 0, action -1.0)",
    ),
    "a fallback that is no action": (
        {"fallback": unknown_fallback},
        "task 'bin': fallback returned 0.5, expected one of (-1.0, 0.0, 1.0)",
    ),
    "a fallback that raises": ({"fallback": raising_fallback}, "task 'bin': fallback raised AttributeError"),
    "an infinite terminal value": (
        {"terminal": infinite_terminal},
        "task 'bin': terminal is inf in Bin(level=1.0, queue=(0.0, 0.0)), expected a finite number",
    ),
    "a terminal that raises": ({"terminal": raising_terminal}, "task 'bin': terminal raised AttributeError"),
    "an invariant that raises": ({"invariant": raising_invariant}, "task 'bin': invariant raised AttributeError"),
    "a continuation that is lost": ({"continuations": [lost]}, "task 'bin': continuation 0 returned nan in Bin("),
    "a continuation that raises": (
        {"continuations": [raising_policy]},
        "task 'bin': continuation 0 raised AttributeError",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_a_broken_task_is_caught(name: str) -> None:
    faults, message = ERRORS[name]
    with pytest.raises(TaskError) as caught:
        check(broken(**faults))
    assert str(caught.value).startswith(message)


def test_a_function_that_changes_its_input_is_caught() -> None:
    """Parameters are numbers; a zero-dimensional array is one that can be changed from inside."""
    task = broken(params=BinParams(np.array(3.0)), step=greedy_step)
    with pytest.raises(TaskError, match=r"step changed its input; build a new state instead \(step 0, action -1.0\)"):
        check(task)


def test_the_error_carries_step_and_action() -> None:
    with pytest.raises(TaskError) as caught:
        check(broken(reward=nan_reward))
    assert (caught.value.task, caught.value.step, caught.value.action) == ("bin", 0, 1.0)


def test_a_deeper_fault_needs_a_deeper_walk() -> None:
    check(broken(reward=poor_reward), depth=2)
    with pytest.raises(TaskError, match="reward is inf"):
        check(broken(reward=poor_reward), depth=3)


# -------------------------------------------------------------------- bounds


def zeros(outcomes, p):
    return np.zeros(outcomes.shape[0] + 1)


def as_list(outcomes, p):
    return [0.0] * (outcomes.shape[0] + 1)


def raising_prepare(outcomes, p):
    return outcomes.missing


def high(s, h, table, p):
    return 100.0


def by_steps_left(s, h, table, p):
    return 100.0 * (len(table) - h)


def by_step_index(s, h, table, p):
    return 100.0 - h


def low(s, h, table, p):
    return table[h]  # 0, although an order may earn something


def low_late(s, h, table, p):
    return 100.0 if h < 2 else -5.0


def nan_bound(s, h, table, p):
    return math.nan


def raising_bound(s, h, table, p):
    return table[99]


def first_member(outcomes, p, view):
    return view.members[0] + 0.0


def most_of_each_step(outcomes, p, view):
    table = np.empty(len(outcomes))
    for k in range(len(outcomes)):
        table[k] = max(view.members[:, k])
    return table


def test_an_admissible_bound_passes() -> None:
    check(broken(prepare=zeros, bound=high))
    check(broken(prepare=most_of_each_step, bound=high, by_step=True))
    check(broken(prepare=zeros, bound=by_steps_left, by_rest=True))
    check(broken(prepare=first_member, bound=high))


BOUNDS: dict[str, tuple[dict[str, Any], str]] = {
    "below the best": (
        {"prepare": zeros, "bound": low},
        "task 'bin': bound is not admissible: it promises at most 0.0 in Bin(level=",
    ),
    "below the best later on": (
        {"prepare": zeros, "bound": low_late},
        "task 'bin': bound is not admissible: it promises at most -5.0 in Bin(level=",
    ),
    "NaN": ({"prepare": zeros, "bound": nan_bound}, "task 'bin': bound is NaN in Bin(level="),
    "a list for a table": (
        {"prepare": as_list, "bound": high},
        "task 'bin': prepare returned list, expected a float64 array",
    ),
    "a prepare that raises": ({"prepare": raising_prepare, "bound": high}, "task 'bin': prepare raised AttributeError"),
    "an order that does count": (
        {"prepare": first_member, "bound": high, "by_step": True},
        "task 'bin': prepare gives another table when a step's members come in another order",
    ),
    "an index that does count": (
        {"prepare": zeros, "bound": by_step_index, "by_rest": True},
        "task 'bin': bound is 98.0 in Bin(level=",
    ),
    "a bound that raises": ({"prepare": zeros, "bound": raising_bound}, "task 'bin': bound raised IndexError"),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_a_broken_bound_is_caught(name: str) -> None:
    faults, message = BOUNDS[name]
    with pytest.raises(TaskError) as caught:
        check(broken(**faults))
    assert str(caught.value).startswith(message)
    if "admissible" in message:
        assert str(caught.value).split("; ")[1].startswith("a bound must never be below the best value to go")


# -------------------------------------------------------------------- warnings


def squared(s, a, y, p):
    return a**2


def summed(s, a, y, p):
    return sum(s.queue) * 1.0


def rounded(s, a, y, p):
    return round(a * y, 1)


def rooted(s, a, y, p):
    return math.hypot(a, y)


def factorial(s, a, y, p):
    return math.gamma(a + 3.0)


def log_factorial(s, a, y, p):
    return math.lgamma(a + 3.0)


def generated(s, a, y, p):
    return max(x for x in s.queue) * a


def replaced(s, a, y, p):
    return s._replace(level=s.level + a)


def sliced(s, a, y, p):
    edge = math.floor(abs(a) * 0.0) + 1
    return Bin(s.level + a, (s.queue[edge:] + (a,)))


def tried(s, a, y, p):
    try:
        return a * y
    except ValueError:
        return 0.0


def inner(s, a):
    return a**3


def through_a_helper(s, a, y, p):
    return inner(s, a)


def line_of(function: Callable[..., Any], text: str) -> int:
    source, start = inspect.getsourcelines(function)
    return start + next(i for i, line in enumerate(source) if text in line)


OUTSIDE: dict[str, tuple[str, Callable[..., Any], str, str, str]] = {
    "power": ("reward", squared, "a**2", "**", "multiply it out (x * x)"),
    "sum": ("reward", summed, "sum(", "sum()", "add up in a for loop"),
    "hypot": ("reward", rooted, "hypot", "math.hypot()", "write math.sqrt(x * x + y * y)"),
    "gamma": ("reward", factorial, "gamma", "math.gamma()", "tabulate it in the parameters"),
    "lgamma": ("reward", log_factorial, "lgamma", "math.lgamma()", "tabulate it in the parameters"),
    "generator": ("reward", generated, "for x in", "a generator expression", "write a for loop"),
    "round": ("reward", rounded, "round(", "round()", "write math.floor(x + 0.5)"),
    "_replace": ("step", replaced, "_replace", "._replace", "write Bin(...) with every field"),
    "variable slice": ("step", sliced, "edge:", "a slice with a variable edge", "use constant edges such as [1:]"),
    "except": ("reward", tried, "try:", "try", "test the condition before the operation"),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_runs_in_plain_python_is_named(name: str) -> None:
    role, function, text, what, instead = OUTSIDE[name]
    with pytest.warns(TaskWarning) as caught:
        uc.check_task(broken(**{role: function}), START, OUTCOMES)
    (message,) = [str(w.message) for w in caught]
    place = f"{role} ({__file__}:{line_of(function, text)})"
    assert message.startswith(
        f"task 'bin' runs in plain Python (same results, slower). Cause: {place}: {what}; {instead}"
    )
    assert caught[0].filename == __file__  # the warning points at the caller, not into the package


def test_helpers_are_read_too() -> None:
    with pytest.warns(TaskWarning) as caught:
        uc.check_task(broken(reward=through_a_helper), START, OUTCOMES)
    (message,) = [str(w.message) for w in caught]
    assert f"reward -> inner ({__file__}:{line_of(inner, 'a**3')})" in message


def careful_fallback(s, p):
    try:
        return 0.0
    except ValueError:
        return 1.0


def test_what_is_never_compiled_need_not_compile() -> None:
    check(broken(fallback=careful_fallback))


def jumpy_fallback(s, p):
    return 1.0


def test_a_pipeline_with_a_bound_and_continuations_passes() -> None:
    """Two-sided ramps make "order nothing" infeasible after a large order, and that is all there is to say."""
    for name in ("stock", "followed"):
        with pytest.warns(TaskWarning) as caught:
            uc.check_task(TEMPLATES[name].task, Stock(2.0, (2.0, 0.0), 2.0), [1.0, 4.0])
        (message,) = [str(w.message) for w in caught]
        assert f"task {name!r}: fallback 0.0 is not feasible in Stock(" in message


def test_an_infeasible_fallback_is_a_warning() -> None:
    """It is legal (the decision becomes a HOLD), so it is no error."""
    with pytest.warns(
        TaskWarning, match=r"fallback 1.0 is not feasible in Bin\(level=3.0.*falls back there is a HOLD"
    ) as caught:
        uc.check_task(broken(fallback=jumpy_fallback), START, OUTCOMES)
    assert caught[0].filename == __file__


# -------------------------------------------------------------------- the caller's own mistakes

INPUTS: dict[str, tuple[Callable[[], object], str]] = {
    "a state of another type": (
        lambda: uc.check_task(broken(), Cell(0.0, 0.0), [1.0]),
        "state: saw Cell, expected a Bin",
    ),
    "a NaN state": (lambda: uc.check_task(broken(), Bin(math.nan, (0.0, 0.0)), [1.0]), "state.level: saw nan"),
    "no outcomes": (
        lambda: uc.check_task(broken(), START, []),
        "outcomes: saw an empty list, expected at least one outcome, e.g. outcomes=[20.0, 80.0]",
    ),
    "a NaN outcome": (
        lambda: uc.check_task(broken(), START, [1.0, math.nan]),
        "outcomes[1]: saw nan, expected a finite number",
    ),
    "a text outcome": (lambda: uc.check_task(broken(), START, ["high"]), "outcomes[0]: saw 'high', expected a number"),
    "too few fields": (
        lambda: uc.check_task(TEMPLATES["tank"].task, Tank(1.0), [(1.0, 2.0), (1.0,)]),
        "outcomes[1]: saw 1 values, expected 2 fields",
    ),
}


@pytest.mark.parametrize("name", INPUTS)
def test_bad_arguments_are_refused(name: str) -> None:
    call, message = INPUTS[name]
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(message)
