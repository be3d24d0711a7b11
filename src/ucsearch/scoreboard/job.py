"""The job behind `ucsearch compare`, from what was asked for to a board."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from ucsearch.backtest.choosers import Learned
from ucsearch.backtest.roster import Budget, Entry
from ucsearch.backtest.walk import Chooser
from ucsearch.effort import Run
from ucsearch.errors import InputError
from ucsearch.forecast.ridge import RidgePaths
from ucsearch.forecast.streams import draw_key
from ucsearch.scoreboard.board import Board, run_board
from ucsearch.scoreboard.problem import (
    Outcome,
    Setup,
    Source,
    load_setup,
    make_problem,
    read_file,
    read_known,
    sample_sources,
)
from ucsearch.scoreboard.rivals import matched_risk, rivals

if TYPE_CHECKING:
    from ucsearch.learned.boundary import LearnedPolicy

__all__ = ["Plan", "run_compare"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
_FILES = (".csv", ".tsv", ".txt", ".parquet", ".pq")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to compare on, and how hard."""

    task: str
    data: str | None = None
    data_dir: Path | None = None
    instance: str | None = None
    start: str | None = None
    outcome: Outcome | None = None
    unit: float | None = None
    settings: Path | None = None
    season: int | None = None
    series: int = 12
    windows: int = 2
    steps: int = 14
    depth: int = 6
    width: int = 8
    top_k: int = 3
    risk: float = 0.25
    mode: Literal["mean", "members"] = "mean"
    seeds: int = 10
    seed: int = 1
    reference: str = "uc-beam"
    learned: bool = False
    threads: int = 1
    engine: Literal["auto", "python", "compiled"] = "compiled"


def run_compare(
    plan: Plan, *, clock: Callable[[], float], progress: Callable[[str, int, int], None] | None = None
) -> Board:
    """Load, tune on the windows before, walk, compare. The same plan gives the same board, times aside."""
    setup = load_setup(plan.task, instance=plan.instance, start=plan.start, outcome=plan.outcome, unit=plan.unit)
    if plan.width < min(plan.top_k, len(setup.task.actions)):
        raise InputError("--width", plan.width, f"at least {plan.top_k}, a place for every candidate of --top-k")
    budget = Budget(plan.depth, plan.width, min(plan.top_k, len(setup.task.actions)), plan.risk, plan.mode)
    horizon = max(plan.depth, setup.delay + 1)
    fields = () if setup.task.outcome is None else setup.task.outcome._fields
    sources = _sources(plan, setup.outcome == "changes", fields)
    rng = np.random.default_rng(plan.seed)
    key, how = draw_key(rng), Run(engine=plan.engine, threads=plan.threads)
    common: dict[str, Any] = dict(steps=plan.steps, horizon=horizon, key=key)
    panel = make_problem(setup, sources, windows=plan.windows, **common)
    earlier = make_problem(setup, sources, windows=1, skip=plan.windows * plan.steps, **common)
    matched = matched_risk(earlier, budget, how)
    found = rivals(panel, budget, seeds=plan.seeds, rng=rng, matched=matched, how=how)
    if plan.learned:
        found += _learned(plan, setup, sources, horizon, key, rng)
    return run_board(
        setup.name, panel, budget, found, reference=plan.reference, seed=plan.seed, how=how, clock=clock,
        progress=progress,
    )  # fmt: skip


def _sources(plan: Plan, changes: bool, fields: Sequence[str]) -> list[Source]:
    """The series: embedded, of a file (with a column for every field of an outcome), or of a public data set."""
    if plan.data is None:
        if plan.settings is not None or plan.season is not None:
            raise InputError("--data", "nothing", "a file beside --settings or --season")
        return sample_sources(plan.series)
    if plan.data.lower().endswith(_FILES):
        return read_file(Path(plan.data), plan.settings, plan.season, fields)[: plan.series]
    # A year of weekly or a day of quarter-hourly values is the longest season of the known data sets.
    least = RidgePaths().min_history(96) + (plan.windows + 1) * plan.steps + int(changes) + 1
    return read_known(plan.data, plan.data_dir, plan.series, least)


def _learned(
    plan: Plan, setup: Setup, sources: list[Source], horizon: int, key: int, rng: np.random.Generator
) -> list[Entry]:
    """Q-learning offline on what lies before every window, tuning windows included in neither."""
    from ucsearch.learned.boundary import forecast_features, train_offline

    if setup.task.fields > 1:
        raise InputError("--learned", f"outcomes of {setup.task.fields} fields", "outcomes of one")

    skip = (plan.windows + 1) * plan.steps
    length = min(
        len(s.y) - skip - RidgePaths().min_history(s.season) - 1 - int(setup.outcome == "changes") for s in sources
    )
    if length < 2 * plan.steps:
        raise InputError("--learned", f"{length} values before the windows", f"at least {2 * plan.steps} to learn from")
    past = make_problem(setup, sources, windows=1, steps=length, skip=skip, horizon=horizon, key=key)
    features = forecast_features(past.members, setup.delay)
    seed = int(rng.integers(1 << 31))
    found = []
    for method in ("fqi", "cql"):
        policy = train_offline(
            method, setup.task, setup.start, list(past.realised), list(features), length=min(plan.steps, length),
            seed=seed, engine="python" if plan.engine == "python" else "compiled",
        )  # fmt: skip

        def make(policy: LearnedPolicy = policy) -> Chooser:
            return Learned(policy, lambda trace: forecast_features(trace.members[..., 0], setup.delay))

        text = f"offline, {policy.evidence.steps:,} {'sweeps' if method == 'fqi' else 'steps'} on earlier values"
        found.append(Entry(method, "learned", make, text))
    return found
