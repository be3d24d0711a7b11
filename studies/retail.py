"""What the default settings are worth on retail sales: M5 items, closed loop untuned beside tuned and untuned rules.

Stores are kept apart by purpose: CA_1 was used to choose the defaults and is not measured, rules are tuned on CA_3, and
TX_1, TX_2 and WI_1 are reported. Every policy sees the same forecast. Costs: holding 1 a unit and day, shortage 9, lead
time 2; with fixed cost: 8 days of demand an order, packs of 0.75 day. A delta is (their cost - ours) / (sum of both).

    UCSEARCH_DATA=... python -m studies.retail --items 80
    UCSEARCH_DATA=... python -m studies.retail --items 80 --case lots --forecaster ridge_paths
    UCSEARCH_DATA=... python -m studies.retail --items 60 --sales sales.csv  # for `ucsearch backtest`
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ucsearch import Exact, Trace, UCBeam
from ucsearch.forecast.auto import Auto
from ucsearch.forecast.ridge import RidgePaths, UnbiasedRidge
from ucsearch.forecast.streams import series_stream
from ucsearch.lab.data import load_m5
from ucsearch.policies import Proof
from ucsearch.replay.choosers import Certified, Searched
from ucsearch.replay.panel import Panel, Stretch
from ucsearch.replay.roster import Budget, Entry, ordering_rules, practitioners
from ucsearch.replay.walk import Chooser, Seen, walk
from ucsearch.student import student_quantile
from ucsearch.tasks import LeadTimeInventory

TUNED_ON, TESTED_ON = ("CA_3",), ("TX_1", "TX_2", "WI_1")
DAYS, HORIZON, DEPTH, LOTS, POINTS = 42, 14, 8, 8, 9
PATHS = 100  # as `ucsearch new inventory` writes them; 40 until 100 were found to be cheaper
SETTINGS_TRIED = 24  # per rule
CASES = {"lots": (8.0, 0.75), "plain": (0.0, 0.0)}  # fixed cost and pack, in days of demand
FORECASTERS = {
    "auto": Auto,
    "unbiased_ridge": UnbiasedRidge,
    "ridge_paths": RidgePaths,
}  # the first is the default


def items(store: str, count: int, seed: int) -> list[tuple[str, Any]]:
    """Items that sell half a unit a day or more before the days that are replayed, drawn by chance."""
    found = [(s.id, s.y) for s in load_m5(stores=(store,)).series if s.y[-DAYS - 60 - 28 : -DAYS - 28].mean() >= 0.5]
    chosen = np.sort(np.random.default_rng(seed).choice(len(found), min(count, len(found)), replace=False))
    return [found[i] for i in chosen]


def make_panel(
    stores: tuple[str, ...], count: int, *, fixed: float, pack: float, model: str, end: Any = "salvage"
) -> tuple[Panel, list[str]]:
    """The panel of so many items a store, and each item's store."""
    named = [(store, *item) for store in stores for item in items(store, count, 7)]
    forecaster = FORECASTERS[model](paths=PATHS, floor=0.0)
    made = panel_of([(name, y) for _, name, y in named], 7, forecaster, fixed=fixed, pack=pack, end=end)
    return made, [store for store, _, _ in named]


