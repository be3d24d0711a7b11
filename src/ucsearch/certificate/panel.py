"""`CertifiedPanel`: a searched panel with what is proved about each of its windows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucsearch.certificate.compute import Claims, Evidence
from ucsearch.certificate.record import Certificate, certificate_of
from ucsearch.certificate.route import Route
from ucsearch.engine.keeping import kept_weights
from ucsearch.engine.panel import PanelPlan

__all__ = ["CertifiedPanel"]

Floats = NDArray[np.float64]
_TOGETHER = 64  # windows whose arrays become plain numbers at once


class Row(NamedTuple):
    """One window of a panel; the arrays' elements as Python's own numbers and lists."""

    evidence: Any  # as `Evidence`, without its first axis
    claims: Any
    table: list[list[float]]
    paths: list[list[int]]
    upper_paths: list[list[int]]
    released: int
    oracle_nodes: int


@dataclass(frozen=True, eq=False)
class CertifiedPanel:
    """A searched panel with what is proved about it. `released` is what would leave, gate permitting."""

    plan: PanelPlan  # the searched panel
    kind: str  # "oracle", "bound" or "closed_exact"
    eps_m: float  # model error that was claimed [reward]
    node_budget: int  # nodes each proof might spend
    evidence: Evidence  # scores, bounds and nodes that the claims follow from
    claims: Claims  # what is proved, by window
    route: Route | None  # only for a constrained beam
    released: NDArray[np.int64]  # (W,) first-action index, -1 when there is none
    paths: NDArray[np.int32]  # (W, m, d) the retained path of each first action, -1 where none
    upper_paths: NDArray[np.int32]  # (W, m, d) the path whose score is the exact value, -1 where there is only a bound
    oracle_nodes: NDArray[np.int64]  # (W,) nodes spent on oracle, bound and reward-only searches
    activity_nodes: NDArray[np.int64]  # (W,) those of them that only show whether risk changed the action

    def __len__(self) -> int:
        return len(self.plan)

    def __repr__(self) -> str:
        count = int(self.claims.passed.sum())
        return f"CertifiedPanel({self.plan.task.name}: {len(self)} windows, {count} passed, {self.kind})"

    def __getitem__(self, w: int) -> Certificate:
        return certificate_of(self, range(len(self))[w])

    def row(self, w: int) -> Row:
        """Window w in plain numbers. They are made for a few windows together: asking arrays for their elements one by
        one takes longer than everything else that a certificate needs, and all windows at once would be too much."""
        lo = w - w % _TOGETHER
        made: tuple[int, list[Row]] | None = self.__dict__.get("_rows")
        if made is None or made[0] != lo:
            some = slice(lo, lo + _TOGETHER)
            arrays = (self.plan.outputs.table, self.paths, self.upper_paths, self.released, self.oracle_nodes)
            plain = zip(*[x[some].tolist() for x in (*self.evidence, *self.claims, *arrays)], strict=True)
            at, to = len(self.evidence), len(self.evidence) + len(self.claims)
            rows = [Row(Evidence(*x[:at]), Claims(*x[at:to]), *x[to:]) for x in plain]
            made = self.__dict__["_rows"] = (lo, rows)
        return made[1][w - lo]

    @cached_property
    def member_feasible(self) -> Floats:
        """(W,) weight of members for which the path put forward keeps every rule; NaN without a path or members."""
        if self.plan.policy.mode in ("members", "closed"):
            return np.where(self.released >= 0, 1.0, np.nan)
        if self.kept is not None:
            return self.kept
        return np.array([self[w].member_feasible for w in range(len(self))])

    @cached_property
    def kept(self) -> Floats | None:
        """`member_feasible` of all windows at once, where a kernel for it was prepared; None: asked one by one."""
        plan = self.plan
        if plan.policy.mode in ("members", "closed"):
            return None
        rows, at = np.arange(len(self)), np.maximum(self.released, 0)
        lower = self.evidence.lower[rows, at]
        found = (self.released >= 0) & self.evidence.actions[rows, at] & (lower == lower)
        return kept_weights(plan.task, plan.layout, plan.inputs, np.where(found[:, None], self.paths[rows, at], -1))

    def rates(self) -> dict[str, float]:
        """Shares of windows, the figures a table of results shows."""
        c = self.claims
        names = ("passed", "search_pass", "paper_pass", "optimal", "unique", "robust", "oracle_retained")
        out = {name: float(getattr(c, name).mean()) for name in names}
        for name in ("risk_active", "search_active", "uncertainty_active"):
            out[name] = float(getattr(c, name).mean())
        return out
