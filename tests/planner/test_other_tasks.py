"""Storage, capacity and intervention from files: samples, schedules, words, and the replay against their own rules."""

from __future__ import annotations

import csv
import dataclasses
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ucsearch.cli import app
from ucsearch.planner.backtest import job, rules
from ucsearch.planner.backtest.job import run_backtest
from ucsearch.planner.backtest.page import write_backtest_page
from ucsearch.planner.backtest.replay import Replay, read_histories, values_of
from ucsearch.planner.backtest.result import GIVEN, POLICY
from ucsearch.planner.backtest.tune import run_tune
from ucsearch.planner.decide.job import run_decide
from ucsearch.planner.forecast import run_forecast
from ucsearch.planner.new.inventory import next_commands, write_scaffold
from ucsearch.planner.new.storage import SETTINGS
from ucsearch.planner.recorded.explain import explain_series
from ucsearch.planner.recorded.schedule import write_schedule
from ucsearch.planner.settings import Settings, SettingsError, load_settings, parse_settings
from ucsearch.replay.linear import has_solver, storage_programme
from ucsearch.replay.walk import Choice
from ucsearch.tasks.storage.record import Storage
from ucsearch.verify.__main__ import main as verify

OTHERS = ("storage", "capacity", "intervention")
HISTORY = {"storage": "prices.csv", "capacity": "demand.csv", "intervention": "harm.csv"}
SHORT = {"storage": 6, "capacity": 4, "intervention": 6}  # steps that plain Python plans in no time

TOML = """
units = "MWh"
currency = "EUR"
period = "15min"
[task]
name = "storage"
capacity = 1.0
power = 2.0
level_step = 0.25
charge_efficiency = 1.0
wear = 0.5
[policy]
name = "exact"
depth = 5
[columns]
demand = "price"
[forecaster]
name = "seasonal_naive"
paths = 4
[backtest]
periods = 8
warmup = 0
season = 4
[run]
engine = "python"
"""


def short(settings: Settings, steps: int) -> Settings:
    return dataclasses.replace(
        settings, policy=dataclasses.replace(settings.policy, depth=steps),
        forecaster=dataclasses.replace(settings.forecaster, paths=5),
        run=dataclasses.replace(settings.run, engine="python"),
        backtest=settings.backtest.model_copy(update={"periods": 6, "warmup": 0}),
    )  # fmt: skip


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("kind", OTHERS)
def test_samples_go_all_the_way(kind: str, tmp_path: Path) -> None:
    write_scaffold(kind, tmp_path)
    assert [c.split()[1] for c in next_commands(kind)] == ["forecast", "decide", "explain", "backtest", "explain"]
    settings = short(load_settings(tmp_path / "ucsearch.toml"), SHORT[kind])
    names = {x: tmp_path / x for x in ("forecasts.csv", "states.csv", "decisions.csv", "decisions.db", "schedule.csv")}
    run_forecast(settings, tmp_path / HISTORY[kind], names["forecasts.csv"])
    report = run_decide(
        settings, names["forecasts.csv"], names["states.csv"], names["decisions.csv"], names["decisions.db"]
    )  # fmt: skip
    assert set(report.outcomes) == {"RELEASED"}
    assert verify([str(names["decisions.db"])]) == 0
    count = sum(report.outcomes.values())
    assert write_schedule(names["decisions.db"], names["schedule.csv"], settings=settings) == (
        count * SHORT[kind], count,
    )  # fmt: skip
    plan, decided = rows_of(names["schedule.csv"]), rows_of(names["decisions.csv"])
    first = {row["series"]: float(row["action"]) for row in plan if row["period"] == "1"}
    assert first == {row["series"]: float(row["action"]) for row in decided}
    for now, after in pairwise(plan):
        if after["period"] != "1":
            assert now["after"] == after["before"]
            assert now["start"] < after["start"]


