"""Whether forecasts come from another model than when a monitor's stream tripped: what lets an admin arm it again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ucsearch.records.chain import Row
from ucsearch.records.reader import AuditReader
from ucsearch.service.problems import Refusal

__all__ = ["require_another_model"]

_EVENTS = 10_000  # of a plan's monitor in which the trip is looked for
_LATEST = 500  # decisions since the trip in which a series is looked for that was there before


def require_another_model(files: Sequence[AuditReader], plan: str, series: str) -> None:
    """Refuse where the newest forecast names the model that its series had when the stream (all together: "") tripped;
    `files` are those of the log, the newest first."""
    found = _tripped(files, plan, series)
    if found is None:
        # A monitor that was carried over, and the file before is not there.
        raise Refusal("not_allowed", "when it tripped is not in the files that are here; accept: true is needed")
    place, seq = found
    asked: set[str] = set()
    for row in _since(files[: place + 1], plan, series, seq):
        name = str(row.record["series"])
        if name in asked:
            continue
        asked.add(name)
        # Series may have models of their own: only forecasts of the same one can be compared.
        if (before := _before(files[place:], plan, name, seq)) is not None:
            if _model(row) != _model(before):
                return
            break
    raise Refusal(
        "not_allowed", "the forecasts' model is the one that tripped; another one, or accept: true, is needed"
    )


def _tripped(files: Sequence[AuditReader], plan: str, series: str) -> tuple[int, int] | None:
    """File and number of the entry that says so."""
    for place, log in enumerate(files):
        for row in log.list(plan=plan, kind="monitor", newest_first=True, limit=_EVENTS):
            if row.record["event"] == "tripped" and row.record["series"] == series:
                return place, row.seq
    return None


def _since(files: Sequence[AuditReader], plan: str, series: str, seq: int) -> Iterator[Row]:
    """Decisions after the trip, which is in the last file, newest first."""
    left = _LATEST
    for log in files:
        rows = log.list(plan=plan, kind="decision", series=series or None, newest_first=True, limit=left)
        for row in rows:
            if log is files[-1] and row.seq < seq:
                return
            yield row
        left -= len(rows)


def _before(files: Sequence[AuditReader], plan: str, series: str, seq: int) -> Row | None:
    """The last decision of a series before the trip, which is in the first of these files."""
    for log in files:
        limit = seq if log is files[0] else None
        rows = log.list(plan=plan, kind="decision", series=series, newest_first=True, limit=1, before=limit)
        if rows:
            return rows[0]
    return None


def _model(row: Row) -> str:
    return str(row.record["inputs"]["trace"]["meta"]["model"])
