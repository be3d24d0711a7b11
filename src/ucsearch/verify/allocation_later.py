"""Limits at later steps, derived again: the priced recursion of every series, and the recorded paths walked once more.

Outcomes on the paths follow from the names of the series, so nobody can have chosen them. One series at a time.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

from ucsearch.verify.decision.closed import PlainGraph
from ucsearch.verify.decision.inputs import problem_of
from ucsearch.verify.decision.law import Law
from ucsearch.verify.decision.problem import CLOSED, Fault, Meter, TooMany, as_float
from ucsearch.verify.read import Blobs, Malformed, read_blob
from ucsearch.verify.trust import is_genuine
from ucsearch.verify.verdict import Invalid, Record, describe, num, require, require_that

CONFIDENCE, LEAST_PATHS, MOST_PATHS = 0.975, 20, 10_000


def student(level: float, df: int) -> float:
    """The quantile of Student's t, by the finite sums of Abramowitz and Stegun 26.7.3 and 26.7.4."""

    def share(t: float) -> float:
        angle = math.atan2(t, math.sqrt(df))
        c, total, term = math.cos(angle), 0.0, 1.0 if df % 2 == 0 else math.cos(angle)
        for i in range(2 + df % 2, df + 2, 2):
            total, term = total + term, term * c * c * (i - 1) / i
        if df % 2 == 0:
            return 0.5 + 0.5 * math.sin(angle) * total
        return 0.5 + (angle + math.sin(angle) * (total if df > 1 else 0.0)) / math.pi

    low, high = 0.0, 1e4
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if share(middle) < level else (low, middle)
    return high


