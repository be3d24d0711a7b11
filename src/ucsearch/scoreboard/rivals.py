"""Who takes part: the search policies, the comparators, and on inventory the classics, all at one budget."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ucsearch.comparators import (
    CEM,
    MPPI,
    DelayAwareGreedy,
    ExposureMatch,
    Greedy,
    Random,
    RandomShooting,
    RiskGreedy,
    RiskRandom,
    beam,
    key_from,
    match_exposure,
    matched_samples,
)
from ucsearch.dispatch.api import decide_panel
from ucsearch.dispatch.gate import Gate
from ucsearch.engine.api import search_panel
from ucsearch.engine.simulate import Simulator
from ucsearch.errors import InputError
from ucsearch.policies import MCTS, CertifiedBeam, ConstrainedBeam, Exact, ParetoBeam, Policy, UCBeam
from ucsearch.scoreboard.problem import Problem
from ucsearch.scoreboard.walk import Choice, Chooser, as_state, walk
from ucsearch.trace import Trace

__all__ = ["MATCHED", "Budget", "How", "Rival", "hindsight", "matched_risk", "rivals"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
MATCHED = "exposure-matched risk-greedy"
_NODES = 200_000  # of an exact search or proof, per decision


@dataclass(frozen=True)
class How:
    """How the work is done; changes times only."""

    engine: Literal["auto", "python", "compiled"] = "compiled"
    threads: int = 1


@dataclass(frozen=True)
class Budget:
    """What every policy gets."""

    depth: int = 6
    width: int = 8  # of the beams
    top_k: int = 3
    risk: float = 0.25
    mode: Literal["mean", "members"] = "mean"

    @property
    def expansions(self) -> int:
        """What a beam may expand per decision; the samplers get plans for as many steps."""
        return self.top_k * (1 + self.width * (self.depth - 1))

    @property
    def samples(self) -> int:
        return matched_samples(self.expansions, self.depth)


@dataclass(frozen=True)
class Rival:
    """One policy; a stochastic one has a chooser per seed."""

    name: str
    family: str  # search, comparator, classic or learned
    make: tuple[Callable[[], Chooser], ...]  # one per seed
    settings: str  # in short, for the table's notes


class Searched:
    """A search policy or comparator. CEM and MPPI start from their last plan, moved on by a step."""

    def __init__(self, problem: Problem, policy: Policy, how: How) -> None:
        self.problem, self.policy, self.how = problem, policy, how
        self._last: Any = None

    def __call__(self, t: int, states: Floats, trace: Trace, mask: Bools) -> Choice:
        policy = self.policy
        if t == 0:
            self._last = None
        if self._last is not None and isinstance(policy, CEM | MPPI):
            policy = policy.warmed(self._last, states, trace)
        plan = search_panel(
            self.problem.setup.task, as_state(self.problem, states), trace, policy, threads=self.how.threads,
            engine=self.how.engine,
        )  # fmt: skip
        plan.raise_for_errors()
        self._last = plan
        return Choice(np.array(plan.outputs.out_i[:, 1], np.int64), np.array(plan.expansions, np.int64))


class Dispatched:
    """A constrained beam as it is dispatched: what has no certificate is replaced by the fallback."""

    def __init__(self, problem: Problem, policy: Policy, how: How) -> None:
        self.problem, self.policy, self.how = problem, policy, how

    def __call__(self, t: int, states: Floats, trace: Trace, mask: Bools) -> Choice:
        task = self.problem.setup.task
        panel = decide_panel(
            task, as_state(self.problem, states), trace, self.policy, gate=Gate(certificate=True),
            engine=self.how.engine, threads=self.how.threads, node_budget=_NODES,
        )  # fmt: skip
        certified = panel.certified
        certified.plan.raise_for_errors()
        match = task.action_array[None] == panel.action[:, None]
        index = np.where(match.any(axis=1), match.argmax(axis=1), -1).astype(np.int64)
        return Choice(index, np.array(certified.plan.expansions + certified.oracle_nodes, np.int64))


def rivals(
    problem: Problem, budget: Budget, *, seeds: int, rng: np.random.Generator, matched: ExposureMatch, how: How
) -> list[Rival]:
    """All of them, in the order of the table."""
    if seeds < 1:
        raise InputError("--seeds", seeds, "at least 1")
    delay = problem.setup.delay
    d, samples = budget.depth, budget.samples
    common: dict[str, Any] = dict(depth=d, risk=budget.risk, mode=budget.mode)
    wide: dict[str, Any] = dict(width=budget.width, top_k=budget.top_k)
    keys = [key_from(rng) for _ in range(seeds)]

    def one(name: str, policy: Policy, settings: str, family: str = "search") -> Rival:
        return Rival(name, family, (lambda: Searched(problem, policy, how),), settings)

    def many(name: str, kind: Any, settings: str, **more: Any) -> Rival:
        made = [kind(**common, **more, seed=key) for key in keys]
        return Rival(
            name, "comparator", tuple(lambda p=p: Searched(problem, p, how) for p in made),  # type: ignore[misc]
            f"{settings}, {seeds} seeds",
        )  # fmt: skip

    shape = f"width {budget.width}, {budget.top_k} candidates"
    constrained = ConstrainedBeam(**common, **wide)
    reach = max(d, delay + 1)
    iterations = min(5, samples)
    found = [
        one("uc-beam", UCBeam(**common, **wide), shape),
        one("pareto-beam", ParetoBeam(**common, **wide), shape),
        one("certified-beam", CertifiedBeam(**common, **wide), shape),
        Rival("constrained-beam", "search", (lambda: Dispatched(problem, constrained, how),), f"{shape}, with proof"),
        one("mcts", MCTS(**common, simulations=samples, top_k=budget.top_k), f"{samples} simulations"),
        one("exact", Exact(**common, node_budget=_NODES), f"at most {_NODES:,} nodes"),
        one("beam, risk 0", beam(depth=d, mode=budget.mode, **wide), shape, "comparator"),
        one("greedy", Greedy(**common), "reward of the first step", "comparator"),
        one("risk-greedy", RiskGreedy(**common), "score of the first step", "comparator"),
        one(
            MATCHED, RiskGreedy(**(common | {"risk": matched.risk})),
            f"risk {matched.risk:g}: exposure {matched.exposure:.3g} for {matched.target:.3g} on earlier windows",
            "comparator",
        ),
        one(
            "delay-aware greedy", DelayAwareGreedy(**(common | {"depth": reach}), delay=delay),
            f"delay {delay}", "comparator",
        ),
        many("random", Random, "uniform"),
        many("random shooting", RandomShooting, f"{samples} plans", samples=samples),
        many("risk-random", RiskRandom, f"{samples} plans", samples=samples),
        many("cem", CEM, f"{samples} plans in {iterations} rounds", samples=samples, iterations=iterations),
        many("mppi", MPPI, f"{samples} plans in {iterations} rounds", samples=samples, iterations=iterations),
    ]  # fmt: skip
    if problem.setup.inventory is not None:
        from ucsearch.scoreboard.classics import classics

        found += [Rival(name, "classic", (made,), text) for name, made, text in classics(problem)]
    return found


def matched_risk(problem: Problem, budget: Budget, simulator: Simulator, how: How) -> ExposureMatch:
    """The risk at which risk-greedy is exposed as much as the beam, on windows before those compared."""

    def exposure(policy: Policy) -> float:
        done = walk(problem, Searched(problem, policy, how), simulator, clock=lambda: 0.0)
        return float(np.abs(done.actions).mean())

    common: dict[str, Any] = dict(depth=budget.depth, mode=budget.mode)
    target = exposure(UCBeam(**common, risk=budget.risk, width=budget.width, top_k=budget.top_k))
    highest = 1.0 if budget.mode == "members" else 16.0
    return match_exposure(
        lambda risk: exposure(RiskGreedy(**common, risk=risk)), target, highest=highest, bisections=12
    )


def hindsight(problem: Problem, how: How) -> tuple[Floats, Bools]:
    """(N,) the best total that any feasible actions could have reached, and whether it is proved to be the best; where
    it is not, the figure is a proved upper bound."""
    trace = Trace.from_members(problem.realised[:, None, :], model="hindsight")
    policy = Exact(depth=problem.steps, risk=0.0, node_budget=20 * _NODES)
    plan = search_panel(
        problem.setup.task, as_state(problem, problem.states()), trace, policy, threads=how.threads, engine=how.engine
    )
    plan.raise_for_errors()
    upper = np.where(np.isfinite(plan.upper), np.maximum(plan.upper, plan.score), plan.score)
    proved = ~(upper > plan.score + 1e-9 * (1.0 + np.abs(plan.score)))
    return np.where(proved, plan.score, upper), proved
