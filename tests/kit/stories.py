"""Genuine logs of the kinds that are about other entries: monitors, shared limits at later steps, rows of segments."""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import ucsearch as uc
from tests.allocation.kit import newest_decisions
from tests.kit.hostile import ADDRESS, Case, Record, _digest, decision, edited, exported, resealed, text
from ucsearch.allocation.problem import Shared
from ucsearch.allocation.record import write_allocation
from ucsearch.decision import Filing
from ucsearch.errors import RecordError
from ucsearch.monitor import Settings, rank_of
from ucsearch.monitor.journal import Journal, settings_content
from ucsearch.records.canonical import loads
from ucsearch.records.record import decision_record
from ucsearch.scale.segments.rows import COLUMNS
from ucsearch.tasks import LeadTimeInventory
from ucsearch.tasks.registry import address
from ucsearch.verify.segments import row_digest

Entries = list[tuple[Record, dict[str, bytes]]]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
MEMBERS = 50  # below that nothing is ranked


@cache
def watched() -> Entries:
    """A monitor is armed, a decision gets its outcome, which trips it; a pause; the state carried over; the end."""
    sizes = [0.0, 2.0]
    config = LeadTimeInventory(lead_time=0, order_sizes=sizes)
    members = [[float(k)] for k in range(MEMBERS)]
    made = uc.decide(
        config.task(), config.state(3.0, ()), uc.Trace.from_members(members), uc.Exact(depth=1), params=config.params(),
        gate=uc.Gate(max_drift=2.5), calibration=uc.Calibration(drift=0.0), run=uc.Run(engine="python"), now=NOW,
    )  # fmt: skip
    where = f"{ADDRESS}_{json.dumps({'lead_time': 0, 'order_sizes': sizes}, separators=(',', ':')).encode().hex()}"
    record, blobs = decision_record(made, series="A", where=where)
    record = resealed({**record, "plan": "P"})
    settings = settings_content(Settings(within=1, alpha=0.9, calm=0.5, probation=1), "day")
    words = {"schema": "ucsearch.monitor/1", "kind": "monitor", "plan": "P", "about": "", "at": NOW.isoformat()}
    armed = {**words, "series": "", "event": "armed", "evidence": 0, "count": 0, "by": "Ann", "why": "now"}
    outcome = {
        "schema": "ucsearch.outcome/1", "kind": "outcome", "decision": record["id"], "digest": _digest(record),
        "entry": 2, "step": 1, "series": "A", "observed_at": NOW.isoformat(), "reported_by": "Bob", "plan": "P",
        "value": 99.0, "rank": list(rank_of([x for (x,) in members], 99.0, [1.0 / MEMBERS] * MEMBERS)),
    }  # fmt: skip
    control = {"schema": "ucsearch.control/1", "kind": "control", "action": "pause", "plan": "P", "who": "Ann"}
    journal = Journal()
    journal.add({**armed, "settings": settings})
    (trip,) = journal.add(outcome)
    told = {
        **words, "series": trip.series, "event": trip.event, "evidence": trip.evidence, "count": 1, "by": "",
        "about": trip.about,
    }  # fmt: skip
    carried = {**armed, "event": "carried", "settings": settings, "state": journal.plans["P"].state()}
    closed = {"schema": "ucsearch.rotation/1", "kind": "rotation", "event": "closed", "next": "b.db", "by": "Ann"}
    found = [
        {**armed, "settings": settings}, record, outcome, {**told, "why": ""},
        {**control, "why": "w", "at": NOW.isoformat(), "until": "2026-02-01T00:00:00+00:00"}, carried,
        {**closed, "why": "w", "at": NOW.isoformat()},
    ]  # fmt: skip
    return [(r if "id" in r else resealed(r), blobs if r is record else {}) for r in found]


