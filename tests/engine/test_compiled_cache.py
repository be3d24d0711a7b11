"""Where kernels are kept, what happens when that place is odd, and tasks that cannot be written out or compiled.

A real kernel takes seconds to compile, so the cache itself is tried with a one-line kernel and only two tests below
compile a task.
"""

from __future__ import annotations

import gc
import importlib.util
import inspect
import os
import subprocess
import sys
import tempfile
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
import ucsearch.engine.plain.run
from tests.kit.templates import TEMPLATES
from ucsearch.engine import cache
from ucsearch.engine.compiled import compile as kernels
from ucsearch.engine.compiled import engine
from ucsearch.errors import UncompilableWarning
from ucsearch.layout import Layout

pytestmark = pytest.mark.compiled

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of our own."""
    monkeypatch.setenv("UCSEARCH_CACHE_DIR", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


@pytest.fixture(autouse=True)
def _forget_kernels() -> Iterator[None]:
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        if name.startswith("cache_test_"):
            del sys.modules[name]


# -------------------------------------------------------------------- the place


def test_the_environment_names_the_place(folder: Path) -> None:
    assert cache.cache_dir() == folder
    assert folder.stat().st_mode & 0o777 == 0o700


def test_without_it_the_user_s_cache_folder_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UCSEARCH_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.cache_dir() == tmp_path / "xdg" / "ucsearch" / "kernels"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache.cache_dir() == tmp_path / "home" / ".cache" / "ucsearch" / "kernels"


def unwritable(folder: Path) -> Path:
    """A place where no folder can be made, even by root: below a file."""
    blocker = folder / "file"
    blocker.write_text("")
    return blocker / "cache"


def test_a_read_only_home_falls_back_to_a_private_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("UCSEARCH_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(unwritable(tmp_path)))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    place = cache.cache_dir()
    assert place is not None
    assert place.parent.parent == tmp_path
    assert place.stat().st_mode & 0o077 == 0


def test_a_home_that_is_not_known_falls_back_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may run under a user id that nobody knows."""

    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("UCSEARCH_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", staticmethod(unknown))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    place = cache.cache_dir()
    assert place is not None
    assert place.parent.parent == tmp_path


def test_no_place_at_all_means_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UCSEARCH_CACHE_DIR", str(unwritable(tmp_path)))
    assert cache.cache_dir() is None
    assert not kernels.is_on_disk("0" * 64)


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o707])
def test_a_folder_that_others_may_write_to_is_not_trusted(folder: Path, mode: int) -> None:
    """Code is loaded from there."""
    folder.mkdir()
    folder.chmod(mode)
    assert cache.cache_dir() is None


def test_a_folder_of_somebody_else_is_not_trusted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.cache_dir() == folder
    monkeypatch.setattr(cache, "_uid", lambda: os.getuid() + 1)
    assert cache.cache_dir() is None


# -------------------------------------------------------------------- machine code

# A kernel of one line, in the place of those that take seconds to compile.
QUICK = """\
from numba import njit
from ucsearch.engine.compiled import compile as kernels
from tests.kit.templates import TEMPLATES

def built(*arguments):
    @njit
    def entry(x):
        return x * 2.0 + 1.0
    return entry

kernels._built = built
task = TEMPLATES["clock"].task
layout = task.layout(task.state(0.0))
kind = kernels.KernelKind("ucsearch.engine.kernels.beam", 0, False)

def load():
    return kernels.load(task, layout, kind, lambda kernel: kernel(0.0), "a kernel").call
"""

RACE = (
    QUICK
    + """
import os

njit(lambda x: x)(1.0)  # numba gets ready to compile, once

def start():
    hold, go = os.pipe()
    child = os.fork()
    if child:
        os.close(hold)
        return child, go
    os.close(go)
    os.read(hold, 1)  # both start together
    entry = load()
    assert entry(4.0) == 9.0
    print(sum(entry.stats.cache_hits.values()), sum(entry.stats.cache_misses.values()), flush=True)
    os._exit(0)

def finish(*racers):
    for _, go in racers:
        os.write(go, b"!")
    for child, _ in racers:
        assert os.waitpid(child, 0)[1] == 0

finish(start(), start())
finish(start())
"""
)


def tiny_kernel() -> Any:
    space: dict[str, Any] = {}
    exec(QUICK, space)
    return space


@pytest.fixture
def tiny(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(kernels, "_built", kernels._built)  # undone afterwards
    return tiny_kernel()


def code(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "functions").glob("kernel.*.nb*"))


