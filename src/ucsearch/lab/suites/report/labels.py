"""Where the names of points go, so that neither names nor points hide each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ucsearch.report.svg import text_width

__all__ = ["place_labels"]

Spot = tuple[float, float]
Box = tuple[float, float, float, float]  # left, top, right, bottom
Label = tuple[float, float, str, bool]  # x, baseline, text-anchor, whether a line must lead to it

_RISE, _FALL = 9.0, 3.0  # of a line of text above and below its baseline
_DOT = 5.0


def place_labels(spots: Sequence[Spot], names: Sequence[str], order: Iterable[int], bounds: Box) -> list[Label]:
    """A place for each name, taken one after another in `order`: near its point, over nothing else if possible."""
    taken: list[Box] = [(x - _DOT, y - _DOT, x + _DOT, y + _DOT) for x, y in spots]
    found: dict[int, Label] = {}
    for i in order:
        x, y = spots[i]
        width = text_width(names[i])
        best = min(
            (_price(box, taken, bounds) + 0.02 * away, n, label, box)
            for n, (label, box, away) in enumerate(_candidates(x, y, width))
        )
        found[i] = best[2]
        taken.append(best[3])
    return [found[i] for i in range(len(spots))]


def _candidates(x: float, y: float, width: float) -> list[tuple[Label, Box, float]]:
    out: list[tuple[Label, Box, float]] = []
    for away in (9.0, 16.0, 26.0, 38.0, 52.0, 70.0, 90.0):
        for eighth in (0, 4, 2, 6, 1, 7, 3, 5):
            turn = eighth * math.pi / 4.0
            at, base = x + away * math.cos(turn), y - away * math.sin(turn) + 3.5
            anchor = "middle" if eighth in (2, 6) else "start" if eighth in (0, 1, 7) else "end"
            left = at - {"start": 0.0, "middle": width / 2.0, "end": width}[anchor]
            out.append(((at, base, anchor, away > 16.0), (left, base - _RISE, left + width, base + _FALL), away))
    return out


def _price(box: Box, taken: Sequence[Box], bounds: Box) -> float:
    """Area that is covered twice, and ten times the area outside."""
    area = (box[2] - box[0]) * (box[3] - box[1])
    return sum(_shared(box, other) for other in taken) + 10.0 * (area - _shared(box, bounds))


def _shared(a: Box, b: Box) -> float:
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    return width * height if width > 0.0 and height > 0.0 else 0.0
