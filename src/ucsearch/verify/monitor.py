"""The calibration monitors of a whole log, derived again: ranks, evidence, trips, latches; and what was paused.

A second reading of docs/how-to/monitor.md. Every outcome's rank follows from its decision's members; the evidence of
each series and of the pool from the ranks in the order of the log; `drift` of a decision from the evidence before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from statistics import NormalDist
from typing import Any

from ucsearch.verify.read import Blobs, read_blob
from ucsearch.verify.verdict import Invalid, Record, expect, num, require, require_that

NORMAL = NormalDist()
CLOSE = 1e-9
# shift, scale, weight of every bet
BETS = (
    (0.0, 1.15, 0.15), (0.0, 1.3, 0.3), (0.0, 1.6, 0.15), (0.0, 2.2, 0.1), (-1.0, 1.0, 0.05), (1.0, 1.0, 0.05),
    (-0.5, 1.0, 0.1), (0.5, 1.0, 0.1),
)  # fmt: skip
SECONDS = {"15min": 900, "30min": 1800, "hour": 3600, "day": 86400, "weekday": 86400}
REMEMBERED = 64  # periods of a series
LONGEST = 1_000  # steps that a target may sum up
LEAST = 50  # members below which nothing is ranked
TOP = 1e300


def _mass(a: float, b: float) -> float:
    """Normal probability between two places, from the smaller tail."""
    if a >= 0.0:
        return 0.5 * (math.erfc(a / math.sqrt(2.0)) - math.erfc(b / math.sqrt(2.0)))
    if b <= 0.0:
        return _mass(-b, -a)
    return 1.0 - 0.5 * (math.erfc(-a / math.sqrt(2.0)) + math.erfc(b / math.sqrt(2.0)))


def _place(p: float) -> float:
    return -math.inf if p <= 0.0 else math.inf if p >= 1.0 else NORMAL.inv_cdf(p)


def rank(sums: list[float], weights: list[float], total: float) -> tuple[float, float]:
    """The interval that an outcome leaves, counted as one more draw among the members."""
    share_of_one = 1.0 / len(sums)
    less = math.fsum(w for x, w in zip(sums, weights, strict=True) if x < total)
    upto = math.fsum(w for x, w in zip(sums, weights, strict=True) if x <= total)
    return min(less / (1.0 + share_of_one), 1.0), min((upto + share_of_one) / (1.0 + share_of_one), 1.0)


def verify_watching(s: Record) -> None:
    """What a monitor may watch by."""
    for name in ("within", "lags", "probation"):
        require(f"monitor.settings.{name}", s[name] >= 1, s[name], "at least 1")
    require("monitor.settings.lags", s["lags"] <= LONGEST, s["lags"], f"at most {LONGEST}")
    require("monitor.settings.alpha", 0.0 < s["alpha"] < 1.0, s["alpha"], "a number in (0, 1)")
    under = s["max_undercoverage"]
    require("monitor.settings.max_undercoverage", 0.0 <= under < 0.9, under, "a number from 0 to below 0.9")
    limit = s["within"] / s["alpha"]
    require("monitor.settings.calm", 0.0 < s["calm"] < limit, s["calm"], f"a number above 0 and below {limit:g}")


LOW, HIGH = "forecasts too low", "forecasts too high"
LITTLE, CLEAR = 6.0, 10.0  # what is no evidence against a direction, and how many times as much there must be for it


def _about(shift: float) -> str:
    return "spread too narrow" if shift == 0.0 else LOW if shift > 0.0 else HIGH


class _Stream:
    def __init__(self, bets: list[tuple[float, float, float]], lags: int) -> None:
        self.bets, self.lags, self.count = bets, lags, 0
        self.growth = [[0.0] * len(bets) for _ in range(lags)]
        self.latched = math.nan
        self.fresh: _Stream | None = None
        self.calm = 0

    def add(self, gains: list[float]) -> float:
        lagged = self.growth[self.count % self.lags]
        for g, gain in enumerate(gains):
            lagged[g] = min((lagged[g] + 1.0) * gain, TOP)
        self.count += 1
        return self.value()

    def value(self) -> float:
        """Evidence; what it was when it tripped, once it has."""
        if self.latched == self.latched:
            return self.latched
        parts = [math.fsum(b[2] * r for b, r in zip(self.bets, lagged, strict=True)) for lagged in self.growth]
        return math.fsum(parts) / self.lags

    def figures(self) -> tuple[float, int, set[str]]:
        """Evidence, number of outcomes, and what may be said to carry it: several words where figures are so close
        that rounding decides."""
        if not self.count:
            return self.value(), 0, {""}
        evidence: dict[str, float] = {}
        share: dict[str, float] = {}
        for g, (shift, _, weight) in enumerate(self.bets):
            word = _about(shift)
            evidence[word] = (
                evidence.get(word, 0.0) + weight * math.fsum(lagged[g] for lagged in self.growth) / self.lags
            )
            share[word] = share.get(word, 0.0) + weight
        most = max(evidence.values())
        words = {word for word, value in evidence.items() if value >= most - CLOSE * max(1.0, most)}
        for word, other in ((LOW, HIGH), (HIGH, LOW)):
            if word in evidence:  # bias comes first: evidence for one direction, and none for the other
                for_it, against = evidence[word] / share[word], evidence[other] / share[other]
                some = CLEAR * max(1.0, against)
                if for_it >= some * (1.0 + CLOSE) and against <= LITTLE * (1.0 - CLOSE):
                    words = {word}
                elif for_it >= some * (1.0 - CLOSE) and against <= LITTLE * (1.0 + CLOSE):
                    words.add(word)
        return self.value(), self.count, words

    def content(self) -> Record:
        return {
            "count": self.count, "growth": self.growth, "calm": self.calm,
            "latched": None if self.latched != self.latched else self.latched,
            "fresh": None if self.fresh is None else {"count": self.fresh.count, "growth": self.fresh.growth},
        }  # fmt: skip

    def restored(self, content: Record) -> _Stream:
        self.count, self.calm = int(content["count"]), int(content["calm"])
        self.growth = _growth(content["growth"], self)
        self.latched = math.nan if content["latched"] is None else num(content["latched"])
        if content["fresh"] is not None:
            self.fresh = _Stream(self.bets, self.lags)
            self.fresh.count, self.fresh.growth = (
                int(content["fresh"]["count"]),
                _growth(content["fresh"]["growth"], self),
            )
        return self


def _growth(rows: Any, stream: _Stream) -> list[list[float]]:
    growth = [[num(x) for x in row] for row in rows]
    if [len(row) for row in growth] != [len(stream.bets)] * stream.lags:
        raise ValueError("growth of another shape")
    return growth


class _PlanMonitor:
    def __init__(self, settings: Record) -> None:
        self.s = settings
        watch = settings["watch"]
        bets = [b for b in BETS if watch == "both" or (b[0] == 0.0) == (watch == "spread")]
        share = math.fsum(b[2] for b in bets)
        self.bets = [(m, k, w / share) for m, k, w in bets]
        self.limit = settings["within"] / settings["alpha"]
        under = settings["max_undercoverage"]
        self.wider = NORMAL.inv_cdf(0.95) / NORMAL.inv_cdf(0.95 - under / 2.0)
        self.streams: dict[str, _Stream] = {"": self._new()}
        self.seen: dict[str, list[int]] = {}
        self.open: int | None = None
        self.last = 0
        self.sums: list[float] = []
        self.count = 0
        self.told: list[tuple[str, str, Any]] = []  # series, event, figures of what must be recorded next

    def _new(self) -> _Stream:
        return _Stream(self.bets, self.s["lags"])

    def content(self) -> Record:
        """Everything that what comes next depends on, as an entry that carries it over has it."""
        return {
            "streams": {name: stream.content() for name, stream in self.streams.items()},
            "open": None if self.open is None else str(self.open), "last": str(self.last),
            "gained": [float(x) for x in self.sums], "count": self.count,
            "seen": {name: [str(key) for key in periods] for name, periods in self.seen.items()},
        }  # fmt: skip

    def restore(self, state: Record) -> None:
        for name, content in state["streams"].items():
            self.streams[name] = self._new().restored(content)
        self.open = None if state["open"] is None else int(state["open"])
        self.last, self.count, self.sums = int(state["last"]), int(state["count"]), [num(x) for x in state["gained"]]
        self.seen = {name: [int(key) for key in periods] for name, periods in state["seen"].items()}

    def key(self, text: str) -> int:
        moment, period = datetime.fromisoformat(text).astimezone(UTC), self.s["period"]
        if period == "month":
            return moment.year * 12 + moment.month
        if period == "week":
            return (moment.toordinal() - 1) // 7
        second = moment.toordinal() * 86400 + moment.hour * 3600 + moment.minute * 60 + moment.second
        return second // SECONDS[period] if period in SECONDS else second * 1_000_000 + moment.microsecond

    def outcome(self, series: str, low: float, high: float, key: int) -> None:
        periods = self.seen.setdefault(series, [])
        if key in periods or (len(periods) == REMEMBERED and key < min(periods)):
            return
        periods.append(key)
        del periods[:-REMEMBERED]
        if self.open is not None and key > self.open:
            if self.count:
                self._count("", [x / self.count for x in self.sums])
            self.open = None
        a, b = _place(low) / self.wider, _place(high) / self.wider
        honest = _mass(a, b)
        require("outcome.rank", honest > 0.0, [low, high], "an interval that a right forecast can meet")
        gains = [0.5 + 0.5 * _mass((a - m) / k, (b - m) / k) / honest for m, k, _ in self.bets]
        stream = self.streams.get(series)
        pooled = stream is None or stream.latched != stream.latched  # one that has tripped is not in the pool
        self._count(series, gains)
        if self.open is None and (not self.last or key > self.last):
            self.open = self.last = key
            self.sums, self.count = [0.0] * len(gains), 0
        if key == self.open and pooled:
            self.sums = [x + y for x, y in zip(self.sums, gains, strict=True)]
            self.count += 1

    def _count(self, series: str, gains: list[float]) -> None:
        stream = self.streams.setdefault(series, self._new())
        if stream.latched != stream.latched:
            value = stream.add(gains)
            if value >= self.limit:
                stream.latched, stream.fresh, stream.calm = value, self._new(), 0
                self.told.append((series, "tripped", stream.figures()))
        elif series and stream.fresh is not None:
            if stream.fresh.add(gains) < self.s["calm"]:
                stream.calm += 1
            else:
                stream.fresh, stream.calm = self._new(), 0
            if stream.calm >= self.s["probation"]:
                self.told.append((series, "rearmed", stream.figures()))
                self.streams[series] = self._new()

    def drift(self, series: str) -> float:
        stream = self.streams.get(series)
        return max(self.streams[""].value(), 0.0 if stream is None else stream.value())


class Watch:
    """Fed with every entry of a log from its first on; raises `Invalid` where what is recorded does not follow."""

    def __init__(self) -> None:
        self.plans: dict[str, _PlanMonitor] = {}
        self.pauses: dict[str, Record] = {}
        self.first: dict[tuple[int, int], tuple[str, Any]] = {}  # id and value of the first report, by entry and step
        self.closed = False  # the file has said its last
        self.doubt = ""  # what the last entry takes over from a file that is not there

    def add(self, r: Record, find: Callable[[], Record | None], blobs: Blobs) -> None:
        """`find` returns the decision that an outcome is about; None where its file is not there."""
        kind = r["kind"]
        self.doubt = ""
        if kind == "rotation":
            self.closed = r["event"] == "closed"
            return
        require("rotation", not self.closed, kind, "nothing: the file before it is closed")
        if kind == "decision" and "plan" in r:
            self._decision(r)
        elif kind == "control":
            self.pauses[r["plan"]] = r
        elif kind == "monitor":
            self._event(r)
        elif kind == "outcome":
            self._outcome(r, find, blobs)

    def _decision(self, r: Record) -> None:
        plan, gate = self.plans.get(r["plan"]), r["gate"]
        if plan is not None:
            require("monitor", not plan.told, plan.told[:1], "recorded before the next decision")
        drift = gate["calibration"].get("drift")
        if gate["settings"].get("max_drift") is not None and drift is not None:  # unknown fails the gate anyway
            require("gate.calibration.drift", plan is not None, drift, "nothing: no monitor was armed")
            if plan is not None:
                _close("gate.calibration.drift", drift, plan.drift(r["series"]))
        for k, row in enumerate(gate["rows"]):
            if row["name"] == "released_by_operator":
                expect(f"gate.rows[{k}].left", row["left"], 0 if self._paused(r["plan"], gate["now"]) else 1)

    def _paused(self, plan: str, now: str) -> bool:
        last = self.pauses.get(plan)
        if last is None or last["action"] != "pause":
            return False
        if "until" not in last:
            return True
        try:
            return datetime.fromisoformat(now) < datetime.fromisoformat(last["until"])
        except (ValueError, TypeError):  # no time, or one without its offset
            raise Invalid("gate.now", now, f"a time to be compared with {last['until']}") from None

    def _event(self, r: Record) -> None:
        plan = self.plans.get(r["plan"])
        if r["event"] == "carried":
            self._carried(r, plan)
            return
        if r["event"] == "armed":
            require("monitor.settings", "settings" in r, None, "what the monitor watches by")
            require("monitor", plan is None or not plan.told, r["event"], "first what followed from the outcomes")
            plan_watched = _PlanMonitor(r["settings"])
            expect("monitor.series", r["series"], "")
            _figures(r, plan_watched.streams[""].figures())
            for name, old in {} if plan is None else plan.streams.items():
                if old.latched == old.latched:
                    stream_kept = plan_watched.streams.setdefault(name, plan_watched._new())
                    stream_kept.latched, stream_kept.fresh = max(old.latched, plan_watched.limit), plan_watched._new()
            self.plans[r["plan"]] = plan_watched
            return
        if plan is None:
            raise Invalid("monitor.plan", r["plan"], "a plan whose monitor was armed")
        if r["by"]:
            stream = plan.streams.get(r["series"])
            if stream is None or r["event"] != "rearmed" or stream.latched != stream.latched:
                raise Invalid("monitor.event", r["event"], "a stream that has tripped")
            _figures(r, stream.figures())
            plan.streams[r["series"]] = plan._new()
            return
        require("monitor.event", bool(plan.told), r["event"], "nothing: it does not follow from the outcomes")
        series, event, figures = plan.told.pop(0)
        expect("monitor.series", (r["series"], r["event"]), (series, event))
        _figures(r, figures)

    def _carried(self, r: Record, plan: _PlanMonitor | None) -> None:
        """Where the file before it was followed, exactly what was derived there; else it is taken as it is."""
        require("monitor.state", "settings" in r and "state" in r, None, "settings and state of the monitor")
        restored = _PlanMonitor(r["settings"])
        try:
            restored.restore(r["state"])
            derived = None if plan is None else plan.content()
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            raise Invalid("monitor.state", words="is not of the form that a monitor carries over") from None
        if plan is None or derived is None:
            self.plans[r["plan"]] = restored
            self.doubt = "the monitor's state, which is of a file that was not given"
        else:
            require("monitor.settings", r["settings"] == plan.s, r["settings"], plan.s)
            require_that("monitor.state", _alike(r["state"], derived), "is not what follows from the file before")
            require("monitor.state", not plan.told, plan.told[:1], "recorded before the file was closed")
        value, count, _ = restored.streams[""].figures()
        _figures(r, (value, count, {""}))

    def _outcome(self, r: Record, find: Callable[[], Record | None], blobs: Blobs) -> None:
        place = (r["entry"], r["step"])
        earlier = self.first.get(place)
        expect("outcome.replaces", r.get("replaces"), None if earlier is None else earlier[0])
        if earlier is None:
            self.first[place] = (r["id"], r["value"])
        plan = self.plans.get(r.get("plan", ""))
        if plan is None or earlier is not None:
            require("outcome.rank", "rank" not in r, r.get("rank"), "nothing: it does not count")
            return
        target = find()
        if target is None:  # not given, or deleted: it is taken as it is
            derived = (num(r["rank"][0]), num(r["rank"][1])) if "rank" in r else None
        else:
            derived = self._rank(r, plan.s["lags"], target, blobs)
        require("outcome.rank", ("rank" in r) == (derived is not None), r.get("rank"), derived)
        if derived is not None:
            for k in (0, 1):
                _close(f"outcome.rank[{k}]", r["rank"][k], derived[k])
            plan.outcome(r["series"], *derived, plan.key(r["observed_at"]))

    def _rank(self, r: Record, lags: int, target: Record, blobs: Blobs) -> tuple[float, float] | None:
        if target["kind"] != "decision" or r["step"] > lags:
            return None
        steps = [self.first.get((r["entry"], step)) for step in range(1, lags + 1)]
        values = [float(x[1][0] if isinstance(x[1], list) else x[1]) for x in steps if x is not None]
        trace = target["inputs"]["trace"]
        (_, size, horizon, fields), _, members = read_blob(trace["members"]["$blob"], blobs)
        if len(values) < lags or size < LEAST or horizon < lags:
            return None
        _, _, weights = read_blob(trace["weights"]["$blob"], blobs)
        row = horizon * fields
        sums = [math.fsum(members[j * row + h * fields] for h in range(lags)) for j in range(size)]
        return rank(sums, list(weights), math.fsum(values))


def _figures(r: Record, derived: tuple[float, int, set[str]]) -> None:
    """What an entry says about its stream."""
    value, count, words = derived
    _close("monitor.evidence", r["evidence"], value)
    expect("monitor.count", r["count"], count)
    require("monitor.about", r["about"] in words, r["about"], " or ".join(sorted(words)))


def _close(where: str, claimed: Any, derived: float) -> None:
    claimed_number = num(claimed)
    require(where, abs(claimed_number - derived) <= CLOSE * max(1.0, abs(derived)), claimed, derived)


def _alike(a: Any, b: Any) -> bool:
    """The same texts and members, and numbers that are close."""
    if isinstance(a, dict) and isinstance(b, dict):
        return set(a) == set(b) and all(_alike(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(_alike(x, y) for x, y in zip(a, b, strict=True))
    if type(a) in (int, float) and type(b) in (int, float):
        return bool(abs(a - b) <= CLOSE * max(1.0, abs(b)))
    return bool(type(a) is type(b) and a == b)
