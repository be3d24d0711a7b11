"""Which engine runs a search: one place, one rule.

`python` and `compiled` are what they say. `auto` takes the compiled engine where its kernel is at hand (loaded, or as
machine code on disk), and compiles one once the edges asked for, together with those the plain engine has evaluated for
this kernel before, would take about as long as compiling: before a call that is that much work by itself, and beside
the plain engine, which goes on answering, where many small calls add up. Both give the same bytes, so only the time
differs.
"""

from __future__ import annotations

import threading
from typing import Any, Literal

from ucsearch.engine.arrays import Inputs
from ucsearch.engine.compiled import engine as compiled
from ucsearch.errors import InputError
from ucsearch.layout import Layout
from ucsearch.policies import MODES, Policy, Settings
from ucsearch.rules.dialect import roles_asked, tell
from ucsearch.task import Task

__all__ = ["WORTH_COMPILING", "choose_kernel", "edges_asked", "engine_for", "wait_for_kernels"]

WORTH_COMPILING = 2_000_000  # edges of 4 us in the plain engine: the eight seconds that a kernel takes to compile
_MEANWHILE = " while plain Python answers"
# Mean mode: rules once and a spread, so members count little (python -m bench --only costs).
_MEAN_EDGE, _MEMBERS_AN_EDGE = 5, 16
_CLOSED_STATES = 100  # a layer's, guessed
_FEW_DECISIONS = 50
_MOST_COUNTED = 1024  # kernels
_spent: dict[str, int] = {}  # edges the plain engine has evaluated, by kernel
_beside: dict[str, threading.Thread] = {}  # kernels compiled while the plain engine answers


def engine_for(decisions: int, mode: str = "") -> Literal["auto", "python", "compiled"]:
    """The engine of a run that knows beforehand how many decisions it will make, search by search: a few are made
    while a kernel would compile. In closed mode and over members a single one can be as much work as that, so the work
    decides."""
    if decisions > _FEW_DECISIONS:
        return "compiled"
    return "auto" if mode in ("closed", "members") else "python"


def edges_asked(policy: Policy, task: Task, settings: Settings, inputs: Inputs) -> int:
    """Edge evaluations asked for, roughly: windows x nodes x actions, and x members where each is followed."""
    windows, m = inputs.states.shape[0], inputs.actions.shape[1]
    per_edge = 1 if settings.mode == MODES["scores"] else inputs.members.shape[1] + 1
    if settings.mode == MODES["mean"]:
        per_edge = _MEAN_EDGE + inputs.members.shape[1] // _MEMBERS_AN_EDGE
    if settings.algorithm == "closed":
        # Distinct states of a layer where they repeat, as a rule, and the points of a step.
        points = max(1, inputs.members.shape[1] // max(1, inputs.u.shape[2]))
        return int(windows * _CLOSED_STATES * settings.depth * m * points)
    if settings.mode == MODES["members"] and task.continuations:
        # Every finished prefix is followed to the end of the trace under every setting of every continuation.
        rest = max(inputs.members.shape[2] - settings.depth, 0)
        per_edge *= 1 + rest * sum(max(1, len(c.grid)) for c in task.followed)
    return int(windows * policy.work(m, settings.use_bound) * m * per_edge)


def choose_kernel(
    task: Task, layout: Layout, settings: Settings, engine: str, edges: int, before: int = 0,
    inputs: Inputs | None = None,
) -> Any:  # fmt: skip
    """The kernel to run, or None for the plain engine. `edges` of this call, and of those `before` not counted yet.
    `inputs`: of the windows, of which a sample is held against the plain engine at a kernel's first use."""
    kernel = _found(task, layout, settings, engine, edges, before)
    if kernel is None or inputs is None or inputs.windows == 0:
        return kernel
    return compiled.held(task, layout, settings, inputs, edges)


def _found(task: Task, layout: Layout, settings: Settings, engine: str, edges: int, before: int) -> Any:
    if engine == "python":
        return None
    if engine not in ("auto", "compiled"):
        hint = "A GPU is for panels: search_panel takes 'cuda'." if engine == "cuda" else ""
        raise InputError("engine", repr(engine), "'auto', 'python' or 'compiled'", hint=hint)
    ready = compiled.ready_kernel(task, layout, settings)
    if ready is not None:
        return ready
    if tell(task, layout, roles_asked(task, settings.mode == MODES["members"], settings.use_bound)):
        return None
    if engine == "auto" and not compiled.on_disk(task, layout, settings):
        name = compiled.name_of(task, layout, settings)
        total = _spent.get(name, 0) + edges + before
        if total < WORTH_COMPILING:
            if len(_spent) >= _MOST_COUNTED:
                _spent.clear()
            _spent[name] = total
            return None
        if edges < WORTH_COMPILING:
            _compile_beside(task, layout, settings, name)
            return None
    return compiled.find_kernel(task, layout, settings)


def _compile_beside(task: Task, layout: Layout, settings: Settings, name: str) -> None:
    if name in _beside:
        return
    if len(_beside) >= _MOST_COUNTED:
        _beside.clear()
    # No daemon: a process that ends waits those seconds, LLVM must not be cut off, and the next process has the kernel.
    _beside[name] = threading.Thread(
        target=compiled.find_kernel, args=(task, layout, settings, _MEANWHILE), name="ucsearch-compile", daemon=False
    )
    _beside[name].start()


def wait_for_kernels() -> None:
    """Until all kernels that are compiled beside the plain engine are there."""
    for thread in list(_beside.values()):
        thread.join()
