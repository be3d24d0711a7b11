"""The verifier as a program that strangers' files are given to: what it imports, what it takes, what it says."""

from __future__ import annotations

import dataclasses
import json
import os
import py_compile
import sqlite3
import struct
import subprocess
import sys
import time
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from typer.testing import CliRunner

import ucsearch as uc
from tests.kit import logged
from tests.kit.problems import random_problem
from tests.kit.templates import battery
from ucsearch.cli.main import app
from ucsearch.records import AuditLog as RawLog
from ucsearch.records import canonical as producer
from ucsearch.records import seal
from ucsearch.records import sqlite as store
from ucsearch.records.record import decision_record
from ucsearch.tasks import LeadTimeInventory
from ucsearch.verify import NoTask, read, verify_file, verify_record
from ucsearch.verify.__main__ import main
from ucsearch.verify.decision.demands import read_gate
from ucsearch.verify.read import Malformed
from ucsearch.verify.trust import built_in_task
from ucsearch.verify.verdict import Verdict, printable

SOURCE = str(Path(uc.__file__).parents[1])
BUILT_IN = "ucsearch.tasks:LeadTimeInventory_7b7d"


@cache
def own() -> tuple[dict[str, Any], dict[str, bytes]]:
    """A decision of a task that is not built in."""
    problem = random_problem(np.random.default_rng(1), "battery", "mean", gaps=False)
    policy = uc.UCBeam(depth=3, width=6, top_k=3, risk=0.25)
    decision = uc.decide(problem.task, problem.state, problem.trace, policy, run=uc.Run(engine="python"))
    return decision_record(decision, series="A-1", where="tests.kit.templates:battery")


@cache
def ours() -> tuple[dict[str, Any], dict[str, bytes]]:
    """A decision of a built-in task."""
    config = LeadTimeInventory()
    trace = uc.Trace.from_members([[2.0, 3.0, 1.0], [4.0, 2.0, 3.0]])
    policy = uc.UCBeam(depth=2, width=4, top_k=3, risk=0.25)
    decision = uc.decide(
        config.task(), config.state(3.0, [1.0, 0.0]), trace, policy, params=config.params(), run=uc.Run(engine="python")
    )
    return decision_record(decision, series="A-1", where=BUILT_IN)


def exported(path: Path, *records: tuple[dict[str, Any], dict[str, bytes]]) -> Path:
    with RawLog(path.with_suffix(".db")) as log:
        for record, blobs in records:
            log.append(record, blobs)
        log.export_jsonl(path)
    return path


