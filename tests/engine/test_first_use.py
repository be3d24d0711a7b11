"""At its first use a kernel is held against the plain engine: what differs is refused and named."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.templates import TEMPLATES
from ucsearch.engine.arrays import Inputs, OutF, OutI
from ucsearch.engine.compiled import compile as kernels
from ucsearch.engine.compiled import first_use
from ucsearch.engine.compiled.first_use import SAMPLED, difference, spread_over
from ucsearch.errors import UncompilableWarning
from ucsearch.policies import MODES

TEMPLATE = TEMPLATES["battery"]
POLICY = uc.UCBeam(depth=3, risk=0.25, width=4, top_k=2)
WINDOWS = 40


class Lies:
    """A kernel that is wrong in some windows."""

    def __init__(self, entry: Any, wrong: set[int]) -> None:
        self.entry, self.wrong, self.seen = entry, wrong, 0

    def __call__(self, iset: Any, fset: Any, *rest: Any) -> None:
        self.entry(iset, fset, *rest)
        lo, hi, out_f = rest[-2], rest[-1], rest[-7]
        self.seen += hi - lo
        for w in range(lo, hi):
            if w in self.wrong:
                out_f[w, OutF.SCORE] += 1e-9


@pytest.fixture
def lying(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Kernels as Python that lie in the windows they are told, none of which was held against the plain engine."""
    monkeypatch.setenv("UCSEARCH_CACHE_DIR", str(tmp_path))
    made: list[Lies] = []

    def use(wrong: set[int]) -> list[Lies]:
        def load(task: Any, layout: Any, kind: Any, warm: Any, what: str) -> kernels.Kernel:
            made.append(Lies(kernels.plain(task, layout, kind), wrong))
            return kernels.Kernel(made[-1])

        monkeypatch.setattr(kernels, "load", load)
        monkeypatch.setattr(kernels, "is_held", lambda name: False)
        return made

    return use


def panel(seed: int = 1) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    states, params = TEMPLATE.windows(rng, WINDOWS)
    trace = uc.Trace.from_members(TEMPLATE.outcomes(rng, (WINDOWS, 3, 3)))
    return dict(task=dataclasses.replace(TEMPLATE.task), states=states, traces=trace, params=params, policy=POLICY)


def test_a_kernel_that_differs_is_refused_and_named(lying: Any) -> None:
    lying({WINDOWS - 1})
    asked = panel()
    with pytest.warns(UncompilableWarning, match=r"kernel of beam .*out_f of window 39"):
        answer = uc.search_panel(**asked, engine="compiled", threads=1)
    assert answer.engine == "python"
    assert uc.search_panel(**asked, engine="compiled", threads=1).engine == "python"  # and stays refused


def test_one_that_agrees_is_held_once(lying: Any) -> None:
    made = lying(set())
    asked = panel()
    for _ in range(3):
        assert uc.search_panel(**asked, engine="compiled", threads=1).engine == "compiled"
    assert made[0].seen == 4 * WINDOWS  # a sample of all windows, and three times what was asked


def test_single_searches_are_held_too(lying: Any) -> None:
    lying({0})
    asked = panel()
    trace = asked["traces"].window(0)
    state = asked["task"].state(4.0, 0.0)
    with pytest.warns(UncompilableWarning, match="window 0"):
        plan = uc.search(asked["task"], state, trace, POLICY, engine="compiled")
    assert plan.engine == "python"


@pytest.mark.parametrize(("windows", "edges", "told"), [(1000, 1000, 256), (1000, 250_000_000, 1), (10, 0, 10)])
def test_the_sample_costs_a_second(windows: int, edges: int, told: int) -> None:
    sizes: list[int] = []
    asked = uc.search_panel(**panel(), engine="python")

    def search(few: Any, outputs: Any, plainly: Any) -> None:
        sizes.append(few.windows)

    inputs = asked.inputs._replace(states=np.resize(asked.inputs.states, (windows, asked.inputs.states.shape[1])))
    inputs = Inputs(inputs.states, *(array[:1] for array in inputs[1:]))
    difference(search, asked.task, asked.layout, asked.settings, inputs, edges, 0)
    assert sizes == [told]
    assert told <= SAMPLED


def test_windows_that_take_more_than_the_second_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_use, "_EDGES", 3)
    asked = uc.search_panel(**panel(), engine="python")
    found = difference(lambda *given: None, asked.task, asked.layout, asked.settings, asked.inputs, 1, 0)
    assert found is None


def test_of_closed_loop_the_small_windows_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = uc.search_panel(**panel(), engine="python")
    settings, looked_at = asked.settings._replace(mode=MODES["closed"]), []
    monkeypatch.setattr(first_use, "run_window", lambda *given: looked_at.append(given[5]))

    def search(few: Any, outputs: Any, plainly: Any) -> None:
        assert few.windows == 16
        outputs.out_i[:, OutI.EXPANSIONS] = 100_000 * np.arange(1, 17)[::-1]

    difference(search, asked.task, asked.layout, settings, asked.inputs, 1, 0)
    assert looked_at == [15]  # the next would make more than the second
    monkeypatch.setattr(first_use, "_EDGES", 600_000)
    looked_at.clear()
    difference(search, asked.task, asked.layout, settings, asked.inputs, 1, 0)
    assert looked_at == [15, 14, 13]


def test_windows_lie_evenly_over_the_panel() -> None:
    assert spread_over(10, 256).tolist() == list(range(10))
    assert spread_over(1000, 4).tolist() == [0, 250, 500, 750]
