"""`ucsearch compare`: same windows for all, nobody sees the future, nothing but times differs between runs."""

from __future__ import annotations

import csv
import importlib
import io
import json
import math
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import ucsearch as uc
from tests.kit.counts import sizes
from ucsearch.backtest.choosers import Searched
from ucsearch.backtest.intervals import Interval, by_series, paired
from ucsearch.backtest.metrics import cvar20, max_drawdown
from ucsearch.backtest.panel import Panel
from ucsearch.backtest.roster import Budget, Entry, ordering_rules
from ucsearch.backtest.walk import Choice, Seen, Walk, walk
from ucsearch.cli.compare import compare
from ucsearch.cli.hand import load_task
from ucsearch.errors import DataError, InputError
from ucsearch.learned.base import collect
from ucsearch.scoreboard.board import Board, run_board
from ucsearch.scoreboard.job import Plan, run_compare
from ucsearch.scoreboard.picture import draw
from ucsearch.scoreboard.problem import Source, load_setup, make_problem, outcomes, sample_sources
from ucsearch.scoreboard.rivals import hindsight
from ucsearch.scoreboard.words import board_text

SMALL = Plan(task="delayed_exposure", series=4, windows=1, steps=3, depth=2, width=3, top_k=3, seeds=2, engine="python")
PYTHON = uc.Run(engine="python", threads=1)


@pytest.fixture(scope="module")
def board() -> Board:
    return run_compare(SMALL, clock=lambda: 0.0)


def ticking() -> Any:
    """A clock whose every look is a second later."""
    now = iter(range(10**9))
    return lambda: float(next(now))


# ---------------------------------------------------------------- what a board says


def test_everybody_takes_part_without_violations(board: Board) -> None:
    names = [row.name for row in board.rows]
    assert names == [
        "uc-beam", "pareto-beam", "certified-beam", "constrained-beam", "mcts", "exact", "beam, risk 0", "greedy",
        "risk-greedy", "exposure-matched risk-greedy", "delay-aware greedy", "random", "random shooting", "risk-random",
        "cem", "mppi", "planning on the mean", "planning on a quantile",
    ]  # fmt: skip
    assert all(row.violations == 0 for row in board.rows)
    assert [row.seeds for row in board.rows[-7:-2]] == [2] * 5
    budget = board.budget.expansions
    assert budget == 3 * (1 + 3 * 1)
    for row in board.rows:
        if row.name in ("random shooting", "risk-random", "cem", "mppi"):
            assert row.expansions == board.budget.samples * 2 <= budget
        if row.name in ("uc-beam", "mcts"):
            assert 0 < row.expansions <= budget


def test_rewards_and_regrets_are_what_the_walks_gave(board: Board) -> None:
    for row in board.rows:
        assert row.reward == pytest.approx(row.windows["reward"].mean())
        assert (row.windows["regret"] >= -1e-9).all(), row.name  # nobody beats hindsight
    constant = [row.windows["reward"] + row.windows["regret"] for row in board.rows]
    assert all(np.allclose(c, constant[0]) for c in constant)


def test_the_table_names_the_reference_and_the_svg_has_a_point_per_policy(board: Board) -> None:
    text = board_text(board)
    assert text.splitlines()[0] == "delayed_exposure: 4 series, 4 episodes of 3 decisions"
    assert [line.split()[2] for line in text.splitlines() if line.startswith("uc-beam")] == ["reference"]
    root = ElementTree.fromstring(draw(board))
    circles = root.findall("{http://www.w3.org/2000/svg}circle")
    assert len(circles) == 2 * len(board.rows)  # in the plot and in the legend
    words = [t.text or "" for t in root.findall("{http://www.w3.org/2000/svg}text")]
    assert all(any(row.name in word for word in words) for row in board.rows)


@pytest.mark.parametrize("ends", [(-math.inf, math.inf), (-1.0, math.inf), (-math.inf, 2.0)])
def test_an_interval_without_an_end_is_none(board: Board, ends: tuple[float, float]) -> None:
    """Few series, or very unequal ones."""
    rows = tuple(r if r.versus is None else replace(r, versus=Interval(0.5, *ends)) for r in board.rows)
    table = board_text(replace(board, rows=rows))
    assert table.count("+0.5 (no interval)") == len(rows) - 1
    assert "inf" not in table


