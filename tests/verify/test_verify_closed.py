"""The verifier's own recursion over policies: what is true it confirms, what is forged it names."""

from __future__ import annotations

import copy
from functools import cache

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.records.canonical import blob_id, encode_array, seal
from ucsearch.records.record import decision_record
from ucsearch.tasks import LeadTimeInventory
from ucsearch.verify import verify_record

INVENTORY = LeadTimeInventory(
    lead_time=1, order_sizes=(0.0, 2.0, 4.0, 6.0), capacity=20.0, fixed_cost=3.0, unmet="lost"
)
TASK, STATE = INVENTORY.task(), INVENTORY.state(3.0, (2.0,))
DEMAND = np.random.default_rng(11).poisson(3.0, (60, 3)).astype(float)
TRACE = uc.Trace.from_members(DEMAND)
SHARES = np.random.default_rng(2).random(60) + 0.1


def tree():
    names: dict[tuple[float, ...], int] = {}
    rows = TRACE.members[0, :, :, 0].tolist()
    return TRACE.declare(
        "tree", node=[[names.setdefault((h, *r[: h + 1]), len(names)) for h in range(3)] for r in rows]
    )


CASES = {
    "lattice": (lambda: TRACE.on_lattice(1.0, 5), {}),
    "weighted": (
        lambda: uc.Trace.from_members(DEMAND, SHARES / SHARES.sum()).on_lattice(0.5, 7), {}
    ),
    "independent": (lambda: TRACE.declare("independent"), {"depth": 2}),
    "markov": (lambda: TRACE.declare("markov", bins=2), {}),
    "tree": (tree, {}),
    "risk": (lambda: TRACE.on_lattice(1.0, 5), {"risk": 0.5, "tail": 0.25}),
    "fixed": (lambda: TRACE.on_lattice(1.0, 3), {"fixed_plan": True}),
    "joint": (lambda: TRACE, {}),
    "budget": (lambda: TRACE.on_lattice(1.0, 5), {"node_budget": 100}),
}  # fmt: skip


@cache
def made(name):
    make, changes = CASES[name]
    policy = uc.Exact(**{"depth": 3, "mode": "closed", **changes})
    return decision_record(uc.decide(TASK, STATE, make(), policy, run=uc.Run(engine="python")))


def forged(name, **changes):
    record, blobs = copy.deepcopy(made(name))
    for path, value in changes.items():
        at, *keys = record, *path.split("__")
        for key in keys[:-1]:
            at = at[int(key)] if isinstance(at, list) else at[key]
        last = int(keys[-1]) if isinstance(at, list) else keys[-1]
        at[last] = value(at[last]) if callable(value) else value
    record.pop("id", None)
    return verify_record(seal(record), blobs, TASK)


@pytest.mark.parametrize("name", CASES)
def test_true_records_are_valid(name):
    record, blobs = made(name)
    verdict = verify_record(record, blobs, TASK)
    assert verdict.status == "valid", verdict
    expected = {"joint": "no_information_structure", "budget": "node_budget"}.get(name, "none")
    assert record["outcome"]["cause"] == expected


@pytest.mark.parametrize(
    "name", ["lattice", *(pytest.param(n, marks=pytest.mark.slow) for n in ("markov", "tree", "risk"))]
)
def test_forged_values_are_found(name):
    rivals = made(name)[0]["rivals"]
    for k in range(len(rivals)):
        for field in ("score", "reward", "upper", "size", "reward_only_score", "step_score"):
            for factor in (1.0 + 1e-6, 0.9)[: 1 if k else 2]:
                verdict = forged(name, **{f"rivals__{k}__{field}": lambda x, f=factor: x * f})
                assert verdict.status == "invalid", (k, field, factor, verdict)
        both = {f"rivals__{k}__{field}": lambda x: x + 1e-3 for field in ("score", "upper", "reward")}
        assert forged(name, **both).status == "invalid"
    for field, value in (
        ("gap", lambda x: x + 0.1), ("optimal", False), ("certificate_pass", False), ("states", lambda x: x + 1),
        ("transitions", lambda x: x - 1), ("action_index", lambda x: (x + 1) % 4), ("open_value", 1.0),
        ("flexibility", 0.0), ("regret_bound", 0.5), ("unique", lambda x: not x),
    ):  # fmt: skip
        assert forged(name, **{f"claim__{field}": value}).status == "invalid", field
    assert forged(name, rivals=lambda x: x[1:]).status == "invalid"


@pytest.mark.parametrize("name", ["lattice", "risk", "joint"])
def test_a_policy_is_not_valued_under_another_spread(name):
    for spread in (0, 1, 2):
        assert forged(name, settings__spread=spread).where == "settings.spread"


@pytest.mark.parametrize("name", ["lattice", "weighted", "markov", "tree", "independent"])
def test_forged_laws_are_found(name):
    law = made(name)[0]["claim"]["law"]
    assert forged(name, claim__law__hash="0" * 64).where == "claim.law.hash"
    assert forged(name, claim__law__kind="joint").status == "invalid"
    assert forged(name, claim__law__points=law["points"] + 1).where == "claim.law.points"
    assert forged(name, claim__law__unit=2.5).where == "claim.law.unit"
    if law["variance_ratio"]:
        assert forged(name, claim__law__variance_ratio__2=lambda x: x + 0.01).status == "invalid"


