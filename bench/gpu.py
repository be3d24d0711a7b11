"""`python -m bench.gpu`: the benchmark's panel on one GPU, kernel and end to end, beside the CPU's bytes and mctx.

Prints microseconds a window and the share of optimal first actions. mctx runs on the same GPU where it
and jax are installed with one; else a line says so. Figures go to bench/out/gpu.json.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import ucsearch as uc
from bench.inventory import Problem, first_windows, inventory, make_problem, policies
from bench.peers.common import make_instances
from ucsearch.engine.cuda import engine as cuda_engine
from ucsearch.engine.cuda import stream as streaming
from ucsearch.engine.cuda.device import find_cuda
from ucsearch.tasks import CapacityPlan, LeadTimeInventory, Storage

DEPTH = 6
NAMES = ("beam, by score (B 8, k 3)", "beam, by bound (B 1, k 2)", "exact, certified")
COMPARED = 262_144  # windows whose bytes are held against the CPU's
SIMULATIONS = 16


def rough(windows: int) -> Problem:
    """Decimal costs and demands: sums that round, so fused operations would show."""
    made = make_instances(11, windows, DEPTH)
    rng = np.random.default_rng(3)
    demand = np.maximum(made["members"] + rng.normal(0.0, 0.37, made["members"].shape), 0.0)
    costs = dict(unit_cost=0.37, holding=0.83, shortage=9.1, capacity=20.3, ramp=3.1)
    task = LeadTimeInventory(lead_time=2, order_sizes=inventory().order_sizes, **costs).task()
    states = task.state(made["on_hand"] * 0.97, (made["pipeline"][:, 0], made["pipeline"][:, 1]), made["last"])
    return Problem(DEPTH, task, states, uc.Trace.from_members(demand, np.array([0.31, 0.17, 0.23, 0.29])), made)


def on_gpu(problem: Problem, policy: Any) -> Any:
    return uc.search_panel(problem.task, problem.states, problem.trace, policy, engine="cuda")


def equality(problem: Problem, policy: Any) -> str:
    """Every byte of the first windows against the compiled engine on the CPU."""
    there = on_gpu(problem, policy)
    here = uc.search_panel(problem.task, problem.states, problem.trace, policy, engine="compiled")
    differ = [
        n
        for n, a, b in zip(here.outputs._fields, here.outputs, there.outputs, strict=True)
        if a.tobytes() != b.tobytes()
    ]
    return "equal" if not differ else f"DIFFER in {', '.join(differ)}"


def kernel_seconds(problem: Problem, policy: Any, windows: int, repeats: int) -> tuple[float, int]:
    """Median of the kernel alone, its arrays already on the device; and how many windows it leaves to the CPU."""
    cuda = find_cuda()
    plan = on_gpu(problem, policy)
    kernel = cuda_engine._kernel(problem.task, plan.layout, plan.settings, plan.inputs, False)
    launch = streaming.Launch(cuda, kernel.entry, plan.settings)
    ready = cuda_engine._rows(problem.task, plan.inputs)
    inputs = [cuda.to_device(np.ascontiguousarray(x)) for x in ready]
    outputs = [cuda.device_array(x.shape if len(x) else (1, 1, 1), x.dtype) for x in plan.outputs]
    stream, times = cuda.stream(), []
    for _ in range(repeats + 1):
        start, end = cuda.event(), cuda.event()
        start.record(stream)
        launch(stream, inputs, outputs, windows)
        end.record(stream)
        end.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return statistics.median(times[1:]), int((outputs[0].copy_to_host()[:, 0] < 0).sum())


def end_to_end(problem: Problem, policy: Any, repeats: int) -> float:
    times, rows = [], on_gpu(first_windows(problem, 1), policy).layout.rows(problem.states, "states")
    for _ in range(repeats):
        start = time.perf_counter()
        uc.search_panel(problem.task, rows, problem.trace, policy, engine="cuda")
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def certificates(problem: Problem, policy: Any) -> dict[str, Any]:
    """Search and proofs on the GPU and on the CPU: seconds, and whether every figure has the same bytes."""
    found, seconds = {}, {}
    for engine in ("cuda", "compiled"):
        for _ in range(2):  # the first one compiles
            start = time.perf_counter()
            found[engine] = uc.certify_panel(
                problem.task, problem.states, problem.trace, policy, run=uc.Run(engine=engine)
            )
            seconds[engine] = time.perf_counter() - start
    a, b = found["cuda"], found["compiled"]
    pairs = [*zip(a.evidence, b.evidence, strict=True), *zip(a.claims, b.claims, strict=True)]
    pairs += [(a.released, b.released), (a.paths, b.paths), (a.upper_paths, b.upper_paths)]
    same = all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in pairs)
    us = {f"{engine} us": s / len(a) * 1e6 for engine, s in seconds.items()}
    return {"equal": same, "passed": a.rates()["passed"], **us}


def other_tasks(windows: int) -> dict[str, str]:
    """Tasks that the kernels were not built on: a battery, capacity, packs with a fixed cost planned by member."""
    rng = np.random.default_rng(17)
    price = np.round(rng.normal(50.0, 20.0, (windows, 3, DEPTH)), 2)
    load = np.round(rng.gamma(4.0, 5.0, (windows, 3, DEPTH)), 1)
    battery, plant = Storage(), CapacityPlan()
    packs = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 6.0, 12.0, 24.0), unit_cost=0.3, fixed_cost=7.5)
    beam = dict(depth=DEPTH, risk=0.2, width=4, top_k=3)
    cases = {
        "battery": (battery, battery.state(2.0), price, uc.UCBeam(**beam)),
        "capacity": (plant, plant.state(4), load, uc.UCBeam(**beam)),
        "packs, by member": (
            packs,
            packs.state(8.0, (6.0,)),
            load,
            uc.UCBeam(**beam, mode="members", spread="downside"),
        ),
    }
    out = {}
    for name, (config, start, outcomes, policy) in cases.items():
        task = config.task()
        problem = Problem(DEPTH, task, [start] * windows, uc.Trace.from_members(outcomes), {})
        try:
            out[name] = equality(problem, policy)
        except uc.InputError as error:
            out[name] = f"refused: {error}"
    return out


def optimal_share(problem: Problem, policy: Any, windows: int) -> float:
    """Of first actions (where there is a path at all), against every first action's exact value by the CPU."""
    exact = uc.search_panel(
        problem.task, problem.states, problem.trace, uc.Exact(depth=DEPTH, risk=policy.risk, every_action=True),
        engine="compiled",
    )  # fmt: skip
    first = on_gpu(problem, policy).outputs.out_i[:, 1]
    return share(exact.outputs.table[:, :, 0], first)