def test_two_runs_differ_in_times_only_and_seeds_matter(board: Board) -> None:
    again = run_compare(SMALL, clock=ticking())
    assert again.table_csv() == board.table_csv()
    assert again.windows_csv() == board.windows_csv()
    assert draw(again) == draw(board)
    assert again.timing_csv() != board.timing_csv()
    other = run_compare(replace(SMALL, seed=2), clock=lambda: 0.0)
    assert other.windows_csv() != board.windows_csv()


def test_everybody_is_compared_with_the_reference_that_was_named(board: Board) -> None:
    other = run_compare(replace(SMALL, reference="cem"), clock=lambda: 0.0)
    base = next(row for row in other.rows if row.name == "cem")
    assert base.versus is None
    for row, before in zip(other.rows, board.rows, strict=True):
        assert row.windows["reward"].tobytes() == before.windows["reward"].tobytes()  # who is compared changes no walk
        if row.versus is not None:
            assert row.versus.mean == pytest.approx((row.windows["reward"] - base.windows["reward"]).mean())
    assert any(row.versus is not None and abs(row.versus.mean) > 1e-6 for row in other.rows)


def test_the_csv_reads_back(board: Board) -> None:
    rows = list(csv.DictReader(io.StringIO(board.table_csv())))
    assert [float(r["reward"]) for r in rows] == [r.reward for r in board.rows]
    assert rows[0]["difference"] == ""
    assert float(rows[1]["low"]) <= float(rows[1]["difference"]) <= float(rows[1]["high"])
    windows = list(csv.DictReader(io.StringIO(board.windows_csv())))
    assert len(windows) == len(board.rows) * len(board.used)
    assert {w["series"] for w in windows} == set(board.problem.series)


# ---------------------------------------------------------------- walking


class Tank(NamedTuple):
    level: float


def tank_feasible(s: Tank, a: float, p: None) -> bool:
    return 0.0 <= s.level + a <= 4.0


def tank_step(s: Tank, a: float, y: float, p: None) -> Tank:
    return Tank(s.level + a)


def tank_reward(s: Tank, a: float, y: float, p: None) -> float:
    return -a * y


def tank_terminal(s: Tank, p: None) -> float:
    return 0.5 * s.level


tank = uc.Task(
    name="tank", state=Tank, actions=[-1.0, 0.0, 1.0], feasible=tank_feasible, step=tank_step, reward=tank_reward,
    fallback=lambda s, p: 0.0, terminal=tank_terminal,
)  # fmt: skip
# Nothing is allowed once the level is 2.
trap = replace(tank, name="trap", feasible=lambda s, a, p: s.level < 2.0 and s.level + a >= 0.0, terminal=None)


def problem_of(task: uc.Task, y: np.ndarray, steps: int = 3, horizon: int = 2, windows: int = 1) -> Panel:
    setup = replace(load_setup(f"{__name__}:tank", start='{"level": 1}'), task=task)
    sources = [Source(f"s{i}", row, 1) for i, row in enumerate(y)]
    return make_problem(setup, sources, steps=steps, windows=windows, horizon=horizon, key=7, paths=5)


def always(index: int, expansions: int = 0) -> Any:
    return lambda seen: Choice.at(seen, np.full(len(seen.rows), index), np.full(len(seen.rows), expansions))


def walked(panel: Panel, chooser: Any, **more: Any) -> Walk:
    return walk(panel, chooser, engine="python", stuck="keep", **more)


def prices(count: int = 3, length: int = 60) -> np.ndarray:
    return np.random.default_rng(3).normal(2.0, 1.0, (count, length))


def test_a_walk_pays_the_real_outcomes_and_the_final_value() -> None:
    y = prices()
    problem = problem_of(tank, y)
    up = walked(problem, always(2, 4), clock=ticking())
    expected = -y[:, -3:]
    expected[:, -1] += 0.5 * 4.0
    assert up.rewards == pytest.approx(expected)
    assert up.expansions.tolist() == [12] * 3
    assert up.seconds == 3.0  # a second per decision of the panel, nothing else is timed
    assert not up.violations.any()


