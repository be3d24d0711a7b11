"""Actions that are tuples are shared out as their twins that are numbers, recorded and verified."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from tests.allocation.kit import newest_decisions, record_of
from ucsearch.allocation.problem import Shared
from ucsearch.allocation.record import recorded_allocation, write_allocation
from ucsearch.decision import Filing
from ucsearch.records import AuditReader
from ucsearch.records.canonical import canonical, seal
from ucsearch.verify import verify_file

NAMES = ["a", "b", "c"]
PAIRS = ((0.0, 0.0), (0.0, 2.0), (3.0, 0.0), (3.0, 2.0))  # by sea, by air


class Depot(NamedTuple):
    stock: float


def feasible(s: Depot, a: Any, p: Any) -> bool:
    return s.stock + a[0] + a[1] <= 6.0


def step(s: Depot, a: Any, y: float, p: Any) -> Depot:
    return Depot(max(0.0, s.stock + a[0] + a[1] - y))


def reward(s: Depot, a: Any, y: float, p: Any) -> float:
    short = max(0.0, y - s.stock - a[0] - a[1])
    return -1.0 * a[0] - 2.0 * a[1] - 9.0 * short - 0.5 * max(0.0, s.stock + a[0] + a[1] - y)


def fallback(s: Depot, p: Any) -> tuple[float, float]:
    return (0.0, 0.0)


def litres(s: Depot, a: Any, p: Any) -> float:
    return a[0] + 1.5 * a[1]


TASK = uc.Task(
    name="two ways", state=Depot, actions=PAIRS, feasible=feasible, step=step, reward=reward, fallback=fallback,
    uses={"litres": litres},
)  # fmt: skip
NUMBERED = uc.Task(
    name="two ways by number", state=Depot, actions=tuple(map(float, range(4))),
    feasible=lambda s, a, p: feasible(s, PAIRS[int(a)], p), step=lambda s, a, y, p: step(s, PAIRS[int(a)], y, p),
    reward=lambda s, a, y, p: reward(s, PAIRS[int(a)], y, p), fallback=lambda s, p: 0.0,
    uses={"litres": lambda s, a, p: litres(s, PAIRS[int(a)], p)},
)  # fmt: skip
TRUCK = Shared(name="truck", limit=5.0, use="litres")
WEEK = Shared(name="truck", limit=[5.0, 7.0], use="litres", times=dict.fromkeys(NAMES, 0.9))
STATES = [Depot(0.0), Depot(1.0), Depot(5.5)]


def panel(task: uc.Task[Any, Any], *, mode: Any = "members", log: Any = None) -> uc.DecisionPanel:
    outcomes = np.random.default_rng(5).poisson(3.0, (3, 4, 2)).astype(float)
    trace = uc.Trace.from_members(outcomes, coupling="independent" if mode == "closed" else "joint")
    filing = None if log is None else Filing(log, series=NAMES, where=f"{__name__}:TASK")
    policy = uc.Exact(depth=2, mode=mode, **({} if mode == "closed" else {"every_action": True}))
    return uc.decide_panel(task, STATES, trace, policy, run=uc.Run(engine="python"), log=filing)


@pytest.mark.parametrize(("shared", "mode"), [(TRUCK, "members"), (TRUCK, "closed"), (WEEK, "closed")])
@pytest.mark.parametrize("alone", [False, True], ids=["panel", "one by one"])
def test_pairs_get_what_their_numbers_get(shared: Shared, mode: str, alone: bool) -> None:
    found = []
    for task in (TASK, NUMBERED):
        made = panel(task, mode=mode)
        found.append(uc.allocate([made[w] for w in range(3)] if alone else made, shared, series=NAMES, serve="best"))
    ours, theirs = found
    assert ours.served
    assert (ours.gap, ours.upper) == (theirs.gap, theirs.upper)
    for own, other in zip(ours.shares, theirs.shares, strict=True):
        assert own.action == PAIRS[int(other.action or 0)]
        assert own.alone == PAIRS[int(other.alone or 0)]
        assert (own.uses, own.loss, own.binding) == (other.uses, other.loss, other.binding)
    assert any(share.action != share.alone for share in ours.shares)
    assert "(0, 2)" in ours.explain() or "(3, 0)" in ours.explain()
    assert ours.frame().shape[0] == 3


@pytest.mark.parametrize(("shared", "mode"), [(TRUCK, "members"), (WEEK, "closed")])
def test_the_record_is_valid_and_a_forged_pair_is_found(tmp_path: Path, shared: Shared, mode: str) -> None:
    path = tmp_path / "log.db"
    with uc.AuditLog(path) as log:
        made = panel(TASK, mode=mode, log=log)
        found = uc.allocate(made, shared, series=NAMES, serve="best")
        rows = newest_decisions(log)
        written = write_allocation(found, log, rows)
        content = record_of(found, list(rows.values()))
        log.export_jsonl(tmp_path / "log.jsonl")
    assert [v.status for v in verify_file(path, TASK)] == ["valid"] * 4
    with AuditReader(path) as reader:
        again = recorded_allocation(reader, reader.get(written.record_id), lambda _: TASK)
    assert [s.action for s in again.shares] == [s.action for s in found.shares]
    assert all(isinstance(s.action, tuple) for s in again.shares)
    lines = (tmp_path / "log.jsonl").read_bytes().splitlines()
    changed = next(m for m in content["members"] if m["action"] != [3.0, 2.0])
    changed["action"] = [3.0, 2.0]
    entry = json.loads(lines[-1])
    entry |= {"record": seal({k: v for k, v in content.items() if k != "id"})}
    (tmp_path / "forged.jsonl").write_bytes(b"\n".join([*lines[:-1], canonical(entry["record"])]) + b"\n")
    told = list(verify_file(tmp_path / "forged.jsonl", TASK))[-1]
    assert told.status == "invalid"
    assert told.where.startswith(("members[", "claim.", "shared[", "later"))
