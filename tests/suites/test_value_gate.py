"""The value gate, its power and its clusters, against simulation and against a second road."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from ucsearch.errors import InputError
from ucsearch.lab.suites.gates.power import power
from ucsearch.lab.suites.gates.value import (
    TIMED,
    choose_by_cost,
    cluster_lower,
    floors_of,
    is_worth_using,
    value_conclusion,
    value_deltas,
    value_power,
)
from ucsearch.lab.suites.protocol.comparison import Protocol
from ucsearch.replay.statistics import LEVEL

PROTOCOL = Protocol("kit", 7, "cost", "cost", "utility", {"fam-a": "one", "fam-b": "two"})
CANDIDATES = [{"id": "mean-r0.5", "risk": 0.5}, {"id": "members-r0", "risk": 0.0}, {"id": "unproved", "risk": 0.0}]


def value(**more: Any) -> dict[str, Any]:
    practitioners = {
        "newsvendor": {"endpoint": "non-inferiority", "settings": {"ratio": 0.9}, "tries": 8},
        "greedy": {"endpoint": "superiority", "settings": {}, "tries": 1},
    }
    held = {"candidate": "members-r0", "margin": 0.01, "power": 0.8, "underpowered": False}
    return {**held, "practitioners": practitioners, **more}


def figures(cost: float, passed: int = 20) -> dict[str, float]:
    return {"cost": cost, "utility": -cost, "violations": 0, "passed": passed, "uncertainty_active": 15}


def make_rows(
    *, series: int = 12, newsvendor: float = 1.0, greedy: float = 1.2, sampler: float = 1.15, seed: int = 3
) -> list[dict[str, Any]]:
    """The judged policy costs about 10; its opponents so many times as much, within 2 %."""
    rng = np.random.default_rng(seed)
    rows = []
    for family in PROTOCOL.families:
        for s in range(series):
            head = {"family": family, "series": f"S{s:02d}", "window": 0, "decisions": 20, "cluster": f"store {s % 4}"}
            for split in ("validation", "test"):
                own = float(rng.uniform(9.0, 11.0))
                against = {"newsvendor": newsvendor, "greedy": greedy, **dict.fromkeys(TIMED, sampler)}
                policies = {name: figures(own * k * float(rng.uniform(0.98, 1.02))) for name, k in against.items()}
                if split == "test":
                    rows.append({**head, "split": split, "policies": {**policies, "value": figures(own)}})
                    continue
                sides = {}
                for name, cost, passed in (("mean-r0.5", 1.1, 20), ("members-r0", 1.0, 20), ("unproved", 0.5, 10)):
                    certificate = {"decisions": 20, "passed": passed, "risk_active": 0}
                    sides[name] = {"policies": {"uc": figures(own * cost)}, "certificate": certificate}
                rows.append({**head, "split": split, "policies": policies, "candidates": sides})
    return rows


def judged(rows: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return value_conclusion(rows, PROTOCOL, value(**more))


def failing(conclusion: dict[str, Any]) -> set[tuple[str, str | None]]:
    return {(row["name"], row["comparator"]) for row in conclusion["gate"] if not row["pass"]}


# -------------------------------------------------------------------- choice


def test_the_cheapest_proved_candidate_is_chosen_whatever_its_lambda() -> None:
    rows = make_rows()
    assert choose_by_cost(rows, PROTOCOL, CANDIDATES) == "members-r0"  # risk 0, never risk-active; half proofs lose
    for row in rows:
        for side in (row.get("candidates") or {}).values():
            side["policies"]["uc"]["violations"] = 1
    assert choose_by_cost(rows, PROTOCOL, CANDIDATES) is None


# -------------------------------------------------------------------- gate


def test_parity_with_the_newsvendor_passes_as_non_inferiority_and_fails_as_superiority() -> None:
    rows = make_rows(series=40)
    assert is_worth_using(judged(rows), 1)
    strict = value()
    strict["practitioners"]["newsvendor"]["endpoint"] = "superiority"
    conclusion = value_conclusion(rows, PROTOCOL, strict)
    assert failing(conclusion) == {("practitioner", "newsvendor")}
    assert not is_worth_using(conclusion, 1)


@pytest.mark.parametrize(
    ("change", "failed"),
    [
        ({"newsvendor": 0.91}, {("practitioner", "newsvendor")}),  # nine percent cheaper than we are
        ({"greedy": 1.0}, {("practitioner", "greedy")}),
        ({"sampler": 1.0}, {("sampler", name) for name in TIMED}),
    ],
)
def test_whoever_is_cheaper_keeps_the_gate_shut(change: dict[str, float], failed: set[tuple[str, str]]) -> None:
    conclusion = judged(make_rows(series=40, **change))  # type: ignore[arg-type]
    assert failing(conclusion) == failed
    assert not is_worth_using(conclusion, 1)


def test_proofs_rules_looks_and_silence() -> None:
    rows = make_rows(series=40)
    tests = [row for row in rows if row["split"] == "test"]
    for change, name in (
        ({"passed": 18}, "value_certificate"),
        ({"violations": 1}, "value_violations"),
        ({"violations": None}, "value_violations"),
    ):
        spoilt = copy.deepcopy(rows)
        for row in spoilt:
            if row["split"] == "test":
                row["policies"]["value"] |= change
        assert failing(judged(spoilt)) == {(name, None)}
    assert not is_worth_using(judged(rows), 2)
    assert not is_worth_using(None, 1)
    assert failing(judged(rows, candidate=None)) == {("value_selected", None)}
    del tests[0]["policies"]["newsvendor"]
    assert ("practitioner", "newsvendor") in failing(judged(rows))
    conclusion = judged(make_rows(series=40))
    conclusion["gate"] = [row for row in conclusion["gate"] if row["name"] != "sampler"]
    assert not is_worth_using(conclusion, 1)
    assert conclusion["uncertainty_active"] == 0.75


def test_margins_above_one_percent_and_no_practitioner_are_refused() -> None:
    for bad in (0.011, -0.001, math.nan, "1%"):
        with pytest.raises(InputError, match="margin"):
            floors_of(value(margin=bad))
    with pytest.raises(InputError, match="at least one"):
        floors_of(value(practitioners={}))
    assert floors_of(value()) == {"newsvendor": -0.01, "greedy": 0.0, **dict.fromkeys(TIMED, 0.0)}


def test_rewards_near_zero_are_measured_by_what_could_be_had() -> None:
    """Own 0.001 and other -0.001: by sizes the delta is 1; by hindsight 10 and fallback 0 it is a ten-thousandth."""
    protocol = Protocol("kit", 7, "reward", "utility", "utility", {"fam-a": "one"})
    policies = {"value": 0.001, "greedy": -0.001, "hindsight": 10.0, "fallback": 0.0}
    row = {"split": "test", "family": "fam-a", "series": "S", "window": 0, "decisions": 5,
           "policies": {name: {"utility": u} for name, u in policies.items()}}  # fmt: skip
    from ucsearch.lab.suites.evidence.rows import windows_of

    assert value_deltas(windows_of([row], "test"), "fam-a", "greedy", protocol) == {"S": pytest.approx(0.0002)}
    row["policies"]["fallback"] = {"utility": 10.0}  # type: ignore[index]
    assert math.isnan(value_deltas(windows_of([row], "test"), "fam-a", "greedy", protocol)["S"])


# -------------------------------------------------------------------- clusters


def test_clusters_of_one_give_students_bound_and_the_sandwich_is_right() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(0.1, 1.0, 30)
    alone = cluster_lower(x.tolist(), [str(i) for i in range(30)])
    assert alone == pytest.approx(x.mean() - stats.t.ppf(LEVEL, 29) * stats.sem(x), rel=1e-12)
    labels = rng.integers(0, 7, 30)
    # The same by matrices: regression on a constant, sandwich with one indicator column per cluster.
    member = np.equal.outer(labels, np.unique(labels)).astype(float)
    scores = member.T @ (x - x.mean())
    error = math.sqrt(scores @ scores * 7 / 6) / 30
    expected = x.mean() - stats.t.ppf(LEVEL, 6) * error
    assert cluster_lower(x.tolist(), [str(i) for i in labels]) == pytest.approx(expected, rel=1e-12)
    assert cluster_lower([1.0, 2.0, 3.0], ["a", "a", "b"]) is None
    assert cluster_lower([1.0, math.nan, 3.0], ["a", "c", "b"]) is None


def test_series_of_one_store_do_not_count_as_independent() -> None:
    """True mean 0, stores that move together: how often a bound is above 0 at a nominal 2.5 %."""
    rng = np.random.default_rng(5)
    stores = [f"store {i // 8}" for i in range(80)]
    wrong = {"series": 0, "clusters": 0}
    for _ in range(400):
        x = np.repeat(rng.normal(0.0, 1.0, 10), 8) + rng.normal(0.0, 0.5, 80)
        wrong["series"] += bool(x.mean() - stats.t.ppf(LEVEL, 79) * stats.sem(x) > 0.0)
        bound = cluster_lower(x.tolist(), stores)
        assert bound is not None
        wrong["clusters"] += bound > 0.0
    assert wrong["series"] > 80  # a fifth and more
    assert wrong["clusters"] <= 20


def test_the_smaller_bound_decides() -> None:
    rows = make_rows(series=40)
    for row in rows:
        if row["cluster"] == "store 0":  # one store in which the newsvendor is far better
            row["policies"]["newsvendor"]["cost"] *= 0.93
    lines = [d for d in judged(rows)["deltas"] if d["opponent"] == "newsvendor"]
    for line in lines:
        assert line["clusters"] == 4
        assert line["by_cluster"] < line["by_series"]
        assert line["lower"] == line["by_cluster"]
    for row in rows:
        del row["cluster"]
    assert all(d["by_cluster"] is None and d["clusters"] is None for d in judged(rows)["deltas"])


# -------------------------------------------------------------------- power


@pytest.mark.parametrize(("effect", "count"), [(0.3, 20), (0.3, 80), (0.5, 40), (0.0, 40)])
def test_power_of_one_bound_is_that_of_the_t_test(effect: float, count: int) -> None:
    shape = stats.norm.ppf((np.arange(4000) + 0.5) / 4000)  # nearly the truth itself
    found = power({"f": {"o": (shape + effect).tolist()}}, {"o": 0.0}, {"f": count}, seed=1, name="x").all
    exact = 1.0 - stats.nct.cdf(stats.t.ppf(LEVEL, count - 1), count - 1, effect * math.sqrt(count))
    assert found == pytest.approx(exact, abs=0.035)


def test_power_counts_all_bounds_together_and_knows_that_validation_is_a_sample() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(0.4, 1.0, 30)
    same = power({"f": {"a": x.tolist(), "b": x.tolist()}}, {"a": 0.0, "b": 0.0}, {"f": 30}, seed=1, name="x").all
    one = power({"f": {"a": x.tolist()}}, {"a": 0.0}, {"f": 30}, seed=1, name="x").all
    assert same == one  # opponents that are beaten together cost no power
    two = power({"f": {"a": x.tolist()}, "g": {"a": x.tolist()}}, {"a": 0.0}, {"f": 30, "g": 30}, seed=1, name="x")
    assert two.all == pytest.approx(two.families["f"] * two.families["g"])
    plug_in = 1.0 - stats.nct.cdf(stats.t.ppf(LEVEL, 29), 29, x.mean() / x.std(ddof=1) * math.sqrt(30))
    if plug_in > 0.6:
        assert one < plug_in
    for bad in ([math.nan] * 5, [0.1, 0.2]):
        assert power({"f": {"a": bad}}, {"a": 0.0}, {"f": 30}, seed=1, name="x").all == 0.0


def test_power_from_validation_rows() -> None:
    sizes = dict.fromkeys(PROTOCOL.families, 40)
    rows = make_rows(series=40)
    assert value_power(rows, PROTOCOL, value(), sizes).all > 0.9
    assert value_power(rows, PROTOCOL, value(), dict.fromkeys(PROTOCOL.families, 3)).all < 0.5
    assert value_power(make_rows(series=40, newsvendor=0.95), PROTOCOL, value(), sizes).all == 0.0
