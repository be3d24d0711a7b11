"""What a caller chooses: how to search, how hard to prove, how to work.

One frozen record per algorithm, checked when it is made and again against task and trace, and the records `Proof` and
`Run`, which the library, settings files and suites share.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple

from ucsearch.errors import LARGEST, BudgetError, InputError
from ucsearch.spreads import SPREADS
from ucsearch.task import Task
from ucsearch.trace import Trace

__all__ = [
    "MCTS", "PROOF", "RUN", "CertifiedBeam", "ConstrainedBeam", "Engine", "Exact", "ParetoBeam", "Policy", "Proof",
    "ProofKind", "Run", "Settings", "UCBeam", "check_options", "check_threads", "resolve",
]  # fmt: skip

MODES = {"mean": 0, "scores": 1, "members": 2, "closed": 3}
MAX_DEPTH = 10_000
MAX_NODES = 1 << 40
MAX_THREADS = 1024
MAX_BEAM_CELLS = 1 << 27  # width x depth; beyond this the paths alone take a gigabyte


class Keep:
    """What a beam keeps of the paths that it has reached."""

    SCORE = 0  # the best scores
    PARETO = 1  # the front of reward and uncertainty first
    CERTIFIED = 2  # that, and a path of every first action


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Settings every algorithm shares. `depth` is the number of searched steps."""

    algorithm: ClassVar[str] = ""
    depth: int  # steps searched
    risk: float = 0.0  # lambda: path score is reward - risk * uncertainty
    prune_risk: float | None = None  # lambda_c of the candidate score; equal to risk unless given
    info_bonus: float = 0.0  # alpha of the candidate score
    discount: float = 1.0  # gamma
    mode: Literal["mean", "members", "scores", "closed"] = "mean"  # what is planned on (docs/concepts/search.md)
    # In closed mode cvar is meant step by step, because no other measure has a recursion there.
    spread: Literal["variance", "std", "downside", "cvar"] | None = None  # None: std; members: downside; closed: cvar
    tail: float = 0.2  # cvar looks at this worst share
    order: Literal["auto", "score", "bound"] = "auto"  # auto: the bound where the task has one

    def __post_init__(self) -> None:
        _whole("depth", self.depth, 1, MAX_DEPTH)
        _real("risk", self.risk, 0.0, math.inf)
        if self.prune_risk is not None:
            _real("prune_risk", self.prune_risk, 0.0, math.inf)
        _real("info_bonus", self.info_bonus, 0.0, math.inf)
        _real("discount", self.discount, 0.0, math.inf)
        if not 0.0 < self.discount <= 1.0:
            raise InputError("discount", self.discount, "a number in (0, 1]")
        _choice("mode", self.mode, tuple(MODES))
        if self.spread is not None:
            _choice("spread", self.spread, tuple(SPREADS))
        _choice("order", self.order, ("auto", "score", "bound"))
        _real("tail", self.tail, 0.0, math.inf)
        if not 0.0 < self.tail <= 1.0:
            raise InputError("tail", self.tail, "a share in (0, 1]")
        if self.mode == "closed":
            self._check_closed()
        entry = SPREADS[self.spread or _default_spread(self.mode)]
        if self.mode not in entry.modes and self.mode != "closed":
            raise InputError(
                "spread",
                repr(entry.name),
                f"another spread in {self.mode} mode",
                hint=f"It is for {' and '.join(entry.modes)} mode.",
            )
        if self.mode == "members" and not self.risk <= entry.most_risk:
            raise InputError(
                "risk", self.risk, f"at most {entry.most_risk:g} with spread={entry.name!r} in members mode",
                hint="Beyond 1 a plan that is better for every member can score worse; spread='std' lifts the limit.",
            )  # fmt: skip

    def _check_closed(self) -> None:
        """Policies are valued by one exact recursion, and only expectation and a nested tail measure have one."""
        if self.algorithm != "exact":
            raise InputError(
                "mode", "'closed'", f"another mode for {type(self).__name__}", hint="Use uc.Exact(mode='closed')."
            )
        if self.spread not in (None, "cvar"):
            raise InputError(
                "spread", repr(self.spread), "'cvar', or nothing, in closed mode",
                hint="No recursion over policies holds for the variance, deviation or semideviation of a return.",
            )  # fmt: skip
        if not self.risk <= 1.0:
            raise InputError("risk", self.risk, "at most 1 in closed mode: (1 - risk) x mean + risk x tail mean")
        if self.order != "auto":
            raise InputError("order", repr(self.order), "'auto' in closed mode, which looks at every state")

    def work(self, actions: int, bounded: bool) -> int:
        """Nodes whose actions are scored in one decision, roughly; the choice of engine looks at it."""
        return int(getattr(self, "node_budget", 0)) or self.depth

    def extra_i(self, actions: int) -> tuple[int, ...]:
        """Whole numbers an algorithm of its own appends to the settings its kernel reads."""
        return ()

    def extra_f(self) -> tuple[float, ...]:
        return ()


