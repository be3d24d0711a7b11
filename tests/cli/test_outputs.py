"""No command writes onto a file that it reads, nor onto a log: every path of every command, found in typer's tree."""

from __future__ import annotations

import os
import typing
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from tests.kit.entries import fill
from tests.planner.kit import TOML
from ucsearch.cli.main import app, main
from ucsearch.errors import InputError, RecordError
from ucsearch.planner.files.table import refuse_overwriting
from ucsearch.records import AuditReader
from ucsearch.records.files import log_at, whole_file
from ucsearch.scale.parts import Folder
from ucsearch.service.config import load_config

# What a command does with each of its paths. A new path must be put here; what it writes is then tried below.
READS = {
    **dict.fromkeys(("forecast", "calibrate", "decide", "backtest", "tune", "cache"), ("settings",)),
    **dict.fromkeys(("explain", "orders", "monitor", "override"), ("settings",)),
    "evidence list": ("folder", "ledger"),
    "evidence page": ("directory",),
    "log list": ("log",),
    "log show": ("log",),
    "log export": ("log",),
    "log checkpoint": ("log",),
    "log copy": ("source", "checkpoint"),
    "job plan": ("settings",),
    "evidence verify": ("folder", "ledger"),
    "remote decide": ("settings",),
    "remote outcomes": ("path",),
    "service arm": ("sales",),
    "service drill": ("copy",),
}
ADDS_TO = {  # logs
    "log erase": ("log",),
    "log rotate": ("log",),
    "job plan": ("log",),
}
FOLDERS = {  # a place of its own, in which a command writes files by name
    "new": ("folder",),
    "evidence run": ("out",),
    "evidence page": ("out",),
    "demo": ("folder",),
    "job plan": ("folder",),
    "job run": ("folder",),
    "job seal": ("folder",),
    "service demo": ("folder",),
    **{f"service {x}": ("folder",) for x in ("init", "check", "run", "arm", "backup", "drill", "token")},
}
WRITES = {
    "log export": ("out",),
    "log checkpoint": ("out", "key"),
    "log copy": ("target",),
    "job seal": ("out",),
    "service backup": ("to",),
    "service token": ("out",),
}
MORE = {  # words that a command needs besides its paths
    "log checkpoint": ["--new-key", "example.com/decisions"],
}
# The same for commands that take their files from the settings: keys of [files] that are read and written.
FILES_READ = {
    "forecast": ("sales",),
    "calibrate": ("sales",),
    "decide": ("forecasts", "states", "log"),
    "backtest": ("sales", "states"),
    "tune": ("sales", "states"),
    "orders": ("decisions", "states", "log"),
    "explain": ("log",),
    "monitor": ("outcomes", "log"),
    "remote decide": ("forecasts", "states"),
}
FILES_WRITTEN = {
    "forecast": ("forecasts", "archive", "problems"),
    "calibrate": ("problems",),
    "decide": ("decisions", "archive", "problems"),
    "backtest": ("results", "problems"),
    "tune": ("tuned", "problems"),
    "orders": ("orders",),
    "explain": ("plan",),
    "monitor": ("watched",),
    "remote decide": ("decisions",),
}
PLAIN = {"explain": ["--plan"], "remote decide": ["orders"]}  # words that such a command needs
REFUSALS = ("would replace", "replaces", "there is a file", "itself", "belongs to", "symbolic link")
TRIED_APART = {"job seal", "service backup", "service token"}  # they need a job or a service: see below


