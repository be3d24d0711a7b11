"""Task, state, trace and settings of a decision, and the problem they pose; overrides and refusals."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from ucsearch.verify.answers import fallback_now, feasible_now
from ucsearch.verify.formats import Blobs, Invalid, Malformed, Record, digest, expect, is_close, num, read_blob, require
from ucsearch.verify.monitor import verify_watching
from ucsearch.verify.replay import (
    CLOSED,
    CVAR,
    MEMBERS,
    SCORES,
    VARIANCE,
    Problem,
    mean_and_spread,
    shape,
)
from ucsearch.verify.schema import version_of
from ucsearch.verify.verdict import describe

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
FOREIGN = "task.source_hash"  # the doubt whether these are the recorded rules (see `is_foreign`)
AT_LEAST = {
    "depth": 1, "width": 1, "top_k": 1, "risk": 0, "prune_risk": 0, "info_bonus": 0, "c_uct": 0, "eps_m": 0,
    "near_equal": 0, "band": 0, "utility_budget": 0, "proof_budget": 1,
}  # fmt: skip


def problem_of(r: Record, blobs: Blobs, task: Any) -> Problem:
    state, params, actions = rules_of(r, task, lenient=True)
    p = Problem(task, r["settings"], state, params, actions, _trace(r, blobs, task))
    _settings(r, p)
    return p


def rules_of(r: Record, task: Any, lenient: bool = False) -> tuple[Any, Any, list[float]]:
    """State, parameters and actions, NaN where unavailable. `lenient`: the caller doubts a source that `is_foreign`."""
    t, inputs = r["task"], r["inputs"]
    actions = [num(a) for a in t["actions"]]
    for name in ("name", "version"):
        expect(f"task.{name}", t[name], getattr(task, name))
    if not (lenient and is_foreign(r, task)):
        _source(r, task)
    if r["kind"] != "refusal" or actions:  # a refusal may have come before its actions were known
        expect("task.actions", len(actions), len(task.actions))
    there = [a for a in actions if a == a]
    require("task.actions", there == sorted(set(there)), t["actions"], "ascending values")
    expect("task.labels", t["labels"], [task.label(i, a) for i, a in enumerate(actions)])
    expect("inputs.state_lengths", len(inputs["state_lengths"]), len(task.state._fields))
    expect("inputs.params_lengths", inputs["params_lengths"], shape(task.params or ()))
    state = _named_tuple("state", task.state, inputs)
    return state, _named_tuple("params", None if task.params is None else type(task.params), inputs), actions


def is_foreign(r: Record, task: Any) -> bool:
    """Whether nobody can say that these are the recorded rules: version 1 took a function without a text of its own (a
    lambda) by its byte code, and that was written by another version of Python."""
    by_code = version_of(dict(r)) == 1 and getattr(task, "has_code_in_v1", False)
    return by_code and not _same_python(r) and r["task"]["source_hash"] != task.source_hash_v1


def _same_python(r: Record) -> bool:
    return bool(r["versions"]["python"].split(".")[:2] == list(map(str, sys.version_info[:2])))


def _source(r: Record, task: Any) -> None:
    """The rules at hand are those that were recorded: by their code, or by their text in another version of Python."""
    t, name = r["task"], "source_hash"
    if version_of(dict(r)) == 1:
        name = "source_hash_v1" if hasattr(type(task), "source_hash_v1") else name
    elif not _same_python(r):
        name = "text_hash"
        require("task.text_hash", name in t, None, f"a hash of its text: it was recorded by {r['versions']['python']}")
    recorded = t["text_hash" if name == "text_hash" else "source_hash"]
    try:
        own = getattr(task, name)
    except MemoryError:
        raise
    except Exception as error:
        raise Invalid(f"task.{name}", recorded, f"{error}") from None
    expect(f"task.{name.removesuffix('_v1')}", recorded, own)


def _named_tuple(name: str, kind: Any, inputs: Record) -> Any:
    row, lengths = inputs[name], inputs[f"{name}_lengths"]
    expect(f"inputs.{name}", len(row), sum(max(1, n) for n in lengths))
    values = iter(float(x) + 0.0 for x in row)  # one zero: -0.0 becomes 0.0
    items = [tuple(next(values) for _ in range(n)) if n else next(values) for n in lengths]
    return None if kind is None else kind(*items)


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
    require("inputs.trace", all(map(math.isfinite, numbers)), "numbers", "some are not finite")
    require("inputs.trace.u", all(x >= 0.0 for x in flat["u"]), "uncertainties", "one below 0")
    weights, row = list(flat["weights"]), horizon * fields
    members = [flat["members"][j * row : (j + 1) * row] for j in range(size)]
    if not scores:
        fair = all(w > 0.0 for w in weights) and is_close(math.fsum(weights), 1.0)
        require("inputs.trace.weights", fair, weights, "positive shares of 1")
        keys = [(*y, weights[j]) for j, y in enumerate(members)]
        require("inputs.trace.members", keys == sorted(keys), "members", "not in ascending order")
        mean = [mean_and_spread([y[i] for y in members], weights, VARIANCE)[0] for i in range(row)]
        require("inputs.trace.mean", list(flat["mean"]) == mean, flat["mean"], mean)

    def outcomes(values: tuple[float, ...]) -> list[Any]:
        steps = [values[h * fields : (h + 1) * fields] for h in range(horizon)]
        return [y[0] if task.outcome is None else task.outcome(*(y if fields == n else y * n)) for y in steps]

    q, u = ([flat[name][h * width : (h + 1) * width] for h in range(horizon)] for name in ("q", "u"))
    return [outcomes(y) for y in members], weights, outcomes(flat["mean"]), q, u


def _settings(r: Record, p: Problem) -> None:
    """A policy's settings hang together; what it does not use is left at nothing."""
    s, m = r["settings"], len(p.actions)
    closed = s["mode"] == CLOSED
    expect("settings.kind", s["kind"] == "closed_exact", closed)
    require("settings.spread", s["spread"] != CVAR or s["mode"] in (MEMBERS, CLOSED), s["spread"], "another spread")
    require("settings.spread", s["spread"] == CVAR or not closed, s["spread"], "cvar, the only one of policies")
    require("settings.tail", 0 < s.get("tail", 0.2) <= 1, s.get("tail"), "in (0, 1]")
    known = ("closed", 0) if closed and s["policy"] == "Exact" else POLICIES.get(s["policy"])
    free = known is None and s["algorithm"] not in UNUSED  # another planner: its paths are witnesses, no more
    expect("settings.algorithm", (s["algorithm"], s["keep"]), (s["algorithm"], 0) if free else known)
    own = {"CertifiedBeam": OPTIONAL[:1], "ConstrainedBeam": OPTIONAL}.get(s["policy"], ())
    expect("settings.policy", tuple(name for name in OPTIONAL if name in s), own)
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
    require("settings.extra_i", free or not (s["extra_i"] or s["extra_f"]), "extra settings", "none")
    require("settings.width", s["algorithm"] == "beam" or s["width"] == 1, s["width"], 1)


