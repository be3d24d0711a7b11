"""Where kernels are kept, what happens when that place is odd, and tasks that cannot be written out or compiled.

A real kernel takes seconds to compile, so the cache itself is tried with a one-line kernel and only two tests below
compile a task.
"""

from __future__ import annotations

import gc
import importlib.util
import inspect
import linecache
import os
import re
import shutil
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
from ucsearch import cachedir
from ucsearch.engine.compiled import cache, engine, quick
from ucsearch.engine.compiled.codegen import kernel_text
from ucsearch.engine.compiled.loading import load_or_compile
from ucsearch.engine.simulate import Simulator
from ucsearch.errors import UncompilableWarning
from ucsearch.layout import Layout
from ucsearch.policies import MODES, resolve
from ucsearch.sources import Unsourced

pytestmark = pytest.mark.compiled

TINY = """\
from numba import njit

@njit(cache=True)
def uc_panel(x):
    return x * 2.0 + 1.0
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of our own."""
    monkeypatch.setenv("UCSEARCH_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    return tmp_path / "kernels"


@pytest.fixture(scope="module")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What kernels of all tasks share: kept with the user's own kernels, since it takes longer than a task's part."""
    return cache.cache_dir() or tmp_path_factory.mktemp("drivers")


def share_drivers(known: Path, folder: Path) -> None:
    for path in known.glob(f"{cache.DRIVERS}*"):
        shutil.copy(path, folder)


@pytest.fixture(autouse=True)
def _forget_kernels() -> Iterator[None]:
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        if name.startswith(("ucsearch_kernel_", "cache_test_")):
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
    assert cache.load_kernel(TINY) is None
    assert not cache.is_cached(TINY)
    assert cache.clear_cache() == 0


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o707])
def test_a_folder_that_others_may_write_to_is_not_trusted(folder: Path, mode: int) -> None:
    """Code is loaded from there."""
    folder.mkdir()
    folder.chmod(mode)
    assert cache.cache_dir() is None


def test_a_folder_of_somebody_else_is_not_trusted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.cache_dir() == folder
    monkeypatch.setattr(cachedir, "_uid", lambda: os.getuid() + 1)
    assert cache.cache_dir() is None


# -------------------------------------------------------------------- modules by hash


def test_a_module_is_named_by_the_hash_of_its_text(folder: Path) -> None:
    module = cache.load_kernel("uc_panel = 17\n")
    assert module is not None
    assert module.uc_panel == 17
    assert re.fullmatch(r"ucsearch_kernel_[0-9a-f]{64}", module.__name__)
    assert [p.name for p in folder.glob("*.py")] == [f"{module.__name__}.py"]
    assert cache.load_kernel("uc_panel = 17\n") is module
    other = cache.load_kernel("uc_panel = 18\n")
    assert other is not None
    assert other.uc_panel == 18


def test_an_altered_module_is_written_again(folder: Path) -> None:
    text = "uc_panel = 19\n"
    name = cache.kernel_name(text)
    folder.mkdir(mode=0o700)
    (folder / f"{name}.py").write_text("uc_panel = 'not ours'\n")
    module = cache.load_kernel(text)
    assert module is not None
    assert module.uc_panel == 19


def test_a_module_that_fails_is_not_kept(folder: Path) -> None:
    text = "raise ValueError('broken')\n"
    for _ in range(2):
        with pytest.raises(ValueError, match="broken"):
            cache.load_kernel(text)
        assert cache.kernel_name(text) not in sys.modules


def test_clearing_removes_modules_and_machine_code(folder: Path) -> None:
    module = cache.load_kernel(TINY)
    assert module is not None
    assert module.uc_panel(2.0) == 5.0
    assert cache.is_cached(TINY)
    assert list((folder / "__pycache__").glob("*.nbi"))
    assert cache.clear_cache() == 1
    assert not cache.is_cached(TINY)
    assert [path for path in folder.rglob("*") if path.is_file()] == []


def test_no_temporary_files_are_left(folder: Path) -> None:
    cache.load_kernel(TINY)
    assert [p.name for p in folder.iterdir() if p.name.startswith(".")] == []


# One process imports, and forks those that race: what is imported takes longer than what is compiled.
RACE = """\
import os, sys
from numba import njit
from ucsearch.engine.compiled import cache, engine

text = open(sys.argv[1]).read()
njit(lambda x: x)(1.0)  # numba gets ready to compile, once

def start():
    hold, go = os.pipe()
    child = os.fork()
    if child:
        os.close(hold)
        return child, go
    os.close(go)
    os.read(hold, 1)  # both start together
    module = cache.load_kernel(text)
    assert module.uc_panel(4.0) == 9.0
    stats = module.uc_panel.stats
    print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()), flush=True)
    os._exit(0)