@dataclass(frozen=True, kw_only=True)
class UCBeam(Policy):
    """Keeps the best `width` paths of every layer by risk-adjusted score."""

    algorithm: ClassVar[str] = "beam"
    keep: ClassVar[int] = Keep.SCORE
    width: int = 8  # paths kept in every layer
    top_k: int | None = None  # candidates expanded per node; all when None

    def __post_init__(self) -> None:
        super().__post_init__()
        _whole("width", self.width, 1, MAX_BEAM_CELLS)
        if self.width * self.depth > MAX_BEAM_CELLS:
            raise BudgetError("width x depth", self.width * self.depth, f"at most {MAX_BEAM_CELLS}")
        _top_k(self.top_k)

    def work(self, actions: int, bounded: bool) -> int:
        return 1 + self.width * (self.depth - 1)


@dataclass(frozen=True, kw_only=True)
class ParetoBeam(UCBeam):
    """Keeps reward/uncertainty nondominated paths of every layer first, then fills up by score."""

    keep: ClassVar[int] = Keep.PARETO


@dataclass(frozen=True, kw_only=True)
class CertifiedBeam(ParetoBeam):
    """A Pareto beam that never loses the last suffix of a first action it generated, unless it is a dead end.

    `protect` makes `certify` put the exact best suffix of each generated first action in (its nodes are counted).
    """

    keep: ClassVar[int] = Keep.CERTIFIED
    protect: bool = False  # let `certify` put exact best suffixes in


@dataclass(frozen=True, kw_only=True)
class ConstrainedBeam(CertifiedBeam):
    """Certificate-Constrained Retained Pareto Beam: among near-equal first actions, release the one whose planning
    value over the reward-only action is safest (docs/concepts/certificate.md). All limits are in units of reward."""

    protect: bool = True  # let `certify` put exact best suffixes in
    near_equal: float = 0.0  # how far below the best score a candidate may lie
    band: float = 0.0  # candidates within this of the best release margin compete on side effects
    utility_budget: float = math.inf  # reward that may be given up against the reward-only action

    def __post_init__(self) -> None:
        super().__post_init__()
        _real("near_equal", self.near_equal, 0.0, math.inf)
        _real("band", self.band, 0.0, math.inf)
        if not self.utility_budget >= 0.0:
            raise InputError("utility_budget", self.utility_budget, "a number of at least 0, or infinity")


@dataclass(frozen=True, kw_only=True)
class Exact(Policy):
    """Proves the best first action: branch and bound, dynamic programming or enumeration, whichever is cheaper.

    With mode="closed" it values every policy: the action of a later step may depend on the outcomes before it.
    """

    algorithm: ClassVar[str] = "exact"
    node_budget: int = 2_000_000  # children created (closed mode: transitions) before it answers "not proved"
    every_action: bool = False  # exact value of every first action, not of the best only
    fixed_plan: bool = False  # closed mode: also the best fixed plan's value, and so what re-planning is worth

    def __post_init__(self) -> None:
        super().__post_init__()
        _whole("node_budget", self.node_budget, 1, MAX_NODES)
        if self.fixed_plan and (self.mode != "closed" or self.risk > 0.0):
            raise InputError(
                "fixed_plan", True, "False, or closed mode with risk 0, whose expected returns it compares"
            )

    def work(self, actions: int, bounded: bool) -> int:
        # A bound leaves a few hundred nodes of a tree; without one, distinct states are what counts.
        return min(self.node_budget, int(actions ** min(self.depth, 12)), 500 if bounded else 20_000)


