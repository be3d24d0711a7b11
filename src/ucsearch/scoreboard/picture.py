"""Quality against compute as SVG, one numbered point per policy; plain text, so equal boards are equal files."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from ucsearch.scoreboard.board import Board

__all__ = ["draw"]

_COLOURS = {"search": "#b5202a", "comparator": "#1f5fa8", "classic": "#2c7d3f", "learned": "#8a5a00"}
_LEFT, _TOP, _WIDE, _HIGH, _LEGEND = 84, 58, 520, 400, 270  # of the plot area, in pixels
_FONT = "font-family='system-ui, sans-serif' font-size='12'"


def draw(board: Board) -> str:
    """Mean reward of a window over expansions per decision (logarithmic from 1 on); whiskers are the paired intervals
    against the reference, drawn around its own mean."""
    rows = board.rows
    base = next(r.reward for r in rows if r.name == board.reference)
    ends = [r.reward for r in rows]
    low, high = min(ends), max(ends)
    room = 0.06 * ((high - low) or 1.0)
    low, high = low - room, high + room
    most = max(1.0, *(_across(r.expansions) for r in rows))
    right, bottom = _LEFT + _WIDE, _TOP + _HIGH

    def x(expansions: float) -> float:
        return _LEFT + 18 + (_WIDE - 36) * _across(expansions) / most

    def y(reward: float) -> float:
        return bottom - _HIGH * (min(max(reward, low), high) - low) / (high - low)

    width, height = right + _LEGEND, max(bottom + 52, _TOP + 17 * len(rows) + 30)
    out = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}' "
        f"{_FONT} fill='#222'>",
        f"<title>{escape(board.problem.setup.name)}: reward against compute</title>",
        f"<rect width='{width}' height='{height}' fill='#fff'/>",
        f"<text x='{_LEFT}' y='24' font-size='15'>{escape(board.problem.setup.name)}</text>",
        f"<text x='{_LEFT}' y='43' fill='#555'>{len(board.used)} windows of {board.problem.steps} decisions; whiskers: "
        f"95 % interval of the difference to {escape(board.reference)}</text>",
    ]
    for value in _ticks(low, high):
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
        f"<text x='18' y='{middle}' text-anchor='middle' transform='rotate(-90 18 {middle})'>mean reward of a window"
        "</text>"
    )
    for number, row in enumerate(rows, 1):
        colour, across, up = _COLOURS[row.family], x(row.expansions), y(row.reward)
        if row.versus is not None and math.isfinite(row.versus.low) and math.isfinite(row.versus.high):
            top, foot = y(base + row.versus.high), y(base + row.versus.low)
            out.append(f"<path d='M{across:.1f} {top:.1f}V{foot:.1f}' stroke='{colour}' stroke-opacity='0.45'/>")
        out.append(f"<circle cx='{across:.1f}' cy='{up:.1f}' r='4.5' fill='{colour}' fill-opacity='0.85'/>")
        side = 7 if number % 2 else -7
        anchor = "start" if number % 2 else "end"
        out.append(
            f"<text x='{across + side:.1f}' y='{up - 5:.1f}' text-anchor='{anchor}' font-size='10'>{number}</text>"
        )
        at = _TOP + 17 * number - 6
        out.append(f"<circle cx='{right + 24}' cy='{at - 4}' r='4.5' fill='{colour}' fill-opacity='0.85'/>")
        out.append(f"<text x='{right + 36}' y='{at}'>{number}  {escape(row.name)}</text>")
    return "\n".join([*out, "</svg>", ""])


def _across(expansions: float) -> float:
    """0 for none, 1 for one, then one more for every factor of ten."""
    return expansions if expansions < 1.0 else 1.0 + math.log10(expansions)


def _ticks(low: float, high: float) -> list[float]:
    step = 10.0 ** math.floor(math.log10((high - low) / 3.0))
    for factor in (5.0, 2.0, 1.0):
        if (high - low) / (step * factor) >= 3.0:
            step *= factor
            break
    first = math.ceil(low / step)
    return [round(i * step, 12) for i in range(first, math.floor(high / step) + 1)]
