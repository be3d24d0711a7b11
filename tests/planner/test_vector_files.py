"""Price and load from files: a task of one's own that reads both is decided, replayed and verified."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import ucsearch as uc
from ucsearch.cli.main import app
from ucsearch.planner.backtest.job import run_backtest
from ucsearch.planner.calibrate import run_calibrate
from ucsearch.planner.decide.in_memory import decide_cases
from ucsearch.planner.decide.job import run_decide
from ucsearch.planner.files.sales import read_sales
from ucsearch.planner.files.series_file import SeriesFile, make_trace
from ucsearch.planner.files.table import open_table
from ucsearch.planner.forecast import run_forecast
from ucsearch.planner.recorded.explain import explain_series
from ucsearch.planner.settings import SettingsError, load_settings
from ucsearch.verify.__main__ import main as verify

METER = """
from typing import NamedTuple
import ucsearch as uc

class Hour(NamedTuple):
    price: float
    load: float

class Store(NamedTuple):
    level: float

def feasible(s, a, p):
    return 0.0 <= s.level + a <= 4.0

def step(s, a, y, p):
    return Store(s.level + a)

def reward(s, a, y, p):
    return -y.price * max(0.0, y.load + a)

def fallback(s, p):
    return 0.0

METERED = uc.Task(
    name="metered", state=Store, actions=(-1.0, 0.0, 1.0), outcome=Hour, feasible=feasible, step=step, reward=reward,
    fallback=fallback,
)
"""
TOML = """
currency = "EUR"
[task]
name = "own"
object = "meter.py:METERED"
[policy]
name = "exact"
depth = 3
[forecaster]
name = "seasonal_naive"
paths = 4
[backtest]
periods = 6
season = 4
[run]
engine = "python"
"""
RNG = np.random.default_rng(3)
MEMBERS = np.round(RNG.uniform(1.0, 9.0, (2, 3, 4, 2)), 3)  # series A and B, members, steps, price and load
FIELDS = ("price", "load")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "meter.py").write_text(METER)
    (tmp_path / "job.toml").write_text(TOML)
    (tmp_path / "states.csv").write_text("series,level\nA,1\nB,2\n")
    return tmp_path


def write(path: Path, rows: Iterable[Sequence[Any]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def wide(path: Path) -> Path:
    head = [f"{f}_member_{j + 1}" for f in FIELDS for j in range(3)]
    rows = [[s, h + 1, *MEMBERS[i, :, h].T.ravel()] for i, s in enumerate("AB") for h in range(4)]
    return write(path, [["series", "step", *head], *rows])


def long(path: Path) -> Path:
    rows = [
        [s, h + 1, f, *MEMBERS[i, :, h, k]] for i, s in enumerate("AB") for k, f in enumerate(FIELDS) for h in range(4)
    ]
    return write(path, [["series", "step", "variable", "member_1", "member_2", "member_3"], *rows])


def samples(path: Path) -> Path:
    rows = [[s, h + 1, j, *MEMBERS[i, j, h]] for i, s in enumerate("AB") for j in range(3) for h in range(4)]
    return write(path, [["series", "step", "sample", *FIELDS], *rows])


def samples_long(path: Path) -> Path:
    rows = [
        [s, h + 1, j, f, MEMBERS[i, j, h, k]]
        for i, s in enumerate("AB") for h in range(4) for j in range(3) for k, f in reversed(list(enumerate(FIELDS)))
    ]  # fmt: skip
    return write(path, [["series", "step", "sample", "variable", "value"], *rows])


@pytest.mark.parametrize("make", [wide, long, samples, samples_long])
def test_members_of_two_fields_keep_their_pairs(make: Callable[[Path], Path], folder: Path) -> None:
    settings = load_settings(folder / "job.toml")
    file = SeriesFile.open(open_table(make(folder / "f.csv")), settings)
    assert file.problems == ()
    tables = [v.table for v in file.values()]
    made = make_trace(np.stack(tables), file.layout.kind, (), settings.forecast, None, None, fields=2)
    assert made.members.tobytes() == uc.Trace.from_members(MEMBERS, fields=2).members.tobytes()


def test_quantiles_and_means_of_two_fields(folder: Path) -> None:
    settings = load_settings(folder / "job.toml")
    mean = np.array([[30.0, 2.0], [40.0, 3.0], [20.0, 1.0]])  # steps, fields
    head = ["price_mean", "price_std", "load_mean", "load_std"]
    rows = [["A", h + 1, p, 2.0, y, 0.5] for h, (p, y) in enumerate(mean)]
    file = SeriesFile.open(open_table(write(folder / "m.csv", [["series", "step", *head], *rows])), settings)
    (value,) = file.values()
    made = make_trace(value.table[None], "mean", (), settings.forecast, None, None, fields=2)
    expected = uc.Trace.from_mean(mean, np.tile([2.0, 0.5], (3, 1)), fields=2)
    assert made.members.tobytes() == expected.members.tobytes()
    rows[1][5] = -1.0
    (value,) = SeriesFile.open(
        open_table(write(folder / "m.csv", [["series", "step", *head], *rows])), settings
    ).values()
    assert str(value.problem).endswith("m.csv, line 3, column load_std, series A: saw -1, expected at least 0")
    head = [f"{f}_q{x}" for f in FIELDS for x in (10, 50, 90)]
    rows = [["A", h + 1, p - 1, p, p + 2, y - 1, y, y + 3] for h, (p, y) in enumerate(mean)]
    file = SeriesFile.open(open_table(write(folder / "q.csv", [["series", "step", *head], *rows])), settings)
    (value,) = file.values()
    made = make_trace(value.table[None], "quantiles", file.layout.levels, settings.forecast, None, None, fields=2)
    table = np.stack([mean - 1.0, mean, mean + [2.0, 3.0]], axis=1)
    expected = uc.Trace.from_quantiles([0.1, 0.5, 0.9], table, fields=2)
    assert made.members.tobytes() == expected.members.tobytes()


def test_decisions_are_those_of_the_library_and_verify(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for name, make in (("wide", wide), ("long", long)):
        make(folder / f"{name}.csv")
        given = (f"files.forecasts={name}.csv", f"files.decisions={name}-out.csv", f"files.log={name}.db")
        words = ["decide", "-c", "job.toml", *(word for text in given for word in ("--set", text))]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        assert verify([f"{name}.db", "--task", "meter.py:METERED"]) == 0
        assert verify([f"{name}.db"]) != 0  # nobody said that this code may be run
    assert without_ids(folder / "wide-out.csv") == without_ids(folder / "long-out.csv")
    task = load_settings(folder / "job.toml").task.task()
    for i, row in enumerate(without_ids(folder / "wide-out.csv")):
        trace = uc.Trace.from_members(MEMBERS[i], fields=2)
        alone = uc.decide(
            task, task.state(1.0 + i), trace, uc.Exact(depth=3), gate=uc.Gate(), run=uc.Run(engine="python")
        )
        assert (row["outcome"], float(row["action"])) == (alone.outcome.value, alone.action)
    told = explain_series(folder / "wide.db", "A", load_settings(folder / "job.toml")).text
    assert "level 1" in told
    price, load = MEMBERS[0, :, 0].T
    assert f"price {price.mean():.4g} on average" in told
    assert f"load {load.mean():.4g} on average" in told


def without_ids(path: Path) -> list[dict[str, str]]:
    """A record's id has the run's name in it, and so its files."""
    with path.open() as file:
        return [{k: v for k, v in row.items() if k != "certificate"} for row in csv.DictReader(file)]


def test_rows_without_files_decide_the_same(folder: Path) -> None:
    settings = load_settings(folder / "job.toml")
    # Parquet has all digits.
    run_decide(settings, wide(folder / "f.csv"), folder / "states.csv", folder / "out.parquet", folder / "log.db")
    rows: list[dict[str, Any]] = [
        {"series": s, "level": 1.0 + i, "forecast": {"members": MEMBERS[i].tolist()}} for i, s in enumerate("AB")
    ]
    expected = [(r["series"], r["action"], r["margin"]) for r in pq.read_table(folder / "out.parquet").to_pylist()]
    assert [(r["series"], r["action"], r["margin"]) for r in decide_cases(settings, rows)] == expected
    rows[1]["forecast"]["members"][2][1] = [4.0]
    with pytest.raises(
        uc.InputError, match=r"rows\[1\].forecast.members\[2\]\[1\]: saw 1 values, expected .* price, load"
    ):
        decide_cases(settings, rows)


@pytest.mark.parametrize(("make", "change", "text"), [
    (long, lambda r: r.pop(7), "line 4, column variable, series A: saw no 'load' for the step of this line"),
    (long, lambda r: r.pop(2), "line 6, column variable, series A: saw no 'price' for the step of this line"),
    (long, lambda r: r[6].__setitem__(2, "lod"), "line 7, column variable, series A: saw 'lod', expected one of pri"),
    (long, lambda r: r[6].__setitem__(2, ""), "line 7, column variable, series A: saw nothing, expected one of p"),
    (long, lambda r: r[6].__setitem__(2, "price"), "line 7, column variable, series A: saw 'price' twice for the same"),
    (long, lambda r: r[6].__setitem__(4, ""), "line 7, column member_2, series A: saw nothing, expected a number"),
    (wide, lambda r: r[2].__setitem__(6, "x"), "line 3, column load_member_2, series A: saw 'x', expected a number"),
    (samples, lambda r: r[5].__setitem__(4, ""), "line 6, column load, series A: saw nothing, expected a number"),
    (samples_long, lambda r: r.pop(3), "column variable, series A: saw no 'load' for the step and sample of this line"),
])  # fmt: skip
def test_what_is_missing_is_named_and_the_other_series_is_decided(
    make: Callable[[Path], Path], change: Callable[[list[list[str]]], Any], text: str, folder: Path
) -> None:
    path = make(folder / "f.csv")
    with path.open() as file:
        rows = list(csv.reader(file))
    change(rows)
    write(path, rows)
    settings = load_settings(folder / "job.toml")
    report = run_decide(settings, path, folder / "states.csv", folder / "out.csv", folder / "log.db")
    assert [p.series for p in report.problems] == ["A"]
    assert text in str(report.problems[0])
    assert str(report.problems[0]).startswith(str(path))
    assert report.outcomes.get("RELEASED", 0) == 1


@pytest.mark.parametrize(("head", "text"), [
    ("series,step,price_member_1,price_member_2", "a column such as 'load_member_1' for the outcome's field 'load'"),
    ("series,step,price_member_1,price_member_2,load_member_1", "saw no column 'load_member_2'"),
    ("series,step,price_member_1,load_mean,load_std", "saw no column 'load_member_1'"),
    ("series,step,price_q10,price_q90,load_q10,load_q80", "saw no column 'load_q90'"),
    ("series,step,sample,price", "a column such as 'load' for the outcome's field 'load'"),
    ("series,step,member_1,member_2", "a column such as 'price_member_1'"),
])  # fmt: skip
def test_columns_that_are_missing_are_named(head: str, text: str, folder: Path) -> None:
    (folder / "f.csv").write_text(f"{head}\nA,1{',1' * (head.count(',') - 1)}\n")
    with pytest.raises(uc.InputError, match=r"f\.csv") as caught:
        SeriesFile.open(open_table(folder / "f.csv"), load_settings(folder / "job.toml"))
    assert text in str(caught.value)


# -------------------------------------------------------------------- histories


def history(path: Path, form: str = "wide") -> np.ndarray:
    """30 periods in which load is 100 - 2 price."""
    noise = np.random.default_rng(4).normal(0.0, 2.0, (4, 30))
    price = np.round(30.0 + 8.0 * np.sin(np.arange(30) * np.pi / 2.0) + noise, 3)
    y = np.stack([price, 100.0 - 2.0 * price], axis=2)
    if form == "wide":
        rows = [[s, t + 1, *y[i, t]] for i, s in enumerate("ABCD") for t in range(30)]
        write(path, [["series", "step", *FIELDS], *rows])
    else:
        rows = [
            [s, t + 1, f, y[i, t, k]] for i, s in enumerate("ABCD") for t in range(30) for k, f in enumerate(FIELDS)
        ]
        write(path, [["series", "step", "variable", "demand"], *rows])
    return y


def test_both_are_replayed_together(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    y = history(folder / "hours.csv")
    states = "series,level\n" + "".join(f"{s},2\n" for s in "ABCD")
    (folder / "states.csv").write_text(states)
    settings = load_settings(folder / "job.toml")
    result = run_backtest(settings, folder / "hours.csv", states=folder / "states.csv")
    total = {n: float(t.reward.sum()) for n, t in result.tracks.items()}
    idle = float(-(y[:, -6:, 0] * np.maximum(0.0, y[:, -6:, 1])).sum())
    assert total["nothing"] == pytest.approx(idle)  # the bill of the real prices and loads
    assert total["hindsight"] >= max(total.values()) - 1e-9
    assert total["hindsight"] > idle
    assert {"policy", "planning on the mean", "planning on a quantile"} <= set(total)
    given = ("files.sales=hours.csv", "files.results=b.csv", "backtest.earlier=0")
    words = ["backtest", "-c", "job.toml", *(word for text in given for word in ("--set", text))]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "profit [EUR]" in done.output
    with pytest.raises(uc.InputError, match=r"where each series begins \(level\)"):
        run_backtest(settings, folder / "hours.csv")


def test_a_history_by_variable_is_the_same_history(folder: Path) -> None:
    settings = load_settings(folder / "job.toml")
    for form in ("wide", "long"):
        history(folder / f"{form}.csv", form)
    a, b = (read_sales(folder / f"{form}.csv", settings).histories for form in ("wide", "long"))
    assert len(a) == len(b) == 4
    assert all(np.array_equal(x.y, z.y) for x, z in zip(a, b, strict=True))
    text = (folder / "long.csv").read_text().splitlines()
    (folder / "long.csv").write_text("\n".join([*text[:6], *text[7:]]) + "\n")
    problems = [str(p) for p in read_sales(folder / "long.csv", settings).problems]
    assert any("long.csv, line 6, column variable, series A: saw no 'load'" in p for p in problems)
    (folder / "short.csv").write_text("series,step,price\nA,1,2.0\n")
    with pytest.raises(uc.InputError, match=r"short.csv: .*a column 'load'"):
        run_backtest(settings, folder / "short.csv", states=folder / "states.csv")


def test_both_are_forecast_into_a_file_that_decide_reads(folder: Path) -> None:
    y = history(folder / "hours.csv")
    settings = load_settings(folder / "job.toml")
    run_forecast(settings, folder / "hours.csv", folder / "f.csv")
    (folder / "states.csv").write_text("series,level\n" + "".join(f"{s},2\n" for s in "ABCD"))
    file = SeriesFile.open(open_table(folder / "f.csv"), settings)
    assert file.layout.fields == FIELDS
    for values in file.values():
        price, load = values.table.reshape(3, 2, -1).mean(axis=0)
        assert np.argsort(price).tolist() == np.argsort(-load).tolist()  # opposite in the past, and so ahead
    report = run_decide(settings, folder / "f.csv", folder / "states.csv", folder / "out.csv", folder / "log.db")
    assert report.outcomes == {"RELEASED": 4}
    assert y.shape == (4, 30, 2)


# -------------------------------------------------------------------- tasks of one's own


def test_a_job_that_was_cut_off_does_not_go_on_with_other_rules(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ucsearch.planner.decide.resume import fingerprint_of

    before = fingerprint_of(load_settings(folder / "job.toml"), wide(folder / "f.csv"))
    assert fingerprint_of(load_settings(folder / "job.toml"), folder / "f.csv") == before
    (folder / "meter.py").write_text(METER.replace("<= 4.0", "<= 3.0"))
    assert fingerprint_of(load_settings(folder / "job.toml"), folder / "f.csv") != before


@pytest.mark.parametrize(("old", "new", "text"), [
    ("meter.py:METERED", "nowhere.py:METERED", "task.object: saw 'nowhere.py:METERED', expected an object that can be"),
    ("meter.py:METERED", "meter.py:Hour", "task.object: saw type, expected a uc.Task"),
    ("meter.py:METERED", "meter.py", "task.object: saw 'meter.py', expected 'package:object' or 'file.py:object'"),
    ('object = "meter.py:METERED"', "", "task.object: missing"),
    ("[forecaster]", "[forecast]\nrecalibrate = 'rolling'\n[forecaster]", "forecast.recalibrate: saw 'rolling'"),
    ("[forecaster]", "[actions]\nmultiples = [0.0, 1.0]\n[forecaster]", "actions.multiples: saw a list"),
])  # fmt: skip
def test_settings_of_ones_own_task_are_checked(old: str, new: str, text: str, folder: Path) -> None:
    (folder / "job.toml").write_text(TOML.replace(old, new))
    with pytest.raises(SettingsError, match=r"job\.toml") as caught:
        load_settings(folder / "job.toml")
    assert text in str(caught.value)


def test_a_service_takes_a_task_of_ones_own_from_settings_but_of_one_field(folder: Path) -> None:
    from ucsearch.service.config import ConfigError, PlanTable
    from ucsearch.service.writer.plans import load_plan

    table = PlanTable(name="meter", settings="job.toml")
    with pytest.raises(ConfigError, match=r"several fields \(price, load\)"):
        load_plan(table, folder)
    text = METER.replace("outcome=Hour, ", "").replace("y.price * max(0.0, y.load + a)", "y * a")
    (folder / "meter.py").write_text(text)
    plan = load_plan(table, folder)
    assert plan.own_task is not None
    assert plan.own_task.name == "metered"


def test_a_segment_of_ones_own_task_is_told_and_decided_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "job.toml").write_text(TOML + "segment_from = 2\n")
    settings = load_settings(folder / "job.toml")
    run_decide(settings, wide(folder / "f.csv"), folder / "states.csv", folder / "out.csv", folder / "log.db")
    told = explain_series("log.db", "A", settings).text
    assert "level 1" in told
    call = ["verify", "log.db", "--rows", "-1"]
    alone = CliRunner().invoke(app, call)
    assert (alone.exit_code, "ALTERED" in alone.output) == (2, False)  # nothing is known, and nothing was altered
    known = CliRunner().invoke(app, [*call, "--task", "meter.py:METERED"])
    assert known.exit_code == 0
    assert "2 decided again" in known.output
    words = ["log", "export", "some.jsonl", "--log", "log.db", "--segments", "--task", "meter.py:METERED"]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert verify(["some.jsonl", "--task", "meter.py:METERED"]) == 0


def test_what_is_for_one_field_says_so(folder: Path) -> None:
    settings = load_settings(folder / "job.toml")
    history(folder / "hours.csv")
    files = (folder / "f.csv", folder / "states.csv", folder / "out.csv", folder / "log.db")
    wide(files[0])
    for call in (
        lambda: run_calibrate(settings, folder / "hours.csv"),
        lambda: run_forecast(settings, folder / "hours.csv", folder / "f2.csv", archive=folder / "a.csv"),
        lambda: run_decide(settings, *files, keep=folder / "a.csv"),
    ):
        with pytest.raises(uc.InputError, match="price, load"):
            call()
