"""Run a suite from its settings to its evidence folder. The order of the protocol stands here and nowhere else:

declare, design, validate, select, power, look, test, gates and verdict, manifest, recheck. A kind supplies the rows.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple, Unpack

from ucsearch.errors import InputError
from ucsearch.lab.suites.evidence.manifest import json_lines, write_evidence
from ucsearch.lab.suites.evidence.rows import EvidenceError
from ucsearch.lab.suites.evidence.sample import chained, draw
from ucsearch.lab.suites.gates.derive import conclude
from ucsearch.lab.suites.gates.power import LEAST_POWER, is_wasted, may_open, power_record, power_words
from ucsearch.lab.suites.job import RunOptions, SuiteJob
from ucsearch.lab.suites.kinds import kind_of
from ucsearch.lab.suites.kinds.kind import Rows, SuiteKind
from ucsearch.lab.suites.protocol.comparison import Protocol
from ucsearch.lab.suites.protocol.selection import declare, select
from ucsearch.lab.suites.suite import Suite, load_suite
from ucsearch.records.files import whole_file

__all__ = [
    "WHOLE",
    "Findings",
    "SuiteRun",
    "card_text",
    "data_of",
    "evaluate",
    "follow_protocol",
    "rehearse",
    "run_share",
]

WHOLE = "whole run"
"""Under this name timing.json holds the time of all of it."""


@dataclass(frozen=True)
class SuiteRun:
    """What a run left: its folder and the statement in it."""

    folder: Path
    statement: dict[str, Any]

    @property
    def verdict(self) -> dict[str, Any]:
        verdict: dict[str, Any] = self.statement["predicate"]["verdict"]
        return verdict


class Findings(NamedTuple):
    """What following the protocol gave."""

    kind: SuiteKind
    rows: Rows
    selection: dict[str, Any] | None
    tables: list[dict[str, Any]]  # specifications
    checks: list[dict[str, Any]]

    @property
    def splits(self) -> dict[str, dict[str, list[str]]]:
        """Series by split and family."""
        by_split: dict[str, dict[str, set[str]]] = {}
        for row in self.rows:
            by_split.setdefault(row["split"], {}).setdefault(row["family"], set()).add(row["series"])
        return {split: {name: sorted(ids) for name, ids in families.items()} for split, families in by_split.items()}


def card_text(suite: Suite) -> str:
    """A suite's benchmark card: one of the package's by name, or a file of your own beside the suite's."""
    if suite.card.endswith(".md"):
        path = suite.folder / suite.card
        if not path.is_file():
            raise InputError("card", suite.card, f"a file {path} that says what the suite tests and what not")
        return path.read_text("utf-8")
    path = Path(__file__).parent / "cards" / f"{suite.card}.md"
    if path.is_file():
        return path.read_text("utf-8")
    raise InputError("card", repr(suite.card), "the name of a file beside the suite's that ends in .md")


def evaluate(suite: Suite | str | Path, out: str | Path, **options: Unpack[RunOptions]) -> SuiteRun:
    """Run a suite into `out/<name>`. A killed run goes on where it was; a finished one is run again.

    `options`: see `RunOptions`. EvidenceError where what was written does not verify.
    """
    begun = perf_counter(), process_time()
    suite = suite if isinstance(suite, Suite) else load_suite(suite)
    job = _job(suite, out, options)
    folder, card, identity = job.folder, card_text(suite), job.identity
    findings = follow_protocol(suite, job)
    extra = findings.kind.extra() | ({"replaced_families": sorted(job.families)} if job.families else {})
    facts = {
        "suite": suite.name,
        "kind": suite.kind,
        "title": suite.title,
        "endpoint": suite.endpoint,
        "settings": suite.as_json(),
        "card": {"name": suite.card, "sha256": identity["card_sha256"]},
        "data": data_of(findings.kind),
        "splits": findings.splits,
        "seeds": {"suite": suite.seed},
        "versions": identity["versions"],
        "protocol": None if findings.selection is None else findings.selection["protocol"],
        "extra": extra,
    }
    looks, earlier = job.looks
    predicate = conclude(
        facts, findings.rows, tables=findings.tables, checks=findings.checks, selection=findings.selection, looks=looks,
        earlier=earlier,
    )  # fmt: skip
    files = {"card.md": card.encode(), "suite.toml": suite.text.encode()}
    drawn = draw(findings.rows, suite.settings.plan().sampled)
    if drawn:
        job.progress("decisions for the verifier", 0, len(drawn))
        files["sample.jsonl"] = json_lines(chained(findings.kind.sample(drawn)))
    statement = write_evidence(folder, predicate, findings.rows, files)
    with whole_file(folder / "timing.json") as file:
        # For people: how long this took from here, on the wall and of processors; a run that was killed began later.
        took = {"seconds": perf_counter() - begun[0], "processor_seconds": process_time() - begun[1]}
        file.write(json.dumps({**job.timings(), WHOLE: took}, indent=1).encode() + b"\n")
    _recheck(folder, job)
    job.finish()
    return SuiteRun(folder, statement)


