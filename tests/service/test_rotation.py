"""A log that goes on in another file while the service writes: nothing is lost, the monitor stays as it was, and the
verifier follows from the first file to the last."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.kit.postgres import Server
from tests.service.console_kit import Person
from tests.service.kit import PLAN, Client, Clock, make_folder, open_service, running
from tests.service.test_monitor import PLAN_DAY, WATCHED, day
from ucsearch.cli.main import app
from ucsearch.errors import RecordError
from ucsearch.planner.monitor.rotate import rotate_log
from ucsearch.records.backup import copy_log
from ucsearch.records.chain import Checkpoint
from ucsearch.records.entries import LogClosed
from ucsearch.records.log import AuditLog, AuditReader, open_log
from ucsearch.records.log_chain import files_of, newest_file
from ucsearch.service.queries import export_part
from ucsearch.service.writer.plan_state import journal_of
from ucsearch.verify import verify_files

LOG = "log/decisions.db"
AT = datetime(2026, 3, 9, tzinfo=UTC)


def rotate(folder: Path) -> Path:
    return rotate_log(folder / LOG, at=AT, by="a test", why="a test").new


def states(path: Path) -> dict[str, Any]:
    with AuditReader(path, single=True) as log:
        return {name: watched.state() for name, watched in journal_of(log).plans.items()}


def statuses(paths: list[Path]) -> set[str]:
    return {v.status for v in verify_files(paths)}


async def past(client: Client, clock: Clock, folder: Path) -> dict[str, Any]:
    """Some days, a pause, an answered request, a decision whose outcome is to come; then the log is rotated."""
    for value in (12.0, 11.0, 99.0):
        await day(client, clock, value, "A", "B")
    items = {
        "items": [
            {"series": "A", "state": {"on_hand": 3.0}, "forecast": {"members": [[9.0 + j, 1.0] for j in range(50)]}}
        ]
    }
    answered = await client.post("/v1/plans/orders/decisions", items, key="before")
    assert answered.status_code == 200
    held = {"action": 10.0, "why": "a test", "expects": answered.json()["items"][0]["id"]}
    where = f"/v1/decisions/{held['expects']}/override"
    over = await client.post(where, held, role="operator", key="over")
    assert over.status_code == 201, over.text
    paused = await client.post("/v1/plans/orders/pause", {"why": "a test"}, role="operator", key="pause")
    assert paused.status_code == 201
    before = states(folder / LOG)
    new = rotate(folder)
    assert new.name == "decisions.0002.db"
    assert states(new) == before
    return {"items": items, "answer": answered.content, "where": where, "held": held, "over": over.content,
            "paused": paused.content, "id": held["expects"]}  # fmt: skip


def test_a_live_service_goes_on_in_the_next_file(tmp_path: Path) -> None:
    clock = Clock()

    async def go() -> None:
        async with running(tmp_path, WATCHED, PLAN_DAY + PLAN, clock) as client:
            old = await past(client, clock, tmp_path)
            # Nobody is refused, a pause holds, and what was answered before is answered again in the same bytes.
            found = await asyncio.gather(*(client.decide(f"S{i}") for i in range(8)))
            assert [a.status_code for a in found] == [200] * 8
            assert {a.json()["items"][0]["reason"] for a in found} == {"paused"}
            again = await client.post("/v1/plans/orders/decisions", old["items"], key="before")
            assert again.content == old["answer"]
            assert (await client.post(old["where"], old["held"], role="operator", key="over")).content == old["over"]
            same = await client.post("/v1/plans/orders/pause", {"why": "a test"}, role="operator", key="pause")
            assert same.content == old["paused"]
            other = await client.post("/v1/plans/orders/decisions", {"items": []}, key="before")
            assert other.status_code == 422
            # What stands for a series still does, and may be replaced.
            stands = await client.get("/v1/series/A")
            assert (stands.status_code, stands.json()["effective"], stands.json()["certified"]) == (200, 10.0, False)
            more = {**old["held"], "action": 5.0, "expects": stands.json()["expects"]}
            late = await client.post(old["where"], more, role="operator")
            assert late.status_code == 201, late.text
            assert (await client.get("/v1/series/A")).json()["effective"] == 5.0
            never = f"/v1/decisions/{'0' * 64}/override"
            assert (await client.post(never, more, role="operator")).status_code == 404
            # The outcome of a decision in the old file counts, once.
            clock.now += timedelta(days=1)
            report = {"items": [{"decision": old["id"], "value": 20.0, "observed_at": clock.now.isoformat()}]}
            told = await client.post("/v1/outcomes", report)
            assert told.status_code == 201, told.text
            assert told.json()["items"][0]["rank"] is not None
            assert (await client.post("/v1/outcomes", report)).status_code == 200
            assert (await client.get(f"/v1/decisions/{old['id']}")).status_code == 200
            assert (await client.post(f"/v1/decisions/{old['id']}/verify", {}, role="viewer")).json()[
                "status"
            ] == "valid"
            resumed = await client.post("/v1/plans/orders/resume", {"why": "a test"}, role="operator")
            assert resumed.status_code == 201
            await day(client, clock, 12.0, "A", "B")
            assert (await client.get("/v1/monitors/orders/A")).json()["outcomes"] == 5

    asyncio.run(go())
    files = files_of(tmp_path / LOG)
    assert [p.name for p in files] == ["decisions.db", "decisions.0002.db"]
    assert statuses(files) == {"valid"}
    assert statuses(files[1:]) == {"valid", "weaker"}  # right, as far as one file can tell
    with AuditReader(files[0]) as log:
        assert log.files == files
        assert log.verify(Checkpoint.read(tmp_path / "checkpoint/decisions.json")).ok
    assert Checkpoint.read(tmp_path / "checkpoint/decisions.json").count > 8


def test_an_export_goes_on_in_the_next_file(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path) as client:
            await client.decide("A")
            with client.service._open_reader() as reader:
                begun, head = export_part(reader, 1, None, "")
                rotate(tmp_path)
                await client.decide("B")
                more, _ = export_part(reader, 2, None, head)
            (tmp_path / "all.jsonl").write_bytes(b"\n".join([*begun, *more]))

    asyncio.run(go())
    assert [v.status for v in verify_files([tmp_path / "all.jsonl"])] == ["valid"] * 4


def test_a_service_starts_on_the_next_file_under_the_checkpoint_of_the_one_before(tmp_path: Path) -> None:
    clock = Clock()
    tokens: dict[str, str] = {}

    async def first() -> None:
        async with running(tmp_path, WATCHED, PLAN_DAY + PLAN, clock) as client:
            tokens.update(client.tokens)
            for _ in range(4):
                await day(client, clock, 12.0, "A", "B")

    async def second() -> None:
        async with running(tmp_path, WATCHED, PLAN_DAY + PLAN, clock, tokens=tokens) as client:
            await day(client, clock, 12.0, "A", "B")
            assert (await client.get("/v1/monitors/orders/A")).json()["outcomes"] == 5

    asyncio.run(first())
    kept = tmp_path / "kept.json"
    shutil.copy(tmp_path / "checkpoint/decisions.json", kept)
    rotate(tmp_path)
    asyncio.run(second())
    rotate(tmp_path)
    asyncio.run(_decides(tmp_path, clock, tokens))
    files = files_of(tmp_path / LOG)
    assert len(files) == 3
    assert statuses(files) == {"valid"}
    # A file that was replaced by a shorter one is not followed.
    with AuditReader(files[1]) as log:
        assert log.count() > 3
    shutil.copy(kept, tmp_path / "checkpoint/decisions.json")
    for end in ("", "-wal", "-shm"):
        (tmp_path / "log" / f"decisions.0002.db{end}").unlink(missing_ok=True)
    with pytest.raises(RecordError):
        open_service(tmp_path).start()


async def _decides(folder: Path, clock: Clock, tokens: dict[str, str]) -> None:
    async with running(folder, WATCHED, PLAN_DAY + PLAN, clock, tokens=tokens) as client:
        await day(client, clock, 12.0, "A", "B")
        assert (await client.get("/v1/monitors/orders/A")).json()["outcomes"] == 6


def test_nobody_writes_to_a_file_that_is_closed_and_a_rotation_that_was_cut_off_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_folder(tmp_path)
    (tmp_path / "log").mkdir()
    said = {"schema": "ucsearch.control/1", "kind": "control", "at": AT.isoformat()}
    entry = {**said, "action": "pause", "plan": "p", "who": "a", "why": "abc"}
    with AuditLog(tmp_path / LOG) as stray:
        stray.append(entry)
        real = AuditLog._insert

        def dies(self: AuditLog, store: Any, drafts: Any, *rest: Any) -> Any:
            if b'"closed"' in drafts[0].body:
                raise KeyboardInterrupt
            return real(self, store, drafts, *rest)

        monkeypatch.setattr(AuditLog, "_insert", dies)
        with pytest.raises(KeyboardInterrupt):
            rotate(tmp_path)
        monkeypatch.undo()
        assert newest_file(tmp_path / LOG) == tmp_path / LOG
        stray.append({**entry, "action": "resume"})
        new = rotate(tmp_path)
        with AuditLog(tmp_path / LOG, single=True) as alone, pytest.raises(LogClosed, match=r"decisions\.0002\.db"):
            alone.append(entry)
        assert stray.append(entry).seq == 5  # whoever has the log open is taken to its next file
        assert stray.path == new
    with AuditReader(new, single=True) as log:
        assert [row.record["kind"] for row in log] == ["rotation", "control"]  # the pause has ended: nothing is carried
        assert log.get(4).record["count"] == 3
    assert statuses([tmp_path / LOG, new]) == {"valid"}


@pytest.mark.parametrize(
    "change", [{"head": "0" * 64}, {"tree": ["0" * 64]}, {"state": None}], ids=lambda c: next(iter(c))
)
def test_what_does_not_follow_from_the_file_before_is_found(tmp_path: Path, change: dict[str, Any]) -> None:
    clock = Clock()

    async def go() -> None:
        async with running(tmp_path, WATCHED, PLAN_DAY + PLAN, clock) as client:
            await day(client, clock, 12.0, "A", "B")

    asyncio.run(go())
    new = rotate(tmp_path)
    forged = tmp_path / "log/forged.db"
    with AuditReader(new, single=True) as log, AuditLog(forged) as out:
        records = []
        for row in log:
            record = {k: v for k, v in row.record.items() if k != "id"}
            if "state" in change and "state" in record:
                record["state"]["streams"]["A"]["growth"][0][0] *= 1.5
            elif record["kind"] == "rotation" and "state" not in change:
                record |= change
            records.append(record)
        out.append_batch(records)
    assert statuses([tmp_path / LOG, new]) == {"valid"}
    assert "invalid" in statuses([tmp_path / LOG, forged])


def test_the_command_rotates_and_verify_follows(tmp_path: Path) -> None:
    make_folder(tmp_path)

    async def go() -> None:
        async with running(tmp_path) as client:
            await client.decide("A", "B")

    asyncio.run(go())
    run = CliRunner().invoke
    done = run(app, ["log", "rotate", "--log", str(tmp_path / LOG), "--why", "a new month"])
    assert (done.exit_code, "decisions.0002.db" in done.output) == (0, True), done.output
    for name in ("decisions.db", "decisions.0002.db"):  # whichever is named, all files are verified
        checked = run(app, ["verify", str(tmp_path / "log" / name)])
        assert (checked.exit_code, "4 valid" in checked.output) == (0, True), checked.output
    for words, told in (
        (["--why", " "], "--why: saw ' ', expected printable text of at least 3 characters"),
        (["--why", "a"], "--why: saw 'a', expected printable text of at least 3 characters"),
        (["--why", "a\tb c"], "printable text"),
        (["--why", "a month", "--who", ""], "--who: saw '', expected printable text of at least 1 character"),
    ):
        refused = run(app, ["log", "rotate", "--log", str(tmp_path / LOG), *words])
        assert (refused.exit_code, told in refused.output) == (2, True), refused.output
    with AuditReader(tmp_path / LOG) as log:
        assert [row.record["why"] for row in log.list(kind="rotation")] == ["a new month"] * 2


def test_the_console_shows_and_verifies_every_file(tmp_path: Path) -> None:
    async def go() -> None:
        async with running(tmp_path, plan=PLAN) as client:
            person = Person(client)
            await person.login("viewer")
            assert (await client.decide("A")).status_code == 200
            assert "Files of the log" not in (await person.look("/console/log")).text
            rotate(tmp_path)
            assert (await client.decide("A")).status_code == 200
            page = (await person.look("/console/log")).text
            assert page.index("decisions.0002.db (written to)") < page.index('<th scope="row">decisions.db</th>')
            found = (await client.get("/v1/log")).json()
            assert [f["name"] for f in found["files"]] == ["decisions.db", "decisions.0002.db"]
            assert found["files"][1]["head"] == found["head"]
            right = (await person.send("/console/log/verify", "/console/log")).text
            assert "is right</strong>: 4 entries in 2 files, each following the one before" in right
            with sqlite3.connect(tmp_path / LOG) as old:  # somebody changes the file that nobody writes to any more
                old.execute("DROP TRIGGER entries_update")
                old.execute("UPDATE entries SET body = replace(body, 'RELEASED', 'FALLBACK') WHERE seq = 1")
            wrong = (await person.send("/console/log/verify", "/console/log")).text
            assert "The log is not right</strong>" in wrong
            assert "entry 1: its content does not match its digest" in wrong

    asyncio.run(go())


def test_a_database_goes_on_in_another_one_by_way_of_files(tmp_path: Path, postgres: Server) -> None:
    """As docs/how-to/service-operations.md has it: copied to a file, rotated there, the next file copied to an empty
    database, and the end of the old one copied back, so that nobody writes there any more."""
    clock, old, new = Clock(), postgres.fresh(), postgres.fresh()
    tokens: dict[str, str] = {}
    folder, archive = tmp_path / "service", tmp_path / "archive/decisions.db"
    archive.parent.mkdir()

    def over(place: str) -> str:
        return WATCHED.replace(LOG, place)

    async def first() -> None:
        async with running(folder, over(old), PLAN_DAY + PLAN, clock) as client:
            tokens.update(client.tokens)
            for _ in range(4):
                await day(client, clock, 12.0, "A", "B")
            paused = await client.post("/v1/plans/orders/pause", {"why": "a new year"}, role="operator")
            assert paused.status_code == 201

    async def second() -> None:
        (folder / "service.toml").write_text(over(new))
        async with running(folder, over(new), PLAN_DAY + PLAN, clock, tokens=tokens) as client:
            made = await day(client, clock, 12.0, "A", "B")
            assert {m["reason"] for m in made} == {"paused"}
            assert (await client.get("/v1/monitors/orders/A")).json()["outcomes"] == 5

    asyncio.run(first())
    copy_log(old, archive)
    following = rotate_log(archive, at=AT, by="a test", why="a new year").new
    copy_log(following, new)
    copy_log(archive, old)
    with open_log(old) as log, pytest.raises(LogClosed):
        log.append({"schema": "ucsearch.control/1", "kind": "control"})
    # The checkpoint is of the old database: the new one does not confirm it, and is not started by accident.
    (folder / "service.toml").write_text(over(new))
    with pytest.raises(RecordError, match="does not confirm"):
        open_service(folder).start()
    (folder / "checkpoint/decisions.json").unlink()
    asyncio.run(second())
    copy_log(new, following)  # and the archive follows
    with AuditReader(archive) as log:
        assert log.verify().ok
    assert statuses(files_of(archive)) == {"valid"}


def test_what_is_counted_goes_on_in_the_next_file(tmp_path: Path) -> None:
    clock = Clock()

    async def report(client: Client, made: dict[str, Any]) -> None:
        told = {"decision": made["id"], "value": 6.0, "observed_at": clock.now.isoformat(), "taken": made["action"]}
        assert (await client.post("/v1/outcomes", {"items": [told]})).status_code == 201

    async def worth(client: Client) -> dict[str, Any]:
        return (await client.get("/v1/monitors/orders")).json()["realised"]  # type: ignore[no-any-return]

    async def go() -> None:
        async with running(tmp_path, clock=clock) as client:
            old = [(await client.decide(f"S{i}")).json()["items"][0] for i in range(12)]
            await report(client, old[0])
            first = await worth(client)
            assert first["decisions"] == 1
            plans = (await client.get("/v1/plans")).json()["items"][0]
            assert (sum(plans["today"].values()), plans["whole"]) == (12, True)
            clock.now = AT  # another day
            rotate(tmp_path)
            # Under the number that the old decision has: one with another stock, and so another worth.
            new = [(await client.decide(f"N{i}", on_hand=9.0)).json()["items"][0] for i in range(4)]
            await report(client, old[1])
            found = await worth(client)
            assert (found["decisions"], found["expected"]) == (2, first["expected"])
            await report(client, new[0])
            assert (await worth(client))["decisions"] == 3
            plans = (await client.get("/v1/plans")).json()["items"][0]
            assert (sum(plans["today"].values()), plans["whole"]) == (4, True)
            clock.now += timedelta(days=1)
            await client.decide("S1")
            plans = (await client.get("/v1/plans")).json()["items"][0]
            assert (sum(plans["today"].values()), plans["whole"]) == (1, True)

    asyncio.run(go())


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_a_log_that_root_rotates_goes_on_in_a_file_of_the_service(tmp_path: Path) -> None:
    """Its own would be one that the service cannot open, with the file before closed for ever."""
    make_folder(tmp_path)
    (tmp_path / "log").mkdir()
    AuditLog(tmp_path / LOG).close()
    os.chown(tmp_path / LOG, 1234, 1235)
    for _ in range(2):
        found = rotate(tmp_path).stat()
        assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1234, 1235, 0o600)
    assert {p.stat().st_uid for p in (tmp_path / "log").iterdir()} == {1234}
    with AuditReader(tmp_path / LOG) as log:
        assert log.verify().ok
