"""The chain of a log: every entry's digest and head, and how far a checkpoint vouches for them.

A head is made of the one before it, the entry's number, digest and time. So whoever knows a head, knows all entries up
to it: an entry is reached by a checkpoint if the chain leads from it to a head that the checkpoint pins. What no pin
reaches (entries after the checkpoint, records without a place in the chain, a first line that does not say what came
before it) may be right in itself, but nobody vouches for it.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from ucsearch.verify.read import GENESIS, MAX_INT, Entry, Malformed, canonical, digest, loads, open_regular
from ucsearch.verify.verdict import Invalid, Record, expect, require


class Erased(NamedTuple):
    """Of an entry whose content was taken away."""

    digest: str  # of the whole entry
    left: str | None  # of what is left; None: nothing is, the body is `NOTHING`
    by: int  # number of the entry that says so


NOTHING = b"{}"
Taken = Callable[[], Mapping[int, Erased]]


def erasures(entries: Iterable[tuple[int, bytes]]) -> dict[int, Erased]:
    """By number, what these entries (numbers and bodies) have taken away. Whether they are right themselves, their own
    verdicts say."""
    taken: dict[int, Erased] = {}
    for by, body in entries:
        try:
            record = loads(body)
            for item in record["entries"]:
                taken[int(item["entry"])] = Erased(str(item["digest"]), item["left"], by)
        except (Malformed, KeyError, TypeError, ValueError):
            continue
    return taken


class Link(NamedTuple):
    """An entry of a chain."""

    entry: Entry
    reached: bool  # by the checkpoint
    before: str | None = None  # head before it
    erased: Erased | None = None
    tree: MerkleTree | None = None  # over the heads before it, where the chain was followed from its first entry
    first: bool = False  # nothing before it was followed


def reach(entries: Iterable[Entry], pins: Pins, taken: Taken = dict) -> int:
    """Number of the last entry that an unbroken chain and a pin vouch for; all entries of the chain before it are
    reached by the checkpoint. What is wrong beyond it, `follow` will say."""
    confirmed = 0
    try:
        for link in follow(entries, pins, 0, taken):
            if link.entry.seq is not None and link.entry.seq in pins.heads:
                confirmed = link.entry.seq
    except (Invalid, Malformed, sqlite3.Error):
        pass
    return confirmed


def follow(entries: Iterable[Entry], pins: Pins | None, reached: int, taken: Taken = dict) -> Iterator[Link]:
    """The same entries, each after its digest, its head and the checkpoint's pins were found right, and whether it is
    among those that are `reached`, by number. `taken` says whose content was taken away."""
    seq, head, tree = 0, GENESIS, MerkleTree()
    pinned = {} if pins is None else pins.heads
    is_part = False  # some lines of an export
    for entry in entries:
        if entry.seq is None:  # a bare record, or what could not be read
            yield Link(entry, False)
            continue
        is_first = seq == 0
        if is_first and entry.seq != 1:
            # A file may go on from one that is not there; a few exported lines may begin anywhere.
            start = _begun(entry)
            is_part = start is None
            if start is not None:
                head, tree = start
            if start is None and entry.id is not None:
                raise Invalid("entry 1.seq", words=f"missing; the first one present is {entry.seq}")
        if not is_first and entry.seq != seq + 1:
            words = "missing; the next one present is" if entry.seq > seq else "expected here, saw entry"
            raise Invalid(f"entry {seq + 1}.seq", words=f"{words} {entry.seq}")
        seq = entry.seq
        erased = _check_digest(entry, taken)
        before = entry.previous if is_part and is_first else head
        if before is not None:
            _check_head(entry, before, pinned)
        if pinned.get(seq, entry.head) != entry.head:
            raise Invalid(f"entry {seq}.head", words=RECOMPUTED)
        # Of an entry whose content was taken away the chain pins what is left by the entry that says so.
        pinned_by = seq if erased is None else max(seq, erased.by)
        peaks = None if is_part else tree.copy() if b'"event":"opened"' in entry.body else tree
        head = entry.head
        if not is_part:
            tree.add(bytes.fromhex(head))
            if pins is not None and pins.root is not None and seq == pins.size and tree.root() != pins.root:
                raise Invalid(f"entry {seq}.root", words=RECOMPUTED)
        yield Link(entry, before is not None and pinned_by <= reached, before, erased, peaks, is_first)
    expected = reached if pins is None or is_part else pins.size
    if seq < expected:
        words = f"missing; the log ends at entry {seq}, and the checkpoint saw {expected} entries"
        raise Invalid(f"entry {seq + 1}", words=words)


RECOMPUTED = "is not what the checkpoint saw; the log was edited and its chain recomputed, or replaced"
UNCHAINED = "does not follow from the entry before it: swapped, inserted, or edited"


def _check_digest(entry: Entry, taken: Taken) -> Erased | None:
    """Whether the content is that of the digest, or what an erasure says is left of it."""
    body_digest = digest("audit-entry/1", entry.body)
    if entry.digest == body_digest:
        return None
    erased = taken().get(entry.seq or 0)
    left_digest = None if entry.body == NOTHING else body_digest
    if erased is None:
        raise Invalid(f"entry {entry.seq}.digest", words="its content does not match its digest")
    if (entry.digest, left_digest) != (erased.digest, erased.left):
        words = f"its content is neither the recorded one nor what entry {erased.by} says is left of it"
        raise Invalid(f"entry {entry.seq}.digest", words=words)
    return erased


def _check_head(entry: Entry, before: str, pinned: Mapping[int, str]) -> None:
    seq = entry.seq or 0
    if entry.previous not in (None, before):
        raise Invalid(f"entry {seq}.previous", words=UNCHAINED)
    if pinned.get(seq - 1, before) != before:
        raise Invalid(f"entry {seq}.previous", words=RECOMPUTED)
    time = (entry.written_at or "").encode("utf-8", "surrogateescape")
    linked = bytes.fromhex(before) + seq.to_bytes(8, "big") + bytes.fromhex(entry.digest) + time
    if entry.head != digest("audit-head/1", linked):
        raise Invalid(f"entry {seq}.head", words=UNCHAINED)


def _begun(entry: Entry) -> tuple[str, MerkleTree] | None:
    """Head and tree before the first entry of a file that goes on from another one, as it says itself."""
    try:
        record = loads(entry.body)
        if (record["kind"], record["event"], record["count"]) != ("rotation", "opened", (entry.seq or 0) - 1):
            return None
        tree = MerkleTree.resumed(record["count"], record["tree"])
        return (record["head"], tree) if _HEX.fullmatch(record["head"]) else None
    except (Malformed, KeyError, TypeError, ValueError, AttributeError):
        return None


def verify_rotation(r: Record, link: Link) -> list[str]:
    """The last entry of a file, or the first of one that goes on. Returns what could not be verified."""
    for name in ("by", "why"):
        require(f"rotation.{name}", r[name].strip() != "", r[name], "text")
    if r["event"] == "closed":
        require("rotation.next", r.get("next", "").strip() != "", r.get("next"), "the name of a file")
        return []
    for name in ("previous", "count", "head", "tree"):
        if name not in r:
            raise Invalid(f"rotation.{name}", None, "what the file before it had")
    if link.entry.seq is None or link.before is None or link.tree is None:
        return ["the entries before it, which were not given"]
    expect("rotation.count", r["count"], link.entry.seq - 1)
    expect("rotation.head", r["head"], link.before)
    expect("rotation.tree", r["tree"], link.tree.peaks)
    return ["the file before it, which was not given"] if link.first else []


def verify_erasure(r: Record, seq: int | None) -> None:
    """Content that was taken away; of the entries themselves the chain keeps the digests."""
    for name in ("by", "why"):
        require(f"erasure.{name}", r[name].strip() != "", r[name], "text")
    numbers = [item["entry"] for item in r["entries"]]
    require("erasure.entries", 0 < len(set(numbers)) == len(numbers), numbers[:3], "some entries, each once")
    require("erasure.entries", seq is None or max(numbers) < seq, max(numbers), "entries before this one")


LARGEST = 64 << 20  # bytes of a checkpoint
LONGEST_KEY = 4096  # bytes of a file with a public key
MOST_SIGNATURES = 100  # of a note; each may have to be verified
ED25519 = b"\x01"  # C2SP's number of the algorithm
SIGNED = "\N{EM DASH} "
HEAD = "ucsearch-head "
_HEX = re.compile("[0-9a-f]{64}")
_NAME = re.compile(r"[^\s+]+")


class Pins(NamedTuple):
    """What a checkpoint vouches for."""

    heads: Mapping[int, str]  # by entry number; the largest number is how far the log had come
    root: bytes | None = None  # of the tree over all heads up to that number
    doubt: str = ""  # why nobody vouches for the checkpoint itself

    @property
    def size(self) -> int:
        return max(self.heads, default=0)


def read_checkpoint(path: Path, key: str | None = None, origin: str | None = None) -> Pins:
    """With a `key` (text, or a file with it) the checkpoint must be a note that was signed with it; with an `origin` it
    must be about that log. A key may sign for several: unless told, it is taken for that of the log of its name."""
    verifier = None if key is None else read_key(key)
    try:
        with open_regular(path) as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise Malformed(f"{path}: cannot be read ({error.strerror})") from None
    if len(data) > LARGEST:
        raise Malformed(f"{path}: too long for a checkpoint")
    if not data.startswith(b"{"):
        return _note(data, path, verifier, origin)
    if origin is not None:
        raise Malformed(f"{path}: a checkpoint that names no log, but an origin was given")
    if verifier is not None:
        raise Malformed(f"{path}: a checkpoint without signatures, but a key was given")
    return Pins(_sealed(data, path))


def _sealed(data: bytes, path: Path) -> dict[int, str]:
    try:
        content = loads(data)
        sealed = content.pop("digest")
        pins = {**dict(content["marks"]), content["count"]: content["head"]}
        if content["schema"] != "ucsearch.checkpoint/1" or sealed != digest("checkpoint/1", canonical(content)):
            raise ValueError
        for n, head in pins.items():
            if type(n) is not int or not 0 <= n <= content["count"] <= MAX_INT or not _HEX.fullmatch(head):
                raise ValueError
        if pins.get(0, GENESIS) != GENESIS:
            raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError, Malformed):
        raise Malformed(f"{path}: not a checkpoint, or altered") from None
    return pins


# -------------------------------------------------------------------- signed notes


class Key(NamedTuple):
    """A public key by which notes are verified."""

    name: str
    hash: bytes  # 4 bytes
    public: bytes  # 32 bytes


def read_key(text: str) -> Key:
    """`name+hash+base64`, as text or as the content of a file."""
    try:
        if text.count("+") < 2 and Path(text).is_file():
            with open_regular(Path(text)) as file:
                text = file.read(LONGEST_KEY).decode("utf-8")
        name, hashed, encoded = text.strip().split("+", 2)
        data = _bytes_of(encoded)
        if not _NAME.fullmatch(name) or data[:1] != ED25519 or len(data) != 33:
            raise ValueError
        key_hash = hashlib.sha256(name.encode() + b"\n" + data).digest()[:4]
        if hashed != key_hash.hex():
            raise ValueError
    except (ValueError, OSError):
        raise Malformed(f"the key {text[:80]!r} is not a verifier key: name+hash+base64, Ed25519") from None
    return Key(name, key_hash, data[1:])


def _bytes_of(text: str) -> bytes:
    """What one base64 text stands for: other texts that a lenient reader takes for the same are refused."""
    data = b64decode(text, validate=True)
    if b64encode(data).decode("ascii") != text:
        raise ValueError
    return data


def _note(data: bytes, path: Path, key: Key | None, expected_origin: str | None) -> Pins:
    try:
        text = data.decode("utf-8")
        if any(c < " " and c != "\n" for c in text) or not text.endswith("\n"):
            raise ValueError
        message, _, signatures = text.rpartition("\n\n")
        message += "\n"
        origin, size, root, *more = message[:-1].split("\n")
        count, tree = int(size), _bytes_of(root)
        heads = [_bytes_of(line.removeprefix(HEAD)).hex() for line in more if line.startswith(HEAD)]
        lines = signatures[:-1].split("\n")
        if len(lines) > MOST_SIGNATURES:
            raise ValueError
        if not origin or str(count) != size or not 0 <= count <= MAX_INT or len(tree) != 32:
            raise ValueError
        if len(heads) != 1 or not _HEX.fullmatch(heads[0]) or not all(line.startswith(SIGNED) for line in lines):
            raise ValueError
    except ValueError:
        raise Malformed(f"{path}: neither a checkpoint of this package nor a signed note with its head") from None
    if expected_origin is not None and origin != expected_origin:
        raise Invalid("checkpoint.origin", origin, expected_origin)
    if key is None:
        return Pins({count: heads[0]}, tree, "its signature was not checked; give the key")
    if not any(_signs(line, message.encode(), key) for line in lines):
        raise Invalid("checkpoint.signature", path.name, f"no signature by {key.name} that verifies")
    named = expected_origin is not None or origin == key.name
    return Pins(
        {count: heads[0]}, tree, "" if named else f"it is about the log {origin}, not the one of the key's name"
    )


def _signs(line: str, message: bytes, key: Key) -> bool:
    name, _, encoded = line.removeprefix(SIGNED).partition(" ")
    try:
        data = _bytes_of(encoded)
    except ValueError:
        return False
    return name == key.name and data[:4] == key.hash and _is_by(key.public, message, data[4:])


def _is_by(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether a signature of the message was made with the private half of a public key."""
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError:
        need = "a signature can be verified with the package cryptography alone: pip install cryptography"
        raise Malformed(need) from None
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


