"""`python -m ucsearch.verify FILE|DB`: the verifier as a program, for files that come from anybody."""

from __future__ import annotations

import argparse
import gc
import os
import re
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn

from ucsearch.verify import BUDGET, LARGEST_BUDGET, NoTask, Verdict, find_task, verify_files
from ucsearch.verify.chain import read_key
from ucsearch.verify.decision.demands import read_gate
from ucsearch.verify.read import Malformed
from ucsearch.verify.trust import current_folder_off_path, is_genuine
from ucsearch.verify.verdict import CODES, INTERNAL, UNUSABLE, WORST_FIRST, describe, printable

MOST_TOLD = 1_000  # malformed entries that are named: a file of nothing but braces has millions
EVERY = 0.5  # seconds between two words about progress
SUMMARY = {"no task": "without a task that may be imported", "error": "with an internal error"}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(UNUSABLE, f"{self.prog}: {printable(message)}\n")


def _nodes(text: str) -> int:
    if re.fullmatch("[0-9]{1,15}", text.strip()) is None:
        raise argparse.ArgumentTypeError(f"saw {text!r}, expected a whole number, 0 or more")
    return int(text)


def _parser() -> _Parser:
    parser = _Parser(
        prog="ucsearch verify",
        description="Derive every claim of recorded decisions again, from the recorded inputs and the task's rules.",
        epilog="Exit codes: 0 valid; 1 a claim is false (the first is named), or something could not be verified; 2 "
        "wrong usage, a malformed file, or a record's task neither built in nor named; 3 internal error. Of several "
        "a false claim comes first, what could not be verified last.",
    )
    parser.add_argument(
        "file", metavar="FILE|DB", type=Path, nargs="+",
        help="a log, JSON lines exported from it, or a record; a log that was rotated: all its files, the oldest first",
    )  # fmt: skip
    parser.add_argument(
        "--task",
        metavar="PACKAGE:OBJECT",
        help="the task of all records, or FILE.py:OBJECT; its code is run. Without it only built-in tasks are used",
    )
    parser.add_argument(
        "--trust-record-task", action="store_true", help="import, and so run, whatever module a record names"
    )
    parser.add_argument(
        "--budget", metavar="N", type=_nodes,
        help=f"nodes per record ({BUDGET}, or the decision's own budget where that is larger, up to {LARGEST_BUDGET})",
    )  # fmt: skip
    parser.add_argument("--checkpoint", metavar="FILE", type=Path, help="a checkpoint of the log, kept elsewhere")
    parser.add_argument(
        "--key", metavar="KEY", help="the checkpoint must be signed by it: name+hash+base64, or a file with that"
    )
    parser.add_argument("--origin", metavar="NAME", help="the checkpoint's log; the key's name when not given")
    parser.add_argument(
        "--gate", metavar="FILE", type=Path, help="a gate in TOML; every decision's must be at least as strict"
    )
    parser.add_argument(
        "--plain", action="store_true", help="compile nothing: every figure by the rules in plain Python, slower"
    )
    return parser


def main(argv: Sequence[str] | None = None, *, rows_follow: bool = False) -> int:
    """Print what is not valid and a summary; the worst verdict is the exit code. With `rows_follow` the caller derives
    the rows of segments."""
    try:
        return _run(_parser(), argv, rows_follow)
    except SystemExit:
        raise  # from the parser: help, or wrong usage
    except BaseException as error:
        if is_genuine(error):
            raise
        _say(f"internal error: {describe(error)}", sys.stderr)
        return INTERNAL


