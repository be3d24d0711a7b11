"""Inventory systems whose optimum is known: how far from it does the closed-loop planner stay, and the usual rules?

Lost sales without a fixed cost (Zipkin's instances), with one, and backorders with one, where (s, S) is optimal and the
theory's own algorithm gives the figure. The planner looks a fixed number of periods ahead, once with the true law of
demand and once with a law of sampled members, and its orders in all states make a chain whose cost is exact.
"""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ucsearch.errors import InputError, UCSearchError
from ucsearch.lab.suites.evidence.tables import cell_check, column, table
from ucsearch.lab.suites.kinds.kind import Rows, SuiteKind
from ucsearch.lab.suites.kinds.known_optimum.chain import Chain, Cost
from ucsearch.lab.suites.kinds.settings import SettingsTable
from ucsearch.lab.suites.protocol.expected_rows import RowPlan
from ucsearch.lab.suites.suite import Suite
from ucsearch.policies import Exact, Proof, Run
from ucsearch.replay.classics.backorder import optimise_s_s
from ucsearch.replay.classics.demand import Demand, geometric, poisson

__all__ = ["KnownOptimum", "KnownOptimumSettings"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
SPLIT = "design"
MEAN = 5.0  # units of demand a period, Zipkin's
HOLDING = 1.0
CLOSED, SAMPLED, WORST = "uc-closed", "uc-members", "uc-members, worst seed"
ORDER = ("optimum", CLOSED, SAMPLED, WORST, "s-S", "base-stock", "myopic", "ppo")


class System(SettingsTable):
    """One family of systems: its members differ in lead time."""

    demand: Literal["poisson", "geometric"] = "poisson"
    unmet: Literal["lost", "backordered"] = "lost"
    penalty: float = Field(gt=0.0)
    fixed: float = Field(0.0, ge=0.0)
    leads: tuple[int, ...] = Field(min_length=1, description="lead times, 0 to 2; with backorders 0")

    @property
    def name(self) -> str:
        return f"{self.unmet}-{self.demand}-p{self.penalty:g}-K{self.fixed:g}"


class KnownOptimumSettings(SettingsTable):
    """The systems, and how far the planner looks."""

    systems: tuple[System, ...] = Field(min_length=1)
    periods: int = Field(12, ge=1, description="horizon past the lead time")
    members: int = Field(256, ge=2, description="of a sampled law")
    seeds: int = Field(20, ge=1, description="sampled laws")
    checked: int = Field(6, ge=0, description="states of each system in which the product itself is asked")
    closed_mean: float = Field(0.002, gt=0.0, description="wanted of the true law: mean gap, as a share of the optimum")
    closed_max: float = Field(0.01, gt=0.0, description="the same, largest gap")
    sampled_mean: float = Field(0.005, gt=0.0, description="wanted of sampled members: mean gap")
    engine: Literal["python", "compiled"] = Field("compiled", description="of the product where it is asked")
    ppo: str | None = Field(None, description="file of stored order tables, below the evaluation package")

    def plan(self) -> RowPlan:
        """The rows that evidence must hold."""
        families = {system.name: tuple(f"L{lead}" for lead in system.leads) for system in self.systems}
        policies = ("optimum", "uc-closed", "uc-members", "uc-members, worst seed", "s-S", "base-stock", "myopic")
        return RowPlan(
            series={SPLIT: families}, windows={SPLIT: 1}, decisions={SPLIT: 1}, policies={SPLIT: frozenset(policies)},
            exactly=False,
        )  # fmt: skip


class KnownOptimum(SuiteKind):
    """Nothing is held out: the systems are given, and every cost is exact."""

    describes = True
    s: KnownOptimumSettings

    def describe(self) -> Rows:
        rows: Rows = []
        every = [(system, lead) for system in self.s.systems for lead in system.leads]
        for system, lead in self.each("systems", every):
            found = self.job.shard(f"{system.name}-L{lead}", partial(_system, self.suite, system, lead))
            for name, seconds in found["seconds"].items():
                self.job.timing(name, seconds, 1)
            rows.append({"split": SPLIT, "family": system.name, "series": f"L{lead}", "window": 0, "start": 0,
                         "decisions": 1, "policies": found["policies"], "certificate": None})  # fmt: skip
        return rows

    def tables(self, rows: Rows) -> list[dict[str, Any]]:
        return _tables()

    def checks(self, rows: Rows) -> list[dict[str, Any]]:
        return _checks(self.s)


def _chain(system: System, lead: int, demand: Demand) -> Chain:
    """A box that the best policy does not fill: demand over the lead time, safety, and a batch."""
    if system.unmet == "backordered" and lead != 0:
        raise InputError("leads", lead, "0 with backorders: the position is then the whole state")
    batch = int(np.ceil(2.0 * np.sqrt(2.0 * system.fixed * MEAN / HOLDING)))
    level = demand.over(lead + 1).quantile(system.penalty / (system.penalty + HOLDING))
    low = -4 * (level + batch) if system.unmet == "backordered" else 0
    orders = demand.quantile(0.9999) + batch if system.unmet == "lost" else 6 * (level + batch)
    return Chain(demand.pmf, lead, HOLDING, system.penalty, system.fixed, level + 2 * batch + 10, orders, low)


def _system(suite: Suite, system: System, lead: int) -> dict[str, Any]:
    s: KnownOptimumSettings = suite.settings
    demand = poisson(MEAN) if system.demand == "poisson" else geometric(MEAN)
    chain = _chain(system, lead, demand)
    seconds: dict[str, float] = {}
    begun = perf_counter()
    orders, best = chain.solve()
    seconds["optimum"] = perf_counter() - begun
    if chain.at_edge(orders):
        raise UCSearchError(f"{system.name}, lead time {lead}: the box is too small")
    periods = lead + s.periods
    begun = perf_counter()
    planned = chain.plan([demand.pmf] * periods)
    seconds[CLOSED] = perf_counter() - begun
    costs: dict[str, Cost] = {"optimum": best, CLOSED: chain.cost(planned)}
    sampled = [chain.cost(chain.plan(laws)).value for laws in _laws(suite, system, lead, demand, periods)]
    level = demand.over(lead + 1).quantile(system.penalty / (system.penalty + HOLDING))
    batch = round(float(np.sqrt(2.0 * system.fixed * MEAN / HOLDING)))
    (small, large), costs["s-S"] = chain.best_reorder((level - max(1, batch // 2), level + batch // 2), 4)
    _, costs["base-stock"] = _best_level(chain, level)
    costs["myopic"] = chain.cost(chain.plan([demand.pmf] * (lead + 1)))
    figures = {name: _figures(cost, best) for name, cost in costs.items()}
    if system.unmet == "backordered":
        theory = optimise_s_s(demand, HOLDING, system.penalty, system.fixed, lead)
        figures["optimum"]["off_theory"] = abs(theory.cost - best.value) / best.value
    figures["s-S"] |= {"reorder_point": float(small), "level": float(large)}
    gaps = [value / best.value - 1.0 for value in sampled]
    figures[SAMPLED] = {"cost": float(np.mean(sampled)), "gap": float(np.mean(gaps)),
                        "gap_percent": 100.0 * float(np.mean(gaps))}  # fmt: skip
    figures[WORST] = {"cost": max(sampled), "gap": max(gaps), "gap_percent": 100.0 * max(gaps)}
    figures[CLOSED] |= _asked(s, system, lead, chain, planned, demand)
    if s.ppo is not None and system.fixed == 0.0 and system.unmet == "lost":
        table = _stored(s.ppo, system, lead)
        if table is not None:
            figures["ppo"] = _figures(table, best)
    return {"policies": figures, "seconds": seconds}


def _figures(cost: Cost, best: Cost) -> dict[str, Any]:
    # Both are midpoints of proved bounds, so an optimal policy may come out a rounding below the optimum.
    gap = cost.value / best.value - 1.0
    return {"cost": cost.value, "lower": cost.lower, "upper": cost.upper, "gap": gap, "gap_percent": 100.0 * gap}


def _best_level(chain: Chain, level: int) -> tuple[int, Cost]:
    """The cheapest base-stock level near the usual one; with a fixed cost it orders nearly every period."""
    found = {n: chain.cost(chain.reorder(n - 1, n)) for n in range(max(1, level - 5), level + 3)}
    best = min(found, key=lambda n: (found[n].value, n))
    return best, found[best]


def _laws(suite: Suite, system: System, lead: int, demand: Demand, periods: int) -> list[list[Floats]]:
    """For every seed the law of each period, as counted on so many sampled members."""
    s: KnownOptimumSettings = suite.settings
    out = []
    for seed in range(s.seeds):
        key = [suite.seed, seed, lead, int(100 * system.penalty), int(100 * system.fixed), len(system.name)]
        rng = np.random.default_rng(key)
        drawn = rng.choice(len(demand.pmf), size=(periods, s.members), p=demand.pmf / demand.pmf.sum())
        out.append([np.bincount(row, minlength=len(demand.pmf)) / s.members for row in drawn])
    return out


# -------------------------------------------------------------------- the product itself


def _asked(
    s: KnownOptimumSettings, system: System, lead: int, chain: Chain, planned: Ints, demand: Demand
) -> dict[str, Any]:
    """Closed mode of the product in some states: whether its proved order is as good as the chain's."""
    if s.checked == 0 or lead == 0:
        return {"asked": 0.0, "differs": 0.0}
    from ucsearch.decision.api import decide
    from ucsearch.tasks import LeadTimeInventory
    from ucsearch.trace import Trace

    config = LeadTimeInventory(
        lead_time=lead, order_sizes=tuple(float(z) for z in range(MOST_ORDERS + 1)), shortage=system.penalty,
        fixed_cost=system.fixed, unmet="lost" if system.unmet == "lost" else "backordered",
        capacity=float(chain.high), merge_arrivals=True,
    )  # fmt: skip
    periods = lead + min(s.periods, ASKED_PERIODS)
    orders = chain.plan([demand.pmf] * periods)
    points = np.arange(len(demand.pmf), dtype=np.float64)
    trace = Trace.from_members(
        np.repeat(points[:, None], periods, axis=1), demand.pmf / demand.pmf.sum(), model="law"
    ).declare("independent")
    states = [i for i in range(len(chain.states)) if chain.position[i] <= chain.high // 2]
    chosen = [states[round(x)] for x in np.linspace(0, len(states) - 1, s.checked)]
    sizes = np.arange(MOST_ORDERS + 1, dtype=np.float64)
    available = np.where(sizes <= chain.orders, sizes, np.nan)
    differs = 0
    for i in chosen:
        stock, *due = chain.states[i].tolist()
        # The chain's stock has arrived already; the product's first open order arrives now.
        state = config.state(0.0, [float(stock), *map(float, due)])
        decided = decide(config.task(), state, trace, Exact(depth=periods, mode="closed", node_budget=20_000_000),
                         actions=available, proof=Proof(node_budget=20_000_000), run=Run(engine=s.engine))  # fmt: skip
        differs += decided.action != float(orders[i])
    return {"asked": float(len(chosen)), "differs": float(differs)}


MOST_ORDERS = 60  # of any system: one grid, so that a lead time needs one kernel
ASKED_PERIODS = 2  # past the lead time: the plain engine walks every transition


def _stored(name: str, system: System, lead: int) -> Cost | None:
    """The stored policy of a Zipkin instance, evaluated on the model's own chain; None where there is none."""
    from importlib import resources
    from pathlib import Path

    from ucsearch.lab.suites.kinds.lost_sales.chain import Tabulated, chain_space
    from ucsearch.replay.classics.instances import load_instance
    from ucsearch.replay.classics.lost_sales import average_cost

    path = Path(str(resources.files("ucsearch.lab.suites"))) / name
    if not path.is_file():
        return None
    key = f"zipkin-{system.demand}-p{system.penalty:g}-L{lead}"
    with np.load(path, allow_pickle=False) as file:
        if key not in file.files:
            return None
        table = np.ascontiguousarray(file[key], dtype=np.int64)
    model = load_instance(key).model()
    found = average_cost(model, Tabulated(chain_space(model), table))
    return Cost(found.lower, found.upper)


# -------------------------------------------------------------------- tables and checks


def _tables() -> list[dict[str, Any]]:
    each = partial(table, order=ORDER, split=SPLIT)
    gaps = [column("Gap, mean", "gap"), column("Gap, largest", "gap", "max"),
            column("Gap %, mean", "gap_percent"), column("Gap %, largest", "gap_percent", "max")]  # fmt: skip
    return [
        each("policies", "Cost beyond the optimum, all systems", ["policy"],
             [column("Systems", "cost", "count"), *gaps]),
        each("families", "Gap to the optimum by system", ["family", "policy"], [column("Cost", "cost"), *gaps[2:]]),
        each("instances", "Every system", ["family", "series", "policy"],
             [column("Cost", "cost"), column("Gap %", "gap_percent")]),
        each("product", "States in which the product was asked", ["policy"],
             [column("Asked", "asked", "sum"), column("Other order", "differs", "sum")], only=[CLOSED]),
        each("theory", "Optimum beside Zheng and Federgruen's", ["policy"],
             [column("Off, largest", "off_theory", "max")], only=["optimum"]),
    ]  # fmt: skip


def _checks(s: KnownOptimumSettings) -> list[dict[str, Any]]:
    out = [
        cell_check("gap_mean", "policies", [CLOSED], "Gap, mean", "<=", s.closed_mean),
        cell_check("gap_max", "policies", [CLOSED], "Gap, largest", "<=", s.closed_max),
        cell_check("gap_mean of sampled members", "policies", [SAMPLED], "Gap, mean", "<=", s.sampled_mean),
        cell_check("orders of the product that differ", "product", [CLOSED], "Other order", "==", 0),
    ]
    if any(system.unmet == "backordered" for system in s.systems):
        out.append(cell_check("optimum beside the theory's", "theory", ["optimum"], "Off, largest", "<=", 1e-6))
    return out
