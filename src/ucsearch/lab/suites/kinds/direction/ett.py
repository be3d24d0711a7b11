"""Direction on public series: short, flat or long against walk-forward ridge forecasts, the cost on change.

Chosen on validation, and nothing else: the forecaster's settings, by CRPS; and the risk at which risk-greedy is exposed
as much as UC-Beam. The search settings are the paper's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from ucsearch.decision.decision import DecisionPanel
from ucsearch.lab.comparators import RiskGreedy, key_from, match_exposure
from ucsearch.lab.suites.evidence.rows import Row
from ucsearch.lab.suites.evidence.sample import Drawn, entry
from ucsearch.lab.suites.evidence.tables import cell_check, column
from ucsearch.lab.suites.job import SuiteJob
from ucsearch.lab.suites.kinds.direction.actions import (
    DirectionWalk,
    SearchBudget,
    answers,
    average,
    counted,
    figures,
    hindsight,
    policies,
    walk,
)
from ucsearch.lab.suites.kinds.direction.certificates import WHERE, certificate, certified_walk
from ucsearch.lab.suites.kinds.direction.sources import (
    COLUMN,
    DirectionSource,
    Model,
    SeriesPart,
    SeriesSplit,
    calibration,
    ensemble,
    forecaster,
    load_sources,
    returns_of,
)
from ucsearch.lab.suites.kinds.direction.tables import choice_problems, count_checks, counts, shown
from ucsearch.lab.suites.kinds.kind import Opened, Rows, Selection, SuiteKind
from ucsearch.lab.suites.kinds.settings import SettingsTable
from ucsearch.lab.suites.protocol.comparison import Protocol
from ucsearch.lab.suites.protocol.expected_rows import RowPlan
from ucsearch.lab.suites.recheck.differences import Discrepancy
from ucsearch.lab.suites.suite import Suite
from ucsearch.policies import Policy, UCBeam
from ucsearch.tasks.direction import Direction

__all__ = ["DirectionSettings", "EttDirection"]

Floats = NDArray[np.float64]
ROWS = ("greedy", "risk-greedy", "beam", "rand-shoot", "cem", "uc", "uc-mcts")
BESIDE = ("risk-greedy-matched", "uc-k2", "uc-k1", "random", "rand-shoot-even", "cem-even", "oracle")
MATCHED = "risk-greedy-matched"


class DirectionSettings(SettingsTable):
    """Series, splits, the forecaster's grid and the searches."""

    files: tuple[str, ...] = Field((), description="ETT files; none: generated series")
    generated: int = Field(0, ge=0, description="how many series are generated when no files are named")
    length: int = Field(600, ge=100, description="of a generated series")
    decisions: int = Field(511, ge=5, description="of the test part of each series")
    validation: int = Field(2044, ge=5, description="decisions of the validation part of each series")
    policy_seeds: int = Field(10, ge=1, description="seeds of every stochastic policy per series")
    depth: int = Field(3, ge=1)
    width: int = Field(3, ge=1)
    top_k: int = Field(3, ge=1)
    samples: int = Field(24, ge=5, description="plans per decision of random shooting and CEM")
    simulations: int = Field(10, ge=1, description="of MCTS per decision")
    risk: float = Field(0.25, ge=0.0, description="lambda, and lambda_c of the pruning")
    cost: float = Field(0.1, ge=0.0, description="per unit of change, in usual steps of the series")
    paths: int = Field(100, ge=2, description="members of a forecast")
    ridge: tuple[float, ...] = Field((1.0, 10.0, 100.0), min_length=1)
    pull: tuple[float, ...] = Field((1.0, 5.0), min_length=1)
    discount: tuple[float, ...] = Field((0.998, 0.9995, 1.0), min_length=1)
    vary: tuple[bool, ...] = Field((True, False), min_length=1)
    levels: tuple[float, ...] = Field((0.8, 0.95), min_length=1, description="of the intervals whose coverage is shown")
    block: int = Field(7, ge=1, description="decisions per block of CVaR20 by blocks")
    sampled: int = Field(2, ge=1, description="decisions per series that are exported for the verifier")
    expect_beam: int | None = Field(None, description="expansions of both beams per series")
    expect_sampling: int | None = Field(None, description="expansions of random shooting and CEM per series")

    @property
    def budget(self) -> SearchBudget:
        return SearchBudget(self.depth, self.width, self.top_k, self.samples, self.simulations, self.policy_seeds)

    @property
    def config(self) -> Direction:
        return Direction(cost=self.cost, charge="change")

    @property
    def models(self) -> tuple[Model, ...]:
        return tuple(Model(*values) for values in product(self.ridge, self.pull, self.discount, self.vary))

    def plan(self) -> RowPlan:
        """The rows that evidence must hold."""
        names = self.files or tuple(f"made-{n}" for n in range(self.generated))
        families = {name: (f"{name}/OT",) for name in names}
        policies = ("greedy", "risk-greedy", "beam", "rand-shoot", "cem", "uc", "uc-mcts", "random",
                    "risk-greedy-matched", "oracle", "forecast")  # fmt: skip
        return RowPlan(
            series={"validation": families, "test": families},
            windows={"validation": 1, "test": 1},
            decisions={"validation": self.validation, "test": self.decisions},
            candidates={model.id: {"id": model.id} for model in self.models},
            policies={"test": frozenset(policies)},
            exactly=False,
            sampled=self.sampled * len(names),
            same_series=True,
        )

    def problems(self, rows: Sequence[Row], selection: Mapping[str, Any]) -> Iterator[Discrepancy]:
        """What is wrong about the choice of a selection record."""

        def best(figures: dict[str, float]) -> tuple[str, float]:
            return min(figures, key=lambda name: (figures[name], name)), self.risk

        return choice_problems(
            rows, selection, ("forecast", "crps", "validation_crps"), self.samples * self.depth, best
        )


