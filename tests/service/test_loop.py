"""The event loop: an answer that is ready does not wait for everybody who asks."""

from __future__ import annotations

import asyncio
import selectors
import socket
import sys
from pathlib import Path

import pytest

from tests.service.kit import make_folder, open_service
from ucsearch.service.loop import Few, make_loop
from ucsearch.service.server import make_server

CROWD = 60


def test_few_are_heard_at_a_time_and_all_in_turn() -> None:
    pairs = [socket.socketpair() for _ in range(CROWD)]
    heard: list[int] = []
    with Few() as few:
        for n, (ours, theirs) in enumerate(pairs):
            few.register(ours, selectors.EVENT_READ, n)
            theirs.send(b"x")
        turns = 0
        while len(set(heard)) < CROWD and turns < CROWD:
            turns += 1
            told = few.select(0)
            assert 0 < len(told) <= 16
            for key, _ in told:
                key.fileobj.recv(1)  # type: ignore[union-attr]
                heard.append(key.data)
                pairs[key.data][1].send(b"y")  # it asks again at once, and waits until the others were heard
    for pair in pairs:
        for end in pair:
            end.close()
    assert sorted(heard[:CROWD]) == list(range(CROWD))


@pytest.mark.skipif(sys.platform == "win32", reason="another loop")
def test_the_server_runs_on_it(tmp_path: Path) -> None:
    make_folder(tmp_path)
    assert make_server(open_service(tmp_path)).config.get_loop_factory() is make_loop
    loop = make_loop()
    try:
        assert loop.run_until_complete(asyncio.sleep(0, "done")) == "done"
    finally:
        loop.close()
