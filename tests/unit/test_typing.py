"""What type checkers find in a task that is put together wrongly."""

from __future__ import annotations

import ast
import inspect
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ucsearch import task as module
from ucsearch.task import Task

ROOT = Path(__file__).resolve().parents[2]
HEAD = """
from typing import NamedTuple
from ucsearch.task import Condition, Task


class Tank(NamedTuple):
    level: float


class Other(NamedTuple):
    x: float


class Limits(NamedTuple):
    top: float


def feasible(s: Tank, a: float, p: Limits) -> bool:
    return s.level + a <= p.top


def step(s: Tank, a: float, y: float, p: Limits) -> Tank:
    return Tank(s.level + a - y)


def step_to_other(s: Tank, a: float, y: float, p: Limits) -> Other:
    return Other(1.0)


def reward(s: Tank, a: float, y: float, h: int, p: Limits) -> float:
    return -a


def short(s: Tank, a: float) -> float:
    return -a


def fallback(s: Tank, p: Limits) -> float:
    return 0.0


def fallback_of_other(s: Other, p: Limits) -> float:
    return 0.0


def unannotated(s, a, y, p):  # type: ignore[no-untyped-def]
    return 0.0

"""
RIGHT = "Task('t', Tank, [0.0], feasible, step, reward, fallback, params=Limits(3.0))"
WRONG = {  # and what is said of it, in part
    RIGHT.replace("step,", "step_to_other,"): "Argument 5",
    RIGHT.replace("reward,", "short,"): "Argument 6",
    RIGHT.replace("fallback,", "fallback_of_other,"): "Argument 7",
    RIGHT.replace("Limits(3.0)", "Other(3.0)"): "Other",
    RIGHT.replace("Tank,", "Other,"): "Other",
    RIGHT.replace("params=", "labels=3, params="): "labels",
}
FINE = [
    RIGHT, RIGHT.replace("reward,", "unannotated,"), RIGHT.replace("[0.0]", "[(0.0, 1.0)]"),
    RIGHT.replace("params=", "conditions=[Condition('fits', feasible, '<=', 1.0, 'it fits')], params="),
]  # fmt: skip


def checked(path: Path, text: str) -> list[str]:
    path.write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", "--cache-dir",
         str(ROOT / ".mypy_cache"), path.name],
        capture_output=True, text=True, cwd=path.parent, env={"MYPYPATH": str(ROOT / "src"), "PATH": ""}, check=False,
    )  # fmt: skip
    assert not done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith(f"{path.name}:")]


TASKS = HEAD + "\n".join([*FINE, *WRONG]) + "\n"
CALLS = [
    "uc.decide(task, Tank(1.0), [[1.0]], uc.Exact(depth=1))",
    "uc.decide(task, Other(1.0), [[1.0]], uc.Exact(depth=1))",
    "uc.decide(task, Tank(1.0), [[1.0]], uc.Exact(depth=1), params=Other(1.0))",
    "uc.search(task, Other(1.0), uc.Trace.from_members([[1.0]]), uc.Exact(depth=1))",
    "uc.solve(task, uc.Trace.from_members([[1.0]]), states=Tank(1.0)).action(Other(1.0))",
    "uc.Condition('fits', feasible, '<=', 'much', 'it fits')",
]
USES = f"{HEAD}import ucsearch as uc\ntask = {RIGHT}\n" + "\n".join(CALLS) + "\n"
FIRST = HEAD.count("\n") + 1  # line of the first task
WRONG_TASKS = [FIRST + len(FINE) + n for n in range(len(WRONG))]
WRONG_USES = [FIRST + 2 + n for n in range(1, len(CALLS))]
PYRIGHT = Path(sys.prefix) / "pyright" / "package" / "index.js"  # `make test-slow` fetches it from npm, where it can


def test_a_wrong_state_or_signature_is_found(tmp_path: Path) -> None:
    found = checked(tmp_path / "tasks.py", TASKS)
    errors = {int(line.split(":")[1]): line for line in reversed(found) if ": error:" in line}
    assert sorted(errors) == WRONG_TASKS, found
    for line, part in zip(WRONG_TASKS, WRONG.values(), strict=True):
        assert part in errors[line]


@pytest.mark.slow
def test_a_state_of_another_task_is_found_where_it_is_used(tmp_path: Path) -> None:
    found = checked(tmp_path / "uses.py", USES)
    assert sorted({int(line.split(":")[1]) for line in found if ": error:" in line}) == WRONG_USES


@pytest.mark.slow
@pytest.mark.skipif(not PYRIGHT.exists() or shutil.which("node") is None, reason="needs node and pyright")
def test_pyright_finds_the_same(tmp_path: Path) -> None:
    for name, text in (("tasks.py", TASKS), ("uses.py", USES)):
        (tmp_path / name).write_text(text)
    options = {"extraPaths": [str(ROOT / "src")], "include": ["*.py"], "pythonVersion": "3.11"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(options))
    done = subprocess.run(
        ["node", str(PYRIGHT), "--outputjson", "--pythonpath", sys.executable, "."], capture_output=True, text=True,
        cwd=tmp_path, check=False,
    )  # fmt: skip
    found = json.loads(done.stdout)["generalDiagnostics"]
    for name, wrong in (("tasks.py", WRONG_TASKS), ("uses.py", WRONG_USES)):
        lines = {d["range"]["start"]["line"] + 1 for d in found if d["file"].endswith(name)}
        assert sorted(lines) == wrong, found


def test_the_signature_for_type_checkers_is_the_one_that_runs() -> None:
    (cls,) = [n for n in ast.parse(inspect.getsource(module)).body if isinstance(n, ast.ClassDef) and n.name == "Task"]
    (said,) = [n.args for n in ast.walk(cls) if isinstance(n, ast.FunctionDef) and n.name == "__init__"]
    runs = inspect.signature(Task).parameters
    assert [a.arg for a in said.args][1:] == list(runs)
    optional = [p.name for p in runs.values() if p.default is not inspect.Parameter.empty]
    assert [a.arg for a in said.args][-len(said.defaults) :] == optional
    for name, default in zip(optional, said.defaults, strict=True):
        if not (isinstance(default, ast.Constant) and default.value is ...):
            assert ast.literal_eval(default) == runs[name].default, name
