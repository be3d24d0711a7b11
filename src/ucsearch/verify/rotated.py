"""A log in several files: each one's first entry pins number, head and root of the one before it.

What a later file says about a decision of an earlier one, and the monitors that it carries over, can be derived only
where the earlier file is given too; without it they are taken as they are, and the verdict says so.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from ucsearch.verify.checkpoints import Tree
from ucsearch.verify.formats import Blobs, Find, Invalid, Record, expect, lookups, require
from ucsearch.verify.monitor import Watch


class Past:
    """The files that were followed so far."""

    def __init__(self) -> None:
        self.watch: Watch | None = None  # as the last one left it; None where something in it was not right
        self.pins: tuple[int, str, str] | None = None  # number, head and root of the last one
        self._files: dict[str, Path] = {}  # by last head
        self._asked: dict[str, tuple[Find, Blobs]] = {}
        self._stack = ExitStack()
        self._tree, self._seq, self._head = Tree(), 0, ""

    def add(self, seq: int, head: str) -> None:
        self._tree.add(bytes.fromhex(head))
        self._seq, self._head = seq, head

    def end(self, path: Path, watch: Watch | None) -> None:
        """A file was followed to its end."""
        self.pins, self.watch = (self._seq, self._head, self._tree.root().hex()), watch
        self._files[self._head] = path
        if watch is not None:
            watch.turn(self._head)
        self._tree, self._seq, self._head = Tree(), 0, ""

    def asked(self, head: str) -> tuple[Find, Blobs] | None:
        """What asks the file that ended with this head; None where it is not there."""
        if head not in self._files:
            return None
        if head not in self._asked:
            self._asked[head] = self._stack.enter_context(lookups(self._files[head]))
        return self._asked[head]

    def close(self) -> None:
        self._stack.close()


def verify_rotation(r: Record, seq: int | None, past: Past | None) -> list[str]:
    """What could not be verified."""
    for name in ("by", "why"):
        require(f"rotation.{name}", r[name].strip() != "", r[name], "text")
    if r["event"] == "closed":
        require("rotation.next", r.get("next", "").strip() != "", r.get("next"), "the name of a file")
        return []
    require("rotation", seq == 1, seq, "the first entry of a file")
    for name in ("previous", "count", "head", "root"):
        if name not in r:
            raise Invalid(f"rotation.{name}", None, "what the file before it had")
    if past is None or past.pins is None:
        return ["the file before it, which was not given"]
    expect("rotation.count", r["count"], past.pins[0])
    expect("rotation.head", r["head"], past.pins[1])
    expect("rotation.root", r["root"], past.pins[2])
    return []
