"""Rules tuned on the periods before the counted ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.planner.backtest.replay import PLANNED, RULE, History, Replay
from ucsearch.planner.backtest.result import TUNED
from ucsearch.planner.backtest.resume import Arrays, Parts
from ucsearch.planner.settings import Settings
from ucsearch.replay.roster import Entry
from ucsearch.replay.tune import ROUNDS, Chosen, Grid, choose, pooled_best

__all__ = ["earlier_part", "rule_effort", "tune_rules"]

Floats = NDArray[np.float64]
Knobs = dict[str, Any]


def tune_rules(
    parts: Parts,
    settings: Settings,
    histories: Sequence[History],
    earlier: int,
    judge: tuple[Settings, Sequence[History]] | None = None,
) -> tuple[dict[str, Chosen], dict[str, float]]:
    """The best setting of every rule on the `earlier` periods before the counted ones; and what every rule cost there,
    by its name and, tuned, with `TUNED` behind it. `judge`: other settings and the same series under them, which say
    what is left is worth."""
    before, past = earlier_part(settings, histories, earlier)
    judged = None if judge is None else earlier_part(*judge, earlier)
    entries = Replay(past[:1], before, parts.tick).rules
    grids = {name: _grid(entry, histories) for name, entry in entries.items()}
    tried = {name: _usable(entries[name], grid.settings()) for name, grid in grids.items()}
    held: dict[tuple[str, ...], Floats] = {}
    costs = _costs(parts, "rules-0", before, past, tried, held, judged)
    for turn in range(1, ROUNDS + 1):
        wider = {n: g.widened(pooled_best(tried[n], costs[n])) for n, g in grids.items()}
        more = {
            n: _usable(entries[n], [s for s in g.settings() if s not in tried[n]])
            for n, g in wider.items() if g != grids[n]
        }  # fmt: skip
        if not any(more.values()):
            break
        for name, values in _costs(parts, f"rules-{turn}", before, past, more, held, judged).items():
            costs[name] = np.concatenate([costs[name], values])
            tried[name] = tried[name] + more[name]
        grids = wider
    trucks = [history.place.truck for history in past]
    chosen = {name: _chosen(entries[name], tried[name], costs[name], trucks) for name in tried if len(tried[name]) > 1}
    spent = {name: math.fsum(costs[name][0].ravel().tolist()) for name in tried}
    return chosen, spent | {name + TUNED: choice.cost for name, choice in chosen.items()}


def _chosen(entry: Entry, tried: Sequence[Knobs], costs: Floats, trucks: Sequence[str]) -> Chosen:
    """One setting for all, or one for each series where the rule can have it. Of several trucks each gets the setting
    that was best on the others."""
    if len(set(trucks)) > 1:
        of = np.array(trucks)
        best = {truck: pooled_best(tried, costs[:, of != truck]) for truck in set(trucks)}
        places = {truck: tried.index(knobs) for truck, knobs in best.items()}
        cost = math.fsum(float(costs[places[truck], i].sum()) for i, truck in enumerate(trucks))
        settings = tuple(best[truck] for truck in trucks)
        return Chosen(settings[:1] if len(set(places.values())) == 1 else settings, len(tried), cost)
    return choose(tried, costs if entry.make_each is not None else costs.sum(axis=1, keepdims=True))


def _usable(entry: Entry, settings: Sequence[Knobs]) -> list[Knobs]:
    """The settings that the rule takes: two knobs may not go together, such as a low above a high."""
    usable = []
    for setting in settings:
        try:
            entry.make(**setting)
        except InputError:
            continue
        usable.append(setting)
    return usable


def _grid(entry: Entry, histories: Sequence[History]) -> Grid:
    """The knobs of a rule that can make a difference for these series."""
    idle = histories[0].case.config.idle_knobs([history.case.params for history in histories])
    return Grid({name: (values[0],) if name in idle else values for name, values in entry.knobs.items()})


def _costs(
    parts: Parts, stage: str, settings: Settings, histories: Sequence[History], tries: dict[str, list[Knobs]],
    held: dict[tuple[str, ...], Floats], judged: tuple[Settings, list[History]] | None,
) -> dict[str, Floats]:  # fmt: skip
    """(tries, S, 2) costs of every try by half of the periods. `held`: forecasts that an earlier stage made."""

    def work(part: list[History]) -> Arrays:
        names = tuple(history.series for history in part)
        judge = None
        if judged is not None:
            judge = Replay([history for history in judged[1] if history.series in names], judged[0], parts.tick)
        replay = Replay(part, settings, parts.tick, held.get(names), judge)
        held[names] = replay.members
        wanted = [(name, i, knobs) for name, several in tries.items() for i, knobs in enumerate(several)]

        def cost(name: str, knobs: Knobs) -> Floats:
            where, done = replay.walk_rule(name, [knobs] * len(part))
            return where.counted_halves(done)

        replay.prepare()
        jobs = [partial(cost, name, knobs) for name, _, knobs in wanted]
        paid = parts.side_by_side(jobs, settings.run.threads)
        return {f"{name} {i}": halves for (name, i, _), halves in zip(wanted, paid, strict=True)}

    length = settings.backtest.periods + settings.backtest.warmup
    made = parts.by_part(stage, histories, work, length * sum(rule_effort(n) * len(x) for n, x in tries.items()))
    return {n: np.stack([made[f"{n} {i}"] for i in range(len(x))]) for n, x in tries.items() if x}


def rule_effort(name: str) -> int:
    """What a decision by a rule of the table takes."""
    return PLANNED if name.startswith("planning") else RULE


def earlier_part(settings: Settings, histories: Sequence[History], earlier: int) -> tuple[Settings, list[History]]:
    """Settings and histories of a replay of the `earlier` periods before the counted ones."""
    test = settings.backtest
    before = replace(settings, backtest=test.model_copy(update={"periods": earlier}))
    return before, [history.until(test.periods, earlier + test.warmup) for history in histories]
