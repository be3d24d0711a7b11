"""What every adapter returns, the options they share, and how blocks of numbers become traces.

Shapes: W windows (a series, or a series at one cutoff), H steps, Q quantile levels, J members. A block is one window:
(H, Q) quantiles, (J, H) paths or (H, 2) mean and standard deviation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import date
from functools import cached_property
from typing import Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.trace import Trace, join_traces

__all__ = [
    "Options",
    "Repair",
    "Settings",
    "Source",
    "TraceSet",
    "join_trace_sets",
    "normal_traces",
    "path_traces",
    "quantile_traces",
]


Floats = NDArray[np.float64]
Blocks = Floats | Sequence[Floats]  # (W, ., .), or one (., .) per window where they differ
Method = Literal["sobol", "sampled"]

_COUPLING_HINT = (
    "Quantiles and intervals do not say how steps depend on each other: coupling='comonotone' keeps one quantile at "
    "every step, coupling='independent' (with rng=np.random.default_rng(seed)) draws every step by itself."
)
_GRID_POINTS, _DRAWN_POINTS = 9, 64  # draws need more members than a grid for the same accuracy


class Options(TypedDict, total=False):
    """Keyword options of every adapter."""

    coupling: Literal["comonotone", "independent", "joint"]  # of steps; to be said with marginals, samples are "joint"
    points: int  # members per window out of marginals: 9 comonotone, 64 independent
    method: Method  # of independent draws; default "sampled"
    rng: np.random.Generator  # of independent draws, which need one
    crossing: Literal["refuse", "sort"]  # what is done about crossed quantiles; default "refuse"
    point: Literal["median", "ignore"]  # may the point forecast stand in for a missing level 0.5? default "median"
    ragged: bool  # default False; True allows horizons or member counts that differ: one trace per window
    cutoff: Any  # last observed time: one, one per window, or {id: time}
    issued: Any  # when the forecast was made: likewise


@dataclass(frozen=True)
class Settings:
    """`Options`, checked and filled in."""

    coupling: str | None = None
    points: int | None = None
    method: Method = "sampled"
    rng: np.random.Generator | None = None
    crossing: Literal["refuse", "sort"] = "refuse"
    point: str = "median"
    ragged: bool = False
    cutoff: Any = None
    issued: Any = None

    @classmethod
    def of(cls, options: Mapping[str, Any], what: str) -> Settings:
        known = tuple(f.name for f in fields(cls))
        for name in options:
            if name not in known:
                raise InputError(f"{what}.options", f"unknown option {name!r}", f"one of {known} or of its own")
        made = cls(**options)
        for name, allowed in (
            ("coupling", (None, "comonotone", "independent", "joint")),
            ("method", ("sobol", "sampled")),
            ("crossing", ("refuse", "sort")),
            ("point", ("median", "ignore")),
            ("ragged", (False, True)),
        ):
            if getattr(made, name) not in allowed:
                raise InputError(f"{what}.{name}", repr(getattr(made, name)), f"one of {allowed}")
        return made

    def marginal(self, what: str) -> dict[str, Any]:
        """How `Trace` shall make members out of marginals, or the request to say it."""
        if self.coupling == "comonotone":
            return {"points": _GRID_POINTS if self.points is None else self.points, "method": "grid"}
        if self.coupling == "independent":
            if not isinstance(self.rng, np.random.Generator):
                hint = "Pass rng=np.random.default_rng(seed)."
                raise InputError(
                    f"{what}.rng", repr(self.rng), "a numpy Generator for coupling='independent'", hint=hint
                )
            points = _DRAWN_POINTS if self.points is None else self.points
            return {"points": points, "method": self.method, "rng": self.rng}
        seen = "none" if self.coupling is None else repr(self.coupling)
        raise InputError(f"{what}.coupling", seen, "'comonotone' or 'independent'", hint=_COUPLING_HINT)

    def joint(self, what: str) -> Literal["joint", "independent"]:
        """Samples are paths, unless it is declared that their steps were drawn independently."""
        if self.coupling in (None, "joint"):
            return "joint"
        if self.coupling == "independent":
            return "independent"
        raise InputError(f"{what}.coupling", repr(self.coupling), "'joint' or 'independent' for sample paths")


@dataclass(frozen=True)
class Repair:
    """Something that was mended on the way in."""

    kind: Literal["crossing"]  # crossed quantiles were sorted
    id: str  # of the series
    ds: str  # first forecast time of the window, "" unknown
    steps: tuple[int, ...]  # at which, from 0

    def __str__(self) -> str:
        when = f" from {self.ds}" if self.ds else ""
        return f"series {self.id!r}{when}: crossed quantiles sorted at steps {', '.join(map(str, self.steps))}"


@dataclass(frozen=True)
class Source:
    """Where blocks come from; `locate` names the cell [i, k] of window w as (column, place) for messages."""

    what: str
    ids: tuple[str, ...]  # (W,)
    locate: Callable[[int, int, int], tuple[str, str]]
    ds: tuple[str, ...] = ()  # (W,) time of the first step, or unknown
    cutoff: tuple[str, ...] = ()  # (W,) last observed time as found in the source
    model: str = ""
    notes: tuple[str, ...] = ()

    def fault(self, w: int, i: int, k: int, seen: object, expected: str, hint: str = "") -> InputError:
        column, place = self.locate(w, i, k)
        return InputError(f"{self.what}.{column}", seen, expected, index=place, hint=hint)


@dataclass(frozen=True, eq=False)
class TraceSet:
    """Traces by series: one panel where all windows have the same horizon and members, else one trace each."""

    ids: tuple[str, ...]  # (W,) an id appears once per cutoff
    traces: Trace | tuple[Trace, ...]  # one panel, or (W,) traces
    ds: tuple[str, ...]  # (W,) time of the first step; () unknown
    cutoff: tuple[str, ...]  # (W,) last observed time; () unknown
    report: tuple[Repair, ...] = field(default=())  # what was mended, one for each window

    @property
    def panel(self) -> Trace:
        """The panel trace (W windows), in the order of `ids`."""
        if isinstance(self.traces, Trace):
            return self.traces
        raise InputError("traces", "windows of different shape", "one panel", hint="Take them one by one, by id.")

    def window(self, w: int) -> Trace:
        """The trace of `ids[w]`."""
        if isinstance(self.traces, Trace):
            return self.traces.window(w)
        if not 0 <= w < len(self.traces):
            raise InputError("window", w, f"a window from 0 to {len(self.traces) - 1}")
        return self.traces[w]

    @cached_property
    def _where(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for w, name in enumerate(self.ids):
            found.setdefault(name, []).append(w)
        return found

    def __getitem__(self, key: Any) -> Trace:
        """By id, or by (id, cutoff or first forecast time) where an id has several windows."""
        name, when = (key[0], time_text(key[1])) if isinstance(key, tuple) and len(key) == 2 else (key, None)
        found = self._where.get(str(name))
        if found is None:
            raise InputError("traces", f"id {str(name)!r}", f"one of {_some(self.ids)}")
        if when is None:
            if len(found) > 1:
                expected = f"(id, cutoff) with a cutoff of {_some(self._times(found))}"
                raise InputError("traces", f"id {str(name)!r} with {len(found)} windows", expected)
            return self.window(found[0])
        for w in found:
            if any(times and _same_time(times[w], when) for times in (self.cutoff, self.ds)):
                return self.window(w)
        raise InputError("traces", f"{str(name)!r} at {when!r}", f"one of {_some(self._times(found))}")

    def _times(self, windows: Sequence[int]) -> tuple[str, ...]:
        times = self.cutoff or self.ds
        return tuple(times[w] for w in windows) if times else ()

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, key: object) -> bool:
        return str(key) in self._where

    def __iter__(self) -> Iterator[Trace]:
        return (self.window(w) for w in range(len(self)))

    def __repr__(self) -> str:
        shape = repr(self.traces) if isinstance(self.traces, Trace) else "one trace per window"
        mended = f", {len(self.report)} windows repaired" if self.report else ""
        return f"TraceSet({len(self)} windows of {len(self._where)} series: {shape}{mended})"


# -------------------------------------------------------------------- blocks to traces


def quantile_traces(source: Source, levels: Floats, blocks: Blocks, settings: Settings) -> TraceSet:
    """Quantiles, (H, Q) per window, at the strictly ascending `levels` (Q,)."""
    made = settings.marginal(source.what)
    _check_finite(source, blocks)
    report = _check_crossing(source, levels, blocks, settings)
    if report:
        mended = f"crossed quantiles sorted in {len(report)} windows: {_some([r.id for r in report])}"
        source = replace(source, notes=(*source.notes, mended))

    def build(block: Floats, cutoff: Any, issued: Any) -> Trace:
        return Trace.from_quantiles(
            levels, block, crossing=settings.crossing, model=source.model, cutoff=cutoff, issued=issued, **made
        )

    return _build(source, blocks, settings, build, report, axes=("steps", "levels"))


def path_traces(source: Source, blocks: Blocks, settings: Settings) -> TraceSet:
    """Sample paths, (J, H) per window."""
    coupling = settings.joint(source.what)
    _check_finite(source, blocks)

    def build(block: Floats, cutoff: Any, issued: Any) -> Trace:
        return Trace.from_members(block, coupling=coupling, model=source.model, cutoff=cutoff, issued=issued)

    return _build(source, blocks, settings, build, (), axes=("members", "steps"))


def normal_traces(source: Source, blocks: Blocks, settings: Settings) -> TraceSet:
    """Mean and standard deviation, (H, 2) per window."""
    made = settings.marginal(source.what)
    _check_finite(source, blocks)
    for w, block in enumerate(blocks):
        bad = ~(block[:, 1] >= 0)
        if bad.any():
            h = int(np.argmax(bad))
            raise source.fault(w, h, 1, block[h, 1], "a standard deviation of at least 0")

    def build(block: Floats, cutoff: Any, issued: Any) -> Trace:
        return Trace.from_mean(block[..., 0], block[..., 1], model=source.model, cutoff=cutoff, issued=issued, **made)

    return _build(source, blocks, settings, build, (), axes=("steps", "columns"))


def _build(
    source: Source, blocks: Blocks, settings: Settings, build: Callable[[Floats, Any, Any], Trace],
    report: tuple[Repair, ...], axes: tuple[str, str],
) -> TraceSet:  # fmt: skip
    if len(blocks) == 0 or any(block.size == 0 for block in blocks):
        raise InputError(source.what, "no forecasts", "at least one series and one step")
    _check_distinct(source)
    if source.cutoff and settings.cutoff is not None:
        raise InputError(f"{source.what}.cutoff", "a cutoff in the forecast and one as option", "one of the two")
    cutoff = source.cutoff or spread_times(settings.cutoff, source.ids, f"{source.what}.cutoff")
    issued = spread_times(settings.issued, source.ids, f"{source.what}.issued")
    panel = _as_panel(source, blocks, settings, axes)
    traces: Trace | tuple[Trace, ...]
    if panel is not None:
        traces = _with_notes(build(panel, cutoff or None, issued or None), source.notes)
    else:
        traces = tuple(
            _with_notes(build(block, cutoff[w] if cutoff else None, issued[w] if issued else None), source.notes)
            for w, block in enumerate(blocks)
        )
    return TraceSet(source.ids, traces, source.ds, cutoff, report)


def _with_notes(trace: Trace, notes: tuple[str, ...]) -> Trace:
    return trace.noted(notes)


def _as_panel(source: Source, blocks: Blocks, settings: Settings, axes: tuple[str, str]) -> Floats | None:
    if isinstance(blocks, np.ndarray):
        return blocks
    shapes = [block.shape for block in blocks]
    if len(set(shapes)) == 1:
        return np.stack(list(blocks))
    if settings.ragged:
        return None
    usual = Counter(shapes).most_common(1)[0][0]  # of equally common ones, the first seen
    w = next(i for i, shape in enumerate(shapes) if shape != usual)
    axis = 0 if shapes[w][0] != usual[0] else 1
    _, place = source.locate(w, shapes[w][0] - 1, shapes[w][1] - 1)
    raise InputError(
        f"{source.what}.{axes[axis]}", f"{shapes[w][axis]} {axes[axis]}",
        f"{usual[axis]} {axes[axis]}, as series {source.ids[shapes.index(usual)]!r} has",
        index=f"{place} (the last)", hint="ragged=True makes one trace per series.",
    )  # fmt: skip


def _check_distinct(source: Source) -> None:
    seen: dict[tuple[str, str, str], int] = {}
    for w, name in enumerate(source.ids):
        key = (name, source.cutoff[w] if source.cutoff else "", source.ds[w] if source.ds else "")
        if key in seen:
            when = next((f" at {text}" for text in key[1:] if text), "")
            expected = f"an id of its own; window {seen[key]} has it already"
            raise InputError(f"{source.what}.ids", f"{name!r}{when} again", expected, index=w)
        seen[key] = w


def _check_finite(source: Source, blocks: Blocks) -> None:
    for w, i, k in _first(blocks, lambda block: ~np.isfinite(block)):
        raise source.fault(w, i, k, blocks[w][i, k], "a finite number")


def _check_crossing(source: Source, levels: Floats, blocks: Blocks, settings: Settings) -> tuple[Repair, ...]:
    def crossed(block: Floats) -> NDArray[np.bool_]:
        return np.asarray(np.diff(block, axis=-1) < 0)

    if settings.crossing == "refuse":
        for w, h, q in _first(blocks, crossed):
            lower, upper = blocks[w][h, q], blocks[w][h, q + 1]
            hint = "Crossed quantiles are put in order, and noted, with crossing='sort'."
            if any("taken as the median" in note for note in source.notes):
                hint += " Where the point forecast is to blame, leave it out with point='ignore'."
            raise source.fault(
                w, h, q + 1, f"{upper} at level {levels[q + 1]:g}",
                f"at least {lower}, the value of {source.locate(w, h, q)[0]} at level {levels[q]:g}", hint,
            )  # fmt: skip
        return ()
    report = []
    for w, block in enumerate(blocks):
        steps = np.flatnonzero(crossed(block).any(axis=-1))
        if steps.size:
            start = source.ds[w] if source.ds else ""
            report.append(Repair("crossing", source.ids[w], start, tuple(int(h) for h in steps)))
    return tuple(report)


def _first(blocks: Blocks, bad: Callable[[Floats], NDArray[np.bool_]]) -> Iterator[tuple[int, int, int]]:
    """The first bad cell, or nothing."""
    if isinstance(blocks, np.ndarray):
        found = bad(blocks)
        if found.any():
            w, i, k = (int(x) for x in np.unravel_index(int(np.argmax(found)), found.shape))
            yield w, i, k
        return
    for w, block in enumerate(blocks):
        found = bad(block)
        if found.any():
            i, k = (int(x) for x in np.unravel_index(int(np.argmax(found)), found.shape))
            yield w, i, k
            return


# -------------------------------------------------------------------- times


def time_text(value: Any) -> str:
    """ISO text for dates and times; whole numbers and periods as they print."""
    return str(value.isoformat()) if isinstance(value, date) else str(value)


def _same_time(text: str, asked: str) -> bool:
    return text == asked or text == f"{asked}T00:00:00"


def spread_times(value: Any, ids: tuple[str, ...], name: str) -> tuple[str, ...]:
    """One time per window out of one time, one per window, or {id: time}."""
    if value is None:
        return ()
    if isinstance(value, Mapping):
        by_id = {str(k): v for k, v in value.items()}
        for one in ids:
            if one not in by_id:
                raise InputError(name, "no time", "a time for every series", index=f"series {one!r}")
        return tuple(time_text(by_id[one]) for one in ids)
    if isinstance(value, str | date | int | float | np.generic) or not hasattr(value, "__len__"):
        return (time_text(value),) * len(ids)
    if len(value) != len(ids):
        raise InputError(name, f"{len(value)} times", f"1 or {len(ids)}, one per window")
    return tuple(time_text(one) for one in value)


def _some(names: Sequence[str], limit: int = 8) -> str:
    shown = ", ".join(repr(n) for n in names[:limit])
    return shown if len(names) <= limit else f"{shown}, ... ({len(names)} in all)"


def join_trace_sets(*sets: TraceSet) -> TraceSet:
    """One set whose outcomes have the fields of all, in order; windows belong together by id, cutoff and first step.

    Member j of a window stays with member j of the others, as `join_traces` has it: paths that were drawn together
    stay together, comonotone members move together, independent ones stay independent.
    """
    if not sets:
        raise InputError("sets", "none", "at least one")
    first = sets[0]
    wanted = _keys(first)
    traces: list[Trace | tuple[Trace, ...]] = []
    for i, one in enumerate(sets):
        place = {key: w for w, key in enumerate(_keys(one))}
        missing = [key for key in wanted if key not in place]
        if missing or len(place) != len(wanted):
            seen = f"no {missing[0]}" if missing else f"{len(place)} windows"
            raise InputError("sets", seen, f"the {len(wanted)} windows of the first", index=i)
        order = np.array([place[key] for key in wanted])
        own = one.traces
        traces.append(own.some(order) if isinstance(own, Trace) else tuple(own[w] for w in order.tolist()))
    report = tuple(repair for one in sets for repair in one.report)
    panels = [t for t in traces if isinstance(t, Trace)]
    if len(panels) == len(sets):
        return TraceSet(first.ids, join_traces(*panels), first.ds, first.cutoff, report)
    windows = [[t.window(w) if isinstance(t, Trace) else t[w] for t in traces] for w in range(len(first))]
    return TraceSet(first.ids, tuple(join_traces(*parts) for parts in windows), first.ds, first.cutoff, report)


def _keys(one: TraceSet) -> list[tuple[str, str, str]]:
    """Of every window; what a set does not say is "" for all of its windows."""
    blank = ("",) * len(one)
    return list(zip(one.ids, one.cutoff or blank, one.ds or blank, strict=True))
