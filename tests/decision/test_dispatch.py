"""Dispatch: what leaves, the fallback, HOLD, the gate's conditions, and the log written first."""

from __future__ import annotations

import dataclasses
import itertools
import json
import logging
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.templates import Clock, Stock, clock, stock
from ucsearch.decision import Filing
from ucsearch.decision.gate import Calibration, Context, Reason
from ucsearch.errors import InputError

STATE = Stock(4.0, (2.0, 2.0), 2.0)
ISSUED = datetime(2026, 1, 1, tzinfo=UTC)
WIDE = uc.UCBeam(depth=3, width=64, risk=0.25, order="score")
NARROW = uc.UCBeam(depth=3, width=1, top_k=1, risk=0.25, order="score")


def trace(**meta: Any) -> uc.Trace:
    rng = np.random.default_rng(2)
    return uc.Trace.from_members(0.5 * rng.integers(8, 14, (4, 3)), **meta)


def decide(policy: uc.UCBeam = WIDE, **options: Any) -> uc.Decision:
    made = trace(issued=options.pop("issued", None))
    run = uc.Run(engine="python", clock=options.pop("clock", None))
    return uc.decide(stock, options.pop("state", STATE), made, policy, run=run, **options)


def test_a_certified_action_is_released_with_its_reason() -> None:
    d = decide()
    assert d.outcome is uc.Outcome.RELEASED
    assert d.reason is Reason.NONE
    assert d.action == d.certificate.action
    assert d.pass_kind == "exact"
    assert d.rejected_action is None
    assert "is released" in d.sentence
    assert "at most" in d.explain()


def test_a_poor_search_falls_back_and_says_which_alternative_lost() -> None:
    d = decide(NARROW)
    assert d.outcome is uc.Outcome.FALLBACK
    assert d.reason is Reason.NOT_OPTIMAL
    assert d.action == d.fallback_action == 0.0
    assert d.rejected_action == d.certificate.action
    assert d.regret_bound > 0
    assert not d.released
    assert "not certified" in d.sentence
    first = {f.action: f for f in d.certificate.plan.first_actions}
    step = first[d.rejected_action].step_reward - 0.25 * first[d.rejected_action].step_uncertainty
    other = first[0.0].step_reward - 0.25 * first[0.0].step_uncertainty
    assert d.fallback_cost == step - other


def test_an_infeasible_fallback_is_a_hold() -> None:
    d = decide(NARROW, state=STATE._replace(last=6.0))
    assert d.outcome is uc.Outcome.HOLD
    assert d.action is None
    assert d.reason is Reason.FALLBACK_INFEASIBLE
    assert d.cause is not Reason.NONE
    assert "a person has to decide" in d.sentence


def test_a_dead_end_and_a_refused_trace_are_answers() -> None:
    tight = stock.params._replace(capacity=1.0)
    assert decide(params=tight).cause is Reason.DEAD_END
    refused = uc.decide(stock, STATE, [[1.0, float("nan"), 2.0]], WIDE, run=uc.Run(engine="python"))
    assert refused.outcome is uc.Outcome.HOLD
    assert refused.action is None
    assert refused.reason is Reason.INVALID_TRACE
    assert "nan" in refused.sentence


@pytest.mark.parametrize(
    ("issued", "now", "released"),
    [
        (ISSUED, ISSUED + timedelta(seconds=60), True),
        (ISSUED, ISSUED + timedelta(seconds=61), False),
        (ISSUED, ISSUED - timedelta(seconds=1), False),
        (ISSUED, None, False),
        (None, ISSUED, False),
        ("yesterday", ISSUED, False),
    ],
)
def test_a_stale_undated_or_future_trace_is_not_used(issued: Any, now: Any, released: bool) -> None:
    d = decide(gate=uc.Gate(max_trace_age_s=60.0), issued=issued, now=now)
    assert d.released is released
    assert d.cause is (Reason.NONE if released else Reason.STALE_TRACE)


def test_calibration_must_be_measured_and_within_its_limits() -> None:
    gate = uc.Gate(max_eps_c=1.0, max_undercoverage=0.05)
    assert decide(gate=gate).cause is Reason.CALIBRATION
    assert decide(gate=gate, calibration=uc.Calibration(0.5, 0.05)).released
    assert decide(gate=gate, calibration=uc.Calibration(1.5, 0.0)).cause is Reason.CALIBRATION
    assert decide(gate=gate, calibration=uc.Calibration(0.5, 0.06)).cause is Reason.CALIBRATION


