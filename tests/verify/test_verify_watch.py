"""The verifier's second reading of monitors, rotations and rows of segments, entry by entry and without a log.

The planner's own monitor says what must come out; every figure that is then moved must be noticed.
"""

from __future__ import annotations

import copy
import hashlib
import math
import random
import struct
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ucsearch.monitor import Settings, rank_of
from ucsearch.monitor.journal import Journal, period_key, settings_content
from ucsearch.verify import monitor as verifier
from ucsearch.verify.chain import Link, MerkleTree, verify_rotation
from ucsearch.verify.monitor import Watch
from ucsearch.verify.read import Entry, Malformed
from ucsearch.verify.segments import NUMBERS, TEXTS, climb, numbers, row_digest, verify_row
from ucsearch.verify.verdict import Invalid

MEMBERS, HORIZON, FIELDS = 50, 3, 2
START = datetime(2024, 1, 1, tzinfo=UTC)
Record = dict[str, Any]

# -------------------------------------------------------------------- the monitor


class Story:
    """A log told to both: the planner's journal says what is to be recorded, the verifier follows."""

    def __init__(self, seed: int, monkeypatch: pytest.MonkeyPatch, period: str = "day", **settings: Any) -> None:
        self.random, self.n, self.watch, self.journal = random.Random(seed), 0, Watch(), Journal()
        self.settings = settings_content(Settings(**settings), period)
        self.lags, self.told = self.settings["lags"], 0
        weights = [self.random.uniform(0.5, 1.5) for _ in range(MEMBERS)]
        self.weights = [w / math.fsum(weights) for w in weights]
        self.members: list[float] = []
        self.size = (1, MEMBERS, HORIZON, FIELDS)
        monkeypatch.setattr(
            verifier, "read_blob",
            lambda name, _: (self.size, b"", self.members) if name == "m" else ((MEMBERS,), b"", self.weights),
        )  # fmt: skip

    def add(self, r: Record, **changes: Any) -> None:
        trace = {"members": {"$blob": "m"}, "weights": {"$blob": "w"}}
        self.watch.add({**r, **changes}, lambda: {"kind": "decision", "inputs": {"trace": trace}}, lambda _: None)
        if r["kind"] in ("monitor", "outcome"):
            self.journal.add(r)

    def event(self, event: str, series: str = "", by: str = "", **more: Any) -> Record:
        return {"kind": "monitor", "plan": "P", "event": event, "series": series, "by": by, "why": "why",
                "evidence": 0.0, "count": 0, "about": "", **more}  # fmt: skip

    def standing(self, event: str, series: str = "", **more: Any) -> Record:
        """An order about a stream, with what is known of it."""
        s = self.journal.status("P", series)
        known = {"evidence": s.evidence, "count": s.outcomes, "about": s.about}
        return self.event(event, series, "Ann", **(known | more))

    def decision(self, series: str, left: int = 1, now: datetime = START) -> Record:
        gate = {"calibration": {"drift": self.journal.drift("P", series)}, "settings": {"max_drift": 1.0},
                "rows": [{"name": "released_by_operator", "left": left}], "now": now.isoformat()}  # fmt: skip
        return {"kind": "decision", "plan": "P", "series": series, "gate": gate}

    def outcomes(self, series: str, day: float, scale: float, shift: float = 0.0) -> list[Record]:
        """A decision's outcomes at every step of the target; the last one has the rank."""
        self.n += 1
        self.members = [self.random.gauss(0.0, 1.0) for _ in range(MEMBERS * HORIZON * FIELDS)]
        values = [shift + scale * self.random.gauss(0.0, 1.0) for _ in range(self.lags)]
        row = HORIZON * FIELDS
        sums = [math.fsum(self.members[j * row + h * FIELDS] for h in range(self.lags)) for j in range(MEMBERS)]
        out: list[Record] = [
            {"kind": "outcome", "plan": "P", "series": series, "entry": self.n, "step": h + 1, "id": f"{self.n}.{h}",
             "value": [values[h], 99.0] if h % 2 else values[h], "observed_at": (START + timedelta(day)).isoformat()}
            for h in range(self.lags)
        ]  # fmt: skip
        out[-1]["rank"] = list(rank_of(sums, math.fsum(values), self.weights))
        return out

    def told_since(self) -> list[Record]:
        """What followed from the outcomes and is to be recorded now."""
        trips = self.journal.plans["P"].monitor.trips
        new, self.told = trips[self.told :], len(trips)
        return [self.event(t.event, t.series, evidence=t.evidence, count=t.outcomes, about=t.about) for t in new]

    def refused(self, r: Record, where: str, **changes: Any) -> None:
        """The changed entry is found, in a copy of what was followed so far."""
        watch = copy.deepcopy(self.watch)
        trace = {"members": {"$blob": "m"}, "weights": {"$blob": "w"}}
        with pytest.raises(Invalid) as seen:
            watch.add({**r, **changes}, lambda: {"kind": "decision", "inputs": {"trace": trace}}, lambda _: None)
        assert seen.value.where.startswith(where)

    def refused_figures(self, r: Record) -> None:
        self.refused(r, "monitor.evidence", evidence=r["evidence"] * (1.0 + 1e-6) + 1e-6)
        self.refused(r, "monitor.count", count=r["count"] + 1)
        about = ("spread too narrow", "forecasts too low", "forecasts too high", "", "all is well")
        for other in (word for word in about if word != r["about"]):
            self.refused(r, "monitor.about", about=other)


