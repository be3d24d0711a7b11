"""`ucsearch monitor`: recorded forecasts against outcomes, by date, by count and by decision."""

from __future__ import annotations

import csv
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import ucsearch as uc
from tests.kit.logged import WHERE, Tank, new_log, tank
from tests.planner.kit import TOML
from ucsearch.cli import app
from ucsearch.decision import Filing
from ucsearch.errors import InputError
from ucsearch.monitor import Settings
from ucsearch.planner.monitor.job import Seen, run_watch, watch

DAYS = 80
START = date(2024, 1, 31)
HOSTILE = "<script>alert(1)</script>"
NAMES = ("good", HOSTILE)
MEMBERS = 60


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[list[Any]]]:
    """A log of two series whose forecasts are equal and honest for the first only; outcomes by decision."""
    folder = tmp_path_factory.mktemp("watch")
    rng = np.random.default_rng(5)
    rows: list[list[Any]] = []
    with new_log(folder) as log:
        for k in range(DAYS):
            members = rng.normal(8.0, 1.0, size=(2, MEMBERS, 2))
            cutoff = (START + timedelta(k)).isoformat()
            trace = uc.Trace.from_members(members, cutoff=cutoff, model="m")
            uc.decide_panel(
                tank,
                [Tank(4.0)] * 2,
                trace,
                uc.UCBeam(depth=1),
                run=uc.Run(engine="python"),
                log=Filing(log, series=NAMES, where=WHERE),
            )
            for i, name in enumerate(NAMES):
                value = float(rng.normal(8.0 + 2.5 * i, 1.0))
                id = log.list(offset=2 * k + i, limit=1)[0].id
                rows.append([name, k + 1, (START + timedelta(k + 1)).isoformat(), id, value])
    return folder / "log.db", rows


