"""Quality against compute as SVG, one numbered point per policy; plain text, so equal boards are equal files."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from ucsearch.scoreboard.board import Board

__all__ = ["draw"]

_COLOURS = {"search": "#b5202a", "comparator": "#1f5fa8", "classic": "#2c7d3f", "learned": "#8a5a00"}
_LEFT, _TOP, _WIDE, _HIGH, _LEGEND = 84, 58, 560, 420, 270  # of the plot area, in pixels
_FONT = "font-family='system-ui, sans-serif' font-size='12'"
_LEAST = 1e-3  # regrets below this share of the largest are drawn there


class _Point(NamedTuple):
    x: float
    y: float
    number: int


def draw(board: Board) -> str:
    """Mean regret of a window (logarithmic, the best on top) over expansions per decision (logarithmic from 1 on);
    whiskers are the paired intervals against the reference, drawn around its own regret."""
    rows = board.rows
    base = next(r.regret for r in rows if r.name == board.reference)
    largest = max(*(r.regret for r in rows), 1e-300)
    least = _LEAST * largest
    top, foot = (math.log10(max(f(r.regret for r in rows), least)) for f in (min, max))
    room = 0.06 * ((foot - top) or 1.0)
    top, foot = top - room, foot + room
    most = max(1.0, *(_across(r.expansions) for r in rows))
    right, bottom = _LEFT + _WIDE, _TOP + _HIGH

    def x(expansions: float) -> float:
        return _LEFT + 24 + (_WIDE - 96) * _across(expansions) / most

    def y(regret: float) -> float:
        return _TOP + _HIGH * (min(max(math.log10(max(regret, least)), top), foot) - top) / (foot - top)

    width, height = right + _LEGEND, max(bottom + 52, _TOP + 17 * len(rows) + 30)
    out = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}' "
        f"{_FONT} fill='#222'>",
        f"<title>{escape(board.title)}: regret against compute</title>",
        f"<rect width='{width}' height='{height}' fill='#fff'/>",
        f"<text x='{_LEFT}' y='24' font-size='15'>{escape(board.title)}</text>",
        f"<text x='{_LEFT}' y='43' fill='#555'>{len(board.used)} windows of {board.problem.decisions} decisions; "
        f"whiskers: 95 % interval of the difference to {escape(board.reference)}</text>",
    ]
    for value in _ticks(10.0**top, 10.0**foot):
        at = y(value)
        out.append(f"<path d='M{_LEFT} {at:.1f}H{right}' stroke='#e4e4e4'/>")
        out.append(f"<text x='{_LEFT - 8}' y='{at + 4:.1f}' text-anchor='end'>{value:g}</text>")
    for power in range(-1, math.ceil(most) + 1):
        value = 0 if power < 0 else 10**power
        if power >= 0 and _across(value) > most:
            continue
        at = x(value)
        out.append(f"<path d='M{at:.1f} {_TOP}V{bottom}' stroke='#f0f0f0'/>")
        out.append(f"<text x='{at:.1f}' y='{bottom + 17}' text-anchor='middle'>{value:,}</text>")
    out.append(f"<path d='M{_LEFT} {_TOP}V{bottom}H{right}' fill='none' stroke='#888'/>")
    out.append(f"<path d='M{_LEFT} {y(base):.1f}H{right}' stroke='{_COLOURS['search']}' stroke-dasharray='4 4'/>")
    out.append(f"<text x='{_LEFT + _WIDE / 2}' y='{bottom + 38}' text-anchor='middle'>expansions per decision</text>")
    middle = _TOP + _HIGH / 2
    out.append(
        f"<text x='18' y='{middle}' text-anchor='middle' transform='rotate(-90 18 {middle})'>mean regret of a window "
        "(best on top)</text>"
    )
    points = []
    for number, row in enumerate(rows, 1):
        colour = _COLOURS[row.family]
        point = _Point(x(row.expansions), y(row.regret), number)
        points.append(point)
        if row.versus is not None and row.versus.is_known:
            ends = y(base - row.versus.high), y(base - row.versus.low)
            out.append(f"<path d='M{point.x:.1f} {ends[0]:.1f}V{ends[1]:.1f}' stroke='{colour}' stroke-opacity='0.4'/>")
        out.append(f"<circle cx='{point.x:.1f}' cy='{point.y:.1f}' r='4.5' fill='{colour}' fill-opacity='0.85'/>")
        at = _TOP + 17 * number - 6
        out.append(f"<circle cx='{right + 24}' cy='{at - 4}' r='4.5' fill='{colour}' fill-opacity='0.85'/>")
        out.append(f"<text x='{right + 36}' y='{at}'>{number}  {escape(row.name)}</text>")
    return "\n".join([*out, *_labels(points, bottom), "</svg>", ""])


def _labels(points: list[_Point], bottom: float) -> list[str]:
    """Numbers to the right of their points, one for points that coincide, pushed apart where they would overlap."""
    together: dict[tuple[int, int], list[_Point]] = {}
    for p in points:
        together.setdefault((round(p.x), round(p.y)), []).append(p)
    groups = sorted(together.values(), key=lambda g: (g[0].y, g[0].x))
    placed: list[tuple[float, float, float]] = []  # left, right and middle of a label
    out = []
    for group in groups:
        text = ", ".join(str(p.number) for p in group)
        left, at = group[0].x + 14, group[0].y
        right = left + 6 * len(text)
        while any(left < b + 4 and a < right + 4 and abs(at - c) < 11 for a, b, c in placed):
            at += 1.0
        if at > bottom - 4:  # no room below: to the side, where there is some
            left, at = max([b for _, b, _ in placed], default=left) + 8, group[0].y
            right = left + 6 * len(text)
        placed.append((left, right, at))
        out.append(f"<path d='M{group[0].x + 5:.1f} {group[0].y:.1f}L{left - 2:.1f} {at:.1f}' stroke='#bbb'/>")
        out.append(f"<text x='{left:.1f}' y='{at + 3.5:.1f}' font-size='10'>{text}</text>")
    return out


def _across(expansions: float) -> float:
    """0 for none, 1 for one, then one more for every factor of ten."""
    return expansions if expansions < 1.0 else 1.0 + math.log10(expansions)


def _ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten; only powers where the range is wide."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1.0,) if last - first > 3 else (1.0, 2.0, 3.0, 5.0, 7.0)
    every = [f * 10.0**power for power in range(first, last + 1) for f in factors]
    return [float(f"{v:.3g}") for v in every if low <= v <= high]