class EttDirection(SuiteKind):
    """Chooses forecaster and matched risk on validation, then runs every policy on the test part."""

    describes = True
    s: DirectionSettings

    def __init__(self, suite: Suite, job: SuiteJob) -> None:
        super().__init__(suite, job)
        split = SeriesSplit(self.s.validation, self.s.decisions, self.s.depth)
        self.sources = load_sources(self.s.files, self.s.generated, self.s.length, suite.seed, split, job.data_dir)
        self.files = [file for source in self.sources for file in source.files]
        self.datasets = {source.name: "ett" if self.s.files else "generated" for source in self.sources}

    def protocol(self) -> Protocol:
        return self.compared("reward", "reward", "reward", {"validation": 1, "test": 1})

    def validation(self, settled: Selection | None = None) -> Rows:
        suite, job, scores = self.suite, self.job, {}
        for source in self.each("forecasters on validation", self.sources):
            scores[source.name] = job.shard(f"forecasters-{source.name}", partial(_scores, suite, job, source))
        self.crps = {m.id: float(np.mean([found[m.id]["crps"] for found in scores.values()])) for m in self.s.models}
        model = self.model
        self.match = job.shard("exposure", partial(_match, suite, job, self.sources, model))
        rows = []
        for source in self.sources:
            make = partial(_validation, suite, job, source, model, self.match["risk"], scores[source.name])
            rows.append(job.shard(f"validation-{source.name}", make))
        return rows

    @property
    def model(self) -> Model:
        """The forecaster that validation prefers."""
        return min(self.s.models, key=lambda m: (self.crps[m.id], m.id))

    def choice(self, rows: Rows) -> dict[str, Any]:
        return {
            "id": self.model.id,
            "risk": self.s.risk,
            "chosen_by": "smallest mean CRPS over the series' validation parts; lambda is the paper's",
            "validation_crps": self.crps,
            "exposure_match": self.match,
        }

    def opened(self) -> Opened:
        return {source.name: {_series(source.name): source.opened()} for source in self.sources}

    def test(self, selection: Selection) -> Rows:
        job, rows = self.job, []
        for source in self.each("test", self.sources):
            make = partial(_test, self.suite, job, source, self.model, self.match["risk"])
            found = job.shard(f"test-{source.name}", make)
            rows.append(found["row"])
            for name, seconds in found["seconds"].items():
                job.timing(name, seconds, found["searches"])
        return rows

    def tables(self, rows: Rows) -> list[dict[str, Any]]:
        return _tables(self.s)

    def checks(self, rows: Rows) -> list[dict[str, Any]]:
        return _checks(self.s)

    def sample(self, drawn: Sequence[Drawn]) -> list[dict[str, Any]]:
        return _sample(self.suite, self.job, self.sources, self.model, drawn)


def _series(name: str) -> str:
    return f"{name}/{COLUMN}"


def _key(suite: Suite) -> int:
    return key_from(np.random.default_rng([suite.seed, 0]))


def _members(suite: Suite, part: SeriesPart, model: Model) -> Floats:
    s: DirectionSettings = suite.settings
    return returns_of(part, forecaster(model, s.paths), s.depth, _key(suite))


def _row(split: str, part: SeriesPart) -> dict[str, Any]:
    return {"split": split, "family": part.name, "series": _series(part.name), "window": 0, "start": part.start,
            "decisions": len(part.cutoffs), "policies": {}, "certificate": None}  # fmt: skip


