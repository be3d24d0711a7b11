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
from ucsearch.comparators import RandomShooting, key_from
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
        policy = RandomShooting(depth=3, samples=3, risk=0.5, seed=key_from(np.random.default_rng(seed)))
        decision, task = decision_of("battery", "mean", seed, policy)
        record, blobs = decision_record(decision)
        assert verify_record(record, blobs, task).code == 0
        seen.add(record["outcome"]["reason"])
        if record["claim"]["action_index"] >= 0:
            lie = changed(record, claim__action_index=-1)
            assert verify_record(lie, blobs, task).where == "claim.action_index"
    assert {"none", "not_optimal"} <= seen


# -------------------------------------------------------------------- lies in the claims


CLAIMS = [k for k in made("released")[0]["claim"] if k not in ("kind", "eps_m", "counters")]


def other(value: Any) -> Any:
    """Something else of the same type."""
    if isinstance(value, bool):
        return not value
    if value is None or isinstance(value, str):
        return 1.5
    return value + 1 if isinstance(value, int) else value + 0.125 * (1.0 + abs(value))


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("name", ["released", "bound", "fallback", "routed", "members", "sole action", "robust", "hold"])
def test_a_false_claim_is_named(name: str, claim: str) -> None:
    found = verdict(name, **{f"claim__{claim}": other})
    assert found.code == 1
    if claim not in ("eps_a", "baseline_index"):  # these say how others are to be read
        assert found.where == f"claim.{claim}"
    assert found.message.startswith(f"{found.where}: the record says ")


