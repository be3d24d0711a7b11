"""Every hostile file of the corpus gets one of the exit codes that it may get, in time, without a traceback."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kit.counts import some
from tests.kit.fuzz import VERDICTS, mutated
from tests.kit.hostile import BUDGET, Case, corpus, exported, text, worst
from tests.kit.stories import STORIES
from ucsearch.verify import verify_file
from ucsearch.verify.__main__ import main

SHARDS = 8
LONGEST_S = 10.0  # of processor time: others may be busy
LEAST_CASES = 200
SAMPLE = some(24)
MUTATIONS = 120


def arguments(case: Case, folder: Path) -> list[str]:
    path = folder / "file"
    path.write_bytes(case.data)
    more = ["--budget", str(BUDGET), *case.arguments]
    if case.checkpoint is not None:
        (folder / "checkpoint.json").write_bytes(case.checkpoint)
        more += ["--checkpoint", str(folder / "checkpoint.json")]
    return [str(path), *more]


def test_the_corpus_is_large_and_its_names_are_its_own() -> None:
    names = [case.name for case in corpus()]
    assert len(names) >= LEAST_CASES
    assert len(set(names)) == len(names)
    assert all(case.verdicts <= VERDICTS for case in corpus())
    assert sum("valid" in case.verdicts for case in corpus()) < len(names) / 3


@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_case_gets_its_code(shard: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = []
    for case in corpus()[shard::SHARDS]:
        start = time.process_time()
        code = main(arguments(case, tmp_path))
        taken = time.process_time() - start
        seen = capsys.readouterr()
        shown = re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", seen.out + seen.err)
        found = worst(code, seen.out)
        if found not in case.verdicts or taken > LONGEST_S or shown or "Traceback" in seen.err:
            wrong.append((case.name, found, sorted(case.verdicts), round(taken, 1), (seen.out + seen.err)[:300]))
    assert wrong == []


def test_a_sample_as_processes(tmp_path: Path) -> None:
    cases = corpus()
    for case in cases[:: len(cases) // SAMPLE]:
        command = [sys.executable, "-m", "ucsearch.verify", *arguments(case, tmp_path)]
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        found = worst(done.returncode, done.stdout.decode(errors="replace"))
        assert found in case.verdicts, (case.name, done.stdout[:500], done.stderr[:500])
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("name", sorted(STORIES))
def test_exports_of_entries_about_entries_are_valid(name: str, tmp_path: Path) -> None:
    """An outcome is ranked by the members of its decision, which are in another line."""
    path = tmp_path / "file"
    path.write_bytes(text(*exported(*STORIES[name]())))
    found = [verdict.status for verdict in verify_file(path)]
    assert found == ["weaker" if name == "rows" and k == 0 else "valid" for k in range(len(found))]


def test_some_mutations_get_a_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`tests/slow/test_fuzz_verifier.py` does this for ten minutes."""
    verdicts = set()
    for seed in range(MUTATIONS):
        case = mutated(seed)
        code = main(arguments(case, tmp_path))
        seen = capsys.readouterr()
        verdicts.add(found := worst(code, seen.out))
        assert found in case.verdicts, (case.name, code, seen.out[:300])
        assert "Traceback" not in seen.err
    assert verdicts >= {"valid", "invalid", "malformed"}
