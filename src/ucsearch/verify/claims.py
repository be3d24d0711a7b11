"""A decision's claims, derived again in order: witnesses, first actions, upper bounds, certificate, gate, outcome."""

from __future__ import annotations

import math
from typing import Any

from ucsearch.verify.formats import Blobs, Invalid, Record, expect, expect_close, is_close, num, require, slack
from ucsearch.verify.gate import certificate, gate_and_outcome
from ucsearch.verify.inputs import UNUSED, problem_of
from ucsearch.verify.recalibration import verify_recalibration
from ucsearch.verify.replay import Edge, Fault, Node, Problem, distinct
from ucsearch.verify.search import Found, Meter, OutOfNodes, Prover, beam, completes


def verify_decision(r: Record, blobs: Blobs, task: Any, budget: int) -> list[str]:
    """Raises at the first false claim; returns the claims that the budget left in doubt."""
    verify_recalibration(r, blobs)
    p = problem_of(r, blobs, task)
    p.meter = Meter(budget)
    decision = _Decision(r, p, p.meter)
    try:
        return decision.verify()
    except OutOfNodes:
        return [*decision.doubts, "claim"]


class _Decision:
    """One record's claims against its problem."""

    def __init__(self, r: Record, p: Problem, meter: Meter) -> None:
        self.r, self.p, self.meter, self.claim = r, p, meter, r["claim"]
        self.exact = r["claim"]["eps_a"] is not None  # the values of all first actions are claimed to be exact
        self.doubts: list[str] = []
        self.prover = Prover(p, meter)
        self.found: Found | None = None  # what a beam retains
        self.root: tuple[Edge, ...] = ()
        self.failed = any(row["name"] == "task" and row["left"] == 1 for row in r["gate"]["rows"])

    def verify(self) -> list[str]:
        r, p = self.r, self.p
        self._search()
        self.edges = {e.action: e for e in distinct(self.root)}
        self._witnesses()
        self._first_actions()
        self._uppers()
        searched = {rival["index"]: num(rival["score"]) for rival in r["rivals"]}
        first: int | None = self.claim["action_index"]
        if self.found is not None:
            # Scores before any oracle suffix was put in.
            paths = {rival["index"]: tuple(rival["path"]) for rival in r["rivals"]}
            own = self.found.paths
            searched = {i: searched[i] if n.path == paths.get(i) else n.score for i, n in own.items()}
            first = next(iter(own), None)
        for name, value in certificate(r, searched, first).items():
            expect(f"claim.{name}", self.claim[name], value)
        self._counters()
        dead_end = self._dead_end()
        gate_and_outcome(r, p, self.failed, dead_end, {e.action: e.q - p.risk * e.u for e in self.root})
        return self.doubts

    def _search(self) -> None:
        """Score the root, run a beam again, and see whether the task fails on the way, as the record says or not."""
        where, claimed = "gate.rows[0].left", self.failed
        try:
            root = self.p.edges(self.p.root().states, 0)
            if self.r["settings"]["algorithm"] == "beam":
                self.found = beam(self.p)
            elif claimed:
                self.prover.look_everywhere(root)
        except Fault as error:
            require(where, claimed, 0, f"a failure: {error}")
        except OutOfNodes:
            self.doubts.append(where)
            if self.r["settings"]["algorithm"] == "beam":  # nothing more can be said of what it retained
                raise
        else:
            require(where, not claimed, 1, "no failure")
            self.root = root

    def _witnesses(self) -> None:
        """Every retained path keeps the rules at every step and earns what is claimed."""
        p, rivals = self.p, self.r["rivals"]
        for k, rival in enumerate(rivals):
            where, i = f"rivals[{k}]", rival["index"]
            require(f"{where}.index", k == 0 or i > rivals[k - 1]["index"], i, "in ascending order")
            require(f"{where}.index", i in self.edges, i, "not feasible, or a smaller action stands for it")
            edge = self.edges[i]
            expect(f"{where}.action", rival["action"], p.actions[i])
            expect(f"{where}.label", rival["label"], self.r["task"]["labels"][i])
            expect_close(f"{where}.step_score", rival["step_score"], edge.q - p.risk * edge.u)
            if rival["retained"]:
                node = self._replay(rival["path"], i, where)
                expect_close(f"{where}.reward", rival["reward"], node.reward)
                expect_close(f"{where}.uncertainty", rival["uncertainty"], node.uncertainty)
                expect(f"{where}.score", rival["score"], num(rival["reward"]) - p.risk * num(rival["uncertainty"]))
            else:
                for name, nothing in (("score", None), ("reward", None), ("uncertainty", None), ("path", [])):
                    expect(f"{where}.{name}", rival[name], nothing)

    def _replay(self, path: list[int], first: int, where: str) -> Node:
        p, node = self.p, self.p.root()
        expect(f"{where}.path", (len(path), *path[:1]), (p.depth, first))
        for h, i in enumerate(path):
            try:
                edge = next((e for e in p.edges(node.states, h) if e.action == i), None)
                child = None if edge is None else p.extend(node, edge)
            except Fault as error:
                raise Invalid(f"{where}.path[{h}]", i, str(error)) from None
            if child is None:
                raise Invalid(f"{where}.path[{h}]", i, "not feasible")
            node = child
        return node

    def _first_actions(self) -> None:
        """No first action with a completion is left out, and a beam's retained paths are those the beam retains."""
        named = {rival["index"] for rival in self.r["rivals"]}
        for i in [i for i in self.edges if i not in named]:
            try:
                score = self.prover.best(self.edges[i], -math.inf)
                require("rivals", score is None, f"nothing of action {i}", f"a path that scores {score}")
            except OutOfNodes:
                self.doubts.append("rivals")
            except Fault as error:
                raise Invalid("rivals", f"nothing of action {i}", f"a failure: {error}") from None
        found, s = self.found, self.r["settings"]
        for k, rival in enumerate(self.r["rivals"]):
            if found is None:
                return
            where, i, mine = f"rivals[{k}].path", rival["index"], found.paths.get(rival["index"])
            own = [] if mine is None else list(mine.path)
            baseline = s["policy"] == "ConstrainedBeam" and i == self.claim["baseline_index"]
            put_in = baseline or (s.get("protect", False) and i in found.generated)
            if rival["path"] != own:
                better = put_in and rival["retained"] and (mine is None or rival["score"] > mine.score)
                require(where, better, rival["path"], own)
            if put_in and self.exact:
                best = is_close(num(rival["score"]), num(rival["upper"]))
                require(where, best, rival["path"], "not the best suffix, which was to be put in")

    def _uppers(self) -> None:
        """No path scores more than is claimed, and what is claimed to be exact is reached."""
        p, rivals = self.p, self.r["rivals"]
        if self.claim["kind"] == "oracle" and rivals and all(rival["upper"] is not None for rival in rivals):
            require("claim.eps_a", self.exact, None, "a number, because every value is known")
        require("claim.eps_a", bool(rivals) or self.failed or not self.exact, self.claim["eps_a"], math.nan)
        reward_only = Prover(p.at_risk(0.0), self.meter)
        other = p.certain()
        sure = Prover(other, self.meter)
        try:
            known = {e.action: e for e in other.edges(other.root().states, 0)} if p.is_members else self.edges
        except Fault:
            known = {}
        for k, rival in enumerate(rivals):
            where, i = f"rivals[{k}]", rival["index"]
            require(f"{where}.upper", rival["upper"] is not None or not self.exact, None, "a number (claim.eps_a is)")
            reached = rival["retained"] and is_close(num(rival["score"]), num(rival["upper"]))
            low = rival["upper"] if self.exact and not reached else None
            self._between(f"{where}.upper", low, rival["upper"], self.edges[i], self.prover)
            low, high = rival["reward_only_score"], rival["reward_only_upper"]
            self._between(f"{where}.reward_only_upper", low, high, self.edges[i], reward_only)
            low_c, high_c = rival["certain_score"], rival["certain_upper"]
            if not p.is_members:
                expect(f"{where}.certain_score", low_c, low)
                expect(f"{where}.certain_upper", high_c, high)
            elif (low_c, high_c) != (None, None):
                require(f"{where}.certain_upper", i in known, high_c, "not feasible at the mean outcome")
                self._between(f"{where}.certain_upper", low_c, high_c, known[i], sure)

    def _between(self, where: str, low: Any, high: Any, first: Edge, prover: Prover) -> None:
        """Some path that begins with `first` scores at least `low`, and none scores more than `high`."""
        lower, upper = num(low), num(high)
        if low is None and (high is None or upper == math.inf):
            return
        try:
            best = prover.best(first, upper + slack(upper) if low is None else lower - slack(lower))
        except OutOfNodes:
            self.doubts.append(where)
            return
        except Fault as error:
            # A proof that met the failure found nothing; one that ended before may have found a path beside it.
            spent = self.claim["counters"]["oracle_nodes"] >= self.r["settings"]["proof_budget"]
            require(where, high is None and spent, low if high is None else high, f"a failure: {error}")
            self.doubts.append(where)
            return
        require(where, low is None or best is not None, low, "no path scores as much")
        require(where, high is None or best is None or best <= upper + slack(upper), high, best)

    def _counters(self) -> None:
        """A beam's exactly; of other searches only that a failed one counted nothing."""
        counted, found = self.claim["counters"], self.found
        if found is not None or self.failed:
            expect("claim.counters.expansions", counted["expansions"], found.expansions if found else 0)
            expect("claim.counters.action_scores", counted["action_scores"], found.action_scores if found else 0)
        known = self.r["settings"]["algorithm"] in UNUSED
        most = 0 if self.failed else self.r["settings"]["simulations"] if known else counted["simulations"]
        require("claim.counters.simulations", counted["simulations"] <= most, counted["simulations"], f"at most {most}")

    def _dead_end(self) -> bool:
        """Whether no path exists; searches other than beams may leave that open, but not claim it falsely."""
        if self.found is not None or self.failed:
            return self.found is not None and self.found.dead_end
        claimed = any(row["name"] == "completion" and row["left"] == 0 for row in self.r["gate"]["rows"])
        return claimed and not completes(self.p)
