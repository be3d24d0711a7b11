"""The job behind `ucsearch calibrate`: how far forecasts made from a history could have been trusted.

Forecasts are made walking forward through the end of every series, as they are and recalibrated by phase, and held
against what came: coverage, PIT, bias and CRPS by horizon, and coverage by phase of the season, worst first. Which of
the two is taken is decided by the CRPS of earlier origins, whose outcomes were known before the first one shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import DataError, InputError
from ucsearch.forecast.base import first_origin
from ucsearch.forecast.calibration import Calibration, CalibrationReport, crps_ensemble
from ucsearch.forecast.recalibrate import Recalibration
from ucsearch.planner.files.calendar import later
from ucsearch.planner.files.sales import History
from ucsearch.planner.files.table import Problem
from ucsearch.planner.forecast import Plan, plan_forecast
from ucsearch.planner.settings import Settings
from ucsearch.replay.statistics import Interval, paired
from ucsearch.report.table import table_lines

__all__ = ["LEVEL", "CalibrateResult", "Phase", "Variant", "run_calibrate"]

Floats = NDArray[np.float64]
Progress = Callable[[int, int], None]
LEVEL = 0.9  # of the interval whose coverage is shown by phase
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SEASONS = 8  # that are walked through by default
_ENOUGH = 28  # past forecasts of a series that tell something; a year of weeks needs no two of it
_MOST = 400  # origins
_RIGHT = 0.03  # coverage so near to the nominal one is called right
_FEW = 5  # series below which seasons, not series, are the unit of an interval


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
    earlier_crps: float  # of the origins before those shown, in mean sizes; NaN where there are too few

    @property
    def coverage(self) -> float:
        """Share of outcomes inside the interval of `LEVEL`."""
        return float(self.report.coverage[self.report.levels.index(LEVEL)])

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
    earlier: int  # origins of a series, at most, that the choice between the variants was made on
    unknown: int  # outcomes that were not known and so did not count
    saved: Interval | None  # CRPS of the forecasts as they are less that of the recalibrated ones, on the origins shown

    @property
    def chosen(self) -> int:
        """The variant with the lower CRPS on the earlier origins; of equals, and without such origins, the first."""
        scores = [v.earlier_crps for v in self.variants]
        return 1 if len(scores) == 2 and scores[1] < scores[0] else 0

    def verdict(self) -> str:
        """Whether the intervals were right, whether recalibration is better, and which of the two is taken and why."""
        taken = self.variants[self.chosen]
        lines = [_coverage_words(taken)]
        if len(self.variants) == 1:
            return lines[0] + " There is no season, so nothing was recalibrated."
        plain, other = self.variants
        rival = self.variants[1 - self.chosen]
        lines.append(f"{_subject(rival)} covered {100 * rival.coverage:.1f} %.")
        size = plain.report.crps
        change = f"{abs(100 * (1 - other.report.crps / size)):.1f} %" if size > 0.0 else "0 %"
        side = 0 if self.saved is None or not self.saved.is_known else self.saved.side
        more = "lower" if other.report.crps <= size else "higher"
        words = {
            1: "Recalibration is better",
            -1: "Recalibration is worse",
            0: "Recalibration makes no clear difference",
        }
        lines.append(f"{words[side]}: its CRPS is {change} {more}.")
        setting = f'[forecast] recalibrate = "{"off" if self.chosen == 0 else other.name.rpartition(" ")[2]}"'
        use = ("the forecasts as they are", "the recalibrated forecasts")[self.chosen]
        if not self.earlier:
            lines.append(f"Use {use} ({setting}): there are no earlier origins to choose on.")
        else:
            beside = "recalibrated" if self.chosen == 0 else "as forecast"
            lines.append(
                f"Use {use} ({setting}): on the {self.earlier} origins before, their CRPS was "
                f"{taken.earlier_crps:.4f}, {beside} {rival.earlier_crps:.4f}."
            )
        return " ".join(lines)

    def text(self) -> str:
        """Figures side by side, and the verdict."""
        head = f"{self.series} series, {self.origins} origins each, {self.horizon} periods ahead, season {self.season}"
        if self.unknown:
            head += f"; {self.unknown} outcomes are not known (out of stock, or gaps) and do not count"
        rows = [["", *(v.name for v in self.variants)]]
        first = self.variants[0].report
        for i, level in enumerate(first.levels):
            told = [f"{100 * v.report.coverage[i]:.1f} %" for v in self.variants]
            rows.append([f"inside the {100 * level:g} % interval", *told])
        rows.append([f"worst phase, {100 * LEVEL:g} %", *(_worst(v) for v in self.variants)])
        rows.append(["bias, relative to the mean", *(f"{v.bias_by_step.mean():+.3f}" for v in self.variants)])
        rows.append(["CRPS, relative to the mean", *(f"{v.report.crps:.4f}" for v in self.variants)])
        rows.append(["PIT distance", *(f"{v.report.pit_distance:.3f}" for v in self.variants)])
        return "\n".join([f"{self.model}: {head}", "", *table_lines(rows), "", self.verdict()])


def _subject(variant: Variant) -> str:
    return "As forecast, they" if variant.name == "as forecast" else "Recalibrated, they"


def _coverage_words(variant: Variant) -> str:
    """Whether the intervals of a variant were right."""
    miss = variant.coverage - LEVEL
    word = "about right" if abs(miss) <= _RIGHT else "too wide" if miss > 0.0 else "too narrow"
    told = f"the {100 * LEVEL:g} % intervals are {word}: they covered {100 * variant.coverage:.1f} % of the outcomes."
    return told[0].upper() + told[1:] if variant.name == "as forecast" else f"Recalibrated, {told}"


def _worst(variant: Variant) -> str:
    if not variant.phases:
        return "-"
    return f"{100 * variant.phases[0].coverage:.1f} % ({variant.phases[0].label})"


def run_calibrate(
    settings: Settings, data: str | Path, *, horizon: int | None = None, season: int | None = None,
    origins: int | None = None, seed: int | None = None, any_sign: bool = False, progress: Progress | None = None,
) -> CalibrateResult:  # fmt: skip
    """Walk forward through the last `origins` forecasts of every series whose outcomes are known; `any_sign` as in
    `plan_forecast`."""
    if settings.fields:
        raise InputError("task", f"outcomes of {', '.join(settings.fields)}", "an outcome of one field for calibrate")
    plan = plan_forecast(settings, data, horizon=horizon, season=season, seed=seed, any_sign=any_sign)
    settings = plan.settings
    count = origins or min(_MOST, max(_ENOUGH, _SEASONS * plan.season))
    methods: list[Recalibration] = [Recalibration("off", plan.season)]
    if plan.season > 1:
        how = settings.recalibration
        chosen = how.method if how.method != "off" else "rolling"
        methods.append(Recalibration(chosen, plan.season, how.cycles, how.scale, how.floor))
    sums = [_Sums(plan, how) for how in methods]
    before = [_Sums(plan, how) for how in methods]
    problems, used, most, judged = list(plan.problems), 0, 0, 0
    for i, history in enumerate(plan.histories):
        least_known = first_origin(settings.forecaster, history.y, plan.season)
        last = history.y.size - 1 - plan.horizon
        first = max(last - count + 1, least_known)
        if last - first + 1 < (least := min(count, 2 * plan.season, _ENOUGH)):
            text = f"saw {history.y.size} periods, enough for {max(0, last - first + 1)} past forecasts, "
            text += f"expected at least {least} "
            text += "(backtest.origins asks for fewer; forecast.season and forecast.steps for shorter ones)"
            problems.append(Problem(str(data), "", "", history.series, text))
            continue
        used, most = used + 1, max(most, last - first + 1)
        for one in sums:
            one.add(history, np.arange(first, last + 1, dtype=np.int64))
        known = first - plan.horizon  # the last origin whose outcomes are all known at the first one shown
        start = max(known - count + 1, least_known)
        if known - start + 1 >= least and len(methods) > 1:
            judged = max(judged, known - start + 1)
            for one in before:
                one.add(history, np.arange(start, known + 1, dtype=np.int64))
        if progress is not None:
            progress(i + 1, len(plan.histories))
    if not used:
        raise DataError("\n".join([f"{data}: no series is long enough to judge by", *map(str, problems[:20])]))
    found = tuple(one.variant(past.mean_crps) for one, past in zip(sums, before, strict=True))
    saved = _saved(sums[0], sums[1], plan.how.seed) if len(sums) > 1 else None
    return CalibrateResult(
        settings.forecaster.name, plan.sales.period, plan.season, plan.horizon, most, used, found, tuple(problems),
        judged, sums[0].report.unknown, saved,
    )  # fmt: skip


def _saved(plain: _Sums, other: _Sums, seed: int) -> Interval | None:
    """CRPS that recalibration saves with its 95 % interval, paired by series or, of few series, by stretches of origins
    as long as a season and no shorter than a forecast, which share hardly an outcome."""
    names = list(plain.crps)
    if len(names) >= _FEW:
        own, reference = (np.array([one.crps[n].mean() for n in names]) for one in (plain, other))
    else:
        span = max(plain.plan.season, plain.plan.horizon)
        own, reference = (
            np.concatenate([x[: x.size // span * span].reshape(-1, span).mean(axis=1) for x in one.crps.values()])
            for one in (plain, other)
        )
    if own.size < 3:
        return None
    return paired(own, reference, [str(i) for i in range(own.size)], seed=seed, name="recalibration")


class _Sums:
    """What is gathered of one variant."""

    def __init__(self, plan: Plan, how: Recalibration) -> None:
        self.plan, self.how = plan, how
        self.report = Calibration(plan.horizon, model=plan.settings.forecaster.name)
        self.crps: dict[str, Floats] = {}  # by series, (O,) means over the steps in mean sizes
        self.bias, self.count = np.zeros(plan.horizon), np.zeros(plan.horizon)
        # By phase counted back from the last period: how many, inside, sum of errors.
        self.by_phase = np.zeros((plan.season, 3))

    def add(self, history: History, cutoffs: NDArray[np.int64]) -> None:
        plan = self.plan
        members = plan.how.forecasts(history.series, history.y, cutoffs, self.how, history.known)
        at = cutoffs[:, None] + 1 + np.arange(plan.horizon)
        actual = history.y[at]
        scale = float(np.nanmean(np.abs(history.y))) or 1.0
        self.report.add(members, actual, scale=scale)
        there = ~np.isnan(actual)
        scores = np.full(actual.shape, np.nan)
        for h in range(plan.horizon):
            if there[:, h].any():
                scores[there[:, h], h] = crps_ensemble(members[there[:, h], :, h], actual[there[:, h], h])
        told = there.any(axis=1)
        self.crps[history.series] = np.nanmean(scores[told], axis=1) / scale
        error = np.where(there, (actual - members.mean(axis=1)) / scale, 0.0)
        self.bias += error.sum(axis=0)
        self.count += there.sum(axis=0)
        low, high = _interval(members)
        inside = (low <= actual) & (actual <= high)
        phase = (history.y.size - 1 - at) % plan.season
        for column, values in enumerate((there.astype(np.float64), inside.astype(np.float64), error)):
            np.add.at(self.by_phase[:, column], phase.ravel(), values.ravel())

    @property
    def mean_crps(self) -> float:
        """Over all origins of all series; NaN without any."""
        return float(np.concatenate(list(self.crps.values())).mean()) if self.crps else float("nan")

    def variant(self, earlier_crps: float) -> Variant:
        plan = self.plan
        phases = []
        if plan.season > 1:
            for back, (count, inside, error) in enumerate(self.by_phase.tolist()):
                if count:
                    phases.append(Phase(_label(plan, back), int(count), inside / count, error / count))
        phases.sort(key=lambda p: (-abs(p.coverage - LEVEL), p.label))
        name = "as forecast" if not self.how.active else f"recalibrated, {self.how.method}"
        return Variant(name, self.report.report(), self.bias / np.maximum(self.count, 1.0), tuple(phases), earlier_crps)


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
