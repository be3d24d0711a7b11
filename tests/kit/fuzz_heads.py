"""Requests that are odd before their bodies: methods, addresses, queries, headers, forms, and how they are framed.

What a server may read in more than one way, or cannot read, ends a connection: nobody can say which answer belongs to
what comes behind it. Such a request says so (`ends`), and is the last of its connection.
"""

from __future__ import annotations

import random
from urllib.parse import quote

import h11

from tests.kit.fuzz_json import LONG, MARK

__all__ = [
    "Header", "assembled", "ends_connection", "odd_form", "odd_framing", "odd_headers", "odd_method", "odd_query",
    "odd_target",
]  # fmt: skip

Header = tuple[bytes, bytes]
METHODS = (
    b"PUT",
    b"PATCH",
    b"DELETE",
    b"OPTIONS",
    b"TRACE",
    b"HEAD",
    b"HEAD",
    b"PROPFIND",
    b"PURGE",
    b"LINK",
    b"MKCOL",
)
UNREAD_METHODS = (b"get", b"", b"CONNECT", b"GETT", b"FOO", b"G\x00T", b"A" * 5_000, b"PRI", b" GET", b"POST\t")
PIECES = (
    b"%00", b"%0A", b"%0d%0a", b"%FF", b"%ff%fe", b"%C3%A9", b"%2F", b"%2f..%2f", b"%25", b"%252F", b"%2e%2e", b"%",
    b"%Z",
    b"%u0041", b"/", b"//", b"/.", b"/..", b"/../", b";x=1", b":", b"@", b"'", b'"', b"<b>", b"\\", b"|", b"~", b"*",
    b"+",
    b"%20", b"{id}", b"%7Bid%7D", b"..%5c", b"\xe2\x80\xae"[:0], b"a" * 300, quote(LONG).encode(), b"%E2%80%AE",
    b"%ED%A0%80", b"?", b"?a", b"??", b".json", b"%F0%9F%9A%9A", b"0" * 64, b"-1", b"1e999",
)  # fmt: skip
UNREAD_PIECES = (b" ", b"\x00", b"\x01", b"\xc3\xa9", b"\xff", b"\t", b"#", b"#x", b"\r", b"\x7f", b"a" * 70_000)
VALUES = (
    b"", b"0", b"1", b"2", b"-1", b"500", b"501", b"1e3", b"1.5", b"9007199254740992", b"9007199254740993", b"9" * 400,
    b"+1", b"%201", b"%EF%BC%91", b"%00", b"%FF", b"%ED%A0%80", b"null", b"true", b"RELEASED", b"released", b"HOLD",
    b"decision", b"none", b"paused", b"calibration", b"%27%20OR%201=1--", b"%25", b"%", b"\\", b"x" * 999, b"x" * 1_001,
    quote(LONG).encode(), b"%E2%80%AE", b"a%0Ab", b"*", b"[]", b"2026-01-01", b"orders", b"watched", b"orders-1",
)  # fmt: skip
NAMES = (
    b"plan", b"series", b"outcome", b"reason", b"kind", b"before", b"limit", b"from", b"to", b"name", b"refresh",
    b"done",
    b"next", b"", b"x", b"plan%5B%5D", b"%00", b"limit%20", b"Limit", quote(LONG).encode(), b"first", b"last",
    b"request",
)  # fmt: skip
FORM = (
    "", " ", "x", "0", "-1", "1e999", "nan", "inf", "5", "5.0", "action:5.0", "action:", "action:nan", "other",
    "withdraw",
    "record", "yes", "\x00", "\r\n", "\u202e", "\U0001f69a", "<img src=x>", "{{7*7}}", "//evil.example", "/console//x",
    "/console/../x", "http://evil.example/console", "/console?a=\r\nb", LONG, MARK * 5_000, "0" * 64, "viewer", "root",
    "9999-12-31T23:59:59+00:00", "2026-02-30", "a reason", "..", "ucs_x", "1" * 400, "\ud7ff", "e\u0301",
    "2062-01-01T00:00Z",
)  # fmt: skip
KINDS = (
    b"", b"text/plain", b"application/json; charset=utf-8", b"APPLICATION/JSON", b"application/jsonx",
    b"application/xml",
    b"application/json, text/plain", b"multipart/form-data; boundary=x", b"application/x-www-form-urlencoded", b"\xff",
    b" application/json", b"application/json;" + b"a" * 2_000, b"application/problem+json", b"json",
)  # fmt: skip
KEYS = (b"", b" ", b"a b", b"x" * 128, b"x" * 129, b"\xe4", b"a\xffb", b"'", b'"k"', b"a,b", LONG.encode(), b"k\tk")
HOSTS = (
    b"", b"evil.example", b"127.0.0.1.evil.example", b"127.0.0.1:80:80", b"127.0.0.1:", b"127.0.0.1:99999",
    b"LOCALHOST",
    b"localhost:1", b"[::1]:8411", b"0.0.0.0", b"127.0.0.1@evil.example", b"evil.example:127.0.0.1", b"\xff",
    b"a" * 3_000,
)  # fmt: skip
TOKENS = (
    b"", b"Bearer", b"Bearer ", b"Bearer ucs_" + b"A" * 43, b"Basic dTpw", b"Bearer \xff\xfe", b"bearer\tx",
    b"Bearer null",
    b"Bearer " + b"a" * 4_000, b"ucs_x", b"Token x", b"Bearer ucs_\xc3\xa9",
)  # fmt: skip
MORE: tuple[Header, ...] = (
    (b"X-Request-Id", b"mine"), (b"X-Request-Id", b"a b"), (b"X-Request-Id", b"x" * 65), (b"X-Request-Id", b"\xff"),
    (b"X-Request-Id", b"<img>"), (b"traceparent", b"00-" + b"0" * 32), (b"traceparent", LONG.encode()),
    (b"traceparent", b"\xff\xfe"), (b"Content-Encoding", b"gzip"), (b"Content-Encoding", b"identity"),
    (b"Content-Encoding", b""), (b"Content-Encoding", b"\xff"), (b"Expect", b"100-continue"), (b"Expect", b"200-ok"),
    (b"If-None-Match", b"*"), (b"If-None-Match", b'"' + b"0" * 64 + b'"'), (b"Origin", b"null"),
    (b"Origin", b"http://evil.example"), (b"Origin", b"http://["), (b"Cookie", b"ucs_session=x"), (b"Cookie",
    b"=;;;=\xff"),
    (b"Cookie", b"ucs_session=" + b"a" * 3_000), (b"Sec-Fetch-Site", b"cross-site"), (b"Sec-Fetch-Site", b"\xff"),
    (b"Accept-Encoding", b"gzip"), (b"Accept", b"text/html"), (b"X-Forwarded-For", b"10.0.0.1"),
    (b"X-Remote-User", b"the admin"), (b"X-HTTP-Method-Override", b"DELETE"), (b"X-Long", b"b" * 9_000), (b"X", b""),
    (b"Range", b"bytes=0-1"), (b"TE", b"trailers"), (b"Trailer", b"Idempotency-Key"), (b"X-\xff"[:2], b"\x80\x81"),
    (b"Host", b"127.0.0.1"), (b"Host", b"evil.example"), (b"Idempotency-Key", b"second"), (b"Authorization",
    b"Basic x"),
    (b"Content-Type", b"text/plain"), (b"Keep-Alive", b"timeout=0"), (b"Connection", b"keep-alive"), (b"Date", b"x"),
)  # fmt: skip
LENGTHS = (b"-1", b"+5", b"0x5", b"5, 5", b"", b" ", b"1e3", b"9" * 30, b"99999999", b"\xff", b"5 5", b"00", b"1_0")
ENCODINGS = (
    b"chunked", b"identity", b"gzip, chunked", b"chunked, chunked", b"chunked, identity", b"xchunked", b"", b"Chunked",
    b"chunked;q=1", b"\x0bchunked",
)  # fmt: skip


