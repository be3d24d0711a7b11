"""The `ucsearch` command: help, exit codes, the small commands, and overriding a decision."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from ucsearch.cli import app
from ucsearch.cli.demo import START, TASK, seasonal_paths
from ucsearch.cli.main import GROUPS, only
from ucsearch.records import AuditLog, AuditReader

ROOT = Path(__file__).resolve().parents[2]
DOCS = (ROOT / "docs" / "reference" / "commands.md").read_text(encoding="utf-8")
WHERE = "ucsearch.cli.demo:TASK"

runner = CliRunner()


def run(*arguments: object, code: int = 0) -> str:
    result = runner.invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.output


def console(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The console entry in a process of its own."""
    code = "import sys; from ucsearch.cli import main; sys.argv[0] = 'ucsearch'; sys.exit(main())"
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def commands(command: Any = None, path: str = "ucsearch") -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its whole name."""
    command = typer.main.get_command(app) if command is None else command
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    for name, child in inner.items():
        yield from commands(child, f"{path} {name}")


COMMANDS = dict(commands())


# -------------------------------------------------------------------- help and documents


def test_all_commands_are_there() -> None:
    expected = "new forecast calibrate backtest tune decide "
    expected += "explain orders override monitor tasks verify demo cache data; "
    expected += "remote decide, remote override, remote outcomes; "
    expected += "evidence run, evidence list, evidence verify, evidence page; "
    expected += "log list, log show, log export, log checkpoint, log copy, log rotate, log erase; "
    expected += "job plan, job run, job seal; "
    expected += "service init, service demo, service check, service run, service arm, service backup, service drill, "
    expected += "service token"
    singles, *groups = expected.split("; ")
    names = [*singles.split(), *(name for group in groups for name in group.split(", "))]
    assert sorted(COMMANDS) == sorted(f"ucsearch {name}" for name in names)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    command = COMMANDS[name]
    assert len(command.help.strip()) > 20
    if name != "ucsearch verify":  # its help is the verifier's own
        assert "Usage:" in run(*name.split()[1:], "--help")
    for option in options(command):
        assert option.help, f"{name} {option.name}"


def test_a_command_that_is_made_alone_is_the_one_among_the_others() -> None:
    names = {name.split()[1] for name in COMMANDS}
    assert {name for group in GROUPS.values() for name in group} == names
    for name in names:
        alone = only(name)
        assert len([*alone.registered_commands, *alone.registered_groups]) == 1
        if name != "verify":
            assert runner.invoke(alone, [name, "--help"]).output == run(name, "--help")
    assert all(only(word) is app for word in ("", "nope", "--help", "--version", "dir"))
    assert len(app.registered_commands) + len(app.registered_groups) == len(names)


def test_help_fits_a_terminal() -> None:
    shown = console("--help").stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "..." not in shown.replace("[ARGS]...", "")
    assert [line[:-1] for line in shown.splitlines() if line.endswith(":") and line[0] != " "][1:] == list(GROUPS)
    for name in COMMANDS:
        if len(name.split()) == 3 and name.split()[1] != "remote":
            group = console(name.split()[1], "--help").stdout
            assert "..." not in group.replace("[ARGS]...", ""), name


def options(command: Any) -> list[Any]:
    return [p for p in command.params if p.param_type_name == "option" and p.name != "help"]


def test_documents_name_no_command_that_is_not_there() -> None:
    groups = {" ".join(name.split()[:2]) for name in COMMANDS}
    assert set(re.findall(r"^##+ (ucsearch .*)$", DOCS, re.M)) == set(COMMANDS) | groups


def test_help_loads_nothing_heavy() -> None:
    code = "import sys; from ucsearch.cli import app; app(['--help'], standalone_mode=False); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "From forecasts with uncertainty" in done.stdout
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "typer" in loaded
    assert not loaded & {"numpy", "numba", "rich.table", "rich.console", "pydantic", "narwhals", "ucsearch.task"}


# -------------------------------------------------------------------- exit codes


def test_an_error_of_ours_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    done = console("new", "nothing", str(tmp_path))
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: kind: saw")
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["demo", "--nope"], ["override", "abc"]])
def test_wrong_usage_of_a_command_is_exit_code_2_in_a_process_of_its_own(arguments: list[str]) -> None:
    done = console(*arguments)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr


def test_wrong_usage_is_exit_code_2() -> None:
    done = console("nope")
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    run("demo", "--nope", code=2)
    run("override", "abc", code=2)
    done = console("verify", "no-such-file.db")
    assert done.returncode == 2, done.stderr


def test_version() -> None:
    from importlib.metadata import version

    line = f"ucsearch {version('ucsearch')}, Python {sys.version.split()[0]}\n"
    assert run("--version") == line


# -------------------------------------------------------------------- verify, demo


def test_verify_passes_everything_on(monkeypatch: pytest.MonkeyPatch) -> None:
    import ucsearch.verify.__main__ as verifier

    seen: list[list[str]] = []

    def stub(arguments: list[str], rows_follow: bool) -> int:
        seen.append(list(arguments))
        return 3

    monkeypatch.setattr(verifier, "main", stub)
    run("verify", "file.db", "--task", "a:b", "--anything", "-x", "--help", code=3)
    assert seen == [["file.db", "--task", "a:b", "--anything", "-x", "--help"]]


def test_verify_reads_the_log_of_the_settings_beside_any_options(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import ucsearch.verify.__main__ as verifier
    from ucsearch.cli.log_words import VERIFIERS_VALUES

    seen: list[list[str]] = []
    parser = verifier._parser()
    monkeypatch.setattr(verifier, "main", lambda arguments, rows_follow: seen.append(list(arguments)) or 3)
    monkeypatch.chdir(tmp_path)
    for words in ([], ["--plain"], ["--task", "a:b"], ["--budget=9", "--plain"]):
        run("verify", *words, code=3)
        assert seen.pop() == [*words, "decisions.db"]
        run("verify", *words, "other.db", code=3)
        assert seen.pop() == [*words, "other.db"]
    valued = {x for action in parser._actions if action.nargs is None for x in action.option_strings}
    assert valued == set(VERIFIERS_VALUES)


def test_new_names_every_kind_and_switch() -> None:
    from ucsearch.planner.new.inventory import KINDS
    from ucsearch.planner.new.switches import SWITCHES

    text = run("new", "--help")
    assert all(name in text for name in (*KINDS, *SWITCHES))


def test_demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = run("demo", tmp_path)
    for part in ("RELEASED", "order 60 is released", "cheaper but riskier", "not allowed: a change of 80 > 60"):
        assert part in text
    for part in ("FALLBACK (not_optimal)", "order 80", "certificate_pass", "fails"):
        assert part in text
    assert re.findall(r" (valid|invalid) *$", text, re.M) == ["valid", "valid", "invalid"]
    assert "the record says 'RELEASED', derived 'FALLBACK'" in " ".join(text.split())
    shown = text.split("Look further")[0].splitlines()
    assert max(len(line) for line in shown) <= 80
    with AuditReader(tmp_path / "decisions.db") as reader:
        outcomes = [row.record["outcome"]["outcome"] for row in reader]
        assert reader.verify().ok
    assert outcomes == ["RELEASED", "FALLBACK"]
    assert run("demo", tmp_path).count("valid") == text.count("valid")  # the same two entries, not more
    # What was kept is valid for a verifier in a process of its own too.
    done = console("verify", str(tmp_path / "decisions.db"), "--task", WHERE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_demo_forecast_repeats_past_changes() -> None:
    import numpy as np

    weeks = np.array([[1.0] * 7, [2.0] * 7, [4.0] * 7, [3.0] * 7])
    paths = seasonal_paths(weeks.ravel())
    # Changes +1, +2, -1: each pair of consecutive ones is a path from the last week, 3.
    assert paths[:, 0].tolist() == [4.0, 5.0]
    assert paths[:, 7].tolist() == [6.0, 4.0]


# -------------------------------------------------------------------- override


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A log of one decision of the demonstration's task."""
    import numpy as np

    import ucsearch as uc

    trace = uc.Trace.from_members(np.random.default_rng(0).uniform(50.0, 90.0, (4, 3)))
    decision = uc.decide(TASK, START, trace, uc.UCBeam(depth=3, risk=0.5), run=uc.Run(engine="python"))
    path = tmp_path_factory.mktemp("log") / "log.db"
    with AuditLog(path, clock=lambda: datetime(2024, 5, 20, tzinfo=UTC)) as log:
        log.write(decision, series="SKU-1", where=WHERE)
    return path.read_bytes()


