"""A closed-loop decision: the whole recursion over policies a second time, then every claim from its own values."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ucsearch.verify.decision.excused import excuse_of, verify_excused
from ucsearch.verify.decision.gate import certificate, gate_and_outcome, require_coherent
from ucsearch.verify.decision.law import Law, Point
from ucsearch.verify.decision.meter import OutOfNodes
from ucsearch.verify.decision.problem import Fault, Problem, tail_mean
from ucsearch.verify.figures import Invalid, Record, expect, near, num, require, share, tolerance
from ucsearch.verify.read import Blobs, Malformed

MIDDLE = 0.5  # the level of the outcomes along which a policy's path is recorded
Key = tuple[int, Any]  # class of information and state; the class of every state past the end is -1
Moves = list[tuple[float, Key]]  # reward and what follows, for every point


class Value(NamedTuple):
    """Of a state, or of an action in it."""

    score: float
    mean: float  # expected return of the same policy
    gross: float  # what was added up, in absolute terms


class TooMany(Exception):
    """More transitions than the record's own budget allows."""


class Graph:
    """Everything that can be reached: by step, what each action does in each state."""

    def __init__(self, p: Problem, law: Law) -> None:
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

    def _actions(self, key: Key, h: int) -> dict[int, Moves]:
        p, state, found = self.p, key[1], {}
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
            found[i] = moves
        return found


class _Solution:
    """Values of every state and action at a risk."""

    def __init__(self, graph: Graph, risk: float) -> None:
        self.graph, self.p, self.risk = graph, graph.p, risk
        self.values: list[dict[Key, Value | None]] = [{}]
        for key in graph.ends:
            if not self.p.may_end((key[1],)):
                self.values[0][key] = None
                continue
            end = self.p.number(self.p.task.terminal, key[1], self.p.params) if self.p.task.terminal else 0.0
            self.values[0][key] = Value(end, end, abs(end))
        for layer in reversed(graph.layers):
            here: dict[Key, Value | None] = {}
            for key, acts in layer.items():
                known = [v for v in (self.action(key, moves, self.values[0]) for moves in acts.values()) if v]
                here[key] = max(known, key=lambda v: v.score, default=None)  # the first of equals: the smallest action
            self.values.insert(0, here)

    def action(self, key: Key, moves: Moves, after: dict[Key, Value | None]) -> Value | None:
        """None where an outcome of the law leads to where no action is allowed."""
        points, discount = self.graph.law.classes[key[0]], self.p.settings["discount"]
        score = mean = gross = most = 0.0
        parts: list[tuple[float, float]] = []
        for (_, w, _), (reward, to) in zip(points, moves, strict=True):
            ahead = after[to]
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


def _has(claim: Record, *names: str) -> None:
    for name in names:
        if name not in claim:
            raise Malformed(f"claim.{name}: missing, and a claim in closed mode has it")


def verify_closed(r: Record, p: Problem, blobs: Blobs) -> list[str]:
    """Raises at the first false claim; returns what the budget left in doubt."""
    _has(r["claim"], "law")
    c, failed = r["claim"], any(row["name"] == "task" and row["left"] == 1 for row in r["gate"]["rows"])
    rows = [[tuple(y) if isinstance(y, tuple) else (y,) for y in member] for member in p.members]
    law = Law(r, rows, p.weights, blobs, p.meter)
    law.verify(c)
    p.eps = share(p.reach, max(map(len, law.classes), default=1))
    if excuse_of(r):
        return verify_excused(r, p)
    _has(c, "states", "transitions", "open_value", "flexibility")
    structured = bool(law.classes) and (p.depth == 1 or law.learns < p.depth)
    graph: Graph | None = None
    within, solutions = True, list[_Solution]()
    try:
        if structured:
            graph = Graph(p, law)
            solutions = [_Solution(graph, risk) for risk in ((p.risk, 0.0) if p.risk > 0.0 else (0.0,))]
    except TooMany:
        within = False
    except Fault as error:
        require("gate.rows[0].left", failed, 0, f"a failure: {error}")
        solutions = []
    except OutOfNodes:
        return ["claim"]
    else:
        require("gate.rows[0].left", not failed, 1, "no failure")
    return _Claims(r, p, graph if solutions else None, solutions).verify(structured, within, failed)


