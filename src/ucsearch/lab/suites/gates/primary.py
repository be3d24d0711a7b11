"""Value gate 2: one primary question a suite, its interval by clusters, its power before the look, a verdict in a word.

The unit is the cluster, the largest group that shares demand or limits, with its deltas averaged; families are fixed
strata of equal weight. A delta is scale-free and above 0 where the judged policy is better. Everything fails closed:
too few clusters, or a figure that is not finite, gives a bound of minus infinity and a power of 0.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from ucsearch.errors import InputError
from ucsearch.lab.suites.evidence.rows import Row, windows_of
from ucsearch.lab.suites.protocol.comparison import Protocol, finite
from ucsearch.replay.statistics import LEVEL, RESAMPLES, bootstrap_key, draws, mean, scale_free_delta
from ucsearch.student import chi_square_quantile, noncentral_t_above, student_cdf, student_quantile

__all__ = [
    "GATE",
    "LEAST_POWER",
    "MARGIN",
    "Endpoint",
    "Estimate",
    "GateAnswer",
    "PrimaryQuestion",
    "Stratum",
    "answer",
    "estimate",
    "families_of",
    "holm",
    "power",
    "rivals",
    "sign_flip",
    "value_conclusion",
    "value_record",
]

Endpoint = Literal["superior", "as good"]
Verdict = Literal["shown", "not shown", "behind", "not sized"]
Deltas = Mapping[str, Sequence[float]]  # by family one value a cluster

GATE = 2
"""The number by which a selection record says which value gate it was made for."""
MARGIN = 0.01  # of a scale-free delta, a cost ratio of 1.02: what "as good" tolerates, and a family that is named
LEAST_POWER = 0.8
LEAST_FREEDOM = 6  # degrees of freedom of a bound
_UNEQUAL = 4.0  # times that the largest family variance may be the smallest
_LEAST_UNEQUAL = 4  # clusters a family for variances of its own
_LEAST_BOOTSTRAP = 8  # clusters a family for a bootstrap-t beside Student's
_CLOSE = 0.2  # one-sided p above which validation cannot tell two rules apart
_MOST_RIVALS = 3
_PESSIMISM = 0.2  # of the chi-square distribution: validation's spread may have come out small
_ENUMERATED = 14  # clusters up to which all signs are tried
_FLIPS = 9999


@dataclass(frozen=True)
class PrimaryQuestion:
    """One question a suite: is the judged policy cheaper than the strongest of these rules?"""

    rules: Mapping[str, Mapping[str, Any]]  # by name, as they were tuned
    endpoint: Endpoint
    delta: float  # that the suite is sized for

    def record(
        self, rows: Sequence[Row], protocol: Protocol, candidates: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """What is written down before the test is opened."""
        return value_record(rows, protocol, self.rules, self.endpoint, self.delta)


class Estimate(NamedTuple):
    """Of the mean delta over families."""

    mean: float
    error: float  # its standard error
    freedom: float  # degrees of freedom; a fraction where variances differ
    lower: float  # one-sided 97.5 % bounds
    upper: float
    spread: float  # pooled standard deviation of a cluster within its family
    method: str  # pooled, by family, or with bootstrap-t


class Stratum(NamedTuple):
    """One stratum beside the primary question."""

    name: str
    clusters: int
    mean: float
    behind: bool  # its mean is below minus the margin
    shown_worse: bool  # and the interval does not reach 0


class GateAnswer(NamedTuple):
    """What the gate says of the primary question."""

    verdict: Verdict
    endpoint: Endpoint
    estimate: Estimate
    power: float
    families: tuple[Stratum, ...]
    why: tuple[str, ...]  # conditions that do not hold, in words
    sign_flip: float  # p-value over clusters; beside, not deciding


def estimate(deltas: Deltas, key: int = 0) -> Estimate:
    """Mean over families of the cluster deltas, with its bound: Student's with the pooled variance within families;
    with each family's own variance (Welch, Satterthwaite) where they differ by a factor of more than 4 and every family
    has 4 clusters; the smaller of it and bootstrap-t within families where every family has 8. `key` is for the
    bootstrap's draws."""
    groups = [[float(x) for x in deltas[name]] for name in sorted(deltas)]
    sizes = [len(group) for group in groups]
    centre = mean([mean(group) for group in groups]) if groups and all(sizes) else math.nan
    nothing = Estimate(centre, math.inf, 0.0, -math.inf, math.inf, math.inf, "none")
    if not groups or not all(sizes) or not all(math.isfinite(x) for group in groups for x in group):
        return nothing
    squares = [math.fsum((x - mean(group)) ** 2 for x in group) for group in groups]
    freedom = float(sum(sizes) - len(sizes))
    if freedom < 1.0:
        return nothing
    pooled = math.sqrt(math.fsum(squares) / freedom)
    count = len(groups)
    error, method = pooled / count * math.sqrt(math.fsum(1.0 / g for g in sizes)), "pooled"
    if min(sizes) >= _LEAST_UNEQUAL:
        variances = [total / (size - 1) for total, size in zip(squares, sizes, strict=True)]
        if max(variances) > _UNEQUAL * min(variances):
            squared_errors = [v / g for v, g in zip(variances, sizes, strict=True)]
            error, method = math.sqrt(math.fsum(squared_errors)) / count, "by family"
            below = math.fsum(v * v / (g - 1) for v, g in zip(squared_errors, sizes, strict=True))
            freedom = math.fsum(squared_errors) ** 2 / below
    if freedom < LEAST_FREEDOM:
        return nothing._replace(error=error, freedom=freedom, spread=pooled)
    reach = student_quantile(LEVEL, freedom) * error
    lower, upper = centre - reach, centre + reach
    if min(sizes) >= _LEAST_BOOTSTRAP:
        low, high = _bootstrap(groups, centre, error, key)
        if low < lower or high > upper:
            method = f"{method}, with bootstrap-t"
        lower, upper = min(lower, low), max(upper, high)
    return Estimate(centre, error, freedom, lower, upper, pooled, method)


