"""Instances, oracle, timing and scoring shared by the peer scripts.

Lost-sales inventory, lead time 2, planned in mean mode: W windows, J members, H steps, m order sizes.
This file is written from the formulas alone, so that it also serves as an independent check.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Instances = dict[str, Any]

ARRAYS = ("on_hand", "pipeline", "last", "members", "actions")
SCALARS = ("capacity", "ramp", "unit", "holding", "shortage", "price", "lam", "depth")
NONE_FOUND = -1  # first action index of a peer that found no feasible action


def make_instances(seed: int, windows: int, depth: int) -> Instances:
    """Random instances; every number is a multiple of 0.25, so member means lie on a grid of 1/16."""
    rng = np.random.default_rng(seed)
    capacity = 20.0
    on_hand = rng.integers(0, 11, windows).astype(float)
    pipeline = rng.integers(0, 7, (windows, 2)).astype(float)
    # 10 + 6 + 6 may exceed the capacity: such starts give up stock on hand.
    on_hand = np.minimum(on_hand, capacity - pipeline.sum(axis=1))
    phase = rng.integers(0, 7, windows)[:, None] + np.arange(depth)
    mean = 4.0 + 1.5 * np.sin(2.0 * np.pi * phase / 7.0)  # (W, H), weekly season
    noise = rng.normal(0.0, 1.5, (windows, 4, depth))
    members = np.round(np.maximum(mean[:, None, :] + noise, 0.0) * 4.0) / 4.0
    return {
        "on_hand": on_hand, "pipeline": pipeline, "last": pipeline[:, 1].copy(), "members": members,
        "actions": np.arange(9.0), "capacity": capacity, "ramp": 3.0, "unit": 0.5, "holding": 1.0,
        "shortage": 9.0, "price": 0.0, "lam": 0.25, "depth": depth,
    }  # fmt: skip


def load_instances(path: str | Path, limit: int | None = None) -> Instances:
    """Read and check an instance file; keep the first `limit` windows."""
    with np.load(path) as data:
        missing = [key for key in (*ARRAYS, *SCALARS) if key not in data]
        if missing:
            raise ValueError(f"{path}: saw no {', '.join(missing)}, expected {', '.join((*ARRAYS, *SCALARS))}")
        inst: Instances = {key: np.asarray(data[key], dtype=float) for key in ARRAYS}
        inst |= {key: float(data[key]) for key in SCALARS}
    inst["depth"] = int(inst["depth"])
    windows = len(inst["on_hand"])
    expected = {"on_hand": (windows,), "pipeline": (windows, 2), "last": (windows,)}
    for key, shape in expected.items():
        if inst[key].shape != shape:
            raise ValueError(f"{key}: saw shape {inst[key].shape}, expected {shape}")
    members = inst["members"].shape
    if len(members) != 3 or members[0] != windows or members[2] < inst["depth"] or inst["depth"] < 1:
        raise ValueError(f"members: saw shape {members}, expected ({windows}, J, H) with H >= depth >= 1")
    for key in (*ARRAYS, *SCALARS):
        if not np.all(np.isfinite(inst[key])):
            raise ValueError(f"{key}: saw a non-finite number, expected finite numbers")
    if not np.all(np.diff(inst["actions"]) > 0):
        raise ValueError("actions: expected strictly ascending order sizes")
    if limit is not None:
        if limit < 1:
            raise ValueError(f"limit: saw {limit}, expected at least 1")
        for key in ("on_hand", "pipeline", "last", "members"):
            inst[key] = inst[key][:limit]
    return inst


def window(inst: Instances, i: int) -> Instances:
    """One window of a panel, without the leading axis."""
    rows = ("on_hand", "pipeline", "last", "members")
    return {key: value[i] if key in rows else value for key, value in inst.items()}


def stock_value(avail: Array, members: Array, p: Instances) -> Array:
    """Edge value without the order cost: g = stock_value(avail) - unit * a. The order cost is the same
    for every member, so the spread u depends on the available stock only.

    avail: any shape; members: (J,) demand of one step.
    """

    def money(y: Any) -> Array:
        sold = np.minimum(avail[..., None], y)
        left, lost = avail[..., None] - sold, y - sold
        return np.asarray(p["price"] * sold - p["holding"] * left - p["shortage"] * lost)

    spread = money(members).std(axis=-1)
    return np.asarray(money(members.mean()[None])[..., 0] - p["lam"] * spread)


def first_action_values(one: Instances) -> Array:
    """Exact value of every first action of one window, shape (m,); -inf where no depth-d path exists.

    Plain enumeration up to depth 3, the same recursion with a memo beyond.
    """
    depth, actions, unit = int(one["depth"]), one["actions"].tolist(), float(one["unit"])
    mean = one["members"].mean(axis=0).tolist()
    memo: dict[tuple[float, ...], float] | None = {} if depth > 3 else None
    stock_memo: dict[tuple[int, float], float] = {}

    def stock(h: int, avail: float) -> float:
        key = (h, avail)
        if key not in stock_memo:
            stock_memo[key] = float(stock_value(np.array(avail), one["members"][:, h], one))
        return stock_memo[key]

    def edge(h: int, on_hand: float, p0: float, p1: float, last: float, a: float) -> float:
        if not (on_hand + p0 + p1 + a <= one["capacity"] and abs(a - last) <= one["ramp"]):
            return -np.inf
        avail = on_hand + p0
        return stock(h, avail) - unit * a + best(h + 1, max(avail - mean[h], 0.0), p1, a, a)

    def best(h: int, on_hand: float, p0: float, p1: float, last: float) -> float:
        if h == depth:
            return 0.0
        key = (h, on_hand, p0, p1, last)
        if memo is not None and key in memo:
            return memo[key]
        value = max(edge(h, on_hand, p0, p1, last, a) for a in actions)
        if memo is not None:
            memo[key] = value
        return value

    on_hand, last = float(one["on_hand"]), float(one["last"])
    p0, p1 = one["pipeline"].tolist()
    return np.array([edge(0, on_hand, p0, p1, last, a) for a in actions])


def score(inst: Instances, first: list[int]) -> dict[str, float]:
    """Share of optimal first actions and mean regret over windows that have a feasible path at all."""
    optimal = infeasible = live = 0
    regrets = []
    for i, index in enumerate(first):
        values = first_action_values(window(inst, i))
        top = values.max()
        if not np.isfinite(top):
            continue
        live += 1
        if index == NONE_FOUND or not np.isfinite(values[index]):
            infeasible += 1
            continue
        regrets.append(float(top - values[index]))
        optimal += regrets[-1] <= 1e-9 * (1.0 + abs(top))
    return {
        "windows": len(first), "live": live, "optimal_share": optimal / max(live, 1),
        "mean_regret": float(np.mean(regrets)) if regrets else 0.0, "infeasible": infeasible,
    }  # fmt: skip


def single_thread() -> None:
    """Call before importing jax or torch: one core, and one thread in every pool that reads a setting."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NPROC", "PJRT_NPROC"):
        os.environ[name] = "1"
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["JAX_PLATFORMS"] = "cpu"
    if hasattr(os, "sched_setaffinity"):  # the only limit that no library can overlook
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


