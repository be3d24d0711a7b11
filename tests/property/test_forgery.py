"""Forgery: every leaf of small valid records changed, hashes recomputed: rejected, or proved to leave every claim true.

What may change without making a claim false, and how that is proved here:
- words and measurements that no claim rests on (`WORDS`, `MEASURED`): by this list;
- inputs and settings without effect on this decision: the planner, run on the changed inputs, makes the same claims;
- an upper bound or a lower one that still holds: by brute force;
- another path with the same score as witness, where the search is not a beam: by brute force.
All of these are found by the log's checkpoint.
"""

from __future__ import annotations

import copy
import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.brute import Enumeration, enumerate_paths
from tests.kit.problems import random_problem
from ucsearch.errors import UCSearchError
from ucsearch.records import Checkpoint, seal
from ucsearch.records.canonical import blob_id, canonical, decode_array, encode_array
from ucsearch.records.entries import GENESIS, entry_digest, next_head
from ucsearch.records.record import decision_record
from ucsearch.verify import Verdict, verify_file, verify_record

Path_ = tuple[str | int, ...]
Case = tuple[dict[str, Any], dict[str, bytes], uc.Task]

COUNT = 200
CASES = [
    ("battery", "mean"), ("battery", "members"), ("stock", "mean"), ("stock", "members"), ("position", "scores"),
    ("tank", "mean"), ("tank", "members"), ("pack", "mean"), ("pack", "members"), ("maze", "mean"), ("clock", "mean"),
    ("free", "mean"), ("free", "members"), ("risky", "mean"), ("risky", "members"), ("followed", "members"),
]  # fmt: skip
MODES, SPREADS = ("mean", "scores", "members", "closed"), ("variance", "std", "downside", "cvar")

# No claim depends on these.
WORDS = (
    "series", "outcome.sentence", "versions", "task.object", "inputs.trace.meta.model", "inputs.trace.meta.notes",
    "inputs.trace.meta.cutoff", "inputs.trace.meta.coupling",
)  # fmt: skip
# Measured by the planner, or by others: nobody can derive them again. Where the gate asks for one, its row must agree.
MEASURED = {
    "claim.counters.oracle_nodes": "node_budget",
    "gate.elapsed_s": "time_budget_s",
    "gate.calibration.eps_c": "max_eps_c",
    "gate.calibration.undercoverage": "max_undercoverage",
    "gate.now": "max_trace_age_s",
    "inputs.trace.meta.issued": "max_trace_age_s",
}
# Of a search that is not run again: its counters and what steers it. Its paths are witnesses whatever steered it.
UNREPEATED = ("claim.counters", "settings.simulations", "settings.c_uct", "settings.top_k", "settings.prune_risk",
              "settings.info_bonus", "settings.node_budget", "settings.every_action", "settings.use_bound")  # fmt: skip
BOUNDS = ("upper", "reward_only_score", "reward_only_upper", "certain_score", "certain_upper")


# -------------------------------------------------------------------- valid records


def random_policy(rng: np.random.Generator, m: int, mode: str) -> Any:
    depth = int(rng.integers(1, 4))
    common: dict[str, Any] = dict(
        depth=depth, mode=mode, risk=float(rng.choice([0.0, 0.25, 1.0])), discount=float(rng.choice([1.0, 1.0, 0.9]))
    )
    top_k = int(rng.choice([1, 1, 2, 3, m]))
    beam = dict(width=max(top_k, int(rng.choice([1, 2, 6]))), top_k=top_k, **common)
    near = dict(near_equal=float(rng.choice([0.0, 3.0])), band=float(rng.choice([0.0, 0.5])))
    makers = [
        lambda: uc.UCBeam(**beam),
        lambda: uc.ParetoBeam(**beam),
        lambda: uc.CertifiedBeam(**beam, protect=bool(rng.integers(0, 2))),
        lambda: uc.ConstrainedBeam(**beam, **near),
        lambda: uc.UCBeam(**beam),
        lambda: uc.Exact(**common) if rng.integers(0, 2) else uc.MCTS(**common, simulations=12),
    ]
    return makers[int(rng.integers(0, len(makers)))]()


