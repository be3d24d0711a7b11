"""Ed25519 signatures, verified with the standard library alone (RFC 8032, section 5.1.7, without the cofactor).

Slow (some milliseconds) and not for signing: nothing here is secret, so nothing here takes constant time.
"""

from __future__ import annotations

import hashlib

PRIME = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, PRIME - 2, PRIME) % PRIME
_ROOT = pow(2, (PRIME - 1) // 4, PRIME)  # of -1

Point = tuple[int, int, int, int]  # extended coordinates: x = X/Z, y = Y/Z, xy = T/Z


def verify(key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the signature of the message was made with the private half of this public key."""
    if len(key) != 32 or len(signature) != 64:
        return False
    owner, s = _decoded(key), int.from_bytes(signature[32:], "little")
    if owner is None or s >= ORDER:
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % ORDER
    x, y, z, t = owner
    return _encoded(_sum(_times(s, _BASE), _times(k, (-x % PRIME, y, z, -t % PRIME)))) == signature[:32]


def _sum(p: Point, q: Point) -> Point:
    a = (p[1] - p[0]) * (q[1] - q[0]) % PRIME
    b = (p[1] + p[0]) * (q[1] + q[0]) % PRIME
    c = 2 * p[3] * q[3] * _D % PRIME
    d = 2 * p[2] * q[2] % PRIME
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % PRIME, g * h % PRIME, f * g % PRIME, e * h % PRIME


def _times(n: int, p: Point) -> Point:
    out: Point = (0, 1, 1, 0)
    while n:
        if n & 1:
            out = _sum(out, p)
        p, n = _sum(p, p), n >> 1
    return out


def _encoded(p: Point) -> bytes:
    inverse = pow(p[2], PRIME - 2, PRIME)
    x, y = p[0] * inverse % PRIME, p[1] * inverse % PRIME
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _decoded(data: bytes) -> Point | None:
    """The point that these bytes stand for; None if they stand for none, or are not its one encoding."""
    number = int.from_bytes(data, "little")
    odd, y = number >> 255, number & (2**255 - 1)
    if y >= PRIME:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, PRIME - 2, PRIME) % PRIME
    x = pow(square, (PRIME + 3) // 8, PRIME)
    if (x * x - square) % PRIME:
        x = x * _ROOT % PRIME
    if (x * x - square) % PRIME or (x == 0 and odd):
        return None
    if x & 1 != odd:
        x = PRIME - x
    return x, y, 1, x * y % PRIME


def _base() -> Point:
    point = _decoded((4 * pow(5, PRIME - 2, PRIME) % PRIME).to_bytes(32, "little"))
    if point is None:
        raise ArithmeticError("no base point")
    return point


_BASE = _base()
