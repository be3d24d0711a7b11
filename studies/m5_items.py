"""Which M5 items a study may read: those that somebody has looked at, for development, and those that nobody has."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from studies import forecast_choice, newcomer, retail, slow_items
from ucsearch.lab.data.m5 import M5_FIRST_DAY, load_m5
from ucsearch.lab.data.records import Series
from ucsearch.planner.files.sales import History, Sales

__all__ = ["drawn", "looked_at", "sales_of"]

LEDGER = Path(__file__).parent.parent / "evidence" / "looks.jsonl"
STORES = ("CA_3", "TX_1", "TX_2", "WI_1")  # trucks were designed on items of CA_1
LEAST = 0.3  # units a day, below which an item has hardly any orders to count
LONGEST = 400  # days, at least
OPENED = ((180, 3726), (180, 3737))  # draws of items that nobody had looked at before, oldest first


def looked_at() -> frozenset[str]:
    """Items that a suite has opened or that another study draws."""
    seen: set[str] = set()
    for line in LEDGER.read_text().splitlines():
        seen |= set(json.loads(line)["opened"].get("m5", {}))
    for store in STORES:
        for count in (60, 80):
            seen |= {name for name, _ in retail.items(store, count, 7)}
        seen |= {name for name, _ in newcomer.fresh(store, 30)}
    for seed in (11, 101):
        seen |= {name.partition("-")[2] for name, _ in slow_items.from_stores(seed, 12)}
    return frozenset(seen | forecast_choice.m5_names(6007, 24))


def drawn(count: int, seed: int, *, fresh: bool) -> list[Series]:
    """So many items that sell enough: of those that nobody has looked at, or of the others. A draw that was opened
    stays what it is; later ones leave its items out."""
    seen = looked_at()
    every = [s for s in load_m5(stores=STORES, leading="trim").series if len(s.y) > LONGEST and s.y.mean() >= LEAST]
    unseen = [s for s in every if s.id not in seen]
    for opened in OPENED:
        if fresh and opened == (count, seed):
            break
        gone = {s.id for s in _some(unseen, *opened)}
        unseen = [s for s in unseen if s.id not in gone]
    names = {s.id for s in unseen}
    return _some([s for s in every if (s.id in names) == fresh], count, seed)


def _some(items: list[Series], count: int, seed: int) -> list[Series]:
    places = np.random.default_rng(seed).permutation(len(items))[:count]
    return [items[i] for i in sorted(places.tolist())]


def sales_of(items: list[Series]) -> Sales:
    """Their histories as a job reads them."""
    last = M5_FIRST_DAY.astype("datetime64[s]") + np.timedelta64(446, "D")
    return Sales(
        tuple(History(s.id, s.y, last - np.timedelta64(len(s.y) - 1, "D"), last) for s in items), (), "day", file="m5"
    )