@pytest.mark.parametrize(
    ("name", "change", "where"),
    [
        ("released", dict(claim__kind="bound"), "settings.kind"),
        ("released", dict(claim__eps_m=0.5), "settings.eps_m"),
        ("released", dict(claim__counters__expansions=lambda n: n + 1), "claim.counters.expansions"),
        ("released", dict(claim__counters__action_scores=lambda n: n - 1), "claim.counters.action_scores"),
        ("released", dict(claim__counters__simulations=1), "claim.counters.simulations"),
        ("mcts", dict(claim__counters__simulations=41), "claim.counters.simulations"),
        ("task error", dict(claim__counters__expansions=1), "claim.counters.expansions"),
        ("task error", dict(claim__counters__action_scores=1), "claim.counters.action_scores"),
        ("mcts, task error", dict(claim__counters__simulations=1), "claim.counters.simulations"),
        ("released", dict(claim__eps_a=None), "claim.eps_a"),
        ("released", dict(task__name="other"), "task.name"),
        ("released", dict(task__version="2"), "task.version"),
        ("released", dict(task__source_hash="0" * 64), "task.source_hash"),
        ("released", dict(task__actions=lambda a: a[:-1]), "task.actions"),
        ("released", dict(task__actions=lambda a: [a[1], a[0], *a[2:]]), "task.actions"),
        ("released", dict(task__actions=lambda a: [a[0], a[0], *a[2:]]), "task.actions"),
        ("released", dict(task__labels=lambda x: [*x[:-1], "more"]), "task.labels"),
        ("released", dict(inputs__state=lambda s: s[:-1]), "inputs.state"),
        ("released", dict(inputs__state_lengths=[0]), "inputs.state_lengths"),
        ("released", dict(inputs__params=lambda p: [*p, 1.0]), "inputs.params"),
        ("released", dict(inputs__params_lengths=[0, 0, 1]), "inputs.params_lengths"),
        ("depth 1", dict(inputs__params=[1.0]), "inputs.params"),
        ("released", dict(inputs__trace__hash="0" * 64), "inputs.trace.hash"),
        ("released", dict(inputs__trace__meta__model="oracle of Delphi"), "inputs.trace.hash"),
        ("released", dict(settings__depth=5), "settings.depth"),
        ("released", dict(settings__depth=0, settings__reach=0), "settings.depth"),
        ("released", dict(settings__reach=4), "settings.reach"),
        ("members, continued", dict(settings__reach=2), "settings.reach"),
        ("released", dict(settings__policy="ParetoBeam"), "settings.algorithm"),
        ("released", dict(settings__policy="NewBeam"), "settings.algorithm"),
        ("released", dict(settings__algorithm="mcts"), "settings.algorithm"),
        ("released", dict(settings__keep=1), "settings.algorithm"),
        ("released", dict(settings__protect=True), "settings.policy"),
        ("protected", dict(settings__band=0.0), "settings.policy"),
        ("released", dict(settings__risk=-0.25), "settings.risk"),
        ("released", dict(settings__prune_risk=-0.25), "settings.prune_risk"),
        ("released", dict(settings__info_bonus=-1.0), "settings.info_bonus"),
        ("released", dict(settings__width=0), "settings.width"),
        ("released", dict(settings__top_k=0), "settings.top_k"),
        ("released", dict(settings__top_k=6), "settings.top_k"),
        ("released", dict(settings__discount=0.0), "settings.discount"),
        ("released", dict(settings__discount=1.5), "settings.discount"),
        ("released", dict(settings__eps_m=-1.0, claim__eps_m=-1.0), "settings.eps_m"),
        ("released", dict(settings__use_bound=True), "settings.use_bound"),
        ("terminal", dict(settings__use_bound=True), "settings.use_bound"),
        ("scores, oracle", dict(settings__use_bound=True), "settings.use_bound"),
        ("released", dict(settings__node_budget=1), "settings.node_budget"),
        ("released", dict(settings__every_action=True), "settings.every_action"),
        ("released", dict(settings__simulations=1), "settings.simulations"),
        ("released", dict(settings__c_uct=1.0), "settings.c_uct"),
        ("released", dict(settings__extra_i=[1]), "settings.extra_i"),
        ("released", dict(settings__extra_f=[1.0]), "settings.extra_i"),
        ("mcts", dict(settings__width=2), "settings.width"),
        ("mcts", dict(settings__c_uct=-1.0), "settings.c_uct"),
        ("exact", dict(settings__node_budget=0), "settings.node_budget"),
        ("mcts", dict(settings__simulations=0), "settings.simulations"),
        ("bound", dict(settings__width=2), "settings.width"),
        ("protected", dict(settings__kind="bound", claim__kind="bound"), "settings.kind"),
        ("routed", dict(settings__kind="bound", claim__kind="bound", settings__protect=False), "settings.kind"),
        ("routed", dict(settings__near_equal=-1.0), "settings.near_equal"),
        ("routed", dict(settings__band=-1.0), "settings.band"),
        ("routed", dict(settings__utility_budget="-inf"), "settings.utility_budget"),
        ("members", dict(settings__risk=1.5), "settings.risk"),
        ("released", dict(rivals__0__label="x"), "rivals[0].label"),
        ("released", dict(rivals__0__action=9.0), "rivals[0].action"),
        ("released", dict(rivals__1__index=0), "rivals[1].index"),
        ("released", dict(rivals__4__index=7), "rivals[4].index"),
        ("released", dict(rivals__0__step_score=lambda x: x + 1e-6), "rivals[0].step_score"),
        ("released", dict(rivals__0__reward=lambda x: x + 1e-6), "rivals[0].reward"),
        ("released", dict(rivals__0__uncertainty=lambda x: x + 1e-6), "rivals[0].uncertainty"),
        ("released", dict(rivals__0__score=lambda x: x + 1e-12 * abs(x)), "rivals[0].score"),
        ("released", dict(rivals__0__upper=lambda x: x + 1e-3), "rivals[0].upper"),
        ("released", dict(rivals__0__upper=lambda x: x - 1e-3), "rivals[0].upper"),
        ("released", dict(rivals__0__upper="inf"), "rivals[0].upper"),
        ("released", dict(rivals__0__upper="-inf"), "rivals[0].upper"),
        ("bound", dict(rivals__0__upper="-inf"), "rivals[0].upper"),
        ("released", dict(rivals__0__upper=None), "rivals[0].upper"),
        ("released", dict(rivals__0__reward_only_score=lambda x: x + 1e-3), "rivals[0].reward_only_upper"),
        ("released", dict(rivals__0__reward_only_upper=lambda x: x - 1e-3), "rivals[0].reward_only_upper"),
        ("released", dict(rivals__0__certain_score=1.0), "rivals[0].certain_score"),
        ("released", dict(rivals__0__certain_upper=1.0), "rivals[0].certain_upper"),
        ("members", dict(rivals__0__certain_score=lambda x: x + 1e-3), "rivals[0].certain_upper"),
        ("members", dict(rivals__0__certain_upper=lambda x: x - 1e-3), "rivals[0].certain_upper"),
        ("released", dict(rivals__0__release_margin=1.0), "rivals[0].release_margin"),
        ("routed", dict(rivals__0__release_margin=lambda x: other(x)), "rivals[0].release_margin"),
        ("released", dict(rivals__0__path=lambda x: x[:-1]), "rivals[0].path"),
        ("released", dict(rivals__0__path=lambda x: [1, *x[1:]]), "rivals[0].path"),
        ("released", dict(rivals__0__path=lambda x: [x[0], 9, *x[2:]]), "rivals[0].path[1]"),
        ("released", dict(rivals__0__retained=False), "rivals[0].score"),
        ("fallback", dict(rivals__1__retained=True), "rivals[1].path"),
        ("fallback", dict(rivals__1__score=1.0), "rivals[1].score"),
        ("fallback", dict(rivals__1__reward=1.0), "rivals[1].reward"),
        ("fallback", dict(rivals__1__uncertainty=1.0), "rivals[1].uncertainty"),
        ("fallback", dict(rivals__1__path=[1, 1, 1]), "rivals[1].path"),
        ("released", dict(rivals=lambda x: x[1:]), "rivals"),
        ("released", dict(rivals=lambda x: x[:-1]), "rivals"),
        ("released", dict(rivals=lambda x: x[::-1]), "rivals[1].index"),
        ("task error", dict(gate__rows__0__left=0, gate__rows__0__pass=True), "gate.rows[0].left"),
        ("released", dict(gate__rows__0__left=1, gate__rows__0__pass=False), "gate.rows[0].left"),
        ("mcts", dict(gate__rows__0__left=1, gate__rows__0__pass=False), "gate.rows[0].left"),
        ("mcts, task error", dict(gate__rows__0__left=0, gate__rows__0__pass=True), "rivals"),
        ("released", dict(gate__rows=[]), "gate.rows"),
        ("mcts", dict(gate__rows__1__left=0, gate__rows__1__pass=False), "gate.rows[1].left"),
        ("hold", dict(gate__rows__1__left=1, gate__rows__1__pass=True), "gate.rows[1].left"),
        ("exhausted", dict(gate__rows__1__left=0, gate__rows__1__pass=False), "gate.rows[1].left"),
        ("exhausted", dict(gate__rows__2__left=1, gate__rows__2__pass=True), "gate.rows[2].left"),
        ("released", dict(gate__rows__1__name="conclusion"), "gate.rows"),
        ("released", dict(gate__settings__risk_active=True), "gate.rows"),
        ("released", dict(outcome__outcome="FALLBACK"), "outcome.outcome"),
        ("released", dict(outcome__action=0.0), "outcome.action"),
        ("released", dict(outcome__reason="calibration"), "outcome.reason"),
        ("released", dict(outcome__cause="calibration"), "outcome.cause"),
        ("released", dict(outcome__pass_kind="near"), "outcome.pass_kind"),
        ("released", dict(outcome__release_margin=1e9), "outcome.release_margin"),
        ("released", dict(outcome__regret_bound=1e9), "outcome.regret_bound"),
        ("released", dict(outcome__rejected_action=1.0), "outcome.rejected_action"),
        ("released", dict(outcome__fallback_action=1.0), "outcome.fallback_action"),
        ("released", dict(outcome__fallback_feasible=False), "outcome.fallback_feasible"),
        ("released", dict(outcome__fallback_cost=lambda x: x + 1.0), "outcome.fallback_cost"),
        ("released", dict(outcome__fallback_cost=None), "outcome.fallback_cost"),
        ("hold", dict(outcome__outcome="FALLBACK"), "outcome.outcome"),
        ("hold", dict(outcome__action=1.0), "outcome.action"),
        ("hold", dict(outcome__reason="dead_end"), "outcome.reason"),
        ("hold", dict(outcome__fallback_cost=1.0), "outcome.fallback_cost"),
        ("fallback", dict(outcome__outcome="RELEASED"), "outcome.outcome"),
        ("fallback", dict(outcome__action=lambda a: a + 1.0), "outcome.action"),
        ("fallback", dict(outcome__rejected_action=None), "outcome.rejected_action"),
        ("sole action", dict(outcome__release_margin=0.0), "outcome.release_margin"),
        ("not robust", dict(outcome__cause="not_optimal"), "outcome.cause"),
        ("not proved", dict(outcome__cause="not_optimal"), "outcome.cause"),
    ],
)  # fmt: skip
def test_a_lie_is_named(name: str, change: dict[str, Any], where: str) -> None:
    found = verdict(name, **change)
    assert (found.status, found.where) == ("invalid", where), found


