"""The settings of a walk-forward suite, and the candidates they describe."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from ucsearch.lab.suites.evidence.rows import Row
from ucsearch.lab.suites.kinds.settings import SettingsTable, TaskTable
from ucsearch.lab.suites.protocol.comparison import COMPARATORS
from ucsearch.lab.suites.protocol.expected_rows import Expected, RowPlan
from ucsearch.lab.suites.recheck.differences import Discrepancy
from ucsearch.policies import CertifiedBeam, ConstrainedBeam, Exact, ParetoBeam, Policy, ProofKind, Run, UCBeam

__all__ = ["Candidates", "Comparators", "Items", "Option", "Splits", "WalkForwardSettings"]


_LATER: dict[str, Any] = {
    "levels": [], "leads": False, "power": False, "seen": [], "forecaster": "ridge",
}  # fmt: skip


class Splits(SettingsTable):
    """How series are chosen and cut."""

    per_family: int | None = Field(default=None, ge=1, description="series of each family, first by id hash; none: all")
    counts: dict[str, int] = Field(default={}, description="series of single families, instead of per_family")
    skip: int = Field(default=0, ge=0, description="of the series in that order, leave out the first so many")
    fit: int = Field(default=40, ge=10, description="least values before the first window")
    validation: int = Field(default=1, ge=1, description="windows of each series")
    test: int = Field(default=2, ge=1, description="windows of each series")
    decisions: int = Field(default=36, ge=1, description="in a window")
    scaling: Literal["level", "steps", "none"] = Field(
        default="level",
        description="of its fitting part, by which a series is divided: mean size, or spread of its steps, or nothing",
    )
    busy: float | None = Field(default=None, gt=0.0, description="least mean of the fitting part's latest 60 values")
    latest: int | None = Field(default=None, ge=1, description="use only so many of the latest values of a series")


class Candidates(SettingsTable):
    """What validation chooses from."""

    policies: tuple[Literal["exact", "beam", "pareto", "certified", "constrained"], ...] = ("exact",)
    risks: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5)
    depths: tuple[int, ...] = (3,)
    widths: tuple[int, ...] = (4,)
    top_k: tuple[int, ...] = (2,)
    modes: tuple[Literal["mean", "members", "closed"], ...] = Field(
        default=("mean",), min_length=1, description="of the searches; closed only with exact"
    )
    spread: Literal["variance", "std", "downside"] = Field(default="std", description="in mean mode")
    proof: ProofKind = "bound"
    near_equal: float = 0.0
    utility_budget: float | None = None
    only: tuple[str, ...] = Field(default=(), description="ids of those that take part; none: all")
    nodes: int | None = Field(default=None, ge=1, description="per decision, of an exact search and of a proof")

    @model_validator(mode="after")
    def _known(self) -> Candidates:
        strange = set(self.only) - {c["id"] for c in self._all()}
        if strange:
            raise ValueError(f"only: some of {', '.join(c['id'] for c in self._all())}, not {sorted(strange)[0]}")
        return self

    def each(self) -> Iterator[dict[str, Any]]:
        """Every candidate with the members that define it."""
        return (c for c in self._all() if not self.only or c["id"] in self.only)

    def _all(self) -> Iterator[dict[str, Any]]:
        """Width and cap only where a policy has them."""
        for name, mode, risk, depth in product(self.policies, self.modes, self.risks, self.depths):
            # Mean mode goes without saying: its candidates are called as they always were.
            said = {} if mode == "mean" else {"mode": mode}
            full = name if mode == "mean" else f"{name}-{mode}"
            if name == "exact":
                yield {"id": f"{full}-r{risk:g}-d{depth}", "policy": name, "risk": risk, "depth": depth, **said}
                continue
            for width, cap in product(self.widths, self.top_k):
                yield {
                    "id": f"{full}-r{risk:g}-d{depth}-b{width}-k{cap}", "policy": name, "risk": risk, "depth": depth,
                    "width": width, "top_k": cap, **said,
                }  # fmt: skip

    def kind(self, candidate: dict[str, Any]) -> ProofKind:
        """The proof asked for; outside mean mode the certificate knows best."""
        return self.proof if candidate.get("mode", "mean") == "mean" else "auto"

    def policy(self, candidate: dict[str, Any]) -> Policy:
        mode = candidate.get("mode", "mean")
        common: dict[str, Any] = {"depth": candidate["depth"], "risk": candidate["risk"]}
        common |= {"spread": self.spread} if mode == "mean" else {"mode": mode}
        if candidate["policy"] == "exact":
            return Exact(**common | ({} if self.nodes is None else {"node_budget": self.nodes}))
        common |= {"width": candidate["width"], "top_k": candidate["top_k"]}
        if candidate["policy"] == "constrained":
            budget = math.inf if self.utility_budget is None else self.utility_budget
            return ConstrainedBeam(near_equal=self.near_equal, utility_budget=budget, **common)
        if candidate["policy"] == "certified":
            return CertifiedBeam(protect=True, **common)
        return {"beam": UCBeam, "pareto": ParetoBeam}[candidate["policy"]](**common)


class Option(SettingsTable):
    """One way to set CEM or MPPI; validation takes the better one, so that a comparator is at its best."""

    iterations: int = Field(default=3, ge=1)
    warm: bool = True

    @property
    def name(self) -> str:
        return f"i{self.iterations}{'w' if self.warm else 'c'}"


class Comparators(SettingsTable):
    """Whom the chosen candidate is compared with."""

    seeds: int = Field(default=10, ge=1, description="of every stochastic one, averaged per window")
    options: tuple[Option, ...] = Field(default=(Option(), Option(iterations=2, warm=False)), min_length=1)
    others: tuple[str, ...] = Field(
        default=("greedy", "risk-greedy", "delay-greedy", "beam", "rand-shoot", "exact-dp"), description="on test only"
    )
    wide: bool = Field(default=True, description="also with the nodes of the risk-activity check added to the budget")
    exposure_matched: bool = Field(default=False, description="risk-greedy at the exposure of the chosen candidate")
    learned: tuple[str, ...] = Field(default=(), description="trained policies, on test only")
    series: int | None = Field(
        default=None, ge=3, description="samplers run on so many series of each family, the first by id hash; none: all"
    )
    validation: bool = Field(default=True, description="samplers at equal nodes run beside every candidate, too")

    def policies(self) -> frozenset[str]:
        """Names of everybody in a test row."""
        names = {"uc", "hindsight", *COMPARATORS, *self.others, *self.learned}
        if self.wide:
            names |= {f"{name}-wide" for name in COMPARATORS}
        if self.exposure_matched:
            names.add("risk-greedy-matched")
        return frozenset(names)

    @model_validator(mode="after")
    def _alike(self) -> Comparators:
        if self.series is not None and self.validation:
            raise ValueError("validation = false beside series")
        if not self.validation and len(self.options) > 1:
            raise ValueError("one of the options where validation = false")
        return self


class Items(SettingsTable):
    """Items that are ordered in lots: limits in days of each item's own mean demand, costs per such day.

    The order sizes of a decision and the lattice of closed mode follow from its forecast
    (`ucsearch.tasks.inventory.sizes`).
    """

    fixed_days: float = Field(default=0.0, ge=0.0, description="fixed cost of an order, in days of holding")
    pack_days: float = Field(default=0.0, ge=0.0, description="case pack; rounded to whole units, at least 1")
    capacity_days: float | None = Field(default=None, gt=0.0, description="largest stock and open orders; none: any")
    start_days: float = Field(default=4.0, ge=0.0, description="stock at the start")
    end_days: float = Field(default=0.0, ge=0.0, description="a unit left at the end is worth so many days of holding")
    lots: int = Field(default=8, ge=2, description="order sizes besides nothing")
    points: int = Field(default=9, ge=2, description="of a step's demand in closed mode")


class ValueSettings(SettingsTable):
    """What the value gate asks for."""

    margin: float = Field(default=0.01, ge=0.0, le=0.01, description="of non-inferiority, in scale-free deltas")
    tries: int = Field(default=8, ge=1, description="settings tried of each practitioner, on validation")
    time_samples: int = Field(
        ge=2, description="plans a sampler makes in the judged policy's time, measured on design series"
    )


class WalkForwardSettings(SettingsTable):
    """A walk-forward suite."""

    families: tuple[str, ...] = Field(min_length=1)
    task: TaskTable
    multiples: tuple[float, ...] | None = Field(
        default=None, description="order grid, in units of the forecast's spread"
    )
    arrivals: int = Field(default=1, ge=1)
    paths: int = Field(default=60, ge=2, description="members of a forecast")
    floor: float | None = Field(default=None, description="no forecast goes below")
    splits: Splits = Splits()
    candidates: Candidates = Candidates()
    comparators: Comparators = Comparators()
    utility: dict[str, float] = Field(default={"reward": 1.0}, min_length=1)
    gate: bool = True
    audit: bool = Field(
        default=False, description="stop before test unless validation windows show a positive candidate"
    )
    levels: tuple[float, ...] = Field(default=(), description="coverage of central intervals is counted at these")
    leads: bool = Field(default=False, description="utility over every other policy, with an interval by data sets")
    power: bool = Field(default=False, description="power of the paper's gate before the look")
    seen: tuple[str, ...] = Field(default=(), description="ids that were looked at before: for design only, too")
    forecaster: Literal["ridge", "unbiased"] = Field(
        default="ridge", description="ridge paths, or those without their own mean error by phase of the season"
    )
    sampled: int = Field(default=6, ge=1, description="decisions drawn for the verifier")
    items: Items | None = Field(default=None, description="order in lots; then there are no multiples")
    lattice: float | None = Field(
        default=None,
        gt=0.0,
        description="unit of outcomes in closed mode, where items do not; none: all members",
    )
    recalibrate: Literal["off", "rolling"] = Field(default="off", description="members by phase of the season")
    traces: str | None = Field(default=None, description="stored forecasts of trained networks, instead of ridge paths")
    value_gate: ValueSettings | None = Field(default=None, description="ask for the value gate too")
    practitioners: dict[str, Literal["superiority", "non-inferiority"]] = Field(
        default={}, description="whom the value gate compares with, and what is asked of each"
    )

    engine: Literal["python", "compiled"] = Field(default="compiled", description="of everything; results are equal")

    def how(self, threads: int | None) -> Run:
        return Run(engine=self.engine, threads=threads)

    @model_serializer(mode="wrap")
    def _as_ever(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Settings that came later are left out where they ask for nothing: older suites keep their bytes."""
        made: dict[str, Any] = write(self)
        return {name: value for name, value in made.items() if name not in _LATER or value != _LATER[name]}

    @model_validator(mode="after")
    def _both_or_none(self) -> WalkForwardSettings:
        if not all(0.0 < level < 1.0 for level in self.levels):
            raise ValueError("levels between 0 and 1")
        if self.forecaster != "ridge" and (self.traces is not None or self.recalibrate != "off"):
            raise ValueError("a forecaster other than ridge without traces, and with recalibrate = 'off'")
        if self.power and not (self.gate and self.comparators.validation):
            raise ValueError("power only with gate = true, and with samplers on validation")
        if (self.value_gate is None) != (not self.practitioners):
            raise ValueError("value_gate and practitioners together, or neither")
        return self

    @property
    def replaceable(self) -> tuple[str, ...]:
        """Families that may come from other files."""
        return self.families

    def problems(self, rows: Sequence[Row], selection: Mapping[str, Any]) -> Iterator[Discrepancy]:
        """What is wrong about candidates and budgets of a selection record."""
        from ucsearch.lab.suites.kinds.walkforward.budgets import selection_problems

        return selection_problems(self, rows, selection)

    def plan(self) -> RowPlan:
        """The rows that evidence must hold."""
        cut, compared = self.splits, self.comparators
        families: dict[str, Expected] = {name: cut.counts.get(name, cut.per_family) for name in self.families}
        against: frozenset[str] = frozenset()
        if self.practitioners:
            tuned = (f"{name}-tuned" for name in self.practitioners)
            against = frozenset((*tuned, *(f"{name}-time" for name in COMPARATORS), "fallback"))
        samplers: frozenset[str] = frozenset(COMPARATORS) if compared.validation else frozenset()
        return RowPlan(
            series={"validation": families, "test": families},
            windows={"validation": cut.validation, "test": cut.test},
            decisions=dict.fromkeys(("validation", "test"), cut.decisions),
            candidates={candidate["id"]: candidate for candidate in self.candidates.each()},
            policies={
                "test": compared.policies() | against | (frozenset(("value",)) if against else frozenset()),
                "candidate": samplers | {"uc"},
                **({"validation": against | {"hindsight"}} if against else {}),
            },
            sampled=self.sampled,
            same_series=True,
            truncated=cut.latest is not None,
            few=compared.series,
        )