def swapped(name, meta=None, node=None, members=None):
    """The record with another declaration or other members, its trace's hash made to fit."""
    record, blobs = copy.deepcopy(made(name))
    trace = record["inputs"]["trace"]
    make, _ = CASES[name]
    given = make()
    values = {n: getattr(given, n) for n in ("members", "weights", "mean", "q", "u", "node", "declared", "coupling")}
    values.update(meta or {})
    if members is not None:
        values["members"] = members
        values["mean"] = uc.Trace.from_members(members[0, :, :, 0]).mean
    if node is not None:
        values["node"] = node
    fake = object.__new__(uc.Trace)
    fake.__dict__.update({**given.__dict__, **values})
    fake.__dict__.pop("hash", None)
    for field in ("members", "weights", "mean", "q", "u", "node"):
        if getattr(fake, field) is not None:
            blob = encode_array(np.asarray(getattr(fake, field), dtype=float), finite=False)
            blobs[blob_id(blob)] = blob
            trace[field] = {"$blob": blob_id(blob)}
    trace["meta"], trace["hash"] = fake.meta(), fake.hash
    record.pop("id", None)
    return verify_record(seal(record), blobs, TASK)


def test_another_law_under_the_same_claims_is_found():
    declared = CASES["lattice"][0]().declared
    assert swapped("lattice").status == "valid"  # the tool itself forges nothing
    assert swapped("lattice", {"declared": declared._replace(points=6)}).status == "invalid"
    assert swapped("lattice", {"declared": declared._replace(unit=0.5)}).status == "invalid"
    assert swapped("lattice", {"declared": declared._replace(unit=0.0, points=0)}).status == "invalid"
    chain = CASES["markov"][0]().declared
    assert swapped("markov").status == "valid"
    assert swapped("markov", {"declared": chain._replace(bins=1)}).status == "invalid"
    assert swapped("markov", {"declared": chain._replace(bins=3)}).status == "invalid"
    assert swapped("markov", {"coupling": "joint", "declared": chain._replace(bins=0)}).status == "invalid"
    members = np.array(TRACE.members)
    members[0, -1, -1, 0] += 1.0
    assert swapped("lattice", members=members).status == "invalid"
    node = np.array(tree().node)
    assert swapped("tree").status == "valid"
    node[0, :, 2] = 0
    assert swapped("tree", node=node).status == "invalid"
    apart = np.array(tree().node)
    apart[0, :, 2] = np.arange(60)
    assert swapped("tree", node=apart).status == "invalid"


def test_a_forged_policy_path_is_found():
    for name in ("lattice", "tree"):
        chosen = made(name)[0]["claim"]["action_index"]
        k = next(k for k, r in enumerate(made(name)[0]["rivals"]) if r["index"] == chosen)
        found = {forged(name, **{f"rivals__{k}__path__1": i}).status for i in range(4)}
        assert found == {"valid", "invalid"}
        assert forged(name, **{f"rivals__{k}__path": lambda x: x[:-1]}).status == "invalid"


def test_a_forged_worth_of_re_planning_is_found():
    record, _ = made("fixed")
    assert record["claim"]["flexibility"] > 0.0
    assert forged("fixed", claim__open_value=lambda x: x - 0.01).where == "claim.open_value"
    assert forged("fixed", claim__flexibility=lambda x: x + 0.01).where == "claim.flexibility"
    assert forged("fixed", claim__flexibility=None).where == "claim.flexibility"
    assert forged("risk", claim__open_value=0.0).status == "invalid"


def test_beyond_the_budget_the_verdict_is_weaker():
    record, blobs = made("lattice")
    assert verify_record(record, blobs, TASK, budget=50).status == "weaker"


def test_settings_that_closed_mode_does_not_have_are_refused():
    assert forged("lattice", settings__mode=2).status in ("invalid", "malformed")
    assert forged("lattice", settings__risk=1.5).status == "invalid"
    assert forged("risk", settings__tail=0.3).status == "invalid"
    assert forged("lattice", settings__node_budget=10).status == "invalid"
    assert forged("budget", settings__node_budget=2_000_000).status == "invalid"


def test_the_default_budget_is_at_least_the_decisions_own(monkeypatch):
    record, blobs = made("lattice")
    needed = record["claim"]["transitions"]
    monkeypatch.setattr("ucsearch.verify.api.BUDGET", needed - 1)
    assert record["settings"]["node_budget"] >= needed
    assert verify_record(record, blobs, TASK).status == "valid"
    assert verify_record(record, blobs, TASK, budget=needed - 1).status == "weaker"


def test_a_record_cannot_ask_for_more_than_the_largest_budget(monkeypatch):
    record, blobs = made("lattice")
    monkeypatch.setattr("ucsearch.verify.api.BUDGET", 1)
    monkeypatch.setattr("ucsearch.verify.api.LARGEST_BUDGET", record["claim"]["transitions"] - 1)
    assert verify_record(record, blobs, TASK).status == "weaker"