def assembled(method: bytes, target: bytes, headers: list[Header], body: bytes, version: bytes = b"HTTP/1.1") -> bytes:
    return b"%b %b %b\r\n%b\r\n%b" % (method, target, version, b"".join([b"%b: %b\r\n" % h for h in headers]), body)


def ends_connection(raw: bytes) -> bool:
    """Whether the server that the service runs on closes the connection after these bytes."""
    conn = h11.Connection(h11.SERVER, max_incomplete_event_size=64 << 10)
    conn.receive_data(raw)
    try:
        while conn.next_event() not in (h11.NEED_DATA, h11.PAUSED):
            pass
        conn.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
        conn.send(h11.EndOfMessage())
    except (h11.RemoteProtocolError, h11.LocalProtocolError):
        return True
    return conn.our_state is not h11.DONE


def odd_method(rng: random.Random) -> tuple[bytes, bool]:
    return (rng.choice(UNREAD_METHODS), True) if rng.random() < 0.15 else (rng.choice(METHODS), False)


def odd_target(target: bytes, rng: random.Random) -> tuple[bytes, bool]:
    """An address near the right one, and whether it ends the connection."""
    path, mark, query = target.partition(b"?")
    way, at = rng.random(), rng.randrange(1, len(path) + 1)
    if way < 0.5:
        return path[:at] + rng.choice(PIECES) + path[at:] + mark + query, False
    if way < 0.6:  # a letter in another way of writing
        one = path[at - 1 : at]
        other = b"%%%02x" % one[0] if rng.random() < 0.7 else one.swapcase()
        return path[: at - 1] + other + path[at:] + mark + query, at == 1
    if way < 0.75:
        return path[:at] + mark + query, False
    if way < 0.85:
        parts = path.split(b"/")
        parts[rng.randrange(1, len(parts))] = rng.choice((*PIECES, b"", b"orders", b"decisions", b"v2", b"console"))
        return (b"/".join(parts) or b"/") + mark + query, False
    if way < 0.95:
        return path[:at] + rng.choice(UNREAD_PIECES) + path[at:] + mark + query, True
    return rng.choice((
        b"http://127.0.0.1" + target, b"http://evil.example" + target, b"*", b"127.0.0.1:80", b"", b"\\",
        b"https://" + target,
        b"http://127.0.0.1@evil.example" + target, b"http:" + target, b"//evil.example" + target, target[1:] or b"x",
    )), True  # fmt: skip


