"""Whole numbers that a float would round are refused where states, parameters, actions and outcomes come in."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.errors import InputError
from ucsearch.layout import as_finite
from ucsearch.tasks import LeadTimeInventory

ROUNDED = 2**53 + 1


class Stock(NamedTuple):
    units: float
    lags: tuple[float, ...] = (0.0, 0.0)


def allowed(s: Any, a: float, p: Any) -> bool:
    return True


def same(s: Any, a: float, y: float, p: Any) -> Any:
    return s


def nothing(s: Any, a: float, y: float, p: Any) -> float:
    return 0.0


def idle(s: Any, p: Any) -> float:
    return 0.0


def task(**more: Any) -> uc.Task:
    return uc.Task("whole", Stock, more.pop("actions", (0.0, 1.0)), allowed, same, nothing, idle, **more)


TRACE = uc.Trace.from_members(np.ones((2, 2)))
POLICY = uc.Exact(depth=2, mode="mean")


def search(state: Any) -> Any:
    return uc.search(task(), state, TRACE, POLICY, engine="python")


def panel(states: Any) -> Any:
    return uc.search_panel(task(), states, uc.Trace.from_members(np.ones((1, 2, 2))), POLICY, engine="python")


@pytest.mark.parametrize(
    ("where", "call"),
    [
        ("task.params.units", lambda: task(params=Stock(ROUNDED))),
        ("task.params.lags", lambda: task(params=Stock(1, (0, -ROUNDED)))),
        ("task.actions", lambda: task(actions=(0, ROUNDED))),
        ("task.actions", lambda: task(actions=(0.5, ROUNDED))),
        ("state.units", lambda: search(Stock(ROUNDED))),
        ("state.units", lambda: search(Stock(np.int64(ROUNDED)))),
        ("state.lags", lambda: search(Stock(1.0, (0.0, ROUNDED)))),
        ("states", lambda: panel(np.array([[1, 2, ROUNDED]]))),
        ("states.units", lambda: panel(Stock([ROUNDED], ([1.0], [1.0])))),
        ("params.units", lambda: uc.search(
            task(params=Stock(1.0)), Stock(1.0), TRACE, POLICY, params=Stock(ROUNDED), engine="python")),
        ("trace.members", lambda: uc.Trace.from_members([[1.0, ROUNDED]])),
        ("trace.members", lambda: uc.Trace.from_members(np.array([[1, ROUNDED]]))),
    ],
)  # fmt: skip
def test_a_whole_number_that_would_be_rounded_is_refused(where: str, call: Any) -> None:
    with pytest.raises(InputError, match="9007199254740993") as refused:
        call()
    assert refused.value.field.split("[")[0].startswith(where)
    assert "2**53" in str(refused.value)


@pytest.mark.parametrize("whole", [2**53, -(2**53), 2**60, 3 * 2**52, True, np.uint8(200)])
def test_whole_numbers_that_floats_hold_are_taken(whole: Any) -> None:
    assert search(Stock(whole, (whole, 0.0))).found
    assert as_finite([whole, 0.5], "x")[0] == float(whole)
    assert task(params=Stock(whole)).params_row[0, 0] == float(whole)


def test_floats_beyond_are_numbers_of_their_own() -> None:
    assert as_finite([float(ROUNDED), 1e300], "x").tolist() == [2.0**53, 1e300]
    assert as_finite(np.array([1e300]), "x")[0] == 1e300


def test_settings_of_a_task_refuse_it_too() -> None:
    with pytest.raises(InputError, match="9007199254740993"):
        LeadTimeInventory(capacity=ROUNDED).task()
