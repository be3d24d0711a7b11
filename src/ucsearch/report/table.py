"""Tables for terminals and text files: the one printer of tables, on rich."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import StringIO

__all__ = ["table_lines", "terminal_width"]

_ENDLESS = 100_000  # a width that no table reaches


def table_lines(
    rows: Sequence[Sequence[str]], sides: str = "<>", *, width: int | None = None, rules: bool = False
) -> list[str]:
    """The lines of a table whose first row is the head.

    Args:
        rows: cells as plain text; the first row names the columns.
        sides: "<" or ">" for each column; the last one is for all that follow.
        width: characters of a line, where words are folded to fit; None: as wide as the cells are.
        rules: whether lines of "-" separate rows.

    Returns: lines without trailing spaces; columns are two spaces apart.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    sides += sides[-1] * (len(rows[0]) - len(sides))
    table = Table(
        box=box.ASCII2 if rules else None, show_edge=False, show_lines=rules, pad_edge=False,
        padding=(0, 1) if rules else (0, 2, 0, 0),
    )  # fmt: skip
    for name, side in zip(rows[0], sides, strict=False):
        justify, folded = "right" if side == ">" else "left", width is not None
        table.add_column(Text(name), justify=justify, no_wrap=not folded, overflow="fold")  # type: ignore[arg-type]
    for row in rows[1:]:
        table.add_row(*map(Text, row))
    file = StringIO()
    Console(file=file, width=width or _ENDLESS, color_system=None, legacy_windows=False).print(table)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def terminal_width() -> int | None:
    """Characters of a line of the terminal; None where stdout is none, so that nothing is folded there."""
    if not sys.stdout.isatty():
        return None
    from rich.console import Console

    return Console().width
