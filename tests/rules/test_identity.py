# ruff: noqa: E501 (a rule in one line each, so that a place reads as one thing)
"""Two tasks that differ in what their rules read have different identities; a part that cannot be read is named; the
verifier and every supported Python read the same."""

from __future__ import annotations

import dataclasses
import gc
import itertools
import json
import linecache
import os
import py_compile
import shutil
import subprocess
import sys
import textwrap
import threading
import types
import weakref
from pathlib import Path
from typing import Any

import pytest

import ucsearch as uc
from tests.kit.templates import TEMPLATES
from ucsearch.check import TaskWarning
from ucsearch.errors import TaskError
from ucsearch.tasks.registry import TASKS
from ucsearch.verify.identity import NoText, forget, rules_digest

_NUMBERS = itertools.count()


def rules(text: str, name: str = "rules") -> types.ModuleType:
    """A module made of text, as if it had been imported."""
    module = types.ModuleType(name)
    text, file = textwrap.dedent(text), f"<{name} {next(_NUMBERS)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec", dont_inherit=True), module.__dict__)
    return module


BASE = """
    from typing import NamedTuple
    import functools, operator, dataclasses, enum, math
    class S(NamedTuple):
        x: float
    def feasible(s, a, p): return True
    def step(s, a, y, p): return S(s.x + a)
    def fallback(s, p): return 0.0
"""


def task_of(text: str, **changes: Any) -> uc.Task:
    space = vars(rules(textwrap.dedent(BASE) + textwrap.dedent(text)))
    parts = {k: space[k] for k in ("feasible", "step", "reward", "fallback")}
    return uc.Task(name="t", state=space["S"], actions=[0.0, 1.0], **{**parts, **changes})


def read_again(task: uc.Task) -> str:
    """The verifier's own reading."""
    forget()
    return rules_digest(task)


