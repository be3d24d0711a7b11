"""Run everybody, and the result as a table, as CSV and as rows for a picture."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ucsearch.backtest.intervals import Interval, paired
from ucsearch.backtest.metrics import cvar20, max_drawdown, total_reward
from ucsearch.backtest.panel import Panel
from ucsearch.backtest.roster import Budget, Entry
from ucsearch.backtest.walk import Walk, walk
from ucsearch.effort import Run
from ucsearch.errors import DataError, InputError
from ucsearch.records.files import whole_file
from ucsearch.scoreboard.rivals import hindsight

__all__ = ["FILES", "Board", "Row", "run_board"]

FILES = ("scoreboard.csv", "windows.csv", "timing.csv", "scoreboard.svg")  # that `Board.write` writes

Floats = NDArray[np.float64]
Progress = Callable[[str, int, int], None]  # who is walking, steps done, steps in all

COLUMNS = (
    "policy", "family", "seeds", "reward", "difference", "low", "high", "regret", "cvar20", "cvar20_windows",
    "drawdown", "violations", "fallbacks", "dead_ends", "expansions",
)  # fmt: skip
WINDOW_COLUMNS = (
    "policy", "series", "first", "reward", "regret", "cvar20", "drawdown", "violations", "fallbacks", "dead_end",
    "expansions",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Row:
    """One policy: means over seeds and windows. Reward, regret, drawdown are per window, CVaR20 per step."""

    name: str
    family: str
    settings: str
    seeds: int
    reward: float
    versus: Interval | None  # None for the reference itself
    regret: float
    cvar20: float  # mean of the worst fifth of all steps
    cvar20_windows: float  # mean of the worst fifth of all windows
    drawdown: float
    violations: int  # over all seeds
    fallbacks: float  # per window
    dead_ends: int  # windows, over all seeds
    expansions: float  # per decision
    micros: float  # per decision
    windows: dict[str, Floats]  # (N,) of every window used, means over seeds


@dataclass(frozen=True, eq=False)
class Board:
    """All policies on the same windows."""

    title: str  # the task and its instance
    problem: Panel
    budget: Budget
    reference: str
    rows: tuple[Row, ...]
    used: NDArray[np.int64]  # windows compared; the others hold a dead end that some policy met
    proved: int  # of those: how many have a proved hindsight optimum

    def table_csv(self) -> str:
        """One row per policy; nothing in it depends on the machine's speed."""
        body = []
        for r in self.rows:
            versus = ("", "", "") if r.versus is None else (r.versus.mean, r.versus.low, r.versus.high)
            body.append((
                r.name, r.family, r.seeds, r.reward, *versus, r.regret, r.cvar20, r.cvar20_windows, r.drawdown,
                r.violations, r.fallbacks, r.dead_ends, r.expansions,
            ))  # fmt: skip
        return _csv(COLUMNS, body)

    def windows_csv(self) -> str:
        """One row per policy and window."""
        names = WINDOW_COLUMNS[3:]
        body = [
            (r.name, self.problem.series[n], self.problem.stretches[n].start, *(float(r.windows[k][i]) for k in names))
            for r in self.rows
            for i, n in enumerate(self.used)
        ]
        return _csv(WINDOW_COLUMNS, body)

    def timing_csv(self) -> str:
        """Microseconds per decision, the one thing that differs from run to run."""
        return _csv(("policy", "us_per_decision"), [(r.name, round(r.micros, 3)) for r in self.rows])

    def write(self, folder: Path) -> list[Path]:
        """scoreboard.csv, windows.csv, timing.csv and scoreboard.svg."""
        from ucsearch.scoreboard.picture import draw

        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"{folder}: cannot be made ({error.strerror})") from error
        texts = dict(zip(FILES, (self.table_csv(), self.windows_csv(), self.timing_csv(), draw(self)), strict=True))
        for name, text in texts.items():
            with whole_file(folder / name) as file:
                file.write(text.encode())
        return [folder / name for name in texts]


