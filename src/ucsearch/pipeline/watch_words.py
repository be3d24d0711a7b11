"""What the monitor found, in a planner's words, as a table and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ucsearch.monitor.bets import ADVICE
from ucsearch.pipeline.retold import plain
from ucsearch.pipeline.watch import COVERED, StreamReport, WatchReport
from ucsearch.pipeline.written import write_table
from ucsearch.report.text import count_text, number

__all__ = ["advice", "as_json", "name_of", "state_words", "watch_text", "write_watch"]

SHOWN = 20  # series listed in the terminal
_COLUMNS: dict[str, type] = {
    "series": str, "state": str, "since": str, "evidence": float, "limit": float, "about": str, "outcomes": int,
    "missed": float, "missed_lately": float, "blocked": int, "missed_blocked": float, "missed_free": float,
}  # fmt: skip


def name_of(series: str) -> str:
    return plain(series) if series else "all series together"


def advice(about: str) -> str:
    return ADVICE.get(about, "")


def state_words(stream: StreamReport, limit: float) -> str:
    """One sentence about a stream."""
    if not stream.status.tripped:
        return f"calm, evidence {_rounded(stream.status.evidence)} of {number(limit)}"
    return f"tripped {stream.since}: {stream.status.about}, {_missed(stream)}"


def _missed(stream: StreamReport) -> str:
    return (
        f"{100 * stream.missed_lately:.0f} % of outcomes lately fell outside the range that should hold "
        f"{100 * COVERED:g} %"
    )


def _rounded(value: float) -> str:
    return number(float(f"{value:.3g}"))


def watch_text(report: WatchReport) -> str:
    """What a person needs first comes first."""
    limit = report.settings.limit
    count = len({e.series for e in report.events if e.event == "tripped"})
    lines = [
        f"{count_text(len(report.series), 'series', 'series')}, {count_text(report.outcomes, 'outcome')} from "
        f"{report.first} to {report.last}; {len(report.tripped)} tripped now, {count} at some time.",
        f"An honest forecast trips within {number(report.settings.within)} outcomes with a chance of at most "
        f"{100 * report.settings.alpha:g} %.",
        "",
        f"All series together: {state_words(report.pool, limit)}.",
    ]
    tripped = [s for s in report.series if s.status.tripped]
    if tripped:
        lines += ["", "Tripped now (releases stop, the fallback leaves):"]
        lines += [f"  {name_of(s.series)}: {state_words(s, limit)}" for s in tripped[:SHOWN]]
        lines += _more(tripped)
    for about in dict.fromkeys(s.status.about for s in (report.pool, *tripped) if s.status.tripped):
        lines.append(f"  {about}: {advice(about)}.")
    calm = [s for s in report.series if not s.status.tripped]
    if calm:
        lines += ["", "Calm, the most suspicious first:"]
        lines += [f"  {name_of(s.series)}: {state_words(s, limit)}" for s in calm[: SHOWN // 2]]
        lines += _more(calm, SHOWN // 2)
    if report.events:
        lines += ["", "What happened:"]
        lines += [f"  {_event(e)}" for e in report.events[-SHOWN:]]
        if len(report.events) > SHOWN:
            lines.insert(len(lines) - SHOWN, f"  {len(report.events) - SHOWN} earlier events are in --out and --html")
    blocked = _blocked(report)
    if blocked:
        lines += ["", blocked]
    lines += [f"Note: {note}" for note in report.notes]
    return "\n".join(lines)


def _more(streams: Sequence[StreamReport], shown: int = SHOWN) -> list[str]:
    return [f"  and {len(streams) - shown} more"] if len(streams) > shown else []


def _event(e: Any) -> str:
    what = f"tripped, {e.about}" if e.event == "tripped" else "was armed again after calm outcomes"
    return f"{e.when}  {name_of(e.series)} {what} (outcome {e.outcomes:,} of its stream)"


def _blocked(report: WatchReport) -> str:
    """Whether trips were worth it: misses while tripped against the rest."""
    held = [s for s in report.series if s.blocked]
    count = sum(s.blocked for s in held)
    if not count:
        return ""
    during = sum(s.missed_blocked * s.blocked for s in held) / count
    free = [(s.missed_free, s.outcomes - s.blocked) for s in held if s.outcomes > s.blocked]
    rest = math.fsum(m * n for m, n in free) / max(1, sum(n for _, n in free))
    return (
        f"{100 * count / report.outcomes:.1f} % of outcomes came while their own series was tripped; "
        f"{100 * during:.1f} % of these fell outside the {100 * COVERED:g} % range, {100 * rest:.1f} % of the same "
        "series' others."
    )


def _row(stream: StreamReport, limit: float) -> list[Any]:
    state = "tripped" if stream.status.tripped else "calm"
    return [
        stream.series, state, stream.since, stream.status.evidence, limit, stream.status.about, stream.outcomes,
        stream.missed, stream.missed_lately, stream.blocked, stream.missed_blocked, stream.missed_free,
    ]  # fmt: skip


def write_watch(report: WatchReport, path: str | Path) -> int:
    """One row per series, the pool (an empty name) first; .csv or .parquet."""

    def rows() -> Iterator[Sequence[Any]]:
        for stream in (report.pool, *report.series):
            yield _row(stream, report.settings.limit)

    return write_table(path, _COLUMNS, rows)


def as_json(report: WatchReport) -> dict[str, Any]:
    """Everything but the curves; numbers that are not defined are null."""

    def told(stream: StreamReport) -> dict[str, Any]:
        row = dict(zip(_COLUMNS, _row(stream, report.settings.limit), strict=True))
        return {k: None if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()}

    return {
        "settings": {**vars(report.settings), "limit": report.settings.limit, "tolerance": report.settings.tolerance},
        "first": report.first,
        "last": report.last,
        "pool": told(report.pool),
        "series": [told(s) for s in report.series],
        "events": [e._asdict() for e in report.events],
        "notes": list(report.notes),
    }
