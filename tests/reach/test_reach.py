# ruff: noqa: E501 (a rule in one line each, so that a place reads as one thing)
"""The source hash sees whatever the rules can reach, in every process, with or without text; or it names the part."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
import textwrap
import threading
import types
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from ucsearch import reached
from ucsearch.check import TaskWarning
from ucsearch.errors import TaskError
from ucsearch.reach import reach_of


def rules(text: str, name: str = "rules") -> types.ModuleType:
    """A module made of text, as if it had been imported."""
    module = types.ModuleType(name)
    exec(compile(textwrap.dedent(text), f"<{name}>", "exec", dont_inherit=True), module.__dict__)
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


# Each text holds the number 7 where an earlier hash did not look; with 8 in its place the rules are others.
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
    "a subclass of a dictionary": "class D(dict):\n    def __missing__(self, k): return 7\nd = D()\ndef reward(s, a, y, p): return d[a]",
    "a number of another type": "class N(float): pass\nn = N(7)\ndef reward(s, a, y, p): return n * a",
    "a namespace": "import types\nc = types.SimpleNamespace(k=7)\ndef reward(s, a, y, p): return c.k * a",
    "a dictionary that hides its items": "class D(dict):\n    def items(self): return []\nd = D(k=7)\ndef reward(s, a, y, p): return d['k'] * a",
    "a list that hides its items": "class L(list):\n    def __iter__(self): return iter(())\nd = L([7])\ndef reward(s, a, y, p): return d[0] * a",
    "an exception": "E = ValueError(7)\ndef reward(s, a, y, p): return E.args[0] * a",
    "another builtin": "import types\ndef bare(s, a, y, p): return max(a, 0)\nreward = types.FunctionType(bare.__code__, {'__builtins__': {'max': lambda a, b: 7 * a}}, 'reward')",
    "a descriptor": "class D:\n    def __init__(self, k): self.k = k\n    def __get__(self, o, t=None): return self.k\nclass C:\n    K = D(7)\ndef reward(s, a, y, p): return C.K * a",
    "a metaclass": "class M(type):\n    def __getattr__(c, n): return 7\nclass C(metaclass=M): pass\ndef reward(s, a, y, p): return C.K * a",
    "a name behind another": "def h(x): return x\nh.__qualname__ = 'h7'\ndef reward(s, a, y, p): return float(h.__qualname__[1:]) * a",
    "a class's name": "c = type('C7', (), {})()\ndef reward(s, a, y, p): return float(type(c).__name__[1:]) * a",
    "what a pattern matches": "class C:\n    __match_args__ = ('m7',)\n    def __getattr__(self, n): return float(n == 'm' + chr(55))\nc = C()\ndef reward(s, a, y, p):\n    match c:\n        case C(1.0): return a\n    return 0.0",
    "a field's name in an array": "import numpy as np\nT = np.zeros(1, dtype=[('k7', 'f8')])\ndef reward(s, a, y, p): return float(T.dtype.names[0][1:]) * a",
    "a field's name in a dtype": "import numpy as np\nT = np.dtype([('k7', 'f8')])\ndef reward(s, a, y, p): return float(T.names[0][1:]) * a",
    "a deque's length": "import collections\nT = collections.deque([], maxlen=7)\ndef reward(s, a, y, p): return T.maxlen * a",
    "an enum's private method": "class E(enum.Enum):\n    A = 1\n    def _k(self): return 7\ndef reward(s, a, y, p): return E.A._k() * a",
    "an enum's own call": "class E(enum.Enum):\n    A = 1\n    def __call__(self): return 7\ndef reward(s, a, y, p): return E.A() * a",
    "an enum's making": "class E(enum.Enum):\n    A = 1\n    def __init__(self, x): self.k = 7 * x\ndef reward(s, a, y, p): return E.A.k * a",
    "an attribute of an enum's member": "class E(enum.Enum):\n    A = 1\nE.A.k = 7\ndef reward(s, a, y, p): return E.A.k * a",
    "an enum's hidden attribute": "class E(enum.Enum):\n    A = 1\n    __k = 7\n    def k(self): return self.__k\ndef reward(s, a, y, p): return E.A.k() * a",
    "a flag's length": "class E(enum.Flag):\n    A = 1\n    def __len__(self): return 7\ndef reward(s, a, y, p): return len(E.A) * a",
    "other defaults of the state": "class S(NamedTuple):\n    x: float\nS.__new__.__defaults__ = (7.0,)\ndef step(s, a, y, p): return S()\ndef reward(s, a, y, p): return a",
    "a getter": "f = operator.itemgetter(7)\nT = (0,) * 9\ndef reward(s, a, y, p): return f(T)",
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_a_changed_number_is_another_hash(place: str) -> None:
    text = PLACES[place]
    assert text.count("7") == 1, "the number stands once"
    assert task_of(text).source_hash == task_of(text).source_hash
    assert task_of(text).source_hash != task_of(text.replace("7", "8")).source_hash


@pytest.mark.parametrize("through", ["m.k", "m.inner.k", "m.C.k", "m.h()"])
def test_what_is_read_through_a_module_counts(through: str) -> None:
    def made(k: float) -> uc.Task:
        m = types.ModuleType("m")
        inner = types.ModuleType("inner")
        inner.__dict__.update(k=k)
        m.__dict__.update(k=k, inner=inner, C=type("C", (), {"k": k}), h=eval("lambda: K", {"K": k}))
        task = task_of(f"def reward(s, a, y, p): return {through} * a")
        task.reward.__globals__["m"] = m
        return task

    assert made(7).source_hash == made(7).source_hash
    assert made(7).source_hash != made(8).source_hash


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


def test_a_cache_forgets_what_it_kept_of_rules_that_have_changed() -> None:
    task = task_of("K = 7\n@functools.lru_cache\ndef h(x): return K * x\ndef reward(s, a, y, p): return h(a)")
    before, state = task.source_hash, task.state(0.0)
    assert task.reward(state, 1.0, 0.0, None) == 7
    task.reward.__globals__["K"] = 8
    assert task.source_hash != before
    assert task.reward(state, 1.0, 0.0, None) == 8


def test_recursion_and_mutual_recursion_end() -> None:
    text = "def f(n): return 1 if n < 1 else g(n - 1)\ndef g(n): return f(n - 1)\ndef reward(s, a, y, p): return f(3)"
    assert task_of(text).source_hash == task_of(text).source_hash
    looped = "T = []\nT.append(T)\ndef reward(s, a, y, p): return len(T)"
    assert task_of(looped).source_hash == task_of(looped).source_hash


REFUSED = {
    "a lock": ("L = threading.Lock()", "L", "lock"),
    "an open file": ("L = open(os.devnull)", "L", "TextIOWrapper"),
    "a generator": ("L = (x for x in [1])", "L", "generator"),
    "a source of random numbers": ("L = random.Random(1)", "L", "Random"),
    "numpy's random numbers": ("L = np.random.default_rng(1)", "L", "Generator"),
    "a lock inside an object": ("class C: pass\nL = C()\nL.inner = threading.Lock()", "L", "L.inner"),
    "a lock in a dictionary": ("L = {'k': [threading.Lock()]}", "L", r"L\['k'\]\[0\]"),
    "the environment": ("L = os.environ", "L", "_Environ"),
    "a module as a value": ("import types\nm = types.ModuleType('other')\ndef L(): return m", "L()", "module 'other'"),
    "a look through all names": ("def L(): return globals()", "L()", "globals"),
    "an evaluated text": ("def L(): return eval('1')", "L()", "eval"),
    "the environment by a function": ("def L(): return os.getenv('K')", "L()", "os.getenv"),
    "a file": ("from pathlib import Path\ndef L(): return Path('k').exists()", "L()", "pathlib.Path"),
    "an array in a file": ("", "np.load", "numpy.*load"),
    "the builtin open by its module": ("import builtins", "builtins.open", "open"),
    "a clock": ("import time", "time.time()", "time.time"),
    "a clock of datetime": ("from datetime import datetime", "datetime.now()", "datetime.now"),
    "a clock under another name": ("from datetime import datetime\nL = datetime.now", "L()", "now"),
    "a clock of a local name": (
        "import datetime\ndef L():\n    d = datetime.datetime\n    return d.now()",
        "L()",
        "now",
    ),
    "a clock in a list": ("import datetime\nL = [datetime.date]", "L[0].today()", "today"),
    "a clock by its text": ("import datetime", "getattr(datetime.datetime, 'now')()", "now"),
    "a clock by a caller": (
        "import datetime, operator\nL = operator.methodcaller('now')",
        "L(datetime.datetime)",
        "now",
    ),
    "a clock of numpy": ("", "np.datetime64('today')", "today"),
    "a text's hash": ("", "hash('x')", "hash"),
    "an address": ("", "id(s)", "id"),
    "an array's address": ("L = np.zeros(1)", "L.__array_interface__", "__array_interface__"),
    "how often a cache was asked": (
        "import functools\n@functools.lru_cache\ndef L(x): return x",
        "L.cache_info().hits",
        "cache_info",
    ),
    "keyword defaults that nothing takes": (
        "def L(x): return x\nL.__kwdefaults__ = {'k': 7}",
        "L.__kwdefaults__['k']",
        "__kwdefaults__",
    ),
    "what a decorator kept": ("def L(x): return x\nL.__wrapped__ = abs", "L.__wrapped__(a)", "__wrapped__"),
    "the precision of decimals": ("import decimal", "decimal.getcontext().prec", "precision"),
    "numpy's settings": ("", "np.geterr()", "geterr"),
    "a module by its name": ("import importlib", "importlib.import_module('math')", "importlib.import_module"),
    "a module inside the function": ("", "import os", "import os"),
    "a frame": ("import sys", "sys._getframe().f_globals", "f_globals"),
    "a helper's globals": ("def L(): pass", "L.__globals__", "__globals__"),
    "an annotation": ("def L(x: 7): pass", "L.__annotations__", "__annotations__"),
    "a bound method of hidden content": ("L = random.Random(1).random", "L()", "random"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_hashed_is_named_and_the_search_goes_on(name: str) -> None:
    text, use, part = REFUSED[name]
    head = "import threading, os, random\nimport numpy as np\n"
    task = task_of(f"{head}{text}\ndef reward(s, a, y, p):\n    {use}\n    return a * y")
    with pytest.raises(TaskError, match=rf"cannot be recorded: reward.*{part}"):
        _ = task.source_hash
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


class S(NamedTuple):
    x: float


RATE = 2.0
TABLE = np.array([1.0, 2.0])
NESTED = {"k": [1.0]}


def scaled(s: Any, a: float, y: float, p: Any) -> float:
    return float(RATE * a + TABLE[0] + NESTED["k"][0])


def test_a_changed_rule_is_seen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {k: getattr(task_of("def reward(s, a, y, p): return a"), k) for k in ("feasible", "step", "fallback")}
    task = uc.Task(name="t", state=S, actions=[0.0], reward=scaled, **parts)
    first, reach = task.source_hash, task.reach()
    assert task.reach() is reach
    monkeypatch.setitem(globals(), "RATE", 3.0)
    assert task.source_hash != first
    monkeypatch.setitem(globals(), "RATE", 2.0)
    assert task.source_hash == first
    TABLE[0] = 5.0
    assert task.source_hash != first
    TABLE[0] = 1.0
    assert task.source_hash == first
    NESTED["k"].append(4.0)
    assert task.source_hash != first
    NESTED["k"].pop()
    monkeypatch.setattr(scaled, "__defaults__", (1.0,))
    assert task.source_hash != first
    monkeypatch.undo()
    assert task.source_hash == first


@pytest.mark.parametrize(
    "change",
    [
        "Pair.__new__.__defaults__ = (8.0,)", "Pair.__new__ = lambda cls, x=8.0: tuple.__new__(cls, (x,))",
        "TABLE.shape = (3, 2)", "TABLE.dtype = 'i8'",
    ],
)  # fmt: skip
def test_tuples_and_arrays_changed_in_place_are_seen(change: str) -> None:
    space = vars(
        rules(
            """
            from typing import NamedTuple
            import numpy as np
            class Pair(NamedTuple):
                x: float = 7.0
            TABLE = np.arange(6.0).reshape(2, 3)
            def reward(s, a, y, p): return Pair().x * TABLE[1, 0]
            """
        )
    )
    task = task_of("def reward(s, a, y, p): return a", reward=space["reward"])
    first = task.source_hash
    exec(change, space)
    assert task.source_hash != first


SEPARATE = """
from typing import NamedTuple
import dataclasses, functools
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
def step(s, a, y, p): return S(s.x + a)
def reward(s, a, y, p): return helper(a) * TARIFF.rate(s.x)
def fallback(s, p): return 0.0
import ucsearch as uc
TASK = uc.Task(name="t", state=S, actions=[0.0, 1.0], feasible=feasible, step=step, reward=reward, fallback=fallback)
"""


def test_the_hash_is_the_same_in_every_process_and_without_the_text(tmp_path: Path) -> None:
    source = tmp_path / "with_text" / "separate.py"
    source.parent.mkdir()
    source.write_text(SEPARATE)
    bare = tmp_path / "bare"
    bare.mkdir()
    py_compile.compile(str(source), cfile=str(bare / "separate.pyc"), doraise=True)
    seen = []
    for folder, seed in ((source.parent, "1"), (source.parent, "2"), (bare, "3")):
        where = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
        code = "import separate; print(separate.TASK.source_hash)"
        done = subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": where, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        seen.append(done.stdout.split())
    assert seen[0][0] == seen[1][0] == seen[2][0]


def test_a_walk_is_let_go_with_its_task() -> None:
    import gc
    import weakref

    def throw_away(k: float) -> Any:
        def reward(s: Any, a: float, y: float, p: Any) -> float:
            return k * a

        task = task_of("def reward(s, a, y, p): return a", reward=reward)
        _ = task.source_hash
        return weakref.ref(reward)

    refs = [throw_away(float(k)) for k in range(3)]
    gc.collect()
    assert [ref() for ref in refs] == [None] * 3


def _asked_often(rule: Any) -> Any:
    reach = reach_of({"rule": rule})
    for _ in range(reached._OFTEN + 2):
        assert reach.unchanged()
    assert reach.straight is not None
    return reach


@pytest.mark.parametrize(
    "change",
    [
        "LIMIT = 4.0", "LIMIT = 3.0 + 0.0", "del LIMIT", "max = min", "helper.__code__ = other.__code__", "helper = other",
        "helper.__defaults__ = (2.0,)", "helper.__kwdefaults__ = {'w': 1.0}", "rule.__code__ = other.__code__",
        "Kind.K = 8.0", "Kind.J = 8.0", "del Kind.K", "rule.note = 1.0", "one.k = 2.0",
    ],
)  # fmt: skip
def test_what_is_asked_often_is_answered_as_before(change: str) -> None:
    space: dict[str, Any] = {"__name__": "asked_often"}
    exec(
        "LIMIT = float('3.0')\n"
        "def helper(x, y=1.0, *, w=0.0):\n    return max(x, y) + w\n"
        "def other(x, y=1.0, *, w=0.0):\n    return x\n"
        "class Kind:\n    __slots__ = ('k',)\n    K = 7.0\n"
        "one = Kind()\none.k = float('1.5')\n"
        "def rule(x, y=1.0, *, w=0.0):\n    return helper(x) < LIMIT + Kind.K + one.k\n",
        space,
    )
    reach = _asked_often(space["rule"])
    exec(change, space)
    assert not reach.unchanged()
