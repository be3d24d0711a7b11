"""The recursion over policies as machine code, where numba is installed.

It may never find valid what the plain rules refute. So only rules of simple form are compiled (`dialect.py`); what
raises or is not finite is left to the plain rules; a share of what was evaluated, drawn by the record's digest, is
evaluated again by them; and a claim is false only where they say so (see `closed.py`).

Machine code is kept in a folder of the verifier's own, and read only from where nobody but this user can write.
"""

# mypy: disable-error-code="no-untyped-call, no-untyped-def"

from __future__ import annotations

import hashlib
import itertools
import math
import os
import pickle
import random
import secrets
import stat
import sys
import tempfile
import types
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ucsearch.verify.decision import dialect, recursion
from ucsearch.verify.decision.law import Law
from ucsearch.verify.decision.problem import (
    Fault,
    Key,
    Moves,
    OutOfNodes,
    RecordedProblem,
    TooMany,
    Value,
    shape,
    timed_rules,
)
from ucsearch.verify.decision.recursion import CALLS, DONE, EDGES, KNOWN, MOVES, NODES, ROOM
from ucsearch.verify.verdict import Record

WORTH = 50_000  # transitions of a task, a quarter of a second of plain Python, from which on it is compiled
DRAWN, A_SHARE = 64, 4_096  # evaluated again by the plain rules: so many, and one in so many
MOST_HELD = 5_000_000  # transitions whose arrays are kept for the next decision
ROLES = ("feasible", "step", "reward", "terminal", "allowed_end")
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
Function = Callable[..., Any]
Jit = Callable[[Function], Function]


class Doubt(Exception):
    """What machine code cannot be relied on for: the plain rules are asked."""


# -------------------------------------------------------------------- what is compiled


class Form(NamedTuple):
    """Of everything that rules are given."""

    state: type[Any]
    state_lengths: tuple[int, ...]
    params: type[Any] | None
    params_lengths: tuple[int, ...]
    whole: tuple[bool, ...]  # parameters that are whole numbers
    outcome: type[Any] | None
    outcomes: int
    action: int  # numbers of an action; 0: it is one number


def _form(p: RecordedProblem) -> Form:
    params = () if p.params is None else p.params
    whole = tuple(isinstance(x[0] if isinstance(x, tuple) else x, int) for x in params)
    first = next(a for a in p.actions if a == a)
    outcome = p.task.outcome
    return Form(
        p.task.state, tuple(shape(p.state)), None if p.params is None else type(p.params), tuple(shape(params)), whole,
        outcome, 1 if outcome is None else len(outcome._fields), len(first) if isinstance(first, tuple) else 0,
    )  # fmt: skip


def _text(form: Form, timed: frozenset[str], has: dict[str, bool]) -> str:
    """The functions of `recursion.Rules`."""

    def parts(row: str, lengths: tuple[int, ...], whole: tuple[bool, ...]) -> str:
        numbers, out = itertools.count(), []
        for n, is_int in zip(lengths, whole, strict=True):
            cells = [f"{row}{next(numbers)}]" for _ in range(max(1, n))]
            cells = [f"int({x})" for x in cells] if is_int else cells
            out.append(f"({', '.join(cells)},)" if n else cells[0])
        return ", ".join(out)

    def h(role: str) -> str:
        return "h, " if role in timed else ""

    state, floats = form.state_lengths, (False,) * len(form.state_lengths)
    numbers, stored = itertools.count(), []
    for i, n in enumerate(state):
        stored += [(next(numbers), f"s[{i}][{k}]" if n else f"s[{i}]") for k in range(max(1, n))]
    lengths = [f"len(s) == {len(state)}", *(f"len(s[{i}]) == {n}" for i, n in enumerate(state) if n)]
    outcome = (
        "rows[k, 0]" if form.outcome is None else f"Outcome({', '.join(f'rows[k, {j}]' for j in range(form.outcomes))})"
    )
    action = "rows[x, 0]" if not form.action else f"({''.join(f'rows[x, {j}], ' for j in range(form.action))})"
    params = "None" if form.params is None else f"Params({parts('row[', form.params_lengths, form.whole)})"
    return "\n".join([
        f"def load(rows, i): return State({parts('rows[i, ', state, floats)})",
        "def store(rows, i, s):",
        f"    if not ({' and '.join(lengths)}): return False",
        *(f"    rows[i, {at}] = float({part}) + 0.0" for at, part in stored),
        f"    return {' and '.join(f'isfinite(rows[i, {at}])' for at, _ in stored)}",
        f"def params(row): return {params}",
        f"def outcome(rows, k): return {outcome}",
        f"def action(rows, x): return {action}",
        f"def may(s, a, h, p): return feasible(s, a, {h('feasible')}p) + 0.0",
        f"def earn(s, a, y, h, p): return float(reward(s, a, y, {h('reward')}p))",
        f"def move(s, a, y, h, p): return step(s, a, y, {h('step')}p)",
        f"def end(s, p): return {'float(terminal(s, p))' if has['terminal'] else '0.0'}",
        f"def may_end(s, p): return {'allowed_end(s, p) + 0.0' if has['allowed_end'] else '1.0'}",
    ])  # fmt: skip


