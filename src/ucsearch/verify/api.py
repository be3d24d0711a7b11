"""Verdicts about one record, and about every entry of a log or of an export."""

from __future__ import annotations

import platform
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ucsearch.verify.allocation import Targets, verify_allocation
from ucsearch.verify.chain import (
    NOTHING,
    Erased,
    Link,
    Pins,
    Taken,
    erasures,
    follow,
    reach,
    read_checkpoint,
    verify_erasure,
    verify_rotation,
)
from ucsearch.verify.decision.claims import verify_decision
from ucsearch.verify.decision.demands import demand
from ucsearch.verify.decision.gate import NOTES, excuse_of
from ucsearch.verify.decision.machine import Machine
from ucsearch.verify.kinds import verify_control, verify_event, verify_override, verify_refusal, verify_report
from ucsearch.verify.monitor import Watch
from ucsearch.verify.read import Entry, LogSources, Malformed, canonical, digest, read_record
from ucsearch.verify.schema import check_known
from ucsearch.verify.segments import verify_row_override, verify_segment
from ucsearch.verify.trust import NoTask, is_genuine, tasks
from ucsearch.verify.verdict import Elsewhere, Invalid, Verdict, describe, expect, require_that

__all__ = ["BUDGET", "LARGEST_BUDGET", "verify_file", "verify_files", "verify_log", "verify_record"]

PLATFORM = f"{platform.system()} {platform.machine()}"  # as records name it
BUDGET = 2_000_000  # states looked at per record; in members mode a node has one for each member
LARGEST_BUDGET = 20_000_000  # that a record can ask for by its own settings: it may come from anybody
_NODE_BUDGET = re.compile(rb'"node_budget":([0-9]{1,15})\b')


class _VerifyTerms(NamedTuple):
    """What the caller brings, and what is known of the chain."""

    task_of: Callable[[str], Any]
    budget: int | None  # None: what `_budget_of` gives each entry
    gate: Mapping[str, Any] | None  # every decision's gate must be at least as strict
    watch: Watch | None = None  # the monitors, where a log is followed from the first entry of a file
    erased: Taken = dict  # entries whose content was taken away, by number
    begun: int = 0  # entries before the first that was given
    machine: Machine | None = None  # None: only the plain rules are asked
    rows_follow: bool = False  # the caller derives the rows of segments
    answered: dict[tuple[str, int], int] | None = None  # of a file's requests: the entry that answers each


def verify_record(
    record: Mapping[str, Any] | bytes,
    blobs: Mapping[str, bytes],
    task: Any = None,
    *,
    budget: int | None = None,
    trust_record_task: bool = False,
    gate: Mapping[str, Any] | None = None,
    plain: bool = False,
) -> Verdict:
    """One decision. Bytes must be canonical; a mapping is taken for what its canonical form says. `blobs` are the
    arrays that it names, by digest. With a `gate` the decision's own must be at least as strict. Without a `budget` it
    is BUDGET, or the decision's own node budget where that is larger, up to LARGEST_BUDGET. With `plain` nothing is
    compiled.

    Without `task` the record may name a built-in one; with `trust_record_task` what it names is imported. Raises
    `NoTask` where there is none.
    """
    try:
        body = record if isinstance(record, bytes) else canonical(dict(record))
    except Malformed as error:
        return Verdict("malformed", "record", message=str(error))
    entry = Entry(None, body, blobs=blobs.get)
    return _verify(
        Link(entry, False),
        _VerifyTerms(tasks(task, trust_record_task), budget, gate, machine=None if plain else Machine()),
    )


def verify_file(path: str | Path, task: Any = None, **options: Any) -> Iterator[Verdict]:
    """As `verify_files`, of one file."""
    return verify_files([path], task, **options)


verify_log = verify_file  # a log is one of the files that are recognised


