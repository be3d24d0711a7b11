"""Blobs: the exact bytes, one form per array, and every damage refused."""

import hashlib
import io
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
from ucsearch.records.canonical import blob_id, blob_ref, blob_shape, decode_array, encode_array
from ucsearch.verify.read import Malformed, read_blob


def by_hand(shape: tuple[int, ...], values: list[float]) -> bytes:
    """As `numpy.save` writes it."""
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}" + " " * (21 - len(str(shape[0])))
    head = b"\x93NUMPY\x01\x00" + struct.pack("<H", 118) + text.ljust(117).encode() + b"\n"
    return head + b"".join(struct.pack("<d", x) for x in values)


def test_bytes_are_what_the_documentation_says() -> None:
    blob = encode_array([[1.5, -2.0, 3.0], [0.0, 1e300, 5e-324]])
    assert blob == by_hand((2, 3), [1.5, -2.0, 3.0, 0.0, 1e300, 5e-324])
    assert blob_id(blob) == hashlib.sha256(blob).hexdigest()
    assert blob_ref(blob) == {"$blob": blob_id(blob)}


@pytest.mark.parametrize("shape", [(), (0,), (1,), (20, 12), (2, 0, 3), (2, 3, 4, 5), (1,) * 30])
def test_round_trip(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(3).normal(size=shape)
    blob = encode_array(values)
    back = decode_array(blob)
    assert back.shape == shape == blob_shape(blob)
    assert back.dtype == np.float64
    assert back.tobytes() == values.tobytes()
    file = io.BytesIO()
    np.save(file, values)
    assert blob == file.getvalue()
    assert read_blob(blob_id(blob), lambda _: blob) == (shape, values.tobytes(), tuple(values.ravel().tolist()))
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
    assert all(map(math.isnan, read_blob(blob_id(blob), lambda _: blob)[2]))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_unbounded_values_are_refused_by_index(bad: float) -> None:
    values = np.ones((3, 4))
    values[1, 2] = bad
    with pytest.raises(InputError, match=rf"^trace\.members\[1, 2\]: saw {bad}, expected a finite number"):
        encode_array(values, field="trace.members")
    blob = encode_array(values, finite=False)
    decode_array(blob)
    with pytest.raises(RecordError, match="value 6 is not finite"):
        decode_array(blob, finite=True)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1.0], [1.0, 2.0]], "rectangular"),
        (["a"], "real numbers"),
        ([True], "real numbers"),
        ([1j], "real numbers"),
        ([None], "real numbers"),
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
    assert decode_array(encode_array(math.inf, finite=False)).tolist() == math.inf


def test_integers_up_to_the_limit_are_exact() -> None:
    assert decode_array(encode_array([2**53, -(2**53)])).tolist() == [2.0**53, -(2.0**53)]


@pytest.mark.parametrize(
    "change",
    [
        (b"NUMPY", b"NUMPX"), (b"NUMPY\x01", b"NUMPY\x02"), (b"v\x00{", b"u\x00{"), (b"<f8", b">f8"),
        (b"False", b"True"), (b"(2, 3)", b"(3, 3)"), (b"(2, 3)", b"(2,3) "), (b"(2, 3)", b"(02,3)"),
        (b"(2, 3)", b"[2, 3]"), (b" \n", b"\n\n"), (b" \n", b"x\n"),
        (b"'descr': '<f8', 'fortran_order': False", b"'fortran_order': False, 'descr': '<f8'"),
    ],
)  # fmt: skip
def test_a_wrong_header_is_refused(change: tuple[bytes, bytes]) -> None:
    blob = encode_array(np.ones((2, 3)))
    changed = blob.replace(*change, 1)
    assert changed != blob
    for decode in (decode_array, blob_shape):
        with pytest.raises(RecordError, match="blob: saw"):
            decode(changed)
    with pytest.raises(Malformed):
        read_blob(blob_id(changed), lambda _: changed)


def test_every_truncation_and_extension_is_refused() -> None:
    blob = encode_array(np.arange(6.0).reshape(2, 3))
    for cut in [*(blob[:n] for n in range(len(blob))), blob + b"\0", blob + bytes(8)]:
        with pytest.raises(RecordError, match="blob: saw"):
            decode_array(cut)
        with pytest.raises(Malformed):
            read_blob(blob_id(cut), lambda _, cut=cut: cut)


@pytest.mark.parametrize("bits", [0x8000000000000000, 0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001])
def test_a_second_form_of_a_value_is_refused(bits: int) -> None:
    blob = encode_array([1.0, 2.0, 3.0])
    blob = blob[:-16] + bits.to_bytes(8, "little") + blob[-8:]
    with pytest.raises(RecordError, match=r"value 1 is a -0\.0 or a NaN that is not in normal form"):
        decode_array(blob)
    with pytest.raises(Malformed, match=r"-0\.0 or an unusual NaN"):
        read_blob(blob_id(blob), lambda _: blob)


def test_only_bytes_are_blobs() -> None:
    with pytest.raises(RecordError, match="saw a str"):
        blob_shape("NUMPY")  # type: ignore[arg-type]


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=20), st.integers(0, 2**32))
@settings(max_examples=some(200), deadline=None)
def test_any_single_changed_byte_changes_the_id(values: list[float], seed: int) -> None:
    blob = encode_array(np.array(values, dtype=float), finite=False)
    assert encode_array(decode_array(blob), finite=False) == blob
    changed = bytearray(blob)
    changed[random.Random(seed).randrange(len(blob))] ^= 1
    assert blob_id(bytes(changed)) != blob_id(blob)