def _bootstrap(groups: Sequence[Sequence[float]], centre: float, error: float, key: int) -> tuple[float, float]:
    """Bootstrap-t bounds: every family's clusters drawn again, the pooled error of each resample."""
    sums = np.zeros(RESAMPLES)
    squares = np.zeros(RESAMPLES)
    for number, group in enumerate(groups):
        drawn = np.asarray(group)[draws(key + number, len(group), RESAMPLES)]
        middle = drawn.mean(axis=0)
        sums += middle
        squares += ((drawn - middle) ** 2).sum(axis=0)
    sizes = [len(group) for group in groups]
    freedom = sum(sizes) - len(sizes)
    errors = np.sqrt(squares / freedom) / len(groups) * math.sqrt(math.fsum(1.0 / g for g in sizes))
    gap = sums / len(groups) - centre
    ratios = np.full(RESAMPLES, math.inf)
    np.divide(gap, errors, out=ratios, where=errors > 0.0)
    ratios[(errors == 0.0) & (gap < 0.0)] = -math.inf
    ordered = np.sort(ratios)
    top = min(math.ceil(LEVEL * (RESAMPLES + 1) - 1e-9), RESAMPLES) - 1
    return centre - float(ordered[top]) * error, centre - float(ordered[RESAMPLES - 1 - top]) * error


def families_of(deltas: Deltas, overall: Estimate, margin: float = MARGIN) -> tuple[Stratum, ...]:
    """Every family with its mean, and whether it is shown to be worse by more than the margin."""
    rows = []
    for name in sorted(deltas):
        values = [float(x) for x in deltas[name]]
        middle = mean(values)
        level = 1.0 - 0.05 / len(deltas)
        behind = not middle >= -margin
        shown = False
        if behind and math.isfinite(middle) and overall.freedom >= 1.0 and math.isfinite(overall.spread):
            shown = middle + student_quantile(level, overall.freedom) * overall.spread / math.sqrt(len(values)) < 0.0
        rows.append(Stratum(name, len(values), middle, behind, shown))
    return tuple(rows)


