"""Where search helps: one problem, made harder step by step, and what each part of the tool adds in every cell.

Demand is drawn, so that the forecast's quality is known: members of the true law, of one that is too narrow, or of one
that does not see the week. Cells vary what couples decisions (fixed cost, pack, lead time; for capacity the minimum
up-time), how much dearer one side of an error is, and that quality. All cells of a lead time are walked side by side.

    python -m studies.where_search_helps            # the pictures docs/pictures/when-it-helps*.svg, in some minutes
    python -m studies.where_search_helps --small    # two cells, printed

A description: demand is drawn, nothing is held out, and no claim is made beyond it.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections import defaultdict
from itertools import product
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from studies.heat_map import heat_map, small_map
from ucsearch.decision.api import decide_panel
from ucsearch.errors import InputError
from ucsearch.lab.comparators import DelayAwareGreedy
from ucsearch.policies import Exact, Proof, Run, UCBeam
from ucsearch.replay.choosers import Searched
from ucsearch.replay.panel import Panel, Stretch
from ucsearch.replay.statistics import scale_free_delta
from ucsearch.replay.walk import Chooser, Seen, walk
from ucsearch.tasks import CapacityPlan, LeadTimeInventory
from ucsearch.trace import Trace

__all__ = ["GAINS", "SMALL", "Grid", "gains"]

Floats = NDArray[np.float64]
Quality = Literal["right", "narrow", "blind"]
MEAN, NOISE, WEEK = 10.0, 0.35, (0.7, 0.7, 0.8, 0.9, 1.2, 1.6, 1.1)  # units a day, share of it, shares by weekday
GAINS = {"search": "greedy", "members": "search", "closed": "members", "risk": "members"}
"""What each policy is held against; a gain is the scale-free difference of costs."""


@dataclasses.dataclass(frozen=True)
class Grid:
    """The cells, and how much of each is drawn."""

    fixed_days: tuple[float, ...] = (0.0, 4.0, 12.0)  # fixed cost of an order, days of holding
    pack_days: tuple[float, ...] = (0.0, 2.0)  # pack, days of demand
    leads: tuple[int, ...] = (1, 3)  # lead times, days
    up_times: tuple[int, ...] = (1, 6)  # capacity: steps that a started unit stays
    kinks: tuple[float, ...] = (1.0, 9.0, 39.0)  # cost of a unit short, by that of one too many
    qualities: tuple[Quality, ...] = ("right", "narrow", "blind")
    series: int = 3
    decisions: int = 21
    members: int = 30
    depth: int = 6
    lots: int = 8
    points: int = 5
    width: int = 8  # of the beam that searches common plans of all members
    risk: float = 0.5
    seed: int = 20261119
    engine: Literal["python", "compiled"] = "compiled"


SMALL = Grid(
    fixed_days=(4.0,), pack_days=(0.0,), leads=(1,), up_times=(1,), kinks=(9.0,), qualities=("right",), series=2,
    decisions=3, members=6, depth=3, lots=3, points=3, width=4,
)  # fmt: skip


class Cell(NamedTuple):
    """One place on the grid."""

    kind: str  # "order" or "capacity"
    lead: int  # days; capacity: minimum up-time
    fixed: float
    pack: float
    kink: float
    quality: Quality

    @property
    def name(self) -> str:
        if self.kind == "capacity":
            return f"capacity up{self.lead:02d} k{self.kink:02.0f} {self.quality}"
        return f"order L{self.lead} K{self.fixed:02.0f} P{self.pack:.0f} k{self.kink:02.0f} {self.quality}"


def cells_of(s: Grid) -> list[Cell]:
    orders = product(("order",), s.leads, s.fixed_days, s.pack_days, s.kinks, s.qualities)
    capacity = product(("capacity",), s.up_times, (0.0,), (0.0,), s.kinks, s.qualities)
    return [Cell(*x) for x in (*orders, *capacity)]


def gains(s: Grid) -> dict[tuple[str, str], float]:
    """By cell and policy the mean gain over the policy that it is held against."""
    groups: dict[tuple[str, int], list[Cell]] = {}
    for cell in cells_of(s):
        groups.setdefault((cell.kind, cell.lead), []).append(cell)
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for (kind, _), cells in groups.items():
        panel = _panel(s, cells)
        costs = {name: _walked(s, panel, chooser) for name, chooser in _policies(s, panel, kind).items()}
        for i, one in enumerate(panel.stretches):
            for name, other in GAINS.items():
                if name in costs and other in costs:
                    found[one.family, name].append(scale_free_delta(costs[name][i], costs[other][i], "cost"))
    return {place: sum(values) / len(values) for place, values in found.items()}


def _walked(s: Grid, panel: Panel, chooser: Chooser) -> list[float]:
    done = walk(panel, chooser, engine=s.engine)
    if done.violations.any():
        raise InputError("policy", "an action that the rules forbid", "none")
    return [float(-x) for x in done.totals]


# -------------------------------------------------------------------- demand, forecasts, panels


def _panel(s: Grid, cells: list[Cell]) -> Panel:
    """Every cell with every series. A series has the same demand in all cells, and members of one draw."""
    horizon = s.depth
    config = _config(s, cells[0])
    task = config.task()
    drawn = [_draw(s, n, horizon) for n in range(s.series)]
    places = [(cell, n) for cell in cells for n in range(s.series)]
    members = np.stack([_members(drawn[n], cell.quality) for cell, n in places])
    y = np.stack([drawn[n].y for _, n in places])
    future = np.stack([y[:, t : t + horizon] for t in range(s.decisions)], axis=1)
    start = config.state(round(4 * MEAN), [0.0] * config.lead_time) if isinstance(config, LeadTimeInventory) else None
    begin = config.state(5) if start is None else start
    layout, rows = task.layout(begin), task.params_layout
    if rows is None:
        raise InputError("task", "no params", "params")
    stretches = tuple(Stretch(cell.name, f"s{n}", 0, 0, s.decisions, len(WEEK), drawn[n].y, 1.0) for cell, n in places)
    plain = Panel(
        task, config, layout, np.repeat([layout.flatten(begin, "state")], len(places), axis=0), stretches, members,
        y[:, : s.decisions], future, tuple(np.zeros(0) for _ in places), "drawn",
    )  # fmt: skip
    base = config.params()
    columns = {name: np.repeat([value], len(places), axis=0) for name, value in base._asdict().items()}
    columns["shortage"] = np.array([cell.kink for cell, _ in places])
    if not isinstance(config, LeadTimeInventory):
        params = rows.rows(base._replace(**columns), "params")
        return dataclasses.replace(plain, params=params)
    columns["fixed_cost"] = np.array([cell.fixed * MEAN for cell, _ in places])
    columns["case_pack"] = np.array([np.round(cell.pack * MEAN) for cell, _ in places])
    own = base._replace(**columns)

    def grid(trace: Trace) -> tuple[Floats | None, Floats | None]:
        sizes = config.lots(trace, own, s.lots, 1.0).sizes
        filled = np.where(np.isnan(sizes), np.nanmax(sizes, axis=1)[:, None], sizes)
        return sizes, rows.rows(own._replace(grid=filled), "params")

    return dataclasses.replace(plain, grid=grid)


def _config(s: Grid, cell: Cell) -> Any:
    if cell.kind == "capacity":
        return CapacityPlan(startup_delay=1, minimum_up_time=cell.lead, unit_output=2.0, largest=12, shortage=1.0)
    sizes = tuple(float(i) for i in range(s.lots + 1))
    return LeadTimeInventory(lead_time=cell.lead, order_sizes=sizes, fixed_cost=1.0, merge_arrivals=True)


class _Drawn(NamedTuple):
    y: Floats  # (T + H,)
    usual: Floats  # (T, H) mean of each decision's steps
    right: Floats  # (T, J, H) members of the true law
    blind: Floats  # (T, J, H) of the law of any weekday


def _draw(s: Grid, n: int, horizon: int) -> _Drawn:
    """Gamma demand around the weekday's mean, in whole units; days are independent."""
    rng = np.random.default_rng([s.seed, n])
    total = s.decisions + horizon
    mean = MEAN * np.array([WEEK[t % len(WEEK)] for t in range(total)])
    shape = 1.0 / NOISE**2
    y = np.round(rng.gamma(shape, mean / shape))
    usual = np.stack([mean[t : t + horizon] for t in range(s.decisions)])
    size = (s.decisions, s.members, horizon)
    right = np.round(rng.gamma(shape, 1.0, size) * usual[:, None, :] / shape)
    days = MEAN * np.array(WEEK)[rng.integers(0, len(WEEK), size)]
    return _Drawn(y, usual, right, np.round(rng.gamma(shape, 1.0, size) * days / shape))


