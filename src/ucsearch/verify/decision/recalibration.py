"""Recalibration of members, done again: from the raw members and the sums of the archive to what was planned on."""

from __future__ import annotations

import math
from typing import Any

from ucsearch.verify.decision.problem import VARIANCE, mean_and_spread
from ucsearch.verify.read import Blobs, Malformed, read_blob
from ucsearch.verify.verdict import Record, expect, is_close, num, require, require_that

NOTE = "recalibrated by phase"
LEAST_PATHS = 8
COUNTS = ("n_w", "zeros", "n_p", "n_rw", "n_rp")


def verify_recalibration(r: Record, blobs: Blobs) -> None:
    """The members of the trace are those that the recorded correction makes of the raw ones."""
    part, trace = r.get("recalibration"), r["inputs"]["trace"]
    notes = [note for note in trace["meta"]["notes"] if note.startswith(NOTE)]
    require("recalibration", (part is not None) == bool(notes), part is not None, bool(notes))
    if part is None:
        return
    where = "recalibration."
    note = f"{NOTE}, {part['method']}, season {part['season']}, {part['cycles']} cycles"
    expect(where + "method", notes, [note])
    require(where + "season", part["season"] > 1 and part["cycles"] >= 1, part["season"], "more than 1")
    raw_shape, _, raw = read_blob(part["members"]["$blob"], blobs)
    weight_shape, _, weights = read_blob(part["weights"]["$blob"], blobs)
    shape, _, members = read_blob(trace["members"]["$blob"], blobs)
    planned_weights = read_blob(trace["weights"]["$blob"], blobs)[2]
    if (
        len(raw_shape) != 4
        or not raw_shape[0] == raw_shape[3] == 1 <= raw_shape[2]
        or weight_shape != (1, raw_shape[1])
    ):
        raise Malformed(f"recalibration.members: the shapes {raw_shape} and {weight_shape} are no window's")
    size, steps = raw_shape[1], raw_shape[2]
    require_that(where + "members", size > 0 and all(map(math.isfinite, (*raw, *weights))), "are not all finite")
    require(where + "weights", all(w > 0.0 for w in weights) and is_close(math.fsum(weights), 1.0), weights, "shares")
    rows = [raw[j * steps : (j + 1) * steps] for j in range(size)]
    mean = [mean_and_spread([row[h] for row in rows], weights, VARIANCE)[0] for h in range(steps)]
    floor = num(part["floor"])
    if part["method"] == "paths":
        paths = _paths(part, mean, floor, blobs)
    else:
        b, c = _factors(part, steps)
        paths = [
            (*(max((mean[h] + b[h]) + c[h] * (row[h] - mean[h]), floor) + 0.0 for h in range(steps)), weights[j])
            for j, row in enumerate(rows)
        ]
    expect("inputs.trace.members", list(shape), [1, len(paths), steps, 1])
    expect("inputs.trace.weights", len(planned_weights), len(paths))
    planned = [(*members[j * steps : (j + 1) * steps], planned_weights[j]) for j in range(len(paths))]
    for j, (recorded, derived) in enumerate(zip(planned, sorted(paths), strict=True)):
        same = recorded[:-1] == derived[:-1] and is_close(recorded[-1], derived[-1])
        require(f"inputs.trace.members[{j}]", same, list(recorded), list(derived))


def _paths(part: Record, mean: list[float], floor: float, blobs: Blobs) -> list[tuple[float, ...]]:
    if "errors" not in part or any(name in part for name in ("b", "c", "sums")):
        raise Malformed("recalibration: paths have errors, and no b, c or sums")
    shape, _, errors = read_blob(part["errors"]["$blob"], blobs)
    steps = len(mean)
    if len(shape) != 2 or shape[1] != steps:
        raise Malformed(f"recalibration.errors: the shape {shape} has other steps than the members")
    fair = LEAST_PATHS <= shape[0] <= part["cycles"] and all(map(math.isfinite, errors))
    require("recalibration.errors", fair, shape[0], f"{LEAST_PATHS} to {part['cycles']} finite paths")
    rows = [errors[j * steps : (j + 1) * steps] for j in range(shape[0])]
    return [(*(max(mean[h] + row[h], floor) + 0.0 for h in range(steps)), 1.0 / shape[0]) for row in rows]


def _factors(part: Record, steps: int) -> tuple[list[float], list[float]]:
    """b and c of every step, from the sums."""
    if "errors" in part or not all(name in part for name in ("b", "c", "sums")):
        raise Malformed("recalibration: rolling has b, c and sums, and no errors")
    sums = part["sums"]
    if any(len(x) != steps for x in (part["b"], part["c"], *sums.values())):
        raise Malformed(f"recalibration: b, c and sums must have {steps} steps")
    b, c = [], []
    for h in range(steps):
        s: Any = {name: float(row[h]) for name, row in sums.items()}
        counted = all(s[n] == int(s[n]) >= 0 for n in COUNTS) and s["r_w"] >= 0.0 and s["r_p"] >= 0.0
        nested = s["n_rp"] <= s["n_p"] <= s["n_w"] and s["n_rp"] <= s["n_rw"] <= s["n_w"] and s["zeros"] <= s["n_w"]
        within = s["n_p"] <= part["cycles"] and s["n_w"] <= part["cycles"] * part["season"]
        require(f"recalibration.sums[{h}]", counted and nested and within, s, "counts that fit each other")
        pooled = s["e_w"] / (s["n_w"] + 20.0)
        b.append((s["e_p"] + 4.0 * pooled) / (s["n_p"] + 4.0))
        ratio = (s["r_w"] + 200.0) / (s["n_rw"] + 200.0)
        scale = min(max((s["r_p"] + 8.0 * ratio) / (s["n_rp"] + 8.0), 0.2), 5.0)
        often_zero = s["n_w"] > 0 and s["zeros"] >= 0.3 * s["n_w"]
        c.append(scale if part["scale"] and not often_zero else 1.0)
        expect(f"recalibration.b[{h}]", float(part["b"][h]), b[h])
        expect(f"recalibration.c[{h}]", float(part["c"][h]), c[h])
    return b, c
