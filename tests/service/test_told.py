"""Answers are made from what the writer still knows; a repeat is made from the bytes of the log. Both are equal."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.service.kit import CONFIG, PLAN, item, running
from ucsearch.service.answers import answer, answers, monitor_of
from ucsearch.service.plan_state import due_at

SLACK = PLAN.replace('"exact"\ndepth = 2', '"certified_beam"\ndepth = 2\nwidth = 4')
REFUSING = item("no forecast", level=4.0)
REFUSING["forecast"]["members"] = [[None, 2.0, 3.0], [3.0, 1.0, 2.0]]


@pytest.mark.parametrize("plan", [PLAN, SLACK])
@pytest.mark.parametrize("monitor", ["", "[plan.monitor]\n"])
def test_what_is_told_is_what_the_log_says(tmp_path: Path, plan: str, monitor: str) -> None:
    items = [item("one", 0.0, 1e-9), item("much", 3.0, 1e12), item("zero", 0.0, -0.0), item('Ω"\\ü', 7.5, 4.25)]
    kept: list[tuple[Any, Any]] = []

    async def run() -> None:
        async with running(tmp_path, CONFIG + monitor, plan) as client:
            writer, named = client.service.writer, client.service.plans["orders"]
            commit = writer._commit

            def watched(made: Any) -> None:
                kept.extend((json.loads(body.body), body.told) for _, own in made.jobs for body in own)
                commit(made)

            writer._commit = watched  # type: ignore[method-assign]
            for key, asked in (("alone", items[:1]), ("panel", items), ("refused", [REFUSING])):
                content = {"items": asked}
                first = await client.post("/v1/plans/orders/decisions", content, key=key)
                again = await client.post("/v1/plans/orders/decisions", content, key=key)
                assert first.status_code == 200, first.text
                assert first.content == again.content
            rows = await client.service.read(lambda reader: reader.list(limit=100))
            by_id = {row.id: row for row in rows}
            assert len(kept) == 6
            for record, told in kept:
                assert told is not None
                row = by_id[record["id"]]
                assert answers([row], lambda _, known=record: known) == answers([row]), "the log's own bytes"
                assert answer(row, told) == answer(row, record)
                assert monitor_of(told) == monitor_of(record)
                assert due_at(named, told) == due_at(named, record)

    asyncio.run(run())