def odd_query(query: bytes, rng: random.Random) -> bytes:
    pairs = [part for part in query.split(b"&") if part]
    way = rng.randrange(6)
    if way == 0 and pairs:
        pairs.pop(rng.randrange(len(pairs)))
    elif way == 1 and pairs:
        pairs.append(rng.choice(pairs))
    elif way == 2 and pairs:
        at = rng.randrange(len(pairs))
        pairs[at] = pairs[at].partition(b"=")[0] + b"=" + rng.choice(VALUES)
    elif way == 3:
        pairs += [rng.choice((b"&", b"=", b"=1", b"a", b"%", b";a=1", b"a=b=c", b"?", b"&&"))]
    elif way == 4 and rng.random() < 0.1:
        pairs += [b"x%d=1" % i for i in range(300)]
    else:
        pairs.append(rng.choice(NAMES) + b"=" + rng.choice(VALUES))
    return b"&".join(pairs)


def odd_form(fields: list[tuple[str, str]], rng: random.Random) -> bytes:
    """A form with one field changed."""
    made, way = list(fields), rng.randrange(8)
    at = rng.randrange(len(made)) if made else 0
    if way < 4 and made:
        made[at] = (made[at][0], rng.choice(FORM))
    elif way == 4 and made:
        del made[at]
    elif way == 5:
        made.append((rng.choice(("csrf", "key", "step", "why", "choice", "extra", "")), rng.choice(FORM)))
    raw = b"&".join(quote(k).encode() + b"=" + quote(v, errors="surrogatepass").encode() for k, v in made)
    if way == 6:
        return raw + rng.choice(
            (b"&%", b"&%ZZ=1", b"&" * 60, b"&a=1" * 60, b"\xff", b"&a=%FF%FE", b";b=1", b"&=", b"\x00")
        )
    if way == 7:
        return rng.choice(
            (b"", b"&", b"=", b"{}", b"a" * 65_000, raw[: rng.randrange(len(raw) + 1)], raw + b"x" * 66_000)
        )
    return raw


def _set(headers: list[Header], name: bytes, value: bytes) -> list[Header]:
    return [(k, value if k == name else v) for k, v in headers]