def share(values: np.ndarray, first: np.ndarray) -> float:
    solvable = ~np.isnan(values).all(axis=1)
    values, first = values[solvable], first[solvable]
    best = np.nanmax(values, axis=1)
    got = np.where(first >= 0, np.take_along_axis(values, np.maximum(first, 0)[:, None], axis=1)[:, 0], -np.inf)
    return float(np.mean(got >= best - 1e-9 * np.abs(best)))


def mctx_on_gpu(windows: int, batches: tuple[int, ...], values: np.ndarray) -> list[dict[str, Any]] | str:
    """mctx on the same panel, float32, arrays on the host before and after."""
    if importlib.util.find_spec("jax") is None or importlib.util.find_spec("mctx") is None:
        return "jax or mctx is not installed"
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    if jax.default_backend() != "gpu":
        return f"jax runs on {jax.default_backend()!r} here, not on a GPU"
    sys.path.insert(0, str(Path(__file__).parent / "peers"))
    import common

    common.single_thread = lambda: None  # the peer's own runs are held to one core of the CPU
    import run_mctx

    made, rows = make_instances(7, windows, DEPTH), []
    model = run_mctx.Model(made, "bound", "lookahead")
    act = jax.jit(functools.partial(model.act, policy="gumbel", sims=SIMULATIONS))
    names = ("members", "on_hand", "pipeline", "last")
    panel = [np.ascontiguousarray(made[name], dtype=np.float32) for name in names]
    for batch in batches:
        parts = range(0, windows - batch + 1, batch)
        key, times = jax.random.PRNGKey(0), []
        for _ in range(4):
            start = time.perf_counter()
            first = np.concatenate([np.asarray(act(*(x[i : i + batch] for x in panel), key)) for i in parts])
            times.append(time.perf_counter() - start)
        us = statistics.median(times[1:]) / len(first) * 1e6
        rows.append({"batch": batch, "us": us, "optimal": share(values[: len(first)], first)})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=__doc__)
    parser.add_argument("--windows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--compared", type=int, default=COMPARED)
    parser.add_argument("--exact-up-to", type=int, default=1_000_000, help="windows of the exact search")
    opt = parser.parse_args()
    cuda = find_cuda()
    device = cuda.get_current_device()
    results: dict[str, Any] = {"device": str(getattr(device, "name", device)), "depth": DEPTH, "rows": []}
    few, ragged = make_problem(opt.compared, DEPTH), rough(opt.compared)
    for name in NAMES:
        policy = policies(DEPTH)[name]
        start = time.perf_counter()
        on_gpu(make_problem(256, DEPTH), policy)
        row = {"policy": name, "first use, s": time.perf_counter() - start}
        row |= {"smooth": equality(few, policy), "rough": equality(ragged, policy)}
        row["optimal"] = optimal_share(few, policy, opt.compared)
        print(row, flush=True)
        results["rows"].append(row)
    results["certificates"] = certificates(few, policies(DEPTH)[NAMES[1]])
    print("certificates of the beam by bound:", results["certificates"], flush=True)
    results["other tasks"] = other_tasks(min(opt.compared, 20_000))
    print("other tasks:", results["other tasks"], flush=True)
    for windows in opt.windows:
        problem = make_problem(windows, DEPTH)
        for row in results["rows"]:
            if row["policy"] == NAMES[2] and windows > opt.exact_up_to:
                continue
            policy = policies(DEPTH)[row["policy"]]
            seconds, left = kernel_seconds(problem, policy, windows, opt.repeats)
            whole = end_to_end(problem, policy, min(3, opt.repeats))
            row[f"{windows:,}"] = {
                "kernel us": seconds / windows * 1e6, "end to end us": whole / windows * 1e6,
                "decisions a second": windows / whole, "left to the CPU": left,
            }  # fmt: skip
            print(windows, row["policy"], row[f"{windows:,}"], flush=True)
    every = uc.Exact(depth=DEPTH, risk=policies(DEPTH)[NAMES[0]].risk, every_action=True)
    values = uc.search_panel(few.task, few.states, few.trace, every, engine="compiled").outputs.table[:, :, 0]
    results["mctx"] = mctx_on_gpu(opt.compared, (16_384, 65_536, 262_144), values)
    print("mctx, 16 simulations, float32:", results["mctx"], flush=True)
    out = Path("bench/out")
    out.mkdir(exist_ok=True)
    (out / "gpu.json").write_text(json.dumps(results, indent=1, default=float))


if __name__ == "__main__":
    main()
