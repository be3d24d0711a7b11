"""The tree of RFC 6962: a root over leaves, and the path from one leaf to it.

A leaf is SHA-256(0x00 + data), a node SHA-256(0x01 + left + right).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from ucsearch.errors import RecordError

__all__ = ["MerkleTree", "climb", "leaf_hash", "path_from", "root_of"]

Path = list[tuple[str, str]]
"""Siblings from below, each with its side ("left" or "right") and its hash in hex."""


class MerkleTree:
    """RFC 6962's root over leaves that come one by one; a logarithm of them is kept."""

    def __init__(self) -> None:
        self.size = 0
        self._full: list[tuple[int, bytes]] = []  # leaves and root of complete subtrees, largest first

    @classmethod
    def resumed(cls, size: int, peaks: Sequence[str]) -> MerkleTree:
        """Go on from `peaks` of so many leaves."""
        tree = cls()
        counts = [1 << bit for bit in range(size.bit_length() - 1, -1, -1) if size >> bit & 1]
        if len(counts) != len(peaks):
            raise RecordError(f"a tree of {size} entries: saw {len(peaks)} peaks, expected {len(counts)}")
        tree.size, tree._full = size, [(n, bytes.fromhex(peak)) for n, peak in zip(counts, peaks, strict=True)]
        return tree

    @property
    def peaks(self) -> list[str]:
        """Roots of the complete subtrees, the largest first: all that is needed to go on."""
        return [node.hex() for _, node in self._full]

    def add(self, leaf: bytes) -> None:
        count, node = 1, leaf_hash(leaf)
        while self._full and self._full[-1][0] == count:
            node = _node(self._full.pop()[1], node)
            count *= 2
        self._full.append((count, node))
        self.size += 1

    def root(self) -> bytes:
        node: bytes | None = None
        for _, left in reversed(self._full):
            node = left if node is None else _node(left, node)
        return hashlib.sha256(b"").digest() if node is None else node


def leaf_hash(data: bytes) -> bytes:
    """The hash of a leaf with this content."""
    return hashlib.sha256(b"\x00" + data).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def _levels(hashes: Sequence[bytes]) -> list[list[bytes]]:
    """All levels of the tree, the leaves first; a last node without a neighbour goes up as it is."""
    levels = [list(hashes)]
    while len(last := levels[-1]) > 1:
        level = [_node(last[i], last[i + 1]) for i in range(0, len(last) - 1, 2)]
        levels.append(level + last[len(last) - len(last) % 2 :])
    return levels


def root_of(hashes: Sequence[bytes]) -> bytes:
    """The root over the hashes of all leaves."""
    return _levels(hashes)[-1][0] if hashes else hashlib.sha256(b"").digest()


def path_from(hashes: Sequence[bytes], index: int) -> Path:
    """The path from the leaf at `index` to the root."""
    path: Path = []
    for level in _levels(hashes)[:-1]:
        other = index ^ 1
        if other < len(level):
            path.append(("left" if other < index else "right", level[other].hex()))
        index >>= 1
    return path


def climb(node: bytes, path: Sequence[tuple[str, str]]) -> bytes:
    """The root that a path leads to from the hash of a leaf."""
    for side, text in path:
        other = bytes.fromhex(text)
        node = _node(other, node) if side == "left" else _node(node, other)
    return node
