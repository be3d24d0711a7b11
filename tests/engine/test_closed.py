"""Closed mode: laws, both engines, certificate, gate and words."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import ucsearch as uc
from ucsearch.decision.gate import Reason
from ucsearch.engine import api, choose
from ucsearch.engine.arrays import Status
from ucsearch.engine.compiled import engine as compiled
from ucsearch.errors import InputError
from ucsearch.tasks import LeadTimeInventory

INVENTORY = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 2.0, 4.0, 6.0, 8.0), capacity=30.0, fixed_cost=3.0)
TASK, STATE = INVENTORY.task(), INVENTORY.state(4.0, (5.0,))
DEMAND = np.random.default_rng(7).poisson(5.0, (60, 5)).astype(float)
TRACE = uc.Trace.from_members(DEMAND)


def closed(**changes):
    return uc.Exact(**{"depth": 4, "mode": "closed", **changes})


def as_tree(trace, share_until=2):
    """A tree whose members are one for as long as their outcomes agree up to a step, then apart."""
    rows = trace.members[0, :, :, 0].tolist()
    names: dict[tuple[int, tuple[float, ...]], int] = {}
    node = [[names.setdefault((h, tuple(row[: h + 1])), len(names)) for h in range(len(row))] for row in rows]
    return trace.declare("tree", node=node)


# ---------------------------------------------------------------- laws


def test_lattice_keeps_the_mean_and_lies_on_the_unit():
    for unit, points in ((1.0, 9), (0.25, 4), (3.0, 1), (7.0, 60), (1e-9, 5), (1e9, 3)):
        law = TRACE.on_lattice(unit, points).law()
        for h, (values, weights) in enumerate(zip(law.points, law.weights, strict=True)):
            mean = math.fsum(w * y[0] for w, y in zip(weights, values, strict=True))
            assert mean == pytest.approx(DEMAND[:, h].mean(), rel=1e-12, abs=1e-9 * unit)
            assert math.fsum(weights) == pytest.approx(1.0, abs=1e-12)
            assert all(w > 0.0 for w in weights)
            assert values == sorted(set(values))
            assert all(y[0] == round(y[0] / unit) * unit for y in values)


def test_lattice_weighs_members_by_their_weight():
    heavy = uc.Trace.from_members([[0.0], [4.0]], [0.75, 0.25]).on_lattice(1.0, 4).law()
    assert heavy.points == [[(0.0,), (4.0,)]]
    assert heavy.weights[0] == pytest.approx([0.75, 0.25], abs=1e-11)
    same = uc.Trace.from_members([[0.0], [0.0], [0.0], [4.0]]).on_lattice(1.0, 4).law()
    assert same.weights == [[0.75, 0.25]]


def test_law_and_results_do_not_depend_on_the_order_of_members():
    turned = uc.Trace.from_members(DEMAND[::-1])
    for one, other in ((TRACE, turned), (TRACE.declare("markov", bins=2), turned.declare("markov", bins=2))):
        if one.has_law:
            assert one.law().hash() == other.law().hash()
            assert one.hash == other.hash
        assert one.on_lattice(1.0, 5).law().hash() == other.on_lattice(1.0, 5).law().hash()
    assert as_tree(TRACE).hash == as_tree(turned).hash


def test_independent_merges_equal_points():
    law = uc.Trace.from_members([[1.0, 2.0], [1.0, -0.0], [3.0, 0.0]], coupling="independent").law()
    assert law.points == [[(1.0,), (3.0,)], [(0.0,), (2.0,)]]
    assert law.weights[1] == pytest.approx([2 / 3, 1 / 3])


def test_markov_needs_members_and_one_bin_is_independence():
    with pytest.raises(InputError, match="30 members for each bin"):
        TRACE.declare("markov", bins=3)
    one, plain = TRACE.declare("markov", bins=1), TRACE.declare("independent")
    a, b = (uc.search(TASK, STATE, t, closed(), engine="python") for t in (one, plain))
    assert a.score == pytest.approx(b.score, rel=1e-12)


def test_markov_shares_are_those_of_the_members():
    law = TRACE.declare("markov", bins=2).law()
    ordered = np.argsort(DEMAND[:, 0], kind="stable")
    low_first = np.zeros(60, bool)
    edge = DEMAND[ordered[30], 0]
    low_first = edge > DEMAND[:, 0]  # equal values share the lower bin of their first rank
    if DEMAND[ordered[29], 0] == edge:
        low_first |= DEMAND[:, 0] == edge
    mean_after_low = sum(w * y[0] for w, y in zip(law.weights[1], law.points[1], strict=True))
    assert math.fsum(law.weights[1]) == pytest.approx(1.0)
    high = [y[0] for y, c in zip(law.points[0], law.after[0], strict=True) if c == 2]
    low = [y[0] for y, c in zip(law.points[0], law.after[0], strict=True) if c == 1]
    assert max(low) < min(high)
    assert min(DEMAND[:, 1]) < mean_after_low < max(DEMAND[:, 1])


def test_tree_is_checked():
    rows = [[1.0, 2.0], [1.0, 3.0]]
    with pytest.raises(InputError, match=r"trace.node\[1, 1\].*outcome"):
        uc.Trace.from_members(rows, coupling="tree", node=[[0, 0], [0, 0]])
    with pytest.raises(InputError, match=r"trace.node\[1, 1\].*one past"):
        uc.Trace.from_members([[1.0, 2.0], [4.0, 2.0]], coupling="tree", node=[[0, 0], [1, 0]])
    with pytest.raises(InputError, match="nodes with coupling='tree'"):
        uc.Trace.from_members(rows, coupling="tree")
    with pytest.raises(InputError, match="only then"):
        uc.Trace.from_members(rows, coupling="markov")


def test_traces_with_laws_are_saved_and_split(tmp_path):
    for trace in (TRACE.on_lattice(0.5, 3), TRACE.declare("markov", bins=2), as_tree(TRACE)):
        trace.save(tmp_path / "t.npz")
        again = uc.Trace.load(tmp_path / "t.npz")
        assert again.hash == trace.hash
        assert again.law().hash() == trace.law().hash()
        assert trace.window(0).law().hash() == trace.law().hash()
    assert TRACE.on_lattice(0.5, 3).hash != TRACE.on_lattice(0.5, 4).hash != TRACE.hash


def test_variance_ratio_tells_joint_members():
    level = np.random.default_rng(1).normal(size=(200, 1)) + np.zeros((1, 7))
    ratios = uc.Trace.from_members(level).on_lattice(0.1, 5).variance_ratios()
    assert ratios == pytest.approx({2: 2.0, 3: 3.0, 7: 7.0})
    assert uc.Trace.from_mean([1.0] * 7, [1.0] * 7).on_lattice(0.1, 5).variance_ratios() == {}


# ---------------------------------------------------------------- engines


@pytest.mark.compiled
def test_both_engines_give_the_same_bytes():
    for trace in (TRACE.on_lattice(1.0, 5), TRACE.declare("markov", bins=2), as_tree(TRACE)):
        for policy in (closed(), closed(risk=0.5, tail=0.3), closed(node_budget=300), closed(discount=0.9)):
            plain, fast = (uc.search(TASK, STATE, trace, policy, engine=e) for e in ("python", "compiled"))
            for one, other in zip(plain.outputs, fast.outputs, strict=True):
                assert one.tobytes() == other.tobytes()


@pytest.mark.compiled
def test_threads_change_no_byte():
    """The kernel is that of the test above."""
    r = np.random.default_rng(3)
    panel = uc.Trace.from_members(r.poisson(4.0, (40, 20, 4)).astype(float)).on_lattice(1.0, 4)
    states = [INVENTORY.state(float(x), (float(y),)) for x, y in r.integers(0, 8, (40, 2))]
    one, two = (
        uc.search_panel(TASK, states, panel, closed(), engine="compiled", threads=n, keep_paths=True) for n in (1, 2)
    )
    for a, b in zip(one.outputs, two.outputs, strict=True):
        assert a.tobytes() == b.tobytes()


def test_a_panel_goes_on_compiled_once_its_windows_show_the_work(monkeypatch):
    """How many states repeat is a guess before the first window; what was done is told once, and changes no byte."""
    panel = uc.Trace.from_members(np.random.default_rng(5).poisson(4.0, (6, 20, 4)).astype(float)).on_lattice(1.0, 4)
    plain = uc.search_panel(TASK, [STATE] * 6, panel, closed(), engine="python")
    first = int(plain.outputs.out_i[0, 2])
    told = []
    for place in (choose, api):
        monkeypatch.setattr(place, "WORTH_COMPILING", first)
    monkeypatch.setattr(choose, "_CLOSED_STATES", 0)
    monkeypatch.setattr(compiled, "on_disk", lambda *_: False)
    monkeypatch.setattr(compiled, "ready_kernel", lambda *_: None)
    found = uc.search_panel(TASK, [STATE] * 6, panel, closed(), progress=told.append)
    assert found.engine == "compiled"
    assert sum(told) == 6
    assert found.outputs.out_i.tobytes() == plain.outputs.out_i.tobytes()
    assert found.outputs.table.tobytes() == plain.outputs.table.tobytes()
    halted = uc.search_panel(TASK, [STATE] * 6, panel, closed(), stop=lambda: False)
    assert halted.engine == "python"  # a time budget is not spent on compiling


def test_a_panel_is_its_windows():
    r = np.random.default_rng(3)
    members = r.poisson(4.0, (6, 20, 4)).astype(float)
    panel = uc.Trace.from_members(members).on_lattice(1.0, 4)
    states = [INVENTORY.state(float(x), (float(y),)) for x, y in r.integers(0, 8, (6, 2))]
    whole = uc.search_panel(TASK, states, panel, closed(), engine="python", keep_paths=True)
    for w, state in enumerate(states):
        one = uc.search(TASK, state, uc.Trace.from_members(members[w]).on_lattice(1.0, 4), closed(), engine="python")
        assert one.outputs.table.tobytes() == whole.outputs.table[w].tobytes()
        assert one.reached == whole[w].reached
    stacked = [uc.Trace.from_members(m).on_lattice(1.0, 4) for m in members]
    again = uc.search_panel(TASK, states, stacked, closed(), engine="python")
    assert again.outputs.table.tobytes() == whole.outputs.table.tobytes()


def test_one_point_laws_equal_mean_mode_and_one_step_equals_members_mode():
    sure = uc.Trace.from_members(DEMAND[:1], coupling="independent")
    a = uc.search(TASK, STATE, sure, closed(), engine="python")
    b = uc.search(TASK, STATE, sure, uc.Exact(depth=4, every_action=True), engine="python")
    for x, y in zip(a.first_actions, b.first_actions, strict=True):
        assert x.score == pytest.approx(y.score, rel=1e-12, nan_ok=True)
    law = TRACE.declare("independent")
    a = uc.search(TASK, STATE, law, closed(depth=1), engine="python")
    b = uc.search(TASK, STATE, law, uc.Exact(depth=1, mode="members", every_action=True), engine="python")
    for x, y in zip(a.first_actions, b.first_actions, strict=True):
        assert x.score == pytest.approx(y.score, rel=1e-12, nan_ok=True)


def test_a_tree_is_worth_at_least_the_best_common_plan():
    tree = as_tree(TRACE)
    best = uc.search(TASK, STATE, tree, closed(), engine="python").score
    plan = uc.search(TASK, STATE, tree, uc.Exact(depth=4, mode="members", risk=0.0), engine="python").score
    assert best >= plan - 1e-9


# ---------------------------------------------------------------- certificate, gate, words


def test_certificate_is_exact_for_every_first_action():
    c = uc.certify(TASK, STATE, TRACE.on_lattice(1.0, 5), closed(risk=0.4), run=uc.Run(engine="python"))
    assert c.kind == "closed_exact"
    assert c.certificate_pass
    assert c.proved
    assert c.optimal
    assert all(r.upper == r.score for r in c.rivals)
    assert len(c.rivals) == 5
    ranked = sorted((r.score for r in c.rivals), reverse=True)
    assert c.gap == ranked[0] - ranked[1]
    assert c.exact_regret == 0.0
    assert c.regret_bound == 0.0
    assert c.closed is not None
    assert c.closed.law["kind"] == "independent"
    assert c.closed.law["unit"] == 1.0
    assert c.closed.transitions == c.counters["expansions"] > c.closed.states > 0
    low, middle, high = c.plan.branches
    assert low.actions[0] == middle.actions[0] == high.actions[0] == c.action == c.plan.path[0]
    assert middle.actions == c.plan.path
    assert sum(low.actions) <= sum(high.actions)


def test_joint_members_and_trees_of_single_paths_say_nothing_of_what_is_learned():
    single = TRACE.declare("tree", node=np.arange(60)[:, None] + np.zeros((1, 5), int))
    for trace in (TRACE, uc.Trace.from_mean([4.0] * 5, [1.0] * 5), single):
        d = uc.decide(TASK, STATE, trace, closed(), run=uc.Run(engine="python"))
        assert d.cause is Reason.NO_INFORMATION_STRUCTURE
        assert "on_lattice" in d.sentence
        assert uc.search(TASK, STATE, trace, closed(), engine="python").status is Status.NO_STRUCTURE
    assert uc.decide(TASK, STATE, single, closed(depth=1), run=uc.Run(engine="python")).released


def test_a_small_budget_is_a_no_go_and_nothing_is_spent_beyond_it():
    trace = TRACE.on_lattice(1.0, 5)
    need = uc.search(TASK, STATE, trace, closed(), engine="python").expansions
    d = uc.decide(TASK, STATE, trace, closed(node_budget=need - 1), run=uc.Run(engine="python"))
    assert d.cause is Reason.NODE_BUDGET
    assert d.certificate.counters["expansions"] < need
    assert uc.decide(TASK, STATE, trace, closed(node_budget=need), run=uc.Run(engine="python")).released


def test_words_name_the_opponents_and_the_assumption():
    level = np.repeat(np.arange(8.0)[:, None], 5, axis=1)
    d = uc.decide(TASK, STATE, uc.Trace.from_members(level).on_lattice(1.0, 8), closed(), run=uc.Run(engine="python"))
    assert d.released
    assert "proved best among " in d.sentence
    assert " sizes offered" in d.sentence
    assert "against every policy on this grid under this forecast" in d.sentence
    assert "under independent steps" in d.sentence
    assert "variance ratio 5.00" not in d.sentence
    assert "variance ratio 3.00: steps hang together" in d.sentence
    assert "after high outcomes the policy continues with" in d.explain()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: uc.UCBeam(depth=3, mode="closed"), "uc.Exact"),
        (lambda: uc.MCTS(depth=3, mode="closed"), "uc.Exact"),
        (lambda: closed(spread="std"), "No recursion"),
        (lambda: closed(risk=1.5), "at most 1"),
        (lambda: closed(order="bound"), "closed mode"),
        (lambda: closed(tail=0.0), "tail"),
        (lambda: uc.Exact(depth=3, spread="cvar"), "members and closed mode"),
    ],
)
def test_what_closed_mode_cannot_do_is_refused(make, text):
    with pytest.raises(InputError, match=text):
        make()


def test_a_broken_rule_names_its_step_and_action():
    broken = uc.Task(
        "broken", TASK.state, TASK.actions, TASK.feasible, TASK.step,
        lambda s, a, y, p: math.nan if s.on_hand > 9.0 else 1.0, TASK.fallback, params=TASK.params,
    )  # fmt: skip
    d = uc.decide(broken, STATE, TRACE.on_lattice(1.0, 5), closed(), run=uc.Run(engine="python"))
    assert d.cause is Reason.TASK_ERROR
    assert "step" in d.sentence


def test_a_panel_may_have_a_unit_per_window(tmp_path: Path) -> None:
    trace = uc.Trace.from_members(np.random.default_rng(0).poisson(9.0, (3, 20, 5)).astype(float))
    units = [1.0, 2.0, 0.5]
    panel = trace.on_lattice(units)
    for w, unit in enumerate(units):
        alone = trace.window(w).on_lattice(unit)
        assert panel.law(w).hash() == alone.law().hash()
        assert panel.window(w).hash == alone.hash
    panel.save(tmp_path / "panel.npz")
    assert uc.Trace.load(tmp_path / "panel.npz").declared == panel.declared
    assert trace.on_lattice([2.0, 2.0, 2.0]).declared == trace.on_lattice(2.0).declared
    with pytest.raises(uc.InputError, match="3, one per window"):
        trace.on_lattice([1.0, 2.0])
    with pytest.raises(uc.InputError, match=r"unit\[1\]"):
        trace.on_lattice([1.0, 0.0, 1.0])


# ---------------------------------------------------------------- lattices and known problems


@pytest.mark.parametrize(("penalty", "lead"), [(4, 1), (39, 1), (9, 2)])
def test_lost_sales_instances_agree_with_value_iteration(penalty, lead):
    """Poisson demand as in Zipkin's instances, by arrays over on-hand stock and open orders."""
    orders, horizon, mean = 5, 4, 2.0
    y = np.arange(9)
    w = np.exp(-mean) * mean**y / np.array([math.factorial(int(k)) for k in y])
    w = w / w.sum()
    inventory = LeadTimeInventory(lead_time=lead, order_sizes=tuple(map(float, range(orders))), shortage=float(penalty))
    trace = uc.Trace.from_distribution(pmf=(y.astype(float), w), horizon=horizon).declare("independent")
    plan = uc.search(
        inventory.task(), inventory.state(2.0, (1.0,) * lead), trace, closed(depth=horizon), engine="python"
    )
    most = 2 + lead + horizon * orders
    value = np.zeros((most + orders, *(orders,) * lead))
    shape = value.shape
    for step in range(horizon):
        after = value
        quality = np.full((*shape, orders), -np.inf)
        for index in np.ndindex(*shape):
            available = index[0] + index[1]
            if available >= most and step < horizon - 1:
                continue
            for a in range(orders):
                total = 0.0
                for demand, share in zip(y, w, strict=True):
                    left, short = max(available - demand, 0), max(demand - available, 0)
                    ahead = after[(min(left, shape[0] - 1), *index[2:], a)] if lead > 1 else after[min(left, most), a]
                    total += share * (-1.0 * left - penalty * short + ahead)
                quality[(*index, a)] = total
        value = quality.max(axis=-1)
    expected = quality[(2, *(1,) * lead)]
    found = [row.score for row in plan.first_actions]
    assert found == pytest.approx(expected.tolist(), abs=1e-9)


