"""States of a shape that nobody announced: the plain engine answers while their kernel is made, no request waits."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.service.kit import CONFIG, PLAN, item, make_folder, open_service, running
from ucsearch.errors import InputError
from ucsearch.service.writer.plans import Kernels, Warmed, warm_rows

COMPILED = PLAN.replace('engine = "python"', 'engine = "compiled"')


class Making:
    """Stands for a kernel that takes as long as a test wants."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fails: bool = False) -> None:
        self.done, self.rows, self.fails = threading.Event(), [], fails  # type: ignore[var-annotated]
        real = Kernels.make
        monkeypatch.setattr(Kernels, "make", lambda kernels, settings, rows: self.make(real, kernels, settings, rows))

    def make(self, real: Any, kernels: Kernels, settings: Any, rows: Any) -> Warmed:
        self.rows += rows
        self.done.wait(20.0)
        from dataclasses import replace

        from ucsearch.planner.decide.in_memory import rows_work
        from ucsearch.service.writer import plans as module

        work = rows_work(replace(settings, run=replace(settings.run, engine="python")), rows, None)
        with kernels._lock:
            for case in work.states.cases.values():
                kernels._shapes[module._shape_of(case)] = (case.kind.task, "failed" if self.fails else "ready")
        return Warmed("compiled", "")


def asked(lead_time: int) -> dict[str, Any]:
    return {"items": [{**item("A"), "state": {"on_hand": 3.0, "open_orders": [5.0], "lead_time": lead_time}}]}


def test_nobody_waits_for_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    making = Making(monkeypatch)

    async def go() -> None:
        async with running(tmp_path, plan=COMPILED) as client:
            started = time.monotonic()
            for _ in range(3):
                answer = await client.post("/v1/plans/orders/decisions", asked(1))
                assert answer.status_code == 200, answer.text
                assert answer.json()["items"][0]["outcome"] == "RELEASED"
            assert (await client.post("/v1/plans/orders/decisions", asked(2))).status_code == 200
            assert time.monotonic() - started < 5.0
            await asyncio.sleep(0.05)
            assert [row.get("lead_time") for row in making.rows] == [1, 2]  # each is made once
            making.done.set()

    asyncio.run(go())


def test_what_is_too_much_for_the_plain_engine_is_asked_again_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    making = Making(monkeypatch)
    monkeypatch.setattr("ucsearch.service.writer.plans._PLAINLY", 10)

    async def go() -> None:
        async with running(tmp_path, plan=COMPILED) as client:
            answer = await client.decide("A", key="k")
            assert (answer.status_code, answer.json()["code"]) == (503, "not_ready")
            assert answer.headers["retry-after"] == "15"
            making.done.set()

    asyncio.run(go())


@pytest.mark.parametrize("plain", [False, True])
def test_a_shape_without_a_kernel_is_refused_unless_the_plan_allows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plain: bool
) -> None:
    making = Making(monkeypatch, fails=True)
    making.done.set()

    async def go() -> None:
        async with running(tmp_path, CONFIG + ("allow_plain = true\n" if plain else ""), COMPILED) as client:
            assert (await client.decide("A")).status_code == 200
            for _ in range(100):
                found = await client.decide("A")
                if plain or found.status_code != 200:
                    break
                await asyncio.sleep(0.01)
            assert found.status_code == (200 if plain else 422)

    asyncio.run(go())


def test_shapes_are_announced(tmp_path: Path) -> None:
    make_folder(tmp_path, CONFIG + "shapes = [{ lead_time = 2 }, { lead_time = 4 }]\n", COMPILED)
    plan = open_service(tmp_path).plans["orders"]
    rows = warm_rows(plan.settings, plan.table.shapes)
    assert [(row.get("lead_time"), len(row["forecast"]["members"][0])) for row in rows] == [(None, 2), (2, 3), (4, 5)]
    with pytest.raises(InputError, match="shapes"):
        warm_rows(plan.settings, [{"nonsense": 2}])
