"""The benchmark problem as ucsearch sees it: lost sales, nine order sizes, lead time 2, four members, mean mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import ucsearch as uc
from bench.peers.common import make_instances
from ucsearch.lab.comparators import CEM, MPPI, key_from
from ucsearch.tasks import LeadTimeInventory

RISK = 0.25


@dataclass(frozen=True)
class Problem:
    depth: int
    task: uc.Task
    states: Any  # State of arrays
    trace: uc.Trace
    instances: dict[str, Any]  # what the peers read


def inventory() -> LeadTimeInventory:
    return LeadTimeInventory(
        lead_time=2, order_sizes=tuple(float(a) for a in range(9)), capacity=20.0, ramp=3.0, unit_cost=0.5,
        holding=1.0, shortage=9.0,
    )  # fmt: skip


def make_problem(windows: int, depth: int, seed: int = 7, members: int = 4) -> Problem:
    """Windows of the shared generator; more members are resampled from its four with fresh noise."""
    instances = make_instances(seed, windows, depth)
    demand = instances["members"]
    if members != 4:
        rng = np.random.default_rng(seed + 1)
        picks = rng.integers(0, 4, (windows, members, 1))
        noise = np.round(rng.normal(0.0, 0.5, (windows, members, depth)) * 4.0) / 4.0
        demand = np.maximum(np.take_along_axis(demand, picks, axis=1) + noise, 0.0)
    task = inventory().task()
    pipeline = instances["pipeline"]
    states = task.state(instances["on_hand"], (pipeline[:, 0], pipeline[:, 1]), instances["last"])
    return Problem(depth, task, states, uc.Trace.from_members(demand), instances)


# Sample counts of the peers: plans per iteration, iterations.
SAMPLERS = {"CEM 256 x 5": (CEM, 256, 5), "MPPI 1024 x 5": (MPPI, 1024, 5)}
KEYS = 10  # a stochastic policy is averaged over so many


def first_windows(problem: Problem, count: int) -> Problem:
    """The first `count` windows, which are the ones the slower peers are run on."""
    states = problem.states
    few = type(states)(states[0][:count], tuple(x[:count] for x in states[1]), states[2][:count])
    trace = uc.Trace.from_members(problem.trace.members[:count, :, :, 0])
    return Problem(problem.depth, problem.task, few, trace, problem.instances)


def samplers(depth: int) -> dict[str, list[Any]]:
    """Our counterparts of the sampling peers, one policy per key."""
    rng = np.random.default_rng(0)
    return {
        name: [
            kind(depth=depth, risk=RISK, samples=samples * iterations, iterations=iterations, seed=key_from(rng))
            for _ in range(KEYS)
        ]
        for name, (kind, samples, iterations) in SAMPLERS.items()
    }


def policies(depth: int) -> dict[str, Any]:
    common = dict(depth=depth, risk=RISK)
    return {
        "beam, by score (B 8, k 3)": uc.UCBeam(**common, width=8, top_k=3, order="score"),
        "beam, by bound (B 1, k 2)": uc.UCBeam(**common, width=1, top_k=2, order="bound"),
        "beam, by bound (B 4, k 3)": uc.UCBeam(**common, width=4, top_k=3, order="bound"),
        "exact, certified": uc.Exact(**common),
        "MCTS (16 simulations)": uc.MCTS(**common, simulations=16, top_k=3),
    }
