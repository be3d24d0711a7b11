"""Proofs that a row is in a segment, and notes, from strangers: proved, not proved or malformed, and nothing else."""

from __future__ import annotations

import copy
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from tests.kit.stories import rows
from ucsearch.verify.chain import read_checkpoint
from ucsearch.verify.read import Malformed
from ucsearch.verify.segments import verify_row
from ucsearch.verify.verdict import Invalid

VALUES: tuple[Any, ...] = (
    None, True, -1, 1.5, "", "x", "\ud800", "\udc80", "\x1b[2J", "é" * 64, [], {}, [[]], 2**70, 1e308, "9" * 5000,
    [["left", "0" * 64]] * 81, ...,
)  # fmt: skip
ROOT, HEAD, SIGNATURE = (b64encode(data).decode() for data in (b"r" * 32, b"h" * 32, bytes(68)))
NOTE = f"example\n1\n{ROOT}\nucsearch-head {HEAD}\n\n\N{EM DASH} example {SIGNATURE}\n"


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [p for key, item in items for p in ((*path, key), *places(item, (*path, key)))]


def test_whatever_stands_in_a_proof_it_gets_an_answer() -> None:
    (segment, _), (override, _) = rows()
    proof = override["proof"]
    assert verify_row(proof, segment) == proof["row"]
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
                verify_row(changed, segment)
                passed += [(*parent, last)] if value != old or type(value) is not type(old) else []
            except (Invalid, Malformed):
                pass
    assert passed == []


def other_bits(text: str) -> str:
    """Another base64 text that a lenient reader takes for the same 32 bytes."""
    return text[:-2] + chr(ord(text[-2]) + 1) + "="


@pytest.mark.parametrize("line", [2, 3])
def test_figures_of_a_note_have_one_spelling(line: int, tmp_path: Path) -> None:
    path = tmp_path / "note"
    path.write_text(NOTE, encoding="utf-8")
    assert read_checkpoint(path)[:2] == ({1: (b"h" * 32).hex()}, b"r" * 32)
    lines = NOTE.split("\n")
    lines[line] = other_bits(lines[line])
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(Malformed):
        read_checkpoint(path)


@pytest.mark.parametrize("size", ["+1", " 1", "1_0", "\u0661", "-1", "01", "", "9" * 5000, "1.0", "1\r"])
def test_a_size_is_a_whole_number_in_plain_digits(size: str, tmp_path: Path) -> None:
    note = NOTE.replace("\n1\n", f"\n{size}\n")
    (tmp_path / "note").write_bytes(note.encode())
    with pytest.raises(Malformed):
        read_checkpoint(tmp_path / "note")
