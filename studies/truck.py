"""Two trucks of design items beside every rule of planners, and what changes with room, packs, margins, lead time.

    UCSEARCH_DATA=FOLDER python -m studies.truck                 # two trucks of 100 design items of CA_1, 28 days
    UCSEARCH_DATA=FOLDER python -m studies.truck --what room     # or packs, shortages, lead, forecaster

Rules are tuned on the other truck. Design items are in no split of the suite `truck200`; this describes, and gates
nothing.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from ucsearch.lab.suites.job import SuiteJob
from ucsearch.lab.suites.kinds.truck import UC, Shop, TruckSettings, TruckStore
from ucsearch.lab.suites.suite import load_suite
from ucsearch.policies import Exact, Proof, Run
from ucsearch.replay.truck import TruckValues, truck_rules
from ucsearch.replay.tune import tune
from ucsearch.replay.walk import walk

__all__ = ["CASES", "costs_of", "main"]

GREEDY = "uc, filled greedily"

BASE: dict[str, Any] = {
    "families": {"CA": ("m5-CA_1",)},
    "trucks": 1,
    "per_truck": 100,
    "days": 28,
    "skip": 0,
    "fresh": (),
}
CASES: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "base": [("as declared", {})],
    "room": [(f"room {x:g}", {"room": x}) for x in (0.85, 1.0, 1.1)],
    "packs": [(f"packs of {x:g} days", {"items": {"pack_days": x}}) for x in (0.25, 1.5)],
    "shortages": [("a unit short costs 9 days of holding", {"shortages": (9.0,)})],
    "lead": [("lead time 2", {"task": {"lead_time": 2}})],
    "forecaster": [("plain ridge", {"forecaster": "ridge"})],
}


def settings_of(changes: dict[str, Any]) -> TruckSettings:
    """The suite's settings on design items, with changes."""
    made = load_suite("truck200").settings.model_dump() | BASE
    for name, value in changes.items():
        made[name] = made[name] | value if isinstance(value, dict) else value
    return TruckSettings.model_validate(made)


def stores_of(shop: Shop) -> list[TruckStore]:
    """Two trucks of design items, each a store of its own, over the days before the suite's test."""
    items = shop.design("m5-CA_1", 2 * shop.s.per_truck)
    return [shop.store("m5-CA_1", f"design {k}", items[k::2], "validation") for k in (0, 1)]


def costs_of(changes: dict[str, Any], data: Path) -> Iterator[tuple[str, float, float]]:
    """By rule its cost and ours, of both trucks together."""
    settings = settings_of(changes)
    suite = load_suite("truck200")
    object.__setattr__(suite, "settings", settings)
    with tempfile.TemporaryDirectory() as folder:
        shop = Shop(suite, SuiteJob(Path(folder), {"study": "truck"}, data_dir=data, threads=1))
        stores = stores_of(shop)
        law = shop.world.law({"mode": "closed"})
        policy, proof = (
            Exact(depth=settings.depth, mode="closed", node_budget=settings.nodes),
            Proof(node_budget=settings.nodes),
        )
        totals: dict[str, float] = {}
        for own, other in zip(stores, stores[::-1], strict=True):
            fills: dict[str, Literal["price", "greedy"]] = {UC: "price", GREEDY: "greedy"}
            how = Run(threads=1, engine="compiled")
            walks = {
                name: walk(own.panel, TruckValues(own.panel, own.trucks, policy, law, fill=fill, proof=proof, how=how))
                for name, fill in fills.items()
            }
            tuned = {entry.name: tune(entry, other.panel).knobs for entry in truck_rules(other.panel, other.trucks)}
            for entry in truck_rules(own.panel, own.trucks):
                walks[entry.name] = walk(own.panel, entry.make(**tuned[entry.name]))
            for name, done in walks.items():
                totals[name] = totals.get(name, 0.0) - float(done.totals.sum())
    for name, cost in totals.items():
        yield name, cost, totals[UC]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", choices=[*CASES, "all"], default="base")
    options = parser.parse_args()
    data = Path(os.environ["UCSEARCH_DATA"])
    for name in CASES if options.what == "all" else [options.what]:
        for label, changes in CASES[name]:
            for rule, cost, own in costs_of(changes, data):
                print(f"{label:36s} {rule:32s} {cost:12,.0f} {100.0 * (1.0 - own / cost):+6.1f} % saved", flush=True)


if __name__ == "__main__":
    main()