def verify_files(
    paths: Sequence[str | Path],
    task: Any = None,
    *,
    budget: int | None = None,
    checkpoint: str | Path | None = None,
    key: str | None = None,
    origin: str | None = None,
    trust_record_task: bool = False,
    gate: Mapping[str, Any] | None = None,
    plain: bool = False,
    rows_follow: bool = False,
) -> Iterator[Verdict]:
    """Every entry of a SQLite log (`paths` are all its files, the oldest first), of JSON lines or of a single record,
    whatever was found about the others.

    After a break in the chain an entry is at best "weaker": nothing says that it belongs there. Under a `checkpoint` so
    is every entry that it does not reach; with a `key` the checkpoint must be signed by it, with an `origin` be about
    that log. With `plain` nothing is compiled: the standard library is enough, and large closed-loop decisions take
    some hundred times as long. With `rows_follow` the caller derives the rows of segments, which are else a doubt.
    """
    machine = None if plain else Machine()
    terms = _VerifyTerms(tasks(task, trust_record_task), budget, gate, machine=machine, rows_follow=rows_follow)
    sources = LogSources([Path(path) for path in paths])
    try:
        pins = None if checkpoint is None else read_checkpoint(Path(checkpoint), key, origin)
        yield from _all(sources, terms, pins)
    except Invalid as error:  # the checkpoint's signature
        yield Verdict("invalid", str(checkpoint), error.where, str(error))
    except Malformed as error:
        yield Verdict("malformed", str(checkpoint), message=str(error).removeprefix(f"{checkpoint}: "))
    finally:
        sources.close()


class _EntryWalk:
    """The entries of a log's files, one after another; what cannot be read ends it."""

    def __init__(self, sources: LogSources) -> None:
        self.sources = sources
        self.path = sources.paths[0]
        self.answered: dict[tuple[str, int], int] = {}  # requests of the file

    def __iter__(self) -> Iterator[Entry]:
        for path in self.sources.paths:
            self.path = path
            self.answered.clear()
            yield from self.sources.entries(path)

    def failure(self, error: BaseException) -> Verdict:
        """What is said of a file that could not be read on."""
        if isinstance(error, Malformed | sqlite3.Error | OSError):
            return Verdict("malformed", str(self.path), message=str(error).removeprefix(f"{self.path}: "))
        if isinstance(error, MemoryError):
            return Verdict("weaker", str(self.path), "memory", "the file could not be read on within this memory")
        if is_genuine(error) or isinstance(error, GeneratorExit):
            raise error
        return Verdict("error", str(self.path), message=describe(error))


def _all(sources: LogSources, terms: _VerifyTerms, pins: Pins | None) -> Iterator[Verdict]:
    erasures_of_log = _Taken(sources)
    walk = _EntryWalk(sources)
    entries = iter(walk)
    loose = terms = terms._replace(erased=erasures_of_log, answered=walk.answered)
    try:
        # Under a checkpoint the chain is walked twice: no entry is called valid before the pin behind it was seen.
        confirmed = 0 if pins is None else reach(_EntryWalk(sources), pins, erasures_of_log)
        try:
            for link in follow(entries, pins, confirmed, erasures_of_log):
                if link.first:
                    loose = loose._replace(begun=(link.entry.seq or 1) - 1)
                    terms = loose._replace(watch=None if link.tree is None else Watch())
                verdict = _safely(link, terms)
                if verdict.status not in ("valid", "weaker"):  # what follows from it cannot be derived
                    terms = loose
                yield _pinned(verdict, pins, link, confirmed)
        except Invalid as error:  # where it is begins with the entry
            name = error.where.partition(".")[0]
            yield Verdict("invalid", name, error.where, str(error).removeprefix(f"{error.where}: "))
        for entry in entries:
            yield _loose(_safely(Link(entry, False), loose))
    except BaseException as error:
        yield walk.failure(error)


class _Taken:
    """Whose content was taken away: asked for when an entry is not what its digest says."""

    def __init__(self, sources: LogSources) -> None:
        self._sources = sources
        self._known: dict[int, Erased] | None = None

    def __call__(self) -> Mapping[int, Erased]:
        if self._known is None:
            paths = self._sources.paths
            self._known = erasures(entry for path in paths for entry in self._sources.of(path).erasures())
        return self._known


def _name(entry: Entry) -> str:
    return f"entry {entry.seq}" if entry.seq else "record"


def _loose(verdict: Verdict) -> Verdict:
    if verdict.code:
        return verdict
    return Verdict("weaker", verdict.name, "chain", "right in itself, but it comes after a break in the chain")


