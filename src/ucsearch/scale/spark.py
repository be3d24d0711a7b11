"""Spark: `decide_batch` over a DataFrame with a row for each series (extra `spark`, pyspark 4.0 or newer).

Every worker writes the rows of each Arrow batch as a part of its own, under a name made of their digests, so that a
task that is run again writes the same file. What comes back are names and digests; `seal_parts` closes the run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ucsearch.scale.batch import decide_batch
from ucsearch.scale.job import Job
from ucsearch.scale.named import write_named

__all__ = ["decide_dataframe", "write_parts"]


def write_parts(frame: Any, job: Job, folder: str | Path) -> Any:
    """A DataFrame of (part, rows): Arrow batches are decided and written to `folder`, which all workers can reach."""
    place = str(folder)

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            if batch.num_rows:
                name, rows = write_named(decide_batch(batch, job), job, place)
                yield pa.RecordBatch.from_pydict({"part": [name], "rows": [rows]})

    return frame.mapInArrow(work, "part string, rows long")


def decide_dataframe(frame: Any, job: Job) -> Any:
    """A DataFrame of (series, outcome, action, reason, digest), for whoever only wants to look."""

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if batch.num_rows:
                shown = decide_batch(batch, job).select(["series", "outcome", "action", "reason", "digest"])
                yield from shown.cast(_shown()).to_batches()

    return frame.mapInArrow(work, "series string, outcome string, action double, reason string, digest binary")


def _shown() -> Any:
    import pyarrow as pa

    texts = [(n, pa.string()) for n in ("series", "outcome")]
    return pa.schema([*texts, ("action", pa.float64()), ("reason", pa.string()), ("digest", pa.binary())])
