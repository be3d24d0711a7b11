"""The last look before a release: the plain rules are asked once more about the path that would leave.

Compiled code can be wrong about a rule (an index past the end of an array, a constant that has changed, arithmetic in
which Python and Numba differ), and a rule can be no rule at all (a clock or a random number in it). What the plain
functions do not confirm is not released. Mean and scores modes: the whole path at the planning outcomes, and what it
earns. Members mode: the first action, and the path of the heaviest member and of one drawn by the window's content,
with the first reward of each asked for twice. Closed mode: the policy after low, middle and high outcomes, and the
first step's reward. Rules that reach what no record can hold are asked about the whole path, all members, twice, and
rules whose own content changed meanwhile release nothing (`dispatch.api`). A doubt is looked into by the plain engine
step by step before it counts.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.answers import as_allowed, as_number, guarded
from ucsearch.certificate.panel import CertifiedPanel
from ucsearch.engine.plain.faults import TaskFault
from ucsearch.engine.plain.run import make_window
from ucsearch.engine.plan import Plan
from ucsearch.engine.status import Fault
from ucsearch.policies import MODES

__all__ = ["last_look"]

Floats = NDArray[np.float64]
_MEMBERS, _SCORES = MODES["members"], MODES["scores"]


def last_look(
    certified: CertifiedPanel, released: NDArray[np.bool_], unseen: bool | None = None
) -> dict[int, str]:  # fmt: skip
    """Windows whose release the plain rules do not confirm, and why. `unseen`: whether the rules reach what cannot be
    seen (a clock, random numbers, an open file), where the caller knows; they are asked about everything, twice."""
    windows = np.flatnonzero(released)
    if not windows.size:
        return {}
    unseen = bool(certified.plan.task.reach().refused) if unseen is None else unseen
    if certified.plan.policy.mode == "closed":
        eps = certified.evidence.share
        found = {w: _policy_look(certified.plan[w], float(eps[w])) for w in windows.tolist()}
        if unseen:
            found = {w: why or _policy_again(certified.plan[w], certified.plan[w]) for w, why in found.items()}
        return {w: why for w, why in found.items() if why}
    look = _Look(certified, windows)
    found = {w: look.careful(w) for w in (windows.tolist() if unseen else look.doubtful())}
    return {w: why for w, why in found.items() if why}


def _policy_again(plan: Plan, again: Plan) -> str:
    """Closed mode: the same steps of the policy by two plans that were built of one search."""
    task, seen = plan.task, []
    try:
        for one in (plan, again):
            window, _ = one.start()
            ends = [branch.states[-1] for branch in one.branches] if task.terminal is not None else []
            seen.append((one.branches, [as_number(guarded(task.terminal, end, window.params)) for end in ends]))
    except Exception as error:  # whatever user code raises the second time
        return f"the rules are not deterministic: asked again, {type(error).__name__}: {error}"
    return "" if seen[0] == seen[1] else "the rules are not deterministic: asked again, a policy's steps are others"


def _as_fields(column: Floats) -> list[Any]:
    """A state's field in every window: numbers, or tuples of numbers."""
    values = column.tolist()
    return values if column.ndim == 1 else list(map(tuple, values))


def _policy_look(plan: Plan, eps: float) -> str:
    """Closed mode: the policy after low, middle and high outcomes, every action allowed, and the first step's mean
    reward twice; "" when all is as the search found it."""
    window, start = plan.start()
    try:
        for branch in plan.branches:
            for h, (state, a) in enumerate(zip(branch.states, branch.actions, strict=False)):
                if not window.allowed((state,), window.actions.index(a), h):
                    return f"the plain rules do not allow action {a:g} at step {h} after {branch.name} outcomes"
            if not window.ended(branch.states[-1:], plan.settings.depth - 1, plan.action_index):
                return f"the plain rules do not let the plan end as it does after {branch.name} outcomes"
        found = []
        for _ in range(2):
            total = 0.0
            for k in range(int(window.u[0][1])):
                args = (start, plan.action, window.members[k][0], 0, window.params)
                earned = window.number(plan.task.reward_at, Fault.REWARD, 0, plan.action_index, *args)
                total += window.weights[k] * earned
            found.append(total)
    except TaskFault as fault:
        return f"{fault} (step {fault.step}, action {window.actions[fault.action]})"
    if found[0] != found[1]:
        return f"the rules are not deterministic: the first step earns {found[0]!r} and {found[1]!r}"
    first = plan.outputs.table[plan.window, plan.action_index]
    if not abs(found[0] - first[4]) <= eps * float(first[6]):
        return f"the plain rules give a first reward of {found[0]:.9g} where the search found {first[4]:.9g}"
    return ""