def random_gate(rng: np.random.Generator) -> uc.Gate:
    limit = [None, None, 0.5][int(rng.integers(0, 3))]
    return uc.Gate(
        certificate=bool(rng.integers(0, 4)),
        risk_active=bool(rng.integers(0, 4) == 0),
        regret_limit=limit,
        near=limit is not None and bool(rng.integers(0, 2)),
        positive_margin=bool(rng.integers(0, 4) == 0),
        max_trace_age_s=[None, None, 3600.0][int(rng.integers(0, 3))],
        node_budget=[None, None, 10_000][int(rng.integers(0, 3))],
    )


@cache
def case(n: int) -> Case:
    rng = np.random.default_rng(n)
    template, mode = CASES[n % len(CASES)]
    problem = random_problem(rng, template, mode, horizon=3, members=3)
    issued = {"issued": ("2026-01-01T00:00:00+00:00",)} if n % 2 else {}
    trace = problem.trace
    trace = uc.Trace(
        trace.members, trace.weights, trace.mean, trace.q, trace.u, False, trace.coupling, "a model", (), **issued
    )  # fmt: skip
    decision = uc.decide(
        problem.task, problem.state, trace, random_policy(rng, len(problem.task.actions), mode), gate=random_gate(rng),
        now=datetime.fromisoformat("2026-01-01T00:30:00+00:00"), params=problem.params, actions=problem.actions,
        proof=uc.Proof(eps_m=float(rng.choice([0.0, 0.0, 0.1]))), run=uc.Run(engine="python"),
    )  # fmt: skip
    record, blobs = decision_record(decision, series=f"S{n}")
    return record, blobs, problem.task


def test_the_records_are_valid_and_of_many_kinds() -> None:
    seen: Counter[str] = Counter()
    for n in range(COUNT):
        record, blobs, task = case(n)
        assert verify_record(record, blobs, task) == Verdict("valid", record["id"])
        seen.update([record["outcome"]["outcome"], record["claim"]["kind"], record["settings"]["policy"]])
        seen.update([record["outcome"]["cause"]])
    kinds = ("RELEASED", "FALLBACK", "HOLD", "oracle", "bound", "UCBeam", "ParetoBeam", "CertifiedBeam")
    assert all(seen[k] >= 10 for k in kinds), seen
    kinds = ("ConstrainedBeam", "Exact", "MCTS", "dead_end", "task_error", "not_optimal")
    assert all(seen[k] >= 2 for k in kinds), seen


# -------------------------------------------------------------------- changes


