"""A closed-loop decision: the whole recursion over policies a second time, then every claim from its own values."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ucsearch.verify.decision.gate import certificate, excuse_of, gate_and_outcome, require_coherent, verify_excused
from ucsearch.verify.decision.law import Law, Point
from ucsearch.verify.decision.machine import CompiledGraph, Machine
from ucsearch.verify.decision.problem import Fault, Key, Moves, OutOfNodes, RecordedProblem, TooMany, Value, tail_mean
from ucsearch.verify.read import Blobs, Malformed
from ucsearch.verify.verdict import Invalid, Record, expect, near, num, require, share, tolerance

MIDDLE = 0.5  # the level of the outcomes along which a policy's path is recorded


class PlainGraph:
    """Everything that can be reached: by step, what each action does in each state."""

    def __init__(self, p: RecordedProblem, law: Law) -> None:
        self.p, self.law = p, law
        self.layers: list[dict[Key, dict[int, Moves]]] = []
        self.transitions = self.pairs = 0
        layer: dict[Key, None] = {(0, p.state): None}
        for h in range(p.depth):
            self.layers.append({})
            for key in layer:
                self.layers[h][key] = self._actions(key, h)
            layer = {to: None for acts in self.layers[h].values() for moves in acts.values() for _, to in moves}
        self.ends = list(layer)
        self.states = sum(map(len, self.layers)) + len(self.ends)

    @property
    def start(self) -> Key:
        return next(iter(self.layers[0]))

    def acts(self, h: int, key: Key) -> dict[int, Moves]:
        return self.layers[h][key]

    def moves(self, h: int, key: Key, action: int) -> Moves | None:
        return self.layers[h][key].get(action)

    def _actions(self, key: Key, h: int) -> dict[int, Moves]:
        p, state, actions = self.p, key[1], {}
        last = h + 1 == p.depth
        points = self.law.classes[key[0]]
        for i in p.available:
            a = p.actions[i]
            if not p.may(state, a, h):
                continue
            if self.transitions + len(points) > p.settings["node_budget"]:
                raise TooMany
            p.meter.spend(len(points))
            self.transitions += len(points)
            self.pairs += 1
            moves = []
            for y, _, after in points:
                outcome = y[0] if p.task.outcome is None else p.task.outcome(*y)
                reward = p.number(p.task.reward, state, a, outcome, *p.when("reward", h), p.params)
                moves.append((reward, (-1 if last else after, p.move(state, a, outcome, h))))
            actions[i] = moves
        return actions


class _ActionValues:
    """What actions are worth at a risk, by the values of the states they lead to."""

    def __init__(self, p: RecordedProblem, law: Law, risk: float) -> None:
        self.p, self.law, self.risk = p, law, risk

    def value(self, h: int, key: Key) -> Value | None:
        """Of a state at step h; None where no policy keeps the rules."""
        raise NotImplementedError

    def action(self, h: int, key: Key, moves: Moves) -> Value | None:
        """None where an outcome of the law leads to where no action is allowed."""
        points, discount = self.law.classes[key[0]], self.p.settings["discount"]
        score = mean = gross = most = 0.0
        parts: list[tuple[float, float]] = []
        for (_, w, _), (reward, to) in zip(points, moves, strict=True):
            ahead = self.value(h + 1, to)
            if ahead is None:
                return None
            parts.append((reward + discount * ahead.score, w))
            score += w * parts[-1][0]
            mean += w * (reward + discount * ahead.mean)
            whole = abs(reward) + discount * ahead.gross
            gross, most = gross + w * whole, max(most, whole)
        if self.risk > 0.0:
            score = (1.0 - self.risk) * score + self.risk * tail_mean(parts, self.p.tail)
            gross = (1.0 - self.risk) * gross + self.risk * most
        if not (math.isfinite(score) and math.isfinite(mean) and math.isfinite(gross)):
            raise Fault("the value of a policy is not finite")
        return Value(score, mean, gross)


class _Solution(_ActionValues):
    """Of every state, by the plain rules."""

    def __init__(self, graph: PlainGraph, risk: float) -> None:
        super().__init__(graph.p, graph.law, risk)
        depth, p = graph.p.depth, graph.p
        self.values: list[dict[Key, Value | None]] = [{} for _ in range(depth + 1)]
        for key in graph.ends:
            if not p.may_end((key[1],)):
                self.values[depth][key] = None
                continue
            end = p.number(p.task.terminal, key[1], p.params) if p.task.terminal else 0.0
            self.values[depth][key] = Value(end, end, abs(end))
        for h in reversed(range(depth)):
            for key, acts in graph.layers[h].items():
                values = [v for v in (self.action(h, key, moves) for moves in acts.values()) if v]
                best = max(values, key=lambda v: v.score, default=None)  # the first of equals: the smallest action
                self.values[h][key] = best

    def value(self, h: int, key: Key) -> Value | None:
        return self.values[h][key]


class _Looked(_ActionValues):
    """Of every state, as machine code found them."""

    def __init__(self, graph: CompiledGraph, which: int, risk: float) -> None:
        super().__init__(graph.p, graph.law, risk)
        self.graph, self.which = graph, which

    def value(self, h: int, key: Key) -> Value | None:
        return self.graph.value(self.which, h, key)


def _has(claim: Record, *names: str) -> None:
    for name in names:
        if name not in claim:
            raise Malformed(f"claim.{name}: missing, and a claim in closed mode has it")


def verify_closed(r: Record, p: RecordedProblem, blobs: Blobs, machine: Machine | None = None) -> list[str]:
    """Raises at the first false claim; returns what the budget left in doubt."""
    _has(r["claim"], "law")
    c = r["claim"]
    rows = [[tuple(y) if isinstance(y, tuple) else (y,) for y in member] for member in p.members]
    law = Law(r, rows, p.weights, blobs, p.meter)
    law.verify(c)
    p.eps = share(p.reach, max(map(len, law.classes), default=1))
    if excuse_of(r):
        return verify_excused(r, p)
    _has(c, "states", "transitions", "open_value", "flexibility")
    structured = bool(law.classes) and (p.depth == 1 or law.learns < p.depth)
    risks = (p.risk, 0.0) if p.risk > 0.0 else (0.0,)
    if machine is not None and structured:
        meter, within = copy.copy(p.meter), True
        graph: CompiledGraph | None = None
        try:
            graph = machine.graph(r, p, law, risks)
        except TooMany:
            within = False
        except OutOfNodes:
            return ["claim"]
        if graph is not None or not within:
            solutions = [] if graph is None else [_Looked(graph, k, risk) for k, risk in enumerate(risks)]
            with suppress(Invalid, Fault):  # only the plain rules say so
                return _Claims(r, p, law, graph, solutions).verify(structured, within, failed=False)
        p.meter = meter
    return _by_plain_rules(r, p, law, structured, risks)


def _by_plain_rules(r: Record, p: RecordedProblem, law: Law, structured: bool, risks: tuple[float, ...]) -> list[str]:
    failed = any(row["name"] == "task" and row["left"] == 1 for row in r["gate"]["rows"])
    graph: PlainGraph | None = None
    within, solutions = True, list[_ActionValues]()
    try:
        if structured:
            graph = PlainGraph(p, law)
            solutions = [_Solution(graph, risk) for risk in risks]
    except TooMany:
        within = False
    except Fault as error:
        require("gate.rows[0].left", failed, 0, f"a failure: {error}")
        solutions = []
    except OutOfNodes:
        return ["claim"]
    else:
        require("gate.rows[0].left", not failed, 1, "no failure")
    return _Claims(r, p, law, graph if solutions else None, solutions).verify(structured, within, failed)


class _Claims:
    def __init__(
        self,
        r: Record,
        p: RecordedProblem,
        law: Law,
        graph: PlainGraph | CompiledGraph | None,
        solutions: Sequence[_ActionValues],
    ) -> None:
        self.r, self.p, self.law, self.graph, self.solutions = r, p, law, graph, solutions
        self.root: dict[int, Moves] = graph.acts(0, graph.start) if graph else {}

    def verify(self, structured: bool, within: bool, failed: bool) -> list[str]:
        r, p, c = self.r, self.p, self.r["claim"]
        derived_rivals = self._rivals()
        expect("rivals", [rival["index"] for rival in r["rivals"]], sorted(derived_rivals))
        for k, rival in enumerate(r["rivals"]):
            self._figures(f"rivals[{k}]", rival, derived_rivals[rival["index"]])
        require(
            "claim.eps_a", (c["eps_a"] is not None) == bool(derived_rivals), c["eps_a"], "a number iff values are known"
        )
        recorded = {rival["index"]: rival for rival in r["rivals"]}
        claimed, derived = (self._certificate(rivals) for rivals in (recorded, derived_rivals))
        require_coherent(claimed, recorded, p.eps)
        require_coherent(derived, derived_rivals, p.eps)
        for name, value in claimed.items():
            if name in c:
                expect(f"claim.{name}", c[name], value)
        for name, value in derived.items():
            if name in c and isinstance(value, bool | int):
                expect(f"claim.{name}", c[name], value)
        doubts = self._fixed(derived_rivals)
        self._counted(within, failed)
        facts = {"member_feasible": 1.0 if derived_rivals else math.nan, "structured": structured, "within": within}
        expect("claim.member_feasible", c["member_feasible"], facts["member_feasible"])
        dead_end = structured and within and not failed and not derived_rivals
        steps = {i: self._step(moves)[0] for i, moves in self.root.items()}
        gate_and_outcome(r, p, failed, dead_end, steps, {**claimed, **facts}, {**derived, **facts})
        return doubts

    def _certificate(self, rivals: dict[int, Record]) -> dict[str, Any]:
        searched = {i: (num(rival["score"]), num(rival["size"])) for i, rival in rivals.items()}
        return certificate(self.r, rivals, searched, self.r["claim"]["action_index"], self.p.eps)

    def _points(self) -> list[Point]:
        return self.law.classes[0] if self.graph else []

    def _step(self, moves: Moves) -> tuple[float, float]:
        """The first step's own score, and what was added up for it."""
        parts = [(reward, w) for (reward, _), (_, w, _) in zip(moves, self._points(), strict=True)]
        mean = gross = 0.0
        for x, w in parts:
            mean, gross = mean + w * x, gross + w * abs(x)
        if self.p.risk > 0.0:
            tail = tail_mean(parts, self.p.tail)
            return mean - self.p.risk * max(0.0, mean - tail), gross
        return mean, gross

    def _rivals(self) -> dict[int, Record]:
        """Every first action that stands for itself and keeps the rules whatever the law brings."""
        rivals: dict[int, Record] = {}
        effects: list[Moves] = []
        key = self.graph.start if self.graph else (0, None)
        for i, moves in self.root.items():
            if moves in effects:
                continue
            effects.append(moves)
            values = [s.action(0, key, moves) for s in self.solutions]
            if values[0] is None or values[-1] is None:
                continue
            (score, mean, gross), without_risk = values[0], values[-1]
            spread = max(0.0, (mean - score) / self.p.risk) if self.p.risk > 0.0 else 0.0
            plain = {"reward_only": without_risk, "certain": without_risk}
            rivals[i] = {
                "index": i, "retained": True, "score": score, "upper": score, "reward": mean, "uncertainty": spread,
                "size": gross, "upper_size": gross, "step_score": self._step(moves)[0], "release_margin": None,
                "upper_path": [], **{f"{n}_{x}": v.score for n, v in plain.items() for x in ("score", "upper")},
                **{f"{n}_size": v.gross for n, v in plain.items()},
            }  # fmt: skip
        return rivals

    def _figures(self, where: str, rival: Record, derived: Record) -> None:
        expect(f"{where}.action", rival["action"], self.p.actions[rival["index"]])
        expect(f"{where}.label", rival["label"], self.r["task"]["labels"][rival["index"]])
        for name in ("retained", "release_margin", "upper_path"):
            expect(f"{where}.{name}", rival[name], derived[name])
        expect(f"{where}.upper", rival["upper"], rival["score"])
        for name, value in derived.items():
            if name not in ("index", "retained", "release_margin", "upper_path"):
                # What was divided by risk is as sure as what it was made of, divided by risk.
                loose = derived["size"] / (self.p.risk if name == "uncertainty" and self.p.risk > 0.0 else 1.0)
                near(f"{where}.{name}", rival[name], value, loose, self.p.eps)
        self._path(f"{where}.path", rival["path"], rival["index"])

    def _path(self, where: str, path: list[int], first: int) -> None:
        """What a best policy does when every outcome is the middle one; where two actions tie, either will do."""
        p, graph = self.p, self.graph
        expect(where, (len(path), *path[:1]), (p.depth, first))
        if graph is None:
            return
        key, solution = graph.start, self.solutions[0]
        for h, i in enumerate(path):
            moves, best = graph.moves(h, key, i), solution.value(h, key)
            value = None if moves is None else solution.action(h, key, moves)
            if moves is None or value is None:
                raise Invalid(f"{where}[{h}]", i, "not allowed, or it leads to a dead end")
            if h > 0 and best is not None:
                tau = tolerance(p.eps, best.gross, value.gross)
                require(f"{where}[{h}]", best.score - value.score <= tau, i, f"worth {best.score - value.score} less")
            mass, at, points = 0.0, 0, self.law.classes[key[0]]
            while at < len(points) - 1 and not mass + points[at][1] >= MIDDLE:
                mass, at = mass + points[at][1], at + 1
            key = moves[at][1]

    def _fixed(self, rivals: dict[int, Record]) -> list[str]:
        """The best fixed plan's expected return, where it is claimed, by following distributions over states; the best
        policy's values bound what a prefix can still earn. Returns what the budget left in doubt."""
        c, p, graph = self.r["claim"], self.p, self.graph
        if c["open_value"] is None:
            expect("claim.flexibility", c["flexibility"], None)
            return []
        if graph is None or not rivals or p.risk > 0.0:
            raise Invalid("claim.open_value", c["open_value"], "nothing to compare with")
        best, solution = -math.inf, self.solutions[0]
        moves_known: dict[tuple[int, Key], dict[int, Moves]] = {}

        def acts(h: int, key: Key) -> dict[int, Moves]:
            if (h, key) not in moves_known:
                moves_known[h, key] = graph.acts(h, key)
            return moves_known[h, key]

        stack: list[tuple[float, float, list[dict[Key, float]]]] = [(math.inf, 0.0, [{graph.start: 1.0}])]
        try:
            while stack:
                limit, earned, passed = stack.pop()
                h, here = len(passed) - 1, passed[-1]
                if not limit > best:
                    continue
                if h == p.depth:
                    best = limit
                    continue
                common = set.intersection(*(set(acts(h, k)) for k in here))
                for i in sorted(common):
                    p.meter.spend(len(here))
                    gain, following = 0.0, dict[Key, float]()
                    for k, share in here.items():
                        for (_, w, _), (reward, to) in zip(self.law.classes[k[0]], acts(h, k)[i], strict=True):
                            gain += share * w * reward
                            following[to] = following.get(to, 0.0) + share * w
                    total = earned + p.discounts[h] * gain
                    ahead = [(share, solution.value(h + 1, k)) for k, share in following.items()]
                    if all(v is not None for _, v in ahead):
                        rest = sum(share * v.score for share, v in ahead if v is not None)
                        stack.append((total + p.discounts[h + 1] * rest, total, [*passed, following]))
        except OutOfNodes:
            return ["claim.open_value"]
        top = max(rivals.values(), key=lambda rival: rival["score"])
        near("claim.open_value", c["open_value"], best, top["size"], p.eps)
        near("claim.flexibility", c["flexibility"], top["score"] - best, top["size"], p.eps)
        return []

    def _counted(self, within: bool, failed: bool) -> None:
        """Exact where everything was reached; at most the budget where it was not; nothing for a failure."""
        c, graph = self.r["claim"], self.graph
        counted, budget = c["counters"], self.p.settings["node_budget"]
        expect("claim.counters.simulations", counted["simulations"], 0)
        expect("claim.transitions", c["transitions"], counted["expansions"])
        if within:
            moves, states, pairs = (graph.transitions, graph.states, graph.pairs) if graph and not failed else (0, 0, 0)
            expect("claim.transitions", c["transitions"], moves)
            expect("claim.states", c["states"], states)
            expect("claim.counters.action_scores", counted["action_scores"], pairs)
            expect("claim.counters.oracle_nodes", counted["oracle_nodes"], moves if self.p.risk > 0.0 else 0)
        require("claim.transitions", c["transitions"] <= budget, c["transitions"], f"at most {budget}")
