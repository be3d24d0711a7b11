"""Canonical JSON: the published vectors of RFC 8785, a second number formatter, and properties."""

import hashlib
import json
import math
import random
import struct
from collections import OrderedDict
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from enum import IntEnum, StrEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kit.counts import some
from ucsearch.errors import RecordError
from ucsearch.records.canonical import (
    MAX_INT,
    canonical,
    decode_number,
    digest,
    digest_bytes,
    encode_number,
    loads,
    record_id,
    seal,
    seal_bytes,
)

# RFC 8785, appendix B: the bits of a binary64 and its text.
NUMBERS = {
    "0000000000000000": "0",
    "8000000000000000": "0",
    "0000000000000001": "5e-324",
    "8000000000000001": "-5e-324",
    "7fefffffffffffff": "1.7976931348623157e+308",
    "ffefffffffffffff": "-1.7976931348623157e+308",
    "4340000000000000": "9007199254740992",
    "c340000000000000": "-9007199254740992",
    "4430000000000000": "295147905179352830000",
    "44b52d02c7e14af5": "9.999999999999997e+22",
    "44b52d02c7e14af6": "1e+23",
    "44b52d02c7e14af7": "1.0000000000000001e+23",
    "444b1ae4d6e2ef4e": "999999999999999700000",
    "444b1ae4d6e2ef4f": "999999999999999900000",
    "444b1ae4d6e2ef50": "1e+21",
    "3eb0c6f7a0b5ed8c": "9.999999999999997e-7",
    "3eb0c6f7a0b5ed8d": "0.000001",
    "41b3de4355555553": "333333333.3333332",
    "41b3de4355555554": "333333333.33333325",
    "41b3de4355555555": "333333333.3333333",
    "41b3de4355555556": "333333333.3333334",
    "41b3de4355555557": "333333333.33333343",
    "becbf647612f3696": "-0.0000033333333333333333",
    "43143ff3c1cb0959": "1424953923781206.2",
}


def from_bits(text: str) -> float:
    (value,) = struct.unpack(">d", bytes.fromhex(text))
    return float(value)


@pytest.mark.parametrize(("bits", "text"), NUMBERS.items())
def test_numbers_of_the_rfc(bits: str, text: str) -> None:
    x = from_bits(bits)
    assert canonical(x) == text.encode()
    assert canonical([x, x]) == f"[{text},{text}]".encode()
    assert canonical({"x": x}) == f'{{"x":{text}}}'.encode()
    assert loads(text) == x


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (1e-7, "1e-7"),
        (1.5e-7, "1.5e-7"),
        (1e-6, "0.000001"),
        (1.25e-5, "0.0000125"),
        (1e-4, "0.0001"),
        (1e15, "1000000000000000"),
        (1e16, "10000000000000000"),
        (1.2345678901234567e17, "123456789012345660"),
        (1e20, "100000000000000000000"),
        (-1e21, "-1e+21"),
        (1.5e300, "1.5e+300"),
        (100.0, "100"),
        (-0.5, "-0.5"),
        (2.0**60, "1152921504606847000"),
    ],
)
def test_numbers_where_repr_differs(x: float, text: str) -> None:
    assert canonical(x) == text.encode()


def ecmascript(x: float) -> str:
    """Number::toString by its definition: the fewest digits that read back, the nearest, even on a tie."""
    if x == 0:
        return "0"
    if x < 0:
        return "-" + ecmascript(-x)
    exact = Decimal(x)
    for size in range(1, 18):
        rounded = [Context(prec=size, rounding=way).create_decimal(exact) for way in (ROUND_FLOOR, ROUND_CEILING)]
        found = [r for r in rounded if float(r) == x]
        if found:
            break
    best = min(found, key=lambda r: (abs(Fraction(r) - Fraction(x)), r.as_tuple().digits[-1] % 2))
    digits = "".join(map(str, best.as_tuple().digits)).rstrip("0")
    k, n = len(digits), best.adjusted() + 1
    if k <= n <= 21:
        return digits + "0" * (n - k)
    if 0 < n <= 21:
        return f"{digits[:n]}.{digits[n:]}"
    if -6 < n <= 0:
        return "0." + "0" * -n + digits
    sign = "+" if n > 0 else "-"
    mantissa = digits if k == 1 else f"{digits[0]}.{digits[1:]}"
    return f"{mantissa}e{sign}{abs(n - 1)}"


def test_numbers_equal_the_definition() -> None:
    rng = random.Random(8785)
    values = [from_bits(rng.randbytes(8).hex()) for _ in range(1500)]
    values += [rng.uniform(0, 1) * 10.0 ** rng.randrange(-9, 24) for _ in range(1500)]
    for exponent in range(-12, 25):
        edge = float(f"1e{exponent}")
        values += [edge, math.nextafter(edge, 0), math.nextafter(edge, math.inf), -edge, 2.0**exponent]
    values = [x for x in values if math.isfinite(x)]
    assert len(values) > 2900
    for x in values:
        assert canonical(x).decode() == ecmascript(x)
    assert canonical(values).decode() == "[" + ",".join(map(ecmascript, values)) + "]"


