"""Fill rates and service levels in place of a shortage cost: penalties that reach them, on the closed policy."""

from __future__ import annotations

import itertools
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.planner.kit import write_csv
from ucsearch.errors import InputError
from ucsearch.planner.backtest.result import BacktestResult, Track, achieved
from ucsearch.planner.backtest.targets import least_power
from ucsearch.planner.decide.job import run_decide
from ucsearch.planner.decide.sizes import panel_inputs
from ucsearch.planner.decide.states import Case, Kinds
from ucsearch.planner.files.penalties import Penalty, read_penalties, write_penalties
from ucsearch.planner.settings import parse_settings
from ucsearch.planner.targets import find_penalties
from ucsearch.tasks.inventory import general_rules
from ucsearch.trace import Trace

TOML = """
period = "day"
[task]
name = "lead_time_inventory"
lead_time = 1
holding = 0.1
fixed_cost = 1.0
order_sizes = [0.0, 2.0, 4.0, 7.0, 10.0, 14.0]
{more}
[policy]
name = "exact"
mode = "closed"
depth = 8
"""
CALENDAR = "order_days = ['monday', 'thursday']\ndelivery_days = ['tuesday', 'friday']\nfirst_day = '2024-05-20'\n"


def settings_of(more: str, folder: Path = Path()) -> Any:
    return parse_settings(TOML.format(more=more).encode(), str(folder / "ucsearch.toml"))


def cases_of(settings: Any, count: int) -> list[Case]:
    kinds = Kinds(settings, tuned=False)
    config = kinds.config({})
    return [Case(kinds.kind(config, {}), config.at_level(2.0), config.params(), config) for _ in range(count)]


def paths(count: int, steps: int = 9) -> Trace:
    rng = np.random.default_rng(3)
    return Trace.from_members(rng.poisson(2.0, (count, 12, steps)).astype(float)).on_lattice(1.0, 4)


