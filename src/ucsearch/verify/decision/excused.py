"""Decisions whose search cannot be derived again, by their own word: the final check refused what it found, or the time
budget ended it.

Such a word is believed only because nothing is released under it. What is checked is the rest: task, inputs and law,
claims that follow from the recorded figures, the gate's rows, and the fallback, asked again.
"""

from __future__ import annotations

import math
from typing import Any

from ucsearch.verify.decision.gate import FINAL_CHECK, IN_TIME, certificate, gate_and_outcome
from ucsearch.verify.decision.problem import Problem
from ucsearch.verify.figures import Record, expect, num, require

NOTES = {
    FINAL_CHECK: "not released by the final check: the figures of its search are the record's own",
    IN_TIME: "the time budget ended the search: there is nothing to derive again",
}
_PATH = ("score", "reward", "uncertainty", "size")  # of a retained path


def excuse_of(r: Record) -> str:
    """The row by which a record says so; "" for all others."""
    return next((row["name"] for row in r["gate"]["rows"] if row["name"] in NOTES), "")


def verify_excused(r: Record, p: Problem) -> list[str]:
    """Raises at the first false claim."""
    c = r["claim"]
    if excuse_of(r) == IN_TIME:
        _nothing_found(r)
    _rivals(r, p)
    recorded = {rival["index"]: rival for rival in r["rivals"]}
    searched = {i: (num(rival["score"]), num(rival["size"])) for i, rival in recorded.items()}
    claimed = certificate(r, recorded, searched, c["action_index"], p.eps)
    for name, value in claimed.items():
        if name in c and (name != "search_pass" or not recorded):  # before protection other paths were retained
            expect(f"claim.{name}", c[name], value)
    for k, i in enumerate(recorded):
        expect(f"rivals[{k}].release_margin", recorded[i]["release_margin"], claimed["margins"][i])
    facts = {"member_feasible": num(c["member_feasible"]), "structured": True, "within": True}
    gate_and_outcome(r, p, False, False, None, {**claimed, **facts}, {**claimed, **facts})
    return []


def _nothing_found(r: Record) -> None:
    """A search that was ended says nothing, and took longer than it might."""
    c, limit = r["claim"], num(r["gate"]["settings"]["time_budget_s"])
    elapsed = num(r["gate"]["elapsed_s"])
    require("gate.elapsed_s", limit == limit and not elapsed <= limit, elapsed, f"more than the time budget of {limit}")
    expect("rivals", r["rivals"], [])
    expect("claim.member_feasible", c["member_feasible"], math.nan)
    for name, count in c["counters"].items():
        expect(f"claim.counters.{name}", count, 0)
    for name in ("states", "transitions"):
        expect(f"claim.{name}", c.get(name, 0), 0)
    for name in ("open_value", "flexibility"):
        expect(f"claim.{name}", c.get(name), math.nan)


def _rivals(r: Record, p: Problem) -> None:
    """Their form: places, labels, and a whole path with its figures where one was retained."""
    last = -1
    for k, rival in enumerate(r["rivals"]):
        where, i = f"rivals[{k}]", rival["index"]
        require(f"{where}.index", last < i < len(p.actions), i, "a place among the actions, in ascending order")
        last = i
        expect(f"{where}.action", rival["action"], p.actions[i])
        expect(f"{where}.label", rival["label"], r["task"]["labels"][i])
        kept, path = rival["retained"], rival["path"]
        require(f"{where}.path", not kept or _is_path(path, i, p), path, f"{p.depth} places that begin with {i}")
        for name in _PATH:
            require(f"{where}.{name}", (rival[name] is not None) == kept, rival[name], "a number iff retained")


def _is_path(path: list[int], first: int, p: Problem) -> bool:
    known: list[Any] = [i for i in path if i < len(p.actions)]
    return path[:1] == [first] and len(known) == len(path) == p.depth