def panel_of(
    named: Sequence[tuple[str, Any]], season: int, forecaster: Any, *, fixed: float, pack: float, end: Any = "salvage"
) -> Panel:
    """Episodes of series of one length that end four weeks before the data do; `fixed` and `pack` in periods of demand.
    `end`: how plans value what is left (what is paid knows no such value)."""
    config = LeadTimeInventory(
        lead_time=2, order_sizes=tuple(float(i) for i in range(LOTS + 1)), fixed_cost=1.0, merge_arrivals=True,
        end_stock=end,
    )  # fmt: skip
    task, start = config.task(), len(named[0][1]) - 28 - DAYS
    layout, base = task.params_layout, config.params()
    assert layout is not None
    y = np.stack([series for _, series in named])
    mean = np.maximum(y[:, start - 60 : start].mean(axis=1), 0.1)
    packs = np.maximum(1.0, np.round(pack * mean)) if pack else np.zeros(len(y))
    marks = np.arange(start - 1, start - 1 + DAYS)
    members = np.stack([
        forecaster.forecast(v, marks, horizon=HORIZON, season=season, stream=series_stream(1, name)).expand().members
        for name, v in named
    ])  # fmt: skip
    params = base._replace(**{
        f: np.repeat([x], len(y), axis=0) for f, x in base._asdict().items()
    })  # fmt: skip
    params = params._replace(fixed_cost=fixed * mean, case_pack=packs)

    def grid(trace: Trace) -> tuple[Any, Any]:
        sizes = config.lots(trace, params, LOTS, 1.0, fitted=True).sizes
        filled = np.where(np.isnan(sizes), np.nanmax(sizes, axis=1)[:, None], sizes)
        looked = params._replace(grid=filled, **config.forecast_columns(trace, params))
        return sizes, layout.rows(looked, "params")

    begin = [config.state(float(np.ceil(4.0 * m)), [0.0, 0.0]) for m in mean]
    at = task.layout(begin[0])
    future = np.stack(
        [y[:, np.minimum(np.arange(start + t, start + t + HORIZON), y.shape[1] - 1)] for t in range(DAYS)], axis=1
    )
    return Panel(
        task, config, at, np.array([at.flatten(s, "state") for s in begin]),
        tuple(Stretch("m5", name, 0, start, DAYS, season, v, 1.0) for name, v in named),
        members, y[:, start : start + DAYS], future, tuple(v[:start] for v in y), forecaster.name, grid,
        layout.rows(params, "params"),
    )  # fmt: skip


def closed(panel: Panel) -> Chooser:
    """The product's default, gate and certificate included."""
    layout = panel.task.params_layout

    def law(seen: Seen) -> Trace:
        assert layout is not None
        assert seen.params is not None
        return seen.trace.on_lattice(
            panel.config.lots(seen.trace, layout.columns(seen.params), LOTS, 1.0, fitted=True).unit, POINTS
        )

    policy = Exact(depth=DEPTH, mode="closed", node_budget=5_000_000)
    return Certified(panel.task, policy, law=law, proof=Proof(node_budget=5_000_000))


def costs(panel: Panel, make: Callable[[], Chooser]) -> Any:
    done = walk(panel, make(), left_by=panel.params)
    assert not done.violations.any()
    return -done.totals


def delta(own: Any, other: Any, stores: list[str]) -> dict[str, Any]:
    """Mean and 95 % interval by item, by store, and every store's own mean."""
    d = (other - own) / (other + own)
    half = student_quantile(0.975, len(d) - 1) * d.std(ddof=1) / np.sqrt(len(d))
    means = np.array([d[np.array(stores) == s].mean() for s in dict.fromkeys(stores)])
    wide = (
        student_quantile(0.975, len(means) - 1) * means.std(ddof=1) / np.sqrt(len(means)) if len(means) > 1 else np.nan
    )
    by_store = {"low": means.mean() - wide, "high": means.mean() + wide, "means": [round(m, 4) for m in means.tolist()]}
    return {"mean": d.mean(), "low": d.mean() - half, "high": d.mean() + half, "by store": by_store}


def rules(panel: Panel) -> dict[str, Entry]:
    found = [*ordering_rules(panel, free=True, round_to=1.0), *practitioners(panel, Budget(depth=DEPTH))[:2]]
    return {
        e.name: e
        for e in found
        if e.name in ("base-stock", "(s,S)", "(s,nQ)", "newsvendor, free", "planning on a quantile")
    }


def tuned(entry: Entry, panel: Panel) -> tuple[dict[str, Any], int]:
    """The settings that cost least on the tuning stores, each item in shares of its own best."""
    wanted = list(entry.settings())
    spread = sorted({round(x) for x in np.linspace(0, len(wanted) - 1, min(SETTINGS_TRIED, len(wanted)))})
    tried = [(wanted[i], costs(panel, lambda k=wanted[i]: entry.make(**k))) for i in spread]
    best = np.min([c for _, c in tried], axis=0)
    return min(tried, key=lambda t: float((t[1] / best).mean()))[0], len(tried)


