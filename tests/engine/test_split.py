"""Kernels share the part without a task's rules: compiled once, linked into each, with the plain engine's bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from llvmlite.binding import Linkage

import ucsearch as uc
from ucsearch.engine.compiled import cache, engine, split
from ucsearch.policies import resolve


class Shelf(NamedTuple):
    stock: float
    due: tuple[float, ...]


class Costs(NamedTuple):
    price: float
    hold: float
    room: float


def feasible(s: Shelf, a: float, p: Costs) -> bool:
    return s.stock + s.due[0] + a <= p.room


def step(s: Shelf, a: float, y: float, p: Costs) -> Shelf:
    return Shelf(max(s.stock + s.due[0] - y, 0.0), (*s.due[1:], a))


def reward(s: Shelf, a: float, y: float, p: Costs) -> float:
    return p.price * min(s.stock + s.due[0], y) - p.hold * max(s.stock + s.due[0] - y, 0.0)


def reward_by_array(s: Shelf, a: float, y: float, p: Costs) -> float:
    """Allocates, so references must be counted, and raises for one outcome."""
    worth = np.zeros(2)
    worth[0] = p.price * min(s.stock + s.due[0], y)
    worth[1] = p.hold * max(s.stock + s.due[0] - y, 0.0)
    if y > 11.3:
        raise ValueError("too much")
    return float(worth[0] - worth[1])


def step_of_one(s: Shelf, a: float, y: float, p: Costs) -> Shelf:
    return Shelf(max(s.stock + s.due[0] - y, 0.0), (a,))


def fallback(s: Shelf, p: Costs) -> float:
    return 0.0


def shelf(worth: Any, then: Any) -> uc.Task:
    return uc.Task(
        name="shelf", state=Shelf, actions=(0.0, 1.37, 2.9, 4.41), params=Costs(3.19, 0.137, 9.3), feasible=feasible,
        step=then, reward=worth, fallback=fallback,
    )  # fmt: skip


def same_bytes(task: uc.Task, due: tuple[float, ...], spread: float) -> None:
    """On a rough panel: decimal costs, unequal weights."""
    rng = np.random.default_rng(5)
    members = np.round(rng.gamma(2.0, spread, (60, 5, 4)), 3)
    trace = uc.Trace.from_members(members, rng.random(5) + 0.13, normalise=True)
    states = [Shelf(round(float(x), 2), due) for x in rng.random(60) * 5.0]
    policy = uc.UCBeam(depth=3, width=9, top_k=4, risk=0.0371)
    fast = uc.search_panel(task, states, trace, policy, engine="compiled", threads=1)
    plain = uc.search_panel(task, states, trace, policy, engine="python")
    assert fast.engine == "compiled"
    for name in fast.outputs._fields:
        assert getattr(fast.outputs, name).tobytes() == getattr(plain.outputs, name).tobytes(), name
    assert len(set(fast.action.tolist())) > 1
    layout = task.layout(states[0])
    kernel: Any = engine.ready_kernel(task, layout, resolve(policy, task, trace, len(task.actions)))
    assert kernel.py_func.__name__ == "uc_split_panel"
    (made,) = kernel.overloads.values()
    functions = made.library._get_module_for_linking().functions
    shared = {f.name for f in functions if not f.is_declaration and f.linkage is not Linkage.internal}
    assert len(shared) > 1
    assert all(kernel.py_func.__module__ in name or name.startswith("NRT_") for name in shared), shared


@pytest.mark.compiled
def test_tasks_share_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also tasks with other states and parameters, and with rules that allocate or raise."""
    same_bytes(shelf(reward, step), (0.7, 1.1), 1.7)

    def never(*_: Any) -> Any:
        raise AssertionError("compiled again")

    monkeypatch.setattr(split, "_compile", never)
    same_bytes(shelf(reward_by_array, step_of_one), (0.7,), 2.5)


