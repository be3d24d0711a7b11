"""Float arrays as content-addressed bytes: stored once, named by their SHA-256, referenced from records.

Format, all little-endian:

| bytes | content |
|---|---|
| 0..5 | magic `UCBLOB` |
| 6 | version, 1 |
| 7 | number of dimensions n, 0 to 8 |
| 8..15 | dtype, ASCII `<f8` filled up with zero bytes |
| 16..16+8n | n unsigned 64-bit sizes |
| rest | the values, binary64, last dimension fastest; 8 bytes each, nothing after them |

Equal arrays have equal bytes: `-0.0` is written as `0.0` and NaN always with the same bits, and a blob
that holds either in another form is refused. The id is the plain SHA-256 of the whole blob. A record
refers to one as `{"$blob": "<id>"}`.
"""

from __future__ import annotations

import hashlib
import math
import struct
import sys
from array import array
from typing import TYPE_CHECKING, Any

from ucsearch.errors import InputError, RecordError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["blob_id", "blob_ref", "blob_shape", "decode_array", "decode_floats", "encode_array"]

MAGIC = b"UCBLOB"
VERSION = 1
DTYPE = b"<f8"
MAX_DIMENSIONS = 8
# Header up to the sizes: magic, version, number of dimensions, dtype.
_HEADER = struct.Struct("<6sBB8s")
_DTYPE_FIELD = DTYPE.ljust(8, b"\0")
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
    if source.ndim > MAX_DIMENSIONS:
        raise InputError(field, f"{source.ndim} dimensions", f"at most {MAX_DIMENSIONS}")
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
    head = _HEADER.pack(MAGIC, VERSION, data.ndim, _DTYPE_FIELD)
    return head + struct.pack(f"<{data.ndim}Q", *data.shape) + data.tobytes()


def blob_shape(blob: bytes) -> tuple[int, ...]:
    """The shape a blob declares, after checking its header and its length (not its values)."""
    if not isinstance(blob, bytes):
        raise RecordError(f"blob: saw a {type(blob).__name__}, expected bytes")
    if len(blob) < 16:
        raise RecordError(f"blob: saw {len(blob)} bytes, expected a header of at least 16")
    if blob[:6] != MAGIC:
        raise RecordError(f"blob: saw the magic {blob[:6]!r}, expected {MAGIC!r}")
    if blob[6] != VERSION:
        raise RecordError(f"blob: saw version {blob[6]}, expected {VERSION}")
    if blob[8:16] != _DTYPE_FIELD:
        raise RecordError(f"blob: saw dtype {blob[8:16]!r}, expected {_DTYPE_FIELD!r}")
    n = blob[7]
    if n > MAX_DIMENSIONS:
        raise RecordError(f"blob: saw {n} dimensions, expected at most {MAX_DIMENSIONS}")
    start = 16 + 8 * n
    if len(blob) < start:
        raise RecordError(f"blob: saw {len(blob)} bytes, expected {start} for {n} sizes")
    shape: tuple[int, ...] = struct.unpack_from(f"<{n}Q", blob, 16)
    expected = start + 8 * math.prod(shape)
    if len(blob) != expected:
        raise RecordError(f"blob: saw {len(blob)} bytes, expected {expected} for shape {shape}")
    return shape


def decode_array(blob: bytes, *, finite: bool = False) -> npt.NDArray[np.float64]:
    """The array of a blob, read-only, after checking everything about it."""
    import numpy as np

    shape = blob_shape(blob)
    start = 16 + 8 * len(shape)
    bits = np.frombuffer(blob, dtype="<u8", offset=start)
    magnitude = bits & np.uint64(_MAGNITUDE)
    odd_nan = (magnitude > np.uint64(_INFINITY)) & (bits != np.uint64(_NAN))
    _refuse_odd(np.flatnonzero((bits == np.uint64(_NEGATIVE_ZERO)) | odd_nan))
    if finite:
        _refuse_unbounded(np.flatnonzero(magnitude >= np.uint64(_INFINITY)))
    result = bits.view("<f8").astype(np.float64, copy=False).reshape(shape)
    result.flags.writeable = False
    return result


def decode_floats(blob: bytes, *, finite: bool = False) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Shape and flat values of a blob with the standard library alone, with the checks of `decode_array`."""
    shape = blob_shape(blob)
    start = 16 + 8 * len(shape)
    bits, values = array("Q", blob[start:]), array("d", blob[start:])
    if sys.byteorder == "big":
        bits.byteswap()
        values.byteswap()
    _refuse_odd(
        [i for i, b in enumerate(bits) if b == _NEGATIVE_ZERO or (b & _MAGNITUDE > _INFINITY and b != _NAN)][:1]
    )
    if finite:
        _refuse_unbounded([i for i, b in enumerate(bits) if b & _MAGNITUDE >= _INFINITY][:1])
    return shape, tuple(values)


def _refuse_odd(places: Any) -> None:
    if len(places):
        raise RecordError(f"blob: value {int(places[0])} is a -0.0 or a NaN that is not in normal form")


def _refuse_unbounded(places: Any) -> None:
    if len(places):
        raise RecordError(f"blob: value {int(places[0])} is not finite")


def blob_id(blob: bytes) -> str:
    """The name of a blob: the SHA-256 of its bytes, 64 hex digits."""
    return hashlib.sha256(blob).hexdigest()


def blob_ref(blob: bytes) -> dict[str, str]:
    """What a record holds in the blob's place."""
    return {"$blob": blob_id(blob)}
