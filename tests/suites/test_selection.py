"""Selection is a pure function of validation rows, by SPEC's order of criteria."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.suites.evidence_kit import CANDIDATES, FAMILIES, PROTOCOL, certificate, hashes, make_rows
from ucsearch.errors import InputError
from ucsearch.lab.suites.protocol.comparison import Protocol
from ucsearch.lab.suites.protocol.selection import declare, select


def side(cost: float, others: float, *, passed: int = 20, active: int = 20, violations: int = 0) -> dict[str, Any]:
    policies = {"uc": {"cost": cost, "utility": -cost, "violations": violations}}
    for name in ("cem", "mppi", "risk-random"):
        policies[name] = {"cost": others, "utility": -others, "violations": 0}
    return {"policies": policies, "certificate": certificate(passed, active)}


def rows_of(sides: dict[str, dict[str, Any]], by_family: dict[str, dict[str, dict[str, Any]]] | None = None) -> Any:
    """One validation window for each of two series in two families; `by_family` replaces a family's sides."""
    rows = []
    for family in FAMILIES:
        own = {**sides, **(by_family or {}).get(family, {})}
        for s in ("S0", "S1"):
            row = {"split": "validation", "family": family, "series": s, "window": 0, "start": 0, "decisions": 20}
            rows.append({**row, "candidates": copy.deepcopy(own)})
    return rows


def choose(rows: Any, *risks: tuple[str, float], protocol: Protocol = PROTOCOL) -> dict[str, Any]:
    return select(rows, protocol, [{"id": name, "risk": risk} for name, risk in risks], **hashes())


AB = (("a", 0.5), ("b", 1.0))


def test_slack_of_the_weakest_family_comes_first() -> None:
    """b has far better costs, but a's weakest family is more often risk-active."""
    rows = rows_of(
        {"a": side(9.0, 10.0, active=20), "b": side(1.0, 10.0, active=20)},
        {"fam-b": {"a": side(9.0, 10.0, active=20), "b": side(1.0, 10.0, active=19)}},
    )
    record = choose(rows, *AB)
    assert (record["candidate"], record["risk"], record["eligible"]) == ("a", 0.5, True)
    assert "slack" in record["reason"]
    figures = record["candidates"][1]["figures"]
    assert figures["risk_active"] == pytest.approx(0.975)
    assert figures["risk_active_weakest"] == 0.95
    assert figures["slack"] == 0.0


def test_then_the_smallest_margin_over_families_and_comparators() -> None:
    weak = side(5.0, 10.0)
    weak["policies"]["mppi"]["cost"] = 5.0  # a margin of 0 against one comparator in one family
    rows = rows_of({"a": side(5.0, 10.0), "b": side(8.0, 10.0)}, {"fam-a": {"a": weak}})
    record = choose(rows, *AB)
    assert record["candidate"] == "b"
    assert "margin" in record["reason"]
    assert record["candidates"][0]["figures"]["margin"] == 0.0
    assert record["candidates"][1]["figures"]["margin"] == pytest.approx(2 / 18)


def test_then_utility_then_the_name() -> None:
    equal = {"a": side(5.0, 10.0), "b": side(5.0, 10.0)}
    assert choose(rows_of(equal), *AB)["candidate"] == "a"
    equal["b"]["policies"]["uc"]["utility"] = -4.0
    record = choose(rows_of(equal), *AB)
    assert record["candidate"] == "b"
    assert "utility" in record["reason"]


def test_figures_within_a_tie_do_not_decide() -> None:
    sides = {"a": side(5.0, 10.0), "b": side(5.0, 10.0 * (1 - 1e-13))}
    sides["b"]["policies"]["uc"]["utility"] = -4.0
    assert choose(rows_of(sides), *AB)["candidate"] == "b"  # margins tie, so utility speaks


@pytest.mark.parametrize(
    ("spoilt", "word"),
    [
        (side(1.0, 10.0, violations=1), "violations"),
        (side(1.0, 10.0, passed=18, active=18), "certificate rate"),
        (side(1.0, 10.0, active=18), "risk-active"),
    ],
)
def test_who_is_not_eligible_cannot_win(spoilt: dict[str, Any], word: str) -> None:
    record = choose(rows_of({"a": spoilt, "b": side(9.0, 10.0)}), *AB)
    assert record["candidate"] == "b"
    assert any(word in reason for reason in record["candidates"][0]["reasons"])


