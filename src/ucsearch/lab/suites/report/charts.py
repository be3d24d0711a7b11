"""The figures of a report, drawn from plain values. What the values mean is decided elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ucsearch.lab.suites.report.labels import place_labels
from ucsearch.report.svg import (
    WIDTH,
    Scale,
    circle,
    dots,
    figure,
    fit_scale,
    line,
    linear,
    path,
    text,
    text_width,
)
from ucsearch.report.text import count_text, is_number, joined, number, short, signed

__all__ = [
    "Delta",
    "Group",
    "Point",
    "Rate",
    "calibration",
    "delta_scale",
    "forest",
    "rates",
    "scatter",
    "strips",
]

_EDGE = 10.0  # units left and right of a track
_NAMED = 15  # points that can stand beside their names; more are numbered
_THIN = 300  # dots per row; more hide each other


@dataclass(frozen=True)
class Delta:
    """One family against one comparator; bounds are lower bounds of the mean, None where they do not exist."""

    label: str
    mean: float
    student: float | None
    bootstrap: float | None
    percentile: float | None
    upper: float | None = None
    passed: bool | None = None  # None where no gate decides
    each: tuple[float, ...] = field(default=(), repr=False)  # one delta per series

    @property
    def bound(self) -> float:
        """What decides: the smaller of the two; minus infinity where one is missing."""
        if self.student is None or self.bootstrap is None:
            return -math.inf
        return min(self.student, self.bootstrap)


@dataclass(frozen=True)
class Group:
    """Values of one row of dots."""

    label: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class Point:
    """One policy."""

    label: str
    x: float
    y: float
    main: bool = False


@dataclass(frozen=True)
class Rate:
    """Rates of one family between 0 and 1, by name; None where not defined."""

    label: str
    values: dict[str, float | None]


def _track(scale: Scale, top: float, bottom: float, most: int = 5) -> list[str]:
    """A horizontal axis: grid lines and labels below."""
    out = []
    for value, label in scale.ticks(most):
        x = scale(value)
        half = text_width(label, 10.5) / 2.0
        out.append(line(x, top, x, bottom, "zero" if value == 0.0 else "grid"))
        out.append(text(min(max(x, half), WIDTH - half), bottom + 13.0, label, "s", "middle"))
    return out


# -------------------------------------------------------------------- deltas


def delta_scale(deltas: Sequence[Delta]) -> Scale:
    """One axis for all panels: zero, all means and bounds, and four fifths of each family's series."""
    values = [0.0]
    for delta in deltas:
        values += [
            v for v in (delta.mean, delta.student, delta.bootstrap, delta.percentile, delta.upper) if is_number(v)
        ]
        each = sorted(v for v in delta.each if math.isfinite(v))
        if each:
            values += [each[len(each) // 10], each[-1 - len(each) // 10]]
    return linear(values, _EDGE, WIDTH - _EDGE, pad=0.04)


def forest(key: str, title: str, deltas: Sequence[Delta], scale: Scale, caption: str = "") -> str:
    """Means with their lower bounds, one row per family, the series behind them."""
    row, top = 40.0, 4.0
    bottom = top + row * len(deltas)
    body = _track(scale, top, bottom)
    told = []
    for i, delta in enumerate(deltas):
        y, colour = top + row * i, "bad" if delta.passed is False else "main"
        if not math.isfinite(delta.mean):
            told.append(f"{delta.label}: no bound, because a series lacks a figure")
            body.append(text(2.0, y + 13.0, short(delta.label, 18), "t"))
            body.append(text(WIDTH - 2.0, y + 13.0, "a series lacks a figure ✗", "v bad-t", "end"))
            continue
        count = count_text(len(delta.each), "series", "series")
        verdict = "" if delta.passed is None else " ✓" if delta.passed else " ✗"
        bound = f"bound {signed(delta.bound)}{verdict}"
        if delta.passed is None and not math.isfinite(delta.bound):
            bound = f"no bound from {count}"  # too few for one, and nobody asks for it
        right = f"{signed(delta.mean)}, {bound}"
        room = int((WIDTH - 12.0 - text_width(right, bold=True)) / text_width("x", 12.0, bold=True))
        body.append(text(2.0, y + 13.0, short(delta.label, room), "t"))
        body.append(text(WIDTH - 2.0, y + 13.0, right, f"v {colour}-t", "end"))
        body += _interval(delta, scale, y + 27.0, colour)
        tip = (
            f"{delta.label}: mean {signed(delta.mean, 4)}, Student-t bound {signed(delta.student, 4)}, "
            f"bootstrap-t bound {signed(delta.bootstrap, 4)}, percentile bound {signed(delta.percentile, 4)}, {count}"
        )
        body.append(circle(scale(delta.mean), y + 27.0, 4.5, f"fill-{colour}", tip))
        told.append(tip)
    return figure(key, title, ". ".join(told) + ".", bottom + 20.0, body, caption)


def _interval(delta: Delta, scale: Scale, y: float, colour: str) -> Iterator[str]:
    """All marks of a row but its mean."""
    shown = [scale(v) for v in delta.each if scale.holds(v)]
    if shown:
        yield path([c for x in shown for c in ("M", x, y + 5.5, "v", 4.0)], "rug")
    if delta.upper is not None:
        yield line(scale(delta.mean), y, scale(delta.upper), y, f"thin {colour}")
    if math.isfinite(delta.bound) or delta.passed is not None:
        yield line(scale(max(delta.bound, scale.low)), y, scale(delta.mean), y, f"bar {colour}")
        if delta.bound < scale.low:
            yield path(["M", _EDGE + 5.0, y - 4.0, "L", _EDGE, y, "l", 5.0, 4.0], f"bar {colour}")
    if delta.percentile is not None:
        yield circle(scale(delta.percentile), y, 3.0, "hollow")
    if delta.student is not None:
        yield line(scale(delta.student), y - 5.0, scale(delta.student), y + 5.0, f"bar {colour}")
    if delta.bootstrap is not None:
        fill = f"fill-{colour}"
        yield path(["M", scale(delta.bootstrap) - 4.0, y, "l", 4.0, -4.0, "l", 4.0, 4.0, "l", -4.0, 4.0, "z"], fill)


# -------------------------------------------------------------------- policies


def scatter(
    key: str, title: str, points: Sequence[Point], x_title: str, y_title: str, *, log_x: bool = False, caption: str = ""
) -> str:
    """One labelled point per policy."""
    height, top, left = 300.0, 24.0, 44.0
    x_scale = (
        fit_scale([p.x for p in points], left + 8.0, WIDTH - _EDGE, prefer_log=log_x)
        if log_x
        else linear([p.x for p in points], left + 8.0, WIDTH - _EDGE)
    )
    y_scale = linear([p.y for p in points], height, top, pad=0.1)
    labels = [(v, t) for v, t in y_scale.ticks(6)]
    body = [text(2.0, 12.0, y_title, "s")]
    for value, label in labels:
        y = y_scale(value)
        body += [line(left, y, WIDTH, y, "grid"), text(left - 4.0, y + 3.5, label, "s", "end")]
    body += _track(x_scale, top, height)
    body.append(text(WIDTH, height + 30.0, x_title, "s", "end"))
    spots = [(x_scale(p.x), y_scale(p.y)) for p in points]
    names = [short(p.label, 24) for p in points]
    if len(points) > _NAMED:
        legend = ", ".join(f"{i} {p.label}" for i, p in enumerate(points, 1) if not p.main)
        caption = f"{caption} {legend}.".strip()
        names = [names[i] if p.main else f"{i + 1}" for i, p in enumerate(points)]
    order = sorted(range(len(points)), key=lambda i: (not points[i].main, spots[i]))
    placed = place_labels(spots, names, order, (left, top - 8.0, WIDTH, height))
    for i in reversed(order):
        point = points[i]
        (x, y), (at, base, anchor, far) = spots[i], placed[i]
        if far:
            body.append(line(x, y, at, base - 3.5, "leader"))
        tip = f"{point.label}: {y_title.lower()} {number(point.y)}, {x_title.lower()} {number(point.x)}"
        body.append(circle(x, y, 5.0 if point.main else 4.0, "fill-main" if point.main else "fill-other", tip))
        body.append(text(at, base, names[i], "v main-t" if point.main else "v", anchor))
    told = "; ".join(f"{p.label}: {number(p.y)} at {number(p.x)}" for p in points)
    return figure(key, title, f"{y_title} against {x_title}. {told}.", height + 36.0, body, caption)


# -------------------------------------------------------------------- distributions and rates


def strips(key: str, title: str, groups: Sequence[Group], x_title: str, caption: str = "") -> str:
    """Every value a dot, one row per group, the median a stroke."""
    row, top = 40.0, 4.0
    bottom = top + row * len(groups)
    scale = fit_scale([v for g in groups for v in g.values], _EDGE, WIDTH - _EDGE)
    body = _track(scale, top, bottom)
    told = []
    for i, group in enumerate(groups):
        y, values = top + row * i, sorted(group.values)
        middle = (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2.0
        right = f"median {number(middle)}"
        room = int((WIDTH - 12.0 - text_width(right)) / text_width("x", 12.0, bold=True))
        body.append(text(2.0, y + 13.0, short(group.label, room), "t"))
        body.append(text(WIDTH - 2.0, y + 13.0, right, "v", "end"))
        step = max(1, math.ceil(len(values) / _THIN))
        # Multiples of the golden ratio spread evenly at every length, and are the same in every run.
        cloud = [(scale(v), y + 21.0 + 13.0 * ((n * 0.6180339887) % 1.0)) for n, v in enumerate(values[::step])]
        body.append(dots(cloud, "cloud"))
        body.append(line(scale(middle), y + 18.0, scale(middle), y + 37.0, "bar main"))
        told.append(
            f"{group.label}: {count_text(len(values), 'window')}, median {number(middle)}, "
            f"from {number(values[0])} to {number(values[-1])}"
        )
    body.append(text(WIDTH, bottom + 30.0, x_title, "s", "end"))
    return figure(key, title, ". ".join(told) + ".", bottom + 36.0, body, caption)


def rates(key: str, title: str, rows: Sequence[Rate], names: Sequence[str], least: float, caption: str = "") -> str:
    """Rates by family against a least one: the first name filled, the second as a ring, the third as a square."""
    row, top, left, right = 26.0, 22.0, 112.0, WIDTH - 50.0
    bottom = top + row * len(rows)
    known = [v for r in rows for v in r.values.values() if v is not None]
    low = min([*known, least])
    scale = Scale("linear", max(0.0, low - max(0.01, 0.15 * (1.0 - low))), 1.0, left + 6.0, right - 4.0)
    body = _track(scale, top, bottom, 4)
    edge = scale(least)
    body += [line(edge, top - 4.0, edge, bottom, "least"), text(edge, top - 8.0, f"at least {least:g}", "s", "middle")]
    told = []
    for i, family in enumerate(rows):
        y = top + row * (i + 0.5)
        body.append(text(2.0, y + 4.0, short(family.label, 14), "t"))
        for name in reversed(names):
            value = family.values.get(name)
            if value is None:
                continue
            first = name == names[0]
            tip = f"{family.label}: {name} {number(value, 4)}"
            if first:
                body.append(circle(scale(value), y, 4.5, "fill-main" if value >= least else "fill-bad", tip))
            elif name == names[1]:
                body.append(circle(scale(value), y, 6.0, "ring", tip))
            else:
                box: list[str | float] = ["M", scale(value) - 4.0, y - 4.0, "h", 8.0, "v", 8.0, "h", -8.0, "z"]
                body.append(path(box, "ring"))
        lead = family.values.get(names[0])
        fails = lead is not None and not lead >= least
        body.append(text(WIDTH - 2.0, y + 4.0, number(lead, 4), "v bad-t" if fails else "v", "end"))
        told.append(f"{family.label}: " + joined(f"{n} {number(family.values.get(n), 4)}" for n in names))
    return figure(key, title, ". ".join(told) + ".", bottom + 20.0, body, caption)


# -------------------------------------------------------------------- calibration


def calibration(key: str, title: str, lines: dict[str, list[tuple[float, float]]], caption: str = "") -> str:
    """Observed against nominal coverage; on the diagonal they agree."""
    height, top, left = 300.0, 24.0, 44.0
    values = [v for points in lines.values() for pair in points for v in pair]
    low = max(0.0, min(values) - 0.06)
    x_scale = Scale("linear", low, 1.0, left + 8.0, WIDTH - _EDGE)
    y_scale = Scale("linear", low, 1.0, height, top)
    body = [text(2.0, 12.0, "Observed coverage", "s")]
    for value, label in y_scale.ticks(6):
        y = y_scale(value)
        body += [line(left, y, WIDTH, y, "grid"), text(left - 4.0, y + 3.5, label, "s", "end")]
    body += _track(x_scale, top, height)
    body.append(text(WIDTH, height + 30.0, "Nominal coverage", "s", "end"))
    body.append(line(x_scale(low), y_scale(low), x_scale(1.0), y_scale(1.0), "least"))
    spots, names, told = [], [], []
    for name, points in lines.items():
        ordered = sorted(points)
        if len(ordered) > 1:
            joint = [c for n, (x, y) in enumerate(ordered) for c in ("L" if n else "M", x_scale(x), y_scale(y))]
            body.append(path(joint, "leader"))
        for x, y in ordered:
            body.append(circle(x_scale(x), y_scale(y), 4.0, "fill-other", f"{name}: {number(y, 4)} at {number(x, 4)}"))
        spots.append((x_scale(ordered[-1][0]), y_scale(ordered[-1][1])))
        names.append(short(name, 24))
        told.append(f"{name}: " + joined(f"{number(y, 4)} at {number(x, 4)}" for x, y in ordered))
    placed = place_labels(spots, names, range(len(spots)), (left, top - 8.0, WIDTH, height))
    for (x, y), name, (at, base, anchor, far) in zip(spots, names, placed, strict=True):
        if far:
            body.append(line(x, y, at, base - 3.5, "leader"))
        body.append(text(at, base, name, "v", anchor))
    return figure(key, title, ". ".join(told) + ".", height + 36.0, body, caption)
