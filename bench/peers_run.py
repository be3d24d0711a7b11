"""Run the peers in their own environment on the same instances, and score what they chose against exact values."""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

PEERS = {
    "mctx, 16 simulations, batch 1024": ("run_mctx.py", 4096, []),
    "mctx, 16 simulations, base-stock prior": ("run_mctx.py", 4096, ["--prior", "basestock"]),
    "pytorch-mppi 1024 x 5": ("run_mppi.py", 240, []),
    "pytorch-icem 256 x 5": ("run_icem.py", 240, []),
    "CP-SAT, one worker": ("run_cpsat.py", 24, []),
    "CP-SAT, one worker, tuned": ("run_cpsat.py", 24, ["--tuned"]),
}


def run_peers(python: Path, instances: dict[str, Any], repeats: int = 3) -> dict[str, dict[str, Any]]:
    """Result of each peer script by name; a peer that fails is reported with its last line of error."""
    out: dict[str, dict[str, Any]] = {}
    folder = Path(__file__).parent / "peers"
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "instances.npz"
        np.savez(file, **instances)
        for name, (script, limit, options) in PEERS.items():
            result = Path(place) / "result.json"
            result.unlink(missing_ok=True)
            command = [str(python), "-W", "ignore", script, str(file), str(result), "--repeats", str(repeats)]
            done = subprocess.run(
                [*command, "--limit", str(limit), *options], cwd=folder, capture_output=True, text=True, check=False
            )
            if done.returncode != 0 or not result.exists():
                last = (done.stderr.strip().splitlines() or ["no message"])[-1]
                out[name] = {"error": last}
                continue
            out[name] = json.loads(result.read_text())
    return out


def regret(values: np.ndarray, first: np.ndarray) -> tuple[float, float]:
    """Share of optimal first actions and mean regret, over windows in which some action has a completion.

    `values` (W, m) exact, NaN where an action has none; a missing or dead choice counts as the worst action.
    """
    alive = ~np.isnan(values).all(axis=1)
    best = np.nanmax(np.where(alive[:, None], values, 0.0), axis=1)
    worst = np.nanmin(np.where(alive[:, None], values, 0.0), axis=1)
    chosen = np.where(first >= 0, values[np.arange(first.size), np.maximum(first, 0)], np.nan)
    loss = best - np.where(np.isnan(chosen), worst, chosen)
    return float(np.mean(loss[alive] <= 1e-9 * (1 + np.abs(best[alive])))), float(loss[alive].mean())
