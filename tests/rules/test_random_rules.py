"""Rules drawn at random from the dialect: plain and compiled agree to the last bit, or the compiled one raises."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Iterator

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.rules import PARAMS, State, assert_same, cases, outside, rule_of, task_of
from ucsearch.engine.arrays import Status
from ucsearch.errors import UncompilableWarning

pytestmark = pytest.mark.compiled
FLOATS = [
    "a",
    "y",
    "s.x",
    "p.k",
    "RATE",
    "s.q[0]",
    "s.q[-1]",
    "p.limits[1]",
    "0.0",
    "1.0",
    "-0.5",
    "2.5",
    "1e-3",
    "7.0",
]
WHOLES = ["p.n", "0", "1", "2", "-3", "FIVE", "len(s.q)", "p.places[0]", "GRID.shape[1]", "WHOLES[2]"]
ON_CPU = ["sin", "cos", "tanh", "atan", "exp", "log1p", "expm1"]


class Writer:
    """Writes one rule. Names are given a value before they are read."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.floats: list[str] = list(FLOATS)
        self.wholes: list[str] = list(WHOLES)
        self.lines: list[str] = []
        self.names = 0

    def text(self) -> str:
        for _ in range(self.rng.randrange(4)):
            self.statement("", 2)
        self.lines.append(f"return {self.number(3)}")
        return "\n".join(self.lines)

    def one(self, *ways: str) -> str:
        return self.rng.choice(ways)

    def number(self, depth: int) -> str:
        """A float, or a whole number that meets one."""
        if depth == 0 or self.rng.random() < 0.15:
            return self.rng.choice(self.floats)
        x, z = (lambda: self.number(depth - 1)), (lambda: self.whole(depth - 1))
        way = self.rng.randrange(16)
        if way < 5:
            return f"({x()} {self.one('+', '-', '*', '/', '-')} {x()})"
        if way == 5:
            return f"({x()} {self.one('//', '%')} {x()})"
        if way == 6:
            return f"({x()} {self.one('+', '-', '*', '/', '//', '%')} {z()})"
        if way == 7:
            return f"({z()} {self.one('+', '-', '*', '/', '//', '%')} {x()})"
        if way == 8:
            return f"{self.one('min', 'max')}({x()}, {x()})"
        if way == 9:
            return self.one(f"abs({x()})", f"-{x()}", f"float({z()})", f"max(s.q[{self.one(':2', '1:', '::2')}])")
        if way == 10:
            return f"math.sqrt({self.one(f'abs({x()})', x())})"
        if way == 11:
            return f"math.{self.rng.choice(ON_CPU)}({x()})"
        if way == 12:
            return f"({x()} if {self.truth(depth - 1)} else {x()})"
        if way == 13:
            return self.one(f"s.q[{z()}]", f"FLOATS[{z()}]", f"GRID[{z()}, {z()}]", f"GRID[{z()}][{z()}]")
        if way == 14:
            return f"(s.q[1:] + ({x()},))[{z()}]"
        return self.one(f"({x()} or {x()})", f"({x()} and {x()})", f"({z()} / {z()})")

    def whole(self, depth: int) -> str:
        if depth == 0 or self.rng.random() < 0.3:
            return self.rng.choice(self.wholes)
        z = lambda: self.whole(depth - 1)  # noqa: E731
        return self.one(
            f"({z()} + {z()})", f"({z()} - {z()})", f"({z()} * {z()})", f"({z()} // {z()})", f"({z()} % {z()})",
            f"min({z()}, {z()})", f"max({z()}, {z()})", f"abs({z()})", f"-{z()}",
            f"math.floor({self.number(depth - 1)})", f"math.ceil({self.number(depth - 1)})",
            f"({z()} if {self.truth(depth - 1)} else {z()})",
        )  # fmt: skip

    def truth(self, depth: int) -> str:
        if depth <= 0:
            return f"{self.rng.choice(self.floats)} {self.one('<', '>=', '==', '!=')} {self.rng.choice(self.floats)}"
        x, t = (lambda: self.number(depth - 1)), (lambda: self.truth(depth - 1))
        return self.one(
            f"{x()} < {x()}", f"{x()} <= {x()} < {x()}", f"({t()} and {t()})", f"({t()} or {t()})", f"not {t()}",
            f"{self.whole(depth - 1)} <= {self.whole(depth - 1)}", f"{x()} > {self.rng.choice(self.wholes)}",
            f"({t()}) == ({t()})",
        )  # fmt: skip

    def name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"

    def block(self, indent: str, depth: int) -> None:
        """Lines below an if or a loop; what gets its first value there is not read elsewhere."""
        floats, wholes = list(self.floats), list(self.wholes)
        for _ in range(1 + self.rng.randrange(2)):
            self.statement(indent + "    ", depth - 1)
        self.floats, self.wholes = floats, wholes

    def statement(self, indent: str, depth: int) -> None:
        add = lambda line: self.lines.append(indent + line)  # noqa: E731
        own = [name for name in self.floats if name.startswith("f")]
        way = self.rng.randrange(9) if depth else self.rng.randrange(4)
        if way == 0 or not own:
            name = self.name("f")
            add(f"{name} = {self.number(2)}" if self.rng.random() < 0.7 else f"{name}, _ = {self.number(1)}, 1")
            self.floats.append(name)
        elif way == 1:
            add(f"{self.rng.choice(own)} {self.one('+=', '-=', '*=')} {self.number(2)}")
        elif way == 2:
            name = self.name("n")
            add(f"{name} = {self.whole(1)}")
            self.wholes.append(name)
        elif way == 3:
            add(f"{self.rng.choice(own)} = {self.number(2)}")
        elif way in (4, 5):
            add(f"if {self.truth(1)}:")
            self.block(indent, depth)
            if way == 5:
                add("else:")
                self.block(indent, depth)
        else:
            name = self.name("f" if way == 6 else "n")
            if way == 6:
                add(f"for {name} in s.q{self.one('', '[1:]', ' + (y, a)')}:")
                self.floats.append(name)
            else:
                add(f"for {name} in range({self.one('p.n', '3', 'len(s.q)', '1, 7, 2', '4, -1, -1')}):")
                self.wholes.append(name)
            if self.rng.random() < 0.3:
                add(f"    if {self.truth(0)}:\n{indent}        {self.one('break', 'continue')}")
            self.block(indent, depth)
            (self.floats if way == 6 else self.wholes).remove(name)


