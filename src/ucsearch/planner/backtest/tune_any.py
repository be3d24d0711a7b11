"""`ucsearch tune` for storage, capacity and interventions: choose on the earlier part, report once on the later.

Candidates differ in mode, risk, depth, grid, end value and recalibration. Each is replayed over the same earlier
periods, fallbacks included, and judged by what it really earned or cost; what is left at the end counts for all as the
settings as given value it. Rules are tuned there on wide grids.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError, InputError
from ucsearch.planner.backtest.job_any import Group, Progress, Stage, read_groups, run_backtest_any
from ucsearch.planner.backtest.resume import Arrays, Kept
from ucsearch.planner.backtest.tune import Trial, TuneResult, cheapest, reason_of
from ucsearch.planner.files.sales import Data
from ucsearch.planner.history import needed_periods
from ucsearch.planner.settings import Settings, parse_settings
from ucsearch.planner.settings.edit import Changes, edited

__all__ = ["tune_any"]

Floats = NDArray[np.float64]
_DRAWN = 40  # series that all candidates are tried on


def tune_any(
    text: str, given: Settings, data: Data, *, states: str | Path | None, progress: Progress | None, earlier: int,
    tries: int, keep: Path | None, inputs: dict[str, str],
) -> TuneResult:  # fmt: skip
    """Choose on the `earlier` periods before the counted ones, with `tries` candidates."""
    job = _Tuning(text, given, data, states, earlier, tries, Kept(keep, "tune", {**inputs, "e": earlier, "n": tries}))
    job.progress = progress
    first = _first(given)[: math.ceil(tries / 2)]
    trials = job.run(first)
    best = trials[cheapest(trials)]
    trials += job.run(_second(best)[: tries - len(first)])
    chosen = cheapest(trials)
    made = edited(text, trials[chosen].changes)

    def rest(done: int, total: int) -> None:
        if progress is not None:
            half = tries * job.size
            progress(half + half * done // max(1, total), 2 * half)

    report = run_backtest_any(
        parse_settings(made.encode(), given.file), data, states=states, earlier=earlier, progress=rest,
        keep=keep, given=None if chosen == 0 else given,
    )  # fmt: skip
    job.kept.done()
    return TuneResult(
        made, chosen, tuple(trials), job.skipped, job.names, job.count, earlier, report, inputs,
        earns=given.task.form != "cost",
    )  # fmt: skip


class _Tuning:
    """The earlier part of a history, and candidates that are replayed over it."""

    def __init__(
        self, text: str, given: Settings, data: Data, states: str | Path | None, earlier: int, tries: int,
        kept: Kept,
    ) -> None:  # fmt: skip
        self.text, self.given, self.data, self.states = text, given, data, states
        self.earlier, self.tries, self.kept = earlier, tries, kept
        self.skipped: dict[str, str] = {}
        self.progress: Progress | None = None
        self.done = 0
        groups, _ = read_groups(given, data, states)
        needed = self._needed(given)
        self.names = tuple(one.name for group in groups for one in group if len(one.y) >= needed)
        if not self.names:
            longest = max(len(one.y) for group in groups for one in group)
            raise InputError(
                "--data", f"at most {longest} periods", f"{needed}: forecasting, {earlier} to tune on, then the report",
                hint="A smaller backtest.earlier or backtest.periods needs less.",
            )  # fmt: skip
        self.drawn = {self.names[round(x)] for x in np.linspace(0, len(self.names) - 1, min(len(self.names), _DRAWN))}
        self.count = len(self.drawn)
        self.size = self.count * earlier  # decisions of a try
        self.judges = [self._stage(group, given, None) for group in self._some(groups, given)]

    def _some(self, groups: Sequence[Group], settings: Settings) -> list[Group]:
        """The drawn series, where all of them are long enough."""
        found = [[one for one in group if one.name in self.drawn] for group in groups]
        sizes = [len(one.y) for group in found for one in group]
        if len(sizes) < len(self.drawn) or min(sizes) < self._needed(settings):
            raise InputError("--data", f"{min(sizes)} periods", f"{self._needed(settings)} of every series for it")
        return [group for group in found if group]

    def _needed(self, settings: Settings) -> int:
        return needed_periods(settings) + self.earlier

    def _stage(self, group: Group, settings: Settings, judge: Stage | None) -> Stage:
        return Stage(group, settings, settings.backtest.periods, self.earlier, judge)

    def run(self, candidates: Sequence[tuple[str, Changes]]) -> list[Trial]:
        """Every candidate over the earlier part of the drawn series."""
        trials = []
        for label, changes in candidates:
            try:
                settings = parse_settings(edited(self.text, changes).encode(), self.given.file)
                groups = self._some(read_groups(settings, self.data, self.states)[0], settings)
            except (InputError, DataError) as error:
                self.skipped[label] = reason_of(error)
                continue

            def work(groups: list[Group] = groups, settings: Settings = settings) -> Arrays:
                cost, released = [], []
                for group, judge in zip(groups, self.judges, strict=True):
                    stage = self._stage(group, settings, judge)
                    done = stage.walk(stage.policy())
                    cost.append(-done.totals)
                    released.append(done.certificate["released"].ravel())
                return {"cost": np.concatenate(cost), "released": np.concatenate(released)}

            made = self.kept.part(f"try-{self.done}", work)
            trials.append(Trial(label, changes, settings, made["cost"], float(made["released"].mean())))
            self.done += 1
            if self.progress is not None:
                self.progress(min(self.done, self.tries) * self.size, 2 * self.tries * self.size)
        return trials


# -------------------------------------------------------------------- candidates


def _first(given: Settings) -> list[tuple[str, Changes]]:
    """The settings as given, then other ways to plan. Prices earn in proportion, so storage is planned on the mean."""
    modes: tuple[tuple[str, float], ...] = (("mean", 0.0), ("mean", 0.25), ("mean", 0.5))
    if given.task.task().name != "storage":
        modes = (("members", 0.0), ("mean", 0.0), ("members", 0.25), ("mean", 0.5), ("members", 0.5))
    own = (given.policy.mode, given.policy.risk)
    found: list[tuple[str, Changes]] = [("as given", {})]
    for mode, risk in modes:
        if (mode, risk) != own:
            changes = {"policy": {"mode": mode, "risk": risk, "spread": None}}
            found.append((f"{mode}, risk {risk:g}", changes))
    return [*found[:2], *_ends(given, {}), *found[2:]]


def _ends(base: Settings, more: Changes) -> list[tuple[str, Changes]]:
    """Other values of what is left at the end."""
    task = base.task
    name = task.task().name
    if name == "storage" and task.end_price == "forecast":
        return [("no end value", {**more, "task": {**more.get("task", {}), "end_price": "given", "end_value": 0.0}})]
    if name == "storage":
        plan = {"end_price": "forecast", "end_value": None}
        return [("end value from the forecast", {**more, "task": {**more.get("task", {}), **plan}})]
    if name == "intervention" and task.budget_value > 0.0:
        return [
            (f"{times:g} times the end value",
             {**more, "task": {**more.get("task", {}), "budget_value": times * task.budget_value}})
            for times in (0.5, 2.0)
        ]  # fmt: skip
    return []


def _second(best: Trial) -> list[tuple[str, Changes]]:
    """Around the best of the first: recalibration, depth, grid, end value."""
    base, mine = best.settings, {k: dict(v) for k, v in best.changes.items()}

    def also(label: str, table: str, **values: Any) -> tuple[str, Changes]:
        named = label if best.label == "as given" else f"{best.label}, {label}"
        return named, {**mine, table: {**mine.get(table, {}), **values}}

    depth, found = base.policy.depth, []
    if base.season > 1:
        found.append(also("recalibrated", "forecast", recalibrate="rolling"))
    shorter, longer = max(1, depth // 2), depth + max(2, depth // 3)
    found += [also(f"depth {shorter}", "policy", depth=shorter), also(f"depth {longer}", "policy", depth=longer)]
    if base.task.task().name == "storage" and base.task.level_step is not None:
        finer = 0.5 * base.task.level_step
        nodes = 4 * base.proof.node_budget
        label, changes = also(f"levels of {finer:g}", "task", level_step=finer)
        found.append((label, {**changes, "proof": {**changes.get("proof", {}), "node_budget": nodes}}))
    if base.season > 1:
        found.append(also("recalibrated by bias", "forecast", recalibrate="rolling", scale=False))
        found.append(also("error paths", "forecast", recalibrate="paths"))
    if not {"end_price", "budget_value"} & set(mine.get("task", {})):
        prefix = "" if best.label == "as given" else f"{best.label}, "
        found += [(prefix + label, changes) for label, changes in _ends(base, mine)]
    return found
