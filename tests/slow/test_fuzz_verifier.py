"""Ten minutes of mutated records, exports and logs: no hang, no traceback, no exit code outside the list.

UCSEARCH_FUZZ_S sets another time in seconds, UCSEARCH_FUZZ_SEED another beginning. What fails is named by its seed:
`tests.kit.fuzz.mutated(seed)` makes the same file again.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.kit.fuzz import mutated
from tests.kit.hostile import BUDGET

SECONDS = float(os.environ.get("UCSEARCH_FUZZ_S", "600"))
FIRST_SEED = int(os.environ.get("UCSEARCH_FUZZ_SEED", "1"))
LONGEST_S = 10.0
LEAST_CASES_A_SECOND = 5


def verify_all(results: Connection, folder: str, first: int) -> None:
    """In a process of its own: one seed after the other, each announced before and reported after."""
    from ucsearch.verify.__main__ import main

    path, seed = Path(folder) / "file", first
    while True:
        case = mutated(seed)
        path.write_bytes(case.data)
        results.send(("begins", seed, case.name))
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                code: object = main([str(path), "--budget", str(BUDGET)])
            except BaseException as error:
                code = repr(error)
        shown = said.getvalue().replace("\n", "").isprintable()
        wrong = code not in case.codes or "Traceback" in said.getvalue() or not shown
        results.send(("ends", seed, f"{case.name}: {code}: {said.getvalue()[:500]}" if wrong else ""))
        seed += 1


@pytest.mark.slow
def test_mutated_files_get_a_verdict_in_time(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=verify_all, args=(theirs, str(tmp_path), FIRST_SEED), daemon=True)
    process.start()
    theirs.close()
    wrong, seen, name = [], 0, "the start"
    end = time.monotonic() + SECONDS
    try:
        assert ours.poll(60)
        while time.monotonic() < end and len(wrong) < 20:
            if not ours.poll(LONGEST_S):
                wrong.append(f"{name}: no verdict in {LONGEST_S} s")
                break
            try:
                what, _, text = ours.recv()
            except EOFError:
                wrong.append(f"{name}: the process died")
                break
            if what == "begins":
                name = text
            else:
                seen += 1
                wrong += [text] if text else []
    finally:
        process.kill()
        process.join()
    print(f"{seen} files from seed {FIRST_SEED} in {SECONDS:.0f} s, {len(wrong)} of them wrong")
    assert wrong == []
    assert seen >= LEAST_CASES_A_SECOND * SECONDS / 2