@dataclass(frozen=True, kw_only=True)
class MCTS(Policy):
    """UCT over the feasible tree with greedy rollouts; deterministic."""

    algorithm: ClassVar[str] = "mcts"
    simulations: int = 64  # walks from the root
    top_k: int | None = None  # candidates tried in a node; all when None
    c_uct: float = math.sqrt(2.0)  # weight of exploring

    def __post_init__(self) -> None:
        super().__post_init__()
        _whole("simulations", self.simulations, 1, 1 << 31)
        _top_k(self.top_k)
        _real("c_uct", self.c_uct, 0.0, math.inf)

    def work(self, actions: int, bounded: bool) -> int:
        return self.simulations * self.depth


class Settings(NamedTuple):
    """A policy resolved against a task and a trace: what the engines read."""

    algorithm: str
    mode: int
    spread: int
    depth: int
    reach: int  # steps of the trace that are used: depth, or the horizon with continuations
    width: int
    top_k: int
    keep: int
    risk: float
    prune_risk: float
    info_bonus: float
    discount: float
    use_bound: bool  # the task's bound (or, for scores, the suffix bound) is available and wanted
    node_budget: int
    every_action: bool
    simulations: int
    c_uct: float
    extra_i: tuple[int, ...] = ()  # what a registered algorithm needs besides
    extra_f: tuple[float, ...] = ()
    tail: float = 0.2  # share of cvar

    @property
    def discounts(self) -> list[float]:
        """Factors of the steps and of what follows the last one; each is the one before it times the discount."""
        factors = [1.0]
        for _ in range(max(self.reach, self.depth)):
            factors.append(factors[-1] * self.discount)
        return factors


def resolve(policy: Policy, task: Task, trace: Trace, actions: int) -> Settings:
    """Check `policy` against what it is asked to search and fill in every default."""
    if not isinstance(policy, Policy) or not policy.algorithm:
        raise InputError("policy", repr(policy), "a policy such as uc.UCBeam(depth=6, width=8, top_k=3)")
    if policy.depth > trace.horizon:
        raise InputError(
            "policy.depth", policy.depth, f"at most {trace.horizon}, the trace's horizon",
            hint="Forecast further ahead or search less deep.",
        )  # fmt: skip
    if trace.is_scores != (policy.mode == "scores"):
        have = "a trace of action scores" if trace.is_scores else "a trace of members"
        want = "mode='scores'" if trace.is_scores else "mode='mean', 'members' or 'closed'"
        raise InputError("policy.mode", repr(policy.mode), f"{want} for {have}")
    if trace.is_scores and trace.q.shape[2] != actions:
        raise InputError("trace.q", f"{trace.q.shape[2]} actions", f"{actions}, one score per action of the task")
    if not (trace.is_scores and trace.mean.shape[2] == 1) and trace.mean.shape[2] != task.fields:
        raise InputError(
            "trace.members", f"{trace.mean.shape[2]} fields per outcome", f"{task.fields} as the task's outcome has",
            hint="Pass fields= to Trace.from_members for (members, horizon, fields) arrays.",
        )  # fmt: skip
    members, closed = policy.mode == "members", policy.mode == "closed"
    width = getattr(policy, "width", 1)
    top_k = min(getattr(policy, "top_k", None) or actions, actions)
    keep = getattr(policy, "keep", Keep.SCORE)
    if keep == Keep.CERTIFIED and width < top_k:
        raise BudgetError(
            "policy.width", width, f"at least {top_k}, one place for every first action that top_k generates"
        )
    return Settings(
        algorithm="closed" if closed else policy.algorithm,
        mode=MODES[policy.mode],
        spread=SPREADS[policy.spread or _default_spread(policy.mode)].number,
        depth=int(policy.depth),
        reach=trace.horizon if members and task.continuations else int(policy.depth),
        width=int(width),
        top_k=top_k,
        keep=keep,
        risk=float(policy.risk),
        prune_risk=float(policy.risk if policy.prune_risk is None else policy.prune_risk),
        info_bonus=float(policy.info_bonus),
        discount=float(policy.discount),
        use_bound=_use_bound(policy, task),
        node_budget=getattr(policy, "node_budget", 0),
        every_action=getattr(policy, "every_action", False),
        simulations=getattr(policy, "simulations", 0),
        c_uct=float(getattr(policy, "c_uct", 0.0)),
        extra_i=policy.extra_i(actions),
        extra_f=policy.extra_f(),
        tail=float(policy.tail),
    )


