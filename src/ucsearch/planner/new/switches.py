"""`ucsearch new inventory --with ...`: the sample job with rules that not every inventory has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ucsearch.errors import InputError
from ucsearch.lab.data.embedded import sample_states
from ucsearch.lab.data.records import SeriesSet
from ucsearch.planner.files.table import write_table

__all__ = ["SWITCHES", "check_switches", "commands_with", "files_with", "settings_with", "write_switched"]

SWITCHES = ("calendar", "shelf_life", "fill_rate")
LIFE = 4  # periods
HOLIDAYS = "date,name\n2024-05-01,Labour Day\n2024-05-30,Corpus Christi\n2024-12-25,Christmas\n"

_TASK = {
    "calendar": """\
order_days = ["monday", "thursday"]     # on which orders may be placed; left out: every day
delivery_days = ["tuesday", "friday"]   # on which they arrive
# review_periods = 14   # of these only every so many periods, counted from the date review_start
""",
    "shelf_life": f"""\
shelf_life = {LIFE}          # periods in which a piece can be sold; states hold ages_1, ages_2, ... by periods left
issuing = "fifo"        # the oldest are sold first; "lifo": the newest
disposal = 0.50         # EUR per piece that is discarded
""",
    "fill_rate": """\
fill_rate = 0.95        # share of demand to serve, in place of a shortage cost; `ucsearch tune` finds what it takes
""",
}


def check_switches(switches: Sequence[str]) -> None:
    """Refuse what is no switch, and two of one."""
    for i, name in enumerate(switches):
        if name not in SWITCHES or name in switches[:i]:
            raise InputError("--with", repr(name), f"some of {', '.join(SWITCHES)}, each once", index=i)


def settings_with(text: str, switches: Sequence[str]) -> str:
    """The sample settings with these rules."""
    added = "".join(_TASK[name] for name in SWITCHES if name in switches)
    text = re.sub(r"(?m)^(fixed_cost = .*\n)", rf"\1{added}", text)
    text = re.sub(r"(?m)^lead_time = 2 .*$", "lead_time = 1           # periods from order to delivery, 0 to 12", text)
    if "fill_rate" in switches:
        text = re.sub(r"(?m)^shortage = .*\n", "", text)
    if "calendar" in switches:
        text = re.sub(
            r"(?m)^depth = 8 .*$", "depth = 10              # as far as the second order from now is used", text
        )
        line = 'holidays = "holidays.csv"       # dates without orders and deliveries, a line each\n'
        text = re.sub(r"(?m)^(pages = .*\n)", rf"\1{line}", text)
    return text


def files_with(switches: Sequence[str]) -> tuple[str, ...]:
    """Files besides those of every sample."""
    return ("holidays.csv",) if "calendar" in switches else ()


def write_switched(folder: Path, demand: SeriesSet, switches: Sequence[str]) -> None:
    """States, and what else these rules need."""
    ages = LIFE - 1 if "shelf_life" in switches else 0
    arriving = "calendar" not in switches  # on the Monday of the sample the last order has arrived

    def rows() -> Iterator[Sequence[Any]]:
        for one, state in zip(demand.series, sample_states(demand), strict=True):
            stock = round(0.4 * state.on_hand)
            old = [0, stock // 4, stock - stock // 4][:ages]
            due = [(*state.on_order, 0.0)[0]] if arriving else []
            yield [one.id, one.category, stock, *old, *due]

    head: dict[str, type] = {"series": str, "pattern": str, "on_hand": int}
    head |= {f"ages_{i + 1}": int for i in range(ages)} | ({"open_orders_1": float} if arriving else {})
    write_table(folder / "states.csv", head, rows)
    if "calendar" in switches:
        (folder / "holidays.csv").write_text(HOLIDAYS, encoding="utf-8")


def commands_with(commands: Sequence[str], switches: Sequence[str]) -> tuple[str, ...]:
    """What to type next: with a target its penalties come first."""
    return ("ucsearch tune", *commands) if "fill_rate" in switches else tuple(commands)