@cache
def shared() -> Entries:
    """Three decisions and what was shared out between them, with limits at later steps."""
    config = LeadTimeInventory(lead_time=0, order_sizes=(0.0, 2.0), shortage=9.0, capacity=6.0)
    names = ["a", "b", "c"]
    outcomes = np.random.default_rng(3).poisson(2.0, (3, 2, 2)).astype(float)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        with uc.AuditLog(Path(folder) / "a.db") as log:
            panel = uc.decide_panel(
                config.task(), [config.state(float(k), ()) for k in range(3)],
                uc.Trace.from_members(outcomes, coupling="independent"), uc.Exact(depth=2, mode="closed"),
                run=uc.Run(engine="python"), log=Filing(log, series=names, where=address(config)),
            )  # fmt: skip
            truck = Shared(name="truck", limit=[4.0, 2.0], use="units")
            found = uc.allocate(panel, truck, series=names, serve="best")
            write_allocation(found, log, newest_decisions(log))
            log.export_jsonl(path)
        lines = [loads(line) for line in path.read_bytes().splitlines()]
    return [(line["record"], {k: b64decode(v) for k, v in line["blobs"].items()}) for line in lines]


def a_row() -> tuple[Record, Record]:
    """A row of a segment, and the task that it names."""
    source = decision("beam")[0]
    own = {k: v for k, v in source["task"].items() if k not in ("actions", "labels")}
    inputs = source["inputs"]
    own |= {name: inputs[name] for name in ("state_lengths", "params_lengths")}
    row: Record = dict.fromkeys(COLUMNS, "")
    row |= {"series": "A-1", "outcome": "RELEASED", "meta": "{}", "action": floats([1.0]), "bits": "AQAAAAAAAAA="}
    row |= {name: floats(inputs[name]) for name in ("state", "params")}
    return row | {"actions": floats(source["task"]["actions"])}, own


def floats(values: Any) -> str:
    """Numbers as a row has them."""
    return b64encode(np.array(values, "<f8").tobytes()).decode()


@cache
def rows() -> Entries:
    """A segment of one row, and what a person put in the place of its action."""
    return rows_with(*a_row())


def rows_with(row: Record, own: Any) -> Entries:
    """The same of any row and task: the second of two rows of a part."""
    source = decision("beam")[0]
    row = {**row, "task": json.dumps(own, sort_keys=True)}
    common, other = hashlib.sha256(b"shared").hexdigest(), hashlib.sha256(b"another row").digest()
    root = hashlib.sha256(b"\x01" + row_digest(row, common) + other).hexdigest()
    part = {"name": "part-000000.parquet", "sha256": common, "rows": 2, "root": root}
    segment = resealed(
        {"schema": "ucsearch.segment/1", "kind": "segment", "shared": common, "run": common,
         "by": "a test", "count": 2, "parts": [part], "versions": source["versions"]}
    )  # fmt: skip
    replaced = {
        "schema": "ucsearch.row-override/1", "kind": "override", "overrides": segment["id"], "entry": 1,
        "digest": _digest(segment), "who": "Ann", "why": "a fair", "at": NOW.isoformat(), "series": "A-1",
        "action": 0.0, "label": source["task"]["labels"][0], "off_grid": False,
        "proof": {"part": part["name"], "row": row, "path": [["right", other.hex()]]},
    }  # fmt: skip
    return [(segment, {}), (resealed(replaced), {})]


STORIES: dict[str, Any] = {"watched": watched, "shared": shared, "rows": rows}

