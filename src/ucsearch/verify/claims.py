"""Every claim of a decision, derived again: inputs, witnesses, first actions, upper bounds, margins, gate, outcome."""

from __future__ import annotations

import hashlib
import json
import math
from datetime import datetime
from typing import Any

from ucsearch.verify.formats import (
    Blobs,
    Invalid,
    Malformed,
    Record,
    digest,
    expect,
    expect_close,
    is_close,
    num,
    read_blob,
    require,
    slack,
)
from ucsearch.verify.gate import certificate, gate_and_outcome
from ucsearch.verify.replay import MEMBERS, SCORES, Edge, Fault, Node, Problem, distinct
from ucsearch.verify.search import Found, Meter, OutOfNodes, Prover, beam

POLICIES = {
    "UCBeam": ("beam", 0), "ParetoBeam": ("beam", 1), "CertifiedBeam": ("beam", 2), "ConstrainedBeam": ("beam", 2),
    "Exact": ("exact", 0), "MCTS": ("mcts", 0),
}  # fmt: skip


def verify_decision(r: Record, blobs: Blobs, task: Any, budget: int) -> list[str]:
    """Raises at the first false claim; returns the claims that the budget left in doubt."""
    p = _problem(r, blobs, task)
    doubts: list[str] = []
    meter = Meter(budget)
    root, found, failed = _search(r, p, meter, doubts)
    edges = {e.action: e for e in distinct(root)}
    prover = Prover(p, meter)
    _witnesses(r, p, edges)
    _first_actions(r, edges, found, prover, doubts)
    _uppers(r, p, edges, meter, doubts)
    for name, value in certificate(r, *_searched(r, found)).items():
        expect(f"claim.{name}", r["claim"][name], value)
    _counters(r, found, failed)
    dead_end = _dead_end(r, edges, found, failed, prover, doubts)
    gate_and_outcome(r, p, failed, dead_end, {e.action: e.q - p.risk * e.u for e in root})
    return doubts


# -------------------------------------------------------------------- inputs


def _rules(r: Record, task: Any) -> tuple[Any, Any, list[float]]:
    """State, parameters and actions, NaN where unavailable."""
    t, inputs = r["task"], r["inputs"]
    actions = [num(a) for a in t["actions"]]
    for name in ("name", "version", "source_hash"):
        expect(f"task.{name}", t[name], getattr(task, name))
    expect("task.actions", len(actions), len(task.actions))
    there = [a for a in actions if a == a]
    require("task.actions", there == sorted(set(there)), t["actions"], "ascending values")
    expect("task.labels", t["labels"], list(task.labels) if task.named else [f"{a:g}" for a in actions])
    state = _named_tuple("state", task.state, inputs["state"], inputs["state_lengths"])
    lengths = [len(x) if isinstance(x, tuple) else 0 for x in task.params or ()]
    expect("inputs.params_lengths", inputs["params_lengths"], lengths)
    expect("inputs.params", len(inputs["params"]), sum(max(1, n) for n in lengths))
    params = None if task.params is None else _named_tuple("params", type(task.params), inputs["params"], lengths)
    return state, params, actions


def verify_override(r: Record, target: Record, body: bytes, task: Any) -> None:
    """An operator's replacement: of a decision that exists, by somebody, for a reason, and feasible."""
    for name in ("who", "why"):
        require(f"override.{name}", bool(r[name].strip()), r[name], "text")
    try:
        offset = datetime.fromisoformat(r["at"]).utcoffset()
    except ValueError:
        offset = None
    require("override.at", offset is not None, r["at"], "a time with its offset")
    expect("override.digest", r["digest"], digest("audit-entry/1", body))
    expect("override.series", r.get("series"), target["series"])
    state, params, actions = _rules(target, task)
    action, labels = r["action"], target["task"]["labels"]
    if isinstance(action, str):
        require("override.action", action in labels, action, f"one of {labels}")
        action = actions[labels.index(action)]
    try:
        feasible = action == action and bool(task.feasible(state, float(action), params))
    except Exception as error:
        raise Invalid("override.feasible", True, f"{error!r}") from None
    expect("override.feasible", True, feasible)


