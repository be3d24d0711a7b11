"""Forecasts of decisions for the monitor: of entries, and of rows of segments, from which nothing is decided again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.ensembles import uniform
from ucsearch.errors import RecordError
from ucsearch.records.blobs import decode_array
from ucsearch.records.chain import Row
from ucsearch.records.reader import AuditReader
from ucsearch.segments.files import DIGEST, SHARED, Sealed, folder_of, part_names, rows_of_part
from ucsearch.segments.rebuild import check_digests
from ucsearch.segments.shared import SCHEMA, Shared

__all__ = ["Forecast", "entry_forecast", "segment_forecasts", "segment_of"]

Floats = NDArray[np.float64]


class Forecast(NamedTuple):
    """What a decision was made on; its members are read only where there is an outcome."""

    id: str  # of the record, or digest of the row: what decisions.csv calls the certificate
    series: str
    cutoff: str  # "" where it names none
    members: Callable[[], tuple[Floats, Floats]]  # (J, H) of the first field, as far as they are kept, and weights (J,)


def entry_forecast(reader: AuditReader, id: str, record: dict[str, Any]) -> Forecast:
    trace = record["inputs"]["trace"]
    cutoff = trace["meta"]["cutoff"]

    def read() -> tuple[Floats, Floats]:
        members, weights = (decode_array(reader.blob(trace[n]["$blob"]))[0] for n in ("members", "weights"))
        return members[:, :, 0], weights

    return Forecast(id, record["series"] or id[:12], cutoff[0] if cutoff else "", read)


def segment_of(record: dict[str, Any], row: Row) -> Sealed | None:
    """The segment that an entry seals; None for any other entry."""
    ours = record.get("kind") == "segment" and record.get("schema") == SCHEMA and "parts" in record
    return Sealed.read(record, f"entry {row.seq}") if ours else None


def segment_forecasts(log: Path, sealed: Sealed) -> Iterator[Forecast]:
    """Of all decisions of a segment, after digests and traces were found to follow from the columns."""
    folder = folder_of(log, sealed.run)
    shared = Shared.read(folder / SHARED)
    for name in part_names(folder):
        found, batches = rows_of_part(folder / name)
        stored = found.table.column(DIGEST).to_pylist()
        for places, batch in batches:
            own = [stored[i] for i in places.tolist()]
            if (wrong := check_digests(batch, own, shared.sha)) is not None:
                raise RecordError(f"{name}, series {batch.texts['series'][wrong[0]]!r}: {wrong[1]}; verify the log")
            for i, digest in enumerate(own):
                meta = json.loads(batch.texts["meta"][i] or "null")
                if meta is not None:  # a refusal has no forecast
                    cutoff = meta["cutoff"][0] if meta["cutoff"] else ""
                    yield Forecast(digest.hex(), batch.texts["series"][i], cutoff, _members(batch, i))


def _members(batch: Any, i: int) -> Callable[[], tuple[Floats, Floats]]:
    def read() -> tuple[Floats, Floats]:
        size, _, kept, fields = (int(x) for x in batch.numbers["shape"][i])
        weights = batch.numbers["weights"][i]
        members = np.asarray(batch.members[i]).reshape(kept, size, fields)[:, :, 0].T
        return members, weights if weights.size else uniform(size)[0]

    return read
