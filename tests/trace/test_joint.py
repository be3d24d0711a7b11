"""Joint forecasts of several quantities keep who belongs to whom."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.errors import InputError
from ucsearch.trace import join_traces

RNG = np.random.default_rng(4)


def correlation(trace: uc.Trace) -> float:
    price, load = trace.members[0, :, 0, 0], trace.members[0, :, 0, 1]
    return float(np.corrcoef(price, load)[0, 1])


def test_opposite_quantities_stay_opposite() -> None:
    price = RNG.normal(30.0, 5.0, (40, 6))
    load = 100.0 - 2.0 * price
    joined = join_traces(uc.Trace.from_members(price, model="p"), uc.Trace.from_members(load, model="l"))
    assert joined.members.shape == (1, 40, 6, 2)
    assert correlation(joined) == pytest.approx(-1.0)
    assert joined.model == "p + l"
    straight = uc.Trace.from_members(np.stack([price, load], axis=2), fields=2, model="p + l")
    assert joined.hash == straight.hash
    assert joined.members.tobytes() == straight.members.tobytes()


def test_panels_weights_and_more_than_two() -> None:
    a, b, c = (RNG.normal(0.0, 1.0, (3, 5, 4)) for _ in range(3))
    weights = np.array([0.1, 0.3, 0.2, 0.25, 0.15])
    joined = join_traces(*(uc.Trace.from_members(x, weights) for x in (a, b, c)))
    straight = uc.Trace.from_members(np.stack([a, b, c], axis=3), weights)
    assert joined.hash == straight.hash
    both = join_traces(join_traces(*(uc.Trace.from_members(x, weights) for x in (a, b))),
                          uc.Trace.from_members(c, weights))  # fmt: skip
    assert both.hash == joined.hash


def test_quantile_forecasts_move_together() -> None:
    price = uc.Trace.from_quantiles([0.1, 0.5, 0.9], [[1.0, 2.0, 3.0]] * 2)
    load = uc.Trace.from_mean([5.0, 6.0], [1.0, 1.0])
    joined = join_traces(price, load)
    assert joined.coupling == "comonotone"
    assert correlation(joined) > 0.9


def test_what_cannot_be_paired_is_refused(tmp_path: Path) -> None:
    a = uc.Trace.from_members(np.ones((3, 2)), cutoff="2024-05-20")
    cases: list[tuple[tuple[object, ...], str]] = [
        ((), "at least one"),
        ((a, np.ones((3, 2))), "uc.Trace"),
        ((a, uc.Trace.from_members(np.ones((4, 2)))), "members and steps"),
        ((a, uc.Trace.from_members(np.ones((1, 3, 2)))), "members and steps"),
        ((a, uc.Trace.from_members(np.ones((3, 2)), [0.5, 0.25, 0.25])), "weights"),
        ((a, uc.Trace.from_members(np.ones((3, 2)), coupling="independent")), "coupling"),
        ((a, uc.Trace.from_members(np.ones((3, 2)), cutoff="2024-05-21")), "cutoff"),
        ((a, pickle.loads(pickle.dumps(a))), "just made"),
        ((a, uc.Trace.from_scores(np.zeros((2, 3)), np.zeros((2, 3)))), "members"),
    ]
    for traces, message in cases:
        with pytest.raises(InputError, match=message):
            join_traces(*traces)  # type: ignore[arg-type]
