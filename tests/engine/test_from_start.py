"""Machine code of our own functions takes an index as it is; a user's may count from the end, as in Python."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from numba.core import types

import ucsearch as uc
from tests.conformance.test_engines import CASES, random_panel, random_policy
from tests.kit.indices import noted_indices
from ucsearch.engine.compiled import inner
from ucsearch.tasks import LeadTimeInventory

OPTIONS: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **inner.OF_INNER}
ARGUMENTS = (types.Array(types.float64, 1, "C"), types.int64)


def picks(a: Any, k: int) -> float:
    return float(a[k])


def lowered(**options: Any) -> str:
    made = numba.njit(**OPTIONS, **options)(picks)
    made.compile(ARGUMENTS)
    return str(made.overloads[ARGUMENTS].library._final_module)


@pytest.mark.compiled
def test_only_functions_of_users_are_asked_for_indices_below_zero() -> None:
    ours, users = lowered(), lowered(boundscheck=True)
    assert "icmp slt i64 %arg.k, 0" not in ours
    assert "icmp slt i64 %arg.k, 0" in users


@pytest.mark.compiled
def test_an_index_below_zero_counts_from_the_end_in_functions_of_users() -> None:
    users = numba.njit(**OPTIONS, boundscheck=True)(picks)
    entry = numba.njit(**inner.OF_ENTRY)(lambda a, k: users(a, k))
    assert entry(np.array([1.0, 2.0, 3.0]), -1) == 3.0


def uc_added(x: float, k: int) -> float:
    return x + k


@pytest.mark.compiled
@pytest.mark.parametrize(("function", "versions"), [(uc_added, 1), (picks, 2)])
def test_functions_of_ours_are_compiled_once_for_written_numbers_and_others(function: Any, versions: int) -> None:
    """numba makes a version for 0 and one for what begins at 0; a user's function may need to know the number."""
    inner_one = numba.njit(**OPTIONS)(function)

    def twice(x: Any, n: int) -> float:
        k, total = 0, 0.0
        while k < n:
            total += inner_one(x, k)
            k += 1
        return total + inner_one(x, 0)

    x: Any = 0.5 if function is uc_added else np.array([1.0, 2.0, 4.0])
    assert numba.njit(**inner.OF_ENTRY)(twice)(x, 3) == (5.0 if function is uc_added else 8.0)
    assert len(inner_one.overloads) == versions


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
    from tests.kit import unjitted

    with noted_indices() as below:
        made = unjitted._module("def uc_user(f):\n    return f\nuc_own = uc_user\n\n" + "\n\n".join(
            f"@{wrap}\ndef {name}(a, k):\n    return a[k]" for wrap, name in (("uc_user", "theirs"), ("uc_own", "ours"))
        ))  # fmt: skip
        assert made.theirs((1.0, 2.0), -1) == made.ours((1.0, 2.0), -1) == 2.0
    assert [x.rpartition(" ")[2] for x in below] == ["ours"]
