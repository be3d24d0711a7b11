"""A drawn share of a suite run again from the data, and its rows compared byte for byte.

Which series are run is drawn by a hash of the rows. Policies that need all series at once (trained ones, those matched
on the whole validation part) are left out and named. Kinds that cannot run a share are run whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from ucsearch.errors import InputError
from ucsearch.lab.suites.evidence.drawn import draw_series
from ucsearch.lab.suites.evidence.ledger import LEDGER
from ucsearch.lab.suites.evidence.manifest import Evidence, read_part
from ucsearch.lab.suites.evidence.rows import Row
from ucsearch.lab.suites.job import Job, Progress
from ucsearch.lab.suites.kinds import again_of
from ucsearch.lab.suites.recheck.differences import Problem, differences
from ucsearch.lab.suites.run import evaluate
from ucsearch.lab.suites.suite import parse_suite
from ucsearch.records.canonical import canonical, loads

__all__ = ["Again", "rerun"]


class Again(NamedTuple):
    """What a run of a share gave."""

    rows: list[dict[str, Any]]
    data: list[Any]  # the files read
    left_out: tuple[str, ...] = ()  # policies that a share cannot run


def rerun(
    evidence: Evidence, share: float, *, data_dir: Path | None = None, threads: int | None = None,
    progress: Progress | None = None,
) -> tuple[list[Problem], list[str]]:  # fmt: skip
    """What differs, and what was done."""
    if not 0.0 < share <= 1.0:
        raise InputError("--rerun", share, "a share above 0 and at most 1")
    suite = parse_suite((evidence.folder / "suite.toml").read_text("utf-8"), "suite.toml")
    problems = list(
        differences(evidence.predicate["settings"], loads(canonical(suite.as_json())), "predicate.settings")
    )
    wanted = draw_series(evidence.rows, share)
    every = len({(row["family"], row["series"]) for row in evidence.rows})
    again = again_of(suite.kind)
    with TemporaryDirectory() as folder:
        # A look that repeats a selection shows nothing new, and this one is nobody's evidence: its ledger goes.
        ledger = Path(folder) / LEDGER
        if again is None or evidence.selection is None:
            run = evaluate(suite, folder, data_dir=data_dir, threads=threads, ledger=ledger, progress=progress)
            body = read_part(run.folder, "rows.jsonl")
            found = Again([loads(line) for line in body.splitlines()], run.statement["predicate"]["data"])
            wanted = sorted({(row["family"], row["series"]) for row in evidence.rows})
        else:
            identity = {
                "card_sha256": evidence.digests["card.md"],
                "settings": suite.as_json(),
                "suite_sha256": hashlib.sha256(suite.text.encode()).hexdigest(),
            }
            at = Path(folder) / suite.name
            job = Job(at, identity, data_dir=data_dir, threads=threads, ledger=ledger, progress=progress)
            job.select(evidence.selection)
            made = again(suite, job, evidence.selection, wanted, any(row["split"] == "test" for row in evidence.rows))
            files = [{"name": f.name, "sha256": f.sha256, "bytes": f.bytes, "status": f.status} for f in made.data]
            found = made._replace(data=sorted(files, key=lambda f: str(f["name"])))
    problems.extend(differences(evidence.predicate["data"], _once(found.data), "predicate.data"))
    problems.extend(_compared(evidence.rows, found, set(wanted)))
    notes = [f"{len(wanted)} of {every} series were run again from the data"]
    if found.left_out:
        notes.append(f"not run again, because they need all series: {', '.join(found.left_out)}")
    return problems, notes


def _once(files: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    known = {str(f["name"]): dict(f) for f in files}
    return [known[name] for name in sorted(known)]


def _compared(rows: Sequence[Row], found: Again, wanted: set[tuple[str, str]]) -> Iterator[Problem]:
    key = ("split", "family", "series", "window")
    made = {tuple(row[k] for k in key): loads(canonical(row)) for row in found.rows}
    for row in rows:
        if (row["family"], row["series"]) not in wanted:
            continue
        place = "rows.jsonl " + " ".join(str(row[k]) for k in key)
        other = made.pop(tuple(row[k] for k in key), None)
        if other is None:
            yield Problem(place, "a row", "none when run again")
            continue
        own = {**row, "policies": {n: v for n, v in (row.get("policies") or {}).items() if n not in found.left_out}}
        other = {**other, "policies": other.get("policies") or {}}
        if canonical(own) != canonical(other):
            yield from _first(own, other, place)
    for left in sorted(made, key=str):
        yield Problem("rows.jsonl", "nothing", f"a row {' '.join(map(str, left))} when run again")


def _first(own: Mapping[str, Any], other: Mapping[str, Any], where: str) -> Iterator[Problem]:
    """The members that differ in bytes, each with its first difference."""
    for name in sorted({*own, *other}):
        a, b = own.get(name), other.get(name)
        if isinstance(a, Mapping) and isinstance(b, Mapping) and name in ("policies", "candidates"):
            yield from _first(a, b, f"{where} {name}")
        elif canonical(a) != canonical(b):
            shown = next(differences(a, b, f"{where} {name}"), None)
            yield shown or Problem(f"{where} {name}", "these bytes", "others, equal to nine digits")
