"""A job of 60 series in Parquet files, decided by the plain engine; and the same as one Arrow table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ucsearch.scale.segments.files import Sealed

COUNT, MEMBERS, STEPS = 60, 5, 4


def digests(*tables: pa.Table) -> dict[str, bytes]:
    """Digest of every row by series, however the rows are parted."""
    pairs = [pair for t in tables for pair in zip(t["series"].to_pylist(), t["digest"].to_pylist(), strict=True)]
    assert len(dict(pairs)) == len(pairs)
    return dict(sorted(pairs))


def sealed_digests(folder: Path, sealed: Sealed) -> dict[str, bytes]:
    """The same of the rows of a segment."""
    return digests(*(pq.read_table(folder / part.name, columns=["series", "digest"]) for part in sealed.parts))


TOML = """
[task]
name = "lead_time_inventory"
lead_time = 1
holding = 1.0
shortage = 9.0
[actions]
multiples = [-1.0, 0.0, 1.0]
[policy]
name = "exact"
depth = 2
risk = 0.25
[run]
engine = "python"
chunk = 7
segment_from = 1
"""


def content(count: int = COUNT) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    return {
        "names": [f"S{i * 7919 % 1000:03d}" for i in range(count)],
        "members": np.round(rng.gamma(4.0, 2.0, (count, MEMBERS, STEPS)), 1),
        "on_hand": np.round(rng.uniform(0.0, 20.0, count)),
        "open": np.round(rng.uniform(0.0, 5.0, count)),
        "shortage": np.where(np.arange(count) % 3 == 0, 4.0, 9.0),
        "lead_time": np.where(np.arange(count) % 5 == 0, 2, 1),
    }


def batch(count: int = COUNT) -> pa.Table:
    c = content(count)
    return pa.table({
        "series": c["names"],
        "members": pa.array(c["members"].tolist(), pa.list_(pa.list_(pa.float64()))),
        "on_hand": c["on_hand"],
        "open_orders": pa.array([[x] for x in c["open"]], pa.list_(pa.float64())),
        "shortage": c["shortage"],
        "lead_time": c["lead_time"],
    })  # fmt: skip


def write_files(folder: Path, *, files: int = 2, group: int = 17, count: int = COUNT) -> Path:
    """Settings, forecasts in some files of small row groups, states."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "job.toml").write_text(TOML)
    c = content(count)
    cuts = np.array_split(np.arange(count), files)
    for k, own in enumerate(cuts):
        flat = c["members"][own].transpose(0, 2, 1).reshape(-1, MEMBERS)
        columns: dict[str, Any] = {"series": np.repeat(np.array(c["names"])[own], STEPS)}
        columns["step"] = np.tile(np.arange(1, STEPS + 1), len(own))
        columns |= {f"member_{j + 1}": flat[:, j] for j in range(MEMBERS)}
        pq.write_table(pa.table(columns), folder / f"f-{k}.parquet", row_group_size=group)
    states = {"series": c["names"], "on_hand": c["on_hand"], "open_orders_1": c["open"]}
    states |= {"shortage": c["shortage"], "lead_time": c["lead_time"]}
    pq.write_table(pa.table(states), folder / "states.parquet", row_group_size=16)
    return folder
