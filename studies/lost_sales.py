"""Optimal and classic policies on Zipkin's lost-sales instances: cost, gap to the optimum, best parameters.

    python -m studies.lost_sales [--max-lead-time 4] [--demand poisson|geometric|all] [--csv OUT] [--threads 2]

All costs are exact (value iteration with bounds, no simulation).
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from studies.lost_sales_table import COLUMNS, Entry, Row, csv_rows, lost_sales_table
from ucsearch.replay.classics.instances import zipkin_instances

HEADS = ("p", "L", "publ.", "optimum", "base\nstock\nS", "capped\nbase\nS/r", "(s,S)\n\ns/S", "const.\norder\nr",
         "myopic\n1", "myopic\n2", "vector\nbase")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-lead-time", type=int, default=4, choices=range(1, 5))
    parser.add_argument("--demand", default="all", choices=("poisson", "geometric", "all"))
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    rows = lost_sales_table(zipkin_instances(given.demand), given.max_lead_time, threads=given.threads)
    if given.csv is not None:
        with given.csv.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows(csv_rows(rows))
    console = Console()
    for family in dict.fromkeys(row.instance.family for row in rows):
        console.print(table(family, [row for row in rows if row.instance.family == family]))


def table(family: str, rows: Sequence[Row]) -> Table:
    title = f"{family} demand, mean 5, h = 1: cost, gap to the optimum, parameters"
    made = Table(title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for name in HEADS:
        made.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        published = row.instance.published
        made.add_row(
            str(row.instance.penalty_cost),
            str(row.instance.lead_time),
            "" if published is None else f"{published:.2f}",
            f"{row.optimum.value:.4f}",
            *(cell(entry) for entry in row.classics),
            end_section=True,
        )
    return made


def cell(entry: Entry) -> str:
    lines = [f"{entry.cost.value:.2f}", f"+{entry.gap_percent:.1f}%"]
    if entry.parameters and entry.policy != "vector base-stock":  # its levels are too long for a cell
        lines.append("/".join(str(value) for _, value in entry.parameters))
    return "\n".join(lines)


if __name__ == "__main__":
    main()