def test_words_and_units_of_storage(tmp_path: Path) -> None:
    write_scaffold("storage", tmp_path)
    settings = short(load_settings(tmp_path / "ucsearch.toml"), 4)
    out, log = tmp_path / "decisions.csv", tmp_path / "decisions.db"
    run_forecast(settings, tmp_path / "prices.csv", tmp_path / "forecasts.csv")
    run_decide(settings, tmp_path / "forecasts.csv", tmp_path / "states.csv", out, log)
    told = explain_series(log, "SOUTH", settings)
    assert "Now: charge 3 MWh." in told.text
    assert "EUR/MWh on average" in told.text
    assert " MW." in told.text
    assert (told.action, told.action_unit, told.outcome_unit, told.field) == ("power", "MW", "EUR/MWh", "charge")
    write_schedule(log, tmp_path / "plan.csv", settings=settings, series=["SOUTH"])
    assert [row["start"] for row in rows_of(tmp_path / "plan.csv")][:2] == [
        "2024-02-12T00:00:00",
        "2024-02-12T01:00:00",
    ]


def test_a_period_says_how_long_power_runs() -> None:
    task = parse_settings(TOML.encode()).task
    assert (task.hours, task.end_price) == (0.25, "forecast")
    given = parse_settings(TOML.replace("wear = 0.5", "hours = 2.0\nend_value = 9.0\nlevel_step = 0.5").replace(
        "level_step = 0.25\n", "").encode()).task  # fmt: skip
    assert (given.hours, given.end_price, given.end_value) == (2.0, "given", 9.0)


@pytest.mark.parametrize(("period", "steps", "level"), [("hour", 24, 0.1), ("30min", 48, 0.05), ("15min", 96, 0.025)])
def test_a_store_is_planned_for_a_day_at_full_power_whatever_the_period(period: str, steps: int, level: float) -> None:
    """Who changes nothing but the period of `ucsearch new storage` gets a day ahead and powers up to the full one."""
    text = SETTINGS.replace('period = "hour"', f'period = "{period}"')
    found = parse_settings(text.encode())
    assert found.policy.depth == steps
    assert found.task.level_step == pytest.approx(level, rel=1e-12)
    assert max(found.task.powers) == pytest.approx(2.0, rel=1e-9)
    assert parse_settings(text.replace("# depth = 24 ", "depth = 9 ").encode()).policy.depth == 9
    with pytest.raises(SettingsError, match=r"policy.depth: missing"):
        parse_settings(text.replace(f'"{period}"', '"any"').encode())


def write_prices(path: Path, names: tuple[str, ...] = ("A", "B")) -> np.ndarray:
    rng = np.random.default_rng(5)
    times = np.datetime64("2024-05-01T00:00") + np.arange(40) * np.timedelta64(15, "m")
    y = np.round(40.0 + 20.0 * np.sin(np.arange(40) * np.pi / 2.0) + rng.normal(0.0, 4.0, (len(names), 40)), 2)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["series", "date", "price"])
        for name, values in zip(names, y, strict=True):
            writer.writerows([name, str(t), v] for t, v in zip(times, values.tolist(), strict=True))
    return y


def test_storage_is_replayed_against_its_own_rules(tmp_path: Path) -> None:
    write_prices(tmp_path / "prices.csv")
    result = run_backtest(parse_settings(TOML.encode()), tmp_path / "prices.csv")
    names = {"policy", "planning on the mean", "planning on a quantile", "price rule", "price rule, tuned", "nothing"}
    assert names <= set(result.tracks)
    assert result.released == 1.0
    total = {name: float(track.reward.sum()) for name, track in result.tracks.items()}
    on_grid = [total[n] for n in total if n != "linear programme on the mean"]
    assert total["hindsight"] == pytest.approx(max(on_grid))
    # Prices are linear, so members and their mean give the same plan.
    assert total[POLICY] == pytest.approx(total["planning on the mean"])
    text = result.text()
    assert "profit [EUR]" in text
    assert "bought [MWh]" in text
    assert "mean charge [MWh]" in text
    assert result.write(tmp_path / "out.csv") == 2 * len(result.tracks)
    assert "+0.00 [" in text
    short = replace(result, settings=replace(result.settings, backtest=backtest_with(result.settings, season=4)))
    assert short.unit == "season"
    assert "inf" not in short.text()
    few = replace(result, settings=replace(result.settings, backtest=backtest_with(result.settings, season=8)))
    assert "no interval: 2 seasons, at least 3 are needed" in few.headline()


