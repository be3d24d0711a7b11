"""Records of panels: each window as `decision_record` says it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.logged import Tank, tank
from ucsearch import records
from ucsearch.decision.decision import DecisionPanel
from ucsearch.errors import RecordError
from ucsearch.planner.recorded.explain import retell
from ucsearch.records import AuditLog, Request, log
from ucsearch.records.canonical import seal_bytes
from ucsearch.records.entries import Under, blob_refs
from ucsearch.records.record import decision_record, panel_bodies
from ucsearch.tasks import LeadTimeInventory

CONFIG = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 4.0, 8.0), unit_cost=0.5, ramp=4.0, capacity=24.0)


def make_panel(policy: uc.Exact | uc.UCBeam, windows: int = 12, **options: Any) -> DecisionPanel:
    rng = np.random.default_rng(3)
    members = rng.gamma(2.0, 2.0, (windows, 5, 4)) * 10.0 ** rng.integers(-6, 3, (windows, 1, 1))
    members[0] = 0.0
    states = [
        CONFIG.state(float(rng.integers(0, 9)), [float(rng.integers(0, 9))], float(w % 3) * 8.0) for w in range(windows)
    ]
    issued = [f"2024-05-01T{w:02d}:00:00" for w in range(windows)]
    trace = uc.Trace.from_members(members, issued=issued, model='a "model" \u2028 é')
    return uc.decide_panel(CONFIG.task(), states, trace, policy, run=uc.Run(engine="python"), **options)


PANELS = {
    "released": lambda: make_panel(uc.Exact(depth=3, risk=0.5)),
    "fallback": lambda: make_panel(uc.UCBeam(depth=4, width=1, top_k=1, risk=0.5, order="score")),
    "members": lambda: make_panel(uc.Exact(depth=2, risk=0.5, mode="members"), gate=uc.Gate(risk_active=True)),
    "route": lambda: make_panel(uc.ConstrainedBeam(depth=3, width=8, risk=0.5, near_equal=1.0)),
    "limits": lambda: make_panel(
        uc.Exact(depth=3, node_budget=3),
        gate=uc.Gate(regret_limit=0.1, node_budget=5, max_eps_c=1.0),
        proof=uc.Proof(node_budget=2),
    ),
    "own parameters and actions": lambda: make_panel(
        uc.Exact(depth=3),
        params=CONFIG.params()._replace(shortage=np.linspace(1.0, 9.0, 12)),  # type: ignore[arg-type]
        actions=np.where(np.arange(12)[:, None] % 4 == 0, [[0.0, 4.0, np.nan]], [[0.0, 4.0, 8.0]]),
    ),
}


@pytest.mark.parametrize("name", PANELS)
def test_every_window_is_its_own_record(name: str) -> None:
    panel = PANELS[name]()
    series = [f"SKU-{w} é" for w in range(len(panel))]
    under = Under('a "plan"', "2024-05-03")
    for w, body in zip(
        [*range(len(panel))][::-1],
        panel_bodies(panel, series[::-1], "a:b", windows=[*range(len(panel))][::-1], under=under),
        strict=True,
    ):
        record, blobs = decision_record(panel[w], series=series[w], where="a:b", under=under)
        assert (record["plan"], record["valid_until"], record["series"]) == ('a "plan"', "2024-05-03", series[w])
        assert (body.id, body.body) == seal_bytes(record)
        assert body.blobs == blobs
        assert set(body.refs) == set(blobs) == set(blob_refs(body.body))


@pytest.mark.parametrize("doubted", [(0,), (5,), (0, 5)])
def test_what_the_final_check_said_is_in_the_record_of_its_window_alone(doubted: tuple[int, ...]) -> None:
    panel = replace(PANELS["fallback"](), doubts={w: f"window {w} scores less" for w in doubted})
    series = [str(w) for w in range(len(panel))]
    expected = [seal_bytes(decision_record(panel[w], series=series[w])[0]) for w in range(len(panel))]
    assert [(body.id, body.body) for body in panel_bodies(panel, series)] == expected


def test_all_outcomes_are_among_them() -> None:
    seen = {o for name in PANELS for o in PANELS[name]().outcome.tolist()}
    assert seen == {"RELEASED", "FALLBACK", "HOLD"}


def test_requests_are_in_the_bytes_too() -> None:
    panel = PANELS["fallback"]()
    series = [str(w) for w in range(len(panel))]
    requests = [Request("ab" * 32, w, "cd" * 32, 'a "person" é') for w in range(len(panel))]
    made = panel_bodies(panel, series, "", requests=requests)
    for w, body in enumerate(made):
        record, _ = decision_record(panel[w], series=series[w], request=requests[w])
        assert record["request"] == {"key": "ab" * 32, "item": w, "body": "cd" * 32, "by": 'a "person" é'}
        assert (body.id, body.body) == seal_bytes(record)
    with pytest.raises(RecordError, match="requests: saw 3 items, expected 12"):
        panel_bodies(panel, series, "", requests=requests[:3])


def test_the_log_writes_panels_in_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    panel = PANELS["released"]()
    series = [str(w) for w in range(len(panel))]
    made = panel_bodies(panel, series, "a:b")
    with AuditLog(tmp_path / "a.db") as slow:
        entries = [slow.append(*decision_record(panel[w], series=series[w], where="a:b")) for w in range(len(panel))]
    monkeypatch.setattr(log, "_BATCH", 5)
    with AuditLog(tmp_path / "b.db") as fast:
        assert not fast.has_all([made[0].id])
        assert fast.write(panel, series=series, where="a:b") == entries
        assert fast.verify().ok
        assert fast.has_all([body.id for body in made])
        assert fast.append_sealed([]) == ()


def test_one_audit_log() -> None:
    assert uc.AuditLog is records.AuditLog
    assert records.AuditLog is AuditLog


@pytest.mark.parametrize("name", PANELS)
def test_sentences_are_made_again_from_the_figures(name: str) -> None:
    panel = PANELS[name]()
    for w in range(len(panel)):
        record, _ = decision_record(panel[w])
        assert retell(record, CONFIG.task()) == [panel[w].sentence]


@pytest.mark.parametrize("mode", ["closed", "members"])
def test_sentences_of_other_modes(mode: Any) -> None:
    trace = uc.Trace.from_members([[3.0, 9.0], [5.0, 7.0], [6.0, 8.0]], coupling="independent")
    decision = uc.decide(tank, Tank(10.0), trace, uc.Exact(depth=2, mode=mode), run=uc.Run(engine="python"))
    assert decision.released
    assert retell(decision_record(decision)[0], tank) == [decision.sentence]
    assert ("against every policy on this grid" in decision.sentence) is (mode == "closed")


def test_closed_panels_with_a_unit_per_window_and_trees_are_recorded() -> None:
    inventory = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 2.0, 4.0), merge_arrivals=True)
    members = np.random.default_rng(3).poisson(2.0, (3, 8, 3)).astype(float)
    traces = [uc.Trace.from_members(members).on_lattice([1.0, 2.0, 0.5])]
    tree = np.zeros((8, 3), int) + np.arange(8)[:, None]
    traces.append(uc.Trace.from_members(members[0], coupling="tree", node=tree))
    for trace in traces:
        states = [inventory.state(2.0, [1.0])] * trace.windows
        panel = uc.decide_panel(
            inventory.task(), states, trace, uc.Exact(depth=3, mode="closed"), run=uc.Run(engine="python")
        )
        names = [f"S{w}" for w in range(trace.windows)]
        for w, body in enumerate(panel_bodies(panel, names)):
            record, blobs = decision_record(panel[w], series=names[w])
            assert (body.id, body.body) == seal_bytes(record)
            assert set(body.refs) == set(body.blobs) == set(blobs)
