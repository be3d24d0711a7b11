"""What people do to a service by hand, often as root: copies of a log that was rotated, tokens, the next file, an
address with a password in it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.kit.postgres import Server
from tests.service.kit import CONFIG, make_folder, open_service, running
from tests.service.test_rotation import AT, LOG, rotate
from ucsearch.cli.main import app
from ucsearch.errors import RecordError, UCSearchError
from ucsearch.records import backup as copies
from ucsearch.records.backup import backup, copy_log
from ucsearch.records.chain import Checkpoint
from ucsearch.records.log import AuditLog, AuditReader, open_log
from ucsearch.records.log_chain import files_of, newest_file
from ucsearch.service.backups import backup_log
from ucsearch.service.run import check
from ucsearch.service.tokens import TokenBook, write_tokens

NOBODY = 65534
as_root = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can give files away")


def pause(plan: str) -> dict[str, str]:
    said = {"schema": "ucsearch.control/1", "kind": "control", "at": AT.isoformat()}
    return {**said, "action": "pause", "plan": plan, "who": "a", "why": "abc"}


def cli(*arguments: object) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(a) for a in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit | UCSearchError), repr(done.exception)
    return done.exit_code, done.output + (str(done.exception) if done.exception else "")


def test_a_copy_of_a_log_that_was_rotated_holds_all_that_was_answered(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    tokens: dict[str, str] = {}

    async def go() -> tuple[list[str], list[bytes]]:
        async with running(old) as client:
            tokens.update(client.tokens)
            answers = [await client.decide("A", key="first")]
            rotate(old)
            answers.append(await client.decide("B", key="second"))
            lines = await asyncio.to_thread(backup_log, old, tmp_path / "copy.db")
            return lines, [answer.content for answer in answers]

    lines, answers = asyncio.run(go())
    (new / "log").mkdir(parents=True)
    for name in ("service.toml", "orders.toml", "tokens.toml"):
        shutil.copy2(old / name, new / name)
    told = [line.split(": ")[0] for line in lines if "to be restored as" in line]
    assert told == [str(tmp_path / "copy.decisions.db"), str(tmp_path / "copy.db")]
    for copy, name in zip(told, ("decisions.db", "decisions.0002.db"), strict=True):
        done = cli("log", "copy", copy, new / "log" / name, "--checkpoint", f"{copy}.checkpoint")
        assert done[0] == 0, done
    found = list(check(new))
    assert max(f.level for f in found) == 0, found
    assert found[-1].text.endswith(" in 2 files")

    async def again() -> None:
        async with running(new, tokens=tokens) as client:
            assert [(await client.decide("A", key="first")).content] == answers[:1]
            assert [(await client.decide("B", key="second")).content] == answers[1:]

    asyncio.run(again())


def test_a_copy_of_a_closed_file_says_that_the_log_goes_on(tmp_path: Path) -> None:
    with AuditLog(tmp_path / "d.db") as log:
        log.append(pause("a"))
    assert "goes on" not in cli("log", "copy", tmp_path / "d.db", tmp_path / "one.db")[1]
    assert cli("log", "rotate", "--log", tmp_path / "d.db", "--why", "a test")[0] == 0
    code, told = cli("log", "copy", tmp_path / "d.db", tmp_path / "two.db")
    assert (code, "continues in d.0002.db, which is not in this copy" in told) == (0, True), told


def test_a_later_file_is_not_put_in_the_place_of_the_one_before(tmp_path: Path) -> None:
    """It would follow itself."""
    (tmp_path / "log").mkdir()
    with AuditLog(tmp_path / LOG) as log:
        log.append(pause("a"))
    backup(rotate(tmp_path), tmp_path / "copy.db")
    shutil.rmtree(tmp_path / "log")
    (tmp_path / "log").mkdir()
    with pytest.raises(RecordError, match=r"restore it as decisions\.0002\.db"):
        backup(tmp_path / "copy.db", tmp_path / LOG)
    backup(tmp_path / "copy.db", tmp_path / "log/decisions.0002.db")
    assert len(files_of(tmp_path / "log/decisions.0002.db")) == 1


def test_a_rotation_takes_no_file_away_that_holds_something(tmp_path: Path) -> None:
    """An older copy was restored, and the file after it is still there."""
    (tmp_path / "log").mkdir()
    with AuditLog(tmp_path / LOG) as log:
        log.append(pause("a"))
    backup(tmp_path / LOG, tmp_path / "copy.db")
    new = rotate(tmp_path)
    with AuditLog(new) as log:
        log.append(pause("b"))
    for name in ("decisions.db", "decisions.db-wal", "decisions.db-shm"):
        (tmp_path / "log" / name).unlink(missing_ok=True)
    backup(tmp_path / "copy.db", tmp_path / LOG)
    with pytest.raises(RecordError, match="move it away first"):
        rotate(tmp_path)
    with AuditReader(new) as kept, AuditReader(tmp_path / LOG) as first:
        assert (kept.count(), first.count(), first.files) == (5, 1, [tmp_path / LOG])
        assert kept.verify().fault == "missing"  # what the copy does not hold
    shutil.move(new, tmp_path / "kept.db")
    assert rotate(tmp_path) == new == newest_file(tmp_path / LOG)


@pytest.mark.parametrize("content", [b"somebody's letter", b""], ids=["foreign", "empty"])
def test_a_rotation_takes_no_foreign_file_away(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "log").mkdir()
    with AuditLog(tmp_path / LOG) as log:
        log.append(pause("a"))
    beside = tmp_path / "log/decisions.0002.db"
    beside.write_bytes(content)
    if not content:  # cut off before anything was in it
        assert rotate(tmp_path) == beside
        return
    with pytest.raises(RecordError, match="move it away first"):
        rotate(tmp_path)
    assert beside.read_bytes() == content


@as_root
def test_what_root_writes_for_a_service_belongs_to_the_service(tmp_path: Path) -> None:
    write_tokens(tmp_path / "tokens.toml")
    (tmp_path / "log").mkdir()
    os.chown(tmp_path / "tokens.toml", NOBODY, NOBODY)
    os.chown(tmp_path / "log", NOBODY, NOBODY)
    TokenBook(tmp_path / "tokens.toml").add("anna", "viewer")
    with AuditLog(tmp_path / LOG) as log:
        log.append(pause("a"))
        (tmp_path / LOG).chmod(0o640)
        new = rotate(tmp_path)
        with AuditLog(new) as next_one:
            next_one.append(pause("b"))
            backup(new, tmp_path / "copy.db")
            backup(tmp_path / "copy.db", tmp_path / "log/decisions.0003.db")
            make_folder(tmp_path)
            os.chown(tmp_path / "tokens.toml", NOBODY, NOBODY)
            service = open_service(tmp_path)
            service.start()
            service.stop()
            owners = {p.name: p.stat().st_uid for p in (tmp_path / "log").iterdir()}
    assert "decisions.0002.db-wal" in owners
    assert "decisions.db.service" in owners
    assert set(owners.values()) == {NOBODY}, owners
    assert (tmp_path / "tokens.toml").stat().st_uid == NOBODY
    assert new.stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "copy.db").stat().st_uid == 0  # not in the service's folder


def test_tokens_that_cannot_be_read_any_more_are_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_tokens(tmp_path / "tokens.toml")
    book = TokenBook(tmp_path / "tokens.toml")
    text = book.add("anna", "viewer")
    (tmp_path / "tokens.toml").unlink()
    for _ in range(3):
        book._checked_at = -9.0
        assert book.find(text) is None
    assert [r.message.partition(":")[0] for r in caplog.records] == ["no token is accepted"]


SECRETS = ("hun/ter2", "hun#ter2", "hun@ter2", "hun%ter2", "hun ter2", "hun:ter2", "hunter2")


@pytest.mark.parametrize("secret", SECRETS)
def test_a_password_in_an_address_is_shown_to_nobody(tmp_path: Path, secret: str) -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    address = f"postgresql://me:{secret}@127.0.0.1:1/x"
    make_folder(tmp_path)
    with AuditLog(tmp_path / "a.db") as log:
        log.append(pause("a"))
    calls: list[tuple[object, ...]] = [
        ("log", "copy", address, tmp_path / "b.db"), ("log", "copy", tmp_path / "a.db", address),
        ("verify", address), ("log", "list", "--log", address), ("log", "rotate", "--log", address, "--why", "a test"),
        ("monitor", "--set", f"files.log={address}"), ("explain", "A", "--set", f"files.log={address}"),
        ("service", "check", tmp_path, "--store", address),
        ("service", "check", tmp_path, "--store", address.title()),
        ("service", "check", tmp_path, "--store", address.replace("//", "/")),
        ("service", "backup", tmp_path, tmp_path / "b.db", "--store", address),
        ("service", "run", tmp_path, "--bind", "127.0.0.1:0", "--admin-bind", "127.0.0.1:0", "--store", address),
    ]  # fmt: skip
    for call in calls:
        code, told = cli(*call)
        assert code in (1, 2), (call, told)
        assert "hun" not in told.lower(), (call, told)
        assert "ter2" not in told.lower(), (call, told)


def test_a_password_under_a_key_that_is_none_is_not_shown(tmp_path: Path) -> None:
    make_folder(tmp_path, CONFIG.replace('log = "log/decisions.db"', 'lgo = "postgresql://me:hunter2@h/x"'))
    code, told = cli("service", "check", tmp_path)
    assert (code, "store.lgo" in told, "hunter2" in told) == (2, True, False), told


def test_a_database_that_holds_another_log_is_named_without_a_password(tmp_path: Path, postgres: Server) -> None:
    address = postgres.fresh().replace("ucsearch@", "ucsearch:hunter2@")
    for name in ("a", "b"):
        with AuditLog(tmp_path / f"{name}.db") as log:
            log.append(pause(name))
    copy_log(tmp_path / "a.db", address)
    for call in ((tmp_path / "b.db", address), (address, tmp_path / "b.db")):
        code, told = cli("log", "copy", *call)
        assert (code, "holds another log" in told, "hunter2" in told) == (2, True, False), told


def test_a_copy_from_a_database_has_its_name_only_when_it_is_whole(
    tmp_path: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = postgres.fresh()
    with open_log(address) as log:
        log.append(pause("a"))
    make_folder(tmp_path, CONFIG.replace("log/decisions.db", address))
    before = sorted(p.name for p in tmp_path.iterdir())

    def fails(*_: object) -> None:
        raise RecordError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(AuditLog, "take_over", fails)
        with pytest.raises(RecordError, match="the disk is full"):
            backup_log(tmp_path, tmp_path / "copy.db")
    assert sorted(p.name for p in tmp_path.iterdir()) == before
    backup_log(tmp_path, tmp_path / "copy.db")
    assert sorted(p.name for p in tmp_path.iterdir() if p.name not in before) == [
        "copy.db", "copy.db.checkpoint", "copy.db.sha256",
    ]  # fmt: skip
    with pytest.raises(RecordError, match="there is a file already"):
        backup_log(tmp_path, tmp_path / "copy.db")


def test_check_of_a_log_that_is_not_there_yet(tmp_path: Path, postgres: Server) -> None:
    address = postgres.fresh()
    for config in (CONFIG, CONFIG.replace("log/decisions.db", address)):
        make_folder(tmp_path / "s", config)
        found = list(check(tmp_path / "s"))
        assert [f.level for f in found if f.text.startswith("log")] == [1], found
        service = open_service(tmp_path / "s")
        service.start()
        service.stop()
        assert max(f.level for f in check(tmp_path / "s")) == 0
        shutil.rmtree(tmp_path / "s")


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_without_letters_for_every_name_is_refused(tmp_path: Path, postgres: Server, encoding: str) -> None:
    import psycopg

    name = f"enc_{encoding.lower()}"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0")
    with pytest.raises(RecordError, match="expected UTF8"):
        open_log(postgres.url(name))
    make_folder(tmp_path, CONFIG.replace("log/decisions.db", postgres.url(name)))
    assert [f.level for f in check(tmp_path)][-1] == 2


def test_the_encoding_of_a_terminal_does_not_matter(
    tmp_path: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    with open_log(postgres.fresh()) as log:
        log.append(pause("日本"))
        assert log.verify().ok


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """One that others may enter; pytest's own are root's alone."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@as_root
def test_who_may_not_look_into_a_folder_is_told_so(open_folder: Path) -> None:
    """Neither a traceback, nor nothing: a checkpoint that cannot be seen is there."""
    folder, copy = open_folder / "svc", open_folder / "b.db"
    make_folder(folder)
    os.chown(folder / "tokens.toml", NOBODY, NOBODY)
    for name in ("log", "checkpoint"):
        (folder / name).mkdir(mode=0o700)
    with AuditLog(folder / LOG) as log:
        log.append(pause("a"))

    def commands_in(folder: Path) -> list[tuple[object, ...]]:
        return [
            ("service", "backup", folder, copy), ("log", "rotate", "--log", folder / LOG, "--why", "a test"),
            ("log", "list", "--log", folder / LOG), ("log", "copy", folder / LOG, copy),
            ("monitor", "--set", f"files.log={folder / LOG}"),
        ]  # fmt: skip

    # Imported while root may read it all.
    list(check(folder))
    open_service(folder)
    for command in commands_in(open_folder / "none"):
        cli(*command)
    commands = commands_in(folder)
    os.seteuid(NOBODY)
    try:
        found = list(check(folder))
        told = [cli(*command) for command in commands]
        with pytest.raises(RecordError, match="cannot be looked at"):
            open_service(folder).start()
    finally:
        os.seteuid(0)
    assert found[-1].level == 2
    for command, (code, text) in zip(commands, told, strict=True):
        assert code in (1, 2), command
        assert "cannot be looked at (Permission denied)" in text, (command, text)


