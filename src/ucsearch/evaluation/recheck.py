"""Evidence checked without the code that made it: every figure is derived again from the rows and compared.

1. form, digests and seal (`read_evidence`)
2. the suite file and the card are what the settings, the selection and the manifest say
3. rows, splits and declared windows fit together
4. the selection follows from the validation rows, and its record from the selection
5. looks: numbered, all under this selection, none before a selection, none behind a stopped audit
6. tables, deltas, secondary audit, gate, no-go audit, checks and verdict follow from the rows
7. a sample of decisions, verified by `ucsearch.verify`

Nothing here runs a policy or reads a data file. What only a run can know (data hashes, versions, seeds, tables that are
given, figures in `extra`) is sealed, not derived.
"""

from __future__ import annotations

import math
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ucsearch.errors import UCSearchError
from ucsearch.evaluation.derive import DERIVED, derive
from ucsearch.evaluation.manifest import Evidence, FalseClaim, read_evidence
from ucsearch.evaluation.protocol import Protocol
from ucsearch.evaluation.rows import EvidenceError, split_problems
from ucsearch.evaluation.selection import declare, select
from ucsearch.records.canonical import canonical, loads

__all__ = ["FALSE", "MALFORMED", "VALID", "Problem", "Report", "differences", "verify_evidence"]

VALID, FALSE, MALFORMED = 0, 1, 2
DECISIONS = 20  # of the sample
_ABSENT = object()


@dataclass(frozen=True)
class Problem:
    """One false claim: which member, what it says, what was derived."""

    where: str
    claimed: str
    derived: str

    def __str__(self) -> str:
        return f"{self.where}: the evidence says {self.claimed}, derived {self.derived}"


@dataclass(frozen=True)
class Report:
    """What was found about one folder."""

    folder: Path
    code: int  # 0 valid, 1 a claim is false, 2 malformed
    problems: tuple[Problem, ...] = ()
    malformed: str = ""
    notes: tuple[str, ...] = ()  # what was not derived
    evidence: Evidence | None = None

    @property
    def ok(self) -> bool:
        return self.code == VALID


def verify_evidence(
    folder: Path | str, *, decisions: int = DECISIONS, budget: int | None = None, task: Any = None
) -> Report:
    """Check a folder. `decisions`: how many of the sample are verified, spread evenly; `budget`: nodes for each."""
    path = Path(folder)
    try:
        evidence = read_evidence(path)
    except FalseClaim as error:
        return Report(path, FALSE, (Problem(error.where, repr(error.claimed), repr(error.derived)),))
    except UCSearchError as error:
        return Report(path, MALFORMED, malformed=str(error))
    notes: list[str] = []
    problems: list[Problem] = []
    try:
        for step in (_suite, _splits, _selection, _looks, _derived):
            problems.extend(step(evidence))
        problems.extend(_sample(evidence, decisions, budget, task, notes))
    except UCSearchError as error:
        # Nothing more can be derived; what was found false before stays false.
        return Report(path, FALSE if problems else MALFORMED, tuple(problems), str(error), evidence=evidence)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        # Members of a table or check that are of another type than the protocol writes.
        text = f"a member of another form ({type(error).__name__}: {error})"
        return Report(path, FALSE if problems else MALFORMED, tuple(problems), text, evidence=evidence)
    notes.extend(_not_derived(evidence.predicate))
    return Report(path, FALSE if problems else VALID, tuple(problems), notes=tuple(notes), evidence=evidence)


# -------------------------------------------------------------------- steps


