"""Claims against rational arithmetic: penalties of any size beside ordinary figures, any unit, costs that are sunk.

Rewards are read from a table, so that they are exact as they stand; two members of equal weight make the standard
deviation of two figures half their distance, and the variance its square: everything is a fraction.
"""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import ucsearch as uc
from tests.kit.counts import some
from ucsearch.records.record import decision_record
from ucsearch.verify import verify_record

M, D = 3, 3


class At(NamedTuple):
    step: float
    last: float


class Table(NamedTuple):
    base: tuple[float, ...]  # (D * M * M) by step, last action and action
    slope: tuple[float, ...]  # (M,) times the outcome, which is -1 or 1
    sunk: float  # paid at first and got back at last
    last: float  # number of the last step


def feasible(s: At, a: float, p: Table) -> bool:
    return True


def step(s: At, a: float, y: float, p: Table) -> At:
    return At(s.step + 1.0, a)


def reward(s: At, a: float, y: float, p: Table) -> float:
    at = (int(s.step) * M + int(s.last)) * M + int(a)
    value = p.base[at] + p.slope[int(a)] * y
    if s.step == 0.0:
        value -= p.sunk
    if s.step == p.last:
        value += p.sunk
    return value


def fallback(s: At, p: Table) -> float:
    return 0.0


TASK = uc.Task(
    name="table", state=At, actions=[0, 1, 2], feasible=feasible, step=step, reward=reward, fallback=fallback,
    params=Table((0.0,) * (D * M * M), (0.0,) * M, 0.0, 0.0),
)  # fmt: skip
TRACE = uc.Trace.from_members([[-1.0] * D, [1.0] * D])
ORDINARY = st.integers(-30, 30).map(lambda n: n / 10.0)
PENALTY = st.integers(3, 15).map(lambda k: -(10.0**k))


@st.composite
def tables(draw: Any) -> tuple[Table, int]:
    """A table in some unit, and a depth."""
    unit, depth = 10.0 ** draw(st.integers(-12, 12)), draw(st.integers(1, D))
    rare = st.one_of(ORDINARY, ORDINARY, ORDINARY, PENALTY)
    base = [unit * draw(rare) for _ in range(D * M * M)]
    slope = [unit * draw(st.sampled_from([0.0, 0.1, 0.5, 3.0])) for _ in range(M)]
    sunk = unit * draw(st.sampled_from([0.0, 0.0, 1e3, 1e7, 1e11]))
    return Table(tuple(base), tuple(slope), sunk if depth > 1 else 0.0, depth - 1.0), depth


@st.composite
def policies(draw: Any, depth: int) -> Any:
    kind = draw(st.sampled_from(["narrow", "beam", "wide", "certified", "exact"]))
    common: dict[str, Any] = dict(
        depth=depth, mode=draw(st.sampled_from(["mean", "members"])), risk=draw(st.sampled_from([0.0, 0.5, 1.0])),
        spread=draw(st.sampled_from(["std", "variance"])),
    )  # fmt: skip
    if kind == "exact":
        return uc.Exact(**common)
    if kind == "certified":
        return uc.CertifiedBeam(**common, width=3, top_k=2, protect=True)
    return uc.UCBeam(**common, width={"narrow": 1, "beam": 3, "wide": 30}[kind], top_k=1 if kind == "narrow" else M)


def values(p: Table, policy: Any) -> dict[int, Fraction]:
    """Q of every first action without any rounding."""
    best: dict[int, Fraction] = {}
    risk = Fraction(policy.risk)
    square = policy.spread == "variance"

    def exact(h: int, last: int, a: int, y: float) -> Fraction:
        return Fraction(reward(At(float(h), float(last)), float(a), y, p))

    def spread(x: Fraction, y: Fraction) -> Fraction:
        half = abs(x - y) / 2
        return half * half if square else half

    for path in itertools.product(range(M), repeat=policy.depth):
        steps = list(enumerate(zip((0, *path), path, strict=False)))
        if policy.mode == "mean":
            total = sum((exact(h, last, a, 0.0) for h, (last, a) in steps), Fraction(0))
            unsure = sum((spread(*(exact(h, last, a, y) for y in (-1.0, 1.0))) for h, (last, a) in steps), Fraction(0))
        else:
            low, high = (sum((exact(h, last, a, y) for h, (last, a) in steps), Fraction(0)) for y in (-1.0, 1.0))
            total, unsure = (low + high) / 2, spread(low, high)
        score = total - risk * unsure
        best[path[0]] = max(best.get(path[0], score), score)
    return best


