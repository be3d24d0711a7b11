"""How long `ucsearch tune` and `ucsearch decide` take on files of a usual size.

    python -m bench.planning_bench                               # both, whole
    python -m bench.planning_bench --only decide --series 3000   # a part, smaller

Both run in processes of their own, on generated sales and forecasts. Processor time counts (user and system, children
included), because wall time says more about who else uses the machine; on two cores half of it is the least wall time.
Limits: tune 1,200 s of processor time (ten minutes on two cores), decide 25 s; beyond them the exit code is 1. `tune`
has the settings of `ucsearch new inventory`. `decide` is measured with plans on the mean (as in
`decide_bench`), and for a tenth of the series with the settings of `ucsearch new`, which have no limit.
"""

from __future__ import annotations

import argparse
import math
import resource
import subprocess
import sys
import tempfile
import time
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.decide_bench import SETTINGS as MEAN
from ucsearch.planner.new.inventory import write_scaffold

TUNED, DAYS, TRIES = 200, 400, 12
DECIDED, MEMBERS, STEPS = 30_000, 40, 14
TUNE_LIMIT, DECIDE_LIMIT = 1_200.0, 25.0  # seconds of processor time
FIRST = date(2024, 1, 1)


class Taken(NamedTuple):
    """What a command took."""

    cpu: float  # s, user and system
    wall: float  # s
    peak: float  # MB


def levels(count: int, rng: np.random.Generator) -> np.ndarray:
    """Mean sales a day, from slow to fast items."""
    return np.exp(rng.uniform(np.log(0.5), np.log(30.0), count))


def write_sales(path: Path, count: int, days: int, seed: int = 1) -> None:
    rng = np.random.default_rng(seed)
    week = 1.0 + 0.3 * np.sin(2.0 * np.pi * np.arange(days) / 7.0)
    with path.open("w") as file:
        file.write("series,date,demand\n")
        for i, level in enumerate(levels(count, rng)):
            sold = rng.poisson(level * week * rng.gamma(4.0, 0.25, days))
            file.writelines(f"S{i:05d},{FIRST + timedelta(days=t)},{y}\n" for t, y in enumerate(sold.tolist()))


def write_forecasts(forecasts: Path, states: Path, count: int, seed: int = 2) -> None:
    rng = np.random.default_rng(seed)
    week = 1.0 + 0.3 * np.sin(2.0 * np.pi * np.arange(STEPS) / 7.0)
    mean = levels(count, rng)
    with forecasts.open("w") as file, states.open("w") as stock:
        file.write(f"series,step,{','.join(f'member_{j + 1}' for j in range(MEMBERS))}\n")
        stock.write("series,on_hand,open_orders_1,open_orders_2\n")
        for i, level in enumerate(mean.tolist()):
            members = rng.poisson(level * week[:, None] * rng.gamma(4.0, 0.25, (STEPS, MEMBERS)))
            file.writelines(
                f"S{i:05d},{h + 1},{','.join(map(str, row))}\n" for h, row in enumerate(members.tolist())
            )  # fmt: skip
            stock.write(f"S{i:05d},{round(3.0 * level * rng.uniform())},{round(level)},0\n")


def timed(*arguments: str, folder: Path) -> Taken:
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    call = [sys.executable, "-c", "from ucsearch.cli import main; main()", *arguments]
    done = subprocess.run(call, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise RuntimeError(f"{arguments[0]}: exit code {done.returncode}\n{done.stdout}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Taken(cpu, wall, after.ru_maxrss / 1024.0)


def told(name: str, size: str, taken: Taken, limit: float) -> bool:
    good = taken.cpu <= limit
    print(
        f"{name:7} {size:44} {taken.cpu:8.1f} s processor, {taken.wall:8.1f} s wall, peak {taken.peak:6.0f} MB; "
        f"limit {limit:g} s: {'held' if good else 'MISSED'}", flush=True,
    )  # fmt: skip
    return good


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.planning_bench", description=__doc__)
    parser.add_argument("--only", choices=("tune", "decide"))
    parser.add_argument("--series", type=int, help="instead of 200 (tune) and 30,000 (decide)")
    given = parser.parse_args()
    good = True
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_scaffold("inventory", folder)
        if given.only != "tune":
            count = given.series or DECIDED
            (folder / "mean.toml").write_text(MEAN)
            write_forecasts(folder / "f0.csv", folder / "s0.csv", 1_200)
            for name, some, limit in (("mean", count, DECIDE_LIMIT), ("ucsearch", count // 10, math.inf)):
                write_forecasts(folder / "f.csv", folder / "s.csv", some)
                for run in ("0", ""):  # kernels are compiled once per machine; a day's run finds them on disk
                    files = {
                        "forecasts": f"f{run}.csv", "states": f"s{run}.csv", "decisions": f"{name}{run}.csv",
                        "log": f"{name}{run}.db",
                    }  # fmt: skip
                    changes = [word for key, file in files.items() for word in ("--set", f"files.{key}={file}")]
                    taken = timed("decide", "-c", f"{name}.toml", *changes, folder=folder)
                size = f"{name}, {some:,} x {MEMBERS} members x {STEPS} steps, CSV"
                good &= told("decide", size, taken, limit)
        if given.only != "decide":
            count = given.series or TUNED
            write_sales(folder / "sales.csv", count, DAYS)
            taken = timed("tune", folder=folder)
            good &= told("tune", f"{count} series x {DAYS} days x {TRIES} tries", taken, TUNE_LIMIT)
    if not good:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
