"""Tries on the earlier part of many histories, part by part: rules are tuned, a service level is looked for."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.api import thread_count
from ucsearch.engine.choose import engine_for
from ucsearch.errors import InputError
from ucsearch.planner.backtest.replay import PLANNED, POLICY, RULE, History, Replay
from ucsearch.planner.backtest.result import TUNED
from ucsearch.planner.backtest.resume import Arrays, Kept
from ucsearch.planner.settings import Settings
from ucsearch.replay.roster import Entry
from ucsearch.replay.tune import ROUNDS, Chosen, Grid, choose, pooled_best

__all__ = ["Contest", "Progress", "earlier_part", "rule_effort", "with_service_level"]

Floats = NDArray[np.float64]
Knobs = dict[str, Any]
Progress = Callable[[int, int], None]
Made = TypeVar("Made")
_BESIDE = 4  # walks side by side, at most: what one does in plain Python leaves cores free for another's search
_AT_ONCE = 64  # series whose forecasts are held at a time, and that are kept when a run is stopped
_COUNTED = ("reason ", "unknown ")  # keys of counts over a part; everything else is by series
_SERVICE_SERIES = 64  # that a service level is looked for on
_SERVICE_TRIES = 10
_WIDEST = math.log(64.0)  # how far from the critical ratio's odds a shortage cost is looked for


class Contest:
    """Runs work over parts of series and remembers what is done."""

    def __init__(self, kept: Kept, progress: Progress | None) -> None:
        self.kept, self.progress = kept, progress
        self.total = self.done = self._inside = 0  # decisions, each counted by what it takes
        self._told = threading.Lock()
        self._stopped = False

    def expect(self, effort: int) -> None:
        self.total += effort

    def tick(self, count: int) -> None:
        with self._told:
            if self._stopped:
                raise KeyboardInterrupt
            self._inside += count
            self._tell(self.done + self._inside)

    def _tell(self, done: int) -> None:
        if self.progress is not None and self.total > 0:
            self.progress(min(done, self.total), self.total)

    def replay(self, group: Sequence[History], settings: Settings, members: Floats | None = None) -> Replay:
        length = settings.backtest.periods + settings.backtest.warmup
        return Replay(group, settings, engine_for(len(group) * length, settings.policy.mode), self.tick, members)

    def side_by_side(self, jobs: Sequence[Callable[[], Made]], threads: int | None) -> list[Made]:
        """What the jobs make, in their order, some of them at a time; none of them may depend on another."""
        workers = min(_BESIDE, thread_count(threads), len(jobs))
        if workers <= 1:
            return [job() for job in jobs]
        with ThreadPoolExecutor(max_workers=workers) as pool:
            made = [pool.submit(job) for job in jobs]
            try:
                return [one.result() for one in made]
            except BaseException:
                self._stopped = True  # the others end at their next decision
                pool.shutdown(wait=True, cancel_futures=True)
                self._stopped = False
                raise

    def by_part(
        self, stage: str, found: Sequence[History], work: Callable[[list[History]], Arrays], effort: int
    ) -> Arrays:
        """What `work` finds for parts of the series, put together in their order. `effort`: what it takes for each."""
        groups: dict[int, list[int]] = {}
        for i, one in enumerate(found):
            groups.setdefault(one.case.kind.number, []).append(i)
        out: Arrays = {}
        for number, places in groups.items():
            for lo in range(0, len(places), _AT_ONCE):
                at = places[lo : lo + _AT_ONCE]
                made = self.kept.part(f"{stage}-{number}-{lo}", lambda at=at: work([found[i] for i in at]))  # type: ignore[misc]
                for name, values in made.items():
                    if name.startswith(_COUNTED):
                        out[name] = out.get(name, np.zeros(1)) + values
                        continue
                    if name not in out:
                        out[name] = np.zeros((len(found), *values.shape[1:]))
                    out[name][at] = values
                self.done, self._inside = self.done + len(at) * effort, 0
                self._tell(self.done)
        return out

    # ---------------------------------------------------------------- rules

    def tune_rules(
        self, settings: Settings, found: Sequence[History], earlier: int
    ) -> tuple[dict[str, Chosen], dict[str, float]]:
        """The best setting of every rule on the periods before the counted ones; and what every rule cost there, by
        its name and, tuned, with `TUNED` behind it."""
        before, past = earlier_part(settings, found, earlier)
        first = self.replay(past[:1], before)
        entries = first.classics(first.panel())
        grids = {name: _grid(entry, found) for name, entry in entries.items()}
        tried = {name: grid.settings() for name, grid in grids.items()}
        held: dict[tuple[str, ...], Floats] = {}
        costs = self._costs("rules-0", before, past, tried, held)
        for turn in range(1, ROUNDS + 1):
            wider = {n: g.widened(pooled_best(tried[n], costs[n])) for n, g in grids.items()}
            more = {n: [s for s in g.settings() if s not in tried[n]] for n, g in wider.items() if g != grids[n]}
            if not more:
                break
            for name, values in self._costs(f"rules-{turn}", before, past, more, held).items():
                costs[name] = np.concatenate([costs[name], values])
                tried[name] = tried[name] + more[name]
            grids = wider
        chosen = {name: choose(tried[name], costs[name]) for name in tried if len(tried[name]) > 1}
        spent = {name: math.fsum(costs[name][0].ravel().tolist()) for name in tried}
        return chosen, spent | {name + TUNED: one.cost for name, one in chosen.items()}

    def _costs(
        self, stage: str, settings: Settings, found: Sequence[History], tries: dict[str, list[Knobs]],
        held: dict[tuple[str, ...], Floats],
    ) -> dict[str, Floats]:  # fmt: skip
        """(tries, S, 2) costs of every try by half of the periods. `held`: forecasts that an earlier stage made."""

        def work(part: list[History]) -> Arrays:
            names = tuple(one.series for one in part)
            replay = self.replay(part, settings, held.get(names))
            held[names] = replay.members
            panel = replay.panel()
            entries = replay.classics(panel)
            wanted = [(name, i, knobs) for name, several in tries.items() for i, knobs in enumerate(several)]

            def cost(name: str, knobs: Knobs) -> Floats:
                return replay.counted_halves(replay.walk(panel, entries[name].make(**knobs)))

            jobs = [partial(cost, name, knobs) for name, _, knobs in wanted]
            made = self.side_by_side(jobs, settings.run.threads)
            return {f"{name} {i}": x for (name, i, _), x in zip(wanted, made, strict=True)}

        length = settings.backtest.periods + settings.backtest.warmup
        made = self.by_part(stage, found, work, length * sum(rule_effort(n) * len(x) for n, x in tries.items()))
        return {n: np.stack([made[f"{n} {i}"] for i in range(len(x))]) for n, x in tries.items()}


def _grid(entry: Entry, found: Sequence[History]) -> Grid:
    """The knobs of a rule that can make a difference for these items."""
    fixed = any(one.case.params.fixed_cost > 0.0 for one in found)
    idle = () if fixed else ("eoq", "shortage", "batch")
    return Grid({k: (v[0],) if k in idle else v for k, v in entry.knobs.items()})


def rule_effort(name: str) -> int:
    """What a decision by a rule of the table takes."""
    return PLANNED if name.startswith("planning") else RULE


def earlier_part(settings: Settings, found: Sequence[History], earlier: int) -> tuple[Settings, list[History]]:
    """Settings and histories of a replay of the `earlier` periods before the counted ones."""
    test = settings.backtest
    before = _with_backtest(settings, earlier)
    return before, [one.until(test.periods, earlier + test.warmup) for one in found]


def _with_backtest(settings: Settings, periods: int) -> Settings:
    return replace(settings, backtest=settings.backtest.model_copy(update={"periods": periods}))


# -------------------------------------------------------------------- a service level instead of a shortage cost


def with_service_level(
    contest: Contest, settings: Settings, found: Sequence[History], long: Sequence[History], earlier: int, target: float
) -> tuple[list[History], float, str]:
    """The histories with the shortage cost that brings the policy to the service level (share of periods without a
    shortage) on the earlier part, as a multiple of the holding cost, by bisection; and a sentence about it."""
    if not 0.0 < target < 1.0:
        raise InputError("backtest.service_level", target, "a share between 0 and 1, such as 0.95")
    if not earlier or not long:
        raise InputError("backtest.service_level", target, "some periods before the counted ones to look for it")
    if not all(one.case.params.holding > 0.0 for one in found):
        raise InputError("task.holding", 0.0, "more than 0: a shortage cost is looked for as a multiple of it")
    places = sorted({round(x) for x in np.linspace(0, len(long) - 1, min(len(long), _SERVICE_SERIES))})
    before, past = earlier_part(settings, [long[i] for i in places], earlier)
    length = earlier + settings.backtest.warmup
    contest.expect(len(past) * length * _SERVICE_TRIES * POLICY)
    middle = math.log(target / (1.0 - target))  # where the critical ratio is the target

    def reached(step: int, log: float) -> float:
        def work(part: list[History]) -> Arrays:
            replay = contest.replay([_short(one, math.exp(log)) for one in part], before)
            panel = replay.panel()
            track = replay.track(panel, replay.walk(panel, replay.policy(panel)))
            return {"level": (track["served"] >= track["demand"]).mean(axis=1)}

        return float(contest.by_part(f"service-{step}", past, work, length * POLICY)["level"].mean())

    low, high = middle - _WIDEST, middle + _WIDEST
    at, best, level = middle, high, math.nan
    for step in range(_SERVICE_TRIES):
        seen = reached(step, at)
        if seen >= target:
            high, best, level = at, at, seen
        else:
            low = at
        at = 0.5 * (low + high)
    if math.isnan(level):
        raise InputError(
            "backtest.service_level", target, "a level that the policy reaches on the earlier part",
            hint=f"At {math.exp(high):.0f} times the holding cost it is still below; order sizes or lead times bind.",
        )  # fmt: skip
    times = float(f"{math.exp(best):.4g}")
    text = (
        f"service level {100.0 * target:g} %: the policy reaches {100.0 * level:.1f} % on the {earlier} periods before "
        f"at a shortage cost of {times:g} times the holding cost; everybody is charged that"
    )
    return [_short(one, times) for one in found], times, text


def _short(one: History, times: float) -> History:
    """With another shortage cost."""
    case = one.case
    cost = times * case.params.holding
    config = replace(case.config, shortage=cost)
    return History(one.series, one.y, case._replace(params=case.params._replace(shortage=cost), config=config))
