"""The verifier's machine code: as the plain rules say it, and never the last word on a false claim."""

from __future__ import annotations

import copy
import math
import os
import subprocess
import sys
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from tests.verify.test_verify_closed import CASES, STATE, TASK, made
from ucsearch.records.canonical import seal
from ucsearch.records.record import decision_record
from ucsearch.verify.decision import closed, machine
from ucsearch.verify.decision.claims import verify_decision
from ucsearch.verify.decision.dialect import NotCompiled, read
from ucsearch.verify.decision.machine import Machine
from ucsearch.verify.read import canonical, loads
from ucsearch.verify.verdict import Invalid


class Interpreted(machine.Engine):
    """The same loops without numba."""

    def jit(self, function):
        return function

    jit_inline = jit_rule = jit

    def call(self, name, function, *args):
        with np.errstate(over="ignore"):
            return function(*args)


@cache
def interpreted():
    return Interpreted()


@pytest.fixture(autouse=True)
def loops(monkeypatch, request):
    if not request.node.get_closest_marker("compiled"):
        monkeypatch.setattr(machine, "engine", interpreted)


@pytest.fixture
def asked(monkeypatch):
    """How often each way was gone."""
    ways = {"machine": 0, "plain": 0}

    def counted(name, function):
        def call(*args, **options):
            ways[name] += 1
            return function(*args, **options)

        return call

    monkeypatch.setattr(machine.CompiledGraph, "acts", counted("machine", machine.CompiledGraph.acts))
    monkeypatch.setattr(closed, "_by_plain_rules", counted("plain", closed._by_plain_rules))
    return ways


def verdict(record, blobs, task=TASK, budget=2_000_000, own=None):
    """Where it is false, or what is left in doubt."""
    try:
        return verify_decision(
            loads(canonical(record)), blobs.get, task, budget, Machine(worth=0) if own is None else own
        )
    except Invalid as error:
        return error.where


@pytest.mark.parametrize("name", CASES)
def test_true_records_are_valid(name, asked):
    assert verdict(*made(name)) == []
    assert asked["plain"] == (name == "joint")
    assert bool(asked["machine"]) == (name not in ("joint", "budget"))


@pytest.mark.compiled
@pytest.mark.parametrize("name", ["lattice", "tree", "risk"])
def test_true_records_are_valid_compiled(name, asked):
    assert verdict(*made(name)) == []
    assert asked["plain"] == 0


@pytest.mark.parametrize("name", ["lattice", "weighted", "markov", "tree", "risk"])
def test_every_figure_is_that_of_the_plain_rules(name, monkeypatch):
    graphs = []
    grow = machine.CompiledGraph.grow
    monkeypatch.setattr(machine.CompiledGraph, "grow", lambda self, *a: (grow(self, *a), graphs.append(self))[0])
    record, blobs = made(name)
    assert verdict(record, blobs) == []
    (own,) = graphs
    risks = (own.p.risk, 0.0) if own.p.risk > 0 else (0.0,)
    plain = closed.PlainGraph(own.p, own.law)
    assert (own.states, own.pairs, own.transitions) == (plain.states, plain.pairs, plain.transitions)
    for which, risk in enumerate(risks):
        solution = closed._Solution(plain, risk)
        for h, layer in enumerate(own.layers):
            found = {
                (int(layer.kinds[i]), own.state(h, i)): own.value(which, h, (int(layer.kinds[i]), i))
                for i in range(layer.known)
            }
            assert found == solution.values[h]  # to the last bit


FORGERIES = {
    "rivals__0__score": lambda x: x * 1.000001, "rivals__1__reward": lambda x: x + 1e-3,
    "claim__gap": lambda x: x + 0.1, "claim__states": lambda x: x + 1, "claim__transitions": lambda x: x - 1,
    "claim__optimal": lambda x: not x, "rivals__0__path": lambda x: [*x[:-1], (x[-1] + 1) % 4],
}  # fmt: skip


def forged(name, path, change):
    record, blobs = copy.deepcopy(made(name))
    at, *keys = record, *path.split("__")
    for key in keys[:-1]:
        at = at[int(key)] if isinstance(at, list) else at[key]
    at[keys[-1]] = change(at[keys[-1]])
    record.pop("id", None)
    return seal(record), blobs


@pytest.mark.parametrize("path", FORGERIES)
def test_forgeries_are_false_by_the_plain_rules(path, asked):
    record, blobs = forged("lattice", path, FORGERIES[path])
    where = verdict(record, blobs)
    assert str(where).startswith(path.partition("__")[0])
    assert asked["plain"] == 1  # nothing is called false on the word of machine code


def other_reward(s, a, y, p):
    return 1.0


