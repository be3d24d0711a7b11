"""Recalibration of members by the phase of the season, before planning (docs/how-to/forecasts.md).

Members can be right on average and wrong by hour. From an archive of past forecasts and their outcomes, every phase of
the season gets a shift `b` and a factor `c` for the members' distance from their mean. Few data leave members as they
are: the formulas go to b = 0, c = 1.

Shapes: T times of a series, H steps ahead, J members, W windows. The forecast made at origin `s` (index of the last
observation it knew) says of step h = 1..H something about `y[s + h]`. NaN is "not known" throughout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.forecast.base import Forecaster, PathForecast, first_origin, known_for
from ucsearch.trace import Trace

__all__ = [
    "CYCLES",
    "Archive",
    "Correction",
    "Recalibrating",
    "Recalibration",
    "Sums",
    "bias_of",
    "correction_at",
    "corrections",
    "models_at",
    "past_forecasts",
    "recalibrate_members",
    "recalibrate_trace",
    "scale_of",
    "walk_recalibrated",
]


Floats = NDArray[np.float64]
Method = Literal["rolling", "paths", "off"]

CYCLES = 28  # K, seasons looked back on
POOLED_BIAS, PHASE_BIAS = 20.0, 4.0  # rows of "no bias" that every estimate is mixed with
POOLED_SCALE, PHASE_SCALE = 200.0, 8.0  # rows of "right as it is"
LEAST, MOST = 0.2, 5.0  # of the scale
ZEROS = 0.3  # share of outcomes without demand from which on only the bias is corrected
TINY = 1e-9  # a spread below this share of the values is none
LEAST_PATHS = 8  # error paths below which members stay as they are


class Archive(NamedTuple):
    """Past forecasts of one series and what happened, on one regular time axis."""

    y: Floats  # (T,) outcomes
    mean: Floats  # (T, H) mean over members of the forecast made at each origin
    spread: Floats  # (T, H) mean absolute deviation of members from their mean
    model: tuple[str, ...] = ()  # (T,) who made it; () where that never changed

    def checked(self) -> Archive:
        """Itself; an `InputError` where shapes do not fit or a number cannot be one."""
        length = len(self.y)
        if self.y.ndim != 1 or self.mean.ndim != 2 or self.mean.shape[0] != length:
            raise InputError("archive.mean", f"shape {self.mean.shape}", f"shape ({length}, H)")
        if self.spread.shape != self.mean.shape:
            raise InputError("archive.spread", f"shape {self.spread.shape}", f"shape {self.mean.shape}")
        if self.model and len(self.model) != length:
            raise InputError("archive.model", f"{len(self.model)} names", f"{length}, one per time, or none")
        if np.isinf(self.y).any() or np.isinf(self.mean).any() or not (self.spread[~np.isnan(self.spread)] >= 0).all():
            raise InputError(
                "archive", "infinite values or negative spreads", "finite values and spreads of at least 0"
            )
        return self

    def of_model(self, model: str) -> Archive:
        """Without what another model said, and without everything before it: a changed model voids the window."""
        if not self.model:
            return self
        made = [not bool(np.isnan(row).all()) for row in self.mean]
        others = [t for t, name in enumerate(self.model) if made[t] and name != model]
        if not others:
            return self
        mean, spread = self.mean.copy(), self.spread.copy()
        mean[: others[-1] + 1] = np.nan
        spread[: others[-1] + 1] = np.nan
        return Archive(self.y, mean, spread, self.model)


@dataclass(frozen=True, slots=True)
class Recalibration:
    """How members are recalibrated."""

    method: Method = "rolling"  # shift and stretch members; "paths": past error paths in their place; or "off"
    season: int = 1  # P, periods of the longest season; 1: nothing is done
    cycles: int = CYCLES  # K
    scale: bool = True  # False: bias only, a sound setting for counts
    floor: float = -np.inf  # no member goes below, for instance 0 for demand

    def __post_init__(self) -> None:
        if self.method not in ("rolling", "paths", "off"):
            raise InputError("recalibrate", repr(self.method), "'rolling', 'paths' or 'off'")
        if not self.season >= 1:
            raise InputError("season", self.season, "at least 1")
        if not self.cycles >= 1:
            raise InputError("cycles", self.cycles, "at least 1")
        if not self.floor < np.inf:
            raise InputError("floor", self.floor, "a number below infinity")

    @property
    def active(self) -> bool:
        return self.method != "off" and self.season > 1


class Sums(NamedTuple):
    """What one origin and step needs of the archive: (..., H) each. `e` are errors, `r` their sizes in spreads."""

    n_w: Floats  # known errors of the last K seasons
    e_w: Floats
    zeros: Floats  # outcomes of 0 among them
    n_p: Floats  # known errors of the same phase: the cycles used
    e_p: Floats
    n_rw: Floats  # those whose spread can be divided by
    r_w: Floats
    n_rp: Floats
    r_p: Floats


class Correction(NamedTuple):
    """Of one or several origins: (..., H) each; with method "paths" also the error paths (n, H) of one origin."""

    b: Floats  # added to every member, in units of the series
    c: Floats  # factor of the members' distance from their mean, 0.2 to 5
    sums: Sums  # what they follow from, for the record
    paths: Floats | None = None  # units of the series


def bias_of(s: Sums) -> Floats:
    """b: the phase's mean error, drawn to the pooled one, which is drawn to 0."""
    pooled = s.e_w / (s.n_w + POOLED_BIAS)
    return np.asarray((s.e_p + PHASE_BIAS * pooled) / (s.n_p + PHASE_BIAS))