STORIES: list[Record] = [
    {"within": 20, "alpha": 0.5, "calm": 3.0, "probation": 4, "max_undercoverage": 0.0},
    {"within": 10, "alpha": 0.5, "calm": 2.0, "probation": 3, "lags": 2, "watch": "spread"},
    {"within": 10, "alpha": 0.5, "calm": 2.0, "probation": 6, "lags": 3, "watch": "bias", "max_undercoverage": 0.1},
]


@pytest.mark.parametrize("settings", STORIES)
def test_evidence_trips_and_latches_follow_from_the_outcomes(
    settings: Record, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    story = Story(7, monkeypatch, **settings)
    story.add(story.event("armed", by="Ann", settings=story.settings))
    events: list[str] = []
    for day in range(90):
        scale, shift = (3.0, 1.5) if 10 <= day < 25 else (1.0, 0.0)
        for series in ("A", "B")[: 1 + day % 2]:
            for r in story.outcomes(series, day, scale, shift):
                if "rank" in r:
                    low, high = r["rank"]
                    story.refused(r, "outcome.rank[0]", rank=[low + 1e-6, high])
                    story.refused(r, "outcome.rank[1]", rank=[low, high - 1e-6])
                    story.refused({k: v for k, v in r.items() if k != "rank"}, "outcome.rank")
                story.add(r)
            for r in story.told_since():
                events.append(r["event"])
                story.refused(story.decision("A"), "monitor")
                story.refused(r, "monitor.series", series="C")
                story.refused(r, "monitor.series", event="rearmed" if r["event"] == "tripped" else "tripped")
                story.refused_figures(r)
                story.refused(story.event("armed", by="Ann", settings=story.settings), "monitor")
                story.add(r)
            story.refused(story.event("tripped", "A", evidence=1.0), "monitor.event")
        for series in ("A", "B", "never seen"):
            good = story.decision(series)
            story.add(good)
            forged = copy.deepcopy(good)
            forged["gate"]["calibration"]["drift"] *= 1.0 + 1e-6
            forged["gate"]["calibration"]["drift"] += 1e-6
            story.refused(forged, "gate.calibration.drift")
    assert {"tripped", "rearmed"} <= set(events)
    assert story.journal.status("P").tripped  # the pool waits for a person
    story.refused(story.event("rearmed", "never seen", "Ann"), "monitor.event")
    story.refused(story.event("tripped", "", "Ann"), "monitor.event")
    # Armed anew under other settings: what had tripped stays so, at its evidence or the new limit.
    again = copy.deepcopy(story)
    for within in (1, 10_000):
        one = copy.deepcopy(again)
        more = {**one.settings, "within": within, "calm": 0.5}
        armed = one.event("armed", by="Ann", settings=more)
        one.refused_figures(armed)
        one.refused(armed, "monitor.series", series="A")
        one.add(armed)
        one.add(one.decision("A"))
        assert one.journal.drift("P", "A") >= within / more["alpha"]
    story.refused_figures(story.standing("rearmed"))
    story.add(story.standing("rearmed"))
    story.add(story.decision("never seen"))
    assert story.journal.drift("P", "never seen") == 0.0


def test_what_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second report, a second outcome of a period, a period long ago, few members, steps beyond the target."""
    story = Story(3, monkeypatch, within=10, alpha=0.5, calm=2.0, lags=1)
    first, *_ = story.outcomes("A", 0.0, 1.0)
    story.refused(first, "outcome.rank")  # nobody has armed the plan
    story.add(story.event("armed", by="Ann", settings=story.settings))
    story.refused(first, "outcome.replaces", replaces="x")
    story.add(first)
    again = {**first, "id": "again", "value": 5.0}
    story.refused(again, "outcome.replaces")
    story.refused({**again, "replaces": "1.0"}, "outcome.rank")
    story.refused({**again, "replaces": "other"}, "outcome.replaces")
    before = story.journal.drift("P", "A")
    second = {k: v for k, v in again.items() if k != "rank"} | {"replaces": "1.0"}
    story.add(second)
    story.add({**second, "id": "third"})  # what it replaces is the first
    twice, *_ = story.outcomes("A", 0.4, 9.0)
    story.add(twice)  # the same day: ranked, not counted
    assert story.journal.drift("P", "A") == before
    story.add(story.decision("A"))
    later = {**story.outcomes("A", 1.0, 1.0)[0], "step": 2}
    story.refused(later, "outcome.rank")
    story.add({k: v for k, v in later.items() if k != "rank"})
    few = story.outcomes("A", 2.0, 1.0)[0]
    story.size = (1, MEMBERS - 1, HORIZON, FIELDS)
    story.refused(few, "outcome.rank")
    story.size = (1, MEMBERS, 0, FIELDS)
    story.refused(few, "outcome.rank")
    story.size = (1, MEMBERS, HORIZON, FIELDS)
    story.watch.add(few, lambda: None, lambda _: None)  # its decision is in a file that is not there
    story.journal.add(few)
    story.add(story.decision("A"))
    assert story.watch.doubt == ""
    narrow = {**story.outcomes("A", 2.5, 1.0)[0], "rank": [0.3, math.nextafter(0.3, 1.0)], "series": "B"}
    with pytest.raises(Invalid, match="a right forecast"):
        copy.deepcopy(story.watch).add(narrow, lambda: None, lambda _: None)
    refusal = story.outcomes("A", 3.0, 1.0)[0]
    with pytest.raises(Invalid, match=r"outcome\.rank"):
        story.watch.add(refusal, lambda: {"kind": "refusal"}, lambda _: None)


def test_periods_that_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 of a series: what is older than all of them is not counted; what is late counts for its series alone."""
    story = Story(5, monkeypatch, within=10**6, alpha=0.5, calm=2.0)
    story.add(story.event("armed", by="Ann", settings=story.settings))
    for day in (*range(2, 134, 2), 0, 4, 5, 131, 133, 200, 201, 3):
        story.add(story.outcomes("A", float(day), 1.2)[0])
        story.add(story.outcomes("B", float(day % 50), 1.2)[0])
        for series in ("A", "B", "C"):
            story.add(story.decision(series))


@pytest.mark.parametrize("period", ["15min", "30min", "hour", "day", "weekday", "week", "month", "other"])
def test_keys_of_periods(period: str) -> None:
    plan = verifier._PlanMonitor(settings_content(Settings(), period))
    for text in ("2024-02-29T23:59:59.999999+00:00", "2024-03-01T00:14:00+01:00", "1999-12-31T12:00:00+00:00",
                 "2024-03-04T00:00:00+00:00", "2024-03-03T23:59:59+00:00"):  # fmt: skip
        assert plan.key(text) == period_key(text, period)


@pytest.mark.parametrize(("low", "high"), [(0.0, 0.3), (0.2, 0.4), (0.4, 0.7), (0.7, 1.0), (0.98, 1.0), (0.0, 1.0)])
def test_the_mass_between_two_places(low: float, high: float) -> None:
    assert verifier._mass(verifier._place(low), verifier._place(high)) == pytest.approx(high - low, rel=1e-9)


def test_growth_stays_a_number() -> None:
    stream = verifier._Stream([(0.0, 1.0, 0.5), (1.0, 1.0, 0.5)], 1)
    assert [stream.add([1e200, 1.0]) for _ in range(3)][-1] == pytest.approx(0.5e300)


def test_pauses_hold_until_they_end(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(1, monkeypatch)
    story.add(story.event("armed", by="Ann", settings=story.settings))
    control = {"kind": "control", "plan": "P", "action": "pause"}
    story.add(story.decision("A"))
    story.refused(story.decision("A", left=0), "gate.rows[0].left")
    story.add(control)
    story.add(story.decision("A", left=0))
    story.refused(story.decision("A"), "gate.rows[0].left")
    story.add({**control, "until": (START + timedelta(1)).isoformat()})
    story.add(story.decision("A", left=0, now=START))
    story.add(story.decision("A", left=1, now=START + timedelta(1)))
    story.refused(story.decision("A", left=0, now=START + timedelta(1)), "gate.rows[0].left")
    for now in ("", "2024-01-01"):
        timeless = story.decision("A")
        timeless["gate"]["now"] = now
        story.refused(timeless, "gate.now")
    story.add({**control, "action": "resume"})
    story.add(story.decision("A"))
    other = {**story.decision("A", left=0), "plan": "Q"}
    story.refused(other, "gate.calibration.drift")  # nobody armed it
    other["gate"]["calibration"]["drift"] = None
    story.refused(other, "gate.rows[0].left")


def test_a_state_that_is_carried_over(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(11, monkeypatch, **STORIES[0])
    story.refused(story.event("rearmed", "A", "Ann"), "monitor.plan")
    story.refused(story.event("armed", by="Ann"), "monitor.settings")
    story.add(story.event("armed", by="Ann", settings=story.settings))
    for day in range(30):
        story.add(story.outcomes("A", day, 3.0 if day < 12 else 1.0)[0])
        for r in story.told_since():
            story.add(r)
    state = story.journal.plans["P"].state()
    carried = story.standing("carried", about="", settings=story.settings, state=state)
    story.refused_figures(carried)
    story.refused({**carried, "settings": {**story.settings, "alpha": 0.4}}, "monitor.settings")
    story.refused({k: v for k, v in carried.items() if k != "state"}, "monitor.state")
    for path in _leaves(state):
        forged = copy.deepcopy(state)
        at = forged
        for key in path[:-1]:
            at = at[key]
        old = at[path[-1]]
        at[path[-1]] = str(int(old) + 1) if isinstance(old, str) else 1 if old is None else old * 1.001 + 1
        story.refused({**carried, "state": forged}, "monitor.state")
    for odd in ([], {}, {**state, "streams": 3}, {**state, "open": "x"}, {**state, "gained": None}):
        story.refused({**carried, "state": odd}, "monitor.state")
    rows = copy.deepcopy(state)
    rows["streams"]["A"]["growth"].append([])
    story.refused({**carried, "state": rows}, "monitor.state")
    # Alone it is taken as it is, with a doubt, and goes on as the one before would have.
    alone = Watch()
    alone.add(carried, lambda: None, lambda _: None)
    assert "not given" in alone.doubt
    story.add({"kind": "rotation", "event": "closed"})
    story.refused(story.decision("A"), "rotation")
    story.add({"kind": "rotation", "event": "opened"})
    story.watch.add(carried, lambda: None, lambda _: None)
    assert story.watch.doubt == ""
    for day in range(30, 50):
        r = story.outcomes("A", day, 1.0)[0]
        alone.add(r, lambda: {"kind": "decision", "inputs": {"trace": {"members": {"$blob": "m"},
                  "weights": {"$blob": "w"}}}}, lambda _: None)  # fmt: skip
        story.add(r)
        for event in story.told_since():
            story.add(event)
            alone.add(event, lambda: None, lambda _: None)
        for watch in (alone, story.watch):
            watch.add(story.decision("A"), lambda: None, lambda _: None)


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(value, dict):
        return [leaf for key, part in value.items() for leaf in _leaves(part, (*path, key))]
    if isinstance(value, list) and value:
        return [leaf for k, part in enumerate(value) for leaf in _leaves(part, (*path, k))]
    return [] if isinstance(value, list) else [path]


# -------------------------------------------------------------------- a log in several files


def test_a_file_follows_the_one_before() -> None:
    closed = {"kind": "rotation", "event": "closed", "by": "Ann", "why": "a month", "next": "b.db"}
    nowhere = Link(Entry(9, b""), False)
    assert verify_rotation(closed, nowhere) == []
    for name in ("by", "why", "next"):
        with pytest.raises(Invalid, match=f"rotation.{name}"):
            verify_rotation({**closed, name: " "}, nowhere)
    with pytest.raises(Invalid, match=r"rotation\.next"):
        verify_rotation({k: v for k, v in closed.items() if k != "next"}, nowhere)
    tree, heads = MerkleTree(), [hashlib.sha256(bytes([k])).digest() for k in range(3)]
    for head in heads:
        tree.add(head)
    leaf = [hashlib.sha256(b"\x00" + head).digest() for head in heads]
    peaks = [hashlib.sha256(b"\x01" + leaf[0] + leaf[1]).hexdigest(), leaf[2].hex()]
    opened = {**closed, "event": "opened", "previous": "a.db", "count": 3, "head": heads[-1].hex(), "tree": peaks}
    after = Link(Entry(4, b""), False, heads[-1].hex(), None, tree)
    assert verify_rotation(opened, after) == []
    assert verify_rotation(opened, after._replace(first=True)) == ["the file before it, which was not given"]
    assert verify_rotation(opened, nowhere) == ["the entries before it, which were not given"]
    for name, other in (("count", 2), ("head", heads[0].hex()), ("tree", peaks[::-1])):
        with pytest.raises(Invalid, match=f"rotation.{name}"):
            verify_rotation({**opened, name: other}, after)
    for name in ("previous", "count", "head", "tree"):
        with pytest.raises(Invalid, match=f"rotation.{name}"):
            verify_rotation({k: v for k, v in opened.items() if k != name}, after)


# -------------------------------------------------------------------- rows of segments


SHARED = hashlib.sha256(b"shared").hexdigest()


def floats(*values: float) -> str:
    return b64encode(struct.pack(f"<{len(values)}d", *values)).decode()


def row() -> Record:
    found: Record = dict.fromkeys((*TEXTS, *NUMBERS), "")
    return found | {"series": "A", "outcome": "HOLD", "action": floats(math.nan), "state": floats(0.0, 2.5, math.inf)}


def test_the_digest_of_a_row() -> None:
    good = row_digest(row(), SHARED)
    assert good == row_digest(dict(reversed(row().items())), SHARED)
    for change in ({"series": "B"}, {"outcome": ""}, {"action": floats(1.0)}, {"state": floats(0.0)}):
        assert row_digest({**row(), **change}, SHARED) != good
    assert row_digest(row(), "00" * 32) != good
    for odd in ([], {}, {**row(), "more": ""}, {k: v for k, v in row().items() if k != "cause"}):
        with pytest.raises(Malformed, match="other columns"):
            row_digest(odd, SHARED)
    for value in (None, 3, 1.5, True, [], {}):
        with pytest.raises(Malformed, match=r"row\.series: not a text"):
            row_digest({**row(), "series": value}, SHARED)
    with pytest.raises(Malformed):
        row_digest({**row(), "series": "\ud800"}, SHARED)


def test_the_numbers_of_a_row() -> None:
    assert numbers(row(), "state") == [0.0, 2.5, math.inf]
    assert numbers(row(), "actions") == []
    for text in ("A", "AA==", "AAAAAAAA+H8", "AAAAAAAA+H8=AAAA", "\u00e9", floats(1.0)[:-4]):
        with pytest.raises(Malformed, match=r"row\.state: not the numbers"):
            numbers({**row(), "state": text}, "state")


def pair(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def test_the_way_up_to_a_root() -> None:
    leaf, one, two = (hashlib.sha256(bytes([k])).digest() for k in range(3))
    assert climb(leaf, [], "p") == leaf
    path = [["left", one.hex()], ["right", two.hex()]]
    assert climb(leaf, path, "p") == pair(pair(one, leaf), two)
    assert climb(leaf, path * 40, "p")
    for odd in (None, {}, [["up", one.hex()]], [["left"]], [["left", one.hex(), 1]], [["left", 3]],
                [["left", one.hex()[:-1]]], [["left", one.hex().upper()]], ["left"], path * 40 + path[:1]):  # fmt: skip
        with pytest.raises(Malformed, match="p: not a path"):
            climb(leaf, odd, "p")


def proof() -> tuple[Record, Record]:
    """A row in the second of two leaves of its segment's part, and the segment."""
    other = hashlib.sha256(b"other").digest()
    part = {"name": "part-000000.parquet", "sha256": SHARED, "rows": 2}
    part["root"] = pair(other, row_digest(row(), SHARED)).hex()
    segment = {"kind": "segment", "shared": SHARED, "parts": [part]}
    return {"part": part["name"], "row": row(), "path": [["left", other.hex()]]}, segment


def test_a_proof_by_hand() -> None:
    good, segment = proof()
    assert verify_row(good, segment) == row()
    invalid: list[Callable[[Record], None]] = [
        lambda p: p["row"].update(action=floats(1.0)), lambda p: p.update(part="part-000001.parquet"),
        lambda p: p["path"].clear(),
    ]  # fmt: skip
    malformed: list[Callable[[Record], None]] = [lambda p: p.update(row=[]), lambda p: p.update(path=None)]
    for kind, changes in ((Invalid, invalid), (Malformed, malformed)):
        for change in changes:
            forged = copy.deepcopy(good)
            change(forged)
            with pytest.raises(kind):
                verify_row(forged, segment)
    for shared in (None, "ab", "AB" * 32):
        with pytest.raises(Malformed, match="not a digest"):
            verify_row(good, {**segment, "shared": shared})
    with pytest.raises(Invalid):
        verify_row(good, {**segment, "parts": segment["parts"] * 2})