def program(folder: Path, *arguments: str, python: tuple[str, ...] = ("-m", "ucsearch.verify"), **more: str) -> Any:
    """The verifier as a process whose current folder is `folder`."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")} | {"PYTHONPATH": SOURCE} | more
    command = [sys.executable, *python, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)


# -------------------------------------------------------------------- what is imported


PLANTED = (
    "__future__", "typing", "json", "numpy", "sqlite3", "argparse", "hashlib", "tomllib", "numba", "resource", "tbb",
)  # fmt: skip


@pytest.mark.parametrize(
    "python", [("-m", "ucsearch.verify"), ("-c", "from ucsearch.cli import main; main()", "verify")]
)
def test_nothing_of_the_current_folder_is_imported(tmp_path: Path, python: tuple[str, ...]) -> None:
    path = exported(tmp_path / "record.jsonl", ours())
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    for name in PLANTED:
        text = f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\nraise SystemExit(0)\n"
        (hostile / f"{name}.py").write_text(text)
    if python[0] == "-c":  # as the console script, whose folder is its own
        python = ("-P", *python)
    done = program(hostile, str(path), python=python)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 valid\n", "")
    forged = tmp_path / "forged.jsonl"
    forged.write_bytes(path.read_bytes().replace(b'"series":"A-1"', b'"series":"A-2"'))
    assert program(hostile, str(forged), python=python).returncode == 1
    assert not (tmp_path / "ran").exists()


def test_a_records_own_module_is_not_imported_unless_told(tmp_path: Path) -> None:
    record, blobs = own()
    (tmp_path / "evil.py").write_text("open('ran', 'w').close()\nraise SystemExit(0)\n")
    changed = {**record, "task": {**record["task"], "object": "evil:task"}}
    path = exported(tmp_path / "r.jsonl", (seal({k: v for k, v in changed.items() if k != "id"}), blobs))
    done = program(tmp_path, str(path))
    assert (done.returncode, (tmp_path / "ran").exists()) == (2, False)
    assert "--trust-record-task" in done.stdout
    done = program(tmp_path, str(path), "--trust-record-task")
    assert (done.returncode, (tmp_path / "ran").exists()) == (2, True)
    assert "SystemExit" in done.stdout
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "name",
    [
        "", "x", "evil:task", "os:path", "ucsearch:Task", "ucsearch.verify.trust:tasks", "ucsearch.cli.main:app",
        "ucsearch.tasks:LeadTimeInventory", "ucsearch.tasks.inventory:np", "ucsearch.tasks.inventory:Task.x",
        "ucsearch.tasks._x:y", "ucsearch.tasks.nothing:x", "ucsearch.tasks:LeadTimeInventory_zz",
        "ucsearch.tasks:Nothing", "ucsearch.tasks.inventory:rules./tmp/evil.so", "ucsearch.tasks.:x",
        "ucsearch.tasks.inventory:", "ucsearch.tasks..inventory:x", "ucsearchx.tasks:y", "\0:\0", "ucsearch.tasks:é",
        "ucsearch.tasks:LeadTimeInventory_" + "7b" * 40_000,
    ],
)  # fmt: skip
def test_only_tasks_of_ours_are_built_in(name: str) -> None:
    with pytest.raises(NoTask):
        built_in_task(name)


def test_built_in_tasks_need_no_name(tmp_path: Path) -> None:
    assert [v.code for v in verify_file(exported(tmp_path / "r.jsonl", ours()))] == [0]


@pytest.mark.parametrize(
    "text",
    [
        "raise KeyError('x')", "x = = 1", "raise MemoryError", "raise SystemExit(0)", "raise KeyboardInterrupt",
        "raise GeneratorExit", "class E(BaseException): pass\nraise E", "import nowhere", "raise RecursionError",
        "class E(Exception):\n    def __str__(self): raise SystemExit(0)\nraise E", "\0", "task = 1",
        "class T:\n    def __getattr__(self, name): raise SystemExit(0)\ntask = T()",
    ],
)  # fmt: skip
def test_a_task_module_that_fails_is_no_task(text: str, tmp_path: Path) -> None:
    (tmp_path / "broken_rules.py").write_text(text + "\n")
    with pytest.raises(SystemExit) as stopped:
        main([__file__, "--task", f"{tmp_path / 'broken_rules.py'}:task"])
    sys.modules.pop("broken_rules", None)
    assert stopped.value.code == 2


def test_only_the_named_module_is_taken_from_the_current_folder(tmp_path: Path) -> None:
    path = exported(tmp_path / "r.jsonl", ours())
    (tmp_path / "mine.py").write_text(
        f"import numpy, json\nfrom ucsearch.tasks import {BUILT_IN.rpartition(':')[2]} as task\n"
    )
    for name in ("numpy", "json", "helper"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(0)\n")
    done = program(tmp_path, str(path), "--task", "mine:task")
    assert (done.returncode, done.stdout) == (0, "1 valid\n"), done.stderr
    (tmp_path / "mine.py").write_text("import helper\n")
    done = program(tmp_path, str(path), "--task", "mine:task")
    assert (done.returncode, "No module named 'helper'" in done.stderr) == (2, True)


@pytest.mark.parametrize("named", ["mine.py:task", "mine:task"])
def test_bytecode_beside_a_named_file_is_not_run(named: str, tmp_path: Path) -> None:
    """Of the same second and size as the text, and of other contents."""
    path = exported(tmp_path / "r.jsonl", ours())
    right = f"from ucsearch.tasks import {BUILT_IN.rpartition(':')[2]} as task\n"
    wrong = "raise SystemExit(0)\n".ljust(len(right), "#")
    mine = tmp_path / "mine.py"
    mine.write_text(wrong)
    os.utime(mine, (1e9, 1e9))
    py_compile.compile(str(mine), doraise=True)
    mine.write_text(right)
    os.utime(mine, (1e9, 1e9))
    done = program(tmp_path, str(path), "--task", named)
    assert (done.returncode, done.stdout) == (0, "1 valid\n"), done.stderr


@pytest.mark.parametrize("name", ["numpy.py", "json.py", "two.dots.py"])
def test_a_task_file_may_have_any_name(name: str, tmp_path: Path) -> None:
    """It stands for no module of that name, here or in what it imports itself."""
    path = exported(tmp_path / "r.jsonl", ours())
    right = f"from ucsearch.tasks import {BUILT_IN.rpartition(':')[2]} as task\n"
    (tmp_path / name).write_text(f"import numpy.linalg, json.decoder\n{right}")
    done = program(tmp_path, str(path), "--task", f"./{name}:task")
    assert (done.returncode, done.stdout) == (0, "1 valid\n"), done.stderr


# -------------------------------------------------------------------- SQLite


def edited(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as db:
        for name in ("update", "delete", "append"):
            for table in ("entries", "blobs"):
                db.execute(f"DROP TRIGGER IF EXISTS {table}_{name}")
        for statement in statements:
            db.execute(statement)
        db.commit()
    return path


REPLACED = (
    "ALTER TABLE entries RENAME TO old",
    "CREATE VIEW entries AS {}",
)
VIEWS = {
    "recursion": "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) "
    "SELECT n AS seq, '' AS id, '' AS digest, '' AS head, NULL AS written_at, '' AS body FROM r",
    "zeroblob": "SELECT 1 AS seq, '' AS id, '' AS digest, '' AS head, NULL AS written_at, zeroblob(900000000) AS body",
    "product": "SELECT a.seq, a.id, a.digest, a.head, a.written_at, a.body FROM old a, old b, old c, old d",
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_view_in_place_of_the_entries_is_refused(view: str, tmp_path: Path) -> None:
    exported(tmp_path / "a.jsonl", own())
    log = edited(tmp_path / "a.db", *(s.format(view) for s in REPLACED))
    found = list(verify_file(log, battery))
    assert [v.status for v in found] == ["malformed"]
    assert "schema" in found[0].message


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW more AS SELECT 1",
        "CREATE TABLE more (x)",
        "CREATE VIRTUAL TABLE more USING fts5(x)",
        "CREATE TRIGGER more AFTER INSERT ON blobs BEGIN SELECT 1; END",
        "CREATE INDEX more ON entries (hex(body))",
        "ALTER TABLE entries ADD COLUMN more TEXT GENERATED ALWAYS AS (hex(zeroblob(900000000))) VIRTUAL",
        "PRAGMA user_version = 9",
        "PRAGMA application_id = 9",
        "DROP TABLE blobs",
    ],
)
def test_a_schema_that_no_writer_makes_is_refused(statement: str, tmp_path: Path) -> None:
    exported(tmp_path / "a.jsonl", own())
    log = edited(tmp_path / "a.db", statement)
    assert [v.status for v in verify_file(log, battery)] == ["malformed"]


def test_the_verifier_knows_what_the_writer_makes() -> None:
    from hashlib import sha256

    known = {name: sha256(sql.encode()).hexdigest()[:16] for name, sql in store.SCHEMA.items()}
    assert (store.FORMAT, known) == (read.FORMAT, read.SCHEMA)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("seq INTEGER NOT NULL PRIMARY KEY", "seq REAL NOT NULL PRIMARY KEY"), "schema"),
        (("body TEXT NOT NULL", "body TEXT"), "schema"),
        ((") STRICT", ")"), "schema"),
    ],
)
def test_columns_of_other_types(change: tuple[str, str], says: str, tmp_path: Path) -> None:
    """A schema text that was edited in place: entry numbers that are no whole numbers among them."""
    exported(tmp_path / "a.jsonl", own())
    log = edited(
        tmp_path / "a.db",
        "PRAGMA writable_schema = ON",
        f"UPDATE sqlite_master SET sql = replace(sql, '{change[0]}', '{change[1]}') WHERE name = 'entries'",
    )
    found = list(verify_file(log, battery))
    assert [v.status for v in found] == ["malformed"], found
    assert says in found[0].message


def test_a_value_cannot_be_longer_than_the_file(tmp_path: Path) -> None:
    """A page that claims a record of 900 MB, in a file of some kB, is refused before memory is asked for."""
    exported(tmp_path / "a.jsonl", own())
    with read.opened(tmp_path / "a.db") as log:
        with pytest.raises(sqlite3.Error, match="too big"):
            log.execute("SELECT data FROM blobs WHERE id = ?", ("x" * 1_000_000,)).fetchall()
        for statement in (
            "SELECT zeroblob(900000000)",
            "ATTACH ':memory:' AS x",
            "DELETE FROM entries",
            "PRAGMA foreign_keys",
        ):
            with pytest.raises(sqlite3.Error):
                log.execute(statement).fetchall()


def test_a_damaged_page_is_malformed(tmp_path: Path) -> None:
    exported(tmp_path / "a.jsonl", own())
    data = bytearray((tmp_path / "a.db").read_bytes())
    for start in range(8192, len(data), 512):
        bad = bytearray(data)
        bad[start : start + 64] = b"\xff" * 64
        (tmp_path / "b.db").write_bytes(bad)
        assert {v.status for v in verify_file(tmp_path / "b.db", battery)} <= {
            "malformed",
            "invalid",
            "weaker",
            "valid",
        }


def test_an_index_that_hides_an_entry_is_malformed(tmp_path: Path) -> None:
    """The chain is right, but who looks into the log would not see that a person has overridden the decision."""
    with logged.new_log(tmp_path) as log:
        logged.decide(log)
        log.override(1, task=logged.tank, action=4.0, who="M. Curie", why="a test", at="2024-05-01T06:00:00+00:00")
        path = log.path
    assert [v.status for v in verify_file(path, logged.tank)] == ["valid", "valid"]
    text = store.SCHEMA["entries_overrides"]
    for sql in (f"{text} AND 0", text):  # emptied under another text, then given its own again
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA writable_schema = ON")
            db.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'entries_overrides'", (sql,))
            db.commit()
        with closing(sqlite3.connect(path)) as db:
            if sql != text:
                db.execute("REINDEX entries_overrides")
    with uc.AuditLog(path) as log:
        assert log.effective([log.get(1)])[1].override is None
    (found,) = verify_file(path, logged.tank)
    assert (found.status, "missing from index entries_overrides" in found.message) == ("malformed", True)


def test_a_schema_of_pages_that_are_shared_is_not_read_for_ever(tmp_path: Path) -> None:
    """One row of the schema, reached in 300 to the 10th ways: in a file with a hole, its length is no limit."""
    page = 8192
    with logged.new_log(tmp_path) as log:
        path = log.path
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        (root,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_blobs_1'").fetchone()
    data = bytearray(path.read_bytes())
    first = len(data) // page + 1

    def tree_page(kind: int, cells: list[bytes], right: bytes = b"", start: int = 0) -> bytearray:
        out, at = bytearray(page), page
        places = []
        for cell in cells:
            at -= len(cell)
            out[at : at + len(cell)] = cell
            places.append(at)
        head = struct.pack(">BHHHB", kind, 0, len(cells), at, 0) + right + struct.pack(f">{len(cells)}H", *places)
        out[start : start + len(head)] = head
        return out

    texts = [b"index", b"sqlite_autoindex_blobs_1", b"blobs"]
    values = bytes([6, *(13 + 2 * len(x) for x in texts), 1, 0]) + b"".join(texts) + bytes([root])
    own = bytearray(data[:page])  # the writer's schema, as a leaf elsewhere
    own[:100] = data[100:200]
    data += own + tree_page(13, [bytes([len(values), 100]) + values])
    for level in range(10):
        below = struct.pack(">I", first + 1 + level)
        data += tree_page(5, [below + bytes([100])] * 300, below)
    top = struct.pack(">I", len(data) // page)
    data[100:page] = tree_page(5, [struct.pack(">I", first) + bytes([99])], top, 100)[100:]
    data[28:32] = struct.pack(">I", 2**27)
    path.write_bytes(data)
    os.truncate(path, 2**27 * page)
    done = program(tmp_path, path.name)
    assert (done.returncode, "interrupted" in done.stdout) == (2, True), done.stdout


def test_a_journal_beside_a_log_is_malformed(tmp_path: Path) -> None:
    """SQLite would undo what it says before anything else; we look at the file as it lies there."""
    with logged.new_log(tmp_path) as log:
        logged.decide(log)
        path = log.path
    journal = path.with_name(path.name + "-journal")
    for content, status in ((b"", "valid"), (bytes(512), "valid"), (b"\xd9\xd5\x05\xf9 \xa1c\xd7", "malformed")):
        journal.write_bytes(content)
        assert [v.status for v in verify_file(path, logged.tank)] == [status]


# -------------------------------------------------------------------- the other entries, the words, the codes


def test_a_flood_of_bad_lines_is_counted_and_does_not_hide_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = exported(tmp_path / "good.jsonl", ours()).read_bytes()
    path = tmp_path / "flood"
    path.write_bytes(b"{}\n" * 1_200 + good)
    assert main([str(path)]) == 2
    told = capsys.readouterr().out.splitlines()
    assert len(told) <= 1_003
    assert "malformed: 200 more, which are not named one by one" in told
    assert "1200 malformed" in told[-1]
    assert "1 valid" in told[-1] or "1 weaker" in told[-1]


def test_a_bad_line_does_not_hide_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = exported(tmp_path / "a.jsonl", own(), ours())
    first, second = path.read_bytes().splitlines()
    path.write_bytes(b"[1]\n" + first + b"\n{\n" + second + b"\n")
    found = list(verify_file(path, trust_record_task=True))
    assert [v.status for v in found] == ["malformed", "valid", "malformed", "valid"]
    path.write_bytes(first + b"\n" + first + b"\n" + second + b"\n")
    found = list(verify_file(path, trust_record_task=True))
    assert [(v.status, v.where) for v in found] == [("valid", ""), ("invalid", "entry 2.seq"), ("weaker", "chain")]
    assert main([str(path), "--trust-record-task"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "1 valid, 1 invalid, 1 weaker"


def test_an_internal_error_is_none_of_the_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ucsearch.verify.api as verifier

    def failing(failure: BaseException) -> Any:
        def fails(*args: Any) -> Any:
            raise failure

        return fails

    path = exported(tmp_path / "a.jsonl", ours())
    for failure, code in ((ZeroDivisionError("x"), 3), (SystemExit(0), 3), (MemoryError(), 1), (OSError("x"), 3)):
        monkeypatch.setattr(verifier, "verify_decision", failing(failure))
        assert main([str(path)]) == code
    monkeypatch.setattr(verifier, "LogSources", failing(RuntimeError("x")))
    assert main([str(path)]) == 3
    assert verify_record(b"{", {}).code == 2


def test_names_are_shown_as_they_are_not_as_they_would_like(tmp_path: Path) -> None:
    text = "a\x1b[2J\x07\u202eevil\u2066\u200f\ud800\r\n\x9b\u2028\x00é漢"
    shown = printable(text)
    assert shown == r"a\x1b[2J\x07\u202eevil\u2066\u200f\ud800\r\n\x9b\u2028\x00é漢"
    assert str(Verdict("invalid", "n\x1b", message="m\u202e\n")) == r"invalid: n\x1b: m\u202e\n"
    assert len(printable("x" * 10_000)) < 2_100
    record, _ = own()
    (tmp_path / "r.json").write_text('{"a\x7f\u202e": 1, "id": "\x1b"}', encoding="utf-8")
    done = program(tmp_path, str(tmp_path / "r.json"), PYTHONIOENCODING="ascii")
    assert done.returncode == 2
    hostile = {**record, "gate\u202e\x7f": "\x7f"}
    body = producer.canonical(seal({k: v for k, v in hostile.items() if k != "id"}))
    (tmp_path / "r.json").write_bytes(body)
    done = program(
        tmp_path, str(tmp_path / "r.json"), "--task", f"{Path(__file__).parents[1]}/kit/templates.py:battery"
    )
    assert r"\u202e" in done.stdout + done.stderr
    assert not set("\u202e\x7f") & set(done.stdout + done.stderr)


def test_a_reader_who_goes_away_changes_no_code(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_bytes(b"[1]\n" * 20_000)
    command = [sys.executable, "-m", "ucsearch.verify", "r.jsonl"]
    with subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": SOURCE}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 2


# -------------------------------------------------------------------- --gate, --memory


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("certificate = true", 0),
        ("[gate]\ncertificate = true\nnear = true\nregret_limit = 2.0", 1),
        ("[gate]\nrisk_active = true", 1),
        ("[gate]\npositive_margin = true", 1),
        ("[gate]\nnear = true", 0),
        ("[gate]\nmax_trace_age_s = 1e9", 1),
        ("[gate]\nnode_budget = 1", 1),
        ("[task]\nname = 'x'\n[gate]\ncertificate = false", 0),
        ("[gate]\ncertificates = true", 2),
        ("[gate]\ncertificate = 1", 2),
        ("[gate]\nregret_limit = -1", 2),
        ("[gate]\nregret_limit = nan", 2),
        ("gate = 1", 2),
        ("[policy]\ndepth = 1", 2),
        ("[", 2),
    ],
)  # fmt: skip
def test_a_gate_at_least_as_strict(text: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = exported(tmp_path / "a.jsonl", ours())
    (tmp_path / "gate.toml").write_text(text)
    try:
        seen: Any = main([str(path), "--gate", str(tmp_path / "gate.toml")])
    except SystemExit as stopped:
        seen = stopped.code
    assert seen == code
    assert ("weaker gate" in capsys.readouterr().out) == (code == 1)


def test_a_gate_of_dots_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "gate.toml").write_text("a" + ".d" * 100_000 + "=1", encoding="utf-8")
    begun = time.process_time()
    with pytest.raises(Malformed, match="too long"):
        read_gate(tmp_path / "gate.toml")
    assert time.process_time() - begun < 5.0


def test_limits_of_a_gate_are_compared(tmp_path: Path) -> None:
    record, blobs = ours()
    settings = {**record["gate"]["settings"], "near": True, "regret_limit": 2.0}
    loose = seal({k: v for k, v in record.items() if k != "id"} | {"gate": {**record["gate"], "settings": settings}})
    for wanted, where in (
        ({"near": True, "regret_limit": 1.0}, "gate.settings.regret_limit"),
        ({"regret_limit": 2.0}, "gate.settings.near"),
        ({"near": True, "regret_limit": 2.0}, "gate.rows"),
    ):
        assert verify_record(loose, blobs, gate=wanted).where == where


@pytest.mark.skipif(sys.platform != "linux", reason="no such limit elsewhere")

# -------------------------------------------------------------------- --budget


def resealed(record: dict[str, Any], **values: Any) -> dict[str, Any]:
    copied = json.loads(json.dumps({k: v for k, v in record.items() if k != "id"}))
    for path, value in values.items():
        *parts, last = path.split("__")
        at = copied
        for part in parts:
            at = at[part]
        at[last] = value
    return seal(copied)


class Room(NamedTuple):
    """One state only, so that every step's edges are known and no rule is called for them again."""

    x: float