def scale_of(s: Sums) -> Floats:
    """c: the phase's mean absolute error in spreads, drawn to the pooled one, which is drawn to 1; 1 where outcomes
    are often 0."""
    pooled = (s.r_w + POOLED_SCALE) / (s.n_rw + POOLED_SCALE)
    c = np.clip((s.r_p + PHASE_SCALE * pooled) / (s.n_rp + PHASE_SCALE), LEAST, MOST)
    often_zero = (s.n_w > 0) & (s.zeros >= ZEROS * s.n_w)
    return np.asarray(np.where(often_zero, 1.0, c))


def corrections(archive: Archive, how: Recalibration) -> Correction:
    """b and c of every origin (T, H), each from what was known at that origin."""
    a = archive.checked()
    length, steps = a.mean.shape
    error, actual = np.full((length, steps), np.nan), np.full((length, steps), np.nan)
    for h in range(1, min(steps, length - 1) + 1):
        actual[: length - h, h - 1] = a.y[h:]
    error = actual - a.mean
    known = ~np.isnan(error)
    n_w, n_p = _sums(known.astype(np.float64), how)
    e_w, e_p = _sums(np.where(known, error, 0.0), how)
    zeros, _ = _sums((known & (actual == 0.0)).astype(np.float64), how)
    none = np.zeros_like(n_w)
    sums = Sums(n_w, e_w, zeros, n_p, e_p, none, none, none, none)
    b = bias_of(sums)
    size = np.maximum(np.abs(a.mean), np.abs(actual))
    usable = known & (a.spread > TINY * size) & (a.spread > 0.0)
    ratio = np.abs(error - b)
    np.divide(ratio, a.spread, out=ratio, where=usable)
    n_rw, n_rp = _sums(usable.astype(np.float64), how)
    r_w, r_p = _sums(np.where(usable, ratio, 0.0), how)
    sums = sums._replace(n_rw=n_rw, r_w=r_w, n_rp=n_rp, r_p=r_p)
    return Correction(b, scale_of(sums) if how.scale else np.ones_like(b), sums)


def _sums(values: Floats, how: Recalibration) -> tuple[Floats, Floats]:
    """(T, H) sums at every origin t over W (origins s of the last K P steps with s + h <= t) and over its phase."""
    length, steps = values.shape
    span = how.cycles * how.season
    pooled, phase = np.zeros((length, steps)), np.zeros((length, steps))
    for h in range(1, min(span, steps) + 1):
        padded = np.concatenate([np.zeros(span), values[:, h - 1]])  # place s + span holds origin s
        pooled[:, h - 1] = sliding_window_view(padded, span - h + 1)[:length].sum(axis=1)
    for i in range(1, how.cycles + 1):
        back = i * how.season
        if back >= length:
            break
        early = min(back, steps)  # steps h <= i P: their outcome is known
        phase[back:, :early] += values[: length - back, :early]
    return pooled, phase


def correction_at(archive: Archive, how: Recalibration, steps: int) -> Correction:
    """The correction of a forecast made at the archive's last time, over `steps` steps. Beyond what is in the archive
    (no forecast so far ahead) nothing is corrected."""
    nothing = np.zeros(steps)
    empty = Correction(nothing, np.ones(steps), Sums(*(nothing,) * 9))
    if not how.active or len(archive.y) == 0:
        return empty
    keep = 2 * how.cycles * how.season + 1  # an origin of W looks back as far again
    last = Archive(archive.y[-keep:], archive.mean[-keep:], archive.spread[-keep:], archive.model[-keep:])
    walked = corrections(last, how)
    have = min(steps, walked.b.shape[1])
    rows = [_fitted(x[-1], have, steps, 0.0) for x in walked.sums]
    correction = Correction(
        _fitted(walked.b[-1], have, steps, 0.0), _fitted(walked.c[-1], have, steps, 1.0), Sums(*rows)
    )
    return correction._replace(paths=_error_paths(last, how, steps)) if how.method == "paths" else correction