def _rules(p: RecordedProblem, form: Form, digest: Any, jit: Jit, inline: Jit) -> recursion.Rules:
    """The task's rules with everything that they call, compiled when they are first called."""
    compiled: dict[Any, Any] = {}

    def ready(function: Any) -> Any:
        if function in compiled:
            return compiled[function]
        compiled[function] = None  # a function that calls itself is left to Python
        space: dict[str, Any] = dict(function.__globals__) if hasattr(function, "__globals__") else {}
        captured = {}
        for name, value in dialect.read(function, digest):
            if not callable(value):
                captured[name] = _math(jit) if value is math else value
            elif value in dialect.MATH:
                captured[name] = dialect.checked(value, jit)
            elif value in dialect.BUILT_IN or isinstance(value, type):
                captured[name] = value
            else:
                captured[name] = ready(value)
                if captured[name] is None:
                    raise dialect.NotCompiled(f"{name} calls itself")
        cells = [captured.get(name) for name in function.__code__.co_freevars]
        closure = tuple(map(types.CellType, cells)) or None
        bound = types.FunctionType(function.__code__, {**space, **captured}, function.__name__, None, closure)
        compiled[function] = jit(bound)
        return compiled[function]

    has = {role: getattr(p.task, role) is not None for role in ROLES}
    text = _text(form, timed_rules(p.task), has)
    digest.update(text.encode())
    space = {role: ready(getattr(p.task, role)) for role in ROLES if has[role]}
    space |= {"State": form.state, "Params": form.params, "Outcome": form.outcome, "isfinite": math.isfinite}
    digest.update(repr(form).encode())
    exec(compile(text, "<rules>", "exec"), space)
    return recursion.Rules(*(inline(space[name]) for name in recursion.Rules._fields))


def _math(jit: Jit) -> Any:
    """`math` with functions that raise where Python's do."""
    module = types.ModuleType("math_of_rules")
    vars(module).update({name: value for name, value in vars(math).items() if isinstance(value, float)})
    vars(module).update({function.__name__: dialect.checked(function, jit) for function in dialect.MATH})
    return module


# -------------------------------------------------------------------- machine code, in memory and on disk


class Compiled(NamedTuple):
    """A task's walk, and the digest of all that is in it."""

    name: bytes
    walk: recursion.CompiledWalk


