"""Conditions of the gate as objects: one table, in the verifier's order, and a site's own beside it."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.decision.gate import BUILT_IN
from ucsearch.errors import InputError
from ucsearch.records import decision_record, seal
from ucsearch.verify import verify_record
from ucsearch.verify.decision import gate as verifier


class Shelf(NamedTuple):
    units: float


class Limits(NamedTuple):
    room: float


def feasible(s: Any, a: float, p: Any) -> bool:
    return bool(s.units + a <= p.room)


def step(s: Any, a: float, y: float, p: Any) -> Shelf:
    return Shelf(max(s.units + a - y, 0.0))


def reward(s: Any, a: float, y: float, p: Any) -> float:
    return 3.0 * min(s.units + a, y) - 2.0 * a


def fallback(s: Any, p: Any) -> float:
    return 0.0


def load(s: Any, a: float, p: Any) -> float:
    return 40.0 * a


def share(s: Any, a: float, p: Any) -> float:
    return float((s.units + a) / p.room)


def broken(s: Any, a: float, p: Any) -> float:
    raise ZeroDivisionError


BASE = uc.Task("shelf", Shelf, (0.0, 1.0, 2.0), feasible, step, reward, fallback, params=Limits(4.0))
TRUCK = uc.Condition("truck", load, "<=", 90.0, "the order fits the truck")
ROOM = uc.Condition("room", share, "<=", 0.4, "most of the room stays free")
TRACE = uc.Trace.from_members([[2.0, 3.0], [2.0, 2.0]])
POLICY = uc.Exact(depth=2)


def decided(*conditions: uc.Condition, **more: Any) -> uc.Decision:
    task = dataclasses.replace(BASE, conditions=conditions)
    return uc.decide(task, Shelf(1.0), TRACE, POLICY, run=uc.Run(engine="python"), **more)


def test_the_verifier_asks_in_the_same_order() -> None:
    everything = uc.Gate(
        risk_active=True, regret_limit=1.0, near=True, allow_ties=False, positive_margin=True, min_member_feasible=0.5,
        max_trace_age_s=1.0, max_eps_c=1.0, max_undercoverage=1.0, max_drift=1.0, max_overdue=1.0, pausable=True,
        node_budget=9, time_budget_s=1.0,
    )  # fmt: skip
    task = dataclasses.replace(BASE, conditions=(TRUCK,))
    panel = uc.decide_panel(
        task, [Shelf(1.0)], TRACE, POLICY, gate=everything, run=uc.Run(engine="python", clock=lambda: 0.0)
    )
    rows = [row.name for row in panel[0].rows]
    order = [one.name for one in BUILT_IN]
    assert rows == [name for name in order if name in rows] + ["site:truck"]
    assert set(order) - set(rows) == {
        "search_in_time", "conditions", "law", "transitions_within_budget", "final_check",
    }  # fmt: skip
    record, blobs = decision_record(panel[0])
    assert verify_record(record, blobs, task).status == "valid"
    assert len({one.words for one in BUILT_IN}) == len(BUILT_IN)


def test_a_limit_of_zero_is_a_limit_and_is_recorded() -> None:
    gate = uc.Gate(max_drift=0.0, max_overdue=0.0)
    found = decided(gate=gate, calibration=uc.Calibration(drift=0.0, overdue=0.0))
    assert found.outcome is uc.Outcome.RELEASED
    record, blobs = decision_record(found)
    assert record["gate"]["settings"]["max_drift"] == 0.0
    assert verify_record(record, blobs, BASE).status == "valid"


def test_a_site_s_condition_is_asked_of_the_action_put_forward_and_verified() -> None:
    released = decided(TRUCK)
    assert (released.outcome, released.action) == (uc.Outcome.RELEASED, 1.0)
    assert "yes  the order fits the truck (site:truck: 40 <= 90)" in released.explain()
    refused = decided(TRUCK, ROOM)
    assert (refused.outcome, refused.reason, refused.action) == (uc.Outcome.FALLBACK, uc.Reason.SITE, 0.0)
    assert "site:room 0.5, limit 0.4" in refused.sentence
    for decision, conditions in ((released, (TRUCK,)), (refused, (TRUCK, ROOM))):
        task = dataclasses.replace(BASE, conditions=conditions)
        record, blobs = decision_record(decision)
        assert verify_record(record, blobs, task).status == "valid"
        assert verify_record(record, blobs, BASE).status == "invalid"  # other rules
        looser = dataclasses.replace(BASE, conditions=(dataclasses.replace(TRUCK, limit=1000.0), *conditions[1:]))
        assert verify_record(record, blobs, looser).status == "invalid"


@pytest.mark.parametrize(
    ("member", "value"), [("left", 10.0), ("right", 900.0), ("pass", False), ("operator", ">="), ("name", "site:lorry")]
)
def test_a_forged_row_is_found(member: str, value: Any) -> None:
    record, blobs = decision_record(decided(TRUCK))
    forged = json.loads(json.dumps(record))
    forged["gate"]["rows"][-1][member] = value
    forged.pop("id")
    found = verify_record(seal(forged), blobs, dataclasses.replace(BASE, conditions=(TRUCK,)))
    assert found.status == "invalid"
    assert "gate.rows" in found.where


def test_dropping_the_row_is_found() -> None:
    record, blobs = decision_record(decided(TRUCK))
    forged = json.loads(json.dumps(record))
    forged["gate"]["rows"].pop()
    forged.pop("id")
    assert verify_record(seal(forged), blobs, dataclasses.replace(BASE, conditions=(TRUCK,))).status == "invalid"


@pytest.mark.parametrize(
    "answer", [None, "7", math.nan, math.inf, np.array([1.0]), 1j, [1.0]], ids=lambda a: type(a).__name__ + str(a)[:3]
)
def test_what_is_no_number_fails(answer: Any) -> None:
    odd = uc.Condition("odd", lambda s, a, p: answer, "<=", 1e9, "it is small")
    assert math.isnan(verifier._site(odd, type("P", (), {"state": 0, "params": 0, "actions": [1.0]})(), 0))  # type: ignore[arg-type]
    found = decided(odd)
    assert found.reason is uc.Reason.SITE
    assert found.rows[-1].passed is False


def test_a_condition_that_raises_fails_and_verifies() -> None:
    broken_one = uc.Condition("broken", broken, "<=", 1.0, "it is small")
    found = decided(broken_one)
    assert found.reason is uc.Reason.SITE
    record, blobs = decision_record(found)
    assert verify_record(record, blobs, dataclasses.replace(BASE, conditions=(broken_one,))).status == "valid"


def test_rules_without_conditions_keep_their_hash_and_conditions_are_part_of_it() -> None:
    bare = dataclasses.replace(BASE, conditions=())
    assert bare.source_hash == BASE.source_hash
    hashes = {
        dataclasses.replace(BASE, conditions=c).source_hash
        for c in ((), (TRUCK,), (ROOM,), (TRUCK, ROOM), (dataclasses.replace(TRUCK, limit=91.0),))
    }
    assert len(hashes) == 5


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "a b"}, "name"), ({"name": ""}, "name"), ({"figure": 3}, "figure"), ({"figure": fallback}, "figure"),
        ({"operator": "<"}, "operator"), ({"limit": math.nan}, "limit"), ({"words": " "}, "words"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError, match=field):
        dataclasses.replace(TRUCK, **changes)


def test_names_are_distinct_and_only_conditions_are_taken() -> None:
    with pytest.raises(InputError, match="conditions"):
        dataclasses.replace(BASE, conditions=(TRUCK, TRUCK))
    with pytest.raises(InputError, match="conditions"):
        dataclasses.replace(BASE, conditions=(load,))


def test_the_table_of_the_gate_is_what_stands_beside_its_fields() -> None:
    script = Path(__file__).resolve().parents[2] / "scripts" / "gate_table.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
