"""Processes that this one has started, directly or not."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path


def descendants(word: str) -> list[int]:
    """Ids of living processes below this one whose command line matches."""
    parents, found = {}, []
    for place in Path("/proc").iterdir():
        if place.name.isdecimal():
            try:
                parents[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
    for pid in parents:
        at = pid
        while at in parents and at != os.getpid():
            at = parents[at]
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if at == os.getpid() and pid != os.getpid() and re.search(word, line):
            found.append(pid)
    return sorted(found)


class KilledOnce:
    """Kills one process that matches (-9) as soon as `when` holds, from a thread of its own."""

    def __init__(self, word: str, when: Callable[[], bool]) -> None:
        self.word, self.when, self.killed = word, when, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._stop.is_set() and not self.killed:
            if self.when():
                for pid in descendants(self.word)[:1]:
                    os.kill(pid, signal.SIGKILL)
                    self.killed = pid
            time.sleep(0.01)

    def __enter__(self) -> KilledOnce:
        self._thread.start()
        return self

    def __exit__(self, *why: object) -> None:
        self._stop.set()
        self._thread.join()
