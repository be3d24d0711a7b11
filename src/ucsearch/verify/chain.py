"""The chain of a log: every entry's digest and head, and how far a checkpoint vouches for them.

A head is made of the one before it, the entry's number, digest and time. So whoever knows a head, knows all entries up
to it: an entry is reached by a checkpoint if the chain leads from it to a head that the checkpoint pins. What no pin
reaches (entries after the checkpoint, records without a place in the chain, a first line that does not say what came
before it) may be right in itself, but nobody vouches for it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator

from ucsearch.verify.checkpoints import Pins, Tree
from ucsearch.verify.formats import GENESIS, Entry, Invalid, Malformed, digest, expect, require


def reach(entries: Iterable[Entry], pins: Pins) -> int:
    """Number of the last entry that an unbroken chain and a pin vouch for; all entries of the chain before it are
    reached by the checkpoint. What is wrong beyond it, `follow` will say."""
    confirmed = 0
    try:
        for entry, _ in follow(entries, pins, 0):
            if entry.seq is not None and entry.seq in pins.heads:
                confirmed = entry.seq
    except (Invalid, Malformed, sqlite3.Error):
        pass
    return confirmed


def follow(entries: Iterable[Entry], pins: Pins | None, reached: int) -> Iterator[tuple[Entry, bool]]:
    """The same entries, each after its digest, its head and the checkpoint's pins were found right, and whether it is
    among those that are `reached`, by number."""
    seq, head, tree = 0, GENESIS, Tree()
    known = {} if pins is None else pins.heads
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
        yield entry, before is not None and seq <= reached
    wanted = reached if pins is None or part else pins.size
    if seq < wanted:
        raise Invalid(f"entry {seq + 1}", "missing", f"{wanted} entries, which the checkpoint saw")
