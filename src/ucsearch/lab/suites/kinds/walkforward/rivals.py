"""The policies a walk-forward suite compares with: comparators at the chosen candidate's risk, depth and budget;
practitioners' rules, tuned on validation; learned policies, trained on what comes before the validation windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from time import process_time
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ucsearch.errors import InputError
from ucsearch.forecast.base import Forecaster
from ucsearch.forecast.streams import series_stream
from ucsearch.lab.comparators import (
    CEM,
    MPPI,
    DelayAwareGreedy,
    Greedy,
    RandomShooting,
    RiskGreedy,
    RiskRandom,
    beam,
    key_from,
    match_exposure,
)
from ucsearch.lab.learned.boundary import forecast_features, load_learned, train_offline
from ucsearch.lab.suites.kinds.walkforward.settings import Option, WalkForwardSettings
from ucsearch.lab.suites.kinds.walkforward.world import without_lattice
from ucsearch.lab.suites.protocol.comparison import COMPARATORS, is_sampler
from ucsearch.policies import Exact, Policy
from ucsearch.replay.choosers import Learned, Searched
from ucsearch.replay.linear import LinearStorage, has_solver
from ucsearch.replay.panel import Panel
from ucsearch.replay.roster import Budget, Entry, ordering_rules, practitioners, searches
from ucsearch.replay.tune import tune
from ucsearch.replay.walk import Choice, Seen, Walk, walk
from ucsearch.tasks import LeadTimeInventory, Storage
from ucsearch.tasks.base import Binding

__all__ = [
    "NAMES",
    "NETWORK",
    "Rivals",
    "always_fallback",
    "learned_walk",
    "timed_walks",
    "training_data",
    "tuned_practitioners",
    "tuned_walks",
]

Floats = NDArray[np.float64]
CLASSICS = {
    "base-stock": "base-stock", "capped-base-stock": "capped base-stock", "s-S": "(s,S)", "s-nQ": "(s,nQ)",
    "newsvendor": "newsvendor", "newsvendor-free": "newsvendor, free", "rolling-quantile": "rolling quantile",
    "constant-order": "constant order", "myopic": "myopic",
}  # fmt: skip
"""Names in suites -> in the roster."""

NAMES = CLASSICS | {
    "mean-plan": "planning on the mean", "quantile-plan": "planning on a quantile", "price-rule": "price rule",
    "quantile-staffing": "quantile staffing", "calendar-staffing": "calendar staffing",
    "newsvendor-staffing": "newsvendor staffing", "greedy-delay": "delay-aware greedy", "greedy": "greedy",
    "lp-mean": "linear programme on the mean", "milp-mean": "mixed-integer programme on the mean",
    "threshold": "threshold",
}  # fmt: skip
"""Practitioners' names in suites -> in the roster. In rows they stand as `<name>-tuned`."""


NETWORK = "ett-inventory"  # DQN and PPO come with the package under this name
_LENGTH = 600  # values of each series that are played
_SEED = 1


