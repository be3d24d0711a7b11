"""A forecast as a fan with what came, beside the plan that was made for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ucsearch.report.svg import WIDTH, Scale, circle, figure, line, linear, path, text
from ucsearch.report.text import esc, number

__all__ = ["LEVELS", "bars", "fan", "quantiles"]

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
_HEIGHT = 180.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 8.0, 20.0, 24.0  # the unit stands above the plot


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
    down = linear([x for row in rows for x in row] + list(came.values()), _HEIGHT - _BOTTOM, _TOP)
    across = Scale("linear", 1.0, max(2.0, float(len(rows))), _LEFT + 6.0, WIDTH - _RIGHT - 6.0)
    body = _grid(down, unit)
    for low, high, css in ((0, 4, "band"), (1, 3, "band half")):
        body.append(_band(rows, across, down, low, high, css))
    middle: list[str | float] = []
    for h, row in enumerate(rows):
        middle += ["L" if middle else "M", across(h + 1.0), down(row[2])]
    body.append(path(middle, "main bar"))
    if len(rows) == 1:  # a line of one point is nothing to see
        body.append(circle(across(1.0), down(rows[0][2]), 3.0, "fill-main", f"median {number(_round(rows[0][2]))}"))
    for h, value in came.items():
        tip = f"{axis} {h}: {number(_round(value))} {unit} came".strip()
        body.append(circle(across(float(h)), down(value), 4.5, "came", tip))
    body += _steps(across, len(rows), axis)
    told = "; ".join(f"{axis} {h + 1}: {_told(row)}" for h, row in enumerate(rows[:8]))
    words = " Dots: what came." if came else ""
    caption = f"Line: the middle of the forecast. Inner band: half of it. Outer band: nine tenths.{words}"
    return figure(key, title, told, _HEIGHT, body, caption)


def bars(key: str, title: str, values: Sequence[float], unit: str = "") -> str:
    """One bar per step, up or down from zero."""
    down = linear([0.0, *values], _HEIGHT - _BOTTOM, _TOP)
    slot = (WIDTH - _LEFT - _RIGHT) / max(1, len(values))
    body = _grid(down, unit)
    for h, value in enumerate(values):
        y, zero = down(value), down(0.0)
        tip = f"step {h + 1}: {number(_round(value))} {unit}".strip()
        body.append(
            f'<rect x="{_LEFT + h * slot + 0.15 * slot:.1f}" y="{min(y, zero):.1f}" width="{0.7 * slot:.1f}" '
            f'height="{max(abs(zero - y), 0.8):.1f}" class="fill-main"><title>{esc(tip)}</title></rect>'
        )
    body.append(line(_LEFT, down(0.0), WIDTH - _RIGHT, down(0.0), "zero"))
    across = Scale("linear", 0.5, len(values) + 0.5, _LEFT, WIDTH - _RIGHT)
    body += _steps(across, len(values), "step")
    told = ", ".join(number(_round(v)) for v in values)
    return figure(key, title, f"By step: {told} {unit}".strip(), _HEIGHT, body)


def _grid(down: Scale, unit: str) -> list[str]:
    out = []
    for value, label in down.ticks(4):
        out.append(line(_LEFT, down(value), WIDTH - _RIGHT, down(value), "grid"))
        out.append(text(_LEFT - 5.0, down(value) + 3.5, label, "s", "end"))
    if unit:
        out.append(text(WIDTH - _RIGHT, _TOP - 9.0, unit, "s", "end"))
    return out


def _steps(across: Scale, count: int, axis: str) -> list[str]:
    stride = max(1, math.ceil(count / 10))
    name = text(_LEFT - 5.0, _HEIGHT - 7.0, axis, "s", "end")
    return [name] + [text(across(float(h)), _HEIGHT - 7.0, str(h), "s", "middle") for h in range(1, count + 1, stride)]


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


def _told(row: Sequence[float]) -> str:
    return f"{number(_round(row[2]))} ({number(_round(row[0]))} to {number(_round(row[4]))})"


def _round(value: float) -> float:
    return float(f"{value:.5g}") if math.isfinite(value) else value
