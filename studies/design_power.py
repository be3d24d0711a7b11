"""Is a look worth declaring? The value gate's power, from series that are set aside for design.

    UCSEARCH_DATA=... python studies/design_power.py SUITE.toml --out build/design
    UCSEARCH_DATA=... python studies/design_power.py SUITE.toml --out build/design --items 240 800 --samplers 60

SUITE.toml is a walk-forward suite with a value gate; its `per_family` and `series` say how many design series are used.
They are walked as its validation would be: candidates, tuned practitioners, samplers at equal time. Nothing of the
suite's own series is read, no test split is opened and no look is written. Printed are the deltas against every
opponent, and for each number of items how likely its bound passes: drawn from the deltas, once as if their mean were
true and once with the doubt about it (a draw of a draw), by series and by cluster as the gate does it.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ucsearch.lab.suites.evidence.rows import sort_rows, windows_of
from ucsearch.lab.suites.gates.clusters import cluster_lower
from ucsearch.lab.suites.gates.value import TIMED, choose_by_cost, floors_of, value_deltas
from ucsearch.lab.suites.job import Job
from ucsearch.lab.suites.kinds.walkforward.run import _Run
from ucsearch.lab.suites.suite import load_suite
from ucsearch.replay.statistics import LEVEL
from ucsearch.student import student_quantile

RUNS = 400


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="partial results: a run that was killed goes on")
    parser.add_argument("--items", type=int, nargs="+", default=[240], help="series of each family that a look has")
    parser.add_argument("--samplers", type=int, default=60, help="of these, series on which samplers run")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    suite = load_suite(arguments.suite)
    identity = {"suite_sha256": suite.sha256, "settings": suite.as_json(), "card_sha256": "0" * 64, "purpose": "design"}
    run = _Run(suite, Job(arguments.out / suite.name, identity, threads=arguments.threads), purpose="design")
    rows, candidates = run.validation()
    tuned = run.tuned(rows, run.protocol, candidates)
    if tuned is None or run.s.value_gate is None:
        raise SystemExit("the suite asks for no value gate")
    chosen = choose_by_cost(rows, run.protocol, candidates)
    print(f"judged: {chosen}")
    for name, one in tuned.items():
        print(f"{name}: {one['settings']} of {one['tries']} tried")
    floors = floors_of({"margin": run.s.value_gate.margin, "practitioners": tuned})
    windows = [
        w._replace(policies={**row["policies"], "value": w.policies["uc"]})
        for w, row in zip(windows_of(rows, "validation", chosen), sort_rows(rows), strict=True)
    ]
    clusters = {(row["family"], row["series"]): str(row["cluster"]) for row in rows}
    whole = dict.fromkeys(arguments.items, 1.0)
    for family in sorted(run.protocol.families):
        print(f"{family}:")
        for opponent, floor in floors.items():
            found = value_deltas(windows, family, opponent, run.protocol)
            x = np.array(list(found.values()))
            names = [clusters[family, s] for s in found]
            said = []
            for count in arguments.items:
                size = min(count, arguments.samplers) if opponent in TIMED else count
                sure, doubted = (_passes(x, names, size, floor, doubt=doubt) for doubt in (False, True))
                whole[count] *= doubted
                said.append(f"{size} items: {sure:.2f}, with doubt {doubted:.2f}")
            error = x.std(ddof=1) / np.sqrt(len(x))
            mean = f"{x.mean():+.4f} (error {error:.4f}, {len(x)} items)"
            print(f"  {opponent:22} {mean}, asked > {floor:g}; {'; '.join(said)}")
    for count, share in whole.items():
        print(f"all bounds at {count} items a family, as if they were independent: {share:.3f}")


def _passes(x: Any, clusters: Sequence[str], size: int, floor: float, *, doubt: bool) -> float:
    """Share of draws of `size` items whose lower bound is above the floor."""
    rng = np.random.default_rng(1)
    passed = 0
    for _ in range(RUNS):
        truth = rng.integers(0, len(x), len(x)) if doubt else np.arange(len(x))
        at = truth[rng.integers(0, len(x), size)]
        drawn = x[at]
        low = drawn.mean() - student_quantile(LEVEL, size - 1) * drawn.std(ddof=1) / np.sqrt(size)
        by_cluster = cluster_lower(drawn.tolist(), [clusters[i] for i in at])
        passed += min(low, low if by_cluster is None else by_cluster) > floor
    return passed / RUNS


if __name__ == "__main__":
    main()
