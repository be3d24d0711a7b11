"""Decisions on many machines: one Arrow function, jobs of parts for any scheduler, adapters for Spark and Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ucsearch.scale.batch import decide_batch
    from ucsearch.scale.job import Job

__all__ = ["Job", "decide_batch"]


def __getattr__(name: str) -> Any:
    """Loaded when asked for: a worker that only writes parts should not wait for the rest."""
    if name == "decide_batch":
        from ucsearch.scale.batch import decide_batch

        return decide_batch
    if name == "Job":
        from ucsearch.scale.job import Job

        return Job
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
