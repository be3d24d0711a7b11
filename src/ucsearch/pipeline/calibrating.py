"""The job behind `ucsearch calibrate`: how far forecasts made from a history could have been trusted.

Forecasts are made walking forward through the end of every series, as they are and recalibrated by phase, and held
against what came: coverage, PIT, bias and CRPS by horizon, and coverage by phase of the season, worst first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError, InputError
from ucsearch.forecast.auto import Auto
from ucsearch.forecast.calibration import Calibration, CalibrationReport
from ucsearch.forecast.outliers import clip_outliers
from ucsearch.forecast.recalibrate import Recalibration
from ucsearch.forecast.walked import walk_recalibrated
from ucsearch.pipeline.forecasting import Plan, plan_forecast
from ucsearch.pipeline.periods import later
from ucsearch.pipeline.sales import History
from ucsearch.pipeline.tables import Problem
from ucsearch.settings import Settings

__all__ = ["LEVEL", "CalibrateResult", "Phase", "Variant", "run_calibrate"]

Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]
LEVEL = 0.9  # of the interval whose coverage is shown by phase
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SEASONS = 8  # that are walked through by default
_ENOUGH = 28  # past forecasts of a series that tell something; a year of weeks needs no two of it
_MOST = 400  # origins


@dataclass(frozen=True)
class Phase:
    """One place of the season."""

    label: str
    count: int  # forecasts of it
    coverage: float  # share inside the interval
    bias: float  # mean of outcome minus forecast, in mean sizes of the series


@dataclass(frozen=True, eq=False)
class Variant:
    """Forecasts as they are, or recalibrated."""

    name: str
    report: CalibrationReport
    bias_by_step: Floats  # (H,) in mean sizes of the series
    phases: tuple[Phase, ...]  # by distance from the nominal coverage, the worst first

    @property
    def worst(self) -> float:
        """Largest distance of a phase's coverage from the nominal one."""
        return max((abs(p.coverage - LEVEL) for p in self.phases), default=0.0)


@dataclass(frozen=True, eq=False)
class CalibrateResult:
    model: str
    period: str
    season: int
    horizon: int
    origins: int  # of the longest history
    series: int
    variants: tuple[Variant, ...]
    problems: tuple[Problem, ...]

    def text(self) -> str:
        """Figures side by side, then the worst phases."""
        head = f"{self.series} series, {self.origins} origins each, {self.horizon} periods ahead, season {self.season}"
        rows = [["", *(v.name for v in self.variants)]]
        first = self.variants[0].report
        for i, level in enumerate(first.levels):
            told = [f"{100 * v.report.coverage[i]:.1f} %" for v in self.variants]
            rows.append([f"inside the {100 * level:g} % interval", *told])
        rows.append([f"worst phase, {100 * LEVEL:g} %", *(_worst(v) for v in self.variants)])
        rows.append(["bias (mean sizes)", *(f"{v.bias_by_step.mean():+.3f}" for v in self.variants)])
        rows.append(["CRPS (mean sizes)", *(f"{v.report.crps:.4f}" for v in self.variants)])
        rows.append(["PIT distance", *(f"{v.report.pit_distance:.3f}" for v in self.variants)])
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        lines = ["  ".join(f"{x:{'<' if i == 0 else '>'}{widths[i]}}" for i, x in enumerate(row)) for row in rows]
        return "\n".join([f"{self.model}: {head}", "", *lines])


def _worst(variant: Variant) -> str:
    if not variant.phases:
        return "-"
    return f"{100 * variant.phases[0].coverage:.1f} % ({variant.phases[0].label})"


