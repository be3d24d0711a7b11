"""Chunks of a large run as parts of a segment, instead of an entry for every decision."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ucsearch.planner.backtest.resume import file_hash
from ucsearch.planner.decide.released import panel_rows
from ucsearch.planner.decide.rows import Rows
from ucsearch.planner.settings import Settings
from ucsearch.records.entries import Request
from ucsearch.records.log import AuditLog
from ucsearch.scale.segments.audit import sealed_before
from ucsearch.scale.segments.encode import panel_batch, refusal_batch
from ucsearch.scale.segments.files import (
    DIGEST,
    encode_part,
    folder_of,
    part_name,
    run_name,
    seal_folder,
    segment_record,
    write_part,
    write_shared,
)
from ucsearch.scale.segments.shared import Shared, worker
from ucsearch.task import Task

if TYPE_CHECKING:
    from ucsearch.planner.decide.inputs import Work
    from ucsearch.planner.decide.job import Chunk

__all__ = ["Segment", "batches_of", "is_segmented", "resolve_reach", "shared_of", "why_no_rows"]


def is_segmented(plan: Work) -> bool:
    """Whether a run's decisions go to a segment: there are many, and Parquet can be written. A recalibration needs the
    members beside it."""
    settings = plan.settings
    if settings.shared:  # an allocation names the entry of every decision
        return False
    if settings.task.task().width:  # rows hold actions that are numbers
        return False
    if len(plan.series) < settings.run.segment_from or importlib.util.find_spec("pyarrow") is None:
        return False
    known = plan.fixes is None or settings.log.keep != "reference"
    # A segment holds one policy for all of its rows.
    same = all(case.kind.policy == settings.policy for case in plan.states.cases.values())
    return why_no_rows(settings) is None and known and same and plan.standing is None


def why_no_rows(settings: Settings) -> tuple[str, str, str] | None:
    """Which setting keeps decisions from being rows of a segment: field, seen, expected; None where none does."""
    if settings.policy.mode == "scores":
        return "policy.mode", "'scores'", "mode 'mean', 'members' or 'closed': rows of a segment"
    if settings.task.task().width:
        return "task", "actions that are tuples", "actions that are numbers: rows of a segment"
    return None


def resolve_reach(task: Task, policy: Any, horizon: int) -> int:
    """Steps of the trace that are planned on."""
    return horizon if policy.mode == "members" and task.continuations else int(policy.depth)


def shared_of(settings: Settings, now: datetime | None) -> Shared:
    from ucsearch.decision.api import _utc

    proof = settings.proof
    return Shared(
        settings.policy, settings.gate, settings.calibration, proof.kind, proof.eps_m, proof.node_budget,
        "" if now is None else _utc(now).isoformat(), settings.log.keep, settings.digest, worker(),
    )  # fmt: skip


def batches_of(plan: Work, chunk: Chunk, shared: Shared) -> list[Any]:
    """The chunk's decisions and refusals as rows."""
    out = []
    for panel, names, kind, _, horizon, sources in chunk.panels:
        out.append(panel_batch(panel, names, kind.where, horizon, shared.keep, sources))
    for name, (problem, decision) in chunk.refused.items():
        case = plan.states.cases.get(name)
        detail = _placeless(str(problem), plan)
        out.append(refusal_batch(decision, name, "" if case is None else case.kind.where, detail))
    return out


def _placeless(text: str, plan: Work) -> str:
    """With the files' names alone: rows must not depend on the folder in which a machine finds them."""
    for path in (plan.forecasts.table.path, plan.states.table.path):
        text = text.replace(str(path), path.name)
    return text


class Segment(NamedTuple):
    """The segment that a run writes."""

    shared: Shared
    folder: Path
    run: str

    @classmethod
    def begin(cls, plan: Work, log: Path, now: datetime | None, files: Sequence[str | Path]) -> Segment:
        shared = shared_of(plan.settings, now)
        run = run_name(shared, [file_hash(path) for path in files])
        folder = folder_of(log, run)
        write_shared(folder, shared)
        return cls(shared, folder, run)

    def has(self, number: int) -> bool:
        return (self.folder / part_name(number)).exists()

    def write(self, plan: Work, chunk: Chunk) -> list[list[Any]]:
        """The chunk's part, synced; then its rows, in the order of its series."""
        table = encode_part(batches_of(plan, chunk, self.shared), self.shared, chunk.series)
        write_part(self.folder / part_name(chunk.number), table, self.shared)
        ids = dict(zip(table.column("series").to_pylist(), table.column(DIGEST).to_pylist(), strict=True))
        make = Rows(plan)
        rows: dict[str, list[Any]] = {}
        for panel, names, *_ in chunk.panels:
            rows.update(zip(names, panel_rows(make, panel, names, [ids[n].hex() for n in names]), strict=True))
        for name, (problem, d) in chunk.refused.items():
            rows[name] = make.refused(name, problem, d, ids[name].hex())
        return [rows[name] for name in chunk.series]

    def close(self, book: AuditLog, request: Request, parts: int) -> None:
        """Seal the parts and write the entry; a run that was cut off in between writes it once."""
        names = [part_name(n) for n in range(parts)]
        sealed = seal_folder(self.folder, self.run, names, sealed_before(book.path, self.run))
        book.append(segment_record(sealed, request=request))