def test_the_id_is_the_digest_of_the_rest() -> None:
    record, blobs, task = made("released")
    assert verify_record({**record, "series": "B"}, blobs, task).where == "id"
    assert verify_record({**record, "id": "0" * 64}, blobs, task).where == "id"


def test_rounding_differences_are_no_lies() -> None:
    """User functions may differ by an ulp between platforms; sums, margins and the gate may not."""
    close = dict(rivals__0__step_score=lambda x: x * (1 + 1e-12), outcome__fallback_cost=lambda x: x + 1e-12)
    assert verdict("released", **close).code == 0
    assert verdict("released", claim__gap=lambda x: x * (1 + 1e-12)).where == "claim.gap"
    assert verdict("released", claim__tau=lambda x: x * (1 + 1e-12)).where == "claim.tau"


def test_what_is_said_in_words_is_not_checked() -> None:
    free = dict(series="B", outcome__sentence="Trust me.", versions__numpy="9", task__object="a:b")
    assert verdict("released", **free).code == 0


# -------------------------------------------------------------------- forgers who recompute everything


def doctored(monkeypatch: pytest.MonkeyPatch, change: Callable[[Any, Any], Any]) -> None:
    """Every claim, the gate and the outcome follow from evidence that was tampered with before."""
    import ucsearch.dispatch.api as api

    honest = api.certify_panel

    def certify_panel(*args: Any, **options: Any) -> Any:
        panel = honest(*args, **options)
        evidence, paths = change(panel.evidence, np.array(panel.paths))
        claims = derive(evidence, panel.eps_m)
        return dataclasses.replace(panel, evidence=evidence, claims=claims, paths=paths, released=evidence.selected)

    monkeypatch.setattr(api, "certify_panel", certify_panel)