@pytest.fixture
def log(logged: bytes, tmp_path: Path) -> tuple[Path, str]:
    path = tmp_path / "log.db"
    path.write_bytes(logged)
    with AuditReader(path) as reader:
        return path, reader.list()[0].id


def count(path: Path) -> int:
    with AuditReader(path) as reader:
        return reader.count()


def override(log: tuple[Path, str], action: float, *, task: str = WHERE, code: int = 0) -> str:
    path, id = log
    words = ("--who", "M. Curie", "--why", "promotion", "--task", task, "--set", f"files.log={path}")
    return run("override", id[:10], action, *words, code=code)


def test_override_is_recorded(log: tuple[Path, str]) -> None:
    path, id = log
    assert f"SKU-1: order 100 is in force, decided by M. Curie (decision {id[:12]}, entry" in override(log, 100.0)
    with AuditReader(path) as reader:
        (row,) = reader.overrides(id)
        assert reader.verify().ok
    record = row.record
    assert (record["who"], record["why"], record["action"]) == ("M. Curie", "promotion", 100)
    assert (record["label"], record["off_grid"]) == ("order 100", False)
    assert datetime.fromisoformat(record["at"]).utcoffset() is not None
    shown = json.loads(run("log", "show", id, "--log", path))
    assert [other["id"] for other in shown["overridden_by"]] == [row.id]