def verify_override(r: Record, target: Record, body: bytes, task: Callable[[], Any]) -> str:
    """A person's replacement: of this decision, by somebody, for a reason, at a time, and allowed by the rules, or
    marked as forced. Returns what is to be said of it."""
    for name in ("who", "why"):
        require(f"override.{name}", r[name].strip() != "", r[name], "text")
    _dated("override.at", r["at"])
    _about("override", r, target, body)
    first = r["schema"] == "ucsearch.override/1"
    if r["action"] is None:  # withdrawn: what was recorded counts again
        expect("override.label", (r["label"], r["off_grid"], "forced" in r), ("", False, False))
        return ""
    if "inputs" not in target:
        raise Invalid("override.overrides", target["id"], f"a {target['kind']} whose state was not kept")
    rules = task()
    state, params, actions = rules_of(target, rules)
    action, labels = r["action"], target["task"]["labels"]
    if isinstance(action, str):  # by its label, in records of the first version
        require("override.action", labels.count(action) == 1, action, f"one of {labels}")
        action = actions[labels.index(action)]
    action = float(action)
    where = "override.feasible" if first else "override.action"
    low, high = rules.limits
    try:
        require(where, low <= action <= high or action in actions, action, f"an action from {low:g} to {high:g}")
        _allowed(where, rules, state, action, params)
        if not first:
            _of_the_unit(where, rules, target["inputs"]["state"], params, [a for a in actions if a == a], action)
        broken = ""
    except Invalid as error:
        if "forced" not in r:
            raise
        broken = str(error)
    require("override.forced", "forced" not in r or broken != "", True, "no mark: it breaks no rule")
    if not first:
        expect("override.off_grid", r["off_grid"], action not in actions)
        expect("override.label", r["label"], "" if action not in actions else labels[actions.index(action)])
    return f"forced by a person: {broken}" if broken else ""