def _default_spread(mode: str) -> str:
    return {"members": "downside", "closed": "cvar"}.get(mode, "std")


def _use_bound(policy: Policy, task: Task) -> bool:
    """A bound speaks of undiscounted rewards, so it is set aside when discount is not 1."""
    if policy.order == "score" or policy.mode == "closed":
        return False
    has = task.terminal is None if policy.mode == "scores" else task.bound is not None
    if has and policy.mode != "scores" and task.risk_aware_bound:
        # A bound that looks at the spread is used only with those it declares.
        has = (policy.spread or _default_spread(policy.mode)) in task.bound_spreads
    if policy.order == "bound":
        if not has:
            what = "a task without terminal in scores mode" if policy.mode == "scores" else "a task with a bound"
            raise InputError("policy.order", "'bound'", f"{what}", hint="Use order='auto' or 'score'.")
        if policy.discount != 1.0:
            raise InputError("policy.discount", policy.discount, "1.0 with order='bound'")
    return has and policy.discount == 1.0


def _whole(name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or not low <= int(value) <= high:
        raise BudgetError(name, repr(value), f"a whole number from {low} to {high}")


def _real(name: str, value: Any, low: float, high: float) -> None:
    try:
        fine = isinstance(value, Real) and not isinstance(value, bool) and low <= float(value) < high
    except OverflowError:  # a whole number that no float holds
        fine = False
    if not fine:
        raise InputError(name, repr(value), f"a finite number of at least {low:g}")


def _choice(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InputError(name, repr(value), f"one of {', '.join(map(repr, allowed))}")


def _top_k(value: Any) -> None:
    if value is not None:
        _whole("top_k", value, 1, 1 << 31)


# -------------------------------------------------------------------- how hard to prove, and how to work

ProofKind = Literal["auto", "oracle", "bound"]
Engine = Literal["auto", "python", "compiled", "cuda"]


@dataclass(frozen=True, kw_only=True)
class Proof:
    """How much effort a proof of each decision may take."""

    kind: ProofKind = "auto"  # exact values, or admissible bounds
    eps_m: float = 0.0  # claimed bound on the model error of a plan's score
    node_budget: int = 2_000_000  # nodes per decision before it counts as not proved

    def __post_init__(self) -> None:
        if self.kind not in ("auto", "oracle", "bound"):
            raise InputError("kind", repr(self.kind), "'auto', 'oracle' or 'bound'")
        if not isinstance(self.eps_m, Real) or not 0.0 <= self.eps_m <= LARGEST:
            raise InputError("eps_m", self.eps_m, "a finite number of at least 0")
        _whole("node_budget", self.node_budget, 1, MAX_NODES)


@dataclass(frozen=True, kw_only=True)
class Run:
    """How the work is done; nothing here changes a decision, unless the gate has a time budget."""

    engine: Engine = "auto"  # auto compiles when there is enough to decide
    threads: int | None = None  # all cores when not given
    clock: Callable[[], float] | None = None  # seconds, for gate.time_budget_s; read from all threads
    progress: Callable[[int], None] | None = None  # told how many windows are done

    def __post_init__(self) -> None:
        if self.engine not in ("auto", "python", "compiled", "cuda"):
            raise InputError("engine", repr(self.engine), "'auto', 'python', 'compiled' or 'cuda'")
        check_threads(self.threads)

    @property
    def simulator(self) -> Literal["python", "compiled"]:
        """The engine of a walk's own steps: a second to compile, so only `python` means python."""
        return "python" if self.engine == "python" else "compiled"


def check_threads(threads: object) -> None:
    """Raise `InputError` unless it is None or a whole number that a machine may have."""
    whole = isinstance(threads, Integral) and not isinstance(threads, bool)
    if threads is not None and not (whole and 1 <= int(threads) <= MAX_THREADS):  # type: ignore[call-overload]
        raise InputError("threads", repr(threads), f"a whole number from 1 to {MAX_THREADS}")


PROOF, RUN = Proof(), Run()  # the defaults


def check_options(proof: object, run: object) -> None:
    """Raise `InputError` unless these are a `Proof` and a `Run`."""
    for name, value, kind in (("proof", proof, Proof), ("run", run, Run)):
        if not isinstance(value, kind):
            raise InputError(name, type(value).__name__, f"a uc.{kind.__name__}")
