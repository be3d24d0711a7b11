"""The last look before a release: the plain rules are asked once more about the path that would leave.

Compiled code can be wrong about a rule (an index past the end of an array, a constant that has changed, arithmetic in
which Python and Numba differ), and a rule can be no rule at all (a clock or a random number in it). What the plain
functions do not confirm is not released. Mean and scores modes: the whole path at the planning outcomes, and what it
earns. Members mode: the first action, and the path of the heaviest member and of one drawn by the window's content,
with the first reward of each asked for twice. Closed mode: the policy after low, middle and high outcomes, and the
first step's reward. A doubt is looked into by the plain engine step by step before it counts.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucsearch.answers import as_allowed, as_number
from ucsearch.certificate.api import CertifiedPanel
from ucsearch.certificate.tolerance import RELATIVE, ROUNDING
from ucsearch.engine.plain.run import make_window
from ucsearch.engine.plain.window import TaskFault
from ucsearch.engine.plan import Plan
from ucsearch.engine.status import Fault
from ucsearch.policies import MODES

__all__ = ["last_look"]

Floats = NDArray[np.float64]
_MEMBERS, _SCORES = MODES["members"], MODES["scores"]


def last_look(certified: CertifiedPanel, released: NDArray[np.bool_]) -> dict[int, str]:
    """Windows whose release the plain rules do not confirm, and why."""
    windows = np.flatnonzero(released)
    if not windows.size:
        return {}
    if certified.plan.policy.mode == "closed":
        found = {int(w): _policy_look(certified.plan[int(w)]) for w in windows}
        return {w: why for w, why in found.items() if why}
    look = _Look(certified, windows)
    doubtful = [w for k, w in enumerate(windows.tolist()) if not look.quick(k, w)]
    found = {w: look.careful(w) for w in doubtful}
    return {w: why for w, why in found.items() if why}


def _policy_look(plan: Plan) -> str:
    """Closed mode: the policy after low, middle and high outcomes, every action allowed, and the first step's mean
    reward twice; "" when all is as the search found it."""
    window, start = plan.start()
    try:
        for branch in plan.branches:
            for h, (state, a) in enumerate(zip(branch.states, branch.actions, strict=False)):
                if not window.allowed((state,), window.actions.index(a), h):
                    return f"the plain rules do not allow action {a:g} at step {h} after {branch.name} outcomes"
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
    tau = RELATIVE * max(abs(found[0]), abs(first[4])) + ROUNDING * plan.settings.depth * float(first[6])
    if not abs(found[0] - first[4]) <= tau:
        return f"the plain rules give a first reward of {found[0]:.9g} where the search found {first[4]:.9g}"
    return ""


class _Look:
    def __init__(self, certified: CertifiedPanel, windows: NDArray[np.int64]) -> None:
        plan = certified.plan
        self.certified, self.plan, self.task = certified, plan, plan.task
        self.settings, self.layout, inputs = plan.settings, plan.layout, plan.inputs
        first = certified.released[windows]
        self.rewards = certified.evidence.lower_reward[windows, first].tolist()
        self.paths = certified.paths[windows, first].tolist()
        self.states = inputs.states[windows].tolist()
        self.discounts = [1.0]
        for _ in range(self.settings.depth):
            self.discounts.append(self.discounts[-1] * self.settings.discount)
        self.members = self.settings.mode == _MEMBERS
        self.q = inputs.q[windows].tolist() if self.settings.mode == _SCORES else None
        if self.members:
            self.outcomes = self._outcomes(self._two_members(inputs.members[windows], inputs.weights, windows))
        else:
            self.outcomes = self._outcomes(inputs.mean[windows, : self.settings.depth])
        layout = self.task.params_layout
        self.params = [None if layout is None else layout.build(row) for row in inputs.params.tolist()]
        self.actions = inputs.actions.tolist()

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

    def quick(self, k: int, w: int) -> bool:
        """Whether nothing speaks against release k, of window w. Runs once for every release, so it is kept short."""
        p = self.params[w if len(self.params) > 1 else 0]
        actions = self.actions[w if len(self.actions) > 1 else 0]
        state, path = self.layout.build(self.states[k]), self.paths[k]
        try:
            if self.members:
                self._follow(state, path, actions, self.outcomes[k], p)
                self._follow(state, path, actions, self.outcomes[len(self.paths) + k], p)
                return True
            total, size = self._walk(state, path, actions, self.outcomes[k], p, self.q[k] if self.q else None)
            recorded = self.rewards[k]
            tau = RELATIVE * max(abs(total), abs(recorded)) + ROUNDING * self.settings.depth * size
            return bool(abs(total - recorded) <= tau)
        except (Exception, SystemExit):  # whatever it is, the careful look says it in words
            return False

    def _follow(self, state: Any, path: list[int], actions: list[float], outcomes: list[Any], p: Any) -> None:
        """One member along the path: every action allowed, and the first reward the same twice; else it raises."""
        feasible, step, kind = self.task.feasible_at, self.task.step_at, self.layout.kind
        args = (state, actions[path[0]], outcomes[0], 0, p)
        if not as_number(self.task.reward_at(*args)) == as_number(self.task.reward_at(*args)):
            raise ValueError("not deterministic")
        for h, i in enumerate(path):
            if i < 0:  # a mode whose later actions depend on what happens
                return
            a = actions[i]
            allowed = feasible(state, a, h, p)
            if allowed is not True and not as_allowed(allowed):
                raise ValueError("not allowed")
            state = step(state, a, outcomes[h], h, p)
            if type(state) is not kind:
                state = kind(*state)

    def _walk(
        self,
        state: Any,
        path: list[int],
        actions: list[float],
        outcomes: list[Any],
        p: Any,
        q: list[list[float]] | None,
    ) -> tuple[float, float]:
        """Reward along the path, and the sum of its absolute parts; an action that is not allowed raises."""
        task, kind, discounts = self.task, self.layout.kind, self.discounts
        total = size = 0.0
        if not task.timed and q is None:  # most tasks: the same without the step index, at half the calls
            feasible, step, reward = task.feasible, task.step, task.reward
            for h, i in enumerate(path):
                a, y = actions[i], outcomes[h]
                allowed = feasible(state, a, p)
                if allowed is not True and not as_allowed(allowed):
                    raise ValueError("not allowed")
                earned = reward(state, a, y, p)
                part = discounts[h] * (earned if type(earned) is float else as_number(earned))
                total += part
                size += abs(part)
                state = step(state, a, y, p)
                if type(state) is not kind:
                    state = kind(*state)
            return self._ended(state, p, total, size, len(path))
        feasible, step, reward = task.feasible_at, task.step_at, task.reward_at
        for h, i in enumerate(path):
            a, y = actions[i], outcomes[h]
            allowed = feasible(state, a, h, p)
            if allowed is not True and not as_allowed(allowed):
                raise ValueError("not allowed")
            earned = reward(state, a, y, h, p) if q is None else q[h][i]
            part = discounts[h] * (earned if type(earned) is float else as_number(earned))
            total += part
            size += abs(part)
            state = step(state, a, y, h, p)
            if type(state) is not kind:
                state = kind(*state)
        return self._ended(state, p, total, size, len(path))

    def _ended(self, state: Any, p: Any, total: float, size: float, steps: int) -> tuple[float, float]:
        if self.task.terminal is None:
            return total, size
        part = self.discounts[steps] * as_number(self.task.terminal(state, p))
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
                        return "the plain rules find no continuation"
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
            tau = RELATIVE * max(abs(own), abs(engine)) + ROUNDING * settings.reach * size
            if not abs(own - engine) <= tau:
                return f"the plain rules give a {name} of {own:.9g} where the search found {engine:.9g}"
        return ""
