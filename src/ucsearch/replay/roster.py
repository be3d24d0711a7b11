"""Who takes part in a comparison: one name, one definition, wherever it is used.

An `Entry` makes choosers. Its knobs are declared with the values that may be tried, the default first, so that
everybody can be tuned on validation with the same effort (`ucsearch.replay.tune`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from ucsearch.errors import InputError
from ucsearch.lab import comparators
from ucsearch.policies import MCTS, CertifiedBeam, ConstrainedBeam, Exact, ParetoBeam, Policy, Proof, Run, UCBeam
from ucsearch.replay import ordering
from ucsearch.replay.choosers import COMPILED, Certified, Deterministic, Searched
from ucsearch.replay.linear import LinearStorage, has_solver
from ucsearch.replay.ordering import Ordering
from ucsearch.replay.panel import Panel
from ucsearch.replay.practice import (
    CalendarStaffing,
    Nothing,
    PriceRule,
    QuantileStaffing,
    Threshold,
    critical_share,
)
from ucsearch.replay.walk import Chooser
from ucsearch.tasks import CapacityPlan, Intervention, LeadTimeInventory, Storage

__all__ = ["NODES", "Budget", "Entry", "opponents", "ordering_rules", "practitioners", "roster", "searches"]

NODES = 200_000  # of an exact search or proof, per decision
_SHARES = (0.8, 0.4, 0.6, 0.9, 1.0)  # of mean demand, ordered regularly
_RATIOS = (None, 0.5, 0.65, 0.8, 0.88, 0.94, 0.97, 0.985)  # None: the critical ratio of the costs
_EOQS = (1.0, 0.4, 0.65, 1.5, 2.2)  # economic order quantities
_PACKS = (1, 2, 3, 4, 6)
_FACTORS = (1.0, 0.4, 0.65, 1.5, 2.5)
_QUANTILES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)


@dataclass(frozen=True)
class Budget:
    """What every search gets."""

    depth: int = 6  # steps ahead
    width: int = 8  # of the beams: plans kept at each step
    top_k: int = 3  # actions tried from each
    risk: float = 0.25  # price of uncertainty in S = R - risk * U
    mode: Literal["mean", "members"] = "mean"  # what a plan is judged by

    @property
    def expansions(self) -> int:
        """What a beam may expand per decision; the samplers get plans for as many steps."""
        return self.top_k * (1 + self.width * (self.depth - 1))

    @property
    def samples(self) -> int:
        return comparators.matched_samples(self.expansions, self.depth)


@dataclass(frozen=True)
class Entry:
    """One policy: what it is called, how it is made, what of it may be tuned."""

    name: str  # as in tables
    family: str  # search, comparator, classic (practitioners' rules) or learned
    make: Callable[..., Chooser]  # called with knobs; a stochastic one also with `seed`
    note: str = ""  # settings in short, for a table's notes
    knobs: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # values to try, the default first
    seeds: tuple[int, ...] = ()  # keys of a stochastic one; its figures are averaged over them
    make_each: Callable[[Sequence[Mapping[str, Any]]], Chooser] | None = None  # with a setting for each episode
    relaxed: bool = False  # it knows no grid: it walks where the record of parameters is `relaxed`

    def choosers(self, **knobs: Any) -> list[Callable[[], Chooser]]:
        """One maker per seed, with these `knobs`; the others at their defaults."""
        if not self.seeds:
            return [partial(self.make, **knobs)]
        return [partial(self.make, seed=seed, **knobs) for seed in self.seeds]

    def chooser(self, settings: Sequence[Mapping[str, Any]]) -> Chooser:
        """A chooser with its own setting in each episode: `settings`, in order."""
        if all(setting == settings[0] for setting in settings):
            return self.make(**settings[0])
        if self.make_each is None:
            raise InputError("settings", f"several for {self.name}", "one: it cannot be set by episode")
        return self.make_each(settings)

    def settings(self) -> Iterator[dict[str, Any]]:
        """Every setting of the declared grid, defaults first."""
        for values in product(*self.knobs.values()):
            yield dict(zip(self.knobs, values, strict=True))


def roster(
    panel: Panel, budget: Budget, *, seeds: int = 10, rng: np.random.Generator | None = None, how: Run | None = None
) -> dict[str, Entry]:
    """All of them, in the order of a table: searches, comparators, and what practice would do on this task."""
    entries = [*searches(panel, budget, seeds=seeds, rng=rng, how=how), *practitioners(panel, budget, how=how)]
    return {entry.name: entry for entry in entries}


def searches(
    panel: Panel, budget: Budget, *, seeds: int = 10, rng: np.random.Generator | None = None, how: Run | None = None
) -> list[Entry]:
    """Search policies and comparators at one budget; stochastic ones under `seeds` keys drawn from `rng` (of seed 1
    when None)."""
    if seeds < 1:
        raise InputError("--seeds", seeds, "at least 1")
    task, delay, how = panel.task, panel.delay, how or COMPILED
    d, samples = budget.depth, budget.samples
    common: dict[str, Any] = dict(depth=d, risk=budget.risk, mode=budget.mode)
    wide: dict[str, Any] = dict(width=budget.width, top_k=budget.top_k)
    generator = np.random.default_rng(1) if rng is None else rng
    keys = tuple(comparators.key_from(generator) for _ in range(seeds))

    def one(name: str, policy: Policy, note: str, family: str = "search") -> Entry:
        return Entry(name, family, lambda: Searched(task, policy, how), note)

    def many(name: str, kind: Any, note: str, **more: Any) -> Entry:
        def make(seed: int) -> Chooser:
            return Searched(task, kind(**common, **more, seed=seed), how)

        return Entry(name, "comparator", make, f"{note}, {seeds} seeds", seeds=keys)

    shape = f"width {budget.width}, {budget.top_k} candidates"
    constrained = ConstrainedBeam(**common, **wide)
    iterations = min(5, samples)
    rounds = f"{samples} plans in {iterations} rounds"
    return [
        one("uc-beam", UCBeam(**common, **wide), shape),
        one("pareto-beam", ParetoBeam(**common, **wide), shape),
        one("certified-beam", CertifiedBeam(**common, **wide), shape),
        Entry(
            "constrained-beam", "search", lambda: Certified(task, constrained, how=how, proof=Proof(node_budget=NODES)),
            f"{shape}, with proof",
        ),
        one("mcts", MCTS(**common, simulations=samples, top_k=budget.top_k), f"{samples} simulations"),
        one("exact", Exact(**common, node_budget=NODES), f"at most {NODES:,} nodes"),
        one("beam, risk 0", comparators.beam(depth=d, mode=budget.mode, **wide), shape, "comparator"),
        one("greedy", comparators.Greedy(**common), "reward of the first step", "comparator"),
        one("risk-greedy", comparators.RiskGreedy(**common), "score of the first step", "comparator"),
        one(
            "delay-aware greedy", comparators.DelayAwareGreedy(**(common | {"depth": max(d, delay + 1)}), delay=delay),
            f"delay {delay}", "comparator",
        ),
        many("random", comparators.Random, "uniform"),
        many("random shooting", comparators.RandomShooting, f"{samples} plans", samples=samples),
        many("risk-random", comparators.RiskRandom, f"{samples} plans", samples=samples),
        many("cem", comparators.CEM, rounds, samples=samples, iterations=iterations),
        many("mppi", comparators.MPPI, rounds, samples=samples, iterations=iterations),
    ]  # fmt: skip


def practitioners(panel: Panel, budget: Budget, *, how: Run | None = None) -> list[Entry]:
    """What would really be used instead, each with its knobs."""
    how, task = how or COMPILED, panel.task

    def deterministic(quantile: float | Sequence[float] | None = None) -> Chooser:
        policy = Exact(depth=budget.depth, risk=0.0, node_budget=NODES)
        return Deterministic(task, policy, quantile=quantile, how=how)

    entries = [
        Entry("planning on the mean", "classic", deterministic, "exact search as if the mean were certain"),
        Entry(
            "planning on a quantile", "classic", lambda quantile=0.8: deterministic(quantile),
            "exact search as if the 0.8 fractile were certain",
            {"quantile": (0.8, *(q for q in _QUANTILES if q != 0.8))},
            make_each=lambda settings: deterministic([setting["quantile"] for setting in settings]),
        ),
    ]  # fmt: skip
    rules = _of_task(_RULES_OF_THUMB, panel)
    return entries if rules is None else [*entries, *rules(panel, how)]


def opponents(panel: Panel, depth: int, *, free: bool, round_to: float, how: Run) -> list[Entry]:
    """Whom a planner's policy is compared with, in the order of a table. `free`: orders may be any that the limits
    allow, in multiples of `round_to`; `depth` is how far plans on one forecast look."""
    plans = practitioners(panel, Budget(depth=depth, risk=0.0), how=how)
    rules = _of_task(_OPPONENTS, panel)
    if rules is not None:
        plans = rules(panel, plans, Latitude(free, round_to), how)
    nothing = Entry("nothing", "classic", Nothing, "the allowed action nearest to 0")
    return plans if panel.config.places_orders else [*plans, nothing]


class Latitude(NamedTuple):
    """What rules may order."""

    free: bool  # any that the limits allow
    round_to: float  # in multiples of so many units; 0: any


Made = TypeVar("Made")


def _of_task(known: Mapping[type[Any], Made], panel: Panel) -> Made | None:
    """What is known about the panel's kind of task."""
    return next((known[kind] for kind in type(panel.config).__mro__ if kind in known), None)