def test_budgets_of_nodes_and_time() -> None:
    spent = sum(decide().certificate.counters[k] for k in ("expansions", "oracle_nodes"))
    assert decide(gate=uc.Gate(node_budget=spent)).released
    assert decide(gate=uc.Gate(node_budget=spent - 1)).cause is Reason.NODE_BUDGET
    ticks = itertools.count()
    assert decide(gate=uc.Gate(time_budget_s=1e9), clock=lambda: float(next(ticks))).released
    assert decide(gate=uc.Gate(time_budget_s=0.5), clock=lambda: float(next(ticks))).cause is Reason.TIME_BUDGET
    with pytest.raises(uc.InputError, match="clock"):
        decide(gate=uc.Gate(time_budget_s=0.5))


def test_regret_limit_margin_and_risk_activity() -> None:
    poor = decide(NARROW)
    limit = poor.regret_bound
    assert decide(NARROW, gate=uc.Gate(certificate=False, regret_limit=limit)).released
    below = np.nextafter(limit, 0)
    assert decide(NARROW, gate=uc.Gate(certificate=False, regret_limit=below)).cause is Reason.REGRET_ABOVE_LIMIT
    assert decide(gate=uc.Gate(positive_margin=True)).released
    flat = uc.Trace.from_members(np.zeros((2, 1)))
    tied = uc.Task(
        name="tied", state=Clock, actions=[0.0, 1.0], feasible=lambda s, a, p: True, step=lambda s, a, y, p: Clock(a),
        reward=lambda s, a, y, p: 0.0, fallback=lambda s, p: 0.0,
    )  # fmt: skip
    policy = uc.UCBeam(depth=1, width=4)
    d = uc.decide(tied, Clock(0.0), flat, policy, gate=uc.Gate(positive_margin=True), run=uc.Run(engine="python"))
    assert d.cause is Reason.MARGIN_NOT_POSITIVE
    assert decide(gate=uc.Gate(risk_active=True)).cause in (Reason.NOT_RISK_ACTIVE, Reason.NONE)
    zero = uc.UCBeam(depth=3, width=64, risk=0.0, order="score")
    assert decide(zero, gate=uc.Gate(risk_active=True)).cause is Reason.NOT_RISK_ACTIVE


def test_a_claimed_model_error_asks_for_a_larger_gap() -> None:
    gap = decide().certificate.gap
    assert decide(proof=uc.Proof(eps_m=gap * 0.49)).released
    assert decide(proof=uc.Proof(eps_m=gap * 0.51)).cause is Reason.NOT_ROBUST


def test_an_exhausted_proof_is_not_proved() -> None:
    d = uc.decide(
        clock,
        Clock(0.0),
        trace(),
        uc.UCBeam(depth=3, width=4, top_k=2),
        run=uc.Run(engine="python"),
        proof=uc.Proof(node_budget=3),
    )
    assert d.cause is Reason.NOT_PROVED
    assert not d.released


def test_a_broken_task_falls_back_with_the_place() -> None:
    broken = uc.Task(
        name="broken", state=Clock, actions=[0.0, 1.0], feasible=lambda s, a, p: True, step=lambda s, a, y, p: s,
        reward=lambda s, a, y, p: float("inf") if a else 0.0, fallback=lambda s, p: 0.0,
    )  # fmt: skip
    d = uc.decide(broken, Clock(0.0), trace(), uc.UCBeam(depth=2, width=4), run=uc.Run(engine="python"))
    assert d.outcome is uc.Outcome.FALLBACK
    assert d.reason is Reason.TASK_ERROR
    assert "action 1.0" in d.sentence


def test_a_gate_is_checked_when_it_is_made() -> None:
    with pytest.raises(uc.InputError, match=r"gate\.regret_limit"):
        uc.Gate(regret_limit=float("nan"))
    with pytest.raises(uc.InputError, match=r"gate\.near"):
        uc.Gate(near=True)
    with pytest.raises(uc.InputError, match="gate"):
        decide(gate="everything")


def test_nothing_is_handed_over_before_it_is_written(tmp_path: Path) -> None:
    class Full:
        def write(self, decisions: Any, **options: Any) -> None:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        decide(log=Full())
    log = uc.AuditLog(tmp_path / "decisions.db")
    d = decide(log=Filing(log, series="A"))
    refused = uc.decide(stock, STATE, [[float("inf")]], WIDE, run=uc.Run(engine="python"), log=Filing(log, series="B"))
    rows = log.list()
    assert {r.record["series"] for r in rows} == {"A", "B"}
    kept = {r.record["series"]: json.loads(r.body)["outcome"]["action"] for r in rows}
    assert kept == {"A": d.action, "B": refused.action}


