"""Engine "cuda" against the plain engine on small panels: a GPU, or numba's simulator where NUMBA_ENABLE_CUDASIM is 1.

Run as a program (the simulator must be chosen before numba is imported); prints one JSON object of name -> result.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import ucsearch as uc
from tests.kit.templates import TEMPLATES, nothing
from tests.tasks.test_compiled import drawn
from ucsearch.engine.cuda import engine as cuda_engine
from ucsearch.engine.cuda import stream as streaming
from ucsearch.tasks import TASKS, LeadTimeInventory

WINDOWS = 3


def panel(name: str, rng: np.random.Generator, members: int = 2, horizon: int = 2) -> dict[str, Any]:
    template = TEMPLATES[name]
    states, params = template.windows(rng, WINDOWS)
    shape = (WINDOWS, members, horizon, template.fields) if template.fields > 1 else (WINDOWS, members, horizon)
    weights = np.array([0.37, 0.63])[:members]
    trace = uc.Trace.from_members(
        template.outcomes(rng, shape) * 0.97,
        weights,
        fields=template.fields if template.fields > 1 else None,
        normalise=True,
    )
    return dict(task=template.task, states=states, traces=trace, params=params)


def ours(rng: np.random.Generator) -> dict[str, Any]:
    task = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 3.0, 7.0), unit_cost=0.37, holding=0.83).task()
    states = task.state(rng.uniform(0.0, 9.0, WINDOWS), (rng.uniform(0.0, 4.0, WINDOWS),), np.zeros(WINDOWS))
    trace = uc.Trace.from_members(rng.gamma(2.0, 1.7, (WINDOWS, 2, 2)), np.array([0.37, 0.63]))
    return dict(task=task, states=states, traces=trace)


def same(given: dict[str, Any], policy: Any) -> str:
    there = uc.search_panel(**given, policy=policy, engine="cuda", keep_paths=True)
    here = uc.search_panel(**given, policy=policy, engine="python", keep_paths=True)
    if there.engine != "cuda":
        return f"ran on {there.engine}"
    if dict(there.faults) != dict(here.faults):
        return f"faults differ: {there.faults} and {here.faults}"
    pairs: list[Any] = list(zip(here.outputs._fields, here.outputs, there.outputs, strict=True))
    differ = [name for name, a, b in pairs if a.tobytes() != b.tobytes()]
    return f"differ in {differ}" if differ else "equal"


def same_certificates() -> str:
    given = panel("free", np.random.default_rng(2))
    task, states, trace = given["task"], given["states"], given["traces"]
    policy = uc.UCBeam(depth=2, width=2, top_k=2, risk=0.3)
    a, b = (uc.certify_panel(task, states, trace, policy, run=uc.Run(engine=engine)) for engine in ("cuda", "python"))
    pairs = [*zip(a.evidence, b.evidence, strict=True), (a.released, b.released), (a.paths, b.paths)]
    return "equal" if all(x.tobytes() == y.tobytes() for x, y in pairs) else "differ"


def alone(check: Callable[[], str]) -> str:
    """`check`, and that no window was left to the CPU meanwhile."""
    left: list[int] = []
    run = cuda_engine.run_on_device

    def counted(*arguments: Any) -> Any:
        found = run(*arguments)
        left.extend(found.tolist())
        return found

    cuda_engine.run_on_device = counted
    try:
        result = check()
        return f"{result}, but windows {left} were left to the CPU" if left else result
    finally:
        cuda_engine.run_on_device = run


class Row(NamedTuple):
    x: float


def by_index_reward(s: Any, a: float, y: float, p: Any) -> float:
    values = (0.1, -0.0, 0.3)
    return max(values[math.floor(s.x + a)], -0.0, y * 0.1)  # past the end in some windows


def divided_reward(s: Any, a: float, y: float, p: Any) -> float:
    return min(y / (1.0 - s.x - a), 0.5) - 0.1 * a  # by zero in some windows, which infinity and `min` would hide


def plain_reward(s: Any, a: float, y: float, p: Any) -> float:
    return y * a - 0.1 * a * a - 0.03 * s.x


def any_feasible(s: Any, a: float, p: Any) -> bool:
    return True


def add_step(s: Any, a: float, y: float, p: Any) -> Any:
    return Row(s.x + a)


def uneven_prepare(outcomes: Any, p: Any) -> Any:
    """Raises in one window, and gives a longer table in another."""
    if outcomes[0] > 2.0:
        raise ValueError("no table")
    return np.zeros(outcomes.shape[0] + (2 if outcomes[0] > 1.0 else 1))


def uneven_bound(s: Any, h: int, table: Any, p: Any) -> float:
    return table[h] + 9.0


def halved_step(s: Any, a: float, y: float, p: Any) -> Any:
    return Row(0.5 * s.x + a)


def exp_reward(s: Any, a: float, y: float, p: Any) -> float:
    return math.exp(-a) * y


def left(check: Callable[[], str], windows: list[int]) -> str:
    """`check`, and that just these windows were left to the CPU."""
    found = alone(check)
    expected = f"equal, but windows {windows} were left to the CPU"
    return "equal" if found == expected else found


def with_less(check: Callable[[], str], **limits: Any) -> str:
    """`check` where threads have less."""
    kept = {name: getattr(cuda_engine, name) for name in limits}
    vars(cuda_engine).update(limits)
    try:
        return check()
    finally:
        vars(cuda_engine).update(kept)


def every_task(policy: Any) -> str:
    """All tasks of the library."""
    results = {}
    for name in TASKS:
        made, states, outcomes = drawn(name, 2)
        trace = uc.Trace.from_members(outcomes[:, :, : policy.depth], np.array([0.31, 0.17, 0.23, 0.29]))
        results[name] = alone(partial(same, dict(task=made.task(), states=states, traces=trace), policy))
    return "equal" if set(results.values()) == {"equal"} else str(results)


def by_states(step: Any) -> dict[str, Any]:
    task = uc.Task(
        name="by states", state=Row, actions=[float(a) for a in range(9)], feasible=any_feasible, step=step,
        reward=plain_reward, fallback=nothing,
    )  # fmt: skip
    return dict(
        task=task, states=[Row(1.0)], traces=uc.Trace.from_members([[1.0, 2.0, 0.5, 1.0], [0.3, 0.7, 0.1, 2.0]])
    )


class Cell(NamedTuple):
    x: float
    seen: tuple[float, ...]


def pair_feasible(s: Any, a: Any, p: Any) -> bool:
    return a[0] + a[1] + s.x < 5.0


def pair_step(s: Any, a: Any, y: float, h: int, p: Any) -> Any:
    return Cell(s.x + a[0] * h, s.seen[1:] + (max(a[1], y, 0.3),))


def pair_reward(s: Any, a: Any, y: float, p: Any) -> float:
    return y * a[0] - 0.3 * a[1] * min(s.seen) + math.floor(y) * 0.1


def timed_pairs() -> dict[str, Any]:
    """Actions that are tuples, a step that takes its index, tuples in states."""
    actions = [(a, b) for a in (0.0, 1.5) for b in (0.0, 0.7, 2.0)]
    task = uc.Task(
        name="pairs", state=Cell, actions=actions, feasible=pair_feasible, step=pair_step, reward=pair_reward,
        fallback=nothing,
    )  # fmt: skip
    trace = uc.Trace.from_members(np.round(np.random.default_rng(8).normal(1.0, 2.0, (2, 3, 3)), 1))
    return dict(task=task, states=[Cell(0.1, (1.0, 2.0)), Cell(2.3, (0.0, 0.1))], traces=trace)


def refused(task: uc.Task, **given: Any) -> str:
    try:
        uc.search_panel(task, **given, engine="cuda")
    except uc.InputError as error:
        return str(error)
    return "not refused"


def checks() -> dict[str, Callable[[], str]]:
    rng = np.random.default_rng(5)
    beam = dict(depth=2, width=3, top_k=2, risk=0.3)
    own = dict(state=Row, actions=[0.0, 1.0], feasible=any_feasible, step=add_step, fallback=nothing)
    indexed = uc.Task(name="indexed", reward=by_index_reward, **own)  # type: ignore[arg-type]
    divided = uc.Task(name="divided", reward=divided_reward, **own)  # type: ignore[arg-type]
    grown = uc.Task(name="grown", reward=exp_reward, **own)  # type: ignore[arg-type]
    uneven = uc.Task(name="uneven", reward=divided_reward, prepare=uneven_prepare, bound=uneven_bound, **own)  # type: ignore[arg-type]
    levels = uc.Trace.from_members(np.array([[[0.5, 0.7]], [[2.5, 0.7]], [[1.5, 0.7]], [[0.7, 0.3]]]))
    deep = uc.Exact(depth=4, risk=0.3, order="score")
    one = uc.Trace.from_members(np.full((2, 1, 2), 0.7))
    states = [Row(0.0), Row(1.0)]
    found = {
        "beam, mean": lambda: alone(lambda: same(panel("tank", rng), uc.UCBeam(**beam))),
        "beam by bound": lambda: alone(lambda: same(panel("stock", rng), uc.UCBeam(**beam, order="bound"))),
        "beam, members": lambda: alone(
            lambda: same(panel("battery", rng), uc.CertifiedBeam(**beam, mode="members", spread="downside"))
        ),
        "exact": lambda: alone(lambda: same(panel("free", rng), uc.Exact(depth=2, risk=0.3))),
        "certificates": same_certificates,
        "a rule raises": lambda: same(dict(task=indexed, states=states, traces=one), uc.UCBeam(**beam)),
        "a rule divides by zero": lambda: same(dict(task=divided, states=states, traces=one), uc.UCBeam(**beam)),
        "a task of the library": lambda: alone(lambda: same(ours(rng), uc.UCBeam(**beam, order="bound"))),
        "all tasks, beam": lambda: every_task(uc.UCBeam(**beam)),
        "all tasks, by member": lambda: every_task(uc.CertifiedBeam(**beam, mode="members", spread="std")),
        "all tasks, exact": lambda: every_task(uc.Exact(depth=2, risk=0.3)),
        "tuples and steps": lambda: alone(lambda: same(timed_pairs(), uc.UCBeam(**{**beam, "depth": 3}))),
        "exact by member": lambda: alone(
            lambda: same(panel("battery", rng), uc.Exact(depth=2, risk=0.3, mode="members"))
        ),
        "exact by states": lambda: alone(lambda: same(by_states(add_step), deep)),
        "more states than a thread holds": lambda: left(lambda: same(by_states(halved_step), deep), [0]),
        "more nodes than a thread has": lambda: with_less(
            lambda: left(lambda: same(panel("free", rng), uc.Exact(depth=2, risk=0.3)), [0, 1, 2]), _NODES=3
        ),
        "tables that the CPU cannot make": lambda: left(
            lambda: same(dict(task=uneven, states=[Row(3.0)] * 4, traces=levels), uc.UCBeam(**beam, order="bound")),
            [1, 2],
        ),
        "a thread too large": lambda: refused(
            indexed, states=states, traces=one, policy=uc.UCBeam(depth=2, width=5_000, top_k=2)
        ),
        "exp": lambda: refused(grown, states=states, traces=one, policy=uc.UCBeam(**beam)),
        "mcts": lambda: refused(
            indexed, states=states, traces=one, policy=uc.MCTS(depth=2, risk=0.3, simulations=3, top_k=2)
        ),
    }
    return found


def other_bytes() -> str:
    """A device that adds wrongly is found out at the first use."""
    run = cuda_engine.run_window

    def wrong(task: Any, settings: Any, layout: Any, inputs: Any, outputs: Any, w: int, faults: Any) -> None:
        run(task, settings, layout, inputs, outputs, w, faults)
        outputs.out_f[w, 0] = np.nextafter(outputs.out_f[w, 0], np.inf)

    cuda_engine.run_window = wrong
    try:
        given = panel("clock", np.random.default_rng(1))
        return refused(given.pop("task"), **given, policy=uc.UCBeam(depth=2, width=2, top_k=2, risk=0.1))
    finally:
        cuda_engine.run_window = run


def main() -> None:
    results = {}
    streaming._MOST_WINDOWS = 2  # of a chunk: panels of three take two
    for name, check in {**checks(), "other bytes": other_bytes}.items():
        start = time.perf_counter()
        results[name] = check()
        print(f"{name}: {results[name]} ({time.perf_counter() - start:.1f} s)", file=sys.stderr, flush=True)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
