"""The root over a segment's rows: RFC 6962 trees of buckets, and one tree over the buckets.

A row's leaf is SHA-256(0x00 + digest), a node SHA-256(0x01 + left + right). Rows are put into buckets by the first
bits of SHA-256(series) and sorted by series within one, so the root depends on no order and no partitioning.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import pairwise

from ucsearch.errors import RecordError

__all__ = ["MANY", "SeriesTree", "bucket_bits", "bucket_of", "path_among", "root_by"]

MANY = 10_000_000  # rows above which there are 65,536 buckets
_EMPTY = hashlib.sha256(b"").digest()


def bucket_bits(count: int) -> int:
    return 8 if count <= MANY else 16


def bucket_of(series: str, bits: int) -> int:
    return int.from_bytes(hashlib.sha256(series.encode("utf-8")).digest()[:2], "big") >> (16 - bits)


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def _levels(nodes: list[bytes]) -> list[list[bytes]]:
    """All levels of the tree over these nodes; a last one without a neighbour goes up as it is."""
    out = [nodes]
    while len(out[-1]) > 1:
        last = out[-1]
        up = [_node(last[i], last[i + 1]) for i in range(0, len(last) - 1, 2)]
        out.append(up + last[len(last) - len(last) % 2 :])
    return out


def _path(levels: Sequence[list[bytes]], index: int) -> list[tuple[str, str]]:
    out = []
    for level in levels[:-1]:
        other = index ^ 1
        if other < len(level):
            out.append(("left" if other < index else "right", level[other].hex()))
        index >>= 1
    return out


class SeriesTree:
    """The tree over rows (series, digest); a series that comes twice is refused by name."""

    def __init__(self, series: Sequence[str], digests: Sequence[bytes], *, bits: int | None = None) -> None:
        self.count = len(series)
        self.bits = bucket_bits(self.count) if bits is None else bits
        buckets: list[list[tuple[bytes, bytes]]] = [[] for _ in range(1 << self.bits)]
        shift = 16 - self.bits
        sha = hashlib.sha256
        for name, digest in zip(series, digests, strict=True):
            data = name.encode("utf-8")
            buckets[int.from_bytes(sha(data).digest()[:2], "big") >> shift].append((data, digest))
        self._names: list[list[bytes]] = []
        self._leaves: list[list[bytes]] = []
        for rows in buckets:
            rows.sort()
            names = [name for name, _ in rows]
            for a, b in pairwise(names):
                if a == b:
                    raise RecordError(f"series {a.decode('utf-8')!r}: twice, expected once")
            self._names.append(names)
            self._leaves.append([sha(b"\x00" + digest).digest() for _, digest in rows])
        self.tops = [_levels(leaves)[-1][0] if leaves else _EMPTY for leaves in self._leaves]
        self._upper = _levels(self.tops)

    @property
    def root(self) -> bytes:
        return self._upper[-1][0]

    @property
    def leaves(self) -> list[list[bytes]]:
        """By bucket, in order."""
        return self._leaves


def root_by(leaf: bytes, path: Sequence[tuple[str, str]]) -> bytes:
    """The root that a path leads to."""
    for side, other in path:
        near = bytes.fromhex(other)
        leaf = _node(near, leaf) if side == "left" else _node(leaf, near)
    return leaf


def path_among(nodes: list[bytes], index: int) -> list[tuple[str, str]]:
    """From the node at `index` to the root of the tree over all of them: siblings from below, each with its side."""
    return _path(_levels(nodes), index)
