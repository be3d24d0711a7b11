"""An allocation's claims, derived again from the decisions it names: uses by the task's functions, sums, bound, shares.

O(series x actions x limits). Values of first actions are those of the decisions' records, which have entries of their
own and verdicts of their own; how the allocation was found plays no part.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ucsearch.verify.allocation_later import Least, Paths, amount_used
from ucsearch.verify.decision.inputs import rules_of
from ucsearch.verify.decision.problem import CLOSED, OutOfNodes
from ucsearch.verify.read import Blobs, Malformed, read_blob
from ucsearch.verify.verdict import Record, action_of, expect, near, num, require, require_that, share

SMALL = 1e-9  # of a simulated rule's limits
ARRAYS = ("members", "weights", "mean", "q", "u", "node")  # of a decision's trace
MOST_NODES = 10_000  # of a tree of parts
Targets = list[tuple[dict[str, Any], str]]  # decisions and their digests


def _share(target: Record, blobs: Blobs) -> float:
    """eps of a decision's tolerance: by its steps and the members or points that are averaged."""
    settings = target["settings"]
    if settings["mode"] == CLOSED:
        return share(settings["reach"], target["claim"]["law"]["points"])
    (*_, members), _, _ = read_blob(target["inputs"]["trace"]["weights"]["$blob"], blobs)
    return share(settings["reach"], members)


class _Member:
    """One series: its decision, its values, and what its actions use of each limit."""

    def __init__(self, i: int, r: Record, target: Record, digest: str, task: Any, blobs: Blobs) -> None:
        where, recorded = f"members[{i}]", r["members"][i]
        expect(f"{where}.series", recorded["series"], target["series"])
        expect(f"{where}.digest", recorded["digest"], digest)
        state, params, self.actions = rules_of(target, task)
        self.own, self.outcome = recorded, target["outcome"]
        self.lower, self.upper = {}, {}
        for rival in target["rivals"]:
            low, high = num(rival["score"]), num(rival["upper"])
            if low == low:
                self.lower[rival["index"]] = low
            self.upper[rival["index"]] = high if low != low else max(high, low)
        sizes = [num(rival.get(name)) for rival in target["rivals"] for name in ("size", "upper_size")]
        self.eps, self.size = _share(target, blobs), max([x for x in sizes if x == x], default=0.0)
        released = self.outcome["outcome"] == "RELEASED"
        self.takes_part = released and bool(target["claim"]["proved"]) and bool(self.lower)
        self.uses: list[list[float]] = []
        for k, shared in enumerate(r["shared"]):
            place = f"shared[{k}]"
            function = getattr(task, "uses", {}).get(shared["use"])
            require(f"{place}.use", function is not None, shared["use"], "no use of the task")
            times = num(shared["times"][i])
            self.uses.append([amount_used(function, state, a, params, times, f"{place}.use") for a in self.actions])

    def tau(self, size: float) -> float:
        """How far apart two of its values must be, of which `size` was added up besides what is in the values."""
        return self.eps * max(size, self.size)

    def place(self, recorded: Any) -> int | None:
        action = action_of(recorded)
        return self.actions.index(action) if action in self.actions else None

    @property
    def kept(self) -> int | None:
        """The action it keeps when it does not take part; None for nothing."""
        return self.place(self.outcome["action"])


