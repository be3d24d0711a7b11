"""Actions that are tuples: the same searches, decisions and records as with the numbers that pack them."""

from __future__ import annotations

import copy
import math
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.errors import InputError
from ucsearch.records.canonical import seal
from ucsearch.records.log import AuditLog
from ucsearch.records.record import decision_record
from ucsearch.verify import verify_file, verify_record

NOON = "2026-01-01T12:00:00+00:00"
PLAIN, COMPILED = uc.Run(engine="python"), uc.Run(engine="compiled")


class Stock(NamedTuple):
    level: float
    open: tuple[float, ...]


def feasible(s, a, p):
    return a[0] + a[1] <= 4.0


def step(s, a, y, p):
    return Stock(s.level + s.open[0] + a[1] - y, (s.open[1], a[0]))


def reward(s, a, y, p):
    left = s.level + s.open[0] + a[1] - y
    return -(100.0 * a[0] + 105.0 * a[1] + (5.0 * left if left > 0.0 else -495.0 * left))


def fallback(s, p):
    return 0.0, 1.0


def ordered(s, a, p):
    return a[0] + a[1]


GRID = [(float(r), float(e)) for r in range(4) for e in range(3)]
TUPLES: Any = uc.Task(
    name="two suppliers", state=Stock, actions=GRID, feasible=feasible, step=step, reward=reward, fallback=fallback,
    uses={"units": ordered},
)  # fmt: skip


def apart(a):
    return 1.0 * math.floor(a / 8.0), a - 8.0 * math.floor(a / 8.0)


NUMBERS: Any = uc.Task(
    name="two suppliers", state=Stock, actions=[8.0 * r + e for r, e in GRID],
    feasible=lambda s, a, p: feasible(s, apart(a), p), step=lambda s, a, y, p: step(s, apart(a), y, p),
    reward=lambda s, a, y, p: reward(s, apart(a), y, p), fallback=lambda s, p: 1.0,
)  # fmt: skip
START = Stock(1.0, (1.0, 0.0))
JOINT = uc.Trace.from_members(np.random.default_rng(1).integers(0, 5, (8, 4)).astype(float))
LAW = JOINT.declare("independent")
CASES = {
    "exact": (uc.Exact(depth=3), JOINT),
    "beam": (uc.UCBeam(depth=3, width=6, top_k=5, risk=0.2), JOINT),
    "certified": (uc.CertifiedBeam(depth=3, width=24), JOINT),
    "mcts": (uc.MCTS(depth=3, simulations=50), JOINT),
    "members": (uc.Exact(depth=2, mode="members", risk=0.5), JOINT),
    "closed": (uc.Exact(depth=3, mode="closed"), LAW),
    "tail": (uc.Exact(depth=3, mode="closed", risk=0.3), LAW),
}


def shown(decision):
    c = decision.certificate
    return repr((decision.outcome, decision.reason, c.action_index, [(r.index, r.score, r.upper) for r in c.rivals]))


@pytest.mark.parametrize("name", CASES)
def test_they_are_searched_as_the_numbers_that_pack_them(name):
    policy, law = CASES[name]
    own = uc.decide(TUPLES, START, law, policy, run=PLAIN)
    assert shown(own) == shown(uc.decide(NUMBERS, START, law, policy, run=PLAIN))
    if own.released:
        assert own.action == GRID[own.certificate.action_index]
        assert repr(own.action[0]) in own.sentence or "(" in own.sentence
    else:
        assert own.action == (0.0, 1.0)
    assert all(isinstance(a, tuple) for a in own.certificate.plan.path)


