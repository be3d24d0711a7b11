"""`python -m ucsearch.verify FILE|DB [--task package:object] [--budget N] [--checkpoint FILE]`."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from ucsearch.verify import BUDGET, NoTask, find_task, verify_file

USAGE = 64  # EX_USAGE of sysexits.h


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(USAGE, f"{self.prog}: {message}\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Print what is not valid and a summary; the worst verdict is the exit code (invalid, malformed, weaker)."""
    parser = _Parser(
        prog="ucsearch verify",
        description="Derive every claim of recorded decisions again, from the recorded inputs and the task's rules.",
        epilog="Exit codes: 0 valid, 1 invalid (the first false claim is named), 2 malformed, 3 valid but of a weaker "
        "kind than claimed, 64 wrong usage.",
    )
    parser.add_argument("file", metavar="FILE|DB", type=Path, help="a log, JSON lines exported from it, or a record")
    parser.add_argument("--task", metavar="PACKAGE:OBJECT", help="the task; else each record's own task.object")
    parser.add_argument("--budget", metavar="N", type=int, default=BUDGET, help="nodes per record (%(default)s)")
    parser.add_argument("--checkpoint", metavar="FILE", type=Path, help="a checkpoint of the log, kept elsewhere")
    options = parser.parse_args(argv)
    if options.budget < 0:
        parser.error(f"--budget: saw {options.budget}, expected 0 or more")
    for path in filter(None, (options.file, options.checkpoint)):
        if not path.is_file():
            parser.error(f"{path}: no such file")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # where a planner's own task usually is
    seen: Counter[str] = Counter()
    try:
        task = None if options.task is None else find_task(options.task)
        for verdict in verify_file(options.file, task, budget=options.budget, checkpoint=options.checkpoint):
            seen[verdict.status] += 1
            if verdict.code:
                print(verdict)
    except NoTask as error:
        parser.error(f"--task: {error}")
    print(", ".join(f"{seen[s]} {s}" for s in ("valid", "weaker", "invalid", "malformed") if seen[s]) or "no entries")
    return next((code for s, code in (("invalid", 1), ("malformed", 2), ("weaker", 3)) if seen[s]), 0)


if __name__ == "__main__":
    sys.exit(main())
