"""Practitioners' rules in suites that ask the primary question: tuned on design series, tabled beside the policy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from ucsearch.lab.suites.evidence.tables import column, table
from ucsearch.lab.suites.gates.primary import Endpoint
from ucsearch.lab.suites.recheck.differences import Discrepancy, differences
from ucsearch.replay.panel import Panel
from ucsearch.replay.roster import Entry
from ucsearch.replay.tune import Grid, tune

__all__ = ["cost_tables", "question_problems", "tune_rules"]

WIDENINGS = 3  # times that a grid is widened where its best setting lies at an edge


def tune_rules(
    entries: Sequence[Entry], panel: Panel, engine: Literal["python", "compiled"], progress: Callable[[int, int], None]
) -> dict[str, Any]:
    """Every rule's cheapest setting on a panel of design series, its grid widened while the best lies at an edge."""
    settings: dict[str, Any] = {}
    for entry in entries:
        grid, tries = Grid(entry.knobs), 0
        for _ in range(WIDENINGS + 1):
            best = tune(entry, panel, grid.values, engine=engine)
            tries = len(best.trials)
            wider = grid.widened(best.knobs)
            if wider == grid:
                break
            grid = wider
        settings[entry.name] = {"settings": best.knobs, "tries": tries}
        progress(len(settings), len(entries))
    return settings


def question_problems(
    candidate: Mapping[str, Any], rules: frozenset[str], endpoint: Endpoint, delta: float, selection: Mapping[str, Any]
) -> Iterator[Discrepancy]:
    """What a selection record says of the policy, the rules and the question, against the suite's settings."""
    where = "selection.json"
    declared = selection["candidates"][0]["settings"]
    yield from differences({name: declared.get(name) for name in candidate}, dict(candidate), f"{where}.candidates[0]")
    value = selection.get("value") or {}
    asked = {"endpoint": value.get("endpoint"), "delta": value.get("delta"), "rules": sorted(value.get("rules") or {})}
    yield from differences(asked, {"endpoint": endpoint, "delta": delta, "rules": sorted(rules)}, f"{where}.value")


def cost_tables(
    policies: Sequence[str], of: str, by: str, more: Sequence[tuple[str, str]] = ()
) -> list[dict[str, Any]]:
    """Specifications: mean cost and broken rules by policy, and by family. `of` and `by` are words of the titles."""
    columns = [column("Cost", "cost"), *(column(name, source) for name, source in more)]
    columns.append(column("Violations", "violations", "sum"))
    return [
        table("policies", f"Cost of {of}", ["policy"], columns, policies),
        table("families", f"Cost of {by}", ["family", "policy"], columns, policies),
    ]
