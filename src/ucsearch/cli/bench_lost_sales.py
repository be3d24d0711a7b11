"""`ucsearch bench lost-sales`: optimal and classic policies on Zipkin's lost-sales instances."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from ucsearch.inventory.table import Entry, Row

__all__ = ["DemandChoice", "lost_sales"]

_HEADS = (
    "p",
    "L",
    "publ.",
    "optimum",
    "base\nstock\nS",
    "capped\nbase\nS/r",
    "(s,S)\n\ns/S",
    "const.\norder\nr",
    "myopic\n1",
    "myopic\n2",
    "vector\nbase",
)


class DemandChoice(StrEnum):
    """Which instances to run."""

    poisson = "poisson"
    geometric = "geometric"
    all = "all"


def lost_sales(
    max_lead_time: Annotated[
        int, typer.Option("--max-lead-time", min=1, max=4, help="Longest lead time to solve.")
    ] = 4,
    demand: Annotated[
        DemandChoice, typer.Option("--demand", help="Demand per period, mean 5.", case_sensitive=False)
    ] = DemandChoice.all,
    csv: Annotated[Path | None, typer.Option("--csv", metavar="OUT", help="Also write the table to this file.")] = None,
    threads: Annotated[int, typer.Option("--threads", min=1, help="Instances worked on at a time.")] = 2,
) -> None:
    """Optimal long-run costs of Zipkin's lost-sales instances and how far each classic policy is from them.

    All costs are exact (value iteration with bounds, no simulation). Each cell shows cost, gap to the optimum
    in percent, and the best parameters.
    """
    import csv as csv_module

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from ucsearch.errors import InputError
    from ucsearch.inventory.instances import zipkin_instances
    from ucsearch.inventory.table import COLUMNS, csv_rows, lost_sales_table
    from ucsearch.pipeline.written import refuse_overwriting

    if csv is not None and (csv.is_dir() or not csv.resolve().parent.is_dir()):
        # Found out before minutes of work, not after.
        raise InputError("--csv", str(csv), "a file in an existing folder")
    refuse_overwriting({"--csv": csv}, {})
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("lost-sales table", total=None)

        def progress(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total)

        rows = lost_sales_table(zipkin_instances(demand.value), max_lead_time, progress, threads=threads)
    if csv is not None:
        with csv.open("w", newline="", encoding="utf-8") as stream:
            writer = csv_module.writer(stream, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows(csv_rows(rows))
    console = Console()
    for family in dict.fromkeys(row.instance.family for row in rows):
        console.print(_table(family, [row for row in rows if row.instance.family == family]))
    if csv is not None:
        console.print(f"wrote {csv}", highlight=False, soft_wrap=True)


def _table(family: str, rows: Sequence[Row]) -> Table:
    from rich import box
    from rich.table import Table

    title = f"{family} demand, mean 5, h = 1: cost, gap to the optimum, parameters"
    # Narrow enough for 80 columns.
    table = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for name in _HEADS:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        known = row.instance.published
        table.add_row(
            str(row.instance.penalty_cost),
            str(row.instance.lead_time),
            "" if known is None else f"{known:.2f}",
            f"{row.optimum.value:.4f}",
            *(_cell(entry) for entry in row.classics),
            end_section=True,
        )
    return table


def _cell(entry: Entry) -> str:
    lines = [f"{entry.cost.value:.2f}", f"+{entry.gap_percent:.1f}%"]
    if entry.parameters and entry.policy != "vector base-stock":  # its levels are too long for a cell
        lines.append("/".join(str(value) for _, value in entry.parameters))
    return "\n".join(lines)