def commands(which: Any = app, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for one in which.registered_commands:
        yield " ".join((*path, one.name or one.callback.__name__.replace("_", "-"))), one.callback
    for group in which.registered_groups:
        yield from commands(group.typer_instance, (*path, group.name))


COMMANDS = dict(commands())


def paths_of(command: str) -> dict[str, Any]:
    """Parameters that are paths, with what typer knows of them."""
    hints = typing.get_type_hints(COMMANDS[command], include_extras=True)
    found = {}
    for name, hint in hints.items():
        kinds = typing.get_args(hint)[:1] if typing.get_origin(hint) is typing.Annotated else (hint,)
        if name in ("log", "source", "target") or any(kind is Path or Path in typing.get_args(kind) for kind in kinds):
            info = next(x for x in hint.__metadata__ if isinstance(x, typer.models.ParameterInfo))
            found[name] = info
    return found


def test_every_path_of_every_command_is_known() -> None:
    for command in COMMANDS:
        known = [n for kind in (READS, ADDS_TO, FOLDERS, WRITES) for n in kind.get(command, ())]
        assert sorted(known) == sorted(paths_of(command)), command
    for kind in (READS, ADDS_TO, FOLDERS, WRITES):
        assert set(kind) <= set(COMMANDS)


def words(command: str, values: dict[str, Path]) -> list[str]:
    """The command line with these files."""
    options: list[str] = []
    arguments: list[str] = []
    for name, info in paths_of(command).items():
        if name not in values:
            continue
        if isinstance(info, typer.models.ArgumentInfo):
            arguments.append(str(values[name]))
        else:
            decls = [x for x in (info.default, *(info.param_decls or ())) if isinstance(x, str) and x.startswith("--")]
            options += [*decls, f"--{name.replace('_', '-')}"][:1] + [str(values[name])]
    return [*command.split(), *arguments, *MORE.get(command, []), *options]


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(x.relative_to(folder)): x.read_bytes() for x in sorted(folder.rglob("*")) if x.is_file()}


CASES = [(c, name) for c, names in WRITES.items() if c not in TRIED_APART for name in names]