def _run(parser: _Parser, argv: Sequence[str] | None, rows_follow: bool) -> int:
    options = parser.parse_args(argv)
    for path in filter(None, (*options.file, options.checkpoint, options.gate)):
        if re.match("postgres(ql)?:", str(path), re.IGNORECASE):  # not repeated: it may hold a password
            parser.error("saw a database's address, expected a file; `ucsearch log copy ADDRESS FILE` makes one")
        try:
            there = path.is_file()
        except (OSError, ValueError):
            there = False
        if not there:
            parser.error(f"{path}: no such file")
    if options.key is not None:
        if options.checkpoint is None:
            parser.error("--key: there is no --checkpoint that it could have signed")
        try:
            read_key(options.key)
        except Malformed as error:
            parser.error(f"--key: {error}")
    if options.origin is not None and options.checkpoint is None:
        parser.error("--origin: there is no --checkpoint that could name it")
    statuses: Counter[str] = Counter()
    notes: Counter[str] = Counter()  # what valid entries are valid by, where that is less than all rules of today
    with ExitStack() as stack:
        stack.enter_context(current_folder_off_path())
        stack.enter_context(_interrupted_at_once())
        stack.enter_context(warnings.catch_warnings(action="ignore"))  # overflow in a task's sums is seen in the result
        try:
            gate = None if options.gate is None else read_gate(options.gate)
            task = None if options.task is None else find_task(options.task)
        except Malformed as error:
            parser.error(f"--gate: {error}")
        except NoTask as error:
            parser.error(f"--task: {error}")
        stack.enter_context(_without_collection())
        progress = stack.enter_context(_Progress())
        for verdict in verify_files(
            options.file,
            task,
            budget=options.budget,
            checkpoint=options.checkpoint,
            key=options.key,
            origin=options.origin,
            trust_record_task=options.trust_record_task,
            gate=gate,
            plain=options.plain,
            rows_follow=rows_follow,
        ):
            statuses[verdict.status] += 1
            progress.show(statuses)
            if sum(statuses.values()) % 10_000 == 0:
                gc.collect()  # tracebacks do make cycles
            if verdict.code and (verdict.status != "malformed" or statuses["malformed"] <= MOST_TOLD):
                progress.clear()
                _say(_advised(verdict))
            elif verdict.message and not verdict.code:
                notes[verdict.message] += 1
    if (more := statuses["malformed"] - MOST_TOLD) > 0:
        _say(f"malformed: {more} more, which are not named one by one")
    counts = [f"{statuses[s]} {SUMMARY.get(s, s)}" for s in CODES if statuses[s]]
    _say(", ".join(counts) or "no entries")
    for note, count in sorted(notes.items()):
        _say(f"{count} of the valid: {note}")
    return next((CODES[status] for status in WORST_FIRST if statuses[status]), 0)


class _Progress:
    """How far it is, on a terminal: a line that is written over."""

    def __init__(self) -> None:
        self._terminal = sys.stderr is not None and sys.stderr.isatty()
        self._next = time.monotonic() + EVERY
        self._width = 0

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def show(self, statuses: Counter[str]) -> None:
        if not self._terminal or time.monotonic() < self._next:
            return
        text = f"verified {statuses.total()} entries, {statuses['valid']} valid"
        sys.stderr.write(f"\r{text:<{self._width}}")
        sys.stderr.flush()
        self._width, self._next = len(text), time.monotonic() + EVERY

    def clear(self) -> None:
        if self._width:
            sys.stderr.write(f"\r{'':<{self._width}}\r")
            sys.stderr.flush()
            self._width = 0


def _advised(verdict: Verdict) -> str:
    more = ", or let it be imported by --trust-record-task" if verdict.status == "no task" else ""
    return f"{verdict}{more}"


def _say(text: str, file: Any = None) -> None:
    """A line, whatever the terminal can show; who stops reading changes no exit code."""
    out = sys.stdout if file is None else file
    if out is None:
        return
    try:
        encoding = getattr(out, "encoding", None) or "ascii"
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=out, flush=True)
    except BrokenPipeError:
        with open(os.devnull, "w", encoding="utf-8") as nothing:
            os.dup2(nothing.fileno(), out.fileno())


@contextmanager
def _without_collection() -> Iterator[None]:
    """Searches hold millions of small tuples and make no cycles; looking for some would take most of the time."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def _interrupted_at_once() -> Iterator[None]:
    """Ctrl-C ends the process, so that no code under verification can pretend that somebody pressed it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


if __name__ == "__main__":
    sys.exit(main())
