"""Ray Data: `decide_batch` over a dataset with a row for each series (extra `ray`, ray[data] 2.40 or newer).

Every worker writes the rows of each batch as a part of its own, under a name made of their digests, so that a task that
is run again writes the same file. Repartition explicitly: a few small files would be one block.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ucsearch.scale.batch import decide_batch
from ucsearch.scale.job import Job
from ucsearch.scale.named import write_named

__all__ = ["write_parts"]


def write_parts(dataset: Any, job: Job, folder: str | Path, *, blocks: int, batch_size: int = 1_000) -> list[str]:
    """Decide all rows in `blocks` blocks and write them to `folder`, which all workers can reach; names of the parts.
    A block's order is its own, so parts are named by their content."""
    place = str(folder)

    def work(batch: Any) -> Any:
        import pyarrow as pa

        if not batch.num_rows:
            return pa.table({"part": pa.array([], pa.string()), "rows": pa.array([], pa.int64())})
        name, rows = write_named(decide_batch(batch, job), job, place)
        return pa.table({"part": [name], "rows": [rows]})

    told = dataset.repartition(blocks).map_batches(work, batch_format="pyarrow", batch_size=batch_size)
    return sorted({row["part"] for row in told.iter_rows()})
