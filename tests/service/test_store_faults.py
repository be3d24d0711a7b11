"""The service over both stores, and what it does when its log fails."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit.postgres import Server
from tests.service.kit import CONFIG, Client, make_folder, open_service, running
from tests.service.test_notify import until
from ucsearch.errors import RecordError
from ucsearch.records.chain import Checkpoint
from ucsearch.records.log import AuditLog, open_reader
from ucsearch.records.postgres import AnotherService


def config_of(place: str) -> str:
    return CONFIG.replace("log/decisions.db", place)


async def ready_again(client: Client, key: str) -> int:
    for _ in range(100):
        answer = await client.decide("A", key=key)
        if answer.status_code == 200:
            return int(answer.json()["items"][0]["seq"])
        assert answer.status_code == 503, answer.text
        assert "retry-after" in answer.headers
        await asyncio.sleep(0.1)
    raise AssertionError(answer.text)


def test_the_service_works_the_same_over_both_stores(place: str, tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path / "service", config_of(place)) as client:
            first = await client.decide("A", "B", key="k")
            assert (await client.decide("A", "B", key="k")).content == first.content
            made = first.json()["items"][0]
            body = {"action": 15.0, "why": "a test", "expects": made["id"]}
            done = await client.post(f"/v1/decisions/{made['id']}/override", body, role="operator")
            assert done.status_code == 201, done.text
            at = "2026-03-03T06:00:00+00:00"
            told = await client.post(
                "/v1/outcomes", {"items": [{"decision": made["id"], "value": 4.0, "observed_at": at}]}
            )
            assert told.status_code == 201, told.text
            assert (await client.get("/v1/series/A")).json()["effective"] == 15
            assert len((await client.get("/v1/decisions?plan=orders")).json()["items"]) == 2
            assert (await client.get("/v1/log/checkpoint")).json()["count"] == 4

    asyncio.run(go())
    with open_reader(place) as reader:
        assert reader.verify().ok


def test_a_restarted_server_is_found_again_and_repeats_are_answered(tmp_path: Path, postgres: Server) -> None:
    place = postgres.fresh()

    async def go() -> None:
        async with running(tmp_path / "service", config_of(place)) as client:
            before = await client.decide("A", key="before")
            assert before.status_code == 200
            postgres.stop("immediate")
            gone = await client.decide("B", key="b")
            assert (gone.status_code, gone.json()["code"]) == (503, "audit_unavailable")
            assert (await client.get("/v1/decisions")).status_code == 503
            postgres.start()
            assert await ready_again(client, "b") == 2
            assert (await client.decide("A", key="before")).content == before.content

    try:
        asyncio.run(go())
    finally:
        postgres._run("pg_ctl", "-D", str(postgres.data), "status")
    with open_reader(place) as reader:
        assert reader.count() == 2
        assert reader.verify().ok


def test_a_log_that_is_shorter_than_its_checkpoint_stops_the_start(tmp_path: Path) -> None:
    tokens = make_folder(tmp_path)

    async def go(*series: str) -> None:
        async with running(tmp_path, tokens=tokens) as client:
            for name in series:
                assert (await client.decide(name)).status_code == 200

    asyncio.run(go("A", "B"))
    older = tmp_path / "older.db"
    shutil.copy(tmp_path / "log/decisions.db", older)
    asyncio.run(go("C"))
    assert Checkpoint.read(tmp_path / "checkpoint/decisions.json").count == 3
    for beside in (tmp_path / "log").iterdir():
        beside.unlink()
    shutil.copy(older, tmp_path / "log/decisions.db")
    with pytest.raises(RecordError, match="does not confirm"):
        open_service(tmp_path).start()
    (tmp_path / "log/decisions.db").unlink()
    with pytest.raises(RecordError, match="does not confirm"):
        open_service(tmp_path).start()


def test_a_database_that_lost_its_tail_stops_the_start(tmp_path: Path, postgres: Server) -> None:
    """Failed over to a copy that had not seen the last entries."""
    import psycopg

    place, other = postgres.fresh(), postgres.fresh()
    names = [url.split("@/")[1].split("?")[0] for url in (place, other)]

    async def go(tokens: dict[str, str] | None, *series: str) -> dict[str, str]:
        async with running(tmp_path, config_of(place), tokens=tokens) as client:
            for name in series:
                assert (await client.decide(name)).status_code == 200
            return client.tokens

    tokens = asyncio.run(go(None, "A"))
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {names[1]}")
        connection.execute(f"CREATE DATABASE {names[1]} TEMPLATE {names[0]}")
    asyncio.run(go(tokens, "B", "C"))
    (tmp_path / "service.toml").write_text(config_of(other))
    with pytest.raises(RecordError, match="does not confirm"):
        open_service(tmp_path).start()


def test_a_second_service_waits_until_the_first_is_gone(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ucsearch.service.service._STANDBY_S", (0.02, 0.02))
    for name in ("one", "two"):
        make_folder(tmp_path / name, config_of(place))
    first, second = open_service(tmp_path / "one"), open_service(tmp_path / "two")
    first.start()
    waiting = threading.Thread(target=second.start)
    waiting.start()
    waiting.join(0.3)
    assert waiting.is_alive()
    assert not second.started
    first.stop()
    waiting.join(10.0)
    assert second.started
    # And once more, the other way round.
    third = open_service(tmp_path / "one")
    waiting = threading.Thread(target=third.start)
    waiting.start()
    until(lambda: third.is_standby)
    assert not third.started
    second.stop()
    waiting.join(10.0)
    assert third.started
    third.stop()


def test_a_full_log_is_503_and_nothing_leaves(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path, CONFIG.replace("[store]", "[store]\nmax_pages = 40")) as client:
            seen: set[int] = set()
            for n in range(60):
                answer = await client.decide(f"S{n}", members=40)
                seen.add(answer.status_code)
                if answer.status_code != 200:
                    assert answer.json()["code"] == "audit_unavailable"
                    break
            assert seen == {200, 503}
            assert (await client.get("/v1/decisions")).status_code == 200

    asyncio.run(go())
    with open_reader(tmp_path / "log/decisions.db") as reader:
        assert reader.verify().ok


def test_a_log_that_cannot_be_written_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = AuditLog.append_sealed
    failing = {"on": False}

    def append(self: AuditLog, bodies: object) -> object:
        if failing["on"]:
            raise RecordError("disk I/O error")
        return real(self, bodies)  # type: ignore[arg-type]

    monkeypatch.setattr(AuditLog, "append_sealed", append)

    async def go() -> None:
        async with running(tmp_path) as client:
            assert (await client.decide("A")).status_code == 200
            failing["on"] = True
            found = await asyncio.gather(*(client.decide(f"B{i}") for i in range(5)))
            assert {a.status_code for a in found} == {503}
            failing["on"] = False
            assert await ready_again(client, "b") == 2
            assert (await client.admin.get("/readyz")).status_code == 200

    asyncio.run(go())


def _deleted(*ends: str) -> Callable[[Path], None]:
    def hurt(log: Path) -> None:
        for end in ends:
            log.with_name(log.name + end).unlink()

    return hurt


def _another(log: Path) -> None:
    for path in log.parent.iterdir():
        path.unlink()
    AuditLog(log).close()


@pytest.mark.parametrize(
    "hurt",
    [
        _deleted("", "-wal", "-shm", ".service"), _deleted(""), _deleted("-wal"), _another,
        lambda log: os.truncate(log, 0), lambda log: log.parent.rename(log.parent.with_name("elsewhere")),
    ],
    ids=["deleted", "database", "wal", "another", "emptied", "moved"],
)  # fmt: skip
def test_a_log_that_is_gone_while_it_is_open_takes_nothing(tmp_path: Path, hurt: Callable[[Path], None]) -> None:
    """The open file would take it, and nobody would ever find it there."""

    async def go() -> None:
        async with running(tmp_path) as client:
            assert (await client.decide("A", key="a")).status_code == 200
            hurt(tmp_path / "log/decisions.db")
            for key in ("a", "b", "c"):  # what was asked before too: its record is gone
                answer = await client.decide("A", key=key)
                assert (answer.status_code, answer.json()["code"]) == (503, "audit_unavailable")
            assert client.service.not_ready() == ["log not writable"]

    asyncio.run(go())


def test_a_log_that_was_gone_goes_on_when_it_is_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ucsearch.service.writer.writer._AGAIN_S", 0.05)
    log, away = tmp_path / "log", tmp_path / "away"

    async def go() -> None:
        async with running(tmp_path) as client:
            first = await client.decide("A", key="a")
            log.rename(away)
            for _ in range(100):  # seen without anybody asking
                if client.service.not_ready():
                    break
                await asyncio.sleep(0.05)
            assert client.service.not_ready() == ["log not writable"]
            away.rename(log)
            assert await ready_again(client, "b") == 2
            assert (await client.decide("A", key="a")).content == first.content

    asyncio.run(go())


@pytest.mark.parametrize("end", [".service", "-shm"])
def test_what_keeps_others_out_is_made_again_where_it_was_deleted(tmp_path: Path, end: str) -> None:
    async def go() -> None:
        async with running(tmp_path) as client:
            assert (await client.decide("A")).status_code == 200
            beside = tmp_path / f"log/decisions.db{end}"
            beside.unlink()
            assert await ready_again(client, "b") == 2
            assert beside.exists()
            with pytest.raises(AnotherService):
                open_service(tmp_path)._open_log()

    asyncio.run(go())


def test_a_database_that_lost_its_tail_while_the_service_ran_takes_nothing(tmp_path: Path, postgres: Server) -> None:
    import psycopg

    place, other = postgres.fresh(), postgres.fresh()
    name, copy = (url.split("@/")[1].split("?")[0] for url in (place, other))

    async def go() -> None:
        async with running(tmp_path, config_of(place)) as client:
            assert (await client.decide("A")).status_code == 200
            with psycopg.connect(postgres.url(), autocommit=True) as server:
                leave = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
                server.execute(f"DROP DATABASE {copy}")
                server.execute(leave)
                server.execute(f"CREATE DATABASE {copy} TEMPLATE {name}")
                await ready_again(client, "b")
                server.execute(leave)
                server.execute(f"DROP DATABASE {name}")
                server.execute(f"ALTER DATABASE {copy} RENAME TO {name}")
            for _ in range(4):
                answer = await client.decide("A")
                assert (answer.status_code, answer.json()["code"]) == (503, "audit_unavailable")

    asyncio.run(go())


def test_a_service_that_was_killed_often_does_not_start_ever_slower(tmp_path: Path) -> None:
    tokens, log = make_folder(tmp_path), tmp_path / "log/decisions.db"

    async def go() -> None:
        async with running(tmp_path, tokens=tokens) as client:
            for n in range(20):
                assert (await client.decide(f"S{n}", members=40)).status_code == 200
            shutil.copytree(log.parent, tmp_path / "killed")

    asyncio.run(go())
    shutil.rmtree(log.parent)
    (tmp_path / "killed").rename(log.parent)
    before = log.stat().st_size
    service = open_service(tmp_path)
    service.start()
    try:
        assert log.stat().st_size > before
    finally:
        service.stop()


def test_a_nearly_full_disk_is_not_ready(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path, CONFIG.replace("least_free_bytes = 0", f"least_free_bytes = {1 << 60}")) as client:
            answer = await client.decide("A")
            assert (answer.status_code, answer.json()["code"]) == (503, "audit_unavailable")
            assert (await client.admin.get("/readyz")).status_code == 503

    asyncio.run(go())