def test_what_the_rules_forbid_is_counted_and_replaced() -> None:
    problem = problem_of(tank, prices(), steps=5)
    done = walked(problem, always(0))
    # The tank holds 1: the first step down is allowed, the four after it are not.
    assert done.violations.tolist() == done.fallbacks.tolist() == [4] * 3
    assert done.actions.tolist() == [[-1.0, 0.0, 0.0, 0.0, 0.0]] * 3
    none = walked(problem, always(-1))
    assert none.violations.tolist() == [0] * 3
    assert none.fallbacks.tolist() == [5] * 3
    wild = walked(problem, always(99))
    assert wild.violations.tolist() == [5] * 3


def test_a_dead_end_takes_its_window_from_everybody() -> None:
    problem = problem_of(trap, prices(4), steps=3)

    def fixed(index: int, only: int | None = None) -> Entry:
        def choose(seen: Seen) -> Choice:
            chosen = np.full(4, 1)
            if only is not None:
                chosen[only] = index
            return Choice.at(seen, np.where(seen.mask.any(axis=1), chosen, -1))

        return Entry(f"to {index}", "search", lambda: choose)

    both = [fixed(1), fixed(2, only=1)]
    board = run_board("trap", problem, Budget(depth=2), both, reference="to 1", seed=1, how=PYTHON, clock=lambda: 0.0)
    with pytest.raises(uc.TaskError, match="nor the fallback"):
        walk(problem, both[1].make(), engine="python")
    assert board.used.tolist() == [0, 2, 3]
    assert [row.dead_ends for row in board.rows] == [0, 1]
    assert "1 episodes left out for all" in board_text(board)


def test_forecasts_do_not_see_what_comes() -> None:
    y = prices()
    changed = y.copy()
    changed[:, -2:] += 50.0
    before, after = problem_of(tank, y), problem_of(tank, changed)
    assert before.members[:, :2].tobytes() == after.members[:, :2].tobytes()
    assert before.members[:, 2].tobytes() != after.members[:, 2].tobytes()


def test_scales_are_measured_before_the_windows() -> None:
    setup = load_setup("lead_time_inventory")
    y = np.random.default_rng(0).uniform(10.0, 30.0, 80)
    changed = y.copy()
    changed[-6:] *= 9.0
    a, b = (outcomes(setup, Source("s", x, 1), 74) for x in (y, changed))
    assert a[:74].tobytes() == b[:74].tobytes()
    assert a[:74].mean() == pytest.approx(setup.unit)
    returns = outcomes(load_setup("direction"), Source("s", y, 1), 74)
    assert returns.size == 79
    assert returns[:73].std() == pytest.approx(1.0)


def test_hindsight_is_the_best_of_all_plans() -> None:
    y = prices(6)
    problem = problem_of(tank, y, steps=4)
    best, proved = hindsight(problem, PYTHON)
    assert proved.all()
    for n in range(6):
        assert best[n] == pytest.approx(enumerated(1.0, y[n, -4:].tolist()))


def enumerated(level: float, left: list[float]) -> float:
    if not left:
        return 0.5 * level
    return max(-a * left[0] + enumerated(level + a, left[1:]) for a in (-1.0, 0.0, 1.0) if 0.0 <= level + a <= 4.0)


def test_metrics_are_the_evaluations_own(board: Board) -> None:
    problem = problem_of(tank, prices())
    up = Entry("up", "search", lambda: always(2))
    made = run_board("t", problem, Budget(depth=2), [up], reference="up", seed=1, how=PYTHON, clock=lambda: 0.0)
    found = made.rows[0]
    rewards = -prices()[:, -3:]
    rewards[:, -1] += 2.0
    assert found.cvar20 == pytest.approx(cvar20(rewards.ravel()))
    assert found.drawdown == pytest.approx(np.mean([max_drawdown(r) for r in rewards]))
    assert found.cvar20_windows == pytest.approx(cvar20(rewards.sum(axis=1)))


def test_warm_starts_are_forgotten_when_a_walk_begins() -> None:
    problem = problem_of(tank, prices())
    chooser = Searched(tank, uc_cem(), PYTHON)
    first, again = walked(problem, chooser), walked(problem, chooser)
    assert first.actions.tobytes() == again.actions.tobytes()


def uc_cem() -> Any:
    from ucsearch.comparators import CEM

    return CEM(depth=2, samples=4, iterations=2, seed=5)


# ---------------------------------------------------------------- intervals