def rehearse(suite: Suite | str | Path, out: str | Path, **options: Unpack[RunOptions]) -> tuple[dict[str, Any], bool]:
    """Everything up to the look: the selection record with the power in it, and whether the test would be opened.

    The test stays closed and no look is written. A run of the same suite into `out` goes on from here.
    """
    suite = suite if isinstance(suite, Suite) else load_suite(suite)
    job = _job(suite, out, options)
    kind = kind_of(suite.kind)(suite, job)
    if kind.protocol() is None:
        raise InputError("suite", suite.name, "a suite that holds something out: this one has no test to open")
    rows, selection = _until_the_look(kind)
    return selection, may_open(rows, selection) and (job.underpowered or not is_wasted(selection))


def _job(suite: Suite, out: str | Path, options: RunOptions) -> SuiteJob:
    options["families"] = replaced = _replaced(suite, options.get("families") or {})
    identity = {
        "card_sha256": _sha256(card_text(suite).encode()),
        "settings": suite.as_json(),
        "suite_sha256": _sha256(suite.text.encode()),
        "versions": _versions(),
    }
    if replaced:
        identity["families"] = {name: str(path.resolve()) for name, path in replaced.items()}
    return SuiteJob(Path(out) / suite.name, identity, **options)


def follow_protocol(suite: Suite, job: SuiteJob) -> Findings:
    """All rows of a suite, and what was selected: the test is opened after the selection is written, if at all."""
    kind = kind_of(suite.kind)(suite, job)
    if kind.protocol() is None:
        rows = kind.describe()
        return Findings(kind, rows, None, kind.tables(rows), kind.checks(rows))
    rows, selection = _until_the_look(kind)
    if is_wasted(selection) and not job.underpowered:
        raise InputError(
            "power", f"{selection['value']['power']:.2f}",
            f"at least {LEAST_POWER:g} that all bounds of the value gate pass",
            hint="Declare more series, or ask for the look with --underpowered; the verdict will say so.",
        )  # fmt: skip
    if not may_open(rows, selection):
        return Findings(kind, rows, selection, [], [])
    job.open_test(kind.opened())
    rows = [*rows, *kind.test(selection)]
    return Findings(kind, rows, selection, kind.tables(rows), kind.checks(rows))


def _until_the_look(kind: SuiteKind) -> tuple[Rows, dict[str, Any]]:
    """Rows of validation, and the selection as it was written down."""
    protocol = kind.protocol()
    if protocol is None:
        raise InputError("kind", kind.suite.kind, "something to compare")
    rows = kind.validation()
    selection = kind.job.select(_selection(kind, protocol, rows))
    for text in power_words(selection):
        kind.job.say(text)
    return rows, selection


def _selection(kind: SuiteKind, protocol: Protocol, rows: Rows) -> dict[str, Any]:
    """The selection record: the choice, what is asked of practitioners, and how likely the gates pass."""
    hashes = {"card_sha256": kind.job.identity["card_sha256"], "suite_sha256": kind.suite.sha256}
    if kind.describes and protocol.gate:
        raise InputError("gate", "true", f"false: suites of the kind {kind.suite.kind} describe only")
    choice, candidates = kind.choice(rows), list[Mapping[str, Any]]()
    if choice is not None:
        record = declare(protocol, choice, **hashes)
    else:
        candidates = list(kind.candidates())
        record = select(rows, protocol, candidates, **hashes)
    question = None if kind.describes else kind.question()
    if question is not None:
        record["value"] = question.record(rows, protocol, candidates)
    if getattr(kind.s, "power", False):
        record["power"] = power_record(rows, protocol, record)
    return record


def run_share(
    suite: Suite, job: SuiteJob, selection: dict[str, Any], series: Sequence[tuple[str, str]], opened: bool
) -> tuple[SuiteKind, Rows] | None:
    """The rows of some series once more, under what an earlier run selected; `opened`: with their test windows. None
    for kinds whose series cannot be run apart."""
    kind = kind_of(suite.kind)(suite, job)
    if not kind.only(set(series)):
        return None
    job.select(selection)
    rows = kind.validation(selection)
    if opened:
        job.open_test(kind.opened())
        rows = [*rows, *kind.test(selection)]
    return kind, rows


def data_of(kind: SuiteKind) -> list[dict[str, Any]]:
    """The data files that a run read, each once."""
    files = {f.name: {"name": f.name, "sha256": f.sha256, "bytes": f.bytes, "status": f.status} for f in kind.files}
    return [files[name] for name in sorted(files)]


def _recheck(folder: Path, job: SuiteJob) -> None:
    """Everything that follows from the rows derived again from the files, as anybody would."""
    from ucsearch.lab.suites.recheck.verify import verify_evidence

    report = verify_evidence(folder, ledger=job.ledger)
    if not report.ok:
        (folder / "manifest.json").unlink()
        why = report.malformed or str(report.problems[0])
        raise EvidenceError(f"{folder.name}: what was written does not verify: {why}")


def _replaced(suite: Suite, families: Mapping[str, str | Path]) -> dict[str, Path]:
    replaceable: Any = getattr(suite.settings, "replaceable", ())
    for name in families:
        if name not in replaceable:
            raise InputError(
                "--family", repr(name), f"a family of {suite.name}: {', '.join(replaceable) or 'it has none'}"
            )
    return {name: Path(path) for name, path in families.items()}


def _versions() -> dict[str, str]:
    names = ("ucsearch", "numpy", "numba")
    versions = {name: version(name) for name in names}
    return {**versions, "python": platform.python_version(), "platform": f"{platform.system()}-{platform.machine()}"}


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