def verify_allocation(
    r: Record, targets: Targets, task_of: Callable[[str], Any], blobs: Blobs, budget: int
) -> list[str]:
    """Raises at the first false claim; returns what the budget left in doubt."""
    count = len(r["members"])
    names = [m["series"] for m in r["members"]]
    require("members", count > 0 and len(set(names)) == count, names[:3], "every series once, at least one")
    for k, s in enumerate(r["shared"]):
        if len(s["groups"]) != count or len(s["times"]) != count:
            raise Malformed(f"shared[{k}]: groups and times for {count} members are expected")
        are_groups = all(g is None or g in s["limits"] for g in s["groups"])
        require(f"shared[{k}].groups", are_groups, s["groups"][:3], f"groups of {sorted(s['limits'])[:5]}")
    names_once = len({s["name"] for s in r["shared"]}) == len(r["shared"]) > 0
    require_that("shared", names_once, "two limits have one name, or there is none")
    basis = [(t["settings"]["mode"], t["settings"]["risk"], t["settings"]["spread"]) for t, _ in targets]
    laws = {t["inputs"]["trace"]["meta"]["coupling"] for t, _ in targets if t["settings"]["mode"] == CLOSED}
    require("members", len(laws) < 2, sorted(laws), "decisions of one kind of law")
    is_alike = all(b[:2] == basis[0][:2] and (not b[1] or b[2] == basis[0][2]) for b in basis)
    require_that("members", is_alike, "the decisions are of different modes, risks or spreads")
    tasks = [task_of(t["task"]["object"]) for t, _ in targets]
    members = [_Member(i, r, *t, task, blobs) for i, (t, task) in enumerate(zip(targets, tasks, strict=True))]
    allocated = _Allocated(r, members, {t["settings"]["discount"] for t, _ in targets})
    later, ahead = r.get("later"), "later" in r  # limits at later steps
    is_alike = all(("later" in s) == ahead for s in r["shared"]) and all(("trace" in m) == ahead for m in r["members"])
    require_that("later", is_alike, "some limits or members have later steps, and some have none")
    require_that("later", later is None or r["claim"]["served"], "has paths, although nothing was shared out")
    needed = ahead and r["claim"]["served"]
    require_that("later", (later is not None) == needed, "has no prices and paths of later steps")
    for i, (m, (t, _)) in enumerate(zip(r["members"] if ahead else (), targets, strict=False)):
        trace = t["inputs"]["trace"]
        expect(f"members[{i}].trace", m["trace"], [trace[name] for name in ARRAYS if name in trace])
    if needed:
        free = [i for i, m in enumerate(members) if m.takes_part]
        allocated.paths = paths = Paths(r, blobs, free)
        try:
            for place, i in enumerate(free):
                m = members[i]
                at = m.place(m.own["action"])
                require(f"members[{i}].action", at in m.lower, m.own["action"], "an action with a value")
                values = paths.walk(i, place, targets[i][0], tasks[i], blobs, budget, at)
                # Only what the decision valued may leave; whatever is allowed counts in the bound.
                m.lower = {a: values[a] for a in m.lower if a in values}
                m.upper = dict(values)
        except OutOfNodes:
            return ["later"]
    elif ahead and not allocated.missing():
        allocated.least = least = Least(r)
        try:
            for i, m in enumerate(members):
                if m.takes_part:
                    least.add(i, targets[i][0], tasks[i], blobs, budget)
        except OutOfNodes:
            return ["later"]
    allocated.verify()
    return []