@pytest.mark.parametrize(("command", "output"), CASES)
def test_no_output_is_written_onto_what_is_read_or_onto_a_log(
    command: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    values: dict[str, Path] = {}
    for name in (*READS.get(command, ()), *ADDS_TO.get(command, ())):
        values[name] = tmp_path / f"{name}.txt"
        if name in ("log", "source"):
            values[name] = tmp_path / f"{name}.db"
            fill(values[name], 2)
        else:
            values[name].write_text(TOML if name == "settings" else f"what {name} holds\n")
    if command == "log copy":
        with AuditReader(values["source"]) as reader:
            reader.checkpoint().write(values["checkpoint"])
    for name in WRITES[command]:
        values.setdefault(name, tmp_path / f"new-{name}.csv")
    other_log = tmp_path / "other.db"
    fill(other_log, 1)
    (tmp_path / "other.db-wal").write_bytes(b"entries that are not in other.db yet")
    segment = tmp_path / "other.db.d" / "run"
    segment.mkdir(parents=True)
    for name in ("shared.json", "part-000000.parquet"):
        (segment / name).write_text("a segment\n")
    read = [*READS.get(command, ()), *ADDS_TO.get(command, ())]
    forbidden = [values[n] for n in read]
    forbidden += [other_log, tmp_path / "other.db-wal", *sorted(segment.iterdir())]
    forbidden += [values[n] for n in WRITES[command] if n != output]
    for i, target in enumerate(forbidden):
        ways = [target, Path(os.path.relpath(target)), tmp_path / "sub" / ".." / target.relative_to(tmp_path)]
        (tmp_path / "sub").mkdir(exist_ok=True)
        if target.exists():
            symbolic, hard = tmp_path / f"symbolic-{i}", tmp_path / f"hard-{i}"
            symbolic.symlink_to(target)
            hard.hardlink_to(target)
            # A second name of a part of a log says nothing of the log; files are replaced by name, so the part stays.
            ways += [symbolic] if "other.db-wal" in target.name or segment in target.parents else [symbolic, hard]
        before = snapshot(tmp_path)
        for way in ways:
            with pytest.raises(SystemExit) as left:
                main(words(command, {**values, output: way}))
            said = capsys.readouterr()
            line = said.err.replace("\n", " ")
            assert left.value.code in (1, 2), (command, output, way, line)
            assert any(x in line for x in REFUSALS), line
            assert snapshot(tmp_path) == before, (command, output, way)


@pytest.mark.parametrize(("command", "output"), [(c, key) for c, keys in FILES_WRITTEN.items() for key in keys])
def test_no_file_of_the_settings_is_written_onto_what_is_read_or_onto_a_log(
    command: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.toml").write_text(TOML)
    paths = {key: tmp_path / f"{key}.csv" for key in (*FILES_READ[command], *FILES_WRITTEN[command])}
    for key in FILES_READ[command]:
        paths[key].write_text(f"what {key} holds\n")
    if "log" in paths:
        paths["log"].unlink()
        fill(paths["log"], 2)
    fill(tmp_path / "other.db", 1)
    forbidden = [tmp_path / "job.toml", tmp_path / "other.db"]
    forbidden += [path for key, path in paths.items() if key != output]
    for i, target in enumerate(forbidden):
        ways = [target.name, str(target)]
        if target.exists():
            (tmp_path / f"link-{i}.csv").symlink_to(target)
            ways.append(f"link-{i}.csv")
        before = snapshot(tmp_path)
        for way in ways:
            given = {**{key: str(path) for key, path in paths.items()}, output: way}
            changes = [word for key, path in given.items() for word in ("--set", f"files.{key}={path}")]
            with pytest.raises(SystemExit) as left:
                main([*command.split(), *PLAIN.get(command, []), *changes])
            line = capsys.readouterr().err.replace("\n", " ")
            assert left.value.code == 2, (command, output, way, line)
            assert any(x in line for x in REFUSALS), line
            assert snapshot(tmp_path) == before, (command, output, way)


def test_a_log_is_not_copied_onto_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, text = tmp_path / "log.db", tmp_path / "text.csv"
    fill(log, 2)
    text.write_text("series\n")
    (tmp_path / "link.db").symlink_to(log)
    before = snapshot(tmp_path)
    for source, target in ((log, log), (log, tmp_path / "link.db"), (log, text)):
        with pytest.raises(SystemExit):
            main(["log", "copy", str(source), str(target)])
        assert {**snapshot(tmp_path), **before} == snapshot(tmp_path), capsys.readouterr().err


def test_reports_are_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.csv.gz"
    rows.write_bytes(b"rows")
    with pytest.raises(SystemExit) as left:
        main(["evidence", "page", str(tmp_path), "--out", str(rows)])
    assert left.value.code == 2
    assert "ends in .html" in capsys.readouterr().err
    assert snapshot(tmp_path) == {"rows.csv.gz": b"rows"}


def test_the_writer_itself_replaces_no_log(tmp_path: Path) -> None:
    log = tmp_path / "log.db"
    fill(log, 1)
    before = snapshot(tmp_path)
    with pytest.raises(RecordError, match="no output replaces"), whole_file(log) as file:
        file.write(b"table")
    assert snapshot(tmp_path) == before
    assert log_at(log)
    assert not log_at(tmp_path / "new.csv")
    with pytest.raises(InputError, match="would replace"):
        refuse_overwriting({}, {"SETTINGS": tmp_path / "a"}, logs={"--log": tmp_path / "a"})


def test_a_sealed_job_writes_its_table_onto_none_of_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("job.json", "settings.toml", "forecasts.parquet", "states.parquet")
    for name in names:
        (tmp_path / name).write_text(name)
    fill(tmp_path / "decisions.db", 1)
    planned = SimpleNamespace(
        path=tmp_path, footers={str(tmp_path / "forecasts.parquet"): ""}, states=(str(tmp_path / "states.parquet"),),
        log=tmp_path / "decisions.db",
    )  # fmt: skip
    monkeypatch.setattr(Folder, "read", lambda path: planned)
    before = snapshot(tmp_path)
    for name in (*names, "decisions.db"):
        with pytest.raises(SystemExit) as left:
            main(["job", "seal", str(tmp_path), "--out", str(tmp_path / name)])
        assert left.value.code == 2
        assert "which it would replace" in capsys.readouterr().err
        assert snapshot(tmp_path) == before


def test_a_backup_of_a_service_takes_no_other_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "service"
    main_exits(["service", "init", str(place)])
    config, _ = load_config(place)
    log = place / config.store.log
    fill(log, 1)
    other = tmp_path / "other.db"
    fill(other, 1)
    before = snapshot(tmp_path)
    for target in (log, other, place / "service.toml"):
        assert main_exits(["service", "backup", str(place), str(target)]) == 2
        assert "there is a file already" in capsys.readouterr().err or target == log
        assert {**snapshot(tmp_path), **before} == snapshot(tmp_path)


def main_exits(argv: list[str]) -> Any:
    with pytest.raises(SystemExit) as left:
        main(argv)
    return left.value.code
