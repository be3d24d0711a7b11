"""Print the benchmark table, check it against the project's targets, and keep the figures in bench/out."""

from __future__ import annotations

import argparse
import dataclasses
import json
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import ucsearch as uc
from bench import audit_bench, forecast_bench
from bench.inventory import Problem, first_windows, make_problem, policies, samplers
from bench.peers_run import PEERS, regret, run_peers
from bench.timing import in_process, interleaved, startup
from ucsearch.decision.final_check import final_check
from ucsearch.engine import PanelPlan

OUT = Path(__file__).parent / "out"
ICEM, PYTORCH_MPPI = "pytorch-icem 256 x 5", "pytorch-mppi 1024 x 5"
SLOW_PEERS = PEERS[ICEM][1]  # windows they are run on
PLAIN, BOUND, EXACT = "beam, by score (B 8, k 3)", "beam, by bound (B 4, k 3)", "exact, certified"


def panel(problem: Problem, policy: Any, threads: int, engine: str = "compiled") -> PanelPlan:
    return uc.search_panel(problem.task, problem.states, problem.trace, policy, threads=threads, engine=engine)


def searches(depth: int, windows: int, repeats: int) -> dict[str, Any]:
    """Microseconds per decision and first-action regret of our policies, and of certifying them."""
    problem, few = make_problem(windows, depth), make_problem(200, depth)
    named = policies(depth)
    jobs: dict[str, Callable[[], Any]] = {
        name: lambda policy=policy: panel(problem, policy, 1) for name, policy in named.items()
    }
    jobs["2 threads"] = lambda: panel(problem, named[PLAIN], 2)
    for kind in ("bound", "oracle"):
        jobs[f"certify, kind {kind}"] = lambda kind=kind: uc.certify_panel(
            problem.task,
            problem.states,
            problem.trace,
            named[PLAIN],
            run=uc.Run(threads=1, engine="compiled"),
            proof=uc.Proof(kind=kind),
        )
    seconds = interleaved(jobs, repeats)
    plain = interleaved({"python": lambda: panel(few, named[PLAIN], 1, "python")}, 3)["python"] / 200
    every = dataclasses.replace(named[EXACT], every_action=True)
    values = panel(problem, every, 2).outputs.table[:, :, 0]
    rows = {}
    for name in named:
        optimal, loss = regret(values, panel(problem, named[name], 2).outputs.out_i[:, 1])
        rows[name] = {"us": seconds[name] / windows * 1e6, "optimal": optimal, "regret": loss}
    rows |= sampled(first_windows(problem, SLOW_PEERS), values[:SLOW_PEERS], repeats)
    rows["python engine"] = {"us": plain * 1e6, "optimal": rows[PLAIN]["optimal"], "regret": rows[PLAIN]["regret"]}
    for name in ("2 threads", "certify, kind bound", "certify, kind oracle"):
        rows[name] = {"us": seconds[name] / windows * 1e6}
    return {"rows": rows, "values": values, "instances": problem.instances}


def sampled(problem: Problem, values: np.ndarray, repeats: int) -> dict[str, dict[str, float]]:
    """CEM and MPPI with the peers' sample counts on the windows the peers get, averaged over keys."""
    rows = {}
    for name, keyed in samplers(problem.depth).items():
        seconds = interleaved({name: lambda keyed=keyed: panel(problem, keyed[0], 1)}, repeats)[name]
        found = [regret(values, panel(problem, policy, 1).outputs.out_i[:, 1]) for policy in keyed]
        optimal, loss = np.mean(found, axis=0)
        rows[name] = {"us": seconds / len(values) * 1e6, "optimal": float(optimal), "regret": float(loss)}
    return rows


def rule_checks() -> dict[str, float]:
    """Microseconds that asking the plain rules costs: the final check per release, captured constants per call."""
    problem = make_problem(2000, 7)
    certified = uc.certify_panel(
        problem.task,
        problem.states,
        problem.trace,
        policies(7)[PLAIN],
        run=uc.Run(threads=1, engine="compiled"),
        proof=uc.Proof(kind="bound"),
    )
    released = certified.released >= 0

    def thousand() -> None:
        for _ in range(1000):
            problem.task.identity.changed()

    plan, p = certified.plan, certified.plan.start(0).params
    feasible, step, reward = problem.task.feasible, problem.task.step, problem.task.reward
    mean = plan.inputs.mean[:, :, 0].tolist()

    def bare() -> None:
        for w in np.flatnonzero(released).tolist():
            start = plan.start(w)
            state = start.state
            for i, y in zip(certified.paths[w, certified.released[w]].tolist(), mean[w], strict=True):
                a = start.actions[i]
                feasible(state, a, p)
                reward(state, a, y, p)
                state = step(state, a, y, p)

    jobs = {"look": lambda: final_check(certified, released), "bare": bare, "constants": thousand}
    seconds, count = interleaved(jobs, 5), int(released.sum())
    return {
        "final check": seconds["look"] / count * 1e6,
        "rules alone": seconds["bare"] / count * 1e6,
        "constants": seconds["constants"] / 1000 * 1e6,
    }