def _beside_orders(panel: Panel, plans: list[Entry], latitude: Latitude, how: Run) -> list[Entry]:
    if panel.config.is_general:
        rules = general_ordering_rules(panel, free=latitude.free, round_to=latitude.round_to)
        return rules if panel.config.drawn else [*rules, _greedy(panel, how)]  # it plans on one number a period
    rules = [*plans, *ordering_rules(panel, free=latitude.free, round_to=latitude.round_to, how=how)]
    rules.append(_greedy(panel, how))
    by_name = {entry.name: entry for entry in rules}
    return [by_name[name] for name in _ORDERING]


def _beside_stores(panel: Panel, plans: list[Entry], latitude: Latitude, how: Run) -> list[Entry]:
    if not has_solver():
        return plans
    store = panel.config.relaxed()
    return [*plans, Entry("linear programme on the mean", "classic", lambda: LinearStorage(store), relaxed=True)]


def _of_orders(panel: Panel, how: Run) -> list[Entry]:
    return ordering_rules(panel, how=how)


def _of_stores(panel: Panel, how: Run) -> list[Entry]:
    pairs = {"low": (0.25, 0.1, 0.2, 0.3, 0.4), "high": (0.75, 0.6, 0.7, 0.8, 0.9)}
    note = "charge in the cheapest, sell in the dearest part of the forecast"
    return [Entry("price rule", "classic", PriceRule, note, pairs)]


