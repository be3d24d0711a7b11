"""True regret of what is released, by rational arithmetic, in every mode.

All plans share large amounts: a penalty in every step, or an amount that is paid at first and comes back at last. The
rules themselves are evaluated in fractions, so that the rounding of rules, sums, spreads and recursions is all in it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

import ucsearch as uc
from tests.kit.counts import ALL, some
from ucsearch.certificate.claims import CANCELLED, LEAST, share
from ucsearch.records.record import decision_record
from ucsearch.verify import verify_record

CASES = 20_000
M, PLACES = 3, 2
MODES = (
    "scores", "mean", "members std", "members variance", "members downside", "members cvar", "closed", "closed cvar",
)  # fmt: skip


class At(NamedTuple):
    step: float
    place: float
    owed: float  # 1 where the first action paid what comes back


class Terms(NamedTuple):
    common: tuple[float, ...]  # by step: what every plan pays or gets
    table: tuple[float, ...]  # by step, place and action
    slope: tuple[float, ...]  # by action, times the outcome
    unit: float  # of money
    sunk: float  # paid by one first action only, and it comes back at last
    sinks: float  # which one
    last: float  # number of the last step


def feasible(s: At, a: float, p: Terms) -> bool:
    return not (s.step == 1.0 and s.place == 1.0 and a == 2.0)


def step(s: At, a: float, y: float, p: Terms) -> At:
    owed = 1.0 if s.step == 0.0 and a == p.sinks else s.owed
    return At(s.step + 1.0, 1.0 if y * (1.0 + a) > 1.0 else 0.0, owed)


def reward(s: At, a: float, y: float, p: Terms) -> float:
    at = (math.floor(s.step) * PLACES + math.floor(s.place)) * M + math.floor(a)
    value = p.common[math.floor(s.step)] + p.unit * (p.table[at] + p.slope[math.floor(a)] * y)
    if s.step == 0.0 and a == p.sinks:
        value -= p.sunk
    if s.step == p.last:
        value += p.sunk * s.owed
    return value


def fallback(s: At, p: Terms) -> float:
    return 0.0


NOTHING = Terms((0.0,) * 3, (0.0,) * (3 * PLACES * M), (0.0,) * M, 1.0, 0.0, 0.0, 0.0)
START = At(0.0, 0.0, 0.0)
TASK = uc.Task(
    name="shared", state=At, actions=[0, 1, 2], feasible=feasible, step=step, reward=reward, fallback=fallback,
    params=NOTHING, uses={"units": lambda s, a, p: a},
)  # fmt: skip


class Case(NamedTuple):
    terms: Terms
    trace: uc.Trace
    policy: Any
    gate: uc.Gate
    proof: uc.Proof


# -------------------------------------------------------------------- the same in fractions


def root(x: Fraction) -> Fraction:
    """A square root to a hundred digits."""
    scale = 10**200
    return Fraction(math.isqrt(x.numerator * scale * scale // x.denominator), scale)


def mean_of(values: Sequence[Fraction], weights: Sequence[Fraction]) -> Fraction:
    return sum((w * v for w, v in zip(weights, values, strict=True)), Fraction(0)) / sum(weights)


def tail_of(values: Sequence[Fraction], weights: Sequence[Fraction], tail: Fraction) -> Fraction:
    """Mean of the worst share."""
    left, total = tail * sum(weights), Fraction(0)
    for v, w in sorted(zip(values, weights, strict=True)):
        part = min(w, left)
        total, left = total + part * v, left - part
    return total / (tail * sum(weights))


def spread_of(values: Sequence[Fraction], weights: Sequence[Fraction], kind: str, tail: Fraction) -> Fraction:
    mean = mean_of(values, weights)
    if kind == "cvar":
        return mean - tail_of(values, weights, tail)
    apart = [min(v - mean, Fraction(0)) if kind == "downside" else v - mean for v in values]
    square = mean_of([x * x for x in apart], weights)
    return square if kind == "variance" else root(square)


class Truth:
    """Values without any rounding."""

    def __init__(self, case: Case) -> None:
        self.case, self.policy, trace = case, case.policy, case.trace
        self.risk, self.tail = Fraction(case.policy.risk), Fraction(case.policy.tail)
        self.factor = [Fraction(case.policy.discount) ** h for h in range(case.policy.depth)]
        self.common, self.table, self.slope = (
            [Fraction(x) for x in row] for row in (case.terms.common, case.terms.table, case.terms.slope)
        )
        self.weights = [Fraction(x) for x in trace.weights[0].tolist()]
        if case.policy.mode != "scores":
            self.members = trace.members[0, :, :, 0].tolist()
            self.mean = trace.mean[0, :, 0].tolist()
        self.values: dict[tuple[At, int], Fraction] = {}

    def reward(self, s: At, a: int, y: float) -> Fraction:
        at = (int(s.step) * PLACES + int(s.place)) * M + a
        terms, value = self.case.terms, self.table[at] + self.slope[a] * Fraction(y)
        value = self.common[int(s.step)] + Fraction(terms.unit) * value
        if s.step == 0.0 and a == terms.sinks:
            value -= Fraction(terms.sunk)
        return value + Fraction(terms.sunk) * int(s.step == terms.last and s.owed == 1.0)

    def score(self, path: Sequence[int]) -> Fraction | None:
        """Of a plan; None where it breaks a rule."""
        depth = range(self.policy.depth)
        if self.policy.mode == "scores":
            q, u = (x[0].tolist() for x in (self.case.trace.q, self.case.trace.u))
            walk = self._walk(path, [0.0] * self.policy.depth)
            parts = [self.factor[h] * (Fraction(q[h][path[h]]) - self.risk * Fraction(u[h][path[h]])) for h in depth]
            return None if walk is None else sum(parts, Fraction(0))
        if self.policy.mode == "mean":
            walk = self._walk(path, self.mean)
            if walk is None:
                return None
            total = Fraction(0)
            for h, s in enumerate(walk):
                edge = [self.reward(s, path[h], y[h]) for y in self.members]
                unsure = spread_of(edge, self.weights, self.policy.spread, self.tail)
                total += self.factor[h] * (self.reward(s, path[h], self.mean[h]) - self.risk * unsure)
            return total
        walks = [self._walk(path, y) for y in self.members]
        if any(walk is None for walk in walks):
            return None
        returns = [
            sum((self.factor[h] * self.reward(s, path[h], y[h]) for h, s in enumerate(walk or ())), Fraction(0))
            for walk, y in zip(walks, self.members, strict=True)
        ]
        unsure = spread_of(returns, self.weights, self.policy.spread, self.tail)
        return mean_of(returns, self.weights) - self.risk * unsure

    def _walk(self, path: Sequence[int], outcomes: Sequence[float]) -> list[At] | None:
        s, out = START, []
        for h, a in enumerate(path):
            if not feasible(s, float(a), self.case.terms):
                return None
            out.append(s)
            s = step(s, float(a), outcomes[h], self.case.terms)
        return out

    def value(self, s: At, a: int) -> Fraction:
        """Closed mode: of an action, with the best policy after it."""
        if (s, a) not in self.values:
            self.values[s, a] = self._value(s, a)
        return self.values[s, a]

    def _value(self, s: At, a: int) -> Fraction:
        h = int(s.step)
        ends = []
        for y in self.members:
            after = step(s, float(a), y[h], self.case.terms)
            best = Fraction(0)
            if h + 1 < self.policy.depth:
                best = max(self.value(after, b) for b in range(M) if feasible(after, float(b), self.case.terms))
            ends.append(self.reward(s, a, y[h]) + Fraction(self.policy.discount) * best)
        mean = mean_of(ends, self.weights)
        return mean if not self.risk else (1 - self.risk) * mean + self.risk * tail_of(ends, self.weights, self.tail)

    def firsts(self) -> dict[int, Fraction]:
        """Q of every first action."""
        start, best = START, dict[int, Fraction]()
        if self.policy.mode == "closed":
            return {a: self.value(start, a) for a in range(M)}
        for path in itertools.product(range(M), repeat=self.policy.depth):
            score = self.score(path)
            if score is not None:
                best[path[0]] = max(best.get(path[0], score), score)
        return best


# -------------------------------------------------------------------- cases


def terms_of(rng: np.random.Generator, depth: int) -> Terms:
    unit = 10.0 ** int(rng.integers(-12, 13))
    large = 0.0 if rng.random() < 0.2 else unit * 10.0 ** int(rng.integers(3, 16))
    kind = int(rng.integers(0, 3))
    if kind == 0 or depth == 1:
        common = [-large] * depth
    elif kind == 1:  # paid, and it comes back
        common = [large, *[0.0] * (depth - 2), -large]
    else:
        common = [-large * float(x) for x in rng.random(depth)]
    few = rng.random() < 0.3  # of few values many tie
    table = rng.integers(-2, 3, 3 * PLACES * M).astype(float) if few else rng.normal(0.0, 10.0, 3 * PLACES * M)
    slope = rng.integers(0, 3, M).astype(float) if few else rng.normal(0.0, 5.0, M)
    sunk = unit * 10.0 ** int(rng.integers(3, 16)) if depth > 1 and rng.random() < 0.3 else 0.0
    return Terms(
        tuple(common + [0.0] * (3 - depth)), tuple(table.tolist()), tuple(slope.tolist()), unit, sunk,
        float(rng.integers(0, M)), depth - 1.0,
    )  # fmt: skip


def case_of(seed: int, count: int = 0) -> Case:
    """A small case, or one with `count` members."""
    rng = np.random.default_rng([seed, 7])
    mode, _, spread = MODES[seed % len(MODES)].partition(" ")
    depth, few = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    count = count or few
    terms = terms_of(rng, depth)
    members = rng.choice([0.0, 0.5, 1.0, 1.0 / 3.0, 2.0], (count, depth))
    if mode == "closed" and count > few:  # each its own point of the law: equal outcomes of a step become one
        members = 2.0 * rng.random((count, depth))
    weights = np.where(rng.random(count) < 0.3, 1e-8, rng.random(count) + 0.1)
    trace = uc.Trace.from_members(members, weights / weights.sum())
    risk = float(rng.choice([0.25, 0.5, 1.0]))
    common: dict[str, Any] = dict(depth=depth, mode=mode, risk=risk, discount=float(rng.choice([1.0, 1.0, 0.9, 0.3])))
    if mode == "scores":
        walk = [[reward(At(float(h), 0.0, 0.0), float(a), 1.0, terms) for a in range(M)] for h in range(depth)]
        unsure = terms.unit * rng.random((depth, M))
        trace = uc.Trace.from_scores(np.array(walk), unsure, [0.0] * depth)
    elif mode == "mean":
        common["spread"] = str(rng.choice(["std", "variance"]))
    elif mode == "members":
        common |= dict(spread=spread, tail=float(rng.choice([0.05, 0.2, 0.5])))
    else:
        trace = trace.declare("independent")
        common["risk"] = risk if spread else 0.0
        common |= dict(spread="cvar", tail=float(rng.choice([0.05, 0.2, 0.5]))) if spread else {}
    if common.get("spread") == "variance":
        common["risk"] = risk / terms.unit  # per unit of money
    policy = searched_by(rng, mode, common)
    loose = uc.Gate(certificate=False, regret_limit=1e300)
    gate = [uc.Gate(), uc.Gate(allow_ties=False), uc.Gate(allow_ties=True), loose][int(rng.integers(0, 4))]
    proof = uc.Proof()
    if mode != "closed":
        few_nodes = int(rng.integers(1, 30)) if rng.random() < 0.2 else proof.node_budget  # a proof that is cut off
        proof = uc.Proof(kind=str(rng.choice(["auto", "oracle", "bound"])), node_budget=few_nodes)
    return Case(terms, trace, policy, gate, proof)


def searched_by(rng: np.random.Generator, mode: str, common: dict[str, Any]) -> Any:
    kind = rng.choice(["exact", "beam", "certified", "mcts"], p=[0.4, 0.4, 0.1, 0.1])
    top_k = 1 if rng.random() < 0.3 else M
    if mode == "closed" or kind == "exact":
        return uc.Exact(**common)
    if kind == "mcts":
        return uc.MCTS(**common, simulations=int(rng.integers(1, 20)), top_k=top_k)
    if kind == "certified":
        return uc.CertifiedBeam(**common, width=3, top_k=top_k, protect=bool(rng.random() < 0.5))
    return uc.UCBeam(**common, width=int(rng.integers(1, 5)), top_k=top_k)


def decided(case: Case, engine: str = "python") -> uc.Decision:
    return uc.decide(
        TASK,
        START,
        case.trace,
        case.policy,
        params=case.terms,
        gate=case.gate,
        proof=case.proof,
        run=uc.Run(engine=engine),
    )


def check(seed: int, count: int = 0, engine: str = "python") -> tuple[str, bool]:
    """One case; what the release rests on, and whether its terms cancel."""
    case = case_of(seed, count)
    decision, truth = decided(case, engine), Truth(case)
    c = decision.certificate
    assert c is not None
    best = truth.firsts()
    if c.action_index < 0:
        assert not decision.released
        return "", c.cancellation
    own = next(r for r in c.rivals if r.index == c.action_index)
    reached = best[c.action_index] if case.policy.mode == "closed" else truth.score(own.path)
    assert reached is not None
    if c.regret_bound < math.inf:
        room = Fraction(c.regret_bound) + Fraction(c.tau)
        assert max(best.values()) - best[c.action_index] <= room, seed
        assert all(best[r.index] - reached <= room for r in c.rivals if r.index != c.action_index), seed
    sizes = [x for r in c.rivals for x in (r.size, r.upper_size) if x == x]
    assert c.tau <= max(1e-12, 2.0**-52 * case.policy.depth * (max(count, 3) + 2)) * max(sizes), seed
    if c.unique:
        assert all(best[r.index] < best[c.action_index] for r in c.rivals if r.index != c.action_index), seed
    assert c.cancellation >= (own.size > CANCELLED * abs(own.score)), seed
    if decision.pass_kind == "tied" and case.gate.allow_ties is None:  # what may be lost is a part of what is compared
        behind = max(best.values()) - best[c.action_index]
        compared = max(abs(own.score), max(abs(r.upper) for r in c.rivals if r.index != c.action_index))
        assert behind <= Fraction(1.1e-6) * Fraction(compared), seed
    if decision.released:
        exact = c.sole_action or c.gap > c.tau
        assert (decision.pass_kind == "exact") == (exact and c.certificate_pass), seed
        assert (decision.pass_kind == "tied") == (not exact and c.certificate_pass), seed
        assert decision.pass_kind != "tied" or abs(c.gap) <= c.tau, seed
        assert case.gate.allow_ties is not False or decision.pass_kind == "exact"
        assert case.gate.allow_ties is not None or not (decision.pass_kind == "tied" and c.cancellation)
        assert ("to within rounding" in decision.sentence) == (decision.pass_kind == "tied")
    record, blobs = decision_record(decision)
    found = verify_record(record, blobs, TASK)
    assert found.status == "valid", (seed, found)
    return decision.pass_kind, c.cancellation


@pytest.mark.parametrize("mode", range(len(MODES)), ids=lambda i: MODES[i].replace(" ", "-"))
def test_true_regret_is_at_most_the_bound_and_tau(mode: int) -> None:
    seeds = range(mode, CASES if ALL else 1_350, len(MODES))
    seen = [check(seed) for seed in seeds]
    assert {"exact", "tied", ""} <= {kind for kind, _ in seen}
    assert {cancelled for _, cancelled in seen} == {True, False}


MANY = 1_600  # with three steps the share is more than the least one


@pytest.mark.parametrize("mode", range(1, len(MODES)), ids=lambda i: MODES[i].replace(" ", "-"))
def test_it_holds_with_so_many_members_that_the_share_grows(mode: int) -> None:
    deep = (seed for seed in itertools.count(mode, len(MODES)) if case_of(seed).policy.depth == 3)
    assert share(3, MANY) > LEAST
    for seed in itertools.islice(deep, some(3)):
        check(seed, count=MANY)


@pytest.mark.filterwarnings("error::ucsearch.errors.UncompilableWarning")
def test_it_holds_for_compiled_kernels() -> None:
    seen = {check(seed, engine="compiled")[0] for seed in range(some(600))}
    assert {"exact", "tied", ""} <= seen


# -------------------------------------------------------------------- limits that series share


def shared_cases(seed: int, count: int) -> Iterator[Case]:
    """Decisions in one mode and one currency."""
    rng = np.random.default_rng([seed, 8])
    first = case_of(seed * len(MODES) + 6, count)  # closed, without risk
    for _ in range(int(rng.integers(2, 4))):
        own = terms_of(rng, first.policy.depth)
        terms = own._replace(unit=first.terms.unit, common=first.terms.common)
        yield Case(terms, first.trace, first.policy, uc.Gate(allow_ties=True), uc.Proof())


def lost(seed: int, count: int = 0) -> bool:
    """Whether the limit was shared out; then no more is lost than the gap and its rounding."""
    cases = list(shared_cases(seed, count))
    limit = float(np.random.default_rng(seed).integers(0, 2 * len(cases)))
    shared = uc.Shared(name="room", use="units", limit=limit)
    found = uc.allocate([decided(case) for case in cases], shared, serve="best")
    if found.result is None or not found.served:
        return False
    values = [Truth(case).firsts() for case in cases]
    taken = sum((v[int(found[i].action or 0)] for i, v in enumerate(values)), Fraction(0))
    best = max(
        sum((v[a] for v, a in zip(values, choice, strict=True)), Fraction(0))
        for choice in itertools.product(*values)
        if sum(choice) <= limit
    )
    assert best - taken <= Fraction(max(found.gap, 0.0)) + Fraction(found.result.rounding), seed
    return True


def test_a_shared_limit_loses_no_more_than_its_gap_and_rounding() -> None:
    seeds = range(some(600))
    assert sum(map(lost, seeds)) > 0.9 * len(seeds)


def test_a_shared_limit_of_many_points_loses_no_more_either() -> None:
    assert sum(lost(seed, MANY) for seed in range(some(3))) > 0
