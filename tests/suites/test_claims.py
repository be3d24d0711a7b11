"""Classes follow from evidence, and sentences that evidence does not support are refused."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.suites import evidence_kit as kit
from ucsearch.lab.suites.evidence.rows import EvidenceError
from ucsearch.lab.suites.gates.claims import KINDS, ClaimError, claim, classify, key_text, status_rows, supports
from ucsearch.lab.suites.gates.derive import conclude
from ucsearch.lab.suites.protocol.comparison import Protocol
from ucsearch.lab.suites.protocol.selection import select


def predicate_of(rows: list[dict[str, Any]], *, looks: int = 1, gate: bool = True, checks: Any = ()) -> dict[str, Any]:
    protocol = Protocol(**{**kit.PROTOCOL.as_json(), "gate": gate})
    tested = any(row["split"] == "test" for row in rows)
    chosen = select(rows, protocol, kit.CANDIDATES, **kit.hashes()) if tested else None
    tables = kit.TABLES if tested else ()
    facts = kit.facts_of(rows, protocol)
    return conclude(facts, rows, tables=tables, checks=checks, selection=chosen, looks=looks if tested else 0)


def audited(positive: int, count: int = 48) -> list[dict[str, Any]]:
    head = {"split": "validation", "family": "fam-a", "decisions": 20, "start": 0, "window": 0, "policies": {}}
    return [{**head, "series": f"S{i:02}", "audit": {"credit": 1.0 if i < positive else 0.0}} for i in range(count)]


CERTIFIED = predicate_of(kit.make_rows(), checks=kit.CHECKS)
WEAK = predicate_of(kit.make_rows(active=10))
EQUAL = predicate_of(kit.make_rows(edge=0.0))


def test_certified() -> None:
    verdict = CERTIFIED["verdict"]
    assert verdict["class"] == "certified"
    assert verdict["endpoint"] == "Kit endpoint"
    assert verdict["interpretation"].startswith("Certified trace-only endpoint")
    assert verdict["key"]["windows"] == 24
    assert verdict["key"]["bounds_positive"] == verdict["key"]["bounds"] == 6


def test_boundary_names_every_failed_condition() -> None:
    verdict = WEAK["verdict"]
    assert verdict["class"] == "boundary"
    assert verdict["interpretation"].startswith("Boundary evidence only")
    assert sum("risk_active" in reason for reason in verdict["reasons"]) == 3
    assert "risk_active_family (fam-b): 0.5000, expected >= 0.9500" in verdict["reasons"]


@pytest.mark.parametrize(("opened", "found"), [(6, "certified"), (7, "boundary")])
def test_windows_that_others_have_seen_certify_nothing_whatever_the_suite_is_called(opened: int, found: str) -> None:
    """Another name for a suite that looks at the same windows again would have been certified, too."""
    rows = kit.make_rows()
    names = sorted({f"{row['family']}/{row['series']}" for row in rows if row["split"] == "test"})
    assert len(names) == 12
    half = names[: opened // 2]
    earlier = [{"look": 1 + i, "suite": f"other {i}", "periods": {name: [0, 9] for name in some}}
               for i, some in enumerate((half, names[opened // 2 : opened]))]  # fmt: skip
    p = copy.deepcopy(CERTIFIED)
    verdict = classify({**p, "earlier": earlier}, rows)
    assert verdict["class"] == found
    if found == "boundary":
        assert verdict["reasons"][0].endswith("had opened test periods of 7 of 12 series")
        assert not supports("certified", {**p, "earlier": earlier})


def test_two_looks_are_boundary_although_every_row_passes() -> None:
    verdict = predicate_of(kit.make_rows(), looks=2)["verdict"]
    assert verdict["class"] == "boundary"
    assert verdict["reasons"] == ["the test split was opened 2 times, expected once"]


def test_risk_free_selection_is_diagnostic() -> None:
    rows = kit.make_rows()
    for row in rows:
        if row["split"] == "validation":
            row["candidates"][kit.R05]["policies"]["uc"]["violations"] = 1
    verdict = predicate_of(rows)["verdict"]
    assert verdict["class"] == "boundary"
    assert verdict["key"]["risk"] == 0.0
    assert verdict["interpretation"].startswith("Diagnostic only: validation selected λ = 0")


def test_a_gated_route_that_nobody_could_run_is_boundary() -> None:
    """Every candidate broke rules: nothing was run, the test split is empty, no condition holds."""
    rows = [row for row in kit.make_rows() if row["split"] == "validation"]
    for row in rows:
        for side in row["candidates"].values():
            side["policies"]["uc"]["violations"] = 1
    chosen = select(rows, kit.PROTOCOL, kit.CANDIDATES, **kit.hashes())
    assert chosen["candidate"] is None
    made = conclude(kit.facts_of(rows), rows, tables=(), checks=(), selection=chosen, looks=0)
    assert made["verdict"]["class"] == "boundary"
    assert made["verdict"]["interpretation"].startswith("Boundary evidence only")
    assert not any(row["pass"] for row in made["gate"])
    assert "the test split was opened 0 times, expected once" in made["verdict"]["reasons"]


def test_no_gate_is_a_diagnostic() -> None:
    verdict = predicate_of(kit.make_rows(), gate=False, checks=kit.CHECKS)["verdict"]
    assert verdict["class"] == "boundary"
    assert verdict["key"] == {"windows": 24, "checks_passed": 1, "checks": 1}
    assert verdict["interpretation"].startswith("Diagnostic only: the suite")


def test_no_go_is_the_papers_sentence() -> None:
    predicate = predicate_of(audited(31))
    verdict = predicate["verdict"]
    assert verdict["class"] == "no-go"
    assert key_text(verdict) == "17/48 windows lack a positive candidate; share 0.6458"
    assert "17 of 48" in claim(predicate, "no_go")
    assert verdict["interpretation"].startswith("Negative evidence only")
    assert predicate_of(audited(48))["verdict"]["class"] == "boundary"


def test_a_stopped_route_with_test_rows_is_malformed() -> None:
    rows = kit.make_rows()
    for row in rows:
        if row["split"] == "validation":
            row["audit"] = {"credit": 0.0}
    with pytest.raises(EvidenceError, match="test split was opened"):
        predicate_of(rows)
    with pytest.raises(EvidenceError, match="looks"):
        predicate_of(kit.make_rows(), looks=0)


def test_failed_checks_are_reasons() -> None:
    checks = [{"name": "expansions", "left": 2689, "op": "==", "right": 2688}]
    verdict = predicate_of(kit.make_rows(), gate=False, checks=checks)["verdict"]
    assert verdict["key"]["checks_passed"] == 0
    assert "check expansions: 2689, expected == 2688" in verdict["reasons"]


def test_status_table_is_ordered_by_class() -> None:
    no_go = {**predicate_of(audited(31)), "suite": "a-first"}
    rows = status_rows([no_go, WEAK, CERTIFIED])
    assert [row["class"] for row in rows] == ["certified", "boundary", "no-go"]
    assert rows[0]["key"].startswith("λ = 0.5; cert/risk-active 1.0000/1.0000; weakest family 1.0000; 6/6 bounds > 0")
    assert rows[1]["key"].startswith("not promoted; λ = 0.5; cert/risk-active 1.0000/0.5000")


# -------------------------------------------------------------------- sentences


SUPPORTED: list[tuple[dict[str, Any], str, dict[str, Any], str]] = [
    (CERTIFIED, "certified", {}, "looked at once"),
    (CERTIFIED, "better_than", {"comparator": "cem"}, "better than CEM in every family"),
    (CERTIFIED, "better_than", {"comparator": "mppi", "family": "fam-a"}, "in fam-a"),
    (CERTIFIED, "rate", {"name": "certificate", "at_least": 0.95}, "at least 0.95"),
    (CERTIFIED, "check", {"name": "gap_mean"}, "<= 20 holds"),
    (WEAK, "boundary", {}, "was not promoted"),
    (WEAK, "observed", {"comparator": "cem", "family": "fam-b"}, "without a claim of superiority"),
    (WEAK, "rate", {"name": "certificate", "at_least": 0.95}, "proved optimal"),
]


@pytest.mark.parametrize(("predicate", "kind", "figures", "words"), SUPPORTED)
def test_supported_sentences(predicate: dict[str, Any], kind: str, figures: dict[str, Any], words: str) -> None:
    assert words in claim(predicate, kind, **figures)
    assert words in claim({"predicate": predicate}, kind, **figures)
    assert supports(kind, predicate, **figures)


REFUSED: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    (WEAK, "certified", {}),
    (EQUAL, "certified", {}),
    (WEAK, "better_than", {"comparator": "cem"}),
    (EQUAL, "better_than", {"comparator": "cem"}),
    (CERTIFIED, "better_than", {"comparator": "base-stock"}),
    (CERTIFIED, "better_than", {"comparator": "cem", "family": "fam-z"}),
    (CERTIFIED, "better_than", {}),
    (CERTIFIED, "better_than", {"comparator": "cem", "everywhere": True}),
    (CERTIFIED, "boundary", {}),
    (CERTIFIED, "no_go", {}),
    (CERTIFIED, "dominates", {}),
    (WEAK, "rate", {"name": "risk_active", "at_least": 0.95}),
    (CERTIFIED, "rate", {"name": "risk_active", "at_least": 1.01}),
    (CERTIFIED, "rate", {"name": "risk_active", "at_least": float("nan")}),
    (CERTIFIED, "rate", {"name": "violations", "at_least": 0.0}),
    (CERTIFIED, "check", {"name": "gap_max"}),
    (CERTIFIED, "within_of_optimal", {"percent": 0.2}),
    (CERTIFIED, "within_of_optimal", {"percent": 0.2, "over": "max"}),
    (CERTIFIED, "within_of_optimal", {"percent": 0.2, "over": "median"}),
]


@pytest.mark.parametrize(("predicate", "kind", "figures"), REFUSED)
def test_refused_sentences(predicate: dict[str, Any], kind: str, figures: dict[str, Any]) -> None:
    with pytest.raises(ClaimError, match="claim"):
        claim(predicate, kind, **figures)
    assert not supports(kind, predicate, **figures)


def test_better_than_needs_a_bound_even_in_certified_evidence() -> None:
    rows = kit.make_rows()
    for row in rows:
        if row["split"] == "test":
            row["policies"]["dp"] = dict(row["policies"]["uc"])
    predicate = predicate_of(rows)
    assert supports("certified", predicate)
    assert not supports("better_than", predicate, comparator="dp")
    assert supports("observed", predicate, comparator="dp", family="fam-a")


def test_a_rate_of_two_looks_is_refused() -> None:
    assert not supports("rate", predicate_of(kit.make_rows(), looks=2), name="certificate", at_least=0.5)


def test_within_of_optimal_goes_by_the_figure_not_by_the_check() -> None:
    checks = [
        {"name": "gap_mean", "left": 0.004, "op": "<=", "right": 0.002},
        {"name": "gap_max", "left": 0.006, "op": "<=", "right": 0.007},
    ]
    predicate = predicate_of(kit.make_rows(), gate=False, checks=checks)
    assert "within 0.5 % of the optimum on average (0.400%)" in claim(predicate, "within_of_optimal", percent=0.5)
    assert not supports("within_of_optimal", predicate, percent=0.3)
    assert supports("within_of_optimal", predicate, percent=0.6, over="max")
    assert supports("check", predicate, name="gap_max")
    assert not supports("check", predicate, name="gap_mean")


def test_a_typed_in_class_supports_nothing() -> None:
    forged = copy.deepcopy(WEAK)
    forged["verdict"]["class"] = "certified"
    for kind in KINDS:
        assert not supports(kind, forged)
    with pytest.raises(ClaimError, match="contradict"):
        claim(forged, "certified")
    for row in forged["gate"]:
        row["pass"] = True  # the figures still say otherwise
    with pytest.raises(ClaimError, match="contradict"):
        claim(forged, "certified")


def test_classify_does_not_read_a_verdict(tmp_path: Path) -> None:
    rows = kit.make_rows()
    bare = {k: v for k, v in CERTIFIED.items() if k != "verdict"}
    assert classify(bare, rows) == CERTIFIED["verdict"]
