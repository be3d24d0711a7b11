"""The verifier's own searches: beams of every kind run again, effort counted, ways that fail or give up."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.problems import random_problem
from tests.kit.templates import Clock, Stock, clock, stock
from ucsearch.records.record import decision_record
from ucsearch.tasks import LeadTimeInventory
from ucsearch.verify import verify_record
from ucsearch.verify.decision import search
from ucsearch.verify.decision.inputs import problem_of

Made = tuple[dict[str, Any], dict[str, bytes], uc.Task]
CASES = [
    ("battery", "mean"), ("battery", "members"), ("stock", "mean"), ("stock", "members"), ("position", "scores"),
    ("tank", "scores"), ("tank", "mean"), ("pack", "mean"), ("maze", "mean"), ("maze", "members"), ("free", "mean"),
    ("free", "members"), ("followed", "members"), ("followed", "mean"),
]  # fmt: skip


def record_of(template: str, mode: str, seed: int, policy: Any, **options: Any) -> Made:
    problem = random_problem(np.random.default_rng(seed), template, mode, gaps=False)
    decision = uc.decide(
        problem.task, problem.state, problem.trace, dataclasses.replace(policy, mode=mode), params=problem.params,
        proof=uc.Proof(**options), run=uc.Run(engine="python"),
    )  # fmt: skip
    return *decision_record(decision), problem.task


def random_beam(rng: np.random.Generator) -> Any:
    """Narrow beams, in which the order of candidates and paths decides what is kept."""
    kind = (uc.UCBeam, uc.ParetoBeam, uc.CertifiedBeam)[int(rng.integers(3))]
    top_k = int(rng.integers(1, 4))
    return kind(
        depth=int(rng.integers(2, 5)), top_k=top_k, width=max(top_k, int(rng.integers(1, 5))),
        risk=float(rng.choice([0.0, 0.5, 1.0])), prune_risk=float(rng.choice([0.0, 0.5])),
        info_bonus=float(rng.choice([0.0, 0.75])), order=str(rng.choice(["auto", "score"])),
        discount=float(rng.choice([1.0, 1.0, 0.9])),
    )  # fmt: skip


@pytest.mark.parametrize(("template", "mode"), CASES)
def test_narrow_beams_are_found_again(template: str, mode: str) -> None:
    rng = np.random.default_rng(11)
    for seed in range(12):
        made = record_of(template, mode, seed, random_beam(rng), kind="bound")
        assert verify_record(*made).code == 0, (seed, verify_record(*made))


@pytest.mark.parametrize("mode", ["mean", "members"])
def test_narrow_beams_by_a_real_bound_are_found_again(mode: str) -> None:
    """Orders arrive later, so that the immediate score says nothing and the bound decides."""
    rng = np.random.default_rng(12)
    config = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 3.0, 6.0, 9.0), salvage=0.5, unit_cost=1.0)
    for _ in range(24):
        trace = uc.Trace.from_members(np.round(rng.gamma(4.0, 1.5, (3, 4)), 1))
        state = config.state(float(rng.integers(0, 6)), [float(rng.integers(0, 6))])
        policy = dataclasses.replace(random_beam(rng), order="bound", discount=1.0, mode=mode)
        decision = uc.decide(config.task(), state, trace, policy, run=uc.Run(engine="python"))
        record, blobs = decision_record(decision)
        found = verify_record(record, blobs, config.task())
        assert found.code == 0, found


# -------------------------------------------------------------------- effort

BEAM = uc.UCBeam(depth=3, width=4, top_k=3, risk=0.5)
EFFORT = {
    ("battery", "mean", "oracle"): 11, ("battery", "members", "oracle"): 63, ("stock", "mean", "oracle"): 22,
    ("stock", "mean", "bound"): 22, ("stock", "members", "oracle"): 36, ("tank", "mean", "oracle"): 9,
    ("tank", "members", "oracle"): 15, ("maze", "mean", "oracle"): 25, ("position", "scores", "bound"): 17,
    ("followed", "mean", "oracle"): 22, ("followed", "members", "oracle"): 30, ("free", "members", "bound"): 45,
}  # fmt: skip


@pytest.mark.parametrize("case", EFFORT, ids=" ".join)
def test_the_effort_of_a_verification_is_known(case: tuple[str, str, str]) -> None:
    """States looked at until nothing is in doubt. More than this would be waste, less would prove nothing."""
    template, mode, kind = case
    made = record_of(template, mode, 3, BEAM, kind=kind)
    low, high = -1, 100_000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if verify_record(*made, budget=middle).code == 0 else (middle, high)
    assert high == EFFORT[case]


def test_the_documented_limits() -> None:
    docs = Path(__file__).parents[2] / "docs"
    assert f"up to {search.FEW_PATHS:,})" in (docs / "concepts" / "certificate.md").read_text()
    assert f"or if {search.COMPLETION_MOVES:,}" in (docs / "reference" / "record.md").read_text()


def test_a_dead_end_is_one_only_if_there_were_moves_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    record, blobs, task = record_of("maze", "mean", 5, uc.UCBeam(depth=3, width=6, top_k=3, risk=0.25))
    assert record["outcome"]["cause"] == "dead_end"
    p = problem_of(record, blobs.get, task)
    assert search.completes(p) is False
    enough = 0
    for moves in range(40, -1, -1):
        monkeypatch.setattr(search, "COMPLETION_MOVES", moves)
        if search.completes(p) is False:
            enough = moves
    assert enough == 4


def test_a_path_as_long_as_the_plan_and_no_longer() -> None:
    """From here three moves are possible and not a fourth."""
    record, blobs, task = record_of("maze", "mean", 7, uc.UCBeam(depth=3, width=1, top_k=1))
    assert record["outcome"]["cause"] == "search_exhausted"
    p = problem_of(record, blobs.get, task)
    assert search.completes(p) is True
    p.depth = 4
    assert search.completes(p) is False


# -------------------------------------------------------------------- bounds and continuations that go wrong


def test_a_bound_is_not_asked_for_at_the_end() -> None:
    def prepare(outcomes: Any, p: Any) -> Any:
        return np.zeros(outcomes.shape[0] + 1)

    def bound(s: Any, h: int, table: Any, p: Any) -> float:
        return 100.0 * s.t if h == 2 else 50.0

    def step(s: Any, a: float, y: float, p: Any) -> Any:
        return Clock(s.t - a)

    task = dataclasses.replace(clock, prepare=prepare, bound=bound, step=step)
    trace = uc.Trace.from_members([[1.0, 1.0], [2.0, 0.5]])
    decision = uc.decide(
        task, Clock(0.0), trace, uc.UCBeam(depth=2, width=1, top_k=1, order="bound"), run=uc.Run(engine="python")
    )
    record, blobs = decision_record(decision)
    assert verify_record(record, blobs, task).code == 0


@pytest.mark.parametrize("wrong", ["nan", "raises", "prepare raises"])
def test_a_bound_that_gives_no_number_is_a_failure(wrong: str) -> None:
    def prepare(outcomes: Any, p: Any) -> Any:
        if wrong == "prepare raises":
            raise ValueError("no table")
        return np.zeros(outcomes.shape[0] + 1)

    def bound(s: Any, h: int, table: Any, p: Any) -> float:
        if wrong == "raises":
            raise ValueError("no bound")
        return math.nan

    for feasible in (clock.feasible, lambda s, a, p: False):
        task = dataclasses.replace(clock, prepare=prepare, bound=bound, feasible=feasible)
        trace = uc.Trace.from_members([[1.0, 1.0, 1.0]])
        for policy in (uc.UCBeam(depth=3, width=2, order="bound"), uc.Exact(depth=3, order="bound")):
            record, blobs = decision_record(uc.decide(task, Clock(0.0), trace, policy, run=uc.Run(engine="python")))
            assert verify_record(record, blobs, task).code == 0, (wrong, policy, record["outcome"]["cause"])


@pytest.mark.parametrize("turn", [1, -1])
def test_of_equally_good_continuations_the_calmer_one_counts(turn: int) -> None:
    def calm(s: Any, h: int, p: Any) -> float:
        return 0.0

    def bold(s: Any, h: int, p: Any) -> float:
        return 1.0

    def reward(s: Any, a: float, y: float, p: Any) -> float:
        return a * y

    task = dataclasses.replace(clock, reward=reward, continuations=[calm, bold][::turn])
    trace = uc.Trace.from_members([[1.0, 2.0], [1.0, -2.0]])
    policy = uc.UCBeam(depth=1, width=3, mode="members", risk=0.0)
    record, blobs = decision_record(uc.decide(task, Clock(0.0), trace, policy, run=uc.Run(engine="python")))
    assert {x["uncertainty"] for x in record["rivals"]} == {0}
    assert verify_record(record, blobs, task).code == 0


def test_a_continuation_that_breaks_the_rules_ends_a_path() -> None:
    def feasible(s: Any, a: float, p: Any) -> bool:
        return bool(s.t + a <= 1.0)

    def step(s: Any, a: float, y: float, p: Any) -> Any:
        return Clock(s.t + a)

    def more(s: Any, h: int, p: Any) -> float:
        return 1.0

    task = dataclasses.replace(clock, feasible=feasible, step=step, continuations=[more])
    trace = uc.Trace.from_members([[1.0, 2.0], [1.0, -2.0]])
    policy = uc.UCBeam(depth=1, width=3, mode="members")
    record, blobs = decision_record(uc.decide(task, Clock(0.0), trace, policy, run=uc.Run(engine="python")))
    assert verify_record(record, blobs, task).code == 0
    assert len([x for x in record["rivals"] if x["retained"]]) == 2


def test_few_paths_are_valued_first_and_many_bounded_first() -> None:
    for depth, first in ((6, "_values"), (7, "_bound")):  # four actions: 4,096 paths and more
        trace = uc.Trace.from_members(np.full((1, depth), 5.0))
        policy = uc.UCBeam(depth=depth, width=2, top_k=2)
        decision = uc.decide(stock, Stock(4.0, (2.0, 2.0), 2.0), trace, policy, run=uc.Run(engine="python"))
        record, blobs = decision_record(decision)
        ways = search.Prover(problem_of(record, blobs.get, stock), search.Meter(1)).ways
        assert ways[0].__name__ == first
        assert len(ways) == 2


def test_what_a_bound_keeps_out_of_sight_need_not_be_valued() -> None:
    """Beyond 10 the reward fails, but the bound says that nobody would go there; so the planner never looked."""

    def prepare(outcomes: Any, p: Any) -> Any:
        return np.zeros(outcomes.shape[0] + 1)

    def bound(s: Any, h: int, table: Any, p: Any) -> float:
        return -1000.0 if s.t >= 10.0 else 0.0

    def step(s: Any, a: float, y: float, p: Any) -> Any:
        return Clock(s.t + 10.0 * (a == 1.0))

    def reward(s: Any, a: float, y: float, p: Any) -> float:
        if s.t >= 10.0:
            raise ValueError("nobody should be here")
        return -abs(a)

    task = dataclasses.replace(clock, prepare=prepare, bound=bound, step=step, reward=reward)
    trace = uc.Trace.from_members([[1.0, 1.0, 1.0]])
    policy = uc.UCBeam(depth=3, width=1, top_k=1, order="bound")
    record, blobs = decision_record(
        uc.decide(task, Clock(0.0), trace, policy, proof=uc.Proof(kind="bound"), run=uc.Run(engine="python"))
    )
    assert record["outcome"]["outcome"] == "RELEASED"
    assert verify_record(record, blobs, task).code == 0


def test_the_value_to_go_of_scores_is_the_best_of_every_step() -> None:
    q = [[1.0, 2.0, 0.0], [0.5, 0.25, 1.0], [0.0, -1.0, -2.0]]
    u = [[0.0, 4.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    decision = uc.decide(
        clock,
        Clock(0.0),
        uc.Trace.from_scores(q, u),
        uc.UCBeam(depth=3, mode="scores", risk=0.5),
        run=uc.Run(engine="python"),
    )
    record, blobs = decision_record(decision)
    p = problem_of(record, blobs.get, clock)
    assert p.tables() == [1.0 + 0.5 - 0.5, 0.5 - 0.5, -0.5, 0.0]
    empty = p.at_risk(0.5)
    empty.available = []
    assert empty.tables()[0] == -math.inf


def test_each_member_prepares_for_itself_alone_and_without_risk() -> None:
    seen = []

    def prepare(outcomes: Any, p: Any, view: Any) -> Any:
        seen.append((outcomes.tolist(), view.members.tolist(), view.weights.tolist(), view.risk))
        return np.zeros(outcomes.shape[0] + 1)

    def bound(s: Any, h: int, table: Any, p: Any) -> float:
        return 10.0

    task = dataclasses.replace(clock, prepare=prepare, bound=bound)
    trace = uc.Trace.from_members([[1.0, 2.0], [3.0, 4.0]], [0.25, 0.75])
    policy = uc.UCBeam(depth=2, mode="members", risk=0.5, order="bound")
    record, blobs = decision_record(uc.decide(task, Clock(0.0), trace, policy, run=uc.Run(engine="python")))
    seen.clear()  # a list that the rules hold is one of their constants: it is as it was when the task was made
    problem_of(record, blobs.get, task).tables()
    assert seen == [([1.0, 2.0], [[1.0, 2.0]], [1.0], 0.0), ([3.0, 4.0], [[3.0, 4.0]], [1.0], 0.0)]


def test_of_equal_candidates_the_calmer_one_is_expanded() -> None:
    trace = uc.Trace.from_scores([[1.0, 1.0, 0.0]] * 2, [[1.0, 0.5, 0.0]] * 2)
    policy = uc.UCBeam(depth=2, width=1, top_k=1, mode="scores", prune_risk=0.0, order="score")
    record, blobs = decision_record(uc.decide(clock, Clock(0.0), trace, policy, run=uc.Run(engine="python")))
    assert [x["path"] for x in record["rivals"] if x["retained"]] == [[1, 1]]
    assert verify_record(record, blobs, clock).code == 0
