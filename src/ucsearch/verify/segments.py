"""Rows of a segment, in the verifier's own words: their bytes, their digest, and the way up to a signed note.

A proof is one JSON object: the row's columns, the path to the segment's root, the entry of the chain that names the
root, and the path from there to the root of the note. Standard library only.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

from ucsearch.verify.chain import Pins
from ucsearch.verify.figures import Invalid, expect, require
from ucsearch.verify.kinds import verify_override
from ucsearch.verify.read import Malformed, canonical, digest, loads, read_record

COLUMNS = (
    ("series", "text"), ("task", "text"), ("outcome", "text"), ("reason", "text"), ("cause", "text"), ("meta", "text"),
    ("detail", "text"), ("source", "text"), ("trace", "binary"), ("rest", "binary"), ("action", "f8"),
    ("fallback", "f8[]"), ("shape", "i8[]"), ("state", "f8[]"), ("params", "f8[]"), ("actions", "f8[]"),
    ("weights", "f8[]"), ("claims", "f8[]"), ("bits", "i8"), ("rivals", "f8[]"), ("first", "f8[]"), ("paths", "i2[]"),
    ("counters", "i8[]"),
)  # fmt: skip
PROOF = "ucsearch.proof/1"
LARGEST = 16 << 20  # bytes of a proof
LONGEST = 80  # steps of a path: no tree has 2**80 leaves
_NAN = struct.pack("<Q", 0x7FF8000000000000)
_CODES = {"f8": "d", "i8": "q", "i2": "h"}
_HEX = re.compile("[0-9a-f]{64}")


def row_bytes(row: Mapping[str, Any]) -> bytes:
    """The bytes that a row's digest is made of. Numbers may be null (NaN) or "inf"; binaries are hex."""
    if not isinstance(row, dict) or set(row) != {name for name, _ in COLUMNS}:
        raise Malformed("row: other columns than a segment's")
    out = []
    for name, kind in COLUMNS:
        value = row[name]
        try:
            if kind == "text":
                data = value.encode("utf-8")
                out += [struct.pack("<I", len(data)), data]
            elif kind == "binary":
                data = bytes.fromhex(value)
                require(f"row.{name}", data.hex() == value, value, data.hex())
                out += [struct.pack("<I", len(data)), data]
            elif kind.endswith("[]"):
                if not isinstance(value, list):
                    raise ValueError
                out += [struct.pack("<I", len(value)), *(_number(x, kind[:-2]) for x in value)]
            else:
                out.append(_number(value, kind))
        except (ValueError, TypeError, AttributeError, struct.error, OverflowError):
            raise Malformed(f"row.{name}: not a value of its kind") from None
    return b"".join(out)


def _number(value: Any, kind: str) -> bytes:
    if kind != "f8":
        if type(value) is not int:
            raise ValueError
        return struct.pack(f"<{_CODES[kind]}", value)
    if isinstance(value, bool) or (isinstance(value, str) and value not in ("inf", "-inf")):
        raise ValueError
    number = math.nan if value is None else float(value)
    return _NAN if number != number else struct.pack("<d", number + 0.0)


def row_digest(row: Mapping[str, Any], shared: bytes) -> bytes:
    return hashlib.sha256(b"ucsearch.row/2\0" + shared + row_bytes(row)).digest()


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


def verify_row(proof: Mapping[str, Any], root: Any, shared: Any) -> dict[str, Any]:
    """The row of a proof, after it was found to be under the root."""
    row, path = proof.get("row"), proof.get("path")
    if not isinstance(shared, str) or not _HEX.fullmatch(shared):
        raise Malformed("segment.shared: not a digest")
    own = row_digest(row, bytes.fromhex(shared))  # type: ignore[arg-type]
    found = climb(hashlib.sha256(b"\x00" + own).digest(), path, "proof.path")
    require("proof.row", found.hex() == root, str(root)[:64], found.hex())
    return dict(row)  # type: ignore[arg-type]