def odd_headers(headers: list[Header], rng: random.Random) -> tuple[list[Header], bool]:
    """One header changed, taken out, or more than there should be; lengths are left alone."""
    way = rng.randrange(8)
    names = [k for k, _ in headers if k != b"Content-Length"]
    if way == 0:
        gone = rng.choice(names)
        return [h for h in headers if h[0] != gone], False
    if way == 1:
        twice = rng.choice([h for h in headers if h[0] != b"Content-Length"])
        return [*headers, (rng.choice((twice[0], twice[0].lower())), twice[1])], False
    if way == 2:
        return _set(headers, b"Content-Type", rng.choice(KINDS)), False
    if way == 3:
        return _set(headers, b"Idempotency-Key", rng.choice(KEYS)), False
    if way == 4:
        return _set(headers, b"Host", rng.choice(HOSTS)), False
    if way == 5:
        return _set(headers, b"Authorization", rng.choice(TOKENS)), False
    return [*headers, *(rng.choice(MORE) for _ in range(rng.choice((1, 1, 1, 2, 3))))], False


def odd_framing(method: bytes, target: bytes, headers: list[Header], body: bytes, rng: random.Random) -> bytes:
    """Bytes of a request whose end is in doubt: all of them end their connection."""
    way, bare = rng.randrange(14), [h for h in headers if h[0] != b"Content-Length"]
    if way == 0:
        return assembled(method, target, [*bare, (b"Content-Length", rng.choice(LENGTHS))], body)
    if way == 1:
        wrong = max(0, len(body) + rng.choice((-50, -2, -1, 1, 2, 50, 10_000, 9 << 20)))
        return assembled(method, target, [*bare, (b"Content-Length", b"%d" % wrong)], body)
    if way == 2:
        return assembled(method, target, [*headers, (b"Transfer-Encoding", rng.choice(ENCODINGS))], body)
    if way == 3:
        sizes = (
            b"%x" % len(body),
            b"%X" % len(body),
            b"0%x" % len(body),
            b"%x;a=b" % len(body),
            b"-1",
            b"g",
            b"",
            b"f" * 20,
        )
        raw = b"%b\r\n%b\r\n0\r\n%b\r\n" % (
            rng.choice(sizes),
            body,
            rng.choice((b"", b"", b"X: 1\r\n", b"\x00: 1\r\n")),
        )
        return assembled(method, target, [*bare, (b"Transfer-Encoding", rng.choice(ENCODINGS))], raw)
    if way == 4:
        versions = (
            b"HTTP/1.0",
            b"HTTP/0.9",
            b"HTTP/2.0",
            b"HTTP/1.1 x",
            b"HTTP/9.9",
            b"",
            b"http/1.1",
            b"HTTP/1",
            b"ICE/1.0",
        )
        return assembled(method, target, headers, body, rng.choice(versions))
    raw = assembled(method, target, headers, body)
    head = len(raw) - len(body)
    if way == 5:
        return raw[: rng.randrange(1, head)]
    if way == 6:
        return raw[: rng.randrange(head, len(raw) + 1)]
    if way == 7:
        at = rng.randrange(head)
        return raw[:at] + bytes([raw[at] ^ (1 << rng.randrange(8))]) + raw[at + 1 :]
    if way == 8:
        return raw[:head].replace(b"\r\n", rng.choice((b"\n", b"\r", b"\r\r\n", b"\r\n "))) + body
    if way == 9:
        return raw.replace(b": ", rng.choice((b" : ", b"", b":", b":\x00", b":\t", b"\x01: ")), 1)
    if way == 10:
        return assembled(method, target, [*headers, (b"X-A", b"a" * 70_000)], body)
    if way == 11:
        wishes = (b"h2c", b"websocket", b"TLS/1.2", b"\xff", b"")
        return assembled(
            method, target, [*headers, (b"Upgrade", rng.choice(wishes)), (b"Connection", b"Upgrade")], body
        )
    if way == 12:
        return (
            rng.choice(
                (b"\r\n" * 9, b"\x16\x03\x01\x02\x00\x01", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x00" * 99, b"{}")
            )
            + raw
        )
    return assembled(
        method, target, [*headers, (b"Connection", rng.choice((b"close", b"close, keep-alive", b"x")))], body
    )