# -------------------------------------------------------------------- the tree over the heads


class MerkleTree:
    """RFC 6962's root over leaves that come one by one; a logarithm of them is kept."""

    def __init__(self) -> None:
        self.size = 0
        self._peaks: list[bytes] = []  # roots of full subtrees, largest first

    def add(self, leaf: bytes) -> None:
        node, size = hashlib.sha256(b"\0" + leaf).digest(), self.size
        while size & 1:
            node, size = hashlib.sha256(b"\1" + self._peaks.pop() + node).digest(), size >> 1
        self._peaks.append(node)
        self.size += 1

    @classmethod
    def resumed(cls, size: int, peaks: list[str]) -> MerkleTree:
        """Go on from the peaks of so many leaves."""
        tree = cls()
        tree.size, tree._peaks = size, [bytes.fromhex(peak) for peak in peaks]
        if size.bit_count() != len(peaks) or any(len(peak) != 32 for peak in tree._peaks):
            raise ValueError
        return tree

    def copy(self) -> MerkleTree:
        tree = MerkleTree()
        tree.size, tree._peaks = self.size, [*self._peaks]
        return tree

    @property
    def peaks(self) -> list[str]:
        """Roots of the full subtrees, the largest first."""
        return [peak.hex() for peak in self._peaks]

    def root(self) -> bytes:
        if not self._peaks:
            return hashlib.sha256(b"").digest()
        node = self._peaks[-1]
        for left in reversed(self._peaks[:-1]):
            node = hashlib.sha256(b"\1" + left + node).digest()
        return node
