"""`search` and `search_panel`: what they accept in which form, what they refuse, what they hand back."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.templates import (
    TEMPLATES,
    BatteryParams,
    Cell,
    Charge,
    Clock,
    MazeParams,
    Pack,
    Risky,
    RiskyParams,
    Stock,
    Tank,
    TankParams,
)
from ucsearch.engine import PanelPlan
from ucsearch.errors import InputError, TaskError
from ucsearch.records import decision_record

NAN, INF = float("nan"), float("inf")
BATTERY, STOCK, CLOCK, TANK, RISKY, MAZE, PACK, FREE, FOLLOWED = (
    TEMPLATES[name].task for name in ("battery", "stock", "clock", "tank", "risky", "maze", "pack", "free", "followed")
)
PRICES = np.random.default_rng(0).normal(40, 15, (4, 6))
TRACE = uc.Trace.from_members(PRICES, model="seasonal", cutoff="2024-03-01")
POLICY = uc.UCBeam(depth=4, width=6, top_k=3, risk=0.25)
START = Charge(4.0, 0.0)


def search(**changes: Any) -> uc.Plan:
    basic: dict[str, Any] = {"task": BATTERY, "state": START, "trace": TRACE, "policy": POLICY, "engine": "python"}
    return uc.search(**{**basic, **changes})


# -------------------------------------------------------------------- one window


def test_a_plan_describes_its_path() -> None:
    plan = search()
    assert plan.status is uc.Status.FOUND
    assert plan.found
    assert not plan.proved
    assert plan.action == plan.path[0] == BATTERY.actions[plan.action_index]
    assert plan.label == f"{plan.action:g}"
    assert plan.actions == BATTERY.actions
    assert len(plan.path) == 4
    state: Any = START
    for h, a in enumerate(plan.path):
        assert plan.states[h] == state
        assert plan.step_rewards[h] == BATTERY.reward(state, a, float(TRACE.mean[0, h, 0]), BATTERY.params)
        state = BATTERY.step(state, a, float(TRACE.mean[0, h, 0]), BATTERY.params)
    assert plan.states[4] == state
    assert plan.reward == pytest.approx(sum(plan.step_rewards))
    assert plan.uncertainty == pytest.approx(sum(plan.step_uncertainties))
    assert plan.score == plan.reward - 0.25 * plan.uncertainty
    assert math.isnan(plan.upper)
    assert math.isnan(plan.optimality_gap)
    assert plan.error is None
    assert plan.continuation == -1
    assert plan.simulations == 0
    assert 0 < plan.expansions <= 3 * (1 + 6 * 3)
    assert 0 < plan.action_scores <= 5 * (1 + 6 * 3)


def test_the_first_action_table_tells_what_became_of_each() -> None:
    plan = search(state=Charge(0.0, 0.0))
    rows = {row.action: row for row in plan.first_actions}
    assert list(rows) == list(BATTERY.actions)
    assert not rows[-2.0].feasible  # nothing is stored
    assert not rows[-2.0].generated
    assert math.isnan(rows[-2.0].score)
    assert math.isnan(rows[-2.0].step_reward)
    chosen = rows[plan.action or 0.0]
    assert chosen.retained
    assert (chosen.score, chosen.reward, chosen.uncertainty) == (plan.score, plan.reward, plan.uncertainty)
    assert chosen.path == plan.path
    assert chosen.step_reward == plan.step_rewards[0]
    assert chosen.step_uncertainty == plan.step_uncertainties[0]


def test_members_mode_has_a_state_per_member() -> None:
    plan = uc.search(
        TANK, Tank(1.0), uc.Trace.from_members(np.ones((3, 4, 2)) * [[[1.0]], [[2.0]], [[3.0]]], fields=2),
        uc.UCBeam(depth=2, mode="members"), engine="python",
    )  # fmt: skip
    assert [len(s) for s in plan.states] == [3, 3, 3]
    assert all(isinstance(x, Tank) for s in plan.states for x in s)


def test_a_continuation_is_named() -> None:
    trace = uc.Trace.from_members(np.full((2, 5), 3.0))
    plan = uc.search(FOLLOWED, Stock(2.0, (2.0, 2.0), 2.0), trace, uc.UCBeam(depth=2, mode="members"), engine="python")
    assert plan.found
    assert plan.continuation in (0, 1, 2, 3)


def test_an_exact_plan_is_proved() -> None:
    plan = search(policy=uc.Exact(depth=3, every_action=True))
    assert plan.proved
    assert plan.upper == plan.score
    assert plan.optimality_gap == 0.0
    assert all(row.exact for row in plan.first_actions if row.feasible and not row.dead)


def test_a_plan_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        search().window = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    "policy", [POLICY, uc.Exact(depth=2, every_action=True), uc.MCTS(depth=2), uc.Exact(depth=2, node_budget=1)]
)
def test_to_dict_is_plain_json(policy: Any) -> None:
    content = search(policy=policy, actions=[NAN, -1.0, 0.0, 1.0, 2.0]).to_dict()
    again = json.loads(json.dumps(content, allow_nan=False))
    assert again["trace_hash"] == TRACE.hash
    assert again["task"] == "battery"
    assert again["counters"].keys() == {"expansions", "action_scores", "simulations"}
    assert len(again["first_actions"]) == 5
    assert again["first_actions"][0]["action"] is None
    assert again["settings"]["depth"] == policy.depth
    if again["action"] is not None:
        assert again["path"][0] == again["action"]
        assert len(again["states"]) == policy.depth + 1


def test_to_dict_of_a_dead_end_is_plain_json_too() -> None:
    content = search(actions=[NAN] * 5).to_dict()
    again = json.loads(json.dumps(content, allow_nan=False))
    assert (again["status"], again["action"], again["path"], again["score"]) == ("dead_end", None, [], None)


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow"])
def test_frames(backend: str) -> None:
    library = pytest.importorskip(backend)
    kind = library.Table if backend == "pyarrow" else library.DataFrame
    frame = search().frame(backend)
    assert isinstance(frame, kind)
    names = frame.column_names if backend == "pyarrow" else list(frame.columns)
    assert names[:3] == ["action", "label", "feasible"]
    assert len(frame) == 5
    many = uc.search_panel(BATTERY, [START] * 3, PRICES[None].repeat(3, 0), POLICY, engine="python").frame(backend)
    assert isinstance(many, kind)
    assert len(many) == 3


def test_the_frame_holds_the_table() -> None:
    pytest.importorskip("polars")
    plan = search()
    frame = plan.frame("polars")
    assert frame["action"].to_list() == list(BATTERY.actions)
    assert frame["retained"].to_list() == [row.retained for row in plan.first_actions]
    panel = uc.search_panel(BATTERY, [START], TRACE, POLICY, engine="python")
    assert panel.frame("polars")["status"].to_list() == ["found"]
    assert panel.frame("polars")["score"].to_list() == [plan.score]


def test_an_unknown_frame_library_is_refused() -> None:
    with pytest.raises(InputError, match="backend: saw 'excel', expected 'auto' or one of"):
        search().frame("excel")


def test_a_missing_frame_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from ucsearch import formatting

    def refuse(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(formatting.importlib, "import_module", refuse)
    with pytest.raises(InputError, match=r"polars, pandas or pyarrow to be installed. pip install pyarrow"):
        search().frame()


def test_the_repr_is_one_line() -> None:
    plan = search()
    assert repr(plan).startswith(f"Plan(battery: action {plan.action:g}, score ")
    assert repr(plan).endswith(f"found, {plan.expansions} expansions)")
    assert repr(search(actions=[NAN] * 5)) == "Plan(battery: dead_end, no action)"


def test_the_notebook_view_says_why_the_others_lost() -> None:
    html = search(state=Charge(0.0, 0.0))._repr_html_()
    assert html.count("<tr>") == 6
    assert "chosen" in html
    assert "not allowed" in html
    packs = uc.search(
        PACK, Pack(0.0), uc.Trace.from_members([[2.0, 3.0]]), uc.UCBeam(depth=1, top_k=1), engine="python"
    )
    assert "same effect as a smaller action" in packs._repr_html_()
    assert "pruned at the root" in packs._repr_html_()


def test_labels_follow_the_window_s_own_actions() -> None:
    plan = search(state=Charge(0.0, 0.0), actions=[0.5, 1.5, 2.5, 3.5, 4.5], params=BatteryParams(20.0, 9.0, 1.0))
    assert [row.label for row in plan.first_actions] == ["0.5", "1.5", "2.5", "3.5", "4.5"]
    assert plan.label == f"{plan.action:g}"


def test_params_given_to_one_search() -> None:
    tight = search(params=BatteryParams(4.0, 1.0, 0.95))
    assert all(state.charge <= 4.0 and abs(state.last) <= 2.0 for state in tight.states)
    assert abs(tight.path[0]) <= 1.0  # the ramp from 0
    assert search().path[0] == -2.0


def test_equal_calls_give_equal_bytes() -> None:
    one, two = search(), search()
    for a, b in zip(one.outputs, two.outputs, strict=True):
        assert a.tobytes() == b.tobytes()


def test_a_second_call_may_have_another_state_or_shape() -> None:
    """Calls with the same task, policy and trace share their preparation, but not the state."""
    trace = uc.Trace.from_members(np.full((2, 4), 3.0))
    policy = uc.UCBeam(depth=2, order="score")
    states = [Stock(1.0, (2.0, 0.0), 2.0), Stock(9.0, (2.0, 0.0), 2.0), Stock(1.0, (5.0, 3.0, 0.0), 2.0)]
    shared = [uc.search(STOCK, s, trace, policy, engine="python").score for s in states]
    fresh = [uc.search(STOCK, s, trace, dataclasses.replace(policy), engine="python").score for s in states]
    assert shared == fresh
    assert len(set(shared)) == 3


def test_the_caller_s_arrays_may_change_afterwards() -> None:
    prices = PRICES.copy()
    trace = uc.Trace.from_members(prices)
    first = search(trace=trace)
    prices[:] = 0.0
    assert search(trace=trace).score == first.score


def test_rows_of_states_and_parameters_may_change_afterwards() -> None:
    """A simulation steps its states in place; the record of what was decided before kept following them."""
    traces = uc.Trace.from_members(np.stack([PRICES, PRICES]))
    states = np.array([START, Charge(1.0, 0.0)])
    params = np.tile(BATTERY.params_row, (2, 1))
    panel = uc.decide_panel(BATTERY, states, traces, POLICY, params=params, run=uc.Run(engine="python"))
    before = [decision_record(panel[w]) for w in range(2)]
    states += 1.0
    params *= 2.0
    assert [decision_record(panel[w]) for w in range(2)] == before


# -------------------------------------------------------------------- dead ends and broken tasks


def test_an_empty_feasible_set_is_an_answer() -> None:
    for policy in (POLICY, uc.Exact(depth=2), uc.MCTS(depth=2), uc.ParetoBeam(depth=2), uc.CertifiedBeam(depth=2)):
        plan = search(state=Charge(4.0, 9.0), policy=policy)  # no action is within the ramp
        assert plan.status is uc.Status.DEAD_END
        assert plan.action is None
        assert plan.label is None
        assert plan.path == ()
        assert plan.states == ()
        assert math.isnan(plan.score)
        assert not any(row.feasible for row in plan.first_actions)


def test_a_broken_task_raises_and_names_step_and_action() -> None:
    trace = uc.Trace.from_members([[1.0, 1.0, 1.0]])
    with pytest.raises(TaskError) as caught:
        uc.search(RISKY, Risky(1.0), trace, uc.UCBeam(depth=3), params=RiskyParams(3.0), engine="python")
    assert str(caught.value) == "task 'risky': reward is not a finite number (window 0, step 1, action 1.0)"
    assert (caught.value.step, caught.value.action, caught.value.window) == (1, 1.0, 0)


def raising_step(s, a, y, p):
    return Clock(s.t / a)


def infinite_step(s, a, y, p):
    return Clock(s.t + (math.inf if a == 1.0 else 1.0))


def wide_step(s, a, y, p):
    return (s.t, a)


def nan_terminal(s, p):
    return math.nan


def huge_reward(s, a, y, p):
    return 1e308


def raising_feasible(s, a, p):
    return math.log(s.t) > 0.0


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "a division by zero": (
        {"step": raising_step},
        "step returned a state that is not finite (window 0, step 0, action 0.0)",
    ),
    "an infinite state": (
        {"step": infinite_step},
        "step returned a state that is not finite (window 0, step 0, action 1.0)",
    ),
    "a state of another shape": (
        {"step": wide_step},
        "step returned a state that is not finite (window 0, step 0, action -1.0)",
    ),
    "a NaN terminal value": ({"terminal": nan_terminal}, "terminal is not a finite number (window 0, step 1,"),
    "a sum that overflows": (
        {"reward": huge_reward},
        "the sum of rewards along a path is not finite (window 0, step 1,",
    ),
    "a feasible that raises": (
        {"feasible": raising_feasible},
        "feasible raised an exception or gave neither True nor False (window 0, step 0, action -1.0)",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_faults_are_named(name: str) -> None:
    faults, message = BROKEN[name]
    parts: dict[str, Any] = {
        role: getattr(CLOCK, role) for role in ("feasible", "step", "reward", "fallback", "terminal")
    }
    task = uc.Task(name="faulty", state=Clock, actions=CLOCK.actions, **{**parts, **faults})
    with pytest.raises(TaskError) as caught:
        uc.search(task, Clock(0.0), TRACE, uc.UCBeam(depth=2), engine="python")
    assert str(caught.value).startswith(f"task 'faulty': {message}")


def test_other_mistakes_in_user_code_keep_their_traceback() -> None:
    """A breakpoint or a traceback in user code should be the user's own."""

    def typo(s, a, y, p):
        return s.tt

    task = uc.Task(
        name="typo", state=Clock, actions=[0.0], feasible=CLOCK.feasible, step=CLOCK.step, reward=typo,
        fallback=CLOCK.fallback,
    )  # fmt: skip
    with pytest.raises(TaskError, match=r"reward raised AttributeError: .*tt") as caught:
        uc.search(task, Clock(0.0), TRACE, uc.UCBeam(depth=1), engine="python")
    assert isinstance(caught.value.__cause__, AttributeError)
    assert caught.value.__cause__.__traceback__ is not None


