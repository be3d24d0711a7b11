"""Kernels as ordinary modules: the bytes of the plain engine while they are Python, and names that tell them apart."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from tests.conformance.test_engines import CASES, random_panel, random_policy
from ucsearch.engine.arrays import Outputs
from ucsearch.engine.compiled import compile as kernels
from ucsearch.engine.compiled import engine
from ucsearch.layout import Layout
from ucsearch.policies import MODES

MODULES = {name: f"ucsearch.engine.kernels.{name}" for name in ("beam", "exact", "mcts")}
PORTED = [case[:4] for case in CASES if case[1] in MODULES]


@pytest.mark.parametrize(("name", "algorithm", "mode", "order"), PORTED)
def test_as_python_they_give_the_bytes_of_the_plain_engine(name: str, algorithm: str, mode: str, order: str) -> None:
    rng = np.random.default_rng(list(map(ord, name + algorithm)))
    for _ in range(3):
        panel = random_panel(rng, name, mode, 10)
        policy = random_policy(rng, algorithm, mode, order, panel["traces"].horizon)
        asked = uc.search_panel(**panel, policy=policy, engine="python", keep_paths=True)
        task, settings = panel["task"], asked.settings
        kind = kernels.KernelKind(MODULES[algorithm], settings.mode, settings.use_bound)
        entry = engine._form(task, kernels.plain(task, asked.layout, kind))
        outputs = Outputs.empty(10, asked.inputs.actions.shape[1], settings.depth, True)
        with np.errstate(all="ignore"):  # hashes wrap
            engine.run(entry, settings, asked.inputs, outputs, _refuse)
        for field, own, theirs in zip(outputs._fields, outputs, asked.outputs, strict=True):
            assert own.tobytes() == theirs.tobytes(), (field, policy)


def _refuse(w: int) -> None:
    raise AssertionError(f"window {w} was handed over")


class State(NamedTuple):
    x: float


class Pair(NamedTuple):
    x: tuple[float, ...]


RATE = 2.0
TABLE = np.array([1.0, 2.0])
PAIRS = ((0.5, TABLE), (2.0, TABLE))


def helper(x: float) -> float:
    return RATE * x + float(TABLE[0])


def feasible(s: Any, a: float, p: Any) -> Any:
    return a < PAIRS[0][0]


def step(s: Any, a: float, y: float, p: Any) -> Any:
    return s


def reward(s: Any, a: float, y: float, p: Any) -> Any:
    return helper(a) * y


def fallback(s: Any, p: Any) -> float:
    return 0.0


def task(**changes: Any) -> uc.Task:
    parts: dict[str, Any] = dict(feasible=feasible, step=step, reward=reward, fallback=fallback)
    return uc.Task(name="named", state=State, actions=[0.0, 1.0], **{**parts, **changes})


def name(of: uc.Task, state: Any = State(0.0), mode: str = "mean", module: str = "beam") -> str:  # noqa: B008
    return kernels.name_of(of, Layout.of(state, "state"), kernels.KernelKind(MODULES[module], MODES[mode], False))


def times(k: float) -> Any:
    return lambda s, a, y, p: k * a


def test_equal_tasks_have_one_kernel() -> None:
    assert name(task()) == name(task())
    assert name(task(reward=times(2.0))) == name(task(reward=times(2.0)))
    assert len({name(task()), name(task(), mode="members"), name(task(), module="exact")}) == 3
    assert name(task(), Pair((0.0, 0.0))) != name(task(), Pair((0.0, 0.0, 0.0)))


@pytest.mark.parametrize(
    ("changed", "to"),
    [("RATE", 2.5), ("RATE", True), ("TABLE", np.array([1.0, 3.0])), ("PAIRS", ((0.5, TABLE), (2.0, TABLE + 1.0))),
     ("helper", lambda x: RATE * x)],
)  # fmt: skip
def test_what_a_rule_captures_is_part_of_its_kernels_name(
    changed: str, to: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = name(task())
    monkeypatch.setitem(globals(), changed, to)
    assert name(task()) != before


def test_an_array_that_changes_in_place_is_another_kernel() -> None:
    before = name(task())
    TABLE[1] += 1.0
    try:
        assert name(task()) != before
    finally:
        TABLE[1] -= 1.0
    assert name(task()) == before


def test_cells_and_code_are_told_apart() -> None:
    assert name(task(reward=times(2.0))) != name(task(reward=times(3.0)))
    assert name(task(reward=lambda s, a, y, p: a + y)) != name(task(reward=lambda s, a, y, p: a - y))


SAME = """
from ucsearch.engine.compiled import compile as kernels
from ucsearch.policies import MODES
from ucsearch.tasks import LeadTimeInventory

inventory = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 1.0), capacity=9.0)
task = inventory.task()
kind = kernels.KernelKind("ucsearch.engine.kernels.beam", MODES["mean"], True)
print(kernels.name_of(task, task.layout(inventory.state(1.0, (1.0,), 0.0)), kind))
"""


def test_every_process_has_the_same_name_for_it() -> None:
    runs = [
        subprocess.run(
            [sys.executable, "-c", SAME], check=True, capture_output=True, text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert len(runs[0]) > 64
    assert runs[0] == runs[1]
