"""Bodies that are almost right: a JSON text with the places of its parts, and changes of one of them.

Texts are changed, not objects: only so a number can be `NaN` or `1e999`, a key be there twice, a comma be missing.
"""

from __future__ import annotations

import json
import random
import re
from typing import Any, NamedTuple

__all__ = ["LONG", "MARK", "Parts", "broken_bytes", "changed", "parts_of"]

MARK = "zQ"  # long texts are made of it, so that one sees how much of it comes back
LONG = MARK * 300
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[-+0-9.eE]+|true|false|null|[\[\]{},:]')
_DEEP = 100_000

NUMBERS = (
    "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1e308", "-1e308", "1.7976931348623157e308", "5e-324", "-5e-324",
    "-0.0", "-0", "0", "1", "-1", "2", "0.1", "1e15", "1e16", "1.0000000000000001e16", "9007199254740993", "1e3",
    "1E+2",
    "1" + "0" * 400, "9" * 5_000, "0." + "1" * 2_000, "1e-400", "18446744073709551616", "-9223372036854775809",
    "0x10", "01", "+1", ".5", "1.", "1_000", "\uff11", "1e", "--1", "tru", "True", "None", "undefined", "'x'", "4,5",
)  # fmt: skip
WORDS = (
    "", " ", "x", "4.0", "inf", "-inf", "nan", "null", "\\ud800", "\\udc00\\ud800", "\\u0000", "a\\u0000b", "\x00",
    "\\u202e", "\\u001b[2J", "\x01", "\x7f", "\u2028", "\U0001f69a", "\\ud83d\\ude9a", "\ufeff", "e\u0301", LONG,
    MARK * 20_000, "\u00e9" * 1_000, "\u6f22" * 201, "2026-01-01", "2026-01-01T00:00:00", "2026-01-01T00:00:00Z",
    "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "2026-02-30T00:00:00+00:00", "24:00", "now", "0" * 64,
    "F" * 64, "f" * 63, "0" * 63 + "\\n", "../../etc/passwd", "..", "{{7*7}}", "<img src=x onerror=alert(1)>",
    "%s%n%00",
    "' OR 1=1 --", "\\\\", "\\", '"', "\\x41", "a/b", "A\\r\\nSet-Cookie: a=b", "$blob", "__proto__", "=cmd()",
)  # fmt: skip
OTHERS = (
    "true", "false", "null", "[]", "{}", "[[]]", "[null]", "[{}]", "{\"a\":1}", "[1]", "[1,2,3]", "[true]", '["1"]',
    '{"$blob":"' + "0" * 64 + '"}', "[" * 300 + "]" * 300, '{"a":' * 300 + "1" + "}" * 300,
    "[" + "1," * 600 + "1]", "[" + "null," * 5_000 + "1]", "[" + "[1,2,3]," * 5_000 + "[1,2,3]]", "", ",", ":", "}",
    "]",
    "/* */1", "1 1", "\u00a01", "\x0b1", "\ufeff1",
)  # fmt: skip
KEYS = (
    "", "extra", "items", "series", "state", "forecast", "members", "mean", "std", "quantiles", "on_hand", "0.5", "1.5",
    "-0.1", "nan", "0.50", "id", "why", "expects", "action", "value", "step", "taken", "until", "accept", "lead_time",
    "holding", "\\u0000", "\\ud800", LONG, "__class__", "$blob", "Series", "seri\\u0065s", "x:y", " series",
)  # fmt: skip


class Parts(NamedTuple):
    """A compact JSON text, and where things begin and end in it."""

    text: str
    values: tuple[tuple[int, int], ...]  # every value, lists and objects too
    named: tuple[tuple[int, int], ...]  # those of members of objects
    members: tuple[tuple[int, int, int], ...]  # key, end of the key, end of the value
    elements: tuple[tuple[int, int], ...]  # of lists


def parts_of(content: Any) -> Parts:
    text = json.dumps(content, separators=(",", ":"))
    values, named, members, elements = [], [], [], []
    stack: list[tuple[str, int, tuple[int, int] | None]] = []  # bracket, where, the key that it belongs to
    key: tuple[int, int] | None = None
    tokens = list(_TOKEN.finditer(text))

    def found(start: int, end: int, own: tuple[int, int] | None) -> None:
        values.append((start, end))
        if own is not None:
            named.append((start, end))
            members.append((own[0], own[1], end))
        elif stack:
            elements.append((start, end))

    for i, token in enumerate(tokens):
        part = token[0]
        if part in "[{":
            stack.append((part, token.start(), key))
            key = None
        elif part in "]}":
            _, start, own = stack.pop()
            found(start, token.end(), own)
        elif part == ":" or part == ",":
            continue
        elif i + 1 < len(tokens) and tokens[i + 1][0] == ":":
            key = token.span()
        else:
            found(*token.span(), key)
            key = None
    return Parts(text, tuple(values), tuple(named), tuple(members), tuple(elements))