class _Claims:
    def __init__(self, r: Record, p: Problem, graph: Graph | None, solutions: list[_Solution]) -> None:
        self.r, self.p, self.graph, self.solutions = r, p, graph, solutions
        self.root: dict[int, Moves] = next(iter(graph.layers[0].values())) if graph else {}

    def verify(self, structured: bool, within: bool, failed: bool) -> list[str]:
        r, p, c = self.r, self.p, self.r["claim"]
        own = self._rivals()
        expect("rivals", [rival["index"] for rival in r["rivals"]], sorted(own))
        for k, rival in enumerate(r["rivals"]):
            self._figures(f"rivals[{k}]", rival, own[rival["index"]])
        require("claim.eps_a", (c["eps_a"] is not None) == bool(own), c["eps_a"], "a number iff values are known")
        recorded = {rival["index"]: rival for rival in r["rivals"]}
        claimed, derived = (self._certificate(rivals) for rivals in (recorded, own))
        require_coherent(claimed, recorded, p.eps)
        require_coherent(derived, own, p.eps)
        for name, value in claimed.items():
            if name in c:
                expect(f"claim.{name}", c[name], value)
        for name, value in derived.items():
            if name in c and isinstance(value, bool | int):
                expect(f"claim.{name}", c[name], value)
        doubts = self._fixed(own)
        self._counted(within, failed)
        facts = {"member_feasible": 1.0 if own else math.nan, "structured": structured, "within": within}
        expect("claim.member_feasible", c["member_feasible"], facts["member_feasible"])
        dead_end = structured and within and not failed and not own
        steps = {i: self._step(moves)[0] for i, moves in self.root.items()}
        gate_and_outcome(r, p, failed, dead_end, steps, {**claimed, **facts}, {**derived, **facts})
        return doubts

    def _certificate(self, rivals: dict[int, Record]) -> dict[str, Any]:
        searched = {i: (num(rival["score"]), num(rival["size"])) for i, rival in rivals.items()}
        return certificate(self.r, rivals, searched, self.r["claim"]["action_index"], self.p.eps)

    def _points(self) -> list[Point]:
        return self.graph.law.classes[0] if self.graph else []

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
        own: dict[int, Record] = {}
        seen: list[Moves] = []
        key = next(iter(self.graph.layers[0])) if self.graph else (0, None)
        for i, moves in self.root.items():
            if moves in seen:
                continue
            seen.append(moves)
            known = [s.action(key, moves, s.values[1]) for s in self.solutions]
            if known[0] is None or known[-1] is None:
                continue
            (score, mean, gross), without_risk = known[0], known[-1]
            spread = max(0.0, (mean - score) / self.p.risk) if self.p.risk > 0.0 else 0.0
            plain = {"reward_only": without_risk, "certain": without_risk}
            own[i] = {
                "index": i, "retained": True, "score": score, "upper": score, "reward": mean, "uncertainty": spread,
                "size": gross, "upper_size": gross, "step_score": self._step(moves)[0], "release_margin": None,
                "upper_path": [], **{f"{n}_{x}": v.score for n, v in plain.items() for x in ("score", "upper")},
                **{f"{n}_size": v.gross for n, v in plain.items()},
            }  # fmt: skip
        return own

    def _figures(self, where: str, rival: Record, own: Record) -> None:
        expect(f"{where}.action", rival["action"], self.p.actions[rival["index"]])
        expect(f"{where}.label", rival["label"], self.r["task"]["labels"][rival["index"]])
        for name in ("retained", "release_margin", "upper_path"):
            expect(f"{where}.{name}", rival[name], own[name])
        expect(f"{where}.upper", rival["upper"], rival["score"])
        for name, value in own.items():
            if name not in ("index", "retained", "release_margin", "upper_path"):
                # What was divided by risk is as sure as what it was made of, divided by risk.
                loose = own["size"] / (self.p.risk if name == "uncertainty" and self.p.risk > 0.0 else 1.0)
                near(f"{where}.{name}", rival[name], value, loose, self.p.eps)
        self._path(f"{where}.path", rival["path"], rival["index"])

    def _path(self, where: str, path: list[int], first: int) -> None:
        """What a best policy does when every outcome is the middle one; where two actions tie, either will do."""
        p, graph = self.p, self.graph
        expect(where, (len(path), *path[:1]), (p.depth, first))
        if graph is None:
            return
        key, solution = next(iter(graph.layers[0])), self.solutions[0]
        for h, i in enumerate(path):
            acts = graph.layers[h][key]
            best, own = solution.values[h][key], None
            if i in acts:
                own = solution.action(key, acts[i], solution.values[h + 1])
            require(f"{where}[{h}]", own is not None, i, "not allowed, or it leads to a dead end")
            if h > 0 and own is not None and best is not None:
                tau = tolerance(p.eps, best.gross, own.gross)
                require(f"{where}[{h}]", best.score - own.score <= tau, i, f"worth {best.score - own.score} less")
            mass, at, points = 0.0, 0, graph.law.classes[key[0]]
            while at < len(points) - 1 and not mass + points[at][1] >= MIDDLE:
                mass, at = mass + points[at][1], at + 1
            key = acts[i][at][1]

    def _fixed(self, own: dict[int, Record]) -> list[str]:
        """The best fixed plan's expected return, where it is claimed, by following distributions over states; the best
        policy's values bound what a prefix can still earn. Returns what the budget left in doubt."""
        c, p, graph = self.r["claim"], self.p, self.graph
        if c["open_value"] is None:
            expect("claim.flexibility", c["flexibility"], None)
            return []
        if graph is None or not own or p.risk > 0.0:
            raise Invalid("claim.open_value", c["open_value"], "nothing to compare with")
        best, solution = -math.inf, self.solutions[0]
        key = next(iter(graph.layers[0]))
        stack: list[tuple[float, float, list[dict[Key, float]]]] = [(math.inf, 0.0, [{key: 1.0}])]
        try:
            while stack:
                limit, earned, passed = stack.pop()
                h, here = len(passed) - 1, passed[-1]
                if not limit > best:
                    continue
                if h == p.depth:
                    best = limit
                    continue
                common = set.intersection(*(set(graph.layers[h][k]) for k in here))
                for i in sorted(common):
                    p.meter.spend(len(here))
                    gain, following = 0.0, dict[Key, float]()
                    for k, share in here.items():
                        for (_, w, _), (reward, to) in zip(graph.law.classes[k[0]], graph.layers[h][k][i], strict=True):
                            gain += share * w * reward
                            following[to] = following.get(to, 0.0) + share * w
                    total = earned + p.discounts[h] * gain
                    ahead = [(share, solution.values[h + 1][k]) for k, share in following.items()]
                    if all(v is not None for _, v in ahead):
                        rest = sum(share * v.score for share, v in ahead if v is not None)
                        stack.append((total + p.discounts[h + 1] * rest, total, [*passed, following]))
        except OutOfNodes:
            return ["claim.open_value"]
        top = max(own.values(), key=lambda rival: rival["score"])
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