def run_board(
    title: str, panel: Panel, budget: Budget, found: list[Entry], *, reference: str, seed: int, how: Run,
    clock: Callable[[], float], progress: Progress | None = None,
) -> Board:  # fmt: skip
    """Walk every policy through the windows and compare it with `reference`."""
    names = [r.name for r in found]
    if reference not in names:
        raise InputError("--reference", repr(reference), f"one of {', '.join(names)}")
    best, proved = hindsight(panel, how)
    made = {entry.name: entry.choosers() for entry in found}
    total, done = sum(map(len, made.values())) * panel.decisions, 0
    walks: dict[str, list[Walk]] = {}
    first = replace(panel, members=panel.members[:, :1], realised=panel.realised[:, :1], future=panel.future[:, :1])
    for name, makers in made.items():
        # Compiling, or reading a compiled kernel, is no part of a decision.
        walk(first, makers[0](), engine=how.simulator, stuck="keep")

        def tick(name: str = name) -> None:
            nonlocal done
            done += 1
            if progress is not None:
                progress(name, done, total)

        walks[name] = [
            walk(panel, make(), engine=how.simulator, stuck="keep", clock=clock, tick=tick) for make in makers
        ]
    stuck = np.any([w.stuck for group in walks.values() for w in group], axis=0)
    used = np.flatnonzero(~stuck)
    if len({panel.series[n] for n in used}) < 3:
        raise DataError(
            f"{int(stuck.sum())} of {len(panel)} windows met a dead end, which leaves fewer than 3 series to compare"
        )
    rows = [_row(entry, walks[entry.name], best, used, panel) for entry in found]
    base = rows[names.index(reference)].windows["reward"]
    series = [panel.series[n] for n in used]
    compared = [
        row
        if row.name == reference
        else replace(row, versus=paired(row.windows["reward"], base, series, seed=seed, name=row.name))
        for row in rows
    ]
    return Board(title, panel, budget, reference, tuple(compared), used, int(proved[used].sum()))


def _row(entry: Entry, walks: list[Walk], best: Floats, used: NDArray[np.int64], panel: Panel) -> Row:
    decisions = len(panel) * panel.decisions
    windows: dict[str, list[Floats]] = {name: [] for name in WINDOW_COLUMNS[3:]}
    tails, window_tails = [], []
    for w in walks:
        rewards = w.rewards[used]
        totals = np.array([total_reward(r) for r in rewards])
        windows["reward"].append(totals)
        windows["regret"].append(best[used] - totals)
        windows["cvar20"].append(np.array([cvar20(r) for r in rewards]))
        windows["drawdown"].append(np.array([max_drawdown(r) for r in rewards]))
        windows["violations"].append(w.violations[used].astype(np.float64))
        windows["fallbacks"].append(w.fallbacks[used].astype(np.float64))
        windows["dead_end"].append(w.stuck[used].astype(np.float64))
        spent = w.expansions + w.oracle_nodes + w.activity_nodes
        windows["expansions"].append(spent[used].astype(np.float64))
        tails.append(cvar20(rewards.ravel()))
        window_tails.append(cvar20(totals))
    means = {name: np.mean(values, axis=0) for name, values in windows.items()}
    return Row(
        name=entry.name,
        family=entry.family,
        settings=entry.note,
        seeds=len(walks),
        reward=float(means["reward"].mean()),
        versus=None,
        regret=float(means["regret"].mean()),
        cvar20=float(np.mean(tails)),
        cvar20_windows=float(np.mean(window_tails)),
        drawdown=float(means["drawdown"].mean()),
        violations=int(sum(w.violations.sum() for w in walks)),
        fallbacks=float(means["fallbacks"].mean()),
        dead_ends=int(sum(w.stuck.sum() for w in walks)),
        expansions=float(means["expansions"].mean() / panel.decisions),
        micros=float(sum(w.seconds for w in walks) / len(walks) / decisions * 1e6),
        windows=means,
    )


def _csv(head: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(head)
    # repr keeps every digit of a float, so that equal runs are equal files and nothing is lost in reading.
    writer.writerows([repr(x) if isinstance(x, float) else x for x in row] for row in rows)
    return stream.getvalue()