def tau(size_x: float, size_y: float) -> Fraction:
    return Fraction(1, 10**12) * Fraction(max(size_x, size_y))


@settings(max_examples=some(300))
@given(data=st.data())
def test_a_pass_is_true_by_rational_arithmetic(data: Any) -> None:
    table, depth = data.draw(tables())
    policy = data.draw(policies(depth))
    kind = data.draw(st.sampled_from(["oracle", "auto"]))
    decision = uc.decide(
        TASK, At(0.0, 0.0), TRACE, policy, params=table, run=uc.Run(engine="python"), proof=uc.Proof(kind=kind)
    )
    c = decision.certificate
    assert c is not None
    truth, chosen = values(table, policy), c.action_index
    own = next(r for r in c.rivals if r.index == chosen)
    for r in c.rivals:
        if r.index != chosen:
            behind = truth[r.index] - truth[chosen]
            room = tau(own.size, r.upper_size)
            assert not c.certificate_pass or behind <= room
            assert not c.unique or behind < 0
            assert behind <= Fraction(c.regret_bound) + room
    assert decision.released == (c.certificate_pass and (c.unique or not c.cancellation))
    record, blobs = decision_record(decision)
    assert verify_record(record, blobs, TASK).status == "valid"


FIGURES = ("gap", "regret_bound", "exact_regret", "margin", "eps_a", "proxy_slack", "risk_gap", "tau", "release_margin")
SCORES = uc.Trace.from_scores(np.arange(9.0).reshape(3, 3) % 4, np.arange(9.0).reshape(3, 3) % 2, [0.0] * 3)


@settings(max_examples=some(300))
@given(data=st.data(), power=st.integers(-40, 40))
def test_another_currency_changes_no_decision_and_no_claim(data: Any, power: int) -> None:
    """By a power of two, so that every figure is the same but for its exponent."""
    factor = 2.0**power
    table, depth = data.draw(tables())
    policy = data.draw(policies(depth))
    trace = TRACE
    other, scaled = policy, trace
    if policy.spread == "variance":  # of money squared: risk is per unit of money
        other = type(policy)(**{**vars(policy), "risk": policy.risk / factor})
    if data.draw(st.booleans()) and policy.mode == "mean":
        q = np.array([[table.base[(h * M) * M + a] for a in range(M)] for h in range(depth)])
        u = np.abs(np.array([[table.slope[a] for a in range(M)] for _ in range(depth)]))
        trace = uc.Trace.from_scores(q, u, [0.0] * depth)
        scaled = uc.Trace.from_scores(q * factor, u * factor, [0.0] * depth)
        policy, other = (type(p)(**{**vars(p), "mode": "scores", "spread": None, "risk": 0.5}) for p in (policy, other))
    budget = data.draw(st.sampled_from([2_000_000, 4]))
    more: dict[str, Any] = dict(
        run=uc.Run(engine="python"),
        proof=uc.Proof(kind=data.draw(st.sampled_from(["oracle", "bound"])), node_budget=budget),
    )
    much = Table(
        tuple(x * factor for x in table.base), tuple(x * factor for x in table.slope), table.sunk * factor, table.last
    )
    before = uc.decide(TASK, At(0.0, 0.0), trace, policy, params=table, **more)
    after = uc.decide(TASK, At(0.0, 0.0), scaled, other, params=much, **more)
    assert (before.outcome, before.action, before.reason) == (after.outcome, after.action, after.reason)
    old, new = before.certificate, after.certificate
    assert old is not None
    assert new is not None
    for name, value in vars(old).items():
        if isinstance(value, bool | int):
            assert getattr(new, name) == value, name
        if name in FIGURES:
            np.testing.assert_array_equal(value * factor, getattr(new, name), err_msg=name)
    assert [r.path for r in old.rivals] == [r.path for r in new.rivals]
