"""What a suite file declares, read without the runner: which rows there must be, with which candidates and policies.

Written a second time on purpose. A kind's own settings model says what is run; this says what its evidence has to hold:
families, series, windows, decisions, candidates, comparators and their budgets, and how many decisions are drawn.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from ucsearch.lab.suites.differences import Problem, differences
from ucsearch.lab.suites.rows import EvidenceError, Row

__all__ = ["FORMS", "Plan", "is_sampler", "plan_of", "row_problems"]

Table = Mapping[str, Any]
Series = int | tuple[str, ...] | None
"""How many series, or which; None where only the data can say."""

SAMPLERS = ("cem", "mppi", "risk-random")
FORMS = {"lead_time_inventory": "cost", "capacity_plan": "cost", "delayed_exposure": "reward", "storage": "reward",
         "intervention": "cost"}  # fmt: skip
"""How results of a task are compared."""


@dataclass(frozen=True)
class Plan:
    """What a suite's rows must be."""

    series: Mapping[str, Mapping[str, Series]]  # by split and family
    windows: Mapping[str, int]  # of each series, by split
    decisions: Mapping[str, int | None]  # of each window, by split
    candidates: Mapping[str, Table] | None = None  # members by id; None: nothing is declared to choose from
    policies: Mapping[str, frozenset[str]] = field(default_factory=dict)  # by split; a candidate's under "candidate"
    exactly: bool = True  # no other policies than these
    sampled: int = 0  # decisions drawn for the verifier where windows are certified
    same_series: bool = False  # validation and test are cut from the same series
    truncated: bool = False  # periods are counted from the latest values, not from the first
    few: int | None = None  # series of each family on which samplers run; None: all


def plan_of(suite: Table) -> Plan:
    """The plan of a suite file."""
    kind = suite.get("kind")
    if kind not in _PLANS:
        raise EvidenceError(f"suite.toml: kind: saw {kind!r}, expected one of {', '.join(_PLANS)}")
    table = suite.get(kind, {})
    if not isinstance(table, Mapping):
        raise EvidenceError(f"suite.toml: {kind}: expected a table")
    try:
        return _PLANS[kind](table)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise EvidenceError(f"suite.toml: {kind}: {type(error).__name__}: {error}") from error


# -------------------------------------------------------------------- kinds


def _walkforward(s: Table) -> Plan:
    cut = s.get("splits", {})
    each: Series = cut.get("per_family")
    families: dict[str, Series] = {name: cut.get("counts", {}).get(name, each) for name in s["families"]}
    tuned = [f"{name}-tuned" for name in s.get("practitioners", {})]
    timed = [f"{name}-time" for name in SAMPLERS]
    compared = s.get("comparators", {})
    against = frozenset((*tuned, *timed, "fallback")) if tuned else frozenset()
    return Plan(
        series={"validation": families, "test": families},
        windows={"validation": cut.get("validation", 1), "test": cut.get("test", 2)},
        decisions=dict.fromkeys(("validation", "test"), cut.get("decisions", 36)),
        candidates={c["id"]: c for c in _candidates(s.get("candidates", {}))},
        policies={
            "test": _compared(compared) | against | (frozenset(("value",)) if against else frozenset()),
            "candidate": frozenset(("uc", *SAMPLERS)) if compared.get("validation", True) else frozenset(("uc",)),
            **({"validation": against | frozenset(("hindsight",))} if against else {}),
        },
        sampled=s.get("sampled", 6),
        same_series=True,
        truncated=cut.get("latest") is not None,
        few=compared.get("series"),
    )


def _candidates(c: Table) -> Iterator[dict[str, Any]]:
    only = c.get("only", [])
    return (one for one in _all_candidates(c) if not only or one["id"] in only)


