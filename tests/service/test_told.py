"""Answers are made from what the writer still knows; a repeat is made from the bytes of the log. Both are equal."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.service.kit import CONFIG, PLAN, item, running
from ucsearch.service.writer.answers import answer

SLACK = PLAN.replace('"exact"\ndepth = 2', '"certified_beam"\ndepth = 2\nwidth = 4')
REFUSING = item("no forecast", level=4.0)
REFUSING["forecast"]["members"] = [[None, 2.0, 3.0], [3.0, 1.0, 2.0]]


@pytest.mark.parametrize("plan", [PLAN, SLACK])
@pytest.mark.parametrize("monitor", ["", "[plan.monitor]\n"])
def test_what_is_told_is_what_the_log_says(tmp_path: Path, plan: str, monitor: str) -> None:
    items = [item("one", 0.0, 1e-9), item("much", 3.0, 1e12), item("zero", 0.0, -0.0), item('Ω"\\ü', 7.5, 4.25)]

    async def run() -> None:
        async with running(tmp_path, CONFIG + monitor, plan) as client:
            for key, asked in (("alone", items[:1]), ("panel", items), ("refused", [REFUSING])):
                content = {"items": asked}
                first = await client.post("/v1/plans/orders/decisions", content, key=key)
                again = await client.post("/v1/plans/orders/decisions", content, key=key)
                assert first.status_code == 200, first.text
                assert first.content == again.content
                by_id = {row["id"]: row for row in first.json()["items"]}
                rows = [
                    row for row in await client.service.read(lambda reader: reader.list(limit=100)) if row.id in by_id
                ]
                assert len(rows) == len(asked)
                assert all(answer(row, json.loads(row.body)) == answer(row) for row in rows)

    asyncio.run(run())