def test_transitions_that_need_outcomes_fail_without_them() -> None:
    """Scores without outcomes: a transition that reads one must not guess."""
    blind = uc.Trace.from_scores(np.zeros((2, 6)), np.zeros((2, 6)))
    with pytest.raises(TaskError, match="step returned a state that is not finite"):
        uc.search(PACK, Pack(0.0), blind, uc.UCBeam(depth=1, mode="scores"), engine="python")


def test_a_broken_window_does_not_stop_a_panel() -> None:
    trace = uc.Trace.from_members(np.ones((3, 1, 3)))
    panel = uc.search_panel(
        RISKY, [Risky(5.0), Risky(1.0), Risky(5.0)], trace, uc.UCBeam(depth=2), engine="python",
        params=RiskyParams(np.array([9.0, 3.0, 9.5])),  # type: ignore[arg-type]
    )  # fmt: skip
    assert panel.status.tolist() == [uc.Status.FOUND, uc.Status.TASK_ERROR, uc.Status.FOUND]
    assert np.isnan(panel.action[1])
    assert np.isnan(panel.path[1]).all()
    (error,) = panel.errors()
    assert str(error) == "task 'risky': reward is not a finite number (window 1, step 1, action 1.0)"
    with pytest.raises(TaskError, match="window 1"):
        panel.raise_for_errors()
    assert panel[1].error is not None
    assert panel[0].error is None


