"""CEM and MPPI against pytorch-icem and pytorch-mppi: first-action regret at equal sample counts.

The benchmark's inventory problem, on a panel that no setting was chosen on. The peers plan real numbers that are moved
to the nearest feasible order size, and run in an environment of their own (`make bench`).
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from bench.inventory import RISK, make_problem
from bench.peers_run import regret
from ucsearch.lab.comparators import CEM, MPPI, key_from

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-peers" / "bin" / "python"
WINDOWS, DEPTH, SEED, ITERATIONS = 240, 6, 2026, 5

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.exists(), reason="the peers are not installed; run `make bench`"),
]


@pytest.fixture(scope="module")
def problem() -> Any:
    return make_problem(WINDOWS, DEPTH, seed=SEED)


@pytest.fixture(scope="module")
def values(problem: Any) -> np.ndarray:
    """(W, m) exact value of every first action."""
    policy = uc.Exact(depth=DEPTH, risk=RISK, every_action=True)
    plan = uc.search_panel(problem.task, problem.states, problem.trace, policy, engine="compiled")
    return np.asarray(plan.outputs.table[:, :, 0])


def peer_regret(script: str, samples: int, problem: Any, values: np.ndarray, place: Path, *options: str) -> float:
    np.savez(place / "panel.npz", **problem.instances)
    command = [str(PYTHON), "-W", "ignore", script, str(place / "panel.npz"), str(place / "out.json"), *options]
    command += ["--limit", str(WINDOWS), "--repeats", "1", "--samples", str(samples), "--iterations", str(ITERATIONS)]
    subprocess.run(command, cwd=ROOT / "bench" / "peers", check=True, capture_output=True)
    result = json.loads((place / "out.json").read_text())
    return regret(values, np.array(result["first_action_index"]))[1]


@pytest.mark.parametrize("samples", [32, 256])
@pytest.mark.parametrize(
    ("kind", "script", "options"), [(CEM, "run_icem.py", ()), (MPPI, "run_mppi.py", ("--batch", "16"))]
)
def test_regret_is_no_worse_at_equal_samples(
    kind: Any, script: str, options: tuple[str, ...], samples: int, problem: Any, values: np.ndarray, tmp_path: Path
) -> None:
    theirs = peer_regret(script, samples, problem, values, tmp_path, *options)
    rng = np.random.default_rng(0)
    ours = []
    for _ in range(10):
        policy = kind(depth=DEPTH, risk=RISK, samples=samples * ITERATIONS, iterations=ITERATIONS, seed=key_from(rng))
        plan = uc.search_panel(problem.task, problem.states, problem.trace, policy, engine="compiled")
        assert plan.expansions.max() <= samples * ITERATIONS * DEPTH
        ours.append(regret(values, plan.outputs.out_i[:, 1])[1])
    print(f"{kind.__name__} {samples} x {ITERATIONS}: {np.mean(ours):.5f}, peer {theirs:.5f}")
    assert np.mean(ours) <= theirs
