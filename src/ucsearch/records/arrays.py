"""Float arrays as content-addressed `.npy` files: stored once, named by their SHA-256, referenced from records.

A blob is the file that `numpy.save` writes for a float64 array in C order (format 1.0, `<f8`). Equal arrays have equal
bytes: `-0.0` is written as `0.0` and NaN always with the same bits, and a blob that holds either in another form, or
another header than NumPy's, is refused. A record refers to one as `{"$blob": "<id>"}`.
"""

from __future__ import annotations

import hashlib
import math
import re
from typing import TYPE_CHECKING

from ucsearch.errors import InputError, RecordError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["blob_id", "blob_ref", "blob_shape", "decode_array", "encode_array"]

_SHAPE = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '<f8', 'fortran_order': False, 'shape': \(([0-9, ]*)\), \}", re.DOTALL
)
_NEGATIVE_ZERO = 0x8000000000000000
_NAN = 0x7FF8000000000000
_INFINITY = 0x7FF0000000000000
_MAGNITUDE = 0x7FFFFFFFFFFFFFFF


def encode_array(values: npt.ArrayLike, *, finite: bool = True, field: str = "array") -> bytes:
    """The blob of a real array; with `finite` (the default) NaN and infinities are refused by index."""
    import numpy as np

    try:
        source = np.asarray(values)
    except ValueError as error:
        raise InputError(field, "values of unequal lengths", "a rectangular array of numbers") from error
    if source.dtype.kind not in "fiu" or source.dtype.itemsize > 8:
        raise InputError(field, f"dtype {source.dtype}", "real numbers that binary64 can hold")
    if source.dtype.kind in "iu":
        # Beyond 2**53 neighbouring integers share a binary64; a silently rounded input proves nothing.
        beyond = np.argwhere((source > 2**53) | (source < -(2**53)))
        if len(beyond):
            place = tuple(int(i) for i in beyond[0])
            raise InputError(field, int(source[place]), "an integer within 2**53", index=place or None)
    bounded = np.isfinite(source)
    # Adding 0.0 turns -0.0 into 0.0 and changes no other number.
    if bounded.all():
        data = np.asarray(source.astype(np.float64, copy=False) + 0.0, dtype="<f8")
    else:
        if finite:
            index = tuple(int(i) for i in np.argwhere(~bounded)[0])
            raise InputError(field, float(source[index]), "a finite number", index=index or None)
        with np.errstate(invalid="ignore"):  # signalling NaNs
            data = np.asarray(source.astype(np.float64) + 0.0, dtype="<f8", order="C")
        data[np.isnan(data)] = np.uint64(_NAN).view(np.float64)
    return _header(data.shape) + data.tobytes()


def _header(shape: tuple[int, ...]) -> bytes:
    """What `numpy.save` writes before the values: room for a growing first axis, and a multiple of 64 bytes."""
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (21 - len(str(shape[0])) if shape else 0)
    text += " " * (-(11 + len(text)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


def blob_shape(blob: bytes) -> tuple[int, ...]:
    """The shape a blob declares, after checking its header and its length (not its values)."""
    if not isinstance(blob, bytes):
        raise RecordError(f"blob: saw a {type(blob).__name__}, expected bytes")
    found = _SHAPE.match(blob)
    sizes = found[1].split(b",") if found else []
    try:
        shape = tuple(int(size) for size in sizes if size)
        head = _header(shape)
    except (ValueError, OverflowError):  # digits of no number
        head = b""
    if not head or not blob.startswith(head):
        raise RecordError(f"blob: saw the header {blob[:80]!r}, expected that of a .npy file of float64")
    expected = len(head) + 8 * math.prod(shape)
    if len(blob) != expected:
        raise RecordError(f"blob: saw {len(blob)} bytes, expected {expected} for shape {shape}")
    return shape


def decode_array(blob: bytes, *, finite: bool = False) -> npt.NDArray[np.float64]:
    """The array of a blob, read-only, after checking everything about it."""
    import numpy as np

    shape = blob_shape(blob)
    bits = np.frombuffer(blob, dtype="<u8", offset=len(blob) - 8 * math.prod(shape))
    magnitude = bits & np.uint64(_MAGNITUDE)
    odd_nan = (magnitude > np.uint64(_INFINITY)) & (bits != np.uint64(_NAN))
    odd = np.flatnonzero((bits == np.uint64(_NEGATIVE_ZERO)) | odd_nan)
    if odd.size:
        raise RecordError(f"blob: value {int(odd[0])} is a -0.0 or a NaN that is not in normal form")
    unbounded = np.flatnonzero(magnitude >= np.uint64(_INFINITY)) if finite else odd
    if unbounded.size:
        raise RecordError(f"blob: value {int(unbounded[0])} is not finite")
    try:
        result = bits.view("<f8").astype(np.float64, copy=False).reshape(shape)
    except ValueError:  # of more dimensions than an array has, or of an empty one that is too large
        raise RecordError(f"blob: saw the shape {shape}, expected that of an array") from None
    result.flags.writeable = False
    return result


def blob_id(blob: bytes) -> str:
    """The name of a blob: the SHA-256 of its bytes, 64 hex digits."""
    return hashlib.sha256(blob).hexdigest()


def blob_ref(blob: bytes) -> dict[str, str]:
    """What a record holds in the blob's place."""
    return {"$blob": blob_id(blob)}