def _problem(r: Record, blobs: Blobs, task: Any) -> Problem:
    state, params, actions = _rules(r, task)
    s = r["settings"]
    p = Problem(task, s, state, params, actions, _trace(r["inputs"]["trace"], blobs, s, task, len(actions)))
    _settings(r, p)
    return p


def _named_tuple(name: str, kind: Any, row: list[float], lengths: list[int]) -> Any:
    expect(f"inputs.{name}_lengths", len(lengths), len(kind._fields))
    expect(f"inputs.{name}", len(row), sum(max(1, n) for n in lengths))
    values, items = iter(map(float, row)), []
    for n in lengths:
        items.append(tuple(next(values) for _ in range(n)) if n else next(values))
    return kind(*items)


def _trace(t: Record, blobs: Blobs, s: Record, task: Any, m: int) -> tuple[Any, ...]:
    """Members (J, H), weights (J,), mean (H,), q and u (H, m) as lists of outcomes and numbers."""
    sha = hashlib.sha256(b"ucsearch.trace.v1\0")
    sha.update(json.dumps(t["meta"], sort_keys=True, separators=(",", ":")).encode())
    shapes, flat = {}, {}
    for name in ("members", "weights", "mean", "q", "u"):
        shapes[name], raw, flat[name] = read_blob(t[name]["$blob"], blobs)
        sha.update(f"\0{','.join(map(str, shapes[name]))}\0".encode() + raw)
    expect("inputs.trace.hash", t["hash"], sha.hexdigest())
    if [len(shapes[n]) for n in shapes] != [4, 2, 3, 3, 3]:
        raise Malformed("inputs.trace: arrays of other dimensions")
    (_, size, horizon, fields), width = shapes["members"], shapes["q"][2]
    scores = s["mode"] == SCORES
    expected = {
        "members": (1, size, horizon, fields), "weights": (1, size), "mean": (1, horizon, fields),
        "q": (1, horizon, width), "u": (1, horizon, width),
    }  # fmt: skip
    wide = fields == len(task.outcome._fields) if task.outcome is not None else fields == 1
    fits = (size == 0 and width == m) if scores else (size > 0 and width == 0)
    if shapes != expected or not fits or not (wide or (scores and fields == 1)) or not 1 <= s["depth"] <= horizon:
        raise Malformed(f"inputs.trace: the shapes {shapes} do not fit mode, actions, outcomes and depth")
    continues = s["mode"] == MEMBERS and len(task.continuations) > 0
    expect("settings.reach", s["reach"], horizon if continues else s["depth"])
    numbers = [*flat["members"], *flat["weights"], *flat["q"], *flat["u"], *(() if scores else flat["mean"])]
    require("inputs.trace", all(map(math.isfinite, numbers)), "a trace", "not finite")
    require("inputs.trace.u", all(x >= 0.0 for x in flat["u"]), "deviations", "a negative one")
    weights, step = list(flat["weights"]), horizon * fields
    members = [list(flat["members"][j * step : (j + 1) * step]) for j in range(size)]
    if not scores:
        fair = all(w > 0.0 for w in weights) and is_close(math.fsum(weights), 1.0)
        require("inputs.trace.weights", fair, weights, "positive shares of 1")
        keys = [(*y, w) for y, w in zip(members, weights, strict=True)]
        require("inputs.trace.members", keys == sorted(keys), "members", "not in ascending order")
        mean = list(members[0])
        for i, first in enumerate(members[0]):
            shift = 0.0
            for j in range(1, size):
                shift += weights[j] * (members[j][i] - first)
            mean[i] = first + shift
        expect("inputs.trace.mean", list(flat["mean"]), mean)

    def outcomes(row: list[float]) -> list[Any]:
        if task.outcome is None:
            return row
        n = len(task.outcome._fields)
        steps = [row[h * fields : (h + 1) * fields] for h in range(horizon)]
        return [task.outcome(*(y if fields == n else y * n)) for y in steps]

    def table(row: tuple[float, ...]) -> list[list[float]]:
        return [list(row[h * width : (h + 1) * width]) for h in range(horizon)]

    return [outcomes(y) for y in members], weights, outcomes(list(flat["mean"])), table(flat["q"]), table(flat["u"])


