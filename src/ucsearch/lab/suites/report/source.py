"""What a report is made of: the evidence folders under a directory, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ucsearch.errors import InputError
from ucsearch.lab.suites.evidence.manifest import find_evidence
from ucsearch.lab.suites.evidence.rows import UC, EvidenceError
from ucsearch.lab.suites.protocol.comparison import COMPARATORS
from ucsearch.lab.suites.recheck.verify import verify_evidence

__all__ = ["REFERENCES", "Evidence", "load"]

FIRST = (UC, *COMPARATORS)
"""Policies that come first wherever policies are listed: ours and those the gate compares with."""

REFERENCES = ("oracle", "hindsight")
"""Policies that know what will happen: they show what was possible, nobody competes with them."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """One suite's evidence."""

    folder: Path
    statement: Mapping[str, Any]  # manifest.json as it is
    rows: tuple[Mapping[str, Any], ...]  # one per window
    selection: Mapping[str, Any] | None = None  # selection.json
    notes: tuple[str, ...] = ()  # what in it is not derived from rows

    @property
    def predicate(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.statement["predicate"]
        return found

    def get(self, key: str) -> Any:
        """A field of the predicate; None where it has none."""
        return self.predicate.get(key)

    @property
    def suite(self) -> str:
        return str(self.get("suite"))

    @property
    def verdict(self) -> Mapping[str, Any]:
        return dict(self.get("verdict") or {})

    @cached_property
    def split(self) -> str | None:
        """The split that results are shown for: the test split once it was opened."""
        splits = [str(r.get("split")) for r in self.rows if r.get("policies")]
        return "test" if "test" in splits else min(splits) if splits else None

    @cached_property
    def shown(self) -> tuple[Mapping[str, Any], ...]:
        """The rows of that split."""
        return tuple(r for r in self.rows if r.get("policies") and str(r.get("split")) == self.split)

    @cached_property
    def policies(self) -> tuple[str, ...]:
        """All policies of the rows shown: ours and the gate's comparators first, those with foresight last.

        Entries without a cost or reward are no policies but something measured beside them, such as a forecaster.
        """
        names = {name for r in self.shown for name, of in r["policies"].items() if of.get(self.metric) is not None}
        place = {name: i for i, name in enumerate(FIRST)} | dict.fromkeys(REFERENCES, len(FIRST) + 1)
        return tuple(sorted(names, key=lambda n: (place.get(n, len(FIRST)), n)))

    @cached_property
    def judged(self) -> str | None:
        """The policy that others are compared with."""
        return next((p for p in self.policies if p == UC or p.startswith(f"{UC}-")), None)

    @cached_property
    def families(self) -> tuple[str, ...]:
        return tuple(sorted({str(r["family"]) for r in self.shown}))

    @cached_property
    def form(self) -> str:
        """Whether results are costs or rewards."""
        if self.protocol.get("form") in ("cost", "reward"):
            return str(self.protocol["form"])
        return "cost" if any("cost" in p for r in self.shown for p in r["policies"].values()) else "reward"

    @property
    def metric(self) -> str:
        """The figure that policies are compared by."""
        return str(self.protocol.get("metric") or self.form)

    @property
    def protocol(self) -> Mapping[str, Any]:
        found = self.get("protocol")
        return found if isinstance(found, Mapping) else {}

    @property
    def seed(self) -> int:
        """Of the bootstraps."""
        found = self.protocol.get("seed", (self.get("settings") or {}).get("seed", 0))
        return found if isinstance(found, int) else 0

    @property
    def is_shipped(self) -> bool:
        """Whether the suite comes with the package, so that its name is enough to run it."""
        from ucsearch.lab.suites.suite import suite_names

        return self.suite in suite_names()


def load(directory: Path) -> list[Evidence]:
    """All evidence at or below a folder, in order of its place, every figure derived from the rows again.

    A report of figures that do not follow from their rows would only spread them, so one false or malformed folder is
    an error that names it. Sampled decisions are left to `ucsearch evidence verify`.
    """
    if not directory.is_dir():
        raise InputError("DIR", str(directory), "a folder that exists")
    folders = [directory] if (directory / "manifest.json").is_file() else find_evidence(directory)
    if not folders:
        raise InputError("DIR", str(directory), "a folder with evidence (manifest.json), or a folder of such folders")
    found = []
    for folder in folders:
        checked = verify_evidence(folder, decisions=0)
        if not checked.ok or checked.evidence is None:
            raise EvidenceError(f"{folder}: {checked.malformed or checked.problems[0]}; no report was written")
        evidence = checked.evidence
        notes = tuple(note for note in checked.notes if not note.endswith("sampled decisions were verified"))
        found.append(Evidence(folder, evidence.statement, tuple(evidence.rows), evidence.selection, notes))
    return found