class _Allocated:
    def __init__(self, r: Record, members: list[_Member], discounts: set[float]) -> None:
        self.r, self.members, self.discounts = r, members, discounts
        self.paths: Paths | None = None  # of a served allocation with limits at later steps
        self.least: Least | None = None  # of one that was not served
        self.free = [i for i, m in enumerate(members) if m.takes_part]
        self.claim, self.terms = r["claim"], r["terms"]

    def verify(self) -> None:
        missing = self.missing()
        served = self.claim["served"]
        require("claim.served", not served or bool(self.free), served, "nobody takes part")
        if served:
            require("claim.served", not missing, served, "a limit cannot be kept")
            choice = self._choice()
            self._limits(choice)
            lower, upper = self._figures(choice)
            passed = self._passes(choice, lower, upper)
            expect("claim.passed", self.claim["passed"], passed)
            require("claim.served", passed or self.terms["serve"] == "best", served, "the gap is above the limit")
            self._reason("none" if passed else "allocation_gap")
            return
        expect("claim.passed", self.claim["passed"], False)
        reasons = {"budget_infeasible" if missing else "allocation_gap" if self.free else "none"}
        if self.least is not None and self.free and not missing:
            # Within rounding of a limit either may be said.
            reasons = {
                "budget_infeasible" if self.least.beyond(share) else "allocation_gap"
                for share in (0.5 * SMALL, 2.0 * SMALL)
            }
        require("claim.reason", self.claim["reason"] in reasons, self.claim["reason"], " or ".join(sorted(reasons)))
        self._fallbacks()

    def _reason(self, derived: str) -> None:
        expect("claim.reason", self.claim["reason"], derived)

    def _groups(self, k: int) -> dict[str, list[int]]:
        out: dict[str, list[int]] = {g: [] for g in self.r["shared"][k]["limits"]}
        for i, g in enumerate(self.r["shared"][k]["groups"]):
            if g is not None:
                out[g].append(i)
        return out

    def missing(self) -> bool:
        """Whether some limit cannot be kept whatever is chosen."""
        for k, s in enumerate(self.r["shared"]):
            for g, rows in self._groups(k).items():
                least = []
                for i in rows:
                    m = self.members[i]
                    if m.takes_part:
                        least.append(min(m.uses[k][a] for a in m.lower))
                    elif m.kept is not None:
                        least.append(m.uses[k][m.kept])
                if not math.fsum(least) <= s["limits"][g]:
                    return True
        return False

    def _choice(self) -> dict[int, int]:
        """Of those who take part; the others must stand as their decision left them."""
        chosen = {}
        for i, m in enumerate(self.members):
            where = f"members[{i}]"
            if m.takes_part:
                place = m.place(m.own["action"])
                require(f"{where}.action", place in m.lower, m.own["action"], "an action with a value")
                expect(f"{where}.outcome", m.own["outcome"], "RELEASED")
                chosen[i] = -1 if place is None else place
            else:
                expect(f"{where}.action", m.own["action"], m.outcome["action"])
                expect(f"{where}.outcome", m.own["outcome"], m.outcome["outcome"])
        return chosen

    def _limits(self, choice: dict[int, int]) -> None:
        for k, s in enumerate(self.r["shared"]):
            for g, rows in self._groups(k).items():
                places = [(self.members[i], choice.get(i, self.members[i].kept)) for i in rows]
                total = math.fsum(m.uses[k][a] for m, a in places if a is not None)
                require(f"shared[{k}].limits", total <= s["limits"][g], s["limits"][g], f"{total} is used")

    def _figures(self, choice: dict[int, int]) -> tuple[float, float]:
        """Value and bound; how many series were moved off what is best for them at the prices."""
        prices = self._prices(self.r["prices"])
        surely, maybe = 0, 0
        for i in self.free:
            m, chosen = self.members[i], choice[i]
            charge = self._charges(i, prices)
            best = max(m.upper[a] - charge[a] for a in m.upper)
            value_chosen = m.lower[chosen] - charge[chosen]
            at = next(a for a in m.upper if m.upper[a] - charge[a] == best)
            size = max(abs(m.upper[at]) + charge[at], abs(m.lower[chosen]) + charge[chosen])
            tau = m.tau(size)
            surely, maybe = surely + (best - value_chosen > 2.0 * tau), maybe + (best - value_chosen > 0.5 * tau)
        value = math.fsum(self.members[i].lower[choice[i]] for i in self.free)
        everything = {i: set(self.members[i].upper) for i in self.free}
        bound = self._bound(prices, everything)
        if "tree" in self.r:
            bound = min(bound, max(self._parts(self.r["tree"], everything), value))
        self._close("lower", value)
        self._close("upper", bound)
        # The last digits can move a series across its tolerance.
        require("claim.adjusted", surely <= self.claim["adjusted"] <= maybe, self.claim["adjusted"], maybe)
        return value, bound

    def _charges(self, i: int, prices: list[list[float]]) -> list[float]:
        m = self.members[i]
        return [
            math.fsum(self._price(prices, k, i) * m.uses[k][a] for k in range(len(prices)))
            for a in range(len(m.actions))
        ]

    def _bound(self, prices: list[list[float]], allowed: dict[int, set[int]]) -> float:
        """No choice among the allowed actions is worth more."""
        top = []
        for i in self.free:
            m, charge = self.members[i], self._charges(i, prices)
            top.append(max(m.upper[a] - charge[a] for a in allowed[i]))
        rent = []
        for k, s in enumerate(self.r["shared"]):
            for at, (g, rows) in enumerate(sorted(self._groups(k).items())):
                actions_kept = [self.members[i].kept for i in rows if not self.members[i].takes_part]
                fixed = [i for i in rows if not self.members[i].takes_part]
                used = [-self.members[i].uses[k][a] for i, a in zip(fixed, actions_kept, strict=True) if a is not None]
                rent.append(prices[k][at] * math.fsum([s["limits"][g], *used]))
        return math.fsum([*top, *rent])

    def _parts(self, tree: Any, everything: dict[int, set[int]]) -> float:
        """The largest bound of all parts. Every split covers what was allowed, so nothing is left out."""
        best, stack, count = -math.inf, [(tree, everything)], 0
        while stack:
            node, allowed = stack.pop()
            count += 1
            if count > MOST_NODES or not isinstance(node, dict):
                raise Malformed(f"tree: a node for a part, at most {MOST_NODES}, is expected")
            if sorted(node) == ["prices"]:
                best = max(best, self._bound(self._prices(node["prices"]), allowed))
            elif sorted(node) == ["over"]:
                self._over(node["over"], allowed)
            elif sorted(node) == ["actions", "inside", "member", "outside"]:
                i, actions = node["member"], node["actions"]
                is_member = type(i) is int and i in allowed and isinstance(actions, list)
                if not is_member or not all(type(a) is int for a in actions):
                    raise Malformed("tree: a member that takes part and whole numbers are expected")
                inside = allowed[i] & set(actions)
                outside = allowed[i] - inside
                require("tree.actions", bool(inside) and bool(outside), actions, "some of the actions, not all")
                stack += [(node["inside"], {**allowed, i: inside}), (node["outside"], {**allowed, i: outside})]
            else:
                raise Malformed(f"tree: a node with the members {sorted(node)[:5]}")
        return best

    def _over(self, which: Any, allowed: dict[int, set[int]]) -> None:
        """A part in which a limit cannot be kept has no choice that counts."""
        shared = self.r["shared"]
        if not (isinstance(which, list) and len(which) == 2 and type(which[0]) is int and 0 <= which[0] < len(shared)):
            raise Malformed("tree.over: a limit's number and its group are expected")
        k, group = which
        if not isinstance(group, str) or group not in shared[k]["limits"]:
            raise Malformed(f"tree.over: no limit of {group!r}")
        least = []
        for i in self._groups(k)[group]:
            m = self.members[i]
            if i in allowed:
                least.append(min(m.uses[k][a] for a in allowed[i]))
            elif m.kept is not None:
                least.append(m.uses[k][m.kept])
        total = math.fsum(least)
        require("tree.over", total > shared[k]["limits"][group], which, f"{total} would do")

    def _prices(self, recorded: Any) -> list[list[float]]:
        try:
            prices = [[num(x) for x in p] for p in recorded]
        except (TypeError, ValueError):
            raise Malformed("prices: a list of numbers for every limit is expected") from None
        shapes = [len(p) for p in prices] == [len(s["limits"]) for s in self.r["shared"]]
        are_prices = shapes and all(0.0 <= x < math.inf for p in prices for x in p)
        require("prices", are_prices, recorded, "one of at least 0 for each limit")
        return prices

    def _price(self, prices: list[list[float]], k: int, i: int) -> float:
        s = self.r["shared"][k]
        g = s["groups"][i]
        return 0.0 if g is None else prices[k][sorted(s["limits"]).index(g)]

    def _close(self, name: str, derived: float) -> None:
        claimed = num(self.claim[name])
        is_close = abs(claimed - derived) <= self._eps() * self._size()
        require(f"claim.{name}", is_close, self.claim[name], derived)

    def _size(self) -> float:
        """What was added up for a total, in absolute terms."""
        most = [max(abs(x) for x in self.members[i].upper.values()) for i in self.free]
        rent = [abs(num(p)) * limit for s, recorded in zip(self.r["shared"], self.r["prices"], strict=True)
                for p, (_, limit) in zip(recorded, sorted(s["limits"].items()), strict=True)]  # fmt: skip
        return math.fsum([*map(max, most, [self.members[i].size for i in self.free]), *rent])

    def _eps(self) -> float:
        """Share of a total that may be rounding."""
        return max(self.members[i].eps for i in self.free)

    def _passes(self, choice: dict[int, int], lower: float, upper: float) -> bool:
        gap = upper - lower
        without = math.fsum(max(self.members[i].upper.values()) for i in self.free)
        if self.paths is not None:
            require("members", len(self.discounts) == 1, sorted(self.discounts), "one discount")
            rent, without, mean, bound = self.paths.figures(float(next(iter(self.discounts))))
            size = abs(rent) + abs(without) + self._size()
            for name, derived in (("rent", rent), ("free", without), ("mean", mean), ("bound", bound)):
                near(f"later.{name}", self.r["later"][name], derived, size, self._eps())
            gap, upper = gap + bound, upper + rent
        limit = num(self.terms["gap_limit"])
        allowed = num(self.terms["gap_share"]) * (without - upper)
        chosen = [(self.members[i], choice[i]) for i in self.free]
        taus = [m.tau(abs(m.lower[at]) + abs(max(m.upper.values()))) for m, at in chosen]
        return gap <= allowed or (limit == limit and gap <= limit) or gap <= math.fsum(taus)

    def _fallbacks(self) -> None:
        """Nothing was allocated: everybody's fallback, if together they keep the limits, else nothing leaves."""
        places = []
        for m in self.members:
            keeps = m.outcome["outcome"] != "RELEASED"
            leaving = (
                m.outcome["action"]
                if keeps
                else m.outcome["fallback_action"]
                if m.outcome["fallback_feasible"]
                else None
            )
            places.append(m.place(leaving))
        fit = all(
            math.fsum(self.members[i].uses[k][a] for i in rows if (a := places[i]) is not None) <= s["limits"][g]
            for k, s in enumerate(self.r["shared"])
            for g, rows in self._groups(k).items()
        )
        for i, (m, place) in enumerate(zip(self.members, places, strict=True)):
            where, outcome, action = f"members[{i}]", m.outcome["outcome"], m.outcome["action"]
            if m.takes_part:
                leaves = fit and place is not None and m.outcome["fallback_feasible"]
                outcome, action = ("FALLBACK", m.outcome["fallback_action"]) if leaves else ("HOLD", None)
            expect(f"{where}.outcome", m.own["outcome"], outcome)
            expect(f"{where}.action", m.own["action"], action)