def test_windows_of_a_series_count_once() -> None:
    values = np.array([1.0, 3.0, 10.0, 20.0])
    assert by_series(values, ["b", "b", "a", "c"]).tolist() == [2.0, 10.0, 20.0]
    base = np.zeros(4)
    once = paired(values, base, ["b", "b", "a", "c"], seed=1, name="x")
    assert once.mean == pytest.approx(32.0 / 3.0)
    apart = paired(values, base, ["b", "d", "a", "c"], seed=1, name="x")
    assert apart.mean == pytest.approx(8.5)


def test_the_interval_is_paired_and_has_a_side() -> None:
    rng = np.random.default_rng(0)
    hard = rng.normal(0.0, 100.0, 20)  # what a window offers, the same for both
    series = [f"s{i}" for i in range(20)]
    found = paired(hard + 1.0 + rng.normal(0.0, 0.1, 20), hard, series, seed=1, name="x")
    assert 0.8 < found.low < 1.0 < found.high < 1.2
    assert found.side == 1
    worse = paired(hard - 1.0 + rng.normal(0.0, 0.1, 20), hard, series, seed=1, name="x")
    assert worse.side == -1
    assert paired(hard, hard, series, seed=1, name="x") == (0.0, 0.0, 0.0)
    few = paired(np.ones(2), np.zeros(2), ["a", "b"], seed=1, name="x")
    assert (few.low, few.high, few.side) == (-math.inf, math.inf, 0)


# ---------------------------------------------------------------- classics


def test_classics_take_part_on_inventory_and_are_feasible() -> None:
    plan = replace(SMALL, task="lead_time_inventory", instance="fresh", depth=2, seeds=1)
    found = run_compare(plan, clock=lambda: 0.0)
    classic = [row.name for row in found.rows if row.family == "classic"]
    assert classic == [
        "planning on the mean", "planning on a quantile", "newsvendor", "newsvendor, free", "base-stock",
        "capped base-stock", "(s,S)", "(s,S) by formula", "(s,nQ)", "rolling quantile", "constant order", "myopic",
    ]  # fmt: skip
    assert all(row.violations == 0 and row.fallbacks == 0.0 for row in found.rows if row.family == "classic")


def test_the_cap_of_capped_base_stock_is_kept() -> None:
    setup = load_setup("lead_time_inventory", start='{"on_hand": 0, "open_orders": [0, 0], "last": 0}')
    problem = make_problem(setup, sample_sources(3), steps=3, windows=1, horizon=3, key=1)
    trace, grid = problem.trace(0), setup.task.action_array
    orders = {e.name: walked(problem, e.make()).actions[:, 0] for e in ordering_rules(problem, how=PYTHON)}
    members = np.maximum(trace.members[..., 0], 0.0)
    for n in range(3):
        level = np.sort(members[n].sum(axis=1))[26]  # the 27th of 30 members: 9 / (9 + 1)
        cap = np.sort(members[n, :, 2])[26]
        assert orders["base-stock"][n] == grid[np.argmin(np.abs(grid - level))]
        assert orders["capped base-stock"][n] == grid[np.argmin(np.abs(grid - min(level, cap)))]
        assert orders["constant order"][n] == grid[np.argmin(np.abs(grid - problem.history[n].mean()))]
    assert (orders["capped base-stock"] < orders["base-stock"]).any()


# ---------------------------------------------------------------- learned


