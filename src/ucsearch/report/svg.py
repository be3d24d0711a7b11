"""Pieces of inline SVG: scales, ticks and elements. All figures are 360 units wide, the width of a phone.

Colours come from classes that the page's style sheet defines, so that figures follow the light or dark scheme.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ucsearch.report.text import esc, number

__all__ = ["WIDTH", "Scale", "circle", "figure", "line", "linear", "path", "text"]

WIDTH = 360.0
_LARGEST = 1e300  # what is drawn to scale: the span of larger values is no number; they land on the edge


@dataclass(frozen=True)
class Scale:
    """Values to units. `kind` is linear or log."""

    kind: str
    low: float
    high: float
    start: float  # unit of `low`
    stop: float  # unit of `high`

    def _bend(self, value: float) -> float:
        return math.log10(value) if self.kind == "log" else value

    def __call__(self, value: float) -> float:
        """The unit of a value; values outside land on the edge."""
        inside = min(max(value, self.low), self.high)
        low, high = self._bend(self.low), self._bend(self.high)
        share = (self._bend(inside) - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.stop - self.start)

    def ticks(self, most: int = 5) -> list[tuple[float, str]]:
        """At most about `most` round values with their labels."""
        ticks = _log_ticks if self.kind == "log" else _linear_ticks
        return ticks(self.low, self.high, most)


def linear(values: Iterable[float], start: float, stop: float, pad: float = 0.06) -> Scale:
    """A linear scale that holds all values with some room."""
    found = [v for v in values if abs(v) <= _LARGEST]
    low, high = (min(found), max(found)) if found else (0.0, 1.0)
    room = pad * (high - low) or 0.1 * abs(low) or 0.5
    return Scale("linear", low - room, high + room, start, stop)


def _linear_ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    span = high - low
    if not span > 0.0:
        return [(low, number(low))]
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(f * power for f in (1.0, 2.0, 2.5, 5.0, 10.0) if span / (f * power) <= most)
    places = max(0, -math.floor(math.log10(step) + 1e-9) + (1 if round(step / power, 6) == 2.5 else 0))
    if places > 6 or high >= 1e9:
        return [(v, number(v)) for v in (low, high)]
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [(i * step, number(i * step, places)) for i in range(first, last + 1)]


def _log_ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        values = [f * 10.0**p for p in powers for f in factors if low <= f * 10.0**p <= high]
        if len(values) <= most:
            break
    else:
        values = values[:: math.ceil(len(values) / most)]
    if len(values) < 2:
        values = [float(f"{v:.2g}") for v in (low, high)]
    return [(v, number(float(f"{v:.3g}"))) for v in values]


# -------------------------------------------------------------------- elements


def _n(value: float) -> str:
    """One decimal is a tenth of a pixel."""
    text = f"{value:.1f}"
    return "0" if text in ("-0.0", "0.0") else text.removesuffix(".0")


def text(x: float, y: float, content: str, css: str = "s", anchor: str = "start") -> str:
    """Escaped text; `css` s small and grey, t normal, b bold, and a colour class."""
    place = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{_n(x)}" y="{_n(y)}" class="{css}"{place}>{esc(content)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, css: str) -> str:
    return f'<path d="M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}" class="{css}"/>'


def path(d: Sequence[str | float], css: str) -> str:
    """Commands and coordinates in one list."""
    return f'<path d="{" ".join(p if isinstance(p, str) else _n(p) for p in d)}" class="{css}"/>'


def circle(x: float, y: float, r: float, css: str, tip: str = "") -> str:
    inner = f"><title>{esc(tip)}</title></circle>" if tip else "/>"
    return f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{_n(r)}" class="{css}"{inner}'


def figure(key: str, title: str, desc: str, height: float, body: Iterable[str], caption: str = "") -> str:
    """A figure that screen readers can name; `key` is unique on the page."""
    name = esc(key)
    below = f"<figcaption>{esc(caption)}</figcaption>" if caption else ""
    return (
        f'<figure id="{name}"><h4 aria-hidden="true">{esc(title)}</h4>'
        f'<svg viewBox="0 0 {_n(WIDTH)} {_n(height)}" role="img" aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{esc(title)}</title><desc id="{name}-d">{esc(desc)}</desc>{"".join(body)}</svg>'
        f"{below}</figure>"
    )
