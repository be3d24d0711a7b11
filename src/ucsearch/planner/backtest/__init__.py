"""Replays of a history under the settings: backtest and tune, for every task.

`[backtest]` in the settings says how many periods are counted (`periods`), decided before them (`warmup`) and used to
tune rules (`earlier`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ucsearch.planner.backtest.result import BacktestResult
    from ucsearch.planner.backtest.resume import Progress
    from ucsearch.planner.backtest.tune import TuneResult
    from ucsearch.planner.files.sales import Data
    from ucsearch.planner.settings import Settings

__all__ = ["run_backtest", "run_tune", "write_page"]


def run_backtest(
    settings: Settings, data: Data, *, states: str | Path | None = None, progress: Progress | None = None,
    keep: Path | None = None, tell: Callable[[str], None] | None = None,
) -> BacktestResult:  # fmt: skip
    """What the policy and every rule would have cost or earned in the last periods of the history `data`, as
    [backtest] says. `states` gives parameters by series; finished parts are kept in the folder `keep` until the run is
    done; `tell` is called before it with what closed loop takes, where that is long or does not fit. Raises InputError,
    DataError where settings or files cannot be used."""
    from ucsearch.planner.backtest.job import run_backtest as run

    return run(
        settings, data, states=states, progress=progress, keep=keep, earlier=settings.backtest.earlier, tell=tell
    )


def run_tune(
    settings: Settings, data: Data, *, states: str | Path | None = None, progress: Progress | None = None,
    keep: Path | None = None, tell: Callable[[str], None] | None = None,
) -> TuneResult:  # fmt: skip
    """Choose how to plan on the periods before the counted ones, and report once on the counted ones. The result has
    `text` (the settings with the choice), `table()`, `evidence()` and `report`."""
    from ucsearch.planner.backtest.tune import run_tune as run

    test = settings.backtest
    return run(
        settings, data, states=states, progress=progress, earlier=test.earlier, tries=test.tries, keep=keep, tell=tell,
    )  # fmt: skip


def write_page(result: BacktestResult, path: str | Path) -> None:
    """A page of a backtest's result, whole or not at all."""
    from ucsearch.planner.backtest.page import write_backtest_page

    write_backtest_page(result, path)
