"""Pictures of pages: parts of an amount, differences with intervals, a monitor's evidence, ranks, a forecast's fan."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from ucsearch.report.svg import WIDTH, Scale, circle, figure, line, linear, path, text
from ucsearch.report.text import esc, number, short

__all__ = [
    "COLOURS",
    "LEVELS",
    "bars",
    "bounds_by_size",
    "curves",
    "evidence_curve",
    "fan",
    "intervals",
    "key",
    "paths",
    "quantiles",
    "rank_histogram",
    "spark",
    "stacked",
]


COLOURS = ("main", "bad", "warn", "other")  # of parts, in their order
_ROW = 38.0  # a label above its bar: names are longer than a phone is wide
_AXIS = 24.0
_MARGIN = 6.0


def stacked(name: str, title: str, rows: Sequence[tuple[str, Sequence[float]]], parts: Sequence[str], unit: str) -> str:
    """Bars of equal scale, each split into `parts`; negative parts are left out of the picture."""
    totals = [math.fsum(x for x in values if x > 0.0) for _, values in rows]
    scale = Scale("linear", 0.0, max([*totals, 1e-300]), _MARGIN, WIDTH - _MARGIN)
    body = []
    for i, ((label, values), total) in enumerate(zip(rows, totals, strict=True)):
        y, at = i * _ROW, 0.0
        body.append(text(_MARGIN, y + 12.0, short(label, 34), "v"))
        body.append(text(WIDTH - _MARGIN, y + 12.0, number(_round(total)), "v", "end"))
        for k, value in enumerate(values):
            if value > 0.0:
                x, end = scale(at), scale(at + value)
                told = f"{label}: {parts[k]} {number(_round(value))} {unit}"
                body.append(
                    f'<rect x="{x:.1f}" y="{y + 17.0:.1f}" width="{max(end - x, 0.2):.1f}" height="13" '
                    f'class="fill-{COLOURS[k % len(COLOURS)]}"><title>{esc(told)}</title></rect>'
                )
                at += value
    told = "; ".join(f"{label} {number(_round(t))}" for (label, _), t in zip(rows, totals, strict=True))
    return figure(name, title, f"{told} {unit}", _ROW * len(rows), body)


def intervals(
    name: str, title: str, rows: Sequence[tuple[str, float, float, float]], unit: str, caption: str = ""
) -> str:
    """Differences (label, middle, low, high) around zero; those beyond chance in full colour. Unknown ends are left
    out."""
    known = [x for _, *values in rows for x in values if math.isfinite(x)]
    scale = linear([0.0, *known], _MARGIN, WIDTH - _MARGIN)
    height = _ROW * len(rows) + _AXIS
    body = []
    for i, (label, middle, low, high) in enumerate(rows):
        y = i * _ROW + 24.0
        body.append(line(scale(0.0), y - 8.0, scale(0.0), y + 12.0, "zero"))  # between the labels, never through one
        tone = "main" if low > 0.0 else "bad" if high < 0.0 else "other"
        body.append(text(_MARGIN, y - 12.0, short(label, 44), "v"))
        if math.isfinite(low) and math.isfinite(high):
            css = "leader" if tone == "other" else tone
            body.append(line(scale(low), y, scale(high), y, f"{css} bar"))
        if math.isfinite(middle):
            body.append(circle(scale(middle), y, 4.0, f"fill-{tone}", f"{label}: {middle:+.3g}{unit}"))
    for value, label in scale.ticks(4):
        half = 3.2 * len(f"{label}{unit}")
        x = min(max(scale(value), half), WIDTH - half)
        body.append(text(x, height - 6.0, f"{label}{unit}", "s", "middle"))
    told = "; ".join(f"{label} {_told(middle, low, high)}{unit}" for label, middle, low, high in rows)
    return figure(name, title, told, height, body, caption)


def key(parts: Iterable[str]) -> str:
    """Which colour is which part."""
    items = "".join(
        f'<li><svg viewBox="0 0 20 12" aria-hidden="true"><rect width="16" height="12" '
        f'class="fill-{COLOURS[k % len(COLOURS)]}"/></svg>{esc(part)}</li>'
        for k, part in enumerate(parts)
    )
    return f'<ul class="key">{items}</ul>'


def _told(middle: float, low: float, high: float) -> str:
    return f"{middle:+.3g}" + (f" ({low:+.3g} to {high:+.3g})" if math.isfinite(high - low) else "")


def _round(value: float) -> float:
    return float(f"{value:.5g}")


_CURVE_HEIGHT, _CURVE_TOP = 170.0, 8.0
_LEFT, _RIGHT, _BOTTOM = 46.0, 8.0, 24.0  # room for axes
_LEAST = 0.1  # evidence below is drawn there: nothing to see


def evidence_curve(
    key: str, title: str, points: Sequence[tuple[float, float]], limit: float, ends: tuple[str, str], caption: str = ""
) -> str:
    """(number of the outcome, evidence) on a logarithmic axis; the limit is dashed. `ends`: first and last date."""
    top = max([limit * 3.0, *(v for _, v in points if math.isfinite(v))])
    scale = Scale("log", _LEAST, min(top, 1e15), _CURVE_HEIGHT - _BOTTOM, _CURVE_TOP)
    last = max([1.0, *(x for x, _ in points)])
    across = Scale("linear", 0.0, last, _LEFT, WIDTH - _RIGHT)
    body = [line(_LEFT, scale(v), WIDTH - _RIGHT, scale(v), "grid") for v, _ in scale.ticks(5)]
    body += [text(_LEFT - 5.0, scale(v) + 3.5, label, "s", "end") for v, label in scale.ticks(5)]
    d: list[str | float] = []
    for x, value in points:
        d += ["L" if d else "M", across(x), scale(max(value, _LEAST))]
    if d:
        body.append(path(d, "main bar"))
    body.append(line(_LEFT, scale(limit), WIDTH - _RIGHT, scale(limit), "least"))
    body.append(text(_LEFT + 4.0, scale(limit) - 4.0, f"limit {number(limit)}", "s"))
    body.append(text(_LEFT, _CURVE_HEIGHT - 6.0, ends[0], "s"))
    body.append(text(WIDTH - _RIGHT, _CURVE_HEIGHT - 6.0, ends[1], "s", "end"))
    peak = max((v for _, v in points), default=0.0)
    now = points[-1][1] if points else 0.0
    told = f"Evidence now {now:.3g}, at most {peak:.3g}, limit {limit:g}"
    return figure(key, title, told, _CURVE_HEIGHT, body, caption)


def rank_histogram(key: str, title: str, counts: Sequence[float], caption: str = "") -> str:
    """Shares of outcomes by where they fell among the members; a dashed line where each should be."""
    total = math.fsum(counts) or 1.0
    shares = [c / total for c in counts]
    even = 1.0 / max(1, len(counts))
    down = Scale("linear", 0.0, max([2.0 * even, *shares]), _CURVE_HEIGHT - _BOTTOM, _CURVE_TOP)
    slot = (WIDTH - _LEFT - _RIGHT) / max(1, len(counts))
    body = []
    for i, share in enumerate(shares):
        x, y = _LEFT + i * slot, down(share)
        told = f"{100 * i * even:.0f} to {100 * (i + 1) * even:.0f} %: {100 * share:.1f} % of outcomes"
        body.append(
            f'<rect x="{x + 1.0:.1f}" y="{y:.1f}" width="{slot - 2.0:.1f}" height="{_CURVE_HEIGHT - _BOTTOM - y:.1f}" '
            f'class="fill-main"><title>{esc(told)}</title></rect>'
        )
    body.append(line(_LEFT, down(even), WIDTH - _RIGHT, down(even), "least"))
    body += [text(_LEFT - 5.0, down(v) + 3.5, f"{100 * v:.0f} %", "s", "end") for v in (0.0, even)]
    body.append(text(_LEFT, _CURVE_HEIGHT - 6.0, "below all members", "s"))
    body.append(text(WIDTH - _RIGHT, _CURVE_HEIGHT - 6.0, "above all members", "s", "end"))
    told = ", ".join(f"{100 * s:.0f} %" for s in shares)
    return figure(key, title, f"Shares of outcomes from low to high ranks: {told}", _CURVE_HEIGHT, body, caption)


LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
_FAN_HEIGHT, _FAN_TOP = 180.0, 20.0  # the unit stands above the plot
_LEFT, _RIGHT, _BOTTOM = 46.0, 8.0, 24.0  # room for axes


def quantiles(values: Sequence[float], weights: Sequence[float]) -> tuple[float, ...]:
    """The smallest value that so much of the weight does not exceed, for every level of `LEVELS`."""
    ranked = sorted(zip(values, weights, strict=True))
    total = math.fsum(weights)
    out = []
    for level in LEVELS:
        gathered, found = 0.0, ranked[-1][0] if ranked else math.nan
        for value, weight in ranked:
            gathered += weight
            if gathered >= level * total - 1e-12 * total:
                found = value
                break
        out.append(found)
    return tuple(out)


def fan(
    key: str, title: str, rows: Sequence[Sequence[float]], outcomes: Mapping[int, float] | None = None, unit: str = "",
    axis: str = "step",
) -> str:  # fmt: skip
    """`rows`: quantiles of `LEVELS` for every step; outcomes by step, from 1, as dots. `axis`: what is counted."""
    came = {h: v for h, v in (outcomes or {}).items() if 1 <= h <= len(rows)}
    down = linear([x for row in rows for x in row] + list(came.values()), _FAN_HEIGHT - _BOTTOM, _FAN_TOP)
    across = Scale("linear", 1.0, max(2.0, float(len(rows))), _LEFT + 6.0, WIDTH - _RIGHT - 6.0)
    body = _grid(down, unit)
    for low, high, css in ((0, 4, "band"), (1, 3, "band half")):
        body.append(_band(rows, across, down, low, high, css))
    middle: list[str | float] = []
    for h, row in enumerate(rows):
        middle += ["L" if middle else "M", across(h + 1.0), down(row[2])]
    body.append(path(middle, "main bar"))
    if len(rows) == 1:  # a line of one point is nothing to see
        body.append(circle(across(1.0), down(rows[0][2]), 3.0, "fill-main", f"median {number(_rounded(rows[0][2]))}"))
    for h, value in came.items():
        tip = f"{axis} {h}: {number(_rounded(value))} {unit} came".strip()
        body.append(circle(across(float(h)), down(value), 4.5, "came", tip))
    body += _steps(across, len(rows), axis)
    told = "; ".join(f"{axis} {h + 1}: {_told_row(row)}" for h, row in enumerate(rows[:8]))
    words = " Dots: outcomes." if came else ""
    caption = f"Line: median. Bands: 50 % and 90 % of the forecast.{words}"
    return figure(key, title, told, _FAN_HEIGHT, body, caption)


def bars(key: str, title: str, values: Sequence[float], unit: str = "") -> str:
    """One bar per step, up or down from zero."""
    down = linear([0.0, *values], _FAN_HEIGHT - _BOTTOM, _FAN_TOP)
    slot = (WIDTH - _LEFT - _RIGHT) / max(1, len(values))
    body = _grid(down, unit)
    for h, value in enumerate(values):
        y, zero = down(value), down(0.0)
        tip = f"step {h + 1}: {number(_rounded(value))} {unit}".strip()
        body.append(
            f'<rect x="{_LEFT + h * slot + 0.15 * slot:.1f}" y="{min(y, zero):.1f}" width="{0.7 * slot:.1f}" '
            f'height="{max(abs(zero - y), 0.8):.1f}" class="fill-main"><title>{esc(tip)}</title></rect>'
        )
    body.append(line(_LEFT, down(0.0), WIDTH - _RIGHT, down(0.0), "zero"))
    across = Scale("linear", 0.5, len(values) + 0.5, _LEFT, WIDTH - _RIGHT)
    body += _steps(across, len(values), "step")
    told = ", ".join(number(_rounded(v)) for v in values)
    return figure(key, title, f"By step: {told} {unit}".strip(), _FAN_HEIGHT, body)


_SPARK_WIDTH, _SPARK_HEIGHT = 96.0, 24.0


def spark(values: Sequence[float], told: str) -> str:
    """A small picture for a cell of a table: a bar for each value, the first in full colour. `told`: it in words."""
    low, high = min([0.0, *values]), max([0.0, *values])
    down = Scale("linear", low, high, _SPARK_HEIGHT - 1.0, 1.0)
    slot, zero = _SPARK_WIDTH / max(1, len(values)), down(0.0) if high > low else _SPARK_HEIGHT - 1.0
    body = []
    for k, value in enumerate(values):
        y = down(value) if high > low else zero
        body.append(
            f'<rect x="{k * slot + 1.0:.1f}" y="{min(y, zero):.1f}" width="{min(slot - 2.0, 14.0):.1f}" '
            f'height="{max(abs(zero - y), 0.8):.1f}" class="fill-{"main" if k == 0 else "other"}"/>'
        )
    return (
        f'<svg class="spark" viewBox="0 0 {_SPARK_WIDTH:g} {_SPARK_HEIGHT:g}" role="img" aria-label="{esc(told)}">'
        f"<title>{esc(told)}</title>{''.join(body)}</svg>"
    )


def curves(key: str, title: str, rows: Sequence[tuple[str, Sequence[float]]], unit: str = "", axis: str = "") -> str:
    """A line for each row over the same steps, at most as many as there are `COLOURS`; the first is drawn heavily."""
    rows = rows[: len(COLOURS)]
    count = max((len(values) for _, values in rows), default=0)
    down = linear([0.0, *(x for _, values in rows for x in values)], _FAN_HEIGHT - _BOTTOM, _FAN_TOP)
    across = Scale("linear", 1.0, max(2.0, float(count)), _LEFT, WIDTH - _RIGHT)
    body = _grid(down, unit)
    for k, (label, values) in reversed(list(enumerate(rows))):
        d: list[str | float] = []
        for h, value in enumerate(values):
            d += ["L" if d else "M", across(h + 1.0), down(value)]
        body.append(path(d, f"{COLOURS[k]} {'bar' if k == 0 else 'thin'}"))
        body.append(text(_LEFT + 6.0, _FAN_TOP + 10.0 + 12.0 * k, short(label, 40), f"s fill-{COLOURS[k]}"))
    body += _steps(across, count, axis)
    told = "; ".join(f"{label}: {number(_rounded(values[-1]))}" for label, values in rows if len(values))
    return figure(key, title, f"At the end {told} {unit}".strip(), _FAN_HEIGHT, body)


def paths(
    key: str, title: str, reach: Sequence[tuple[float, float]], others: Sequence[Sequence[float]],
    chosen: tuple[str, Sequence[float]] | None, caption: str = "",
) -> str:  # fmt: skip
    """Courses of one quantity by step, from 0: what can be reached (low, high by step), other courses, and a chosen one
    with its name."""
    values = [x for low_high in reach for x in low_high] + [x for course in others for x in course]
    values += [] if chosen is None else list(chosen[1])
    count = max([len(reach), *map(len, others), 0 if chosen is None else len(chosen[1]), 2])
    down = linear(values, _FAN_HEIGHT - _BOTTOM, _FAN_TOP)
    across = Scale("linear", 0.0, count - 1.0, _LEFT + 6.0, WIDTH - _RIGHT - 6.0)
    body = _grid(down, "")
    if reach:
        corners = [(across(h), down(high)) for h, (_, high) in enumerate(reach)]
        corners += [(across(h), down(reach[h][0])) for h in range(len(reach) - 1, -1, -1)]
        outline = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in corners) + "Z"
        body.append(f'<path d="{outline}" class="band"/>')
    body += [path(_course(course, across, down), "other thin") for course in others]
    if chosen is not None:
        body.append(path(_course(chosen[1], across, down), "main bar"))
        body.append(text(_LEFT + 6.0, _FAN_TOP + 10.0, short(chosen[0], 44), "s fill-main"))
    stride = max(1, math.ceil(count / 10))
    body.append(text(_LEFT - 5.0, _FAN_HEIGHT - 7.0, "step", "s", "end"))
    body += [text(across(h), _FAN_HEIGHT - 7.0, str(h), "s", "middle") for h in range(0, count, stride)]
    told = "" if chosen is None else f"{chosen[0]}: " + ", ".join(number(_rounded(x)) for x in chosen[1])
    return figure(key, title, told, _FAN_HEIGHT, body, caption)


def bounds_by_size(
    key: str, title: str, rows: Sequence[tuple[float, float, float]], marks: Sequence[float], unit: str = "",
    axis: str = "",
) -> str:  # fmt: skip
    """A proved band (size, low, high) in rising sizes, and `marks` on the axis of sizes."""
    down = linear([x for _, *ends in rows for x in ends], _FAN_HEIGHT - _BOTTOM, _FAN_TOP)
    across = linear([*(size for size, *_ in rows), *marks], _LEFT + 6.0, WIDTH - _RIGHT - 6.0, pad=0.0)
    body = _grid(down, unit)
    corners = [(across(size), down(high)) for size, _, high in rows]
    corners += [(across(size), down(low)) for size, low, _ in reversed(rows)]
    body.append('<path d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y in corners) + 'Z" class="band half"/>')
    body += [line(across(mark), _FAN_TOP, across(mark), _FAN_HEIGHT - _BOTTOM, "zero") for mark in marks]
    course: list[str | float] = []
    for size, low, _ in rows:
        course += ["L" if course else "M", across(size), down(low)]
    body.append(path(course, "main bar"))
    body += [text(across(v), _FAN_HEIGHT - 7.0, label, "s", "middle") for v, label in across.ticks(4)]
    told = "; ".join(f"{number(_rounded(s))}: {number(_rounded(a))} to {number(_rounded(b))}" for s, a, b in rows)
    return figure(key, title, told, _FAN_HEIGHT, body, axis)


def _course(values: Sequence[float], across: Scale, down: Scale) -> list[str | float]:
    commands: list[str | float] = []
    for h, value in enumerate(values):
        commands += ["L" if commands else "M", across(float(h)), down(value)]
    return commands


def _grid(down: Scale, unit: str) -> list[str]:
    out = []
    for value, label in down.ticks(4):
        out.append(line(_LEFT, down(value), WIDTH - _RIGHT, down(value), "grid"))
        out.append(text(_LEFT - 5.0, down(value) + 3.5, label, "s", "end"))
    if unit:
        out.append(text(WIDTH - _RIGHT, _FAN_TOP - 9.0, unit, "s", "end"))
    return out


def _steps(across: Scale, count: int, axis: str) -> list[str]:
    stride = max(1, math.ceil(count / 10))
    name = text(_LEFT - 5.0, _FAN_HEIGHT - 7.0, axis, "s", "end")
    return [name] + [
        text(across(float(h)), _FAN_HEIGHT - 7.0, str(h), "s", "middle") for h in range(1, count + 1, stride)
    ]


def _band(rows: Sequence[Sequence[float]], across: Scale, down: Scale, low: int, high: int, css: str) -> str:
    wide = 3.0 if len(rows) == 1 else 0.0
    top = [(across(h + 1.0), down(row[high])) for h, row in enumerate(rows)]
    bottom = [(across(h + 1.0), down(row[low])) for h, row in enumerate(rows)]
    if wide:
        top = [(x + s * wide, y) for x, y in top for s in (-1, 1)]
        bottom = [(x + s * wide, y) for x, y in bottom for s in (-1, 1)]
    points = [*top, *reversed(bottom)]
    d = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + "Z"
    return f'<path d="{d}" class="{css}"/>'


def _told_row(row: Sequence[float]) -> str:
    return f"{number(_rounded(row[2]))} ({number(_rounded(row[0]))} to {number(_rounded(row[4]))})"


def _rounded(value: float) -> float:
    return float(f"{value:.5g}") if math.isfinite(value) else value
