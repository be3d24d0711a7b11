"""The evidence folder: an in-toto statement in `manifest.json` about the files beside it.

Written so that a folder either has a manifest that fits its files or none at all, and equal runs give equal bytes.
Read strictly: one clear error for whatever is missing, malformed or not in canonical form.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import tomllib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ucsearch.errors import InputError, RecordError
from ucsearch.lab.suites.evidence.rows import EvidenceError, Row, check_rows, row_bytes, sort_rows, split_problems
from ucsearch.lab.suites.gates.derive import DERIVED, FACTS
from ucsearch.lab.suites.protocol.comparison import Protocol
from ucsearch.lab.suites.protocol.selection import SCHEMA
from ucsearch.records.canonical import canonical, digest, loads
from ucsearch.records.files import whole_file

__all__ = [
    "FILES",
    "PREDICATE",
    "STATEMENT",
    "Evidence",
    "FalseClaim",
    "find_evidence",
    "json_lines",
    "read_evidence",
    "read_part",
    "seal",
    "write_evidence",
]

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://ucsearch.dev/evidence/v2"
PACKED = ".gz"
PACKED_FROM = 400_000
"""Rows that are larger lie in their folder packed; their digest is of the content."""
MOST_BYTES = 500_000_000
LONGEST_FILE = 500_000_000  # bytes, packed or not
EARLIER = "https://ucsearch.dev/evidence/v1"
"""Evidence from before there was a ledger of looks; it cannot be checked by today's rules and is refused."""
MANIFEST = "manifest.json"
ROWS = "rows.jsonl"
REQUIRED = ("card.md", ROWS, "suite.toml")
FILES = tuple(sorted((*REQUIRED, "sample.jsonl", "selection.json")))
"""Files a manifest may speak about. Others in the folder, such as timing.json and report.html, are no evidence."""

_TYPES: dict[str, type | tuple[type, ...]] = {
    "suite": str, "kind": str, "title": str, "endpoint": str, "settings": dict, "card": dict, "data": list,
    "splits": dict, "versions": dict, "protocol": (dict, type(None)), "extra": dict, "selection": (dict, type(None)),
    "looks": int, "earlier": list, "tables": list, "deltas": list, "secondary": list, "gate": list,
    "value": (dict, type(None)), "audit": (list, type(None)), "checks": list, "verdict": dict, "seal": str,
}  # fmt: skip


class FalseClaim(EvidenceError):
    """A digest that does not fit: `where` is the member that is wrong."""

    def __init__(self, where: str, claimed: object, derived: object) -> None:
        super().__init__(f"{where}: the manifest says {claimed!r}, derived {derived!r}")
        self.where, self.claimed, self.derived = where, claimed, derived


@dataclass(frozen=True, eq=False)
class Evidence:
    """An evidence folder whose form, digests and seal are right. Whether it is true, `verify_evidence` finds out."""

    folder: Path  # where it was read from
    statement: dict[str, Any]  # manifest.json, an in-toto statement
    rows: list[Row]  # one for each policy and window
    selection: dict[str, Any] | None  # what validation chose; None where it stopped the route
    suite: dict[str, Any]  # suite.toml, parsed
    digests: dict[str, str]  # SHA-256 of each file

    @property
    def predicate(self) -> dict[str, Any]:
        content: dict[str, Any] = self.statement["predicate"]
        return content

    @property
    def sample(self) -> Path | None:
        return self.folder / "sample.jsonl" if "sample.jsonl" in self.digests else None


def json_lines(entries: Sequence[Mapping[str, Any]]) -> bytes:
    return b"".join(canonical(entry) + b"\n" for entry in entries)


def seal(predicate: Mapping[str, Any]) -> str:
    """Digest of everything else in the predicate: whoever edits a figure by hand has to mean it."""
    return digest({k: v for k, v in predicate.items() if k != "seal"}, "evidence/1")


# -------------------------------------------------------------------- writing


def write_evidence(
    out: Path, predicate: Mapping[str, Any], rows: Sequence[Row], files: Mapping[str, bytes]
) -> dict[str, Any]:
    """Write a run's evidence into its folder and return the statement.

    `predicate` comes from `conclude`. `files` holds the other subjects by name: `card.md` and `suite.toml` always,
    `sample.jsonl` where there is one; `selection.json` is taken from the folder, where the run has left it, unless
    given. The old manifest goes first and the new one comes last.
    """
    check_rows(rows)
    problems = split_problems(rows, predicate["splits"])
    if problems:
        raise EvidenceError(problems[0])
    bodies = {"rows.jsonl": row_bytes(rows), **files}
    if "selection.json" not in bodies and (out / "selection.json").exists():
        bodies["selection.json"] = (out / "selection.json").read_bytes()
    for name in REQUIRED:
        if name not in bodies:
            raise InputError("files", f"no {name}", f"all of {', '.join(REQUIRED)}")
    unknown = sorted(set(bodies) - set(FILES))
    if unknown:
        raise InputError("files", unknown[0], f"only {', '.join(FILES)}")
    # As a reader will see it: numbers of one kind only.
    content = loads(canonical({**predicate, "seal": ""}))
    content["seal"] = seal(content)
    statement = {
        "_type": STATEMENT,
        "predicateType": PREDICATE,
        "predicate": content,
        "subject": [{"name": n, "digest": {"sha256": _sha256(bodies[n])}} for n in sorted(bodies)],
    }
    _check_statement(statement)
    body = canonical(statement)
    out.mkdir(parents=True, exist_ok=True)
    manifest = out / MANIFEST
    if manifest.exists() and manifest.read_bytes() != body:
        manifest.unlink()
    for name in FILES:
        packed = name == ROWS and len(bodies[name]) > PACKED_FROM
        for path, wanted in ((out / name, not packed), (out / f"{name}{PACKED}", packed)):
            if name not in bodies or not wanted:
                path.unlink(missing_ok=True)  # of an earlier run: beside a new manifest it would be a stray
                continue
            # Without a time and a name in it, equal content is equal bytes.
            held = gzip.compress(bodies[name], compresslevel=9, mtime=0) if packed else bodies[name]
            if not path.exists() or path.read_bytes() != held:
                with whole_file(path) as file:
                    file.write(held)
    with whole_file(manifest) as file:
        file.write(body)
    return statement