def _members(d: _Drawn, quality: Quality) -> Floats:
    if quality == "blind":
        return d.blind
    if quality == "right":
        return d.right
    middle = d.usual[:, None, :]
    return np.round(middle + 0.25 * (d.right - middle))


# -------------------------------------------------------------------- policies


def _policies(s: Grid, panel: Panel, kind: str) -> dict[str, Chooser]:
    task, how, delay = panel.task, Run(engine=s.engine, threads=1), panel.delay

    def searched(policy: Any) -> Chooser:
        return Searched(task, policy, how)

    found: dict[str, Chooser] = {
        "greedy": searched(DelayAwareGreedy(depth=max(s.depth, delay + 1), delay=delay, risk=0.0)),
        "search": searched(Exact(depth=s.depth, risk=0.0)),
    }
    if kind == "capacity":
        # What is in service does not depend on demand: the best common plan of all members is the best policy.
        return found | {"members": _Closed(s, panel, how)}
    beam: dict[str, Any] = dict(depth=s.depth, width=s.width, top_k=s.lots + 1, mode="members")
    return found | {
        "members": searched(UCBeam(risk=0.0, **beam)),
        "risk": searched(UCBeam(risk=s.risk, **beam)),
        "closed": _Closed(s, panel, how),
    }


class _Closed:
    """Closed mode with its certificate."""

    def __init__(self, s: Grid, panel: Panel, how: Run) -> None:
        self.s, self.panel, self.how = s, panel, how

    def __call__(self, seen: Seen) -> Any:
        from ucsearch.replay.walk import Choice

        config, layout = self.panel.config, self.panel.task.params_layout
        if isinstance(config, LeadTimeInventory) and layout is not None and seen.params is not None:
            unit: Any = config.lots(seen.trace, layout.columns(seen.params), self.s.lots, 1.0).unit
        else:
            unit = 1.0
        decided = decide_panel(
            self.panel.task, seen.state, seen.trace.on_lattice(unit, self.s.points),
            Exact(depth=self.s.depth, mode="closed", node_budget=20_000_000), params=seen.params, actions=seen.actions,
            run=Run(threads=1, engine=self.how.engine), proof=Proof(node_budget=20_000_000),
        )  # fmt: skip
        return Choice(np.array(decided.action, np.float64), np.array(decided.certified.plan.expansions, np.int64))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.where_search_helps", description=__doc__)
    parser.add_argument("--small", action="store_true", help="two cells, printed and not drawn")
    found = gains(SMALL if parser.parse_args().small else Grid())
    if len({cell for cell, _ in found}) > 2:
        docs = Path(__file__).resolve().parents[1] / "docs" / "pictures"
        (docs / "when-it-helps.svg").write_text(heat_map(found), "utf-8")
        (docs / "when-it-helps-small.svg").write_text(small_map(found), "utf-8")
    for (cell, name), value in found.items():
        print(f"{cell:40} {name} over {GAINS[name]}: {value:+.3f}")


if __name__ == "__main__":
    main()
