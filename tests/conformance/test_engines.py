"""The compiled engine gives the bytes of the plain Python engine: 20,000 random windows over ten task templates.

Every case runs the text of its kernel, on a sixth of its windows in `make test`; one kernel is compiled too, on as
many, and all of them on all windows in the slow tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.counts import some
from tests.kit.templates import TEMPLATES
from ucsearch.engine import PanelPlan

SPREADS = ("variance", "std", "downside")


def random_policy(rng: np.random.Generator, algorithm: str, mode: str, order: str, horizon: int) -> Any:
    common = dict(
        depth=int(rng.integers(1, horizon + 1)),
        mode=mode,
        order=order,
        risk=float(rng.choice([0.0, 0.25, 0.5, 1.0])),
        spread=str(rng.choice(SPREADS)),
        discount=1.0 if order == "bound" else float(rng.choice([1.0, 0.9])),
    )
    if algorithm == "beam":
        kind = rng.choice([uc.UCBeam, uc.ParetoBeam, uc.CertifiedBeam])
        top_k = int(rng.integers(1, 5))
        return kind(
            **common, width=int(rng.choice([4, 5, 8, 40])), top_k=top_k,
            prune_risk=float(rng.choice([0.0, 0.25, 1.0])), info_bonus=float(rng.choice([0.0, 0.1])),
        )  # fmt: skip
    if algorithm == "mcts":
        return uc.MCTS(
            **common, simulations=int(rng.choice([1, 7, 40, 300])), top_k=int(rng.integers(1, 5)),
            c_uct=float(rng.choice([0.0, 1.4])),
        )  # fmt: skip
    budget = int(rng.choice([3, 40, 1_000_000]))
    return uc.Exact(**common, node_budget=budget, every_action=bool(rng.integers(0, 2)))


def random_panel(rng: np.random.Generator, name: str, mode: str, count: int) -> dict[str, Any]:
    template = TEMPLATES[name]
    task = template.task
    states, params = template.windows(rng, count)
    members, horizon, m = int(rng.integers(1, 6)), int(rng.integers(1, 7)), len(task.actions)
    actions = np.tile(task.action_array, (count, 1))
    if rng.integers(0, 2):
        actions[rng.random(actions.shape) < 0.2] = np.nan
    if mode == "scores":
        trace = uc.Trace.from_scores(
            np.round(rng.normal(0, 1, (count, horizon, m)), 1), np.round(rng.random((count, horizon, m)), 1),
            template.outcomes(rng, (count, horizon, template.fields)),
        )  # fmt: skip
    else:
        shape = (count, members, horizon, template.fields) if template.fields > 1 else (count, members, horizon)
        weights = rng.random(members) + 0.1 if rng.integers(0, 2) else None
        trace = uc.Trace.from_members(
            template.outcomes(rng, shape),
            weights,
            fields=template.fields if template.fields > 1 else None,
            normalise=True,
        )
    return dict(task=task, states=states, traces=trace, params=params, actions=actions)


def assert_same_bytes(a: PanelPlan, b: PanelPlan) -> None:
    for name, x, y in zip(a.outputs._fields, a.outputs, b.outputs, strict=True):
        if x.tobytes() != y.tobytes():
            where = np.argwhere(~((x == y) | ((x != x) & (y != y))))
            raise AssertionError(f"{name} differs at {where[:3].tolist()} under {a.policy}")


# (template, algorithm, mode, order, windows). Not every combination is here.
CASES = [
    ("battery", "beam", "mean", "score", 2000),
    ("battery", "exact", "mean", "score", 1000),
    ("battery", "mcts", "members", "score", 600),
    ("stock", "beam", "mean", "bound", 2000),
    ("stock", "beam", "members", "bound", 1000),
    ("stock", "exact", "mean", "bound", 600),
    ("position", "beam", "scores", "auto", 2400),
    ("position", "exact", "scores", "score", 600),
    ("tank", "beam", "mean", "score", 1600),
    ("tank", "exact", "members", "score", 300),
    ("pack", "beam", "members", "score", 1600),
    ("pack", "mcts", "mean", "score", 1000),
    ("maze", "beam", "mean", "score", 2000),
    ("maze", "exact", "members", "score", 500),
    ("clock", "mcts", "scores", "auto", 600),
    ("risky", "beam", "mean", "score", 1000),
    ("risky", "mcts", "members", "score", 300),
    ("followed", "beam", "members", "score", 500),
    ("free", "exact", "members", "bound", 400),
]


def test_twenty_thousand_cases() -> None:
    assert sum(case[-1] for case in CASES) >= 20_000
    assert len({case[0] for case in CASES}) >= 10


@pytest.mark.parametrize(("name", "algorithm", "mode", "order", "windows"), CASES)
def test_kernel_text_equals_python(name: str, algorithm: str, mode: str, order: str, windows: int) -> None:
    same(name, algorithm, mode, order, some(windows))


# With a bound, members and hashed states; exact searches are compiled by tests of their own proofs.
COMPILED = [("stock", "beam", "members", "bound", 1000)]


@pytest.mark.compiled
@pytest.mark.parametrize(
    ("name", "algorithm", "mode", "order", "windows"),
    [pytest.param(*case, marks=() if case in COMPILED else pytest.mark.slow) for case in CASES],
)
def test_compiled_equals_python(name: str, algorithm: str, mode: str, order: str, windows: int) -> None:
    few = (name, algorithm, mode, order, windows) in COMPILED
    same(name, algorithm, mode, order, some(windows) if few else windows)


def same(name: str, algorithm: str, mode: str, order: str, windows: int) -> None:
    rng = np.random.default_rng([len(name), windows, *map(ord, name + algorithm + mode)])
    group = 20 if algorithm == "beam" else 10
    statuses: set[int] = set()
    for _ in range(windows // group):
        panel = random_panel(rng, name, mode, group)
        policy = random_policy(rng, algorithm, mode, order, panel["traces"].horizon)
        fast = uc.search_panel(**panel, policy=policy, engine="compiled", threads=1, keep_paths=True)
        plain = uc.search_panel(**panel, policy=policy, engine="python", keep_paths=True)
        assert fast.engine == "compiled"
        assert_same_bytes(fast, plain)
        statuses |= set(fast.status.tolist())
    if name == "maze":
        assert {uc.Status.FOUND, uc.Status.PROVED} & statuses
        assert uc.Status.DEAD_END in statuses
    if name == "risky":
        assert uc.Status.TASK_ERROR in statuses


@pytest.mark.slow
@pytest.mark.compiled
def test_compiled_cvar_equals_python() -> None:
    """Every spread is in every kernel of members mode, so this one is not compiled for it."""
    rng = np.random.default_rng(29)
    for tail in (0.1, 0.3, 1.0):
        panel = random_panel(rng, "risky", "members", 20)
        depth = panel["traces"].horizon
        policy = uc.MCTS(depth=depth, mode="members", spread="cvar", tail=tail, risk=0.7, simulations=20)
        fast = uc.search_panel(**panel, policy=policy, engine="compiled", threads=1, keep_paths=True)
        plain = uc.search_panel(**panel, policy=policy, engine="python", keep_paths=True)
        assert fast.engine == "compiled"
        assert_same_bytes(fast, plain)


@pytest.mark.parametrize("mode", ["mean", pytest.param("members", marks=pytest.mark.compiled)])
def test_threads_batches_and_member_order_do_not_matter(mode: str) -> None:
    rng = np.random.default_rng(5)
    count, size = (300, 97) if mode == "members" else (75, 24)  # the text of a kernel takes its time
    states, params = TEMPLATES["stock"].windows(rng, count)
    demand = 0.5 * rng.integers(0, 13, (count, 7, 5))
    weights = rng.random(7) + 0.1
    policy = uc.ParetoBeam(depth=5, width=6, top_k=3, risk=0.5, mode=mode, order="bound")
    task = TEMPLATES["stock"].task
    trace = uc.Trace.from_members(demand, weights, normalise=True)
    one = uc.search_panel(task, states, trace, policy, params=params, engine="compiled", threads=1)
    two = uc.search_panel(
        task, states, trace, policy, params=params, engine="compiled", threads=2,
        progress=lambda n: None,
    )  # fmt: skip
    assert_same_bytes(one, two)
    shuffled = rng.permutation(7)
    three = uc.search_panel(
        task, states, uc.Trace.from_members(demand[:, shuffled], weights[shuffled], normalise=True), policy,
        params=params, engine="compiled",
    )  # fmt: skip
    assert_same_bytes(one, three)
    for lo in range(0, count, size):
        part = slice(lo, lo + size)
        piece = uc.search_panel(
            task, states[part], uc.Trace.from_members(demand[part], weights, normalise=True), policy,
            params=type(params)(*(x[part] for x in params)), engine="compiled",
        )  # fmt: skip
        assert piece.outputs.out_f.tobytes() == one.outputs.out_f[part].tobytes()