def levels(names: list[str], path: int, steps: int, common: bool) -> list[list[float]]:
    """By step and series, from the names of those that take part."""
    seed, count = (b"", 1) if common else ("\0".join(names).encode(), len(names))
    raw = hashlib.shake_256(b"ucsearch.paths.v1\0" + str(path).encode() + b"\0" + seed).digest(8 * steps * count)
    flat = [int.from_bytes(raw[i : i + 8], "big") // 2048 / 2.0**53 for i in range(0, len(raw), 8)]
    rows = [flat[h * count : (h + 1) * count] for h in range(steps)]
    return [row * len(names) for row in rows] if common else rows


def amount_used(function: Any, state: Any, action: float, params: Any, times: float, where: str) -> float:
    """What an action takes of a shared limit; a use that fails, or is no amount, makes the record false."""
    if action != action:
        return 0.0
    try:
        amount = as_float(function(state, action, params)) * times
    except BaseException as error:
        if isinstance(error, MemoryError) or is_genuine(error):
            raise
        raise Invalid(where, action, describe(error)) from None
    require(where, 0.0 <= amount < math.inf, action, amount)
    return amount


class ReachedStates:
    """Everything one member can reach in closed mode without risk, and what it uses there."""

    def __init__(self, r: Record, i: int, target: Record, task: Any, blobs: Blobs, budget: int) -> None:
        self.r, self.i, self.task = r, i, task
        self.p = p = problem_of(target, blobs, task)
        is_closed = p.mode == CLOSED and p.risk == 0.0
        require(f"members[{i}]", is_closed, [p.mode, p.risk], "closed mode without risk")
        p.meter = Meter(budget)
        rows = [[tuple(y) if isinstance(y, tuple) else (y,) for y in member] for member in p.members]
        self.law = Law(target, rows, p.weights, blobs, p.meter)
        try:
            self.graph = PlainGraph(p, self.law)
            self.ends = {key: p.end(key[1]) if p.may_end((key[1],)) else -math.inf for key in self.graph.ends}
        except (Fault, TooMany) as error:
            raise Invalid(f"members[{i}]", target["id"], f"it cannot be valued: {error}") from None
        self.root = (0, p.state)

    def use(self, k: int, state: Any, a: int) -> float:
        p, shared = self.p, self.r["shared"][k]
        p.meter.toil(1)
        times = num(shared["times"][self.i])
        return amount_used(self.task.uses[shared["use"]], state, p.actions[a], p.params, times, f"shared[{k}].use")

    def least(self, k: int, step: int) -> float:
        """Expected use at one step of the policy that expects to use least then."""
        after = {key: 0.0 if end > -math.inf else math.inf for key, end in self.ends.items()}
        for h in reversed(range(self.p.depth)):
            here = {}
            for key, acts in self.graph.layers[h].items():
                uses = [math.inf]
                for a, moves in acts.items():
                    total = self.use(k, key[1], a) if h == step else 0.0
                    for (_, w, _), (_, to) in zip(self.law.classes[key[0]], moves, strict=True):
                        total += w * after[to]
                    uses.append(total)
                here[key] = min(uses)
            after = here
        return after[self.root]


class Least:
    """What every limit of a later step is used by at least, on average, whatever is done."""

    def __init__(self, r: Record) -> None:
        self.r = r
        self.used: dict[tuple[int, str, int], list[float]] = {
            (k, g, h): []
            for k, s in enumerate(r["shared"])
            for g, limits in s["later"].items()
            for h in range(1, len(limits) + 1)
        }

    def add(self, i: int, target: Record, task: Any, blobs: Blobs, budget: int) -> None:
        reached = ReachedStates(self.r, i, target, task, blobs, budget)
        for (k, g, h), used in self.used.items():
            if self.r["shared"][k]["groups"][i] == g:
                require(f"shared[{k}].later", h < reached.p.depth, h, f"at most {reached.p.depth - 1} later steps")
                used.append(reached.least(k, h))

    def beyond(self, share: float) -> bool:
        """Whether some limit is below that by more than this share of it."""
        for (k, g, h), used in self.used.items():
            total, limit = math.fsum(used), num(self.r["shared"][k]["later"][g][h - 1])
            if not total <= limit + share * max(total, limit):
                return True
        return False


class Paths:
    """The recorded choices of all members at all later steps, and what they come to."""

    def __init__(self, r: Record, blobs: Blobs, free: list[int]) -> None:
        self.r, self.later, self.free = r, r["later"], free
        self.steps = 1 + max((len(x) for s in r["shared"] for x in s["later"].values()), default=0)
        require_that("shared.later", self.steps > 1, "has no limits at later steps")
        shape, _, flat = read_blob(self.later["choices"]["$blob"], blobs)
        if len(shape) != 3 or shape[2] != len(free):
            raise Malformed(f"later.choices: {shape} do not fit {len(free)} series that take part")
        self.count, self.depth = shape[0], shape[1] + 1
        require("later.choices", LEAST_PATHS <= self.count <= MOST_PATHS, self.count, f"at least {LEAST_PATHS} paths")
        require("shared.later", self.steps <= self.depth, self.steps, f"at most {self.depth} steps")
        self.flat = flat
        self.prices = [{g: [num(x) for x in row] for g, row in zip(sorted(s["limits"]), prices, strict=True)}
                       for s, prices in zip(r["shared"], self._shaped(), strict=True)]  # fmt: skip
        self.losses: list[list[float]] = [[] for _ in range(self.count)]
        self.used: dict[tuple[int, int, int, str], list[float]] = {}  # path, step, resource, group
        self.values: list[float] = []  # of every series without any limit
        names = [r["members"][i]["series"] for i in free]
        common = self.later["draws"] == "common"
        self.levels = [levels(names, path, self.depth - 1, common) for path in range(self.count)]

    def _shaped(self) -> Any:
        prices = self.later["prices"]
        fits = [len(p) for p in prices] == [len(s["limits"]) for s in self.r["shared"]]
        fits = fits and all(len(row) == self.depth - 1 and all(x >= 0 for x in row) for p in prices for row in p)
        require("later.prices", fits, prices, "one of at least 0 for each limit and later step")
        for k, s in enumerate(self.r["shared"]):
            require(f"shared[{k}].later", sorted(s["later"]) == sorted(s["limits"]), s["later"], "the same groups")
            for g, row in zip(sorted(s["limits"]), prices[k], strict=True):
                free = row[len(s["later"][g]) :]
                require("later.prices", not any(free), row, "no price where there is no limit")
                require(f"shared[{k}].later", all(0 <= x < math.inf for x in s["later"][g]), s["later"], "limits")
        return prices

    def price(self, k: int, i: int, h: int) -> float:
        group = self.r["shared"][k]["groups"][i]
        return 0.0 if group is None or h == 0 else self.prices[k][group][h - 1]

    def walk(self, i: int, place: int, target: Record, task: Any, blobs: Blobs, budget: int, first: int | None) -> Any:
        """Member i, the `place`-th that takes part: values of its first actions at the prices. Its paths begin with
        `first`."""
        reached = ReachedStates(self.r, i, target, task, blobs, budget)
        p, law, graph, use, root = reached.p, reached.law, reached.graph, reached.use, reached.root
        require(f"members[{i}]", p.depth == self.depth, p.depth, f"{self.depth} steps")
        discount = target["settings"]["discount"]

        def solve(priced: bool) -> list[dict[Any, dict[int, float]]]:
            """By step and state, every action's value with its own step unpriced."""
            after, out = dict(reached.ends), list[dict[Any, dict[int, float]]]()
            for h in reversed(range(p.depth)):
                here: dict[Any, dict[int, float]] = {}
                best: dict[Any, float] = {}
                for key, acts in graph.layers[h].items():
                    here[key] = {}
                    for a, moves in acts.items():
                        total = 0.0
                        for (_, w, _), (reward, to) in zip(law.classes[key[0]], moves, strict=True):
                            total += w * (reward + discount * after[to])
                        if total > -math.inf:
                            here[key][a] = total
                    best[key] = max(
                        (v - self._charge(i, h, key[1], a, use, priced) for a, v in here[key].items()),
                        default=-math.inf,
                    )
                out.insert(0, here)
                after = best
            self.top = after
            return out

        solve(False)
        self.values.append(self.top[root])
        values = solve(True)
        if first is not None:
            for path, level in enumerate(self.levels):
                draws = [row[place] for row in level]
                self._follow(i, place, path, graph, law, values, root, first, draws, use)
        return values[0][root]

    def _charge(self, i: int, h: int, state: Any, a: int, use: Any, priced: bool) -> float:
        prices = [self.price(k, i, h) for k in range(len(self.prices))] if priced else []
        return math.fsum(x * use(k, state, a) for k, x in enumerate(prices) if x > 0.0)

    def _follow(
        self, i: int, place: int, path: int, graph: Any, law: Law, values: Any, key: Any, a: int, level: list[float],
        use: Any,
    ) -> None:  # fmt: skip
        n, discount = len(self.free), graph.p.settings["discount"]
        worth = 1.0
        for h in range(1, self.depth):
            points, moves = law.classes[key[0]], graph.layers[h - 1][key][a]
            at, mass = 0, points[0][1]
            while at + 1 < len(points) and not mass > level[h - 1]:
                at += 1
                mass += points[at][1]
            key, worth = moves[at][1], worth * discount
            chosen = self.flat[(path * (self.depth - 1) + h - 1) * n + place]
            here = values[h][key]
            require(f"later.choices[{path}][{h - 1}]", chosen in here, chosen, "an action that can be taken there")
            a = int(chosen)
            top = max(v - self._charge(i, h, key[1], x, use, True) for x, v in here.items())
            value = here[a] - self._charge(i, h, key[1], a, use, True)
            self.losses[path].append(worth * max(0.0, top - value))
            for k, shared in enumerate(self.r["shared"]):
                group = shared["groups"][i]
                if group is not None and h <= len(shared["later"][group]):
                    self.used.setdefault((path, h, k, group), []).append(use(k, key[1], a))

    def figures(self, discount: float) -> tuple[float, float, float, float]:
        """Rent of the later limits, value without limits, mean and bound of the paths' gaps."""
        rent = []
        for k, shared in enumerate(self.r["shared"]):
            for group, limits in shared["later"].items():
                for h, limit in enumerate(limits, 1):
                    price, worth = self.prices[k][group][h - 1], math.prod([discount] * h)
                    rent.append(worth * price * limit)
                    for path in range(self.count):
                        total = math.fsum(self.used.get((path, h, k, group), ()))
                        require(
                            f"shared[{k}].later", total <= limit, limit, f"{total} is used on path {path}, step {h}"
                        )
                        unused = math.fsum([limit, *(-x for x in self.used.get((path, h, k, group), ()))])
                        self.losses[path].append(worth * price * unused)
        gaps = [math.fsum(x) for x in self.losses]
        mean = math.fsum(gaps) / len(gaps)
        spread = math.sqrt(math.fsum((x - mean) ** 2 for x in gaps) / (len(gaps) - 1))
        bound = mean + student(CONFIDENCE, len(gaps) - 1) * spread / math.sqrt(len(gaps))
        return math.fsum(rent), math.fsum(self.values), mean, bound
