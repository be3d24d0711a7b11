"""The promotion gate: each condition alone shuts it, and what is not known counts as failed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from tests.suites.evidence_kit import FAMILIES, PROTOCOL, make_rows
from ucsearch.errors import InputError
from ucsearch.lab.suites.gates.promotion import KINDS, delta_rows, gate_rows, is_promoted, secondary_rows
from ucsearch.lab.suites.protocol.audit import audit_rows, is_stopped
from ucsearch.lab.suites.protocol.comparison import Protocol, gate_row, holds

CHOSEN = {"candidate": "exact-r0.5-d3", "risk": 0.5, "eligible": True}


def gate(rows: Any, chosen: Any = CHOSEN, protocol: Protocol = PROTOCOL) -> list[dict[str, Any]]:
    return gate_rows(rows, protocol, chosen)


def failed(rows: Any, chosen: Any = CHOSEN, protocol: Protocol = PROTOCOL) -> set[tuple[Any, ...]]:
    found = gate(rows, chosen, protocol)
    assert not is_promoted(found, 1)
    return {(row["name"], row["family"], row["comparator"]) for row in found if not row["pass"]}


def test_all_conditions_hold() -> None:
    rows = gate(make_rows())
    assert {row["name"] for row in rows} == set(KINDS)
    assert len(rows) == 5 + 2 + 2 * 3
    assert is_promoted(rows, 1)


@pytest.mark.parametrize("looks", [0, 2])
def test_looks_must_be_one(looks: int) -> None:
    assert not is_promoted(gate(make_rows()), looks)


@pytest.mark.parametrize("name", KINDS)
def test_a_gate_without_a_kind_of_condition_is_shut(name: str) -> None:
    assert not is_promoted([row for row in gate(make_rows()) if row["name"] != name], 1)


def test_an_empty_gate_is_shut() -> None:
    assert not is_promoted([], 1)


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        ({**CHOSEN, "risk": 0.0}, {"selected_risk"}),
        ({**CHOSEN, "eligible": False}, {"selection_eligible"}),
        ({**CHOSEN, "eligible": 1}, {"selection_eligible"}),
        ({}, {"selected_risk", "selection_eligible"}),
        (None, {"selected_risk", "selection_eligible"}),
    ],
)
def test_selection_conditions(chosen: Any, names: set[str]) -> None:
    assert {name for name, _, _ in failed(make_rows(), chosen)} == names


def test_rates_are_means_of_windows_then_families() -> None:
    """One family at 0.91, the other at 1: the mean passes, the family does not."""
    rows = make_rows(series=5)
    test_a = [row for row in rows if row["split"] == "test" and row["family"] == "fam-a"]
    for row in test_a[:9]:
        row["certificate"]["risk_active"] = 18
    assert failed(rows) == {("risk_active_family", "fam-a", None)}
    found = {(row["name"], row["family"]): row["left"] for row in gate(rows)}
    assert found["risk_active_family", "fam-a"] == pytest.approx(0.91)
    assert found["risk_active", None] == pytest.approx(0.955)


def test_windows_of_unequal_length_count_the_same() -> None:
    rows = make_rows(series=3)
    long = next(row for row in rows if row["split"] == "test")
    long["decisions"] = long["certificate"]["decisions"] = 1000
    long["certificate"]["passed"], long["certificate"]["risk_active"] = 1000, 0
    found = {(row["name"], row["family"]): row["left"] for row in gate(rows)}
    assert found["risk_active_family", "fam-a"] == pytest.approx(5 / 6)


def test_a_rate_of_exactly_the_share_passes() -> None:
    """No rounding stands between 19 of 20 and 0.95, in equal windows or in mixed ones."""
    assert is_promoted(gate(make_rows(active=19, passed=19)), 1)
    rows = make_rows()
    for i, row in enumerate(row for row in rows if row["split"] == "test"):
        row["certificate"]["risk_active"] = 18 + 2 * (i % 2)
    assert is_promoted(gate(rows), 1)


def test_certificate_rate() -> None:
    names = {name for name, _, _ in failed(make_rows(passed=18, active=18))}
    assert names == {"certificate", "risk_active", "risk_active_family"}


def test_one_violation_shuts() -> None:
    rows = make_rows()
    next(row for row in rows if row["split"] == "test")["policies"]["uc"]["violations"] = 1
    assert failed(rows) == {("violations", None, None)}


def test_one_family_against_one_comparator_shuts() -> None:
    rows = make_rows()
    for row in rows:
        if row["split"] == "test" and row["family"] == "fam-b":
            row["policies"]["mppi"]["cost"] = row["policies"]["uc"]["cost"] * 0.999
    assert failed(rows) == {("lower_bound", "fam-b", "mppi")}


@pytest.mark.parametrize("what", ["comparator", "value", "certificate", "decisions", "family"])
def test_what_is_missing_fails(what: str) -> None:
    rows = make_rows()
    last = next(r for r in rows if r["split"] == "test")
    if what == "comparator":
        del last["policies"]["cem"]
        wanted = {("lower_bound", last["family"], "cem")}
    elif what == "value":
        last["policies"]["uc"]["cost"] = None
        wanted = {("lower_bound", last["family"], c) for c in ("cem", "mppi", "risk-random")}
    elif what == "certificate":
        last["certificate"] = None
        wanted = {
            ("certificate", None, None),
            ("risk_active", None, None),
            ("risk_active_family", last["family"], None),
        }
    elif what == "decisions":
        last["decisions"] = 0
        wanted = {
            ("certificate", None, None),
            ("risk_active", None, None),
            ("risk_active_family", last["family"], None),
        }
    else:
        rows = [row for row in rows if row["family"] != "fam-b"]
        wanted = {("certificate", None, None), ("risk_active", None, None), ("risk_active_family", "fam-b", None)}
        wanted |= {("lower_bound", "fam-b", c) for c in ("cem", "mppi", "risk-random")}
    assert failed(rows) == wanted


def test_two_series_are_too_few() -> None:
    names = {name for name, _, _ in failed(make_rows(series=2))}
    assert names == {"lower_bound"}


def test_deltas_use_series_means_and_scipys_bound() -> None:
    rows = make_rows()
    found = next(d for d in delta_rows(rows, PROTOCOL) if (d["family"], d["comparator"]) == ("fam-a", "cem"))
    by_series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if row["split"] == "test" and row["family"] == "fam-a":
            pair = (row["policies"]["uc"]["cost"], row["policies"]["cem"]["cost"])
            by_series.setdefault(row["series"], []).append(pair)
    means = [np.mean(pairs, axis=0) for pairs in by_series.values()]
    deltas = [(other - own) / (other + own) for own, other in means]
    assert found["series"] == 6
    assert found["better"] == 6
    assert found["mean"] == pytest.approx(np.mean(deltas), rel=1e-12)
    low = stats.t.interval(0.95, 5, np.mean(deltas), stats.sem(deltas))[0]
    assert found["student"] == pytest.approx(low, rel=1e-9)
    assert found["lower"] == min(found["student"], found["bootstrap"])


def test_bounds_do_not_depend_on_other_policies_or_order() -> None:
    rows = make_rows()
    before = {(d["family"], d["comparator"]): d for d in delta_rows(rows, PROTOCOL)}
    for row in rows:
        if row["split"] == "test":
            row["policies"]["base-stock"] = dict(row["policies"]["cem"])
    after = {(d["family"], d["comparator"]): d for d in delta_rows(rows[::-1], PROTOCOL)}
    assert len(after) == len(before) + 2
    assert all(after[key] == value for key, value in before.items())


def test_reward_form_and_negative_costs() -> None:
    rows = make_rows()
    reward = Protocol("kit", 7, "reward", "utility", "utility", FAMILIES)
    assert is_promoted(gate(rows, protocol=reward), 1)  # utilities are negative costs
    wrong = Protocol("kit", 7, "cost", "utility", "utility", FAMILIES)
    with pytest.raises(InputError, match="compares costs"):
        gate(rows, protocol=wrong)


def test_secondary_rows() -> None:
    rows = make_rows()
    cem = next(row for row in secondary_rows(rows, PROTOCOL) if row["comparator"] == "cem")
    families = [d["mean"] for d in delta_rows(rows, PROTOCOL) if d["comparator"] == "cem"]
    assert cem["mean"] == pytest.approx(np.mean(families))
    assert (cem["families"], cem["clusters"]) == (2, 2)
    assert (cem["low"], cem["high"]) == (pytest.approx(min(families)), pytest.approx(max(families)))
    one = Protocol("kit", 7, "cost", "cost", "utility", dict.fromkeys(FAMILIES, "m4"))
    assert secondary_rows(rows, one)[0]["low"] is None


@pytest.mark.parametrize(
    ("left", "op", "right", "expected"),
    [(1.0, ">", 1.0, False), (1.0, ">=", 1.0, True), (0.0, "<", 1.0, True), (1.0, "<=", 0.0, False),
     (2, "==", 2.0, True), (math.nan, ">=", 0.0, False), (math.nan, "<=", 0.0, False), (math.inf, ">", 0.0, False),
     (None, ">", 0.0, False), (True, ">", 0.0, False), ("2", ">", 0.0, False)],
)  # fmt: skip
def test_holds(left: Any, op: str, right: float, expected: bool) -> None:
    assert holds(left, op, right) is expected


def test_rows_hold_no_infinities() -> None:
    row = gate_row("lower_bound", -math.inf, ">", 0.0)
    assert row["left"] is None
    assert row["pass"] is False
    with pytest.raises(InputError, match="op"):
        holds(1.0, "=>", 0.0)


# -------------------------------------------------------------------- no-go audit


def audited(*figures: dict[str, Any] | None) -> list[dict[str, Any]]:
    head = {"split": "validation", "family": "f", "series": "S", "policies": {}}
    return [{**head, "window": i, "audit": audit} for i, audit in enumerate(figures)]


def test_audit_counts_windows_with_any_positive_figure() -> None:
    """The paper's case: 31 of 48 windows."""
    good = [{"credit": 1.0, "relief": 0.0}] * 20 + [{"credit": -1.0, "relief": 0.5}] * 11
    rows = audit_rows(audited(*good, *[{"credit": 0.0, "relief": None}] * 17))
    assert rows is not None
    assert (rows[0]["positive"], rows[0]["windows"]) == (31, 48)
    assert rows[0]["left"] == pytest.approx(0.6458, abs=5e-5)
    assert [(row["name"], row["positive"]) for row in rows[1:]] == [("credit", 20), ("relief", 11)]
    assert is_stopped(rows)


def test_audit_passes_at_the_share_and_counts_silence_as_none() -> None:
    good = {"credit": 1.0}
    assert not is_stopped(audit_rows(audited(*[good] * 19, {"credit": 0.0})))
    assert is_stopped(audit_rows(audited(*[good] * 18, {"credit": 0.0}, None)))
    # Only the share of any figure decides, not that of each.
    assert not is_stopped(audit_rows(audited(*[{"credit": 1.0, "relief": 0.0}] * 5)))
    assert audit_rows(audited(None, None)) is None
    assert not is_stopped(None)
