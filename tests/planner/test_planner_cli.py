"""`ucsearch new | decide | backtest | explain | tasks | schema`: what a planner types and sees, and the exit codes."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from tests.planner.kit import FORECAST_HEAD, NAMES, STATE_HEAD, TOML, forecast_rows, read_csv, state_rows, write_csv
from tests.planner.kit import write_job as write_files
from ucsearch.cli import planner

runner = CliRunner()
app = typer.Typer(pretty_exceptions_enable=False)
for command in (planner.new, planner.decide, planner.backtest, planner.explain, planner.tasks, planner.schema):
    app.command()(command)


def run(*arguments: object, code: int = 0) -> Any:
    result = runner.invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.output, result.stderr, result.exception)
    return result


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_files(tmp_path)
    (tmp_path / "job.toml").write_text(TOML)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UCSEARCH_LOG", raising=False)
    return tmp_path


DECIDE = ("decide", "job.toml", "--forecasts", "forecasts.csv", "--states", "states.csv", "--out", "out.csv")


def printed_commands(output: str) -> list[list[str]]:
    lines = [line.strip() for line in output.partition("Next")[2].splitlines()[1:]]
    return [shlex.split(line)[1:] for line in lines if line.startswith("ucsearch ")]


def walk_through(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Type what `new` printed."""
    monkeypatch.chdir(folder)
    outputs = []
    for arguments in printed_commands(run("new", "inventory", "--folder", folder, "--force").output):
        if arguments[0] == "decide":
            shrink(folder)
        outputs.append(run(*arguments).output)
    return outputs


def shrink(folder: Path) -> None:
    """The same settings, with less to do, so that nothing has to be compiled."""
    path = folder / "inventory.toml"
    text = path.read_text()
    for old, new in (
        ("depth = 8 ", "depth = 2 "), ("lots = 8", "lots = 4"), ("paths = 100 ", "paths = 4 "),
        ("periods = 28 ", "periods = 3 "), ("warmup = 7 ", "warmup = 1 "),
    ):  # fmt: skip
        assert old in text
        text = text.replace(old, new)
    path.write_text(text + '\n[run]\nengine = "python"\n')


def test_new_and_the_next_three_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decided, replayed, explained = walk_through(tmp_path, monkeypatch)
    assert decided.splitlines()[0] == "8 series: 8 RELEASED"
    assert decided.splitlines()[-1] == "decisions in decisions.csv, records in decisions.db"
    assert "cost [EUR]" in replayed
    assert "stock [pieces]" in replayed
    assert replayed.splitlines()[-1] == "picture in backtest.svg"
    assert explained.startswith("SKU-006: RELEASED, entry 6 of the log")
    assert explained.splitlines()[-1] == "picture in SKU-006.svg"
    names = {"inventory.toml", "forecasts.csv", "states.csv", "sales.csv", "decisions.csv", "decisions.db"}
    assert names | {"backtest.svg", "SKU-006.svg"} <= {p.name for p in tmp_path.iterdir()}


@pytest.mark.slow
def test_new_and_the_next_three_commands_as_printed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "shrink", lambda folder: None)
    decided, replayed, _ = walk_through(tmp_path, monkeypatch)
    assert decided.splitlines()[0] == "8 series: 8 RELEASED"
    assert "\n8 series over 28 periods of one day; 100.0 % of the policy's decisions were released" in replayed


def test_new_replaces_nothing_unasked(tmp_path: Path) -> None:
    run("new", "inventory", "--folder", tmp_path)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    result = run("new", "inventory", "--folder", tmp_path, code=2)
    assert "there already; `--folder NAME` writes into another folder, --force would replace them" in result.stderr
    run("new", "inventory", "--folder", tmp_path, "--force")
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    assert "expected one of 'inventory'" in run("new", "moon", "--folder", tmp_path, code=2).stderr


def test_decide(job: Path) -> None:
    result = run(*DECIDE)
    assert result.stdout.splitlines()[0].startswith("5 series: ")
    assert result.stderr == ""
    assert [row["series"] for row in read_csv(job / "out.csv")] == list(NAMES)
    assert (job / "decisions.db").exists()


def test_series_that_need_a_person_are_exit_code_1(job: Path) -> None:
    write_csv(job / "states.csv", STATE_HEAD, [row for row in state_rows() if row[0] != "B"])
    result = run(*DECIDE, "--problems", "problems.csv", code=1)
    assert "1 REFUSED" in result.stdout
    assert "1 invalid_input" in result.stdout
    assert result.stderr.startswith("Refused: states.csv, series B: saw no row, expected one as in forecasts.csv")
    (row,) = read_csv(job / "problems.csv")
    assert (row["file"], row["series"]) == ("states.csv", "B")