def test_equal_inputs_give_equal_records() -> None:
    from ucsearch.records.record import decision_record

    assert decision_record(decide()) == decision_record(decide())


def test_aggregates_of_a_panel() -> None:
    panel = uc.decide_panel(
        stock, [STATE, STATE._replace(last=6.0)], uc.Trace.from_members(np.stack([trace().members[0, :, :, 0]] * 2)),
        NARROW, run=uc.Run(engine="python"),
    )  # fmt: skip
    found = panel.aggregates()
    assert found["decisions"] == 2
    assert found["release_rate"] + found["abstention_rate"] == 1.0
    assert sum(found["reasons"].values()) == 2
    assert found["hold_rate"] == 0.5


def test_a_fallback_is_asked_for_where_it_is_needed_and_once() -> None:
    asked: list[float] = []

    def fallback(s: Stock, p: Any) -> float:
        asked.append(s.on_hand)
        return 0.0

    task = dataclasses.replace(stock, fallback=fallback)
    many = uc.Trace.from_members(np.stack([trace().members[0, :, :, 0]] * 3))
    states = [STATE._replace(on_hand=x) for x in (4.0, 5.0, 6.0)]
    panel = uc.decide_panel(task, states, many, WIDE, run=uc.Run(engine="python"))
    assert set(panel.outcome) == {"RELEASED"}
    panel.aggregates()
    assert asked == []
    assert panel[1].fallback_action == 0.0
    assert asked == [5.0]
    alone = [panel[w].fallback_cost for w in range(3)]
    assert panel.fallback.tolist() == [0.0, 0.0, 0.0]
    assert panel.fallback_feasible.all()
    assert panel.fallback_cost.tolist() == alone
    assert sorted(asked) == [4.0, 5.0, 6.0]


def bet_reward(s: Clock, a: float, y: float, p: Any) -> float:
    return 1.0 if a == 0.0 else a * y


BET = uc.Task(
    name="bet", state=Clock, actions=[0.0, 1.0], feasible=lambda s, a, p: True,
    step=lambda s, a, y, p: Clock(s.t + 1.0), reward=bet_reward, fallback=lambda s, p: 0.0,
)  # fmt: skip
# The bet pays 1.1 on average and anything from -0.9 to 3.1: reward-only planning takes it, risk 0.5 does not.
ODDS = np.array([[-0.9], [3.1]])


@pytest.mark.parametrize("mode", ["mean", "members"])
def test_a_risk_active_decision_passes_the_risk_gate(mode: Any) -> None:
    gate = uc.Gate(risk_active=True)
    policy = uc.UCBeam(depth=1, width=2, risk=0.5, mode=mode)
    d = uc.decide(BET, Clock(0.0), uc.Trace.from_members(ODDS), policy, gate=gate, run=uc.Run(engine="python"))
    assert d.released
    assert d.action == 0.0
    assert d.certificate.risk_active
    calm = uc.Trace.from_members(np.array([[0.4], [0.6]]))
    assert (
        uc.decide(BET, Clock(0.0), calm, policy, gate=gate, run=uc.Run(engine="python")).cause is Reason.NOT_RISK_ACTIVE
    )


def test_members_mode_is_gated_by_what_certainty_would_choose() -> None:
    # Doubling up is bad for the mean outcome and, by curvature, good for the members.
    def reward(s: Clock, a: float, y: float, p: Any) -> float:
        return a * (y * y - 1.0)

    task = uc.Task(
        name="curved", state=Clock, actions=[0.0, 1.0], feasible=lambda s, a, p: True, step=lambda s, a, y, p: s,
        reward=reward, fallback=lambda s, p: 0.0,
    )  # fmt: skip
    trace_ = uc.Trace.from_members(np.array([[-2.0], [2.0]]))
    policy = uc.UCBeam(depth=1, width=2, risk=0.0, mode="members")
    d = uc.decide(task, Clock(0.0), trace_, policy, gate=uc.Gate(risk_active=True), run=uc.Run(engine="python"))
    assert d.certificate.uncertainty_active
    assert not d.certificate.risk_active
    assert d.released


