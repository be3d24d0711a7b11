"""What the direction suites share beside the walk: the declared selection, tables and checks.

Tables and checks are specifications; their figures are filled in from the rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from ucsearch.evaluation.job import Job
from ucsearch.evaluation.protocol import Protocol
from ucsearch.evaluation.selection import declare
from ucsearch.evaluation.suite import Suite
from ucsearch.evaluation.tables import cell_check

__all__ = ["count_checks", "counts", "declaration", "mean", "table"]

BEAMS = ("beam", "uc")
SAMPLING = ("rand-shoot", "cem", "rand-shoot-even", "cem-even")


def declaration(suite: Suite, job: Job, families: Mapping[str, str], candidate: Mapping[str, Any]) -> dict[str, Any]:
    """The selection record. These suites ask for no promotion, so what validation chose is declared, with its figures:
    the promotion gate's own selection judges certificates, which is not what is chosen here."""
    protocol = Protocol(
        suite=suite.name, seed=suite.seed, form="reward", metric="reward", utility="reward", families=dict(families),
        windows={"validation": 1, "test": 1}, gate=False,
    )  # fmt: skip
    text = hashlib.sha256(suite.text.encode()).hexdigest()
    return declare(protocol, candidate, card_sha256=job.identity["card_sha256"], suite_sha256=text)


def mean(name: str, source: str) -> dict[str, str]:
    """A column: the plain mean over the group's windows."""
    return {"name": name, "from": source, "how": "mean"}


def table(
    name: str,
    title: str,
    policies: Sequence[str],
    columns: Sequence[dict[str, str]],
    group: Sequence[str] = ("policy",),
) -> dict[str, Any]:
    """A table of the test windows of some policies, in their order."""
    return {
        "name": name,
        "title": title,
        "split": "test",
        "group": list(group),
        "where": {"policy": list(policies)},
        "order": list(policies),
        "columns": list(columns),
    }


def counts(policies: Sequence[str]) -> dict[str, Any]:
    """Least and most expansions of a series, so that a count can be checked for every one of them."""
    columns = [
        {"name": "Least", "from": "expansions", "how": "min"},
        {"name": "Most", "from": "expansions", "how": "max"},
        {"name": "Violations", "from": "violations", "how": "sum"},
    ]
    return table("counts", "Expansions per series, and violations", policies, columns)


def count_checks(beams: int | None, sampling: int | None, policies: Sequence[str]) -> list[dict[str, Any]]:
    """Expansions exactly as wanted in every series, and no violations."""
    out = []
    for wanted, names in ((beams, BEAMS), (sampling, SAMPLING)):
        for name in names if wanted is not None else ():
            for column in ("Least", "Most"):
                text = f"expansions of {name} per series, {column.lower()}"
                out.append(cell_check(text, "counts", [name], column, right=wanted or 0))
    return out + [cell_check(f"violations of {name}", "counts", [name], "Violations") for name in policies]