def test_loops_of_other_rules_are_found_by_what_is_drawn(monkeypatch, asked):
    """Whatever machine code says: the record is false, or true, as the plain rules have it."""
    import dataclasses

    lies = dataclasses.replace(TASK, reward=other_reward)
    monkeypatch.setattr(machine, "engine", Interpreted)
    walk = Interpreted.walk
    monkeypatch.setattr(Interpreted, "walk", lambda self, p, form: walk(self, _with(p, lies), form))
    assert verdict(*made("lattice")) == []
    assert asked == {"machine": 0, "plain": 1}
    record = decision_record(uc.decide(lies, STATE, CASES["lattice"][0](), uc.Exact(depth=3, mode="closed"),
                                       run=uc.Run(engine="python")))  # fmt: skip
    forged, blobs = copy.deepcopy(record)
    forged["task"] = made("lattice")[0]["task"]
    forged.pop("id", None)
    assert isinstance(verdict(seal(forged), blobs), str)


def _with(p, task):
    other = copy.copy(p)
    other.task = task
    return other


@pytest.mark.parametrize("part", ["may", "move", "end"])
def test_a_difference_anywhere_is_drawn(part, monkeypatch, asked):
    rules = machine._rules

    def wrong(*args):
        own = rules(*args)
        change = {
            "may": lambda s, a, h, p: 0.0 if a == 6.0 else own.may(s, a, h, p),
            "move": lambda s, a, y, h, p: own.move(s, a, y + 1.0, h, p),
            "end": lambda s, p: own.end(s, p) + 1.0,
        }[part]
        return own._replace(**{part: change})

    monkeypatch.setattr(machine, "_rules", wrong)
    monkeypatch.setattr(machine, "engine", Interpreted)  # nothing is kept of what others compiled
    assert verdict(*made("lattice")) == []
    assert asked == {"machine": 0, "plain": 1}


# -------------------------------------------------------------------- what is left to Python


class S(NamedTuple):
    x: float


def power(s, a, y, p):
    return -((s.x - y) ** 2)


def unassigned(s, a, y, p):
    if y > 1.0:
        found = y
    return found if y > 1.0 else 0.0


def comprehended(s, a, y, p):
    return sum([y for _ in range(2)])


def default(s, a, y, p, z=1.0):
    return z


def recursive(s, a, y, p):
    return recursive(s, a, y - 1.0, p) if y > 0.0 else 0.0


def tried(s, a, y, p):
    try:
        return 1.0 / y
    except ZeroDivisionError:
        return 0.0


def rounded(s, a, y, p):
    return float(round(y))


def fresh(s, a, y, p):
    for _ in range(1):
        last = y
    return last


def spelled(s, a, y, p):
    return float(str(y))


ODD = [power, unassigned, comprehended, default, tried, rounded, fresh, spelled, lambda s, a, y, p: y, min]


@pytest.mark.parametrize("rule", ODD, ids=lambda rule: rule.__name__)
def test_other_forms_are_left_to_python(rule):
    import hashlib

    with pytest.raises(NotCompiled):
        list(read(rule, hashlib.sha256()))


def branches(s, a, y, p):
    if y > 1.0:
        found = y
    elif y > 0.0:
        found = -y
    else:
        return 0.0
    total: float = 0.0
    for i in range(3):
        total += found * i
        if total > 9.0:
            break
    return min(total, 8.0) + math.sqrt(abs(s.x))


def test_usual_forms_are_compiled():
    import hashlib

    assert [name for name, _ in read(branches, hashlib.sha256())] == ["abs", "math", "min", "range"]


def simple(reward, demand=(0.0, 1.0, 2.0), **options: Any):
    def always(s, a, p):
        return True

    def step(s, a, y, p):
        return S(max(s.x + a - y, 0.0))

    def none(s, p):
        return 0.0

    task = uc.Task(name="simple", state=S, actions=(0.0, 1.0, 2.0), feasible=always, step=step, reward=reward,
                   fallback=none, **options)  # fmt: skip
    law = uc.Trace.from_members([[y, y] for y in demand]).declare("independent")
    return task, decision_record(uc.decide(task, S(1.0), law, uc.Exact(depth=2, mode="closed"),
                                           run=uc.Run(engine="python")))  # fmt: skip


def hidden(s, a, y, p):
    return min(math.sqrt(y - s.x), 5.0) - a


def divided(s, a, y, p):
    return 1.0 / (s.x - y)


@pytest.mark.compiled
@pytest.mark.parametrize("reward", [hidden, divided])
def test_what_raises_in_python_is_left_to_python(reward, asked):
    """Machine code alone would go on with NaN under `min`, or with infinity."""
    task, (record, blobs) = simple(reward)
    assert record["outcome"]["cause"] == "task_error"
    assert verdict(record, blobs, task) == []
    assert asked == {"machine": 0, "plain": 1}


@pytest.mark.compiled
def test_usual_rules_with_branches_are_verified_compiled(asked):
    task, (record, blobs) = simple(branches)
    assert verdict(record, blobs, task) == []
    assert asked == {"machine": 1, "plain": 0}


class Counts(NamedTuple):
    times: int
    places: tuple[int, ...]
    cost: float


