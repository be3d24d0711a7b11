"""Functions that only borrow arrays count no references, and whoever makes or hands on one still does."""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

import numba
import numpy as np
import pytest
from numba.core.runtime import _nrt_python, rtsys

from ucsearch.engine.compiled import inner, lean

pytestmark = pytest.mark.compiled
OPTIONS: dict[str, Any] = {"nogil": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True, **inner.OF_INNER}


class Pair(NamedTuple):
    row: Any
    scale: float


def reads(a: Any, k: int) -> float:
    total = 0.0
    for x in range(k):
        total += math.sqrt(abs(a[x]))
    return max(total, 0.0) if np.isfinite(total) else 0.0


def looks_through(a: Any, k: int) -> float:
    pair = Pair(a[:k], 2.0)
    return float(pair.row[0] * pair.scale)


def writes(a: Any, k: int) -> float:
    a[k] = a[k] + 0.0
    return float(a[k])


def fills(a: Any, k: int) -> float:
    a[:k] = a[0]
    return float(a[k])


def copies(a: Any, k: int) -> float:
    a[:k] = a[k : k + k]
    return float(a[k])


def makes(a: Any, k: int) -> float:
    return float(np.empty(k).shape[0] + a[0])


def adds(a: Any, k: int) -> float:
    return float((a + 1.0)[k])


def lists(a: Any, k: int) -> float:
    return float([a[0], a[k]][1])


def hands_back(a: Any, k: int) -> Any:
    return a


def hands_a_part_back(a: Any, k: int) -> Any:
    return Pair(a[:k], 1.0)


def walks(a: Any, k: int) -> float:
    total = 0.0
    for x in a:
        total += x
    return total


def gives(a: Any, k: int) -> Any:
    return np.full(k, a[0])


given = numba.njit(**OPTIONS)(gives)


def passes_on(a: Any, k: int) -> Any:
    found = given(a[1:], k)
    return found


def passes_on_in_turn(a: Any, k: int) -> Any:
    return passing(a, k)


passing = numba.njit(**OPTIONS)(passes_on)


def lets_go(a: Any, k: int) -> Any:
    """Of what it was handed, on one of two ways."""
    found = given(a, k)
    if k > 100:
        return found
    return given(a, k + 1)


def keeps_a_name(a: Any, k: int) -> Any:
    found = given(a, k)
    found[0] = 1.0
    return found


BORROW = (reads, looks_through, writes, fills, passes_on, passes_on_in_turn)
COUNT = (gives, lets_go, keeps_a_name, copies, makes, adds, lists, hands_back, hands_a_part_back, walks)


def test_only_what_borrows_is_lowered_without_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, bool] = {}
    asked = lean.borrows

    def listening(state: Any) -> bool:
        told[state.func_id.func_name] = found = asked(state)
        return found

    monkeypatch.setattr(inner, "borrows", listening)
    functions = {f.__name__: numba.njit(**OPTIONS)(f) for f in (*BORROW, *COUNT)}
    calls = "".join(f"        {name}(a, k)\n" for name in functions)
    space: dict[str, Any] = dict(functions)
    exec(f"def entry(a, k):\n    for _ in range(50):\n{calls}    return 0", space)
    entry = numba.njit(**inner.OF_ENTRY)(space["entry"])
    rows = np.arange(1.0, 9.0)
    entry(rows, 3)
    assert told == {f.__name__: f in BORROW for f in (*BORROW, *COUNT)}
    _nrt_python.memsys_enable_stats()
    held, before = sys.getrefcount(rows), rtsys.get_allocation_stats()
    for _ in range(20):
        entry(rows, 3)
    after = rtsys.get_allocation_stats()
    assert after.alloc - before.alloc == after.free - before.free  # nothing is kept, nothing let go twice
    assert sys.getrefcount(rows) == held
    assert rows.tolist() == [4.0, 5.0, 6.0, 4.0, 5.0, 6.0, 7.0, 8.0]


def test_a_call_of_many_arguments_is_no_tuple() -> None:
    names = [f"a{i}" for i in range(40)]
    space: dict[str, Any] = {}
    exec(f"def many({', '.join(names)}):\n    return a0[0] + a39[1]", space)
    space["many"] = numba.njit(**OPTIONS)(space["many"])
    exec(f"def caller(x):\n    return many({', '.join(['x'] * 40)})", space)
    caller = numba.njit(**inner.OF_ENTRY)(space["caller"])
    assert caller(np.array([1.0, 2.0])) == 3.0
    (made,) = caller.overloads.values()
    body = made.library.get_llvm_str().split("define ")[1]
    assert "NRT_incref" not in body


def test_options_are_told_apart_as_numba_does() -> None:
    from numba.core.compiler import Flags

    plain = Flags()
    plain.nrt = True
    ours = inner.Flags(plain)
    assert (hash(ours), ours == plain, plain == ours, ours == inner.Flags(plain)) == (hash(plain), True, True, True)
    assert ours.get_mangle_string() == plain.get_mangle_string()  # in names of symbols
    ours.boundscheck = True
    assert ours != plain
    assert ours != inner.Flags(plain)
    plain.boundscheck = True
    assert (hash(ours), ours == plain) == (hash(plain), True)
    assert type(ours.copy()) is inner.Flags
    ours.discard("boundscheck")
    assert ours != plain
    assert ours != "options"