# -------------------------------------------------------------------- validation


def _scores(suite: Suite, job: SuiteJob, source: DirectionSource) -> dict[str, Any]:
    """Calibration of every candidate forecaster on one series."""
    s: DirectionSettings = suite.settings
    part = source.part("validation", job)
    return {m.id: calibration(part, forecaster(m, s.paths), s.depth, _key(suite), s.levels) for m in s.models}


def _match(suite: Suite, job: SuiteJob, sources: tuple[DirectionSource, ...], model: Model) -> dict[str, Any]:
    """The risk at which risk-greedy is as often in the market as UC-Beam, over all series together."""
    s: DirectionSettings = suite.settings
    parts = [source.part("validation", job) for source in sources]
    traces = [_members(suite, part, model) for part in parts]

    def exposure(policy: Policy) -> float:
        seen = []
        for part, members in zip(parts, traces, strict=True):
            (walked,) = walk(s.config, [answers(s.config, members, policy, job.threads)], part.outcomes)
            seen.append(float(np.abs(walked.action).mean()))
        return float(np.mean(seen))

    target = exposure(policies(s.budget, s.risk, suite.seed)["uc"][0])
    match = match_exposure(lambda risk: exposure(RiskGreedy(spread="variance", risk=risk)), target)
    return {"risk": match.risk, "exposure": match.exposure, "target": target, "tried": [list(x) for x in match.tried]}


def _validation(
    suite: Suite, job: SuiteJob, source: DirectionSource, model: Model, matched: float, scores: dict[str, Any]
) -> dict[str, Any]:
    """A row with what the candidates gave, and how the policies do there under the chosen one."""
    s: DirectionSettings = suite.settings
    part = source.part("validation", job)
    members, best = _members(suite, part, model), hindsight(s.config, part.outcomes)
    row = _row("validation", part)
    shown = {name: policies(s.budget, s.risk, suite.seed)[name] for name in ("greedy", "risk-greedy", "beam", "uc")}
    shown[MATCHED] = (RiskGreedy(spread="variance", risk=matched),)
    for name, (policy,) in shown.items():
        (walked,) = walk(s.config, [answers(s.config, members, policy, job.threads)], part.outcomes)
        row["policies"][name] = figures(walked, best, s.block)
    row["candidates"] = {name: {"policies": {"forecast": found}} for name, found in scores.items()}
    return row


# -------------------------------------------------------------------- test


def _test(suite: Suite, job: SuiteJob, source: DirectionSource, model: Model, matched: float) -> dict[str, Any]:
    s: DirectionSettings = suite.settings
    part = source.part("test", job)
    members, best = _members(suite, part, model), hindsight(s.config, part.outcomes)
    row, seconds = _row("test", part), {}
    searches = policies(s.budget, s.risk, suite.seed)
    searches[MATCHED] = (RiskGreedy(spread="variance", risk=matched),)
    for name, settings in searches.items():
        begun = perf_counter()
        tables = [answers(s.config, members, one, job.threads) for one in settings]
        seconds[name] = (perf_counter() - begun) / len(settings)
        walks = walk(s.config, tables, part.outcomes)
        row["policies"][name] = average([figures(one, best, s.block) for one in walks])
    row["policies"]["oracle"] = figures(best, best, s.block)
    for name, top_k in (("uc", s.top_k), ("uc-k2", 2), ("uc-k1", 1)):
        own, changes = _mechanism(s, members, part.outcomes, top_k, job.threads)
        row["policies"][name] = figures(own, best, s.block) | changes
    row["policies"]["forecast"] = calibration(part, forecaster(model, s.paths), s.depth, _key(suite), s.levels)
    row["policies"]["forecast-ensemble"] = calibration(part, ensemble(model), s.depth, _key(suite), s.levels)
    row["certificate"] = certificate(_certified(suite, job, part, members, model))
    return {"row": row, "seconds": seconds, "searches": counted(s.config, len(members))}


def _certified(suite: Suite, job: SuiteJob, part: SeriesPart, members: Floats, model: Model) -> DecisionPanel:
    """UC-Beam's own walk, decision by decision, with certificates."""
    s: DirectionSettings = suite.settings
    (policy,) = policies(s.budget, s.risk, suite.seed)["uc"]
    (walked,) = walk(s.config, [answers(s.config, members, policy, job.threads)], part.outcomes)
    return certified_walk(s.config, members, walked.action, policy, model=model.id, threads=job.threads)