def users_copy() -> dict[str, float]:
    """Time of a panel under a user's own copy of the inventory rules against the library's, by policy."""
    problem = make_problem(2000, 6)
    roles = ("feasible", "step", "reward", "fallback", "terminal", "prepare", "bound")
    own = dataclasses.replace(problem.task, **{role: _copied(getattr(problem.task, role)) for role in roles})
    ratios = {}
    for name in (PLAIN, BOUND):
        jobs = {
            who: lambda task=task, name=name: panel(dataclasses.replace(problem, task=task), policies(6)[name], 1)
            for who, task in (("user", own), ("library", problem.task))
        }
        seconds = interleaved(jobs, 7)
        ratios[name] = seconds["user"] / seconds["library"]
    return ratios


def _copied(function: Any) -> Any:
    if function is None:
        return None
    return types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )


def single_calls() -> dict[str, float]:
    """Microseconds of one `uc.search` through the public API on a prepared trace, compiled and warm."""
    out = {}
    for depth in (3, 6):
        problem = make_problem(1, depth)
        state, trace = problem.task.state(3.0, (2.0, 2.0), 2.0), problem.trace.window(0)
        for name in (PLAIN, EXACT):
            policy = policies(depth)[name]

            def thousand(state: Any = state, trace: Any = trace, policy: Any = policy, p: Any = problem) -> None:
                for _ in range(1000):
                    uc.search(p.task, state, trace, policy, engine="compiled")

            out[f"{name}, d = {depth}"] = interleaved({"x": thousand}, 7)["x"] * 1e3
    return out


