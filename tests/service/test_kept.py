"""What is kept from batch to batch is never what it was made of before: one service after many other requests writes
the bytes of one that has just been started."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from tests.service.kit import CONFIG, PLAN, START, item, make_folder, open_service
from ucsearch.records.entries import Request
from ucsearch.records.log import AuditReader
from ucsearch.records.record import panel_bodies
from ucsearch.service.bodies import read_body, rows_of
from ucsearch.service.schemas import DecideBody
from ucsearch.service.service import Service

PLANS = CONFIG + '[[plan]]\nname = "strict"\nsettings = "strict.toml"\n'
STRICT = PLAN + "[gate]\nregret_limit = 0.5\nmax_trace_age_s = 60.0\n"


def _items() -> list[dict[str, Any]]:
    """Other columns, shapes, kinds of forecasts, parameters and times, and some that cannot be used."""
    plain, steps = item("A"), [4.0, 5.0, 6.0]
    made = [
        plain, item("B", on_hand=9.0, members=7), item("C", level=1.0, issued=START.isoformat()),
        item("D", issued="2026-02-28", model="m1"), item("E", cutoff="2026-03-01", model="m2"),
        {**plain, "forecast": {"mean": steps, "std": [1.0, 1.0, 2.0]}},
        {**plain, "forecast": {"std": [1.0, 1.0, 2.0], "mean": steps}},
        {**plain, "forecast": {"quantiles": {"0.9": [7.0] * 3, "0.1": [1.0] * 3, "0.5": [3.0] * 3}}},
        {**plain, "forecast": {"members": [[4.0, None, 5.0], [1.0, 2.0, 3.0]]}},
        {**plain, "forecast": {"members": [[4.0], [1.0]]}},
        {**plain, "state": {"on_hand": 3.0}}, {**plain, "state": {"on_hand": -0.0, "open_orders": []}},
        {**plain, "state": {"on_hand": 3.0, "shortage": 30.0}}, {**plain, "state": {"on_hand": 3.0, "lead_time": 2.0}},
        {**plain, "state": {"on_hand": -4.0}}, {**plain, "state": {"on_hand": 1e300}},
    ]  # fmt: skip
    return [*made, *reversed(made)]


def _decided(service: Service, plan: str, given: dict[str, Any], key: str) -> str:
    raw = json.dumps({"items": [given]}).encode()
    rows = rows_of(read_body(DecideBody, raw, 500), service.config.limits, service.plan(plan).settings)
    request = Request(hashlib.sha256(key.encode()).hexdigest(), body=hashlib.sha256(raw).hexdigest(), by="me")
    try:
        return service.writer.decide(service.plan(plan), rows, request).result(60).decode()
    except Exception as error:
        return repr(error)


def _started(folder: Path) -> Service:
    make_folder(folder, PLANS)
    (folder / "strict.toml").write_text(STRICT)
    service = open_service(folder, lambda: START)
    service.start()
    return service


def _bodies(folder: Path) -> list[tuple[bytes, list[str]]]:
    with AuditReader(folder / "log/decisions.db") as log:
        return [(row.body, sorted(log.blobs_of(row))) for row in log]


@pytest.mark.parametrize("plan", ["orders", "strict"])
def test_one_service_writes_what_a_new_one_for_every_request_would(plan: str, tmp_path: Path) -> None:
    service = _started(tmp_path / "one")
    for n, given in enumerate(_items()):
        other = "strict" if plan == "orders" else "orders"
        _decided(service, other, given, f"other {n}")
        _decided(service, plan, given, f"{n}")
    service.stop()
    found = [x for x in _bodies(tmp_path / "one") if json.loads(x[0])["plan"] == plan]
    wanted = []
    for n, given in enumerate(_items()):
        fresh = _started(tmp_path / f"new {n}")
        _decided(fresh, plan, given, f"{n}")
        fresh.stop()
        wanted += _bodies(tmp_path / f"new {n}")
    assert found == wanted
    outcomes = {json.loads(body)["outcome"]["outcome"] for body, _ in found}
    assert len(outcomes) > 1 or plan == "strict"


class Level(NamedTuple):
    level: float


PRICE = 3.0


def _worth(s: Any, a: float, y: float, p: Any) -> float:
    return -a - PRICE * max(y - s.level - a, 0.0)


def _task() -> uc.Task:
    return uc.Task(
        name="kept", state=Level, actions=[0.0, 2.0, 4.0], feasible=lambda s, a, p: s.level + a >= 0.0,
        step=lambda s, a, y, p: Level(max(s.level + a - y, 0.0)), reward=_worth, fallback=lambda s, p: 0.0,
    )  # fmt: skip


def test_records_name_the_rules_that_decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """A constant that has changed is another set of rules: the task decides nothing until it is made again."""
    policy, gate, run = uc.Exact(depth=2), uc.Gate(), uc.Run(engine="python")
    trace = uc.Trace.from_members(np.array([[[2.0, 3.0, 4.0], [3.0, 3.0, 3.0]]]))
    task, seen = _task(), []
    for price in (3.0, 0.1, 3.0):
        monkeypatch.setattr(f"{__name__}.PRICE", price)
        if price == 0.1:
            with pytest.raises(uc.TaskError, match="PRICE has changed since the task was made"):
                uc.decide_panel(task, [Level(1.0)], trace, policy, gate=gate, run=run)
            task = _task()
        elif seen:
            task = _task()
        panel = uc.decide_panel(task, [Level(1.0)], trace, policy, gate=gate, run=run)
        (made,) = panel_bodies(panel, ["a"], "x:y")
        assert json.loads(made.body)["task"]["rules"] == task.source_hash
        seen.append((task.source_hash, panel.action.tolist()))
    assert seen[0] == seen[2] != seen[1]
    assert seen[0][1] != seen[1][1]


def test_a_policy_or_a_gate_with_another_limit_is_another_one() -> None:
    task, trace = _task(), uc.Trace.from_members(np.array([[[2.0, 3.0, 4.0], [3.0, 9.0, 3.0]]]))

    def made(depth: int, forecast: uc.Trace = trace, **gate: Any) -> uc.Decision:
        decided = uc.decide_panel(
            task,
            [Level(1.0)],
            forecast,
            uc.Exact(depth=depth),
            gate=uc.Gate(**gate),
            run=uc.Run(engine="python"),
            now=START,
        )
        return decided[0]

    for depth in (1, 2, 3, 2, 1):
        assert made(depth).certificate.plan.settings.depth == depth  # type: ignore[union-attr]
    with pytest.raises(uc.InputError, match=r"policy\.depth"):
        made(3, uc.Trace.from_members(np.array([[[2.0, 3.0], [3.0, 9.0]]])))
    for limit in (1, 1.0, 2.5, 1):
        (row,) = [r for r in made(2, regret_limit=limit).rows if r.name == "regret_bound"]
        assert (row.right, type(row.right)) == (float(limit), float)
    names = [{r.name for r in made(2, **gate).rows} for gate in ({}, {"pausable": True}, {"certificate": False}, {})]
    assert (
        names[0] == names[3] == names[1] - {"released_by_operator"} == {"certificate_pass", *names[2]} - {"conditions"}
    )
    assert "search_in_time" not in names[0]


def test_few_and_many_keys_are_found_alike(tmp_path: Path) -> None:
    service = _started(tmp_path)
    keys = [hashlib.sha256(f"{n}".encode()).hexdigest() for n in range(12)]
    for n in range(12):
        _decided(service, "orders", item(f"S{n}"), f"{n}")
    service.stop()
    with AuditReader(tmp_path / "log/decisions.db") as log:
        for count in (0, 1, 8, 9, 12):
            found = log.find_requests([*keys[:count], "0" * 64])
            assert list(found) == sorted(keys[:count])
            assert found == {k: log.find_request(k) for k in sorted(keys[:count])}
