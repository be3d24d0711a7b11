"""The independent verifier: valid records of every kind, lies in every place, files, logs, exit codes, imports."""

from __future__ import annotations

import ast
import copy
import dataclasses
import itertools
import json
import math
import re
import sqlite3
import struct
import subprocess
import sys
from bisect import bisect_left
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
from ucsearch.certificate.claims import derive
from ucsearch.lab.comparators import RandomShooting, key_from
from ucsearch.records import AuditLog, Checkpoint, blob_id, decode_array, encode_array, seal
from ucsearch.records import AuditLog as RawLog
from ucsearch.records import canonical as producer
from ucsearch.records.record import decision_record
from ucsearch.verify import BUDGET, NoTask, Verdict, find_task, read, verify_file, verify_log, verify_record
from ucsearch.verify.__main__ import main
from ucsearch.verify.decision.search import Meter, OutOfNodes
from ucsearch.verify.read import Malformed, canonical, loads

B = dict(depth=3, width=6, top_k=3)
ISSUED = "2026-01-01T00:00:00+00:00"
NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
TASK = "tests.kit.templates:battery"
NARROW, WIDE = uc.UCBeam(depth=3, width=1, top_k=1, risk=0.25), uc.UCBeam(depth=3, width=9, risk=0.25)

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
        "followed", "members", 2, uc.CertifiedBeam(depth=2, width=6, risk=0.5), {},
        lambda r: r["settings"]["reach"] == 4,
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
    proof = uc.Proof(**{name: options.pop(name) for name in ("kind", "eps_m", "node_budget") if name in options})
    run = uc.Run(engine="python", clock=options.pop("clock", None))
    given = dict(params=problem.params, actions=problem.actions, proof=proof, run=run) | options
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
    panel = uc.decide_panel(template.task, states, trace, policy, params=params, run=uc.Run(engine=engine))
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
        (uc.Gate(time_budget_s=1.0), dict(clock=itertools.chain([1.0], itertools.repeat(2.0)).__next__), "none"),
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
                assert lie.status == "invalid"
                assert lie.where in (f"gate.rows[{k}].{key}", "gate.rows[0].left")
        fewer = changed(record, gate__rows=lambda rows, k=k: rows[:k] + rows[k + 1 :])
        assert verify_record(fewer, blobs, task).where in ("gate.rows", "gate.rows[0].left")


def test_limits_are_reached_when_equal() -> None:
    """A regret bound that with tau equals the limit is within it, for gate and verifier; no limit at all is none."""
    template, mode, seed, policy, _, _ = SCENARIOS["near"]
    claim = made("near")[0]["claim"]
    bound = claim["regret_bound"] + claim["tau"]  # what may be lost, rounding included
    assert claim["regret_bound"] > 0
    for limit, expected in ((bound, "near"), (math.nextafter(bound, 0.0), "")):
        decision, task = decision_of(template, mode, seed, policy, gate=uc.Gate(near=True, regret_limit=limit))
        record, blobs = decision_record(decision)
        assert record["outcome"]["pass_kind"] == expected
        assert verify_record(record, blobs, task).code == 0
    with pytest.raises(uc.InputError):
        uc.Gate(regret_limit=math.inf)


