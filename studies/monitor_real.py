"""The monitor on public series: how much it stops, and whether what it stops was worse.

    python studies/monitor_real.py          # needs UCSEARCH_DATA

One-day forecasts by ridge paths (100 members, fitted on all days before, walking forward) of every column of the sets
below, at two hours of the day where data are hourly or finer. Nothing was tuned on them.
"""

from __future__ import annotations

import math

import numpy as np

from ucsearch.forecast import RidgePaths
from ucsearch.forecast.streams import series_stream
from ucsearch.lab.data import load_ett, load_ltsf
from ucsearch.lab.data.records import Table
from ucsearch.monitor import rank_of
from ucsearch.planner.monitor.job import Seen, WatchReport, watch

PATHS, SEED, WARM_UP, MOST = 100, 7, 120, 1_000
HOURS = (8, 19)
SETS = ("exchange_rate", "traffic", "weather", "ETTh1", "ETTh2")


def load(name: str) -> Table:
    return load_ett(name) if name.startswith("ETT") else load_ltsf(name)


def daily(table: Table) -> dict[str, np.ndarray]:
    """Series of one value a day."""
    if table.frequency == "daily":
        return {c: table.column(c)[-MOST - WARM_UP :] for c in table.columns}
    hour = table.time.astype("datetime64[h]").astype(np.int64) % 24
    first = np.diff(table.time.astype("datetime64[h]"), prepend=np.datetime64(0, "h")) > np.timedelta64(0)
    out = {}
    for c in table.columns:
        for h in HOURS:
            out[f"{c} {h:02d}:00"] = table.column(c)[(hour == h) & first][-MOST - WARM_UP :]
    return out


def report_of(name: str) -> WatchReport:
    seen = []
    for series, y in daily(load(name)).items():
        if not np.isfinite(y).all() or np.unique(y).size < 50:
            continue  # a constant or a counter is no forecast to watch
        cutoffs = np.arange(WARM_UP, y.size - 1, dtype=np.int64)
        made = RidgePaths(paths=PATHS).forecast(
            y, cutoffs, horizon=1, season=7, stream=series_stream(SEED, f"{name} {series}")
        )
        for k, t in enumerate(cutoffs.tolist()):
            low, high = rank_of(made.members[k, :, 0].tolist(), float(y[t + 1]))
            seen.append(Seen(t, str(t), series, low, high))
    return watch(seen)


def main() -> None:
    print("| set | series | outcomes | missed 90 % | tripped | blocked | missed blocked | missed free |")
    print("|---|---|---|---|---|---|---|---|")
    for name in SETS:
        r = report_of(name)
        tripped = {e.series for e in r.events if e.event == "tripped" and e.series}
        blocked = sum(s.blocked for s in r.series)
        held = [s for s in r.series if s.blocked]
        during = math.fsum(s.missed_blocked * s.blocked for s in held) / max(1, blocked)
        rest = sum(s.outcomes - s.blocked for s in held)
        free = math.fsum(s.missed_free * (s.outcomes - s.blocked) for s in held) / max(1, rest)
        print(
            f"| {name} | {len(r.series)} | {r.outcomes:,} | {100 * r.pool.missed:.1f} % | {len(tripped)} | "
            f"{100 * blocked / r.outcomes:.1f} % | {100 * during:.1f} % | {100 * free:.1f} % |", flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
