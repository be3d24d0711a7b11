"""Candidates and budgets of a walk-forward selection, tied to the settings and to what the rows say was spent."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ucsearch.lab.suites.evidence.rows import Row
from ucsearch.lab.suites.protocol.comparison import COMPARATORS
from ucsearch.lab.suites.protocol.expected_rows import RowPlan, budget_problems, place_of
from ucsearch.lab.suites.recheck.differences import Discrepancy, differences
from ucsearch.tasks import TASKS

if TYPE_CHECKING:
    from ucsearch.lab.suites.kinds.walkforward.settings import WalkForwardSettings

__all__ = ["selection_problems"]

Record = Mapping[str, Any]


def selection_problems(settings: WalkForwardSettings, rows: Sequence[Row], selection: Record) -> Iterator[Discrepancy]:
    """What the selection record says of candidates and budgets, against the suite's settings and the rows."""
    plan = settings.plan()
    yield from _protocol(settings, plan, selection)
    yield from _candidates(plan, selection)
    yield from _samples(settings, rows, selection)
    yield from _value(settings, rows, selection)


def _protocol(settings: WalkForwardSettings, plan: RowPlan, selection: Record) -> Iterator[Discrepancy]:
    form = TASKS[settings.task["name"]].kind.form
    declared = {"gate": settings.gate, "policy": "uc", "utility": "utility", "windows": dict(plan.windows),
              "form": form, "metric": "cost" if form == "cost" else "utility"}  # fmt: skip
    protocol = selection["protocol"]
    yield from differences({name: protocol.get(name) for name in declared}, declared, "selection.json.protocol")
    yield from differences(selection["how"], "selected", "selection.json.how")
    if ("power" in selection) is not settings.power:
        yield Discrepancy("selection.json.power", "something else than suite.toml", "asked for by both or by neither")


def _candidates(plan: RowPlan, selection: Record) -> Iterator[Discrepancy]:
    recorded = {c["id"]: c["settings"] for c in selection["candidates"]}
    declared = plan.candidates or {}
    yield from differences(sorted(recorded), sorted(declared), "selection.json.candidates")
    for name in sorted(set(recorded) & set(declared)):
        members = {key: recorded[name].get(key) for key in declared[name]}
        yield from differences(members, dict(declared[name]), f"selection.json.candidates.{name}.settings")


def _samples(suite: WalkForwardSettings, rows: Sequence[Row], selection: Record) -> Iterator[Discrepancy]:
    """A sampler's plans per decision are the candidate's own nodes by its depth, and the rows must show them spent."""
    validation = [row for row in rows if row["split"] == "validation"]
    recorded = {c["id"]: c["settings"] for c in selection["candidates"]}
    for name, settings in sorted(recorded.items()):
        where = f"selection.json.candidates.{name}.settings"
        sides = [(row["candidates"].get(name) or {}).get("policies") or {} for row in validation]
        spent = math.fsum(_nodes(side.get("uc") or {}) for side in sides)
        decisions = math.fsum(row["decisions"] for row in validation)
        depth = settings["depth"]
        if settings.get("mode") == "closed":
            # A transition is of one outcome, a step of a sampler's plan of all members.
            spent = spent / suite.paths
        if decisions and math.isfinite(spent):
            yield from differences(settings.get("samples"), max(2, int(spent / decisions // depth)), f"{where}.samples")
        if not settings.get("samples_wide", 0) >= settings.get("samples", math.inf):
            yield Discrepancy(f"{where}.samples_wide", repr(settings.get("samples_wide")), "at least samples")
        if not suite.comparators.validation:
            continue
        for row, side in zip(validation, sides, strict=True):
            budget = settings["samples"] * depth * row["decisions"]
            for sampler in COMPARATORS:
                yield from budget_problems(side, sampler, budget, f"rows.jsonl {place_of(row)} candidates.{name}")
    chosen = recorded.get(selection["candidate"])
    if chosen is None:
        return
    for row in rows:
        if row["split"] != "test":
            continue
        each = chosen["depth"] * row["decisions"]
        if suite.comparators.series is not None and "cem" not in row["policies"]:
            continue  # whether it must be there, the plan says
        for sampler in (*COMPARATORS, *(["rand-shoot"] if "rand-shoot" in suite.comparators.others else [])):
            yield from budget_problems(
                row["policies"], sampler, chosen["samples"] * each, f"rows.jsonl {place_of(row)}"
            )
            wide = f"{sampler}-wide"
            if wide in row["policies"]:
                yield from budget_problems(
                    row["policies"], wide, chosen["samples_wide"] * each, f"rows.jsonl {place_of(row)}"
                )


def _value(suite: WalkForwardSettings, rows: Sequence[Row], selection: Record) -> Iterator[Discrepancy]:
    """Whom the value gate compares with, how hard they were tuned, and the samplers' plans at equal time."""
    declared, value = suite.value_gate, selection.get("value")
    if (declared is None) != (value is None):
        yield Discrepancy("selection.json.value", "something else than suite.toml", "asked for by both or by neither")
    if declared is None or value is None:
        return
    where = "selection.json.value"
    yield from differences(value["margin"], declared.margin, f"{where}.margin")
    endpoints = {name: practitioner.get("endpoint") for name, practitioner in value["practitioners"].items()}
    expected = {f"{name}-tuned": endpoint for name, endpoint in suite.practitioners.items()}
    yield from differences(endpoints, expected, f"{where}.practitioners")
    tries = declared.tries
    for name, practitioner in value["practitioners"].items():
        # Nobody was given more tries than declared; a rule with fewer settings has fewer.
        if not (isinstance(practitioner.get("tries"), int) and 1 <= practitioner["tries"] <= tries):
            yield Discrepancy(
                f"{where}.practitioners.{name}.tries", repr(practitioner.get("tries")), f"from 1 to {tries}"
            )
    chosen = next((c["settings"] for c in selection["candidates"] if c["id"] == value["candidate"]), None)
    if chosen is None:
        return
    for row in rows:
        if suite.comparators.series is not None and "cem-time" not in row["policies"]:
            continue
        budget = declared.time_samples * chosen["depth"] * row["decisions"]
        for sampler in COMPARATORS:
            yield from budget_problems(row["policies"], f"{sampler}-time", budget, f"rows.jsonl {place_of(row)}")


def _nodes(figures: Record) -> float:
    both = figures.get("expansions"), figures.get("oracle_nodes")
    return math.nan if None in both else float(both[0] or 0) + float(both[1] or 0)