# -------------------------------------------------------------------- many windows

COUNT = 5
STATES = [Charge(float(c), 0.0) for c in range(COUNT)]
MANY = np.random.default_rng(1).normal(40, 15, (COUNT, 3, 6))


def same(a: PanelPlan, b: PanelPlan) -> bool:
    return all(x.tobytes() == y.tobytes() for x, y in zip(a.outputs, b.outputs, strict=True))


def panel(**changes: Any) -> PanelPlan:
    basic: dict[str, Any] = {
        "task": BATTERY, "states": STATES, "traces": MANY, "policy": POLICY, "engine": "python", "keep_paths": True
    }  # fmt: skip
    return uc.search_panel(**{**basic, **changes})


def test_a_panel_is_its_windows() -> None:
    many = panel()
    assert len(many) == COUNT
    for w in range(COUNT):
        one = search(state=STATES[w], trace=uc.Trace.from_members(MANY[w]))
        plan = many[w]
        assert plan.first_actions == one.first_actions or repr(plan.first_actions) == repr(one.first_actions)
        assert (plan.action, plan.path, plan.score) == (one.action, one.path, one.score)
        assert (many.action[w], many.score[w], many.reward[w]) == (one.action, one.score, one.reward)
        assert many.uncertainty[w] == one.uncertainty
        assert tuple(many.path[w]) == one.path
        assert (many.expansions[w], many.action_scores[w]) == (one.expansions, one.action_scores)
        assert plan.trace.hash == one.trace.hash
        assert plan.states == one.states
    assert many[-1].path == many[COUNT - 1].path
    with pytest.raises(IndexError, match="window 5 of 5"):
        many[COUNT]


