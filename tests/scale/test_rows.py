"""Rows of a segment: one form of every number, one digest in the writer's and in canonical JSON's words."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from ucsearch.records.canonical import canonical
from ucsearch.records.merkle import MerkleTree, climb, leaf_hash, path_from, root_of
from ucsearch.scale.segments.rows import COLUMNS, Batch, batches_of, digests_of, normal, row_texts, table_of

SHARED = hashlib.sha256(b"shared").hexdigest()
TEXT = 'é "\\/\b\t\n\x1f\x7f\u2028\U0001f600'


def batch(count: int = 3, width: int = 2) -> Batch:
    rng = np.random.default_rng(width)
    texts = {n: [f"{n}{i}{TEXT}" for i in range(count)] for n, k in COLUMNS.items() if k == "text"}
    numbers: dict[str, Any] = {}
    for name, kind in COLUMNS.items():
        if kind != "text":
            size = (count, width) if kind.endswith("[]") else (count,)
            numbers[name] = rng.integers(-9, 9, size).astype(kind.removesuffix("[]"))
    return Batch(texts, numbers)


def test_there_is_one_zero_and_one_nan() -> None:
    other = np.uint64(0xFFF8000000000001).view(np.float64)
    assert normal([-0.0, other, 1.5]).tobytes() == np.array([0.0, np.nan, 1.5]).tobytes()


def test_a_digest_is_the_leaf_of_canonical_json() -> None:
    found = batch()
    texts = [{**row, "shared": SHARED} for row in row_texts(found)]
    assert digests_of(found, SHARED) == [hashlib.sha256(b"\x00" + canonical(row)).digest() for row in texts]
    assert len({*digests_of(found, SHARED), *digests_of(found, "00" * 32)}) == 6


@pytest.mark.parametrize("name", [*COLUMNS])
def test_every_column_is_in_the_digest(name: str) -> None:
    found, before = batch(), digests_of(batch(), SHARED)
    if COLUMNS[name] == "text":
        found.texts[name][1] += "."
    else:
        found.numbers[name][1] += 1
    after = digests_of(found, SHARED)
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, True]


def test_rows_come_back_from_arrow_by_shape() -> None:
    import pyarrow as pa

    one, two = batch(2, 2), batch(3, 5)
    whole = pa.concat_tables([table_of(b, digests_of(b, SHARED)) for b in (one, two)]).take([4, 0, 2, 1, 3])
    seen = {}
    for places, own in batches_of(whole):
        for place, digest in zip(places.tolist(), digests_of(own, SHARED), strict=True):
            seen[place] = digest
    assert [seen[i] for i in range(5)] == whole.column("digest").to_pylist()
    assert batches_of(whole.slice(0, 0)) == []


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 13])
def test_every_leaf_has_a_path_to_the_root(count: int) -> None:
    leaves = [leaf_hash(bytes([i])) for i in range(count)]
    tree = MerkleTree()
    for i in range(count):
        tree.add(bytes([i]))
    assert root_of(leaves) == tree.root()
    for i, leaf in enumerate(leaves):
        assert climb(leaf, path_from(leaves, i)) == tree.root()
        assert climb(leaves[i - 1], path_from(leaves, i)) != tree.root() or count == 1


def test_no_leaves_have_the_root_of_nothing() -> None:
    assert root_of([]) == hashlib.sha256(b"").digest() == MerkleTree().root()