class Engine:
    """numba, and the folder for what it compiles."""

    def __init__(self) -> None:
        import numba
        import numpy as np
        from numba.core.bytecode import FunctionIdentity

        # Names of functions count within a process; what two processes kept must not have the same name in a third.
        FunctionIdentity._unique_ids = itertools.count(secrets.randbits(47))
        self.numba, self.np = numba, np
        self.folder = _folder()
        texts = b"".join(
            Path(module.__file__ or "").read_bytes() for module in (dialect, recursion, sys.modules[__name__])
        )
        versions = (numba.__version__, np.__version__, sys.implementation.cache_tag, recursion.__name__)
        self.stamp = hashlib.sha256(texts + repr(versions).encode()).digest()
        self.arithmetic = recursion.arithmetic(self.jit, self.jit_inline)
        self.kept: dict[bytes, Compiled] = {}
        self.seeds = np.array([secrets.randbits(64), secrets.randbits(64) | 1, 29, 33], np.uint64)

    def jit(self, function: Function) -> Function:
        compiled: Function = self.numba.njit(nogil=True, error_model="python")(function)
        return compiled

    def jit_inline(self, function: Function) -> Function:
        """A few lines that belong to their caller: passing arrays on would count references."""
        compiled: Function = self.numba.njit(nogil=True, error_model="python", inline="always")(function)
        return compiled

    def jit_rule(self, function: Function) -> Function:
        compiled: Function = self.numba.njit(nogil=True, error_model="python", boundscheck=True)(function)
        return compiled

    def walk(self, p: RecordedProblem, form: Form) -> Compiled:
        """The task's own; raises `dialect.NotCompiled`."""
        digest = hashlib.sha256(self.stamp)
        rules = _rules(p, form, digest, self.jit_rule, self.jit_inline)
        name = digest.digest()
        if name not in self.kept:
            self.kept[name] = Compiled(name, recursion.walk(self.jit, rules, self.arithmetic.place))
        return self.kept[name]

    def call(self, name: bytes, function: Any, *args: Any) -> Any:
        """The function's answer; compiled, or read from disk, at the first call with arguments of these types."""
        if not function.overloads:
            self._make(function, tuple(map(self.numba.typeof, args)), name)
        return function(*args)

    def _make(self, function: Any, signature: Any, name: bytes) -> None:
        target = function.targetctx
        cpu = repr((str(signature), target.codegen().magic_tuple())).encode()
        file = f"{function.__name__}-{hashlib.sha256(self.stamp + name + cpu).hexdigest()[:40]}"
        path = None if self.folder is None else self.folder / file
        if path is not None and self._read(path, function, target):
            return
        try:
            function.compile(signature)
        except Exception as error:
            raise dialect.NotCompiled(str(error)) from None
        (compiled,) = function.overloads.values()
        if path is not None and not compiled.lifted and not compiled.library.has_dynamic_globals:
            with suppress(Exception):  # a full disk; or what cannot be kept
                _write(path, self.numba.core.serialize.dumps(compiled._reduce()))

    def _read(self, path: Path, function: Any, target: Any) -> bool:
        from numba.core.compiler import CompileResult

        try:
            target.refresh()
            compiled = CompileResult._rebuild(target, *pickle.loads(path.read_bytes()))
            target.insert_user_function(compiled.entry_point, compiled.fndesc, [compiled.library])
            function.add_overload(compiled)
        except Exception:  # nothing there, or damaged: it is compiled, and written over
            return False
        return True


@cache
def engine() -> Engine | None:
    """None where numba is not installed, or is told not to compile."""
    try:
        numba_engine = Engine()
    except ImportError:
        return None
    return None if numba_engine.numba.config.DISABLE_JIT else numba_engine


def _folder() -> Path | None:
    cache_folder, base = os.environ.get("UCSEARCH_CACHE_DIR"), os.environ.get("XDG_CACHE_HOME")
    try:
        home = Path(base) if base else Path.home() / ".cache"
        folder = (Path(cache_folder).expanduser() if cache_folder else home / "ucsearch") / "verify"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder if _is_ours(folder.resolve(strict=True)) else None
    except (OSError, RuntimeError):  # no home, or none that can be written: in memory then
        return None


def _is_ours(folder: Path) -> bool:
    """Whether nobody but this user (and root) can put or replace anything in it, by whatever parent."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    here = folder.stat()
    ways = [(x.st_uid, x.st_mode) for x in map(Path.stat, folder.parents)]
    safe = all(uid in (0, user) and (not mode & _OTHERS or mode & stat.S_ISVTX) for uid, mode in ways)
    return here.st_uid == user and not here.st_mode & _OTHERS and safe


def _write(path: Path, content: bytes) -> None:
    """Whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    os.replace(temporary, path)


# -------------------------------------------------------------------- a graph of arrays


class _Layer:
    """The states of one step, what each action does in them, and what they are worth."""

    def __init__(self, np: Any, width: int) -> None:
        self.np, self.known, self.expanded = np, 0, 0
        self.rows = np.empty((64, width))
        self.kinds = np.empty(64, np.int32)
        self.slots = np.full(256, -1, np.int32)
        self.first = np.zeros(65, np.int64)
        self.acts = np.empty(64, np.int32)
        self.start = np.empty(64, np.int64)
        self.reward = np.empty(256)
        self.to = np.empty(256, np.int32)
        self.values: list[Any] = []  # by risk (S, 3)
        self.valued = 0
        self.edges = self.moves = 0

    def clear(self) -> None:
        self.known = self.expanded = self.edges = self.moves = self.valued = 0
        self.slots.fill(-1)

    def grown(self, name: str, least: int) -> bool:
        """Room for so many; whether there was too little."""
        old = getattr(self, name)
        if len(old) >= least:
            return False
        new = self.np.empty((max(least, 2 * len(old)), *old.shape[1:]), old.dtype)
        new[: len(old)] = old
        setattr(self, name, new)
        return True


