"""`ucsearch new | decide | backtest | explain | orders | tasks`: what a planner types and sees, and the exit codes."""

from __future__ import annotations

import codecs
import csv
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.planner.kit import FORECAST_HEAD, NAMES, STATE_HEAD, TOML, forecast_rows, read_csv, state_rows, write_csv
from tests.planner.kit import write_job as write_files
from ucsearch.cli import app

runner = CliRunner()


def run(*arguments: object, code: int = 0) -> Any:
    result = runner.invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.stderr, result.exception)
    return result


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_files(tmp_path)
    (tmp_path / "job.toml").write_text(TOML)
    monkeypatch.chdir(tmp_path)
    return tmp_path


DECIDE = ("decide", "--set", "files.decisions=out.csv")


def printed_commands(output: str) -> list[list[str]]:
    lines = [line.strip() for line in output.partition("Next")[2].splitlines()[1:]]
    return [shlex.split(line)[1:] for line in lines if line.startswith("ucsearch ")]


def walk_through(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Type what `new` printed."""
    monkeypatch.chdir(folder)
    outputs = []
    for arguments in printed_commands(run("new", "inventory", folder, "--force").output):
        if arguments[0] == "decide":
            shrink(folder)
        outputs.append(run(*arguments).output)
    return outputs


def shrink(folder: Path) -> None:
    """The same settings, with less to do, so that nothing has to be compiled."""
    path = folder / "ucsearch.toml"
    text = path.read_text()
    for old, new in (
        ("depth = 8 ", "depth = 2 "), ("lots = 8", "lots = 4"), ("paths = 100 ", "paths = 4 "),
        ("periods = 28 ", "periods = 3 "), ("warmup = 7 ", "warmup = 1 "),
    ):  # fmt: skip
        assert old in text
        text = text.replace(old, new)
    path.write_text(text + '\n[run]\nengine = "python"\n')


def test_new_and_the_next_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decided, ordered, replayed, explained = walk_through(tmp_path, monkeypatch)
    assert decided.splitlines()[0] == "8 series: 8 RELEASED"
    assert decided.splitlines()[-2:] == [
        "page in pages/decisions.html", "decisions in decisions.csv, records in decisions.db",
    ]  # fmt: skip
    assert re.fullmatch(r"[3-7] orders in orders\.csv\n[1-5] series needs? no order\n", ordered)
    assert "cost [EUR]" in replayed
    assert "stock [pieces]" in replayed
    assert replayed.splitlines()[-1] == "page in pages/backtest.html"
    assert explained.startswith("SKU-006: RELEASED, entry 6 of the log")
    assert explained.splitlines()[-1] == "page in pages/SKU-006.html"
    names = {"ucsearch.toml", "forecasts.csv", "states.csv", "sales.csv", "decisions.csv", "decisions.db", "orders.csv"}
    assert names | {"pages"} <= {p.name for p in tmp_path.iterdir()}


@pytest.mark.slow
def test_new_and_the_next_commands_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "shrink", lambda folder: None)
    decided, _, replayed, _ = walk_through(tmp_path, monkeypatch)
    assert decided.splitlines()[0] == "8 series: 8 RELEASED"
    assert "\n8 series over 28 periods of one day; all decisions of the policy were released" in replayed


def test_new_replaces_nothing_unasked(tmp_path: Path) -> None:
    run("new", "inventory", tmp_path)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    result = run("new", "inventory", tmp_path, code=2)
    assert (
        "there already; `ucsearch new inventory FOLDER` writes into another folder, --force replaces them"
        in result.stderr
    )
    run("new", "inventory", tmp_path, "--force")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    assert "expected one of 'inventory'" in run("new", "moon", tmp_path, code=2).stderr


def test_decide(job: Path) -> None:
    result = run(*DECIDE)
    assert result.stdout.splitlines()[0].startswith("5 series: ")
    assert result.stderr == ""
    assert [row["series"] for row in read_csv(job / "out.csv")] == list(NAMES)
    assert (job / "decisions.db").exists()


def test_series_that_need_a_person_are_exit_code_1(job: Path) -> None:
    write_csv(job / "states.csv", STATE_HEAD, [row for row in state_rows() if row[0] != "B"])
    result = run(*DECIDE, "--set", "files.problems=problems.csv", code=1)
    assert "1 REFUSED" in result.stdout
    assert "1 invalid_input" in result.stdout
    assert result.stderr.startswith("Refused: states.csv, series B: saw no row, expected one as in forecasts.csv")
    (row,) = read_csv(job / "problems.csv")
    assert (row["file"], row["series"]) == ("states.csv", "B")


def test_many_problems_are_counted(job: Path) -> None:
    names = [f"S{i:02d}" for i in range(30)]
    bad = [[*row[:2], "x", *row[3:]] for row in forecast_rows(names)]
    write_csv(job / "forecasts.csv", FORECAST_HEAD, [*forecast_rows(NAMES), *bad])
    write_csv(job / "states.csv", STATE_HEAD, state_rows([*NAMES, *names]))
    result = run(*DECIDE, code=1)
    assert result.stderr.count("Refused: ") == 20
    assert "and 10 more; [files] problems names a file for all of them" in result.stderr


def test_strict_decides_nothing(job: Path) -> None:
    write_csv(job / "states.csv", [*STATE_HEAD, "colour"], [[*row, "red"] for row in state_rows()])
    result = run(*DECIDE, "--strict", code=2)
    assert "Note: states.csv, column colour: an unknown column" in result.stderr
    assert "nothing was decided" in result.stderr
    assert not (job / "out.csv").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-c", "nowhere.toml"), "Error: nowhere.toml: cannot be read"),
        (("--set", "files.forecasts=nowhere.csv"), "files.forecasts: saw no file nowhere.csv"),
        (("--set", "files.decisions=out.ods"), "expected a file called .csv, .xlsx or .parquet"),
        (("--set", "files.forecasts="), "--set: saw 'files.forecasts=', expected KEY=VALUE"),
        (("--set", "files.decision=out.csv"), "files.decision: unknown key, expected 'decisions'?"),
        (("--set", "task.holding=much"), "job.toml: task.holding: saw 'much', expected a number"),
    ],
)
def test_unusable_files_are_exit_code_2(job: Path, words: tuple[str, ...], message: str) -> None:
    result = run("decide", *words, code=2)
    assert message in result.stderr
    assert not (job / "decisions.db").exists()


def test_a_folder_without_settings_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "-c: saw no settings file in this folder" in run("decide", code=2).stderr


def test_an_override_is_typed_with_the_commas_of_the_files(job: Path) -> None:
    run(*DECIDE)
    words = ("override", "A", "--who", "me", "--why", "rain", "--force")
    assert "not as 1 or 1000" in run(*words, "1.000", code=2).stderr
    text = (job / "states.csv").read_text().replace(".0", "").replace(",", ";")
    (job / "states.csv").write_text(text)
    assert "A: 1000 is in force" in run(*words, "1.000").stdout
    assert "A: 7.5 is in force" in run(*words, "7,5").stdout
    (job / "states.csv").write_text(text.replace("3", "3.5"))
    assert "not as 1 or 1000" in run(*words, "1.000", code=2).stderr


def test_what_is_wrong_with_many_series_alike_is_one_line(job: Path) -> None:
    rows = [[s, d, *row] for s, _, *row in forecast_rows() for d in ("2024-05-20",)]
    head = ["series", "date", *FORECAST_HEAD[2:]]
    dates = {s: iter(("2024-05-20", "2024-05-21", "2024-05-22")) for s in NAMES}
    write_csv(job / "forecasts.csv", head, [[s, next(dates[s]), *row] for s, _, *row in rows])
    result = run(*DECIDE, "--set", "period=day", code=1)
    (line,) = (x for x in result.stderr.splitlines() if x.startswith("Refused"))
    assert "series A, and 4 more series: saw 2024-05-20 as its first date" in line


def test_a_history_is_forecast_without_a_policy(job: Path) -> None:
    write_csv(job / "sales.csv", ["series", "step", "demand"], [["A", t + 1, float(t % 5)] for t in range(40)])
    (job / "job.toml").write_text(TOML.replace('[policy]\nname = "exact"\ndepth = 3\nrisk = 0.25\n', ""))
    assert "forecast.steps: saw nothing" in run("forecast", "-c", "job.toml", code=2).stderr
    assert "1 series, 2 periods ahead" in run("forecast", "-c", "job.toml", "--set", "forecast.steps=2").stdout


def test_settings_are_found_above_and_files_lie_beside_them(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (job / "job.toml").rename(job / "ucsearch.toml")
    (job / "below").mkdir()
    monkeypatch.chdir(job / "below")
    assert "decisions in ../out.csv, records in ../decisions.db" in run(*DECIDE).stdout
    assert (job / "out.csv").exists()


def test_a_setting_is_changed_for_one_run(job: Path) -> None:
    run(*DECIDE)
    before = read_csv(job / "out.csv")
    run(*DECIDE, "--set", "task.shortage=0.01", "--set", "files.log=other.db")
    assert [row["action"] for row in read_csv(job / "out.csv")] != [row["action"] for row in before]
    assert (job / "job.toml").read_text() == TOML
    assert (job / "other.db").exists()


def test_an_internal_error_is_exit_code_3(
    job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from ucsearch.cli.main import main
    from ucsearch.planner.decide import job as module

    monkeypatch.setattr(module, "work_folder", lambda *a: 1 / 0)
    with pytest.raises(SystemExit) as left:
        main(["decide"])
    assert left.value.code == 3
    assert "Internal error: ZeroDivisionError('division by zero')" in capsys.readouterr().err


def test_every_line_of_bad_settings_is_shown(job: Path) -> None:
    (job / "job.toml").write_text(TOML.replace("holding", "holdin").replace("depth = 3", "depth = 'deep'"))
    result = run(*DECIDE, code=2)
    assert [line.split(": ")[:3] for line in result.stderr.splitlines()] == [
        ["Error", "job.toml", "task.holdin"],
        ["Error", "job.toml", "policy.depth"],
    ]


def test_a_stop_is_exit_code_130(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ucsearch.planner.decide import job as module

    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "keep", stop)
    result = run(*DECIDE, code=130)
    assert "Stopped. The same command continues where it stopped." in result.stderr
    monkeypatch.undo()
    monkeypatch.chdir(job)
    run(*DECIDE)


def test_now_is_a_time(job: Path) -> None:
    assert "--now: saw 'noon', expected an ISO 8601 time" in run(*DECIDE, "--now", "noon", code=2).stderr
    run(*DECIDE, "--now", "2024-05-01T06:00:00")


def test_explain(job: Path) -> None:
    run(*DECIDE)
    result = run("explain", "A")
    assert result.stdout.startswith("A: ")
    assert "page in" not in result.stdout
    assert "no decision of a series" in run("explain", "Z", code=2).stderr
    assert "Error: " in run("explain", "A", "--set", "files.log=nowhere.db", code=2).stderr
    assert "SERIES: saw nothing, expected one series" in run("explain", code=2).stderr
    shown = run("explain", "A", "--set", "on_hand=9", "--set", "files.log=decisions.db")
    assert shown.stdout.startswith("A: what if on_hand = 9 (was 3)?")
    assert "nothing beside --plan" in run("explain", "--plan", "--set", "on_hand=9", code=2).stderr


def test_plans_are_a_table(job: Path) -> None:
    run(*DECIDE)
    assert "rows of 5 series in plan.csv" in run("explain", "--plan").stdout
    assert {row["series"] for row in read_csv(job / "plan.csv")} == set(NAMES)
    run("explain", "A", "B", "--plan", "--set", "files.plan=two.csv")
    assert {row["series"] for row in read_csv(job / "two.csv")} == {"A", "B"}


def test_a_series_name_cannot_leave_the_folder(job: Path) -> None:
    write_csv(job / "forecasts.csv", FORECAST_HEAD, forecast_rows(["../A b"]))
    write_csv(job / "states.csv", STATE_HEAD, state_rows(["../A b"]))
    (job / "job.toml").write_text(TOML + "[files]\npages = 'looks'\n")
    run(*DECIDE)
    assert run("explain", "../A b").stdout.splitlines()[-1] == "page in looks/_A_b.html"
    assert "<svg" in (job / "looks" / "_A_b.html").read_text()


def test_backtest_exit_codes(job: Path) -> None:
    rows = [["A", t + 1, 5.0] for t in range(20)]
    write_csv(job / "sales.csv", ["series", "step", "demand"], rows)
    result = run("backtest", "--set", "files.results=results.csv", "--set", "files.pages=pages")
    assert "17 rows written to results.csv" in result.stdout
    assert (job / "pages" / "backtest.html").exists()
    write_csv(job / "sales.csv", ["series", "step", "demand"], [*rows, ["B", 1, 5.0]])
    result = run("backtest", code=1)
    assert "Refused: sales.csv, series B: saw 1 periods" in result.stderr
    run("backtest", "--set", "files.sales=nowhere.csv", code=2)


# -------------------------------------------------------------------- orders


def by_supplier(job: Path) -> None:
    head = [*STATE_HEAD, "supplier"]
    write_csv(job / "states.csv", head, [[*row, f"S{i % 2}"] for i, row in enumerate(state_rows())])
    (job / "job.toml").write_text(TOML + "[orders]\nby = 'supplier'\n[columns]\nignore = ['supplier']\n")


def test_orders_hold_what_a_person_decided(job: Path) -> None:
    run(*DECIDE)
    (job / "out.csv").rename(job / "decisions.csv")
    planned = {row["series"]: row["order"] for row in read_csv(job / "decisions.csv")}
    assert "overridden" not in run("orders").stdout
    ordered = {row["series"]: row["order [pieces]"] for row in read_csv(job / "orders.csv")}
    assert ordered == {name: order for name, order in planned.items() if order != "0"}
    other = "5" if planned["B"] != "5" else "10"
    run("override", "B", other, "--who", "M. Curie", "--why", "promotion")
    assert "1 overridden by a person" in run("orders").stdout
    (row,) = [row for row in read_csv(job / "orders.csv") if row["series"] == "B"]
    assert (row["order [pieces]"], row["outcome"], row["decided_by"], row["reason"]) == (
        other, "OVERRIDDEN", "M. Curie", "promotion",
    )  # fmt: skip
    run("override", "B", "0", "--who", "M. Curie", "--why", "no promotion")
    run("orders")
    assert "B" not in {row["series"] for row in read_csv(job / "orders.csv")}
    run("override", "B", "--withdraw", "--who", "M. Curie", "--why", "as planned")
    run("orders")
    assert {row["series"]: row["order [pieces]"] for row in read_csv(job / "orders.csv")} == ordered


def test_a_file_for_each_supplier(job: Path) -> None:
    by_supplier(job)
    run("decide")
    run("orders")
    assert not (job / "orders.csv").exists()
    split = {name: {row["series"] for row in read_csv(job / f"orders-{name}.csv")} for name in ("S0", "S1")}
    assert split["S0"] <= {"A", "C", "E"}
    assert split["S1"] <= {"B", "D"}
    assert split["S0"] | split["S1"]


def test_orders_are_written_as_the_readers_files_are(job: Path) -> None:
    with (job / "states.csv").open("w") as file:
        file.write("series;on_hand;open_orders_1\n")
        file.writelines(f"{name};{x:.1f};{y:.1f}\n".replace(".", ",") for name, x, y in state_rows())
    run("decide")
    assert (job / "decisions.csv").read_text().startswith("series;date;outcome;action;order")
    run("orders")
    head, *_ = (job / "orders.csv").read_text().splitlines()
    assert head.startswith("series;order [pieces];date")
    costs = [row["expected_cost [EUR]"] for row in csv.DictReader((job / "orders.csv").open(), delimiter=";")]
    assert all(re.fullmatch(r"\d+(,\d+)?", cost) for cost in costs), costs
    assert any("," in cost for cost in costs)


def test_orders_as_a_workbook(job: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    run("decide")
    run("override", "B", "5", "--who", "=1+1", "--why", "promotion")
    run("orders", "--set", "files.orders=orders.xlsx")
    run("orders")
    sheet = openpyxl.load_workbook(job / "orders.xlsx").active
    rows = list(sheet.iter_rows(values_only=True))
    text = read_csv(job / "orders.csv")
    assert list(rows[0]) == list(text[0])
    assert [(row[0], float(row[1])) for row in rows[1:]] == [(r["series"], float(r["order [pieces]"])) for r in text]
    assert "=1+1" in {row[6] for row in rows}
    assert {cell.data_type for row in sheet.iter_rows(min_col=7, max_col=7) for cell in row} == {"s"}


def test_what_waits_for_a_person_is_counted_and_has_no_row(job: Path) -> None:
    write_csv(job / "forecasts.csv", FORECAST_HEAD, [row for row in forecast_rows() if row[0] != "B"])
    run("decide", code=1)
    assert "Nothing is sent for B until a person decides" in run("orders", code=1).stderr
    assert "B" not in {row["series"] for row in read_csv(job / "orders.csv")}
    run("override", "B", "10", "--who", "M. Curie", "--why", "by hand")
    run("orders")
    (row,) = [row for row in read_csv(job / "orders.csv") if row["series"] == "B"]
    assert (row["order [pieces]"], row["outcome"]) == ("10", "OVERRIDDEN")


def test_the_file_of_decisions_and_its_page_show_what_a_person_ordered(job: Path) -> None:
    write_csv(job / "forecasts.csv", FORECAST_HEAD, [row for row in forecast_rows() if row[0] != "C"])
    with (job / "job.toml").open("a") as file:
        file.write('[files]\npages = "pages"\n')
    run("decide", code=1)
    before = (job / "decisions.csv").read_bytes()
    words = ("--who", "M. Curie", "--why", "promotion")
    for name in ("B", "C"):
        run("override", name, "15", *words)
    rows = {row["series"]: row for row in read_csv(job / "decisions.csv")}
    for name in ("B", "C"):
        row = rows[name]
        assert (row["outcome"], row["order"], row["action"], row["next_orders"]) == ("OVERRIDDEN", "15", "15", "")
        assert row["sentence"] == "M. Curie decided otherwise: 15, because promotion."
        assert row["expected_cost"] == ""
    assert (job / "pages" / "decisions.html").read_text().count("M. Curie decided otherwise") == 2
    assert "B: OVERRIDDEN (decided: RELEASED)" in run("explain", "B").output
    for name in ("B", "C"):
        run("override", name, "--withdraw", *words)
    assert (job / "decisions.csv").read_bytes() == before
    assert "OVERRIDDEN" not in (job / "pages" / "decisions.html").read_text()


def test_the_page_of_decisions_has_totals_and_the_last_run(job: Path) -> None:
    with (job / "job.toml").open("a") as file:
        file.write('[files]\npages = "pages"\n')
    run("decide")
    page = job / "pages" / "decisions.html"
    orders = {row["series"]: float(row["order"]) for row in read_csv(job / "decisions.csv")}
    text = page.read_text()
    assert "Last run" not in text
    assert f"<dd>{sum(orders.values()):g}</dd>" in text
    assert f"<dd>{sum(x > 0.0 for x in orders.values())}</dd>" in text
    changed = (job / "decisions.csv").read_text().splitlines()
    columns, last = changed[0].split(","), changed[1].split(",")
    last[columns.index("order")] = str(orders[last[0]] + 7.0)
    (job / "decisions.csv").write_text("\n".join([changed[0], ",".join(last), *changed[2:]]) + "\n")
    run("decide")
    text = page.read_text()
    assert "Last run" in text
    assert "−7</span>" in text
    assert "<dt>Changed since the last run</dt><dd>1</dd>" in text


def test_a_file_of_other_columns_is_left_as_it_is(job: Path) -> None:
    run("decide")
    text = (job / "decisions.csv").read_text().replace("series,", "item,", 1)
    (job / "decisions.csv").write_text(text)
    assert "its row" not in run("override", "B", "15", "--who", "M. Curie", "--why", "promotion").output
    assert (job / "decisions.csv").read_text() == text


def test_files_with_mistakes_are_answered_as_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """docs/how-to/plan-from-files.md: a text where a number belongs, and a series without a forecast."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "plan-from-files.md").read_text(encoding="utf-8")
    shown = page.partition("## What is wrong with a file")[2].partition("```\n")[2].partition("\n```")[0].splitlines()
    monkeypatch.chdir(tmp_path)
    run("new", "inventory")
    shrink(tmp_path)
    lines = (tmp_path / "forecasts.csv").read_text().splitlines()
    head, cells = lines[0].split(","), lines[16].split(",")
    assert cells[0] == "SKU-002"
    cells[head.index("member_1")] = "abc"
    lines[16] = ",".join(cells)
    (tmp_path / "forecasts.csv").write_text("\n".join(x for x in lines if not x.startswith("SKU-005")) + "\n")
    done = run("decide", "--now", "2024-05-20", code=1)
    assert sorted(done.stderr.splitlines()) == sorted(x for x in shown if x.startswith("Refused"))
    assert done.stdout.splitlines()[:2] == [x for x in shown if not x.startswith("Refused")]
    rows = {row["series"]: row for row in read_csv(tmp_path / "decisions.csv")}
    assert {name for name, row in rows.items() if row["outcome"] == "REFUSED"} == {"SKU-002", "SKU-005"}
    assert all((rows[name]["action"], rows[name]["order"]) == ("", "") for name in ("SKU-002", "SKU-005"))


@pytest.mark.parametrize("encoding", ["cp1252", "utf-8-sig", "utf-16", "utf-8"])
def test_what_is_written_opens_in_the_spreadsheet_that_wrote_the_states(job: Path, encoding: str) -> None:
    for name in ("states.csv", "forecasts.csv"):
        text = (job / name).read_text().replace("\nB,", "\nBär,")
        (job / name).write_bytes(text.encode(encoding))
    run("decide")
    run("override", "Bär", "15", "--who", "me", "--why", "fair")
    run("orders")
    for name in ("decisions.csv", "orders.csv"):
        content = (job / name).read_bytes()
        assert content.startswith(codecs.BOM_UTF8) is (encoding != "utf-8")
        assert "\nBär," in content.decode("utf-8-sig")


def test_orders_of_an_older_run_are_refused(job: Path) -> None:
    run("decide")
    run("decide", "--set", "files.decisions=later.csv", "--set", "task.shortage=8.0")
    error = run("orders", code=2).stderr
    assert "expected the newest in decisions.db" in error
    assert not (job / "orders.csv").exists()


def test_tasks_and_schema() -> None:
    listed = run("tasks").stdout
    assert "lead_time_inventory  periodic review of one item" in listed
    described = run("tasks", "lead_time_inventory").stdout
    assert "holding = 1.0" in described
    assert described.index("\nlead_time = ") < described.index("\norder_days = ")
    assert "currency per unit left at the end of a period" in described
    assert "required: series, on_hand" in described
    assert "expected one of" in run("tasks", "nothing", code=2).stderr
    assert json.loads(run("tasks", "--schema").stdout)["title"] == "Settings"


@pytest.mark.parametrize("name", ["new", "decide", "backtest", "explain", "orders", "tasks"])
def test_help_names_the_exit_codes(name: str) -> None:
    assert "Exit codes:" in run(name, "--help").output


def test_importing_the_commands_is_cheap() -> None:
    heavy = ("numpy", "pydantic", "rich.progress", "pyarrow")
    code = f"import sys, ucsearch.cli.planner; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