def power(
    validation: Deltas, clusters: Mapping[str, int], endpoint: Endpoint, delta: float, margin: float = MARGIN
) -> float:
    """Probability that the bound passes on a test with so many `clusters` a family if the true delta is `delta` (for
    "as good" it is 0, `margin` above the limit). The spread is validation's, enlarged for having been estimated."""
    if not delta > 0.0:
        raise InputError("delta", delta, "above 0: what the card expects")
    groups = [[float(x) for x in validation[name]] for name in sorted(validation)]
    sizes = [int(clusters[name]) for name in sorted(validation)]
    known_freedom = sum(len(group) for group in groups) - len(groups)
    finite = all(math.isfinite(x) for group in groups for x in group)
    freedom = sum(sizes) - len(sizes)
    if not groups or known_freedom < 1 or not finite or min(sizes, default=0) < 1 or freedom < LEAST_FREEDOM:
        return 0.0
    spread = math.sqrt(math.fsum((x - mean(g)) ** 2 for g in groups for x in g) / known_freedom)
    spread *= math.sqrt(known_freedom / chi_square_quantile(_PESSIMISM, known_freedom))
    error = spread / len(sizes) * math.sqrt(math.fsum(1.0 / g for g in sizes))
    above = margin if endpoint == "as good" else delta
    if error == 0.0:
        return 1.0
    return noncentral_t_above(student_quantile(LEVEL, freedom), freedom, above / error)


def rivals(costs: Mapping[str, Sequence[float]]) -> list[str]:
    """The rules that the judged policy is held against, from validation: the cheapest by total cost over the same
    clusters, and at most two more that a paired t-test cannot tell from it (one-sided p above 0.2)."""
    by_rule = {name: list(map(float, values)) for name, values in costs.items()}
    if not by_rule or len({len(values) for values in by_rule.values()}) != 1:
        raise InputError("costs", sorted(by_rule), "at least one rule, all over the same clusters")
    whole = [name for name, values in by_rule.items() if all(map(math.isfinite, values))]
    if not whole:
        raise InputError("costs", sorted(by_rule), "finite costs of at least one rule")
    ranked = sorted(whole, key=lambda name: (math.fsum(by_rule[name]), name))
    first = ranked[0]
    close = [name for name in ranked[1:] if _dearer(by_rule[name], by_rule[first]) > _CLOSE]
    return [first, *close[: _MOST_RIVALS - 1]]


def _dearer(costs: Sequence[float], least: Sequence[float]) -> float:
    """One-sided p-value that `costs` are not above `least`; 1 where it cannot be told."""
    gaps = [a - b for a, b in zip(costs, least, strict=True)]
    count = len(gaps)
    if count < 3:
        return 1.0
    middle = mean(gaps)
    error = math.sqrt(math.fsum((x - middle) ** 2 for x in gaps) / (count - 1) / count)
    if error == 0.0:
        return 0.0 if middle > 0.0 else 1.0
    return 1.0 - student_cdf(middle / error, count - 1)


def holm(p_values: Mapping[str, float], level: float = 0.05) -> dict[str, bool]:
    """Which of several hypotheses are rejected, by Holm's step-down correction."""
    rejected: dict[str, bool] = {}
    going = True
    for rank, name in enumerate(sorted(p_values, key=lambda n: (p_values[n], n))):
        going = going and p_values[name] <= level / (len(p_values) - rank)
        rejected[name] = going
    return rejected


def sign_flip(deltas: Deltas, key: int = 0) -> float:
    """One-sided p-value that the mean over families is not above 0, by flipping the signs of clusters: all of them up
    to 14 clusters, else 9,999 draws under `key`."""
    names = sorted(deltas)
    values = np.array([x / len(deltas[name]) / len(names) for name in names for x in deltas[name]], np.float64)
    if not values.size or not np.isfinite(values).all():
        return 1.0
    observed = math.fsum(values.tolist())
    slack = 1e-12 * math.fsum(np.abs(values).tolist())
    if len(values) <= _ENUMERATED:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=len(values))))
        return float((signs @ values >= observed - slack).mean())
    raw = np.random.Philox(key=key).random_raw(_FLIPS * len(values))
    signs = np.where(raw >> np.uint64(63), -1.0, 1.0).reshape(_FLIPS, len(values))
    return float((1 + int((signs @ values >= observed - slack).sum())) / (_FLIPS + 1))


