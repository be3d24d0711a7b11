"""The file of tokens: changed by several at once, damaged, replaced by others, or asked for in the midst of itself."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.service.kit import make_folder, running
from ucsearch.errors import RecordError
from ucsearch.service import run, tokens
from ucsearch.service.tokens import TokenBook, write_tokens

HASH = "0" * 64


def book(folder: Path) -> TokenBook:
    write_tokens(folder / "tokens.toml")
    return TokenBook(folder / "tokens.toml")


def test_of_several_who_change_it_at_once_nobody_undoes_what_another_did(tmp_path: Path) -> None:
    """Every one reads, changes and writes all of it: a token that was revoked meanwhile came back, or one that was
    shown to somebody was never there."""
    first = book(tmp_path)
    for i in range(8):
        first.add(f"old {i}", "viewer")
    begin, wrong = threading.Barrier(4), list[BaseException]()

    def change(n: int) -> None:
        try:
            mine = TokenBook(tmp_path / "tokens.toml")  # as another process has it
            begin.wait()
            for i in range(2):
                mine.add(f"new {n} {i}", "viewer")
                mine.revoke(f"old {2 * n + i}")
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=change, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = sorted(t.name for t in TokenBook(tmp_path / "tokens.toml").list())
    assert (wrong, names) == ([], [f"new {n} {i}" for n in range(4) for i in range(2)])
    assert [p.name for p in tmp_path.iterdir()] == ["tokens.toml"]  # nothing is left behind


@pytest.mark.skipif(sys.platform == "win32", reason="no locks there")
def test_whoever_gets_no_turn_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_TRIES", 2)
    known = book(tmp_path)
    with tokens._file_lock(known.path), pytest.raises(RecordError, match="another process is changing it"):
        known.add("anna", "viewer")
    assert known.add("anna", "viewer")


@pytest.mark.parametrize(
    "text",
    [
        "token = 5",
        'token = "all"',
        "token = [1, 2]",
        "[token]\nname = 'a'",
        "[[tokens]]\nname = 'a'",  # all of them would be forgotten without a word
        f"[[token]]\nname = 5\nrole = 'admin'\nsha256 = '{HASH}'",
        f"[[token]]\nname = ' '\nrole = 'admin'\nsha256 = '{HASH}'",
        f"[[token]]\nname = \"a\\u0007\"\nrole = 'admin'\nsha256 = '{HASH}'",
        f"[[token]]\nname = 'a'\nrole = ['admin']\nsha256 = '{HASH}'",
        "[[token]]\nname = 'a'\nrole = 'admin'\nsha256 = 5",
        f"[[token]]\nname = 'a'\nrole = 'admin'\nsha256 = '{HASH}'\nexpire = '2020-01-01T00:00:00Z'",  # never
        f"[[token]]\nname = 'a'\nrole = 'admin'\nsha256 = '{HASH}'\nexpires = 2020-01-01T00:00:00Z",
        f"[[token]]\nname = 'a'\nrole = 'admin'\nsha256 = '{HASH}'\nexpires = '2020-01-01'",
    ],
)
def test_a_damaged_file_recognises_nobody_and_says_so(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tokens, "_AGAIN_S", 0.0)

    async def go() -> None:
        async with running(tmp_path) as client:
            path = tmp_path / "tokens.toml"
            before = path.read_text()
            path.write_text(text)
            with caplog.at_level(logging.ERROR, "ucsearch.service"):
                told = [(await client.get("/v1/plans")).status_code for _ in range(3)]
            said = [r.getMessage() for r in caplog.records]
            assert (told, len(said)) == ([401] * 3, 1)  # not once for everybody who asks
            assert said[0].startswith("no token is accepted")
            assert "tokens.toml" in said[0]
            with pytest.raises(RecordError, match=r"tokens\.toml"):
                TokenBook(path)
            path.write_text(before)
            assert (await client.get("/v1/plans")).status_code == 200

    asyncio.run(go())


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes there")
def test_a_pipe_in_its_place_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "tokens.toml", 0o600)
    with pytest.raises(RecordError, match="not a regular file"):
        TokenBook(tmp_path / "tokens.toml")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_a_token_that_root_adds_is_in_a_file_that_the_service_can_read(tmp_path: Path) -> None:
    known = book(tmp_path)
    os.chown(known.path, 1234, 1235)
    known.add("anna", "viewer")
    known.revoke("anna")
    found = known.path.stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (1234, 1235, 0o600)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no users there")
def test_whoever_would_take_the_file_away_from_the_service_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = book(tmp_path)
    own = known.path.stat().st_uid
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    with pytest.raises(RecordError, match="belongs to another user"):
        known.add("anna", "viewer")
    assert known.list() == ()


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no such signal there")
def test_a_signal_in_the_midst_of_reading_is_heard(tmp_path: Path) -> None:
    """The handler runs in the thread that reads: a lock that is held there is held for ever."""
    known, heard = book(tmp_path), list[int]()
    known.add("anna", "viewer")

    class Service:
        tokens = known

    def hear(*_: object) -> None:
        heard.append(1)
        run._reload(Service)  # type: ignore[arg-type]

    def give_up(*_: object) -> None:
        raise AssertionError("it waits for itself")

    def at_every_line(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code is not TokenBook.reload.__code__ or len(heard) > 100:
            return None
        if event == "line":
            sys.settrace(None)
            signal.raise_signal(signal.SIGHUP)
            sys.settrace(at_every_line)
        return at_every_line

    before = [(n, signal.signal(n, f)) for n, f in ((signal.SIGHUP, hear), (signal.SIGALRM, give_up))]
    signal.setitimer(signal.ITIMER_REAL, 20.0)
    tracing = sys.gettrace()
    try:
        sys.settrace(at_every_line)
        known.reload()
    finally:
        sys.settrace(tracing)
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in before:
            signal.signal(number, handler)
    assert len(heard) > 5
    assert [t.name for t in known.list()] == ["anna"]


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="no such signal there")
def test_a_signal_while_kernels_are_made_does_not_end_the_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_folder(tmp_path)
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    found = list[Any]()

    def made(_: object) -> None:
        found.append(signal.getsignal(signal.SIGHUP))
        raise RecordError("far enough")

    monkeypatch.setattr(run, "ready_plans", made)
    try:
        with pytest.raises(RecordError, match="far enough"):
            run.run(tmp_path, bind="127.0.0.1:0", admin_bind="127.0.0.1:0")
        assert callable(found[0])  # not what the system does, which is to end it
        found[0](signal.SIGHUP, None)
    finally:
        signal.signal(signal.SIGHUP, before)
