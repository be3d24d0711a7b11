"""`allowed_end`: what must hold after the last step is kept by every search, proof, look, verifier and environment."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.brute import enumerate_paths
from ucsearch.certificate import replay
from ucsearch.errors import InputError, TaskError
from ucsearch.lab.comparators import CEM, DelayAwareGreedy
from ucsearch.verify import verify_file


class Level(NamedTuple):
    level: float


class Costs(NamedTuple):
    top: float
    low: float  # the tank must end at this level or above, and below `high`
    high: float


def feasible(s: Any, a: float, p: Any) -> bool:
    return bool(0.0 <= s.level + a <= p.top)


def step(s: Any, a: float, y: float, p: Any) -> Level:
    return Level(max(0.0, s.level + a - (1.0 if y > 0.5 else 0.0)))


def reward(s: Any, a: float, y: float, p: Any) -> float:
    return float(-a * y - 0.1 * abs(a))


def fallback(s: Any, p: Any) -> float:
    return 0.0


def terminal(s: Any, p: Any) -> float:
    return float(0.2 * s.level)


def allowed_end(s: Any, p: Any) -> bool:
    return bool(p.low <= s.level < p.high)


def keep(s: Any, h: int, p: Any) -> float:
    return 0.0


def empty(s: Any, h: int, p: Any) -> float:
    return float(-min(1.0, s.level))


COSTS = Costs(4.0, 2.0, 3.5)
ACTIONS = (-1.0, 0.0, 1.0, 2.0)
TASK = uc.Task(
    name="tank that ends half full", state=Level, actions=ACTIONS, feasible=feasible, step=step, reward=reward,
    fallback=fallback, params=COSTS, terminal=terminal, allowed_end=allowed_end,
)  # fmt: skip
FOLLOWED = replace(TASK, name="followed", continuations=(keep, empty))
FREE = replace(TASK, name="free", allowed_end=None)
DRAWN = np.random.default_rng(11)
WINDOWS = [(float(DRAWN.integers(0, 5)), DRAWN.normal(0.6, 0.5, (3, 5))) for _ in range(6)]
MODES = ("mean", "members")


def policies(mode: Any) -> list[uc.Policy]:
    return [
        uc.Exact(depth=4, risk=0.5, mode=mode),
        uc.UCBeam(depth=4, width=40, top_k=4, risk=0.5, mode=mode),
        uc.CertifiedBeam(depth=4, width=6, top_k=3, risk=0.5, mode=mode),
        uc.MCTS(depth=4, simulations=40, risk=0.5, mode=mode),
        DelayAwareGreedy(delay=1, depth=4, mode=mode),
        CEM(depth=4, samples=40, mode=mode),
    ]


@pytest.mark.parametrize("mode", MODES)
def test_every_search_ends_where_it_may_and_an_exact_one_at_the_best(mode: Any) -> None:
    changed = 0
    for level, members in WINDOWS:
        trace = uc.Trace.from_members(members)
        every = enumerate_paths(TASK, Level(level), trace, depth=4, mode=mode, risk=0.5)
        free = enumerate_paths(FREE, Level(level), trace, depth=4, mode=mode, risk=0.5)
        changed += every.paths != free.paths
        for policy in policies(mode):
            plain, text = (uc.search(TASK, Level(level), trace, policy, engine=e) for e in ("python", "compiled"))
            assert text.engine == "compiled"
            for a, b in zip(plain.outputs, text.outputs, strict=True):
                assert np.asarray(a).tobytes() == np.asarray(b).tobytes(), policy
            if not plain.found:
                assert plain.status in (uc.Status.DEAD_END, uc.Status.SEARCH_EXHAUSTED)
                assert not every.paths or plain.status == uc.Status.SEARCH_EXHAUSTED
                continue
            path = every.find([ACTIONS.index(a) for a in plain.path])
            assert path is not None, policy
            if isinstance(policy, uc.Exact):
                assert plain.status == uc.Status.PROVED
                assert plain.score == pytest.approx(every.best, abs=1e-12)
    assert changed > 2


@pytest.mark.parametrize("depth", [1, 7])
@pytest.mark.parametrize("mode", MODES)
def test_dynamic_programming_and_perfect_information_know_the_end(depth: int, mode: Any) -> None:
    """7 steps are more paths than are enumerated; after 1 step only what may end there is left."""
    trace = uc.Trace.from_members(np.random.default_rng(3).normal(0.6, 0.5, (2, 7)))
    for level in (1.0, 4.0):
        found = [uc.search(TASK, Level(level), trace, uc.Exact(depth=depth, mode=mode), engine=e)
                 for e in ("python", "compiled")]  # fmt: skip
        for a, b in zip(found[0].outputs, found[1].outputs, strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
        every = enumerate_paths(TASK, Level(level), trace, depth=depth, mode=mode)
        assert found[0].score == pytest.approx(every.best, abs=1e-12)
        assert {i for i, f in enumerate(found[0].first_actions) if f.retained} <= set(every.values)


def test_a_window_that_cannot_end_well_is_a_dead_end() -> None:
    nowhere = replace(TASK, params=COSTS._replace(low=9.0, high=10.0))
    trace = uc.Trace.from_members(WINDOWS[0][1])
    for policy in (*policies("mean"), *policies("members")):
        assert uc.search(nowhere, Level(1.0), trace, policy, engine="python").status == uc.Status.DEAD_END
    decided = uc.decide(nowhere, Level(1.0), trace, uc.UCBeam(depth=3), gate=uc.Gate(), run=uc.Run(engine="python"))
    assert decided.outcome == uc.Outcome.FALLBACK
    assert decided.reason == uc.Reason.DEAD_END


def test_continuations_are_asked_at_their_own_end() -> None:
    for level, members in WINDOWS:
        trace = uc.Trace.from_members(members)
        policy = uc.Exact(depth=3, risk=0.5, mode="members")
        every = enumerate_paths(FOLLOWED, Level(level), trace, depth=3, mode="members", risk=0.5)
        plain, text = (uc.search(FOLLOWED, Level(level), trace, policy, engine=e) for e in ("python", "compiled"))
        for a, b in zip(plain.outputs, text.outputs, strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
        assert plain.found == bool(every.paths)
        if every.paths:
            assert plain.score == pytest.approx(every.best, abs=1e-12)


def closed_value(state: Level, h: int, outcomes: list[list[float]], first: int | None = None) -> float:
    """Independent recursion: equally likely outcomes of every step, all seen before the next decision."""
    if h == len(outcomes):
        return terminal(state, COSTS) if allowed_end(state, COSTS) else -math.inf
    best = -math.inf
    for i, a in enumerate(ACTIONS):
        if (first is None or i == first) and feasible(state, a, COSTS):
            parts = [
                reward(state, a, y, COSTS) + closed_value(step(state, a, y, COSTS), h + 1, outcomes)
                for y in outcomes[h]
            ]
            best = max(best, sum(parts) / len(parts))
    return best


def test_closed_mode_keeps_the_end_whatever_the_law_brings() -> None:
    members = np.array([[0.2, 0.9, 0.1], [0.9, 0.3, 0.8]])
    trace = uc.Trace.from_members(members, coupling="independent")
    outcomes = [sorted(set(column)) for column in members.T.tolist()]
    for level in (0.0, 1.0, 2.0, 4.0):
        plain, text = (uc.search(TASK, Level(level), trace, uc.Exact(depth=3, mode="closed"), engine=e)
                       for e in ("python", "compiled"))  # fmt: skip
        for a, b in zip(plain.outputs, text.outputs, strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
        value = closed_value(Level(level), 0, outcomes)
        assert plain.found == (value > -math.inf)
        if plain.found:
            assert plain.score == pytest.approx(value, abs=1e-12)
        for i in range(len(ACTIONS)):
            own = closed_value(Level(level), 0, outcomes, i)
            assert (own > -math.inf) == (plain.outputs.flags[0, i] & 32 == 0 and plain.outputs.flags[0, i] & 1 == 1)
    free = uc.search(FREE, Level(0.0), trace, uc.Exact(depth=3, mode="closed"), engine="python")
    kept = uc.search(TASK, Level(0.0), trace, uc.Exact(depth=3, mode="closed"), engine="python")
    assert free.score > kept.score


@pytest.mark.parametrize("mode", MODES)
def test_certificates_bound_what_may_end_there_and_no_more(mode: Any) -> None:
    for level, members in WINDOWS:
        trace = uc.Trace.from_members(members)
        every = enumerate_paths(TASK, Level(level), trace, depth=4, mode=mode, risk=0.5)
        if not every.paths:
            continue
        policy = uc.CertifiedBeam(depth=4, width=8, top_k=4, risk=0.5, mode=mode)
        for nodes in (4, 100_000):  # the first leaves the members bound to prove it
            found = uc.certify(
                TASK, Level(level), trace, policy, run=uc.Run(engine="python"), proof=uc.Proof(node_budget=nodes)
            )
            for rival in found.rivals:
                if math.isfinite(rival.upper):
                    assert rival.upper >= every.values.get(rival.index, -math.inf) - 1e-9
        if mode == "mean" and found.plan.found:  # the path is followed with each member's own outcomes to the end
            kept = 0.0
            for row, weight in zip(trace.members[0, :, :, 0].tolist(), trace.weights[0].tolist(), strict=True):
                state, fine = Level(level), True
                for a, y in zip(found.plan.path[:4], row, strict=False):
                    fine = fine and feasible(state, a, COSTS)
                    state = step(state, a, y, COSTS)
                kept += weight * (fine and allowed_end(state, COSTS))
            assert found.member_feasible == pytest.approx(kept)


@pytest.mark.parametrize("policy", [
    uc.CertifiedBeam(depth=3, width=6, risk=0.5), uc.UCBeam(depth=3, width=6, mode="members"),
    uc.Exact(depth=3, mode="closed"),
], ids=lambda p: p.mode)  # fmt: skip
def test_records_verify_and_not_by_other_rules_about_the_end(policy: uc.Policy, tmp_path: Path) -> None:
    members = np.array([[0.2, 0.9, 0.1], [0.9, 0.3, 0.8]])
    trace = uc.Trace.from_members(members, coupling="independent")
    with uc.AuditLog(tmp_path / "log.db") as log:
        for level in (1.0, 3.0):
            gate = uc.Gate(certificate=False, regret_limit=1e6)
            decided = uc.decide(TASK, Level(level), trace, policy, gate=gate, run=uc.Run(engine="python"))
            assert decided.outcome == uc.Outcome.RELEASED
            log.write(decided, series=f"S{level}", where="here:TASK")
        log.export_jsonl(tmp_path / "out.jsonl")
    assert [v.status for v in verify_file(tmp_path / "out.jsonl", TASK)] == ["valid"] * 2
    # A record of rules that do not know the end is not one of those that do, even where the hash is not looked at.
    patient = object.__new__(uc.Task)
    patient.__dict__.update(TASK.__dict__ | {"allowed_end": lambda s, p: s.level > 99.0})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uc.Task, "source_hash", TASK.source_hash)
        assert {v.status for v in verify_file(tmp_path / "out.jsonl", patient)} == {"invalid"}
    assert TASK.source_hash != FREE.source_hash
    assert TASK.source_hash != replace(TASK, allowed_end=lambda s, p: s.level >= 0.0).source_hash


@pytest.mark.parametrize("mode", ["mean", "members", "closed"])
def test_the_final_check_asks_for_the_end(mode: Any) -> None:
    trace = uc.Trace.from_members(np.array([[0.2, 0.9, 0.1], [0.9, 0.3, 0.8]]), coupling="independent")
    policy = uc.Exact(depth=3, mode="closed") if mode == "closed" else uc.UCBeam(depth=3, width=6, mode=mode)
    certified = uc.certify_panel(TASK, [Level(2.0)], trace, policy, run=uc.Run(engine="python"))
    released = np.array([True])
    assert replay.final_check(certified, released) == {}
    rules = TASK.__dict__["allowed_end"]
    try:
        TASK.__dict__["allowed_end"] = lambda s, p: s.level > 99.0
        assert "end" in replay.final_check(certified, released)[0]
    finally:
        TASK.__dict__["allowed_end"] = rules


def test_gym_counts_a_forbidden_end_as_a_dead_end() -> None:
    pytest.importorskip("gymnasium")
    from ucsearch.lab.gym import TaskEnv, TaskVectorEnv

    for action, fine in ((2, True), (1, False)):
        env = TaskEnv(TASK, Level(1.0), [np.zeros(3)], length=1, dead_end_reward=-7.0, engine="python")
        env.reset(seed=1)
        _, paid, terminated, truncated, info = env.step(action)
        assert (terminated, truncated, info["dead_end"]) == (False, True, not fine)
        assert paid == pytest.approx(-0.1 + 0.4 if fine else -7.0)
    many = TaskVectorEnv(TASK, Level(1.0), [np.zeros(3)], num_envs=2, length=1, dead_end_reward=-7.0, engine="python")
    many.reset(seed=1)
    _, rewards, _, _, info = many.step(np.array([2, 1]))
    assert rewards.tolist() == pytest.approx([0.3, -7.0])
    assert info["dead_end"].tolist() == [False, True]


def test_check_task_looks_at_it_and_arities_are_refused() -> None:
    uc.check_task(TASK, Level(1.0), [0.2, 0.9])
    with pytest.raises(TaskError, match="allowed_end returned"):
        uc.check_task(replace(TASK, allowed_end=lambda s, p: 2.0), Level(1.0), [0.2])
    with pytest.raises(TaskError, match="allowed_end raised"):
        uc.check_task(replace(TASK, allowed_end=lambda s, p: s.nothing), Level(1.0), [0.2])
    with pytest.raises(InputError, match="allowed_end"):
        replace(TASK, allowed_end=lambda s: True)


@pytest.mark.parametrize("answer", [2.0, "no", None, math.nan])
def test_an_end_that_is_neither_allowed_nor_not_is_a_failure(answer: Any) -> None:
    odd = replace(TASK, allowed_end=lambda s, p: answer)
    trace = uc.Trace.from_members(WINDOWS[0][1])
    for mode in ("mean", "members"):
        found = uc.search_panel(odd, [Level(1.0)], trace, uc.UCBeam(depth=2, mode=mode), engine="python")
        assert found[0].status == uc.Status.TASK_ERROR


def test_ends_in_scores_mode_follow_the_given_scores() -> None:
    q = np.array([[[0.0, 1.0, 2.0, 7.0], [4.0, 5.0, 6.5, 9.0]]])
    trace = uc.Trace.from_scores(q, np.zeros_like(q), outcomes=np.zeros((1, 2)))
    found = uc.search(TASK, Level(0.0), trace, uc.Exact(depth=2, mode="scores"), engine="python")
    best = max(
        (sum(q[0, h, i] for h, i in enumerate(path)), path)
        for path in product(range(4), repeat=2)
        if ACTIONS[path[0]] >= 0.0 and 2.0 <= ACTIONS[path[0]] + ACTIONS[path[1]] < 3.5
    )
    assert found.path == tuple(ACTIONS[i] for i in best[1])


@pytest.mark.compiled
@pytest.mark.slow
@pytest.mark.parametrize("policy", [
    uc.UCBeam(depth=3, width=6, risk=0.5, mode="members"), uc.Exact(depth=7), uc.Exact(depth=3, mode="closed"),
], ids=lambda p: f"{type(p).__name__}-{p.mode}")  # fmt: skip
def test_machine_code_gives_the_same_bytes(policy: uc.Policy) -> None:
    members = np.random.default_rng(3).normal(0.6, 0.5, (2, 7))
    trace = uc.Trace.from_members(members, coupling="independent")
    for level in (0.0, 1.0, 4.0):
        plain, fast = (uc.search(TASK, Level(level), trace, policy, engine=e) for e in ("python", "compiled"))
        assert fast.engine == "compiled"
        for a, b in zip(plain.outputs, fast.outputs, strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
