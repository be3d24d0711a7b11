"""Compiled functions of ours: the machine code that is found is the function's own, or it is made again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ucsearch.cachedir import cache_dir

# `inner` has one name in both, and in two processes also one number of numba's: only its code differs. It is long, so
# that it is not taken into its callers, where nothing could be mixed up.
LONG = "\n".join(f"        if total > {1000 + k}.0:\n            total -= math.exp(x + {k})" for k in range(14))
PARTS = """
import math
import deeper
from helper import SHIFT, more
from ucsearch.jit import compiled

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
from ucsearch.jit import compiled

SHIFT = 0.5

@compiled
def more(x):
    return 1.0 * x
"""
DEEPER = """
from ucsearch.jit import compiled

FURTHER = 0.0

@compiled
def least(i):
    return 0.0 * i
"""


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "deeper.py").write_text(DEEPER)
    return tmp_path


def run(folder: Path, code: str, cache: Path, first: str = "") -> list[str]:
    env = {**os.environ, "UCSEARCH_CACHE_DIR": str(cache)}
    env.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-c", f"{first}from parts import *\n{code}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()


def test_code_of_two_processes_is_not_mixed_up_in_a_third(parts: Path) -> None:
    cache = parts / "cache"
    assert run(parts, "print(doubled(1.0))", cache) == ["2.5"]
    assert run(parts, "print(tenfold(1.0))", cache) == ["10.5"]
    hits = "print(sum(doubled.stats.cache_hits.values()), sum(tenfold.stats.cache_hits.values()))"
    assert run(parts, f"print(doubled(1.0), tenfold(1.0))\n{hits}", cache) == ["2.5", "10.5", "1", "1"]
    for path in (cache / "functions").glob("*.nb*"):  # torn by a full disk
        path.write_bytes(path.read_bytes()[:40])
    assert run(parts, "print(doubled(1.0))", cache) == ["2.5"]


def test_code_follows_a_change_in_another_file(parts: Path) -> None:
    """Numba alone would go on using the caller with the old helper, or the old constant, inside."""
    cache = parts / "cache"
    assert run(parts, "print(doubled(1.0))", cache) == ["2.5"]
    (parts / "helper.py").write_text(HELPER.replace("1.0 * x", "3.0 * x"))
    assert run(parts, "print(doubled(1.0))", cache) == ["6.5"]
    (parts / "deeper.py").write_text(DEEPER.replace("0.0 * i", "1.0 * i"))  # named by its module, in a comprehension
    changed = "import deeper\ndeeper.FURTHER = 0.25\n"  # and what no file says
    assert run(parts, "print(doubled(1.0))", cache) == ["5.5"]
    assert run(parts, "print(doubled(1.0))", cache, changed) == ["5.75"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_names_begin_elsewhere_in_every_process() -> None:
    from numba.core.bytecode import FunctionIdentity

    import ucsearch.jit  # noqa: F401

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


@pytest.mark.skipif(os.name != "posix", reason="permissions as POSIX has them")
def test_code_is_not_taken_from_a_folder_of_others(parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = parts / "cache"
    cache.mkdir()
    cache.chmod(0o777)
    assert run(parts, "print(more(1.0), more.stats.cache_path)", cache) == ["1.0", "None"]
    assert list(cache.iterdir()) == []
    monkeypatch.setenv("UCSEARCH_CACHE_DIR", str(cache))
    assert cache_dir() is None


def test_nothing_is_compiled_where_numba_is_told_not_to(parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert run(parts, "print(doubled(1.0), type(doubled).__name__)", parts / "cache") == ["2.5", "function"]
