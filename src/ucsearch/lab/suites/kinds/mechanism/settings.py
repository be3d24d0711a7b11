"""The settings of a mechanism suite: sources, the beams that are diagnosed, and the splits."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from ucsearch.lab.suites.kinds.settings import SettingsTable, TaskTable
from ucsearch.lab.suites.protocol.expected_rows import RowPlan
from ucsearch.policies import CertifiedBeam, ParetoBeam, UCBeam

__all__ = ["BeamSettings", "MechanismSettings", "SourceSettings"]


class SourceSettings(SettingsTable):
    """One task on some families."""

    families: tuple[str, ...] = Field(min_length=1)
    task: TaskTable
    multiples: tuple[float, ...] | None = Field(None, description="order grid, in units of the forecast's spread")
    arrivals: int = Field(1, ge=1)
    floor: float | None = Field(None, description="no forecast goes below")
    per_family: int = Field(ge=1, description="series of each family, first by id hash")
    fit: int = Field(40, ge=10, description="least values before the first window")
    scaling: Literal["level", "spread"] = "level"
    latest: int | None = Field(None, ge=1, description="use only so many of the latest values of a series")


class BeamSettings(SettingsTable):
    """A bounded search. `order` is what candidates and paths are ranked by."""

    policy: Literal["beam", "pareto", "certified"]
    order: Literal["score", "bound"] = "score"


class MechanismSettings(SettingsTable):
    """A mechanism suite. All beams have the same width, cap, depth and risk, so that one bound on expansions holds."""

    sources: dict[str, SourceSettings] = Field(min_length=1)
    beams: dict[str, BeamSettings]
    depth: int = Field(4, ge=1)
    width: int = Field(3, ge=1)
    top_k: int = Field(3, ge=1)
    risk: float = Field(0.25, gt=0.0, description="lambda; Proposition 2 asks for one that is positive")
    paths: int = Field(60, ge=2, description="members of a forecast")
    levels: tuple[float, float] = (0.8, 0.95)
    validation: int = Field(2, ge=1, description="windows of each series")
    test: int = Field(2, ge=1, description="windows of each series")
    decisions: int = Field(6, ge=1, description="in a window")
    sampled: int = Field(4, ge=0, description="decisions of each source exported for the verifier")

    @model_validator(mode="after")
    def _consistent(self) -> MechanismSettings:
        if "uc" not in self.beams or "exact" in self.beams:
            raise ValueError("beams with 'uc', which the certificate is about, and without 'exact'")
        if self.width < self.top_k:
            raise ValueError("a width of at least top_k, one place for every first action of a certified beam")
        families = [family for source in self.sources.values() for family in source.families]
        if len(set(families)) != len(families):
            raise ValueError("every family in one source")
        if not all(0.0 < level < 1.0 for level in self.levels):
            raise ValueError("levels between 0 and 1")
        return self

    @property
    def most_expansions(self) -> int:
        """Of one decision, by Proposition 1."""
        return self.top_k * (1 + self.width * (self.depth - 1))

    def policy(self, name: str) -> UCBeam:
        kind = {"beam": UCBeam, "pareto": ParetoBeam, "certified": CertifiedBeam}[self.beams[name].policy]
        return kind(
            depth=self.depth, width=self.width, top_k=self.top_k, risk=self.risk, spread="std",
            order=self.beams[name].order,
        )  # fmt: skip

    def plan(self) -> RowPlan:
        """The rows that evidence must hold."""
        families = {name: source.per_family for source in self.sources.values() for name in source.families}
        policies = frozenset((*self.beams, "exact"))
        return RowPlan(
            series={"validation": families, "test": families},
            windows={"validation": self.validation, "test": self.test},
            decisions=dict.fromkeys(("validation", "test"), self.decisions),
            policies={"validation": policies, "test": policies},
            sampled=self.sampled * len(self.sources),
            same_series=True,
            truncated=any(source.latest is not None for source in self.sources.values()),
        )
