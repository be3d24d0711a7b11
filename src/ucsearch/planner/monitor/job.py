"""`ucsearch monitor`: recorded forecasts against outcomes, and when releasing should have stopped.

A forecast meets its outcome by the decision's id, by date (one period after the forecast's cutoff), or, where forecasts
name no cutoff, by count (the n-th outcome of a series belongs to its n-th decision). The first decision of a series and
cutoff counts, and the first report of an outcome: nobody can choose among them afterwards. Outcomes are read from a
file by series and date, by series and count, or by decision and step; forecasts from entries and rows of segments.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError, RecordError
from ucsearch.monitor import Monitor, Settings, Status, rank_of
from ucsearch.monitor.bets import LEAST_MEMBERS
from ucsearch.monitor.journal import settings_of
from ucsearch.planner.files.calendar import PERIODS, infer_period, is_short, later
from ucsearch.planner.files.numbers import parse_dates
from ucsearch.planner.files.table import Block, Table, open_table
from ucsearch.records.canonical import decode_array, decode_number
from ucsearch.records.entries import Row
from ucsearch.records.log import AuditReader
from ucsearch.scale.segments.files import DIGEST, SHARED, Sealed, each_part, folder_of, part_names
from ucsearch.scale.segments.rows import Batch
from ucsearch.scale.segments.shared import SCHEMA, Shared
from ucsearch.trace.members import uniform

__all__ = [
    "COVERED",
    "Event",
    "Forecast",
    "Outcomes",
    "Seen",
    "StreamReport",
    "WatchReport",
    "entry_forecast",
    "read_outcomes",
    "run_watch",
    "segment_forecasts",
    "segment_of",
    "settings_in",
    "watch",
]


COVERED = 0.9  # the share that the range people look at should hold
RECENT = 500  # outcomes that "lately" means
TENTHS = 10  # bars of the histogram of ranks
_POOL = ""


class Seen(NamedTuple):
    """Where one outcome fell among the members of its forecast."""

    place: Any  # orders periods: the forecast's cutoff, or the number of the decision within its series
    when: str  # of the outcome, for people
    series: str
    low: float
    high: float

    @property
    def missed(self) -> bool:
        """Outside the range that should hold 90 % of outcomes."""
        tail = 0.5 * (1.0 - COVERED)
        return not tail <= 0.5 * (self.low + self.high) <= 1.0 - tail


class Event(NamedTuple):
    """A stream tripped, or was armed again."""

    series: str  # "" for all together
    event: str  # "tripped" or "rearmed"
    when: str
    outcomes: int  # of the stream until then
    evidence: float
    about: str


class StreamReport(NamedTuple):
    """One series, or all together."""

    series: str  # "" for all together
    status: Status
    since: str  # when it tripped, "" while it is armed
    outcomes: int
    missed: float  # share outside the 90 % range, all outcomes
    missed_lately: float  # of the last 500
    blocked: int  # outcomes that came while the series' own stream was tripped
    missed_blocked: float  # share of those outside the range; NaN if there are none
    missed_free: float  # share of the others
    curve: tuple[tuple[str, float], ...]  # (when, evidence) after each outcome
    members: int  # fewest members of its forecasts; 0 where it is not known


@dataclass(frozen=True, eq=False)
class WatchReport:
    """What the monitor says about a log."""

    settings: Settings
    pool: StreamReport
    series: tuple[StreamReport, ...]  # by need: tripped ones first, then by evidence
    events: tuple[Event, ...]
    first: str
    last: str
    notes: tuple[str, ...]  # what could not be used, and what to know
    ranks: tuple[int, ...]  # outcomes by tenth of their rank, all series

    @property
    def tripped(self) -> tuple[StreamReport, ...]:
        return tuple(s for s in (self.pool, *self.series) if s.status.tripped)

    @property
    def outcomes(self) -> int:
        return sum(s.outcomes for s in self.series)


def run_watch(
    log: str | Path, outcomes: str | Path | None = None, *, settings: Settings | None = None, period: str = "any",
    plan: str | None = None,
) -> WatchReport:  # fmt: skip
    """Replay the monitor over a log, all its files where it was rotated, with outcomes from a file, from the log
    itself, or both; of one plan where a service wrote several. Without `settings` it is watched as the log says."""
    wanted = (settings_in(log, plan) or Settings()) if settings is None else settings
    given = None if outcomes is None else read_outcomes(outcomes, period)
    found = _Matched(wanted.lags)
    plans: set[str] = set()
    with AuditReader(log) as reader:
        reported = _logged(reader)
        if given is None and not reported:
            raise InputError(
                "files.outcomes",
                "nothing",
                "a file, because the log holds no outcomes",
                hint="See docs/how-to/monitor.md.",
            )
        for row in reader:
            record = row.record
            if record.get("kind") == "decision" and plan in (None, record.get("plan", "")):
                plans.add(str(record.get("plan", "")))
                if len(plans) > 1:
                    names = ", ".join(sorted(plans))
                    raise InputError("--plan", "nothing", f"one plan of this log, such as {names}")
                try:
                    found.add(entry_forecast(reader, row.id, record), given, reported.get(row.id, {}))
                except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
                    if isinstance(error, InputError):
                        raise
                    place = f"entry {row.seq} of {reader.file_of(row)}"
                    words = f"{place} is not a decision that this version can read ({error!r})"
                    raise RecordError(words) from error
            elif plan is None and (sealed := segment_of(record, row)) is not None:
                for forecast in segment_forecasts(reader.file_of(row), sealed):
                    found.add(forecast, given, reported.get(forecast.id, {}))
    notes = found.notes(given)
    if not found.seen:
        place = str(log) if outcomes is None else str(outcomes)
        raise InputError(place, "no outcome of a recorded decision", "at least one", hint=" ".join(notes))
    return watch(found.seen, wanted, notes=notes, members=found.members)


def watch(
    seen: Sequence[Seen], settings: Settings | None = None, *, notes: Sequence[str] = (),
    members: dict[str, int] | None = None,
) -> WatchReport:  # fmt: skip
    """Replay ranks in the order of their periods."""
    monitor = Monitor(Settings() if settings is None else settings)
    ordered = sorted(seen, key=lambda s: (s.place, s.series))
    kept: dict[str, list[tuple[Seen, bool]]] = {}  # with whether its own stream was tripped when it came
    curves: dict[str, list[tuple[str, float]]] = {_POOL: []}
    events: list[Event] = []
    for _, group in groupby(ordered, key=lambda s: s.place):
        rows = list(group)
        when = max(row.when for row in rows)
        for row in rows:
            kept.setdefault(row.series, []).append((row, monitor.status(row.series).tripped))
        for trip in monitor.period((row.series, row.low, row.high) for row in rows):
            events.append(Event(trip.series, trip.event, when, trip.outcomes, trip.evidence, trip.about))
        curves[_POOL].append((when, monitor.status().evidence))
        for row in rows:
            curves.setdefault(row.series, []).append((row.when, monitor.status(row.series).evidence))
    since = {e.series: e.when if e.event == "tripped" else "" for e in events}
    fewest = {} if members is None else members
    every = sorted((pair for pairs in kept.values() for pair in pairs), key=lambda pair: pair[0].place)
    made = [_stream(name, monitor, kept[name], curves[name], since.get(name, ""), fewest.get(name, 0)) for name in kept]
    made.sort(key=lambda s: (not s.status.tripped, -s.status.evidence, s.series))
    pool = _stream(_POOL, monitor, every, curves[_POOL], since.get(_POOL, ""), min(fewest.values(), default=0))
    whens = sorted({row.when for row in seen}, key=_natural)
    return WatchReport(
        monitor.settings, pool, tuple(made), tuple(events), whens[0], whens[-1], tuple(notes), _tenths(ordered)
    )


def _stream(
    name: str, monitor: Monitor, rows: list[tuple[Seen, bool]], curve: list[tuple[str, float]], since: str, members: int
) -> StreamReport:
    missed = [row.missed for row, _ in rows]
    blocked = [row.missed for row, tripped in rows if tripped]
    free = [row.missed for row, tripped in rows if not tripped]
    return StreamReport(
        name, monitor.status(name), since, len(rows), _share(missed), _share(missed[-RECENT:]), len(blocked),
        _share(blocked), _share(free), tuple(curve), members,
    )  # fmt: skip


def _share(flags: Sequence[bool]) -> float:
    return sum(flags) / len(flags) if flags else math.nan


def _tenths(rows: Sequence[Seen]) -> tuple[int, ...]:
    counts = [0] * TENTHS
    for row in rows:
        counts[min(TENTHS - 1, int(TENTHS * 0.5 * (row.low + row.high)))] += 1
    return tuple(counts)


def _natural(text: str) -> tuple[int, str]:
    """Numbers in their order, dates in theirs."""
    return (len(text), text) if text.isdigit() else (0, text)


def settings_in(log: str | Path, plan: str | None = None) -> Settings | None:
    """What a service's monitor of this plan (or of the only one) watches by; None where the log does not say."""
    found: dict[str, Settings] = {}
    with AuditReader(log) as reader:
        for row in reader.iterate("monitor"):
            record = row.record
            if record["event"] in ("armed", "carried") and plan in (None, record["plan"]):
                found[record["plan"]] = settings_of(record["settings"])
    return next(iter(found.values())) if len(found) == 1 else None


