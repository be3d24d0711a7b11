"""The plain rules along a given path: what it earns, whether it may leave, and in how many members it keeps every rule.

Mean mode asks the rules at the mean outcome only: what holds there may be broken by members further along the path. In
members mode a path is feasible for all of them by construction.

The final check before a release: the plain rules are asked once more about the path that would leave. Compiled code can
be wrong about a rule (an index past the end of an array, a constant that has changed, arithmetic in which Python and
Numba differ), and a rule can be no rule at all (a clock or a random number in it). What the plain functions do not
confirm is not released. Mean and scores modes: the whole path at the planning outcomes, and what it earns. Members
mode: the path of the heaviest member and of one drawn by the window's content, each asked for twice. Closed mode: the
policy after low, middle and high outcomes, and the first step's reward. Rules that reach what no record can hold are
asked about the whole path, all members, twice, and rules whose own content changed meanwhile release nothing
(`decision.api`). A doubt is looked into by the plain engine step by step before it counts.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.engine.arrays import Fault, Inputs, read_only
from ucsearch.engine.compiled import compile as kernels
from ucsearch.engine.plain.window import TaskFault
from ucsearch.engine.plan import Plan
from ucsearch.formatting import action_figure
from ucsearch.layout import Layout, own_row
from ucsearch.policies import MODES
from ucsearch.rules.answers import as_allowed, as_number, guarded
from ucsearch.task import Task

if TYPE_CHECKING:
    from ucsearch.certificate.certificate import CertifiedPanel

__all__ = ["Earned", "Path", "Replay", "final_check", "kept_weights", "prepare"]

Floats = NDArray[np.float64]


class Path(NamedTuple):
    """A path in values that rules take."""

    state: Any  # it starts from
    actions: Sequence[float]  # (d,)
    outcomes: Sequence[Any]  # (d,) or more
    params: Any


class Earned(NamedTuple):
    """What a path earns."""

    reward: float  # discounted, the terminal value included
    size: float  # sum of the absolute values of its parts


class NotAllowed(Exception):
    """A rule does not allow the path."""


class Replay:
    """Walks paths by the plain rules of a task. A rule that raises, or answers something of another kind, allows
    nothing."""

    def __init__(self, task: Task, layout: Layout, discounts: Sequence[float] = (), ends: bool = True) -> None:
        self.task, self.layout, self.discounts = task, layout, discounts
        self.ends = ends  # whether the path goes to the end of the plan

    def keeps(self, path: Path) -> bool:
        """Whether every action is allowed when its turn comes, and the end of the path too. Rewards are not asked."""
        steps = self._steps(path)
        # The state after the last action is needed only where a rule speaks of the end.
        needed = steps if self._end_counts else islice(steps, len(path.actions))
        try:
            for _ in needed:
                pass
        except KeyboardInterrupt:
            raise
        except BaseException:
            return False
        return True

    def earns(
        self, path: Path, scores: Sequence[Sequence[float]] | None = None, at: Sequence[int] = ()
    ) -> Earned | None:
        """Rewards along the path, or the `scores` (H, m) of the actions with numbers `at`; None where it is not
        allowed or a rule fails."""
        reward_at, total, size, h = self.task.reward_at, 0.0, 0.0, 0
        try:
            for h, (state, a, y) in enumerate(self._steps(path)):
                if h == len(path.actions):
                    earned = (
                        0.0 if self.task.terminal is None or not self.ends else self.task.terminal(state, path.params)
                    )
                elif scores is None:
                    earned = reward_at(state, a, y, h, path.params)
                else:
                    earned = scores[h][at[h]]
                part = self.discounts[h] * as_number(earned)
                total += part
                size += abs(part)
        except KeyboardInterrupt:
            raise
        except BaseException:
            return None
        return Earned(total, size)

    def weight(self, path: Path, members: Sequence[Sequence[Any]], weights: Sequence[float]) -> float:
        """Weight of the members, each with outcomes of its own, in which the path keeps every rule; NaN without
        members."""
        if not members:
            return math.nan
        kept = [self.keeps(path._replace(outcomes=outcomes)) for outcomes in members]
        if all(kept):
            return 1.0
        total = 0.0
        for keeps, weight in zip(kept, weights, strict=True):
            total += weight if keeps else 0.0
        return total

    @property
    def _end_counts(self) -> bool:
        return self.ends and self.task.allowed_end is not None

    def _steps(self, path: Path) -> Iterator[tuple[Any, float, Any]]:
        """State, action and outcome of every step, each before it is taken; then the state after the last."""
        feasible, step, coerced = self.task.feasible_at, self.task.bare_step_at, self.layout.coerced
        state, params = path.state, path.params
        for h, (a, y) in enumerate(zip(path.actions, path.outcomes)):  # noqa: B905 - outcomes may reach further
            allowed = feasible(state, a, h, params)
            if allowed is not True and not as_allowed(allowed):
                raise NotAllowed(h)
            yield state, a, y
            state = coerced(step(state, a, y, h, params))
        end = self.task.allowed_end
        if self.ends and end is not None and not as_allowed(end(state, params)):
            raise NotAllowed("the end")
        yield state, math.nan, None


# -------------------------------------------------------------------- the final check

_MEMBERS, _SCORES, _CLOSED = MODES["members"], MODES["scores"], MODES["closed"]


def final_check(certified: CertifiedPanel, released: NDArray[np.bool_], unseen: bool = False) -> dict[int, str]:
    """Windows whose release the plain rules do not confirm, and why. `unseen`: the rules reach what cannot be seen (a
    clock, random numbers, an open file); they are asked about everything, twice."""
    windows = np.flatnonzero(released).tolist()
    if certified.plan.settings.mode == _CLOSED:
        doubts = {w: _policy_doubt(certified, w, unseen) for w in windows}
    else:
        confirmed = _Paths(certified)
        doubts = {w: _path_doubt(certified, w) for w in windows if unseen or not confirmed(w)}
    return {w: doubt for w, doubt in doubts.items() if doubt}


class _Paths:
    """Whether the plain rules confirm the path that a window would release."""

    def __init__(self, certified: CertifiedPanel) -> None:
        self.certified, self.plan = certified, certified.plan
        task, settings = self.plan.task, self.plan.settings
        self.members = settings.mode == _MEMBERS
        ends = not (self.members and len(task.continuations) > 0)
        self.replay = Replay(task, self.plan.layout, settings.discounts, ends)

    def __call__(self, w: int) -> bool:
        certified, plan, inputs = self.certified, self.plan, self.plan.inputs
        first = int(certified.released[w])
        indices = certified.paths[w, first].tolist()
        start = plan.start(w)
        path = Path(start.state, [start.actions[i] for i in indices], (), start.params)
        if self.members:
            return all(self._twice(path, outcomes) for outcomes in self._two_members(w))
        scores = own_row(inputs.q, w).tolist() if plan.settings.mode == _SCORES else None
        path = path._replace(outcomes=self._outcomes(own_row(inputs.mean, w)))
        earned = self.replay.earns(path, scores, indices)
        if earned is None:
            return False
        tau = float(certified.evidence.share[w]) * earned.size
        return abs(earned.reward - float(certified.evidence.lower_reward[w, first])) <= tau < np.inf

    def _twice(self, path: Path, outcomes: Sequence[Any]) -> bool:
        path = path._replace(outcomes=outcomes)
        earned = self.replay.earns(path)
        return earned is not None and earned == self.replay.earns(path)

    def _two_members(self, w: int) -> list[list[Any]]:
        """Outcomes of the heaviest member, and of one drawn by the window's content."""
        members = own_row(self.plan.inputs.members, w)
        drawn = zlib.crc32(members.tobytes()) % members.shape[0]
        heaviest = int(np.argmax(own_row(self.plan.inputs.weights, w)))
        return [self._outcomes(members[j]) for j in (heaviest, drawn)]

    def _outcomes(self, rows: Floats) -> list[Any]:
        return self.plan.task.outcomes_of(rows[: self.plan.settings.depth].tolist())


