"""`ucsearch log`: what it prints and how it exits."""

import ast
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.kit.logged import decide, tank
from tests.planner.kit import TOML
from ucsearch.cli import log as module
from ucsearch.cli import log_words
from ucsearch.records import AuditLog, Checkpoint, blob_id, blob_ref, encode_array, loads

runner = CliRunner()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    blob = encode_array([1.0, 2.0])
    with AuditLog(tmp_path / "log.db", clock=lambda: "2024-05-01T06:00:00+00:00") as log:
        for n in range(5):
            record = {
                "schema": "ucsearch.decision/1",
                "kind": "decision",
                "series": f"SKU-{n}",
                "outcome": "RELEASED" if n % 2 else "FALLBACK",
                "reason": "certified" if n % 2 else "not_risk_active",
                "trace": blob_ref(blob),
            }
            log.append(record, {blob_id(blob): blob})
        decide(log, series="SKU-5")
        log.override(6, task=tank, who="M. Curie", why="\x1b[31mstrike [bold]", action=3.0)
    return tmp_path / "log.db"


def run(*arguments: object, code: int = 0) -> str:
    result = runner.invoke(module.log_app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.output


def edit(path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw, raw:
        sql = raw.execute("SELECT sql FROM sqlite_master WHERE name = 'entries_update'").fetchone()[0]
        raw.execute("DROP TRIGGER entries_update")
        raw.execute("UPDATE entries SET body = replace(body, 'SKU', 'XYZ') WHERE seq = 4")
        raw.execute(sql)


def test_list(path: Path) -> None:
    table = run("list", "--log", path)
    assert "7 of 7 entries" in table
    assert "SKU-3" in table
    assert "override" in table
    lines = [json.loads(line) for line in run("list", "FALLBACK", "-l", path, "--json").splitlines()]
    assert [line["series"] for line in lines] == ["SKU-4", "SKU-2", "SKU-0"]
    assert {line["reason"] for line in lines} == {"not_risk_active"}
    newest = json.loads(run("list", "-l", path, "-n", "1", "--json"))
    assert (newest["seq"], newest["kind"], newest["series"]) == (7, "override", "SKU-5")
    assert json.loads(run("list", "SKU-1", "-l", path, "--json"))["seq"] == 2
    assert json.loads(run("list", "override", "-l", path, "--json"))["seq"] == 7
    assert json.loads(run("list", "SKU-2", "not_risk_active", "-l", path, "--json"))["seq"] == 3
    assert run("list", "stale_trace", "-l", path, "--json") == ""
    assert "one series" in run("list", "SKU-1", "SKU-2", "-l", path, code=2)


def test_the_log_is_found_through_the_settings(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    (path.parent / "job.toml").write_text(TOML + "[files]\nlog = 'log.db'\n")
    assert "7 of 7 entries" in run("list")


def test_show(path: Path) -> None:
    with AuditLog(path) as log:
        row = log.list(series="SKU-5", kind="decision")[0]
    shown = json.loads(run("show", row.id[:10], "-l", path))
    assert shown["record"] == row.record
    assert (shown["seq"], shown["head"], shown["written_at"]) == (6, row.head, "2024-05-01T06:00:00+00:00")
    (override,) = shown["overridden_by"]
    assert override["record"]["who"] == "M. Curie"
    assert "no entry" in run("show", "0" * 64, "-l", path, code=2)


def test_text_in_records_cannot_steer_the_terminal(path: Path) -> None:
    with AuditLog(path) as log:
        id = log.append({"schema": "s", "kind": "decision", "series": "\x1b[2J[red]x\x9b"}).id
    assert "\x1b" not in run("list", "-l", path)
    assert "[red]x" in run("list", "-l", path)
    shown = run("show", id, "-l", path)
    assert shown.isascii()
    assert "\x1b" not in shown


def test_a_copy_is_checked(path: Path, tmp_path: Path) -> None:
    checkpoint, copy, back = tmp_path / "c.json", tmp_path / "copy.db", tmp_path / "back.db"
    assert "7 entries" in run("checkpoint", checkpoint, "-l", path)
    assert Checkpoint.read(checkpoint).count == 7
    assert "7 entries" in run("copy", path, copy)
    assert "7 entries" in run("copy", copy, back, "--checkpoint", checkpoint)
    assert "7 of 7 entries" in run("list", "-l", back)
    assert "there is a file already" in run("copy", path, copy, code=2)
    assert "7 entries" in run("copy", path, copy, "--replace")
    back.unlink()
    edit(copy)
    for more in ((), ("--checkpoint", checkpoint)):
        assert "entry 4" in run("copy", copy, back, *more, code=2)
        assert not back.exists()


def test_a_checkpoint_is_not_taken_of_an_altered_log(path: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "c.json"
    edit(path)
    assert "ALTERED (edited): entry 4:" in run("checkpoint", checkpoint, "-l", path, code=1)
    assert not checkpoint.exists()


def test_a_checkpoint_does_not_replace_one_that_the_log_contradicts(path: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "c.json"
    run("checkpoint", checkpoint, "-l", path)
    before = checkpoint.read_bytes()
    path.unlink()
    with AuditLog(path) as log:
        log.append_batch([{"schema": "s", "kind": "decision", "n": n} for n in range(9)])
    assert "ALTERED (rechained): entry 1:" in run("checkpoint", checkpoint, "-l", path, code=1)
    assert checkpoint.read_bytes() == before
    checkpoint.write_text("{}")
    assert "not a checkpoint" in run("checkpoint", checkpoint, "-l", path, code=2)


def test_export(path: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    assert "7 entries written" in run("export", out, "-l", path)
    lines = [loads(line) for line in out.read_bytes().splitlines()]
    assert [line["seq"] for line in lines] == [1, 2, 3, 4, 5, 6, 7]
    assert len(lines[0]["blobs"]) == 1
    assert "cannot be written" in run("export", tmp_path / "no" / "out", "-l", path, code=2)


def test_export_parquet(path: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    run("export", tmp_path / "out.parquet", "-l", path)
    assert parquet.read_table(tmp_path / "out.parquet").num_rows == 7


@pytest.mark.parametrize("arguments", [("list",), ("show", "0" * 64), ("export", "x"), ("checkpoint", "x")])
def test_a_log_that_is_not_there(tmp_path: Path, arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert "no such log" in run(*arguments, "-l", "none.db", code=2)
    assert list(tmp_path.iterdir()) == []


def test_every_command_states_its_exit_codes() -> None:
    for command in ("list", "show", "export", "checkpoint", "copy", "rotate", "erase"):
        assert "Exit codes: 0" in run(command, "--help")
    assert "Exit codes: 0" in run("--help")


def test_importing_the_command_is_cheap() -> None:
    imported = set()
    for file in (module.__file__, log_words.__file__):
        for node in ast.parse(Path(file).read_text()).body:
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module or "")
    own = {"ucsearch.cli.terminal", "ucsearch.cli.log_words", "ucsearch.cli.options", "ucsearch.errors"}
    assert imported == {"__future__", "collections.abc", "contextlib", "pathlib", "typing", "typer"} | own