def answer(
    deltas: Mapping[str, Deltas], endpoint: Endpoint, sized: float, *, certified: float, violations: float,
    first_look: bool, margin: float = MARGIN, key: int = 0,
) -> GateAnswer:  # fmt: skip
    """The verdict on the primary question: `deltas` by rival, all of which must pass. `sized` is the power before the
    look, `certified` the share of proved decisions, `violations` of the rules."""
    if not deltas:
        raise InputError("deltas", "none", "at least one rival")
    floor = -margin if endpoint == "as good" else 0.0
    estimates = {name: estimate(one, key + i) for i, (name, one) in enumerate(deltas.items())}
    # The rival with the least bound speaks for all.
    hardest = min(estimates, key=lambda name: (estimates[name].lower, name))
    worst, strata = estimates[hardest], families_of(deltas[hardest], estimates[hardest], margin)
    beside = sign_flip(deltas[hardest], key)
    unsized = GateAnswer("not sized", endpoint, worst, sized, strata, (), beside)
    if not sized >= LEAST_POWER:
        return unsized._replace(why=(f"power {sized:.2f}, at least {LEAST_POWER:g} is asked for",))
    if not worst.freedom >= LEAST_FREEDOM:
        return unsized._replace(why=(f"{worst.freedom:.1f} degrees of freedom, {LEAST_FREEDOM} are asked for",))
    why = []
    if not worst.lower > floor:
        why.append(f"against {hardest} the lower bound {worst.lower:+.4f} is not above {floor:+.2f}")
    worse = {
        f"{family.name} (against {name})"
        for name, one in deltas.items()
        for family in families_of(one, estimates[name], margin)
        if family.shown_worse
    }
    why += [f"{name} is shown to be worse" for name in sorted(worse)]
    if not certified >= 0.95:
        why.append(f"{100.0 * certified:.1f} % of decisions are proved, 95 % are asked for")
    if violations != 0.0:
        why.append(f"{violations:g} violations of the rules")
    if not first_look:
        why.append("a second look: these windows were opened before")
    verdict: Verdict = "not shown" if why else "shown"
    if worst.upper < 0.0:
        verdict = "behind"
    return unsized._replace(verdict=verdict, why=tuple(why))


# -------------------------------------------------------------------- from rows


def _costs(rows: Sequence[Row], split: str, protocol: Protocol) -> dict[str, dict[str, dict[str, list[float]]]]:
    """By policy, family and cluster the figure of every series."""
    clusters = {(row["family"], row["series"]): row.get("cluster") for row in rows if row["split"] == split}
    costs: dict[str, dict[str, dict[str, list[float]]]] = {}
    for w in windows_of(rows, split):
        cluster = str(clusters.get((w.family, w.series)) or w.series)
        for name, figures in w.policies.items():
            value = figures.get(protocol.metric)
            place = costs.setdefault(name, {}).setdefault(w.family, {}).setdefault(cluster, [])
            place.append(math.nan if value is None else float(value))
    return costs


def _deltas(costs: Mapping[str, Any], judged: str, rival: str, form: str) -> dict[str, list[float]]:
    """By family one delta a cluster: those of its series averaged."""
    return {
        family: [
            mean([scale_free_delta(a, b, form) for a, b in zip(own_costs, costs[rival][family][cluster], strict=True)])
            for cluster, own_costs in sorted(clusters.items())
        ]
        for family, clusters in costs[judged].items()
    }


def _saved(costs: Mapping[str, Any], judged: str, rival: str) -> dict[str, list[float]]:
    """By family and cluster the share of the rival's cost that is saved, in per cent."""
    return {
        family: [
            100.0 * (1.0 - math.fsum(own_costs) / math.fsum(costs[rival][family][cluster]))
            for cluster, own_costs in sorted(clusters.items())
        ]
        for family, clusters in costs[judged].items()
    }


