"""Value gate 2: intervals by clusters against simulation and formulas, power, rivals, verdicts."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kit.suites import shared_run
from ucsearch.errors import InputError
from ucsearch.lab.suites.gates.primary import answer, estimate, holm, power, rivals, sign_flip
from ucsearch.lab.suites.recheck.verify import verify_evidence
from ucsearch.lab.suites.run import evaluate
from ucsearch.lab.suites.suite import load_suite, parse_suite
from ucsearch.records.canonical import canonical
from ucsearch.student import chi_square_quantile, noncentral_t_above, student_cdf, student_quantile

SIX = {"a": [0.02, 0.01, 0.03, 0.02], "b": [0.01, 0.00, 0.02, 0.01], "c": [0.03, 0.02, 0.01]}


def test_the_pooled_estimate_by_hand() -> None:
    found = estimate(SIX)
    means = [0.02, 0.01, 0.02]
    squares = [0.0002, 0.0002, 0.0002]
    spread = math.sqrt(sum(squares) / 8.0)
    error = spread / 3.0 * math.sqrt(1 / 4 + 1 / 4 + 1 / 3)
    assert math.isclose(found.mean, sum(means) / 3.0, rel_tol=1e-12)
    assert math.isclose(found.error, error, rel_tol=1e-12)
    assert found.freedom == 8.0
    assert math.isclose(found.lower, found.mean - 2.306004135033371 * error, rel_tol=1e-9)  # t(0.975, 8) of tables
    assert found.method == "pooled"


def test_families_of_very_different_spread_have_variances_of_their_own() -> None:
    quiet, loud = [0.010, 0.011, 0.009, 0.010], [0.1, -0.1, 0.05, -0.04]
    found = estimate({"quiet": quiet, "loud": loud})
    own = [np.var(g, ddof=1) / 4.0 for g in (loud, quiet)]
    assert math.isclose(found.error, math.sqrt(sum(own)) / 2.0, rel_tol=1e-12)
    assert math.isclose(found.freedom, sum(own) ** 2 / sum(v * v / 3.0 for v in own), rel_tol=1e-12)
    assert found.lower == -math.inf  # fewer than six degrees of freedom bound nothing
    wider = estimate({"quiet": [*quiet, *quiet, 0.01], "loud": [*loud, *loud, 0.02]})
    assert wider.method.startswith("by family")
    assert 6.0 < wider.freedom < 16.0


def test_what_cannot_be_told_bounds_nothing() -> None:
    for deltas in ({}, {"a": []}, {"a": [0.1, math.nan, 0.2]}, {"a": [0.1] * 3, "b": [0.1] * 3}, {"a": [1.0]}):
        assert estimate(deltas).lower == -math.inf
        assert estimate(deltas).upper == math.inf


def test_a_level_policy_is_rejected_in_one_of_forty_runs() -> None:
    """The bound is above the truth in at most 2.5 % of draws; bootstrap-t beside it makes it rarer."""
    rng = np.random.default_rng(5)
    for sizes, runs, most in (((4, 3, 3), 1500, 0.036), ((9, 9), 700, 0.035)):
        above = 0
        for run in range(runs):
            deltas = {str(f): rng.normal(0.0, 0.02, g).tolist() for f, g in enumerate(sizes)}
            above += estimate(deltas, run).lower > 0.0
        assert 0.012 < above / runs < most


def test_the_smaller_of_two_bounds_counts_where_families_are_large() -> None:
    skewed = {"a": [0.0] * 9 + [0.5], "b": [0.0, 0.0, 0.01, 0.0, 0.0, 0.0, 0.4, 0.0]}
    found = estimate(skewed, 3)
    plain = found.mean - student_quantile(0.975, found.freedom) * found.error
    assert "bootstrap-t" in found.method
    assert found.lower <= plain
    assert found.upper >= found.mean + student_quantile(0.975, found.freedom) * found.error


def test_power_is_the_share_of_simulated_tests_that_pass() -> None:
    rng = np.random.default_rng(2)
    validation = {f: rng.normal(0.0, 0.012, 4).tolist() for f in "abc"}
    sized = power(validation, {"a": 4, "b": 3, "c": 3}, "superior", 0.0095)
    spread = math.sqrt(sum(sum((x - np.mean(v)) ** 2 for x in v) for v in validation.values()) / 9.0)
    spread *= math.sqrt(9.0 / chi_square_quantile(0.2, 9))
    passed = 0
    for _ in range(4000):
        test = {f: rng.normal(0.0095, spread, n).tolist() for f, n in zip("abc", (4, 3, 3), strict=True)}
        passed += _pooled_lower(test) > 0.0
    assert abs(passed / 4000 - sized) < 0.025


def _pooled_lower(deltas: dict[str, list[float]]) -> float:
    sizes = [len(v) for v in deltas.values()]
    freedom = sum(sizes) - len(sizes)
    spread = math.sqrt(sum(sum((x - np.mean(v)) ** 2 for x in v) for v in deltas.values()) / freedom)
    error = spread / len(sizes) * math.sqrt(sum(1.0 / g for g in sizes))
    return float(np.mean([np.mean(v) for v in deltas.values()]) - student_quantile(0.975, freedom) * error)


def test_power_fails_closed() -> None:
    assert power({"a": [0.1, math.nan]}, {"a": 20}, "superior", 0.01) == 0.0
    assert power({"a": [0.1]}, {"a": 20}, "superior", 0.01) == 0.0
    assert power({"a": [0.1, 0.2, 0.1]}, {"a": 6}, "superior", 0.01) == 0.0  # five degrees of freedom
    with pytest.raises(InputError, match="delta"):
        power(SIX, {"a": 4, "b": 4, "c": 4}, "superior", 0.0)


def test_rivals_are_the_cheapest_and_those_that_cannot_be_told_from_it() -> None:
    base = [10.0, 12.0, 9.0, 11.0, 10.0, 12.0]
    costs = {
        "best": base, "close": [x + e for x, e in zip(base, (0.2, -0.2, 0.1, -0.1, 0.3, -0.2), strict=True)],
        "dear": [x + 3.0 + 0.1 * i for i, x in enumerate(base)], "broken": [math.nan] * 6,
    }  # fmt: skip
    assert rivals(costs) == ["best", "close"]
    assert rivals(costs | {f"twin {i}": base for i in range(4)})[0] == "best"
    assert len(rivals(costs | {f"twin {i}": base for i in range(4)})) == 3
    with pytest.raises(InputError, match="costs"):
        rivals({"broken": [math.inf]})


def test_holm_by_its_published_example() -> None:
    """Step-down: 0.005 <= 0.05/4, 0.01 <= 0.05/3, 0.03 > 0.05/2, so the rest stays."""
    found = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert found == {"d": True, "a": True, "c": False, "b": False}


def test_sign_flips_are_counted() -> None:
    assert sign_flip({"a": [1.0, 1.0, 1.0]}) == 1.0 / 8.0
    assert sign_flip({"a": [1.0, 2.0], "b": [-0.5]}) == pytest.approx(np.mean([
        s1 * 1.0 / 4 + s2 * 2.0 / 4 - s3 * 0.5 / 2 >= 0.5 - 1e-12
        for s1 in (1, -1) for s2 in (1, -1) for s3 in (1, -1)
    ]))  # fmt: skip
    many = {"a": [0.1] * 20}
    assert sign_flip(many) == pytest.approx(1e-4, abs=1e-4)
    assert sign_flip({"a": [math.nan]}) == 1.0


GOOD = {"a": [0.02, 0.018, 0.022], "b": [0.021, 0.019, 0.02], "c": [0.02, 0.021, 0.019]}
FINE: dict[str, object] = {"certified": 1.0, "violations": 0.0, "first_look": True}


def test_verdicts_in_a_word() -> None:
    assert answer({"rule": GOOD}, "superior", 0.9, **FINE).verdict == "shown"  # type: ignore[arg-type]
    assert answer({"rule": GOOD}, "superior", 0.79, **FINE).verdict == "not sized"  # type: ignore[arg-type]
    worse = {f: [-x for x in v] for f, v in GOOD.items()}
    assert answer({"rule": worse}, "superior", 0.9, **FINE).verdict == "behind"  # type: ignore[arg-type]
    both = answer({"rule": GOOD, "other": worse}, "superior", 0.9, **FINE)  # type: ignore[arg-type]
    assert both.verdict == "behind"
    near = {f: [x - 0.0221 for x in v] for f, v in GOOD.items()}
    assert answer({"rule": near}, "as good", 0.9, **FINE).verdict == "behind"  # type: ignore[arg-type]
    level = {f: [x - 0.02 for x in v] for f, v in GOOD.items()}
    assert answer({"rule": level}, "as good", 0.9, **FINE).verdict == "shown"  # type: ignore[arg-type]
    assert answer({"rule": level}, "superior", 0.9, **FINE).verdict == "not shown"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"certified": 0.94}, "proved"), ({"certified": math.nan}, "proved"), ({"violations": 1.0}, "violations"),
        ({"violations": math.nan}, "violations"), ({"first_look": False}, "second look"),
    ],
)  # fmt: skip
def test_other_conditions_keep_it_from_being_shown(change: dict[str, object], words: str) -> None:
    found = answer({"rule": GOOD}, "superior", 0.9, **{**FINE, **change})  # type: ignore[arg-type]
    assert found.verdict == "not shown"
    assert words in found.why[0]


def test_a_family_that_is_shown_worse_stops_it() -> None:
    mixed = {"a": [0.08, 0.081, 0.082, 0.08], "b": [0.08, 0.079, 0.08, 0.081], "c": [-0.03, -0.031, -0.029, -0.03]}
    found = answer({"rule": mixed}, "superior", 0.9, **FINE)  # type: ignore[arg-type]
    assert found.verdict == "not shown"
    assert any("c (against rule) is shown to be worse" in why for why in found.why)
    assert [f.behind for f in found.families] == [False, False, True]


# -------------------------------------------------------------------- the distributions, by a second road


def test_distributions_agree_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    for freedom in (1, 2, 6, 7.3, 17.9, 40):
        for level in (0.5, 0.8, 0.975, 0.99):
            assert math.isclose(student_quantile(level, freedom), stats.t.ppf(level, freedom), abs_tol=1e-9)
            assert math.isclose(chi_square_quantile(level, freedom), stats.chi2.ppf(level, freedom), rel_tol=1e-9)
        for shift in (0.5, 2.0, 4.5):
            seen = noncentral_t_above(2.3, freedom, shift)
            assert math.isclose(seen, stats.nct.sf(2.3, freedom, shift), rel_tol=1e-6)


def test_distributions_by_published_tables() -> None:
    assert math.isclose(student_quantile(0.975, 10), 2.228138852, rel_tol=1e-9)
    assert math.isclose(student_cdf(-1.0, 2.5) + student_cdf(1.0, 2.5), 1.0, rel_tol=1e-12)
    assert math.isclose(chi_square_quantile(0.95, 10), 18.307038053, rel_tol=1e-9)
    assert math.isclose(chi_square_quantile(0.05, 4), 0.710723021, rel_tol=1e-8)
    for bound in (-0.5, 0.0, 1.3):
        assert math.isclose(noncentral_t_above(bound, 9, 0.0), 1.0 - student_cdf(bound, 9), abs_tol=1e-9)
    for call, level, freedom in (
        (student_quantile, 0.4, 5), (student_quantile, 0.9, 0.5), (chi_square_quantile, 1.0, 5),
    ):  # fmt: skip
        with pytest.raises(InputError):
            call(level, freedom)


# -------------------------------------------------------------------- in evidence


@pytest.fixture(scope="module")
def truck(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shared_run("truck200-mini", tmp_path_factory).folder


def test_a_truck_suite_names_its_rivals_before_the_look(truck: Path) -> None:
    record = json.loads((truck / "selection.json").read_text())["value"]
    assert record["gate"] == 2
    assert set(record["rivals"]) <= set(record["rules"])
    assert record["clusters"] == {"daily": 7, "other": 7}
    assert record["power"] >= 0.8
    predicate = json.loads((truck / "manifest.json").read_text())["predicate"]
    against = {d["opponent"] for d in predicate["value"]["deltas"]}
    assert against == {*record["rules"], "nothing"}
    assert predicate["verdict"]["value"]["class"] in ("shown", "not shown", "behind")


def forged(folder: Path, name: str, change: Callable[[Any], None]) -> list[Any]:
    """Problems after a JSON file, or the rows, are changed and digests follow."""
    path = folder / name
    if name == "rows.jsonl":
        content = [json.loads(line) for line in path.read_text().splitlines()]
        change(content)
        path.write_bytes(b"".join(canonical(row) + b"\n" for row in content))
    else:
        content = json.loads(path.read_text())
        change(content)
        path.write_bytes(canonical(content))
    return list(verify_evidence(folder).problems) + [p for p in [verify_evidence(folder).malformed] if p]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("selection.json", lambda c: c["value"].update(power=0.99)),
        ("selection.json", lambda c: c["value"].update(rivals=["base-stock, in proportion"])),
        ("selection.json", lambda c: c["value"].update(delta=0.01)),
        ("rows.jsonl", lambda rows: rows[0]["policies"]["uc"].update(cost=1.0)),
        ("rows.jsonl", lambda rows: rows.pop()),
        ("manifest.json", lambda c: c["predicate"]["value"].update(verdict="shown", why=[])),
        ("manifest.json", lambda c: c["predicate"]["value"]["deltas"][0].update(saved=99.0)),
    ],
)
def test_forgeries_are_found(truck: Path, tmp_path: Path, name: str, change: Callable[[Any], None]) -> None:
    shutil.copytree(truck.parent, tmp_path / "copy")
    folder = tmp_path / "copy" / truck.name
    assert verify_evidence(folder).ok
    assert forged(folder, name, change)


def test_without_power_the_test_stays_closed(tmp_path: Path) -> None:
    text = load_suite("staffing-mini").text.replace("delta = 0.9", "delta = 0.0001")
    run = evaluate(parse_suite(text), tmp_path, threads=1)
    rows = [json.loads(line) for line in (run.folder / "rows.jsonl").read_text().splitlines()]
    assert {row["split"] for row in rows} == {"validation"}
    assert run.statement["predicate"]["verdict"]["value"]["class"] == "not sized"
    assert not (tmp_path / "looks.jsonl").exists()
    assert verify_evidence(run.folder).ok
