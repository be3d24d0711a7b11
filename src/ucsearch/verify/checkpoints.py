"""Checkpoints: what somebody kept elsewhere about a log, as a sealed JSON file or as a signed note.

A note is what C2SP's tlog-checkpoint describes: origin, size, root of the RFC 6962 tree over the entries' heads, one
more line with the chain's head, and Ed25519 signatures (https://c2sp.org/signed-note, https://c2sp.org/tlog-checkpoint).
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ucsearch.verify import ed25519
from ucsearch.verify.formats import GENESIS, MAX_INT, Invalid, Malformed, canonical, digest, loads
from ucsearch.verify.opening import open_regular

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
        own = hashlib.sha256(name.encode() + b"\n" + data).digest()[:4]
        if hashed != own.hex():
            raise ValueError
    except (ValueError, OSError):
        raise Malformed(f"the key {text[:80]!r} is not a verifier key: name+hash+base64, Ed25519") from None
    return Key(name, own, data[1:])


def _bytes_of(text: str) -> bytes:
    """What one base64 text stands for: other texts that a lenient reader takes for the same are refused."""
    data = b64decode(text, validate=True)
    if b64encode(data).decode("ascii") != text:
        raise ValueError
    return data


def _note(data: bytes, path: Path, key: Key | None, wanted: str | None) -> Pins:
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
    if wanted is not None and origin != wanted:
        raise Invalid("checkpoint.origin", origin, wanted)
    if key is None:
        return Pins({count: heads[0]}, tree, "its signature was not checked; give the key")
    if not any(_signs(line, message.encode(), key) for line in lines):
        raise Invalid("checkpoint.signature", path.name, f"no signature by {key.name} that verifies")
    named = wanted is not None or origin == key.name
    return Pins(
        {count: heads[0]}, tree, "" if named else f"it is about the log {origin}, not the one of the key's name"
    )


def _signs(line: str, message: bytes, key: Key) -> bool:
    name, _, encoded = line.removeprefix(SIGNED).partition(" ")
    try:
        data = _bytes_of(encoded)
    except ValueError:
        return False
    return name == key.name and data[:4] == key.hash and ed25519.verify(key.public, message, data[4:])


# -------------------------------------------------------------------- the tree over the heads


class Tree:
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

    def root(self) -> bytes:
        if not self._peaks:
            return hashlib.sha256(b"").digest()
        node = self._peaks[-1]
        for left in reversed(self._peaks[:-1]):
            node = hashlib.sha256(b"\1" + left + node).digest()
        return node