def test_inventory_lattice_lets_states_merge():
    trace = uc.Trace.from_members(DEMAND * 3.7 + 0.31)
    made = INVENTORY.lattice(trace)
    assert made.unit == 2.0
    assert all(size % made.unit == 0.0 for size in made.inventory.order_sizes)
    stock = made.inventory.state(4.25, (6.0,))
    plan = uc.search(made.inventory.task(), stock, made.trace, closed(), engine="python")
    assert plan.proved
    assert plan.reached * 10 < plan.expansions
    packs = LeadTimeInventory(case_pack=6.0).lattice(trace)
    assert packs.unit == 3.0
    assert all(size % 6.0 == 0.0 for size in packs.inventory.order_sizes)
    with pytest.raises(InputError, match="spoilage"):
        LeadTimeInventory(spoilage=0.1).lattice(trace)


def test_members_mode_dead_ends_name_closed_mode():
    from typing import NamedTuple

    class Side(NamedTuple):
        x: float

    task = uc.Task(
        "sides", Side, (-1.0, 1.0), lambda s, a, p: s.x == 0.0 or a * s.x < 0.0, lambda s, a, y, p: Side(y),
        lambda s, a, y, p: a, lambda s, p: -1.0,
    )  # fmt: skip
    trace = uc.Trace.from_members([[-1.0, 0.0], [1.0, 0.0]], coupling="independent")
    stuck = uc.decide(task, Side(0.0), trace, uc.Exact(depth=2, mode="members"), run=uc.Run(engine="python"))
    assert stuck.cause is Reason.DEAD_END
    assert "No fixed plan keeps the rules for every member" in stuck.sentence
    assert "closed" in stuck.sentence
    assert uc.decide(task, Side(0.0), trace, closed(depth=2), run=uc.Run(engine="python")).released


