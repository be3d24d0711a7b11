"""Requests that are wrong somewhere, to a service of its own process: no code that is not declared, nothing of others'
secrets in an answer, the same bytes for what is asked again, and no release without a certificate that holds.

UCSEARCH_FUZZ_REQUESTS sets how many (a million: `make test-fuzz REQUESTS=1000000`), UCSEARCH_FUZZ_SEED another
beginning. What fails is shown with its number: `Drawer.draw` makes the same request again, but for ids that were given.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.kit.fuzz_service import Process, fuzz, log_words
from tests.service.test_corpus import BODIES
from ucsearch.records.log import AuditReader
from ucsearch.verify import verify_log

REQUESTS = int(os.environ.get("UCSEARCH_FUZZ_REQUESTS", "20000"))
SEED = int(os.environ.get("UCSEARCH_FUZZ_SEED", "1"))
CORPUS = [raw for raw in BODIES if len(raw) < 20_000]
MOST_MB = 500.0


@pytest.mark.slow
def test_no_request_gets_an_answer_that_is_not_declared(tmp_path: Path) -> None:
    process = Process(tmp_path)
    try:
        found = fuzz(process, REQUESTS, SEED, CORPUS)
        ready = process.is_ready()
    finally:
        code = process.stop()
    print(found)
    assert found.wrong == [], "\n".join(found.wrong)
    assert found.sent >= REQUESTS
    assert found.answered + found.gone >= 0.98 * found.sent
    assert found.repeats > 0
    assert found.reuses > 0
    assert (ready, code) == (True, 0)
    assert found.memory_mb[1] < MOST_MB
    assert log_words(process) == []
    verdicts, invalid = Counter[str](), list[str]()
    for n, verdict in enumerate(verify_log(tmp_path / "log/decisions.db")):
        verdicts[verdict.status] += 1
        if verdict.status != "valid":
            invalid.append(f"verdict {n + 1}: {verdict}")
    with AuditReader(tmp_path / "log/decisions.db") as log:
        decided = (row.record["outcome"] for row in log if row.record["kind"] == "decision")
        released = sum(outcome["outcome"] == "RELEASED" for outcome in decided)
    print(f"{sum(verdicts.values()):,} entries, {released:,} of them releases: {dict(verdicts)}")
    assert invalid == [], "\n".join(invalid)
    assert released > 0
