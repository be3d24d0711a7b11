"""How often the gate promotes what is not better, on simulated families with known truth; and how often what is.

Worst case for an intersection of conditions: everything else holds for sure, and one family's deltas have mean 0. The
rate at which that family's bound comes out positive is then the gate's false-promotion rate. Run with -s for the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy import stats

from ucsearch.lab.suites.gates.promotion import delta_rows, gate_rows, is_promoted
from ucsearch.lab.suites.protocol.comparison import COMPARATORS, Protocol
from ucsearch.replay.statistics import bounds

pytestmark = pytest.mark.slow

RUNS, RESAMPLES = 3000, 999
NOMINAL = 0.025  # of a one-sided 97.5 % bound
Draw = Callable[[np.random.Generator, int], np.ndarray]

# Deltas of mean 0, about 0.1 wide. Left: rare large losses, the case that flatters a mean.
DELTAS: dict[str, Draw] = {
    "normal": lambda rng, n: 0.1 * rng.standard_normal(n),
    "uniform": lambda rng, n: rng.uniform(-0.17, 0.17, n),
    "heavy tails (t, 3 df)": lambda rng, n: 0.05 * rng.standard_t(3, n),
    "right-skewed (exponential)": lambda rng, n: 0.1 * (rng.exponential(size=n) - 1.0),
    "left-skewed (gamma, 4)": lambda rng, n: 0.05 * (4.0 - rng.gamma(4.0, size=n)),
    "left-skewed (exponential)": lambda rng, n: 0.1 * (1.0 - rng.exponential(size=n)),
    "left-skewed (log-normal)": lambda rng, n: 0.05 * (math.exp(0.5) - rng.lognormal(size=n)),
}
# What one bound may do at most. No method that sees only the series can hold 2.5 % for every skewed distribution: a
# rare loss that is not in the sample leaves no trace. The measured limits are stated in docs/concepts/evaluation.md.
LIMITS: dict[str, dict[int, float]] = {
    "normal": {8: NOMINAL, 40: NOMINAL},
    "uniform": {8: NOMINAL, 40: NOMINAL},
    "heavy tails (t, 3 df)": {8: NOMINAL, 40: NOMINAL},
    "right-skewed (exponential)": {8: NOMINAL, 40: NOMINAL},
    "left-skewed (gamma, 4)": {8: 0.05, 40: 0.04},
    "left-skewed (exponential)": {8: 0.065, 40: 0.045},
    "left-skewed (log-normal)": {8: 0.11, 40: 0.065},
}


def tolerance(rate: float, runs: int = RUNS) -> float:
    """Three standard errors of a Monte Carlo rate."""
    return 3.0 * math.sqrt(rate * (1.0 - rate) / runs)


@pytest.mark.parametrize("series", [8, 40])
@pytest.mark.parametrize("name", DELTAS)
def test_one_bound_at_mean_zero(name: str, series: int, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng([series, list(DELTAS).index(name)])
    lower = student = percentile = 0
    for run in range(RUNS):
        found = bounds(DELTAS[name](rng, series).tolist(), run, resamples=RESAMPLES)
        lower += found.lower > 0.0
        student += found.student > 0.0
        percentile += found.percentile > 0.0
    with capsys.disabled():
        print(
            f"\n{series:3} series, {name:27} falsely positive: bound {lower / RUNS:.4f}, Student-t alone "
            f"{student / RUNS:.4f}, percentile bootstrap {percentile / RUNS:.4f}",
            end="",
        )
    limit = LIMITS[name][series]
    assert lower / RUNS <= limit + tolerance(limit)
    assert lower <= percentile


def test_the_percentile_bootstrap_is_not_fit_to_decide() -> None:
    """At a nominal 5 % on 8 series it passes in about 8 to 23 % of cases; ours stays far below it."""
    rates = []
    for name in ("normal", "left-skewed (exponential)", "left-skewed (log-normal)"):
        rng = np.random.default_rng(5)
        runs = 1500
        found = [bounds(DELTAS[name](rng, 8).tolist(), run, level=0.95, resamples=RESAMPLES) for run in range(runs)]
        rates.append(sum(f.percentile > 0.0 for f in found) / runs)
        assert sum(f.lower > 0.0 for f in found) / runs < rates[-1]
    assert rates[0] > 0.07
    assert max(rates) > 0.2


@pytest.mark.parametrize("series", [8, 40])
def test_power_of_one_bound(series: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Against what Student's t alone could see, by its noncentral distribution."""
    rng, runs = np.random.default_rng(series), 1000
    effect = 4.0 / math.sqrt(series)  # in widths of the deltas: four standard errors
    deltas = (0.1 * (effect + rng.standard_normal((runs, series)))).tolist()
    found = sum(bounds(one, run, resamples=RESAMPLES).lower > 0.0 for run, one in enumerate(deltas)) / runs
    possible = float(stats.nct.sf(stats.t.ppf(0.975, series - 1), series - 1, 4.0))
    with capsys.disabled():
        print(
            f"\n{series:3} series, true mean four standard errors: seen {found:.3f}, by Student-t {possible:.3f}",
            end="",
        )
    assert found <= possible + tolerance(possible, runs)
    assert found >= 0.9 * possible - tolerance(possible, runs)


