"""`ucsearch decide` on many series, from Parquet to logged decisions; also killed on the way and started again.

    python -m bench.decide_bench --series 100000 --folder FOLDER            # time, processor time and peak memory
    python -m bench.decide_bench --series 100000 --folder FOLDER --kill     # then once more, cut off and resumed

FOLDER needs about 15 kB per series and run (75 kB where the log is no segment); what is written there is removed at the
end unless `--keep` is given.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["check_log", "resumed", "run", "write_job"]

MEMBERS, STEPS = 100, 28
SETTINGS = """
units = "pieces"
[task]
name = "lead_time_inventory"
lead_time = 2
holding = 0.5
shortage = 9.0
unit_cost = 0.1
[actions]
multiples = [-1.0, 0.0, 1.0, 2.0, 3.0]
[policy]
name = "exact"
depth = 7
risk = 0.25
[run]
segment_from = 1000
"""


def write_job(folder: Path, series: int, *, members: int = MEMBERS, steps: int = STEPS, seed: int = 0) -> None:
    """Settings, states and forecasts (float32 columns, one per member) of series with sales from 5 to 500 a day."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "job.toml").write_text(SETTINGS)
    names = [f"S{i:06d}" for i in range(series)]
    rng = np.random.default_rng(seed)
    level = np.exp(rng.uniform(np.log(5.0), np.log(500.0), series))
    stock = {"series": names, "on_hand": np.round(level * rng.uniform(0.0, 4.0, series))}
    for i in (1, 2):
        stock[f"open_orders_{i}"] = np.round(level * rng.uniform(0.0, 1.5, series))
    pq.write_table(pa.table(stock), folder / "states.parquet")
    fields = [
        ("series", pa.string()),
        ("step", pa.int32()),
        *((f"member_{j + 1}", pa.float32()) for j in range(members)),
    ]
    week = 1.0 + 0.3 * np.sin(2.0 * np.pi * np.arange(steps) / 7.0)
    with pq.ParquetWriter(folder / "forecasts.parquet", pa.schema(fields), compression="zstd") as writer:
        for lo in range(0, series, 1000):
            hi = min(lo + 1000, series)
            noise = rng.gamma(9.0, 1.0 / 9.0, (hi - lo, steps, members)) * rng.uniform(0.8, 1.25, (hi - lo, 1, members))
            values = np.round(level[lo:hi, None, None] * week[:, None] * noise, 1).astype(np.float32)
            flat = values.reshape(-1, members)
            columns: list[Any] = [
                np.repeat(names[lo:hi], steps),
                np.tile(np.arange(1, steps + 1, dtype=np.int32), hi - lo),
            ]
            columns += [np.ascontiguousarray(flat[:, j]) for j in range(members)]
            writer.write_table(pa.table(dict(zip([f[0] for f in fields], columns, strict=True)), pa.schema(fields)))


def command(folder: Path, name: str) -> list[str]:
    files = {"forecasts": "forecasts.parquet", "states": "states.parquet", "decisions": f"{name}.parquet"}
    files["log"] = f"{name}.db"
    changes = [text for key, file in files.items() for text in ("--set", f"files.{key}={file}")]
    decide = ["decide", "-c", str(folder / "job.toml"), *changes]
    return [sys.executable, "-c", "from ucsearch.cli import main; main()", *decide]


def run(folder: Path, name: str) -> dict[str, float]:
    """One whole run in a process of its own."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command(folder, name), stdout=subprocess.PIPE, text=True, check=False)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise RuntimeError(f"exit code {done.returncode}: {done.stdout}")
    print(done.stdout.strip(), file=sys.stderr)
    unit = 1024 if sys.platform != "darwin" else 1
    return {
        "wall_s": round(wall, 1),
        "cpu_s": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "peak_mb": round(after.ru_maxrss * unit / 2**20, 1),  # the largest of all runs so far
    }


def resumed(folder: Path, name: str, share: float, chunks: int) -> int:
    """Kill a run (SIGKILL) when about `share` of its chunks are there, run it again; returns the chunks found there."""
    parts = folder / f"{name}.parquet.partial"
    process = subprocess.Popen(command(folder, name), stdout=subprocess.DEVNULL)
    while process.poll() is None and len(list(parts.glob("part-*.json"))) < share * chunks:
        time.sleep(0.02)
    if process.poll() is not None:
        raise RuntimeError("the run ended before it could be killed")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    found = len(list(parts.glob("part-*.json")))
    run(folder, name)
    return found


def check_log(path: Path, series: int) -> str:
    """The chain holds, and every series is in the log once; returns the digest of all ids, or of a segment's parts."""
    from ucsearch.records import AuditReader
    from ucsearch.scale.segments.audit import segments_of, verify_segments

    with AuditReader(path) as reader:
        found = reader.verify()
        if not found.ok:
            raise RuntimeError(str(found))
        for report in verify_segments(reader):
            if report.fault or report.rows != series:
                raise RuntimeError(report.fault or f"{report.rows} rows, expected {series}")
            parts = next(segments_of(reader))[1].parts
            return hashlib.sha256("".join(part.sha256 for part in parts).encode()).hexdigest()
        names, digest = [], hashlib.sha256()
        for row in reader:
            names.append(row.record["series"])
            digest.update(row.id.encode())
    if len(names) != series or len(set(names)) != series:
        raise RuntimeError(f"{len(names)} entries of {len(set(names))} series, expected {series}")
    return digest.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=2000)
    parser.add_argument("--folder", type=Path, required=True, help="where to work; must not exist")
    parser.add_argument("--kill", action="store_true", help="also kill a run at 40 %% and resume it")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True)
    try:
        write_job(options.folder, options.series)
        result: dict[str, Any] = {"series": options.series, "members": MEMBERS, "steps": STEPS}
        result["forecasts_mb"] = round((options.folder / "forecasts.parquet").stat().st_size / 2**20, 1)
        result |= run(options.folder, "whole")
        log = [options.folder / "whole.db", *(options.folder / "whole.db.d").rglob("*")]
        result["log_mb"] = round(sum(p.stat().st_size for p in log if p.is_file()) / 2**20, 1)
        start = time.perf_counter()
        ids = check_log(options.folder / "whole.db", options.series)
        result["verify_s"] = round(time.perf_counter() - start, 1)
        if options.kill:
            result["chunks_kept"] = resumed(options.folder, "cut", 0.4, -(-options.series // 1000))
            whole, cut = ((options.folder / f"{n}.parquet").read_bytes() for n in ("whole", "cut"))
            result["same_bytes"] = whole == cut
            result["same_log"] = check_log(options.folder / "cut.db", options.series) == ids
        print(json.dumps(result, indent=2))
    finally:
        if not options.keep:
            shutil.rmtree(options.folder)


if __name__ == "__main__":
    main()
