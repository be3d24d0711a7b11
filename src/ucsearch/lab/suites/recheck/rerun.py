"""A drawn share of a suite run again from the data, and its rows compared byte for byte.

Which series are run is drawn by a hash of the rows. Policies that need all series at once (trained ones, those matched
on the whole validation part) are left out and named. Kinds that cannot run a share are run whole.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from ucsearch.errors import InputError
from ucsearch.lab.suites.evidence.ledger import LEDGER
from ucsearch.lab.suites.evidence.manifest import Evidence, read_part
from ucsearch.lab.suites.evidence.rows import Row
from ucsearch.lab.suites.evidence.sample import draw_series
from ucsearch.lab.suites.job import Progress, RunOptions, SuiteJob
from ucsearch.lab.suites.recheck.differences import Discrepancy, differences
from ucsearch.lab.suites.run import data_of, evaluate, run_share
from ucsearch.lab.suites.suite import Suite, parse_suite
from ucsearch.records.canonical import canonical, loads

__all__ = ["rerun"]


def rerun(
    evidence: Evidence, share: float, *, data_dir: Path | None = None, threads: int | None = None,
    progress: Progress | None = None, families: Mapping[str, str | Path] | None = None,
) -> tuple[list[Discrepancy], list[str]]:  # fmt: skip
    """What differs, and what was done. `families`: where the files are that the run took series from."""
    if not 0.0 < share <= 1.0:
        raise InputError("--rerun", share, "a share above 0 and at most 1")
    suite = parse_suite((evidence.folder / "suite.toml").read_text("utf-8"), "suite.toml")
    problems = list(
        differences(evidence.predicate["settings"], loads(canonical(suite.as_json())), "predicate.settings")
    )
    missing = sorted({*evidence.predicate["extra"].get("replaced_families", ())} - {*(families or {})})
    if missing:
        raise InputError("--rerun", f"no file for {missing[0]}", f"--family {missing[0]}=PATH, the file it was run on")
    drawn = draw_series(evidence.rows, share)
    all_series = sorted({(row["family"], row["series"]) for row in evidence.rows})
    with TemporaryDirectory() as folder:
        # A look that repeats a selection shows nothing new, and this one is nobody's evidence: its ledger goes.
        options: RunOptions = {"data_dir": data_dir, "threads": threads, "progress": progress,
                               "ledger": Path(folder) / LEDGER, "families": families or {}}  # fmt: skip
        again = _share(evidence, suite, drawn, Path(folder), options)
        if again is None:
            again, drawn = _whole(evidence, suite, folder, options), all_series
    problems.extend(differences(evidence.predicate["data"], again.data, "predicate.data"))
    problems.extend(_compared(evidence.rows, again, set(drawn)))
    notes = [f"{len(drawn)} of {len(all_series)} series were run again from the data"]
    if again.left_out:
        notes.append(f"not run again, because they need all series: {', '.join(again.left_out)}")
    return problems, notes


class _Found(NamedTuple):
    rows: list[dict[str, Any]]
    data: list[dict[str, Any]]  # the files read
    left_out: Sequence[str] = ()  # policies that a share cannot run


def _share(
    evidence: Evidence, suite: Suite, drawn: Sequence[tuple[str, str]], folder: Path, options: RunOptions
) -> _Found | None:
    """None for kinds whose series cannot be run apart."""
    if evidence.selection is None:
        return None
    identity = {
        "card_sha256": evidence.digests["card.md"],
        "settings": suite.as_json(),
        "suite_sha256": hashlib.sha256(suite.text.encode()).hexdigest(),
    }
    opened = any(row["split"] == "test" for row in evidence.rows)
    ran = run_share(suite, SuiteJob(folder / suite.name, identity, **options), evidence.selection, drawn, opened)
    return None if ran is None else _Found(ran[1], data_of(ran[0]), ran[0].left_out())


def _whole(evidence: Evidence, suite: Suite, folder: str, options: RunOptions) -> _Found:
    if suite.card.endswith(".md"):
        suite = dataclasses.replace(suite, card="card.md", folder=evidence.folder)  # rows do not depend on it
    run = evaluate(suite, folder, **options)
    body = read_part(run.folder, "rows.jsonl")
    return _Found([loads(line) for line in body.splitlines()], run.statement["predicate"]["data"])


def _compared(rows: Sequence[Row], again: _Found, drawn: set[tuple[str, str]]) -> Iterator[Discrepancy]:
    key = ("split", "family", "series", "window")
    rows_again = {tuple(row[k] for k in key): loads(canonical(row)) for row in again.rows}
    for row in rows:
        if (row["family"], row["series"]) not in drawn:
            continue
        place = "rows.jsonl " + " ".join(str(row[k]) for k in key)
        row_again = rows_again.pop(tuple(row[k] for k in key), None)
        if row_again is None:
            yield Discrepancy(place, "a row", "none when run again")
            continue
        recorded = {
            **row,
            "policies": {n: v for n, v in (row.get("policies") or {}).items() if n not in again.left_out},
        }
        row_again = {**row_again, "policies": row_again.get("policies") or {}}
        if canonical(recorded) != canonical(row_again):
            yield from _first(recorded, row_again, place)
    for place_left in sorted(rows_again, key=str):
        yield Discrepancy("rows.jsonl", "nothing", f"a row {' '.join(map(str, place_left))} when run again")


def _first(recorded: Mapping[str, Any], again: Mapping[str, Any], where: str) -> Iterator[Discrepancy]:
    """The members that differ in bytes, each with its first difference."""
    for name in sorted({*recorded, *again}):
        a, b = recorded.get(name), again.get(name)
        if isinstance(a, Mapping) and isinstance(b, Mapping) and name in ("policies", "candidates"):
            yield from _first(a, b, f"{where} {name}")
        elif canonical(a) != canonical(b):
            shown = next(differences(a, b, f"{where} {name}"), None)
            yield shown or Discrepancy(f"{where} {name}", "these bytes", "others, equal to nine digits")
