"""Sign-flip uncertainty: a forecast whose mean is blind to flips of sign and whose spread tells where they are likely.

A hidden signal m follows an autoregression. What is earned is `flip * m + noise`, where flips are rare in calm times
and as likely as not in turbulent ones. The forecaster knows the signal and the regime, forecasts the mean as if there
were no flips, and widens its members by the variance that flips add. The definition is fixed in the benchmark card.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ucsearch.lab.suites.evidence.rows import Row
from ucsearch.lab.suites.evidence.tables import cell_check, column
from ucsearch.lab.suites.job import SuiteJob
from ucsearch.lab.suites.kinds.direction.actions import (
    ActionTable,
    DirectionWalk,
    SearchBudget,
    answers,
    average,
    figures,
    policies,
    walk,
)
from ucsearch.lab.suites.kinds.direction.tables import choice_problems, count_checks, counts, shown
from ucsearch.lab.suites.kinds.kind import Opened, Rows, Selection, SuiteKind
from ucsearch.lab.suites.kinds.settings import SettingsTable
from ucsearch.lab.suites.protocol.comparison import Protocol
from ucsearch.lab.suites.protocol.expected_rows import RowPlan
from ucsearch.lab.suites.recheck.differences import Discrepancy
from ucsearch.lab.suites.suite import Suite
from ucsearch.policies import Policy
from ucsearch.tasks.direction import Direction
from ucsearch.trace.members import normal_points

__all__ = ["SignFlips", "Synthetic", "SyntheticSettings", "make_world"]

Floats = NDArray[np.float64]
FAMILY = "sign-flip"
# Rows of the paper's first table, then what is shown beside them.
ROWS = ("random", "greedy", "beam", "rand-shoot", "cem", "uc", "uc-mcts")
BESIDE = ("risk-greedy", "rand-shoot-even", "cem-even")
STREAMS = {"validation": 1, "test": 2}


class SyntheticSettings(SettingsTable):
    """The generator, the searches and the risks to choose from."""

    seeds: int = Field(5, ge=1, description="series of the test split")
    validation_seeds: int = Field(5, ge=1, description="series of the validation split")
    policy_seeds: int = Field(10, ge=1, description="seeds of every stochastic policy per series")
    decisions: int = Field(128, ge=5, description="per series")
    depth: int = Field(3, ge=1)
    width: int = Field(3, ge=1)
    top_k: int = Field(3, ge=1)
    samples: int = Field(32, ge=5, description="plans per decision of random shooting and CEM")
    simulations: int = Field(10, ge=1, description="of MCTS per decision")
    cost: float = Field(0.1, ge=0.0, description="per unit of exposure")
    risks: tuple[float, ...] = Field((0.25, 0.5, 1.0, 2.0), min_length=1, description="lambda is chosen from these")
    members: int = Field(16, ge=2)
    signal: float = Field(0.5, gt=0.0, description="standard deviation of the signal")
    memory: float = Field(0.9, gt=0.0, lt=1.0, description="autoregression of the signal")
    noise: float = Field(0.3, ge=0.0, description="standard deviation of the noise")
    calm_flip: float = Field(0.05, ge=0.0, le=0.5, description="probability of a flip in calm times")
    turbulent_flip: float = Field(0.5, ge=0.0, le=0.5, description="probability of a flip in turbulent times")
    into_turbulence: float = Field(0.04, gt=0.0, lt=1.0, description="per step")
    out_of_turbulence: float = Field(0.1, gt=0.0, lt=1.0, description="per step")
    block: int = Field(8, ge=1, description="decisions per block of CVaR20 by blocks")
    expect_beam: int | None = Field(None, description="expansions of both beams per series")
    expect_sampling: int | None = Field(None, description="expansions of random shooting and CEM per series")

    @property
    def budget(self) -> SearchBudget:
        return SearchBudget(self.depth, self.width, self.top_k, self.samples, self.simulations, self.policy_seeds)

    def plan(self) -> RowPlan:
        """The rows that evidence must hold."""
        counts = {"validation": self.validation_seeds, "test": self.seeds}
        policies = ("greedy", "risk-greedy", "beam", "rand-shoot", "cem", "uc", "uc-mcts", "random", "oracle")
        return RowPlan(
            series={split: {"sign-flip": tuple(f"{split}-{n}" for n in range(k))} for split, k in counts.items()},
            windows={"validation": 1, "test": 1},
            decisions=dict.fromkeys(("validation", "test"), self.decisions),
            candidates={f"risk-{risk:g}": {"id": f"risk-{risk:g}"} for risk in self.risks},
            policies={"test": frozenset(policies)},
            exactly=False,
        )

    def problems(self, rows: Sequence[Row], selection: Mapping[str, Any]) -> Iterator[Discrepancy]:
        """What is wrong about the choice of a selection record."""

        def best(figures: dict[str, float]) -> tuple[str, float]:
            top = max(figures.values())
            risk = min(r for r in self.risks if figures.get(candidate(r)) == top)
            return candidate(risk), risk

        return choice_problems(rows, selection, ("uc", "reward", "validation_reward"), self.samples * self.depth, best)


class SignFlips(NamedTuple):
    """One generated series."""

    members: Floats  # (T, J, d) forecasts of the d next outcomes
    outcomes: Floats  # (T,) outcome of the step after each decision
    turbulent: NDArray[np.bool_]  # (T,) regime at each decision


def make_world(s: SyntheticSettings, rng: np.random.Generator) -> SignFlips:
    """T decisions; the regime of a step decides how likely its flip is."""
    count = s.decisions + 1
    shocks, moves, flips, noise = (
        rng.standard_normal(count), rng.random(count), rng.random(count), rng.standard_normal(count)
    )  # fmt: skip
    signal, turbulent = np.empty(count), np.empty(count, np.bool_)
    fresh = s.signal * np.sqrt(1.0 - s.memory * s.memory)
    signal[0] = s.signal * shocks[0]
    turbulent[0] = moves[0] < s.into_turbulence / (s.into_turbulence + s.out_of_turbulence)
    for t in range(1, count):
        signal[t] = s.memory * signal[t - 1] + fresh * shocks[t]
        stays = moves[t] >= s.out_of_turbulence
        turbulent[t] = stays if turbulent[t - 1] else moves[t] < s.into_turbulence
    chance = np.where(turbulent, s.turbulent_flip, s.calm_flip)
    earned = np.where(flips < chance, -signal, signal) + s.noise * noise
    return SignFlips(_members(s, signal[:-1], turbulent[:-1]), earned[1:], turbulent[:-1])


def _members(s: SyntheticSettings, signal: Floats, turbulent: NDArray[np.bool_]) -> Floats:
    """(T, J, d): quantile points around the flip-blind mean, spread by everything that may happen, flips included."""
    points = normal_points(s.members)
    share = s.into_turbulence / (s.into_turbulence + s.out_of_turbulence)
    keep = 1.0 - s.into_turbulence - s.out_of_turbulence
    out = np.empty((len(signal), s.members, s.depth))
    for h in range(1, s.depth + 1):
        mean = s.memory**h * signal
        in_turbulence = share + keep**h * (turbulent - share)
        flip = s.calm_flip + in_turbulence * (s.turbulent_flip - s.calm_flip)
        drift = (1.0 - s.memory ** (2 * h)) * s.signal * s.signal
        spread = np.sqrt(4.0 * flip * (1.0 - flip) * mean * mean + drift + s.noise * s.noise)
        out[:, :, h - 1] = mean[:, None] + spread[:, None] * points
    return out


# -------------------------------------------------------------------- the kind


class Synthetic(SuiteKind):
    """Chooses lambda on the validation series, then runs every policy on the test series."""

    describes = True
    s: SyntheticSettings

    def protocol(self) -> Protocol:
        self.datasets = {FAMILY: "generated"}
        return self.compared("reward", "reward", "reward", {"validation": 1, "test": 1})

    def validation(self, settled: Selection | None = None) -> Rows:
        rows = []
        for n in self.each("validation", range(self.s.validation_seeds)):
            rows.append(self.job.shard(f"validation-{n}", partial(_validation_row, self.suite, self.job, n)))
        return rows

    def choice(self, rows: Rows) -> dict[str, Any]:
        figures_of = {
            name: float(np.mean([row["candidates"][name]["policies"]["uc"]["reward"] for row in rows]))
            for name in map(candidate, self.s.risks)
        }
        # The smaller risk on ties: risks ascend, and max returns the first of equals.
        chosen = max(sorted(self.s.risks), key=lambda risk: figures_of[candidate(risk)])
        return {
            "id": candidate(chosen),
            "risk": chosen,
            "chosen_by": "largest mean validation reward of UC-Beam; the smaller lambda on ties",
            "validation_reward": figures_of,
        }

    def opened(self) -> Opened:
        return {FAMILY: {_series("test", n): [0, self.s.decisions] for n in range(self.s.seeds)}}

    def test(self, selection: Selection) -> Rows:
        rows = []
        for n in self.each("test", range(self.s.seeds)):
            found = self.job.shard(f"test-{n}", partial(_test_row, self.suite, self.job, n, selection["risk"]))
            rows.append(found["row"])
            for name, seconds in found["seconds"].items():
                self.job.timing(name, seconds, self.s.decisions)
        return rows

    def tables(self, rows: Rows) -> list[dict[str, Any]]:
        return _tables()

    def checks(self, rows: Rows) -> list[dict[str, Any]]:
        return _checks(self.s)


def candidate(risk: float) -> str:
    return f"risk-{risk:g}"


def _series(split: str, n: int) -> str:
    return f"{split}-{n}"


def _world(suite: Suite, split: str, n: int) -> SignFlips:
    return make_world(suite.settings, np.random.default_rng([suite.seed, STREAMS[split], n]))


def _config(s: SyntheticSettings) -> Direction:
    return Direction(cost=s.cost, charge="exposure")


def _row(split: str, n: int, s: SyntheticSettings) -> dict[str, Any]:
    return {"split": split, "family": FAMILY, "series": _series(split, n), "window": 0, "start": 0,
            "decisions": s.decisions, "policies": {}, "certificate": None}  # fmt: skip


def _best(config: Direction, outcomes: Floats) -> DirectionWalk:
    """The hindsight oracle: with the cost on exposure the best walk is the best single step, every time."""
    action = np.where(np.abs(outcomes) > config.cost, np.sign(outcomes), 0.0)
    reward = np.maximum(np.abs(outcomes) - config.cost, 0.0)
    return DirectionWalk(action, reward, 0, 0, 0)


def _validation_row(suite: Suite, job: SuiteJob, n: int) -> dict[str, Any]:
    s: SyntheticSettings = suite.settings
    config, world = _config(s), _world(suite, "validation", n)
    row = _row("validation", n, s)
    row["candidates"] = {}

    def figures_of(policy: Policy) -> dict[str, float]:
        (one,) = walk(config, [answers(config, world.members, policy, job.threads)], world.outcomes)
        return figures(one, _best(config, world.outcomes), s.block)

    row["policies"]["beam"] = figures_of(
        policies(s.budget, 0.0, suite.seed)["beam"][0]
    )  # to compare with, not to choose
    for risk in s.risks:
        figures_at = figures_of(policies(s.budget, risk, suite.seed)["uc"][0])
        row["candidates"][candidate(risk)] = {"policies": {"uc": figures_at}, "certificate": None}
    return row


def _test_row(suite: Suite, job: SuiteJob, n: int, risk: float) -> dict[str, Any]:
    s: SyntheticSettings = suite.settings
    job.require_open()
    config, world = _config(s), _world(suite, "test", n)
    best = _best(config, world.outcomes)
    row, seconds = _row("test", n, s), {}
    actions: dict[str, Floats] = {}
    for name, settings in policies(s.budget, risk, suite.seed).items():
        begun = perf_counter()
        tables: list[ActionTable] = [answers(config, world.members, one, job.threads) for one in settings]
        seconds[name] = (perf_counter() - begun) / len(settings)
        walks = walk(config, tables, world.outcomes)
        row["policies"][name] = average([figures(one, best, s.block) for one in walks])
        actions[name] = walks[0].action
    row["policies"]["oracle"] = figures(best, best, s.block)
    for found in row["policies"].values():
        found["reward_plus_regret_less_best"] = found["reward"] + found["regret"] - row["policies"]["oracle"]["reward"]
    for name in ("beam", "uc"):
        for other in ("greedy", "risk-greedy"):
            differ = int((actions[name] != actions[other]).sum())
            row["policies"][name][f"differs_from_{other.replace('-', '_')}"] = differ
    return {"row": row, "seconds": seconds}


def _tables() -> list[dict[str, Any]]:
    columns = [
        column("Reward", "reward"),
        column("Regret", "regret"),
        column("DD", "drawdown"),
        column("Exp.", "expansions"),
    ]
    more = [column("CVaR20", "cvar20"), column("Exposure", "exposure"), column("Scored", "action_scores")]
    every = [*ROWS, *BESIDE, "oracle"]
    apart = [
        column("From greedy", "differs_from_greedy", "sum"),
        column("From risk-greedy", "differs_from_risk_greedy", "sum"),
    ]
    constant = [
        column("Least", "reward_plus_regret_less_best", "min"),
        column("Most", "reward_plus_regret_less_best", "max"),
    ]
    return [
        shown("synthetic", "Sign-flip uncertainty, mean over the test series", ROWS, columns),
        shown("beside", "The same with what stands beside it", every, [*columns, *more]),
        shown("apart", "Decisions, over all series, that differ", ("beam", "uc"), apart),
        shown("constant", "Reward plus regret less the hindsight reward", every, constant, ()),
        counts(every),
    ]


def _checks(s: SyntheticSettings) -> list[dict[str, Any]]:
    """What the suite must show, each read from a table that is derived from the rows."""
    return [
        cell_check("decisions where beam and greedy differ", "apart", ["beam"], "From greedy"),
        cell_check("decisions where UC-Beam and risk-greedy differ", "apart", ["uc"], "From risk-greedy"),
        cell_check("reward plus regret less the hindsight reward, least", "constant", [], "Least", ">=", -1e-9),
        cell_check("reward plus regret less the hindsight reward, most", "constant", [], "Most", "<=", 1e-9),
        *count_checks(s.expect_beam, s.expect_sampling, ROWS),
    ]
