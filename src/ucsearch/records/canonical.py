"""Canonical bytes of JSON (RFC 8785, by the package rfc8785) and of arrays, and digests of them: equal content gives
equal bytes.

What JSON cannot hold is refused with its place, not bent: NaN, infinities, integers beyond 2**53 - 1, lone surrogates,
keys that are not strings. `encode_number` turns unbounded and big numbers into strings first.

Arrays are stored once, as blobs named by their SHA-256; a record refers to one as `{"$blob": "<id>"}`. A blob is the
file that `numpy.save` writes for a float64 array in C order (format 1.0, `<f8`). `-0.0` is written as `0.0` and NaN
always with the same bits; a blob that holds either in another form, or another header than NumPy's, is refused.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import rfc8785

from ucsearch.errors import InputError, RecordError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = [
    "MAX_INT",
    "blob_id",
    "blob_ref",
    "blob_shape",
    "canonical",
    "decode_array",
    "decode_number",
    "digest",
    "digest_bytes",
    "encode_array",
    "encode_number",
    "loads",
    "record_id",
    "seal",
    "seal_bytes",
]

MAX_INT = 2**53 - 1
"""The largest magnitude of an integer in JSON: each up to here is the only one of its binary64."""

_DOMAIN = re.compile(r"[a-z0-9][a-z0-9./-]*", re.ASCII)
# Digits of an integer beyond MAX_INT, and no other spelling of it.
_BIG_INT = re.compile(r"-?[1-9][0-9]{15,}", re.ASCII)


def canonical(value: Any) -> bytes:
    """The RFC 8785 bytes of a JSON value made of None, bool, int, float, str, list, tuple and dict."""
    try:
        return _encoded(_respelled(value)).replace(f'"{_MARK}', "").replace(f'{_MARK}"', "").encode()
    except (ValueError, RecursionError):
        pass  # unusual, or no JSON
    try:
        return rfc8785.dumps(value)
    except (ValueError, RecursionError) as error:
        raise RecordError(_why(value, error)) from error


# The standard library's encoder is compiled. Its bytes are those of RFC 8785 but for the spelling of some numbers.
_encoded = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")).encode
_MARK = "\ue000"  # around numbers that are spelled here


def _respelled(value: Any) -> Any:
    """The value with numbers as RFC 8785 spells them: whole floats as integers, and those that Python writes with
    another exponent as marked text. A ValueError for values that this does not cover."""
    kind = type(value)
    if kind is float:
        if value.is_integer() and -MAX_INT <= value <= MAX_INT:
            return int(value)
        if 1e-9 <= abs(value) < 1e-4 or abs(value) > MAX_INT:
            return f"{_MARK}{rfc8785.dumps(value).decode()}{_MARK}"
        return value
    if kind is dict:
        if not all(isinstance(key, str) and key.isascii() for key in value):
            raise ValueError("keys that are not ASCII have an order of their own")
        return {key: _respelled(item) for key, item in value.items()}
    if kind is list or kind is tuple:
        return [_respelled(item) for item in value]
    if kind is bool or value is None or (kind is int and -MAX_INT <= value <= MAX_INT):
        return value
    if kind is str and _MARK not in value:
        return value
    raise ValueError(f"a {kind.__name__}")


def _why(value: Any, error: Exception) -> str:
    """Name the first place that `canonical` refuses; walks the value again because failure is rare."""
    if isinstance(error, RecursionError):
        return "record: saw a value nested too deeply or containing itself, expected a tree"
    path, reason = _first_bad(value, "record") or ("record", str(error))
    return f"{path}: saw {reason}"


def _first_bad(value: Any, path: str) -> tuple[str, str] | None:
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                return path, f"the key {key!r}, expected keys that are strings"
            if bad := _first_bad(key, f"{path} key {key!r}") or _first_bad(value[key], f"{path}.{key}"):
                return bad
        return None
    if isinstance(value, list | tuple):
        return next((bad for i, item in enumerate(value) if (bad := _first_bad(item, f"{path}[{i}]"))), None)
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int):
        return None if abs(value) <= MAX_INT else (path, "an integer beyond 2**53 - 1; pass it through encode_number")
    if isinstance(value, float):
        return None if math.isfinite(value) else (path, f"{value}; pass an unbounded number through encode_number")
    if not isinstance(value, str):
        return path, f"a {type(value).__name__}, which JSON cannot hold"
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return path, "a lone surrogate, expected text that has a UTF-8 form"
    return None


def loads(data: bytes | str) -> Any:
    """Parse JSON strictly: numbers are binary64 (exact small integers stay ints), no key twice, no NaN."""
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
        return json.loads(text, parse_int=_parse_int, parse_constant=_refuse_constant, object_pairs_hook=_pairs)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"malformed JSON: {error}") from error


def _parse_int(text: str) -> int | float:
    if len(text) <= 17 and -MAX_INT <= (value := int(text)) <= MAX_INT:
        return value
    # RFC 8785 writes 1e20 as an integer; beyond 2**53 only the binary64 reading is meant.
    if math.isinf(number := float(text)):
        raise ValueError(f"a number of {len(text)} digits is beyond binary64")
    return number


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice!r} occurs twice")
    return result


def encode_number(x: Any) -> int | float | str:
    """A number in the form a record holds: unbounded values and integers beyond MAX_INT become strings.

    `inf` and `-inf` are written as those strings, big integers as decimal digits, `-0.0` as `0.0`.
    NaN and whatever is not a number are refused. `decode_number` reads it back.
    """
    if not isinstance(x, (bool, int, float, str)) and hasattr(x, "item"):
        x = x.item()  # a NumPy scalar
    if isinstance(x, bool) or not isinstance(x, (int, float)):
        raise RecordError(f"saw {x!r}, expected a number")
    if isinstance(x, int):
        return int(x) if -MAX_INT <= x <= MAX_INT else str(int(x))
    if math.isnan(x):
        raise RecordError("saw nan, expected a number")
    if math.isinf(x):
        return "inf" if x > 0 else "-inf"
    return float(x) + 0.0


def decode_number(value: Any) -> int | float:
    """The number that `encode_number` wrote; any other spelling is refused."""
    if isinstance(value, str):
        if value in ("inf", "-inf"):
            return float(value)
        # 4300 digits is where Python itself stops converting.
        if len(value) <= 4300 and _BIG_INT.fullmatch(value) and abs(big := int(value)) > MAX_INT:
            return big
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return value
    raise RecordError(f"saw {value!r}, expected a number, 'inf', '-inf' or the digits of a big integer")


def digest(value: Any, domain: str) -> str:
    """SHA-256 (hex) of the canonical bytes under a domain; see `digest_bytes`."""
    return digest_bytes(canonical(value), domain)


def digest_bytes(data: bytes, domain: str) -> str:
    """SHA-256 (hex) of `ucsearch/`, the domain, a zero byte and the data.

    The zero byte ends the domain, so that no two domains can hash the same bytes.
    """
    return hashlib.sha256(_domain_prefix(domain) + data).hexdigest()


@lru_cache(maxsize=64)
def _domain_prefix(domain: str) -> bytes:
    if not _DOMAIN.fullmatch(domain):
        raise RecordError(f"digest domain: saw {domain!r}, expected letters a-z, digits, '.', '/' and '-'")
    return f"ucsearch/{domain}\0".encode("ascii")


def record_id(record: Mapping[str, Any]) -> str:
    """The id of a record: the digest `record-id/1` of its canonical bytes without the member `id`."""
    return seal_bytes(record)[0]


def seal(record: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the record with its `id` filled in."""
    return {**record, "id": record_id(record)}


def seal_bytes(record: Mapping[str, Any]) -> tuple[str, bytes]:
    """Id and canonical bytes of a record, whether or not it holds its id yet; one pass over the content."""
    content = {key: value for key, value in record.items() if key != "id"}
    bare = {key: canonical({key: value})[1:-1] for key, value in content.items()}
    keys = sorted([*bare, "id"], key=lambda key: key.encode("utf-16-be"))
    name = digest_bytes(_object(bare, [key for key in keys if key != "id"]), "record-id/1")
    return name, _object({**bare, "id": f'"id":"{name}"'.encode()}, keys)


def _object(members: Mapping[str, bytes], keys: Iterable[str]) -> bytes:
    return b"{" + b",".join(members[key] for key in keys) + b"}"


# -------------------------------------------------------------------- arrays


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
    header_match = _SHAPE.match(blob)
    sizes = header_match[1].split(b",") if header_match else []
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
