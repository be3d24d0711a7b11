"""The map of gains as an SVG: a row for every way decisions hang together, a column for every cost and forecast.

It stands alone (colours are its own), so that a document can show it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ucsearch.report.text import esc

__all__ = ["heat_map", "small_map"]

_PANELS = {
    "search": "search over greedy",
    "members": "members over the mean",
    "closed": "closed loop over common plans",
    "risk": "risk 0.5 over risk 0",
}
_NAME = re.compile(r"(?P<row>.+) k(?P<kink>\d+) (?P<quality>\w+)$")
_CELL, _LINE, _LABEL, _TOP = 34, 20, 190, 66
_SMALL, _WIDE, _HEAD = ("search", "members"), 52, 46  # the small map's panels, cell and head
_FULL = 0.15  # a gain from which on the colour is full
_GOOD, _BAD, _NONE = (33, 102, 172), (178, 24, 43), (247, 247, 247)


def heat_map(found: Mapping[tuple[str, str], float]) -> str:
    """The whole map. `found`: by cell and policy the mean gain."""
    rows, columns = _axes([family for family, _ in found])
    panels = [name for name in _PANELS if any(found.get((family, name)) is not None for family, _ in found)]
    height_of = _TOP + _LINE * len(rows) + 24
    width, height = _LABEL + _CELL * len(columns) + 10, height_of * len(panels)
    body = [_panel(name, found, rows, columns, n * height_of) for n, name in enumerate(panels)]
    title = "Gains of search, members, closed loop and risk, by problem"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img" '
        f'aria-label="{title}" font-family="sans-serif" font-size="10">'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>{"".join(body)}</svg>\n'
    )


def small_map(found: Mapping[tuple[str, str], float]) -> str:
    """The same in a few lines: means over cells, by fixed cost and by how dear a shortage is; search and members."""
    cells: dict[tuple[str, str, str], list[float]] = {}
    for (cell, policy), value in found.items():
        place = _NAME.match(cell)
        if place is not None:
            cells.setdefault((policy, _group(place["row"]), place["kink"]), []).append(value)
    rows = sorted({row for _, row, _ in cells}, key=lambda row: (row.startswith("staff"), len(row), row))
    kinks = sorted({kink for _, _, kink in cells}, key=int)
    panels = [name for name in _SMALL if any(panel == name for panel, _, _ in cells)]
    across = _WIDE * len(kinks) + 22
    width, height = _LABEL + across * len(panels), _HEAD + _LINE * len(rows) + 8
    out = [_text(6, _HEAD + _LINE * r + 14, row, size=12) for r, row in enumerate(rows)]
    for n, name in enumerate(panels):
        left = _LABEL + across * n
        out.append(_text(left, 18, _PANELS[name], size=13, bold=True))
        for i, kink in enumerate(kinks):
            x = left + _WIDE * i
            out.append(_text(x + _WIDE // 2 - 1, 38, f"{int(kink)}:1", middle=True, size=11))
            for r, row in enumerate(rows):
                held = cells.get((name, row, kink))
                if not held:
                    continue
                value, y = sum(held) / len(held), _HEAD + _LINE * r
                ink = "#ffffff" if abs(value) > 0.6 * _FULL else "#222222"
                out.append(
                    f'<rect x="{x}" y="{y}" width="{_WIDE - 2}" height="{_LINE - 2}" fill="{_colour(value)}"/>'
                    + _text(x + _WIDE // 2 - 1, y + 14, _hundredths(value), middle=True, ink=ink, size=12)
                )
    out.append(_text(6, 38, "one short : one too many", size=11))
    title = "Mean gains of search and of members, by fixed cost and by how dear a shortage is"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img" '
        f'aria-label="{title}" font-family="sans-serif"><rect width="{width}" height="{height}" fill="#ffffff"/>'
        f"{''.join(out)}</svg>\n"
    )


def _hundredths(value: float) -> str:
    text = f"{100.0 * value:+.0f}"
    return "0" if text in ("+0", "-0") else text


def _group(row: str) -> str:
    """What a newcomer sorts problems by: what an order costs, or staffing."""
    order = re.match(r"order L\d+ K(\d+) P\d+$", row)
    if order is None:
        return "staffing"
    fixed = int(order[1])
    return "orders cost nothing" if fixed == 0 else f"an order costs {fixed} d of stock"


def _axes(families: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    rows: list[str] = []
    columns: list[tuple[str, str]] = []
    for family in families:
        place = _NAME.match(family)
        if place is None:
            continue
        row, column = place["row"], (place["kink"], place["quality"])
        if row not in rows:
            rows.append(row)
        if column not in columns:
            columns.append(column)
    return sorted(rows, key=lambda row: (row.startswith("capacity"), row)), sorted(columns, key=_column)


def _column(column: tuple[str, str]) -> tuple[int, int]:
    order = {"right": 0, "narrow": 1, "blind": 2}
    return int(column[0]), order.get(column[1], len(order))


def _panel(
    name: str, found: Mapping[tuple[str, str], float], rows: Sequence[str], columns: Sequence[tuple[str, str]],
    top: int,
) -> str:  # fmt: skip
    out = [_text(4, top + 16, _PANELS[name], size=13, bold=True)]
    for i, (kink, quality) in enumerate(columns):
        x = _LABEL + _CELL * i + _CELL // 2
        if i == 0 or columns[i - 1][0] != kink:
            out.append(_text(x - _CELL // 2, top + 36, f"shortage {int(kink)}:1"))
        out.append(_text(x, top + 54, quality, middle=True))
    for r, row in enumerate(rows):
        y = top + _TOP + _LINE * r
        out.append(_text(4, y + 13, _row_words(row)))
        for i, (kink, quality) in enumerate(columns):
            value = found.get((f"{row} k{kink} {quality}", name))
            x = _LABEL + _CELL * i
            if value is None:
                continue
            tip = f"{_row_words(row)}, shortage {int(kink)}:1, forecast {quality}: {value:+.3f}"
            ink = "#ffffff" if abs(value) > 0.6 * _FULL else "#222222"
            out.append(
                f'<rect x="{x}" y="{y}" width="{_CELL - 2}" height="{_LINE - 2}" fill="{_colour(value)}">'
                f"<title>{esc(tip)}</title></rect>"
            )
            out.append(_text(x + _CELL // 2 - 1, y + 13, f"{100.0 * value:+.0f}", middle=True, ink=ink, size=9))
    return "".join(out)


def _row_words(row: str) -> str:
    order = re.match(r"order L(\d+) K(\d+) P(\d+)$", row)
    if order:
        lead, fixed, pack = (int(x) for x in order.groups())
        return f"lead {lead}, fixed cost {fixed} d, pack {pack} d"
    capacity = re.match(r"capacity up(\d+)$", row)
    return f"capacity, stays up {int(capacity[1])}" if capacity else row


def _colour(value: float) -> str:
    share = min(abs(value) / _FULL, 1.0)
    end = _GOOD if value > 0.0 else _BAD
    mixed = [round(a + share * (b - a)) for a, b in zip(_NONE, end, strict=True)]
    return "#{:02x}{:02x}{:02x}".format(*mixed)


def _text(
    x: float, y: float, text: str, *, size: int = 10, bold: bool = False, middle: bool = False, ink: str = "#222222"
) -> str:
    more = (' font-weight="bold"' if bold else "") + (' text-anchor="middle"' if middle else "")
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{ink}"{more}>{esc(text)}</text>'
