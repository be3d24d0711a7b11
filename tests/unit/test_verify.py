"""The independent verifier: valid records of every kind, lies in every place, files, logs, exit codes, imports."""

from __future__ import annotations

import ast
import copy
import dataclasses
import json
import math
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
import ucsearch.verify
from tests.kit.problems import random_problem
from tests.kit.templates import TEMPLATES, battery, stock
from ucsearch.certificate.compute import derive
from ucsearch.records import AuditLog as RawLog
from ucsearch.records import Checkpoint, blob_id, encode_array, seal
from ucsearch.records import canonical as producer
from ucsearch.records.decisions import AuditLog, decision_record
from ucsearch.verify import BUDGET, NoTask, Verdict, find_task, formats, verify_file, verify_log, verify_record
from ucsearch.verify.__main__ import main
from ucsearch.verify.formats import Malformed, canonical, loads
from ucsearch.verify.search import Meter, OutOfNodes

B = dict(depth=3, width=6, top_k=3)
ISSUED = "2026-01-01T00:00:00+00:00"
NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
TASK = "tests.kit.templates:battery"

# name: template, mode, seed, policy, options of decide, what makes it this case
SCENARIOS: dict[str, tuple[str, str, int, Any, dict[str, Any], Callable[[Any], bool]]] = {
    "released": ("battery", "mean", 1, uc.UCBeam(**B, risk=0.25), {}, lambda r: r["claim"]["kind"] == "oracle"),
    "bound": (
        "stock", "mean", 2, uc.CertifiedBeam(**B, risk=0.5), {},
        lambda r: r["claim"]["kind"] == "bound" and r["claim"]["eps_a"] is None and released(r),
    ),
    "fallback": (
        "battery", "mean", 1, uc.UCBeam(depth=3, width=1, top_k=1, risk=0.25), {},
        lambda r: r["outcome"]["reason"] == "not_optimal" and sum(x["retained"] for x in r["rivals"]) == 1,
    ),
    "hold": ("maze", "mean", 5, uc.UCBeam(**B, risk=0.25), {}, lambda r: r["outcome"]["cause"] == "dead_end"),
    "hold, not optimal": (
        "stock", "mean", 47, uc.UCBeam(depth=3, width=1, top_k=1, order="score"), {},
        lambda r: r["outcome"]["outcome"] == "HOLD" and r["outcome"]["cause"] == "not_optimal",
    ),
    "sole action": ("maze", "mean", 4, uc.ParetoBeam(**B, risk=0.25), {}, lambda r: r["claim"]["sole_action"]),
    "routed": (
        "stock", "mean", 18, uc.ConstrainedBeam(**B, risk=1.0, near_equal=5.0, band=0.5, order="score"), {},
        lambda r: r["claim"]["release_margin"] is not None and released(r),
    ),
    "near": (
        "stock", "mean", 168, uc.ConstrainedBeam(**B, risk=1.0, near_equal=5.0, band=5.0, order="score"),
        dict(gate=uc.Gate(near=True, regret_limit=5.0)), lambda r: r["outcome"]["pass_kind"] == "near",
    ),
    "depth 1": ("clock", "mean", 0, uc.UCBeam(depth=1, risk=0.5), {}, lambda r: r["settings"]["depth"] == 1),
    "scores": ("position", "scores", 1, uc.UCBeam(**B, risk=0.5), {}, lambda r: r["settings"]["use_bound"]),
    "scores, oracle": (
        "tank", "scores", 0, uc.ParetoBeam(**B, risk=0.5, discount=0.9), dict(kind="oracle"),
        lambda r: r["claim"]["kind"] == "oracle",
    ),
    "members": (
        "battery", "members", 14, uc.CertifiedBeam(**B, risk=0.5), {}, lambda r: r["claim"]["uncertainty_active"],
    ),
    "members, bound": (
        "free", "members", 0, uc.UCBeam(**B, risk=0.5), dict(kind="bound"), lambda r: r["settings"]["use_bound"],
    ),
    "members, continued": (
        "followed", "members", 2, uc.CertifiedBeam(depth=2, width=6, risk=0.5), {}, lambda r: r["settings"]["reach"] == 4,
    ),
    "members, terminal": (
        "tank", "members", 0, uc.UCBeam(**B, risk=0.5, spread="variance", discount=0.9), {},
        lambda r: r["settings"]["spread"] == 0,
    ),
    "terminal": ("tank", "mean", 0, uc.ParetoBeam(**B, risk=0.5, discount=0.9), {}, lambda r: len(r["rivals"]) == 3),
    "protected": (
        "battery", "mean", 1, uc.CertifiedBeam(depth=3, width=3, top_k=3, risk=0.5, protect=True), {},
        lambda r: r["claim"]["certificate_pass"] and not r["claim"]["search_pass"],
    ),
    "risk active": (
        "battery", "mean", 7, uc.UCBeam(depth=3, width=30, risk=1.0), dict(gate=uc.Gate(risk_active=True)),
        lambda r: r["claim"]["risk_active"] and released(r),
    ),
    "robust": (
        "battery", "mean", 1, uc.UCBeam(depth=3, width=30, risk=0.25), dict(eps_m=0.1),
        lambda r: r["claim"]["robust"] and released(r),
    ),
    "not robust": (
        "battery", "mean", 1, uc.UCBeam(depth=3, width=30, risk=0.25), dict(eps_m=50.0),
        lambda r: r["outcome"]["reason"] == "not_robust",
    ),
    "exhausted": (
        "maze", "mean", 2, uc.UCBeam(depth=3, width=1, top_k=1), {},
        lambda r: r["outcome"]["cause"] == "search_exhausted",
    ),
    "task error": ("risky", "mean", 2, uc.UCBeam(depth=3), {}, lambda r: r["outcome"]["cause"] == "task_error"),
    "mcts": ("battery", "mean", 1, uc.MCTS(depth=3, simulations=40, risk=0.25), {}, lambda r: released(r)),
    "mcts, task error": (
        "risky", "mean", 2, uc.MCTS(depth=3, simulations=40), {}, lambda r: r["outcome"]["cause"] == "task_error",
    ),
    "mcts, dead end": (
        "maze", "mean", 5, uc.MCTS(depth=3, simulations=40), {}, lambda r: r["outcome"]["cause"] == "dead_end",
    ),
    "exact": ("stock", "mean", 2, uc.Exact(depth=3, risk=0.5), {}, lambda r: released(r)),
    "not proved": (
        "battery", "mean", 1, uc.UCBeam(**B, risk=0.25), dict(node_budget=5),
        lambda r: r["outcome"]["reason"] == "not_proved" and r["rivals"][0]["upper"] is None,
    ),
    "ties": (
        "pack", "mean", 21, uc.UCBeam(depth=2, width=20), {},
        lambda r: r["claim"]["optimal"] and not r["claim"]["unique"],
    ),
    "same effect": (
        "pack", "members", 4, uc.CertifiedBeam(depth=2, width=20), {}, lambda r: 1 < len(r["rivals"]) < 4,
    ),
}  # fmt: skip