def _path_doubt(certified: CertifiedPanel, w: int) -> str:
    """The same path through the plain engine, all members and both figures; "" when it is confirmed after all."""
    plan, first = certified.plan[w], int(certified.released[w])
    try:
        ends = []
        for _ in range(2):
            window, state = plan.start()
            node = window.root(state)
            for h, i in enumerate(certified.paths[w, first].tolist()):
                if not window.allowed(node.states, i, h):
                    return f"the plain rules do not allow action {action_figure(window.actions[i])} at step {h}"
                extended = window.extend(node, window.score_one(node, i, h), h)
                if extended is None:
                    return "the plain rules do not let the path end there"
                node = extended
            ends.append((node.reward, node.uncertainty))
    except TaskFault as fault:
        return f"{fault} (step {fault.step}, action {plan.actions[fault.action]})"
    if ends[0] != ends[1]:
        return f"the rules are not deterministic: the same path earns {ends[0][0]!r} and {ends[1][0]!r}"
    size = float(certified.evidence.lower_size[w, first])
    recorded = (certified.evidence.lower_reward[w, first], certified.evidence.lower_uncertainty[w, first])
    for name, plain, engine in zip(("reward", "uncertainty"), ends[0], recorded, strict=True):
        if not abs(plain - engine) <= certified.evidence.share[w] * size:
            return f"the plain rules give a {name} of {plain:.9g} where the search found {engine:.9g}"
    return ""


def _policy_doubt(certified: CertifiedPanel, w: int, unseen: bool) -> str:
    plan = certified.plan[w]
    doubt = _first_step_doubt(plan, float(certified.evidence.share[w]))
    return doubt or (_repeat_doubt(plan, certified.plan[w]) if unseen else "")