FALSE, BAD, OPEN = {"invalid"}, {"malformed"}, {"valid", "invalid", "malformed", "weaker"}
ODD_TIME = "0001-01-01T00:00:00+23:59"
# story, entry from 0, place, value, codes
EDITS: list[tuple[str, int, str, Any, set[str]]] = [
    *[("watched", 0, "settings.lags", x, FALSE | BAD) for x in (0, 1_001, 2**31, 2**53, -1, 1.5, None)],
    *[("watched", 0, "settings.alpha", x, FALSE | BAD) for x in (0, 0.0, 1, 5e-324, -1.0, 2.0, "inf", None)],
    *[("watched", 0, "settings.within", x, FALSE | BAD) for x in (0, 2**53, -1, 0.5)],
    *[("watched", 0, "settings.max_undercoverage", x, FALSE | BAD) for x in (0.9, 1.9, 1.0, 5, -0.1, 1e308, None)],
    *[("watched", 0, "settings.calm", x, FALSE | BAD) for x in (0, -1, 1e308, 2, None)],
    *[("watched", 0, "settings.period", x, FALSE | BAD) for x in ("", "year", None)],
    *[("watched", 0, name, ..., FALSE | BAD) for name in ("settings", "event", "plan", "evidence")],
    *[("watched", k, name, ODD_TIME, FALSE) for k, name in ((0, "at"), (2, "observed_at"), (4, "until"), (4, "at"))],
    *[("watched", 2, "rank", x, FALSE | BAD) for x in ([], [0.5], [0.5, 0.5], [1, 0], [0, 1, 1], [None, 1])],
    *[("watched", 2, "value", x, FALSE | BAD) for x in (None, [], "x", [[1]], -5)],
    ("watched", 2, "value", 1e308, {"valid"}),  # as far above all members as 99
    *[("watched", 2, "step", x, FALSE | BAD) for x in (0, 2, 2**53, -1)],
    *[("watched", 3, "evidence", x, FALSE | BAD) for x in (0, 1e308, "inf", None, -1)],
    *[("watched", 3, "event", x, FALSE | BAD) for x in ("rearmed", "armed", "carried", "", None)],
    *[("watched", 5, "state", x, FALSE | BAD) for x in (None, [], {}, "x", 1, [{}])],
    *[
        ("watched", 5, f"state.{name}", x, FALSE | BAD)
        for name in ("streams", "open", "last", "gained", "count", "seen")
        for x in (None, [], {"A": None}, "x", -1, 1.5, "9" * 5000, 1e308, True)
    ],
    *[("watched", 5, "state.streams.A.growth", x, FALSE) for x in ([], [[]], None, [[1e308] * 8], [["x"] * 8])],
    *[("watched", 5, f"state.streams.A.{name}", x, FALSE) for name in ("count", "calm") for x in (2.5, "1e9", None)],
    *[("watched", 6, name, x, FALSE | BAD) for name in ("next", "why", "by") for x in ("", " ", None, 3)],
    *[("watched", 6, "event", "opened", FALSE), ("watched", 0, "kind", "control", BAD)],
    *[("shared", 3, f"later.{name}", x, FALSE | BAD) for name in ("rent", "free", "mean", "bound")
      for x in (None, "inf", 1e308, -1e308, [], "x")],
    *[("shared", 3, "later.prices", x, FALSE | BAD) for x in ([], [[]], [[[]]], [[[1e308]]], [[[-1.0]]], None, "x")],
    *[("shared", 3, "later.draws", x, FALSE | BAD) for x in ("", "all", None)],
    *[("shared", 3, "later", x, FALSE | BAD) for x in (None, [], {}, "x")],
    *[("shared", 3, "shared.0.later", x, FALSE | BAD)
      for x in (None, [], {}, {"": []}, {"": [1e308] * 9}, {"": [None]}, {"": [-1.0]}, {"x" * 9999: [1]})],
    *[("shared", 3, "members.0.trace", x, FALSE | BAD) for x in (None, [], [{"$blob": "0" * 64}], [[]])],
    *[("shared", 3, "terms.gap_share", x, OPEN) for x in (-1, 1e308, 0)],
    *[("shared", 0, f"claim.{name}", ..., BAD)
      for name in ("law", "states", "transitions", "open_value", "flexibility", "gap")],
    *[("rows", 1, "proof", x, FALSE | BAD) for x in (None, [], {}, {"row": []}, {"path": []}, "x")],
    *[("rows", 1, "proof.part", x, FALSE | BAD) for x in (None, "", "part-000001.parquet", 0, [], {})],
    *[("rows", 1, "proof.path", x, FALSE | BAD) for x in (None, {}, [[]], [["up", "0" * 64]], [["left", "0" * 64]])],
    *[("rows", 1, f"proof.row.{name}", x, FALSE | BAD) for name in ("state", "params", "actions", "task", "bits")
      for x in (None, [], "x", "{}", "[]", [1e308], [2**53] * 3, -1)],
    *[("rows", 1, "action", x, FALSE | BAD) for x in (7, -1, 1e308, "inf", [])],
    *[("rows", 0, name, x, OPEN) for name in ("run", "shared", "versions") for x in (None, "", "0" * 64, {}, 3)],
    *[("rows", 0, "parts", x, FALSE | BAD) for x in (None, {}, [[]], [{}], "x", [], [None])],
    *[("rows", 0, f"parts.0.{name}", x, FALSE | BAD) for name in ("name", "root", "rows")
      for x in (None, "", "../part-000000.parquet", -1, 3, {}, ...)],
    ("rows", 0, "count", 3, FALSE),
]  # fmt: skip