@pytest.mark.parametrize("steps", sizes(200, None))
def test_learned_policies_take_part_when_asked_for(steps: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """After little play and few steps (None: all of them): how well they learn is for `test_learned.py`."""
    pytest.importorskip("gymnasium")
    from ucsearch.learned import boundary

    if steps is not None:
        monkeypatch.setattr(boundary, "collect", lambda env, rounds, rng: collect(env, rounds // 20, rng))
        monkeypatch.setattr(boundary, "train_cql", partial(boundary.train_cql, steps=steps))
    found = run_compare(replace(SMALL, learned=True, seeds=1), clock=lambda: 0.0)
    rows = [row for row in found.rows if row.family == "learned"]
    assert [row.name for row in rows] == ["fqi", "cql"]
    assert all(row.violations == 0 and row.fallbacks == 0.0 for row in rows)


# ---------------------------------------------------------------- what is asked for


def run(*arguments: str) -> Any:
    app = typer.Typer()
    app.command()(compare)
    small = ["--series", "3", "--windows", "1", "--steps", "2", "--depth", "2", "--width", "3", "--seeds", "1"]
    return CliRunner().invoke(app, [*arguments, *small, "--engine", "python"])


def test_the_command_prints_and_writes(tmp_path: Path) -> None:
    done = run("direction", "--out", str(tmp_path / "new"))
    assert done.exit_code == 0, done.output
    assert "uc-beam" in done.output
    names = sorted(p.name for p in (tmp_path / "new").iterdir())
    assert names == ["scoreboard.csv", "scoreboard.svg", "timing.csv", "windows.csv"]
    assert (tmp_path / "new" / "timing.csv").read_text().startswith("policy,us_per_decision\nuc-beam,")


def test_a_file_and_a_task_of_ones_own(tmp_path: Path) -> None:
    y = prices(3, 50)
    lines = ["series,step,demand", *(f"s{i},{t + 1},{float(y[i, t])!r}" for i in range(3) for t in range(50))]
    path = tmp_path / "prices.csv"
    path.write_text("\n".join(lines) + "\n")
    spec = f"{__name__}:tank"
    done = run(spec, "--data", str(path), "--start", json.dumps({"level": 1}), "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    windows = list(csv.DictReader((tmp_path / "windows.csv").open()))
    assert [w["series"] for w in windows[:3]] == ["s0", "s1", "s2"]
    assert {w["first"] for w in windows} == {"48"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "TASK: saw 'nothing'"),
        (["direction", "--instance", "nobody"], "--instance: saw 'nobody'"),
        ([f"{__name__}:tank"], "--start: saw nothing"),
        ([f"{__name__}:tank", "--start", "{}"], "--start: saw no fields"),
        ([f"{__name__}:tank", "--start", "[1"], "--start: saw [1"),
        ([f"{__name__}:nobody"], "TASK: saw"),
        ([f"{__name__}:SMALL"], "TASK: saw a Plan"),
        (["direction", "--reference", "nobody"], "--reference: saw 'nobody'"),
        (["direction", "--data", "missing.csv"], "missing.csv: no such file"),
        (["direction", "--unit", "nan"], "--unit: saw nan"),
        (["direction", "--season", "7"], "--data: saw nothing"),
        (["direction", "--start", '{"nobody": 1}'], "--start: saw"),
        (["lead_time_inventory", "--top-k", "5"], "--width: saw 3"),
    ],
)
def test_refusals_are_one_line(arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith(f"Error: {message}"), line


def test_short_and_flat_series_are_refused() -> None:
    setup = load_setup("direction")
    with pytest.raises(DataError, match="expected at least"):
        make_problem(setup, [Source("s", np.arange(9.0), 1)] * 3, steps=2, windows=1, horizon=2, key=1)
    with pytest.raises(DataError, match="no scale"):
        make_problem(setup, [Source("s", np.ones(60), 1)], steps=2, windows=1, horizon=2, key=1)
    with pytest.raises(DataError, match="expected at least 3"):
        problem_of(tank, prices(2))
    with pytest.raises(InputError, match="seeds"):
        run_compare(replace(SMALL, seeds=0), clock=lambda: 0.0)


# ---------------------------------------------------------------- tasks named by the caller

OWN_TASK = """
from typing import NamedTuple
import ucsearch as uc
class S(NamedTuple):
    x: float
own = uc.Task(
    name="own", version="1", state=S, actions=(0.0, 1.0), feasible=lambda s, a, p: True,
    step=lambda s, a, y, p: S(a), reward=lambda s, a, y, p: a, fallback=lambda s, p: 0.0,
)
"""


def test_of_the_current_folder_only_the_named_module_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "its_own_task.py").write_text(OWN_TASK)
    (tmp_path / "a_planted_name.py").write_text("raise SystemExit(0)")
    (tmp_path / "its_neighbour.py").write_text("import a_planted_name")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [part for part in sys.path if part not in ("", ".")])
    before = list(sys.path)
    try:
        assert load_setup("its_own_task:own", start='{"x": 0}').task.name == "own"
        assert load_task("its_own_task:own").name == "own"
        assert sys.path == before
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("a_planted_name")
        for load in (load_setup, load_task):
            for bad in (
                "its_neighbour:x",
                "a_planted_name:x",
                "its_own_task:none",
                "its_own_task:",
                ":own",
                "no_such:x",
            ):
                with pytest.raises(InputError, match="an object that can be imported"):
                    load(bad)
    finally:
        sys.modules.pop("its_own_task", None)
