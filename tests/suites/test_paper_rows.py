"""The paper's remaining rows, each in its mini version from end to end; and what they describe beside the gates."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ucsearch.errors import InputError
from ucsearch.lab.suites.evidence.ledger import read_ledger
from ucsearch.lab.suites.evidence.manifest import read_evidence
from ucsearch.lab.suites.evidence.tables import fill
from ucsearch.lab.suites.gates.power import power_record
from ucsearch.lab.suites.gates.promotion import clusters_of
from ucsearch.lab.suites.kinds.walkforward.rows import calibration
from ucsearch.lab.suites.protocol.comparison import Protocol
from ucsearch.lab.suites.recheck.verify import verify_evidence
from ucsearch.lab.suites.run import evaluate
from ucsearch.lab.suites.suite import load_suite, parse_suite
from ucsearch.replay.statistics import mean


def test_a_row_of_the_paper_runs_and_verifies(tmp_path: Path) -> None:
    run = evaluate("ltsf-inventory-mini", tmp_path, threads=1, underpowered=True)
    report = verify_evidence(run.folder)
    assert (report.problems, report.malformed) == ((), "")
    predicate = run.statement["predicate"]
    assert predicate["verdict"]["value"]["class"] in ("passed", "not passed")
    tables = {table["name"]: table for table in predicate["tables"]}
    leads = {line[0]: line[1:] for line in tables["leads"]["rows"]}
    rows = [row for row in read_evidence(run.folder).rows if row["split"] == "test"]
    for policy, (lead, low, high, weakest, strongest) in leads.items():
        if policy == "uc":
            assert lead is None
            continue
        assert weakest <= lead <= strongest
        assert (low is None) is (high is None)
        families: dict[str, list[float]] = {}
        for row in rows:
            if policy in row["policies"]:
                apart = row["policies"]["uc"]["utility"] - row["policies"][policy]["utility"]
                families.setdefault(row["family"], []).append(apart)
        assert lead == pytest.approx(mean([mean(values) for values in families.values()]), abs=1e-12)
    for line in tables["calibration"]["rows"]:
        assert 0.0 <= line[1] <= line[2] <= 1.0


def test_a_look_that_is_likely_wasted_leaves_the_test_closed(tmp_path: Path) -> None:
    text = load_suite("m4-balanced200-mini").text.replace("arrivals = 2", "arrivals = 2\npower = true")
    suite = parse_suite(text)
    said: list[str] = []
    run = evaluate(suite, tmp_path, threads=1, say=said.append)
    assert [line.partition(":")[0] for line in said] == ["power of the paper's gate at the declared size"]
    assert read_ledger(tmp_path / "looks.jsonl") == []
    predicate = run.statement["predicate"]
    assert predicate["selection"]["power"] < 0.5
    assert {row["split"] for row in read_evidence(run.folder).rows} == {"validation"}
    assert predicate["verdict"]["class"] == "boundary"
    assert "the test stays closed" in predicate["verdict"]["reasons"][0]
    assert verify_evidence(run.folder).ok


def test_later_settings_leave_older_suites_as_they_were() -> None:
    held = load_suite("ett-inventory-mini").as_json()["walkforward"]
    assert {"levels", "leads", "power"} & set(held) == set()
    made = load_suite("ltsf-inventory-mini").as_json()["walkforward"]
    assert made["levels"] == [0.8, 0.95]
    assert made["leads"] is True


def test_settings_that_cannot_be_are_refused() -> None:
    text = load_suite("ltsf-inventory-mini").text
    with pytest.raises(InputError, match="levels between 0 and 1"):
        parse_suite(text.replace("levels = [0.8, 0.95]", "levels = [0.8, 1.0]"))
    few = text.replace("leads = true", "power = true").replace("wide = false", "wide = false\nvalidation = false")
    with pytest.raises(InputError, match="power only with gate"):
        parse_suite(few)


class _Panel:
    def __init__(self, members: Any, future: Any) -> None:
        self.members, self.future = members, future


def test_calibration_counts_what_lies_within() -> None:
    # One window of two decisions, four members, one step; Weibull's quartiles of 1, 2, 3, 4 are 1.25 and 3.75.
    members = np.array([[[[1.0], [2.0], [3.0], [4.0]]] * 2])
    found = calibration(_Panel(members, np.array([[[2.0], [9.0]]])), 0, 1, (0.5,))  # type: ignore[arg-type]
    assert found["outcomes"] == 2
    assert found["inside_0.5"] == 1
    assert found["below"] == 1
    # CRPS by its definition, as the mean over both.
    each = []
    for y in (2.0, 9.0):
        xs = [1.0, 2.0, 3.0, 4.0]
        each.append(mean([abs(x - y) for x in xs]) - 0.5 * mean([abs(a - b) for a in xs for b in xs]))
    assert found["crps"] == pytest.approx(mean(each), rel=1e-14)


def _protocol(families: dict[str, str]) -> Protocol:
    return Protocol(suite="x", seed=1, form="cost", metric="cost", utility="utility", families=families)


def test_the_sets_of_the_ltsf_packaging_are_data_sets_of_their_own() -> None:
    found = clusters_of(_protocol({"ett-ETTh1": "ett", "ltsf-weather": "ltsf", "ltsf-traffic_bay100_log": "ltsf"}))
    assert found == {"ett-ETTh1": "ett", "ltsf-weather": "ltsf-weather", "ltsf-traffic_bay100_log": "ltsf-traffic"}


def test_an_interval_by_data_sets_holds_the_mean_and_needs_two() -> None:
    rows = [
        {"split": "test", "family": f, "series": "s", "window": 0, "policies": {"cem": {"lead": v}}}
        for f, v in (("a", 1.0), ("b", 3.0), ("c", 8.0))
    ]
    column = {"name": "Low", "from": "lead", "how": "cluster_low", "clusters": {"a": "x", "b": "y", "c": "y"}}
    high = {**column, "name": "High", "how": "cluster_high"}
    spec = {"name": "t", "title": "t", "split": "test", "group": ["policy"], "columns": [column, high]}
    assert fill(spec, rows)["rows"] == [["cem", 1.0, 5.5]]
    alone = {**spec, "columns": [{**column, "clusters": dict.fromkeys("abc", "x")}]}
    assert fill(alone, rows)["rows"] == [["cem", None]]


def _validation(deltas: list[float]) -> list[dict[str, Any]]:
    return [
        {
            "split": "validation", "family": "f", "series": f"s{n}", "window": 0, "decisions": 1,
            "candidates": {"c": {"policies": {"uc": {"cost": 1.0}, **{
                k: {"cost": (1.0 + d) / (1.0 - d)} for k in ("cem", "mppi", "risk-random")
            }}}},
        }
        for n, d in enumerate(deltas)
    ]  # fmt: skip


def test_power_of_the_papers_gate() -> None:
    protocol = _protocol({"f": "d"})
    sure = power_record(_validation([0.1, 0.11, 0.12] * 4), protocol, {"candidate": "c"})
    assert sure == {"all": 1.0, "families": {"f": 1.0}}
    never = power_record(_validation([-0.1, 0.1, 0.02] * 4), protocol, {"candidate": "c"})
    assert never["all"] < 0.2
    assert power_record(_validation([0.1] * 4), protocol, {"candidate": None})["all"] == 0.0
    assert math.isfinite(never["all"])