def test_an_issue_time_without_offset_is_utc_and_nonsense_is_unknown() -> None:
    for issued, reason in (("2026-01-01T00:00:00", "none"), ("yesterday", "stale_trace")):
        rng = np.random.default_rng(1)
        trace = uc.Trace.from_members(np.round(rng.normal(20, 15, (3, 4)), 1), issued=issued)
        decision, task = decision_of(
            "battery",
            "mean",
            1,
            uc.UCBeam(depth=3, width=30),
            gate=uc.Gate(max_trace_age_s=7200.0),
            now=NOW,
            trace=trace,
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
@pytest.mark.parametrize(
    "name", ["released", "bound", "fallback", "routed", "members", "sole action", "robust", "hold"]
)
def test_a_false_claim_is_named(name: str, claim: str) -> None:
    found = verdict(name, **{f"claim__{claim}": other})
    assert found.status == "invalid"
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
        ("released", dict(task__rules="0" * 64), "task.rules"),
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
        ("released", dict(outcome__pass_kind="tied"), "outcome.pass_kind"),
        ("ties", dict(outcome__pass_kind="exact"), "outcome.pass_kind"),
        ("released", dict(inputs__params__2=lambda x: x * (1 + 1e-9)), "rivals[0].step_score"),
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
    close = dict(rivals__0__step_score=lambda x: x * (1 + 5e-13), outcome__fallback_cost=lambda x: x + 1e-12)
    assert verdict("released", **close).code == 0
    assert verdict("released", claim__gap=lambda x: x * (1 + 1e-12)).where == "claim.gap"
    assert verdict("released", claim__tau=lambda x: x * (1 + 1e-12)).where == "claim.tau"


def test_what_is_said_in_words_is_not_checked() -> None:
    free = dict(series="B", outcome__sentence="Trust me.", versions__numpy="9", task__object="a:b")
    assert verdict("released", **free).code == 0


# -------------------------------------------------------------------- forgers who recompute everything


def doctored(monkeypatch: pytest.MonkeyPatch, change: Callable[[Any, Any], Any], blind: bool = True) -> None:
    """Every claim, the gate and the outcome follow from evidence that was tampered with before; `blind` leaves out the
    final check, which asks the rules themselves."""
    import ucsearch.decision.api as api

    honest = api.certify_panel

    def certify_panel(*args: Any, **options: Any) -> Any:
        panel = honest(*args, **options)
        evidence, paths = change(panel.evidence, np.array(panel.paths))
        claims = derive(evidence, panel.eps_m)
        return dataclasses.replace(panel, evidence=evidence, claims=claims, paths=paths, released=evidence.selected)

    monkeypatch.setattr(api, "certify_panel", certify_panel)
    if blind:
        monkeypatch.setattr(api, "final_check", lambda *_, **__: {})


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
    paths[0, int(e.selected[0]), 1:] = (0, 4)  # from -2 to 2 is more than any ramp allows
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
        (NARROW, uc.Gate(), beaten, "rivals[1].upper"),
        (NARROW, uc.Gate(), alone, "rivals"),
        (NARROW, uc.Gate(), richer, "rivals[0].reward"),
        (WIDE, uc.Gate(), calmer, "rivals[0].uncertainty"),
        (WIDE, uc.Gate(), bent, "rivals[2].path[2]"),
        (WIDE, uc.Gate(risk_active=True), reward_blind, "rivals[2].reward_only_upper"),
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


@pytest.mark.parametrize(("policy", "change"), [(NARROW, richer), (WIDE, bent)])
def test_a_path_that_is_forbidden_or_earns_less_does_not_pass_the_final_check(
    policy: Any, change: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    doctored(monkeypatch, change, blind=False)
    forged, _ = decision_of("battery", "mean", 6, policy)
    assert not forged.released
    assert forged.reason is uc.Reason.TASK_ERROR


def test_a_path_the_beam_lost_is_not_retained() -> None:
    """A real path with its real figures, but not one that this beam retains."""
    wide, narrow = made("released"), made("fallback")
    record = copy.deepcopy(narrow[0])
    have = {x["index"]: x for x in wide[0]["rivals"]}
    k = next(k for k, x in enumerate(record["rivals"]) if not x["retained"] and have[x["index"]]["retained"])
    for name in ("retained", "score", "reward", "uncertainty", "path", "size"):
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
        decision = uc.decide(task, states[0], trace, policy, run=uc.Run(engine="python"))
        found = verify_record(*decision_record(decision), task)
        outcomes.add((decision.outcome.value, found.status))
        assert found.code == 0 or found.where.endswith(("upper", "rivals"))
    assert ("RELEASED", "invalid") in outcomes


# -------------------------------------------------------------------- what is malformed


def lines(*records: tuple[dict[str, Any], dict[str, bytes]], path: Path) -> Path:
    """JSON lines exported from a log of these records."""
    with RawLog(path.with_suffix(".db")) as log:
        for record, blobs in records:
            log.append(record, blobs)
        log.export_jsonl(path)
    return path


@pytest.mark.parametrize(
    "change",
    [
        dict(schema="ucsearch.decision/3"),
        dict(kind="decree"),
        dict(series=1),
        dict(extra=1),
        dict(claim__extra=True),
        dict(claim__gap="infinity"),
        dict(claim__gap=True),
        dict(claim__optimal=1),
        dict(claim__action_index=0.5),
        dict(claim__action_index=True),
        dict(claim__kind="oral"),
        dict(claim__counters=[]),
        dict(claim__counters__expansions=-1),
        dict(settings__mode=4),
        dict(settings__mode=False),
        dict(settings__depth="3"),
        dict(settings__extra_i=["12"]),
        dict(rivals={}),
        dict(rivals__0__score="inf"),
        dict(rivals__0__path=[-1, 0, 0]),
        dict(rivals__0__path=None),
        dict(rivals__0__action=None),
        dict(task__rules="f" * 63),
        dict(task__rules="F" * 64),
        dict(task=None),
        dict(task__labels=[1, 2, 3, 4, 5]),
        dict(inputs__state=[None]),
        dict(inputs__trace__meta__coupling="loose"),
        dict(inputs__trace__members={"$blob": "0" * 64}),
        dict(inputs__trace__members=[]),
        dict(gate__settings__regret_limit=-1.0),
        dict(gate__settings__regret_limit="inf"),
        dict(gate__rows__0__operator="!="),
        dict(gate__rows__0__right="inf"),
        dict(outcome__outcome="MAYBE"),
        dict(outcome__reason="invalid_trace"),
        dict(outcome__cause="fallback_infeasible"),
        dict(outcome__pass_kind="sort of"),
        dict(versions__numpy=2),
    ],
)
def test_a_malformed_record(change: dict[str, Any]) -> None:
    found = verdict("released", **change)
    assert found.status == "malformed", found
    assert found.code == 2
    assert found.message


def test_a_member_may_not_be_missing() -> None:
    record, blobs, task = made("routed")
    for path, name in (((), "versions"), (("claim",), "gap"), (("rivals", 0), "path"), (("settings",), "risk")):
        lacking = copy.deepcopy({k: v for k, v in record.items() if k != "id"})
        at: Any = lacking
        for part in path:
            at = at[part]
        del at[name]
        found = verify_record(seal(lacking), blobs, task)
        assert (found.status, f"{name}: missing" in found.message) == ("malformed", True)


def test_bytes_must_be_canonical() -> None:
    record, blobs, task = made("released")
    body = producer.canonical(record)
    assert verify_record(body, blobs, task).code == 0
    for other_form in (
        json.dumps(record).encode(),
        body + b" ",
        body.replace(b'"discount":1,', b'"discount":1.0,'),
        body.replace(b'"discount":1,', b'"discount":1,"discount":1,'),
        body.replace(b'"discount":1,', b'"discount":NaN,'),
        body.replace(b'"discount":1,', b'"discount":1e999,'),
        body[:-1],
        body.replace(b"A-1", b"\xff"),
        b"[1]",
        b"",
    ):
        assert verify_record(other_form, blobs, task).status == "malformed"
    assert verify_record({"id": math.nan}, blobs, task).status == "malformed"
    assert verify_record({"id": {1: 2}}, blobs, task).status == "malformed"


NUMBERS = [
    0.0, -0.0, 1.0, -1.0, 0.1, 1.5, 1e15, 123456789012345680.0, 1e16, 1.7e16, 1e20, 123456789012345680000.0, 1e21,
    1.5e21, -1e22, 1e-4, 0.00012, 1e-5, 1.25e-5, -1e-6, 9.5e-7, 1e-7, 5e-324, 1.7976931348623157e308, 2.0**53, 0.3,
    1 / 3, 2**53 - 1, 1 - 2**53, 7,
]  # fmt: skip


def test_canonical_json_is_what_the_log_writes() -> None:
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2**63, 2000, dtype=np.uint64)
    floats = [x for x in bits.view(np.float64).tolist() if math.isfinite(x)]
    floats += (rng.normal(0, 1, 500) * 10.0 ** rng.integers(-12, 25, 500)).tolist()
    emoji = "\U0001f600"
    texts = ["", "é", "\u20ac", emoji, '"\\\b\f\n\r\t\x01\x1f\x7f', "\u2028"]
    nested = [[[1.0], {"b": 1, "a": [None]}], {emoji: 1, "\ufb33": 2}]
    values = [*NUMBERS, *floats, *texts, *nested, None, True, False, [], {}]
    for value in values:
        assert canonical(value) == producer.canonical(value)
        assert loads(canonical(value)) == value
    for bad in (math.inf, math.nan, 2**53 + 1, -(2**53) - 1, {1: 2}, "\ud800", {"\ud800": 1}, object(), b"x"):
        with pytest.raises(Malformed):
            canonical(bad)
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(Malformed):
        canonical(deep)


def test_json_is_read_strictly() -> None:
    assert loads(b"[1,2.5,9007199254740992,100000000000000000000]") == [1, 2.5, 2**53, 1e20]
    assert [type(x) for x in loads(b"[1,9007199254740992,9007199254740993]")] == [int, int, float]
    for bad in (
        b"[Infinity]",
        b"[-Infinity]",
        b"[NaN]",
        b'{"a":1,"a":1}',
        b"[",
        b"\xff",
        b"1" * 5000 + b"x",
        b"[" * 100_000,
    ):
        with pytest.raises(Malformed):
            loads(bad)


def blob_with(array: Any, change: Callable[[bytes], bytes]) -> Verdict:
    """The valid record with its members' blob replaced, the trace's hash and all ids made to fit."""
    record, blobs, task = made("released")
    data = change(encode_array(array, finite=False))
    name = sha256(data).hexdigest()
    new = changed(record, inputs__trace__members={"$blob": name})
    return verify_record(with_trace_hash(new, {**blobs, name: data}), {**blobs, name: data}, task)


def with_trace_hash(record: dict[str, Any], blobs: dict[str, bytes]) -> dict[str, Any]:
    t = record["inputs"]["trace"]
    sha = sha256(b"ucsearch.trace.v1\0" + json.dumps(t["meta"], sort_keys=True, separators=(",", ":")).encode())
    for name in ("members", "weights", "mean", "q", "u"):
        data = blobs[t[name]["$blob"]]
        text, _, raw = data[10:].partition(b"\n")
        shape = text.partition(b"(")[2].partition(b")")[0].replace(b",", b" ").split()
        sha.update(b"\0" + b",".join(shape) + b"\0" + raw)
    return changed(record, inputs__trace__hash=sha.hexdigest())


def members_of(name: str) -> Any:
    record, blobs, _ = made(name)
    return decode_array(blobs[record["inputs"]["trace"]["members"]["$blob"]])


@pytest.mark.parametrize(
    "change",
    [
        lambda b: b"",
        lambda b: b[:15],
        lambda b: b"\x93NUMPI" + b[6:],
        lambda b: b[:6] + b"\2" + b[7:],
        lambda b: b.replace(b"<f8", b"<f4", 1),
        lambda b: b.replace(b", 1)", b", 2)", 1),
        lambda b: b[:100],
        lambda b: b[:-8],
        lambda b: b + b"\0" * 8,
        lambda b: b[:-8] + struct.pack("<d", -0.0),
        lambda b: b[:-8] + struct.pack("<Q", 0x7FF8000000000001),
    ],
)
def test_a_malformed_blob(change: Callable[[bytes], bytes]) -> None:
    found = blob_with(members_of("released"), change)
    assert (found.status, "blob" in found.message) == ("malformed", True), found


def test_a_blob_that_is_missing_or_altered() -> None:
    record, blobs, task = made("released")
    name = record["inputs"]["trace"]["members"]["$blob"]
    assert verify_record(record, {}, task).status == "malformed"
    assert verify_record(record, {**blobs, name: blobs[name] + b"\0"}, task).status == "malformed"


@pytest.mark.parametrize(
    ("change", "status", "where"),
    [
        (lambda m: m, "valid", ""),
        (lambda m: m[0], "malformed", ""),
        (lambda m: m[:, :, :3], "malformed", ""),
        (lambda m: m[:, :0], "malformed", ""),
        (lambda m: np.concatenate([m, m]), "malformed", ""),
        (lambda m: np.concatenate([m, m], axis=3), "malformed", ""),
        (lambda m: m * np.inf, "invalid", "inputs.trace"),
        (lambda m: m * np.nan, "invalid", "inputs.trace"),
        (lambda m: m + 1.0, "invalid", "inputs.trace.mean"),
    ],
)
def test_members_fit_shapes_and_mean(change: Callable[[Any], Any], status: str, where: str) -> None:
    found = blob_with(change(members_of("released")), lambda b: b)
    assert (found.status, found.where) == (status, where)


def rebuilt(name: str, **arrays: Any) -> Verdict:
    """A scenario with arrays of its trace replaced and all hashes made to fit."""
    record, blobs, task = made(name)
    for key, array in arrays.items():
        data = encode_array(array, finite=False)
        blobs = {**blobs, blob_id(data): data}
        record = changed(record, **{f"inputs__trace__{key}": {"$blob": blob_id(data)}})
    return verify_record(with_trace_hash(record, blobs), blobs, task)


def array_of(name: str, key: str) -> Any:
    record, blobs, _ = made(name)
    return decode_array(blobs[record["inputs"]["trace"][key]["$blob"]])


def test_a_trace_is_of_one_piece() -> None:
    members, weights, mean = members_of("members"), array_of("members", "weights"), array_of("members", "mean")
    assert members.shape[1] > 1
    assert rebuilt("members", weights=weights).code == 0
    assert rebuilt("members", weights=weights * 0.5).where == "inputs.trace.weights"
    signed = np.array(weights)
    signed[0, 0] = -signed[0, 0]
    assert rebuilt("members", weights=signed).where == "inputs.trace.weights"
    assert rebuilt("members", weights=weights[:, :-1]).status == "malformed"
    assert rebuilt("members", members=members[:, ::-1]).where == "inputs.trace.members"
    assert rebuilt("members", mean=mean + 1e-13 * abs(mean)).where == "inputs.trace.mean"
    assert rebuilt("members", mean=mean[:, :-1]).status == "malformed"
    assert rebuilt("members", q=np.zeros((1, 4, 5)), u=np.zeros((1, 4, 5))).status == "malformed"
    q, u = array_of("scores", "q"), array_of("scores", "u")
    assert rebuilt("scores", u=u).code == 0
    assert rebuilt("scores", u=-u - 1.0).where == "inputs.trace.u"
    assert rebuilt("scores", q=q * np.nan).where == "inputs.trace"
    assert rebuilt("scores", q=q[:, :, :2], u=u[:, :, :2]).status == "malformed"
    assert rebuilt("scores", u=u[:, :, :2]).status == "malformed"
    assert rebuilt("scores", members=np.zeros((1, 1, 4, 1)), weights=np.ones((1, 1))).status == "malformed"


# -------------------------------------------------------------------- budget


def test_without_nodes_bounds_stay_in_doubt() -> None:
    record, blobs, task = made("released")
    found = verify_record(record, blobs, task, budget=0)
    assert (found.status, found.code) == ("weaker", 1)
    assert found.where == "rivals[0].upper"
    assert "rivals[1].reward_only_upper" in found.message
    assert "0 nodes" in found.message
    false = verify_record(changed(record, claim__gap=other), blobs, task, budget=0)
    assert false.where == "claim.gap"


def test_without_nodes_dead_ends_and_failures_stay_in_doubt() -> None:
    record, blobs, task = made("mcts, task error")
    assert verify_record(record, blobs, task, budget=0).where == "gate.rows[0].left"
    record, blobs, task = made("released")
    lie = verify_record(changed(record, rivals=lambda x: x[1:]), blobs, task, budget=0)
    assert lie.status in ("invalid", "weaker")


def test_a_meter_counts_on_the_whole() -> None:
    whole = Meter(3)
    part = Meter(2, whole)
    part.spend(1)
    part.spend(1)
    with pytest.raises(OutOfNodes):
        part.spend(1)
    assert whole.left == 1
    last = Meter(5, whole)
    last.spend(1)
    with pytest.raises(OutOfNodes):
        last.spend(1)


def test_a_node_counts_once_for_every_member() -> None:
    record, blobs, task = made("members")
    size = members_of("members").shape[1]
    least = bisect_left(range(10_000), True, key=lambda n: verify_record(record, blobs, task, budget=n).code == 0)
    assert size > 1
    assert verify_record(record, blobs, task, budget=least - 1).status == "weaker"
    assert least > 4 * size  # one state of every member for each step, at the very least


@pytest.mark.parametrize(
    ("template", "mode", "depth", "order"),
    [
        ("stock", "mean", 7, "auto"), ("stock", "mean", 7, "score"), ("free", "mean", 7, "auto"),
        ("battery", "mean", 6, "auto"), ("battery", "members", 6, "auto"), ("stock", "members", 7, "auto"),
        ("followed", "members", 3, "auto"), ("position", "scores", 8, "auto"), ("free", "members", 7, "auto"),
    ],
)  # fmt: skip
def test_many_paths(template: str, mode: str, depth: int, order: Any) -> None:
    """More than can be looked at one by one: by the task's bound, by values to go, by the members' own."""
    policy = uc.CertifiedBeam(depth=depth, width=8, risk=0.5, order=order)
    for seed in range(3):
        decision, task = decision_of(
            template, mode, seed, policy, horizon=8, kind="bound" if mode != "members" else "auto"
        )
        record, blobs = decision_record(decision)
        found = verify_record(record, blobs, task, budget=200_000)
        assert found.code == 0, found
        for k, rival in enumerate(record["rivals"]):
            if rival["upper"] is not None:
                lie = changed(record, **{f"rivals__{k}__upper": lambda x: x - 1e-3 * (1 + abs(x)) - 1e6})
                assert verify_record(lie, blobs, task, budget=200_000).where == f"rivals[{k}].upper"


# -------------------------------------------------------------------- files and logs


RECORDS = ("released", "fallback", "mcts")  # all of the battery


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "decisions.db"
    with RawLog(path, clock=lambda: "2026-01-01T00:00:00+00:00") as writer:
        for name in RECORDS:
            record, blobs, _ = made(name)
            writer.append(record, blobs)
    return path


def edit(path: Path, statement: str, *values: Any) -> None:
    with closing(sqlite3.connect(path)) as raw, raw:
        for (name,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            raw.execute(f"DROP TRIGGER {name}")
        raw.execute(statement, values)


def test_a_log_is_followed_and_every_record_verified(log: Path) -> None:
    found = list(verify_log(log, battery))
    assert [v.status for v in found] == ["valid"] * 3
    assert [v.name for v in found] == [made(name)[0]["id"] for name in RECORDS]
    assert [v.status for v in verify_file(log, stock)] == ["invalid"] * 3


def test_a_task_may_be_named_in_the_record(tmp_path: Path) -> None:
    decision, _ = decision_of("battery", "mean", 1, uc.UCBeam(**B, risk=0.25))
    with AuditLog(tmp_path / "a.db") as writer:
        writer.write(decision, where=TASK)
    assert [v.status for v in verify_file(tmp_path / "a.db")] == ["no task"]
    assert [v.code for v in verify_file(tmp_path / "a.db", trust_record_task=True)] == [0]
    record, blobs, _ = made("released")
    nameless = changed(record, task__object="")
    (found,) = verify_file(lines((nameless, blobs), path=tmp_path / "b.jsonl"), trust_record_task=True)
    assert (found.status, found.code, "name it as" in found.message) == ("no task", 2, True)
    with pytest.raises(NoTask, match="names nothing"):
        verify_record(nameless, blobs)


@pytest.mark.parametrize(
    ("statement", "where"),
    [
        ("UPDATE entries SET body = replace(body, 'A-1', 'A-2') WHERE seq = 2", "entry 2.digest"),
        ("UPDATE entries SET digest = substr(digest, 3) || '00' WHERE seq = 2", "entry 2.digest"),
        ("UPDATE entries SET head = substr(head, 3) || '00' WHERE seq = 3", "entry 3.head"),
        ("UPDATE entries SET written_at = '2027-01-01T00:00:00+00:00' WHERE seq = 1", "entry 1.head"),
        ("UPDATE entries SET written_at = NULL WHERE seq = 1", "entry 1.head"),
        ("DELETE FROM entries WHERE seq = 2", "entry 2.seq"),
        ("DELETE FROM entries WHERE seq = 1", "entry 1.seq"),
        ("UPDATE entries SET seq = 9 WHERE seq = 3", "entry 3.seq"),
        ("UPDATE entries SET id = '00' || substr(id, 3) WHERE seq = 2", "id"),
    ],
)
def test_a_broken_chain(log: Path, statement: str, where: str) -> None:
    edit(log, statement)
    found = list(verify_log(log, battery))
    assert [v.where for v in found if v.status == "invalid"] == [where]
    rest = [v.where for v in found[[v.status for v in found].index("invalid") + 1 :]]
    assert set(rest) <= ({""} if where == "id" else {"chain"})  # looked at, but nothing says that they belong there
    assert len(found) >= 2


def test_a_missing_blob_in_a_log(log: Path) -> None:
    name = made("released")[0]["inputs"]["trace"]["members"]["$blob"]
    edit(log, "DELETE FROM blobs WHERE id = ?", name)
    assert "malformed" in {v.status for v in verify_log(log, battery)}
    edit(log, "DROP TABLE blobs")
    assert [v.status for v in verify_log(log, battery)] == ["malformed"]


def test_columns_of_another_type_are_malformed(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("CREATE TABLE entries (seq, id, digest, head, written_at, body)")
        raw.execute("INSERT INTO entries VALUES (1, 'a', 'b', x'00', NULL, 'c')")
        raw.execute("PRAGMA application_id = 0x55434131")
        raw.execute("PRAGMA user_version = 1")
    assert [v.status for v in verify_log(path, battery)] == ["malformed"]


def test_other_files_are_malformed(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("CREATE TABLE entries (seq)")
    assert [v.status for v in verify_file(path, battery)] == ["malformed"]
    for text in (b"", b"\n", b"{}\n", b"SQLite format 3\0 and nothing else", b'{"record":{}}\n', b"no JSON\n"):
        path.write_bytes(text)
        assert [v.status for v in verify_file(path, battery)] == ["malformed"], text
    assert [v.status for v in verify_file(tmp_path, battery)] == ["malformed"]


def rechained(log: Path, record: dict[str, Any], blobs: dict[str, bytes], seq: int = 2) -> Path:
    """The same log with entry `seq` replaced and the chain recomputed."""
    path = log.with_name("rechained.db")
    with RawLog(path, clock=lambda: "2026-01-01T00:00:00+00:00") as writer:
        for n, name in enumerate(RECORDS, 1):
            own, held, _ = made(name)
            writer.append(*((record, blobs) if n == seq else (own, held)))
    return path


def test_a_recomputed_chain_and_a_missing_tail_show_against_a_checkpoint(log: Path, tmp_path: Path) -> None:
    pins = tmp_path / "checkpoint.json"
    with RawLog(log) as reader:
        reader.checkpoint().write(pins)
    assert [v.code for v in verify_log(log, battery, checkpoint=pins)] == [0, 0, 0]
    record, blobs, _ = made("fallback")
    copied = rechained(log, changed(record, outcome__sentence="All is well."), blobs)
    assert [v.code for v in verify_log(copied, battery)] == [0, 0, 0]
    found = list(verify_log(copied, battery, checkpoint=pins))
    assert [(v.where, v.status) for v in found] == [("", "valid"), ("entry 2.head", "invalid"), ("chain", "weaker")]
    edit(log, "DELETE FROM entries WHERE seq = 3")
    assert [v.code for v in verify_log(log, battery)] == [0, 0]
    found = list(verify_log(log, battery, checkpoint=pins))
    assert [v.where for v in found if v.code] == ["entry 3"]


def test_a_checkpoint_must_be_one(log: Path, tmp_path: Path) -> None:
    pins = tmp_path / "checkpoint.json"
    with RawLog(log) as reader:
        reader.checkpoint().write(pins)
    good = json.loads(pins.read_text())
    for bad in ({}, [], {**good, "count": 2}, {**good, "schema": "other"}, {k: good[k] for k in good if k != "marks"}):
        pins.write_text(json.dumps(bad))
        found = list(verify_log(log, battery, checkpoint=pins))
        assert [v.status for v in found] == ["malformed"]
    Checkpoint(0, read.GENESIS).write(pins)  # it reaches nothing
    assert [(v.status, v.where) for v in verify_log(log, battery, checkpoint=pins)] == [("weaker", "checkpoint")] * 3


def test_exported_lines(log: Path, tmp_path: Path) -> None:
    path, pins = tmp_path / "out.jsonl", tmp_path / "checkpoint.json"
    with RawLog(log) as reader:
        reader.export_jsonl(path)
        reader.checkpoint().write(pins)
    assert [v.code for v in verify_file(path, battery)] == [0, 0, 0]
    assert [v.code for v in verify_file(path, battery, checkpoint=pins)] == [0, 0, 0]
    whole = path.read_bytes().splitlines(keepends=True)

    def seen(*text: bytes, checkpoint: Path | None = None) -> list[tuple[str, str]]:
        path.write_bytes(b"".join(text))
        return [(v.status, v.where) for v in verify_file(path, battery, checkpoint=checkpoint)]

    assert seen(whole[1]) == [("valid", "")]
    assert seen(whole[1].rstrip()) == [("valid", "")]
    assert seen(*whole[1:], checkpoint=pins) == [("valid", ""), ("valid", "")]
    assert seen(whole[0], whole[2]) == [("valid", ""), ("invalid", "entry 2.seq")]
    assert seen(whole[1], whole[0]) == [("valid", ""), ("invalid", "entry 3.seq")]
    assert seen(*whole[:2], checkpoint=pins) == [("valid", ""), ("valid", ""), ("invalid", "entry 3")]
    entry = json.loads(whole[1])
    for change, expected in (
        (dict(digest="0" * 64), ("invalid", "entry 2.digest")),
        (dict(digest=7), ("malformed", "")),
        (dict(previous="0" * 64), ("invalid", "entry 2.previous")),
        (dict(previous="xyz"), ("malformed", "")),
        (dict(previous=None), ("malformed", "")),
        (dict(head="0" * 64), ("invalid", "entry 2.head")),
        (dict(head="xyz"), ("malformed", "")),
        (dict(head=None), ("malformed", "")),
        (dict(seq=0), ("malformed", "")),
        (dict(seq=True), ("malformed", "")),
        (dict(seq="2"), ("malformed", "")),
        (dict(written_at=5), ("malformed", "")),
        (dict(blobs=[]), ("malformed", "")),
        (dict(blobs={"a": "not base64!"}), ("malformed", "")),
        (dict(blobs={"a": 1}), ("malformed", "")),
        (dict(more=1), ("malformed", "")),
    ):
        text = producer.canonical({**entry, **change}) + b"\n"
        assert seen(whole[0], text, checkpoint=pins if "head" in change else None)[1] == expected, change
    assert seen(json.dumps(entry).encode()) == [("malformed", "")]
    assert seen(producer.canonical({**entry, "blobs": {}}))[-1][0] == "malformed"


def test_a_bare_record_has_no_blobs_to_read(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(producer.canonical(made("released")[0]))
    (found,) = verify_file(path, battery)
    assert (found.status, "blob" in found.message) == ("malformed", True)


# -------------------------------------------------------------------- overrides and refusals


def overridden(path: Path, **values: Any) -> list[Verdict]:
    """A log with one decision and an override of it, whose members are replaced by `values`."""
    record, blobs, _ = made("released")
    with RawLog(path) as log:
        entry = log.append(record, blobs)
        override = {
            "schema": "ucsearch.override/1", "kind": "override", "overrides": entry.id, "digest": entry.digest,
            "who": "A. Planner", "why": "strike", "action": 0.0, "entry": 1, "at": ISSUED, "series": "A-1",
            "label": battery.labels[battery.actions.index(0.0)], "off_grid": False,
        }  # fmt: skip
        values = {k: v(override.get(k)) if callable(v) else v for k, v in values.items()}
        body = producer.canonical(seal({**override, **values}))
        edited = path.with_suffix(".jsonl")
        log.export_jsonl(edited)
    # Written by hand: the log itself refuses most of these.
    digest = read.digest("audit-entry/1", body)
    link = bytes.fromhex(entry.head) + (2).to_bytes(8, "big") + bytes.fromhex(digest)
    head = read.digest("audit-head/1", link)
    text = (
        f'{{"blobs":{{}},"digest":"{digest}","head":"{head}","previous":"{entry.head}","record":{body.decode()},'
        '"seq":2,"written_at":null}'
    )
    with edited.open("a") as file:
        file.write(text + "\n")
    return list(verify_file(edited, battery))


def test_an_override_is_verified(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    record, blobs, _ = made("released")
    with RawLog(path) as log:
        entry = log.append(record, blobs)
        log.override(entry.id, who="A. Planner", why="strike", action=0.0, task=battery, at=ISSUED)
        log.override(entry.id, who="A. Planner", why="strike", action="0", task=battery, at=ISSUED)
    assert [v.code for v in verify_log(path, battery)] == [0, 0, 0]


@pytest.mark.parametrize(
    ("values", "status", "where"),
    [
        ({}, "valid", ""),
        (dict(action="0"), "malformed", ""),
        (dict(action=99.0), "invalid", "override.action"),
        (dict(off_grid=True), "invalid", "override.off_grid"),
        (dict(label="99"), "invalid", "override.label"),
        (dict(entry=2), "invalid", "override.overrides"),
        (dict(overrides="0" * 64), "invalid", "override.overrides"),
        (dict(digest="0" * 64), "invalid", "override.digest"),
        (dict(series="A-2"), "invalid", "override.series"),
        (dict(who=" "), "invalid", "override.who"),
        (dict(why=""), "invalid", "override.why"),
        (dict(at="2026-01-01T00:00:00"), "invalid", "override.at"),
        (dict(at="today"), "invalid", "override.at"),
        (dict(feasible=True), "malformed", ""),
        (dict(off_grid=0), "malformed", ""),
        (dict(action=None), "invalid", "override.label"),
        (dict(action=""), "malformed", ""),
        (dict(action=True), "malformed", ""),
        (dict(more=1), "malformed", ""),
        (dict(schema="ucsearch.override/2"), "malformed", ""),
    ],
)
def test_a_false_override(tmp_path: Path, values: dict[str, Any], status: str, where: str) -> None:
    found = overridden(tmp_path / "log.db", **values)
    assert found[0].code == 0
    assert (found[1].status, found[1].where) == (status, where), found[1]


def test_an_override_needs_its_decision_before_it(tmp_path: Path) -> None:
    overridden(tmp_path / "log.db")
    path = tmp_path / "log.jsonl"
    decision, override = path.read_text().splitlines()
    path.write_text(override + "\n")
    (found,) = verify_file(path, battery)
    assert (found.status, found.where) == ("weaker", "entry 1, which was not given")
    swapped = json.loads(override)["record"]
    bare = producer.canonical(swapped)
    assert verify_record(bare, {}, battery).where == "override.overrides"
    path.write_text(override + "\n" + decision + "\n")
    assert [v.code for v in verify_file(path, battery)] == [0, 1]  # found, but the chain is out of order


def refusal(state: Any = None, **values: Any) -> Verdict:
    problem = random_problem(np.random.default_rng(1), "battery", "mean")
    decision = uc.decide(battery, state or problem.state, [[math.nan]], uc.UCBeam(depth=1))
    record, blobs = decision_record(decision)
    assert record["kind"] == "refusal"
    return verify_record(changed(record, **values), blobs, battery)


def test_a_refused_trace_leaves_a_refusal() -> None:
    assert refusal().code == 0
    stuck = battery.state(9.0, -2.0)  # beyond capacity and far from the fallback: nothing may leave
    assert refusal(stuck).code == 0
    assert refusal(outcome__fallback_feasible=False).where == "outcome.fallback_feasible"
    assert refusal(outcome__fallback_action=None).where == "outcome.fallback_action"
    assert refusal(stuck, outcome__fallback_feasible=True).where == "outcome.fallback_feasible"
    assert refusal(task__rules="0" * 64).where == "task.rules"
    for change in (
        dict(outcome__outcome="FALLBACK"), dict(outcome__action=0.0), dict(outcome__reason="fallback_infeasible"),
        dict(outcome__outcome="RELEASED"), dict(outcome__cause="none"), dict(outcome__pass_kind="exact"),
        dict(outcome__regret_bound=0.0), dict(outcome__rejected_action=1.0), dict(outcome__fallback_cost=0.0),
        dict(outcome__release_margin=1.0), dict(claim={}), dict(gate__settings__near=0),
    ):  # fmt: skip
        assert refusal(**change).status == "malformed"


# -------------------------------------------------------------------- the command


def test_exit_codes(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record, blobs, _ = made("released")
    pins = tmp_path / "checkpoint.json"
    with RawLog(log) as reader:
        reader.checkpoint().write(pins)
    assert main([str(log), "--task", TASK]) == 0
    assert capsys.readouterr().out == "3 valid\n"
    assert main([str(log), "--task", TASK, "--checkpoint", str(pins)]) == 0
    assert main([str(log), "--task", TASK, "--budget", "0"]) == 1
    out = capsys.readouterr().out
    assert out.count("weaker: ") == 3
    assert out.endswith("3 weaker\n")
    lie = changed(record, claim__gap=other)
    false = lines((record, blobs), (lie, blobs), path=tmp_path / "false.jsonl")
    assert main([str(false), "--task", TASK]) == 1
    out = capsys.readouterr().out
    assert f"invalid: {lie['id']}: claim.gap: the record says" in out
    assert out.endswith("1 valid, 1 invalid\n")
    odd = tmp_path / "odd.jsonl"
    odd.write_text("{}\n")
    assert main([str(odd), "--task", TASK]) == 2
    odd.write_bytes(lines((lie, blobs), path=tmp_path / "lie.jsonl").read_bytes() + b"{}\n")
    assert main([str(odd), "--task", TASK]) == 1
    empty = tmp_path / "empty.db"
    RawLog(empty).close()
    assert main([str(empty), "--task", TASK]) == 0
    assert capsys.readouterr().out.endswith("no entries\n")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["missing.db"],
        ["LOG", "--task", "tests.kit.templates:nothing"],
        ["LOG", "--task", "no_such_package:object"],
        ["LOG", "--task", ""],
        ["LOG", "--task", "tests.kit.templates:TEMPLATES"],
        ["LOG", "--task", TASK, "--budget", "many"],
        ["LOG", "--task", TASK, "--gate", "missing.toml"],
        ["LOG", "--task", TASK, "--budget", "-1"],
        ["LOG", "--task", TASK, "--checkpoint", "missing.json"],
        ["LOG", "--tusk", TASK],
    ],
)
def test_wrong_usage(log: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([{"LOG": str(log)}.get(a, a) for a in arguments])
    assert stopped.value.code == 2
    assert "usage: ucsearch verify" in capsys.readouterr().err


def test_as_a_module(log: Path) -> None:
    command = [sys.executable, "-m", "ucsearch.verify", str(log), "--task", TASK]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "3 valid\n"), done.stderr
    done = subprocess.run([*command[:3], "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert f"nodes per record ({BUDGET}," in " ".join(done.stdout.split())


def test_a_named_task_is_found_in_the_working_folder(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "my_rules.py").write_text("from tests.kit.templates import battery as task\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *[p for p in sys.path if p]])
    before = list(sys.path)
    assert main([str(log), "--task", "my_rules:task"]) == 0
    assert main([str(log), "--task", f"{tmp_path / 'my_rules.py'}:task"]) == 0
    assert sys.path == before
    del sys.modules["my_rules"]


def test_a_task_is_found_by_its_path() -> None:
    assert find_task("tests.kit.templates:battery") is battery
    for name in ("", ":", "math", "math:pi", "tests.kit.templates:battery.nothing", "..:x"):
        with pytest.raises(NoTask):
            find_task(name)


# -------------------------------------------------------------------- the document


DOCS = Path(ucsearch.verify.__file__).parents[3] / "docs"


def test_the_worked_example_prints_what_the_document_shows(tmp_path: Path) -> None:
    text = (DOCS / "concepts" / "certificate.md").read_text(encoding="utf-8").split("## A worked example")[1]
    (code,), (shown,) = re.findall(r"```python\n(.*?)```", text, re.S), re.findall(r"```text\n(.*?)```", text, re.S)
    (tmp_path / "worked.py").write_text(code)
    done = subprocess.run([sys.executable, "worked.py"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout == shown, done.stderr


def test_the_document_names_every_member() -> None:
    words = set(re.findall(r"\w+", (DOCS / "reference" / "record.md").read_text(encoding="utf-8")))

    def members(value: Any) -> Iterator[str]:
        for key, item in value.items() if isinstance(value, dict) else ():
            yield key.lstrip("$")
            yield from members(item)
        for item in value if isinstance(value, list) else ():
            yield from members(item)

    for name in SCENARIOS:
        record = made(name)[0]
        assert set(members(record)) <= words, set(members(record)) - words
        assert {row["name"] for row in record["gate"]["rows"]} <= words


# -------------------------------------------------------------------- independence


def imported(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            yield node.module or ""


def test_it_imports_the_standard_library_and_itself() -> None:
    folder = Path(ucsearch.verify.__file__).parent
    files = sorted(folder.rglob("*.py"))
    assert len(files) >= 6
    for file in files:
        for name in imported(file):
            ours = name == "ucsearch.verify" or name.startswith("ucsearch.verify.")
            signed = name.startswith("cryptography.") and file.name == "chain.py"  # where a key is given
            arrays = name == "numpy" and file.name == "problem.py"  # handed to the task's own `prepare`
            # Where numba is installed; `--plain`, and all that is small, does without.
            compiled = name.partition(".")[0] in ("numba", "numpy") and file.name in ("machine.py", "recursion.py")
            standard = name.split(".")[0] in sys.stdlib_module_names
            assert ours or arrays or compiled or signed or standard, f"{file.name} imports {name}"


def test_numpy_is_imported_only_where_a_task_is_handed_arrays() -> None:
    folder = Path(ucsearch.verify.__file__).parent
    tree = ast.parse((folder / "decision" / "problem.py").read_text())
    places = [
        function.name
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Import) and node.names[0].name == "numpy"
    ]
    assert places == ["_prepare"]
    assert not any(isinstance(node, ast.Import) and node.names[0].name == "numpy" for node in tree.body)
