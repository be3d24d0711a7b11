"""Records of version 1 stay readable and are judged by version 1's own rules; the verdict says so."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.kit.hostile import exported, text
from tests.kit.templates import TEMPLATES
from ucsearch.records import seal
from ucsearch.verify import Verdict, verify_record
from ucsearch.verify.__main__ import main

LINES = (Path(__file__).parents[1] / "golden" / "decision-1.jsonl").read_text(encoding="utf-8").splitlines()
OLD = {line["name"]: line for line in map(json.loads, LINES)}


# Version 1 took a lambda by its byte code, so that other versions of Python cannot know it again.
WITH_LAMBDAS = {name for name, line in OLD.items() if line["template"] == "maze"}
RECORDED_BY = "3.11"


def verdict(
    name: str, schema: str = "ucsearch.decision/1", python: str = "", source: str = "", **claims: Any
) -> Verdict:
    """Of a recorded decision, with the source hash it was recorded with."""
    line = OLD[name]
    task = TEMPLATES[line["template"]].task
    record = {k: v for k, v in line["record"].items() if k != "id"}
    record |= {"schema": schema}
    record["claim"] = record["claim"] | claims
    if python:
        record["versions"] = record["versions"] | {"python": python}
    if source:
        record["task"] = record["task"] | {"source_hash": source}
    blobs = {k: base64.b64decode(v) for k, v in line["blobs"].items()}
    return verify_record(seal(record), blobs, task)


@pytest.mark.parametrize("name", OLD)
def test_version_1_is_verified_under_its_own_rules(name: str) -> None:
    found = verdict(name)
    here = ".".join(map(str, sys.version_info[:2]))
    if name in WITH_LAMBDAS and here != RECORDED_BY:
        assert (found.status, found.where) == ("weaker", "task.source_hash")
    else:
        assert (found.status, found.message) == ("valid", "version 1 rules")


def test_rules_by_byte_code_of_another_python_are_in_doubt_and_all_else_is_derived() -> None:
    name, strange = "hold", "0" * 64
    found = verdict(name, python="3.9.1", source=strange)
    assert (found.status, found.where) == ("weaker", "task.source_hash")
    assert "version 1 rules; these could not be verified: task.source_hash (byte code of another" in found.message
    assert verdict(name, python="3.9.1", source=strange, unique=True).status == "invalid"
    here = ".".join(map(str, sys.version_info[:2]))
    assert verdict(name, python=f"{here}.1", source=strange).where == "task.source_hash"
    assert verdict(name, python=f"{here}.1", source=strange).status == "invalid"
    # These rules have texts: their hash is the same in every version.
    assert verdict("released", python="3.9.1").status == "valid"
    assert verdict("released", python="3.9.1", source=strange).status == "invalid"


def test_a_false_claim_of_version_1_is_found() -> None:
    assert verdict("released", unique=False).where == "claim.unique"
    assert verdict("released", tau=1e-3).where == "claim.tau"


def test_other_versions_are_not_known() -> None:
    assert verdict("released", schema="ucsearch.decision/0").status == "malformed"
    assert verdict("released", schema="ucsearch.decision/3").status == "malformed"


def test_the_program_says_what_is_valid_by_older_rules_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever writes a record today may call it version 1, whose tolerance was wider."""
    line = OLD["released"]
    blobs = {name: base64.b64decode(data) for name, data in line["blobs"].items()}
    record = seal({k: v for k, v in line["record"].items() if k != "id"})
    (tmp_path / "log.jsonl").write_bytes(text(*exported((record, blobs), (record, blobs))))
    code = main([str(tmp_path / "log.jsonl"), "--task", "tests.kit.templates:battery"])
    assert (code, capsys.readouterr().out) == (0, "2 valid\n2 of the valid: version 1 rules\n")


def test_no_log_goes_back_to_version_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """After entries of version 2 the laxer rules are claimed by somebody who wants them."""
    line = OLD["released"]
    blobs = {name: base64.b64decode(data) for name, data in line["blobs"].items()}
    old = (seal({k: v for k, v in line["record"].items() if k != "id"}), blobs)
    pause = {"action": "pause", "plan": "p", "who": "A", "why": "b", "at": "2026-01-01T00:00:00+00:00"}
    newer = (seal({"schema": "ucsearch.control/1", "kind": "control", **pause}), {})
    path = tmp_path / "log.jsonl"
    for entries, expected in (((old, newer), (0, "2 valid")), ((newer, old), (3, "after entries of version 2"))):
        path.write_bytes(text(*exported(*entries)))
        code = main([str(path), "--task", "tests.kit.templates:battery"])
        assert (code, expected[1] in capsys.readouterr().out) == (expected[0], True)
