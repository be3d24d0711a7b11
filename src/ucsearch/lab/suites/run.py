"""Run a suite from its settings to its evidence folder."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from ucsearch.errors import InputError
from ucsearch.lab.suites.evidence.drawn import draw
from ucsearch.lab.suites.evidence.manifest import json_lines, write_evidence
from ucsearch.lab.suites.evidence.samples import chained
from ucsearch.lab.suites.gates.derive import conclude
from ucsearch.lab.suites.job import Job
from ucsearch.lab.suites.kinds import runner_of
from ucsearch.lab.suites.suite import Suite, load_suite
from ucsearch.records.canonical import loads
from ucsearch.records.files import whole_file

__all__ = ["WHOLE", "Run", "card_text", "evaluate"]

WHOLE = "whole run"
"""Under this name timing.json holds the time of all of it."""

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Run:
    """What a run left: its folder and the statement in it."""

    folder: Path
    statement: dict[str, Any]

    @property
    def verdict(self) -> dict[str, Any]:
        found: dict[str, Any] = self.statement["predicate"]["verdict"]
        return found


def card_text(name: str) -> str:
    """The benchmark card of that name; a suite of your own may name a file of yours that ends in .md."""
    if name.endswith(".md"):
        path = Path(name)
        if not path.is_file():
            raise InputError("card", name, "a file that exists")
        return path.read_text("utf-8")
    path = Path(__file__).parent / "cards" / f"{name}.md"
    if path.is_file():
        return path.read_text("utf-8")
    raise InputError("card", repr(name), "the name of a benchmark card, or a path that ends in .md")


def evaluate(
    suite: Suite | str | Path,
    out: str | Path,
    *,
    data_dir: str | Path | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    ledger: str | Path | None = None,
    underpowered: bool = False,
    say: Callable[[str], None] | None = None,
    families: Mapping[str, str | Path] | None = None,
) -> Run:
    """Run a suite into `out/<name>`. A killed run goes on where it was; a finished one is run again.

    `ledger`: the ledger of looks, `out/looks.jsonl` unless given. `underpowered`: open the test split although the
    value gate is unlikely to pass. `say` is told the power before that. `families`: by name, other files of the same
    form to take a family's series from.
    """
    begun = perf_counter(), process_time()
    suite = suite if isinstance(suite, Suite) else load_suite(suite)
    card = card_text(suite.card)
    folder = Path(out) / suite.name
    replaced = _replaced(suite, families or {})
    identity = {
        "card_sha256": _sha256(card.encode()),
        "settings": suite.as_json(),
        "suite_sha256": _sha256(suite.text.encode()),
        "versions": _versions(),
    }
    if replaced:
        identity["families"] = {name: str(path.resolve()) for name, path in replaced.items()}
    job = Job(
        folder, identity, data_dir=None if data_dir is None else Path(data_dir), threads=threads, progress=progress,
        ledger=None if ledger is None else Path(ledger), underpowered=underpowered, say=say,
        families=replaced,
    )  # fmt: skip
    findings = runner_of(suite.kind)(suite, job)
    selection = loads(job.selection_path.read_bytes()) if job.selection_path.exists() else None
    facts = {
        "suite": suite.name,
        "kind": suite.kind,
        "title": suite.title,
        "endpoint": suite.endpoint,
        "settings": suite.as_json(),
        "card": {"name": suite.card, "sha256": identity["card_sha256"]},
        "data": _data(findings.data),
        "splits": findings.splits,
        "seeds": {"suite": suite.seed},
        "versions": identity["versions"],
        "protocol": None if selection is None else selection["protocol"],
        "extra": findings.extra,
    }
    looks, earlier = job.looks
    predicate = conclude(
        facts, findings.rows, tables=findings.tables, checks=findings.checks, selection=selection, looks=looks,
        earlier=earlier,
    )  # fmt: skip
    files = {"card.md": card.encode(), "suite.toml": suite.text.encode()}
    drawn = draw(findings.rows, findings.sampled) if findings.sample is not None else []
    if findings.sample is not None and drawn:
        job.progress("decisions for the verifier", 0, len(drawn))
        files["sample.jsonl"] = json_lines(chained(findings.sample(drawn)))
    statement = write_evidence(folder, predicate, findings.rows, files)
    with whole_file(folder / "timing.json") as file:
        # For people: how long this took from here, on the wall and of processors; a run that was killed began later.
        took = {"seconds": perf_counter() - begun[0], "processor_seconds": process_time() - begun[1]}
        file.write(json.dumps({**job.timings(), WHOLE: took}, indent=1).encode() + b"\n")
    job.finish()
    return Run(folder, statement)


def _replaced(suite: Suite, families: Mapping[str, str | Path]) -> dict[str, Path]:
    families_of: Any = getattr(suite.settings, "families", ())
    known = [store for stores in families_of.values() for store in stores] if suite.kind == "truck" else families_of
    for name in families:
        if suite.kind not in ("walkforward", "truck", "staffing") or name not in known:
            raise InputError("--family", repr(name), f"a family of {suite.name}: {', '.join(known) or 'it has none'}")
    return {name: Path(path) for name, path in families.items()}


def _data(files: list[Any]) -> list[dict[str, Any]]:
    known = {f.name: {"name": f.name, "sha256": f.sha256, "bytes": f.bytes, "status": f.status} for f in files}
    return [known[name] for name in sorted(known)]


def _versions() -> dict[str, str]:
    names = ("ucsearch", "numpy", "numba")
    found = {name: version(name) for name in names}
    return {**found, "python": platform.python_version(), "platform": f"{platform.system()}-{platform.machine()}"}


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
