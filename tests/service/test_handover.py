"""Which thread commits: the one that decided, unless the disk is slow or others are refused."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.service.kit import CONFIG, running
from ucsearch.records.audit import AuditLog
from ucsearch.service.handover import Handover


def test_a_quick_disk_is_not_worth_another_thread() -> None:
    handover = Handover()
    assert not handover.pays(0.002, refused=False)  # nothing is known of the disk
    handover.waited(0.001)
    assert not handover.pays(0.002, refused=False)
    assert handover.pays(0.002, refused=True)


def test_a_slow_disk_is_and_it_is_looked_at_again() -> None:
    handover = Handover()
    for _ in range(20):
        handover.waited(0.030)
    said = [handover.pays(0.002, refused=False) for _ in range(35)]
    assert said.count(False) == 2
    assert said[:16] == [True] * 16
    assert not said[16]
    assert not handover.pays(0.050, refused=False)  # deciding takes longer
    for _ in range(30):
        handover.waited(0.0)
    assert not handover.pays(0.002, refused=False)


@pytest.mark.parametrize(("slow_s", "helped"), [(0.0, False), (60.0, True)])
def test_the_service_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow_s: float, helped: bool) -> None:
    threads: list[str] = []
    real, waited = AuditLog.append_bodies, Handover.waited

    def append(log: AuditLog, bodies: Any) -> Any:
        threads.append(threading.current_thread().name)
        return real(log, bodies)

    monkeypatch.setattr(AuditLog, "append_bodies", append)
    # A disk as slow as that, whatever else the machine does meanwhile.
    monkeypatch.setattr(Handover, "waited", lambda handover, seconds: waited(handover, slow_s))

    async def go() -> None:
        limits = "[limits]\nbatch_items = 2\nqueue_s = 100.0\n[[plan]]"
        async with running(tmp_path, CONFIG.replace("[[plan]]", limits)) as client:
            for turn in range(3):
                found = await asyncio.gather(*(client.decide(f"S{turn}-{i}") for i in range(20)))
                assert [answer.status_code for answer in found] == [200] * 20
            assert (await asyncio.wrap_future(client.service.writer.call(lambda desk: desk.log.last.seq))) == 60

    asyncio.run(go())
    assert any(name.startswith("ucsearch-commit") for name in threads) is helped
    assert any(name == "ucsearch-decide" for name in threads)
