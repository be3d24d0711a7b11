"""Searches of a panel: ours by policy and thread, the plain engine, other libraries' planners; rules and start-up."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import ucsearch as uc
from bench.inventory import Problem, first_windows, make_problem, policies, samplers
from bench.peers_run import PEERS, regret, run_peers
from bench.table import Row
from bench.timing import in_process, interleaved, startup
from ucsearch.certificate.replay import final_check
from ucsearch.engine import PanelPlan

WINDOWS, REPEATS = 100_000, 5
MCTX = "mctx, 16 simulations, batch 1024"
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
    filled = problem.task.prepare_into
    own = dataclasses.replace(own, prepare_into=filled and filled._replace(fill=_copied(filled.fill)))
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
from bench.searches import PLAIN, panel
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


def rows() -> list[Row]:
    """All figures, the promised ones after those that they are made of."""
    found, methods = list[Row](), dict[int, dict[str, Any]]()
    peers = Path(".venv-peers/bin/python")
    for depth in (3, 6):
        measured = searches(depth, WINDOWS, REPEATS)
        each = methods[depth] = measured["rows"]
        if peers.exists():
            for name, peer in run_peers(peers.absolute(), measured["instances"]).items():
                if "error" in peer:
                    each[name] = {"us": float("nan"), "error": peer["error"]}
                    continue
                first = np.array(peer["first_action_index"])
                optimal, loss = regret(measured["values"][: first.size], first)
                each[name] = {"us": peer["median_us_per_window"], "optimal": optimal, "regret": loss}
        for name, row in each.items():
            quality = f"{row['optimal']:.1%} optimal, regret {row['regret']:.4f}" if "optimal" in row else ""
            found.append(
                Row(f"search, depth {depth}", name, row["us"], "us a decision", note=row.get("error", quality))
            )
    return [*found, *promises(methods[3], methods[6])]


def promises(three: dict[str, Any], six: dict[str, Any]) -> list[Row]:
    """Ratios and costs that the project promises, from the figures of both depths."""

    def of(methods: dict[str, Any], name: str, figure: str = "us") -> float:
        return float(methods.get(name, {}).get(figure, float("nan")))

    def ratio(methods: dict[str, Any], slow: str, fast: str) -> float:
        return of(methods, slow) / of(methods, fast)

    def lost(theirs: str, ours: str) -> float:
        return of(six, theirs, "regret") - of(six, ours, "regret")

    single, rules, starts, grown = single_calls(), rule_checks(), startup(), growth(WINDOWS // 2)
    copies = users_copy()
    part, plain = "promised", ratio(three, "python engine", PLAIN)
    return [
        Row(part, "plain engine against compiled beam, d = 3", plain, "times", (">=", 60)),
        Row(part, "mctx against beam, d = 6", ratio(six, MCTX, PLAIN), "times", (">=", 3)),
        Row(part, "regret of mctx beyond the beam's by bound, d = 6", lost(MCTX, BOUND), "", (">", 0)),
        Row(part, "regret of pytorch-icem beyond CEM's, d = 6", lost(ICEM, "CEM 256 x 5"), "", (">=", 0)),
        Row(part, "regret of pytorch-mppi beyond MPPI's, d = 6", lost(PYTORCH_MPPI, "MPPI 1024 x 5"), "", (">=", 0)),
        Row(part, "CP-SAT against exact, d = 6", ratio(six, "CP-SAT, one worker", EXACT), "times", (">=", 1000)),
        Row(part, "2 threads against 1, d = 6", ratio(six, PLAIN, "2 threads"), "times", (">=", 1.7)),
        Row(part, "exact against plain beam, d = 3", ratio(three, EXACT, PLAIN), "times", ("<=", 1.5)),
        Row(part, "exact against plain beam, d = 6", ratio(six, EXACT, PLAIN), "times", ("<=", 4)),
        *(
            Row(part, f"certify (bound) against plain beam, d = {d}", ratio(m, "certify, kind bound", PLAIN), "times",
                ("<=", most)) for d, m, most in ((3, three, 3), (6, six, 6))
        ),
        *(Row(part, f"one uc.search, {name}", us, "us", ("<=", 30) if "d = 3" in name and PLAIN in name else None)
          for name, us in single.items()),
        Row(part, "final check, d = 7", rules["final check"], "us a release", ("<=", 15),
            f"the task's own 21 calls are {rules['rules alone']:.1f}"),
        Row(part, "captured constants", rules["constants"], "us a call", ("<=", 10)),
        *(Row(part, f"a user's copy of the rules against the library's, {name}, d = 6", copies[name], "times",
              ("<=", 1.05)) for name in (PLAIN, BOUND)),
        *(Row(part, f"cost of {name}", times, "times", ("<=", 4.6)) for name, times in grown.items()),
        Row(part, "memory beyond inputs and outputs", memory(WINDOWS), "MB", ("<=", 150)),
        Row(part, "ucsearch --help above python -c pass", starts["ucsearch --help"] - starts["python -c pass"], "s",
            ("<=", 0.3)),
        Row(part, "import and first compiled decision", starts["import and first compiled decision"], "s", ("<=", 1.0)),
    ]  # fmt: skip