def released(r: Any) -> bool:
    return bool(r["outcome"]["outcome"] == "RELEASED")


def decision_of(
    template: str, mode: str, seed: int, policy: Any, *, horizon: int = 4, **options: Any
) -> tuple[uc.Decision, uc.Task]:
    problem = random_problem(np.random.default_rng(seed), template, mode, horizon=horizon, gaps=False)
    policy = dataclasses.replace(policy, mode=mode)
    given = dict(params=problem.params, actions=problem.actions, engine="python") | options
    return uc.decide(problem.task, problem.state, given.pop("trace", problem.trace), policy, **given), problem.task


@cache
def made(name: str) -> tuple[dict[str, Any], dict[str, bytes], uc.Task]:
    """A scenario's record, its blobs and its task."""
    template, mode, seed, policy, options, is_case = SCENARIOS[name]
    decision, task = decision_of(template, mode, seed, policy, **options)
    record, blobs = decision_record(decision, series="A-1")
    assert is_case(record), name
    return record, blobs, task


def changed(record: dict[str, Any], **values: Any) -> dict[str, Any]:
    """A sealed copy with other values; `a__b__0` is the path a.b[0]. A callable gets the old value."""
    copied = copy.deepcopy({k: v for k, v in record.items() if k != "id"})
    for path, value in values.items():
        *parts, last = [int(x) if x.isdigit() else x for x in path.split("__")]
        at: Any = copied
        for part in parts:
            at = at[part]
        at[last] = value(at[last]) if callable(value) else value
    return seal(copied)


def verdict(name: str, **values: Any) -> Verdict:
    record, blobs, task = made(name)
    return verify_record(changed(record, **values), blobs, task)


# -------------------------------------------------------------------- valid records


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_valid_record_is_valid(name: str) -> None:
    record, blobs, task = made(name)
    assert verify_record(record, blobs, task) == Verdict("valid", record["id"])
    assert verify_record(producer.canonical(record), blobs, task).code == 0


