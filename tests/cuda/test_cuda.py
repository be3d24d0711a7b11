"""Engine "cuda": in numba's simulator everywhere (no GPU, no extra), and on the GPU where there is one."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.templates import TEMPLATES

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
    "all tasks, beam",
    "all tasks, by member",
    "all tasks, exact",
    "tuples and steps",
    "exact by member",
    "exact by states",
    "more states than a thread holds",
    "more nodes than a thread has",
    "tables that the CPU cannot make",
)
REFUSED = {
    "exp": "math.exp, which is for the CPU only",
    "mcts": "'mcts'",
    "a thread too large": "bytes of scratch",
    "other bytes": "other bytes than the CPU (in out_f)",
}


def has_gpu() -> bool:
    code = "from numba import cuda; print(cuda.is_available())"
    env = {**os.environ, "NUMBA_ENABLE_CUDASIM": "0"}  # the simulator says yes
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    return done.stdout.strip() == "True"


def run_program(module: str, simulated: bool, names: tuple[str, ...] = ()) -> dict[str, str]:
    env = {**os.environ, "NUMBA_ENABLE_CUDASIM": str(int(simulated))}
    done = subprocess.run([sys.executable, "-m", module, *names], cwd=ROOT, env=env, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(done.stderr)
    found: dict[str, str] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


@pytest.mark.parametrize("where", ["simulator", "GPU"])
def test_same_bytes_as_the_plain_engine_or_a_refusal_by_name(where: str) -> None:
    if where == "GPU" and not has_gpu():
        pytest.skip("no CUDA device here, or the extra ucsearch[cuda] is not installed")
    found = run_program("tests.cuda.checks", simulated=where == "simulator")
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
    with pytest.raises(uc.InputError, match="A GPU is for panels"):
        uc.search(clock, clock.state(0.0), trace, uc.UCBeam(depth=2, width=2, top_k=2), engine="cuda")  # type: ignore[arg-type]


@pytest.mark.skipif(importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed")
def test_kernels_compile_without_a_device_and_fuse_nothing() -> None:
    """With NVIDIA's compiler, which comes by pip too (numba-cuda[cu13])."""
    names = ("clock, beam by score", "lead_time_inventory, beam by bound", "on disk", "a kernel that fuses")
    found = run_program("tests.cuda.assembly", simulated=False, names=names)
    assert found == {**dict.fromkeys(names, "compiles"), "a kernel that fuses": "has fma.rn.f64"}


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