def backtest_with(settings: Settings, **values: Any) -> Any:
    return settings.backtest.model_copy(update=values)


def replay_of(settings: Settings, data: Path, judge: Replay | None = None) -> Replay:
    return Replay(read_histories(settings, data, None)[0], settings, judge=judge)


def test_hindsight_is_what_a_solver_finds(tmp_path: Path) -> None:
    """At full efficiency and whole steps the lattice holds the solver's optimum."""
    if not has_solver():
        pytest.skip("HiGHS is not installed")
    y = write_prices(tmp_path / "prices.csv", ("A",))
    text = TOML.replace("wear = 0.5", "wear = 0.5\nend_value = 12.0\ndischarge_efficiency = 1.0")
    result = run_backtest(parse_settings(text.encode()), tmp_path / "prices.csv", earlier=0)
    config = Storage(
        capacity=1.0, powers=(-2.0, 0.0, 2.0), hours=0.25, charge_efficiency=1.0, discharge_efficiency=1.0, wear=0.5,
        end_value=12.0,
    )  # fmt: skip
    _, best = storage_programme(y[0, -8:], config.state(0.5), config.params())
    assert float(result.tracks["hindsight"].reward.sum()) == pytest.approx(
        best - 12.0 * 0.5
    )  # what was there is no profit


@pytest.mark.parametrize(
    ("kind", "rules"),
    [("capacity", {"newsvendor staffing", "quantile staffing, tuned"}), ("intervention", {"threshold", "nothing"})],
)
def test_costs_are_replayed(kind: str, rules: set[str], tmp_path: Path) -> None:
    write_scaffold(kind, tmp_path)
    settings: Any = short(load_settings(tmp_path / "ucsearch.toml"), 3)
    result = run_backtest(settings, tmp_path / HISTORY[kind], states=tmp_path / "states.csv")
    assert rules <= set(result.tracks)
    assert "cost [EUR]" in result.text()
    if "hindsight" in result.tracks:
        best = float(result.tracks["hindsight"].reward.sum())
        assert all(float(t.reward.sum()) <= best + 1e-9 for t in result.tracks.values())


def test_too_short_a_history_is_named(tmp_path: Path) -> None:
    write_prices(tmp_path / "prices.csv")
    text = TOML.replace("periods = 8", "periods = 39")
    with pytest.raises(Exception, match="saw 40 periods"):
        run_backtest(parse_settings(text.encode()), tmp_path / "prices.csv")


