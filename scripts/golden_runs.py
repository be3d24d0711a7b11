"""What whole runs come to, as short hashes: mini suites, a `decide` job, and a `backtest`.

Figures and decisions are kept, record ids and node counts are not: formats and proofs may change without a decision
changing. `scripts/regen_golden.py` writes them, `tests/suites/test_golden_runs.py` compares.
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

from ucsearch.lab.data.embedded import sample_demand
from ucsearch.lab.suites.run import Run, evaluate
from ucsearch.lab.suites.suite import Suite, load_suite, parse_suite
from ucsearch.planner.backtest.job import run_backtest
from ucsearch.planner.decide.job import run_decide
from ucsearch.planner.settings import parse_settings

SUITES = (
    "delayed-service-mini", "ett-direction-mini", "ett-inventory-mini", "lost-sales-mini", "m4-balanced200-mini",
    "m4-expanded40-mini", "m4-standard48-mini", "mechanism-mini", "scaling-mini", "synthetic-mini",
)  # fmt: skip
# The same protocols with less to count: a number that moves in the whole of one moves in these. By suite, what is
# replaced in its file.
SMALLER: dict[str, tuple[tuple[str, str], ...]] = {
    "delayed-service-mini": (
        ("paths = 8", "paths = 5"), ("decisions = 3", "decisions = 2"), ("per_family = 4", "per_family = 3"),
        ("widths = [10]", "widths = [6]"), ("top_k = [10]", "top_k = [6]"), ("seeds = 2", "seeds = 1"),
    ),
    "ett-direction-mini": (
        ("decisions = 20", "decisions = 17"), ("validation = 40", "validation = 20"),
        ("expect_beam = 420", "expect_beam = 357"), ("samples = 24", "samples = 12"),
        ("expect_sampling = 1440", "expect_sampling = 612"), ("paths = 20", "paths = 10"),
    ),
    "lost-sales-mini": (("open_loop_width = 8", "open_loop_width = 2"), ("sets = 4", "sets = 2")),
    "m4-balanced200-mini": (
        ("paths = 12", "paths = 6"), ("decisions = 6", "decisions = 3"), ("seeds = 2", "seeds = 1"),
        ("risks = [0.0, 0.5, 0.75]", "risks = [0.0, 0.5]"),
    ),
    "mechanism-mini": (("paths = 10", "paths = 4"),),
}  # fmt: skip
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


def smaller(name: str, *changes: tuple[str, str]) -> Suite:
    """A suite of ours with some settings replaced, those of `SMALLER` unless given, under its own name."""
    text = load_suite(name).text
    for old, new in changes or SMALLER.get(name, ()):
        if text.count(old) != 1:
            raise ValueError(f"{name} has {old!r} {text.count(old)} times")
        text = text.replace(old, new)
    return parse_suite(text)


def suite_run(name: str | Suite, folder: Path) -> dict[str, Any]:
    """A suite, run and summed up."""
    return summary(evaluate(name, folder, threads=1))


def summary(found: Run) -> dict[str, Any]:
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


def smaller_suites() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        return {name: suite_run(smaller(name), Path(folder)) for name in SMALLER}


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
