"""Nothing that may take long is done on the event loop: what pages and endpoints gather, they gather beside it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.service.console_kit import DRIFTS, RAMPED, WATCHED, Person, fill, id_of
from tests.service.kit import running

# Each of them takes time with the number of series, actions, lines or routes, or runs a user's rules.
SLOW = (
    "ucsearch.monitor.fold.Monitor.statuses",
    "ucsearch.service.console.presenters.csv_text",
    "ucsearch.service.console.presenters.ranges",
    "ucsearch.service.console.presenters.tell",
    "ucsearch.service.writer.actions.feasible_actions",
    "ucsearch.service.console.forms.judge",
    "ucsearch.service.routes.describe",
    "ucsearch.service.writer.plan_state.AwaitedOutcomes.overdue_series",
    "ucsearch.service.queries.decisions",
    "ucsearch.service.queries.Tally.look",
)


def test_slow_work_is_done_beside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, seen = threading.current_thread(), dict[str, set[threading.Thread]]()

    def watch(name: str) -> None:
        where, _, last = name.rpartition(".")
        owner: Any = __import__("pkgutil").resolve_name(where)
        real = getattr(owner, last)

        def noted(*arguments: Any, **named: Any) -> Any:
            seen.setdefault(name, set()).add(threading.current_thread())
            return real(*arguments, **named)

        monkeypatch.setattr(owner, last, noted)

    async def go() -> None:
        async with running(tmp_path, WATCHED, RAMPED) as client:
            await fill(client)
            for name in SLOW:
                watch(name)
            person = Person(client)
            await person.login("admin")
            held, fine = [await id_of(client, name) for name in ("on hold", "fine")]
            for path in (
                "/console", "/console/decisions", "/console/decisions.csv", f"/console/decisions/{held}",
                f"/console/decisions/{held}/override", f"/console/decisions/{fine}/override", "/console/monitor",
                f"/console/series?name={DRIFTS}", "/console/plans", "/console/decisions?series=nobody",
            ):  # fmt: skip
                assert (await person.look(path)).status_code == 200
            form, fields = (
                f"/console/decisions/{held}/override",
                {"choice": "other", "other": "95", "why": "for the test"},
            )
            assert (await person.send(form, form, **fields)).status_code == 200
            for path in (
                "/v1/decisions", "/v1/monitors", "/v1/monitors/orders", f"/v1/series/{DRIFTS}", "/v1/plans",
                "/v1/openapi.json",
            ):  # fmt: skip
                assert (await client.get(path)).status_code == 200

    asyncio.run(go())
    assert set(seen) == set(SLOW)
    assert [name for name, threads in seen.items() if loop in threads] == []