class Rivals:
    """Comparators on one panel."""

    def __init__(
        self, panel: Panel, binding: Binding, settings: WalkForwardSettings, candidate: dict[str, Any], samples: int,
        seed: int, threads: int | None, learned: Callable[[str], Walk] | None = None,
    ) -> None:  # fmt: skip
        self.panel, self.binding, self.s, self.threads = panel, binding, settings, threads
        self._learned = learned
        self.risk, self.depth, self.samples = float(candidate["risk"]), int(candidate["depth"]), samples
        self.mode = candidate.get("mode", "mean")
        rng = np.random.default_rng([seed, 1])
        self.keys = [key_from(rng) for _ in range(settings.comparators.seeds)]

    def options(self, name: str) -> list[str]:
        """Ways to set a comparator that validation may choose between."""
        return [o.name for o in self.s.comparators.options] if name in ("cem", "mppi") else ["plain"]

    def _option(self, name: str) -> Option:
        return next((o for o in self.s.comparators.options if o.name == name), Option())

    def seeds(self, name: str) -> int:
        """Runs whose figures are averaged."""
        return len(self.keys) if is_sampler(name) else 1

    def walks(self, name: str, option: str = "plain", samples: int | None = None) -> list[Walk]:
        """One walk for each seed."""
        chosen, count = self._option(option), self.samples if samples is None else samples
        common: dict[str, Any] = {"depth": self.depth, "risk": self.risk, "samples": count}
        # Samplers make open-loop plans; the nearest they have to closed mode is members mode.
        common |= {"spread": self.s.candidates.spread} if self.mode == "mean" else {"mode": "members"}
        rounds: dict[str, Any] = {"iterations": min(chosen.iterations, count)}
        makers: dict[str, Callable[[int], Policy]] = {
            "cem": lambda key: CEM(seed=key, **common, **rounds),
            "mppi": lambda key: MPPI(seed=key, **common, **rounds),
            "risk-random": lambda key: RiskRandom(seed=key, **common),
            "rand-shoot": lambda key: RandomShooting(seed=key, **common),
        }
        return [self._walk(makers[name](key), chosen.warm) for key in self.keys]

    def _walk(self, policy: Policy, warm: bool = True) -> Walk:
        how = self.s.how(self.threads)
        return walk(self.panel, Searched(self.binding.task, policy, how, warm=warm), engine=self.s.engine)

    # ---------------------------------------------------------------- on test

    def test_jobs(self, chosen: dict[str, Any], validation: Callable[[], Panel]) -> dict[str, Callable[[], list[Walk]]]:
        """All comparators of the test by name."""
        c = self.s.comparators
        jobs: dict[str, Callable[[], list[Walk]]] = {}
        for name, option in chosen["options"].items():
            jobs[name] = partial(self.walks, name, option)
            if c.wide:
                jobs[f"{name}-wide"] = partial(self.walks, name, option, chosen["samples_wide"])
        for name in c.others:
            jobs[name] = self._other(name)
        if c.exposure_matched:
            jobs["risk-greedy-matched"] = lambda: [self._matched(chosen, validation())]
        for name in c.learned:
            if self._learned is None:
                raise InputError("comparators.learned", repr(name), "a run that can train")
            jobs[name] = partial(_alone, self._learned, name)
        return jobs

    def _other(self, name: str) -> Callable[[], list[Walk]]:
        spread = self.s.candidates.spread
        if name == "rand-shoot":
            return lambda: self.walks("rand-shoot")
        if name in CLASSICS:
            return lambda: [self._classic(name)]
        makers: dict[str, Callable[[], Policy]] = {
            "greedy": lambda: Greedy(spread=spread),
            "risk-greedy": lambda: RiskGreedy(risk=self.risk, spread=spread),
            "delay-greedy": lambda: DelayAwareGreedy(delay=self.binding.delay, risk=self.risk, spread=spread),
            "beam": lambda: beam(depth=self.depth, width=4, top_k=3),
            "exact-dp": lambda: Exact(depth=self.depth, risk=self.risk, spread=spread),
            "exact-reward-only": lambda: Exact(depth=self.depth, risk=0.0, spread=spread),
        }
        if name not in makers:
            known = (*makers, "rand-shoot", *CLASSICS)
            raise InputError("comparators.others", repr(name), f"one of {', '.join(known)}")
        return lambda: [self._walk(makers[name]())]

    def _classic(self, name: str) -> Walk:
        if not isinstance(self.binding.config, LeadTimeInventory):
            raise InputError("comparators.others", repr(name), "an inventory task for an inventory rule")
        entry = next(e for e in ordering_rules(self.panel) if e.name == CLASSICS[name])
        return walk(self.panel, entry.make(), engine=self.s.engine)

    def _matched(self, chosen: dict[str, Any], validation: Panel) -> Walk:
        """Risk-greedy at the risk that gives the candidate's mean exposure on validation."""
        spread = self.s.candidates.spread

        def exposure(policy: Policy) -> float:
            how = self.s.how(self.threads)
            walked = walk(validation, Searched(self.binding.task, policy, how), engine=self.s.engine)
            return float(walked.figures["exposure"].mean())

        target = exposure(self.s.candidates.policy(chosen))
        match = match_exposure(lambda risk: exposure(RiskGreedy(risk=risk, spread=spread)), target, bisections=10)
        return self._walk(RiskGreedy(risk=match.risk, spread=spread))


def _alone(make: Callable[[str], Walk], name: str) -> list[Walk]:
    return [make(name)]


# -------------------------------------------------------------------- practitioners


class _Fallback:
    """Leaves every decision to the task's own fallback."""

    def __call__(self, seen: Seen) -> Choice:
        return Choice.at(seen, np.full(len(seen.table), -1, np.int64))


def always_fallback(panel: Panel, engine: Literal["python", "compiled"]) -> Walk:
    return walk(panel, _Fallback(), engine=engine)


