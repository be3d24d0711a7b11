"""The curve of a monitor's evidence against its limit, and the histogram of ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ucsearch.report.svg import WIDTH, Scale, figure, line, path, text
from ucsearch.report.text import esc, number

__all__ = ["evidence_curve", "rank_histogram"]

_HEIGHT = 170.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 46.0, 8.0, 8.0, 24.0
_LEAST = 0.1  # evidence below is drawn there: nothing to see


def evidence_curve(
    key: str, title: str, points: Sequence[tuple[float, float]], limit: float, ends: tuple[str, str], caption: str = ""
) -> str:
    """(number of the outcome, evidence) on a logarithmic axis; the limit is dashed. `ends`: first and last date."""
    top = max([limit * 3.0, *(v for _, v in points if math.isfinite(v))])
    scale = Scale("log", _LEAST, min(top, 1e15), _HEIGHT - _BOTTOM, _TOP)
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
    body.append(text(_LEFT, _HEIGHT - 6.0, ends[0], "s"))
    body.append(text(WIDTH - _RIGHT, _HEIGHT - 6.0, ends[1], "s", "end"))
    peak = max((v for _, v in points), default=0.0)
    now = points[-1][1] if points else 0.0
    told = f"Evidence now {now:.3g}, at most {peak:.3g}, limit {limit:g}"
    return figure(key, title, told, _HEIGHT, body, caption)


def rank_histogram(key: str, title: str, counts: Sequence[float], caption: str = "") -> str:
    """Shares of outcomes by where they fell among the members; a dashed line where each should be."""
    total = math.fsum(counts) or 1.0
    shares = [c / total for c in counts]
    even = 1.0 / max(1, len(counts))
    down = Scale("linear", 0.0, max([2.0 * even, *shares]), _HEIGHT - _BOTTOM, _TOP)
    slot = (WIDTH - _LEFT - _RIGHT) / max(1, len(counts))
    body = []
    for i, share in enumerate(shares):
        x, y = _LEFT + i * slot, down(share)
        told = f"{100 * i * even:.0f} to {100 * (i + 1) * even:.0f} %: {100 * share:.1f} % of outcomes"
        body.append(
            f'<rect x="{x + 1.0:.1f}" y="{y:.1f}" width="{slot - 2.0:.1f}" height="{_HEIGHT - _BOTTOM - y:.1f}" '
            f'class="fill-main"><title>{esc(told)}</title></rect>'
        )
    body.append(line(_LEFT, down(even), WIDTH - _RIGHT, down(even), "least"))
    body += [text(_LEFT - 5.0, down(v) + 3.5, f"{100 * v:.0f} %", "s", "end") for v in (0.0, even)]
    body.append(text(_LEFT, _HEIGHT - 6.0, "below all members", "s"))
    body.append(text(WIDTH - _RIGHT, _HEIGHT - 6.0, "above all members", "s", "end"))
    told = ", ".join(f"{100 * s:.0f} %" for s in shares)
    return figure(key, title, f"Shares of outcomes from low to high ranks: {told}", _HEIGHT, body, caption)
