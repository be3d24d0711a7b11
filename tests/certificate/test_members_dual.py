"""The members bound in small: weights and scores worked out by hand, every plan of tiny problems in rational numbers.

All members' weights, rewards and outcomes are binary fractions, so what is exact in theory is exact here, and the loops
over plans are written out again. Nothing is compiled: the same text is run by the interpreter.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction as F
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.certificate.members import bound as members_bound
from ucsearch.certificate.members import dual
from ucsearch.certificate.members import weights as members_weights
from ucsearch.certificate.members.bound import MembersBounds, members_bounds
from ucsearch.certificate.members.graph import window_graph
from ucsearch.engine import PanelPlan
from ucsearch.engine.arrays import Fault, Status
from ucsearch.spreads import NUMBERS

GOLDEN = Path(__file__).parent.parent / "golden" / "members_bound.json"
QUARTERS = [0.25] * 4
TAIL = 0.25  # share of cvar


@pytest.fixture(autouse=True, scope="module")
def _plain() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        for module in (dual, members_weights):
            for name, value in list(vars(module).items()):
                if hasattr(value, "py_func"):
                    patch.setattr(module, name, value.py_func)
        yield


# -------------------------------------------------------------------- weights and scores


def weights(returns: list[float], p: list[float], lam: float, kind: str) -> tuple[list[float], float]:
    w = np.full(len(p), 7.0)  # whatever was there before
    c = dual.admissible_weights(np.array(returns), np.array(p), lam, (NUMBERS[kind], TAIL), w)
    return w.tolist(), c


def score(returns: list[float], p: list[float], lam: float, kind: str, tail: float = TAIL) -> float:
    return dual.score_of(np.array(returns), np.array(p), lam, (NUMBERS[kind], tail))


@pytest.mark.parametrize(
    ("kind", "lam", "returns", "p", "w", "c"),
    [
        # std: w = 1 - lam * z with z the standard score; of 2, 6: deviation 2.
        ("std", 0.5, [2.0, 6.0], [0.5, 0.5], [1.5, 0.5], 0.0),
        ("std", 0.25, [9.0, 1.0], [0.75, 0.25], [1.0 - 0.5 / math.sqrt(12.0), 1.0 + 1.5 / math.sqrt(12.0)], 0.0),
        ("std", 1.0, [2.0, 6.0], [0.5, 0.5], [2.0, 0.0], 0.0),
        # Beyond that the better member stays at 0, and the other can not weigh more than 1 / its share.
        ("std", 3.0, [2.0, 6.0], [0.5, 0.5], [2.0, 0.0], 0.0),
        # 8 is dropped; of 0 and 2 with half the weight: mean w 1 and Var(w) = 1.5^2.
        ("std", 1.5, [0.0, 2.0, 8.0, 8.0], QUARTERS, [2.0 + math.sqrt(2.5), 2.0 - math.sqrt(2.5), 0.0, 0.0], 0.0),
        # 8 and then 2 are dropped.
        ("std", 1.8, [0.0, 2.0, 8.0, 8.0], QUARTERS, [4.0, 0.0, 0.0, 0.0], 0.0),
        # Of what is left after 1e15 is dropped, 0 and 100 differ by no more than its rounding.
        ("std", 1.5, [0.0, 100.0, 1e15, 1e15], QUARTERS, [2.0, 2.0, 0.0, 0.0], 0.0),
        # variance: w = 1 - 2 * lam * (r - mean), c = lam * Var(r).
        ("variance", 0.125, [2.0, 6.0], [0.5, 0.5], [1.5, 0.5], 0.5),
        ("variance", 0.25, [2.0, 6.0], [0.5, 0.5], [2.0, 0.0], 1.0),
        ("variance", 0.5, [2.0, 6.0], [0.5, 0.5], [2.0, 0.0], 0.5),
        # Slope 0.5; of 0 and 1 alone, which weigh 2 on average; c = Var(w) / (4 * 0.25).
        ("variance", 0.25, [0.0, 1.0, 8.0, 8.0], QUARTERS, [2.25, 1.75, 0.0, 0.0], 1.03125),
        # downside: xi = (mean - r)+ / D; of 1, 5 (mean 3): D = sqrt(2), xi = sqrt(2), 0.
        ("downside", 0.5, [1.0, 5.0], [0.5, 0.5], [1.0 + 0.5 * math.sqrt(0.5), 1.0 - 0.5 * math.sqrt(0.5)], 0.0),
        # mean 3, below it by 3 and 1: D^2 = 10 / 4, mean xi = 1 / D.
        (
            "downside", 1.0, [0.0, 2.0, 5.0, 5.0], QUARTERS,
            [1.0 + 2.0 / math.sqrt(2.5), 1.0, 1.0 - 1.0 / math.sqrt(2.5), 1.0 - 1.0 / math.sqrt(2.5)], 0.0,
        ),
        # lam 2 would make the better one negative: xi is shorter, until it is 0.
        ("downside", 2.0, [1.0, 5.0], [0.5, 0.5], [2.0, 0.0], 0.0),
        # cvar: the worst quarter weighs 1 / 0.25, the others nothing.
        ("cvar", 1.0, [3.0, 1.0, 2.0, 4.0], QUARTERS, [0.0, 4.0, 0.0, 0.0], 0.0),
        ("cvar", 0.5, [3.0, 1.0, 2.0, 4.0], QUARTERS, [0.5, 2.5, 0.5, 0.5], 0.0),
        # Two share the worst place: each half.
        ("cvar", 1.0, [3.0, 1.0, 1.0, 4.0], QUARTERS, [0.0, 2.0, 2.0, 0.0], 0.0),
        # The worst has an eighth, the other eighth comes from the next, which has a half.
        ("cvar", 1.0, [3.0, 1.0, 2.0, 4.0], [0.125, 0.125, 0.5, 0.25], [0.0, 4.0, 1.0, 0.0], 0.0),
        ("cvar", 1.0, [-3.0, -3.5], [0.75, 0.25], [0.0, 4.0], 0.0),
        # Shares that add up to less than the tail, by rounding or else: what is missing is spread over all.
        ("cvar", 1.0, [1.0, 2.0], [0.125, 0.0625], [4.25, 4.25], 0.0),
        ("cvar", 0.5, [1.0, 2.0], [0.125, 0.0625], [2.625, 2.625], 0.0),
    ],
)  # fmt: skip
def test_weights_by_hand(
    kind: str, lam: float, returns: list[float], p: list[float], w: list[float], c: float
) -> None:  # fmt: skip
    got, constant = weights(returns, p, lam, kind)
    assert got == pytest.approx(w, rel=1e-12, abs=1e-12)
    assert constant == pytest.approx(c, rel=1e-12, abs=0.0)


def test_weights_are_one_where_nothing_is_to_be_weighed() -> None:
    for kind in NUMBERS:
        for returns, lam in (([1.0, 5.0], 0.0), ([4.0, 4.0], 0.7), ([1.0, math.inf], 0.5), ([0.0, 1e-150], 0.5)):
            assert weights(returns, [0.5, 0.5], lam, kind) == ([1.0, 1.0], 0.0)
    assert weights([0.0, 1e-130], [0.5, 0.5], 0.5, "std") == (pytest.approx([1.5, 0.5]), 0.0)


@pytest.mark.parametrize("share", [0.75, 0.5, 0.25])
def test_the_smallest_shares_are_tight(share: float) -> None:
    """For two members every weight is known: S is reached by the reweighted mean, with room for no other number."""
    p, returns = [share, 1.0 - share], [4.0, 8.0]
    for kind in NUMBERS:
        for lam in (0.125, 0.25, 0.5):
            w, c = weights(returns, p, lam, kind)
            total = math.fsum(p[j] * w[j] * returns[j] for j in range(2)) + c
            negative = kind == "variance" and 2.0 * lam * 4.0 * share > 1.0
            assert total >= score(returns, p, lam, kind) - 1e-12
            assert negative or total == pytest.approx(score(returns, p, lam, kind), abs=1e-12), (kind, lam)


def test_scores_by_hand() -> None:
    p, returns = [0.25, 0.25, 0.5], [1.0, 5.0, 9.0]  # mean 6, variance 25/4 + 1/4 + 9/2 = 11, below: 6.5
    assert score(returns, p, 0.5, "variance") == 0.5
    assert score(returns, p, 0.5, "std") == pytest.approx(6.0 - 0.5 * math.sqrt(11.0), rel=1e-15)
    assert score(returns, p, 0.5, "downside") == pytest.approx(6.0 - 0.5 * math.sqrt(6.5), rel=1e-15)
    assert score(returns, p, 0.5, "cvar") == 3.5  # half of 6 and half of 1
    assert score(returns, p, 1.0, "cvar", tail=0.5) == 3.0
    assert score(returns, p, 1.0, "cvar", tail=0.75) == 5.0  # (1 + 5 + 9) / 3
    assert score(returns, p, 1.0, "cvar", tail=1.0) == 6.0
    assert score([1.0, 5.0, 9.0], [0.125, 0.25, 0.625], 1.0, "cvar") == 3.0  # an eighth of 1 and an eighth of 5
    assert score([9.0, 1.0, 5.0], [0.625, 0.125, 0.25], 1.0, "cvar") == 3.0
    assert score([1.0, 9.0], [0.5, 0.5], 1.0, "cvar", tail=1.0) == 5.0  # the largest is the second
    assert score([9.0, 1.0], [0.5, 0.5], 1.0, "cvar", tail=1.0) == 5.0
    assert score([0.1] * 3, p, 1.0, "cvar") == 0.1
    assert score([0.1] * 3, p, 1.0, "std") == 0.1
    for turned in itertools.permutations(range(4)):  # the order of members decides nothing
        values = [[7.0, 1.0, 3.0, 1.0][k] for k in turned]
        assert score(values, QUARTERS, 1.0, "cvar", tail=0.75) == pytest.approx(5.0 / 3.0, rel=1e-15)
        assert score(values, QUARTERS, 1.0, "cvar", tail=0.25) == 1.0


def test_where_rounding_begins_to_count() -> None:
    """2.3e-16 of the penalties and terms against 1e-11 of the bound and a tenth of the rewards."""
    most = 1e-11 / 2.3e-16  # for one term and a bound of 1
    for terms, bound, room, times in ((1, 1.0, 0.0, 1.0), (4, -2.0, 0.0, 0.5), (1, 0.0, 1.0, 0.1), (2, 1.0, 10.0, 1.0)):
        assert dual.rounding_is_small(0.999 * times * most, terms, bound, room)
        assert not dual.rounding_is_small(1.001 * times * most, terms, bound, room)


# -------------------------------------------------------------------- tiny problems


class Shelf(NamedTuple):
    stock: float
    last: float


class Costs(NamedTuple):
    capacity: float
    ramp: float
    holding: float
    shortage: float
    fixed: float
    salvage: float


def room(s: Shelf, a: float, p: Costs) -> bool:
    return s.stock + a <= p.capacity and abs(a - s.last) <= p.ramp


def sell(s: Shelf, a: float, y: float, p: Costs) -> Shelf:
    return Shelf(max(s.stock + a - y, 0.0), a)


def pay(s: Shelf, a: float, y: float, p: Costs) -> float:
    left = s.stock + a - y
    return -p.holding * max(left, 0.0) - p.shortage * max(-left, 0.0) - (p.fixed if a > 0.0 else 0.0)


def rest(s: Shelf, p: Costs) -> float:
    return p.salvage * s.stock


def none(s: Shelf, p: Costs) -> float:
    return 0.0


TASK = uc.Task(
    name="tiny_shelf", state=Shelf, actions=[0.0, 1.0, 2.0], feasible=room, step=sell, reward=pay, terminal=rest,
    fallback=none, params=Costs(4.0, 2.0, 1.0, 4.0, 0.5, 0.25),
)  # fmt: skip


class Case(NamedTuple):
    demand: list[list[float]]  # (J, d)
    p: list[float]
    start: Shelf = Shelf(1.0, 0.0)
    costs: Costs = Costs(4.0, 2.0, 1.0, 4.0, 0.5, 0.25)
    discount: float = 1.0


CASES = {
    "short": Case([[0.0], [1.0], [3.0], [2.0]], QUARTERS),
    "two": Case([[0.0, 2.0], [3.0, 0.0]], [0.75, 0.25], discount=0.5),
    "three": Case([[0.0, 2.0, 1.0], [3.0, 0.0, 1.0], [1.0, 1.0, 3.0]], [0.5, 0.25, 0.25], discount=0.5),
    "ramped": Case(
        [[0.0, 0.0, 0.0], [2.0, 2.0, 2.0], [1.0, 0.0, 3.0]], [0.25, 0.25, 0.5], Shelf(2.0, 1.0),
        Costs(3.0, 1.0, 0.5, 3.0, 1.0, 0.0),
    ),
    "long": Case(
        [[0.0, 2.0, 1.0, 3.0], [3.0, 0.0, 1.0, 0.0], [1.0, 1.0, 3.0, 2.0], [2.0, 0.0, 0.0, 1.0]], QUARTERS,
        costs=Costs(5.0, 1.0, 1.0, 3.0, 0.25, 0.5),
    ),
}  # fmt: skip
RISKS = {"variance": 0.125, "std": 0.5, "downside": 0.75, "cvar": 0.5}


def bounds(name: str, kind: str, lam: float | None = None, **options: Any) -> MembersBounds:
    case = CASES[name]
    depth = len(case.demand[0])
    policy = uc.UCBeam(
        depth=depth, width=1, mode="members", spread=kind, risk=RISKS[kind] if lam is None else lam, tail=TAIL,
        discount=case.discount, order="score",
    )  # fmt: skip
    trace = uc.Trace.from_members([case.demand], case.p)
    start = options.pop("start", case.start)
    plan = uc.search_panel(TASK, [start], trace, policy, params=case.costs, engine="python")
    incumbent = np.array([options.pop("incumbent", [-1] * depth)])
    options = {"steps": 1, "few_plans": 0, "engine": "python", **options}
    return members_bounds(TASK, plan.layout, plan.settings, plan.inputs, incumbent, **options)


def feasible_returns(case: Case, j: int) -> dict[tuple[int, ...], F]:
    """Of one member: every plan it can follow with its return."""
    c, out = case.costs, {}
    for plan in itertools.product(range(3), repeat=len(case.demand[0])):
        stock, last, total, factor = F(case.start.stock), F(case.start.last), F(0), F(1)
        for a, y in zip(plan, case.demand[j], strict=True):
            if stock + a > F(c.capacity) or abs(a - last) > F(c.ramp):
                break
            left = stock + a - F(y)
            cost = F(c.holding) * max(left, 0) + F(c.shortage) * max(-left, 0) + (F(c.fixed) if a else 0)
            total, stock, last, factor = total - factor * cost, max(left, F(0)), F(a), factor * F(case.discount)
        else:
            out[plan] = total + factor * F(c.salvage) * stock
    return out


def true_score(returns: list[F], p: list[float], kind: str, lam: float) -> float:
    q = [F(x) for x in p]
    mean = sum(w * r for w, r in zip(q, returns, strict=True))
    if kind == "cvar":
        left, total = F(TAIL), F(0)
        for r, w in sorted(zip(returns, q, strict=True)):
            total, left = total + min(w, left) * r, left - min(w, left)
        return float(mean - F(lam) * (mean - total / F(TAIL)))
    low = kind == "downside"
    square = sum(w * (min(r - mean, F(0)) if low else r - mean) ** 2 for w, r in zip(q, returns, strict=True))
    return float(mean) - lam * (float(square) if kind == "variance" else math.sqrt(square))


def by_hand(name: str, kind: str, lam: float) -> tuple[list[float], list[float]]:
    """Best common plan and perfect information, by first action."""
    case = CASES[name]
    own = [feasible_returns(case, j) for j in range(len(case.p))]
    best, perfect = [-math.inf] * 3, [-math.inf] * 3
    for plan in set.intersection(*(set(x) for x in own)):
        best[plan[0]] = max(best[plan[0]], true_score([x[plan] for x in own], case.p, kind, lam))
    for a in range(3):
        tops = [max((r for plan, r in x.items() if plan[0] == a), default=None) for x in own]
        if None not in tops:
            perfect[a] = float(sum(F(w) * r for w, r in zip(case.p, tops, strict=True) if r is not None))
    return best, perfect


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("name", CASES)
def test_between_the_best_common_plan_and_perfect_information(name: str, kind: str) -> None:
    case, lam = CASES[name], RISKS[kind]
    best, perfect = by_hand(name, kind, lam)
    exact = bounds(name, kind, few_plans=10**6)
    assert exact.exact.all()
    assert exact.upper[0].tolist() == pytest.approx(best, rel=1e-12)
    assert exact.perfect[0].tolist() == pytest.approx(perfect, rel=1e-12)
    for steps, incumbent in ((1, None), (12, None), (12, [0] * len(case.demand[0])), (60, [1, 1, 1, 1])):
        path = [-1] * len(case.demand[0]) if incumbent is None else incumbent[: len(case.demand[0])]
        found = bounds(name, kind, steps=steps, incumbent=path)
        assert not found.exact.any()
        assert found.perfect[0].tolist() == pytest.approx(perfect, rel=1e-12)
        for a in range(3):
            assert best[a] - 1e-12 * (1.0 + abs(best[a])) <= found.upper[0, a] <= perfect[a] + 1e-12


def test_tight_where_every_member_wants_the_same() -> None:
    """One step: a member has nothing left to choose, so that the weights alone decide, and they are tight."""
    for kind, lam in RISKS.items():
        best, _ = by_hand("short", kind, lam)
        for a in range(3):
            found = bounds("short", kind, incumbent=[a], steps=1)
            assert found.upper[0, a] == pytest.approx(best[a], rel=1e-12), (kind, a)
        best, _ = by_hand("short", kind, 0.0)
        assert bounds("short", kind, 0.0).upper[0].tolist() == pytest.approx(best, rel=1e-12)


def test_what_many_steps_reach() -> None:
    """Within these distances of the best common plan, whatever the first action; one step is far from it."""
    for name, kind, near in (
        ("two", "cvar", 1e-6), ("two", "std", 1e-6), ("three", "std", 0.02), ("three", "downside", 0.02),
        ("ramped", "std", 0.02), ("ramped", "variance", 0.02), ("long", "std", 0.08), ("long", "cvar", 0.11),
    ):  # fmt: skip
        best, _ = by_hand(name, kind, RISKS[kind])
        found = bounds(name, kind, steps=150, incumbent=[1, 1, 1, 1][: len(CASES[name].demand[0])])
        gaps = [found.upper[0, a] - best[a] for a in range(3) if best[a] > -math.inf]
        assert max(gaps) <= near * abs(max(best))


GOLDEN_STEPS = (1, 2, 4, 9, 24)


def figures() -> dict[str, list[list[float | None]]]:
    """Bounds after so many steps: -inf is null."""
    out = {}
    for (name, case), (kind, lam), given in itertools.product(CASES.items(), RISKS.items(), (False, True)):
        if len(case.demand[0]) < 3:
            continue
        path = [1] * len(case.demand[0]) if given else [-1] * len(case.demand[0])
        rows = [bounds(name, kind, lam, steps=n, incumbent=path).upper[0].tolist() for n in GOLDEN_STEPS]
        out[f"{name} {kind} {'from a plan' if given else 'from nothing'}"] = [
            [x if x > -math.inf else None for x in row] for row in rows
        ]
    return out


def test_the_way_down_is_the_one_that_is_known() -> None:
    """Other steps give bounds too, perhaps worse ones: who changes them compares and writes the file anew."""
    known = json.loads(GOLDEN.read_text())
    found = figures()
    assert found.keys() == known.keys()
    for key, rows in found.items():
        for n, row, old in zip(GOLDEN_STEPS, rows, known[key], strict=True):
            assert [x is None for x in row] == [x is None for x in old]
            assert [x for x in row if x is not None] == pytest.approx([x for x in old if x is not None], rel=1e-10), n


# -------------------------------------------------------------------- the graph, budgets, input


def shelf_plan(windows: int = 1, **changes: Any) -> PanelPlan:
    """Windows of `two`, each with its own stock."""
    case = CASES["two"]
    policy = uc.UCBeam(depth=2, width=1, mode="members", spread="std", risk=0.5, discount=0.5, order="score")
    trace = uc.Trace.from_members([case.demand] * windows, case.p)
    states = [Shelf(float(w), 0.0) for w in range(1, windows + 1)]
    task = changes.pop("task", TASK)
    return uc.search_panel(task, states, trace, policy, params=changes.pop("params", case.costs), engine="python")


def of_plan(plan: PanelPlan, incumbent: Any = None, **options: Any) -> MembersBounds:
    path = plan.outputs.path if incumbent is None else incumbent
    options = {"engine": "python", "few_plans": 0, **options}
    return members_bounds(plan.task, plan.layout, plan.settings, plan.inputs, path, **options)


def test_the_graph_of_members_by_hand() -> None:
    """Stock 1, demand 0 then 2 and 3 then 0. Orders are part of the state: one node for each of the last orders and
    stocks, here of nine plans, those that end with equal stock and order are one."""
    plan = shelf_plan()
    assert [plan.inputs.members[0, j, :, 0].tolist() for j in range(2)] == [[0.0, 2.0], [3.0, 0.0]]
    graph = window_graph(plan.task, plan.settings._replace(node_budget=1000), plan.layout, plan.inputs, 0)
    # Member 0: stock 1, 2, 3 after orders of 0, 1, 2; from 3 an order of 2 does not fit. At the end: stock 0, 0, 1
    # (order 0, 1, 2 from 1), 0, 1, 2 from 2, 1, 2 from 3. Of order 0: stocks 0, 1; of 1: 0, 1, 2; of 2: 1, 2.
    # Member 1: stock 0 after every order, then 0, 1, 2 for orders of 0, 1, 2.
    assert (graph.status, graph.nodes, graph.fault) == (Status.PROVED, 3 + 7 + 3 + 3, (0, 0, 0))
    assert graph.starts.tolist() == [0, 1, 4, 11, 12, 15, 18]
    assert graph.first.tolist() == [0, 3, 6, 9, 11, *[11] * 7, 14, 17, 20, 23, *[23] * 3][: len(graph.first)]
    assert graph.act.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]
    assert graph.child.tolist() == [1, 2, 3, 4, 5, 6, 4, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17, 15, 16, 17, 15, 16, 17]
    # Holding 1, shortage 4, 0.5 an order; the second step counts half, what is left at the end a quarter of 0.25.
    first, second = [-1.0, -2.5, -3.5], [-2.0, -0.25, -0.75, 0.0, -0.75, -1.25, -0.5, -1.25]
    assert graph.gain.tolist() == [*first, *second, -8.0, -4.5, -0.5, *[0.0, -0.75, -1.25] * 3]
    assert graph.end.tolist() == [x / 16 for x in [0, 0, 0, 0, 0, 0, 1, 1, 2, 1, 2, 0, 0, 0, 0, 0, 1, 2]]


def test_the_text_of_the_kernel_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = shelf_plan(task=BROKEN)
    asked: list[dict[str, Any]] = [{"name": n, "node_budget": b} for n in ("three", "ramped") for b in (17, 1000)]
    plain = [bounds(kind="std", steps=3, **x) for x in asked] + [of_plan(plan, np.full((1, 2), -1))]
    monkeypatch.setattr(members_bound, "window_graph", None)  # nobody falls back
    fast = [bounds(kind="std", steps=3, engine="compiled", **x) for x in asked]
    monkeypatch.undo()  # a rule that divides by zero is asked in plain Python
    fast += [of_plan(plan, np.full((1, 2), -1), engine="compiled")]
    for one, other in zip(plain, fast, strict=True):
        for field in ("upper", "perfect", "exact", "nodes", "fault"):
            assert getattr(one, field).tobytes() == getattr(other, field).tobytes()
    assert fast[-1].fault.any()


def test_budgets_end_where_they_say() -> None:
    whole = bounds("three", "std", steps=2)
    count = int(whole.nodes[0])
    assert np.isfinite(whole.upper).any()
    assert bounds("three", "std", steps=2, node_budget=count).upper.tobytes() == whole.upper.tobytes()
    short = bounds("three", "std", steps=2, node_budget=count - 1)
    assert np.isnan(short.upper).all()
    assert np.isnan(short.perfect).all()
    assert (short.nodes[0], short.fault[0].tolist()) == (count - 1, [0, 0, 0])


def test_enumeration_counts_its_nodes_and_begins_where_it_may() -> None:
    """Nine plans of two steps, of which one does not fit: after 2 not 2 again."""
    plan = shelf_plan()
    states = int(of_plan(plan).nodes[0])
    for most, few in ((8, False), (9, True), (10, True)):
        found = of_plan(plan, few_plans=most)
        assert bool(found.exact[0]) is few
        assert found.nodes[0] == states + (3 + 8 if few else 0)
    some = plan.inputs.actions.copy()
    some[:, 2] = np.nan  # only two actions: four plans
    fewer = plan.inputs._replace(actions=some)
    for most, few in ((3, False), (4, True)):
        found = members_bounds(
            plan.task, plan.layout, plan.settings, fewer, plan.outputs.path, few_plans=most, engine="python"
        )
        assert bool(found.exact[0]) is few
        assert found.upper[0, 2] == -math.inf


def test_only_some_windows_and_the_rest_untouched() -> None:
    plan = shelf_plan(3)
    everything = of_plan(plan)
    some = of_plan(plan, only=np.array([False, True, False]))
    assert some.upper[1].tobytes() == everything.upper[1].tobytes()
    assert (some.nodes > 0).tolist() == [False, True, False]
    for w in (0, 2):
        assert np.isnan(some.upper[w]).all()
        assert np.isnan(some.perfect[w]).all()
        assert not some.exact[w]
    assert not of_plan(plan, only=np.array([False] * 3)).nodes.any()
    # Each window has its own state, and is as it is alone.
    assert len({x.tobytes() for x in everything.upper}) == 3
    assert of_plan(shelf_plan(1)).upper[0].tobytes() == everything.upper[0].tobytes()


def test_windows_with_weights_and_actions_of_their_own() -> None:
    """Two windows with different weights: each has its own row."""
    case = CASES["two"]
    policy = uc.UCBeam(depth=2, width=1, mode="members", spread="std", risk=0.5, discount=0.5, order="score")
    both = uc.Trace.from_members([case.demand] * 2, [[0.75, 0.25], [0.25, 0.75]])
    grids = np.array([[0.0, 1.0, 2.0], [0.0, 2.0, np.nan]])
    found = []
    for trace, rows in (
        (both, slice(0, 2)),
        *(
            (uc.Trace.from_members([case.demand], w), slice(k, k + 1))
            for k, w in enumerate(([0.75, 0.25], [0.25, 0.75]))
        ),
    ):
        plan = uc.search_panel(
            TASK,
            [case.start] * len(grids[rows]),
            trace,
            policy,
            params=case.costs,
            actions=grids[rows],
            engine="python",
        )
        found.append(of_plan(plan, steps=4).upper)
        exact = of_plan(plan, few_plans=4).exact  # of nine plans and of four
        assert exact.tolist() == [False, True][rows]
    assert found[0].tobytes() == found[1].tobytes() + found[2].tobytes()
    assert found[0][1, 2] == -math.inf
    assert found[0][0, 0] != found[0][1, 0]


def test_threads_change_nothing_and_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels alone let go of Python's lock: plain functions and one window have no pool."""
    plan = shelf_plan(3)
    alone = of_plan(plan)
    pools: list[int] = []

    class Pool(ThreadPoolExecutor):
        def __init__(self, max_workers: int) -> None:
            pools.append(max_workers)
            super().__init__(max_workers)

    monkeypatch.setattr(members_bound, "ThreadPoolExecutor", Pool)
    for options, used in (
        ({"engine": "python", "threads": 2}, []), ({"engine": "compiled", "threads": 1}, []),
        ({"engine": "compiled", "threads": 2, "only": np.array([False, True, False])}, []),
        ({"engine": "compiled", "threads": 2}, [2]),
    ):  # fmt: skip
        pools.clear()
        found = of_plan(plan, **options)
        rows = options.get("only", np.array([True] * 3))
        assert found.upper[rows].tobytes() == alone.upper[rows].tobytes()
        assert pools == used


def raising(s: Shelf, a: float, y: float, p: Costs) -> float:
    return 1.0 / (s.stock - 2.0)


BROKEN = uc.Task(
    name="broken_shelf", state=Shelf, actions=[0.0, 1.0, 2.0], feasible=room, step=sell, reward=raising, fallback=none,
    params=CASES["two"].costs,
)  # fmt: skip


def test_a_broken_reward_is_named_and_nothing_is_bounded() -> None:
    plan = shelf_plan(task=BROKEN)
    found = of_plan(plan, np.full((1, 2), -1))
    assert np.isnan(found.upper).all()
    assert found.fault[0].tolist() == [Fault.REWARD, 1, 0]  # of stock 2, which is reached by 1


def test_tasks_with_continuations_are_left_alone() -> None:
    task = uc.Task(
        name="followed_shelf", state=Shelf, actions=[0.0, 1.0, 2.0], feasible=room, step=sell, reward=pay,
        fallback=none, params=CASES["two"].costs, continuations=[none_at],
    )  # fmt: skip
    found = of_plan(shelf_plan(task=task))
    assert np.isnan(found.upper).all()
    assert not found.nodes.any()


def none_at(s: Shelf, h: int, p: Costs) -> float:
    return 0.0