def _sample(
    suite: Suite, job: SuiteJob, sources: tuple[DirectionSource, ...], model: Model, drawn: Sequence[Drawn]
) -> list[dict[str, Any]]:
    """The drawn decisions as entries of an exported log."""
    panels = {}
    for source in sources:
        if any(one.family == source.name for one in drawn):
            part = source.part("test", job)
            panels[source.name] = _certified(suite, job, part, _members(suite, part, model), model)
    return [entry(one.name, panels[one.family][one.step], WHERE) for one in drawn]


def _mechanism(
    s: DirectionSettings, members: Floats, outcomes: Floats, top_k: int, threads: int | None
) -> tuple[DirectionWalk, dict[str, float]]:
    """How often lambda_c (in the pruning) and lambda (in the path's score) change the action UC-Beam takes where it is.

    Against the search without either: pruning alone, path alone, both; and each on top of the other.
    """
    found = {}
    for path, pruning in product((0.0, s.risk), repeat=2):
        policy = UCBeam(depth=s.depth, width=s.width, top_k=top_k, risk=path, prune_risk=pruning, order="score",
                        spread="variance")  # fmt: skip
        found[path > 0.0, pruning > 0.0] = answers(s.config, members, policy, threads)
    (own,) = walk(s.config, [found[True, True]], outcomes)
    at = np.arange(len(outcomes)), np.concatenate([[0.0], own.action[:-1]]).astype(int) + 1
    action = {key: table.action[at] for key, table in found.items()}

    def differ(one: tuple[bool, bool], other: tuple[bool, bool]) -> float:
        return float((action[one] != action[other]).mean())

    none, path_only, pruning_only, both = (False, False), (True, False), (False, True), (True, True)
    return own, {
        "changed_by_pruning": differ(pruning_only, none),
        "changed_by_path": differ(path_only, none),
        "changed_by_both": differ(both, none),
        "changed_by_pruning_beside_path": differ(both, path_only),
        "changed_by_path_beside_pruning": differ(both, pruning_only),
    }


# -------------------------------------------------------------------- what is shown


def _tables(s: DirectionSettings) -> list[dict[str, Any]]:
    columns = [
        column("Reward", "reward"),
        column("CVaR20", "cvar20"),
        column("DD", "drawdown"),
        column("Exp.", "expansions"),
    ]
    more = [column("CVaR20 blocks", "cvar20_blocks"), column("Regret", "regret"), column("Exposure", "exposure"),
            column("Turnover", "turnover")]  # fmt: skip
    levels = [column(f"Cover {100 * level:g} %", f"coverage_{100 * level:g}") for level in s.levels]
    changes = [column("Pruning alone", "changed_by_pruning"), column("Path alone", "changed_by_path"),
               column("Both", "changed_by_both"), column("Pruning beside path", "changed_by_pruning_beside_path"),
               column("Path beside pruning", "changed_by_path_beside_pruning")]  # fmt: skip
    proofs = (("Certificate", "cert_passed"), ("Risk-active", "cert_risk_active"), ("Paper's rule", "cert_paper_pass"))
    every = [*ROWS, *BESIDE]
    forecasts = ["forecast", "forecast-ensemble"]
    return [
        shown("direction", "Direction, mean over the series", list(ROWS), columns),
        shown("beside", "The same with what stands beside it", every, [*columns, *more]),
        shown("series", "By series", [*ROWS, MATCHED], columns, ("family", "policy")),
        shown("certificate", "Share of UC-Beam's decisions, equal mean over series", ["uc"],
              [column(name, count, "rate_family_mean", "cert_decisions")
               for name, count in proofs]),
        shown("mechanism", "Share of decisions that lambda_c and lambda change", ["uc", "uc-k2", "uc-k1"], changes),
        shown("calibration", "Forecasters on the test part", forecasts,
              [column("CRPS", "crps"), column("MAE", "mae"), column("RMSE", "rmse"),
               column("Spread ~ error", "spread_error_correlation"), column("PIT distance", "pit_distance"), *levels]),
        shown("calibration by series", "Forecasters by series", forecasts, [column("CRPS", "crps"), *levels],
              ("family", "policy")),
        counts(every),
    ]  # fmt: skip


def _checks(s: DirectionSettings) -> list[dict[str, Any]]:
    """What the suite must show, each read from a table that is derived from the rows."""
    checks = count_checks(s.expect_beam, s.expect_sampling, ROWS)
    # All three actions are expanded at top-k 3, so a penalty in the pruning cannot do anything there.
    if s.top_k >= 3:
        checks.append(
            cell_check("share changed by pruning alone without pruning", "mechanism", ["uc"], "Pruning alone")
        )
    return checks
