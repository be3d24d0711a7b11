"""Two pictures most pages need: amounts split into parts, and differences with their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ucsearch.report.svg import WIDTH, Scale, circle, figure, line, linear, text
from ucsearch.report.text import esc, number, short

__all__ = ["COLOURS", "intervals", "key", "stacked"]

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
    body = [line(scale(0.0), 0.0, scale(0.0), height - _AXIS + 4.0, "zero")]
    for i, (label, middle, low, high) in enumerate(rows):
        y = i * _ROW + 24.0
        tone = "main" if low > 0.0 else "bad" if high < 0.0 else "other"
        body.append(text(_MARGIN, y - 12.0, short(label, 44), "v"))
        if math.isfinite(low) and math.isfinite(high):
            css = "leader" if tone == "other" else tone
            body.append(line(scale(low), y, scale(high), y, f"{css} bar"))
        if math.isfinite(middle):
            body.append(circle(scale(middle), y, 4.0, f"fill-{tone}", f"{label}: {middle:+.3g}{unit}"))
    for value, label in scale.ticks(4):
        body.append(text(scale(value), height - 6.0, f"{label}{unit}", "s", "middle"))
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