def followed(case: Case, trace: Trace, settings: Any, penalty: float) -> tuple[float, float]:
    """Shares of demand and of periods that the best policy serves from the first arrival on, by following it through
    all its states."""
    config = case.config
    case = case._replace(
        state=config.at_level(float(np.ceil(trace.mean[0, :, 0].mean()))),
        params=case.params._replace(**{config.penalty: penalty}),
    )
    _, params, _ = panel_inputs([case], trace, settings)
    own = type(params)(*(np.ravel(x) if np.ndim(x) > 1 else float(np.ravel(x)[0]) for x in params))
    rows = tuple(n for n, x in case.params._asdict().items() if isinstance(x, tuple))
    own = own._replace(**{n: tuple(np.ravel(getattr(params, n)).tolist()) for n in rows})
    task, law = config.task(), trace.law()
    policy = uc.solve(task, trace, states=case.state, params=own)
    now: dict[Any, float] = {case.state: 1.0}
    missed = asked = short = 0.0
    for h in range(trace.horizon):
        following: dict[Any, float] = defaultdict(float)
        for state, chance in now.items():
            action = policy.action(state, h)
            assert action is not None
            for (y,), weight in zip(law.points[h], law.weights[h], strict=True):
                after = task.step_at(state, action, y, h, own)
                following[after] += chance * weight
                order = general_rules.ordered(state, action, own)
                pipeline = general_rules.placed((*state.pipeline, 0.0), own.slot[int(state.clock)], order)
                unmet = general_rules.issued(state, general_rules.arriving_of(pipeline, state, own), y, own)[-1]
                if h >= config.first_arrival:
                    missed += chance * weight * min(unmet, y)
                    short += chance * weight * (min(unmet, y) > 0.0)
                    asked += chance * weight * y
        now = dict(following)
    return 1.0 - missed / asked, 1.0 - short / (trace.horizon - config.first_arrival)


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("fill_rate", ""), ("service_level", CALENDAR),
        *(
            pytest.param(kind, more, marks=pytest.mark.slow)
            for kind, more in itertools.product(
                ("fill_rate", "service_level"), ("shelf_life = 2\n", "unmet = 'backordered'\n")
            )
        ),
        pytest.param("fill_rate", CALENDAR, marks=pytest.mark.slow),
        pytest.param("service_level", "", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_what_a_penalty_promises_is_what_its_policy_does(kind: str, more: str) -> None:
    settings = settings_of(f"{kind} = 0.9\n{more}")
    trace = paths(2)
    cases = cases_of(settings, 2)
    found = find_penalties(cases, trace, settings, "python")
    assert found.met.all()
    for i in range(2):
        shares = followed(cases[i], trace.window(i), settings, float(found.value[i]))
        assert shares[kind == "service_level"] == pytest.approx(found.promised[i], abs=2e-4)
        assert found.promised[i] >= 0.9
        assert not found.below[i] >= 0.9
        less = followed(cases[i], trace.window(i), settings, float(found.value[i]) / 1.03)
        assert less[kind == "service_level"] < 0.9 + 2e-4


def test_a_target_out_of_reach_is_said() -> None:
    """Orders of two units a day at most, and five are asked for."""
    settings = settings_of("fill_rate = 0.95\nlargest_order = 2.0\n")
    law = Trace.from_members(np.full((1, 4, 9), 5.0)).on_lattice(1.0, 4)
    found = find_penalties(cases_of(settings, 1), law, settings, "python")
    assert not found.met[0]
    assert found.value[0] == pytest.approx(100.0, rel=1e-3)  # a thousand times the holding cost
    assert found.promised[0] == pytest.approx(21.0 / 40.0)  # 5 in stock when the first order arrives, 2 a day


def test_a_target_whose_states_do_not_fit_says_what_does() -> None:
    settings = settings_of("fill_rate = 0.9\n")
    small = parse_settings(settings.text.replace("[policy]", "[proof]\nnode_budget = 50\n[policy]").encode(), "x.toml")
    with pytest.raises(InputError, match=r"proof.node_budget: saw 50, expected more, for the states of SKU-2") as error:
        find_penalties(cases_of(small, 2), paths(2), small, "python", ["SKU-2", "SKU-3"])
    assert "lots" in str(error.value)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("fill_rate = 1.0\n", "fill_rate: saw 1.0, expected a share between 0 and 1"),
        ("fill_rate = 0.9\nservice_level = 0.9\n", "saw both, expected one of them"),
        ("fill_rate = 0.9\nshortage = 2.0\n", "shortage: saw 2.0, expected 0 with fill_rate"),
    ],
)
def test_targets_that_contradict(more: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        settings_of(more)


@pytest.mark.parametrize(
    ("change", "message"),
    [("'closed'", "policy.mode: saw 'members', expected 'closed', because task.fill_rate"),
     ("depth = 8", "policy.risk, policy.discount: saw risk 0.5")],
)  # fmt: skip
def test_targets_need_an_expected_closed_policy(change: str, message: str) -> None:
    text = TOML.format(more="fill_rate = 0.9").replace('"closed"', '"members"' if "closed" in change else '"closed"')
    text = text.replace("depth = 8", "depth = 8\nrisk = 0.5" if "depth" in change else "depth = 8")
    with pytest.raises(InputError, match=message):
        parse_settings(text.encode(), "x.toml")


def test_decisions_read_the_penalty_of_each_series(tmp_path: Path) -> None:
    settings = settings_of("fill_rate = 0.9\n", tmp_path)
    rng = np.random.default_rng(1)
    rows = [[n, h + 1, *rng.poisson(3.0, 12).tolist()] for n in ("A", "B", "C") for h in range(8)]
    forecasts = write_csv(tmp_path / "forecasts.csv", ["series", "step", *(f"member_{j}" for j in range(1, 13))], rows)
    states = write_csv(
        tmp_path / "states.csv", ["series", "on_hand", "fill_rate"], [["A", 1, 0.9], ["B", 1, 0.95], ["C", 1, ""]]
    )
    write_penalties(tmp_path / "targets.csv", [
        ("A", Penalty("missed_unit", 0.9, 0.3, 0.91, 0.89, 1.0)),
        ("B", Penalty("missed_unit", 0.9, 0.3, 0.91, 0.89, 1.0)),
    ])  # fmt: skip
    assert read_penalties(tmp_path / "targets.csv", settings)["A"].value == 0.3
    report = run_decide(settings, forecasts, states, tmp_path / "out.csv", tmp_path / "log.db")
    assert report.outcomes == {"RELEASED": 1, "REFUSED": 2}
    texts = [str(p) for p in report.problems]
    assert any("series B: saw one for 0.9, expected what reaches 0.95: `ucsearch tune` finds it" in t for t in texts)
    assert any("series C: saw no penalty, expected what reaches 0.9" in t for t in texts)


def test_the_least_power_that_reaches_the_target() -> None:
    for wanted in (-7, -2, -1, 0, 1, 2, 5, 13):
        asked: list[int] = []

        def share(power: int, wanted: int = wanted, asked: list[int] = asked) -> float:
            asked.append(power)
            return 0.95 + 0.001 * (power - wanted)

        assert least_power(share, 0.95) == (wanted, pytest.approx(0.95))
        assert len(asked) == len(set(asked)) <= 9
    with pytest.raises(InputError, match="what orders can reach here"):
        least_power(lambda power: 0.5, 0.95)
    assert least_power(lambda power: 1.0, 0.95)[0] == -24


def test_what_was_achieved_is_pooled_by_target() -> None:
    found = achieved(np.array([0.9, 0.9, 0.95]), np.array([8.0, 90.0, 5.0]), np.array([10.0, 100.0, 5.0]))
    assert [(one.target, one.share, one.series) for one in found] == [(0.9, 98.0 / 110.0, 2), (0.95, 1.0, 1)]
    assert found[0].low <= found[0].share <= found[0].high
    assert "target 0.9: achieved 0.8909 [0.8000, 0.9000] over 2 series" in found[0].text()


@pytest.mark.parametrize(("target", "service"), [("fill_rate", "fill rate"), ("service_level", "service level")])
def test_the_headline_says_what_is_paid_without_the_penalties(target: str, service: str) -> None:
    def track(holding: float, penalty: float, served: float) -> Track:
        ones = np.ones((12, 4)) * np.linspace(0.9, 1.1, 12)[:, None]
        parts = {"holding": holding * ones, "shortage": penalty * ones, "ordering": 0.0 * ones}
        moved = {"demand": ones, "served": served * ones, "in_full": served + 0.0 * ones, "stock": ones, "order": ones}
        return Track(-(holding + penalty) * ones, {**parts, **moved, "orders": ones, "revenue": 0.0 * ones})

    tracks = {"policy": track(2.0, 50.0, 0.95), "(s,S)": track(3.0, 5.0, 0.9)}
    names = tuple(f"S{i}" for i in range(12))
    found = BacktestResult(names, tracks, 1.0, (), settings_of(f"{target} = 0.95"), {}, targets=(0.95,) * 12)
    headline = found.headline()
    assert headline.startswith("a simple rule is cheaper")
    paid = f"the policy pays 96 currency at a {service} of 95.0 %, (s,S) 144 currency at a {service} of 90.0 %"
    assert headline.endswith(f"counts missed demand at the penalties that reach the target. Without them {paid}")
    plain = BacktestResult(names, tracks, 1.0, (), settings_of("shortage = 2.0"), {})
    assert "penalties" not in plain.headline()
