"""Verifying beside deciding: items of M5 under the settings of `ucsearch new inventory`, in processes of their own.

    UCSEARCH_DATA=folder python -m bench.verify_bench            # 180 items that somebody has looked at

Prints processor seconds of decide and of verify, both with everything compiled, and what verify takes besides the first
time. The goal is a ratio of 2 at most, every record valid.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from studies.m5_items import drawn, sales_of

__all__ = ["write_job"]


def write_job(folder: Path, items: int, seed: int) -> str:
    """Settings, sales and states of so many items, and their forecasts; returns the first day forecast."""
    run(folder.parent, "new", "inventory", folder.name)
    histories = sales_of(drawn(items, seed, fresh=False)).histories
    with (folder / "sales.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["series", "date", "demand"])
        for history in histories:
            for day, value in enumerate(history.y.tolist()):
                writer.writerow([history.series, str(history.first.astype("datetime64[D]") + day), value])
    with (folder / "states.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["series", "on_hand", "open_orders_1", "open_orders_2"])
        for history in histories:
            level = float(history.y[-28:].mean())
            writer.writerow([history.series, round(3.0 * level), round(level), 0])
    run(folder, "forecast")
    with (folder / "forecasts.csv").open() as file:
        return next(csv.DictReader(file))["date"]


def run(folder: Path, *words: str) -> float:
    """Processor seconds of a command; its last line is shown."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", "from ucsearch.cli import main; main()", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"ucsearch {words[0]}: exit {done.returncode}; {(done.stdout or done.stderr).strip().splitlines()[-1]}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=180)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ucsearch-verify-") as place:
        os.environ.setdefault("UCSEARCH_CACHE_DIR", f"{place}/cache")
        folder = Path(place) / "job"
        day = write_job(folder, options.items, options.seed)
        start = run(folder, "--version")
        log = folder / "decisions.db"
        decide, verify = [], []
        for turn in range(3):  # the first compiles
            log.unlink(missing_ok=True)
            decide.append(run(folder, "decide", "--fresh", "--now", day) - start)
            verify.append(run(folder, "verify", log.name) - start)
            print(f"turn {turn + 1}: decide {decide[-1]:.2f} s, verify {verify[-1]:.2f} s")
        found = {
            "items": options.items, "decide_s": round(min(decide[1:]), 2), "verify_s": round(min(verify[1:]), 2),
            "ratio": round(min(verify[1:]) / min(decide[1:]), 2),
            "verify_compiles_s": round(verify[0] - min(verify[1:]), 2),
        }  # fmt: skip
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