@pytest.mark.parametrize("engine", ["python", "compiled"])
@pytest.mark.parametrize("name", ["battery", "stock"])
def test_records_of_both_engines_are_valid(name: str, engine: Any) -> None:
    """The kernels are those that the engine tests compile anyway."""
    rng = np.random.default_rng(5)
    template = TEMPLATES[name]
    states, params = template.windows(rng, 40)
    trace = uc.Trace.from_members(template.outcomes(rng, (40, 3, 4)))
    policy = uc.CertifiedBeam(depth=3, width=6, top_k=4, risk=0.5)
    panel = uc.decide_panel(template.task, states, trace, policy, params=params, engine=engine)
    outcomes = set()
    for w in range(len(panel)):
        record, blobs = decision_record(panel[w])
        outcomes.add(record["outcome"]["outcome"])
        assert verify_record(record, blobs, template.task).code == 0
    assert len(outcomes) >= 2


@pytest.mark.parametrize(
    ("gate", "more", "reason"),
    [
        (uc.Gate(max_trace_age_s=7200.0), {}, "none"),
        (uc.Gate(max_trace_age_s=60.0), {}, "stale_trace"),
        (uc.Gate(max_trace_age_s=7200.0), dict(now=datetime(2025, 1, 1, tzinfo=UTC)), "stale_trace"),
        (uc.Gate(max_trace_age_s=7200.0), dict(now=None), "stale_trace"),
        (uc.Gate(max_eps_c=0.1), {}, "calibration"),
        (uc.Gate(max_eps_c=0.1, max_undercoverage=0.1), dict(calibration=uc.Calibration(0.05, 0.2)), "calibration"),
        (uc.Gate(max_eps_c=0.1, max_undercoverage=0.3), dict(calibration=uc.Calibration(0.05, 0.2)), "none"),
        (uc.Gate(certificate=False), {}, "not_proved"),
        (uc.Gate(certificate=False, regret_limit=0.0), {}, "none"),
        (uc.Gate(certificate=False, node_budget=0), {}, "node_budget"),
        (uc.Gate(node_budget=100_000), {}, "none"),
        (uc.Gate(positive_margin=True), {}, "none"),
        (uc.Gate(risk_active=True), {}, "not_risk_active"),
        (uc.Gate(time_budget_s=0.5), dict(clock=iter([1.0, 2.0]).__next__), "time_budget"),
        (uc.Gate(time_budget_s=1.0), dict(clock=iter([1.0, 2.0]).__next__), "none"),
    ],
)
def test_every_condition_of_the_gate(gate: uc.Gate, more: dict[str, Any], reason: str) -> None:
    rng = np.random.default_rng(1)
    trace = uc.Trace.from_members(np.round(rng.normal(20, 15, (3, 4)), 1), issued=ISSUED)
    options: dict[str, Any] = dict(gate=gate, now=NOW, trace=trace) | more
    decision, task = decision_of("battery", "mean", 1, uc.UCBeam(depth=3, width=30, risk=0.25), **options)
    record, blobs = decision_record(decision)
    assert record["outcome"]["reason"] == reason
    assert verify_record(record, blobs, task).code == 0
    for k, row in enumerate(record["gate"]["rows"]):
        for key, other in (("pass", not row["pass"]), ("left", 0.25), ("right", 77.0), ("operator", ">")):
            if other != row[key]:
                lie = verify_record(changed(record, **{f"gate__rows__{k}__{key}": other}), blobs, task)
                assert lie.code == 1
                assert lie.where in (f"gate.rows[{k}].{key}", "gate.rows[0].left")
        fewer = changed(record, gate__rows=lambda rows, k=k: rows[:k] + rows[k + 1 :])
        assert verify_record(fewer, blobs, task).where in ("gate.rows", "gate.rows[0].left")


def test_an_issue_time_without_offset_is_utc_and_nonsense_is_unknown() -> None:
    for issued, reason in (("2026-01-01T00:00:00", "none"), ("yesterday", "stale_trace")):
        rng = np.random.default_rng(1)
        trace = uc.Trace.from_members(np.round(rng.normal(20, 15, (3, 4)), 1), issued=issued)
        decision, task = decision_of(
            "battery", "mean", 1, uc.UCBeam(depth=3, width=30), gate=uc.Gate(max_trace_age_s=7200.0), now=NOW, trace=trace
        )
        record, blobs = decision_record(decision)
        assert record["outcome"]["reason"] == reason
        assert verify_record(record, blobs, task).code == 0


def test_another_planners_paths_are_witnesses() -> None:
    """Comparators choose by their own rule; what they chose is taken as it is, and proved or not like any other."""
    seen = set()
    for seed in range(12):
        decision, task = decision_of("battery", "mean", seed, uc.RandomShooting(depth=3, samples=3, risk=0.5))
        record, blobs = decision_record(decision)
        assert verify_record(record, blobs, task).code == 0
        seen.add(record["outcome"]["reason"])
        if record["claim"]["action_index"] >= 0:
            lie = changed(record, claim__action_index=-1)
            assert verify_record(lie, blobs, task).where == "claim.action_index"
    assert {"none", "not_optimal"} <= seen
