"""Numbers that a machine takes otherwise than Python: a kernel hands such windows over, and rivals are valued right."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest
from numba import njit, types
from numba.core.errors import UnsupportedError

from ucsearch.engine.compiled import loading
from ucsearch.engine.compiled.guarded import GUARDED_ONLY
from ucsearch.engine.compiled.head import HEAD

pytestmark = pytest.mark.compiled


def fallback(s: Any, p: Any) -> float:
    return 0.0


OTHERWISE = [
    lambda x: round(x, 2),
    lambda x: math.ldexp(x, int(x)),
    lambda x: np.floor_divide(x, 0.1),
    lambda x: float(np.left_shift(int(x), 70)),
    lambda x: float(np.right_shift(int(x), 70)),
    lambda x: float(np.power(int(x), 41)),
    lambda x: float(np.median(np.array([x, 1.0]))),
    lambda x: float(hash(x) % 7),
]


@pytest.mark.parametrize("rule", OTHERWISE)
def test_what_is_another_number_in_a_kernel_is_not_compiled(rule: Any) -> None:
    """2.68 for 2.675, 10 for 1 / 0.1: no exception tells, so such rules stay with Python."""
    with pytest.raises(UnsupportedError, match="in a kernel"):
        njit(**GUARDED_ONLY["user"])(rule).compile((types.float64,))


def test_rules_without_guards_are_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who loads a kernel brings the guards; where numba can have none, only the library's own tasks are compiled."""
    space: dict[str, Any] = {}
    exec(HEAD.format(cache=False), space)
    with pytest.raises(KeyError, match="guards"):
        space["uc_user"](fallback).compile((types.float64, types.none))
    space["uc_own"](fallback).compile((types.float64, types.none))
    monkeypatch.setitem(sys.modules, "ucsearch.engine.compiled.split", None)
    assert loading._ways() is GUARDED_ONLY
    monkeypatch.setitem(sys.modules, "ucsearch.engine.compiled.guarded", None)
    assert loading._ways() is None