class Unwrapped(NamedTuple):
    times: int
    places: tuple[int, ...]
    cost: float


def by_counts(s, a, y, p):
    total = s.x
    for _ in range(p.times + p.places[1]):
        total -= p.cost * a
    return total - y


@pytest.mark.compiled
@pytest.mark.parametrize("kind", [Counts, Unwrapped])
@pytest.mark.parametrize("mode", ["closed", "members"])
def test_parameters_that_are_whole_numbers(kind, mode, asked):
    """`range` takes no float: the rules are given what they were decided with."""
    task, _ = simple(by_counts, params=kind(2, (0, 1), 0.25))
    law = uc.Trace.from_members([[y, y] for y in (0.0, 1.0, 2.0)]).declare("independent")
    record, blobs = decision_record(
        uc.decide(task, S(1.0), law, uc.Exact(depth=2, mode=mode), run=uc.Run(engine="python"))
    )
    assert verdict(record, blobs, task) == []
    assert asked["machine"] == (mode == "closed")
    forged = copy.deepcopy(record)
    forged["inputs"]["params"][0] = 1.5
    forged.pop("id")
    assert verdict(seal(forged), blobs, task) == "inputs.params"


# -------------------------------------------------------------------- one law for many


def many(n=6):
    law = CASES["lattice"][0]()
    states = [STATE._replace(on_hand=float(i % 5)) for i in range(n)]
    policy = uc.Exact(depth=3, mode="closed")
    return [decision_record(uc.decide(TASK, s, law, policy, run=uc.Run(engine="python"))) for s in states]


def test_decisions_under_one_law_are_valued_together(monkeypatch, asked):
    laws = []
    set_ = machine.CompiledGraph.set
    monkeypatch.setattr(machine.CompiledGraph, "set", lambda self, *a: (laws.append(1), set_(self, *a))[1])
    own = Machine(worth=0)
    for record, blobs in many():
        assert verdict(record, blobs, own=own) == []
        assert verdict(record, blobs, budget=record["claim"]["transitions"], own=own) == []
    assert len(laws) == 1
    assert asked["plain"] == 0
    counts = {record["claim"]["transitions"] for record, _ in many()}
    assert len(counts) > 1
    record, blobs = copy.deepcopy(many()[1])
    record["claim"]["transitions"] += 1
    record["claim"]["counters"]["expansions"] += 1
    record.pop("id")
    assert verdict(seal(record), blobs, own=own) == "claim.transitions"


def test_another_law_begins_anew(asked):
    own = Machine(worth=0)
    for name in ("lattice", "weighted", "lattice", "risk", "budget", "lattice"):
        assert verdict(*made(name), own=own) == [], name
    assert asked["plain"] == 0


def test_the_budget_holds(asked):
    record, blobs = made("lattice")
    assert verdict(record, blobs, budget=record["claim"]["transitions"] - 1) == ["claim"]
    assert asked == {"machine": 0, "plain": 0}


def test_few_transitions_are_not_worth_compiling(asked):
    record, blobs = made("lattice")
    own = Machine(worth=3 * record["claim"]["transitions"] - 1)
    for _ in range(3):
        assert verdict(record, blobs, own=own) == []
    assert asked == {"machine": 1, "plain": 2}


# -------------------------------------------------------------------- code on disk, and none at all

PROGRAM = """
import sys
from tests.verify.test_verify_closed import TASK, made
from ucsearch.verify import verify_record
from ucsearch.verify.decision import machine
machine.WORTH, compiled = 0, []
machine.Machine.__init__.__defaults__ = (0,)
if len(sys.argv) > 1:
    sys.modules["numba"] = None
else:
    from numba.core.dispatcher import Dispatcher
    compile_ = Dispatcher.compile
    Dispatcher.compile = lambda self, sig: (compiled.append(self.py_func.__name__), compile_(self, sig))[1]
print(verify_record(*made("lattice"), TASK).status, "expand" in compiled)
"""


def run(folder, *args):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *args], env={**os.environ, "UCSEARCH_CACHE_DIR": str(folder)},
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    return done.stdout.split()


@pytest.mark.compiled
def test_machine_code_is_kept_and_damaged_files_are_made_again(tmp_path):
    tmp_path.chmod(0o700)
    assert run(tmp_path) == ["valid", "True"]
    kept = sorted((tmp_path / "verify").iterdir())
    assert {file.name.partition("-")[0] for file in kept} == {"expand", "ends", "layer"}
    assert run(tmp_path) == ["valid", "False"]
    for file in kept:
        file.write_bytes(b"damaged")
    assert run(tmp_path) == ["valid", "True"]
    assert run(tmp_path) == ["valid", "False"]
    (tmp_path / "verify").chmod(0o777)  # whoever else may write there could have put code there
    assert run(tmp_path) == ["valid", "True"]


def test_without_numba_the_plain_rules_are_asked(tmp_path):
    assert run(tmp_path, "without") == ["valid", "False"]
