"""The rows that a suite's evidence must hold: families, series, windows, decisions, candidates and policies.

A kind says so in the method `plan` of its settings; `row_problems` compares rows with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ucsearch.lab.suites.evidence.rows import Row
from ucsearch.lab.suites.protocol.comparison import is_sampler
from ucsearch.lab.suites.recheck.differences import Discrepancy, differences

__all__ = ["Expected", "RowPlan", "both_splits", "budget_problems", "place_of", "row_problems"]

Table = Mapping[str, Any]
Expected = int | tuple[str, ...] | None
"""How many series, or which; None where only the data can say."""

SPENT = 0.95
"""Of its budget a sampler must have spent so much: plans that end in a dead end cost less than they might."""


@dataclass(frozen=True)
class RowPlan:
    """What a suite's rows must be."""

    series: Mapping[str, Mapping[str, Expected]]  # by split and family
    windows: Mapping[str, int]  # of each series, by split
    decisions: Mapping[str, int | None]  # of each window, by split
    candidates: Mapping[str, Table] | None = None  # members by id; None: nothing is declared to choose from
    policies: Mapping[str, frozenset[str]] = field(default_factory=dict)  # by split; a candidate's under "candidate"
    exactly: bool = True  # no other policies than these
    sampled: int = 0  # decisions drawn for the verifier where windows are certified
    same_series: bool = False  # validation and test are cut from the same series
    truncated: bool = False  # periods are counted from the latest values, not from the first
    few: int | None = None  # series of each family on which samplers run; None: all


def both_splits(series: Mapping[str, Expected], decisions: int, policies: Sequence[str]) -> RowPlan:
    """The plan of a suite whose validation and test are one window each, of the same series and policies."""
    splits = ("validation", "test")
    return RowPlan(
        series=dict.fromkeys(splits, series), windows=dict.fromkeys(splits, 1),
        decisions=dict.fromkeys(splits, decisions), policies=dict.fromkeys(splits, frozenset(policies)),
        same_series=True,
    )  # fmt: skip


# -------------------------------------------------------------------- rows


def row_problems(plan: RowPlan, rows: Sequence[Row], *, opened: bool) -> Iterator[Discrepancy]:
    """What rows lack or have too much of. `opened`: whether there must be rows of the test split."""
    where = "rows.jsonl"
    rows_of: dict[str, dict[str, dict[str, list[Row]]]] = {}
    for row in rows:
        rows_of.setdefault(row["split"], {}).setdefault(row["family"], {}).setdefault(row["series"], []).append(row)
    splits = [split for split in plan.series if split != "test" or opened]
    yield from differences(sorted(rows_of), sorted(splits), f"{where} splits")
    for split in splits:
        families = rows_of.get(split, {})
        yield from differences(sorted(families), sorted(plan.series[split]), f"{where} families of {split}")
        for family, series in sorted(families.items()):
            place = f"{where} {split} {family}"
            declared = plan.series[split].get(family)
            if isinstance(declared, int):
                yield from differences(len(series), declared, f"{place} series")
            elif declared is not None:
                yield from differences(sorted(series), sorted(declared), f"{place} series")
            sampled = set(_first(list(series), plan.few))
            for series_id, windows in sorted(series.items()):
                yield from _windows(plan, split, windows, f"{place} {series_id}", series_id in sampled)
    if plan.same_series and opened:
        for family in sorted({*rows_of.get("validation", {}), *rows_of.get("test", {})}):
            both = [sorted(rows_of.get(split, {}).get(family, {})) for split in ("validation", "test")]
            if both[0] != both[1]:
                odd = sorted(set(both[0]) ^ set(both[1]))[0]
                yield Discrepancy(
                    f"{where} {family}", f"{odd} in one of validation and test", "the same series in both"
                )


def _first(ids: Sequence[str], count: int | None) -> Sequence[str]:
    """The series that samplers run on: the first by a hash of their id."""
    ordered = sorted(ids, key=lambda one: hashlib.sha256(f"ucsearch/{one}".encode()).digest())
    return ordered if count is None else ordered[:count]


def _windows(
    plan: RowPlan, split: str, windows: Sequence[Row], where: str, sampled: bool = True
) -> Iterator[Discrepancy]:
    yield from differences(len(windows), plan.windows[split], f"{where} windows")
    ordered = sorted(windows, key=lambda row: int(row["window"]))
    decisions = plan.decisions[split]
    for i, row in enumerate(ordered):
        place = f"{where} window {row['window']}"
        yield from differences(row.get("decisions"), decisions, f"{place} decisions")
        if i and decisions is not None:
            # Windows follow each other, so that nobody skips a bad stretch between them.
            yield from differences(row.get("start"), (ordered[i - 1].get("start") or 0) + decisions, f"{place} start")
        if split in plan.policies:
            expected = frozenset(name for name in plan.policies[split] if sampled or not is_sampler(name))
            yield from _names(row.get("policies"), expected, plan.exactly, f"{place} policies")
        if split == "validation" and plan.candidates is not None:
            candidates = row.get("candidates") or {}
            yield from _names(candidates, frozenset(plan.candidates), True, f"{place} candidates")
            for name in sorted(candidates) if "candidate" in plan.policies else ():
                compared = (candidates[name] or {}).get("policies")
                yield from _names(compared, plan.policies["candidate"], True, f"{place} candidates.{name}")


def _names(named: Any, expected: frozenset[str], exactly: bool, where: str) -> Iterator[Discrepancy]:
    names = set(named or {})
    missing, strange = sorted(expected - names), sorted(names - expected)
    if missing:
        yield Discrepancy(where, f"nothing of {', '.join(missing)}", "declared by suite.toml")
    if strange and exactly:
        yield Discrepancy(where, ", ".join(strange), "nothing of it in suite.toml")


def budget_problems(policies: Mapping[str, Any], name: str, budget: float, where: str) -> Iterator[Discrepancy]:
    """Whether a policy spent what it was given; `where` is the row."""
    spent = (policies.get(name) or {}).get("expansions")
    if not (isinstance(spent, (int, float)) and SPENT * budget <= spent <= budget):
        yield Discrepancy(f"{where} {name}.expansions", repr(spent), f"a budget of {budget:g}, spent")


def place_of(row: Row) -> str:
    """Which row it is, for people."""
    return f"{row['split']} {row['family']} {row['series']} window {row['window']}"