@pytest.mark.parametrize(
    ("action", "why"),
    [
        (160.0, "160 breaks the rules of 'lead_time_inventory'"),  # the last order was 80, the ramp is 60
    ],
)
def test_override_by_what_is_not_allowed(log: tuple[Path, str], action: float, why: str) -> None:
    assert "saw -1, expected units to order, at least 0" in override(log, -1.0, code=2)
    text = override(log, action, code=2)
    assert why in text
    assert "Nothing was recorded" in text
    assert count(log[0]) == 1


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ("ucsearch.cli.demo", "expected package:object"),
        ("ucsearch.cli.demo:NOTHING", "has no attribute 'NOTHING'"),
        ("no_such_package:TASK", "No module named 'no_such_package'"),
        ("ucsearch.cli.demo:START", "a State, expected a uc.Task"),
        ("tests.kit.templates:TEMPLATES", "a dict, expected a uc.Task"),
        ("tests.report.test_plot:TANK", "is not the recorded task 'lead_time_inventory'"),
    ],
)
def test_override_needs_the_recorded_task(log: tuple[Path, str], task: str, why: str) -> None:
    assert why in override(log, 100.0, task=task, code=2)
    assert count(log[0]) == 1


def test_override_of_an_override(log: tuple[Path, str]) -> None:
    path, id = log
    override(log, 100.0)
    with AuditReader(path) as reader:
        (row,) = reader.overrides(id)
    assert "expected a decision" in override((path, row.id), 100.0, code=2)


def test_override_makes_no_log(tmp_path: Path) -> None:
    assert "Error" in override((tmp_path / "typo.db", "0123456789"), 100.0, code=2)
    assert not (tmp_path / "typo.db").exists()


def test_a_task_in_the_current_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, log: tuple[Path, str]) -> None:
    (tmp_path / "my_local_tasks.py").write_text("from ucsearch.cli.demo import TASK\n\nclass Box:\n    stock = TASK\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    assert "is in force" in override(log, 100.0, task="my_local_tasks:Box.stock")


def test_a_task_of_evidence_is_found_in_the_current_folder_and_nothing_else_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ucsearch.cli.evidence import _task

    (tmp_path / "named_by_me.py").write_text(
        "from ucsearch.tasks import LeadTimeInventory\ntask = LeadTimeInventory().task()\n"
    )
    (tmp_path / "planted.py").write_text("raise SystemExit(0)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p not in ("", str(tmp_path))])
    before = list(sys.path)
    assert _task("named_by_me:task").name
    assert sys.path == before
    with pytest.raises(ImportError):
        importlib.import_module("planted")
    assert _task(None) is None
