"""Engine "cuda": in numba's simulator everywhere (no GPU, no extra), and on the GPU where there is one."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.templates import TEMPLATES
from ucsearch.engine.compiled.codegen import kernel_body
from ucsearch.engine.cuda.allowed import NotOnDevice
from ucsearch.engine.cuda.text import device_text, measuring_text
from ucsearch.policies import MODES
from ucsearch.tasks import LeadTimeInventory

ROOT = Path(__file__).parents[2]
SAME = (
    "beam, mean",
    "beam by bound",
    "beam, members",
    "exact",
    "certificates",
    "a rule raises",
    "a rule divides by zero",
    "a task of the library",
)
REFUSED = {"exp": "math.exp()", "mcts": "'mcts'", "other bytes": "other bytes than the CPU (in out_f)"}


def has_gpu() -> bool:
    code = "from numba import cuda; print(cuda.is_available())"
    env = {**os.environ, "NUMBA_ENABLE_CUDASIM": "0"}  # the simulator says yes
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    return done.stdout.strip() == "True"


def run_checks(simulated: bool) -> dict[str, str]:
    env = {**os.environ, "NUMBA_ENABLE_CUDASIM": str(int(simulated))}
    done = subprocess.run(
        [sys.executable, "-m", "tests.cuda.checks"], cwd=ROOT, env=env, capture_output=True, text=True
    )
    if done.returncode:
        raise AssertionError(done.stderr)
    found: dict[str, str] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


@pytest.mark.parametrize("where", ["simulator", "GPU"])
def test_same_bytes_as_the_plain_engine_or_a_refusal_by_name(where: str) -> None:
    if where == "GPU" and not has_gpu():
        pytest.skip("no CUDA device here, or the extra ucsearch[cuda] is not installed")
    found = run_checks(where == "simulator")
    assert {name: found[name] for name in SAME} == dict.fromkeys(SAME, "equal")
    for name, words in REFUSED.items():
        assert words in found[name], found[name]


def test_without_a_device_the_engine_is_refused_before_any_work() -> None:
    if has_gpu() or os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
        pytest.skip("there is a CUDA device here, or its simulator")
    clock = TEMPLATES["clock"].task
    with pytest.raises(uc.InputError, match=r"engine: saw 'cuda', expected a machine with an NVIDIA GPU"):
        uc.search_panel(
            clock, [clock.state(0.0)], np.zeros((1, 1, 2)), uc.UCBeam(depth=2, width=2, top_k=2), engine="cuda"
        )


def test_one_window_is_not_for_a_gpu() -> None:
    clock = TEMPLATES["clock"].task
    trace = uc.Trace.from_members(np.zeros((1, 2)))
    with pytest.raises(uc.InputError, match="search_panel takes 'cuda'"):
        uc.search(clock, clock.state(0.0), trace, uc.UCBeam(depth=2, width=2, top_k=2), engine="cuda")  # type: ignore[arg-type]


USER = "import math as usr_math\n@uc_user\ndef usr_f(x, i):\n    {}\n"


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("return x ** 0.5", r"\*\*"),
        ("return x % 2.0", "%"),
        ("return x // 2.0", "//"),
        ("x **= 2.0", r"\*\*"),
        ("return usr_math.log(x)", r"math\.log"),
        ("return round(x)", r"round\(\)"),
        ("return pow(x, 2.0)", r"pow\(\)"),
        ("return x.sum()", r"x\.sum"),
        ("return 1.0 if x is i else 2.0", "uses is"),
        ("own = lambda y: y\n    return x", "a function inside"),
        ("if x > 0.0:\n        worth = x\n    return worth", "reads worth, which may have no value"),
        ("for y in range(i):\n        x += y\n    return x - y", "reads y"),
        ("while x > 0.0:\n        x, k = x - 1.0, x\n    return k", "reads k"),
        ("if x > 0.0:\n        total += x\n    return x", "reads total"),
    ],
)
def test_what_may_differ_is_refused_by_name(line: str, word: str) -> None:
    with pytest.raises(NotOnDevice, match=word):
        measuring_text(USER.format(line))


def test_names_that_have_a_value_on_every_way_are_taken() -> None:
    ways = "if x > 0.0:\n        q = x\n    elif i < 0:\n        return 0.0\n    else:\n        q = -x\n    "
    loop = "for k in range(3):\n        w = q + k\n        q = w\n    return q if i is None else q + 1.0"
    assert "return q if" in measuring_text(USER.format(ways + loop))


def test_the_users_code_is_spelled_out_for_the_device() -> None:
    text = measuring_text(USER.format("return max(x[i], usr_math.floor(x[0]), 1.0)"))
    body = ast.unparse(next(n for n in ast.parse(text).body if isinstance(n, ast.FunctionDef) and n.name == "usr_f"))
    assert "uc_max(uc_max(x[uc_index(i, len(x))], uc_floor(uc_whole(" in body
    space: dict[str, object] = {}
    exec(text, space)
    f = space["usr_f"]
    assert f((1.5, 2.5), 1) == 2.5  # type: ignore[operator]
    with pytest.raises(IndexError):
        f((1.5, 2.5), 2)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("line", "good", "bad"),
    [
        ("return min(1.0 / x, 5.0)", 4.0, 0.0),
        ("x /= x\n    return x", 4.0, 0.0),
        ("return usr_math.sqrt(x)", 4.0, -1.0),
        ("return int(x) * int(x)", 2.0**30, 1e12),
        ("return usr_math.ceil(x) * i", 3.5, float("nan")),
    ],
)
def test_a_thread_raises_where_python_does_or_has_more_digits(line: str, good: float, bad: float) -> None:
    text, space = measuring_text(USER.format(line)), dict[str, Any]()
    assert any(guard in text.partition("def usr_f")[2] for guard in ("uc_divisor(", "uc_radicand(", "uc_whole("))
    exec(text, space)
    f = space["usr_f"]
    assert f(good, 3) > 0.0
    with pytest.raises((ArithmeticError, ValueError)):
        f(bad, 3)


def test_rules_of_the_library_are_not_checked_but_may_not_differ_either() -> None:
    own = USER.replace("uc_user", "uc_own")
    text = measuring_text(own.format("return max(x[i] / x[0], usr_math.floor(x[0]))"))
    assert "return uc_max(x[i] / x[0], uc_floor(x[0]))" in text.partition("def usr_f")[2]
    with pytest.raises(NotOnDevice, match=r"math\.log"):
        measuring_text(own.format("return usr_math.log(x)"))
    task = LeadTimeInventory(lead_time=1).task()
    body = kernel_body(task, task.layout(task.state(1.0, (1.0,), 1.0)), MODES["mean"], "beam", True, fills=False)
    assert "@uc_own" in body
    assert "@uc_user" not in body
    assert "user_fill" not in body


def test_a_number_written_too_large_is_refused() -> None:
    with pytest.raises(NotOnDevice, match=r"write 10000000000\.0"):
        measuring_text(USER.format("return int(x) * 10_000_000_000"))
    measuring_text(USER.format("return x / 2.0 * 1e12"))


def test_a_thread_too_large_for_the_device_is_refused() -> None:
    entry = "@uc_entry\ndef uc_panel(iset, lo, hi):\n    d = iset[0]\n    st = np.empty((d, N))\n"
    body = "N = 2\n" + entry + "    for w in range(lo, hi):\n        pass\n"
    settings = [10, *[0] * 12]
    assert "cuda.local.array((10, 2), np.float64)" in device_text(body, settings, {}, 1, None, keep_paths=False)
    with pytest.raises(NotOnDevice, match="bytes of scratch"):
        device_text(body, [10_000, *settings[1:]], {}, 1, None, keep_paths=False)


def test_a_numba_that_does_not_go_with_numpy_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen on a machine with a GPU: numba-cuda asked for a function that NumPy had dropped."""
    # A numba-cuda without NVIDIA's bindings cannot be imported at all.
    cuda = pytest.importorskip("numba.cuda", exc_type=ImportError)
    from ucsearch.engine.cuda import device

    def broken(name: str) -> None:
        raise AttributeError("module 'numpy' has no attribute 'row_stack'")

    monkeypatch.setattr(device, "is_simulated", lambda: False)
    monkeypatch.setattr(device, "import_module", broken)
    monkeypatch.setattr(cuda, "is_available", lambda: True)
    with pytest.raises(uc.InputError, match=r"does not work with NumPy .*row_stack"):
        device.find_cuda()


def test_numpy_without_row_stack_has_it_while_numba_cuda_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    from ucsearch.engine.cuda.device import row_stack_named

    monkeypatch.delattr(np, "row_stack", raising=False)
    with row_stack_named():
        assert np.row_stack(([1.0], [2.0])).tolist() == [[1.0], [2.0]]
    assert not hasattr(np, "row_stack")