def _logged(reader: AuditReader) -> dict[str, dict[int, float]]:
    """Outcomes in the log: by decision and step, the first report of each."""
    out: dict[str, dict[int, float]] = {}
    for row in reader:
        record = row.record
        if record.get("kind") == "outcome":
            value = record["value"]
            first = value[0] if isinstance(value, list) else value
            out.setdefault(str(record["decision"]), {}).setdefault(int(record["step"]), float(decode_number(first)))
    return out


class _Matched:
    """Collects the ranks of decisions that have an outcome."""

    def __init__(self, lags: int) -> None:
        self.seen: list[Seen] = []
        self.members: dict[str, int] = {}
        self._lags = lags
        self._count: dict[str, int] = {}
        self._taken: set[tuple[str, Any]] = set()
        self._waiting = self._undated = self._repeated = self._short = 0

    def add(self, forecast: Forecast, given: Outcomes | None, own: dict[int, float]) -> None:
        id, series = forecast.id, forecast.series
        number = self._count[series] = self._count.get(series, 0) + 1
        cutoff = _cutoff(forecast.cutoff, "any" if given is None else given.period)
        steps = range(1, self._lags + 1)
        values = [own.get(h) for h in steps]
        when: Any = cutoff if cutoff is not None else number
        if given is not None and None in values:
            values, when = self._from_file(given, id, series, number, cutoff, when)
        if None in values:
            self._waiting += 1
            return
        place = when if given is not None and not given.dated else number if cutoff is None else cutoff
        if (series, place) in self._taken:
            self._repeated += 1
            return
        self._taken.add((series, place))
        members, weights = forecast.members()
        if members.shape[0] == 0 or members.shape[1] < self._lags:
            self._short += 1
            return
        # Exact sums on both sides, as a service has them: a path that came as it was is a tie.
        sums = [math.fsum(path) for path in members[:, : self._lags].tolist()]
        total = math.fsum(x for x in values if x is not None)
        low, high = rank_of(sums, total, weights.tolist())
        self.members[series] = min(self.members.get(series, members.shape[0]), members.shape[0])
        self.seen.append(Seen(place, _when_text(when), series, low, high))

    def _from_file(
        self, given: Outcomes, id: str, series: str, number: int, cutoff: Any, when: Any
    ) -> tuple[list[float | None], Any]:
        steps = range(1, self._lags + 1)
        if given.by_decision:
            return [given.values.get((id, h)) for h in steps], when
        if not given.dated:
            return [given.values.get((series, number + h - 1)) for h in steps], number
        if cutoff is None:
            self._undated += 1
            return [None], when
        times = [later(cutoff, h, given.period) for h in steps]
        return [given.values.get((series, t)) for t in times], times[-1]

    def notes(self, given: Outcomes | None) -> list[str]:
        out = list(given.notes) if given is not None else []
        if self._undated:
            out.append(
                f"{self._undated} decisions have forecasts without a cutoff, so outcomes cannot be matched by date: "
                "give forecasts a column cutoff, or number outcomes by step."
            )
        if self._waiting - self._undated > 0:
            out.append(f"{self._waiting - self._undated} decisions have no outcome yet.")
        if self._short:
            out.append(f"{self._short} decisions keep too few steps of their forecast to be compared with an outcome.")
        if self._repeated:
            out.append(f"{self._repeated} decisions repeat a cutoff of their series; the first of each counts.")
        coarse = sorted(name for name, count in self.members.items() if count < LEAST_MEMBERS)
        if coarse:
            fewest = min(self.members[name] for name in coarse)
            out.append(
                f"{len(coarse)} series have forecasts of fewer than {LEAST_MEMBERS} members (from {fewest}): a misfit "
                "shows late, or not at all."
            )
        return out


