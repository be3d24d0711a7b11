"""Counts of the day: only what is new is read, and what was left out is said."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from tests.service.kit import Client, Clock, item, running
from ucsearch.records.log import AuditReader
from ucsearch.service.queries import Tally


def test_every_decision_of_the_day_counts_once(tmp_path: Path) -> None:
    clock = Clock()

    async def refuse(client: Client) -> None:
        bad = item("R")
        bad["forecast"]["members"][0][0] = None
        assert (await client.post("/v1/plans/orders/decisions", {"items": [bad]})).status_code == 200

    async def go() -> None:
        async with running(tmp_path, clock=clock) as client:
            tally, small = Tally(), Tally(most=2)
            with AuditReader(tmp_path / "log" / "decisions.db") as log:
                assert tally.look(log, "orders", clock.now) == ({}, True)
                await client.decide("A", "B", "C")
                await refuse(client)
                counts, whole = tally.look(log, "orders", clock.now)
                assert (sum(counts.values()), whole) == (4, True)
                assert counts["RELEASED", "none"] == 3
                assert tally.look(log, "orders", clock.now) == (counts, True)  # nothing twice
                await client.decide("A")
                await refuse(client)
                counts, _ = tally.look(log, "orders", clock.now)
                assert sum(counts.values()) == 6
                assert tally.look(log, "other", clock.now) == ({}, True)
                # More than it goes back for is told.
                assert small.look(log, "orders", clock.now)[1] is False
                clock.now += timedelta(days=1)
                assert tally.look(log, "orders", clock.now) == ({}, True)
                await client.decide("D")
                assert tally.look(log, "orders", clock.now) == ({("RELEASED", "none"): 1}, True)

    asyncio.run(go())
