"""Contents are taken away; the chain, the monitors and everything that is left can be verified all the same."""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.service.kit import PLAN, Clock, item, running
from tests.service.test_monitor import PLAN_DAY, WATCHED, day
from tests.service.test_rotation import LOG, past, rotate, statuses
from tests.service.test_stores import NOW, SETTINGS, filled
from ucsearch.cli.main import app
from ucsearch.planner import decide_cases
from ucsearch.records import erasure
from ucsearch.records.chain import Checkpoint
from ucsearch.records.entries import NOTHING
from ucsearch.records.erasure import ERASED, erase, older_than, person, series
from ucsearch.records.log import AuditReader, open_reader
from ucsearch.records.log_chain import files_of
from ucsearch.service.queries import export_part
from ucsearch.verify import verify_files

CHECKPOINT = "checkpoint/decisions.json"


def test_what_is_erased_is_gone_and_the_rest_verifies(place: str) -> None:
    with filled(place) as log:
        log.append({"schema": "ucsearch.control/1", "kind": "control", "plan": "p", "action": "resume", "who": "N",
                    "why": "done", "at": NOW.isoformat()})  # fmt: skip
        before, mark = list(log), log.checkpoint()
    done = erase(place, series("B"), at=NOW, by="a test", why="asked for")
    assert done == (1, 0)  # its forecast is that of the others too
    assert erase(place, person("M"), at=NOW, by="a test", why="asked for").entries == 1
    with open_reader(place) as log:
        after = list(log)
        assert [(r.seq, r.id, r.digest, r.head) for r in after[:5]] == [(r.seq, r.id, r.digest, r.head) for r in before]
        assert after[1].body == NOTHING
        assert [r.body for r in (after[0], after[2], after[4])] == [r.body for r in (before[0], before[2], before[4])]
        assert (after[3].record["who"], after[3].record["why"], after[4].record["who"]) == (ERASED, ERASED, "N")
        assert log.newest("B") is None
        assert log.newest("C") is not None
        assert log.verify(mark).ok
        log.export_jsonl(lines := Path(place).parent / "all.jsonl") if "://" not in place else None
    if "://" not in place:
        assert {v.status for v in verify_files([Path(place)])} == {"valid"}
        assert {v.status for v in verify_files([lines])} == {"valid"}
    again = erase(place, series("B"), at=NOW, by="a test", why="asked for")
    assert again == (0, 0)


def test_what_was_written_before_is_erased_and_what_may_be_followed_stays(place: str) -> None:
    with filled(place) as log:
        count = log.count()
    assert erase(place, older_than(NOW), at=NOW, by="a test", why="retention.days") == (0, 0)
    done = erase(place, older_than(NOW + timedelta(days=1)), at=NOW, by="a test", why="retention.days")
    assert done.entries == count
    with open_reader(place) as log:
        assert [r.body for r in log][:3] == [NOTHING] * 3
        assert log.get(4).record["who"] == ERASED
        assert log.verify().ok