def verify_proof(data: bytes, pins: Pins) -> str:
    """One line about the row that a proof shows to be in the log that a note vouches for; `Invalid` or `Malformed`
    otherwise."""
    if len(data) > LARGEST:
        raise Malformed("too long for a proof")
    proof = loads(data)
    if not isinstance(proof, dict) or proof.get("schema") != PROOF or not isinstance(proof.get("entry"), dict):
        raise Malformed(f"not a proof (schema {PROOF} expected)")
    if pins.root is None:
        raise Malformed("the checkpoint is no note: it has no root")
    entry = proof["entry"]
    texts = [entry.get(name) for name in ("record", "previous")]
    time, seq = entry.get("written_at"), entry.get("seq")
    if not all(isinstance(x, str) for x in texts) or not (time is None or isinstance(time, str)):
        raise Malformed("proof.entry: members of other types")
    if type(seq) is not int or not 0 < seq < 2**63 or not _HEX.fullmatch(texts[1]):
        raise Malformed("proof.entry: members of other types")
    try:  # a lone surrogate stands for a byte of the log, or for nothing
        moment = (time or "").encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise Malformed("proof.entry.written_at: not a text") from None
    body = texts[0].encode("utf-8", "surrogatepass")
    record = read_record(body)
    expect("proof.entry.kind", record.get("kind"), "segment")
    row = verify_row(proof, record.get("root"), record.get("shared"))
    expect("proof.series", proof.get("series"), row["series"])
    link = bytes.fromhex(texts[1]) + seq.to_bytes(8, "big") + bytes.fromhex(digest("audit-entry/1", body))
    head = digest("audit-head/1", link + moment)
    require("proof.entry.size", type(entry.get("size")) is int, entry.get("size"), pins.size)
    expect("proof.entry.size", entry.get("size"), pins.size)
    found = climb(hashlib.sha256(b"\x00" + bytes.fromhex(head)).digest(), entry.get("path"), "proof.entry.path")
    require("proof.entry", found == pins.root, found.hex(), f"{pins.root.hex()}, the root of the note")
    if seq > pins.size:
        raise Invalid("proof.entry.seq", seq, f"at most {pins.size}")
    return f"series {row['series']!r}: {row['outcome']}, action {row['action']}, in entry {seq} of {pins.size}"


def verify_row_override(
    r: Mapping[str, Any], segment: Mapping[str, Any], digest: str, task_of: Callable[[str], Any]
) -> str:
    """A person's replacement of a row's action: the row is in the segment, and its rules allow it."""
    row = verify_row(r["proof"], segment.get("root"), segment.get("shared"))
    told = loads(row["task"].encode("utf-8"))
    try:
        rules = task_of(str(told["object"]))
        kept = {k: v for k, v in told.items() if k not in ("state_lengths", "params_lengths")}
        if len(row["actions"]) > len(rules.actions):  # labels may be those of positions
            raise Invalid("row.actions", len(row["actions"]), f"at most {len(rules.actions)}")
        labels = [rules.label(i, math.nan if a is None else float(a)) for i, a in enumerate(row["actions"])]
        target: dict[str, Any] = {
            "schema": "ucsearch.decision/1",
            "kind": "decision" if row["meta"] else "refusal",
            "id": segment["id"],
            "series": row["series"],
            "task": {**kept, "actions": row["actions"], "labels": labels},
            "versions": segment["versions"],
        }
        if row["state"]:
            lengths = {name: told[name] for name in ("state_lengths", "params_lengths")}
            target["inputs"] = {"state": row["state"], "params": row["params"], **lengths}
        return verify_override(r, target, digest, lambda: rules)
    except (LookupError, TypeError, AttributeError) as error:
        raise Malformed(f"proof.row: {error!r}") from None


def proof_bytes(proof: Mapping[str, Any]) -> bytes:
    """The canonical form of a proof."""
    return canonical(dict(proof))
