"""Kernels: made once however many ask, of the rules in force, let go with their tasks, and trusted only if ours."""

from __future__ import annotations

import gc
import logging
import math
import stat
import threading
import warnings
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import njit

import ucsearch as uc
from ucsearch.engine import PanelPlan
from ucsearch.engine.arrays import COMPLETION_CAP, DP_SWITCH, ENUMERATE_BELOW, FSet, ISet
from ucsearch.engine.cache import FOLDER, cache_dir
from ucsearch.engine.compiled import compile as kernels
from ucsearch.engine.compiled import engine
from ucsearch.policies import Settings, resolve

pytestmark = pytest.mark.compiled

THREADS = 8


class S(NamedTuple):
    x: float


TARIFF = np.array([1.0, 2.0, 3.0])
RATE = 2.0


def feasible(s: Any, a: float, p: Any) -> Any:
    return a <= 2.0


def step(s: Any, a: float, y: float, p: Any) -> Any:
    return S(s.x + a)


def reward(s: Any, a: float, y: float, p: Any) -> Any:
    if s.x > 100.0:
        return 1.0 / (s.x - s.x)
    return RATE * TARIFF[math.floor(s.x + a)] * y


def fallback(s: Any, p: Any) -> float:
    return 0.0


def task_of(name: str = "kernels", **changes: Any) -> uc.Task:
    parts: dict[str, Any] = dict(feasible=feasible, step=step, reward=reward, fallback=fallback)
    return uc.Task(name=name, state=S, actions=[0.0, 1.0, 2.0], **{**parts, **changes})


POLICY = uc.UCBeam(depth=2, width=2, risk=0.1)
TRACE = uc.Trace.from_members(np.ones((2, 2)))


def settings_of(task: uc.Task) -> Any:
    return resolve(POLICY, task, TRACE, 3)


def kernel_of(task: uc.Task) -> Any:
    return engine.find_kernel(task, task.layout(S(0.0)), settings_of(task))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UCSEARCH_CACHE_DIR", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


def numbered(k: int) -> uc.Task:
    """Tasks of different numbers have different rules."""
    return task_of(version=str(k), reward=lambda s, a, y, p: k * a)