def test_nobody_eligible_runs_the_best_clean_one_uncertified() -> None:
    rows = rows_of(
        {"a": side(1.0, 10.0, active=3, violations=2), "b": side(9.0, 10.0, active=2), "c": side(8.0, 10.0, active=1)}
    )
    record = choose(rows, *AB, ("c", 2.0))
    assert record["candidate"] == "c"
    assert record["eligible"] is False
    assert "cannot be certified" in record["reason"]


def test_nobody_clean_runs_nothing() -> None:
    record = choose(rows_of({"a": side(1.0, 10.0, violations=1), "b": side(1.0, 10.0, violations=1)}), *AB)
    assert record["candidate"] is None
    assert record["risk"] is None
    assert record["eligible"] is False


@pytest.mark.parametrize("part", ["certificate", "policies", "candidate", "null", "passed", "family"])
def test_what_a_row_does_not_say_makes_ineligible(part: str) -> None:
    rows = rows_of({"a": side(1.0, 10.0), "b": side(9.0, 10.0)})
    held = rows[0]["candidates"]
    if part == "candidate":
        del held["a"]
    elif part == "certificate":
        held["a"]["certificate"] = None
    elif part == "policies":
        del held["a"]["policies"]["uc"]["violations"]
    elif part == "passed":
        held["a"]["certificate"]["passed"] = None
    elif part == "null":
        held["a"]["certificate"]["risk_active"] = None
    else:
        for row in rows[:2]:
            del row["candidates"]["a"]
    record = choose(rows, *AB)
    assert record["candidate"] == "b"
    assert record["candidates"][0]["eligible"] is False


def test_a_missing_comparator_loses_on_margin() -> None:
    rows = rows_of({"a": side(1.0, 10.0), "b": side(9.0, 10.0)})
    del rows[0]["candidates"]["a"]["policies"]["mppi"]
    record = choose(rows, *AB)
    assert record["candidates"][0]["figures"]["margin"] is None
    assert record["candidate"] == "b"


def test_test_rows_change_nothing() -> None:
    rows = make_rows()
    record = select(rows, PROTOCOL, CANDIDATES, **hashes())
    validation = [row for row in rows if row["split"] == "validation"]
    assert select(validation, PROTOCOL, CANDIDATES, **hashes()) == record
    for row in rows:
        if row["split"] == "test":
            row["policies"]["uc"]["cost"] = 1e9
    assert select(rows[::-1], PROTOCOL, CANDIDATES[::-1], **hashes()) == record
    validation[0]["candidates"]["exact-r0-d3"]["policies"]["cem"]["cost"] += 1.0
    assert select(rows, PROTOCOL, CANDIDATES, **hashes())["rows_sha256"] != record["rows_sha256"]


def test_without_a_gate_utility_decides_then_the_smaller_risk() -> None:
    protocol = Protocol("kit", 7, "reward", "reward", "reward", FAMILIES, gate=False, policy="uc-beam")

    def beam(reward: float) -> dict[str, Any]:
        return {"policies": {"uc-beam": {"reward": reward, "violations": 0}}, "certificate": None}

    risks = (("r-1", 1.0), ("r-2", 0.25), ("r-3", 2.0))
    record = choose(rows_of({"r-1": beam(3.0), "r-2": beam(3.0), "r-3": beam(2.0)}), *risks, protocol=protocol)
    assert (record["candidate"], record["eligible"]) == ("r-2", True)


def test_a_declared_policy_is_never_eligible() -> None:
    record = declare(PROTOCOL, {"id": "fixed", "risk": 0.25, "depth": 3}, **hashes())
    assert (record["candidate"], record["risk"], record["eligible"]) == ("fixed", 0.25, False)
    assert record["candidates"][0]["settings"]["depth"] == 3


@pytest.mark.parametrize(
    "candidates",
    [[], [{"id": "a"}], [{"id": "a", "risk": -1.0}], [{"id": "a", "risk": float("nan")}],
     [{"id": "", "risk": 1.0}], [{"id": "a", "risk": 1.0}, {"id": "a", "risk": 2.0}], [{"id": "a", "risk": True}]],
)  # fmt: skip
def test_bad_candidates_are_refused(candidates: Any) -> None:
    with pytest.raises(InputError, match="candidates"):
        select(rows_of({"a": side(1.0, 2.0)}), PROTOCOL, candidates, **hashes())


def test_no_validation_rows_is_refused() -> None:
    with pytest.raises(InputError, match="validation"):
        select([], PROTOCOL, CANDIDATES, **hashes())