@dataclass(frozen=True)
class Timing:
    us_per_window: list[float]  # wall clock, one per repeat
    cpu_us_per_window: list[float]  # processor time; below wall on a busy machine
    first: list[int]  # (W,) indices into actions, NONE_FOUND where none


def measure(solve: Callable[[], list[int]], windows: int, repeats: int) -> Timing:
    """Time `solve` over all windows; one call beforehand compiles and warms up and is not counted."""
    if repeats < 1:
        raise ValueError(f"repeats: saw {repeats}, expected at least 1")
    first = solve()
    wall, cpu = [], []
    for _ in range(repeats):
        start, start_cpu = time.perf_counter(), time.process_time()
        first = solve()
        wall.append((time.perf_counter() - start) * 1e6 / windows)
        cpu.append((time.process_time() - start_cpu) * 1e6 / windows)
    return Timing(wall, cpu, first)


def parser(doc: str | None, limit: int | None, repeats: int) -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(description=doc)
    out.add_argument("instances", help="npz file with the panel")
    out.add_argument("out", help="json file to write")
    out.add_argument("--repeats", type=int, default=repeats)
    out.add_argument("--limit", type=int, default=limit, help="first N windows only")
    out.add_argument("--seed", type=int, default=0)
    return out


def write(path: str, peer: str, settings: dict[str, Any], timing: Timing, notes: str, **extra: Any) -> None:
    median = statistics.median(timing.us_per_window)
    cpu = statistics.median(timing.cpu_us_per_window)
    record = {
        "peer": peer, "version": version(peer), "settings": settings, "windows": len(timing.first),
        "median_us_per_window": median, "repeats": timing.us_per_window,
        "median_cpu_us_per_window": cpu, "first_action_index": timing.first, "notes": notes, **extra,
    }  # fmt: skip
    Path(path).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"{peer} {version(peer)}: {median:.1f} us per window, {cpu:.1f} of processor time")


def main() -> None:
    """`make FILE` writes a panel; `score FILE RESULT...` compares results with the oracle."""
    top = argparse.ArgumentParser(description=main.__doc__)
    sub = top.add_subparsers(dest="command", required=True)
    make = sub.add_parser("make")
    make.add_argument("file")
    make.add_argument("--seed", type=int, default=0)
    make.add_argument("--windows", type=int, default=1024)
    make.add_argument("--depth", type=int, default=3)
    check = sub.add_parser("score")
    check.add_argument("file")
    check.add_argument("results", nargs="+")
    args = top.parse_args()
    if args.command == "make":
        np.savez(args.file, **make_instances(args.seed, args.windows, args.depth))
        return
    for name in args.results:
        result = json.loads(Path(name).read_text(encoding="utf-8"))
        first = result["first_action_index"]
        row = score(load_instances(args.file, len(first)), first)
        print(
            f"{result['peer']:14s} {result['median_us_per_window']:10.1f} us"
            f" ({result['median_cpu_us_per_window']:.1f} of processor)"
            f"  optimal {row['optimal_share']:.3f}  regret {row['mean_regret']:.4f}"
            f"  infeasible {row['infeasible']}  of {row['live']} live"
        )


if __name__ == "__main__":
    main()