def _cutoff(found: str, period: str) -> Any:
    """datetime64 of the last value that the forecast saw; None where it names none."""
    if not found:
        return None
    time = parse_dates([found], "auto", wall_clock=not is_short(period))[0]
    return None if np.isnat(time) else time


def _when_text(when: Any) -> str:
    return str(when).removesuffix("T00:00:00") if isinstance(when, np.datetime64) else str(when)


def curve_of(stream: StreamReport, most: int = 400) -> Iterator[tuple[int, float]]:
    """(outcome number, evidence), thinned to `most` points without losing peaks."""
    points = [(i + 1, value) for i, (_, value) in enumerate(stream.curve)]
    width = max(1, math.ceil(len(points) / most))
    for lo in range(0, len(points), width):
        yield max(points[lo : lo + width], key=lambda p: p[1])


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
    """Of all decisions of a segment, each of whose digests follows from its columns."""
    folder = folder_of(log, sealed.run)
    shared = Shared.read(folder / SHARED)
    for found in each_part(folder, part_names(folder), shared):
        for places, batch in found.batches():
            for i, digest in enumerate(found.table.column(DIGEST).take(places).to_pylist()):
                meta = json.loads(batch.texts["meta"][i] or "null")
                if meta is not None:  # a refusal has no forecast
                    cutoff = meta["cutoff"][0] if meta["cutoff"] else ""
                    yield Forecast(digest.hex(), batch.texts["series"][i], cutoff, _members(batch, i))


