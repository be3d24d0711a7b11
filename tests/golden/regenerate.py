"""What is stored in this folder, made again: decisions of exact and beam search on small fixed cases of every built-in
task (tasks.json), and what whole runs come to as short hashes (runs.json: mini suites, a `decide` job, a `backtest`).

Run it after a deliberate change of rules, of a search or of a comparator, and read the difference before committing it:

    python -m tests.golden.regenerate

Figures and decisions are kept, record ids and node counts of proofs are not: formats and proofs may change without a
decision changing. `tests/suites/test_golden_runs.py` and `tests/tasks/test_registry.py` compare.
"""

from __future__ import annotations

import csv
import hashlib
import json
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

import ucsearch as uc
from ucsearch.lab.data.embedded import sample_demand
from ucsearch.lab.suites.run import SuiteRun, evaluate
from ucsearch.planner.backtest.job import run_backtest
from ucsearch.planner.decide.job import run_decide
from ucsearch.planner.settings import parse_settings
from ucsearch.tasks import TASKS

# Small versions of suites, one of each kind, and of the walk-forward kind one of each way to search.
SUITES = (
    "capacity-mini", "delayed-service-mini", "ett-direction-mini", "ett-inventory-mini", "known-optimum-mini",
    "lob-direction-mini", "lost-sales-mini", "m4-balanced200-mini", "mechanism-mini", "retail-lots-mini",
    "scaling-mini", "staffing-mini", "stressors-mini", "synthetic-mini", "truck200-mini",
)  # fmt: skip
DIGITS = 9  # of a figure; libraries differ in the last ones
_EFFORT = ("oracle_nodes", "activity_nodes", "nodes")  # of proofs: no decision depends on them

SETTINGS = """
[task]
name = "lead_time_inventory"
lead_time = 1
order_sizes = [0.0, 15.0, 30.0, 45.0, 60.0, 75.0, 90.0, 105.0, 120.0]
holding = 1.0
shortage = 9.0
fixed_cost = 40.0
capacity = 260.0
[policy]
name = "exact"
depth = 3
risk = 0.25
[forecaster]
name = "seasonal_naive"
paths = 6
[backtest]
periods = 5
warmup = 2
season = 7
[run]
engine = "python"
chunk = 3
"""


def suite_run(name: str, folder: Path) -> dict[str, Any]:
    """A suite, run and summed up."""
    return summary(evaluate(name, folder, threads=1, underpowered=True))


def summary(found: SuiteRun) -> dict[str, Any]:
    """Verdict, selection and a hash for each policy of a suite."""
    predicate = found.statement["predicate"]
    rows = [json.loads(line) for line in (found.folder / "rows.jsonl").read_bytes().splitlines()]
    policies: dict[str, list[Any]] = {}
    proofs = []
    for row in rows:
        for side, content in {"": row, **row.get("candidates", {})}.items():
            where = [row["family"], row["series"], row["split"], row["window"], side]
            for policy, figures in content.get("policies", {}).items():
                kept = {k: v for k, v in figures.items() if k not in _EFFORT}
                policies.setdefault(policy, []).append([where, kept])
            if content.get("certificate"):
                counts = {k: v for k, v in content["certificate"].items() if isinstance(v, int)}
                proofs.append([where, counts])
    return {
        "verdict": predicate["verdict"]["class"],
        "selection": None if predicate["selection"] is None else predicate["selection"]["candidate"],
        "deltas": digest(predicate["deltas"]),
        "certificates": digest(proofs),
        "policies": {name: digest(policies[name]) for name in sorted(policies)},
    }


def decide_run(folder: Path) -> dict[str, list[Any]]:
    """Series -> outcome, action, order, reason of a small job on the embedded sample."""
    sample = sample_demand(5).series
    members = [np.asarray(s.y[-21:]).reshape(7, 3)[:, :3] for s in sample]
    forecasts = [
        [s.id, h + 1, *(float(x) for x in table[:, h])]
        for s, table in zip(sample, members, strict=True)
        for h in range(3)
    ]
    states = [[s.id, float(20 * i), float(15 * i)] for i, s in enumerate(sample)]
    _write(folder / "f.csv", ["series", "step", *(f"member_{j + 1}" for j in range(7))], forecasts)
    _write(folder / "s.csv", ["series", "on_hand", "open_orders_1"], states)
    run_decide(
        parse_settings(SETTINGS.encode()), folder / "f.csv", folder / "s.csv", folder / "o.csv", folder / "log.db"
    )
    with (folder / "o.csv").open(newline="") as file:
        return {r["series"]: [r["outcome"], r["action"], r["order"], r["reason"]] for r in csv.DictReader(file)}


