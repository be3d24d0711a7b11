"""One limit over a panel in parts: the same answer for every cut, and as good as on one machine."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.kit.counts import sizes
from ucsearch.allocation.problem import Problem, Resource
from ucsearch.allocation.result import evaluate
from ucsearch.errors import InputError
from ucsearch.scale.prices import Priced, _exact, added, choose_at, find_price, sums_at

COUNT, ACTIONS = 300, 5
rng = np.random.default_rng(2)
USE = np.concatenate([np.zeros((COUNT, 1)), np.cumsum(rng.uniform(0.1, 3.0, (COUNT, ACTIONS - 1)), axis=1)], axis=1)
LOWER = np.sqrt(USE) * rng.uniform(1.0, 9.0, (COUNT, 1)) * 10.0 ** rng.integers(-3, 4, (COUNT, 1))
UPPER = LOWER + np.where(rng.uniform(size=LOWER.shape) < 0.2, 1e-3, 0.0)


def priced(parts: int, limit: float, order: np.ndarray | None = None) -> Priced:
    cuts = np.array_split(np.arange(COUNT) if order is None else order, parts)
    return find_price(lambda p: added(sums_at(LOWER[c], UPPER[c], USE[c], p) for c in cuts), limit)


@pytest.mark.parametrize("most", sizes(50, COUNT))
@pytest.mark.parametrize("limit", [0.0, 17.3, 400.0, 1e9])
def test_no_partitioning_and_no_order_changes_the_answer(limit: float, most: int) -> None:
    whole = priced(1, limit)
    assert whole.use <= limit
    assert whole.steps < 140
    other = rng.permutation(COUNT)
    assert [priced(n, limit, o) == whole for n, o in ((3, None), (7, other), (most, other))] == [True] * 3


def test_as_good_as_on_one_machine() -> None:
    limit = 400.0
    found = priced(7, limit)
    one = Resource("truck", USE, np.array([limit]), np.zeros(COUNT, np.int64))
    there = evaluate(Problem.of([str(i) for i in range(COUNT)], LOWER, UPPER, [one]))
    assert found.bound == pytest.approx(there.root if there.tree else there.upper, rel=1e-9)
    assert there.lower - found.value <= found.gap
    assert found.gap / found.value < 1e-3
    choice = choose_at(LOWER, USE, found.price)
    assert float(USE[np.arange(COUNT), choice].sum()) == pytest.approx(found.use)


def test_sums_are_exact() -> None:
    values = np.concatenate(
        [rng.normal(size=200) * 10.0 ** rng.integers(-300, 300, 200), [5e-324, -5e-324, 0.0, 1e308]]
    )
    assert Fraction(_exact(values), 2**1074) == sum(map(Fraction, values.tolist()), Fraction(0))


def test_what_cannot_be_kept_is_refused() -> None:
    need = USE + 1.0
    with pytest.raises(InputError, match=r"limit: saw 5\.0, expected at least 300"):
        find_price(lambda p: sums_at(LOWER, UPPER, need, p), 5.0)
    for limit in (-1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="limit"):
            find_price(lambda p: sums_at(LOWER, UPPER, USE, p), limit)
    with pytest.raises(InputError, match="not finite"):
        sums_at(np.full((2, 2), np.nan), UPPER[:2, :2], USE[:2, :2], 0.0)
