"""Lost sales with a lead time: the planner's long-run cost against the optimum and the classics, without noise.

Every policy, the planner included, is a map from states to orders, and its average cost is computed on its Markov chain
between bounds 1e-9 apart (`ucsearch.replay.classics`). Nothing is trained and nothing is chosen: the settings are fixed
in the benchmark card.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ucsearch.errors import DataError, InputError
from ucsearch.lab.data.records import ResolvedFile
from ucsearch.lab.suites.evidence.tables import cell_check, column, table
from ucsearch.lab.suites.job import SuiteJob
from ucsearch.lab.suites.kinds.kind import Opened, Rows, Selection, SuiteKind
from ucsearch.lab.suites.kinds.lost_sales.chain import Tabulated, chain_space, exact_orders, most_orders, pairs_of
from ucsearch.lab.suites.kinds.lost_sales.members import Planner, demand_paths, plan_often_visited
from ucsearch.lab.suites.kinds.settings import SettingsTable
from ucsearch.lab.suites.protocol.comparison import Protocol
from ucsearch.lab.suites.protocol.expected_rows import RowPlan
from ucsearch.lab.suites.suite import Suite
from ucsearch.replay.classics.instances import Instance, load_instance
from ucsearch.replay.classics.lost_sales import AverageCost, LostSales, average_cost, solve
from ucsearch.replay.classics.optimise import optimise_base_stock, optimise_capped_base_stock, optimise_constant_order
from ucsearch.replay.classics.policies import CappedBaseStock, MyopicOne, MyopicTwo

__all__ = ["LostSalesSettings", "SavedPolicy", "ZipkinLostSales"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

UC, EXACT, OPEN = "uc", "uc-exact", "uc-open-loop"
CLASSICS = ("base-stock", "capped base-stock", "myopic-1", "myopic-2", "constant order")
ORDER = ("optimum", EXACT, UC, OPEN, *CLASSICS, "ppo")
Other = Literal["base-stock", "capped base-stock", "myopic-1", "myopic-2", "constant order", "ppo"]
DATASET = "zipkin-2008"


class SavedPolicy(SettingsTable):
    """A policy trained elsewhere: a file of order tables, accepted only if its hash is this one."""

    path: str = Field(min_length=1, description="below the evaluation package, or below the data folder")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="of the file")


class LostSalesSettings(SettingsTable):
    """The instances and how the planner looks ahead."""

    instances: tuple[str, ...] = Field(min_length=1, description="names such as zipkin-poisson-p4-L2")
    level_offsets: tuple[int, ...] = Field(
        (-4, -3, -2, -1), min_length=1, description="continuation levels, from the fractile of L + 1 periods' demand"
    )
    cap_offsets: tuple[int, ...] = Field(
        (0, 1, 2, 3, 4), min_length=1, description="continuation caps, from mean demand rounded up"
    )
    exact_periods: int = Field(12, ge=1, description="horizon past the lead time with exact weights")
    sampled_periods: int = Field(8, ge=1, description="horizon past the lead time with members")
    members: int = Field(256, ge=1, description="demand paths of a decision")
    sets: int = Field(32, ge=1, description="different sets of members; neighbouring states use different ones")
    unplanned: float = Field(1e-4, gt=0.0, lt=1.0, description="share of periods that may go without planning")
    open_loop_decisions: int = Field(2, ge=1, description="orders of an open-loop plan")
    open_loop_width: int = Field(16, ge=1, description="of the beam that searches open-loop plans")
    engine: Literal["auto", "python", "compiled"] = Field("compiled", description="of the searches; results are equal")
    exact_mean: float = Field(0.002, gt=0.0, description="wanted of exact weights: mean gap, as a share of the optimum")
    exact_max: float = Field(0.007, gt=0.0, description="the same, largest gap")
    sampled_mean: float = Field(0.005, gt=0.0, description="wanted of members: mean gap")
    sampled_max: float = Field(0.01, gt=0.0, description="the same, largest gap")
    ahead_of: tuple[Other, ...] = Field(
        ("base-stock", "capped base-stock", "myopic-1", "myopic-2", "constant order", "ppo"),
        description="who must be behind the planner on average",
    )
    ppo: SavedPolicy | None = Field(None, description="trained once and stored; without it the row is left out")

    def plan(self) -> RowPlan:
        """The rows that evidence must hold."""
        families: dict[str, tuple[str, ...]] = {}
        for name in self.instances:
            _, demand, penalty, lead = name.split("-")
            families[f"{demand}-{penalty}"] = (*families.get(f"{demand}-{penalty}", ()), lead)
        policies = ("base-stock", "capped base-stock", "constant order", "myopic-1", "myopic-2", "optimum", "uc",
                    "uc-exact", "uc-open-loop")  # fmt: skip
        return RowPlan(
            series={"test": families}, windows={"test": 1}, decisions={"test": None},
            policies={"test": frozenset(policies)}, exactly=False,
        )  # fmt: skip


class _Result(NamedTuple):
    """One policy on one instance."""

    cost: AverageCost
    seconds: float
    more: dict[str, float]


class ZipkinLostSales(SuiteKind):
    """Writes the fixed settings down, then evaluates every policy on every instance."""

    describes = True
    s: LostSalesSettings

    def __init__(self, suite: Suite, job: SuiteJob) -> None:
        super().__init__(suite, job)
        self.instances = [load_instance(name) for name in self.s.instances]
        if len(set(self.s.instances)) != len(self.instances):
            raise InputError("lost_sales.instances", list(self.s.instances), "each instance once")
        self.saved, self.files = _saved_tables(self.s.ppo, job.data_dir)
        if self.saved is not None:
            for instance in self.instances:
                _check_table(self.saved, instance)
        self.datasets = {family_of(i): DATASET for i in self.instances}

    def only(self, series: Collection[tuple[str, str]]) -> bool:
        self.instances = [i for i in self.instances if (family_of(i), series_of(i)) in series]
        return True

    def protocol(self) -> Protocol:
        return self.compared("cost", "cost", "saving", {"test": 1})

    def choice(self, rows: Rows) -> dict[str, Any]:
        """Nothing is chosen; the record says what was fixed before any instance was looked at."""
        fixed = ("level_offsets", "cap_offsets", "exact_periods", "sampled_periods", "members", "sets", "unplanned",
                 "open_loop_decisions", "open_loop_width")  # fmt: skip
        own = {k: v for k, v in self.s.model_dump(mode="json").items() if k in fixed}
        return {"id": "fixed", "risk": 0.0, **own}

    def opened(self) -> Opened:
        return {family: {one: [0, 1] for one in names} for family, names in _series_of(self.instances).items()}

    def test(self, selection: Selection) -> Rows:
        rows = []
        for instance in self.each("instances", self.instances):
            make = partial(_row, self.suite, self.job, instance, self.saved)
            found = self.job.shard(instance.name, make)
            rows.append(found["row"])
            for name, (seconds, decisions) in found["seconds"].items():
                self.job.timing(name, seconds, decisions)
        return rows

    def tables(self, rows: Rows) -> list[dict[str, Any]]:
        return _tables()

    def checks(self, rows: Rows) -> list[dict[str, Any]]:
        return _checks(self.s, self.saved is not None)

    def extra(self) -> dict[str, Any]:
        return {"left_out": [] if self.saved is not None else [_why_no_ppo(self.s)]}


def _series_of(instances: Sequence[Instance]) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {}
    for instance in instances:
        out.setdefault(family_of(instance), []).append(series_of(instance))
    return out


def family_of(instance: Instance) -> str:
    return f"{instance.family}-p{instance.penalty_cost}"


def series_of(instance: Instance) -> str:
    return f"L{instance.lead_time}"


# -------------------------------------------------------------------- one instance


def _row(suite: Suite, job: SuiteJob, instance: Instance, saved: Mapping[str, Ints] | None) -> dict[str, Any]:
    s: LostSalesSettings = suite.settings
    job.require_open()
    model = instance.model()
    begun = perf_counter()
    best = solve(model)
    results = {"optimum": _Result(best.cost, perf_counter() - begun, {"states": float(best.cost.states)})}
    results |= _classics(model)
    capped = results["capped base-stock"].more
    results[EXACT] = _timed(partial(_with_exact_weights, s, model))
    space = chain_space(model)
    # Where the planner is not asked, the tuned classic orders, within the bound that the planner keeps.
    rest = CappedBaseStock(int(capped["level"]), int(capped["cap"])).orders(space.states)
    default = Tabulated(space, np.minimum(rest, most_orders(model, space.states)))
    for name, planner in planners(suite, instance, job.threads).items():
        results[name] = _timed(partial(_with_members, planner, default, s.unplanned))
    if saved is not None:
        results["ppo"] = _timed(partial(_with_table, model, saved[instance.name]))
    policies = {name: _figures(one, best.cost.value) for name, one in results.items()}
    for figures in policies.values():
        for short, name in (("uc", UC), ("uc_exact", EXACT)):
            figures[f"behind_{short}"] = (figures["cost"] - policies[name]["cost"]) / best.cost.value
    row = {"split": "test", "family": family_of(instance), "series": series_of(instance), "window": 0, "start": 0,
           "decisions": None, "policies": policies, "certificate": None}  # fmt: skip
    seconds = {name: (one.seconds, one.more.get("states", 0.0)) for name, one in results.items()}
    return {"row": row, "seconds": seconds}


def planners(suite: Suite, instance: Instance, threads: int | None) -> dict[str, Planner]:
    """The planners on members of an instance. Instances of one lead time share a grid of orders, hence a kernel."""
    s: LostSalesSettings = suite.settings
    model = instance.model()
    same = [i for i in map(load_instance, s.instances) if i.lead_time == instance.lead_time]
    largest = max(i.model().morton_levels[-1] for i in (instance, *same))
    # The stream depends on demand and lead time alone: penalties are compared on the same paths.
    key = int.from_bytes(hashlib.sha256(f"{instance.family} {instance.lead_time}".encode()).digest()[:8], "big")
    periods = instance.lead_time + max(s.sampled_periods, s.open_loop_decisions)
    sets = np.stack([
        demand_paths(model.demand, model.lead_time, periods, s.members, np.random.default_rng([suite.seed, key, n]))
        for n in range(s.sets)
    ])  # fmt: skip
    members = sets[:, :, : instance.lead_time + s.sampled_periods]
    free = Planner.with_continuation(model, members, largest, s.level_offsets, s.cap_offsets, s.engine, threads)
    fixed = Planner.open_loop(model, sets, largest, s.open_loop_decisions, s.open_loop_width, s.engine, threads)
    return {UC: free, OPEN: fixed}


def _timed(make: Callable[[], tuple[AverageCost, dict[str, float]]]) -> _Result:
    begun = perf_counter()
    cost, more = make()
    return _Result(cost, perf_counter() - begun, more)


def _classics(model: LostSales) -> dict[str, _Result]:
    begun = perf_counter()
    plain = optimise_base_stock(model)
    base_stock = _Result(plain.cost, perf_counter() - begun, {"level": float(plain.policy.level)})

    def of_capped() -> tuple[AverageCost, dict[str, float]]:
        best = optimise_capped_base_stock(model, plain)
        return best.cost, {"level": float(best.policy.level), "cap": float(best.policy.cap)}

    def of_constant() -> tuple[AverageCost, dict[str, float]]:
        best = optimise_constant_order(model)
        return best.cost, {"quantity": float(best.policy.quantity)}

    return {
        "base-stock": base_stock,
        "capped base-stock": _timed(of_capped),
        "myopic-1": _timed(lambda: (average_cost(model, MyopicOne(model)), {})),
        "myopic-2": _timed(lambda: (average_cost(model, MyopicTwo(model)), {})),
        "constant order": _timed(of_constant),
    }


def _with_exact_weights(s: LostSalesSettings, model: LostSales) -> tuple[AverageCost, dict[str, float]]:
    pairs = pairs_of(model, s.level_offsets, s.cap_offsets)
    policy, _ = exact_orders(model, pairs, model.lead_time + s.exact_periods)
    return average_cost(model, policy), {"states": float(policy.table.size), "unplanned": 0.0}


def _with_members(planner: Planner, rest: Tabulated, unplanned: float) -> tuple[AverageCost, dict[str, float]]:
    found = plan_often_visited(planner, rest, unplanned)
    return average_cost(planner.model, found.policy), {"states": float(found.states), "unplanned": found.unplanned}


def _with_table(model: LostSales, orders: Ints) -> tuple[AverageCost, dict[str, float]]:
    return average_cost(model, Tabulated(chain_space(model), orders)), {"states": float(orders.size)}


def _figures(result: _Result, optimal: float) -> dict[str, float]:
    cost = result.cost.value
    gap = cost / optimal - 1.0
    # Both costs are midpoints of proved bounds, so an optimal policy may come out a rounding below the optimum.
    return {"cost": cost, "cost_lower": result.cost.lower, "cost_upper": result.cost.upper, "optimal": optimal,
            "gap": gap, "gap_percent": 100.0 * gap, "saving": -cost, **result.more}  # fmt: skip


# -------------------------------------------------------------------- the stored policy


def _saved_tables(
    saved: SavedPolicy | None, data_dir: Path | None
) -> tuple[dict[str, Ints] | None, list[ResolvedFile]]:
    """Order tables by instance name, each over the states of `chain_space`; None if the file is not there."""
    if saved is None:
        return None, []
    package = Path(str(resources.files("ucsearch.lab.suites")))
    places = [package / saved.path] + ([data_dir / saved.path] if data_dir is not None else [])
    path = next((p for p in places if p.is_file()), None)
    if path is None:
        return None, []
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != saved.sha256:
        raise DataError(f"{path.name} has the SHA-256 {digest}, but the suite wants {saved.sha256}")
    try:
        with np.load(path, allow_pickle=False) as file:
            tables = {name: np.asarray(file[name]) for name in file.files if name != "evidence"}
    except ValueError as error:
        raise DataError(f"{path.name} holds no arrays: {error}") from error
    where = ResolvedFile(path.name, path, digest, len(content), "verified", "data-dir", "npz", True)
    return {name: np.ascontiguousarray(table, dtype=np.int64) for name, table in tables.items()}, [where]


def _check_table(saved: Mapping[str, Ints], instance: Instance) -> None:
    """Before any work: an order for every state of the instance, none beyond Morton's bound."""
    model = instance.model()
    states, orders = chain_space(model).states, saved.get(instance.name)
    if orders is None or orders.shape != (len(states),):
        seen = "nothing" if orders is None else f"shape {orders.shape}"
        raise DataError(f"the stored policy has {seen} for {instance.name}, expected {len(states)} orders")
    bad = np.flatnonzero(~((orders >= 0) & (orders <= most_orders(model, states))))
    if bad.size:
        state = tuple(int(x) for x in states[bad[0]])
        raise DataError(
            f"the stored policy orders {int(orders[bad[0]])} in state {state} of {instance.name}, expected 0 to "
            f"{int(most_orders(model, states)[bad[0]])}"
        )