def _pinned(verdict: Verdict, pins: Pins | None, link: Link, confirmed: int) -> Verdict:
    """Under a checkpoint that confirms `known` entries, what it does not reach is right in itself at best."""
    if verdict.code or pins is None or (link.reached and not pins.doubt):
        return verdict
    why = "right in itself, but no checkpoint reaches it"
    if link.reached:
        why = f"the checkpoint reaches it, but {pins.doubt}"
    elif link.erased is not None and (link.entry.seq or 0) <= confirmed:
        why = f"the checkpoint is older than entry {link.erased.by}, which says what was taken away of it"
    return Verdict("weaker", verdict.name, "checkpoint", why)


def _check_request(record: Mapping[str, Any], entry: Entry, answered: dict[tuple[str, int], int]) -> None:
    """A request is answered once. In a log an index sees to that; exported lines have none."""
    if "request" not in record or entry.seq is None or entry.log is not None:
        return
    request = record["request"]
    first = answered.setdefault((request["key"], request["item"]), entry.seq)
    if first != entry.seq:
        raise Invalid("request", words=f"answered twice: by entry {first}, and by this one, entry {entry.seq}")


def _budget_of(entry: Entry, terms: _VerifyTerms) -> int:
    """The caller's budget; else at least that of the settings the decision was made with."""
    if terms.budget is not None:
        return terms.budget
    recorded = _NODE_BUDGET.search(entry.body)
    return BUDGET if recorded is None else max(BUDGET, min(int(recorded[1]), LARGEST_BUDGET))


def _safely(link: Link, terms: _VerifyTerms) -> Verdict:
    """A verdict whatever happens, so that the other entries are looked at."""
    try:
        return _verify(link, terms)
    except NoTask as error:
        return Verdict("no task", _name(link.entry), message=str(error))
    except MemoryError:
        return Verdict("weaker", _name(link.entry), "memory", "within this memory nothing could be verified")
    except BaseException as error:  # SystemExit of a task's function included
        if is_genuine(error):
            raise
        return Verdict("error", _name(link.entry), message=describe(error))


class _EntryCase(NamedTuple):
    """One entry whose form is right."""

    record: dict[str, Any]
    link: Link
    terms: _VerifyTerms
    doubts: list[str]  # what is left in doubt

    def target(self, member: str, *kinds: str) -> tuple[dict[str, Any], str] | None:
        """The earlier entry that this one is about, of one of the `kinds`, and its digest; None where its content was
        deleted, or where it was not given, which is a doubt."""
        return self.found(f"{self.record['kind']}.{member}", self.record[member], self.record["entry"], *kinds)

    def found(self, where: str, id: str, number: int, *kinds: str) -> tuple[dict[str, Any], str] | None:
        entry = self.link.entry
        body = entry.find(id, number) if 0 < number < (entry.seq or 0) else None
        if body is None and 0 < number <= self.terms.begun:
            self.doubts.append(f"entry {number}, which was not given")
            return None
        if body is None:
            raise Invalid(where, words=f"entry {number} with the id {id} is not in the log before it")
        own_digest = digest("audit-entry/1", body)
        try:
            target = read_record(body)
        except (Malformed, Invalid):
            erased = self.terms.erased().get(number)
            if erased is None or erased.left != (None if body == NOTHING else own_digest):
                raise
            if erased.left is None:
                return None
            target, own_digest = read_record(body, whole=False), erased.digest
        expect(where, id, target.get("id"))
        if (kind := check_known(target)) not in kinds:
            raise Invalid(where, kind, f"a {' or a '.join(kinds)}")
        return target, own_digest


def _decision(case: _EntryCase) -> str:
    record, terms = case.record, case.terms
    if terms.gate is not None:
        demand(record, terms.gate)
    budget = _budget_of(case.link.entry, terms)
    task = terms.task_of(record["task"]["object"])
    case.doubts.extend(verify_decision(record, case.link.entry.blobs, task, budget, terms.machine))
    return NOTES.get(excuse_of(record), "")


def _refusal(case: _EntryCase) -> str:
    verify_refusal(case.record, lambda: case.terms.task_of(case.record["task"]["object"]))
    return ""