def beaten(e: Any, paths: Any) -> Any:
    """No alternative is said to reach the selected action."""
    upper = np.where(np.isnan(e.lower), np.nanmin(e.upper) - 99.0, e.lower)
    return e._replace(upper=upper), paths


def alone(e: Any, paths: Any) -> Any:
    return e._replace(actions=e.actions & (np.arange(e.actions.shape[1]) == e.selected[0])), paths


def richer(e: Any, paths: Any) -> Any:
    gift = 500.0 * (np.arange(e.actions.shape[1]) == e.selected[0])
    return e._replace(lower=e.lower + gift, lower_reward=e.lower_reward + gift), paths


def calmer(e: Any, paths: Any) -> Any:
    less = e.lower_uncertainty * 0.5
    return e._replace(lower_uncertainty=less, lower=e.lower_reward - 0.25 * less), paths


def bent(e: Any, paths: Any) -> Any:
    paths[0, int(e.selected[0]), 1:] = paths[0, int(e.selected[0]), :1]
    return e, paths


def reward_blind(e: Any, paths: Any) -> Any:
    """The selected action is said to be far from optimal without risk."""
    mine = np.arange(e.actions.shape[1]) == e.selected[0]
    return e._replace(
        reward_upper=np.where(mine, -1e6, e.reward_upper), reward_lower=np.where(mine, -1e6, e.reward_lower),
        certain_upper=np.where(mine, -1e6, e.certain_upper), certain_lower=np.where(mine, -1e6, e.certain_lower),
    ), paths  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "gate", "change", "where"),
    [
        (uc.UCBeam(depth=3, width=1, top_k=1, risk=0.25), uc.Gate(), beaten, "rivals[0].upper"),
        (uc.UCBeam(depth=3, width=1, top_k=1, risk=0.25), uc.Gate(), alone, "rivals"),
        (uc.UCBeam(depth=3, width=1, top_k=1, risk=0.25), uc.Gate(), richer, "rivals[0].reward"),
        (uc.UCBeam(depth=3, width=9, risk=0.25), uc.Gate(), calmer, "rivals[0].uncertainty"),
        (uc.UCBeam(depth=3, width=9, risk=0.25), uc.Gate(), bent, "rivals[0].path[1]"),
        (uc.UCBeam(depth=3, width=9, risk=0.25), uc.Gate(risk_active=True), reward_blind, "rivals[0].reward_only_upper"),
    ],
)  # fmt: skip
def test_a_consistent_forgery_is_found_where_it_began(
    policy: Any, gate: uc.Gate, change: Any, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest, task = decision_of("battery", "mean", 6, policy, gate=gate)
    assert verify_record(*decision_record(honest), task).code == 0
    doctored(monkeypatch, change)
    forged, _ = decision_of("battery", "mean", 6, policy, gate=gate)
    assert forged.released
    found = verify_record(*decision_record(forged), task)
    assert (found.status, found.where) == ("invalid", where), found


def test_a_path_the_beam_lost_is_not_retained() -> None:
    """A real path with its real figures, but not one that this beam retains."""
    wide, narrow = made("released"), made("fallback")
    record = copy.deepcopy(narrow[0])
    have = {x["index"]: x for x in wide[0]["rivals"]}
    k = next(k for k, x in enumerate(record["rivals"]) if not x["retained"] and have[x["index"]]["retained"])
    for name in ("retained", "score", "reward", "uncertainty", "path"):
        record["rivals"][k][name] = have[record["rivals"][k]["index"]][name]
    found = verify_record(changed(record), narrow[1], narrow[2])
    assert (found.status, found.where) == ("invalid", f"rivals[{k}].path")


def test_a_bound_that_is_not_admissible_is_found_out() -> None:
    """The task's own bound says that nothing more can be earned; the planner believed it."""

    def prepare(outcomes: Any, p: Any) -> Any:
        return np.full(outcomes.shape[0] + 1, -1e6)

    def bound(s: Any, h: int, table: Any, p: Any) -> float:
        return float(table[h])

    task = dataclasses.replace(battery, prepare=prepare, bound=bound, labels=())
    template = TEMPLATES["battery"]
    outcomes = set()
    for seed in range(20):
        rng = np.random.default_rng(seed)
        states, _ = template.windows(rng, 1)
        trace = uc.Trace.from_members(template.outcomes(rng, (3, 4)))
        policy = uc.UCBeam(depth=3, width=1, top_k=1, risk=0.25)
        decision = uc.decide(task, states[0], trace, policy, engine="python")
        found = verify_record(*decision_record(decision), task)
        outcomes.add((decision.outcome.value, found.status))
        assert found.code == 0 or found.where.endswith(("upper", "rivals"))
    assert ("RELEASED", "invalid") in outcomes