def _fitted(row: Floats, have: int, steps: int, rest: float) -> Floats:
    return np.concatenate([row[:have], np.full(steps - have, rest)])


def _error_paths(archive: Archive, how: Recalibration, steps: int) -> Floats:
    """(n, H) whole errors of forecasts made 1, 2, ... seasons ago, newest first; those not fully known are left out."""
    t = len(archive.y) - 1
    paths = []
    for i in range(1, how.cycles + 1):
        s = t - i * how.season
        if s < 0:
            break
        if s + steps <= t and archive.mean.shape[1] >= steps:
            path = archive.y[s + 1 : s + 1 + steps] - archive.mean[s, :steps]
            if not np.isnan(path).any():
                paths.append(path)
    return np.array(paths) if paths else np.zeros((0, steps))


def recalibrate_members(members: Floats, mean: Floats, fix: Correction, floor: float) -> Floats:
    """(..., J, H) members, shifted and scaled around their mean by `fix`, b and c of (..., H) each; none goes below
    `floor`. Order and coupling stay."""
    m, b, c = mean[..., None, :], fix.b[..., None, :], fix.c[..., None, :]
    return np.asarray(np.maximum((m + b) + c * (members - m), floor))


def recalibrate_trace(trace: Trace, fixes: Sequence[Correction], how: Recalibration) -> Trace:
    """The trace that is planned on, from one of `fixes` for each window. With method "paths" every window must have the
    same number of error paths."""
    if trace.is_scores or trace.members.shape[3] != 1:
        raise InputError("trace", f"{trace!r}", "members of a single outcome")
    if len(fixes) != trace.windows:
        raise InputError("corrections", len(fixes), f"{trace.windows}, one per window")
    common: dict[str, Any] = dict(
        coupling=trace.coupling, model=trace.model, cutoff=trace.cutoff or None, issued=trace.issued or None
    )
    note = f"recalibrated by phase, {how.method}, season {how.season}, {how.cycles} cycles"
    mean = trace.mean[:, :, 0]
    if how.method == "paths":
        counts = {0 if f.paths is None else len(f.paths) for f in fixes}
        if len(counts) != 1 or min(counts) < LEAST_PATHS:
            raise InputError("corrections", f"{sorted(counts)} error paths", f"equally many, at least {LEAST_PATHS}")
        errors = np.stack([f.paths for f in fixes if f.paths is not None])
        common["coupling"] = "joint"
        members: Floats = np.maximum(mean[:, None, :] + errors, how.floor)
        weights = None
    else:
        stacked = Correction(np.stack([f.b for f in fixes]), np.stack([f.c for f in fixes]), fixes[0].sums)
        members = recalibrate_members(trace.members[:, :, :, 0], mean, stacked, how.floor)
        equal = bool((trace.weights == trace.weights[0, 0]).all())
        weights = None if equal else trace.weights  # shares of shares would differ in the last digit
    if not trace.panel:
        members = members[0]
        weights = None if weights is None else weights[0]
    return Trace.from_members(members, weights, notes=(*trace.notes, note), **common)


Ints = NDArray[np.int64]
_CELLS = 2_000_000  # of members held at a time