def test_machine_code_is_two_files_of_one_name(folder: Path, tiny: Any) -> None:
    assert tiny["load"]()(2.0) == 5.0
    assert [name.rpartition(".")[2] for name in code(folder)] == ["nbc", "nbi"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_processes_that_compile_the_same_kernel_at_once_both_succeed(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RACE], capture_output=True, text=True, timeout=120, cwd=ROOT,
        env={**os.environ, "UCSEARCH_CACHE_DIR": str(folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 1", "1 0", "1 0"]  # one of the first two waited for the other
    assert len(code(folder)) == 2


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", [b"", b"not machine code"])
def test_damaged_machine_code_is_compiled_again(folder: Path, tiny: Any, kind: str, damage: bytes) -> None:
    """A full disk or a power cut must not turn the compiled engine off for good."""
    for turn in range(2):
        gc.collect()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert tiny["load"]()(4.0) == 9.0
        files = list((folder / "functions").glob(f"kernel.*.{kind}"))
        assert files
        for path in files:
            assert turn == 0 or path.read_bytes() != damage
            path.write_bytes(damage)


# -------------------------------------------------------------------- tasks


class Walk(NamedTuple):
    x: float


RULES = """\
import math
from typing import NamedTuple

RATE = 1.5

class Walk(NamedTuple):
    x: float

def feasible(s, a, p):
    return abs(s.x + a) <= 2.0

def step(s, a, y, p):
    return Walk(s.x + a)

def reward(s, a, y, p):
    return RATE * a * y

def fallback(s, p):
    return 0.0
"""


def walk_task(rules: Any) -> uc.Task:
    return uc.Task(
        name="walk", state=rules.Walk, actions=[-1.0, 0.0, 1.0], feasible=rules.feasible, step=rules.step,
        reward=rules.reward, fallback=rules.fallback,
    )  # fmt: skip


def load(folder: Path, name: str, text: str) -> Any:
    path = folder / f"cache_test_{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


SCORES = uc.Trace.from_scores(
    np.random.default_rng(1).normal(0, 1, (4, 3)), np.random.default_rng(2).random((4, 3)), np.zeros(4)
)
POLICY = uc.MCTS(depth=3, mode="scores", simulations=20, order="score")

PROGRAM = """\
import sys, warnings
warnings.simplefilter("error")
import numpy as np
import ucsearch as uc
import cache_test_rules as rules

task = uc.Task(
    name="walk", state=rules.Walk, actions=[-1.0, 0.0, 1.0], feasible=rules.feasible, step=rules.step,
    reward=rules.reward, fallback=rules.fallback,
)
rng = [np.random.default_rng(i) for i in (1, 2)]
trace = uc.Trace.from_scores(rng[0].normal(0, 1, (4, 3)), rng[1].random((4, 3)), np.zeros(4))
policy = uc.MCTS(depth=3, mode="scores", simulations=20, order="score")
plan = uc.search(task, rules.Walk(0.0), trace, policy, engine=sys.argv[1])
print(plan.engine, plan.score.hex(), plan.path)
"""


def test_a_kernel_outlives_the_process_that_compiled_it(folder: Path, tmp_path: Path) -> None:
    """And `auto` takes it then, although the work alone would not be worth compiling."""
    (tmp_path / "cache_test_rules.py").write_text(RULES)
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "UCSEARCH_CACHE_DIR": str(folder), "PYTHONPATH": paths}

    def run(engine: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, engine], capture_output=True, text=True, env=environment, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split(maxsplit=1)

    cold = run("auto")
    assert cold[0] == "python"
    assert not code(folder)
    assert run("compiled") == ["compiled", cold[1]]
    machine_code = {p.name: p.stat().st_mtime_ns for p in (folder / "functions").glob("*.nb*")}
    assert machine_code
    assert run("auto") == ["compiled", cold[1]]
    assert {p.name: p.stat().st_mtime_ns for p in (folder / "functions").glob("*.nb*")} == machine_code


def walk_feasible(s, a, p):
    return all(abs(x) <= 2.0 for x in (s.x + a, s.x - a))


def near_feasible(s, a, p):
    return abs(s.x + a) <= 2.0


def walk_step(s, a, y, p):
    return Walk(s.x + a)


def walk_reward(s, a, y, p):
    return a * y


def walk_fallback(s, p):
    return {0.0: 0.0}.get(s.x, 0.0)


def test_an_uncompilable_task_runs_in_python_and_says_which_line(folder: Path) -> None:
    task = uc.Task(
        name="walk", state=Walk, actions=[-1.0, 0.0, 1.0], feasible=walk_feasible, step=walk_step, reward=walk_reward,
        fallback=walk_fallback,
    )  # fmt: skip
    with pytest.warns(UncompilableWarning) as caught:
        plan = uc.search(task, Walk(0.0), SCORES, POLICY, engine="compiled")
    (warning,) = caught
    line = inspect.getsourcelines(walk_feasible)[1] + 1
    assert str(warning.message) == (
        "task 'walk' runs in plain Python (same results, slower). "
        f"Cause: feasible ({__file__}:{line}): all(); write a for loop with a truth value"
    )
    assert warning.filename == __file__
    assert plan.engine == "python"
    assert plan.score == uc.search(task, Walk(0.0), SCORES, POLICY, engine="python").score
    # It is tried once only, and nobody is warned twice.
    again = uc.search(task, Walk(1.0), SCORES, POLICY, engine="compiled")
    assert again.engine == "python"
    assert uc.search(task, Walk(0.0), SCORES, POLICY, engine="auto").engine == "python"


class Odd(NamedTuple):
    x: float


def odd_reward(s, a, y, p):
    return Odd.__doc__.count("x") * a


def test_a_failure_that_no_rule_explains_is_quoted() -> None:
    from ucsearch.engine.compiled.engine import _explained

    task = uc.Task(
        name="odd", state=Odd, actions=[0.0], feasible=TEMPLATES["clock"].task.feasible, step=walk_step,
        reward=odd_reward, fallback=TEMPLATES["clock"].task.fallback,
    )  # fmt: skip
    error = ValueError(
        textwrap.dedent(
            """
            Failed in nopython mode pipeline (step: nopython frontend)
            Unknown attribute '__doc__' of type class

            File "rules.py", line 12:
            """
        )
    )
    text = _explained(task, error)
    assert "does not compile" in text
    assert "Unknown attribute '__doc__' of type class" in text


# -------------------------------------------------------------------- which engine


def test_auto_compiles_only_when_it_is_worth_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def pretend(task: uc.Task, layout: Layout, settings: Any) -> None:
        asked.append(task.name)

    monkeypatch.setattr(engine, "find_kernel", pretend)
    task = walk_task(type("Rules", (), {
        "Walk": Walk, "feasible": staticmethod(near_feasible), "step": staticmethod(walk_step),
        "reward": staticmethod(walk_reward), "fallback": staticmethod(walk_fallback),
    }))  # fmt: skip
    uc.search(task, Walk(0.0), SCORES, POLICY, engine="auto")
    assert asked == []
    uc.search(
        task,
        Walk(0.0),
        SCORES,
        uc.MCTS(depth=3, mode="scores", simulations=10**6, order="score", top_k=1),
        engine="auto",
    )
    assert asked == ["walk"]


def test_scipy_is_imported_by_who_multiplies_matrices() -> None:
    pytest.importorskip("scipy")
    code = """
import sys
from ucsearch.engine.compiled.numba_tricks import spare_scipy
spare_scipy()
import numba.np.arraymath as arraymath
from numba.np.linalg import ensure_blas
assert "scipy.linalg" not in sys.modules
assert arraymath._HAVE_BLAS and arraymath.ensure_blas is ensure_blas
ensure_blas()
assert "scipy.linalg" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("collects", [True, False])
@pytest.mark.usefixtures("folder")
def test_the_garbage_collector_rests_while_a_kernel_is_made_and_is_then_as_it_was(
    collects: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def built(*given: Any) -> Any:
        seen.append(gc.isenabled())
        raise ValueError("no kernel")

    monkeypatch.setattr(kernels, "_built", built)
    task = TEMPLATES["clock"].task
    kind = kernels.KernelKind("ucsearch.engine.kernels.beam", 0, False)

    kept, frozen = gc.isenabled(), gc.get_freeze_count()
    (gc.enable if collects else gc.disable)()
    try:
        with pytest.raises(ValueError, match="no kernel"):
            kernels.load(task, task.layout(task.state(0.0)), kind, lambda kernel: None, "nothing")
        assert seen == [False, False]  # in both ways to compile
        assert gc.isenabled() is collects
        assert gc.get_freeze_count() <= frozen
    finally:
        (gc.enable if kept else gc.disable)()