def _repeat_doubt(plan: Plan, again: Plan) -> str:
    """Closed mode: the same steps of the policy by two plans that were built of one search."""
    task, answers = plan.task, []
    try:
        for each in (plan, again):
            window, _ = each.start()
            ends = [branch.states[-1] for branch in each.branches] if task.terminal is not None else []
            answers.append((each.branches, [as_number(guarded(task.terminal, end, window.params)) for end in ends]))
    except Exception as error:  # whatever user code raises the second time
        return f"the rules are not deterministic: asked again, {type(error).__name__}: {error}"
    if answers[0] != answers[1]:
        return "the rules are not deterministic: asked again, a policy's steps are others"
    return ""


def _first_step_doubt(plan: Plan, eps: float) -> str:
    """Closed mode: the policy after low, middle and high outcomes, every action allowed, and the first step's mean
    reward twice; "" when all is as the search found it."""
    window, start = plan.start()
    try:
        for branch in plan.branches:
            for h, (state, a) in enumerate(zip(branch.states, branch.actions, strict=False)):
                if not window.allowed((state,), window.actions.index(a), h):
                    what = f"action {action_figure(a)} at step {h} after {branch.name} outcomes"
                    return f"the plain rules do not allow {what}"
            if not window.ended(branch.states[-1:], plan.settings.depth - 1, plan.action_index):
                return f"the plain rules do not let the plan end as it does after {branch.name} outcomes"
        rewards = []
        for _ in range(2):
            total = 0.0
            for k in range(int(window.u[0][1])):
                args = (start, plan.action, window.members[k][0], 0, window.params)
                earned = window.number(plan.task.reward_at, Fault.REWARD, 0, plan.action_index, *args)
                total += window.weights[k] * earned
            rewards.append(total)
    except TaskFault as fault:
        return f"{fault} (step {fault.step}, action {window.actions[fault.action]})"
    if rewards[0] != rewards[1]:
        return f"the rules are not deterministic: the first step earns {rewards[0]!r} and {rewards[1]!r}"
    first = plan.outputs.table[plan.window, plan.action_index]
    if not abs(rewards[0] - first[4]) <= eps * float(first[6]):
        return f"the plain rules give a first reward of {rewards[0]:.9g} where the search found {first[4]:.9g}"
    return ""


# -------------------------------------------------------------------- members kept, of many windows by a kernel

# For callers that prepared it, such as a service: nothing is compiled on the way. Only rules of this package are taken:
# a rule that divides by zero raises in plain Python and goes on when compiled, and which of the two a stranger's does
# for a member far from the mean, nobody has looked at.
_KIND = kernels.KernelKind("ucsearch.engine.kernels.keeping", MODES["mean"], False)


def prepare(task: Task, layout: Layout) -> bool:
    """Load or compile the kernel for states of this layout; False where there is none to be had."""
    if not _is_ours(task):
        return False
    ready: dict[Layout, kernels.Kernel] = task.cache.setdefault("keeping kernels", {})
    if layout in ready:
        return True

    def warm(kernel: Callable[..., None]) -> None:
        rows = np.zeros((0, layout.size))
        members = np.zeros((0, 1, 1, task.fields))
        _call(kernel, task, Inputs(rows, task.params_row, task.action_array[None], rows, members, np.ones((1, 1)),
                                   rows, rows), np.zeros((0, 1), np.int32))  # fmt: skip

    try:
        ready[layout] = kernels.load(task, layout, _KIND, warm, f"rolling through members for task {task.name!r}")
    except Exception:  # numba raises many kinds; the plain functions are asked instead
        return False
    return True


def kept_weights(task: Task, layout: Layout, inputs: Inputs, paths: NDArray[np.int32]) -> Floats | None:
    """(W,) weight of members for which `paths` (W, d; -1: none) keep every rule; None where no kernel is ready."""
    kernel = task.cache.get("keeping kernels", {}).get(layout)
    if kernel is None or not inputs.members.shape[1]:
        return None
    try:
        return _call(kernel.call, task, inputs, paths)
    except Exception:  # a rule raised for some member: the plain functions say what that means
        return None


def _call(kernel: Callable[..., None], task: Task, inputs: Inputs, paths: NDArray[np.int32]) -> Floats:
    rows = inputs.states
    if task.timed:
        rows = np.concatenate([rows, np.zeros((len(rows), 1))], axis=1)
    out = np.empty(len(rows))
    arrays = (rows[:, None, :], inputs.params, inputs.actions, inputs.members, inputs.weights, paths)
    kernel(*(read_only(x) for x in arrays), out)
    return out


def _is_ours(task: Task) -> bool:
    return all(str(getattr(f, "__module__", "")).startswith("ucsearch.") for f in (task.feasible, task.step))
