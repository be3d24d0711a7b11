"""Machine code of our own functions takes an index as it is; a user's may count from the end, as in Python."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from numba.core import types

import ucsearch as uc
from tests.conformance.test_engines import CASES, random_panel, random_policy
from tests.kit.indices import noted_indices, noting
from ucsearch.engine.compiled import numba_tricks
from ucsearch.tasks import LeadTimeInventory

OPTIONS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **numba_tricks.INNER}
ARGUMENTS = (types.Array(types.float64, 1, "C"), types.int64)


def picks(a: Any, k: int) -> float:
    return float(a[k])


def added(x: float, k: int) -> float:
    return x + k


def lowered(**options: Any) -> str:
    made = numba.njit(**OPTIONS, **options)(picks)
    made.compile(ARGUMENTS)
    return str(made.overloads[ARGUMENTS].library._final_module)


@pytest.mark.compiled
def test_only_functions_of_users_are_asked_for_indices_below_zero() -> None:
    ours, users = lowered(), lowered(boundscheck=True)
    assert "IndexError" not in ours
    assert "icmp" not in ours
    assert "icmp" in users


@pytest.mark.compiled
def test_an_index_below_zero_counts_from_the_end_in_functions_of_users() -> None:
    asked = numba.njit(boundscheck=True, error_model="python", **OPTIONS)(picks)

    @numba.njit(**numba_tricks.ENTRY)
    def entry(a: Any, k: int) -> float:
        return asked(a, k)

    a = np.array([1.0, 2.0, 4.0])
    assert [entry(a, k) for k in (-3, -1, 0, 2)] == [1.0, 4.0, 1.0, 4.0]
    for past in (-4, 3):
        with pytest.raises(IndexError):
            entry(a, past)


@pytest.mark.compiled
def test_functions_of_ours_are_compiled_once_for_written_numbers_and_others() -> None:
    inner = numba_tricks.for_any_number(numba.njit(**OPTIONS)(added))

    @numba.njit(**numba_tricks.ENTRY)
    def twice(x: float, k: int) -> float:
        return inner(inner(x, k), 2)

    assert twice(0.5, 3) == 5.5
    assert len(inner.overloads) == 1


@pytest.mark.parametrize(("name", "algorithm", "mode", "order"), sorted({case[:-1] for case in CASES}))
def test_no_index_of_ours_is_below_zero(name: str, algorithm: str, mode: str, order: str) -> None:
    rng = np.random.default_rng([len(name), *map(ord, algorithm + mode)])
    with noted_indices() as below:
        panel = random_panel(rng, name, mode, 4)
        policy = random_policy(rng, algorithm, mode, order, panel["traces"].horizon)
        found = uc.search_panel(**panel, policy=policy, engine="compiled", threads=1, keep_paths=True)
    assert found.engine == "compiled"
    assert not below


def test_nor_in_closed_mode() -> None:
    inventory = LeadTimeInventory(lead_time=1, capacity=12.0)
    trace = uc.Trace.from_members(np.random.default_rng(3).poisson(2.0, (5, 3)).astype(float)).on_lattice(1.0, 4)
    with noted_indices() as below:
        plan = uc.search(
            inventory.task(), inventory.state(2.0, (1.0,)), trace, uc.Exact(depth=3, mode="closed"), engine="compiled"
        )
    assert plan.engine == "compiled"
    assert not below


def test_an_index_below_zero_is_noted() -> None:
    below: list[str] = []
    space: dict[str, Any] = {}
    noting("def build():\n    def ours(a, k):\n        return a[k]\n    return ours\n", space, below)
    assert space["build"]()((1.0, 2.0), -1) == 2.0
    assert [x.rpartition(" ")[2] for x in below] == ["ours"]
