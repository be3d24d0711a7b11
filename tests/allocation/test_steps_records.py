"""An allocation over several steps in the log: derived again by the verifier, every forged figure found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucsearch as uc
from tests.allocation.kit import newest_decisions, record_of
from ucsearch.allocation.problem import Shared
from ucsearch.allocation.record import write_allocation
from ucsearch.decision import Filing
from ucsearch.records.canonical import blob_id, decode_array, encode_array, seal
from ucsearch.student import student_quantile
from ucsearch.tasks import LeadTimeInventory
from ucsearch.tasks.registry import address
from ucsearch.verify import verify_file
from ucsearch.verify.allocation_later import levels, student

CONFIG = LeadTimeInventory(lead_time=0, order_sizes=(0.0, 2.0, 4.0), shortage=9.0, fixed_cost=1.0, capacity=6.0)
NAMES = ["a", "b", "c", "d"]
TRUCK = Shared(name="truck", limit=[3.0, 4.0, 2.0], use="units", times=dict.fromkeys(NAMES, 0.5))
LINES = Shared(name="lines", limit={"A": 1, "B": 2}, use="lines", per={"a": "A", "b": "A", "c": "B"}, steps=2)


def log_of(folder: Path, **policy: Any) -> tuple[Path, uc.DecisionPanel]:
    rng = np.random.default_rng(3)
    trace = uc.Trace.from_members(
        rng.poisson(rng.uniform(1.0, 3.0, 4)[:, None, None], (4, 3, 3)).astype(float), coupling="independent"
    )
    states = [CONFIG.state(float(rng.integers(0, 3)), ()) for _ in NAMES]
    path = folder / "decisions.db"
    chosen: Any = uc.Exact(**{"depth": 3, "mode": "closed", **policy})
    with uc.AuditLog(path) as log:
        panel = uc.decide_panel(
            CONFIG.task(),
            states,
            trace,
            chosen,
            run=uc.Run(engine="python"),
            log=Filing(log, series=NAMES, where=address(CONFIG)),
        )
    return path, panel


@pytest.fixture
def logged(tmp_path: Path) -> tuple[Path, uc.DecisionPanel]:
    return log_of(tmp_path)


def verdicts(path: Path) -> list[str]:
    return [v.status for v in verify_file(path)]


@pytest.mark.parametrize("terms", [{"serve": "best"}, {"gap_share": 10.0}, {"serve": "best", "draws": "common"}, {}])
def test_a_recorded_allocation_over_steps_is_valid(
    logged: tuple[Path, uc.DecisionPanel], terms: dict[str, Any]
) -> None:
    path, panel = logged
    found = uc.allocate(panel, [TRUCK, LINES], series=NAMES, **terms)
    assert found.served == bool(terms)
    with uc.AuditLog(path) as log:
        written = write_allocation(found, log, newest_decisions(log))
        log.export_jsonl(path.with_suffix(".jsonl"))
    assert written.record_id
    assert verdicts(path) == ["valid"] * 5
    assert verdicts(path.with_suffix(".jsonl")) == ["valid"] * 5


def test_later_limits_that_cannot_be_kept_are_derived_again(tmp_path: Path) -> None:
    """Something must be ordered at every step; the reason cannot be swapped for the milder or the graver one."""
    must = LeadTimeInventory(lead_time=0, order_sizes=(1.0, 2.0))
    trace = uc.Trace.from_members(np.full((3, 2, 3), 2.0), coupling="independent")
    path = tmp_path / "decisions.db"
    with uc.AuditLog(path) as log:
        panel = uc.decide_panel(
            must.task(), [must.state(0.0, ())] * 3, trace, uc.Exact(depth=3, mode="closed"),
            run=uc.Run(engine="python"), log=Filing(log, series=NAMES[:3], where=address(must)),
        )  # fmt: skip
        rows = newest_decisions(log)
        own = [rows[name] for name in NAMES[:3]]
        told = []
        for limits in ([9.0, 3.0, 2.5], [9.0, 3.0, 3.0]):
            shared = Shared(name="truck", limit=limits, use="units")
            found = uc.allocate(panel, shared, series=NAMES[:3], gap_limit=0.0, gap_share=0.0)
            write_allocation(found, log, rows)
            told.append(found.reason.value)
            record = record_of(found, own)
            if found.served:
                continue
            other = {"budget_infeasible": "allocation_gap", "allocation_gap": "budget_infeasible"}[found.reason.value]
            forged = {**record, "claim": {**record["claim"], "reason": other}}
            log.append(seal({k: v for k, v in forged.items() if k not in ("id", "digest")}), {})
    assert told[0] == "budget_infeasible"
    assert verdicts(path)[3:5] == ["valid", "invalid"]


def test_a_small_budget_leaves_it_in_doubt(logged: tuple[Path, uc.DecisionPanel]) -> None:
    path, panel = logged
    with uc.AuditLog(path) as log:
        write_allocation(uc.allocate(panel, TRUCK, series=NAMES, serve="best"), log, newest_decisions(log))
    assert [v.status for v in verify_file(path, budget=5)][-1] == "weaker"


def test_discounted_steps_are_derived_too(tmp_path: Path) -> None:
    path, panel = log_of(tmp_path, discount=0.9)
    with uc.AuditLog(path) as log:
        write_allocation(uc.allocate(panel, [TRUCK, LINES], series=NAMES, serve="best"), log, newest_decisions(log))
    assert verdicts(path) == ["valid"] * 5


def _price(r: dict[str, Any], factor: float) -> None:
    row = r["later"]["prices"][0][0]
    row[0] = row[0] * factor + 0.1


FORGERIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a smaller bound": lambda r: r["later"].update(bound=r["later"]["bound"] * 0.5),
    "a smaller mean": lambda r: r["later"].update(mean=0.0),
    "another rent": lambda r: r["later"].update(rent=r["later"]["rent"] + 1.0),
    "another value without limits": lambda r: r["later"].update(free=r["later"]["free"] + 1.0),
    "other prices": lambda r: _price(r, 1.5),
    "a price below zero": lambda r: r["later"]["prices"][0][0].__setitem__(0, -1.0),
    "a price where there is no limit": lambda r: r["later"]["prices"][1][0].__setitem__(1, 1.0),
    "a price too many": lambda r: r["later"]["prices"][0][0].append(0.0),
    "other draws": lambda r: r["later"].update(draws="common"),
    "a smaller limit later": lambda r: r["shared"][0]["later"].update({"": [1.0, 2.0]}),
    "a wider limit later": lambda r: r["shared"][0]["later"].update({"": [40.0, 2.0]}),
    "a step too many": lambda r: r["shared"][0]["later"].update({"": [4.0, 2.0, 1.0]}),
    "no later steps": lambda r: r.update(later=None),
    "as if there were none": lambda r: (r.update(schema="ucsearch.allocation/1"), r.pop("later")),
    "another group": lambda r: r["shared"][1]["later"].update({"C": [1.0]}),
    "another first action": lambda r: r["members"][0].update(action=4 if r["members"][0]["action"] != 4 else 0),
    "a better value": lambda r: r["claim"].update(lower=r["claim"]["lower"] + 1.0),
    "passed": lambda r: r["claim"].update(passed=True, reason="none"),
    "not a number": lambda r: r["later"].update(bound="inf"),
}


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The verdict on each forgery, all in one log; a genuine allocation after them shows that none taints another."""
    path, panel = log_of(tmp_path_factory.mktemp("forged"))
    found = uc.allocate(panel, [TRUCK, LINES], series=NAMES, serve="best", gap_share=0.0)
    assert not found.passed
    assert found.later is not None
    with uc.AuditLog(path) as log:
        rows = newest_decisions(log)
        write_allocation(found, log, rows)  # with the paths, to which the forgeries refer
        for forge in FORGERIES.values():
            record = json.loads(json.dumps(record_of(found, [rows[n] for n in NAMES])))
            del record["id"]
            forge(record)
            log.append(seal(record))
        write_allocation(found, log, rows)
    first, *told, last = verdicts(path)[len(NAMES) :]
    assert (first, last) == ("valid", "valid")
    return dict(zip(FORGERIES, told, strict=True))


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_figure_is_found(judged: dict[str, str], name: str) -> None:
    assert judged[name] in ("invalid", "malformed")


