"""A verifier that trusts nobody: it derives every claim of a recorded decision again from the recorded inputs.

It reads the formats by itself, calls the task's plain functions, and shares no code with search, certificate,
dispatch or records. `docs/certificate.md` describes what is checked, well enough to write another one.
"""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ucsearch.verify.claims import verify_decision
from ucsearch.verify.formats import (
    Entry,
    Invalid,
    Malformed,
    canonical,
    expect,
    follow,
    read_checkpoint,
    read_entries,
    read_record,
)
from ucsearch.verify.inputs import verify_override, verify_refusal
from ucsearch.verify.schema import DECISIONS, OVERRIDE, REFUSAL, check, version_of

__all__ = ["BUDGET", "NoTask", "Verdict", "find_task", "verify_file", "verify_log", "verify_record"]

BUDGET = 2_000_000  # states looked at per record; in members mode a node has one for each member
_NEEDED = (
    "name", "version", "source_hash", "state", "actions", "label", "params", "outcome", "feasible", "step",
    "reward", "fallback", "terminal", "prepare", "bound", "continuations",
)  # fmt: skip


@dataclass(frozen=True)
class Verdict:
    """What was found about one entry. `where` is the path of the first false claim, or of the first one in doubt."""

    status: str  # valid, weaker, invalid or malformed
    name: str  # id of the record, or the place of what has none
    where: str = ""
    message: str = ""

    @property
    def code(self) -> int:
        """0 valid, 1 invalid, 2 malformed, 3 valid but of a weaker kind than claimed."""
        return ("valid", "invalid", "malformed", "weaker").index(self.status)

    def __str__(self) -> str:
        return f"{self.status}: {self.name}" + (f": {self.message}" if self.message else "")


class NoTask(Exception):
    """The task whose rules the record claims to keep cannot be found."""


def find_task(name: str) -> Any:
    """The task that "package.module:object" names; its module is imported, that is, its code is run."""
    module, _, path = name.partition(":")
    try:
        task: Any = importlib.import_module(module)
        for part in path.split("."):
            task = getattr(task, part)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise NoTask(f"no task {name!r} ({error}); name it as package.module:object") from None
    if lacking := [part for part in _NEEDED if not hasattr(task, part)]:
        raise NoTask(f"{name!r} is no task: it has no {lacking[0]}")
    return task


def verify_record(
    record: Mapping[str, Any] | bytes, blobs: Mapping[str, bytes], task: Any = None, *, budget: int = BUDGET
) -> Verdict:
    """One decision. Bytes must be canonical; a mapping is taken for what its canonical form says."""
    try:
        body = record if isinstance(record, bytes) else canonical(dict(record))
    except Malformed as error:
        return Verdict("malformed", "record", message=str(error))
    return _verify(Entry(None, body, "", "", None, None, blobs.get), _tasks(task), budget)


def verify_file(
    path: str | Path, task: Any = None, *, budget: int = BUDGET, checkpoint: str | Path | None = None
) -> Iterator[Verdict]:
    """Every entry of a SQLite log, of JSON lines or of a single record; after a break in the chain, no further."""
    task_of = _tasks(task)
    try:
        pins = {} if checkpoint is None else read_checkpoint(Path(checkpoint))
        for entry in follow(read_entries(Path(path)), pins):
            yield _verify(entry, task_of, budget)
    except (Malformed, sqlite3.Error) as error:
        yield Verdict("malformed", str(path), message=str(error))
    except Invalid as error:
        yield Verdict("invalid", str(path), error.where, str(error))


verify_log = verify_file  # a log is one of the files that are recognised


def _tasks(task: Any) -> Callable[[str], Any]:
    known: dict[str, Any] = {}

    def task_of(name: str) -> Any:
        if task is None and name not in known:
            known[name] = find_task(name)
        return known[name] if task is None else task

    return task_of


def _verify(entry: Entry, task_of: Callable[[str], Any], budget: int) -> Verdict:
    number = entry.seq or 0
    name = f"entry {number}" if number else "record"
    note = ""
    doubts: list[str] = []
    try:
        record = read_record(entry.body)
        name = record["id"]
        expect("id", name if entry.id is None else entry.id, name)
        if record.get("kind") == "override":
            check(record, OVERRIDE)
            seq, body = entry.find(record["overrides"]) or (0, b"{}")
            target = read_record(body) if 0 < seq < number else {}
            expect("override.overrides", record["overrides"], target.get("id"))
            check(target, DECISIONS[version_of(target)])
            verify_override(record, target, body, task_of(target["task"]["object"]))
        elif record.get("kind") == "refusal":
            check(record, REFUSAL)
            verify_refusal(record)
        else:
            version = version_of(record)
            check(record, DECISIONS[version])
            note = "" if version == 2 else f"version {version} rules"
            doubts = verify_decision(record, entry.blobs, task_of(record["task"]["object"]), budget)
    except Malformed as error:
        return Verdict("malformed", name, message=str(error))
    except Invalid as error:
        return Verdict("invalid", name, error.where, str(error))
    if doubts:
        text = f"within {budget} nodes these could not be verified: {', '.join(dict.fromkeys(doubts))}"
        return Verdict("weaker", name, doubts[0], f"{note}; {text}" if note else text)
    return Verdict("valid", name, message=note)