# Each text holds the number 7; with 8 in its place the rules are others.
PLACES = {
    "a helper's default": "def h(x, k=7): return k * x\ndef reward(s, a, y, p): return h(a)",
    "a keyword default": "def h(x, *, k=7): return k * x\ndef reward(s, a, y, p): return h(a)",
    "a class attribute": "class C:\n    K = 7\ndef reward(s, a, y, p): return C.K * a",
    "an inherited attribute": "class B:\n    K = 7\nclass C(B): pass\ndef reward(s, a, y, p): return C.K * a",
    "a static method": "class C:\n    @staticmethod\n    def k(): return 7\ndef reward(s, a, y, p): return C.k() * a",
    "a class method": "class C:\n    @classmethod\n    def k(c): return 7\ndef reward(s, a, y, p): return C.k() * a",
    "a property": "class C:\n    @property\n    def k(self): return 7\nc = C()\ndef reward(s, a, y, p): return c.k * a",
    "a method of the state": "class S(NamedTuple):\n    x: float\n    def k(self): return 7\ndef reward(s, a, y, p): return s.k()",
    "a default of the state": "class S(NamedTuple):\n    x: float = 7\ndef step(s, a, y, p): return S()\ndef reward(s, a, y, p): return a",
    "a partial": "def h(k, x): return k * x\nf = functools.partial(h, 7)\ndef reward(s, a, y, p): return f(a)",
    "a partial's keyword": "def h(x, k): return k * x\nf = functools.partial(h, k=7)\ndef reward(s, a, y, p): return f(a)",
    "a bound method": "class C:\n    def __init__(self, k): self.k = k\n    def h(self, x): return self.k * x\nf = C(7).h\ndef reward(s, a, y, p): return f(a)",
    "a callable object": "class C:\n    def __init__(self, k): self.k = k\n    def __call__(self, x): return self.k * x\nf = C(7)\ndef reward(s, a, y, p): return f(a)",
    "a callable object's code": "class C:\n    def __call__(self, x): return 7 * x\nf = C()\ndef reward(s, a, y, p): return f(a)",
    "slots": "class C:\n    __slots__ = ('k',)\n    def __init__(self, k): self.k = k\nc = C(7)\ndef reward(s, a, y, p): return c.k",
    "a cache": "@functools.lru_cache\ndef h(x): return 7 * x\ndef reward(s, a, y, p): return h(a)",
    "a closure": "def make(k):\n    def reward(s, a, y, p): return k * a\n    return reward\nreward = make(7)",
    "a closure in a closure": "def outer(k):\n    def h(x): return k * x\n    def reward(s, a, y, p): return h(a)\n    return reward\nreward = outer(7)",
    "a decorator's closure": "def times(k):\n    def wrap(f):\n        @functools.wraps(f)\n        def inner(s, a, y, p): return k * f(s, a, y, p)\n        return inner\n    return wrap\n@times(7)\ndef reward(s, a, y, p): return a",
    "a nested container": "T = {'a': [(1, {'b': 7})]}\ndef reward(s, a, y, p): return T['a'][0][1]['b'] * a",
    "a set": "T = {1, 7}\ndef reward(s, a, y, p): return a if a in T else 0.0",
    "a set in the code": "def reward(s, a, y, p): return a if a in {1, 7} else 0.0",
    "an enum": "class E(enum.IntEnum):\n    K = 7\ndef reward(s, a, y, p): return E.K * a",
    "a data class": "@dataclasses.dataclass(frozen=True)\nclass C:\n    k: float = 7\nc = C()\ndef reward(s, a, y, p): return c.k * a",
    "a data class's factory": "@dataclasses.dataclass\nclass C:\n    k: list = dataclasses.field(default_factory=lambda: [7])\ndef reward(s, a, y, p): return C().k[0]",
    "a function's attribute": "def h(x): return h.k * x\nh.k = 7\ndef reward(s, a, y, p): return h(a)",
    "an inner function": "def reward(s, a, y, p):\n    def h(x): return 7 * x\n    return h(a)",
    "a generator": "def reward(s, a, y, p): return max(7 * x for x in (a, y))",
    "a handler": "def reward(s, a, y, p):\n    try: return a / y\n    except ZeroDivisionError: return 7",
    "a namespace": "import types\nc = types.SimpleNamespace(k=7)\ndef reward(s, a, y, p): return c.k * a",
    "a descriptor": "class D:\n    def __init__(self, k): self.k = k\n    def __get__(self, o, t=None): return self.k\nclass C:\n    K = D(7)\ndef reward(s, a, y, p): return C.K * a",
    "a metaclass": "class M(type):\n    def __getattr__(c, n): return 7\nclass C(metaclass=M): pass\ndef reward(s, a, y, p): return C.K * a",
    "a class's name": "c = type('C7', (), {})()\ndef reward(s, a, y, p): return float(type(c).__name__[1:]) * a",
    "a field's name in an array": "import numpy as np\nT = np.zeros(1, dtype=[('k7', 'f8')])\ndef reward(s, a, y, p): return float(T.dtype.names[0][1:]) * a",
    "an enum's private method": "class E(enum.Enum):\n    A = 1\n    def _k(self): return 7\ndef reward(s, a, y, p): return E.A._k() * a",
    "an enum's own call": "class E(enum.Enum):\n    A = 1\n    def __call__(self): return 7\ndef reward(s, a, y, p): return E.A() * a",
    "an enum's making": "class E(enum.Enum):\n    A = 1\n    def __init__(self, x): self.k = 7 * x\ndef reward(s, a, y, p): return E.A.k * a",
    "a flag's length": "class E(enum.Flag):\n    A = 1\n    def __len__(self): return 7\ndef reward(s, a, y, p): return len(E.A) * a",
    "other defaults of the state": "class S(NamedTuple):\n    x: float\nS.__new__.__defaults__ = (7.0,)\ndef step(s, a, y, p): return S()\ndef reward(s, a, y, p): return a",
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_a_changed_number_is_another_identity(place: str) -> None:
    text = PLACES[place]
    assert text.count("7") == 1, "the number stands once"
    one, other = task_of(text), task_of(text.replace("7", "8"))
    assert one.source_hash == task_of(text).source_hash == read_again(one)
    assert one.source_hash != other.source_hash == read_again(other)


@pytest.mark.parametrize("through", ["m.k", "m.inner.k", "m.C.k", "m.h()"])
def test_what_is_read_through_a_module_counts(through: str) -> None:
    def made(k: float) -> uc.Task:
        m = rules(
            f"import types\nclass C:\n    K = k = {k}\ndef h(): return {k}\nk = {k}\ninner = types.ModuleType('i')"
        )
        m.inner.k = k
        space = rules(f"def reward(s, a, y, p): return {through} * a")
        vars(space)["m"] = m
        return task_of("reward = None", reward=space.reward)

    assert made(7).source_hash == made(7).source_hash == read_again(made(7))
    assert made(7).source_hash != made(8).source_hash == read_again(made(8))


def test_name_version_layout_and_site_count() -> None:
    text = "class P(NamedTuple):\n    k: float\nclass Q(NamedTuple):\n    k: int\nclass R(NamedTuple):\n    k: tuple\ndef reward(s, a, y, p): return a"
    base = task_of(text)
    space = base.reward.__globals__
    kept = uc.Condition("small", lambda s, a, p: a, "<=", 7.0, "it is small")
    seen = [
        base,
        dataclasses.replace(base, name="u"),
        dataclasses.replace(base, version="2"),
        *(
            dataclasses.replace(base, params=params)
            for params in (space["P"](1.0), space["Q"](1), space["R"]((1.0,)), space["R"]((1.0, 2.0)))
        ),
        dataclasses.replace(base, conditions=[kept]),
        dataclasses.replace(base, conditions=[dataclasses.replace(kept, limit=8.0)]),
        dataclasses.replace(base, uses={"room": lambda s, a, p: a}),
        dataclasses.replace(base, uses={"room": lambda s, a, p: 2.0 * a}),
        dataclasses.replace(base, continuations=[uc.Continuation(lambda s, h, p, t: t[0], grid=[[0.0]])]),
        dataclasses.replace(base, continuations=[uc.Continuation(lambda s, h, p, t: t[0], grid=[[1.0]])]),
    ]
    assert len({task.source_hash for task in seen}) == len(seen)
    assert [read_again(task) for task in seen] == [task.source_hash for task in seen]
    assert dataclasses.replace(base, params=space["P"](2.0)).source_hash == seen[3].source_hash, (
        "values are recorded apart"
    )


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_the_verifier_reads_the_same(name: str) -> None:
    task = TEMPLATES[name].task
    assert read_again(task) == task.source_hash


@pytest.mark.parametrize("name", sorted(TASKS))
def test_the_verifier_reads_the_same_of_built_in_tasks(name: str) -> None:
    for config in (TASKS[name].kind(), *TASKS[name].kind.instances().values()):
        task = config.task()
        assert read_again(task) == task.source_hash


def test_what_is_not_read_does_not_count() -> None:
    used = "K = 7\ndef reward(s, a, y, p): return K * a"
    assert task_of(used).source_hash == task_of(used + "\nOTHER = 3").source_hash


def test_comments_docstrings_annotations_and_line_breaks_do_not_count() -> None:
    short = "def reward(s, a, y, p): return a * y + min(a, y, 3.0)"
    long = '''
def reward(s: object, a: float,
           y: float, p: object) -> float:
    """What it is worth."""
    # a comment
    return (a * y
            + min(a,
                  y, 3.0))
'''
    assert task_of(short).source_hash == task_of(long).source_hash


def test_recursion_and_mutual_recursion_end() -> None:
    text = "def f(n): return 1 if n < 1 else g(n - 1)\ndef g(n): return f(n - 1)\ndef reward(s, a, y, p): return f(3)"
    assert task_of(text).source_hash == task_of(text).source_hash == read_again(task_of(text))
    looped = task_of("T = []\nT.append(T)\ndef reward(s, a, y, p): return len(T)")
    with pytest.raises(TaskError, match="without end"):
        _ = looped.source_hash


REFUSED = {
    "a lock": ("L = threading.Lock()", "L", "L: a lock"),
    "an open file": ("L = open(os.devnull)", "L", "TextIOWrapper"),
    "a generator": ("L = (x for x in [1])", "L", "generator"),
    "a source of random numbers": ("L = random.Random(1)", "L", "Random"),
    "numpy's random numbers": ("L = np.random.default_rng(1)", "L", "Generator"),
    "a lock inside an object": ("class C: pass\nL = C()\nL.inner = threading.Lock()", "L", "L.inner"),
    "a lock in a dictionary": ("L = {'k': [threading.Lock()]}", "L", r"L\['k'\]\[0\]"),
    "the environment": ("L = os.environ", "L", "_Environ"),
    "a module as a value": ("import types\nm = types.ModuleType('other')\ndef L(): return m", "L()", "m: a module"),
    "a bound method of hidden content": ("L = random.Random(1).random", "L()", "Random"),
    "a list of another class": ("class D(list): pass\nL = D()", "L", "a D has no content"),
    "a module of others inside the function": ("", "import pytest", "pytest"),
    "a name that is not there": ("", "later", "later is not defined where the task is made"),
    "a function without a text": ("L = eval('lambda: 0.0')", "L()", "no readable source"),
    "compiled code of others": (
        "import numba\nL = numba.core.typeconv._typeconv.new_type_manager",
        "L",
        "without a text",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_named_and_the_search_goes_on(name: str) -> None:
    text, use, part = REFUSED[name]
    head = "import threading, os, random\nimport numpy as np\n"
    asked = f"if a > 5.0:\n        {use}" if name == "a name that is not there" else use
    task = task_of(f"{head}{text}\ndef reward(s, a, y, p):\n    {asked}\n    return a * y")
    with pytest.raises(TaskError, match=rf"cannot be recorded: reward.*{part}"):
        _ = task.source_hash
    with pytest.raises(NoText, match=r"^reward"):
        read_again(task)
    trace = uc.Trace.from_members([[1.0, 2.0]])
    assert uc.decide(task, task.state(0.0), trace, uc.UCBeam(depth=2), run=uc.Run(engine="python")).action == 1.0


def test_check_task_says_what_cannot_be_recorded() -> None:
    task = task_of("import threading\nL = threading.Lock()\ndef reward(s, a, y, p):\n    L\n    return a")
    with pytest.warns(TaskWarning, match="cannot be recorded: reward"):
        uc.check_task(task, task.state(0.0), [1.0])


def test_a_task_that_cannot_be_recorded_is_refused_before_any_work(tmp_path: Path) -> None:
    lock = threading.Lock()
    called = []

    def reward(s: Any, a: float, y: float, p: Any) -> float:
        called.append(lock)
        return a

    task = task_of("def reward(s, a, y, p): return a", reward=reward)
    with uc.AuditLog(tmp_path / "log.db") as log, pytest.raises(TaskError, match="cannot be recorded"):
        uc.decide(
            task,
            task.state(0.0),
            uc.Trace.from_members([[1.0]]),
            uc.UCBeam(depth=1),
            run=uc.Run(engine="python"),
            log=log,
        )
    assert not called


# ------------------------------------------------------------ rules that change


CHANGES = [
    "LIMIT = 4.0",
    "del LIMIT",
    "max = min",
    "helper.__code__ = other.__code__",
    "helper = other",
    "helper.__defaults__ = (2.0,)",
    "helper.__kwdefaults__ = {'w': 1.0}",
    "rule.__code__ = other.__code__",
    "Kind.K = 8.0",
    "one.k = 2.0",
    "TABLE[0] = 8.0",
    "TABLE.shape = (3, 2)",
    "TABLE.dtype = 'i8'",
    "NESTED['k'].append(4.0)",
    "NESTED['j'] = 1.0",
    "Pair.__new__.__defaults__ = (8.0,)",
    "Pair.__new__ = lambda cls, x=8.0: tuple.__new__(cls, (x,))",
    "CLOSED.__closure__[0].cell_contents = 8.0",
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_task_whose_rules_have_changed_is_refused(change: str) -> None:
    space = vars(
        rules("""
        from typing import NamedTuple
        import numpy as np
        LIMIT = 3.0
        def helper(x, y=1.0, *, w=0.0): return max(x, y) + w
        def other(x, y=1.0, *, w=0.0): return x
        class Kind:
            K = 7.0
        one = Kind()
        one.k = 1.5
        class Pair(NamedTuple):
            x: float = 7.0
        TABLE = np.arange(6.0)
        NESTED = {"k": [1.0]}
        def make(c): return lambda: c
        CLOSED = make(2.0)
        def rule(s, a, y, p):
            return helper(a) + LIMIT + Kind.K + one.k + TABLE.flat[0] + NESTED["k"][0] + Pair().x + CLOSED()
    """)
    )
    task = task_of("def reward(s, a, y, p): return a", reward=space["rule"])
    before = task.source_hash
    trace, run = uc.Trace.from_members([[1.0]]), uc.Run(engine="python")
    assert uc.decide(task, task.state(0.0), trace, uc.Exact(depth=1), run=run).released
    task.check_unchanged()
    exec(change, space)
    with pytest.raises(TaskError, match=r"reward.* has changed since the task was made"):
        uc.search(task, task.state(0.0), trace, uc.Exact(depth=1), engine="python")
    assert task.source_hash == before, "taken when the task was made"
    if change not in ("del LIMIT", "rule.__code__ = other.__code__"):
        assert dataclasses.replace(task).identity.refused or dataclasses.replace(task).source_hash != before


def test_rules_are_let_go_with_their_task() -> None:
    def throw_away(k: float) -> Any:
        def reward(s: Any, a: float, y: float, p: Any) -> float:
            return k * a

        task = task_of("def reward(s, a, y, p): return a", reward=reward)
        _ = task.source_hash
        return weakref.ref(reward)

    refs = [throw_away(float(k)) for k in range(3)]
    gc.collect()
    assert [ref() for ref in refs] == [None] * 3


# ------------------------------------------------------------ other processes, other Pythons


SEPARATE = """
from typing import NamedTuple
import dataclasses, functools, math
class S(NamedTuple):
    x: float
@dataclasses.dataclass(frozen=True)
class Tariff:
    rates: tuple = (1.0, 2.0)
    names: frozenset = frozenset({"low", "high", "peak"})
    def rate(self, x): return self.rates[int(x) % 2]
TARIFF = Tariff()
@functools.lru_cache
def helper(x, *, k=3.0): return k * x
def feasible(s, a, p): return a in {0.0, 1.0} and "low" in TARIFF.names
def step(s, a, y, p):
    \"\"\"Outside the dialect.\"\"\"
    try:
        total = sum(x for x in (s.x, a))
        return S(total if f"{total:g}" else math.nan)
    except ValueError as error:
        raise SystemExit from error
def reward(s, a, y, p):
    rate: float = -1.5e-3
    for i in range(3):
        rate += (a if i % 2 else -a) * math.sqrt(y[i:][0]) if not a <= y < 4.0 else 0.1
    return helper(a) * TARIFF.rate(s.x) + rate
fallback = lambda s, p: 0.0
"""
TASK = """
import ucsearch as uc
TASK = uc.Task(name="t", state=S, actions=[0.0, 1.0], feasible=feasible, step=step, reward=reward, fallback=fallback)
"""
# Without numpy: the two readings need nothing but Python.
BARE = """
import sys, types
sys.modules["numpy"] = types.ModuleType("numpy")
import importlib.util, json, separate as rules
def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
for package in ("ucsearch", "ucsearch.rules"):
    sys.modules[package] = types.ModuleType(package)
source = sys.argv[1]
load("ucsearch.rules.source", f"{source}/rules/source.py")
own = load("ucsearch.rules.identity", f"{source}/rules/identity.py")
other = load("verify_identity", f"{source}/verify/identity.py")
roles = {"feasible": rules.feasible, "step": rules.step, "reward": rules.reward, "fallback": rules.fallback}
absent = dict.fromkeys(("terminal", "prepare", "bound", "invariant", "allowed_end", "outcome", "params"))
task = types.SimpleNamespace(**roles, **absent, continuations=(), uses={}, conditions=(), state=rules.S, name="t", version="1")
class Task(types.SimpleNamespace):
    __hash__ = object.__hash__
found = own.identity_of({**roles, "the state class": rules.S, "the outcome class": None, "the params class": None})
assert not found.refused, found.refused
print(json.dumps([found.digest(own.text_of(("t", "1", (), (), (), ()))), other.rules_digest(Task(**vars(task)))]))
"""


def _python(minor: int) -> str | None:
    kept = sorted(Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python"))
    return shutil.which(
        f"python3.{minor}", path=os.pathsep.join([*map(str, (p.parent for p in kept)), os.environ["PATH"]])
    )


@pytest.mark.parametrize("minor", [11, 12, 13])
def test_every_python_reads_the_same(minor: int, tmp_path: Path) -> None:
    python = _python(minor)
    if python is None:
        pytest.skip(f"there is no python3.{minor} here")
    (tmp_path / "separate.py").write_text(SEPARATE)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONHASHSEED": str(minor)}
    done = subprocess.run(
        [python, "-c", BARE, str(Path(uc.__file__).parent)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    own, other = json.loads(done.stdout)
    assert own == other == "82b5bf1bf49e585afd5fa497711574ae2f5adb373a1a22688bc2b4eb6c448406"


def test_the_identity_is_the_same_in_every_process_and_needs_the_text(tmp_path: Path) -> None:
    source = tmp_path / "with_text" / "separate.py"
    source.parent.mkdir()
    source.write_text(SEPARATE + TASK)
    bare = tmp_path / "bare"
    bare.mkdir()
    py_compile.compile(str(source), cfile=str(bare / "separate.pyc"), doraise=True)
    seen = []
    for folder, seed in ((source.parent, "1"), (source.parent, "2"), (bare, "3")):
        where = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
        code = "import separate; print(separate.TASK.identity.refused or separate.TASK.source_hash)"
        source.unlink(missing_ok=seed == "3") if seed == "3" else None
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": where, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        seen.append(done.stdout.strip())
    assert seen[0] == seen[1]
    assert seen[2] == "feasible: feasible has no readable source"