def finish(*racers):
    for _, go in racers:
        os.write(go, b"!")
    for child, _ in racers:
        assert os.waitpid(child, 0)[1] == 0

finish(start(), start())
finish(start())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_processes_that_compile_the_same_kernel_at_once_both_succeed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "text.py").write_text(TINY)
    done = subprocess.run(
        [sys.executable, "-c", RACE, str(tmp_path / "text.py")], capture_output=True, text=True, timeout=120,
        env={**os.environ, "UCSEARCH_CACHE_DIR": str(folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = done.stdout.splitlines()
    assert len(told) == 3
    assert told[-1] == "1 0"  # loaded, not compiled
    assert len(list(folder.glob("*.py"))) == 1


SECOND = """\
import sys
import numpy as np
from ucsearch.engine.compiled.loading import load_or_compile

loaded = load_or_compile(open(sys.argv[1]).read(), None, lambda kernel: kernel(0.0), "a kernel")
hits, misses = (sum(x.values()) for x in (loaded.call.stats.cache_hits, loaded.call.stats.cache_misses))
print(loaded.call(4.0), hits, misses, "numba.np.arraymath" in sys.modules)

from numba import njit

print(njit(lambda a: a[a > 1.0].sum())(np.arange(4.0)))  # numba then gets ready to compile as it always does
"""


def test_machine_code_on_disk_is_loaded_without_what_compiles(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "text.py").write_text(TINY)
    module = cache.load_kernel(TINY)
    assert module is not None
    assert module.uc_panel(4.0) == 9.0
    done = subprocess.run(
        [sys.executable, "-c", SECOND, str(tmp_path / "text.py")], capture_output=True, text=True, timeout=120,
        env={**os.environ, "UCSEARCH_CACHE_DIR": str(folder)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["9.0", "1", "0", "False", "5.0"]


def test_machine_code_that_is_not_as_expected_is_left_to_numba(folder: Path) -> None:
    def again() -> Any:
        sys.modules.pop(cache.kernel_name(TINY), None)
        module = cache.load_kernel(TINY)
        assert module is not None
        return module.uc_panel

    assert not quick.load_machine_code(again())  # none there yet
    assert again()(4.0) == 9.0
    found = again()
    assert quick.load_machine_code(found)
    assert len(found.overloads) == 1
    assert found(4.0) == 9.0
    again()(np.arange(2.0))  # a second signature: which one is asked for is not known
    assert not quick.load_machine_code(again())
    (index,) = (folder / "__pycache__").glob("*.nbi")
    index.write_bytes(index.read_bytes()[:-20])
    assert not quick.load_machine_code(again())
    assert not quick.load_machine_code(len)


def test_a_name_that_is_not_in_the_process_is_seen_before_llvm_looks_for_it() -> None:
    import llvmlite.binding as ll

    def bitcode(name: str) -> bytes:
        text = f"declare double @{name}(double)\ndefine double @f(double %x) {{\n"
        return bytes(
            ll.parse_assembly(f"{text}  %y = call double @{name}(double %x)\n  ret double %y\n}}").as_bitcode()
        )

    assert quick._all_there(bitcode("numba_gil_ensure"))
    assert not quick._all_there(bitcode("uc_nowhere_to_be_found"))


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
    return math.fabs(s.x + a) <= 2.0

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


def text_of(task: uc.Task) -> str:
    return kernel_text(task, Layout.of(task.state(0.0), "state"), MODES["scores"], "mcts", False)


def test_the_kernel_s_text_changes_with_what_the_task_computes(tmp_path: Path) -> None:
    base = text_of(walk_task(load(tmp_path, "base", RULES)))
    assert text_of(walk_task(load(tmp_path, "again", "# a comment\n\n" + RULES))) == base
    for i, (old, new) in enumerate([("RATE = 1.5", "RATE = 2.5"), ("<= 2.0", "<= 3.0"), ("s.x + a)\n", "s.x - a)\n")]):
        assert old in RULES
        assert text_of(walk_task(load(tmp_path, f"other{i}", RULES.replace(old, new)))) != base


def test_the_kernel_imports_nothing_of_ours(tmp_path: Path) -> None:
    """A cached module must not change its meaning with the installed version of the package."""
    text = text_of(walk_task(load(tmp_path, "imports", RULES)))
    assert not re.search(r"^\s*(import|from)\s+ucsearch", text, flags=re.MULTILINE)


def test_a_stale_source_is_not_written_out(tmp_path: Path) -> None:
    rules = load(tmp_path, "stale", RULES)
    (tmp_path / "cache_test_stale.py").write_text(RULES.replace("RATE * a", "RATE - a"))
    linecache.clearcache()
    with pytest.raises(Unsourced, match="no longer matches"):
        text_of(walk_task(rules))


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


def test_a_kernel_outlives_the_process_that_compiled_it(folder: Path, tmp_path: Path, drivers: Path) -> None:
    """And `auto` takes it then, although the work alone would not be worth compiling."""
    (tmp_path / "cache_test_rules.py").write_text(RULES)
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "UCSEARCH_CACHE_DIR": str(folder), "PYTHONPATH": paths}
    share_drivers(drivers, cache.cache_dir() or folder)

    def run(engine: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, engine], capture_output=True, text=True, env=environment, timeout=120
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split(maxsplit=1)

    cold = run("auto")
    assert cold[0] == "python"
    assert not list(folder.glob("*.py"))
    assert run("compiled") == ["compiled", cold[1]]
    machine_code = {p.name: p.stat().st_mtime_ns for p in (folder / "__pycache__").glob("*.nb*")}
    assert machine_code
    assert run("auto") == ["compiled", cold[1]]
    assert {p.name: p.stat().st_mtime_ns for p in (folder / "__pycache__").glob("*.nb*")} == machine_code
    share_drivers(folder, drivers)


@pytest.mark.parametrize("search", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_functions_without_a_source_file_compile_in_memory(search: bool, folder: Path) -> None:
    space: dict[str, Any] = {"__name__": "nowhere"}
    exec(compile(RULES, "<nowhere>", "exec"), space)
    task = walk_task(type("Rules", (), {k: staticmethod(v) if inspect.isfunction(v) else v for k, v in space.items()}))
    with pytest.raises(Unsourced):
        text_of(task)
    state = space["Walk"](0.0)
    if search:
        fast = uc.search(task, state, SCORES, POLICY, engine="compiled")
        plain = uc.search(task, state, SCORES, POLICY, engine="python")
        assert (fast.engine, plain.engine) == ("compiled", "python")
        for a, b in zip(fast.outputs, plain.outputs, strict=True):
            assert a.tobytes() == b.tobytes()
    rules, rows = {e: Simulator(task, task.layout(state), engine=e) for e in ("python", "compiled")}, np.array([[0.5]])
    assert [one.engine for one in rules.values()] == ["python", "compiled"]
    one, other = (s.advance(rows, np.array([0]), np.array([[1.5]])) for s in rules.values())
    for a, b in zip(one, other, strict=True):
        assert a.tobytes() == b.tobytes()
    assert not folder.exists() or not list(folder.glob("*.py"))


def walk_feasible(s, a, p):
    return all(abs(x) <= 2.0 for x in (s.x + a, s.x - a))


def walk_step(s, a, y, p):
    return Walk(s.x + a)


def walk_reward(s, a, y, p):
    return a * y


def walk_fallback(s, p):
    return {0.0: 0.0}.get(s.x, 0.0)


def test_an_uncompilable_task_runs_in_python_and_says_which_line(folder: Path, drivers: Path) -> None:
    share_drivers(drivers, cache.cache_dir() or folder)
    task = uc.Task(
        name="walk", state=Walk, actions=[-1.0, 0.0, 1.0], feasible=walk_feasible, step=walk_step, reward=walk_reward,
        fallback=walk_fallback,
    )  # fmt: skip
    with pytest.warns(UncompilableWarning) as caught:
        plan = uc.search(task, Walk(0.0), SCORES, POLICY, engine="compiled")
    (warning,) = caught
    line = inspect.getsourcelines(walk_feasible)[1] + 1
    assert str(warning.message) == (
        "task 'walk' does not compile, so the plain Python engine is used (same results, slower). "
        f"Cause: feasible ({__file__}:{line}): a generator expression; write a for loop"
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
    assert "Cause: ValueError: Unknown attribute '__doc__' of type class" in text


ANY = """\
from numba import njit

@njit(cache=True)
def uc_panel(*arguments):
    return None
"""


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("damage", [b"", b"not machine code"])
def test_damaged_machine_code_is_compiled_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, damage: bytes
) -> None:
    """A full disk or a power cut must not turn the compiled engine off for good."""
    monkeypatch.setattr(engine, "kernel_text", lambda *arguments: ANY)
    rules = load(tmp_path, "damaged", RULES)
    settings = resolve(POLICY, walk_task(rules), SCORES, 3)
    for turn in range(2):
        task = walk_task(rules)  # another task object, as in another process
        sys.modules.pop(cache.kernel_name(ANY), None)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert engine.find_kernel(task, task.layout(rules.Walk(0.0)), settings) is not None
        files = list((folder / "__pycache__").glob(f"*.{kind}"))
        assert files
        for path in files:
            assert turn == 0 or path.read_bytes() != damage
            path.write_bytes(damage)


# -------------------------------------------------------------------- which engine


def test_auto_compiles_only_when_it_is_worth_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def pretend(task: uc.Task, layout: Layout, settings: Any) -> None:
        asked.append(task.name)

    monkeypatch.setattr(engine, "find_kernel", pretend)
    task = walk_task(type("Rules", (), {
        "Walk": Walk, "feasible": staticmethod(walk_feasible), "step": staticmethod(walk_step),
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
from ucsearch.engine.compiled.loading import _spare_scipy
_spare_scipy()
import numba.np.arraymath as arraymath
from numba.np.linalg import ensure_blas
assert "scipy.linalg" not in sys.modules
assert arraymath._HAVE_BLAS and arraymath.ensure_blas is ensure_blas
ensure_blas()
assert "scipy.linalg" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("collects", [True, False])
def test_the_garbage_collector_rests_while_a_kernel_is_made_and_is_then_as_it_was(collects: bool) -> None:
    seen: list[bool] = []

    def made(given: Any) -> Any:
        seen.append(gc.isenabled())
        raise ValueError("no kernel")

    kept, frozen = gc.isenabled(), gc.get_freeze_count()
    (gc.enable if collects else gc.disable)()
    try:
        with pytest.raises(ValueError, match="no kernel"):
            load_or_compile(None, made, lambda kernel: None, "nothing")
        assert seen == [False, False]  # in both ways to compile
        assert gc.isenabled() is collects
        assert gc.get_freeze_count() <= frozen
    finally:
        (gc.enable if kept else gc.disable)()