def _all_candidates(c: Table) -> Iterator[dict[str, Any]]:
    risks = c.get("risks", [0.0, 0.25, 0.5, 0.75, 1.0, 1.5])
    depths, modes = c.get("depths", [3]), c.get("modes", ["mean"])
    for policy, mode, risk, depth in product(c.get("policies", ["exact"]), modes, risks, depths):
        head = {"policy": policy, "risk": risk, "depth": depth} | ({} if mode == "mean" else {"mode": mode})
        name = policy if mode == "mean" else f"{policy}-{mode}"
        if policy == "exact":
            yield {"id": f"{name}-r{risk:g}-d{depth}", **head}
            continue
        for width, cap in product(c.get("widths", [4]), c.get("top_k", [2])):
            yield {"id": f"{name}-r{risk:g}-d{depth}-b{width}-k{cap}", **head, "width": width, "top_k": cap}


def _compared(c: Table) -> frozenset[str]:
    others = c.get("others", ["greedy", "risk-greedy", "delay-greedy", "beam", "rand-shoot", "exact-dp"])
    names = {"uc", "hindsight", *SAMPLERS, *others, *c.get("learned", [])}
    if c.get("wide", True):
        names |= {f"{name}-wide" for name in SAMPLERS}
    if c.get("exposure_matched", False):
        names.add("risk-greedy-matched")
    return frozenset(names)


def _direction(s: Table) -> Plan:
    names = tuple(s.get("files", ())) or tuple(f"made-{n}" for n in range(s.get("generated", 0)))
    models = product(s.get("ridge", [1.0, 10.0, 100.0]), s.get("pull", [1.0, 5.0]),
                     s.get("discount", [0.998, 0.9995, 1.0]), s.get("vary", [True, False]))  # fmt: skip
    ids = [f"ridge-{r:g}_pull-{p:g}_discount-{d:g}_{'drawn' if v else 'fixed'}" for r, p, d, v in models]
    families: dict[str, Series] = {name: (f"{name}/OT",) for name in names}
    return Plan(
        series={"validation": families, "test": families},
        windows={"validation": 1, "test": 1},
        decisions={"validation": s.get("validation", 2044), "test": s.get("decisions", 511)},
        candidates={name: {"id": name} for name in ids},
        policies={
            "test": frozenset(("greedy", "risk-greedy", "beam", "rand-shoot", "cem", "uc", "uc-mcts", "random",
                               "risk-greedy-matched", "oracle", "forecast"))
        },
        exactly=False,
        sampled=s.get("sampled", 2) * len(names),
        same_series=True,
    )  # fmt: skip


def _synthetic(s: Table) -> Plan:
    counts = {"validation": s.get("validation_seeds", 5), "test": s.get("seeds", 5)}
    risks = s.get("risks", [0.25, 0.5, 1.0, 2.0])
    return Plan(
        series={split: {"sign-flip": tuple(f"{split}-{n}" for n in range(k))} for split, k in counts.items()},
        windows={"validation": 1, "test": 1},
        decisions=dict.fromkeys(("validation", "test"), s.get("decisions", 128)),
        candidates={f"risk-{risk:g}": {"id": f"risk-{risk:g}"} for risk in risks},
        policies={
            "test": frozenset(("greedy", "risk-greedy", "beam", "rand-shoot", "cem", "uc", "uc-mcts", "random",
                               "oracle"))
        },
        exactly=False,
    )  # fmt: skip


def _mechanism(s: Table) -> Plan:
    families: dict[str, Series] = {}
    for source in s["sources"].values():
        families |= dict.fromkeys(source["families"], source["per_family"])
    compared = frozenset((*s["beams"], "exact"))
    return Plan(
        series={"validation": families, "test": families},
        windows={"validation": s.get("validation", 2), "test": s.get("test", 2)},
        decisions=dict.fromkeys(("validation", "test"), s.get("decisions", 6)),
        policies={"validation": compared, "test": compared},
        sampled=s.get("sampled", 4) * len(s["sources"]),
        same_series=True,
        truncated=any(source.get("latest") is not None for source in s["sources"].values()),
    )


def _lost_sales(s: Table) -> Plan:
    families: dict[str, tuple[str, ...]] = {}
    for name in s["instances"]:
        _, demand, penalty, lead = name.split("-")
        families[f"{demand}-{penalty}"] = (*families.get(f"{demand}-{penalty}", ()), lead)
    wanted = {"base-stock", "capped base-stock", "constant order", "myopic-1", "myopic-2", "optimum", "uc", "uc-exact",
              "uc-open-loop"}  # fmt: skip
    return Plan(
        series={"test": families}, windows={"test": 1}, decisions={"test": None},
        policies={"test": frozenset(wanted)}, exactly=False,
    )  # fmt: skip


