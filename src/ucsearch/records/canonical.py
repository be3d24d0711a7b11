"""Canonical JSON (RFC 8785) and the digests built on it: equal content gives equal bytes.

The rules, short enough to be rewritten elsewhere:
- no spaces; members of an object sorted by their keys' UTF-16 code units; UTF-8 without escapes except
  `\\"`, `\\\\`, `\\b \\t \\n \\f \\r` and `\\u00xx` (lower case) for the other control characters;
- every number is a binary64 and is written as ECMAScript writes it: the shortest digits that read back
  exactly, `1.0` as `1`, exponents only from 1e21 up and below 1e-6, `-0.0` as `0`;
- what JSON cannot hold is refused, not bent: NaN, infinities, integers beyond 2**53, lone surrogates,
  keys that are not strings. `encode_number` turns unbounded and big numbers into strings first.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any

from ucsearch.errors import RecordError

__all__ = [
    "MAX_INT",
    "canonical",
    "decode_number",
    "digest",
    "digest_bytes",
    "encode_number",
    "loads",
    "record_id",
    "seal",
    "seal_bytes",
]

MAX_INT = 2**53
"""The largest magnitude up to which every integer is a binary64."""

_DOMAIN = re.compile(r"[a-z0-9][a-z0-9./-]*", re.ASCII)
# Digits of an integer beyond MAX_INT, and no other spelling of it.
_BIG_INT = re.compile(r"-?[1-9][0-9]{15,}", re.ASCII)
_FLOATS = {float}
# Records of one kind repeat the same few key sets; sorting and escaping them once is a third of the work.
_LAYOUTS: dict[tuple[Any, ...], tuple[tuple[str, str], ...]] = {}


def canonical(value: Any) -> bytes:
    """The RFC 8785 bytes of a JSON value made of None, bool, int, float, str, list, tuple and dict."""
    try:
        return _text(value).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise RecordError(_why(value, error)) from error


def _text(value: Any) -> str:
    return _WRITERS[type(value)](value)


def _object_text(value: dict[str, Any]) -> str:
    keys = tuple(value)
    layout = _LAYOUTS.get(keys) or _layout(keys)
    return f"{{{','.join([prefix + _WRITERS[type(x := value[key])](x) for key, prefix in layout])}}}"


def _array_text(value: Sequence[Any]) -> str:
    if value and type(value[0]) is float and set(map(type, value)) == _FLOATS:
        # Only a whole number ends in ".0"; -0.0, exponents, nan and inf take the long way.
        joined = f",{','.join(map(repr, value))},".replace(".0,", ",")
        if "e" in joined or "n" in joined or ",-0," in joined:
            return f"[{','.join(map(float_text, value))}]"
        return f"[{joined[1:-1]}]"
    return f"[{','.join([_WRITERS[type(x)](x) for x in value])}]"


def _int_text(value: int) -> str:
    if not -MAX_INT <= value <= MAX_INT:
        raise ValueError("an integer beyond 2**53; pass it through encode_number")
    return int.__repr__(value)


def _rare_text(value: Any) -> str:
    """Subclasses (numpy.float64 is a float), other mappings, and what is refused."""
    if isinstance(value, int):
        return _int_text(value)
    if isinstance(value, float):
        return float_text(float(value))
    if isinstance(value, str):
        return encode_basestring(str.__str__(value))
    if isinstance(value, Mapping):
        return _object_text(dict(value))
    if isinstance(value, (list, tuple)):
        return _array_text(value)
    raise TypeError(f"a {type(value).__name__}, which JSON cannot hold")


def _layout(keys: tuple[Any, ...]) -> tuple[tuple[str, str], ...]:
    """The keys of an object in canonical order, each with the text before its value; remembered."""
    # Code points and UTF-16 units sort differently only where surrogate pairs occur.
    order = sorted(keys) if "".join(keys).isascii() else sorted(keys, key=_utf16)
    layout = tuple((key, encode_basestring(key) + ":") for key in order)
    if len(keys) <= 64:
        if len(_LAYOUTS) >= 1024:
            _LAYOUTS.clear()
        _LAYOUTS[keys] = layout
    return layout


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")


def float_text(x: float) -> str:
    """A finite float as ECMAScript's Number::toString writes it."""
    text = repr(x)
    if "e" not in text:
        # repr is positional for 1e-4 <= |x| < 1e16, and its shortest digits are the same.
        if text[-2:] == ".0":
            return text[:-2] if x else "0"  # -0.0 too
        if text[-1] in "nf":
            raise ValueError(f"{text}; pass an unbounded number through encode_number")
        return text
    mantissa, _, exponent_text = text.partition("e")
    sign = "-" if mantissa[0] == "-" else ""
    digits = mantissa.lstrip("-").replace(".", "")
    exponent = int(exponent_text)
    if 0 <= exponent < 21:  # more places than digits: 17 digits end below 1e17
        return sign + digits.ljust(exponent + 1, "0")
    if -7 < exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    point = f"{digits[0]}.{digits[1:]}" if len(digits) > 1 else digits
    return f"{sign}{point}e{exponent:+d}"


class _Writers(dict[type, Callable[[Any], str]]):
    def __missing__(self, kind: type) -> Callable[[Any], str]:
        return _rare_text


# By exact type: this is the inner loop of every record.
_WRITERS = _Writers(
    {
        str: encode_basestring,
        float: float_text,
        int: _int_text,
        bool: {True: "true", False: "false"}.__getitem__,
        type(None): lambda _: "null",
        dict: _object_text,
        list: _array_text,
        tuple: _array_text,
    }
)


def _why(value: Any, error: Exception) -> str:
    """Name the first place that `canonical` refuses; walks the value again because failure is rare."""
    if isinstance(error, RecursionError):
        return "record: saw a value nested too deeply or containing itself, expected a tree"
    path, reason = _first_bad(value, "record") or ("record", str(error))
    return f"{path}: saw {reason}"


def _first_bad(value: Any, path: str) -> tuple[str, str] | None:
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                return path, f"the key {key!r}, expected keys that are strings"
            if bad := _first_bad(key, f"{path} key {key!r}"):
                return bad
            if bad := _first_bad(value[key], f"{path}.{key}"):
                return bad
        return None
    if isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            if bad := _first_bad(item, f"{path}[{index}]"):
                return bad
        return None
    try:
        _text(value).encode("utf-8")
    except UnicodeEncodeError:
        return path, "a lone surrogate, expected text that has a UTF-8 form"
    except (TypeError, ValueError) as error:
        return path, str(error)
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
    """A number in the form a record holds: unbounded values and integers beyond 2**53 become strings.

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
    try:
        keys = (*(key for key in record if key != "id"), "id")
        layout = _LAYOUTS.get(keys) or _layout(keys)
        parts = [prefix if key == "id" else prefix + _text(record[key]) for key, prefix in layout]
        place = [key for key, _ in layout].index("id")
        bare = ",".join(parts[:place] + parts[place + 1 :])
        name = digest_bytes(f"{{{bare}}}".encode(), "record-id/1")
        parts[place] += f'"{name}"'
        return name, f"{{{','.join(parts)}}}".encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise RecordError(_why(record, error)) from error
