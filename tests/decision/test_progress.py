"""A search that ends at its budget says what is known so far and what to raise; rounding is worth nothing."""

from __future__ import annotations

import dataclasses
import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.decision.words import explain_release
from ucsearch.engine.arrays import Status
from ucsearch.planner.recorded.explain import retell
from ucsearch.records.record import decision_record
from ucsearch.tasks import LeadTimeInventory

INVENTORY = LeadTimeInventory(
    lead_time=1, order_sizes=(0.0, 2.0, 4.0, 6.0), capacity=20.0, fixed_cost=3.0, unmet="lost"
)
TASK, STATE = INVENTORY.task(), INVENTORY.state(3.0, (2.0,))
BARE = dataclasses.replace(TASK, bound=None, prepare=None, prepare_into=None)
MEMBERS = uc.Trace.from_members(np.random.default_rng(11).poisson(3.0, (20, 7)).astype(float))
LATTICE = MEMBERS.on_lattice(1.0, 5)


@cache
def searched(mode: str, budget: int, bounded: bool = True) -> Any:
    policy = uc.Exact(depth=7, mode=mode, node_budget=budget)
    trace = LATTICE if mode == "closed" else MEMBERS
    return uc.search(TASK if bounded else BARE, STATE, trace, policy, engine="python")


def number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found is not None, text
    return float(found[1])


@pytest.mark.parametrize("mode", ["mean", "members"])
def test_the_best_plan_so_far_and_what_bounds_the_rest(mode: str) -> None:
    plan, proved = searched(mode, 40), searched(mode, 2_000_000)
    assert plan.status is Status.NOT_PROVED
    assert proved.proved
    text = plan.explain()
    assert "40 of 40 nodes are used" in text
    assert f'starts with "{plan.label}"' in text
    assert number(r"and scores (-?[\d.]+);", text) == pytest.approx(plan.score, rel=1e-5)
    upper = number(r"cannot score more than (-?[\d.]+\d)", text)
    assert plan.score <= proved.score <= upper
    assert "raise node_budget (now 40), plan fewer steps (depth, now 7)" in text


@pytest.mark.parametrize(("mode", "unit"), [("mean", "nodes"), ("members", "nodes"), ("closed", "transitions")])
def test_where_nothing_was_found_it_says_so(mode: str, unit: str) -> None:
    plan = searched(mode, 3, False)
    assert not plan.found
    assert f"of 3 {unit} are used. No complete plan was found so far; nothing bounds" in plan.explain()
    assert "of 3 nodes used" in repr(plan)


@pytest.mark.parametrize(("mode", "budget"), [("mean", 3), ("mean", 40), ("members", 40), ("closed", 40)])
def test_decisions_say_it_and_records_give_the_same_sentence(mode: str, budget: int) -> None:
    trace = LATTICE if mode == "closed" else MEMBERS
    policy = uc.Exact(depth=7, mode=mode, node_budget=budget)
    decision = uc.decide(TASK, STATE, trace, policy, run=uc.Run(engine="python"), proof=uc.Proof(node_budget=budget))
    assert decision.outcome is uc.Outcome.FALLBACK
    assert f"of {budget} " in decision.sentence
    assert "so far" in decision.sentence
    assert f"raise node_budget (now {budget})" in decision.sentence
    assert "beam" not in decision.sentence
    record, _ = decision_record(decision)
    assert retell(record, TASK) == [decision.sentence]


def test_plans_of_every_end_have_words() -> None:
    proved = searched("mean", 2_000_000)
    assert f'"{proved.label}" is proved best among 4 actions offered' in proved.explain()
    beam = uc.search(TASK, STATE, MEMBERS, uc.UCBeam(depth=7, width=2), engine="python")
    assert f'The plan found starts with "{beam.label}" and scores' in beam.explain()
    dead = dataclasses.replace(TASK, feasible=lambda s, a, p: False)
    nothing = uc.search(dead, STATE, MEMBERS, uc.Exact(depth=2), engine="python")
    assert nothing.explain().startswith("No feasible plan exists")
    bare = uc.search(TASK, STATE, MEMBERS, uc.Exact(depth=2, mode="closed"), engine="python")
    assert "what is learned when" in bare.explain()


@pytest.mark.parametrize("worth", [-3.6e-15, 0.0, 3.6e-15])
def test_a_worth_of_rounding_size_is_nothing(worth: float) -> None:
    policy = uc.Exact(depth=3, mode="closed", fixed_plan=True)
    c = uc.certify(TASK, STATE, LATTICE, policy, run=uc.Run(engine="python"))
    assert c.certificate_pass
    assert c.tau > 3.6e-15
    rounded = dataclasses.replace(c, closed=dataclasses.replace(c.closed, flexibility=worth))
    assert "Re-planning is worth nothing against" in explain_release(rounded, "order 2", "exact", "EUR")
    real = dataclasses.replace(c, closed=dataclasses.replace(c.closed, flexibility=0.25))
    assert "Re-planning is worth 0.25 EUR against" in explain_release(real, "order 2", "exact", "EUR")
