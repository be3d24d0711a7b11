"""Reward that came against reward that was expected, of decisions that were followed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.service.kit import PLAN, running

RISKY = PLAN.replace("depth = 2", "depth = 2\nrisk = 0.5")


def cost(on_hand: float, demand: float) -> float:
    """Of one period: what is left is held, what is missing is short."""
    return max(on_hand - demand, 0.0) * 1.0 + max(demand - on_hand, 0.0) * 9.0


def test_followed_decisions_are_valued_and_others_are_not(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path, plan=RISKY) as client:
            made = (await client.decide("A", "B", "C", "D")).json()["items"]
            assert (await client.get("/v1/monitors/orders")).json()["realised"]["decisions"] == 0

            async def report(i: int, demand: float, **more: Any) -> None:
                at = "2026-03-03T06:00:00+00:00"
                item = {"decision": made[i]["id"], "step": 1, "value": demand, "observed_at": at, **more}
                assert (await client.post("/v1/outcomes", {"items": [item]})).status_code == 201

            await report(0, 6.0, taken=made[0]["action"])
            await report(0, 600.0, taken=made[0]["action"])  # another report of the same step does not count
            await report(1, 20.0, taken=made[1]["action"])
            await report(2, 6.0, taken=made[2]["action"] + 1.0)  # something else was done
            await report(3, 6.0)  # nobody said what was done
            found = (await client.get("/v1/monitors/orders")).json()["realised"]
            # Stock 3 and 5 that arrive; members 4, 5.5, 7, 8.5 with mean 6.25.
            assert found["decisions"] == 2
            assert found["realised"] == pytest.approx(-(cost(8.0, 6.0) + cost(8.0, 20.0)) / 2)
            assert found["expected"] == pytest.approx(-cost(8.0, 6.25))
            rewards = [-cost(8.0, x) for x in (4.0, 5.5, 7.0, 8.5)]
            mean = sum(rewards) / 4
            spread = (sum((r - mean) ** 2 for r in rewards) / 4) ** 0.5
            assert found["eps_c"] == pytest.approx(abs(-cost(8.0, 6.25) + cost(8.0, 20.0)) - 0.5 * spread)
            page = await client.http.get("/v1/monitors", headers=client.headers("viewer"))
            assert page.json()["items"][0]["realised"] == found

    asyncio.run(go())
