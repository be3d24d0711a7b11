"""The chain of a log: every entry's digest and head, and how far a checkpoint vouches for them.

A head is made of the one before it, the entry's number, digest and time. So whoever knows a head, knows all entries up
to it: an entry is reached by a checkpoint if the chain leads from it to a head that the checkpoint pins. What no pin
reaches (entries after the checkpoint, records without a place in the chain, a first line that does not say what came
before it) may be right in itself, but nobody vouches for it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from ucsearch.verify.checkpoints import Pins, Tree
from ucsearch.verify.formats import GENESIS, Entry, Invalid, digest, expect, require
from ucsearch.verify.opening import lines, opened

_NUMBER = re.compile(rb'"seq":([1-9][0-9]{0,15}),"written_at":(?:null|"(?:[^"\\]|\\.)*")\}$')


def last_number(path: Path) -> int:
    """The number that a file's last entry bears. Whoever lies about it breaks the chain, which `follow` finds."""
    try:
        with path.open("rb") as file:
            start = file.read(16)
        if start == b"SQLite format 3\0":
            with opened(path) as (log, _):
                (number,) = log.execute("SELECT seq FROM entries ORDER BY seq DESC LIMIT 1").fetchone() or (0,)
            return number if type(number) is int else 0
        found = 0
        for _, line in lines(path):
            if line is not None and (match := _NUMBER.search(line)):
                found = int(match[1])
    except (OSError, sqlite3.Error):
        return 0  # reading the entries will say why
    return found


def follow(entries: Iterable[Entry], pins: Pins | None, last: int) -> Iterator[tuple[Entry, bool]]:
    """The same entries, each after its digest, its head and the checkpoint's pins were found right, and whether a pin
    reaches it. `last` is the last entry's number."""
    seq, head, tree = 0, GENESIS, Tree()
    known = {} if pins is None else pins.heads
    reachable = max((n for n in known if n <= last), default=0)
    part = False
    for entry in entries:
        if entry.seq is None:  # a bare record, or what could not be read
            yield entry, False
            continue
        # A few exported lines may begin anywhere.
        first = seq == 0 and entry.seq != 1 and entry.id is None
        part = part or first
        require(f"entry {seq + 1}.seq", first or entry.seq == seq + 1, entry.seq, seq + 1)
        own = digest("audit-entry/1", entry.body)
        expect(f"entry {entry.seq}.digest", entry.digest, own)
        before = entry.previous if first else head
        if before is not None:
            expect(f"entry {entry.seq}.previous", before if entry.previous is None else entry.previous, before)
            pinned = known.get(entry.seq - 1, before)
            require(f"entry {entry.seq}.previous", pinned == before, before, f"{pinned}, which the checkpoint saw")
            time = (entry.written_at or "").encode("utf-8", "surrogateescape")
            link = bytes.fromhex(before) + entry.seq.to_bytes(8, "big") + bytes.fromhex(own) + time
            expect(f"entry {entry.seq}.head", entry.head, digest("audit-head/1", link))
        seq, head = entry.seq, entry.head
        require(f"entry {seq}.head", known.get(seq, head) == head, head, f"{known.get(seq)}, which the checkpoint saw")
        if pins is not None and pins.root is not None and not part and seq <= pins.size:
            tree.add(bytes.fromhex(head))
            if seq == pins.size:
                seen = tree.root()
                require(f"entry {seq}.root", seen == pins.root, seen.hex(), f"{pins.root.hex()} in the checkpoint")
        yield entry, before is not None and seq <= reachable
    wanted = reachable if pins is None or part else pins.size
    if seq < wanted:
        raise Invalid(f"entry {seq + 1}", "missing", f"{wanted} entries, which the checkpoint saw")
