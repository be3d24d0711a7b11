"""Decisions without files: the same as with files, and every bad row says why."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.planner.kit import NAMES, decide, forecast_rows, make_settings, read_csv, state_rows, write_job
from ucsearch.errors import InputError
from ucsearch.planner import decide_cases
from ucsearch.records.log import AuditLog


def rows() -> list[dict[str, Any]]:
    """The kit's files as rows."""
    steps = forecast_rows()
    return [
        {
            "series": name, "on_hand": stock, "open_orders": [due],
            "forecast": {"members": [[r[2 + j] for r in steps if r[0] == name] for j in range(4)]},
        }
        for name, stock, due in state_rows()
    ]  # fmt: skip


def test_rows_and_files_decide_alike(tmp_path: Path) -> None:
    write_job(tmp_path)
    decide(tmp_path)
    filed = read_csv(tmp_path / "out.csv")
    found = decide_cases(make_settings(), rows())
    assert [row["series"] for row in found] == list(NAMES)
    kept = ("series", "outcome", "reason", "sentence", "problem")
    for a, b in zip(found, filed, strict=True):
        assert list(a) == list(b)
        assert {k: a[k] for k in kept} == {k: b[k] for k in kept}
        for name in ("action", "order", "margin", "regret_bound"):  # a table for people has twelve digits
            told = "" if a[name] is None else float(f"{a[name]:.12g}")
            assert told == ("" if b[name] == "" else float(b[name])), name


def test_members_in_an_array_are_decided_as_in_lists() -> None:
    """Where every value can be used, and where one cannot and is looked at closely, and of other axes than two."""
    given = rows()
    for change in (0.0, 2e15):
        for row in given:
            row["forecast"]["members"][0][0] = row["forecast"]["members"][0][0] + change
        arrays = [{**r, "forecast": {"members": np.array(r["forecast"]["members"], dtype=np.float64)}} for r in given]
        assert decide_cases(make_settings(), arrays) == decide_cases(make_settings(), given)
    for odd in (np.zeros(3), np.zeros((2, 0))):
        with pytest.raises(InputError, match="forecast"):
            decide_cases(make_settings(), [{**given[0], "forecast": {"members": odd}}])
    deep, listed = ([{**given[0], "forecast": {"members": m}}] for m in (np.zeros((2, 2, 2)), [[[0.0] * 2] * 2] * 2))
    assert decide_cases(make_settings(), deep) == decide_cases(make_settings(), listed)


def test_decisions_are_in_the_log_and_a_repeated_request_is_not_written_twice(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "log.db") as log:
        first = decide_cases(make_settings(), rows(), log, request="order run 7")
        again = decide_cases(make_settings(), rows(), log, request="order run 7")
        assert [r["certificate"] for r in first] == [r["certificate"] for r in again]
        assert log.count() == len(NAMES)
        decide_cases(make_settings(), rows()[:1], log, request="order run 8")
        assert log.count() == len(NAMES) + 1


def test_a_row_that_cannot_be_used_says_why_and_stops_nobody() -> None:
    given = rows()
    given[1]["on_hand"] = "plenty"
    given[2]["forecast"]["members"][0][1] = None
    given[3]["lead_time"] = 2.5
    found = decide_cases(make_settings(), given)
    assert found[0]["outcome"] == "RELEASED"
    assert "'plenty'" in found[1]["problem"]
    assert found[1]["outcome"] == "REFUSED"
    assert "row" in found[2]["problem"]
    assert found[2]["outcome"] in ("FALLBACK", "REFUSED")
    assert "lead_time" in found[3]["problem"]
    assert found[4]["outcome"] == "RELEASED"


def test_means_and_quantiles_and_series_of_their_own_lead_time() -> None:
    row = {"series": "A", "on_hand": 4.0, "lead_time": 2, "open_orders": [3.0, 0.0]}
    mean = {"mean": [5.0, 6.0, 7.0], "std": [1.0, 1.0, 2.0]}
    quantiles = {"q0.1": [3.0, 3.0, 3.0], "q0.5": [5.0, 5.0, 5.0], "q0.9": [8.0, 8.0, 8.0]}
    for forecast in (mean, quantiles):
        (found,) = decide_cases(make_settings(), [{**row, "forecast": forecast}])
        assert found["outcome"] == "RELEASED", found


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"forecast": None}, "forecast"),
        ({"forecast": {}}, "same length"),
        ({"forecast": {"members": [[1.0, 2.0, 3.0], [1.0]]}}, "same length"),
        ({"forecast": {"members": 3}}, "members"),
        ({"forecast": {"mean": 3.0, "std": 1.0}}, "forecast.mean"),
        ({"series": ""}, "series"),
        ({"series": "B"}, "again"),
    ],
)
def test_a_call_that_cannot_be_read_is_refused(change: dict[str, Any], where: str) -> None:
    given = rows()[:2]
    given[0].update(change)
    with pytest.raises(InputError, match=where):
        decide_cases(make_settings(), given)
    with pytest.raises(InputError, match="rows"):
        decide_cases(make_settings(), [])


def test_the_age_of_a_forecast_is_looked_at() -> None:
    settings = make_settings("[gate]\ncertificate = true\nmax_trace_age_s = 3600.0\n")
    row = rows()[0]
    row["forecast"]["issued"] = "2024-05-20T06:00:00Z"
    with pytest.raises(InputError, match="now"):
        decide_cases(settings, [row])
    (late,) = decide_cases(settings, [row], now=datetime(2024, 5, 20, 9, tzinfo=UTC))
    assert late["reason"] == "stale_trace"
    (fresh,) = decide_cases(settings, [row], now=datetime(2024, 5, 20, 6, 30, tzinfo=UTC))
    assert fresh["outcome"] == "RELEASED"