def run_calibrate(
    settings: Settings, data: str | Path, *, horizon: int | None = None, season: int | None = None,
    origins: int | None = None, clip: bool = True, seed: int | None = None, progress: Progress | None = None,
) -> CalibrateResult:  # fmt: skip
    """Walk forward through the last `origins` forecasts of every series whose outcomes are known."""
    if settings.fields:
        raise InputError("task", f"outcomes of {', '.join(settings.fields)}", "an outcome of one field for calibrate")
    plan = plan_forecast(settings, data, horizon=horizon, season=season, clip=clip, seed=seed)
    count = origins or min(_MOST, max(_ENOUGH, _SEASONS * plan.season))
    methods: list[Recalibration] = [Recalibration("off", plan.season)]
    if plan.season > 1:
        how = settings.recalibration
        chosen = how.method if how.method != "off" else "rolling"
        methods.append(Recalibration(chosen, plan.season, how.cycles, how.scale, how.floor))
    sums = [_Sums(plan, how) for how in methods]
    problems, used, most = list(plan.problems), 0, 0
    for i, history in enumerate(plan.histories):
        last = history.y.size - 1 - plan.horizon
        first = max(last - count + 1, plan.model.min_history(plan.season) - 1)
        if last - first + 1 < (least := min(count, 2 * plan.season, _ENOUGH)):
            text = f"saw {history.y.size} periods, enough for {max(0, last - first + 1)} past forecasts, "
            text += f"expected at least {least} "
            text += "(--origins asks for fewer; --season and --horizon for shorter ones)"
            problems.append(Problem(str(data), "", "", history.series, text))
            continue
        used, most = used + 1, max(most, last - first + 1)
        for one in sums:
            one.add(history, np.arange(first, last + 1, dtype=np.int64))
        if progress is not None:
            progress(i + 1, len(plan.histories))
    if not used:
        raise DataError("\n".join([f"{data}: no series is long enough to judge by", *map(str, problems[:20])]))
    found = tuple(one.variant() for one in sums)
    return CalibrateResult(
        plan.model.name, plan.sales.period, plan.season, plan.horizon, most, used, found, tuple(problems)
    )


class _Sums:
    """What is gathered of one variant."""

    def __init__(self, plan: Plan, how: Recalibration) -> None:
        self.plan, self.how = plan, how
        self.report = Calibration(plan.horizon, model=plan.model.name)
        self.bias, self.count = np.zeros(plan.horizon), 0
        # By phase counted back from the last period: how many, inside, sum of errors.
        self.by_phase = np.zeros((plan.season, 3))

    def add(self, history: History, cutoffs: NDArray[np.int64]) -> None:
        plan = self.plan
        y = clip_outliers(history.y)[0] if plan.clip else history.y
        common: dict[str, Any] = dict(horizon=plan.horizon, season=plan.season, stream=plan.stream(history.series))
        model = plan.model
        if isinstance(model, Auto):
            model = model.choose(y, int(cutoffs[0]), **common)
        if self.how.active:
            members = walk_recalibrated(model, y, cutoffs, self.how, **common)
        else:
            members = np.asarray(model.forecast(y, cutoffs, **common).expand().members)
        at = cutoffs[:, None] + 1 + np.arange(plan.horizon)
        actual = history.y[at]
        scale = float(np.abs(history.y).mean()) or 1.0
        self.report.add(members, actual, scale=scale)
        error = (actual - members.mean(axis=1)) / scale
        self.bias += error.sum(axis=0)
        self.count += len(cutoffs)
        low, high = _interval(members)
        inside = (low <= actual) & (actual <= high)
        phase = (history.y.size - 1 - at) % plan.season
        for column, values in enumerate((np.ones_like(error), inside.astype(np.float64), error)):
            np.add.at(self.by_phase[:, column], phase.ravel(), values.ravel())

    def variant(self) -> Variant:
        plan = self.plan
        phases = []
        if plan.season > 1:
            for back, (count, inside, error) in enumerate(self.by_phase.tolist()):
                if count:
                    phases.append(Phase(_label(plan, back), int(count), inside / count, error / count))
        phases.sort(key=lambda p: (-abs(p.coverage - LEVEL), p.label))
        name = "as forecast" if not self.how.active else f"recalibrated, {self.how.method}"
        return Variant(name, self.report.report(), self.bias / self.count, tuple(phases))


def _interval(members: Floats) -> tuple[Floats, Floats]:
    """(O, H) ends of the central interval; the outcome counts as one more draw, as in the report."""
    ordered = np.sort(members, axis=1)
    size = ordered.shape[1]

    def at(p: float) -> Floats:
        place = min(max(p * (size + 1) - 1.0, 0.0), size - 1.0)
        below = int(place)
        after = min(below + 1, size - 1)
        return np.asarray(ordered[:, below] + (place - below) * (ordered[:, after] - ordered[:, below]))

    return at(0.5 * (1.0 - LEVEL)), at(0.5 * (1.0 + LEVEL))


def _label(plan: Plan, back: int) -> str:
    """A name of the phase that lies `back` periods before the last one."""
    last, period, season = plan.histories[0].last, plan.sales.period, plan.season
    if last is not None and period in ("day", "weekday") and season in (5, 7):
        day = later(last, -back, period).astype("datetime64[D]")
        return _DAYS[(int(day.astype(np.int64)) + 3) % 7]
    if last is not None and period in ("15min", "30min", "hour") and season in (24, 48, 96):
        return str(later(last, -back, period))[11:16]
    if last is not None and period == "month" and season == 12:
        return str(later(last, -back, period))[5:7]
    return f"{season - back} of {season}"