def _suite(e: Evidence) -> Iterator[Problem]:
    p = e.predicate
    # The settings write defaults out; what the file says must be among them.
    yield from differences(_restricted(p["settings"], e.suite), loads(canonical(_plain(e.suite))), "predicate.settings")
    for name in ("kind", "title", "endpoint"):
        yield from differences(p[name], p["settings"].get(name), f"predicate.{name}")
    yield from differences(p["suite"], p["settings"].get("name"), "predicate.suite")
    yield from differences(p["card"]["sha256"], e.digests["card.md"], "predicate.card.sha256")
    yield from differences(p["card"]["name"], p["settings"].get("card"), "predicate.card.name")
    if p["protocol"] is not None:
        yield from differences(p["protocol"]["suite"], p["suite"], "predicate.protocol.suite")
        yield from differences(p["protocol"]["seed"], p["settings"].get("seed"), "predicate.protocol.seed")


def _splits(e: Evidence) -> Iterator[Problem]:
    p = e.predicate
    for text in split_problems(e.rows, p["splits"]):
        where, _, what = text.partition(": ")
        yield Problem(where, "a clean split", what)
    if p["protocol"] is None:
        return
    protocol = Protocol.from_json(p["protocol"])
    counts: dict[tuple[str, str, str], int] = {}
    for row in e.rows:
        key = row["split"], row["family"], row["series"]
        counts[key] = counts.get(key, 0) + 1
    for (split, family, series), count in counts.items():
        wanted = protocol.windows.get(split, count)
        yield from differences(wanted, count, f"predicate.protocol.windows.{split} ({family} {series})")
    for split in ("validation", "test"):
        found = {row["family"] for row in e.rows if row["split"] == split}
        if found:
            yield from differences(sorted(protocol.families), sorted(found), f"predicate.protocol.families ({split})")


def _selection(e: Evidence) -> Iterator[Problem]:
    record, p = e.selection, e.predicate
    if record is None:
        return
    yield from differences(record["protocol"], p["protocol"] or record["protocol"], "selection.json.protocol")
    hashes = {"card_sha256": e.digests["card.md"], "suite_sha256": e.digests["suite.toml"]}
    protocol = Protocol.from_json(record["protocol"])
    candidates = [c["settings"] for c in record["candidates"]]
    if record["how"] == "declared":
        derived = declare(protocol, candidates[0], **hashes)
    else:
        derived = select(e.rows, protocol, candidates, **hashes)
    yield from differences(record, loads(canonical(derived)), "selection.json")


def _looks(e: Evidence) -> Iterator[Problem]:
    p = e.predicate
    own = None if e.selection is None else e.digests["selection.json"]
    for i, look in enumerate(e.looks):
        yield from differences(look["look"], i + 1, f"looks.jsonl[{i}].look")
        yield from differences(look["selection"], own, f"looks.jsonl[{i}].selection")
    yield from differences(p["looks"], len(e.looks), "predicate.looks")
    tested = any(row["split"] == "test" for row in e.rows)
    if tested and not e.looks:
        yield Problem("looks.jsonl", "no look", "rows of the test split")
    if e.looks and not tested:
        yield Problem("rows.jsonl", "no row of the test split", f"{len(e.looks)} looks at it")
    if tested and e.selection is None:
        yield Problem("selection.json", "no selection", "rows of the test split")


def _derived(e: Evidence) -> Iterator[Problem]:
    p = e.predicate
    derived = derive(p, e.rows, tables=p["tables"], checks=p["checks"], selection=e.selection, looks=len(e.looks))
    derived = loads(canonical(derived))
    for name in DERIVED:
        yield from differences(p[name], derived[name], f"predicate.{name}")