@pytest.mark.parametrize("change", ["another action", "fewer paths", "an action that is not there", "half a number"])
def test_forged_paths_are_found(logged: tuple[Path, uc.DecisionPanel], change: str) -> None:
    path, panel = logged
    found = uc.allocate(panel, [TRUCK, LINES], series=NAMES, serve="best", gap_share=0.0)
    assert found.later is not None
    choices = found.later.choices.astype(float)
    if change == "another action":
        choices[0, 1] = (choices[0, 1] + 1.0) % 3.0
    elif change == "fewer paths":
        choices = choices[:19]
    else:
        choices[3, 1, 2] = 7.0 if change == "an action that is not there" else 0.5
    data = encode_array(choices)
    assert (decode_array(data) == choices).all()
    with uc.AuditLog(path) as log:
        rows = newest_decisions(log)
        record = json.loads(json.dumps(record_of(found, [rows[n] for n in NAMES])))
        del record["id"]
        record["later"]["choices"] = {"$blob": blob_id(data)}
        log.append(seal(record), {blob_id(data): data})
    assert verdicts(path)[4] == "invalid"


@pytest.mark.parametrize("df", [1, 2, 3, 19, 23, 200])
def test_the_verifiers_quantile_is_the_same(df: int) -> None:
    assert student(0.975, df) == pytest.approx(student_quantile(0.975, df), rel=1e-9)


def test_the_verifiers_draws_are_the_same() -> None:
    from ucsearch.allocation.later.paths import levels as own

    names = ["SKU-ß", "b", "c"]
    assert levels(names, 7, 5, False) == own(names, 7, 5, "independent").tolist()
    assert levels(names, 7, 5, True) == own(names, 7, 5, "common").tolist()
