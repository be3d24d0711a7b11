"""What the direction suites share beside the walk: the declared selection, tables and checks.

Tables and checks are specifications; their figures are filled in from the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ucsearch.lab.suites.evidence.tables import cell_check
from ucsearch.lab.suites.job import Job
from ucsearch.lab.suites.kinds.declaring import declaration
from ucsearch.lab.suites.suite import Suite

__all__ = ["count_checks", "counts", "mean", "of_direction", "table"]

BEAMS = ("beam", "uc")
SAMPLING = ("rand-shoot", "cem", "rand-shoot-even", "cem-even")


def of_direction(suite: Suite, job: Job, families: Mapping[str, str], candidate: Mapping[str, Any]) -> dict[str, Any]:
    """The selection record."""
    windows = {"validation": 1, "test": 1}
    return declaration(
        suite, job, families, candidate, form="reward", metric="reward", utility="reward", windows=windows
    )


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