def rules(first: int, count: int) -> Iterator[str]:
    """Random rules that are inside; a few are not: a whole number may grow too large, or an index is not there."""
    seed, made = first, 0
    while made < count:
        text = Writer(seed).text()
        seed += 1
        found = outside(rule_of(text))
        assert not found or re.search(r"64 bits|2\*\*53|^index -?\d", found[0].what), (text, found)
        if not found:
            made += 1
            yield text
    assert seed - first < 2 * count + 10


def hold(first: int, count: int) -> None:
    compared = 0
    for text in rules(first, count):
        compared += assert_same(rule_of(text), cases()[::3], text)
    assert compared > 10 * count  # most answers are numbers


def in_kernels(first: int, count: int) -> None:
    """The same rules through whole searches: every output of both engines, byte by byte."""
    rng = np.random.default_rng(first)
    states = [State(float(x), (float(y), 0.5, -float(x))) for x, y in rng.normal(0.0, 2.0, (12, 2)).round(1)]
    outcomes = rng.normal(1.0, 2.0, (12, 3, 2)).round(1)
    searched = 0
    for text in rules(first, count):
        task = task_of(rule_of(text))
        policy = uc.UCBeam(depth=2, width=3, top_k=3, risk=0.25) if first % 2 else uc.Exact(depth=2, risk=0.25)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UncompilableWarning)
            fast = uc.search_panel(task, states, outcomes, policy, params=PARAMS, engine="compiled", threads=1)
        plain = uc.search_panel(task, states, outcomes, policy, params=PARAMS, engine="python", threads=1)
        assert fast.engine == "compiled"
        for name, a, b in zip(fast.outputs._fields, fast.outputs, plain.outputs, strict=True):
            assert a.tobytes() == b.tobytes(), (text, name)
        searched += sum(status == Status.FOUND for status in plain.status)
        first += 1
    assert searched


def test_random_rules_are_the_same_compiled() -> None:
    hold(0, 40)


def test_random_rules_are_the_same_in_whole_kernels() -> None:
    in_kernels(50_007, 1)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_ten_thousand_random_rules(part: int) -> None:
    hold(1_000_000 * (part + 1), 1_000)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_two_hundred_random_rules_in_whole_kernels(part: int) -> None:
    in_kernels(50_000_000 * (part + 1), 20)