def _members(batch: Batch, i: int) -> Callable[[], tuple[Floats, Floats]]:
    def read() -> tuple[Floats, Floats]:
        size, _, kept, fields = (int(x) for x in batch.numbers["shape"][i])
        weights = batch.numbers["weights"][i]
        members = np.asarray(batch.numbers["members"][i]).reshape(kept, size, fields)[:, :, 0].T
        return members, weights if weights.size else uniform(size)[0]

    return read


_SERIES = ("series", "unique_id")
_DATES = ("date", "ds")
_STEPS = ("step",)
_VALUES = ("value", "y", "demand", "outcome")
_DECISIONS = ("decision", "certificate", "id")


class Outcomes(NamedTuple):
    """What came."""

    values: dict[tuple[str, Any], float]  # by (series, datetime64), (series, count) or (decision, step)
    dated: bool
    by_decision: bool
    period: str  # between dates; "any" where there are none
    notes: tuple[str, ...]


def read_outcomes(path: str | Path, period: str = "any") -> Outcomes:
    """Columns: `series` (unique_id), `date` (ds) or `step`, `value` (y); or `decision`, `step`, `value`. Rows without a
    value are left out; the same place twice is refused unless the values are equal."""
    table = open_table(path)
    decision, series = _column(table, _DECISIONS), _column(table, _SERIES)
    date, step, value = _column(table, _DATES), _column(table, _STEPS), _column(table, _VALUES)
    by_decision = decision is not None and series is None
    name, time = (decision, step) if by_decision else (series, date if date is not None else step)
    if name is None or time is None or value is None:
        raise InputError(
            str(path), f"columns {', '.join(table.columns[:12])}",
            "series, date and value (or unique_id, ds, y); or series, step and value; or decision, step and value",
        )  # fmt: skip
    if period not in (*PERIODS, "any"):
        raise InputError("--period", repr(period), f"one of {', '.join(PERIODS)}")
    dated = not by_decision and time == date
    blocks = list(table.blocks([name, time, value]))
    found: dict[tuple[str, Any], float] = {}
    empty = 0
    for block in blocks:
        values, bad = block.numbers(value)
        times = _times(table, block, time, dated, period)
        for i, who in enumerate(block.texts(name)):
            place = f"{path}, {table.unit} {block.places[i]}"
            if i in bad or not who:
                raise InputError(place, repr(bad.get(i, who)), "a number, under a name")
            if np.isnan(values[i]):
                empty += 1
                continue
            if not np.isfinite(values[i]):
                raise InputError(place, f"{values[i]}", "a finite number")
            key = (who, times[i])
            if found.setdefault(key, float(values[i])) != values[i]:
                raise InputError(place, f"{who!r} at {_told(times[i])} again with another value", "one value each")
    if dated and period == "any":
        period = infer_period(np.unique(np.array([t for _, t in found], dtype="datetime64[s]")))
        if period == "any" and found:
            raise InputError("--period", "dates without one step between them", f"one of {', '.join(PERIODS)}")
    notes = (f"{empty} rows of {path} have no value.",) if empty else ()
    return Outcomes(found, dated, by_decision, period if dated else "any", notes)


def _times(table: Table, block: Block, column: str, dated: bool, period: str) -> list[Any]:
    """datetime64, or whole numbers from 1."""
    texts = block.texts(column)
    if dated:
        found = parse_dates(texts, "auto", wall_clock=not is_short(period))
        for i in np.flatnonzero(np.isnat(found))[:1]:
            place = f"{table.path}, {table.unit} {block.places[i]}, column {column}"
            raise InputError(place, repr(texts[i]), "a date such as 2024-05-20")
        return list(found)
    numbers, bad = block.numbers(column)
    for i, number in enumerate(numbers.tolist()):
        if i in bad or not number >= 1.0 or number % 1.0 or number > 2**53:
            place = f"{table.path}, {table.unit} {block.places[i]}, column {column}"
            raise InputError(place, repr(texts[i]), "a whole number from 1")
    return [int(x) for x in numbers]


def _column(table: Table, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if name in table.columns), None)


def _told(time: Any) -> str:
    return str(time).removesuffix("T00:00:00")
