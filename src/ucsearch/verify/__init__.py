"""A verifier that trusts nobody: it derives every claim of a recorded decision again from the recorded inputs.

It reads the formats by itself, calls the task's plain functions, and shares no code with search, certificate,
dispatch or records. `docs/certificate.md` describes what is checked, well enough to write another one.
"""

from __future__ import annotations

import platform
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from ucsearch.verify.allocation import Targets, verify_allocation
from ucsearch.verify.chain import follow, reach
from ucsearch.verify.checkpoints import Pins, read_checkpoint
from ucsearch.verify.claims import verify_decision
from ucsearch.verify.clock import A_NODE_S, OutOfTime, limited_time
from ucsearch.verify.demands import demand
from ucsearch.verify.excused import NOTES, excuse_of
from ucsearch.verify.formats import (
    Elsewhere,
    Entry,
    Invalid,
    Malformed,
    canonical,
    expect,
    read_entries,
    read_record,
    require,
)
from ucsearch.verify.inputs import FOREIGN, verify_control, verify_event, verify_override, verify_refusal, verify_report
from ucsearch.verify.monitor import Watch
from ucsearch.verify.rotated import Past, verify_rotation
from ucsearch.verify.schema import UNCHECKED, check_known, version_of
from ucsearch.verify.segments import verify_row_override
from ucsearch.verify.trust import NoTask, find_task, is_genuine, tasks
from ucsearch.verify.verdict import Verdict, describe

__all__ = ["BUDGET", "NoTask", "Verdict", "find_task", "verify_file", "verify_files", "verify_log", "verify_record"]

PLATFORM = f"{platform.system()} {platform.machine()}"  # as records name it
BUDGET = 2_000_000  # states looked at per record; in members mode a node has one for each member
LARGEST_BUDGET = 20_000_000  # that a record can ask for by its own settings: it may come from anybody
_NODE_BUDGET = re.compile(rb'"node_budget":([0-9]{1,15})\b')


class _Terms(NamedTuple):
    """What the caller brings."""

    task_of: Callable[[str], Any]
    budget: int | None  # None: what `_budget_of` gives each entry
    gate: Mapping[str, Any] | None  # every decision's gate must be at least as strict
    watch: Watch | None = None  # the monitors, where a log is followed from its first entry
    past: Past | None = None  # files of the log before this one
    timed: float | None = None  # seconds of processor time beside those of the nodes; None: no limit


def verify_record(
    record: Mapping[str, Any] | bytes,
    blobs: Mapping[str, bytes],
    task: Any = None,
    *,
    budget: int | None = None,
    trust_record_task: bool = False,
    gate: Mapping[str, Any] | None = None,
) -> Verdict:
    """One decision. Bytes must be canonical; a mapping is taken for what its canonical form says. `blobs` are the
    arrays that it names, by digest. With a `gate` the decision's own must be at least as strict. Without a `budget` it
    is BUDGET, or the decision's own node budget where that is larger, up to LARGEST_BUDGET.

    Without `task` the record may name a built-in one; with `trust_record_task` what it names is imported. Raises
    `NoTask` where there is none.
    """
    try:
        body = record if isinstance(record, bytes) else canonical(dict(record))
    except Malformed as error:
        return Verdict("malformed", "record", message=str(error))
    entry = Entry(None, body, "", "", None, None, blobs.get)
    return _verify(entry, _Terms(tasks(task, trust_record_task), budget, gate))


def verify_file(
    path: str | Path,
    task: Any = None,
    *,
    budget: int | None = None,
    checkpoint: str | Path | None = None,
    key: str | None = None,
    origin: str | None = None,
    trust_record_task: bool = False,
    gate: Mapping[str, Any] | None = None,
    past: Past | None = None,
    timed: float | None = None,
) -> Iterator[Verdict]:
    """Every entry of a SQLite log, of JSON lines or of a single record, whatever was found about the others.

    After a break in the chain an entry is at best "weaker": nothing says that it belongs there. Under a `checkpoint` so
    is every entry that it does not reach; with a `key` the checkpoint must be signed by it, with an `origin` be about
    that log. `timed`: the caller is a program of its own, which may use signals to end an entry that takes so many
    seconds longer than its nodes may.
    `past` are the files before this one of a log that was rotated: `verify_files` follows them by itself.
    """
    loose = _Terms(tasks(task, trust_record_task), budget, gate, past=past, timed=timed)
    terms, downgrade = loose, _Downgrade()
    last: list[Entry] = []  # taken from the file

    def taken() -> Iterator[Entry]:
        for entry in source:
            last[:] = [entry]
            yield entry

    try:
        pins = None if checkpoint is None else read_checkpoint(Path(checkpoint), key, origin)
        # Under a checkpoint the chain is walked twice: no entry is called valid before the pin behind it was seen.
        known = 0 if pins is None else reach(read_entries(Path(path)), pins)
        source = read_entries(Path(path))
        try:
            for entry, reached in follow(taken(), pins, known):
                if entry.seq == 1:
                    before = None if past is None or past.pins is None else past.watch
                    terms = loose._replace(watch=before or Watch())
                if past is not None and entry.seq is not None:
                    past.add(entry.seq, entry.head)
                verdict = downgrade.seen(entry, _safely(entry, terms))
                if verdict.code not in (0, 3):  # what follows from it cannot be derived
                    terms = loose
                yield _pinned(verdict, pins, reached)
            if past is not None and last and last[0].seq is not None:
                past.end(Path(path), terms.watch)
        except Invalid as error:
            yield Verdict("invalid", _name(last[0]) if last else str(path), error.where, str(error))
        for entry in source:
            yield _loose(_safely(entry, loose))
    except (Malformed, sqlite3.Error, OSError) as error:
        yield Verdict("malformed", str(path), message=str(error))
    except Invalid as error:  # the checkpoint's signature
        yield Verdict("invalid", str(checkpoint), error.where, str(error))
    except MemoryError:
        yield Verdict("weaker", str(path), "memory", "the file could not be read on within the memory that is allowed")
    except BaseException as error:
        if is_genuine(error) or isinstance(error, GeneratorExit):
            raise
        yield Verdict("error", str(path), message=describe(error))


