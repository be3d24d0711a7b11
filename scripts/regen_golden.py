"""Write tests/golden: what exact and beam search decide on small fixed cases of every built-in task (tasks.json), and
what whole runs come to (runs.json: mini suites, decide, backtest).

Run it after a deliberate change of rules, of a search or of a comparator, and read the difference before committing it:

    python scripts/regen_golden.py            # tasks, jobs and smaller suites; the whole suites of runs.json stay
    python scripts/regen_golden.py --all      # every mini suite too: minutes
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ucsearch as uc
from scripts import golden_runs
from ucsearch.tasks import TASKS

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden"
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


def write_runs(everything: bool) -> None:
    """runs.json; suites that were not run keep what is there."""
    path = GOLDEN / "runs.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"suites": {}}
    names = golden_runs.SUITES if everything else ()
    whole = {**kept["suites"], **golden_runs.suites(names)}
    found = {**golden_runs.jobs(), "smaller": golden_runs.smaller_suites(), "suites": whole}
    path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    (GOLDEN / "tasks.json").write_text(text_of(decisions()), encoding="utf-8")
    write_runs("--all" in sys.argv[1:])
    print(f"wrote {GOLDEN}")
