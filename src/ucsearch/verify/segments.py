"""Segments in the verifier's own words: the files that an entry names, a row's digest, and its path to the root of its
part, which an override of the row holds. Standard library only."""

from __future__ import annotations

import hashlib
import re
import struct
from base64 import b64decode
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ucsearch.verify.kinds import verify_override
from ucsearch.verify.read import Malformed, canonical, loads, open_regular
from ucsearch.verify.verdict import Invalid, expect, require, shown

# Of a row as a proof has it: texts, and base64 of little-endian numbers.
TEXTS = ("series", "task", "outcome", "reason", "cause", "meta", "detail", "source")
NUMBERS = (
    "action", "fallback", "shape", "state", "params", "actions", "members", "weights", "claims", "bits", "rivals",
    "first", "paths", "counters",
)  # fmt: skip
LONGEST = 80  # steps of a path: no tree has 2**80 leaves
LONGEST_FILE = 1 << 36  # bytes of a part: a hole of a terabyte takes no room on a disk, but an hour to read
PIECE = 1 << 20  # bytes that are read at a time
_HEX = re.compile("[0-9a-f]{64}")
_PART = re.compile(r"part-[0-9a-f]{6,64}\.parquet")


# -------------------------------------------------------------------- files


def verify_segment(r: Mapping[str, Any], log: Path | None) -> str:
    """The files that a segment's entry names, beside the log; returns what is left in doubt."""
    parts = r["parts"]
    names = [part["name"] for part in parts]
    require("segment.parts", len(set(names)) == len(names), names[:3], "every part once")
    for i, name in enumerate(names):
        require(f"segment.parts[{i}].name", _PART.fullmatch(name) is not None, name, "the name of a part")
    expect("segment.count", r["count"], sum(part["rows"] for part in parts))
    folder = None if log is None else log.with_name(log.name + ".d") / r["run"]
    if folder is None or not folder.is_dir():
        return "rows, which lie in files that were not given"
    for where, name, recorded in (
        ("shared", "shared.json", r["shared"]),
        *((f"parts[{i}].sha256", part["name"], part["sha256"]) for i, part in enumerate(parts)),
    ):
        expect(f"segment.{where}", recorded, _sha256(folder / name))
    return "decisions of its rows, which `ucsearch verify` makes again; the files are those sealed"


def _sha256(path: Path) -> str | None:
    """Of a file; None where there is none that can be read."""
    sha = hashlib.sha256()
    try:
        with open_regular(path) as file:
            if file.seek(0, 2) > LONGEST_FILE:
                return None
            file.seek(0)
            while piece := file.read(PIECE):
                sha.update(piece)
    except OSError:
        return None
    return sha.hexdigest()


# -------------------------------------------------------------------- rows


def row_digest(row: Any, shared: str) -> bytes:
    """The digest of a row under the settings whose SHA-256 is `shared`."""
    if not isinstance(row, dict) or set(row) != {*TEXTS, *NUMBERS}:
        raise Malformed("row: other columns than a segment's")
    for name, text in row.items():
        if not isinstance(text, str):
            raise Malformed(f"row.{name}: not a text")
    return hashlib.sha256(b"\0" + canonical({**row, "shared": shared})).digest()


def numbers(row: Mapping[str, str], name: str) -> list[float]:
    """The float64 numbers of a column."""
    try:
        data = b64decode(row[name], validate=True)
        return list(struct.unpack(f"<{len(data) // 8}d", data))
    except (ValueError, struct.error):
        raise Malformed(f"row.{name}: not the numbers of a column") from None


def climb(node: bytes, path: Any, where: str) -> bytes:
    """The root that a path leads to."""
    if not isinstance(path, list) or len(path) > LONGEST:
        raise Malformed(f"{where}: not a path")
    for step in path:
        if not isinstance(step, list) or len(step) != 2 or step[0] not in ("left", "right"):
            raise Malformed(f"{where}: not a path")
        if not isinstance(step[1], str) or not _HEX.fullmatch(step[1]):
            raise Malformed(f"{where}: not a path")
        other = bytes.fromhex(step[1])
        node = hashlib.sha256(b"\x01" + (other + node if step[0] == "left" else node + other)).digest()
    return node


def verify_row(proof: Mapping[str, Any], segment: Mapping[str, Any]) -> dict[str, str]:
    """The row of a proof, after it was found to be under the root of its part in this segment."""
    shared, parts = segment.get("shared"), segment.get("parts")
    if not isinstance(shared, str) or not _HEX.fullmatch(shared):
        raise Malformed("segment.shared: not a digest")
    leaf = row_digest(proof.get("row"), shared)
    root = climb(leaf, proof.get("path"), "proof.path").hex()
    named = [part for part in parts if part["name"] == proof.get("part")] if isinstance(parts, list) else []
    require("proof.part", len(named) == 1, proof.get("part"), "a part of the segment")
    expect("proof.row", named[0]["root"], root)
    return dict(proof["row"])


def verify_row_override(
    r: Mapping[str, Any], segment: Mapping[str, Any], digest: str, task_of: Callable[[str], Any]
) -> str:
    """A person's replacement of a row's action: the row is in the segment, and its rules allow it."""
    row = verify_row(r["proof"], segment)
    recorded = loads(row["task"].encode("utf-8"))
    actions, state, params = (numbers(row, name) for name in ("actions", "state", "params"))
    try:
        rules = task_of(str(recorded["object"]))
        task = {k: v for k, v in recorded.items() if k not in ("state_lengths", "params_lengths")}
        if len(actions) > len(rules.actions):  # labels may be those of positions
            raise Invalid("row.actions", len(actions), f"at most {len(rules.actions)}")
        labels = [rules.label(i, a) for i, a in enumerate(actions)]
        target: dict[str, Any] = {
            "schema": "ucsearch.decision/1",
            "kind": "decision" if row["meta"] else "refusal",
            "id": segment["id"],
            "series": row["series"],
            "task": {**task, "actions": [shown(a) for a in actions], "labels": labels},
            "versions": segment["versions"],
        }
        if state:
            lengths = {name: recorded[name] for name in ("state_lengths", "params_lengths")}
            target["inputs"] = {"state": state, "params": params, **lengths}
        return verify_override(r, target, digest, lambda: rules)
    except (LookupError, TypeError, AttributeError) as error:
        raise Malformed(f"proof.row: {error!r}") from None
