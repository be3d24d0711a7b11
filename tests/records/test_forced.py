"""Overrides against the rules, off the unit, or too late: refused, or recorded with a mark where a person insists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ucsearch as uc
from tests.kit.logged import decide, new_log, tank
from ucsearch.decision import Filing
from ucsearch.errors import InputError, RecordError
from ucsearch.planner.files.numbers import read_number
from ucsearch.records.overrides import NotAllowed
from ucsearch.tasks import LeadTimeInventory
from ucsearch.verify import verify_file

WORDS: dict[str, Any] = {"who": "M. Curie", "why": "supplier strike"}


def test_a_forced_override_is_marked_and_verified_as_such(tmp_path: Path) -> None:
    with new_log(tmp_path) as log:
        decide(log)
        with pytest.raises(NotAllowed):
            log.override(1, task=tank, action=16.0, **WORDS)
        entry = log.override(1, task=tank, action=16.0, force=True, **WORDS)
        assert log.get(entry.seq).record["forced"] is True
    verdict = list(verify_file(tmp_path / "log.db", tank))[-1]
    assert verdict.status == "valid"
    assert "forced by a person" in verdict.message


def test_force_marks_only_what_needs_it(tmp_path: Path) -> None:
    with new_log(tmp_path) as log:
        decide(log)
        entry = log.override(1, task=tank, action=4.0, force=True, **WORDS)
        assert "forced" not in log.get(entry.seq).record


def test_no_override_after_the_outcome_is_reported(tmp_path: Path) -> None:
    with new_log(tmp_path) as log:
        decide(log)
        row = log.get(1)
        log.append({"schema": "ucsearch.outcome/1", "kind": "outcome", "decision": row.id, "entry": 1, "step": 1})
        with pytest.raises(RecordError, match="is reported"):
            log.override(1, task=tank, action=4.0, force=True, **WORDS)


@pytest.mark.parametrize(
    ("text", "decimal", "number"),
    [("12,5", None, 12.5), ("12.5", None, 12.5), ("1000", None, 1000.0), ("1.000", ",", 1000.0), ("1.000", ".", 1.0),
     ("1,000", ".", 1000.0), ("1e9", None, 1e9), ("0.125", None, 0.125), ("-5", None, -5.0)],
)  # fmt: skip
def test_numbers_as_people_write_them(text: str, decimal: Any, number: float) -> None:
    assert read_number(text, "override.action", decimal) == number


@pytest.mark.parametrize("text", ["1.000", "1,000"])
def test_a_number_with_two_readings_is_refused_with_both(text: str) -> None:
    with pytest.raises(InputError, match=r"1 or 1000|1000 or 1"):
        read_number(text, "QUANTITY", None)


@pytest.mark.parametrize(("action", "why"), [(12.5, "whole units"), (1e9, "more than 10 times")])
def test_an_override_off_the_unit_needs_force(tmp_path: Path, action: float, why: str) -> None:
    stock = LeadTimeInventory(order_sizes=(0.0, 10.0, 20.0), lead_time=1)
    trace, task = uc.Trace.from_members([[3.0, 4.0]]), stock.task()
    with new_log(tmp_path) as log:
        uc.decide(
            task, stock.state(5.0), trace, uc.Exact(depth=2), run=uc.Run(engine="python"), log=Filing(log, series="A")
        )
        with pytest.raises(NotAllowed, match=why):
            log.override(1, task=task, action=action, **WORDS)
        log.override(1, task=task, action=action, force=True, **WORDS)
    assert "forced" in list(verify_file(tmp_path / "log.db", task))[-1].message


def test_the_verifier_refuses_what_is_off_the_unit_without_the_mark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock = LeadTimeInventory(order_sizes=(0.0, 10.0, 20.0), lead_time=1)
    trace, task = uc.Trace.from_members([[3.0, 4.0]]), stock.task()
    monkeypatch.setattr("ucsearch.records.overrides._off_unit", lambda *given: "")
    with new_log(tmp_path) as log:
        uc.decide(
            task, stock.state(5.0), trace, uc.Exact(depth=2), run=uc.Run(engine="python"), log=Filing(log, series="A")
        )
        log.override(1, task=task, action=12.5, **WORDS)
    assert list(verify_file(tmp_path / "log.db", task))[-1].status == "invalid"