def write(path: Path, head: list[str], rows: list[list[Any]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    return path


def by_date(job: tuple[Path, list[list[Any]]], folder: Path) -> Path:
    return write(folder / "o.csv", ["series", "date", "value"], [[r[0], r[2], r[4]] for r in job[1]])


def test_three_ways_to_say_the_same_outcomes(job: tuple[Path, list[list[Any]]], tmp_path: Path) -> None:
    log, rows = job
    dated = run_watch(log, by_date(job, tmp_path))
    counted = run_watch(log, write(tmp_path / "c.csv", ["series", "step", "value"], [[r[0], r[1], r[4]] for r in rows]))
    named = run_watch(log, write(tmp_path / "d.csv", ["decision", "step", "value"], [[r[3], 1, r[4]] for r in rows]))
    for other in (counted, named):
        assert [(s.series, s.status) for s in other.series] == [(s.series, s.status) for s in dated.series]
        assert other.pool.status == dated.pool.status
    assert (dated.first, dated.last) == ("2024-02-01", "2024-04-20")
    assert (counted.first, counted.last) == ("1", "80")


def test_who_trips_and_when(job: tuple[Path, list[list[Any]]], tmp_path: Path) -> None:
    report = run_watch(job[0], by_date(job, tmp_path))
    bad, good = report.series  # who needs a person comes first
    assert (bad.series, good.series) == (HOSTILE, "good")
    assert bad.status.tripped
    assert not good.status.tripped
    assert bad.status.about == "forecasts too low"
    assert bad.missed > 0.5
    assert good.missed < 0.2
    trip = next(e for e in report.events if e.series == HOSTILE)
    # The event is at the outcome where the curve first reaches the limit.
    at = next(i for i, (_, v) in enumerate(bad.curve) if v >= report.settings.limit)
    assert (trip.outcomes, trip.when) == (at + 1, bad.curve[at][0])
    assert bad.blocked == DAYS - at - 1
    assert sum(report.ranks) == 2 * DAYS
    only_spread = run_watch(job[0], by_date(job, tmp_path), settings=Settings(watch="spread"))
    assert only_spread.series[0].status.about == "spread too narrow"


def test_sums_of_steps_wait_for_all_of_them(job: tuple[Path, list[list[Any]]], tmp_path: Path) -> None:
    report = run_watch(job[0], by_date(job, tmp_path), settings=Settings(lags=2))
    assert report.outcomes == 2 * (DAYS - 1)
    assert any("2 decisions have no outcome yet" in note for note in report.notes)


def test_a_missing_day_is_not_taken_from_the_next(job: tuple[Path, list[list[Any]]], tmp_path: Path) -> None:
    rows = [[r[0], r[2], r[4]] for r in job[1] if not (r[0] == "good" and r[1] == 10)]
    report = run_watch(job[0], write(tmp_path / "gap.csv", ["unique_id", "ds", "y"], rows))
    assert {s.series: s.outcomes for s in report.series} == {HOSTILE: DAYS, "good": DAYS - 1}


@pytest.mark.parametrize(
    ("head", "rows", "words"),
    [
        (["series", "value"], [["good", 1.0]], "series, date and value"),
        (["series", "date", "value"], [["good", "yesterday", 1.0]], "a date such as"),
        (["series", "date", "value"], [["good", "2024-02-01", "many"]], "a number"),
        (["series", "date", "value"], [["good", "2024-02-01", "inf"]], "finite"),
        (["series", "date", "value"], [["good", "2024-02-01", 1.0], ["good", "2024-02-01", 2.0]], "one value each"),
        (["series", "step", "value"], [["good", 0, 1.0]], "a whole number from 1"),
        (["series", "step", "value"], [["good", 1.5, 1.0]], "a whole number from 1"),
        (["series", "date", "value"], [["nobody", "2024-02-01", 1.0], ["nobody", "2024-02-02", 1.0],
                                       ["nobody", "2024-02-03", 1.0]],
         "bad.csv: saw no outcome of .* decisions have no outcome yet"),
    ],
)  # fmt: skip
def test_what_is_refused(
    job: tuple[Path, list[list[Any]]], tmp_path: Path, head: list[str], rows: list[list[Any]], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        run_watch(job[0], write(tmp_path / "bad.csv", head, rows))


def test_a_log_without_outcomes_asks_for_them(job: tuple[Path, list[list[Any]]]) -> None:
    with pytest.raises(InputError, match="the log holds no outcomes"):
        run_watch(job[0])


def test_coarse_forecasts_are_told() -> None:
    seen = [Seen(k, str(k), "A", 0.5, 0.6) for k in range(3)]
    assert watch(seen).series[0].outcomes == 3
    report = watch(seen, notes=["few members"])
    assert report.notes == ("few members",)


def test_the_command_writes_words_rows_and_a_page(job: tuple[Path, list[list[Any]]], tmp_path: Path) -> None:
    out, page = tmp_path / "out.csv", tmp_path / "pages" / "monitor.html"
    (tmp_path / "job.toml").write_text(TOML)

    def watched(outcomes: Path, *more: str) -> Any:
        given = (f"files.outcomes={outcomes}", f"files.log={job[0]}", *more)
        words = [word for text in given for word in ("--set", text)]
        return CliRunner().invoke(app, ["monitor", "-c", str(tmp_path / "job.toml"), *words])

    done = watched(by_date(job, tmp_path), f"files.watched={out}", "files.pages=pages")
    assert done.exit_code == 1, done.output  # a person is needed
    assert "2 series, 160 outcomes from 2024-02-01 to 2024-04-20; 1 tripped now" in done.output
    assert "forecasts too low: outcomes are above the forecast too often" in done.output
    with out.open(newline="") as file:
        table = list(csv.DictReader(file))
    assert [(r["series"], r["state"]) for r in table] == [("", "calm"), (HOSTILE, "tripped"), ("good", "calm")]
    text = page.read_text()
    assert HOSTILE not in text
    assert "&lt;script&gt;alert(1)" in text
    assert text.count("<svg") >= 4
    good = [[r[0], r[2], r[4]] for r in job[1] if r[0] == "good"]
    calm = watched(write(tmp_path / "g.csv", ["series", "date", "value"], good))
    assert calm.exit_code == 0, calm.output
    wrong = watched(job[0], f"files.watched={job[0]}")
    assert wrong.exit_code == 2
