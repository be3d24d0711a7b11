"""What a newcomer is told: amounts in money, names as in the file, what is not known as not known."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.planner.kit import STATE_HEAD, TOML, decide, make_settings, read_csv, state_rows, write_csv, write_job
from ucsearch.cli import app
from ucsearch.decision.words import at_most, scores
from ucsearch.errors import DataError, InputError
from ucsearch.formatting import figure
from ucsearch.planner.backtest.tune import cheapest
from ucsearch.planner.decide.job import run_decide
from ucsearch.planner.files.series_file import SeriesFile, make_trace
from ucsearch.planner.files.table import open_table
from ucsearch.planner.recorded.explain import explain_series
from ucsearch.planner.recorded.whatif import what_if
from ucsearch.planner.settings import Forecast, SettingsError, parse_settings

CERTAIN = TOML.replace("risk = 0.25", "risk = 0.0")


@pytest.mark.parametrize(
    ("score", "money", "risk", "said"),
    [
        (-8.55, "", 0.5, "scores -8.55"),
        (-8.55, "EUR", 0.0, "is expected to cost 8.55 EUR"),
        (8.55, "EUR", 0.0, "is expected to earn 8.55 EUR"),
        (-5158431.6, "EUR", 0.0, "is expected to cost 5,158,432 EUR"),
        (-5158431.6, "", 0.0, "scores -5158432"),
        (-1e18, "EUR", 0.0, "is expected to cost 1e+18 EUR"),
        (-8.55, "EUR", 0.5, "costs 8.55 EUR, its risk counted,"),
    ],
)
def test_a_score_is_money_where_the_currency_is_known(score: float, money: str, risk: float, said: str) -> None:
    assert scores(score, money, risk) == said


def test_what_a_rival_cannot_do() -> None:
    assert at_most(-3.0, "EUR") == "cannot cost less than 3 EUR"
    assert at_most(3.0, "EUR") == "cannot earn more than 3 EUR"
    assert at_most(-3.0) == "cannot score more than -3"


def test_row_and_explanation_speak_of_money_and_the_record_stays_as_it_was(tmp_path: Path) -> None:
    write_job(tmp_path)
    settings = make_settings(text=CERTAIN)
    decide(tmp_path, settings)
    row = read_csv(tmp_path / "out.csv")[2]
    assert f"it is expected to cost {float(row['expected_cost']):.6g} EUR over 3 steps" in row["sentence"]
    assert "the strongest alternative, cannot cost less than" in row["sentence"]
    told = explain_series(tmp_path / "log.db", "C", settings).text
    assert row["sentence"] in told
    assert "nobody verifies" not in told  # the record's own words are the same figures, without a currency
    assert "it scores -" in explain_series(tmp_path / "log.db", "C").text


def test_without_a_forecast_nothing_falls_back(tmp_path: Path) -> None:
    head = ["series", "step", "q0.1", "q0.5", "q0.9"]
    write_csv(tmp_path / "forecasts.csv", head, [[n, h + 1, 7.0, 5.0, 9.0] for n in "AB" for h in range(3)])
    write_csv(tmp_path / "states.csv", STATE_HEAD, state_rows("AB"))
    report = decide(tmp_path)
    assert report.outcomes == {"REFUSED": 2}
    assert report.fallback_words == ""


def test_a_date_nobody_can_read_is_an_empty_cell(tmp_path: Path) -> None:
    rows = [[n, f"05/2{h}/2024", 5.0, 2.0] for n in "AB" for h in range(3)]
    write_csv(tmp_path / "forecasts.csv", ["series", "date", "mean", "std"], rows)
    write_csv(tmp_path / "states.csv", STATE_HEAD, state_rows("AB"))
    decide(tmp_path, make_settings(text=f"period = 'day'\n{TOML}"))
    assert [row["date"] for row in read_csv(tmp_path / "out.csv")] == ["", ""]


def test_a_row_of_the_states_is_not_called_a_forecast(tmp_path: Path) -> None:
    write_job(tmp_path)
    write_csv(tmp_path / "states.csv", STATE_HEAD, [["A", 3.0, -1.0], *state_rows()[1:]])
    report = decide(tmp_path)
    first = read_csv(tmp_path / "out.csv")[0]
    assert first["sentence"].startswith("The series could not be used: ")
    assert "column open_orders_1, series A: saw -1.0" in str(report.problems[0])


def header(folder: Path, columns: str, cells: str, settings: Any = None) -> SeriesFile:
    path = folder / "f.csv"
    path.write_text(f"{columns}\n" + "".join(f"{cells}\n".replace("STEP", str(h + 1)) for h in range(3)))
    return SeriesFile.open(open_table(path), settings or make_settings())


@pytest.mark.parametrize(
    ("columns", "cells", "hint"),
    [
        ("series,step,mean,stdev", "A,STEP,5,2", "It has 'stdev'; rename it to 'std'."),
        ("series,Date,mean,std", "A,STEP,5,2", "It has 'Date'; rename it to 'date'."),
    ],
)
def test_a_near_miss_is_named(tmp_path: Path, columns: str, cells: str, hint: str) -> None:
    with pytest.raises(InputError, match="saw columns series") as error:
        header(tmp_path, columns, cells)
    assert hint in str(error.value)


def test_sample_paths_named_by_their_model(tmp_path: Path) -> None:
    names = [f"AutoETS-sample-{j}" for j in range(12)]
    found = header(tmp_path, f"unique_id,step,{','.join(names)}", f"A,STEP,{','.join(map(str, range(12)))}")
    assert found.layout.values == tuple(names)  # by number, not by letters
    with pytest.raises(InputError, match="models AutoETS, Theta, expected one model"):
        header(tmp_path, "unique_id,step,AutoETS-sample-1,Theta-sample-1", "A,STEP,4,5")


def test_a_gap_says_how_it_could_be_read(tmp_path: Path) -> None:
    path = tmp_path / "sales.csv"
    path.write_text("series,date,demand\nA,2024-05-01,3\nA,2024-05-03,4\n")
    found = SeriesFile.history(open_table(path), parse_settings(f"period = 'day'\n{TOML}".encode()))
    assert "expected one day between them (columns.gaps = 'zero' counts" in str(found.problems[0])


@pytest.mark.parametrize(
    ("dates", "own", "sparse"),
    [
        (("2024-05-01", "2024-06-01", "2024-07-01"), "month", False),
        (("2024-05-06", "2024-05-13", "2024-05-20"), "week", False),
        (("2024-05-03", "2024-05-06", "2024-05-07"), "weekday", True),  # or a shop that was open and sold nothing
    ],
)
def test_dates_of_another_period_say_which(tmp_path: Path, dates: tuple[str, ...], own: str, sparse: bool) -> None:
    """Months counted as days with nothing sold between them would be a plan for another shop."""
    path = tmp_path / "sales.csv"
    path.write_text("series,date,demand\n" + "".join(f"A,{d},3\n" for d in dates))
    found = SeriesFile.history(open_table(path), parse_settings(f"period = 'day'\n{TOML}".encode()))
    assert f'(these dates are one {own} apart: period = "{own}" in the settings)' in str(found.problems[0])
    assert ("columns.gaps" in str(found.problems[0])) == sparse


def test_another_encoding_names_the_line_and_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    text = "series,date,demand\nA,2024-05-01,3\nKäse,2024-05-01,3\n"
    path.write_bytes(text.encode().replace(b"\xc3\xa4", b"\x81"))
    with pytest.raises(DataError, match=r"f.csv: line 3: not a text in UTF-8; save it as UTF-8"):
        list(open_table(path).blocks(["series"]))


def test_a_key_in_the_wrong_table_is_sent_to_its_own() -> None:
    with pytest.raises(SettingsError, match=r"gaps: unknown key.*It is a key of \[columns\]"):
        parse_settings(f"gaps = 'zero'\n{TOML}".encode(), "job.toml")


def test_an_override_is_answered_by_the_series_name(tmp_path: Path) -> None:
    write_job(tmp_path)
    decide(tmp_path)
    words = ["--who", "M. Curie", "--why", "promotion"]
    done = CliRunner().invoke(app, ["override", "B", "10", "--set", f"files.log={tmp_path / 'log.db'}", *words])
    assert "B: order 10 is in force, decided by M. Curie (decision " in done.output


def test_what_cannot_be_added_up_is_never_the_cheapest() -> None:
    trials: list[Any] = [SimpleNamespace(cost=np.array(c)) for c in ([3.0, 4.0], [math.nan, 1.0], [3.0, 3.0])]
    assert cheapest(trials) == 2
    assert cheapest(trials[:2]) == 0
    assert cheapest([trials[1], trials[1]]) == 0


def test_a_record_names_the_model_that_the_file_names() -> None:
    tables, how = np.ones((1, 2, 3)), Forecast(model="sample")
    assert make_trace(tables, "members", (), how, None, None, "ridge-paths").model == "ridge-paths"
    assert make_trace(tables, "members", (), how, None, None).model == "sample"


CLOSED = """
period = "day"
[task]
name = "lead_time_inventory"
lead_time = 0
holding = 0.1
shortage = 2.0
[actions]
lots = 4
[policy]
name = "exact"
mode = "closed"
risk = 0.0
depth = 2
[run]
engine = "python"
"""


@pytest.mark.parametrize(("spread", "said"), [(50.0, True), (90_000.0, False), (0.0, False)])
def test_sizes_that_are_far_too_coarse_for_a_steady_demand_are_told(
    tmp_path: Path, spread: float, said: bool
) -> None:  # fmt: skip
    rng = np.random.default_rng(3)
    rows = [["A", h + 1, *(100_000.0 + spread * rng.uniform(-1.0, 1.0, 12)).tolist()] for h in range(3)]
    forecasts = write_csv(tmp_path / "f.csv", ["series", "step", *(f"member_{j + 1}" for j in range(12))], rows)
    states = write_csv(tmp_path / "s.csv", ["series", "on_hand"], [["A", 10.0]])
    report = run_decide(parse_settings(CLOSED.encode()), forecasts, states, tmp_path / "d.csv", tmp_path / "d.db")
    note = read_csv(tmp_path / "d.csv")[0]["note"]
    assert ("sizes are offered in steps far wider than demand varies" in note) is said
    assert any(words.startswith("1 series: sizes are offered") for words in report.advice) is said


def test_millions_are_told_in_digits_wherever_a_person_reads(tmp_path: Path) -> None:
    rows = [["A", h + 1, 2_880_000.0, 3_000_000.0, 2_700_000.0] for h in range(3)]
    forecasts = write_csv(tmp_path / "f.csv", ["series", "step", "member_1", "member_2", "member_3"], rows)
    states = write_csv(tmp_path / "s.csv", ["series", "on_hand"], [["A", 1_234_567.0]])
    text = TOML.replace("[0.0, 5.0, 10.0, 15.0]", "[0.0, 2880000.0, 4194304.0]")
    settings = parse_settings(text.encode())
    run_decide(settings, forecasts, states, tmp_path / "d.csv", tmp_path / "d.db")
    told = read_csv(tmp_path / "d.csv")[0]["sentence"]
    told += explain_series(tmp_path / "d.db", "A", settings).text
    told += what_if(tmp_path / "d.db", "A", {"on_hand": "1500000"}, settings=settings).text()
    assert "e+0" not in told
    assert "4194304" in told
    assert "1234567" in told
    assert [figure(x) for x in (1e6, 999_999.5, 12.5, -4_194_304.0, 1e12, 2.88e-7)] == [
        "1000000", "1000000", "12.5", "-4194304", "1e+12", "2.88e-07",
    ]  # fmt: skip
