"""Blobs: the exact bytes, one form per array, and every damage refused."""

import hashlib
import math
import random
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.counts import some
from ucsearch.errors import InputError, RecordError
from ucsearch.records.arrays import blob_id, blob_ref, blob_shape, decode_array, decode_floats, encode_array


def by_hand(shape: tuple[int, ...], values: list[float]) -> bytes:
    head = b"UCBLOB" + bytes([1, len(shape)]) + b"<f8\0\0\0\0\0"
    return head + b"".join(struct.pack("<Q", n) for n in shape) + b"".join(struct.pack("<d", x) for x in values)


def test_bytes_are_what_the_documentation_says() -> None:
    blob = encode_array([[1.5, -2.0, 3.0], [0.0, 1e300, 5e-324]])
    assert blob == by_hand((2, 3), [1.5, -2.0, 3.0, 0.0, 1e300, 5e-324])
    assert blob_id(blob) == hashlib.sha256(blob).hexdigest()
    assert blob_ref(blob) == {"$blob": blob_id(blob)}


@pytest.mark.parametrize("shape", [(), (0,), (1,), (20, 12), (2, 0, 3), (2, 3, 4, 5), (1,) * 8])
def test_round_trip(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(3).normal(size=shape)
    blob = encode_array(values)
    back = decode_array(blob)
    assert back.shape == shape == blob_shape(blob)
    assert back.dtype == np.float64
    assert back.tobytes() == values.tobytes()
    assert decode_floats(blob) == (shape, tuple(values.ravel().tolist()))
    assert encode_array(back) == blob
    assert not back.flags.writeable


def test_equal_arrays_have_equal_bytes() -> None:
    values = np.array([[0.0, 2.0], [3.0, 4.0]])
    blob = encode_array(values)
    negative = values.copy()
    negative[0, 0] = -0.0
    same: list[Any] = [
        values.tolist(),
        negative,
        values.astype(">f8"),
        values.astype(np.float32),
        values.astype(np.int16),
        values.astype(np.uint8),
        np.asfortranarray(values),
        np.repeat(values, 2, axis=1)[:, ::2],
    ]
    assert [encode_array(other) for other in same] == [blob] * len(same)
    assert encode_array(values.T) != blob
    assert encode_array(values.ravel()) != blob
    assert math.copysign(1, negative[0, 0]) == -1, "the caller's array was changed"


def test_nan_has_one_form() -> None:
    odd = np.array([0x7FF0000000000001, 0xFFF8000000000123, 0x7FF8000000000000], dtype=np.uint64).view(np.float64)
    blob = encode_array(odd, finite=False)
    assert blob == by_hand((3,), [math.nan] * 3)
    assert np.isnan(decode_array(blob)).all()
    assert all(map(math.isnan, decode_floats(blob)[1]))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_unbounded_values_are_refused_by_index(bad: float) -> None:
    values = np.ones((3, 4))
    values[1, 2] = bad
    with pytest.raises(InputError, match=rf"^trace\.members\[1, 2\]: saw {bad}, expected a finite number"):
        encode_array(values, field="trace.members")
    blob = encode_array(values, finite=False)
    for decode in (decode_array, decode_floats):
        decode(blob)
        with pytest.raises(RecordError, match="value 6 is not finite"):
            decode(blob, finite=True)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1.0], [1.0, 2.0]], "rectangular"),
        (["a"], "real numbers"),
        ([True], "real numbers"),
        ([1j], "real numbers"),
        ([None], "real numbers"),
        (np.zeros((1,) * 9), "at most 8"),
        ([2**53 + 1], r"array\[0\]: saw 9007199254740993, expected an integer within 2\*\*53"),
        (np.array([[0], [-(2**62)]]), r"array\[1, 0\]: saw -4611686018427387904"),
        (np.array([2**64 - 1], dtype=np.uint64), "18446744073709551615"),
    ],
)
def test_what_is_no_real_array_is_refused(values: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        encode_array(values)


def test_a_single_number_has_no_index() -> None:
    with pytest.raises(InputError, match=r"^array: saw nan, expected a finite number"):
        encode_array(math.nan)
    assert decode_floats(encode_array(math.inf, finite=False)) == ((), (math.inf,))


def test_integers_up_to_the_limit_are_exact() -> None:
    assert decode_array(encode_array([2**53, -(2**53)])).tolist() == [2.0**53, -(2.0**53)]


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (0, b"X", "magic"),
        (6, b"\x02", "version 2"),
        (7, b"\x09", "9 dimensions"),
        (7, b"\x01", "expected"),
        (8, b">", "dtype"),
        (15, b"x", "dtype"),
        (16, b"\x03", "expected"),
        (23, b"\x80", "expected"),
    ],
)
def test_a_wrong_header_is_refused(place: int, value: bytes, message: str) -> None:
    blob = bytearray(encode_array(np.ones((2, 3))))
    blob[place : place + 1] = value
    for decode in (decode_array, decode_floats, blob_shape):
        with pytest.raises(RecordError, match=message):
            decode(bytes(blob))


def test_every_truncation_and_extension_is_refused() -> None:
    blob = encode_array(np.arange(6.0).reshape(2, 3))
    for cut in [*(blob[:n] for n in range(len(blob))), blob + b"\0", blob + bytes(8)]:
        with pytest.raises(RecordError, match="blob: saw"):
            decode_array(cut)


@pytest.mark.parametrize("bits", [0x8000000000000000, 0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001])
def test_a_second_form_of_a_value_is_refused(bits: int) -> None:
    blob = encode_array([1.0, 2.0, 3.0])
    blob = blob[:-16] + bits.to_bytes(8, "little") + blob[-8:]
    for decode in (decode_array, decode_floats):
        with pytest.raises(RecordError, match=r"value 1 is a -0\.0 or a NaN that is not in normal form"):
            decode(blob)


def test_only_bytes_are_blobs() -> None:
    with pytest.raises(RecordError, match="saw a str"):
        blob_shape("UCBLOB")  # type: ignore[arg-type]


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=20), st.integers(0, 2**32))
@settings(max_examples=some(200), deadline=None)
def test_any_single_changed_byte_changes_the_id(values: list[float], seed: int) -> None:
    blob = encode_array(np.array(values, dtype=float), finite=False)
    assert encode_array(decode_array(blob), finite=False) == blob
    changed = bytearray(blob)
    changed[random.Random(seed).randrange(len(blob))] ^= 1
    assert blob_id(bytes(changed)) != blob_id(blob)