def _why_no_ppo(s: LostSalesSettings) -> str:
    if s.ppo is None:
        return "ppo: the suite names no stored policy"
    return f"ppo: {s.ppo.path} is neither in the package nor in the data folder"


# -------------------------------------------------------------------- tables and checks


def _tables() -> list[dict[str, Any]]:
    percent = [column("Gap %, mean", "gap_percent"), column("Gap %, largest", "gap_percent", "max")]
    summary = [column("Cost, mean", "cost"), column("Gap, mean", "gap"), column("Gap, largest", "gap", "max")]
    ahead = [column("Behind uc, mean", "behind_uc"), column("Behind uc, least", "behind_uc", "min"),
             column("Behind uc-exact, mean", "behind_uc_exact"),
             column("Behind uc-exact, least", "behind_uc_exact", "min")]  # fmt: skip
    planned = [column("States planned", "states", "sum"),
               column("Share of periods unplanned, largest", "unplanned", "max")]  # fmt: skip
    return [
        table("policies", "Long-run cost per period, all instances", ["policy"], [*summary, *percent], ORDER),
        table("ahead", "Cost beyond the planner's, as a share of the optimum", ["policy"], ahead, ORDER),
        table("families", "Gap to the optimum by family", ["policy", "family"], percent, ORDER),
        table("instances", "Every instance", ["family", "series", "policy"],
              [column("Cost", "cost"), column("Gap %", "gap_percent")], ORDER),
        table("planned", "What was planned", ["policy"], planned, ORDER, only=[EXACT, UC, OPEN]),
    ]  # fmt: skip


def _checks(s: LostSalesSettings, has_ppo: bool) -> list[dict[str, Any]]:
    """The targets. `gap_mean` and `gap_max`, which a claim may quote, are of the planner on members."""

    out = [
        cell_check("gap_mean_exact_weights", "policies", [EXACT], "Gap, mean", "<=", s.exact_mean),
        cell_check("gap_max_exact_weights", "policies", [EXACT], "Gap, largest", "<=", s.exact_max),
        cell_check("gap_mean", "policies", [UC], "Gap, mean", "<=", s.sampled_mean),
        cell_check("gap_max", "policies", [UC], "Gap, largest", "<=", s.sampled_max),
    ]
    for other in s.ahead_of:
        if other == "ppo" and not has_ppo:
            continue
        out.append(
            cell_check(f"{other} behind {EXACT} on average", "ahead", [other], "Behind uc-exact, mean", ">", 0.0)
        )
        out.append(cell_check(f"{other} behind {UC} on average", "ahead", [other], "Behind uc, mean", ">", 0.0))
    return out
