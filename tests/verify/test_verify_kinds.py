"""Kinds of entries that a service writes: their form, and what they are about, as far as anybody can check that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kit.logged import NOON, decide, new_log, refuse, tank
from ucsearch.records import Request
from ucsearch.verify import verify_file


def verdict(tmp_path: Path, record: dict[str, Any], *, of: Any = decide, wrong: bool = False) -> tuple[str, str]:
    """On an entry about a decision; `wrong` says something else about the decision than the log does."""
    with new_log(tmp_path) as log:
        of(log)
        target = log.get(1)
        about = {"decision": target.id, "digest": "0" * 64 if wrong else target.digest, "entry": 1}
        log.append((about if record["kind"] == "outcome" else {}) | record)
    found = list(verify_file(tmp_path / "log.db", tank))[1]
    return found.status, found.where


OUTCOME: dict[str, Any] = {
    "schema": "ucsearch.outcome/1", "kind": "outcome", "series": "A", "step": 1, "value": 3.5, "observed_at": NOON,
    "taken": 0.0, "reported_by": "till",
}  # fmt: skip
CONTROL: dict[str, Any] = {
    "schema": "ucsearch.control/1", "kind": "control", "plan": "orders", "action": "pause", "who": "M. Curie",
    "why": "stock-take", "at": NOON,
}  # fmt: skip

MONITOR: dict[str, Any] = {
    "schema": "ucsearch.monitor/1", "kind": "monitor", "plan": "orders", "series": "", "event": "armed", "evidence": 0,
    "count": 0, "about": "", "at": NOON, "by": "service", "why": "as its settings say",
    "settings": {
        "max_undercoverage": 0.035, "watch": "both", "within": 5000, "alpha": 0.01, "lags": 1, "probation": 50,
        "calm": 1000, "period": "day",
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (OUTCOME, ("valid", "")),
        (OUTCOME | {"value": [1.0, 2.0]}, ("valid", "")),
        (OUTCOME | {"request": Request.named("r", by="till").content()}, ("valid", "")),
        (OUTCOME | {"taken": None}, ("valid", "")),
        (OUTCOME | {"value": None}, ("malformed", "")),
        (OUTCOME | {"value": []}, ("malformed", "")),
        (OUTCOME | {"value": "3"}, ("malformed", "")),
        (OUTCOME | {"more": 1}, ("malformed", "")),
        (OUTCOME | {"step": 0}, ("invalid", "outcome.step")),
        (OUTCOME | {"series": "B"}, ("invalid", "outcome.series")),
        (OUTCOME | {"observed_at": "2024-05-01T12:00:00"}, ("invalid", "outcome.observed_at")),
        (CONTROL, ("valid", "")),
        (CONTROL | {"action": "resume", "until": NOON}, ("valid", "")),
        (CONTROL | {"action": "stop"}, ("malformed", "")),
        (CONTROL | {"who": " "}, ("invalid", "control.who")),
        (CONTROL | {"until": "soon"}, ("invalid", "control.until")),
        (MONITOR, ("valid", "")),
        ({"schema": "ucsearch.monitor/1", "kind": "monitor", "plan": "orders"}, ("malformed", "")),
        (MONITOR | {"settings": {}}, ("malformed", "")),
        (MONITOR | {"event": "tripped"}, ("invalid", "monitor.plan")),
        (MONITOR | {"at": "noon"}, ("invalid", "monitor.at")),
        (OUTCOME | {"rank": [0.2, 0.3]}, ("invalid", "outcome.rank")),
        (OUTCOME | {"rank": [0.3, 0.3]}, ("invalid", "outcome.rank")),
        (OUTCOME | {"replaces": "0" * 64}, ("invalid", "outcome.replaces")),
        ({"schema": "ucsearch.segment/1", "kind": "segment"}, ("malformed", "")),
        ({"schema": "ucsearch.segment/1", "kind": "decision"}, ("malformed", "")),
        ({"schema": "ucsearch.segment/2", "kind": "segment"}, ("malformed", "")),
        ({"schema": "ucsearch.decision/1", "kind": "control"}, ("malformed", "")),
    ],
    ids=lambda x: str(x)[:60],
)
def test_verdicts(tmp_path: Path, record: dict[str, Any], expected: tuple[str, str]) -> None:
    assert verdict(tmp_path, record) == expected


def test_a_report_is_about_the_decision_as_it_is(tmp_path: Path) -> None:
    assert verdict(tmp_path, OUTCOME, wrong=True) == ("invalid", "outcome.digest")


def test_a_report_may_be_about_a_refusal(tmp_path: Path) -> None:
    assert verdict(tmp_path, OUTCOME, of=refuse) == ("valid", "")
