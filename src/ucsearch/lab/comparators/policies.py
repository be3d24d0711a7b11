"""The comparators as policies: same signature, same counters and same objective S as the search policies.

Counters: every sampled step is one expansion. The greedy family evaluates the actions at hand, which `action_scores`
counts; its expansions are steps tried in vain because of dead ends and, delay-aware, the steps looked ahead.
`simulations` counts sampled plans that reached full depth; the others ran into a dead end and were discarded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

from ucsearch.engine.plan import PanelPlan, Plan
from ucsearch.errors import BudgetError, InputError
from ucsearch.lab.comparators.plain import myopic, sampling
from ucsearch.lab.comparators.streams import check_seed, signed
from ucsearch.lab.comparators.warm import WarmStart
from ucsearch.policies import MAX_BEAM_CELLS, Policy

__all__ = [
    "CEM",
    "MPPI",
    "Comparator",
    "DelayAwareGreedy",
    "Greedy",
    "Random",
    "RandomShooting",
    "RiskGreedy",
    "RiskRandom",
]


@dataclass(frozen=True, kw_only=True)
class Comparator(Policy):
    """What all share. There is no candidate score here, so its settings are refused."""

    order: Literal["auto", "score", "bound"] = "score"
    reward_only: bool = False  # the objective is R instead of S = R - risk * U; S is reported all the same

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.order != "score":
            raise InputError("order", repr(self.order), "'score': comparators do not use bounds")
        if self.prune_risk is not None:
            raise InputError("prune_risk", self.prune_risk, "None: comparators do not prune by a candidate score")
        if self.info_bonus != 0.0:
            raise InputError("info_bonus", self.info_bonus, "0: comparators do not prune by a candidate score")
        if not isinstance(self.reward_only, bool):
            raise InputError("reward_only", repr(self.reward_only), "True or False")

    @property
    def objective_risk(self) -> float:
        return 0.0 if self.reward_only else float(self.risk)

    @property
    def node_budget(self) -> int:
        """Steps a decision may take, dead ends aside; the choice of engine looks at it."""
        return self.depth


# -------------------------------------------------------------------- one path


@dataclass(frozen=True, kw_only=True)
class _Myopic(Comparator):
    algorithm: ClassVar[str] = "myopic"
    variant: ClassVar[int] = myopic.GREEDY
    depth: int = 1  # steps of the reported path; more than 1 also keeps out of dead ends that near

    def extra_i(self, actions: int) -> tuple[int, ...]:
        return (self.variant, getattr(self, "delay", 0), signed(getattr(self, "seed", 0)), 4)

    def extra_f(self) -> tuple[float, ...]:
        return (self.objective_risk,)


@dataclass(frozen=True, kw_only=True)
class Random(_Myopic):
    """Uniform over the first actions that have a completion, and so on at every step."""

    variant: ClassVar[int] = myopic.RANDOM
    seed: int = 0  # use key_from(rng)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_seed(self.seed)


@dataclass(frozen=True, kw_only=True)
class Greedy(_Myopic):
    """The best immediate reward q; ties: lower u, smaller action."""

    reward_only: bool = True


@dataclass(frozen=True, kw_only=True)
class RiskGreedy(_Myopic):
    """The best immediate q - risk * u."""


@dataclass(frozen=True, kw_only=True)
class DelayAwareGreedy(_Myopic):
    """Follows every first action greedily and judges it by what has accrued after delay + 1 steps, the first of which
    its effect is part: the score over those steps, not the immediate one."""

    variant: ClassVar[int] = myopic.DELAYED
    delay: int  # steps from an action to its effect; 0 makes it risk-greedy
    depth: int = 0  # steps of the reported path; 0 stands for delay + 1

    def __post_init__(self) -> None:
        _whole("delay", self.delay, 0, 1 << 20)
        if self.depth == 0 and not isinstance(self.depth, bool):
            object.__setattr__(self, "depth", self.delay + 1)
        super().__post_init__()
        if self.depth <= self.delay:
            raise BudgetError("depth", self.depth, f"at least {self.delay + 1}, delay + 1")


# -------------------------------------------------------------------- many sampled paths


@dataclass(frozen=True, kw_only=True)
class _Sampling(Comparator):
    """`samples` plans a decision, over all iterations: samples * depth expansions when nothing dies."""

    algorithm: ClassVar[str] = "sampling"
    variant: ClassVar[int] = sampling.SHOOTING
    samples: int = 64  # plans per decision
    seed: int = 0  # use key_from(rng)
    stratified: bool = True  # spread the plans of an iteration over the tree; False: independent draws

    def __post_init__(self) -> None:
        super().__post_init__()
        _whole("samples", self.samples, 1, MAX_BEAM_CELLS)
        if self.samples * self.depth > MAX_BEAM_CELLS:
            raise BudgetError("samples x depth", self.samples * self.depth, f"at most {MAX_BEAM_CELLS}")
        check_seed(self.seed)
        if not isinstance(self.stratified, bool):
            raise InputError("stratified", repr(self.stratified), "True or False")

    @property
    def node_budget(self) -> int:
        return self.samples * self.depth

    def extra_i(self, actions: int) -> tuple[int, ...]:
        return self._packed(1, 0, 0, (), False)

    def extra_f(self) -> tuple[float, ...]:
        return (self.objective_risk, 0.0, 0.0, 1.0, 0.0, 0.0)

    def _packed(
        self, iterations: int, elites: int, memory: int, warm: tuple[tuple[int, ...], ...], keyed: bool
    ) -> tuple[int, ...]:
        head = (
            self.variant, self.samples, iterations, elites, memory, int(self.stratified), signed(self.seed),
            int(keyed), len(warm),
        )  # fmt: skip
        flat = tuple(x for row in warm for x in row)
        return (*head, *flat, len(head) + len(flat) + 1)


@dataclass(frozen=True, kw_only=True)
class RandomShooting(_Sampling):
    """The best of `samples` random feasible plans by reward."""

    reward_only: bool = True


@dataclass(frozen=True, kw_only=True)
class RiskRandom(_Sampling):
    """The best of `samples` random feasible plans by S."""


@dataclass(frozen=True, kw_only=True)
class _Iterated(_Sampling):
    """Distributions over actions, one per step, improved from iteration to iteration."""

    iterations: int = 5  # rounds that the samples are divided into
    memory: int | None = None  # best plans that stay in the next population at no cost; None: half the elites
    smoothing: float = 0.1  # share of the old distribution in the new one
    floor: float = 0.02  # share of the uniform distribution in every new one
    blur: float = 0.5  # share of an action's weight that goes to its neighbours in the action grid
    warm: WarmStart | None = None  # plans to start from; see `warmed`
    warm_weight: float = 0.5  # share of the warm plan in the first distribution

    def __post_init__(self) -> None:
        super().__post_init__()
        _whole("iterations", self.iterations, 1, self.samples)
        if self.memory is not None:
            _whole("memory", self.memory, 0, self.samples)
        for name in ("smoothing", "floor", "blur", "warm_weight"):
            _share(name, getattr(self, name))
        if self.warm is not None and not isinstance(self.warm, WarmStart):
            raise InputError("warm", repr(self.warm), "a WarmStart", hint="policy.warmed(plan) makes one.")

    def warmed(self, plan: Plan | PanelPlan, states: Any = None, traces: Any = None, actions: Any = None) -> Self:
        """This policy, starting the next decision from `plan` moved on by one step.

        After a `Plan` it holds for any next window. After a `PanelPlan` the next windows' `states` and `traces` are
        needed, in the same order, because a window is known by its content; unknown windows start cold. Where every
        window has a grid of its own that moves, give the next `actions` too.
        """
        return replace(self, warm=WarmStart.after(plan, self.depth, states, traces, actions))

    def _elites(self) -> int:
        """Grows with the root of an iteration's plans: 2 of 10, 10 of 256. Tuned on the benchmark's design panel."""
        return max(2, round(0.65 * math.sqrt(self.samples / self.iterations)))

    def extra_i(self, actions: int) -> tuple[int, ...]:
        elites = self._elites()
        memory = elites // 2 if self.memory is None else self.memory
        rows, keyed = ((), False) if self.warm is None else self.warm.rows(self.depth, actions)
        return self._packed(self.iterations, elites, memory, rows, keyed)

    def extra_f(self) -> tuple[float, ...]:
        return (
            self.objective_risk, float(self.smoothing), float(self.floor), float(getattr(self, "temperature", 1.0)),
            float(self.blur), float(self.warm_weight),
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CEM(_Iterated):
    """Cross-entropy method over feasible plans; the best plan evaluated in any iteration is returned."""

    variant: ClassVar[int] = sampling.CEM
    elites: int | None = None  # plans the distributions are fitted to; None: 0.65 x root of an iteration's

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.elites is not None:
            _whole("elites", self.elites, 1, self.samples)

    def _elites(self) -> int:
        return super()._elites() if self.elites is None else self.elites


@dataclass(frozen=True, kw_only=True)
class MPPI(_Iterated):
    """Path-integral control over feasible plans: all plans of an iteration count, weighted by a softmax."""

    variant: ClassVar[int] = sampling.MPPI
    temperature: float = 0.05  # of the softmax, in standard deviations of the population's objective

    def __post_init__(self) -> None:
        super().__post_init__()
        value = self.temperature
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 < value < math.inf:
            raise InputError("temperature", repr(value), "a finite number above 0")


def _whole(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise BudgetError(name, repr(value), f"a whole number from {low} to {high}")


def _share(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:
        raise InputError(name, repr(value), "a number from 0 to 1")