def _of_units(panel: Panel, how: Run) -> list[Entry]:
    config, season = panel.config, max(1, panel.stretches[0].season)
    shares = {"share": (0.9, *(q for q in _QUANTILES if q != 0.9))}
    critical = critical_share(config)
    return [
        Entry(
            "newsvendor staffing", "classic", lambda: QuantileStaffing(config, critical),
            f"units for the critical fractile {critical:.3g} of the forecast",
        ),
        Entry(
            "quantile staffing", "classic", lambda share=0.9: QuantileStaffing(config, share),
            "units for a fractile of the forecast", shares,
        ),
        Entry(
            "calendar staffing", "classic", lambda share=0.9: CalendarStaffing(config, season, share),
            f"units for a fractile of the same phase, season {season}", shares,
        ),
    ]  # fmt: skip


def _of_doses(panel: Panel, how: Run) -> list[Entry]:
    harm = panel.config
    return [
        Entry(
            "threshold", "classic", lambda factor=1.0: Threshold(harm, factor),
            "a dose when it is expected to avert what it costs", {"factor": (1.0, 0.7, 0.85, 1.2, 1.5, 2.0, 3.0)},
        )
    ]  # fmt: skip


_RULES_OF_THUMB: dict[type[Any], Callable[[Panel, Run], list[Entry]]] = {
    LeadTimeInventory: _of_orders,
    Storage: _of_stores,
    CapacityPlan: _of_units,
    Intervention: _of_doses,
}
_OPPONENTS: dict[type[Any], Callable[[Panel, list[Entry], Latitude, Run], list[Entry]]] = {
    LeadTimeInventory: _beside_orders,
    Storage: _beside_stores,
}
_ORDERING = (
    "base-stock", "(s,S)", "(s,S) by formula", "(s,nQ)", "newsvendor", "rolling quantile", "planning on the mean",
    "planning on a quantile", "greedy",
)  # fmt: skip