class _Look:
    """The releases of a panel. What each needs is laid out once for all of them: a look costs little more than the
    rules that it asks."""

    def __init__(self, certified: CertifiedPanel, windows: NDArray[np.int64]) -> None:
        plan = certified.plan
        self.certified, self.plan, self.task = certified, plan, plan.task
        self.settings, self.layout, inputs = plan.settings, plan.layout, plan.inputs
        first = certified.released[windows]
        self.windows = windows.tolist()
        self.eps = certified.evidence.share[windows].tolist()
        self.rewards = certified.evidence.lower_reward[windows, first].tolist()
        self.paths = certified.paths[windows, first]  # (n, d) indices; below 0 where later actions depend on outcomes
        columns = self.layout.columns(inputs.states[windows])
        self.states = list(map(self.layout.kind, *(_as_fields(column) for column in columns)))
        self.discounts = [1.0]
        for _ in range(self.settings.depth):
            self.discounts.append(self.discounts[-1] * self.settings.discount)
        self.members = self.settings.mode == _MEMBERS
        self.continues = self.members and len(self.task.continuations) > 0
        self.bare = self.task.terminal is None and self.task.allowed_end is None
        if self.members:
            self.outcomes = self._outcomes(self._two_members(inputs.members[windows], inputs.weights, windows))
        else:
            self.outcomes = self._outcomes(inputs.mean[windows, : self.settings.depth])
        layout = self.task.params_layout
        self.params = [None if layout is None else layout.build(row) for row in inputs.params.tolist()]
        self.actions = inputs.actions.tolist()
        grid = inputs.actions if len(inputs.actions) == 1 else inputs.actions[windows]
        rows = np.zeros(1, np.int64) if len(grid) == 1 else np.arange(len(grid))
        self.taken = grid[rows[:, None], np.maximum(self.paths, 0)].tolist()  # (n, d)

    def _outcomes(self, array: NDArray[np.float64]) -> list[list[Any]]:
        """(n, d, F) numbers as the outcomes that rules see."""
        kind = self.task.outcome
        if kind is None:
            found: list[list[Any]] = array[:, :, 0].tolist()
            return found
        width = len(kind._fields)
        return [[kind(*(y if len(y) == width else y * width)) for y in rows] for rows in array.tolist()]

    def _two_members(self, members: Floats, weights: Floats, windows: NDArray[np.int64]) -> Floats:
        """(2n, d, F) outcomes of each window's heaviest member, then of the one drawn."""
        rows = np.arange(len(windows))
        heaviest = np.argmax(weights if weights.shape[0] == 1 else weights[windows], axis=1)
        drawn = np.array([zlib.crc32(own.tobytes()) % own.shape[0] for own in members])
        both = np.concatenate([members[rows, heaviest], members[rows, drawn]])
        return both[:, : self.settings.depth]

    def doubtful(self) -> list[int]:
        """Windows of releases against which something speaks: a rule that says no, another reward, an exception."""
        if self.members:
            confirmed: Iterator[bool] = map(self._follows, range(len(self.windows)))
        elif self.task.timed or self.settings.mode == _SCORES:
            confirmed = map(self._earns, range(len(self.windows)), self._totals_by_step())
        else:
            confirmed = map(self._earns, range(len(self.windows)), self._totals())
        return [w for w, good in zip(self.windows, confirmed, strict=True) if not good]

    def _params(self) -> list[Any]:
        return [self.params[w] for w in self.windows] if len(self.params) > 1 else self.params * len(self.windows)

    def _earns(self, k: int, found: tuple[float, float]) -> bool:
        (total, size), recorded = found, self.rewards[k]
        tau = self.eps[k] * size
        return bool(abs(total - recorded) <= tau < math.inf)

    def _follows(self, k: int) -> bool:
        """Members mode: release k for the heaviest member and for the one drawn."""
        p = self.params[self.windows[k] if len(self.params) > 1 else 0]
        try:
            self._follow(self.states[k], self.paths[k].tolist(), self.taken[k], self.outcomes[k], p)
            self._follow(self.states[k], self.paths[k].tolist(), self.taken[k], self.outcomes[len(self.windows) + k], p)
        except KeyboardInterrupt:
            raise
        except BaseException:  # whatever it is, the careful look says it in words
            return False
        return True

    def _follow(self, state: Any, path: list[int], taken: list[float], outcomes: list[Any], p: Any) -> None:
        """One member along the path: every action allowed, and the first reward the same twice; else it raises."""
        feasible, step, settle = self.task.feasible_at, self.task.bare_step_at, self.layout.settle
        args = (state, taken[0], outcomes[0], 0, p)
        if not as_number(self.task.reward_at(*args)) == as_number(self.task.reward_at(*args)):
            raise ValueError("not deterministic")
        for h, (i, a) in enumerate(zip(path, taken, strict=True)):
            if i < 0:
                return
            allowed = feasible(state, a, h, p)
            if allowed is not True and not as_allowed(allowed):
                raise ValueError("not allowed")
            state = settle(step(state, a, outcomes[h], h, p))
        end = self.task.allowed_end
        if end is not None and not self.continues and not as_allowed(end(state, p)):
            raise ValueError("may not end there")

    def _totals(self) -> Iterator[tuple[float, float]]:
        """Reward along each released path, and the sum of its absolute parts; NaN where a rule says no or fails.

        Most tasks: rules without the step index. This loop is what a panel pays for the last look, so it is kept bare.
        """
        task, settle = self.task, self.layout.settle
        feasible, step, reward, discounts = task.feasible, task.step, task.reward, self.discounts
        for state, taken, outcomes, p in zip(self.states, self.taken, self.outcomes, self._params(), strict=True):
            total = size = 0.0
            try:
                for a, y, discount in zip(taken, outcomes, discounts):  # noqa: B905 - the last discount is terminal's
                    if (allowed := feasible(state, a, p)) is not True and not as_allowed(allowed):
                        raise ValueError("not allowed")
                    earned = reward(state, a, y, p)
                    part = discount * (earned if type(earned) is float else as_number(earned))
                    total += part
                    size += part if part > 0.0 else -part
                    state = settle(step(state, a, y, p))
                found = (total, size) if self.bare else self._ended(state, p, total, size)
            except KeyboardInterrupt:
                raise
            except BaseException:  # whatever it is, the careful look says it in words
                found = (math.nan, math.nan)
            yield found

    def _totals_by_step(self) -> Iterator[tuple[float, float]]:
        """The same where a rule takes the step index, or where the trace brings the scores."""
        task, settle, discounts = self.task, self.layout.settle, self.discounts
        feasible, step, reward = task.feasible_at, task.bare_step_at, task.reward_at
        scores = self.plan.inputs.q[self.windows].tolist() if self.settings.mode == _SCORES else None
        paths = self.paths.tolist()
        for k, (state, p) in enumerate(zip(self.states, self._params(), strict=True)):
            total = size = 0.0
            try:
                for h, (i, a, y) in enumerate(zip(paths[k], self.taken[k], self.outcomes[k], strict=True)):
                    if (allowed := feasible(state, a, h, p)) is not True and not as_allowed(allowed):
                        raise ValueError("not allowed")
                    earned = reward(state, a, y, h, p) if scores is None else scores[k][h][i]
                    part = discounts[h] * as_number(earned)
                    total += part
                    size += abs(part)
                    state = settle(step(state, a, y, h, p))
                found = (total, size) if self.bare else self._ended(state, p, total, size)
            except KeyboardInterrupt:
                raise
            except BaseException:
                found = (math.nan, math.nan)
            yield found

    def _ended(self, state: Any, p: Any, total: float, size: float) -> tuple[float, float]:
        task = self.task
        if task.allowed_end is not None and not as_allowed(guarded(task.allowed_end, state, p)):
            raise ValueError("may not end there")
        part = 0.0 if task.terminal is None else self.discounts[-1] * as_number(guarded(task.terminal, state, p))
        return total + part, size + abs(part)

    def careful(self, w: int) -> str:
        """The same path through the plain engine, all members and both figures; "" when it is confirmed after all."""
        certified, plan = self.certified, self.plan
        first = int(certified.released[w])
        settings = self.settings._replace(use_bound=False)
        try:
            ends = []
            for _ in range(2):
                window = make_window(self.task, settings, self.layout, plan.inputs, w)
                node = window.root(self.layout.build(plan.inputs.states[w].tolist()))
                for h, i in enumerate(certified.paths[w, first].tolist()):
                    if not window.allowed(node.states, i, h):
                        return f"the plain rules do not allow action {window.actions[i]:g} at step {h}"
                    extended = window.extend(node, window.score_one(node, i, h), h)
                    if extended is None:
                        return "the plain rules do not let the path end there"
                    node = extended
                ends.append((node.reward, node.uncertainty))
        except TaskFault as fault:
            return (
                f"{fault} (step {fault.step}, action {self.actions[w if len(self.actions) > 1 else 0][fault.action]})"
            )
        if ends[0] != ends[1]:
            return f"the rules are not deterministic: the same path earns {ends[0][0]!r} and {ends[1][0]!r}"
        size = float(certified.evidence.lower_size[w, first])
        recorded = (certified.evidence.lower_reward[w, first], certified.evidence.lower_uncertainty[w, first])
        for name, own, engine in zip(("reward", "uncertainty"), ends[0], recorded, strict=True):
            if not abs(own - engine) <= certified.evidence.share[w] * size:
                return f"the plain rules give a {name} of {own:.9g} where the search found {engine:.9g}"
        return ""