@pytest.mark.compiled
@pytest.mark.parametrize(
    "name", [name if name == "closed" else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_kernels_find_the_same(name):
    policy, law = CASES[name]
    own = uc.decide(TUPLES, START, law, policy, run=COMPILED)
    assert own.certificate.plan.engine == "compiled"
    assert shown(own) == shown(uc.decide(TUPLES, START, law, policy, run=PLAIN))


@pytest.mark.compiled
def test_a_kernel_is_that_of_its_own_grid():
    import dataclasses

    other = dataclasses.replace(TUPLES, actions=[(r, 2.0 * e) for r, e in GRID], labels=())
    policy, law = CASES["closed"]
    for task in (TUPLES, other):
        decided = uc.decide(task, START, law, policy, run=COMPILED)
        assert shown(decided) == shown(uc.decide(task, START, law, policy, run=PLAIN))


@pytest.mark.parametrize("name", CASES)
def test_records_are_verified_and_forgeries_found(name):
    policy, law = CASES[name]
    record, blobs = decision_record(uc.decide(TUPLES, START, law, policy, run=PLAIN))
    assert record["task"]["actions"] == [list(a) for a in GRID]
    assert verify_record(record, blobs, TUPLES).status == "valid"
    for change in ([9.0, 9.0], [0.0], 3.0):
        forged = copy.deepcopy(record)
        forged["outcome"]["action"] = change
        forged.pop("id")
        assert verify_record(seal(forged), blobs, TUPLES).status != "valid"
    forged = copy.deepcopy(record)
    forged["task"]["actions"][1], forged["task"]["actions"][0] = record["task"]["actions"][:2]
    forged.pop("id")
    assert verify_record(seal(forged), blobs, TUPLES).where == "task.actions"


def test_a_person_may_replace_them(tmp_path):
    with AuditLog(tmp_path / "log.db") as log:
        decided = uc.decide(TUPLES, START, LAW, CASES["closed"][0], run=PLAIN, log=log)
        log.override(decided.record_id, action=(2.0, 1.0), who="A. Person", why="a test", task=TUPLES, at=NOON)
        log.override(decided.record_id, action="(1, 2)", who="A. Person", why="a test", task=TUPLES, at=NOON)
        for wrong, words in (((4.0, 2.0), "breaks the rules"), ((1.0, 1.0, 1.0), "2 numbers"), (2.0, "2 numbers")):
            with pytest.raises(uc.UCSearchError, match=words):
                log.override(decided.record_id, action=wrong, who="A. Person", why="a test", task=TUPLES, at=NOON)
    assert [v.status for v in verify_file(tmp_path / "log.db", TUPLES)] == ["valid"] * 3


def test_policies_and_panels_hold_them():
    policy = uc.solve(TUPLES, LAW, 3, states=START)
    decided = uc.decide(TUPLES, START, LAW, CASES["closed"][0], run=PLAIN)
    assert policy.action(START) == decided.action
    assert set(policy.action_values(START)) == {a for a in GRID if sum(a) <= 4.0}
    assert list(map(tuple, policy.table()["action"].to_list())) == [decided.action]
    panel = uc.decide_panel(TUPLES, [START, START], LAW, CASES["closed"][0], run=PLAIN)
    assert panel[1].action == decided.action
    assert [TUPLES.action_of(a) for a in panel.action.tolist()] == [decided.action] * 2
    assert list(map(tuple, panel.frame()["action"].to_list())) == [decided.action] * 2


def test_a_panel_is_recorded(tmp_path):
    with AuditLog(tmp_path / "log.db") as log:
        states = [START, Stock(-2.0, (0.0, 1.0)), Stock(9.0, (3.0, 3.0))]
        panel = uc.decide_panel(TUPLES, states, LAW, CASES["closed"][0], run=PLAIN, log=log)
        assert [e.record["outcome"]["action"] for e in log] == [list(panel[w].action) for w in range(3)]
    assert [v.status for v in verify_file(tmp_path / "log.db", TUPLES)] == ["valid"] * 3


def test_the_task_is_checked():
    uc.check_task(TUPLES, START, [0.0, 3.0], closed=True)


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        ([(1.0, 0.0), (0.0, 1.0)], "ascending"), ([(0.0, 1.0), (0.0, 1.0)], "ascending"),
        ([(0.0,), (0.0, 1.0)], "one length"), ([0.0, (0.0, 1.0)], "task.actions"), ([()], "task.actions"),
        ([[0.0, 1.0], [1.0, 0.0]], "task.actions"), ([(0.0, math.nan)], "task.actions"),
    ],
)  # fmt: skip
def test_other_grids_are_refused(actions, words):
    import dataclasses

    with pytest.raises(InputError, match=words):
        dataclasses.replace(TUPLES, actions=actions, labels=())


