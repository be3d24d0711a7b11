"""Parts of a job on any `concurrent.futures.Executor`: processes here, or Dask's, or another's."""

from __future__ import annotations

from concurrent.futures import Executor
from pathlib import Path

from ucsearch.scale.parts import Folder, run_part

__all__ = ["run_parts"]


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