def _settings(r: Record, p: Problem) -> None:
    s, m = r["settings"], len(p.actions)
    own = ["protect"] if s["policy"] in ("CertifiedBeam", "ConstrainedBeam") else []
    own += ["near_equal", "band", "utility_budget"] if s["policy"] == "ConstrainedBeam" else []
    expect("settings.policy", [k for k in ("protect", "near_equal", "band", "utility_budget") if k in s], own)
    free = s["algorithm"] not in ("beam", "exact", "mcts") and s["keep"] == 0
    known = POLICIES.get(s["policy"], (s["algorithm"] if free else "", 0))
    expect("settings.algorithm", [s["algorithm"], s["keep"]], list(known))
    expect("settings.kind", s["kind"], r["claim"]["kind"])
    expect("settings.eps_m", s["eps_m"], r["claim"]["eps_m"])
    at_least = {"depth": 1, "risk": 0, "prune_risk": 0, "info_bonus": 0, "c_uct": 0, "width": 1, "top_k": 1, "eps_m": 0}
    for name, low in {**at_least, **{k: 0 for k in own[1:]}}.items():
        require(f"settings.{name}", num(s[name]) >= low, s[name], f"at least {low}")
    require("settings.discount", 0 < s["discount"] <= 1, s["discount"], "in (0, 1]")
    require("settings.top_k", s["top_k"] <= m, s["top_k"], f"at most {m}")
    require("settings.width", s["keep"] < 2 or s["width"] >= s["top_k"], s["width"], f"at least {s['top_k']}")
    require("settings.risk", s["mode"] != 2 or s["spread"] != 2 or s["risk"] <= 1, s["risk"], "at most 1")
    require("settings.use_bound", p.has_bound or not s["use_bound"], s["use_bound"], "no bound")
    require("settings.kind", s["kind"] == "oracle" or not (own[1:] or s.get("protect")), s["kind"], "oracle")
    unused = {"beam": ("node_budget", "every_action", "simulations", "c_uct"), "exact": ("simulations", "c_uct"),
              "mcts": ("node_budget", "every_action")}.get(s["algorithm"], ())  # fmt: skip
    for name in unused:
        expect(f"settings.{name}", s[name], 0)
    if not free:
        expect("settings.extra_i", [s["extra_i"], s["extra_f"]], [[], []])
    if s["algorithm"] != "beam":
        expect("settings.width", s["width"], 1)


# -------------------------------------------------------------------- search


def _search(r: Record, p: Problem, meter: Meter, doubts: list[str]) -> tuple[tuple[Edge, ...], Found | None, bool]:
    """The root's edges, for beams what the beam retains, and whether the task fails on the way."""
    rows, found = r["gate"]["rows"], None
    expect("gate.rows[0].name", rows[0]["name"] if rows else None, "task")
    failed = rows[0]["left"] == 1
    try:
        root = p.edges(p.root().states, 0)
        if r["settings"]["algorithm"] == "beam":
            found = beam(p)
        elif failed:
            Prover(p, meter).look_everywhere(root)
    except Fault as error:
        require("gate.rows[0].left", failed, rows[0]["left"], f"a failure: {error}")
    except OutOfNodes:
        doubts.append("gate.rows[0].left")
    else:
        require("gate.rows[0].left", not failed, rows[0]["left"], "no failure")
        return root, found, False
    return (), None, True


