"""Jobs of parts on other engines: any `concurrent.futures.Executor`, Spark, Ray Data.

Spark (extra `spark`, pyspark 4.0 or newer) and Ray (extra `ray`, ray[data] 2.40 or newer) cut the work themselves.
Every worker writes the rows of each Arrow batch as a part of its own, under a name made of their digests, so that a
task that is run again writes the same file. What comes back are names; `seal_parts` closes the run. On Ray repartition
explicitly: a few small files would be one block.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from ucsearch.scale.batch import decide_batch
from ucsearch.scale.job import Job
from ucsearch.scale.parts import Folder, run_part, write_named

__all__ = [
    "run_parts",
    "write_ray_parts",
    "write_spark_parts",
]


def run_parts(folder: str | Path, executor: Executor, *, attempts: int = 2) -> list[Path]:
    """Run every part that is not done. A worker that dies takes its executor's other parts with it in some executors;
    what is missing then is tried again by the next call, or by `attempts` on an executor that goes on."""
    planned = Folder.read(folder)
    todo = dict.fromkeys(range(len(planned.items)), 0)
    done: dict[int, Path] = {}
    while todo:
        futures = {n: executor.submit(run_part, str(planned.path), n) for n in todo}
        for n, future in futures.items():
            try:
                done[n] = Path(future.result())
                todo.pop(n)
            except Exception:
                todo[n] += 1
                if todo[n] >= attempts:
                    raise
    return [done[n] for n in sorted(done)]


def write_spark_parts(frame: Any, job: Job, folder: str | Path) -> Any:
    """A DataFrame of (part, rows): Arrow batches are decided and written to `folder`, which all workers can reach."""
    place = str(folder)

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            if batch.num_rows:
                name, rows = write_named(decide_batch(batch, job), job, place)
                yield pa.RecordBatch.from_pydict({"part": [name], "rows": [rows]})

    return frame.mapInArrow(work, "part string, rows long")


def write_ray_parts(dataset: Any, job: Job, folder: str | Path, *, blocks: int, batch_size: int = 1_000) -> list[str]:
    """Decide all rows in `blocks` blocks and write them to `folder`, which all workers can reach; names of the parts.
    A block's order is its own, so parts are named by their content."""
    place = str(folder)

    def work(batch: Any) -> Any:
        import pyarrow as pa

        if not batch.num_rows:
            return pa.table({"part": pa.array([], pa.string()), "rows": pa.array([], pa.int64())})
        name, rows = write_named(decide_batch(batch, job), job, place)
        return pa.table({"part": [name], "rows": [rows]})

    written = dataset.repartition(blocks).map_batches(work, batch_format="pyarrow", batch_size=batch_size)
    return sorted({row["part"] for row in written.iter_rows()})
