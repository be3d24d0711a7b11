"""Throughput of `ucsearch.scale`: rows a second of the plain run against jobs of parts on worker processes.

    python -m bench.scale_bench --series 4000 --workers 2        # also: make bench-scale

Prints seconds, microseconds a series, what parts and processes add for each series, memory of the largest worker, and
whether the rows are the same.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.decide_bench import write_job
from ucsearch.planner.decide.job import run_decide
from ucsearch.planner.settings import load_settings
from ucsearch.records import AuditReader
from ucsearch.scale.backends import run_parts
from ucsearch.scale.parts import plan_job, seal_job
from ucsearch.scale.segments.audit import segments_of
from ucsearch.scale.segments.files import DIGEST, folder_of, part_names, read_part

__all__ = ["measure"]


def row_digests(segment: Path) -> list[bytes]:
    """Digests of all rows of a segment, in one order."""
    return sorted(d for n in part_names(segment) for d in read_part(segment / n, [DIGEST]).table[DIGEST].to_pylist())


def measure(folder: Path, series: int, workers: int, parts: tuple[int, ...]) -> dict[str, Any]:
    write_job(folder, series)
    text = (folder / "job.toml").read_text() + "threads = 1\n"  # its last table is [run]
    (folder / "job.toml").write_text(text)
    settings = load_settings(folder / "job.toml")
    result: dict[str, Any] = {"series": series, "workers": workers}
    for name in ("first", "plain"):  # the first run may compile
        start = time.perf_counter()
        run_decide(settings, folder / "forecasts.parquet", folder / "states.parquet", folder / f"{name}.parquet",
                   folder / f"{name}.db")  # fmt: skip
        result[f"{name}_s"] = round(time.perf_counter() - start, 2)
    with AuditReader(folder / "plain.db") as reader:
        rows = row_digests(folder_of(folder / "plain.db", next(segments_of(reader))[1].run))
    plain = result["plain_s"] * 1e6 / series
    result["plain_us"] = round(plain, 1)
    for count in parts:
        place = folder / f"job-{count}"
        made = plan_job(folder / "job.toml", str(folder / "forecasts.parquet"), str(folder / "states.parquet"), place,
                 parts=count)  # fmt: skip
        start = time.perf_counter()
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            run_parts(place, pool)
        ran = time.perf_counter() - start
        seal_job(place)
        took = time.perf_counter() - start
        result[f"{count}_parts"] = {
            "s": round(took, 2), "us": round(took * 1e6 / series, 1), "seal_s": round(took - ran, 2),
            "overhead_us": round(took * workers * 1e6 / series - plain, 1),
            "same_rows": row_digests(made.segment) == rows,
        }  # fmt: skip
    unit = 1024 if sys.platform != "darwin" else 1
    result["worker_mb"] = round(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit / 2**20, 1)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=4_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--parts", type=int, nargs="+", default=[2, 8])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ucsearch-scale-") as folder:
        print(json.dumps(measure(Path(folder), options.series, options.workers, tuple(options.parts)), indent=2))


if __name__ == "__main__":
    main()