def test_stores_of_different_power_stand_in_one_file(tmp_path: Path) -> None:
    """Each has its own powers: nobody is decided on another's."""
    (tmp_path / "states.csv").write_text("series,level,power\nA,0.5,1\nB,0.5,2\nC,0.5,\n")
    rows = [[name, h + 1, *p] for name in "ABC" for h, p in enumerate([(1, 1), (50, 51), (9, 9), (60, 61), (5, 5)])]
    with (tmp_path / "forecasts.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["series", "step", "member_1", "member_2"], *rows])
    settings = parse_settings(TOML.replace("capacity = 1.0", "capacity = 4.0").encode())
    run_decide(settings, tmp_path / "forecasts.csv", tmp_path / "states.csv", tmp_path / "d.csv", tmp_path / "d.db")
    found = {row["series"]: (row["outcome"], float(row["action"])) for row in rows_of(tmp_path / "d.csv")}
    assert found == {"A": ("RELEASED", 1.0), "B": ("RELEASED", 2.0), "C": ("RELEASED", 2.0)}
    assert verify([str(tmp_path / "d.db")]) == 0


# -------------------------------------------------------------------- recalibration, resuming, pages, tuning


def test_forecasts_are_recalibrated_in_the_replay_too(tmp_path: Path) -> None:
    """A forecaster that is always 30 too low is set right by what is known when each decision is made."""
    y = write_prices(tmp_path / "prices.csv")
    settings = parse_settings(TOML.encode())
    rolling = parse_settings((TOML + "[forecast]\nrecalibrate = 'rolling'\n").encode())
    raw = replay_of(settings, tmp_path / "prices.csv").panel
    made = replay_of(rolling, tmp_path / "prices.csv").panel
    assert made.members.shape == raw.members.shape
    assert not np.array_equal(made.members, raw.members)
    assert made.realised.tolist() == raw.realised.tolist() == y[:, -8:].tolist()


def test_a_replay_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_prices(tmp_path / "prices.csv")
    settings = parse_settings(TOML.encode())
    whole = run_backtest(settings, tmp_path / "prices.csv")
    final = job._final

    def stops(*args: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(job, "_final", stops)
    with pytest.raises(KeyboardInterrupt):
        run_backtest(settings, tmp_path / "prices.csv", keep=tmp_path)
    monkeypatch.setattr(job, "_final", final)
    monkeypatch.setattr(rules, "Replay", Once)
    Once.made = 0
    again = run_backtest(settings, tmp_path / "prices.csv", keep=tmp_path)
    assert Once.made == 1  # the costs of rules were kept: only the names of their knobs are asked for
    assert again.text() == whole.text()
    assert again.reasons == whole.reasons
    assert not list(tmp_path.glob(".ucsearch-*"))  # nothing is left behind


class Once(Replay):
    made = 0

    def __init__(self, *args: Any) -> None:
        type(self).made += 1
        super().__init__(*args)


def test_a_page_of_a_store(tmp_path: Path) -> None:
    write_prices(tmp_path / "prices.csv", ("A<b>", "B"))
    result = run_backtest(parse_settings(TOML.encode()), tmp_path / "prices.csv")
    write_backtest_page(result, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "A&lt;b&gt;" in page
    assert "A<b>" not in page
    assert result.headline()[1:].replace("'", "&#39;") in page
    assert "Profit [EUR]" in page
    assert ">nan" not in page
    assert "src=" not in page  # nothing is fetched


def test_a_store_is_tuned_on_its_own_history(tmp_path: Path) -> None:
    write_prices(tmp_path / "prices.csv")
    (tmp_path / "job.toml").write_text("# Ours.\n" + TOML)
    found = run_tune(load_settings(tmp_path / "job.toml"), tmp_path / "prices.csv", tries=6)
    assert found.trials[0].label == "as given"
    assert "no end value" in {t.label for t in found.trials}
    costs = [t.cost.sum() for t in found.trials]
    assert found.chosen == int(np.argmin(costs))
    made = parse_settings(found.text.encode(), "x.toml")
    best = found.trials[found.chosen].settings
    assert (made.policy, made.task, made.forecast) == (best.policy, best.task, best.forecast)
    assert found.text.startswith("# Ours.\n")
    table = found.table()
    assert "profit, and better than as given by" in table
    assert "replayed once" in table
    content = json.loads(found.evidence())
    assert len(content["trials"]) == len(found.trials)
    assert set(content["later"]["figures"]) == set(found.report.tracks)
    assert (GIVEN in found.report.tracks) == (found.chosen != 0) == ("the settings beside count what is left" in table)
    assert found.verdict() in table
    assert (
        found.evidence() == run_tune(load_settings(tmp_path / "job.toml"), tmp_path / "prices.csv", tries=6).evidence()
    )


def test_what_is_left_counts_alike_for_all_candidates(tmp_path: Path) -> None:
    """Without an end value of its own a candidate sells everything; it is judged by the value as given."""
    write_prices(tmp_path / "prices.csv")
    given = parse_settings(TOML.replace("wear = 0.5", "wear = 0.5\nend_value = 1000.0").encode())
    other = parse_settings(TOML.replace("wear = 0.5", "wear = 0.5\nend_value = 0.0").encode())
    judge = replay_of(given, tmp_path / "prices.csv")
    alone, judged = (replay_of(other, tmp_path / "prices.csv", j) for j in (None, judge))
    a, b = alone.walk(alone.policy()), judged.walk(judged.policy())
    level = a.states[:, :, judge.panel.layout.names.index("level")]
    left = level[:, -1] - level[:, 0]
    assert b.totals.tolist() == pytest.approx((a.totals + 1000.0 * left * judge_unit(judge)).tolist())


def test_a_solver_is_judged_beside_other_settings_too(tmp_path: Path) -> None:
    """Its states know no lattice, those of the settings as given do; an index was out of range."""
    pytest.importorskip("highspy")
    write_scaffold("storage", tmp_path)
    settings = short(parse_settings((tmp_path / "ucsearch.toml").read_bytes()), 6)
    alone, beside = (
        run_backtest(settings, tmp_path / "prices.csv", earlier=0, given=given) for given in (None, settings)
    )
    solved = "linear programme on the mean"
    assert beside.tracks[solved].reward == pytest.approx(alone.tracks[solved].reward)


def judge_unit(stage: Replay) -> float:
    """Of a level in the state: on a lattice it is counted in steps."""
    full = np.zeros(stage.panel.layout.size)
    full[stage.panel.layout.names.index("level")] = 1.0
    return float(values_of(stage.panel, np.tile(full, (2, 1, 1)))[0, 0]) / 1000.0


@pytest.mark.parametrize("kind", ["capacity", "intervention"])
def test_others_are_tuned_too(kind: str, tmp_path: Path) -> None:
    write_scaffold(kind, tmp_path)
    text = (tmp_path / "ucsearch.toml").read_text()
    depth = 3
    for old, new in (("paths = 30", "paths = 4"), ("node_budget = 200000", "node_budget = 20000")):
        text = text.replace(old, new)
    lines = [
        f"depth = {depth}" if x.startswith("depth =") else "periods = 5" if x.startswith("periods =") else x
        for x in text.splitlines()
    ]
    (tmp_path / "job.toml").write_text("\n".join([*lines, "[run]", "engine = 'python'"]) + "\n")
    found = run_tune(load_settings(tmp_path / "job.toml"), tmp_path / HISTORY[kind], tries=4)
    assert len(found.trials) + len(found.skipped) == 4
    assert {t.settings.policy.mode for t in found.trials} == {"members", "mean"}
    assert "cost, and better than as given by" in found.table()


def test_progress_is_told_in_decisions_so_that_a_pipe_shows_it(tmp_path: Path) -> None:
    write_prices(tmp_path / "prices.csv")
    told: list[tuple[int, int]] = []
    run_backtest(parse_settings(TOML.encode()), tmp_path / "prices.csv", progress=lambda *x: told.append(x))
    assert told[-1][0] == told[-1][1]
    assert len({whole for _, whole in told}) == 1
    assert [x[0] for x in told] == sorted(x[0] for x in told)


def test_a_short_replay_of_trees_over_members_is_not_left_to_plain_python(tmp_path: Path) -> None:
    write_scaffold("capacity", tmp_path)
    settings = load_settings(tmp_path / "ucsearch.toml")
    settings = dataclasses.replace(settings, backtest=settings.backtest.model_copy(update={"periods": 2, "season": 24}))
    settings = replace(settings, backtest=backtest_with(settings, warmup=0))
    assert replay_of(settings, tmp_path / "demand.csv").how.engine == "auto"  # a decision took it seconds


def hourly(path: Path, days: int) -> None:
    """Cheap before midnight and dear after it, at a level that differs from day to day."""
    rng = np.random.default_rng(7)
    hours = np.arange(24 * days)
    level = np.repeat(rng.normal(100.0, 15.0, days), 24)
    y = np.round(level + 10.0 * np.sin(hours * np.pi / 12.0) + rng.normal(0.0, 5.0, hours.size), 2)
    times = np.datetime64("2024-05-01T00:00") + hours * np.timedelta64(1, "h")
    rows = [f"A,{t},{v}" for t, v in zip(times, y.tolist(), strict=True)]
    path.write_text("\n".join(["series,date,price", *rows]) + "\n")


HOURLY = (
    TOML.replace('"15min"', '"hour"')
    .replace("level_step = 0.25", "level_step = 1.0")
    .replace("capacity = 1.0", "capacity = 8.0")
    .replace("wear = 0.5", "end_value = 100.0")
    .replace("depth = 5", "depth = 6")
    .replace("paths = 4", "paths = 2")
    .replace("periods = 8\nwarmup = 0\nseason = 4", "periods = 384\nwarmup = 24\nseason = 24")
)


@pytest.mark.parametrize("end", ["end_value = 7.5", 'end_price = "forecast"', ""])
@pytest.mark.parametrize("warmup", [0, 3])
def test_a_store_that_does_nothing_earns_nothing(end: str, warmup: int, tmp_path: Path) -> None:
    """Not the value of the charge that it had from the beginning."""
    write_prices(tmp_path / "prices.csv")
    text = TOML.replace("wear = 0.5", f"wear = 0.5\n{end}").replace("warmup = 0", f"warmup = {warmup}")
    result = run_backtest(parse_settings(text.encode()), tmp_path / "prices.csv", earlier=0)
    assert result.tracks["nothing"].reward.tolist() == [[0.0] * 8] * 2
    assert result.figures("nothing")["profit"] == 0.0
    assert {track.reward.shape for track in result.tracks.values()} == {(2, 8)}


def test_a_charge_counts_on_the_day_that_bought_it_and_the_total_stays(tmp_path: Path) -> None:
    """Bought before midnight, sold after it: cash and the change of the charge's value, day by day; all days together
    are the cash and the value of what is left, less that of what was there."""
    write_prices(tmp_path / "prices.csv")
    text = TOML.replace("wear = 0.5", "wear = 0.5\nend_value = 30.0")
    settings = parse_settings(text.encode())
    stage = replay_of(settings, tmp_path / "prices.csv")
    place, powers = stage.panel.layout.names.index("level"), {-1: -0.95, 0: 0.0, 1: 1.0}
    for plan in ([0, 1, -1, 0, 0, 0, 0, 0], [0, 0, 0, 1, -1, 0, 0, 0]):  # within a season, and over its end

        def follow(seen: Any, plan: list[int] = plan) -> Choice:
            return Choice(np.full(2, powers[plan[seen.t]]), np.zeros(2, np.int64))

        done = stage.walk(follow)
        cash = np.array([
            [-(a * 0.25 * y + 0.5 * max(-a * 0.25, 0.0) / 0.95) for a, y in zip(*rows, strict=True)]
            for rows in zip(done.actions.tolist(), stage.panel.realised.reshape(2, 8).tolist(), strict=True)
        ])  # fmt: skip
        assert done.violations.tolist() == [0, 0]
        value = 30.0 * done.states[:, :, place]
        assert done.rewards == pytest.approx(cash + np.diff(value, axis=1), abs=1e-9)
        assert done.totals == pytest.approx(cash.sum(axis=1) + value[:, -1] - value[:, 0], abs=1e-9)


def test_foresight_is_told_from_the_policy_by_days(tmp_path: Path) -> None:
    """Daily cash alone swings by what is carried over midnight, and an interval over days holds 0."""
    hourly(tmp_path / "prices.csv", 26)
    result = run_backtest(parse_settings(HOURLY.encode()), tmp_path / "prices.csv", earlier=0)
    assert result.against("hindsight").ends.side == -1
    assert result.figures("hindsight")["profit"] > result.figures(POLICY)["profit"]


def test_a_warm_up_is_decided_and_not_counted(tmp_path: Path) -> None:
    write_prices(tmp_path / "prices.csv")
    plain, warm = (parse_settings(TOML.replace("warmup = 0", f"warmup = {n}").encode()) for n in (0, 4))
    early = replace(plain, backtest=backtest_with(plain, periods=12))  # the same twelve periods, all of them counted
    ours, other = (replay_of(settings, tmp_path / "prices.csv") for settings in (warm, early))
    done, whole = ours.walk(ours.policy()), other.walk(other.policy())
    assert ours.track(done)["reward"].tolist() == other.track(whole)["reward"][:, 4:].tolist()
    assert done.states.tolist() == whole.states.tolist()
    assert (done.states[:, 4] != other.panel.starts).any()


def test_the_command_leaves_a_page_of_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_prices(tmp_path / "prices.csv")
    (tmp_path / "job.toml").write_text(TOML)
    given = ("files.sales=prices.csv", "backtest.earlier=0", "files.pages=pages")
    done = CliRunner().invoke(app, ["backtest", *(word for text in given for word in ("--set", text))])
    assert done.exit_code == 0, done.output
    assert "page in pages/backtest.html" in done.output
    assert "<svg" in (tmp_path / "pages" / "backtest.html").read_text()