def places(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Every leaf, and every list (whose items may be dropped or doubled)."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    else:
        yield path, value
        for i, item in enumerate(value if isinstance(value, list) else ()):
            yield from places(item, (*path, i))


def changes(value: Any) -> list[Any]:
    """Other values for a place, the most telling ones first."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        nudge = 1 if isinstance(value, int) else 1e-3 * (1.0 + abs(value))
        new = [value + nudge, value - nudge, -value, 0, value * 2, None]
        return [x for x in new if x is None or x != value]
    if value is None:
        return [0, 1.5, "inf"]
    if isinstance(value, list):
        return [value[1:], value[:-1], value + value[-1:], value[::-1]] if value else [[0], ["x"], [1.0]]
    if len(value) == 64:
        return [("0" if value[0] != "0" else "1") + value[1:]]
    swaps = {"inf": "-inf", "RELEASED": "FALLBACK", "FALLBACK": "HOLD", "HOLD": "RELEASED", "oracle": "bound"}
    words = {"bound": "oracle", "none": "not_optimal", "exact": "near", "near": "exact", "==": "<=", "<=": ">="}
    return [{**swaps, **words}.get(value, value + "x"), "", "none", value + "x"]


def is_other(new: Any, value: Any) -> bool:
    """Rounding is no lie: figures from user functions are compared with a tolerance."""
    numbers = [x for x in (new, value) if isinstance(x, int | float) and not isinstance(x, bool)]
    if len(numbers) == 2:
        return abs(new - value) > 1e-8 * (1.0 + abs(value))
    return bool(new != value or type(new) is not type(value))


def forged(record: dict[str, Any], blobs: dict[str, bytes], path: Path_, value: Any) -> dict[str, Any]:
    """The record with one place changed and every hash recomputed."""
    copied = copy.deepcopy({k: v for k, v in record.items() if k != "id"})
    at: Any = copied
    for part in path[:-1]:
        at = at[part]
    at[path[-1]] = value
    return seal(rehashed(copied, blobs) if path[:3] == ("inputs", "trace", "meta") else copied)


def rehashed(record: dict[str, Any], blobs: dict[str, bytes]) -> dict[str, Any]:
    t = record["inputs"]["trace"]
    sha = sha256(b"ucsearch.trace.v1\0" + json.dumps(t["meta"], sort_keys=True, separators=(",", ":")).encode())
    for name in ("members", "weights", "mean", "q", "u"):
        array = decode_array(blobs[t[name]["$blob"]])
        sha.update(f"\0{','.join(map(str, array.shape))}\0".encode() + array.tobytes())
    t["hash"] = sha.hexdigest()
    return record


def dotted(path: Path_) -> str:
    """Without the numbers of list items."""
    return ".".join(str(part) for part in path if not isinstance(part, int))


# -------------------------------------------------------------------- proofs that nothing false is claimed


def planner_inputs(r: dict[str, Any], blobs: dict[str, bytes], task: uc.Task) -> dict[str, Any]:
    arrays = {k: decode_array(blobs[v["$blob"]]) for k, v in r["inputs"]["trace"].items() if k not in ("hash", "meta")}
    meta = r["inputs"]["trace"]["meta"]
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in meta.items()}
    state = named(task.state, r["inputs"]["state"], r["inputs"]["state_lengths"])
    params = None
    if task.params is not None:
        params = named(type(task.params), r["inputs"]["params"], r["inputs"]["params_lengths"])
    actions = np.array([math.nan if a is None else a for a in r["task"]["actions"]], dtype=float)
    return dict(task=task, state=state, trace=uc.Trace(**arrays, panel=False, **given), params=params, actions=actions)


def named(kind: Any, row: list[float], lengths: list[int]) -> Any:
    values = iter([float(x) for x in row])
    return kind(*(tuple(next(values) for _ in range(n)) if n else next(values) for n in lengths))


def planned_again(r: dict[str, Any], blobs: dict[str, bytes], task: uc.Task) -> dict[str, Any]:
    """The record the planner makes from the inputs and settings of `r`."""
    s, g = r["settings"], r["gate"]
    kind = getattr(uc, s["policy"])
    options = {f.name: s[f.name] for f in fields(kind) if f.name in s} | dict(
        mode=MODES[s["mode"]], spread=SPREADS[s["spread"]], order="auto" if s["use_bound"] else "score"
    )
    if "utility_budget" in options:
        options["utility_budget"] = float(options["utility_budget"])
    figures = {k: math.nan if v is None else float(v) for k, v in g["calibration"].items()}
    decision = uc.decide(
        **planner_inputs(r, blobs, task), policy=kind(**options), gate=uc.Gate(**g["settings"]),
        now=datetime.fromisoformat(g["now"]) if g["now"] else None, calibration=uc.Calibration(**figures),
        proof=uc.Proof(
            kind=s["kind"] if not options.get("protect") and s["policy"] != "ConstrainedBeam" else "auto",
            eps_m=float(s["eps_m"]), node_budget=s["proof_budget"],
        ),
        run=uc.Run(engine="python"),
    )  # fmt: skip
    return decision_record(decision)[0]


def claims_of(r: dict[str, Any]) -> Any:
    """What is claimed: without words and without what the search and the proof counted."""
    claim = {k: v for k, v in r["claim"].items() if k != "counters"}
    outcome = {k: v for k, v in r["outcome"].items() if k != "sentence"}
    rows = [row for row in r["gate"]["rows"] if row["name"] != "nodes"]
    return json.loads(canonical([claim, r["rivals"], rows, outcome]))


def alike(a: Any, b: Any) -> bool:
    """Equal, rounding aside: another mode may add the same figures in another order."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(alike(a[k], b[k]) for k in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
    return type(a) is type(b) and bool(a == b)


def brute(r: dict[str, Any], blobs: dict[str, bytes], task: uc.Task, **other: Any) -> Enumeration:
    s = r["settings"]
    given = planner_inputs(r, blobs, task)
    options = dict(mode=MODES[s["mode"]], risk=s["risk"], spread=SPREADS[s["spread"]]) | other
    return enumerate_paths(**given, depth=s["depth"], discount=s["discount"], **options)


def still_bounds(r: dict[str, Any], blobs: dict[str, bytes], task: uc.Task) -> bool:
    """Every bound of every rival holds, by enumeration; rounding aside."""
    certain = dict(mode="mean", spread="std") if r["settings"]["mode"] == 2 else {}
    pairs = (("upper", None, {}), ("reward_only_upper", "reward_only_score", dict(risk=0.0)))
    for upper, lower, other in (*pairs, ("certain_upper", "certain_score", dict(risk=0.0, **certain))):
        values = brute(r, blobs, task, **other).values
        for rival in r["rivals"]:
            best = values.get(rival["index"], -math.inf)
            room = 1e-9 * (1.0 + abs(best)) if math.isfinite(best) else 0.0
            high, low = rival[upper], None if lower is None else rival[lower]
            if (high is not None and not best <= float(high) + room) or (low is not None and not low <= best + room):
                return False
    return True


def same_witness(r: dict[str, Any], blobs: dict[str, bytes], task: uc.Task) -> bool:
    scores = {p.actions: p.score for p in brute(r, blobs, task).paths}
    kept = [x for x in r["rivals"] if x["retained"]]
    shown = [(x["path"], x["score"]) for x in kept] + [(x["upper_path"], x["upper"]) for x in r["rivals"]]
    pairs = [(scores[tuple(path)], score) for path, score in shown if path]
    return all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) for a, b in pairs)


