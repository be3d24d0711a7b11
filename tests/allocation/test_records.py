"""An allocation in the log: read back, verified, and every forged figure found."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.allocation.kit import newest_decisions, record_of
from ucsearch.allocation.api import Terms, allocate_cases
from ucsearch.allocation.record import recorded_case, write_allocation
from ucsearch.decision import Filing
from ucsearch.records.canonical import seal
from ucsearch.tasks import LeadTimeInventory
from ucsearch.tasks.registry import address
from ucsearch.verify import verify_file

CONFIG = LeadTimeInventory(lead_time=1, order_sizes=(0.0, 6.0, 12.0, 18.0), holding=1.0, shortage=9.0, fixed_cost=4.0)
NAMES = [f"SKU-{i}" for i in range(8)]


@pytest.fixture
def logged(tmp_path: Path) -> Path:
    return log_in(tmp_path)


def log_in(folder: Path) -> Path:
    rng = np.random.default_rng(4)
    trace = uc.Trace.from_members(rng.poisson(rng.uniform(4.0, 14.0, 8)[:, None, None], (8, 6, 2)).astype(float))
    states = [CONFIG.state(float(rng.integers(0, 8)), [float(rng.integers(0, 6))]) for _ in NAMES]
    path = folder / "decisions.db"
    policy = uc.Exact(depth=2, mode="members", every_action=True)
    with uc.AuditLog(path) as log:
        uc.decide_panel(
            CONFIG.task(), states, trace, policy, proof=uc.Proof(kind="oracle"), run=uc.Run(engine="python"),
            log=Filing(log, series=NAMES, where=address(CONFIG)),
        )  # fmt: skip
    return path


def allocated(path: Path, limit: float = 30.0, **terms: Any) -> uc.Allocation:
    with uc.AuditLog(path) as log:
        rows = newest_decisions(log)
        cases = [recorded_case(row, log) for row in rows.values()]
        shared = [
            uc.Shared(name="truck", limit=limit, use="units", times=dict.fromkeys(NAMES, 1.5)),
            uc.Shared(
                name="lines", limit={"A": 3, "B": 4}, use="lines", per={n: "AB"[i % 2] for i, n in enumerate(NAMES)}
            ),
        ]
        found = allocate_cases(cases, shared, Terms(**terms))
        return write_allocation(found, log, rows)


def verdicts(path: Path) -> list[str]:
    return [v.status for v in verify_file(path)]


@pytest.mark.parametrize("terms", [{"serve": "best"}, {"gap_share": 0.0}, {"gap_limit": 1e6}, {"limit": 0.0}])
def test_a_recorded_allocation_is_valid(logged: Path, terms: dict[str, Any]) -> None:
    found = allocated(logged, **terms)
    assert found.record_id
    assert verdicts(logged) == ["valid"] * 9


def test_the_log_gives_the_same_as_the_decisions(logged: Path) -> None:
    with uc.AuditLog(logged) as log:
        rows = newest_decisions(log)
        cases = [recorded_case(row, log) for row in rows.values()]
    found = allocate_cases(cases, uc.Shared(name="truck", limit=33.0, use="units"), Terms(serve="best"))
    assert sum(s.uses[0] for s in found.shares) <= 30.0
    assert [c.series for c in cases] == NAMES


def _first(record: dict[str, Any]) -> dict[str, Any]:
    member: dict[str, Any] = record["members"][0]
    return member


def just_below(record: dict[str, Any]) -> float:
    """One rounding below what the members use."""
    return math.nextafter(math.fsum(member["action"] or 0.0 for member in record["members"]), 0.0)


FORGERIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a better bound": lambda r: r["claim"].update(upper=r["claim"]["lower"]),
    "a better value": lambda r: r["claim"].update(lower=r["claim"]["lower"] + 1.0),
    "passed": lambda r: r["claim"].update(passed=True, reason="none"),
    "a limit just below what is used": lambda r: r["shared"][0]["limits"].update({"": just_below(r)}),
    "a wider limit": lambda r: r["shared"][0]["limits"].update({"": 1.0}),
    "another action": lambda r: _first(r).update(action=18 if _first(r)["action"] == 0 else 0),
    "an action without a value": lambda r: _first(r).update(action=7),
    "another outcome": lambda r: _first(r).update(outcome="HOLD"),
    "a price below zero": lambda r: r["prices"][0].__setitem__(0, -1),
    "other prices": lambda r: r["prices"][0].__setitem__(0, r["prices"][0][0] * 1.5 + 1.0),
    "a price in quotes": lambda r: r["prices"][0].__setitem__(0, str(r["prices"][0][0])),
    "a value in quotes": lambda r: r["claim"].update(lower=str(r["claim"]["lower"])),
    "a truth for a number": lambda r: r["shared"][0]["times"].__setitem__(0, True),
    "a price too many": lambda r: r["prices"][0].append(0),
    "smaller goods": lambda r: r["shared"][0]["times"].__setitem__(0, 100.0),
    "another use": lambda r: r["shared"][0].update(use="spend"),
    "no such use": lambda r: r["shared"][0].update(use="weight"),
    "another series": lambda r: _first(r).update(series="SKU-9"),
    "another entry": lambda r: _first(r).update(entry=2),
    "another digest": lambda r: _first(r).update(digest="0" * 64),
    "a series left out": lambda r: r["members"].pop(),
    "a series twice": lambda r: r["members"].__setitem__(1, copy.deepcopy(_first(r))),
    "nobody adjusted": lambda r: r["claim"].update(adjusted=99),
    "an unknown group": lambda r: r["shared"][1]["groups"].__setitem__(0, "C"),
}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The verdict on each forgery, all in one log; a genuine allocation after them shows that none taints another."""
    path = log_in(tmp_path_factory.mktemp("forged"))
    with uc.AuditLog(path) as log:
        rows = newest_decisions(log)
        cases = [recorded_case(row, log) for row in rows.values()]
        shared = [
            uc.Shared(name="truck", limit=33.0, use="units"),
            uc.Shared(
                name="lines", limit={"A": 3, "B": 4}, use="lines", per={n: "AB"[i % 2] for i, n in enumerate(NAMES)}
            ),
        ]
        found = allocate_cases(cases, shared, Terms(serve="best", gap_share=0.0))
        assert not found.passed
        for forge in FORGERIES.values():
            record = json.loads(json.dumps(record_of(found, [rows[c.series] for c in cases])))
            del record["id"]
            forge(record)
            log.append(seal(record))
        write_allocation(found, log, rows)
    *told, last = verdicts(path)[len(NAMES) :]
    assert last == "valid"
    return dict(zip(FORGERIES, told, strict=True))


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_allocation_is_found(judged: dict[str, str], name: str) -> None:
    assert judged[name] in ("invalid", "malformed")


def test_a_use_without_a_name_is_not_recorded(logged: Path) -> None:
    with uc.AuditLog(logged) as log:
        rows = newest_decisions(log)
        cases = [recorded_case(row, log) for row in rows.values()]
        found = allocate_cases(cases, uc.Shared(name="truck", limit=30.0, use=lambda s, a, p: a))
        with pytest.raises(uc.UCSearchError, match="name of one of the task's uses"):
            write_allocation(found, log, rows)