ROOM = uc.Task(
    name="room", state=Room, actions=[float(a) for a in range(8)], feasible=lambda s, a, p: True,
    step=lambda s, a, y, p: Room(0.0), reward=lambda s, a, y, p: a * y, fallback=lambda s, p: 0.0,
)  # fmt: skip


def beam_of(width: int, depth: int = 12) -> tuple[dict[str, Any], dict[str, bytes]]:
    trace = uc.Trace.from_members([[1.0] * depth, [2.0] * depth])
    policy = uc.UCBeam(depth=depth, width=2, top_k=8, risk=0.25)
    record, blobs = decision_record(
        uc.decide(ROOM, Room(0.0), trace, policy, run=uc.Run(engine="python"), proof=uc.Proof(node_budget=200))
    )
    return resealed(record, settings__width=width), blobs


def test_a_beam_of_any_width_ends_within_the_budget() -> None:
    record, blobs = beam_of(2**40)
    found = verify_record(record, blobs, ROOM, budget=1000)
    assert (found.status, found.code) == ("weaker", 1)
    assert "within 1000 nodes" in found.message


def test_other_loops_end_within_the_budget() -> None:
    """The walk for a completion, continuations to a far horizon, members by the thousand."""
    trace = uc.Trace.from_members([[1.0] * 3] * 2)
    record, blobs = decision_record(
        uc.decide(
            ROOM,
            Room(0.0),
            trace,
            uc.MCTS(depth=3, simulations=9),
            run=uc.Run(engine="python"),
            proof=uc.Proof(node_budget=200),
        )
    )
    rows = [{**row, "left": 0, "pass": False} if row["name"] == "completion" else row for row in record["gate"]["rows"]]
    calls = []

    def feasible(s: Any, a: float, p: Any) -> bool:
        calls.append(1)
        return len(calls) < 50

    never = dataclasses.replace(ROOM, feasible=feasible)
    changed = resealed(record, gate__rows=rows, task__rules=never.source_hash)
    verify_record(changed, blobs, never, budget=10)
    assert len(calls) < 250_000