# Of a row under a root of its own: column or member of its task, value.
ROWS: list[tuple[str, Any]] = [
    *[(name, x) for name in ("state", "params", "actions")
      for x in (*map(floats, ([], [1.0] * 99, [0.0], [math.nan] * 2, [math.inf] * 2, [1e308] * 2, [-0.0, 5e-324])),
                "A", "AAAA", "=", "\u00e9")],
    *[("meta", x) for x in ("", "x")], ("series", "A-2"), ("action", floats([math.inf])), ("bits", ""),
    *[(f"task.{name}", x) for name in ("object", "name", "version", "rules", "state_lengths",
                                       "params_lengths")
      for x in (..., None, "", "x", [], [0], [2**70], [-1, 2], ["x"], [[]], {}, 1.5, True)],
    *[("task", x) for x in (None, [], {}, "x", 1)],
    *[(f"direction.{name}", x) for name in ("actions", "state")
      for x in map(floats, ([], [-1.0], [-1.0, 0.0, 1.0, 2.0, 3.0], [math.nan] * 3, [math.nan] * 9))],
]  # fmt: skip


def row_cases() -> Iterator[Case]:
    for n, (place, value) in enumerate(ROWS):
        row, own = a_row()
        where, _, name = place.partition(".")
        if where == "direction":  # a task whose labels name positions
            own = {**own, "object": "ucsearch.tasks:Direction_7b7d", "name": "direction"}
            row = {**row, name: value}
        elif where != "task":
            row = {**row, place: value}
        elif not name:
            own = value
        else:
            own = {**own, name: value} if value is not ... else {k: v for k, v in own.items() if k != name}
        yield Case(f"row {place} {n}", text(*exported(*rows_with(row, own))), frozenset(OPEN | {"usage"}))


def told(entries: Entries, at: int, place: str, value: Any) -> Entries:
    """The entries with one change; those that name the changed one by id or digest name it again."""
    out, named = list(entries), {}
    for k, (record, blobs) in enumerate(entries):
        changed = renamed(record, named)
        sealed = edited(changed, place, value) if k == at else resealed(changed)
        named |= {record["id"]: sealed["id"], _digest(record): _digest(sealed)}
        out[k] = (sealed, blobs)
    return out


def renamed(value: Any, named: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: renamed(part, named) for key, part in value.items()}
    if isinstance(value, list):
        return [renamed(part, named) for part in value]
    return named.get(value, value) if isinstance(value, str) else value


def cases() -> list[Case]:
    found = []
    for n, (story, at, place, value, codes) in enumerate(EDITS):
        try:
            lines = exported(*told(STORIES[story](), at, place, value))
        except RecordError:  # what the log's own form cannot hold
            continue
        found.append(Case(f"{story} {at} {place} {n}", text(*lines), frozenset(codes)))
    for story, make in STORIES.items():
        entries = make()
        for k in range(len(entries) - 1):
            swapped = [*entries[:k], entries[k + 1], entries[k], *entries[k + 2 :]]
            found.append(Case(f"{story} {k} swapped", text(*exported(*swapped)), frozenset(OPEN - {"malformed"})))
            twice = [*entries[: k + 1], *entries[k:]]
            found.append(Case(f"{story} {k} twice", text(*exported(*twice)), frozenset(OPEN - {"malformed"})))
            found.append(
                Case(f"{story} {k} left out", text(*exported(*entries[:k], *entries[k + 1 :])), frozenset(OPEN))
            )
    return [*found, *row_cases()]