# -------------------------------------------------------------------- reading


def find_evidence(folder: Path) -> list[Path]:
    """Folders at or below this one that hold a manifest of ours, sorted; hidden folders are passed over."""
    if not folder.is_dir():
        raise EvidenceError(f"{folder}: no such folder")
    found = []
    for path in sorted(folder.rglob(MANIFEST)):
        if any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        # A manifest that cannot be read is reported by whoever reads it; one of another kind is not ours.
        try:
            content = loads(_read(path))
        except RecordError:
            found.append(path.parent)
            continue
        if not isinstance(content, dict) or content.get("predicateType", PREDICATE) in (PREDICATE, EARLIER):
            found.append(path.parent)
    return found


def read_evidence(folder: Path) -> Evidence:
    """Read a folder. EvidenceError: malformed; its kind FalseClaim: a digest or the seal does not fit."""
    folder = Path(folder)
    statement = _object(_read(folder / MANIFEST), MANIFEST)
    _check_statement(statement)
    predicate = statement["predicate"]
    names = [subject["name"] for subject in statement["subject"]]
    bodies = {name: read_part(folder, name) for name in names}
    for stray in FILES:
        for path in (folder / stray, folder / f"{stray}{PACKED}"):
            if stray not in names and path.exists():
                raise EvidenceError(f"{path.name}: the file is there, but the manifest does not speak of it")
    if predicate["seal"] != seal(predicate):
        raise FalseClaim("predicate.seal", predicate["seal"], seal(predicate))
    for i, subject in enumerate(statement["subject"]):
        derived = _sha256(bodies[subject["name"]])
        if subject["digest"]["sha256"] != derived:
            where = f"subject[{i}] {subject['name']}"
            raise FalseClaim(where, subject["digest"]["sha256"], derived)
    rows = _lines(bodies["rows.jsonl"], "rows.jsonl")
    check_rows(rows)
    if [id(row) for row in sort_rows(rows)] != [id(row) for row in rows]:
        raise EvidenceError("rows.jsonl: the rows are not sorted by split, family, series and window")
    selection = _object(bodies["selection.json"], "selection.json") if "selection.json" in bodies else None
    if selection is not None:
        _check_selection(selection)
    try:
        suite = tomllib.loads(bodies["suite.toml"].decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise EvidenceError(f"suite.toml: {error}, expected TOML") from error
    digests = {name: _sha256(body) for name, body in bodies.items()}
    return Evidence(folder, statement, list(rows), selection, suite, digests)


def _check_statement(statement: Mapping[str, Any]) -> None:
    _members(statement, "manifest", ("_type", "predicate", "predicateType", "subject"))
    if statement["predicateType"] == EARLIER:
        raise EvidenceError("manifest.predicateType: evidence of version 1 has no ledger of looks and no drawn sample")
    for name, wanted in (("_type", STATEMENT), ("predicateType", PREDICATE)):
        if statement[name] != wanted:
            raise EvidenceError(f"manifest.{name}: saw {statement[name]!r}, expected {wanted!r}")
    if not isinstance(statement["subject"], list):
        raise EvidenceError("manifest.subject: expected a list")
    names = []
    for i, subject in enumerate(statement["subject"]):
        _members(subject, f"subject[{i}]", ("digest", "name"))
        _members(subject["digest"], f"subject[{i}].digest", ("sha256",))
        _hex(subject["digest"]["sha256"], f"subject[{i}].digest.sha256")
        names.append(subject["name"])
    if not all(isinstance(name, str) for name in names) or names != sorted(set(names)):
        raise EvidenceError(f"manifest.subject: saw the names {names}, expected each once, sorted")
    strange = next((name for name in names if name not in FILES), None)
    missing = next((name for name in REQUIRED if name not in names), None)
    if strange is not None or missing is not None:
        raise EvidenceError(f"manifest.subject: {'no ' + str(missing) if missing else 'unknown name ' + repr(strange)}")
    predicate = statement["predicate"]
    _members(predicate, "predicate", (*FACTS, *DERIVED, "seal"))
    for name, kind in _TYPES.items():
        if not isinstance(predicate[name], kind) or isinstance(predicate[name], bool):
            raise EvidenceError(f"predicate.{name}: saw {type(predicate[name]).__name__}, expected another type")
    _members(predicate["card"], "predicate.card", ("name", "sha256"))
    _hex(predicate["card"]["sha256"], "predicate.card.sha256")
    _hex(predicate["seal"] or "0" * 64, "predicate.seal")
    for i, entry in enumerate(predicate["data"]):
        _members(entry, f"predicate.data[{i}]", ("bytes", "name", "sha256", "status"))
        _hex(entry["sha256"], f"predicate.data[{i}].sha256")
    for split, families in predicate["splits"].items():
        if not isinstance(families, dict) or not all(
            isinstance(series, list) and all(isinstance(one, str) for one in series) for series in families.values()
        ):
            raise EvidenceError(f"predicate.splits.{split}: expected lists of series by family")
    if predicate["protocol"] is not None:
        try:
            Protocol.from_json(predicate["protocol"])
        except (InputError, TypeError) as error:
            raise EvidenceError(f"predicate.{error}") from error
    for member in ("tables", "checks"):
        for i, entry in enumerate(predicate[member]):
            if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
                raise EvidenceError(f"predicate.{member}[{i}]: expected an object with a name")


def _check_selection(record: Mapping[str, Any]) -> None:
    wanted = (
        "candidate", "candidates", "card_sha256", "eligible", "how", "protocol", "reason", "risk", "rows_sha256",
        "schema", "suite", "suite_sha256",
    )  # fmt: skip
    # Whoever asks for the value gate, or for the power of the paper's, has a member more; `budgets` says who did.
    asked = tuple(name for name in ("value", "power") if name in record)
    _members(record, "selection.json", (*wanted, *asked))
    if record["schema"] != SCHEMA:
        raise EvidenceError(f"selection.json.schema: saw {record['schema']!r}, expected {SCHEMA!r}")
    if record["how"] not in ("selected", "declared"):
        raise EvidenceError(f"selection.json.how: saw {record['how']!r}, expected selected or declared")
    try:
        Protocol.from_json(record["protocol"])
        if not isinstance(record["candidates"], list) or not all(
            isinstance(c, dict) and isinstance(c.get("settings"), dict) for c in record["candidates"]
        ):
            raise EvidenceError("selection.json.candidates: expected objects with settings")
    except (InputError, TypeError) as error:
        raise EvidenceError(f"selection.json.{error}") from error


def _members(value: Any, where: str, names: Sequence[str]) -> None:
    if not isinstance(value, dict):
        raise EvidenceError(f"{where}: saw {type(value).__name__}, expected an object")
    for name in names:
        if name not in value:
            raise EvidenceError(f"{where}.{name}: missing")
    for name in value:
        if name not in names:
            raise EvidenceError(f"{where}.{name}: an unknown member")


def _hex(value: Any, where: str) -> None:
    if not isinstance(value, str) or len(value) != 64 or set(value) - set("0123456789abcdef"):
        raise EvidenceError(f"{where}: saw {value!r}, expected 64 hex digits")


def _read(path: Path) -> bytes:
    if path.is_symlink() or not path.is_file():
        raise EvidenceError(f"{path.name}: no such file in {path.parent}")
    try:
        with path.open("rb") as file:
            body = file.read(LONGEST_FILE + 1)
    except OSError as error:
        raise EvidenceError(f"{path.name}: cannot be read ({error.strerror})") from error
    if len(body) > LONGEST_FILE:  # a hole of a terabyte takes no room on a disk
        raise EvidenceError(f"{path.name}: too long for a file of evidence")
    return body


def read_part(folder: Path, name: str) -> bytes:
    """A file of an evidence folder, packed or not; both at once would be two truths. Only rows are packed."""
    packed = folder / f"{name}{PACKED}"
    if not packed.exists():
        return _read(folder / name)
    if (folder / name).exists():
        raise EvidenceError(f"{name}: it is there twice, packed and not")
    try:
        with gzip.open(io.BytesIO(_read(packed))) as file:
            body = file.read(MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise EvidenceError(f"{packed.name}: cannot be unpacked ({error})") from error
    if len(body) > MOST_BYTES:
        raise EvidenceError(f"{packed.name}: more than {MOST_BYTES:,} bytes unpacked")
    return body


def _object(body: bytes, name: str) -> dict[str, Any]:
    try:
        content = loads(body)
        same = isinstance(content, dict) and canonical(content) == body
    except RecordError as error:
        raise EvidenceError(f"{name}: {error}") from error
    if not same:
        raise EvidenceError(f"{name}: expected one object in canonical form")
    result: dict[str, Any] = content
    return result


def _lines(body: bytes, name: str) -> list[dict[str, Any]]:
    if body and not body.endswith(b"\n"):
        raise EvidenceError(f"{name}: the last line is not complete")
    return [_object(line, f"{name}[{i}]") for i, line in enumerate(body.split(b"\n")[:-1])]


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
