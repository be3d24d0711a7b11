"""Stresses as an SVG: for each task a bar of what a stress costs, and beside it how much of it the monitor saw.

It stands alone (colours are its own), so that a document can show it; figures come from the suite's own table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ucsearch.lab.suites.kinds.stressors.world import CLEAN
from ucsearch.report.text import esc

__all__ = ["stress_figure"]

_LINE, _LABEL, _BAR, _SEEN, _TOP = 18, 96, 250, 120, 44
_MOST = 8.0  # times the cost without a stress at which a bar is full; the axis is logarithmic
_WORSE, _BETTER, _TRIPPED, _INK = "#b2182b", "#2166ac", "#7a5195", "#222222"


def stress_figure(table: Mapping[str, Any]) -> str:
    """`table`: the suite's table of stresses by task, as the manifest has it."""
    names = [column["name"] for column in table["columns"]]
    cost, tripped = 2 + names.index("Cost"), 2 + names.index("Series tripped")
    tasks = list(dict.fromkeys(line[0] for line in table["rows"]))
    panels, top = [], 0
    for task in tasks:
        own = [line for line in table["rows"] if line[0] == task]
        panels.append(_panel(task, own, cost, tripped, top))
        top += _TOP + _LINE * len(own) + 16
    width = _LABEL + _BAR + _SEEN + 40
    title = "What stresses cost, and how many series' monitors tripped"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top}" width="{width}" role="img" '
        f'aria-label="{title}" font-family="sans-serif" font-size="10">'
        f'<rect width="{width}" height="{top}" fill="#ffffff"/>{"".join(panels)}</svg>\n'
    )


def _panel(task: str, lines: Sequence[Sequence[Any]], cost: int, tripped: int, top: int) -> str:
    clean = next(line[cost] for line in lines if line[1] == CLEAN)
    out = [_text(4, top + 16, task, bold=True), _text(_LABEL, top + 34, "cost, times that without a stress"),
           _text(_LABEL + _BAR + 20, top + 34, "series tripped")]  # fmt: skip
    for n, line in enumerate(lines):
        y = top + _TOP + _LINE * n
        ratio, seen = line[cost] / clean, line[tripped]
        size = min(abs(math.log(ratio)) / math.log(_MOST), 1.0) * (_BAR - 60)
        colour = _WORSE if ratio > 1.0 else _BETTER
        word = "no stress" if line[1] == CLEAN else str(line[1])
        out.append(_text(4, y + 11, word))
        out.append(_bar(_LABEL, y, size, colour, f"{task}, {word}: {ratio:.2f} times the cost"))
        out.append(_text(_LABEL + size + 4, y + 11, f"{ratio:.2f}"))
        out.append(_bar(_LABEL + _BAR + 20, y, seen * (_SEEN - 40), _TRIPPED, f"{task}, {word}: {seen:.0%} tripped"))
        out.append(_text(_LABEL + _BAR + 24 + seen * (_SEEN - 40), y + 11, f"{seen:.0%}"))
    return "".join(out)


def _bar(x: float, y: float, width: float, colour: str, tip: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y}" width="{max(width, 1.0):.1f}" height="{_LINE - 4}" fill="{colour}">'
        f"<title>{esc(tip)}</title></rect>"
    )


def _text(x: float, y: float, text: str, *, bold: bool = False) -> str:
    more = ' font-weight="bold" font-size="13"' if bold else ""
    return f'<text x="{x:.1f}" y="{y}" fill="{_INK}"{more}>{esc(text)}</text>'
