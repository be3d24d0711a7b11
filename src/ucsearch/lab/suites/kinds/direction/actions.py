"""Short, flat or long along a series: a policy as a table of actions, the walk through it, and what the walk gave.

A policy's answer depends on the trace and on the direction held, and only three directions exist. So every policy is
asked once about every decision and direction, in one panel, and the walk then looks its answers up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.api import search, search_panel
from ucsearch.engine.arrays import OutI
from ucsearch.engine.choose import engine_for
from ucsearch.errors import InputError
from ucsearch.lab.comparators import CEM, Greedy, Random, RandomShooting, RiskGreedy, beam, key_from
from ucsearch.policies import MCTS, Exact, Policy, UCBeam
from ucsearch.replay.metrics import cvar20, max_drawdown, total_reward, window_totals
from ucsearch.replay.panel import Panel, Stretch
from ucsearch.replay.walk import Choice, Seen
from ucsearch.replay.walk import walk as follow
from ucsearch.tasks.direction import Direction
from ucsearch.trace import Trace

__all__ = [
    "ActionTable",
    "DirectionWalk",
    "SearchBudget",
    "answers",
    "average",
    "counted",
    "figures",
    "hindsight",
    "policies",
    "walk",
]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class ActionTable(NamedTuple):
    """What a policy does at each of T decisions in each of D directions held."""

    action: Ints  # (T, D) index into the task's actions
    expansions: Ints  # (T, D)
    scores: Ints  # (T, D) actions scored


class DirectionWalk(NamedTuple):
    """One policy along one series."""

    action: Floats  # (T,) -1, 0 or 1
    reward: Floats  # (T,) realised
    expansions: int
    scores: int
    violations: int  # actions that were not allowed


class SearchBudget(NamedTuple):
    """What the searches of a suite may use; the same for every series."""

    depth: int
    width: int
    top_k: int
    samples: int  # plans per decision of the sampling comparators, over all iterations
    simulations: int  # of MCTS, per decision
    seeds: int  # of every stochastic policy, per series


def directions(config: Direction) -> tuple[float, ...]:
    """The directions that can be held: with the cost on exposure the state never moves."""
    return (-1.0, 0.0, 1.0) if config.charge == "change" else (0.0,)


def counted(config: Direction, decisions: int) -> int:
    """Searches behind `answers`."""
    return decisions * len(directions(config))


def answers(config: Direction, members: Floats, policy: Policy, threads: int | None = None) -> ActionTable:
    """Ask `policy` about T forecasts (T, J, H) in every direction held."""
    held = directions(config)
    count = len(members)
    panel = search_panel(
        config.task(),
        [config.state(direction) for _ in range(count) for direction in held],
        np.repeat(members, len(held), axis=0),
        policy,
        threads=threads,
        engine=engine_for(count),
    ).raise_for_errors()
    index = panel.outputs.out_i[:, OutI.FIRST]
    if not (index >= 0).all():
        raise InputError("policy", f"no action in window {int(np.argmin(index >= 0))}", "an action in every window")
    shape = (count, len(held))
    return ActionTable(index.reshape(shape), panel.expansions.reshape(shape), panel.action_scores.reshape(shape))


def walk(config: Direction, tables: Sequence[ActionTable], outcomes: Floats) -> list[DirectionWalk]:
    """Follow every table from flat through realised outcomes (T,): an episode each of the one walk."""
    count, steps, task, start = len(tables), len(outcomes), config.task(), config.state(0.0)
    realised = np.tile(np.asarray(outcomes, np.float64), (count, 1))
    none = realised[:, :, None]  # answers are known, so nobody looks at a forecast
    stretch = Stretch("", "", 0, 0, steps, 1, realised[0] if count else np.zeros(steps), 1.0)
    layout = task.layout(start)
    panel = Panel(
        task, None, layout, np.tile(np.array(layout.flatten(start, "state")), (count, 1)), (stretch,) * count,
        none[..., None], realised, none, (np.zeros(0),) * count, "answers",
    )  # fmt: skip
    chooser = _LookedUp(config, tables)
    done = follow(panel, chooser, engine="python")
    return [
        DirectionWalk(
            done.actions[n], done.rewards[n], int(done.expansions[n]), int(chooser.scores[n]), int(done.violations[n])
        )
        for n in range(count)
    ]


class _LookedUp:
    """The answer for the direction held."""

    def __init__(self, config: Direction, tables: Sequence[ActionTable]) -> None:
        self.tables, self.held = tables, directions(config)
        self.scores = np.zeros(len(tables), np.int64)

    def __call__(self, seen: Seen) -> Choice:
        places = [self.held.index(row[0]) for row in seen.rows.tolist()]
        found = [(x.action[seen.t, k], x.expansions[seen.t, k], x.scores[seen.t, k])
                 for x, k in zip(self.tables, places, strict=True)]  # fmt: skip
        index, expansions, scores = np.array(found, np.int64).T
        self.scores += scores
        return Choice.at(seen, index, expansions)


def hindsight(config: Direction, outcomes: Floats) -> DirectionWalk:
    """The best walk in hindsight, proved, by the exact search on what really happened."""
    trace = Trace.from_members(np.asarray(outcomes)[None, :])
    plan = search(config.task(), config.state(0.0), trace, Exact(depth=len(outcomes), mode="mean"))
    if not plan.proved:
        raise InputError("outcomes", f"{len(outcomes)} steps", "few enough for an exact search")
    rewards = np.array(plan.step_rewards)
    return DirectionWalk(np.array(plan.path), rewards, plan.expansions, plan.action_scores, 0)


# -------------------------------------------------------------------- what is compared


def policies(budget: SearchBudget, risk: float, seed: int) -> dict[str, tuple[Policy, ...]]:
    """Every policy by name, the stochastic ones once per seed. Candidates are ranked by C, paths by S, as the paper
    does; `*-even` are the sampling comparators with plans spread evenly over the tree instead of drawn one by one."""
    common: dict[str, Any] = {"depth": budget.depth, "spread": "variance"}
    keys = [key_from(np.random.default_rng([seed, n])) for n in range(budget.seeds)]
    search_settings = {**common, "top_k": budget.top_k, "risk": risk, "order": "score"}
    sampled = {**common, "samples": budget.samples}
    out: dict[str, tuple[Policy, ...]] = {
        "random": tuple(Random(**common, seed=k) for k in keys),
        "greedy": (Greedy(depth=1, spread="variance"),),
        "risk-greedy": (RiskGreedy(depth=1, spread="variance", risk=risk),),
        "beam": (beam(depth=budget.depth, width=budget.width, top_k=budget.top_k, spread="variance"),),
        "uc": (UCBeam(**search_settings, width=budget.width),),
        "uc-mcts": (MCTS(**search_settings, simulations=budget.simulations),),
    }
    for suffix, even in (("", False), ("-even", True)):
        out[f"rand-shoot{suffix}"] = tuple(RandomShooting(**sampled, stratified=even, seed=k) for k in keys)
        out[f"cem{suffix}"] = tuple(CEM(**sampled, risk=risk, stratified=even, seed=k) for k in keys)
    return out


# -------------------------------------------------------------------- what came of it


def figures(one: DirectionWalk, best: DirectionWalk, block: int) -> dict[str, float]:
    """The metrics of a walk; `best` is the hindsight oracle's, `block` the decisions per block of CVaR20 by blocks."""
    rewards = one.reward
    before = np.concatenate([[0.0], one.action[:-1]])
    return {
        "reward": total_reward(rewards),
        # Summed step by step and not as a difference of totals, so that reward + regret is worth a check.
        "regret": total_reward(best.reward - rewards),
        "drawdown": max_drawdown(rewards),
        "cvar20": cvar20(rewards),
        "cvar20_blocks": cvar20(window_totals(rewards, block)),
        "exposure": float(np.abs(one.action).mean()),
        "turnover": float(np.abs(one.action - before).mean()),
        "expansions": float(one.expansions),
        "action_scores": float(one.scores),
        "violations": float(one.violations),
    }


def average(found: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Mean over the seeds of a policy."""
    return {name: float(np.mean([one[name] for one in found])) for name in found[0]}