def _sample(e: Evidence, decisions: int, budget: int | None, task: Any, notes: list[str]) -> Iterator[Problem]:
    from ucsearch.verify import BUDGET, NoTask, verify_record
    from ucsearch.verify.formats import Invalid, Malformed, follow, read_entries

    if e.sample is None:
        notes.append("there is no sample of decisions")
        return
    try:
        entries = list(follow(read_entries(e.sample), {}))
        if fault := next((entry.fault for entry in entries if entry.fault), ""):
            raise Malformed(fault)
    except Malformed as error:
        raise EvidenceError(f"sample.jsonl: {error}") from error
    except Invalid as error:
        yield Problem(f"sample.jsonl {error.where}", "an unbroken chain", str(error))
        return
    lines = e.sample.read_bytes().splitlines()
    chosen = _spread(len(entries), decisions)
    notes.append(f"{len(chosen)} of {len(entries)} sampled decisions were verified")
    for i in chosen:
        blobs = {name: b64decode(text) for name, text in (loads(lines[i]).get("blobs") or {}).items()}
        try:
            verdict = verify_record(entries[i].body, blobs, task, budget=BUDGET if budget is None else budget)
        except NoTask as error:
            raise EvidenceError(f"sample.jsonl[{i}]: {error}") from error
        if verdict.status == "malformed":
            raise EvidenceError(f"sample.jsonl[{i}]: {verdict}")
        if verdict.code:
            # "Weaker" is no proof of the claim, and a claim without proof does not stand.
            yield Problem(f"sample.jsonl[{i}] {verdict.where}", "a right decision record", str(verdict))
        yield from _sampled_series(e, loads(entries[i].body), i)


def _sampled_series(e: Evidence, record: Mapping[str, Any], i: int) -> Iterator[Problem]:
    """A sampled decision must be about a series of this suite."""
    names = {row["series"] for row in e.rows} | {f"{row['family']}/{row['series']}" for row in e.rows}
    if record.get("series") not in names:
        yield Problem(f"sample.jsonl[{i}].record.series", repr(record.get("series")), "no series of rows.jsonl")


def _spread(count: int, wanted: int) -> list[int]:
    """So many places from first to last."""
    if wanted >= count:
        return list(range(count))
    return sorted({round(i * (count - 1) / max(1, wanted - 1)) for i in range(wanted)})


def _not_derived(p: Mapping[str, Any]) -> Iterator[str]:
    given = sum(table.get("how") == "given" for table in p["tables"])
    if given:
        yield f"{given} of {len(p['tables'])} tables are given, not derived from rows"
    loose = sum(check.get("from") is None for check in p["checks"])
    if loose:
        yield f"{loose} of {len(p['checks'])} checks take a figure that is not derived from rows"
    if p["extra"]:
        yield f"extra figures are not derived from rows: {', '.join(sorted(p['extra']))}"


# -------------------------------------------------------------------- comparison


def differences(claimed: Any, derived: Any, where: str) -> Iterator[Problem]:
    """Every leaf in which two JSON values differ; numbers may differ by rounding, since platforms do."""
    if isinstance(claimed, Mapping) and isinstance(derived, Mapping):
        for name in sorted({*claimed, *derived}):
            yield from differences(claimed.get(name, _ABSENT), derived.get(name, _ABSENT), f"{where}.{name}")
    elif _is_list(claimed) and _is_list(derived):
        if len(claimed) != len(derived):
            yield Problem(where, f"{len(claimed)} entries", str(len(derived)))
        for i, (a, b) in enumerate(zip(claimed, derived, strict=False)):
            yield from differences(a, b, f"{where}[{i}]")
    elif not _is_equal(claimed, derived):
        yield Problem(where, _shown(claimed), _shown(derived))


def _is_equal(a: Any, b: Any) -> bool:
    if _is_number(a) and _is_number(b):
        if isinstance(a, int) and isinstance(b, int):
            return a == b
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
    return type(a) is type(b) and bool(a == b)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _shown(value: Any) -> str:
    if value is _ABSENT:
        return "nothing"
    text = repr(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def _restricted(settings: Any, wanted: Any) -> Any:
    """The part of the settings that the suite file speaks about."""
    if isinstance(settings, Mapping) and isinstance(wanted, Mapping):
        return {name: _restricted(settings[name], wanted[name]) for name in wanted if name in settings}
    return settings


def _plain(value: Any) -> Any:
    """TOML as JSON: dates become text."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