def routed(near_equal: float, gate: uc.Gate) -> uc.Decision:
    """Three actions: 2 scores best, 1 nearly as well with less risk against the reward-only 2."""

    def reward(s: Clock, a: float, y: float, p: Any) -> float:
        return (0.0, 1.0, 1.2)[int(a)] + (0.0, 0.05, 0.2)[int(a)] * y

    task = uc.Task(
        name="routed", state=Clock, actions=[0.0, 1.0, 2.0], feasible=lambda s, a, p: True,
        step=lambda s, a, y, p: Clock(a), reward=reward, fallback=lambda s, p: 0.0,
        terminal=lambda s, p: 0.35 if s.t == 1.0 else 0.0,
    )  # fmt: skip
    members = uc.Trace.from_members(np.array([[-1.0], [1.0]]))
    policy = uc.ConstrainedBeam(depth=1, width=3, top_k=3, risk=1.0, near_equal=near_equal)
    return uc.decide(task, Clock(0.0), members, policy, gate=gate, run=uc.Run(engine="python"))


def test_the_planning_value_route_releases_and_records_its_margin() -> None:
    d = routed(0.0, uc.Gate())
    assert d.released
    assert d.pass_kind == "exact"
    assert d.certificate.baseline_index == 1


def test_a_near_release_needs_the_route_and_a_regret_within_the_limit() -> None:
    def reward(s: Clock, a: float, y: float, p: Any) -> float:
        return (1.0, 0.98, 0.99)[int(a)] + (1.0, 0.5, 0.45)[int(a)] * y

    def late(s: Clock, p: Any) -> float:
        return (0.0, 0.0, 0.0)[int(s.t)]

    task = uc.Task(
        name="near", state=Clock, actions=[0.0, 1.0, 2.0], feasible=lambda s, a, p: True,
        step=lambda s, a, y, p: Clock(a), reward=reward, fallback=lambda s, p: 0.0, terminal=late,
    )  # fmt: skip
    members = uc.Trace.from_members(np.array([[-1.0], [1.0]]))
    d = uc.decide(
        task,
        Clock(0.0),
        members,
        uc.ConstrainedBeam(depth=1, width=3, top_k=3, risk=0.5, near_equal=1.0),
        run=uc.Run(engine="python"),
    )
    best = d.certificate
    assert best.selected_index == 2
    # The route puts forward what its margin prefers; without near, only an exact pass leaves.
    for limit, released in ((best.regret_bound, True), (0.0, best.regret_bound == 0.0)):
        gate = uc.Gate(near=True, regret_limit=limit)
        policy = uc.ConstrainedBeam(depth=1, width=3, top_k=3, risk=0.5, near_equal=1.0)
        again = uc.decide(task, Clock(0.0), members, policy, gate=gate, run=uc.Run(engine="python"))
        assert again.released is released


def test_gate_edges() -> None:
    assert decide(gate=uc.Gate(max_trace_age_s=0.0), issued=ISSUED, now=ISSUED).released
    assert decide(gate=uc.Gate(regret_limit=0.0)).released
    assert decide(gate=uc.Gate(certificate=False)).cause is Reason.NOT_PROVED
    assert decide(gate=uc.Gate(certificate=False, node_budget=10**9)).released
    assert uc.Gate(certificate=False).is_empty
    for name in ("regret_limit", "max_trace_age_s", "max_eps_c", "max_undercoverage", "node_budget", "time_budget_s"):
        assert not uc.Gate(certificate=False, **{name: 1}).is_empty
        with pytest.raises(uc.InputError, match=name):
            uc.Gate(**{name: -1})
    assert not uc.Gate(certificate=False, positive_margin=True).is_empty
    assert not uc.Gate(certificate=False, risk_active=True).is_empty
    margin = decide().release_margin
    assert 0 < margin < 1 or decide(gate=uc.Gate(positive_margin=True)).released
    with pytest.raises(AttributeError):
        uc.Gate().certificate = False  # type: ignore[misc]
    with pytest.raises(TypeError):
        uc.Gate(False)  # type: ignore[misc]


def test_a_small_positive_margin_is_positive() -> None:
    tiny = uc.Trace.from_members(np.array([[1.01], [1.01]]))
    policy = uc.UCBeam(depth=1, width=2, risk=0.5)
    d = uc.decide(BET, Clock(0.0), tiny, policy, gate=uc.Gate(positive_margin=True), run=uc.Run(engine="python"))
    assert 0 < d.release_margin < 0.1
    assert d.released


def test_an_empty_gate_shows_that_nothing_was_asked() -> None:
    row = next(r for r in decide(gate=uc.Gate(certificate=False)).rows if r.name == "conditions")
    assert (row.left, row.operator, row.right, row.passed) == (0.0, ">=", 1.0, False)


# -------------------------------------------------------------------- ids of records