def _scaling(s: Table) -> Plan:
    ids = tuple(f"instance-{n}" for n in range(s.get("instances", 5)))
    return Plan(
        series={"design": {f"c{c:02d}-m{m:02d}-d{d:02d}": ids for c, m, d in s["cells"]}},
        windows={"design": 1},
        decisions={"design": 1},
        policies={"design": frozenset(("beam", "bnb", "dp", "enumeration", "exact", "uc"))},
        exactly=False,
    )


def _known_optimum(s: Table) -> Plan:
    families: dict[str, Series] = {}
    for system in s["systems"]:
        unmet, demand = system.get("unmet", "lost"), system.get("demand", "poisson")
        name = f"{unmet}-{demand}-p{system['penalty']:g}-K{system.get('fixed', 0.0):g}"
        families[name] = tuple(f"L{lead}" for lead in system["leads"])
    wanted = ("optimum", "uc-closed", "uc-members", "uc-members, worst seed", "s-S", "base-stock", "myopic")
    return Plan(
        series={"design": families}, windows={"design": 1}, decisions={"design": 1},
        policies={"design": frozenset(wanted)}, exactly=False,
    )  # fmt: skip


def _truck(s: Table) -> Plan:
    trucks = {
        region: tuple(sorted(f"{store} truck {g}" for store in stores for g in range(s.get("trucks", 2))))
        for region, stores in s["families"].items()
    }
    rules = ("(s,S) by item, filled by loss", "(s,S), filled by loss", "newsvendor by the pack",
             "base-stock, fair share", "base-stock, in proportion")  # fmt: skip
    policies = frozenset(("uc", "nothing", *rules))
    splits = ("validation", "test")
    return Plan(
        series=dict.fromkeys(splits, trucks), windows=dict.fromkeys(splits, 1),
        decisions=dict.fromkeys(splits, s.get("days", 56)), policies=dict.fromkeys(splits, policies), same_series=True,
    )  # fmt: skip


def _staffing(s: Table) -> Plan:
    rules = ("planning on the mean", "planning on a quantile", "newsvendor staffing", "quantile staffing",
             "calendar staffing")  # fmt: skip
    policies = frozenset(("uc", "nothing", *rules))
    splits = ("validation", "test")
    return Plan(
        series={split: dict(s["families"]) for split in splits}, windows=dict.fromkeys(splits, 1),
        decisions=dict.fromkeys(splits, s.get("hours", 96)), policies=dict.fromkeys(splits, policies), same_series=True,
    )  # fmt: skip


def _lob(s: Table) -> Plan:
    named = ["majority", "last-move", "ridge"]
    named += [f"{kind}-{seed}" for kind in ("mlp", "cnn") for seed in range(s.get("seeds", 3))]
    policies = frozenset((*named, "greedy", "risk-greedy", "beam", "uc", "oracle"))
    return Plan(
        series={split: dict.fromkeys(s["books"], s.get(split, n)) for split, n in (("validation", 6), ("test", 8))},
        windows={"validation": 1, "test": 1},
        decisions=dict.fromkeys(("validation", "test"), s.get("block", 128)),
        policies={"validation": policies, "test": policies},
        sampled=s.get("sampled", 2) * len(s["books"]),
    )


def _stressors(s: Table) -> Plan:
    families = {f: one.get("per_family", 8) for one in s["sources"].values() for f in one["families"]}
    names = {"uc"}
    for kind, sizes in s["stresses"].items():
        names |= {f"{kind} {x:+g}" if kind in ("bias", "shift") else f"{kind} {x:g}" for x in sizes}
    return Plan(
        series={"test": families}, windows={"test": 1}, decisions={"test": s.get("decisions", 120)},
        policies={"test": frozenset(names)}, sampled=s.get("sampled", 12),
    )  # fmt: skip


