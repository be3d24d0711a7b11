"""Records of version 1 stay readable and are judged by version 1's own rules; the verdict says so."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.kit.templates import TEMPLATES
from ucsearch.records import seal
from ucsearch.verify import Verdict, verify_record

LINES = (Path(__file__).parents[1] / "golden" / "decision-1.jsonl").read_text(encoding="utf-8").splitlines()
OLD = {line["name"]: line for line in map(json.loads, LINES)}


def verdict(name: str, schema: str = "ucsearch.decision/1", **claims: Any) -> Verdict:
    """Of a recorded decision, with the source hash it was recorded with."""
    line = OLD[name]
    task = TEMPLATES[line["template"]].task
    record = {k: v for k, v in line["record"].items() if k != "id"}
    record |= {"schema": schema}
    record["claim"] = record["claim"] | claims
    blobs = {k: base64.b64decode(v) for k, v in line["blobs"].items()}
    return verify_record(seal(record), blobs, task)


@pytest.mark.parametrize("name", OLD)
def test_version_1_is_verified_under_its_own_rules(name: str) -> None:
    found = verdict(name)
    assert (found.status, found.message) == ("valid", "version 1 rules")


def test_a_false_claim_of_version_1_is_found() -> None:
    assert verdict("released", unique=False).where == "claim.unique"
    assert verdict("released", tau=1e-3).where == "claim.tau"


def test_other_versions_are_not_known() -> None:
    assert verdict("released", schema="ucsearch.decision/0").status == "malformed"
    assert verdict("released", schema="ucsearch.decision/3").status == "malformed"