def verify_files(paths: Sequence[str | Path], task: Any = None, **options: Any) -> Iterator[Verdict]:
    """Every entry of a log's files, the oldest of `paths` first; options as for `verify_file`, a checkpoint of the last
    one."""
    past = Past()
    own = {name: options.pop(name, None) for name in ("checkpoint", "key", "origin")}
    try:
        for i, path in enumerate(paths):
            pins = own if i == len(paths) - 1 else {}
            for verdict in verify_file(path, task, past=past, **pins, **options):
                if len(paths) > 1:
                    verdict = replace(verdict, name=f"{Path(path).name}: {verdict.name}")
                yield verdict
    finally:
        past.close()


verify_log = verify_file  # a log is one of the files that are recognised


class _Downgrade:
    """Version 1 compared with a wider tolerance, and a log has gone from 1 to 2 once: a decision that claims to be as
    old as that, but comes later, was not written by a log."""

    _SCHEMA = re.compile(rb'"schema":"ucsearch\.([a-z-]+/[0-9]+)"')
    _NEUTRAL = (b"decision/1", b"refusal/1", b"override/1")  # all else came with version 2

    def __init__(self) -> None:
        self._newer = False

    def seen(self, entry: Entry, verdict: Verdict) -> Verdict:
        """The verdict about the next entry of the chain."""
        found = self._SCHEMA.search(entry.body)
        if entry.seq is None or found is None:
            return verdict
        if found[1] not in self._NEUTRAL:
            self._newer = True
        elif self._newer and found[1] == b"decision/1" and not verdict.code:
            why = "right by version 1 rules, but it comes after entries of version 2, and no log goes back"
            return Verdict("weaker", verdict.name, "schema", why)
        return verdict


def _name(entry: Entry) -> str:
    return f"entry {entry.seq}" if entry.seq else "record"


def _loose(verdict: Verdict) -> Verdict:
    if verdict.code:
        return verdict
    return Verdict("weaker", verdict.name, "chain", "right in itself, but it comes after a break in the chain")


def _pinned(verdict: Verdict, pins: Pins | None, reached: bool) -> Verdict:
    """Under a checkpoint, what it does not reach is right in itself at best."""
    if verdict.code or pins is None or (reached and not pins.doubt):
        return verdict
    why = f"the checkpoint reaches it, but {pins.doubt}" if reached else "right in itself, but no checkpoint reaches it"
    return Verdict("weaker", verdict.name, "checkpoint", why)


def _budget_of(entry: Entry, terms: _Terms) -> int:
    """The caller's budget; else at least that of the settings the decision was made with."""
    if terms.budget is not None:
        return terms.budget
    recorded = _NODE_BUDGET.search(entry.body)
    return BUDGET if recorded is None else max(BUDGET, min(int(recorded[1]), LARGEST_BUDGET))


def _safely(entry: Entry, terms: _Terms) -> Verdict:
    """A verdict whatever happens, so that the other entries are looked at."""
    try:
        seconds = A_NODE_S * _budget_of(entry, terms)
        with nullcontext() if terms.timed is None else limited_time(terms.timed + seconds):
            return _verify(entry, terms)
    except NoTask as error:
        return Verdict("no task", _name(entry), message=str(error))
    except MemoryError as error:
        what = "time" if isinstance(error, OutOfTime) else "memory"
        return Verdict("weaker", _name(entry), what, f"within the {what} that is allowed nothing could be verified")
    except BaseException as error:  # SystemExit of a task's function included
        if is_genuine(error):
            raise
        return Verdict("error", _name(entry), message=describe(error))


