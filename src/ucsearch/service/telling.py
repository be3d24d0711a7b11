"""A decision told, and entries exported: what reads more of the log than a table shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ucsearch.errors import RecordError
from ucsearch.pipeline.explain import explain_row
from ucsearch.records.chain import GENESIS
from ucsearch.records.export import jsonl_line
from ucsearch.records.reader import AuditReader
from ucsearch.report.fan import fan, quantiles
from ucsearch.service.plans import Plan
from ucsearch.service.reads import find_row, outcomes_of

__all__ = ["Explained", "explain", "export_part"]

_EXPORTED = 200  # lines at a time


@dataclass(frozen=True)
class Explained:
    """A decision in words, and its forecast as SVG ("" without one)."""

    title: str
    text: str
    svg: str


def explain(reader: AuditReader, id: str, known: Mapping[str, Plan]) -> Explained:
    row = find_row(reader, id)
    plan = known.get(str(row.record.get("plan", "")))
    told = explain_row(reader, row, None if plan is None else plan.settings)
    svg = ""
    if told.members.size:
        weights = told.weights.tolist()
        rows = [quantiles(step, weights) for step in told.members[:, :, 0].T.tolist()]
        came = {o.step: float(o.value) for o in outcomes_of(reader, row) if not o.replaces and not _several(o.value)}
        svg = fan("forecast", f"forecast of {told.series}", rows, came, told.outcome_unit or told.units)
    return Explained(told.title, told.text, svg)


def _several(value: Any) -> bool:
    return isinstance(value, list)


def export_part(reader: AuditReader, first: int, last: int | None, previous: str) -> tuple[list[bytes], str]:
    """Some exported lines from entry `first` on, and the head after them. `previous` is the head before them, where
    some were exported already: a log that was rotated since has other entries under these numbers."""
    if previous and reader.get(first - 1).head != previous:
        raise RecordError("the log goes on in another file")
    rows = list(islice(reader.rows(first, last), _EXPORTED))
    before = previous or (GENESIS if first == 1 else reader.get(first - 1).head if rows else "")
    out = []
    for row in rows:
        out.append(jsonl_line(row, before, reader.blobs_of(row)))
        before = row.head
    return out, before