_PLANS: dict[str, Callable[[Table], Plan]] = {
    "walkforward": _walkforward,
    "direction": _direction,
    "synthetic": _synthetic,
    "mechanism": _mechanism,
    "lost_sales": _lost_sales,
    "scaling": _scaling,
    "known_optimum": _known_optimum,
    "truck": _truck,
    "staffing": _staffing,
    "stressors": _stressors,
    "lob": _lob,
}


# -------------------------------------------------------------------- rows


def row_problems(plan: Plan, rows: Sequence[Row], *, opened: bool) -> Iterator[Problem]:
    """What rows lack or have too much of. `opened`: whether there must be rows of the test split."""
    where = "rows.jsonl"
    held: dict[str, dict[str, dict[str, list[Row]]]] = {}
    for row in rows:
        held.setdefault(row["split"], {}).setdefault(row["family"], {}).setdefault(row["series"], []).append(row)
    wanted = [split for split in plan.series if split != "test" or opened]
    yield from differences(sorted(held), sorted(wanted), f"{where} splits")
    for split in wanted:
        families = held.get(split, {})
        yield from differences(sorted(families), sorted(plan.series[split]), f"{where} families of {split}")
        for family, series in sorted(families.items()):
            place = f"{where} {split} {family}"
            declared = plan.series[split].get(family)
            if isinstance(declared, int):
                yield from differences(len(series), declared, f"{place} series")
            elif declared is not None:
                yield from differences(sorted(series), sorted(declared), f"{place} series")
            sampled = set(_first(list(series), plan.few))
            for one, windows in sorted(series.items()):
                yield from _windows(plan, split, windows, f"{place} {one}", one in sampled)
    if plan.same_series and opened:
        for family in sorted({*held.get("validation", {}), *held.get("test", {})}):
            both = [sorted(held.get(split, {}).get(family, {})) for split in ("validation", "test")]
            if both[0] != both[1]:
                odd = sorted(set(both[0]) ^ set(both[1]))[0]
                yield Problem(f"{where} {family}", f"{odd} in one of validation and test", "the same series in both")


def _first(ids: Sequence[str], count: int | None) -> Sequence[str]:
    """The series that samplers run on: the first by a hash of their id."""
    ordered = sorted(ids, key=lambda one: hashlib.sha256(f"ucsearch/{one}".encode()).digest())
    return ordered if count is None else ordered[:count]


def is_sampler(policy: str) -> bool:
    return policy.removesuffix("-wide").removesuffix("-time") in (*SAMPLERS, "rand-shoot")


def _windows(plan: Plan, split: str, windows: Sequence[Row], where: str, sampled: bool = True) -> Iterator[Problem]:
    yield from differences(len(windows), plan.windows[split], f"{where} windows")
    ordered = sorted(windows, key=lambda row: int(row["window"]))
    decisions = plan.decisions[split]
    for i, row in enumerate(ordered):
        place = f"{where} window {row['window']}"
        yield from differences(row.get("decisions"), decisions, f"{place} decisions")
        if i and decisions is not None:
            # Windows follow each other, so that nobody skips a bad stretch between them.
            yield from differences(row.get("start"), (ordered[i - 1].get("start") or 0) + decisions, f"{place} start")
        if split in plan.policies:
            wanted = frozenset(name for name in plan.policies[split] if sampled or not is_sampler(name))
            yield from _names(row.get("policies"), wanted, plan.exactly, f"{place} policies")
        if split == "validation" and plan.candidates is not None:
            found = row.get("candidates") or {}
            yield from _names(found, frozenset(plan.candidates), True, f"{place} candidates")
            for name in sorted(found) if "candidate" in plan.policies else ():
                compared = (found[name] or {}).get("policies")
                yield from _names(compared, plan.policies["candidate"], True, f"{place} candidates.{name}")


def _names(found: Any, wanted: frozenset[str], exactly: bool, where: str) -> Iterator[Problem]:
    names = set(found or {})
    missing, strange = sorted(wanted - names), sorted(names - wanted)
    if missing:
        yield Problem(where, f"nothing of {', '.join(missing)}", "declared by suite.toml")
    if strange and exactly:
        yield Problem(where, ", ".join(strange), "nothing of it in suite.toml")