def _counters(r: Record, found: Found | None, failed: bool) -> None:
    """Of a beam exactly; of other searches only that a failed one counts nothing."""
    counted, s = r["claim"]["counters"], r["settings"]
    if found is not None or failed:
        expect("claim.counters.expansions", counted["expansions"], found.expansions if found else 0)
        expect("claim.counters.action_scores", counted["action_scores"], found.action_scores if found else 0)
    most = 0 if failed else s["simulations"]
    require("claim.counters.simulations", counted["simulations"] <= most, counted["simulations"], f"at most {most}")


def _dead_end(
    r: Record, edges: dict[int, Edge], found: Found | None, failed: bool, prover: Prover, doubts: list[str]
) -> bool:
    """Whether no path exists; other searches than beams may leave that open, but not claim it falsely."""
    if found is not None or failed:
        return found is not None and found.dead_end
    k, row = next(((k, row) for k, row in enumerate(r["gate"]["rows"]) if row["name"] == "completion"), (0, None))
    if row is None or row["left"] != 0:
        return False
    for edge in edges.values():
        try:
            require(f"gate.rows[{k}].left", prover.best(edge, -math.inf) is None, 0, "a path exists")
        except (OutOfNodes, Fault):
            doubts.append(f"gate.rows[{k}].left")
    return True


def _witnesses(r: Record, p: Problem, edges: dict[int, Edge]) -> None:
    last = -1
    for k, rival in enumerate(r["rivals"]):
        where, i = f"rivals[{k}]", rival["index"]
        require(f"{where}.index", i > last, i, f"more than {last}")
        require(f"{where}.index", i in edges, i, "not feasible, or a smaller action stands for it")
        expect(f"{where}.action", rival["action"], p.actions[i])
        expect(f"{where}.label", rival["label"], r["task"]["labels"][i])
        expect_close(f"{where}.step_score", rival["step_score"], edges[i].q - p.risk * edges[i].u)
        last, values = i, [rival[n] for n in ("score", "reward", "uncertainty")]
        if not rival["retained"]:
            expect(where, [*values, rival["path"]], [None, None, None, []])
            continue
        expect(f"{where}.path[0]", rival["path"][:1], [i])
        node = _replay(p, rival["path"], where)
        expect_close(f"{where}.reward", rival["reward"], node.reward)
        expect_close(f"{where}.uncertainty", rival["uncertainty"], node.uncertainty)
        expect(f"{where}.score", rival["score"], num(rival["reward"]) - p.risk * num(rival["uncertainty"]))


def _replay(p: Problem, path: list[int], where: str) -> Node:
    node = p.root()
    expect(f"{where}.path", len(path), p.depth)
    for h, i in enumerate(path):
        try:
            edge = next((e for e in p.edges(node.states, h) if e.action == i), None)
            child = None if edge is None else p.extend(node, edge)
        except Fault as error:
            raise Invalid(f"{where}.path[{h}]", i, str(error)) from None
        if child is None:
            raise Invalid(f"{where}.path[{h}]", i, "not feasible")
        node = child
    return node


def _first_actions(r: Record, edges: dict[int, Edge], found: Found | None, prover: Prover, doubts: list[str]) -> None:
    """A is complete, and a beam's retained paths are those the beam retains."""
    named = {rival["index"] for rival in r["rivals"]}
    for i, edge in edges.items():
        if i not in named:
            try:
                score = prover.best(edge, -math.inf)
                require("rivals", score is None, f"nothing of action {i}", f"a path that scores {score}")
            except (OutOfNodes, Fault):
                doubts.append("rivals")
    if found is None:
        return
    s, exact = r["settings"], r["claim"]["eps_a"] is not None
    for k, rival in enumerate(r["rivals"]):
        where, i, mine = f"rivals[{k}].path", rival["index"], found.paths.get(rival["index"])
        own = [] if mine is None else list(mine.path)
        put_in = (s.get("protect", False) and i in found.generated) or (
            s["policy"] == "ConstrainedBeam" and i == r["claim"]["baseline_index"]
        )
        if rival["path"] != own:
            better = put_in and rival["retained"] and (mine is None or rival["score"] > mine.score)
            require(where, better, rival["path"], f"{own}, which the beam retains")
        if put_in and exact:
            require(where, is_close(num(rival["score"]), num(rival["upper"])), rival["path"], "not the best suffix")