@pytest.mark.parametrize(
    "states",
    [
        np.array(STATES),
        Charge(np.arange(5.0), np.zeros(5)),  # type: ignore[arg-type]
        Charge(np.arange(5.0), 0.0),  # type: ignore[arg-type]
        tuple(STATES),
        iter(STATES),
    ],
    ids=["array", "arrays", "arrays and a number", "tuple", "iterator"],
)
def test_states_in_every_form(states: Any) -> None:
    assert same(panel(states=states), panel())


def test_one_state_for_all_windows() -> None:
    assert same(panel(states=STATES[2]), panel(states=[STATES[2]] * COUNT))


def test_pipelines_in_every_form() -> None:
    states = [Stock(float(i), (1.0, float(i)), 2.0) for i in range(COUNT)]
    rows = np.array([[s.on_hand, *s.pipeline, s.last] for s in states])
    columns = Stock(np.arange(5.0), (np.ones(5), np.arange(5.0)), 2.0)  # type: ignore[arg-type]
    block = Stock(np.arange(5.0), rows[:, 1:3], 2.0)  # type: ignore[arg-type]
    expected = panel(task=STOCK, states=states)
    for form in (rows, columns, block):
        assert same(panel(task=STOCK, states=form), expected)


def test_traces_in_every_form() -> None:
    expected = panel()
    assert same(panel(traces=uc.Trace.from_members(MANY)), expected)
    assert same(panel(traces=[uc.Trace.from_members(x) for x in MANY]), expected)
    assert same(panel(traces=tuple(uc.Trace.from_members(x) for x in MANY)), expected)
    assert same(panel(traces=MANY.tolist()), expected)