def test_example_of_the_rfc() -> None:
    text = (
        r'{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],'
        r'"string":"\u20ac$\u000F\u000aA' + "'" + r'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}'
    )
    expected = (
        '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        + '"string":"\u20ac$'
        + r"\u000f\nA'B\"\\\\\"/"
        + '"}'
    )
    assert canonical(loads(text)).decode() == expected


def test_keys_are_sorted_by_utf16_units() -> None:
    order = ["\r", "1", "\x80", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]  # the RFC's own example
    assert sorted(order) != order  # otherwise code point order would pass too
    for seed in range(5):
        keys = random.Random(seed).sample(order, len(order))
        assert list(json.loads(canonical(dict.fromkeys(keys, 1)))) == order


@pytest.mark.parametrize("code", [*range(0x20), 0x22, 0x5C, 0x7F, 0x2028])
def test_string_escapes(code: int) -> None:
    short = {8: r"\b", 9: r"\t", 10: r"\n", 12: r"\f", 13: r"\r", 0x22: r"\"", 0x5C: r"\\"}
    expected = short.get(code, rf"\u{code:04x}" if code < 0x20 else chr(code))
    assert canonical(chr(code)) == f'"{expected}"'.encode()
    assert canonical({chr(code): 0}) == f'{{"{expected}":0}}'.encode()


def test_equal_content_gives_equal_bytes() -> None:
    record = {"b": (1, 2.0, -0.0), "a": {"y": None, "x": [True, False]}, "": "é"}
    same = OrderedDict([("", "é"), ("a", {"x": (True, False), "y": None}), ("b", [1.0, np.float64(2), 0])])
    assert canonical(record) == canonical(same) == '{"":"é","a":{"x":[true,false],"y":null},"b":[1,2,0]}'.encode()


def test_subclasses_are_written_as_their_base() -> None:
    class Level(IntEnum):
        HIGH = 3

    class Outcome(StrEnum):
        HOLD = "HOLD"

    assert canonical({Outcome.HOLD: Level.HIGH, "x": Outcome.HOLD}) == b'{"HOLD":3,"x":"HOLD"}'


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, {"b": math.nan}]}, r"record\.a\[1\]\.b: saw nan"),
        ([1.0, math.inf], r"record\[1\]: saw inf"),
        ([1.5, -math.inf, 2.5], r"record\[1\]: saw -inf"),
        ({"n": MAX_INT + 1}, r"record\.n: saw an integer beyond 2\*\*53"),
        ({"n": -MAX_INT - 1}, r"record\.n: saw an integer beyond 2\*\*53"),
        ({"a": {1: 2}}, r"record\.a: saw the key 1, expected keys that are strings"),
        ({"a": {None: 2, "x": 1}}, r"record\.a: saw the key None"),
        ({"s": "\ud800"}, r"record\.s: saw a lone surrogate"),
        ({"\ud800": 1}, r"record key .*: saw a lone surrogate"),
        ({"a": {1, 2}}, r"record\.a: saw a set, which JSON cannot hold"),
        ({"a": b"x"}, r"record\.a: saw a bytes"),
        ({"a": np.int64(3)}, r"record\.a: saw a int64"),
        ({"a": np.zeros(2)}, r"record\.a: saw a ndarray"),
    ],
)
def test_what_json_cannot_hold_is_refused(value: Any, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        canonical(value)
    if isinstance(value, dict):
        with pytest.raises(RecordError, match=message):
            seal_bytes(value)


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(RecordError, match="containing itself"):
        canonical({"a": loop})


@pytest.mark.parametrize("text", ["\ue000", "\ue0001e-7\ue000", '"\ue000', '\ue000"', "1e-05", ",1.0]"])
def test_text_that_looks_like_a_number_stays_text(text: str) -> None:
    """Small numbers are spelled beside the standard library's encoder, between marks that a text may hold too."""
    for value in ([1e-5, text], {"a": text, "b": 2.5e-7}, {"a": 1e16, "b": [text, 3.0]}):
        assert canonical(value) == rfc8785.dumps(value)
        assert loads(canonical(value)) == value


def test_integers_up_to_the_limit() -> None:
    assert canonical([MAX_INT, -MAX_INT]) == b"[9007199254740991,-9007199254740991]"
    assert loads("[9007199254740991,-9007199254740991]") == [MAX_INT, -MAX_INT]
    assert canonical(loads("9007199254740992")) == b"9007199254740992"
    assert type(loads("9007199254740992")) is float


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a":1,"b":2,"a":3}', "key 'a' occurs twice"),
        ("[NaN]", "NaN is not JSON"),
        ("-Infinity", "-Infinity is not JSON"),
        ("1" * 400, "beyond binary64"),
        ("[1,]", "malformed JSON"),
        ("", "malformed JSON"),
        (b"\xff", "malformed JSON"),
        ("[" * 100_000, "malformed JSON"),
    ],
)
def test_loads_is_strict(text: str | bytes, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        loads(text)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-MAX_INT, MAX_INT)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.lists(st.floats(-1e9, 1e9)),
    max_leaves=25,
)