def backtest_run(folder: Path) -> dict[str, str]:
    """Policy -> hash of its figures."""
    rows = [[s.id, t + 1, float(y)] for s in sample_demand(3).series for t, y in enumerate(s.y[-40:])]
    _write(folder / "sales.csv", ["series", "step", "demand"], rows)
    found = run_backtest(parse_settings(SETTINGS.encode()), folder / "sales.csv")
    return {name: digest(found.figures(name)) for name in found.tracks}


def jobs() -> dict[str, Any]:
    """Everything but the suites."""
    with tempfile.TemporaryDirectory() as folder:
        found = {"decide": decide_run(Path(folder)), "backtest": backtest_run(Path(folder))}
    return found


def suites(names: Iterable[str]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return {name: suite_run(name, Path(folder)) for name in names}


def digest(value: Any) -> str:
    """A short hash that forgets the last digits of floats."""
    return hashlib.sha256(json.dumps(_rounded(value), sort_keys=True).encode()).hexdigest()[:16]


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _rounded(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(v) for v in value]
    if isinstance(value, float):
        # Rounding noise around 0 is no figure.
        return 0.0 if abs(value) < 1e-12 else float(f"{value:.{DIGITS}g}")
    return value


def _write(path: Path, head: list[str], rows: list[list[Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(rows)


# -------------------------------------------------------------------- decisions of every task

GOLDEN = Path(__file__).resolve().parent
MEMBERS, STEPS = 4, 4

# name: (arguments of state(), mean and deviation of the outcomes); another task starts as it says itself
CASES: dict[str, tuple[dict[str, Any], float, float]] = {
    "lead_time_inventory": ({"on_hand": 5.0}, 5.0, 2.0),
    "delayed_exposure": ({"position": 1.0}, 0.1, 0.5),
    "direction": ({"direction": 0.0}, 0.0, 0.5),
    "capacity_plan": ({"online": 3}, 4.0, 2.0),
    "intervention": ({}, 3.0, 2.0),
    "storage": ({"level": 2.0}, 30.0, 20.0),
}


def outcomes(seed: int, mean: float, deviation: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(J, H) on a grid of 1/8 by whole-number arithmetic, so that no library's random numbers are in the file."""
    state, rows = seed * 2_654_435_761 % 2**32, []
    for _ in range(MEMBERS * STEPS):
        state = (1_664_525 * state + 1_013_904_223) % 2**32
        rows.append(((state >> 16) % 33 - 16) / 8.0)  # -2 .. 2
    return mean + deviation * np.array(rows).reshape(MEMBERS, STEPS)


def decisions() -> dict[str, Any]:
    """Task -> instance -> policy -> what was decided; scores as hex floats, to the last bit."""
    found: dict[str, Any] = {}
    for seed, (name, info) in enumerate(sorted(TASKS.items())):
        fit = info.kind().fit()
        arguments, mean, deviation = CASES.get(name, (fit.start, fit.unit, 0.5 * fit.unit))
        found[name] = {}
        for number, (instance, made) in enumerate(sorted(info.kind.instances().items())):
            trace = uc.Trace.from_members(outcomes(100 * seed + number, mean, deviation))
            policies: dict[str, uc.Policy] = {
                "exact": uc.Exact(depth=STEPS, risk=0.5),
                "beam": uc.UCBeam(depth=STEPS, width=4, top_k=3, risk=0.5, order="score"),
                "members": uc.UCBeam(depth=2, width=4, top_k=3, risk=0.5, mode="members"),
            }
            found[name][instance] = {
                key: _row(uc.search(made.task(), made.state(**arguments), trace, policy, engine="python"), key)
                for key, policy in policies.items()
            }
    return found


def _row(plan: uc.Plan, key: str) -> dict[str, Any]:
    row = {
        "status": plan.status.name,
        "path": list(plan.path),
        "score": plan.score.hex() if plan.found else None,
    }
    # How much is searched elsewhere is a matter of the bound, not of the decision.
    return {**row, "expansions": plan.expansions} if key == "beam" else row


def text_of(found: dict[str, Any]) -> str:
    """JSON with one policy to a line, so that a difference is easy to read."""
    lines = ["{"]
    for i, (name, instances) in enumerate(found.items()):
        lines.append(f"  {json.dumps(name)}: {{")
        for j, (instance, rows) in enumerate(instances.items()):
            body = ",\n".join(f"      {json.dumps(key)}: {json.dumps(row)}" for key, row in rows.items())
            lines.append(f"    {json.dumps(instance)}: {{\n{body}\n    }}" + ("," if j + 1 < len(instances) else ""))
        lines.append("  }" + ("," if i + 1 < len(found) else ""))
    return "\n".join([*lines, "}"]) + "\n"


if __name__ == "__main__":
    (GOLDEN / "tasks.json").write_text(text_of(decisions()), encoding="utf-8")
    found = {**jobs(), "suites": suites(SUITES)}
    (GOLDEN / "runs.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"wrote {GOLDEN}")