def test_check_task_tells_of_states_that_differ_by_rounding():
    from typing import NamedTuple

    from ucsearch.check import TaskWarning

    class Level(NamedTuple):
        x: float

    def make(step):
        return uc.Task(
            "leak", Level, (0.0, 0.1, 0.2, 0.3), lambda s, a, p: True, step, lambda s, a, y, p: a, lambda s, p: 0.0
        )

    with pytest.warns(TaskWarning, match="by rounding alone"):
        uc.check_task(make(lambda s, a, y, p: Level(s.x + a)), Level(0.0), [0.0], closed=True)


def test_re_planning_is_worth_what_policies_gain_over_fixed_plans():
    from itertools import product

    trace = uc.Trace.from_members(DEMAND[:6, :3]).declare("independent")
    c = uc.certify(TASK, STATE, trace, closed(depth=3, fixed_plan=True), run=uc.Run(engine="python"))
    law, best = trace.law(), -math.inf
    for plan in product(TASK.actions, repeat=3):
        total = 0.0
        for picks in product(*(range(len(p)) for p in law.points[:3])):
            state, share, earned = STATE, 1.0, 0.0
            for h, k in enumerate(picks):
                if not TASK.feasible(state, plan[h], TASK.params):
                    earned = -math.inf
                    break
                y = law.points[h][k][0]
                earned += TASK.reward(state, plan[h], y, TASK.params)
                state, share = TASK.step(state, plan[h], y, TASK.params), share * law.weights[h][k]
            total += share * earned
        best = max(best, total)
    assert c.closed.open_value == pytest.approx(best, rel=1e-12)
    assert c.closed.flexibility == pytest.approx(c.plan.score - best, abs=1e-9)
    assert c.closed.flexibility > 0.0
    with pytest.raises(InputError, match="fixed_plan"):
        uc.Exact(depth=2, fixed_plan=True)


@pytest.mark.parametrize("kind", ["lattice", "independent", "markov"])
def test_a_window_s_law_is_the_same_taken_from_a_panel_or_made_alone(kind: str) -> None:
    rng = np.random.default_rng(4)
    members = np.stack([np.full((60, 4), 2.0), rng.poisson(3.0, (60, 4)), rng.normal(9.0, 4.0, (60, 4))])
    trace = uc.Trace.from_members(members.astype(float))
    if kind == "lattice":
        trace = trace.on_lattice([1.0, 1.0, 0.5], 5)
    else:
        trace = trace.declare(kind, **({"bins": 2} if kind == "markov" else {}))
    alone = [trace.window(w).laws for w in range(3)]
    assert trace.laws.points.shape[0] == 3  # made now, and handed on from now on
    for w, one in enumerate(alone):
        taken = trace.window(w)
        assert "laws" in taken.__dict__
        for name in ("points", "weights", "after", "starts", "learns"):
            assert np.array_equal(getattr(taken.laws, name), getattr(one, name)), name
