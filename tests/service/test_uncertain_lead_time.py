"""A plan whose lead time is uncertain in a service: decided, reported, watched, explained and verified."""

from __future__ import annotations

from pathlib import Path

from tests.service.kit import CONFIG, START, make_folder, open_service
from tests.service.test_two_suppliers import item
from ucsearch.client import Client, Outcome
from ucsearch.service.run import embedded
from ucsearch.verify import verify_log

PLAN = """
units = "pieces"
currency = "EUR"
period = "day"
[task]
name = "lead_time_inventory"
lead_time = { 1 = 0.5, 2 = 0.5 }
holding = 0.1
shortage = 5.0
unit_cost = 1.0
price_breaks = { 8 = 0.9 }
order_sizes = [0.0, 4.0, 8.0]
[policy]
name = "exact"
mode = "closed"
depth = 4
[run]
engine = "python"
"""
WATCHED = CONFIG + "[plan.monitor]\nmax_undercoverage = 0.035\n"


def test_orders_are_decided_reported_and_verified(tmp_path: Path) -> None:
    tokens = make_folder(tmp_path, '[server]\nbind = "127.0.0.1:0"\n' + WATCHED, PLAN)
    with (
        embedded(open_service(tmp_path)) as url,
        Client(url, tokens["agent"]) as agent,
        Client(url, tokens["operator"]) as operator,
    ):
        a, b = agent.decide("orders", [item("A"), item("B", 40.0)], key="morning")
        assert (a.outcome, b.outcome, b.action) == ("RELEASED", "RELEASED", 0.0)
        assert a.action > 0.0
        told = agent.outcomes([Outcome(a.id, 3.0, START, taken=a.action)])  # demand alone: nobody reports a draw
        assert told[0].content["items"][0]["followed"]
        assert "ordered one period ago" in operator.explain(a.id)["text"]
        assert operator.verify(a.id)["status"] == "valid"
    assert {v.status for v in verify_log(tmp_path / "log/decisions.db")} == {"valid"}
