"""Signed checkpoints: a log's size, tree root and head as a C2SP signed note, which existing witnesses can read.

    example.com/decisions                    origin: whose log
    12043                                    entries
    mFv8...=                                 root of the RFC 6962 tree over the heads, base64
    ucsearch-head 3fQM...=                   the chain's own head, so that a part of an export can be checked alone

    — example.com/decisions Az3gri...=       name of the key, base64 of its hash and the Ed25519 signature

https://c2sp.org/tlog-checkpoint and https://c2sp.org/signed-note say the rest; keys have the text forms of Go's package
`note`. Signing needs `cryptography` (extra `sign`); the verifier checks signatures by itself.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from base64 import b64decode, b64encode
from pathlib import Path
from typing import TYPE_CHECKING

from ucsearch.errors import InputError, RecordError
from ucsearch.records.files import whole_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["Signer", "checkpoint_text", "make_key"]

_ED25519 = b"\x01"
_PRIVATE = "PRIVATE+KEY+"
_NAME = re.compile(r"[^\s+]+")


def checkpoint_text(origin: str, size: int, root: bytes, head: str) -> str:
    """What is signed; it ends with a line feed."""
    _check_name("origin", origin)
    extension = b64encode(bytes.fromhex(head)).decode()
    return f"{origin}\n{size}\n{b64encode(root).decode()}\nucsearch-head {extension}\n"


class Signer:
    """A private key, read from the file that `make_key` wrote."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        place = Path(path)
        try:
            status = place.stat()
            if os.name == "posix" and stat.S_IMODE(status.st_mode) & 0o077:
                raise RecordError(f"{place}: others may read this private key; chmod 600 it, or make a new one")
            text = place.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise RecordError(f"{place}: cannot be read ({error})") from error
        try:
            name, hashed, encoded = text.removeprefix(_PRIVATE).split("+", 2)
            data = b64decode(encoded, validate=True)
            if not text.startswith(_PRIVATE) or data[:1] != _ED25519 or len(data) != 33:
                raise ValueError
        except ValueError:
            raise RecordError(f"{place}: not a private key of `ucsearch log checkpoint --new-key`") from None
        self.name = name
        self._key = _private(data[1:])
        self._hash = _key_hash(name, _public(self._key))
        if self._hash.hex() != hashed:
            raise RecordError(f"{place}: the private key is damaged: its hash is another")

    @property
    def verifier(self) -> str:
        """The public half, for whoever verifies."""
        return _verifier_key(self.name, _public(self._key))

    def sign(self, text: str) -> str:
        """The note: the text, an empty line, the signature."""
        signature = b64encode(self._hash + self._key.sign(text.encode("utf-8"))).decode()
        return f"{text}\n\N{EM DASH} {self.name} {signature}\n"


def make_key(path: str | os.PathLike[str], name: str) -> str:
    """Write a new private key to `path` and its public half to `path.pub`; returns the public half."""
    _check_name("name", name)
    place = Path(path)
    public_place = place.with_name(place.name + ".pub")
    for target in (place, public_place):
        if target.exists() or target.is_symlink():
            raise RecordError(f"{target}: there is a file already; a key is never replaced")
    key = _generated()
    public = _public(key)
    secret = key.private_bytes_raw()
    text = f"{_PRIVATE}{name}+{_key_hash(name, public).hex()}+{b64encode(_ED25519 + secret).decode()}\n"
    for target, content in ((place, text), (public_place, _verifier_key(name, public) + "\n")):
        with whole_file(target, private=True) as file:
            file.write(content.encode("utf-8"))
    return _verifier_key(name, public)


def _check_name(field: str, name: str) -> None:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None or not name.isprintable():
        raise InputError(field, repr(name), "a name without spaces and plus signs, such as example.com/decisions")


def _key_hash(name: str, public: bytes) -> bytes:
    return hashlib.sha256(name.encode("utf-8") + b"\n" + _ED25519 + public).digest()[:4]


def _verifier_key(name: str, public: bytes) -> str:
    return f"{name}+{_key_hash(name, public).hex()}+{b64encode(_ED25519 + public).decode()}"


def _public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def _private(secret: bytes) -> Ed25519PrivateKey:
    return _kind().from_private_bytes(secret)


def _generated() -> Ed25519PrivateKey:
    return _kind().generate()


def _kind() -> type[Ed25519PrivateKey]:
    try:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError as error:
        raise RecordError("signing needs cryptography; install it with: pip install cryptography") from error
    return Ed25519PrivateKey
