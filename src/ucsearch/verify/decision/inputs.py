"""Task, state, trace and settings of a decision, and the problem they pose; how its members were recalibrated."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from typing import Any

from ucsearch.verify.decision.problem import (
    CLOSED,
    CVAR,
    MEMBERS,
    SCORES,
    VARIANCE,
    RecordedProblem,
    mean_and_spread,
    shape,
)
from ucsearch.verify.identity import rules_digest
from ucsearch.verify.read import Blobs, Malformed, read_blob
from ucsearch.verify.verdict import Invalid, Record, action_of, expect, is_close, num, require, require_that

LARGEST_COUNT = 2**31  # of a parameter that is a whole number
POLICIES = {
    "UCBeam": ("beam", 0), "ParetoBeam": ("beam", 1), "CertifiedBeam": ("beam", 2), "ConstrainedBeam": ("beam", 2),
    "Exact": ("exact", 0), "MCTS": ("mcts", 0),
}  # fmt: skip
UNUSED = {
    "beam": ("node_budget", "every_action", "simulations", "c_uct"), "exact": ("simulations", "c_uct"),
    "closed": ("simulations", "c_uct", "use_bound"),
    "mcts": ("node_budget", "every_action"),
}  # fmt: skip
USED = {"exact": "node_budget", "closed": "node_budget", "mcts": "simulations"}
OPTIONAL = ("protect", "near_equal", "band", "utility_budget")
AT_LEAST = {
    "depth": 1, "width": 1, "top_k": 1, "risk": 0, "prune_risk": 0, "info_bonus": 0, "c_uct": 0, "eps_m": 0,
    "near_equal": 0, "band": 0, "utility_budget": 0, "proof_budget": 1,
}  # fmt: skip


def problem_of(r: Record, blobs: Blobs, task: Any) -> RecordedProblem:
    state, params, actions = rules_of(r, task)
    p = RecordedProblem(task, r["settings"], state, params, actions, _trace(r, blobs, task))
    _settings(r, p)
    return p


def rules_of(r: Record, task: Any) -> tuple[Any, Any, list[Any]]:
    """State, parameters and actions (numbers or tuples), NaN where unavailable."""
    t, inputs = r["task"], r["inputs"]
    actions = [action_of(a) for a in t["actions"]]
    for name in ("name", "version"):
        expect(f"task.{name}", t[name], getattr(task, name))
    _identity(t, task)
    if r["kind"] != "refusal" or actions:  # a refusal may have come before its actions were known
        expect("task.actions", len(actions), len(task.actions))
    there = [a for a in actions if a == a]
    is_alike = len({len(a) if isinstance(a, tuple) else 0 for a in there}) < 2
    require("task.actions", is_alike and there == sorted(set(there)), t["actions"], "ascending values")
    expect("task.labels", t["labels"], [task.label(i, a) for i, a in enumerate(actions)])
    expect("inputs.state_lengths", len(inputs["state_lengths"]), len(task.state._fields))
    expect("inputs.params_lengths", inputs["params_lengths"], shape(task.params or ()))
    state = _named_tuple("state", task.state, inputs)
    return state, _named_tuple("params", None if task.params is None else type(task.params), inputs), actions


def _identity(t: Record, task: Any) -> None:
    """The rules at hand are those that were recorded."""
    try:
        digest = rules_digest(task)
    except MemoryError:
        raise
    except Exception as error:
        raise Invalid("task.rules", t["rules"], f"{error}") from None
    expect("task.rules", t["rules"], digest)


def _named_tuple(name: str, kind: Any, inputs: Record) -> Any:
    row, lengths = inputs[name], inputs[f"{name}_lengths"]
    expect(f"inputs.{name}", len(row), sum(max(1, n) for n in lengths))
    values = iter(float(x) + 0.0 for x in row)  # one zero: -0.0 becomes 0.0
    items = [tuple(next(values) for _ in range(n)) if n else next(values) for n in lengths]
    if kind is None:
        return None
    notes = inspect.get_annotations(kind) if name == "params" else {}
    return kind(*(_counts(x) if _is_whole(notes.get(f)) else x for f, x in zip(kind._fields, items, strict=True)))


def _is_whole(note: Any) -> bool:
    """Whether a parameter is annotated as `int`, or as a tuple of them: rules are given whole numbers then."""
    text = getattr(note, "__forward_arg__", note)  # as a named tuple wraps texts
    return text in (int, "int") or str(text).startswith("tuple[int")


def _counts(value: Any) -> Any:
    whole = all(abs(x) < LARGEST_COUNT and x == int(x) for x in (value if isinstance(value, tuple) else (value,)))
    require("inputs.params", whole, value, "whole numbers")
    return tuple(map(int, value)) if isinstance(value, tuple) else int(value)


def _trace(r: Record, blobs: Blobs, task: Any) -> tuple[Any, ...]:
    """Members (J, H), weights (J,), mean (H,), q and u (H, m) as lists of outcomes and numbers."""
    t, s, shapes, flat = r["inputs"]["trace"], r["settings"], {}, {}
    sha = hashlib.sha256(b"ucsearch.trace.v1\0")
    sha.update(json.dumps(t["meta"], separators=(",", ":")).encode())  # canonical, so its keys are sorted
    for name in ("members", "weights", "mean", "q", "u"):
        shapes[name], raw, flat[name] = read_blob(t[name]["$blob"], blobs)
        sha.update(f"\0{','.join(map(str, shapes[name]))}\0".encode() + raw)
    if "node" in t:
        shape_of, raw, _ = read_blob(t["node"]["$blob"], blobs)
        sha.update(f"\0{','.join(map(str, shape_of))}\0".encode() + raw)
    expect("inputs.trace.hash", t["hash"], sha.hexdigest())
    if [len(x) for x in shapes.values()] != [4, 2, 3, 3, 3]:
        raise Malformed(f"inputs.trace: the shapes {shapes} have other dimensions")
    (_, size, horizon, fields), (*_, width) = shapes["members"], shapes["q"]
    scores, n = s["mode"] == SCORES, 1 if task.outcome is None else len(task.outcome._fields)
    expected = [(1, size, horizon, fields), (1, size), (1, horizon, fields), (1, horizon, width), (1, horizon, width)]
    fits = (size, width) == (0, len(r["task"]["actions"])) if scores else size > 0 and width == 0
    if list(shapes.values()) != expected or not fits or not (fields == n or (scores and fields == 1)):
        raise Malformed(f"inputs.trace: the shapes {shapes} do not fit each other, the mode or the task")
    require("settings.depth", s["depth"] <= horizon, s["depth"], f"at most {horizon}")
    goes_on = s["mode"] == MEMBERS and bool(task.continuations)
    expect("settings.reach", s["reach"], horizon if goes_on else s["depth"])
    numbers = [*flat["members"], *flat["weights"], *flat["q"], *flat["u"], *(() if scores else flat["mean"])]
    require_that("inputs.trace", all(map(math.isfinite, numbers)), "holds numbers that are not finite")
    require_that("inputs.trace.u", all(x >= 0.0 for x in flat["u"]), "holds an uncertainty below 0")
    weights, row = list(flat["weights"]), horizon * fields
    members = [flat["members"][j * row : (j + 1) * row] for j in range(size)]
    if not scores:
        fair = all(w > 0.0 for w in weights) and is_close(math.fsum(weights), 1.0)
        require("inputs.trace.weights", fair, weights, "positive shares of 1")
        keys = [(*y, weights[j]) for j, y in enumerate(members)]
        require_that("inputs.trace.members", keys == sorted(keys), "the members are not in ascending order")
        mean = [mean_and_spread([y[i] for y in members], weights, VARIANCE)[0] for i in range(row)]
        require("inputs.trace.mean", list(flat["mean"]) == mean, flat["mean"], mean)

    def outcomes(values: tuple[float, ...]) -> list[Any]:
        steps = [values[h * fields : (h + 1) * fields] for h in range(horizon)]
        return [y[0] if task.outcome is None else task.outcome(*(y if fields == n else y * n)) for y in steps]

    q, u = ([flat[name][h * width : (h + 1) * width] for h in range(horizon)] for name in ("q", "u"))
    return [outcomes(y) for y in members], weights, outcomes(flat["mean"]), q, u


def _settings(r: Record, p: RecordedProblem) -> None:
    """A policy's settings hang together; what it does not use is left at nothing."""
    s, m = r["settings"], len(p.actions)
    closed = s["mode"] == CLOSED
    expect("settings.kind", s["kind"] == "closed_exact", closed)
    require("settings.spread", s["spread"] != CVAR or s["mode"] in (MEMBERS, CLOSED), s["spread"], "another spread")
    require("settings.spread", s["spread"] == CVAR or not closed, s["spread"], "cvar, the only one of policies")
    require("settings.tail", 0 < s.get("tail", 0.2) <= 1, s.get("tail"), "in (0, 1]")
    algorithm = ("closed", 0) if closed and s["policy"] == "Exact" else POLICIES.get(s["policy"])
    free = algorithm is None and s["algorithm"] not in UNUSED  # another planner: its paths are witnesses, no more
    expect("settings.algorithm", (s["algorithm"], s["keep"]), (s["algorithm"], 0) if free else algorithm)
    optional = {"CertifiedBeam": OPTIONAL[:1], "ConstrainedBeam": OPTIONAL}.get(s["policy"], ())
    expect("settings.policy", tuple(name for name in OPTIONAL if name in s), optional)
    for name in ("kind", "eps_m"):
        expect(f"settings.{name}", s[name], r["claim"][name])
    for name, low in AT_LEAST.items():
        require(f"settings.{name}", num(s.get(name, low)) >= low, s.get(name), f"at least {low}")
    require("settings.discount", 0 < s["discount"] <= 1, s["discount"], "in (0, 1]")
    require("settings.top_k", s["top_k"] <= m, s["top_k"], f"at most {m}")
    require("settings.width", s["keep"] < 2 or s["width"] >= s["top_k"], s["width"], f"at least {s['top_k']}")
    tame = s["mode"] not in (MEMBERS, CLOSED) or s["spread"] < 2 or s["risk"] <= 1
    require("settings.risk", tame, s["risk"], "at most 1")
    require("settings.use_bound", p.has_bound or not s["use_bound"], s["use_bound"], "no bound")
    for name in () if free else UNUSED[s["algorithm"]]:
        expect(f"settings.{name}", s[name], 0)
    if needed := USED.get(s["algorithm"]):
        require(f"settings.{needed}", s[needed] >= 1, s[needed], "at least 1")
    require_that("settings.extra_i", free or not (s["extra_i"] or s["extra_f"]), "this policy has no extra settings")
    require("settings.width", s["algorithm"] == "beam" or s["width"] == 1, s["width"], 1)


# -------------------------------------------------------------------- recalibration of members, done again

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