def test_an_erasure_that_was_cut_off_is_finished_by_the_next(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with filled(place):
        pass
    monkeypatch.setattr(erasure, "_replace", _dies)
    with pytest.raises(KeyboardInterrupt):
        erase(place, series("B"), at=NOW, by="a test", why="asked for")
    monkeypatch.undo()
    with open_reader(place) as log:
        assert log.verify().ok
        assert log.newest("B") is not None
    if "://" not in place:
        assert {v.status for v in verify_files([Path(place)])} == {"valid"}
    assert erase(place, series("B"), at=NOW, by="a test", why="asked for").entries == 1
    with open_reader(place) as log:
        assert log.verify().ok
        assert log.newest("B") is None


def _dies(*_: object) -> int:
    raise KeyboardInterrupt


def test_monitors_go_on_and_every_file_verifies(tmp_path: Path) -> None:
    """Decisions of a series in a closed file, with outcomes, an override and a pause, while the service writes."""
    clock = Clock()

    async def go() -> None:
        async with running(tmp_path, WATCHED, PLAN_DAY + PLAN, clock) as client:
            old = await past(client, clock, tmp_path)
            await client.post("/v1/plans/orders/resume", {"why": "a test"}, role="operator")
            await day(client, clock, 12.0, "A", "B")
            for left in (series("A"), person("the operator"), person("the agent")):
                assert erase(tmp_path / LOG, left, at=clock.now, by="a test", why="asked for").entries
            assert (await client.get(f"/v1/decisions/{old['id']}")).status_code == 404
            assert (await client.get("/v1/series/A")).status_code == 404
            for path in ("/v1/decisions", "/v1/monitors", "/v1/plans", "/v1/log", "/v1/log/export", "/v1/series/B"):
                assert (await client.get(path)).status_code == 200, path
            made = await day(client, clock, 12.0, "A", "B")
            assert {m["reason"] for m in made} == {"none"}
            assert (await client.get("/v1/monitors/orders/A")).json()["outcomes"] == 5
            assert (await client.admin.get("/readyz")).status_code == 200
            tokens = client.tokens
        async with running(tmp_path, WATCHED, PLAN_DAY + PLAN, clock, tokens=tokens) as client:
            assert (await client.get("/v1/monitors/orders/A")).json()["outcomes"] == 5
            assert (await client.get("/v1/monitors/orders")).json()["overdue"] == 0

    asyncio.run(go())
    files = files_of(tmp_path / LOG)
    assert len(files) == 2
    assert [str(v) for v in verify_files(files) if v.status != "valid"] == []
    with AuditReader(files[0]) as log:
        assert log.verify(Checkpoint.read(tmp_path / CHECKPOINT)).ok


def test_nothing_of_it_stays_on_the_disk(tmp_path: Path) -> None:
    place = tmp_path / "decisions.db"
    with filled(str(place)) as log:
        own = item("B", level=7.25)
        decide_cases(SETTINGS, [{"series": "B", **own["state"], "forecast": own["forecast"]}], log)
        paths = log.blob(log.newest("B").record["inputs"]["trace"]["members"]["$blob"])  # type: ignore[union-attr]
        log.append_batch([{"schema": "ucsearch.control/1", "kind": "control", "plan": "p", "action": "pause",
                           "who": f"Somebody {i}", "why": "a test", "at": "2026"} for i in range(200)])  # fmt: skip
    assert erase(place, series("B"), at=NOW, by="a test", why="asked for") == (2, 2)
    erase(place, person("Somebody 7"), at=NOW, by="a test", why="asked for")
    found = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"Somebody 8" in found
    assert b'Somebody 7"' not in found
    assert paths not in found


def test_the_command_erases_one_thing_at_a_time(tmp_path: Path) -> None:
    place = tmp_path / "decisions.db"
    with filled(str(place)):
        pass
    run = CliRunner().invoke
    for words, told in (
        (["--series", "B"], "Missing option '--why'"),
        (["--why", "asked for"], "options: saw none, expected one of --series, --person and --before"),
        (["--why", "asked for", "--series", "B", "--person", "M"], "options: saw --series --person"),
        (["--why", "asked for", "--plan", "p", "--person", "M"], "options: saw --person"),
        (
            ["--why", "asked for", "--before", "2026-01-01"],
            "--before: saw '2026-01-01', expected a time",
        ),
    ):
        refused = run(app, ["log", "erase", "--log", str(place), *words])
        assert (refused.exit_code, told in refused.output) == (2, True), refused.output
    assert (
        run(app, ["log", "erase", "--log", str(tmp_path / "none.db"), "--why", "abc", "--series", "B"]).exit_code == 2
    )
    assert not (tmp_path / "none.db").exists()
    for words in (["--series", "B"], ["--person", "M"], ["--before", "2027-01-01T00:00:00Z"]):
        done = run(app, ["log", "erase", "--log", str(place), "--why", "asked for", "--who", "K. Lund", *words])
        assert (done.exit_code, "entries erased" in done.output) == (0, True), done.output
    assert run(app, ["verify", str(place)]).exit_code == 0
    with AuditReader(place) as log:
        assert {row.record["by"] for row in log.list(kind="erasure")} == {"K. Lund"}


def test_an_erasure_that_is_not_said_is_an_alteration(tmp_path: Path) -> None:
    place = tmp_path / "decisions.db"
    with filled(str(place)):
        pass
    with sqlite3.connect(place) as connection:
        (trigger,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'entries_update'").fetchone()
        connection.execute("DROP TRIGGER entries_update")
        connection.execute("UPDATE entries SET body = '{}' WHERE seq = 2")
        connection.execute(trigger)
    with AuditReader(place) as log:
        assert not log.verify().ok
    assert "invalid" in statuses([place])


def test_rotation_is_not_disturbed(tmp_path: Path) -> None:
    clock = Clock()

    async def go() -> None:
        async with running(tmp_path, WATCHED, PLAN_DAY + PLAN, clock) as client:
            for _ in range(3):
                await day(client, clock, 12.0, "A", "B")
            erase(tmp_path / LOG, older_than(clock.now - timedelta(days=1, hours=1)), at=clock.now, by="a", why="abc")
            rotate(tmp_path)
            await day(client, clock, 12.0, "A", "B")

    asyncio.run(go())
    assert [str(v) for v in verify_files(files_of(tmp_path / LOG)) if v.status != "valid"] == []


def test_an_export_goes_on_while_contents_are_erased(tmp_path: Path) -> None:
    """What was sent before is whole, what is sent after says that it was erased, and all of it verifies."""
    clock = Clock()

    async def go() -> None:
        async with running(tmp_path, clock=clock) as client:
            for name in "ABCD":
                await client.decide(name)
            with client.service._open_reader() as reader:
                begun, head = export_part(reader, 1, 2, "")
                clock.now += timedelta(days=9)
                limit = older_than(clock.now - timedelta(days=1))
                erased = erase(tmp_path / LOG, limit, at=clock.now, by="service", why="a test of exports")
                more, _ = export_part(reader, 3, None, head)
            assert erased.entries == 4
            assert [b"SKU" in line or b'"members"' in line for line in (begun[0], more[0])] == [True, False]
            (tmp_path / "all.jsonl").write_bytes(b"\n".join([*begun, *more]))

    asyncio.run(go())
    assert {v.status for v in verify_files([tmp_path / "all.jsonl"])} == {"valid"}