def _searched(r: Record, found: Found | None) -> tuple[dict[int, float], int]:
    """Scores before any oracle suffix was put in, and the first action they select."""
    kept = {rival["index"]: num(rival["score"]) for rival in r["rivals"]}
    if found is None:
        return kept, r["claim"]["action_index"]
    paths = {rival["index"]: tuple(rival["path"]) for rival in r["rivals"]}
    scores = {i: kept[i] if n.path == paths[i] else n.score for i, n in found.paths.items() if i in kept}
    order = sorted(found.paths.values(), key=lambda n: (-n.score, n.uncertainty, n.path))
    return {i: scores.get(i, math.nan) for i in kept}, order[0].path[0] if order else -1


def _uppers(r: Record, p: Problem, edges: dict[int, Edge], meter: Meter, doubts: list[str]) -> None:
    """No path scores more than what is claimed, and what is claimed as exact is reached."""
    exact = r["claim"]["eps_a"] is not None
    known = bool(r["rivals"]) and all(rival["upper"] is not None for rival in r["rivals"])
    if r["claim"]["kind"] == "oracle" and known:
        require("claim.eps_a", exact, None, "a number, because every value is known")
    provers = [Prover(p, meter), Prover(p.at_risk(0.0), meter)]
    certain = edges
    if p.is_members:
        other = p.certain()
        provers.append(Prover(other, meter))
        try:
            certain = {e.action: e for e in other.edges(other.root().states, 0)}
        except Fault:
            certain = {}
    for k, rival in enumerate(r["rivals"]):
        where, edge = f"rivals[{k}]", edges[rival["index"]]
        if exact:
            require(f"{where}.upper", rival["upper"] is not None, None, "a number, because claim.eps_a is one")
        reached = rival["retained"] and is_close(num(rival["score"]), num(rival["upper"]))
        low = rival["upper"] if exact and not reached else None
        _between(where, "upper", low, rival["upper"], edge, provers[0], doubts)
        low, high = rival["reward_only_score"], rival["reward_only_upper"]
        _between(where, "reward_only_upper", low, high, edge, provers[1], doubts)
        own = [rival["certain_score"], rival["certain_upper"]]
        if not p.is_members:
            expect(f"{where}.certain_score", own, [low, high])
        elif own != [None, None]:
            require(f"{where}.certain_score", rival["index"] in certain, own, "not feasible at the mean outcome")
            _between(where, "certain_upper", *own, certain[rival["index"]], provers[2], doubts)


def _between(
    where: str, name: str, low: Any, high: Any, first: Edge, prover: Prover, doubts: list[str]
) -> None:
    """Some path that begins with `first` scores at least `low`, and none scores more than `high`."""
    lower, upper = num(low), num(high)
    if low is None and high is None:
        return
    floor = upper + slack(upper) if low is None else lower - slack(lower)
    try:
        best = prover.best(first, floor)
    except (OutOfNodes, Fault) as error:
        # Where the task fails somewhere, nothing can have been proved; a path beside that place may still exist.
        require(f"{where}.{name}", isinstance(error, OutOfNodes) or high is None, high, f"a failure: {error}")
        doubts.append(f"{where}.{name}")
        return
    if low is not None:
        require(f"{where}.{name}", best is not None, low, "no path scores as much")
    if best is not None and high is not None and not best <= upper + slack(upper):
        raise Invalid(f"{where}.{name}", high, best)