@pytest.mark.parametrize("content", ["", "{", "null", '{"count": 5}'])
def test_a_checkpoint_that_is_damaged_is_named(tmp_path: Path, content: str) -> None:
    make_folder(tmp_path)
    kept = tmp_path / "checkpoint/decisions.json"
    kept.parent.mkdir()
    kept.write_text(content)
    (tmp_path / "log").mkdir()
    AuditLog(tmp_path / LOG).close()
    with pytest.raises(RecordError, match=r"decisions\.json: "):
        open_service(tmp_path).start()


def test_a_checkpoint_that_leads_nowhere_is_not_none(tmp_path: Path) -> None:
    """Such as a disk that is not mounted: the log could be any."""
    make_folder(tmp_path)
    kept = tmp_path / "checkpoint/decisions.json"
    kept.parent.mkdir()
    kept.symlink_to(tmp_path / "not mounted" / "decisions.json")
    (tmp_path / "log").mkdir()
    AuditLog(tmp_path / LOG).close()
    with pytest.raises(RecordError, match=r"decisions\.json: cannot be read"):
        open_service(tmp_path).start()


def test_a_copy_for_which_there_is_no_room_leaves_nothing_and_names_its_own_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with AuditLog(tmp_path / "d.db") as log:
        for i in range(200):
            log.append(pause(f"plan {i}"))
    real = copies.dial

    def small(path: Path, query: str, timeout_s: float) -> sqlite3.Connection:
        connection = real(path, query, timeout_s)
        if path.suffix == ".part":  # begun, then full
            connection.execute("PRAGMA page_size = 8192")
            connection.execute("PRAGMA max_page_count = 5")
            path.with_name(path.name + "-journal").write_bytes(b"")
        return connection

    monkeypatch.setattr(copies, "dial", small)
    (tmp_path / "to").mkdir()
    for _ in range(2):
        with pytest.raises(RecordError, match=r"to/copy\.db: the disk .* is full"):
            backup(tmp_path / "d.db", tmp_path / "to/copy.db")
        assert list((tmp_path / "to").iterdir()) == []


def test_a_database_that_is_down_is_not_a_log_that_lost_something(tmp_path: Path) -> None:
    """Whoever reads that would restore a copy."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    make_folder(tmp_path, CONFIG.replace("log/decisions.db", "postgresql://me@127.0.0.1:1/x"))
    (tmp_path / "checkpoint").mkdir()
    Checkpoint(7, "0" * 64).write(tmp_path / "checkpoint/decisions.json")
    with pytest.raises(RecordError, match=r"cannot be compared with .* at entry 7: .*refused"):
        open_service(tmp_path).start()


@pytest.mark.parametrize("words", [[], [__file__, "--checkpoint"], [__file__, "--gate"]])
def test_the_verifier_does_not_repeat_a_password(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    from ucsearch.verify.__main__ import main

    with pytest.raises(SystemExit) as caught:
        main([*words, "postgresql://u:geheim@h/db"])
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert "geheim" not in said
    assert "log copy" in said
