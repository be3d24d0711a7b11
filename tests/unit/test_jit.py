"""Compiled functions of ours: the machine code that is found is the function's own, or it is made again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ucsearch.engine.cache import cache_dir

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

# `inner` has one name in both, and in two processes also one number of numba's: only its code differs. It is long, so
# that it is not taken into its callers, where nothing could be mixed up.
LONG = "\n".join(f"        if total > {1000 + k}.0:\n            total -= math.exp(x + {k})" for k in range(14))
PARTS = """
import math
import deeper
from helper import SHIFT, more
from ucsearch.engine.cache import compiled

def made(factor):
    @compiled
    def inner(x):
        total = factor * x
{LONG}
        return total
    return inner

TWO, TEN = made(2.0), made(10.0)

@compiled
def doubled(x):
    return more(TWO(x)) + SHIFT + deeper.FURTHER - sum([deeper.least(i) for i in range(2)])

@compiled
def tenfold(x):
    return more(TEN(x)) + SHIFT
""".replace("{LONG}", LONG)
HELPER = """
from ucsearch.engine.cache import compiled

SHIFT = 0.5

@compiled
def more(x):
    return 1.0 * x
"""
DEEPER = """
from ucsearch.engine.cache import compiled

FURTHER = 0.0

@compiled
def least(i):
    return 0.0 * i
"""


# One process has numba ready to compile, which takes longer than what is compiled here, and forks all others. Nothing
# of ours is compiled or looked for in it, and each of the others gives its functions numbers of its own.
NURSERY = """
import json, os, sys, traceback
import numba
import ucsearch.engine.compiled.numba_tricks
numba.njit(lambda x: x + 1.0)(1.0)
for line in sys.stdin:
    folder, cache, code = json.loads(line)
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(into, 1)
        os.dup2(into, 2)
        os.chdir(folder)
        os.environ["UCSEARCH_CACHE_DIR"] = cache
        sys.dont_write_bytecode = True  # a file of equal length, changed within the second, would be taken for the old
        try:
            exec(code, {"__name__": "__main__"})
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        sys.stdout.flush()
        os._exit(0)
    os.close(into)
    with os.fdopen(out) as told:
        text = told.read()
    print(json.dumps([os.waitpid(child, 0)[1], text]), flush=True)
"""
Run = Callable[..., list[str]]


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    """`run(folder, code, cache)`: the words that a process of its own prints."""
    env = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    nursery = subprocess.Popen(
        [sys.executable, "-c", NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=env
    )
    assert nursery.stdin is not None
    assert nursery.stdout is not None

    def forked(folder: Path, code: str, cache: Path, first: str = "") -> list[str]:
        print(json.dumps([str(folder), str(cache), f"{first}from parts import *\n{code}"]), file=nursery.stdin)
        status, text = json.loads(nursery.stdout.readline())
        assert status == 0, text[-2000:]
        return str(text).split()

    yield forked
    nursery.communicate(timeout=30)


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "deeper.py").write_text(DEEPER)
    return tmp_path


@forks
def test_code_of_two_processes_is_not_mixed_up_in_a_third(run: Run, parts: Path) -> None:
    cache = parts / "cache"
    assert run(parts, "print(doubled(1.0))", cache) == ["2.5"]
    assert run(parts, "print(tenfold(1.0))", cache) == ["10.5"]
    hits = "print(sum(doubled.stats.cache_hits.values()), sum(tenfold.stats.cache_hits.values()))"
    assert run(parts, f"print(doubled(1.0), tenfold(1.0))\n{hits}", cache) == ["2.5", "10.5", "1", "1"]
    for path in (cache / "functions").glob("*.nb*"):  # torn by a full disk
        path.write_bytes(path.read_bytes()[:40])
    assert run(parts, "print(doubled(1.0))", cache) == ["2.5"]


@forks
def test_code_follows_a_change_in_another_file(run: Run, parts: Path) -> None:
    """Numba alone would go on using the caller with the old helper, or the old constant, inside."""
    cache = parts / "cache"
    assert run(parts, "print(doubled(1.0))", cache) == ["2.5"]
    (parts / "helper.py").write_text(HELPER.replace("1.0 * x", "3.0 * x"))
    assert run(parts, "print(doubled(1.0))", cache) == ["6.5"]
    (parts / "deeper.py").write_text(DEEPER.replace("0.0 * i", "1.0 * i"))  # named by its module, in a comprehension
    changed = "import deeper\ndeeper.FURTHER = 0.25\n"  # and what no file says
    assert run(parts, "print(doubled(1.0))", cache) == ["5.5"]
    assert run(parts, "print(doubled(1.0))", cache, changed) == ["5.75"]


@forks
def test_names_begin_elsewhere_in_every_process() -> None:
    from numba.core.bytecode import FunctionIdentity

    import ucsearch.engine.compiled.numba_tricks  # noqa: F401

    def number() -> int:
        return int(repr(FunctionIdentity._unique_ids)[len("count(") : -1])

    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, str(number()).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as answer:
        theirs = int(answer.read())
    assert theirs != number()
    assert min(theirs, number()) > 1_000_000  # numba's own begin with 1


@forks
def test_code_is_not_taken_from_a_folder_of_others(run: Run, parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = parts / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    assert run(parts, "print(more(1.0), more.stats.cache_path)", cache) == ["1.0", "None"]
    assert list(cache.iterdir()) == []
    monkeypatch.setenv("UCSEARCH_CACHE_DIR", str(cache))
    assert cache_dir() is None


def test_nothing_is_compiled_where_numba_is_told_not_to(parts: Path) -> None:
    env = {**os.environ, "UCSEARCH_CACHE_DIR": str(parts / "cache"), "NUMBA_DISABLE_JIT": "1"}
    code = "from parts import *\nprint(doubled(1.0), type(doubled).__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=parts, env=env, check=True)
    assert done.stdout.split() == ["2.5", "function"]
