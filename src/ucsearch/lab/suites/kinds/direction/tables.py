"""What the direction suites share beside the walk: tables, checks, and the choice that validation makes.

Tables and checks are specifications; their figures are filled in from the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ucsearch.lab.suites.evidence.rows import Row
from ucsearch.lab.suites.evidence.tables import cell_check, column, table
from ucsearch.lab.suites.protocol.expected_rows import budget_problems, place_of
from ucsearch.lab.suites.recheck.differences import Discrepancy, differences
from ucsearch.replay.statistics import mean as mean_of

__all__ = ["choice_problems", "count_checks", "counts", "shown"]

BEAMS = ("beam", "uc")
SAMPLING = ("rand-shoot", "cem", "rand-shoot-even", "cem-even")


def shown(
    name: str, title: str, policies: Sequence[str], columns: Sequence[dict[str, Any]],
    group: Sequence[str] = ("policy",),
) -> dict[str, Any]:  # fmt: skip
    """A table of the test windows of some policies, in their order."""
    return table(name, title, group, columns, policies, only=policies)


def counts(policies: Sequence[str]) -> dict[str, Any]:
    """Least and most expansions of a series, so that a count can be checked for every one of them."""
    columns = [
        column("Least", "expansions", "min"),
        column("Most", "expansions", "max"),
        column("Violations", "violations", "sum"),
    ]
    return shown("counts", "Expansions per series, and violations", policies, columns)


def count_checks(beams: int | None, sampling: int | None, policies: Sequence[str]) -> list[dict[str, Any]]:
    """Expansions exactly as wanted in every series, and no violations."""
    out = []
    for wanted, names in ((beams, BEAMS), (sampling, SAMPLING)):
        for name in names if wanted is not None else ():
            for end in ("Least", "Most"):
                text = f"expansions of {name} per series, {end.lower()}"
                out.append(cell_check(text, "counts", [name], end, right=wanted or 0))
    return out + [cell_check(f"violations of {name}", "counts", [name], "Violations") for name in policies]


def choice_problems(
    rows: Sequence[Row], selection: Mapping[str, Any], figure: tuple[str, str, str], budget: int,
    best: Callable[[dict[str, float]], tuple[str, float]],
) -> Iterator[Discrepancy]:  # fmt: skip
    """Whether what was declared follows from validation. `figure`: policy and metric that are compared, and the member
    of the record that holds them; `budget`: plans times steps of a sampler's decision; `best`: id and risk of the best
    candidate."""
    settings = selection["candidates"][0]["settings"]
    policy, metric, member = figure
    validation = [row for row in rows if row["split"] == "validation"]
    names = sorted({name for row in validation for name in row.get("candidates") or {}})
    figures = {n: mean_of([row["candidates"][n]["policies"][policy][metric] for row in validation]) for n in names}
    where = "selection.json.candidates[0].settings"
    yield from differences(settings.get(member), figures, f"{where}.{member}")
    if not figures:
        return
    name, risk = best(figures)
    yield from differences(settings.get("id"), name, f"{where}.id")
    yield from differences(settings.get("risk"), risk, f"{where}.risk")
    for row in rows:
        if row["split"] == "test":
            for sampler in ("cem", "rand-shoot"):
                yield from budget_problems(
                    row["policies"], sampler, budget * row["decisions"], f"rows.jsonl {place_of(row)}"
                )