def test_params_and_actions_differ_by_window() -> None:
    params = BatteryParams(np.arange(4.0, 9.0), 2.0, np.linspace(0.8, 1.0, 5))  # type: ignore[arg-type]
    actions = np.tile(BATTERY.action_array, (COUNT, 1))
    actions[1, 0] = actions[2, 4] = np.nan
    actions[3] = [-1.5, -0.5, 0.0, 0.5, 1.5]
    many = panel(params=params, actions=actions)
    for w in range(COUNT):
        own = BatteryParams(float(params.capacity[w]), 2.0, float(params.efficiency[w]))  # type: ignore[index]
        one = search(state=STATES[w], trace=uc.Trace.from_members(MANY[w]), params=own, actions=actions[w])
        assert (many[w].path, many[w].score) == (one.path, one.score)
        assert many[w].label == one.label
    rows = np.column_stack([params.capacity, np.full(5, 2.0), params.efficiency])
    assert same(panel(params=rows, actions=actions), many)
    listed = [BatteryParams(*row) for row in rows.tolist()]
    assert same(panel(params=listed, actions=actions), many)


def test_tuple_params_differ_by_window() -> None:
    walls = np.array([[0.0, 1.0, -2.0, 3.0], [1.0, 2.0, -1.0, -3.0]])
    states, trace = [Cell(0.0, 0.0), Cell(1.0, 0.0)], np.ones((2, 1, 3))
    policy = uc.UCBeam(depth=2)
    by_block = uc.search_panel(MAZE, states, trace, policy, params=MazeParams(walls, 1.0), engine="python")  # type: ignore[arg-type]
    columns = MazeParams(tuple(walls.T), 1.0)  # type: ignore[arg-type]
    assert same(by_block, uc.search_panel(MAZE, states, trace, policy, params=columns, engine="python"))
    for w in range(2):
        one = uc.search(
            MAZE,
            states[w],
            uc.Trace.from_members(trace[w]),
            policy,
            params=MazeParams(tuple(walls[w].tolist()), 1.0),
            engine="python",
        )
        assert by_block[w].path == one.path


