"""Print the benchmark table: what everything costs on this machine, beside what the project promises.

    python -m bench                              # all parts; the peers where .venv-peers is there
    python -m bench --only closed allocation     # some parts

The figures are kept in bench/out/results.json. Servers, jobs, planning and the GPU have programs of their own
(service_bench, scale_bench, decide_bench, planning_bench, gpu).
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from bench import allocation, closed, costs, forecasts, later_limits, records, searches
from bench.table import Row, table

OUT = Path(__file__).parent / "out"
PARTS: dict[str, Callable[[], list[Row]]] = {
    "searches": searches.rows,
    "costs": costs.rows,
    "closed": closed.rows,
    "allocation": allocation.rows,
    "later-limits": later_limits.rows,
    "records": records.rows,
    "forecasts": forecasts.rows,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), metavar="PART", help=", ".join(PARTS))
    console, found = Console(), list[Row]()
    for name in parser.parse_args().only:
        with console.status(f"{name} (minutes)"):
            found += PARTS[name]()
    Console(width=max(console.width, 150)).print(table(found))
    OUT.mkdir(exist_ok=True)
    body = [row._asdict() | {"met": row.met} for row in found]
    (OUT / "results.json").write_text(json.dumps(body, indent=1, default=float))


if __name__ == "__main__":
    main()