@pytest.mark.compiled
@pytest.mark.parametrize("policy", [uc.Exact(depth=2, mode="members"), uc.MCTS(depth=2, simulations=9)])
def test_no_driver_is_given_up(policy: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A kernel that cannot be linked is compiled whole, which takes ten times as long and is said nowhere but here."""
    task = shelf(reward, step)
    trace = uc.Trace.from_members([[1.5, 0.2], [0.7, 2.1]])
    with caplog.at_level("DEBUG", "ucsearch"):
        plan = uc.search(task, Shelf(1.3, (0.7, 1.1)), trace, policy, engine="compiled")
    assert plan.engine == "compiled"
    assert not [r for r in caplog.records if "as a whole" in r.message]


def test_only_a_tasks_own_functions_are_left_to_each_task() -> None:
    """What else there is, is compiled once for all of them: the compile time of a new task hangs on this."""
    for algorithm, members in (("beam", False), ("exact", False), ("exact", True), ("mcts", True)):
        text = split._driver_text(algorithm, members)
        rest = "".join(part for part in text.split("@uc_") if not any(f"def {name}(" in part for name in split._OPS))
        for name in ("uc_load", "uc_store", "uc_step", "uc_reward", "uc_feasible", "uc_terminal", "uc_end", "uc_bound"):
            assert f"{name}(" not in rest, (algorithm, name)


TWINS = """
import sys
from typing import Any, NamedTuple
import numpy as np
import ucsearch as uc

class Level(NamedTuple):
    x: float

class Unit(NamedTuple):
    cost: float = 1.0

def feasible(s, a, p):
    return True

def step(s, a, y, p):
    return Level(s.x + a - y)

def reward(s, a, y, p):
    return -abs(s.x + a - y) * p.cost

def fallback(s, p):
    return 0.0

def bound(s, h, table, p):
    return table[h, 0]

def loose(members: Any, p: Unit) -> Any:
    table = np.zeros((4, 1))
    table[:, 0] = 50.0
    return table

def looser(members: Any, p: Unit) -> Any:
    table = np.zeros((4, 1))
    table[:, 0] = 70.0
    return table

def tight(members: Any, p: Unit) -> Any:
    table = np.zeros((4, 1))
    table[:, 0] = 0.0
    return table

for prepare in sys.argv[1:]:
    task = uc.Task(name="twin", state=Level, actions=[0, 1, 2], feasible=feasible, step=step, reward=reward,
                   fallback=fallback, params=Unit(), prepare=globals()[prepare], bound=bound)
    trace = uc.Trace.from_members([[1.0, 2.0, 1.0], [0.0, 1.0, 2.0]])
    for engine in ("compiled", "python"):
        print(uc.search(task, Level(0.0), trace, uc.Exact(depth=3, order="bound"), engine=engine).expansions)
"""


@pytest.mark.slow
def test_kernels_of_twin_tasks_that_two_processes_made_do_not_run_each_others_rules(tmp_path: Path) -> None:
    """Numba numbers functions by process, so theirs have the same numbers."""
    script = tmp_path / "twins.py"
    script.write_text(TWINS)

    def nodes(*names: str) -> list[int]:
        env = {**os.environ, "UCSEARCH_CACHE_DIR": str(tmp_path / "kernels")}
        done = subprocess.run([sys.executable, script, *names], env=env, capture_output=True, text=True, check=True)
        return [int(line) for line in done.stdout.split()]

    nodes("looser")  # what all kernels share
    of_loose, of_tight = nodes("loose"), nodes("tight")
    assert of_loose[0] == of_loose[1] > of_tight[0] == of_tight[1]
    assert nodes("loose", "tight") == of_loose + of_tight
    assert nodes("tight", "loose") == of_tight + of_loose


def test_a_damaged_driver_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / f"{cache.DRIVERS}x.bin"
    kept = split._Driver(b"bits", {"uc_valued": (split._I, split._OWN)})
    split._write(path, kept)
    assert split._read(path) == kept
    content = bytearray(path.read_bytes())
    content[-9] ^= 1
    path.write_bytes(bytes(content))
    assert split._read(path) is None
    assert not path.exists()
    assert split._read(path) is None
    assert split._read(None) is None