def _verify(entry: Entry, terms: _Terms) -> Verdict:
    name, budget = _name(entry), _budget_of(entry, terms)
    note = ""
    doubts: list[str] = []
    try:
        if entry.fault:
            raise Malformed(entry.fault)
        record = read_record(entry.body)
        name = record["id"]
        expect("id", name if entry.id is None else entry.id, name)
        kind = check_known(record)
        if kind == "override" and "proof" in record:
            note = verify_row_override(record, *_segment(entry, record), terms.task_of)
        elif kind == "override":
            target, body = _target(entry, record, "overrides")
            note = verify_override(record, target, body, lambda: terms.task_of(target["task"]["object"]))
        elif kind == "refusal":
            verify_refusal(record, lambda: terms.task_of(record["task"]["object"]))
        elif kind == "outcome":
            asked = _elsewhere(record, terms.past)
            if asked is None:
                verify_report(record, *_target(entry, record, "decision"))
            elif asked:
                entry = entry._replace(seq=2**63, find=asked[0], blobs=asked[1])
                verify_report(record, *_target(entry, record, "decision"))
            else:
                doubts = ["its decision, which is in a file that was not given"]
        elif kind == "control":
            verify_control(record)
        elif kind == "monitor":
            verify_event(record)
        elif kind == "rotation":
            doubts = verify_rotation(record, entry.seq, terms.past)
        elif kind in UNCHECKED.values():
            return Verdict("weaker", name, "kind", f"no rule here derives a {kind} entry")
        elif kind == "allocation":
            members = record["members"]
            once = len({m["decision"] for m in members}) == len(members)  # before any of them is looked for
            require("members", once, "a decision twice", "every decision once")
            targets: Targets = [_decision(entry, m, i) for i, m in enumerate(members)]
            doubts = verify_allocation(record, targets, terms.task_of, entry.blobs, budget)
        else:
            version = version_of(record)
            if terms.gate is not None:
                demand(record, terms.gate)
            note = NOTES.get(excuse_of(record), "") if version == 2 else f"version {version} rules"
            doubts = verify_decision(record, entry.blobs, terms.task_of(record["task"]["object"]), budget)
        if terms.watch is not None:
            there = kind != "outcome" or not doubts
            terms.watch.add(record, lambda: _target(entry, record, "decision")[0] if there else None, entry.blobs)
            doubts += [terms.watch.doubt] if terms.watch.doubt else []
    except (Malformed, sqlite3.Error, UnicodeDecodeError) as error:
        return Verdict("malformed", name, message=str(error))
    except Elsewhere as error:
        where = record["versions"].get("platform", PLATFORM)
        if where == PLATFORM:
            return Verdict("invalid", name, error.where, str(error))
        return Verdict("weaker", name, error.where, f"other platform: {where}, here {PLATFORM}; {error}")
    except Invalid as error:
        return Verdict("invalid", name, error.where, str(error))
    if doubts:
        within = "" if doubts == [FOREIGN] or "not given" in doubts[0] else f"within {budget} nodes "
        text = f"{within}these could not be verified: {', '.join(dict.fromkeys(doubts))}"
        if FOREIGN in doubts:
            text += " (byte code of another version of Python, by which version 1 named these rules)"
        return Verdict("weaker", name, doubts[0], f"{note}; {text}" if note else text)
    return Verdict("valid", name, message=note)


def _decision(entry: Entry, member: Mapping[str, Any], i: int) -> tuple[dict[str, Any], bytes]:
    """The earlier decision that a member of an allocation is about, and its bytes."""
    seq, body = entry.find(member["decision"], member["entry"]) or (0, b"{}")
    target = read_record(body) if 0 < seq < (entry.seq or 0) else {}
    expect(f"members[{i}].decision", member["decision"], target.get("id"))
    if check_known(target) != "decision":
        raise Invalid(f"members[{i}].decision", target["kind"], "a decision")
    return target, body


def _segment(entry: Entry, record: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
    """The earlier segment whose row a record is about, and its bytes."""
    seq, body = entry.find(record["overrides"], record["entry"]) or (0, b"{}")
    target = read_record(body) if 0 < seq < (entry.seq or 0) else {}
    expect("override.overrides", record["overrides"], target.get("id"))
    expect("override.overrides", check_known(target), "segment")
    return target, body


def _elsewhere(record: Mapping[str, Any], past: Past | None) -> Any:
    """None where a record is about this file; what asks the earlier file it is about, or () where that is not there."""
    if "log" not in record:
        return None
    return () if past is None else past.asked(record["log"]) or ()


def _target(entry: Entry, record: Mapping[str, Any], member: str) -> tuple[dict[str, Any], bytes]:
    """The earlier decision or refusal that a record is about, and its bytes."""
    seq, body = entry.find(record[member], record.get("entry")) or (0, b"{}")
    target = read_record(body) if 0 < seq < (entry.seq or 0) else {}
    expect(f"{record['kind']}.{member}", record[member], target.get("id"))
    if check_known(target) not in ("decision", "refusal"):
        raise Invalid(f"{record['kind']}.{member}", target["kind"], "a decision or a refusal")
    return target, body
