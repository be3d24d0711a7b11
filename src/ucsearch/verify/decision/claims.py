"""A decision's claims, derived again in order: witnesses, first actions, upper bounds, certificate, gate, outcome."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ucsearch.verify.decision.closed import verify_closed
from ucsearch.verify.decision.gate import (
    FINAL_CHECK,
    certificate,
    excuse_of,
    gate_and_outcome,
    require_coherent,
    verify_excused,
)
from ucsearch.verify.decision.inputs import UNUSED, problem_of, verify_recalibration
from ucsearch.verify.decision.machine import Machine
from ucsearch.verify.decision.problem import CLOSED, Edge, Fault, PathNode, RecordedProblem, distinct
from ucsearch.verify.decision.search import Meter, OutOfNodes, Prover, RetainedPaths, beam, completes
from ucsearch.verify.read import Blobs
from ucsearch.verify.verdict import (
    FEWER_DIGITS,
    Invalid,
    Record,
    expect,
    near,
    num,
    require,
    tolerance,
)


def verify_decision(r: Record, blobs: Blobs, task: Any, budget: int, machine: Machine | None = None) -> list[str]:
    """Raises at the first false claim; returns the claims that are left in doubt. Without a `machine` only the plain
    rules are asked."""
    verify_recalibration(r, blobs)
    p = problem_of(r, blobs, task)
    p.meter = Meter(budget)
    return _claims(r, blobs, p, machine)


def _claims(r: Record, blobs: Blobs, p: RecordedProblem, machine: Machine | None) -> list[str]:
    words, refused = r["gate"].get("final_check"), excuse_of(r) == FINAL_CHECK
    require("gate.final_check", (words is not None) == refused, words, "words iff the final check failed")
    if p.mode != CLOSED and excuse_of(r):
        return verify_excused(r, p)
    if p.mode == CLOSED:
        try:
            return verify_closed(r, p, blobs, machine)
        except OutOfNodes:
            return ["claim"]
    decision = _Decision(r, p, p.meter)
    try:
        return decision.verify()
    except OutOfNodes:
        return [*decision.doubts, "claim"]


class _Decision:
    """One record's claims against its problem."""

    def __init__(self, r: Record, p: RecordedProblem, meter: Meter) -> None:
        self.r, self.p, self.meter, self.claim = r, p, meter, r["claim"]
        self.exact = r["claim"]["eps_a"] is not None  # the values of all first actions are claimed to be exact
        self.own: dict[int, dict[str, Any]] = {}  # the rivals with figures that were derived here
        self.bests: dict[Edge, PathNode | None] = {}  # by first step, the best path at risk 0
        self.doubts: list[str] = []
        self.prover = Prover(p, meter)
        self.found: RetainedPaths | None = None  # what a beam retains
        self.root: tuple[Edge, ...] = ()
        self.failed = any(row["name"] == "task" and row["left"] == 1 for row in r["gate"]["rows"])

    def verify(self) -> list[str]:
        r, p = self.r, self.p
        self._search()
        self.edges = {e.action: e for e in distinct(self.root)}
        self._witnesses()
        self._first_actions()
        self._uppers()
        recorded = {rival["index"]: rival for rival in r["rivals"]}
        claimed = self._certificate(recorded)
        for name, value in claimed.items():
            if name in self.claim:
                expect(f"claim.{name}", self.claim[name], value)
        for k, i in enumerate(recorded):
            expect(f"rivals[{k}].release_margin", recorded[i]["release_margin"], claimed["margins"][i])
        # A claim must also follow from what was derived here: recorded figures were only found to be close.
        derived = self._certificate(self.own)
        require_coherent(derived, self.own, p.eps)
        require_coherent(claimed, recorded, p.eps)
        for name, value in derived.items():
            if name in self.claim and isinstance(value, bool | int):
                expect(f"claim.{name}", self.claim[name], value)
        claimed["member_feasible"] = derived["member_feasible"] = self._member_feasible()
        expect("claim.member_feasible", self.claim["member_feasible"], claimed["member_feasible"])
        self._counters()
        dead_end = self._dead_end()
        steps = {e.action: e.q - p.risk * e.u for e in self.root}
        gate_and_outcome(r, p, self.failed, dead_end, steps, claimed, derived)
        return self.doubts

    def _member_feasible(self) -> float:
        """Weight of the members for which the proposed path keeps every rule."""
        chosen = next((x for x in self.r["rivals"] if x["index"] == self.claim["action_index"]), None)
        if chosen is None or not chosen["path"] or not self.p.members:
            return math.nan
        keeps_rules = [self.p.is_members or self.p.keeps(chosen["path"], member) for member in self.p.members]
        total = 0.0
        for weight in (w for w, keeps in zip(self.p.weights, keeps_rules, strict=True) if keeps):
            total += weight
        return 1.0 if all(keeps_rules) else total

    def _certificate(self, rivals: Mapping[int, Record]) -> dict[str, Any]:
        """The claims that follow from these figures of the rivals."""
        searched = {i: (num(rival["score"]), num(rival.get("size"))) for i, rival in rivals.items()}
        first: int | None = self.claim["action_index"]
        if self.found is not None:
            # Scores before any oracle suffix was put in.
            best_paths = self.found.paths
            searched = {
                i: searched[i] if i in rivals and list(n.path) == rivals[i]["path"] else (n.score, self.p.size(n))
                for i, n in best_paths.items()
            }
            first = next(iter(best_paths), None)
        return certificate(self.r, rivals, searched, first, self.p.eps)

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
            step_score = edge.q - p.risk * edge.u
            self.own[i] = derived = dict(rival, step_score=step_score)
            near(f"{where}.step_score", rival["step_score"], step_score, abs(edge.q) + p.risk * edge.u, p.eps)
            if rival["retained"]:
                node = self._replay(rival["path"], i, f"{where}.path")
                size = p.size(node)
                derived.update(reward=node.reward, uncertainty=node.uncertainty, score=node.score, size=size)
                near(f"{where}.reward", rival["reward"], node.reward, size, p.eps)
                near(f"{where}.uncertainty", rival["uncertainty"], node.uncertainty, p.spread_size(node), p.eps)
                near(f"{where}.size", rival["size"], size, size, p.eps)
                expect(f"{where}.score", rival["score"], num(rival["reward"]) - p.risk * num(rival["uncertainty"]))
            else:
                for name, nothing in (("score", None), ("reward", None), ("uncertainty", None), ("path", [])):
                    expect(f"{where}.{name}", rival[name], nothing)
                expect(f"{where}.size", rival.get("size"), None)

    def _replay(self, path: list[int], first: int, where: str) -> PathNode:
        p, node = self.p, self.p.root()
        expect(where, (len(path), *path[:1]), (p.depth, first))
        for h, i in enumerate(path):
            try:
                edge = next((e for e in p.edges(node.states, h) if e.action == i), None)
                child = None if edge is None else p.extend(node, edge)
            except Fault as error:
                raise Invalid(f"{where}[{h}]", i, str(error)) from None
            if child is None:
                raise Invalid(f"{where}[{h}]", i, "not feasible")
            node = child
        return node

    def _first_actions(self) -> None:
        """No first action with a completion is left out, and a beam's retained paths are those the beam retains."""
        named = {rival["index"] for rival in self.r["rivals"]}
        for i in [i for i in self.edges if i not in named]:
            try:
                path = self.prover.best(self.edges[i], -math.inf)
                score = None if path is None else path.score
                require("rivals", path is None, f"nothing of action {i}", f"a path that scores {score}")
            except OutOfNodes:
                self.doubts.append("rivals")
            except Fault as error:
                raise Invalid("rivals", f"nothing of action {i}", f"a failure: {error}") from None
        retained, s = self.found, self.r["settings"]
        for k, rival in enumerate(self.r["rivals"]):
            if retained is None:
                return
            where, i, best_path = f"rivals[{k}].path", rival["index"], retained.paths.get(rival["index"])
            path_derived = [] if best_path is None else list(best_path.path)
            baseline = s["policy"] == "ConstrainedBeam" and i == self.claim["baseline_index"]
            put_in = baseline or (s.get("protect", False) and i in retained.generated)
            if rival["path"] != path_derived:
                better = put_in and rival["retained"] and (best_path is None or rival["score"] > best_path.score)
                require(where, better, rival["path"], path_derived)
            if put_in and self.exact:
                score, upper = num(rival["score"]), num(rival["upper"])
                best = abs(score - upper) <= self._rounding(upper, 0.0)
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
            sure_edges = {e.action: e for e in other.edges(other.root().states, 0)} if p.is_members else self.edges
        except Fault:
            sure_edges = {}
        for k, rival in enumerate(rivals):
            where, i = f"rivals[{k}]", rival["index"]
            require(f"{where}.upper", rival["upper"] is not None or not self.exact, None, "a number (claim.eps_a is)")
            self._upper(where, rival)
            low, high = rival["reward_only_score"], rival["reward_only_upper"]
            sizes = num(rival.get("reward_only_size")), num(rival.get("certain_size"))  # `_size` checks them
            derived = self._between(f"{where}.reward_only_upper", low, high, self.edges[i], reward_only, sizes[0])
            self.own[i].update(zip(("reward_only_score", "reward_only_upper"), derived, strict=True))
            self.own[i].update(zip(("certain_score", "certain_upper"), derived, strict=True))
            low_c, high_c = rival["certain_score"], rival["certain_upper"]
            if not p.is_members:
                expect(f"{where}.certain_score", low_c, low)
                expect(f"{where}.certain_upper", high_c, high)
            elif (low_c, high_c) != (None, None):
                require(f"{where}.certain_upper", i in sure_edges, high_c, "not feasible at the mean outcome")
                derived = self._between(f"{where}.certain_upper", low_c, high_c, sure_edges[i], sure, sizes[1])
                self.own[i].update(zip(("certain_score", "certain_upper"), derived, strict=True))
            else:
                self.own[i].update(certain_score=None, certain_upper=None)
            self._size(f"{where}.reward_only_size", low, rival["reward_only_size"], self.edges[i], reward_only)
            if p.is_members:
                self._size(f"{where}.certain_size", low_c, rival["certain_size"], sure_edges.get(i), sure)
            else:
                expect(f"{where}.certain_size", rival["certain_size"], rival["reward_only_size"])

    def _size(self, where: str, score: Any, size: Any, first: Edge | None, prover: Prover) -> None:
        """Paths at risk 0 are not in the record: one that scores as recorded must have the recorded size."""
        if score is None or first is None:
            require(where, size is None, size, math.nan)
            return
        recorded = num(size)
        room = self._rounding(score, recorded)

        def fits(n: PathNode) -> bool:
            path_size = prover.p.size(n)
            largest = max(path_size, recorded)
            close = path_size == recorded or (largest < math.inf and abs(path_size - recorded) <= self.p.eps * largest)
            return n.score <= score + room and close

        best = self.bests.get(first)
        try:
            is_best = best is not None and fits(best)
            is_there = is_best or prover.among(first, math.nextafter(score - room, -math.inf), fits)
            require(where, is_there, size, "no path that scores as much has this size")
        except (OutOfNodes, Fault):
            self.doubts.append(where)

    def _upper(self, where: str, rival: Record) -> None:
        """What bounds a first action from above: a path that reaches it, or a bound; and no path scores more."""
        i, upper, derived = rival["index"], num(rival["upper"]), self.own[rival["index"]]
        reached = rival["retained"] and rival["score"] == rival["upper"]
        require(f"{where}.upper_path", not (reached and rival["upper_path"]), rival["upper_path"], [])
        if rival["upper_path"]:
            node = self._replay(rival["upper_path"], i, f"{where}.upper_path")
            value, size = node.score, self.p.size(node)
        elif reached:
            value, size = derived["score"], derived["size"]
        else:
            require(f"{where}.upper", not self.exact, rival["upper"], "a value that no recorded path reaches")
            first = derived["step_score"]
            value, size = upper, max(abs(upper), abs(first) + abs(upper - first))
        near(f"{where}.upper", rival["upper"], value, size, self.p.eps)
        derived.update(upper=value, upper_size=size)
        self._none_above(where, rival, value, size)
        near(f"{where}.upper_size", rival["upper_size"], size, size, self.p.eps)

    def _none_above(self, where: str, rival: Record, value: float, size: float) -> None:
        """No path that begins with this action scores more than `value`; where one does by little, it counts."""
        if not value < math.inf:
            return
        i, floor = rival["index"], value + self._rounding(value, size)
        best = self._best(f"{where}.upper", floor, self.edges[i], self.prover, rival["upper"])
        if best is not None:
            near(f"{where}.upper", rival["upper"], best.score, self.p.size(best), self.p.eps)
            self.own[i].update(upper=best.score, upper_size=self.p.size(best))

    def _rounding(self, value: float, size: float) -> float:
        """By how much sums in another order may differ: tau of a value and the proposed path."""
        chosen = num(self.own.get(self.claim["action_index"], {}).get("size"))
        largest = max([x for x in (abs(value), size, chosen) if x < math.inf], default=0.0)
        return float(self.p.eps * largest) + FEWER_DIGITS

    def _best(self, where: str, floor: float, first: Edge, prover: Prover, claimed: Any) -> PathNode | None:
        """The best path above `floor`; None also when that must be left in doubt."""
        try:
            return prover.best(first, floor)
        except OutOfNodes:
            self.doubts.append(where)
        except Fault as error:
            require(where, False, claimed, f"a failure: {error}")
        return None

    def _between(
        self, where: str, low: Any, high: Any, first: Edge, prover: Prover, size: float = math.nan
    ) -> tuple[Any, Any]:
        """Some path that begins with `first` scores at least `low` (of that `size`), and none scores more than `high`.
        Returns what of both is proved."""
        lower, upper = num(low), num(high)
        if low is None and (high is None or upper == math.inf):
            return low, high
        above, below = self._rounding(upper, 0.0), self._rounding(lower, size)
        try:
            best = prover.best(first, upper + above if low is None else math.nextafter(lower - below, -math.inf))
        except OutOfNodes:
            self.doubts.append(where)
            return low, high
        except Fault as error:
            # A proof that met the failure found nothing; one that ended before may have found a path beside it.
            spent = self.claim["counters"]["oracle_nodes"] >= self.r["settings"]["proof_budget"]
            require(where, high is None and spent, low if high is None else high, f"a failure: {error}")
            self.doubts.append(where)
            return low, high
        self.bests[first] = best
        score = None if best is None else best.score
        require(where, low is None or score is not None, low, "no path scores as much")
        if best is not None:
            above = max(above, tolerance(self.p.eps, prover.p.size(best), 0.0))
        require(where, high is None or score is None or score <= upper + above, high, score)
        if score is None:
            return low, high
        return None if low is None else min(lower, score), None if high is None else max(upper, score)

    def _counters(self) -> None:
        """A beam's exactly; of other searches only that a failed one counted nothing."""
        counted, retained = self.claim["counters"], self.found
        if retained is not None or self.failed:
            expect("claim.counters.expansions", counted["expansions"], retained.expansions if retained else 0)
            expect("claim.counters.action_scores", counted["action_scores"], retained.action_scores if retained else 0)
        is_ours = self.r["settings"]["algorithm"] in UNUSED
        most = 0 if self.failed else self.r["settings"]["simulations"] if is_ours else counted["simulations"]
        require("claim.counters.simulations", counted["simulations"] <= most, counted["simulations"], f"at most {most}")

    def _dead_end(self) -> bool:
        """Whether no path exists; searches other than beams may leave that open, but not claim it falsely."""
        if self.found is not None or self.failed:
            return self.found is not None and self.found.dead_end
        claimed = any(row["name"] == "completion" and row["left"] == 0 for row in self.r["gate"]["rows"])
        return claimed and not completes(self.p)