def value_record(
    rows: Sequence[Row], protocol: Protocol, rules: Mapping[str, Mapping[str, Any]], endpoint: Endpoint, delta: float,
) -> dict[str, Any]:  # fmt: skip
    """What is written down before the test is opened: the rules as they were tuned, those that the judged policy is
    held against, and the power of the primary question. The test has the clusters of validation."""
    costs = _costs(rows, "validation", protocol)
    total = {
        name: [math.fsum(values) for family in sorted(costs[name]) for _, values in sorted(costs[name][family].items())]
        for name in rules
    }
    chosen = rivals(total)
    validation = {name: _deltas(costs, protocol.policy, name, protocol.form) for name in chosen}
    clusters = {family: len(values) for family, values in validation[chosen[0]].items()}
    sized = min(power(one, clusters, endpoint, delta) for one in validation.values())
    return {
        "gate": GATE, "endpoint": endpoint, "delta": delta, "rules": {name: dict(one) for name, one in rules.items()},
        "rivals": chosen, "clusters": clusters, "power": sized,
    }  # fmt: skip


def value_conclusion(rows: Sequence[Row], protocol: Protocol, value: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to the primary question from the rows of the test, with money beside it; everybody else as a sentence
    with Holm's correction. How often the test was opened is not asked here."""
    judged, endpoint = protocol.policy, value["endpoint"]
    base = {name: value[name] for name in ("gate", "endpoint", "rivals", "power")}
    tested = [row for row in rows if row["split"] == "test"]
    if not tested:
        why = [f"power {value['power']:.2f}, at least {LEAST_POWER:g} is needed: the test stays closed"]
        return {
            **base,
            "verdict": "not sized",
            "why": why,
            "estimate": None,
            "families": [],
            "deltas": [],
            "others": [],
        }
    costs = _costs(rows, "test", protocol)
    opponents = [*value["rivals"], *sorted(set(costs) - {judged, *value["rivals"]})]
    key = bootstrap_key(protocol.seed, protocol.suite, "primary") >> 64
    asked = sum(float(row["policies"][judged].get("asked") or math.nan) for row in tested)
    proved = sum(float(row["policies"][judged].get("proved") or 0.0) for row in tested)
    broken = sum(float(row["policies"][judged].get("violations", math.nan)) for row in tested)
    primary = answer(
        {name: _deltas(costs, judged, name, protocol.form) for name in value["rivals"]}, endpoint, value["power"],
        certified=proved / asked if asked > 0.0 else math.nan, violations=broken, first_look=True, key=key,
    )  # fmt: skip
    estimates = {name: estimate(_deltas(costs, judged, name, protocol.form), key) for name in opponents}
    p_values = {name: _p_value(one) for name, one in estimates.items() if name not in value["rivals"]}
    rejected = holm(p_values)
    deltas = [_row(name, estimates[name], costs, judged, key) for name in opponents]
    return {
        **base, "verdict": primary.verdict, "why": list(primary.why), "estimate": _plain(primary.estimate),
        "sign_flip": primary.sign_flip, "families": [_plain(one) for one in primary.families], "deltas": deltas,
        "others": [{"rule": name, "p": p, "shown": rejected[name]} for name, p in sorted(p_values.items())],
    }  # fmt: skip


def _p_value(estimated: Estimate) -> float:
    """One-sided, of a mean that is not above 0."""
    if not (math.isfinite(estimated.mean) and estimated.freedom >= LEAST_FREEDOM and math.isfinite(estimated.error)):
        return 1.0
    if estimated.error == 0.0:
        return 0.0 if estimated.mean > 0.0 else 1.0
    return 1.0 - student_cdf(estimated.mean / estimated.error, estimated.freedom)


def _row(name: str, estimated: Estimate, costs: Mapping[str, Any], judged: str, key: int) -> dict[str, Any]:
    saved = estimate(_saved(costs, judged, name), key)

    def total(policy: str) -> float:
        return math.fsum(x for family in costs[policy].values() for values in family.values() for x in values)

    return {
        "opponent": name, "mean": finite(estimated.mean), "lower": finite(estimated.lower),
        "upper": finite(estimated.upper),
        "method": estimated.method, "cost": total(name), "own_cost": total(judged), "saved": finite(saved.mean),
        "saved_lower": finite(saved.lower), "saved_upper": finite(saved.upper),
    }  # fmt: skip


def _plain(record: Any) -> dict[str, Any]:
    return {k: finite(v) if isinstance(v, float) else v for k, v in record._asdict().items()}