def test_one_set_of_params_for_all_windows() -> None:
    assert same(panel(params=BatteryParams(5.0, 1.0, 1.0)), panel(params=[BatteryParams(5.0, 1.0, 1.0)] * COUNT))


def test_two_field_outcomes() -> None:
    cube = np.abs(np.random.default_rng(2).normal(2, 1, (3, 2, 4, 2)))
    trace = uc.Trace.from_members(cube, fields=2)
    many = uc.search_panel(
        TANK, [Tank(1.0)] * 3, trace, uc.UCBeam(depth=3), params=TankParams(6.0, 0.5), engine="python"
    )
    assert (many.status == uc.Status.FOUND).all()


def test_progress_counts_windows() -> None:
    seen: list[int] = []
    panel(progress=seen.append)
    assert sum(seen) == COUNT


def test_paths_are_kept_on_request() -> None:
    assert panel(keep_paths=True).outputs.paths.shape == (COUNT, 5, 4)
    without = panel(keep_paths=False)
    assert without.outputs.paths.shape == (0, 5, 4)
    assert without[0].path == panel()[0].path
    assert all(row.path == () for row in without[0].first_actions)


# -------------------------------------------------------------------- refusals

SCORES = uc.Trace.from_scores(np.zeros((6, 5)), np.zeros((6, 5)), np.zeros(6))
REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "no task": (lambda: search(task="battery"), "task: saw str, expected a uc.Task"),
    "no trace": (
        lambda: search(trace=PRICES),
        "trace: saw ndarray, expected a uc.Trace. Build one with Trace.from_members(array).",
    ),
    "no policy": (lambda: search(policy="beam"), "policy: saw 'beam', expected a policy such as uc.UCBeam("),
    "a panel for one window": (
        lambda: search(trace=uc.Trace.from_members(MANY)),
        "trace: saw 5 windows, expected one window. Use search_panel, or pass fields=",
    ),
    "a state of another task": (lambda: search(state=Clock(0.0)), "state: saw Clock, expected a Charge"),
    "a plain tuple": (lambda: search(state=(4.0, 0.0)), "state: saw tuple, expected a Charge"),
    "a NaN state": (lambda: search(state=Charge(NAN, 0.0)), "state.charge: saw nan, expected a finite number"),
    "an infinite state": (lambda: search(state=Charge(0.0, -INF)), "state.last: saw -inf, expected a finite number"),
    "too deep for the trace": (
        lambda: search(policy=uc.UCBeam(depth=7)),
        "policy.depth: saw 7, expected at most 6, the trace's horizon",
    ),
    "far too deep": (
        lambda: search(policy=uc.UCBeam(depth=10**9)),
        "depth: saw 1000000000, expected a whole number from 1 to 10000",
    ),
    "a certified beam without room": (
        lambda: search(policy=uc.CertifiedBeam(depth=2, width=4)),
        "policy.width: saw 4, expected at least 5, one place for every first action that top_k generates",
    ),
    "scores without asking for them": (
        lambda: search(trace=SCORES),
        "policy.mode: saw 'mean', expected mode='scores' for a trace of action scores",
    ),
    "an unknown engine": (lambda: search(engine="gpu"), "engine: saw 'gpu', expected 'auto', 'python' or 'compiled'"),
    "an engine that is no text": (lambda: search(engine=[]), "engine: saw [], expected 'auto', 'python' or 'compiled'"),
    "params of a task without": (
        lambda: uc.search(CLOCK, Clock(0.0), TRACE, uc.UCBeam(depth=1), params=TankParams(1.0, 1.0)),
        "params: saw TankParams, expected nothing, because the task has no params",
    ),
    "NaN params": (lambda: search(params=BatteryParams(NAN, 1.0, 1.0)), "params.capacity: saw nan, expected a finite"),
    "params with a field missing": (lambda: search(params=TankParams(1.0, 2.0)), "params: saw"),
    "too few actions": (
        lambda: search(actions=[0.0, 1.0]),
        "actions: saw shape (2,), expected shape (1, 5), NaN where unavailable",
    ),
    "infinite action": (
        lambda: search(actions=[0.0, 1.0, 2.0, 3.0, INF]),
        "actions[4]: saw inf, expected a finite number or NaN",
    ),
    "actions out of order": (
        lambda: search(actions=[0.0, NAN, 2.0, 1.0, 3.0]),
        "actions[0, 3]: saw 1.0, expected strictly ascending values within a window",
    ),
    "panel: no task": (lambda: panel(task="battery"), "task: saw str, expected a uc.Task"),
    "panel: no policy": (lambda: panel(policy=None), "policy: saw None, expected a policy such as"),
    "panel: NaN state in an array": (
        lambda: panel(states=np.array([[1.0, 0.0]] * 4 + [[1.0, NAN]])),
        "states[4, 1]: saw nan, expected a finite number",
    ),
    "panel: NaN state in a list": (
        lambda: panel(states=[*STATES[:3], Charge(NAN, 0.0), STATES[4]]),
        "states[3].charge: saw nan, expected a finite number",
    ),
    "panel: NaN state among arrays": (
        lambda: panel(states=Charge(np.array([0.0, 1.0, NAN, 3.0, 4.0]), np.zeros(5))),  # type: ignore[arg-type]
        "states.charge[2]: saw nan, expected a finite number",
    ),
    "panel: too few states": (
        lambda: panel(states=STATES[:3]),
        "states: saw 3 rows, expected 5, one per window of the traces",
    ),
    "panel: no states": (lambda: panel(states=[]), "states: saw no windows, expected 5 states"),
    "panel: empty arrays": (
        lambda: panel(states=Charge(np.array([]), np.array([]))),  # type: ignore[arg-type]
        "states.charge: saw no values",
    ),
    "panel: a number for states": (
        lambda: panel(states=3),
        "states: saw int, expected an array, a Charge of arrays or a list",
    ),
    "panel: too many columns": (lambda: panel(states=np.zeros((5, 3))), "states: saw 3 columns, expected 2 columns"),
    "panel: one dimension": (lambda: panel(states=np.zeros(5)), "states: saw shape (5,), expected shape (W, n)"),
    "panel: states of another task": (lambda: panel(states=[Clock(0.0)] * 5), "state: saw Clock, expected a Charge"),
    "panel: NaN member": (
        lambda: panel(traces=np.where(np.isin(MANY, MANY[2, 1, 3]), NAN, MANY)),
        "trace.members[2, 1, 3]: saw nan, expected a finite number",
    ),
    "panel: traces of two shapes": (
        lambda: panel(traces=[uc.Trace.from_members(MANY[0]), uc.Trace.from_members(MANY[0][:2])]),
        "traces[1]: saw Trace(2 members x 6 steps",
    ),
    "panel: traces of two couplings": (
        lambda: panel(traces=[uc.Trace.from_members(MANY[0]), uc.Trace.from_members(MANY[0], coupling="independent")]),
        "traces[1]: saw 'independent', expected coupling 'joint' as in the first trace",
    ),
    "panel: actions of too few windows": (
        lambda: panel(actions=np.tile(BATTERY.action_array, (3, 1))),
        "actions: saw shape (3, 5), expected shape (5, 5), NaN where unavailable",
    ),
    "panel: params of too few windows": (
        lambda: panel(params=BatteryParams(np.ones(3), 1.0, 1.0)),  # type: ignore[arg-type]
        "params: saw 3 rows, expected 5, one per window",
    ),
    "panel: no threads": (lambda: panel(threads=0), "threads: saw 0, expected a whole number from 1 to 1024"),
    "panel: threads of a text": (lambda: panel(threads="two"), "threads: saw 'two', expected a whole number"),
    "panel: an unknown engine": (lambda: panel(engine="gpu"), "engine: saw 'gpu'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_message(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_states_with_two_tuple_fields_cannot_come_as_rows() -> None:
    """Nobody could say which column belongs to which; annotations tell the fields apart, not their lengths."""
    with pytest.raises(InputError, match="With tuple fields pass a State of arrays or a list of states"):
        panel(task=STOCK, states=np.zeros((5, 2)))


def test_the_package_offers_what_it_says() -> None:
    for name in uc.__all__:
        assert getattr(uc, name) is not None
    assert set(uc.__all__) <= set(dir(uc))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = uc.nonsense


def test_a_call_like_the_last_one_but_for_one_thing_is_another_call() -> None:
    """What the last call prepared is taken where nothing differs; each of these would get the last one's answer."""
    other = dataclasses.replace(POLICY, risk=4.0)
    longer = uc.Trace.from_members(np.tile(PRICES, (2, 1)))
    calls: list[dict[str, Any]] = [
        {}, {"policy": other}, {"trace": longer}, {"state": Charge(0.0, 1.0)}, {"state": Charge(0, 1)},
        {"params": BatteryParams(6.0, 0.5, 9.0)}, {"actions": [NAN, -1.0, 0.0, 1.0, NAN]}, {"engine": "python"},
    ]  # fmt: skip
    alone = [search(**{**call, "task": dataclasses.replace(BATTERY)}).to_dict() | {"engine": ""} for call in calls]
    assert len({json.dumps(x) for x in alone}) >= 6
    task = dataclasses.replace(BATTERY)
    for call in calls:
        for _ in range(2):
            same = search(task=task, engine="compiled")
            assert same.to_dict() | {"engine": ""} == alone[0]
            assert same.engine == "compiled"
        plan = search(**{"task": task, "engine": "compiled", **call})
        assert plan.to_dict() | {"engine": ""} == alone[calls.index(call)]
        assert plan.engine == call.get("engine", "compiled")
    with pytest.raises(InputError, match="state"):
        search(task=task, engine="compiled", state=Charge(NAN, 0.0))
    with pytest.raises(InputError, match="trace"):
        search(task=task, engine="compiled", trace=PRICES)
    with pytest.raises(InputError, match="depth"):
        search(task=task, engine="compiled", trace=uc.Trace.from_members(PRICES[:, :3]))