def holds_by_brute(r: dict[str, Any], blobs: dict[str, bytes], task: uc.Task) -> bool:
    """A bound may cover more actions than can be completed; what is claimed with it must be true all the same."""
    e, c = brute(r, blobs, task), r["claim"]
    values = {a: q for a, q in e.values.items() if e.same_as[a] == a}
    if not (set(values) <= {x["index"] for x in r["rivals"]} and still_bounds(r, blobs, task)):
        return False
    if c["action_index"] < 0:
        return True
    regret = max(values.values()) - values[c["action_index"]]
    bound = math.inf if c["regret_bound"] == "inf" else c["regret_bound"]
    proved = not c["certificate_pass"] or regret <= 2 * e.tau
    return same_witness(r, blobs, task) and regret <= bound + 2 * e.tau and proved


def why_true(mutant: dict[str, Any], blobs: dict[str, bytes], task: uc.Task, path: Path_) -> str:
    """How it is known that the changed record claims nothing false; empty when it is not known."""
    place, gate, s = dotted(path), mutant["gate"]["settings"], mutant["settings"]
    if place.startswith(WORDS):
        return "words"
    for name, limit in MEASURED.items():
        if place.startswith(name) and gate[limit] is None:
            return "measured, not asked for"
        if place.startswith(name):
            return "measured"  # and the gate's row agrees, or it would have been rejected
    if s["algorithm"] != "beam" and place.startswith(UNREPEATED):
        return "not repeated"
    if path[0] == "rivals" and path[-1] in BOUNDS:
        return "bounds" if still_bounds(mutant, blobs, task) else ""
    if path[0] == "rivals" and ("path" in path or "upper_path" in path):
        return "witness" if same_witness(mutant, blobs, task) else ""
    if place == "claim.eps_a" and not mutant["rivals"]:
        return "about nothing"  # how exact no values are
    try:
        if alike(claims_of(planned_again(mutant, blobs, task)), claims_of(mutant)):
            return "planned again"
    except UCSearchError:
        return ""
    return "by brute force" if s["kind"] == "bound" and holds_by_brute(mutant, blobs, task) else ""