def _override(case: _EntryCase) -> str:
    if "proof" in case.record:
        segment = case.target("overrides", "segment")
        return "" if segment is None else verify_row_override(case.record, *segment, case.terms.task_of)
    if (target := case.target("overrides", "decision", "refusal")) is None:
        return ""
    return verify_override(case.record, *target, lambda: case.terms.task_of(target[0]["task"]["object"]))


def _outcome(case: _EntryCase) -> str:
    if case.record["value"] is None and case.link.erased is None:
        raise Malformed("record.value: saw None, which only an erasure leaves")
    if (target := case.target("decision", "decision", "refusal")) is not None:
        verify_report(case.record, *target)
    return ""


def _control(case: _EntryCase) -> str:
    verify_control(case.record)
    return ""


def _monitor(case: _EntryCase) -> str:
    verify_event(case.record)
    return ""


def _rotation(case: _EntryCase) -> str:
    case.doubts.extend(verify_rotation(case.record, case.link))
    return ""


def _erasure(case: _EntryCase) -> str:
    verify_erasure(case.record, case.link.entry.seq)
    return ""


def _segment(case: _EntryCase) -> str:
    doubt = verify_segment(case.record, case.link.entry.log)
    if not case.terms.rows_follow:
        case.doubts.append(doubt)
    return ""


def _allocation(case: _EntryCase) -> str:
    members = case.record["members"]
    once = len({m["decision"] for m in members}) == len(members)  # before any of them is looked for
    require_that("members", once, "a decision is there twice")
    decisions = [
        case.found(f"members[{i}].decision", m["decision"], m["entry"], "decision") for i, m in enumerate(members)
    ]
    targets: Targets = [target for target in decisions if target is not None]
    if len(targets) < len(decisions):
        case.doubts.append("decisions whose content is not there")
        return ""
    budget = _budget_of(case.link.entry, case.terms)
    case.doubts.extend(verify_allocation(case.record, targets, case.terms.task_of, case.link.entry.blobs, budget))
    return ""


# By kind of entry: what derives its claims again. Returns what is to be said of a valid one.
_RULES: dict[str, Callable[[_EntryCase], str]] = {
    "decision": _decision, "refusal": _refusal, "override": _override, "outcome": _outcome, "control": _control,
    "monitor": _monitor, "rotation": _rotation, "erasure": _erasure, "segment": _segment, "allocation": _allocation,
}  # fmt: skip
DELETED = "its content was deleted, as a later entry says; the digest is kept"


def _verify(link: Link, terms: _VerifyTerms) -> Verdict:
    entry, name = link.entry, _name(link.entry)
    doubts: list[str] = []
    record: dict[str, Any] = {}
    try:
        if entry.fault:
            raise Malformed(entry.fault)
        if link.erased is not None and link.erased.left is None:
            return Verdict("valid", name, message=DELETED)
        record = read_record(entry.body, whole=link.erased is None)
        name = record["id"]
        expect("id", name if entry.id is None else entry.id, name)
        case = _EntryCase(record, link, terms, doubts)
        kind = check_known(record)
        if terms.answered is not None:
            _check_request(record, entry, terms.answered)
        note = _RULES[kind](case)
        if terms.watch is not None:
            _watched(case, terms.watch)
    except (Malformed, sqlite3.Error, UnicodeDecodeError) as error:
        return Verdict("malformed", name, message=str(error))
    except Elsewhere as error:
        where = record["versions"]["platform"]
        if where == PLATFORM:
            return Verdict("invalid", name, error.where, str(error))
        return Verdict("weaker", name, error.where, f"other platform: {where}, here {PLATFORM}; {error}")
    except Invalid as error:
        return Verdict("invalid", name, error.where, str(error))
    if doubts:
        within = "" if "which" in doubts[0] else f"within {_budget_of(entry, terms)} nodes "
        text = f"{within}these could not be verified: {', '.join(dict.fromkeys(doubts))}"
        return Verdict("weaker", name, doubts[0], f"{note}; {text}" if note else text)
    return Verdict("valid", name, message=note)


def _watched(case: _EntryCase, watch: Watch) -> None:
    """The monitors take in what happened."""

    def target() -> dict[str, Any] | None:
        decision = case.target("decision", "decision", "refusal")
        return None if decision is None else decision[0]

    watch.add(case.record, target, case.link.entry.blobs)
    if watch.doubt:
        case.doubts.append(watch.doubt)