def _of_the_unit(where: str, task: Any, state: list[Any], params: Any, offered: list[float], action: float) -> None:
    """A person's number has the unit and about the size of what was offered and of the state."""
    if action in offered:
        return
    numbers = [*offered, *(num(x) for x in state)]
    pack = getattr(params, task.pack) if getattr(task, "pack", "") else 0.0
    if pack > 0 and _multiples(offered, pack):
        require(where, _multiples([action], pack), action, f"whole packs of {pack:g}")
    elif getattr(task, "counted", False) and _multiples(numbers, 1.0):
        require(where, _multiples([action], 1.0), action, "whole units")
    largest = max((abs(x) for x in numbers if abs(x) < 1e18), default=0.0)
    require(where, largest == 0 or abs(action) <= 10 * largest, action, f"at most 10 times {largest:g}")


def _multiples(numbers: list[float], unit: float) -> bool:
    parts = [x / unit for x in numbers]
    return all(abs(x - round(x)) <= 1e-9 * max(1.0, abs(x)) for x in parts if math.isfinite(x))


def _allowed(where: str, task: Any, state: Any, action: float, params: Any) -> None:
    try:
        feasible = action == action and feasible_now(task, state, action, params)
    except (MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:
        raise Invalid(where, True, describe(error)) from None
    require(where, feasible, action, "an action that breaks the rules")


def _about(kind: str, r: Record, target: Record, body: bytes) -> None:
    expect(f"{kind}.digest", r["digest"], digest("audit-entry/1", body))
    expect(f"{kind}.series", r.get("series"), target["series"])


def _dated(where: str, text: str) -> None:
    try:
        moment = datetime.fromisoformat(text)
        dated = moment.utcoffset() is not None and moment.astimezone(UTC).year >= 1
    except (ValueError, OverflowError):
        dated = False
    require(where, dated, text, "a time with its offset from UTC")


def verify_refusal(r: Record, task: Callable[[], Any]) -> None:
    """A trace that was refused left no plan to derive, and nothing may leave; the fallback beside it is the
    task's own, where the state was kept. Version 1 sent it."""
    o = r["outcome"]
    if r["schema"] != "ucsearch.refusal/1":
        fallback, feasible = math.nan, False
        if "inputs" in r:
            rules = task()
            state, params, actions = rules_of(r, rules)
            fallback, feasible = fallback_now(rules, state, params, actions)
        expect("outcome.fallback_action", o["fallback_action"], fallback)
        expect("outcome.fallback_feasible", o["fallback_feasible"], feasible)
        expect("outcome.outcome", o["outcome"], "HOLD")
        expect("outcome.action", o["action"], None)
        expect("outcome.reason", o["reason"], "invalid_trace")
        return
    sent = o["fallback_feasible"] and o["fallback_action"] is not None
    expect("outcome.outcome", o["outcome"], "FALLBACK" if sent else "HOLD")
    expect("outcome.action", o["action"], o["fallback_action"] if sent else None)
    expect("outcome.reason", o["reason"], "invalid_trace" if sent else "fallback_infeasible")


def verify_report(r: Record, target: Record, body: bytes) -> None:
    """What somebody saw come of a decision; that it was so, nobody can derive."""
    _about("outcome", r, target, body)
    require("outcome.step", r["step"] >= 1, r["step"], "at least 1")
    low, high = r.get("rank", [0, 1]) if len(r.get("rank", [0, 1])) == 2 else (1, 0)
    require("outcome.rank", 0 <= low < high <= 1, r.get("rank"), "a low and a high share")
    _dated("outcome.observed_at", r["observed_at"])


def verify_event(r: Record) -> None:
    """What a monitor did; a person who arms it again has a name and a reason."""
    _dated("monitor.at", r["at"])
    require("monitor.plan", r["plan"].strip() != "", r["plan"], "text")
    require("monitor.why", r["by"] == "" or r["why"].strip() != "", r["why"], "text")
    if "settings" in r:
        verify_watching(r["settings"])


def verify_control(r: Record) -> None:
    """A pause of a plan, or its end."""
    for name in ("who", "why", "plan"):
        require(f"control.{name}", r[name].strip() != "", r[name], "text")
    _dated("control.at", r["at"])
    if "until" in r:
        _dated("control.until", r["until"])