def tuned_knobs(count: int, *, fixed: float, pack: float, model: str) -> dict[str, Any]:
    """By rule: its best settings on the tuning store, and how many were tried."""
    train, _ = make_panel(TUNED_ON, count, fixed=fixed, pack=pack, model=model)
    return {name: tuned(entry, train) for name, entry in rules(train).items()}


def store_costs(store: str, knobs: dict[str, Any], count: int, *, fixed: float, pack: float, model: str) -> Any:
    """Costs by item of everybody in one store, and how ours went."""
    panel, _ = make_panel((store,), count, fixed=fixed, pack=pack, model=model, end="cycle")
    own = walk(panel, closed(panel), left_by=panel.params)
    panel, _ = make_panel((store,), count, fixed=fixed, pack=pack, model=model)
    found: dict[str, Any] = {"ours": (-own.totals).tolist()}
    beam = UCBeam(depth=7, width=24, mode="members")
    found["members mode, beam of 24"] = costs(panel, lambda: Searched(panel.task, beam)).tolist()
    for name, entry in rules(panel).items():
        chosen, tries = knobs[name]
        found[name] = costs(panel, entry.make).tolist()
        named = f"{name}, best of {tries} tuned {chosen}"
        found[named] = costs(panel, lambda e=entry, k=chosen: e.make(**k)).tolist()
    how = {"released": own.certificate["released"].mean(), "violations": own.violations.sum(),
           "fill": np.mean(own.figures["fill_rate"])}  # fmt: skip
    return {"costs": found, "how": {k: float(v) for k, v in how.items()}}


def kept(folder: Path | None, name: str, work: Callable[[], Any]) -> Any:
    """What `work` gives; with a folder, kept there, so that a run can be made in pieces."""
    path = None if folder is None else folder / f"{name}.json"
    if path is not None and path.exists():
        return json.loads(path.read_text())
    made = work()
    if path is not None:
        path.write_text(json.dumps(made))
    return made


def run(case: str, count: int, model: str, folder: Path | None) -> dict[str, Any]:
    fixed, pack = CASES[case]
    how: dict[str, Any] = {"fixed": fixed, "pack": pack, "model": model}
    prefix = f"{case}-{model}-{count}"
    knobs = kept(folder, f"{prefix}-knobs", lambda: tuned_knobs(count, **how))
    parts = [kept(folder, f"{prefix}-{s}", lambda s=s: store_costs(s, knobs, count, **how)) for s in TESTED_ON]
    joined = {name: np.concatenate([part["costs"][name] for part in parts]) for name in parts[0]["costs"]}
    stores = [s for s, part in zip(TESTED_ON, parts, strict=True) for _ in part["costs"]["ours"]]
    out: dict[str, Any] = {
        "items": len(stores),
        "by store": {s: p["how"] for s, p in zip(TESTED_ON, parts, strict=True)},
    }
    own = joined.pop("ours")
    return out | {name: delta(own, other, stores) for name, other in joined.items()}


def write_sales(path: Path, count: int) -> None:
    """The history of the items that are reported, as a planner's file."""
    named = [item for store in TESTED_ON for item in items(store, count, 7)]
    rows = [f"{name},{t},{y:g}" for name, values in named for t, y in enumerate(values, 1)]
    path.write_text("\n".join(["series,step,demand", *rows]) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.retail", description=__doc__)
    parser.add_argument("--items", type=int, default=80, help="per store")
    parser.add_argument("--case", choices=(*CASES, "both"), default="both")
    parser.add_argument("--forecaster", choices=tuple(FORECASTERS), default=next(iter(FORECASTERS)))
    parser.add_argument("--keep", type=Path, help="folder for finished stores; the same command goes on after a stop")
    parser.add_argument("--sales", type=Path, help="write the sales of the items here and do nothing else")
    given = parser.parse_args()
    if given.sales is not None:
        write_sales(given.sales, given.items)
        return
    if given.keep is not None:
        given.keep.mkdir(parents=True, exist_ok=True)
    for case in CASES if given.case == "both" else (given.case,):
        print(case, json.dumps(run(case, given.items, given.forecaster, given.keep), indent=1), flush=True)


if __name__ == "__main__":
    main()
