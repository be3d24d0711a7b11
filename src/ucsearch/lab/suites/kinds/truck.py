"""One truck a day for many items, in many stores: is sharing it by proved values cheaper than the best rule?

Every policy sees the same forecasts and keeps the same limits. Rules are tuned on other items than those compared; the
56 days before the test, on the same trucks, tell which rules are strongest and how far stores differ. The unit is the
store, families are regions. Money is in days of an item's mean demand held.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from time import process_time
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ucsearch.errors import InputError
from ucsearch.lab.comparators import key_from
from ucsearch.lab.suites.evidence.rows import Row
from ucsearch.lab.suites.gates.primary import Endpoint, PrimaryQuestion
from ucsearch.lab.suites.job import SuiteJob
from ucsearch.lab.suites.kinds.kind import Opened, Rows, Selection, SuiteKind
from ucsearch.lab.suites.kinds.rules import cost_tables, question_problems, tune_rules
from ucsearch.lab.suites.kinds.series import SALT, Stretch, by_hash, is_design
from ucsearch.lab.suites.kinds.settings import SettingsTable, TaskTable
from ucsearch.lab.suites.kinds.walkforward.settings import Items, WalkForwardSettings
from ucsearch.lab.suites.kinds.walkforward.world import DAYS, World
from ucsearch.lab.suites.protocol.comparison import Protocol
from ucsearch.lab.suites.protocol.expected_rows import RowPlan, both_splits
from ucsearch.lab.suites.recheck.differences import Discrepancy
from ucsearch.lab.suites.suite import Suite
from ucsearch.policies import Exact, Proof, Run
from ucsearch.replay.panel import Panel
from ucsearch.replay.practice import Nothing
from ucsearch.replay.truck import Trucks, TruckValues, truck_rules
from ucsearch.replay.walk import Walk, walk

__all__ = ["Shop", "TruckSettings"]

Floats = NDArray[np.float64]
UC = "uc"
LITRES = (1.0, 2.0, 3.0, 5.0)  # volume of a unit, by a hash of the item's id
RULES = (
    "(s,S) by item, filled by loss", "(s,S), filled by loss", "newsvendor by the pack", "base-stock, fair share",
    "base-stock, in proportion",
)  # fmt: skip


class TruckSettings(SettingsTable):
    """Stores, items, what they cost, and how much room their trucks have."""

    families: dict[str, tuple[str, ...]] = Field(description="by region its stores, as data families")
    unit: Literal["store", "truck"] = Field("store", description="the cluster: what shares demand or a limit")
    tuned_on: tuple[str, int] = Field(description="store whose design items tune the rules, and how many")
    fresh: tuple[str, ...] = Field((), description="stores that nothing else reads: all their items may be taken")
    skip: int = Field(0, ge=0, description="items of the other stores that come first by hash: looks took those")
    opened: tuple[str, ...] = Field((), description="further ids that looks or scripts have opened; they are left out")
    task: TaskTable
    items: Items
    shortages: tuple[float, ...] = Field((9.0,), min_length=1, description="times holding, by a hash of the item's id")
    trucks: int = Field(2, ge=1, description="of each store")
    per_truck: int = Field(200, ge=2, description="items")
    room: float = Field(0.95, gt=0.0, description="volume a day, by the mean demand of a day")
    days: int = Field(56, ge=1, description="of validation, and of test")
    fit: int = Field(200, ge=60, description="days before both")
    busy: float = Field(0.5, gt=0.0, description="units a day before the first window, at least")
    paths: int = Field(100, ge=2)
    forecaster: Literal["ridge", "unbiased"] = "unbiased"
    depth: int = Field(7, ge=1)
    nodes: int = Field(2_000_000, ge=1)
    endpoint: Endpoint = "superior"
    delta: float = Field(0.0095, gt=0.0, description="scale-free delta that the suite is sized for")
    engine: Literal["python", "compiled"] = "compiled"

    @model_validator(mode="after")
    def _known(self) -> TruckSettings:
        stores = [store for names in self.families.values() for store in names]
        if not stores or len(set(stores)) != len(stores):
            raise ValueError("every store once in families, and at least one")
        return self

    @property
    def stores(self) -> list[tuple[str, str]]:
        """(region, store) in order."""
        return [(region, store) for region, names in self.families.items() for store in names]

    def world(self) -> World:
        return World(WalkForwardSettings(
            families=(self.stores[0][1],), task=self.task, items=self.items, paths=self.paths, floor=0.0,
            forecaster=self.forecaster, engine=self.engine,
        ))  # fmt: skip

    def plan(self) -> RowPlan:
        """The rows that evidence must hold."""
        trucks = {
            region: tuple(sorted(f"{store} truck {g}" for store in stores for g in range(self.trucks)))
            for region, stores in self.families.items()
        }
        return both_splits(trucks, self.days, (UC, "nothing", *RULES))

    @property
    def candidate(self) -> dict[str, Any]:
        """The policy that is judged, declared."""
        return {"id": UC, "risk": 0.0, "depth": self.depth, "room": self.room}

    @property
    def replaceable(self) -> tuple[str, ...]:
        """Families that may come from other files."""
        return tuple(store for _, store in self.stores)

    def problems(self, rows: Sequence[Row], selection: Selection) -> Iterator[Discrepancy]:
        """What is wrong about the question of a selection record."""
        return question_problems(self.candidate, frozenset(RULES), self.endpoint, self.delta, selection)


@dataclasses.dataclass(frozen=True, eq=False)
class TruckStore:
    """Items of one store on their trucks, over the days of one split."""

    region: str
    name: str
    panel: Panel
    trucks: Trucks


class Shop(SuiteKind):
    """Data of all stores, cut into the days of each split."""

    s: TruckSettings

    def __init__(self, suite: Suite, job: SuiteJob) -> None:
        super().__init__(suite, job)
        self.world = self.s.world()
        self.horizon: int = max(self.s.depth, self.world.binding.delay + 1) + 1
        self.series: dict[str, list[Any]] = {}
        for region, store in self.s.stores:
            family = self.family(store)
            self.datasets[region] = family.dataset
            self.series[store] = self._chosen(store, family.series)
        self.settings: dict[str, Any] = {}

    # ---------------------------------------------------------------- the protocol's parts

    def protocol(self) -> Protocol:
        return self.compared("cost", "cost", "utility", {"validation": 1, "test": 1})

    def validation(self, settled: Selection | None = None) -> Rows:
        self.settings = self.job.shard("rules", self._tuned)
        rows: Rows = self.job.shard("validation", lambda: self.rows("validation"))
        return rows

    def choice(self, rows: Rows) -> dict[str, Any]:
        return self.s.candidate

    def question(self) -> PrimaryQuestion:
        return PrimaryQuestion(self.settings, self.s.endpoint, self.s.delta)

    def test(self, selection: Selection) -> Rows:
        rows: Rows = self.job.shard("test", lambda: self.rows("test"))
        return rows

    def tables(self, rows: Rows) -> list[dict[str, Any]]:
        order = [UC, "nothing", *self.settings]
        return cost_tables(order, "a truck's items, mean over trucks", "a truck's items by region",
                           [("Fill rate", "fill_rate")])  # fmt: skip

    # ---------------------------------------------------------------- data

    @property
    def after(self) -> int:
        """Days from the first of validation to the end of the series."""
        days: int = self.s.days
        return 2 * days + self.horizon

    def _chosen(self, store: str, series: Sequence[Any]) -> list[Any]:
        """The first items by hash, after those that design, looks or scripts have used."""
        closed, skip = set(self.s.opened), self.s.skip
        if store in self.s.fresh:
            by_id = {item.id: item for item in series}
            skip = 0
        else:
            by_id = {item.id: item for item in series if not is_design(item.id) and self._busy(item.y)}
        count = self.s.trucks * self.s.per_truck
        ids = [item for item in by_hash(list(by_id), SALT)[skip:] if item not in closed][:count]
        if len(ids) < count:
            raise InputError("truck.per_truck", f"{len(ids)} unopened items in {store}", f"at least {count}")
        return [by_id[item] for item in ids]

    def _busy(self, y: Floats) -> bool:
        """Sold enough before the first window; what comes later is not looked at."""
        before = y[: len(y) - self.after]
        return len(before) >= self.s.fit and float(before[-DAYS:].mean()) >= self.s.busy

    def opened(self) -> Opened:
        """By region and item the periods of the test."""
        periods: Opened = {region: {} for region in self.s.families}
        for region, store in self.s.stores:
            for item in self.series[store]:
                periods[region][item.id] = [len(item.y) - self.s.days - self.horizon, len(item.y)]
        return periods

    def store(self, region: str, name: str, series: Sequence[Any], split: str) -> TruckStore:
        """The items of a store with forecasts for the days of a split; validation sees nothing of the test."""
        if split == "test":
            self.job.require_open()
        stretches = []
        for item in series:
            end = len(item.y) if split == "test" else len(item.y) - self.s.days - self.horizon
            y = item.y[:end]
            ahead = self.horizon if split == "test" else 0
            stretches.append(Stretch(region, item.id, 0, end - ahead - self.s.days, self.s.days, 7, y, 1.0))
        key = key_from(
            np.random.default_rng([self.suite.seed, int.from_bytes(hashlib.sha256(name.encode()).digest()[:4])])
        )
        panel = self._with_costs(self.world.panel(stretches, self.horizon, key))
        return TruckStore(region, name, panel, self._trucks(panel))

    def _with_costs(self, panel: Panel) -> Panel:
        """Every item's own shortage cost."""
        layout, inner = panel.task.params_layout, panel.grid
        if layout is None or inner is None:
            raise TypeError("items need params of their own")
        times = np.array([self.s.shortages[_byte("shortage", item) % len(self.s.shortages)] for item in panel.series])

        def grid(trace: Any) -> tuple[Floats | None, Floats | None]:
            sizes, rows = inner(trace)
            columns = layout.columns(np.asarray(rows))
            return sizes, layout.rows(columns._replace(shortage=columns.holding * times), "params")

        return dataclasses.replace(panel, grid=grid)

    def _trucks(self, panel: Panel) -> Trucks:
        litres = np.array([LITRES[_byte("litres", item) % len(LITRES)] for item in panel.series])
        usual = np.array([max(float(h[-DAYS:].mean()), 0.1) for h in panel.history])
        group = np.arange(len(panel), dtype=np.int64) // self.s.per_truck
        return Trucks(group, litres, self.s.room * np.bincount(group, litres * usual).astype(np.float64))

    # ---------------------------------------------------------------- policies

    def design(self, store: str, count: int) -> list[Any]:
        """The first busy items of a store that are set aside for design."""
        by_id = {item.id: item for item in self.family(store).series if is_design(item.id) and self._busy(item.y)}
        return [by_id[item] for item in by_hash(list(by_id), SALT)[:count]]

    def _tuned(self) -> dict[str, Any]:
        name, count = self.s.tuned_on
        series = self.design(name, count)
        store = self.store(name, f"tuning {name}", series, "validation")
        rules = truck_rules(store.panel, store.trucks)
        return tune_rules(rules, store.panel, self.s.engine, partial(self.job.progress, "rules"))

    def rows(self, split: str) -> Rows:
        """One row for every truck."""
        out: list[dict[str, Any]] = []
        for region, name in self.each(split, self.s.stores):
            store = self.store(region, name, self.series[name], split)
            out.extend(self._rows(split, store))
        return out

    def _rows(self, split: str, store: TruckStore) -> Iterator[dict[str, Any]]:
        panel, trucks, s = store.panel, store.trucks, self.s
        begun = process_time()
        law = self.world.law({"mode": "closed"})
        if law is None:
            raise TypeError("closed mode needs a law")
        judged = TruckValues(
            panel, trucks, Exact(depth=s.depth, mode="closed", node_budget=s.nodes), law,
            proof=Proof(node_budget=s.nodes), how=Run(threads=1, engine=s.engine),
        )  # fmt: skip
        walks = {UC: walk(panel, judged, engine=s.engine)}
        self.job.timing(f"{split} {UC}", process_time() - begun, len(panel) * s.days)
        walks["nothing"] = walk(panel, Nothing(), engine=s.engine)
        for entry in truck_rules(panel, trucks):
            walks[entry.name] = walk(panel, entry.make(**self.settings[entry.name]["settings"]), engine=s.engine)
        for g, which in enumerate(trucks.items):
            proved = {"asked": float(len(which) * s.days), "proved": float(judged.released[which].sum())}
            yield {
                "split": split, "family": store.region, "series": f"{store.name} truck {g}", "window": 0,
                "start": panel.stretches[0].start, "decisions": s.days,
                "cluster": store.name if s.unit == "store" else f"{store.name} truck {g}",
                "items": " ".join(panel.stretches[i].series for i in which),
                "policies": {
                    name: self._figures(done, trucks, g) | (proved if name == UC else {})
                    for name, done in walks.items()
                },
                "certificate": None,
            }  # fmt: skip

    def _figures(self, done: Walk, trucks: Trucks, g: int) -> dict[str, float]:
        which = trucks.items[g]
        cost = float(-done.totals[which].sum())
        volume = np.nansum(done.actions[which] * trucks.litres[which][:, None], axis=0)
        over = sum(float(volume[t]) > float(trucks.limit(t)[g]) * (1.0 + 1e-9) for t in range(done.actions.shape[1]))
        return {
            "cost": cost, "utility": -cost, "violations": float(done.violations[which].sum()) + over,
            "fill_rate": float(done.figures["fill_rate"][which].mean()),
        }  # fmt: skip


def _byte(what: str, item: str) -> int:
    """A number from 0 to 255 that the item's id draws."""
    return hashlib.sha256(f"{what}/{item}".encode()).digest()[0]