def test_many_problems_are_counted(job: Path) -> None:
    names = [f"S{i:02d}" for i in range(30)]
    write_csv(job / "forecasts.csv", FORECAST_HEAD, forecast_rows([*NAMES, *names]))
    result = run(*DECIDE, code=1)
    assert result.stderr.count("Refused: ") == 20
    assert "and 10 more; --problems FILE lists them" in result.stderr


def test_strict_is_exit_code_3(job: Path) -> None:
    write_csv(job / "states.csv", [*STATE_HEAD, "colour"], [[*row, "red"] for row in state_rows()])
    result = run(*DECIDE, "--strict", code=3)
    assert "Note: states.csv, column colour: an unknown column" in result.stderr
    assert "nothing was decided" in result.stderr
    assert not (job / "out.csv").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("job.toml", "nowhere.toml"), "Error: nowhere.toml: cannot be read"),
        (("forecasts.csv", "nowhere.csv"), "Error: nowhere.csv: cannot be read"),
        (("out.csv", "out.xlsx"), "expected a file called .csv or .parquet"),
    ],
)
def test_unusable_files_are_exit_code_2(job: Path, change: tuple[str, str], message: str) -> None:
    result = run(*(change[1] if x == change[0] else x for x in DECIDE), code=2)
    assert message in result.stderr
    assert not (job / "decisions.db").exists()


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
    assert "Stopped. The same command goes on where it stopped." in result.stderr
    monkeypatch.undo()
    monkeypatch.chdir(job)
    run(*DECIDE)


def test_now_is_a_time(job: Path) -> None:
    assert "--now: saw 'noon', expected an ISO 8601 time" in run(*DECIDE, "--now", "noon", code=2).stderr
    run(*DECIDE, "--now", "2024-05-01T06:00:00")


def test_explain_without_a_picture(job: Path) -> None:
    run(*DECIDE)
    result = run("explain", "decisions.db", "A", "--settings", "job.toml", "--no-plot")
    assert result.stdout.startswith("A: ")
    assert not (job / "A.svg").exists()
    assert "no decision of a series" in run("explain", "decisions.db", "Z", code=2).stderr
    assert "Error: " in run("explain", "nowhere.db", "A", code=2).stderr


def test_a_series_name_cannot_leave_the_folder(job: Path) -> None:
    write_csv(job / "forecasts.csv", FORECAST_HEAD, forecast_rows(["../A b"]))
    write_csv(job / "states.csv", STATE_HEAD, state_rows(["../A b"]))
    run(*DECIDE)
    assert run("explain", "decisions.db", "../A b").stdout.splitlines()[-1] == "picture in _A_b.svg"


def test_backtest_exit_codes(job: Path) -> None:
    rows = [["A", t + 1, 5.0] for t in range(20)]
    write_csv(job / "sales.csv", ["series", "step", "demand"], rows)
    result = run("backtest", "job.toml", "--data", "sales.csv", "--out", "results.csv", "--plot", "p.svg")
    assert "17 rows written to results.csv" in result.stdout
    assert (job / "p.svg").exists()
    write_csv(job / "sales.csv", ["series", "step", "demand"], [*rows, ["B", 1, 5.0]])
    result = run("backtest", "job.toml", "--data", "sales.csv", "--no-plot", code=1)
    assert "Refused: sales.csv, series B: saw 1 periods" in result.stderr
    run("backtest", "job.toml", "--data", "nowhere.csv", code=2)


def test_tasks_and_schema() -> None:
    listed = run("tasks").stdout
    assert "lead_time_inventory  periodic review of one item" in listed
    described = run("tasks", "lead_time_inventory").stdout
    assert "holding = 1.0" in described
    assert "currency per unit left at the end of a period" in described
    assert "required: series, on_hand" in described
    assert "expected one of" in run("tasks", "nothing", code=2).stderr
    assert json.loads(run("schema").stdout)["title"] == "Settings"


@pytest.mark.parametrize("name", ["new", "decide", "backtest", "explain", "tasks", "schema"])
def test_help_names_the_exit_codes(name: str) -> None:
    assert "Exit codes:" in run(name, "--help").output


def test_importing_the_commands_is_cheap() -> None:
    heavy = ("numpy", "pydantic", "rich.progress", "pyarrow")
    code = f"import sys, ucsearch.cli.planner; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
