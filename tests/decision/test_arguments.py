"""What a caller hands over wrongly is named by the argument, before anything is searched or written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import ucsearch as uc


class Shelf(NamedTuple):
    units: float


class Prices(NamedTuple):
    unit: float
    sale: float


def feasible(s: Shelf, a: float, p: Prices) -> bool:
    return s.units + a <= 3.0


def step(s: Shelf, a: float, y: float, p: Prices) -> Shelf:
    return Shelf(max(s.units + a - y, 0.0))


def reward(s: Shelf, a: float, y: float, p: Prices) -> float:
    return p.sale * min(s.units + a, y) - p.unit * a


def fallback(s: Shelf, p: Prices) -> float:
    return 0.0


TASK = uc.Task(
    name="shelf", state=Shelf, actions=[0, 1, 2], feasible=feasible, step=step, reward=reward, fallback=fallback,
    params=Prices(1.0, 2.0),
)  # fmt: skip
DEMAND = [[1.0, 1.0], [2.0, 0.0]]
POLICY = uc.Exact(depth=2)
PLAIN = uc.Run(engine="python")


def decide(**options: Any) -> uc.Decision:
    return uc.decide(TASK, Shelf(0.0), DEMAND, POLICY, **{"run": PLAIN, **options})


def panel(**options: Any) -> uc.DecisionPanel:
    traces = uc.Trace.from_members([DEMAND, DEMAND])
    return uc.decide_panel(TASK, [Shelf(0.0), Shelf(1.0)], traces, POLICY, **{"run": PLAIN, **options})


def truck() -> uc.Shared:
    return uc.Shared(name="truck", limit=2.0, use=lambda s, a, p: a)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "a path for a log": (lambda: decide(log="orders.db"), "log: saw str, expected a uc.AuditLog"),
    "a calibration that is a number": (lambda: decide(calibration=0.3), "calibration: saw 0.3, expected"),
    "a list of numbers": (lambda: panel(calibration=[0.3, 0.3]), r"calibration: saw \[0.3, 0.3\], expected"),
    "too few calibrations": (lambda: panel(calibration=[uc.Calibration()]), "calibration: saw 1 records, expected"),
    "parameters without names": (lambda: decide(params=(1.0,)), r"params\[0\]: saw 1.0, expected a Prices with"),
    "parameters in a dictionary": (lambda: decide(params={"unit": 1.0}), r"params\[0\]: saw 'unit', expected a Prices"),
    "no budget": (lambda: uc.Proof(node_budget=0), "node_budget: saw 0, expected a whole number from 1"),
    "a budget in words": (lambda: uc.Proof(node_budget="much"), "node_budget: saw 'much'"),  # type: ignore[arg-type]
    "no threads": (lambda: uc.Run(threads=0), "threads: saw 0, expected a whole number from 1 to 1024"),
    "half a thread": (lambda: uc.Run(threads=1.5), "threads: saw 1.5"),  # type: ignore[arg-type]
    "several windows at once": (lambda: panel()[0:2], r"window: saw slice\(0, 2, None\), expected one number"),
    "a number to share among": (lambda: uc.allocate(5, truck()), r"decisions\[0\]: saw int, expected a DecisionPanel"),  # type: ignore[arg-type]
    "a number among decisions": (
        lambda: uc.allocate([decide(), 5], truck()),  # type: ignore[list-item]
        r"decisions\[1\]: saw int, expected a DecisionPanel",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_named(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises(uc.InputError, match=message):
        call()


def test_a_text_is_refused_in_one_sentence() -> None:
    decision = uc.decide(TASK, Shelf(0.0), "many", POLICY, run=PLAIN)
    assert decision.sentence.startswith(
        "The forecast was refused: trace.members: saw str (of str128), expected numbers."
    )


def test_an_array_is_certified_as_it_is_decided() -> None:
    certificate = uc.certify(TASK, Shelf(0.0), DEMAND, POLICY, run=PLAIN)
    assert certificate.action == decide().action
    assert certificate.certificate_pass