def found_by_checkpoint(record: dict[str, Any], mutant: dict[str, Any], folder: Path) -> bool:
    """A log of one entry, replaced and chained again, against the checkpoint of the original."""
    head = next_head(GENESIS, 1, entry_digest(canonical(record)), None)
    Checkpoint(1, head).write(folder / "checkpoint.json")
    body = canonical(mutant)
    digest = entry_digest(body)
    entry = {"blobs": {}, "digest": digest, "previous": GENESIS, "record": mutant, "seq": 1, "written_at": None}
    line = canonical({**entry, "head": next_head(GENESIS, 1, entry["digest"], None)})
    (folder / "log.jsonl").write_bytes(line + b"\n")
    found = list(verify_file(folder / "log.jsonl", object(), checkpoint=folder / "checkpoint.json"))
    return (found[-1].code, found[-1].where) == (1, "entry 1.head")


Mutant = tuple[Path_, Any, dict[str, Any], dict[str, bytes]]


def mutants(n: int, step: int, most: int) -> Iterator[Mutant]:
    """Every `step`-th place of record n changed in at most `most` ways, the numbers inside its arrays included."""
    record, blobs, _ = case(n)
    for k, (path, value) in enumerate(places({k: v for k, v in record.items() if k != "id"})):
        if (k + n) % step == 0:
            for new in [x for x in changes(value) if is_other(x, value)][:most]:
                yield path, new, forged(record, blobs, path, new), blobs
    for name in ("members", "weights", "mean", "q", "u"):
        path: Path_ = ("inputs", "trace", name, "$blob")
        array = decode_array(blobs[record["inputs"]["trace"][name]["$blob"]])
        for k, x in enumerate(array.ravel().tolist()):
            for new in (x + 0.25, -x - 1.5)[:most] if (k + n) % step == 0 else ():
                other = np.array(array)
                other.ravel()[k] = new
                data = encode_array(other, finite=False)
                held = {**blobs, blob_id(data): data}
                copied = copy.deepcopy({k: v for k, v in record.items() if k != "id"})
                copied["inputs"]["trace"][name] = {"$blob": blob_id(data)}
                yield path, new, seal(rehashed(copied, held)), held


def sweep(numbers: range, step: int, most: int, folder: Path) -> Counter[str]:
    """How often a changed record is rejected, and why it may pass; it is an error if it passes otherwise."""
    seen: Counter[str] = Counter()
    for n in numbers:
        record, _, task = case(n)
        for path, new, mutant, blobs in mutants(n, step, most):
            assert verify_record({**mutant, "id": record["id"]}, blobs, task).code in (1, 2), path
            found = verify_record(mutant, blobs, task)
            seen[found.status] += 1
            if found.code in (1, 2):
                continue
            why = why_true(mutant, blobs, task, path)
            assert why, f"record {n}: {path} -> {new!r} passes as {found}"
            assert found_by_checkpoint(record, mutant, folder)
            seen[why] += 1
    return seen


def test_changed_leaves(tmp_path: Path) -> None:
    """A sample: over all records every place is changed."""
    seen = sweep(range(COUNT), 74, 1, tmp_path)
    assert seen["invalid"] > 270
    assert seen["malformed"] > 25
    assert seen["words"] > 4


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_leaves_changed_in_every_way(part: int, tmp_path: Path) -> None:
    """Every sixth place of a record, and over six records all of them; each place of each would take hours."""
    seen = sweep(range(part * COUNT // 8, (part + 1) * COUNT // 8), 6, 6, tmp_path)
    assert seen["invalid"] > 300