def growth(windows: int) -> dict[str, float]:
    """Cost of four times the windows and of four times the members, as ratios (linear is 4)."""
    jobs = {}
    sizes = {"W": (windows // 4, 4), "4 W": (windows, 4), "J": (windows // 4, 8), "4 J": (windows // 4, 32)}
    for name, (count, members) in sizes.items():
        problem = make_problem(count, 6, members=members)
        jobs[name] = lambda problem=problem: panel(problem, policies(6)[PLAIN], 1)
    seconds = interleaved(jobs, 5)
    return {"windows x 4": seconds["4 W"] / seconds["W"], "members x 4": seconds["4 J"] / seconds["J"]}


def memory(windows: int) -> float:
    """Megabytes a panel run takes at its peak beyond its inputs and outputs."""
    code = f"""
import json, resource
from bench.__main__ import PLAIN, panel
from bench.inventory import make_problem, policies
warm = panel(make_problem(1, 6), policies(6)[PLAIN], 2)
problem = make_problem({windows}, 6)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
plan = panel(problem, policies(6)[PLAIN], 2)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
size = sum(x.nbytes for x in plan.outputs)
print(json.dumps((after - before) / 1024 - size / 2**20))
"""
    return float(in_process(code))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--windows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--no-peers", action="store_true")
    arguments = parser.parse_args()
    console = Console()
    peers_python = Path(".venv-peers/bin/python")
    results: dict[str, Any] = {}
    for depth in (3, 6):
        with console.status(f"searches, depth {depth}"):
            found = searches(depth, arguments.windows, arguments.repeats)
        rows = found["rows"]
        if not arguments.no_peers and peers_python.exists():
            with console.status(f"peers, depth {depth} (several minutes)"):
                for name, peer in run_peers(peers_python.absolute(), found["instances"]).items():
                    if "error" in peer:
                        rows[name] = {"error": peer["error"]}
                        continue
                    first = np.array(peer["first_action_index"])
                    optimal, loss = regret(found["values"][: first.size], first)
                    rows[name] = {"us": peer["median_us_per_window"], "optimal": optimal, "regret": loss}
        results[f"d = {depth}"] = rows
        console.print(_search_table(depth, rows))
    with console.status("single calls, growth, memory, start-up, log, forecasts"):
        results["single call, us"] = single_calls()
        results["asking the rules, us"] = rule_checks()
        results["a user's copy"] = users_copy()
        results["growth"] = growth(arguments.windows // 2)
        results["memory beyond inputs and outputs, MB"] = memory(arguments.windows)
        results["start-up, s"] = startup()
        results["audit log"] = audit_bench.run()
        results["forecasts"] = forecast_bench.run(series=1_000, origins=24)
    checks = targets(results)
    console.print(_target_table(checks))
    OUT.mkdir(exist_ok=True)
    body = {"results": results, "targets": [dataclasses.asdict(c) for c in checks]}
    (OUT / "results.json").write_text(json.dumps(body, indent=1, default=float))
    console.print(
        "Machines differ and share their cores: compare ratios inside one run. Figures: bench/out/results.json"
    )
    for check in checks:
        if check.met is False and check.note:
            console.print(f"[yellow]{check.what}[/]: {check.note}")


@dataclasses.dataclass(frozen=True)
class Check:
    what: str
    measured: float
    operator: str
    target: float
    met: bool | None  # None: not measured here
    note: str = ""


def targets(results: dict[str, Any]) -> list[Check]:
    """The project's promises against this run."""
    three, six = results["d = 3"], results["d = 6"]
    starts, single = results["start-up, s"], results["single call, us"]

    def us(rows: dict[str, Any], name: str) -> float:
        return float(rows.get(name, {}).get("us", float("nan")))

    def lost(name: str) -> float:
        return float(six.get(name, {}).get("regret", float("nan")))

    mctx = "mctx, 16 simulations, batch 1024"
    bound_regret = six["beam, by bound (B 4, k 3)"]["regret"]
    mctx_regret = six.get(mctx, {}).get("regret", float("nan"))
    found = [
        ("compiled beam against Python engine, d = 3", us(three, "python engine") / us(three, PLAIN), ">=", 60, ""),
        ("mctx against beam, d = 6", us(six, mctx) / us(six, PLAIN), ">=", 3,
         "the peer runs a look-ahead prior; the beam scores every feasible action over all members"),
        ("regret of the beam by bound below mctx's, d = 6", mctx_regret - bound_regret, ">", 0, ""),
        ("regret of pytorch-icem beyond CEM's, d = 6", lost(ICEM) - lost("CEM 256 x 5"), ">=", 0, ""),
        ("regret of pytorch-mppi beyond MPPI's, d = 6", lost(PYTORCH_MPPI) - lost("MPPI 1024 x 5"), ">=", 0, ""),
        ("2 threads against 1, d = 6", us(six, PLAIN) / us(six, "2 threads"), ">=", 1.7,
         "other work on the machine's cores shows here first"),
        ("one uc.search call, d = 3, us", single[f"{PLAIN}, d = 3"], "<=", 30, ""),
        ("final check, d = 7, us a release", results["asking the rules, us"]["final check"], "<=", 15,
         f"the task's own 21 calls are {results['asking the rules, us']['rules alone']:.1f} of them"),
        *(
            (f"a user's copy of the rules against the library's, {name}, d = 6", ratio, "<=", most, "")
            for (name, ratio), most in zip(results["a user's copy"].items(), (1.1, 1.4), strict=True)
        ),
        ("captured constants, us a call", results["asking the rules, us"]["constants"], "<=", 10, ""),
        ("exact against plain beam, d = 3", us(three, EXACT) / us(three, PLAIN), "<=", 1.5, ""),
        ("exact against plain beam, d = 6", us(six, EXACT) / us(six, PLAIN), "<=", 4, ""),
        ("CP-SAT against exact, d = 6", us(six, "CP-SAT, one worker") / us(six, EXACT), ">=", 1000, ""),
        ("certify (bound) against plain beam, d = 3", us(three, "certify, kind bound") / us(three, PLAIN), "<=", 3,
         "beam, proof and reward-only proof run one after another, each with the panel's own set-up"),
        ("certify (bound) against plain beam, d = 6", us(six, "certify, kind bound") / us(six, PLAIN), "<=", 6, ""),
        ("cost of 4 x windows", results["growth"]["windows x 4"], "<=", 4.6, ""),
        ("cost of 4 x members", results["growth"]["members x 4"], "<=", 4.6, ""),
        ("memory beyond inputs and outputs, MB", results["memory beyond inputs and outputs, MB"], "<=", 150, ""),
        ("ucsearch --help above python -c pass, s", starts["ucsearch --help"] - starts["python -c pass"], "<=", 0.3,
         ""),
        ("import and first compiled decision, s", starts["import and first compiled decision"], "<=", 1.0,
         "a busy machine doubles the import of numba alone"),
        ("audit log, records per second", results["audit log"]["records_per_s"], ">=", 5000, ""),
    ]  # fmt: skip
    compare = {">=": np.greater_equal, "<=": np.less_equal, ">": np.greater}
    return [
        Check(what, value, sign, target, None if np.isnan(value) else bool(compare[sign](value, target)), note)
        for what, value, sign, target, note in found
    ]


def _search_table(depth: int, rows: dict[str, Any]) -> Table:
    table = Table(title=f"Lost sales, 9 order sizes, lead time 2, 4 members, mean mode, depth {depth}")
    for column in ("method", "us per decision", "optimal first actions", "mean regret"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for name, row in rows.items():
        if "error" in row:
            table.add_row(name, f"failed: {row['error'][:60]}", "", "")
            continue
        optimal = f"{row['optimal']:.1%}" if "optimal" in row else ""
        table.add_row(name, f"{row['us']:,.2f}", optimal, f"{row['regret']:.4f}" if "regret" in row else "")
    return table


def _target_table(checks: list[Check]) -> Table:
    table = Table(title="Targets, from this run")
    for column in ("what", "measured", "target", ""):
        table.add_column(column, justify="left" if column in ("what", "") else "right")
    for c in checks:
        verdict = "not measured" if c.met is None else "met" if c.met else "[bold]missed[/]"
        table.add_row(c.what, f"{c.measured:,.3g}", f"{c.operator} {c.target:,g}", verdict)
    return table


if __name__ == "__main__":
    main()