@given(JSON)
@settings(max_examples=some(400), deadline=None)
def test_reading_back_changes_nothing(value: Any) -> None:
    data = canonical(value)
    assert canonical(loads(data)) == data
    assert loads(data) == value  # 1.0 == 1 and -0.0 == 0 in Python, which is what we want here
    # The standard library reads the same, except that it keeps integers beyond binary64.
    assert json.loads(data, parse_int=float) == json.loads(json.dumps(value), parse_int=float)


@given(st.dictionaries(st.text(), st.integers(0, 9), min_size=2), st.randoms())
@settings(max_examples=some(200), deadline=None)
def test_order_of_members_does_not_matter(value: dict[str, int], rng: random.Random) -> None:
    items = list(value.items())
    rng.shuffle(items)
    assert canonical(dict(items)) == canonical(value)
    keys = list(json.loads(canonical(value)))
    assert keys == sorted(keys, key=lambda key: key.encode("utf-16-be"))


@pytest.mark.parametrize(
    ("x", "stored"),
    [
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (2**53 - 1, 2**53 - 1),
        (2**53, "9007199254740992"),
        (2**53 + 1, "9007199254740993"),
        (-(2**70), "-1180591620717411303424"),
        (1.5, 1.5),
        (-3, -3),
        (np.float64(0.25), 0.25),
        (np.int64(7), 7),
        (np.float32(np.inf), "inf"),
        (np.uint64(2**64 - 1), "18446744073709551615"),
    ],
)
def test_numbers_of_any_size(x: Any, stored: Any) -> None:
    encoded = encode_number(x)
    assert encoded == stored
    assert type(encoded) is type(stored)
    assert decode_number(loads(canonical(encoded))) == x


def test_negative_zero_is_normalised() -> None:
    assert math.copysign(1, encode_number(-0.0)) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize("x", [math.nan, np.float64("nan"), True, np.bool_(True), None, "1", [1], 1j])
def test_what_is_no_number_is_refused(x: Any) -> None:
    with pytest.raises(RecordError, match="expected a number"):
        encode_number(x)


@pytest.mark.parametrize(
    "stored",
    [
        "nan",
        "Infinity",
        "+inf",
        "12",
        "007",
        "9007199254740991",
        "1e30",
        "",
        " inf",
        True,
        None,
        math.inf,
        "9" * 5000,
    ],
)
def test_other_spellings_of_numbers_are_refused(stored: Any) -> None:
    with pytest.raises(RecordError, match="expected a number"):
        decode_number(stored)


def test_digest_is_what_the_documentation_says() -> None:
    expected = hashlib.sha256(b'ucsearch/some-domain/1\0{"a":1}').hexdigest()
    assert digest({"a": 1.0}, "some-domain/1") == digest_bytes(b'{"a":1}', "some-domain/1") == expected
    assert digest({"a": 1}, "some-domain/2") != expected


@pytest.mark.parametrize("domain", ["", "a\0b", "A", "a b", "é", "/a"])
def test_domains_that_could_be_confused_are_refused(domain: str) -> None:
    with pytest.raises(RecordError, match="digest domain"):
        digest({}, domain)


def test_record_id_leaves_the_id_out_and_nothing_else() -> None:
    record = {"schema": "s", "kind": "decision", "a": {"id": "inner"}, "é": 1, "\U0001f600": [0.5]}
    name = record_id(record)
    assert name == digest(record, "record-id/1")
    assert seal(record) == {**record, "id": name}
    assert record_id(seal(record)) == name
    assert record_id({**record, "id": "anything"}) == name
    assert record_id({**record, "a": {"id": "other"}}) != name


@given(st.dictionaries(st.text(max_size=3) | st.sampled_from(["id", "ic", "ie", "kind"]), st.integers(0, 3)))
@settings(max_examples=some(200), deadline=None)
def test_sealed_bytes_are_the_canonical_bytes(record: dict[str, int]) -> None:
    name, body = seal_bytes(record)
    assert body == canonical({**record, "id": name})
    assert name == digest({key: value for key, value in record.items() if key != "id"}, "record-id/1")