@pytest.fixture
def cheap(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that compile in a moment and give their task's number."""

    def built(task: uc.Task, *rest: Any) -> Any:
        number = int(task.version)

        @njit
        def entry(*arguments):
            return number

        return entry

    monkeypatch.setattr(kernels, "_built", built)


@pytest.mark.parametrize("kinds", [1, 3], ids=["one task", "several tasks"])
@pytest.mark.parametrize("turn", ["cold", "warm"])
@pytest.mark.usefixtures("cheap")
def test_many_threads_at_first_use_all_get_the_kernel(kinds: int, turn: str) -> None:
    """Also when machine code is on disk already, and from task objects of their own."""

    def tasks() -> list[uc.Task]:
        return [numbered(k) for k in range(kinds)]

    if turn == "warm":
        for task in tasks():
            assert kernel_of(task) is not None
        gc.collect()
    own, barrier = tasks(), threading.Barrier(THREADS)

    def first_use(i: int) -> Any:
        barrier.wait(timeout=60)
        return kernel_of(own[i % kinds])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with ThreadPoolExecutor(THREADS) as pool:
            found = list(pool.map(first_use, range(THREADS)))
    assert None not in found
    assert len({id(k) for k in found}) == kinds
    assert [k() for k in found[:kinds]] == list(range(kinds))


@pytest.mark.usefixtures("cheap")
def test_equal_tasks_share_a_kernel_and_let_go_of_it() -> None:
    before = set(kernels._loaded)
    first, second = numbered(7), numbered(7)
    assert kernel_of(first) is kernel_of(second)
    gone, names = weakref.ref(first), [name for name in kernels._loaded if name not in before]
    assert names
    del first, second
    gc.collect()
    assert gone() is None
    assert not [name for name in names if name in kernels._loaded]


@pytest.mark.usefixtures("folder")
def test_throw_away_tasks_leave_nothing_behind() -> None:
    def used(k: int) -> Any:
        def helper(x: float) -> float:
            return k * x

        def own_reward(s: Any, a: float, y: float, p: Any) -> float:
            return helper(a) * y

        task = task_of(f"t{k}", reward=own_reward)
        uc.search(task, S(0.0), TRACE, POLICY, engine="auto")
        return weakref.ref(task)

    refs = [used(k) for k in range(400)]
    gc.collect()
    assert sum(ref() is not None for ref in refs) == 0


@pytest.mark.parametrize("place", [FOLDER, "parent"])
def test_only_what_this_user_alone_can_write_is_trusted(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = tmp_path / "parent"
    folder = parent / "kernels"
    folder.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("UCSEARCH_CACHE_DIR", str(folder))
    assert cache_dir() == folder
    open_to_all = parent if place == "parent" else folder / place
    open_to_all.chmod(0o777)
    assert cache_dir() is None
    open_to_all.chmod(0o777 | stat.S_ISVTX)
    assert (cache_dir() == folder) == (place == "parent")


@pytest.mark.usefixtures("cheap")
def test_compiling_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="ucsearch"):
        assert uc.warm(numbered(11), POLICY, certify=False) == ("search",)
        assert caplog.records[0].message.startswith("compiling beam")
        caplog.clear()
        assert uc.warm(numbered(11), POLICY, certify=False) == ("search",)
    assert not caplog.records


def test_warming_names_what_is_missing() -> None:
    class Tuples(NamedTuple):
        x: tuple[float, ...]

    task = uc.Task(
        name="t", state=Tuples, actions=[0.0], feasible=feasible, step=step, reward=reward, fallback=fallback
    )  # fmt: skip
    with pytest.raises(uc.InputError, match="hold tuples"):
        uc.warm(task, POLICY)


def test_both_engines_call_the_same_rules_broken() -> None:
    """One real kernel: an index past the end, a negative one, a division by zero; from eight threads."""
    task = task_of()
    states = [S(-2.0), S(2.0), S(200.0), S(-3.0), S(600.0), S(0.0)] * 4
    trace = uc.Trace.from_members(np.ones((len(states), 2, 2)))
    plain = uc.search_panel(task, states, trace, POLICY, engine="python")
    assert plain.status.tolist()[:6] == [0, 5, 5, 0, 5, 5]
    barrier = threading.Barrier(THREADS)

    def compiled(_: int) -> PanelPlan:
        barrier.wait(timeout=60)
        return uc.search_panel(task, states, trace, POLICY, engine="compiled", threads=2)

    with ThreadPoolExecutor(THREADS) as pool:
        for found in pool.map(compiled, range(THREADS)):
            assert found.engine == "compiled"
            assert found.outputs.out_i.tobytes() == plain.outputs.out_i.tobytes()
            assert found.outputs.table.tobytes() == plain.outputs.table.tobytes()
            assert [str(e) for e in found.errors()] == [str(e) for e in plain.errors()]


def test_settings_lie_where_their_names_say() -> None:
    """The order in which settings are packed, and their names, are written in two places."""
    own = Settings("exact", 0, 4, 3, 5, 6, 7, 2, 0.25, 0.5, 0.75, 1.0, True, 77, True, 88, 1.5, tail=0.3)
    iset, fset, _ = engine._pack(own)
    whole = {name: int(iset[getattr(ISet, name)]) for name in ISet.__members__}
    for name in [n for n in whole if hasattr(own, n.lower())]:
        assert whole.pop(name) == getattr(own, name.lower())
    assert whole == {"CAP": COMPLETION_CAP, "ENUMERATE_BELOW": ENUMERATE_BELOW, "DP_SWITCH": DP_SWITCH}
    assert [fset[place] for place in FSet] == [getattr(own, place.name.lower()) for place in FSet]