class CompiledGraph:
    """What the states that were asked for can reach under one law, and what it is worth. States that follow from
    several are valued once."""

    def __init__(self, engine: Engine, compiled: Compiled, p: RecordedProblem, law: Law) -> None:
        self.engine, self.compiled = engine, compiled
        width = sum(max(1, n) for n in shape(p.state))
        self.layers = [_Layer(engine.np, width) for _ in range(p.depth + 1)]
        self.set(p, law)

    def fits(self, compiled: Compiled, p: RecordedProblem) -> bool:
        """Whether the arrays may be used again."""
        return compiled is self.compiled and len(self.layers) == p.depth + 1

    def set(self, p: RecordedProblem, law: Law) -> None:
        """Another law, other parameters or settings: nothing is reached yet."""
        np = self.engine.np
        self.p, self.law = p, law
        for layer in self.layers:
            layer.clear()
        classes = law.classes
        self.starts = np.cumsum([0, *map(len, classes)])
        self.points = np.array([y for points in classes for y, _, _ in points], np.float64).reshape(self.starts[-1], -1)
        self.weights = np.array([w for points in classes for _, w, _ in points], np.float64)
        self.after = np.array([c for points in classes for _, _, c in points], np.int64)
        first = next(a for a in p.actions if a == a)
        blank = (math.nan,) * len(first) if isinstance(first, tuple) else math.nan
        actions = [a if a == a else blank for a in p.actions]
        self.actions = np.array(actions, np.float64).reshape(len(actions), -1)
        self.offered = np.array(p.available, np.int64)
        self.row = np.array(
            [x for item in p.params or () for x in (item if isinstance(item, tuple) else (item,))], np.float64
        )
        self.work = np.empty(max(map(len, classes)))
        self.order = np.empty(max(map(len, classes)), np.int64)

    # ---------------------------------------------------------------- growing

    def grow(self, p: RecordedProblem, risks: tuple[float, ...]) -> None:
        """Reach and value everything that follows from the state of `p`."""
        self.p, np = p, self.engine.np
        root = self.layers[0]
        self._room(root, 1)
        flat = [x for item in p.state for x in (item if isinstance(item, tuple) else (item,))]
        root.rows[root.known], root.kinds[root.known] = flat, 0
        bits = root.rows.view(np.uint64)
        for i in range(root.known):  # there are few
            if root.kinds[i] == 0 and (bits[i] == bits[root.known]).all():
                self.at = i
                break
        else:
            self.at = root.known
            root.known += 1
        alone = root.known == 1 and root.expanded == 0
        budget = min(p.settings["node_budget"], p.meter.left)
        self.own_limit = p.settings["node_budget"] <= p.meter.left
        new = 0
        for h in range(p.depth):
            new += self._expanded(h, budget - new)
        for risk in range(len(risks)):
            self._valued(risk, risks[risk])
        for layer in self.layers:
            layer.valued = layer.known
        if alone:
            self.states = sum(layer.known for layer in self.layers)
            self.pairs = sum(layer.edges for layer in self.layers)
            self.transitions = new
        else:
            self._counted()
        if self.transitions > p.settings["node_budget"]:
            raise TooMany

    def _room(self, layer: _Layer, more: int) -> None:
        np, least = self.engine.np, layer.known + more
        layer.grown("rows", least)
        layer.grown("kinds", least)
        if 2 * least > layer.slots.size:
            size = layer.slots.size
            while size < 2 * len(layer.kinds):
                size *= 2
            layer.slots = np.full(size, -1, np.int32)
            self._call(
                self.engine.arithmetic.places,
                layer.rows.view(np.uint64),
                layer.kinds,
                layer.known,
                layer.slots,
                self.engine.seeds,
            )

    def _call(self, function: Any, *args: Any) -> Any:
        return self.engine.call(self.compiled.name, function, *args)

    def _expanded(self, h: int, nodes: int) -> int:
        """Transitions that were evaluated at this step."""
        p, np, here, after = self.p, self.engine.np, self.layers[h], self.layers[h + 1]
        box = np.array([here.expanded, 0, here.edges, here.moves, after.known, 0], np.int64)
        before = here.moves
        here.grown("first", here.known + 1)
        most = max(map(len, self.law.classes))
        while True:
            code = self._call(
                self.compiled.walk.expand, h, h + 1 == p.depth, here.known, box, before + nodes, p.meter.work,
                here.rows, here.kinds, here.first, here.acts, here.start, here.reward, here.to, after.rows,
                after.rows.view(np.uint64), after.kinds, after.slots, self.engine.seeds, self.starts, self.after,
                self.points, self.actions, self.offered, self.row,
            )  # fmt: skip
            here.edges, here.moves, after.known = int(box[EDGES]), int(box[MOVES]), int(box[KNOWN])
            if code != ROOM:
                break
            here.grown("acts", here.edges + 1)
            here.grown("start", here.edges + 1)
            here.grown("reward", here.moves + most)
            here.grown("to", here.moves + most)
            self._room(after, most)
        p.meter.toil(int(box[CALLS]))
        p.meter.spend(here.moves - before)
        if code == NODES:
            raise TooMany if self.own_limit else OutOfNodes
        if code != DONE:
            raise Doubt
        here.expanded = here.known
        return here.moves - before

    def _valued(self, risk: int, level: float) -> None:
        p = self.p
        for h in range(p.depth, -1, -1):
            layer = self.layers[h]
            if len(layer.values) <= risk:
                layer.values.append(self.engine.np.empty((64, 3)))
            if len(layer.values[risk]) < layer.known:
                new = self.engine.np.empty((2 * layer.known, 3))
                new[: layer.valued] = layer.values[risk][: layer.valued]
                layer.values[risk] = new
            if h == p.depth:
                is_finite = self._call(
                    self.compiled.walk.ends, layer.valued, layer.known, layer.rows, self.row, layer.values[risk]
                )
            else:
                is_finite = self._call(
                    self.engine.arithmetic.layer, layer.valued, layer.known, layer.first, layer.start, layer.reward,
                    layer.to, layer.kinds, self.starts, self.weights, float(p.settings["discount"]), level, p.tail,
                    self.layers[h + 1].values[risk], layer.values[risk], self.work, self.order,
                )  # fmt: skip
            if not is_finite:
                raise Doubt

    def _counted(self) -> None:
        """What follows from the state that was asked for last, of all that is here."""
        np = self.engine.np
        self.states = self.pairs = self.transitions = 0
        marked = np.zeros(self.layers[0].known, np.bool_)
        marked[self.at] = True
        for h, layer in enumerate(self.layers[:-1]):
            following = np.zeros(self.layers[h + 1].known, np.bool_)
            counts = self._call(
                self.engine.arithmetic.count, marked, layer.known, layer.first, layer.start, layer.to, layer.kinds,
                self.starts, following,
            )  # fmt: skip
            self.states, self.pairs, self.transitions = (
                int(x + y) for x, y in zip((self.states, self.pairs, self.transitions), counts, strict=True)
            )
            marked = following
        self.states += int(marked.sum())

    # ---------------------------------------------------------------- the plain rules, for a share

    def compare(self, digest: str) -> None:
        """Evaluate again, by the plain rules, what the record's digest draws. Raises `Doubt` where anything differs."""
        p, draw = self.p, random.Random(int(digest[:32], 16))
        inner = [(h, layer.expanded) for h, layer in enumerate(self.layers) if layer.expanded]
        count = max(DRAWN, sum(layer.moves for layer in self.layers) // A_SHARE) if inner else 0
        for h, states in draw.choices(inner, [states for _, states in inner], k=count):
            layer = self.layers[h]
            i, x = draw.randrange(states), draw.choice(p.available)
            state = self.state(h, i)
            edges = range(int(layer.first[i]), int(layer.first[i + 1]))
            e = next((e for e in edges if layer.acts[e] == x), None)
            try:
                if p.may(state, p.actions[x], h) != (e is not None):
                    raise Doubt
                if e is None:
                    continue
                kind = int(layer.kinds[i])
                k = draw.randrange(int(self.starts[kind + 1] - self.starts[kind]))
                y = self.law.classes[kind][k][0]
                outcome = y[0] if p.task.outcome is None else p.task.outcome(*y)
                t = int(layer.start[e]) + k
                earned = p.number(p.task.reward, state, p.actions[x], outcome, *p.when("reward", h), p.params)
                if earned != layer.reward[t] or p.move(state, p.actions[x], outcome, h) != self.state(
                    h + 1, int(layer.to[t])
                ):
                    raise Doubt
            except Fault:
                raise Doubt from None
        last = self.layers[-1]
        for i in draw.choices(range(last.valued), k=DRAWN // 8) if last.valued else ():
            state, (score, _, _) = self.state(p.depth, i), last.values[0][i]
            try:
                if score != (p.end(state) if p.may_end((state,)) else -math.inf):
                    raise Doubt
            except Fault:
                raise Doubt from None

    # ---------------------------------------------------------------- what is asked of it

    def state(self, h: int, i: int) -> Any:
        values = iter(self.layers[h].rows[i].tolist())
        items = [tuple(next(values) for _ in range(n)) if n else next(values) for n in shape(self.p.state)]
        return self.p.task.state(*items)

    @property
    def start(self) -> Key:
        return 0, self.at

    def acts(self, h: int, key: Key) -> dict[int, Moves]:
        layer = self.layers[h]
        span = slice(int(layer.first[key[1]]), int(layer.first[key[1] + 1]))
        starts = zip(layer.acts[span].tolist(), layer.start[span].tolist(), strict=True)
        return {x: self._moves(h, key[0], at) for x, at in starts}

    def moves(self, h: int, key: Key, action: int) -> Moves | None:
        layer = self.layers[h]
        low, high = layer.first[key[1]], layer.first[key[1] + 1]
        here = layer.acts[low:high].tolist()
        return self._moves(h, key[0], int(layer.start[low + here.index(action)])) if action in here else None

    def _moves(self, h: int, kind: int, at: int) -> Moves:
        span = slice(at, at + len(self.law.classes[kind]))
        to = self.layers[h].to[span]
        keys = zip(self.layers[h + 1].kinds[to].tolist(), to.tolist(), strict=True)
        return list(zip(self.layers[h].reward[span].tolist(), keys, strict=True))

    def value(self, risk: int, h: int, key: Key) -> Value | None:
        score, mean, gross = self.layers[h].values[risk][key[1]].tolist()
        return None if score == -math.inf else Value(score, mean, gross)


class Machine:
    """Machine code for the tasks of a log, and the last law's graph."""

    def __init__(self, worth: int = WORTH) -> None:
        self.worth = worth
        self._left: dict[int, int] = {}  # transitions before a task is compiled
        self._walks: dict[tuple[int, Form], Compiled | None] = {}  # None: left to Python
        self._tasks: dict[int, Any] = {}  # held, so that no other task has the same name
        self._law: tuple[Any, ...] = ()
        self._graph: CompiledGraph | None = None

    def graph(self, r: Record, p: RecordedProblem, law: Law, risks: tuple[float, ...]) -> CompiledGraph | None:
        """Everything reached and valued; None where that is left to the plain rules. Raises `TooMany`, `OutOfNodes`."""
        name = id(p.task)
        if not p.available:
            return None
        self._tasks[name] = p.task
        until_worth = self._left.setdefault(name, self.worth) - r["claim"]["transitions"]
        self._left[name] = until_worth
        if until_worth > 0 or (numba_engine := engine()) is None:
            return None
        form = _form(p)
        if (name, form) not in self._walks:
            try:
                self._walks[name, form] = numba_engine.walk(p, form)
            except dialect.NotCompiled:
                self._walks[name, form] = None
        compiled = self._walks[name, form]
        if compiled is None:
            return None
        settings = (p.settings["discount"], p.tail, risks, p.depth, p.available)
        key = (name, r["claim"]["law"]["hash"], repr(p.params), repr(p.actions), repr(settings))
        graph, self._graph = self._graph, None
        try:
            if graph is None or not graph.fits(compiled, p):
                graph = CompiledGraph(numba_engine, compiled, p, law)
            elif key != self._law:
                graph.set(p, law)
            too_many = False
            try:
                graph.grow(p, risks)
            except TooMany:
                too_many = True
            graph.compare(r["id"])
            if too_many:
                raise TooMany
        except (TooMany, OutOfNodes, MemoryError):
            raise
        except dialect.NotCompiled:
            self._walks[name, form] = None
            return None
        except Exception:  # what is no number for a machine, or a difference, or numba's own
            return None
        if sum(layer.moves for layer in graph.layers) <= MOST_HELD:
            self._law, self._graph = key, graph
        return graph