def _drawn(rng: random.Random) -> str:
    way = rng.random()
    if way < 0.4:
        return rng.choice(NUMBERS)
    return f'"{rng.choice(WORDS)}"' if way < 0.75 else rng.choice(OTHERS)


def _replaced(body: Parts, rng: random.Random) -> str:
    start, end = rng.choice(body.named if body.named and rng.random() < 0.6 else body.values)
    return body.text[:start] + _drawn(rng) + body.text[end:]


def _nudged(body: Parts, rng: random.Random) -> str:
    """Another number where one was: most of what comes of it may be decided."""
    start, end = rng.choice(body.values)
    try:
        old = float(body.text[start:end])
    except ValueError:
        return _replaced(body, rng)
    new = rng.choice((old + 1.0, -old, old * 1e3, old * 1e-3, old / 3.0, float(int(old)), old + 1e-9))
    return body.text[:start] + repr(new) + body.text[end:]


def _dropped(body: Parts, rng: random.Random) -> str:
    start, _, end = rng.choice(body.members)
    text = body.text
    if rng.random() < 0.9:  # with its comma
        if end < len(text) and text[end] == ",":
            end += 1
        elif text[start - 1] == ",":
            start -= 1
    return text[:start] + text[end:]


def _added(body: Parts, rng: random.Random) -> str:
    start, _, _ = rng.choice(body.members)
    return f'{body.text[:start]}"{rng.choice(KEYS)}":{_drawn(rng)},{body.text[start:]}'


def _renamed(body: Parts, rng: random.Random) -> str:
    start, end, _ = rng.choice(body.members)
    return f'{body.text[:start]}"{rng.choice(KEYS)}"{body.text[end:]}'


def _twice(body: Parts, rng: random.Random) -> str:
    start, middle, end = rng.choice(body.members)
    own = body.text[start:end] if rng.random() < 0.5 else f"{body.text[start:middle]}:{_drawn(rng)}"
    return f"{body.text[:start]}{own},{body.text[start:]}"


def _repeated(body: Parts, rng: random.Random) -> str:
    if not body.elements:
        return _replaced(body, rng)
    start, end = rng.choice(body.elements)
    own = body.text[start:end]
    times = rng.choice((1, 1, 2, 10, 70)) if len(own) < 400 else rng.choice((1, 2))
    return body.text[:start] + (own + ",") * times + body.text[start:]


def _swapped(body: Parts, rng: random.Random) -> str:
    (start, end), (a, b) = rng.choice(body.values), rng.choice(body.values)
    return body.text[:start] + body.text[a:b] + body.text[end:]


_WAYS = (_replaced,) * 12 + (_nudged, _dropped, _dropped, _added, _added, _renamed, _twice, _repeated, _swapped)


def changed(body: Parts, rng: random.Random) -> bytes:
    """The body with one place changed."""
    return rng.choice(_WAYS)(body, rng).encode("utf-8", "surrogatepass")


def broken_bytes(raw: bytes, rng: random.Random) -> bytes:
    """Bytes changed without looking at what they say."""
    way, n = rng.randrange(9), len(raw)
    at = rng.randrange(n + 1)
    if way == 0 and n:
        at = rng.randrange(n)
        return raw[:at] + bytes([raw[at] ^ (1 << rng.randrange(8))]) + raw[at + 1 :]
    if way == 1:
        return raw[:at]
    if way == 2:
        return raw[:at] + bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9))) + raw[at:]
    if way == 3:
        return raw[:at] + raw[at + rng.randrange(1, 9) :]
    if way == 4:
        return rng.choice((b"\xef\xbb\xbf" + raw, raw + b"\x00", b"\x00" + raw, raw + raw, raw + b"}", b" \n" + raw))
    if way == 5:
        return raw.decode("utf-8", "replace").encode(rng.choice(("utf-16", "utf-32", "utf-16-be", "utf-7")), "replace")
    if way == 6:
        return raw.replace(b'"', rng.choice((b"'", b"", b'\\"')))
    if way == 7:
        return rng.choice((b"", b"null", b"[]", b"{}", b"7", b'""', b"\xff" * 10, b"{" * 1_000, b"[" * 3_000))
    if rng.random() < 0.02:
        return b"[" * _DEEP + (b"]" * _DEEP if rng.random() < 0.5 else b"")
    return raw[:at] + rng.choice((b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80")) + raw[at:]