def test_a_logged_decision_carries_the_id_of_its_record(tmp_path: Path) -> None:
    with uc.AuditLog(tmp_path / "log.db") as log:
        first = decide(log=Filing(log, series="A"))
        refused = uc.decide(stock, STATE, [[float("nan")]], WIDE, log=Filing(log, series="B"))
        panel = uc.decide_panel(
            stock,
            [STATE, STATE],
            [trace(), trace()],
            WIDE,
            run=uc.Run(engine="python"),
            log=Filing(log, series=["C", "D"]),
        )
        names = {row.id: row.record["series"] for row in log}
    ids = [first.record_id, refused.record_id, panel[0].record_id, panel[1].record_id]
    assert [names[x] for x in ids] == ["A", "B", "C", "D"]
    assert panel.records == tuple(ids[2:])


def test_without_a_log_or_with_one_that_says_nothing_there_is_no_id() -> None:
    class Silent:
        def write(self, decisions: Any, *, series: Any = "", where: str = "") -> None:
            return None

    assert decide().record_id == ""
    assert decide(log=Silent()).record_id == ""
    panel = uc.decide_panel(stock, [STATE], [trace()], WIDE, run=uc.Run(engine="python"), log=Silent())
    assert (panel.records, panel[0].record_id) == ((), "")


def test_the_gates_rows_read_as_sentences() -> None:
    text = decide(NARROW, gate=uc.Gate(regret_limit=0.5)).explain()
    assert "  yes  the task's rules ran without a fault (task)\n" in text
    assert "  NO   the first action is proved best among those offered, under the forecast (certificate_pass)\n" in text
    assert "what it may lose against the best plan on this grid is within the limit (regret_bound: " in text
    assert " <= 0.5)" in text


def test_a_check_of_the_task_is_recommended_once_and_not_after_one(caplog: pytest.LogCaptureFixture) -> None:
    own = dataclasses.replace(stock)
    members = trace()
    caplog.set_level(logging.INFO, "ucsearch")

    def told(task: uc.Task) -> int:
        caplog.clear()
        for _ in range(2):
            uc.decide(task, STATE, members, WIDE, run=uc.Run(engine="python"))
        return sum("check_task" in line for line in caplog.messages)

    assert told(own) == 1
    assert told(own) == 0
    other = dataclasses.replace(stock)
    uc.check_task(other, STATE, [4.0, 5.0])
    assert told(other) == 0


# ------------------------------------------------------------------------------ inputs that are none

NO_NUMBERS: dict[str, Any] = {
    "a masked array": np.ma.masked_array([[4.0, 5.0]], mask=[[False, True]]),
    "rows of masked arrays": [np.ma.masked_array([4.0, 5.0], mask=[False, True])],
    "texts": [["4", "5"]],
    "texts among objects": np.array([["4", 5.0]], dtype=object),
    "times": np.array([["2024-01-01", "2024-01-02"]], dtype="datetime64[D]"),
    "durations": np.array([[1, 2]], dtype="timedelta64[D]"),
    "complex numbers": np.array([[4.0 + 1.0j, 5.0]]),
    "numbers beyond all floats": [[10**400, 5]],
}


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_what_is_no_number_is_no_forecast(name: str) -> None:
    with pytest.raises(InputError, match=r"trace\.members"):
        uc.Trace.from_members(NO_NUMBERS[name])


@pytest.mark.parametrize("value", ["3", b"3", 10**400])
def test_what_is_no_number_is_no_state(value: Any) -> None:
    with pytest.raises(InputError, match=r"state\.on_hand"):
        uc.decide(stock, STATE._replace(on_hand=value), [[4.0, 5.0]], uc.Exact(depth=2), run=uc.Run(engine="python"))


@pytest.mark.parametrize(
    "settings",
    [
        {"certificate": "no"}, {"certificate": 0}, {"risk_active": None}, {"near": "no", "regret_limit": 1.0},
        {"regret_limit": "1"}, {"regret_limit": True}, {"node_budget": "many"}, {"min_member_feasible": "1"},
    ],
)  # fmt: skip
def test_a_gate_is_made_of_truths_and_numbers(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="gate"):
        uc.Gate(**settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("now", "2024-01-01"),
        ("now", 0),
        ("now", datetime.max.replace(tzinfo=timezone(-timedelta(hours=9)))),
    ],
)
def test_a_clock_of_another_kind_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=name):
        uc.decide(stock, STATE, [[4.0, 5.0]], uc.Exact(depth=2), run=uc.Run(engine="python"), **{name: value})


def test_nobody_has_paused_unless_it_is_said() -> None:
    assert Context([0.0], 0.0, Calibration()).paused is False
    assert Context([0.0], 0.0, Calibration()).each == ()
