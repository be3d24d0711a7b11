"""Proofs that a row is in a log, and notes, from strangers: proved, not proved or malformed, and nothing else."""

from __future__ import annotations

import copy
import hashlib
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from tests.kit.hostile import _hash, resealed
from tests.kit.stories import a_row, rows
from ucsearch.records.canonical import canonical
from ucsearch.verify.chain import Pins, read_checkpoint
from ucsearch.verify.figures import Invalid
from ucsearch.verify.read import Malformed
from ucsearch.verify.segments import PROOF, row_digest, verify_proof

PREVIOUS = "00" * 32
VALUES: tuple[Any, ...] = (
    None, True, -1, 1.5, "", "x", "\ud800", "\udc80", "\x1b[2J", "é" * 64, [], {}, [[]], 2**70, 1e308, "9" * 5000,
    [["left", "0" * 64]] * 81, ...,
)  # fmt: skip


def genuine() -> tuple[dict[str, Any], Pins, str]:
    """A proof, and what the note says; the text of the note."""
    row, own = a_row()
    row = {**row, "task": json.dumps(own, sort_keys=True)}
    segment = copy.deepcopy(rows()[0][0])
    segment["parts"][0]["root"] = row_digest(row, segment["shared"]).hex()
    body = canonical(resealed(segment))
    link = bytes.fromhex(PREVIOUS) + (1).to_bytes(8, "big") + bytes.fromhex(_hash("audit-entry/1", body))
    head = bytes.fromhex(_hash("audit-head/1", link))
    root = hashlib.sha256(b"\0" + head).digest()
    entry = {"record": body.decode(), "previous": PREVIOUS, "written_at": None, "seq": 1, "size": 1, "path": []}
    part = segment["parts"][0]["name"]
    proof = {"schema": PROOF, "series": row["series"], "part": part, "row": row, "path": [], "entry": entry}
    texts = [b64encode(data).decode() for data in (root, head, b"abcd" + bytes(64))]
    note = f"example\n1\n{texts[0]}\nucsearch-head {texts[1]}\n\n\N{EM DASH} example {texts[2]}\n"
    return proof, Pins({1: head.hex()}, root), note


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [p for key, item in items for p in ((*path, key), *places(item, (*path, key)))]


def test_whatever_stands_in_a_proof_it_gets_an_answer() -> None:
    proof, pins, _ = genuine()
    assert verify_proof(json.dumps(proof).encode(), pins).startswith("series 'A-1': RELEASED")
    passed = []
    for *parent, last in places(proof):
        for value in VALUES:
            changed = copy.deepcopy(proof)
            at: Any = changed
            for part in parent:
                at = at[part]
            old = at.pop(last) if isinstance(at, dict) or value is ... else at[last]
            if value is not ...:
                at[last] = value
            try:
                verify_proof(json.dumps(changed).encode(), pins)
                passed += [(*parent, last)] if value != old or type(value) is not type(old) else []
            except (Invalid, Malformed):
                pass
    # A time that is not there is none, and one of no letters is the same; of numbers only the value counts.
    assert {path for path in passed if path[:2] != ("row", "params")} == {("entry", "written_at")}


@pytest.mark.parametrize("end", ["\ud800", "a\ud800b"])
def test_a_time_that_is_no_text_is_malformed(end: str) -> None:
    proof, pins, _ = genuine()
    proof["entry"]["written_at"] = end
    with pytest.raises(Malformed):
        verify_proof(json.dumps(proof).encode(), pins)


def other_bits(text: str) -> str:
    """Another base64 text that a lenient reader takes for the same 32 bytes."""
    return text[:-2] + chr(ord(text[-2]) + 1) + "="


@pytest.mark.parametrize("line", [2, 3])
def test_figures_of_a_note_have_one_spelling(line: int, tmp_path: Path) -> None:
    _, pins, note = genuine()
    path = tmp_path / "note"
    path.write_text(note, encoding="utf-8")
    assert read_checkpoint(path)[:2] == pins[:2]
    lines = note.split("\n")
    lines[line] = other_bits(lines[line])
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(Malformed):
        read_checkpoint(path)


@pytest.mark.parametrize("size", ["+1", " 1", "1_0", "\u0661", "-1", "01", "", "9" * 5000, "1.0", "1\r"])
def test_a_size_is_a_whole_number_in_plain_digits(size: str, tmp_path: Path) -> None:
    note = genuine()[2].replace("\n1\n", f"\n{size}\n")
    (tmp_path / "note").write_bytes(note.encode())
    with pytest.raises(Malformed):
        read_checkpoint(tmp_path / "note")