def ordering_rules(panel: Panel, *, free: bool = False, round_to: float = 0.0, how: Run | None = None) -> list[Entry]:
    """The ordering rules on the table of orders; `free`: any order that the limits allow."""
    task = panel.task
    lead = int(panel.config.lead_time)

    demand: dict[tuple[int, int], ordering.SpanDemand] = {}  # demand of items by decision, the same for all rules

    def rule(name: str, wish: Callable[..., float], note: str, *, unbound: bool = free, **knobs: Any) -> Entry:
        def make_each(settings: Sequence[Mapping[str, Any]]) -> Chooser:
            wishes = [partial(wish, **setting) for setting in settings]
            return Ordering(task, wishes, free=unbound, round_to=round_to, known=demand)

        def make(**chosen: Any) -> Chooser:
            return Ordering(task, partial(wish, **chosen), free=unbound, round_to=round_to, known=demand)

        return Entry(name, "classic", make, note, knobs, make_each=make_each)

    myopic = Entry(
        "myopic", "classic",
        lambda: Searched(task, comparators.DelayAwareGreedy(depth=lead + 1, delay=lead, risk=0.0, mode="members"), how),
        "best mean over members when the order arrives",
    )  # fmt: skip
    span = f"fractile of the forecast of {lead + 1} periods"
    return [
        rule("newsvendor", ordering.newsvendor, "fractile of the shortfall at arrival, on the grid", ratio=_RATIOS),
        rule(
            "newsvendor, free", ordering.newsvendor, "fractile of the shortfall at arrival, any order", unbound=True,
            ratio=_RATIOS,
        ),
        rule("base-stock", ordering.base_stock, f"critical {span}", ratio=_RATIOS),
        rule("capped base-stock", ordering.capped_base_stock, f"critical {span}, capped by that of the arrival period",
             ratio=_RATIOS),
        rule("(s,S)", ordering.reorder_point, "economic order quantities above a fractile", ratio=_RATIOS, eoq=_EOQS),
        rule("(s,S) by formula", ordering.power_approximation, "power approximation", shortage=_FACTORS,
             batch=_FACTORS),
        rule("(s,nQ)", ordering.batches, "whole batches of packs, or of economic order quantities", ratio=_RATIOS,
             **({"packs": _PACKS} if _has_packs(panel) else {"eoq": _EOQS})),
        rule("rolling quantile", ordering.rolling_quantile, f"critical fractile of the last {8 * (lead + 1)} periods",
             ratio=_RATIOS, periods=(None, 14, 28, 56)),
        rule("constant order", ordering.constant_order, "mean of the history"),
        myopic,
    ]  # fmt: skip


def general_ordering_rules(panel: Panel, *, free: bool, round_to: float) -> list[Entry]:
    """Rules for order days, shelf life, uncertain lead times and two suppliers. Without fixed costs (R, s, S) is
    (R, S)."""
    config, task = panel.config, panel.task
    demand: dict[tuple[int, int], ordering.SpanDemand] = {}

    def rule(kind: type[Ordering], name: str, wish: Callable[..., Any], note: str, **knobs: Any) -> Entry:
        def make(**chosen: Any) -> Chooser:
            return kind(task, partial(wish, **chosen), free=free, round_to=round_to, known=demand)

        def make_each(settings: Sequence[Mapping[str, Any]]) -> Chooser:
            return kind(task, [partial(wish, **each) for each in settings], free=free, round_to=round_to, known=demand)

        return Entry(name, "classic", make, note, knobs, make_each=make_each)

    if config.has_two_suppliers:
        return [
            rule(ordering.PairOrdering, "dual-index", ordering.dual_index, "two order-up-to levels", ratio=_RATIOS,
                 fast=_RATIOS),
            rule(ordering.PairOrdering, "tailored base-surge", ordering.base_surge, "constant regular orders",
                 share=_SHARES, ratio=_RATIOS),
        ]  # fmt: skip
    entries = [
        rule(Ordering, "(R,S)", ordering.base_stock, "fractile until the order after this one arrives", ratio=_RATIOS),
        rule(Ordering, "(R,s,S)", ordering.reorder_point, "economic order quantities above it", ratio=_RATIOS,
             eoq=_EOQS),
    ]  # fmt: skip
    lead = ordering.lead_time_of(config.lead_shares)
    if lead is not None:
        entries.append(rule(Ordering, "safety stock", partial(ordering.safety_stock, lead=lead), "mean demand and a "
                          "normal quantile, with the variance of the lead time", ratio=_RATIOS))  # fmt: skip
    if config.shelf_life is not None:
        waste = partial(ordering.expected_waste, lead=lead)
        entries.append(
            rule(Ordering, "EWA base-stock", waste, "(R,S) and what is expected to be discarded", ratio=_RATIOS)
        )
    return entries


def _greedy(panel: Panel, how: Run) -> Entry:
    greedy = comparators.DelayAwareGreedy(delay=panel.delay, risk=0.0)  # at risk 0 only the mean counts
    return Entry("greedy", "classic", lambda: Deterministic(panel.task, greedy, how=how))


def _has_packs(panel: Panel) -> bool:
    """Whether orders come in packs, of all items or of some."""
    layout = panel.task.params_layout
    if panel.config.case_pack > 0.0 or layout is None or panel.params is None:
        return bool(panel.config.case_pack > 0.0)
    return bool((np.asarray(layout.columns(panel.params).case_pack) > 0.0).any())