def own_grid(k):
    return [(float(k * r), float(e + k)) for r in range(4) for e in range(3)]


@pytest.mark.parametrize(
    ("name", "engine"),
    [
        ("closed", "python"), ("exact", "python"), pytest.param("closed", "compiled", marks=pytest.mark.compiled),
        pytest.param("exact", "compiled", marks=[pytest.mark.compiled, pytest.mark.slow]),
    ],
)  # fmt: skip
def test_every_window_may_offer_tuples_of_its_own(name, engine):
    import dataclasses

    policy, law = CASES[name]
    grids = [own_grid(k) for k in (1, 2, 1)]
    grids[2][3] = (math.nan, math.nan)
    run = uc.Run(engine=engine)
    panel = uc.decide_panel(TUPLES, [START] * 3, law, policy, actions=grids, run=run)
    for w, grid in enumerate(grids):
        there = [a for a in grid if a == a and a[0] == a[0]]
        task = dataclasses.replace(TUPLES, actions=there, labels=())
        alone = uc.decide(task, START, law, policy, run=PLAIN)
        assert panel[w].certificate.plan.actions[:3] == tuple(grid[:3])
        assert (panel[w].action, panel[w].outcome) == (alone.action, alone.outcome)
        assert panel[w].certificate.plan.score == alone.certificate.plan.score
        record, blobs = decision_record(panel[w])
        assert record["task"]["actions"][:3] == [list(a) for a in grid[:3]]
        assert verify_record(record, blobs, TUPLES).status == "valid"


@pytest.mark.parametrize(
    ("actions", "words"),
    [
        ([1.0] * len(GRID), "shape"), (GRID[:-1], "shape"), ([(a, b, 0.0) for a, b in GRID], "shape"),
        ([(a, b + 0.5) for a, b in GRID], "whole numbers"), ([(a, -b) for a, b in GRID], "whole numbers"),
        ([(1e8 + a, b) for a, b in GRID], "whole numbers"), (GRID[::-1], "ascending"),
    ],
)  # fmt: skip
def test_other_tuples_of_a_window_are_refused(actions, words):
    with pytest.raises(InputError, match=words):
        uc.decide(TUPLES, START, JOINT, uc.Exact(depth=1), actions=actions)


def test_tuples_that_are_not_whole_are_those_of_the_task():
    import dataclasses

    halves = [(0.5 * a, 0.5 * b) for a, b in GRID]
    task = dataclasses.replace(TUPLES, actions=halves, labels=(), fallback=lambda s, p: (0.0, 0.5))
    assert [task.action_of(task.number_of(a)) for a in halves] == halves
    assert task.number_of((9.0, 9.0)) != task.number_of((9.0, 9.0))
    decided = uc.decide(task, START, LAW, CASES["closed"][0], run=PLAIN)
    assert decided.action in halves
    with pytest.raises(InputError, match="expected nothing: windows may have tuples of their own where"):
        uc.decide(task, START, JOINT, uc.Exact(depth=1), actions=halves)


@pytest.mark.compiled
def test_kernels_know_tuples_that_are_not_whole():
    import dataclasses

    task = dataclasses.replace(
        TUPLES, actions=[(0.5 * a, 0.5 * b) for a, b in GRID], labels=(), fallback=lambda s, p: (0.0, 0.5)
    )
    policy, law = CASES["closed"]
    decided = uc.decide(task, START, law, policy, run=COMPILED)
    assert decided.certificate.plan.engine == "compiled"
    assert shown(decided) == shown(uc.decide(task, START, law, policy, run=PLAIN))