# -------------------------------------------------------------------- the whole gate


FAMILIES = {f"f{i}": "simulated" for i in range(5)}
PROTOCOL = Protocol("simulated", 1, "cost", "cost", "utility", FAMILIES)
CHOSEN = {"candidate": "c", "risk": 0.5, "eligible": True}
Means = dict[tuple[str, str], float]


def simulate(rng: np.random.Generator, series: int, means: Means, draw: Draw) -> bool:
    """Whether the gate promotes a policy whose deltas have these means; its own luck is shared by all three."""
    rows = []
    for family in FAMILIES:
        own = draw(rng, series)
        each = {name: means[family, name] + 0.5**0.5 * (own + draw(rng, series)) for name in COMPARATORS}
        for s in range(series):
            # A delta d against a policy of cost 1 is a comparator's cost of (1 + d) / (1 - d).
            policies = {"uc": {"cost": 1.0, "violations": 0}}
            for name in COMPARATORS:
                d = float(np.clip(each[name][s], -0.99, 0.99))
                policies[name] = {"cost": (1.0 + d) / (1.0 - d)}
            certificate = {"passed": 20, "risk_active": 20}
            rows.append({"split": "test", "family": family, "series": f"{s:03}", "window": 0, "decisions": 20,
                         "policies": policies, "certificate": certificate})  # fmt: skip
    return is_promoted(gate_rows(rows, PROTOCOL, CHOSEN, delta_rows(rows, PROTOCOL)), 1)


def rate(series: int, edge: float, draw: Draw, runs: int, at_zero: Sequence[tuple[str, str]] = ()) -> float:
    rng = np.random.default_rng([series, runs])
    means = {(f, c): 0.0 if (f, c) in at_zero else edge for f in FAMILIES for c in COMPARATORS}
    return sum(simulate(rng, series, means, draw) for _ in range(runs)) / runs


@pytest.mark.parametrize(("series", "runs"), [(8, 200), (40, 40)])
@pytest.mark.parametrize("name", ["normal", "left-skewed (exponential)"])
def test_the_gate_rarely_promotes_what_is_no_better(
    name: str, series: int, runs: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Clearly better in four families and no better in the fifth; then no better anywhere."""
    fifth = rate(series, 0.5, DELTAS[name], runs, [("f0", c) for c in COMPARATORS])
    one = rate(series, 0.5, DELTAS[name], runs, [("f0", "cem")])
    with capsys.disabled():
        print(f"\n{series:3} series, {name:27} promoted when no better than one comparator in one family {one:.4f}, "
              f"than all three there {fifth:.4f}", end="")  # fmt: skip
    assert fifth <= NOMINAL + tolerance(NOMINAL, runs)
    limit = LIMITS[name][series]
    assert one <= limit + tolerance(limit, runs)
    assert rate(series, 0.0, DELTAS[name], 10) == 0.0


def test_power_of_the_gate(capsys: pytest.CaptureFixture[str]) -> None:
    """All fifteen bounds must see the effect: forty series do at one width of the deltas, eight do not."""
    small, large = rate(8, 0.1, DELTAS["normal"], 50), rate(40, 0.1, DELTAS["normal"], 25)
    with capsys.disabled():
        print(f"\nthe gate's power at a true mean of one width: 8 series {small:.2f}, 40 series {large:.2f}", end="")
    assert small < 0.3
    assert large > 0.9
