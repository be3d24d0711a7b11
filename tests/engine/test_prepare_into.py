"""`Task.prepare_into`: kernels fill a table in place of `prepare`; one that gives other tables is refused and named."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.engine.compiled import compile as kernels
from ucsearch.errors import InputError, TaskError, UncompilableWarning
from ucsearch.tasks import LeadTimeInventory
from ucsearch.tasks.inventory.bound import MEAN, TOP
from ucsearch.tasks.inventory.bound import fill as own_fill

INVENTORY = LeadTimeInventory(lead_time=1, capacity=20.0, ramp=3.0, unit_cost=0.5)
TASK = INVENTORY.task()
LIBRARY = TASK.prepare_into
POLICY = uc.UCBeam(depth=4, risk=0.25, width=4, top_k=3, order="bound")
WINDOWS = 12


def panel(task: uc.Task, engine: Any = "compiled", **more: Any) -> Any:
    rng = np.random.default_rng(5)
    states = [INVENTORY.state(float(x), (float(y),)) for x, y in rng.integers(0, 6, (WINDOWS, 2))]
    members = rng.poisson(3.0, (WINDOWS, 20, 5)).astype(float)
    return uc.search_panel(task, states, members, POLICY, engine=engine, threads=1, **more)


def assert_equal(a: Any, b: Any) -> None:
    for name, x, y in zip(a.outputs._fields, a.outputs, b.outputs, strict=True):
        assert x.tobytes() == y.tobytes(), name


def with_fill(fill: Any, **more: Any) -> uc.Task:
    assert LIBRARY is not None
    return dataclasses.replace(TASK, prepare_into=uc.Fill(LIBRARY.room, fill, **more))


def larger_demand(table: Any, outcomes: Any, p: Any, view: Any) -> None:
    own_fill(table, outcomes, p, view)
    table[TOP + MEAN] += 1.0


def beyond_the_room(table: Any, outcomes: Any, p: Any, view: Any) -> None:
    own_fill(table, outcomes, p, view)
    table[len(table)] = 0.0


def test_it_is_no_part_of_the_identity() -> None:
    assert LIBRARY is not None
    without = dataclasses.replace(TASK, prepare_into=None)
    assert without.source_hash == TASK.source_hash == with_fill(larger_demand).source_hash


def test_kernels_with_and_without_give_the_same_bytes() -> None:
    plain = panel(TASK, "python")
    assert_equal(panel(TASK), plain)
    assert_equal(panel(dataclasses.replace(TASK, prepare_into=None)), plain)


@pytest.fixture
def first_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No kernel was held against the plain engine."""
    monkeypatch.setenv("UCSEARCH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernels, "is_held", lambda name: False)


def test_kernels_call_it_and_the_plain_engine_does_not() -> None:
    calls = list[int]()

    def noted(table: Any, outcomes: Any, p: Any, view: Any) -> None:
        calls.append(len(outcomes))
        own_fill(table, outcomes, p, view)

    panel(with_fill(noted), "python")
    assert calls == []
    panel(with_fill(noted))
    assert calls == [3] * WINDOWS  # without step 0, as the task is `by_rest`


def test_one_that_differs_is_refused_at_first_use_and_named(first_use: None) -> None:
    task = with_fill(larger_demand)
    with pytest.warns(UncompilableWarning, match=r"of window \d+; prepare_into.fill leaves .* at place \d+, where"):
        found = panel(task)
    assert found.engine == "python"
    assert_equal(found, panel(TASK, "python"))


@pytest.mark.parametrize(
    ("fill", "words"),
    [
        (larger_demand, r"prepare_into.fill leaves [\d.-]+ at place 8, where prepare has "),
        (beyond_the_room, "prepare_into.fill raised IndexError"),
    ],
)
def test_check_task_finds_it(fill: Any, words: str) -> None:
    state = INVENTORY.state(2.0, (1.0,))
    uc.check_task(TASK, state, [1.0, 4.0], depth=2)
    with pytest.raises(TaskError, match=words):
        uc.check_task(with_fill(fill), state, [1.0, 4.0], depth=2)


def test_check_task_finds_too_little_room() -> None:
    task = dataclasses.replace(TASK, prepare_into=uc.Fill(lambda steps, members: steps, lambda t, y, p, v: None))
    with pytest.raises(TaskError, match=r"prepare_into.room is 3, and the table of prepare has \d+ numbers"):
        uc.check_task(task, INVENTORY.state(2.0, (1.0,)), [1.0, 4.0], depth=2)


@pytest.mark.slow  # compiles an inventory's kernels
@pytest.mark.compiled
def test_an_index_beyond_the_room_gives_the_window_to_the_plain_engine() -> None:
    found = panel(with_fill(beyond_the_room))
    assert_equal(found, panel(TASK, "python"))


def test_checked_and_unchecked_are_two_kernels() -> None:
    assert LIBRARY is not None
    state = TASK.layout(INVENTORY.state(2.0, (1.0,)))
    kind = kernels.KernelKind("ucsearch.engine.kernels.beam", 0, True)
    names = {kernels.name_of(with_fill(LIBRARY.fill, unchecked=flag), state, kind) for flag in (True, False)}
    assert len(names) == 2


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no Fill": ({"prepare_into": len}, "expected a uc.Fill"),
    "no prepare": ({"prepare": None, "bound": None}, r"expected a task with prepare\(outcomes, p, view\)"),
    "a fill of three": ({"prepare_into": uc.Fill(lambda s, m: s, lambda t, y, p: None)}, "prepare_into.fill: saw 3"),  # type: ignore[arg-type, misc]
    "a room that is no sum of multiples": (
        {"prepare_into": uc.Fill(lambda s, m: s * s + 1, lambda t, y, p, v: None)}, "room: saw 50 for 7 steps",
    ),
    "no room": ({"prepare_into": uc.Fill(lambda s, m: 0, lambda t, y, p, v: None)}, "prepare_into.room: saw 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_is_refused_when_the_task_is_made(name: str) -> None:
    changes, words = REFUSED[name]
    with pytest.raises(InputError, match=words):
        dataclasses.replace(TASK, **changes)