def past_forecasts(
    model: Forecaster, y: Floats, first: int, last: int, keep: int, *, horizon: int, season: int, stream: np.uint64,
    known: Floats | None = None,
) -> tuple[Archive, Floats]:  # fmt: skip
    """The archive of a series as if `model` had been asked at every origin from `first` to `last` (walk-forward), and
    the members (keep, J, H) of the last `keep` origins. Rows before `first` are not known."""
    mean, spread = (np.full((last + 1, horizon), np.nan) for _ in range(2))
    forecasts: list[Floats] = []
    name, at, size = "", first, 8  # a few at first, to see how many members there are
    while at <= last:
        upto = min(at + size, last + 1)
        marks = np.arange(at, upto, dtype=np.int64)
        part = model.forecast(y[:upto], marks, horizon=horizon, season=season, stream=stream, known=known)
        members = np.asarray(part.expand().members)
        centre = members.mean(axis=1)
        mean[at:upto], spread[at:upto] = centre, np.abs(members - centre[:, None, :]).mean(axis=1)
        if upto > last + 1 - keep:
            forecasts.append(members[max(0, last + 1 - keep - at) :])
        name, at = part.model, upto
        size = max(1, _CELLS // (members.shape[1] * horizon))
    return Archive(y[: last + 1], mean, spread, (name,) * (last + 1)), np.concatenate(forecasts)


def models_at(
    model: Forecaster, y: Floats, cutoffs: Ints, *, horizon: int, season: int, stream: np.uint64,
    known: Floats | None = None,
) -> list[Forecaster]:  # fmt: skip
    """The model that forecasts at each cutoff: the one that `model` chooses there (`Auto.choices`), or itself."""
    choices = getattr(model, "choices", None)
    if choices is None:
        return [model] * len(cutoffs)
    return list(choices(y, cutoffs, horizon=horizon, season=season, stream=stream, known=known))


def walk_recalibrated(
    model: Forecaster, y: Floats, cutoffs: Ints, how: Recalibration, *, horizon: int, season: int, stream: np.uint64,
    outcomes: Floats | None = None, known: Floats | None = None,
) -> Floats:  # fmt: skip
    """(O, J, H) members at rising `cutoffs`, each recalibrated from what was known then about the model that forecasts
    there. `outcomes`: what happened, where `y` has outliers cut back. With method "paths" J is the least number of
    error paths known at any of them; each takes its newest."""
    models = models_at(model, y, cutoffs, horizon=horizon, season=season, stream=stream, known=known)
    several = list(dict.fromkeys(models))
    raws: list[Floats] = [np.zeros((0, 0))] * len(cutoffs)
    means, paths = np.zeros((len(cutoffs), horizon)), [np.zeros((0, horizon))] * len(cutoffs)
    for part in several:
        places = [o for o, chosen in enumerate(models) if chosen == part]
        marks = cutoffs[places]
        first = max(first_origin(part, y, season), int(marks[0]) - 2 * how.cycles * how.season)
        last = int(marks[-1])
        archive, members = past_forecasts(
            part, y, first, last, last + 1 - int(marks[0]), horizon=horizon, season=season, stream=stream,
            known=known_for(part, known),
        )  # fmt: skip
        if outcomes is not None:
            archive = archive._replace(y=outcomes[: last + 1])
        raw = members[marks - marks[0]]
        if how.method == "rolling":
            fix = corrections(archive, how)
            fix_at_marks = Correction(fix.b[marks], fix.c[marks], fix.sums)
            raw = recalibrate_members(raw, archive.mean[marks], fix_at_marks, how.floor)
        means[places] = archive.mean[marks]
        for place, t, own in zip(places, marks.tolist(), raw, strict=True):
            raws[place] = own
            if how.method == "paths":
                until = Archive(archive.y[: t + 1], archive.mean[: t + 1], archive.spread[: t + 1])
                errors = correction_at(until, how, horizon).paths
                paths[place] = paths[place] if errors is None else errors
    size = min(map(len, paths))
    if how.method == "rolling" or size < LEAST_PATHS:
        return np.stack(raws)
    return np.asarray(np.maximum(means[:, None, :] + np.stack([x[:size] for x in paths]), how.floor))


@dataclass(frozen=True)
class Recalibrating:
    """A forecaster whose members are recalibrated from what it said before, walk-forward."""

    model: Forecaster
    how: Recalibration
    label: str = ""  # in its name; the method, if none
    by_series: bool = False  # by each series' own season, not by `how.season`

    @property
    def takes_known(self) -> bool:
        return bool(getattr(self.model, "takes_known", False))

    @property
    def name(self) -> str:
        return f"{self.model.name}, {self.label or self.how.method}"

    def min_history(self, season: int) -> int:
        more = LEAST_PATHS * self.how.season if self.how.method == "paths" else 0
        return int(self.model.min_history(season)) + more

    def forecast(
        self, y: Floats, cutoffs: Ints, *, horizon: int, season: int, stream: np.uint64, known: Floats | None = None
    ) -> PathForecast:
        how = replace(self.how, season=season) if self.by_series else self.how
        if not how.active:
            return self.model.forecast(y, cutoffs, horizon=horizon, season=season, stream=stream, known=known)
        members = walk_recalibrated(
            self.model, y, cutoffs, how, horizon=horizon, season=season, stream=stream, known=known
        )
        return PathForecast(
            members, members.mean(axis=1), members.std(axis=1), np.asarray(cutoffs, np.int64), self.name, "joint"
        )