def _entries(panel: Panel, s: WalkForwardSettings, threads: int | None) -> dict[str, Entry]:
    budget = Budget(depth=max(s.candidates.depths), risk=0.0)
    how = s.how(threads)
    entries = {entry.name: entry for entry in practitioners(panel, budget, how=how)}
    entries |= {
        e.name: e for e in searches(panel, budget, seeds=1, how=how) if e.name in ("greedy", "delay-aware greedy")
    }
    if s.items is not None:
        # Rules may order any number of packs, not only the sizes that the search looks at.
        entries |= {e.name: e for e in ordering_rules(panel, free=True, round_to=1.0, how=how)}
    if isinstance(panel.config, Storage) and has_solver():
        for key, whole in (("lp-mean", False), ("milp-mean", True)):
            config = without_lattice(panel).config
            make = partial(LinearStorage, config, whole=whole)
            entries[NAMES[key]] = Entry(NAMES[key], "classic", make, "HiGHS, any power, as if the mean were certain")
    out = {}
    for name in s.practitioners:
        if NAMES.get(name) not in entries:
            known = sorted(key for key, value in NAMES.items() if value in entries)
            raise InputError("practitioners", repr(name), f"one of {', '.join(known)} for this task")
        out[name] = entries[NAMES[name]]
    return out


def tuned_practitioners(panel: Panel, s: WalkForwardSettings, threads: int | None) -> dict[str, dict[str, Any]]:
    """Every practitioner's best setting on the validation panel, with how many were tried, and what is asked of it."""
    if s.value_gate is None:
        raise InputError("value_gate", "nothing", "settings of the value gate")
    out = {}
    for name, entry in _entries(panel, s, threads).items():
        settings, tries = {}, 1
        if entry.knobs:  # nothing to tune needs no walk
            best = tune(entry, _walked(name, panel), tries=s.value_gate.tries, engine=s.engine)
            settings, tries = dict(best.knobs), len(best.trials)
        out[f"{name}-tuned"] = {"endpoint": s.practitioners[name], "settings": settings, "tries": tries}
    return out


def _walked(name: str, panel: Panel) -> Panel:
    """A programme of continuous power is walked where levels are continuous, or rounding would be held against it."""
    return without_lattice(panel) if name in ("lp-mean", "milp-mean") else panel


def tuned_walks(
    panel: Panel, s: WalkForwardSettings, tuned: Mapping[str, Mapping[str, Any]], threads: int | None
) -> dict[str, tuple[list[Walk], float]]:
    """The practitioners at their tuned settings, and the seconds they took."""
    entries = _entries(panel, s, threads)
    by_name = {}
    for name, entry in entries.items():
        makers = entry.choosers(**tuned[f"{name}-tuned"]["settings"])
        world, begun = _walked(name, panel), process_time()
        walks = [walk(world, make(), engine=s.engine) for make in makers]
        by_name[f"{name}-tuned"] = walks, process_time() - begun
    return by_name


def timed_walks(rivals: Rivals, candidate: Mapping[str, Any], samples: int) -> dict[str, tuple[list[Walk], float]]:
    """The samplers with as many plans as fit into the judged policy's time, and the seconds they took."""
    by_name = {}
    for name in COMPARATORS:
        begun = process_time()
        walks = rivals.walks(name, candidate["options"][name], samples)
        by_name[f"{name}-time"] = walks, process_time() - begun
    return by_name


# -------------------------------------------------------------------- learned policies


def training_data(
    validation: Panel, binding: Binding, forecaster: Forecaster, horizon: int, key: int
) -> tuple[list[Floats], list[Floats]]:
    """Outcomes (T,) and what the forecast says of them (T, 3), of every series before its validation windows."""
    outcomes, features = [], []
    for s in validation.stretches:
        if s.window != 0:
            continue
        least = forecaster.min_history(s.season)
        marks = np.arange(max(least, s.start - _LENGTH - 1), s.start - 1, dtype=np.int64)
        forecast = forecaster.forecast(
            s.y[: s.start], marks, horizon=horizon, season=s.season,
            stream=series_stream(key, f"{s.family}/{s.series}/fit"),
        )  # fmt: skip
        members = np.asarray(forecast.expand().members)  # (T, J, H)
        before = s.y[marks]
        future = binding.outcomes(members, np.repeat(before[:, None], members.shape[1], axis=1))
        features.append(forecast_features(future, binding.delay))
        outcomes.append(binding.outcomes(s.y[marks + 1][:, None], before)[:, 0])
    return outcomes, features


def learned_walk(
    name: str, panel: Panel, validation: Panel, binding: Binding, forecaster: Forecaster, horizon: int, key: int
) -> Walk:
    """One learned policy on the windows of a panel."""
    task = binding.task
    if name in ("fqi", "cql"):
        start = binding.start(panel.trace(0))[0]
        outcomes, features = training_data(validation, binding, forecaster, horizon, key)
        policy = train_offline("fqi" if name == "fqi" else "cql", task, start, outcomes, features, seed=_SEED)
    elif name in ("dqn", "ppo"):
        policy = load_learned(f"{NETWORK}-{name}")
    else:
        raise InputError("comparators.learned", repr(name), "fqi, cql, dqn or ppo")
    return walk(panel, Learned(policy, lambda trace: forecast_features(trace.members[..., 0], binding.delay)))
