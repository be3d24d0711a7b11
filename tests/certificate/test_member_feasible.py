"""In how many members a released plan keeps every rule: certificate, record, words, gate, verifier."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.records import seal
from ucsearch.records.record import decision_record
from ucsearch.verify import verify_record


class Tank(NamedTuple):
    level: float


def feasible(s: Tank, a: float, p: Any) -> bool:
    return s.level - a >= 0.0 and s.level <= 10.0


def step(s: Tank, a: float, y: float, p: Any) -> Tank:
    if s.level - a + y > 90.0:
        raise KeyError("no such tank")
    return Tank(s.level - a + y)


def reward(s: Tank, a: float, y: float, p: Any) -> float:
    return a


def fallback(s: Tank, p: Any) -> float:
    return 0.0


TASK = uc.Task(
    name="drawn tank", state=Tank, actions=[0, 1, 2], feasible=feasible, step=step, reward=reward, fallback=fallback
)
# Draw 2 and 2 from a level of 2: the second needs an inflow of at least 2 after the first.
INFLOWS = [[2.0, 0.0], [3.0, 0.0], [1.0, 0.0], [4.0, 0.0], [99.0, 0.0]]
SHARES = np.array([0.25, 0.25, 0.125, 0.25, 0.125])
MEAN = uc.UCBeam(depth=2, width=9)


def decide(
    trace: uc.Trace, policy: Any = MEAN, gate: uc.Gate | None = None, state: float = 2.0, **options: Any
) -> uc.Decision:
    return uc.decide(TASK, Tank(state), trace, policy, gate=gate, run=uc.Run(engine="python"), **options)


def share(decision: uc.Decision) -> float:
    assert decision.certificate is not None
    return decision.certificate.member_feasible


def test_members_that_break_a_rule_are_counted() -> None:
    """1.0 leaves too little, 99.0 ends in a tank that does not exist; both are found by rolling, not by the mean."""
    decision = decide(uc.Trace.from_members(INFLOWS[:4]))
    assert decision.released
    assert decision.action == 2.0
    assert share(decision) == 0.75
    assert "planned on the mean outcome" in decision.explain()
    assert "keeps every rule in 3 of 4 members" in decision.explain()
    weighted = decide(uc.Trace.from_members([[x if x < 9 else 95.0, y] for x, y in INFLOWS], weights=SHARES[::1]))
    assert not weighted.released  # at the mean the tank runs over
    light = decide(uc.Trace.from_members(INFLOWS, weights=[0.3, 0.3, 0.2, 0.1995, 0.0005]))
    assert light.released
    assert share(light) == pytest.approx(0.7995)
    assert "keeps every rule in members of 80 % weight" in light.explain()


def test_members_mode_keeps_them_by_construction() -> None:
    decision = decide(uc.Trace.from_members(INFLOWS[:4]), uc.UCBeam(depth=2, width=9, mode="members"))
    assert decision.action == 1.0  # 2 may follow in every member
    assert share(decision) == 1.0
    assert "planned over all members; it keeps every rule in all of 4 members" in decision.explain()


def test_without_members_or_a_path_it_is_unknown() -> None:
    scores = uc.Trace.from_scores(np.ones((2, 3)), np.zeros((2, 3)), outcomes=[1.0, 1.0])
    decision = decide(scores, uc.UCBeam(depth=2, width=9, mode="scores"))
    assert np.isnan(share(decision))
    assert "planned on action scores." in decision.explain()
    assert np.isnan(share(decide(uc.Trace.from_members(INFLOWS[:4]), state=-5.0)))


@pytest.mark.parametrize(("least", "released"), [(None, True), (0.0, True), (0.75, True), (0.7500001, False)])
def test_the_gate_may_ask_for_it(least: float | None, released: bool) -> None:
    decision = decide(uc.Trace.from_members(INFLOWS[:4]), gate=uc.Gate(min_member_feasible=least))
    assert decision.released == released
    assert decision.reason == ("none" if released else "members_infeasible")
    assert ("breaks a rule in too many members" in decision.sentence) == (not released)
    record, blobs = decision_record(decision)
    assert verify_record(record, blobs, TASK).status == "valid"
    assert ("member_feasible" in [row["name"] for row in record["gate"]["rows"]]) == (least is not None)


def test_a_panel_asks_for_it_too() -> None:
    traces = uc.Trace.from_members(np.array([INFLOWS[:4], [[3.0, 0.0]] * 4])[:, :, :, None])
    gate = uc.Gate(min_member_feasible=1.0)
    panel = uc.decide_panel(TASK, [Tank(2.0), Tank(2.0)], traces, MEAN, gate=gate, run=uc.Run(engine="python"))
    assert panel.outcome.tolist() == ["FALLBACK", "RELEASED"]
    assert panel.certified.member_feasible.tolist() == [0.75, 1.0]
    everyone = dataclasses.replace(MEAN, mode="members")
    panel = uc.decide_panel(TASK, [Tank(2.0), Tank(2.0)], traces, everyone, gate=gate, run=uc.Run(engine="python"))
    assert panel.outcome.tolist() == ["RELEASED", "RELEASED"]


def test_unknown_fails_the_gate_and_wrong_limits_are_refused() -> None:
    scores = uc.Trace.from_scores(np.ones((2, 3)), np.zeros((2, 3)), outcomes=[1.0, 1.0])
    policy = uc.UCBeam(depth=2, width=9, mode="scores")
    assert decide(scores, policy, uc.Gate(min_member_feasible=0.0)).reason == "members_infeasible"
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(uc.InputError, match="min_member_feasible"):
            uc.Gate(min_member_feasible=wrong)


def test_a_false_share_is_found() -> None:
    decision = decide(uc.Trace.from_members(INFLOWS[:4]), gate=uc.Gate(min_member_feasible=0.5))
    record, blobs = decision_record(decision)
    for value in (1.0, 0.5, None):
        lie = {k: v for k, v in record.items() if k != "id"}
        lie["claim"] = dict(lie["claim"], member_feasible=value)
        found = verify_record(seal(lie), blobs, TASK)
        assert (found.status, found.where) == ("invalid", "claim.member_feasible")
    loose = {k: v for k, v in record.items() if k != "id"}
    loose["gate"] = dict(loose["gate"], settings=dict(loose["gate"]["settings"], min_member_feasible=0.9))
    assert verify_record(seal(loose), blobs, TASK).where == "gate.rows[4].right"


def test_a_prepared_kernel_counts_the_same_members() -> None:
    """Weights, windows without a path, parameters by window; and a stranger's rules are asked plainly."""
    from ucsearch.certificate.replay import kept_weights, prepare
    from ucsearch.tasks import LeadTimeInventory

    shop = LeadTimeInventory(order_sizes=(0.0, 20.0, 40.0), lead_time=1, capacity=70.0, ramp=30.0)
    task, rng = shop.task(), np.random.default_rng(4)
    states = [shop.state(float(x), (10.0,)) for x in rng.integers(0, 60, 40)]
    states[7] = shop.state(500.0, (500.0,))
    weights = rng.dirichlet(np.ones(9), 40)
    trace = uc.Trace.from_members(rng.gamma(1.0, 20.0, (40, 9, 3)), weights=weights)

    def shares() -> Any:
        panel = uc.certify_panel(task, states, trace, uc.UCBeam(depth=3, width=9), run=uc.Run(engine="python"))
        return panel, np.array([panel[w].member_feasible for w in range(40)])

    panel, plain = shares()
    assert panel.counted is None
    assert len(set(plain.tolist())) > 3
    assert 0.0 < np.nanmin(plain) < 1.0
    assert np.isnan(plain[7]) == (panel.released[7] < 0)
    assert prepare(task, panel.plan.layout)
    panel, counted = shares()
    assert panel.counted is not None
    np.testing.assert_array_equal(counted, plain)
    np.testing.assert_array_equal(panel.member_feasible, plain)
    assert not prepare(TASK, TASK.layout(Tank(1.0)))
    assert kept_weights(TASK, TASK.layout(Tank(1.0)), panel.plan.inputs, np.zeros((40, 3), np.int32)) is None
