"""One suite over both stores: the same entries, the same answers, nothing can be changed."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.kit.postgres import Server
from tests.service.kit import PLAN, item
from ucsearch.errors import RecordError
from ucsearch.planner import decide_cases
from ucsearch.planner.settings import parse_settings
from ucsearch.records.backup import copy_log
from ucsearch.records.entries import RequestTaken
from ucsearch.records.log import AuditLog, open_log, open_reader
from ucsearch.records.postgres import is_postgres

SETTINGS = parse_settings(PLAN.encode())
NOW = datetime(2026, 3, 2, 6, tzinfo=UTC)


def rows(*names: str) -> list[dict[str, Any]]:
    return [{"series": i["series"], **i["state"], "forecast": i["forecast"]} for i in map(item, names)]


def filled(place: str) -> AuditLog:
    log = open_log(place, clock=lambda: NOW)
    decide_cases(SETTINGS, rows("A", "B", "C"), log, request="one")
    log.append({"schema": "ucsearch.control/1", "kind": "control", "plan": "p", "action": "pause", "who": "M",
                "why": "a test", "at": NOW.isoformat()})  # fmt: skip
    return log


def test_what_is_written_is_read_listed_and_verified(place: str) -> None:
    with filled(place) as log:
        assert log.count() == 4
        assert [r.record["series"] for r in log.list(kind="decision", newest_first=True, limit=2)] == ["C", "B"]
        assert [r.seq for r in log.list(outcome="RELEASED", series="B")] == [2]
        assert [r.seq for r in log.list(kind="control", plan="p")] == [4]
        assert [r.seq for r in log.list(before=3)] == [1, 2]
        assert log.newest("B").seq == 2  # type: ignore[union-attr]
        assert log.get(log.get(2).id[:10]).seq == 2
        assert [r.seq for r in log.iterate("control")] == [4]
        assert log.has_all([log.get(1).id, log.get(3).id])
        assert not log.has_all(["0" * 64])
        again = decide_cases(SETTINGS, rows("A", "B", "C"), log, request="one")
        assert log.count() == 4
        assert len(again) == 3
        key = log.get(1).record["request"]["key"]
        assert [r.seq for r in log.find_request(key)] == [1, 2, 3]
        assert {k: len(v) for k, v in log.find_requests([key, "0" * 64]).items()} == {key: 3}
        made = log.override(1, task=SETTINGS.task.task(), who="M", why="a test", action=15.0)
        assert log.effective([log.get(1)])[1].action == 15
        assert made.seq == 5
        report = log.verify(log.checkpoint())
        assert report.ok, report
        assert len(log.root()) == 32
    with open_reader(place) as reader:
        assert [r.seq for r in reader] == [1, 2, 3, 4, 5]
        assert reader.blobs_of(reader.get(1))


def test_the_same_request_with_another_content_is_refused(place: str) -> None:
    with filled(place) as log:
        changed = rows("A", "B", "C")
        changed[0]["on_hand"] = 9.0
        with pytest.raises(RequestTaken):
            decide_cases(SETTINGS, changed, log, request="one")
        assert log.count() == 4


def test_nothing_can_be_changed(place: str) -> None:
    with filled(place) as log:
        connection: Any = log.store._connection  # type: ignore[attr-defined]
        for statement in (
            "UPDATE entries SET body = '{}' WHERE seq = 1", "DELETE FROM entries WHERE seq = 4", "DELETE FROM blobs",
            *(["TRUNCATE entries"] if is_postgres(place) else []),
        ):  # fmt: skip
            with pytest.raises(Exception, match="append-only"):
                connection.execute(statement)
        assert log.verify().ok


def test_writers_at_once_make_one_chain(place: str) -> None:
    filled(place).close()
    failed: list[BaseException] = []

    def write(name: str) -> None:
        try:
            with open_log(place, clock=lambda: NOW, timeout_s=30.0) as log:
                for n in range(5):
                    decide_cases(SETTINGS, rows(name), log, request=f"{name}{n}")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(f"S{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    with open_reader(place) as reader:
        assert reader.count() == 24
        assert reader.verify().ok


def test_a_copy_has_the_same_heads_and_goes_on_where_it_ended(place: str, tmp_path: Path, postgres: Server) -> None:
    other = str(tmp_path / "copy.db") if is_postgres(place) else postgres.fresh()
    with filled(place) as log:
        first = copy_log(place, other)
        assert (first.entries, first.added, first.head) == (4, 4, log.checkpoint().head)
        decide_cases(SETTINGS, rows("D"), log, request="two")
    assert copy_log(place, other).added == 1
    back = str(tmp_path / "back.db")
    assert copy_log(other, back).entries == 5
    with open_reader(place) as a, open_reader(back) as b:
        assert [(r.seq, r.body, r.head, r.written_at) for r in a] == [(r.seq, r.body, r.head, r.written_at) for r in b]
    with filled(str(tmp_path / "another.db")) as log:
        log.append({**{k: v for k, v in log.get(4).record.items() if k != "id"}, "why": "more"})
    with pytest.raises(RecordError, match="another log"):
        copy_log(str(tmp_path / "another.db"), back)


def test_a_server_that_may_lose_what_it_confirms_is_refused(postgres: Server) -> None:
    import psycopg

    place = postgres.fresh()
    name = place.split("@/")[1].split("?")[0]
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
    with pytest.raises(RecordError, match="synchronous_commit is off"):
        open_log(place)


def test_a_second_service_is_refused_while_the_first_one_lives(postgres: Server) -> None:
    place = postgres.fresh()
    with open_log(place, alone=True), pytest.raises(RecordError, match="another service"):
        open_log(place, alone=True)
    open_log(place, alone=True).close()


def test_columns_beside_the_record_are_compared_with_it(postgres: Server) -> None:
    place = postgres.fresh()
    with filled(place) as log:
        real = log.store._connection  # type: ignore[attr-defined]
        real.execute("ALTER TABLE entries DISABLE TRIGGER entries_change")
        assert log.verify().fault == "schema"
        real.execute("UPDATE entries SET series = 'Z' WHERE seq = 2")
        real.execute("ALTER TABLE entries ENABLE TRIGGER entries_change")
        found = log.verify()
        assert (found.fault, "entry 2" in found.message) == ("schema", True)
