"""Ten minutes of processor time of mutated records, exports and logs: no hang, no traceback, no exit code outside the
list. The measure is processor time, so a busy machine takes longer and looks at as many files; only a machine that
gives it less than a twelfth of a processor ends it sooner, and then the test fails and says how far it came.

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
from tests.kit.hostile import BUDGET, worst

SECONDS = float(os.environ.get("UCSEARCH_FUZZ_S", "600"))
FIRST_SEED = int(os.environ.get("UCSEARCH_FUZZ_SEED", "1"))
LONGEST_S = 10.0
MOST_WAITS = 30  # of so long: something else than the processor is waited for
LEAST_CASES_A_SECOND = 5
MOST_ON_THE_WALL = 12.0  # times SECONDS


def verify_all(results: Connection, folder: str, first: int) -> None:
    """In a process of its own: one seed after the other, each announced before and reported after."""
    from ucsearch.verify.__main__ import main

    path, seed = Path(folder) / "file", first
    while True:
        case = mutated(seed)
        path.write_bytes(case.data)
        results.send(("begins", seed, case.name, time.process_time()))
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            try:
                code: object = main([str(path), "--budget", str(BUDGET)])
            except BaseException as error:
                code = repr(error)
        shown = said.getvalue().replace("\n", "").isprintable()
        verdict = worst(code, said.getvalue()) if isinstance(code, int) else code
        wrong = verdict not in case.verdicts or "Traceback" in said.getvalue() or not shown
        text = f"{case.name}: {code}: {said.getvalue()[:500]}" if wrong else ""
        results.send(("ends", seed, text, time.process_time()))
        seed += 1


def had_its_time(pid: int, since: float) -> bool:
    """Whether a process that has not answered for a while has had the processor time to do so, on a busy machine."""
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return True
    ticks = stat.read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK") - since > LONGEST_S


@pytest.mark.slow
def test_mutated_files_get_a_verdict_in_time(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=verify_all, args=(theirs, str(tmp_path), FIRST_SEED), daemon=True)
    process.start()
    theirs.close()
    wrong, seen, waits, name, begun, cpu = [], 0, 0, "the start", 0.0, 0.0
    try:
        assert ours.poll(600)
        end = time.monotonic() + MOST_ON_THE_WALL * SECONDS
        while cpu < SECONDS and time.monotonic() < end and len(wrong) < 20:
            if not ours.poll(LONGEST_S):
                waits += 1
                if process.is_alive() and waits < MOST_WAITS and not had_its_time(process.pid or 0, begun):
                    continue
                wrong.append(f"{name}: no verdict in {LONGEST_S} s")
                break
            try:
                what, _, text, cpu = ours.recv()
            except EOFError:
                wrong.append(f"{name}: the process died")
                break
            waits = 0
            if what == "begins":
                name, begun = text, cpu
            else:
                seen += 1
                wrong += [f"{name}: {cpu - begun:.0f} s of processor time"] if cpu - begun > LONGEST_S else []
                wrong += [text] if text else []
    finally:
        process.kill()
        process.join()
    print(f"{seen} files from seed {FIRST_SEED} in {cpu:.0f} s of processor time, {len(wrong)} of them wrong")
    assert wrong == []
    assert cpu >= SECONDS, f"the wall clock ended it after {cpu:.0f} of {SECONDS:.0f} s of processor time, {seen} files"
    assert seen >= LEAST_CASES_A_SECOND * cpu / 2
