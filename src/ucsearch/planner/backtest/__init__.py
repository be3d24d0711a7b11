"""Replays of a history under the settings: backtest and tune, for every task.

`[backtest]` in the settings says how many periods are counted (`periods`), decided before them (`warmup`) and used to
tune rules (`earlier`), and whether a `service_level` takes the place of the shortage cost.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ucsearch.planner.backtest.tune import TuneResult
    from ucsearch.planner.files.sales import Data
    from ucsearch.planner.settings import Settings

__all__ = ["run_backtest", "run_tune", "write_page"]

Progress = Callable[[int, int], None]


def run_backtest(
    settings: Settings, data: Data, *, states: str | Path | None = None, progress: Progress | None = None,
    keep: Path | None = None,
) -> Any:  # fmt: skip
    """What the policy and every rule would have cost or earned in the last periods of the history `data`. `states`
    gives parameters by series; finished parts are kept in the folder `keep` until the run is done. The result has
    `text()`, `evidence()`, `write(path)`, `problems`, `released`, `reasons` and `falls_back_too_often`."""
    from ucsearch.errors import InputError
    from ucsearch.planner.backtest.job import run_backtest as of_orders
    from ucsearch.planner.backtest.job_any import run_backtest_any

    earlier, level = settings.backtest.earlier, settings.backtest.service_level
    common: dict[str, Any] = {"states": states, "progress": progress, "keep": keep, "earlier": earlier}
    if settings.task.places_orders:
        return of_orders(settings, data, service_level=level, **common)
    if level is not None:
        raise InputError("backtest.service_level", level, "nothing for this task: only orders have one")
    return run_backtest_any(settings, data, **common)


def run_tune(
    settings: Settings, data: Data, *, states: str | Path | None = None, progress: Progress | None = None,
    tries: int = 12, keep: Path | None = None,
) -> TuneResult:  # fmt: skip
    """Choose how to plan on the periods before the counted ones, with so many `tries`, and report once on the counted
    ones. The result has `text` (the settings with the choice), `table()`, `evidence()` and `report`."""
    from ucsearch.planner.backtest.tune import run_tune as tuned

    earlier, level = settings.backtest.earlier, settings.backtest.service_level
    return tuned(
        settings, data, states=states, progress=progress, earlier=earlier, tries=tries, service_level=level, keep=keep
    )


def write_page(result: Any, path: str | Path) -> None:
    """A page of a backtest's result, whole or not at all."""
    from ucsearch.planner.backtest.page import write_backtest_page
    from ucsearch.planner.backtest.page_any import write_any_page
    from ucsearch.planner.backtest.result import BacktestResult

    (write_backtest_page if isinstance(result, BacktestResult) else write_any_page)(result, path)