@pytest.mark.parametrize("now", ["0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "soon", "2026-01-01"])
def test_times_at_the_edge_of_the_calendar(now: str) -> None:
    record, blobs = own()
    changed = resealed(record, gate__now=now, gate__settings__max_trace_age_s=1.0)
    assert verify_record(changed, blobs, battery).status in ("invalid", "malformed")


def test_foreign_code_that_exits_is_a_failure_of_the_task() -> None:
    def leaves(s: Any, a: float, y: Any, p: Any) -> float:
        raise SystemExit(0)

    task = dataclasses.replace(battery, reward=leaves)
    record, blobs = own()
    changed = resealed(record, task__rules=task.source_hash)
    assert verify_record(changed, blobs, task).where == "gate.rows[0].left"


def test_paths_and_bytes_are_not_copied_for_ever() -> None:
    """Members by the ten thousand, of one value each: read in a time that grows with their number."""
    trace = uc.Trace.from_members(np.arange(30_000.0).reshape(30_000, 1))
    policy = uc.UCBeam(depth=1, width=1, top_k=1)
    record, blobs = decision_record(uc.decide(ROOM, Room(0.0), trace, policy, run=uc.Run(engine="python")))
    start = time.process_time()
    assert verify_record(record, blobs, ROOM).status in ("valid", "weaker")
    assert time.process_time() - start < 10.0


def test_a_hole_in_a_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    """Sparse: a terabyte that takes no room on the disk."""
    (tmp_path / "log").touch()
    os.truncate(tmp_path / "log", 2**40)
    found = program(tmp_path, "log")
    assert found.returncode == 2
    assert "line 1: too long" in found.stdout
    exported(tmp_path / "good.jsonl", ours())
    demanded = program(tmp_path, "good.jsonl", "--gate", "log")
    assert (demanded.returncode, "too long" in demanded.stderr) == (2, True)
    signed = program(tmp_path, "good.jsonl", "--checkpoint", "good.jsonl", "--key", "log")
    assert (signed.returncode, "not a verifier key" in signed.stderr) == (2, True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_into_which_nobody_writes_is_not_waited_for(tmp_path: Path) -> None:
    """Not by the library either, nor by the commands that read proofs and notes."""
    pipe, good = tmp_path / "pipe", tmp_path / "good.jsonl"
    os.mkfifo(pipe)
    exported(good, ours())
    assert [v.status for v in verify_file(pipe)] == ["malformed"]
    assert [v.status for v in verify_file(good, checkpoint=pipe)] == ["malformed"]
    for files in ((pipe, good), (good, pipe)):
        done = CliRunner().invoke(app, ["log", "verify-proof", str(files[0]), "--note", str(files[1])])
        assert done.exit_code == 2, done.output
